-- agentry's schema, whole, as it is now. Applied to an empty database in one transaction, by whoever owns it: a
-- superuser or a role with CREATEROLE and CREATE on the database is enough. lib/db/migrations/ brings an older
-- database here.
--
-- Two schemas, neither in anybody's search_path: `data` holds the tables, so that only TenantDb can name them;
-- `app` holds the doors. A tenant is (app_id, sandbox_id, org_id); '-' stands for production and for no org:
-- never null (a foreign key with a null in it isn't checked), never '' (an unset setting reads as that).

do $roles$
declare
  -- From version 16 on, a role's maker is its member at once, but may not take it on without a further grant.
  taking text := case when current_setting('server_version_num')::int < 160000 then 'member' else 'set' end;
begin
  -- Without passwords: a deployment sets agentry_api's. agentry_owner is taken on by `set role`, never by login.
  -- The roles are the server's: another database of it may be making them at this moment.
  begin
    if not exists (select from pg_roles where rolname = 'agentry_owner') then
      create role agentry_owner nologin;
    end if;
    if not exists (select from pg_roles where rolname = 'agentry_api') then
      create role agentry_api login nosuperuser nocreatedb nocreaterole noinherit;
    end if;
  exception when duplicate_object or unique_violation then null;
  end;
  if not pg_has_role(current_user, 'agentry_owner', taking) then
    execute format('grant agentry_owner to %I', current_user);
  end if;
  if not pg_has_role(current_user, 'agentry_api', taking) then
    execute format('grant agentry_api to %I', current_user);
  end if;
  execute format('grant create on database %I to agentry_owner', current_database());
end
$roles$;

set local role agentry_owner;

-- A function is its owner's alone until it is granted, by name.
alter default privileges revoke execute on functions from public;

create schema app;
create schema data;
grant usage on schema app, data to agentry_api;

-- Which migrations this database has. Their count is the version.
create table app.migrations (
  name       text collate "C" primary key,
  applied_at timestamptz not null default now()
);
grant select on app.migrations to agentry_api;
insert into app.migrations (name) values
  ('2026-11-21-first'),
  ('2026-11-21-names-and-walls'),
  ('2026-11-21-proven-tenants'),
  ('2026-11-21-row-sizes'),
  ('2026-11-21-timeouts'),
  ('2026-11-22-acting-users'),
  ('2026-11-22-computers'),
  ('2026-11-22-configs'),
  ('2026-11-22-env-vars'),
  ('2026-11-22-health-actions'),
  ('2026-11-22-installations'),
  ('2026-11-22-mint'),
  ('2026-11-22-routines'),
  ('2026-11-22-schedules'),
  ('2026-11-22-skills'),
  ('2026-11-22-slices'),
  ('2026-11-22-slicing-agents'),
  ('2026-11-22-slicing-nothing'),
  ('2026-11-22-tools'),
  ('2026-11-22-uncompiled'),
  ('2026-11-22-usage'),
  ('2026-11-22-working-memory'),
  ('2026-11-22-written-together'),
  ('2026-11-23-named-configs'),
  ('2026-11-24-sessions'),
  ('2026-11-25-events'),
  ('2026-11-25-queues'),
  ('2026-11-25-runs'),
  ('2026-11-25-schedules'),
  ('2026-11-25-work-items'),
  ('2026-11-26-automations'),
  ('2026-11-27-computers'),
  ('2026-11-27-health'),
  ('2026-11-27-inbound-webhooks'),
  ('2026-11-27-webhooks'),
  ('2026-11-28-sign-ins'),
  ('2026-11-29-accounts'),
  ('2026-11-29-domains'),
  ('2026-11-29-invitations'),
  ('2026-11-29-oauth'),
  ('2026-11-29-scim'),
  ('2026-11-30-sso'),
  ('2026-12-01-developers'),
  ('2026-12-01-entry'),
  ('2026-12-01-webhook-sweep'),
  ('2026-12-02-sso'),
  ('2026-12-03-invitations'),
  ('2026-12-04-heard'),
  ('2026-12-04-kept'),
  ('2026-12-04-turns'),
  ('2026-12-05-numbered'),
  ('2026-12-05-waiting'),
  ('2026-12-06-fits'),
  ('2026-12-06-paused'),
  ('2026-12-06-sign-in'),
  ('2026-12-07-turns');

-- What makes a proof: known to this database alone, read by the owner's functions alone.
create table app.proof_secret (secret bytea not null);
insert into app.proof_secret
  select sha256(convert_to(concat(gen_random_uuid(), gen_random_uuid(), gen_random_uuid()), 'UTF8'));

-- The proof of a tenant, for this transaction of this session and no other, so that one that leaks is worth nothing
-- later. Numbers are taken as they are kept: their text depends on settings that anybody may change. An expression, that
-- becomes part of the two functions which have read the secret: a call of its own costs as much as the hash.
create function app.proof(secret bytea, app text, sandbox text, org text) returns text
language sql stable as $$
  select encode(sha256(secret || int4send(pg_backend_pid()) || timestamptz_send(transaction_timestamp())
    || convert_to(array[app, sandbox, org]::text, 'UTF8')), 'hex')
$$;

-- What has ended and still has rows: an org, a user, an agent, or a sandbox with all its orgs. Nobody finds any of them
-- from here on; the sweep deletes them by and by.
create table app.endings (
  app_id     text collate "C" not null,
  sandbox_id text collate "C" not null,
  id         text collate "C" not null,
  kind       text not null check (kind in ('org', 'sandbox', 'user', 'agent')),
  ended_at   timestamptz not null default now(),
  primary key (app_id, sandbox_id, id)
);

-- Opens a tenant until the transaction ends. What the runtime may call of those who call this, looks at a credential.
-- From here on no statement of the transaction runs for ever, nor waits for ever for another's lock, nor is compiled:
-- to compile one takes longer than any of them runs.
create function app.prove(app text, sandbox text, org text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  secret bytea;
  ended text;
begin
  select s.secret, (select string_agg(e.id, ',') from app.endings e where e.app_id = app and e.sandbox_id = sandbox)
    into secret, ended from app.proof_secret s;
  perform set_config('app.app_id', app, true), set_config('app.sandbox_id', sandbox, true),
    set_config('app.org_id', org, true), set_config('app.proof', app.proof(secret, app, sandbox, org), true),
    set_config('app.ended', coalesce(ended, ''), true),
    set_config('statement_timeout', '5s', true), set_config('lock_timeout', '2s', true), set_config('jit', 'off', true);
end $$;

-- The tenant that is open: nulls, unless a door has proven what the settings say. `org` is an org, '*' (a developer:
-- every org and the app's own rows) or '-' (only the app's own rows).
--
-- Functions that run as their owner name pg_temp, last: unnamed, it would be searched first for tables and types.
create function app.tenant(out app text, out sandbox text, out org text)
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
declare secret bytea;
begin
  select s.secret into secret from app.proof_secret s;
  app := current_setting('app.app_id', true);
  sandbox := current_setting('app.sandbox_id', true);
  org := current_setting('app.org_id', true);
  if (current_setting('app.proof', true) = app.proof(secret, app, sandbox, org)) is not true then
    app := null; sandbox := null; org := null;
  end if;
end $$;
grant execute on function app.tenant to agentry_api;

-- Wall two: row-level security, forced, on every table of `data`. Called after each `create table`, here and in a
-- migration, by the schema's owner and nobody else. The runtime owns nothing and can't bypass a policy; /readyz refuses
-- to serve otherwise. The owner is who the doors, the sweep and the operator's commands work as: each of their
-- statements names its tenant.
create function app.guard(tbl regclass, grants text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  execute format('alter table %s enable row level security, force row level security', tbl);
  execute format('create policy owner on %s to agentry_owner using (true)', tbl);
  execute format('grant %s on %s to agentry_api', grants, tbl);
end $$;

-- The wall of a table whose rows are their tenant's; the sweep learns of the table by it, too. A row passes by one look
-- at the tenant, taken once a statement: were its app, sandbox and org looked up apart, a statement could change the
-- settings in between. The setting is asked for only which comparison to make: whatever it says, a row that passes is
-- the proven tenant's.
create function app.wall(tbl regclass, grants text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $wall$
begin
  perform app.guard(tbl, grants);
  perform app.face(tbl);
  perform app.make_slices();
end $wall$;

-- The policy itself. What hangs on an org, a user or an agent that has ended is nobody's: the door has listed them.
-- That is absence, and no wall: whoever could change the list would see what his own tenant has deleted. Nearly always
-- nothing has ended: then a row costs no list of its owners.
create function app.face(tbl regclass) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $face$
declare above text;
begin
  select string_agg(quote_ident(a.attname), ', ' order by a.attnum) into above from pg_attribute a
   where a.attrelid = tbl and (a.attname = 'org_id'
      or (tbl in (to_regclass('data.users'), to_regclass('data.agents')) and a.attname = 'id')
      or exists (select from pg_constraint c where c.conrelid = tbl
        and c.confrelid in (to_regclass('data.users'), to_regclass('data.agents'))
        and c.contype = 'f' and c.confdeltype = 'c' and a.attnum = c.conkey[cardinality(c.conkey)]));
  execute format($$create policy tenant on %s to agentry_api using (
    (app_id, sandbox_id, case
      when (select current_setting('app.ended', true) <> '')
        and (select string_to_array(current_setting('app.ended', true), ',')) && array[%s] then null
      when (select current_setting('app.org_id', true)) = '*' then '*'
      else org_id end)
    = (select t.app, t.sandbox, t.org from app.tenant() t))$$, tbl, above);
end $face$;

-- Of `rows`, where each is called `one`: deletes it from its table, or, where it only names what ends, lets go of that. One
-- that is deleted counts as one, and one more for each foreign key that leads to it: to look there takes as long as the row
-- itself. Each is held by a statement before: what is changed just then would not be seen by this one and be left for the
-- cascade of what it hangs on, and that and who changes it next would wait for each other.
create function app.slice_from(tbl regclass, names name, rows text, one text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
  select format(e'  execute $d$select array(select %s.ctid from %s limit $4 for update of %1$s)$d$ into held\n', one, rows)
    || format(e'    using app, sandbox, id, ceil(greatest(0, most - deleted) / %s.0);\n'
    '  if cardinality(held) > 0 then execute $d$%s where ctid = any ($1)$d$ using held; end if;\n'
    '  deleted := deleted + cardinality(held) * %1$s;\n', case when names is null
      then (select 1 + count(*) from pg_constraint f where f.contype = 'f' and f.confrelid = tbl) else 1 end,
    case when names is null then format('delete from %s', tbl) else format('update %s set %I = null', tbl, names) end)
$$;

-- How a row (`below`) is found from the one that its foreign key leads to.
create function app.tie(f oid, below text, above text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
  select string_agg(format('%s.%I = %s.%I', below, a.attname, above, b.attname), ' and ' order by n)
    from pg_constraint c, unnest(c.conkey, c.confkey) with ordinality k (own, others, n),
      pg_attribute a, pg_attribute b
   where c.oid = f and (a.attrelid, a.attnum) = (c.conrelid, own) and (b.attrelid, b.attnum) = (c.confrelid, others)
$$;

create function app.make_slice(root text, deletes text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $make$
begin
  execute format($$create or replace function app.%I(app text, sandbox text, id text, most bigint) returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp as $slice$
declare
  deleted bigint := 0;
  held tid[];
begin
%s  return deleted;
end $slice$ $$, 'slice_of_' || root, deletes);
end $make$;

-- Writes the functions that delete a slice of what has ended, about so many rows, from every table there is: what
-- hangs on a row before the row, so that no cascade is longer than a slice. They answer how many they counted. Each
-- is planned anew: a plan that was kept from when a table was small would read all of it. Not by a setting, that would
-- plan each look along a foreign key anew as well, which takes four times as long as all else.
create function app.make_slices() returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $make$
declare
  made text;
  freed text;
  root text;
begin
  -- Of a tenant. Its place, and the record of the org or sandbox, are for who calls it.
  with recursive walk (tbl, path) as (
    select c.oid, array[c.oid] from pg_class c where c.relnamespace = 'data'::regnamespace and c.relkind = 'r'
       and c.relname not in ('apps', 'tenants', 'orgs', 'sandboxes')
    union all
    select f.conrelid, path || f.conrelid from walk join pg_constraint f on f.contype = 'f' and f.confrelid = walk.tbl
     where f.conrelid <> all (path)
  ), deepest as (select tbl, max(cardinality(path)) as depth from walk group by tbl)
  select string_agg(
      app.slice_from(tbl, null, format('%s t1 where (app_id, sandbox_id, org_id) = ($1, $2, $3)', tbl::regclass), 't1'),
      '' order by depth desc, tbl::regclass::text collate "C") into made from deepest;
  perform app.make_slice('tenant', made);
  -- Of a user or an agent: what hangs on it, and on that, by whatever foreign keys cascade; then what only names it lets
  -- go of it, so that nothing is left for the delete of its own row.
  foreach root in array array['user', 'agent'] loop
    with recursive walk (tbl, path, rows) as (
      select c.oid, array[c.oid], format('%s t1', c.oid::regclass) collate "C" from pg_class c
       where c.oid = to_regclass(format('data.%ss', root))
      union all
      select f.conrelid, path || f.conrelid, format('%s join %s t%s on %s', rows, f.conrelid::regclass, cardinality(path) + 1,
          app.tie(f.oid, format('t%s', cardinality(path) + 1), format('t%s', cardinality(path))))
        from walk join pg_constraint f on f.contype = 'f' and f.confdeltype = 'c' and f.confrelid = walk.tbl
       where f.conrelid <> all (path)
    ), deepest as (select *, max(cardinality(path)) over (partition by tbl) as depth from walk)
    select string_agg(
        app.slice_from(tbl, null, format('%s where (t1.app_id, t1.sandbox_id, t1.id) = ($1, $2, $3)', rows), 't' || cardinality(path)),
        '' order by depth desc, rows collate "C") into made
      from deepest where depth > 1;
    select string_agg(app.slice_from(f.conrelid, a.attname,
          format('%s t1 join %s t2 on %s where (t1.app_id, t1.sandbox_id, t1.id) = ($1, $2, $3)', f.confrelid::regclass,
            f.conrelid::regclass, app.tie(f.oid, 't2', 't1')), 't2'), '' order by f.conname collate "C") into freed
      from pg_constraint f join pg_attribute a on a.attrelid = f.conrelid and a.attnum = any (f.confdelsetcols)
     where f.contype = 'f' and f.confdeltype = 'n' and f.confrelid = to_regclass(format('data.%ss', root));
    perform app.make_slice(root, made || coalesce(freed, ''));
  end loop;
end $make$;

-- ---------------------------------------------------------------------------------------------------------
-- Apps, the places in them where rows can live, orgs, sandboxes

create table data.apps (
  id         text collate "C" primary key,
  name       text not null,
  settings   jsonb not null default '{}' constraint apps_settings_check
             check (settings @? '$ ? (!exists (@.activity_retention_days)
               || (@.activity_retention_days >= 1 && @.activity_retention_days <= 3650 && @.activity_retention_days % 1 == 0))'),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
-- How many days what is kept for so long stays: of each kind of record, its own number.
alter table data.apps add constraint apps_retention_days_check check (settings @? '$ ?
  ((!exists (@.retention_days.events)
      || (@.retention_days.events >= 1 && @.retention_days.events <= 3650 && @.retention_days.events % 1 == 0))
    && (!exists (@.retention_days.occurrences)
      || (@.retention_days.occurrences >= 1 && @.retention_days.occurrences <= 3650 && @.retention_days.occurrences % 1 == 0))
    && (!exists (@.retention_days.runs)
      || (@.retention_days.runs >= 1 && @.retention_days.runs <= 3650 && @.retention_days.runs % 1 == 0))
    && (!exists (@.retention_days.webhook_deliveries)
      || (@.retention_days.webhook_deliveries >= 1 && @.retention_days.webhook_deliveries <= 3650
        && @.retention_days.webhook_deliveries % 1 == 0)))');
-- Not below seven days: for so long a delivery that comes again is known.
alter table data.apps add constraint apps_retention_of_receipts_check check (settings @? '$ ?
  (!exists (@.retention_days.webhook_receipts)
    || (@.retention_days.webhook_receipts >= 7 && @.retention_days.webhook_receipts <= 3650 && @.retention_days.webhook_receipts % 1 == 0))');
-- The app's own record: anybody inside may read it, only a production developer changes it.
alter table data.apps add constraint apps_third_party_oauth_check check (settings @? '$ ?
  (!exists (@.auth.third_party_oauth) || @.auth.third_party_oauth == true || @.auth.third_party_oauth == false)');
select app.guard('data.apps', 'select, update (name, settings, updated_at)');
create policy tenant on data.apps for select to agentry_api using (id = (select t.app from app.tenant() t));
create policy developer on data.apps for update to agentry_api
  using ((id, '-', '*') = (select t.app, t.sandbox, t.org from app.tenant() t));

-- One row per place where rows can live. It goes last of what lives there.
create table data.tenants (
  app_id     text collate "C" not null references data.apps on delete cascade,
  sandbox_id text collate "C" not null default '-',
  org_id     text collate "C" not null default '-',
  primary key (app_id, sandbox_id, org_id)
);
select app.wall('data.tenants', 'select, insert');

create table data.orgs (
  id          text collate "C" not null,
  app_id      text collate "C" not null,
  sandbox_id  text collate "C" not null,
  org_id      text collate "C" not null generated always as (id) stored,
  name        text not null,
  slug        text not null,
  domain      text not null,
  website     text,
  industry    text,
  description text,
  status      text not null default 'active' check (status in ('active', 'suspended', 'trialing')),
  created_at  timestamptz not null default now(),
  updated_at  timestamptz not null default now(),
  kind        text not null default 'company' check (kind in ('company', 'personal')),
  -- Whose own it is, who may be gone since.
  owner_user_id text collate "C",
  constraint orgs_owner_fits check (kind = 'personal' or owner_user_id is null),
  primary key (app_id, sandbox_id, id),
  constraint orgs_slug_key unique (app_id, sandbox_id, slug),
  constraint orgs_domain_key unique (app_id, sandbox_id, domain),
  constraint orgs_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
create index orgs_tenant_idx on data.orgs (app_id, sandbox_id, org_id);
select app.wall('data.orgs', 'select, insert, update, delete');

create table data.sandboxes (
  app_id     text collate "C" not null,
  sandbox_id text collate "C" not null check (sandbox_id <> '-'),
  org_id     text collate "C" not null default '-' check (org_id = '-'),
  id         text collate "C" not null generated always as (sandbox_id) stored,
  name       text not null,
  slug       text not null,
  -- The production org it was made for: a label for people, which goes by and by when the org has ended. What lives in
  -- the sandbox is in orgs of its own.
  for_sandbox_id text collate "C" not null default '-' check (for_sandbox_id = '-'),
  for_org_id text collate "C",
  purpose    text check (purpose in ('eval')),
  expires_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (app_id, sandbox_id),
  constraint sandboxes_slug_key unique (app_id, slug),
  constraint sandboxes_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
create index sandboxes_expires_at_idx on data.sandboxes (expires_at) where expires_at is not null;
create index sandboxes_org_idx on data.sandboxes (app_id, for_sandbox_id, for_org_id) where for_org_id is not null;
-- A sandbox's record: read from inside, and by the production developer who keeps all of them.
select app.guard('data.sandboxes', 'select, insert, delete');
create policy tenant on data.sandboxes for select to agentry_api using (
  (app_id, sandbox_id) = (select t.app, t.sandbox from app.tenant() t)
  or (app_id, '-', '*') = (select t.app, t.sandbox, t.org from app.tenant() t));
create policy developer on data.sandboxes for insert to agentry_api
  with check ((app_id, sandbox_id, '*') = (select t.app, t.sandbox, t.org from app.tenant() t));
create policy ending on data.sandboxes for delete to agentry_api
  using ((app_id, '-', '*') = (select t.app, t.sandbox, t.org from app.tenant() t));

-- ---------------------------------------------------------------------------------------------------------
-- Users and their credentials

create table data.users (
  id             text collate "C" not null,
  app_id         text collate "C" not null,
  sandbox_id     text collate "C" not null,
  org_id         text collate "C" not null,
  email          text,
  email_key      text generated always as (lower(email)) stored,
  name           text,
  alias          text,
  role           text check (role in ('owner', 'admin', 'member', 'billing', 'viewer')),
  is_system_user boolean not null default false,
  metadata       jsonb not null default '{}'
                 constraint users_metadata_check check (octet_length(metadata::text) <= 24576),
  created_at     timestamptz not null default now(),
  updated_at     timestamptz not null default now(),
  -- Its rows are on their way out, and it goes last: nobody finds it any more.
  ended_at       timestamptz,
  -- No credential of its own lives any more; what it made stays.
  deactivated_at timestamptz,
  -- Whose word the role is. What a provider says changes only what a provider has said.
  role_source    text not null default 'manual' check (role_source in ('manual', 'sso', 'scim')),
  -- What a provider says of a user whom it keeps, by SCIM's own names; null of all others.
  scim           jsonb constraint users_scim_check check (octet_length(scim::text) <= 8192),
  scim_user_name text collate "C" generated always as (lower(scim ->> 'userName')) stored,
  scim_external_id text collate "C" generated always as (scim ->> 'externalId') stored,
  check ((org_id = '-') = (role is null)),
  check (scim is null or (org_id <> '-' and scim_user_name is not null)),
  primary key (app_id, sandbox_id, id),
  constraint users_owner_key unique (app_id, sandbox_id, org_id, id),
  constraint users_email_key unique (app_id, sandbox_id, email_key),
  constraint users_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
create unique index "users_userName_key" on data.users (app_id, sandbox_id, org_id, scim_user_name)
  where scim_user_name is not null;
create index users_scim_external_id_idx on data.users (app_id, sandbox_id, org_id, scim_external_id)
  where scim_external_id is not null;
select app.wall('data.users', 'select, insert, update, delete');

create table data.keys (
  id           text collate "C" not null,
  app_id       text collate "C" not null,
  sandbox_id   text collate "C" not null,
  org_id       text collate "C" not null default '-' check (org_id = '-'),
  type         text not null check (type in ('publishable', 'secret')),
  hash         bytea not null,
  hint         text not null,
  -- A publishable key stays readable; of a secret one only the hash is kept.
  value        text check (type = 'publishable' or value is null),
  last_used_at timestamptz,
  expires_at   timestamptz,
  revoked_at   timestamptz,
  created_at   timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint keys_hash_key unique (app_id, sandbox_id, hash),
  constraint keys_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
select app.wall('data.keys', 'select, insert, update');

-- One row a sign-in: of a program, whose refresh tokens are a family (RFC 9700 §4.14.2), rotated by one conditional
-- update; or of a browser, whose cookie names the row and which has no tokens. Revoking it ends all that came of it.
create table data.token_families (
  id                  text collate "C" not null,
  app_id              text collate "C" not null,
  sandbox_id          text collate "C" not null,
  org_id              text collate "C" not null,
  user_id             text collate "C" not null,
  scopes              text[] not null,
  access_lifetime_s   integer not null,
  generation          integer not null default 0,
  -- The access token of the newest generation: what an honest retry is given again.
  token_id            text collate "C",
  rotated_at          timestamptz not null default now(),
  -- When it ends unless it is used before; using it moves that on by idle_s, up to ends_at.
  expires_at          timestamptz not null,
  revoked_at          timestamptz,
  created_at          timestamptz not null default now(),
  -- How somebody came in: `token` was minted by the app's key, all others prove who it was, at auth_time.
  method              text not null check (octet_length(method) between 1 and 40),
  carrier             text not null check (carrier in ('api', 'browser')),
  auth_time           timestamptz,
  -- Who signed in as this user, where somebody else did.
  actor               text check (octet_length(actor) <= 100),
  idle_s              integer not null,
  ends_at             timestamptz not null,
  last_used_at        timestamptz,
  user_agent          text check (octet_length(user_agent) <= 512),
  -- What its method remembers: a connection, a subject, a session of the provider's, a client.
  details             jsonb not null default '{}' check (octet_length(details::text) <= 8192),
  primary key (app_id, sandbox_id, id),
  constraint token_families_owner_key unique (app_id, sandbox_id, org_id, id),
  constraint token_families_user_fkey foreign key (app_id, sandbox_id, org_id, user_id)
    references data.users (app_id, sandbox_id, org_id, id) on delete cascade,
  constraint token_families_carrier_fits check ((carrier = 'browser') = (token_id is null))
);
create index token_families_expires_at_idx on data.token_families (expires_at);
create index token_families_user_idx on data.token_families (app_id, sandbox_id, org_id, user_id);
select app.wall('data.token_families', 'select, insert, update, delete');

create table data.tokens (
  id              text collate "C" not null,
  app_id          text collate "C" not null,
  sandbox_id      text collate "C" not null,
  org_id          text collate "C" not null,
  user_id         text collate "C" not null,
  family_id       text collate "C",
  name            text,
  scopes          text[] not null,
  created_by_user text collate "C",
  last_used_at    timestamptz,
  expires_at      timestamptz not null,
  revoked_at      timestamptz,
  created_at      timestamptz not null default now(),
  auth_time       timestamptz,
  actor           text check (octet_length(actor) <= 100),
  primary key (app_id, sandbox_id, id),
  constraint tokens_user_fkey foreign key (app_id, sandbox_id, org_id, user_id)
    references data.users (app_id, sandbox_id, org_id, id) on delete cascade,
  constraint tokens_family_fkey foreign key (app_id, sandbox_id, org_id, family_id)
    references data.token_families (app_id, sandbox_id, org_id, id) on delete cascade
);
create index tokens_expires_at_idx on data.tokens (expires_at);
create index tokens_user_idx on data.tokens (app_id, sandbox_id, org_id, user_id, id);
create index tokens_family_idx on data.tokens (app_id, sandbox_id, org_id, family_id);
select app.wall('data.tokens', 'select, insert, update, delete');

-- A person's password: PBKDF2-SHA-256 in `rounds` chained calls of 100,000, and an HMAC over that by a key that isn't here.
create table data.passwords (
  app_id     text collate "C" not null,
  sandbox_id text collate "C" not null,
  org_id     text collate "C" not null,
  user_id    text collate "C" not null,
  salt       bytea not null,
  rounds     integer not null,
  hash       bytea not null,
  changed_at timestamptz not null default now(),
  -- Whether it was chosen by who has proven the address of the account since, or before.
  proven     boolean not null default true,
  constraint passwords_pkey primary key (app_id, sandbox_id, org_id, user_id),
  constraint passwords_user_fkey foreign key (app_id, sandbox_id, org_id, user_id)
    references data.users (app_id, sandbox_id, org_id, id) on delete cascade
);
select app.wall('data.passwords', 'select, insert, update, delete');

-- What is used once, or a few times, and ends: codes, links, what a browser is sent away with. Only a hash is kept, and what
-- it stands for. `user_id`: who it signs in.
create table data.one_time_secrets (
  app_id     text collate "C" not null,
  sandbox_id text collate "C" not null,
  org_id     text collate "C" not null,
  kind       text not null check (octet_length(kind) between 1 and 40),
  hash       bytea not null,
  user_id    text collate "C",
  payload    jsonb not null default '{}' constraint one_time_secrets_payload_check check (octet_length(payload::text) <= 16384),
  attempts   integer not null default 0,
  used_at    timestamptz,
  expires_at timestamptz not null,
  created_at timestamptz not null default now(),
  constraint one_time_secrets_pkey primary key (app_id, sandbox_id, org_id, kind, hash),
  constraint one_time_secrets_tenant_fkey
    foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade,
  constraint one_time_secrets_user_fkey foreign key (app_id, sandbox_id, org_id, user_id)
    references data.users (app_id, sandbox_id, org_id, id) on delete cascade
);
create index one_time_secrets_expires_at_idx on data.one_time_secrets (expires_at);
create index one_time_secrets_user_idx on data.one_time_secrets (app_id, sandbox_id, org_id, user_id);
select app.wall('data.one_time_secrets', 'select, insert, update, delete');

-- Who develops an app, as the operator's command says. Production's alone: a sandbox has keys of its own.
create table data.developers (
  id         text collate "C" not null,
  app_id     text collate "C" not null,
  sandbox_id text collate "C" not null default '-' check (sandbox_id = '-'),
  org_id     text collate "C" not null default '-' check (org_id = '-'),
  email      text not null check (octet_length(email) <= 254),
  email_key  text generated always as (lower(email)) stored,
  created_at timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint developers_owner_key unique (app_id, sandbox_id, org_id, id),
  constraint developers_email_key unique (app_id, sandbox_id, org_id, email_key),
  constraint developers_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
select app.wall('data.developers', 'select');

-- Where a developer is signed in: a browser's cookie names the row. With the row it ends, and so it does with the developer.
create table data.developer_sessions (
  id           text collate "C" not null,
  app_id       text collate "C" not null,
  sandbox_id   text collate "C" not null default '-' check (sandbox_id = '-'),
  org_id       text collate "C" not null default '-' check (org_id = '-'),
  developer_id text collate "C" not null,
  idle_s       integer not null,
  last_used_at timestamptz,
  -- When it ends unless it is used before; using it moves that on by idle_s, up to ends_at.
  expires_at   timestamptz not null,
  ends_at      timestamptz not null,
  created_at   timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint developer_sessions_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade,
  constraint developer_sessions_developer_fkey foreign key (app_id, sandbox_id, org_id, developer_id)
    references data.developers (app_id, sandbox_id, org_id, id) on delete cascade
);
create index developer_sessions_developer_idx on data.developer_sessions (app_id, sandbox_id, org_id, developer_id);
create index developer_sessions_expires_at_idx on data.developer_sessions (expires_at);
select app.wall('data.developer_sessions', 'select, update, delete');

-- What a sandbox would have mailed: its developer reads it there, codes and all.
create table data.sandbox_mails (
  id         text collate "C" not null,
  app_id     text collate "C" not null,
  sandbox_id text collate "C" not null check (sandbox_id <> '-'),
  org_id     text collate "C" not null check (org_id = '-'),
  "to"       text not null check (octet_length("to") <= 1000),
  subject    text not null check (octet_length(subject) <= 2000),
  text       text not null check (octet_length(text) <= 32768),
  created_at timestamptz not null default now(),
  constraint sandbox_mails_pkey primary key (app_id, sandbox_id, org_id, id),
  constraint sandbox_mails_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
create index sandbox_mails_created_at_idx on data.sandbox_mails (created_at);
select app.wall('data.sandbox_mails', 'select, insert, delete');

-- Public clients (RFC 6749 §2.1): they have no secret. The app's own rows, in production or in a sandbox.
create table data.oauth_clients (
  id            text collate "C" not null,
  app_id        text collate "C" not null,
  sandbox_id    text collate "C" not null,
  org_id        text collate "C" not null,
  name          text not null,
  redirect_uris text[] not null check (cardinality(redirect_uris) <= 20),
  -- The most that it may be granted: resources alone, never a person's full access.
  scopes        text[] not null check (cardinality(scopes) between 1 and 200),
  created_at    timestamptz not null default now(),
  updated_at    timestamptz not null default now(),
  check (org_id = '-'),
  primary key (app_id, sandbox_id, id),
  constraint oauth_clients_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
create index oauth_clients_org_idx on data.oauth_clients (app_id, sandbox_id, org_id, id);
select app.wall('data.oauth_clients', 'select, insert, update, delete');

create table data.sso_connections (
  id                  text collate "C" not null,
  app_id              text collate "C" not null,
  sandbox_id          text collate "C" not null,
  org_id              text collate "C" not null check (org_id <> '-'),
  provider            text not null check (provider in ('saml', 'oidc')),
  status              text not null check (status in ('incomplete', 'untested', 'active', 'enforced')),
  issuer_url          text check (octet_length(issuer_url) <= 2000),
  entity_id           text check (octet_length(entity_id) <= 2000),
  sso_url             text check (octet_length(sso_url) <= 2000),
  slo_url             text check (octet_length(slo_url) <= 2000),
  certificates        text[] not null default '{}' check (cardinality(certificates) <= 4 and octet_length(certificates::text) <= 48000),
  client_id           text check (octet_length(client_id) <= 1000),
  sealed              bytea check (octet_length(sealed) <= 8192),
  tag                 bytea,
  auto_provision      boolean not null,
  jit_provisioning    boolean not null,
  attribute_mapping   jsonb not null default '{}',
  role_mapping        jsonb not null default '[]',
  default_role        text not null check (default_role in ('admin', 'member', 'billing', 'viewer')),
  session_max_s       integer not null check (session_max_s between 300 and 2592000),
  allow_idp_initiated boolean not null,
  -- The owners who come in by other ways while the connection is enforced.
  break_glass         text[] not null default '{}' check (cardinality(break_glass) <= 3),
  revision            integer not null default 0,
  created_at          timestamptz not null default now(),
  updated_at          timestamptz not null default now(),
  idp_metadata_url    text check (octet_length(idp_metadata_url) <= 2000),
  -- When each certificate ends, and when the owners are to be told of that next.
  certificate_ends    timestamptz[] not null default '{}' check (cardinality(certificate_ends) <= 4),
  warn_at             timestamptz,
  primary key (app_id, sandbox_id, id),
  constraint sso_connections_owner_key unique (app_id, sandbox_id, org_id, id),
  -- One of an org.
  constraint sso_connections_org_key unique (app_id, sandbox_id, org_id),
  constraint sso_connections_mappings_check check (octet_length(attribute_mapping::text) + octet_length(role_mapping::text) <= 32768),
  constraint sso_connections_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
create index sso_connections_warn_at_idx on data.sso_connections (warn_at) where warn_at is not null;
select app.wall('data.sso_connections', 'select, insert, update, delete');

-- Who somebody is there: one person a subject, and one subject a person.
create table data.sso_identities (
  id            text collate "C" not null,
  app_id        text collate "C" not null,
  sandbox_id    text collate "C" not null,
  org_id        text collate "C" not null,
  connection_id text collate "C" not null,
  subject       text not null check (octet_length(subject) <= 2000),
  user_id       text collate "C" not null,
  created_at    timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint sso_identities_subject_key unique (app_id, sandbox_id, org_id, connection_id, subject),
  constraint sso_identities_user_key unique (app_id, sandbox_id, org_id, user_id, connection_id),
  constraint sso_identities_connection_fkey foreign key (app_id, sandbox_id, org_id, connection_id)
    references data.sso_connections (app_id, sandbox_id, org_id, id) on delete cascade,
  constraint sso_identities_user_fkey foreign key (app_id, sandbox_id, org_id, user_id)
    references data.users (app_id, sandbox_id, org_id, id) on delete cascade
);
select app.wall('data.sso_identities', 'select, insert, delete');

-- The last tries to sign in, as an admin reads them. `refusal`: what was wrong; null of one that went well. `refusals`: how
-- often the subject was refused since `told_at`, when the feed last said so.
create table data.sso_attempts (
  id            text collate "C" not null,
  app_id        text collate "C" not null,
  sandbox_id    text collate "C" not null,
  org_id        text collate "C" not null,
  connection_id text collate "C" not null,
  refusal       text check (octet_length(refusal) <= 2000),
  subject       text check (octet_length(subject) <= 2000),
  created_at    timestamptz not null default now(),
  refusals      integer not null default 0,
  told_at       timestamptz,
  primary key (app_id, sandbox_id, id),
  constraint sso_attempts_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade,
  constraint sso_attempts_connection_fkey foreign key (app_id, sandbox_id, org_id, connection_id)
    references data.sso_connections (app_id, sandbox_id, org_id, id) on delete cascade
);
create index sso_attempts_connection_idx on data.sso_attempts (app_id, sandbox_id, org_id, connection_id, id);
select app.wall('data.sso_attempts', 'select, insert, delete');

-- How often something was tried of late, where that must be counted exactly or for an hour: keyed by a MAC of what is
-- counted. Read and written by the doors alone.
create table app.attempts (
  key       bytea primary key,
  count     integer not null,
  resets_at timestamptz not null
);
create index attempts_resets_at_idx on app.attempts (resets_at);

-- ---------------------------------------------------------------------------------------------------------
-- Access lists: rules that columns and statements share

-- Who an acl lets do one of `actions`, as 'everyone' or 'type:principal'. Null: nothing restricts the row.
create function app.acl_principals(acl jsonb, actions text[]) returns text[]
language sql immutable set search_path = '' as $$
  select case when acl is null then null else array(
    select distinct case g ->> 'principal_type' when 'everyone' then 'everyone'
                    else (g ->> 'principal_type') || ':' || (g ->> 'principal') end
      from jsonb_array_elements(acl -> 'grants') g
     where g -> 'actions' ?| actions)
  end
$$;
grant execute on function app.acl_principals to agentry_api;

-- An acl after a patch: what `remove` names goes, then what `add` grants is merged in, the actions of one
-- principal united. Removing the last grant leaves an empty list, which lets in nobody but the owner and the
-- org's admins: taking a grant away must never open a row. Nor does taking none away close an open one.
create function app.acl_patch(acl jsonb, add jsonb, remove jsonb) returns jsonb
language sql immutable set search_path = '' as $$
  with kept as (
    select g, n from jsonb_array_elements(coalesce(acl -> 'grants', '[]')) with ordinality k (g, n)
     where not exists (select from jsonb_array_elements(remove) r
                        where r ->> 'principal_type' = g ->> 'principal_type'
                          and r ->> 'principal' is not distinct from g ->> 'principal')
    union all
    select g, 1000000 + n from jsonb_array_elements(add) with ordinality a (g, n)
  ), merged as (
    select g ->> 'principal_type' as type, g ->> 'principal' as principal, min(n) as n, jsonb_agg(distinct action) as actions
      from kept, jsonb_array_elements_text(g -> 'actions') action group by 1, 2
  )
  select case when acl is null and add = '[]' then null else jsonb_build_object('grants', coalesce(
    jsonb_agg(jsonb_build_object('principal_type', type, 'principal', principal, 'actions', actions) order by n), '[]')) end
    from merged
$$;
grant execute on function app.acl_patch to agentry_api;

-- For a statement whose row hangs on another: refuses, inside the request's one round trip, where the row above isn't
-- the viewer's (null: absent, to everybody alike) or may only be read (false).
create function app.must_reach(kind text, writable boolean) returns void
language plpgsql volatile set search_path = '' as $$
begin
  if writable is null then raise '%', kind using errcode = 'AE404'; end if;
  if not writable then raise 'read_only %', kind using errcode = 'AE403'; end if;
end $$;
grant execute on function app.must_reach to agentry_api;

-- For a rule that the database alone can see before it writes: refuses, naming the field at fault, unless it holds.
create function app.must_hold(holds boolean, field text, fault text) returns void
language plpgsql volatile set search_path = '' as $$
begin
  if holds is not true then raise '%', fault using errcode = 'AE420', constraint = field; end if;
end $$;
grant execute on function app.must_hold to agentry_api;

-- ---------------------------------------------------------------------------------------------------------
-- Agents

create table data.agents (
  id            text collate "C" not null,
  app_id        text collate "C" not null,
  sandbox_id    text collate "C" not null,
  org_id        text collate "C" not null,
  user_id       text collate "C",
  name          text,
  description   text,
  identity      text,
  default_model text,
  originator    text,
  lookup_key    text,
  -- What it was made of: as all that tells of the past, it may be gone since, and keeps nothing from going.
  template_config_id text collate "C",
  metadata      jsonb not null default '{}',
  acl           jsonb,
  readers       text[] generated always as (app.acl_principals(acl, '{read,write}')) stored,
  writers       text[] generated always as (app.acl_principals(acl, '{write}')) stored,
  created_at    timestamptz not null default now(),
  updated_at    timestamptz not null default now(),
  -- As a user's.
  ended_at      timestamptz,
  primary key (app_id, sandbox_id, id),
  constraint agents_owner_key unique (app_id, sandbox_id, org_id, id),
  constraint agents_lookup_key_key unique (app_id, sandbox_id, lookup_key),
  constraint agents_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade,
  -- With its owner, not "set null": a person's agent must never become everybody's.
  constraint agents_user_fkey foreign key (app_id, sandbox_id, user_id) references data.users on delete cascade
);
create index agents_user_idx on data.agents (app_id, sandbox_id, user_id) where user_id is not null;
-- What only the database sees whole: a list that patches have grown, and a row of which each request wrote a part. So a
-- page of a hundred has a size, too. Not valid: a row that was longer before is refused when it is next written.
alter table data.agents
  add constraint agents_acl_check check (jsonb_array_length(acl -> 'grants') <= 200) not valid,
  add constraint agents_size_check check (octet_length(jsonb_build_object(
    'identity', identity, 'description', description, 'acl', acl, 'metadata', metadata)::text) <= 65536) not valid;
select app.wall('data.agents', 'select, insert, update, delete');

-- ---------------------------------------------------------------------------------------------------------
-- Configs

-- Configs: what agents are made of, in versions. The row is what a list shows; the content lies in the versions. Whose
-- it is: a user's, an agent's or, with neither, the place's own.
create table data.configs (
  id             text collate "C" not null,
  app_id         text collate "C" not null,
  sandbox_id     text collate "C" not null,
  org_id         text collate "C" not null,
  kind           text not null,
  user_id        text collate "C",
  agent_id       text collate "C",
  lookup_key     text,
  virtual_path   text,
  parent_id      text collate "C",
  relative_path  text,
  -- The Solution that it came with; that may be gone since.
  solution_id    text collate "C",
  mime_type      text not null,
  -- The newest version's.
  version_number integer not null default 1,
  content_hash   text not null,
  archived_at    timestamptz,
  created_at     timestamptz not null default now(),
  updated_at     timestamptz not null default now(),
  check (user_id is null or agent_id is null),
  primary key (app_id, sandbox_id, id),
  constraint configs_owner_key unique (app_id, sandbox_id, org_id, id),
  constraint configs_lookup_key_key unique (app_id, sandbox_id, org_id, lookup_key),
  constraint configs_virtual_path_key unique (app_id, sandbox_id, org_id, virtual_path),
  constraint configs_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade,
  constraint configs_user_fkey foreign key (app_id, sandbox_id, user_id) references data.users on delete cascade,
  constraint configs_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade,
  constraint configs_relative_path_key unique (app_id, sandbox_id, org_id, parent_id, relative_path),
  constraint configs_parent_fkey foreign key (app_id, sandbox_id, org_id, parent_id)
    references data.configs (app_id, sandbox_id, org_id, id) on update cascade on delete cascade
);
create index configs_user_idx on data.configs (app_id, sandbox_id, user_id) where user_id is not null;
create index configs_agent_idx on data.configs (app_id, sandbox_id, org_id, agent_id) where agent_id is not null;
create index configs_solution_idx on data.configs (app_id, sandbox_id, org_id, solution_id) where solution_id is not null;
select app.wall('data.configs', 'select, insert, update, delete');

create table data.config_versions (
  id                 text collate "C" not null,
  app_id             text collate "C" not null,
  sandbox_id         text collate "C" not null,
  org_id             text collate "C" not null,
  config_id          text collate "C" not null,
  version_number     integer not null,
  -- sha256:<hex>, over the content as it is compared.
  content_hash       text not null,
  mime_type          text not null,
  -- How `content` holds the bytes: as text, or as base64 where they are none.
  encoding           text not null default 'raw' check (encoding in ('raw', 'base64')),
  content            text not null,
  -- What its writer noted of it.
  data               jsonb,
  change_description text,
  created_at         timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint config_versions_number_key unique (app_id, sandbox_id, org_id, config_id, version_number),
  constraint config_versions_config_fkey foreign key (app_id, sandbox_id, org_id, config_id)
    references data.configs (app_id, sandbox_id, org_id, id) on update cascade on delete cascade
);
-- A page of a thousand, which shows `data` and not the content, has a size.
alter table data.config_versions
  add constraint config_versions_raw_content_check check (octet_length(content) <= 1398104),
  add constraint config_versions_data_check check (octet_length(data::text) <= 12288);
select app.wall('data.config_versions', 'select, insert');

-- The key of an org, or of the app itself, that seals the secrets which stand in texts: what was handed out to be written
-- into a config can't be sealed anew, its key can. With the org the key goes, and with it all that it sealed.
create table data.secret_keys (
  app_id     text collate "C" not null,
  sandbox_id text collate "C" not null,
  org_id     text collate "C" not null,
  id         text collate "C" not null generated always as (org_id) stored,
  -- The key, and what holds it to this row: lib/auth/vault.ts.
  sealed     bytea not null,
  tag        bytea not null,
  created_at timestamptz not null default now(),
  constraint secret_keys_org_key primary key (app_id, sandbox_id, org_id),
  constraint secret_keys_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
select app.wall('data.secret_keys', 'select, insert');

-- ---------------------------------------------------------------------------------------------------------
-- What hangs on an agent

-- Refuses rows of a table that their agent has enough of. Counted behind a lock, so that of two that come at once the second
-- sees the first; once a statement, however many rows it brings. The argument is the number. The lock isn't the agent's row:
-- its foreign key holds that already, more weakly, and who wants more of it then waits for whoever deletes it, and is waited for.
create function app.at_most() returns trigger
language plpgsql volatile set search_path = '' as $$
declare
  one record;
  n int;
begin
  for one in select distinct a.app_id, a.sandbox_id, a.org_id, a.agent_id from added a order by a.agent_id loop
    perform pg_advisory_xact_lock(hashtextextended(concat_ws('/', tg_table_name, one.app_id, one.sandbox_id, one.agent_id), 0));
    execute format('select count(*) from data.%I where (app_id, sandbox_id, org_id, agent_id) = ($1, $2, $3, $4)', tg_table_name)
      into n using one.app_id, one.sandbox_id, one.org_id, one.agent_id;
    if n > tg_argv[0]::int then raise '%', tg_argv[0] using errcode = 'AE422', table = tg_table_name; end if;
  end loop;
  return null;
end $$;

-- Refuses rows of a table that their org has enough of, as app.at_most those of an agent. The arguments are the number,
-- and the name under which an app's `settings.quotas` may give another. The detail is the org, and that name.
create function app.at_most_in_org() returns trigger
language plpgsql volatile set search_path = '' as $$
declare
  one record;
  n int;
  most int;
begin
  for one in select distinct a.app_id, a.sandbox_id, a.org_id from added a order by a.org_id loop
    -- Of two that come at once the second sees the first. An org's own row is not everybody's to lock.
    perform pg_advisory_xact_lock(hashtextextended(concat_ws('/', tg_table_name, one.app_id, one.sandbox_id, one.org_id), 0));
    select coalesce((p.settings #>> array['quotas', tg_argv[1]])::int, tg_argv[0]::int) into most
      from data.apps p where p.id = one.app_id;
    execute format('select count(*) from data.%I where (app_id, sandbox_id, org_id) = ($1, $2, $3)', tg_table_name)
      into n using one.app_id, one.sandbox_id, one.org_id;
    if n > most then
      raise '%', most using errcode = 'AE422', table = tg_table_name, constraint = 'org',
        detail = concat_ws(' ', one.org_id, tg_argv[1]);
    end if;
  end loop;
  return null;
end $$;

-- When what was planned for an instant is due: later by up to so many seconds, as many for the same row and instant
-- whenever it is asked. lib/schedules/clock.ts says the same.
create function app.due_at(id text, planned_at timestamptz, jitter_seconds integer) returns timestamptz
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare x bigint := mod(floor(extract(epoch from planned_at) / 60)::bigint, 4294967296);
begin
  if planned_at is null or jitter_seconds = 0 then return planned_at; end if;
  for i in 1..length(id) loop x := mod(x * 31 + ascii(substr(id, i, 1)), 4294967296); end loop;
  x := mod(x * 1664525 + 1013904223, 4294967296);
  return planned_at + make_interval(secs => (x * (jitter_seconds + 1)) >> 32);
end $$;
grant execute on function app.due_at to agentry_api;

-- Tools.
alter table data.configs add constraint configs_kind_key unique (app_id, sandbox_id, org_id, id, kind);

create table data.agent_tools (
  id             text collate "C" not null,
  app_id         text collate "C" not null,
  sandbox_id     text collate "C" not null,
  org_id         text collate "C" not null,
  agent_id       text collate "C" not null,
  kind           text not null check (kind in ('builtin', 'custom', 'mcp')),
  status         text not null default 'disabled' check (status in ('active', 'disabled')),
  name           text,
  name_prefix    text,
  -- What a model calls it by. A builtin brings its own names, a server of tools those that it lists.
  function_name  text generated always as (case when kind = 'custom' then
                   case when name_prefix is null then name else name_prefix || '_' || name end end) stored,
  description    text,
  instruction    text,
  handler_type   text check (handler_type in ('http', 'script', 'builtin', 'workflow_graph')),
  builtin_tool_key text,
  builtin_tool_config jsonb,
  parameters     jsonb,
  parameters_config_id text collate "C",
  config_id      text collate "C",
  -- The kind that its config must be of.
  config_kind    text generated always as (case when kind = 'mcp' then 'McpServer' else case handler_type
                   when 'http' then 'HttpTool' when 'script' then 'Script' when 'workflow_graph' then 'WorkflowGraph' end end) stored,
  effect         text check (effect in ('read', 'idempotent', 'once')),
  approval       text not null default 'none' check (approval in ('none', 'required')),
  async          boolean not null default false,
  lookup_key     text,
  template_config_id text collate "C",
  metadata       jsonb not null default '{}',
  created_at     timestamptz not null default now(),
  updated_at     timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  check (config_id is null or config_kind is not null),
  constraint agent_tools_lookup_key_key unique (app_id, sandbox_id, org_id, agent_id, lookup_key),
  constraint agent_tools_config_fkey foreign key (app_id, sandbox_id, org_id, config_id, config_kind)
    references data.configs (app_id, sandbox_id, org_id, id, kind),
  constraint agent_tools_parameters_config_fkey foreign key (app_id, sandbox_id, org_id, parameters_config_id)
    references data.configs (app_id, sandbox_id, org_id, id),
  constraint agent_tools_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade
);
create index agent_tools_agent_idx on data.agent_tools (app_id, sandbox_id, org_id, agent_id, id);
create trigger at_most after insert on data.agent_tools referencing new table as added
  for each statement execute function app.at_most('100');
create index agent_tools_config_idx on data.agent_tools (app_id, sandbox_id, org_id, config_id, config_kind);
create index agent_tools_parameters_config_idx on data.agent_tools (app_id, sandbox_id, org_id, parameters_config_id);
-- Two active functions of one name would leave the model without a choice; two of a builtin would be the same functions.
create unique index agent_tools_name_key on data.agent_tools (app_id, sandbox_id, org_id, agent_id, function_name)
  where status = 'active';
create unique index agent_tools_builtin_tool_key_key on data.agent_tools (app_id, sandbox_id, org_id, agent_id, builtin_tool_key);
alter table data.agent_tools
  add constraint agent_tools_name_check check (length(function_name) <= 64),
  add constraint agent_tools_size_check check (octet_length(jsonb_build_object('description', description,
    'instruction', instruction, 'parameters', parameters, 'config', builtin_tool_config, 'metadata', metadata)::text) <= 131072);
select app.wall('data.agent_tools', 'select, insert, update, delete');

-- Skills.
create table data.agent_skills (
  id             text collate "C" not null,
  app_id         text collate "C" not null,
  sandbox_id     text collate "C" not null,
  org_id         text collate "C" not null,
  agent_id       text collate "C" not null,
  config_id      text collate "C" not null,
  config_kind    text not null generated always as ('Skill') stored,
  instruction    text,
  status         text not null default 'inactive' check (status in ('active', 'inactive')),
  template_config_id text collate "C",
  metadata       jsonb not null default '{}',
  created_at     timestamptz not null default now(),
  updated_at     timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  -- With its kind, so that a skill can't name a script. Not cascading: a config that is used stays.
  constraint agent_skills_config_fkey foreign key (app_id, sandbox_id, org_id, config_id, config_kind)
    references data.configs (app_id, sandbox_id, org_id, id, kind),
  constraint agent_skills_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade
);
create index agent_skills_agent_idx on data.agent_skills (app_id, sandbox_id, org_id, agent_id, id);
create trigger at_most after insert on data.agent_skills referencing new table as added
  for each statement execute function app.at_most('100');
create index agent_skills_config_idx on data.agent_skills (app_id, sandbox_id, org_id, config_id, config_kind);
select app.wall('data.agent_skills', 'select, insert, update, delete');

-- Env vars: secrets that an agent's tools and scripts are given. Of a value, its hint alone is shown.
create table data.agent_env_vars (
  id          text collate "C" not null,
  app_id      text collate "C" not null,
  sandbox_id  text collate "C" not null,
  org_id      text collate "C" not null,
  agent_id    text collate "C" not null,
  key         text collate "C" not null,
  description text,
  -- The value, and what holds it to this row: lib/auth/vault.ts.
  sealed      bytea not null,
  tag         bytea not null,
  -- The value's last four characters, if it has more than that.
  hint        text,
  created_at  timestamptz not null default now(),
  updated_at  timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint agent_env_vars_key_once unique (app_id, sandbox_id, org_id, agent_id, key),
  constraint agent_env_vars_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade
);
create index agent_env_vars_agent_idx on data.agent_env_vars (app_id, sandbox_id, org_id, agent_id, id);
create trigger at_most after insert on data.agent_env_vars referencing new table as added
  for each statement execute function app.at_most('100');
select app.wall('data.agent_env_vars', 'select, insert, update, delete');

-- Computers.
create table data.agent_computers (
  id             text collate "C" not null,
  app_id         text collate "C" not null,
  sandbox_id     text collate "C" not null,
  org_id         text collate "C" not null,
  agent_id       text collate "C" not null,
  name           text not null,
  lookup_key     text,
  provider       text not null,
  region         text not null,
  config         jsonb not null default '{}',
  status         text not null default 'provisioning' check (status in ('provisioning', 'ready', 'error', 'terminated')),
  error_message  text,
  last_active_at timestamptz,
  -- When its provider was last asked to make it. Null: never, so that there is nothing to end.
  asked_at       timestamptz,
  -- The last lines of its terminal.
  screen         text check (length(screen) <= 4000),
  metadata       jsonb not null default '{}',
  created_at     timestamptz not null default now(),
  updated_at     timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint agent_computers_lookup_key_key unique (app_id, sandbox_id, lookup_key),
  constraint agent_computers_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade
);
create index agent_computers_agent_idx on data.agent_computers (app_id, sandbox_id, org_id, agent_id, id);
create index agent_computers_asked_at_idx on data.agent_computers (asked_at nulls first) where status = 'provisioning';
alter table data.agent_computers
  add constraint agent_computers_config_check check (octet_length(config::text) <= 24576);
create trigger at_most after insert on data.agent_computers referencing new table as added
  for each statement execute function app.at_most('100');
create trigger at_most_in_org after insert on data.agent_computers referencing new table as added
  for each statement execute function app.at_most_in_org('10', 'computers');
select app.wall('data.agent_computers', 'select, insert, update, delete');

-- Routines.
create table data.agent_routines (
  id              text collate "C" not null,
  app_id          text collate "C" not null,
  sandbox_id      text collate "C" not null,
  org_id          text collate "C" not null,
  agent_id        text collate "C" not null,
  -- Who passes its access list beside whom that names. Gone, it lets in nobody more.
  user_id         text collate "C",
  name            text not null,
  description     text,
  lookup_key      text,
  status          text not null default 'draft' check (status in ('draft', 'active', 'paused')),
  trigger_context text not null default 'event' check (trigger_context in ('event', 'chat_session')),
  event_type      text,
  event_config    jsonb,
  schedule        text,
  -- The shortest time between two of the schedule's wall times.
  interval_s      integer,
  -- Of an active one that has a schedule; null until the Scheduler has said it. When that is due, by its jitter.
  next_run_at     timestamptz,
  due_at          timestamptz,
  -- Of each event that starts it, the position behind which it does; null unless it is active.
  heard_since     jsonb,
  handler_type    text not null check (handler_type in ('workflow_graph', 'script', 'preset', 'chain')),
  config_id       text collate "C",
  -- The kind that its config must be of; what is neither a graph nor a script has none.
  config_kind     text generated always as (case handler_type when 'workflow_graph' then 'WorkflowGraph'
                    when 'script' then 'Script' end) stored,
  script          text,
  preset_name     text,
  preset_config   jsonb,
  steps           jsonb not null default '[]',
  message_policy  jsonb,
  template_config_id text collate "C",
  metadata        jsonb not null default '{}',
  acl             jsonb,
  readers         text[] generated always as (app.acl_principals(acl, '{read,write}')) stored,
  writers         text[] generated always as (app.acl_principals(acl, '{write}')) stored,
  created_at      timestamptz not null default now(),
  updated_at      timestamptz not null default now(),
  check ((schedule is null) = (interval_s is null)),
  constraint agent_routines_config_fits check ((handler_type <> 'workflow_graph' or config_id is not null)
    and (config_id is null or config_kind is not null)),
  constraint agent_routines_script_fits check (handler_type <> 'script' or script is not null or config_id is not null),
  constraint agent_routines_preset_name_fits check (handler_type <> 'preset' or preset_name is not null),
  constraint agent_routines_steps_fits check ((handler_type = 'chain') = (jsonb_array_length(steps) > 0)),
  -- Presets that one event alone starts: lib/routines/presets.ts says the same.
  constraint agent_routines_event_type_fits check (handler_type <> 'preset' or case preset_name
    when 'participate' then schedule is null and coalesce(event_type, 'thread.session.join') = 'thread.session.join'
      and coalesce(event_config, '{}') - 'thread.session.join' = '{}'
    when 'auto_memory_capture' then schedule is null and coalesce(event_type, 'thread.session.leave') = 'thread.session.leave'
      and coalesce(event_config, '{}') - 'thread.session.leave' = '{}'
    else true end),
  primary key (app_id, sandbox_id, id),
  constraint agent_routines_owner_key unique (app_id, sandbox_id, org_id, id),
  constraint agent_routines_lookup_key_key unique (app_id, sandbox_id, org_id, agent_id, lookup_key),
  constraint agent_routines_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade,
  constraint agent_routines_user_fkey foreign key (app_id, sandbox_id, org_id, user_id)
    references data.users (app_id, sandbox_id, org_id, id) on delete set null (user_id)
);
create index agent_routines_agent_idx on data.agent_routines (app_id, sandbox_id, org_id, agent_id, id);
create index agent_routines_user_idx on data.agent_routines (app_id, sandbox_id, org_id, user_id) where user_id is not null;
-- Who reacts to an org's events, in one look.
create index agent_routines_listening_idx on data.agent_routines (app_id, sandbox_id, org_id)
  where status = 'active' and coalesce(event_type, event_config::text) is not null;
create index agent_routines_config_idx on data.agent_routines (app_id, sandbox_id, org_id, config_id, config_kind)
  where config_id is not null;
-- Presets of which an agent has one.
create unique index agent_routines_preset_name_once on data.agent_routines (app_id, sandbox_id, org_id, agent_id, preset_name)
  where handler_type = 'preset' and preset_name in ('participate', 'auto_memory_capture');
-- A thousand of them make 16 MB: what is longer stands in a config. Not valid: an older routine may have a config of
-- another kind, which does nothing.
alter table data.agent_routines
  add constraint agent_routines_config_fkey foreign key (app_id, sandbox_id, org_id, config_id, config_kind)
    references data.configs (app_id, sandbox_id, org_id, id, kind) not valid,
  add constraint agent_routines_acl_check check (jsonb_array_length(acl -> 'grants') <= 200),
  add constraint agent_routines_size_check check (octet_length(jsonb_build_object('description', description,
    'event_config', event_config, 'script', script, 'preset_config', preset_config, 'steps', steps,
    'message_policy', message_policy, 'metadata', metadata, 'acl', acl)::text) <= 16384);
create trigger at_most after insert on data.agent_routines referencing new table as added
  for each statement execute function app.at_most('100');
create index agent_routines_due_at_idx on data.agent_routines (due_at) where due_at is not null;
create index agent_routines_place_idx on data.agent_routines (app_id, sandbox_id, org_id, due_at) where due_at is not null;
-- What its schedule comes to next is the Scheduler's to say. From the instant of a change on, which `due_at` is until
-- then, the routine waits for it.
create function app.plan_routine() returns trigger
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare cron jsonb := coalesce(new.event_config -> 'schedule.cron', '{}');
begin
  new.heard_since := case when new.status = 'active' then
    app.heard_since(old.heard_since, array(select jsonb_object_keys(new.event_config)) || new.event_type) end;
  if new.status <> 'active' or new.schedule is null then
    new.next_run_at := null;
    new.due_at := null;
  elsif tg_op = 'INSERT' or (old.status, old.schedule, old.event_config -> 'schedule.cron' -> 'timezone')
      is distinct from (new.status, new.schedule, cron -> 'timezone') then
    new.next_run_at := null;
    new.due_at := now();
  elsif coalesce(new.next_run_at, old.next_run_at) is not null then
    new.due_at := app.due_at(new.id, new.next_run_at,
      case when cron @? '$.jitter_seconds ? (@ >= 0 && @ <= 3600 && @ % 1 == 0)' then (cron ->> 'jitter_seconds')::integer else 0 end);
  end if;
  return new;
end $$;
create trigger plan before insert or update of status, schedule, event_type, event_config, next_run_at on data.agent_routines
  for each row execute function app.plan_routine();
select app.wall('data.agent_routines', 'select, insert, update, delete');

-- The configs that a routine's JSON names: of its steps, and the forms of its messages. Kept by the row itself, so that
-- foreign keys keep what it names, whoever wrote it.
create table data.agent_routine_configs (
  app_id      text collate "C" not null,
  sandbox_id  text collate "C" not null,
  org_id      text collate "C" not null,
  agent_id    text collate "C" not null,
  routine_id  text collate "C" not null,
  config_id   text collate "C" not null,
  config_kind text not null,
  primary key (app_id, sandbox_id, org_id, routine_id, config_id, config_kind),
  constraint agent_routine_configs_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade,
  constraint agent_routine_configs_routine_fkey foreign key (app_id, sandbox_id, org_id, routine_id)
    references data.agent_routines (app_id, sandbox_id, org_id, id) on delete cascade,
  constraint agent_routine_configs_config_fkey foreign key (app_id, sandbox_id, org_id, config_id, config_kind)
    references data.configs (app_id, sandbox_id, org_id, id, kind)
);
create index agent_routine_configs_agent_idx on data.agent_routine_configs (app_id, sandbox_id, org_id, agent_id);
create index agent_routine_configs_config_idx on data.agent_routine_configs (app_id, sandbox_id, org_id, config_id, config_kind);
select app.wall('data.agent_routine_configs', 'select, insert, delete');

-- What a routine's JSON says (its steps, one of them, or a preset_config), each config in it named by its id: `ids` has
-- them by kind and name. What has none there becomes '', which no foreign key takes.
create function app.with_ids(said jsonb, ids jsonb) returns jsonb
language plpgsql immutable set search_path = '' as $$
declare kind text := case said ->> 'handler_type' when 'script' then 'Script ' else 'WorkflowGraph ' end;
begin
  if jsonb_typeof(said) = 'array' then
    return (select coalesce(jsonb_agg(app.with_ids(step, ids) order by n), '[]')
      from jsonb_array_elements(said) with ordinality steps (step, n));
  end if;
  if said ->> 'config' is not null then
    said := said || jsonb_build_object('config', coalesce(ids ->> (kind || (said ->> 'config')), ''));
  end if;
  if jsonb_typeof(said -> 'structured_message_template_ids') = 'array' then
    said := said || jsonb_build_object('structured_message_template_ids', (
      select coalesce(jsonb_agg(coalesce(ids ->> ('AgentMessageSchema ' || form), '') order by n), '[]')
        from jsonb_array_elements_text(said -> 'structured_message_template_ids') with ordinality forms (form, n)));
  end if;
  if jsonb_typeof(said -> 'preset_config') = 'object' then
    said := said || jsonb_build_object('preset_config', app.with_ids(said -> 'preset_config', ids));
  end if;
  return said;
end $$;
grant execute on function app.with_ids to agentry_api;

create function app.keep_configs() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  delete from data.agent_routine_configs c
   where (c.app_id, c.sandbox_id, c.org_id, c.routine_id) = (new.app_id, new.sandbox_id, new.org_id, new.id);
  insert into data.agent_routine_configs (app_id, sandbox_id, org_id, agent_id, routine_id, config_id, config_kind)
    select new.app_id, new.sandbox_id, new.org_id, new.agent_id, new.id, named.id, named.kind from (
      select step ->> 'config', case step ->> 'handler_type' when 'script' then 'Script' else 'WorkflowGraph' end
        from jsonb_array_elements(new.steps) step where step ->> 'config' is not null
      union
      select schema #>> '{}', 'AgentMessageSchema' from (
        select jsonb_path_query(new.preset_config, '$.structured_message_template_ids[*] ? (@ != null)')
        union all
        select jsonb_path_query(new.steps, '$[*].preset_config.structured_message_template_ids[*] ? (@ != null)')
      ) said (schema)
    ) named (id, kind);
  return null;
end $$;
create trigger keep_configs after insert or update of steps, preset_config on data.agent_routines
  for each row execute function app.keep_configs();

-- Automations, which are configs: what of one starts it stands here, beside its config.
create table data.automations (
  -- Its config's.
  id              text collate "C" not null,
  app_id          text collate "C" not null,
  sandbox_id      text collate "C" not null,
  org_id          text collate "C" not null,
  status          text not null default 'draft' check (status in ('draft', 'active', 'paused', 'archived')),
  automation_type text not null default 'trigger' check (automation_type in ('trigger', 'scheduled', 'invoked')),
  -- Whom it acts as, which may be gone: then nothing starts it.
  agent_id        text collate "C",
  user_id         text collate "C",
  -- What it runs. Null where a draft names what isn't there.
  config_id       text collate "C",
  event_type      text,
  event_config    jsonb,
  schedule        text,
  -- All that its config says.
  said            jsonb not null default '{}',
  next_run_at     timestamptz,
  due_at          timestamptz,
  heard_since     jsonb,
  updated_at      timestamptz not null default now(),
  check (config_id is not null or status in ('draft', 'archived')),
  primary key (app_id, sandbox_id, id),
  constraint automations_config_fkey foreign key (app_id, sandbox_id, org_id, id)
    references data.configs (app_id, sandbox_id, org_id, id) on delete cascade
);
create index automations_config_idx on data.automations (app_id, sandbox_id, org_id, id);
-- Who reacts to an org's events, in one look.
create index automations_listening_idx on data.automations (app_id, sandbox_id, org_id)
  where status = 'active' and automation_type = 'trigger';
create index automations_due_at_idx on data.automations (due_at) where due_at is not null;
create index automations_place_idx on data.automations (app_id, sandbox_id, org_id, due_at) where due_at is not null;
alter table data.automations
  add constraint automations_said_check check (octet_length(said::text) <= 49152);
create trigger plan before insert or update of status, schedule, event_type, event_config, next_run_at on data.automations
  for each row execute function app.plan_routine();
create trigger at_most after insert on data.automations referencing new table as added
  for each statement execute function app.at_most_in_org('1000', 'automations');
select app.wall('data.automations', 'select, insert, update');

-- Runs, of routines and of automations.
create table data.agent_routine_runs (
  id                  text collate "C" not null,
  app_id              text collate "C" not null,
  sandbox_id          text collate "C" not null,
  org_id              text collate "C" not null,
  -- Of an automation the one that it acts as, where there is one.
  agent_id            text collate "C",
  -- That may be gone since. The access list that the routine had when the run began is the run's own.
  routine_id          text collate "C",
  automation_id       text collate "C",
  -- For whom it runs.
  user_id             text collate "C",
  status              text not null default 'pending'
                      check (status in ('pending', 'running', 'completed', 'failed', 'skipped', 'cancelled')),
  event_id            text,
  idempotency_key     text collate "C",
  payload             jsonb not null default '{}',
  participants        jsonb,
  delivery            jsonb not null default '{"type": "none", "status": "not_requested"}',
  worker_status       text not null default 'queued'
                      check (worker_status in ('queued', 'executing', 'retrying', 'completed', 'discarded', 'cancelled')),
  attempt             integer not null default 0,
  max_attempts        integer not null default 3,
  duration_ms         integer,
  result              jsonb,
  structured_response jsonb,
  -- What started it: an event, or an occurrence of the routine's own schedule.
  event_name          text not null default 'agentroutine.invoked',
  planned_at          timestamptz,
  -- The routines whose runs led to it, oldest first, without its own.
  causes              text[] collate "C" not null default '{}',
  dedupe_key          text,
  -- From then on it counts as one of those at once.
  admitted_at         timestamptz,
  -- Of the newest frame that the columns around this one tell of.
  sequence            integer not null default 0,
  started_at          timestamptz,
  completed_at        timestamptz,
  -- When its object is to be looked after, if nobody has heard of it by then.
  look_at             timestamptz default now() + interval '45 seconds',
  metadata            jsonb not null default '{}',
  acl                 jsonb,
  readers             text[] generated always as (app.acl_principals(acl, '{read,write}')) stored,
  writers             text[] generated always as (app.acl_principals(acl, '{write}')) stored,
  created_at          timestamptz not null default now(),
  updated_at          timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint agent_routine_runs_owner_key unique (app_id, sandbox_id, org_id, id),
  constraint agent_routine_runs_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade,
  constraint agent_routine_runs_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade,
  constraint agent_routine_runs_user_fkey foreign key (app_id, sandbox_id, org_id, user_id)
    references data.users (app_id, sandbox_id, org_id, id) on delete set null (user_id),
  constraint agent_routine_runs_of_check
    check (case when automation_id is null then agent_id is not null else routine_id is null end)
);
create index agent_routine_runs_agent_idx on data.agent_routine_runs (app_id, sandbox_id, org_id, agent_id, id);
create index agent_routine_runs_routine_idx on data.agent_routine_runs (app_id, sandbox_id, org_id, routine_id, id);
create index agent_routine_runs_user_idx on data.agent_routine_runs (app_id, sandbox_id, org_id, user_id) where user_id is not null;
-- A key makes one run; what came to nothing leaves it free.
create unique index agent_routine_runs_idempotency_key_key
  on data.agent_routine_runs (app_id, sandbox_id, org_id, routine_id, idempotency_key)
  where idempotency_key is not null and status in ('pending', 'running', 'completed');
-- One cause makes one run.
create unique index agent_routine_runs_event_key on data.agent_routine_runs (app_id, sandbox_id, org_id, routine_id, event_id)
  where event_id is not null;
create unique index agent_routine_runs_planned_at_key
  on data.agent_routine_runs (app_id, sandbox_id, org_id, routine_id, planned_at) where planned_at is not null;
-- What is not over.
create index agent_routine_runs_open_idx on data.agent_routine_runs (app_id, sandbox_id, org_id, agent_id, id)
  where status in ('pending', 'running');
create index agent_routine_runs_planned_idx on data.agent_routine_runs (app_id, sandbox_id, org_id, routine_id)
  where planned_at is not null and status in ('pending', 'running');
create index agent_routine_runs_behind_idx on data.agent_routine_runs (app_id, sandbox_id, org_id, look_at)
  where look_at is not null and status in ('pending', 'running');
create index agent_routine_runs_dedupe_idx on data.agent_routine_runs (app_id, sandbox_id, org_id, routine_id, dedupe_key, created_at)
  where dedupe_key is not null;
-- A page of a hundred makes 13 MB.
alter table data.agent_routine_runs
  add constraint agent_routine_runs_size_check check (octet_length(jsonb_build_object('payload', payload,
    'participants', participants, 'delivery', delivery, 'metadata', metadata, 'acl', acl)::text) <= 69632),
  add constraint agent_routine_runs_result_check
    check (octet_length(jsonb_build_array(result, structured_response)::text) <= 131072);
-- How many began within the minute.
create index agent_routine_runs_admitted_idx on data.agent_routine_runs (app_id, sandbox_id, org_id, admitted_at)
  where admitted_at is not null;
create index agent_routine_runs_automation_idx on data.agent_routine_runs (app_id, sandbox_id, org_id, automation_id, id)
  where automation_id is not null;
-- A key makes one run of an automation, whatever came of it; and so does a cause.
create unique index agent_routine_runs_automation_key_key
  on data.agent_routine_runs (app_id, sandbox_id, org_id, automation_id, idempotency_key)
  where automation_id is not null and idempotency_key is not null;
create unique index agent_routine_runs_automation_event_key
  on data.agent_routine_runs (app_id, sandbox_id, org_id, automation_id, event_id)
  where automation_id is not null and event_id is not null;
create unique index agent_routine_runs_automation_planned_at_key
  on data.agent_routine_runs (app_id, sandbox_id, org_id, automation_id, planned_at)
  where automation_id is not null and planned_at is not null;
create index agent_routine_runs_automation_dedupe_idx
  on data.agent_routine_runs (app_id, sandbox_id, org_id, automation_id, dedupe_key, created_at)
  where automation_id is not null and dedupe_key is not null;
select app.wall('data.agent_routine_runs', 'select, insert, update, delete');

-- Work items: what a run's graph hands to an agent, for whoever works for it outside. The run waits for one.
create table data.work_items (
  id               text collate "C" not null,
  app_id           text collate "C" not null,
  sandbox_id       text collate "C" not null,
  org_id           text collate "C" not null,
  agent_id         text collate "C" not null,
  -- Whose journal has the command.
  run_id           text collate "C" not null,
  command_id       text collate "C" not null,
  node_id          text not null,
  payload          jsonb not null default '{}',
  status           text not null default 'queued' check (status in ('queued', 'claimed', 'running', 'succeeded', 'failed')),
  attempt_count    integer not null default 0,
  -- Of whoever has it, a SHA-256: nobody who sees the row can act for it.
  lease_hash       bytea,
  lease_expires_at timestamptz,
  result           jsonb check (result is null or status = 'succeeded'),
  error            jsonb check (error is null or status = 'failed'),
  created_at       timestamptz not null default now(),
  updated_at       timestamptz not null default now(),
  check ((status in ('claimed', 'running')) = (lease_expires_at is not null)),
  primary key (app_id, sandbox_id, id),
  constraint work_items_command_key unique (app_id, sandbox_id, org_id, run_id, command_id),
  constraint work_items_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade,
  constraint work_items_run_fkey foreign key (app_id, sandbox_id, org_id, run_id)
    references data.agent_routine_runs (app_id, sandbox_id, org_id, id) on delete cascade
);
create index work_items_agent_idx on data.work_items (app_id, sandbox_id, org_id, agent_id, id);
create index work_items_open_idx on data.work_items (app_id, sandbox_id, org_id, agent_id, id)
  where status in ('queued', 'claimed', 'running');
-- As JSON is written here, with its blanks: a page of a hundred makes 10 MB.
alter table data.work_items
  add constraint work_items_payload_check check (octet_length(payload::text) <= 98304),
  add constraint work_items_outcome_check check (octet_length(jsonb_build_array(result, error)::text) <= 98304);
select app.wall('data.work_items', 'select, insert, update');

-- Schedules.
create table data.agent_schedules (
  id              text collate "C" not null,
  app_id          text collate "C" not null,
  sandbox_id      text collate "C" not null,
  org_id          text collate "C" not null,
  agent_id        text collate "C" not null,
  schedule_type   text not null check (schedule_type in ('once', 'recurring')),
  cron_expression text,
  scheduled_at    timestamptz,
  timezone        text not null,
  instructions    text not null,
  max_runs        integer check (max_runs > 0),
  run_count       integer not null default 0,
  status          text not null default 'active' check (status in ('active', 'paused', 'completed', 'cancelled', 'expired')),
  -- Of an active one; the others have no next.
  next_run_at     timestamptz,
  last_run_at     timestamptz,
  overlap         text not null default 'skip'
                  check (overlap in ('skip', 'buffer_one', 'buffer_all', 'cancel_other', 'allow_all')),
  catchup         text not null default 'one' check (catchup in ('none', 'one', 'all')),
  catchup_window_seconds integer not null default 3600 check (catchup_window_seconds between 10 and 31622400),
  jitter_seconds  integer not null default 0 check (jitter_seconds between 0 and 3600),
  -- Paused, one that comes once is looked at when its instant passes: from then on it has expired.
  due_at          timestamptz generated always as (app.due_at(id, case when status = 'paused' then scheduled_at else next_run_at end,
                    jitter_seconds)) stored,
  metadata        jsonb not null default '{}',
  created_at      timestamptz not null default now(),
  updated_at      timestamptz not null default now(),
  constraint agent_schedules_cron_expression_fits check ((schedule_type = 'recurring') = (cron_expression is not null)),
  constraint agent_schedules_scheduled_at_fits check ((schedule_type = 'once') = (scheduled_at is not null)),
  constraint agent_schedules_max_runs_fits check (run_count <= max_runs),
  constraint agent_schedules_next_run_at_check check ((status = 'active') = (next_run_at is not null)),
  primary key (app_id, sandbox_id, id),
  constraint agent_schedules_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade
);
create index agent_schedules_agent_idx on data.agent_schedules (app_id, sandbox_id, org_id, agent_id, id);
-- A hundred of them make 6.5 MB.
alter table data.agent_schedules
  add constraint agent_schedules_size_check check (octet_length(instructions) + octet_length(metadata::text) <= 65536);
create index agent_schedules_due_at_idx on data.agent_schedules (due_at) where due_at is not null;
create index agent_schedules_place_idx on data.agent_schedules (app_id, sandbox_id, org_id, due_at) where due_at is not null;
create trigger at_most after insert on data.agent_schedules referencing new table as added
  for each statement execute function app.at_most('100');
create trigger at_most_in_org after insert on data.agent_schedules referencing new table as added
  for each statement execute function app.at_most_in_org('10000', 'schedules');
select app.wall('data.agent_schedules', 'select, insert, update, delete');

-- Occurrences: what a schedule, or a routine's, was planned for, and what came of it. Links to what they are of, and to
-- what they began, are no foreign keys: those may be gone.
create table data.occurrences (
  id            text collate "C" not null,
  app_id        text collate "C" not null,
  sandbox_id    text collate "C" not null,
  org_id        text collate "C" not null,
  -- Null: of an automation that acts as no agent.
  agent_id      text collate "C",
  schedule_id   text collate "C",
  routine_id    text collate "C",
  automation_id text collate "C",
  planned_at    timestamptz not null,
  -- Null: it hasn't begun. It waits, where its outcome is buffered or backfilled.
  fired_at      timestamptz,
  outcome       text not null
              check (outcome in ('fired', 'buffered', 'skipped_overlap', 'missed', 'suspended', 'cancelled', 'backfilled')),
  -- What it does where another is under way.
  overlap       text not null check (overlap in ('skip', 'buffer_one', 'buffer_all', 'cancel_other', 'allow_all')),
  session_id    text collate "C",
  run_id        text collate "C",
  created_at    timestamptz not null default now(),
  check (num_nonnulls(schedule_id, routine_id, automation_id) = 1),
  check (agent_id is not null or automation_id is not null),
  check ((fired_at is not null) = (coalesce(session_id, run_id) is not null)),
  primary key (app_id, sandbox_id, id),
  constraint occurrences_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade,
  constraint occurrences_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade
);
create index occurrences_agent_idx on data.occurrences (app_id, sandbox_id, org_id, agent_id);
-- An instant comes once.
create unique index occurrences_schedule_key on data.occurrences (app_id, sandbox_id, org_id, schedule_id, planned_at)
  where schedule_id is not null;
create unique index occurrences_routine_key on data.occurrences (app_id, sandbox_id, org_id, routine_id, planned_at)
  where routine_id is not null;
create index occurrences_of_schedule_idx on data.occurrences (app_id, sandbox_id, org_id, schedule_id, id) where schedule_id is not null;
create index occurrences_of_routine_idx on data.occurrences (app_id, sandbox_id, org_id, routine_id, id) where routine_id is not null;
create unique index occurrences_automation_key on data.occurrences (app_id, sandbox_id, org_id, automation_id, planned_at)
  where automation_id is not null;
-- What waits.
-- By no `coalesce`: what isn't known to leak nothing, row-level security asks of no index.
create index occurrences_waiting_idx on data.occurrences (app_id, sandbox_id, org_id,
    (case when schedule_id is not null then schedule_id when routine_id is not null then routine_id else automation_id end), planned_at)
  where fired_at is null and outcome in ('buffered', 'backfilled');
-- What an agent's schedules have missed lately, its health asks for.
create index occurrences_missed_idx on data.occurrences (app_id, sandbox_id, org_id, agent_id, planned_at)
  where outcome = 'missed';
select app.wall('data.occurrences', 'select, insert, update');

-- Installations: what connects an agent with something outside of it, and what it reads there.
create table data.agent_installations (
  id             text collate "C" not null,
  app_id         text collate "C" not null,
  sandbox_id     text collate "C" not null,
  org_id         text collate "C" not null,
  agent_id       text collate "C" not null,
  kind           text not null,
  lookup_key     text,
  state          text not null default 'pending' check (state in ('pending', 'active', 'paused', 'suspended')),
  config         jsonb not null default '{}',
  status_payload jsonb,
  -- The integration that was given with it, tokens and all, and what holds it to this row: lib/auth/vault.ts.
  sealed         bytea,
  tag            bytea,
  created_at     timestamptz not null default now(),
  updated_at     timestamptz not null default now(),
  check ((sealed is null) = (tag is null)),
  primary key (app_id, sandbox_id, id),
  constraint agent_installations_owner_key unique (app_id, sandbox_id, org_id, agent_id, id),
  constraint agent_installations_lookup_key_key unique (app_id, sandbox_id, org_id, lookup_key),
  constraint agent_installations_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade
);
-- A list over agents reads a thousand rows: 12 MB.
alter table data.agent_installations
  add constraint agent_installations_config_check check (octet_length(config::text) <= 12288);
create trigger at_most after insert on data.agent_installations referencing new table as added
  for each statement execute function app.at_most('100');
select app.wall('data.agent_installations', 'select, insert, update, delete');

create table data.installation_sources (
  id              text collate "C" not null,
  app_id          text collate "C" not null,
  sandbox_id      text collate "C" not null,
  org_id          text collate "C" not null,
  agent_id        text collate "C" not null,
  installation_id text collate "C" not null,
  type            text not null,
  payload         jsonb not null default '{}',
  metadata        jsonb not null default '{}',
  state           text not null default 'pending' check (state in ('pending', 'active', 'paused')),
  created_at      timestamptz not null default now(),
  updated_at      timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint installation_sources_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade,
  constraint installation_sources_installation_fkey foreign key (app_id, sandbox_id, org_id, agent_id, installation_id)
    references data.agent_installations (app_id, sandbox_id, org_id, agent_id, id) on delete cascade
);
create index installation_sources_installation_idx
  on data.installation_sources (app_id, sandbox_id, org_id, agent_id, installation_id, id);
alter table data.installation_sources
  add constraint installation_sources_payload_check check (octet_length(payload::text) <= 12288);
create trigger at_most after insert on data.installation_sources referencing new table as added
  for each statement execute function app.at_most('1000');
select app.wall('data.installation_sources', 'select, insert, update, delete');

-- Working memory: what an agent writes down for itself. Past its end an entry is hidden, not gone.
create table data.agent_working_memory (
  id         text collate "C" not null,
  app_id     text collate "C" not null,
  sandbox_id text collate "C" not null,
  org_id     text collate "C" not null,
  agent_id   text collate "C" not null,
  key        text not null,
  value      text not null,
  expires_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint agent_working_memory_key_key unique (app_id, sandbox_id, org_id, agent_id, key),
  constraint agent_working_memory_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade
);
create index agent_working_memory_agent_idx on data.agent_working_memory (app_id, sandbox_id, org_id, agent_id, id);
alter table data.agent_working_memory
  add constraint agent_working_memory_value_check check (char_length(value) <= 65536);
create trigger at_most after insert on data.agent_working_memory referencing new table as added
  for each statement execute function app.at_most('1000');
select app.wall('data.agent_working_memory', 'select, insert, update, delete');

-- Health actions.
create table data.agent_health_actions (
  id             text collate "C" not null,
  app_id         text collate "C" not null,
  sandbox_id     text collate "C" not null,
  org_id         text collate "C" not null,
  agent_id       text collate "C" not null,
  source         text not null check (source in ('setup', 'health')),
  kind           text not null check (kind in ('env_var', 'install', 'custom', 'integration')),
  status         text not null default 'pending' check (status in ('pending', 'completed', 'skipped', 'degraded')),
  title          text not null,
  description    text,
  params         jsonb not null default '{}',
  required       boolean not null default true,
  sort_order     integer not null default 0,
  -- Ids of actions of the same agent, all made together: none depends on a later one, so there is no cycle.
  depends_on     text[] collate "C" not null default '{}',
  verify_config  jsonb,
  -- The script that looks whether it is done.
  script_id      text collate "C" generated always as (case when jsonb_typeof(verify_config -> 'script_ref') = 'string'
                   then nullif(verify_config ->> 'script_ref', '') end) stored,
  script_kind    text not null generated always as ('Script') stored,
  -- What a bundle calls it by.
  dedupe_key     text,
  last_verified_at timestamptz,
  last_verifier_message text,
  created_at     timestamptz not null default now(),
  updated_at     timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint agent_health_actions_dedupe_key_key unique (app_id, sandbox_id, org_id, agent_id, dedupe_key),
  constraint agent_health_actions_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade
);
create index agent_health_actions_agent_idx on data.agent_health_actions (app_id, sandbox_id, org_id, agent_id, id);
create index agent_health_actions_script_idx on data.agent_health_actions (app_id, sandbox_id, org_id, script_id, script_kind)
  where script_id is not null;
create trigger at_most after insert on data.agent_health_actions referencing new table as added
  for each statement execute function app.at_most('100');
-- Not valid: an older action may name a script that isn't there any more.
alter table data.agent_health_actions
  add constraint agent_health_actions_script_fkey foreign key (app_id, sandbox_id, org_id, script_id, script_kind)
    references data.configs (app_id, sandbox_id, org_id, id, kind) not valid,
  add constraint agent_health_actions_size_check check (octet_length(jsonb_build_object('description', description,
    'params', params, 'verify_config', verify_config)::text) <= 32768);
select app.wall('data.agent_health_actions', 'select, insert, update, delete');

-- Sessions: what an agent was asked to do. What one is in the middle of, its Durable Object holds; status, counts and what
-- came of it are told here, by whoever has the newest `sequence`.

-- Durable Objects whose row is gone, and which are still to be told so. The sweep tells them.
create table app.erasures (
  n          bigint generated always as identity primary key,
  app_id     text collate "C" not null,
  sandbox_id text collate "C" not null,
  org_id     text collate "C" not null,
  id         text collate "C" not null,
  kind       text not null check (kind in ('agent_session', 'event_subscription', 'agent', 'agent_routine_run', 'webhook_endpoint', 'agent_computer')),
  deleted_at timestamptz not null default now(),
  tried_at   timestamptz,
  -- Of the object of that id, what alone is gone.
  parts      text[] collate "C"
);
create index erasures_tried_at_idx on app.erasures (tried_at nulls first, n);

-- The argument is the kind. Once a statement, also where what the rows hang on takes them along.
create function app.leave_objects() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into app.erasures (app_id, sandbox_id, org_id, id, kind)
    select g.app_id, g.sandbox_id, g.org_id, g.id, tg_argv[0] from gone g;
  return null;
end $$;

-- All runs of an agent, or of an automation, are in one object, which hears of those that are gone at once.
create function app.leave_runs() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into app.erasures (app_id, sandbox_id, org_id, id, kind, parts)
    select g.app_id, g.sandbox_id, g.org_id, coalesce(g.automation_id, g.agent_id), 'agent_routine_run', array_agg(g.id) from gone g
     group by g.app_id, g.sandbox_id, g.org_id, coalesce(g.automation_id, g.agent_id);
  return null;
end $$;
create trigger leave_runs after delete on data.agent_routine_runs referencing old table as gone
  for each statement execute function app.leave_runs();
create trigger leave_objects after delete on data.agents referencing old table as gone
  for each statement execute function app.leave_objects('agent');

-- What a provider was never asked for is nowhere. The part is the provider.
create function app.leave_computers() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into app.erasures (app_id, sandbox_id, org_id, id, kind, parts)
    select g.app_id, g.sandbox_id, g.org_id, g.id, 'agent_computer', array[g.provider] from gone g where g.asked_at is not null;
  return null;
end $$;
create trigger leave_computers after delete on data.agent_computers referencing old table as gone
  for each statement execute function app.leave_computers();

create table data.agent_sessions (
  id                text collate "C" not null,
  app_id            text collate "C" not null,
  sandbox_id        text collate "C" not null,
  org_id            text collate "C" not null,
  agent_id          text collate "C" not null,
  -- For whom it works. It goes with that user.
  user_id           text collate "C",
  trajectory_id     text collate "C" not null,
  name              text,
  instructions      text not null,
  max_turns         integer not null check (max_turns between 1 and 1000),
  max_tokens        integer not null check (max_tokens between 1 and 10000000),
  max_runs_per_turn integer not null check (max_runs_per_turn between 1 and 100),
  start_idle        boolean not null,
  on_idle           text not null check (on_idle in ('wait', 'complete')),
  result_schema     jsonb,
  is_system_session boolean not null default false,
  -- The routine's run, or the schedule, that it works for, and what led there: see data.events.
  routine_run_id    text collate "C",
  schedule_id       text collate "C",
  causes            text[] collate "C" not null default '{}',
  model             text,
  metadata          jsonb not null default '{}',
  status            text not null default 'pending'
                    check (status in ('pending', 'running', 'waiting', 'completed', 'failed', 'cancelled')),
  error             text check (error is null or status = 'failed'),
  result            jsonb check (result is null or status = 'completed'),
  -- Of the newest frame that the columns around this one tell of.
  sequence          integer not null default 0,
  started_at        timestamptz check (started_at is null or status <> 'pending'),
  completed_at      timestamptz,
  -- When its object is to be looked after, if nobody has heard of it by then: also of one that never began.
  look_at           timestamptz default now() + interval '45 seconds',
  created_at        timestamptz not null default now(),
  updated_at        timestamptz not null default now(),
  check ((completed_at is not null) = (status in ('completed', 'failed', 'cancelled'))),
  primary key (app_id, sandbox_id, id),
  constraint agent_sessions_owner_key unique (app_id, sandbox_id, org_id, id),
  constraint agent_sessions_agent_key unique (app_id, sandbox_id, org_id, agent_id, id),
  constraint agent_sessions_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade,
  constraint agent_sessions_user_fkey foreign key (app_id, sandbox_id, org_id, user_id)
    references data.users (app_id, sandbox_id, org_id, id) on delete cascade
);
create index agent_sessions_user_idx on data.agent_sessions (app_id, sandbox_id, org_id, user_id) where user_id is not null;
create index agent_sessions_routine_run_idx on data.agent_sessions (app_id, sandbox_id, org_id, routine_run_id)
  where routine_run_id is not null;
create index agent_sessions_schedule_idx on data.agent_sessions (app_id, sandbox_id, org_id, schedule_id, id)
  where schedule_id is not null;
create index agent_sessions_open_idx on data.agent_sessions (app_id, sandbox_id, org_id, schedule_id)
  where schedule_id is not null and status in ('pending', 'running', 'waiting');
create unique index agent_sessions_trajectory_key on data.agent_sessions (app_id, sandbox_id, trajectory_id);
create index agent_sessions_behind_idx on data.agent_sessions (app_id, sandbox_id, org_id, look_at)
  where look_at is not null and status in ('pending', 'running', 'waiting');
-- A page of a hundred makes 20 MB.
alter table data.agent_sessions
  add constraint agent_sessions_model_check check (octet_length(model) <= 800),
  add constraint agent_sessions_instructions_check check (octet_length(instructions) <= 65536),
  add constraint agent_sessions_result_schema_check check (octet_length(result_schema::text) <= 65536),
  add constraint agent_sessions_metadata_check check (octet_length(metadata::text) <= 24576),
  add constraint agent_sessions_error_check check (octet_length(error) <= 8192),
  add constraint agent_sessions_result_check check (octet_length(result::text) <= 98304);
create trigger leave_objects after delete on data.agent_sessions referencing old table as gone
  for each statement execute function app.leave_objects('agent_session');
select app.wall('data.agent_sessions', 'select, insert, update, delete');

-- What a session's model asked its tools for, and what a run's commands ask of the world.
create table data.tool_calls (
  id             text collate "C" not null,
  app_id         text collate "C" not null,
  sandbox_id     text collate "C" not null,
  org_id         text collate "C" not null,
  -- Null: of an automation's run that acts as no agent.
  agent_id       text collate "C",
  session_id     text collate "C",
  name           text not null,
  turn           integer not null,
  arguments      jsonb not null,
  arguments_hash text not null,
  effect         text check (effect in ('read', 'idempotent', 'once')),
  outcome        text not null check (outcome in
                 ('pending', 'awaiting_approval', 'running', 'accepted', 'succeeded', 'failed', 'denied', 'unknown')),
  error          text,
  -- How often it was begun.
  attempts       integer not null,
  -- As a session's.
  sequence       integer not null,
  requested_at   timestamptz not null,
  started_at     timestamptz,
  completed_at   timestamptz,
  routine_run_id text collate "C",
  primary key (app_id, sandbox_id, id),
  constraint tool_calls_owner_key unique (app_id, sandbox_id, org_id, id),
  constraint tool_calls_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade,
  constraint tool_calls_session_fkey foreign key (app_id, sandbox_id, org_id, agent_id, session_id)
    references data.agent_sessions (app_id, sandbox_id, org_id, agent_id, id) on delete cascade,
  constraint tool_calls_run_fkey foreign key (app_id, sandbox_id, org_id, routine_run_id)
    references data.agent_routine_runs (app_id, sandbox_id, org_id, id) on delete cascade,
  constraint tool_calls_of_check check ((session_id is null) <> (routine_run_id is null))
);
create index tool_calls_session_idx on data.tool_calls (app_id, sandbox_id, org_id, agent_id, session_id, id);
create index tool_calls_run_idx on data.tool_calls (app_id, sandbox_id, org_id, routine_run_id, id)
  where routine_run_id is not null;
-- What waits for a person.
create index tool_calls_outcome_idx on data.tool_calls (app_id, sandbox_id, org_id, id)
  where outcome in ('awaiting_approval', 'unknown');
-- A page of a hundred makes 7 MB.
alter table data.tool_calls
  add constraint tool_calls_arguments_check check (octet_length(arguments::text) <= 65536),
  add constraint tool_calls_error_check check (octet_length(error) <= 8192);
select app.wall('data.tool_calls', 'select, insert, update');

-- ---------------------------------------------------------------------------------------------------------
-- What every write leaves behind

-- The feed outlives what it tells of, so its links are no foreign keys. `readers` is who could read the subject
-- at that moment; null is everybody in the org.
create table data.activity_feed_entries (
  id             text collate "C" not null,
  app_id         text collate "C" not null,
  sandbox_id     text collate "C" not null,
  org_id         text collate "C" not null,
  kind           text not null,
  level          text not null default 'info' check (level in ('info', 'warning', 'error')),
  title          text,
  content        text,
  correlation_id text,
  agent_id       text collate "C",
  user_id        text collate "C",
  readers        text[],
  metadata       jsonb not null default '{}',
  created_at     timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint activity_feed_entries_owner_key unique (app_id, sandbox_id, org_id, id),
  constraint activity_feed_entries_tenant_fkey
    foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
create index activity_feed_entries_agent_idx
  on data.activity_feed_entries (app_id, sandbox_id, org_id, agent_id, id) where agent_id is not null;
select app.wall('data.activity_feed_entries', 'select, insert');

-- Events: what happened in an org, for whoever reacts to it. Written by the statement that made it happen; numbered after
-- the commit, by one writer at a time.
create table data.events (
  id              text collate "C" not null,
  app_id          text collate "C" not null,
  sandbox_id      text collate "C" not null,
  org_id          text collate "C" not null,
  -- Taken while the row that it tells of is held, so that what causes comes before what it causes. It has gaps.
  position        bigint not null generated always as identity,
  -- Its number in its org, from 1, without a gap; null until it is given.
  sequence        bigint,
  name            text not null,
  payload         jsonb not null,
  -- What it is about and who may read it, as the feed's entries have it: links that are no foreign keys.
  agent_id        text collate "C",
  user_id         text collate "C",
  readers         text[],
  -- The routines whose runs led to it, oldest first.
  causes          text[] collate "C" not null default '{}',
  idempotency_key text,
  created_at      timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint events_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
create unique index events_sequence_key on data.events (app_id, sandbox_id, org_id, sequence) where sequence is not null;
create unique index events_dedupe_key_key on data.events (app_id, sandbox_id, org_id, name, idempotency_key)
  where idempotency_key is not null;
create index events_position_idx on data.events (app_id, sandbox_id, org_id, position) where sequence is null;
alter table data.events add constraint events_payload_check check (octet_length(payload::text) <= 49152);
select app.wall('data.events', 'select, insert, update');

-- From where on each of these names is heard: from here, or from where it has been. By position, since a clock may step back.
create function app.heard_since(before jsonb, names text[]) returns jsonb
language sql volatile set search_path = pg_catalog, pg_temp as $$
  select coalesce(jsonb_object_agg(name, coalesce(before -> name, to_jsonb(nextval('data.events_position_seq')))), '{}')
    from unnest(names) name where name is not null
$$;
grant execute on function app.heard_since to agentry_api;
grant usage on sequence data.events_position_seq to agentry_api;

-- How far the events of an org are numbered, and handed to all who react to them. Whoever numbers holds the row.
create table data.event_heads (
  app_id     text collate "C" not null,
  sandbox_id text collate "C" not null,
  org_id     text collate "C" not null,
  id         text collate "C" not null generated always as (org_id) stored,
  -- The newest number that was given.
  sequence   bigint not null default 0,
  -- Of the newest event that everybody has.
  delivered  bigint not null default 0,
  -- Of the newest event that was kept long enough: it and those before it are gone, or going.
  expired    bigint not null default 0,
  -- When the sweep last woke who numbers here.
  woken_at   timestamptz,
  constraint event_heads_pkey primary key (app_id, sandbox_id, org_id),
  constraint event_heads_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
create index event_heads_behind_idx on data.event_heads (app_id, sandbox_id, org_id) where delivered < sequence;
select app.wall('data.event_heads', 'select, insert, update');

-- Gives the events of a place their numbers, at most so many, in the order of their positions; answers how many. Whoever
-- numbers holds the head from before it looks, so that of two at once the second sees what the first has numbered: no
-- gap, no repeat.
create function app.number_events(app text, sandbox text, org text, most integer) returns bigint
language plpgsql volatile set search_path = '' as $$
declare
  head bigint;
  positions bigint[];
begin
  insert into data.event_heads (app_id, sandbox_id, org_id) values (app, sandbox, org) on conflict do nothing;
  select h.sequence into head from data.event_heads h where (h.app_id, h.sandbox_id, h.org_id) = (app, sandbox, org) for update;
  positions := array(select b.position from data.events b
    where b.app_id = app and b.sandbox_id = sandbox and b.org_id = org and b.sequence is null
    order by b.position limit most);
  -- The n-th of these gets the n-th number. One that has committed since is among them by its position, but isn't one of them.
  update data.events e set sequence = head + width_bucket(e.position, positions)
   where e.app_id = app and e.sandbox_id = sandbox and e.org_id = org and e.sequence is null
     and e.position <= positions[cardinality(positions)] and e.position = positions[width_bucket(e.position, positions)];
  if cardinality(positions) > 0 then
    update data.event_heads h set sequence = head + cardinality(positions)
     where (h.app_id, h.sandbox_id, h.org_id) = (app, sandbox, org);
  end if;
  return cardinality(positions);
end $$;
grant execute on function app.number_events to agentry_api;

-- Event subscriptions: of which events somebody is given each, to be claimed one by one. What waits to be claimed, its
-- Durable Object holds.
create table data.event_subscriptions (
  id                         text collate "C" not null,
  app_id                     text collate "C" not null,
  sandbox_id                 text collate "C" not null,
  org_id                     text collate "C" not null,
  -- Whose it is, and goes with; it hears of what that user may read. Null: the app's own.
  user_id                    text collate "C",
  name                       text not null,
  event_names                text[] not null,
  status                     text not null default 'active' check (status in ('active', 'paused')),
  -- Of each of the names, the position behind which its events are heard; null while it is paused.
  heard_since                jsonb,
  max_pending_events         integer not null check (max_pending_events between 1 and 1000),
  retention_seconds          integer not null check (retention_seconds between 7200 and 2592000),
  visibility_timeout_seconds integer not null check (visibility_timeout_seconds between 15 and 3600),
  -- By which the ids of its deliveries say whose they are.
  tag                        text collate "C" not null generated always as (right(id, 10)) stored,
  created_at                 timestamptz not null default now(),
  updated_at                 timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint event_subscriptions_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade,
  constraint event_subscriptions_user_fkey foreign key (app_id, sandbox_id, org_id, user_id)
    references data.users (app_id, sandbox_id, org_id, id) on delete cascade
);
create unique index event_subscriptions_tag_key on data.event_subscriptions (app_id, sandbox_id, tag);
create index event_subscriptions_org_idx on data.event_subscriptions (app_id, sandbox_id, org_id, id);
create index event_subscriptions_user_idx on data.event_subscriptions (app_id, sandbox_id, org_id, user_id)
  where user_id is not null;
create function app.listen() returns trigger
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  new.heard_since := case when new.status = 'active' then app.heard_since(old.heard_since, new.event_names) end;
  return new;
end $$;
create trigger listen before insert or update of status, event_names on data.event_subscriptions
  for each row execute function app.listen();
create trigger at_most after insert on data.event_subscriptions referencing new table as added
  for each statement execute function app.at_most_in_org('50', 'event_subscriptions');
create trigger leave_objects after delete on data.event_subscriptions referencing old table as gone
  for each statement execute function app.leave_objects('event_subscription');
select app.wall('data.event_subscriptions', 'select, insert, update, delete');

-- Inbound webhooks: addresses at which somebody outside tells an org of something, and what was told there.
create table data.inbound_webhooks (
  id                  text collate "C" not null,
  app_id              text collate "C" not null,
  sandbox_id          text collate "C" not null,
  org_id              text collate "C" not null,
  name                text not null,
  provider            text not null check (provider in ('standard', 'github', 'stripe', 'slack', 'hmac', 'url')),
  -- What a delivery starts, if anything. No foreign keys: it may be gone since.
  routine_id          text collate "C",
  automation_id       text collate "C",
  -- How a provider signs that is none of the known ones.
  hmac                jsonb check (octet_length(hmac::text) <= 4096),
  -- Of its address's token a SHA-256; and, until `overlap_expires_at`, of the one before.
  token_hash          bytea not null,
  previous_token_hash bytea,
  overlap_expires_at    timestamptz,
  -- The secrets that deliveries are signed by, newest first, and what holds them to this row: lib/auth/vault.ts.
  sealed              bytea,
  tag                 bytea,
  -- So many have come since then, good or not.
  counted_since       timestamptz not null default now(),
  counted             integer not null default 0,
  last_received_at    timestamptz,
  created_at          timestamptz not null default now(),
  updated_at          timestamptz not null default now(),
  check ((sealed is null) = (tag is null)),
  check (provider <> 'url' or sealed is null),
  check ((previous_token_hash is null) = (overlap_expires_at is null)),
  check (routine_id is null or automation_id is null),
  constraint inbound_webhooks_hmac_fits check ((provider = 'hmac') = (hmac is not null)),
  primary key (app_id, sandbox_id, id),
  constraint inbound_webhooks_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
create index inbound_webhooks_org_idx on data.inbound_webhooks (app_id, sandbox_id, org_id, id);
create unique index inbound_webhooks_token_key on data.inbound_webhooks (app_id, sandbox_id, org_id, token_hash);
create index inbound_webhooks_previous_token_idx on data.inbound_webhooks (app_id, sandbox_id, org_id, previous_token_hash)
  where previous_token_hash is not null;
create trigger at_most after insert on data.inbound_webhooks referencing new table as added
  for each statement execute function app.at_most_in_org('50', 'inbound_webhooks');
select app.wall('data.inbound_webhooks', 'select, insert, update, delete');

-- What came, and what became of it. It outlives its webhook: a delete would have to wait for all there is.
create table data.webhook_receipts (
  id          text collate "C" not null,
  app_id      text collate "C" not null,
  sandbox_id  text collate "C" not null,
  org_id      text collate "C" not null,
  webhook_id  text collate "C" not null,
  -- What the provider calls the delivery, if it calls it anything.
  delivery_id text,
  status      text not null check (status in ('received', 'started', 'inactive', 'answered')),
  event_id    text collate "C",
  run_id      text collate "C",
  replay_of   text collate "C",
  -- As its event says it; the body, where that is too long to be said there.
  payload     jsonb not null,
  body        bytea,
  created_at  timestamptz not null default now(),
  check ((run_id is not null) = (status = 'started')),
  check ((event_id is null) = (status = 'answered')),
  primary key (app_id, sandbox_id, id),
  constraint webhook_receipts_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
create index webhook_receipts_webhook_idx on data.webhook_receipts (app_id, sandbox_id, org_id, webhook_id, id);
create index webhook_receipts_delivery_idx on data.webhook_receipts (app_id, sandbox_id, org_id, webhook_id, delivery_id, created_at)
  where delivery_id is not null;
alter table data.webhook_receipts
  add constraint webhook_receipts_payload_check check (octet_length(payload::text) <= 65536),
  add constraint webhook_receipts_body_check check (octet_length(body) <= 1000000);
select app.wall('data.webhook_receipts', 'select, insert');

-- For which event a run waits: the first behind a number that has the name and these values, and that the run may read.
create table data.event_waits (
  id         text collate "C" not null,
  app_id     text collate "C" not null,
  sandbox_id text collate "C" not null,
  org_id     text collate "C" not null,
  run_id     text collate "C" not null,
  name       text not null,
  filters    jsonb not null check (octet_length(filters::text) <= 8192),
  -- The newest number that was given before.
  since      bigint not null,
  -- The event, when it has come: the run takes it, and the row goes.
  event_id   text,
  created_at timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint event_waits_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade,
  constraint event_waits_run_fkey foreign key (app_id, sandbox_id, org_id, run_id)
    references data.agent_routine_runs (app_id, sandbox_id, org_id, id) on delete cascade
);
create index event_waits_run_idx on data.event_waits (app_id, sandbox_id, org_id, run_id);
create index event_waits_name_idx on data.event_waits (app_id, sandbox_id, org_id, name);
create trigger at_most after insert on data.event_waits referencing new table as added
  for each statement execute function app.at_most_in_org('1000', 'event_waits');
select app.wall('data.event_waits', 'select, insert, update, delete');

-- What models were asked for, and what it took: a row before the call, its figures after. One whose end nobody wrote down
-- stays `unknown`. It goes with whoever asked.
create table data.model_calls (
  id               text collate "C" not null,
  app_id           text collate "C" not null,
  sandbox_id       text collate "C" not null,
  org_id           text collate "C" not null,
  -- Null: a secret key asked.
  user_id          text collate "C",
  session_id       text,
  operation        text not null check (operation in ('chat', 'image', 'embedding', 'evaluation')),
  model            text not null,
  status           text not null default 'unknown' check (status in ('unknown', 'completed', 'failed', 'cancelled')),
  -- As the provider counts; null where it tells nothing. Cached ones are of the input, reasoning of the output.
  input_tokens     bigint,
  output_tokens    bigint,
  cached_tokens    bigint,
  reasoning_tokens bigint,
  created_at       timestamptz not null default now(),
  completed_at     timestamptz,
  check ((status = 'unknown') = (completed_at is null)),
  primary key (app_id, sandbox_id, id),
  constraint model_calls_tenant_fkey
    foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade,
  constraint model_calls_user_fkey foreign key (app_id, sandbox_id, org_id, user_id)
    references data.users (app_id, sandbox_id, org_id, id) on delete cascade
);
create index model_calls_org_idx on data.model_calls (app_id, sandbox_id, org_id, id);
create index model_calls_user_idx on data.model_calls (app_id, sandbox_id, org_id, user_id) where user_id is not null;
select app.wall('data.model_calls', 'select, insert, update');

-- A key commits with the row it made, and names it; never an answer, which could hold a secret.
create table data.idempotency_keys (
  app_id      text collate "C" not null,
  sandbox_id  text collate "C" not null,
  org_id      text collate "C" not null,
  subject     text collate "C" not null,
  key         text collate "C" not null,
  fingerprint bytea not null,
  row_id      text collate "C" not null,
  created_at  timestamptz not null default now(),
  constraint idempotency_keys_pkey primary key (app_id, sandbox_id, org_id, subject, key),
  constraint idempotency_keys_tenant_fkey
    foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
create index idempotency_keys_created_at_idx on data.idempotency_keys (created_at);
select app.wall('data.idempotency_keys', 'select, insert, delete');

-- ---------------------------------------------------------------------------------------------------------
-- Domains: whose addresses are an org's people. Of one that isn't verified, nothing follows.

create table data.org_domains (
  id          text collate "C" not null,
  app_id      text collate "C" not null,
  sandbox_id  text collate "C" not null,
  org_id      text collate "C" not null,
  domain      text collate "C" not null,
  -- What a TXT record has to say. None, of the domain that the org's own record names: it is verified by who wrote that.
  challenge   text,
  verified_by text check (verified_by in ('developer', 'dns')),
  verified_at timestamptz,
  created_at  timestamptz not null default now(),
  updated_at  timestamptz not null default now(),
  check ((verified_by is null) = (verified_at is null)),
  check (challenge is not null or verified_at is not null),
  primary key (app_id, sandbox_id, id),
  constraint org_domains_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
create index org_domains_org_idx on data.org_domains (app_id, sandbox_id, org_id, id);
create unique index org_domains_domain_once on data.org_domains (app_id, sandbox_id, org_id, domain);
-- One org a domain. What anybody claims and hasn't verified keeps nobody else from it.
create unique index org_domains_domain_key on data.org_domains (app_id, sandbox_id, domain) where verified_at is not null;
create trigger at_most after insert on data.org_domains referencing new table as added
  for each statement execute function app.at_most_in_org('100', 'org_domains');
select app.wall('data.org_domains', 'select, insert, update, delete');

-- What was verified for an org that has ended is free, though its row is still there.
create function app.free_domain() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from data.org_domains d using app.endings e
   where (d.app_id, d.sandbox_id, d.domain) = (new.app_id, new.sandbox_id, new.domain)
     and (e.app_id, e.sandbox_id, e.id) = (d.app_id, d.sandbox_id, d.org_id);
  return new;
end $$;
create trigger free_domain before insert or update of domain, verified_at on data.org_domains for each row
  when (new.verified_at is not null and current_setting('app.ended', true) <> '') execute function app.free_domain();

-- The domain of an org's own record is verified: its row has the id of its org.
create function app.keep_domain() returns trigger
language plpgsql volatile set search_path = '' as $$
declare own text := 'dom_' || substr(new.id, 5);
begin
  delete from data.org_domains d
   where (d.app_id, d.sandbox_id, d.org_id, d.domain) = (new.app_id, new.sandbox_id, new.id, new.domain) and d.id <> own;
  update data.org_domains d set domain = new.domain, verified_at = now(), updated_at = now()
   where (d.app_id, d.sandbox_id, d.org_id, d.id) = (new.app_id, new.sandbox_id, new.id, own);
  if not found then
    insert into data.org_domains (id, app_id, sandbox_id, org_id, domain, verified_by, verified_at)
      values (own, new.app_id, new.sandbox_id, new.id, new.domain, 'developer', now());
  end if;
  return null;
end $$;
create trigger keep_domain_of_new after insert on data.orgs for each row execute function app.keep_domain();
create trigger keep_domain after update of domain on data.orgs for each row
  when (old.domain <> new.domain) execute function app.keep_domain();

-- ---------------------------------------------------------------------------------------------------------
-- Invitations into an org, for whoever proves the address; and of one of its users to the others

-- Those that are open: what became of the others, the feed tells.
create table data.org_invitations (
  id          text collate "C" not null,
  app_id      text collate "C" not null,
  sandbox_id  text collate "C" not null,
  org_id      text collate "C" not null,
  email       text not null,
  email_key   text generated always as (lower(email)) stored,
  role        text not null check (role in ('owner', 'admin', 'member', 'billing', 'viewer')),
  -- Who may be gone since.
  invited_by  text collate "C",
  sent_at     timestamptz not null default now(),
  expires_at  timestamptz not null,
  created_at  timestamptz not null default now(),
  updated_at  timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint org_invitations_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
create index org_invitations_org_idx on data.org_invitations (app_id, sandbox_id, org_id, id);
create unique index org_invitations_email_key on data.org_invitations (app_id, sandbox_id, org_id, email_key);
create trigger at_most after insert on data.org_invitations referencing new table as added
  for each statement execute function app.at_most_in_org('1000', 'org_invitations');
select app.wall('data.org_invitations', 'select, insert, update, delete');

create table data.user_invites (
  id          text collate "C" not null,
  app_id      text collate "C" not null,
  sandbox_id  text collate "C" not null,
  org_id      text collate "C" not null,
  user_id     text collate "C" not null,
  -- Of its key.
  hash        bytea not null,
  metadata    jsonb not null default '{}'
              constraint user_invites_metadata_check check (octet_length(metadata::text) <= 24576),
  accepted_by text collate "C",
  expires_at  timestamptz not null,
  created_at  timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint user_invites_hash_key unique (app_id, sandbox_id, org_id, hash),
  constraint user_invites_user_fkey foreign key (app_id, sandbox_id, org_id, user_id)
    references data.users (app_id, sandbox_id, org_id, id) on delete cascade
);
create index user_invites_user_idx on data.user_invites (app_id, sandbox_id, org_id, user_id, id);
create trigger at_most after insert on data.user_invites referencing new table as added
  for each statement execute function app.at_most_in_org('10000', 'user_invites');
select app.wall('data.user_invites', 'select, insert, update, delete');

-- ---------------------------------------------------------------------------------------------------------
-- SCIM: an org's identity provider keeps its users and its groups

create table data.scim_tokens (
  id           text collate "C" not null,
  app_id       text collate "C" not null,
  sandbox_id   text collate "C" not null,
  org_id       text collate "C" not null,
  hash         bytea not null,
  hint         text not null,
  last_used_at timestamptz,
  created_at   timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint scim_tokens_hash_key unique (app_id, sandbox_id, org_id, hash),
  constraint scim_tokens_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
-- Two: so that one can be changed for another without a gap.
create trigger at_most after insert on data.scim_tokens referencing new table as added
  for each statement execute function app.at_most_in_org('2', 'scim_tokens');
select app.wall('data.scim_tokens', 'select, insert, update, delete');

create table data.scim_groups (
  id           text collate "C" not null,
  app_id       text collate "C" not null,
  sandbox_id   text collate "C" not null,
  org_id       text collate "C" not null,
  display_name text not null,
  name_key     text generated always as (lower(display_name)) stored,
  external_id  text,
  -- What its members may, of those whose role is a provider's word. Never owner: that is given by a person.
  role         text check (role in ('admin', 'member', 'billing', 'viewer')),
  created_at   timestamptz not null default now(),
  updated_at   timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint scim_groups_owner_key unique (app_id, sandbox_id, org_id, id),
  constraint "scim_groups_displayName_key" unique (app_id, sandbox_id, org_id, name_key),
  constraint scim_groups_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
create trigger at_most after insert on data.scim_groups referencing new table as added
  for each statement execute function app.at_most_in_org('1000', 'scim_groups');
select app.wall('data.scim_groups', 'select, insert, update, delete');

create table data.scim_members (
  app_id     text collate "C" not null,
  sandbox_id text collate "C" not null,
  org_id     text collate "C" not null,
  group_id   text collate "C" not null,
  user_id    text collate "C" not null,
  primary key (app_id, sandbox_id, org_id, group_id, user_id),
  constraint scim_members_group_fkey foreign key (app_id, sandbox_id, org_id, group_id)
    references data.scim_groups (app_id, sandbox_id, org_id, id) on delete cascade,
  constraint scim_members_user_fkey foreign key (app_id, sandbox_id, org_id, user_id)
    references data.users (app_id, sandbox_id, org_id, id) on delete cascade
);
create index scim_members_user_idx on data.scim_members (app_id, sandbox_id, org_id, user_id);
-- So that what a list of groups says is bounded, too.
create trigger at_most after insert on data.scim_members referencing new table as added
  for each statement execute function app.at_most_in_org('20000', 'scim_members');
select app.wall('data.scim_members', 'select, insert, delete');

-- Gives users whose role is SCIM's word the most that a group of theirs gives, and member without any: whenever they come
-- into a group or out of it, and when a group gives another role.
create function app.map_roles() returns trigger
language plpgsql volatile set search_path = '' as $$
declare
  ranks constant text[] := array['admin', 'member', 'billing', 'viewer'];
  place record;
begin
  for place in execute format('select t.app_id, t.sandbox_id, t.org_id, array_agg(distinct t.user_id) as users from (%s) t group by 1, 2, 3',
    case tg_table_name when 'scim_members' then 'select * from touched' else 'select m.* from touched g join data.scim_members m
      on (m.app_id, m.sandbox_id, m.org_id, m.group_id) = (g.app_id, g.sandbox_id, g.org_id, g.id)' end) loop
    update data.users u set updated_at = now(), role = r.role
      from (select w.id, coalesce(ranks[min(array_position(ranks, g.role))], 'member') as role from unnest(place.users) w (id)
        left join data.scim_members m
          on (m.app_id, m.sandbox_id, m.org_id, m.user_id) = (place.app_id, place.sandbox_id, place.org_id, w.id)
        left join data.scim_groups g on (g.app_id, g.sandbox_id, g.org_id, g.id) = (m.app_id, m.sandbox_id, m.org_id, m.group_id)
       group by w.id) r
     where (u.app_id, u.sandbox_id, u.org_id, u.id) = (place.app_id, place.sandbox_id, place.org_id, r.id)
       and u.role_source = 'scim' and u.role <> r.role;
  end loop;
  return null;
end $$;
create trigger roles_of_added after insert on data.scim_members referencing new table as touched
  for each statement execute function app.map_roles();
create trigger roles_of_removed after delete on data.scim_members referencing old table as touched
  for each statement execute function app.map_roles();
create trigger roles_of_group after update on data.scim_groups referencing new table as touched
  for each statement execute function app.map_roles();

-- ---------------------------------------------------------------------------------------------------------
-- What is asked for thousands of times a second, as functions whose plans a session keeps: planning is most of what
-- these statements cost. They run as who calls them, behind the door and behind every policy, and name the tenant
-- besides: `org` is '*' for a developer.

-- Whoever comes to an org's SSO, knowing its address: of an org that has a connection. What may be done behind it, the
-- Worker decides, which alone makes the MAC.
create function app.enter_sso(app text, sandbox text, org text, mac bytea) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare status text;
begin
  perform app.check_mac(concat_ws('.', 'sso', app, sandbox, org), mac);
  select o.status into status from data.sso_connections c
    join data.orgs o on (o.app_id, o.sandbox_id, o.id) = (c.app_id, c.sandbox_id, c.org_id)
   where c.app_id = app and c.sandbox_id = sandbox and c.org_id = org
     and (sandbox = '-' or exists (select from data.sandboxes s
       where s.app_id = app and s.sandbox_id = sandbox and (s.expires_at <= now()) is not true))
     and not exists (select from app.endings e where e.app_id = app and e.sandbox_id = sandbox and e.id in (sandbox, org));
  if not found then raise 'sso' using errcode = 'AE404'; end if;
  if status = 'suspended' then raise 'org_suspended' using errcode = 'AE403'; end if;
  perform app.prove(app, sandbox, org);
end $$;
grant execute on function app.enter_sso to agentry_api;

-- Whether an org vouches for addresses of the domain: what its providers say counts for those alone.
create function app.vouches(app text, sandbox text, org text, host text) returns boolean
language sql stable set search_path = '' as $$
  select exists (select from data.org_domains d where d.app_id = app and d.sandbox_id = sandbox and d.org_id = org
    and d.domain = host and d.verified_at is not null)
$$;
grant execute on function app.vouches to agentry_api;

-- Whose provider signs in the people of a domain: the org that has verified it, where its connection has let somebody in.
-- It tells of a domain, and of nobody who has an address there.
create function app.sso_of(app text, sandbox text, host text, mac bytea) returns text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac(concat_ws('.', 'sso_of', app, sandbox, host), mac);
  return (select d.org_id from data.org_domains d
    join data.sso_connections c on (c.app_id, c.sandbox_id, c.org_id) = (d.app_id, d.sandbox_id, d.org_id)
      and c.status in ('active', 'enforced')
    join data.orgs o on (o.app_id, o.sandbox_id, o.id) = (d.app_id, d.sandbox_id, d.org_id) and o.status <> 'suspended'
   where d.app_id = app and d.sandbox_id = sandbox and d.domain = host and d.verified_at is not null
     and not exists (select from app.endings e where e.app_id = app and e.sandbox_id = sandbox and e.id in (sandbox, d.org_id)));
end $$;
grant execute on function app.sso_of to agentry_api;

-- Writes a try down, and lets go of all but the last fifty. Of what was refused the feed tells the admins, and the person where
-- it is known: once a minute a subject, with how often it was since it last did.
create function app.note_sso_attempt(app text, sandbox text, org text, attempt text, connection text, subject text,
  refusal text, entry text) returns void
language plpgsql volatile set search_path = '' as $$
declare
  named text := left(subject, 500);
  usr text;
  last record;
  tells boolean;
begin
  -- One after the other: of two at once, the second sees what the first has told.
  perform from data.sso_connections c
    where c.app_id = app and c.sandbox_id = sandbox and c.org_id = org and c.id = connection for update;
  if not found then return; end if;
  select a.refusals, a.told_at into last from data.sso_attempts a
   where a.app_id = app and a.sandbox_id = sandbox and a.org_id = org and a.connection_id = connection
     and a.refusal is not null and a.subject is not distinct from named order by a.told_at desc, a.refusals desc limit 1;
  tells := refusal is not null and (last.told_at > now() - interval '1 minute') is not true;
  insert into data.sso_attempts (app_id, sandbox_id, org_id, id, connection_id, subject, refusal, refusals, told_at)
    values (app, sandbox, org, attempt, connection, named, left(refusal, 1000),
      case when refusal is null or tells then 0 else last.refusals + 1 end, case when tells then now() else last.told_at end);
  delete from data.sso_attempts a
   where a.app_id = app and a.sandbox_id = sandbox and a.org_id = org and a.connection_id = connection
     and a.id <= (select b.id from data.sso_attempts b where b.app_id = app and b.sandbox_id = sandbox and b.org_id = org
       and b.connection_id = connection order by b.id desc offset 50 limit 1);
  if not tells then return; end if;
  select i.user_id into usr from data.sso_identities i
   where i.app_id = app and i.sandbox_id = sandbox and i.org_id = org and i.connection_id = connection
     and i.subject = note_sso_attempt.subject;
  insert into data.activity_feed_entries (app_id, sandbox_id, org_id, id, kind, level, title, user_id, readers, metadata)
    values (app, sandbox, org, entry, 'sign_in.refused', 'warning', 'A sign-in by SSO was refused', usr,
      case when usr is null then array[]::text[] else array['user:' || usr] end,
      jsonb_build_object('actor', null, 'sso', connection, 'attempt', attempt, 'subject', named,
        'refusals', coalesce(last.refusals, 0) + 1));
end $$;
grant execute on function app.note_sso_attempt to agentry_api;

-- Takes what a provider has said of somebody, once: uses up the request that it answers and the assertion's own id, finds or
-- makes the user, and parks who it is for the browser that asked. `said`: connection, request and assertion (hashes, in hex;
-- the second may be null), ends (of the assertion), subject, email (as a key), email_verified, name, role (what the groups
-- map to), bring (a MAC, in hex, by which the person of the address who is in no org is brought into this one), parked (what the
-- finish is to know), user, identity, attempt and entry (new ids). Answers why it refused: null, where all is well.
create function app.take_sso(app text, sandbox text, org text, said jsonb) returns table (refusal text)
language plpgsql volatile set search_path = '' as $$
declare
  c data.sso_connections;
  asked data.one_time_secrets;
  u data.users;
  known boolean;
  brought boolean;
  mapped text;
  invited text;
begin
  select * into c from data.sso_connections s
   where s.app_id = app and s.sandbox_id = sandbox and s.org_id = org and s.id = said ->> 'connection' for update;
  if not found or c.status = 'incomplete' then refusal := 'not_set_up'; return next; return; end if;
  mapped := coalesce(said ->> 'role', c.default_role);
  update data.one_time_secrets o set used_at = now()
   where o.app_id = app and o.sandbox_id = sandbox and o.org_id = org and o.kind = 'sso'
     and o.hash = decode(said ->> 'request', 'hex') and o.used_at is null and o.expires_at > now()
   returning * into asked;
  if not found then
    refusal := 'request_used';
  elsif said ->> 'assertion' is not null then
    insert into data.one_time_secrets (app_id, sandbox_id, org_id, kind, hash, used_at, expires_at)
      values (app, sandbox, org, 'sso_assertion', decode(said ->> 'assertion', 'hex'), now(), (said ->> 'ends')::timestamptz)
      on conflict do nothing;
    if not found then refusal := 'replayed'; end if;
  end if;

  if refusal is null then
    select p.* into u from data.sso_identities i
      join data.users p on (p.app_id, p.sandbox_id, p.org_id, p.id) = (i.app_id, i.sandbox_id, i.org_id, i.user_id)
     where i.app_id = app and i.sandbox_id = sandbox and i.org_id = org and i.connection_id = c.id
       and i.subject = said ->> 'subject' and p.ended_at is null;
    known := found;
    if not known then
      select p.* into u from data.users p
       where p.app_id = app and p.sandbox_id = sandbox and p.org_id = org and p.email_key = said ->> 'email' and p.ended_at is null;
      -- No provider makes an owner, whoever was invited as one.
      select i.role into invited from data.org_invitations i where i.app_id = app and i.sandbox_id = sandbox and i.org_id = org
        and i.email_key = said ->> 'email' and i.expires_at > now() and i.role <> 'owner';
      refusal := case
        when said ->> 'email' is null then 'no_email'
        when said ->> 'email_verified' = 'false' then 'unverified_email'
        when (said ->> 'public_mail')::boolean or not app.vouches(app, sandbox, org, split_part(said ->> 'email', '@', 2)) then 'foreign_domain'
        when u.id is null and invited is null and not (c.auto_provision or c.jit_provisioning) then 'unknown_person'
        when u.deactivated_at is not null then 'deactivated'
        when u.is_system_user then 'system_user'
        when u.id is not null and exists (select from data.sso_identities i where i.app_id = app and i.sandbox_id = sandbox
          and i.org_id = org and i.user_id = u.id) then 'other_identity'
        -- Who answers at an address may be another than whom the org has made its owner.
        when u.role = 'owner' and u.id is distinct from asked.user_id then 'owner_not_signed_in' end;
    elsif u.deactivated_at is not null then
      refusal := 'deactivated';
    end if;
  end if;

  if refusal is null and u.id is null then
    -- Who has the address and is in no org comes in as they are; of one who is in another, nothing is seen.
    perform app.bring_in(app, sandbox, org, 'sso', said ->> 'email', decode(said ->> 'bring', 'hex'));
    update data.users p set role = coalesce(invited, mapped), name = coalesce(p.name, said ->> 'name'), updated_at = now()
     where p.app_id = app and p.sandbox_id = sandbox and p.org_id = org and p.email_key = said ->> 'email' returning * into u;
    brought := found;
    if not brought then
      insert into data.users (app_id, sandbox_id, org_id, id, email, name, role, role_source)
        values (app, sandbox, org, said ->> 'user', said ->> 'email', said ->> 'name', coalesce(invited, mapped),
          case when invited is null then 'sso' else 'manual' end)
        on conflict do nothing returning * into u;
      if not found then refusal := 'address_taken'; end if;
    end if;
    insert into data.activity_feed_entries (app_id, sandbox_id, org_id, id, kind, title, user_id, readers, metadata)
      select app, sandbox, org, said ->> 'entry', case when brought then 'user.updated' else 'user.created' end,
        case when brought then 'User brought in: ' else 'User created: ' end || coalesce(u.name, u.id), u.id,
        array['user:' || u.id], jsonb_build_object('actor', null, 'sso', c.id) where refusal is null;
    insert into data.events (app_id, sandbox_id, org_id, id, name, payload, user_id, readers, causes)
      select app, sandbox, org, said #>> '{events,0}', case when brought then 'user.updated' else 'user.created' end,
        jsonb_build_object('id', u.id), u.id, array['user:' || u.id], '{}' where refusal is null;
    with accepted as (
      delete from data.org_invitations i where i.app_id = app and i.sandbox_id = sandbox and i.org_id = org
        and i.email_key = said ->> 'email' and invited is not null and refusal is null returning i.id)
    insert into data.events (app_id, sandbox_id, org_id, id, name, payload, user_id, readers, causes)
      select app, sandbox, org, said #>> '{events,1}', 'invitation.accepted', jsonb_build_object('id', a.id), u.id, '{}', '{}'
        from accepted a;
  elsif refusal is null and c.jit_provisioning then
    update data.users p set name = coalesce(said ->> 'name', p.name), updated_at = now(),
      role = case when p.role_source = 'sso' and p.role <> 'owner' then mapped else p.role end
     where p.app_id = app and p.sandbox_id = sandbox and p.org_id = org and p.id = u.id
       and (coalesce(said ->> 'name', p.name) is distinct from p.name or (p.role_source = 'sso' and p.role <> 'owner' and p.role <> mapped));
  end if;
  if refusal is null and not known then
    insert into data.sso_identities (app_id, sandbox_id, org_id, id, connection_id, subject, user_id)
      values (app, sandbox, org, said ->> 'identity', c.id, said ->> 'subject', u.id);
  end if;
  if refusal is null then
    insert into data.one_time_secrets (app_id, sandbox_id, org_id, kind, hash, user_id, payload, expires_at)
      values (app, sandbox, org, 'sso_finish', decode(asked.payload ->> 'browser', 'hex'), u.id,
        (said -> 'parked') || jsonb_build_object('return_to', asked.payload -> 'return_to',
          'redirect_uri', asked.payload -> 'redirect_uri', 'max_s', c.session_max_s),
        now() + interval '5 minutes');
    update data.sso_connections s set status = 'active', revision = s.revision + 1, updated_at = now()
     where s.app_id = app and s.sandbox_id = sandbox and s.org_id = org and s.id = c.id and s.status = 'untested';
  end if;
  perform app.note_sso_attempt(app, sandbox, org, said ->> 'attempt', c.id, said ->> 'subject', refusal, said ->> 'entry');
  return next;
end $$;
grant execute on function app.take_sso to agentry_api;

-- Ends what a provider signs out: the sign-ins of a person (SAML's NameID, OIDC's sub), or of these sessions of theirs. OpenID
-- may name a session alone: `person` is null then. Each message once, by its hash: sent again, it would end what came after.
-- Answers whether it was the first time.
create function app.end_sso(app text, sandbox text, org text, connection text, message text, ends timestamptz, person text,
  sessions text[], entry text) returns boolean
language plpgsql volatile set search_path = '' as $$
declare whose text[];
begin
  insert into data.one_time_secrets (app_id, sandbox_id, org_id, kind, hash, used_at, expires_at)
    values (app, sandbox, org, 'sso_logout', decode(message, 'hex'), now(), ends) on conflict do nothing;
  if not found then return false; end if;
  with ended as (
    update data.token_families f set revoked_at = now()
     where f.app_id = app and f.sandbox_id = sandbox and f.org_id = org and f.revoked_at is null
       and f.details ->> 'connection' = connection
       and (person is null or coalesce(f.details #>> '{name_id,value}', f.details ->> 'sub') = person)
       and case when cardinality(sessions) = 0 then person is not null
         -- Of a person's sign-in whose session the provider never named, the person says enough.
         else coalesce(coalesce(f.details ->> 'session_index', f.details ->> 'sid') = any (sessions), person is not null) end
    returning f.user_id
  )
  select array_agg(distinct e.user_id) into whose from ended e;
  insert into data.activity_feed_entries (app_id, sandbox_id, org_id, id, kind, title, user_id, readers, metadata)
    select app, sandbox, org, entry, 'sign_in.ended', 'Signed out by the provider', w.id, array['user:' || w.id],
        jsonb_build_object('actor', null, 'sso', connection)
      from unnest(whose[:1]) w (id);
  return true;
end $$;
grant execute on function app.end_sso to agentry_api;

-- Whether an org lets somebody in by a method: one that enforces SSO, by that alone, break-glass aside. What the app's own key
-- mints, and what a sign-in that stands has led to, isn't a way to come in.
create function app.lets_in(app text, sandbox text, org text, usr text, method text) returns boolean
language sql stable set search_path = '' as $$
  select method in ('saml', 'oidc', 'token', 'login_token', 'oauth', 'device') or not exists (select from data.sso_connections c
    where c.app_id = app and c.sandbox_id = sandbox and c.org_id = org and c.status = 'enforced'
      and not usr = any (c.break_glass))
$$;
grant execute on function app.lets_in to agentry_api;

-- Signs a user of an org in: `said` has method, carrier ('api' or 'browser'), access_lifetime_s, and whether it proves who it
-- is (auth_time), with user_agent, actor and details. `usr` null: whom the door found. `granted` is by role. A program gets
-- an access token, and unless it is a system user's a family for its refresh token; a browser a family alone. Nothing
-- where there is no such user, it has no org, is deactivated, has nothing to grant, or the org is suspended.
create function app.sign_in(app text, sandbox text, org text, usr text, token text, family text, entry text,
  granted jsonb, said jsonb) returns table (made data.tokens, signed_in data.token_families)
language plpgsql volatile set search_path = '' as $$
declare
  u record;
  carrier text := said ->> 'carrier';
  lifetime_s integer := (said ->> 'access_lifetime_s')::integer;
  idle_s integer := case carrier when 'browser' then 604800 else 2592000 end;
  most_s integer := case carrier when 'browser' then 2592000 else 31536000 end;
  proven timestamptz := case when (said ->> 'auth_time')::boolean then pg_catalog.now() end;
begin
  select p.id, p.org_id, p.is_system_user, array(select jsonb_array_elements_text(granted -> p.role)) as scopes,
         a.settings #> '{auth,session}' as session into u
    from data.users p join data.orgs o on (o.app_id, o.sandbox_id, o.id) = (p.app_id, p.sandbox_id, p.org_id)
    join data.apps a on a.id = p.app_id
   where p.app_id = app and p.sandbox_id = sandbox and (org = '*' or p.org_id = org)
     -- As a query of its own: of a bare coalesce row-level security asks no index, and every user of the app would be read.
     and p.id = (select coalesce(usr, pg_catalog.current_setting('app.person', true))) and p.deactivated_at is null
     and o.status <> 'suspended' and app.lets_in(app, sandbox, p.org_id, p.id, said ->> 'method');
  if not found or cardinality(u.scopes) = 0 then return; end if;
  if u.is_system_user then
    if proven is not null then return; end if;
    family := null;
  else
    -- An app may shorten both, never stretch them.
    idle_s := least(idle_s, (u.session ->> (carrier || '_idle_seconds'))::integer);
    most_s := greatest(lifetime_s, least(most_s, (u.session ->> (carrier || '_absolute_seconds'))::integer));
    -- A provider says itself when it is to be asked again.
    if said ? 'max_s' then most_s := least(most_s, (said ->> 'max_s')::integer); end if;
    insert into data.token_families (app_id, sandbox_id, org_id, id, user_id, scopes, access_lifetime_s, token_id, method,
        carrier, auth_time, actor, idle_s, expires_at, ends_at, user_agent, details)
      values (app, sandbox, u.org_id, family, u.id, u.scopes, lifetime_s, case carrier when 'api' then token end,
        said ->> 'method', carrier, proven, said ->> 'actor', idle_s,
        now() + make_interval(secs => least(most_s, greatest(idle_s, lifetime_s))), now() + make_interval(secs => most_s),
        left(said ->> 'user_agent', 200), coalesce(said -> 'details', '{}')) returning * into signed_in;
  end if;
  if carrier = 'api' then
    insert into data.tokens (app_id, sandbox_id, org_id, id, user_id, family_id, scopes, expires_at, auth_time, actor)
      values (app, sandbox, u.org_id, token, u.id, family, u.scopes, now() + make_interval(secs => lifetime_s), proven,
        said ->> 'actor') returning * into made;
  end if;
  insert into data.activity_feed_entries (app_id, sandbox_id, org_id, id, kind, title, user_id, readers, metadata)
    select app, sandbox, u.org_id, entry, f.kind, f.title, u.id, array['user:' || u.id], f.metadata
      from (values (proven is null, 'token.created', 'Access token made', jsonb_build_object('actor', null, 'token', token)),
        (proven is not null, 'sign_in.succeeded', 'Signed in', jsonb_build_object('actor', coalesce(said ->> 'actor', u.id),
          'sign_in', family, 'method', said ->> 'method', 'carrier', carrier))) f (so, kind, title, metadata) where f.so;
  return next;
end $$;
grant execute on function app.sign_in to agentry_api;

-- Rotates a refresh token, and answers the newest access token of its family. One conditional update decides: the
-- newest generation moves on and makes a token; the one before it, for a while, is an honest retry and gets the same
-- successor; anything older ends the sign-in and every token that came of it (RFC 9700 §4.14.2). Nothing where it did.
create function app.rotate_token(app text, sandbox text, org text, family text, used integer, token text,
  entry text, grace_s integer) returns setof data.tokens
language plpgsql volatile set search_path = '' as $$
declare f data.token_families;
begin
  -- The org and the user first, as whoever ends them holds them: the other way round the two would wait for each other.
  perform from data.orgs o, data.users u
   where (o.app_id, o.sandbox_id, o.id) = (app, sandbox, org) and (u.app_id, u.sandbox_id, u.org_id) = (app, sandbox, org)
     and u.id = (select s.user_id from data.token_families s
       where s.app_id = app and s.sandbox_id = sandbox and s.org_id = org and s.id = family)
     for key share of o, u;
  update data.token_families s set
    generation = case when s.generation = used then s.generation + 1 else s.generation end,
    token_id = case when s.generation = used then token else s.token_id end,
    rotated_at = case when s.generation = used then now() else s.rotated_at end,
    last_used_at = now(),
    expires_at = case when s.generation = used
      then least(s.ends_at, greatest(s.expires_at, now() + make_interval(secs => s.idle_s))) else s.expires_at end,
    revoked_at = case when s.generation = used
      or s.generation = used + 1 and s.rotated_at > now() - make_interval(secs => grace_s) then null else now() end
   where s.app_id = app and s.sandbox_id = sandbox and s.org_id = org and s.id = family and s.carrier = 'api'
     and s.revoked_at is null and s.expires_at > now()
   returning * into f;
  if not found then return; end if;
  if f.revoked_at is not null then
    insert into data.activity_feed_entries (app_id, sandbox_id, org_id, id, kind, title, user_id, readers, metadata)
      values (app, sandbox, org, entry, 'token.reuse_detected', 'An old refresh token came again: the sign-in was ended', f.user_id,
        array['user:' || f.user_id], jsonb_build_object('actor', null, 'sign_in', family));
    return;
  end if;
  if f.token_id = token then
    insert into data.tokens (app_id, sandbox_id, org_id, id, user_id, family_id, scopes, expires_at, auth_time, actor)
      values (app, sandbox, org, token, f.user_id, family, f.scopes, now() + make_interval(secs => f.access_lifetime_s),
        f.auth_time, f.actor);
  end if;
  return query select t.* from data.tokens t
    where t.app_id = app and t.sandbox_id = sandbox and t.org_id = org and t.id = f.token_id;
end $$;
grant execute on function app.rotate_token to agentry_api;

-- Ends a user's sign-ins: one, or all but the one that `keep` (a sign-in or an access token of it) is of. Answers which; of
-- all together the feed has one entry.
create function app.end_sign_ins(app text, sandbox text, org text, usr text, one text, keep text, entry text, actor text)
returns setof text language plpgsql volatile set search_path = '' as $$
declare ended text[];
begin
  with over as (
    update data.token_families f set revoked_at = now()
     where f.app_id = app and f.sandbox_id = sandbox and (org = '*' or f.org_id = org) and f.user_id = usr
       and f.revoked_at is null and f.expires_at > now() and (one is null or f.id = one)
       and f.id is distinct from coalesce((select t.family_id from data.tokens t
         where t.app_id = app and t.sandbox_id = sandbox and t.org_id = f.org_id and t.id = keep), keep)
    returning f.id
  )
  select array_agg(o.id order by o.id) into ended from over o;
  insert into data.activity_feed_entries (app_id, sandbox_id, org_id, id, kind, title, user_id, readers, metadata)
    select u.app_id, u.sandbox_id, u.org_id, entry, 'sign_in.ended', 'Signed out', usr, array['user:' || usr],
        jsonb_build_object('actor', actor, 'sign_ins', to_jsonb(ended[:100]))
      from data.users u where u.app_id = app and u.sandbox_id = sandbox and (org = '*' or u.org_id = org) and u.id = usr
        and ended is not null;
  return query select unnest(ended);
end $$;
grant execute on function app.end_sign_ins to agentry_api;

-- Whose sign-in a family is, and the names of the org.
create function app.family_user(app text, sandbox text, org text, family text)
returns table (person data.users, org_name text, org_slug text)
language plpgsql stable set search_path = '' as $$
begin
  return query select u, o.name, o.slug from data.token_families f
    join data.users u on (u.app_id, u.sandbox_id, u.org_id, u.id) = (f.app_id, f.sandbox_id, f.org_id, f.user_id)
    join data.orgs o on (o.app_id, o.sandbox_id, o.id) = (f.app_id, f.sandbox_id, f.org_id)
   where f.app_id = app and f.sandbox_id = sandbox and (org = '*' or f.org_id = org) and f.id = family;
end $$;
grant execute on function app.family_user to agentry_api;

-- ---------------------------------------------------------------------------------------------------------
-- The doors: the first statement of every round trip. A door looks up the credential in the tenant that the credential
-- names, where a false claim finds nothing, and proves that tenant. AE401 and AE403 carry the reason. enter_token and
-- enter_key answer whether last_used_at is over a minute old: then it is written after the answer has gone out, so that
-- a read stays read-only. They run as the owner, whom no policy narrows.

-- A key that came beside the credential must be a live one of the same app and sandbox.
create function app.check_beside(app text, sandbox text, beside bytea) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  perform from data.keys k where k.app_id = app and k.sandbox_id = sandbox and k.hash = beside
     and k.revoked_at is null and (k.expires_at is null or k.expires_at > now());
  if not found then raise 'key_unknown' using errcode = 'AE401'; end if;
end $$;

-- A sandbox past its end, or deleted, is over at once, not when it is swept.
create function app.check_sandbox(app text, sandbox text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  perform from data.sandboxes s where s.app_id = app and s.sandbox_id = sandbox and (s.expires_at <= now()) is not true;
  if not found then raise 'sandbox_expired' using errcode = 'AE401'; end if;
end $$;

-- Lets a person in whose credential lives, and proves the tenant. The role is read now, not when the credential was made: a
-- demotion takes effect on the next request.
create function app.admit(app text, sandbox text, org text, role text, status text, roles text[]) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  if status is distinct from 'active' and status is distinct from 'trialing' then
    raise 'org_suspended' using errcode = 'AE403';
  end if;
  if (role = any (roles)) is not true then raise 'role' using errcode = 'AE403'; end if;
  perform app.prove(app, sandbox, org);
  perform set_config('app.org_role', case when role in ('owner', 'admin') then 'admin'
    when role in ('billing', 'viewer') then 'viewer' else role end, true);
end $$;

-- Of a client that is deleted no door opens for what it was granted.
create function app.enter_token(app text, sandbox text, org text, usr text, jti text, roles text[], beside bytea default null)
returns boolean language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare t record;
begin
  if sandbox <> '-' then perform app.check_sandbox(app, sandbox); end if;
  select k.revoked_at is null and f.revoked_at is null and k.expires_at > now()
           and (f.details ->> 'client' is null or exists (select from data.oauth_clients c
             where c.app_id = app and c.sandbox_id = sandbox and c.id = f.details ->> 'client')) as live,
         u.id is not null and u.ended_at is null and u.deactivated_at is null and o.id is not null as is_user, u.role, o.status,
         k.last_used_at is null or k.last_used_at < now() - interval '1 minute' as stale
    into t
    from data.tokens k
    left join data.users u on (u.app_id, u.sandbox_id, u.org_id, u.id) = (k.app_id, k.sandbox_id, k.org_id, k.user_id)
    left join data.orgs o on (o.app_id, o.sandbox_id, o.id) = (k.app_id, k.sandbox_id, k.org_id)
    left join data.token_families f on (f.app_id, f.sandbox_id, f.id) = (k.app_id, k.sandbox_id, k.family_id)
   where k.app_id = app and k.sandbox_id = sandbox and k.org_id = org and k.id = jti and k.user_id = usr;
  if t.live is not true then raise 'token_revoked' using errcode = 'AE401'; end if;
  if not t.is_user then raise 'user_gone' using errcode = 'AE401'; end if;
  if beside is not null then perform app.check_beside(app, sandbox, beside); end if;
  perform app.admit(app, sandbox, org, t.role, t.status, roles);
  return t.stale;
end $$;
grant execute on function app.enter_token to agentry_api;

-- A browser's cookie, which is the sign-in's id under a MAC: who can only ask this database, and has read the row here, gets
-- in by no MAC that a Worker made.
create function app.enter_session(app text, sandbox text, org text, usr text, family text, roles text[], mac bytea)
returns boolean language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare s record;
begin
  perform app.check_mac(concat_ws('.', 'session', app, sandbox, org, usr, family), mac);
  if sandbox <> '-' then perform app.check_sandbox(app, sandbox); end if;
  select u.role, o.status, f.last_used_at is null or f.last_used_at < now() - interval '1 minute' as stale into s
    from data.token_families f
    join data.users u on (u.app_id, u.sandbox_id, u.org_id, u.id) = (f.app_id, f.sandbox_id, f.org_id, f.user_id)
      and u.ended_at is null and u.deactivated_at is null
    join data.orgs o on (o.app_id, o.sandbox_id, o.id) = (f.app_id, f.sandbox_id, f.org_id)
   where f.app_id = app and f.sandbox_id = sandbox and f.org_id = org and f.id = family and f.user_id = usr
     and f.carrier = 'browser' and f.revoked_at is null and f.expires_at > now();
  if not found then raise 'token_revoked' using errcode = 'AE401'; end if;
  perform app.admit(app, sandbox, org, s.role, s.status, roles);
  return s.stale;
end $$;
grant execute on function app.enter_session to agentry_api;

create function app.enter_key(app text, sandbox text, key_hash bytea, beside bytea default null)
returns boolean language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare k record;
begin
  if sandbox <> '-' then perform app.check_sandbox(app, sandbox); end if;
  select s.last_used_at is null or s.last_used_at < now() - interval '1 minute' as stale into k
    from data.keys s where s.app_id = app and s.sandbox_id = sandbox and s.hash = key_hash and s.type = 'secret'
     and s.revoked_at is null and (s.expires_at is null or s.expires_at > now());
  if not found then raise 'key_unknown' using errcode = 'AE401'; end if;
  if beside is not null then perform app.check_beside(app, sandbox, beside); end if;
  perform app.prove(app, sandbox, '*');
  return k.stale;
end $$;
grant execute on function app.enter_key to agentry_api;

-- Keeps a code that is going to be mailed to whom may be a developer of the app; an address has one that lives. The same for
-- every address, ten an hour by each of `counted`. It has counted, so it returns: whose the address is, or how many seconds to wait.
create function app.ask_developer(app text, email text, hash bytea, code text, counted bytea[], mac bytea) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  called text;
  wait integer := 0;
  one bytea;
begin
  perform app.check_mac(concat_ws('.', 'ask_developer', app, email), mac);
  select a.name into called from data.apps a where a.id = app;
  if not found then raise 'app' using errcode = 'AE404'; end if;
  foreach one in array counted loop wait := greatest(wait, app.attempt(one, 10, '1 hour')); end loop;
  if wait > 0 then return jsonb_build_object('wait', wait); end if;
  insert into data.one_time_secrets (app_id, sandbox_id, org_id, kind, hash, payload, expires_at)
    values (app, '-', '-', 'developer', hash, jsonb_build_object('email', email, 'code', code), now() + interval '10 minutes')
    on conflict on constraint one_time_secrets_pkey do update set
      payload = excluded.payload, expires_at = excluded.expires_at, attempts = 0, used_at = null, created_at = now();
  return jsonb_build_object('app_name', called, 'known', exists (select from data.developers d
    where d.app_id = app and d.sandbox_id = '-' and d.org_id = '-' and d.email_key = lower(ask_developer.email)));
end $$;
grant execute on function app.ask_developer to agentry_api;

-- Uses up a code, and signs in the developer to whom it went, by a row of that id: of many right ones at once, one. `codes` are
-- what it may be kept as; five tries, counted by the statement that looks. Null for every flaw alike. No tenant is open behind it.
create function app.sign_in_developer(app text, hash bytea, codes text[], session text, mac bytea) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  o record;
  made record;
begin
  perform app.check_mac(concat_ws('.', 'sign_in_developer', app, encode(hash, 'hex'), session), mac);
  update data.one_time_secrets s set attempts = s.attempts + 1,
      used_at = case when s.payload ->> 'code' = any (codes) then now() end
   where s.app_id = app and s.sandbox_id = '-' and s.org_id = '-' and s.kind = 'developer' and s.hash = sign_in_developer.hash
     and s.used_at is null and s.expires_at > now() and s.attempts < 5
   returning s.used_at, s.payload into o;
  if o.used_at is null then return null; end if;
  insert into data.developer_sessions (app_id, id, developer_id, idle_s, expires_at, ends_at)
    select d.app_id, session, d.id, 604800, now() + interval '7 days', now() + interval '30 days' from data.developers d
     where d.app_id = app and d.sandbox_id = '-' and d.org_id = '-' and d.email_key = lower(o.payload ->> 'email')
    returning developer_id, ends_at into made;
  if not found then return null; end if;
  return jsonb_build_object('developer', made.developer_id, 'ends_at', made.ends_at);
end $$;
grant execute on function app.sign_in_developer to agentry_api;

-- A developer's cookie, which is the sign-in's id under a MAC. It opens what a secret key of production opens.
create function app.enter_developer(app text, developer text, session text, mac bytea) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare s record;
begin
  perform app.check_mac(concat_ws('.', 'developer', app, developer, session), mac);
  select d.last_used_at is null or d.last_used_at < now() - interval '1 minute' as stale into s
    from data.developer_sessions d where d.app_id = app and d.sandbox_id = '-' and d.id = session
     and d.developer_id = developer and d.expires_at > now();
  if not found then raise 'token_revoked' using errcode = 'AE401'; end if;
  perform app.prove(app, '-', '*');
  return s.stale;
end $$;
grant execute on function app.enter_developer to agentry_api;

-- A refresh token was already proven by its MAC; that its sign-in, user and org are alive, only the database knows.
create function app.enter_refresh(app text, sandbox text, org text, family text, beside bytea default null)
returns void language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare f record;
begin
  if sandbox <> '-' then perform app.check_sandbox(app, sandbox); end if;
  select o.status, s.revoked_at is null and s.expires_at > now() and (s.details ->> 'client' is null or exists (select from data.oauth_clients c
             where c.app_id = app and c.sandbox_id = sandbox and c.id = s.details ->> 'client')) as live into f
    from data.token_families s
    join data.users u on (u.app_id, u.sandbox_id, u.org_id, u.id) = (s.app_id, s.sandbox_id, s.org_id, s.user_id)
      and u.ended_at is null and u.deactivated_at is null
    join data.orgs o on (o.app_id, o.sandbox_id, o.id) = (s.app_id, s.sandbox_id, s.org_id)
   where s.app_id = app and s.sandbox_id = sandbox and s.org_id = org and s.id = family and s.carrier = 'api';
  if f.live is not true then raise 'token_revoked' using errcode = 'AE401'; end if;
  if f.status = 'suspended' then raise 'org_suspended' using errcode = 'AE403'; end if;
  if beside is not null then perform app.check_beside(app, sandbox, beside); end if;
  perform app.prove(app, sandbox, org);
end $$;
grant execute on function app.enter_refresh to agentry_api;

-- What a door takes where the database has nothing to look up: HMAC-SHA-256 (RFC 2104) under a key derived from the
-- deployment's root secret. Its copies, one a root secret, are written by the operator's commands and read here alone:
-- the key's inner and its outer block, 64 bytes each.
create table app.door_keys (blocks bytea not null check (octet_length(blocks) = 128));

-- Not AE401: to whoever asks, a key that wasn't copied here isn't the end of what it asks for.
create function app.check_mac(message text, mac bytea) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  perform from app.door_keys k where mac = sha256(substr(k.blocks, 65)
    || sha256(substr(k.blocks, 1, 64) || convert_to(message, 'UTF8')));
  if not found then raise 'no root secret that this database knows of made this' using errcode = 'AE503'; end if;
end $$;

-- For /readyz: whether this database knows the root secret that a Worker makes MACs by.
create function app.check_root(mac bytea) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac('ready', mac);
end $$;
grant execute on function app.check_root to agentry_api;

-- A Durable Object acts for one tenant and has no credential: its door takes a MAC over the tenant, and asks that the
-- tenant is still there. Answers the org's status: of a suspended one it may write down what is in motion.
create function app.enter_object(app text, sandbox text, org text, mac bytea) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare status text;
begin
  perform app.check_mac(concat_ws('.', 'object', app, sandbox, org), mac);
  select coalesce(o.status, 'active') into status from data.tenants t
    left join data.orgs o on (o.app_id, o.sandbox_id, o.id) = (t.app_id, t.sandbox_id, t.org_id)
   where t.app_id = app and t.sandbox_id = sandbox and t.org_id = org
     and not exists (select from app.endings e where e.app_id = app and e.sandbox_id = sandbox and e.id = org);
  if not found then raise 'object_gone' using errcode = 'AE401'; end if;
  if sandbox <> '-' then perform app.check_sandbox(app, sandbox); end if;
  perform app.prove(app, sandbox, org);
  return status;
end $$;
grant execute on function app.enter_object to agentry_api;

-- The door of an inbound webhook, whose credential is its token: what is known of that is its hash, so that whoever can
-- only ask this database, and has read the hash here, gets in by no MAC that a Worker made. Unknown, deleted, and of a
-- tenant that is gone are one refusal.
create function app.enter_hook(app text, sandbox text, org text, hash bytea, mac bytea) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare w record;
begin
  perform app.check_mac(concat_ws('.', 'hook', app, sandbox, org, encode(hash, 'hex')), mac);
  select o.status into w from data.inbound_webhooks h
    left join data.orgs o on (o.app_id, o.sandbox_id, o.id) = (h.app_id, h.sandbox_id, h.org_id)
   where h.app_id = app and h.sandbox_id = sandbox and h.org_id = org
     and (h.token_hash = hash or (h.previous_token_hash = hash and h.overlap_expires_at > now()))
     and (sandbox = '-' or exists (select from data.sandboxes s
       where s.app_id = app and s.sandbox_id = sandbox and (s.expires_at <= now()) is not true))
     and not exists (select from app.endings e where e.app_id = app and e.sandbox_id = sandbox and e.id in (sandbox, org));
  if not found then raise 'inbound_webhook' using errcode = 'AE404'; end if;
  if w.status = 'suspended' then raise 'org_suspended' using errcode = 'AE403'; end if;
  perform app.prove(app, sandbox, org);
end $$;
grant execute on function app.enter_hook to agentry_api;

-- The door of an org's provider, by its SCIM token, of which the hash is known: as of an inbound webhook's. Answers whether
-- last_used_at is over a minute old.
create function app.enter_scim(app text, sandbox text, org text, hash bytea, mac bytea) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare t record;
begin
  perform app.check_mac(concat_ws('.', 'scim', app, sandbox, org, encode(hash, 'hex')), mac);
  if sandbox <> '-' then perform app.check_sandbox(app, sandbox); end if;
  select o.status, s.last_used_at is null or s.last_used_at < now() - interval '1 minute' as stale into t
    from data.scim_tokens s join data.orgs o on (o.app_id, o.sandbox_id, o.id) = (s.app_id, s.sandbox_id, s.org_id)
   where s.app_id = app and s.sandbox_id = sandbox and s.org_id = org and s.hash = enter_scim.hash;
  if not found then raise 'token_revoked' using errcode = 'AE401'; end if;
  if t.status = 'suspended' then raise 'org_suspended' using errcode = 'AE403'; end if;
  perform app.prove(app, sandbox, org);
  return t.stale;
end $$;
grant execute on function app.enter_scim to agentry_api;

-- Brings a user who is in no org into the one whose provider says that the address is one of its people's. Whoever can only
-- ask this database takes nobody in by a MAC that a Worker made for this org and this address.
create function app.bring_in(app text, sandbox text, org text, source text, email text, mac bytea) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac(concat_ws('.', 'bring', app, sandbox, org, source, lower(email)), mac);
  update data.users u set org_id = org, role = 'member', role_source = source
   where u.app_id = app and u.sandbox_id = sandbox and u.org_id = '-' and u.email_key = lower(bring_in.email) and u.ended_at is null
     and not u.is_system_user
     -- Made by SCIM again, somebody revives; signing in revives nobody.
     and (source = 'scim' or u.deactivated_at is null);
end $$;
grant execute on function app.bring_in to agentry_api;

-- Uses up a secret that works once, and opens its tenant: of many at once, one. It answers what the secret stands for, with
-- `user`, the id of whom it signs in. Used, expired, of another kind and unknown are one answer, null, and open nothing.
create function app.enter_once(app text, sandbox text, org text, kind text, hash bytea, mac bytea) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare o record;
begin
  perform app.check_mac(concat_ws('.', 'once', app, sandbox, org, kind, encode(hash, 'hex')), mac);
  update data.one_time_secrets s set used_at = now()
   where s.app_id = app and s.sandbox_id = sandbox and s.org_id = org and s.kind = enter_once.kind and s.hash = enter_once.hash
     and s.used_at is null and s.expires_at > now()
     and (sandbox = '-' or exists (select from data.sandboxes b
       where b.app_id = app and b.sandbox_id = sandbox and (b.expires_at <= now()) is not true))
     and not exists (select from app.endings e where e.app_id = app and e.sandbox_id = sandbox and e.id in (sandbox, org, s.user_id))
   returning s.user_id, s.payload into o;
  if not found then return null; end if;
  perform from data.orgs g where g.app_id = app and g.sandbox_id = sandbox and g.id = org and g.status = 'suspended';
  if found then raise 'org_suspended' using errcode = 'AE403'; end if;
  perform app.prove(app, sandbox, org), set_config('app.person', coalesce(o.user_id, ''), true);
  return o.payload || jsonb_build_object('user', o.user_id);
end $$;
grant execute on function app.enter_once to agentry_api;

-- Uses up a login token, as app.enter_once does, and leaves what it says of the sign-in to app.sign_in_as_kept.
create function app.enter_login(app text, sandbox text, org text, beside bytea, hash bytea, mac bytea) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare kept jsonb := app.enter_once(app, sandbox, org, 'login_token', hash, mac);
begin
  if beside is not null then perform app.check_beside(app, sandbox, beside); end if;
  perform set_config('app.kept', coalesce(kept - 'user', '{}')::text, true);
end $$;
grant execute on function app.enter_login to agentry_api;

-- The door of an OAuth client, whose id is no secret: it opens the app's own rows to the Worker that asks for it, and no
-- org's. `beside`: a key that came with it. Answers the client, or null, and then nothing is open.
create function app.enter_client(app text, sandbox text, client text, beside bytea, mac bytea) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare found_one jsonb;
begin
  perform app.check_mac(concat_ws('.', 'client', app, sandbox, client, encode(coalesce(beside, ''), 'hex')), mac);
  select jsonb_build_object('id', c.id, 'name', c.name, 'redirect_uris', c.redirect_uris, 'scopes', c.scopes,
      'app_name', a.name, 'enabled', coalesce((a.settings #>> '{auth,third_party_oauth}')::boolean, false)) into found_one
    from data.oauth_clients c join data.apps a on a.id = c.app_id
   where c.app_id = app and c.sandbox_id = sandbox and c.id = client
     and (sandbox = '-' or exists (select from data.sandboxes s
       where s.app_id = app and s.sandbox_id = sandbox and (s.expires_at <= now()) is not true));
  if found_one is null then return null; end if;
  if beside is not null then perform app.check_beside(app, sandbox, beside); end if;
  perform app.prove(app, sandbox, '-');
  return found_one;
end $$;
grant execute on function app.enter_client to agentry_api;

-- Uses up an authorization code, as app.enter_once does, and leaves what it grants to app.sign_in_granted. A code that was
-- used before ends what it gave then (RFC 6749 §4.1.2); of a client that is gone it opens nothing.
create function app.enter_code(app text, sandbox text, org text, hash bytea, entry text, mac bytea) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  code jsonb;
  family record;
begin
  code := app.enter_once(app, sandbox, org, 'oauth_code', hash, mac);
  if code is not null then
    perform app.grant_scopes(app, sandbox, code ->> 'client', code -> 'scopes');
    return code;
  end if;
  update data.token_families f set revoked_at = now() from data.one_time_secrets s
   where (s.app_id, s.sandbox_id, s.org_id, s.kind, s.hash) = (app, sandbox, org, 'oauth_code', enter_code.hash)
     and s.used_at is not null and (f.app_id, f.sandbox_id, f.org_id, f.user_id) = (app, sandbox, org, s.user_id)
     and f.details ->> 'code' = encode(s.hash, 'hex') and f.revoked_at is null
   returning f.id, f.user_id into family;
  if found then
    insert into data.activity_feed_entries (app_id, sandbox_id, org_id, id, kind, title, user_id, readers, metadata)
      values (app, sandbox, org, entry, 'token.reuse_detected', 'An authorization code came again: the sign-in was ended',
        family.user_id, array['user:' || family.user_id], jsonb_build_object('actor', null, 'sign_in', family.id));
  end if;
  return null;
end $$;
grant execute on function app.enter_code to agentry_api;

-- Leaves to app.sign_in_granted, in this transaction, what a door found that somebody has granted: nothing, where the
-- client is gone.
create function app.grant_scopes(app text, sandbox text, client text, scopes jsonb) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  perform set_config('app.granted', case when exists (select from data.oauth_clients c
    where c.app_id = app and c.sandbox_id = sandbox and c.id = client) then scopes::text else '[]' end, true);
end $$;

-- Signs in whom the door found, with those of the scopes that somebody has granted.
create function app.sign_in_granted(app text, sandbox text, org text, usr text, token text, family text, entry text,
  granted jsonb, said jsonb) returns table (made data.tokens, signed_in data.token_families)
language plpgsql volatile set search_path = '' as $$
declare asked jsonb := coalesce(nullif(pg_catalog.current_setting('app.granted', true), ''), '[]');
begin
  return query select * from app.sign_in(app, sandbox, org, usr, token, family, entry,
    (select jsonb_object_agg(r.key, (select coalesce(jsonb_agg(s), '[]') from jsonb_array_elements(r.value) s where asked @> s))
      from jsonb_each(granted) r), said);
end $$;
grant execute on function app.sign_in_granted to agentry_api;

-- Signs in whom the door found, as what was kept of it says: its method, whether that proved who it is, and who acts.
create function app.sign_in_as_kept(app text, sandbox text, org text, usr text, token text, family text, entry text,
  granted jsonb, said jsonb) returns table (made data.tokens, signed_in data.token_families)
language plpgsql volatile set search_path = '' as $$
begin
  return query select * from app.sign_in(app, sandbox, org, usr, token, family, entry, granted,
    said || coalesce(nullif(pg_catalog.current_setting('app.kept', true), ''), '{}')::jsonb);
end $$;
grant execute on function app.sign_in_as_kept to agentry_api;

-- What a device waits for (RFC 8628) lies among the secrets that work once, in the app's own place, under its user code's
-- hash. A person of any org of the app looks at it (`decision` null), approves or denies it, once: the MAC says that the
-- Worker knows who it is. Null where it is unknown, over or decided.
create function app.decide_device(app text, sandbox text, org text, usr text, hash bytea, decision text, mac bytea)
returns jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare device jsonb;
begin
  perform app.check_mac(concat_ws('.', 'decide', app, sandbox, org, usr, encode(hash, 'hex'), coalesce(decision, '')), mac);
  if (select (t.app, t.sandbox, t.org) from app.tenant() t) is distinct from (app, sandbox, org) then return null; end if;
  if decision is null then
    select s.payload || jsonb_build_object('expires_at', s.expires_at) into device from data.one_time_secrets s
     where s.app_id = app and s.sandbox_id = sandbox and s.org_id = '-' and s.kind = 'device' and s.hash = decide_device.hash
       and s.used_at is null and s.expires_at > now() and not s.payload ? 'decision';
  else
    update data.one_time_secrets s
       set payload = s.payload || jsonb_build_object('decision', decision, 'org', org, 'user', usr)
     where s.app_id = app and s.sandbox_id = sandbox and s.org_id = '-' and s.kind = 'device' and s.hash = decide_device.hash
       and s.used_at is null and s.expires_at > now() and not s.payload ? 'decision'
     returning s.payload || jsonb_build_object('expires_at', s.expires_at) into device;
  end if;
  return device;
end $$;
grant execute on function app.decide_device to agentry_api;

-- The door of a device code, which the Worker has proven by its MAC. Once it is approved it opens the person's org, and is
-- used up: of many at once, one. Until then it opens nothing and answers why (RFC 8628 §3.5): an early poll adds five seconds.
create function app.enter_device(app text, sandbox text, client text, hash bytea, nonce text, mac bytea) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  s record;
  said jsonb;
  wait integer;
begin
  perform app.check_mac(concat_ws('.', 'device', app, sandbox, client, encode(hash, 'hex'), nonce), mac);
  if sandbox <> '-' then perform app.check_sandbox(app, sandbox); end if;
  select o.payload, o.expires_at into s from data.one_time_secrets o
   where o.app_id = app and o.sandbox_id = sandbox and o.org_id = '-' and o.kind = 'device' and o.hash = enter_device.hash
     and o.used_at is null and o.expires_at > now()
   for update;
  said := s.payload;
  if not found or said ->> 'nonce' <> nonce or said ->> 'client' <> client then return 'invalid_grant'; end if;
  if said ->> 'decision' is null then
    wait := (said ->> 'interval')::integer;
    if (said ->> 'polled_at')::timestamptz > now() - make_interval(secs => wait) then wait := least(wait + 5, 900); end if;
    update data.one_time_secrets o
       set payload = o.payload || jsonb_build_object('polled_at', now(), 'interval', wait)
     where o.app_id = app and o.sandbox_id = sandbox and o.org_id = '-' and o.kind = 'device' and o.hash = enter_device.hash;
    return case when wait > (said ->> 'interval')::integer then 'slow_down' else 'authorization_pending' end;
  end if;
  update data.one_time_secrets o set used_at = now()
   where o.app_id = app and o.sandbox_id = sandbox and o.org_id = '-' and o.kind = 'device' and o.hash = enter_device.hash;
  if said ->> 'decision' = 'denied' then return 'access_denied'; end if;
  perform from app.endings e where e.app_id = app and e.sandbox_id = sandbox and e.id in (said ->> 'org', said ->> 'user');
  if found then return 'invalid_grant'; end if;
  perform app.prove(app, sandbox, said ->> 'org'), set_config('app.person', said ->> 'user', true),
    app.grant_scopes(app, sandbox, client, said -> 'scopes');
  return null;
end $$;
grant execute on function app.enter_device to agentry_api;

-- Counts one try, for a door, and answers for how many seconds no more are let in: 0, while there were at most so many.
create function app.attempt(key bytea, most integer, per interval) returns integer
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare a record;
begin
  insert into app.attempts as t (key, count, resets_at) values (key, 1, now() + per)
    on conflict on constraint attempts_pkey do update set
      count = case when t.resets_at <= now() then 1 else least(t.count, 1000000) + 1 end,
      resets_at = case when t.resets_at <= now() then now() + per else t.resets_at end
    returning * into a;
  return case when a.count > most then greatest(1, ceil(extract(epoch from a.resets_at - now())))::integer else 0 end;
end $$;

-- People sign in by what is mailed to them, or by a password. Whoever isn't signed in is a visitor: a door of theirs takes a
-- MAC of the Worker, and opens the org of the one person who has proven an address. A door that refuses after it has counted
-- returns, and proves nothing: raising would take the count back.

-- Lets a visitor ask for one thing: what the Worker says of it holds, the place is there, the key lives, and the app has the
-- method and takes the address, which is null where none was said. Answers what the app says of signing in. It has counted
-- nothing yet, so it may raise, and says the same of known and unknown addresses.
create function app.visit(app text, sandbox text, beside bytea, method text, email text, message text, mac bytea) returns jsonb
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare auth jsonb;
begin
  perform app.check_mac(concat_ws('.', 'visitor', app, sandbox, method, message), mac);
  if sandbox <> '-' then perform app.check_sandbox(app, sandbox); end if;
  if beside is not null then perform app.check_beside(app, sandbox, beside); end if;
  select coalesce(nullif(a.settings -> 'auth', 'null'), '{}') into auth from data.apps a where a.id = app;
  if not found then raise 'app' using errcode = 'AE404'; end if;
  if not coalesce(nullif(auth -> 'methods', 'null'), '["email_code", "magic_link", "password"]') ? method then
    raise 'method_disabled' using errcode = 'AE403';
  end if;
  if email is not null and jsonb_array_length(coalesce(nullif(auth -> 'allowed_emails', 'null'), '[]')) > 0 and not exists (
    select from jsonb_array_elements_text(auth -> 'allowed_emails') one
     where lower(one) in (lower(email), '@' || split_part(lower(email), '@', 2))) then
    raise 'user_not_allowed' using errcode = 'AE403';
  end if;
  return auth;
end $$;

-- Whose an address is, and whether that person may sign in: `state` is live, deactivated, suspended (the org), no_org, or
-- sso, where the org lets nobody in by what is mailed; nulls where it is nobody's.
create function app.account(app text, sandbox text, email text, out id text, out org_id text, out state text, out org_name text,
  out org_slug text)
language sql stable set search_path = pg_catalog, pg_temp as $$
  select u.id, u.org_id, case when u.deactivated_at is not null then 'deactivated' when o.id is null then 'no_org'
      when o.status = 'suspended' then 'suspended' when not app.lets_in(app, sandbox, u.org_id, u.id, 'email_code') then 'sso'
      else 'live' end, o.name, o.slug
    from data.users u left join data.orgs o on (o.app_id, o.sandbox_id, o.id) = (u.app_id, u.sandbox_id, u.org_id)
   where u.app_id = app and u.sandbox_id = sandbox and u.email_key = lower(account.email) and u.ended_at is null
     and not u.is_system_user
     and not exists (select from app.endings e where e.app_id = app and e.sandbox_id = sandbox and e.id = u.org_id)
$$;

-- Opens the org of the person who has an address, for what signs it in. Nothing where it may not sign in.
create function app.open_account(app text, sandbox text, email text) returns text
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare a record;
begin
  select * into a from app.account(app, sandbox, email);
  if a.state is distinct from 'live' then return null; end if;
  perform app.prove(app, sandbox, a.org_id), set_config('app.person', a.id, true);
  return a.id;
end $$;

-- Keeps what is going to be mailed, a code or a link, as a secret of the app's own: whose the address is, is asked again when
-- it comes back. The same for every address. Ten an hour by each of `counted`. Answers whom the mail would reach, or how many
-- seconds to wait, or what is refused. Of one hash, as an address has for its code, the newest counts.
create function app.ask_by_mail(app text, sandbox text, beside bytea, method text, email text, hash bytea, payload jsonb,
  seconds integer, redirect_host text, counted bytea[], mac bytea) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  auth jsonb := app.visit(app, sandbox, beside, method, email, email, mac);
  wait integer := 0;
  one bytea;
  a record;
begin
  if redirect_host is not null and not coalesce(nullif(auth -> 'redirect_hosts', 'null'), '[]') ? redirect_host then
    return jsonb_build_object('refused', 'redirect_uri');
  end if;
  if payload ->> 'register' = 'must' then
    if coalesce(auth ->> 'sign_up', 'closed') = 'closed' then return jsonb_build_object('refused', 'sign_up_closed'); end if;
    if auth ->> 'sign_up' = 'company' and (payload #>> '{profile,public_provider}')::boolean then
      return jsonb_build_object('refused', 'no_org');
    end if;
  end if;
  foreach one in array counted loop wait := greatest(wait, app.attempt(one, 10, '1 hour')); end loop;
  if wait > 0 then return jsonb_build_object('wait', wait); end if;
  insert into data.one_time_secrets as s (app_id, sandbox_id, org_id, kind, hash, payload, expires_at)
    values (app, sandbox, '-', method, hash, payload || jsonb_build_object('email', email), now() + make_interval(secs => seconds))
    on conflict on constraint one_time_secrets_pkey do update set
      payload = excluded.payload, expires_at = excluded.expires_at, attempts = 0, used_at = null, created_at = now();
  select * into a from app.account(app, sandbox, email);
  return jsonb_build_object('state', a.state, 'org_name', a.org_name, 'org_slug', a.org_slug,
    'open', coalesce(auth ->> 'sign_up', 'closed') <> 'closed', 'app_name', (select p.name from data.apps p where p.id = app));
end $$;
grant execute on function app.ask_by_mail to agentry_api;

-- The org that has verified a domain. Null: none has.
create function app.org_of_domain(app text, sandbox text, host text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
  select d.org_id from data.org_domains d
   where d.app_id = app and d.sandbox_id = sandbox and d.domain = host and d.verified_at is not null
     and not exists (select from app.endings e where e.app_id = app and e.sandbox_id = sandbox and e.id = d.org_id)
$$;

-- Makes the user who registers, and its org: `company`, that of the address's domain, which must be proven, made where it is
-- free; `personal`, one of its own. Tells of both. Answers whether there is one now.
create function app.sign_up(app text, sandbox text, email text, profile jsonb, auth jsonb, ids jsonb) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  host text := split_part(lower(email), '@', 2);
  company boolean := auth ->> 'sign_up' = 'company';
  made text := ids ->> 'org';
  usr text := ids ->> 'user';
  word text := lower(substr(made, 5, 12));
  known text;
begin
  if coalesce(auth ->> 'sign_up', 'closed') = 'closed' then return false; end if;
  if company then
    known := app.org_of_domain(app, sandbox, host);
    -- Anybody may have an address at a public provider.
    if known is null and (profile ->> 'public_provider')::boolean then return false; end if;
    perform from data.orgs g where g.app_id = app and g.sandbox_id = sandbox and g.id = known and g.status = 'suspended';
    if found then return false; end if;
  end if;
  if known is null then
    insert into data.tenants (app_id, sandbox_id, org_id) values (app, sandbox, made);
    insert into data.orgs (app_id, sandbox_id, id, name, slug, domain, kind, owner_user_id)
      values (app, sandbox, made, case when company then host else coalesce(profile ->> 'name', split_part(email, '@', 1)) end,
        case when company and host ~ '^[a-z0-9.-]{2,80}$' then replace(host, '.', '-') || '-' || word else 'p-' || word end,
        case when company then host else 'p-' || word || '.personal.invalid' end,
        case when company then 'company' else 'personal' end, case when not company then usr end);
    insert into data.activity_feed_entries (app_id, sandbox_id, org_id, id, kind, title, readers, metadata)
      values (app, sandbox, made, ids ->> 'org_entry', 'org.created', 'Org created: somebody signed up', '{}', '{}');
    insert into data.events (app_id, sandbox_id, org_id, id, name, payload, readers, causes)
      values (app, sandbox, made, ids ->> 'org_event', 'org.created', jsonb_build_object('id', made, 'status', 'active'), '{}', '{}');
  end if;
  insert into data.users (app_id, sandbox_id, org_id, id, email, name, alias, role)
    values (app, sandbox, coalesce(known, made), usr, email, profile ->> 'name', profile ->> 'alias',
      case when known is null then 'owner' else 'member' end);
  insert into data.activity_feed_entries (app_id, sandbox_id, org_id, id, kind, title, user_id, readers, metadata)
    values (app, sandbox, coalesce(known, made), ids ->> 'user_entry', 'user.created', 'User created: signed up', usr,
      array['user:' || usr], jsonb_build_object('actor', usr));
  insert into data.events (app_id, sandbox_id, org_id, id, name, payload, user_id, readers, causes)
    values (app, sandbox, coalesce(known, made), ids ->> 'user_event', 'user.created', jsonb_build_object('id', usr), usr,
      array['user:' || usr], '{}');
  return true;
end $$;

-- Somebody has proven the address of the person whom a door has let in. Whoever registered with it by a password had not: that
-- password goes, and all that it let in.
create function app.prove_address(usr text, entry text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare t record;
begin
  select * into t from app.tenant();
  delete from data.passwords p
   where p.app_id = t.app and p.sandbox_id = t.sandbox and p.org_id = t.org and p.user_id = usr and not p.proven;
  if not found then return; end if;
  perform app.end_sign_ins(t.app, t.sandbox, t.org, usr, null, null, entry, usr);
  update data.tokens k set revoked_at = now()
   where k.app_id = t.app and k.sandbox_id = t.sandbox and k.org_id = t.org and k.user_id = usr and k.revoked_at is null;
  delete from data.one_time_secrets s
   where s.app_id = t.app and s.sandbox_id = t.sandbox and s.org_id = t.org and s.user_id = usr;
  delete from data.one_time_secrets s
   where s.app_id = t.app and s.sandbox_id = t.sandbox and s.org_id = '-' and s.kind = 'device' and s.payload ->> 'user' = usr;
end $$;

-- Uses up what was mailed, and opens the org of whoever has the address now: of many right ones at once, one. Of a code
-- `codes` are what it may be kept as, of a link nothing; five tries, counted by the statement that looks. Answers who signs in;
-- null for every flaw alike, and then nothing is open.
create function app.enter_by_mail(app text, sandbox text, beside bytea, method text, message text, hash bytea, codes text[],
  ids jsonb, mac bytea) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  auth jsonb := app.visit(app, sandbox, beside, method, null, message, mac);
  o record;
  person text;
  created boolean := false;
begin
  update data.one_time_secrets s set attempts = s.attempts + 1,
      used_at = case when codes is null or s.payload ->> 'code' = any (codes) then now() end
   where s.app_id = app and s.sandbox_id = sandbox and s.org_id = '-' and s.kind = method and s.hash = enter_by_mail.hash
     and s.used_at is null and s.expires_at > now() and s.attempts < 5
   returning s.used_at, s.payload into o;
  if o.used_at is null then return null; end if;
  if o.payload ? 'profile' and (select a.id is null from app.account(app, sandbox, o.payload ->> 'email') a) then
    created := app.sign_up(app, sandbox, o.payload ->> 'email', o.payload -> 'profile', auth, ids);
  end if;
  person := app.open_account(app, sandbox, o.payload ->> 'email');
  if person is null then return null; end if;
  perform app.prove_address(person, ids ->> 'user_entry');
  return jsonb_build_object('user', person, 'created', created);
end $$;
grant execute on function app.enter_by_mail to agentry_api;

-- Registers with a password, where no address need be proven for that: `personal`, and of no org's domain. Ten an hour by
-- `counted`. `said`: profile, password ({salt, rounds, hash}, in hex), and whether there is an invitation, which proves the
-- address elsewhere. Answers `created`, `invited`, how many seconds to wait, or what is refused.
create function app.register_by_password(app text, sandbox text, beside bytea, email text, said jsonb, ids jsonb, counted bytea,
  mac bytea) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  auth jsonb := app.visit(app, sandbox, beside, 'password', email, email, mac);
  invited boolean := (said ->> 'invited')::boolean;
  wait integer;
begin
  if not invited and coalesce(auth ->> 'sign_up', 'closed') = 'closed' then
    return jsonb_build_object('refused', 'sign_up_closed');
  end if;
  wait := app.attempt(counted, 10, '1 hour');
  if wait > 0 then return jsonb_build_object('wait', wait); end if;
  if (select a.id is not null from app.account(app, sandbox, email) a) then return jsonb_build_object('refused', 'taken'); end if;
  if invited then return jsonb_build_object('invited', true); end if;
  if auth ->> 'sign_up' = 'company' or app.org_of_domain(app, sandbox, split_part(lower(email), '@', 2)) is not null then
    return jsonb_build_object('refused', 'verification_required');
  end if;
  perform app.sign_up(app, sandbox, email, said -> 'profile', auth, ids);
  insert into data.passwords (app_id, sandbox_id, org_id, user_id, salt, rounds, hash, proven)
    values (app, sandbox, ids ->> 'org', ids ->> 'user', decode(said #>> '{password,salt}', 'hex'),
      (said #>> '{password,rounds}')::integer, decode(said #>> '{password,hash}', 'hex'), false);
  perform app.open_account(app, sandbox, email);
  return jsonb_build_object('created', true);
end $$;
grant execute on function app.register_by_password to agentry_api;

-- By what an address's password is to be worked out. Null: there is none.
create function app.password_of(app text, sandbox text, beside bytea, email text, mac bytea) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare a record;
begin
  perform app.visit(app, sandbox, beside, 'password', email, email, mac);
  select * into a from app.account(app, sandbox, email);
  return (select jsonb_build_object('salt', encode(p.salt, 'hex'), 'rounds', p.rounds) from data.passwords p
    where p.app_id = app and p.sandbox_id = sandbox and p.org_id = a.org_id and p.user_id = a.id and a.state = 'live');
end $$;
grant execute on function app.password_of to agentry_api;

-- Whether a password is one's: `hashes` are what it may be kept as, by each root secret, the newest first, which it is kept as
-- from here on. Tries are counted before anything is compared, so that of many at once each sees those before it; the eleventh
-- in 15 minutes, and all in the hour after it, are refused: how many seconds that still is.
create function app.try_password(app text, sandbox text, org text, usr text, hashes bytea[], counted bytea) returns integer
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare wait integer := app.attempt(counted, 10, '15 minutes');
begin
  if wait > 0 then
    update app.attempts t set resets_at = now() + interval '1 hour' where t.key = counted and t.count = 11;
    return (select ceil(extract(epoch from t.resets_at - now()))::integer from app.attempts t where t.key = counted);
  end if;
  update data.passwords p set hash = hashes[1]
   where p.app_id = app and p.sandbox_id = sandbox and p.org_id = org and p.user_id = usr and p.hash = any (hashes);
  if not found then return null; end if;
  delete from app.attempts t where t.key = counted;
  return 0;
end $$;

-- Opens the org of whose password it is. Answers `user`, or `wait`; null for a wrong one and for nobody's address alike.
create function app.enter_by_password(app text, sandbox text, beside bytea, email text, hashes bytea[], counted bytea, mac bytea)
returns jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  a record;
  wait integer;
begin
  perform app.visit(app, sandbox, beside, 'password', email, email, mac);
  select * into a from app.account(app, sandbox, email);
  wait := app.try_password(app, sandbox, a.org_id, a.id, hashes, counted);
  if wait > 0 then return jsonb_build_object('wait', wait); end if;
  if wait is null or app.open_account(app, sandbox, email) is null then return null; end if;
  return jsonb_build_object('user', a.id);
end $$;
grant execute on function app.enter_by_password to agentry_api;

-- Sets a person's password, and ends all sign-ins but the one that asks (`keep`: it, or a token of it; null for a
-- developer's key). It takes the old one (`current`, as it may be kept), or a sign-in of the last ten minutes. Answers 0 where it is
-- set, null where it may not be, or how many seconds to wait.
create function app.set_password(app text, sandbox text, org text, usr text, salt bytea, rounds integer, hash bytea,
  current bytea[], counted bytea, keep text, entry text) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  t record;
  u record;
  wait integer;
begin
  select * into t from app.tenant();
  if (t.app = app and t.sandbox = sandbox and t.org in (org, '*')) is not true then
    raise 'another tenant is open' using errcode = 'AE401';
  end if;
  select p.id, p.org_id into u from data.users p where p.app_id = app and p.sandbox_id = sandbox and (org = '*' or p.org_id = org)
    and p.id = usr and p.org_id <> '-' and p.ended_at is null and not p.is_system_user;
  if not found then return null; end if;
  if not exists (
      select from data.tokens k where k.app_id = app and k.sandbox_id = sandbox and k.org_id = u.org_id and k.id = keep
        and k.user_id = usr and k.actor is null and k.auth_time > now() - interval '10 minutes'
      union all select from data.token_families f where f.app_id = app and f.sandbox_id = sandbox and f.org_id = u.org_id
        and f.id = keep and f.user_id = usr and f.actor is null and f.auth_time > now() - interval '10 minutes') then
    if current is null then return null; end if;
    wait := app.try_password(app, sandbox, u.org_id, usr, current, counted);
    if wait is distinct from 0 then return wait; end if;
  end if;
  insert into data.passwords as p (app_id, sandbox_id, org_id, user_id, salt, rounds, hash)
    values (app, sandbox, u.org_id, usr, set_password.salt, set_password.rounds, set_password.hash)
    on conflict on constraint passwords_pkey do update set salt = excluded.salt, rounds = excluded.rounds, hash = excluded.hash,
      changed_at = now();
  perform app.end_sign_ins(app, sandbox, u.org_id, usr, null, keep, entry, usr);
  return 0;
end $$;
grant execute on function app.set_password to agentry_api;

-- What a login page says of its place: the names of the app and of an org of it. Null: there is no such place.
create function app.show_login(app text, sandbox text, slug text, mac bytea) returns jsonb
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac(concat_ws('.', 'login', app, sandbox, show_login.slug), mac);
  return (select jsonb_build_object('app', a.name, 'org', o.name) from data.apps a
    left join data.orgs o on o.app_id = a.id and o.sandbox_id = sandbox and o.slug = show_login.slug
      and not exists (select from app.endings e where e.app_id = app and e.sandbox_id = sandbox and e.id = o.id)
    where a.id = app and (show_login.slug = '' or o.id is not null) and (sandbox = '-' or exists (select from data.sandboxes s
      where s.app_id = app and s.sandbox_id = sandbox and (s.expires_at <= now()) is not true)));
end $$;
grant execute on function app.show_login to agentry_api;

-- What an invitation's page says: who is invited into what, as what and by whom. It uses up nothing. Null for a key that
-- app.enter_once wouldn't take, or whose invitation is over.
create function app.show_invitation(app text, sandbox text, org text, hash bytea, mac bytea) returns jsonb
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac(concat_ws('.', 'invitation', app, sandbox, org, encode(hash, 'hex')), mac);
  return (select jsonb_build_object('email', i.email, 'role', i.role, 'org', i.org_id, 'org_name', o.name, 'app_name', a.name,
      'inviter', coalesce(u.name, u.email))
    from data.one_time_secrets s
    join data.org_invitations i on (i.app_id, i.sandbox_id, i.org_id, i.id) = (s.app_id, s.sandbox_id, s.org_id, s.payload ->> 'invitation')
    join data.orgs o on (o.app_id, o.sandbox_id, o.id) = (s.app_id, s.sandbox_id, s.org_id)
    join data.apps a on a.id = s.app_id
    left join data.users u on (u.app_id, u.sandbox_id, u.org_id, u.id) = (i.app_id, i.sandbox_id, i.org_id, i.invited_by)
   where s.app_id = app and s.sandbox_id = sandbox and s.org_id = org and s.kind = 'invitation' and s.hash = show_invitation.hash
     and s.used_at is null and s.expires_at > now() and i.expires_at > now()
     and (sandbox = '-' or exists (select from data.sandboxes b
       where b.app_id = app and b.sandbox_id = sandbox and (b.expires_at <= now()) is not true))
     and not exists (select from app.endings e where e.app_id = app and e.sandbox_id = sandbox and e.id in (sandbox, org)));
end $$;
grant execute on function app.show_invitation to agentry_api;

-- For the sweep, which is nobody's either and takes a MAC of its own: sessions whose object should have been heard of by
-- now, places in turn: the first of each before the second of any, so that an org of which thousands are behind holds up no
-- other. Each is claimed for a minute. Of a suspended org, when that is active again; of what has ended, never.
create function app.claim_behind(mac bytea, most integer) returns setof data.agent_sessions
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac('objects.sweep', mac);
  -- From place to place along the index of what is to be looked at, however much there is of it in each.
  return query with recursive place as (
    (select b.app_id, b.sandbox_id, b.org_id from data.agent_sessions b where b.look_at is not null and b.status in ('pending', 'running', 'waiting')
      order by 1, 2, 3 limit 1)
    union all
    select n.* from place p cross join lateral (select b.app_id, b.sandbox_id, b.org_id from data.agent_sessions b
      where b.look_at is not null and b.status in ('pending', 'running', 'waiting')
        and (b.app_id, b.sandbox_id, b.org_id) > (p.app_id, p.sandbox_id, p.org_id)
      order by 1, 2, 3 limit 1) n
  ), behind as (
    select p.* from place p
     where exists (select from data.agent_sessions b where b.look_at < now() and b.status in ('pending', 'running', 'waiting')
         and (b.app_id, b.sandbox_id, b.org_id) = (p.app_id, p.sandbox_id, p.org_id))
       and not exists (select from data.orgs o
         where (o.app_id, o.sandbox_id, o.id) = (p.app_id, p.sandbox_id, p.org_id) and o.status = 'suspended')
  ), turns as (
    select one.* from behind p cross join lateral (
      select b.ctid as at, row_number() over (order by b.look_at) as turn from data.agent_sessions b
       where b.look_at < now() and b.status in ('pending', 'running', 'waiting')
         and (b.app_id, b.sandbox_id, b.org_id) = (p.app_id, p.sandbox_id, p.org_id)
         and not exists (select from app.endings e where (e.app_id, e.sandbox_id) = (b.app_id, b.sandbox_id)
           and e.id in (b.sandbox_id, b.org_id, b.user_id, b.agent_id))
       order by b.look_at limit (select 1 + 10 * most / count(*) from behind)) one
  )
  update data.agent_sessions r set look_at = now() + interval '60 seconds'
   where r.ctid = any (array(select b.ctid from data.agent_sessions b
       where b.ctid = any (array(select t.at from turns t order by t.turn, random() limit most))
       for no key update skip locked))
     and r.look_at < now()
  returning r.*;
end $$;
grant execute on function app.claim_behind to agentry_api;

-- As claim_behind, of runs: those that wait for room, too, whose place somebody should have looked at by now.
create function app.claim_behind_runs(mac bytea, most integer) returns setof data.agent_routine_runs
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac('objects.sweep', mac);
  -- From place to place along the index of what is to be looked at, however much there is of it in each.
  return query with recursive place as (
    (select b.app_id, b.sandbox_id, b.org_id from data.agent_routine_runs b where b.look_at is not null and b.status in ('pending', 'running')
      order by 1, 2, 3 limit 1)
    union all
    select n.* from place p cross join lateral (select b.app_id, b.sandbox_id, b.org_id from data.agent_routine_runs b
      where b.look_at is not null and b.status in ('pending', 'running')
        and (b.app_id, b.sandbox_id, b.org_id) > (p.app_id, p.sandbox_id, p.org_id)
      order by 1, 2, 3 limit 1) n
  ), behind as (
    select p.* from place p
     where exists (select from data.agent_routine_runs b where b.look_at < now() and b.status in ('pending', 'running')
         and (b.app_id, b.sandbox_id, b.org_id) = (p.app_id, p.sandbox_id, p.org_id))
       and not exists (select from data.orgs o
         where (o.app_id, o.sandbox_id, o.id) = (p.app_id, p.sandbox_id, p.org_id) and o.status = 'suspended')
  ), turns as (
    select one.* from behind p cross join lateral (
      select b.ctid as at, row_number() over (order by b.look_at) as turn from data.agent_routine_runs b
       where b.look_at < now() and b.status in ('pending', 'running')
         and (b.app_id, b.sandbox_id, b.org_id) = (p.app_id, p.sandbox_id, p.org_id)
         and not exists (select from app.endings e where (e.app_id, e.sandbox_id) = (b.app_id, b.sandbox_id)
           and e.id in (b.sandbox_id, b.org_id, b.agent_id))
       order by b.look_at limit (select 1 + 10 * most / count(*) from behind)) one
  )
  update data.agent_routine_runs r set look_at = now() + interval '60 seconds'
   where r.ctid = any (array(select b.ctid from data.agent_routine_runs b
       where b.ctid = any (array(select t.at from turns t order by t.turn, random() limit most))
       for no key update skip locked))
     and r.look_at < now()
  returning r.*;
end $$;
grant execute on function app.claim_behind_runs to agentry_api;

-- As claim_behind, of computers that their provider is to be asked for, again if it didn't answer.
create function app.claim_computers(mac bytea, most integer) returns setof data.agent_computers
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac('objects.sweep', mac);
  return query update data.agent_computers c set asked_at = now()
    where c.ctid = any (array(select b.ctid from data.agent_computers b
      where b.status = 'provisioning' and (b.asked_at is null or b.asked_at < now() - interval '60 seconds')
        and not exists (select from data.orgs o
          where (o.app_id, o.sandbox_id, o.id) = (b.app_id, b.sandbox_id, b.org_id) and o.status = 'suspended')
        and not exists (select from app.endings e where (e.app_id, e.sandbox_id) = (b.app_id, b.sandbox_id)
          and e.id in (b.sandbox_id, b.org_id, b.agent_id))
      order by b.asked_at nulls first limit most for no key update skip locked))
    returning c.*;
end $$;
grant execute on function app.claim_computers to agentry_api;

-- When the owners are told next that certificates end: 30, 7 and 1 days before each.
create function app.next_warning(ends timestamptz[]) returns timestamptz
language sql stable set search_path = '' as $$
  select min(e.at - before.days) from unnest(ends) e (at),
      unnest(array[interval '30 days', interval '7 days', interval '1 day']) before (days)
   where e.at - before.days > now()
$$;
grant execute on function app.next_warning to agentry_api;

-- Connections whose owners are to be told that a certificate ends, each claimed for good: told once, if at all. A sandbox's
-- mail is never sent.
create function app.claim_sso_warnings(mac bytea, most integer)
returns table (app_id text, org_id text, id text, app_name text, org_name text, ends_at timestamptz, owners text[])
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac('objects.sweep', mac);
  return query with due as (
      update data.sso_connections c set warn_at = app.next_warning(c.certificate_ends)
       where c.ctid = any (array(select b.ctid from data.sso_connections b where b.warn_at <= now()
         order by b.warn_at limit most for no key update skip locked))
      returning c.*)
    select d.app_id, d.org_id, d.id, a.name, o.name, soon.ends_at,
        array(select u.email from data.users u where (u.app_id, u.sandbox_id, u.org_id) = (d.app_id, d.sandbox_id, d.org_id)
          and u.role = 'owner' and u.email is not null and u.deactivated_at is null and u.ended_at is null order by u.id limit 20)
      from due d join data.apps a on a.id = d.app_id
        join data.orgs o on (o.app_id, o.sandbox_id, o.id) = (d.app_id, d.sandbox_id, d.org_id)
        -- Of one that has ended meanwhile every login says so.
        cross join lateral (select min(e) as ends_at from unnest(d.certificate_ends) e where e > now()) soon
     where soon.ends_at < now() + interval '30 days' and d.sandbox_id = '-' and d.provider = 'saml' and d.status <> 'incomplete' and o.status <> 'suspended'
       and not exists (select from app.endings e where (e.app_id, e.sandbox_id) = (d.app_id, d.sandbox_id) and e.id = d.org_id);
end $$;
grant execute on function app.claim_sso_warnings to agentry_api;

-- For the sweep: places where something is due within two minutes, or waits, each as likely as any other, so that one of
-- which there is always something holds up none.
create function app.due_places(mac bytea, most integer) returns setof data.tenants
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac('objects.sweep', mac);
  return query select d.app_id, d.sandbox_id, d.org_id from (
      select s.app_id, s.sandbox_id, s.org_id from data.agent_schedules s where s.due_at < now() + interval '2 minutes'
      union select r.app_id, r.sandbox_id, r.org_id from data.agent_routines r where r.due_at < now() + interval '2 minutes'
      union select a.app_id, a.sandbox_id, a.org_id from data.automations a where a.due_at < now() + interval '2 minutes'
      union select o.app_id, o.sandbox_id, o.org_id from data.occurrences o
        where o.fired_at is null and o.outcome in ('buffered', 'backfilled')) d
    where not exists (select from app.endings e where (e.app_id, e.sandbox_id) = (d.app_id, d.sandbox_id)
      and e.id in (d.sandbox_id, d.org_id))
    order by random() limit most;
end $$;
grant execute on function app.due_places to agentry_api;

-- Objects that are to erase themselves, each claimed for a minute; and those that have. A computer is ended for good when
-- nobody can be making it any more: who makes one gives up after a minute.
create function app.claim_erasures(mac bytea, most integer)
returns table (n bigint, app_id text, sandbox_id text, org_id text, id text, kind text, parts text[])
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac('objects.sweep', mac);
  return query update app.erasures x set tried_at = now()
    where x.n = any (array(select b.n from app.erasures b
      where (b.tried_at is null or b.tried_at < now() - interval '60 seconds')
        and (b.kind <> 'agent_computer' or b.deleted_at < now() - interval '2 minutes')
      order by b.tried_at nulls first, b.n limit most for update skip locked))
    returning x.n, x.app_id, x.sandbox_id, x.org_id, x.id, x.kind, x.parts;
end $$;
grant execute on function app.claim_erasures to agentry_api;

create function app.erased(mac bytea, done bigint[]) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac('objects.sweep', mac);
  delete from app.erasures x where x.n = any (done);
end $$;
grant execute on function app.erased to agentry_api;

-- Places where events wait for their numbers, or for those who react to them, though whoever numbers there should have
-- been woken long ago: by turns, those first whose last turn is longest past. Each is claimed for a minute.
create function app.claim_unnumbered(mac bytea, most integer) returns setof data.tenants
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac('objects.sweep', mac);
  -- From place to place along the index of what has no number, however much there is of it in each.
  return query with recursive place as (
    (select e.app_id, e.sandbox_id, e.org_id from data.events e where e.sequence is null order by 1, 2, 3 limit 1)
    union all
    select n.* from place p cross join lateral (select e.app_id, e.sandbox_id, e.org_id from data.events e
      where e.sequence is null and (e.app_id, e.sandbox_id, e.org_id) > (p.app_id, p.sandbox_id, p.org_id)
      order by 1, 2, 3 limit 1) n
  ), waiting as (
    select p.* from place p cross join lateral (select e.created_at from data.events e
        where (e.app_id, e.sandbox_id, e.org_id) = (p.app_id, p.sandbox_id, p.org_id) and e.sequence is null
        order by e.position limit 1) oldest
     where oldest.created_at < now() - interval '10 seconds'
    union
    select h.app_id, h.sandbox_id, h.org_id from data.event_heads h where h.delivered < h.sequence
  ), woken as (
    insert into data.event_heads as h (app_id, sandbox_id, org_id, woken_at)
      select w.app_id, w.sandbox_id, w.org_id, now() from waiting w left join data.event_heads b using (app_id, sandbox_id, org_id)
       where (b.woken_at is null or b.woken_at < now() - interval '60 seconds')
         and not exists (select from app.endings e where (e.app_id, e.sandbox_id) = (w.app_id, w.sandbox_id)
           and e.id in (w.sandbox_id, w.org_id))
       order by b.woken_at nulls first limit most
      on conflict on constraint event_heads_pkey do update set woken_at = now()
      returning h.app_id, h.sandbox_id, h.org_id
  )
  select w.app_id, w.sandbox_id, w.org_id from woken w;
end $$;
grant execute on function app.claim_unnumbered to agentry_api;

-- Which of those who watch something may do so no longer, by their place in the list, with what their door refused them
-- for. Through the door of each, as whoever calls it: no door is open at the end.
create function app.watch(watchers jsonb) returns table (n integer, code text, reason text)
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare w record;
begin
  for w in select * from rows from (jsonb_to_recordset(watchers) as (app text, sandbox text, org text, usr text, jti text,
      roles text[], key_hash text, beside text, family text, mac text)) with ordinality as
      r (app, sandbox, org, usr, jti, roles, key_hash, beside, family, mac, nth) loop
    begin
      if w.family is not null then
        perform app.enter_session(w.app, w.sandbox, w.org, w.usr, w.family, w.roles, decode(w.mac, 'hex'));
      elsif w.jti is null then
        perform app.enter_key(w.app, w.sandbox, decode(w.key_hash, 'hex'), decode(w.beside, 'hex'));
      else
        perform app.enter_token(w.app, w.sandbox, w.org, w.usr, w.jti, w.roles, decode(w.beside, 'hex'));
      end if;
    exception when sqlstate 'AE401' or sqlstate 'AE403' then
      n := w.nth - 1;
      code := sqlstate;
      reason := sqlerrm;
      return next;
    end;
  end loop;
  perform set_config('app.app_id', '', true), set_config('app.sandbox_id', '', true), set_config('app.org_id', '', true),
    set_config('app.proof', '', true), set_config('app.ended', '', true), set_config('app.org_role', '', true);
end $$;
grant execute on function app.watch to agentry_api;

-- Narrows a developer's door to one org, or to one sandbox of the app. Never widens: from anywhere but a proven '*', or
-- into a sandbox from another one, it leads to nothing; nor into a sandbox that has ended. An org that has ended is one
-- that rows can't be made in, as if it weren't there.
create function app.within(sandbox text, org text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  t record;
  ended text[] := '{}';
begin
  select * into t from app.tenant();
  if t.org = '*' and t.sandbox in ('-', sandbox) then
    perform app.prove(t.app, sandbox, org);
    ended := string_to_array(current_setting('app.ended'), ',');
    if org = any (ended) then
      raise 'no such org' using errcode = 'foreign_key_violation', table = 'tenants', constraint = 'tenants_tenant_fkey';
    end if;
  end if;
  if (t.org = '*' and t.sandbox in ('-', sandbox)) is not true or sandbox = any (ended) then
    perform set_config('app.sandbox_id', '', true), set_config('app.org_id', '', true), set_config('app.proof', '', true);
  end if;
end $$;
grant execute on function app.within to agentry_api;

-- Stands behind a developer's door that was narrowed to a user's org: what follows may no more than that user may now,
-- whose role access lists then see. AE403 where the role isn't one of `roles`, which nobody's and a lost user's never is.
create function app.act_as(usr text, roles text[]) returns void
language plpgsql volatile set search_path = '' as $$
declare a record;
begin
  select u.role, o.status into a
    from app.tenant() t
    join data.users u on (u.app_id, u.sandbox_id, u.org_id, u.id) = (t.app, t.sandbox, t.org, usr)
      and u.deactivated_at is null
    left join data.orgs o on (o.app_id, o.sandbox_id, o.id) = (t.app, t.sandbox, t.org);
  if a.status not in ('active', 'trialing') then raise 'org_suspended' using errcode = 'AE403'; end if;
  if (a.role = any (roles)) is not true then raise 'role' using errcode = 'AE403'; end if;
  perform set_config('app.org_role', case when a.role in ('owner', 'admin') then 'admin'
    when a.role in ('billing', 'viewer') then 'viewer' else a.role end, true);
end $$;
grant execute on function app.act_as to agentry_api;

-- Ends what an org, a user, an agent or a sandbox was: from this statement on nobody finds what hangs on it. Of that, a slice goes
-- at once, which is all of it if it is small; the sweep deletes the rest.
create function app.finish(app text, sandbox text, ended text, most bigint) returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  kind text := (select e.kind from app.endings e where (e.app_id, e.sandbox_id, e.id) = (app, sandbox, ended));
  place text;
  held tid[];
  deleted bigint := 0;
begin
  if kind = 'user' then
    deleted := app.slice_of_user(app, sandbox, ended, most);
    if deleted >= most then return deleted; end if;
    delete from data.users u where (u.app_id, u.sandbox_id, u.id) = (app, sandbox, ended);
  elsif kind = 'agent' then
    deleted := app.slice_of_agent(app, sandbox, ended, most);
    if deleted >= most then return deleted; end if;
    delete from data.agents a where (a.app_id, a.sandbox_id, a.id) = (app, sandbox, ended);
  else
    if kind = 'org' then
      held := array(select s.ctid from data.sandboxes s where (s.app_id, s.for_sandbox_id, s.for_org_id) = (app, sandbox, ended)
        limit most for update);
      update data.sandboxes s set for_org_id = null where s.ctid = any (held);
      deleted := cardinality(held);
      if deleted >= most then return deleted; end if;
    end if;
    -- Of a sandbox the orgs first, and its own rows last.
    for place in select t.org_id from data.tenants t where (t.app_id, t.sandbox_id) = (app, sandbox)
        and (kind = 'sandbox' or t.org_id = ended) order by t.org_id desc loop
      perform from data.orgs o where (o.app_id, o.sandbox_id, o.id) = (app, sandbox, place) for update;
      deleted := deleted + app.slice_of_tenant(app, sandbox, place, most - deleted);
      if deleted >= most then return deleted; end if;
      delete from data.tenants t where (t.app_id, t.sandbox_id, t.org_id) = (app, sandbox, place);
      deleted := deleted + 1;
    end loop;
  end if;
  delete from app.endings e where (e.app_id, e.sandbox_id, e.id) = (app, sandbox, ended);
  return deleted + 1;
end $$;

-- Refuses to end a user or an agent while another agent uses a config that would go with it, as the foreign key would
-- that is met slices later, when nobody is there to be told.
create function app.must_be_free(app text, sandbox text, ended text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  agents text[] := array(select a.id from data.agents a where a.app_id = app and a.sandbox_id = sandbox
    and (a.user_id = ended or a.id = ended));
  held record;
  uses boolean;
begin
  for held in select f.conrelid::regclass as tbl, c.relname, a.attname from pg_constraint f
      join pg_class c on c.oid = f.conrelid join pg_attribute a on a.attrelid = f.conrelid and a.attnum = f.conkey[4]
     where f.contype = 'f' and f.confdeltype = 'a' and f.confrelid = 'data.configs'::regclass loop
    execute format('select exists (select from data.configs c join %s h on (h.app_id, h.sandbox_id, h.org_id, h.%I)
        = (c.app_id, c.sandbox_id, c.org_id, c.id) where c.app_id = $1 and c.sandbox_id = $2
        and (c.agent_id = any ($4) or c.user_id = $3) and h.agent_id <> all ($4))', held.tbl, held.attname)
      into uses using app, sandbox, ended, agents;
    if uses then
      raise 'update or delete on table "configs" would leave a use of it' using errcode = 'foreign_key_violation',
        schema = 'data', table = held.relname;
    end if;
  end loop;
end $$;

create function app.end_row() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare place text := case when tg_argv[0] = 'org' then old.id else '-' end;
begin
  if tg_argv[0] in ('user', 'agent') then
    perform app.must_be_free(old.app_id, old.sandbox_id, old.id);
  else
    -- Where its place is gone already, everything is: this delete is a part of that one.
    perform from data.tenants t where (t.app_id, t.sandbox_id, t.org_id) = (old.app_id, old.sandbox_id, place);
    if not found then return null; end if;
  end if;
  insert into app.endings (app_id, sandbox_id, id, kind) values (old.app_id, old.sandbox_id, old.id, tg_argv[0])
    on conflict do nothing;
  -- Found there, it is the sweep that ends it.
  if found then perform app.finish(old.app_id, old.sandbox_id, old.id, 5000); end if;
  return null;
end $$;
create trigger ending after delete on data.orgs for each row execute function app.end_row('org');
create trigger ending after delete on data.sandboxes for each row execute function app.end_row('sandbox');
create trigger ending after update of ended_at on data.users for each row execute function app.end_row('user');
create trigger ending after update of ended_at on data.agents for each row execute function app.end_row('agent');

-- What was unique in an app is free as soon as what its row hangs on has ended, though the row is still there.
create function app.free_email() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  update data.users u set email = null from app.endings e
   where (u.app_id, u.sandbox_id, u.email_key) = (new.app_id, new.sandbox_id, lower(new.email))
     and (e.app_id, e.sandbox_id) = (new.app_id, new.sandbox_id) and e.id in (u.org_id, u.id);
  return new;
end $$;
create trigger free_email before insert or update of email on data.users for each row
  when (new.email is not null and current_setting('app.ended', true) <> '') execute function app.free_email();

create function app.free_lookup_key() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  update data.agents a set lookup_key = null from app.endings e
   where (a.app_id, a.sandbox_id, a.lookup_key) = (new.app_id, new.sandbox_id, new.lookup_key)
     and (e.app_id, e.sandbox_id) = (new.app_id, new.sandbox_id) and e.id in (a.org_id, a.user_id, a.id);
  return new;
end $$;
create trigger free_lookup_key before insert or update of lookup_key on data.agents for each row
  when (new.lookup_key is not null and current_setting('app.ended', true) <> '') execute function app.free_lookup_key();

create function app.free_computer_lookup_key() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  update data.agent_computers c set lookup_key = null from app.endings e, data.agents a
   where (c.app_id, c.sandbox_id, c.lookup_key) = (new.app_id, new.sandbox_id, new.lookup_key)
     and (a.app_id, a.sandbox_id, a.id) = (c.app_id, c.sandbox_id, c.agent_id)
     and (e.app_id, e.sandbox_id) = (new.app_id, new.sandbox_id) and e.id in (c.org_id, a.user_id, a.id);
  return new;
end $$;
create trigger free_lookup_key before insert or update of lookup_key on data.agent_computers for each row
  when (new.lookup_key is not null and current_setting('app.ended', true) <> '') execute function app.free_computer_lookup_key();

-- The least id that can have been made at a time, without its prefix: ids begin with their time (UUIDv7, in base 62).
create function app.id_at(moment timestamptz) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  digits constant text := '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
  value numeric := floor(extract(epoch from moment) * 1000) * 2::numeric ^ 80;
  text text := '';
begin
  for i in 1..22 loop
    text := substr(digits, mod(value, 62)::integer + 1, 1) || text;
    value := div(value, 62);
  end loop;
  return text;
end $$;

-- Webhook endpoints: addresses that are told of events, an org's, or the app's, which hear of every org's. What is on its way
-- to one, its Durable Object holds.
create table data.webhook_endpoints (
  id                 text collate "C" not null,
  app_id             text collate "C" not null,
  sandbox_id         text collate "C" not null,
  org_id             text collate "C" not null,
  url                text not null,
  -- Names of events, or beginnings of names that end in `*`.
  event_names        text[] not null,
  ordering           text not null default 'none' check (ordering in ('none', 'strict')),
  status             text not null default 'enabled' check (status in ('enabled', 'disabled')),
  -- The position behind which its events are heard: by position, since a clock may step back.
  heard_since        bigint not null default nextval('data.events_position_seq'),
  -- The newest number of its org when it was last enabled: what has a lower one it has missed, or had. The app's hears of many.
  heard_after        bigint not null default 0,
  disabled_reason    text check (disabled_reason in ('asked', 'failing', 'gone')),
  disabled_at        timestamptz,
  -- Of the newest event of its org that everybody had when it was disabled: what follows, it may have missed.
  disabled_after     bigint,
  -- Since when no attempt has succeeded; null while the last one has.
  failing_since      timestamptz,
  -- How much of that was told: lib/webhooks/rules.ts has the stages.
  failing_told       integer not null default 0,
  -- The secrets that sign, newest first, and what holds them to this row: lib/auth/vault.ts.
  sealed             bytea not null,
  tag                bytea not null,
  -- Until then the second one signs, too.
  overlap_expires_at timestamptz,
  created_at         timestamptz not null default now(),
  updated_at         timestamptz not null default now(),
  -- When the sweep last looked whether its object is behind.
  looked_at          timestamptz,
  primary key (app_id, sandbox_id, id),
  constraint webhook_endpoints_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
create index webhook_endpoints_org_idx on data.webhook_endpoints (app_id, sandbox_id, org_id, id);
create index webhook_endpoints_looked_idx on data.webhook_endpoints (looked_at nulls first) where status = 'enabled';
create trigger at_most after insert on data.webhook_endpoints referencing new table as added
  for each statement execute function app.at_most_in_org('20', 'webhook_endpoints');
create trigger leave_objects after delete on data.webhook_endpoints referencing old table as gone
  for each statement execute function app.leave_objects('webhook_endpoint');
select app.wall('data.webhook_endpoints', 'select, insert, update, delete');

-- What was, or is to be, delivered to them. No foreign key leads to the endpoint, whose end would then take as long as there
-- are many: they are reached through it alone, and go when they were kept long enough.
create table data.webhook_deliveries (
  id              text collate "C" not null,
  app_id          text collate "C" not null,
  sandbox_id      text collate "C" not null,
  org_id          text collate "C" not null,
  endpoint_id     text collate "C" not null,
  event_id        text collate "C" not null,
  -- Where the event happened: to the app's endpoints, in any of its orgs.
  event_org_id    text collate "C" not null,
  event_name      text not null,
  sequence        bigint not null,
  status          text not null check (status in ('pending', 'delivered', 'dead')),
  -- The newest, each with what came of it.
  attempts        jsonb not null constraint webhook_deliveries_attempts_check check (octet_length(attempts::text) <= 131072),
  attempt_count   integer not null,
  next_attempt_at timestamptz,
  -- Of the newest that its object has told: an older telling undoes none.
  revision        integer not null,
  created_at      timestamptz not null default now(),
  updated_at      timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint webhook_deliveries_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
create index webhook_deliveries_endpoint_idx on data.webhook_deliveries (app_id, sandbox_id, org_id, endpoint_id, id);
create index webhook_deliveries_event_idx on data.webhook_deliveries (app_id, sandbox_id, org_id, endpoint_id, event_id);
create index webhook_deliveries_due_idx on data.webhook_deliveries (app_id, sandbox_id, org_id, endpoint_id, next_attempt_at)
  where status = 'pending';
select app.wall('data.webhook_deliveries', 'select, insert, update');

-- For the Dispatcher of a place: who is to be told of what happens there. The app's own are among them, which no org's wall
-- lets through: so it shows a MAC, and gets no more than what to listen for.
create function app.webhooks_of(app text, sandbox text, org text, mac bytea)
returns table (id text, org_id text, event_names text[], heard_since bigint, heard_after bigint)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac(concat_ws('.', 'webhooks', app, sandbox, org), mac);
  return query select w.id, w.org_id, w.event_names, w.heard_since, w.heard_after
     from data.webhook_endpoints w
     where w.app_id = app and w.sandbox_id = sandbox and w.org_id in (org, '-') and w.status = 'enabled';
end $$;
grant execute on function app.webhooks_of to agentry_api;

-- Whether anybody reacts to what happens in a place of the tenant that is proven, who would have to be woken; of any other
-- place, no. Asked by every statement that tells: as a function it is planned once a connection, and not with each.
create function app.is_heard(app text, sandbox text, org text) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  return exists (select from app.tenant() t where t.app = is_heard.app and t.sandbox = is_heard.sandbox and t.org in ('*', is_heard.org))
    and (exists (select from data.agent_routines r where r.app_id = app and r.sandbox_id = sandbox and r.org_id = org
        and r.status = 'active' and coalesce(r.event_type, r.event_config::text) is not null)
      or exists (select from data.webhook_endpoints h where h.app_id = app and h.sandbox_id = sandbox and h.org_id in (org, '-')
        and h.status = 'enabled')
      or exists (select from data.event_subscriptions s where s.app_id = app and s.sandbox_id = sandbox and s.org_id = org
        and s.status = 'active')
      or exists (select from data.automations a where a.app_id = app and a.sandbox_id = sandbox and a.org_id = org
        and a.status = 'active' and a.automation_type = 'trigger')
      or exists (select from data.event_waits w where w.app_id = app and w.sandbox_id = sandbox and w.org_id = org));
end $$;
grant execute on function app.is_heard to agentry_api;

-- Webhook endpoints whose object has missed its alarm, of those that are looked at now: by turns, so many a call, however
-- many there are. `behind`: a delivery that it has told of should have been tried; or it should have told of one by now, since its
-- Dispatcher has handed the event on: of a place's newest twenty, and for the app's endpoints of twenty places at a time.
create function app.claim_behind_endpoints(mac bytea, most integer)
returns table (app_id text, sandbox_id text, org_id text, id text, behind boolean)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac('objects.sweep', mac);
  return query with b as (
      update data.webhook_endpoints w set looked_at = now()
       where w.ctid = any (array(select e.ctid from data.webhook_endpoints e
         where e.status = 'enabled' and (e.looked_at is null or e.looked_at < now() - interval '50 seconds')
         order by e.looked_at nulls first limit most for no key update skip locked))
      returning w.*)
    select b.app_id, b.sandbox_id, b.org_id, b.id,
        -- Those of a suspended org, when that is active again.
        not exists (select from data.orgs o
          where (o.app_id, o.sandbox_id, o.id) = (b.app_id, b.sandbox_id, b.org_id) and o.status = 'suspended')
        and not exists (select from app.endings e where (e.app_id, e.sandbox_id) = (b.app_id, b.sandbox_id)
          and e.id in (b.sandbox_id, b.org_id))
        -- An attempt that is under way is told of within twenty seconds.
        and (exists (select from data.webhook_deliveries d
            where (d.app_id, d.sandbox_id, d.org_id, d.endpoint_id) = (b.app_id, b.sandbox_id, b.org_id, b.id)
              and d.status = 'pending' and d.next_attempt_at < now() - interval '30 seconds')
          or exists (select from (select h.org_id, h.delivered from data.event_heads h
              where (h.app_id, h.sandbox_id) = (b.app_id, b.sandbox_id)
                -- All of them, or the one: a range of the index either way.
                and h.org_id >= case when b.org_id = '-' then '' else b.org_id end
                and h.org_id <= case when b.org_id = '-' then '~' else b.org_id end
              order by random() limit 20) h
            cross join lateral (select e.id, e.name, e.position, e.created_at from data.events e
              where (e.app_id, e.sandbox_id, e.org_id) = (b.app_id, b.sandbox_id, h.org_id)
                and e.sequence <= h.delivered and e.sequence > b.heard_after order by e.sequence desc limit 20) e
            where e.created_at between now() - interval '1 hour' and now() - interval '10 seconds'
              and e.position > b.heard_since
              and exists (select from unnest(b.event_names) n
                where n = e.name or (right(n, 1) = '*' and starts_with(e.name, left(n, -1))))
              and not exists (select from data.webhook_deliveries d
                where (d.app_id, d.sandbox_id, d.org_id, d.endpoint_id, d.event_id)
                  = (b.app_id, b.sandbox_id, b.org_id, b.id, e.id))))
      from b;
end $$;
grant execute on function app.claim_behind_endpoints to agentry_api;

-- Deletes, in every tenant, a slice of what is past its time: at most so many rows, so that no other request waits for
-- it. Answers how many; 0 where nothing is left, or another does it at this moment. Idempotency keys after a day, tokens
-- and their families a month after they expired, what works once and counts of tries a day after theirs, sign-ins of
-- developers and sandboxes when they expire, mails of sandboxes after a week, what hangs on an org, sandbox, user or agent
-- that has ended, entries of the feed, calls of models, events, occurrences, runs, deliveries and receipts of
-- webhooks when their app keeps them no longer. Whoever calls it, and however often, deletes nothing else.
create function app.sweep() returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  most constant bigint := 5000;
  deleted bigint := 0;
  n bigint;
  one record;
begin
  if not pg_try_advisory_xact_lock(4711043) then return 0; end if;

  delete from data.idempotency_keys where ctid = any (array(
    select ctid from data.idempotency_keys where created_at < now() - interval '24 hours' limit most));
  get diagnostics n = row_count;
  deleted := deleted + n;
  delete from data.tokens where ctid = any (array(
    select ctid from data.tokens where expires_at < now() - interval '30 days' limit most - deleted));
  get diagnostics n = row_count;
  deleted := deleted + n;
  delete from data.token_families where ctid = any (array(
    select ctid from data.token_families where expires_at < now() - interval '30 days' limit most - deleted));
  get diagnostics n = row_count;
  deleted := deleted + n;
  delete from data.one_time_secrets where ctid = any (array(
    select ctid from data.one_time_secrets where expires_at < now() - interval '1 day' limit most - deleted));
  get diagnostics n = row_count;
  deleted := deleted + n;
  delete from data.developer_sessions where ctid = any (array(
    select ctid from data.developer_sessions where expires_at < now() limit most - deleted));
  get diagnostics n = row_count;
  deleted := deleted + n;
  delete from data.sandbox_mails where ctid = any (array(
    select ctid from data.sandbox_mails where created_at < now() - interval '7 days' limit most - deleted));
  get diagnostics n = row_count;
  deleted := deleted + n;
  delete from app.attempts where ctid = any (array(
    select ctid from app.attempts where resets_at < now() - interval '1 day' limit most - deleted));
  get diagnostics n = row_count;
  deleted := deleted + n;

  with past as (
    delete from data.sandboxes where ctid = any (array(
      select ctid from data.sandboxes where expires_at < now() limit most - deleted)) returning app_id, sandbox_id
  )
  insert into app.endings (app_id, sandbox_id, id, kind) select app_id, sandbox_id, sandbox_id, 'sandbox' from past;
  get diagnostics n = row_count;
  deleted := deleted + n;

  for one in select e.app_id, e.sandbox_id, e.id from app.endings e order by e.ended_at loop
    exit when deleted >= most;
    -- What came to be used while it ended stays hidden until that goes; it holds up no other.
    begin
      deleted := deleted + app.finish(one.app_id, one.sandbox_id, one.id, most - deleted);
    exception when foreign_key_violation then null;
    end;
  end loop;

  -- Each app says for how long; only places that have something older are looked at.
  for one in with kept as materialized (
      select a.id as app_id, app.id_at(now() - make_interval(days => coalesce((a.settings -> 'activity_retention_days')::integer, 400))) as entry,
        now() - make_interval(days => coalesce((a.settings #> '{retention_days,events}')::integer, 30)) as told,
        app.id_at(now() - make_interval(days => coalesce((a.settings #> '{retention_days,occurrences}')::integer, 30))) as occurrence,
        app.id_at(now() - make_interval(days => coalesce((a.settings #> '{retention_days,runs}')::integer, 90))) as run,
        app.id_at(now() - make_interval(days => coalesce((a.settings #> '{retention_days,webhook_deliveries}')::integer, 30))) as delivery,
        app.id_at(now() - make_interval(days => coalesce((a.settings #> '{retention_days,webhook_receipts}')::integer, 30))) as receipt
      from data.apps a)
    select k.*, t.sandbox_id from kept k join data.tenants t on t.app_id = k.app_id and t.org_id = '-'
     where exists (select from data.activity_feed_entries e
         where e.app_id = t.app_id and e.sandbox_id = t.sandbox_id and e.id < 'afe_' || k.entry)
       or exists (select from data.model_calls c
         where c.app_id = t.app_id and c.sandbox_id = t.sandbox_id and c.id < 'mcl_' || k.entry)
       or exists (select from data.events e where e.app_id = t.app_id and e.sandbox_id = t.sandbox_id and e.id < 'evt_' || app.id_at(k.told)
           and e.created_at < k.told)
       or exists (select from data.occurrences o
         where o.app_id = t.app_id and o.sandbox_id = t.sandbox_id and o.id < 'occ_' || k.occurrence
           and (o.fired_at is not null or o.outcome not in ('buffered', 'backfilled')))
       or exists (select from data.agent_routine_runs r
         where r.app_id = t.app_id and r.sandbox_id = t.sandbox_id and (r.id < 'arr_' || k.run or (r.id >= 'atr_' and r.id < 'atr_' || k.run)))
       or exists (select from data.webhook_deliveries d
         where d.app_id = t.app_id and d.sandbox_id = t.sandbox_id and d.id < 'whd_' || k.delivery)
       or exists (select from data.webhook_receipts d
         where d.app_id = t.app_id and d.sandbox_id = t.sandbox_id and d.id < 'whr_' || k.receipt)
     -- By no order: one that has much to delete keeps no other waiting, day by day.
     order by random() loop
    exit when deleted >= most;
    delete from data.activity_feed_entries where ctid = any (array(
      select ctid from data.activity_feed_entries e
       where e.app_id = one.app_id and e.sandbox_id = one.sandbox_id and e.id < 'afe_' || one.entry limit most - deleted));
    get diagnostics n = row_count;
    deleted := deleted + n;
    delete from data.model_calls where ctid = any (array(
      select ctid from data.model_calls c
       where c.app_id = one.app_id and c.sandbox_id = one.sandbox_id and c.id < 'mcl_' || one.entry limit most - deleted));
    get diagnostics n = row_count;
    deleted := deleted + n;
    -- What is gone of an org's events, its head says: whoever pulls them is told of a gap. One whose id is as old as the command
    -- that it was told by stays for as long as it has been there itself.
    with past as (
      delete from data.events where ctid = any (array(
        select ctid from data.events e where e.app_id = one.app_id and e.sandbox_id = one.sandbox_id
          and e.id < 'evt_' || app.id_at(one.told) and e.created_at < one.told and e.sequence is not null limit most - deleted))
      returning org_id, sequence
    ), told as (
      update data.event_heads h set expired = greatest(h.expired, p.through)
        from (select org_id, max(sequence) as through from past group by org_id) p
       where h.app_id = one.app_id and h.sandbox_id = one.sandbox_id and h.org_id = p.org_id
    )
    select count(*) into n from past;
    deleted := deleted + n;
    delete from data.occurrences where ctid = any (array(
      select ctid from data.occurrences o
       where o.app_id = one.app_id and o.sandbox_id = one.sandbox_id and o.id < 'occ_' || one.occurrence
         -- What still waits is to come.
         and (o.fired_at is not null or o.outcome not in ('buffered', 'backfilled')) limit most - deleted));
    get diagnostics n = row_count;
    deleted := deleted + n;
    -- A run has some ten calls, which go with it.
    delete from data.agent_routine_runs where ctid = any (array(
      select ctid from data.agent_routine_runs r
       where r.app_id = one.app_id and r.sandbox_id = one.sandbox_id and (r.id < 'arr_' || one.run or (r.id >= 'atr_' and r.id < 'atr_' || one.run))
         and r.status not in ('pending', 'running') limit ceil(greatest(0, most - deleted) / 10.0)));
    get diagnostics n = row_count;
    deleted := deleted + 10 * n;
    delete from data.webhook_deliveries where ctid = any (array(
      select ctid from data.webhook_deliveries d
       where d.app_id = one.app_id and d.sandbox_id = one.sandbox_id and d.id < 'whd_' || one.delivery
       limit greatest(0, most - deleted)));
    get diagnostics n = row_count;
    deleted := deleted + n;
    delete from data.webhook_receipts where ctid = any (array(
      select ctid from data.webhook_receipts d
       where d.app_id = one.app_id and d.sandbox_id = one.sandbox_id and d.id < 'whr_' || one.receipt
       limit greatest(0, most - deleted)));
    get diagnostics n = row_count;
    deleted := deleted + n;
  end loop;
  return deleted;
end $$;
grant execute on function app.sweep to agentry_api;

reset role;

-- A door bounds what follows it; this bounds the door itself, and whoever comes without one. Whoever applies this to a
-- server where another made the role may not be allowed to: the doors' bounds stand.
do $bounds$ begin
  execute format('alter role agentry_api in database %I set statement_timeout = %L', current_database(), '5s');
  execute format('alter role agentry_api in database %I set lock_timeout = %L', current_database(), '2s');
exception when insufficient_privilege then
  raise warning 'agentry_api keeps its own statement_timeout and lock_timeout: %', sqlerrm;
end $bounds$;

-- What injected SQL could keep for the next request of its session, or for ever: temporary tables, types and functions,
-- and large objects. Taken from everybody where whoever applies this may: the first by the database's owner, the second
-- by a superuser alone.
do $public$
declare f regprocedure;
begin
  if pg_has_role(current_user, (select datdba from pg_database where datname = current_database()), 'usage') then
    execute format('revoke temporary on database %I from public', current_database());
  end if;
  if (select rolsuper from pg_roles where rolname = current_user) then
    for f in select oid from pg_proc where pronamespace = 'pg_catalog'::regnamespace and proname ~ '^lo_|^lo(read|write)$' loop
      execute format('revoke execute on function %s from public', f);
    end loop;
  end if;
end $public$;
