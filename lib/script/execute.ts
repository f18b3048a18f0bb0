import type { Program } from "./ast.ts";
import { compileModule } from "./compile.ts";
import { type ErrorCode, type Finding, fail, ScriptError } from "./errors.ts";
import { answerJwt } from "./namespaces/jwt.ts";
import type { OutputEntry, TestCase } from "./report.ts";
import { Frame, Leave, type Piece, Run } from "./run.ts";
import { compiled, findingOf } from "./source.ts";
import { bounded, type Json, Result, toJson, type Value, type Waiting, writing } from "./values.ts";
import {
  type Answer,
  type Journal,
  type JournalCall,
  LIMITS,
  type Limits,
  type PendingCall,
  type World,
  withinLimit,
} from "./world.ts";

export interface RunOptions {
  /** What `$` is. */
  input?: Json;
  /** What `env` holds. */
  env?: Readonly<Record<string, string>>;
  /** What `viewer` is: whoever the script runs as. */
  viewer?: Json;
  world: World;
  /** The source of `import("script:<lookup_key>")`, or null. Called once a key, before the run. */
  scripts?: (lookup_key: string) => Promise<string | null>;
  /** Of an earlier, paused run of the same source, input and env. */
  journal?: Journal;
  limits?: Partial<Limits>;
}

export interface ScriptRun {
  status: "done" | "failed" | "paused";
  result: Json;
  /** A sentence for people, and what kind of error it is. */
  error: string | null;
  code: ErrorCode | null;
  findings: Finding[];
  output: OutputEntry[];
  /** Everything learned from outside so far. */
  journal: Journal;
  /** The call that a paused run waits for. */
  pending: PendingCall | null;
}

/**
 * Runs a script to its end, or up to a call that the world pauses at. Never throws for what the script does: all
 * of that is in `status`, `error`, `code` and `findings`. What the world or `scripts` throws flies on.
 *
 * A run is resumed by running again with its journal, to which the pending call's answer was added.
 */
export async function runScript(source: string, options: RunOptions): Promise<ScriptRun> {
  return (await execute(source, options, false)).run;
}

async function execute(
  source: string,
  options: RunOptions,
  tests: boolean,
): Promise<{ run: ScriptRun; cases: TestCase[] }> {
  const { world } = options;
  const limits = { ...LIMITS, ...options.limits };
  const start = options.journal ?? {
    started_at: new Date(world.now()).toISOString(),
    seed: Math.floor(world.random() * 4294967296) | 0,
    calls: [],
  };
  const calls: JournalCall[] = [...start.calls];
  const main = compiled(source);
  const findings = [...main.findings];
  let run: Run | null = null;

  const answer = (rest: Partial<ScriptRun> & Pick<ScriptRun, "status">) => ({
    run: {
      result: null,
      error: null,
      code: null,
      findings,
      output: run?.output ?? [],
      journal: { ...start, calls },
      pending: null,
      ...rest,
    },
    cases: run?.tests?.cases ?? [],
  });
  const failed = (error: ScriptError) => {
    findings.push(findingOf(error));
    return answer({ status: "failed", error: error.message, code: error.code });
  };

  if (!main.program) {
    const error = findings.find(({ severity }) => severity === "error")!;
    return answer({ status: "failed", error: error.message, code: main.refused });
  }
  try {
    const modules = new Map<string, Piece>();
    run = new Run({
      ...{ limits, modules, calls, tests, clock: () => world.now() },
      started_at: Date.parse(start.started_at),
      seed: start.seed,
    });
    run.alloc(main.bytes);
    run.begins(options);
    await load(main.program, options.scripts, run, modules);
    const program = whole(main.code, run);
    let next = attempt(run, () => program.next());
    while (!next.done) {
      const { value: call } = next;
      let known: JournalCall | undefined;
      if (call === null) await world.rest();
      else {
        const reply = await answerCall(call, run, world);
        if (reply === "pause") return answer({ status: "paused", pending: call });
        const { at = new Date(world.now()).toISOString(), ...told } = reply;
        known = { name: call.name, hash: call.hash, answer: told, at };
        calls[call.n] = known;
      }
      run.rested();
      run.look();
      next = attempt(run, () => (known ? program.next(known) : program.next()));
    }
    const { value } = next;
    if (value instanceof Result && !value.ok)
      throw fail("error_result", value.message, main.program.body.items.at(-1)!.at);
    const message = `the result is larger than ${limits.result_bytes / 1_000_000} MB`;
    const result = toJson(value, bounded(run, limits.result_bytes, "limit_output", message));
    writing(result, run);
    return answer({ status: "done", result });
  } catch (error) {
    if (!(error instanceof ScriptError)) throw error;
    error.at ??= run?.at ?? null;
    return failed(error);
  }
}

/** All top-level expressions, with a turn for others between them. */
function* whole(pieces: readonly Piece[], run: Run): Waiting<Value> {
  const frame = new Frame([], null);
  let value: Value = null;
  for (const { now, steps } of pieces) {
    if (run.steps > run.restAt) yield null;
    value = now ? now(frame, run) : yield* steps(frame, run);
  }
  return value;
}

/** Runs on to where the script waits or ends; what flies out of it is an error of the script or a bug of ours. */
function attempt<T>(run: Run, go: () => T): T {
  try {
    return go();
  } catch (thrown) {
    if (thrown instanceof Leave) throw fail("error_result", thrown.result.message, thrown.at);
    // The depth of calls is bounded well below the machine's; should it be smaller still, that is the script's limit.
    if (thrown instanceof RangeError) throw fail("limit_depth", "functions call each other too deep", run.at);
    throw thrown;
  }
}

async function answerCall(call: PendingCall, run: Run, world: World): ReturnType<World["call"]> {
  // It is made anew where no journal keeps it, and so takes no time.
  if (call.name.startsWith("jwt.")) {
    return { ...(await answerJwt(call.name, call.args)), at: new Date(run.now).toISOString() };
  }
  const { name, args, n, hash } = call;
  const ms = Math.min(run.limits.call_ms, run.left());
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<Answer>((resolve) => {
    timer = setTimeout(() => resolve({ error: `${name} took longer than ${Math.ceil(ms / 1000)} seconds` }), ms + 50);
  });
  const reply = await Promise.race([world.call(n, { name, args, hash }), late]);
  clearTimeout(timer);
  if (reply === "pause" || "error" in reply) return reply;
  return withinLimit(name, reply, run.limits);
}

/** Reads all scripts that a script imports, and those that they import, into `modules`. */
async function load(
  main: Program,
  scripts: RunOptions["scripts"],
  run: Run,
  modules: Map<string, Piece>,
): Promise<void> {
  let loaded = 0;
  const visit = async (program: Program, path: string[]): Promise<void> => {
    for (const { key, at } of program.imports) {
      const place = path.length === 0 ? at : null;
      if (path.includes(key)) {
        throw fail("import_cycle", `scripts import each other: ${[...path, key].join(" → ")}`, place);
      }
      if (modules.has(key)) continue;
      if (++loaded > run.limits.imports) {
        throw fail("import_missing", `more than ${run.limits.imports} scripts are imported`, place);
      }
      const source = (await scripts?.(key)) ?? null;
      if (source === null) throw fail("import_missing", `there is no script \`${key}\``, place);
      const made = compiled(source, (bytes) => run.alloc(bytes));
      const { program: imported } = made;
      if (!imported) {
        const [first] = made.findings.filter(({ severity }) => severity === "error");
        throw fail("import_missing", `script \`${key}\`, line ${first?.line}: ${first?.message}`, place);
      }
      await visit(imported, [...path, key]);
      made.module ??= compileModule(imported);
      modules.set(key, made.module);
    }
  };
  await visit(main, []);
}

export interface ScriptTestRun {
  passed: boolean;
  assertion_count: number;
  /** What ended the run before its end. */
  error: string | null;
  findings: Finding[];
  output: OutputEntry[];
  suites: { name: string; describe: string[]; tests: TestCase[] }[];
  /** All cases, in the order they ran. */
  tests: TestCase[];
}

/**
 * Runs a script as a test: what `test.it` did, by suites named by their path. It passed when there are cases and
 * none failed; a script without any case fails, since it tested nothing.
 */
export async function testScript(source: string, options: RunOptions): Promise<ScriptTestRun> {
  const { run, cases } = await execute(source, options, true);
  const suites = new Map<string, ScriptTestRun["suites"][number]>();
  for (const one of cases) {
    const name = one.describe.join(" > ");
    const suite = suites.get(name);
    if (suite) suite.tests.push(one);
    else suites.set(name, { name, describe: one.describe, tests: [one] });
  }
  const error = run.error ?? (run.status === "paused" ? "the test waits for a call" : null);
  return {
    passed: error === null && cases.length > 0 && cases.every(({ pass }) => pass),
    assertion_count: cases.reduce((sum, { assertions }) => sum + assertions.length, 0),
    error: error ?? (cases.length === 0 ? "the script has no `test.it`" : null),
    findings: run.findings,
    output: run.output,
    suites: [...suites.values()],
    tests: cases,
  };
}
