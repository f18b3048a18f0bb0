/** What an org may have under way, and how fast. `settings.quotas` of its app says otherwise. */
import { sql } from "kysely";
import type { Full } from "./db/errors.ts";
import type { Statement } from "./db/statements.ts";
import type { TenantDb } from "./db/tenant-db.ts";
import { ApiError } from "./errors.ts";
import { type Id, newId } from "./ids.ts";

export const quotas = {
  /** Runs at once, of an org and of each of its agents: those that wait count, too. */
  runs_at_once: 50,
  runs_at_once_of_an_agent: 10,
  /** Runs that begin in a minute. */
  runs_started_per_minute: 600,
  /** Requests under way to webhook endpoints. */
  webhook_attempts_at_once: 60,
  /** Deliveries that wait at one endpoint for their next attempt: the store of its object ends at 10 GB. */
  webhook_deliveries_waiting: 50_000,
  /** Webhook endpoints, and inbound webhooks: the tables' own triggers say the same. */
  webhook_endpoints: 20,
  inbound_webhooks: 50,
  /** As in schema.sql, which counts them. */
  computers: 10,
};
export type Quotas = typeof quotas;

/** The quotas of a tenant, as one row: to be asked beside something else. */
export const quotasOf = (db: TenantDb) =>
  db
    .selectFrom("apps")
    .select(sql<Quotas>`${JSON.stringify(quotas)}::jsonb || coalesce(settings -> 'quotas', '{}')`.as("quotas"));

/** The event that an org has come to a quota, for its admins alone: one in an hour for each quota. */
export function reaching(
  place: TenantDb,
  quota: string,
  limit: number,
  agent: Id<"agent"> | null = null,
): Statement<unknown> {
  const name = "quota.reached";
  const idempotency_key = `${quota} ${new Date().toISOString().slice(0, 13)}`;
  const told = place.selectFrom("events").where("name", "=", name).where("idempotency_key", "=", idempotency_key);
  const free = place.selectFrom("tenants").where(sql<boolean>`not exists (${told.select(sql`1`.as("one"))})`);
  return place.event(free, {
    ...{ id: newId("event"), name, idempotency_key, payload: { quota, limit, ...(agent && { agent }) } },
    ...{ agent_id: agent, user_id: null, readers: sql`array[]::text[]` },
  });
}

/** Tells of a quota for whose sake something was refused. After the answer: nothing depends on it. */
export async function tellFull(db: TenantDb, { org, quota, limit }: Full): Promise<void> {
  const place = db.tenant.kind === "org" ? db : db.inOrg(org);
  await place.batch({ reached: reaching(place, quota, limit) }).catch((error) => {
    // Told at this moment by another, or by who may ask no longer.
    if (!(error instanceof ApiError)) throw error;
  });
}
