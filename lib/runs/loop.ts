/**
 * What a run is to do, as a pure function of what its journal holds and what its program asks for. Whoever drives it does
 * that, writes down what came of it, and asks again; after a crash it reads the journal and asks again, too.
 *
 * pending → running → completed | failed | skipped | cancelled; what waits for a person, a session or a time is running.
 */
import type { Effect, RunStatus } from "../db/schema.ts";
import { isId } from "../ids.ts";
import type { Ask, AskKind } from "../workflows/program.ts";
import type { RunFrame } from "./frames.ts";

export const TERMINAL = ["completed", "failed", "skipped", "cancelled"] as const;
type JournalStatus = RunStatus | "waiting";
export const isTerminal = (status: JournalStatus): boolean => (TERMINAL as readonly JournalStatus[]).includes(status);

/** How long a command waits before it is tried again, by how often that was so. */
export const RETRY_MS = [10_000, 60_000];

/** A command that is not over. */
export type Command = {
  id: string;
  key: string;
  node: string;
  kind: AskKind;
  effect: Effect;
  outcome: "pending" | "running" | "waiting" | "awaiting_approval" | "unknown";
  /** How often it was begun. */
  attempts: number;
  /** How often a fault passed over it. */
  faults: number;
  /** ISO 8601: not tried again before then, or not waited for beyond. */
  until: string | null;
  /** The session, work item or wait that has it outside of the run, by its id. */
  handed_to: string | null;
};

/** `commands` by their key, in the order in which they were asked for. */
export type RunState = { status: JournalStatus; commands: Map<string, Command> };
export const begun = (): RunState => ({ status: "pending", commands: new Map() });

/** The state after one more frame. The state that came in is used up. */
export function fold(state: RunState, frame: RunFrame): RunState {
  const command = "command" in frame ? commandOf(state, frame.command) : undefined;
  switch (frame.type) {
    case "run.status":
      state.status = frame.status;
      if (isTerminal(frame.status)) state.commands.clear();
      break;
    case "command.requested":
      state.commands.set(frame.key, {
        ...{ id: frame.command, key: frame.key, node: frame.node, kind: frame.kind, effect: frame.effect },
        ...{ outcome: "pending", attempts: 0, faults: 0, until: null, handed_to: null },
      });
      break;
    case "command.called":
      Object.assign(command ?? {}, {
        outcome: "running",
        until: null,
        handed_to: frame.handed_to,
        attempts: frame.attempt,
      });
      break;
    case "command.waiting":
      Object.assign(command ?? {}, { outcome: "waiting", until: frame.until });
      break;
    case "command.retrying":
      if (command) Object.assign(command, { outcome: "pending", until: frame.until, faults: command.faults + 1 });
      break;
    case "command.unknown":
      Object.assign(command ?? {}, { outcome: "unknown" });
      break;
    case "command.resolved":
      if (frame.outcome === "retry") Object.assign(command ?? {}, { outcome: "pending", until: null });
      break;
    case "approval.requested":
      Object.assign(command ?? {}, { outcome: "awaiting_approval" });
      break;
    case "command.completed":
    case "command.failed":
      if (command) state.commands.delete(command.key);
      break;
  }
  return state;
}

/** A session is at work on it: that is no waiting. */
const isAtWork = ({ handed_to }: Command) => handed_to !== null && isId("agent_session", handed_to);

export function commandOf(state: RunState, id: string): Command | undefined {
  for (const command of state.commands.values()) if (command.id === id) return command;
  return undefined;
}

export type Action =
  /** Evaluate its arguments, and write it down. */
  | { do: "request"; ask: Ask }
  /** Send it: for the first time, or again where its effect lets it be, under the same key. */
  | { do: "call"; command: Command; ask: Ask }
  /** Begun before a crash, and never to be begun again: to be written down as unknown. */
  | { do: "lose"; command: Command }
  /** Its time is over: whoever has it is asked a last time. */
  | { do: "expire"; command: Command };

/** `until`: when to ask again, if nothing comes before. `waits`: all that is open waits for somebody, or for a time. */
export type Todo = { actions: Action[]; until: string | null; waits: boolean };

/**
 * All that can be done now, of what the program asks for. `inFlight` names the commands that this process is sending:
 * what isn't there, and was begun, went down with another process.
 */
export function todo(state: RunState, asks: readonly Ask[], inFlight: ReadonlySet<string>, now: number): Todo {
  const actions: Action[] = [];
  const instants: string[] = [];
  let waits = true;
  const isPast = (until: string | null) => until !== null && Date.parse(until) <= now;
  for (const ask of asks) {
    const command = state.commands.get(ask.key);
    if (!command) {
      actions.push({ do: "request", ask });
      continue;
    }
    if (inFlight.has(command.id)) {
      waits = false;
      continue;
    }
    switch (command.outcome) {
      case "pending":
        if (command.until === null || isPast(command.until)) actions.push({ do: "call", command, ask });
        else instants.push(command.until);
        waits = false;
        break;
      case "running":
        // What a script did is in the ledger, call by call: it says itself where it can't go on.
        if (command.effect !== "once" || command.kind === "script") actions.push({ do: "call", command, ask });
        else actions.push({ do: "lose", command });
        break;
      case "waiting":
        if (isPast(command.until)) actions.push({ do: "expire", command });
        else if (command.until) instants.push(command.until);
        if (isAtWork(command)) waits = false;
        break;
    }
  }
  return { actions, until: instants.sort()[0] ?? null, waits: waits && !actions.length };
}
