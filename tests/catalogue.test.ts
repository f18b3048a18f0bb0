/** Reads pg_catalog and fails a new table that forgets a wall. */
import { expect, it } from "vitest";
import { holders } from "../lib/configs/uses.ts";
import { sql } from "./harness/index.ts";

const tables = () =>
  sql<{ name: string }>("select tablename as name from pg_tables where schemaname = 'data' order by 1");

/** Tables whose `tenant` policy is their own; all others have the one that `app.wall` makes. */
const SPECIAL = ["apps", "sandboxes"];

it("has a wall round every table: row security enabled and forced, and the policies of app.wall", async () => {
  const rows = await sql(`select c.relname as name, c.relrowsecurity as enabled, c.relforcerowsecurity as forced,
      pg_get_userbyid(c.relowner) as owner, coalesce(p.cmd, 'no policy') as cmd, p.roles::text, p.qual, p.with_check,
      coalesce((select array_agg(a.attname::text order by a.attnum) from pg_attribute a where a.attrelid = c.oid
        and (a.attname = 'org_id' or (c.relname in ('users', 'agents') and a.attname = 'id') or exists (select from pg_constraint f
          where f.conrelid = c.oid and f.confrelid in ('data.users'::regclass, 'data.agents'::regclass) and f.confdeltype = 'c'
            and a.attnum = f.conkey[cardinality(f.conkey)]))), '{}')::text as above,
      exists (select from pg_policies o where (o.schemaname, o.tablename, o.policyname) = ('data', c.relname, 'owner')
        and o.roles = '{agentry_owner}' and o.qual = 'true') as doors
    from pg_class c left join pg_policies p on (p.schemaname, p.tablename, p.policyname) = ('data', c.relname, 'tenant')
    where c.relnamespace = 'data'::regnamespace and c.relkind in ('r', 'p')`);
  expect(rows.length).toBeGreaterThan(9);
  const { qual } = rows.find(({ name }) => name === "tenants");
  expect(qual).toContain("app.tenant()");
  for (const { name, above, ...wall } of rows) {
    // What a row goes with, an org, a user or an agent, may have ended.
    const own = qual.replace("ARRAY[org_id]", `ARRAY[${above.slice(1, -1).replaceAll(",", ", ")}]`);
    expect(wall, `data.${name}: call app.wall after its create table`).toMatchObject({
      ...{ enabled: true, forced: true, owner: "agentry_owner", roles: "{agentry_api}", doors: true },
      ...(!SPECIAL.includes(name) && { cmd: "ALL", qual: own, with_check: null }),
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
    "sandboxes ending delete {agentry_api}",
    "sandboxes tenant select {agentry_api}",
  ]);
});

it("believes a proof and no setting: every policy of the runtime takes the whole tenant, in one look a statement", async () => {
  const rows = await sql(`select tablename, policyname, coalesce(qual, '') || coalesce(with_check, '') as text
    from pg_policies where schemaname = 'data' and policyname <> 'owner'`);
  for (const { tablename, policyname, text } of rows) {
    const name = `${tablename} ${policyname}`;
    // Of the settings that are read, once a statement, one decides how to compare, and not with what, and one takes rows
    // away.
    const comparison =
      /CASE\s+WHEN \(\( SELECT \(current_setting\('app.ended'::text, true\) <> ''::text\)\) AND \(\( SELECT string_to_array\(current_setting\('app.ended'::text, true\), ','::text\) AS string_to_array\) && ARRAY\[[\w, ]+\]\)\) THEN NULL::text\s+WHEN \(\( SELECT current_setting\('app.org_id'::text, true\) AS current_setting\) = '\*'::text\) THEN '\*'::text\s+ELSE org_id\s+END/;
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
         and c.confrelid in ('data.tenants'::regclass, 'data.users'::regclass, 'data.agents'::regclass, 'data.configs'::regclass)
         and c.confdeltype = 'c'`,
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

it("ends with a tenant, a user or an agent every table that hangs on it, in slices: what hangs on a row before the row", async () => {
  const [{ of_tenant, of_user, of_agent }] = await sql(`select
    (select prosrc from pg_proc where oid = 'app.slice_of_tenant'::regproc) as of_tenant,
    (select prosrc from pg_proc where oid = 'app.slice_of_user'::regproc) as of_user,
    (select prosrc from pg_proc where oid = 'app.slice_of_agent'::regproc) as of_agent`);
  const deletes = (source: string) => [...source.matchAll(/delete from data\.(\w+)/g)].map(([, name]) => name!);
  // Tables whose one row of a tenant goes with its end.
  const records = ["apps", "tenants", "orgs", "sandboxes"];
  const rest = (await tables()).map(({ name }) => name).filter((name) => !records.includes(name));
  expect(deletes(of_tenant).toSorted()).toEqual(rest);
  const ties = await sql<{
    child: string;
    parent: string;
    cascades: boolean;
  }>(`select t.relname as child, p.relname as parent,
      c.confdeltype = 'c' as cascades
    from pg_constraint c join pg_class t on t.oid = c.conrelid join pg_class p on p.oid = c.confrelid
    where c.contype = 'f' and t.relnamespace = 'data'::regnamespace and t.oid <> p.oid`);
  const hangingOn = (root: string) => {
    const hanging = new Set<string>([root]);
    for (const _ of ties) {
      for (const { child, parent, cascades } of ties) if (cascades && hanging.has(parent)) hanging.add(child);
    }
    return [...hanging].filter((name) => name !== root).toSorted();
  };
  expect([...new Set(deletes(of_user))].toSorted()).toEqual(hangingOn("users"));
  expect([...new Set(deletes(of_agent))].toSorted()).toEqual(hangingOn("agents"));
  for (const order of [deletes(of_tenant), deletes(of_user), deletes(of_agent)]) {
    for (const { child, parent } of ties) {
      if (!order.includes(child) || !order.includes(parent)) continue;
      expect(order.lastIndexOf(child), `${child} before ${parent}`).toBeLessThan(order.indexOf(parent));
    }
  }
});

it("frees at once what was unique in an app: the rows of what has ended are still there", async () => {
  const rows = await sql(`select t.relname as table, a.attname as column, exists (select from pg_trigger g
      where g.tgrelid = t.oid and g.tgname = 'free_' || case a.attname when 'email_key' then 'email' else a.attname end) as freed
    from pg_constraint c join pg_class t on t.oid = c.conrelid join pg_attribute a on a.attrelid = t.oid
     and a.attnum = c.conkey[cardinality(c.conkey)]
    where c.contype = 'u' and t.relnamespace = 'data'::regnamespace and a.attname <> 'id' and not exists (
      select from pg_attribute o where o.attrelid = t.oid and o.attname = 'org_id' and o.attnum = any (c.conkey))
    order by t.relname, a.attname`);
  // Of an org and a sandbox the record goes at once, and a key's hash is of its sandbox.
  const records = ["orgs", "sandboxes", "keys"];
  expect(rows.filter(({ table }) => !records.includes(table))).toEqual([
    { table: "agent_computers", column: "lookup_key", freed: true },
    { table: "agents", column: "lookup_key", freed: true },
    { table: "users", column: "email_key", freed: true },
  ]);
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

it("keeps every config that something refers to: what does is among the holders of lib/configs/queries.ts", async () => {
  const rows = await sql(`select c.conrelid::regclass::text as name, a.attname as column, c.confdeltype as on_delete
    from pg_constraint c join pg_attribute a on a.attrelid = c.conrelid and a.attnum = c.conkey[4]
    where c.contype = 'f' and c.confrelid = 'data.configs'::regclass order by 1, 2`);
  // What goes with a config keeps none.
  const keeps = rows.filter(({ on_delete }) => on_delete === "a").map(({ name, column }) => `${name}.${column}`);
  expect(keeps).toEqual(holders.map(({ table, column }) => `data.${table}.${column}`).sort());
  expect(rows.length - keeps.length).toBe(3);
});

it("follows no foreign key to rows without number: what lets go of a row is a user's, and let go of in slices", async () => {
  const rows = await sql(`select c.conname, c.confrelid::regclass::text as of, strpos(p.prosrc,
      format('update %s set %I = null', c.conrelid::regclass, a.attname)) > 0 as sliced
    from pg_constraint c join pg_attribute a on a.attrelid = c.conrelid and a.attnum = c.confdelsetcols[1],
      pg_proc p where c.contype = 'f' and c.confdeltype in ('n', 'd') and p.oid = 'app.slice_of_user'::regproc order by 1`);
  expect(rows).toEqual([
    { conname: "agent_routine_runs_user_fkey", of: "data.users", sliced: true },
    { conname: "agent_routines_user_fkey", of: "data.users", sliced: true },
  ]);
});

/** The functions that run as their owner, whom no policy narrows, and what each needs that for. */
const DEFINERS: Record<string, string> = {
  ask_by_mail: "counts what a visitor asks for, and keeps what is mailed, where no tenant is proven",
  ask_developer: "counts who asks for a code, and keeps it, where no tenant is proven",
  bring_in: "takes a user of no org into one, for whoever has a MAC over the two",
  check_root: "reads the copies of the keys that MACs are checked by",
  claim_behind: "the sweep's: looks in every tenant for sessions that nobody has heard of",
  claim_behind_endpoints: "the sweep's: looks in every tenant for webhook endpoints that have missed their alarm",
  claim_behind_runs: "the sweep's: looks in every tenant for runs that nobody has heard of",
  claim_computers: "the sweep's: looks in every tenant for computers that nobody has had made yet",
  claim_erasures: "the sweep's: reads which objects are to erase themselves",
  claim_sso_warnings: "the sweep's: looks in every tenant for certificates that end soon, and whom to tell",
  claim_unnumbered: "the sweep's: looks in every tenant for events that nobody has numbered or handed on",
  decide_device: "marks what a device waits for, of the app's own place, for a person of an org",
  due_places: "the sweep's: looks in every tenant for places where something is due soon",
  end_row: "a trigger: deletes the first slice of what an org, a sandbox or a user leaves behind",
  enter_by_mail: "uses up what was mailed, and finds whose the address is, before its tenant is proven",
  enter_by_password: "counts and compares before its tenant is proven",
  enter_client: "reads an OAuth client before its tenant is proven",
  enter_code: "ends what a code gave that comes again, with no tenant proven",
  enter_developer: "reads a developer's sign-in before its tenant is proven",
  enter_device: "reads what a device waits for before its tenant is proven",
  enter_hook: "reads a webhook's token before its tenant is proven",
  enter_key: "reads a secret key before its tenant is proven",
  enter_login: "uses up a login token before its tenant is proven",
  enter_object: "reads the copies of the keys that MACs are checked by",
  enter_once: "uses up a secret that works once before its tenant is proven",
  enter_refresh: "reads a sign-in before its tenant is proven",
  enter_scim: "reads a SCIM token before its tenant is proven",
  enter_session: "reads a sign-in before its tenant is proven",
  enter_sso: "sees whether an org has SSO before its tenant is proven",
  enter_token: "reads a token before its tenant is proven",
  erased: "the sweep's: forgets an object that has erased itself",
  free_computer_lookup_key: "a trigger: takes a key from a row that nobody finds any more",
  free_domain: "a trigger: takes a domain from an org that nobody finds any more",
  free_email: "a trigger: takes an address from a row that nobody finds any more",
  free_lookup_key: "a trigger: takes a lookup_key from a row that nobody finds any more",
  is_heard: "says whether anybody listens in a place of the proven tenant, beside the app's own endpoints, and no more",
  leave_computers: "a trigger: notes which computers are to be ended",
  leave_objects: "a trigger: notes which objects have lost their row",
  leave_runs: "a trigger: notes which runs an agent's object is to forget",
  password_of: "reads how a password is worked out before its tenant is proven",
  register_by_password: "counts, and makes an org of somebody's own, before its tenant is proven",
  set_password: "counts tries, which no tenant has",
  show_invitation: "reads what a mailed key is for, before its tenant is proven",
  show_login: "reads the names of an app and an org, for a page that anybody may open",
  sign_in_developer: "uses up a developer's code, and makes the sign-in, with no tenant proven",
  sso_of: "reads which org's provider a domain's people come by, with no tenant proven",
  sweep: "deletes in every tenant what is past its time",
  tenant: "reads the secret that a proof is made with",
  webhooks_of: "the Dispatcher's: reads what the app's own webhook endpoints listen for beside the org's",
  within: "proves a narrower tenant than the one that is proven",
};

const SLICES = "search_path=pg_catalog, pg_temp;plan_cache_mode=force_custom_plan";
const TRIGGERS = [
  "end_row",
  "free_computer_lookup_key",
  "free_domain",
  "free_email",
  "free_lookup_key",
  "leave_computers",
  "leave_objects",
  "leave_runs",
];

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
      prosecdef ? ["search_path=pg_catalog, pg_temp"] : ['search_path=""', "search_path=pg_catalog, pg_temp", SLICES],
    ).toContain(config);
    if (prosecdef) expect(prosrc, proname).not.toMatch(/\bexecute\b/i);
  }
});

/** Those that run as who calls them, whom the policies narrow. */
const INVOKERS = [
  "acl_patch",
  "acl_principals",
  "act_as",
  "due_at",
  "end_sign_ins",
  "end_sso",
  "family_user",
  "heard_since",
  "lets_in",
  "must_hold",
  "must_reach",
  "next_warning",
  "note_sso_attempt",
  "number_events",
  "rotate_token",
  "sign_in",
  "sign_in_as_kept",
  "sign_in_granted",
  "take_sso",
  "vouches",
  "watch",
  "with_ids",
];

it("lets the runtime role call these functions and no others: none that makes a proof, none that builds a wall", async () => {
  const rows = await sql(`select p.proname as name, (a.grantee = p.proowner) as owner, a.grantee::regrole::text as role
    from pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
    where p.pronamespace in ('app'::regnamespace, 'data'::regnamespace) order by 1`);
  expect(rows.filter(({ owner }) => !owner).map(({ name, role }) => [name, role])).toEqual(
    [...Object.keys(DEFINERS).filter((name) => !TRIGGERS.includes(name)), ...INVOKERS]
      .sort()
      .map((name) => [name, "agentry_api"]),
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
