import { sql } from "kysely";
import type { TenantDb } from "../db/tenant-db.ts";
import { listening } from "../event-subscriptions/queries.ts";
import { numbers } from "../events/log.ts";
import { waitingFor } from "../runs/waits.ts";
import type { Listening } from "../webhooks/queries.ts";

/** So many are handed on together: of the longest they make 5 MB. */
export const PAGE = 100;

/** Numbers some of the place's events, and answers how many. */
export const number = async (db: TenantDb): Promise<number> => (await db.batch({ n: numbers(db) })).n[0]!.n;

/** Moves the cursor past what everybody has. */
export const passed = (db: TenantDb, through: number) =>
  db.updateTable("event_heads").set({ delivered: through }).where("delivered", "<", through);

/**
 * Moves the cursor past what everybody has, numbers what is new, and answers the page behind the cursor with who hears it.
 * `mac` opens the app's own webhook endpoints.
 */
export async function nextPage(db: TenantDb, through: number, mac: Uint8Array) {
  // Numbering has made the row: in a `coalesce` this would be no condition of the index. None has a number behind the newest,
  // but without a second end the planner takes a third of all that is kept for what follows.
  const heads = db.selectFrom("event_heads");
  const events = db
    .selectFrom("events")
    .where(sql<boolean>`sequence > (${heads.select("delivered")}) and sequence <= (${heads.select("sequence")})`)
    .orderBy("sequence")
    .limit(PAGE);
  const { numbered, ...page } = await db.batch({
    moved: passed(db, through),
    numbered: numbers(db),
    events: events.selectAll(),
    subscriptions: listening(db, events),
    waits: waitingFor(db, events),
    endpoints: db.call<Listening>("webhooks_of", [mac]),
  });
  return { numbered: numbered[0]!.n, ...page };
}
