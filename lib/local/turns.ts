/** Who is next at a database that many tenants share. */
import type { Query } from "./neon.ts";

/**
 * The tenant of a request, by its first statement: a door of schema.sql names it in its first parameters, app, sandbox
 * and org (a key's: app and sandbox). What comes through no door is one tenant more.
 */
export function tenantOf([first]: readonly Query[]): string {
  const [, door] = first?.query.match(/^select app\.enter_(\w+)\(/) ?? [];
  return door ? JSON.stringify(first!.params.slice(0, door === "key" ? 2 : 3)) : "";
}

type Waiter = () => void;

/**
 * So many places, given out in turn to the tenants that wait: one that asks for a hundred goes on with its second when
 * every other has had its first. Of `reserved` places the last ones stay for others, even when nobody else is there:
 * who comes first doesn't wait until one that holds all of them has done something slow.
 */
export class Turns {
  readonly #most: number;
  #free: number;
  readonly #held = new Map<string, number>();
  /** The waiting of each tenant. Whose turn is next stands first. */
  readonly #waiting = new Map<string, Set<Waiter>>();

  constructor(places: number, reserved = 0) {
    this.#free = places;
    this.#most = places - reserved;
  }

  /** Runs it when it is the tenant's turn; throws what `late` makes where it isn't within `wait_ms`. */
  async take<T>(tenant: string, run: () => Promise<T>, wait_ms?: number, late?: () => Error): Promise<T> {
    await this.#wait(tenant, wait_ms, late);
    try {
      return await run();
    } finally {
      this.#free++;
      const held = this.#held.get(tenant)! - 1;
      if (held) this.#held.set(tenant, held);
      else this.#held.delete(tenant);
      this.#next();
    }
  }

  #wait(tenant: string, wait_ms?: number, late?: () => Error): Promise<void> {
    return new Promise((resolve, reject) => {
      let timer: ReturnType<typeof setTimeout> | undefined;
      const waiter = () => {
        clearTimeout(timer);
        resolve();
      };
      const line = this.#waiting.get(tenant) ?? new Set();
      this.#waiting.set(tenant, line.add(waiter));
      if (late) {
        timer = setTimeout(() => {
          this.#leave(tenant, waiter);
          reject(late());
        }, wait_ms);
      }
      this.#next();
    });
  }

  /** Takes one out of its tenant's line. A line that nobody stands in is gone. */
  #leave(tenant: string, waiter: Waiter) {
    const line = this.#waiting.get(tenant);
    if (line?.delete(waiter) && !line.size) this.#waiting.delete(tenant);
  }

  #next() {
    while (this.#free > 0) {
      const turn = [...this.#waiting].find(([tenant]) => (this.#held.get(tenant) ?? 0) < this.#most);
      if (!turn) return;
      const [tenant, line] = turn;
      const [waiter] = line;
      // The tenant goes to the end of those who wait.
      this.#waiting.delete(tenant);
      this.#waiting.set(tenant, line);
      this.#leave(tenant, waiter!);
      this.#free--;
      this.#held.set(tenant, (this.#held.get(tenant) ?? 0) + 1);
      waiter!();
    }
  }
}
