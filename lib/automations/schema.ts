import * as v from "valibot";
import { isKey, NO_KEY } from "../http/once.ts";
import { isWithinAsJson, map, nullable, stamp } from "../http/valid.ts";
import type { RunRow } from "../routine-runs/schema.ts";

/** Of a payload, and of the participants, in bytes of JSON. */
const MAX_GIVEN = 32_768;
const given = v.pipe(
  map,
  v.check((said) => isWithinAsJson(said, MAX_GIVEN), "must be at most 32 KB as JSON"),
);

export const invokeAutomationBody = v.strictObject({
  /** Held to the automation's `input_schema`, together with what it has filled in. */
  payload: v.optional(v.nullable(given)),
  /** Agents and users, by what the automation calls them. */
  participants: v.optional(v.nullable(given)),
  /** The same as the header Idempotency-Key: the first run under a key is answered again, whatever came of it. */
  idempotency_key: v.optional(v.nullable(v.pipe(v.string(), v.check(isKey, NO_KEY)))),
});
export type InvokeAutomation = v.InferOutput<typeof invokeAutomationBody>;

const statuses = ["pending", "running", "completed", "failed", "cancelled"] as const;
const mapOrNull = v.nullable(v.record(v.string(), v.unknown()));
export const automationRun = v.strictObject({
  id: v.string(),
  app: v.string(),
  automation: v.string(),
  event_id: nullable,
  status: v.picklist(statuses),
  payload: v.record(v.string(), v.unknown()),
  participants: mapOrNull,
  /** Of one that was skipped, its `reason`. */
  result: mapOrNull,
  team: v.null(),
  user: nullable,
  created_at: stamp,
  updated_at: stamp,
});

export const toAutomationRun = (row: RunRow): v.InferOutput<typeof automationRun> => ({
  id: row.id,
  app: row.app_id,
  automation: row.automation_id!,
  event_id: row.event_id,
  status: row.status === "skipped" ? "cancelled" : row.status,
  payload: row.payload,
  participants: row.participants,
  result: row.result,
  team: null,
  user: row.user_id,
  created_at: row.created_at,
  updated_at: row.updated_at,
});
