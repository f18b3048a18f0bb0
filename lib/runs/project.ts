/** What Postgres is told of a run: statements that an older telling never undoes, and that may run twice. */
import { sql } from "kysely";
import { readersOf } from "../agents/children.ts";
import type { Statement } from "../db/statements.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import type { Id } from "../ids.ts";
import { cut, MAX_ERROR, storable } from "../sessions/project.ts";
import type { RunRow, RunView } from "./remote.ts";
import type { CommandFacts } from "./run.ts";

/** What is owed, by its kind. */
export type Projection =
  | ({ of: "run"; look_at: string | null } & RunView)
  | ({ of: "command" } & CommandFacts)
  | {
      of: "entry";
      id: Id<"activity_feed_entry">;
      level: "info" | "warning" | "error";
      title: string;
      created_at: string;
    };

const json = (value: object | null) => value && JSON.stringify(storable(value));

/** The statements that tell it, as of a sequence; their names begin with `name`. */
export function telling(
  db: TenantDb,
  { id, user_id }: RunRow,
  { name, sequence, data }: { name: string; sequence: number; data: Projection },
): Record<string, Statement<unknown>> {
  const run = db.selectFrom("agent_routine_runs").where("agent_routine_runs.id", "=", id);
  switch (data.of) {
    case "run": {
      const { of: _, result, structured_response, ...facts } = data;
      const set = {
        ...Object.fromEntries(Object.entries(facts).filter(([, value]) => value !== null)),
        ...{ look_at: data.look_at, result: json(result), structured_response: json(structured_response) },
        ...{ sequence, updated_at: sql`now()` },
      };
      const update = db.updateTable("agent_routine_runs").set(set as never);
      return { [name]: update.where("id", "=", id).where("sequence", "<=", sequence) };
    }
    case "command": {
      const { of: _, key: _key, kind: _kind, node, arguments: given, error, ...facts } = data;
      const { effect, outcome, attempts, started_at, completed_at } = facts;
      const told = error === null ? null : storable(error.slice(0, MAX_ERROR));
      const there = db.selectFrom("tool_calls").where("tool_calls.id", "=", facts.id).select(sql`1`.as("one"));
      return {
        [name]: db.insertUnder(run.where(sql<boolean>`not exists (${there})`), "tool_calls", {
          ...{ ...facts, sequence, routine_run_id: id, agent_id: sql`agent_routine_runs.agent_id`, error: told },
          ...{ name: storable(node.slice(0, 200)), turn: 0, arguments: sql`${cut(asMap(given))}::jsonb` },
        } as never),
        [`${name} again`]: db
          .updateTable("tool_calls")
          .set({ effect, outcome, attempts, started_at, completed_at, error: told, sequence })
          .where("id", "=", facts.id)
          .where("sequence", "<=", sequence),
      };
    }
    case "entry": {
      const { id: entry, level, title, created_at } = data;
      const there = db
        .selectFrom("activity_feed_entries")
        .where("activity_feed_entries.id", "=", entry)
        .select(sql`1`.as("one"));
      const metadata = sql`jsonb_build_object('actor', null, 'run', id, 'routine', routine_id)`;
      return {
        [name]: db.insertUnder(run.where(sql<boolean>`not exists (${there})`), "activity_feed_entries", {
          ...{ id: entry, kind: "routine_run", level, title: storable(title), correlation_id: id, created_at },
          ...{ agent_id: sql`agent_routine_runs.agent_id`, user_id, metadata },
          readers: readersOf(db, "agent_routine_run", "agent_routine_runs"),
        } as never),
      };
    }
  }
}

const asMap = (given: unknown): Record<string, unknown> =>
  typeof given === "object" && given !== null && !Array.isArray(given)
    ? (given as Record<string, unknown>)
    : { value: given };
