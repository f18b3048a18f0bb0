import { fail } from "./errors.ts";
import type { Run } from "./run.ts";
import {
  Callable,
  type Json,
  type List,
  type MapValue,
  Namespace,
  Result,
  typeWords,
  type Value,
  type Waiting,
} from "./values.ts";

/** What a call of a function of ours takes, and of one that may wait. */
const CALL_STEPS = 5;
const WAITING_STEPS = 8;

/** A function of ours: its documentation and its implementation are one entry of one table. */
export class Native extends Callable {
  readonly name: string;
  readonly params: readonly Param[];
  readonly returns: string;
  readonly doc: string;
  /** A script whose result is `gives`; a test runs every one. Without `gives` it is only shown. */
  readonly example: string;
  readonly gives: Json | undefined;
  readonly handsOn: boolean;
  /** How it is called with what it was given; one of both is null. */
  readonly now: ((run: Run, args: Value[]) => Value) | null;
  readonly steps: ((run: Run, args: Value[]) => Waiting<Value>) | null;
  readonly waits: boolean;
  /** How many arguments it takes. */
  readonly least: number;
  readonly most: number;
  constructor(entry: Omit<Entry<[]>, "params" | "run" | "steps"> & Pick<Native, "params" | "now" | "steps">) {
    super();
    this.least = entry.params.filter((param) => !param.optional && !param.rest).length;
    this.most = entry.params.some((param) => param.rest) ? Number.POSITIVE_INFINITY : entry.params.length;
    this.name = entry.name;
    this.params = entry.params;
    this.returns = entry.returns;
    this.doc = entry.doc;
    this.example = entry.example;
    this.gives = entry.gives;
    this.handsOn = entry.handsOn ?? false;
    this.now = entry.now;
    this.steps = entry.steps;
    this.waits = entry.steps !== null;
  }
  /** Arguments too many are dropped: `array.map(names, string.trim)` works. */
  override call(run: Run, args: Value[]): Value {
    if (args.length > this.most) args.length = this.most;
    return this.now!(run, args);
  }
  override callWaiting(run: Run, args: Value[]): Waiting<Value> {
    if (args.length > this.most) args.length = this.most;
    return this.steps!(run, args);
  }
}

interface Param {
  name: string;
  type: string;
  optional: boolean;
  rest: boolean;
}

/**
 * How a function of the language is written down: the parameters as text, `"list: array"`, `"digits?: int"`,
 * `"...more: any"`, which the reference shows, the checker counts, the call is checked against, and from which the
 * types of the implementation's arguments follow.
 */
interface Types {
  any: Value;
  array: List;
  string: string;
  number: number;
  int: number;
  object: MapValue;
  result: Result;
  fn: Callable;
  null: null;
  /** ISO 8601, as `datetime.now()` gives it. Not checked here: a bad one is that function's own error. */
  time: string;
}

type Named<T> = T extends `${infer A}|${infer B}` ? Named<A> | Named<B> : T extends keyof Types ? Types[T] : never;
type Args<P extends readonly string[]> = P extends readonly [infer First extends string, ...infer Rest extends string[]]
  ? First extends `...${string}: ${infer T}`
    ? Named<T>[]
    : First extends `${string}?: ${infer T}`
      ? [Named<T> | undefined, ...Args<Rest>]
      : First extends `${string}: ${infer T}`
        ? [Named<T>, ...Args<Rest>]
        : never
  : [];

interface Entry<P extends readonly string[]> {
  name: string;
  params: P;
  returns: string;
  doc: string;
  example: string;
  gives?: Json;
  /** What it gives was there before, be it in a result: a part of an argument, what a callback gave, a constant. */
  handsOn?: true;
  run?: (run: Run, ...args: Args<P>) => Value;
  /** Instead of `run`, of what calls others, makes outbound calls or may compute for long. */
  steps?: (run: Run, ...args: Args<P>) => Waiting<Value>;
}

/**
 * One function. `example` is a script that `gives` that result; every one is run by a test. What it gives is charged
 * here. The function itself charges what it reads when that is more than it gives, and what it needs on the way.
 */
export function entry<const P extends readonly string[]>(entry: Entry<P>): Native {
  const params = entry.params.map(toParam);
  const checks = params.map(({ type }) => checkOf(type));
  const ready = (run: Run, given: (Value | undefined)[]) => {
    if (!takes(native, given.length)) throw fail("runtime", wrongCount(native, given.length));
    for (let i = 0; i < given.length; i++) {
      const at = Math.min(i, params.length - 1);
      const param = params[at]!;
      if (param.optional && given[i] === null && param.type !== "any") given[i] = undefined;
      else if (!checks[at]!(given[i]!)) throw wrongArgument(entry.name, param, given[i]!);
    }
    run.charge(steps ? WAITING_STEPS : CALL_STEPS);
    run.begin();
  };
  // Arguments are checked against `params` before, so they are what `Args` says.
  const { handsOn = false, run: atOnce, steps: waiting } = entry as unknown as Implementation;
  const now =
    atOnce &&
    ((run: Run, args: Value[]) => {
      ready(run, args);
      return run.settled(atOnce(run, ...args), handsOn);
    });
  const steps =
    waiting &&
    function* (run: Run, args: Value[]) {
      ready(run, args);
      return run.settled(yield* waiting(run, ...args), handsOn);
    };
  const native = new Native({ ...entry, params, now: now ?? null, steps: steps ?? null });
  return native;
}

interface Implementation {
  handsOn?: boolean;
  run?: (run: Run, ...args: Value[]) => Value;
  steps?: (run: Run, ...args: Value[]) => Waiting<Value>;
}

function wrongArgument(name: string, param: Param, value: Value) {
  const hint = value instanceof Result ? "; take its value with `unwrap(…)` or `?`" : "";
  return fail(
    "runtime",
    `\`${name}\` wants ${typeSentence(param.type)} as \`${param.name}\`, not ${typeWords(value)}${hint}`,
  );
}

export function namespace(name: string, doc: string, entries: Native[], constants: Record<string, Value> = {}) {
  const members = new Map<string, Value>(entries.map((native) => [native.name, native]));
  for (const [key, value] of Object.entries(constants)) members.set(key, value);
  return new Namespace(name, doc, members);
}

function toParam(text: string): Param {
  const colon = text.indexOf(": ");
  const rest = text.startsWith("...");
  const optional = text[colon - 1] === "?";
  return { name: text.slice(rest ? 3 : 0, optional ? colon - 1 : colon), type: text.slice(colon + 2), optional, rest };
}

const CHECKS: Record<keyof Types, (value: Value) => boolean> = {
  any: () => true,
  array: (value) => Array.isArray(value),
  string: (value) => typeof value === "string",
  number: (value) => typeof value === "number",
  int: (value) => Number.isSafeInteger(value),
  object: (value) => value instanceof Map,
  result: (value) => value instanceof Result,
  fn: (value) => value instanceof Callable,
  null: (value) => value === null,
  time: (value) => typeof value === "string",
};

/** Whether a value is of a type written as in a parameter: `"string|null"`. */
function checkOf(type: string): (value: Value) => boolean {
  const checks = type.split("|").map((name) => CHECKS[name as keyof Types]);
  return checks.length === 1 ? checks[0]! : (value) => checks.some((check) => check(value));
}

const WORDS: Record<string, string> = {
  array: "an array",
  string: "a string",
  number: "a number",
  int: "a whole number",
  object: "an object",
  result: "a result",
  fn: "a function",
  time: "a time (a string)",
  null: "null",
};
/** "an array or a string", for a sentence about what was expected. */
const typeSentence = (type: string): string =>
  type
    .split("|")
    .map((name) => WORDS[name] ?? name)
    .join(" or ");

/** `map(list: array, each: fn) → array` */
export const signature = ({ name, params, returns }: Native): string =>
  `${name}(${params.map((param) => `${param.rest ? "..." : ""}${param.name}${param.optional ? "?" : ""}: ${param.type}`).join(", ")}) → ${returns}`;

/** Whether a function can be called with so many arguments. */
export const takes = ({ least, most }: Native, count: number) => count >= least && count <= most;

/** "`map` wants 2 arguments, not 1: …" */
export function wrongCount(native: Native, count: number): string {
  const { least, most } = native;
  const exact = least === 1 ? "1 argument" : `${least} arguments`;
  const wants =
    most === Number.POSITIVE_INFINITY ? `at least ${exact}` : most > least ? `${least} to ${most} arguments` : exact;
  return `\`${native.name}\` wants ${wants}, not ${count}: \`${signature(native)}\``;
}
