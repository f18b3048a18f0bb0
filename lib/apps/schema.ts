import type { Selectable } from "kysely";
import * as v from "valibot";
import type { Database } from "../db/schema.ts";
import { metadata, stamp, text } from "../http/valid.ts";

export const updateAppBody = v.strictObject({
  name: v.optional(v.pipe(text(200), v.nonEmpty())),
  settings: v.optional(metadata),
});
export type UpdateApp = v.InferOutput<typeof updateAppBody>;

export type AppRow = Selectable<Database["apps"]>;

export const app = v.strictObject({
  id: v.string(),
  name: v.string(),
  settings: v.record(v.string(), v.unknown()),
  created_at: stamp,
  updated_at: stamp,
});
export const appList = v.strictObject({ data: v.array(app) });
