-- Deletes of a size: what is deleted is dead at once, and its rows go in slices.

create table app.endings (
  app_id     text collate "C" not null,
  sandbox_id text collate "C" not null,
  id         text collate "C" not null,
  kind       text not null check (kind in ('org', 'sandbox', 'user')),
  ended_at   timestamptz not null default now(),
  primary key (app_id, sandbox_id, id)
);

create function app.slice_from(tbl regclass, rows text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
  select format(e'  delete from %s where ctid = any (array(select %s limit $4 - deleted));\n'
    '  get diagnostics n = row_count;\n  deleted := deleted + n;\n', tbl, rows)
$$;

create function app.make_slices() returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $make$
declare
  of_tenant text;
  of_user text;
  made record;
begin
  -- Of a tenant. Its place, and the record of the org or sandbox, are for who calls it.
  with recursive walk (tbl, path) as (
    select c.oid, array[c.oid] from pg_class c where c.relnamespace = 'data'::regnamespace and c.relkind = 'r'
       and c.relname not in ('apps', 'tenants', 'orgs', 'sandboxes')
    union all
    select f.conrelid, path || f.conrelid from walk join pg_constraint f on f.contype = 'f' and f.confrelid = walk.tbl
     where f.conrelid <> all (path)
  ), deepest as (select tbl, max(cardinality(path)) as depth from walk group by tbl)
  select string_agg(app.slice_from(tbl, format('ctid from %s where (app_id, sandbox_id, org_id) = ($1, $2, $3)', tbl::regclass)),
      '' order by depth desc, tbl::regclass::text collate "C") into of_tenant from deepest;
  -- Of a user: what hangs on it, and on that, by whatever foreign keys cascade.
  with recursive walk (tbl, path, rows) as (
    select c.oid, array[c.oid], format('%s t1', c.oid::regclass) collate "C" from pg_class c where c.oid = to_regclass('data.users')
    union all
    select f.conrelid, path || f.conrelid, format('%s join %s t%s on %s', rows, f.conrelid::regclass, cardinality(path) + 1,
        (select string_agg(format('t%s.%I = t%s.%I', cardinality(path) + 1, a.attname, cardinality(path), b.attname), ' and ' order by n)
           from unnest(f.conkey, f.confkey) with ordinality k (below, above, n)
           join pg_attribute a on a.attrelid = f.conrelid and a.attnum = below
           join pg_attribute b on b.attrelid = f.confrelid and b.attnum = above))
      from walk join pg_constraint f on f.contype = 'f' and f.confdeltype = 'c' and f.confrelid = walk.tbl
     where f.conrelid <> all (path)
  ), deepest as (select *, max(cardinality(path)) over (partition by tbl) as depth from walk)
  select string_agg(app.slice_from(tbl, format('t%s.ctid from %s where (t1.app_id, t1.sandbox_id, t1.id) = ($1, $2, $3)',
      cardinality(path), rows)), '' order by depth desc, rows collate "C") into of_user
    from deepest where depth > 1;
  for made in values ('slice_of_tenant', of_tenant), ('slice_of_user', of_user) loop
    execute format($$create or replace function app.%I(app text, sandbox text, id text, most bigint) returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp set plan_cache_mode = force_custom_plan as $slice$
declare
  deleted bigint := 0;
  n bigint;
begin
%s  return deleted;
end $slice$ $$, made.column1, made.column2);
  end loop;
end $make$;

create function app.face(tbl regclass) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $face$
declare above text;
begin
  select string_agg(quote_ident(a.attname), ', ' order by a.attnum) into above from pg_attribute a
   where a.attrelid = tbl and (a.attname = 'org_id' or (tbl = to_regclass('data.users') and a.attname = 'id')
      or exists (select from pg_constraint c where c.conrelid = tbl and c.confrelid = to_regclass('data.users')
        and c.contype = 'f' and a.attnum = c.conkey[cardinality(c.conkey)]));
  execute format($$create policy tenant on %s to agentry_api using (
    (app_id, sandbox_id, case
      when (select string_to_array(nullif(current_setting('app.ended', true), ''), ',')) && array[%s] then null
      when (select current_setting('app.org_id', true)) = '*' then '*'
      else org_id end)
    = (select t.app, t.sandbox, t.org from app.tenant() t))$$, tbl, above);
end $face$;

create or replace function app.wall(tbl regclass, grants text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $wall$
begin
  perform app.guard(tbl, grants);
  perform app.face(tbl);
  perform app.make_slices();
end $wall$;

create or replace function app.prove(app text, sandbox text, org text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare secret bytea;
begin
  select s.secret into secret from app.proof_secret s;
  perform set_config('app.app_id', app, true), set_config('app.sandbox_id', sandbox, true),
    set_config('app.org_id', org, true), set_config('app.proof', app.proof(secret, app, sandbox, org), true),
    set_config('app.ended', coalesce((select string_agg(e.id, ',') from app.endings e
      where e.app_id = app and e.sandbox_id = sandbox), ''), true),
    set_config('statement_timeout', '5s', true), set_config('lock_timeout', '2s', true);
end $$;

create or replace function app.check_sandbox(app text, sandbox text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  perform from data.sandboxes s where s.app_id = app and s.sandbox_id = sandbox and (s.expires_at <= now()) is not true;
  if not found then raise 'sandbox_expired' using errcode = 'AE401'; end if;
end $$;

alter table data.users add column ended_at timestamptz;
update data.apps set settings = settings - 'activity_retention_days' where settings ? 'activity_retention_days';
alter table data.apps add constraint apps_settings_check
             check (settings @? '$ ? (!exists (@.activity_retention_days)
               || (@.activity_retention_days >= 1 && @.activity_retention_days <= 3650 && @.activity_retention_days % 1 == 0))');
create index sandboxes_expires_at_idx on data.sandboxes (expires_at) where expires_at is not null;
create index token_families_expires_at_idx on data.token_families (expires_at);
create index tokens_expires_at_idx on data.tokens (expires_at);
create index idempotency_keys_created_at_idx on data.idempotency_keys (created_at);
revoke delete on data.tenants from agentry_api;
grant delete on data.sandboxes to agentry_api;
create policy ending on data.sandboxes for delete to agentry_api
  using ((app_id, '-', '*') = (select t.app, t.sandbox, t.org from app.tenant() t));

-- Whatever tables this database has by now, of whichever branch.
do $tables$
declare tbl regclass;
begin
  for tbl in select oid from pg_class where relnamespace = 'data'::regnamespace and relkind = 'r'
      and relname not in ('apps', 'sandboxes') loop
    execute format('drop policy tenant on %s', tbl);
    perform app.face(tbl);
  end loop;
  perform app.make_slices();
end $tables$;

create or replace function app.enter_token(app text, sandbox text, org text, usr text, jti text, roles text[], beside bytea default null)
returns boolean language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare t record;
begin
  if sandbox <> '-' then perform app.check_sandbox(app, sandbox); end if;
  select k.revoked_at is null and f.revoked_at is null and k.expires_at > now() as live,
         u.id is not null and u.ended_at is null and o.id is not null as is_user, u.role, o.status,
         k.last_used_at is null or k.last_used_at < now() - interval '1 minute' as stale
    into t
    from data.tokens k
    left join data.users u on (u.app_id, u.sandbox_id, u.org_id, u.id) = (k.app_id, k.sandbox_id, k.org_id, k.user_id)
    left join data.orgs o on (o.app_id, o.sandbox_id, o.id) = (k.app_id, k.sandbox_id, k.org_id)
    left join data.token_families f on (f.app_id, f.sandbox_id, f.id) = (k.app_id, k.sandbox_id, k.family_id)
   where k.app_id = app and k.sandbox_id = sandbox and k.org_id = org and k.id = jti and k.user_id = usr;
  if t.live is not true then raise 'token_revoked' using errcode = 'AE401'; end if;
  if not t.is_user then raise 'user_gone' using errcode = 'AE401'; end if;
  if t.status is distinct from 'active' and t.status is distinct from 'trialing' then
    raise 'org_suspended' using errcode = 'AE403';
  end if;
  if beside is not null then perform app.check_beside(app, sandbox, beside); end if;
  -- The role is read now, not when the token was made: a demotion takes effect on the next request.
  if (t.role = any (roles)) is not true then raise 'role' using errcode = 'AE403'; end if;
  perform app.prove(app, sandbox, org);
  perform set_config('app.org_role', case when t.role in ('owner', 'admin') then 'admin'
    when t.role in ('billing', 'viewer') then 'viewer' else t.role end, true);
  return t.stale;
end $$;

create or replace function app.enter_refresh(app text, sandbox text, org text, family text, beside bytea default null)
returns void language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare f record;
begin
  if sandbox <> '-' then perform app.check_sandbox(app, sandbox); end if;
  select o.status, s.revoked_at is null and s.expires_at > now() as live into f
    from data.token_families s
    join data.users u on (u.app_id, u.sandbox_id, u.org_id, u.id) = (s.app_id, s.sandbox_id, s.org_id, s.user_id)
      and u.ended_at is null
    join data.orgs o on (o.app_id, o.sandbox_id, o.id) = (s.app_id, s.sandbox_id, s.org_id)
   where s.app_id = app and s.sandbox_id = sandbox and s.org_id = org and s.id = family;
  if f.live is not true then raise 'token_revoked' using errcode = 'AE401'; end if;
  if f.status = 'suspended' then raise 'org_suspended' using errcode = 'AE403'; end if;
  if beside is not null then perform app.check_beside(app, sandbox, beside); end if;
  perform app.prove(app, sandbox, org);
end $$;

create or replace function app.enter_object(app text, sandbox text, org text, mac bytea) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac(concat_ws('.', 'object', app, sandbox, org), mac);
  perform from data.tenants t where t.app_id = app and t.sandbox_id = sandbox and t.org_id = org
     and not exists (select from app.endings e where e.app_id = app and e.sandbox_id = sandbox and e.id = org);
  if not found then raise 'object_gone' using errcode = 'AE401'; end if;
  if sandbox <> '-' then perform app.check_sandbox(app, sandbox); end if;
  perform app.prove(app, sandbox, org);
end $$;

create or replace function app.within(sandbox text, org text) returns void
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

create function app.check_root(mac bytea) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac('ready', mac);
end $$;
grant execute on function app.check_root to agentry_api;

create function app.finish(app text, sandbox text, ended text, most bigint) returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  kind text := (select e.kind from app.endings e where (e.app_id, e.sandbox_id, e.id) = (app, sandbox, ended));
  place text;
  deleted bigint := 0;
begin
  if kind = 'user' then
    deleted := app.slice_of_user(app, sandbox, ended, most);
    if deleted >= most then return deleted; end if;
    delete from data.users u where (u.app_id, u.sandbox_id, u.id) = (app, sandbox, ended);
  else
    -- Of a sandbox the orgs first, and its own rows last.
    for place in select t.org_id from data.tenants t where (t.app_id, t.sandbox_id) = (app, sandbox)
        and (kind = 'sandbox' or t.org_id = ended) order by t.org_id desc loop
      deleted := deleted + app.slice_of_tenant(app, sandbox, place, most - deleted);
      if deleted >= most then return deleted; end if;
      delete from data.tenants t where (t.app_id, t.sandbox_id, t.org_id) = (app, sandbox, place);
      deleted := deleted + 1;
    end loop;
  end if;
  delete from app.endings e where (e.app_id, e.sandbox_id, e.id) = (app, sandbox, ended);
  return deleted + 1;
end $$;

create function app.end_row() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare place text := case when tg_argv[0] = 'org' then old.id else '-' end;
begin
  -- Where its place is gone already, everything is: this delete is a part of that one.
  if tg_argv[0] <> 'user' then
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

-- What was unique in an app is free as soon as its row's org or user has ended, though the row is still there.
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
     and (e.app_id, e.sandbox_id) = (new.app_id, new.sandbox_id) and e.id in (a.org_id, a.user_id);
  return new;
end $$;
create trigger free_lookup_key before insert or update of lookup_key on data.agents for each row
  when (new.lookup_key is not null and current_setting('app.ended', true) <> '') execute function app.free_lookup_key();


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

create or replace function app.sweep() returns bigint
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

  with past as (
    delete from data.sandboxes where ctid = any (array(
      select ctid from data.sandboxes where expires_at < now() limit most - deleted)) returning app_id, sandbox_id
  )
  insert into app.endings (app_id, sandbox_id, id, kind) select app_id, sandbox_id, sandbox_id, 'sandbox' from past;
  get diagnostics n = row_count;
  deleted := deleted + n;

  for one in select e.app_id, e.sandbox_id, e.id from app.endings e order by e.ended_at loop
    exit when deleted >= most;
    deleted := deleted + app.finish(one.app_id, one.sandbox_id, one.id, most - deleted);
  end loop;

  for one in select t.app_id, t.sandbox_id, 'afe_' || app.id_at(now() - make_interval(
        days => coalesce((a.settings -> 'activity_retention_days')::integer, 400))) as oldest
      from data.tenants t join data.apps a on a.id = t.app_id where t.org_id = '-' loop
    exit when deleted >= most;
    delete from data.activity_feed_entries where ctid = any (array(
      select ctid from data.activity_feed_entries e
       where e.app_id = one.app_id and e.sandbox_id = one.sandbox_id and e.id < one.oldest limit most - deleted));
    get diagnostics n = row_count;
    deleted := deleted + n;
  end loop;
  return deleted;
end $$;
