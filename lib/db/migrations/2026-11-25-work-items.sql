-- Work items: what a run's graph hands to an agent, for whoever works for it outside. The run waits for one.
create table data.work_items (
  id               text collate "C" not null,
  app_id           text collate "C" not null,
  sandbox_id       text collate "C" not null,
  org_id           text collate "C" not null,
  agent_id         text collate "C" not null,
  -- Whose journal has the command.
  run_id           text collate "C" not null,
  command_id       text collate "C" not null,
  node_id          text not null,
  payload          jsonb not null default '{}',
  status           text not null default 'queued' check (status in ('queued', 'claimed', 'running', 'succeeded', 'failed')),
  attempt_count    integer not null default 0,
  -- Of whoever has it, a SHA-256: nobody who sees the row can act for it.
  lease_hash       bytea,
  lease_expires_at timestamptz,
  result           jsonb check (result is null or status = 'succeeded'),
  error            jsonb check (error is null or status = 'failed'),
  created_at       timestamptz not null default now(),
  updated_at       timestamptz not null default now(),
  check ((status in ('claimed', 'running')) = (lease_expires_at is not null)),
  primary key (app_id, sandbox_id, id),
  constraint work_items_command_key unique (app_id, sandbox_id, org_id, run_id, command_id),
  constraint work_items_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade,
  constraint work_items_run_fkey foreign key (app_id, sandbox_id, org_id, run_id)
    references data.agent_routine_runs (app_id, sandbox_id, org_id, id) on delete cascade
);
create index work_items_agent_idx on data.work_items (app_id, sandbox_id, org_id, agent_id, id);
create index work_items_open_idx on data.work_items (app_id, sandbox_id, org_id, agent_id, id)
  where status in ('queued', 'claimed', 'running');
-- As JSON is written here, with its blanks: a page of a hundred makes 10 MB.
alter table data.work_items
  add constraint work_items_payload_check check (octet_length(payload::text) <= 98304),
  add constraint work_items_outcome_check check (octet_length(jsonb_build_array(result, error)::text) <= 98304);
select app.wall('data.work_items', 'select, insert, update');

-- For which event a run waits: the first behind a number that has the name and these values, and that the run may read.
create table data.event_waits (
  id         text collate "C" not null,
  app_id     text collate "C" not null,
  sandbox_id text collate "C" not null,
  org_id     text collate "C" not null,
  run_id     text collate "C" not null,
  name       text not null,
  filters    jsonb not null check (octet_length(filters::text) <= 8192),
  -- The newest number that was given before.
  since      bigint not null,
  -- The event, when it has come: the run takes it, and the row goes.
  event_id   text,
  created_at timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint event_waits_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade,
  constraint event_waits_run_fkey foreign key (app_id, sandbox_id, org_id, run_id)
    references data.agent_routine_runs (app_id, sandbox_id, org_id, id) on delete cascade
);
create index event_waits_run_idx on data.event_waits (app_id, sandbox_id, org_id, run_id);
create index event_waits_name_idx on data.event_waits (app_id, sandbox_id, org_id, name);
create trigger at_most after insert on data.event_waits referencing new table as added
  for each statement execute function app.at_most_in_org('1000', 'event_waits');
select app.wall('data.event_waits', 'select, insert, update, delete');
