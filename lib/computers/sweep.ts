import type { Bindings } from "../env.ts";
import { forEach } from "../objects/each.ts";
import { askSweep, inBatches } from "../objects/sweep.ts";
import type { ComputerRow } from "./schema.ts";
import { provision } from "./use.ts";

/** Has those made that nobody has had made yet. */
export const makeComputers = (env: Bindings): Promise<void> =>
  inBatches(async (most) => {
    const left = await askSweep<ComputerRow>(env, "select * from app.claim_computers($1, $2)", most);
    await forEach(left, (row) => provision(env, row));
    return left.length;
  });
