/** The one object of a tenant that numbers its events and hands them to all who react. */
import type { Bindings } from "../env.ts";
import { objectOfTenant, type Place } from "../objects/stub.ts";

export interface DispatcherRemote extends Rpc.DurableObjectBranded {
  /** Something happened there, or a run may begin now that couldn't: looks soon. */
  wake(): Promise<void>;
  /** Gives a number to all that has none, before it answers. */
  number(): Promise<void>;
}

export const dispatcherOf = ({ DISPATCHER }: Bindings, place: Place) =>
  objectOfTenant(DISPATCHER, place) as unknown as Omit<DispatcherRemote, keyof Rpc.DurableObjectBranded>;

/** Who tells at the same moment wakes once. */
const CROWD_MS = 5;
const wokenAt = new Map<string, number>();
const MOST_PLACES = 1000;

/** Wakes a place's Dispatcher for what was committed before now. One that can't be woken the sweep wakes. */
export async function wakeDispatcher(env: Bindings, place: Place): Promise<void> {
  const committed = performance.now();
  await scheduler.wait(CROWD_MS);
  const name = [place.app_id, place.sandbox_id, place.org_id].join("/");
  if ((wokenAt.get(name) ?? 0) > committed) return;
  if (wokenAt.size >= MOST_PLACES) wokenAt.clear();
  wokenAt.set(name, performance.now());
  await dispatcherOf(env, place)
    .wake()
    .catch((error) => console.error(JSON.stringify({ dispatcher: name, error: String(error) })));
}
