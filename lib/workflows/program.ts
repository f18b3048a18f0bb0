/**
 * What a run does, as a pure machine: it says what is to be asked of the world, and is told what came of it. Fed the same
 * outcomes in the same order it says the same again: so a run goes on after a crash from what its journal has.
 */
import type { Effect } from "../db/schema.ts";
import type { Json } from "../script/index.ts";

/** One thing that is asked of the world. */
export type Ask = {
  /** Of this run, the same whenever the machine is fed anew: `fetch`, `fetch#2` where it comes again, `each[3].fetch`. */
  key: string;
  /** The node or step that asks. */
  node: string;
  kind: AskKind;
  /** Its arguments; in a text, what stands in `{{ }}` is an expression over `scope`, evaluated before it is written down. */
  template: Json;
  /** What `$` is in them. */
  scope: Json;
  effect: Effect;
  /** How often it is tried at most, for faults that may pass. */
  attempts: number;
};

/**
 * `evaluate` gives its arguments back, evaluated; `script` a script's result; `preset` what a session came to; `http` an
 * answer; `emit` nothing; `work` what an agent came to; `wait` nothing, or the event; `approval` who decided what; `llm` an answer.
 */
export type AskKind = "evaluate" | "script" | "preset" | "http" | "emit" | "work" | "wait" | "approval" | "llm";

/** What came of it. An `error` is one for good: what may pass was tried again before. */
export type Outcome = { ok: Json } | { error: string };

export type Step =
  /** All that may be under way now, in order, without what has an outcome: the driver begins what it hasn't begun. */
  { do: "ask"; asks: Ask[] } | { do: "complete"; result: Json } | { do: "fail"; error: string };

export interface Program<State> {
  begin(input: Json): State;
  next(state: State): Step;
  /** The state after an outcome of one of the asks that `next` has named. */
  take(state: State, key: string, outcome: Outcome): State;
}

/**
 * `{[ADDRESS]: text}` is an address: what stands in its braces is percent-encoded, and leads to no other host or path.
 * `{[LITERAL]: value}` is no template. No text that comes from outside holds a NUL, so that nobody else spells these.
 */
export const ADDRESS = "\0address";
export const LITERAL = "\0literal";

/** Of one ask: each costs the copying of its scope. */
export const MAX_EXPRESSIONS = 100;
