import { sql } from "kysely";
import { reachChild, telling } from "../agents/children.ts";
import { reachAgent } from "../agents/queries.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { notFound, unprocessable } from "../errors.ts";
import type { Id } from "../ids.ts";
import type { HealthActionRow, ListHealthActions } from "./schema.ts";

/** What there is to do on an agent before it is whole, in the order in which it is done. */
export function listHealthActions(db: TenantDb, agent: string, filters: ListHealthActions): Promise<HealthActionRow[]> {
  const above = reachAgent(db, agent, "read");
  let rows = above.db.selectFrom("agent_health_actions").selectAll().where("agent_id", "in", above.rows.select("id"));
  for (const field of ["source", "status", "kind"] as const) {
    const values = filters[field];
    if (values) rows = rows.where(field, "in", values as never[]);
  }
  return rows.orderBy("source").orderBy("sort_order").orderBy("id").execute();
}

/**
 * Looks whether an action is done: an env_var's, whether the variable is there; an install's, whether an installation of
 * the kind is active. What passes is completed; what was completed and fails is degraded; a skipped one stays. 422 while
 * an action that it depends on isn't done, and for one that only a person can judge.
 */
export async function verifyHealthAction(db: TenantDb, id: Id<"agent_health_action">): Promise<HealthActionRow> {
  const action = reachChild(db, "agent_health_action", id, "write");
  const onSameAgent = sql<boolean>`agent_id = agent_health_actions.agent_id`;
  const variable = db.selectFrom("agent_env_vars").where(onSameAgent).where(sql<boolean>`key = params ->> 'key'`);
  const installation = db
    .selectFrom("agent_installations")
    .where(onSameAgent)
    .where(sql<boolean>`agent_installations.kind = params ->> 'installation_kind' and state = 'active'`);
  const passes = sql<boolean>`case kind when 'env_var' then exists ${variable} else exists ${installation} end`;
  const unfinished = db
    .selectFrom("agent_health_actions")
    .select("agent_health_actions.id")
    .where("status", "not in", ["completed", "skipped"])
    .where(sql<boolean>`id = any (array(${action.rows.select(sql`unnest(depends_on)`.as("id"))}))`);
  const change = action.db
    .patch("agent_health_actions", {
      status: sql`case when ${passes} then 'completed' when status = 'pending' then 'pending' else 'degraded' end`,
      last_verified_at: sql<string>`now()`,
      last_verifier_message: sql<string>`case when ${passes} then 'It is there.' else 'It is not there yet.' end`,
    })
    .where("id", "in", action.rows.select("id"))
    .where("kind", "in", ["env_var", "install"])
    .where("status", "<>", "skipped")
    .where(sql<boolean>`not exists ${unfinished}`);
  const { verified, found, waits } = await action.db.batch({
    verified: action.db.telling(change, telling(db, "agent_health_action", "updated")),
    found: action.rows.selectAll(),
    waits: unfinished,
  });
  if (verified[0]) return verified[0];
  if (!found[0]) throw notFound("agent_health_action");
  if (found[0].status === "skipped") return found[0];
  if (waits.length) {
    throw unprocessable("dependencies_unfinished", `Do these first: ${waits.map((one) => one.id).join(", ")}.`);
  }
  throw unprocessable("no_verifier", "Nothing here can tell whether this is done: a person has to look.");
}
