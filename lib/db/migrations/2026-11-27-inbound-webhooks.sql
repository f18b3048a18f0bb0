-- Inbound webhooks: addresses at which somebody outside tells an org of something, and what was told there.

create table data.inbound_webhooks (
  id                  text collate "C" not null,
  app_id              text collate "C" not null,
  sandbox_id          text collate "C" not null,
  org_id              text collate "C" not null,
  name                text not null,
  provider            text not null check (provider in ('standard', 'github', 'stripe', 'slack', 'hmac', 'url')),
  -- What a delivery starts, if anything. No foreign keys: it may be gone since.
  routine_id          text collate "C",
  automation_id       text collate "C",
  -- How a provider signs that is none of the known ones.
  hmac                jsonb check (octet_length(hmac::text) <= 4096),
  -- Of its address's token a SHA-256; and, until `overlap_expires_at`, of the one before.
  token_hash          bytea not null,
  previous_token_hash bytea,
  overlap_expires_at    timestamptz,
  -- The secrets that deliveries are signed by, newest first, and what holds them to this row: lib/auth/vault.ts.
  sealed              bytea,
  tag                 bytea,
  -- So many have come since then, good or not.
  counted_since       timestamptz not null default now(),
  counted             integer not null default 0,
  last_received_at    timestamptz,
  created_at          timestamptz not null default now(),
  updated_at          timestamptz not null default now(),
  check ((sealed is null) = (tag is null)),
  check (provider <> 'url' or sealed is null),
  check ((previous_token_hash is null) = (overlap_expires_at is null)),
  check (routine_id is null or automation_id is null),
  constraint inbound_webhooks_hmac_fits check ((provider = 'hmac') = (hmac is not null)),
  primary key (app_id, sandbox_id, id),
  constraint inbound_webhooks_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
create index inbound_webhooks_org_idx on data.inbound_webhooks (app_id, sandbox_id, org_id, id);
create unique index inbound_webhooks_token_key on data.inbound_webhooks (app_id, sandbox_id, org_id, token_hash);
create index inbound_webhooks_previous_token_idx on data.inbound_webhooks (app_id, sandbox_id, org_id, previous_token_hash)
  where previous_token_hash is not null;
create trigger at_most after insert on data.inbound_webhooks referencing new table as added
  for each statement execute function app.at_most_in_org('50', 'inbound_webhooks');
select app.wall('data.inbound_webhooks', 'select, insert, update, delete');

-- What came, and what became of it. It outlives its webhook: a delete would have to wait for all there is.
create table data.webhook_receipts (
  id          text collate "C" not null,
  app_id      text collate "C" not null,
  sandbox_id  text collate "C" not null,
  org_id      text collate "C" not null,
  webhook_id  text collate "C" not null,
  -- What the provider calls the delivery, if it calls it anything.
  delivery_id text,
  status      text not null check (status in ('received', 'started', 'inactive', 'answered')),
  event_id    text collate "C",
  run_id      text collate "C",
  replay_of   text collate "C",
  -- As its event says it; the body, where that is too long to be said there.
  payload     jsonb not null,
  body        bytea,
  created_at  timestamptz not null default now(),
  check ((run_id is not null) = (status = 'started')),
  check ((event_id is null) = (status = 'answered')),
  primary key (app_id, sandbox_id, id),
  constraint webhook_receipts_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
create index webhook_receipts_webhook_idx on data.webhook_receipts (app_id, sandbox_id, org_id, webhook_id, id);
create index webhook_receipts_delivery_idx on data.webhook_receipts (app_id, sandbox_id, org_id, webhook_id, delivery_id, created_at)
  where delivery_id is not null;
alter table data.webhook_receipts
  add constraint webhook_receipts_payload_check check (octet_length(payload::text) <= 65536),
  add constraint webhook_receipts_body_check check (octet_length(body) <= 1000000);
select app.wall('data.webhook_receipts', 'select, insert');

-- Not below seven days: for so long a delivery that comes again is known.
alter table data.apps add constraint apps_retention_of_receipts_check check (settings @? '$ ?
  (!exists (@.retention_days.webhook_receipts)
    || (@.retention_days.webhook_receipts >= 7 && @.retention_days.webhook_receipts <= 3650 && @.retention_days.webhook_receipts % 1 == 0))');

-- The door of an inbound webhook, whose credential is its token: what is known of that is its hash, so that whoever can
-- only ask this database, and has read the hash here, gets in by no MAC that a Worker made. Unknown, deleted, and of a
-- tenant that is gone are one refusal.
create function app.enter_hook(app text, sandbox text, org text, hash bytea, mac bytea) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare w record;
begin
  perform app.check_mac(concat_ws('.', 'hook', app, sandbox, org, encode(hash, 'hex')), mac);
  select o.status into w from data.inbound_webhooks h
    left join data.orgs o on (o.app_id, o.sandbox_id, o.id) = (h.app_id, h.sandbox_id, h.org_id)
   where h.app_id = app and h.sandbox_id = sandbox and h.org_id = org
     and (h.token_hash = hash or (h.previous_token_hash = hash and h.overlap_expires_at > now()))
     and (sandbox = '-' or exists (select from data.sandboxes s
       where s.app_id = app and s.sandbox_id = sandbox and (s.expires_at <= now()) is not true))
     and not exists (select from app.endings e where e.app_id = app and e.sandbox_id = sandbox and e.id in (sandbox, org));
  if not found then raise 'inbound_webhook' using errcode = 'AE404'; end if;
  if w.status = 'suspended' then raise 'org_suspended' using errcode = 'AE403'; end if;
  perform app.prove(app, sandbox, org);
end $$;
grant execute on function app.enter_hook to agentry_api;
