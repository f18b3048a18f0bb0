/** An event that is no change of a row: written where, and with what, it happened. */
import type { RawBuilder } from "kysely";
import type { Row, TenantTable } from "../db/schema.ts";
import type { Rows, Runs } from "../db/statements.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { type Id, newId } from "../ids.ts";
import type { EventName, PayloadOf } from "./catalogue.ts";

/** What it says, field by field: a value, or an expression over the columns of the row above. */
type Said<P> = { [F in keyof P]: P[F] | RawBuilder<P[F]> };

export type Emission<N extends EventName> = {
  /** Given, it is written once, however often the statement runs: whoever may run again keeps the id. */
  id?: Id<"event">;
  name: N;
  /** At most 32 KB as JSON, and no secret: whoever may read the event reads it. */
  payload: Said<PayloadOf<N>>;
  agent_id?: RawBuilder<string | null> | Id<"agent"> | null;
  /** The user it is about; without one, who did it. */
  user_id?: RawBuilder<string | null> | Id<"user"> | null;
  /** Who besides the org's admins may read it; without it, everybody in the org. */
  readers?: RawBuilder<string[] | null>;
  idempotency_key?: string | null;
};

/**
 * Writes an event where the one row above is, as what the database's `causedBy` led to; none, where there is no row. It
 * commits with the statements beside it, and wakes whoever listens there. To tell of a row's new state it stands before
 * the statement that changes it, over the row as it was.
 */
export const emitting = <T extends TenantTable, N extends EventName>(
  db: TenantDb,
  above: Rows<T>,
  { id = newId("event"), ...event }: Emission<N>,
): Runs<Row<"events">> => db.event(above, { id, ...event } as never);
