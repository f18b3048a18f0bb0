/** What Postgres is told of a run: statements that an older telling never undoes, and that may run twice. */
import { type RawBuilder, sql } from "kysely";
import { readersOf } from "../agents/children.ts";
import { readersOfConfig } from "../configs/access.ts";
import type { RunStatus } from "../db/schema.ts";
import type { Rows, Statement } from "../db/statements.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { emitting } from "../events/emit.ts";
import { type Id, newId } from "../ids.ts";
import { type Report, uptoOf } from "../motion/report.ts";
import { cut, MAX_ERROR, storable } from "../sessions/project.ts";
import { isTerminal } from "./loop.ts";
import type { RunRow, RunView } from "./remote.ts";
import type { CommandFacts } from "./run.ts";

/** What is owed, by its kind. */
export type Projection = ({ of: "run"; look_at: string | null } & RunView) | ({ of: "command" } & CommandFacts) | Entry;
type Entry = {
  of: "entry";
  id: Id<"activity_feed_entry">;
  level: "info" | "warning" | "error";
  title: string;
  /** Null: now. */
  created_at: string | null;
};

const json = (value: object | null) => value && JSON.stringify(storable(value));

type Told = Pick<RunRow, "id" | "agent_id" | "routine_id" | "automation_id" | "user_id" | "causes">;

/** Who may read what is told of runs: of an automation's whoever may read its config, as long as that is there. */
export function readersOfRun(db: TenantDb, row: string): RawBuilder<string[] | null> {
  const automation = sql.ref<Id<"config">>(`${row}.automation_id`);
  const config = db.selectFrom("configs").where("configs.id", "=", automation);
  const readers = config.select(sql`coalesce(${readersOfConfig(db, "configs")}, array['everyone'])`.as("readers"));
  return sql`case when ${automation} is null then ${readersOf(db, "agent_routine_run", row)}
    else coalesce((${readers}), '{}') end`;
}

/** The event that a run comes to a status, over its row as it was before: it is the doing of what it is of, too. */
export function turning(
  db: TenantDb,
  { id, agent_id: agent, routine_id: routine, automation_id: automation, user_id, causes }: Told,
  status: Exclude<RunStatus, "pending"> | "created",
  above: Rows<"agent_routine_runs">,
): Statement<unknown> {
  // An automation's knows no skipped.
  const shown = automation && status === "skipped" ? "cancelled" : status;
  const of = automation ?? routine;
  return emitting(db.causedBy(of ? [...causes, of] : causes), above, {
    name: `${automation ? "automation_run" : "agent_routine_run"}.${shown}`,
    payload: {
      ...{ id, status: shown === "created" ? "pending" : shown },
      ...(agent && { agent }),
      ...(routine && { routine }),
      ...(automation && { automation }),
    },
    ...{ agent_id: agent, user_id, readers: readersOfRun(db, "agent_routine_runs") },
  } as never);
}

/** What the feed tells of a run's end. */
export const entryOf = (status: RunStatus, name: string, created_at?: string): Entry => ({
  ...{ of: "entry", id: newId("activity_feed_entry"), created_at: created_at ?? null },
  level: status === "failed" ? "error" : status === "completed" ? "info" : "warning",
  title: `run ${status}: ${name}`,
});

/** An entry of the feed, of the row above. */
export function entry(
  db: TenantDb,
  { id, level, title, created_at }: Entry,
  above: Rows<"agent_routine_runs">,
): Statement<unknown> {
  const entries = db.selectFrom("activity_feed_entries");
  const there = entries.where("activity_feed_entries.id", "=", id).select(sql`1`.as("one"));
  const of = (automation: string, routine: string) =>
    sql`case when automation_id is null then ${routine} else ${automation} end`;
  return db.insertUnder(above.where(sql<boolean>`not exists (${there})`), "activity_feed_entries", {
    ...{ id, kind: of("automation_run", "routine_run"), level, correlation_id: sql`agent_routine_runs.id` },
    title: sql`${of("Automation ", "Routine ")} || ${storable(title)}::text`,
    ...{ agent_id: sql`agent_routine_runs.agent_id`, user_id: sql`agent_routine_runs.user_id` },
    metadata: sql`jsonb_build_object('actor', null, 'run', agent_routine_runs.id)
      || case when automation_id is null then jsonb_build_object('routine', routine_id)
        else jsonb_build_object('automation', automation_id) end`,
    readers: readersOfRun(db, "agent_routine_runs"),
    ...(created_at && { created_at }),
  } as never);
}

/** The statements that tell it, as of a sequence; their names begin with `name`. */
export function telling(
  db: TenantDb,
  row: Told,
  { name, sequence, data }: { name: string; sequence: number; data: Projection },
): Record<string, Statement<unknown>> {
  const { id } = row;
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
      const { status } = data;
      // Told again, it is in that state already.
      const before = run.where("sequence", "<=", sequence).where("status", "<>", status);
      return {
        ...(status !== "pending" && { [`${name} turned`]: turning(db, row, status, before) }),
        [name]: update.where("id", "=", id).where("sequence", "<=", sequence),
        ...(isTerminal(status) && { [`${name} waits`]: db.deleteFrom("event_waits").where("run_id", "=", id) }),
      };
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
    case "entry":
      return { [name]: entry(db, data, run) };
  }
}

const asMap = (given: unknown): Record<string, unknown> =>
  typeof given === "object" && given !== null && !Array.isArray(given)
    ? (given as Record<string, unknown>)
    : { value: given };

/** What the agent's health hears of it; null: nothing that counts. What was skipped or cancelled is neither good nor bad. */
export function reportOf(
  { id }: Told,
  owed: readonly { name: string; sequence: number; data: Projection }[],
): Report | null {
  const run = owed.flatMap(({ data }) => (data.of === "run" ? [data] : [])).at(-1);
  if (!run) return null;
  const counts = run.status === "completed" || run.status === "failed";
  return {
    ...{ id, upto: uptoOf(owed), tools: { total: 0, failed: 0 } },
    due: run.look_at === null ? null : Date.parse(run.look_at),
    ...(counts && { ended: { failed: run.status === "failed" } }),
  };
}
