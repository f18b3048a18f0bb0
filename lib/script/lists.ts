import { fail } from "./errors.ts";
import type { Run } from "./run.ts";
import { type Callable, equals, isMap, type List, toText, typeWords, type Value } from "./values.ts";

/** What `by` says of an item: a function's value, or a field by its name. */
export function keyOf(run: Run, item: Value, by: Callable | string): Value {
  run.charge(1);
  if (typeof by !== "string") return run.call(by, [item]);
  return isMap(item) ? (item.get(by) ?? null) : null;
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
export function sorted<T>(run: Run, items: readonly T[], compare: (a: T, b: T) => number): T[] {
  run.list(items.length * 2);
  let from = [...items];
  let to = [...items];
  for (let width = 1; width < from.length; width *= 2) {
    run.charge(from.length);
    for (let start = 0; start < from.length; start += width * 2) {
      const middle = Math.min(start + width, from.length);
      const end = Math.min(start + width * 2, from.length);
      let left = start;
      let right = middle;
      for (let i = start; i < end; i++) {
        const takeLeft = left < middle && (right >= end || compare(from[left]!, from[right]!) <= 0);
        to[i] = takeLeft ? from[left++]! : from[right++]!;
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
    this.run.charge(typeof value === "string" ? 1 + (value.length >> 6) : 1);
    if (typeof value !== "object" || value === null) return this.plain.has(value);
    return this.others.some((other) => {
      this.run.charge(1);
      return equals(other, value, this.run);
    });
  }
  /** Whether it was new. */
  add(value: Value): boolean {
    if (this.has(value)) return false;
    this.run.alloc(32);
    if (typeof value !== "object" || value === null) this.plain.add(value);
    else this.others.push(value);
    return true;
  }
}

export function setOf(run: Run, list: List): Seen {
  const seen = new Seen(run);
  for (const item of list) seen.add(item);
  return seen;
}

export function groups(run: Run, list: List, by: Callable | string): Map<string, Value[]> {
  const found = new Map<string, Value[]>();
  run.fields(0);
  for (const item of list) {
    const key = toText(keyOf(run, item, by), run);
    run.charge(key.length >> 6);
    const group = found.get(key);
    run.alloc(group ? 8 : 112);
    if (group) group.push(item);
    else found.set(key, [item]);
  }
  return found;
}

function numbers(name: string, list: List): number[] {
  return list.map((item) => {
    if (typeof item !== "number") throw fail("runtime", `\`${name}\` wants numbers, not ${typeWords(item)}`);
    return item;
  });
}

export function sumOf(run: Run, name: string, list: List): number {
  run.charge(list.length >> 2);
  const sum = numbers(name, list).reduce((a, b) => a + b, 0);
  if (!Number.isFinite(sum)) throw fail("runtime", "the sum is too large a number");
  return sum;
}

/** The texts of the items with a separator between them. */
export function joined(run: Run, list: List, separator: string): string {
  const texts = list.map((item) => toText(item, run));
  run.text(texts.reduce((sum, text) => sum + text.length + separator.length, 0));
  return texts.join(separator);
}
