/** A run as it goes on: for those who read it, and for those who watch. */
import type { Bindings } from "../env.ts";
import { reached } from "../sessions/reach.ts";
import { isTerminal } from "./loop.ts";
import { type RunPage, type RunRow, runsOf } from "./remote.ts";

/** How long the object waits for a frame before it answers that there is none; one that waits for room is asked after sooner. */
const WAIT_MS = 20_000;
const ROOM_MS = 2_000;
/** An object that starts anew, as by a deployment, is out of reach for a moment: it is asked so often, a second apart. */
const ATTEMPTS = 5;
const NEWEST = Number.MAX_SAFE_INTEGER;

/** Whether its object knows more of it than its row. */
const isLive = ({ status, admitted_at }: RunRow) => admitted_at !== null && !isTerminal(status);

/** The row, and over it what its object says now. 503 where that is out of reach. */
export async function liveRun(env: Bindings, row: RunRow): Promise<RunRow> {
  return isLive(row) ? { ...row, ...(await reached(runsOf(env, row).view(row))) } : row;
}

async function next(env: Bindings, row: RunRow, after: number, wait_ms: number): Promise<RunPage> {
  for (let attempt = 1; ; attempt++) {
    const page = runsOf(env, row).frames(row, after, 1, wait_ms);
    if (attempt === ATTEMPTS) return reached(page);
    const found = await page.catch(() => null);
    if (found) return found;
    await scheduler.wait(1000);
  }
}

/** The run as it is, and after each change of it that shows, until it is over. `read` gives the row anew. */
export async function* runsAfter(env: Bindings, read: () => Promise<RunRow>): AsyncGenerator<RunRow> {
  let row = await read();
  let said = "";
  for (let last = 0; ; ) {
    const page = isTerminal(row.status)
      ? null
      : await next(env, row, said ? last : NEWEST, said ? (isLive(row) ? WAIT_MS : ROOM_MS) : 0);
    // Its object hasn't heard of it: who judges whether there is room may have.
    if (said && page && !page.view) row = await read();
    const live = { ...row, ...page?.view };
    last = page?.frames.length ? last + page.frames.length : (page?.last ?? last);
    const { updated_at: _, ...shown } = live;
    const now = JSON.stringify(shown);
    if (now !== said) yield live;
    said = now;
    if (isTerminal(live.status)) return;
  }
}
