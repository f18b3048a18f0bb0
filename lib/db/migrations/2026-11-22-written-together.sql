-- What is counted of an agent, is counted once a statement.
create or replace function app.at_most() returns trigger
language plpgsql volatile set search_path = '' as $$
declare
  one record;
  n int;
begin
  for one in select distinct a.app_id, a.sandbox_id, a.org_id, a.agent_id from added a order by a.agent_id loop
    perform from data.agents a where (a.app_id, a.sandbox_id, a.id) = (one.app_id, one.sandbox_id, one.agent_id)
      for no key update;
    execute format('select count(*) from data.%I where (app_id, sandbox_id, org_id, agent_id) = ($1, $2, $3, $4)', tg_table_name)
      into n using one.app_id, one.sandbox_id, one.org_id, one.agent_id;
    if n > tg_argv[0]::int then raise '%', tg_argv[0] using errcode = 'AE422', table = tg_table_name; end if;
  end loop;
  return null;
end $$;
drop trigger at_most on data.agent_tools;
create trigger at_most after insert on data.agent_tools referencing new table as added
  for each statement execute function app.at_most('100');
drop trigger at_most on data.agent_skills;
create trigger at_most after insert on data.agent_skills referencing new table as added
  for each statement execute function app.at_most('100');
drop trigger at_most on data.agent_env_vars;
create trigger at_most after insert on data.agent_env_vars referencing new table as added
  for each statement execute function app.at_most('100');
drop trigger at_most on data.agent_computers;
create trigger at_most after insert on data.agent_computers referencing new table as added
  for each statement execute function app.at_most('100');
drop trigger at_most on data.agent_routines;
create trigger at_most after insert on data.agent_routines referencing new table as added
  for each statement execute function app.at_most('100');
drop trigger at_most on data.agent_schedules;
create trigger at_most after insert on data.agent_schedules referencing new table as added
  for each statement execute function app.at_most('100');
drop trigger at_most on data.agent_installations;
create trigger at_most after insert on data.agent_installations referencing new table as added
  for each statement execute function app.at_most('100');
drop trigger at_most on data.installation_sources;
create trigger at_most after insert on data.installation_sources referencing new table as added
  for each statement execute function app.at_most('1000');
drop trigger at_most on data.agent_working_memory;
create trigger at_most after insert on data.agent_working_memory referencing new table as added
  for each statement execute function app.at_most('1000');
drop trigger at_most on data.agent_health_actions;
create trigger at_most after insert on data.agent_health_actions referencing new table as added
  for each statement execute function app.at_most('100');
