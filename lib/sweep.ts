/** What the cron does every minute. */
import { sweep as deletePast } from "./db/sweep.ts";
import type { Bindings } from "./env.ts";
import { wakeSchedulers } from "./occurrences/sweep.ts";
import { eraseSessions, wakeSessions } from "./sessions/sweep.ts";

/** Objects are woken first, within their minute, and erased when the rows are gone; neither waits for the other's fault. */
export async function sweep(env: Bindings): Promise<void> {
  const rows = deletePast(env.DATABASE_URL);
  const turns = await Promise.allSettled([
    wakeSessions(env),
    wakeSchedulers(env),
    rows,
    rows.finally(() => eraseSessions(env)),
  ]);
  for (const turn of turns) if (turn.status === "rejected") throw turn.reason;
}
