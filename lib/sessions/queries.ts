import { type RawBuilder, sql } from "kysely";
import { createChild, listChildrenOf, passesOwn, reachChild, readable, telling } from "../agents/children.ts";
import { passes } from "../auth/acl.ts";
import { mayConfig } from "../configs/access.ts";
import { mustHold, type Rows } from "../db/statements.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { ApiError, noSuch, notFound, unprocessable } from "../errors.ts";
import { type Id, newId } from "../ids.ts";
import type { CursorPage } from "../paging.ts";
import type { SessionRow } from "./remote.ts";
import type { CallRow, CreateSession, ListCalls, ListSessions } from "./schema.ts";

/** Those of these agents, or of all, that the viewer may read: see `listChildrenOf`. */
export const listSessions = (
  db: TenantDb,
  { agent, status, routine_run, exclude_system }: ListSessions,
  page: CursorPage,
): Promise<SessionRow[]> =>
  listChildrenOf(db, "agent_session", agent, page, {
    narrow: (sessions) => {
      let found = sessions;
      if (status) found = found.where("status", "in", status);
      if (exclude_system) found = found.where("is_system_session", "=", false);
      return routine_run ? found.where(sql<boolean>`routine_run_id = any (${routine_run})`) : found;
    },
  });

/** Records a session, pending, until its object takes it up. 422 on an agent that isn't there, and on another's user. */
export function createSession(
  db: TenantDb,
  id: Id<"agent_session">,
  { agent, user, result_schema, metadata, ...session }: CreateSession,
): Promise<SessionRow> {
  if (user && db.viewer.kind === "user" && db.viewer.user !== user) throw noSuch("user");
  return createChild(user ? withUser(db, user) : db, "agent_session", agent, id, {
    ...session,
    team: undefined,
    thread: undefined,
    user_id: user ?? null,
    trajectory_id: newId("trajectory"),
    result_schema: result_schema ? JSON.stringify(result_schema) : null,
    metadata: JSON.stringify(metadata ?? {}),
  } as never).catch((error) => {
    // The agent is named by the body here, not by the address.
    throw error instanceof ApiError && error.status === 404 ? noSuch("agent") : error;
  });
}

/** One that has ended is not there; that it is of the agent's org, the foreign key asks. */
function withUser(db: TenantDb, user: Id<"user">): TenantDb {
  const there = db.selectFrom("users").where("users.id", "=", user).select(sql`1`.as("one"));
  return db.behind(mustHold(sql`exists (${there})`, "user", "there is no such user"));
}

/** A session's row, for whoever may change it: 404 where the viewer can't see it, 403 where it may only be read. */
export async function writableSession(db: TenantDb, id: Id<"agent_session">): Promise<SessionRow> {
  const { db: behind, rows } = reachChild(db, "agent_session", id, "write");
  const { found } = await behind.batch({ found: rows.selectAll() });
  if (!found[0]) throw notFound("agent_session");
  return found[0] as SessionRow;
}

/** The session whose history it is. 404 unless the viewer may read it. */
export const sessionOfTrajectory = (db: TenantDb, id: Id<"trajectory">): Promise<SessionRow> => {
  const sessions = db.selectFrom("agent_sessions").where("trajectory_id", "=", id);
  return (readable(db, "agent_session", sessions as never) as unknown as Rows<"agent_sessions">)
    .selectAll()
    .executeTakeFirstOrThrow(() => notFound("trajectory")) as Promise<SessionRow>;
};

/** Deletes one that has ended, by what its object says: the row may lag behind. Its object is left to the sweep. */
export async function deleteSession(
  db: TenantDb,
  id: Id<"agent_session">,
  hasEnded: (row: SessionRow) => Promise<boolean>,
): Promise<void> {
  if (!(await hasEnded(await writableSession(db, id)))) {
    throw unprocessable("not_ended", "Only a session that has ended can be deleted. Cancel it first.");
  }
  const { db: behind, rows } = reachChild(db, "agent_session", id, "write");
  const change = behind.deleteFrom("agent_sessions").where(sql<boolean>`id in (${rows.select("id")})`);
  await behind.telling(change, telling(db, "agent_session", "deleted")).executeTakeFirstOrThrow(notFoundSession);
}
const notFoundSession = () => notFound("agent_session");

type Calls = Rows<"tool_calls">;
export const withOutcome = (calls: Calls, { outcome }: ListCalls): Calls =>
  outcome ? calls.where("outcome", "in", outcome) : calls;

/** What a session's model has asked for, newest first. */
export function listCallsOf(
  db: TenantDb,
  id: Id<"agent_session">,
  query: ListCalls,
  page: CursorPage,
): Promise<CallRow[]> {
  const session = reachChild(db, "agent_session", id, "read");
  const calls = session.db.selectFrom("tool_calls").where("session_id", "in", session.rows.select("id"));
  return session.db.pageByCursor(withOutcome(calls, query), page);
}

/** The calls of all sessions and runs that the viewer may change: what waits for a person, waits for such a one. */
export function listCalls(db: TenantDb, query: ListCalls, page: CursorPage): Promise<CallRow[]> {
  const may = ["readers", "writers"] as const;
  const agents = may.reduce((found, column) => found.where(passes(db.viewer, column)), db.selectFrom("agents"));
  // A session goes with its user before its calls do.
  const session = db.selectFrom("agent_sessions").where(sql<boolean>`agent_sessions.id = tool_calls.session_id`);
  const run = db
    .selectFrom("agent_routine_runs")
    .where(sql<boolean>`agent_routine_runs.id = tool_calls.routine_run_id`)
    .where("automation_id", "is", null)
    .where(passesOwn(db, "readers"))
    .where(passesOwn(db, "writers"));
  const configs = db.selectFrom("configs").where(mayConfig(db, "read")).where(mayConfig(db, "write"));
  const automated = db
    .selectFrom("agent_routine_runs")
    .where(sql<boolean>`agent_routine_runs.id = tool_calls.routine_run_id`)
    .where("automation_id", "in", configs.select("configs.id"));
  const one = sql`1`.as("one");
  const there: RawBuilder<boolean> = sql`((agent_id in (${agents.select("agents.id")})
    and (exists (${session.select(one)}) or exists (${run.select(one)}))) or exists (${automated.select(one)}))`;
  const calls = db.selectFrom("tool_calls").where(there);
  return db.pageByCursor(withOutcome(calls, query), page);
}
