import type { Bindings } from "../env.ts";
import { dispatcherOf } from "../events/remote.ts";
import { forEach } from "../objects/each.ts";
import type { Place } from "../objects/stub.ts";
import { askSweep, inBatches } from "../objects/sweep.ts";

/** Wakes the Dispatchers of places where events wait, though nobody who listens may be there to have woken them. */
export const wakeDispatchers = (env: Bindings): Promise<void> =>
  inBatches(async (most) => {
    const places = await askSweep<Place>(env, "select * from app.claim_unnumbered($1, $2)", most);
    await forEach(places, (place) => dispatcherOf(env, place).wake());
    return places.length;
  });
