import type { Database } from "../../../lib/local/neon.ts";

const acl = (acl: string, kind: string, owner: string) => `array_to_string(array(
  select format('%s:%s%s', coalesce(nullif(grantee, 0)::regrole::text, 'public'), privilege_type,
    case when is_grantable then '*' end)
  from aclexplode(coalesce(${acl}, acldefault('${kind}', ${owner}))) order by 1), ' ')`;

const OURS = "('app'::regnamespace, 'data'::regnamespace)";

/** What stands in pg_catalog of our two schemas, a line a thing. Columns have no order: a migration adds at the end. */
const LINES = {
  schemas: `select nspname, nspowner::regrole, ${acl("nspacl", "n", "nspowner")}
    from pg_namespace where oid in ${OURS}`,
  relations: `select oid::regclass, relkind, relpersistence, relowner::regrole, reloptions,
      relrowsecurity as enabled, relforcerowsecurity as forced, ${acl("relacl", "r", "relowner")}
    from pg_class where relnamespace in ${OURS} and relkind not in ('i', 'I')`,
  columns: `select attrelid::regclass, attname, format_type(atttypid, atttypmod), attnotnull, attgenerated, attidentity,
      attcollation::regcollation, pg_get_expr(adbin, adrelid),
      ${acl("attacl", "c", "relowner")}
    from pg_attribute join pg_class c on c.oid = attrelid left join pg_attrdef on (adrelid, adnum) = (attrelid, attnum)
    where relnamespace in ${OURS} and relkind not in ('i', 'I') and attnum > 0 and not attisdropped`,
  constraints: `select conrelid::regclass, conname, pg_get_constraintdef(oid), convalidated
    from pg_constraint where connamespace in ${OURS}`,
  indexes: `select pg_get_indexdef(indexrelid), indisvalid, indisreplident
    from pg_index join pg_class c on c.oid = indexrelid where relnamespace in ${OURS}`,
  policies: `select polrelid::regclass, polname, polcmd, polpermissive, polroles::regrole[],
      pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid)
    from pg_policy join pg_class c on c.oid = polrelid where relnamespace in ${OURS}`,
  functions: `select pg_get_functiondef(oid), proowner::regrole, ${acl("proacl", "f", "proowner")}
    from pg_proc where pronamespace in ${OURS}`,
  triggers: `select pg_get_triggerdef(t.oid), tgenabled
    from pg_trigger t join pg_class c on c.oid = tgrelid where relnamespace in ${OURS} and not tgisinternal`,
  types: `select t.oid::regtype, typtype, typowner::regrole, array(
      select enumlabel from pg_enum where enumtypid = t.oid order by enumsortorder)
    from pg_type t where typnamespace in ${OURS} and typtype in ('d', 'e', 'r')`,
  defaults: `select defaclrole::regrole, defaclnamespace, defaclobjtype, defaclacl from pg_default_acl`,
  roles: `select rolname, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolinherit, rolcanlogin, array(
      select roleid::regrole::text from pg_auth_members where member = r.oid order by 1)
    from pg_roles r where rolname in ('agentry_owner', 'agentry_api')`,
  database: `select rolname, has_database_privilege(rolname, current_database(), 'create'),
      has_database_privilege(rolname, current_database(), 'temporary'),
      array(select p.oid::regprocedure::text from pg_proc p where p.proname ~ '^lo_|^lo(read|write)$'
        and has_function_privilege(r.oid, p.oid, 'execute') order by 1),
      array(select unnest(setconfig) from pg_db_role_setting where setrole = r.oid
        and setdatabase = (select oid from pg_database where datname = current_database()) order by 1)
    from pg_roles r where rolname in ('agentry_owner', 'agentry_api')`,
  migrations: "select name from app.migrations",
};

export async function readCatalog(database: Database): Promise<Record<string, string[]>> {
  const catalog: Record<string, string[]> = {};
  for (const [things, query] of Object.entries(LINES)) {
    const rows = await database.query<{ line: string }>(`select row(found.*)::text as line from (${query}) found`);
    catalog[things] = rows.map(({ line }) => line).sort();
  }
  return catalog;
}
