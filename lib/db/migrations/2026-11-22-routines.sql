-- For a rule that the database alone can see before it writes: refuses, naming the field at fault, unless it holds.
create function app.must_hold(holds boolean, field text, fault text) returns void
language plpgsql volatile set search_path = '' as $$
begin
  if holds is not true then raise '%', fault using errcode = 'AE420', constraint = field; end if;
end $$;
grant execute on function app.must_hold to agentry_api;

create table data.agent_routines (
  id              text collate "C" not null,
  app_id          text collate "C" not null,
  sandbox_id      text collate "C" not null,
  org_id          text collate "C" not null,
  agent_id        text collate "C" not null,
  -- Who passes its access list beside whom that names. Gone, it lets in nobody more.
  user_id         text collate "C",
  name            text not null,
  description     text,
  lookup_key      text,
  status          text not null default 'draft' check (status in ('draft', 'active', 'paused')),
  trigger_context text not null default 'event' check (trigger_context in ('event', 'chat_session')),
  event_type      text,
  event_config    jsonb,
  schedule        text,
  -- The shortest time between two of the schedule's wall times.
  interval_s      integer,
  handler_type    text not null check (handler_type in ('workflow_graph', 'script', 'preset', 'chain')),
  config_id       text collate "C",
  script          text,
  preset_name     text,
  preset_config   jsonb,
  steps           jsonb not null default '[]',
  message_policy  jsonb,
  metadata        jsonb not null default '{}',
  acl             jsonb,
  readers         text[] generated always as (app.acl_principals(acl, '{read,write}')) stored,
  writers         text[] generated always as (app.acl_principals(acl, '{write}')) stored,
  created_at      timestamptz not null default now(),
  updated_at      timestamptz not null default now(),
  check ((schedule is null) = (interval_s is null)),
  constraint agent_routines_config_fits check (handler_type <> 'workflow_graph' or config_id is not null),
  constraint agent_routines_script_fits check (handler_type <> 'script' or script is not null or config_id is not null),
  constraint agent_routines_preset_name_fits check (handler_type <> 'preset' or preset_name is not null),
  constraint agent_routines_steps_fits check ((handler_type = 'chain') = (jsonb_array_length(steps) > 0)),
  -- Presets that one event alone starts: lib/routines/presets.ts says the same.
  constraint agent_routines_event_type_fits check (handler_type <> 'preset' or case preset_name
    when 'participate' then schedule is null and coalesce(event_type, 'thread.session.join') = 'thread.session.join'
      and coalesce(event_config, '{}') - 'thread.session.join' = '{}'
    when 'auto_memory_capture' then schedule is null and coalesce(event_type, 'thread.session.leave') = 'thread.session.leave'
      and coalesce(event_config, '{}') - 'thread.session.leave' = '{}'
    else true end),
  primary key (app_id, sandbox_id, id),
  constraint agent_routines_owner_key unique (app_id, sandbox_id, org_id, id),
  constraint agent_routines_lookup_key_key unique (app_id, sandbox_id, org_id, agent_id, lookup_key),
  constraint agent_routines_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade,
  constraint agent_routines_user_fkey foreign key (app_id, sandbox_id, org_id, user_id)
    references data.users (app_id, sandbox_id, org_id, id) on delete set null (user_id),
  constraint agent_routines_config_fkey foreign key (app_id, sandbox_id, org_id, config_id)
    references data.configs (app_id, sandbox_id, org_id, id)
);
create index agent_routines_agent_idx on data.agent_routines (app_id, sandbox_id, org_id, agent_id, id);
create index agent_routines_user_idx on data.agent_routines (app_id, sandbox_id, org_id, user_id) where user_id is not null;
create index agent_routines_config_idx on data.agent_routines (app_id, sandbox_id, org_id, config_id) where config_id is not null;
-- Presets of which an agent has one.
create unique index agent_routines_preset_name_once on data.agent_routines (app_id, sandbox_id, org_id, agent_id, preset_name)
  where handler_type = 'preset' and preset_name in ('participate', 'auto_memory_capture');
-- A thousand of them make 16 MB: what is longer stands in a config.
alter table data.agent_routines
  add constraint agent_routines_acl_check check (jsonb_array_length(acl -> 'grants') <= 200),
  add constraint agent_routines_size_check check (octet_length(jsonb_build_object('description', description,
    'event_config', event_config, 'script', script, 'preset_config', preset_config, 'steps', steps,
    'message_policy', message_policy, 'metadata', metadata, 'acl', acl)::text) <= 16384);
create trigger at_most before insert on data.agent_routines for each row execute function app.at_most('100');
select app.wall('data.agent_routines', 'select, insert, update, delete');

create table data.agent_routine_runs (
  id                  text collate "C" not null,
  app_id              text collate "C" not null,
  sandbox_id          text collate "C" not null,
  org_id              text collate "C" not null,
  agent_id            text collate "C" not null,
  -- Null once the routine is deleted. The access list that the routine had when the run began is the run's own.
  routine_id          text collate "C",
  -- For whom it runs.
  user_id             text collate "C",
  status              text not null default 'pending'
                      check (status in ('pending', 'running', 'completed', 'failed', 'skipped', 'cancelled')),
  event_id            text,
  idempotency_key     text collate "C",
  payload             jsonb not null default '{}',
  participants        jsonb,
  delivery            jsonb not null default '{"type": "none", "status": "not_requested"}',
  worker_status       text not null default 'queued'
                      check (worker_status in ('queued', 'executing', 'retrying', 'completed', 'discarded', 'cancelled')),
  attempt             integer not null default 0,
  max_attempts        integer not null default 3,
  duration_ms         integer,
  result              jsonb,
  structured_response jsonb,
  metadata            jsonb not null default '{}',
  acl                 jsonb,
  readers             text[] generated always as (app.acl_principals(acl, '{read,write}')) stored,
  writers             text[] generated always as (app.acl_principals(acl, '{write}')) stored,
  created_at          timestamptz not null default now(),
  updated_at          timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint agent_routine_runs_owner_key unique (app_id, sandbox_id, org_id, id),
  constraint agent_routine_runs_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade,
  constraint agent_routine_runs_routine_fkey foreign key (app_id, sandbox_id, org_id, routine_id)
    references data.agent_routines (app_id, sandbox_id, org_id, id) on delete set null (routine_id),
  constraint agent_routine_runs_user_fkey foreign key (app_id, sandbox_id, org_id, user_id)
    references data.users (app_id, sandbox_id, org_id, id) on delete set null (user_id)
);
create index agent_routine_runs_agent_idx on data.agent_routine_runs (app_id, sandbox_id, org_id, agent_id, id);
create index agent_routine_runs_routine_idx on data.agent_routine_runs (app_id, sandbox_id, org_id, routine_id, id);
create index agent_routine_runs_user_idx on data.agent_routine_runs (app_id, sandbox_id, org_id, user_id) where user_id is not null;
-- A key makes one run; what came to nothing leaves it free.
create unique index agent_routine_runs_idempotency_key_key
  on data.agent_routine_runs (app_id, sandbox_id, org_id, routine_id, idempotency_key)
  where idempotency_key is not null and status in ('pending', 'running', 'completed');
-- A page of a hundred makes 13 MB.
alter table data.agent_routine_runs
  add constraint agent_routine_runs_size_check check (octet_length(jsonb_build_object('payload', payload,
    'participants', participants, 'delivery', delivery, 'metadata', metadata, 'acl', acl)::text) <= 65536),
  add constraint agent_routine_runs_result_check
    check (octet_length(jsonb_build_array(result, structured_response)::text) <= 65536);
select app.wall('data.agent_routine_runs', 'select, insert, update, delete');
