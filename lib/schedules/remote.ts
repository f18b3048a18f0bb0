/** The one object of a tenant that starts what is due there. */
import type { Bindings } from "../env.ts";
import { objectOfTenant, type Place } from "../objects/stub.ts";

export interface SchedulerRemote extends Rpc.DurableObjectBranded {
  /** Something was planned or has ended there: looks what comes next. */
  wake(): Promise<void>;
  /** The same, and resolves when it has looked: what was written before has begun by then, or waits. After 2 s it resolves anyway. */
  look(): Promise<void>;
}

export const schedulerOf = ({ SCHEDULER }: Bindings, place: Place) =>
  objectOfTenant(SCHEDULER, place) as unknown as Omit<SchedulerRemote, keyof Rpc.DurableObjectBranded>;

/** What is due sooner than that, its Scheduler is told of at once; the rest the sweep tells it in time. */
const SOON_MS = 120_000;

/** Wakes a place's Scheduler, or waits for it to look. One that can't be reached the sweep wakes. */
export const wakeScheduler = (env: Bindings, place: Place, how: "wake" | "look" = "wake"): Promise<void> =>
  schedulerOf(env, place)
    [how]()
    .catch((error) => console.error(JSON.stringify({ scheduler: place.org_id, error: String(error) })));

/** Wakes the Scheduler of what was written, if that is due soon. */
export async function wakeIfSoon(env: Bindings, row: Place & { due_at: string | null }): Promise<void> {
  if (row.due_at !== null && Date.parse(row.due_at) < Date.now() + SOON_MS) await wakeScheduler(env, row);
}
