import { entry, type Native, namespace } from "../entry.ts";
import { fail, ScriptError } from "../errors.ts";
import { patternOf } from "../pattern.ts";
import type { TestCase, Tests } from "../report.ts";
import type { Run } from "../run.ts";
import { find } from "../search.ts";
import {
  type Callable,
  camelCase,
  equals,
  isList,
  isMap,
  type Json,
  Namespace,
  Result,
  toJson,
  truthy,
  type Value,
  type Waiting,
} from "../values.ts";

function testsOf(run: Run): Tests {
  if (!run.tests) throw fail("runtime", "`test` can be used in tests only");
  return run.tests;
}

function* describe(run: Run, name: string, body: Callable): Waiting<null> {
  const tests = testsOf(run);
  const before = tests.before.length;
  tests.describe = [...tests.describe, name];
  yield* run.calling(body, []);
  tests.describe = tests.describe.slice(0, -1);
  tests.before.length = before;
  return null;
}

/** One case. What fails in it is its own failure, but not a limit: that ends the whole run. */
function* it(run: Run, name: string, body: Callable): Waiting<null> {
  const tests = testsOf(run);
  if (tests.current) throw fail("runtime", "an `it` stands in a `describe`, not in another `it`");
  const current: TestCase = { name, describe: tests.describe, pass: false, error: null, assertions: [] };
  const { depth, weight, input } = run;
  const mocks = new Map(tests.mocks);
  tests.current = current;
  try {
    for (const hook of tests.before) yield* run.calling(hook, []);
    const end = yield* run.calling(body, []);
    if (end instanceof Result && !end.ok) current.error = end.message;
  } catch (error) {
    if (!(error instanceof ScriptError) || error.code.startsWith("limit_") || error.code === "journal_mismatch")
      throw error;
    const at = error.at ?? run.at;
    current.error = at ? `line ${at.line}: ${error.message}` : error.message;
  }
  Object.assign(run, { depth, weight, input });
  tests.mocks = mocks;
  tests.current = null;
  if (!current.error && current.assertions.length === 0) current.error = "the case expects nothing";
  current.pass = current.error === null && current.assertions.every((assertion) => assertion.pass);
  tests.cases.push(current);
  return null;
}

/** Whether a matcher's expectation holds. Texts contain parts, arrays items, objects fields. */
type Matches = (run: Run, actual: Value, expected: Value) => boolean | Waiting<boolean>;

const compared =
  (holds: (a: number, b: number) => boolean): Matches =>
  (_, actual, expected) =>
    typeof actual === "number" && typeof expected === "number" && holds(actual, expected);

const MATCHERS: Record<string, { wants: string[]; doc: string; matches: Matches }> = {
  toEqual: { wants: ["expected: any"], doc: "Equal by content.", matches: (run, a, b) => equals(a, b, run) },
  toBe: { wants: ["expected: any"], doc: "Equal by content, like `==`.", matches: (run, a, b) => equals(a, b, run) },
  toBeOk: { wants: [], doc: "An ok result.", matches: (_, a) => a instanceof Result && a.ok },
  toBeError: {
    wants: ["message?: string"],
    doc: "An error result, with this in its message.",
    matches: (run, a, message) =>
      a instanceof Result && !a.ok && find(run, a.message, typeof message === "string" ? message : "") >= 0,
  },
  toContain: {
    wants: ["part: any"],
    doc: "A text with a part, an array with an item, an object with a field.",
    matches: (run, a, b) => {
      if (typeof a === "string") return typeof b === "string" && find(run, a, b) >= 0;
      if (isList(a)) return a.some((item) => equals(item, b, run));
      return isMap(a) && typeof b === "string" && a.has(b);
    },
  },
  toMatch: {
    wants: ["pattern: string"],
    doc: "A text that a pattern matches.",
    *matches(run, a, b) {
      if (typeof a !== "string" || typeof b !== "string") return false;
      return (yield* patternOf(run, b, "").exec(a, 0, run)) !== null;
    },
  },
  toHaveLength: {
    wants: ["length: int"],
    doc: "So many characters, items or fields.",
    matches: (_, a, b) => (isMap(a) ? a.size : typeof a === "string" || isList(a) ? a.length : -1) === b,
  },
  toBeNull: { wants: [], doc: "Null.", matches: (_, a) => a === null },
  toBeTruthy: { wants: [], doc: "What `if` takes for true.", matches: (_, a) => truthy(a) },
  toBeFalsy: { wants: [], doc: "What `if` takes for false.", matches: (_, a) => !truthy(a) },
  toBeGreaterThan: { wants: ["bound: number"], doc: "A greater number.", matches: compared((a, b) => a > b) },
  toBeLessThan: { wants: ["bound: number"], doc: "A lesser number.", matches: compared((a, b) => a < b) },
  toBeCloseTo: {
    wants: ["expected: number"],
    doc: "A number within 0.000001.",
    matches: compared((a, b) => Math.abs(a - b) < 1e-6),
  },
};

/** What the reference says of `expect(…)`. */
export const matchers = Object.entries(MATCHERS).map(([name, { wants, doc }]) => ({ name, params: wants, doc }));

/** Results are told apart in a report, which their JSON alone would not. */
function shown(run: Run, value: Value): Json {
  if (!(value instanceof Result)) return toJson(value, run);
  return value.ok ? { ok: toJson(value.value, run) } : { error: value.message };
}

/** What every `expect(…)` has; each function is made when it is asked for. */
const MEMBERS = new Map<string, Value>(Object.keys(MATCHERS).map((name) => [name, null]));
/** What an expectation and a matcher of it take. */
const EXPECTATION_BYTES = 100;
const MATCHER_BYTES = 2000;
const MATCHER_STEPS = 50;

class Expectation extends Namespace {
  private readonly run: Run;
  private readonly actual: Value;
  private readonly wanted: boolean;
  constructor(run: Run, actual: Value, wanted: boolean) {
    super("expect(…)", "", MEMBERS);
    run.alloc(EXPECTATION_BYTES);
    this.run = run;
    this.actual = actual;
    this.wanted = wanted;
  }

  override find(name: string): Value | undefined {
    if (name === "not" && this.wanted) return new Expectation(this.run, this.actual, false);
    const known = [name, camelCase(name)].find((one) => MEMBERS.has(one));
    return known && this.matcher(known);
  }

  /** Records, and never fails the script: a case shows all that did not hold. */
  private matcher(name: string): Native {
    const { actual, wanted } = this;
    const { wants, matches } = MATCHERS[name]!;
    this.run.alloc(MATCHER_BYTES);
    this.run.charge(MATCHER_STEPS);
    return entry({
      name,
      params: wants as ["expected?: any"],
      returns: "null",
      doc: "",
      example: "",
      *steps(run, expected: Value = null) {
        const holds = matches(run, actual, expected);
        const { current, describe } = testsOf(run);
        const assertion = {
          pass: (typeof holds === "boolean" ? holds : yield* holds) === wanted,
          kind: "expect" as const,
          matcher: wanted ? name : `not.${name}`,
          actual: shown(run, actual),
          expected: wants.length ? shown(run, expected) : null,
          line: run.at?.line ?? null,
          describe,
          it: current?.name ?? null,
        };
        if (!current) throw fail("runtime", "`expect` stands in an `it`");
        run.alloc(200);
        current.assertions.push(assertion);
        return null;
      },
    });
  }
}

export const test = namespace("test", "Tests of scripts. Only in a test run.", [
  entry({
    name: "describe",
    params: ["name: string", "body: fn"],
    returns: "null",
    doc: "Groups cases under a name; groups nest.",
    example: 'test.describe("sums", fn() { test.it("adds", fn() { test.expect(1 + 1).toBe(2) }) })',
    steps: describe,
  }),
  entry({
    name: "it",
    params: ["name: string", "body: fn"],
    returns: "null",
    doc: "One case. It fails when an expectation does not hold, when the script fails in it, or when it expects nothing.",
    example: 'test.it("adds", fn() { test.expect(1 + 1).toBe(2) })',
    steps: it,
  }),
  entry({
    name: "expect",
    params: ["value: any"],
    returns: "expectation",
    doc: "What a matcher is called on; `not` turns the next one round.",
    example: "test.expect([1, 2]).not.toContain(3)",
    run: (run, value) => {
      testsOf(run);
      return new Expectation(run, value, true);
    },
  }),
  entry({
    name: "beforeEach",
    params: ["body: fn"],
    returns: "null",
    doc: "Is called before every case that follows in the same group.",
    example: 'test.beforeEach(fn() { test.mock("storage.get", fn(key) { result.ok("x") }) })',
    run: (run, body) => {
      testsOf(run).before.push(body);
      return null;
    },
  }),
  entry({
    name: "mock",
    params: ["name: string", "fake: fn"],
    returns: "null",
    doc: "Answers calls of a function of requests or the platform by a fake, to the end of the case (or of the test, outside of one).",
    example: 'test.mock("requests.get", fn(url, options) { result.ok({ status: 200, headers: {}, body: [] }) })',
    run: (run, name, fake) => {
      testsOf(run).mocks.set(name, fake);
      return null;
    },
  }),
  entry({
    name: "withInput",
    params: ["input: object", "body: fn"],
    returns: "any",
    handsOn: true,
    doc: "Calls a function with another input document in `$`.",
    example: 'test.withInput({ name: "Ada" }, fn() { test.expect($.name).toBe("Ada") })',
    *steps(run, input, body) {
      testsOf(run);
      const before = run.input;
      run.input = input;
      const value = yield* run.calling(body, []);
      run.input = before;
      return value;
    },
  }),
]);
