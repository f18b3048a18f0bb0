-- A webhook endpoint whose object has missed its alarm is woken by the sweep.

alter table data.webhook_endpoints
  -- When the sweep last looked whether its object is behind.
  add column looked_at timestamptz;
create index webhook_endpoints_looked_idx on data.webhook_endpoints (looked_at nulls first) where status = 'enabled';
create index webhook_deliveries_due_idx on data.webhook_deliveries (app_id, sandbox_id, org_id, endpoint_id, next_attempt_at)
  where status = 'pending';

-- Webhook endpoints whose object has missed its alarm, of those that are looked at now: by turns, so many a call, however
-- many there are. `behind`: a delivery that it has told of should have been tried; or it should have told of one by now, since its
-- Dispatcher has handed the event on: of a place's newest twenty, and for the app's endpoints of twenty places at a time.
create function app.claim_behind_endpoints(mac bytea, most integer)
returns table (app_id text, sandbox_id text, org_id text, id text, behind boolean)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac('objects.sweep', mac);
  return query with b as (
      update data.webhook_endpoints w set looked_at = now()
       where w.ctid = any (array(select e.ctid from data.webhook_endpoints e
         where e.status = 'enabled' and (e.looked_at is null or e.looked_at < now() - interval '50 seconds')
         order by e.looked_at nulls first limit most for no key update skip locked))
      returning w.*)
    select b.app_id, b.sandbox_id, b.org_id, b.id,
        -- Those of a suspended org, when that is active again.
        not exists (select from data.orgs o
          where (o.app_id, o.sandbox_id, o.id) = (b.app_id, b.sandbox_id, b.org_id) and o.status = 'suspended')
        and not exists (select from app.endings e where (e.app_id, e.sandbox_id) = (b.app_id, b.sandbox_id)
          and e.id in (b.sandbox_id, b.org_id))
        -- An attempt that is under way is told of within twenty seconds.
        and (exists (select from data.webhook_deliveries d
            where (d.app_id, d.sandbox_id, d.org_id, d.endpoint_id) = (b.app_id, b.sandbox_id, b.org_id, b.id)
              and d.status = 'pending' and d.next_attempt_at < now() - interval '30 seconds')
          or exists (select from (select h.org_id, h.delivered from data.event_heads h
              where (h.app_id, h.sandbox_id) = (b.app_id, b.sandbox_id)
                -- All of them, or the one: a range of the index either way.
                and h.org_id >= case when b.org_id = '-' then '' else b.org_id end
                and h.org_id <= case when b.org_id = '-' then '~' else b.org_id end
              order by random() limit 20) h
            cross join lateral (select e.id, e.name, e.position, e.created_at from data.events e
              where (e.app_id, e.sandbox_id, e.org_id) = (b.app_id, b.sandbox_id, h.org_id)
                and e.sequence <= h.delivered and e.sequence > b.heard_after order by e.sequence desc limit 20) e
            where e.created_at between now() - interval '1 hour' and now() - interval '10 seconds'
              and e.position > b.heard_since
              and exists (select from unnest(b.event_names) n
                where n = e.name or (right(n, 1) = '*' and starts_with(e.name, left(n, -1))))
              and not exists (select from data.webhook_deliveries d
                where (d.app_id, d.sandbox_id, d.org_id, d.endpoint_id, d.event_id)
                  = (b.app_id, b.sandbox_id, b.org_id, b.id, e.id))))
      from b;
end $$;
grant execute on function app.claim_behind_endpoints to agentry_api;
