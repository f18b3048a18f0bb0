/** What the sweep does for sessions: looks after those that nobody has heard of, and has objects erase themselves. */
import { CompiledQuery } from "kysely";
import { mac } from "../auth/secrets.ts";
import { connect } from "../db/neon.ts";
import type { Bindings } from "../env.ts";
import type { Id } from "../ids.ts";
import type { Place } from "../objects/stub.ts";
import { sessionOf } from "./remote.ts";

/** A turn asks so many objects of each: a Worker may ask a thousand. */
const MOST = 400;
const AT_ONCE = 16;

/** A row came out of the database, by a door of the sweep's own. */
type Claimed = Place & { id: Id<"agent_session"> };

/** Wakes the objects of sessions that are behind: each finds what there is to do. */
export async function wakeSessions(env: Bindings): Promise<void> {
  const behind = await ask<Claimed>(env, "select * from app.claim_behind($1, $2)", MOST);
  await forEach(behind, (row) => sessionOf(env, row).wake(null, null));
}

/** Erases the objects of sessions whose rows are gone. One that can't be erased now comes again. */
export async function eraseSessions(env: Bindings): Promise<void> {
  const left = await ask<Claimed & { n: number }>(env, "select * from app.claim_erasures($1, $2)", MOST);
  const done = await forEach(left, (row) => sessionOf(env, row).erase());
  if (done.length) await ask(env, "select app.erased($1, $2)", `{${done.map(({ n }) => n)}}`);
}

async function ask<Row>(env: Bindings, statement: string, argument: unknown): Promise<Row[]> {
  const tag = await mac(env.ROOT_SECRETS, "objects.sweep", "door");
  const [found] = await connect(env.DATABASE_URL)([CompiledQuery.raw(statement, [tag, argument])], "write");
  return found!.rows as Row[];
}

/** So many at once. Each fails alone; back come those that didn't. */
async function forEach<Row extends Claimed>(rows: Row[], run: (row: Row) => Promise<void>): Promise<Row[]> {
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
