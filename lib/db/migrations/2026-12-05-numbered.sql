-- Events are numbered without a join: of tables whose statistics are old the planner took one that was quadratic.

create or replace function app.number_events(app text, sandbox text, org text, most integer) returns bigint
language plpgsql volatile set search_path = '' as $$
declare
  head bigint;
  positions bigint[];
begin
  insert into data.event_heads (app_id, sandbox_id, org_id) values (app, sandbox, org) on conflict do nothing;
  select h.sequence into head from data.event_heads h where (h.app_id, h.sandbox_id, h.org_id) = (app, sandbox, org) for update;
  positions := array(select b.position from data.events b
    where b.app_id = app and b.sandbox_id = sandbox and b.org_id = org and b.sequence is null
    order by b.position limit most);
  -- The n-th of these gets the n-th number. One that has committed since is among them by its position, but isn't one of them.
  update data.events e set sequence = head + width_bucket(e.position, positions)
   where e.app_id = app and e.sandbox_id = sandbox and e.org_id = org and e.sequence is null
     and e.position <= positions[cardinality(positions)] and e.position = positions[width_bucket(e.position, positions)];
  if cardinality(positions) > 0 then
    update data.event_heads h set sequence = head + cardinality(positions)
     where (h.app_id, h.sandbox_id, h.org_id) = (app, sandbox, org);
  end if;
  return cardinality(positions);
end $$;
