/** What a routine's handlers do, as programs. */
import type { Json } from "../script/index.ts";
import type { PinnedConfig } from "../tools/calls.ts";
import type { Ask, Outcome, Program, Step } from "../workflows/program.ts";

/** One thing that a run does: all of a routine's, or a step of a chain. */
export type Task =
  | { handler_type: "script"; script: string | null; config: PinnedConfig | null }
  | { handler_type: "preset"; preset_name: string; preset_config: Record<string, Json> };
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

function askOf(task: Task, key: string, scope: Json, attempts: number, { repairs, fault }: Doing): Ask {
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

/** A routine that does one thing. */
export const taskProgram = (task: Task): Program<One> => ({
  begin: (input) => ({ input, doing, outcome: null }),
  next: ({ input, doing, outcome }) => {
    if (!outcome) return { do: "ask", asks: [askOf(task, task.handler_type, input, ATTEMPTS, doing)] };
    return "ok" in outcome ? { do: "complete", result: outcome.ok } : { do: "fail", error: outcome.error };
  },
  take: (state, _, outcome) => {
    const again = repaired(state.doing, outcome);
    return again ? { ...state, doing: again } : { ...state, outcome };
  },
});

type Chain = {
  input: Json;
  at: number;
  doing: Doing;
  outputs: Record<string, Json>;
  last: Json;
  error: string | null;
};

/**
 * Steps one after another. The `$` of each is `{trigger, inputs}`: what the steps before it put out, by their output_key
 * (else their name), and by the names that the step has for them. The last one's output is the result.
 */
export const chainProgram = (steps: readonly ChainStep[]): Program<Chain> => ({
  begin: (input) => ({ input, at: 0, doing, outputs: {}, last: null, error: null }),
  next: ({ input, at, doing, outputs, last, error }): Step => {
    if (error !== null) return { do: "fail", error };
    const step = steps[at];
    if (!step) return { do: "complete", result: last };
    const own = Object.entries(step.inputs).map(([name, from]) => [
      name,
      from === "trigger" ? input : (outputs[from] ?? null),
    ]);
    const scope = { trigger: input, inputs: { ...outputs, ...Object.fromEntries(own) } };
    const attempts = step.on_error === "retry" ? ATTEMPTS : 1;
    return { do: "ask", asks: [askOf(step, keyOf(step, at), scope, attempts, doing)] };
  },
  take: (state, _, outcome) => {
    const step = steps[state.at]!;
    const again = repaired(state.doing, outcome);
    if (again) return { ...state, doing: again };
    if ("error" in outcome && step.on_error !== "continue") {
      return { ...state, error: `${keyOf(step, state.at)}: ${outcome.error}` };
    }
    const last = "ok" in outcome ? outcome.ok : null;
    const name = step.output_key ?? step.name;
    const outputs = name === null ? state.outputs : { ...state.outputs, [name]: last };
    return { ...state, at: state.at + 1, doing, outputs, last };
  },
});

const keyOf = ({ name }: ChainStep, at: number) => (name === null ? `steps[${at}]` : `steps[${at}] ${name}`);
