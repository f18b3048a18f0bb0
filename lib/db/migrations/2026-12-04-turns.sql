-- The sweep takes places in turn, whatever it looks for: an org of which thousands are behind holds up no other.

drop index data.agent_sessions_look_at_idx;
create index agent_sessions_behind_idx on data.agent_sessions (app_id, sandbox_id, org_id, look_at)
  where look_at is not null and status in ('pending', 'running', 'waiting');
drop index data.agent_routine_runs_look_at_idx;
create index agent_routine_runs_behind_idx on data.agent_routine_runs (app_id, sandbox_id, org_id, look_at)
  where look_at is not null and status in ('pending', 'running');

-- For the sweep, which is nobody's either and takes a MAC of its own: sessions whose object should have been heard of by
-- now, places in turn: the first of each before the second of any, so that an org of which thousands are behind holds up no
-- other. Each is claimed for a minute. Of a suspended org, when that is active again; of what has ended, never.
create or replace function app.claim_behind(mac bytea, most integer) returns setof data.agent_sessions
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac('objects.sweep', mac);
  -- From place to place along the index of what is to be looked at, however much there is of it in each.
  return query with recursive place as (
    (select b.app_id, b.sandbox_id, b.org_id from data.agent_sessions b where b.look_at is not null and b.status in ('pending', 'running', 'waiting')
      order by 1, 2, 3 limit 1)
    union all
    select n.* from place p cross join lateral (select b.app_id, b.sandbox_id, b.org_id from data.agent_sessions b
      where b.look_at is not null and b.status in ('pending', 'running', 'waiting')
        and (b.app_id, b.sandbox_id, b.org_id) > (p.app_id, p.sandbox_id, p.org_id)
      order by 1, 2, 3 limit 1) n
  ), behind as (
    select p.* from place p
     where exists (select from data.agent_sessions b where b.look_at < now() and b.status in ('pending', 'running', 'waiting')
         and (b.app_id, b.sandbox_id, b.org_id) = (p.app_id, p.sandbox_id, p.org_id))
       and not exists (select from data.orgs o
         where (o.app_id, o.sandbox_id, o.id) = (p.app_id, p.sandbox_id, p.org_id) and o.status = 'suspended')
  ), turns as (
    select one.* from behind p cross join lateral (
      select b.ctid as at, row_number() over (order by b.look_at) as turn from data.agent_sessions b
       where b.look_at < now() and b.status in ('pending', 'running', 'waiting')
         and (b.app_id, b.sandbox_id, b.org_id) = (p.app_id, p.sandbox_id, p.org_id)
         and not exists (select from app.endings e where (e.app_id, e.sandbox_id) = (b.app_id, b.sandbox_id)
           and e.id in (b.sandbox_id, b.org_id, b.user_id, b.agent_id))
       order by b.look_at limit (select 1 + 10 * most / count(*) from behind)) one
  )
  update data.agent_sessions r set look_at = now() + interval '60 seconds'
   where r.ctid = any (array(select b.ctid from data.agent_sessions b
       where b.ctid = any (array(select t.at from turns t order by t.turn, random() limit most))
       for no key update skip locked))
     and r.look_at < now()
  returning r.*;
end $$;

-- As claim_behind, of runs: those that wait for room, too, whose place somebody should have looked at by now.
create or replace function app.claim_behind_runs(mac bytea, most integer) returns setof data.agent_routine_runs
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac('objects.sweep', mac);
  -- From place to place along the index of what is to be looked at, however much there is of it in each.
  return query with recursive place as (
    (select b.app_id, b.sandbox_id, b.org_id from data.agent_routine_runs b where b.look_at is not null and b.status in ('pending', 'running')
      order by 1, 2, 3 limit 1)
    union all
    select n.* from place p cross join lateral (select b.app_id, b.sandbox_id, b.org_id from data.agent_routine_runs b
      where b.look_at is not null and b.status in ('pending', 'running')
        and (b.app_id, b.sandbox_id, b.org_id) > (p.app_id, p.sandbox_id, p.org_id)
      order by 1, 2, 3 limit 1) n
  ), behind as (
    select p.* from place p
     where exists (select from data.agent_routine_runs b where b.look_at < now() and b.status in ('pending', 'running')
         and (b.app_id, b.sandbox_id, b.org_id) = (p.app_id, p.sandbox_id, p.org_id))
       and not exists (select from data.orgs o
         where (o.app_id, o.sandbox_id, o.id) = (p.app_id, p.sandbox_id, p.org_id) and o.status = 'suspended')
  ), turns as (
    select one.* from behind p cross join lateral (
      select b.ctid as at, row_number() over (order by b.look_at) as turn from data.agent_routine_runs b
       where b.look_at < now() and b.status in ('pending', 'running')
         and (b.app_id, b.sandbox_id, b.org_id) = (p.app_id, p.sandbox_id, p.org_id)
         and not exists (select from app.endings e where (e.app_id, e.sandbox_id) = (b.app_id, b.sandbox_id)
           and e.id in (b.sandbox_id, b.org_id, b.agent_id))
       order by b.look_at limit (select 1 + 10 * most / count(*) from behind)) one
  )
  update data.agent_routine_runs r set look_at = now() + interval '60 seconds'
   where r.ctid = any (array(select b.ctid from data.agent_routine_runs b
       where b.ctid = any (array(select t.at from turns t order by t.turn, random() limit most))
       for no key update skip locked))
     and r.look_at < now()
  returning r.*;
end $$;
