/**
 * The runtime is killed with -9 at each point of a run's way, several runs at a time: each comes to its end, no cause has
 * two runs, and nothing was silently done twice. The points are hit from outside, by what an endpoint or a database holds.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { anAgent, must, unique } from "../harness/index.ts";
import { aStage, instructionsOf, SOAK, type Stage, until, wait } from "../sessions/stage.ts";

/** Of three methods, so many each: an agent has ten runs at once. */
const [ROUNDS, EACH] = SOAK ? [7, 3] : [1, 1];
const METHODS = { get: "read", put: "idempotent", post: "once" } as const;
type Method = keyof typeof METHODS;
const PIN = /\bagent_routine_configs\b/;
const ADMISSION = /\bupdate\b.*\bagent_routine_runs\b.*\badmitted_at\b/is;
const PROJECTION = /\bupdate\b.*\bagent_routine_runs\b.*"sequence" <=/is;

let stage: Stage;
const routines = new Map<string, { id: string }>();
let serial = 0;

beforeAll(async () => {
  stage = await aStage();
  const agent = await anAgent(stage.ask);
  for (const kind of ["act", "hold"]) {
    for (const method of Object.keys(METHODS)) {
      const script = `requests.${method}("${stage.endpoint.url}/${kind}/" + $.id).body.id`;
      routines.set(`${kind} ${method}`, await aRoutine(agent, `custom.${kind}_${method}`, script));
    }
  }
}, 120_000);
afterEach(() => stage.database.letGo());
afterAll(() => stage.close());

const aRoutine = (agent: { id: string }, event_type: string, script: string) =>
  must(
    stage.ask("POST", `/api/v1/agents/${agent.id}/agent_routines`, {
      ...{ name: unique("r"), handler_type: "script", status: "active", event_type, script },
    }),
    200,
  );

type Cause = { routine: string; event: string; method: Method; kind: string; asks: string };

/** An event for a routine of each method, EACH times. */
const causes = (kind: string) =>
  Promise.all(
    (Object.keys(METHODS) as Method[]).flatMap((method) =>
      Array.from({ length: EACH }, async (): Promise<Cause> => {
        const asks = `c${serial++}`;
        const name = `custom.${kind}_${method}`;
        const { id } = await must(stage.ask("POST", "/api/v1/events", { name, payload: { id: asks } }), 201);
        return { routine: routines.get(`${kind} ${method}`)!.id, event: id, method, kind, asks };
      }),
    ),
  );

const runsOf = ({ routine, event }: Cause) =>
  stage.own.database.query<any>("select * from data.agent_routine_runs where routine_id = $1 and event_id = $2", [
    ...[routine, event],
  ]);
const askedOf = ({ kind, asks }: Cause) => stage.endpoint.asked.filter((one) => one.kind === kind && one.id === asks);

/** Kills the runtime, and then: each cause has one run, which ends by itself, but for what only a person can judge. */
async function killed(all: Cause[], { after = 0 } = {}) {
  await wait(after);
  stage.kill();
  stage.database.letGo();
  await stage.isUp();
  let unknown = 0;
  for (const cause of all) {
    const ended = async () => {
      const [run] = await runsOf(cause);
      if (!run || ["completed", "failed"].includes(run.status)) return run ?? null;
      const at = `/api/v1/agent_routines/runs/${run.id}`;
      const { body } = await stage.ask("GET", `${at}/commands?outcome[]=unknown`);
      const [command] = body.data;
      if (!command) return null;
      expect(cause.method).toBe("post");
      unknown++;
      const resolved = await stage.ask("POST", `${at}/commands/${command.id}/resolve`, {
        ...{ outcome: "happened", result: cause.asks },
      });
      expect([200, 409]).toContain(resolved.status);
      return null;
    };
    const run = await until(`${cause.method} ${cause.event} has a run that ends`, ended, 90_000);
    expect([cause.method, run.status, run.result]).toEqual([cause.method, "completed", { value: cause.asks }]);
    expect(await runsOf(cause)).toHaveLength(1);
    const asked = askedOf(cause);
    if (cause.method === "post") expect(asked.length).toBeLessThanOrEqual(1);
    else expect(asked.length).toBeGreaterThanOrEqual(1);
    if (cause.method === "put") expect(new Set(asked.map(({ key }) => key)).size).toBe(1);
  }
  return unknown;
}

const rounds = Array.from({ length: ROUNDS }, (_, i) => i);

describe("killed with -9, every cause has one run, which ends as promised", { timeout: 300_000 }, () => {
  it.each(rounds)("before it is admitted (%i)", async () => {
    stage.database.hold(ADMISSION);
    const all = await causes("act");
    await until("they are to be admitted", () => (stage.database.waiting() ? true : null));
    expect(await killed(all)).toBe(0);
  });

  it.each(rounds)("before its first step (%i)", async () => {
    stage.database.hold(PIN);
    const all = await causes("act");
    await until("they are to be pinned", () => (stage.database.waiting() ? true : null));
    expect(await killed(all)).toBe(0);
  });

  it.each(rounds)("while a command is sent, unanswered (%i)", async () => {
    const all = await causes("hold");
    await until("one is sent", () => (stage.endpoint.held() ? true : null));
    const letGo = setInterval(() => stage.endpoint.letGo(), 200);
    // Scripts of an agent run one at a time: the one that is held may be any of them.
    expect(await killed(all).finally(() => clearInterval(letGo))).toBeLessThanOrEqual(EACH);
  });

  it.each(rounds)("before Postgres hears of its end (%i)", async () => {
    stage.database.hold(PROJECTION);
    const all = await causes("act");
    await until("all have asked", () => (all.every((cause) => askedOf(cause).length) ? true : null));
    expect(await killed(all, { after: 200 })).toBe(0);
  });
});

/** A run of a graph that begins at this node, and what becomes of it. */
async function aGraphRun(node: { id: string } & Record<string, unknown>, of: { id: string }) {
  const graph = { kind: "WorkflowGraph", version: 1, name: "g", start_node: node.id, nodes: [node] };
  const body = { kind: "WorkflowGraph", mime_type: "application/json", raw_content: JSON.stringify(graph) };
  const { id: config } = await must(stage.ask("POST", "/api/v1/config", body), 201);
  const { id: routine } = await must(
    stage.ask("POST", `/api/v1/agents/${of.id}/agent_routines`, {
      ...{ name: unique("r"), handler_type: "workflow_graph", status: "active", config },
      event_type: "agentroutine.invoked",
    }),
    200,
  );
  const invoke = () => must(stage.ask("POST", `/api/v1/agent_routines/${routine}/invoke`, { message: "Go." }), 200);
  const { id } = await invoke();
  const ends = () =>
    until(`${id} ends`, async () => {
      const run = await must(stage.ask("GET", `/api/v1/agent_routines/runs/${id}`), 200).catch(() => null);
      return run && ["completed", "failed"].includes(run.status) ? run : null;
    });
  return { id: id as string, ends };
}
const query = (text: string, ...params: string[]) => stage.own.database.query<any>(text, params);

describe("work that a graph hands over", { timeout: 120_000 }, () => {
  const work = (participant: string, more: object = {}) => ({
    ...{ kind: "WorkflowEmbedAgent", id: "w", participant, instructions: "Do.", worker: "external" },
    ...more,
  });
  const handed = async () => {
    const agent = await anAgent(stage.ask);
    const clerk = await anAgent(stage.ask);
    const run = await aGraphRun(work(clerk.id), agent);
    const claims = (lease_owner: string) =>
      must(stage.ask("POST", `/api/v1/agents/${clerk.id}/work_items/claim`, { lease_owner }), 200);
    const claim = (lease_owner = "me") =>
      until("it is claimed", async () => (await claims(lease_owner).catch(() => null))?.data ?? null);
    const expire = (id: string) =>
      query("update data.work_items set lease_expires_at = now() - interval '1 second' where id = $1", id);
    const lookedAfter = async () => {
      await query("update data.agent_routine_runs set look_at = now() - interval '1 second' where id = $1", run.id);
      await stage.own.fireCrons();
    };
    // Before that it looks by itself once more, when its item is sent.
    await until("it is looked after in ten minutes", async () => {
      const far = "select from data.agent_routine_runs where id = $1 and look_at > now() + interval '5 minutes'";
      return (await query(far, run.id)).length ? true : null;
    });
    return { ...run, clerk, claim, expire, lookedAfter };
  };

  it.each([
    ["an item", "external", /insert into "data"."work_items"/],
    ["a session", "session", /insert into "data"."agent_sessions"/],
  ])("is %s, once, though the process ends while it is sent", async (_, worker, sent) => {
    const agent = await anAgent(stage.ask, { model: "scripted/script" });
    stage.database.hold(sent);
    const instructions = instructionsOf({ text: "Done." });
    const { id, ends } = await aGraphRun(work(agent.id, { worker, instructions }), agent);
    await until("it is being sent", () => (stage.database.waiting() ? true : null));
    stage.kill();
    // What was on its way arrives, and is sent again.
    stage.database.letGo();
    await stage.isUp();
    if (worker === "external") {
      const item = await until("its item is there", async () => {
        const [found] = await query("select id, command_id from data.work_items where run_id = $1", id);
        return found ?? null;
      });
      await must(stage.ask("POST", `/api/v1/agents/${agent.id}/work_items/claim`, { lease_owner: "me" }), 200);
      const result = { lease_owner: "me", result: { output: "Done." } };
      await must(stage.ask("POST", `/api/v1/work_items/${item.id}/submit`, result), 204);
    }
    expect((await ends()).result).toEqual({ output: "Done." });
    const made = worker === "external" ? "data.work_items where run_id" : "data.agent_sessions where routine_run_id";
    expect(await query(`select from ${made} = $1`, id)).toHaveLength(1);
  });

  it("that was submitted while the process was gone is heard of when somebody looks", async () => {
    const { claim, ends, lookedAfter } = await handed();
    const { work_item } = await claim();
    await query(
      `update data.work_items set status = 'succeeded', lease_expires_at = null, result = '{"n": 7}' where id = $1`,
      work_item.id,
    );
    await lookedAfter();
    expect((await ends()).result).toEqual({ n: 7 });
  });

  it("fails when the tenth lease has run out, which is when it is looked after", async () => {
    const { id, claim, expire, ends, lookedAfter } = await handed();
    for (let n = 1; n <= 10; n++) {
      const { work_item } = await claim(`owner ${n}`);
      const [{ ahead }] = await query(
        "select extract(epoch from look_at - now())::float as ahead from data.agent_routine_runs where id = $1",
        id,
      );
      if (n === 10) expect(Math.abs(ahead - 300)).toBeLessThan(10);
      await expire(work_item.id);
    }
    await lookedAfter();
    expect((await ends()).result.error).toBe("w: its lease has run out 10 times");
  });

  it("fails with its agent", async () => {
    const { clerk, claim, ends, lookedAfter } = await handed();
    await claim();
    await must(stage.ask("DELETE", `/api/v1/agents/${clerk.id}`), 204);
    await lookedAfter();
    expect((await ends()).result.error).toBe("w: its work item went with its agent");
  });
});

it.each([
  ["as the wait is written down", /insert into "data"."event_waits"/, false],
  ["as the event is handed on", /update .*event_waits.* item\.event_id/s, true],
])(
  "a run that waits for an event has it once, though the process ends %s",
  async (_, statement, isPublished) => {
    const agent = await anAgent(stage.ask);
    const name = `custom.wait_${serial++}`;
    const publish = (n: number) => must(stage.ask("POST", "/api/v1/events", { name, payload: { n } }), 201);
    const waits = (id: string) => query("select from data.event_waits where run_id = $1", id);
    if (!isPublished) stage.database.hold(statement);
    const { id, ends } = await aGraphRun({ kind: "WorkflowWait", id: "w", event: name }, agent);
    if (isPublished) {
      await until("it waits", async () => ((await waits(id)).length ? true : null));
      stage.database.hold(statement);
      await publish(1);
    }
    await until("it is held", () => (stage.database.waiting() ? true : null));
    stage.kill();
    stage.database.letGo();
    await stage.isUp();
    if (!isPublished) {
      await until("it listens", async () => {
        const status = async () =>
          (await must(stage.ask("GET", `/api/v1/agent_routines/runs/${id}/journal`), 200)).journal.status;
        return (await status().catch(() => null)) === "waiting" ? true : null;
      });
      await publish(1);
    }
    expect((await ends()).result).toEqual({ n: 1 });
    await until("nothing waits any more", async () => ((await waits(id)).length ? null : true));
  },
  120_000,
);

it("starts nothing while its org is suspended, and goes on when that is lifted", { timeout: 120_000 }, async () => {
  const { app } = stage;
  const status = (status: string) => must(app.asDeveloper("PATCH", `${app.at}/orgs/${app.acme}`, { status }), 200);
  await status("suspended");
  const asks = `c${serial++}`;
  const event = { name: "custom.act_get", payload: { id: asks }, org: app.acme };
  const { id } = await must(app.asDeveloper("POST", "/api/v1/events", event), 201);
  const cause = { routine: routines.get("act get")!.id, event: id, method: "get", kind: "act", asks } as const;
  await until("its run is there", async () => ((await runsOf(cause)).length ? true : null));
  await wait(1_000);
  expect([(await runsOf(cause))[0].status, askedOf(cause)]).toEqual(["pending", []]);
  await status("active");
  await stage.own.database.query("update data.agent_routine_runs set look_at = now() - interval '1 second'", []);
  await stage.own.fireCrons();
  await until("it goes on", async () => ((await runsOf(cause))[0].status === "completed" ? true : null));
});

it("makes no call of a script any more once its org is suspended, and the rest when that is lifted", async () => {
  const { app, endpoint } = stage;
  const status = (status: string) => must(app.asDeveloper("PATCH", `${app.at}/orgs/${app.acme}`, { status }), 200);
  const [held, next] = [`c${serial++}`, `c${serial++}`];
  const agent = await anAgent(stage.ask);
  const script = `let first = requests.get("${endpoint.url}/hold/${held}").body.n
    [first, requests.post("${endpoint.url}/act/${next}").body.n]`;
  const { id } = await aRoutine(agent, "agentroutine.invoked", script);
  const run = await must(stage.ask("POST", `/api/v1/agent_routines/${id}/invoke`, { message: "Go." }), 200);
  const row = async () => (await query("select status, result from data.agent_routine_runs where id = $1", run.id))[0];
  await until("its first call is made", () => (endpoint.held() ? true : null));
  await status("suspended");
  // So long nobody looks again whether it is.
  await wait(4_500);
  endpoint.letGo();
  await wait(500);
  const asked = () => endpoint.asked.filter((one) => one.id === next).length;
  expect([asked(), (await row()).status]).toEqual([0, "running"]);
  await status("active");
  await stage.own.fireCrons();
  await until("it goes on", async () => ((await row()).status === "completed" ? true : null));
  expect([asked(), (await row()).result]).toEqual([1, { value: [1, 1] }]);
}, 60_000);

it.each([
  [undefined, "unknown"],
  ["idempotent", "pending"],
])("of a script whose node says effect %s, a call whose answer was lost is %s", async (effect, outcome) => {
  const { endpoint } = stage;
  const script = `unwrap(requests.post("${endpoint.url}/hold/c${serial++}"))`;
  const lookup_key = unique("script");
  const config = { kind: "Script", system: true, lookup_key, mime_type: "text/plain", raw_content: script };
  await must(stage.ask("POST", "/api/v1/config", config), 201);
  const node = { kind: "WorkflowScript", id: "s", script: lookup_key, ...(effect && { effect }) };
  const { id } = await aGraphRun(node, await anAgent(stage.ask));
  await until("its call is made", () => (endpoint.held() ? true : null));
  endpoint.drop();
  const at = `/api/v1/agent_routines/runs/${id}`;
  await until(`it is ${outcome}`, async () => {
    const { data } = await must(stage.ask("GET", `${at}/commands`), 200);
    return data[0]?.outcome === outcome ? true : null;
  });
  await must(stage.ask("POST", `${at}/cancel`), 200);
});

it("runs of a scope that begin at once share one session, however long the first takes to make it", async () => {
  const agent = await anAgent(stage.ask, { model: "scripted/script" });
  const preset_config = {
    ...{ instructions: instructionsOf({ text: "Heard." }), session_mode: "session", session_scope: "global" },
  };
  const { id } = await must(
    stage.ask("POST", `/api/v1/agents/${agent.id}/agent_routines`, {
      ...{ name: unique("r"), handler_type: "preset", preset_name: "do_task", status: "active", preset_config },
      event_type: "agentroutine.invoked",
    }),
    200,
  );
  stage.database.hold(/insert into "data"."agent_sessions"/);
  for (const message of ["One.", "Two."]) {
    await must(stage.ask("POST", `/api/v1/agent_routines/${id}/invoke`, { message }), 200);
  }
  await until("the first makes it", () => (stage.database.waiting() ? true : null));
  await wait(1_500);
  stage.database.letGo();
  const runs = () => query("select status, result from data.agent_routine_runs where routine_id = $1", id);
  await until("both are over", async () =>
    (await runs()).every(({ status }) => status === "completed") ? true : null,
  );
  const [one, two] = (await runs()).map(({ result }) => result.session);
  expect([one, await query("select id from data.agent_sessions where agent_id = $1", agent.id)]).toEqual([
    two,
    [{ id: one }],
  ]);
});
