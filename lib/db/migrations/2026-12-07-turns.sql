-- Nobody waits in a circle: what ends is held before it is deleted, a refresh holds its org and user before its sign-in, and
-- rows of an agent are counted behind a lock that isn't the agent's row.

drop function app.slice_from(regclass, text);
create function app.slice_from(tbl regclass, names name, rows text, one text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
  select format(e'  execute $d$select array(select %s.ctid from %s limit $4 for update of %1$s)$d$ into held\n', one, rows)
    || format(e'    using app, sandbox, id, ceil(greatest(0, most - deleted) / %s.0);\n'
    '  if cardinality(held) > 0 then execute $d$%s where ctid = any ($1)$d$ using held; end if;\n'
    '  deleted := deleted + cardinality(held) * %1$s;\n', case when names is null
      then (select 1 + count(*) from pg_constraint f where f.contype = 'f' and f.confrelid = tbl) else 1 end,
    case when names is null then format('delete from %s', tbl) else format('update %s set %I = null', tbl, names) end)
$$;

create or replace function app.make_slice(root text, deletes text) returns void
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

create or replace function app.make_slices() returns void
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

create or replace function app.finish(app text, sandbox text, ended text, most bigint) returns bigint
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

create or replace function app.rotate_token(app text, sandbox text, org text, family text, used integer, token text,
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

create or replace function app.at_most() returns trigger
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

select app.make_slices();
