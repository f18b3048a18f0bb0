import { type RawBuilder, sql } from "kysely";
import { createChild, listChildrenOf, reachChild, updateChild } from "../agents/children.ts";
import { agentNamed } from "../agents/queries.ts";
import { firstAcl, nextAcl, passes } from "../auth/acl.ts";
import { configNamed, mayConfig } from "../configs/queries.ts";
import { mustHold } from "../db/statements.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { unprocessable } from "../errors.ts";
import type { Id } from "../ids.ts";
import type { CursorPage } from "../paging.ts";
import { parseCron, shortestInterval } from "../schedules/clock.ts";
import { CRON_EVENT, type CreateRoutine, type ListRoutines, type RoutineRow, type UpdateRoutine } from "./schema.ts";

const jsonOf = (value: object | null | undefined) => (value ? JSON.stringify(value) : value);

/** The columns that a body sets, in the org that `org` gives; absent leaves alone, null clears. */
function columns(db: TenantDb, org: RawBuilder<string>, body: UpdateRoutine) {
  const { name, description, lookup_key, event_type, schedule, handler_type, script, preset_name, config } = body;
  return {
    ...{ name, description, lookup_key, event_type, schedule, handler_type, script, preset_name },
    trigger_context: body.trigger_context === null ? ("event" as const) : body.trigger_context,
    interval_s: schedule == null ? schedule : shortestInterval(parseCron(schedule)!),
    config_id: config == null ? config : configNamed(db, config, undefined, org),
    user_id: body.user === "" ? null : body.user,
    event_config: jsonOf(body.event_config),
    preset_config: jsonOf(body.preset_config),
    message_policy: jsonOf(body.message_policy),
    steps: body.steps === undefined ? undefined : JSON.stringify(body.steps ?? []),
    metadata: body.metadata === undefined ? undefined : JSON.stringify(body.metadata ?? {}),
  };
}

/** How often the app lets a schedule come at most, in seconds. */
const minInterval = (db: TenantDb) =>
  sql`coalesce((${db.selectFrom("apps").select(sql`(settings ->> 'min_routine_interval_seconds')::int`.as("s"))}), 60)`;
const TOO_OFTEN = "comes more often than the app lets it: see min_routine_interval_seconds";

/** This database behind that the app lets schedules come as often as every so many seconds. */
export const notTooOften = (db: TenantDb, interval: number, field = "schedule"): TenantDb =>
  db.behind(mustHold(sql`${interval} >= ${minInterval(db)}`, field, TOO_OFTEN));

/** This database behind what only it can see of a body: how often the app lets a schedule come, and which configs are there. */
function checked(db: TenantDb, orgs: RawBuilder<unknown>, { schedule, steps }: UpdateRoutine): TenantDb {
  let behind = schedule ? notTooOften(db, shortestInterval(parseCron(schedule)!)) : db;
  const named = [...new Set(steps?.flatMap(({ config }) => config ?? []))];
  if (named.length) {
    const there = db
      .selectFrom("configs")
      .where(sql<boolean>`org_id = place.org`)
      .where(sql<boolean>`(configs.id = names.name or configs.lookup_key = names.name)`)
      .where(mayConfig(db, "read"));
    const missing = sql`select from (${orgs}) as place (org), unnest(${named}::text[]) as names (name) where not exists (${there.select(sql`1`.as("one"))})`;
    behind = behind.behind(mustHold(sql`not exists (${missing})`, "steps", "name a config that isn't there"));
  }
  return behind;
}

/** Those of these agents (or of all), newest first, and those that this event starts: see `listChildrenOf`. */
export const listRoutines = (
  db: TenantDb,
  { agent, event_type }: ListRoutines,
  page: CursorPage,
): Promise<RoutineRow[]> =>
  listChildrenOf(db, "agent_routine", agent, page, {
    narrow: (rows) => (event_type === undefined ? rows : rows.where(startedBy(event_type))),
  });

/** Whether the event starts it: named by its type, by its event_config or, of the clock, by having a schedule. */
const startedBy = (event: string) => sql<boolean>`(event_type = ${event} or coalesce(event_config ? ${event}, false)
  or (${event} = ${CRON_EVENT} and schedule is not null))`;

/** Makes a routine of an agent. 422 on a config or a user that isn't there, and on a schedule that comes too often. */
export function createRoutine(
  db: TenantDb,
  agent: string,
  id: Id<"agent_routine">,
  { status, name, handler_type, acl, ...body }: CreateRoutine,
): Promise<RoutineRow> {
  const orgs = agentNamed(db, agent).where(passes(db.viewer, "readers")).select("agents.org_id");
  return createChild(checked(db, sql`${orgs}`, body), "agent_routine", agent, id, {
    ...columns(db, sql`agents.org_id`, body),
    ...{ name, handler_type },
    status: status ?? "draft",
    acl: acl && firstAcl(acl),
  });
}

/** Changes a routine, by the same rules. */
export function updateRoutine(
  db: TenantDb,
  id: Id<"agent_routine">,
  { acl, ...body }: UpdateRoutine,
): Promise<RoutineRow> {
  const orgs = reachChild(db, "agent_routine", id, "read").rows.select(sql`org_id`.as("org"));
  const values = columns(db, sql`agent_routines.org_id`, body);
  return updateChild(checked(db, sql`${orgs}`, body), "agent_routine", id, {
    ...values,
    acl: acl === undefined ? undefined : nextAcl(acl),
  });
}

/** From here on it starts. 422 where its schedule comes more often than the app lets it now. */
export function activateRoutine(db: TenantDb, id: Id<"agent_routine">): Promise<RoutineRow> {
  const often = reachChild(db, "agent_routine", id, "read").rows.where(sql<boolean>`interval_s < ${minInterval(db)}`);
  const holds = sql`not exists (${often.select(sql`1`.as("one"))})`;
  return updateChild(db.behind(mustHold(holds, "schedule", TOO_OFTEN)), "agent_routine", id, { status: "active" });
}

/** Until it is activated again, nothing starts it. What is a draft has not begun. */
export const pauseRoutine = (db: TenantDb, id: Id<"agent_routine">): Promise<RoutineRow> =>
  updateChild(
    db,
    "agent_routine",
    id,
    { status: "paused" },
    {
      where: sql<boolean>`status <> 'draft'`,
      otherwise: () => unprocessable("not_active", "This routine is a draft: there is nothing to pause yet."),
    },
  );
