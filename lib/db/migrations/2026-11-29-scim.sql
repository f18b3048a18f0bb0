-- SCIM: an org's identity provider keeps its users and its groups.

-- `role_source`: whose word the role is. What a provider says changes only what a provider has said.
alter table data.users add column role_source text not null default 'manual' check (role_source in ('manual', 'sso', 'scim'));
-- What a provider says of a user whom it keeps, by SCIM's own names; null of all others.
alter table data.users add column scim jsonb constraint users_scim_check check (octet_length(scim::text) <= 8192);
alter table data.users add column scim_user_name text collate "C" generated always as (lower(scim ->> 'userName')) stored;
alter table data.users add column scim_external_id text collate "C" generated always as (scim ->> 'externalId') stored;
alter table data.users add check (scim is null or (org_id <> '-' and scim_user_name is not null));
create unique index "users_userName_key" on data.users (app_id, sandbox_id, org_id, scim_user_name)
  where scim_user_name is not null;
create index users_scim_external_id_idx on data.users (app_id, sandbox_id, org_id, scim_external_id)
  where scim_external_id is not null;

create table data.scim_tokens (
  id           text collate "C" not null,
  app_id       text collate "C" not null,
  sandbox_id   text collate "C" not null,
  org_id       text collate "C" not null,
  hash         bytea not null,
  hint         text not null,
  last_used_at timestamptz,
  created_at   timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint scim_tokens_hash_key unique (app_id, sandbox_id, org_id, hash),
  constraint scim_tokens_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
-- Two: so that one can be changed for another without a gap.
create trigger at_most after insert on data.scim_tokens referencing new table as added
  for each statement execute function app.at_most_in_org('2', 'scim_tokens');
select app.wall('data.scim_tokens', 'select, insert, update, delete');

create table data.scim_groups (
  id           text collate "C" not null,
  app_id       text collate "C" not null,
  sandbox_id   text collate "C" not null,
  org_id       text collate "C" not null,
  display_name text not null,
  name_key     text generated always as (lower(display_name)) stored,
  external_id  text,
  -- What its members may, of those whose role is a provider's word. Never owner: that is given by a person.
  role         text check (role in ('admin', 'member', 'billing', 'viewer')),
  created_at   timestamptz not null default now(),
  updated_at   timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint scim_groups_owner_key unique (app_id, sandbox_id, org_id, id),
  constraint "scim_groups_displayName_key" unique (app_id, sandbox_id, org_id, name_key),
  constraint scim_groups_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
create trigger at_most after insert on data.scim_groups referencing new table as added
  for each statement execute function app.at_most_in_org('1000', 'scim_groups');
select app.wall('data.scim_groups', 'select, insert, update, delete');

create table data.scim_members (
  app_id     text collate "C" not null,
  sandbox_id text collate "C" not null,
  org_id     text collate "C" not null,
  group_id   text collate "C" not null,
  user_id    text collate "C" not null,
  primary key (app_id, sandbox_id, org_id, group_id, user_id),
  constraint scim_members_group_fkey foreign key (app_id, sandbox_id, org_id, group_id)
    references data.scim_groups (app_id, sandbox_id, org_id, id) on delete cascade,
  constraint scim_members_user_fkey foreign key (app_id, sandbox_id, org_id, user_id)
    references data.users (app_id, sandbox_id, org_id, id) on delete cascade
);
create index scim_members_user_idx on data.scim_members (app_id, sandbox_id, org_id, user_id);
-- So that what a list of groups says is bounded, too.
create trigger at_most after insert on data.scim_members referencing new table as added
  for each statement execute function app.at_most_in_org('20000', 'scim_members');
select app.wall('data.scim_members', 'select, insert, delete');

-- Gives users whose role is SCIM's word the most that a group of theirs gives, and member without any: whenever they come
-- into a group or out of it, and when a group gives another role.
create function app.map_roles() returns trigger
language plpgsql volatile set search_path = '' as $$
declare
  ranks constant text[] := array['admin', 'member', 'billing', 'viewer'];
  place record;
begin
  for place in execute format('select t.app_id, t.sandbox_id, t.org_id, array_agg(distinct t.user_id) as users from (%s) t group by 1, 2, 3',
    case tg_table_name when 'scim_members' then 'select * from touched' else 'select m.* from touched g join data.scim_members m
      on (m.app_id, m.sandbox_id, m.org_id, m.group_id) = (g.app_id, g.sandbox_id, g.org_id, g.id)' end) loop
    update data.users u set updated_at = now(), role = r.role
      from (select w.id, coalesce(ranks[min(array_position(ranks, g.role))], 'member') as role from unnest(place.users) w (id)
        left join data.scim_members m
          on (m.app_id, m.sandbox_id, m.org_id, m.user_id) = (place.app_id, place.sandbox_id, place.org_id, w.id)
        left join data.scim_groups g on (g.app_id, g.sandbox_id, g.org_id, g.id) = (m.app_id, m.sandbox_id, m.org_id, m.group_id)
       group by w.id) r
     where (u.app_id, u.sandbox_id, u.org_id, u.id) = (place.app_id, place.sandbox_id, place.org_id, r.id)
       and u.role_source = 'scim' and u.role <> r.role;
  end loop;
  return null;
end $$;
create trigger roles_of_added after insert on data.scim_members referencing new table as touched
  for each statement execute function app.map_roles();
create trigger roles_of_removed after delete on data.scim_members referencing old table as touched
  for each statement execute function app.map_roles();
create trigger roles_of_group after update on data.scim_groups referencing new table as touched
  for each statement execute function app.map_roles();

-- The door of an org's provider, by its SCIM token, of which the hash is known: as of an inbound webhook's. Answers whether
-- last_used_at is over a minute old.
create function app.enter_scim(app text, sandbox text, org text, hash bytea, mac bytea) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare t record;
begin
  perform app.check_mac(concat_ws('.', 'scim', app, sandbox, org, encode(hash, 'hex')), mac);
  if sandbox <> '-' then perform app.check_sandbox(app, sandbox); end if;
  select o.status, s.last_used_at is null or s.last_used_at < now() - interval '1 minute' as stale into t
    from data.scim_tokens s join data.orgs o on (o.app_id, o.sandbox_id, o.id) = (s.app_id, s.sandbox_id, s.org_id)
   where s.app_id = app and s.sandbox_id = sandbox and s.org_id = org and s.hash = enter_scim.hash;
  if not found then raise 'token_revoked' using errcode = 'AE401'; end if;
  if t.status = 'suspended' then raise 'org_suspended' using errcode = 'AE403'; end if;
  perform app.prove(app, sandbox, org);
  return t.stale;
end $$;
grant execute on function app.enter_scim to agentry_api;

-- Brings a user who is in no org into the one whose provider says that the address is one of its people's. Whoever can only
-- ask this database takes nobody in by a MAC that a Worker made for this org and this address.
create function app.bring_in(app text, sandbox text, org text, source text, email text, mac bytea) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac(concat_ws('.', 'bring', app, sandbox, org, source, lower(email)), mac);
  update data.users u set org_id = org, role = 'member', role_source = source
   where u.app_id = app and u.sandbox_id = sandbox and u.org_id = '-' and u.email_key = lower(bring_in.email) and u.ended_at is null
     and not u.is_system_user;
end $$;
grant execute on function app.bring_in to agentry_api;
