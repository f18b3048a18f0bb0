import { type RawBuilder, sql } from "kysely";
import * as v from "valibot";
import { createChild, listChildrenOf, reachChild, updateChild } from "../agents/children.ts";
import { agentNamed, mayOwnFor } from "../agents/queries.ts";
import { firstAcl, nextAcl, passes } from "../auth/acl.ts";
import { configNamed, templatesNamed } from "../configs/queries.ts";
import { mustHold } from "../db/statements.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { invalid, unprocessable } from "../errors.ts";
import { CRON_EVENT } from "../events/trigger.ts";
import type { Id } from "../ids.ts";
import type { CursorPage } from "../paging.ts";
import { parseCron, shortestInterval } from "../schedules/clock.ts";
import { minInterval, notTooOften, TOO_OFTEN } from "../schedules/queries.ts";
import {
  bodyOfTemplate,
  type CreateRoutine,
  configKindOf,
  createRoutineBody,
  type ListRoutines,
  type Named,
  type RoutineRow,
  referring,
  type UpdateRoutine,
} from "./schema.ts";

const NOT_THEIRS = "must be yourself or, for an admin, a user of the org";
const jsonOf = (value: object | null | undefined) => (value ? JSON.stringify(value) : value);

/** A routine's JSON, as SQL, that names these configs: by their ids, where the viewer may read them. See `configNamed`. */
export function withIds(
  db: TenantDb,
  org: RawBuilder<unknown>,
  json: RawBuilder<unknown>,
  named: Pick<Named, "name" | "kind">[],
): RawBuilder<string> {
  const id = configNamed(db, sql`names.name`, sql`array[names.kind]`, org);
  return sql`app.with_ids(${json}, (select jsonb_object_agg(names.kind || ' ' || names.name, ${id})
    from jsonb_to_recordset(${JSON.stringify(named)}::jsonb) as names (name text, kind text)))`;
}

/** All that a body's JSON names. */
function namedIn(body: UpdateRoutine): Named[] {
  const all: Named[] = [];
  referring(body, (named) => {
    all.push(named);
    return named.name;
  });
  return all;
}

/** The columns that a body sets, in the org that `org` gives; absent leaves alone, null clears. */
function columns(db: TenantDb, org: RawBuilder<string>, { ...body }: UpdateRoutine) {
  // What runs no config has none.
  if (body.handler_type && !configKindOf(body.handler_type) && body.config === undefined) body.config = null;
  const named = (column: "steps" | "preset_config") => {
    const json = jsonOf(body[column]);
    const names = namedIn({ [column]: body[column] });
    return names.length ? withIds(db, org, sql`${json}::jsonb`, names) : json;
  };
  const { name, description, lookup_key, event_type, schedule, handler_type, script, preset_name } = body;
  return {
    ...{ name, description, lookup_key, event_type, schedule, handler_type, script, preset_name },
    trigger_context: body.trigger_context === null ? ("event" as const) : body.trigger_context,
    interval_s: schedule == null ? schedule : shortestInterval(parseCron(schedule)!),
    config_id: body.config == null ? body.config : configNamed(db, body.config, undefined, org),
    user_id: body.user === "" ? null : body.user,
    event_config: jsonOf(body.event_config),
    preset_config: named("preset_config"),
    message_policy: jsonOf(body.message_policy),
    steps: body.steps === undefined ? undefined : (named("steps") ?? "[]"),
    metadata: body.metadata === undefined ? undefined : JSON.stringify(body.metadata ?? {}),
  };
}

/**
 * This database behind what only it can see of a body: how often the app lets a schedule come, whom the sender may name,
 * since its runs see what that one may, unless `isKept` says that it is named already; and which configs are there.
 */
function checked(
  db: TenantDb,
  orgs: RawBuilder<unknown>,
  body: UpdateRoutine,
  isKept: RawBuilder<unknown> = sql`false`,
): TenantDb {
  const { schedule, user } = body;
  let behind = schedule ? notTooOften(db, shortestInterval(parseCron(schedule)!)) : db;
  if (user) behind = behind.behind(mustHold(sql`(${mayOwnFor(db.viewer, user)} or ${isKept})`, "user", NOT_THEIRS));
  const named = namedIn(body);
  if (!named.length) return behind;
  const id = configNamed(db, sql`names.name`, sql`array[names.kind]`, sql`place.org`);
  return behind.behind(sql`select app.must_hold(false, split_part(names.pointer, '/', 2),
      substr(names.pointer, 2) || ' names no ' || names.kind || ' that is there: ' || left(names.name, 100))
    from (${orgs}) as place (org),
      jsonb_to_recordset(${JSON.stringify(named)}::jsonb) as names (name text, kind text, pointer text)
    where ${id} = '' limit 1`);
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

/** Changes a routine, by the same rules. Two round trips where it becomes as a template says: see `updateTool`. */
export async function updateRoutine(
  db: TenantDb,
  id: Id<"agent_routine">,
  { acl, template, ...sent }: UpdateRoutine,
): Promise<RoutineRow> {
  const named = template ? await templateOf(db, id, template) : null;
  const body = { ...named?.body, ...sent };
  const { rows } = reachChild(db, "agent_routine", id, "read");
  const orgs = rows.select(sql`org_id`.as("org"));
  const isKept = sql`exists (${rows.where("user_id", "=", body.user || null).select(sql`1`.as("one"))})`;
  return updateChild(checked(db, sql`${orgs}`, body, isKept), "agent_routine", id, {
    ...columns(db, sql`agent_routines.org_id`, body),
    template_config_id: named?.id,
    acl: acl === undefined ? undefined : nextAcl(acl),
  });
}

/** What a template says of a routine. Its status, lookup_key, user and access list are the routine's own. */
async function templateOf(db: TenantDb, id: Id<"agent_routine">, name: string) {
  const child = reachChild(db, "agent_routine", id, "write");
  const org = sql`(${child.rows.select("org_id")})`;
  const [template] = await templatesNamed(child.db, org, [name], ["AgentRoutineTemplate"]);
  if (!template) throw invalid({ field: "template", message: "there is no such template" });
  const result = v.safeParse(createRoutineBody, bodyOfTemplate(template.said));
  if (!result.success) {
    const at = v.getDotPath(result.issues[0]);
    throw invalid({ field: "template", message: `says what a routine doesn't take: ${at}` });
  }
  return { id: template.id, body: { ...unsaid, ...result.output } };
}
/** What a routine does and when it starts is one whole: what its template doesn't say of that, it has not. */
const unsaid: UpdateRoutine = {
  ...{ config: null, script: null, preset_name: null, preset_config: null, steps: null },
  ...{ event_type: null, event_config: null, schedule: null, trigger_context: null, message_policy: null },
};

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
