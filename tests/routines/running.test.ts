/** Runs, through the front door: what each handler does, and what becomes of the run. */
import { describe, expect, it } from "vitest";
import { anAgent, anApp, type Call, must, sql } from "../harness/index.ts";

const go = { message: "Go." };

/** An agent of a fresh app; `routine` makes one that can be invoked, `run` invokes it and waits for what becomes of it. */
async function stage(agentFields: object = {}) {
  const app = await anApp();
  const call: Call = app.as(app.acme);
  const agent = await anAgent(call, agentFields);
  const routine = (fields: object) =>
    must(
      call("POST", `/api/v1/agents/${agent.id}/agent_routines`, {
        ...{ name: "a routine", event_type: "agentroutine.invoked", status: "active", ...fields },
      }),
      200,
    );
  const get = (id: string) => must(call("GET", `/api/v1/agent_routines/runs/${id}`), 200);
  const becomes = async (id: string, ...statuses: string[]) => {
    for (let i = 0; i < 200; i++) {
      const run = await get(id);
      if (statuses.includes(run.status)) return run;
      await new Promise((done) => setTimeout(done, 50));
    }
    throw new Error(`${id} is ${JSON.stringify(await get(id))}, not ${statuses}`);
  };
  const invoke = (of: { id: string }, body: object = go) =>
    must(call("POST", `/api/v1/agent_routines/${of.id}/invoke`, body), 200);
  const run = async (fields: object, body: object = go) =>
    becomes((await invoke(await routine(fields), body)).id, "completed", "failed", "skipped", "cancelled");
  return { ...app, call, agent, routine, get, becomes, invoke, run };
}

describe("a run", () => {
  it("of a script has the payload as its $, and the script's result", async () => {
    const { run, agent } = await stage();
    const done = await run({ handler_type: "script", script: "{ said: $.message, n: 1 + 1 }" });
    expect(done).toMatchObject({
      ...{ agent: agent.id, status: "completed", result: { said: "Go.", n: 2 }, structured_response: null },
      worker: { status: "completed", attempt: 1, max_attempts: 3 },
    });
    expect(done.duration_ms).toBeGreaterThanOrEqual(0);
  });

  it("fails with what its script says, and keeps that in its result", async () => {
    const { run, call } = await stage();
    const done = await run({ handler_type: "script", script: "unknown_name" });
    expect(done).toMatchObject({ status: "failed", worker: { status: "discarded" } });
    expect(done.result.error).toMatch(/script/i);
    // The feed hears of it a little later than the run itself.
    const told = async () => {
      const feed = await must(call("GET", `/api/v1/activity_feed?agent[]=${done.agent}`), 200);
      return feed.data.map(({ kind, level, correlation_id }: any) => [kind, level, correlation_id]);
    };
    await expect.poll(told, { timeout: 10_000 }).toContainEqual(["routine_run", "error", done.id]);
  });

  it("keeps a result that is no object as value", async () => {
    const { run } = await stage();
    expect((await run({ handler_type: "script", script: "[1, 2]" })).result).toEqual({ value: [1, 2] });
  });

  it("whose result is short here, and in the database has millions of digits, fails there, too", async () => {
    const { run } = await stage();
    const script = `let row = [${Array(50).fill("1e300")}]\n[${Array(90).fill("row")}]`;
    const done = await run({ handler_type: "script", script });
    expect([done.status, done.result.error]).toEqual(["failed", expect.stringContaining("more than 65536 bytes")]);
    const told = () => sql("select status from data.agent_routine_runs where id = $1", [done.id]);
    await expect.poll(told, { timeout: 10_000 }).toEqual([{ status: "failed" }]);
  });

  it("goes by the script that its routine had when it began, and tells its journal of each command", async () => {
    const { run, call } = await stage();
    const done = await run({ handler_type: "script", script: "1" });
    const page = await must(call("GET", `/api/v1/agent_routines/runs/${done.id}/journal`), 200);
    expect(page.data.map(({ type }: any) => type)).toEqual([
      ...["run.status", "run.status", "command.requested", "command.called", "command.completed"],
      ...["run.result", "run.status"],
    ]);
    expect(page.data.map(({ sequence }: any) => sequence)).toEqual([1, 2, 3, 4, 5, 6, 7]);
    expect(page.journal).toMatchObject({ id: done.id, status: "completed", current_sequence: 7 });
    const first = await must(call("GET", `/api/v1/agent_routines/runs/${done.id}/journal?limit=3`), 200);
    expect([first.has_more, first.data.length]).toEqual([true, 3]);
    const rest = await must(
      call("GET", `/api/v1/agent_routines/runs/${done.id}/journal?after_cursor=${first.after_cursor}`),
      200,
    );
    expect([...first.data, ...rest.data]).toEqual(page.data);
    expect(rest.has_more).toBe(false);
    const commands = await must(call("GET", `/api/v1/agent_routines/runs/${done.id}/commands`), 200);
    expect(commands.data).toMatchObject([
      { name: "script", routine_run: done.id, session: null, outcome: "succeeded" },
    ]);
  });

  it("of a script sees what its agent may see, and its routine's co-owner", async () => {
    const { run, call, owners, acme } = await stage();
    const grants = [{ principal_type: "user", principal: owners[acme], actions: ["read"] }];
    const hidden = await anAgent(call, { name: "Hidden", acl: { grants } });
    const script = `unwrap(agents.get({ agent: "${hidden.id}" }), { name: null }).name`;
    const seen = async (fields: object = {}) => (await run({ handler_type: "script", script, ...fields })).result.value;
    expect([await seen(), await seen({ user: owners[acme] })]).toEqual([null, "Hidden"]);
  });

  it("that waits for room is cancelled, and never begins", async () => {
    const it = await stage();
    const room = (runs_at_once: number) =>
      sql("update data.apps set settings = $2 where id = $1", [it.app, JSON.stringify({ quotas: { runs_at_once } })]);
    await room(0);
    const made = await it.routine({ handler_type: "script", script: "1" });
    const [one, two] = [await it.invoke(made), await it.invoke(made)];
    const cancelled = await must(it.call("POST", `/api/v1/agent_routines/runs/${one.id}/cancel`), 200);
    expect(cancelled).toMatchObject({ status: "cancelled", worker: { status: "cancelled", attempt: 0 } });
    await room(5);
    await it.invoke(made);
    await it.becomes(two.id, "completed");
    expect(await it.get(one.id)).toMatchObject({ status: "cancelled", result: null });
  });

  it("of do_task is a session that is told of the event, and has what that came to", async () => {
    const { run, call, agent } = await stage({ model: "scripted/script" });
    const instructions = 'Do it.\n```script\n[{"match": "Go", "text": "Done."}]\n```';
    const done = await run({ handler_type: "preset", preset_name: "do_task", preset_config: { instructions } });
    expect(done).toMatchObject({ status: "completed", result: { output: "Done." }, structured_response: null });
    const [session, ...others] = (await must(call("GET", `/api/v1/agent_sessions?routine_run[]=${done.id}`), 200)).data;
    expect(others).toEqual([]);
    expect(session).toMatchObject({ id: done.result.session, agent: agent.id, status: "completed" });
  });

  it("of do_task tells its session as much of a long event as that takes", async () => {
    const { run, call } = await stage({ model: "scripted/script" });
    const instructions = `${"長".repeat(4_000)}\n\`\`\`script\n[{"text": "Done."}]\n\`\`\``;
    const done = await run({
      handler_type: "chain",
      steps: [
        { handler_type: "script", name: "long", script: 'string.repeat("語", 20000)' },
        { handler_type: "preset", preset_name: "do_task", preset_config: { instructions } },
      ],
    });
    expect([done.status, done.result.output]).toEqual(["completed", "Done."]);
    const { instructions: told } = await must(call("GET", `/api/v1/agent_sessions/${done.result.session}`), 200);
    expect(told).toMatch(/長長.*語語… \(of 20\d\d\d characters\)$/s);
  });

  it("of a chain hands on what each step put out", async () => {
    const { run } = await stage({ model: "scripted/script" });
    const instructions = 'Do it.\n```script\n[{"match": "twice", "text": "I saw twice."}]\n```';
    const done = await run({
      handler_type: "chain",
      steps: [
        { handler_type: "script", name: "first", script: '{ word: "twice" }' },
        { handler_type: "preset", preset_name: "do_task", preset_config: { instructions }, output_key: "said" },
        { handler_type: "script", inputs: { from: "said" }, script: "[$.trigger.message, $.inputs.from.output]" },
      ],
    });
    expect([done.status, done.result]).toEqual(["completed", { value: ["Go.", "I saw twice."] }]);
  });

  it.each([
    ["halt", "failed", undefined],
    ["continue", "completed", { value: null }],
  ])("of a chain whose step fails: on_error %s", async (on_error, status, result) => {
    const { run } = await stage();
    const done = await run({
      handler_type: "chain",
      steps: [
        { handler_type: "script", name: "bad", script: "unknown_name", on_error },
        { handler_type: "script", script: "$.inputs.bad" },
      ],
    });
    expect(done.status).toBe(status);
    if (result) expect(done.result).toEqual(result);
  });

  it("of what isn't there yet fails, and says so", async () => {
    const { run } = await stage();
    const done = await run({ handler_type: "preset", preset_name: "send_message" });
    expect([done.status, done.result.error]).toEqual(["failed", expect.stringMatching(/^not_available/)]);
  });

  it("is cancelled with its session, and that is its end", async () => {
    const { routine, invoke, becomes, call, get } = await stage({ model: "scripted/script" });
    const instructions = 'Do it.\n```script\n[{"delay_ms": 20000, "text": "Late."}]\n```';
    const made = await routine({ handler_type: "preset", preset_name: "do_task", preset_config: { instructions } });
    const { id } = await invoke(made);
    await becomes(id, "running");
    const sessions = async () => (await must(call("GET", `/api/v1/agent_sessions?routine_run[]=${id}`), 200)).data;
    for (let i = 0; i < 100 && !(await sessions()).length; i++) await new Promise((done) => setTimeout(done, 50));
    const cancelled = await must(call("POST", `/api/v1/agent_routines/runs/${id}/cancel`), 200);
    expect(cancelled).toMatchObject({ status: "cancelled", worker: { status: "cancelled" } });
    expect(await must(call("POST", `/api/v1/agent_routines/runs/${id}/cancel`), 200)).toMatchObject({
      status: "cancelled",
    });
    let [session] = await sessions();
    for (let i = 0; i < 100 && session.status !== "cancelled"; i++) {
      await new Promise((done) => setTimeout(done, 50));
      [session] = await sessions();
    }
    expect([session.status, (await get(id)).status]).toEqual(["cancelled", "cancelled"]);
  });

  it("is made again of what it was made of, once it is over", async () => {
    const { routine, invoke, becomes, call } = await stage();
    const made = await routine({ handler_type: "script", script: "$.message" });
    const { id } = await invoke(made);
    await becomes(id, "completed");
    const retry = () =>
      call("POST", `/api/v1/agent_routines/runs/${id}/retry`, undefined, { "Idempotency-Key": "again" });
    const again = await must(retry(), 200);
    expect(again.id).not.toBe(id);
    expect((await must(retry(), 200)).id).toBe(again.id);
    expect((await becomes(again.id, "completed")).result).toEqual({ value: "Go." });
    await must(call("POST", `/api/v1/agent_routines/${made.id}/pause`), 200);
    const refused = await call("POST", `/api/v1/agent_routines/runs/${id}/retry`);
    expect([refused.status, refused.body.error.code]).toEqual([422, "not_active"]);
  });
});

describe("runs that share a session", () => {
  const spoken = { handler_type: "preset", preset_name: "do_task" };
  const instructions = 'Hear it.\n```script\n[{"text": "Heard."}]\n```';
  const mode = (session_scope?: string) => ({
    preset_config: { instructions, session_mode: "session", session_scope },
  });
  const sessions = async (runs: Promise<any>[]) => {
    const done = await Promise.all(runs);
    expect(done).toMatchObject(done.map(() => ({ status: "completed", result: { output: null } })));
    return done.map(({ result }) => result.session as string);
  };

  it("say the event there, each once, also those that come at once; another key has another", async () => {
    const { routine, invoke, becomes, call } = await stage({ model: "scripted/script" });
    const made = await routine({ ...spoken, ...mode("per_key") });
    const say = async (session_key: string, message: string) =>
      becomes((await invoke(made, { message, session_key })).id, "completed", "failed");
    const [one, ...others] = await sessions(["a", "b", "c", "d", "e"].map((message) => say("one", message)));
    expect(new Set(others)).toEqual(new Set([one]));
    expect(await sessions([say("two", "f")])).not.toEqual([one]);
    expect((await must(call("GET", `/api/v1/agent_sessions/${one}`), 200)).status).not.toBe("completed");
    await must(call("POST", `/api/v1/agent_sessions/${one}/cancel`), 200);
    const [next] = await sessions([say("one", "g")]);
    expect(next).not.toBe(one);
  });

  it.each([
    ["per_user", false],
    ["per_org", true],
    ["global", true],
  ])("of scope %s share it with another person's: %s", async (scope, isShared) => {
    const { routine, invoke, becomes, as, acme } = await stage({ model: "scripted/script" });
    const made = await routine({ ...spoken, ...mode(scope) });
    const other = as(acme, { role: "admin" });
    const by = async (caller?: Call) => {
      const { id } = caller
        ? await must(caller("POST", `/api/v1/agent_routines/${made.id}/invoke`, go), 200)
        : await invoke(made);
      return becomes(id, "completed", "failed");
    };
    const [first, again, others] = await sessions([by(), by(), by(other)]);
    expect([again === first, others === first]).toEqual([true, isShared]);
  });

  it("are those of a routine whose trigger_context says chat_session, whatever starts it", async () => {
    const { routine, call, becomes } = await stage({ model: "scripted/script" });
    const made = await routine({
      ...spoken,
      event_type: "custom.said",
      trigger_context: "chat_session",
      preset_config: { instructions },
    });
    const publish = () => must(call("POST", "/api/v1/events", { name: "custom.said", payload: {} }), 201);
    await Promise.all([publish(), publish()]);
    const runs = async () => (await must(call("GET", `/api/v1/agent_routines/${made.id}/runs`), 200)).data;
    await expect.poll(async () => (await runs()).length).toBe(2);
    const [one, two] = await sessions((await runs()).map(({ id }: any) => becomes(id, "completed", "failed")));
    expect(one).toBe(two);
  });

  it("give no structured answer", async () => {
    const { routine, invoke, becomes, call } = await stage();
    const form = { kind: "AgentMessageSchema", mime_type: "application/json", raw_content: '{"schema": {}}' };
    const { id } = await must(call("POST", "/api/v1/config", form), 201);
    const preset_config = { session_mode: "session", session_scope: "global", structured_message_template_ids: [id] };
    const done = await becomes((await invoke(await routine({ ...spoken, preset_config }))).id, "completed", "failed");
    expect([done.status, done.result.error]).toEqual(["failed", expect.stringMatching(/^not_available/)]);
  });
});

describe("events", () => {
  const happen = (call: Call, name: string, payload: object) =>
    must(call("POST", "/api/v1/events", { name, payload }), 201);

  it("start the routines that name them, each once", async () => {
    const { routine, call, becomes, agent } = await stage();
    const made = await routine({ event_type: "custom.order", handler_type: "script", script: "$.order" });
    const { id } = await happen(call, "custom.order", { order: "A-1" });
    const runs = async () => (await must(call("GET", `/api/v1/agent_routines/${made.id}/runs`), 200)).data;
    for (let i = 0; i < 100 && !(await runs()).length; i++) await new Promise((done) => setTimeout(done, 50));
    const [run, ...others] = await runs();
    expect([others, run.event_id, run.agent]).toEqual([[], id, agent.id]);
    expect((await becomes(run.id, "completed")).result).toEqual({ value: "A-1" });
  });

  it("that happened before a routine was active start none", async () => {
    const { routine, call, becomes } = await stage();
    await happen(call, "custom.order", { order: "before" });
    const made = await routine({ event_type: "custom.order", handler_type: "script", script: "$.order" });
    await must(call("POST", `/api/v1/agent_routines/${made.id}/pause`), 200);
    await happen(call, "custom.order", { order: "meanwhile" });
    await must(call("POST", `/api/v1/agent_routines/${made.id}/activate`), 200);
    await happen(call, "custom.order", { order: "after" });
    const runs = async () => (await must(call("GET", `/api/v1/agent_routines/${made.id}/runs`), 200)).data;
    await expect.poll(async () => (await runs()).length, { timeout: 10_000 }).toBe(1);
    const [run] = await runs();
    expect((await becomes(run.id, "completed")).result).toEqual({ value: "after" });
  });

  it("that happened before a routine named them start none, whatever the clock says, also handed on again", async () => {
    const { acme, routine, call } = await stage();
    const made = await routine({ event_type: "custom.a", handler_type: "script", script: "$.order" });
    const runs = async (): Promise<any[]> =>
      (await must(call("GET", `/api/v1/agent_routines/${made.id}/runs`), 200)).data;
    const payloads = async () => (await runs()).map(({ payload }) => payload.order).toSorted();
    await happen(call, "custom.b", { order: 1 });
    await happen(call, "custom.order", { order: 2 });
    await must(call("PATCH", `/api/v1/agent_routines/${made.id}`, { event_type: "custom.b" }), 200);
    await happen(call, "custom.a", { order: 3 });
    await must(call("PATCH", `/api/v1/agent_routines/${made.id}`, { event_config: { "custom.order": {} } }), 200);
    await happen(call, "custom.order", { order: 4 });
    await expect.poll(payloads, { timeout: 10_000 }).toEqual([4]);
    await sql("update data.events set created_at = now() + interval '1 hour' where org_id = $1", [acme]);
    await sql("update data.event_heads set delivered = 0 where org_id = $1", [acme]);
    await happen(call, "custom.b", { order: 5 });
    await expect.poll(payloads, { timeout: 10_000 }).toEqual([4, 5]);
  });

  /** A routine that an event starts, and what becomes of the runs that these payloads start. */
  async function started(fields: object, payloads: object[], agentFields: object = {}) {
    const it = await stage(agentFields);
    const made = await it.routine({ event_type: null, ...fields });
    const runs = async (): Promise<any[]> =>
      (await must(it.call("GET", `/api/v1/agent_routines/${made.id}/runs`), 200)).data.reverse();
    for (const [i, payload] of payloads.entries()) {
      await happen(it.call, "custom.order", payload);
      for (let n = 0; n < 200 && (await runs()).length <= i; n++) await new Promise((done) => setTimeout(done, 50));
    }
    return { ...it, made, runs };
  }
  const slow = 'Do it.\n```script\n[{"delay_ms": 4000, "text": "Done."}]\n```';
  const slowly = { handler_type: "preset", preset_name: "do_task", preset_config: { instructions: slow } };

  it("whose payload isn't what its filters say, or which have come with its key, start none", async () => {
    const event_config = { "custom.order": { filters: { "$.kind": "a" }, dedupe_key_path: "order" } };
    const script = { handler_type: "script", script: "$.order" };
    const { runs, call, becomes } = await started({ ...script, event_config }, [{ kind: "a", order: 1 }]);
    const [first] = await runs();
    await becomes(first.id, "completed");
    for (const payload of [
      { kind: "b", order: 2 },
      { kind: "a", order: 1 },
      { kind: "a", order: 3 },
    ]) {
      await happen(call, "custom.order", payload);
    }
    for (let n = 0; n < 200 && (await runs()).length < 3; n++) await new Promise((done) => setTimeout(done, 50));
    const [, again, other] = await runs();
    expect(again).toMatchObject({
      status: "skipped",
      result: { reason: "duplicate" },
      worker: { status: "cancelled" },
    });
    expect((await becomes(other.id, "completed")).result).toEqual({ value: 3 });
    expect(await runs()).toHaveLength(3);
  });

  it("start one at whatever name the app's own code may tell of", async () => {
    const { routine, call, becomes } = await stage();
    const made = await routine({ handler_type: "script", script: "$.n", event_type: "custom.order-paid.eu_1" });
    await happen(call, "custom.order-paid.eu_1", { n: 3 });
    const runs = async () => (await must(call("GET", `/api/v1/agent_routines/${made.id}/runs`), 200)).data;
    await expect.poll(async () => (await runs()).length, { timeout: 10_000 }).toBe(1);
    expect((await becomes((await runs())[0].id, "completed")).result).toEqual({ value: 3 });
  });

  it("start no second run beside one where that says to skip, and wait where that says so", async () => {
    for (const [overlap, status] of [
      ["skip", "skipped"],
      ["buffer_all", "pending"],
    ] as const) {
      const event_config = { "custom.order": { overlap } };
      const model = { model: "scripted/script" };
      const { runs, becomes } = await started({ ...slowly, event_config }, [{ n: 1 }, { n: 2 }], model);
      const [one, two] = await runs();
      expect((await becomes(two.id, status, "completed")).status).toBe(status);
      await becomes(one.id, "completed");
      if (status === "pending") await becomes(two.id, "completed");
    }
  });

  it("that a routine's own runs led to start it no more, and where it wants them, no ninth link of a chain", async () => {
    for (const [allow_self, expected] of [
      [false, ["completed"]],
      [true, [...Array(7).fill("completed"), "skipped"]],
    ] as const) {
      const { routine, call, runs, made } = await started(
        { handler_type: "script", script: "1", event_config: { "custom.order": {} } },
        [],
      );
      const event_config = { "agent_routine_run.completed": { allow_self } };
      const echo = await routine({ event_type: null, handler_type: "script", script: "1", event_config });
      await happen(call, "custom.order", {});
      const echoes = async () =>
        (await must(call("GET", `/api/v1/agent_routines/${echo.id}/runs`), 200)).data.reverse();
      const statuses = async () => (await echoes()).map(({ status }: any) => status);
      for (let n = 0; n < 200 && JSON.stringify(await statuses()) !== JSON.stringify(expected); n++) {
        await new Promise((done) => setTimeout(done, 50));
      }
      await new Promise((done) => setTimeout(done, 500));
      expect(await statuses()).toEqual(expected);
      if (allow_self) expect((await echoes()).at(-1).result).toEqual({ reason: "loop" });
      expect([made.id, (await runs()).length]).toEqual([made.id, 1]);
    }
  });

  it("of a key come again when its window is over, and of a long key, too", async () => {
    const event_config = { "custom.order": { dedupe_key_path: "order", dedupe_window_seconds: 3600 } };
    // Longer than what an index takes.
    const order = Array.from({ length: 6_000 }, () => Math.floor(Math.random() * 36).toString(36)).join("");
    const script = { handler_type: "script", script: "1", event_config };
    const { runs, becomes, call } = await started(script, [{ order }, { order }, { order: `${order}y` }]);
    const statuses = async () => (await runs()).map(({ status }) => status);
    await expect.poll(statuses).toEqual(["completed", "skipped", "completed"]);
    const [first] = await runs();
    const age = (minutes: number) =>
      sql("update data.agent_routine_runs set created_at = now() - make_interval(mins => $2) where id = $1", [
        ...[first.id, minutes],
      ]);
    await age(59);
    await happen(call, "custom.order", { order });
    await expect.poll(statuses).toEqual(["completed", "skipped", "completed", "skipped"]);
    await age(61);
    await happen(call, "custom.order", { order });
    await expect.poll(async () => (await runs()).length).toBe(5);
    await becomes((await runs())[4].id, "completed");
  });

  it("start no more runs of a routine at once than its max_concurrent, and others beside them", async () => {
    const event_config = { "custom.order": { max_concurrent: 2 } };
    const model = { model: "scripted/script" };
    const { runs, routine, invoke, becomes, made, agent } = await started(
      { ...slowly, event_config },
      [{}, {}, {}],
      model,
    );
    const statuses = async () => (await runs()).map(({ status }) => status);
    await expect.poll(statuses).toEqual(["running", "running", "pending"]);
    // However many of them wait.
    await sql(
      `insert into data.agent_routine_runs (app_id, sandbox_id, org_id, agent_id, routine_id, id, event_name)
        select app_id, sandbox_id, org_id, agent_id, id, 'arr_' || lpad(n::text, 22, '0'), 'custom.order'
          from data.agent_routines, generate_series(1, 120) n where id = $1 and agent_id = $2`,
      [made.id, agent.id],
    );
    const other = await routine({ handler_type: "script", script: "1" });
    await becomes((await invoke(other)).id, "completed");
    await sql("delete from data.agent_routine_runs where routine_id = $1 and admitted_at is null", [made.id]);
  });

  it("begin no more in a minute than may, and then go on", async () => {
    const it = await stage();
    await sql(`update data.apps set settings = '{"quotas": {"runs_started_per_minute": 1}}' where id = $1`, [it.app]);
    const made = await it.routine({ handler_type: "script", script: "1" });
    const [one, two] = [await it.invoke(made), await it.invoke(made)];
    await it.becomes(one.id, "completed");
    const three = await it.invoke(made);
    expect([(await it.get(two.id)).status, (await it.get(three.id)).status]).toEqual(["pending", "pending"]);
    await sql("update data.agent_routine_runs set admitted_at = admitted_at - interval '61 seconds' where id = $1", [
      one.id,
    ]);
    await it.invoke(made);
    await it.becomes(two.id, "completed");
    expect((await it.get(three.id)).status).toBe("pending");
  });

  it("that waited for room until their routine was paused or deleted are skipped, and say so", async () => {
    const it = await stage();
    const room = (runs_at_once: number) =>
      sql("update data.apps set settings = $2 where id = $1", [it.app, JSON.stringify({ quotas: { runs_at_once } })]);
    await room(0);
    const script = { handler_type: "script", script: "1" };
    const [paused, deleted, active] = [await it.routine(script), await it.routine(script), await it.routine(script)];
    const runs = [await it.invoke(paused), await it.invoke(deleted)];
    await must(it.call("POST", `/api/v1/agent_routines/${paused.id}/pause`), 200);
    await must(it.call("DELETE", `/api/v1/agent_routines/${deleted.id}`), 204);
    await room(5);
    await it.becomes((await it.invoke(active)).id, "completed");
    const ended = await Promise.all(runs.map(({ id }) => it.becomes(id, "skipped", "completed", "failed")));
    expect(ended.map(({ result, worker }) => [result.reason, worker.status])).toEqual([
      ["not_active", "cancelled"],
      ["routine_deleted", "cancelled"],
    ]);
  });

  it("start runs as there is room for them, and the end of one makes room", async () => {
    const it = await stage({ model: "scripted/script" });
    await sql(`update data.apps set settings = '{"quotas": {"runs_at_once": 1}}' where id = $1`, [it.app]);
    const made = await it.routine(slowly);
    const [one, two] = [await it.invoke(made), await it.invoke(made)];
    await it.becomes(one.id, "running");
    expect((await it.get(two.id)).status).toBe("pending");
    await it.becomes(one.id, "completed");
    await it.becomes(two.id, "completed");
    const query = "/api/v1/events?event_names[]=quota.reached";
    const { data } = await must(it.call("GET", query), 200);
    expect(data.map(({ payload }: any) => payload)).toEqual([{ quota: "runs_at_once", limit: 1 }]);
    expect((await must(it.as(it.acme, { role: "member" })("GET", query), 200)).data).toEqual([]);
  });
});

describe("a workflow graph", () => {
  const graph = (nodes: object[], data: object[] = []) => ({
    kind: "WorkflowGraph",
    version: 1,
    name: "g",
    start_node: "t",
    nodes,
    data,
  });
  const start = async (nodes: object[], data?: object[], fields: object = {}) => {
    const it = await stage();
    const raw_content = JSON.stringify(graph(nodes, data));
    const body = { kind: "WorkflowGraph", mime_type: "application/json", raw_content };
    const { id } = await must(it.call("POST", "/api/v1/config", body), 201);
    return { ...it, made: await it.routine({ handler_type: "workflow_graph", config: id, ...fields }) };
  };

  it("goes its nodes' way, waits a while, and asks a person, who has seen what is asked", async () => {
    const nodes = [
      { kind: "WorkflowTrigger", id: "t", on_success: "s" },
      { kind: "WorkflowScript", id: "s", script: "twice", on_success: "w" },
      { kind: "WorkflowWait", id: "w", seconds: 1, on_success: "a" },
      { kind: "WorkflowApproval", id: "a", message: "Send {{ $.said }}?" },
    ];
    const { call, made, invoke, becomes } = await start(nodes, [
      { kind: "Script", id: "twice", script: "{ said: $.message + $.message }" },
    ]);
    const { id } = await invoke(made);
    const waiting = async () =>
      (await must(call("GET", "/api/v1/tool_calls?outcome[]=awaiting_approval"), 200)).data.find(
        ({ routine_run }: any) => routine_run === id,
      );
    for (let n = 0; n < 200 && !(await waiting()); n++) await new Promise((done) => setTimeout(done, 50));
    const { id: command, name, arguments: asked, arguments_hash } = await waiting();
    expect([name, asked.message]).toEqual(["a", "Send Go.Go.?"]);
    const journal = await must(call("GET", `/api/v1/agent_routines/runs/${id}/journal`), 200);
    expect(journal.journal.status).toBe("waiting");
    const at = `/api/v1/agent_routines/runs/${id}/commands/${command}/approve`;
    expect((await call("POST", at, { arguments_hash: "another" })).status).toBe(409);
    await must(call("POST", at, { arguments_hash }), 200);
    expect((await becomes(id, "completed")).result).toEqual({ said: "Go.Go." });
  });

  it("fails where the person denies what it asks, with the note", async () => {
    const nodes = [
      { kind: "WorkflowTrigger", id: "t", on_success: "a" },
      { kind: "WorkflowApproval", id: "a", message: "Send?" },
    ];
    const { call, made, invoke, becomes } = await start(nodes);
    const { id } = await invoke(made);
    const commands = async () => (await must(call("GET", `/api/v1/agent_routines/runs/${id}/commands`), 200)).data;
    await expect.poll(async () => (await commands())[0]?.outcome).toBe("awaiting_approval");
    const [{ id: command, arguments_hash }] = await commands();
    const at = `/api/v1/agent_routines/runs/${id}/commands/${command}/deny`;
    await must(call("POST", at, { arguments_hash, note: "too late" }), 200);
    expect((await becomes(id, "completed", "failed")).result).toEqual({ error: "a: denied: too late" });
    await expect.poll(async () => (await commands())[0].outcome).toBe("denied");
  });

  it("asks a model, and has its text", async () => {
    const system = 'Say it.\n```script\n[{"match": "Go", "text": "Gone."}, {"text": "What?"}]\n```';
    const nodes = [
      { kind: "WorkflowTrigger", id: "t", on_success: "m" },
      { kind: "WorkflowLlmCall", id: "m", model: "scripted/script", system, prompt: "{{ $.message }}" },
    ];
    const { made, invoke, becomes } = await start(nodes);
    expect((await becomes((await invoke(made)).id, "completed", "failed")).result).toEqual({ text: "Gone." });
  });

  it("that its schedule starts anew ends the run before, where the routine says so", async () => {
    const nodes = [
      { kind: "WorkflowTrigger", id: "t", on_success: "w" },
      { kind: "WorkflowWait", id: "w", seconds: 3600 },
    ];
    const event_config = { "schedule.cron": { overlap: "cancel_other" } };
    const { call, made, becomes } = await start(nodes, [], { schedule: "0 9 * * *", event_config });
    const again = async () => (await must(call("POST", `/api/v1/agent_routines/${made.id}/run`, {}), 200)).run;
    const first = await again();
    await becomes(first, "running");
    const second = await again();
    expect((await becomes(first, "cancelled")).worker.status).toBe("cancelled");
    await becomes(second, "running");
  });

  it("publishes an event of the app's own, once, as the doing of its routine", async () => {
    const nodes = [
      { kind: "WorkflowTrigger", id: "t", on_success: "e" },
      { kind: "WorkflowEmitEvent", id: "e", name: "custom.told", payload: { said: "{{ $.message }}" } },
    ];
    const { made, invoke, becomes } = await start(nodes);
    const { id } = await invoke(made);
    await becomes(id, "completed");
    const rows = await sql(
      "select payload, causes from data.events where name = 'custom.told' and causes @> array[$1]",
      [made.id],
    );
    expect(rows).toEqual([{ payload: { said: "Go." }, causes: [made.id] }]);
  });
});

describe("a structured answer", () => {
  const aForm = async (call: Call, form: object) =>
    (
      await must(
        call("POST", "/api/v1/config", {
          ...{ kind: "AgentMessageSchema", mime_type: "application/json", raw_content: JSON.stringify(form) },
        }),
        201,
      )
    ).id;
  const schema = { type: "object", properties: { title: { type: "string" } }, required: ["title"] };
  const finish = (title: unknown) => ({ tool_calls: [{ name: "finish", arguments: { result: { title } } }] });
  const tasked = async (rules: object[], form: object) => {
    const it = await stage({ model: "scripted/script" });
    const id = await aForm(it.call, form);
    const instructions = `Do it.\n\`\`\`script\n${JSON.stringify(rules)}\n\`\`\``;
    const preset_config = { instructions, structured_message_template_ids: [id] };
    return it.run({ handler_type: "preset", preset_name: "do_task", preset_config });
  };

  it("is what the session finished with", async () => {
    const done = await tasked([finish("A title")], { schema });
    expect(done).toMatchObject({ status: "completed", structured_response: { title: "A title" } });
  });

  it("that a guard refuses is given anew, told what was wrong", async () => {
    const field_guards = [{ kind: "ContainsAny", fields: ["*"], values: ["secret"], message: "It tells a secret" }];
    const rules = [{ match: "It tells a secret", ...finish("Nothing") }, finish("The secret")];
    const done = await tasked(rules, { schema, field_guards });
    expect(done).toMatchObject({ status: "completed", structured_response: { title: "Nothing" } });
  });

  it("that is refused three times fails the run", async () => {
    const field_guards = [{ kind: "RegexMatch", fields: ["title"], pattern: "^The" }];
    const done = await tasked([finish("The secret")], { schema, field_guards });
    expect([done.status, done.result.error]).toEqual(["failed", expect.stringMatching(/^structured_response: title/)]);
  });
});
