-- Working memory: what an agent writes down for itself. Past its end an entry is hidden, not gone.
create table data.agent_working_memory (
  id         text collate "C" not null,
  app_id     text collate "C" not null,
  sandbox_id text collate "C" not null,
  org_id     text collate "C" not null,
  agent_id   text collate "C" not null,
  key        text not null,
  value      text not null,
  expires_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint agent_working_memory_key_key unique (app_id, sandbox_id, org_id, agent_id, key),
  constraint agent_working_memory_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade
);
create index agent_working_memory_agent_idx on data.agent_working_memory (app_id, sandbox_id, org_id, agent_id, id);
alter table data.agent_working_memory
  add constraint agent_working_memory_value_check check (char_length(value) <= 65536);
create trigger at_most before insert on data.agent_working_memory for each row execute function app.at_most('1000');
select app.wall('data.agent_working_memory', 'select, insert, update, delete');
