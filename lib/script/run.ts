import { fail, type Span } from "./errors.ts";
import {
  Callable,
  err,
  fromJson,
  type Json,
  listBytes,
  type MapValue,
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
} from "./values.ts";
import type { JournalCall, Limits, PendingCall } from "./world.ts";

/**
 * How deep all running calls may nest together, in expressions. The usual stack of a megabyte bears some 7000; the
 * full depth of calls is reached by functions whose expressions nest up to 14 deep.
 */
const MAX_WEIGHT = 4500;
/** What an entry of the output takes beside its text. */
const ENTRY_BYTES = 50;
/** Of the top level of an imported script, whose expressions may nest this deep. */
const MODULE_WEIGHT = 200;
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

/** A compiled piece of a script. It runs to its end, or throws. */
export type Code = (frame: Frame, run: Run) => Value;

export interface FnCode {
  params: number;
  /** A `?` stands in the body, so a call may end early. */
  leaves: boolean;
  /** How deep the body's expressions nest: what a call takes of the machine's own stack. */
  weight: number;
  body: Code;
}

/** A function of the script, with the names around it. */
export class Fn extends Callable {
  readonly code: FnCode;
  readonly frame: Frame;
  constructor(code: FnCode, frame: Frame) {
    super();
    this.code = code;
    this.frame = frame;
  }
  override call(run: Run, args: Value[]): Value {
    return run.enter(this.code, args, this.frame);
  }
}

/** A call whose answer is not known yet: the run is begun again from its checkpoint when it is. */
export class Suspend {
  readonly call: PendingCall;
  constructor(call: PendingCall) {
    this.call = call;
  }
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

export interface OutputEntry {
  line: number | null;
  text: string;
  values: Json[];
  /** `debug`, `info`, `warn` or `error` of a log entry; null for `println`. */
  level: string | null;
  /** Of a log entry, ISO 8601. */
  timestamp: string | null;
}

export interface Assertion {
  pass: boolean;
  kind: "expect";
  matcher: string;
  actual: Json;
  expected: Json;
  line: number | null;
  describe: string[];
  it: string | null;
}

export interface TestCase {
  name: string;
  describe: string[];
  pass: boolean;
  error: string | null;
  assertions: Assertion[];
}

/** What `test` collects, when the script runs as a test. */
export interface Tests {
  cases: TestCase[];
  describe: string[];
  current: TestCase | null;
  /** Fakes for outbound calls by full name, in force for the rest of a case. */
  mocks: Map<string, Callable>;
  before: Callable[];
}

export interface RunSetup {
  input: Value;
  env: MapValue;
  viewer: Value;
  modules: ReadonlyMap<string, Code>;
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
  input: Value;
  readonly env: MapValue;
  readonly viewer: Value;
  readonly limits: Limits;
  readonly output: OutputEntry[] = [];
  readonly tests: Tests | null;
  /** Where the function of ours that runs was called: the place of its errors and its output. */
  at: Span | null = null;
  /** Milliseconds since 1970, as the script sees it. */
  now: number;
  steps = 0;
  lookAt = STEPS_BETWEEN_LOOKS;
  depth = 0;
  weight = 0;
  private memory = 0;
  /** What of it the function of ours that runs did not charge: what came before it, and its callbacks. */
  private others = 0;
  private outputSize = 0;
  private made = 0;
  private replayed = 0;
  private seed: number;
  private readonly calls: readonly JournalCall[];
  private readonly clock: () => number;
  private readonly begun: number;
  private readonly modules: ReadonlyMap<string, Code>;
  private imported = new Map<string, Value>();
  private checkpoint = 0;
  private restore = () => {};

  constructor(setup: RunSetup) {
    this.input = setup.input;
    this.env = setup.env;
    this.viewer = setup.viewer;
    this.limits = setup.limits;
    this.modules = setup.modules;
    this.calls = setup.calls;
    this.now = setup.started_at;
    this.seed = setup.seed;
    this.clock = setup.clock;
    this.begun = setup.clock();
    this.tests = setup.tests ? { cases: [], describe: [], current: null, mocks: new Map(), before: [] } : null;
  }

  /**
   * Remembers how things stand before a top-level expression. All values are unchangeable, so this is a handful of
   * numbers; `rewind` goes back to them and the expression is evaluated again, with one more answer known.
   */
  mark() {
    const { steps, memory, outputSize, made, replayed, seed, now, input } = this;
    const imported = new Map(this.imported);
    const outputs = this.output.length;
    const cases = this.tests?.cases.length ?? 0;
    const before = this.tests?.before.length ?? 0;
    const mocks = new Map(this.tests?.mocks);
    this.checkpoint = steps;
    this.restore = () => {
      Object.assign(this, { steps, memory, outputSize, made, replayed, seed, now, input, depth: 0, weight: 0 });
      this.imported = new Map(imported);
      this.output.length = outputs;
      if (!this.tests) return;
      Object.assign(this.tests, { describe: [], current: null, mocks: new Map(mocks) });
      this.tests.cases.length = cases;
      this.tests.before.length = before;
    };
  }

  rewind() {
    this.restore();
  }

  /** Every look at the clock costs, so it is done between steps, and so seldom. */
  look() {
    if (this.steps > this.limits.steps) {
      throw fail("limit_steps", `the script took more than ${this.limits.steps.toLocaleString("en")} steps`, this.at);
    }
    if (this.clock() - this.begun > this.limits.time_ms) {
      throw fail("limit_time", `the script ran longer than ${this.limits.time_ms / 1000} seconds`, this.at);
    }
    this.lookAt = Math.min(this.steps + STEPS_BETWEEN_LOOKS, this.limits.steps);
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
    this.charge(characters >> 5);
  }

  /** Room for a list of so many items. */
  list(items: number) {
    this.alloc(listBytes(items));
    this.charge(items >> 2);
  }

  /** Room for an object of so many fields. */
  fields(count: number) {
    this.alloc(mapBytes(count));
    this.charge(count >> 1);
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
      this.charge(owed >> 6);
    }
    return value;
  }

  /** Calls a function from one of ours, which then goes on at its own place and with its own bill. */
  call(fn: Callable, args: Value[]): Value {
    const { at, others, memory } = this;
    const value = fn.call(this, args);
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

  /** Calls a function of the script. `args` becomes its frame; a missing one is null. */
  enter(code: FnCode, args: Value[], outer: Frame): Value {
    if (++this.steps > this.lookAt) this.look();
    this.deeper(code.weight);
    if (args.length > code.params) args.length = code.params;
    else while (args.length < code.params) args.push(null);
    const frame = new Frame(args, outer);
    const value = code.leaves ? this.enterLeaving(code, frame) : code.body(frame, this);
    this.depth--;
    this.weight -= code.weight;
    return value;
  }

  private enterLeaving(code: FnCode, frame: Frame): Value {
    try {
      return code.body(frame, this);
    } catch (left) {
      // A `?` leaves the function it stands in, so none that is called there is still open.
      if (left instanceof Leave) return left.result;
      throw left;
    }
  }

  import(key: string, at: Span): Value {
    const known = this.imported.get(key);
    if (known !== undefined) return known;
    // All that a script names was read before the run.
    const module = this.modules.get(key)!;
    let value: Value;
    const { depth, weight } = this;
    this.deeper(MODULE_WEIGHT);
    try {
      value = module(new Frame([], null), this);
    } catch (error) {
      if (!(error instanceof Leave)) throw error;
      throw fail("error_result", `script \`${key}\`: ${error.result.message}`, at);
    }
    Object.assign(this, { depth, weight });
    this.imported.set(key, value);
    return value;
  }

  print(values: readonly Value[], level: string | null) {
    const texts = values.map((value) => toText(value, this));
    // Before anything is joined: a long text may stand there many times.
    this.wrote(ENTRY_BYTES + texts.reduce((sum, text) => sum + text.length + 1, 0));
    const text = texts.join(" ");
    this.text(text.length);
    const json = values.map((value) => toJson(value, this));
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
   * The answer to an outbound call, from the journal; when it is not there yet, leaves for it. `args` must not hold
   * functions. `hashed` stands for the arguments where they hold a secret that the journal should know nothing of.
   */
  outbound(name: string, args: Json, hashed: Json = args): Result {
    const n = this.made++;
    if (n >= this.limits.calls) {
      throw fail("limit_calls", `the script made more than ${this.limits.calls} outbound calls`, this.at);
    }
    this.replayed += this.steps - this.checkpoint;
    if (this.replayed > this.limits.replayed_steps) {
      throw fail(
        "limit_steps",
        "too much work in one expression with outbound calls; do it before, in a `let`",
        this.at,
      );
    }
    const text = JSON.stringify(hashed);
    this.charge(text.length >> 3);
    const hash = hashOf(`${name} ${text}`);
    const known = this.calls[n];
    if (!known) throw new Suspend({ n, name, args, hash });
    if (known.name !== name || known.hash !== hash) {
      throw fail(
        "journal_mismatch",
        `call ${n} is \`${name}\`, but another one was recorded (\`${known.name}\`)`,
        this.at,
      );
    }
    this.now = Date.parse(known.at);
    const { answer } = known;
    return "error" in answer ? err(answer.error) : ok(fromJson(answer.ok, this));
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
