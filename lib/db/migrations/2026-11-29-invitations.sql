-- Invitations into an org, for whoever proves the address; and of one of its users to the others.

-- Those that are open: what became of the others, the feed tells.
create table data.org_invitations (
  id          text collate "C" not null,
  app_id      text collate "C" not null,
  sandbox_id  text collate "C" not null,
  org_id      text collate "C" not null,
  email       text not null,
  email_key   text generated always as (lower(email)) stored,
  role        text not null check (role in ('owner', 'admin', 'member', 'billing', 'viewer')),
  -- Who may be gone since.
  invited_by  text collate "C",
  sent_at     timestamptz not null default now(),
  expires_at  timestamptz not null,
  created_at  timestamptz not null default now(),
  updated_at  timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint org_invitations_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
create index org_invitations_org_idx on data.org_invitations (app_id, sandbox_id, org_id, id);
create unique index org_invitations_email_key on data.org_invitations (app_id, sandbox_id, org_id, email_key);
create trigger at_most after insert on data.org_invitations referencing new table as added
  for each statement execute function app.at_most_in_org('1000', 'org_invitations');
select app.wall('data.org_invitations', 'select, insert, update, delete');

create table data.user_invites (
  id          text collate "C" not null,
  app_id      text collate "C" not null,
  sandbox_id  text collate "C" not null,
  org_id      text collate "C" not null,
  user_id     text collate "C" not null,
  -- Of its key.
  hash        bytea not null,
  metadata    jsonb not null default '{}'
              constraint user_invites_metadata_check check (octet_length(metadata::text) <= 24576),
  accepted_by text collate "C",
  expires_at  timestamptz not null,
  created_at  timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint user_invites_hash_key unique (app_id, sandbox_id, org_id, hash),
  constraint user_invites_user_fkey foreign key (app_id, sandbox_id, org_id, user_id)
    references data.users (app_id, sandbox_id, org_id, id) on delete cascade
);
create index user_invites_user_idx on data.user_invites (app_id, sandbox_id, org_id, user_id, id);
create trigger at_most after insert on data.user_invites referencing new table as added
  for each statement execute function app.at_most_in_org('10000', 'user_invites');
select app.wall('data.user_invites', 'select, insert, update, delete');
