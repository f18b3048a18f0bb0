import { PlatformClient } from "@archastro/sdk";
import { describe, expect, it } from "vitest";
import {
  type App,
  anAgent,
  anApp,
  bearer,
  type Call,
  caller,
  must,
  sql,
  system,
  together,
  unique,
} from "../harness/index.ts";

const aTask = { name: "task", handler_type: "preset", preset_name: "do_task" };
const aScript = { name: "script", handler_type: "script", script: "1" };
const [GRAPH, FORM] = ["WorkflowGraph", "AgentMessageSchema"];

/** An agent of a fresh app, and what its routines take. */
async function start() {
  const made: App = await anApp();
  const call: Call = made.as(made.acme);
  const agent = await anAgent(call);
  const at = `/api/v1/agents/${agent.id}/agent_routines`;
  const make = (body: object = aTask) => must(call("POST", at, body), 200);
  const of = (id: string, verb = "") => `/api/v1/agent_routines/${id}${verb}`;
  return { ...made, call, agent, at, make, of };
}
const faults = ({ status, body }: { status: number; body: any }) => [
  status,
  ...(body.error?.fields ?? []).map(({ field }: { field: string }) => field),
];
/** A config of the place, as the store would make it. */
async function aConfig(org: string, lookup_key: string, kind = "Script"): Promise<string> {
  const [row] = await sql(
    `insert into data.configs (id, app_id, sandbox_id, org_id, kind, lookup_key, mime_type, content_hash)
     select 'cfg_' || substr(md5(random()::text), 1, 22), app_id, sandbox_id, id, $3, $2, 'text/plain', 'sha256:0'
       from data.orgs where id = $1 returning id`,
    [org, lookup_key, kind],
  );
  return row.id;
}

describe("POST /api/v1/agents/{agent}/agent_routines", () => {
  it("answers the whole routine, a draft that an event starts", async () => {
    const { app, agent, call, make, of } = await start();
    const made = await make({ ...aTask, preset_config: { instructions: "Sweep." } });
    expect(made).toEqual({
      ...{ id: made.id, app, agent: agent.id, user: null, name: "task", description: null, lookup_key: null },
      ...{ status: "draft", trigger_context: "event", event_type: null, event_config: null, schedule: null },
      ...{
        handler_type: "preset",
        config: null,
        script: null,
        preset_name: "do_task",
        steps: [],
        message_policy: null,
      },
      preset_config: {
        ...{ instructions: "Sweep.", llm: null, session_mode: "stateless", session_scope: "per_user" },
        structured_message_template_ids: null,
      },
      ...{ metadata: {}, acl: null, last_applied_template_config: null },
      ...{ created_at: made.created_at, updated_at: made.created_at },
    });
    expect(made.id).toMatch(/^arn_[0-9A-Za-z]{22}$/);
    expect(await must(call("GET", of(made.id)), 200)).toEqual(made);
    expect((await must(call("GET", `/api/v1/agent_routines?agent[]=${agent.id}`), 200)).data).toEqual([made]);
  });

  it("takes a config by its id or its lookup_key, of the agent's org, and shows its id", async () => {
    const { make, acme, globex, call, at } = await start();
    const [own, others] = [await aConfig(acme, "graph", GRAPH), await aConfig(globex, "others", GRAPH)];
    const graph = { name: "graph", handler_type: "workflow_graph" };
    expect((await make({ ...graph, config: own })).config).toBe(own);
    expect((await make({ ...graph, config: "graph" })).config).toBe(own);
    for (const config of [others, "others", "cfg_0000000000000000000000", "absent"]) {
      expect(faults(await call("POST", at, { ...graph, config }))).toEqual([422, "config"]);
    }
  });

  const chain = (...steps: object[]) => ({ name: "chain", handler_type: "chain", steps });
  const script = { handler_type: "script", script: "1" };
  it.each<[string, object, string]>([
    ["a workflow graph without its config", { name: "a", handler_type: "workflow_graph" }, "config"],
    ["a script without one", { name: "a", handler_type: "script" }, "script"],
    ["a preset without its name", { name: "a", handler_type: "preset" }, "preset_name"],
    ["a preset that nobody knows", { ...aTask, preset_name: "dance" }, "preset_name"],
    ["a preset's config with what it doesn't have", { ...aTask, preset_config: { tempo: 1 } }, "preset_config.tempo"],
    [
      "a session of a preset without any",
      { ...aTask, preset_name: "send_message", preset_config: { session_mode: "session" } },
      "preset_config",
    ],
    [
      "a preset with an event that is not its own",
      { ...aTask, preset_name: "participate", event_type: "thread.created" },
      "event_type",
    ],
    [
      "a preset with a schedule, which is not its own",
      { ...aTask, preset_name: "auto_memory_capture", schedule: "0 9 * * *" },
      "event_type",
    ],
    ["a chain without steps", chain(), "steps"],
    ["steps of what is no chain", { ...aScript, steps: [script] }, "steps"],
    ["a step with two things to do", chain({ ...script, preset_name: "do_task" }), "steps"],
    ["a step of another handler's", chain({ handler_type: "workflow_graph", script: "1" }), "steps"],
    [
      "a step with a preset that can't be chained",
      chain({ handler_type: "preset", preset_name: "participate" }),
      "steps",
    ],
    ["two steps of one output_key", chain({ ...script, output_key: "a" }, { ...script, name: "a" }), "steps"],
    ["a step called trigger", chain({ ...script, name: "trigger" }), "steps"],
    ["inputs from a later step", chain({ ...script, inputs: { x: "b" } }, { ...script, output_key: "b" }), "steps"],
    ["inputs from the step itself", chain({ ...script, name: "a", inputs: { x: "a" } }), "steps"],
    ["inputs that are no name", chain({ ...script, inputs: { x: 1 } }), "steps"],
    ["a step's config that isn't there", chain({ handler_type: "workflow_graph", config: "absent" }), "steps"],
    ["a schedule that never comes", { ...aTask, schedule: "0 0 30 2 *" }, "schedule"],
    ["no time zone", { ...aTask, event_config: { "schedule.cron": { timezone: "Mars/Olympus" } } }, "event_config"],
    ["an event without a name", { ...aTask, event_config: { "": {} } }, "event_config"],
    ["a private message to nobody", { ...aTask, message_policy: { visibility: "private" } }, "message_policy"],
    ["a paused one", { ...aTask, status: "paused" }, "status"],
    ["a user of nowhere", { ...aTask, user: "usr_0000000000000000000000" }, "user"],
    ["more than 16 KB", { ...aScript, script: "x".repeat(16_000), description: "x".repeat(1000) }, ""],
  ])("refuses %s: 422 on the field", async (_, body, field) => {
    const { call, at } = await start();
    expect(faults(await call("POST", at, body))).toEqual([422, field]);
  });

  it("takes a chain whose steps feed one another", async () => {
    const { make, acme } = await start();
    const sum = await aConfig(acme, "sum");
    const steps = [
      { name: "read", handler_type: "script", script: "1", inputs: { event: "trigger" } },
      {
        handler_type: "script",
        config: "sum",
        output_key: "sum",
        inputs: { x: "read", y: "trigger" },
        on_error: "retry",
      },
      { handler_type: "preset", preset_name: "send_message", inputs: { text: "sum" } },
    ];
    const [read, , send] = steps;
    expect((await make(chain(...steps))).steps).toEqual([read, { ...steps[1], config: sum }, send]);
  });

  it("refuses a user of another org", async () => {
    const { call, at, owners, acme, globex, make } = await start();
    expect(faults(await call("POST", at, { ...aTask, user: owners[globex] }))).toEqual([422, "user"]);
    expect((await make({ ...aTask, user: owners[acme] })).user).toBe(owners[acme]);
  });

  it("is a person's own alone, but an admin's is anybody's: its runs see what that one may", async () => {
    const { call, at, of, owners, acme, aUser, aToken } = await start();
    const { id } = await aUser(acme);
    const member = caller(bearer((await aToken(id)).access_token));
    const refused = (answer: Awaited<ReturnType<Call>>) => expect(faults(answer)).toEqual([422, "user"]);
    refused(await member("POST", at, { ...aTask, user: owners[acme] }));
    const own = await must(member("POST", at, { ...aTask, user: id }), 200);
    refused(await member("PATCH", of(own.id), { user: owners[acme] }));
    expect((await must(call("PATCH", of(own.id), { user: owners[acme] }), 200)).user).toBe(owners[acme]);
    // What sees with an owner's eyes is the owner's, or an admin's, to change.
    expect((await member("PATCH", of(own.id), { name: "mine" })).status).toBe(403);
    const grants = [{ principal_type: "user", principal: id, actions: ["read", "write"] }];
    await must(call("PATCH", of(own.id), { acl: { grants } }), 200);
    const sent = { name: "another", user: owners[acme] };
    expect(await must(member("PATCH", of(own.id), sent), 200)).toMatchObject(sent);
    expect((await must(member("PATCH", of(own.id), { user: null }), 200)).user).toBeNull();
    refused(await member("PATCH", of(own.id), { user: owners[acme] }));
  });

  it("keeps a preset that an agent has one of, and a lookup_key, once an agent", async () => {
    const { call, at, make, agent, as, acme } = await start();
    const one = { name: "one", handler_type: "preset", preset_name: "participate", lookup_key: "key" };
    await make(one);
    expect(faults(await call("POST", at, { ...one, lookup_key: null }))).toEqual([422, "preset_name"]);
    expect(faults(await call("POST", at, { ...aTask, lookup_key: "key" }))).toEqual([409, "lookup_key"]);
    const other = await anAgent(as(acme));
    await must(call("POST", at.replace(agent.id, other.id), one), 200);
  });

  it("makes a hundred on an agent and no more: 422 limit_reached", async () => {
    const { agent, call, at } = await start();
    await sql(
      `insert into data.agent_routines (id, app_id, sandbox_id, org_id, agent_id, name, handler_type, script)
       select 'arn_' || lpad(n::text, 22, '0'), app_id, sandbox_id, org_id, id, 'r', 'script', '1'
         from data.agents, generate_series(1, 100) n where id = $1`,
      [agent.id],
    );
    const { status, body } = await call("POST", at, aTask);
    expect([status, body.error.code]).toEqual([422, "limit_reached"]);
  });
});

describe("a schedule of a routine", () => {
  it("comes at most as often as the app lets it, when it is saved and when it is activated", async () => {
    const { call, at: routines, make, of, asDeveloper, app } = await start();
    const minutely = await make({ ...aTask, schedule: "* * * * *" });
    const settings = { min_routine_interval_seconds: 3600 };
    await must(asDeveloper("PATCH", `/protected/api/v2/developer/apps/${app}`, { settings }), 200);
    const often = [422, "schedule"];
    expect(faults(await call("POST", routines, { ...aTask, schedule: "*/59 * * * *" }))).toEqual(often);
    expect(faults(await call("PATCH", of(minutely.id), { schedule: "0,30 9 * * *" }))).toEqual(often);
    expect(faults(await call("POST", of(minutely.id, "/activate")))).toEqual(often);
    await must(call("PATCH", of(minutely.id), { schedule: "5 * * * *" }), 200);
    await must(call("POST", of(minutely.id, "/activate")), 200);
  });
});

describe("PATCH /api/v1/agent_routines/{routine}", () => {
  it("keeps the rules between what is sent and what is there: 422 on the field", async () => {
    const { call, make, of } = await start();
    const [script, chain, task] = [
      await make(aScript),
      await make({ name: "c", handler_type: "chain", steps: [{ handler_type: "script", script: "1" }] }),
      await make({ ...aTask, schedule: "0 9 * * *" }),
    ];
    const patch = async (id: string, body: object) => faults(await call("PATCH", of(id), body));
    expect(await patch(script.id, { script: null })).toEqual([422, "script"]);
    expect(await patch(script.id, { handler_type: "workflow_graph" })).toEqual([422, "config"]);
    expect(await patch(script.id, { handler_type: "preset" })).toEqual([422, "preset_name"]);
    expect(await patch(script.id, { handler_type: "chain" })).toEqual([422, "steps"]);
    expect(await patch(chain.id, { handler_type: "script", script: "1" })).toEqual([422, "steps"]);
    expect(await patch(chain.id, { handler_type: "script", script: "1", steps: [] })).toEqual([200]);
    expect(await patch(task.id, { preset_name: "participate" })).toEqual([422, "event_type"]);
    expect(await patch(task.id, { preset_name: "participate", schedule: null })).toEqual([200]);
    expect(await patch(task.id, { steps: [{ handler_type: "script", config: "absent" }] })).toEqual([422, "steps"]);
  });

  it("clears the user by null or an empty text", async () => {
    const { call, make, of, owners, acme } = await start();
    const { id } = await make();
    for (const none of [null, ""]) {
      expect((await must(call("PATCH", of(id), { user: owners[acme] }), 200)).user).toBe(owners[acme]);
      expect((await must(call("PATCH", of(id), { user: none }), 200)).user).toBe(null);
    }
  });
});

describe("a routine's template", () => {
  async function aTemplate(call: Call, said: object, kind = "AgentRoutineTemplate") {
    const raw_content = JSON.stringify({ kind, name: "digest", display_name: "Digest", ...said });
    const body = { kind, lookup_key: unique("template"), mime_type: "application/json", raw_content };
    return must(call("POST", "/api/v1/config", body), 201);
  }

  it("makes the routine what it says, but for what is sent beside it; status, lookup_key, user and acl stay", async () => {
    const { make, call, of, acme, owners } = await start();
    const [script, form] = [await aConfig(acme, "sum"), await aConfig(acme, "form", FORM)];
    const steps = [
      { handler_type: "script", config: "sum" },
      { handler_type: "preset", preset_name: "do_task", preset_config: { structured_message_template_ids: ["form"] } },
    ];
    const own = { lookup_key: "mine", status: "active", user: owners[acme], metadata: { a: 1 }, description: "Mine." };
    const acl = { grants: [{ principal_type: "everyone", actions: ["read", "write"] }] };
    const routine = await make({ ...own, name: "chain", handler_type: "chain", steps, acl });
    const one = await aTemplate(call, {
      ...{ preset_name: "do_task", preset_instructions: "Sum up.", structured_message_template_refs: ["form"] },
      ...{ schedule: "0 7 * * 1-5", status: "draft", lookup_key: "theirs", config_ref: "nothing that a preset has" },
    });
    const changed = await must(call("PATCH", of(routine.id), { template: one.lookup_key, name: "Ours" }), 200);
    expect(changed).toEqual({
      ...{
        ...routine,
        name: "Ours",
        handler_type: "preset",
        preset_name: "do_task",
        schedule: "0 7 * * 1-5",
        steps: [],
      },
      preset_config: {
        ...{ instructions: "Sum up.", llm: null, session_mode: "stateless", session_scope: "per_user" },
        structured_message_template_ids: [form],
      },
      ...{ last_applied_template_config: one.id, updated_at: changed.updated_at },
    });
    const other = await aTemplate(call, { handler_type: "script", config_ref: "sum", event_type: "thread.created" });
    expect(await must(call("PATCH", of(routine.id), { template: other.id }), 200)).toMatchObject({
      ...{ name: "digest", handler_type: "script", config: script, event_type: "thread.created", schedule: null },
      ...{ preset_name: null, preset_config: null, status: "active", last_applied_template_config: other.id },
    });
  });

  it("is refused where it isn't one, or says what a routine doesn't take: 422", async () => {
    const { make, call, of, as, globex } = await start();
    const { id } = await make();
    const patch = async (body: object) => faults(await call("PATCH", of(id), body));
    const tool = await aTemplate(call, { handler_type: "script" }, "AgentToolTemplate");
    const foreign = await aTemplate(as(globex), { preset_name: "do_task" });
    for (const template of ["nothing", tool.id, tool.lookup_key, foreign.id, foreign.lookup_key]) {
      expect(await patch({ template })).toEqual([422, "template"]);
    }
    const wrong = await aTemplate(call, { preset_name: "dance" });
    const { body } = await call("PATCH", of(id), { template: wrong.id });
    expect(body.error.fields).toEqual([
      { field: "template", message: "says what a routine doesn't take: preset_name" },
    ]);
    const missing = await aTemplate(call, { handler_type: "script", config_ref: "absent" });
    expect(await patch({ template: missing.id })).toEqual([422, "config"]);
    const often = await aTemplate(call, { preset_name: "do_task", steps: [{ handler_type: "script", script: "1" }] });
    expect(await patch({ template: often.id })).toEqual([422, "template"]);
    expect((await must(call("GET", of(id)), 200)).last_applied_template_config).toBe(null);
  });
});

describe("a routine", () => {
  it("goes from draft to active and to paused and back; a draft can't be paused: 422", async () => {
    const { call, make, of } = await start();
    const { id } = await make();
    const to = async (verb: string) => {
      const { status, body } = await call("POST", of(id, `/${verb}`));
      return status === 200 ? body.status : [status, body.error.code];
    };
    expect(await to("pause")).toEqual([422, "not_active"]);
    expect([await to("activate"), await to("activate"), await to("pause"), await to("pause")]).toEqual([
      ...["active", "active", "paused", "paused"],
    ]);
    expect(await to("activate")).toBe("active");
  });

  it("is listed by its agents and by what starts it, newest first, from a cursor on", async () => {
    const { call, make, agent, as, acme } = await start();
    const cron = await make({ ...aTask, schedule: "0 9 * * *" });
    const typed = await make({ ...aTask, event_type: "thread.created" });
    const mapped = await make({ ...aTask, event_config: { "thread.created": { filters: { a: 1 } } } });
    const other = await anAgent(as(acme));
    const list = (query: string) => must(call("GET", `/api/v1/agent_routines?${query}`), 200);
    const ids = async (query: string) => (await list(query)).data.map(({ id }: { id: string }) => id);
    expect(await ids(`agent[]=${agent.id}`)).toEqual([mapped.id, typed.id, cron.id]);
    expect(await ids(`agent[]=${other.id}`)).toEqual([]);
    expect(await ids("event_type=thread.created")).toEqual([mapped.id, typed.id]);
    expect(await ids("event_type=schedule.cron")).toEqual([cron.id]);
    const first = await list("limit=2");
    expect([first.has_more, await ids(`limit=2&after_cursor=${first.after_cursor}`)]).toEqual([true, [cron.id]]);
    expect((await call("GET", "/api/v1/agent_routines?agent[]=nobody")).status).toBe(404);
  });

  it("has an access list that narrows the agent's: hidden is absent, and read-only is 403", async () => {
    const { call, make, of, agent, aUser, aToken, acme } = await start();
    const person = await aUser(acme);
    const asPerson = caller(bearer((await aToken(person.id)).access_token));
    const { id } = await make();
    const grant = (actions: string[]) => ({
      acl: { grants: [{ principal_type: "user", principal: person.id, actions }] },
    });
    const nobody = { acl: { grants: [{ principal_type: "org_role", principal: "admin", actions: ["read"] }] } };
    const listed = async () =>
      (await must(asPerson("GET", `/api/v1/agent_routines?agent[]=${agent.id}`), 200)).data.length;
    const told = async () =>
      (await must(asPerson("GET", `/api/v1/activity_feed?agent[]=${agent.id}`), 200)).data.filter(
        ({ kind }: { kind: string }) => kind.startsWith("agent_routine"),
      ).length;

    await must(call("PATCH", of(id), nobody), 200);
    expect([await listed(), await told()]).toEqual([0, 1]);
    for (const [method, path] of [
      ["GET", of(id)],
      ["PATCH", of(id)],
      ["DELETE", of(id)],
      ["POST", of(id, "/activate")],
    ] as const) {
      expect([method, (await asPerson(method, path)).status]).toEqual([method, 404]);
    }
    await must(call("PATCH", of(id), grant(["read"])), 200);
    expect([await listed(), await told()]).toEqual([1, 2]);
    expect((await asPerson("PATCH", of(id), { name: "mine" })).status).toBe(403);
    await must(call("PATCH", of(id), grant(["write"])), 200);
    await must(asPerson("PATCH", of(id), { name: "mine" }), 200);

    // What the agent's list keeps from them, the routine's can't give.
    await must(call("PATCH", `/api/v1/agents/${agent.id}`, nobody), 200);
    expect((await asPerson("GET", of(id))).status).toBe(404);
  });

  it("that only may be read through a hidden routine is told of as absent, not as read-only", async () => {
    const { call, make, of, agent, as, acme } = await start();
    const { id } = await make({
      ...aTask,
      acl: { grants: [{ principal_type: "org_role", principal: "admin", actions: ["read"] }] },
    });
    const all = { grants: [{ principal_type: "everyone", actions: ["read"] }] };
    await must(call("PATCH", `/api/v1/agents/${agent.id}`, { acl: all }), 200);
    const asMember = as(acme, { role: "member" });
    expect((await asMember("PATCH", of(id), { name: "x" })).status).toBe(404);
    await must(call("PATCH", of(id), { acl: null }), 200);
    expect((await asMember("PATCH", of(id), { name: "x" })).status).toBe(403);
  });

  const inSteps = (config: string) => ({
    ...{ name: "c", handler_type: "chain", steps: [{ handler_type: "script", config }] },
  });
  const inStepsForms = (form: string) => ({
    ...{ name: "c", handler_type: "chain" },
    steps: [
      { handler_type: "preset", preset_name: "do_task", preset_config: { structured_message_template_ids: [form] } },
    ],
  });
  const inForms = (form: string) => ({ ...aTask, preset_config: { structured_message_template_ids: [form] } });
  describe.each<[string, string, string, (config: string) => object, object]>([
    ["a script's config", "Script", "config", (config) => ({ ...aScript, config }), { config: null }],
    ["a step's config", "Script", "steps", inSteps, { handler_type: "script", script: "1", steps: [] }],
    ["a step's form", FORM, "steps", inStepsForms, { steps: [{ handler_type: "script", script: "1" }] }],
    ["a message's form", FORM, "preset_config", inForms, { preset_config: null }],
  ])("uses %s:", (_, kind, field, using, without) => {
    it("by its id, whatever it was named by; one of another kind, org or nowhere is a 422 on the field", async () => {
      const { make, call, at, of, acme, globex } = await start();
      const config = await aConfig(acme, "used", kind);
      const others = [await aConfig(acme, "other-kind", "Skill"), await aConfig(globex, "others", kind)];
      const [byKey, byId] = [await make(using("used")), await make(using(config))];
      expect({ ...byKey, steps: byKey.steps, id: null, created_at: null, updated_at: null }).toEqual({
        ...{ ...byId, id: null, created_at: null, updated_at: null },
      });
      expect(JSON.stringify(byKey)).toContain(config);
      for (const name of [...others, "other-kind", "others", "nowhere", "cfg_0000000000000000000000"]) {
        expect(faults(await call("POST", at, using(name)))).toEqual([422, field]);
        expect(faults(await call("PATCH", of(byId.id), using(name)))).toEqual([422, field]);
      }
      expect(await must(call("GET", of(byId.id)), 200)).toEqual(byId);
    });

    it("so that it is neither deleted nor given to another org: 409, naming the routine; then it is free", async () => {
      const { make, call, of, acme, globex, asDeveloper } = await start();
      const config = await aConfig(acme, "used", kind);
      const routine = await make(using(config));
      const give = () => asDeveloper("POST", `/api/v1/config/${config}/change_owner`, { system: true, org: globex });
      for (const answer of [await call("DELETE", `/api/v1/config/${config}`), await give()]) {
        expect([answer.status, answer.body.error.code]).toEqual([409, "in_use"]);
        expect(answer.body.detail).toBe(`This config is in use, by: routine ${routine.id}.`);
      }
      // Nor by who asks nobody: a statement that came between another's look and its write.
      await expect(sql("delete from data.configs where id = $1", [config])).rejects.toThrow("_config_fkey");
      await must(call("PATCH", of(routine.id), without), 200);
      await must(call("DELETE", `/api/v1/config/${config}`), 204);
    });

    it("and who may not read the routine learns that something does, and not what", async () => {
      const { make, acme, owners, as } = await start();
      const config = await aConfig(acme, "used", kind);
      const grants = [{ principal_type: "user", principal: owners[acme], actions: ["read"] }];
      const { id } = await make({ ...using(config), acl: { grants } });
      const refused = await as(acme, { role: "member" })("DELETE", `/api/v1/config/${config}`);
      expect([refused.status, refused.text.includes(id)]).toEqual([409, false]);
      expect(refused.body.detail).toBe("This config is in use, by: 1 that you may not see.");
    });
  });

  it("that takes no config loses the one that it had, and is given none: 422", async () => {
    const { make, call, of, acme } = await start();
    const config = await aConfig(acme, "used");
    const { id } = await make({ ...aScript, config });
    expect((await must(call("PATCH", of(id), { handler_type: "preset", preset_name: "do_task" }), 200)).config).toBe(
      null,
    );
    expect(faults(await call("PATCH", of(id), { config }))).toEqual([422, "config"]);
  });

  it("is not misled by an input that is called as what names configs", async () => {
    const { make } = await start();
    const inputs = { structured_message_template_ids: "trigger", config: "trigger" };
    const steps = [{ handler_type: "script", script: "1", inputs }];
    expect((await make({ name: "c", handler_type: "chain", steps })).steps).toEqual(steps);
  });
});

describe("the presets", () => {
  it("are a bare list", async () => {
    const { call } = await start();
    const all = await must(call("GET", "/api/v1/agent_routines/presets"), 200);
    expect(all.map(({ name }: { name: string }) => name)).toEqual([
      "participate",
      "do_task",
      "send_message",
      "auto_memory_capture",
    ]);
  });

  it("that one event starts take no other, as the database has it too", async () => {
    const { call, at } = await start();
    for (const { name, applicable_events, unique } of await must(call("GET", "/api/v1/agent_routines/presets"), 200)) {
      const body = { name, handler_type: "preset", preset_name: name, event_type: "some.other" };
      const any = applicable_events.includes("*");
      expect([name, (await call("POST", at, body)).status]).toEqual([name, any ? 200 : 422]);
      const own = { ...body, event_type: any ? "an.event" : applicable_events[0] };
      await must(call("POST", at, own), 200);
      expect([name, (await call("POST", at, own)).status]).toEqual([name, unique ? 422 : 200]);
    }
  });
});

describe("the SDK", () => {
  it("does all that there is with routines and runs, with a secret key and as a user", async () => {
    const { agent, secret_key, publishable_key, aToken, owners, acme } = await start();
    const { access_token } = await aToken(owners[acme]!);
    for (const client of [
      PlatformClient.withSecretKey(secret_key, system.base),
      PlatformClient.withToken(publishable_key, access_token, system.base),
    ]) {
      const made = await client.agents.agentRoutines(agent.id, {
        ...{ name: "one", handler_type: "script", script: "{ said: $.message }", event_type: "agentroutine.invoked" },
      });
      expect((await client.agent_routines.list({ agent: [agent.id] })).data).toContainEqual(made);
      expect(await client.agent_routines.get(made.id)).toEqual(made);
      expect(await client.agent_routines.update(made.id, { description: "d" })).toMatchObject({ description: "d" });
      expect(await client.agent_routines.activate(made.id)).toMatchObject({ status: "active" });
      expect((await client.agent_routines.presets()).length).toBe(4);
      const run = await client.agent_routines.invoke(made.id, { message: "Go.", idempotency_key: "one" });
      const events: any[] = [];
      for await (const event of await client.agent_routine_runs.stream(run.id)) events.push(event);
      expect(events.at(-1)).toMatchObject({ data: { id: run.id, status: "completed", result: { said: "Go." } } });
      const done = await client.agent_routines.agent_routine_runs.get(run.id);
      expect(done).toMatchObject({ id: run.id, status: "completed" });
      const lists = async () => [
        ...[(await client.agent_routines.runs(made.id)).data],
        ...[(await client.agent_routine_runs.list({ agent: [agent.id], status: "completed" })).data],
      ];
      // Lists hear of it a little later than the run itself.
      await expect
        .poll(async () => (await lists()).every((runs: any) => runs?.some(({ id }: any) => id === run.id)))
        .toBe(true);
      const { data, journal } = await client.agent_routines.agent_routine_runs.journal(run.id);
      expect([data.length, journal?.status]).toEqual([journal?.current_sequence, "completed"]);
      expect(await client.agent_routines.pause(made.id)).toMatchObject({ status: "paused" });
      await client.agent_routines.delete(made.id);
      await expect(client.agent_routines.get(made.id)).rejects.toMatchObject({ status: 404 });
    }
  });
});

it("makes one for an Idempotency-Key, however many come at once", async () => {
  const { call, at } = await start();
  const answers = await together(8, () => call("POST", at, aTask, { "Idempotency-Key": "one" }));
  expect(new Set(answers.map(({ status, body }) => `${status} ${body.id}`)).size).toBe(1);
});
