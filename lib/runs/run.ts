/**
 * A run at work: it asks its program what is to be asked of the world, writes each command down before it is sent, and
 * what came of it after. All that it knows is in its journal; all that it reaches outside of it are its hands. Whoever
 * owns it runs it again after a crash.
 */
import type { CallOutcome, Effect } from "../db/schema.ts";
import { isMap, isWithinAsJson } from "../http/valid.ts";
import { type Id, idAs, isId } from "../ids.ts";
import type { Journal } from "../journal/journal.ts";
import { jsonHash } from "../model/index.ts";
import { PACE } from "../motion/pace.ts";
import type { Json } from "../script/index.ts";
import type { Refused, Resolution, Sender } from "../sessions/remote.ts";
import type { Outbound } from "../tools/calls.ts";
import type { Ask, AskKind, Outcome, Program } from "../workflows/program.ts";
import type { RunEvent, RunFrame } from "./frames.ts";
import {
  type Action,
  begun,
  type Command,
  commandOf,
  fold,
  isTerminal,
  RETRY_MS,
  type RunState,
  todo,
} from "./loop.ts";
import type { RunRow, RunView } from "./remote.ts";

/** Of a run's result, and of its structured response, in bytes of JSON. */
export const MAX_RESULT = 32_768;
/** Of what a command gives, in bytes of JSON. */
export const MAX_GIVEN = 65_536;
const MAX_ERROR = 2_000;
/** How often a command is begun at all: whatever ends the process each time, it isn't sent for ever. */
const MAX_BEGUN = 100;
const NOTHING = `it was begun ${MAX_BEGUN} times, and nothing came of it`;
/** So many commands are under way at once. */
const AT_ONCE = 10;

/** What a run goes by from its start on: plain JSON, without a secret. */
export type Pinned = { handler: string; [fact: string]: unknown };

/** What came of a command. */
export type Came =
  | Outcome
  /** Sent, and nobody knows whether it happened. */
  | { unknown: true }
  /** A fault that may pass: it is tried again, if its attempts aren't over. */
  | { passing: string }
  /** It was taken. What comes of it comes later; at `until` at the latest, where that is said. */
  | { later: true; until: string | null };

/** A command on its way. */
export type Sending = Pick<Command, "id" | "kind" | "node" | "effect" | "handed_to"> & {
  arguments: Json;
  scope: Json;
  attempt: number;
  /** When it was first begun, ISO 8601. */
  begun_at: string;
  signal: AbortSignal;
  /** Whether what it does step by step may take another: not while the org is suspended. */
  mayGoOn: () => Promise<boolean>;
  outbound: readonly Outbound[];
  note: (outbound: Omit<Outbound, "at">) => Outbound;
};

/** All that a run reaches. What these throw is no command's doing: the run goes on later. */
export type Hands = {
  now(): number;
  newCommand(): Id<"tool_call">;
  /** What it is to go by; why it isn't to run; or null where its agent is gone. */
  pin(): Promise<Pinned | { skipped: string } | null>;
  /** Throws a sentence for people where there is none. */
  program(pinned: Pinned): Program<unknown>;
  /** Whether a step may be taken: not while the org is suspended. */
  mayGoOn(): Promise<boolean>;
  /** The arguments of an ask. Throws a sentence for people where they have no value. */
  evaluate(ask: Ask): Promise<Json>;
  /** From now on an event is listened for, by a wait of that id; why it can't be, as a sentence for people. */
  listen(wait: Id<"event_wait">, given: Json): Promise<string | null>;
  /** Null: it is taken up again, since it may not go on. */
  send(pinned: Pinned, command: Sending): Promise<Came | null>;
  /** What has come of what a command was handed to, by now; null where nothing has. */
  heard(pinned: Pinned, handed_to: string, command: Json): Promise<Came | null>;
  /** What a command was handed to has nobody to work for any more. */
  letGo(handed_to: string): void;
  /** A value without the agent's secrets. */
  mask<T>(value: T): T;
  /** Frames were written: somebody may wait for them. */
  told(frames: RunFrame[]): void;
  /** It is to be run again, at the latest then. */
  runAt(instant: number): void;
  /** It is to be run again when its org is active again. */
  paused(): void;
  /** A command is to be sent, beside what the run does. */
  runCommand(command: string): void;
  /** Something may have come of what a command was handed to. */
  runLook(): void;
};

/** A command, as it is told outside. */
export type CommandFacts = {
  id: Id<"tool_call">;
  key: string;
  node: string;
  kind: AskKind;
  arguments: unknown;
  arguments_hash: string;
  effect: Effect;
  outcome: CallOutcome;
  error: string | null;
  attempts: number;
  requested_at: string;
  started_at: string | null;
  completed_at: string | null;
};
type Ledger = CommandFacts & { outbound: Map<number, Outbound> };

const refused = (status: Refused["refused"]["status"], code: string, message: string): Refused => ({
  refused: { status, code, message },
});
/** What a command is handed to: its id is of the command's, so that however often that is sent there is one of it. */
function handed(kind: AskKind, command: string, given: Json): string | null {
  const { worker, event = null } = isMap(given) ? given : {};
  if (kind === "wait") return event === null ? null : idAs("event_wait", command);
  if (kind === "work" && worker === "external") return idAs("work_item", command);
  return kind === "preset" || kind === "work" ? idAs("agent_session", command) : null;
}
const sentence = (error: unknown) => (error instanceof Error ? error.message : String(error)).slice(0, MAX_ERROR);

export class Run {
  readonly row: RunRow;
  readonly #journal: Journal<RunEvent>;
  readonly #hands: Hands;
  readonly #inFlight = new Set<string>();
  /** Commands that this process sends, and how often that failed. */
  readonly #jobs = new Map<string, { send: () => Promise<void>; failed: number }>();
  /** What is known of commands that aren't over, and of the one that was over last. */
  readonly #ledgers = new Map<string, Ledger>();
  /** Arguments as they are sent: what is written down has no secret. */
  readonly #given = new Map<string, { arguments: Json; scope: Json }>();
  readonly #ended = new AbortController();
  #pinned: Pinned | null = null;
  #program: Program<unknown> | null = null;
  /** Of the program: what it was told. */
  #told: unknown;
  #state: RunState = begun();
  #facts = {
    ...{ worker_status: "queued", attempt: 0, result: null, structured_response: null },
    ...{ started_at: null, completed_at: null },
  } as Omit<RunView, "status" | "duration_ms">;
  /** Something has come, and who had it wasn't asked yet. */
  #said = false;
  /** When the newest thing happened. */
  #at = 0;

  /** The run of a journal, as it was left. */
  constructor(row: RunRow, journal: Journal<RunEvent>, hands: Hands) {
    this.row = row;
    this.#journal = journal;
    this.#hands = hands;
    this.#take(journal.kept<Pinned>("pinned"));
    for (let after = 0; ; ) {
      const frames = journal.after(after);
      if (!frames.length) break;
      for (const frame of frames) this.#fold(frame);
      after = frames.at(-1)!.sequence;
    }
  }

  get isOver(): boolean {
    return isTerminal(this.#state.status);
  }

  /** Of the journal: what waits is a part of what runs. */
  get status(): RunState["status"] {
    return this.#state.status;
  }

  get pinned(): Pinned | null {
    return this.#pinned;
  }

  /** Until when what it does may take, in milliseconds; null: it waits for somebody, or is over. */
  get due(): number | null {
    if (this.isOver) return null;
    if (this.#inFlight.size) return this.#at + PACE.step;
    const open = [...this.#state.commands.values()];
    const isWaiting = open.length > 0 && open.every(({ until, outcome }) => until || !/pending|running/.test(outcome));
    if (!isWaiting) return this.#at + PACE.late;
    const instants = open.flatMap(({ until }) => (until ? [Date.parse(until)] : []));
    return instants.length ? Math.min(...instants) + PACE.late : null;
  }

  /** The first thing that is written of it, once. */
  begin(): void {
    if (this.#journal.last) return;
    this.#append({ type: "run.status", status: "pending", reason: null });
    this.#hands.runAt(this.#hands.now());
  }

  view(): RunView {
    const { started_at, completed_at } = this.#facts;
    const duration_ms = started_at && completed_at ? Date.parse(completed_at) - Date.parse(started_at) : null;
    return { ...this.#facts, status: this.status === "waiting" ? "running" : this.status, duration_ms };
  }

  /** What is told of a command; null where it isn't known any more. */
  factsOf(id: string): CommandFacts | null {
    const ledger = this.#ledgers.get(id);
    if (!ledger) return null;
    const { outbound: _, ...facts } = ledger;
    return facts;
  }

  /** What its commands are handed to. */
  get handedTo(): string[] {
    return [...this.#state.commands.values()].flatMap(({ handed_to }) => handed_to ?? []);
  }

  // -------------------------------------------------------------------------------------------------------
  // What others say

  /** Ends it. Once it is over, nothing changes. */
  cancel(): RunView {
    if (!this.isOver) this.#end({ type: "run.status", status: "cancelled", reason: null });
    return this.view();
  }

  /** What a person says of a command that waits for it. */
  decide(
    id: string,
    {
      approved,
      arguments_hash,
      note,
      by,
    }: { approved: boolean; arguments_hash: string; note: string | null; by: Sender },
  ): RunView | Refused {
    const { command, ledger, refusal } = this.#waitingFor(id, "awaiting_approval", "approval");
    if (refusal) return refusal;
    if (ledger.arguments_hash !== arguments_hash) {
      return refused(409, "arguments_differ", "The command has other arguments than those that were looked at.");
    }
    const { node } = command;
    const result = { approved, note, by };
    this.#append(
      { type: "approval.decided", command: id, node, approved, note, by },
      { type: "command.completed", command: id, node, result },
    );
    this.#hands.runAt(this.#hands.now());
    return this.view();
  }

  /** What a person knows of a command whose outcome is unknown. */
  resolve(id: string, { by, ...resolution }: Resolution & { by: Sender }): RunView | Refused {
    const { command, refusal } = this.#waitingFor(id, "unknown", "word of its outcome");
    if (refusal) return refusal;
    const { node } = command;
    const { outcome } = resolution;
    const told: RunEvent[] = [{ type: "command.resolved", command: id, node, outcome, by }];
    if (outcome === "happened") {
      told.push({ type: "command.completed", command: id, node, result: resolution.result ?? null });
    }
    if (outcome === "give_up") {
      const error = "nobody knows whether the command took effect";
      told.push({ type: "command.failed", command: id, node, error });
    }
    this.#append(...told);
    this.#hands.runAt(this.#hands.now());
    return this.view();
  }

  #waitingFor(id: string, outcome: Command["outcome"], word: string) {
    const ledger = this.#ledgers.get(id);
    const command = commandOf(this.#state, id);
    if (!ledger && !this.#hasAsked(id)) return { refusal: refused(404, "not_found", "There is no such command.") };
    if (!ledger || command?.outcome !== outcome) {
      return { refusal: refused(409, "not_waiting", `The command doesn't wait for ${word}.`) };
    }
    return { ledger, command };
  }

  /** Whether a command is the run's, however long ago that was over. */
  #hasAsked(id: string): boolean {
    for (let after = 0; ; ) {
      const frames = this.#journal.after(after) as RunFrame[];
      if (!frames.length) return false;
      if (frames.some((frame) => "command" in frame && frame.command === id)) return true;
      after = frames.at(-1)!.sequence;
    }
  }

  /** Something has come of what a command was handed to, or may have. */
  hear(): void {
    if (this.isOver) return;
    this.#said = true;
    this.#hands.runLook();
  }

  /** Asks whoever has its commands what has come of them. */
  async look(): Promise<void> {
    const open = [...this.#state.commands.values()];
    // One that is being sent is asked when that is done.
    if (open.some(({ id, handed_to }) => handed_to && this.#inFlight.has(id))) return;
    this.#said = false;
    for (const command of open) if (command.outcome === "waiting") await this.#ask(command);
    if (!this.isOver) this.#hands.runAt(this.#hands.now());
  }

  /** What has come of a command that was handed to somebody. */
  async #ask({ id, handed_to }: Command): Promise<void> {
    if (!handed_to || !this.#pinned) return;
    const came = await this.#hands.heard(this.#pinned, handed_to, this.#ledgers.get(id)?.arguments as Json);
    if (came && commandOf(this.#state, id)?.outcome === "waiting") this.#came(id, came);
  }

  /** Lets go of what is under way, and writes nothing more. */
  abandon(): void {
    this.#ended.abort(new Error("the run is gone"));
  }

  // -------------------------------------------------------------------------------------------------------
  // What it does

  /** Goes on as far as it can. Never twice at a time. */
  async run(): Promise<void> {
    for (;;) {
      if (this.isOver) return;
      const [mayGoOn, pinned] = await Promise.all([this.#hands.mayGoOn(), this.#pinned ? null : this.#hands.pin()]);
      if (!mayGoOn) {
        this.#waits("suspended");
        return this.#hands.paused();
      }
      if (!this.#pinned && !this.#pin(pinned)) return;
      if (this.isOver) return;
      let next: ReturnType<Program<unknown>["next"]>;
      try {
        this.#program ??= this.#begun();
        next = this.#program.next(this.#told);
      } catch (error) {
        return this.#fail(sentence(error));
      }
      if (next.do === "complete") return this.#complete(next.result);
      if (next.do === "fail") return this.#fail(next.error);
      const { actions, until, waits } = todo(this.#state, next.asks, this.#inFlight, this.#hands.now());
      const room = actions.filter((action) => action.do !== "call").length || this.#inFlight.size < AT_ONCE;
      if (!actions.length || !room) {
        if (waits && !this.#inFlight.size) this.#waits("somebody, or a time");
        if (until) this.#hands.runAt(Date.parse(until));
        return;
      }
      if (this.status === "waiting") this.#append({ type: "run.status", status: "running", reason: null });
      for (const action of actions) {
        if (action.do === "call" && this.#inFlight.size >= AT_ONCE) break;
        await this.#act(action);
        if (this.isOver) return;
      }
    }
  }

  #waits(reason: string): void {
    if (this.status === "running") this.#append({ type: "run.status", status: "waiting", reason });
  }

  #pin(pinned: Awaited<ReturnType<Hands["pin"]>>): boolean {
    if (this.isOver) return false;
    if (!pinned) {
      this.#fail("agent_gone: its agent was deleted");
      return false;
    }
    if ("skipped" in pinned) {
      this.#end({ type: "run.status", status: "skipped", reason: pinned.skipped as string });
      return false;
    }
    this.#journal.keep("pinned", pinned);
    this.#take(pinned);
    this.#append({ type: "run.status", status: "running", reason: null });
    return true;
  }

  /** What it goes by, and its program, which begins: one that can't be read says so when the run goes on. */
  #take(pinned: Pinned | null): void {
    this.#pinned = pinned;
    if (!pinned) return;
    try {
      this.#program = this.#begun();
    } catch {
      this.#program = null;
    }
  }
  #begun(): Program<unknown> {
    const program = this.#hands.program(this.#pinned!);
    this.#told = program.begin(this.row.payload as Json);
    return program;
  }

  async #act(action: Action): Promise<void> {
    if (action.do === "request") return this.#request(action.ask);
    const { id, node } = action.command;
    if (action.do === "lose") return void this.#append({ type: "command.unknown", command: id, node });
    if (action.do === "expire") {
      await this.#ask(action.command);
      if (commandOf(this.#state, id)?.outcome === "waiting") this.#came(id, { ok: null });
      return;
    }
    return this.#call(action.command, action.ask);
  }

  async #request(ask: Ask): Promise<void> {
    const { key, node, kind, effect } = ask;
    const id = this.#hands.newCommand();
    let failed: string | null = null;
    let given: Json = null;
    try {
      given = await this.#hands.evaluate(ask);
      if (!isWithinAsJson(given, MAX_GIVEN)) failed = `its arguments have more than ${MAX_GIVEN} bytes`;
    } catch (error) {
      failed = sentence(error);
    }
    if (failed !== null) given = null;
    const handed_to = handed(kind, id, given);
    // Before it is written down, so that nothing is missed that happens from then on.
    if (handed_to && isId("event_wait", handed_to)) failed = await this.#hands.listen(handed_to, given);
    const told = this.#hands.mask(given);
    const arguments_hash = await jsonHash(told);
    if (this.isOver) return handed_to ? this.#hands.letGo(handed_to) : undefined;
    const asked: RunEvent = {
      ...{ type: "command.requested", command: id, node, key, kind, arguments: told, arguments_hash, effect },
    };
    if (failed !== null) return void this.#append(asked, { type: "command.failed", command: id, node, error: failed });
    // Its arguments are all that there is to it.
    if (kind === "evaluate")
      return void this.#append(asked, { type: "command.completed", command: id, node, result: given });
    this.#given.set(id, { arguments: given, scope: ask.scope });
    this.#append(asked);
  }

  async #call({ id, node, kind, effect, attempts, handed_to }: Command, ask: Ask): Promise<void> {
    if (kind === "approval") return void this.#append({ type: "approval.requested", command: id, node });
    const attempt = attempts + 1;
    if (attempt > MAX_BEGUN) {
      this.#append({ type: "command.failed", command: id, node, error: NOTHING });
      return handed_to ? this.#hands.letGo(handed_to) : undefined;
    }
    const given = this.#given.get(id) ?? { arguments: await this.#hands.evaluate(ask), scope: ask.scope };
    if (this.isOver) return;
    const to = handed(kind, id, given.arguments);
    this.#append({ type: "command.called", command: id, node, attempt, idempotency_key: id, handed_to: to });
    this.#inFlight.add(id);
    const send = () => this.#send({ id, node, kind, effect, handed_to: to, attempt, ...given });
    this.#jobs.set(id, { send, failed: 0 });
    this.#hands.runCommand(id);
  }

  /** A command whose turn it is. One of another process isn't known here: the run goes on, and begins it anew, or loses it. */
  async runCommand(id: string): Promise<void> {
    if (this.isOver) return;
    const job = this.#jobs.get(id);
    if (job) return job.send();
    this.#hands.runAt(this.#hands.now());
  }

  /**
   * Sends what is written down as begun. What isn't the command's doing flies on: it stays under way, and its turn comes
   * again a little later, so that a database that is out uses up none of its beginnings.
   */
  async #send(sending: Omit<Sending, "begun_at" | "signal" | "mayGoOn" | "outbound" | "note">): Promise<void> {
    const { id, node } = sending;
    const { started_at, outbound } = this.#ledgers.get(id)!;
    let came: Came | null;
    try {
      came = await this.#hands.send(this.#pinned!, {
        ...{ ...sending, begun_at: started_at!, signal: this.#ended.signal, mayGoOn: () => this.#hands.mayGoOn() },
        outbound: [...outbound.values()].sort((a, b) => a.n - b.n),
        note: ({ n, name, hash, answer }) => {
          this.#ended.signal.throwIfAborted();
          this.#append({ type: "command.outbound", command: id, node, n, name, hash, answer });
          return outbound.get(n)!;
        },
      });
    } catch (error) {
      if (!this.isOver && ++this.#jobs.get(id)!.failed < MAX_BEGUN) throw error;
      came = { error: NOTHING };
    }
    this.#inFlight.delete(id);
    this.#jobs.delete(id);
    if (!this.isOver) {
      if (came) this.#came(id, came);
      this.#hands.runAt(this.#hands.now());
    } else if (sending.handed_to) {
      // Its end has said what became of the command, and nobody is to work on it.
      this.#hands.letGo(sending.handed_to);
    }
    if (this.#said) this.#hands.runLook();
  }

  #came(id: string, came: Came): void {
    const { handed_to } = commandOf(this.#state, id)!;
    this.#append(this.#toldOf(id, came));
    // Whoever worked has ended by itself; nobody else ends a wait.
    if (handed_to && isId("event_wait", handed_to) && !commandOf(this.#state, id)) this.#hands.letGo(handed_to);
  }

  /** What is written down of it. */
  #toldOf(id: string, came: Came): RunEvent {
    const { node, key, faults } = commandOf(this.#state, id)!;
    const of = { command: id, node };
    const failed = (error: string): RunEvent => ({ type: "command.failed", ...of, error: error.slice(0, MAX_ERROR) });
    if ("unknown" in came) return { type: "command.unknown", ...of };
    if ("later" in came) return { type: "command.waiting", ...of, until: came.until };
    if ("error" in came) return failed(came.error);
    if ("passing" in came) {
      const delay = RETRY_MS[faults];
      if (faults + 1 >= this.#attemptsOf(key) || delay === undefined) return failed(came.passing);
      const until = new Date(this.#hands.now() + delay).toISOString();
      return { type: "command.retrying", ...of, error: came.passing.slice(0, MAX_ERROR), until };
    }
    const result = came.ok ?? null;
    if (!isWithinAsJson(result, MAX_GIVEN)) return failed(`what it gave has more than ${MAX_GIVEN} bytes`);
    return { type: "command.completed", ...of, result };
  }

  #attemptsOf(key: string): number {
    const next = this.#program?.next(this.#told);
    return next?.do === "ask" ? (next.asks.find((ask) => ask.key === key)?.attempts ?? 1) : 1;
  }

  #complete(given: Json): void {
    const whole: Record<string, unknown> = isMap(given) ? given : { value: given };
    const { structured, ...rest } = whole;
    const isPreset = this.#pinned!.handler === "preset";
    const structured_response = isPreset && isMap(structured) ? structured : null;
    const result = isPreset ? rest : whole;
    const isLong = [result, structured_response].some((said) => said && !isWithinAsJson(said, MAX_RESULT));
    if (isLong) return void this.#fail(`the result has more than ${MAX_RESULT} bytes`);
    this.#end(
      { type: "run.result", result, structured_response },
      { type: "run.status", status: "completed", reason: null },
    );
  }

  #fail(error: string): void {
    this.#end({ type: "run.status", status: "failed", reason: error.slice(0, MAX_ERROR) });
  }

  /** The last that is written, at once. A command that is under way gets its end first: `once` may have happened. */
  #end(...events: RunEvent[]): void {
    const handedTo = this.handedTo;
    const open = [...this.#state.commands.values()].flatMap(({ id, node, outcome, effect }): RunEvent[] => {
      if (outcome === "unknown") return [];
      if (effect === "once" && this.#inFlight.has(id)) return [{ type: "command.unknown", command: id, node }];
      return [{ type: "command.failed", command: id, node, error: "the run has ended" }];
    });
    this.#append(...open, ...events);
    this.abandon();
    for (const one of handedTo) this.#hands.letGo(one);
  }

  // -------------------------------------------------------------------------------------------------------
  // What is written down

  #append(...events: RunEvent[]): void {
    const frames = this.#journal.append(
      events.map((event) => this.#masked(event)),
      this.#hands.now(),
    ) as RunFrame[];
    for (const frame of frames) this.#fold(frame);
    this.#hands.told(frames);
  }

  /** Without the agent's secrets wherever somebody else chose the text. */
  #masked(event: RunEvent): RunEvent {
    const { mask } = this.#hands;
    switch (event.type) {
      case "command.outbound":
        return { ...event, answer: mask(event.answer) };
      case "command.completed":
        return { ...event, result: mask(event.result) };
      case "command.retrying":
      case "command.failed":
        return { ...event, error: mask(event.error) };
      case "approval.decided":
        return { ...event, note: mask(event.note) };
      case "run.result": {
        const { result, structured_response } = event;
        return { ...event, ...mask({ result, structured_response }) };
      }
      case "run.status":
        return { ...event, reason: mask(event.reason) };
      default:
        return event;
    }
  }

  #fold(frame: RunFrame): void {
    this.#at = Date.parse(frame.at);
    const key = "command" in frame ? commandOf(this.#state, frame.command)?.key : undefined;
    this.#note(frame);
    this.#state = fold(this.#state, frame);
    if (this.isOver || key === undefined || !this.#program) return;
    if (frame.type === "command.completed") {
      this.#told = this.#program.take(this.#told, key, { ok: frame.result as Json });
    }
    if (frame.type === "command.failed") this.#told = this.#program.take(this.#told, key, { error: frame.error });
  }

  /** What is told of the run, and of its commands. */
  #note(frame: RunFrame): void {
    const facts = this.#facts;
    const ledger = "command" in frame ? this.#ledgers.get(frame.command) : undefined;
    switch (frame.type) {
      case "run.status":
        this.#noteStatus(frame);
        break;
      case "run.result":
        Object.assign(facts, { result: frame.result, structured_response: frame.structured_response });
        break;
      case "command.requested":
        for (const [id, { completed_at }] of this.#ledgers) if (completed_at) this.#ledgers.delete(id);
        this.#ledgers.set(frame.command, {
          ...{ id: frame.command as Id<"tool_call">, key: frame.key, node: frame.node, kind: frame.kind },
          ...{ arguments: frame.arguments, arguments_hash: frame.arguments_hash, effect: frame.effect },
          ...{ outcome: "pending", error: null, attempts: 0, requested_at: frame.at, started_at: null },
          ...{ completed_at: null, outbound: new Map() },
        });
        break;
      case "command.called":
        Object.assign(facts, {
          worker_status: "executing",
          attempt: Math.max(1, commandOf(this.#state, frame.command)!.faults + 1),
        });
        if (ledger) Object.assign(ledger, { outcome: "running", attempts: frame.attempt, error: null });
        if (ledger) ledger.started_at ??= frame.at;
        break;
      case "command.outbound": {
        const { n, name, hash, answer, at } = frame;
        ledger?.outbound.set(n, { n, name, hash, answer: answer as Outbound["answer"], at });
        break;
      }
      case "command.retrying":
        facts.worker_status = "retrying";
        if (ledger) Object.assign(ledger, { outcome: "pending", error: frame.error });
        // What passed was the answer to its last call, which is made anew.
        ledger?.outbound.delete(Math.max(...ledger.outbound.keys()));
        break;
      case "command.unknown":
        if (ledger) ledger.outcome = "unknown";
        break;
      case "command.resolved":
        if (frame.outcome === "retry" && ledger) ledger.outcome = "pending";
        // What was open of its script is made anew: somebody has said so.
        for (const { n, answer } of ledger?.outbound.values() ?? []) if (answer === null) ledger?.outbound.delete(n);
        break;
      case "approval.requested":
        if (ledger) ledger.outcome = "awaiting_approval";
        break;
      case "approval.decided":
        if (ledger && !frame.approved) ledger.outcome = "denied";
        break;
      case "command.completed":
      case "command.failed":
        this.#given.delete(frame.command);
        if (!ledger) break;
        if (frame.type === "command.failed") Object.assign(ledger, { outcome: "failed", error: frame.error });
        else if (ledger.outcome !== "denied") Object.assign(ledger, { outcome: "succeeded", error: null });
        ledger.completed_at = frame.at;
        ledger.outbound = new Map();
        break;
    }
  }

  #noteStatus({ status, reason, at }: Extract<RunFrame, { type: "run.status" }>): void {
    const facts = this.#facts;
    if (status === "running") {
      facts.started_at ??= at;
      Object.assign(facts, { worker_status: "executing", attempt: Math.max(1, facts.attempt) });
    }
    if (!isTerminal(status)) return;
    facts.completed_at = at;
    facts.worker_status = status === "completed" ? "completed" : status === "failed" ? "discarded" : "cancelled";
    if (status === "failed") facts.result = { error: reason };
    if (status === "skipped") facts.result = { reason };
  }
}
