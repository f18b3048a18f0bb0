/** Schedules and what comes of them, through the front door: each occurrence has its row, and what began with it. */
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { typeOf } from "../../lib/events/catalogue.ts";
import { newId } from "../../lib/ids.ts";
import { jitterOf } from "../../lib/schedules/clock.ts";
import { pull } from "../events/stage.ts";
import { type App, anAgent, anApp, type Call, must, sql, together } from "../harness/index.ts";
import { instructionsOf, until } from "../sessions/stage.ts";

const MINUTE = 60_000;
const WORKS = instructionsOf({ text: "Done." });
/** It goes on until somebody approves: what it says is never sent. */
const STAYS = instructionsOf({ text: "Done.", delay_ms: 600_000 });
const hourly = { schedule_type: "recurring", cron_expression: "0 * * * *", instructions: WORKS };

/** An agent of a fresh app whose model is scripted, and its schedules. */
async function start() {
  const made: App = await anApp();
  const call: Call = made.as(made.acme);
  const agent = await anAgent(call, { model: "scripted/script" });
  const schedules = `/api/v1/agents/${agent.id}/schedules`;
  const make = (body: object = hourly) => must(call("POST", schedules, body), 200);
  const get = (id: string) => must(call("GET", `${schedules}/${id}`), 200);
  const to = (id: string, verb: string, body?: object) => call("POST", `${schedules}/${id}/${verb}`, body);
  const occurrences = async (id: string): Promise<any[]> =>
    (await must(call("GET", `${schedules}/${id}/occurrences?limit=100`), 200)).data;
  /** Waits until the occurrences, the oldest planned first, have these outcomes. */
  const become = (id: string, ...outcomes: string[]) =>
    until(
      `${id}: ${outcomes}`,
      async () => {
        const all = (await occurrences(id)).sort((a, b) => (a.planned_at < b.planned_at ? -1 : 1));
        return String(all.map(({ outcome }) => outcome)) === String(outcomes) ? all : null;
      },
      20_000,
    );
  const session = (id: string) => must(call("GET", `/api/v1/agent_sessions/${id}`), 200);
  const ends = (id: string) =>
    until(`${id} ends`, async () => ((await session(id)).completed_at ? session(id) : null), 20_000);
  /** Sets the instant that comes next, as if it had been planned so; a change wakes the Scheduler. */
  const plan = async (id: string, next: string) => {
    await sql(`update data.agent_schedules set next_run_at = ${next} where id = $1`, [id]);
    await must(call("PATCH", `${schedules}/${id}`, { metadata: { at: next } }), 200);
  };
  return { ...made, agent, call, schedules, make, get, to, occurrences, become, session, ends, plan };
}
const once = (ms: number, fields: object = {}) => ({
  ...{ schedule_type: "once", scheduled_at: new Date(Date.now() + ms).toISOString(), instructions: WORKS },
  ...fields,
});

const named = async (call: Call, names: string[]) =>
  (await pull(call)).events.filter(({ event_name }: any) => names.includes(event_name));

describe("a schedule that comes once", () => {
  it("fires at its instant, once, with its row and a session that does what it says", async () => {
    const { make, become, get, ends, agent } = await start();
    const made = await make(once(1_500));
    const [fired, ...more] = await become(made.id, "fired");
    expect(more).toEqual([]);
    expect(fired).toMatchObject({ schedule: made.id, routine: null, run: null, agent: agent.id });
    expect(Date.parse(fired.planned_at)).toBe(Date.parse(made.scheduled_at));
    expect(Date.parse(fired.fired_at)).toBeGreaterThanOrEqual(Date.parse(made.scheduled_at));
    expect(Date.parse(fired.fired_at)).toBeLessThan(Date.parse(made.scheduled_at) + 5_000);
    expect(await ends(fired.session)).toMatchObject({
      status: "completed",
      result: { output: "Done." },
      agent: agent.id,
    });
    expect(await get(made.id)).toMatchObject({ status: "completed", run_count: 1, next_run_at: null });
    expect((await get(made.id)).last_run_at).toBe(fired.fired_at);
  });
});

const HOUR = 60 * MINUTE;
/** The beginning of this hour, and of those before it, as the text of an instant, and as SQL. */
const hoursAgo = (n: number) => new Date(Math.floor(Date.now() / HOUR) * HOUR - n * HOUR).toISOString();
const at = (instant: string) => `'${instant}'::timestamptz`;
/** The instants of every hour between two, both included. */
const each = (from: number, to: number) => Array.from({ length: from - to + 1 }, (_, i) => hoursAgo(from - i));
const instants = (rows: any[]) => rows.map(({ planned_at }) => new Date(planned_at).toISOString());
const week = { catchup_window_seconds: 604_800 };

describe("a schedule that recurs", () => {
  it("goes on from the instant it was planned for, and counts what began", async () => {
    const { make, plan, become, get } = await start();
    const { id } = await make({ ...hourly, ...week });
    await plan(id, at(hoursAgo(0)));
    const [fired] = await become(id, "fired");
    expect(instants([fired])).toEqual([hoursAgo(0)]);
    const { run_count, next_run_at, status } = await get(id);
    expect([run_count, new Date(next_run_at).toISOString(), status]).toEqual([1, hoursAgo(-1), "active"]);
  });

  it("catches up the latest that nobody was there for, within its window; the others are missed", async () => {
    const { make, plan, become } = await start();
    const { id } = await make({ ...hourly, ...week });
    await plan(id, at(hoursAgo(3)));
    expect(instants(await become(id, "missed", "missed", "missed", "fired"))).toEqual(each(3, 0));
  });

  it("catches up none, or all that lie in its window, if it says so", async () => {
    const { make, plan, become } = await start();
    const none = await make({ ...hourly, ...week, catchup: "none" });
    const all = await make({ ...hourly, catchup: "all", overlap: "allow_all", catchup_window_seconds: 3 * 3600 });
    await plan(none.id, at(hoursAgo(2)));
    await plan(all.id, at(hoursAgo(4)));
    await become(none.id, ...Array(2).fill("missed"), new Date().getUTCMinutes() ? "missed" : "fired");
    await become(all.id, "missed", "missed", "fired", "fired", "fired");
  });

  it("is completed by the last of max_runs, which is exact, and stays so", async () => {
    const { make, plan, become, get, to } = await start();
    const { id } = await make({ ...hourly, ...week, catchup: "all", overlap: "allow_all", max_runs: 2 });
    await plan(id, at(hoursAgo(3)));
    await become(id, "fired", "fired");
    expect(await get(id)).toMatchObject({ status: "completed", run_count: 2, next_run_at: null });
    for (const verb of ["pause", "resume", "cancel", "run"]) expect((await to(id, verb, {})).status).toBe(422);
  });

  it("that has run as often as it may holds up no other", async () => {
    const { make, plan, become, get, occurrences } = await start();
    const [over, other] = [await make({ ...hourly, max_runs: 3 }), await make({ ...hourly, ...week })];
    await sql("update data.agent_schedules set run_count = 3, next_run_at = $2 where id = $1", [over.id, hoursAgo(1)]);
    await plan(other.id, at(hoursAgo(0)));
    await become(other.id, "fired");
    expect(await get(over.id)).toMatchObject({ status: "completed", run_count: 3, next_run_at: null });
    expect(await occurrences(over.id)).toEqual([]);
  });

  it("is due later by its jitter, and shows the instant that it was planned for", async () => {
    const { make, get } = await start();
    const { id, next_run_at } = await make({ ...hourly, jitter_seconds: 3600 });
    const [{ late }] = await sql(
      "select extract(epoch from due_at - next_run_at)::int as late from data.agent_schedules where id = $1",
      [id],
    );
    expect(late).toBe(jitterOf(id, Date.parse(next_run_at), 3600) / 1000);
    expect((await get(id)).next_run_at).toBe(next_run_at);
  });
});

it("is due when both the Worker and the database say so", async () => {
  const asked = Array.from({ length: 200 }, (_, i) => ({
    ...{
      id: newId("agent_schedule"),
      at: new Date(Math.floor(i * 1e10 * Math.PI)).toISOString(),
      seconds: (i * 37) % 3601,
    },
  }));
  const rows = await sql(
    `select extract(epoch from app.due_at(id, at, seconds) - at)::int as late
     from rows from (jsonb_to_recordset($1::jsonb) as (id text, at timestamptz, seconds integer))
       with ordinality as a (id, at, seconds, n) order by n`,
    [JSON.stringify(asked)],
  );
  expect(rows.map(({ late }) => late * 1000)).toEqual(
    asked.map(({ id, at, seconds }) => jitterOf(id, Date.parse(at), seconds)),
  );
});

describe("what meets another that is under way", () => {
  /** A schedule of which one was begun by hand, and goes on and on; then come those of this hour and of some before. */
  async function meet(overlap: string, n: number) {
    const started = await start();
    const { make, plan, become, to } = started;
    const made = await make({ ...hourly, ...week, overlap, instructions: STAYS, catchup: "all" });
    await must(to(made.id, "run", {}), 200);
    const [first] = await become(made.id, "fired");
    await plan(made.id, at(hoursAgo(n - 1)));
    return { ...started, id: made.id as string, first };
  }

  it("is skipped", async () => {
    const { become, id } = await meet("skip", 2);
    await become(id, "skipped_overlap", "skipped_overlap", "fired");
  });

  it("waits as one of one, and begins when the other has ended", async () => {
    const { become, id, first, call, session, get } = await meet("buffer_one", 2);
    const [waiting] = await become(id, "buffered", "skipped_overlap", "fired");
    expect(waiting).toMatchObject({ fired_at: null, session: null });
    await must(call("POST", `/api/v1/agent_sessions/${first.session}/cancel`), 200);
    const [fired] = await become(id, "fired", "skipped_overlap", "fired");
    expect(Date.parse(fired.fired_at)).toBeGreaterThan(Date.parse(first.fired_at));
    expect((await session(fired.session)).id).not.toBe(first.session);
    expect((await get(id)).run_count).toBe(1);
  });

  it("waits in line", async () => {
    const { become, id, first, call } = await meet("buffer_all", 2);
    await become(id, "buffered", "buffered", "fired");
    await must(call("POST", `/api/v1/agent_sessions/${first.session}/cancel`), 200);
    const [second] = await become(id, "fired", "buffered", "fired");
    await must(call("POST", `/api/v1/agent_sessions/${second.session}/cancel`), 200);
    await become(id, "fired", "fired", "fired");
  });

  it("ends it, and but for the last is ended before it begins", async () => {
    const { become, id, first, session, ends } = await meet("cancel_other", 2);
    const [, fired] = await become(id, "cancelled", "fired", "fired");
    expect(await ends(first.session)).toMatchObject({ status: "cancelled" });
    expect((await session(fired.session)).completed_at).toBeNull();
  });

  it("begins beside it", async () => {
    const { become, id, first, session } = await meet("allow_all", 2);
    await become(id, "fired", "fired", "fired");
    expect((await session(first.session)).completed_at).toBeNull();
  });

  it("never begins where its schedule is cancelled meanwhile", async () => {
    const { become, id, to } = await meet("buffer_all", 2);
    await become(id, "buffered", "buffered", "fired");
    await must(to(id, "cancel"), 200);
    await become(id, "cancelled", "cancelled", "fired");
  });
});

describe("a schedule that is held back", () => {
  it("that comes once and is paused over its instant plans nothing, and has expired", async () => {
    const { make, to, get, occurrences, call, schedules } = await start();
    const { id } = await make(once(1_500));
    const paused = await must(to(id, "pause"), 200);
    expect(paused).toMatchObject({ status: "paused", next_run_at: null });
    expect((await must(call("GET", `${schedules}/${id}/upcoming`), 200)).data).toEqual([]);
    const expired = await until("it expires", async () => {
      const now = await get(id);
      return now.status === "paused" ? null : now;
    });
    expect(expired).toMatchObject({ status: "expired", next_run_at: null, last_run_at: null, run_count: 0 });
    expect(Date.parse(expired.updated_at)).toBeGreaterThanOrEqual(Date.parse(paused.scheduled_at));
    expect(await occurrences(id)).toEqual([]);
    await expect.poll(() => named(call, ["agent_schedule.expired"])).toMatchObject([{ payload: { id } }]);
    const { status, body } = await to(id, "resume");
    expect([status, body.error.code]).toEqual([422, "schedule_ended"]);
  });

  it("paused and resumed, comes from then on", async () => {
    const { make, to, become, get } = await start();
    const { id } = await make(once(3_000));
    await must(to(id, "pause"), 200);
    expect(await must(to(id, "resume"), 200)).toMatchObject({ status: "active" });
    await become(id, "fired");
    expect((await get(id)).run_count).toBe(1);
  });

  it("that comes once is expired beyond its window, and its instant missed", async () => {
    const { make, plan, become, get } = await start();
    const { id } = await make(once(HOUR, { catchup_window_seconds: 60 }));
    await plan(id, "now() - interval '61 seconds'");
    await become(id, "missed");
    expect(await get(id)).toMatchObject({ status: "expired", run_count: 0, next_run_at: null });
  });

  it("of a suspended org has its rows, starts nothing, and catches nothing up", async () => {
    const { make, plan, become, at: developer, acme, asDeveloper, occurrences } = await start();
    const { id } = await make({ ...hourly, ...week, catchup: "all" });
    await sql("update data.agent_schedules set next_run_at = $2 where id = $1", [id, hoursAgo(1)]);
    const suspend = (status: string) => must(asDeveloper("PATCH", `${developer}/orgs/${acme}`, { status }), 200);
    await suspend("suspended");
    // The sweep, or another's wake, finds it: here the app's own key.
    const agent = (await sql("select agent_id from data.agent_schedules where id = $1", [id]))[0].agent_id;
    await must(asDeveloper("PATCH", `/api/v1/agents/${agent}/schedules/${id}`, { metadata: { a: 1 } }), 200);
    await until("its rows are there", async () => {
      const rows = await sql("select outcome, session_id from data.occurrences where schedule_id = $1", [id]);
      return (
        (rows.length === 2 && rows.every(({ outcome, session_id }) => outcome === "suspended" && !session_id)) || null
      );
    });
    await suspend("active");
    await plan(id, "next_run_at");
    expect((await occurrences(id)).map(({ outcome }) => outcome)).toEqual(["suspended", "suspended"]);
    await become(id, "suspended", "suspended");
  });

  it("of an agent that is deleted at its instant starts nothing", async () => {
    const { make, call, agent } = await start();
    const { id } = await make(once(700));
    await must(call("DELETE", `/api/v1/agents/${agent.id}`), 204);
    await new Promise((done) => setTimeout(done, 1_500));
    expect(await sql("select from data.occurrences where schedule_id = $1", [id])).toEqual([]);
    expect(await sql("select from data.agent_sessions where schedule_id = $1", [id])).toEqual([]);
  });
});

describe("POST …/run", () => {
  it("starts one more, which counts nothing towards max_runs, also of one that is paused", async () => {
    const { make, to, become, get, ends } = await start();
    const { id } = await make({ ...hourly, max_runs: 1 });
    await must(to(id, "pause"), 200);
    const asked = await must(to(id, "run", {}), 200);
    const [fired] = await become(id, "fired");
    expect(fired).toEqual(asked);
    expect(await ends(fired.session)).toMatchObject({ status: "completed" });
    expect(await get(id)).toMatchObject({ status: "paused", run_count: 0 });
  });

  it("obeys the schedule's overlap unless the body says otherwise", async () => {
    const { make, to, become } = await start();
    const { id } = await make({ ...hourly, instructions: STAYS });
    await must(to(id, "run", {}), 200);
    await become(id, "fired");
    await must(to(id, "run", {}), 200);
    await become(id, "fired", "skipped_overlap");
    await must(to(id, "run", { overlap: "allow_all" }), 200);
    await become(id, "fired", "skipped_overlap", "fired");
    await must(to(id, "run", { overlap: "buffer_one" }), 200);
    await become(id, "fired", "skipped_overlap", "fired", "buffered");
    await must(to(id, "run", { overlap: "buffer_one" }), 200);
    await become(id, "fired", "skipped_overlap", "fired", "buffered", "skipped_overlap");
  });

  it("is refused where a thousand wait: 422", async () => {
    const { make, to } = await start();
    const { id } = await make({ ...hourly, instructions: STAYS, overlap: "buffer_all" });
    await must(to(id, "run", {}), 200);
    await sql(
      `insert into data.occurrences (id, app_id, sandbox_id, org_id, agent_id, schedule_id, planned_at, outcome, overlap)
       select 'occ_' || lpad(n::text, 22, '0'), app_id, sandbox_id, org_id, agent_id, id, now() + n * interval '1 minute',
           'buffered', 'buffer_all'
         from data.agent_schedules, generate_series(1, 999) n where id = $1`,
      [id],
    );
    expect((await must(to(id, "run", {}), 200)).outcome).toBe("buffered");
    const { status, body } = await to(id, "run", {});
    expect([status, body.error.code]).toEqual([422, "limit_reached"]);
  });

  it("is one for a key, however often it is sent", async () => {
    const { make, call, schedules, become } = await start();
    const { id } = await make();
    const run = () => call("POST", `${schedules}/${id}/run`, {}, { "Idempotency-Key": "one" });
    const answers = await together(3, run);
    expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1);
    await become(id, "fired");
  });
});

describe("POST …/backfill", () => {
  it("fills in what lies between two instants, in order, one at a time where the body says so", async () => {
    const { make, to, become, get, call } = await start();
    const { id } = await make();
    const { data } = await must(to(id, "backfill", { from: hoursAgo(3), to: hoursAgo(1), overlap: "buffer_all" }), 200);
    expect(instants(data)).toEqual(each(3, 1));
    expect(data.map(({ outcome }: any) => outcome)).toEqual(Array(3).fill("backfilled"));
    const rows = await until("all have begun", async () => {
      const all = await become(id, ...Array(3).fill("backfilled"));
      return all.every(({ fired_at }) => fired_at) ? all : null;
    });
    const begun = await Promise.all(
      rows.map(({ session }) => must(call("GET", `/api/v1/agent_sessions/${session}`), 200)),
    );
    expect(new Set(begun.map((one) => one.id)).size).toBe(3);
    const order = begun.map((one) => one.created_at);
    expect(order).toEqual(order.toSorted());
    expect(await get(id)).toMatchObject({ run_count: 0 });
  });

  it("leaves what has begun as it is, and brings back what came to nothing", async () => {
    const { make, to, plan, become } = await start();
    const { id } = await make({ ...hourly, ...week });
    await plan(id, at(hoursAgo(1)));
    const [, before] = await become(id, "missed", "fired");
    const range = { from: hoursAgo(2), to: hoursAgo(0), overlap: "allow_all" };
    const first = await must(to(id, "backfill", range), 200);
    expect(first.data.map(({ outcome }: any) => outcome)).toEqual(["backfilled", "backfilled", "fired"]);
    const after = await until("all have begun", async () => {
      const all = await become(id, "backfilled", "backfilled", "fired");
      return all.every(({ fired_at }) => fired_at) ? all : null;
    });
    expect(after[2]).toEqual(before);
    const again = await must(to(id, "backfill", range), 200);
    expect(again.data).toEqual(after);
  });

  it("is one for a key, also where the first of its instants has its row", async () => {
    const { make, plan, become, call, schedules } = await start();
    const { id } = await make({ ...hourly, ...week, instructions: STAYS });
    await plan(id, at(hoursAgo(2)));
    await become(id, "missed", "missed", "fired");
    await sql("delete from data.occurrences where schedule_id = $1 and planned_at = $2", [id, hoursAgo(1)]);
    const body = { from: hoursAgo(2), to: hoursAgo(1) };
    const fill = () => call("POST", `${schedules}/${id}/backfill`, body, { "Idempotency-Key": "one" });
    await must(fill(), 200);
    await become(id, "skipped_overlap", "skipped_overlap", "fired");
    expect((await fill()).headers.get("Idempotent-Replayed")).toBe("true");
  });

  it("brings what came to nothing and what never was, as many as may wait together; or nothing at all", async () => {
    const { make, to } = await start();
    const { id } = await make({ ...hourly, instructions: STAYS, overlap: "buffer_all" });
    // As if it had been planned by another pattern, too: each minute of ten hours.
    const missed = (n: number) =>
      sql(
        `insert into data.occurrences (id, app_id, sandbox_id, org_id, agent_id, schedule_id, planned_at, outcome, overlap)
         select 'occ_' || lpad(n::text, 22, '0'), app_id, sandbox_id, org_id, agent_id, id,
             $2::timestamptz + n * interval '1 minute', 'missed', 'buffer_all'
           from data.agent_schedules, generate_series(1, $3::int) n where id = $1`,
        [id, hoursAgo(400), n],
      );
    await missed(650);
    const range = { from: hoursAgo(1), to: hoursAgo(0) };
    // Ten of these hours have their rows already.
    const over = await to(id, "backfill", { ...range, from: hoursAgo(400) });
    expect([over.status, over.body.error.code]).toEqual([422, "limit_reached"]);
    const outcomes = async () =>
      sql("select outcome, count(*)::int as n from data.occurrences where schedule_id = $1 group by 1", [id]);
    expect(await outcomes()).toEqual([{ outcome: "missed", n: 650 }]);
    await sql("delete from data.occurrences where schedule_id = $1 and planned_at > $2", [id, hoursAgo(395)]);
    await must(to(id, "backfill", { ...range, from: hoursAgo(400) }), 200);
    // 300 minutes, of which five are hours, and the 396 hours that are none of these.
    expect(await outcomes()).toEqual([{ outcome: "backfilled", n: 300 + 396 }]);
  });

  it.each<[string, object, string]>([
    ["more than a thousand", { from: hoursAgo(1010), to: hoursAgo(0) }, "from"],
    ["what is to come", { from: hoursAgo(1), to: hoursAgo(-2) }, "to"],
    ["an end before its beginning", { from: hoursAgo(1), to: hoursAgo(2) }, "to"],
    ["what is long gone", { from: "2020-01-01T00:00:00Z", to: hoursAgo(0) }, "from"],
  ])("refuses %s", async (_, body, field) => {
    const { make, to } = await start();
    const { id } = await make();
    const { status, body: refusal } = await to(id, "backfill", body);
    expect([status, refusal.error.fields[0].field]).toEqual([422, field]);
  });
});

describe("GET …/upcoming", () => {
  it("says what comes next, on the clock of its place, and no more than may come", async () => {
    const { make, call, schedules } = await start();
    const body = {
      cron_expression: "30 9 * * *",
      timezone: "Asia/Kolkata",
      schedule_type: "recurring",
      instructions: "x",
    };
    const { id, next_run_at } = await make(body);
    const { data } = await must(call("GET", `${schedules}/${id}/upcoming?count=3`), 200);
    expect(data).toHaveLength(3);
    expect(Date.parse(data[0].planned_at)).toBe(Date.parse(next_run_at));
    for (const { planned_at, local } of data) {
      expect(local).toMatch(/T09:30:00\+05:30$/);
      expect(Date.parse(local)).toBe(Date.parse(planned_at));
    }
    const few = await make({ ...body, max_runs: 2 });
    expect((await must(call("GET", `${schedules}/${few.id}/upcoming`), 200)).data).toHaveLength(2);
    expect((await must(call("GET", `${schedules}/${id}/upcoming`), 200)).data).toHaveLength(10);
    expect((await call("GET", `${schedules}/${id}/upcoming?count=101`)).status).toBe(422);
  });
});

describe("GET …/occurrences", () => {
  it("is paged, newest first", async () => {
    const { make, plan, become, call, schedules } = await start();
    const { id } = await make({ ...hourly, ...week });
    await plan(id, at(hoursAgo(4)));
    const all = await become(id, "missed", "missed", "missed", "missed", "fired");
    const seen: any[] = [];
    for (let cursor = ""; ; ) {
      const page = await must(call("GET", `${schedules}/${id}/occurrences?limit=2${cursor}`), 200);
      expect(page.data.length).toBeLessThanOrEqual(2);
      seen.push(...page.data);
      if (!page.before_cursor) break;
      cursor = `&before_cursor=${page.before_cursor}`;
    }
    expect(seen).toEqual(all.toReversed());
  });
});

describe("a routine's schedule", () => {
  const routine = { name: "R", handler_type: "script", script: "1", status: "active", schedule: "0 * * * *" };
  async function aRoutine(cron: object = week, fields: object = {}) {
    const started = await start();
    const { call, agent } = started;
    const event_config = { "schedule.cron": cron };
    const body = { ...routine, event_config, ...fields };
    const { id } = await must(call("POST", `/api/v1/agents/${agent.id}/agent_routines`, body), 200);
    const at = `/api/v1/agent_routines/${id}`;
    const next = () =>
      until("it is planned", async () => {
        const [row] = await sql("select next_run_at from data.agent_routines where id = $1", [id]);
        return row.next_run_at ? new Date(row.next_run_at).toISOString() : null;
      });
    const occurrences = async (): Promise<any[]> => (await must(call("GET", `${at}/occurrences`), 200)).data;
    const become = (...outcomes: string[]) =>
      until(`${id}: ${outcomes}`, async () => {
        const all = (await occurrences()).sort((a, b) => (a.planned_at < b.planned_at ? -1 : 1));
        return String(all.map(({ outcome }) => outcome)) === String(outcomes) ? all : null;
      });
    /** Plans it for an instant; a change wakes the Scheduler. */
    const plan = async (instant: string) => {
      await next();
      await sql("update data.agent_routines set next_run_at = $2 where id = $1", [id, instant]);
      await must(call("PATCH", at, { description: instant }), 200);
    };
    return { ...started, id, at, next, occurrences, become, plan };
  }

  it("makes a run at its instant, once, which says what it is of", async () => {
    const { id, call, next, plan, become } = await aRoutine({ ...week, timezone: "Asia/Kolkata" });
    // On the half hour, as they count hours there.
    expect((await next()).slice(14, 19)).toBe("30:00");
    await plan(hoursAgo(0));
    const all = await until("it has fired", async () => {
      const { data } = await must(call("GET", `/api/v1/agent_routines/${id}/occurrences`), 200);
      return data.some(({ outcome }: any) => outcome === "fired") ? data : null;
    });
    const fired = all.find(({ outcome }: any) => outcome === "fired");
    expect(fired).toMatchObject({ routine: id, schedule: null, session: null });
    const run = await must(call("GET", `/api/v1/agent_routines/runs/${fired.run}`), 200);
    expect(run).toMatchObject({ routine: id, event_id: null, payload: { schedule: routine.schedule } });
    expect(Date.parse(run.payload.planned_at)).toBe(Date.parse(fired.planned_at));
    const runs = await sql("select from data.agent_routine_runs where routine_id = $1 and planned_at = $2", [
      id,
      fired.planned_at,
    ]);
    expect(runs).toHaveLength(1);
    expect(await become(...all.map(({ outcome }: any) => outcome).toReversed())).toHaveLength(all.length);
  });

  it("comes on from its activation, and not while it is paused", async () => {
    const { id, at, call, next } = await aRoutine();
    expect(await next()).toBe(hoursAgo(-1));
    await must(call("POST", `${at}/pause`), 200);
    const planned = "select next_run_at, due_at from data.agent_routines where id = $1";
    expect(await sql(planned, [id])).toEqual([{ next_run_at: null, due_at: null }]);
    expect((await must(call("GET", `${at}/upcoming`), 200)).data).toEqual([]);
    for (const [verb, body] of [
      ["run", {}],
      ["backfill", { from: hoursAgo(2), to: hoursAgo(1) }],
    ] as const) {
      const { status, body: refusal } = await call("POST", `${at}/${verb}`, body);
      expect([status, refusal.error.code]).toEqual([422, "not_active"]);
    }
    await must(call("POST", `${at}/activate`), 200);
    expect(await next()).toBe(hoursAgo(-1));
    const { data } = await must(call("GET", `${at}/upcoming?count=2`), 200);
    expect(instants(data)).toEqual([hoursAgo(-1), hoursAgo(-2)]);
  });

  it("is planned anew where its pattern or its zone is changed", async () => {
    const { at, call, next } = await aRoutine({ timezone: "UTC" }, { schedule: "0 0 1 1 *" });
    expect((await next()).slice(4)).toBe("-01-01T00:00:00.000Z");
    const isAt = (instant: string) =>
      expect.poll(async () => (await next()).slice(4), { timeout: 10_000 }).toBe(instant);
    await must(call("PATCH", at, { schedule: "30 6 1 1 *" }), 200);
    await isAt("-01-01T06:30:00.000Z");
    await must(call("PATCH", at, { event_config: { "schedule.cron": { timezone: "Asia/Kathmandu" } } }), 200);
    await isAt("-01-01T00:45:00.000Z");
  });

  it("has its policies in event_config: 422 on what is none", async () => {
    const { at, call } = await aRoutine();
    for (const [name, value] of Object.entries({
      overlap: "sometimes",
      catchup: 1,
      jitter_seconds: 3601,
      catchup_window_seconds: 9,
    })) {
      const event_config = { "schedule.cron": { [name]: value } };
      expect([name, (await call("PATCH", at, { event_config })).status]).toEqual([name, 422]);
    }
  });

  it("makes no second run for an instant, though its row is kept no longer, and holds up no other", async () => {
    const { id, at, call } = await aRoutine(week, { script: "1" });
    const range = { from: hoursAgo(2), to: hoursAgo(1), overlap: "allow_all" };
    await must(call("POST", `${at}/backfill`, range), 200);
    await sql("delete from data.occurrences where routine_id = $1 and planned_at = $2", [id, hoursAgo(2)]);
    const { data } = await must(call("POST", `${at}/backfill`, range), 200);
    expect(instants(data)).toEqual([hoursAgo(1)]);
    const runs = "select planned_at from data.agent_routine_runs where routine_id = $1 order by 1";
    expect(instants(await sql(runs, [id]))).toEqual([hoursAgo(2), hoursAgo(1)]);
  });

  it("fills in what lies between two instants", async () => {
    const { at, call } = await aRoutine(week, { script: "1" });
    const range = { from: hoursAgo(2), to: hoursAgo(1), overlap: "allow_all" };
    const { data } = await must(call("POST", `${at}/backfill`, range), 200);
    expect(instants(data)).toEqual([hoursAgo(2), hoursAgo(1)]);
    expect(data.map(({ outcome, run }: any) => [outcome, Boolean(run)])).toEqual(Array(2).fill(["backfilled", true]));
  });

  it("tells that its time has come, as the catalogue has it", async () => {
    const { id, at, call } = await aRoutine({ ...week, timezone: "Europe/Vienna" }, { script: "1" });
    await must(call("POST", `${at}/run`, {}), 200);
    await expect.poll(async () => (await named(call, ["schedule.cron"])).length, { timeout: 15_000 }).toBe(1);
    const [{ payload }] = (await named(call, ["schedule.cron"])) as [any];
    expect(v.safeParse(typeOf("schedule.cron")!.schema, payload).issues).toBeUndefined();
    expect(payload).toMatchObject({ routine: id, timezone: "Europe/Vienna" });
  });
});

describe("how often it may come", () => {
  it("is the app's to say: 422 on the pattern", async () => {
    const { asDeveloper, at: developer, call, schedules } = await start();
    await must(asDeveloper("PATCH", developer, { settings: { min_routine_interval_seconds: 3600 } }), 200);
    const often = await call("POST", schedules, { ...hourly, cron_expression: "*/30 * * * *" });
    expect([often.status, often.body.error.fields[0].field]).toEqual([422, "cron_expression"]);
    const { id } = await must(call("POST", schedules, hourly), 200);
    const patch = { cron_expression: "*/30 * * * *", timezone: "UTC" };
    expect((await call("PATCH", `${schedules}/${id}`, patch)).status).toBe(422);
  });

  it("and so many of an org, over all its agents: 422", async () => {
    const { make, call, schedules, asDeveloper, at: developer } = await start();
    await make();
    await must(asDeveloper("PATCH", developer, { settings: { quotas: { schedules: 1 } } }), 200);
    const { status, body } = await call("POST", schedules, hourly);
    expect([status, body.error.code]).toEqual([422, "limit_reached"]);
  });
});

describe("events tell", () => {
  it("of a once that it is done, and of one whose instant is long past that it has expired", async () => {
    const { call, make, plan } = await start();
    const done = await make(once(MINUTE));
    const late = await make(once(MINUTE, { catchup_window_seconds: 10 }));
    await plan(done.id, "now()");
    await plan(late.id, "now() - interval '1 minute'");
    const names = ["agent_schedule.completed", "agent_schedule.expired"];
    await expect.poll(async () => (await named(call, names)).length, { timeout: 15_000 }).toBe(2);
    const told = (await named(call, names)).map(({ event_name, payload }: any) => [
      event_name,
      payload.id,
      payload.status,
    ]);
    expect(told.sort()).toEqual([
      ["agent_schedule.completed", done.id, "completed"],
      ["agent_schedule.expired", late.id, "expired"],
    ]);
  });
});
