/** Runs that wait for an event: a row says for which, and whoever numbers events tells each run the first that fits. */
import { sql } from "kysely";
import type { Row } from "../db/schema.ts";
import type { Rows } from "../db/statements.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import type { Bindings } from "../env.ts";
import { ApiError } from "../errors.ts";
import { typeOf } from "../events/catalogue.ts";
import { numbers } from "../events/log.ts";
import { isMap, isWithinAsJson } from "../http/valid.ts";
import type { Id } from "../ids.ts";
import { forEach } from "../objects/each.ts";
import type { Json } from "../script/index.ts";
import { storable } from "../sessions/project.ts";
import { matches, mayRead } from "./match.ts";
import { type RunRow, runsOf } from "./remote.ts";
import type { Came } from "./run.ts";

/** Of what an event must have, in bytes of JSON. */
const MAX_FILTERS = 4_096;

/**
 * From here on the run waits for an event `{event, filters}`. What was told before gets its number first, so that the
 * newest says where "from here on" begins: a clock might step back. Why it can't wait, as a sentence for people.
 */
export async function listen(
  db: TenantDb,
  { id: run_id }: RunRow,
  id: Id<"event_wait">,
  given: Json,
): Promise<string | null> {
  const { event, filters: said } = given as { event: string; filters: Json };
  const filters = said ?? {};
  if (!typeOf(event)) return `there is no event ${event}`;
  if (!isMap(filters)) return "filters are values by path";
  if (!isWithinAsJson(filters, MAX_FILTERS)) return `filters have more than ${MAX_FILTERS} bytes`;
  const run = db.selectFrom("agent_routine_runs").where("agent_routine_runs.id", "=", run_id);
  try {
    await db.batch({
      numbered: numbers(db),
      made: db.insertUnder(run, "event_waits", {
        ...{ id, run_id, name: event, filters: JSON.stringify(storable(filters)) },
        since: sql<number>`coalesce((${db.selectFrom("event_heads").select("sequence")}), 0)`,
      } as never),
    });
    return null;
  } catch (error) {
    if (error instanceof ApiError && error.code === "limit_reached") return `limit_reached: ${error.message}`;
    throw error;
  }
}

export async function stopListening(db: TenantDb, id: Id<"event_wait">): Promise<void> {
  await db.deleteFrom("event_waits").where("id", "=", id).execute();
}

/** What a wait gives: the payload of its event; null while there is none. */
export async function eventOf(db: TenantDb, id: Id<"event_wait">): Promise<Came | null> {
  const payload = db.valueOf("events", "payload", sql.ref("event_waits.event_id"));
  const wait = await db
    .selectFrom("event_waits")
    .where("id", "=", id)
    .where("event_id", "is not", null)
    .select(payload.as("payload"))
    .executeTakeFirst();
  if (!wait) return null;
  return wait.payload ? { ok: wait.payload as Json } : { error: "the event that it waited for is kept no longer" };
}

/** A wait, with what its run may read. */
type Waiting = Pick<Row<"event_waits">, "id" | "run_id" | "name" | "filters" | "since"> &
  Pick<RunRow, "app_id" | "sandbox_id" | "org_id" | "agent_id" | "automation_id" | "user_id">;

/** Who waits for events of these names. */
export function waitingFor(db: TenantDb, events: Rows<"events">) {
  const coOwner = db.valueOf("agent_routines", "user_id", sql.ref("agent_routine_runs.routine_id"));
  const owner = sql`case when automation_id is null then ${coOwner} else agent_routine_runs.user_id end`;
  const there = db.selectFrom("users").where("users.ended_at", "is", null).where(sql<boolean>`users.id = ${owner}`);
  return db
    .selectFrom("event_waits")
    .innerJoin(db.selectFrom("agent_routine_runs").selectAll().as("agent_routine_runs"), (join) =>
      join.onRef("agent_routine_runs.id", "=", "event_waits.run_id"),
    )
    .where("event_waits.name", "in", events.select("name"))
    .select(["event_waits.id", "run_id", "name", "filters", "since"])
    .select(["agent_routine_runs.app_id", "agent_routine_runs.sandbox_id", "agent_routine_runs.org_id"])
    .select(["agent_id", "automation_id", sql<Id<"user"> | null>`(${there.select("users.id")})`.as("user_id")]);
}

/** Each of those that has no event yet has the first of these that fits, and its run hears of it. May run twice. */
export async function tellWaits(
  db: TenantDb,
  env: Bindings,
  events: readonly Row<"events">[],
  waits: readonly Waiting[],
): Promise<void> {
  const heard = waits.flatMap((wait) => {
    const fits = (event: Row<"events">) =>
      event.name === wait.name &&
      event.sequence! > wait.since &&
      mayRead(event, wait) &&
      matches(wait.filters, event.payload);
    const event_id = events.find(fits)?.id;
    return event_id ? { ...wait, event_id } : [];
  });
  if (!heard.length) return;
  const items = sql`jsonb_to_recordset(${JSON.stringify(heard)}::jsonb) as item (id text, event_id text)`;
  const first = sql<boolean>`event_waits.event_id is null`;
  await db.running(db.updateEach("event_waits", items, { event_id: sql`item.event_id` }, first)).execute();
  const told = await forEach(heard, (wait) => runsOf(env, wait).hear(wait.run_id));
  // Then the whole page comes again.
  if (told.length < heard.length) throw new Error("a run that waits for an event is out of reach");
}
