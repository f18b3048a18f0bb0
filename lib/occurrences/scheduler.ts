/** A tenant's Scheduler: starts what is due there, and what was waiting for another to end. */
import { wakeDispatcher } from "../events/remote.ts";
import { TenantObject } from "../objects/tenant-object.ts";
import type { SchedulerRemote } from "../schedules/remote.ts";
import { type SessionRow, sessionOf } from "../sessions/remote.ts";
import { claim, type Found, look, openOf, unbegun, type Waiting, type Work } from "./claim.ts";
import { type Met, plan, settle } from "./plan.ts";
import { instants, ruleOf, type Scheduled } from "./rule.ts";

/** So many sessions are asked to begin, or to end, at once. */
const AT_ONCE = 16;
/** Should it end between what it has written and what it starts, it looks after that much later. */
const LOOK_AGAIN_MS = 3_000;
/** After it has done something it looks again: there may be more, and what was changed meanwhile is still to be done. */
const SOON_MS = 20;
const MOST_UNBEGUN = 500;
const MOST_WAIT_MS = 2_000;

export class Scheduler extends TenantObject implements Omit<SchedulerRemote, keyof Rpc.DurableObjectBranded> {
  /** Somebody came while it looked: what it was told of may not be in what it saw. */
  #isWoken = false;
  #begun: SessionRow[] = [];
  /** Those who wait for its next look to end. */
  readonly #waiting: (() => void)[] = [];

  async wake(): Promise<void> {
    this.#isWoken = true;
    this.due("look", Date.now());
  }

  async look(): Promise<void> {
    const looked = new Promise<void>((resolve) => this.#waiting.push(resolve));
    await this.wake();
    await Promise.race([looked, scheduler.wait(MOST_WAIT_MS)]);
  }

  protected override whenDue(name: string): Promise<void> {
    return name === "look" ? this.#look() : this.#start();
  }

  async #look(): Promise<void> {
    this.#isWoken = false;
    const waiting = this.#waiting.splice(0);
    const found = await look(this.db, Date.now());
    const work = judge(found, Date.now(), this.orgStatus === "suspended");
    const isMuch = [work.agent_schedule, work.agent_routine].some(
      ({ moves, settled }) => moves.length || settled.length,
    );
    if (isMuch) {
      if (work.ends.length) {
        await each(await openOf(this.db, work.ends), (row) => sessionOf(this.env, row).cancel(row));
      }
      this.due("start", Date.now() + LOOK_AGAIN_MS);
      const { sessions, runs } = await claim(this.db, work);
      this.#begun.push(...sessions);
      this.due("start", Date.now());
      if (sessions.length || runs.length) this.ctx.waitUntil(wakeDispatcher(this.env, this.place));
    }
    const next = found.next === null ? null : Date.parse(found.next);
    const at = this.#isWoken ? Date.now() : isMuch ? Date.now() + SOON_MS : next;
    if (at !== null) this.due("look", at);
    for (const resolve of waiting) resolve();
  }

  async #start(): Promise<void> {
    const rows = this.#begun.length ? this.#begun.splice(0) : await unbegun(this.db, MOST_UNBEGUN);
    await each(rows, (row) => sessionOf(this.env, row).view(row));
    if (this.#begun.length) this.due("start", Date.now());
  }
}

/** A few at a time. One that can't be reached is left to the sweep. */
async function each(rows: SessionRow[], ask: (row: SessionRow) => Promise<unknown>): Promise<void> {
  const left = rows.values();
  const work = async () => {
    for (const row of left) {
      await ask(row).catch((error) => console.error(JSON.stringify({ session: row.id, scheduler: String(error) })));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
}

/** What is to be done with what was found. `ends`: schedules whose sessions are to be cancelled before. */
export function judge(found: Found, now: number, suspended: boolean): Record<Scheduled, Work> & { ends: string[] } {
  const work = { agent_schedule: none(), agent_routine: none(), ends: [] as string[] };
  const met = new Map<string, Met>();
  for (const [id, waiting] of Map.groupBy(found.waiting, (one) => (one.schedule_id ?? one.routine_id) as string)) {
    const [{ busy, waiting: all, gone, schedule_id }] = waiting as [Waiting];
    const others = all - waiting.length;
    const meets: Met = { busy, waiting: busy ? others : 0 };
    const outcomes = gone ? waiting.map((one) => [one, "cancelled"] as const) : suspended ? [] : settle(waiting, meets);
    const { settled } = work[schedule_id ? "agent_schedule" : "agent_routine"];
    for (const [one, outcome] of outcomes) {
      settled.push({ id: one.id, outcome });
      if (outcome === "fired" && one.overlap === "cancel_other" && busy && schedule_id) work.ends.push(schedule_id);
    }
    met.set(id, { busy: meets.busy, waiting: others + waiting.length - outcomes.length });
  }
  for (const kind of ["agent_schedule", "agent_routine"] as const) {
    for (const row of found[kind]) {
      const { id, next_run_at: was, updated_at: seen, busy, waiting } = row;
      const rule = ruleOf(row);
      const at = (instant: number | null) => (instant === null ? null : new Date(instant).toISOString());
      if (was === null) {
        // A routine that was changed at that instant, and comes from there on.
        const { value: next = null } = instants(rule, Date.parse(row.due_at!)).next();
        work[kind].moves.push({ id, was, seen, next_run_at: at(next ?? null), status: null, ran: 0 });
        continue;
      }
      const left = "max_runs" in row && row.max_runs !== null ? row.max_runs - row.run_count : null;
      const meets = { ...(met.get(id) ?? { busy, waiting }), suspended };
      const { occurrences, next, status, ran } = plan({ ...rule, left, next: Date.parse(was) }, now, meets);
      work[kind].moves.push({ id, was, seen, next_run_at: at(next), status, ran });
      for (const { planned_at, outcome } of occurrences) {
        work[kind].comes.push({ of: id, planned_at: at(planned_at)!, outcome, overlap: rule.overlap });
        if (outcome === "fired" && rule.overlap === "cancel_other" && busy && kind === "agent_schedule")
          work.ends.push(id);
      }
    }
  }
  return work;
}
const none = (): Work => ({ moves: [], comes: [], settled: [] });
