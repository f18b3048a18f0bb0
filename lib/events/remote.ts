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

/** Wakes a place's Dispatcher for what was committed before now. One that can't be woken the sweep wakes. */
export async function wakeDispatcher(env: Bindings, place: Place): Promise<void> {
  const before = wakes;
  await scheduler.wait(PACE.told);
  const name = [place.app_id, place.sandbox_id, place.org_id].join("/");
  if ((newest.get(name) ?? 0) > before) return;
  if (newest.size >= MOST_PLACES) newest.clear();
  newest.set(name, ++wakes);
  await dispatcherOf(env, place)
    .wake()
    .catch((error) => console.error(JSON.stringify({ dispatcher: name, error: String(error) })));
}
