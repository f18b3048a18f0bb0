import { describe, expect, it } from "vitest";
import { anAgent, anApp, type Call, must, sql, unique } from "../harness/index.ts";

const AGENTS = "/api/v1/agents";
const make = (call: Call, body: object, headers = {}) => call("POST", AGENTS, body, headers);
const made = (call: Call, body: object): Promise<any> => must(make(call, body), 200);
const yaml = (relative_path: string, content: string) => ({ relative_path, content });
const faultsOf = ({ status, body }: { status: number; body: any }) => [
  status,
  ...(body.error?.fields ?? []).map(({ field, message }: any) => `${field} ${message}`),
];
const skillText = "---\nname: refunds\ndescription: When money goes back.\n---\n\nWithin thirty days.\n";

/** A bundle of the contract's form, with a bit of everything; keys are its own. */
const aBundle = (word: string) => ({
  template: yaml(
    "agents/shop.yaml",
    `kind: AgentTemplate
name: Shop
model: a-model
agent_key: ${word}-shop
tools:
  - { tool_type: builtin, builtin_tool_key: memory, status: active }
  - { kind: builtin, builtin_tool_key: images }
  - template_path: tools/status.yaml
skills:
  - { config_ref: ${word}-refunds }
routines:
  - { name: Morning, handler_type: script, config_ref: ${word}-morning, event_type: schedule.cron, schedule: "0 7 * * *", status: active }
  - name: Chain
    handler_type: chain
    steps: [{ name: one, handler_type: script, config_ref: ${word}-morning }]
computers:
  - { name: desk, lookup_key: ${word}-desk }
installations:
  - { kind: archastro/knowledge, lookup_key: ${word}-docs }
  - { install_type: web/site, config: { url: "https://shop.example" } }
schedules:
  - { schedule_type: recurring, cron_expression: "0 9 * * 1", timezone: Europe/Berlin, instructions: Tidy up. }
setup_actions:
  - { action_type: env_var, title: The shop's key, dedupe_key: key, params: { key: SHOP_KEY, secret: true } }
`,
  ),
  configs: [
    yaml(`scripts/${word}-morning.aascript`, "1 + 1"),
    yaml(
      "tools/status.yaml",
      `kind: AgentToolTemplate
lookup_key: ${word}-status
name: order_status
display_name: Order status
description: Looks an order up.
handler_type: script
config_ref: ${word}-morning
parameters: { type: object }
setup_actions:
  - { action_type: install, title: Connect, dedupe_key: connect, depends_on: [key], params: { installation_kind: archastro/knowledge } }
`,
    ),
  ],
  skills: [
    {
      ...yaml(`skills/${word}-refunds/SKILL.md`, skillText),
      files: [yaml(`skills/${word}-refunds/more/table.csv`, "a,b\n")],
    },
  ],
  setup_actions: [{ kind: "custom", title: "Look it over", depends_on: ["connect"] }],
});

/** An export as it would be elsewhere: without ids, owners, instants and version numbers; `suffix` is taken off keys. */
function plain({ template, configs }: any, suffix = "") {
  const text = JSON.stringify({
    template,
    configs: configs.map(({ current_version, id, parent, user, agent, org, created_at, updated_at, ...rest }: any) => ({
      ...rest,
      parent: parent && configs.find((one: any) => one.id === parent).lookup_key,
      hash: current_version.content_hash,
    })),
  });
  return JSON.parse(suffix ? text.replaceAll(suffix, "") : text);
}

describe("template_bundle", () => {
  it("installs all that the contract's bundle brings, and answers its configs sorted by key", async () => {
    const { acme, as } = await anApp();
    const owner = as(acme);
    const word = unique("w");
    const agent = await made(owner, { template_bundle: aBundle(word) });
    expect([agent.name, agent.default_model, agent.lookup_key]).toEqual(["Shop", "a-model", `${word}-shop`]);
    expect(agent.installed_configs.map(({ key, kind, lookup_key }: any) => [key, kind, lookup_key])).toEqual([
      [`${word}-morning`, "Script", `${word}-morning`],
      [`${word}-refunds`, "Skill", `${word}-refunds`],
      [`${word}-refunds:more/table.csv`, "File", null],
      [`${word}-status`, "AgentToolTemplate", `${word}-status`],
    ]);
    const get = (collection: string) => must(owner("GET", `${AGENTS}/${agent.id}/${collection}`), 200);
    const [morning] = agent.installed_configs;
    const tools = (await get("agent_tools")).data;
    expect(tools.map(({ name, status, config }: any) => [name, status, config]).sort()).toEqual([
      ["images", "disabled", null],
      ["memory", "active", null],
      ["order_status", "active", morning.id],
    ]);
    const { data: routines } = await must(owner("GET", `/api/v1/agent_routines?agent=${agent.id}`), 200);
    const [chain] = routines.filter(({ name }: any) => name === "Chain");
    expect(chain.steps).toEqual([{ name: "one", handler_type: "script", config: morning.id }]);
    // The template itself came in a body and is no config; of what it names, one is.
    expect(agent.last_applied_template_config).toBe(null);
    const [status] = tools.filter(({ name }: any) => name === "order_status");
    expect(status.last_applied_template_config).toBe(agent.installed_configs[3].id);
    expect(routines.map(({ name, status, config }: any) => [name, status, config]).sort()).toEqual([
      ["Chain", "draft", null],
      ["Morning", "active", morning.id],
    ]);
    expect((await get("schedules")).data[0]).toMatchObject({ timezone: "Europe/Berlin", status: "active" });
    expect((await get("agent_computers")).data[0].lookup_key).toBe(`${word}-desk`);
    expect((await get("agent_installations")).data.map(({ kind }: any) => kind).sort()).toEqual([
      "archastro/knowledge",
      "web/site",
    ]);
    const { data: actions } = await get("agent_health_actions?source[]=setup");
    const byTitle = Object.fromEntries(actions.map((action: any) => [action.title, action]));
    expect(byTitle.Connect.depends_on).toEqual([byTitle["The shop's key"].id]);
    expect(byTitle["Look it over"].depends_on).toEqual([byTitle.Connect.id]);
    expect((await get("agent_health_actions?source[]=health")).data[0].title).toBe("Images is not available yet");
    const content = await owner("GET", `/api/v1/config/${agent.installed_configs[2].id}/content`);
    expect(content.text).toBe("a,b\n");
  });

  it("keeps what its JSON names: by the id of what the org has, of the right kind, undeletable", async () => {
    const { acme, as } = await anApp();
    const owner = as(acme);
    const config = (kind: string, raw_content: string, mime_type = "text/plain") =>
      must(
        owner("POST", "/api/v1/config", { kind, raw_content, mime_type, lookup_key: unique("k"), system: true }),
        201,
      );
    const script = await config("Script", "1");
    const form = await config("AgentMessageSchema", '{"schema":{}}', "application/json");
    const template = (script: string, form: string) => ({
      name: "A",
      routines: [
        { name: "R", handler_type: "chain", steps: [{ handler_type: "script", config_ref: script }] },
        { name: "S", preset_name: "do_task", structured_message_template_refs: [form] },
        { ...{ name: "T", template_path: "routines/t.yaml" } },
      ],
      setup_actions: [{ action_type: "custom", title: "Look", verify_config: { script_ref: script } }],
    });
    const configs = [
      yaml("routines/t.yaml", `kind: AgentRoutineTemplate\nname: t\ndisplay_name: T\npreset_name: do_task\n`),
    ];
    const bundle = (script: string, form: string, suffix = unique("s")) => ({
      template_bundle: { template: template(script, form), configs, lookup_key_suffix: suffix },
    });
    const at = "template_bundle.template";
    const faults = faultsOf(await make(owner, bundle(form.lookup_key, script.lookup_key))).slice(1) as string[];
    expect(faults.map((fault) => fault.replace(`${at} `, "").split(":")[0]).sort()).toEqual([
      "/routines/0/steps/0/config",
      "/routines/1/preset_config/structured_message_template_ids/0",
      "/setup_actions/0/verify_config/script_ref",
    ]);
    const agent = await made(owner, bundle(script.lookup_key, form.lookup_key));
    const { data } = await must(owner("GET", `/api/v1/agent_routines?agent=${agent.id}`), 200);
    const [r, s, t] = ["R", "S", "T"].map((wanted) => data.find(({ name }: any) => name === wanted));
    expect([r.steps[0].config, s.preset_config.structured_message_template_ids]).toEqual([script.id, [form.id]]);
    expect(t.last_applied_template_config).toBe(agent.installed_configs[0].id);
    const { data: actions } = await must(owner("GET", `${AGENTS}/${agent.id}/agent_health_actions`), 200);
    expect(actions[0].verify_config).toEqual({ script_ref: script.id });
    const used = await owner("DELETE", `/api/v1/config/${script.id}`);
    expect([
      used.status,
      ...used.body.detail
        .match(/[a-z ]+ a[a-z]{2}_\w+/g)
        .map((use: string) => use.trim())
        .sort(),
    ]).toEqual([...[409, `health action ${actions[0].id}`, `routine ${r.id}`]]);
    expect((await owner("DELETE", `/api/v1/config/${form.id}`)).body.detail).toContain(s.id);
    const { template: said } = await must(owner("GET", `${AGENTS}/${agent.id}/export`), 200);
    expect(said.setup_actions[0].verify_config).toEqual({ script_ref: script.lookup_key });
    expect(said.routines.find(({ name }: any) => name === "R").steps[0].config_ref).toBe(script.lookup_key);
    await must(owner("DELETE", `${AGENTS}/${agent.id}`), 204);
    for (const { id } of [script, form]) await must(owner("DELETE", `/api/v1/config/${id}`), 204);
  });

  it("is told of once in the feed, of the agent", async () => {
    const { acme, as } = await anApp();
    const agent = await made(as(acme), { template_bundle: aBundle(unique("w")) });
    const told = await sql("select kind from data.activity_feed_entries where agent_id = $1", [agent.id]);
    expect(told).toEqual([{ kind: "agent.created" }]);
  });

  it("takes an export as it is: exported elsewhere, it says the same", async () => {
    const { acme, globex, as } = await anApp();
    const word = unique("w");
    const agent = await made(as(acme), { template_bundle: aBundle(word) });
    const first = await must(as(acme)("GET", `${AGENTS}/${agent.id}/export`), 200);
    const bundle = { ...first, lookup_key_suffix: "-copy" };
    const copy = await made(as(globex), { template_bundle: bundle });
    const second = await must(as(globex)("GET", `${AGENTS}/${copy.id}/export`), 200);
    expect(plain(second, "-copy")).toEqual(plain(first));
    expect(JSON.stringify(second)).not.toContain(acme);
    const again = await made(as(acme), { template_bundle: { ...second, lookup_key_suffix: "-again" } });
    const here = await must(as(acme)("GET", `${AGENTS}/${again.id}/export`), 200);
    expect(plain(here, "-again")).toEqual(plain(second));
  });

  it("lets the body say otherwise of the agent itself", async () => {
    const { acme, as } = await anApp();
    const body = { name: "Mine", lookup_key: unique("k"), default_model: "", template_bundle: aBundle(unique("w")) };
    const agent = await made(as(acme), body);
    expect([agent.name, agent.default_model, agent.lookup_key]).toEqual(["Mine", null, body.lookup_key]);
  });

  it("makes one agent under one Idempotency-Key, and answers its configs again", async () => {
    const { acme, as } = await anApp();
    const body = { template_bundle: aBundle(unique("w")) };
    const key = { "Idempotency-Key": unique("key") };
    const [one, again] = [await make(as(acme), body, key), await make(as(acme), body, key)];
    expect([one.status, again.status, again.headers.get("Idempotent-Replayed")]).toEqual([200, 200, "true"]);
    expect(again.body).toEqual(one.body);
  });

  it.each([
    ["configs", "lookup_key", "-morning"],
    ["the agent", "lookup_key", "-shop"],
  ])("names the key of %s that is taken: 409, and nothing is there", async (what, field, ending) => {
    const { acme, globex, as } = await anApp();
    const word = unique("w");
    const bundle = aBundle(word);
    const config = { kind: "Config", mime_type: "text/plain", raw_content: "x", system: true };
    if (what === "configs")
      await must(as(acme)("POST", "/api/v1/config", { ...config, lookup_key: `${word}${ending}` }), 201);
    else await anAgent(as(globex), { lookup_key: `${word}${ending}` });
    const { status, body } = await make(as(acme), { template_bundle: bundle });
    expect([status, body.error.fields[0].field]).toEqual([409, field]);
    expect(body.error.message).toContain(`${word}${ending}`);
    expect((await must(as(acme)("GET", AGENTS), 200)).data).toEqual([]);
    const left = (await must(as(acme)("GET", "/api/v1/config"), 200)).data;
    expect(left.length).toBe(what === "configs" ? 1 : 0);
  });

  it("names a config that neither the bundle nor the org has: 422, cut at 100 characters", async () => {
    const { acme, globex, as } = await anApp();
    const ref = `r${"x".repeat(200)}`;
    const template = { name: "A", skills: [{ config_ref: ref }], tools: [] };
    const refused = await make(as(acme), { template_bundle: { template } });
    const message = `/skills/0/config_ref: names a config that isn't there: ${ref.slice(0, 100)}`;
    expect(faultsOf(refused)).toEqual([422, `template_bundle.template ${message}`]);
    // Another org's is not there either; one's own is.
    const skill = { kind: "Skill", mime_type: "text/markdown", raw_content: skillText, lookup_key: ref, system: true };
    await must(as(globex)("POST", "/api/v1/config", skill), 201);
    expect((await make(as(acme), { template_bundle: { template } })).status).toBe(422);
    await must(as(acme)("POST", "/api/v1/config", skill), 201);
    const agent = await made(as(acme), { template_bundle: { template } });
    expect(agent).not.toHaveProperty("installed_configs");
    await must(
      as(acme)("POST", "/api/v1/config", { ...skill, kind: "Config", mime_type: "text/plain", lookup_key: "other" }),
      201,
    );
    const other = { template: { name: "A", skills: [{ config_ref: "other" }] } };
    expect((await make(as(acme), { template_bundle: other })).status).toBe(422);
  });

  it.each(["Nonsense", "constructor", "__proto__"])("has no config of the kind %s: 422", async (kind) => {
    const { acme, as } = await anApp();
    const config = { kind, lookup_key: "key", mime_type: "text/plain", raw_content: "x" };
    const answer = await make(as(acme), { template_bundle: { template: { name: "Ada" }, configs: [config] } });
    expect([answer.status, answer.body.error.fields[0].field]).toEqual([422, "template_bundle.configs.0"]);
  });

  it("tells all that is wrong at once, each where it stands", async () => {
    const { acme, as } = await anApp();
    const template_bundle = {
      template: {
        name: "A",
        tools: [
          { tool_type: "builtin", builtin_tool_key: "telepathy" },
          { tool_type: "custom", name: "a b" },
        ],
        routines: [
          { name: "R", handler_type: "preset" },
          { name: "S", handler_type: "preset", preset_name: "do_task", schedule: "61 * * * *" },
        ],
        schedules: [{ schedule_type: "once", scheduled_at: "2020-02-31T09:00:00Z", instructions: "x" }],
        installations: [{ kind: "no/such" }, { kind: "web/site", config: { url: "nowhere" } }],
        setup_actions: [
          { action_type: "custom", title: "a", dedupe_key: "a", depends_on: ["b"] },
          { action_type: "custom", title: "b", dedupe_key: "b", depends_on: ["a"] },
          { action_type: "custom", title: "c", depends_on: ["nothing"] },
        ],
      },
      configs: [{ relative_path: "a.aascript", content: "1 +" }, { relative_path: "b.txt" }],
    };
    const [status, ...faults] = faultsOf(await make(as(acme), { template_bundle }));
    expect(status).toBe(422);
    const told = faults.map((fault) => String(fault).replace("template_bundle.", ""));
    for (const begin of [
      "configs.0 line 1",
      "configs.1 has no content",
      "template /tools/0/builtin_tool_key",
      "template /tools/1/name",
      "template /routines/0/preset_name",
      "template /routines/1/schedule",
      "template /schedules/0/scheduled_at",
      "template /installations/0/kind",
      "template /installations/1/config/url",
      "template /setup_actions/0: depends on itself",
      "template /setup_actions/1: depends on itself",
      "template /setup_actions/2: depends on an action that isn't there: nothing",
    ]) {
      expect([begin, told.some((fault) => fault.startsWith(begin))]).toEqual([begin, true]);
    }
  });

  it("is refused with a template, and neither without a name is enough: 422", async () => {
    const { acme, as } = await anApp();
    const both = { template: "a", template_bundle: { template: { name: "A" } } };
    expect(faultsOf(await make(as(acme), both))[1]).toContain("template_bundle excludes template");
    expect(faultsOf(await make(as(acme), {}))).toEqual([422, "name is required"]);
  });

  it("holds at most a hundred of each child, and five hundred configs", async () => {
    const { acme, as, asDeveloper, at } = await anApp();
    await must(asDeveloper("PATCH", at, { settings: { quotas: { computers: 1000 } } }), 200);
    const computers = Array.from({ length: 101 }, (_, i) => ({ name: `c${i}` }));
    expect((await make(as(acme), { template_bundle: { template: { name: "A", computers } } })).status).toBe(422);
    const most = await made(as(acme), { template_bundle: { template: { name: "A", computers: computers.slice(1) } } });
    expect((await must(as(acme)("GET", `${AGENTS}/${most.id}/agent_computers`), 200)).data.length).toBe(100);
    const configs = Array.from({ length: 501 }, (_, i) => ({ relative_path: `${i}.txt`, content: "x" }));
    expect((await make(as(acme), { template_bundle: { template: { name: "A" }, configs } })).status).toBe(422);
    const all = await made(as(acme), { template_bundle: { template: { name: "A" }, configs: configs.slice(1) } });
    expect(all.installed_configs.length).toBe(500);
  });

  it("puts a user's agent where the user is, with all that it carries, for a secret key", async () => {
    const { acme, owners, asDeveloper, as } = await anApp();
    const agent = await made(asDeveloper, { user: owners[acme], template_bundle: aBundle(unique("w")) });
    expect([agent.org, agent.user]).toEqual([acme, owners[acme]]);
    expect((await must(as(acme)("GET", `${AGENTS}/${agent.id}/agent_tools`), 200)).data.length).toBe(3);
    const member = as(acme, { role: "member" });
    expect((await member("GET", `/api/v1/config/${agent.installed_configs[0].id}`)).status).toBe(404);
    const inOrg = await made(asDeveloper, { org: acme, template_bundle: aBundle(unique("w")) });
    expect(inOrg.org).toBe(acme);
    const other = { user: owners[acme], template_bundle: aBundle(unique("w")) };
    expect((await make(member, other)).status).toBe(403);
  });
});

describe("a routine that comes more often than the app lets it", () => {
  it("is brought as a draft, with a health action that says what to do; a schedule isn't brought", async () => {
    const { acme, at, as, asDeveloper } = await anApp();
    const owner = as(acme);
    await must(asDeveloper("PATCH", at, { settings: { min_routine_interval_seconds: 3600 } }), 200);
    const task = { handler_type: "preset", preset_name: "do_task", status: "active" };
    const template = {
      name: "Busy",
      routines: [
        { ...task, name: "Often", schedule: "*/59 * * * *" },
        { ...task, name: "Hourly", schedule: "0 * * * *" },
        { ...task, name: "Told", event_type: "custom.order" },
      ],
    };
    const { id } = await made(owner, { template_bundle: { template } });
    const { data } = await must(owner("GET", `/api/v1/agent_routines?agent=${id}`), 200);
    const statuses = Object.fromEntries(data.map(({ name, status }: any) => [name, status]));
    expect(statuses).toEqual({ Often: "draft", Hourly: "active", Told: "active" });
    const often = data.find(({ name }: any) => name === "Often");
    const actions = (await must(owner("GET", `/api/v1/agents/${id}/agent_health_actions`), 200)).data;
    expect(actions).toMatchObject([
      {
        ...{ title: "Often comes too often", source: "health", kind: "custom", status: "pending" },
        description: expect.stringContaining("min_routine_interval_seconds"),
        params: { id: "too_often", routine: often.id, interval_seconds: 60 },
      },
    ]);
    expect(await owner("POST", `/api/v1/agent_routines/${often.id}/activate`)).toMatchObject({ status: 422 });
    await must(owner("PATCH", `/api/v1/agent_routines/${often.id}`, { schedule: "0 9 * * *" }), 200);
    const verify = async (): Promise<string> =>
      (await must(owner("POST", `/api/v1/agent_health_actions/${actions[0].id}/verify`), 200)).status;
    const health = async () => (await must(owner("GET", `/api/v1/agents/${id}/health`), 200)).health_actions;
    expect([await verify(), (await health())[0].status]).toEqual(["pending", "pending"]);
    await must(owner("POST", `/api/v1/agent_routines/${often.id}/activate`), 200);
    expect((await health()).map(({ status }: any) => status)).toEqual(["completed"]);
    expect(await verify()).toBe("completed");
    const schedules = [{ schedule_type: "recurring", cron_expression: "*/59 * * * *", instructions: "Now." }];
    const refused = await make(owner, { template_bundle: { template: { name: "B", schedules } } });
    expect(faultsOf(refused)).toEqual([422, expect.stringContaining("template comes more often")]);
  });
});

describe("template", () => {
  const template = (word: string) => `kind: AgentTemplate
name: ${word}
tools: [{ tool_type: builtin, builtin_tool_key: memory }, { template_path: parts/sum.yaml }]
routines: [{ name: R, preset_name: do_task, preset_instructions: Do it. }]
`;
  const part = (script: string) => `kind: AgentToolTemplate
name: sum
display_name: Sum
description: Adds.
handler_type: script
config_ref: ${script}
parameters: { type: object }
`;

  it("makes an agent of a config, as often as one likes, with what it names from the org", async () => {
    const { acme, globex, as } = await anApp();
    const owner = as(acme);
    const config = (kind: string, raw_content: string, fields: object) =>
      must(
        owner("POST", "/api/v1/config", { kind, raw_content, mime_type: "application/yaml", system: true, ...fields }),
        201,
      );
    const [key, script] = [unique("t"), unique("s")];
    await config("Script", "1 + 1", { lookup_key: script, mime_type: "text/plain" });
    const sum = await config("AgentToolTemplate", part(script), { virtual_path: "parts/sum.yaml" });
    const { id } = await config("AgentTemplate", template("Of a template"), { lookup_key: key });
    const one = await made(owner, { template: key });
    const other = await made(owner, { template: id, name: "Other" });
    expect([one.name, other.name]).toEqual(["Of a template", "Other"]);
    expect(one).not.toHaveProperty("installed_configs");
    const tools = (await must(owner("GET", `${AGENTS}/${other.id}/agent_tools`), 200)).data;
    expect(tools.map(({ name }: any) => name).sort()).toEqual(["memory", "sum"]);
    // What each was made of, and by which the agents are found.
    expect([one, other].map((agent) => agent.last_applied_template_config)).toEqual([id, id]);
    expect(await must(owner("GET", `${AGENTS}/${one.id}`), 200)).toEqual(one);
    const of = async (template: string) =>
      (await must(owner("GET", `${AGENTS}?template_config=${template}`), 200)).data.map((agent: any) => agent.id);
    expect([await of(id), await of(sum.id)]).toEqual([[other.id, one.id], []]);
    const madeOf = tools.map(({ name, last_applied_template_config }: any) => [name, last_applied_template_config]);
    expect(madeOf.sort()).toEqual([
      ["memory", null],
      ["sum", sum.id],
    ]);
    // It tells of the past: it keeps nothing, and stays.
    await must(owner("DELETE", `/api/v1/config/${key}?system=true`), 204);
    expect([await of(id), (await must(owner("GET", `${AGENTS}/${one.id}`), 200)).last_applied_template_config]).toEqual(
      [[other.id, one.id], id],
    );
    for (const [call, name] of [
      [as(globex), id],
      [owner, "nothing"],
    ] as const) {
      expect(faultsOf(await make(call, { template: name }))).toEqual([422, "template there is no such template"]);
    }
  });
});
