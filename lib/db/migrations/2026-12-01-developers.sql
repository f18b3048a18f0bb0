-- Developers sign in, too, on our own pages, by a code; and what a sandbox mails is kept, and never sent.

-- Who develops an app, as the operator's command says. Production's alone: a sandbox has keys of its own.
create table data.developers (
  id         text collate "C" not null,
  app_id     text collate "C" not null,
  sandbox_id text collate "C" not null default '-' check (sandbox_id = '-'),
  org_id     text collate "C" not null default '-' check (org_id = '-'),
  email      text not null check (octet_length(email) <= 254),
  email_key  text generated always as (lower(email)) stored,
  created_at timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint developers_owner_key unique (app_id, sandbox_id, org_id, id),
  constraint developers_email_key unique (app_id, sandbox_id, org_id, email_key),
  constraint developers_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
select app.wall('data.developers', 'select');

-- Where a developer is signed in: a browser's cookie names the row. With the row it ends, and so it does with the developer.
create table data.developer_sessions (
  id           text collate "C" not null,
  app_id       text collate "C" not null,
  sandbox_id   text collate "C" not null default '-' check (sandbox_id = '-'),
  org_id       text collate "C" not null default '-' check (org_id = '-'),
  developer_id text collate "C" not null,
  idle_s       integer not null,
  last_used_at timestamptz,
  -- When it ends unless it is used before; using it moves that on by idle_s, up to ends_at.
  expires_at   timestamptz not null,
  ends_at      timestamptz not null,
  created_at   timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint developer_sessions_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade,
  constraint developer_sessions_developer_fkey foreign key (app_id, sandbox_id, org_id, developer_id)
    references data.developers (app_id, sandbox_id, org_id, id) on delete cascade
);
create index developer_sessions_developer_idx on data.developer_sessions (app_id, sandbox_id, org_id, developer_id);
create index developer_sessions_expires_at_idx on data.developer_sessions (expires_at);
select app.wall('data.developer_sessions', 'select, update, delete');

-- What a sandbox would have mailed: its developer reads it there, codes and all.
create table data.sandbox_mails (
  id         text collate "C" not null,
  app_id     text collate "C" not null,
  sandbox_id text collate "C" not null check (sandbox_id <> '-'),
  org_id     text collate "C" not null check (org_id = '-'),
  "to"       text not null check (octet_length("to") <= 1000),
  subject    text not null check (octet_length(subject) <= 2000),
  text       text not null check (octet_length(text) <= 32768),
  created_at timestamptz not null default now(),
  constraint sandbox_mails_pkey primary key (app_id, sandbox_id, org_id, id),
  constraint sandbox_mails_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
create index sandbox_mails_created_at_idx on data.sandbox_mails (created_at);
select app.wall('data.sandbox_mails', 'select, insert, delete');

-- Keeps a code that is going to be mailed to whom may be a developer of the app; an address has one that lives. The same for
-- every address, ten an hour by each of `counted`. It has counted, so it returns: whose the address is, or how many seconds to wait.
create function app.ask_developer(app text, email text, hash bytea, code text, counted bytea[], mac bytea) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  called text;
  wait integer := 0;
  one bytea;
begin
  perform app.check_mac(concat_ws('.', 'ask_developer', app, email), mac);
  select a.name into called from data.apps a where a.id = app;
  if not found then raise 'app' using errcode = 'AE404'; end if;
  foreach one in array counted loop wait := greatest(wait, app.attempt(one, 10, '1 hour')); end loop;
  if wait > 0 then return jsonb_build_object('wait', wait); end if;
  insert into data.one_time_secrets (app_id, sandbox_id, org_id, kind, hash, payload, expires_at)
    values (app, '-', '-', 'developer', hash, jsonb_build_object('email', email, 'code', code), now() + interval '10 minutes')
    on conflict on constraint one_time_secrets_pkey do update set
      payload = excluded.payload, expires_at = excluded.expires_at, attempts = 0, used_at = null, created_at = now();
  return jsonb_build_object('app_name', called, 'known', exists (select from data.developers d
    where d.app_id = app and d.sandbox_id = '-' and d.org_id = '-' and d.email_key = lower(ask_developer.email)));
end $$;
grant execute on function app.ask_developer to agentry_api;

-- Uses up a code, and signs in the developer to whom it went, by a row of that id: of many right ones at once, one. `codes` are
-- what it may be kept as; five tries, counted by the statement that looks. Null for every flaw alike. No tenant is open behind it.
create function app.sign_in_developer(app text, hash bytea, codes text[], session text, mac bytea) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  o record;
  made record;
begin
  perform app.check_mac(concat_ws('.', 'sign_in_developer', app, encode(hash, 'hex'), session), mac);
  update data.one_time_secrets s set attempts = s.attempts + 1,
      used_at = case when s.payload ->> 'code' = any (codes) then now() end
   where s.app_id = app and s.sandbox_id = '-' and s.org_id = '-' and s.kind = 'developer' and s.hash = sign_in_developer.hash
     and s.used_at is null and s.expires_at > now() and s.attempts < 5
   returning s.used_at, s.payload into o;
  if o.used_at is null then return null; end if;
  insert into data.developer_sessions (app_id, id, developer_id, idle_s, expires_at, ends_at)
    select d.app_id, session, d.id, 604800, now() + interval '7 days', now() + interval '30 days' from data.developers d
     where d.app_id = app and d.sandbox_id = '-' and d.org_id = '-' and d.email_key = lower(o.payload ->> 'email')
    returning developer_id, ends_at into made;
  if not found then return null; end if;
  return jsonb_build_object('developer', made.developer_id, 'ends_at', made.ends_at);
end $$;
grant execute on function app.sign_in_developer to agentry_api;

-- A developer's cookie, which is the sign-in's id under a MAC. It opens what a secret key of production opens.
create function app.enter_developer(app text, developer text, session text, mac bytea) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare s record;
begin
  perform app.check_mac(concat_ws('.', 'developer', app, developer, session), mac);
  select d.last_used_at is null or d.last_used_at < now() - interval '1 minute' as stale into s
    from data.developer_sessions d where d.app_id = app and d.sandbox_id = '-' and d.id = session
     and d.developer_id = developer and d.expires_at > now();
  if not found then raise 'token_revoked' using errcode = 'AE401'; end if;
  perform app.prove(app, '-', '*');
  return s.stale;
end $$;
grant execute on function app.enter_developer to agentry_api;

-- Deletes, in every tenant, a slice of what is past its time: at most so many rows, so that no other request waits for
-- it. Answers how many; 0 where nothing is left, or another does it at this moment. Idempotency keys after a day, tokens
-- and their families a month after they expired, what works once and counts of tries a day after theirs, sign-ins of
-- developers and sandboxes when they expire, mails of sandboxes after a week, what hangs on an org, sandbox, user or agent
-- that has ended, entries of the feed, calls of models, events, occurrences, runs, deliveries and receipts of
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
  delete from data.developer_sessions where ctid = any (array(
    select ctid from data.developer_sessions where expires_at < now() limit most - deleted));
  get diagnostics n = row_count;
  deleted := deleted + n;
  delete from data.sandbox_mails where ctid = any (array(
    select ctid from data.sandbox_mails where created_at < now() - interval '7 days' limit most - deleted));
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
