/** Reads pg_catalog and fails a new table that forgets a wall. */
import { expect, it } from "vitest";
import { sql } from "./harness/index.ts";

const tables = () =>
  sql<{ name: string }>("select tablename as name from pg_tables where schemaname = 'data' order by 1");

/** Tables whose `tenant` policy is their own; all others have the one that `app.wall` makes. */
const SPECIAL = ["apps", "sandboxes"];

it("has a wall round every table: row security enabled and forced, and the policies of app.wall", async () => {
  const rows = await sql(`select c.relname as name, c.relrowsecurity as enabled, c.relforcerowsecurity as forced,
      pg_get_userbyid(c.relowner) as owner, coalesce(p.cmd, 'no policy') as cmd, p.roles::text, p.qual, p.with_check,
      exists (select from pg_policies o where (o.schemaname, o.tablename, o.policyname) = ('data', c.relname, 'owner')
        and o.roles = '{agentry_owner}' and o.qual = 'true') as doors
    from pg_class c left join pg_policies p on (p.schemaname, p.tablename, p.policyname) = ('data', c.relname, 'tenant')
    where c.relnamespace = 'data'::regnamespace and c.relkind in ('r', 'p')`);
  expect(rows.length).toBeGreaterThan(9);
  const { qual } = rows.find(({ name }) => name === "tenants");
  expect(qual).toContain("app.tenant()");
  for (const { name, ...wall } of rows) {
    expect(wall, `data.${name}: call app.wall after its create table`).toMatchObject({
      ...{ enabled: true, forced: true, owner: "agentry_owner", roles: "{agentry_api}", doors: true },
      ...(!SPECIAL.includes(name) && { cmd: "ALL", qual, with_check: null }),
    });
  }
});

it("opens the wall nowhere but here: a policy more shows more rows", async () => {
  const rows =
    await sql(`select concat_ws(' ', tablename, policyname, lower(cmd), roles::text) as policy from pg_policies
    where schemaname = 'data' and policyname <> 'owner' and not (policyname = 'tenant' and tablename <> all ('{${SPECIAL}}'))
    order by 1`);
  expect(rows.map(({ policy }) => policy)).toEqual([
    "apps developer update {agentry_api}",
    "apps tenant select {agentry_api}",
    "sandboxes developer insert {agentry_api}",
    "sandboxes tenant select {agentry_api}",
  ]);
});

it("believes a proof and no setting: every policy of the runtime takes the whole tenant, in one look a statement", async () => {
  const rows = await sql(`select tablename, policyname, coalesce(qual, '') || coalesce(with_check, '') as text
    from pg_policies where schemaname = 'data' and policyname <> 'owner'`);
  for (const { tablename, policyname, text } of rows) {
    const name = `${tablename} ${policyname}`;
    // The one setting that is read decides how to compare, once a statement, and not with what.
    const comparison =
      /CASE\s+WHEN \(\( SELECT current_setting\('app.org_id'::text, true\) AS current_setting\) = '\*'::text\) THEN '\*'::text\s+ELSE org_id\s+END/;
    expect(text.replace(comparison, ""), name).not.toContain("current_setting");
    const looks = text.match(/app\.tenant\(\)/g)?.length ?? 0;
    const wrapped = text.match(/= \( SELECT (t\.\w+,?\s*)+FROM app\.tenant\(\) t\([^)]*\)/g)?.length ?? 0;
    expect([name, looks > 0, looks]).toEqual([name, true, wrapped]);
  }
});

it("names the tenant in every table, never null, and ties it to its place", async () => {
  for (const { name } of await tables()) {
    if (name === "apps") continue;
    const columns = await sql(
      "select column_name, is_nullable, collation_name from information_schema.columns where table_schema = 'data' and table_name = $1 and column_name in ('app_id', 'sandbox_id', 'org_id')",
      [name],
    );
    expect(columns.map((column) => column.column_name).sort(), name).toEqual(["app_id", "org_id", "sandbox_id"]);
    for (const column of columns) expect(column, name).toMatchObject({ is_nullable: "NO", collation_name: "C" });
    if (name === "tenants") continue;
    const [ties] = await sql(
      `select count(*)::int as n from pg_constraint c where c.conrelid = ('data.' || $1)::regclass and c.contype = 'f'
         and c.confrelid in ('data.tenants'::regclass, 'data.users'::regclass) and c.confdeltype = 'c'`,
      [name],
    );
    expect(ties.n, `${name} goes with its tenant`).toBeGreaterThan(0);
  }
});

it("leads every unique index with the tenant, so that no error tells of another's row", async () => {
  const rows = await sql(`select c.relname as index, t.relname as table,
      (select array_to_string(array_agg(a.attname order by k.n), ',') from unnest(i.indkey::int[]) with ordinality k(attnum, n)
        join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum) as columns
    from pg_index i join pg_class c on c.oid = i.indexrelid join pg_class t on t.oid = i.indrelid
    join pg_namespace n on n.oid = t.relnamespace where n.nspname = 'data' and i.indisunique`);
  for (const { index, table, columns } of rows) {
    if (table === "apps") continue;
    expect(columns, index).toMatch(/^app_id,(sandbox_id|slug)/);
  }
});

it("names every constraint that an answer is made from, within Postgres's length", async () => {
  const rows = await sql(`select c.conname, t.relname from pg_constraint c join pg_class t on t.oid = c.conrelid
    join pg_namespace n on n.oid = t.relnamespace where n.nspname = 'data' and c.contype in ('u', 'f')`);
  for (const { conname, relname } of rows) {
    expect(conname.length).toBeLessThan(63);
    expect(conname.startsWith(`${relname}_`), conname).toBe(true);
  }
});

it("has an index for every foreign key that a delete follows", async () => {
  const rows = await sql(`select c.conname, t.relname,
      (select array_agg(a.attname::text order by k.n) from unnest(c.conkey) with ordinality k(attnum, n)
        join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k.attnum) as columns,
      (select array_agg((select array_to_string(array_agg(a.attname order by k.n), ',') from unnest(i.indkey::int[]) with ordinality k(attnum, n)
        join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum)) from pg_index i where i.indrelid = c.conrelid) as indexes
    from pg_constraint c join pg_class t on t.oid = c.conrelid join pg_namespace n on n.oid = t.relnamespace
    where n.nspname = 'data' and c.contype = 'f'`);
  const list = (value: unknown): string[] =>
    Array.isArray(value)
      ? value
      : String(value)
          .replace(/^{|}$/g, "")
          .match(/"[^"]*"|[^,]+/g)!
          .map((item) => item.replaceAll('"', ""));
  for (const { conname, columns, indexes } of rows) {
    const wanted = list(columns).join(",");
    // A prefix of app and sandbox is enough where a partition holds few rows.
    const served = list(indexes).some(
      (index) =>
        `${index},`.startsWith(`${wanted},`) ||
        (/^(keys|sandboxes|tenants)_/.test(conname) && index.startsWith("app_id,sandbox_id")),
    );
    expect(served, `${conname} (${wanted})`).toBe(true);
  }
});

/** The functions that run as their owner, whom no policy narrows, and what each needs that for. */
const DEFINERS: Record<string, string> = {
  enter_key: "reads a secret key before its tenant is proven",
  enter_object: "reads the copies of the keys that MACs are checked by",
  enter_refresh: "reads a sign-in before its tenant is proven",
  enter_token: "reads a token before its tenant is proven",
  sweep: "deletes in every tenant what is past its time",
  tenant: "reads the secret that a proof is made with",
  within: "proves a narrower tenant than the one that is proven",
};

it("has no view, and no function that runs as its owner but those with a reason", async () => {
  const views = await sql(
    "select relname from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname in ('data', 'app') and c.relkind in ('v', 'm')",
  );
  expect(views).toEqual([]);
  const functions = await sql(`select p.proname, p.prosecdef, array_to_string(p.proconfig, ';') as config, p.prosrc,
      has_function_privilege('public', p.oid, 'execute') as public
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname in ('data', 'app') order by 1`);
  expect(functions.length).toBeGreaterThan(5);
  expect(functions.filter(({ prosecdef }) => prosecdef).map(({ proname }) => proname)).toEqual(Object.keys(DEFINERS));
  for (const { proname, prosecdef, config, prosrc, public: open } of functions) {
    expect(open, proname).toBe(false);
    // Part of the two that call it, and so under what they set.
    if (proname === "proof") continue;
    // Where pg_temp isn't named, it is searched first for tables and types: what runs as the owner names it, last.
    expect(
      prosecdef ? ["search_path=pg_catalog, pg_temp"] : ['search_path=""', "search_path=pg_catalog, pg_temp"],
    ).toContain(config);
    if (prosecdef) expect(prosrc, proname).not.toMatch(/\bexecute\b/i);
  }
});

/** Those that run as who calls them, whom the policies narrow. */
const INVOKERS = ["acl_patch", "acl_principals", "family_user", "mint_token", "must_reach", "rotate_token"];

it("lets the runtime role call these functions and no others: none that makes a proof, none that builds a wall", async () => {
  const rows = await sql(`select p.proname as name, (a.grantee = p.proowner) as owner, a.grantee::regrole::text as role
    from pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
    where p.pronamespace in ('app'::regnamespace, 'data'::regnamespace) order by 1`);
  expect(rows.filter(({ owner }) => !owner).map(({ name, role }) => [name, role])).toEqual(
    [...Object.keys(DEFINERS), ...INVOKERS].sort().map((name) => [name, "agentry_api"]),
  );
});

it("keeps its secrets from the runtime role: of schema app it reads the names of the migrations alone", async () => {
  const rows =
    await sql(`select c.relname as name from pg_class c where c.relnamespace = 'app'::regnamespace and c.relkind = 'r'
    and (has_any_column_privilege('agentry_api', c.oid, 'select, insert, update, references')
      or has_table_privilege('agentry_api', c.oid, 'delete, truncate, trigger'))`);
  expect(rows).toEqual([{ name: "migrations" }]);
  const [secrets] = await sql(`select count(*)::int as n, min(octet_length(secret)) as length from app.proof_secret`);
  expect(secrets).toEqual({ n: 1, length: 32 });
});

it("leaves the runtime role nothing to keep beside the tables: no temporary ones, no large objects, no schema", async () => {
  const [may] =
    await sql(`select has_database_privilege('agentry_api', current_database(), 'create, temporary') as database,
    exists (select from pg_namespace n where has_schema_privilege('agentry_api', n.oid, 'create')) as schema,
    exists (select from pg_proc p where p.proname ~ '^lo_|^lo(read|write)$' and p.pronamespace = 'pg_catalog'::regnamespace
      and has_function_privilege('agentry_api', p.oid, 'execute')) as large_objects`);
  expect(may).toEqual({ database: false, schema: false, large_objects: false });
});

it("gives the runtime role nothing beyond rows: it owns nothing, bypasses nothing, creates nothing", async () => {
  const [role] = await sql(`select rolsuper, rolbypassrls, rolcreaterole, rolcreatedb,
      (select count(*)::int from pg_class where relowner = r.oid) as owned,
      has_schema_privilege(rolname, 'data', 'create') or has_schema_privilege(rolname, 'app', 'create') as creates
    from pg_roles r where rolname = 'agentry_api'`);
  expect(role).toEqual({
    rolsuper: false,
    rolbypassrls: false,
    rolcreaterole: false,
    rolcreatedb: false,
    owned: 0,
    creates: false,
  });
  const truncatable = await sql(
    "select c.relname from pg_class c where c.relnamespace = 'data'::regnamespace and c.relkind = 'r' and has_table_privilege('agentry_api', c.oid, 'truncate')",
  );
  expect(truncatable).toEqual([]);
});
