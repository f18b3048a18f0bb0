import { sql } from "kysely";
import { reachAgent } from "../agents/queries.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { containing } from "../paging.ts";
import type { ListMemory } from "./schema.ts";

/** One page of what an agent remembers, newest first, and how much that is. What has expired is hidden. */
export function listMemory(db: TenantDb, agent: string, { search, ...page }: ListMemory) {
  const above = reachAgent(db, agent, "read");
  const entries = above.db
    .selectFrom("agent_working_memory")
    .selectAll()
    .where("agent_id", "in", above.rows.select("id"))
    .where(sql<boolean>`(expires_at is null or expires_at > now())`);
  return above.db.page(search ? entries.where("key", "ilike", containing(search)) : entries, page);
}
