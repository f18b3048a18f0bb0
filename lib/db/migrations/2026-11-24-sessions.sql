-- Sessions: what an agent was asked to do. What one is in the middle of, its Durable Object holds; status, counts and what
-- came of it are told here, by whoever has the newest `sequence`.

-- Durable Objects whose row is gone, and which are still to be told so. The sweep tells them.
create table app.erasures (
  n          bigint generated always as identity primary key,
  app_id     text collate "C" not null,
  sandbox_id text collate "C" not null,
  org_id     text collate "C" not null,
  id         text collate "C" not null,
  kind       text not null check (kind in ('agent_session')),
  deleted_at timestamptz not null default now(),
  tried_at   timestamptz
);
create index erasures_tried_at_idx on app.erasures (tried_at nulls first, n);

-- The argument is the kind. Once a statement, also where what the rows hang on takes them along.
create function app.leave_objects() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into app.erasures (app_id, sandbox_id, org_id, id, kind)
    select g.app_id, g.sandbox_id, g.org_id, g.id, tg_argv[0] from gone g;
  return null;
end $$;

create table data.agent_sessions (
  id                text collate "C" not null,
  app_id            text collate "C" not null,
  sandbox_id        text collate "C" not null,
  org_id            text collate "C" not null,
  agent_id          text collate "C" not null,
  -- For whom it works. It goes with that user.
  user_id           text collate "C",
  trajectory_id     text collate "C" not null,
  name              text,
  instructions      text not null,
  max_turns         integer not null check (max_turns between 1 and 1000),
  max_tokens        integer not null check (max_tokens between 1 and 10000000),
  max_runs_per_turn integer not null check (max_runs_per_turn between 1 and 100),
  start_idle        boolean not null,
  on_idle           text not null check (on_idle in ('wait', 'complete')),
  result_schema     jsonb,
  is_system_session boolean not null default false,
  metadata          jsonb not null default '{}',
  status            text not null default 'pending'
                    check (status in ('pending', 'running', 'waiting', 'completed', 'failed', 'cancelled')),
  error             text check (error is null or status = 'failed'),
  result            jsonb check (result is null or status = 'completed'),
  -- Of the newest frame that the columns around this one tell of.
  sequence          integer not null default 0,
  started_at        timestamptz check (started_at is null or status <> 'pending'),
  completed_at      timestamptz,
  -- When its object is to be looked after, if nobody has heard of it by then: also of one that never began.
  look_at           timestamptz default now() + interval '45 seconds',
  created_at        timestamptz not null default now(),
  updated_at        timestamptz not null default now(),
  check ((completed_at is not null) = (status in ('completed', 'failed', 'cancelled'))),
  primary key (app_id, sandbox_id, id),
  constraint agent_sessions_owner_key unique (app_id, sandbox_id, org_id, id),
  constraint agent_sessions_agent_key unique (app_id, sandbox_id, org_id, agent_id, id),
  constraint agent_sessions_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade,
  constraint agent_sessions_user_fkey foreign key (app_id, sandbox_id, org_id, user_id)
    references data.users (app_id, sandbox_id, org_id, id) on delete cascade
);
create index agent_sessions_user_idx on data.agent_sessions (app_id, sandbox_id, org_id, user_id) where user_id is not null;
create unique index agent_sessions_trajectory_key on data.agent_sessions (app_id, sandbox_id, trajectory_id);
create index agent_sessions_look_at_idx on data.agent_sessions (look_at) where look_at is not null;
-- A page of a hundred makes 20 MB.
alter table data.agent_sessions
  add constraint agent_sessions_instructions_check check (octet_length(instructions) <= 65536),
  add constraint agent_sessions_result_schema_check check (octet_length(result_schema::text) <= 65536),
  add constraint agent_sessions_metadata_check check (octet_length(metadata::text) <= 24576),
  add constraint agent_sessions_error_check check (octet_length(error) <= 8192),
  add constraint agent_sessions_result_check check (octet_length(result::text) <= 98304);
create trigger leave_objects after delete on data.agent_sessions referencing old table as gone
  for each statement execute function app.leave_objects('agent_session');
select app.wall('data.agent_sessions', 'select, insert, update, delete');

-- What a session's model asked its tools for.
create table data.tool_calls (
  id             text collate "C" not null,
  app_id         text collate "C" not null,
  sandbox_id     text collate "C" not null,
  org_id         text collate "C" not null,
  agent_id       text collate "C" not null,
  session_id     text collate "C" not null,
  name           text not null,
  turn           integer not null,
  arguments      jsonb not null,
  arguments_hash text not null,
  effect         text check (effect in ('read', 'idempotent', 'once')),
  outcome        text not null check (outcome in
                 ('pending', 'awaiting_approval', 'running', 'accepted', 'succeeded', 'failed', 'denied', 'unknown')),
  error          text,
  -- How often it was begun.
  attempts       integer not null,
  -- As a session's.
  sequence       integer not null,
  requested_at   timestamptz not null,
  started_at     timestamptz,
  completed_at   timestamptz,
  primary key (app_id, sandbox_id, id),
  constraint tool_calls_owner_key unique (app_id, sandbox_id, org_id, id),
  constraint tool_calls_agent_fkey foreign key (app_id, sandbox_id, org_id, agent_id)
    references data.agents (app_id, sandbox_id, org_id, id) on delete cascade,
  constraint tool_calls_session_fkey foreign key (app_id, sandbox_id, org_id, agent_id, session_id)
    references data.agent_sessions (app_id, sandbox_id, org_id, agent_id, id) on delete cascade
);
create index tool_calls_session_idx on data.tool_calls (app_id, sandbox_id, org_id, agent_id, session_id, id);
-- What waits for a person.
create index tool_calls_outcome_idx on data.tool_calls (app_id, sandbox_id, org_id, id)
  where outcome in ('awaiting_approval', 'unknown');
-- A page of a hundred makes 7 MB.
alter table data.tool_calls
  add constraint tool_calls_arguments_check check (octet_length(arguments::text) <= 65536),
  add constraint tool_calls_error_check check (octet_length(error) <= 8192);
select app.wall('data.tool_calls', 'select, insert, update');

drop function app.enter_object(text, text, text, bytea);
-- A Durable Object acts for one tenant and has no credential: its door takes a MAC over the tenant, and asks that the
-- tenant is still there. Answers the org's status: of a suspended one it may write down what is in motion.
create function app.enter_object(app text, sandbox text, org text, mac bytea) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare status text;
begin
  perform app.check_mac(concat_ws('.', 'object', app, sandbox, org), mac);
  select coalesce(o.status, 'active') into status from data.tenants t
    left join data.orgs o on (o.app_id, o.sandbox_id, o.id) = (t.app_id, t.sandbox_id, t.org_id)
   where t.app_id = app and t.sandbox_id = sandbox and t.org_id = org
     and not exists (select from app.endings e where e.app_id = app and e.sandbox_id = sandbox and e.id = org);
  if not found then raise 'object_gone' using errcode = 'AE401'; end if;
  if sandbox <> '-' then perform app.check_sandbox(app, sandbox); end if;
  perform app.prove(app, sandbox, org);
  return status;
end $$;
grant execute on function app.enter_object to agentry_api;

-- For the sweep, which is nobody's either and takes a MAC of its own: sessions whose object should have been heard of by
-- now. Each is claimed for a minute. Of a suspended org, when that is active again; of what has ended, never.
create function app.claim_behind(mac bytea, most integer) returns setof data.agent_sessions
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac('objects.sweep', mac);
  return query update data.agent_sessions s set look_at = now() + interval '60 seconds'
    where s.ctid = any (array(select b.ctid from data.agent_sessions b
      where b.look_at < now() and b.status in ('pending', 'running', 'waiting')
        and not exists (select from data.orgs o
          where (o.app_id, o.sandbox_id, o.id) = (b.app_id, b.sandbox_id, b.org_id) and o.status = 'suspended')
        and not exists (select from app.endings e where (e.app_id, e.sandbox_id) = (b.app_id, b.sandbox_id)
          and e.id in (b.sandbox_id, b.org_id, b.user_id, b.agent_id))
      order by b.look_at limit most for no key update skip locked))
    returning s.*;
end $$;
grant execute on function app.claim_behind to agentry_api;

-- Objects that are to erase themselves, each claimed for a minute; and those that have.
create function app.claim_erasures(mac bytea, most integer)
returns table (n bigint, app_id text, sandbox_id text, org_id text, id text, kind text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac('objects.sweep', mac);
  return query update app.erasures x set tried_at = now()
    where x.n = any (array(select b.n from app.erasures b
      where b.tried_at is null or b.tried_at < now() - interval '60 seconds'
      order by b.tried_at nulls first, b.n limit most for update skip locked))
    returning x.n, x.app_id, x.sandbox_id, x.org_id, x.id, x.kind;
end $$;
grant execute on function app.claim_erasures to agentry_api;

create function app.erased(mac bytea, done bigint[]) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform app.check_mac('objects.sweep', mac);
  delete from app.erasures x where x.n = any (done);
end $$;
grant execute on function app.erased to agentry_api;

-- Which of those who watch something may do so no longer, by their place in the list, with what their door refused them
-- for. Through the door of each, as whoever calls it: no door is open at the end.
create function app.watch(watchers jsonb) returns table (n integer, code text, reason text)
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare w record;
begin
  for w in select * from rows from (jsonb_to_recordset(watchers) as (app text, sandbox text, org text, usr text, jti text,
      roles text[], key_hash text, beside text)) with ordinality as
      r (app, sandbox, org, usr, jti, roles, key_hash, beside, nth) loop
    begin
      if w.jti is null then
        perform app.enter_key(w.app, w.sandbox, decode(w.key_hash, 'hex'), decode(w.beside, 'hex'));
      else
        perform app.enter_token(w.app, w.sandbox, w.org, w.usr, w.jti, w.roles, decode(w.beside, 'hex'));
      end if;
    exception when sqlstate 'AE401' or sqlstate 'AE403' then
      n := w.nth - 1;
      code := sqlstate;
      reason := sqlerrm;
      return next;
    end;
  end loop;
  perform set_config('app.app_id', '', true), set_config('app.sandbox_id', '', true), set_config('app.org_id', '', true),
    set_config('app.proof', '', true), set_config('app.ended', '', true), set_config('app.org_role', '', true);
end $$;
grant execute on function app.watch to agentry_api;
