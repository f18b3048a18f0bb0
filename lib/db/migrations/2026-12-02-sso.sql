-- An org's SSO learns to fetch metadata, to bring people in, to hear of logouts by OpenID, to tell of refusals, and to warn of
-- certificates that end. Of connections that were set before, it warns when they are set again.
alter table data.sso_connections
  add column idp_metadata_url text check (octet_length(idp_metadata_url) <= 2000),
  add column certificate_ends timestamptz[] not null default '{}' check (cardinality(certificate_ends) <= 4),
  add column warn_at          timestamptz;
create index sso_connections_warn_at_idx on data.sso_connections (warn_at) where warn_at is not null;
alter table data.sso_attempts
  add column refusals integer not null default 0,
  add column told_at  timestamptz;

drop function app.note_sso_attempt;
-- Writes a try down, and lets go of all but the last fifty. Of what was refused the feed tells the admins, and the person where
-- it is known: once a minute a subject, with how often it was since it last did.
create function app.note_sso_attempt(app text, sandbox text, org text, attempt text, connection text, subject text,
  refusal text, entry text) returns void
language plpgsql volatile set search_path = '' as $$
declare
  named text := left(subject, 500);
  usr text;
  last record;
  tells boolean;
begin
  -- One after the other: of two at once, the second sees what the first has told.
  perform from data.sso_connections c
    where c.app_id = app and c.sandbox_id = sandbox and c.org_id = org and c.id = connection for update;
  if not found then return; end if;
  select a.refusals, a.told_at into last from data.sso_attempts a
   where a.app_id = app and a.sandbox_id = sandbox and a.org_id = org and a.connection_id = connection
     and a.refusal is not null and a.subject is not distinct from named order by a.told_at desc, a.refusals desc limit 1;
  tells := refusal is not null and (last.told_at > now() - interval '1 minute') is not true;
  insert into data.sso_attempts (app_id, sandbox_id, org_id, id, connection_id, subject, refusal, refusals, told_at)
    values (app, sandbox, org, attempt, connection, named, left(refusal, 1000),
      case when refusal is null or tells then 0 else last.refusals + 1 end, case when tells then now() else last.told_at end);
  delete from data.sso_attempts a
   where a.app_id = app and a.sandbox_id = sandbox and a.org_id = org and a.connection_id = connection
     and a.id <= (select b.id from data.sso_attempts b where b.app_id = app and b.sandbox_id = sandbox and b.org_id = org
       and b.connection_id = connection order by b.id desc offset 50 limit 1);
  if not tells then return; end if;
  select i.user_id into usr from data.sso_identities i
   where i.app_id = app and i.sandbox_id = sandbox and i.org_id = org and i.connection_id = connection
     and i.subject = note_sso_attempt.subject;
  insert into data.activity_feed_entries (app_id, sandbox_id, org_id, id, kind, level, title, user_id, readers, metadata)
    values (app, sandbox, org, entry, 'sign_in.refused', 'warning', 'A sign-in by SSO was refused', usr,
      case when usr is null then array[]::text[] else array['user:' || usr] end,
      jsonb_build_object('actor', null, 'sso', connection, 'attempt', attempt, 'subject', named,
        'refusals', coalesce(last.refusals, 0) + 1));
end $$;
grant execute on function app.note_sso_attempt to agentry_api;

-- Takes what a provider has said of somebody, once: uses up the request that it answers and the assertion's own id, finds or
-- makes the user, and parks who it is for the browser that asked. `said`: connection, request and assertion (hashes, in hex;
-- the second may be null), ends (of the assertion), subject, email (as a key), email_verified, name, role (what the groups
-- map to), bring (a MAC, in hex, by which the person of the address who is in no org is brought into this one), parked (what the
-- finish is to know), user, identity, attempt and entry (new ids). Answers why it refused: null, where all is well.
create or replace function app.take_sso(app text, sandbox text, org text, said jsonb) returns table (refusal text)
language plpgsql volatile set search_path = '' as $$
declare
  c data.sso_connections;
  asked data.one_time_secrets;
  u data.users;
  known boolean;
  brought boolean;
  mapped text;
  invited text;
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
      -- No provider makes an owner, whoever was invited as one.
      select i.role into invited from data.org_invitations i where i.app_id = app and i.sandbox_id = sandbox and i.org_id = org
        and i.email_key = said ->> 'email' and i.expires_at > now() and i.role <> 'owner';
      refusal := case
        when said ->> 'email' is null then 'no_email'
        when said ->> 'email_verified' = 'false' then 'unverified_email'
        when (said ->> 'public_mail')::boolean or not app.vouches(app, sandbox, org, split_part(said ->> 'email', '@', 2)) then 'foreign_domain'
        when u.id is null and invited is null and not (c.auto_provision or c.jit_provisioning) then 'unknown_person'
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
    -- Who has the address and is in no org comes in as they are; of one who is in another, nothing is seen.
    perform app.bring_in(app, sandbox, org, 'sso', said ->> 'email', decode(said ->> 'bring', 'hex'));
    update data.users p set role = coalesce(invited, mapped), name = coalesce(p.name, said ->> 'name'), updated_at = now()
     where p.app_id = app and p.sandbox_id = sandbox and p.org_id = org and p.email_key = said ->> 'email' returning * into u;
    brought := found;
    if not brought then
      insert into data.users (app_id, sandbox_id, org_id, id, email, name, role, role_source)
        values (app, sandbox, org, said ->> 'user', said ->> 'email', said ->> 'name', coalesce(invited, mapped),
          case when invited is null then 'sso' else 'manual' end)
        on conflict do nothing returning * into u;
      if not found then refusal := 'address_taken'; end if;
    end if;
    insert into data.activity_feed_entries (app_id, sandbox_id, org_id, id, kind, title, user_id, readers, metadata)
      select app, sandbox, org, said ->> 'entry', case when brought then 'user.updated' else 'user.created' end,
        case when brought then 'User brought in: ' else 'User created: ' end || coalesce(u.name, u.id), u.id,
        array['user:' || u.id], jsonb_build_object('actor', null, 'sso', c.id) where refusal is null;
    insert into data.events (app_id, sandbox_id, org_id, id, name, payload, user_id, readers, causes)
      select app, sandbox, org, said #>> '{events,0}', case when brought then 'user.updated' else 'user.created' end,
        jsonb_build_object('id', u.id), u.id, array['user:' || u.id], '{}' where refusal is null;
    with accepted as (
      delete from data.org_invitations i where i.app_id = app and i.sandbox_id = sandbox and i.org_id = org
        and i.email_key = said ->> 'email' and invited is not null and refusal is null returning i.id)
    insert into data.events (app_id, sandbox_id, org_id, id, name, payload, user_id, readers, causes)
      select app, sandbox, org, said #>> '{events,1}', 'invitation.accepted', jsonb_build_object('id', a.id), u.id, '{}', '{}'
        from accepted a;
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
        (said -> 'parked') || jsonb_build_object('return_to', asked.payload -> 'return_to',
          'redirect_uri', asked.payload -> 'redirect_uri', 'max_s', c.session_max_s),
        now() + interval '5 minutes');
    update data.sso_connections s set status = 'active', revision = s.revision + 1, updated_at = now()
     where s.app_id = app and s.sandbox_id = sandbox and s.org_id = org and s.id = c.id and s.status = 'untested';
  end if;
  perform app.note_sso_attempt(app, sandbox, org, said ->> 'attempt', c.id, said ->> 'subject', refusal, said ->> 'entry');
  return next;
end $$;

-- Ends what a provider signs out: the sign-ins of a person (SAML's NameID, OIDC's sub), or of these sessions of theirs. OpenID
-- may name a session alone: `person` is null then. Each message once, by its hash: sent again, it would end what came after.
-- Answers whether it was the first time.
create or replace function app.end_sso(app text, sandbox text, org text, connection text, message text, ends timestamptz, person text,
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
       and f.details ->> 'connection' = connection
       and (person is null or coalesce(f.details #>> '{name_id,value}', f.details ->> 'sub') = person)
       and case when cardinality(sessions) = 0 then person is not null
         -- Of a person's sign-in whose session the provider never named, the person says enough.
         else coalesce(coalesce(f.details ->> 'session_index', f.details ->> 'sid') = any (sessions), person is not null) end
    returning f.user_id
  )
  select array_agg(distinct e.user_id) into whose from ended e;
  insert into data.activity_feed_entries (app_id, sandbox_id, org_id, id, kind, title, user_id, readers, metadata)
    select app, sandbox, org, entry, 'sign_in.ended', 'Signed out by the provider', w.id, array['user:' || w.id],
        jsonb_build_object('actor', null, 'sso', connection)
      from unnest(whose[:1]) w (id);
  return true;
end $$;

-- Brings a user who is in no org into the one whose provider says that the address is one of its people's. Whoever can only
-- ask this database takes nobody in by a MAC that a Worker made for this org and this address.
create or replace function app.bring_in(app text, sandbox text, org text, source text, email text, mac bytea) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac(concat_ws('.', 'bring', app, sandbox, org, source, lower(email)), mac);
  update data.users u set org_id = org, role = 'member', role_source = source
   where u.app_id = app and u.sandbox_id = sandbox and u.org_id = '-' and u.email_key = lower(bring_in.email) and u.ended_at is null
     and not u.is_system_user
     -- Made by SCIM again, somebody revives; signing in revives nobody.
     and (source = 'scim' or u.deactivated_at is null);
end $$;

-- When the owners are told next that certificates end: 30, 7 and 1 days before each.
create function app.next_warning(ends timestamptz[]) returns timestamptz
language sql stable set search_path = '' as $$
  select min(e.at - before.days) from unnest(ends) e (at),
      unnest(array[interval '30 days', interval '7 days', interval '1 day']) before (days)
   where e.at - before.days > now()
$$;
grant execute on function app.next_warning to agentry_api;

-- Connections whose owners are to be told that a certificate ends, each claimed for good: told once, if at all. A sandbox's
-- mail is never sent.
create function app.claim_sso_warnings(mac bytea, most integer)
returns table (app_id text, org_id text, id text, app_name text, org_name text, ends_at timestamptz, owners text[])
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac('objects.sweep', mac);
  return query with due as (
      update data.sso_connections c set warn_at = app.next_warning(c.certificate_ends)
       where c.ctid = any (array(select b.ctid from data.sso_connections b where b.warn_at <= now()
         order by b.warn_at limit most for no key update skip locked))
      returning c.*)
    select d.app_id, d.org_id, d.id, a.name, o.name, soon.ends_at,
        array(select u.email from data.users u where (u.app_id, u.sandbox_id, u.org_id) = (d.app_id, d.sandbox_id, d.org_id)
          and u.role = 'owner' and u.email is not null and u.deactivated_at is null and u.ended_at is null order by u.id limit 20)
      from due d join data.apps a on a.id = d.app_id
        join data.orgs o on (o.app_id, o.sandbox_id, o.id) = (d.app_id, d.sandbox_id, d.org_id)
        -- Of one that has ended meanwhile every login says so.
        cross join lateral (select min(e) as ends_at from unnest(d.certificate_ends) e where e > now()) soon
     where soon.ends_at < now() + interval '30 days' and d.sandbox_id = '-' and d.provider = 'saml' and d.status <> 'incomplete' and o.status <> 'suspended'
       and not exists (select from app.endings e where (e.app_id, e.sandbox_id) = (d.app_id, d.sandbox_id) and e.id = d.org_id);
end $$;
grant execute on function app.claim_sso_warnings to agentry_api;
