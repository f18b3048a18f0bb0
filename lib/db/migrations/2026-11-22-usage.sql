-- What models were asked for, and what it took: a row before the call, its figures after. One whose end nobody wrote down
-- stays `unknown`. It goes with whoever asked.
create table data.model_calls (
  id               text collate "C" not null,
  app_id           text collate "C" not null,
  sandbox_id       text collate "C" not null,
  org_id           text collate "C" not null,
  -- Null: a secret key asked.
  user_id          text collate "C",
  session_id       text,
  operation        text not null check (operation in ('chat', 'image', 'embedding', 'evaluation')),
  model            text not null,
  status           text not null default 'unknown' check (status in ('unknown', 'completed', 'failed', 'cancelled')),
  -- As the provider counts; null where it tells nothing. Cached ones are of the input, reasoning of the output.
  input_tokens     bigint,
  output_tokens    bigint,
  cached_tokens    bigint,
  reasoning_tokens bigint,
  created_at       timestamptz not null default now(),
  completed_at     timestamptz,
  check ((status = 'unknown') = (completed_at is null)),
  primary key (app_id, sandbox_id, id),
  constraint model_calls_tenant_fkey
    foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade,
  constraint model_calls_user_fkey foreign key (app_id, sandbox_id, org_id, user_id)
    references data.users (app_id, sandbox_id, org_id, id) on delete cascade
);
create index model_calls_org_idx on data.model_calls (app_id, sandbox_id, org_id, id);
create index model_calls_user_idx on data.model_calls (app_id, sandbox_id, org_id, user_id) where user_id is not null;
select app.wall('data.model_calls', 'select, insert, update');

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

  for one in select t.app_id, t.sandbox_id, app.id_at(now() - make_interval(
        days => coalesce((a.settings -> 'activity_retention_days')::integer, 400))) as oldest
      from data.tenants t join data.apps a on a.id = t.app_id where t.org_id = '-' loop
    exit when deleted >= most;
    delete from data.activity_feed_entries where ctid = any (array(
      select ctid from data.activity_feed_entries e
       where e.app_id = one.app_id and e.sandbox_id = one.sandbox_id and e.id < 'afe_' || one.oldest limit most - deleted));
    get diagnostics n = row_count;
    deleted := deleted + n;
    delete from data.model_calls where ctid = any (array(
      select ctid from data.model_calls c
       where c.app_id = one.app_id and c.sandbox_id = one.sandbox_id and c.id < 'mcl_' || one.oldest limit most - deleted));
    get diagnostics n = row_count;
    deleted := deleted + n;
  end loop;
  return deleted;
end $$;
