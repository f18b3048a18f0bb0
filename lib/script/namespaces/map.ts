import { entry, namespace } from "../entry.ts";
import { fail } from "../errors.ts";
import type { Run } from "../run.ts";
import {
  type Callable,
  isList,
  isMap,
  type List,
  type MapValue,
  toText,
  truthy,
  typeWords,
  type Value,
  type Waiting,
} from "../values.ts";

const MAX_PATH = 100;

type Step = string | number;

/** `"a.b.0"` or `["a", "b", 0]`. */
function steps(run: Run, path: string | List): Step[] {
  const parts = typeof path === "string" ? path.split(".", MAX_PATH + 1) : path.slice(0, MAX_PATH + 1);
  if (parts.length > MAX_PATH) throw fail("runtime", `a path has at most ${MAX_PATH} steps`);
  return parts.map((part) => {
    // The text of anything else could be without end.
    if (typeof part !== "string" && typeof part !== "number") {
      throw fail("runtime", `a step of a path is a string or a number, not ${typeWords(part)}`);
    }
    run.charge(typeof part === "string" ? 1 + (part.length >> 6) : 1);
    return part;
  });
}

function step(value: Value, key: Step): Value {
  if (isMap(value)) return value.get(String(key)) ?? null;
  return isList(value) ? (value[Number(key)] ?? null) : null;
}

function setIn(run: Run, value: Value, path: Step[], leaf: Value): Value {
  const [key, ...rest] = path;
  if (key === undefined) return leaf;
  const inner = setIn(run, step(value, key), rest, leaf);
  if (isList(value)) {
    const index = Number(key);
    if (!Number.isInteger(index) || index < 0 || index > value.length) {
      const place = String(key).slice(0, 40);
      throw fail("runtime", `\`setIn\`: there is no place \`${place}\` in an array of ${value.length}`);
    }
    run.list(value.length + 1);
    return value.toSpliced(index, 1, inner);
  }
  const map = isMap(value) ? value : new Map<string, Value>();
  run.fields(map.size + 1);
  return new Map(map).set(String(key), inner);
}

function deepMerge(run: Run, first: MapValue, second: MapValue, depth = 0): MapValue {
  if (depth > MAX_PATH) throw fail("limit_depth", `\`deepMerge\` goes at most ${MAX_PATH} levels deep`);
  run.fields(first.size + second.size);
  const merged = new Map(first);
  for (const [key, value] of second) {
    const before = merged.get(key);
    const both = before !== undefined && isMap(before) && isMap(value);
    merged.set(key, both ? deepMerge(run, before, value, depth + 1) : value);
  }
  return merged;
}

/** The object made of those entries that `keep` wants. */
function kept(run: Run, map: MapValue, keep: (key: string) => boolean): MapValue {
  run.fields(map.size);
  const out = new Map<string, Value>();
  for (const [key, value] of map) if (keep(key)) out.set(key, value);
  return out;
}

/** The object that `build` puts together of what a function gives for each entry. */
function* rebuilt(
  run: Run,
  map: MapValue,
  each: Callable,
  args: (key: string, value: Value) => Value[],
  build: (out: Map<string, Value>, given: Value, key: string, value: Value) => void,
): Waiting<MapValue> {
  run.fields(map.size);
  const out = new Map<string, Value>();
  for (const [key, value] of map) build(out, yield* run.calling(each, args(key, value)), key, value);
  return out;
}

/** The list is of its size from the start, and no pair is made for what is not one. */
function listed<T>(run: Run, size: number, items: Iterable<T>, each: (item: T) => Value): Value[] {
  run.list(size);
  const list = new Array<Value>(size);
  let i = 0;
  for (const item of items) list[i++] = each(item);
  return list;
}

/** All fields of all objects, the later ones winning. */
export function merged(run: Run, objects: (MapValue | null)[]): MapValue {
  run.fields(objects.reduce((sum, object) => sum + (object?.size ?? 0), 0));
  const all = new Map<string, Value>();
  for (const object of objects) for (const [key, value] of object ?? []) all.set(key, value);
  return all;
}

/** The names in a list, paid for. */
function namesIn(run: Run, keys: List): Set<Value> {
  run.alloc(keys.length * 48);
  for (const key of keys) run.charge(typeof key === "string" ? 2 + (key.length >> 6) : 2);
  return new Set(keys);
}

export const map = namespace("map", "Objects. Nothing changes an object: every function gives a new one.", [
  entry({
    name: "get",
    params: ["object: object|null", "key: string", "fallback?: any"],
    returns: "any",
    handsOn: true,
    doc: "A field, or the fallback (null) where there is none.",
    example: '[map.get({ a: 1 }, "a"), map.get({}, "a", 5)]',
    gives: [1, 5],
    run: (run, object, key, fallback) => {
      run.charge(key.length >> 6);
      return object?.get(key) ?? fallback ?? null;
    },
  }),
  entry({
    name: "getIn",
    params: ["object: any", "path: string|array", "fallback?: any"],
    returns: "any",
    handsOn: true,
    doc: "What a path leads to, or the fallback (null): a text with dots, or an array of keys.",
    example: 'map.getIn({ a: [{ b: 2 }] }, "a.0.b")',
    gives: 2,
    run: (run, object, path, fallback) => steps(run, path).reduce(step, object) ?? fallback ?? null,
  }),
  entry({
    name: "set",
    params: ["object: object|null", "key: string", "value: any"],
    returns: "object",
    doc: "The object with a field set.",
    example: 'map.set({ a: 1 }, "b", 2)',
    gives: { a: 1, b: 2 },
    run: (run, object, key, value) => {
      run.charge(key.length >> 6);
      return new Map(object).set(key, value);
    },
  }),
  entry({
    name: "setIn",
    params: ["object: any", "path: string|array", "value: any"],
    returns: "any",
    doc: "The object with what a path leads to set; objects on the way are made.",
    example: 'map.setIn({}, "a.b", 1)',
    gives: { a: { b: 1 } },
    run: (run, object, path, value) => setIn(run, object, steps(run, path), value),
  }),
  entry({
    name: "has",
    params: ["object: object", "key: string"],
    returns: "bool",
    doc: "Whether there is such a field, even if null.",
    example: '[map.has({ a: null }, "a"), map.has({}, "toString")]',
    gives: [true, false],
    run: (run, object, key) => {
      run.charge(key.length >> 6);
      return object.has(key);
    },
  }),
  entry({
    name: "remove",
    params: ["object: object", "key: string"],
    returns: "object",
    doc: "The object without a field.",
    example: 'map.remove({ a: 1, b: 2 }, "a")',
    gives: { b: 2 },
    run: (run, object, removed) => kept(run, object, (key) => key !== removed),
  }),
  entry({
    name: "keys",
    params: ["object: object"],
    returns: "array",
    doc: "The names of the fields, in their order.",
    example: "map.keys({ b: 1, a: 2 })",
    gives: ["b", "a"],
    run: (run, object) => listed(run, object.size, object.keys(), (key) => key),
  }),
  entry({
    name: "values",
    params: ["object: object"],
    returns: "array",
    doc: "The values of the fields, in their order.",
    example: "map.values({ b: 1, a: 2 })",
    gives: [1, 2],
    run: (run, object) => listed(run, object.size, object.values(), (value) => value),
  }),
  entry({
    name: "entries",
    params: ["object: object"],
    returns: "array",
    doc: "Pairs of a name and a value.",
    example: "map.entries({ a: 1 })",
    gives: [["a", 1]],
    run: (run, object) => {
      run.alloc(object.size * 80);
      return listed(run, object.size, object, ([key, value]) => [key, value]);
    },
  }),
  entry({
    name: "fromEntries",
    params: ["entries: array"],
    returns: "object",
    doc: "The object of pairs of a name and a value.",
    example: 'map.fromEntries([["a", 1]])',
    gives: { a: 1 },
    run: (run, entries) => {
      run.fields(entries.length);
      const made = new Map<string, Value>();
      for (const pair of entries) {
        if (!isList(pair) || pair.length !== 2)
          throw fail("runtime", "`fromEntries` wants pairs of a name and a value");
        made.set(toText(pair[0]!, run), pair[1]!);
      }
      return made;
    },
  }),
  entry({
    name: "merge",
    params: ["...objects: object|null"],
    returns: "object",
    doc: "All fields of all objects; where several have one, the last one's. Null counts as empty.",
    example: "map.merge({ a: 1, b: 1 }, { b: 2 })",
    gives: { a: 1, b: 2 },
    run: (run, ...objects) => merged(run, objects),
  }),
  entry({
    name: "deepMerge",
    params: ["first: object", "second: object"],
    returns: "object",
    doc: "`merge` that also merges the objects inside.",
    example: "map.deepMerge({ a: { b: 1 } }, { a: { c: 2 } })",
    gives: { a: { b: 1, c: 2 } },
    run: (run, first, second) => deepMerge(run, first, second),
  }),
  entry({
    name: "pick",
    params: ["object: object", "keys: array"],
    returns: "object",
    doc: "Only the fields of these names.",
    example: 'map.pick({ a: 1, b: 2 }, ["a", "x"])',
    gives: { a: 1 },
    run: (run, object, keys) => {
      const names = namesIn(run, keys);
      return kept(run, object, (key) => names.has(key));
    },
  }),
  entry({
    name: "omit",
    params: ["object: object", "keys: array"],
    returns: "object",
    doc: "All but the fields of these names.",
    example: 'map.omit({ a: 1, b: 2 }, ["a"])',
    gives: { b: 2 },
    run: (run, object, keys) => {
      const names = namesIn(run, keys);
      return kept(run, object, (key) => !names.has(key));
    },
  }),
  entry({
    name: "filter",
    params: ["object: object", "test: fn"],
    returns: "object",
    doc: "The fields for which `test(value, name)` is true.",
    example: "map.filter({ a: 1, b: 2 }, fn(v) { v > 1 })",
    gives: { b: 2 },
    steps: (run, object, test) =>
      rebuilt(
        run,
        object,
        test,
        (key, value) => [value, key],
        (out, given, key, value) => truthy(given) && out.set(key, value),
      ),
  }),
  entry({
    name: "mapValues",
    params: ["object: object", "each: fn"],
    returns: "object",
    doc: "The same names with what `each(value, name)` gives.",
    example: "map.mapValues({ a: 1 }, fn(v) { v + 1 })",
    gives: { a: 2 },
    steps: (run, object, each) =>
      rebuilt(
        run,
        object,
        each,
        (key, value) => [value, key],
        (out, given, key) => out.set(key, given),
      ),
  }),
  entry({
    name: "mapKeys",
    params: ["object: object", "each: fn"],
    returns: "object",
    doc: "The same values under what `each(name, value)` gives.",
    example: "map.mapKeys({ a: 1 }, string.uppercase)",
    gives: { A: 1 },
    steps: (run, object, each) =>
      rebuilt(
        run,
        object,
        each,
        (key, value) => [key, value],
        (out, given, _, value) => out.set(toText(given, run), value),
      ),
  }),
  entry({
    name: "size",
    params: ["object: object"],
    returns: "int",
    doc: "How many fields there are.",
    example: "map.size({ a: 1 })",
    gives: 1,
    run: (_, object) => object.size,
  }),
  entry({
    name: "isEmpty",
    params: ["object: object"],
    returns: "bool",
    doc: "Whether there are no fields.",
    example: "map.isEmpty({})",
    gives: true,
    run: (_, object) => object.size === 0,
  }),
]);
