/**
 * An agent's health: what it has under way, how much of it failed lately, and what was last told of it. Sessions and runs
 * report to it beside what they tell Postgres; what is overdue it asks, and so recovers. Nothing under way, it sleeps.
 */
import { type SqlBool, sql } from "kysely";
import { telling } from "../agents/children.ts";
import { feedReaders } from "../agents/queries.ts";
import { real } from "../db/schema.ts";
import { modelsOf } from "../env.ts";
import { ApiError } from "../errors.ts";
import { emitting } from "../events/emit.ts";
import { type Id, isId, newId } from "../ids.ts";
import { ModelError, resolveModel, secretFor } from "../model/index.ts";
import { Ledger } from "../motion/ledger.ts";
import { PACE } from "../motion/pace.ts";
import type { Report } from "../motion/report.ts";
import { asked, paused } from "../motion/watch.ts";
import { forEach } from "../objects/each.ts";
import { TenantObject } from "../objects/tenant-object.ts";
import { readersOfRun } from "../runs/project.ts";
import { type RunRow, runsOf } from "../runs/remote.ts";
import { type SessionRow, sessionOf } from "../sessions/remote.ts";
import { type Checked, type Known, readHealth, type Verdict } from "./queries.ts";
import type { HealthChange, HealthRemote, Judged, Stuck } from "./remote.ts";
import type { HealthActionRow } from "./schema.ts";
import { type Facts, type Status, scoreOf, type Wanted, wantedBy } from "./score.ts";
import { verdictOf } from "./verify.ts";

/** So many are asked in one go. */
const MOST = 50;
/** Whoever is asked answers within that, or counts as not going on. */
const ANSWER_MS = 5_000;
const MOST_SHOWN = 20;
/** An action of a check is known by it; one that waits for a routine to be no draft any more, by that. */
const PREFIX = "health:";
const ROUTINE = "agent_routine:";

type Said = { event: Id<"event">; entry: Id<"activity_feed_entry">; stuck: string | null; change: HealthChange };

export class AgentHealth extends TenantObject implements Omit<HealthRemote, keyof Rpc.DurableObjectBranded> {
  readonly #ledger: Ledger;
  #isErased = false;

  constructor(ctx: DurableObjectState, env: ConstructorParameters<typeof TenantObject>[1]) {
    super(ctx, env);
    this.#ledger = new Ledger(ctx.storage.sql);
    ctx.storage.sql.exec(`
      create table if not exists told (one integer primary key check (one = 1), status text not null, score integer not null) strict;
      create table if not exists owed (event text primary key, data text not null) strict, without rowid`);
  }

  async report(report: Report): Promise<void> {
    if (this.#isErased) return;
    const now = Date.now();
    const wasStuck = this.#isStuck(report.id);
    this.#ledger.take(report, now);
    if (report.due != null) this.#at("look", report.due);
    if (report.ended || wasStuck) this.#at("judge", now + PACE.judged);
  }

  async judge(known: Known, isAsked = true): Promise<Judged> {
    const now = Date.now();
    const { facts, secret } = this.#factsOf(known, now);
    const score = scoreOf(facts);
    const isTold = this.#note({ agent: this.id, status: score.status, score: score.score });
    // What it finds by itself it writes down when it tells of it: the rest, when somebody asks.
    const actions = isAsked || isTold ? await this.#ask(known, wantedBy(facts, secret)) : known.actions;
    const stuck = this.#ledger.stuck.slice(0, MOST_SHOWN).map(
      ({ id, asked_at }): Stuck => ({
        // A run is its routine's, which has readers of its own: they find it in the feed.
        id: isId("agent_session", id) ? id : null,
        since: new Date(asked_at).toISOString(),
      }),
    );
    return { ...score, actions, runs: facts.runs, tools: facts.tools, in_motion: this.#ledger.size, stuck };
  }

  async verify(action: Checked): Promise<Verdict> {
    if (action.check === "health") {
      const judged = await this.#judgeItself(true);
      const now = judged?.actions.find(({ id }) => id === action.id);
      const [, key] = action.dedupe_key!.split(":");
      const summary = judged?.checks.find((check) => check.key === key)?.summary;
      return { passes: now?.status === "completed", message: summary ?? "There is no such check any more." };
    }
    const { app_id: app, org_id } = this.place;
    return verdictOf({ db: this.db, env: this.env, place: { app, org: real(org_id) } }, action);
  }

  override async erase(): Promise<void> {
    this.#isErased = true;
    await super.erase();
  }

  protected override async whenDue(name: string): Promise<void> {
    if (this.#isErased) return;
    if (name === "tell") return this.#tell();
    if (name === "look") return this.#look();
    await this.#judgeItself(false);
  }

  /** An agent that is gone takes its health along: null. */
  async #judgeItself(isAsked: boolean): Promise<Judged | null> {
    const known = await readHealth(this.db, this.#agent);
    if (known) return this.judge(known, isAsked);
    await this.erase();
    return null;
  }

  /** The agent's row. */
  get #agent() {
    return this.db.selectFrom("agents").where("agents.id", "=", this.id as Id<"agent">);
  }

  #sql<Row extends Record<string, string | number | null>>(
    statement: string,
    ...values: (string | number | null)[]
  ): Row[] {
    return this.ctx.storage.sql.exec<Row>(statement, ...values).toArray();
  }

  // -------------------------------------------------------------------------------------------------------
  // What is under way

  /** One that comes too early does no harm, and a write less does good. */
  #at(what: "look" | "judge", instant: number): void {
    const [set] = this.#sql<{ at: number }>("select at from due where name = ? and attempts = 0", what);
    if (!set || set.at > instant) this.due(what, instant);
  }

  #isStuck(id: string): boolean {
    return (this.#ledger.of(id)?.stuck ?? 0) > 0;
  }

  /** Asks what is overdue whether it goes on, which recovers what has lost its alarm. */
  async #look(): Promise<void> {
    const overdue = this.#ledger.overdue(Date.now(), MOST);
    if (overdue.length) {
      const found = await this.db.batch({
        sessions: this.db
          .selectFrom("agent_sessions")
          .selectAll()
          .where("id", "in", overdue as Id<"agent_session">[]),
        runs: this.db
          .selectFrom("agent_routine_runs")
          .selectAll()
          .where("id", "in", overdue as Id<"agent_routine_run">[]),
      });
      const rows = [...found.sessions, ...found.runs];
      const there = new Set<string>(rows.map(({ id }) => id));
      for (const id of overdue.filter((one) => !there.has(one))) {
        if (this.#isStuck(id)) this.#at("judge", Date.now());
        this.#ledger.forget(id);
      }
      const isSuspended = this.orgStatus === "suspended";
      await forEach(rows, (row) => (isSuspended ? this.#pause(row.id) : this.#goesOn(row)));
    }
    const { next } = this.#ledger;
    if (next !== null) this.#at("look", next);
  }

  async #pause(id: string): Promise<void> {
    this.#ledger.watch(id, paused(Date.now()), Date.now());
  }

  async #goesOn(row: SessionRow | RunRow): Promise<void> {
    const { id } = row;
    const before = this.#ledger.of(id);
    const late = Date.now();
    const until = await within(ANSWER_MS, () =>
      isId("agent_session", id)
        ? sessionOf(this.env, row as SessionRow).wake(row as SessionRow)
        : runsOf(this.env, row as RunRow).start(row as RunRow),
    ).catch((error) => {
      console.error(JSON.stringify({ object: this.ctx.id.name, asked: id, error: String(error) }));
      return late;
    });
    const was = this.#ledger.of(id);
    // What it has said meanwhile is newer.
    if (!was || was.upto !== before?.upto) return;
    const next = asked(was, until, Date.now());
    this.#ledger.watch(id, next, Date.now());
    if (next.stuck !== was.stuck > 0) this.#at("judge", Date.now());
  }

  // -------------------------------------------------------------------------------------------------------
  // How it is

  #factsOf(known: Known, now: number): { facts: Facts; secret: string | null } {
    const { agent, actions, env_keys } = known;
    const setup = actions.filter(({ source }) => source === "setup");
    const count = (is: (action: HealthActionRow) => boolean) => setup.filter(is).length;
    const model = this.#modelOf(agent.default_model, env_keys);
    const { schedules_missed, endpoints_disabled, endpoints_failing, computers_in_error, installations_in_error } =
      known;
    const facts: Facts = {
      required_actions: count(({ status, required }) => status === "pending" && required),
      other_actions: count(({ status, required }) => status === "pending" && !required),
      degraded_actions: count(({ status }) => status === "degraded"),
      stuck: this.#ledger.stuck.length,
      ...{ model_missing: model.missing, model_scripted: model.isScripted },
      ...{ runs: this.#ledger.share("runs", now), tools: this.#ledger.share("tools", now) },
      ...{ schedules_missed, endpoints_disabled, endpoints_failing, computers_in_error, installations_in_error },
    };
    return { facts, secret: model.secret };
  }

  /** Whether its model can be asked, as far as names tell: of an env var only whether it is there. */
  #modelOf(name: string | null, env_keys: readonly string[]) {
    const agent = Object.fromEntries(
      env_keys.map((key) => [key, key === "MODEL_BASE_URL" ? "https://set.invalid" : "set"]),
    );
    try {
      const { provider } = resolveModel(name, modelsOf(this.env), { agent });
      return { missing: null, isScripted: provider === "scripted", secret: null };
    } catch (error) {
      if (!(error instanceof ModelError)) throw error;
      const secret = secretFor(name?.trim() ?? "");
      const isAllItLacks = secret !== null && error.message.includes(secret);
      return { missing: error.message, isScripted: false, secret: isAllItLacks ? secret : null };
    }
  }

  /** The actions of the checks, as these are now: those that fail have one, and it is done when they pass. */
  async #ask({ actions, drafts }: Known, wanted: readonly Wanted[]): Promise<HealthActionRow[]> {
    const { db } = this;
    const own = new Map(actions.flatMap((row) => (row.source === "health" ? [[row.dedupe_key ?? "", row]] : [])));
    const told = (happened: "created" | "updated") => telling(db, "agent_health_action", happened);
    const comes = wanted
      .filter(({ key }) => !own.has(PREFIX + key))
      .map(({ key, params, ...row }) =>
        db.telling(
          db.insertUnder(this.#agent, "agent_health_actions", {
            ...{ ...row, id: newId("agent_health_action"), agent_id: sql`agents.id`, source: "health" },
            ...{ params: JSON.stringify(params), dedupe_key: PREFIX + key },
          }),
          told("created"),
        ),
      );
    const keys = new Set(wanted.map(({ key }) => PREFIX + key));
    for (const id of drafts) keys.add(ROUTINE + id);
    const turns = [...own].flatMap(([key, { id, status }]) => {
      if (!key.startsWith(PREFIX) && !key.startsWith(ROUTINE)) return [];
      const isDone = !keys.has(key);
      const is = status === "completed";
      if (status === "skipped" || is === isDone) return [];
      // One that was never done stays as it is.
      const to = isDone ? ("completed" as const) : ("degraded" as const);
      const change = db
        .patch("agent_health_actions", { status: to, last_verified_at: sql<string>`now()` })
        .where("id", "=", id)
        .where(sql<SqlBool>`status <> 'skipped'` as never);
      return [db.telling(change, { ...told("updated"), metadata: { fields: ["status"] } })];
    });
    if (!comes.length && !turns.length) return actions;
    const rows = db
      .selectFrom("agent_health_actions")
      .selectAll()
      .where("agent_id", "=", this.id as Id<"agent">);
    const write = async (changes: typeof turns) => {
      const { now } = await db.batch({
        ...Object.fromEntries(changes.map((change, i) => [`change ${i}`, change])),
        now: rows.orderBy("source").orderBy("sort_order").orderBy("id"),
      });
      return now as HealthActionRow[];
    };
    return write([...comes, ...turns]).catch((error) => {
      if (!(error instanceof ApiError)) throw error;
      // It has as many actions as it may, or another judged at this moment: what is done is done all the same.
      return error.status === 503 ? actions : write(turns);
    });
  }

  // -------------------------------------------------------------------------------------------------------
  // What is told

  /**
   * Notes what is to be told: a status that isn't the last one, and what is stuck since then. What it is found to be the
   * first time is no change, unless it is critical. Answers whether there is anything to be told.
   */
  #note({ agent, status, score }: Pick<HealthChange, "agent" | "status" | "score">): boolean {
    const [last] = this.#sql<{ status: Status; score: number }>("select status, score from told");
    const { status: previous_status, score: previous_score } = last ?? { status: "ok" as const, score: 100 };
    if (score !== last?.score) this.#sql("insert or replace into told values (1, ?, ?)", status, score);
    const stuck = this.#ledger.tell();
    const isChange = last ? status !== previous_status : status === "critical";
    const changes = stuck.length ? stuck : isChange ? [null] : [];
    for (const one of changes) {
      const change = { agent, status, score, previous_status, previous_score, stuck: one !== null };
      const said: Said = { event: newId("event"), entry: newId("activity_feed_entry"), stuck: one, change };
      this.#sql("insert into owed values (?, ?)", said.event, JSON.stringify(said));
    }
    if (changes.length) this.due("tell", Date.now());
    return changes.length > 0;
  }

  /**
   * What has led to these. What is told of one that is stuck starts no routine that has led to it: that would be stuck, too,
   * and be told of.
   */
  async #causesOf(stuck: readonly string[]): Promise<Map<string | null, string[]>> {
    if (!stuck.length) return new Map();
    const { sessions, runs } = await this.db.batch({
      sessions: this.db
        .selectFrom("agent_sessions")
        .select(["id", "causes"])
        .where("id", "in", stuck as Id<"agent_session">[]),
      runs: this.db
        .selectFrom("agent_routine_runs")
        .select(["id", sql<string[]>`causes || coalesce(automation_id, routine_id)`.as("causes")])
        .where("id", "in", stuck as Id<"agent_routine_run">[]),
    });
    return new Map([...sessions, ...runs].map(({ id, causes }) => [id, causes]));
  }

  /** Each once, however often it is tried: an event, and of what is stuck an entry of the feed. */
  async #tell(): Promise<void> {
    const owed = this.#sql<{ event: string; data: string }>(
      "select event, data from owed order by event limit ?",
      MOST,
    );
    const { db } = this;
    const said = owed.map(({ data }) => JSON.parse(data) as Said);
    const agent = this.#agent;
    const causes = await this.#causesOf(said.flatMap(({ stuck }) => stuck ?? []));
    const statements = said.flatMap(({ event: id, entry, stuck, change }) => {
      const event = emitting(db.causedBy(causes.get(stuck) ?? []), agent, {
        ...{ id, name: "agent.health_changed", payload: change },
        ...{ agent_id: this.id as Id<"agent">, user_id: null, readers: feedReaders },
      });
      if (stuck === null) return [event];
      const there = db.selectFrom("activity_feed_entries").where("activity_feed_entries.id", "=", entry);
      const isNew = sql<boolean>`not exists (${there.select(sql`1`.as("one"))})`;
      const row = {
        ...{
          id: entry,
          kind: "generic",
          level: "error",
          title: `Stuck: ${stuck} doesn't go on`,
          correlation_id: stuck,
        },
        metadata: sql`${JSON.stringify({ actor: null, stuck })}::jsonb`,
      };
      const runs = db.selectFrom("agent_routine_runs").where("agent_routine_runs.id", "=", stuck as RunRow["id"]);
      const told = isId("agent_session", stuck)
        ? db.insertUnder(agent.where(isNew), "activity_feed_entries", {
            ...{ ...row, agent_id: sql`agents.id`, readers: feedReaders },
          } as never)
        : db.insertUnder(runs.where(isNew), "activity_feed_entries", {
            ...{ ...row, agent_id: sql`agent_routine_runs.agent_id`, readers: readersOfRun(db, "agent_routine_runs") },
          } as never);
      return [event, told];
    });
    if (statements.length) await db.batch(Object.fromEntries(statements.map((one, i) => [`${i}`, one])));
    for (const { event } of owed) this.#sql("delete from owed where event = ?", event);
    if (owed.length === MOST) this.due("tell", Date.now());
  }
}

/** What is asked of another object, if it comes in time. */
async function within<T>(ms: number, ask: () => Promise<T>): Promise<T> {
  const late = scheduler.wait(ms).then(() => {
    throw new Error(`no answer within ${ms / 1000} seconds`);
  });
  return Promise.race([ask(), late]);
}
