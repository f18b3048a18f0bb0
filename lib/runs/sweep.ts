import type { Bindings } from "../env.ts";
import { dispatcherOf } from "../events/remote.ts";
import { forEach } from "../objects/each.ts";
import { askSweep, inBatches } from "../objects/sweep.ts";
import { type RunRow, runsOf } from "./remote.ts";

/** Wakes whoever is behind with a run: its object, or, of one that waits for room, who gives that. */
export const wakeRuns = (env: Bindings): Promise<void> =>
  inBatches(async (most) => {
    const behind = await askSweep<RunRow>(env, "select * from app.claim_behind_runs($1, $2)", most);
    const waiting = behind.filter(({ admitted_at }) => admitted_at === null);
    const places = new Map(waiting.map((row) => [`${row.app_id} ${row.sandbox_id} ${row.org_id}`, row]));
    await forEach([...places.values()], (row) => dispatcherOf(env, row).wake());
    const begun = behind.filter(({ admitted_at }) => admitted_at !== null);
    await forEach(begun, (row) => runsOf(env, row).start(row));
    return behind.length;
  });
