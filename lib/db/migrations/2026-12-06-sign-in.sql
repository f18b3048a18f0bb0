-- Who signs in, or is minted a token, is found by the index, however many users the app has.

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
     -- As a query of its own: of a bare coalesce row-level security asks no index, and every user of the app would be read.
     and p.id = (select coalesce(usr, pg_catalog.current_setting('app.person', true))) and p.deactivated_at is null
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
