/** What an org may have under way, and how fast. `settings.quotas` of its app says otherwise. */
import { sql } from "kysely";
import type { TenantDb } from "./db/tenant-db.ts";

export const quotas = {
  /** Runs at once, of an org and of each of its agents: those that wait count, too. */
  runs_at_once: 50,
  runs_at_once_of_an_agent: 10,
  /** Runs that begin in a minute. */
  runs_started_per_minute: 600,
};
export type Quotas = typeof quotas;

/** The quotas of a tenant, as one row: to be asked beside something else. */
export const quotasOf = (db: TenantDb) =>
  db
    .selectFrom("apps")
    .select(sql<Quotas>`${JSON.stringify(quotas)}::jsonb || coalesce(settings -> 'quotas', '{}')`.as("quotas"));
