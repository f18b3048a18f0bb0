import * as v from "valibot";
import type { Row } from "../db/schema.ts";
import { metadata, stamp, text } from "../http/valid.ts";

/** The app's own facts, and those that the product reads: how long entries of the activity feed are kept. */
const settings = v.pipe(
  metadata,
  v.check(
    ({ activity_retention_days: days }) =>
      days === undefined || (Number.isInteger(days) && (days as number) >= 1 && (days as number) <= 3650),
    "takes activity_retention_days from 1 to 3650, a whole number",
  ),
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
