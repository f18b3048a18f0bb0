-- Domains: whose addresses are an org's people. Of one that isn't verified, nothing follows.

create table data.org_domains (
  id          text collate "C" not null,
  app_id      text collate "C" not null,
  sandbox_id  text collate "C" not null,
  org_id      text collate "C" not null,
  domain      text collate "C" not null,
  -- What a TXT record has to say. None, of the domain that the org's own record names: it is verified by who wrote that.
  challenge   text,
  verified_by text check (verified_by in ('developer', 'dns')),
  verified_at timestamptz,
  created_at  timestamptz not null default now(),
  updated_at  timestamptz not null default now(),
  check ((verified_by is null) = (verified_at is null)),
  check (challenge is not null or verified_at is not null),
  primary key (app_id, sandbox_id, id),
  constraint org_domains_tenant_fkey foreign key (app_id, sandbox_id, org_id) references data.tenants on delete cascade
);
create index org_domains_org_idx on data.org_domains (app_id, sandbox_id, org_id, id);
create unique index org_domains_domain_once on data.org_domains (app_id, sandbox_id, org_id, domain);
-- One org a domain. What anybody claims and hasn't verified keeps nobody else from it.
create unique index org_domains_domain_key on data.org_domains (app_id, sandbox_id, domain) where verified_at is not null;
create trigger at_most after insert on data.org_domains referencing new table as added
  for each statement execute function app.at_most_in_org('100', 'org_domains');
select app.wall('data.org_domains', 'select, insert, update, delete');

-- What was verified for an org that has ended is free, though its row is still there.
create function app.free_domain() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from data.org_domains d using app.endings e
   where (d.app_id, d.sandbox_id, d.domain) = (new.app_id, new.sandbox_id, new.domain)
     and (e.app_id, e.sandbox_id, e.id) = (d.app_id, d.sandbox_id, d.org_id);
  return new;
end $$;
create trigger free_domain before insert or update of domain, verified_at on data.org_domains for each row
  when (new.verified_at is not null and current_setting('app.ended', true) <> '') execute function app.free_domain();

-- The domain of an org's own record is verified: its row has the id of its org.
create function app.keep_domain() returns trigger
language plpgsql volatile set search_path = '' as $$
declare own text := 'dom_' || substr(new.id, 5);
begin
  delete from data.org_domains d
   where (d.app_id, d.sandbox_id, d.org_id, d.domain) = (new.app_id, new.sandbox_id, new.id, new.domain) and d.id <> own;
  update data.org_domains d set domain = new.domain, verified_at = now(), updated_at = now()
   where (d.app_id, d.sandbox_id, d.org_id, d.id) = (new.app_id, new.sandbox_id, new.id, own);
  if not found then
    insert into data.org_domains (id, app_id, sandbox_id, org_id, domain, verified_by, verified_at)
      values (own, new.app_id, new.sandbox_id, new.id, new.domain, 'developer', now());
  end if;
  return null;
end $$;
create trigger keep_domain_of_new after insert on data.orgs for each row execute function app.keep_domain();
create trigger keep_domain after update of domain on data.orgs for each row
  when (old.domain <> new.domain) execute function app.keep_domain();
insert into data.org_domains (id, app_id, sandbox_id, org_id, domain, verified_by, verified_at)
  select 'dom_' || substr(o.id, 5), o.app_id, o.sandbox_id, o.id, o.domain, 'developer', now() from data.orgs o;
