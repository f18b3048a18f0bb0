/** What a bundle may cost: the time that it is read and judged in is everybody's. */
import { expect, it } from "vitest";
import type { Bundle } from "../../../lib/agents/bundle.ts";
import { MAX_FAULTS, planOf } from "../../../lib/bundles/plan.ts";

const MB = 1_000_000;
const fill = (unit: string, bytes: number) => unit.repeat(Math.floor(bytes / unit.length));
const many = <T>(n: number, make: (i: number) => T): T[] => Array.from({ length: n }, (_, i) => make(i));
const file = (i: number, kind: string, content: string, content_type = "text/plain") => ({
  ...{ lookup_key: `k${i}`, kind, content, content_type },
});
const yaml = (i: number, kind: string, content: string) => file(i, kind, content, "application/yaml");
const json = (i: number, kind: string, said: unknown) => file(i, kind, JSON.stringify(said), "application/json");
const skill = (metadata: string) => `---\nname: a\ndescription: b\nmetadata: {a: [${metadata}]}\n---\n`;
const parameters = {
  type: "object",
  properties: Object.fromEntries(many(1000, (i) => [`p${i}`, { type: "string", pattern: "^(a|b)*c{1,50}$" }])),
};
const aTool = { tool_type: "custom", description: "d", handler_type: "script", config_ref: "k0", parameters };
const actions = many(100, () => ({ action_type: "custom", title: "t", depends_on: many(100, (i) => `nothing-${i}`) }));

/** Worst cases, and what is said of each; null: that it is well. */
const hostile: [string, Omit<Bundle, "template"> & { template?: object }, string | null][] = [
  [
    "a thousand thousand words of YAML in many files",
    { configs: many(400, (i) => yaml(i, "AgentMessageSchema", `schema: {a: [${fill("a,", 2500)}]}`)) },
    "must have at most 50000 words",
  ],
  [
    "dashes",
    { configs: many(8, (i) => yaml(i, "AgentMessageSchema", fill("- ", MB))) },
    "must have at most 50000 words",
  ],
  [
    "lists in lists, as deep as words go",
    { configs: [yaml(0, "AgentMessageSchema", fill("- ", 45_000))] },
    "is not valid YAML",
  ],
  [
    "names that stand for parts, over and over",
    { configs: many(40, (i) => yaml(i, "AgentMessageSchema", `a: &a [${fill("x,", 600)}]\nb: [${fill("*a,", 270)}]`)) },
    "must hold at most 100000 values",
  ],
  [
    "YAML in front of documents",
    { configs: many(200, (i) => file(i, "Skill", skill(fill("a,", 39_000)))) },
    "must have at most 50000 words",
  ],
  [
    "values of JSON",
    { configs: many(40, (i) => json(i, "AgentMessageSchema", { schema: { a: many(90_000, () => i) } })) },
    "must hold at most 100000 values",
  ],
  [
    "content that is wrong at every place",
    { configs: many(60, (i) => json(i, "AgentTemplate", { name: i, tools: many(8000, () => ({ a: 1 })) })) },
    "must be of type string",
  ],
  [
    "scripts",
    { configs: many(490, (i) => file(i, "Script", `${fill("let a = 1\n", 16_000)}1`)) },
    "hold more than 512 KB together",
  ],
  [
    "one template of many patterns that every tool names",
    {
      template: { name: "A", tools: many(100, (i) => ({ template_path: "t", name: `t${i}` })) },
      configs: [
        file(0, "Script", "1"),
        { ...json(1, "AgentToolTemplate", { ...aTool, name: "t", display_name: "T" }), lookup_key: "t" },
      ],
    },
    null,
  ],
  [
    "actions of templates without number",
    {
      template: { name: "A", routines: many(100, (i) => ({ template_path: "r", name: `r${i}` })) },
      configs: [
        {
          ...json(0, "AgentRoutineTemplate", {
            ...{ name: "r", display_name: "R", preset_name: "do_task", setup_actions: actions },
          }),
          lookup_key: "r",
        },
      ],
    },
    "are more than 1000",
  ],
  [
    "bytes",
    { configs: many(7, (i) => ({ ...file(i, "File", fill("AAAA", MB)), data_encoding: "base64" as const })) },
    null,
  ],
];

it.each(hostile)("a bundle of %s takes no long time", async (_, bundle, said) => {
  const before = process.cpuUsage();
  const plan = await planOf({ template: { name: "A" }, ...bundle } as Bundle);
  const { user, system } = process.cpuUsage(before);
  const told = plan.faults.map(({ message }) => message);
  if (said === null) expect(told).toEqual([]);
  else expect(told.join("\n")).toContain(said);
  expect(told.length).toBeLessThanOrEqual(2 * MAX_FAULTS + 1);
  // A quarter of it on a machine that does nothing else; without the bounds, from three to thirty seconds.
  expect((user + system) / 1000).toBeLessThan(1500);
});
