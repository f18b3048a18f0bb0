-- Env vars: secrets that an agent's tools and scripts are given. Of a value, its hint alone is shown.
create table data.agent_env_vars (
  id          text collate "C" not null,
  app_id      text collate "C" not null,
  sandbox_id  text collate "C" not null,
  org_id      text collate "C" not null,
  agent_id    text collate "C" not null,
  key         text collate "C" not null,
  description text,
  -- The value, and what holds it to this row: lib/auth/vault.ts.
  sealed      bytea not null,
  tag         bytea not null,
  -- The value's last four characters, if it has more than that.
  hint        text,
  created_at  timestamptz not null default now(),
  updated_at  timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint agent_env_vars_key_once unique (app_id, sandbox_id, org_id, agent_id, key),
  constraint agent_env_vars_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade
);
create index agent_env_vars_agent_idx on data.agent_env_vars (app_id, sandbox_id, org_id, agent_id, id);
create trigger at_most before insert on data.agent_env_vars for each row execute function app.at_most('100');
select app.wall('data.agent_env_vars', 'select, insert, update, delete');
