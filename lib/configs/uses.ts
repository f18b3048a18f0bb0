/** What uses a config, and so keeps it. */
import { type RawBuilder, type SqlBool, sql } from "kysely";
import { type ChildKind, readable } from "../agents/children.ts";
import type { Rows } from "../db/statements.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { ApiError, refused } from "../errors.ts";
import type { Id } from "../ids.ts";
import { kinds } from "../kinds.ts";

/**
 * What refers to a config by a foreign key, and so keeps it: kinds of what hangs on an agent, the table and the column,
 * and the column of the id that it is told by. One that is missing here fails tests/catalogue.test.ts.
 */
export const holders = [
  { kind: "agent_health_action", table: "agent_health_actions", column: "script_id", id: "id" },
  { kind: "agent_routine", table: "agent_routine_configs", column: "config_id", id: "routine_id" },
  { kind: "agent_routine", table: "agent_routines", column: "config_id", id: "id" },
  { kind: "agent_skill", table: "agent_skills", column: "config_id", id: "id" },
  { kind: "agent_tool", table: "agent_tools", column: "config_id", id: "id" },
  { kind: "agent_tool", table: "agent_tools", column: "parameters_config_id", id: "id" },
] as const;

/**
 * Does what ends agents, or a person with those that are its own. Where that is refused because somebody else's agent
 * uses a config of theirs, asks once more what it is, as far as the viewer may see it: a 409 that names it.
 */
export async function namingUses(
  db: TenantDb,
  agents: Rows<"agents">,
  user: Id<"user"> | null,
  end: () => Promise<void>,
) {
  try {
    await end();
  } catch (error) {
    if (!(error instanceof ApiError && error.code === "in_use")) throw error;
    const theirs = agents.select("agents.id");
    const configs = db
      .selectFrom("configs")
      .where(sql<boolean>`(configs.agent_id in (${theirs}) or configs.user_id = ${user})`);
    const { used } = await db.batch({ used: db.running(usesOf(db, configs, sql`held.agent_id not in (${theirs})`)) });
    throw used.length ? inUse(used, "A config that would go with this") : error;
  }
}

export type Use = { kind: ChildKind; id: string; seen: boolean };

/** What uses these configs or their children, and whether the viewer may see it. */
export function usesOf(db: TenantDb, rows: Rows<"configs">, where: RawBuilder<SqlBool> = sql`true`): RawBuilder<Use> {
  const ids = rows.select("configs.id");
  const whole = db
    .selectFrom("configs")
    .select("configs.id")
    .where(sql<boolean>`(configs.id in (${ids}) or configs.parent_id in (${ids}))`);
  const uses = holders.map(({ kind, table, column, id }) => {
    const holder = sql.ref(`held.${id}`);
    const seen = readable(db, kind).where(sql<boolean>`${sql.ref(`${kinds[kind].table}.id`)} = ${holder}`);
    return sql`select ${sql.lit(kind)} as kind, ${holder} as id, exists (${seen.select(sql`1`.as("one"))}) as seen
      from (${db.selectFrom(table).selectAll()}) as held where ${sql.ref(`held.${column}`)} in (${whole}) and ${where}`;
  });
  return sql`${sql.join(uses, sql` union `)}`;
}

export function inUse(uses: Use[], what = "This config") {
  const told = uses
    .filter(({ seen }) => seen)
    .slice(0, 20)
    .map(({ kind, id }) => `${kinds[kind].name} ${id}`);
  const more = uses.length - told.length;
  const others = more ? [`${more} ${told.length ? "more" : "that you may not see"}`] : [];
  return refused("in_use", `${what} is in use, by: ${[...told, ...others].join(", ")}.`);
}
