import { describe, expect, it } from "vitest";
import { type App, anAgent, anApp, bearer, type Call, caller, must, sql, system, together } from "../harness/index.ts";

const invocable = {
  ...{ name: "task", handler_type: "preset", preset_name: "do_task" },
  ...{ event_type: "agentroutine.invoked", status: "active" },
};
const session = (session_scope?: string) => ({ preset_config: { session_mode: "session", session_scope } });
const go = { message: "Go." };

/** An agent of a fresh app with a routine that can be invoked. */
async function start(fields: object = {}) {
  const made: App = await anApp();
  // There is room for none: what becomes of a run is tests/routines/running.test.ts's.
  await sql(`update data.apps set settings = '{"quotas": {"runs_at_once": 0}}' where id = $1`, [made.app]);
  const call: Call = made.as(made.acme);
  const agent = await anAgent(call);
  const make = (body: object) => must(call("POST", `/api/v1/agents/${agent.id}/agent_routines`, body), 200);
  const routine = await make({ ...invocable, ...fields });
  const at = `/api/v1/agent_routines/${routine.id}`;
  const invoke = (body: object = go, headers = {}) => call("POST", `${at}/invoke`, body, headers);
  const get = (id: string, by = call) => by("GET", `/api/v1/agent_routines/runs/${id}`);
  /** A member of acme, by a token. */
  const person = async () => {
    const user = await made.aUser(made.acme);
    return { id: user.id, call: caller(bearer((await made.aToken(user.id)).access_token)) };
  };
  return { ...made, call, agent, routine, at, invoke, get, person };
}
const refusalOf = ({ status, body }: { status: number; body: any }) => [
  status,
  body.error?.fields?.[0]?.field ?? body.error?.code,
];
const end = (id: string, status: string) =>
  sql("update data.agent_routine_runs set status = $2 where id = $1", [id, status]);

describe("POST /api/v1/agent_routines/{routine}/invoke", () => {
  it("records a pending run, whole", async () => {
    const { app, acme, owners, agent, routine, invoke, get } = await start();
    const participants = { reviewer: agent.id };
    const run = await must(invoke({ ...go, session_key: "k", participants, metadata: { a: 1 } }), 200);
    expect(run).toEqual({
      ...{ id: run.id, app, agent: agent.id, routine: routine.id, event_id: null, status: "pending" },
      ...{ payload: { message: "Go.", session_key: "k", user: owners[acme] }, participants },
      delivery: {
        ...{ type: "none", status: "not_requested", thread: null, message: null },
        ...{ delivered_at: null, delivered_message: null, last_error: null },
      },
      worker: { status: "queued", attempt: 0, max_attempts: 3 },
      ...{ duration_ms: null, result: null, structured_response: null, metadata: { a: 1 }, acl: null },
      ...{ created_at: run.created_at, updated_at: run.created_at },
    });
    expect(run.id).toMatch(/^arr_[0-9A-Za-z]{22}$/);
    expect(await must(get(run.id), 200)).toEqual(run);
  });

  it("names participants of the routine's org alone, whoever invokes: a key holds all orgs", async () => {
    const { as, globex, agent, at, asDeveloper } = await start();
    const stranger = await anAgent(as(globex));
    const invoke = (participant: string, address = at) =>
      asDeveloper("POST", `${address}/invoke`, { ...go, participants: { a: participant } });
    expect(refusalOf(await invoke(stranger.id))).toEqual([422, "participants"]);
    await must(invoke(agent.id), 200);
    const absent = `/api/v1/agent_routines/arn_${"0".repeat(22)}`;
    expect(refusalOf(await invoke(stranger.id, absent))).toEqual([404, "not_found"]);
  });

  it("takes the routine's lookup_key, where it is the one that has it", async () => {
    const { call, as, acme } = await start({ lookup_key: "sweep" });
    const invoke = () => call("POST", "/api/v1/agent_routines/sweep/invoke", go);
    await must(invoke(), 200);
    const other = await anAgent(as(acme));
    await must(call("POST", `/api/v1/agents/${other.id}/agent_routines`, { ...invocable, lookup_key: "sweep" }), 200);
    expect([(await invoke()).status, (await call("POST", "/api/v1/agent_routines/absent/invoke", go)).status]).toEqual([
      404, 404,
    ]);
  });

  it("needs an active routine that an invocation starts: 422", async () => {
    const paused = await start({ status: "draft" });
    expect(refusalOf(await paused.invoke())).toEqual([422, "not_active"]);
    const other = await start({ event_type: "thread.created" });
    expect(refusalOf(await other.invoke())).toEqual([422, "not_invocable"]);
    const mapped = await start({ event_type: null, event_config: { "agentroutine.invoked": {} } });
    await must(mapped.invoke(), 200);
  });

  it("of a session needs whose it is: a person is itself, a key names a user or a session_key", async () => {
    const { at, invoke, asDeveloper, owners, acme, globex } = await start(session());
    expect((await must(invoke(), 200)).payload.user).toBe(owners[acme]);
    const byKey = (body: object, to = at) => asDeveloper("POST", `${to}/invoke`, { ...go, ...body });
    expect(refusalOf(await byKey({}))).toEqual([422, "user"]);
    expect(refusalOf(await byKey({ user: owners[globex] }))).toEqual([422, "user"]);
    expect((await must(byKey({ user: owners[acme] }), 200)).payload.user).toBe(owners[acme]);
    const keyed = await start(session("per_key"));
    expect(refusalOf(await keyed.invoke())).toEqual([422, "session_key"]);
    await must(keyed.invoke({ ...go, session_key: "k" }), 200);
  });

  it.each<[string, object, string]>([
    ["nothing to say", { message: "" }, "message"],
    ["a thread", { ...go, thread_id: "thr_0000000000000000000000" }, "thread_id"],
    ["a delivery to a thread", { ...go, delivery: { type: "thread" } }, "delivery.type"],
    ["a participant that is no agent", { ...go, participants: { a: "bob" } }, "participants"],
    ["a participant that isn't there", { ...go, participants: { a: "agi_0000000000000000000000" } }, "participants"],
    ["a key with a space", { ...go, idempotency_key: "a b" }, "idempotency_key"],
    ["over 68 KB", { message: "é".repeat(32_768), metadata: { a: "x".repeat(8_000) } }, ""],
  ])("refuses %s: 422 on the field", async (_, body, field) => {
    const { invoke } = await start();
    expect(refusalOf(await invoke(body))).toEqual([422, field]);
  });

  it("under a key makes one run, as a header or in the body, until it has come to nothing", async () => {
    const { call, at, invoke } = await start();
    const inBody = { ...go, idempotency_key: "one" };
    const inHeader = { "Idempotency-Key": "one" };
    const first = await must(invoke(inBody), 200);
    expect(await must(invoke(go, inHeader), 200)).toEqual(first);
    await end(first.id, "running");
    expect((await must(invoke(inBody, inHeader), 200)).id).toBe(first.id);
    for (const status of ["failed", "skipped", "cancelled"]) {
      const before = await must(invoke(inBody), 200);
      await end(before.id, status);
      const after = await must(invoke(inBody), 200);
      expect([status, after.id === before.id]).toEqual([status, false]);
    }
    const last = await must(invoke(inBody), 200);
    await end(last.id, "completed");
    expect(refusalOf(await invoke(go, inHeader))).toEqual([409, "already_completed"]);
    expect(refusalOf(await invoke(inBody, { "Idempotency-Key": "two" }))).toEqual([422, "idempotency_key"]);
    expect((await must(call("GET", `${at}/runs`), 200)).data.length).toBe(4);
  });

  it.runIf(system.concurrent)("under a key makes one run, however many come at once", async () => {
    const { invoke } = await start();
    const answers = await together(12, () => invoke({ ...go, idempotency_key: "one" }));
    expect(new Set(answers.map(({ status, body }) => `${status} ${body.id}`)).size).toBe(1);
  });

  it("is for whoever may read the routine and write routines", async () => {
    const { call, at, person, as, acme } = await start();
    const { id, call: asPerson } = await person();
    const readOnly = { acl: { grants: [{ principal_type: "user", principal: id, actions: ["read"] }] } };
    await must(call("PATCH", at, readOnly), 200);
    await must(asPerson("POST", `${at}/invoke`, go), 200);
    expect((await as(acme, { role: "member" })("POST", `${at}/invoke`, go)).status).toBe(404);
    expect((await as(acme, { role: "viewer" })("POST", `${at}/invoke`, go)).status).toBe(403);
  });
});

describe("the runs", () => {
  it("are listed newest first and by cursors, of all, of agents, of a routine and of a status", async () => {
    const { call, agent, at, invoke, as, acme } = await start();
    const ids: string[] = [];
    for (let i = 0; i < 5; i++) ids.unshift((await must(invoke(), 200)).id);
    await end(ids[0]!, "failed");
    const list = (path: string) => must(call("GET", path), 200);
    const idsOf = ({ data }: any) => data.map(({ id }: { id: string }) => id);
    for (const base of [
      "/api/v1/agent_routine_runs?",
      `/api/v1/agent_routine_runs?agent[]=${agent.id}&`,
      `${at}/runs?`,
    ]) {
      expect(idsOf(await list(base))).toEqual(ids);
      expect(idsOf(await list(`${base}status=failed`))).toEqual([ids[0]]);
      const first = await list(`${base}limit=2`);
      const second = await list(`${base}limit=2&before_cursor=${first.before_cursor}`);
      const back = await list(`${base}limit=2&after_cursor=${second.after_cursor}`);
      expect([first, second, back].map(idsOf)).toEqual([ids.slice(0, 2), ids.slice(2, 4), ids.slice(0, 2)]);
      const last = await list(`${base}limit=2&before_cursor=${second.before_cursor}`);
      expect([idsOf(last), last.before_cursor]).toEqual([ids.slice(4), null]);
    }
    const other = await anAgent(as(acme));
    expect(idsOf(await list(`/api/v1/agent_routine_runs?agent[]=${other.id}`))).toEqual([]);
    expect((await call("GET", "/api/v1/agent_routine_runs?agent[]=nobody")).status).toBe(404);
    expect((await call("GET", `${at}/runs?before_cursor=x`)).status).toBe(400);
  });

  it("of a routine are for whoever may read the routine, and stay so when it is deleted", async () => {
    const { call, at, invoke, get, person } = await start();
    const [granted, other] = [await person(), await person()];
    const mine = { grants: [{ principal_type: "user", principal: granted.id, actions: ["read"] }] };
    const before = await must(invoke(), 200);
    await must(call("PATCH", at, { acl: mine }), 200);
    const { id } = await must(invoke(), 200);
    const seen = async (by: Call) => [
      (await get(id, by)).status,
      (await must(by("GET", "/api/v1/agent_routine_runs"), 200)).data.map((run: { id: string }) => run.id),
    ];
    expect(await seen(granted.call)).toEqual([200, [id, before.id]]);
    // The routine's list is every run's while it is there.
    expect(await seen(other.call)).toEqual([404, []]);
    expect((await other.call("GET", `${at}/runs`)).status).toBe(404);
    for (const path of ["journal", "stream"]) {
      const address =
        path === "stream" ? `/api/v1/agent_routine_runs/${id}/stream` : `/api/v1/agent_routines/runs/${id}/journal`;
      expect([path, (await other.call("GET", address)).status]).toEqual([path, 404]);
    }
    await must(call("DELETE", at), 204);
    expect((await get(id, other.call)).status).toBe(404);
    expect((await must(get(id, granted.call), 200)).routine).toBe(at.split("/").at(-1));
  });

  it("of somebody's routine without a list are for who reads the agent, one by one as in the list", async () => {
    const { call, at, invoke, get, person } = await start();
    const [owner, other] = [await person(), await person()];
    await must(call("PATCH", at, { user: owner.id }), 200);
    const { id } = await must(owner.call("POST", `${at}/invoke`, go), 200);
    const listed = await must(other.call("GET", `${at}/runs`), 200);
    expect([listed.data, await must(other.call("GET", at), 200)]).toMatchObject([[{ id }], { user: owner.id }]);
    expect(await must(get(id, other.call), 200)).toEqual(listed.data[0]);
    await must(other.call("POST", `${at}/invoke`, go), 200);
    const changes: [string, string][] = [
      ["PATCH", at],
      ["DELETE", at],
      ["POST", `${at}/pause`],
      ["POST", `/api/v1/agent_routines/runs/${id}/cancel`],
    ];
    for (const [method, path] of changes) {
      expect([path, (await other.call(method, path, method === "PATCH" ? {} : undefined)).status]).toEqual([path, 403]);
    }
    await must(invoke(), 200);
    await must(owner.call("POST", `/api/v1/agent_routines/runs/${id}/cancel`), 200);
  });

  it("keep the routine's user among their readers when the routine is gone", async () => {
    const { call, at, invoke, get, person } = await start();
    const [owner, other] = [await person(), await person()];
    const admins = { grants: [{ principal_type: "org_role", principal: "admin", actions: ["read"] }] };
    await must(call("PATCH", at, { user: owner.id, acl: admins }), 200);
    const { id } = await must(invoke(), 200);
    await must(call("DELETE", at), 204);
    expect([(await get(id, owner.call)).status, (await get(id, other.call)).status]).toEqual([200, 404]);
  });
});

describe("the journal of a run", () => {
  it("is empty, and none, before anything runs", async () => {
    const { call, invoke } = await start();
    const { id } = await must(invoke(), 200);
    const at = `/api/v1/agent_routines/runs/${id}/journal`;
    expect(await must(call("GET", at), 200)).toEqual({
      ...{ data: [], journal: null, has_more: false, before_cursor: null, after_cursor: null },
    });
    expect((await call("GET", `${at}?after_cursor=x`)).status).toBe(400);
  });
});

describe("the stream of a run", () => {
  const address = (id: string) => `/api/v1/agent_routine_runs/${id}/stream`;
  /** Events as they come, from a stream that `credential` asks for. */
  async function* events(id: string, credential: string) {
    const response = await fetch(system.base + address(id), { headers: bearer(credential) });
    expect([response.status, response.headers.get("Content-Type")]).toEqual([200, "text/event-stream"]);
    let text = "";
    for await (const bytes of response.body!.pipeThrough(new TextDecoderStream() as never)) {
      text += bytes;
      for (let at = text.indexOf("\n\n"); at !== -1; at = text.indexOf("\n\n")) {
        const [, event, data] = text.slice(0, at).match(/^event: (.*)\ndata: (.*)$/) ?? [];
        if (event) yield { event, data: JSON.parse(data!) };
        text = text.slice(at + 2);
      }
    }
  }

  it("says how it is, each change, and ends when it is over", async () => {
    const { invoke, get, secret_key } = await start();
    const run = await must(invoke(), 200);
    const told: any[] = [];
    for await (const { event, data } of events(run.id, secret_key)) {
      told.push([event, data.status]);
      if (told.length === 1) expect(data).toEqual(run);
      if (data.status === "pending") await end(run.id, "running");
      if (data.status === "running") await end(run.id, "completed");
    }
    expect(told).toEqual([
      ["run_update", "pending"],
      ["run_update", "running"],
      ["run_update", "completed"],
    ]);
    expect((await must(get(run.id), 200)).status).toBe("completed");
  });

  it("ends with an error when the credential dies", async () => {
    const { invoke, aToken, owners, acme } = await start();
    const run = await must(invoke(), 200);
    const { access_token, id } = await aToken(owners[acme]!);
    const told: any[] = [];
    for await (const { event, data } of events(run.id, access_token)) {
      told.push([event, data.code ?? data.status]);
      if (told.length === 1) await sql("update data.tokens set revoked_at = now() where id = $1", [id]);
    }
    expect(told).toEqual([
      ["run_update", "pending"],
      ["error", "unauthenticated"],
    ]);
  });
});
