/** Graphs that hand work to agents, that wait for events, and that are steps of a chain: through the front door. */
import { describe, expect, it } from "vitest";
import { anAgent, anApp, type Call, must, sql, unique } from "../harness/index.ts";
import { instructionsOf, type Rule, until } from "../sessions/stage.ts";

const scripted = { model: "scripted/script" };
const trigger = { kind: "WorkflowTrigger", id: "t" };

/** An agent of a fresh app whose routines go the way of graphs; each begins at a trigger, and leads to the first node. */
async function stage() {
  const app = await anApp();
  const call: Call = app.as(app.acme);
  const agent = await anAgent(call, scripted);
  const aGraph = async (nodes: ({ id: string } & Record<string, unknown>)[], data: object[] = []) => {
    const [first] = nodes;
    const graph = { kind: "WorkflowGraph", version: 1, name: "g", start_node: "t", data };
    const raw_content = JSON.stringify({ ...graph, nodes: [{ ...trigger, on_success: first!.id }, ...nodes] });
    const body = { kind: "WorkflowGraph", mime_type: "application/json", raw_content };
    return (await must(call("POST", "/api/v1/config", body), 201)).id as string;
  };
  const aRoutine = async (fields: object) =>
    must(
      call("POST", `/api/v1/agents/${agent.id}/agent_routines`, {
        ...{ name: "a routine", event_type: "agentroutine.invoked", status: "active", ...fields },
      }),
      200,
    );
  const get = (id: string) => must(call("GET", `/api/v1/agent_routines/runs/${id}`), 200);
  const invoke = async (routine: { id: string }, body: object = {}) =>
    (await must(call("POST", `/api/v1/agent_routines/${routine.id}/invoke`, { message: "Go.", ...body }), 200))
      .id as string;
  const begin = async (...nodes: Parameters<typeof aGraph>[0]) =>
    invoke(await aRoutine({ handler_type: "workflow_graph", config: await aGraph(nodes) }));
  const becomes = (id: string, ...statuses: string[]) =>
    until(
      `${id} is ${statuses}`,
      async () => {
        const run = await get(id);
        return statuses.includes(run.status) ? run : null;
      },
      // Sooner than somebody would look after it.
      20_000,
    );
  const cancel = (id: string) => must(call("POST", `/api/v1/agent_routines/runs/${id}/cancel`), 200);
  return { ...app, call, agent, aGraph, aRoutine, get, invoke, begin, becomes, cancel };
}
const finishes = (result: object): Rule => ({ tool_calls: [{ name: "finish", arguments: { result } }] });

describe("work that a session does", () => {
  const work = (participant: string, ...rules: Rule[]) => ({
    ...{ kind: "WorkflowEmbedAgent", id: "w", participant, instructions: instructionsOf(...rules) },
  });

  it("is told what to do and with what, and gives what that comes to", async () => {
    const { call, begin, becomes } = await stage();
    const clerk = await anAgent(call, { ...scripted, lookup_key: unique("clerk") });
    const id = await begin(work(clerk.lookup_key, { match: '"Go."', text: "Gone." }, { text: "What?" }));
    expect(await becomes(id, "completed", "failed")).toMatchObject({
      status: "completed",
      result: { output: "Gone." },
    });
    const [session, ...others] = (await must(call("GET", `/api/v1/agent_sessions?routine_run[]=${id}`), 200)).data;
    expect([session.agent, session.status, others]).toEqual([clerk.id, "completed", []]);
  });

  it("is done by the routine's own agent, too, by a participant of the run, and to a schema", async () => {
    const { call, agent, aGraph, aRoutine, invoke, becomes } = await stage();
    const clerk = await anAgent(call, scripted);
    const result_schema = { type: "object", properties: { n: { type: "number" } }, required: ["n"] };
    const own = { ...work(agent.id, finishes({ n: 1 })), result_schema, on_success: "v" };
    const named = { ...work("{{ `cle` }}rk".replaceAll("`", '"'), finishes({ n: 2 })), id: "v", input: null };
    const config = await aGraph([own, { ...named, inputs: ["w"], result_schema }]);
    const routine = await aRoutine({ handler_type: "workflow_graph", config });
    const id = await invoke(routine, { participants: { clerk: clerk.id } });
    expect((await becomes(id, "completed", "failed")).result).toEqual({ n: 2 });
    const { data } = await must(call("GET", `/api/v1/agent_sessions?routine_run[]=${id}`), 200);
    expect(data.map((one: any) => one.agent)).toEqual([clerk.id, agent.id]);
  });

  it("is for no agent that the run may not give work to: one of another org, and one that its own list keeps", async () => {
    const { call, as, globex, agent, begin, becomes } = await stage();
    const foreign = await anAgent(as(globex), scripted);
    const grants = (principal_type: string, actions: string[], principal?: string) => ({
      ...{ principal_type, actions, ...(principal && { principal }) },
    });
    const kept = await anAgent(call, { ...scripted, acl: { grants: [grants("everyone", ["read"])] } });
    const open = { grants: [grants("agent", ["read", "write"], agent.id)] };
    const given = await anAgent(call, { ...scripted, acl: open });
    for (const [participant, status] of [
      [foreign.id, "failed"],
      [kept.id, "failed"],
      ["nobody", "failed"],
      [given.id, "completed"],
    ] as const) {
      const done = await becomes(await begin(work(participant, { text: "Done." })), "completed", "failed");
      expect([participant, done.status]).toEqual([participant, status]);
      if (status === "failed") expect(done.result.error).toContain(`there is no agent ${participant}`);
    }
    const sessions = await sql("select from data.agent_sessions where agent_id in ($1, $2)", [foreign.id, kept.id]);
    expect(sessions).toEqual([]);
  });

  it("that comes to nothing takes the node's way for errors, and a schema that is none is one", async () => {
    const { call, begin, becomes } = await stage();
    const clerk = await anAgent(call, { model: "scripted/none-such" });
    const told = { kind: "WorkflowCondition", id: "c", condition: "false" };
    const failing = { ...work(clerk.id), on_error: "c" };
    const { status, result } = await becomes(await begin(failing, told), "completed", "failed");
    expect([status, result.node]).toEqual(["completed", "w"]);
    const odd = { ...work(clerk.id), result_schema: { type: "array" } };
    expect((await becomes(await begin(odd), "failed")).result.error).toMatch(/^w: result_schema: /);
  });

  it("ends with its run", async () => {
    const { call, begin, cancel } = await stage();
    const clerk = await anAgent(call, scripted);
    const id = await begin(work(clerk.id, { delay_ms: 30_000, text: "Late." }));
    const session = () =>
      call("GET", `/api/v1/agent_sessions?routine_run[]=${id}`).then(({ body }) => body.data[0] ?? null);
    await until("it is at work", async () => ((await session())?.status === "running" ? true : null));
    await cancel(id);
    await until("it is cancelled", async () => ((await session()).status === "cancelled" ? true : null));
  });
});

describe("work for whoever claims it", () => {
  const work = (participant: string, more: object = {}) => ({
    ...{
      kind: "WorkflowEmbedAgent",
      id: "w",
      participant,
      worker: "external",
      instructions: "Look at {{ $.message }}",
    },
    ...more,
  });
  const handed = async (more: object = {}) => {
    const it = await stage();
    const clerk = await anAgent(it.call);
    const id = await it.begin(work(clerk.id, more));
    const list = async () => (await must(it.call("GET", `/api/v1/work_items?execution=${id}`), 200)).data;
    const item = await until("its item is there", async () => (await list())[0] ?? null);
    const claim = async (lease_owner = "me") =>
      (await must(it.call("POST", `/api/v1/agents/${clerk.id}/work_items/claim`, { lease_owner }), 200)).data;
    const act = (verb: string, body: object) =>
      it.call("POST", `/api/v1/work_items/${item.id}/${verb}`, { lease_owner: "me", ...body });
    return { ...it, clerk, id, list, item, claim, act };
  };

  it("is an item of that agent, which says what is to be done; what is submitted is what the node gives", async () => {
    const { call, agent, clerk, id, item, claim, act, becomes } = await handed();
    expect(item).toMatchObject({
      ...{ agent: clerk.id, execution: id, routine_run: id, node_id: "w", status: "queued", attempt_count: 0 },
      payload: { instructions: "Look at Go.", input: { message: "Go." }, result_schema: null },
    });
    const journal = async () => must(call("GET", `/api/v1/agent_routines/runs/${id}/journal`), 200);
    await until("it waits", async () => ((await journal()).journal.status === "waiting" ? true : null));
    expect((await claim()).work_item.id).toBe(item.id);
    await must(act("submit", { result: { n: 7 } }), 204);
    expect((await becomes(id, "completed", "failed")).result).toEqual({ n: 7 });
    await must(act("submit", { result: { n: 7 } }), 204);
    expect((await act("submit", { result: { n: 8 } })).status).toBe(409);
    const told = await sql("select name from data.events where payload ->> 'id' = $1 order by position", [item.id]);
    expect(told.map(({ name }) => name)).toEqual([
      ...["work_item.created", "work_item.updated", "work_item.claimed", "work_item.updated", "work_item.succeeded"],
    ]);
    expect(agent.id).not.toBe(clerk.id);
  });

  it("that is given up fails the node with what was said", async () => {
    const { id, claim, act, becomes } = await handed();
    await claim();
    await must(act("fail", { error: { message: "no such order" } }), 204);
    expect((await becomes(id, "completed", "failed")).result).toEqual({ error: "w: no such order" });
  });

  it("fails the node where what was submitted isn't of its schema", async () => {
    const result_schema = { type: "object", properties: { n: { type: "number" } }, required: ["n"] };
    const { id, claim, act, becomes } = await handed({ result_schema });
    await claim();
    await must(act("submit", { result: { n: "seven" } }), 204);
    expect((await becomes(id, "completed", "failed")).result.error).toMatch(/^w: what was submitted: .*\/n/);
  });

  it("ends with its run: who has it is told so", async () => {
    const { id, claim, act, cancel, list } = await handed();
    await claim();
    await cancel(id);
    await until("it is failed", async () => ((await list())[0].status === "failed" ? true : null));
    expect((await act("submit", { result: {} })).status).toBe(409);
  });
});

describe("a wait for an event", () => {
  const waiting = (more: object = {}) => ({ kind: "WorkflowWait", id: "w", event: "custom.paid", ...more });
  const listening = (id: string, n = 1) =>
    until(`${id} listens`, async () => {
      const rows = await sql("select id from data.event_waits where run_id = $1", [id]);
      return rows.length === n ? true : null;
    });
  const isForgotten = (id: string) =>
    until("its wait is gone", async () =>
      (await sql("select from data.event_waits where run_id = $1", [id])).length ? null : true,
    );
  const publish = (call: Call, payload: object, name = "custom.paid") =>
    must(call("POST", "/api/v1/events", { name, payload }), 201);

  it("gives the payload of the first that fits, and of none that was told before", async () => {
    const { app, call, get, begin, becomes } = await stage();
    const filters = { "order.id": "{{ $.message }}", "$.kind": "full" };
    await publish(call, { order: { id: "Go." }, kind: "full", n: 0 });
    const id = await begin(waiting({ filters }));
    await listening(id);
    // Nobody else listens, and what was told before is handed on.
    await must(call("POST", `/api/v1/agent_routines/${(await get(id)).routine}/pause`), 200);
    await until("all is handed on", async () => {
      const left = await sql(
        `select from data.events e left join data.event_heads h using (app_id, sandbox_id, org_id)
          where app_id = $1 and name like 'agent_routine%' and (e.sequence is null or e.sequence > h.delivered)`,
        [app],
      );
      return left.length ? null : true;
    });
    await publish(call, { order: { id: "Go." }, kind: "full", n: 1 }, "custom.other");
    await publish(call, { order: { id: "Go on." }, kind: "full", n: 2 });
    await publish(call, { order: { id: "Go." }, n: 3 });
    await publish(call, { kind: "full", order: { id: "Go." }, n: 4 });
    await publish(call, { order: { id: "Go." }, kind: "full", n: 5 });
    const done = await becomes(id, "completed", "failed");
    expect(done.result).toEqual({ order: { id: "Go." }, kind: "full", n: 4 });
    await isForgotten(id);
  });

  it("gives null when its time is over, and goes on", async () => {
    const { begin, becomes } = await stage();
    const none = { kind: "WorkflowCondition", id: "c", condition: "$ == null", on_true: "e" };
    const told = { kind: "WorkflowEmitEvent", id: "e", name: "custom.late", payload: { late: true } };
    const id = await begin(waiting({ timeout_seconds: 1, on_success: "c" }), none, told);
    expect(await becomes(id, "completed", "failed")).toMatchObject({ status: "completed", result: { value: null } });
    expect(
      await sql(
        "select payload from data.events where payload ->> 'late' = 'true' and causes[1] = (select routine_id from data.agent_routine_runs where id = $1)",
        [id],
      ),
    ).toHaveLength(1);
    await isForgotten(id);
  });

  it("hears of no event that its run may not read", async () => {
    const { call, as, acme, begin, becomes } = await stage();
    const owner = as(acme);
    const grants = [{ principal_type: "org_role", principal: "admin", actions: ["read", "write"] }];
    const [kept, open] = [await anAgent(owner, { acl: { grants } }), await anAgent(owner)];
    const id = await begin(waiting({ event: "agent.updated" }));
    await listening(id);
    for (const { id } of [kept, open]) await must(call("PATCH", `/api/v1/agents/${id}`, { name: unique("n") }), 200);
    expect((await becomes(id, "completed", "failed")).result.id).toBe(open.id);
  });

  it("of several, each in its turn of a loop or beside others, has its own event", async () => {
    const { call, begin, becomes } = await stage();
    const each = { kind: "WorkflowForEach", id: "f", items: '["a", "b"]', body: "w", concurrency: 2 };
    const id = await begin(each, waiting({ filters: { for: "{{ $ }}" } }));
    await listening(id, 2);
    await publish(call, { for: "b", n: 1 });
    await listening(id, 1);
    await publish(call, { for: "b", n: 2 });
    await publish(call, { for: "a", n: 3 });
    const { result } = await becomes(id, "completed", "failed");
    expect(result.value).toEqual([
      { for: "a", n: 3 },
      { for: "b", n: 1 },
    ]);
  });

  it("ends with its run", async () => {
    const { begin, cancel } = await stage();
    const id = await begin(waiting());
    await listening(id);
    await cancel(id);
    await isForgotten(id);
  });

  it("is one of at most so many in an org", async () => {
    const { app, begin, becomes } = await stage();
    await sql(`update data.apps set settings = '{"quotas": {"event_waits": 1}}' where id = $1`, [app]);
    await listening(await begin(waiting()));
    expect((await becomes(await begin(waiting()), "completed", "failed")).result.error).toMatch(/^w: limit_reached/);
  });

  it.each([
    ["an event that there is none of", { event: "agent.invented" }, /there is no event agent.invented/],
    ["filters that are no values by path", { filters: { a: "{{ array.range(0, 3000) }}" } }, /filters have more than/],
  ])("fails for %s", async (_, more, error) => {
    const { begin, becomes } = await stage();
    expect((await becomes(await begin(waiting(more)), "completed", "failed")).result.error).toMatch(error);
  });
});

describe("a graph that is a step of a chain", () => {
  const asks = (id: string, more: object = {}) => ({
    kind: "WorkflowApproval",
    id,
    message: "Pay {{ $.total }}?",
    ...more,
  });

  it("has what the steps before it put out, its own scripts, and its keys under the step's", async () => {
    const { call, aGraph, aRoutine, invoke, becomes } = await stage();
    const sum = { kind: "WorkflowScript", id: "s", script: "sum", on_success: "a" };
    const scripts = (script: string) => [{ kind: "Script", id: "sum", script }];
    const config = await aGraph([sum, asks("a")], scripts("{ total: $.inputs.first.n + 1 }"));
    const other = await aGraph(
      [{ ...sum, on_success: undefined }],
      scripts("{ twice: $.inputs.pay.total * 2, of: $.trigger.message }"),
    );
    const routine = await aRoutine({
      handler_type: "chain",
      steps: [
        { handler_type: "script", name: "first", script: "{ n: 1 }" },
        { handler_type: "workflow_graph", name: "pay", config },
        { handler_type: "workflow_graph", config: other },
      ],
    });
    const id = await invoke(routine);
    const asked = await until("it asks", async () => {
      const { data } = await must(call("GET", "/api/v1/tool_calls?outcome[]=awaiting_approval"), 200);
      return data.find(({ routine_run }: any) => routine_run === id) ?? null;
    });
    expect([asked.name, asked.arguments]).toEqual(["steps[1] pay.a", { message: "Pay 2?", input: { total: 2 } }]);
    const { arguments_hash } = asked;
    await must(call("POST", `/api/v1/agent_routines/runs/${id}/commands/${asked.id}/approve`, { arguments_hash }), 200);
    expect((await becomes(id, "completed", "failed")).result).toEqual({ twice: 4, of: "Go." });
    const { data } = await must(call("GET", `/api/v1/agent_routines/runs/${id}/journal`), 200);
    const keys = data.flatMap((frame: any) => (frame.type === "command.requested" ? frame.record.key : []));
    expect(keys).toEqual(["steps[0] first", "steps[1] pay.s", "steps[1] pay.a", "steps[2].s"]);
  });

  it("goes by the versions that its configs had when it began: of what it names by an id, or by a lookup_key", async () => {
    const { call, aGraph, aRoutine, invoke, becomes } = await stage();
    const aScript = async (raw_content: string) => {
      const lookup_key = unique("script");
      const body = { kind: "Script", system: true, lookup_key, mime_type: "text/plain", raw_content };
      return { lookup_key, id: (await must(call("POST", "/api/v1/config", body), 201)).id as string };
    };
    const [named, own] = [await aScript('"before"'), await aScript('[$.inputs.named, "before"]')];
    const run = { kind: "WorkflowScript", id: "s", script: named.lookup_key };
    const steps = [
      { handler_type: "workflow_graph", config: await aGraph([asks("a")]) },
      { handler_type: "workflow_graph", name: "named", config: await aGraph([run]) },
      { handler_type: "script", config: own.id },
    ];
    const id = await invoke(await aRoutine({ handler_type: "chain", steps }));
    const asked = await until("it asks", async () => {
      const { data } = await must(call("GET", "/api/v1/tool_calls?outcome[]=awaiting_approval"), 200);
      return data.find(({ routine_run }: any) => routine_run === id) ?? null;
    });
    for (const one of [named, own]) {
      await must(call("PATCH", `/api/v1/config/${one.id}`, { mime_type: "text/plain", raw_content: '"after"' }), 200);
    }
    const { arguments_hash } = asked;
    await must(call("POST", `/api/v1/agent_routines/runs/${id}/commands/${asked.id}/approve`, { arguments_hash }), 200);
    expect((await becomes(id, "completed", "failed")).result).toEqual({ value: ["before", "before"] });
  });

  it.each([
    [
      "halt",
      "failed",
      { error: "steps[0] pay: w: participant: there is no agent nobody that this run may give work to" },
    ],
    ["continue", "completed", { value: [null] }],
  ])("whose node fails: on_error %s", async (on_error, status, result) => {
    const { aGraph, aRoutine, invoke, becomes } = await stage();
    const work = { kind: "WorkflowEmbedAgent", id: "w", participant: "nobody", instructions: "Do." };
    const config = await aGraph([work]);
    const steps = [
      { handler_type: "workflow_graph", name: "pay", config, on_error },
      { handler_type: "script", script: "[$.inputs.pay]" },
    ];
    const done = await becomes(await invoke(await aRoutine({ handler_type: "chain", steps })), "completed", "failed");
    expect([done.status, done.result]).toEqual([status, result]);
  });
});
