/**
 * What a session does next, as a pure function of what its journal holds. Whoever drives it asks `next`, does that one
 * thing, writes down what came of it, and asks again; after a crash it reads the journal and asks again, too.
 *
 * pending → running ⇄ waiting → completed | failed | cancelled. Running is what computes or calls; waiting is what waits
 * for somebody: the next message, an approval, word of a call whose outcome nobody knows.
 */
import type { CallOutcome, Effect, SessionStatus as Status } from "../db/schema.ts";

export const TERMINAL = ["completed", "failed", "cancelled"] as const;
export const isTerminal = (status: Status): boolean => (TERMINAL as readonly Status[]).includes(status);

/** The frames that decide what comes next, and what of each does; a journal holds others, too. */
export type LoopEvent =
  | { type: "session.status"; status: Status }
  | { type: "message.received" }
  /** `inbox`: the sequence of the newest message that is in the prompt. */
  | { type: "model.started"; turn: number; inbox: number }
  | {
      type: "model.completed";
      message: { content?: string | null | undefined; tool_calls?: readonly { id: string; name: string }[] | null };
      usage: { input_tokens: number; output_tokens: number } | null;
    }
  | { type: "approval.requested"; call: string }
  | { type: "approval.decided"; call: string; approved: boolean }
  | {
      type: "tool.called";
      call: string;
      effect: Effect;
      async?: boolean | undefined;
      /** What the call itself waits for: a message, or an instant. */
      waits?: { message: boolean; until: string | null } | undefined;
    }
  /** `message`: the sequence of the message that is its result, and joins the conversation in no other way. */
  | { type: "tool.completed"; call: string; message?: number | undefined }
  | { type: "tool.failed"; call: string }
  | { type: "tool.unknown"; call: string }
  /** Somebody has said what became of it. What happened, and what was given up, is told by the frame that follows. */
  | { type: "tool.resolved"; call: string; outcome: "happened" | "retry" | "give_up" };

export interface Call {
  id: string;
  name: string;
  /** Of the model call that asked for it. */
  turn: number;
  outcome: CallOutcome;
  effect: Effect | null;
  /** Somebody has allowed it: it isn't asked again. */
  approved: boolean;
  /** How often it was begun. */
  attempts: number;
  waits: { message: boolean; until: string | null } | null;
}

export interface SessionState {
  status: Status;
  /** Model calls so far, one that was begun again counted once. */
  turn: number;
  /** Input and output, as the providers reported them. */
  tokens: number;
  /** A model call was begun and has not ended. */
  modelIsOpen: boolean;
  /** The calls of the newest turn, in its order, and older ones whose result is still to come. */
  calls: Call[];
  /** Sequences of messages that are in no prompt yet, oldest first. */
  inbox: number[];
  /** Sequence of the newest message that is in a prompt; 0 if there is none. */
  taken: number;
  /** Results of async calls that are in no prompt yet. */
  news: number;
  /** Of the newest turn: what the model said. */
  output: string;
  /** How often `finish` was called with a result that is not of its schema. */
  misfits: number;
}

export interface SessionLimits {
  max_turns: number;
  max_tokens: number;
  on_idle: "wait" | "complete";
  /** Waits for its first message before anything is said. */
  start_idle: boolean;
}

/** How often a model may mend the result that it finishes with. */
export const MAX_MISFITS = 2;

export const begun = (): SessionState => ({
  ...{ status: "pending", turn: 0, tokens: 0, modelIsOpen: false, calls: [], inbox: [], taken: 0 },
  ...{ news: 0, output: "", misfits: 0 },
});

/** The state after one more frame. The state that came in is used up. */
export function fold(state: SessionState, event: LoopEvent, sequence: number): SessionState {
  const callOf = (id: string) => state.calls.find((call) => call.id === id);
  const settle = (id: string, outcome: CallOutcome) => {
    const call = callOf(id);
    if (!call) return;
    if (call.outcome === "accepted") state.news++;
    Object.assign(call, { outcome, waits: null });
  };
  switch (event.type) {
    case "session.status":
      state.status = event.status;
      if (isTerminal(event.status)) Object.assign(state, { modelIsOpen: false, inbox: [] });
      break;
    case "message.received":
      state.inbox.push(sequence);
      break;
    case "model.started":
      state.turn = event.turn;
      state.taken = event.inbox;
      state.inbox = state.inbox.filter((one) => one > event.inbox);
      Object.assign(state, { modelIsOpen: true, news: 0 });
      break;
    case "model.completed": {
      const { message, usage } = event;
      state.modelIsOpen = false;
      state.tokens += (usage?.input_tokens ?? 0) + (usage?.output_tokens ?? 0);
      state.output = message.content ?? "";
      const later = state.calls.filter(({ outcome }) => outcome === "accepted");
      const calls = (message.tool_calls ?? []).map(
        ({ id, name }): Call => ({
          id,
          name,
          turn: state.turn,
          outcome: "pending",
          effect: null,
          approved: false,
          attempts: 0,
          waits: null,
        }),
      );
      state.calls = [...later, ...calls];
      break;
    }
    case "approval.requested":
      settle(event.call, "awaiting_approval");
      break;
    case "approval.decided":
      settle(event.call, event.approved ? "pending" : "denied");
      Object.assign(callOf(event.call) ?? {}, { approved: event.approved });
      break;
    case "tool.called": {
      const call = callOf(event.call);
      if (!call) break;
      Object.assign(call, { outcome: event.async ? "accepted" : "running", effect: event.effect });
      Object.assign(call, { attempts: call.attempts + 1, waits: event.waits ?? null });
      break;
    }
    case "tool.completed":
      settle(event.call, "succeeded");
      state.inbox = state.inbox.filter((one) => one !== event.message);
      break;
    case "tool.failed":
      if (callOf(event.call)?.name === "finish") state.misfits++;
      settle(event.call, "failed");
      break;
    case "tool.unknown":
      settle(event.call, "unknown");
      break;
    case "tool.resolved":
      if (event.outcome === "retry") settle(event.call, "pending");
      break;
  }
  return state;
}

export type Step =
  /** Nothing, ever again. */
  | { do: "nothing" }
  /** Nothing until something comes; at `until` at the latest, where that is said. */
  | { do: "wait"; until: string | null }
  | { do: "call_model"; turn: number }
  /** Made anew, with the same key: it was never begun, or its effect lets it be. */
  | { do: "call_tool"; call: Call }
  /** Begun before a crash, and never to be begun again: to be written down as unknown. */
  | { do: "lose"; call: Call }
  /** A call that waits has what it waited for: the message of this sequence, or the end of its time. */
  | { do: "answer_wait"; call: Call; message: number | null }
  | { do: "complete"; output: string }
  | { do: "fail"; limit: "max_turns" | "max_tokens" | "result_schema"; error: string };

/**
 * The one thing to do next. `inFlight` names the calls that this process is making now, and `model`: what isn't there,
 * and was begun, went down with another process.
 */
export function next(state: SessionState, limits: SessionLimits, inFlight: ReadonlySet<string>, now: number): Step {
  if (isTerminal(state.status)) return { do: "nothing" };
  const wait = (): Step => ({ do: "wait", until: earliest(state.calls) });
  if (state.modelIsOpen) return inFlight.has("model") ? wait() : { do: "call_model", turn: state.turn };
  // One after the other, as the model asked for them.
  for (const call of state.calls) {
    if (inFlight.has(call.id)) {
      if (call.outcome === "accepted") continue;
      return wait();
    }
    if (call.outcome === "pending") return { do: "call_tool", call };
    if (call.outcome !== "running" && call.outcome !== "accepted") continue;
    if (!call.waits) return call.effect === "once" ? { do: "lose", call } : { do: "call_tool", call };
    const message = call.waits.message ? state.inbox[0] : undefined;
    if (message !== undefined) return { do: "answer_wait", call, message };
    if (call.waits.until !== null && Date.parse(call.waits.until) <= now) {
      return { do: "answer_wait", call, message: null };
    }
  }
  if (state.calls.some(isOpen)) return wait();
  if (state.misfits > MAX_MISFITS) {
    const error = `result_schema: ${state.misfits} results were not of the schema that was asked for`;
    return { do: "fail", limit: "result_schema", error };
  }
  const opening = state.turn === 0 && !limits.start_idle;
  const answered = state.calls.some(({ turn }) => turn === state.turn);
  if (!opening && !answered && !state.inbox.length && !state.news) {
    const isIdle = state.turn > 0 && !state.calls.some(({ outcome }) => outcome === "accepted");
    return isIdle && limits.on_idle === "complete" ? { do: "complete", output: state.output } : wait();
  }
  if (state.turn >= limits.max_turns) {
    return { do: "fail", limit: "max_turns", error: `max_turns: ${limits.max_turns} model calls were made` };
  }
  if (state.tokens >= limits.max_tokens) {
    const error = `max_tokens: ${state.tokens} tokens were used of ${limits.max_tokens}`;
    return { do: "fail", limit: "max_tokens", error };
  }
  return { do: "call_model", turn: state.turn + 1 };
}

/** Whether the turn can't go on before somebody has answered; what an async tool gives may come later. */
const isOpen = ({ outcome }: Call) =>
  outcome === "pending" || outcome === "running" || outcome === "awaiting_approval" || outcome === "unknown";

const earliest = (calls: readonly Call[]): string | null =>
  calls.flatMap(({ waits }) => waits?.until ?? []).sort()[0] ?? null;

/** What a session is while it is at a step: null where it stays what it is. */
export function statusAt(step: Step, inFlight: ReadonlySet<string>): Status | null {
  if (step.do === "nothing" || step.do === "complete" || step.do === "fail") return null;
  return step.do === "wait" && !inFlight.size ? "waiting" : "running";
}
