-- What still waits isn't swept, nor an event that is younger than its id; no app is always the first.

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
  delete from data.one_time_secrets where ctid = any (array(
    select ctid from data.one_time_secrets where expires_at < now() - interval '1 day' limit most - deleted));
  get diagnostics n = row_count;
  deleted := deleted + n;
  delete from data.developer_sessions where ctid = any (array(
    select ctid from data.developer_sessions where expires_at < now() limit most - deleted));
  get diagnostics n = row_count;
  deleted := deleted + n;
  delete from data.sandbox_mails where ctid = any (array(
    select ctid from data.sandbox_mails where created_at < now() - interval '7 days' limit most - deleted));
  get diagnostics n = row_count;
  deleted := deleted + n;
  delete from app.attempts where ctid = any (array(
    select ctid from app.attempts where resets_at < now() - interval '1 day' limit most - deleted));
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
        now() - make_interval(days => coalesce((a.settings #> '{retention_days,events}')::integer, 30)) as told,
        app.id_at(now() - make_interval(days => coalesce((a.settings #> '{retention_days,occurrences}')::integer, 30))) as occurrence,
        app.id_at(now() - make_interval(days => coalesce((a.settings #> '{retention_days,runs}')::integer, 90))) as run,
        app.id_at(now() - make_interval(days => coalesce((a.settings #> '{retention_days,webhook_deliveries}')::integer, 30))) as delivery,
        app.id_at(now() - make_interval(days => coalesce((a.settings #> '{retention_days,webhook_receipts}')::integer, 30))) as receipt
      from data.apps a)
    select k.*, t.sandbox_id from kept k join data.tenants t on t.app_id = k.app_id and t.org_id = '-'
     where exists (select from data.activity_feed_entries e
         where e.app_id = t.app_id and e.sandbox_id = t.sandbox_id and e.id < 'afe_' || k.entry)
       or exists (select from data.model_calls c
         where c.app_id = t.app_id and c.sandbox_id = t.sandbox_id and c.id < 'mcl_' || k.entry)
       or exists (select from data.events e where e.app_id = t.app_id and e.sandbox_id = t.sandbox_id and e.id < 'evt_' || app.id_at(k.told)
           and e.created_at < k.told)
       or exists (select from data.occurrences o
         where o.app_id = t.app_id and o.sandbox_id = t.sandbox_id and o.id < 'occ_' || k.occurrence
           and (o.fired_at is not null or o.outcome not in ('buffered', 'backfilled')))
       or exists (select from data.agent_routine_runs r
         where r.app_id = t.app_id and r.sandbox_id = t.sandbox_id and (r.id < 'arr_' || k.run or (r.id >= 'atr_' and r.id < 'atr_' || k.run)))
       or exists (select from data.webhook_deliveries d
         where d.app_id = t.app_id and d.sandbox_id = t.sandbox_id and d.id < 'whd_' || k.delivery)
       or exists (select from data.webhook_receipts d
         where d.app_id = t.app_id and d.sandbox_id = t.sandbox_id and d.id < 'whr_' || k.receipt)
     -- By no order: one that has much to delete keeps no other waiting, day by day.
     order by random() loop
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
    -- What is gone of an org's events, its head says: whoever pulls them is told of a gap. One whose id is as old as the command
    -- that it was told by stays for as long as it has been there itself.
    with past as (
      delete from data.events where ctid = any (array(
        select ctid from data.events e where e.app_id = one.app_id and e.sandbox_id = one.sandbox_id
          and e.id < 'evt_' || app.id_at(one.told) and e.created_at < one.told and e.sequence is not null limit most - deleted))
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
       where o.app_id = one.app_id and o.sandbox_id = one.sandbox_id and o.id < 'occ_' || one.occurrence
         -- What still waits is to come.
         and (o.fired_at is not null or o.outcome not in ('buffered', 'backfilled')) limit most - deleted));
    get diagnostics n = row_count;
    deleted := deleted + n;
    -- A run has some ten calls, which go with it.
    delete from data.agent_routine_runs where ctid = any (array(
      select ctid from data.agent_routine_runs r
       where r.app_id = one.app_id and r.sandbox_id = one.sandbox_id and (r.id < 'arr_' || one.run or (r.id >= 'atr_' and r.id < 'atr_' || one.run))
         and r.status not in ('pending', 'running') limit ceil(greatest(0, most - deleted) / 10.0)));
    get diagnostics n = row_count;
    deleted := deleted + 10 * n;
    delete from data.webhook_deliveries where ctid = any (array(
      select ctid from data.webhook_deliveries d
       where d.app_id = one.app_id and d.sandbox_id = one.sandbox_id and d.id < 'whd_' || one.delivery
       limit greatest(0, most - deleted)));
    get diagnostics n = row_count;
    deleted := deleted + n;
    delete from data.webhook_receipts where ctid = any (array(
      select ctid from data.webhook_receipts d
       where d.app_id = one.app_id and d.sandbox_id = one.sandbox_id and d.id < 'whr_' || one.receipt
       limit greatest(0, most - deleted)));
    get diagnostics n = row_count;
    deleted := deleted + n;
  end loop;
  return deleted;
end $$;
