/** Who may see a config, and what hangs on it; for those who read no content. */
import { type RawBuilder, type SqlBool, sql } from "kysely";
import { feedReaders } from "../agents/queries.ts";
import { isAdmin, isHeld, passes } from "../auth/acl.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import type { Id } from "../ids.ts";

/**
 * Whether the viewer may read (or write) a config, over its columns: the place's own by whoever holds the permission, a
 * person's own by that person, an agent's by it and by who may do it to the agent; all of an org by its admins.
 */
export function mayConfig(db: TenantDb, action: "read" | "write"): RawBuilder<SqlBool> {
  const { viewer } = db;
  if (!isHeld(viewer)) return sql`true`;
  const agents = db
    .selectFrom("agents")
    .select("agents.id")
    .where(passes(viewer, action === "read" ? "readers" : "writers"));
  const own = viewer.kind === "agent" ? sql`configs.agent_id = ${viewer.agent}` : sql.lit(false);
  return sql`(${isAdmin(viewer)} or configs.user_id = ${viewer.user} or ${own}
    or (configs.user_id is null and (configs.agent_id is null or configs.agent_id in (${agents}))))`;
}

/** Who may read a row of configs, as a list: null is everybody in the org. */
export function readersOfConfig(db: TenantDb, row: string): RawBuilder<string[] | null> {
  const [user, agent] = [sql.ref(`${row}.user_id`), sql.ref<Id<"agent">>(`${row}.agent_id`)];
  const agents = db.selectFrom("agents").where("agents.id", "=", agent);
  return sql`case when ${user} is not null then array['user:' || ${user}]
    when ${agent} is not null then (${agents.select(feedReaders.as("readers"))}) end`;
}

/** Whether an automation is active, and whom it acts as is there: over the columns of `automations`. */
export const isLive = (db: TenantDb): RawBuilder<boolean> => {
  const one = sql`1`.as("one");
  const agent = db.selectFrom("agents").where(sql<boolean>`agents.id = automations.agent_id`);
  const user = db.selectFrom("users").where(sql<boolean>`users.id = automations.user_id`).where("ended_at", "is", null);
  return sql`(automations.status = 'active' and (automations.agent_id is null or exists (${agent.select(one)}))
    and (automations.user_id is null or exists (${user.select(one)})))`;
};
