-- Refuses a row of a table that its agent has enough of already. Counted behind a lock on the agent, so that of two that
-- come at once the second sees the first. The argument is the number.
create function app.at_most() returns trigger
language plpgsql volatile set search_path = '' as $$
declare n int;
begin
  perform from data.agents a where (a.app_id, a.sandbox_id, a.id) = (new.app_id, new.sandbox_id, new.agent_id) for no key update;
  execute format('select count(*) from data.%I where (app_id, sandbox_id, org_id, agent_id) = ($1, $2, $3, $4)', tg_table_name)
    into n using new.app_id, new.sandbox_id, new.org_id, new.agent_id;
  if n >= tg_argv[0]::int then raise '%', tg_argv[0] using errcode = 'AE422', table = tg_table_name; end if;
  return new;
end $$;

create table data.agent_computers (
  id             text collate "C" not null,
  app_id         text collate "C" not null,
  sandbox_id     text collate "C" not null,
  org_id         text collate "C" not null,
  agent_id       text collate "C" not null,
  name           text not null,
  lookup_key     text,
  provider       text not null,
  region         text not null,
  config         jsonb not null default '{}',
  status         text not null default 'provisioning' check (status in ('provisioning', 'ready', 'error', 'terminated')),
  error_message  text,
  url            text,
  last_active_at timestamptz,
  metadata       jsonb not null default '{}',
  created_at     timestamptz not null default now(),
  updated_at     timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint agent_computers_lookup_key_key unique (app_id, sandbox_id, lookup_key),
  constraint agent_computers_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade
);
create index agent_computers_agent_idx on data.agent_computers (app_id, sandbox_id, org_id, agent_id, id);
alter table data.agent_computers
  add constraint agent_computers_config_check check (octet_length(config::text) <= 24576);
create trigger at_most before insert on data.agent_computers for each row execute function app.at_most('100');
select app.wall('data.agent_computers', 'select, insert, update, delete');
