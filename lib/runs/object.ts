/**
 * The runs of an agent, or of an automation: the only writer of their journals. It owns the runs at work, lends them the
 * hands that reach the database, scripts and sessions, and sees to it that Postgres hears of what happened.
 */
import { sql } from "kysely";
import { type RunStatus, real } from "../db/schema.ts";
import type { Bindings } from "../env.ts";
import { readSecrets } from "../env-vars/queries.ts";
import { wakeDispatcher } from "../events/remote.ts";
import { type Id, isId, newId } from "../ids.ts";
import { Journal } from "../journal/journal.ts";
import { PACE } from "../motion/pace.ts";
import { reportTo } from "../motion/report.ts";
import { TenantObject } from "../objects/tenant-object.ts";
import { schedulerOf } from "../schedules/remote.ts";
import type { Refused, Resolution, Sender } from "../sessions/remote.ts";
import { masker } from "../tools/mask.ts";
import type { RunEvent, RunFrame } from "./frames.ts";
import { isTerminal } from "./loop.ts";
import { type PinnedRoutine, pinRun, programOf } from "./pin.ts";
import { entryOf, type Projection, reportOf, telling } from "./project.ts";
import type { RunPage, RunRow, RunsRemote, RunView } from "./remote.ts";
import { type Hands, Run } from "./run.ts";
import { argumentsOf, heard, letGo, type RunWorld, send } from "./send.ts";
import { listen } from "./waits.ts";

/** So long an answer of the database holds: that the org is alive, what the agent's secrets are, whose its routines are. */
const FRESH_MS = 4_000;
const MAX_WAIT_MS = 20_000;
const MOST_OWED = 50;
/** Who has a work item tells of its end; should that be lost, the run asks this often. */
const ASK_MS = 600_000;
const NO_ARGUMENT = /^(evaluate|wait)$/;

/** When somebody is to look after a run that waits, in milliseconds; null: whoever it waits for wakes it. */
const lookAt = (run: Run, at: number | null): number | null =>
  run.handedTo.some((one) => isId("work_item", one)) ? Math.min(at ?? Infinity, Date.now() + ASK_MS) : at;

/** Of a run that has asked nothing yet. */
const gone: Refused = { refused: { status: 404, code: "not_found", message: "There is no such command." } };

export class RunsObject extends TenantObject implements Omit<RunsRemote, keyof Rpc.DurableObjectBranded> {
  /** Those that are not over, or of which somebody was told lately. */
  readonly #runs = new Map<string, Run>();
  readonly #journals = new Map<string, Journal<RunEvent>>();
  /** Of a scope whose runs share a session: the session's id. */
  readonly #shared: Journal<RunEvent>;
  /** Every value that was a secret since the object is in memory: one that was replaced stays masked. */
  readonly #known = new Set<string>();
  readonly #waiting = new Map<string, Set<() => void>>();
  /** Who looks for a shared session, or makes one: one after another, so that a scope has but one. */
  #sharing: Promise<unknown> = Promise.resolve();
  #secrets: Readonly<Record<string, string>> | null = null;
  /** By routine its co-owner, and of an automation's runs by run the user that it acts as; null: nobody, or gone. */
  #owners = new Map<string, Id<"user"> | null>();
  #mask: <T>(value: T) => T = (value) => value;
  /** When the org was last known to be alive, and the secrets to be these. */
  #readAt = 0;
  #reading: Promise<void> | null = null;

  constructor(ctx: DurableObjectState, env: Bindings) {
    super(ctx, env);
    this.#shared = new Journal(ctx.storage.sql, "shared sessions");
  }

  async start(row: RunRow): Promise<number | null> {
    const run = this.#open(row.id, row);
    if (!run) return null;
    if (!run.isOver) this.due(`run ${row.id}`, Date.now());
    // Nobody has heard of it for long: whoever has its commands may have something to say.
    if (run.handedTo.length) run.hear();
    if (run.status === "waiting") this.#owe(row.id, "run", this.#facts(row.id));
    if (this.#journalOf(row.id).owed(1).length) this.due(`project ${row.id}`, Date.now());
    return run.due;
  }

  async view(row: RunRow): Promise<RunView | null> {
    return this.#open(row.id, row)?.view() ?? null;
  }

  async cancel(row: RunRow): Promise<RunView | null> {
    return this.#open(row.id, row)?.cancel() ?? null;
  }

  async decide(
    row: RunRow,
    command: string,
    decision: { approved: boolean; arguments_hash: string; note: string | null; by: Sender },
  ): Promise<RunView | Refused> {
    if (!this.#secrets) await this.#read();
    return this.#open(row.id, row)?.decide(command, decision) ?? gone;
  }

  async resolve(row: RunRow, command: string, resolution: Resolution & { by: Sender }): Promise<RunView | Refused> {
    if (!this.#secrets) await this.#read();
    return this.#open(row.id, row)?.resolve(command, resolution) ?? gone;
  }

  async frames(row: RunRow, after: number, most: number, wait_ms: number): Promise<RunPage> {
    const journal = this.#journalOf(row.id);
    const isOver = () => this.#open(row.id, row)?.isOver ?? isTerminal(row.status);
    let frames = journal.after(after, most);
    if (!frames.length && wait_ms > 0 && !isOver()) {
      await this.#nextFrame(row.id, Math.min(wait_ms, MAX_WAIT_MS));
      frames = journal.after(after, most);
    }
    const run = this.#open(row.id, row);
    return { frames: frames as RunFrame[], last: journal.last, status: run?.status ?? null, view: run?.view() ?? null };
  }

  async hear(id: string): Promise<void> {
    this.#open(id)?.hear();
  }

  async forget(runs: string[]): Promise<void> {
    for (const id of runs) {
      this.#runs.get(id)?.abandon();
      for (const what of ["run", "look", "project"]) this.notDue(`${what} ${id}`);
      this.#journalOf(id).forget();
      this.#drop(id);
    }
  }

  override async erase(): Promise<void> {
    for (const run of this.#runs.values()) run.abandon();
    this.#runs.clear();
    this.#journals.clear();
    await super.erase();
  }

  protected override async whenDue(name: string): Promise<void> {
    const [what, id, of] = name.split(" ") as [string, string, string];
    if (what === "project") return this.#project(id);
    if (what === "leave") return letGo(this.db, this.env, id);
    const run = this.#open(id);
    if (!run) return;
    if (what === "look") {
      if (!this.#secrets) await this.#read();
      return run.look();
    }
    return what === "run" ? run.run() : run.runCommand(of);
  }

  #journalOf(id: string): Journal<RunEvent> {
    const journal = this.#journals.get(id) ?? new Journal<RunEvent>(this.ctx.storage.sql, id);
    this.#journals.set(id, journal);
    return journal;
  }

  #drop(id: string): void {
    this.#runs.delete(id);
    this.#journals.delete(id);
  }

  /** The run, which begins with its row where that was admitted; null where it isn't known here. */
  #open(id: string, row?: RunRow): Run | null {
    const known = this.#runs.get(id);
    if (known) return known;
    const journal = this.#journalOf(id);
    let kept = journal.kept<RunRow>("row");
    if (!kept) {
      if (row?.status !== "pending" || row.admitted_at === null) return null;
      journal.keep("row", row);
      kept = row;
    }
    const run = new Run(kept, journal, this.#hands(kept));
    if (run.isOver) this.#journals.delete(id);
    else this.#runs.set(id, run);
    run.begin();
    return run;
  }

  #hands(row: RunRow): Hands {
    const { id } = row;
    const pinned = () => this.#runs.get(id)!.pinned as PinnedRoutine;
    const whose = row.automation_id === null ? row.routine_id : row.user_id && id;
    const fresh = async () => {
      // Of what nothing was heard is asked after: it may be newer than the last look.
      const isNew = whose !== null && !this.#owners.has(whose);
      if (isNew) await this.#reading;
      // That it is suspended holds until it is lifted, and no longer.
      const isOld = this.orgStatus === "suspended" || Date.now() - this.#readAt > FRESH_MS;
      if (!this.#secrets || isNew || isOld) await this.#read();
      if (whose !== null && !this.#owners.has(whose)) this.#owners.set(whose, null);
    };
    const mayGoOn = async () => {
      await fresh();
      return this.orgStatus !== "suspended";
    };
    return {
      now: () => Date.now(),
      newCommand: () => newId("tool_call"),
      pin: () => pinRun(this.db, row),
      program: (pinned) => programOf(pinned as PinnedRoutine),
      mayGoOn,
      evaluate: argumentsOf,
      listen: (wait, given) => listen(this.db, row, wait, given),
      send: async (_, command) => {
        if (!(await mayGoOn())) return null;
        return send(this.#world(row, pinned()), row, pinned(), command);
      },
      heard: (_, handed_to, given) => heard(this.#world(row, pinned()), pinned(), handed_to, given),
      letGo: (handed_to) => this.due(`leave ${handed_to}`, Date.now()),
      mask: (value) => this.#mask(value),
      told: (frames) => this.#told(row, frames),
      runAt: (instant) => {
        this.due(`run ${id}`, instant);
        // Should its alarm be lost, the sweep finds it a little later.
        if (instant > Date.now()) this.#owe(id, "run", this.#facts(id, instant + PACE.late));
      },
      // The sweep leaves out what is of a suspended org, and finds it as soon as that is lifted.
      paused: () => this.#owe(id, "run", this.#facts(id, Date.now())),
      runCommand: (command) => this.due(`call ${id} ${command}`, Date.now()),
      runLook: () => this.due(`look ${id}`, Date.now()),
    };
  }

  #world({ id, automation_id }: RunRow, { routine }: PinnedRoutine): RunWorld {
    const { db, env, place } = this;
    return {
      ...{ db, env, place: { app: place.app_id, org: real(place.org_id) } },
      ...{ secrets: this.#secrets ?? {}, user: this.#owners.get(automation_id ? id : routine) ?? null },
      sharedSession: (scope, fresh, open, make) => {
        const found = this.#sharing.then(async () => {
          const before = this.#shared.kept<Id<"agent_session">>(scope);
          const there = before && (await open(before));
          if (there) return there;
          this.#shared.keep(scope, fresh);
          return make();
        });
        this.#sharing = found.catch(() => {});
        return found;
      },
    };
  }

  /** One look at the database, however many wait for it: whether the org is alive, the agent's secrets, who co-owns its routines. */
  #read(): Promise<void> {
    this.#reading ??= this.#look().finally(() => {
      this.#reading = null;
    });
    return this.#reading;
  }
  async #look(): Promise<void> {
    const asked = Date.now();
    const there = this.db.selectFrom("users").where("users.ended_at", "is", null).select("users.id");
    const coOwner = there.where(sql<boolean>`users.id = agent_routines.user_id`);
    // An automation has no secrets.
    const { id } = this;
    const agent = isId("agent", id) ? id : null;
    const owned: { execute(): Promise<{ id: string; user_id: Id<"user"> | null }[]> } = agent
      ? this.db
          .selectFrom("agent_routines")
          .select(["id", sql<Id<"user"> | null>`(${coOwner})`.as("user_id")])
          .where("agent_id", "=", agent)
      : this.db
          .selectFrom("agent_routine_runs")
          .select(["id", "user_id"])
          .where("automation_id", "=", id as Id<"config">)
          .where("user_id", "in", there)
          .where("status", "in", ["pending", "running"]);
    const [secrets, owners] = await Promise.all([
      agent ? readSecrets(this.db, this.env.ROOT_SECRETS, agent) : ({} as Record<string, string>),
      owned.execute(),
    ]);
    this.#secrets = secrets;
    this.#owners = new Map(owners.map(({ id, user_id }) => [id, user_id]));
    for (const value of Object.values(secrets)) this.#known.add(value);
    this.#mask = masker(this.#known);
    this.#readAt = asked;
  }

  #nextFrame(id: string, ms: number): Promise<void> {
    const waiting = this.#waiting.get(id) ?? new Set();
    this.#waiting.set(id, waiting);
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        waiting.delete(done);
        if (!waiting.size) this.#waiting.delete(id);
        resolve();
      };
      const timer = setTimeout(done, ms);
      waiting.add(done);
    });
  }

  // -------------------------------------------------------------------------------------------------------
  // What Postgres hears

  /** Notes what is to be told, with the frames themselves: both commit together. */
  #told({ id }: RunRow, frames: readonly RunFrame[]): void {
    const run = this.#runs.get(id)!;
    for (const frame of frames) {
      switch (frame.type) {
        case "run.status":
          this.#owe(id, "run", this.#facts(id));
          if (isTerminal(frame.status)) this.#oweEntry(run, frame);
          break;
        case "command.called":
        case "command.retrying":
          this.#owe(id, "run", this.#facts(id));
          this.#oweCommand(run, frame.command);
          break;
        default:
          if ("command" in frame && frame.type !== "command.outbound") this.#oweCommand(run, frame.command);
      }
    }
    for (const done of [...(this.#waiting.get(id) ?? [])]) done();
  }

  #facts(id: string, look_at: number | null = null): Projection {
    const run = this.#runs.get(id)!;
    const look = run.isOver
      ? null
      : run.status === "waiting"
        ? lookAt(run, look_at)
        : Math.max(look_at ?? 0, Date.now() + PACE.late);
    return { of: "run", ...run.view(), look_at: look === null ? null : new Date(look).toISOString() };
  }

  /** What only reckons, or only waits, is no call. */
  #oweCommand(run: Run, id: string): void {
    const facts = run.factsOf(id);
    if (facts && !NO_ARGUMENT.test(facts.kind)) this.#owe(run.row.id, `command ${id}`, { of: "command", ...facts });
  }

  #oweEntry(run: Run, { status, at }: Extract<RunFrame, { type: "run.status" }>): void {
    const name = (run.pinned as PinnedRoutine | null)?.name ?? run.row.event_name;
    const entry = entryOf(status as RunStatus, name, at);
    this.#owe(run.row.id, `entry ${entry.id}`, entry);
  }

  #owe(id: string, name: string, data: Projection): void {
    this.#journalOf(id).owe(name, data);
    this.due(`project ${id}`, Date.now());
  }

  /** Tells what is owed of a run, in one round trip. One whose row is gone goes with it. */
  async #project(id: string): Promise<void> {
    const journal = this.#journalOf(id);
    const row = journal.kept<RunRow>("row");
    const owed = journal.owed(MOST_OWED) as { name: string; sequence: number; data: Projection }[];
    if (!row || !owed.length) return;
    const told = owed.flatMap((one) => Object.entries(telling(this.db, row, one)));
    const there = this.db.selectFrom("agent_routine_runs").select("id").where("id", "=", row.id);
    const { there: found } = await this.db.batch({ there, ...Object.fromEntries(told) });
    if (!found.length) return this.forget([id]);
    const isOver = owed.some(({ data }) => data.of === "run" && isTerminal(data.status));
    // There is room for another, and whoever waits for this one's end hears of it: before it is done with.
    if (isOver) await this.#ended(row);
    const report = reportOf(row, owed);
    if (report && row.agent_id) await reportTo(this.env, this.place, row.agent_id, report);
    for (const one of owed) journal.paid(one);
    if (journal.owed(1).length) this.due(`project ${id}`, Date.now());
    else if (this.#runs.get(id)?.isOver) this.#drop(id);
  }

  async #ended(row: RunRow): Promise<void> {
    await wakeDispatcher(this.env, this.place);
    if (row.planned_at !== null) await schedulerOf(this.env, this.place).wake();
  }
}
