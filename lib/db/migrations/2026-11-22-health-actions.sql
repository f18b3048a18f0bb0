create table data.agent_health_actions (
  id             text collate "C" not null,
  app_id         text collate "C" not null,
  sandbox_id     text collate "C" not null,
  org_id         text collate "C" not null,
  agent_id       text collate "C" not null,
  source         text not null check (source in ('setup', 'health')),
  kind           text not null check (kind in ('env_var', 'install', 'custom', 'integration')),
  status         text not null default 'pending' check (status in ('pending', 'completed', 'skipped', 'degraded')),
  title          text not null,
  description    text,
  params         jsonb not null default '{}',
  required       boolean not null default true,
  sort_order     integer not null default 0,
  -- Ids of actions of the same agent, all made together: none depends on a later one, so there is no cycle.
  depends_on     text[] collate "C" not null default '{}',
  verify_config  jsonb,
  -- What a bundle calls it by.
  dedupe_key     text,
  last_verified_at timestamptz,
  last_verifier_message text,
  created_at     timestamptz not null default now(),
  updated_at     timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint agent_health_actions_dedupe_key_key unique (app_id, sandbox_id, org_id, agent_id, dedupe_key),
  constraint agent_health_actions_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade
);
create index agent_health_actions_agent_idx on data.agent_health_actions (app_id, sandbox_id, org_id, agent_id, id);
create trigger at_most before insert on data.agent_health_actions for each row execute function app.at_most('100');
alter table data.agent_health_actions
  add constraint agent_health_actions_size_check check (octet_length(jsonb_build_object('description', description,
    'params', params, 'verify_config', verify_config)::text) <= 32768);
select app.wall('data.agent_health_actions', 'select, insert, update, delete');
