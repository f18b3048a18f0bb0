/**
 * A session at work: it asks the loop what to do next, does that one thing, and writes down what came of it. All that it
 * knows is in its journal; all that it reaches outside of it are its hands. Whoever owns it runs it again after a crash.
 */
import { faultOf } from "../configs/json-schema.ts";
import type { CallOutcome, Effect, SessionStatus } from "../db/schema.ts";
import { isWithin, isWithinAsJson } from "../http/valid.ts";
import { type Id, newId } from "../ids.ts";
import type { Journal } from "../journal/journal.ts";
import { jsonHash, ModelError, requestHash, type StepEvent, type StepRequest } from "../model/index.ts";
import { PACE } from "../motion/pace.ts";
import type { OfferedTool, Outbound, PinnedAgent, ToolAnswer, ToolAsk } from "../tools/calls.ts";
import type { InboxMessage, SessionEvent, SessionFrame } from "./frames.ts";
import { begun, type Call, fold, isTerminal, next, type SessionLimits, type SessionState, statusAt } from "./loop.ts";
import { Conversation, requestOf } from "./prompt.ts";
import type { NewMessage, Refused, Resolution, Sender, SessionRow, SessionView } from "./remote.ts";

/** Messages that may wait for a turn. */
export const MAX_INBOX = 1_000;
const SHOWN_INBOX = 100;
/** Of a conversation, in characters of JSON: a prompt beyond it is no model's. */
export const MAX_PROMPT = 4_000_000;
/** Of a session's result, in bytes of JSON. */
export const MAX_RESULT = 65_536;
/** Pieces of an answer that come within so many milliseconds are one frame. */
const DELTA_MS = 25;
/** How often a model call is begun anew where its answer broke off. */
const MAX_ATTEMPTS = 3;
/** How often at all: whatever ends the process each time, it isn't asked for ever. */
const MAX_BEGUN = 100;
/** Lists of tools that are kept for the tape. */
const MAX_OFFERS = 10;
/** For so long a message's key is known. */
const KEY_MS = 24 * 3_600_000;

/** All that a session reaches. What these throw is no tool's and no model's doing: the session goes on later. */
export type Hands = {
  now(): number;
  newCall(): Id<"tool_call">;
  /** The agent as it is now; null where it is gone. Asks the database, so that whoever `mayGoOn` then needn't. */
  pin(): Promise<PinnedAgent | null>;
  /** Whether a step may be taken: not while the org is suspended. */
  mayGoOn(): Promise<boolean>;
  offered(agent: PinnedAgent, signal: AbortSignal): Promise<OfferedTool[]>;
  /** The name of the model that is asked, and its answer. Throws a ModelError, or the signal's reason. */
  model(agent: PinnedAgent): string;
  step(agent: PinnedAgent, request: StepRequest, signal: AbortSignal): AsyncIterable<StepEvent>;
  call(agent: PinnedAgent, tool: OfferedTool, ask: ToolAsk): Promise<ToolAnswer>;
  /** A value without the agent's secrets. */
  mask<T>(value: T): T;
  /** Frames were written: somebody may wait for them. */
  told(frames: SessionFrame[]): void;
  /** It is to be run again, at the latest then. */
  runAt(instant: number): void;
  /** An async call is to be made, beside what the session does. */
  runCall(call: string): void;
};

type Offer = { turn: number; tools: OfferedTool[] };
export type Pinned = { agent: PinnedAgent; offers: Offer[] };

/** A call, as it is told outside. Its outcome is the loop's to say. */
export type CallFacts = {
  id: Id<"tool_call">;
  name: string;
  turn: number;
  arguments: Record<string, unknown>;
  /** Hexadecimal SHA-256, whatever the order of keys. */
  arguments_hash: string;
  effect: Effect | null;
  outcome: CallOutcome;
  error: string | null;
  attempts: number;
  requested_at: string;
  started_at: string | null;
  completed_at: string | null;
};
type Ledger = Omit<CallFacts, "outcome" | "attempts" | "effect"> & { outbound: Map<number, Outbound> };

const refused = (status: Refused["refused"]["status"], code: string, message: string): Refused => ({
  refused: { status, code, message },
});

export class Session {
  readonly row: SessionRow;
  readonly #journal: Journal<SessionEvent>;
  readonly #hands: Hands;
  readonly #limits: SessionLimits;
  readonly #inFlight = new Set<string>();
  /** Async calls that this process makes. */
  readonly #jobs = new Map<string, () => Promise<void>>();
  readonly #calls = new Map<string, Ledger>();
  /** Hashes of arguments, where they were reckoned before the calls were written down. */
  readonly #hashes = new Map<string, string>();
  #pinned: Pinned | null = null;
  /** The tools of the newest turn, as JSON. */
  #offered = "";
  readonly conversation: Conversation;
  #state: SessionState = begun();
  #facts: Omit<SessionView, "inbox" | "status"> = { started_at: null, completed_at: null, error: null, result: null };
  #attempt = { turn: 0, count: 0 };
  /** When the newest thing happened. */
  #at = 0;
  /** Where the deltas of finished turns lie that were not folded yet. */
  #foldable: { from: number; to: number }[] = [];
  #model: AbortController | null = null;
  readonly #ended = new AbortController();

  /** The session of a journal, as it was left. */
  constructor(row: SessionRow, journal: Journal<SessionEvent>, hands: Hands) {
    this.row = row;
    this.#journal = journal;
    this.#hands = hands;
    const { max_turns, max_tokens, on_idle, start_idle } = row;
    this.#limits = { max_turns, max_tokens, on_idle, start_idle };
    this.conversation = new Conversation(row.instructions);
    for (let after = 0; ; ) {
      const frames = journal.after(after);
      if (!frames.length) break;
      for (const frame of frames) this.take(frame);
      after = frames.at(-1)!.sequence;
    }
  }

  get status(): SessionStatus {
    return this.#state.status;
  }

  /** Until when the step that it is at may take, in milliseconds; null: it waits for somebody, or is over. */
  get due(): number | null {
    const step = next(this.#state, this.#limits, this.#inFlight, this.#hands.now());
    if (step.do === "nothing") return null;
    if (this.#inFlight.size) return this.#at + PACE.step;
    if (step.do !== "wait") return this.#at + PACE.late;
    return step.until === null ? null : Date.parse(step.until) + PACE.late;
  }

  /** The first things that are written of it, once: answers whether that is now. */
  begin(): boolean {
    if (this.#journal.last) return false;
    this.#append({ type: "session.status", status: "pending", error: null });
    if (this.row.start_idle) this.#append({ type: "session.status", status: "waiting", error: null });
    return true;
  }

  view(and?: InboxMessage): SessionView {
    const waiting = [...this.conversation.inbox.values()].slice(0, SHOWN_INBOX);
    const inbox = and && !waiting.some(({ id }) => id === and.id) ? [...waiting, and] : waiting;
    return { status: this.status, ...this.#facts, inbox };
  }

  /** What is told of a call; null where it isn't known any more. */
  factsOf(id: string): CallFacts | null {
    const ledger = this.#calls.get(id);
    const call = this.#state.calls.find((one) => one.id === id);
    if (!ledger || !call) return null;
    const { outbound: _, ...facts } = ledger;
    const { outcome, attempts, effect } = call;
    return { ...facts, outcome, attempts, effect };
  }

  /** The agent and the tools that it goes by; null before its first step. */
  get pinned(): Pinned | null {
    this.#pinned ??= this.#journal.kept<Pinned>("pinned");
    return this.#pinned;
  }

  #pin(pinned: Pinned): void {
    this.#pinned = pinned;
    this.#journal.keep("pinned", pinned);
  }

  // -------------------------------------------------------------------------------------------------------
  // What others say

  /** Takes a message in. The same key again is the same message, whatever has become of it. */
  message({ role, content, metadata, sender, on_busy, key }: NewMessage, keys: MessageKeys): SessionView | Refused {
    const known = key && keys.find(key.subject, key.key);
    if (known) {
      if (!key.fingerprints.includes(known.fingerprint)) {
        return refused(422, "idempotency_key_reused", "The Idempotency-Key was already used for another request.");
      }
      return this.view(known.message);
    }
    if (isTerminal(this.status))
      return refused(422, "session_ended", `The session is ${this.status}: it takes no more messages.`);
    if (on_busy === "reject" && this.status === "running") {
      return refused(409, "session_busy", "The session is running, and the message asked not to wait.");
    }
    // What a prompt couldn't hold would only fill the memory of the isolate.
    const fits = this.conversation.waiting + content.length <= MAX_PROMPT;
    if (this.conversation.inbox.size >= MAX_INBOX || !fits) {
      return refused(
        429,
        "inbox_full",
        `${this.conversation.inbox.size} messages wait already. Send more when the session has taken some.`,
      );
    }
    const now = this.#hands.now();
    const message: InboxMessage = {
      ...{ id: newMessageId(), role, ...this.#hands.mask({ content, metadata }) },
      ...{ sender_id: sender.id, sender_type: sender.type, sent_at: new Date(now).toISOString() },
    };
    this.#append({ type: "message.received", message, on_busy });
    if (key) {
      const { subject, fingerprints } = key;
      keys.keep({ subject, key: key.key, fingerprint: fingerprints[0]!, message, at: now }, now - KEY_MS);
    }
    if (on_busy === "interrupt") this.#model?.abort(new Interrupted());
    this.#hands.runAt(now);
    return this.view(message);
  }

  /** Ends it: what it asked of a model or a tool is let go. Once it has ended, nothing changes. */
  cancel(): SessionView {
    if (isTerminal(this.status)) return this.view();
    this.#end({ type: "session.status", status: "cancelled", error: null });
    return this.view();
  }

  /** What a person says of a call that waits for it. */
  decide(
    call: string,
    {
      approved,
      arguments_hash,
      note,
      by,
    }: { approved: boolean; arguments_hash: string; note: string | null; by: Sender },
  ): SessionView | Refused {
    const { ledger, refusal } = this.#waitingFor(call, "awaiting_approval", "approval");
    if (refusal) return refusal;
    if (ledger.arguments_hash !== arguments_hash) {
      return refused(409, "arguments_differ", "The call has other arguments than those that were looked at.");
    }
    this.#append({ type: "approval.decided", call, name: ledger.name, approved, note, by });
    this.#hands.runAt(this.#hands.now());
    return this.view();
  }

  /** What a person knows of a call whose outcome is unknown. */
  resolve(call: string, { by, ...resolution }: Resolution & { by: Sender }): SessionView | Refused {
    const { ledger, refusal } = this.#waitingFor(call, "unknown", "word of its outcome");
    if (refusal) return refusal;
    const { name } = ledger;
    const { outcome } = resolution;
    const told: Draft[] = [{ type: "tool.resolved", call, name, outcome, by }];
    if (outcome === "happened") {
      const given = resolution.result;
      const result =
        typeof given === "string"
          ? { content: given, resolution: null }
          : {
              content: given === undefined ? "It happened; its result is not known." : null,
              resolution: given ?? null,
            };
      told.push({ type: "tool.completed", call, name, result, message: null, duration_ms: 0 });
    }
    if (outcome === "give_up") {
      const error = "nobody knows whether the call took effect: don't assume either, and don't repeat it";
      told.push({ type: "tool.failed", call, name, error, duration_ms: 0 });
    }
    this.#append(...told);
    this.#hands.runAt(this.#hands.now());
    return this.view();
  }

  #waitingFor(id: string, outcome: CallOutcome, word: string) {
    const ledger = this.#calls.get(id);
    if (!ledger) return { refusal: refused(404, "not_found", "There is no such tool call.") };
    const call = this.#state.calls.find((one) => one.id === id);
    if (isTerminal(this.status) || call?.outcome !== outcome) {
      return { refusal: refused(409, "not_waiting", `The call doesn't wait for ${word}.`) };
    }
    return { ledger };
  }

  /** Lets go of what is under way, and writes nothing more. */
  abandon(): void {
    const reason = new Error("the session is gone");
    this.#model?.abort(reason);
    this.#ended.abort(reason);
  }

  // -------------------------------------------------------------------------------------------------------
  // What it does

  /** Goes on as far as it can. Never twice at a time. */
  async run(): Promise<void> {
    let agent = this.pinned?.agent ?? null;
    for (;;) {
      const step = next(this.#state, this.#limits, this.#inFlight, this.#hands.now());
      const status = statusAt(step, this.#inFlight);
      if (step.do === "nothing") return;
      if (step.do === "wait") {
        if (status && status !== this.status) this.#append({ type: "session.status", status, error: null });
        if (step.until) this.#hands.runAt(Date.parse(step.until));
        return;
      }
      if (step.do === "complete") return this.#complete({ output: cutTo(step.output) });
      if (step.do === "fail") return this.#fail(step.limit, step.error);
      const found = agent ?? (await this.#hands.pin());
      // Suspended: it keeps its status, and whoever lifts it, or the sweep, runs it again, as its agent is by then.
      if (!(await this.#hands.mayGoOn())) return;
      if (isTerminal(this.status)) return;
      if (!found)
        return this.#end({ type: "session.status", status: "failed", error: "agent_gone: its agent was deleted" });
      if (!agent) this.#pin({ agent: found, offers: [] });
      agent = found;
      if (status && status !== this.status) this.#append({ type: "session.status", status, error: null });
      switch (step.do) {
        case "call_model":
          await this.#callModel(agent, step.turn);
          break;
        case "call_tool":
          await this.#callTool(agent, step.call);
          break;
        case "lose":
          // A script's calls are each in the ledger: while none of them is open, it goes on after the last.
          if (this.#resumes(step.call)) await this.#callTool(agent, step.call);
          else this.#append({ type: "tool.unknown", call: step.call.id, name: step.call.name });
          break;
        case "answer_wait":
          this.#answerWait(step.call, step.message);
          break;
      }
    }
  }

  /** An async call, whose turn it is. One of another process isn't known here: the loop has begun it anew, or lost it. */
  async runCall(call: string): Promise<void> {
    await this.#jobs.get(call)?.();
  }

  async #callModel(agent: PinnedAgent, turn: number): Promise<void> {
    const count = this.#attempt.turn === turn ? this.#attempt.count + 1 : 1;
    const inbox = this.#state.inbox.at(-1) ?? this.#state.taken;
    const abort = new AbortController();
    this.#model = abort;
    this.#inFlight.add("model");
    const written = { from: 0, to: 0 };
    const buffer = new Deltas((delta) => {
      if (isTerminal(this.status)) return;
      const [frame] = this.#append(delta);
      written.from ||= frame!.sequence;
      written.to = frame!.sequence;
    });
    try {
      const tools = await this.#offer(agent, turn, abort.signal);
      this.conversation.join(inbox);
      if (this.conversation.size > MAX_PROMPT) {
        return this.#fail("prompt", `prompt: the conversation has more than ${MAX_PROMPT} characters`);
      }
      const left = Math.max(1, this.row.max_tokens - this.#state.tokens);
      const request = requestOf(agent, this.conversation, tools, left, this.#hands.mask);
      if (count > MAX_BEGUN) throw new ModelError("model_unavailable", `The call was begun ${MAX_BEGUN} times.`);
      const model = this.#hands.model(agent);
      const request_hash = await requestHash(request);
      abort.signal.throwIfAborted();
      const prompt = { messages: request.messages.length, characters: this.conversation.size };
      this.#append({ type: "model.started", model, prompt, inbox, attempt: count, request_hash, turn });
      for await (const event of this.#hands.step(agent, request, abort.signal)) {
        if (event.type !== "completed") {
          const name = event.type === "arguments" ? event.name : null;
          buffer.take({ part: event.part, kind: event.type, name, delta: event.delta });
          continue;
        }
        buffer.flush();
        await this.#answered(model, event, written.to ? written : null, abort.signal);
      }
    } catch (error) {
      buffer.flush();
      // Its message is in the inbox, and the turn begins anew with it. Ended, there is nothing more to say.
      if (error instanceof Interrupted || isTerminal(this.status)) return;
      if (!(error instanceof ModelError)) throw error;
      if (error.retryable && error.streamed && count < MAX_ATTEMPTS) return;
      this.#end({ type: "session.status", status: "failed", error: `${error.code}: ${error.message}` });
    } finally {
      buffer.end();
      this.#inFlight.delete("model");
      this.#model = null;
    }
  }

  /** What the model said. The calls that it asks for get ids of ours: a provider's are unique to it at best. */
  async #answered(
    model: string,
    { message, usage, finish_reason, unreadable_arguments }: Completed,
    deltas: { from: number; to: number } | null,
    signal: AbortSignal,
  ): Promise<void> {
    const calls = (message.tool_calls ?? []).map((call) => ({
      ...{ ...call, id: this.#hands.newCall(), arguments: this.#hands.mask(call.arguments) },
      theirs: call.id,
    }));
    const hashes = await Promise.all(calls.map((call) => jsonHash(call.arguments)));
    signal.throwIfAborted();
    for (const [i, { id }] of calls.entries()) this.#hashes.set(id, hashes[i]!);
    const provider_ids = Object.fromEntries(calls.map(({ id, theirs }) => [id, theirs]));
    const unreadable = Object.fromEntries(
      calls.flatMap(({ id, theirs }) => (unreadable_arguments[theirs] ? [[id, unreadable_arguments[theirs]]] : [])),
    );
    const tool_calls = message.tool_calls && calls.map(({ theirs: _, ...call }) => call);
    const told = { ...message, tool_calls } as Extract<SessionEvent, { type: "model.completed" }>["message"];
    const drafts: Draft[] = [
      {
        ...{ type: "model.completed", model, message: told, usage, finish_reason, provider_ids },
        ...{ unreadable_arguments: unreadable, deltas },
      },
    ];
    const most = this.row.max_runs_per_turn;
    if (calls.length > most) {
      const error = `max_runs_per_turn: ${calls.length} tool calls were asked for at once, of at most ${most}`;
      drafts.push({ type: "limit.reached", limit: "max_runs_per_turn", error });
    }
    for (const [i, { id, name }] of calls.entries()) {
      const error = i >= most ? `a turn makes at most ${most} tool calls: ask again in the next` : unreadable[id];
      if (error) drafts.push({ type: "tool.failed", call: id, name, error, duration_ms: 0 });
    }
    const folding = this.#foldable;
    this.#append(...drafts);
    for (const { from, to } of folding) this.#journal.fold("model.delta", from, to);
    this.#foldable = deltas ? [deltas] : [];
  }

  /** The tools of a turn; where they aren't those of the last one, they are kept for the tape. */
  async #offer(agent: PinnedAgent, turn: number, signal: AbortSignal): Promise<OfferedTool[]> {
    const tools = await this.#hands.offered(agent, signal);
    const { offers } = this.pinned!;
    this.#offered ||= JSON.stringify(offers.at(-1)?.tools ?? null);
    const offered = JSON.stringify(tools);
    if (offered !== this.#offered) {
      // A server whose list changes again and again would fill the store: the tape then lacks the oldest.
      this.#pin({ agent, offers: [...offers, { turn, tools }].slice(-MAX_OFFERS) });
      this.#offered = offered;
    }
    return tools;
  }

  async #callTool(agent: PinnedAgent, { id, name, approved, attempts }: Call): Promise<void> {
    const ledger = this.#calls.get(id)!;
    const given = ledger.arguments;
    const tool = this.#toolNamed(name);
    const fail = (error: string) => this.#append({ type: "tool.failed", call: id, name, error, duration_ms: 0 });
    if (!tool) return void fail(`there is no tool ${name.slice(0, 64)}`);
    const fault = faultOf(tool.parameters, given, "the arguments");
    if (fault) return void fail(fault);
    ledger.arguments_hash ||= await jsonHash(given);
    if (isTerminal(this.status)) return;
    const about = { call: id, name, arguments: given, arguments_hash: ledger.arguments_hash };
    if (tool.approval === "required" && !approved) return void this.#append({ type: "approval.requested", ...about });
    const own = tool.handler.type === "builtin" ? tool.handler.function : null;
    if (own === "finish") return this.#finish(id, tool, given);
    const waits = own === "ask_user" ? { message: true, until: null } : own === "wait" ? this.#waitOf(given) : null;
    const begun: Draft = {
      ...{ type: "tool.called", ...about, effect: tool.effect, idempotency_key: id },
      ...{ attempt: attempts + 1, async: tool.async && !waits, waits },
    };
    this.#append(begun);
    if (waits) return;
    const make = () => this.#make(agent, tool, id, attempts + 1);
    this.#inFlight.add(id);
    if (!tool.async) return make();
    this.#jobs.set(id, make);
    this.#hands.runCall(id);
  }

  /** Makes a call that is written down as begun. What isn't the tool's doing flies on, and the loop knows what then. */
  async #make(agent: PinnedAgent, tool: OfferedTool, id: string, attempt: number): Promise<void> {
    const { name, arguments: given, started_at, outbound } = this.#calls.get(id)!;
    const started = this.#hands.now();
    try {
      const answer = await this.#hands.call(agent, tool, {
        ...{
          call: id,
          attempt,
          idempotency_key: id,
          arguments: given,
          begun_at: started_at!,
          signal: this.#ended.signal,
        },
        outbound: [...outbound.values()].sort((a, b) => a.n - b.n),
        note: ({ n, name, hash, answer }) => {
          this.#ended.signal.throwIfAborted();
          this.#append({ type: "tool.outbound", call: id, n, name, hash, answer });
          return outbound.get(n)!;
        },
      });
      // Ended meanwhile: its end has said what became of the call.
      if (isTerminal(this.status)) return;
      const duration_ms = Math.max(0, this.#hands.now() - started);
      if ("unknown" in answer) this.#append({ type: "tool.unknown", call: id, name });
      else if ("error" in answer)
        this.#append({ type: "tool.failed", call: id, name, error: answer.error, duration_ms });
      else
        this.#append({
          type: "tool.completed",
          call: id,
          name,
          result: { ...answer.ok, resolution: answer.ok.resolution ?? null },
          message: null,
          duration_ms,
        });
    } catch (error) {
      if (!isTerminal(this.status)) throw error;
    } finally {
      this.#inFlight.delete(id);
      if (this.#jobs.delete(id)) this.#hands.runAt(this.#hands.now());
    }
  }

  #toolNamed(name: string): OfferedTool | undefined {
    return this.pinned?.offers.at(-1)?.tools.find((tool) => tool.name === name);
  }

  /** Whether a script may go on where another process left it: none of the calls that it made is open. */
  #resumes({ id, name }: Call): boolean {
    const made = [...(this.#calls.get(id)?.outbound.values() ?? [])];
    return this.#toolNamed(name)?.handler.type === "script" && made.every(({ answer }) => answer !== null);
  }

  #waitOf({ seconds, until_message }: { seconds?: number; until_message?: boolean }) {
    const until = seconds === undefined ? null : new Date(this.#hands.now() + seconds * 1000).toISOString();
    return { message: until_message === true || until === null, until };
  }

  #answerWait({ id, name }: Call, sequence: number | null): void {
    const said = sequence === null ? null : this.conversation.inbox.get(sequence);
    const result = { content: said ? said.content : "The time is over.", resolution: null };
    this.#append({ type: "tool.completed", call: id, name, result, message: sequence, duration_ms: 0 });
  }

  #finish(id: string, { name }: OfferedTool, given: Record<string, unknown>): void {
    const { result_schema } = this.row;
    const result = given.result as Record<string, unknown>;
    const isLong = !isWithinAsJson(result, MAX_RESULT);
    const long = isLong ? `the result has more than ${MAX_RESULT} bytes` : null;
    const error = long ?? (result_schema && faultOf(result_schema, result, "the result"));
    if (error) return void this.#append({ type: "tool.failed", call: id, name, error, duration_ms: 0 });
    const ok = { content: "finished", resolution: null };
    this.#complete(result, { type: "tool.completed", call: id, name, result: ok, message: null, duration_ms: 0 });
  }

  #complete(result: Record<string, unknown>, ...last: Draft[]): void {
    this.#end(
      ...last,
      { type: "session.result", result },
      { type: "session.status", status: "completed", error: null },
    );
  }

  #fail(limit: Extract<SessionEvent, { type: "limit.reached" }>["limit"], error: string): void {
    this.#end({ type: "limit.reached", limit, error }, { type: "session.status", status: "failed", error });
  }

  /** The last that is written, at once. A call that is under way gets its end first: `once` may have happened, the rest is over. */
  #end(...drafts: Draft[]): void {
    const open = this.#state.calls.flatMap(({ id, name, outcome, effect }): Draft[] => {
      if (!["pending", "awaiting_approval", "running", "accepted"].includes(outcome)) return [];
      if (drafts.some((draft) => "call" in draft && draft.call === id)) return [];
      if (effect === "once" && this.#inFlight.has(id)) return [{ type: "tool.unknown", call: id, name }];
      return [{ type: "tool.failed", call: id, name, error: "the session has ended", duration_ms: 0 }];
    });
    this.#append(...open, ...drafts);
    this.abandon();
  }

  // -------------------------------------------------------------------------------------------------------
  // What is written down

  #append(...drafts: Draft[]): SessionFrame[] {
    const events = drafts.map((draft) => this.#masked({ turn: this.#state.turn, ...draft } as SessionEvent));
    const frames = this.#journal.append(events, this.#hands.now()) as SessionFrame[];
    for (const frame of frames) this.take(frame);
    this.#hands.told(frames);
    return frames;
  }

  /** Without the agent's secrets wherever somebody else chose the text. What a provider wants to see again stays. */
  #masked(event: SessionEvent): SessionEvent {
    const { mask } = this.#hands;
    switch (event.type) {
      case "model.delta":
        return { ...event, delta: mask(event.delta) };
      case "model.completed": {
        const { content, content_parts, structured_output } = event.message;
        return { ...event, message: { ...event.message, ...mask({ content, content_parts, structured_output }) } };
      }
      case "tool.outbound":
        return { ...event, answer: mask(event.answer) };
      case "tool.completed":
        return { ...event, result: mask(event.result) };
      case "tool.failed":
        return { ...event, error: mask(event.error) };
      case "approval.decided":
        return { ...event, note: mask(event.note) };
      case "session.result":
        return { ...event, result: mask(event.result) };
      case "session.status":
        return { ...event, error: mask(event.error) };
      default:
        return event;
    }
  }

  take(frame: SessionFrame): void {
    const before = this.#state.turn;
    this.#at = Date.parse(frame.at);
    this.#state = fold(this.#state, frame as never, frame.sequence);
    this.conversation.take(frame);
    switch (frame.type) {
      case "session.status":
        if (frame.status !== "pending") this.#facts.started_at ??= frame.at;
        if (isTerminal(frame.status)) this.#facts.completed_at = frame.at;
        this.#facts.error = frame.error;
        break;
      case "session.result":
        this.#facts.result = frame.result;
        break;
      case "model.started":
        this.#attempt = { turn: frame.turn, count: frame.attempt };
        if (frame.turn !== before) for (const id of this.#calls.keys()) if (!this.#isOpen(id)) this.#calls.delete(id);
        break;
      case "model.completed":
        if (frame.deltas) this.#foldable = [frame.deltas];
        for (const { id, name, arguments: given } of frame.message.tool_calls ?? []) {
          this.#calls.set(id, {
            ...{ id: id as Id<"tool_call">, name, turn: frame.turn, arguments: given },
            ...{ arguments_hash: this.#hashes.get(id) ?? "", error: null, outbound: new Map() },
            ...{ requested_at: frame.at, started_at: null, completed_at: null },
          });
          this.#hashes.delete(id);
        }
        break;
      case "approval.requested":
        this.#note(frame.call, { arguments_hash: frame.arguments_hash });
        break;
      case "tool.called":
        this.#note(frame.call, { arguments_hash: frame.arguments_hash });
        this.#note(frame.call, { started_at: this.#calls.get(frame.call)?.started_at ?? frame.at });
        break;
      case "tool.completed":
        this.#note(frame.call, { completed_at: frame.at, error: null, outbound: new Map() });
        break;
      case "tool.failed":
        this.#note(frame.call, { completed_at: frame.at, error: frame.error, outbound: new Map() });
        break;
      case "tool.resolved": {
        // What was open of its script is made anew: somebody has said so.
        const outbound = this.#calls.get(frame.call)?.outbound;
        for (const { n, answer } of outbound?.values() ?? []) if (answer === null) outbound?.delete(n);
        break;
      }
      case "tool.outbound": {
        const { n, name, hash, answer, at } = frame;
        this.#calls.get(frame.call)?.outbound.set(n, { n, name, hash, answer: answer as Outbound["answer"], at });
        break;
      }
    }
  }

  #note(id: string, facts: Partial<Ledger>): void {
    const ledger = this.#calls.get(id);
    if (ledger) Object.assign(ledger, facts);
  }

  #isOpen(id: string): boolean {
    return this.#state.calls.some((call) => call.id === id);
  }
}

type Draft = SessionEvent extends infer E
  ? E extends { turn: number }
    ? Omit<E, "turn"> & { turn?: number }
    : never
  : never;
type Completed = Extract<StepEvent, { type: "completed" }>;

/** The keys under which messages came: `find` those of a day, `keep` one and forget what is older. */
export type MessageKeys = {
  find(subject: string, key: string): { fingerprint: string; message: InboxMessage } | null;
  keep(
    key: { subject: string; key: string; fingerprint: string; message: InboxMessage; at: number },
    before: number,
  ): void;
};

/** Why a model's answer is let go: somebody has said something that it should know. */
class Interrupted extends Error {}

type Delta = Pick<Extract<SessionEvent, { type: "model.delta" }>, "part" | "kind" | "name" | "delta">;

/** Pieces of an answer, of which those that come close together are one. */
class Deltas {
  readonly #write: (draft: Draft) => void;
  #held: Delta | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(write: (draft: Draft) => void) {
    this.#write = write;
  }

  take(delta: Delta) {
    const held = this.#held;
    if (held && held.part === delta.part && held.kind === delta.kind) {
      held.delta += delta.delta;
      return;
    }
    this.flush();
    this.#held = { ...delta };
    this.#timer = setTimeout(() => this.flush(), DELTA_MS);
  }

  flush() {
    clearTimeout(this.#timer);
    const held = this.#held;
    this.#held = null;
    if (held) this.#write({ type: "model.delta", ...held });
  }

  end() {
    clearTimeout(this.#timer);
    this.#held = null;
  }
}

/** The text, or as much of it as a result may have: of the longest letters, each escaped. */
function cutTo(text: string): string {
  if (isWithin(JSON.stringify({ output: text }), MAX_RESULT)) return text;
  const note = `… (the first ${MAX_RESULT / 8} of ${text.length} characters)`;
  return text.slice(0, MAX_RESULT / 8).toWellFormed() + note;
}

/** An id of what is a row nowhere. */
const newMessageId = () => newId("agent_session").replace(/^[^_]+/, "msg");
