-- A proof costs one call less, and what is asked for most keeps its plans.
create function app.proof(secret bytea, app text, sandbox text, org text) returns text
language sql stable as $$
  select encode(sha256(secret || int4send(pg_backend_pid()) || timestamptz_send(transaction_timestamp())
    || convert_to(array[app, sandbox, org]::text, 'UTF8')), 'hex')
$$;
create or replace function app.prove(app text, sandbox text, org text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare secret bytea;
begin
  select s.secret into secret from app.proof_secret s;
  perform set_config('app.app_id', app, true), set_config('app.sandbox_id', sandbox, true),
    set_config('app.org_id', org, true), set_config('app.proof', app.proof(secret, app, sandbox, org), true),
    set_config('statement_timeout', '5s', true), set_config('lock_timeout', '2s', true);
end $$;
create or replace function app.tenant(out app text, out sandbox text, out org text)
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
declare secret bytea;
begin
  select s.secret into secret from app.proof_secret s;
  app := current_setting('app.app_id', true);
  sandbox := current_setting('app.sandbox_id', true);
  org := current_setting('app.org_id', true);
  if (current_setting('app.proof', true) = app.proof(secret, app, sandbox, org)) is not true then
    app := null; sandbox := null; org := null;
  end if;
end $$;
drop function app.proof(text, text, text);

create function app.mint_token(app text, sandbox text, org text, usr text, token text, family text, entry text,
  granted jsonb, access_lifetime_s integer, refresh_lifetime_s integer) returns setof data.tokens
language plpgsql volatile set search_path = '' as $$
declare
  u record;
  made data.tokens;
begin
  select p.org_id, p.is_system_user, array(select jsonb_array_elements_text(granted -> p.role)) as scopes into u
    from data.users p join data.orgs o on (o.app_id, o.sandbox_id, o.id) = (p.app_id, p.sandbox_id, p.org_id)
   where p.app_id = app and p.sandbox_id = sandbox and (org = '*' or p.org_id = org) and p.id = usr
     and o.status <> 'suspended';
  if not found or cardinality(u.scopes) = 0 then return; end if;
  if u.is_system_user then
    family := null;
  else
    insert into data.token_families
        (app_id, sandbox_id, org_id, id, user_id, scopes, access_lifetime_s, token_id, expires_at)
      values (app, sandbox, u.org_id, family, usr, u.scopes, access_lifetime_s, token,
        now() + make_interval(secs => greatest(refresh_lifetime_s, access_lifetime_s)));
  end if;
  insert into data.tokens (app_id, sandbox_id, org_id, id, user_id, family_id, scopes, expires_at)
    values (app, sandbox, u.org_id, token, usr, family, u.scopes, now() + make_interval(secs => access_lifetime_s))
    returning * into made;
  insert into data.activity_feed_entries (app_id, sandbox_id, org_id, id, kind, title, user_id, readers, metadata)
    values (app, sandbox, u.org_id, entry, 'token.created', 'Access token made', usr, array['user:' || usr],
      jsonb_build_object('actor', null, 'token', token));
  return next made;
end $$;
grant execute on function app.mint_token to agentry_api;

-- Rotates a refresh token, and answers the newest access token of its family. One conditional update decides: the
-- newest generation moves on and makes a token; the one before it, for a while, is an honest retry and gets the same
-- successor; anything older ends the sign-in and every token that came of it (RFC 9700 §4.14.2). Nothing where it did.
create function app.rotate_token(app text, sandbox text, org text, family text, used integer, token text,
  refresh_lifetime_s integer, grace_s integer) returns setof data.tokens
language plpgsql volatile set search_path = '' as $$
declare f data.token_families;
begin
  update data.token_families s set
    generation = case when s.generation = used then s.generation + 1 else s.generation end,
    token_id = case when s.generation = used then token else s.token_id end,
    rotated_at = case when s.generation = used then now() else s.rotated_at end,
    expires_at = case when s.generation = used
      then greatest(s.expires_at, now() + make_interval(secs => refresh_lifetime_s)) else s.expires_at end,
    revoked_at = case when s.generation = used
      or s.generation = used + 1 and s.rotated_at > now() - make_interval(secs => grace_s) then null else now() end
   where s.app_id = app and s.sandbox_id = sandbox and s.org_id = org and s.id = family
     and s.revoked_at is null and s.expires_at > now()
   returning * into f;
  if not found or f.revoked_at is not null then return; end if;
  if f.token_id = token then
    insert into data.tokens (app_id, sandbox_id, org_id, id, user_id, family_id, scopes, expires_at)
      values (app, sandbox, org, token, f.user_id, family, f.scopes, now() + make_interval(secs => f.access_lifetime_s));
  end if;
  return query select t.* from data.tokens t
    where t.app_id = app and t.sandbox_id = sandbox and t.org_id = org and t.id = f.token_id;
end $$;
grant execute on function app.rotate_token to agentry_api;

-- Whose sign-in a family is, and the names of the org.
create function app.family_user(app text, sandbox text, org text, family text)
returns table (person data.users, org_name text, org_slug text)
language plpgsql stable set search_path = '' as $$
begin
  return query select u, o.name, o.slug from data.token_families f
    join data.users u on (u.app_id, u.sandbox_id, u.org_id, u.id) = (f.app_id, f.sandbox_id, f.org_id, f.user_id)
    join data.orgs o on (o.app_id, o.sandbox_id, o.id) = (f.app_id, f.sandbox_id, f.org_id)
   where f.app_id = app and f.sandbox_id = sandbox and f.org_id = org and f.id = family;
end $$;
grant execute on function app.family_user to agentry_api;
