/** What the sweep needs to look after objects: its own door to the database, and a bounded turn. */
import { CompiledQuery } from "kysely";
import { mac } from "../auth/secrets.ts";
import { connect } from "../db/neon.ts";
import type { Bindings } from "../env.ts";

/** A turn asks so many objects of each kind, a batch at a time: a Worker may ask a thousand, and a row may be long. */
const MOST = 400;
const BATCH = 100;

/** Batch after batch, until one isn't full; each answers how many it had. */
export async function inBatches(batch: (most: number) => Promise<number>): Promise<void> {
  for (let asked = 0; asked < MOST; asked += BATCH) if ((await batch(BATCH)) < BATCH) return;
}

/** By a door of the sweep's own: what comes through it are rows, as through any other. */
export async function askSweep<Row>(env: Bindings, statement: string, argument: unknown): Promise<Row[]> {
  const tag = await mac(env.ROOT_SECRETS, "objects.sweep", "door");
  const [found] = await connect(env.DATABASE_URL)([CompiledQuery.raw(statement, [tag, argument])], "write");
  return found!.rows as Row[];
}
