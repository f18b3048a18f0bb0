create table data.agent_schedules (
  id              text collate "C" not null,
  app_id          text collate "C" not null,
  sandbox_id      text collate "C" not null,
  org_id          text collate "C" not null,
  agent_id        text collate "C" not null,
  schedule_type   text not null check (schedule_type in ('once', 'recurring')),
  cron_expression text,
  scheduled_at    timestamptz,
  timezone        text not null,
  instructions    text not null,
  max_runs        integer check (max_runs > 0),
  run_count       integer not null default 0,
  status          text not null default 'active' check (status in ('active', 'paused', 'completed', 'cancelled', 'expired')),
  -- Of an active one; the others have no next.
  next_run_at     timestamptz,
  last_run_at     timestamptz,
  metadata        jsonb not null default '{}',
  created_at      timestamptz not null default now(),
  updated_at      timestamptz not null default now(),
  constraint agent_schedules_cron_expression_fits check ((schedule_type = 'recurring') = (cron_expression is not null)),
  constraint agent_schedules_scheduled_at_fits check ((schedule_type = 'once') = (scheduled_at is not null)),
  constraint agent_schedules_max_runs_fits check (run_count <= max_runs),
  constraint agent_schedules_next_run_at_check check ((status = 'active') = (next_run_at is not null)),
  primary key (app_id, sandbox_id, id),
  constraint agent_schedules_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade
);
create index agent_schedules_agent_idx on data.agent_schedules (app_id, sandbox_id, org_id, agent_id, id);
-- A hundred of them make 6.5 MB.
alter table data.agent_schedules
  add constraint agent_schedules_size_check check (octet_length(instructions) + octet_length(metadata::text) <= 65536);
create trigger at_most before insert on data.agent_schedules for each row execute function app.at_most('100');
select app.wall('data.agent_schedules', 'select, insert, update, delete');
