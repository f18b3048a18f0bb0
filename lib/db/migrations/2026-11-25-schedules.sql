-- When what was planned for an instant is due: later by up to so many seconds, as many for the same row and instant
-- whenever it is asked. lib/schedules/clock.ts says the same.
create function app.due_at(id text, planned_at timestamptz, jitter_seconds integer) returns timestamptz
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare x bigint := mod(floor(extract(epoch from planned_at) / 60)::bigint, 4294967296);
begin
  if planned_at is null or jitter_seconds = 0 then return planned_at; end if;
  for i in 1..length(id) loop x := mod(x * 31 + ascii(substr(id, i, 1)), 4294967296); end loop;
  x := mod(x * 1664525 + 1013904223, 4294967296);
  return planned_at + make_interval(secs => (x * (jitter_seconds + 1)) >> 32);
end $$;
grant execute on function app.due_at to agentry_api;

alter table data.agent_schedules
  add column overlap text not null default 'skip'
    check (overlap in ('skip', 'buffer_one', 'buffer_all', 'cancel_other', 'allow_all')),
  add column catchup text not null default 'one' check (catchup in ('none', 'one', 'all')),
  add column catchup_window_seconds integer not null default 3600 check (catchup_window_seconds between 10 and 31622400),
  add column jitter_seconds integer not null default 0 check (jitter_seconds between 0 and 3600),
  add column due_at timestamptz generated always as (app.due_at(id, next_run_at, jitter_seconds)) stored;
create index agent_schedules_due_at_idx on data.agent_schedules (due_at) where due_at is not null;
create index agent_schedules_place_idx on data.agent_schedules (app_id, sandbox_id, org_id, due_at) where due_at is not null;

create trigger at_most_in_org after insert on data.agent_schedules referencing new table as added
  for each statement execute function app.at_most_in_org('10000', 'schedules');

alter table data.agent_routines
  add column next_run_at timestamptz,
  add column due_at timestamptz,
  add column heard_since jsonb;
create index agent_routines_due_at_idx on data.agent_routines (due_at) where due_at is not null;
create index agent_routines_place_idx on data.agent_routines (app_id, sandbox_id, org_id, due_at) where due_at is not null;

-- What its schedule comes to next is the Scheduler's to say. From the instant of a change on, which `due_at` is until
-- then, the routine waits for it.
create function app.plan_routine() returns trigger
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare cron jsonb := coalesce(new.event_config -> 'schedule.cron', '{}');
begin
  new.heard_since := case when new.status = 'active' then
    app.heard_since(old.heard_since, array(select jsonb_object_keys(new.event_config)) || new.event_type) end;
  if new.status <> 'active' or new.schedule is null then
    new.next_run_at := null;
    new.due_at := null;
  elsif tg_op = 'INSERT' or (old.status, old.schedule, old.event_config -> 'schedule.cron' -> 'timezone')
      is distinct from (new.status, new.schedule, cron -> 'timezone') then
    new.next_run_at := null;
    new.due_at := now();
  elsif coalesce(new.next_run_at, old.next_run_at) is not null then
    new.due_at := app.due_at(new.id, new.next_run_at,
      case when cron @? '$.jitter_seconds ? (@ >= 0 && @ <= 3600 && @ % 1 == 0)' then (cron ->> 'jitter_seconds')::integer else 0 end);
  end if;
  return new;
end $$;
create trigger plan before insert or update of status, schedule, event_type, event_config, next_run_at on data.agent_routines
  for each row execute function app.plan_routine();
-- Those that are active have never been planned, nor reacted to anything: they do from now on.
update data.agent_routines set due_at = case when schedule is not null then now() end,
    heard_since = app.heard_since(null, array(select jsonb_object_keys(event_config)) || event_type)
  where status = 'active';

-- Occurrences: what a schedule, or a routine's, was planned for, and what came of it. Links to what they are of, and to
-- what they began, are no foreign keys: those may be gone.
create table data.occurrences (
  id            text collate "C" not null,
  app_id        text collate "C" not null,
  sandbox_id    text collate "C" not null,
  org_id        text collate "C" not null,
  -- Null: of an automation that acts as no agent.
  agent_id      text collate "C",
  schedule_id   text collate "C",
  routine_id    text collate "C",
  automation_id text collate "C",
  planned_at    timestamptz not null,
  -- Null: it hasn't begun. It waits, where its outcome is buffered or backfilled.
  fired_at      timestamptz,
  outcome       text not null
              check (outcome in ('fired', 'buffered', 'skipped_overlap', 'missed', 'suspended', 'cancelled', 'backfilled')),
  -- What it does where another is under way.
  overlap       text not null check (overlap in ('skip', 'buffer_one', 'buffer_all', 'cancel_other', 'allow_all')),
  session_id    text collate "C",
  run_id        text collate "C",
  created_at    timestamptz not null default now(),
  check (num_nonnulls(schedule_id, routine_id, automation_id) = 1),
  check (agent_id is not null or automation_id is not null),
  check ((fired_at is not null) = (coalesce(session_id, run_id) is not null)),
  primary key (app_id, sandbox_id, id),
  constraint occurrences_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade,
  constraint occurrences_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade
);
create index occurrences_agent_idx on data.occurrences (app_id, sandbox_id, org_id, agent_id);
-- An instant comes once.
create unique index occurrences_schedule_key on data.occurrences (app_id, sandbox_id, org_id, schedule_id, planned_at)
  where schedule_id is not null;
create unique index occurrences_routine_key on data.occurrences (app_id, sandbox_id, org_id, routine_id, planned_at)
  where routine_id is not null;
create index occurrences_of_schedule_idx on data.occurrences (app_id, sandbox_id, org_id, schedule_id, id) where schedule_id is not null;
create index occurrences_of_routine_idx on data.occurrences (app_id, sandbox_id, org_id, routine_id, id) where routine_id is not null;
create unique index occurrences_automation_key on data.occurrences (app_id, sandbox_id, org_id, automation_id, planned_at)
  where automation_id is not null;
-- What waits.
create index occurrences_waiting_idx
  on data.occurrences (app_id, sandbox_id, org_id, coalesce(schedule_id, routine_id, automation_id), planned_at)
  where fired_at is null and outcome in ('buffered', 'backfilled');
select app.wall('data.occurrences', 'select, insert, update');

-- What is under way for a schedule, or for a routine's.
create index agent_sessions_open_idx on data.agent_sessions (app_id, sandbox_id, org_id, schedule_id)
  where schedule_id is not null and status in ('pending', 'running', 'waiting');
create index agent_routine_runs_planned_idx on data.agent_routine_runs (app_id, sandbox_id, org_id, routine_id)
  where planned_at is not null and status in ('pending', 'running');

-- For the sweep: places where something is due within two minutes, or waits, each as likely as any other, so that one of
-- which there is always something holds up none.
create function app.due_places(mac bytea, most integer) returns setof data.tenants
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac('objects.sweep', mac);
  return query select d.app_id, d.sandbox_id, d.org_id from (
      select s.app_id, s.sandbox_id, s.org_id from data.agent_schedules s where s.due_at < now() + interval '2 minutes'
      union select r.app_id, r.sandbox_id, r.org_id from data.agent_routines r where r.due_at < now() + interval '2 minutes'
      union select a.app_id, a.sandbox_id, a.org_id from data.automations a where a.due_at < now() + interval '2 minutes'
      union select o.app_id, o.sandbox_id, o.org_id from data.occurrences o
        where o.fired_at is null and o.outcome in ('buffered', 'backfilled')) d
    where not exists (select from app.endings e where (e.app_id, e.sandbox_id) = (d.app_id, d.sandbox_id)
      and e.id in (d.sandbox_id, d.org_id))
    order by random() limit most;
end $$;
grant execute on function app.due_places to agentry_api;

-- Deletes, in every tenant, a slice of what is past its time: at most so many rows, so that no other request waits for
-- it. Answers how many; 0 where nothing is left, or another does it at this moment. Idempotency keys after a day, tokens
-- and their families a month after they expired, sandboxes when they expire, what hangs on an org, sandbox, user or
-- agent that has ended, entries of the feed, calls of models, events, occurrences and runs when their app keeps them no
-- longer. Whoever calls it, and however often, deletes nothing else.
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
        app.id_at(now() - make_interval(days => coalesce((a.settings #> '{retention_days,runs}')::integer, 90))) as run
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
         where r.app_id = t.app_id and r.sandbox_id = t.sandbox_id and (r.id < 'arr_' || k.run or (r.id >= 'atr_' and r.id < 'atr_' || k.run))) loop
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
  end loop;
  return deleted;
end $$;
