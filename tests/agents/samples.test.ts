/** Agents as users of the public formats write them: installed, exported, and installed elsewhere. */
import { readdirSync, readFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { anApp, type Call, must } from "../harness/index.ts";

const samples = resolve(import.meta.dirname, "../samples");
const AGENTS = "/api/v1/agents";

/** Files of a sample under a folder, by their paths in the sample. */
function filesOf(sample: string, folder = "."): { relative_path: string; content: string }[] {
  const root = join(samples, sample);
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort()
    .map((path) => ({ relative_path: relative(root, path), content: readFileSync(path, "utf8") }));
}

/** The sample as the contract's bundle. */
function bundleOf(sample: string) {
  const files = filesOf(sample);
  const isSkill = (path: string) => path.startsWith("skills/");
  return {
    template: files.find(({ relative_path }) => relative_path === "agent.yaml")!,
    configs: files.filter(({ relative_path: path }) => path !== "agent.yaml" && !isSkill(path)),
    skills: files
      .filter(({ relative_path }) => relative_path.endsWith("/SKILL.md"))
      .map((skill) => {
        const folder = skill.relative_path.slice(0, -"SKILL.md".length);
        const inside = files.filter(
          ({ relative_path: path }) => path.startsWith(folder) && path !== skill.relative_path,
        );
        return { ...skill, files: inside };
      }),
  };
}

const kinds: Record<string, [kind: string, mime_type: string]> = {
  scripts: ["Script", "text/plain"],
  tools: ["AgentToolTemplate", "application/yaml"],
  routines: ["AgentRoutineTemplate", "application/yaml"],
};
const stemOf = (path: string) => path.split("/").at(-1)!.split(".")[0]!;

/** Saves the sample as configs of the caller's org, one by one, and makes an agent of its template. */
async function installFrom(call: Call, sample: string): Promise<any> {
  const save = (fields: object) => must(call("POST", "/api/v1/config", { system: true, ...fields }), 201);
  const { template, configs, skills } = bundleOf(sample);
  for (const { relative_path, content } of configs) {
    const [kind, mime_type] = kinds[relative_path.split("/")[0]!]!;
    const names = kind === "Script" ? { lookup_key: stemOf(relative_path) } : { virtual_path: relative_path };
    await save({ kind, mime_type, raw_content: content, ...names });
  }
  for (const { relative_path, content, files } of skills) {
    const folder = relative_path.split("/").slice(0, -1).join("/");
    const [kind, mime_type] = ["Skill", "text/markdown"];
    const { id } = await save({ kind, mime_type, raw_content: content, lookup_key: folder.split("/").at(-1) });
    for (const file of files) {
      const path = file.relative_path.slice(folder.length + 1);
      await save({ kind: "File", mime_type: "text/plain", raw_content: file.content, parent: id, relative_path: path });
    }
  }
  const lookup_key = sample;
  await save({ kind: "AgentTemplate", mime_type: "application/yaml", raw_content: template.content, lookup_key });
  return must(call("POST", AGENTS, { template: sample }), 200);
}

const exported = (call: Call, agent: { id: string }): Promise<any> =>
  must(call("GET", `${AGENTS}/${agent.id}/export`), 200);
/** Without ids, owners, instants and version numbers. */
const plain = ({ template, configs }: any) => ({
  template,
  configs: configs.map((config: any) => ({
    ...{ kind: config.kind, lookup_key: config.lookup_key, virtual_path: config.virtual_path },
    ...{ relative_path: config.relative_path, mime_type: config.mime_type, raw_content: config.raw_content },
    ...{ data_encoding: config.data_encoding, hash: config.current_version.content_hash },
    parent: config.parent && configs.find(({ id }: any) => id === config.parent).lookup_key,
  })),
});

describe.each(["help-desk", "order-desk", "release-notes"])("the sample %s", (sample) => {
  it("is installed from configs, exported, installed elsewhere, and exported the same", async () => {
    const { acme, globex, as } = await anApp();
    const first = await exported(as(acme), await installFrom(as(acme), sample));
    const copy = await must(as(globex)("POST", AGENTS, { template_bundle: first }), 200);
    const second = await exported(as(globex), copy);
    expect(plain(second)).toEqual(plain(first));
    const suffixed = { template_bundle: { ...second, lookup_key_suffix: "-2" } };
    const third = await exported(as(globex), await must(as(globex)("POST", AGENTS, suffixed), 200));
    expect(JSON.parse(JSON.stringify(plain(third)).replaceAll('-2"', '"'))).toEqual(plain(first));
  });

  it("is the same agent as a bundle", async () => {
    const { acme, globex, as } = await anApp();
    const one = await exported(as(acme), await installFrom(as(acme), sample));
    const agent = await must(as(globex)("POST", AGENTS, { template_bundle: bundleOf(sample) }), 200);
    const other = await exported(as(globex), agent);
    expect(other.template).toEqual(one.template);
    const contents = ({ configs }: any) => configs.map(({ kind, raw_content }: any) => [kind, raw_content]);
    expect(contents(other)).toEqual(contents(one));
    expect(filesOf(sample).map(({ content }) => content)).toEqual(
      expect.arrayContaining(contents(other).map(([, content]: string[]) => content)),
    );
  });
});

it("a sample's setup actions are made in the order in which they depend on each other", async () => {
  const { acme, as } = await anApp();
  const agent = await must(as(acme)("POST", AGENTS, { template_bundle: bundleOf("release-notes") }), 200);
  const { data } = await must(as(acme)("GET", `${AGENTS}/${agent.id}/agent_health_actions`), 200);
  const [token, connect, look] = data;
  expect(data.map(({ title }: any) => title)).toEqual([
    "GitHub's token",
    "Connect GitHub",
    "Look over the first notes",
  ]);
  expect([token.depends_on, connect.depends_on, look.depends_on]).toEqual([[], [token.id], [token.id, connect.id]]);
});
