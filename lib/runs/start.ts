/** How runs come about: of events, and when there is room for them. */
import type { Row } from "../db/schema.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import type { Bindings } from "../env.ts";

/** Makes the runs that these numbered events start, each (routine, event) once. May run twice. */
export async function startRuns(_db: TenantDb, _events: Row<"events">[]): Promise<void> {}

/** Lets pending runs of the place begin, as far as its quotas allow, agents in turn. Answers when there may be room again; null: no run waits. */
export async function admitRuns(_db: TenantDb, _env: Bindings): Promise<number | null> {
  return null;
}
