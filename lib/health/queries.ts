import { type RawBuilder, type SqlBool, sql } from "kysely";
import { passesOwn, reachChild, telling, updateChild } from "../agents/children.ts";
import { orgName, reachAgent } from "../agents/queries.ts";
import type { AgentRow } from "../agents/schema.ts";
import type { HealthStatus } from "../db/schema.ts";
import type { Rows } from "../db/statements.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { notFound, unprocessable } from "../errors.ts";
import type { Id } from "../ids.ts";
import { storable } from "../sessions/project.ts";
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

/** How many an agent has of what hangs on it, by table. */
const COUNTED = {
  tools: "agent_tools",
  skills: "agent_skills",
  routines: "agent_routines",
  schedules: "agent_schedules",
  computers: "agent_computers",
  env_vars: "agent_env_vars",
  installations: "agent_installations",
} as const;
export type Counts = Record<keyof typeof COUNTED, number>;

/** What the database knows of an agent's health. */
export type Known = {
  agent: AgentRow;
  actions: HealthActionRow[];
  counts: Counts;
  /** Names alone: what is in them only who works for the agent opens. */
  env_keys: string[];
  /** Its routines that are drafts, by id. */
  drafts: string[];
  schedules_missed: number;
  endpoints_disabled: number;
  endpoints_failing: number;
  computers_in_error: number;
  installations_in_error: number;
};

/** All that the database knows of the one agent's health, in one round trip; null where there is none. */
export async function readHealth(db: TenantDb, agents: Rows<"agents">): Promise<Known | null> {
  type Table = (typeof COUNTED)[keyof typeof COUNTED] | "occurrences";
  const count = (table: Table, which: RawBuilder<SqlBool> = sql`true`) => {
    const rows = db.selectFrom(table as "agent_tools").where(sql<boolean>`agent_id = agents.id and ${which}`);
    return sql`(${rows.select(sql`count(*)`.as("n"))})`;
  };
  // The app's own are no org's.
  const endpoints = (which: RawBuilder<SqlBool>) =>
    sql`(${db
      .selectFrom("webhook_endpoints")
      .where(sql<boolean>`org_id = agents.org_id and ${which}`)
      .select(sql`count(*)`.as("n"))})`;
  const keys = db.selectFrom("agent_env_vars").where(sql<boolean>`agent_id = agents.id`);
  const drafts = db.selectFrom("agent_routines").where(sql<boolean>`agent_id = agents.id and status = 'draft'`);
  const known = {
    env_keys: sql`(${keys.select(sql`coalesce(jsonb_agg(key), '[]')`.as("keys"))})`,
    drafts: sql`(${drafts.select(sql`coalesce(jsonb_agg(id), '[]')`.as("ids"))})`,
    schedules_missed: count("occurrences", sql`outcome = 'missed' and planned_at > now() - interval '24 hours'`),
    endpoints_disabled: endpoints(sql`status = 'disabled'`),
    endpoints_failing: endpoints(sql`status = 'enabled' and failing_since < now() - interval '1 hour'`),
    computers_in_error: count("agent_computers", sql`status = 'error'`),
    installations_in_error: count("agent_installations", sql`state = 'suspended'`),
  };
  const object = (fields: Record<string, RawBuilder<unknown>>) =>
    sql`jsonb_build_object(${sql.join(Object.entries(fields).flatMap(([name, value]) => [sql.lit(name), value]))})`;
  // Routines have readers of their own.
  const seen = (table: Table) => (table === "agent_routines" ? passesOwn(db, "readers") : sql<boolean>`true`);
  const counts = Object.entries(COUNTED).map(([name, table]) => [name, count(table, seen(table))] as const);
  const actions = db.selectFrom("agent_health_actions").where("agent_id", "in", agents.select("agents.id"));
  const found = await db.batch({
    agent: agents.selectAll().select(orgName(db, "agents").as("org_name")),
    known: agents.select([object(known).as("known"), object(Object.fromEntries(counts)).as("counts")]),
    actions: actions.selectAll().orderBy("source").orderBy("sort_order").orderBy("id"),
  });
  const [agent] = found.agent as AgentRow[];
  const [facts] = found.known as unknown as { known: Omit<Known, "agent" | "actions" | "counts">; counts: Counts }[];
  return agent && facts ? { agent, actions: found.actions, counts: facts.counts, ...facts.known } : null;
}

/** As `readHealth`, of the agent that an address names. 404 where the viewer can't see it. */
export async function healthOfNamed(db: TenantDb, name: string): Promise<Known> {
  const above = reachAgent(db, name, "read");
  const known = await readHealth(above.db, above.rows);
  if (!known) throw notFound("agent");
  return known;
}

/** What a verifier that the database doesn't know itself has found, or why it has found nothing. */
export type Verdict = { passes: boolean; message: string } | { crashed: string };

/** An action, and who else than the database is to be asked of it. */
export type Checked = HealthActionRow & { check: "health" | "script_ref" | "integration" | "unknown" };

/** What an action's check is: its `verify_config` says so, or else its kind. Null: a person's word. */
const checkOf = sql<string | null>`case
  when source = 'health' and dedupe_key like 'health:%' then 'health'
  when source = 'health' and params ->> 'routine' is not null then 'routine_ready'
  when source = 'health' then 'unknown'
  when verify_config ->> 'type' = 'script_ref' or (verify_config ->> 'type' is null and script_id is not null) then 'script_ref'
  when verify_config ->> 'type' in ('secret_present', 'installation_active', 'integration') then verify_config ->> 'type'
  when verify_config ->> 'type' is not null then 'unknown'
  when kind = 'env_var' then 'secret_present'
  when kind = 'install' then 'installation_active'
  when kind = 'integration' then 'integration' end`;

/**
 * Looks whether an action is done: whether the variable is there (`secret_present`), an installation of the kind is active
 * (`installation_active`), and by `ask` whatever a script, a server of tools or the agent's health has to say; without any
 * of these the person's word counts. What passes is completed; what was completed and fails is degraded; a skipped one
 * stays. 422 while an action that it depends on isn't done, where the verifier crashed, and where nothing is known by its type.
 */
export async function verifyHealthAction(
  db: TenantDb,
  id: Id<"agent_health_action">,
  ask: (action: Checked) => Promise<Verdict>,
): Promise<HealthActionRow> {
  const onSameAgent = sql<boolean>`agent_id = agent_health_actions.agent_id`;
  const said = (field: string) => sql`coalesce(verify_config ->> ${field}, params ->> ${field})`;
  const variable = db
    .selectFrom("agent_env_vars")
    .where(onSameAgent)
    .where(sql<boolean>`key = ${said("key")}`);
  const installation = db
    .selectFrom("agent_installations")
    .where(onSameAgent)
    .where(sql<boolean>`agent_installations.kind = ${said("installation_kind")} and state = 'active'`);
  const draft = db
    .selectFrom("agent_routines")
    .where(onSameAgent)
    .where(sql<boolean>`agent_routines.id = params ->> 'routine' and agent_routines.status = 'draft'`);
  const passes = sql<boolean>`case ${checkOf} when 'secret_present' then exists ${variable}
    when 'installation_active' then exists ${installation} when 'routine_ready' then not exists ${draft} else true end`;
  const message = sql<string>`case when ${checkOf} is null then 'A person has said so.'
    when ${passes} then 'It is there.' else 'It is not there yet.' end`;
  const here = sql<boolean>`coalesce(${checkOf} in ('secret_present', 'installation_active', 'routine_ready'), true)`;
  const first = await change(db, id, { passes, message, where: here });
  if ("row" in first) return first.row;
  if (first.found.check === "unknown") {
    throw unprocessable("no_verifier", "Nothing here knows a verifier of that type.");
  }
  const verdict = await ask(first.found);
  if ("crashed" in verdict) throw unprocessable("verifier_crashed", `The verifier crashed: ${verdict.crashed}`);
  const again = {
    passes: sql<boolean>`${verdict.passes}::boolean`,
    message: sql<string>`${storable(verdict.message)}::text`,
  };
  const second = await change(db, id, { ...again, where: sql`true` });
  return "row" in second ? second.row : second.found;
}

type Change = { passes: RawBuilder<boolean>; message: RawBuilder<string>; where: RawBuilder<SqlBool> };

/** Writes down what a verifier has found, where it applies, and answers the row; else what was found there. */
async function change(
  db: TenantDb,
  id: Id<"agent_health_action">,
  { passes, message, where }: Change,
): Promise<{ row: HealthActionRow } | { found: Checked }> {
  const action = reachChild(db, "agent_health_action", id, "write");
  const unfinished = db
    .selectFrom("agent_health_actions")
    .select("agent_health_actions.id")
    .where("status", "not in", ["completed", "degraded"])
    .where(sql<boolean>`id = any (array(${action.rows.select(sql`unnest(depends_on)`.as("id"))}))`);
  const status = sql<HealthStatus>`case when ${passes} then 'completed' when status = 'pending' then 'pending' else 'degraded' end`;
  const patch = action.db
    .patch("agent_health_actions", { status, last_verified_at: sql<string>`now()`, last_verifier_message: message })
    .where("id", "in", action.rows.select("id"))
    .where("status", "<>", "skipped")
    .where(where as RawBuilder<boolean>)
    .where(sql<boolean>`not exists ${unfinished}`);
  const { verified, found, waits } = await action.db.batch({
    verified: action.db.telling(patch, telling(db, "agent_health_action", "updated")),
    found: action.rows.selectAll().select(checkOf.as("check")),
    waits: unfinished,
  });
  if (verified[0]) return { row: verified[0] };
  const [row] = found;
  if (!row) throw notFound("agent_health_action");
  if (row.status === "skipped") return { row };
  if (waits.length) {
    throw unprocessable("dependencies_unfinished", `Do these first: ${waits.map((one) => one.id).join(", ")}.`);
  }
  return { found: row as Checked };
}

/** Leaves an action undone for good. 422 for one that is required. */
export const skipHealthAction = (db: TenantDb, id: Id<"agent_health_action">): Promise<HealthActionRow> =>
  updateChild(
    db,
    "agent_health_action",
    id,
    { status: "skipped" },
    {
      where: sql`not required`,
      otherwise: () => unprocessable("action_required", "A required action can't be skipped."),
    },
  );

/** Takes back that an action was done, or skipped. */
export const reopenHealthAction = (db: TenantDb, id: Id<"agent_health_action">): Promise<HealthActionRow> =>
  updateChild(db, "agent_health_action", id, { status: "pending" });
