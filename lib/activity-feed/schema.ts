import * as v from "valibot";
import { type Row, real } from "../db/schema.ts";
import { list, nullable, stamp, text } from "../http/valid.ts";
import { told } from "../kinds.ts";
import { MAX_PAGE_SIZE, positive } from "../paging.ts";

/** Kinds that the contract names and those that are told here: what a filter may ask for. */
export const kinds = [
  "agent_step",
  "tool_call",
  "routine_run",
  "automation_run",
  "thread_story",
  "agent_quality_verdict",
  "work_item_assigned",
  "work_item_completed",
  "generic",
  ...told,
  // Of no change of a row.
  "scim.last_owner_deactivated",
  "user.impersonated",
] as const;
/** The wire has two vocabularies of levels; a filter takes both. Nothing is stored as debug or audit. */
export const levels = ["debug", "info", "warn", "warning", "error", "audit"] as const;

const names = v.optional(list(text(100), 100));
export const listActivityQuery = v.object({
  kind: names,
  level: names,
  agent: names,
  thread: names,
  team: names,
  org: names,
  correlation_id: v.optional(text(200)),
  limit: v.optional(
    v.pipe(
      positive,
      v.transform((limit) => Math.min(limit, MAX_PAGE_SIZE)),
    ),
    "50",
  ),
  before_cursor: v.optional(text(500)),
  after_cursor: v.optional(text(500)),
});
export type ListActivity = v.InferOutput<typeof listActivityQuery>;

export type ActivityRow = Row<"activity_feed_entries">;

export const activityFeedEntry = v.strictObject({
  id: v.string(),
  app: v.string(),
  sandbox: nullable,
  org: nullable,
  team: v.null(),
  user: nullable,
  agent: nullable,
  thread: v.null(),
  routine_run: v.null(),
  automation_run: v.null(),
  session_record: v.null(),
  kind: v.string(),
  level: v.picklist(["info", "warning", "error"]),
  title: nullable,
  content: nullable,
  correlation_id: nullable,
  attachments: v.array(v.record(v.string(), v.unknown())),
  metadata: v.record(v.string(), v.unknown()),
  created_at: stamp,
  updated_at: stamp,
});
/** The seed calls the list `entries`, the public contract `data`: both are the same array. */
export const activityFeed = v.strictObject({
  entries: v.array(activityFeedEntry),
  data: v.array(activityFeedEntry),
  has_more: v.boolean(),
  before_cursor: nullable,
  after_cursor: nullable,
});

export const toActivityFeedEntry = (row: ActivityRow): v.InferOutput<typeof activityFeedEntry> => ({
  id: row.id,
  app: row.app_id,
  sandbox: real(row.sandbox_id),
  org: real(row.org_id),
  team: null,
  user: row.user_id,
  agent: row.agent_id,
  thread: null,
  routine_run: null,
  automation_run: null,
  session_record: null,
  kind: row.kind,
  level: row.level,
  title: row.title,
  content: row.content,
  correlation_id: row.correlation_id,
  attachments: [],
  metadata: row.metadata,
  created_at: row.created_at,
  updated_at: row.created_at,
});
