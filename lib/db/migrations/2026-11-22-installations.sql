-- Installations: what connects an agent with something outside of it, and what it reads there.
create table data.agent_installations (
  id             text collate "C" not null,
  app_id         text collate "C" not null,
  sandbox_id     text collate "C" not null,
  org_id         text collate "C" not null,
  agent_id       text collate "C" not null,
  kind           text not null,
  lookup_key     text,
  state          text not null default 'pending' check (state in ('pending', 'active', 'paused', 'suspended')),
  config         jsonb not null default '{}',
  status_payload jsonb,
  -- The integration that was given with it, tokens and all, and what holds it to this row: lib/auth/vault.ts.
  sealed         bytea,
  tag            bytea,
  created_at     timestamptz not null default now(),
  updated_at     timestamptz not null default now(),
  check ((sealed is null) = (tag is null)),
  primary key (app_id, sandbox_id, id),
  constraint agent_installations_owner_key unique (app_id, sandbox_id, org_id, agent_id, id),
  constraint agent_installations_lookup_key_key unique (app_id, sandbox_id, org_id, lookup_key),
  constraint agent_installations_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade
);
-- A list over agents reads a thousand rows: 12 MB.
alter table data.agent_installations
  add constraint agent_installations_config_check check (octet_length(config::text) <= 12288);
create trigger at_most before insert on data.agent_installations for each row execute function app.at_most('100');
select app.wall('data.agent_installations', 'select, insert, update, delete');

create table data.installation_sources (
  id              text collate "C" not null,
  app_id          text collate "C" not null,
  sandbox_id      text collate "C" not null,
  org_id          text collate "C" not null,
  agent_id        text collate "C" not null,
  installation_id text collate "C" not null,
  type            text not null,
  payload         jsonb not null default '{}',
  metadata        jsonb not null default '{}',
  state           text not null default 'pending' check (state in ('pending', 'active', 'paused')),
  created_at      timestamptz not null default now(),
  updated_at      timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint installation_sources_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade,
  constraint installation_sources_installation_fkey foreign key (app_id, sandbox_id, org_id, agent_id, installation_id)
    references data.agent_installations (app_id, sandbox_id, org_id, agent_id, id) on delete cascade
);
create index installation_sources_installation_idx
  on data.installation_sources (app_id, sandbox_id, org_id, agent_id, installation_id, id);
alter table data.installation_sources
  add constraint installation_sources_payload_check check (octet_length(payload::text) <= 12288);
create trigger at_most before insert on data.installation_sources for each row execute function app.at_most('1000');
select app.wall('data.installation_sources', 'select, insert, update, delete');
