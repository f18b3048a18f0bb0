-- No statement runs for ever: the doors bound what follows them, the role's settings the doors themselves.
create or replace function app.prove(app text, sandbox text, org text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  perform set_config('app.app_id', app, true), set_config('app.sandbox_id', sandbox, true),
    set_config('app.org_id', org, true), set_config('app.proof', app.proof(app, sandbox, org), true),
    set_config('statement_timeout', '5s', true), set_config('lock_timeout', '2s', true);
end $$;

reset role;
do $bounds$ begin
  execute format('alter role agentry_api in database %I set statement_timeout = %L', current_database(), '5s');
  execute format('alter role agentry_api in database %I set lock_timeout = %L', current_database(), '2s');
exception when insufficient_privilege then
  raise warning 'agentry_api keeps its own statement_timeout and lock_timeout: %', sqlerrm;
end $bounds$;
set local role agentry_owner;
