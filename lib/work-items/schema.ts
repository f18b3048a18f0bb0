import * as v from "valibot";
import { type Row, workItemStatuses } from "../db/schema.ts";
import { idOf, isWithinAsJson, map, stamp, text } from "../http/valid.ts";
import { MAX_PAGE_SIZE, positive } from "../paging.ts";

/** Of a result or an error, as JSON. */
const MAX_BYTES = 65_536;

/** Chosen by whoever takes an item, and known to it alone. */
const lease_owner = v.pipe(text(255), v.nonEmpty());
const lease_seconds = v.optional(v.pipe(v.number(), v.integer(), v.minValue(15), v.maxValue(3600)), 300);
const outcome = v.pipe(
  map,
  v.check((said) => isWithinAsJson(said, MAX_BYTES), "must be at most 64 KB as JSON"),
);

export const listWorkItemsQuery = v.object({
  /** A run's id. */
  execution: v.optional(text(100)),
  limit: v.optional(
    v.pipe(
      positive,
      v.transform((limit) => Math.min(limit, MAX_PAGE_SIZE)),
    ),
    "50",
  ),
  after_cursor: v.optional(text(500)),
});
export type ListWorkItems = v.InferOutput<typeof listWorkItemsQuery>;

export const claimBody = v.strictObject({
  execution: v.optional(v.nullable(text(100))),
  work_item: v.optional(v.nullable(idOf("work_item"))),
  lease_owner,
  lease_seconds,
});
export type Claim = v.InferOutput<typeof claimBody>;
export const startBody = v.strictObject({ lease_owner });
export const heartbeatBody = v.strictObject({ lease_owner, lease_seconds });
export const submitBody = v.strictObject({ lease_owner, result: outcome });
export const failBody = v.strictObject({ lease_owner, error: outcome });

export type WorkItemRow = Row<"work_items">;

export const workItem = v.strictObject({
  type: v.literal("workflow_work_item"),
  id: v.string(),
  agent: v.string(),
  execution: v.string(),
  routine_run: v.nullable(v.string()),
  command_id: v.string(),
  node_id: v.string(),
  status: v.picklist(workItemStatuses),
  payload: v.record(v.string(), v.unknown()),
  attempt_count: v.number(),
  lease_expires_at: v.nullable(stamp),
  created_at: stamp,
  updated_at: stamp,
});
export const workItemList = v.strictObject({
  data: v.array(workItem),
  before_cursor: v.nullable(v.string()),
  after_cursor: v.nullable(v.string()),
  has_more: v.boolean(),
});
export const workItemClaim = v.strictObject({
  data: v.nullable(v.strictObject({ lease_owner: v.string(), work_item: workItem })),
});

export const toWorkItem = (row: WorkItemRow): v.InferOutput<typeof workItem> => ({
  type: "workflow_work_item",
  id: row.id,
  agent: row.agent_id,
  execution: row.run_id,
  routine_run: row.run_id.startsWith("arr_") ? row.run_id : null,
  command_id: row.command_id,
  node_id: row.node_id,
  status: row.status,
  payload: row.payload,
  attempt_count: row.attempt_count,
  lease_expires_at: row.lease_expires_at,
  created_at: row.created_at,
  updated_at: row.updated_at,
});
