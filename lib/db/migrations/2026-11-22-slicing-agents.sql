-- Deleting an agent goes in slices, too.

alter table app.endings drop constraint endings_kind_check,
  add check (kind in ('org', 'sandbox', 'user', 'agent'));
alter table data.agents add column ended_at timestamptz;

create or replace function app.slice_from(tbl regclass, rows text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
  select format(e'  execute $d$delete from %s where ctid = any (array(select %s limit $4))$d$\n'
    '    using app, sandbox, id, ceil(greatest(0, most - deleted) / %s.0);\n'
    '  get diagnostics n = row_count;\n  deleted := deleted + n * %3$s;\n', tbl, rows,
    (select 1 + count(*) from pg_constraint f where f.contype = 'f' and f.confrelid = tbl))
$$;

create function app.make_slice(root text, deletes text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $make$
begin
  execute format($$create or replace function app.%I(app text, sandbox text, id text, most bigint) returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp as $slice$
declare
  deleted bigint := 0;
  n bigint;
begin
%s  return deleted;
end $slice$ $$, 'slice_of_' || root, deletes);
end $make$;

create or replace function app.make_slices() returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $make$
declare
  made text;
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
  select string_agg(app.slice_from(tbl, format('ctid from %s where (app_id, sandbox_id, org_id) = ($1, $2, $3)', tbl::regclass)),
      '' order by depth desc, tbl::regclass::text collate "C") into made from deepest;
  perform app.make_slice('tenant', made);
  -- Of a user or an agent: what hangs on it, and on that, by whatever foreign keys cascade.
  foreach root in array array['user', 'agent'] loop
    with recursive walk (tbl, path, rows) as (
      select c.oid, array[c.oid], format('%s t1', c.oid::regclass) collate "C" from pg_class c
       where c.oid = to_regclass(format('data.%ss', root))
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
        cardinality(path), rows)), '' order by depth desc, rows collate "C") into made
      from deepest where depth > 1;
    perform app.make_slice(root, made);
  end loop;
end $make$;

create or replace function app.face(tbl regclass) returns void
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

create or replace function app.finish(app text, sandbox text, ended text, most bigint) returns bigint
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
  elsif kind = 'agent' then
    deleted := app.slice_of_agent(app, sandbox, ended, most);
    if deleted >= most then return deleted; end if;
    delete from data.agents a where (a.app_id, a.sandbox_id, a.id) = (app, sandbox, ended);
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

create or replace function app.end_row() returns trigger
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

create or replace function app.free_lookup_key() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  update data.agents a set lookup_key = null from app.endings e
   where (a.app_id, a.sandbox_id, a.lookup_key) = (new.app_id, new.sandbox_id, new.lookup_key)
     and (e.app_id, e.sandbox_id) = (new.app_id, new.sandbox_id) and e.id in (a.org_id, a.user_id, a.id);
  return new;
end $$;

create function app.free_computer_lookup_key() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  update data.agent_computers c set lookup_key = null from app.endings e, data.agents a
   where (c.app_id, c.sandbox_id, c.lookup_key) = (new.app_id, new.sandbox_id, new.lookup_key)
     and (a.app_id, a.sandbox_id, a.id) = (c.app_id, c.sandbox_id, c.agent_id)
     and (e.app_id, e.sandbox_id) = (new.app_id, new.sandbox_id) and e.id in (c.org_id, a.user_id, a.id);
  return new;
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
    -- What came to be used while it ended stays hidden until that goes; it holds up no other.
    begin
      deleted := deleted + app.finish(one.app_id, one.sandbox_id, one.id, most - deleted);
    exception when foreign_key_violation then null;
    end;
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

create trigger ending after update of ended_at on data.agents for each row execute function app.end_row('agent');
create trigger free_lookup_key before insert or update of lookup_key on data.agent_computers for each row
  when (new.lookup_key is not null and current_setting('app.ended', true) <> '') execute function app.free_computer_lookup_key();

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
