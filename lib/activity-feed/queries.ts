import { sql } from "kysely";
import { passes } from "../auth/acl.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { isId } from "../ids.ts";
import type { CursorPage } from "../paging.ts";
import type { ActivityRow, ListActivity } from "./schema.ts";

/** The entries that the viewer may read, newest first, from a cursor on; one more than asked for, if there is one. */
export function listActivity(db: TenantDb, query: ListActivity, page: CursorPage): Promise<ActivityRow[]> {
  const { kind, level, agent, thread, team, org, correlation_id } = query;
  // Whom an entry is about, or who did it, reads it; it is nobody's own.
  const readable = passes(db.viewer, "readers", { user: "user_id" }, "everyone");
  let entries = db.selectFrom("activity_feed_entries").where(readable);
  if (kind) entries = entries.where("kind", "in", kind);
  if (level)
    entries = entries.where(sql<boolean>`level = any (${level.map((name) => (name === "warn" ? "warning" : name))})`);
  // What is malformed names nothing.
  if (agent) entries = entries.where(sql<boolean>`agent_id = any (${agent.filter((id) => isId("agent", id))})`);
  if (org) entries = entries.where(sql<boolean>`org_id = any (${org.filter((id) => isId("org", id))})`);
  // No entry tells of a thread or a team yet.
  if (thread || team) entries = entries.where(sql.lit(false));
  if (correlation_id !== undefined) entries = entries.where("correlation_id", "=", correlation_id);
  return db.pageByCursor(entries, page);
}
