import { sql } from "kysely";
import { createChild, reachChild, updateChild } from "../agents/children.ts";
import type { ScheduleStatus } from "../db/schema.ts";
import { mustHold } from "../db/statements.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { invalid, notFound, refused, unprocessable } from "../errors.ts";
import type { Id } from "../ids.ts";
import { nextOccurrence, parseCron, shortestInterval } from "./clock.ts";
import { type CreateSchedule, IN_FUTURE, type ScheduleRow, type UpdateSchedule } from "./schema.ts";

export const UTC = "Etc/UTC";

/** How often the app lets a schedule come at most, in seconds. */
export const minInterval = (db: TenantDb) =>
  sql`coalesce((${db.selectFrom("apps").select(sql`(settings ->> 'min_routine_interval_seconds')::int`.as("s"))}), 60)`;
export const TOO_OFTEN = "comes more often than the app lets it: see min_routine_interval_seconds";

/** This database behind that the app lets schedules come as often as every so many seconds. */
export const notTooOften = (db: TenantDb, interval: number, field = "schedule"): TenantDb =>
  db.behind(mustHold(sql`${interval} >= ${minInterval(db)}`, field, TOO_OFTEN));

/** When a pattern that was checked comes next. 422 where calendars end before. */
function nextRun(cron_expression: string, timezone: string): string {
  const cron = parseCron(cron_expression);
  const next = cron && nextOccurrence(cron, timezone, Date.now());
  if (!next) throw invalid({ field: "cron_expression", message: "does not come any more" });
  return new Date(next).toISOString();
}

/** This database behind that a pattern, where there is one, comes no more often than the app lets it. */
const checked = (db: TenantDb, cron: string | null | undefined) =>
  cron ? notTooOften(db, shortestInterval(parseCron(cron)!), "cron_expression") : db;

/** This database behind that an instant, where there is one, is to come. */
const toCome = (db: TenantDb, scheduled_at: string | null | undefined) =>
  scheduled_at ? db.behind(mustHold(sql`${scheduled_at}::timestamptz > now()`, "scheduled_at", IN_FUTURE)) : db;

/** Makes a schedule of an agent, and says when it comes first. */
export function createSchedule(
  db: TenantDb,
  agent: string,
  id: Id<"agent_schedule">,
  { thread: _, cron_expression, scheduled_at, max_runs, metadata, ...body }: CreateSchedule,
): Promise<ScheduleRow> {
  const timezone = body.timezone ?? UTC;
  return createChild(toCome(checked(db, cron_expression), scheduled_at), "agent_schedule", agent, id, {
    ...{ ...body, timezone },
    cron_expression: cron_expression ?? null,
    scheduled_at: scheduled_at ?? null,
    max_runs: max_runs ?? null,
    next_run_at: cron_expression ? nextRun(cron_expression, timezone) : (scheduled_at ?? null),
    metadata: JSON.stringify(metadata ?? {}),
  });
}

const ended = () => unprocessable("schedule_ended", "This schedule is completed, cancelled or expired: it stays so.");
const goesOn = { where: sql<boolean>`status in ('active', 'paused')`, otherwise: ended };

/** Changes a schedule that has not ended; a new time is when it comes next. One that has run `max_runs` times is completed. */
export function updateSchedule(
  db: TenantDb,
  agent: string,
  id: Id<"agent_schedule">,
  { thread: _, ...given }: UpdateSchedule,
): Promise<ScheduleRow> {
  const { metadata, ...body } = given;
  const { cron_expression, timezone, scheduled_at, max_runs } = body;
  const next = cron_expression && timezone ? nextRun(cron_expression, timezone) : scheduled_at;
  const at = next ? sql`${next}::timestamptz` : sql`agent_schedules.next_run_at`;
  const isLeft = max_runs ? sql`agent_schedules.run_count < ${max_runs}` : sql`true`;
  const values = {
    ...body,
    metadata: metadata === undefined ? undefined : JSON.stringify(metadata ?? {}),
    ...((next || max_runs) && {
      next_run_at: sql<string>`case when agent_schedules.status = 'active' and ${isLeft} then ${at} end`,
    }),
    ...(max_runs && {
      status: sql<ScheduleStatus>`case when ${isLeft} then agent_schedules.status else 'completed' end`,
    }),
  };
  const how = { ...goesOn, agent, fields: Object.keys(given) };
  return updateChild(checked(db, cron_expression), "agent_schedule", id, values, how);
}

/** Until it is resumed it has no next run. */
export const pauseSchedule = (db: TenantDb, agent: string, id: Id<"agent_schedule">): Promise<ScheduleRow> =>
  updateChild(db, "agent_schedule", id, { status: "paused", next_run_at: null }, { ...goesOn, agent });

/**
 * Goes on from now: what was missed stays missed, and what was to come once and is past, is expired. Two round trips:
 * only the row has the pattern, and only the Worker knows the clocks. 409 where the pattern was changed in between.
 */
export async function resumeSchedule(db: TenantDb, agent: string, id: Id<"agent_schedule">): Promise<ScheduleRow> {
  const child = reachChild(db, "agent_schedule", id, "write", agent);
  const [was] = (await child.db.batch({ row: child.rows.selectAll() })).row as ScheduleRow[];
  if (!was) throw notFound("agent_schedule");
  if (was.status === "active") return was;
  if (was.status !== "paused") throw ended();
  const { cron_expression, timezone, scheduled_at } = was;
  const next = cron_expression ? nextRun(cron_expression, timezone) : scheduled_at!;
  const values =
    Date.parse(next) > Date.now()
      ? { status: "active" as const, next_run_at: next }
      : { status: "expired" as const, next_run_at: null };
  const unchanged = sql<boolean>`status in ('active', 'paused') and timezone = ${timezone}
    and (cron_expression, scheduled_at) is not distinct from (${cron_expression}::text, ${scheduled_at}::timestamptz)`;
  const otherwise = () =>
    refused("schedule_changed", "This schedule was changed while it was being resumed. Try again.");
  return updateChild(db, "agent_schedule", id, values, { where: unchanged, otherwise, agent });
}

/** For good. Cancelled again, it stays as it is. */
export const cancelSchedule = (db: TenantDb, agent: string, id: Id<"agent_schedule">): Promise<ScheduleRow> => {
  const may = { where: sql<boolean>`status in ('active', 'paused', 'cancelled')`, otherwise: ended };
  return updateChild(db, "agent_schedule", id, { status: "cancelled", next_run_at: null }, { ...may, agent });
};
