-- Migrations are known by their names, so that those of two people don't collide.
create table app.migrations (
  name       text collate "C" primary key,
  applied_at timestamptz not null default now()
);
grant select on app.migrations to agentry_api;
insert into app.migrations select '2026-11-21-first', applied_at from app.schema_versions;
drop table app.schema_versions;

-- A function is its owner's alone until it is granted, by name.
alter default privileges revoke execute on functions from public;

-- What the loop over a list of tables did, for one table.
create function app.wall(tbl regclass, grants text) returns void
language plpgsql volatile set search_path = '' as $wall$
declare
  own_rows text := $$
    app_id = (select current_setting('app.app_id', true))
    and sandbox_id = (select current_setting('app.sandbox_id', true))
    and (org_id = (select current_setting('app.org_id', true))
      or (select current_setting('app.org_id', true)) = '*')$$;
begin
  execute format('alter table %s enable row level security, force row level security', tbl);
  execute format('create policy tenant on %s using (%s) with check (%2$s)', tbl, own_rows);
  execute format('grant %s on %s to agentry_api', grants, tbl);
end $wall$;

create function app.must_reach(kind text, writable boolean) returns void
language plpgsql volatile set search_path = '' as $$
begin
  if writable is null then raise '%', kind using errcode = 'AE404'; end if;
  if not writable then raise 'read_only %', kind using errcode = 'AE403'; end if;
end $$;
grant execute on function app.must_reach to agentry_api;

create function app.enter_object(app text, sandbox text, org text) returns void
language plpgsql volatile set search_path = '' as $$
begin
  perform set_config('app.app_id', app, true), set_config('app.sandbox_id', sandbox, true), set_config('app.org_id', org, true);
  perform from data.tenants t where t.app_id = app and t.sandbox_id = sandbox and t.org_id = org;
  if not found then raise 'object_gone' using errcode = 'AE401'; end if;
  if sandbox <> '-' then perform app.check_sandbox(app, sandbox); end if;
end $$;
grant execute on function app.enter_object to agentry_api;
