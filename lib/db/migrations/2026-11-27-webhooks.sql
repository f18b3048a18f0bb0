-- Events are told to the world: webhook endpoints, and what is delivered to them.

alter table app.erasures
  drop constraint erasures_kind_check,
  add constraint erasures_kind_check
    check (kind in ('agent_session', 'event_subscription', 'agent', 'agent_routine_run', 'webhook_endpoint'));

-- Webhook endpoints: addresses that are told of events, an org's, or the app's, which hear of every org's. What is on its way
-- to one, its Durable Object holds.
create table data.webhook_endpoints (
  id                 text collate "C" not null,
  app_id             text collate "C" not null,
  sandbox_id         text collate "C" not null,
  org_id             text collate "C" not null,
  url                text not null,
  -- Names of events, or beginnings of names that end in `*`.
  event_names        text[] not null,
  ordering           text not null default 'none' check (ordering in ('none', 'strict')),
  status             text not null default 'enabled' check (status in ('enabled', 'disabled')),
  -- The position behind which its events are heard: by position, since a clock may step back.
  heard_since        bigint not null default nextval('data.events_position_seq'),
  -- The newest number of its org when it was last enabled: what has a lower one it has missed, or had. The app's hears of many.
  heard_after        bigint not null default 0,
  disabled_reason    text check (disabled_reason in ('asked', 'failing', 'gone')),
  disabled_at        timestamptz,
  -- Of the newest event of its org that everybody had when it was disabled: what follows, it may have missed.
  disabled_after     bigint,
  -- Since when no attempt has succeeded; null while the last one has.
  failing_since      timestamptz,
  -- How much of that was told: lib/webhooks/rules.ts has the stages.
  failing_told       integer not null default 0,
  -- The secrets that sign, newest first, and what holds them to this row: lib/auth/vault.ts.
  sealed             bytea not null,
  tag                bytea not null,
  -- Until then the second one signs, too.
  overlap_expires_at timestamptz,
  created_at         timestamptz not null default now(),
  updated_at         timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint webhook_endpoints_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
create index webhook_endpoints_org_idx on data.webhook_endpoints (app_id, sandbox_id, org_id, id);
create trigger at_most after insert on data.webhook_endpoints referencing new table as added
  for each statement execute function app.at_most_in_org('20', 'webhook_endpoints');
create trigger leave_objects after delete on data.webhook_endpoints referencing old table as gone
  for each statement execute function app.leave_objects('webhook_endpoint');
select app.wall('data.webhook_endpoints', 'select, insert, update, delete');

-- What was, or is to be, delivered to them. No foreign key leads to the endpoint, whose end would then take as long as there
-- are many: they are reached through it alone, and go when they were kept long enough.
create table data.webhook_deliveries (
  id              text collate "C" not null,
  app_id          text collate "C" not null,
  sandbox_id      text collate "C" not null,
  org_id          text collate "C" not null,
  endpoint_id     text collate "C" not null,
  event_id        text collate "C" not null,
  -- Where the event happened: to the app's endpoints, in any of its orgs.
  event_org_id    text collate "C" not null,
  event_name      text not null,
  sequence        bigint not null,
  status          text not null check (status in ('pending', 'delivered', 'dead')),
  -- The newest, each with what came of it.
  attempts        jsonb not null constraint webhook_deliveries_attempts_check check (octet_length(attempts::text) <= 131072),
  attempt_count   integer not null,
  next_attempt_at timestamptz,
  -- Of the newest that its object has told: an older telling undoes none.
  revision        integer not null,
  created_at      timestamptz not null default now(),
  updated_at      timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint webhook_deliveries_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
create index webhook_deliveries_endpoint_idx on data.webhook_deliveries (app_id, sandbox_id, org_id, endpoint_id, id);
create index webhook_deliveries_event_idx on data.webhook_deliveries (app_id, sandbox_id, org_id, endpoint_id, event_id);
select app.wall('data.webhook_deliveries', 'select, insert, update');

-- For the Dispatcher of a place: who is to be told of what happens there. The app's own are among them, which no org's wall
-- lets through: so it shows a MAC, and gets no more than what to listen for.
create function app.webhooks_of(app text, sandbox text, org text, mac bytea)
returns table (id text, org_id text, event_names text[], heard_since bigint, heard_after bigint)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac(concat_ws('.', 'webhooks', app, sandbox, org), mac);
  return query select w.id, w.org_id, w.event_names, w.heard_since, w.heard_after
     from data.webhook_endpoints w
     where w.app_id = app and w.sandbox_id = sandbox and w.org_id in (org, '-') and w.status = 'enabled';
end $$;
grant execute on function app.webhooks_of to agentry_api;

-- Whether the app of the tenant that is proven has such an endpoint: then what happens in any of its orgs is to be told.
create function app.has_webhooks() returns boolean
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
  select exists (select from app.tenant() t join data.webhook_endpoints w on w.app_id = t.app and w.sandbox_id = t.sandbox
    where w.org_id = '-' and w.status = 'enabled')
$$;
grant execute on function app.has_webhooks to agentry_api;

alter table data.apps
  drop constraint apps_retention_days_check,
  add constraint apps_retention_days_check check (settings @? '$ ?
  ((!exists (@.retention_days.events)
      || (@.retention_days.events >= 1 && @.retention_days.events <= 3650 && @.retention_days.events % 1 == 0))
    && (!exists (@.retention_days.occurrences)
      || (@.retention_days.occurrences >= 1 && @.retention_days.occurrences <= 3650 && @.retention_days.occurrences % 1 == 0))
    && (!exists (@.retention_days.runs)
      || (@.retention_days.runs >= 1 && @.retention_days.runs <= 3650 && @.retention_days.runs % 1 == 0))
    && (!exists (@.retention_days.webhook_deliveries)
      || (@.retention_days.webhook_deliveries >= 1 && @.retention_days.webhook_deliveries <= 3650
        && @.retention_days.webhook_deliveries % 1 == 0)))');

-- Deletes, in every tenant, a slice of what is past its time: at most so many rows, so that no other request waits for
-- it. Answers how many; 0 where nothing is left, or another does it at this moment. Idempotency keys after a day, tokens
-- and their families a month after they expired, sandboxes when they expire, what hangs on an org, sandbox, user or
-- agent that has ended, entries of the feed, calls of models, events, occurrences, runs and deliveries of webhooks when their
-- app keeps them no longer. Whoever calls it, and however often, deletes nothing else.
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
        app.id_at(now() - make_interval(days => coalesce((a.settings #> '{retention_days,webhook_deliveries}')::integer, 30))) as delivery
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
         where d.app_id = t.app_id and d.sandbox_id = t.sandbox_id and d.id < 'whd_' || k.delivery) loop
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
  end loop;
  return deleted;
end $$;
