-- Events are numbered, and handed to queues; they are kept for a while, and what an app keeps for how long it may say.

alter table data.event_heads
  -- Of the newest event that was kept long enough: it and those before it are gone, or going.
  add column expired  bigint not null default 0,
  -- When the sweep last woke who numbers here.
  add column woken_at timestamptz;
create index event_heads_behind_idx on data.event_heads (app_id, sandbox_id, org_id) where delivered < sequence;
create unique index events_dedupe_key_key on data.events (app_id, sandbox_id, org_id, name, idempotency_key)
  where idempotency_key is not null;
-- Who reacts to an org's events, in one look.
create index agent_routines_listening_idx on data.agent_routines (app_id, sandbox_id, org_id)
  where status = 'active' and coalesce(event_type, event_config::text) is not null;

-- From where on each of these names is heard: from here, or from where it has been. By position, since a clock may step back.
create function app.heard_since(before jsonb, names text[]) returns jsonb
language sql volatile set search_path = pg_catalog, pg_temp as $$
  select coalesce(jsonb_object_agg(name, coalesce(before -> name, to_jsonb(nextval('data.events_position_seq')))), '{}')
    from unnest(names) name where name is not null
$$;
grant execute on function app.heard_since to agentry_api;
grant usage on sequence data.events_position_seq to agentry_api;

-- Gives the events of a place their numbers, at most so many, in the order of their positions; answers how many. Whoever
-- numbers holds the head from before it looks, so that of two at once the second sees what the first has numbered: no
-- gap, no repeat.
create function app.number_events(app text, sandbox text, org text, most integer) returns bigint
language plpgsql volatile set search_path = '' as $$
declare
  head bigint;
  n bigint;
begin
  insert into data.event_heads (app_id, sandbox_id, org_id) values (app, sandbox, org) on conflict do nothing;
  select h.sequence into head from data.event_heads h where (h.app_id, h.sandbox_id, h.org_id) = (app, sandbox, org) for update;
  update data.events e set sequence = head + u.n
    from (select b.id, row_number() over (order by b.position) as n from data.events b
       where b.app_id = app and b.sandbox_id = sandbox and b.org_id = org and b.sequence is null
       order by b.position limit most) u
   where e.app_id = app and e.sandbox_id = sandbox and e.id = u.id;
  get diagnostics n = row_count;
  if n > 0 then
    update data.event_heads h set sequence = head + n where (h.app_id, h.sandbox_id, h.org_id) = (app, sandbox, org);
  end if;
  return n;
end $$;
grant execute on function app.number_events to agentry_api;

-- Refuses rows of a table that their org has enough of, as app.at_most those of an agent. The arguments are the number,
-- and the name under which an app's `settings.quotas` may give another. The detail is the org, and that name.
create function app.at_most_in_org() returns trigger
language plpgsql volatile set search_path = '' as $$
declare
  one record;
  n int;
  most int;
begin
  for one in select distinct a.app_id, a.sandbox_id, a.org_id from added a order by a.org_id loop
    -- Of two that come at once the second sees the first. An org's own row is not everybody's to lock.
    perform pg_advisory_xact_lock(hashtextextended(concat_ws('/', tg_table_name, one.app_id, one.sandbox_id, one.org_id), 0));
    select coalesce((p.settings #>> array['quotas', tg_argv[1]])::int, tg_argv[0]::int) into most
      from data.apps p where p.id = one.app_id;
    execute format('select count(*) from data.%I where (app_id, sandbox_id, org_id) = ($1, $2, $3)', tg_table_name)
      into n using one.app_id, one.sandbox_id, one.org_id;
    if n > most then
      raise '%', most using errcode = 'AE422', table = tg_table_name, constraint = 'org',
        detail = concat_ws(' ', one.org_id, tg_argv[1]);
    end if;
  end loop;
  return null;
end $$;

-- Event subscriptions: of which events somebody is given each, to be claimed one by one. What waits to be claimed, its
-- Durable Object holds.
create table data.event_subscriptions (
  id                         text collate "C" not null,
  app_id                     text collate "C" not null,
  sandbox_id                 text collate "C" not null,
  org_id                     text collate "C" not null,
  -- Whose it is, and goes with; it hears of what that user may read. Null: the app's own.
  user_id                    text collate "C",
  name                       text not null,
  event_names                text[] not null,
  status                     text not null default 'active' check (status in ('active', 'paused')),
  -- Of each of the names, the position behind which its events are heard; null while it is paused.
  heard_since                jsonb,
  max_pending_events         integer not null check (max_pending_events between 1 and 1000),
  retention_seconds          integer not null check (retention_seconds between 7200 and 2592000),
  visibility_timeout_seconds integer not null check (visibility_timeout_seconds between 15 and 3600),
  -- By which the ids of its deliveries say whose they are.
  tag                        text collate "C" not null generated always as (right(id, 10)) stored,
  created_at                 timestamptz not null default now(),
  updated_at                 timestamptz not null default now(),
  primary key (app_id, sandbox_id, id),
  constraint event_subscriptions_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade,
  constraint event_subscriptions_user_fkey foreign key (app_id, sandbox_id, org_id, user_id)
    references data.users (app_id, sandbox_id, org_id, id) on delete cascade
);
create unique index event_subscriptions_tag_key on data.event_subscriptions (app_id, sandbox_id, tag);
create index event_subscriptions_org_idx on data.event_subscriptions (app_id, sandbox_id, org_id, id);
create index event_subscriptions_user_idx on data.event_subscriptions (app_id, sandbox_id, org_id, user_id)
  where user_id is not null;
create function app.listen() returns trigger
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  new.heard_since := case when new.status = 'active' then app.heard_since(old.heard_since, new.event_names) end;
  return new;
end $$;
create trigger listen before insert or update of status, event_names on data.event_subscriptions
  for each row execute function app.listen();
create trigger at_most after insert on data.event_subscriptions referencing new table as added
  for each statement execute function app.at_most_in_org('50', 'event_subscriptions');
alter table app.erasures drop constraint erasures_kind_check;
alter table app.erasures add constraint erasures_kind_check check (kind in ('agent_session', 'event_subscription'));
create trigger leave_objects after delete on data.event_subscriptions referencing old table as gone
  for each statement execute function app.leave_objects('event_subscription');
select app.wall('data.event_subscriptions', 'select, insert, update, delete');

-- Places where events wait for their numbers, or for those who react to them, though whoever numbers there should have
-- been woken long ago: by turns, those first whose last turn is longest past. Each is claimed for a minute.
create function app.claim_unnumbered(mac bytea, most integer) returns setof data.tenants
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac('objects.sweep', mac);
  -- From place to place along the index of what has no number, however much there is of it in each.
  return query with recursive place as (
    (select e.app_id, e.sandbox_id, e.org_id from data.events e where e.sequence is null order by 1, 2, 3 limit 1)
    union all
    select n.* from place p cross join lateral (select e.app_id, e.sandbox_id, e.org_id from data.events e
      where e.sequence is null and (e.app_id, e.sandbox_id, e.org_id) > (p.app_id, p.sandbox_id, p.org_id)
      order by 1, 2, 3 limit 1) n
  ), waiting as (
    select p.* from place p cross join lateral (select e.created_at from data.events e
        where (e.app_id, e.sandbox_id, e.org_id) = (p.app_id, p.sandbox_id, p.org_id) and e.sequence is null
        order by e.position limit 1) oldest
     where oldest.created_at < now() - interval '10 seconds'
    union
    select h.app_id, h.sandbox_id, h.org_id from data.event_heads h where h.delivered < h.sequence
  ), woken as (
    insert into data.event_heads as h (app_id, sandbox_id, org_id, woken_at)
      select w.app_id, w.sandbox_id, w.org_id, now() from waiting w left join data.event_heads b using (app_id, sandbox_id, org_id)
       where (b.woken_at is null or b.woken_at < now() - interval '60 seconds')
         and not exists (select from app.endings e where (e.app_id, e.sandbox_id) = (w.app_id, w.sandbox_id)
           and e.id in (w.sandbox_id, w.org_id))
       order by b.woken_at nulls first limit most
      on conflict on constraint event_heads_pkey do update set woken_at = now()
      returning h.app_id, h.sandbox_id, h.org_id
  )
  select w.app_id, w.sandbox_id, w.org_id from woken w;
end $$;
grant execute on function app.claim_unnumbered to agentry_api;

-- How many days what is kept for so long stays: of each kind of record, its own number.
alter table data.apps add constraint apps_retention_days_check check (settings @? '$ ?
  ((!exists (@.retention_days.events)
      || (@.retention_days.events >= 1 && @.retention_days.events <= 3650 && @.retention_days.events % 1 == 0))
    && (!exists (@.retention_days.occurrences)
      || (@.retention_days.occurrences >= 1 && @.retention_days.occurrences <= 3650 && @.retention_days.occurrences % 1 == 0))
    && (!exists (@.retention_days.runs)
      || (@.retention_days.runs >= 1 && @.retention_days.runs <= 3650 && @.retention_days.runs % 1 == 0)))');
