/** The one object of a tenant that numbers its events and hands them to all who react. */
import type { Bindings } from "../env.ts";
import { PACE } from "../motion/pace.ts";
import { objectOfTenant, type Place } from "../objects/stub.ts";

export interface DispatcherRemote extends Rpc.DurableObjectBranded {
  /** Something happened there, or a run may begin now that couldn't: looks soon. */
  wake(): Promise<void>;
  /** Gives a number to all that has none, before it answers. */
  number(): Promise<void>;
}

export const dispatcherOf = ({ DISPATCHER }: Bindings, place: Place) =>
  objectOfTenant(DISPATCHER, place) as unknown as Omit<DispatcherRemote, keyof Rpc.DurableObjectBranded>;

/** Which of all wakes was a place's newest: counted, since a clock that steps back would take each for woken already. */
const newest = new Map<string, number>();
let wakes = 0;
const MOST_PLACES = 1000;
/** Places that were woken for runs just now. */
const resting = new Set<string>();

/**
 * Wakes a place's Dispatcher for what was committed before now: for `runs` that may begin, or for what only was told, which
 * waits for what is told with it. One that can't be woken the sweep wakes.
 */
export async function wakeDispatcher(env: Bindings, place: Place, why?: "runs"): Promise<void> {
  const name = [place.app_id, place.sandbox_id, place.org_id].join("/");
  const wake = async () => {
    if (newest.size >= MOST_PLACES) newest.clear();
    newest.set(`${name} ${why}`, ++wakes);
    await dispatcherOf(env, place)
      .wake()
      .catch((error) => console.error(JSON.stringify({ dispatcher: name, error: String(error) })));
  };
  // The first is not kept waiting: only those of a crowd behind it are.
  const isFirst = why === "runs" && !resting.has(name);
  if (isFirst) {
    resting.add(name);
    // The answer goes out before what it has set in motion is begun.
    await scheduler.wait(PACE.answered);
    await wake();
  }
  const before = wakes;
  await scheduler.wait(PACE.told);
  if (isFirst) return void resting.delete(name);
  // Whoever was woken for runs looks at what was told, too.
  if (Math.max(newest.get(`${name} ${why}`) ?? 0, newest.get(`${name} runs`) ?? 0) > before) return;
  await wake();
}
