/** Two who claim the same occurrence, on a database where that is a race: one does. */
import { CompiledQuery } from "kysely";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { mac } from "../../lib/auth/secrets.ts";
import { connect } from "../../lib/db/neon.ts";
import { NONE } from "../../lib/db/schema.ts";
import { TenantDb } from "../../lib/db/tenant-db.ts";
import { newId } from "../../lib/ids.ts";
import { claim, look } from "../../lib/occurrences/claim.ts";
import { judge } from "../../lib/occurrences/judge.ts";
import { openDatabase } from "../harness/database.ts";
import { system, together } from "../harness/index.ts";
import { type Own, ownSystem } from "../harness/own.ts";

let own: Own;
beforeAll(async () => {
  if (system.concurrent) own = await ownSystem(openDatabase());
});
afterAll(() => own?.close());

/** A place with a schedule of which five occurrences are due, and its database, as an object has it. */
async function start(fields: Record<string, unknown>) {
  const { app_id: app } = await own.newApp();
  const [agent, id] = [newId("agent"), newId("agent_schedule")];
  const next = new Date(Math.floor(Date.now() / 3_600_000) * 3_600_000 - 4 * 3_600_000).toISOString();
  await own.database.query(
    "insert into data.agents (id, app_id, sandbox_id, org_id, name) values ($1, $2, '-', '-', 'Ada')",
    [agent, app],
  );
  const row = {
    ...{ overlap: "allow_all", catchup: "all", catchup_window_seconds: 86_400, max_runs: null },
    ...fields,
  };
  await own.database.query(
    `insert into data.agent_schedules (id, app_id, sandbox_id, org_id, agent_id, schedule_type, cron_expression, timezone,
       instructions, next_run_at, overlap, catchup, catchup_window_seconds, max_runs)
     values ($1, $2, '-', '-', $3, 'recurring', '0 * * * *', 'UTC', 'Go.', $4, $5, $6, $7, $8)`,
    [id, app, agent, next, row.overlap, row.catchup, row.catchup_window_seconds, row.max_runs] as never,
  );
  const tag = await mac(own.root, ["object", app, NONE, NONE].join("."), "door");
  const enter = CompiledQuery.raw("select app.enter_object($1, $2, $3, $4)", [app, NONE, NONE, tag]);
  const none = () => {};
  const door = { enter, permission: "self", viewer: { kind: "object" as const }, onTold: none };
  const db = new TenantDb(connect(own.url), door, { kind: "org", app, sandbox: NONE, org: NONE }, "write");
  const counts = async () => {
    const [found] = await own.database.query<Record<string, number>>(
      `select (select run_count from data.agent_schedules where id = $1) as ran,
         (select count(*)::int from data.agent_sessions where schedule_id = $1) as sessions,
         (select count(*)::int from data.occurrences where schedule_id = $1 and outcome = 'fired') as fired,
         (select count(distinct session_id)::int from data.occurrences where schedule_id = $1) as linked,
         (select count(*)::int from data.events where app_id = $2 and name = 'agent_session.created') as told`,
      [id, app],
    );
    return found!;
  };
  return { db, counts };
}

describe.runIf(system.concurrent)("many who claim at once", { timeout: 60_000 }, () => {
  it("what all of them have seen due begins once", async () => {
    const { db, counts } = await start({});
    const now = Date.now();
    const found = await look(db, now);
    const begun = await together(10, async () => (await claim(db, judge(found, now, false))).sessions.length);
    expect(begun.toSorted()).toEqual([...Array(9).fill(0), 5]);
    expect(await counts()).toEqual({ ran: 5, sessions: 5, fired: 5, linked: 5, told: 5 });
  });

  it("run no more than max_runs", async () => {
    const { db, counts } = await start({ max_runs: 3 });
    await together(10, async () => claim(db, judge(await look(db, Date.now()), Date.now(), false)));
    expect(await counts()).toEqual({ ran: 3, sessions: 3, fired: 3, linked: 3, told: 3 });
    expect((await look(db, Date.now())).agent_schedule).toEqual([]);
  });

  it("begin what waits once", async () => {
    const { db, counts } = await start({ overlap: "buffer_all" });
    await claim(db, judge(await look(db, Date.now()), Date.now(), false));
    expect(await counts()).toMatchObject({ ran: 5, sessions: 1 });
    await own.database.query(
      "update data.agent_sessions set status = 'cancelled', completed_at = now() where status = 'pending'",
    );
    const found = await look(db, Date.now());
    await together(10, () => claim(db, judge(found, Date.now(), false)));
    expect(await counts()).toMatchObject({ ran: 5, sessions: 2, fired: 2, linked: 2 });
  });
});
