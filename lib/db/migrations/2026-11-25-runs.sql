-- Runs, as they are run: what they ask of the world stands beside what sessions' models ask for, the sweep finds those
-- that nobody has heard of, and what they leave in objects goes when they do.
alter table data.agent_sessions add column model text;
alter table data.agent_sessions add constraint agent_sessions_model_check check (octet_length(model) <= 800);

alter table data.agent_routine_runs
  drop constraint agent_routine_runs_result_check,
  add constraint agent_routine_runs_result_check
    check (octet_length(jsonb_build_array(result, structured_response)::text) <= 131072);
-- How many began within the minute.
create index agent_routine_runs_admitted_idx on data.agent_routine_runs (app_id, sandbox_id, org_id, admitted_at)
  where admitted_at is not null;

alter table data.tool_calls
  alter column session_id drop not null,
  add column routine_run_id text collate "C",
  add constraint tool_calls_run_fkey foreign key (app_id, sandbox_id, org_id, routine_run_id)
    references data.agent_routine_runs (app_id, sandbox_id, org_id, id) on delete cascade,
  add constraint tool_calls_of_check check ((session_id is null) <> (routine_run_id is null));
create index tool_calls_run_idx on data.tool_calls (app_id, sandbox_id, org_id, routine_run_id, id)
  where routine_run_id is not null;
select app.make_slices();

-- `parts`: of the object of that id, what alone is gone.
alter table app.erasures
  drop constraint erasures_kind_check,
  add constraint erasures_kind_check check (kind in ('agent_session', 'event_subscription', 'agent', 'agent_routine_run')),
  add column parts text[] collate "C";

-- All runs of an agent, or of an automation, are in one object, which hears of those that are gone at once.
create function app.leave_runs() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into app.erasures (app_id, sandbox_id, org_id, id, kind, parts)
    select g.app_id, g.sandbox_id, g.org_id, coalesce(g.automation_id, g.agent_id), 'agent_routine_run', array_agg(g.id) from gone g
     group by g.app_id, g.sandbox_id, g.org_id, coalesce(g.automation_id, g.agent_id);
  return null;
end $$;
create trigger leave_runs after delete on data.agent_routine_runs referencing old table as gone
  for each statement execute function app.leave_runs();
create trigger leave_objects after delete on data.agents referencing old table as gone
  for each statement execute function app.leave_objects('agent');

drop function app.claim_erasures(bytea, integer);
-- Objects that are to erase themselves, each claimed for a minute; and those that have.
create function app.claim_erasures(mac bytea, most integer)
returns table (n bigint, app_id text, sandbox_id text, org_id text, id text, kind text, parts text[])
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac('objects.sweep', mac);
  return query update app.erasures x set tried_at = now()
    where x.n = any (array(select b.n from app.erasures b
      where b.tried_at is null or b.tried_at < now() - interval '60 seconds'
      order by b.tried_at nulls first, b.n limit most for update skip locked))
    returning x.n, x.app_id, x.sandbox_id, x.org_id, x.id, x.kind, x.parts;
end $$;
grant execute on function app.claim_erasures to agentry_api;

-- As claim_behind, of runs: those that wait for room, too, whose place somebody should have looked at by now.
create function app.claim_behind_runs(mac bytea, most integer) returns setof data.agent_routine_runs
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac('objects.sweep', mac);
  return query update data.agent_routine_runs r set look_at = now() + interval '60 seconds'
    where r.ctid = any (array(select b.ctid from data.agent_routine_runs b
      where b.look_at < now() and b.status in ('pending', 'running')
        and not exists (select from data.orgs o
          where (o.app_id, o.sandbox_id, o.id) = (b.app_id, b.sandbox_id, b.org_id) and o.status = 'suspended')
        and not exists (select from app.endings e where (e.app_id, e.sandbox_id) = (b.app_id, b.sandbox_id)
          and e.id in (b.sandbox_id, b.org_id, b.agent_id))
      order by b.look_at limit most for no key update skip locked))
    returning r.*;
end $$;
grant execute on function app.claim_behind_runs to agentry_api;
