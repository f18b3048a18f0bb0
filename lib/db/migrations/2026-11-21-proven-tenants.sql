-- Row security believed what the settings said; now it believes a proof, which only a door makes.
create table app.proof_secret (secret bytea not null);
insert into app.proof_secret
  select sha256(convert_to(concat(gen_random_uuid(), gen_random_uuid(), gen_random_uuid()), 'UTF8'));

create function app.proof(app text, sandbox text, org text) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return encode(sha256((select s.secret from app.proof_secret s)
    || int4send(pg_backend_pid()) || timestamptz_send(transaction_timestamp())
    || convert_to(array[app, sandbox, org]::text, 'UTF8')), 'hex');
end $$;

create function app.prove(app text, sandbox text, org text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  perform set_config('app.app_id', app, true), set_config('app.sandbox_id', sandbox, true),
    set_config('app.org_id', org, true), set_config('app.proof', app.proof(app, sandbox, org), true);
end $$;

create function app.tenant(out app text, out sandbox text, out org text)
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
begin
  app := current_setting('app.app_id', true);
  sandbox := current_setting('app.sandbox_id', true);
  org := current_setting('app.org_id', true);
  if (current_setting('app.proof', true) = app.proof(app, sandbox, org)) is not true then
    app := null; sandbox := null; org := null;
  end if;
end $$;
grant execute on function app.tenant to agentry_api;

create function app.guard(tbl regclass, grants text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  execute format('alter table %s enable row level security, force row level security', tbl);
  execute format('create policy owner on %s to agentry_owner using (true)', tbl);
  execute format('grant %s on %s to agentry_api', grants, tbl);
end $$;

create or replace function app.wall(tbl regclass, grants text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $wall$
begin
  perform app.guard(tbl, grants);
  execute format($$create policy tenant on %s to agentry_api using (
    (app_id, sandbox_id, case when (select current_setting('app.org_id', true)) = '*' then '*' else org_id end)
    = (select t.app, t.sandbox, t.org from app.tenant() t))$$, tbl);
end $wall$;

-- Whatever tables this database has by now, of whichever branch.
do $tables$
declare tbl regclass;
begin
  drop policy operator on data.apps;
  for tbl in select oid from pg_class where relnamespace = 'data'::regnamespace and relkind in ('r', 'p') loop
    execute format('create policy owner on %s to agentry_owner using (true)', tbl);
    continue when tbl in ('data.apps'::regclass, 'data.sandboxes'::regclass);
    execute format('drop policy tenant on %s', tbl);
    execute format($$create policy tenant on %s to agentry_api using (
      (app_id, sandbox_id, case when (select current_setting('app.org_id', true)) = '*' then '*' else org_id end)
      = (select t.app, t.sandbox, t.org from app.tenant() t))$$, tbl);
  end loop;
end $tables$;
drop policy tenant on data.apps;
drop policy developer on data.apps;
drop policy tenant on data.sandboxes;
drop policy developer on data.sandboxes;
create policy tenant on data.apps for select to agentry_api using (id = (select t.app from app.tenant() t));
create policy developer on data.apps for update to agentry_api
  using ((id, '-', '*') = (select t.app, t.sandbox, t.org from app.tenant() t));
create policy tenant on data.sandboxes for select to agentry_api using (
  (app_id, sandbox_id) = (select t.app, t.sandbox from app.tenant() t)
  or (app_id, '-', '*') = (select t.app, t.sandbox, t.org from app.tenant() t));
create policy developer on data.sandboxes for insert to agentry_api
  with check ((app_id, sandbox_id, '*') = (select t.app, t.sandbox, t.org from app.tenant() t));
drop policy sweep on data.idempotency_keys;
drop policy sweep on data.tokens;
drop policy sweep on data.token_families;
drop policy sweep on data.sandboxes;
drop policy sweep on data.tenants;
drop function app.enter_sweep();

create or replace function app.check_beside(app text, sandbox text, beside bytea) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  perform from data.keys k where k.app_id = app and k.sandbox_id = sandbox and k.hash = beside
     and k.revoked_at is null and (k.expires_at is null or k.expires_at > now());
  if not found then raise 'key_unknown' using errcode = 'AE401'; end if;
end $$;
revoke execute on function app.check_beside from agentry_api;

create or replace function app.check_sandbox(app text, sandbox text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  perform from data.sandboxes s where s.app_id = app and s.sandbox_id = sandbox and s.expires_at <= now();
  if found then raise 'sandbox_expired' using errcode = 'AE401'; end if;
end $$;
revoke execute on function app.check_sandbox from agentry_api;

create or replace function app.enter_token(app text, sandbox text, org text, usr text, jti text, roles text[], beside bytea default null)
returns boolean language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare t record;
begin
  if sandbox <> '-' then perform app.check_sandbox(app, sandbox); end if;
  select k.revoked_at is null and f.revoked_at is null and k.expires_at > now() as live,
         u.id is not null as is_user, u.role, o.status,
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

create or replace function app.enter_key(app text, sandbox text, key_hash bytea, beside bytea default null)
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

create or replace function app.enter_refresh(app text, sandbox text, org text, family text, beside bytea default null)
returns void language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare f record;
begin
  if sandbox <> '-' then perform app.check_sandbox(app, sandbox); end if;
  select o.status, s.revoked_at is null and s.expires_at > now() as live into f
    from data.token_families s
    join data.users u on (u.app_id, u.sandbox_id, u.org_id, u.id) = (s.app_id, s.sandbox_id, s.org_id, s.user_id)
    join data.orgs o on (o.app_id, o.sandbox_id, o.id) = (s.app_id, s.sandbox_id, s.org_id)
   where s.app_id = app and s.sandbox_id = sandbox and s.org_id = org and s.id = family;
  if f.live is not true then raise 'token_revoked' using errcode = 'AE401'; end if;
  if f.status = 'suspended' then raise 'org_suspended' using errcode = 'AE403'; end if;
  if beside is not null then perform app.check_beside(app, sandbox, beside); end if;
  perform app.prove(app, sandbox, org);
end $$;

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

drop function app.enter_object(text, text, text);
create function app.enter_object(app text, sandbox text, org text, mac bytea) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac(concat_ws('.', 'object', app, sandbox, org), mac);
  perform from data.tenants t where t.app_id = app and t.sandbox_id = sandbox and t.org_id = org;
  if not found then raise 'object_gone' using errcode = 'AE401'; end if;
  if sandbox <> '-' then perform app.check_sandbox(app, sandbox); end if;
  perform app.prove(app, sandbox, org);
end $$;
grant execute on function app.enter_object to agentry_api;

create or replace function app.within(sandbox text, org text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare t record;
begin
  select * into t from app.tenant();
  if t.org = '*' and t.sandbox in ('-', sandbox) then
    perform app.prove(t.app, sandbox, org);
  else
    perform set_config('app.sandbox_id', '', true), set_config('app.org_id', '', true), set_config('app.proof', '', true);
  end if;
end $$;

create function app.sweep() returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  deleted bigint;
  total bigint := 0;
begin
  delete from data.idempotency_keys where created_at < now() - interval '24 hours';
  get diagnostics deleted = row_count;
  total := total + deleted;
  delete from data.tokens where expires_at < now() - interval '30 days';
  get diagnostics deleted = row_count;
  total := total + deleted;
  delete from data.token_families where expires_at < now() - interval '30 days';
  get diagnostics deleted = row_count;
  total := total + deleted;
  delete from data.tenants t using data.sandboxes s
   where (t.app_id, t.sandbox_id) = (s.app_id, s.sandbox_id) and s.expires_at < now();
  get diagnostics deleted = row_count;
  return total + deleted;
end $$;
grant execute on function app.sweep to agentry_api;

reset role;
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
set local role agentry_owner;
