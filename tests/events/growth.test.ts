/**
 * What is read to hand an event on doesn't grow with what its org keeps. Counted by the server itself, of a real PostgreSQL,
 * in a database that nobody else uses: of a small table no measure of time tells.
 */
import { resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { openDatabase } from "../harness/database.ts";
import { anApp, system } from "../harness/index.ts";
import { newRoot, newSigningKey, type Own, ownSystem } from "../harness/own.ts";
import { wait } from "../sessions/stage.ts";
import { aSubscription, queued, tell } from "./stage.ts";

const KEPT = 20_000;
/** Sessions that have nothing to do say ten seconds later what they have read. */
const SAID_MS = 11_500;

let own: Own;
let base: string;
beforeAll(async () => {
  if (!system.concurrent) return;
  own = await ownSystem(openDatabase());
  // The sweep reads of what is kept as much as it likes.
  const alias = { "sweep.ts": resolve(import.meta.dirname, "../harness/no-sweep.ts") };
  base = await own.start([await newSigningKey("one")], [newRoot()], { alias });
});
afterAll(() => own?.close());

/** How many rows of events have been read since the table was made. */
async function readSoFar(): Promise<number> {
  await wait(SAID_MS);
  const [row] = await own.database.query<{ n: number }>(
    "select (seq_tup_read + idx_tup_fetch)::int4 as n from pg_stat_user_tables where relname = 'events'",
  );
  return row!.n;
}

it.runIf(system.concurrent)(
  "an event is handed on without a look at those before it",
  { timeout: 60_000 },
  async () => {
    const { acme, as } = await anApp({ base, newApp: own.newApp });
    const owner = as(acme);
    const subscription = await aSubscription(owner);
    await tell(owner, 0);
    await queued(owner, subscription, 1);
    await own.database.exec(`
    insert into data.events (app_id, sandbox_id, org_id, id, name, payload, sequence)
      select app_id, sandbox_id, org_id, 'evt_' || lpad(n::text, 22, '0'), 'custom.kept', '{}', sequence + n
        from data.event_heads, generate_series(1, ${KEPT}) n where org_id = '${acme}';
    update data.event_heads set sequence = sequence + ${KEPT}, delivered = sequence + ${KEPT} where org_id = '${acme}';
    analyze`);
    const before = await readSoFar();
    await tell(owner, 1);
    await queued(owner, subscription, 2);
    expect((await readSoFar()) - before).toBeLessThan(KEPT / 10);
  },
);
