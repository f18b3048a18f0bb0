import { describe, expect, it } from "vitest";
import { anAgent, anApp, type Call, must, unique } from "../harness/index.ts";

const aConfig = (call: Call, fields: object): Promise<any> =>
  must(call("POST", "/api/v1/config", { mime_type: "text/plain", system: true, ...fields }), 201);
const skillText = "---\nname: refunds\ndescription: When money goes back.\n---\n\nWithin thirty days.\n";

/** An agent that carries something of everything. */
async function start() {
  const app = await anApp();
  const owner = app.as(app.acme);
  const key = unique("ada");
  const fields = { identity: "You help.", model: "a-model", metadata: { tier: 2 }, lookup_key: key };
  const agent = await anAgent(owner, fields);
  const script = await aConfig(owner, { kind: "Script", raw_content: "1 + 1", lookup_key: unique("sum") });
  const skill = await aConfig(owner, { kind: "Skill", mime_type: "text/markdown", raw_content: skillText });
  const page = { kind: "File", raw_content: "AAEC/w==", data_encoding: "base64", mime_type: "image/png" };
  await aConfig(owner, { ...page, parent: skill.id, relative_path: "page.png" });
  const add = (collection: string, body: object) =>
    must(owner("POST", `/api/v1/agents/${agent.id}/${collection}`, body), 200);
  await add("agent_tools", { kind: "builtin", builtin_tool_key: "memory", status: "active" });
  const tool = { kind: "custom", name: "sum", description: "Adds", handler_type: "script", config: script.id };
  await add("agent_tools", { ...tool, parameters: { type: "object" } });
  await must(owner("POST", "/api/v1/agent_skills", { agent: agent.id, config: skill.id }), 201);
  const steps = [{ name: "a", handler_type: "script", config: script.id }];
  await add("agent_routines", { name: "Daily", handler_type: "chain", steps, schedule: "0 9 * * *" });
  const daily = { schedule_type: "recurring", cron_expression: "0 9 * * *", instructions: "Say hello." };
  await add("schedules", daily);
  await add("agent_installations", { kind: "archastro/knowledge", config: { about: "x" } });
  await add("agent_computers", { name: "desk", region: "fra" });
  await add("agent_env_vars", { key: "SHOP_KEY", value: "hush-hush-hush", description: "The shop's" });
  return { ...app, owner, agent, script, skill, key, at: `/api/v1/agents/${agent.id}/export` };
}

describe("GET /api/v1/agents/{agent}/export", () => {
  it("says what the agent carries, by names that mean the same elsewhere", async () => {
    const { owner, script, key, at } = await start();
    const { template, configs } = await must(owner("GET", at), 200);
    const skillKey = configs.find(({ kind }: any) => kind === "Skill").lookup_key;
    expect(skillKey).toMatch(/^skill-[0-9a-f]{12}$/);
    expect(template).toEqual({
      ...{ kind: "AgentTemplate", name: "Ada", agent_key: key, identity: "You help.", model: "a-model" },
      metadata: { tier: 2 },
      tools: [
        ...[{ tool_type: "builtin", builtin_tool_key: "memory", name: "memory", approval: "none", async: false }].map(
          (tool) => ({ ...tool, status: "active" }),
        ),
        {
          ...{ tool_type: "custom", name: "sum", description: "Adds", handler_type: "script" },
          ...{ config_ref: script.lookup_key, parameters: { type: "object" }, approval: "none", async: false },
          status: "disabled",
        },
      ],
      skills: [{ config_ref: skillKey, status: "inactive" }],
      routines: [
        {
          ...{ name: "Daily", handler_type: "chain", schedule: "0 9 * * *", trigger_context: "event", status: "draft" },
          steps: [{ name: "a", handler_type: "script", config_ref: script.lookup_key }],
        },
      ],
      schedules: [
        {
          ...{ schedule_type: "recurring", cron_expression: "0 9 * * *", timezone: "Etc/UTC" },
          ...{ instructions: "Say hello.", status: "active", overlap: "skip", catchup: "one" },
          ...{ catchup_window_seconds: 3600, jitter_seconds: 0 },
        },
      ],
      installations: [{ install_type: "archastro/knowledge", config: { about: "x" } }],
      computers: [{ name: "desk", provider: "sprites", region: "fra", config: { provider: "sprites" } }],
      setup_actions: [
        {
          ...{ action_type: "env_var", title: "SHOP_KEY", description: "The shop's", params: { key: "SHOP_KEY" } },
          ...{ dedupe_key: "env_var:SHOP_KEY", required: true, sort_order: 0 },
        },
      ],
    });
    expect(configs.map(({ kind, raw_content, relative_path }: any) => [kind, raw_content, relative_path])).toEqual([
      ["Skill", skillText, null],
      ["File", "AAEC/w==", "page.png"],
      ["Script", "1 + 1", null],
    ]);
  });

  it("says the same twice, to the byte, and nothing of a secret or an id in the template", async () => {
    const { owner, agent, at } = await start();
    const [one, again] = [await owner("GET", at), await owner("GET", `${at}?remove_identity=true`)];
    expect(again.text).toBe(one.text);
    expect(one.text).not.toContain("hush");
    const template = JSON.stringify(one.body.template);
    expect(template).not.toMatch(/"(agi|atl|ask|arn|asc|cin|cmp|aha|cfg|usr|org)_[0-9A-Za-z]{22}"/);
    expect(template).not.toContain(agent.created_at);
  });

  it("leaves out what its reader may not read: the config is a person's own", async () => {
    const { owner, owners, acme, as, script, at } = await start();
    await must(owner("POST", `/api/v1/config/${script.id}/change_owner`, { user: owners[acme] }), 200);
    const { template, configs } = await must(as(acme, { role: "member" })("GET", at), 200);
    expect(configs.map(({ kind }: any) => kind)).toEqual(["Skill", "File"]);
    expect(JSON.stringify(template)).not.toContain(script.lookup_key);
  });

  it("is a 404 to another org, and a 422 where an import would not take it", async () => {
    const { owner, globex, as, skill, at } = await start();
    expect((await as(globex)("GET", at)).status).toBe(404);
    const big = "x".repeat(1_000_000);
    for (let i = 0; i < 8; i++) {
      await aConfig(owner, { kind: "File", raw_content: big, parent: skill.id, relative_path: `${i}.txt` });
    }
    const refused = await owner("GET", at);
    expect([refused.status, refused.body.error.code]).toEqual([422, "export_too_large"]);
  });
});

it("takes the scopes that reading each part would, and a bundle those that making each would: 403 names the first", async () => {
  const { acme, as } = await anApp();
  const { id } = await anAgent(as(acme));
  const narrow = as(acme, { scopes: ["agents:*"] });
  const answers = [
    await narrow("GET", `/api/v1/agents/${id}/export`),
    await narrow("POST", "/api/v1/agents", { template_bundle: { template: { name: "Ada" } } }),
    await narrow("POST", "/api/v1/agents", { template: "support" }),
  ];
  expect(answers.map(({ status, body }) => [status, body.error.code])).toEqual(
    answers.map(() => [403, "insufficient_scope"]),
  );
  expect((await narrow("POST", "/api/v1/agents", { name: "Ada" })).status).toBe(200);
});
