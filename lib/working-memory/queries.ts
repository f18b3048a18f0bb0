import { sql } from "kysely";
import { telling } from "../agents/children.ts";
import { reachAgent } from "../agents/queries.ts";
import type { Row } from "../db/schema.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { notFound } from "../errors.ts";
import { type Id, newId } from "../ids.ts";
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

type Entry = Row<"agent_working_memory">;
/** At most so many come at once. */
export const RECALLED = 50;

/** Keeps a value under a key, whether there was one or not. 422 `limit_reached` beyond the thousandth key. */
export async function storeMemory(
  db: TenantDb,
  agent: Id<"agent">,
  { key, value, expires_at }: Pick<Entry, "key" | "value" | "expires_at">,
): Promise<void> {
  const entries = db.selectFrom("agent_working_memory").where("agent_id", "=", agent).where("key", "=", key);
  const free = db
    .selectFrom("agents")
    .where("agents.id", "=", agent)
    .where(sql<boolean>`not exists (${entries.select(sql`1`.as("one"))})`);
  const entry = { id: newId("working_memory_entry"), agent_id: agent, key, value, expires_at };
  const change = db
    .patch("agent_working_memory", { value, expires_at })
    .where("agent_id", "=", agent)
    .where("key", "=", key);
  const told = { metadata: { fields: ["value", "expires_at"] } };
  const { changed, made } = await db.batch({
    changed: db.telling(change, { ...telling(db, "working_memory_entry", "updated"), ...told }),
    made: db.telling(
      db.insertUnder(free, "agent_working_memory", entry),
      telling(db, "working_memory_entry", "created"),
    ),
  });
  if (!changed.length && !made.length) throw notFound("agent");
}

/** What an agent keeps under a key or where a text stands in the key; without either, its newest. Nothing that has expired. */
export function recallMemory(db: TenantDb, agent: Id<"agent">, { key, search }: { key?: string; search?: string }) {
  let entries = db
    .selectFrom("agent_working_memory")
    .select(["key", "value", "expires_at"])
    .where("agent_id", "=", agent)
    .where(sql<boolean>`(expires_at is null or expires_at > now())`);
  if (key !== undefined) entries = entries.where("key", "=", key);
  if (search !== undefined) entries = entries.where("key", "ilike", containing(search));
  return entries.orderBy("updated_at", "desc").limit(RECALLED).execute();
}
