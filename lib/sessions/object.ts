/**
 * A session's own object: the only writer of its journal. It owns the session at work, lends it the hands that reach the
 * database, models and tools, and sees to it that Postgres hears of what happened.
 */
import { type Row, real, type SessionStatus } from "../db/schema.ts";
import { type Bindings, modelsOf } from "../env.ts";
import { readSecrets } from "../env-vars/queries.ts";
import { type Id, newId } from "../ids.ts";
import { Journal } from "../journal/journal.ts";
import { resolveModel, step, type Usage, waysOf } from "../model/index.ts";
import { PACE } from "../motion/pace.ts";
import { reportTo } from "../motion/report.ts";
import { TenantObject } from "../objects/tenant-object.ts";
import { schedulerOf } from "../schedules/remote.ts";
import { exportSpans } from "../telemetry/otlp.ts";
import { sessionFunctions } from "../tools/builtins.ts";
import { masker } from "../tools/mask.ts";
import { pinAgent, Toolbox } from "../tools/toolbox.ts";
import type { InboxMessage, SessionEvent, SessionFrame } from "./frames.ts";
import { isTerminal } from "./loop.ts";
import { type Projection, reportOf, telling } from "./project.ts";
import {
  employerOf,
  type NewMessage,
  type Refused,
  type Resolution,
  type Sender,
  type SessionRemote,
  type SessionRow,
  type SessionView,
} from "./remote.ts";
import { type Hands, type MessageKeys, Session } from "./session.ts";
import { spansOf } from "./spans.ts";

/** So long an answer of the database holds: that the org is alive, and what the agent's secrets are. */
const FRESH_MS = 4_000;
/** One that was begun for another to wake goes on by itself after that time. */
const HELD_MS = 20_000;
const MAX_WAIT_MS = 20_000;
const MOST_FRAMES = 500;
const MOST_OWED = 50;
const BEGUN_MS = 1_000;
const NO_USAGE: Usage = { input_tokens: null, output_tokens: null, cached_tokens: null, reasoning_tokens: null };

export class SessionObject extends TenantObject implements Omit<SessionRemote, keyof Rpc.DurableObjectBranded> {
  readonly #journal: Journal<SessionEvent>;
  /** Every value that was a secret since the object is in memory: one that was replaced stays masked. */
  readonly #known = new Set<string>();
  readonly #waiting = new Set<() => void>();
  #session: Session | null = null;
  #toolbox: Toolbox | null = null;
  #secrets: Readonly<Record<string, string>> | null = null;
  #mask: <T>(value: T) => T = (value) => value;
  /** When the org was last known to be alive, and the secrets to be these. */
  #liveAt = 0;
  #readAt = 0;
  /** Postgres is to be told, and nobody has begun to: one that begins tells all that is owed then. */
  #tells = false;
  /** The call of a model that is under way. */
  #modelCall: { id: Id<"model_call">; model: string } | null = null;

  constructor(ctx: DurableObjectState, env: Bindings) {
    super(ctx, env);
    this.#journal = new Journal(ctx.storage.sql);
    ctx.storage.sql.exec(`
      create table if not exists message_keys (
        subject text not null, key text not null, fingerprint text not null, message text not null, at integer not null,
        primary key (subject, key)) strict, without rowid;
      create index if not exists message_keys_at on message_keys (at)`);
  }

  async view(row: SessionRow): Promise<SessionView> {
    return this.#open(row)?.view() ?? lost(row);
  }

  async begin(row: SessionRow): Promise<void> {
    this.#open(row, HELD_MS);
  }

  async message(row: SessionRow, message: NewMessage): Promise<SessionView | Refused> {
    // Its secrets are masked in what is written down, so they are known before.
    if (!this.#secrets) await this.#read(row.agent_id);
    // A person's door asks that the org is active; the app's key may speak to a suspended one, whose sessions take no step.
    if (message.sender.type === "user") {
      this.#liveAt = Date.now();
      this.orgStatus = null;
    }
    return this.#open(row)?.message(message, this.#keys) ?? ended(row);
  }

  async cancel(row: SessionRow): Promise<SessionView> {
    return this.#open(row)?.cancel() ?? lost(row);
  }

  async decide(
    row: SessionRow,
    call: string,
    decision: { approved: boolean; arguments_hash: string; note: string | null; by: Sender },
  ): Promise<SessionView | Refused> {
    if (!this.#secrets) await this.#read(row.agent_id);
    return this.#open(row)?.decide(call, decision) ?? ended(row);
  }

  async resolve(row: SessionRow, call: string, resolution: Resolution & { by: Sender }) {
    if (!this.#secrets) await this.#read(row.agent_id);
    return this.#open(row)?.resolve(call, resolution) ?? ended(row);
  }

  async frames(row: SessionRow, after: number, wait_ms: number) {
    const session = this.#open(row);
    let frames = this.#journal.after(after, MOST_FRAMES);
    if (!frames.length && wait_ms > 0 && session && !isTerminal(session.status)) {
      await this.#nextFrame(Math.min(wait_ms, MAX_WAIT_MS));
      frames = this.#journal.after(after, MOST_FRAMES);
    }
    const status: SessionStatus = session?.status ?? row.status;
    return { frames: frames as SessionFrame[], last: this.#journal.last, status };
  }

  async pinned(row: SessionRow) {
    const session = this.#open(row);
    if (!session || session.status === "pending") return null;
    if (!this.#secrets) await this.#read(row.agent_id);
    return this.#mask({ agent: null, offers: [], ...session.pinned, instructions: row.instructions });
  }

  async wake(row: SessionRow): Promise<number | null> {
    const session = this.#open(row);
    if (session && !isTerminal(session.status)) this.due("run", Date.now());
    if (this.#journal.owed(1).length) this.due("project", Date.now());
    return session?.due ?? null;
  }

  override async erase(): Promise<void> {
    this.#session?.abandon();
    this.#session = null;
    await super.erase();
  }

  protected override async whenDue(name: string): Promise<void> {
    if (name === "project") return this.#project();
    if (name === "spans") return this.#export();
    const session = this.#open(null);
    if (name === "run") return session?.run();
    await session?.runCall(name.replace("call ", ""));
  }

  /** The session, which begins with its row, its first step so much later; null where it has begun before, and nothing is left of it. */
  #open(row: SessionRow | null, step_in_ms = 0): Session | null {
    if (this.#session) return this.#session;
    let kept = this.#journal.kept<SessionRow>("row");
    if (!kept) {
      if (row?.status !== "pending") return null;
      this.#journal.keep("row", row);
      kept = row;
    }
    this.#session = new Session(kept, this.#journal, this.#hands(kept));
    if (this.#session.begin()) this.due("run", Date.now() + step_in_ms);
    return this.#session;
  }

  #hands(row: SessionRow): Hands {
    const { env } = this;
    const { agent_id: agent, user_id: user } = row;
    const db = this.db.causedBy(row.causes ?? []);
    const models = modelsOf(env);
    const own = sessionFunctions(row.result_schema);
    const modelOf = (name: string | null) => resolveModel(name, models, { agent: this.#secrets ?? {} });
    const toolbox = (pinned: NonNullable<Session["pinned"]>["agent"]) => {
      this.#toolbox ??= new Toolbox(pinned, {
        ...{ db, env, user, secrets: () => this.#secrets ?? {} },
        place: { app: this.place.app_id, org: real(this.place.org_id) },
      });
      return this.#toolbox;
    };
    return {
      now: () => Date.now(),
      newCall: () => newId("tool_call"),
      pin: async () => {
        const asked = Date.now();
        const pinned = await pinAgent(db, env.ROOT_SECRETS, agent);
        if (!pinned) return null;
        this.#know(pinned.secrets, asked);
        return { ...pinned.agent, model: row.model ?? pinned.agent.model };
      },
      mayGoOn: async () => {
        if (!this.#secrets || Date.now() - this.#liveAt > FRESH_MS) await this.#read(agent);
        return this.orgStatus !== "suspended";
      },
      offered: async (pinned, signal) => [...(await toolbox(pinned).offered(signal)), ...own],
      model: (pinned) => modelOf(pinned.model).name,
      step: (pinned, request, signal) => step(modelOf(pinned.model), request, { ways: waysOf(env), signal }),
      call: async (pinned, tool, ask) => {
        if (Date.now() - this.#readAt > FRESH_MS) await this.#read(agent);
        return toolbox(pinned).call(tool, ask);
      },
      mask: (value) => this.#mask(value),
      told: (frames) => this.#told(frames),
      runAt: (instant) => {
        this.due("run", instant);
        // Should its alarm be lost, the sweep finds it a little later.
        if (instant > Date.now()) this.#owe("session", this.#facts(instant + PACE.late));
      },
      runCall: (call) => this.due(`call ${call}`, Date.now()),
    };
  }

  /** One look at the database: whether the org is alive, and the agent's secrets as they are now. */
  async #read(agent: Id<"agent">): Promise<void> {
    const asked = Date.now();
    this.#know(await readSecrets(this.db, this.env.ROOT_SECRETS, agent), asked);
  }

  /** The agent's secrets, as they were when the database was asked. */
  #know(secrets: Readonly<Record<string, string>>, asked: number): void {
    this.#secrets = secrets;
    for (const value of Object.values(secrets)) this.#known.add(value);
    this.#mask = masker(this.#known);
    this.#liveAt = asked;
    this.#readAt = asked;
  }

  #nextFrame(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        this.#waiting.delete(done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      this.#waiting.add(done);
    });
  }

  // -------------------------------------------------------------------------------------------------------
  // What Postgres hears

  /** Notes what is to be told, with the frames themselves: both commit together. */
  #told(frames: readonly SessionFrame[]): void {
    for (const frame of frames) {
      switch (frame.type) {
        case "session.status":
          if (frame.status === "pending") this.#oweBegun();
          else this.#owe("session", this.#facts());
          // A stretch of work is over: a collector hears of it as a whole.
          if (frame.status !== "running" && this.env.OTEL_EXPORTER_OTLP_ENDPOINT) this.due("spans", Date.now());
          break;
        case "model.started":
          this.#modelCall = { id: newId("model_call"), model: frame.model };
          this.#oweModel("unknown", NO_USAGE, null);
          break;
        case "model.completed":
          this.#oweModel("completed", frame.usage ?? NO_USAGE, frame.at);
          for (const { id } of frame.message.tool_calls ?? []) this.#oweCall(id);
          this.#oweEntry(frame, "agent_step", "info", `Model call: ${frame.model} (${frame.finish_reason})`, {
            ...{ model: frame.model, finish_reason: frame.finish_reason, usage: frame.usage },
          });
          break;
        case "approval.requested":
        case "approval.decided":
        case "tool.called":
        case "tool.resolved":
          this.#oweCall(frame.call);
          break;
        case "tool.completed":
        case "tool.failed":
        case "tool.unknown": {
          this.#oweCall(frame.call);
          const outcome = { "tool.completed": "succeeded", "tool.failed": "failed", "tool.unknown": "unknown" }[
            frame.type
          ];
          const level = outcome === "succeeded" ? "info" : "warning";
          const title = `Tool call: ${frame.name.slice(0, 64)} (${outcome})`;
          this.#oweEntry(frame, "tool_call", level, title, { call: frame.call, outcome });
          break;
        }
      }
    }
    for (const done of [...this.#waiting]) done();
  }

  #facts(look_at: number | null = null): Projection {
    const { status, started_at, completed_at, error, result } = this.#session!.view();
    const isAtWork = status === "pending" || status === "running";
    const look = isAtWork ? Date.now() + PACE.late : look_at;
    return {
      ...{ kind: "session", status, started_at, completed_at, error, result },
      look_at: look === null ? null : new Date(look).toISOString(),
    };
  }

  /** Its row says so already; its agent's health hears of it, should it not go on at once. */
  #oweBegun(): void {
    this.#journal.owe("session", this.#facts());
    this.due("project", Date.now() + BEGUN_MS);
  }

  #oweModel(status: "unknown" | "completed", usage: Usage, completed_at: string | null): void {
    if (!this.#modelCall) return;
    const { id, model } = this.#modelCall;
    this.#owe(`model ${id}`, { kind: "model", id, model, status, completed_at, ...usage });
    if (completed_at) this.#modelCall = null;
  }

  #oweCall(id: string): void {
    const facts = this.#session?.factsOf(id);
    if (facts) this.#owe(`call ${id}`, { kind: "call", ...facts });
  }

  #oweEntry(
    { turn, at }: SessionFrame,
    name: "agent_step" | "tool_call",
    level: "info" | "warning",
    title: string,
    about: Record<string, unknown>,
  ): void {
    const id = newId("activity_feed_entry");
    const metadata = { actor: null, session: this.id, turn, ...about };
    this.#owe(`entry ${id}`, { kind: "entry", id, name, level, title, metadata, created_at: at });
  }

  #owe(name: string, data: Projection): void {
    this.#journal.owe(name, data);
    if (!this.#tells) this.due("project", Date.now());
    this.#tells = true;
  }

  /** Tells what is owed, in one round trip. A session whose row is gone ends with it. */
  async #project(): Promise<void> {
    this.#tells = false;
    const { row } = this.#session ?? { row: this.#journal.kept<SessionRow>("row") };
    const owed = this.#journal.owed(MOST_OWED) as { name: string; sequence: number; data: Projection }[];
    if (!row || !owed.length) return;
    const report = reportOf(row, owed);
    if (owed.every(({ data }) => data.kind === "session" && data.status === "pending")) {
      // There is nothing that its row doesn't say.
      if (report) await reportTo(this.env, this.place, row.agent_id, report);
      for (const one of owed) this.#journal.paid(one);
      return;
    }
    const db = this.db.causedBy(row.causes ?? []);
    const told = owed.flatMap((one) => Object.entries(telling(db, row, one)));
    const there = this.db.selectFrom("agent_sessions").select("id").where("id", "=", row.id);
    const hasEnded = owed.some(({ data }) => data.kind === "session" && isTerminal(data.status));
    const run = hasEnded ? (row.routine_run_id as Id<"agent_routine_run"> | null) : null;
    const employer = this.db.selectFrom("agent_routine_runs").selectAll().where("id", "=", run!);
    const { there: found, ...more } = await this.db.batch({
      there,
      ...(run && { employer }),
      ...Object.fromEntries(told),
    });
    if (!found.length) return this.erase();
    // The run that it works for hears of it before this is done with: so it does, whatever ends meanwhile.
    const [by] = (more.employer ?? []) as Row<"agent_routine_runs">[];
    if (by) await employerOf(this.env, by).hear(by.id);
    // What its schedule has waiting may begin: told before it is paid, so that no end goes unheard.
    if (hasEnded && row.schedule_id) await schedulerOf(this.env, this.place).wake();
    // So does its agent's health, of as much as was told at once.
    if (report) await reportTo(this.env, this.place, row.agent_id, report);
    for (const one of owed) this.#journal.paid(one);
    if (this.#journal.owed(1).length) this.due("project", Date.now());
  }

  /** Sends the spans of what has ended since the last time. What a collector misses is not sent again. */
  async #export(): Promise<void> {
    const { app_id: app, org_id: org } = this.place;
    const agent = this.#open(null)?.row.agent_id;
    if (!agent) return;
    let after = this.#journal.kept<number>("spans") ?? 0;
    const ends = this.#journal.last;
    const journal = this.#journal;
    function* frames() {
      while (after < ends) {
        const page = journal.after(after, MOST_FRAMES) as SessionFrame[];
        after = page.at(-1)?.sequence ?? ends;
        yield* page;
      }
    }
    const spans = spansOf(frames(), { session: this.id, agent, app, org });
    this.#journal.keep("spans", ends);
    await exportSpans(this.env, spans);
  }

  get #keys(): MessageKeys {
    const { sql } = this.ctx.storage;
    type Kept = { fingerprint: string; message: string };
    return {
      find: (subject, key) => {
        const found = "select fingerprint, message from message_keys where subject = ? and key = ?";
        const [row] = sql.exec<Kept>(found, subject, key).toArray();
        return row ? { fingerprint: row.fingerprint, message: JSON.parse(row.message) as InboxMessage } : null;
      },
      keep: ({ subject, key, fingerprint, message, at }, before) => {
        sql.exec("delete from message_keys where at < ?", before);
        sql.exec(
          "insert into message_keys values (?, ?, ?, ?, ?)",
          subject,
          key,
          fingerprint,
          JSON.stringify(message),
          at,
        );
      },
    };
  }
}

/** Of a session whose object has nothing left: what Postgres says. */
const lost = ({ status, started_at, completed_at, error, result }: SessionRow): SessionView => ({
  ...{ status, started_at, completed_at, error, result, inbox: [] },
});
const ended = ({ status }: SessionRow): Refused => ({
  refused: { status: 422, code: "session_ended", message: `The session is ${status}: it takes no more messages.` },
});
