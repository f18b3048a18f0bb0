import type { Bindings } from "../env.ts";
import type { Id } from "../ids.ts";
import { forEach } from "../objects/each.ts";
import type { Place } from "../objects/stub.ts";
import { askSweep, inBatches } from "../objects/sweep.ts";
import { endpointOf } from "./remote.ts";

type Looked = Place & { id: Id<"webhook_endpoint">; behind: boolean };

/** Looks at endpoints by turns, and wakes the objects of those that should have sent, or told of what they have, and haven't. */
export const wakeEndpoints = (env: Bindings): Promise<void> =>
  inBatches(async (most) => {
    const looked = await askSweep<Looked>(env, "select * from app.claim_behind_endpoints($1, $2)", most);
    await forEach(
      looked.filter(({ behind }) => behind),
      (row) => endpointOf(env, row).wake(),
    );
    return looked.length;
  });
