import { type ErrorCode, fail } from "./errors.ts";

/** What a script computes with. Nothing here is ever changed after it was built, so nothing can hold itself. */
export type Value = null | boolean | number | string | List | MapValue | Result | Callable | Namespace;
export type List = readonly Value[];
/** A `Map`, since `__proto__` and `constructor` are then keys like any other. */
export type MapValue = ReadonlyMap<string, Value>;

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/** Whoever builds or walks values pays as it goes, so a value shared a thousand times costs a thousand times. */
export interface Meter {
  charge(steps: number): void;
  alloc(bytes: number): void;
}

/** The outcome of a call that may fail: `value` when ok, otherwise a sentence in `message`. */
export class Result {
  readonly ok: boolean;
  readonly value: Value;
  readonly message: string;
  constructor(ok: boolean, value: Value, message: string) {
    this.ok = ok;
    this.value = value;
    this.message = message;
  }
}

export const ok = (value: Value) => new Result(true, value, "");
export const err = (message: string) => new Result(false, null, message);

/** A function, of the script or of ours. How it runs is told beside `Run`: to all others it is only a value. */
export abstract class Callable {
  /** As one of our functions calls it. `run` is the run that it happens in, of which no more is known here. */
  abstract call(run: Meter, args: Value[]): Value;
}

/** What `import("array")` gives: named members, and an error that suggests for any other name. */
export class Namespace {
  readonly name: string;
  readonly doc: string;
  readonly members: ReadonlyMap<string, Value>;
  constructor(name: string, doc: string, members: ReadonlyMap<string, Value>) {
    this.name = name;
    this.doc = doc;
    this.members = members;
  }

  /** A member by its name, or by the same name in snake_case: older scripts spell some of them so. */
  find(name: string): Value | undefined {
    return this.members.get(name) ?? this.members.get(camelCase(name));
  }
}

export const camelCase = (name: string) => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

/** Deeper values may exist, but are not walked: comparing, printing and JSON go by recursion. */
const MAX_VALUE_DEPTH = 200;

const tooDeep = () => fail("limit_depth", `a value is nested more than ${MAX_VALUE_DEPTH} levels deep`);

export const isList = (value: Value): value is List => Array.isArray(value);
export const isMap = (value: Value): value is MapValue => value instanceof Map;

/** What values take in bytes, by estimate: each alone, without what is in it. */
export const textBytes = (characters: number) => 24 + characters * 2;
export const listBytes = (items: number) => 48 + items * 8;
export const mapBytes = (fields: number) => 128 + fields * 48;
export const RESULT_BYTES = 48;

/** The same of any value; a result counts with what it holds. */
export function sizeOf(value: Value): number {
  const held = value instanceof Result ? value.value : value;
  const around = value instanceof Result ? RESULT_BYTES + value.message.length * 2 : 0;
  if (typeof held === "string") return around + textBytes(held.length);
  if (isList(held)) return around + listBytes(held.length);
  return isMap(held) ? around + mapBytes(held.size) : around;
}

export type TypeName =
  | "null"
  | "boolean"
  | "number"
  | "string"
  | "array"
  | "object"
  | "result"
  | "function"
  | "namespace";

export function typeOf(value: Value): TypeName {
  if (value === null) return "null";
  if (typeof value === "boolean" || typeof value === "number" || typeof value === "string") {
    return typeof value as "boolean" | "number" | "string";
  }
  if (isList(value)) return "array";
  if (isMap(value)) return "object";
  if (value instanceof Result) return "result";
  return value instanceof Namespace ? "namespace" : "function";
}

/** "an array", "null": for sentences about a value that is not what was asked for. */
export function typeWords(value: Value): string {
  const type = typeOf(value);
  if (type === "null") return type;
  return `${/^[aeiou]/.test(type) ? "an" : "a"} ${type}`;
}

/** Falsy: false, null, 0, "" and []. An empty object is true, and so is an error result. */
export const truthy = (value: Value): boolean =>
  !(value === null || value === false || value === 0 || value === "" || (isList(value) && value.length === 0));

/** Equal by content, of whatever depth; functions only to themselves. */
export function equals(a: Value, b: Value, meter: Meter, depth = 0): boolean {
  if (typeof a === "string" && typeof b === "string") {
    if (a.length !== b.length) return false;
    if (a.length > 64) meter.charge(a.length >> 6);
    return a === b;
  }
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (depth > MAX_VALUE_DEPTH) throw tooDeep();
  if (isList(a)) {
    if (!isList(b) || a.length !== b.length) return false;
    meter.charge(a.length + 1);
    return a.every((item, i) => equals(item, b[i]!, meter, depth + 1));
  }
  if (isMap(a)) {
    if (!isMap(b) || a.size !== b.size) return false;
    meter.charge(a.size + 1);
    for (const [key, value] of a) {
      meter.charge(key.length >> 6);
      const other = b.get(key);
      if (other === undefined || !equals(value, other, meter, depth + 1)) return false;
    }
    return true;
  }
  if (a instanceof Result) {
    return (
      b instanceof Result && a.ok === b.ok && a.message === b.message && equals(a.value, b.value, meter, depth + 1)
    );
  }
  return false;
}

/**
 * The value as JSON. An ok result is its value, an error result `{error}`, a function the text `<fn>`.
 * Charges for all it writes, since a small value can have an endless text.
 */
export function toJson(value: Value, meter: Meter, depth = 0): Json {
  if (value === null || typeof value === "number" || typeof value === "boolean") return value;
  if (typeof value === "string") {
    meter.alloc(value.length * 2);
    return value;
  }
  if (depth > MAX_VALUE_DEPTH) throw tooDeep();
  meter.charge(1);
  if (isList(value)) {
    meter.alloc(48 + value.length * 8);
    return value.map((item) => toJson(item, meter, depth + 1));
  }
  if (isMap(value)) {
    meter.alloc(64 + value.size * 32);
    // `fromEntries` makes own keys, so `__proto__` stays one.
    return Object.fromEntries(
      [...value].map(([key, item]) => {
        meter.alloc(key.length * 2);
        return [key, toJson(item, meter, depth + 1)];
      }),
    );
  }
  if (!(value instanceof Result)) return "<fn>";
  if (value.ok) return toJson(value.value, meter, depth + 1);
  meter.alloc(value.message.length * 2);
  return { error: value.message };
}

/** JSON from outside as a value. What JSON cannot hold (undefined, NaN, a class) is null. */
export function fromJson(json: unknown, meter: Meter, depth = 0): Value {
  if (json === null || typeof json === "boolean") return json;
  if (typeof json === "number") return Number.isFinite(json) ? json : null;
  if (typeof json === "string") {
    meter.alloc(textBytes(json.length));
    return json;
  }
  if (typeof json !== "object") return null;
  if (depth > MAX_VALUE_DEPTH) throw tooDeep();
  meter.charge(1);
  if (Array.isArray(json)) {
    meter.alloc(listBytes(json.length));
    return json.map((item) => fromJson(item, meter, depth + 1));
  }
  const entries = Object.entries(json);
  meter.alloc(mapBytes(entries.length));
  return new Map(
    entries.map(([key, item]) => {
      meter.alloc(key.length * 2);
      return [key, fromJson(item, meter, depth + 1)];
    }),
  );
}

/** A meter with a bound of its own, for one value that leaves the script. */
export function bounded(meter: Meter, bytes: number, code: ErrorCode, message: string): Meter {
  let used = 0;
  return {
    charge: (steps) => meter.charge(steps),
    alloc: (more) => {
      used += more;
      if (used > bytes) throw fail(code, message);
      meter.alloc(more);
    },
  };
}

/** The text of a value: a string is itself, arrays and objects are JSON, results say what they are. */
export function toText(value: Value, meter: Meter): string {
  if (typeof value === "string") return value;
  if (value === null || typeof value === "number" || typeof value === "boolean") return String(value);
  if (value instanceof Result) {
    return value.ok ? `ok(${toJsonText(value.value, meter)})` : `error(${toJsonText(value.message, meter)})`;
  }
  if (value instanceof Namespace) return `<namespace ${value.name}>`;
  return isList(value) || isMap(value) ? toJsonText(value, meter) : "<fn>";
}

/** No JSON text is made of more than so many bytes of values: written out, they may take six times as much. */
const MAX_JSON = 8_000_000;

/** JSON text, charged before it is written. `indent` is a number of blanks. */
export function toJsonText(value: Value, meter: Meter, indent = 0): string {
  const json = toJson(value, bounded(meter, MAX_JSON, "limit_memory", "a JSON text is larger than 8 MB"));
  const text = JSON.stringify(json, null, indent);
  meter.alloc(text.length * 2);
  meter.charge(text.length >> 5);
  return text;
}
