alter table data.configs add constraint configs_kind_key unique (app_id, sandbox_id, org_id, id, kind);

create table data.agent_skills (
  id             text collate "C" not null,
  app_id         text collate "C" not null,
  sandbox_id     text collate "C" not null,
  org_id         text collate "C" not null,
  agent_id       text collate "C" not null,
  config_id      text collate "C" not null,
  config_kind    text not null generated always as ('Skill') stored,
  instruction    text,
  status         text not null default 'inactive' check (status in ('active', 'inactive')),
  template_config_id text collate "C",
  metadata       jsonb not null default '{}',
  created_at     timestamptz not null default now(),
  updated_at     timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  -- With its kind, so that a skill can't name a script. Not cascading: a config that is used stays.
  constraint agent_skills_config_fkey foreign key (app_id, sandbox_id, org_id, config_id, config_kind)
    references data.configs (app_id, sandbox_id, org_id, id, kind),
  constraint agent_skills_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade
);
create index agent_skills_agent_idx on data.agent_skills (app_id, sandbox_id, org_id, agent_id, id);
create trigger at_most before insert on data.agent_skills for each row execute function app.at_most('100');
create index agent_skills_config_idx on data.agent_skills (app_id, sandbox_id, org_id, config_id, config_kind);
select app.wall('data.agent_skills', 'select, insert, update, delete');
