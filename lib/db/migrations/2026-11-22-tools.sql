create table data.agent_tools (
  id             text collate "C" not null,
  app_id         text collate "C" not null,
  sandbox_id     text collate "C" not null,
  org_id         text collate "C" not null,
  agent_id       text collate "C" not null,
  kind           text not null check (kind in ('builtin', 'custom', 'mcp')),
  status         text not null default 'disabled' check (status in ('active', 'disabled')),
  name           text,
  name_prefix    text,
  -- What a model calls it by. A builtin brings its own names, a server of tools those that it lists.
  function_name  text generated always as (case when kind = 'custom' then
                   case when name_prefix is null then name else name_prefix || '_' || name end end) stored,
  description    text,
  instruction    text,
  handler_type   text check (handler_type in ('http', 'script', 'builtin', 'workflow_graph')),
  builtin_tool_key text,
  builtin_tool_config jsonb,
  parameters     jsonb,
  parameters_config_id text collate "C",
  config_id      text collate "C",
  -- The kind that its config must be of.
  config_kind    text generated always as (case when kind = 'mcp' then 'McpServer' else case handler_type
                   when 'http' then 'HttpTool' when 'script' then 'Script' when 'workflow_graph' then 'WorkflowGraph' end end) stored,
  effect         text check (effect in ('read', 'idempotent', 'once')),
  approval       text not null default 'none' check (approval in ('none', 'required')),
  async          boolean not null default false,
  lookup_key     text,
  template_config_id text collate "C",
  metadata       jsonb not null default '{}',
  created_at     timestamptz not null default now(),
  updated_at     timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  check (config_id is null or config_kind is not null),
  constraint agent_tools_lookup_key_key unique (app_id, sandbox_id, org_id, agent_id, lookup_key),
  constraint agent_tools_config_fkey foreign key (app_id, sandbox_id, org_id, config_id, config_kind)
    references data.configs (app_id, sandbox_id, org_id, id, kind),
  constraint agent_tools_parameters_config_fkey foreign key (app_id, sandbox_id, org_id, parameters_config_id)
    references data.configs (app_id, sandbox_id, org_id, id),
  constraint agent_tools_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade
);
create index agent_tools_agent_idx on data.agent_tools (app_id, sandbox_id, org_id, agent_id, id);
create trigger at_most before insert on data.agent_tools for each row execute function app.at_most('100');
create index agent_tools_config_idx on data.agent_tools (app_id, sandbox_id, org_id, config_id, config_kind);
create index agent_tools_parameters_config_idx on data.agent_tools (app_id, sandbox_id, org_id, parameters_config_id);
-- Two active functions of one name would leave the model without a choice; two of a builtin would be the same functions.
create unique index agent_tools_name_key on data.agent_tools (app_id, sandbox_id, org_id, agent_id, function_name)
  where status = 'active';
create unique index agent_tools_builtin_tool_key_key on data.agent_tools (app_id, sandbox_id, org_id, agent_id, builtin_tool_key);
alter table data.agent_tools
  add constraint agent_tools_name_check check (length(function_name) <= 64),
  add constraint agent_tools_size_check check (octet_length(jsonb_build_object('description', description,
    'instruction', instruction, 'parameters', parameters, 'config', builtin_tool_config, 'metadata', metadata)::text) <= 131072);
select app.wall('data.agent_tools', 'select, insert, update, delete');
