-- Configs: what agents are made of, in versions. The row is what a list shows; the content lies in the versions. Whose
-- it is: a user's, an agent's or, with neither, the place's own.
create table data.configs (
  id             text collate "C" not null,
  app_id         text collate "C" not null,
  sandbox_id     text collate "C" not null,
  org_id         text collate "C" not null,
  kind           text not null,
  user_id        text collate "C",
  agent_id       text collate "C",
  lookup_key     text,
  virtual_path   text,
  parent_id      text collate "C",
  relative_path  text,
  -- The Solution that it came with.
  solution_id    text collate "C",
  mime_type      text not null,
  -- The newest version's.
  version_number integer not null default 1,
  content_hash   text not null,
  archived_at    timestamptz,
  created_at     timestamptz not null default now(),
  updated_at     timestamptz not null default now(),
  check (user_id is null or agent_id is null),
  primary key (app_id, sandbox_id, id),
  constraint configs_owner_key unique (app_id, sandbox_id, org_id, id),
  constraint configs_lookup_key_key unique (app_id, sandbox_id, org_id, lookup_key),
  constraint configs_virtual_path_key unique (app_id, sandbox_id, org_id, virtual_path),
  constraint configs_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade,
  constraint configs_user_fkey foreign key (app_id, sandbox_id, user_id) references data.users on delete cascade,
  constraint configs_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade,
  constraint configs_relative_path_key unique (app_id, sandbox_id, org_id, parent_id, relative_path),
  constraint configs_parent_fkey foreign key (app_id, sandbox_id, org_id, parent_id)
    references data.configs (app_id, sandbox_id, org_id, id) on update cascade on delete cascade,
  constraint configs_parent_solution_fkey foreign key (app_id, sandbox_id, org_id, solution_id)
    references data.configs (app_id, sandbox_id, org_id, id) on delete set null (solution_id)
);
create index configs_user_idx on data.configs (app_id, sandbox_id, user_id) where user_id is not null;
create index configs_agent_idx on data.configs (app_id, sandbox_id, org_id, agent_id) where agent_id is not null;
create index configs_solution_idx on data.configs (app_id, sandbox_id, org_id, solution_id) where solution_id is not null;
select app.wall('data.configs', 'select, insert, update, delete');

create table data.config_versions (
  id                 text collate "C" not null,
  app_id             text collate "C" not null,
  sandbox_id         text collate "C" not null,
  org_id             text collate "C" not null,
  config_id          text collate "C" not null,
  version_number     integer not null,
  -- sha256:<hex>, over the content as it is compared.
  content_hash       text not null,
  mime_type          text not null,
  -- How `content` holds the bytes: as text, or as base64 where they are none.
  encoding           text not null default 'raw' check (encoding in ('raw', 'base64')),
  content            text not null,
  -- What its writer noted of it.
  data               jsonb,
  change_description text,
  created_at         timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint config_versions_number_key unique (app_id, sandbox_id, org_id, config_id, version_number),
  constraint config_versions_config_fkey foreign key (app_id, sandbox_id, org_id, config_id)
    references data.configs (app_id, sandbox_id, org_id, id) on update cascade on delete cascade
);
-- A page of a thousand, which shows `data` and not the content, has a size.
alter table data.config_versions
  add constraint config_versions_raw_content_check check (octet_length(content) <= 1398104),
  add constraint config_versions_data_check check (octet_length(data::text) <= 12288);
select app.wall('data.config_versions', 'select, insert');
