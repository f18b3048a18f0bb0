import * as v from "valibot";
import type { Row } from "../db/schema.ts";
import { map, stamp, text } from "../http/valid.ts";

const number = (min: number, max: number) => v.pipe(v.number(), v.integer(), v.minValue(min), v.maxValue(max));
const whole = (min: number, max: number) => v.optional(v.nullable(number(min, max)));
const days = v.optional(number(1, 3650));
const quota = v.optional(number(1, 100_000));

/** What an app may set; null takes back what was set. */
const settings = v.pipe(
  map,
  v.strictObject({
    /** How often a routine's schedule may come at most; without it, every 60 seconds. */
    min_routine_interval_seconds: whole(60, 86_400),
    /** How many days entries of the activity feed are kept; without it, 400. */
    activity_retention_days: whole(1, 3650),
    /** How many days these are kept; without a number, runs 90, all others 30. */
    retention_days: v.optional(
      v.nullable(
        v.pipe(map, v.strictObject({ events: days, occurrences: days, runs: days, webhook_deliveries: days })),
      ),
    ),
    /** What each of its orgs may have under way: see lib/quotas.ts for what holds without a number. */
    quotas: v.optional(
      v.nullable(
        v.pipe(
          map,
          v.strictObject({
            runs_at_once: quota,
            runs_at_once_of_an_agent: quota,
            runs_started_per_minute: quota,
            webhook_attempts_at_once: quota,
            webhook_endpoints: quota,
          }),
        ),
      ),
    ),
  }),
);

export const updateAppBody = v.strictObject({
  name: v.optional(v.pipe(text(200), v.nonEmpty())),
  settings: v.optional(settings),
});
export type UpdateApp = v.InferOutput<typeof updateAppBody>;

export type AppRow = Row<"apps">;

export const app = v.strictObject({
  id: v.string(),
  name: v.string(),
  settings: v.record(v.string(), v.unknown()),
  created_at: stamp,
  updated_at: stamp,
});
export const toApp = (row: AppRow): v.InferOutput<typeof app> => ({
  id: row.id,
  name: row.name,
  settings: row.settings,
  created_at: row.created_at,
  updated_at: row.updated_at,
});
export const appList = v.strictObject({ data: v.array(app) });
