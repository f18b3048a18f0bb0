-- People sign in by what is mailed to them, or by a password. Whoever isn't signed in is a visitor: a door of theirs takes a
-- MAC of the Worker, and opens the org of the one person who has proven an address. A door that refuses after it has counted
-- returns, and proves nothing: raising would take the count back.

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
  constraint passwords_pkey primary key (app_id, sandbox_id, org_id, user_id),
  constraint passwords_user_fkey foreign key (app_id, sandbox_id, org_id, user_id)
    references data.users (app_id, sandbox_id, org_id, id) on delete cascade
);
select app.wall('data.passwords', 'select, insert, update, delete');

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

-- Whose an address is, and whether that person may sign in: `state` is live, deactivated, suspended (the org) or no_org;
-- nulls where it is nobody's.
create function app.account(app text, sandbox text, email text, out id text, out org_id text, out state text, out org_name text)
language sql stable set search_path = pg_catalog, pg_temp as $$
  select u.id, u.org_id, case when u.deactivated_at is not null then 'deactivated' when o.id is null then 'no_org'
      when o.status = 'suspended' then 'suspended' else 'live' end, o.name
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
  return jsonb_build_object('state', a.state, 'org_name', a.org_name, 'open', coalesce(auth ->> 'sign_up', 'closed') <> 'closed',
    'app_name', (select p.name from data.apps p where p.id = app));
end $$;
grant execute on function app.ask_by_mail to agentry_api;

-- Makes the user who registers with a proven address, and its org: `company`, that of the address's domain, made where it is
-- free; `personal`, one of its own. Answers whether there is one now.
create function app.sign_up(app text, sandbox text, email text, profile jsonb, auth jsonb, ids jsonb) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  host text := split_part(lower(email), '@', 2);
  company boolean := auth ->> 'sign_up' = 'company';
  made text := ids ->> 'org';
  word text := lower(substr(made, 5, 12));
  known text;
  state text;
begin
  if coalesce(auth ->> 'sign_up', 'closed') = 'closed' then return false; end if;
  if company then
    select g.id, g.status into known, state from data.org_domains d
      join data.orgs g on (g.app_id, g.sandbox_id, g.id) = (d.app_id, d.sandbox_id, d.org_id)
     where d.app_id = app and d.sandbox_id = sandbox and d.domain = host and d.verified_at is not null
       and not exists (select from app.endings e where e.app_id = app and e.sandbox_id = sandbox and e.id = g.id);
    -- Anybody may have an address at a public provider.
    if known is null and (profile ->> 'public_provider')::boolean then return false; end if;
    if state = 'suspended' then return false; end if;
  end if;
  if known is null then
    insert into data.tenants (app_id, sandbox_id, org_id) values (app, sandbox, made);
    insert into data.orgs (app_id, sandbox_id, id, name, slug, domain)
      values (app, sandbox, made, case when company then host else coalesce(profile ->> 'name', split_part(email, '@', 1)) end,
        case when company and host ~ '^[a-z0-9.-]{2,80}$' then replace(host, '.', '-') || '-' || word else 'p-' || word end,
        case when company then host else 'p-' || word || '.personal.invalid' end);
    insert into data.activity_feed_entries (app_id, sandbox_id, org_id, id, kind, title, readers, metadata)
      values (app, sandbox, made, ids ->> 'org_entry', 'org.created', 'Org created: somebody signed up', '{}', '{}');
  end if;
  insert into data.users (app_id, sandbox_id, org_id, id, email, name, alias, role)
    values (app, sandbox, coalesce(known, made), ids ->> 'user', email, profile ->> 'name', profile ->> 'alias',
      case when known is null then 'owner' else 'member' end);
  insert into data.activity_feed_entries (app_id, sandbox_id, org_id, id, kind, title, user_id, readers, metadata)
    values (app, sandbox, coalesce(known, made), ids ->> 'user_entry', 'user.created', 'User created: signed up', ids ->> 'user',
      array['user:' || (ids ->> 'user')], jsonb_build_object('actor', ids ->> 'user'));
  return true;
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
  return jsonb_build_object('user', person, 'created', created);
end $$;
grant execute on function app.enter_by_mail to agentry_api;

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
