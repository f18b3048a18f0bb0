/**
 * The runtime is killed with -9 at each point of an automation's way, from its event or its instant to its end: each cause
 * has one run, each event one number, and nothing was silently done twice.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { must, unique } from "../harness/index.ts";
import { aStage, SOAK, type Stage, until, wait } from "../sessions/stage.ts";

const ROUNDS = Array.from({ length: SOAK ? 20 : 1 }, (_, i) => i);
/** Each with a script that asks so. */
const METHODS = ["get", "put", "post"] as const;
type Method = (typeof METHODS)[number];

let stage: Stage;
const automations = new Map<string, string>();

beforeAll(async () => {
  stage = await aStage();
  for (const kind of ["act", "hold"]) {
    for (const method of METHODS) {
      const script = await config("Script", `requests.${method}("${stage.endpoint.url}/${kind}/" + $.id).body.id`);
      const said = { name: "A", config_ref: script, event_type: `custom.${kind}_${method}` };
      automations.set(`${kind} ${method}`, await config("Automation", JSON.stringify(said), "application/json"));
    }
  }
}, 120_000);
afterEach(() => stage.database.letGo());
afterAll(() => stage.close());

const query = <Row = any>(text: string, ...params: string[]) => stage.own.database.query<Row>(text, params);
const config = async (kind: string, raw_content: string, mime_type = "text/plain"): Promise<string> =>
  (await must(stage.ask("POST", "/api/v1/config", { kind, mime_type, raw_content, lookup_key: unique("c") }), 201)).id;

type Cause = { event: string; automation: string; method: Method; kind: string; asks: string };

/** An event for an automation of each method. */
const causes = (kind: string): Promise<Cause[]> =>
  Promise.all(
    METHODS.map(async (method) => {
      const asks = unique("c");
      const name = `custom.${kind}_${method}`;
      const { id } = await must(stage.ask("POST", "/api/v1/events", { name, payload: { id: asks } }), 201);
      return { event: id, automation: automations.get(`${kind} ${method}`)!, method, kind, asks };
    }),
  );
const askedOf = ({ kind, asks }: Cause) => stage.endpoint.asked.filter((one) => one.kind === kind && one.id === asks);
const runsOf = ({ automation, event }: Cause) =>
  query("select * from data.agent_routine_runs where automation_id = $1 and event_id = $2", automation, event);

/** The run of a cause, once it has ended: what nobody knows of `once`, a person judges. */
async function ended(cause: Cause) {
  const [run] = await runsOf(cause);
  if (!run || ["completed", "failed"].includes(run.status)) return run ?? null;
  const at = `/api/v1/automation_runs/${run.id}/commands`;
  const [command] = (await stage.ask("GET", `${at}?outcome[]=unknown`)).body.data;
  if (!command) return null;
  expect(cause.method).toBe("post");
  const judged = { outcome: "happened", result: cause.asks };
  expect([200, 409]).toContain((await stage.ask("POST", `${at}/${command.id}/resolve`, judged)).status);
  return null;
}

async function killed(all: Cause[]) {
  stage.kill();
  stage.database.letGo();
  await stage.isUp();
  // As if the sweep had come ten seconds later.
  await query("update data.events set created_at = now() - interval '11 seconds' where sequence is null");
  await stage.own.fireCrons();
  for (const cause of all) {
    const run = await until(`${cause.method} ${cause.event} has a run that ends`, () => ended(cause), 60_000);
    expect([cause.method, run.status, run.result]).toEqual([cause.method, "completed", { value: cause.asks }]);
    expect(await runsOf(cause)).toHaveLength(1);
    const asked = askedOf(cause);
    if (cause.method === "post") expect(asked.length).toBeLessThanOrEqual(1);
    else expect(asked.length).toBeGreaterThanOrEqual(1);
    if (cause.method === "put") expect(new Set(asked.map(({ key }) => key)).size).toBe(1);
  }
  const [numbered] = await query(
    `select max(sequence)::int as last, count(distinct sequence)::int as n, count(sequence)::int as all
       from data.events where org_id = $1`,
    stage.app.acme,
  );
  expect([numbered.n, numbered.all]).toEqual([numbered.last, numbered.last]);
}

describe("killed with -9, every event has one run of its automation", { timeout: 200_000 }, () => {
  const held: [string, RegExp][] = [
    ["while it is numbered", /\bapp\.number_events\b/],
    ["while it is handed on", /\binsert into "data"\."agent_routine_runs"/],
    ["before its cursor moves", /\bupdate "data"\."event_heads"[^;]*"delivered"/],
    ["before its run is admitted", /\bupdate\b.*\bagent_routine_runs\b.*\badmitted_at\b/is],
    ["before Postgres hears of its run's end", /\bupdate\b.*\bagent_routine_runs\b.*"sequence" <=/is],
  ];
  it.each(ROUNDS.flatMap((round) => held.map(([name, statement]) => [name, round, statement] as const)))(
    "%s (%i)",
    async (_, round, statement) => {
      stage.database.hold(statement);
      const all = await causes("act");
      await until("it is being written", () => (stage.database.waiting() ? true : null));
      await wait(round * 10);
      await killed(all);
    },
  );

  it.each(ROUNDS)("around an entry of its journal (%i)", async () => {
    const all = await causes("act");
    await until("one has asked", () => (all.some((cause) => askedOf(cause).length) ? true : null));
    await wait(Math.random() * 20);
    await killed(all);
  });

  it.each(ROUNDS)("while what it sent is unanswered (%i)", async () => {
    const all = await causes("hold");
    await until("one is sent", () => (stage.endpoint.held() ? true : null));
    const letGo = setInterval(() => stage.endpoint.letGo(), 200);
    await killed(all).finally(() => clearInterval(letGo));
  });
});

describe("killed with -9 over its instant, a scheduled automation is done once", { timeout: 200_000 }, () => {
  it.each(ROUNDS)("while it is claimed (%i)", async (round) => {
    const script = await config("Script", "1");
    const said = { name: "A", config_ref: script, schedule: "0 0 1 1 *" };
    const at = `/api/v1/config/${await config("Automation", JSON.stringify(said), "application/json")}`;
    const id = at.split("/").at(-1)!;
    const planned = () => query("select from data.automations where id = $1 and next_run_at is not null", id);
    await until("it is planned", async () => (await planned())[0] ?? null);
    await query("update data.automations set next_run_at = now() where id = $1", id);
    stage.database.hold(/\bupdate\b.*\bautomations\b.*\binto\b.*\boccurrences\b/is);
    const again = { mime_type: "application/json", raw_content: JSON.stringify({ ...said, name: "B" }) };
    await must(stage.ask("PATCH", at, again), 200);
    await until("it is being claimed", () => (stage.database.waiting() ? true : null));
    await wait(round * 10);
    stage.kill();
    stage.database.letGo();
    await stage.isUp();
    const runs = () => query("select id, status from data.agent_routine_runs where automation_id = $1", id);
    await until("it is claimed", async () => (await runs())[0] ?? null, 60_000);
    // As if the sweep had come a minute later.
    await query(
      "update data.agent_routine_runs set look_at = now() - interval '1 second' where automation_id = $1",
      id,
    );
    await stage.own.fireCrons();
    await until("it has run", async () => (await runs()).some(({ status }) => status === "completed") || null, 60_000);
    const occurrences = await query("select outcome, run_id from data.occurrences where automation_id = $1", id);
    expect(occurrences).toEqual([{ outcome: "fired", run_id: (await runs())[0].id }]);
    expect(await runs()).toHaveLength(1);
  });
});
