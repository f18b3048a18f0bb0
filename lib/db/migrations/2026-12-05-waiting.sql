-- What waits of one schedule or routine is found by the index: by `coalesce` row-level security didn't let it be asked, and all that
-- waits in the org was looked at for each.

drop index data.occurrences_waiting_idx;
create index occurrences_waiting_idx on data.occurrences (app_id, sandbox_id, org_id,
    (case when schedule_id is not null then schedule_id when routine_id is not null then routine_id else automation_id end), planned_at)
  where fired_at is null and outcome in ('buffered', 'backfilled');
