-- A page of a hundred rows has a size.
alter table data.agents
  add constraint agents_acl_check check (jsonb_array_length(acl -> 'grants') <= 200) not valid,
  add constraint agents_size_check check (octet_length(jsonb_build_object(
    'identity', identity, 'description', description, 'acl', acl, 'metadata', metadata)::text) <= 65536) not valid;
