/** A tenant's Scheduler: starts what is due there, and what was waiting for another to end. */
import { wakeDispatcher } from "../events/remote.ts";
import { forEach } from "../objects/each.ts";
import { TenantObject } from "../objects/tenant-object.ts";
import type { SchedulerRemote } from "../schedules/remote.ts";
import { type SessionRow, sessionOf } from "../sessions/remote.ts";
import { claim, type Found, look, MOST_DUE, openOf, unbegun, type Work } from "./claim.ts";
import { judge } from "./judge.ts";
import type { Scheduled } from "./rule.ts";

/** Should it end between what it has written and what it starts, it looks after that much later. */
const LOOK_AGAIN_MS = 3_000;
const SOON_MS = 20;
/** The sequence of what is written when a session begins. */
const FIRST = 1;
/** As many turns as an org's schedules take. */
const MOST_TURNS = 40;
/** So many are kept in memory until they begin. */
const MOST_BEGUN = 1_000;
const MOST_WAIT_MS = 2_000;
/** A session that was woken is left alone when it has taken a step, or so much later. */
const STEP_MS = 1_000;

export class Scheduler extends TenantObject implements Omit<SchedulerRemote, keyof Rpc.DurableObjectBranded> {
  /** Somebody came while it looked: what it was told of may not be in what it saw. */
  #isWoken = false;
  #begun: SessionRow[] = [];
  /** Those that have begun, and are to be woken. */
  readonly #held = new Map<string, SessionRow>();
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
    return name === "look" ? this.#look() : name === "start" ? this.#start() : this.#wakeHeld();
  }

  /** Writes all that is due before any of it starts: what starts takes a while, and what is due doesn't wait for it. */
  async #look(): Promise<void> {
    this.#isWoken = false;
    const waiting = this.#waiting.splice(0);
    let found: Found | undefined;
    for (let turn = 0; turn < MOST_TURNS && (!found || isFull(found)); turn++) {
      found = await look(this.db, Date.now());
      const work = judge(found, Date.now(), this.orgStatus === "suspended");
      if (!isMuch(work)) break;
      if (work.ends.length) {
        await forEach(await openOf(this.db, work.ends), (row) => sessionOf(this.env, row).cancel(row));
      }
      this.due("start", Date.now() + LOOK_AGAIN_MS);
      const { sessions, runs } = await claim(this.db, work);
      this.#begun.push(...sessions.slice(0, MOST_BEGUN - this.#begun.length));
      if (sessions.length || runs.length) this.ctx.waitUntil(wakeDispatcher(this.env, this.place));
      // There may be more, and what was changed meanwhile is still to be done.
      this.#isWoken = true;
    }
    if (this.#begun.length) this.due("start", Date.now());
    if (this.#isWoken) this.due("look", Date.now() + SOON_MS);
    else if (found?.next) this.due("look", Date.parse(found.next));
    for (const resolve of waiting) resolve();
  }

  /** All that has come begins before any of it goes on: a journal's first entry waits for no other session's work. */
  async #start(): Promise<void> {
    // Those of which none is left in memory the database has.
    const known = this.#begun.length || this.#held.size;
    const rows = known ? this.#begun.splice(0) : await unbegun(this.db, MOST_BEGUN);
    // Suspended, nothing begins: what waits the sweep finds when that is lifted.
    if (this.orgStatus === "suspended") return;
    const begun = await forEach(rows, (row) => sessionOf(this.env, row).begin(row));
    for (const row of begun) this.#held.set(row.id, row);
    if (this.#held.size) this.due("wake", Date.now());
    if (rows.length || this.#held.size) this.due("start", Date.now() + LOOK_AGAIN_MS);
  }

  /** A few at a time: a thousand that all ask the database at once would each wait for the slowest. */
  async #wakeHeld(): Promise<void> {
    await forEach([...this.#held.values()], async (row) => {
      this.#held.delete(row.id);
      const session = sessionOf(this.env, row);
      await session.wake(row);
      await session.frames(row, FIRST, STEP_MS);
    });
    if (this.#held.size) this.due("wake", Date.now());
  }
}

const isFull = ({ agent_schedule, agent_routine, automation }: Found) =>
  [agent_schedule, agent_routine, automation].some(({ length }) => length === MOST_DUE);
const isMuch = ({ agent_schedule, agent_routine, automation }: Record<Scheduled, Work>) =>
  [agent_schedule, agent_routine, automation].some(({ moves, settled }) => moves.length || settled.length);
