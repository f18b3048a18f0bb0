import { type ErrorCode, fail } from "./errors.ts";
import type { JournalCall, Json, PendingCall } from "./world.ts";

export type { Json };

/** What a script computes with. Nothing here is ever changed after it was built, so nothing can hold itself. */
export type Value = null | boolean | number | string | List | MapValue | Result | Callable | Namespace;
export type List = readonly Value[];
/** A `Map`, since `__proto__` and `constructor` are then keys like any other. */
export type MapValue = ReadonlyMap<string, Value>;

/** Whoever builds or walks values pays as it goes, so a value shared a thousand times costs a thousand times. */
export interface Meter {
  charge(steps: number): void;
  alloc(bytes: number): void;
}

/** A meter that says when it is others' turn. */
export interface Turns extends Meter {
  readonly steps: number;
  readonly restAt: number;
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

/**
 * What may have to wait on its way to its outcome: for the answer to an outbound call, which it is then given, or, when
 * it yields null, for others to have their turn.
 */
export type Waiting<T> = Generator<PendingCall | null, T, JournalCall>;

/**
 * A function, of the script or of ours. How it runs is told beside `Run`: to all others it is only a value. These are
 * what our own functions call; `run` is the run that it happens in, of which no more is known here.
 */
export abstract class Callable {
  /** Whether it may wait: then it is called by `callWaiting` alone, and otherwise by `call`. */
  abstract readonly waits: boolean;
  abstract call(run: Meter, args: Value[]): Value;
  abstract callWaiting(run: Meter, args: Value[]): Waiting<Value>;
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

/**
 * What values take in bytes, by estimate: each alone, without what is in it. A number is paid for with its place, and
 * so is the room that a list or an object leaves behind as it grows.
 */
export const textBytes = (characters: number) => 24 + characters * 2;
export const listBytes = (items: number) => 48 + items * 12;
export const mapBytes = (fields: number) => 160 + fields * 48;
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
    meter.alloc(listBytes(value.length));
    meter.charge(value.length >> 1);
    return value.map((item) => toJson(item, meter, depth + 1));
  }
  if (isMap(value)) {
    meter.alloc(64 + value.size * 64);
    meter.charge(value.size * 8);
    const fields = function* (): Generator<[string, Json]> {
      for (const [key, item] of value) {
        meter.alloc(key.length * 2);
        yield [key, toJson(item, meter, depth + 1)];
      }
    };
    // `fromEntries` makes own keys, so `__proto__` stays one.
    return Object.fromEntries(fields());
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
    meter.charge(json.length >> 1);
    return json.map((item) => fromJson(item, meter, depth + 1));
  }
  const keys = Object.keys(json);
  meter.alloc(mapBytes(keys.length));
  meter.charge(keys.length * 4);
  const map = new Map<string, Value>();
  for (const key of keys) {
    meter.alloc(key.length * 2);
    map.set(key, fromJson((json as { [key: string]: unknown })[key], meter, depth + 1));
  }
  return map;
}

/** The digits of a number that is still read: more of them say nothing more. */
const MAX_NUMBER = 400;

/**
 * The value that a JSON text holds, built and paid for as it is read: `{},{},…` is a hundred times as large as its
 * text. Others have their turn between two values. Throws a SyntaxError for what is no JSON.
 */
export function* parseJson(text: string, meter: Turns): Waiting<Value> {
  let at = 0;
  const wrong = () => new SyntaxError("this is not JSON");
  const skip = () => {
    for (let code = text.charCodeAt(at); code === 32 || code === 10 || code === 13 || code === 9; ) {
      code = text.charCodeAt(++at);
    }
  };
  /** A text, with its quotes, or a number or word: what it means is the platform's to say. */
  const plain = (): Value => {
    const start = at;
    if (text[at] === '"') {
      for (;;) {
        at = text.indexOf('"', at + 1);
        if (at < 0) throw wrong();
        let slashes = at - 1;
        while (text[slashes] === "\\") slashes--;
        if ((at - slashes) % 2 === 1) break;
      }
      at++;
      meter.alloc(textBytes(at - start));
      meter.charge(16 + ((at - start) >> 3));
    } else {
      while (at < text.length && at - start <= MAX_NUMBER && !",]} \n\r\t".includes(text[at]!)) at++;
      if (at - start > MAX_NUMBER) throw wrong();
      meter.charge(16);
    }
    const value = JSON.parse(text.slice(start, at)) as string | number | boolean | null;
    return typeof value === "number" && !Number.isFinite(value) ? null : value;
  };
  const key = (): string => {
    skip();
    if (text[at] !== '"') throw wrong();
    const name = plain() as string;
    skip();
    if (text[at++] !== ":") throw wrong();
    meter.alloc(48);
    return name;
  };
  /** The lists and objects that are open at this place, the innermost last. */
  const open: Open[] = [];
  for (;;) {
    if (meter.steps > meter.restAt) yield null;
    skip();
    const sign = text[at]!;
    let value: Value;
    if (sign === "[" || sign === "{") {
      if (open.length > MAX_VALUE_DEPTH) throw tooDeep();
      at++;
      skip();
      meter.charge(16);
      meter.alloc(sign === "[" ? listBytes(0) : mapBytes(0));
      const opened: Open = sign === "[" ? { close: "]", items: [] } : { close: "}", fields: new Map(), key: "" };
      if (text[at] !== opened.close) {
        if (opened.fields) opened.key = key();
        open.push(opened);
        continue;
      }
      at++;
      value = opened.items ?? opened.fields;
    } else value = plain();
    // It joins what it stands in, which may end with it.
    for (;;) {
      const around = open.at(-1);
      skip();
      if (!around) {
        if (at < text.length) throw wrong();
        return value;
      }
      if (around.items) {
        meter.alloc(24);
        around.items.push(value);
      } else around.fields.set(around.key, value);
      const next = text[at++];
      if (next === ",") {
        if (around.fields) around.key = key();
        break;
      }
      if (next !== around.close) throw wrong();
      open.pop();
      value = around.items ?? around.fields;
    }
  }
}

type Open =
  | { close: "]"; items: Value[]; fields?: undefined }
  | { close: "}"; items?: undefined; fields: Map<string, Value>; key: string };

/** What JSON takes as the platform holds it, beside its texts: each of its names may need a shape of its own. */
export function heldBy(json: Json): number {
  if (typeof json !== "object" || json === null) return 16;
  if (Array.isArray(json)) return json.reduce((sum: number, item) => sum + heldBy(item), 64);
  return Object.entries(json).reduce((sum, [key, item]) => sum + 160 + key.length * 2 + heldBy(item), 64);
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
  writing(json, meter, indent);
  return JSON.stringify(json, null, indent);
}

/** Pays for the text of a JSON before it is written: twice, since it is put together from parts. */
export function writing(json: Json, meter: Meter, indent = 0): number {
  const characters = written(json, indent, 1);
  meter.alloc(characters * 4);
  meter.charge(characters >> 3);
  return characters;
}

/** How many characters a JSON takes as a text, at most; each of a text may take six. */
function written(json: Json, indent: number, depth: number): number {
  if (typeof json === "string") return 2 + json.length + (json.length > 100 ? escapes(json) : json.length * 5);
  if (typeof json !== "object" || json === null) return 24;
  const each = 2 + indent * depth;
  let sum = 2 + each;
  if (isJsonList(json)) {
    for (const item of json) sum += each + written(item, indent, depth + 1);
    return sum;
  }
  for (const key in json) sum += each + 4 + key.length * 6 + written(json[key]!, indent, depth + 1);
  return sum;
}

const isJsonList = (json: Json): json is readonly Json[] => Array.isArray(json);

/** What a text grows by when it is written between quotes. */
function escapes(text: string): number {
  let more = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code < 32 || (code >= 0xd800 && code < 0xe000)) more += 5;
    else if (code === 34 || code === 92) more++;
  }
  return more;
}
