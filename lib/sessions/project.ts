/** What Postgres is told of a session: statements that an older telling never undoes, and that may run twice. */
import { sql } from "kysely";
import { feedReaders } from "../agents/queries.ts";
import type { ModelCallStatus, SessionStatus } from "../db/schema.ts";
import type { Statement } from "../db/statements.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { emitting } from "../events/emit.ts";
import { isWithinAsJson } from "../http/valid.ts";
import type { Id } from "../ids.ts";
import type { Usage } from "../model/index.ts";
import { type Report, uptoOf } from "../motion/report.ts";
import type { SessionRow } from "./remote.ts";
import type { CallFacts } from "./session.ts";

/** What is owed, by its kind. */
export type Projection =
  | {
      kind: "session";
      status: SessionStatus;
      started_at: string | null;
      completed_at: string | null;
      error: string | null;
      result: Record<string, unknown> | null;
      look_at: string | null;
    }
  | ({ kind: "call" } & CallFacts)
  | ({
      kind: "model";
      id: Id<"model_call">;
      model: string;
      status: ModelCallStatus;
      completed_at: string | null;
    } & Usage)
  | {
      kind: "entry";
      id: Id<"activity_feed_entry">;
      name: "agent_step" | "tool_call";
      level: "info" | "warning" | "error";
      title: string;
      metadata: Record<string, unknown>;
      created_at: string;
    };

/** Of arguments, in characters of JSON: the frame has them whole. */
const MAX_ARGUMENTS = 16_000;
export const MAX_ERROR = 2_000;

/** What Postgres takes: no NUL, no half of a letter. */
export function storable<T>(value: T): T {
  if (typeof value === "string") return value.replaceAll("\0", "\uFFFD").toWellFormed() as T;
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(storable) as T;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [storable(key), storable(inner)])) as T;
}

export const cut = (given: Record<string, unknown>): string => {
  const text = JSON.stringify(storable(given));
  // Of letters of three bytes each, and of numbers no more than these.
  if (text.length <= MAX_ARGUMENTS && isWithinAsJson(given, 3 * MAX_ARGUMENTS)) return text;
  return JSON.stringify({ cut: storable(`${text.slice(0, MAX_ARGUMENTS / 2)}… of ${text.length} characters`) });
};

/** Who may read what is told of a session: who may read its agent. */
const agentReaders = (db: TenantDb) =>
  db
    .selectFrom("agents")
    .where("agents.id", "=", sql.ref<Id<"agent">>("agent_sessions.agent_id"))
    .select(feedReaders.as("readers"));

/** The statements that tell it, as of a sequence; their names begin with `name`. */
export function telling(
  db: TenantDb,
  { id, agent_id, user_id }: SessionRow,
  { name, sequence, data }: { name: string; sequence: number; data: Projection },
): Record<string, Statement<unknown>> {
  const session = db.selectFrom("agent_sessions").where("agent_sessions.id", "=", id);
  switch (data.kind) {
    case "session": {
      const { kind: _, error, result, ...facts } = data;
      const set = {
        ...Object.fromEntries(Object.entries(facts).filter(([, value]) => value !== undefined)),
        error: error === null ? null : storable(error.slice(0, MAX_ERROR)),
        result: result && JSON.stringify(storable(result)),
        ...{ sequence, updated_at: sql`now()` },
      };
      const update = db
        .updateTable("agent_sessions")
        .set(set as never)
        .where("id", "=", id);
      // An event of the row as it was: told again, it is in that state already.
      const turning = session.where("sequence", "<=", sequence).where("status", "<>", data.status);
      return {
        [`${name} turned`]: emitting(db, turning, {
          ...{ name: `agent_session.${data.status}`, payload: { id, agent: agent_id, status: data.status } },
          ...{ agent_id, user_id, readers: sql`(${agentReaders(db)})` },
        }),
        [name]: update.where("sequence", "<=", sequence),
      };
    }
    case "call": {
      const { kind: _, arguments: given, error, name: called, ...facts } = data;
      const { effect, outcome, attempts, started_at, completed_at } = facts;
      const told = error === null ? null : storable(error.slice(0, MAX_ERROR));
      const there = db.selectFrom("tool_calls").where("tool_calls.id", "=", facts.id).select(sql`1`.as("one"));
      return {
        [name]: db.insertUnder(session.where(sql<boolean>`not exists (${there})`), "tool_calls", {
          ...{ ...facts, sequence, session_id: id, agent_id: sql`agent_sessions.agent_id`, error: told },
          ...{ name: storable(called.slice(0, 200)), arguments: sql`${cut(given)}::jsonb` },
        } as never),
        [`${name} again`]: db
          .updateTable("tool_calls")
          .set({ effect, outcome, attempts, started_at, completed_at, error: told, sequence })
          .where("id", "=", facts.id)
          .where("sequence", "<=", sequence),
      };
    }
    case "model": {
      const { kind: _, ...facts } = data;
      const { id: call, model, ...figures } = facts;
      const there = db.selectFrom("model_calls").where("model_calls.id", "=", call).select(sql`1`.as("one"));
      return {
        [name]: db.insertUnder(session.where(sql<boolean>`not exists (${there})`), "model_calls", {
          ...{ id: call, model, operation: "chat", session_id: id, user_id },
        }),
        [`${name} again`]: db
          .updateTable("model_calls")
          .set(figures as never)
          .where("id", "=", call)
          .where("status", "=", "unknown"),
      };
    }
    case "entry": {
      const { id: entry, name: kind, level, title, metadata, created_at } = data;
      const there = db
        .selectFrom("activity_feed_entries")
        .where("activity_feed_entries.id", "=", entry)
        .select(sql`1`.as("one"));
      return {
        [name]: db.insertUnder(session.where(sql<boolean>`not exists (${there})`), "activity_feed_entries", {
          ...{ id: entry, kind, level, title: storable(title), correlation_id: id, created_at },
          ...{ agent_id: sql`agent_sessions.agent_id`, user_id, readers: sql`(${agentReaders(db)})` },
          metadata: sql`${JSON.stringify(storable(metadata))}::jsonb`,
        } as never),
      };
    }
  }
}

type Owed = { name: string; sequence: number; data: Projection };

/**
 * What the agent's health hears of it; null: nothing that counts. A session that works for a run is a part of that, and
 * what was cancelled is neither good nor bad.
 */
export function reportOf({ id, routine_run_id }: SessionRow, owed: readonly Owed[]): Report | null {
  const session = owed.flatMap(({ data }) => (data.kind === "session" ? [data] : [])).at(-1);
  const calls = owed.flatMap(({ data }) => (data.kind === "call" ? [data.outcome] : []));
  const failed = calls.filter((outcome) => outcome === "failed").length;
  const total = calls.filter((outcome) => outcome === "succeeded").length + failed;
  if (!session && !total) return null;
  const counts = !routine_run_id && (session?.status === "completed" || session?.status === "failed");
  return {
    ...{ id, upto: uptoOf(owed), tools: { total, failed } },
    ...(session && { due: session.look_at === null ? null : Date.parse(session.look_at) }),
    ...(counts && { ended: { failed: session?.status === "failed" } }),
  };
}
