/** The Scheduler's two round trips: what there is to do, and the statement that does it. */
import { type RawBuilder, sql } from "kysely";
import * as v from "valibot";
import { telling } from "../agents/children.ts";
import { wholeAcl } from "../auth/acl.ts";
import type { OccurrenceOutcome, Overlap, Row, ScheduleStatus } from "../db/schema.ts";
import type { Rows, Statement } from "../db/statements.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { CRON_EVENT } from "../events/trigger.ts";
import { newId } from "../ids.ts";
import type { Kind } from "../kinds.ts";
import { tellingRun } from "../routine-runs/queries.ts";
import type { SessionRow } from "../sessions/remote.ts";
import { createSessionBody } from "../sessions/schema.ts";
import { ofWhat, waitingOf, waits } from "./queries.ts";
import { type Scheduled, scheduled } from "./rule.ts";

/** So many of each kind are looked at in a turn: a row is as long as its instructions, and the first wait for no last. */
export const MOST_DUE = 300;
const MOST_SETTLED = 500;

type Meets = { busy: boolean; waiting: number };
export type DueSchedule = Row<"agent_schedules"> & Meets;
export type DueRoutine = Row<"agent_routines"> & Meets;
export type DueAutomation = Row<"automations"> & Meets;
export type Waiting = Row<"occurrences"> & Meets & { gone: boolean };
export type Found = {
  agent_schedule: DueSchedule[];
  agent_routine: DueRoutine[];
  automation: DueAutomation[];
  waiting: Waiting[];
  /** When the next one is due that isn't among them. */
  next: string | null;
};

const isRunning = (kind: "agent_routine" | "automation") => (db: TenantDb, id: RawBuilder<unknown>) =>
  sql<boolean>`exists (${db
    .selectFrom("agent_routine_runs")
    .where(sql<boolean>`${sql.ref(`agent_routine_runs.${scheduled[kind].column}`)} = ${id}`)
    .where(sql<boolean>`agent_routine_runs.planned_at is not null and status in ('pending', 'running')`)
    .select(sql`1`.as("one"))})`;
const isOpen = {
  agent_schedule: (db: TenantDb, id: RawBuilder<unknown>) =>
    sql<boolean>`exists (${db
      .selectFrom("agent_sessions")
      .where(sql<boolean>`agent_sessions.schedule_id = ${id} and status in ('pending', 'running', 'waiting')`)
      .select(sql`1`.as("one"))})`,
  agent_routine: isRunning("agent_routine"),
  automation: isRunning("automation"),
};
const countOf = (db: TenantDb, id: RawBuilder<unknown>) =>
  sql<number>`(${waitingOf(db, id).select(sql<number>`count(*)::int`.as("n"))})`;

/** All that is due, and all that waits and could begin, the oldest first, up to a bound of each; in one round trip. */
export async function look(db: TenantDb, now: number): Promise<Found> {
  const at = new Date(now).toISOString();
  const due = (kind: Scheduled) => {
    const { table } = scheduled[kind];
    return (db.selectFrom(table) as Rows<"agent_routines">)
      .selectAll()
      .select(isOpen[kind](db, sql.ref(`${table}.id`)).as("busy"))
      .select(countOf(db, sql.ref(`${table}.id`)).as("waiting"))
      .where("due_at", "<=", at)
      .orderBy("due_at")
      .limit(MOST_DUE);
  };
  const of = {
    ...{ schedule: sql.ref("occurrences.schedule_id"), routine: sql.ref("occurrences.routine_id") },
    automation: sql.ref("occurrences.automation_id"),
  };
  const schedule = db.selectFrom("agent_schedules").where(sql<boolean>`agent_schedules.id = ${of.schedule}`);
  const routine = db.selectFrom("agent_routines").where(sql<boolean>`agent_routines.id = ${of.routine}`);
  const automation = db.selectFrom("automations").where(sql<boolean>`automations.id = ${of.automation}`);
  const busy = sql<boolean>`case when ${of.schedule} is not null then ${isOpen.agent_schedule(db, of.schedule)}
    when ${of.routine} is not null then ${isOpen.agent_routine(db, of.routine)}
    else ${isOpen.automation(db, of.automation)} end`;
  const one = sql`1`.as("one");
  const gone = sql<boolean>`not exists (${schedule.where("status", "<>", "cancelled").select(one)})
    and not exists (${routine.select(one)}) and not exists (${automation.select(one)})`;
  const ahead = waitingOf(db, ofWhat("above"));
  const waiting = db.running<Waiting>(sql`select * from (select above.*, ${countOf(db, ofWhat("above"))}
      as waiting from (${db
        .selectFrom("occurrences")
        .selectAll()
        .select(busy.as("busy"))
        .select(gone.as("gone"))
        .where(waits)}) as above) as above
    where gone or not busy or overlap in ('skip', 'cancel_other', 'allow_all') or (overlap = 'buffer_one'
      and exists (${ahead.where(sql<boolean>`(planned_at, id) < (above.planned_at, above.id)`).select(sql`1`.as("one"))}))
    order by planned_at, id limit ${MOST_SETTLED}`);
  const later = ({ table }: (typeof scheduled)[Scheduled]) =>
    sql`(${(db.selectFrom(table) as Rows<"agent_routines">).where("due_at", ">", at).select(sql`min(due_at)`.as("at"))})`;
  const found = await db.batch({
    agent_schedule: due("agent_schedule"),
    agent_routine: due("agent_routine"),
    automation: due("automation"),
    waiting,
    next: db.running<{ at: string | null }>(sql`select least(${sql.join(Object.values(scheduled).map(later))}) as at`),
  });
  return { ...(found as unknown as Omit<Found, "next">), next: found.next[0]!.at };
}

/** The open sessions of these schedules. */
export const openOf = (db: TenantDb, schedules: readonly string[]): Promise<SessionRow[]> =>
  db
    .selectFrom("agent_sessions")
    .selectAll()
    .where(sql<boolean>`schedule_id = any (${schedules}::text[])`)
    .where("status", "in", ["pending", "running", "waiting"])
    .execute() as Promise<SessionRow[]>;

/** Sessions of schedules that nobody has begun for a while: of a Scheduler that ended in between. */
export const unbegun = (db: TenantDb, most: number): Promise<SessionRow[]> =>
  db
    .selectFrom("agent_sessions")
    .selectAll()
    .where(sql<boolean>`schedule_id is not null and status = 'pending' and created_at < now() - interval '2 seconds'`)
    .limit(most)
    .execute() as Promise<SessionRow[]>;

/** A row that goes on from the instant that it was planned for; `was` and `seen` say which one was looked at. */
export type Move = {
  id: string;
  was: string | null;
  seen: string;
  next_run_at: string | null;
  status: ScheduleStatus | null;
  ran: number;
};
export type Come = { of: string; planned_at: string; outcome: OccurrenceOutcome; overlap: Overlap };
export type Settled = { id: string; outcome: OccurrenceOutcome };
export type Work = { moves: Move[]; comes: Come[]; settled: Settled[] };

/** An outcome with which something begins. */
const begins = (outcome: OccurrenceOutcome) => outcome === "fired" || outcome === "backfilled";
const records = (items: object[], columns: string) =>
  sql`jsonb_to_recordset(${JSON.stringify(items)}::jsonb) as item (${sql.raw(columns)})`;

/** An id of its own for each row, of which there are at most so many. */
const idsOf = (kind: Kind, most: number) =>
  sql`(${Array.from({ length: most }, () => newId(kind))}::text[])[row_number() over ()]`;

/** What tells of the rows of a part of the statement, of which there are at most so many: entries of the feed, and events. */
function told(
  db: TenantDb,
  part: string,
  kind: "agent_schedule" | "agent_session" | "agent_routine_run" | "automation_run",
  most: number,
) {
  const event = kind === "agent_schedule" ? "updated" : "created";
  const {
    kind: name,
    title,
    agent_id,
    readers,
  } = kind === "automation_run" ? tellingRun(db, kind, "created") : telling(db, kind, event);
  const ids = (of: "activity_feed_entry" | "event") =>
    idsOf(of, of === "event" && kind === "agent_schedule" ? 2 * most : most);
  const rows = sql`${sql.ref(part)} as changed`;
  // What has ended was changed and, behind that, is in the state that it has come to.
  const state = kind === "agent_schedule" ? sql`, (2, 'agent_schedule.' || c.status)` : sql``;
  const named = sql`(select c.*, n.told_name from ${sql.ref(part)} c
    cross join lateral (values (1, ${name}::text)${state}) n (nth, told_name) order by n.nth) as changed`;
  const about = { agent_id: agent_id!, readers: readers! };
  return sql`${sql.ref(`${part}_entries`)} as (${db.insertFrom("changed", rows, "activity_feed_entries", {
    ...{ id: ids("activity_feed_entry"), kind: sql`${name}`, title, ...about, metadata: sql`'{"actor": null}'` },
  })}), ${sql.ref(`${part}_events`)} as (${db.insertFrom("changed", named, "events", {
    ...{ id: ids("event"), name: sql`told_name`, ...about },
    payload: sql`jsonb_strip_nulls(jsonb_build_object('id', id, 'agent', agent_id, 'status', status${
      kind === "automation_run" ? sql`, 'automation', automation_id` : sql``
    }))`,
  })})${kind === "automation_run" || kind === "agent_routine_run" ? comeEvents(db, part, kind, ids("event"), about) : sql``}`;
}

/** That a schedule has come to its time: its run was made with it, and the event starts no other. */
function comeEvents(
  db: TenantDb,
  part: string,
  kind: "agent_routine_run" | "automation_run",
  id: RawBuilder<unknown>,
  about: Record<string, RawBuilder<unknown>>,
) {
  const of = kind === "automation_run" ? "automation" : "agent_routine";
  const { table, column } = scheduled[of];
  const name = of === "automation" ? "workflow.scheduled" : CRON_EVENT;
  return sql`, ${sql.ref(`${part}_come`)} as (${db.insertFrom("changed", sql`${sql.ref(part)} as changed`, "events", {
    ...{ id, name: sql`${name}`, ...about },
    payload: sql`jsonb_strip_nulls(jsonb_build_object(${of.replace("agent_", "")}::text, ${sql.ref(column)},
      'planned_at', to_char(planned_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
      'timezone', ${db.valueOf(table, "event_config", sql.ref(column))} -> ${CRON_EVENT} -> 'timezone'))`,
  })})`;
}

/** Of a session that nobody said more of. */
const { max_turns, max_tokens, max_runs_per_turn } = v.parse(createSessionBody, { agent: "-", instructions: "-" });

/**
 * Does it, as one statement for each kind: each row goes on, unless it isn't any more at the instant that was looked at;
 * its occurrences are written with it, and whatever begins with them. Answers what begins.
 */
export async function claim(db: TenantDb, work: Record<Scheduled, Work>) {
  const { schedules, routines, automations } = await db.batch({
    schedules: claiming(db, "agent_schedule", work.agent_schedule),
    routines: claiming(db, "agent_routine", work.agent_routine),
    automations: claiming(db, "automation", work.automation),
  });
  return { sessions: schedules as SessionRow[], runs: [...routines, ...automations] as Row<"agent_routine_runs">[] };
}

/** What an occurrence begins. */
const begunAs = {
  ...({ agent_schedule: "agent_session", agent_routine: "agent_routine_run" } as const),
  automation: "automation_run",
} as const;

function claiming(db: TenantDb, kind: Scheduled, { moves, comes, settled }: Work): Statement<unknown> {
  if (!moves.length && !settled.length) return db.running(sql`select where false`);
  const { table, column } = scheduled[kind];
  const isSchedule = kind === "agent_schedule";
  const begins_as = begunAs[kind];
  const begun = isSchedule ? "session_id" : "run_id";
  const withIds = <O extends { outcome: OccurrenceOutcome }>(items: O[]) =>
    items.map((item) => ({
      ...item,
      ...(begins(item.outcome) && {
        fired: true,
        begun: newId(begins_as),
      }),
    }));
  const planned = withIds(comes.map((come) => ({ id: newId("occurrence"), ...come })));
  const freed = withIds(settled);
  const most = [...planned, ...freed].filter(({ fired }) => fired).length;
  const extra = "fired boolean, begun text";

  const moved = db.updateEach(
    table,
    records(moves, "id text, was timestamptz, seen timestamptz, next_run_at timestamptz, status text, ran integer"),
    {
      next_run_at: sql`item.next_run_at`,
      ...(isSchedule && {
        status: sql`item.status`,
        run_count: sql`agent_schedules.run_count + item.ran`,
        last_run_at: sql`case when item.ran > 0 then now() else agent_schedules.last_run_at end`,
        updated_at: sql`now()`,
      }),
    },
    sql`${sql.ref(table)}.next_run_at is not distinct from item.was and ${sql.ref(table)}.updated_at = item.seen
      and ${sql.ref(table)}.status in ('active', ${isSchedule ? "paused" : "active"})`,
  );
  const come = db.insertFrom(
    "above",
    sql`moved as above join ${records(planned, `id text, "of" text, planned_at timestamptz, outcome text, overlap text, ${extra}`)}
      on item.of = above.id`,
    "occurrences",
    {
      id: sql`item.id`,
      // An automation's go with no agent.
      agent_id: kind === "automation" ? sql`null` : sql`above.agent_id`,
      [column]: sql`above.id`,
      ...{ planned_at: sql`item.planned_at`, outcome: sql`item.outcome`, overlap: sql`item.overlap` },
      fired_at: sql`case when item.fired then now() end`,
      [begun]: sql`item.begun`,
    },
  );
  const free = db.updateEach(
    "occurrences",
    records(freed, `id text, outcome text, ${extra}`),
    {
      outcome: sql`case when item.fired and occurrences.outcome = 'backfilled' then 'backfilled' else item.outcome end`,
      fired_at: sql`case when item.fired then now() end`,
      [begun]: sql`item.begun`,
    },
    waits,
  );
  // Each looks its own up by its key: PostgreSQL guesses one row, and would look all through for each. By a column, since
  // of more than that, `coalesce` among it, row-level security lets no index be asked.
  const own = db.selectFrom(table).where(sql<boolean>`${sql.ref(`${table}.id`)} = ${sql.ref(`fired.${column}`)}`);
  const whole = sql`fired cross join lateral (${own.selectAll().limit(1)}) as above`;
  const begin = isSchedule
    ? db.insertFrom("above", whole, "agent_sessions", {
        id: sql`fired.session_id`,
        agent_id: sql`above.agent_id`,
        schedule_id: sql`above.id`,
        trajectory_id: idsOf("trajectory", most),
        instructions: sql`above.instructions`,
        ...{ max_turns: sql`${max_turns}::int`, max_tokens: sql`${max_tokens}::int` },
        max_runs_per_turn: sql`${max_runs_per_turn}::int`,
        ...{ start_idle: sql`false`, on_idle: sql`'complete'`, metadata: sql`'{}'` },
      })
    : db.insertFrom("above", whole, "agent_routine_runs", {
        id: sql`fired.run_id`,
        [column]: sql`above.id`,
        // Whom an automation acts as may be gone: then its run is skipped.
        agent_id: kind === "automation" ? db.valueOf("agents", "id", sql`above.agent_id`) : sql`above.agent_id`,
        user_id: kind === "automation" ? db.valueOf("users", "id", sql`above.user_id`) : sql`above.user_id`,
        event_name: sql`${CRON_EVENT}`,
        planned_at: sql`fired.planned_at`,
        payload: sql`jsonb_build_object('schedule', above.schedule, 'planned_at', fired.planned_at, 'overlap', fired.overlap)`,
        ...(kind === "agent_routine" && { acl: wholeAcl }),
      });
  return db.running(sql`with moved as (${moved}),
    come as (${come} on conflict do nothing returning *),
    freed as (${free}),
    fired as (select * from come where fired_at is not null union all select * from freed where fired_at is not null),
    begun as (${begin} on conflict do nothing returning *), ${told(db, "begun", begins_as, most)}
    ${
      isSchedule
        ? sql`, ended as (select * from moved where status <> 'active'), ${told(db, "ended", "agent_schedule", moves.length)}`
        : sql``
    }
    select * from begun`);
}
