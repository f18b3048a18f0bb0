/** How runs come about: of events, and when there is room for them. */
import { type RawBuilder, sql } from "kysely";
import { wholeAcl } from "../auth/acl.ts";
import { isLive } from "../configs/access.ts";
import type { Overlap, Row } from "../db/schema.ts";
import type { Rows, Statement } from "../db/statements.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import type { Bindings } from "../env.ts";
import { CRON_EVENT } from "../events/trigger.ts";
import { type Id, newId } from "../ids.ts";
import { jsonHash } from "../model/index.ts";
import { forEach } from "../objects/each.ts";
import { quotasOf, reaching } from "../quotas.ts";
import { type Admission, admit } from "./admit.ts";
import { firing } from "./match.ts";
import { entry, entryOf, turning } from "./project.ts";
import { type RunRow, runsOf } from "./remote.ts";

/** Whoever publishes these makes the run itself. */
const MADE: readonly string[] = [CRON_EVENT, "workflow.scheduled", "agentroutine.invoked"];
/** Runs that are made in one statement. */
const MOST_MADE = 100;
/** Runs that are looked at for room, of an agent, which has as many routines, and together. */
const MOST_OF_AN_AGENT = 100;
const MOST_WAITING = 500;
const ROUNDS = 20;
/** Of a key, in characters. */
const MAX_KEY = 200;
const MINUTE_MS = 60_000;

/**
 * Makes the runs that these numbered events start, each (routine or automation, event) once. May run twice. Answers
 * whether there may be any.
 */
export async function startRuns(db: TenantDb, events: readonly Row<"events">[]): Promise<boolean> {
  const names = [...new Set(events.map(({ name }) => name))].filter((name) => !MADE.includes(name));
  if (!names.length) return false;
  const coOwner = db.valueOf("users", "id", sql.ref("agent_routines.user_id"));
  const listens = sql<boolean>`(event_type = any (${names}) or event_config ?| ${names}::text[])`;
  const { routines, automations } = await db.batch({
    routines: db
      .selectFrom("agent_routines")
      .select(["id", "agent_id", "name", "event_type", "event_config", "heard_since", coOwner.as("user_id")])
      .where("status", "=", "active")
      .where(listens),
    automations: db
      .selectFrom("automations")
      .select(["id", "agent_id", "user_id", "event_type", "event_config", "heard_since"])
      .select(sql<string>`said ->> 'name'`.as("name"))
      .where("automation_type", "=", "trigger")
      .where(isLive(db))
      .where(listens),
  });
  const react = events.filter(({ name }) => names.includes(name));
  const fired: Record<Starting, Fired[]> = {
    agent_routine: firedOf(react, routines, ({ id, agent_id }) => ({
      ...{ id: newId("agent_routine_run"), routine_id: id, automation_id: null },
      ...{ agent_id, user_id: null },
    })),
    automation: firedOf(react, automations, ({ id, agent_id, user_id }) => ({
      ...{ id: newId("automation_run"), routine_id: null, automation_id: id },
      ...{ agent_id, user_id },
    })),
  };
  for (const kind of ["agent_routine", "automation"] as const) {
    for (let i = 0; i < fired[kind].length; i += MOST_MADE) {
      await make(db, kind, await Promise.all(fired[kind].slice(i, i + MOST_MADE).map(withShortKey)));
    }
  }
  return fired.agent_routine.length + fired.automation.length > 0;
}

/** What the events start of these, once for a key. */
function firedOf<R extends Parameters<typeof firing>[1] & { name: string }>(
  events: readonly Row<"events">[],
  reacting: readonly R[],
  runOf: (one: R) => Pick<Told, "id" | "agent_id" | "user_id" | "routine_id" | "automation_id">,
): Fired[] {
  const seen = new Set<string>();
  return events.flatMap((event) =>
    reacting.flatMap((one) => {
      const found = firing(event, one);
      if (!found) return [];
      const key = found.dedupe_key && `${one.id} ${found.dedupe_key}`;
      const again = key !== null && seen.has(key) ? "duplicate" : null;
      const { id: event_id, name: event_name, payload, causes } = event;
      const reason = found.reason ?? again;
      if (key && !reason) seen.add(key);
      return { ...found, ...runOf(one), name: one.name, event_id, event_name, payload, causes, reason };
    }),
  );
}

/** What is long is known by its hash: it is looked for. */
async function withShortKey<F extends { dedupe_key: string | null }>(fired: F): Promise<F> {
  const { dedupe_key: key } = fired;
  return key && key.length > MAX_KEY ? { ...fired, dedupe_key: await jsonHash(key) } : fired;
}

type Starting = "agent_routine" | "automation";
type Fired = Told & { dedupe_key: string | null; reason: string | null };
/** Where what starts stands, which column of its runs names it, and what they have of it. */
const starting = {
  agent_routine: {
    ...({ table: "agent_routines", column: "routine_id" } as const),
    columns: { agent_id: sql`agent_routines.agent_id`, routine_id: sql`agent_routines.id`, acl: wholeAcl },
  },
  automation: {
    ...({ table: "automations", column: "automation_id" } as const),
    columns: {
      ...{ agent_id: sql`automations.agent_id`, user_id: sql`automations.user_id` },
      automation_id: sql`automations.id`,
    },
  },
};

async function make(db: TenantDb, kind: Starting, fired: Fired[]): Promise<void> {
  const { table, column, columns } = starting[kind];
  const given = sql`jsonb_to_recordset(${JSON.stringify(fired)}::jsonb)`.as(
    sql`fired(id text, routine_id text, automation_id text, event_id text, event_name text, payload jsonb, causes jsonb,
      dedupe_key text, dedupe_window_s int, reason text)` as never,
  );
  const of = sql.ref(`fired.${column}`);
  const runs = db
    .selectFrom("agent_routine_runs")
    .where(sql<boolean>`${sql.ref(`agent_routine_runs.${column}`)} = ${of}`);
  const one = sql`1`.as("one");
  const made = runs.where(sql<boolean>`agent_routine_runs.event_id = fired.event_id`).select(one);
  const earlier = runs
    .where(sql<boolean>`agent_routine_runs.dedupe_key = fired.dedupe_key`)
    .where(sql<boolean>`agent_routine_runs.created_at > now() - make_interval(secs => fired.dedupe_window_s)`)
    .where("status", "<>", "skipped")
    .select(one);
  const reason = sql`coalesce(fired.reason, case when exists (${earlier}) then 'duplicate' end)`;
  const above = (db.selectFrom(table) as Rows<"automations">)
    .innerJoin(given, (join) => join.on(sql<boolean>`${of} = ${sql.ref(`${table}.id`)}`))
    .where(sql<boolean>`${sql.ref(`${table}.status`)} = 'active'`)
    .where(sql<boolean>`not exists (${made})`);
  const skipped = (then: RawBuilder<unknown>, otherwise: RawBuilder<unknown>) =>
    sql`case when ${reason} is null then ${otherwise} else ${then} end`;
  const insert = db.insertUnder(above as never, "agent_routine_runs", {
    ...{ id: sql`fired.id`, ...columns },
    ...{ event_id: sql`fired.event_id`, event_name: sql`fired.event_name`, payload: sql`fired.payload` },
    ...{ causes: sql`array(select jsonb_array_elements_text(fired.causes))`, dedupe_key: sql`fired.dedupe_key` },
    status: skipped(sql`'skipped'`, sql`'pending'`),
    worker_status: skipped(sql`'cancelled'`, sql`'queued'`),
    result: skipped(sql`jsonb_build_object('reason', ${reason})`, sql`null`),
    completed_at: skipped(sql`now()`, sql`null`),
  } as never);
  const told = fired.flatMap((run) => Object.entries(beginning(db, run)));
  await db.batch({ insert, ...Object.fromEntries(told) });
}

/** What is told of one that was made: of the row that is there now. */
function beginning(db: TenantDb, run: Fired): Record<string, Statement<unknown>> {
  const made = db.selectFrom("agent_routine_runs").where("agent_routine_runs.id", "=", run.id);
  const skipped = made.where("status", "=", "skipped");
  return {
    [`${run.id} created`]: turning(db, run, "created", made),
    ...((run.dedupe_key || run.reason) && {
      [`${run.id} skipped`]: turning(db, run, "skipped", skipped),
      [`${run.id} entry`]: entry(db, entryOf("skipped", run.name ?? run.id), skipped),
    }),
  };
}

/**
 * Lets pending runs of the place begin, as far as its quotas allow, agents in turn, while they `mayGoOn`. Answers when
 * there may be room again, in milliseconds; null: no run waits, or the end of another makes room. `isFresh`: this process
 * has admitted none yet, so that whatever is admitted and pending may have to be begun.
 */
export async function admitRuns(
  db: TenantDb,
  env: Bindings,
  mayGoOn: () => boolean,
  isFresh: boolean,
): Promise<number | null> {
  for (let round = 0; round < ROUNDS; round++) {
    const { quota, running, waiting, begun, unheard, orphans } = await look(db, isFresh);
    if (!mayGoOn()) return null;
    const { quotas } = quota[0]!;
    const { count, oldest } = begun[0]!;
    const { admission, reached } = admit(
      waiting.map(inTurn).sort((a, b) => (a.id < b.id ? -1 : 1)),
      running.map(inTurn),
      quotas,
      quotas.runs_started_per_minute - count,
    );
    const told = reached && reaching(db, reached.quota, quotas[reached.quota], reached.agent as Id<"agent"> | null);
    const settled = Object.values(admission).flat().length;
    const { admitted, stopping } =
      settled || told ? await settle(db, waiting, admission, told) : { admitted: [], stopping: [] };
    await forEach([...unheard, ...admitted], (row) => runsOf(env, row).start(row));
    await forEach([...stopping, ...orphans], (row) => runsOf(env, row).cancel(row));
    const left = waiting.length - settled;
    // None is left, nor any that wasn't seen: what comes from here on wakes anew.
    if (!left && waiting.length < MOST_OF_AN_AGENT) return null;
    if (!settled) {
      const isFast = count >= quotas.runs_started_per_minute && left > 0;
      return isFast ? Date.parse(oldest!) + MINUTE_MS : null;
    }
  }
  return Date.now();
}

/** An automation takes its turn as agents do, and what overlaps there is its own. */
const inTurn = <R extends Pick<RunRow, "agent_id" | "routine_id" | "automation_id">>(run: R) => ({
  ...run,
  agent_id: (run.automation_id ?? run.agent_id)!,
  routine_id: run.automation_id ?? run.routine_id,
});

/** What waits, what runs, and what may. */
async function look(db: TenantDb, isFresh: boolean) {
  const runs = db.selectFrom("agent_routine_runs");
  const of = [sql.ref("routine_id"), sql.ref("automation_id")] as const;
  const policy = sql`(coalesce(${db.valueOf("agent_routines", "event_config", of[0])},
    ${db.valueOf("automations", "event_config", of[1])}) -> event_name)`;
  const name = sql<string | null>`coalesce(${db.valueOf("agent_routines", "name", of[0])},
    ${db.valueOf("automations", "said", of[1])} ->> 'name')`;
  // What the clock starts its Scheduler has judged already; whom it takes the place of ends here.
  const overlap = sql<Overlap>`case when event_name <> ${CRON_EVENT} then coalesce(${policy} ->> 'overlap', 'allow_all')
    when payload ->> 'overlap' = 'cancel_other' then 'cancel_other' else 'allow_all' end`;
  const open = runs.where("status", "in", ["pending", "running"]);
  // Of each agent some of each of its routines: those that wait for one of their own hold up no other.
  const waiting = open.where("status", "=", "pending").where("admitted_at", "is", null);
  const ofRoutine = sql<number>`row_number() over (partition by coalesce(automation_id, routine_id, id) order by id)`;
  const turns = waiting.select(["id", "agent_id", "automation_id", ofRoutine.as("turn")]);
  const first = sql<{ id: string; nth: number }>`(select id, row_number() over
    (partition by coalesce(automation_id, agent_id) order by turn, id) as nth from (${turns}) turns)`.as("first");
  return db.batch({
    quota: quotasOf(db),
    running: open.where("admitted_at", "is not", null).select(["id", "agent_id", "routine_id", "automation_id"]),
    waiting: runs
      .innerJoin(first, "first.id", "agent_routine_runs.id")
      .select(["agent_routine_runs.id", "agent_id", "routine_id", "automation_id", "user_id", "causes"])
      .select([overlap.as("overlap"), name.as("name")])
      // What was written before it was looked at may be anything.
      .select(
        sql<number | null>`case when jsonb_typeof(${policy} -> 'max_concurrent') = 'number'
        then floor((${policy} ->> 'max_concurrent')::numeric) end`.as("max_concurrent"),
      )
      .where("nth", "<=", MOST_OF_AN_AGENT)
      .orderBy("nth")
      .orderBy("agent_routine_runs.id")
      .limit(MOST_WAITING),
    begun: runs
      .where(sql<boolean>`admitted_at > now() - interval '1 minute'`)
      .select([sql<number>`count(*)::int`.as("count"), sql<string | null>`min(admitted_at)`.as("oldest")]),
    // Its automation went with its config: nobody is there who could end it, or decide what it waits for.
    orphans: open
      .where("admitted_at", "is not", null)
      .where("automation_id", "is not", null)
      .where(sql<boolean>`${db.valueOf("automations", "id", of[1])} is null`)
      .selectAll()
      .limit(MOST_WAITING),
    // Admitted, and then the process ended: its object hasn't heard of it, or has yet to say so. Of another process all are.
    unheard: open
      .where("status", "=", "pending")
      .where(sql<boolean>`admitted_at < now() - make_interval(secs => ${isFresh ? 0 : 2})`)
      .selectAll()
      .limit(MOST_WAITING),
  });
}

/** Writes down what becomes of them, each but once: somebody may have cancelled one meanwhile. */
async function settle(
  db: TenantDb,
  found: readonly Told[],
  { admitted, skipped, cancelled }: Admission,
  reached: Statement<unknown> | null,
) {
  const among = (ids: string[]) => sql<boolean>`id = any (${ids})`;
  const waiting = (ids: string[]) => (set: Record<string, unknown>) =>
    db
      .updateTable("agent_routine_runs")
      .set({ ...set, updated_at: sql`now()` } as never)
      .where(among(ids))
      .where("status", "=", "pending")
      .where("admitted_at", "is", null);
  const over = { worker_status: "cancelled", completed_at: sql`now()`, look_at: null };
  // Told of a row as it was before. What has begun tells of its own end.
  const ends = [skipped, cancelled].flatMap((ids, i) =>
    found
      .filter(({ id }) => ids.includes(id))
      .flatMap((run) => Object.entries(ending(db, run, i ? "cancelled" : "skipped"))),
  );
  const stopping = db.selectFrom("agent_routine_runs").selectAll().where("admitted_at", "is not", null);
  const done = await db.batch({
    ...Object.fromEntries(ends),
    ...(reached && { reached }),
    admitted: waiting(admitted)({
      admitted_at: sql`now()`,
      look_at: sql`now() + interval '45 seconds'`,
    }).returningAll(),
    skipped: waiting(skipped)({ ...over, status: "skipped", result: '{"reason": "overlap"}' }),
    cancelled: waiting(cancelled)({ ...over, status: "cancelled" }),
    stopping: stopping.where(among(cancelled)),
  });
  return { admitted: done.admitted as RunRow[], stopping: done.stopping as RunRow[] };
}

type Told = Parameters<typeof turning>[1] & { name: string | null };
/** What is told of one that never began. */
function ending(db: TenantDb, run: Told, status: "skipped" | "cancelled") {
  const runs = db.selectFrom("agent_routine_runs").where("agent_routine_runs.id", "=", run.id);
  const before = runs.where("status", "=", "pending").where("admitted_at", "is", null);
  return {
    [`${run.id} turns`]: turning(db, run, status, before),
    [`${run.id} entry`]: entry(db, entryOf(status, run.name ?? run.id), before),
  };
}
