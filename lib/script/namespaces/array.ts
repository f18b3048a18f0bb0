import { entry, namespace } from "../entry.ts";
import { fail } from "../errors.ts";
import { chosen, groups, joined, order, Seen, setOf, sorted, sumOf, walk, walkKeys } from "../lists.ts";
import type { Run } from "../run.ts";
import {
  type Callable,
  equals,
  isList,
  type List,
  type MapValue,
  truthy,
  typeWords,
  type Value,
  type Waiting,
} from "../values.ts";

const MAX_RANGE = 1_000_000;

/** The list is paid for before, while calls may nest. */
function* eachOf(run: Run, list: List, each: Callable): Waiting<Value[]> {
  run.list(list.length);
  const out = new Array<Value>(list.length);
  yield* walk(run, list, each, (value, _, i) => {
    out[i] = value;
  });
  return out;
}

/** The item that stands first, or last with `sign` -1, by its order; of several the earliest. */
function* extreme(run: Run, list: List, by: Callable | string, sign: 1 | -1): Waiting<Value> {
  let best: Value = null;
  let bestKey: Value = null;
  yield* walkKeys(run, list, by, (key, item, i) => {
    run.charge(1);
    if (i > 0 && order(run, key, bestKey) * sign >= 0) return;
    best = item;
    bestKey = key;
  });
  return best;
}

/** The least item, or the greatest with `sign` -1. */
function least(run: Run, list: List, sign: 1 | -1): Value {
  let best = list[0] ?? null;
  for (const item of list) {
    run.charge(2);
    if (order(run, item, best) * sign < 0) best = item;
  }
  return best;
}

function flat(run: Run, list: List, depth: number): Value[] {
  const out: Value[] = [];
  const add = (items: List, left: number) => {
    for (const item of items) {
      run.charge(1);
      if (isList(item) && left > 0) add(item, left - 1);
      else {
        run.alloc(24);
        out.push(item);
      }
    }
  };
  run.list(0);
  add(list, Math.min(depth, 100));
  return out;
}

function* split(run: Run, list: List, test: Callable): Waiting<[Value[], Value[]]> {
  const yes: Value[] = [];
  const no: Value[] = [];
  run.list(list.length * 2);
  yield* walk(run, list, test, (value, item) => {
    (truthy(value) ? yes : no).push(item);
  });
  return [yes, no];
}

/** The first place whose test is true, or false when `is` says so; -1 if there is none. */
function* findIndex(run: Run, list: List, test: Callable, is = true): Waiting<number> {
  let found = -1;
  yield* walk(run, list, test, (value, _, i) => {
    if (truthy(value) !== is) return false;
    found = i;
    return true;
  });
  return found;
}

function* indexOf(run: Run, list: List, item: Value): Waiting<number> {
  for (let i = 0; i < list.length; i++) {
    if (run.steps > run.restAt) yield null;
    run.charge(1);
    if (equals(list[i]!, item, run)) return i;
  }
  return -1;
}

function sort(run: Run, list: List, compare?: Callable): Waiting<List> {
  if (!compare) return sorted(run, list, (a, b) => order(run, a, b));
  const ordered = (value: Value): number => {
    if (typeof value === "number") return value;
    if (typeof value === "boolean") return value ? -1 : 1;
    throw fail("runtime", `the function of \`sort\` gives a number below, at or above 0, not ${typeWords(value)}`);
  };
  if (!compare.waits) return sorted(run, list, (a, b) => ordered(run.call(compare, [a, b])));
  return sorted(run, list, function* (a, b): Waiting<number> {
    return ordered(yield* run.calling(compare, [a, b]));
  });
}

function range(run: Run, from: number, to: number | undefined, step: number): Value {
  const [start, end] = to === undefined ? [0, from] : [from, to];
  if (step === 0) throw fail("runtime", "`range` wants a step other than 0");
  const count = Math.max(0, Math.ceil((end - start) / step));
  if (count > MAX_RANGE) throw fail("runtime", `\`range\` makes at most ${MAX_RANGE.toLocaleString("en")} numbers`);
  run.list(count);
  const numbers = new Array<number>(count);
  for (let i = 0; i < count; i++) numbers[i] = start + i * step;
  return numbers;
}

function chunk(run: Run, list: List, size: number): Value {
  if (size < 1) throw fail("runtime", "`chunk` wants a size of at least 1");
  const out: Value[] = [];
  for (let i = 0; i < list.length; i += size) {
    const part = list.slice(i, i + size);
    run.list(part.length);
    run.charge(4);
    out.push(part);
  }
  return out;
}

function zip(run: Run, first: List, second: List): Value {
  const count = Math.min(first.length, second.length);
  run.alloc(count * 88);
  run.charge(count * 2);
  const pairs = new Array<Value>(count);
  for (let i = 0; i < count; i++) pairs[i] = [first[i]!, second[i]!];
  return pairs;
}

function changed(run: Run, found: ReadonlyMap<string, Value[]>, change: (items: Value[]) => Value): MapValue {
  run.fields(found.size);
  const map = new Map<string, Value>();
  for (const [key, items] of found) map.set(key, change(items));
  return map;
}

function place(name: string, list: List, index: number, end: number) {
  if (index >= 0 && index < end) return index;
  throw fail("runtime", `\`${name}\`: there is no place ${index} in an array of ${list.length}`);
}

export const array = namespace("array", "Arrays. Nothing changes an array: every function gives a new one.", [
  entry({
    name: "map",
    params: ["list: array", "each: fn"],
    returns: "array",
    doc: "What `each(item, index)` gives for every item.",
    example: "array.map([1, 2], fn(x) { x * 10 })",
    gives: [10, 20],
    steps: eachOf,
  }),
  entry({
    name: "filter",
    params: ["list: array", "test: fn"],
    returns: "array",
    doc: "The items for which `test(item, index)` is true.",
    example: "array.filter([1, 2, 3], fn(x) { x > 1 })",
    gives: [2, 3],
    *steps(run, list, test) {
      return (yield* split(run, list, test))[0];
    },
  }),
  entry({
    name: "reduce",
    params: ["list: array", "initial: any", "step: fn"],
    returns: "any",
    handsOn: true,
    doc: "Goes through the list with a value: `step(value, item, index)` gives the next one.",
    example: "array.reduce([1, 2, 3], 0, fn(sum, x) { sum + x })",
    gives: 6,
    *steps(run, list, initial, step) {
      let value = initial;
      for (let i = 0; i < list.length; i++) {
        if (run.steps > run.restAt) yield null;
        const args = [value, list[i]!, i];
        value = step.waits ? yield* run.calling(step, args) : run.call(step, args);
      }
      return value;
    },
  }),
  entry({
    name: "forEach",
    params: ["list: array", "each: fn"],
    returns: "null",
    doc: "Calls `each(item, index)` for every item, for what it does.",
    example: "array.forEach([1], fn(x) { println(x) })",
    gives: null,
    *steps(run, list, each) {
      yield* walk(run, list, each, () => false);
      return null;
    },
  }),
  entry({
    name: "find",
    params: ["list: array", "test: fn"],
    returns: "any",
    handsOn: true,
    doc: "The first item for which `test` is true, or null.",
    example: "array.find([1, 2, 3], fn(x) { x > 1 })",
    gives: 2,
    *steps(run, list, test) {
      return list[yield* findIndex(run, list, test)] ?? null;
    },
  }),
  entry({
    name: "findIndex",
    params: ["list: array", "test: fn"],
    returns: "int",
    doc: "The place of the first item for which `test` is true, or -1.",
    example: "array.findIndex([1, 2, 3], fn(x) { x > 1 })",
    gives: 1,
    steps: (run, list, test) => findIndex(run, list, test),
  }),
  entry({
    name: "some",
    params: ["list: array", "test: fn"],
    returns: "bool",
    doc: "Whether `test` is true for any item.",
    example: "array.some([1, 2], fn(x) { x > 1 })",
    gives: true,
    *steps(run, list, test) {
      return (yield* findIndex(run, list, test)) >= 0;
    },
  }),
  entry({
    name: "every",
    params: ["list: array", "test: fn"],
    returns: "bool",
    doc: "Whether `test` is true for all items.",
    example: "array.every([1, 2], fn(x) { x > 1 })",
    gives: false,
    *steps(run, list, test) {
      return (yield* findIndex(run, list, test, false)) < 0;
    },
  }),
  entry({
    name: "count",
    params: ["list: array", "test: fn"],
    returns: "int",
    doc: "For how many items `test` is true.",
    example: "array.count([1, 2, 3], fn(x) { x > 1 })",
    gives: 2,
    *steps(run, list, test) {
      return (yield* split(run, list, test))[0].length;
    },
  }),
  entry({
    name: "length",
    params: ["list: array"],
    returns: "int",
    doc: "How many items there are.",
    example: "array.length([1, 2])",
    gives: 2,
    run: (_, list) => list.length,
  }),
  entry({
    name: "isEmpty",
    params: ["list: array"],
    returns: "bool",
    doc: "Whether there are no items.",
    example: "array.isEmpty([])",
    gives: true,
    run: (_, list) => list.length === 0,
  }),
  entry({
    name: "at",
    params: ["list: array", "index: int"],
    returns: "any",
    handsOn: true,
    doc: "The item at a place, from the end when negative; null where there is none.",
    example: "[array.at([1, 2], -1), array.at([1, 2], 5)]",
    gives: [2, null],
    run: (_, list, index) => list.at(index) ?? null,
  }),
  entry({
    name: "first",
    params: ["list: array"],
    returns: "any",
    handsOn: true,
    doc: "The first item, or null.",
    example: "array.first([1, 2])",
    gives: 1,
    run: (_, list) => list[0] ?? null,
  }),
  entry({
    name: "last",
    params: ["list: array"],
    returns: "any",
    handsOn: true,
    doc: "The last item, or null.",
    example: "array.last([1, 2])",
    gives: 2,
    run: (_, list) => list.at(-1) ?? null,
  }),
  entry({
    name: "slice",
    params: ["list: array", "start: int", "end?: int"],
    returns: "array",
    doc: "The items from `start` to before `end`; negative places count from the end.",
    example: "array.slice([1, 2, 3], 1)",
    gives: [2, 3],
    run: (_, list, start, end) => list.slice(start, end),
  }),
  entry({
    name: "take",
    params: ["list: array", "count: int"],
    returns: "array",
    doc: "The first so many items.",
    example: "array.take([1, 2, 3], 2)",
    gives: [1, 2],
    run: (_, list, count) => list.slice(0, Math.max(0, count)),
  }),
  entry({
    name: "drop",
    params: ["list: array", "count: int"],
    returns: "array",
    doc: "All but the first so many items.",
    example: "array.drop([1, 2, 3], 2)",
    gives: [3],
    run: (_, list, count) => list.slice(Math.max(0, count)),
  }),
  entry({
    name: "takeWhile",
    params: ["list: array", "test: fn"],
    returns: "array",
    doc: "The items up to the first for which `test` is not true.",
    example: "array.takeWhile([1, 2, 3, 1], fn(x) { x < 3 })",
    gives: [1, 2],
    *steps(run, list, test) {
      const end = yield* findIndex(run, list, test, false);
      return end < 0 ? list : list.slice(0, end);
    },
  }),
  entry({
    name: "dropWhile",
    params: ["list: array", "test: fn"],
    returns: "array",
    doc: "The items from the first on for which `test` is not true.",
    example: "array.dropWhile([1, 2, 3, 1], fn(x) { x < 3 })",
    gives: [3, 1],
    *steps(run, list, test) {
      const start = yield* findIndex(run, list, test, false);
      return start < 0 ? [] : list.slice(start);
    },
  }),
  entry({
    name: "indexOf",
    params: ["list: array", "item: any"],
    returns: "int",
    doc: "The first place of an equal item, or -1.",
    example: "[array.indexOf([1, { a: 1 }], { a: 1 }), array.indexOf([], 1)]",
    gives: [1, -1],
    steps: indexOf,
  }),
  entry({
    name: "includes",
    params: ["list: array", "item: any"],
    returns: "bool",
    doc: "Whether an equal item is in the list.",
    example: "array.includes([1, 2], 2)",
    gives: true,
    *steps(run, list, item) {
      return (yield* indexOf(run, list, item)) >= 0;
    },
  }),
  entry({
    name: "push",
    params: ["list: array", "...items: any"],
    returns: "array",
    doc: "The list with the items after it.",
    example: "array.push([1], 2)",
    gives: [1, 2],
    run: (_, list, ...items) => [...list, ...items],
  }),
  entry({
    name: "prepend",
    params: ["list: array", "item: any"],
    returns: "array",
    doc: "The list with the item before it.",
    example: "array.prepend([1], 0)",
    gives: [0, 1],
    run: (_, list, item) => [item, ...list],
  }),
  entry({
    name: "concat",
    params: ["...lists: array"],
    returns: "array",
    doc: "All lists in one.",
    example: "array.concat([1], [2, 3])",
    gives: [1, 2, 3],
    run: (run, ...lists) => {
      run.list(lists.reduce((sum, list) => sum + list.length, 0));
      return lists.flat();
    },
  }),
  entry({
    name: "insertAt",
    params: ["list: array", "index: int", "item: any"],
    returns: "array",
    doc: "The list with the item put in at a place from 0 to its length.",
    example: "array.insertAt([1, 3], 1, 2)",
    gives: [1, 2, 3],
    run: (_, list, index, item) => list.toSpliced(place("insertAt", list, index, list.length + 1), 0, item),
  }),
  entry({
    name: "setAt",
    params: ["list: array", "index: int", "item: any"],
    returns: "array",
    doc: "The list with another item at a place.",
    example: "array.setAt([1, 2], 1, 5)",
    gives: [1, 5],
    run: (_, list, index, item) => list.with(place("setAt", list, index, list.length), item),
  }),
  entry({
    name: "removeAt",
    params: ["list: array", "index: int"],
    returns: "array",
    doc: "The list without the item at a place.",
    example: "array.removeAt([1, 2], 0)",
    gives: [2],
    run: (_, list, index) => list.toSpliced(place("removeAt", list, index, list.length), 1),
  }),
  entry({
    name: "reverse",
    params: ["list: array"],
    returns: "array",
    doc: "The items from the last to the first.",
    example: "array.reverse([1, 2])",
    gives: [2, 1],
    run: (_, list) => list.toReversed(),
  }),
  entry({
    name: "flat",
    params: ["list: array", "depth?: int"],
    returns: "array",
    doc: "The items of the arrays inside, one level deep unless said otherwise.",
    example: "array.flat([[1], [2, [3]]])",
    gives: [1, 2, [3]],
    run: (run, list, depth = 1) => flat(run, list, depth),
  }),
  entry({
    name: "flatMap",
    params: ["list: array", "each: fn"],
    returns: "array",
    doc: "`map`, and the arrays it gives in one.",
    example: "array.flatMap([1, 2], fn(x) { [x, x] })",
    gives: [1, 1, 2, 2],
    *steps(run, list, each) {
      return flat(run, yield* eachOf(run, list, each), 1);
    },
  }),
  entry({
    name: "sort",
    params: ["list: array", "compare?: fn"],
    returns: "array",
    doc: "Numbers or strings in order, nulls first; or by `compare(a, b)`, a number below 0 when a comes first. Equal items keep their order.",
    example: "[array.sort([3, 1, 2]), array.sort([1, 2], fn(a, b) { b - a })]",
    gives: [
      [1, 2, 3],
      [2, 1],
    ],
    steps: sort,
  }),
  entry({
    name: "sortBy",
    params: ["list: array", "by: fn|string", "direction?: string"],
    returns: "array",
    doc: 'In order of what a function gives, or of a field; from the greatest down with "desc".',
    example: 'array.sortBy([{ n: 1 }, { n: 2 }], "n", "desc")',
    gives: [{ n: 2 }, { n: 1 }],
    *steps(run, list, by, direction = "asc") {
      const sign = direction === "desc" ? -1 : 1;
      run.alloc(list.length * 64);
      const keyed: { item: Value; key: Value }[] = [];
      yield* walkKeys(run, list, by, (key, item) => {
        keyed.push({ item, key });
      });
      return (yield* sorted(run, keyed, (a, b) => order(run, a.key, b.key) * sign)).map(({ item }) => item);
    },
  }),
  entry({
    name: "unique",
    params: ["list: array"],
    returns: "array",
    doc: "Every item once, where it first stood.",
    example: "array.unique([1, 2, 1])",
    gives: [1, 2],
    steps: (run, list) => {
      const seen = new Seen(run);
      return chosen(run, list, (item) => seen.add(item));
    },
  }),
  entry({
    name: "uniqueBy",
    params: ["list: array", "by: fn|string"],
    returns: "array",
    doc: "The first item for each thing that a function gives, or a field holds.",
    example: 'array.uniqueBy([{ a: 1, b: 1 }, { a: 1, b: 2 }], "a")',
    gives: [{ a: 1, b: 1 }],
    *steps(run, list, by) {
      const seen = new Seen(run);
      const found: Value[] = [];
      run.list(list.length);
      yield* walkKeys(run, list, by, (key, item) => {
        if (seen.add(key)) found.push(item);
      });
      return found;
    },
  }),
  entry({
    name: "groupBy",
    params: ["list: array", "by: fn|string"],
    returns: "object",
    doc: "Arrays of items, under the text of what a function gives or a field holds.",
    example: 'array.groupBy([{ t: "a", n: 1 }, { t: "b", n: 2 }, { t: "a", n: 3 }], "t")',
    gives: {
      a: [
        { t: "a", n: 1 },
        { t: "a", n: 3 },
      ],
      b: [{ t: "b", n: 2 }],
    },
    steps: groups,
  }),
  entry({
    name: "countBy",
    params: ["list: array", "by: fn|string"],
    returns: "object",
    doc: "How many items there are, under the text of what a function gives or a field holds.",
    example: "array.countBy([1, 2, 3], fn(x) { x > 1 })",
    gives: { false: 1, true: 2 },
    *steps(run, list, by) {
      return changed(run, yield* groups(run, list, by), (items) => items.length);
    },
  }),
  entry({
    name: "keyBy",
    params: ["list: array", "by: fn|string"],
    returns: "object",
    doc: "The items under the text of what a function gives or a field holds; of several the last.",
    example: 'array.keyBy([{ id: "x", n: 1 }], "id")',
    gives: { x: { id: "x", n: 1 } },
    *steps(run, list, by) {
      return changed(run, yield* groups(run, list, by), (items) => items.at(-1)!);
    },
  }),
  entry({
    name: "partition",
    params: ["list: array", "test: fn"],
    returns: "array",
    doc: "Two arrays: the items for which `test` is true, and the others.",
    example: "array.partition([1, 2, 3], fn(x) { x > 1 })",
    gives: [[2, 3], [1]],
    *steps(run, list, test) {
      run.list(2);
      return yield* split(run, list, test);
    },
  }),
  entry({
    name: "join",
    params: ["list: array", "separator?: string"],
    returns: "string",
    doc: 'The texts of the items with a separator between them, "," unless said otherwise.',
    example: 'array.join([1, "a"], ", ")',
    gives: "1, a",
    run: (run, list, separator = ",") => joined(run, list, separator),
  }),
  entry({
    name: "range",
    params: ["from: number", "to?: number", "step?: number"],
    returns: "array",
    doc: "The numbers from `from` to before `to`; with one argument from 0 to before it.",
    example: "[array.range(3), array.range(1, 4), array.range(4, 0, -2)]",
    gives: [
      [0, 1, 2],
      [1, 2, 3],
      [4, 2],
    ],
    run: (run, from, to, step = 1) => range(run, from, to, step),
  }),
  entry({
    name: "repeat",
    params: ["item: any", "count: int"],
    returns: "array",
    doc: "The item so many times.",
    example: "array.repeat(0, 3)",
    gives: [0, 0, 0],
    run: (run, item, count) => {
      run.list(Math.max(0, count));
      return new Array<Value>(Math.max(0, count)).fill(item);
    },
  }),
  entry({
    name: "zip",
    params: ["first: array", "second: array"],
    returns: "array",
    doc: "Pairs of the items at the same places, as many as the shorter one has.",
    example: 'array.zip([1, 2], ["a", "b"])',
    gives: [
      [1, "a"],
      [2, "b"],
    ],
    run: zip,
  }),
  entry({
    name: "enumerate",
    params: ["list: array"],
    returns: "array",
    doc: "Pairs of a place and its item.",
    example: 'array.enumerate(["a"])',
    gives: [[0, "a"]],
    run: (run, list) => {
      run.alloc(list.length * 88);
      run.charge(list.length * 2);
      return list.map((item, i) => [i, item]);
    },
  }),
  entry({
    name: "chunk",
    params: ["list: array", "size: int"],
    returns: "array",
    doc: "Arrays of so many items each, the last of what is left.",
    example: "array.chunk([1, 2, 3], 2)",
    gives: [[1, 2], [3]],
    run: chunk,
  }),
  entry({
    name: "compact",
    params: ["list: array"],
    returns: "array",
    doc: "The items that are not null.",
    example: "array.compact([1, null, 0])",
    gives: [1, 0],
    run: (run, list) => {
      run.charge(list.length >> 2);
      return list.filter((item) => item !== null);
    },
  }),
  entry({
    name: "difference",
    params: ["list: array", "without: array"],
    returns: "array",
    doc: "The items that are not in the other list.",
    example: "array.difference([1, 2, 3], [2])",
    gives: [1, 3],
    *steps(run, list, without) {
      const seen = yield* setOf(run, without);
      return yield* chosen(run, list, (item) => !seen.has(item));
    },
  }),
  entry({
    name: "intersection",
    params: ["first: array", "second: array"],
    returns: "array",
    doc: "The items of the first list that are in the second too.",
    example: "array.intersection([1, 2, 3], [3, 1])",
    gives: [1, 3],
    *steps(run, first, second) {
      const seen = yield* setOf(run, second);
      return yield* chosen(run, first, (item) => seen.has(item));
    },
  }),
  entry({
    name: "sum",
    params: ["list: array"],
    returns: "number",
    doc: "The sum of the numbers, 0 of none.",
    example: "array.sum([1, 2.5])",
    gives: 3.5,
    run: (run, list) => sumOf(run, "sum", list),
  }),
  entry({
    name: "average",
    params: ["list: array"],
    returns: "number|null",
    doc: "The mean of the numbers, null of none.",
    example: "array.average([1, 2])",
    gives: 1.5,
    run: (run, list) => (list.length ? sumOf(run, "average", list) / list.length : null),
  }),
  entry({
    name: "min",
    params: ["list: array"],
    returns: "any",
    handsOn: true,
    doc: "The least number or string, null of none.",
    example: "array.min([2, 1])",
    gives: 1,
    run: (run, list) => least(run, list, 1),
  }),
  entry({
    name: "max",
    params: ["list: array"],
    returns: "any",
    handsOn: true,
    doc: "The greatest number or string, null of none.",
    example: "array.max([2, 1])",
    gives: 2,
    run: (run, list) => least(run, list, -1),
  }),
  entry({
    name: "minBy",
    params: ["list: array", "by: fn|string"],
    returns: "any",
    handsOn: true,
    doc: "The item for which a function gives, or whose field holds, the least.",
    example: 'array.minBy([{ n: 2 }, { n: 1 }], "n")',
    gives: { n: 1 },
    steps: (run, list, by) => extreme(run, list, by, 1),
  }),
  entry({
    name: "maxBy",
    params: ["list: array", "by: fn|string"],
    returns: "any",
    handsOn: true,
    doc: "The item for which a function gives, or whose field holds, the greatest.",
    example: 'array.maxBy([{ n: 2 }, { n: 1 }], "n")',
    gives: { n: 2 },
    steps: (run, list, by) => extreme(run, list, by, -1),
  }),
]);
