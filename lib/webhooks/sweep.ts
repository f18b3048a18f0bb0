import type { Bindings } from "../env.ts";
import type { Id } from "../ids.ts";
import { forEach } from "../objects/each.ts";
import type { Place } from "../objects/stub.ts";
import { askSweep, inBatches } from "../objects/sweep.ts";
import { endpointOf } from "./remote.ts";

type Behind = Place & { id: Id<"webhook_endpoint"> };

/** Wakes the objects of endpoints that should have sent, or told of what they have, and haven't. */
export const wakeEndpoints = (env: Bindings): Promise<void> =>
  inBatches(async (most) => {
    const behind = await askSweep<Behind>(env, "select * from app.claim_behind_endpoints($1, $2)", most);
    await forEach(behind, (row) => endpointOf(env, row).wake());
    return behind.length;
  });
