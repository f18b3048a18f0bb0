import type { Bindings } from "../env.ts";
import { forEach } from "../objects/each.ts";
import type { Place } from "../objects/stub.ts";
import { askSweep } from "../objects/sweep.ts";
import { wakeScheduler } from "../schedules/remote.ts";

/** Places of a turn: a Worker may ask a thousand objects. */
const MOST = 400;

/** Wakes the Schedulers of places where something is due soon, or waits. */
export async function wakeSchedulers(env: Bindings): Promise<void> {
  const places = await askSweep<Place>(env, "select * from app.due_places($1, $2)", MOST);
  await forEach(places, (place) => wakeScheduler(env, place));
}
