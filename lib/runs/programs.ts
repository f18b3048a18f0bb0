/** What a routine's handlers do, as programs. */
import type { Json } from "../script/index.ts";
import type { PinnedConfig } from "../tools/calls.ts";
import { graphProgram } from "../workflows/graph.ts";
import type { Ask, Outcome, Program, Step } from "../workflows/program.ts";
import type { Graph } from "../workflows/read.ts";

type OneTask =
  | { handler_type: "script"; script: string | null; config: PinnedConfig | null }
  | { handler_type: "preset"; preset_name: string; preset_config: Record<string, Json> };
/** One thing that a run does: all of a routine's, or a step of a chain. */
export type Task = OneTask | { handler_type: "workflow_graph"; graph: Graph };
export type ChainStep = Task & {
  name: string | null;
  output_key: string | null;
  inputs: Record<string, string>;
  on_error: "halt" | "continue" | "retry";
};

/** Tries of a fault that may pass. */
const ATTEMPTS = 3;
/** How often a structured answer may be repaired. */
const MAX_REPAIRS = 2;
/** How an error begins that says what is wrong with a structured answer. */
export const UNFIT = "structured_response: ";

/** What a task asks, for the time being, and how often its answer didn't fit. */
type Doing = { repairs: number; fault: string | null };
const doing: Doing = { repairs: 0, fault: null };

function askOf(task: OneTask, key: string, scope: Json, attempts: number, { repairs, fault }: Doing): Ask {
  const of = { key: repairs ? `${key}#${repairs + 1}` : key, node: key, scope, attempts };
  if (task.handler_type === "script") {
    const { script, config } = task;
    return { ...of, kind: "script", effect: "once", template: script === null ? { config } : { source: script } };
  }
  const { preset_name, preset_config } = task;
  // The session is told once: again it is the same.
  return { ...of, kind: "preset", effect: "idempotent", template: { preset_name, preset_config, repair: fault } };
}

/** Whether the task goes on, with what is wrong: null where the outcome is its last. */
const repaired = ({ repairs }: Doing, outcome: Outcome): Doing | null =>
  "error" in outcome && outcome.error.startsWith(UNFIT) && repairs < MAX_REPAIRS
    ? { repairs: repairs + 1, fault: outcome.error.slice(UNFIT.length) }
    : null;

type One = { input: Json; doing: Doing; outcome: Outcome | null };

/** A script's or a preset's: it asks one thing. */
const one = (task: OneTask, key: string, attempts: number): Program<One> => ({
  begin: (input) => ({ input, doing, outcome: null }),
  next: ({ input, doing, outcome }) => {
    if (!outcome) return { do: "ask", asks: [askOf(task, key, input, attempts, doing)] };
    return "ok" in outcome ? { do: "complete", result: outcome.ok } : { do: "fail", error: outcome.error };
  },
  take: (state, _, outcome) => {
    const again = repaired(state.doing, outcome);
    return again ? { ...state, doing: again } : { ...state, outcome };
  },
});

/** A routine that does one thing. */
export const taskProgram = (task: Task): Program<unknown> =>
  task.handler_type === "workflow_graph" ? graphProgram(task.graph) : one(task, task.handler_type, ATTEMPTS);

/** A program whose keys and nodes stand under a step's. */
const under = (step: string, program: Program<unknown>): Program<unknown> => ({
  ...program,
  next: (state) => {
    const next = program.next(state);
    if (next.do !== "ask") return next;
    return {
      do: "ask",
      asks: next.asks.map((ask) => ({ ...ask, key: `${step}.${ask.key}`, node: `${step}.${ask.node}` })),
    };
  },
  take: (state, key, outcome) => program.take(state, key.slice(step.length + 1), outcome),
});

type Chain = {
  input: Json;
  at: number;
  /** Of the step that it is at. */
  doing: unknown;
  outputs: Record<string, Json>;
  last: Json;
  error: string | null;
};

/**
 * Steps one after another. The `$` of each is `{trigger, inputs}`: what the steps before it put out, by their output_key
 * (else their name), and by the names that the step has for them. The last one's output is the result.
 */
export function chainProgram(steps: readonly ChainStep[]): Program<Chain> {
  const programs = steps.map((step, at): Program<unknown> => {
    const key = keyOf(step, at);
    if (step.handler_type === "workflow_graph") return under(key, graphProgram(step.graph));
    return one(step, key, step.on_error === "retry" ? ATTEMPTS : 1);
  });

  /** At its step, which begins; and past those that ask nothing. */
  function begun(chain: Chain): Chain {
    const { at, input, outputs } = chain;
    const step = steps[at];
    if (!step) return chain;
    const own = Object.entries(step.inputs).map(([name, from]) => [
      name,
      from === "trigger" ? input : (outputs[from] ?? null),
    ]);
    const scope = { trigger: input, inputs: { ...outputs, ...Object.fromEntries(own) } };
    return passed({ ...chain, doing: programs[at]!.begin(scope) });
  }

  /** Past its step, if that is over. */
  function passed(chain: Chain): Chain {
    const step = steps[chain.at]!;
    const next = programs[chain.at]!.next(chain.doing);
    if (next.do === "ask") return chain;
    if (next.do === "fail" && step.on_error !== "continue") {
      return { ...chain, error: `${keyOf(step, chain.at)}: ${next.error}` };
    }
    const last = next.do === "complete" ? next.result : null;
    const name = step.output_key ?? step.name;
    const outputs = name === null ? chain.outputs : { ...chain.outputs, [name]: last };
    return begun({ ...chain, at: chain.at + 1, outputs, last });
  }

  return {
    begin: (input) => begun({ input, at: 0, doing: null, outputs: {}, last: null, error: null }),
    next: ({ at, doing, last, error }): Step => {
      if (error !== null) return { do: "fail", error };
      return programs[at]?.next(doing) ?? { do: "complete", result: last };
    },
    take: (chain, key, outcome) => passed({ ...chain, doing: programs[chain.at]!.take(chain.doing, key, outcome) }),
  };
}

const keyOf = ({ name }: ChainStep, at: number) => (name === null ? `steps[${at}]` : `steps[${at}] ${name}`);
/** The step that a command's node is of; null: it is of no chain. */
export const stepOf = (node: string): number | null => {
  const [, at] = /^steps\[(\d+)\]/.exec(node) ?? [];
  return at === undefined ? null : Number(at);
};
