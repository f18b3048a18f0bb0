import { type RawBuilder, sql } from "kysely";
import type { TenantDb } from "../db/tenant-db.ts";
import type { Id } from "../ids.ts";

/**
 * The config that a body names by its id or its lookup_key, in the place of the row above, of those that the viewer may
 * read: the place's own, the viewer's, the agent's. '' where there is none: the foreign key then says so.
 */
export function configNamed(
  db: TenantDb,
  name: string,
  above: "agents" | "agent_tools" | "agent_skills",
): RawBuilder<Id<"config">> {
  const { viewer } = db;
  const agent = sql.ref(above === "agents" ? "agents.id" : `${above}.agent_id`);
  const mine = viewer.kind === "token" ? sql`configs.user_id = ${viewer.user}` : sql`true`;
  const found = db
    .selectFrom("configs")
    .select("configs.id")
    .where(sql<boolean>`(configs.id = ${name} or configs.lookup_key = ${name})`)
    .where(sql<boolean>`configs.org_id = ${sql.ref(`${above}.org_id`)}`)
    .where(sql<boolean>`(configs.user_id is null or ${mine})`)
    .where(sql<boolean>`(configs.agent_id is null or configs.agent_id = ${agent})`)
    .orderBy(sql`configs.id = ${name} desc`)
    .limit(1);
  return sql`coalesce((${found}), ${sql.lit("")})`;
}
