/** The invocation of an automation. */
import { sql } from "kysely";
import { lookupKeyShape } from "../agents/schema.ts";
import { isAdmin, isHeld, passes } from "../auth/acl.ts";
import { isLive, mayConfig } from "../configs/access.ts";
import type { Automation } from "../configs/automation.ts";
import { canonical } from "../configs/content.ts";
import { validateAgainst } from "../configs/json-schema.ts";
import type { Row } from "../db/schema.ts";
import { mustHold, type Rows } from "../db/statements.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { ApiError, forbidden, invalid, notFound, refused, unprocessable } from "../errors.ts";
import { isMap } from "../http/valid.ts";
import { isId, newId } from "../ids.ts";
import { AUTOMATION_INVOKED, tellingRun } from "../routine-runs/queries.ts";
import type { RunRow } from "../routine-runs/schema.ts";
import type { InvokeAutomation } from "./schema.ts";

/** The configs that an address names: by the id, or by a lookup_key that one has of those that the viewer may read. */
function named(db: TenantDb, name: string): Rows<"configs"> {
  const configs = db.selectFrom("configs").where("configs.kind", "=", "Automation").where(mayConfig(db, "read"));
  if (isId("config", name)) return configs.where("configs.id", "=", name);
  if (!lookupKeyShape.test(name)) throw notFound("config");
  const called = configs.where("configs.lookup_key", "=", name).where("configs.archived_at", "is", null);
  const one = called.select(sql`min(configs.id)`.as("id")).having(sql<boolean>`count(*) = 1`);
  return configs.where(sql<boolean>`configs.id in (${one})`);
}

/**
 * Makes a run of an automation, by who may read it: a person's run acts as that person, a key's as whom the automation says.
 * A key of its own is answered the first run under it. Two round trips: what may be sent, only the row knows. 403 where
 * `invoke_auth` leaves the caller out; 422 where it isn't there to be invoked, or not with this; 409 where it was changed in
 * between.
 */
export async function invokeAutomation(
  db: TenantDb,
  name: string,
  { idempotency_key = null, ...body }: InvokeAutomation,
): Promise<RunRow> {
  const { viewer } = db;
  const configs = named(db, name);
  const automations = db.selectFrom("automations").where("automations.id", "in", configs.select("configs.id"));
  const first = db
    .selectFrom("agent_routine_runs")
    .where("automation_id", "in", automations.select("automations.id"))
    .where(sql<boolean>`idempotency_key = ${idempotency_key}`);
  const { there, found, before } = await db.batch({
    there: configs.select(["configs.id", (isHeld(viewer) ? isAdmin(viewer) : sql<boolean>`true`).as("admin")]),
    found: automations.selectAll().select(isLive(db).as("live")),
    before: first.selectAll(),
  });
  if (!there[0]) throw notFound("config");
  const row = found[0] as (Row<"automations"> & { live: boolean }) | undefined;
  const said = (row?.said ?? {}) as Automation;
  mayInvoke(said, viewer.kind === "user" ? (there[0].admin ? ["user", "admin"] : ["user"]) : ["app"]);
  if (before[0]) return before[0] as RunRow;
  if (row && row.automation_type !== "invoked") {
    throw unprocessable(
      "not_invocable",
      `Only an automation of type invoked can be invoked: this is ${row.automation_type}.`,
    );
  }
  if (!row?.live) throw unprocessable("not_active", "Only an active automation can be invoked, whose run_as is there.");
  const payload = payloadOf(said, body.payload ?? {});
  const participants = participantsOf(said, body.participants ?? {});
  const id = newId("automation_run");
  const unchanged = automations.where("updated_at", "=", row.updated_at).where(isLive(db));
  const acts =
    viewer.kind === "user"
      ? { user_id: viewer.user }
      : { user_id: sql`automations.user_id`, agent_id: sql`automations.agent_id` };
  const behind = withParticipants(db, row, body.participants ?? {});
  const run = behind.insertUnder(unchanged, "agent_routine_runs", {
    ...{ id, automation_id: sql`automations.id`, event_name: AUTOMATION_INVOKED, idempotency_key, ...acts },
    payload: JSON.stringify(payload),
    participants: participants && JSON.stringify(participants),
  } as never);
  try {
    const { made } = await behind.batch({ made: behind.telling(run, tellingRun(db, "automation_run", "created")) });
    if (made[0]) return made[0] as RunRow;
  } catch (error) {
    // Made by another request with this key, at this moment: now it is there to be seen.
    const isHeldNow = error instanceof ApiError && error.fields[0]?.field === "automation_key";
    const held = isHeldNow && (await first.selectAll().executeTakeFirst());
    if (held) return held as RunRow;
    throw error;
  }
  throw refused("automation_changed", "This was changed while it was being read. Try again.");
}

function mayInvoke({ invoke_auth }: Automation, caller: string[]): void {
  if (!invoke_auth || invoke_auth.some((one) => caller.includes(one))) return;
  throw forbidden("forbidden", `This automation is invoked by others: ${invoke_auth.join(", ")}.`);
}

/** What was sent, with what is filled in: that can't be anything else. */
function filled(field: "payload" | "participants", sent: Record<string, unknown>, prefills: Record<string, unknown>) {
  const other = Object.keys(prefills).filter(
    (name) => Object.hasOwn(sent, name) && canonical(sent[name]) !== canonical(prefills[name]),
  );
  if (other.length) {
    const names = other.map((name) => name.slice(0, 100)).slice(0, 10);
    throw invalid({
      field,
      message: `is filled in by the automation, and can't be sent otherwise: ${names.join(", ")}`,
    });
  }
  return { ...sent, ...prefills };
}

function payloadOf({ input_schema, prefills }: Automation, sent: Record<string, unknown>) {
  const payload = filled("payload", sent, prefills?.payload ?? {});
  const faults = input_schema ? validateAgainst(input_schema, payload) : [];
  if (faults.length) {
    throw invalid(faults.map(({ pointer, message }) => ({ field: `payload${pointer.replaceAll("/", ".")}`, message })));
  }
  return payload;
}

/** Ids by their slots; null where there are no slots. */
function participantsOf({ participants: slots, prefills }: Automation, sent: Record<string, unknown>) {
  const whole: Record<string, unknown> = filled("participants", sent, prefills?.participants ?? {});
  const refuse = (message: string) => invalid({ field: "participants", message });
  for (const [name, id] of Object.entries(whole)) {
    const slot = slots?.find((one) => one.name === name);
    if (!slot) throw refuse(`the automation has no ${name.slice(0, 100)}`);
    if (typeof id !== "string" || !isId(slot.type, id)) throw refuse(`${name} must be the id of ${a(slot.type)}`);
  }
  const missing = (slots ?? []).filter(({ name, required }) => required && !Object.hasOwn(whole, name));
  if (missing.length) throw refuse(`needs ${missing.map(({ name, type }) => `${name}, ${a(type)}`).join("; ")}`);
  return slots && isMap(whole) ? whole : null;
}
const a = (type: string) => (type === "agent" ? "an agent" : "a user");

/** Behind a look whether those that were sent are in the automation's org, and the viewer may read them. */
function withParticipants(db: TenantDb, { org_id }: Row<"automations">, sent: Record<string, unknown>): TenantDb {
  const ids = Object.values(sent) as string[];
  if (!ids.length) return db;
  const one = sql`1`.as("one");
  const agent = db.selectFrom("agents").where(sql<boolean>`agents.id = one.id`).where("org_id", "=", org_id);
  const user = db.selectFrom("users").where(sql<boolean>`users.id = one.id`).where("org_id", "=", org_id);
  const there = sql`(exists (${agent.where(passes(db.viewer, "readers")).select(one)})
    or exists (${user.where("ended_at", "is", null).select(one)}))`;
  const missing = sql`select from unnest(${ids}::text[]) as one (id) where not ${there}`;
  return db.behind(mustHold(sql`not exists (${missing})`, "participants", "names somebody who is not there"));
}
