-- Automations, which are configs: what of one starts it stands here, beside its config. Their runs are routines' runs in
-- all but whose they are.
create table data.automations (
  -- Its config's.
  id              text collate "C" not null,
  app_id          text collate "C" not null,
  sandbox_id      text collate "C" not null,
  org_id          text collate "C" not null,
  status          text not null default 'draft' check (status in ('draft', 'active', 'paused', 'archived')),
  automation_type text not null default 'trigger' check (automation_type in ('trigger', 'scheduled', 'invoked')),
  -- Whom it acts as, which may be gone: then nothing starts it.
  agent_id        text collate "C",
  user_id         text collate "C",
  -- What it runs. Null where a draft names what isn't there.
  config_id       text collate "C",
  event_type      text,
  event_config    jsonb,
  schedule        text,
  -- All that its config says.
  said            jsonb not null default '{}',
  next_run_at     timestamptz,
  due_at          timestamptz,
  heard_since     jsonb,
  updated_at      timestamptz not null default now(),
  check (config_id is not null or status in ('draft', 'archived')),
  primary key (app_id, sandbox_id, id),
  constraint automations_config_fkey foreign key (app_id, sandbox_id, org_id, id)
    references data.configs (app_id, sandbox_id, org_id, id) on delete cascade
);
create index automations_config_idx on data.automations (app_id, sandbox_id, org_id, id);
-- Who reacts to an org's events, in one look.
create index automations_listening_idx on data.automations (app_id, sandbox_id, org_id)
  where status = 'active' and automation_type = 'trigger';
create index automations_due_at_idx on data.automations (due_at) where due_at is not null;
create index automations_place_idx on data.automations (app_id, sandbox_id, org_id, due_at) where due_at is not null;
alter table data.automations
  add constraint automations_said_check check (octet_length(said::text) <= 49152);
create trigger plan before insert or update of status, schedule, event_type, event_config, next_run_at on data.automations
  for each row execute function app.plan_routine();
create trigger at_most after insert on data.automations referencing new table as added
  for each statement execute function app.at_most_in_org('1000', 'automations');
select app.wall('data.automations', 'select, insert, update');

-- A run is a routine's, or an automation's; its agent is then the one that it acts as, where there is one.
alter table data.agent_routine_runs
  alter column agent_id drop not null,
  add column automation_id text collate "C",
  add constraint agent_routine_runs_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade,
  add constraint agent_routine_runs_of_check
    check (case when automation_id is null then agent_id is not null else routine_id is null end);
create index agent_routine_runs_automation_idx on data.agent_routine_runs (app_id, sandbox_id, org_id, automation_id, id)
  where automation_id is not null;
-- A key makes one run of an automation, whatever came of it; and so does a cause.
create unique index agent_routine_runs_automation_key_key
  on data.agent_routine_runs (app_id, sandbox_id, org_id, automation_id, idempotency_key)
  where automation_id is not null and idempotency_key is not null;
create unique index agent_routine_runs_automation_event_key
  on data.agent_routine_runs (app_id, sandbox_id, org_id, automation_id, event_id)
  where automation_id is not null and event_id is not null;
create unique index agent_routine_runs_automation_planned_at_key
  on data.agent_routine_runs (app_id, sandbox_id, org_id, automation_id, planned_at)
  where automation_id is not null and planned_at is not null;
create index agent_routine_runs_automation_dedupe_idx
  on data.agent_routine_runs (app_id, sandbox_id, org_id, automation_id, dedupe_key, created_at)
  where automation_id is not null and dedupe_key is not null;

alter table data.tool_calls alter column agent_id drop not null;

select app.make_slices();
