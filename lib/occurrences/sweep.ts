/** What the sweep does for schedules: wakes the Schedulers of places where something is due soon, or waits. */
import { CompiledQuery } from "kysely";
import { mac } from "../auth/secrets.ts";
import { connect } from "../db/neon.ts";
import type { Bindings } from "../env.ts";
import type { Place } from "../objects/stub.ts";
import { wakeScheduler } from "../schedules/remote.ts";

/** A turn wakes so many, a few at a time: a Worker may ask a thousand objects. */
const MOST = 400;
const AT_ONCE = 16;

export async function wakeSchedulers(env: Bindings): Promise<void> {
  const tag = await mac(env.ROOT_SECRETS, "objects.sweep", "door");
  const statement = CompiledQuery.raw("select * from app.due_places($1, $2)", [tag, MOST]);
  const [found] = await connect(env.DATABASE_URL)([statement], "write");
  const places = (found!.rows as Place[]).values();
  const work = async () => {
    for (const place of places) await wakeScheduler(env, place);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
}
