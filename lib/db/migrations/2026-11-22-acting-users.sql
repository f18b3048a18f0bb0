-- A script that runs as a user may no more than that user may.
create function app.act_as(usr text, roles text[]) returns void
language plpgsql volatile set search_path = '' as $$
declare a record;
begin
  select u.role, o.status into a
    from app.tenant() t
    join data.users u on (u.app_id, u.sandbox_id, u.org_id, u.id) = (t.app, t.sandbox, t.org, usr)
    left join data.orgs o on (o.app_id, o.sandbox_id, o.id) = (t.app, t.sandbox, t.org);
  if a.status not in ('active', 'trialing') then raise 'org_suspended' using errcode = 'AE403'; end if;
  if (a.role = any (roles)) is not true then raise 'role' using errcode = 'AE403'; end if;
  perform set_config('app.org_role', case when a.role in ('owner', 'admin') then 'admin'
    when a.role in ('billing', 'viewer') then 'viewer' else a.role end, true);
end $$;
grant execute on function app.act_as to agentry_api;
