import { sql } from "kysely";
import { passes } from "../auth/acl.ts";
import type { Viewer } from "../auth/allow.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { isId } from "../ids.ts";
import type { CursorPage } from "../paging.ts";
import type { ActivityRow, ListActivity } from "./schema.ts";

/** The entries that the viewer may read, newest first, from a cursor on; one more than asked for, if there is one. */
export async function listActivity(
  db: TenantDb,
  viewer: Viewer,
  query: ListActivity,
  page: CursorPage,
): Promise<ActivityRow[]> {
  const { kind, level, agent, thread, team, org, correlation_id } = query;
  let entries = db.selectFrom("activity_feed_entries").where(passes(viewer, "readers"));
  if (kind) entries = entries.where("kind", "in", kind);
  if (level) entries = entries.where("level", "in", level.map((name) => (name === "warn" ? "warning" : name)) as never);
  // What is malformed names nothing.
  if (agent) entries = entries.where("agent_id", "in", [...agent.filter((id) => isId("agent", id)), "-"] as never);
  if (org) entries = entries.where("org_id", "in", [...org.filter((id) => isId("org", id)), ""] as never);
  // No entry tells of a thread or a team yet.
  if (thread || team) entries = entries.where(sql<boolean>`false`);
  if (correlation_id !== undefined) entries = entries.where("correlation_id", "=", correlation_id);
  if (page.direction === "newer") {
    const rows = await entries
      .selectAll()
      .where("id", ">", page.from as never)
      .orderBy("id")
      .limit(page.limit + 1)
      .execute();
    return rows;
  }
  if (page.from) entries = entries.where("id", "<", page.from as never);
  return entries
    .selectAll()
    .orderBy("id", "desc")
    .limit(page.limit + 1)
    .execute();
}
