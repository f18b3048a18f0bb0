/**
 * Every event there is: its name, the schema of what it says, and a sample of that. Thin: ids, what was changed and what
 * state things are in; whoever wants more asks for it, as who they are. Pure.
 */
import * as v from "valibot";
import {
  computerStatuses,
  healthStatuses,
  installationStates,
  type Metadata,
  orgStatuses,
  routineStatuses,
  scheduleStatuses,
  sessionStatuses,
  skillStatuses,
  sourceStates,
  subscriptionStatuses,
  toolStatuses,
  webhookStatuses,
  workItemStatuses,
} from "../db/schema.ts";
import { map, stamp } from "../http/valid.ts";
import { type Kind, kinds, type Published, published } from "../kinds.ts";

/** Its version is one more whenever what it says changes in a way that a reader may notice. */
export type EventType<S extends v.GenericSchema = v.GenericSchema> = {
  version: number;
  description: string;
  schema: S;
  sample: v.InferOutput<S>;
};
const event = <const S extends v.GenericSchema>(description: string, schema: S, sample: v.InferOutput<S>) =>
  ({ version: 1, description, schema, sample }) satisfies EventType<S>;

const text = v.string();
const some = v.optional(v.string());
const sampleId = (prefix: string, n = 1) => `${prefix}_02d7${"0".repeat(17)}${n}`;
const at = "2026-12-01T09:00:00.000Z";
const ids = {
  agent: sampleId(kinds.agent.prefix),
  routine: sampleId(kinds.agent_routine.prefix),
  run: sampleId(kinds.agent_routine_run.prefix),
  schedule: sampleId(kinds.agent_schedule.prefix),
  automation: sampleId(kinds.config.prefix),
  thread: sampleId("thr"),
  message: sampleId("msg"),
  user: sampleId(kinds.user.prefix),
  webhook: sampleId(kinds.inbound_webhook.prefix),
  receipt: sampleId(kinds.webhook_receipt.prefix),
};

const thread = v.strictObject({ thread: text });
const health = v.picklist(["ok", "warning", "critical"]);
const member = v.strictObject({ thread: text, user: some, agent: some });
/** Without a `body` that would be too long: its receipt has that. */
const webhook = v.strictObject({
  ...{ webhook: text, receipt: text, name: text, provider: text, delivery_id: some },
  ...{ headers: map, body: v.optional(v.unknown()) },
});
const inbound = {
  ...{ webhook: ids.webhook, receipt: ids.receipt, name: "Issues", provider: "github", delivery_id: "72d3162e" },
  ...{ headers: { "content-type": "application/json" }, body: { action: "opened" } },
};

/** What doesn't come of a row's being made, changed or deleted. */
const told = {
  "agentroutine.invoked": event(
    "A routine was invoked. Its run was made by whoever invoked it: the event starts no other.",
    v.strictObject({ routine: text, run: text, agent: text, message: some, user: some, session_key: some }),
    { routine: ids.routine, run: ids.run, agent: ids.agent, message: "Look at the new orders." },
  ),
  "schedule.cron": event(
    "A routine's schedule has come to its time.",
    v.strictObject({ routine: some, schedule: some, planned_at: stamp, timezone: some }),
    { routine: ids.routine, planned_at: at, timezone: "Europe/Vienna" },
  ),
  "workflow.scheduled": event(
    "An automation's schedule has come to its time.",
    v.strictObject({ automation: text, planned_at: stamp, timezone: some }),
    { automation: ids.automation, planned_at: at, timezone: "Europe/Vienna" },
  ),
  "agent.health_changed": event(
    "An agent's health has come to another status, or something that it does is stuck.",
    v.strictObject({
      ...{ agent: text, status: health, score: v.number(), previous_status: health, previous_score: v.number() },
      stuck: v.boolean(),
    }),
    { agent: ids.agent, status: "critical", score: 60, previous_status: "ok", previous_score: 100, stuck: false },
  ),
  "quota.reached": event(
    "The org has as much of something at once, or in a time, as it may: what comes now waits, or is refused.",
    v.strictObject({ quota: text, limit: v.number(), agent: some }),
    { quota: "runs_started_per_minute", limit: 600 },
  ),
  "scim.last_owner_deactivated": event(
    "SCIM has deactivated the last owner that an org had: nobody in it can make another.",
    v.strictObject({ user: text }),
    { user: ids.user },
  ),
  "thread.created": event("A thread was made.", thread, { thread: ids.thread }),
  "thread.deleted": event("A thread was deleted.", thread, { thread: ids.thread }),
  "thread.member_joined": event("Somebody has joined a thread.", member, { thread: ids.thread, user: ids.user }),
  "thread.message_added": event(
    "A message was written in a thread.",
    v.strictObject({ ...member.entries, message: text }),
    { thread: ids.thread, message: ids.message, user: ids.user },
  ),
  "thread.session.join": event("An agent has begun to take part in a thread.", member, {
    ...{ thread: ids.thread, agent: ids.agent },
  }),
  "thread.session.leave": event("An agent takes no part in a thread any more.", member, {
    ...{ thread: ids.thread, agent: ids.agent },
  }),
  "user.impersonated": event(
    "The app's developer signs in as a user, and says why.",
    v.strictObject({ user: text, actor: text, reason: text }),
    { user: ids.user, actor: sampleId(kinds.app.prefix), reason: "She can't see her agents." },
  ),
  "webhook_endpoint.failing": event(
    "No attempt to deliver to a webhook endpoint has succeeded for so long. Told after an hour, a day and four days.",
    v.strictObject({ id: text, failing_since: stamp }),
    { id: sampleId(kinds.webhook_endpoint.prefix), failing_since: at },
  ),
  "webhook.inbound": event("Something was sent to a webhook.", webhook, inbound),
};
type Told = typeof told;

/** What begins with one of these goes on as whoever sends it likes. */
const open = {
  "custom.": event("Whatever the app's own code tells of.", map, { order: "A-1", total: 12 }),
  "webhook.github_app.": event("GitHub has told a webhook of this.", webhook, inbound),
};

/** The states that a change can bring a row to: what a row is made in, `created` says. */
const states = {
  agent_computer: computerStatuses,
  agent_health_action: healthStatuses,
  agent_installation: installationStates,
  agent_routine: routineStatuses,
  agent_routine_run: ["running", "completed", "failed", "skipped", "cancelled"],
  agent_schedule: scheduleStatuses,
  agent_session: sessionStatuses,
  agent_skill: skillStatuses,
  agent_tool: toolStatuses,
  automation_run: ["running", "completed", "failed", "cancelled"],
  event_subscription: subscriptionStatuses,
  installation_source: sourceStates,
  org: orgStatuses,
  webhook_endpoint: webhookStatuses,
  work_item: workItemStatuses,
} as const satisfies Partial<Record<Kind, readonly string[]>>;
type Stateful = keyof typeof states;
type StateEvent = { [K in Stateful]: `${K}.${(typeof states)[K][number]}` }[Stateful];

type RowPayload = {
  id: string;
  agent?: string;
  status?: string;
  state?: string;
  fields?: string[];
  routine?: string;
  automation?: string;
};

/** What the event of a row says: its id and its agent's, its state, and the fields that were set. */
function ofRow(kind: Kind, happened: string): EventType {
  const { prefix, name, state } = kinds[kind] as { prefix: string; name: string; state?: "status" | "state" };
  const known = (states as Partial<Record<Kind, readonly string[]>>)[kind];
  const isState = known?.includes(happened) ?? false;
  const isUpdate = isState || happened === "updated";
  const onAgent = ![
    "org",
    "sso",
    "user",
    "key",
    "token",
    "agent",
    "config",
    "event_subscription",
    "inbound_webhook",
    "webhook_endpoint",
    ...["invitation", "oauth_client", "org_domain", "scim", "scim_group", "scim_token", "user_invite"],
  ].includes(kind);
  const at = isState ? happened : known?.[0];
  const more: Record<string, [schema: v.GenericSchema, sample: unknown]> = {
    ...(kind === "config" && { agent: [some, undefined] }),
    ...(kind === "agent" && { agent: [text, sampleId(prefix)] }),
    ...(onAgent && { agent: [text, ids.agent] }),
    ...(kind === "agent_routine_run" && { routine: [some, ids.routine] }),
    ...(kind === "automation_run" && { agent: [some, undefined], automation: [some, ids.automation] }),
    ...(state && { [state]: [isState ? v.literal(happened) : text, at ?? "active"] }),
    ...(isUpdate && { fields: [v.optional(v.array(text)), [state && isState ? state : "name"]] }),
    ...(kind === "scim" && { fields: [v.optional(v.array(text)), happened === "updated" ? ["userName"] : undefined] }),
    ...(kind === "webhook_endpoint" && isUpdate && { reason: [some, happened === "disabled" ? "failing" : undefined] }),
    ...(kind === "key" && { key: [text, sampleId(prefix)], type: [some, undefined] }),
    ...(kind === "token" && { token: [text, sampleId(prefix)] }),
    ...(kind === "org" && happened === "deleted" && { org: [text, sampleId(prefix)] }),
  };
  const said = (at: 0 | 1) => Object.fromEntries(Object.entries(more).map(([field, one]) => [field, one[at]]));
  const sample = JSON.parse(JSON.stringify({ id: sampleId(prefix), ...said(1) }));
  const a = /^[aeiou]/.test(name) && !name.startsWith("u") ? "An" : "A";
  const description = isState ? `${a} ${name} is ${happened} from now on.` : `${a} ${name} was ${happened}.`;
  return event(description, v.strictObject({ id: text, ...(said(0) as v.ObjectEntries) }), sample);
}

const ofRows: [name: string, type: EventType][] = [
  ...published.map((name) => name.split(".") as [Kind, string]),
  ...Object.entries(states).flatMap(([kind, all]) => all.map((state) => [kind as Kind, state] as const)),
].map(([kind, happened]) => [`${kind}.${happened}`, ofRow(kind, happened)]);

export type EventName = keyof Told | Published | StateEvent | `custom.${string}` | `webhook.github_app.${string}`;
/** What an event of the name says. */
export type PayloadOf<N extends EventName> = N extends keyof Told
  ? v.InferOutput<Told[N]["schema"]>
  : N extends `custom.${string}`
    ? Metadata
    : N extends `webhook.github_app.${string}`
      ? v.InferOutput<typeof webhook>
      : RowPayload;

/** Every type by its name; those whose names go on end in `*`. */
export const catalogue: ReadonlyMap<string, EventType> = new Map<string, EventType>(
  [
    ...Object.entries(told),
    ...ofRows,
    ...Object.entries(open).map(([prefix, type]) => [`${prefix}*`, type] as [string, EventType]),
  ].sort(([a], [b]) => (a < b ? -1 : 1)),
);

/** Of a payload, in bytes of JSON. */
export const MAX_PAYLOAD = 32_768;
/** A name may be so long. */
export const MAX_NAME = 100;
const rest = /^[a-z0-9][a-z0-9_.-]*$/;

/** The type of an event's name, with the name that the catalogue has it under. Null: no event is called so. */
export function typeOf(name: string): (EventType & { name: string }) | null {
  const known = catalogue.get(name);
  if (known) return { name, ...known };
  for (const [prefix, type] of Object.entries(open)) {
    const isSo = name.startsWith(prefix) && name.length <= MAX_NAME && rest.test(name.slice(prefix.length));
    if (isSo) return { name: `${prefix}*`, ...type };
  }
  return null;
}
