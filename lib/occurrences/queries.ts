import { type RawBuilder, sql } from "kysely";
import { getChild, reachChild } from "../agents/children.ts";
import type { Overlap, Row } from "../db/schema.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { invalid, notFound, refused, unprocessable } from "../errors.ts";
import { type Id, newId } from "../ids.ts";
import type { CursorPage } from "../paging.ts";
import { localAt } from "../schedules/clock.ts";
import { MOST_WAITING } from "./plan.ts";
import { instants, type Rule, ruleOf, type Scheduled, scheduled } from "./rule.ts";
import { type Backfill, MOST_BACKFILLED, type OccurrenceRow } from "./schema.ts";

/** What has addresses for its occurrences. */
export type Reached = Exclude<Scheduled, "automation">;
export type Of<K extends Reached> = { kind: K; id: Id<K>; agent?: string | undefined };
type Ruled = Row<"agent_schedules"> | Row<"agent_routines">;

/** What waits to begin: the rows of such occurrences. */
export const waits = sql<boolean>`(occurrences.fired_at is null and occurrences.outcome in ('buffered', 'backfilled'))`;
/** What an occurrence is of, as its index has it: of a `coalesce` row-level security lets no index be asked. */
export const ofWhat = (row: string) => {
  const [schedule, routine] = [sql.ref(`${row}.schedule_id`), sql.ref(`${row}.routine_id`)];
  return sql`case when ${schedule} is not null then ${schedule} when ${routine} is not null then ${routine}
    else ${sql.ref(`${row}.automation_id`)} end`;
};
/** Of what has that id. */
export const waitingOf = (db: TenantDb, id: RawBuilder<unknown>) =>
  db
    .selectFrom("occurrences")
    .where(waits)
    .where(sql<boolean>`(${ofWhat("occurrences")}) = (${id})`);

/** Those of a schedule, or of a routine's, from a cursor on. */
export function listOccurrences<K extends Reached>(
  db: TenantDb,
  { kind, id, agent }: Of<K>,
  page: CursorPage,
): Promise<OccurrenceRow[]> {
  const of = reachChild(db, kind, id, "read", agent);
  const rows = of.db
    .selectFrom("occurrences")
    .where(sql<boolean>`${sql.ref(scheduled[kind].column)} in (${of.rows.select("id" as never)})`);
  return of.db.pageByCursor(rows, page);
}

/** One of them. 404 unless the viewer may read what it is of. */
export async function getOccurrence<K extends Reached>(
  db: TenantDb,
  { kind, id: above, agent }: Of<K>,
  id: Id<"occurrence">,
): Promise<OccurrenceRow> {
  const of = reachChild(db, kind, above, "read", agent);
  const row = of.db.selectFrom("occurrences").selectAll().where("occurrences.id", "=", id);
  return row
    .where(sql<boolean>`${sql.ref(scheduled[kind].column)} in (${of.rows.select("id" as never)})`)
    .executeTakeFirstOrThrow(() => notFound(kind)) as Promise<OccurrenceRow>;
}

const getRuled = <K extends Reached>(db: TenantDb, { kind, id, agent }: Of<K>) =>
  getChild(db, kind, id, agent) as Promise<unknown> as Promise<Ruled>;

/** What comes next, as long as nothing changes: of what is active, and no more than may come. */
export async function upcomingOf<K extends Reached>(db: TenantDb, of: Of<K>, count: number) {
  const row = await getRuled(db, of);
  const rule = ruleOf(row);
  const left = "max_runs" in row && row.max_runs !== null ? row.max_runs - row.run_count : count;
  const most = row.status === "active" ? Math.min(count, left) : 0;
  const data: { planned_at: string; local: string }[] = [];
  for (const at of instants(rule, Date.now())) {
    if (data.length >= most) break;
    data.push({ planned_at: new Date(at).toISOString(), local: localAt(at, rule.timezone) });
  }
  return data;
}

/** Whether it may be started by hand, as SQL over its row; and the refusal where it may not. */
const able: Record<Reached, { where: RawBuilder<boolean>; otherwise: () => Error }> = {
  agent_schedule: {
    where: sql`status in ('active', 'paused')`,
    otherwise: () => unprocessable("schedule_ended", "This schedule is completed, cancelled or expired: it stays so."),
  },
  agent_routine: {
    where: sql`status = 'active' and schedule is not null`,
    otherwise: () => unprocessable("not_active", "Only an active routine that has a schedule can be started so."),
  },
};

/** What an occurrence does that meets another: as the body says, or else the row above. */
const overlapOf = (kind: Reached, overlap: Overlap | null | undefined): RawBuilder<unknown> =>
  overlap
    ? sql`${overlap}`
    : kind === "agent_schedule"
      ? sql`above.overlap`
      : sql`
    coalesce(above.event_config -> 'schedule.cron' ->> 'overlap', 'skip')`;

const tooMany = () =>
  unprocessable(
    "limit_reached",
    `At most ${MOST_WAITING} occurrences of one wait at once. Let some of them come first.`,
  );

/** What a row that is made by hand has of the one above. It waits; what becomes of it, the Scheduler says. */
const madeOf = (kind: Reached) => ({
  agent_id: sql`above.agent_id`,
  [scheduled[kind].column]: sql`above.id`,
});

/** One more, now: it counts nothing towards max_runs. */
export async function runNow<K extends Reached>(
  db: TenantDb,
  of: Of<K>,
  id: Id<"occurrence">,
  overlap: Overlap | null | undefined,
): Promise<OccurrenceRow> {
  const above = reachChild(db, of.kind, of.id, "write", of.agent);
  const rows = above.rows.where(able[of.kind].where as never);
  const waiting = waitingOf(db, sql`above.id`).select(sql`count(*)`.as("n"));
  const from = sql`(${rows.selectAll()}) as above where (${waiting}) < ${MOST_WAITING}`;
  const insert = db.insertFrom("above", from, "occurrences", {
    ...{ id: sql`${id}`, ...madeOf(of.kind), planned_at: sql`clock_timestamp()` },
    ...{ outcome: sql`'buffered'`, overlap: overlapOf(of.kind, overlap) },
  });
  const { row, found } = await above.db.batch({
    row: above.db.running<OccurrenceRow>(sql`${insert} returning *`),
    found: rows.select("id" as never),
  });
  if (!row[0]) throw found.length ? tooMany() : able[of.kind].otherwise();
  return row[0];
}

/**
 * All that would have come between two instants, and what was planned there and came to nothing; what has begun, or
 * waits, is left as it is. Two round trips: only the row has the pattern, and only the Worker knows the clocks. 409 where
 * that was changed in between; 422 where more than a thousand would wait: then none does. `id` is
 * that of the first row that is made.
 */
export async function backfill<K extends Reached>(
  db: TenantDb,
  of: Of<K>,
  id: Id<"occurrence">,
  { from, to, overlap }: Backfill,
): Promise<OccurrenceRow[]> {
  const row = await getRuled(db, of);
  const items = itemsOf(ruleOf(row), from, to).map((planned_at) => ({ id: newId("occurrence"), planned_at }));
  const above = reachChild(db, of.kind, of.id, "write", of.agent);
  const own = sql.ref(scheduled[of.kind].column);
  const one = sql`1`.as("one");
  const these = db
    .selectFrom("occurrences")
    .where(sql<boolean>`${own} in (${above.rows.select("id" as never)}) and planned_at between ${from} and ${to}`);
  const nothing = these.where(sql<boolean>`outcome in ('missed', 'skipped_overlap', 'suspended', 'cancelled')`);
  const planned = db
    .selectFrom("occurrences")
    .where(sql<boolean>`${own} = above.id and occurrences.planned_at = item.planned_at`);
  // A run is kept longer than the row that says what began it.
  const begun = db
    .selectFrom("agent_routine_runs")
    .where(sql<boolean>`agent_routine_runs.routine_id = above.id and agent_routine_runs.planned_at = item.planned_at`);
  const again = db
    .updateTable("occurrences")
    .set({ outcome: "backfilled", overlap: sql`coalesce(${overlap ?? null}, overlap)` })
    .where(sql<boolean>`id in (select id from nothing) and (select fits from room)`);
  const make = db.insertFrom("above", sql`above, fresh where (select fits from room)`, "occurrences", {
    ...{ id: sql`fresh.id`, ...madeOf(of.kind), planned_at: sql`fresh.planned_at` },
    ...{ outcome: sql`'backfilled'`, overlap: overlapOf(of.kind, overlap) },
  });
  const { done, all } = await above.db.batch({
    done: above.db.running<{ unchanged: boolean; fits: boolean }>(sql`with above as (
        ${above.rows.where(able[of.kind].where as never).selectAll()}),
      nothing as (${nothing.select("id")}),
      fresh as (select case row_number() over (order by item.planned_at) when 1 then ${id} else item.id end as id,
          item.planned_at from above, jsonb_to_recordset(${JSON.stringify(items)}::jsonb) as item (id text, planned_at timestamptz)
        where not exists (${planned.select(one)}) and not exists (${begun.select(one)})),
      room as (select unchanged, unchanged and (${waitingOf(db, sql`above.id`).select(sql`count(*)`.as("n"))})
          + (select count(*) from nothing) + (select count(*) from fresh) <= ${MOST_WAITING} as fits
        from above, lateral (select above.updated_at = ${row.updated_at}::timestamptz as unchanged) seen),
      again as (${again as unknown as RawBuilder<unknown>}),
      made as (${make} on conflict do nothing)
      select unchanged, fits from room`),
    all: these.selectAll().orderBy("planned_at").limit(MOST_BACKFILLED),
  });
  if (!done[0]) throw able[of.kind].otherwise();
  if (!done[0].unchanged) throw refused("schedule_changed", "This was changed while it was being read. Try again.");
  if (!done[0].fits) throw tooMany();
  return all as OccurrenceRow[];
}

/** The instants of a rule from one to another. */
function itemsOf(rule: Rule, from: string, to: string): string[] {
  const items: string[] = [];
  for (const at of instants(rule, Date.parse(from) - 1)) {
    if (at > Date.parse(to)) break;
    if (items.length >= MOST_BACKFILLED) {
      throw invalid({
        field: "from",
        message: `is too far from to: at most ${MOST_BACKFILLED} occurrences lie between`,
      });
    }
    items.push(new Date(at).toISOString());
  }
  return items;
}

/** What a range of a schedule, or of a routine's, holds: what a backfill that was sent again is answered. */
export async function occurrencesBetween<K extends Reached>(
  db: TenantDb,
  { kind, id, agent }: Of<K>,
  { from, to }: Backfill,
): Promise<OccurrenceRow[]> {
  const of = reachChild(db, kind, id, "read", agent);
  const { there, found } = await of.db.batch({
    there: of.rows.select("id" as never),
    found: of.db
      .selectFrom("occurrences")
      .selectAll()
      .where(sql<boolean>`${sql.ref(scheduled[kind].column)} in (${of.rows.select("id" as never)})`)
      .where(sql<boolean>`planned_at between ${from} and ${to}`)
      .orderBy("planned_at")
      .limit(MOST_BACKFILLED),
  });
  if (!there[0]) throw notFound(kind);
  return found as OccurrenceRow[];
}
