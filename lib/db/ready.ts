import { CompiledQuery } from "kysely";
import { connect } from "./neon.ts";
import { SCHEMA_VERSION } from "./version.ts";

type Facts = { role: string; bypasses: boolean; owns: boolean; version: number | null };

/**
 * What keeps the database from serving: a role that row-level security does not hold, or a schema of another
 * version. Empty: all is well. Throws where it can't be reached.
 */
export async function faultsOfDatabase(url: string): Promise<string[]> {
  const [result] = await connect(url)(
    [
      CompiledQuery.raw(`select current_user as role, r.rolsuper or r.rolbypassrls as bypasses,
        exists (select from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
                 where n.nspname in ('data', 'app') and pg_has_role(current_user, c.relowner, 'member')) as owns,
        (select max(version) from app.schema_versions) as version
        from pg_catalog.pg_roles r where r.rolname = current_user`),
    ],
    "read",
  );
  const { role, bypasses, owns, version } = result!.rows[0] as Facts;
  const faults: string[] = [];
  if (bypasses) faults.push(`The role ${role} bypasses row-level security. Connect as agentry_api.`);
  else if (owns) faults.push(`The role ${role} owns the tables. Connect as agentry_api.`);
  if (version !== SCHEMA_VERSION) {
    faults.push(`The schema is version ${version}, this code wants ${SCHEMA_VERSION}. Run npm run migrate.`);
  }
  return faults;
}
