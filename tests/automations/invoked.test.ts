/** Automations that are invoked, and their runs, through the front door. */
import { PlatformClient } from "@archastro/sdk";
import { describe, expect, it } from "vitest";
import { anAgent, bearer, caller, must, sql, system, together, unique } from "../harness/index.ts";
import { aGraph, stage } from "./stage.ts";

const invokePath = (name: string) => `/api/v1/automations/${name}/invoke`;

describe("the SDK", () => {
  it("invokes one, reads its run and its journal, and follows it, with a key and with a token", async () => {
    const { automation, app, owners, acme, aToken, secret_key, publishable_key } = await stage();
    const { access_token } = await aToken(owners[acme]!);
    for (const [client, user] of [
      [PlatformClient.withSecretKey(secret_key, system.base), null],
      [PlatformClient.withToken(publishable_key, access_token, system.base), owners[acme]],
    ] as const) {
      const of = await automation();
      const run = await client.automations.invoke(of.id, { payload: { n: 1 } });
      expect(run).toMatchObject({ app, automation: of.id, event_id: null, payload: { n: 1 }, team: null, user });
      const updates: any[] = [];
      for await (const { event, data } of await client.automation_runs.stream(run.id)) updates.push([event, data]);
      const done = await client.automation_runs.get(run.id);
      expect(done).toMatchObject({ id: run.id, status: "completed", result: { got: { n: 1 } } });
      expect(updates.at(-1)).toEqual(["run_update", { ...done, updated_at: expect.any(String) }]);
      const page = await client.automation_runs.journal(run.id);
      expect(page.journal).toMatchObject({ id: run.id, status: "completed", current_sequence: page.data.length });
      expect(page.data.map(({ type }: any) => type)).toContain("command.completed");
    }
  });
});

describe("an invocation", () => {
  it("goes by the id, or by a lookup_key; of another org it is absent", async () => {
    const { automation, call, as, globex } = await stage();
    const of = await automation();
    for (const name of [of.id, of.lookup_key]) {
      await must(call("POST", invokePath(name)), 200);
      const other = await as(globex)("POST", invokePath(name));
      const absent = await as(globex)("POST", invokePath("no-such-thing"));
      expect([other.status, other.body.detail]).toEqual([404, absent.body.detail]);
    }
  });

  it("answers the first run under a key, whatever came of it, and makes one of many at once", async () => {
    const { automation, invoke, run, call } = await stage();
    const of = await automation();
    const first = await run(of, { idempotency_key: "k", payload: { n: 1 } });
    expect(await invoke(of, { idempotency_key: "k", payload: { n: 2 } })).toMatchObject({
      id: first.id,
      payload: { n: 1 },
    });
    const byHeader = await must(call("POST", invokePath(of.id), {}, { "Idempotency-Key": "k" }), 200);
    expect(byHeader.id).toBe(first.id);
    const runs = await together(8, () => invoke(of, { idempotency_key: "another" }));
    expect(new Set(runs.map(({ id }) => id)).size).toBe(1);
  });

  it("is held to the input_schema, with what is filled in, which can't be sent otherwise", async () => {
    const { automation, call, run } = await stage();
    const of = await automation({
      input_schema: {
        type: "object",
        properties: { n: { type: "integer" }, by: { const: "us" } },
        required: ["n", "by"],
      },
      prefills: { payload: { by: "us" } },
    });
    const wrong = await call("POST", invokePath(of.id), { payload: { n: "one" } });
    expect([wrong.status, wrong.body.error.fields]).toEqual([422, [expect.objectContaining({ field: "payload.n" })]]);
    const locked = await call("POST", invokePath(of.id), { payload: { n: 1, by: "them" } });
    expect([locked.status, locked.body.error.fields[0].field]).toEqual([422, "payload"]);
    expect((await run(of, { payload: { n: 1, by: "us" } })).result).toEqual({ got: { n: 1, by: "us" } });
    expect((await run(of, { payload: { n: 1 } })).payload).toEqual({ n: 1, by: "us" });
  });

  it("names participants by the slots: those that are required, of their type, of the org, and that the viewer may read", async () => {
    const { automation, call, as, acme, globex, asDeveloper, owners, invoke } = await stage();
    const { id: agent } = await anAgent(call);
    const foreign = await anAgent(as(globex));
    const hidden = await anAgent(call, {
      acl: { grants: [{ principal_type: "user", principal: owners[acme], actions: ["read"] }] },
    });
    const of = await automation({
      participants: [
        { name: "writer", type: "agent", required: true },
        { name: "reader", type: "user" },
      ],
    });
    const refused = async (participants: object, by = call) =>
      (await by("POST", invokePath(of.id), { participants })).status;
    expect(await refused({})).toBe(422);
    expect(await refused({ writer: owners[acme] })).toBe(422);
    expect(await refused({ writer: agent, other: agent })).toBe(422);
    expect(await refused({ writer: foreign.id })).toBe(422);
    expect(await refused({ writer: foreign.id }, asDeveloper)).toBe(422);
    expect(await refused({ writer: hidden.id }, as(acme, { role: "member" }))).toBe(422);
    const participants = { writer: agent, reader: owners[acme] };
    expect((await invoke(of, { participants })).participants).toEqual(participants);
  });

  it.each([
    [["app"], { key: 200, owner: 403, member: 403 }],
    [["admin"], { key: 403, owner: 200, member: 403 }],
    [["user"], { key: 403, owner: 200, member: 200 }],
    [null, { key: 200, owner: 200, member: 200 }],
  ])("is for whom invoke_auth names: %j", async (invoke_auth, expected) => {
    const { automation, as, acme, asDeveloper } = await stage();
    const of = await automation({ automation_type: "invoked", invoke_auth });
    const callers = { key: asDeveloper, owner: as(acme), member: as(acme, { role: "member" }) };
    const got = Object.entries(callers).map(async ([who, by]) => [who, (await by("POST", invokePath(of.id))).status]);
    expect(Object.fromEntries(await Promise.all(got))).toEqual(expected);
  });

  it.each([
    ["a trigger", { event_type: "custom.thing" }, "not_invocable"],
    ["scheduled", { schedule: "0 9 * * *" }, "not_invocable"],
    ["a draft", { status: "draft" }, "not_active"],
    ["paused", { status: "paused" }, "not_active"],
  ])("is refused of one that is %s", async (_, said, code) => {
    const { automation, call } = await stage();
    const { status, body } = await call("POST", invokePath((await automation(said)).id));
    expect([status, body.error.code]).toEqual([422, code]);
  });

  it("is refused of one that was put away, until it is back; and of a config that is none", async () => {
    const { automation, call, graph, invoke } = await stage();
    const of = await automation();
    await must(call("POST", `/api/v1/config/${of.id}/archive`), 200);
    expect((await call("POST", invokePath(of.id))).status).toBe(422);
    expect((await call("POST", invokePath(of.lookup_key))).status).toBe(404);
    await must(call("POST", `/api/v1/config/${of.id}/unarchive`), 200);
    await invoke(of);
    expect((await call("POST", invokePath(graph.id))).status).toBe(404);
  });

  it("goes by what the config says now", async () => {
    const { automation, call, content, graph, run } = await stage();
    const of = await automation({ input_schema: { type: "object", required: ["n"] } });
    expect((await call("POST", invokePath(of.id))).status).toBe(422);
    await must(call("PATCH", `/api/v1/config/${of.id}`, content({ name: "Other", config_ref: graph.lookup_key })), 200);
    expect((await run(of)).status).toBe("completed");
    const paused = content({ name: "Other", config_ref: graph.id, status: "paused" });
    // Kept as it is by a version that isn't the newest, it goes on.
    expect((await call("PATCH", `/api/v1/config/${of.id}`, { ...paused, expected_version: 1 })).status).toBe(409);
    expect((await run(of)).status).toBe("completed");
    await must(call("PATCH", `/api/v1/config/${of.id}`, paused), 200);
    expect((await call("POST", invokePath(of.id))).status).toBe(422);
  });
});

describe("who a run acts as", () => {
  const whoami = "{ agents: array.map(unwrap(agents.list({})).data, fn(a) { a.name }) }";

  it("is the person who invokes it, and for a key whom it says", async () => {
    const { config, automation, run, call, as, acme, owners, asDeveloper, aUser, aToken } = await stage();
    const only = (user: string) => ({
      grants: [{ principal_type: "user", principal: user, actions: ["read", "write"] }],
    });
    const ann = (await aUser(acme, "member")).id;
    const asAnn = caller(bearer((await aToken(ann)).access_token));
    await anAgent(call, { name: "Everybody's" });
    await anAgent(call, { name: "Ann's", acl: only(ann) });
    const own = await anAgent(call, { name: "Its own", acl: only(owners[acme]!) });
    await sql("update data.agents set acl = $2 where id = $1", [
      own.id,
      JSON.stringify({ grants: [{ principal_type: "agent", principal: own.id, actions: ["read"] }] }),
    ]);
    const script = await config("Script", whoami);
    const seen = async (said: object, by = asDeveloper) => {
      const of = await automation({ config_ref: script.id, ...said });
      const { result } = await run(of, {}, by);
      return result.agents?.toSorted() ?? result;
    };
    expect(await seen({})).toEqual(["Everybody's"]);
    expect(await seen({ run_as_user: ann })).toEqual(["Ann's", "Everybody's"]);
    expect(await seen({ run_as_agent: own.id })).toEqual(["Everybody's", "Its own"]);
    expect(await seen({ run_as_agent: own.id }, asAnn)).toEqual(["Ann's", "Everybody's"]);
    expect(await seen({ run_as_user: ann }, as(acme, { role: "member" }))).toEqual(["Everybody's"]);
  });

  it("can be set by whoever may act so alone", async () => {
    const { content, call, as, acme, owners, graph, globex, aUser } = await stage();
    const member = as(acme, { role: "member" });
    const own = await anAgent(call, { acl: { grants: [{ principal_type: "everyone", actions: ["read"] }] } });
    const other = (await aUser(globex)).id;
    const save = async (said: object, by = member) => {
      const whole = { name: "A", config_ref: graph.id, ...said };
      const body = { kind: "Automation", system: true, lookup_key: unique("c"), ...content(whole) };
      const { status, body: answer } = await by("POST", "/api/v1/config", body);
      return [status, answer.error?.fields?.[0].message.split(":")[0]];
    };
    expect(await save({ run_as_user: owners[acme] })).toEqual([422, "/run_as_user"]);
    expect(await save({ run_as_agent: own.id })).toEqual([422, "/run_as_agent"]);
    expect(await save({ run_as_user: other }, call)).toEqual([422, "/run_as_user"]);
    expect(await save({ run_as_user: owners[acme] }, call)).toEqual([201, undefined]);
    expect(await save({ run_as_agent: own.id }, call)).toEqual([201, undefined]);
    const id = (
      await must(
        call("POST", "/api/v1/config", {
          kind: "Automation",
          system: true,
          ...content({ name: "A", config_ref: graph.id }),
        }),
        201,
      )
    ).id;
    const change = content({ name: "A", config_ref: graph.id, run_as_user: owners[acme] });
    expect((await member("PATCH", `/api/v1/config/${id}`, change)).status).toBe(422);
    await must(call("PATCH", `/api/v1/config/${id}`, change), 200);
  });
});

describe("what can't run is refused when it is saved", () => {
  it.each([
    ["/config_ref", { config_ref: null }],
    ["/config_ref", { config_ref: "no-such-graph" }],
    ["/event_type", { automation_type: "trigger" }],
    ["/event_type", { automation_type: "invoked", event_type: "custom.a" }],
    ["/schedule", { automation_type: "scheduled" }],
    ["/schedule", { schedule: "@daily" }],
    ["/event_config", { schedule: "* * * * *", event_config: { "schedule.cron": { timezone: "Nowhere" } } }],
    ["/automation_type", { event_type: "custom.a", input_schema: { type: "object" } }],
    ["/run_as_agent", { run_as_agent: "agi_0000000000000000000000", run_as_user: "usr_0000000000000000000000" }],
    ["/input_schema", { input_schema: { $id: "https://example.com" } }],
    [
      "/participants",
      {
        participants: [
          { name: "a", type: "agent" },
          { name: "a", type: "user" },
        ],
      },
    ],
    ["/participants/0/type", { participants: [{ name: "a", type: "team" }] }],
    ["/prefills", { prefills: { participants: { a: "x" } } }],
    ["/invoke_auth", { invoke_auth: [] }],
    ["/status", { status: "on" }],
  ])("%s of %j", async (pointer, said) => {
    const { content, call, graph } = await stage();
    const whole = { name: "A", config_ref: graph.id, ...said };
    const { status, body } = await call("POST", "/api/v1/config", {
      kind: "Automation",
      system: true,
      ...content(whole),
    });
    expect([status, body.error?.fields?.[0].message ?? ""]).toEqual([422, expect.stringContaining(pointer)]);
  });

  it("a schedule that comes more often than the app lets it", async () => {
    const { asDeveloper, at, content, call, graph } = await stage();
    await must(asDeveloper("PATCH", at, { settings: { min_routine_interval_seconds: 3600 } }), 200);
    const whole = { name: "A", config_ref: graph.id, schedule: "* * * * *" };
    const { status, body } = await call("POST", "/api/v1/config", {
      kind: "Automation",
      system: true,
      ...content(whole),
    });
    expect([status, body.error.fields[0].message]).toEqual([
      422,
      expect.stringContaining("/schedule: comes more often"),
    ]);
  });

  it("but a draft may name what isn't there yet, and an automation stays in its org", async () => {
    const { automation, asDeveloper, acme, globex, owners, call } = await stage();
    const of = await automation({ status: "draft", config_ref: "not-yet" });
    const moved = await asDeveloper("POST", `/api/v1/config/${of.id}/change_owner`, { system: true, org: globex });
    expect([moved.status, moved.body.error.fields[0].field]).toEqual([422, "org"]);
    await must(call("POST", `/api/v1/config/${of.id}/change_owner`, { user: owners[acme] }), 200);
  });
});

describe("a run of an automation", () => {
  const asking = (config: any) =>
    config("WorkflowGraph", {
      ...{ kind: "WorkflowGraph", version: 1, name: "Asks", start_node: "start" },
      nodes: [
        { kind: "WorkflowTrigger", id: "start", on_success: "ask" },
        { kind: "WorkflowApproval", id: "ask", message: "May I?", on_success: "end" },
        { kind: "WorkflowScript", id: "end", script: "end" },
      ],
      data: [{ kind: "Script", id: "end", script: "{ done: true }" }],
    });
  const waiting = async (call: any, run: { id: string }) => {
    const all = async () => (await must(call("GET", "/api/v1/tool_calls?outcome[]=awaiting_approval"), 200)).data;
    await expect.poll(all, { timeout: 15_000 }).toContainEqual(expect.objectContaining({ automation_run: run.id }));
    return (await all()).find((one: any) => one.automation_run === run.id);
  };

  it("waits for a person, who finds its command among all that wait, and goes on once that was approved", async () => {
    const { config, automation, invoke, becomes, call, as, globex } = await stage();
    const of = await automation({ config_ref: (await asking(config)).id });
    const run = await invoke(of);
    const command = await waiting(call, run);
    expect(command).toMatchObject({ name: "ask", session: null, routine_run: null, agent: null });
    const at = `/api/v1/automation_runs/${run.id}/commands`;
    expect((await must(call("GET", at), 200)).data).toMatchObject([{ id: command.id }]);
    expect((await must(as(globex)("GET", "/api/v1/tool_calls"), 200)).data).toEqual([]);
    const decision = { arguments_hash: command.arguments_hash };
    expect((await as(globex)("POST", `${at}/${command.id}/approve`, decision)).status).toBe(404);
    expect((await call("POST", `${at}/${command.id}/approve`, { arguments_hash: "other" })).status).toBe(409);
    await must(call("POST", `${at}/${command.id}/approve`, decision), 200);
    expect((await becomes(run.id, "completed")).result).toEqual({ done: true });
    expect((await call("POST", `${at}/${command.id}/deny`, decision)).status).toBe(409);
  });

  it("is cancelled, and tried again as a run of its own", async () => {
    const { config, automation, invoke, becomes, call } = await stage();
    const of = await automation({ config_ref: (await asking(config)).id });
    const run = await invoke(of, { payload: { n: 1 }, idempotency_key: "k" });
    expect((await call("POST", `/api/v1/automation_runs/${run.id}/retry`)).status).toBe(422);
    await waiting(call, run);
    await must(call("POST", `/api/v1/automation_runs/${run.id}/cancel`), 200);
    await becomes(run.id, "cancelled");
    const again = await must(
      call("POST", `/api/v1/automation_runs/${run.id}/retry`, {}, { "Idempotency-Key": "r" }),
      200,
    );
    expect(again).toMatchObject({ automation: of.id, payload: { n: 1 }, user: run.user });
    expect(again.id).not.toBe(run.id);
    const same = await must(
      call("POST", `/api/v1/automation_runs/${run.id}/retry`, {}, { "Idempotency-Key": "r" }),
      200,
    );
    expect(same.id).toBe(again.id);
    await becomes(again.id, "running");
  });

  it("is none of routines', and a routine's run is none of automations'", async () => {
    const { automation, run, call } = await stage();
    const { id: agent } = await anAgent(call);
    const of = await automation({ run_as_agent: agent });
    const { id } = await run(of);
    expect((await call("GET", `/api/v1/agent_routines/runs/${id}`)).status).toBe(404);
    expect((await must(call("GET", `/api/v1/agent_routine_runs?agent[]=${agent}`), 200)).data).toEqual([]);
    expect((await must(call("GET", "/api/v1/agent_routine_runs"), 200)).data).toEqual([]);
    const routine = await must(
      call("POST", `/api/v1/agents/${agent}/agent_routines`, {
        ...{ name: "r", handler_type: "script", script: "1", event_type: "agentroutine.invoked", status: "active" },
      }),
      200,
    );
    const other = await must(call("POST", `/api/v1/agent_routines/${routine.id}/invoke`, { message: "Go." }), 200);
    expect((await call("GET", `/api/v1/automation_runs/${other.id}`)).status).toBe(404);
  });

  it("is for whoever may read its automation's config, and goes when that goes", async () => {
    const { automation, run, call, as, acme, owners, globex } = await stage();
    const of = await automation({}, { system: undefined, user: owners[acme] });
    const { id } = await run(of);
    const at = `/api/v1/automation_runs/${id}`;
    const member = as(acme, { role: "member" });
    for (const by of [member, as(globex)]) {
      expect((await by("POST", invokePath(of.id))).status).toBe(404);
      for (const path of [at, `${at}/journal`, `${at}/stream`, `${at}/commands`])
        expect((await by("GET", path)).status).toBe(404);
      for (const verb of ["cancel", "retry"]) expect((await by("POST", `${at}/${verb}`)).status).toBe(404);
    }
    const told = async (as: typeof call) =>
      (await must(as("GET", "/api/v1/events"), 200)).data.filter(({ payload }: any) => payload.id === id);
    expect(await told(member)).toEqual([]);
    expect(await told(as(globex))).toEqual([]);
    await must(call("DELETE", `/api/v1/config/${of.id}`), 204);
    expect((await call("GET", at)).status).toBe(404);
  });

  it("takes nobody's place any more when its automation was deleted, whatever it waits for", async () => {
    const { app, config, automation, invoke, run, becomes, call } = await stage();
    await sql(`update data.apps set settings = '{"quotas": {"runs_at_once": 1}}' where id = $1`, [app]);
    const of = await automation({ config_ref: (await asking(config)).id });
    const held = await invoke(of);
    await waiting(call, held);
    const next = await invoke(await automation());
    await must(call("DELETE", `/api/v1/config/${of.id}`), 204);
    await run(await automation());
    await becomes(next.id, "completed");
    const [row] = await sql("select status from data.agent_routine_runs where id = $1", [held.id]);
    expect(row.status).toBe("cancelled");
  });

  it("tells of itself: by an event for each state, and by an entry of the feed at its end", async () => {
    const { automation, run, config, call } = await stage();
    const done = await run(await automation());
    const bad = await config("WorkflowGraph", aGraph("unknown_name"));
    const failed = await run(await automation({ config_ref: bad.id }));
    expect(failed).toMatchObject({ status: "failed", result: { error: expect.any(String) } });
    const of = (id: string) => async () => {
      const { data } = await must(call("GET", "/api/v1/events?limit=500"), 200);
      return data.flatMap(({ event_name, payload }: any) => (payload.id === id ? [event_name] : []));
    };
    const names = ["created", "running", "completed"].map((state) => `automation_run.${state}`);
    await expect.poll(of(done.id), { timeout: 15_000 }).toEqual(names);
    await expect.poll(of(failed.id), { timeout: 15_000 }).toContain("automation_run.failed");
    const feed = async () => (await must(call("GET", "/api/v1/activity_feed?kind[]=automation_run"), 200)).data;
    await expect.poll(feed, { timeout: 15_000 }).toContainEqual(
      expect.objectContaining({
        ...{ level: "error", title: "Automation run failed: An automation", correlation_id: failed.id },
      }),
    );
  });

  it("has no secret of anybody's", async () => {
    const { config, automation, run, call } = await stage();
    const { id: agent } = await anAgent(call);
    await must(call("POST", `/api/v1/agents/${agent}/agent_env_vars`, { key: "TOKEN", value: "a-secret-value" }), 200);
    const script = await config("Script", "{ has: env.TOKEN }");
    const { result, status } = await run(await automation({ config_ref: script.id, run_as_agent: agent }));
    expect(JSON.stringify([status, result])).not.toContain("a-secret-value");
  });
});
