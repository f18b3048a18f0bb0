import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { bytesOf, canonical, convert, judge, parseStructured, spoken } from "../../../lib/configs/content.ts";
import { checkSchema } from "../../../lib/configs/json-schema.ts";
import { configKinds, isStructured } from "../../../lib/configs/kinds.ts";

const YAML = "application/yaml";
const JSON_TYPE = "application/json";
const read = (text: string, mime = YAML) => parseStructured(mime, text);
/** What YAML and JSON both can say, and Postgres can keep. */
const value = fc.jsonValue({ maxDepth: 4 }).filter((value) => !JSON.stringify(value).includes("\\u"));
const contentOf = (text: string, mime_type = YAML) => ({ mime_type, encoding: "raw" as const, text });
const hashOf = async (kind: string, text: string, mime_type?: string) =>
  (await judge([kind], contentOf(text, mime_type))).get(kind)!.hash;

/** The same value with the names of its fields in another order. */
const shuffled = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(shuffled);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([name, part]) => [name, shuffled(part)]),
  );
};

describe("YAML and JSON", () => {
  it("say the same: each turns into the other and back", () => {
    fc.assert(
      fc.property(value, (value) => {
        expect(canonical((read(stringify(value)) as { value: unknown }).value)).toBe(canonical(value));
        const json = JSON.stringify(value);
        const yaml = convert(contentOf(json, JSON_TYPE), "yaml")!;
        expect(canonical(JSON.parse(convert(contentOf(yaml), "json")!))).toBe(canonical(JSON.parse(json)));
      }),
      { numRuns: 300 },
    );
  });

  it.each<[string, unknown]>([
    ["no: off", { no: "off" }],
    ["a: 0o17\nb: 017\nc: 1_000", { a: 15, b: 17, c: "1_000" }],
    ["at: 2026-11-22", { at: "2026-11-22" }],
    ["<<: {a: 1}", { "<<": { a: 1 } }],
    ["a: &x [1]\nb: *x", { a: [1], b: [1] }],
    ["", null],
    ["a: |\n  two\n  lines\n", { a: "two\nlines\n" }],
    ["__proto__: {a: 1}", JSON.parse('{"__proto__": {"a": 1}}')],
  ])("is YAML 1.2: %j", (text, value) => {
    const parsed = read(text) as { value: unknown };
    expect(canonical(parsed.value)).toBe(canonical(value));
  });

  it.each([
    ["two documents", "a: 1\n---\nb: 2"],
    ["one name twice", "a: 1\na: 2"],
    ["a number that JSON has not", "a: .inf"],
    ["a text that Postgres has not", 'a: "\\0"'],
    ["a set", "a: !!set {x, y}"],
    ["a text that never ends", 'a: "'],
    ["a part that stands for nothing", "a: *x"],
  ])("refuses %s", (_, text) => {
    expect(read(text)).toEqual({ fault: expect.any(String) });
  });

  it.each<[string, string, string?]>([
    [
      "parts that hold parts ten times over",
      [
        "a0: &a0 [x]",
        ...Array.from({ length: 9 }, (_, i) => `a${i + 1}: &a${i + 1} [${`*a${i},`.repeat(9)}*a${i}]`),
      ].join("\n"),
    ],
    ["a long text that is said a hundred times", `a: &a ${"x".repeat(500_000)}\nb: [${"*a,".repeat(90)}*a]`],
    ["lists in lists in YAML", "[".repeat(100_000)],
    ["maps in maps in YAML", Array.from({ length: 700 }, (_, i) => `${" ".repeat(i)}a:`).join("\n")],
    ["lists in lists in JSON", "[".repeat(100_000) + "]".repeat(100_000), JSON_TYPE],
    ["very many values", `[${"1,".repeat(200_000)}1]`, JSON_TYPE],
    ["very many values in YAML", "- 1\n".repeat(200_000)],
  ])("takes a bounded time for %s", (_, text, mime) => {
    const start = performance.now();
    expect(read(text, mime)).toEqual({ fault: expect.any(String) });
    expect(performance.now() - start).toBeLessThan(10_000);
  });
});

it("reads a map of 10,000 names in a bounded time", () => {
  const start = performance.now();
  const map = Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [`k${i}`, i]));
  expect(read(stringify(map))).toEqual({ value: map });
  expect(performance.now() - start).toBeLessThan(10_000);
});

describe("the hash of content", () => {
  it("is one for one value, in whatever order and form it is said, and another for another", async () => {
    await fc.assert(
      fc.asyncProperty(fc.dictionary(fc.string(), value), value, async (map, other) => {
        const body = JSON.parse(JSON.stringify({ ...map, name: "n", metadata: { other } }));
        const said = [JSON.stringify(body), JSON.stringify(shuffled(body), null, 2)];
        const hashes = await Promise.all([
          ...said.map((text) => judge(["AgentTemplate"], contentOf(text, JSON_TYPE))),
          judge(["AgentTemplate"], contentOf(stringify(body))),
        ]);
        const [first, ...rest] = hashes.map((judged) => judged.get("AgentTemplate"));
        for (const one of rest) expect([one!.hash, one!.errors]).toEqual([first!.hash, first!.errors]);
        const more = await judge(["AgentTemplate"], contentOf(JSON.stringify({ ...body, more: 1 }), JSON_TYPE));
        if (first!.hash !== null && !("more" in body)) expect(more.get("AgentTemplate")!.hash).not.toBe(first!.hash);
      }),
      { numRuns: 60 },
    );
  });

  it("is of the bytes where they aren't read, as text or as base64", async () => {
    expect(await hashOf("Config", '{"a":1}', JSON_TYPE)).not.toBe(await hashOf("Config", '{ "a": 1 }', JSON_TYPE));
    const base64 = { mime_type: "text/plain", encoding: "base64" as const, text: btoa("abc") };
    expect((await judge(["File"], base64)).get("File")!.hash).toBe(await hashOf("File", "abc", "text/plain"));
    expect(bytesOf({ encoding: "base64", text: "!" })).toBe(null);
  });
});

describe("a kind", () => {
  it.each(Object.entries(configKinds))("%s takes its own sample, without a warning", async (name, kind) => {
    if (kind.schema) expect(checkSchema(kind.schema)).toEqual([]);
    if (kind.sample === undefined) return expect(kind.classification).toBe("file");
    const judged = (await judge([name], contentOf(kind.sample))).get(name)!;
    expect(judged).toEqual({ errors: [], warnings: [], hash: expect.stringMatching(/^sha256:[0-9a-f]{64}$/) });
  });

  const judgedAs = async (kind: string, text: string) => {
    const { errors, warnings } = (await judge([kind], contentOf(text))).get(kind)!;
    return [errors.map(spoken), warnings.map(spoken)];
  };

  it("takes both spellings of the public formats, and warns of what it doesn't know", async () => {
    for (const text of [
      "name: a\ntools: [{tool_type: builtin, builtin_tool_key: search}, {kind: custom, name: b}, {template_path: t.yaml}]",
      "name: a\ninstallations: [{install_type: x}, {kind: y}]",
      "name: a\nsetup_actions: [{action_type: env_var, title: t}, {kind: install, title: t, depends_on: [x]}]",
    ]) {
      expect(await judgedAs("AgentTemplate", text)).toEqual([[], []]);
    }
    expect(await judgedAs("AgentTemplate", "name: a\nidentiy: b")).toEqual([
      [],
      ['/identiy: is not a known field; did you mean "identity"?'],
    ]);
    expect((await judgedAs("AgentTemplate", "name: a\ntools: [{name: b}]"))[0]).toEqual([
      "/tools/0: has none of the forms that are allowed",
    ]);
    expect((await judgedAs("AgentTemplate", "name: a\nkind: Skill"))[0]).toEqual(['/kind: must be "AgentTemplate"']);
  });

  it.each<[string, string[]]>([
    ["method: GET\nurl: https://a.example/{{ x }}", []],
    ["method: GET\nurl: https://a.example:8443", []],
    ["method: GET\nurl: https://{{ x }}.example/", ["/url: is not of the right form"]],
    ["method: GET\nurl: https://a.example.{{ x }}", ["/url: is not of the right form"]],
    ["method: GET\nurl: https://a.example@{{ x }}/", ["/url: is not of the right form"]],
    ["method: GET\nurl: https://{{ x }}.example/\nhosts: [a.example]", []],
    ["method: GET\nurl: ftp://a.example/", ["/url: is not of the right form"]],
    ["method: GET\nurl: https://a.example/\nauth: { env_var: K, as: header }", ['/auth: must have "name"']],
    ["method: GET\nurl: https://a.example/\nauth: { env_var: K, as: header, name: X-Key }", []],
    [
      "method: GET\nurl: https://a.example/\nauth: { env_var: K, as: bearer, name: x }",
      ["/auth: is what it must not be"],
    ],
    ["method: GET\nurl: https://a.example/\nsecret: x", ["/secret: is not a known field"]],
    ["method: FETCH\nurl: https://a.example/", [expect.stringMatching(/^\/method: must be one of/) as never]],
  ])("HttpTool: %j", async (text, errors) => {
    expect(await judgedAs("HttpTool", text)).toEqual([errors, []]);
  });

  it("reads a skill's front matter, and a script's language", async () => {
    expect((await judgedAs("Skill", "# no front matter"))[0]).toEqual(['must have "name"', 'must have "description"']);
    expect((await judgedAs("Skill", "---\nname: a\ndescription: b\n---"))[0]).toEqual([]);
    expect((await judgedAs("Skill", "---\nname: [\n---\n"))[0]).toEqual([expect.stringContaining("not valid YAML")]);
    expect((await judgedAs("Script", "let x ="))[0]).toEqual([expect.stringMatching(/^line 1, column \d+: /)]);
    expect(await judgedAs("Script", 'import("of_another").call()')).toEqual([[], []]);
    expect(isStructured("Skill")).toBe(false);
  });
});
