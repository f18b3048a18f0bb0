import { type RawBuilder, sql } from "kysely";
import { listChildrenOf, passesOwn, reachChild } from "../agents/children.ts";
import { lookupKeyShape } from "../agents/schema.ts";
import { passes, type Reached, wholeAcl } from "../auth/acl.ts";
import { isLive, mayConfig } from "../configs/access.ts";
import type { RunId } from "../db/schema.ts";
import { mustHold, type Rows } from "../db/statements.ts";
import type { Telling, TenantDb } from "../db/tenant-db.ts";
import { ApiError, invalid, notFound, refused, unprocessable } from "../errors.ts";
import { emitting } from "../events/emit.ts";
import { type Id, isId, newId } from "../ids.ts";
import type { CursorPage } from "../paging.ts";
import { readersOfRun } from "../runs/project.ts";
import { withOutcome } from "../sessions/queries.ts";
import type { CallRow, ListCalls } from "../sessions/schema.ts";
import type { Invoke, RunRow } from "./schema.ts";

type Runs = Rows<"agent_routine_runs">;
const INVOKED = "agentroutine.invoked";
/** What a run of an automation is of that was invoked: no event tells of it but the run's own. */
export const AUTOMATION_INVOKED = "automation.invoked";
/** Of a message, in characters, what its event tells. */
const MAX_TOLD = 2_000;

/** Those whose routine the viewer may read, where there still is one. */
function ofReadable(db: TenantDb, runs: Runs): Runs {
  const hidden = db.selectFrom("agent_routines").where(sql<boolean>`${passesOwn(db, "readers")} is not true`);
  const routine = hidden.where(sql<boolean>`agent_routines.id = agent_routine_runs.routine_id`);
  return runs.where(sql<boolean>`not exists (${routine.select(sql`1`.as("one"))})`);
}
const withStatus = (status: RunRow["status"] | undefined) => (runs: Runs) =>
  status ? runs.where("status", "=", status) : runs;

/** Those of these agents, or of all, that the viewer may read: see `listChildrenOf`. */
export const listRuns = (
  db: TenantDb,
  { agent, status }: { agent?: string[] | undefined; status?: RunRow["status"] | undefined },
  page: CursorPage,
): Promise<RunRow[]> =>
  listChildrenOf(db, "agent_routine_run", agent, page, {
    narrow: (runs) => withStatus(status)(ofReadable(db, runs)).where("automation_id", "is", null),
  });

/** Those of a routine, newest first. */
export function listRunsOf(
  db: TenantDb,
  id: Id<"agent_routine">,
  { status }: { status?: RunRow["status"] | undefined },
  page: CursorPage,
): Promise<RunRow[]> {
  const routine = reachChild(db, "agent_routine", id, "read");
  const runs = routine.db.selectFrom("agent_routine_runs").where(passesOwn(db, "readers"));
  return routine.db.pageByCursor(withStatus(status)(runs.where("routine_id", "in", routine.rows.select("id"))), page);
}

/** Whose run it is, as its id says. */
type RunKind = "agent_routine_run" | "automation_run";
const kindOf = (id: RunId): RunKind => (isId("automation_run", id) ? "automation_run" : "agent_routine_run");

/** A run, and the database behind who may read or write it: of an automation those who may its config. See `reach`. */
function reachRun(db: TenantDb, id: RunId, action: "read" | "write"): Reached<"agent_routine_runs"> {
  if (isId("agent_routine_run", id)) {
    const { db: behind, rows } = reachChild(db, "agent_routine_run", id, action);
    return { db: behind, rows: ofReadable(db, rows) };
  }
  const runs = db.selectFrom("agent_routine_runs").where("agent_routine_runs.id", "=", id);
  const of = (may: "read" | "write") => db.selectFrom("configs").select("configs.id").where(mayConfig(db, may));
  const writable = sql<boolean>`(automation_id in (${of("write")})) is true`;
  const readable = runs.where("automation_id", "in", of("read"));
  const may = action === "read" ? sql<boolean>`true` : writable;
  const gate = sql`select app.must_reach('automation_run', (${readable.select(may.as("may"))}))`;
  return { db: db.behind(gate), rows: readable.where(may) };
}

/** 404 unless the viewer may read the run and what it is of; to write, 403 where it may only be read. */
export async function getRun(db: TenantDb, id: RunId, action: "read" | "write" = "read"): Promise<RunRow> {
  const { db: behind, rows } = reachRun(db, id, action);
  const { run } = await behind.batch({ run: rows.selectAll() });
  if (!run[0]) throw notFound(kindOf(id));
  return run[0] as RunRow;
}

/** What the feed tells of a run: see `readersOfRun`. */
export const tellingRun = (db: TenantDb, kind: RunKind, event: "created" | "updated"): Telling => ({
  kind: `${kind}.${event}`,
  title: sql`${`${kind === "automation_run" ? "Automation" : "Routine"} run ${event}: `} || id`,
  agent_id: sql`agent_id`,
  readers: readersOfRun(db, "changed"),
});

/** The id of a routine that an address names, by it or by a lookup_key that one routine has of those that the viewer may read. */
function named(db: TenantDb, name: string): Id<"agent_routine"> {
  if (isId("agent_routine", name)) return name;
  if (!lookupKeyShape.test(name)) throw notFound("agent_routine");
  const agents = db.selectFrom("agents").select("agents.id").where(passes(db.viewer, "readers"));
  const routines = db
    .selectFrom("agent_routines")
    .where("lookup_key", "=", name)
    .where(passesOwn(db, "readers"))
    .where("agent_id", "in", agents);
  return sql`(${routines.select(sql`min(id)`.as("id")).having(sql<boolean>`count(*) = 1`)})` as never;
}

/**
 * Why the routine can't be invoked so, as SQL over its columns; null where it can. A session is somebody's, a key's or
 * everybody's, and who invokes must say whose.
 */
const refusalOf = (user: unknown, key: unknown): RawBuilder<string | null> => sql`case
  when status <> 'active' then 'not_active'
  when not coalesce(event_type = ${INVOKED}, false) and not coalesce(event_config ? ${INVOKED}, false) then 'not_invocable'
  when handler_type = 'preset' and preset_config ->> 'session_mode' = 'session' then
    case coalesce(preset_config ->> 'session_scope', 'per_user')
      when 'per_user' then case when ${Boolean(user)} then null else 'user' end
      when 'per_key' then case when ${Boolean(key)} then null else 'session_key' end
    end
  end`;

const refusals: Record<string, () => ApiError> = {
  not_active: () => unprocessable("not_active", "Only an active routine can be invoked. Activate it first."),
  not_invocable: () =>
    unprocessable("not_invocable", `Only a routine that the event ${INVOKED} starts can be invoked.`),
  user: () => invalid({ field: "user", message: "is required: the routine's sessions are each of one user" }),
  session_key: () =>
    invalid({ field: "session_key", message: "is required: the routine's sessions are each of one key" }),
};

/**
 * Records that a routine is to run: pending, until something runs it. By who may read the routine. A key makes one run:
 * while it is pending or running, it is answered again, and once it is completed the key is spent (409); one that failed,
 * was skipped or cancelled leaves it free. 422 where the routine can't be invoked.
 */
export async function invokeRoutine(
  db: TenantDb,
  name: string,
  { idempotency_key, message, session_key, participants, metadata, ...body }: Invoke,
): Promise<RunRow> {
  const routine = reachChild(db, "agent_routine", named(db, name), "read");
  const user = db.viewer.kind === "user" ? db.viewer.user : (body.user ?? null);
  const refusal = refusalOf(user, session_key);
  const runs = db.selectFrom("agent_routine_runs");
  const spent = idempotency_key
    ? runs
        .where("routine_id", "in", routine.rows.select("id"))
        .where("idempotency_key", "=", idempotency_key)
        .where("status", "in", ["pending", "running", "completed"])
    : runs.where(sql.lit(false));
  const able = routine.rows
    .where(sql<boolean>`${refusal} is null`)
    .where(sql<boolean>`not exists (${spent.select(sql`1`.as("one"))})`);
  const id = newId("agent_routine_run");
  const run = routine.db.insertUnder(able, "agent_routine_runs", {
    id,
    agent_id: sql`agent_routines.agent_id`,
    routine_id: sql`agent_routines.id`,
    user_id: user,
    idempotency_key: idempotency_key ?? null,
    payload: JSON.stringify({ message, ...(session_key && { session_key }), ...(user && { user }) }),
    participants: participants ? JSON.stringify(participants) : null,
    metadata: JSON.stringify(metadata ?? {}),
    acl: wholeAcl,
  });
  const invoke = () =>
    withParticipants(routine, participants).batch({
      made: db.telling(run, tellingRun(db, kindOf(id), "created")),
      told: invoked(db, id, { message: message.slice(0, MAX_TOLD), user, session_key }),
      before: spent.where(passesOwn(db, "readers")).selectAll(),
      why: routine.rows.select(refusal.as("why")),
    });
  const { made, before, why } = await invoke().catch((error) => {
    // Made by another request with this key, at this moment: now it is there to be seen.
    if (error instanceof ApiError && error.fields[0]?.field === "idempotency_key") return invoke();
    throw error;
  });
  if (made[0]) return made[0];
  const [held] = before as RunRow[];
  if (held && held.status !== "completed") return held;
  if (held) throw refused("already_completed", "A run of this routine was completed under this idempotency key.");
  throw (refusals[why[0]?.why ?? ""] ?? (() => notFound("agent_routine")))();
}

/** The event that a routine was invoked: it starts no other run than this one. */
const invoked = (
  db: TenantDb,
  id: RunId,
  said: { message?: string; user: string | null; session_key?: string | null | undefined },
) =>
  emitting(db, db.selectFrom("agent_routine_runs").where("agent_routine_runs.id", "=", id), {
    name: INVOKED,
    payload: {
      ...Object.fromEntries(Object.entries(said).filter(([, value]) => value != null)),
      ...{ run: id, agent: sql<string>`agent_routine_runs.agent_id`, routine: sql<string>`routine_id` },
    },
    agent_id: sql`agent_routine_runs.agent_id`,
    readers: readersOfRun(db, "agent_routine_runs"),
  });

/**
 * Makes a run of what another was made of, by who may change it: of an automation that wasn't invoked as whom that ran as,
 * else a person runs it for itself. 422 where its routine or automation isn't active.
 */
export async function retryRun<I extends RunId>(db: TenantDb, of: I, id: I): Promise<RunRow> {
  const child = reachRun(db, of, "write");
  const one = sql`1`.as("one");
  const routine = db
    .selectFrom("agent_routines")
    .where(sql<boolean>`agent_routines.id = agent_routine_runs.routine_id`)
    .where(sql<boolean>`agent_routines.status = 'active'`);
  const automation = db
    .selectFrom("automations")
    .where(sql<boolean>`automations.id = agent_routine_runs.automation_id`)
    .where(isLive(db));
  const able = child.rows.where(sql<boolean>`(exists (${routine.select(one)}) or exists (${automation.select(one)}))`);
  const own = (column: string) => sql.ref(`agent_routine_runs.${column}`) as never;
  const user = db.viewer.kind === "user" ? db.viewer.user : null;
  const isOwn = sql`(${user}::text is not null and (automation_id is null or event_name = ${AUTOMATION_INVOKED}))`;
  const run = child.db.insertUnder(able, "agent_routine_runs", {
    ...{ id, routine_id: own("routine_id"), automation_id: own("automation_id"), event_name: own("event_name") },
    agent_id: sql`case when ${isOwn} and automation_id is not null then null else ${own("agent_id")} end`,
    ...{ payload: own("payload"), participants: own("participants"), metadata: own("metadata"), acl: own("acl") },
    user_id: sql`case when ${isOwn} then ${user}::text else ${own("user_id")} end`,
  } as never);
  const { made } = await child.db.batch({
    made: child.db.telling(run, tellingRun(db, kindOf(id), "created")),
    ...(isId("agent_routine_run", id) && { told: invoked(db, id, { user }) }),
  });
  if (made[0]) return made[0] as RunRow;
  throw unprocessable("not_active", "Only a run of what is active can be retried. Activate that first.");
}

/** Cancels a run that waits for room, of which its object has not heard yet; of any other answers the row as it is. */
export async function cancelRun(db: TenantDb, id: RunId): Promise<RunRow> {
  const { db: behind, rows } = reachRun(db, id, "write");
  const waiting = behind
    .patch("agent_routine_runs", {
      ...{ status: "cancelled", worker_status: "cancelled", look_at: null, completed_at: sql<string>`now()` },
    })
    .where(sql<boolean>`id in (${rows.select("id")})`)
    .where("status", "=", "pending")
    .where("admitted_at", "is", null);
  const { run } = await behind.batch({
    cancelled: behind.telling(waiting, { ...tellingRun(db, kindOf(id), "updated"), metadata: { fields: ["status"] } }),
    run: rows.selectAll(),
  });
  if (!run[0]) throw notFound(kindOf(id));
  return run[0] as RunRow;
}

/** What a run has asked of the world, newest first. */
export function listCommands(db: TenantDb, id: RunId, query: ListCalls, page: CursorPage): Promise<CallRow[]> {
  const run = reachRun(db, id, "read");
  const calls = run.db.selectFrom("tool_calls").where("routine_run_id", "in", run.rows.select("id"));
  return run.db.pageByCursor(withOutcome(calls, query), page);
}

/** Behind a look whether the viewer may read all of them. */
function withParticipants(
  { db, rows }: Reached<"agent_routines">,
  participants: Record<string, unknown> | null | undefined,
): TenantDb {
  const ids = Object.values(participants ?? {}) as string[];
  if (!ids.length) return db;
  const one = sql`1`.as("one");
  const agents = db.selectFrom("agents").where(sql<boolean>`id = one.id`).where(passes(db.viewer, "readers"));
  // A key holds all orgs: whom it names is of the routine's own. Of one that isn't there nothing is said.
  const there = agents.where(sql<boolean>`org_id in (${rows.select("org_id")})`).select(one);
  const missing = sql`select from unnest(${ids}::text[]) as one (id)
    where exists (${rows.select(one)}) and not exists (${there})`;
  return db.behind(mustHold(sql`not exists (${missing})`, "participants", "names an agent that is not there"));
}
