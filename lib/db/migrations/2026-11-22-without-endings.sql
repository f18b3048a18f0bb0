-- What nothing has ended in pays less for asking: one look for the secret and for what has ended, no list for each row.

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
    set_config('statement_timeout', '5s', true), set_config('lock_timeout', '2s', true);
end $$;

create or replace function app.face(tbl regclass) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $face$
declare above text;
begin
  select string_agg(quote_ident(a.attname), ', ' order by a.attnum) into above from pg_attribute a
   where a.attrelid = tbl and (a.attname = 'org_id' or (tbl = to_regclass('data.users') and a.attname = 'id')
      or exists (select from pg_constraint c where c.conrelid = tbl and c.confrelid = to_regclass('data.users')
        and c.contype = 'f' and a.attnum = c.conkey[cardinality(c.conkey)]));
  execute format($$create policy tenant on %s to agentry_api using (
    (app_id, sandbox_id, case
      when (select current_setting('app.ended', true) <> '')
        and (select string_to_array(current_setting('app.ended', true), ',')) && array[%s] then null
      when (select current_setting('app.org_id', true)) = '*' then '*'
      else org_id end)
    = (select t.app, t.sandbox, t.org from app.tenant() t))$$, tbl, above);
end $face$;

-- Whatever tables this database has by now, of whichever branch.
do $tables$
declare tbl regclass;
begin
  for tbl in select oid from pg_class where relnamespace = 'data'::regnamespace and relkind = 'r'
      and relname not in ('apps', 'sandboxes') loop
    execute format('drop policy tenant on %s', tbl);
    perform app.face(tbl);
  end loop;
end $tables$;
