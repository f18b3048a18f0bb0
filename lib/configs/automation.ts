/** What a config of kind Automation says, and the row beside it by which that starts. */
import { type RawBuilder, type SqlBool, sql } from "kysely";
import * as v from "valibot";
import { mayOwnFor } from "../agents/queries.ts";
import { passes } from "../auth/acl.ts";
import { automationTypes } from "../db/schema.ts";
import { mustHold, type Rows, type Statement } from "../db/statements.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { CRON_EVENT, eventConfig, eventName } from "../events/trigger.ts";
import { idOf, isMap, isWithinAsJson, list, map, rule, text } from "../http/valid.ts";
import type { Id } from "../ids.ts";
import { parseCron, shortestInterval } from "../schedules/clock.ts";
import { minInterval, TOO_OFTEN } from "../schedules/queries.ts";
import { cronText } from "../schedules/schema.ts";
import { checkSchema, type Fault } from "./json-schema.ts";

/** What an automation may run. */
export const RUN_BY_AUTOMATIONS = ["WorkflowGraph", "Script"];
/** Of what it says, in bytes of JSON. */
const MAX_SAID = 32_768;

/** Who may invoke one: a person of the org, one of its owners and admins, or the app, by its key. */
export const callers = ["user", "admin", "app"] as const;
const word = v.pipe(text(100), v.nonEmpty());
const slot = v.looseObject({
  name: word,
  type: v.picklist(["agent", "user"]),
  required: v.nullish(v.boolean(), false),
  description: v.nullish(text(1_000)),
});
const slots = v.pipe(
  list(slot, 50),
  v.check((all) => new Set(all.map(({ name }) => name)).size === all.length, "must each have a name of its own"),
);
const inputSchema = v.pipe(
  map,
  v.rawCheck<Record<string, unknown>>(({ dataset, addIssue }) => {
    if (dataset.typed) for (const message of checkSchema(dataset.value).slice(0, 5)) addIssue({ message });
  }),
);

const said = v.pipe(
  v.looseObject({
    name: v.pipe(text(200), v.nonEmpty()),
    automation_type: v.nullish(v.picklist(automationTypes)),
    status: v.nullish(v.picklist(["draft", "active", "paused"]), "active"),
    event_type: v.nullish(eventName),
    event_config: v.nullish(eventConfig),
    schedule: v.nullish(cronText),
    config_ref: v.nullish(v.pipe(text(255), v.nonEmpty())),
    run_as_user: v.nullish(idOf("user")),
    run_as_agent: v.nullish(idOf("agent")),
    input_schema: v.nullish(inputSchema),
    participants: v.nullish(slots),
    prefills: v.nullish(v.looseObject({ payload: v.nullish(map), participants: v.nullish(map) })),
    invoke_auth: v.nullish(v.pipe(list(v.picklist(callers), callers.length), v.nonEmpty())),
  }),
  v.transform((one) => ({ ...one, automation_type: one.automation_type ?? typeOf(one) })),
  rule(
    "config_ref",
    ({ status, config_ref }) => status === "draft" || Boolean(config_ref),
    "is what it runs: a config's id or lookup_key",
  ),
  rule(
    "event_type",
    (one) => (one.automation_type === "trigger") === Boolean(one.event_type || namesEvents(one)),
    "or event_config says what starts a trigger, and nothing else has it",
  ),
  rule(
    "schedule",
    ({ automation_type, schedule }) => (automation_type === "scheduled") === Boolean(schedule),
    "is what automation_type scheduled needs, and nothing else has",
  ),
  rule(
    "automation_type",
    ({ automation_type, input_schema, participants, prefills, invoke_auth }) =>
      automation_type === "invoked" || !(input_schema || participants || prefills || invoke_auth),
    "must be invoked, where there is an input_schema, participants, prefills or invoke_auth",
  ),
  rule("run_as_agent", (one) => !(one.run_as_user && one.run_as_agent), "excludes run_as_user"),
  rule(
    "prefills",
    ({ prefills, participants }) =>
      Object.keys(prefills?.participants ?? {}).every((name) => participants?.some((one) => one.name === name)),
    "has participants that are none of the participants",
  ),
  v.check((one) => isWithinAsJson(one, MAX_SAID), `must be at most ${MAX_SAID} bytes as JSON`),
);
export type Automation = v.InferOutput<typeof said>;
type Events = { event_type?: string | null | undefined; event_config?: Record<string, unknown> | null | undefined };
/** What stands under the clock's name are the policies of a schedule. */
const namesEvents = ({ event_config }: Events) => Object.keys(event_config ?? {}).some((name) => name !== CRON_EVENT);
/** What doesn't say of what type it is, shows it. */
const typeOf = (one: Events & { schedule?: string | null | undefined }) =>
  one.schedule ? "scheduled" : one.event_type || namesEvents(one) ? "trigger" : "invoked";

const pointerOf = (issue: v.BaseIssue<unknown>) =>
  (issue.path ?? []).map(({ key }) => `/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");

/** Reads what an automation says. Null where a finding keeps it from that. */
export function readAutomation(value: unknown): {
  automation: Automation | null;
  findings: (Fault & { severity: "error" })[];
} {
  // What is null is as if it weren't there.
  const { success, output, issues } = v.safeParse(said, isMap(value) ? value : {}, { abortPipeEarly: true });
  const findings = (issues ?? [])
    .slice(0, 50)
    .map((issue) => ({ severity: "error" as const, pointer: pointerOf(issue), message: issue.message }));
  return { automation: success ? output : null, findings };
}

/** Where an automation is saved: the id of what it runs ('' where that isn't there), its org, and where that matters at all. */
type Saved = { config: RawBuilder<Id<"config">>; org: RawBuilder<unknown>; applies?: RawBuilder<SqlBool> };

/**
 * This database behind what it alone can see of an automation: that what it runs is there, that whoever saves it may act
 * as whom it acts as, and that its schedule doesn't come too often. 422 that says what mends it.
 */
export function mayAutomate(
  db: TenantDb,
  { status, config_ref, run_as_user, run_as_agent, schedule }: Automation,
  { config, org, applies = sql`true` }: Saved,
): TenantDb {
  const users = db.selectFrom("users").where("id", "=", run_as_user!).where(sql<boolean>`org_id = ${org}`);
  const agents = db.selectFrom("agents").where("id", "=", run_as_agent!).where(sql<boolean>`org_id = ${org}`);
  const interval = schedule ? shortestInterval(parseCron(schedule)!) : 0;
  const one = sql`1`.as("one");
  const user = users.where("ended_at", "is", null).where(mayOwnFor(db.viewer, run_as_user!)).select(one);
  const agent = agents.where(passes(db.viewer, "writers")).select(one);
  const rules: [asked: unknown, holds: RawBuilder<unknown>, fault: string][] = [
    [
      status !== "draft" && config_ref,
      sql`${config} <> ''`,
      "/config_ref: names no WorkflowGraph or Script that is there",
    ],
    [run_as_user, sql`exists (${user})`, "/run_as_user: must be yourself or, for an admin, a user of the org"],
    [run_as_agent, sql`exists (${agent})`, "/run_as_agent: must be an agent of the org that you may change"],
    [schedule, sql`${interval} >= ${minInterval(db)}`, `/schedule: ${TOO_OFTEN}`],
  ];
  return rules.reduce(
    (behind, [asked, holds, fault]) =>
      !asked ? behind : behind.behind(mustHold(sql`(not ${applies} or ${holds})`, "raw_content", fault)),
    db,
  );
}

/** What writes the rows beside these configs, which say that. `config` is over the columns of `automations`. */
export function automating(
  db: TenantDb,
  configs: Rows<"configs">,
  automation: Automation,
  config: RawBuilder<Id<"config">>,
): Record<string, Statement<unknown>> {
  const there = db.selectFrom("automations").where(sql<boolean>`automations.id = configs.id`);
  const archived_at = db.valueOf("configs", "archived_at", sql.ref("automations.id"));
  const { status, automation_type, event_type, event_config, schedule, run_as_user, run_as_agent } = automation;
  return {
    automation: db.insertUnder(
      configs.where(sql<boolean>`not exists (${there.select(sql`1`.as("one"))})`),
      "automations",
      {
        id: sql`configs.id`,
      } as never,
    ),
    automated: db
      .updateTable("automations")
      .set({
        ...{ automation_type, event_type: event_type ?? null, schedule: schedule ?? null },
        status: sql`case when ${archived_at} is null then ${status} else 'archived' end`,
        event_config: event_config ? JSON.stringify(event_config) : null,
        ...{ user_id: run_as_user ?? null, agent_id: run_as_agent ?? null },
        config_id: sql`nullif(${config}, '')`,
        said: JSON.stringify(automation),
        updated_at: sql`now()`,
      } as never)
      .where(sql<boolean>`id in (${configs.select("configs.id")})`),
  };
}

/** Puts the rows beside these configs away with them, or back as what they say. */
export const archiving = (db: TenantDb, configs: Rows<"configs">, archive: boolean): Statement<unknown> =>
  db
    .updateTable("automations")
    .set({ status: archive ? "archived" : sql`said ->> 'status'`, updated_at: sql`now()` } as never)
    .where(sql<boolean>`id in (${configs.select("configs.id")})`);
