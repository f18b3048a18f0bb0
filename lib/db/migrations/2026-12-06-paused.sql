-- A schedule that comes once and is paused is looked at when its instant passes, too: from then on it has expired, and says so.

alter table data.agent_schedules drop column due_at;
alter table data.agent_schedules add column due_at timestamptz
  generated always as (app.due_at(id, case when status = 'paused' then scheduled_at else next_run_at end, jitter_seconds)) stored;
create index agent_schedules_due_at_idx on data.agent_schedules (due_at) where due_at is not null;
create index agent_schedules_place_idx on data.agent_schedules (app_id, sandbox_id, org_id, due_at) where due_at is not null;
