import { CompiledQuery } from "kysely";
import { mac } from "../auth/secrets.ts";
import { refusal } from "./errors.ts";
import { type Connection, connect } from "./neon.ts";
import { MIGRATIONS } from "./version.ts";

type Facts = { role: string; bypasses: boolean; owns: boolean };

/**
 * What keeps the database from serving: a role that row-level security does not hold, another schema than this code's,
 * or no copy of the key that its doors check MACs by. Empty: all is well. Throws where it can't be reached.
 */
export async function faultsOfDatabase(url: string, roots: string): Promise<string[]> {
  const connection = connect(url);
  const [{ role, bypasses, owns }, applied, knowsRoot] = await Promise.all([
    readFacts(connection),
    readApplied(connection),
    checkRoot(connection, roots),
  ]);
  const faults: string[] = [];
  if (bypasses) faults.push(`The role ${role} bypasses row-level security. Connect as agentry_api.`);
  else if (owns) faults.push(`The role ${role} owns the tables. Connect as agentry_api.`);
  const missing = MIGRATIONS.filter((name) => !applied.includes(name));
  if (missing.length) faults.push(`The database has no record of ${missing.join(", ")}. Run npm run migrate.`);
  const unknown = applied.filter((name) => !MIGRATIONS.includes(name));
  if (unknown.length) {
    faults.push(`The database is newer than this code: it has ${unknown.join(", ")}. Deploy the code that made it so.`);
  }
  if (!knowsRoot) {
    faults.push("The database doesn't know the newest of ROOT_SECRETS. Run npm run migrate with ROOT_SECRETS set.");
  }
  return faults;
}

/** Whether a Durable Object would be let in by the newest root secret. An older schema has another fault to tell of. */
async function checkRoot(connection: Connection, roots: string): Promise<boolean> {
  try {
    const tag = await mac(roots, "ready", "door");
    await connection([CompiledQuery.raw("select app.check_root($1)", [tag])], "read");
  } catch (error) {
    const code = refusal(error)?.code;
    if (code !== UNKNOWN_ROOT && code !== UNDEFINED_FUNCTION) throw error;
    return code === UNDEFINED_FUNCTION;
  }
  return true;
}

async function readFacts(connection: Connection): Promise<Facts> {
  const facts = CompiledQuery.raw(`select current_user as role, r.rolsuper or r.rolbypassrls as bypasses,
    exists (select from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
             where n.nspname in ('data', 'app') and pg_has_role(current_user, c.relowner, 'member')) as owns
    from pg_catalog.pg_roles r where r.rolname = current_user`);
  const [result] = await connection([facts], "read");
  return result!.rows[0] as Facts;
}

/** Version 1 kept no names, and neither has a database that was never migrated. */
async function readApplied(connection: Connection): Promise<string[]> {
  try {
    const [result] = await connection([CompiledQuery.raw("select name from app.migrations order by name")], "read");
    return (result!.rows as { name: string }[]).map(({ name }) => name);
  } catch (error) {
    if (refusal(error)?.code === UNDEFINED_TABLE) return [];
    throw error;
  }
}

const UNDEFINED_TABLE = "42P01";
const UNDEFINED_FUNCTION = "42883";
const UNKNOWN_ROOT = "AE503";
