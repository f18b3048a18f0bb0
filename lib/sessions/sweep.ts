import type { Bindings } from "../env.ts";
import { forEach } from "../objects/each.ts";
import { askSweep, inBatches } from "../objects/sweep.ts";
import { type SessionRow, sessionOf } from "./remote.ts";

/** Wakes the objects of sessions that are behind: each finds what there is to do. */
export const wakeSessions = (env: Bindings): Promise<void> =>
  inBatches(async (most) => {
    const behind = await askSweep<SessionRow>(env, "select * from app.claim_behind($1, $2)", most);
    await forEach(behind, (row) => sessionOf(env, row).wake(row));
    return behind.length;
  });
