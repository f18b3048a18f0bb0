-- Who listens is asked by one function, which is planned once a connection.

drop function app.has_webhooks();

-- Whether anybody reacts to what happens in a place of the tenant that is proven, who would have to be woken; of any other
-- place, no. Asked by every statement that tells: as a function it is planned once a connection, and not with each.
create function app.is_heard(app text, sandbox text, org text) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  return exists (select from app.tenant() t where t.app = is_heard.app and t.sandbox = is_heard.sandbox and t.org in ('*', is_heard.org))
    and (exists (select from data.agent_routines r where r.app_id = app and r.sandbox_id = sandbox and r.org_id = org
        and r.status = 'active' and coalesce(r.event_type, r.event_config::text) is not null)
      or exists (select from data.webhook_endpoints h where h.app_id = app and h.sandbox_id = sandbox and h.org_id in (org, '-')
        and h.status = 'enabled')
      or exists (select from data.event_subscriptions s where s.app_id = app and s.sandbox_id = sandbox and s.org_id = org
        and s.status = 'active')
      or exists (select from data.automations a where a.app_id = app and a.sandbox_id = sandbox and a.org_id = org
        and a.status = 'active' and a.automation_type = 'trigger')
      or exists (select from data.event_waits w where w.app_id = app and w.sandbox_id = sandbox and w.org_id = org));
end $$;
grant execute on function app.is_heard to agentry_api;
