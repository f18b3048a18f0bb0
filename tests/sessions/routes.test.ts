import { PlatformClient } from "@archastro/sdk";
import { describe, expect, it } from "vitest";
import { newId } from "../../lib/ids.ts";
import { Journal } from "../../lib/journal/journal.ts";
import { replay, type Tape } from "../../lib/sessions/tape.ts";
import { type Answer, anAgent, anApp, type Call, must, sql, system, together, unique } from "../harness/index.ts";
import { aStore } from "../lib/journal/store.ts";
import { instructionsOf, type Rule, until } from "./stage.ts";

const at = (id: string, rest = "") => `/api/v1/agent_sessions/${id}${rest}`;
const faults = ({ status, body }: Answer) => [status, body.error.fields.map(({ field }: any) => field)];
const code = ({ status, body }: Answer) => [status, body.error.code];
/** Answers what it is told, and does nothing else. */
const answers = (...rules: Rule[]) => instructionsOf(...rules, { text: "Done." });

async function start() {
  const app = await anApp();
  const call = app.as(app.acme);
  const agent = await anAgent(call, { model: "scripted/script", lookup_key: `a${newId("agent").slice(4)}` });
  const aSession = (fields: object = {}, by: Call = call): Promise<any> =>
    must(by("POST", "/api/v1/agent_sessions", { agent: agent.id, instructions: answers(), ...fields }), 201);
  const get = (id: string, by: Call = call): Promise<any> => must(by("GET", at(id)), 200);
  const is = (id: string, status: string) =>
    until(`${id} is ${status}`, async () => {
      const session = await get(id);
      return session.status === status ? session : null;
    });
  /** One whose model has been asked, and says nothing for as long as a test takes. */
  const aBusySession = async () => {
    const { id } = await aSession({ instructions: instructionsOf({ delay_ms: 60_000, text: "At last." }) });
    await until("its model is asked", async () => {
      const { frames } = (await call("GET", at(id, "/export"))).body;
      return frames?.some(({ type }: any) => type === "model.started") || null;
    });
    return id as string;
  };
  return { ...app, call, agent, aSession, aBusySession, get, is };
}

/** Waits until Postgres has it, as lists have. */
const told = (id: string, status: string) =>
  until(`${id} is told as ${status}`, async () => {
    const [row] = await sql("select status from data.agent_sessions where id = $1", [id]);
    return row?.status === status || null;
  });

describe("POST /api/v1/agent_sessions", () => {
  it("answers the whole session, which has begun, with the defaults of the contract", async () => {
    const { aSession, agent, is } = await start();
    const made = await aSession();
    expect(made).toMatchObject({
      ...{ agent: agent.id, user: null, name: null, instructions: answers(), metadata: {}, inbox: [] },
      ...{ max_turns: 100, max_tokens: 20_000, max_runs_per_turn: 25, start_idle: false, on_idle: "wait" },
      ...{ result_schema: null, is_system_session: false, error: null, result: null, completed_at: null },
      ...{ status: "pending", started_at: null, trajectory: null },
    });
    expect(made.id).toMatch(/^ase_/);
    const waiting = await is(made.id, "waiting");
    expect(waiting.trajectory).toMatch(/^trj_/);
    expect(Date.parse(waiting.started_at)).toBeGreaterThan(0);
  });

  it("takes the agent's lookup_key for the agent", async () => {
    const { aSession, agent } = await start();
    expect((await aSession({ agent: agent.lookup_key })).agent).toBe(agent.id);
  });

  it("waits for its first message when it starts idle", async () => {
    const { aSession, call, is } = await start();
    const { id, status } = await aSession({ start_idle: true });
    expect(status).toBe("waiting");
    await must(call("POST", at(id, "/message"), { content: "Go" }), 200);
    await until("an answer", async () => (await must(call("GET", at(id, "/export")), 200)).frames.length > 4 || null);
    await is(id, "waiting");
  });

  it("completes with what its model said last, where it is asked to", async () => {
    const { aSession, is } = await start();
    const { id } = await aSession({ on_idle: "complete" });
    expect(await is(id, "completed")).toMatchObject({ result: { output: "Done." }, error: null });
  });

  it("makes one session of one Idempotency-Key, and answers it again", async () => {
    const { call, agent } = await start();
    const body = { agent: agent.id, instructions: answers() };
    const made = await together(5, () =>
      call("POST", "/api/v1/agent_sessions", body, { "Idempotency-Key": `k-${agent.id}` }),
    );
    expect(new Set(made.map(({ status, body }) => `${status} ${body.id}`)).size).toBe(1);
  });

  it("refuses what is out of its bounds, and what nothing stands behind yet, naming each field", async () => {
    const { call, agent } = await start();
    const refused = await call("POST", "/api/v1/agent_sessions", {
      ...{ agent: agent.id, instructions: "x".repeat(65_537), max_turns: 1001, max_tokens: 10_000_001 },
      ...{ max_runs_per_turn: 0, on_idle: "stop", result_schema: { type: "string" }, team: "tem_1", thread: "thr_1" },
    });
    expect(faults(refused)).toEqual([
      422,
      ["instructions", "max_turns", "max_tokens", "max_runs_per_turn", "on_idle", "result_schema", "team", "thread"],
    ]);
    const wide = await call("POST", "/api/v1/agent_sessions", { agent: agent.id, instructions: "€".repeat(30_000) });
    expect(faults(wide)).toEqual([422, ["instructions"]]);
    const schema = { type: "object", properties: { a: { type: "nothing" } } };
    const bad = { agent: agent.id, instructions: "x", result_schema: schema };
    expect(faults(await call("POST", "/api/v1/agent_sessions", bad))).toEqual([422, ["result_schema"]]);
  });

  it("works for anyone of the agent's org by a key, and for a person by that person alone", async () => {
    const { aSession, call, agent, asDeveloper, aUser, acme, globex, owners } = await start();
    const colleague = await aUser(acme);
    const stranger = await aUser(globex);
    const ask = (by: Call, user: string) =>
      by("POST", "/api/v1/agent_sessions", { agent: agent.id, instructions: answers(), user });
    expect((await aSession({ user: owners[acme] })).user).toBe(owners[acme]);
    expect(faults(await ask(call, colleague.id))).toEqual([422, ["user"]]);
    expect((await must(ask(asDeveloper, colleague.id), 201)).user).toBe(colleague.id);
    expect(faults(await ask(asDeveloper, stranger.id))).toEqual([422, ["user"]]);
    expect(faults(await ask(asDeveloper, newId("user")))).toEqual([422, ["user"]]);
  });

  it("asks for the right to change the agent, and hides an agent that may not be read", async () => {
    const { agent, call, as, acme } = await start();
    const member = as(acme, { role: "member" });
    const begin = () => member("POST", "/api/v1/agent_sessions", { agent: agent.id, instructions: answers() });
    const everyone = { principal_type: "everyone", actions: ["read"] };
    await must(call("PATCH", `/api/v1/agents/${agent.id}`, { acl: { grants: [everyone] } }), 200);
    expect(code(await begin())).toEqual([403, "forbidden"]);
    const admins = { principal_type: "org_role", principal: "admin", actions: ["write"] };
    await must(call("PATCH", `/api/v1/agents/${agent.id}`, { acl: { grants: [admins] } }), 200);
    expect(faults(await begin())).toEqual([422, ["agent"]]);
  });
});

describe("GET /api/v1/agent_sessions", () => {
  it("lists the newest first, by agent, status and kind, and doesn't show inboxes", async () => {
    const { aSession, call, agent } = await start();
    const other = await anAgent(call, { model: "scripted/script" });
    const done = await aSession({ on_idle: "complete" });
    const waits = await aSession({ agent: other.id, start_idle: true });
    await told(done.id, "completed");
    await told(waits.id, "waiting");
    const list = async (query: string) =>
      (await must(call("GET", `/api/v1/agent_sessions?${query}`), 200)).data.map(({ id }: any) => id);
    expect(await list("")).toEqual([waits.id, done.id]);
    expect(await list("status[]=completed&status[]=failed")).toEqual([done.id]);
    expect(await list("status=completed,waiting")).toEqual([waits.id, done.id]);
    expect(await list(`agent[]=${agent.lookup_key}`)).toEqual([done.id]);
    expect(await list(`routine_run[]=${newId("agent_routine_run")}`)).toEqual([]);
    await sql("update data.agent_sessions set is_system_session = true where id = $1", [done.id]);
    expect(await list("exclude_system=true")).toEqual([waits.id]);
    const { data } = await must(call("GET", "/api/v1/agent_sessions"), 200);
    expect(data.map(({ inbox }: any) => inbox)).toEqual([null, null]);
    expect((await call("GET", `/api/v1/agent_sessions?agent[]=${newId("agent")}`)).status).toBe(404);
  });

  it("goes on by cursor, to the end and back", async () => {
    const { aSession, call } = await start();
    const made = [];
    for (let i = 0; i < 5; i++) made.unshift((await aSession({ start_idle: true })).id);
    const first = await must(call("GET", "/api/v1/agent_sessions?limit=2"), 200);
    const second = await must(call("GET", `/api/v1/agent_sessions?limit=2&before_cursor=${first.before_cursor}`), 200);
    const third = await must(call("GET", `/api/v1/agent_sessions?limit=2&before_cursor=${second.before_cursor}`), 200);
    expect([first, second, third].flatMap(({ data }) => data.map(({ id }: any) => id))).toEqual(made);
    expect([first, second, third].map(({ has_more }) => has_more)).toEqual([true, true, false]);
    const back = await must(call("GET", `/api/v1/agent_sessions?limit=2&after_cursor=${third.after_cursor}`), 200);
    expect(back.data).toEqual(second.data);
  });
});

describe("PATCH and DELETE /api/v1/agent_sessions/:agent_session", () => {
  it("replace the metadata and nothing else, whatever the status", async () => {
    const { aSession, call } = await start();
    const { id } = await aSession({ metadata: { a: 1, b: 2 } });
    expect((await must(call("PATCH", at(id), { metadata: { c: 3 } }), 200)).metadata).toEqual({ c: 3 });
    expect((await must(call("PATCH", at(id), {}), 200)).metadata).toEqual({ c: 3 });
    expect(faults(await call("PATCH", at(id), { name: "x" }))).toEqual([422, ["name"]]);
  });

  it("delete what has ended, at once, and nothing that hasn't", async () => {
    const { aSession, call } = await start();
    const { id } = await aSession({ start_idle: true });
    expect(code(await call("DELETE", at(id)))).toEqual([422, "not_ended"]);
    await must(call("POST", at(id, "/cancel")), 200);
    await must(call("DELETE", at(id)), 204);
    expect((await call("GET", at(id))).status).toBe(404);
    expect(await sql("select kind, tried_at from app.erasures where id = $1", [id])).toEqual([
      { kind: "agent_session", tried_at: null },
    ]);
  });
});

describe("POST …/cancel", () => {
  it("ends the session, once: again, it answers the same", async () => {
    const { aBusySession, call } = await start();
    const id = await aBusySession();
    const first = await must(call("POST", at(id, "/cancel")), 200);
    expect(first).toMatchObject({ status: "cancelled", error: null, result: null });
    expect(await must(call("POST", at(id, "/cancel")), 200)).toEqual(first);
    await told(id, "cancelled");
  });
});

describe("POST …/message", () => {
  it("shows the message in the inbox, with who sent it", async () => {
    const { aBusySession, call, asDeveloper, owners, acme } = await start();
    const id = await aBusySession();
    const said = await must(call("POST", at(id, "/message"), { content: "Hello", metadata: { a: 1 } }), 200);
    expect(said.inbox).toMatchObject([
      { role: "user", content: "Hello", sender_type: "user", sender_id: owners[acme], metadata: { a: 1 } },
    ]);
    const { inbox } = await must(asDeveloper("POST", at(id, "/message"), { content: "Rules", role: "system" }), 200);
    expect(inbox[1]).toMatchObject({ role: "system", sender_type: "app", sender_id: null });
  });

  it("lets a secret key alone speak as the system", async () => {
    const { aSession, call } = await start();
    const { id } = await aSession({ start_idle: true });
    expect(faults(await call("POST", at(id, "/message"), { content: "x", role: "system" }))).toEqual([422, ["role"]]);
    expect(faults(await call("POST", at(id, "/message"), { content: "", role: "tool", on_busy: "x" }))).toEqual([
      422,
      ["content", "role", "on_busy"],
    ]);
    expect(faults(await call("POST", at(id, "/message"), { content: "€".repeat(30_000) }))).toEqual([422, ["content"]]);
  });

  it("takes one message of one Idempotency-Key of one sender, and no other under it", async () => {
    const { aBusySession, call, asDeveloper } = await start();
    const id = await aBusySession();
    const send = (by: Call, content: string) => by("POST", at(id, "/message"), { content }, { "Idempotency-Key": "k" });
    const answered = await together(10, () => send(call, "Once"));
    expect(answered.map(({ status }) => status)).toEqual(Array(10).fill(200));
    expect(answered.at(-1)!.body.inbox).toHaveLength(1);
    expect((await send(call, "Twice")).status).toBe(422);
    expect((await must(send(asDeveloper, "Once"), 200)).inbox).toHaveLength(2);
    expect((await call("POST", at(id, "/message"), { content: "x" }, { "Idempotency-Key": "a b" })).status).toBe(422);
  });

  it("is refused where the session has ended, and where it is running and shan't be", async () => {
    const { aBusySession, call } = await start();
    const id = await aBusySession();
    expect((await call("POST", at(id, "/message"), { content: "x", on_busy: "reject" })).status).toBe(409);
    await must(call("POST", at(id, "/cancel")), 200);
    expect((await call("POST", at(id, "/message"), { content: "x" })).status).toBe(422);
  });
});

describe("tool calls", () => {
  /** As the projection writes them. */
  const aCall = async (session: string, outcome: string) => {
    const id = newId("tool_call");
    await sql(
      `insert into data.tool_calls (id, app_id, sandbox_id, org_id, agent_id, session_id, name, turn, arguments,
         arguments_hash, outcome, attempts, sequence, requested_at)
       select $1, app_id, sandbox_id, org_id, agent_id, id, 'look', 1, '{"a": 1}', 'abc', $3, 0, 5, now()
         from data.agent_sessions where id = $2`,
      [id, session, outcome],
    );
    return id;
  };

  it("with arguments that are short here, and in the database have thousands of digits, are listed, cut", async () => {
    const { aSession, call } = await start();
    const finish = { tool_calls: [{ name: "finish", arguments: { result: { at: Array(2_000).fill(1e300) } } }] };
    const instructions = instructionsOf({ match: "more than 65536 bytes", text: "Done." }, finish);
    const { id } = await aSession({ instructions, on_idle: "complete" });
    await told(id, "completed");
    const { data } = await must(call("GET", at(id, "/tool_calls")), 200);
    expect(data).toMatchObject([{ name: "finish", arguments: { cut: expect.stringContaining("characters") } }]);
  });

  it("are listed by session, newest first, by outcome and by cursor", async () => {
    const { aSession, call, agent } = await start();
    const [one, other] = [await aSession({ start_idle: true }), await aSession({ start_idle: true })];
    const ids = [await aCall(one.id, "succeeded"), await aCall(one.id, "unknown"), await aCall(one.id, "failed")];
    await aCall(other.id, "failed");
    const list = (query: string) => must(call("GET", at(one.id, `/tool_calls?${query}`)), 200);
    expect((await list("")).data.map(({ id }: any) => id)).toEqual(ids.toReversed());
    expect((await list("outcome[]=unknown")).data).toMatchObject([
      { id: ids[1], session: one.id, agent: agent.id, name: "look", turn: 1, arguments: { a: 1 }, outcome: "unknown" },
    ]);
    const { before_cursor, data } = await list("limit=2");
    const older = await list(`limit=2&before_cursor=${before_cursor}`);
    expect([...data, ...older.data].map(({ id }: any) => id)).toEqual(ids.toReversed());
    expect(faults(await call("GET", at(one.id, "/tool_calls?outcome[]=lost")))).toEqual([422, ["outcome.0"]]);
  });

  it("of all sessions are those of agents that the viewer may change", async () => {
    const { aSession, call, agent, as, acme, globex } = await start();
    const { id } = await aSession({ start_idle: true });
    const waits = await aCall(id, "awaiting_approval");
    await aCall(id, "succeeded");
    const list = async (by: Call) =>
      (await must(by("GET", "/api/v1/tool_calls?outcome[]=awaiting_approval&outcome[]=unknown"), 200)).data.map(
        (one: any) => one.id,
      );
    const member = as(acme, { role: "member" });
    expect([await list(call), await list(member), await list(as(globex))]).toEqual([[waits], [waits], []]);
    const everyone = { principal_type: "everyone", actions: ["read"] };
    await must(call("PATCH", `/api/v1/agents/${agent.id}`, { acl: { grants: [everyone] } }), 200);
    expect(await list(member)).toEqual([]);
  });

  it("that wait for a person go on when the arguments that were looked at are approved, once, and those alone", async () => {
    const { aSession, call, agent, is, owners, acme } = await start();
    const script = { kind: "Script", mime_type: "text/plain", raw_content: "1 + 1" };
    const { id: config } = await must(call("POST", "/api/v1/config", script), 201);
    const tool = {
      kind: "custom",
      status: "active",
      name: "look",
      description: "Looks",
      handler_type: "script",
      config,
    };
    const asked = { ...tool, parameters: { type: "object" }, approval: "required" };
    await must(call("POST", `/api/v1/agents/${agent.id}/agent_tools`, asked), 200);
    const rules: Rule[] = [
      { role: "user", tool_calls: [{ name: "look", arguments: {} }] },
      { role: "tool", text: "Done." },
    ];
    const { id } = await aSession({ instructions: instructionsOf(...rules), on_idle: "complete" });
    const [waits] = await until("it waits for a person", async () => {
      const { data } = await must(call("GET", "/api/v1/tool_calls?outcome[]=awaiting_approval"), 200);
      return data.length ? data : null;
    });
    expect(waits).toMatchObject({ session: id, name: "look", effect: null, attempts: 0, started_at: null });
    const approve = (arguments_hash: string) =>
      call("POST", at(id, `/tool_calls/${waits.id}/approve`), { arguments_hash, note: "Fine." });
    expect(code(await approve("another"))).toEqual([409, "arguments_differ"]);
    expect((await must(approve(waits.arguments_hash), 200)).id).toBe(id);
    expect((await approve(waits.arguments_hash)).status).toBe(409);
    await is(id, "completed");
    await told(id, "completed");
    const { data } = await must(call("GET", at(id, "/tool_calls")), 200);
    expect(data).toMatchObject([{ id: waits.id, outcome: "succeeded", attempts: 1 }]);
    const { frames } = await must(call("GET", at(id, "/export")), 200);
    expect(frames.find(({ type }: any) => type === "approval.decided")).toMatchObject({
      ...{ approved: true, note: "Fine.", by: { type: "user", id: owners[acme] } },
    });
  });

  it("that are unknown to the session are 404, whoever made them up", async () => {
    const { aSession, call } = await start();
    const { id } = await aSession({ start_idle: true });
    for (const made of [newId("tool_call"), "nonsense"]) {
      const hash = { arguments_hash: "abc" };
      const answers = [
        await call("POST", at(id, `/tool_calls/${made}/approve`), hash),
        await call("POST", at(id, `/tool_calls/${made}/deny`), { ...hash, note: "no" }),
        await call("POST", at(id, `/tool_calls/${made}/resolve`), { outcome: "retry" }),
      ];
      expect(answers.map(({ status, body }) => [status, body.detail])).toEqual(
        Array(3).fill([404, "No such tool call."]),
      );
    }
    const wrong = await call("POST", at(id, `/tool_calls/${newId("tool_call")}/resolve`), {
      ...{ outcome: "retry", result: 1 },
    });
    expect(faults(wrong)).toEqual([422, ["result"]]);
  });
});

describe("the tape and the trajectory", () => {
  it("hold every frame, and what was said", async () => {
    const { aSession, call, get } = await start();
    const { id } = await aSession({ on_idle: "complete", name: "Ask" });
    await told(id, "completed");
    const tape = await must(call("GET", at(id, "/export")), 200);
    const { inbox: _, ...session } = await get(id);
    expect(tape).toMatchObject({ version: 1, session, pinned: { agent: { model: "scripted/script" } } });
    expect(tape.frames.map(({ sequence }: any) => sequence)).toEqual(tape.frames.map((_: unknown, i: number) => i + 1));
    expect(tape.frames.at(-1)).toMatchObject({ type: "session.status", status: "completed" });

    const trajectory = await must(call("GET", `/api/v1/trajectories/${session.trajectory}`), 200);
    expect(trajectory).toMatchObject({ id: session.trajectory, session: id, file: null, team: null, sandbox: null });
    expect(trajectory.messages.map(({ role, content }: any) => [role, content])).toEqual([
      ["user", answers()],
      ["assistant", "Done."],
    ]);
    const contents = await must(call("GET", `/api/v1/trajectories/${session.trajectory}/contents`), 200);
    expect(contents).toEqual({ id: session.trajectory, session: id, frames: tape.frames });
  });

  it("is run again without any way out, as it was exported", async () => {
    const { aSession, call, agent } = await start();
    const secret = `hush-${newId("agent")}`;
    await must(call("POST", `/api/v1/agents/${agent.id}/agent_env_vars`, { key: "TOKEN", value: secret }), 200);
    const source =
      "let body = unwrap(requests.get($.url)).body\n{ body: body, at: datetime.now(), dice: math.random(), told: env.TOKEN }";
    const script = { kind: "Script", lookup_key: unique("look"), mime_type: "text/plain", raw_content: source };
    const { id: config } = await must(call("POST", "/api/v1/config", script), 201);
    await must(
      call("POST", `/api/v1/agents/${agent.id}/agent_tools`, {
        ...{ kind: "custom", status: "active", name: "look", description: "Looks", handler_type: "script", config },
        parameters: { type: "object", properties: { url: { type: "string" } } },
      }),
      200,
    );
    const { id } = await aSession({
      on_idle: "complete",
      instructions: instructionsOf(
        { role: "tool", text: "I have looked." },
        { text: `With ${secret}.`, tool_calls: [{ name: "look", arguments: { url: "https://1.1.1.1.example/" } }] },
      ),
    });
    await told(id, "completed");
    const tape = (await must(call("GET", at(id, "/export")), 200)) as Tape;
    expect(tape.frames.map(({ type }) => type)).toContain("tool.outbound");
    const session = await replay(tape, new Journal(aStore().sql));
    expect(session.view()).toMatchObject({ status: "completed", result: { output: "I have looked." } });
  });

  it("aren't there while a session is pending, and not for other orgs", async () => {
    const { aSession, call, as, globex } = await start();
    const { id } = await aSession({ on_idle: "complete" });
    await told(id, "completed");
    const [{ trajectory_id }] = await sql("select trajectory_id from data.agent_sessions where id = $1", [id]);
    for (const path of [`/api/v1/trajectories/${trajectory_id}`, `/api/v1/trajectories/${trajectory_id}/contents`]) {
      const absent = await call("GET", path.replace(trajectory_id, newId("trajectory")));
      expect([(await as(globex)("GET", path)).body.detail, absent.status]).toEqual([absent.body.detail, 404]);
    }
    expect((await call("GET", "/api/v1/trajectories/nonsense")).status).toBe(404);
  });

  it("don't show what the agent's env vars hold", async () => {
    const { aSession, call, agent } = await start();
    const value = `hush-${newId("agent")}`;
    await must(call("POST", `/api/v1/agents/${agent.id}/agent_env_vars`, { key: "TOKEN", value }), 200);
    const { id } = await aSession({ instructions: instructionsOf({ text: `It is ${value}.` }), on_idle: "complete" });
    await told(id, "completed");
    const { trajectory } = await must(call("GET", at(id)), 200);
    const texts = [
      (await call("GET", at(id, "/export"))).text,
      (await call("GET", `/api/v1/trajectories/${trajectory}`)).text,
      (await call("GET", `/api/v1/trajectories/${trajectory}/contents`)).text,
    ];
    for (const text of texts) expect([text.includes(value), text.includes("It is ****.")]).toEqual([false, true]);
  });
});

describe("with the SDK", () => {
  it("does what a session is for", async () => {
    const { agent, secret_key } = await start();
    const client = PlatformClient.withSecretKey(secret_key, system.base).v1;
    const made = await client.agent_sessions.create({ agent: agent.id, instructions: answers(), name: "Ask" });
    const statuses: unknown[] = [];
    for await (const event of await client.agent_sessions.stream(made.id)) {
      const { status } = (event as { data: { status: string } }).data;
      statuses.push(status);
      if (status === "waiting") await client.agent_sessions.cancel(made.id);
    }
    expect(statuses.at(-1)).toBe("cancelled");
    await told(made.id, "cancelled");
    expect((await client.agent_sessions.list({ agent: [agent.id], status: ["cancelled"] })).data).toHaveLength(1);
    const { trajectory } = await client.agent_sessions.get(made.id);
    expect((await client.trajectories.get(trajectory!)).id).toBe(trajectory);
    const { content, mimeType } = await client.trajectories.contents(trajectory!);
    expect([mimeType, JSON.parse(new TextDecoder().decode(content)).session]).toEqual(["application/json", made.id]);
    await client.agent_sessions.delete(made.id);
  });
});
