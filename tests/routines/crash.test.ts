/**
 * The runtime is killed with -9 at each point of a run's way, several runs at a time: each comes to its end, no cause has
 * two runs, and nothing was silently done twice. The points are hit from outside, by what an endpoint or a database holds.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { anAgent, must, unique } from "../harness/index.ts";
import { aStage, SOAK, type Stage, until, wait } from "../sessions/stage.ts";

const [ROUNDS, EACH] = SOAK ? [5, 4] : [1, 1];
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
