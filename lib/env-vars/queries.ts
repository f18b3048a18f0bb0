import { sql } from "kysely";
import { createChild, reachChild, updateChild } from "../agents/children.ts";
import { reachAgent } from "../agents/queries.ts";
import { openFor, sealedTables, sealFor, tagged } from "../auth/vault.ts";
import type { Row } from "../db/schema.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { notFound } from "../errors.ts";
import type { Id } from "../ids.ts";
import { type CreateEnvVar, hintOf, shown, type UpdateEnvVar } from "./schema.ts";

type EnvVarId = Id<"agent_env_var">;

const seal = (db: TenantDb, roots: string, id: EnvVarId, value: string) =>
  sealFor(roots, { table: "agent_env_vars", app: db.tenant.app, sandbox: db.tenant.sandbox, id }, value);

/** An agent's env vars, newest first, for who may change the agent. */
export function listEnvVars(db: TenantDb, agent: string) {
  const above = reachAgent(db, agent, "write");
  return above.db
    .selectFrom("agent_env_vars")
    .select([...shown])
    .where("agent_id", "in", above.rows.select("id"))
    .orderBy(sql`id desc`)
    .execute();
}

/** One, for who may change its agent. */
export function getEnvVar(db: TenantDb, id: EnvVarId) {
  const one = reachChild(db, "agent_env_var", id, "write");
  return one.db
    .selectFrom("agent_env_vars")
    .select([...shown])
    .where("id", "in", one.rows.select("id"))
    .executeTakeFirstOrThrow(() => notFound("agent_env_var"));
}

/** All of an agent's env vars, sealed. */
export const sealedOf = (db: TenantDb, agent: Id<"agent">) =>
  db.selectFrom("agent_env_vars").selectAll().where("agent_id", "=", agent);

/** The values of env vars by their keys, for their agent's own work: opened in memory, and to be kept nowhere. */
export async function openSecrets(roots: string, rows: Row<"agent_env_vars">[]): Promise<Record<string, string>> {
  const opened = rows.map(async (row): Promise<[string, string]> => {
    const slot = { table: "agent_env_vars", app: row.app_id, sandbox: row.sandbox_id, id: row.id } as const;
    const place = sealedTables.agent_env_vars.map((column) => row[column]);
    const sealed = row.sealed as Uint8Array<ArrayBuffer>;
    return [row.key, await openFor(roots, { slot, place, sealed, tag: row.tag })];
  });
  return Object.fromEntries(await Promise.all(opened));
}

/** All of an agent's env vars with their values, as `openSecrets` gives them. */
export const readSecrets = async (db: TenantDb, roots: string, agent: Id<"agent">): Promise<Record<string, string>> =>
  openSecrets(roots, await sealedOf(db, agent).execute());

/** Keeps a secret of an agent. 422 on a key that the agent already has. */
export async function createEnvVar(
  db: TenantDb,
  roots: string,
  agent: string,
  id: EnvVarId,
  { key, value, description }: CreateEnvVar,
): Promise<Row<"agent_env_vars">> {
  const secret = await seal(db, roots, id, value);
  const place = [sql`app_id`, sql`sandbox_id`, sql`org_id`, sql`agents.id`, sql`${id}::text`, sql`${key}::text`];
  return createChild(db, "agent_env_var", agent, id, {
    ...{ key, description: description ?? null, hint: hintOf(value) },
    ...{ sealed: secret.sealed, tag: tagged(secret, place) },
  });
}

/** Changes an env var. The same value again changes nothing, though every sealing of it is another. */
export async function updateEnvVar(db: TenantDb, roots: string, id: EnvVarId, body: UpdateEnvVar) {
  const { value, description } = body;
  const fields = Object.keys(body);
  if (value === undefined) return updateChild(db, "agent_env_var", id, { description }, { fields });
  const secret = await seal(db, roots, id, value);
  const tag = tagged(
    secret,
    sealedTables.agent_env_vars.map((column) => sql.ref(column)),
  );
  const sealed = sql<Uint8Array>`case when tag = ${tag} then sealed else ${secret.sealed}::bytea end`;
  return updateChild(db, "agent_env_var", id, { description, sealed, tag, hint: hintOf(value) }, { fields });
}
