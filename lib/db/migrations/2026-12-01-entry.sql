-- How people come in: by a login token, and by registering with a password. An org knows whether it is one person's own.
alter table data.orgs
  add column kind text not null default 'company' check (kind in ('company', 'personal')),
  -- Whose own it is, who may be gone since.
  add column owner_user_id text collate "C",
  add constraint orgs_owner_fits check (kind = 'personal' or owner_user_id is null);
update data.orgs o set kind = 'personal', owner_user_id = (select min(u.id) from data.users u
    where (u.app_id, u.sandbox_id, u.org_id) = (o.app_id, o.sandbox_id, o.id) and u.role = 'owner')
 where o.domain = o.slug || '.personal.invalid' and o.slug ~ '^p-[0-9a-z]{12}$';

-- Whether it was chosen by who has proven the address of the account since, or before.
alter table data.passwords add column proven boolean not null default true;

-- Whose an address is, and whether that person may sign in: `state` is live, deactivated, suspended (the org), no_org, or
-- sso, where the org lets nobody in by what is mailed; nulls where it is nobody's.
drop function app.account(text, text, text);
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

-- Keeps what is going to be mailed, a code or a link, as a secret of the app's own: whose the address is, is asked again when
-- it comes back. The same for every address. Ten an hour by each of `counted`. Answers whom the mail would reach, or how many
-- seconds to wait, or what is refused. Of one hash, as an address has for its code, the newest counts.
create or replace function app.ask_by_mail(app text, sandbox text, beside bytea, method text, email text, hash bytea, payload jsonb,
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
create or replace function app.sign_up(app text, sandbox text, email text, profile jsonb, auth jsonb, ids jsonb) returns boolean
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
create or replace function app.enter_by_mail(app text, sandbox text, beside bytea, method text, message text, hash bytea, codes text[],
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

-- Whether an org lets somebody in by a method: one that enforces SSO, by that alone, break-glass aside. What the app's own key
-- mints, and what a sign-in that stands has led to, isn't a way to come in.
create or replace function app.lets_in(app text, sandbox text, org text, usr text, method text) returns boolean
language sql stable set search_path = '' as $$
  select method in ('saml', 'oidc', 'token', 'login_token', 'oauth', 'device') or not exists (select from data.sso_connections c
    where c.app_id = app and c.sandbox_id = sandbox and c.org_id = org and c.status = 'enforced'
      and not usr = any (c.break_glass))
$$;
grant execute on function app.lets_in to agentry_api;

-- Uses up a login token, as app.enter_once does, and leaves what it says of the sign-in to app.sign_in_as_kept.
create function app.enter_login(app text, sandbox text, org text, beside bytea, hash bytea, mac bytea) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare kept jsonb := app.enter_once(app, sandbox, org, 'login_token', hash, mac);
begin
  if beside is not null then perform app.check_beside(app, sandbox, beside); end if;
  perform set_config('app.kept', coalesce(kept - 'user', '{}')::text, true);
end $$;
grant execute on function app.enter_login to agentry_api;

-- Signs in whom the door found, as what was kept of it says: its method, whether that proved who it is, and who acts.
create function app.sign_in_as_kept(app text, sandbox text, org text, usr text, token text, family text, entry text,
  granted jsonb, said jsonb) returns table (made data.tokens, signed_in data.token_families)
language plpgsql volatile set search_path = '' as $$
begin
  return query select * from app.sign_in(app, sandbox, org, usr, token, family, entry, granted,
    said || coalesce(nullif(pg_catalog.current_setting('app.kept', true), ''), '{}')::jsonb);
end $$;
grant execute on function app.sign_in_as_kept to agentry_api;
