-- Single sign-on of an org: its connection to a provider, who is who there, and the last tries.
-- `role_source`: whose word the role is. What a provider says changes only what a provider has said.
alter table data.users add column if not exists role_source text not null default 'manual'
  check (role_source in ('manual', 'sso', 'scim'));

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
  primary key (app_id, sandbox_id, id),
  constraint sso_connections_owner_key unique (app_id, sandbox_id, org_id, id),
  -- One of an org.
  constraint sso_connections_org_key unique (app_id, sandbox_id, org_id),
  constraint sso_connections_mappings_check check (octet_length(attribute_mapping::text) + octet_length(role_mapping::text) <= 32768),
  constraint sso_connections_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
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

-- The last tries to sign in, as an admin reads them. `refusal`: what was wrong; null of one that went well.
create table data.sso_attempts (
  id            text collate "C" not null,
  app_id        text collate "C" not null,
  sandbox_id    text collate "C" not null,
  org_id        text collate "C" not null,
  connection_id text collate "C" not null,
  refusal       text check (octet_length(refusal) <= 2000),
  subject       text check (octet_length(subject) <= 2000),
  created_at    timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint sso_attempts_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade,
  constraint sso_attempts_connection_fkey foreign key (app_id, sandbox_id, org_id, connection_id)
    references data.sso_connections (app_id, sandbox_id, org_id, id) on delete cascade
);
create index sso_attempts_connection_idx on data.sso_attempts (app_id, sandbox_id, org_id, connection_id, id);
select app.wall('data.sso_attempts', 'select, insert, delete');

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

-- Writes a try down, and lets go of all but the last fifty.
create function app.note_sso_attempt(app text, sandbox text, org text, attempt text, connection text, subject text, refusal text)
returns setof text language sql volatile set search_path = '' as $$
  delete from data.sso_attempts a
   where a.app_id = app and a.sandbox_id = sandbox and a.org_id = org and a.connection_id = connection
     and a.id <= (select b.id from data.sso_attempts b where b.app_id = app and b.sandbox_id = sandbox and b.org_id = org
       and b.connection_id = connection order by b.id desc offset 49 limit 1);
  insert into data.sso_attempts (app_id, sandbox_id, org_id, id, connection_id, subject, refusal)
    select app, sandbox, org, attempt, c.id, left(subject, 500), left(refusal, 1000) from data.sso_connections c
     where c.app_id = app and c.sandbox_id = sandbox and c.org_id = org and c.id = connection
    returning id
$$;
grant execute on function app.note_sso_attempt to agentry_api;

-- Takes what a provider has said of somebody, once: uses up the request that it answers and the assertion's own id, finds or
-- makes the user, and parks who it is for the browser that asked. `said`: connection, request and assertion (hashes, in hex;
-- the second may be null), ends (of the assertion), subject, email (as a key), email_verified, name, role (what the groups
-- map to), parked (what the finish is to know), user, identity, attempt and entry (new ids). Answers why it refused: null,
-- where all is well.
create function app.take_sso(app text, sandbox text, org text, said jsonb) returns table (refusal text)
language plpgsql volatile set search_path = '' as $$
declare
  c data.sso_connections;
  asked data.one_time_secrets;
  u data.users;
  known boolean;
  mapped text;
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
      refusal := case
        when said ->> 'email' is null then 'no_email'
        when said ->> 'email_verified' = 'false' then 'unverified_email'
        when (said ->> 'public_mail')::boolean or not app.vouches(app, sandbox, org, split_part(said ->> 'email', '@', 2)) then 'foreign_domain'
        when u.id is null and not (c.auto_provision or c.jit_provisioning) then 'unknown_person'
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
    insert into data.users (app_id, sandbox_id, org_id, id, email, name, role, role_source)
      values (app, sandbox, org, said ->> 'user', said ->> 'email', said ->> 'name', mapped, 'sso')
      on conflict do nothing returning * into u;
    if not found then refusal := 'address_taken'; end if;
    insert into data.activity_feed_entries (app_id, sandbox_id, org_id, id, kind, title, user_id, readers, metadata)
      select app, sandbox, org, said ->> 'entry', 'user.created', 'User created: ' || coalesce(u.name, u.id), u.id,
        array['user:' || u.id], jsonb_build_object('actor', null, 'sso', c.id) where refusal is null;
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
        (said -> 'parked') || jsonb_build_object('return_to', asked.payload -> 'return_to', 'max_s', c.session_max_s),
        now() + interval '5 minutes');
    update data.sso_connections s set status = 'active', revision = s.revision + 1, updated_at = now()
     where s.app_id = app and s.sandbox_id = sandbox and s.org_id = org and s.id = c.id and s.status = 'untested';
  end if;
  perform app.note_sso_attempt(app, sandbox, org, said ->> 'attempt', c.id, said ->> 'subject', refusal);
  return next;
end $$;
grant execute on function app.take_sso to agentry_api;

-- Ends what a provider signs out: the sign-ins of a person (its NameID), or of these sessions of theirs. Each message once, by
-- its hash: sent again, it would end what came after. Answers whether it was the first time.
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
       and f.details ->> 'connection' = connection and f.details #>> '{name_id,value}' = person
       and (cardinality(sessions) = 0 or f.details ->> 'session_index' = any (sessions))
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
  select method in ('saml', 'oidc', 'token', 'oauth', 'device') or not exists (select from data.sso_connections c
    where c.app_id = app and c.sandbox_id = sandbox and c.org_id = org and c.status = 'enforced'
      and not usr = any (c.break_glass))
$$;
grant execute on function app.lets_in to agentry_api;

-- Signs a user of an org in: `said` has method, carrier ('api' or 'browser'), access_lifetime_s, and whether it proves who it
-- is (auth_time), with user_agent, actor and details. `usr` null: whom the door found. `granted` is by role. A program gets
-- an access token, and unless it is a system user's a family for its refresh token; a browser a family alone. Nothing
-- where there is no such user, it has no org, is deactivated, has nothing to grant, or the org is suspended.
create or replace function app.sign_in(app text, sandbox text, org text, usr text, token text, family text, entry text,
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
