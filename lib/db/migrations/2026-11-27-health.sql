-- What an agent's schedules have missed lately, its health asks for.
create index occurrences_missed_idx on data.occurrences (app_id, sandbox_id, org_id, agent_id, planned_at)
  where outcome = 'missed';
