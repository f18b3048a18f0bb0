import type { Field } from "./neon.ts";

/** How many texts a connection remembers. */
const MAX_KEPT = 200;
/**
 * How long a statement is kept. From its sixth run on Postgres uses one plan whatever the parameters are, which is as
 * good where a statement names its tenant, but was made for the size that the tables had then: until autovacuum has
 * looked at one that was empty and has grown since, its plan may be bad.
 */
const MAX_AGE_MS = 10_000;
export type Fields = Omit<Field, "format">[];
/** A text that was met. `name` is null until it is met again and parsed; `fields` are what its rows have, once known. */
export type Kept = { name: string | null; until: number; fields: Fields | null };

/**
 * The statements that a connection keeps parsed and planned, which is most of what a short one costs: those whose texts
 * were met twice, since most of what runs once never does again. No name ever stands for another text: whatever became
 * of a statement, Postgres then has it or misses it, and never runs another in its place.
 */
export class Prepared {
  readonly #known = new Map<string, Kept>();
  #named = 0;
  /** Names that nothing stands for any longer, to be closed before anything can fail. */
  #left: string[] = [];

  /** What is kept of a text, and whether it was met before. */
  meet(text: string): { kept: Kept; isMet: boolean } {
    const known = this.#known.get(text);
    const kept = known ?? { name: null, until: 0, fields: null };
    // A map is in the order in which things were put into it.
    this.#known.delete(text);
    this.#known.set(text, kept);
    const [oldest] = this.#known;
    if (oldest && this.#known.size > MAX_KEPT) {
      this.#leave(oldest[1]);
      this.#known.delete(oldest[0]);
    }
    return { kept, isMet: known !== undefined };
  }

  /** Gives a statement a new name, to be parsed under. */
  name(kept: Kept): string {
    this.#leave(kept);
    kept.name = `kept_${this.#named++}`;
    kept.until = performance.now() + MAX_AGE_MS;
    return kept.name;
  }

  #leave({ name }: Kept) {
    if (name !== null) this.#left.push(name);
  }

  takeLeft(): string[] {
    const left = this.#left;
    this.#left = [];
    return left;
  }

  /** What a statement behind one that failed has become is not known: Postgres skipped it. */
  drop(text: string) {
    const kept = this.#known.get(text);
    if (!kept) return;
    this.#leave(kept);
    this.#known.delete(text);
  }

  forget() {
    for (const kept of this.#known.values()) this.#leave(kept);
    this.#known.clear();
  }
}

/**
 * What a kept statement fails with when its table has got another column, and when the server doesn't have it: it lost
 * it, or never came to it behind one that failed.
 */
export const isOutdated = (code: string | null | undefined): boolean => code === "0A000" || code === "26000";
