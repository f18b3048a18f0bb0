import { fail, type Span } from "./errors.ts";
import type { OutputEntry, Tests } from "./report.ts";
import {
  Callable,
  err,
  fromJson,
  heldBy,
  type Json,
  listBytes,
  type Meter,
  mapBytes,
  ok,
  RESULT_BYTES,
  Result,
  sizeOf,
  textBytes,
  toJson,
  toText,
  type Value,
  type Waiting,
  writing,
} from "./values.ts";
import type { JournalCall, Limits } from "./world.ts";

/**
 * How deep all running calls may nest together, in expressions. The usual stack of a megabyte bears 2800 at
 * the least, in workerd as in Node; the full depth of calls is reached by functions whose expressions nest up to 7 deep.
 */
const MAX_WEIGHT = 2200;
/** What an entry of the output takes beside its text. */
const ENTRY_BYTES = 50;
/** Of the top level of an imported script, whose expressions may nest this deep. */
const MODULE_WEIGHT = 200;
/** What a call of a function of the script, an entry of the output and an outbound call take beside any other step. */
const CALL_STEPS = 8;
/** And what one takes on top of it that may wait. */
const WAITING_STEPS = 24;
const ENTRY_STEPS = 400;
const OUTBOUND_STEPS = 1000;
const STEPS_BETWEEN_LOOKS = 20_000;

/** What one call of a function knows: its own names by place, and the frame of the function it was written in. */
export class Frame {
  readonly names: (Value | undefined)[];
  readonly outer: Frame | null;
  constructor(names: (Value | undefined)[], outer: Frame | null) {
    this.names = names;
    this.outer = outer;
  }
}

/** A compiled piece of a script: it runs to its end at once, or may wait on its way. */
export type Code = (frame: Frame, run: Run) => Value;
export type Piece =
  | { now: Code; steps?: undefined }
  | { now?: undefined; steps: (frame: Frame, run: Run) => Waiting<Value> };

export interface FnCode {
  params: number;
  /** A `?` stands in the body, so a call may end early. */
  leaves: boolean;
  /** How deep the body's expressions nest: what a call takes of the machine's own stack. */
  weight: number;
  body: Piece;
}

/** A function of the script, with the names around it. */
export class Fn extends Callable {
  readonly code: FnCode;
  readonly frame: Frame;
  readonly waits: boolean;
  constructor(code: FnCode, frame: Frame) {
    super();
    this.code = code;
    this.frame = frame;
    this.waits = code.body.now === undefined;
  }
  override call(run: Run, args: Value[]): Value {
    const { code } = this;
    const frame = run.enter(code, args, this.frame);
    let value: Value;
    if (!code.leaves) value = code.body.now!(frame, run);
    else {
      try {
        value = code.body.now!(frame, run);
      } catch (left) {
        value = leftWith(left);
      }
    }
    run.leave(code);
    return value;
  }
  override *callWaiting(run: Run, args: Value[]): Waiting<Value> {
    const { code } = this;
    run.charge(WAITING_STEPS);
    const frame = run.enter(code, args, this.frame);
    let value: Value;
    if (!code.leaves) value = yield* code.body.steps!(frame, run);
    else {
      try {
        value = yield* code.body.steps!(frame, run);
      } catch (left) {
        value = leftWith(left);
      }
    }
    run.leave(code);
    return value;
  }
}

/** A `?` leaves the function it stands in, so none that is called there is still open. */
function leftWith(left: unknown): Result {
  if (left instanceof Leave) return left.result;
  throw left;
}

/** `r?` met an error: the function it stands in, or the script, ends with it. */
export class Leave {
  readonly result: Result;
  readonly at: Span;
  constructor(result: Result, at: Span) {
    this.result = result;
    this.at = at;
  }
}

export interface RunSetup {
  modules: ReadonlyMap<string, Piece>;
  limits: Limits;
  /** Milliseconds since 1970, for the time limit alone. */
  clock: () => number;
  started_at: number;
  seed: number;
  calls: readonly JournalCall[];
  tests: boolean;
}

/** One run of one script: what it may still use, what it said, and what it learned from outside. */
export class Run implements Meter {
  input: Value = null;
  env: Value = null;
  viewer: Value = null;
  readonly limits: Limits;
  readonly output: OutputEntry[] = [];
  readonly tests: Tests | null;
  /** Where the function of ours that runs was called: the place of its errors and its output. */
  at: Span | null = null;
  /** Milliseconds since 1970, as the script sees it. */
  now: number;
  steps = 0;
  lookAt: number;
  /** From so many steps on it is others' turn, at the next place where the run can wait. */
  restAt: number;
  depth = 0;
  weight = 0;
  private memory = 0;
  /** What of it the function of ours that runs did not charge: what came before it, and its callbacks. */
  private others = 0;
  private outputSize = 0;
  private made = 0;
  private seed: number;
  private readonly calls: readonly JournalCall[];
  private readonly clock: () => number;
  private readonly begun: number;
  private readonly modules: ReadonlyMap<string, Piece>;
  private imported = new Map<string, Value>();

  constructor(setup: RunSetup) {
    this.limits = setup.limits;
    this.modules = setup.modules;
    this.calls = setup.calls;
    this.now = setup.started_at;
    this.seed = setup.seed;
    this.clock = setup.clock;
    this.begun = setup.clock();
    this.lookAt = Math.min(STEPS_BETWEEN_LOOKS, setup.limits.steps);
    this.restAt = setup.limits.steps_at_once;
    this.tests = setup.tests ? { cases: [], describe: [], current: null, mocks: new Map(), before: [] } : null;
  }

  /** What the script begins with counts as what it builds. */
  begins({
    input = null,
    env = {},
    viewer = null,
  }: {
    input?: Json;
    env?: Readonly<Record<string, string>>;
    viewer?: Json;
  }) {
    this.input = fromJson(input, this);
    this.env = fromJson(env, this);
    this.viewer = fromJson(viewer, this);
  }

  /** Every look at the clock costs, so it is done between steps, and so seldom. */
  look() {
    if (this.steps > this.limits.steps) {
      throw fail("limit_steps", `the script took more than ${this.limits.steps.toLocaleString("en")} steps`, this.at);
    }
    if (this.steps > this.restAt + this.limits.steps_unbroken) {
      const most = this.limits.steps_unbroken.toLocaleString("en");
      throw fail("limit_steps", `one operation took more than ${most} steps; do it in parts`, this.at);
    }
    if (this.clock() - this.begun > this.limits.time_ms) {
      throw fail("limit_time", `the script ran longer than ${this.limits.time_ms / 1000} seconds`, this.at);
    }
    this.lookAt = Math.min(this.steps + STEPS_BETWEEN_LOOKS, this.limits.steps);
  }

  /** Others had their turn. */
  rested() {
    this.restAt = this.steps + this.limits.steps_at_once;
  }

  /** Milliseconds left of the run's time. */
  left(): number {
    return Math.max(0, this.limits.time_ms - (this.clock() - this.begun));
  }

  charge(steps: number) {
    this.steps += steps;
    if (this.steps > this.lookAt) this.look();
  }

  alloc(bytes: number, hint = "") {
    this.memory += bytes;
    if (this.memory <= this.limits.memory_bytes) return;
    const size = `${this.limits.memory_bytes / 1024 / 1024} MB`;
    throw fail("limit_memory", `the script built more than ${size} of values${hint}`, this.at);
  }

  /** Room for a string of so many characters, before it is made. */
  text(characters: number) {
    this.alloc(textBytes(characters), "; long texts are built with `array.join` rather than with `+`");
    this.charge(characters >> 3);
  }

  /** Room for a list of so many items. */
  list(items: number) {
    this.alloc(listBytes(items));
    this.charge(items >> 1);
  }

  /** Room for an object of so many fields. */
  fields(count: number) {
    this.alloc(mapBytes(count));
    this.charge(2 + count * 6);
  }

  /** A function of ours begins: what is charged from here on is charged for it. */
  begin() {
    this.others = this.memory;
  }

  /**
   * It has ended: its result is paid for here, and cannot be forgotten. What the function charged by itself counts, as
   * it must where a result may be large or callbacks run meanwhile. One that `handsOn` made no more than a `Result`.
   */
  settled(value: Value, handsOn: boolean): Value {
    if (typeof value === "number" || typeof value === "boolean" || value === null) return value;
    const bytes = handsOn ? (value instanceof Result ? RESULT_BYTES : 0) : sizeOf(value);
    const owed = bytes - (this.memory - this.others);
    if (owed > 0) {
      this.alloc(owed);
      this.charge(owed >> 3);
    }
    return value;
  }

  /** Calls a function that doesn't wait from one of ours, which then goes on at its own place and with its own bill. */
  call(fn: Callable, args: Value[]): Value {
    const { at, others, memory } = this;
    const value = fn.call(this, args);
    this.at = at;
    this.others = others + (this.memory - memory);
    return value;
  }

  /** The same of any function. */
  *calling(fn: Callable, args: Value[]): Waiting<Value> {
    if (this.steps > this.restAt) yield null;
    if (!fn.waits) return this.call(fn, args);
    const { at, others, memory } = this;
    const value = yield* fn.callWaiting(this, args);
    this.at = at;
    this.others = others + (this.memory - memory);
    return value;
  }

  private deeper(weight: number) {
    this.weight += weight;
    if (++this.depth <= this.limits.call_depth && this.weight <= MAX_WEIGHT) return;
    const message = `functions call each other more than ${this.depth - 1} deep`;
    throw fail("limit_depth", this.weight > MAX_WEIGHT ? `${message}, with large expressions` : message, this.at);
  }

  /** Begins a call of a function of the script. `args` becomes its frame; a missing one is null. */
  enter(code: FnCode, args: Value[], outer: Frame): Frame {
    this.steps += CALL_STEPS;
    if (this.steps > this.lookAt) this.look();
    this.deeper(code.weight);
    if (args.length > code.params) args.length = code.params;
    else while (args.length < code.params) args.push(null);
    return new Frame(args, outer);
  }

  leave({ weight }: FnCode) {
    this.depth--;
    this.weight -= weight;
  }

  *import(key: string, at: Span): Waiting<Value> {
    const known = this.imported.get(key);
    if (known !== undefined) return known;
    // All that a script names was read before the run.
    const { now, steps } = this.modules.get(key)!;
    let value: Value;
    const { depth, weight } = this;
    this.deeper(MODULE_WEIGHT);
    const frame = new Frame([], null);
    try {
      value = now ? now(frame, this) : yield* steps(frame, this);
    } catch (error) {
      if (!(error instanceof Leave)) throw error;
      throw fail("error_result", `script \`${key}\`: ${error.result.message}`, at);
    }
    Object.assign(this, { depth, weight });
    this.imported.set(key, value);
    return value;
  }

  print(values: readonly Value[], level: string | null) {
    this.charge(ENTRY_STEPS);
    const texts = values.map((value) => toText(value, this));
    // Before anything is joined: a long text may stand there many times.
    this.wrote(ENTRY_BYTES + texts.reduce((sum, text) => sum + text.length + 1, 0));
    const text = texts.join(" ");
    this.text(text.length);
    const json = values.map((value) => toJson(value, this));
    writing(json, this);
    this.wrote(JSON.stringify(json).length);
    const timestamp = level ? new Date(this.now).toISOString() : null;
    this.output.push({ line: this.at?.line ?? null, text, values: json, level, timestamp });
  }

  private wrote(characters: number) {
    this.outputSize += characters;
    if (this.outputSize <= this.limits.output_bytes) return;
    throw fail("limit_output", `the script printed more than ${this.limits.output_bytes / 1000} kB`, this.at);
  }

  /** The next number of a generator that the run's seed decides, from 0 to below 1. */
  random(): number {
    // mulberry32: well spread, and not for secrets.
    this.seed = (this.seed + 0x6d2b79f5) | 0;
    let t = Math.imul(this.seed ^ (this.seed >>> 15), 1 | this.seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }

  /**
   * The answer to an outbound call, from the journal; when it is not there yet, waits for it. `args` must not hold
   * functions. `hashed` stands for the arguments where they hold a secret that the journal should know nothing of.
   */
  *outbound(name: string, args: Json, hashed: Json = args): Waiting<Result> {
    const n = this.made++;
    if (n >= this.limits.calls) {
      throw fail("limit_calls", `the script made more than ${this.limits.calls} outbound calls`, this.at);
    }
    this.charge(OUTBOUND_STEPS + (writing(hashed, this) >> 2));
    const hash = hashOf(`${name} ${JSON.stringify(hashed)}`);
    const known = this.calls[n] ?? (yield { n, name, args, hash });
    if (known.name !== name || known.hash !== hash) {
      throw fail(
        "journal_mismatch",
        `call ${n} is \`${name}\`, but another one was recorded (\`${known.name}\`)`,
        this.at,
      );
    }
    this.now = Date.parse(known.at);
    const { answer } = known;
    if ("error" in answer) return err(answer.error);
    // The journal keeps the answer beside the value that is made of it.
    this.alloc(heldBy(answer.ok));
    return ok(fromJson(answer.ok, this));
  }
}

/** FNV-1a, twice: tells a journal of another script from ours. It guards against mix-ups, not against forgery. */
function hashOf(text: string): string {
  let a = 0x811c9dc5;
  let b = 0x9747b28c;
  for (let i = 0; i < text.length; i++) {
    a = Math.imul(a ^ text.charCodeAt(i), 0x01000193);
    b = Math.imul(b ^ text.charCodeAt(i), 0x01000197);
  }
  return [a, b].map((half) => (half >>> 0).toString(16).padStart(8, "0")).join("");
}
