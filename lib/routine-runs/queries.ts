import { type RawBuilder, sql } from "kysely";
import { listChildrenOf, passesOwn, reachChild, telling } from "../agents/children.ts";
import { lookupKeyShape } from "../agents/schema.ts";
import { passes } from "../auth/acl.ts";
import { mustHold, type Rows } from "../db/statements.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { ApiError, invalid, notFound, refused, unprocessable } from "../errors.ts";
import { type Id, isId, newId } from "../ids.ts";
import type { CursorPage } from "../paging.ts";
import type { Invoke, RunRow } from "./schema.ts";

type Runs = Rows<"agent_routine_runs">;
const INVOKED = "agentroutine.invoked";

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
  listChildrenOf(db, "agent_routine_run", agent, page, { narrow: (runs) => withStatus(status)(ofReadable(db, runs)) });

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

/** 404 unless the viewer may read the run, its routine and its agent. */
export async function getRun(db: TenantDb, id: Id<"agent_routine_run">): Promise<RunRow> {
  const { db: behind, rows } = reachChild(db, "agent_routine_run", id, "read");
  const { run } = await behind.batch({ run: ofReadable(db, rows).selectAll() });
  if (!run[0]) throw notFound("agent_routine_run");
  return run[0] as RunRow;
}

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

/** Who passes a routine's list, as a list: whom it names, and the user whose the routine is. */
export const wholeAcl = sql<string | null>`app.acl_patch(acl, case when acl is null or user_id is null then '[]' else
  jsonb_build_array(jsonb_build_object('principal_type', 'user', 'principal', user_id, 'actions', '["read", "write"]'::jsonb))
  end, '[]')`;

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
  const user = db.viewer.kind === "token" ? db.viewer.user : (body.user ?? null);
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
  const run = routine.db.insertUnder(able, "agent_routine_runs", {
    id: newId("agent_routine_run"),
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
    withParticipants(routine.db, participants).batch({
      made: db.telling(run, telling(db, "agent_routine_run", "created")),
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

/** Behind a look whether the viewer may read all of them. */
function withParticipants(db: TenantDb, participants: Record<string, unknown> | null | undefined): TenantDb {
  const ids = Object.values(participants ?? {}) as string[];
  if (!ids.length) return db;
  const there = db.selectFrom("agents").where(sql<boolean>`id = one.id`).where(passes(db.viewer, "readers"));
  const missing = sql`select from unnest(${ids}::text[]) as one (id) where not exists (${there.select(sql`1`.as("one"))})`;
  return db.behind(mustHold(sql`not exists (${missing})`, "participants", "names an agent that is not there"));
}
