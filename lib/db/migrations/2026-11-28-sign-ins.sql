-- Sign-ins: a token family learns how somebody came in, when, and when that ends for good; a browser's has no tokens.
-- A minted one, as all are that stand, has no time at which anybody proved who he is.
alter table data.token_families
  alter column token_id drop not null,
  add column method text not null default 'token' check (octet_length(method) between 1 and 40),
  add column carrier text not null default 'api' check (carrier in ('api', 'browser')),
  add column auth_time timestamptz,
  add column actor text check (octet_length(actor) <= 100),
  add column idle_s integer not null default 2592000,
  add column ends_at timestamptz,
  add column last_used_at timestamptz,
  add column user_agent text check (octet_length(user_agent) <= 512),
  add column details jsonb not null default '{}' check (octet_length(details::text) <= 8192),
  add constraint token_families_carrier_fits check ((carrier = 'browser') = (token_id is null));
update data.token_families set ends_at = greatest(expires_at, created_at + interval '365 days');
alter table data.token_families alter column ends_at set not null, alter column method drop default,
  alter column carrier drop default, alter column idle_s drop default;
alter table data.tokens add column auth_time timestamptz, add column actor text check (octet_length(actor) <= 100);
alter table data.users add column deactivated_at timestamptz;

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

-- How often something was tried of late, where that must be counted exactly or for an hour: keyed by a MAC of what is
-- counted. Read and written by the doors alone.
create table app.attempts (
  key       bytea primary key,
  count     integer not null,
  resets_at timestamptz not null
);
create index attempts_resets_at_idx on app.attempts (resets_at);

-- What minted and rotated tokens signs people in, too.
drop function app.mint_token(text, text, text, text, text, text, text, jsonb, integer, integer);
drop function app.rotate_token(text, text, text, text, integer, text, integer, integer);
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
     and p.id = coalesce(usr, pg_catalog.current_setting('app.person', true)) and p.deactivated_at is null
     and o.status <> 'suspended';
  if not found or cardinality(u.scopes) = 0 then return; end if;
  if u.is_system_user then
    if proven is not null then return; end if;
    family := null;
  else
    -- An app may shorten both, never stretch them.
    idle_s := least(idle_s, (u.session ->> (carrier || '_idle_seconds'))::integer);
    most_s := greatest(lifetime_s, least(most_s, (u.session ->> (carrier || '_absolute_seconds'))::integer));
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
create or replace function app.family_user(app text, sandbox text, org text, family text)
returns table (person data.users, org_name text, org_slug text)
language plpgsql stable set search_path = '' as $$
begin
  return query select u, o.name, o.slug from data.token_families f
    join data.users u on (u.app_id, u.sandbox_id, u.org_id, u.id) = (f.app_id, f.sandbox_id, f.org_id, f.user_id)
    join data.orgs o on (o.app_id, o.sandbox_id, o.id) = (f.app_id, f.sandbox_id, f.org_id)
   where f.app_id = app and f.sandbox_id = sandbox and (org = '*' or f.org_id = org) and f.id = family;
end $$;
grant execute on function app.family_user to agentry_api;

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

create or replace function app.enter_token(app text, sandbox text, org text, usr text, jti text, roles text[], beside bytea default null)
returns boolean language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare t record;
begin
  if sandbox <> '-' then perform app.check_sandbox(app, sandbox); end if;
  select k.revoked_at is null and f.revoked_at is null and k.expires_at > now() as live,
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

-- A refresh token was already proven by its MAC; that its sign-in, user and org are alive, only the database knows.
create or replace function app.enter_refresh(app text, sandbox text, org text, family text, beside bytea default null)
returns void language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare f record;
begin
  if sandbox <> '-' then perform app.check_sandbox(app, sandbox); end if;
  select o.status, s.revoked_at is null and s.expires_at > now() as live into f
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

create or replace function app.watch(watchers jsonb) returns table (n integer, code text, reason text)
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

create or replace function app.act_as(usr text, roles text[]) returns void
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

-- Deletes, in every tenant, a slice of what is past its time: at most so many rows, so that no other request waits for
-- it. Answers how many; 0 where nothing is left, or another does it at this moment. Idempotency keys after a day, tokens
-- and their families a month after they expired, what works once and counts of tries a day after theirs, sandboxes when they expire, what hangs on an org, sandbox, user or
-- agent that has ended, entries of the feed, calls of models, events, occurrences, runs, deliveries and receipts of
-- webhooks when their app keeps them no longer. Whoever calls it, and however often, deletes nothing else.
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
  delete from data.one_time_secrets where ctid = any (array(
    select ctid from data.one_time_secrets where expires_at < now() - interval '1 day' limit most - deleted));
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
        app.id_at(now() - make_interval(days => coalesce((a.settings #> '{retention_days,events}')::integer, 30))) as event,
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
       or exists (select from data.events e where e.app_id = t.app_id and e.sandbox_id = t.sandbox_id and e.id < 'evt_' || k.event)
       or exists (select from data.occurrences o
         where o.app_id = t.app_id and o.sandbox_id = t.sandbox_id and o.id < 'occ_' || k.occurrence)
       or exists (select from data.agent_routine_runs r
         where r.app_id = t.app_id and r.sandbox_id = t.sandbox_id and (r.id < 'arr_' || k.run or (r.id >= 'atr_' and r.id < 'atr_' || k.run)))
       or exists (select from data.webhook_deliveries d
         where d.app_id = t.app_id and d.sandbox_id = t.sandbox_id and d.id < 'whd_' || k.delivery)
       or exists (select from data.webhook_receipts d
         where d.app_id = t.app_id and d.sandbox_id = t.sandbox_id and d.id < 'whr_' || k.receipt) loop
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
    -- What is gone of an org's events, its head says: whoever pulls them is told of a gap.
    with past as (
      delete from data.events where ctid = any (array(
        select ctid from data.events e where e.app_id = one.app_id and e.sandbox_id = one.sandbox_id
          and e.id < 'evt_' || one.event and e.sequence is not null limit most - deleted))
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
       where o.app_id = one.app_id and o.sandbox_id = one.sandbox_id and o.id < 'occ_' || one.occurrence limit most - deleted));
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
