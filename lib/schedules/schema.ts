import * as v from "valibot";
import { catchups, overlaps, type Row, scheduleStatuses, scheduleTypes } from "../db/schema.ts";
import { metadata, moment, notYet, nullable, rule, stamp, text } from "../http/valid.ts";
import { parseCron } from "./clock.ts";
import { timeZone } from "./time-zone.ts";

/** Five cron fields, read in a time zone: see lib/schedules/clock.ts. */
export const cronText = v.pipe(
  text(200),
  v.check(
    (pattern) => parseCron(pattern) !== null,
    "must be five cron fields, as 0 9 * * MON-FRI, of a time that comes",
  ),
);
export const IN_FUTURE = "must be in the future";
const inFuture = v.pipe(
  moment,
  v.check((at) => Date.parse(at) > Date.now(), IN_FUTURE),
);

const seconds = (least: number, most: number) =>
  v.optional(v.pipe(v.number(), v.integer(), v.minValue(least), v.maxValue(most)));
/** What becomes of occurrences that meet another one, or nobody. */
export const policies = {
  overlap: v.optional(v.picklist(overlaps)),
  catchup: v.optional(v.picklist(catchups)),
  /** So late one may be, and still come. */
  catchup_window_seconds: seconds(10, 366 * 86_400),
  /** Each comes up to so much later than planned, always as much. */
  jitter_seconds: seconds(0, 3600),
};
export const usualPolicies = {
  ...({ overlap: "skip", catchup: "one" } as const),
  ...{ catchup_window_seconds: 3600, jitter_seconds: 0 },
};

const fields = {
  ...policies,
  metadata: v.optional(v.nullable(metadata)),
  /** After so many runs it is completed. */
  max_runs: v.optional(v.nullable(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(1_000_000)))),
  thread: notYet("is not supported yet: there are no threads"),
};

export const createScheduleBody = v.pipe(
  v.strictObject({
    ...fields,
    schedule_type: v.picklist(scheduleTypes),
    cron_expression: v.optional(v.nullable(cronText)),
    /** That it is to come, the row's insert says: sent again under its key, the request may come after it. */
    scheduled_at: v.optional(v.nullable(moment)),
    timezone: v.optional(v.nullable(timeZone)),
    instructions: v.pipe(text(10_000), v.nonEmpty()),
  }),
  rule(
    "cron_expression",
    ({ schedule_type, cron_expression }) => (schedule_type === "recurring") === Boolean(cron_expression),
    "is what a recurring schedule has, and no other",
  ),
  rule(
    "scheduled_at",
    ({ schedule_type, scheduled_at }) => (schedule_type === "once") === Boolean(scheduled_at),
    "is what a schedule that comes once has, and no other",
  ),
);
export type CreateSchedule = v.InferOutput<typeof createScheduleBody>;

export const updateScheduleBody = v.pipe(
  v.strictObject({
    ...fields,
    cron_expression: v.optional(cronText),
    scheduled_at: v.optional(inFuture),
    timezone: v.optional(timeZone),
    instructions: v.optional(v.pipe(text(10_000), v.nonEmpty())),
  }),
  rule(
    "timezone",
    ({ cron_expression, timezone }) => (cron_expression === undefined) === (timezone === undefined),
    "is changed together with cron_expression: a time of day is one of a place",
  ),
);
export type UpdateSchedule = v.InferOutput<typeof updateScheduleBody>;

export const listSchedulesQuery = v.object({ status: v.optional(v.picklist(scheduleStatuses)) });

export type ScheduleRow = Row<"agent_schedules">;

export const schedule = v.strictObject({
  id: v.string(),
  app: v.string(),
  agent: v.string(),
  thread: v.null(),
  schedule_type: v.picklist(scheduleTypes),
  cron_expression: nullable,
  scheduled_at: v.nullable(stamp),
  timezone: v.string(),
  instructions: v.string(),
  max_runs: v.nullable(v.number()),
  run_count: v.number(),
  status: v.picklist(scheduleStatuses),
  next_run_at: v.nullable(stamp),
  last_run_at: v.nullable(stamp),
  overlap: v.picklist(overlaps),
  catchup: v.picklist(catchups),
  catchup_window_seconds: v.number(),
  jitter_seconds: v.number(),
  metadata: v.record(v.string(), v.unknown()),
  created_at: stamp,
  updated_at: stamp,
});
export const scheduleList = v.strictObject({ data: v.array(schedule) });

export const toSchedule = (row: ScheduleRow): v.InferOutput<typeof schedule> => ({
  id: row.id,
  app: row.app_id,
  agent: row.agent_id,
  thread: null,
  schedule_type: row.schedule_type,
  cron_expression: row.cron_expression,
  scheduled_at: row.scheduled_at,
  timezone: row.timezone,
  instructions: row.instructions,
  max_runs: row.max_runs,
  run_count: row.run_count,
  status: row.status,
  next_run_at: row.next_run_at,
  last_run_at: row.last_run_at,
  overlap: row.overlap,
  catchup: row.catchup,
  catchup_window_seconds: row.catchup_window_seconds,
  jitter_seconds: row.jitter_seconds,
  metadata: row.metadata,
  created_at: row.created_at,
  updated_at: row.updated_at,
});
