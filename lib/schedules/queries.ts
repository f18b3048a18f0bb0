import { sql } from "kysely";
import { createChild, reachChild, updateChild } from "../agents/children.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { invalid, notFound, refused, unprocessable } from "../errors.ts";
import type { Id } from "../ids.ts";
import { nextOccurrence, parseCron } from "./clock.ts";
import type { CreateSchedule, ScheduleRow, UpdateSchedule } from "./schema.ts";

const UTC = "Etc/UTC";

/** When a pattern that was checked comes next. 422 where calendars end before. */
function nextRun(cron_expression: string, timezone: string): string {
  const cron = parseCron(cron_expression);
  const next = cron && nextOccurrence(cron, timezone, Date.now());
  if (!next) throw invalid({ field: "cron_expression", message: "does not come any more" });
  return new Date(next).toISOString();
}

/** Makes a schedule of an agent, and says when it comes first. */
export function createSchedule(
  db: TenantDb,
  agent: string,
  id: Id<"agent_schedule">,
  { schedule_type, cron_expression, scheduled_at, instructions, max_runs, metadata, ...body }: CreateSchedule,
): Promise<ScheduleRow> {
  const timezone = body.timezone ?? UTC;
  return createChild(db, "agent_schedule", agent, id, {
    ...{ schedule_type, timezone, instructions },
    cron_expression: cron_expression ?? null,
    scheduled_at: scheduled_at ?? null,
    max_runs: max_runs ?? null,
    next_run_at: cron_expression ? nextRun(cron_expression, timezone) : (scheduled_at ?? null),
    metadata: JSON.stringify(metadata ?? {}),
  });
}

const ended = () => unprocessable("schedule_ended", "This schedule is completed, cancelled or expired: it stays so.");
const goesOn = { where: sql<boolean>`status in ('active', 'paused')`, otherwise: ended };

/** Changes a schedule that has not ended; a new time is when it comes next. */
export function updateSchedule(
  db: TenantDb,
  agent: string,
  id: Id<"agent_schedule">,
  { cron_expression, scheduled_at, timezone, instructions, max_runs, metadata }: UpdateSchedule,
): Promise<ScheduleRow> {
  const next = cron_expression && timezone ? nextRun(cron_expression, timezone) : scheduled_at;
  const values = {
    ...{ cron_expression, scheduled_at, timezone, instructions, max_runs },
    metadata: metadata === undefined ? undefined : JSON.stringify(metadata ?? {}),
    next_run_at: next && sql<string>`case when agent_schedules.status = 'active' then ${next}::timestamptz end`,
  };
  return updateChild(db, "agent_schedule", id, values, { ...goesOn, agent });
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
