-- No statement is compiled (`jit`): to compile one takes longer than any of them runs.
create or replace function app.prove(app text, sandbox text, org text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  secret bytea;
  ended text;
begin
  select s.secret, (select string_agg(e.id, ',') from app.endings e where e.app_id = app and e.sandbox_id = sandbox)
    into secret, ended from app.proof_secret s;
  perform set_config('app.app_id', app, true), set_config('app.sandbox_id', sandbox, true),
    set_config('app.org_id', org, true), set_config('app.proof', app.proof(secret, app, sandbox, org), true),
    set_config('app.ended', coalesce(ended, ''), true),
    set_config('statement_timeout', '5s', true), set_config('lock_timeout', '2s', true), set_config('jit', 'off', true);
end $$;
