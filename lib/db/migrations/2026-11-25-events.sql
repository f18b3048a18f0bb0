-- Events: what happened in an org, for whoever reacts to it. Written by the statement that made it happen; numbered after
-- the commit, by one writer at a time.
create table data.events (
  id              text collate "C" not null,
  app_id          text collate "C" not null,
  sandbox_id      text collate "C" not null,
  org_id          text collate "C" not null,
  -- Taken while the row that it tells of is held, so that what causes comes before what it causes. It has gaps.
  position        bigint not null generated always as identity,
  -- Its number in its org, from 1, without a gap; null until it is given.
  sequence        bigint,
  name            text not null,
  payload         jsonb not null,
  -- What it is about and who may read it, as the feed's entries have it: links that are no foreign keys.
  agent_id        text collate "C",
  user_id         text collate "C",
  readers         text[],
  -- The routines whose runs led to it, oldest first.
  causes          text[] collate "C" not null default '{}',
  idempotency_key text,
  created_at      timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint events_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
create unique index events_sequence_key on data.events (app_id, sandbox_id, org_id, sequence) where sequence is not null;
create index events_position_idx on data.events (app_id, sandbox_id, org_id, position) where sequence is null;
alter table data.events add constraint events_payload_check check (octet_length(payload::text) <= 49152);
select app.wall('data.events', 'select, insert, update');

-- How far the events of an org are numbered, and handed to all who react to them. Whoever numbers holds the row.
create table data.event_heads (
  app_id     text collate "C" not null,
  sandbox_id text collate "C" not null,
  org_id     text collate "C" not null,
  id         text collate "C" not null generated always as (org_id) stored,
  -- The newest number that was given.
  sequence   bigint not null default 0,
  -- Of the newest event that everybody has.
  delivered  bigint not null default 0,
  constraint event_heads_pkey primary key (app_id, sandbox_id, org_id),
  constraint event_heads_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
select app.wall('data.event_heads', 'select, insert, update');

-- Runs of routines, which now run.
alter table data.agent_routine_runs
  add column event_name text not null default 'agentroutine.invoked',
  add column planned_at timestamptz,
  add column causes text[] collate "C" not null default '{}',
  add column dedupe_key text,
  add column admitted_at timestamptz,
  add column sequence integer not null default 0,
  add column started_at timestamptz,
  add column completed_at timestamptz,
  add column look_at timestamptz default now() + interval '45 seconds';
-- One cause makes one run.
create unique index agent_routine_runs_event_key on data.agent_routine_runs (app_id, sandbox_id, org_id, routine_id, event_id)
  where event_id is not null;
create unique index agent_routine_runs_planned_at_key
  on data.agent_routine_runs (app_id, sandbox_id, org_id, routine_id, planned_at) where planned_at is not null;
-- What is not over.
create index agent_routine_runs_open_idx on data.agent_routine_runs (app_id, sandbox_id, org_id, agent_id, id)
  where status in ('pending', 'running');
create index agent_routine_runs_look_at_idx on data.agent_routine_runs (look_at)
  where look_at is not null and status in ('pending', 'running');
create index agent_routine_runs_dedupe_idx on data.agent_routine_runs (app_id, sandbox_id, org_id, routine_id, dedupe_key, created_at)
  where dedupe_key is not null;

alter table data.agent_sessions
  add column routine_run_id text collate "C",
  add column schedule_id text collate "C",
  add column causes text[] collate "C" not null default '{}';
create index agent_sessions_routine_run_idx on data.agent_sessions (app_id, sandbox_id, org_id, routine_run_id)
  where routine_run_id is not null;
create index agent_sessions_schedule_idx on data.agent_sessions (app_id, sandbox_id, org_id, schedule_id, id)
  where schedule_id is not null;
