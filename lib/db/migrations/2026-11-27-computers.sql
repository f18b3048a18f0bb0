-- Computers that are there: when their provider was asked for them, what their terminal shows, and what must be ended
-- when their rows are gone.

alter table data.agent_computers
  drop column url,
  add column asked_at timestamptz,
  add column screen text check (length(screen) <= 4000);
create index agent_computers_asked_at_idx on data.agent_computers (asked_at nulls first) where status = 'provisioning';
create trigger at_most_in_org after insert on data.agent_computers referencing new table as added
  for each statement execute function app.at_most_in_org('10', 'computers');

alter table app.erasures
  drop constraint erasures_kind_check,
  add constraint erasures_kind_check check (kind in ('agent_session', 'event_subscription', 'agent', 'agent_routine_run', 'agent_computer'));

-- What a provider was never asked for is nowhere. The part is the provider.
create function app.leave_computers() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into app.erasures (app_id, sandbox_id, org_id, id, kind, parts)
    select g.app_id, g.sandbox_id, g.org_id, g.id, 'agent_computer', array[g.provider] from gone g where g.asked_at is not null;
  return null;
end $$;
create trigger leave_computers after delete on data.agent_computers referencing old table as gone
  for each statement execute function app.leave_computers();

-- As claim_behind, of computers that their provider is to be asked for, again if it didn't answer.
create function app.claim_computers(mac bytea, most integer) returns setof data.agent_computers
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac('objects.sweep', mac);
  return query update data.agent_computers c set asked_at = now()
    where c.ctid = any (array(select b.ctid from data.agent_computers b
      where b.status = 'provisioning' and (b.asked_at is null or b.asked_at < now() - interval '60 seconds')
        and not exists (select from data.orgs o
          where (o.app_id, o.sandbox_id, o.id) = (b.app_id, b.sandbox_id, b.org_id) and o.status = 'suspended')
        and not exists (select from app.endings e where (e.app_id, e.sandbox_id) = (b.app_id, b.sandbox_id)
          and e.id in (b.sandbox_id, b.org_id, b.agent_id))
      order by b.asked_at nulls first limit most for no key update skip locked))
    returning c.*;
end $$;
grant execute on function app.claim_computers to agentry_api;

-- A computer is ended for good when nobody can be making it any more: who makes one gives up after a minute.
create or replace function app.claim_erasures(mac bytea, most integer)
returns table (n bigint, app_id text, sandbox_id text, org_id text, id text, kind text, parts text[])
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac('objects.sweep', mac);
  return query update app.erasures x set tried_at = now()
    where x.n = any (array(select b.n from app.erasures b
      where (b.tried_at is null or b.tried_at < now() - interval '60 seconds')
        and (b.kind <> 'agent_computer' or b.deleted_at < now() - interval '2 minutes')
      order by b.tried_at nulls first, b.n limit most for update skip locked))
    returning x.n, x.app_id, x.sandbox_id, x.org_id, x.id, x.kind, x.parts;
end $$;
