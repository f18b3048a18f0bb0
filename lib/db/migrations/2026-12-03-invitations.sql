-- A page of ours shows what an invitation is, before it is accepted.

-- What an invitation's page says: who is invited into what, as what and by whom. It uses up nothing. Null for a key that
-- app.enter_once wouldn't take, or whose invitation is over.
create function app.show_invitation(app text, sandbox text, org text, hash bytea, mac bytea) returns jsonb
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac(concat_ws('.', 'invitation', app, sandbox, org, encode(hash, 'hex')), mac);
  return (select jsonb_build_object('email', i.email, 'role', i.role, 'org', i.org_id, 'org_name', o.name, 'app_name', a.name,
      'inviter', coalesce(u.name, u.email))
    from data.one_time_secrets s
    join data.org_invitations i on (i.app_id, i.sandbox_id, i.org_id, i.id) = (s.app_id, s.sandbox_id, s.org_id, s.payload ->> 'invitation')
    join data.orgs o on (o.app_id, o.sandbox_id, o.id) = (s.app_id, s.sandbox_id, s.org_id)
    join data.apps a on a.id = s.app_id
    left join data.users u on (u.app_id, u.sandbox_id, u.org_id, u.id) = (i.app_id, i.sandbox_id, i.org_id, i.invited_by)
   where s.app_id = app and s.sandbox_id = sandbox and s.org_id = org and s.kind = 'invitation' and s.hash = show_invitation.hash
     and s.used_at is null and s.expires_at > now() and i.expires_at > now()
     and (sandbox = '-' or exists (select from data.sandboxes b
       where b.app_id = app and b.sandbox_id = sandbox and (b.expires_at <= now()) is not true))
     and not exists (select from app.endings e where e.app_id = app and e.sandbox_id = sandbox and e.id in (sandbox, org)));
end $$;
grant execute on function app.show_invitation to agentry_api;
