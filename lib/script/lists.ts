import { fail } from "./errors.ts";
import type { Run } from "./run.ts";
import { type Callable, equals, isMap, type List, toText, typeWords, type Value, type Waiting } from "./values.ts";

/**
 * Calls `each` with the item and its place, in order, and shows what it gives; `see` answers true for enough. Where
 * functions don't wait by themselves, others have their turn between two calls.
 */
export function* walk(
  run: Run,
  list: List,
  each: Callable,
  see: (value: Value, item: Value, at: number) => unknown,
): Waiting<void> {
  for (let i = 0; i < list.length; i++) {
    if (run.steps > run.restAt) yield null;
    const args = [list[i]!, i];
    if (see(each.waits ? yield* run.calling(each, args) : run.call(each, args), list[i]!, i) === true) return;
  }
}

/** What `by` says of each item, shown as it is known: a function's value, or a field by its name. */
export function* walkKeys(
  run: Run,
  list: List,
  by: Callable | string,
  see: (key: Value, item: Value, at: number) => void,
): Waiting<void> {
  for (let i = 0; i < list.length; i++) {
    if (run.steps > run.restAt) yield null;
    run.charge(2);
    const item = list[i]!;
    if (typeof by === "string") see(isMap(item) ? (item.get(by) ?? null) : null, item, i);
    else see(by.waits ? yield* run.calling(by, [item]) : run.call(by, [item]), item, i);
  }
}

/** Numbers and strings among themselves; null stands before everything. */
export function order(run: Run, a: Value, b: Value): number {
  if (a === null || b === null) return a === b ? 0 : a === null ? -1 : 1;
  if (typeof a === typeof b && (typeof a === "number" || typeof a === "string" || typeof a === "boolean")) {
    if (typeof a === "string") run.charge(a.length >> 6);
    return a === b ? 0 : a < b! ? -1 : 1;
  }
  throw fail("runtime", `${typeWords(a)} and ${typeWords(b)} have no order; sort by a function`);
}

/** Merge sort: stable, every comparison paid for, and of the same outcome however inconsistent the comparison. */
export function* sorted<T>(
  run: Run,
  items: readonly T[],
  compare: ((a: T, b: T) => number) | ((a: T, b: T) => Waiting<number>),
): Waiting<T[]> {
  run.list(items.length * 2);
  let from = [...items];
  let to = [...items];
  for (let width = 1; width < from.length; width *= 2) {
    for (let start = 0; start < from.length; start += width * 2) {
      const middle = Math.min(start + width, from.length);
      const end = Math.min(start + width * 2, from.length);
      let left = start;
      let right = middle;
      for (let i = start; i < end; i++) {
        run.charge(2);
        if (run.steps > run.restAt) yield null;
        let first = left < middle;
        if (first && right < end) {
          const order = compare(from[left]!, from[right]!);
          first = (typeof order === "number" ? order : yield* order) <= 0;
        }
        to[i] = first ? from[left++]! : from[right++]!;
      }
    }
    [from, to] = [to, from];
  }
  return from;
}

/** A set of values by content: texts and numbers at once, others by comparing. */
export class Seen {
  private readonly plain = new Set<Value>();
  private readonly others: Value[] = [];
  private readonly run: Run;
  constructor(run: Run) {
    this.run = run;
  }
  has(value: Value): boolean {
    this.run.charge(typeof value === "string" ? 4 + (value.length >> 6) : 4);
    if (typeof value !== "object" || value === null) return this.plain.has(value);
    return this.others.some((other) => {
      this.run.charge(1);
      return equals(other, value, this.run);
    });
  }
  /** Whether it was new. */
  add(value: Value): boolean {
    if (this.has(value)) return false;
    this.run.alloc(48);
    if (typeof value !== "object" || value === null) this.plain.add(value);
    else this.others.push(value);
    return true;
  }
}

export function* setOf(run: Run, list: List): Waiting<Seen> {
  const seen = new Seen(run);
  for (const item of list) {
    if (run.steps > run.restAt) yield null;
    seen.add(item);
  }
  return seen;
}

/** The items that `wants` wants, which may be costly to say. */
export function* chosen(run: Run, list: List, wants: (item: Value) => boolean): Waiting<Value[]> {
  const found: Value[] = [];
  run.list(list.length);
  for (const item of list) {
    if (run.steps > run.restAt) yield null;
    if (wants(item)) found.push(item);
  }
  return found;
}

export function* groups(run: Run, list: List, by: Callable | string): Waiting<Map<string, Value[]>> {
  const found = new Map<string, Value[]>();
  run.fields(0);
  yield* walkKeys(run, list, by, (value, item) => {
    const key = toText(value, run);
    run.charge(8 + (key.length >> 6));
    const group = found.get(key);
    run.alloc(group ? 20 : 160);
    if (group) group.push(item);
    else found.set(key, [item]);
  });
  return found;
}

export function sumOf(run: Run, name: string, list: List): number {
  run.charge(list.length);
  let sum = 0;
  for (const item of list) {
    if (typeof item !== "number") throw fail("runtime", `\`${name}\` wants numbers, not ${typeWords(item)}`);
    sum += item;
  }
  if (!Number.isFinite(sum)) throw fail("runtime", "the sum is too large a number");
  return sum;
}

/** The texts of the items with a separator between them. */
export function joined(run: Run, list: List, separator: string): string {
  run.list(list.length);
  const texts = list.map((item) => toText(item, run));
  run.text(texts.reduce((sum, text) => sum + text.length + separator.length, 0));
  return texts.join(separator);
}
