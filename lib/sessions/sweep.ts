/** What the sweep does for sessions: looks after those that nobody has heard of, and has objects erase themselves. */
import { CompiledQuery } from "kysely";
import { mac } from "../auth/secrets.ts";
import { connect } from "../db/neon.ts";
import type { Bindings } from "../env.ts";
import type { Id } from "../ids.ts";
import type { Place } from "../objects/stub.ts";
import { type SessionRow, sessionOf } from "./remote.ts";

/** A turn asks so many objects of each, a batch at a time: a Worker may ask a thousand, and a row may be long. */
const MOST = 400;
const BATCH = 100;
const AT_ONCE = 16;

/** Wakes the objects of sessions that are behind: each finds what there is to do. */
export const wakeSessions = (env: Bindings): Promise<void> =>
  inBatches(async () => {
    const behind = await ask<SessionRow>(env, "select * from app.claim_behind($1, $2)", BATCH);
    await forEach(behind, (row) => sessionOf(env, row).wake(row));
    return behind.length;
  });

/** Erases the objects of sessions whose rows are gone. One that can't be erased now comes again. */
export const eraseSessions = (env: Bindings): Promise<void> =>
  inBatches(async () => {
    const left = await ask<Left>(env, "select * from app.claim_erasures($1, $2)", BATCH);
    const done = await forEach(left, (row) => sessionOf(env, row).erase());
    if (done.length) await ask(env, "select app.erased($1, $2)", `{${done.map(({ n }) => n)}}`);
    return left.length;
  });
type Left = Place & { id: Id<"agent_session">; n: number };

async function inBatches(batch: () => Promise<number>): Promise<void> {
  for (let asked = 0; asked < MOST; asked += BATCH) if ((await batch()) < BATCH) return;
}

/** By a door of the sweep's own: what comes through it are rows, as through any other. */
async function ask<Row>(env: Bindings, statement: string, argument: unknown): Promise<Row[]> {
  const tag = await mac(env.ROOT_SECRETS, "objects.sweep", "door");
  const [found] = await connect(env.DATABASE_URL)([CompiledQuery.raw(statement, [tag, argument])], "write");
  return found!.rows as Row[];
}

/** So many at once. Each fails alone; back come those that didn't. */
async function forEach<Row extends { id: string }>(rows: Row[], run: (row: Row) => Promise<void>): Promise<Row[]> {
  const left = rows.values();
  const done: Row[] = [];
  const work = async () => {
    for (const row of left) {
      try {
        await run(row);
        done.push(row);
      } catch (error) {
        console.error(JSON.stringify({ session: row.id, sweep: String(error) }));
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return done;
}
