-- The longest event and the longest access list of a routine fit into a run: else it could never be made, and whoever hands the
-- org's events on would try for ever.

alter table data.agent_routine_runs drop constraint agent_routine_runs_size_check,
  add constraint agent_routine_runs_size_check check (octet_length(jsonb_build_object('payload', payload,
    'participants', participants, 'delivery', delivery, 'metadata', metadata, 'acl', acl)::text) <= 69632);
