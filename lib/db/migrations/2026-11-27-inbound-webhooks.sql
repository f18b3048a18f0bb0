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
  -- Of its address's token a SHA-256; and, until `previous_ends_at`, of the one before.
  token_hash          bytea not null,
  previous_token_hash bytea,
  previous_ends_at    timestamptz,
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
  check ((previous_token_hash is null) = (previous_ends_at is null)),
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
  (!exists (@.retention_days.receipts)
    || (@.retention_days.receipts >= 7 && @.retention_days.receipts <= 3650 && @.retention_days.receipts % 1 == 0))');

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
     and (h.token_hash = hash or (h.previous_token_hash = hash and h.previous_ends_at > now()))
     and (sandbox = '-' or exists (select from data.sandboxes s
       where s.app_id = app and s.sandbox_id = sandbox and (s.expires_at <= now()) is not true))
     and not exists (select from app.endings e where e.app_id = app and e.sandbox_id = sandbox and e.id in (sandbox, org));
  if not found then raise 'inbound_webhook' using errcode = 'AE404'; end if;
  if w.status = 'suspended' then raise 'org_suspended' using errcode = 'AE403'; end if;
  perform app.prove(app, sandbox, org);
end $$;
grant execute on function app.enter_hook to agentry_api;

-- Deletes, in every tenant, a slice of what is past its time: at most so many rows, so that no other request waits for
-- it. Answers how many; 0 where nothing is left, or another does it at this moment. Idempotency keys after a day, tokens
-- and their families a month after they expired, sandboxes when they expire, what hangs on an org, sandbox, user or
-- agent that has ended, entries of the feed, calls of models, events, occurrences, runs and receipts of
-- webhooks when their app keeps them no longer. Whoever calls it, and however often, deletes nothing else.
create or replace function app.sweep() returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  most constant bigint := 5000;
  deleted bigint := 0;
  n bigint;
  one record;
begin
  if not pg_try_advisory_xact_lock(4711043) then return 0; end if;

  delete from data.idempotency_keys where ctid = any (array(
    select ctid from data.idempotency_keys where created_at < now() - interval '24 hours' limit most));
  get diagnostics n = row_count;
  deleted := deleted + n;
  delete from data.tokens where ctid = any (array(
    select ctid from data.tokens where expires_at < now() - interval '30 days' limit most - deleted));
  get diagnostics n = row_count;
  deleted := deleted + n;
  delete from data.token_families where ctid = any (array(
    select ctid from data.token_families where expires_at < now() - interval '30 days' limit most - deleted));
  get diagnostics n = row_count;
  deleted := deleted + n;

  with past as (
    delete from data.sandboxes where ctid = any (array(
      select ctid from data.sandboxes where expires_at < now() limit most - deleted)) returning app_id, sandbox_id
  )
  insert into app.endings (app_id, sandbox_id, id, kind) select app_id, sandbox_id, sandbox_id, 'sandbox' from past;
  get diagnostics n = row_count;
  deleted := deleted + n;

  for one in select e.app_id, e.sandbox_id, e.id from app.endings e order by e.ended_at loop
    exit when deleted >= most;
    -- What came to be used while it ended stays hidden until that goes; it holds up no other.
    begin
      deleted := deleted + app.finish(one.app_id, one.sandbox_id, one.id, most - deleted);
    exception when foreign_key_violation then null;
    end;
  end loop;

  -- Each app says for how long; only places that have something older are looked at.
  for one in with kept as materialized (
      select a.id as app_id, app.id_at(now() - make_interval(days => coalesce((a.settings -> 'activity_retention_days')::integer, 400))) as entry,
        app.id_at(now() - make_interval(days => coalesce((a.settings #> '{retention_days,events}')::integer, 30))) as event,
        app.id_at(now() - make_interval(days => coalesce((a.settings #> '{retention_days,occurrences}')::integer, 30))) as occurrence,
        app.id_at(now() - make_interval(days => coalesce((a.settings #> '{retention_days,runs}')::integer, 90))) as run
      from data.apps a)
    select k.*, t.sandbox_id from kept k join data.tenants t on t.app_id = k.app_id and t.org_id = '-'
     where exists (select from data.activity_feed_entries e
         where e.app_id = t.app_id and e.sandbox_id = t.sandbox_id and e.id < 'afe_' || k.entry)
       or exists (select from data.model_calls c
         where c.app_id = t.app_id and c.sandbox_id = t.sandbox_id and c.id < 'mcl_' || k.entry)
       or exists (select from data.events e where e.app_id = t.app_id and e.sandbox_id = t.sandbox_id and e.id < 'evt_' || k.event)
       or exists (select from data.occurrences o
         where o.app_id = t.app_id and o.sandbox_id = t.sandbox_id and o.id < 'occ_' || k.occurrence)
       or exists (select from data.agent_routine_runs r
         where r.app_id = t.app_id and r.sandbox_id = t.sandbox_id and (r.id < 'arr_' || k.run or (r.id >= 'atr_' and r.id < 'atr_' || k.run))) loop
    exit when deleted >= most;
    delete from data.activity_feed_entries where ctid = any (array(
      select ctid from data.activity_feed_entries e
       where e.app_id = one.app_id and e.sandbox_id = one.sandbox_id and e.id < 'afe_' || one.entry limit most - deleted));
    get diagnostics n = row_count;
    deleted := deleted + n;
    delete from data.model_calls where ctid = any (array(
      select ctid from data.model_calls c
       where c.app_id = one.app_id and c.sandbox_id = one.sandbox_id and c.id < 'mcl_' || one.entry limit most - deleted));
    get diagnostics n = row_count;
    deleted := deleted + n;
    -- What is gone of an org's events, its head says: whoever pulls them is told of a gap.
    with past as (
      delete from data.events where ctid = any (array(
        select ctid from data.events e where e.app_id = one.app_id and e.sandbox_id = one.sandbox_id
          and e.id < 'evt_' || one.event and e.sequence is not null limit most - deleted))
      returning org_id, sequence
    ), told as (
      update data.event_heads h set expired = greatest(h.expired, p.through)
        from (select org_id, max(sequence) as through from past group by org_id) p
       where h.app_id = one.app_id and h.sandbox_id = one.sandbox_id and h.org_id = p.org_id
    )
    select count(*) into n from past;
    deleted := deleted + n;
    delete from data.occurrences where ctid = any (array(
      select ctid from data.occurrences o
       where o.app_id = one.app_id and o.sandbox_id = one.sandbox_id and o.id < 'occ_' || one.occurrence limit most - deleted));
    get diagnostics n = row_count;
    deleted := deleted + n;
    -- A run has some ten calls, which go with it.
    delete from data.agent_routine_runs where ctid = any (array(
      select ctid from data.agent_routine_runs r
       where r.app_id = one.app_id and r.sandbox_id = one.sandbox_id and (r.id < 'arr_' || one.run or (r.id >= 'atr_' and r.id < 'atr_' || one.run))
         and r.status not in ('pending', 'running') limit ceil(greatest(0, most - deleted) / 10.0)));
    get diagnostics n = row_count;
    deleted := deleted + 10 * n;
  end loop;
  -- Receipts of inbound webhooks, as long as their app keeps them.
  for one in with kept as materialized (
      select a.id as app_id, app.id_at(now() - make_interval(days => coalesce((a.settings #> '{retention_days,receipts}')::integer, 30))) as receipt
      from data.apps a)
    select k.*, t.sandbox_id from kept k join data.tenants t on t.app_id = k.app_id and t.org_id = '-'
     where exists (select from data.webhook_receipts r
       where r.app_id = t.app_id and r.sandbox_id = t.sandbox_id and r.id < 'whr_' || k.receipt) loop
    exit when deleted >= most;
    delete from data.webhook_receipts where ctid = any (array(
      select ctid from data.webhook_receipts r
       where r.app_id = one.app_id and r.sandbox_id = one.sandbox_id and r.id < 'whr_' || one.receipt limit most - deleted));
    get diagnostics n = row_count;
    deleted := deleted + n;
  end loop;
  return deleted;
end $$;
