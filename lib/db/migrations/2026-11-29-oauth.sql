-- OAuth: programs of others ask an app's users for access, as clients that its developer has registered.

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

alter table data.apps add constraint apps_third_party_oauth_check check (settings @? '$ ?
  (!exists (@.auth.third_party_oauth) || @.auth.third_party_oauth == true || @.auth.third_party_oauth == false)');

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

-- A client that is deleted takes with it what it was granted: no door opens for that any more.
create or replace function app.enter_token(app text, sandbox text, org text, usr text, jti text, roles text[], beside bytea default null)
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

create or replace function app.enter_refresh(app text, sandbox text, org text, family text, beside bytea default null)
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
