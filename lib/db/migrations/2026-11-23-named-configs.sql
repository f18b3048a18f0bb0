-- What names a config has it by its id and its kind, and keeps it: JSON, too. What tells of the past keeps nothing.

alter table data.agents add column template_config_id text collate "C";
alter table data.agent_routines add column template_config_id text collate "C";

-- A routine's config is of the kind that its handler_type takes; what takes none has had one for nothing.
update data.agent_routines set config_id = null where handler_type in ('preset', 'chain') and config_id is not null;
alter table data.agent_routines
  add column config_kind text generated always as (case handler_type when 'workflow_graph' then 'WorkflowGraph'
    when 'script' then 'Script' end) stored,
  drop constraint agent_routines_config_fits,
  add constraint agent_routines_config_fits check ((handler_type <> 'workflow_graph' or config_id is not null)
    and (config_id is null or config_kind is not null)),
  drop constraint agent_routines_config_fkey,
  add constraint agent_routines_config_fkey foreign key (app_id, sandbox_id, org_id, config_id, config_kind)
    references data.configs (app_id, sandbox_id, org_id, id, kind) not valid;
drop index data.agent_routines_config_idx;
create index agent_routines_config_idx on data.agent_routines (app_id, sandbox_id, org_id, config_id, config_kind)
  where config_id is not null;

-- Names that were kept as they were given become ids.
update data.agent_routines r set steps = (
  select jsonb_agg(case when c.id is null then step else step || jsonb_build_object('config', c.id) end order by n)
    from jsonb_array_elements(r.steps) with ordinality s (step, n)
    left join data.configs c on (c.app_id, c.sandbox_id, c.org_id) = (r.app_id, r.sandbox_id, r.org_id)
      and c.lookup_key = step ->> 'config' and c.archived_at is null)
 where r.steps @? '$[*].config';
update data.agent_health_actions a set verify_config = a.verify_config || jsonb_build_object('script_ref', c.id)
  from data.configs c
 where (c.app_id, c.sandbox_id, c.org_id) = (a.app_id, a.sandbox_id, a.org_id)
   and c.lookup_key = a.verify_config ->> 'script_ref' and c.archived_at is null;
alter table data.agent_health_actions
  add column script_id text collate "C" generated always as (case when jsonb_typeof(verify_config -> 'script_ref') = 'string'
    then nullif(verify_config ->> 'script_ref', '') end) stored,
  add column script_kind text not null generated always as ('Script') stored,
  add constraint agent_health_actions_script_fkey foreign key (app_id, sandbox_id, org_id, script_id, script_kind)
    references data.configs (app_id, sandbox_id, org_id, id, kind) not valid;
create index agent_health_actions_script_idx on data.agent_health_actions (app_id, sandbox_id, org_id, script_id, script_kind)
  where script_id is not null;

-- The configs that a routine's JSON names: of its steps, and the forms of its messages. Kept by the row itself, so that
-- foreign keys keep what it names, whoever wrote it.
create table data.agent_routine_configs (
  app_id      text collate "C" not null,
  sandbox_id  text collate "C" not null,
  org_id      text collate "C" not null,
  agent_id    text collate "C" not null,
  routine_id  text collate "C" not null,
  config_id   text collate "C" not null,
  config_kind text not null,
  primary key (app_id, sandbox_id, org_id, routine_id, config_id, config_kind),
  constraint agent_routine_configs_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade,
  constraint agent_routine_configs_routine_fkey foreign key (app_id, sandbox_id, org_id, routine_id)
    references data.agent_routines (app_id, sandbox_id, org_id, id) on delete cascade,
  constraint agent_routine_configs_config_fkey foreign key (app_id, sandbox_id, org_id, config_id, config_kind)
    references data.configs (app_id, sandbox_id, org_id, id, kind)
);
create index agent_routine_configs_agent_idx on data.agent_routine_configs (app_id, sandbox_id, org_id, agent_id);
create index agent_routine_configs_config_idx on data.agent_routine_configs (app_id, sandbox_id, org_id, config_id, config_kind);
select app.wall('data.agent_routine_configs', 'select, insert, delete');

-- What a routine's JSON says (its steps, one of them, or a preset_config), each config in it named by its id: `ids` has
-- them by kind and name. What has none there becomes '', which no foreign key takes.
create function app.with_ids(said jsonb, ids jsonb) returns jsonb
language plpgsql immutable set search_path = '' as $$
declare kind text := case said ->> 'handler_type' when 'script' then 'Script ' else 'WorkflowGraph ' end;
begin
  if jsonb_typeof(said) = 'array' then
    return (select coalesce(jsonb_agg(app.with_ids(step, ids) order by n), '[]')
      from jsonb_array_elements(said) with ordinality steps (step, n));
  end if;
  if said ->> 'config' is not null then
    said := said || jsonb_build_object('config', coalesce(ids ->> (kind || (said ->> 'config')), ''));
  end if;
  if jsonb_typeof(said -> 'structured_message_template_ids') = 'array' then
    said := said || jsonb_build_object('structured_message_template_ids', (
      select coalesce(jsonb_agg(coalesce(ids ->> ('AgentMessageSchema ' || form), '') order by n), '[]')
        from jsonb_array_elements_text(said -> 'structured_message_template_ids') with ordinality forms (form, n)));
  end if;
  if jsonb_typeof(said -> 'preset_config') = 'object' then
    said := said || jsonb_build_object('preset_config', app.with_ids(said -> 'preset_config', ids));
  end if;
  return said;
end $$;
grant execute on function app.with_ids to agentry_api;

create function app.keep_configs() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  delete from data.agent_routine_configs c
   where (c.app_id, c.sandbox_id, c.org_id, c.routine_id) = (new.app_id, new.sandbox_id, new.org_id, new.id);
  insert into data.agent_routine_configs (app_id, sandbox_id, org_id, agent_id, routine_id, config_id, config_kind)
    select new.app_id, new.sandbox_id, new.org_id, new.agent_id, new.id, named.id, named.kind from (
      select step ->> 'config', case step ->> 'handler_type' when 'script' then 'Script' else 'WorkflowGraph' end
        from jsonb_array_elements(new.steps) step where step ->> 'config' is not null
      union
      select schema #>> '{}', 'AgentMessageSchema' from (
        select jsonb_path_query(new.preset_config, '$.structured_message_template_ids[*] ? (@ != null)')
        union all
        select jsonb_path_query(new.steps, '$[*].preset_config.structured_message_template_ids[*] ? (@ != null)')
      ) said (schema)
    ) named (id, kind);
  return null;
end $$;
create trigger keep_configs after insert or update of steps, preset_config on data.agent_routines
  for each row execute function app.keep_configs();
insert into data.agent_routine_configs (app_id, sandbox_id, org_id, agent_id, routine_id, config_id, config_kind)
  select distinct r.app_id, r.sandbox_id, r.org_id, r.agent_id, r.id, c.id, c.kind
    from data.agent_routines r
    join data.configs c on (c.app_id, c.sandbox_id, c.org_id) = (r.app_id, r.sandbox_id, r.org_id)
   where exists (select from jsonb_array_elements(r.steps) step where step ->> 'config' = c.id
      and c.kind = case step ->> 'handler_type' when 'script' then 'Script' else 'WorkflowGraph' end)
    or (c.kind = 'AgentMessageSchema' and (r.preset_config @> jsonb_build_object('structured_message_template_ids', array[c.id])
      or r.steps @> jsonb_build_array(jsonb_build_object('preset_config',
        jsonb_build_object('structured_message_template_ids', array[c.id])))));

-- The key of an org, or of the app itself, that seals the secrets which stand in texts: what was handed out to be written
-- into a config can't be sealed anew, its key can. With the org the key goes, and with it all that it sealed.
create table data.secret_keys (
  app_id     text collate "C" not null,
  sandbox_id text collate "C" not null,
  org_id     text collate "C" not null,
  id         text collate "C" not null generated always as (org_id) stored,
  -- The key, and what holds it to this row: lib/auth/vault.ts.
  sealed     bytea not null,
  tag        bytea not null,
  created_at timestamptz not null default now(),
  constraint secret_keys_org_key primary key (app_id, sandbox_id, org_id),
  constraint secret_keys_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
select app.wall('data.secret_keys', 'select, insert');

-- What a row only names it lets go of in slices, too, or it goes on naming what is gone: no delete follows a key to rows
-- without number.
alter table data.sandboxes drop constraint sandboxes_org_fkey;
alter table data.configs drop constraint configs_parent_solution_fkey;
alter table data.agent_routine_runs drop constraint agent_routine_runs_routine_fkey;

-- How a row (`below`) is found from the one that its foreign key leads to.
create function app.tie(f oid, below text, above text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
  select string_agg(format('%s.%I = %s.%I', below, a.attname, above, b.attname), ' and ' order by n)
    from pg_constraint c, unnest(c.conkey, c.confkey) with ordinality k (own, others, n),
      pg_attribute a, pg_attribute b
   where c.oid = f and (a.attrelid, a.attnum) = (c.conrelid, own) and (b.attrelid, b.attnum) = (c.confrelid, others)
$$;

create or replace function app.make_slices() returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $make$
declare
  made text;
  freed text;
  root text;
begin
  -- Of a tenant. Its place, and the record of the org or sandbox, are for who calls it.
  with recursive walk (tbl, path) as (
    select c.oid, array[c.oid] from pg_class c where c.relnamespace = 'data'::regnamespace and c.relkind = 'r'
       and c.relname not in ('apps', 'tenants', 'orgs', 'sandboxes')
    union all
    select f.conrelid, path || f.conrelid from walk join pg_constraint f on f.contype = 'f' and f.confrelid = walk.tbl
     where f.conrelid <> all (path)
  ), deepest as (select tbl, max(cardinality(path)) as depth from walk group by tbl)
  select string_agg(app.slice_from(tbl, format('ctid from %s where (app_id, sandbox_id, org_id) = ($1, $2, $3)', tbl::regclass)),
      '' order by depth desc, tbl::regclass::text collate "C") into made from deepest;
  perform app.make_slice('tenant', made);
  -- Of a user or an agent: what hangs on it, and on that, by whatever foreign keys cascade; then what only names it lets
  -- go of it, so that nothing is left for the delete of its own row.
  foreach root in array array['user', 'agent'] loop
    with recursive walk (tbl, path, rows) as (
      select c.oid, array[c.oid], format('%s t1', c.oid::regclass) collate "C" from pg_class c
       where c.oid = to_regclass(format('data.%ss', root))
      union all
      select f.conrelid, path || f.conrelid, format('%s join %s t%s on %s', rows, f.conrelid::regclass, cardinality(path) + 1,
          app.tie(f.oid, format('t%s', cardinality(path) + 1), format('t%s', cardinality(path))))
        from walk join pg_constraint f on f.contype = 'f' and f.confdeltype = 'c' and f.confrelid = walk.tbl
       where f.conrelid <> all (path)
    ), deepest as (select *, max(cardinality(path)) over (partition by tbl) as depth from walk)
    select string_agg(app.slice_from(tbl, format('t%s.ctid from %s where (t1.app_id, t1.sandbox_id, t1.id) = ($1, $2, $3)',
        cardinality(path), rows)), '' order by depth desc, rows collate "C") into made
      from deepest where depth > 1;
    select string_agg(format(e'  execute $d$update %1$s set %2$I = null where ctid = any (array(select t2.ctid from %3$s t1'
        ' join %1$s t2 on %4$s where (t1.app_id, t1.sandbox_id, t1.id) = ($1, $2, $3) limit $4))$d$\n'
        '    using app, sandbox, id, greatest(0, most - deleted);\n'
        '  get diagnostics n = row_count;\n  deleted := deleted + n;\n', f.conrelid::regclass, a.attname,
        f.confrelid::regclass, app.tie(f.oid, 't2', 't1')), '' order by f.conname collate "C") into freed
      from pg_constraint f join pg_attribute a on a.attrelid = f.conrelid and a.attnum = any (f.confdelsetcols)
     where f.contype = 'f' and f.confdeltype = 'n' and f.confrelid = to_regclass(format('data.%ss', root));
    perform app.make_slice(root, made || coalesce(freed, ''));
  end loop;
end $make$;

select app.make_slices();

create or replace function app.finish(app text, sandbox text, ended text, most bigint) returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  kind text := (select e.kind from app.endings e where (e.app_id, e.sandbox_id, e.id) = (app, sandbox, ended));
  place text;
  deleted bigint := 0;
begin
  if kind = 'user' then
    deleted := app.slice_of_user(app, sandbox, ended, most);
    if deleted >= most then return deleted; end if;
    delete from data.users u where (u.app_id, u.sandbox_id, u.id) = (app, sandbox, ended);
  elsif kind = 'agent' then
    deleted := app.slice_of_agent(app, sandbox, ended, most);
    if deleted >= most then return deleted; end if;
    delete from data.agents a where (a.app_id, a.sandbox_id, a.id) = (app, sandbox, ended);
  else
    if kind = 'org' then
      update data.sandboxes s set for_org_id = null where s.ctid = any (array(select b.ctid from data.sandboxes b
        where (b.app_id, b.for_sandbox_id, b.for_org_id) = (app, sandbox, ended) limit most));
      get diagnostics deleted = row_count;
      if deleted >= most then return deleted; end if;
    end if;
    -- Of a sandbox the orgs first, and its own rows last.
    for place in select t.org_id from data.tenants t where (t.app_id, t.sandbox_id) = (app, sandbox)
        and (kind = 'sandbox' or t.org_id = ended) order by t.org_id desc loop
      deleted := deleted + app.slice_of_tenant(app, sandbox, place, most - deleted);
      if deleted >= most then return deleted; end if;
      delete from data.tenants t where (t.app_id, t.sandbox_id, t.org_id) = (app, sandbox, place);
      deleted := deleted + 1;
    end loop;
  end if;
  delete from app.endings e where (e.app_id, e.sandbox_id, e.id) = (app, sandbox, ended);
  return deleted + 1;
end $$;
