import { CompiledQuery } from "kysely";
import { refusal } from "./errors.ts";
import { type Connection, connect } from "./neon.ts";
import { MIGRATIONS } from "./version.ts";

type Facts = { role: string; bypasses: boolean; owns: boolean };

/**
 * What keeps the database from serving: a role that row-level security does not hold, or another schema than this
 * code's. Empty: all is well. Throws where it can't be reached.
 */
export async function faultsOfDatabase(url: string): Promise<string[]> {
  const connection = connect(url);
  const [{ role, bypasses, owns }, applied] = await Promise.all([readFacts(connection), readApplied(connection)]);
  const faults: string[] = [];
  if (bypasses) faults.push(`The role ${role} bypasses row-level security. Connect as agentry_api.`);
  else if (owns) faults.push(`The role ${role} owns the tables. Connect as agentry_api.`);
  const missing = MIGRATIONS.filter((name) => !applied.includes(name));
  if (missing.length) faults.push(`The database has no record of ${missing.join(", ")}. Run npm run migrate.`);
  const unknown = applied.filter((name) => !MIGRATIONS.includes(name));
  if (unknown.length) {
    faults.push(`The database is newer than this code: it has ${unknown.join(", ")}. Deploy the code that made it so.`);
  }
  return faults;
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
