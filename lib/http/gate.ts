/** How much of what is dear one org may have going on at once in an isolate, so that the others are answered. */
import type { Allowed, Asked, Credential } from "../auth/allow.ts";
import { tooMany } from "../errors.ts";
import type { Place } from "../objects/stub.ts";

type Waiter = { until: number; admit: () => void };
/** What holds a place, each until when, and who waits for one, in order. */
type Line = { held: Set<{ until: number }>; waiting: Waiter[] };

export type Bounds = {
  /** At once for a key. */
  most: number;
  /** Who may wait for a key: the next is refused without waiting. */
  waiters?: number;
  /** How long one waits. */
  wait_ms?: number;
  /**
   * When a place is given to the next though nobody gave it back: an isolate forgets a request that was cut off, and
   * all that it would have done at its end. Longer than anything takes that stands behind the gate.
   */
  lease_ms?: number;
};

/** Lets at most so many through at once for a key; others wait in order, for a while, and are then refused (429). */
export class Gate {
  readonly #bounds: Required<Bounds>;
  readonly #lines = new Map<string, Line>();

  constructor(bounds: Bounds) {
    this.#bounds = { waiters: 100, wait_ms: 10_000, lease_ms: 60_000, ...bounds };
  }

  /** Keys that somebody holds or waits for: one that nobody does takes no memory. */
  get size(): number {
    return this.#lines.size;
  }

  /** Whether the next for this key would have to wait. */
  isFull(key: string): boolean {
    const line = this.#lines.get(key);
    if (!line) return false;
    this.#admit(line);
    return line.held.size >= this.#bounds.most;
  }

  /** Runs it when there is a place. 429 where none came in time, where too many wait, and where `signal` says to stop. */
  async pass<T>(key: string, run: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const line = this.#lines.get(key) ?? { held: new Set(), waiting: [] };
    this.#lines.set(key, line);
    const place = { until: 0 };
    try {
      await this.#wait(line, place, signal);
      return await run();
    } finally {
      line.held.delete(place);
      this.#admit(line);
      const isOver = !line.held.size && !line.waiting.length;
      if (isOver && this.#lines.get(key) === line) this.#lines.delete(key);
    }
  }

  async #wait(line: Line, place: { until: number }, signal?: AbortSignal): Promise<void> {
    const { waiters, wait_ms, lease_ms } = this.#bounds;
    if (line.waiting.length >= waiters) throw tooManyAtOnce();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let leave = () => {};
    const admitted = await new Promise<boolean>((answer) => {
      const admit = () => {
        place.until = Date.now() + lease_ms;
        line.held.add(place);
        answer(true);
      };
      const waiter = { until: Date.now() + wait_ms, admit };
      leave = () => {
        line.waiting = line.waiting.filter((other) => other !== waiter);
        answer(false);
      };
      line.waiting.push(waiter);
      this.#admit(line);
      if (place.until) return;
      if (signal?.aborted) return leave();
      timer = setTimeout(leave, wait_ms);
      signal?.addEventListener("abort", leave);
    });
    clearTimeout(timer);
    signal?.removeEventListener("abort", leave);
    if (!admitted) throw tooManyAtOnce();
  }

  #admit(line: Line) {
    const now = Date.now();
    for (const place of line.held) if (place.until <= now) line.held.delete(place);
    // One whose time is over and who is still here was cut off.
    while (line.held.size < this.#bounds.most && line.waiting.length) {
      const waiter = line.waiting.shift()!;
      if (waiter.until > now) waiter.admit();
    }
  }
}

const tooManyAtOnce = () =>
  tooMany(
    1,
    "Too much of this is going on at once for this org. Try again when some of it is done.",
    "too_many_at_once",
  );

export const searches = new Gate({ most: 8 });
export const runs = new Gate({ most: 2 });

/** Whose it counts as: of a token its org, of a secret key its app (or sandbox). */
export const placeOf = (credential: Credential) =>
  [credential.app, credential.sandbox, ...(credential.kind === "user" ? [credential.org] : [])].join(" ");

/**
 * Runs it when it is the turn of the credential, or of the org of a row, at the gate. Who would have to wait is first looked
 * up in the database: a forged key must not stand in its app's line. It goes on to its end though the client hangs up, as
 * its statement does.
 */
export async function inTurn<T>(
  gate: Gate,
  c: Asked & { var: Pick<Allowed["Variables"], "credential" | "db"> },
  run: () => Promise<T>,
  row?: Place,
): Promise<T> {
  const { db, credential } = c.var;
  const place = row ? [row.app_id, row.sandbox_id, row.org_id].join(" ") : placeOf(credential);
  if (gate.isFull(place)) await db.enter();
  const passing = gate.pass(place, run, c.req.raw.signal);
  c.executionCtx.waitUntil(passing.catch(() => {}));
  return passing;
}
