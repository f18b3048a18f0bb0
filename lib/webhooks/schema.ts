import * as v from "valibot";
import {
  deliveryStatuses,
  disabledReasons,
  NONE,
  type Row,
  real,
  webhookOrderings,
  webhookStatuses,
} from "../db/schema.ts";
import { catalogue, MAX_NAME, typeOf } from "../events/catalogue.ts";
import { idOf, list, moment, nullable, rules, stamp, text } from "../http/valid.ts";
import type { Place } from "../objects/stub.ts";
import { listOf, listQuery } from "../paging.ts";
import { isNamed } from "./rules.ts";
import { overlap_seconds } from "./secrets.ts";

/** Whether an event may be called so, or begin so. */
const isKnown = (name: string): boolean =>
  name.endsWith("*")
    ? [...catalogue.keys()].some((known) => isNamed([name], known)) || typeOf(`${name.slice(0, -1)}x`) !== null
    : typeOf(name) !== null;
const event_names = list(
  v.pipe(text(MAX_NAME), v.check(isKnown, "must be the name of an event, or a beginning of names and a `*`")),
  100,
  1,
);
const url = v.pipe(text(2000), v.nonEmpty());

export const createEndpointBody = v.strictObject({
  /** A public http or https address. It is asked by POST. */
  url,
  /** Names as /api/v1/event_types has them, and beginnings of names: `agent.*`. */
  event_names,
  /** `strict`: an event is sent when the one before it was delivered, or is dead. */
  ordering: v.optional(v.picklist(webhookOrderings), "none"),
  /** Of which org's events: for keys, whose endpoints without it hear of every org's. */
  org: v.optional(v.nullable(idOf("org"))),
});
export type CreateEndpoint = v.InferOutput<typeof createEndpointBody>;

export const updateEndpointBody = v.strictObject({
  url: v.optional(url),
  event_names: v.optional(event_names),
  ordering: v.optional(v.picklist(webhookOrderings)),
  /** Nothing is sent any more, until `enable`. */
  status: v.optional(v.literal("disabled", "must be disabled: what enables one is POST …/enable")),
});
export type UpdateEndpoint = v.InferOutput<typeof updateEndpointBody>;

export const rotateSecretBody = v.strictObject({
  overlap_seconds,
});

const sequence = v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(10 ** 15));
/** By sequence or by time, both ends included. */
export const replayBody = v.pipe(
  v.strictObject({
    from_sequence: v.optional(sequence),
    to_sequence: v.optional(sequence),
    from: v.optional(moment),
    to: v.optional(moment),
    /** Of what the endpoint hears, only these. */
    event_names: v.optional(event_names),
    /** Only what has a delivery in one of these; without it, also what has none. */
    statuses: v.optional(list(v.picklist(deliveryStatuses), deliveryStatuses.length, 1)),
  }),
  rules((body) => {
    const [bySequence, byTime] = [
      [body.from_sequence, body.to_sequence],
      [body.from, body.to],
    ].map((ends) => ends.filter((end) => end !== undefined).length);
    if (bySequence === 2 && byTime === 0) return [];
    if (byTime === 2 && bySequence === 0) return [];
    return [
      { field: bySequence ? "to_sequence" : "from", message: "wants from_sequence and to_sequence, or from and to" },
    ];
  }),
);
export type Replay = v.InferOutput<typeof replayBody>;

export const listDeliveriesQuery = v.object({
  ...listQuery,
  status: v.optional(list(v.picklist(deliveryStatuses), deliveryStatuses.length)),
});
export type ListDeliveries = v.InferOutput<typeof listDeliveriesQuery>;

export type EndpointRow = Row<"webhook_endpoints">;
export type DeliveryRow = Row<"webhook_deliveries">;
/** A delivery as its viewer sees it. */
export type ShownDelivery = Omit<DeliveryRow, "attempts" | "revision" | keyof Place | "sequence"> & {
  sequence: number | null;
};
export type WholeDelivery = ShownDelivery & Pick<DeliveryRow, "attempts">;

export const endpoint = v.strictObject({
  id: v.string(),
  org: nullable,
  sandbox: nullable,
  url: v.string(),
  event_names: v.array(v.string()),
  ordering: v.picklist(webhookOrderings),
  status: v.picklist(webhookStatuses),
  disabled_reason: v.nullable(v.picklist(disabledReasons)),
  disabled_at: v.nullable(stamp),
  failing_since: v.nullable(stamp),
  /** In the answer that made it, and never again. */
  secret: nullable,
  /** Until then the secret before signs, too. */
  overlap_expires_at: v.nullable(stamp),
  created_at: stamp,
  updated_at: stamp,
});
export const endpointList = listOf(endpoint);

/** What happened of its names while it was disabled, to be replayed. The app's has no sequences of its own. */
const missed = v.strictObject({
  from_sequence: v.nullable(v.number()),
  to_sequence: v.nullable(v.number()),
  count: v.number(),
});
export type Missed = v.InferOutput<typeof missed>;
export const enabledEndpoint = v.strictObject({ ...endpoint.entries, missed });

const attempt = {
  sent_at: stamp,
  /** Of the answer; null where none came. */
  status: v.nullable(v.number()),
  latency_ms: v.number(),
  /** The first KB of the answer, without secrets. */
  answered: nullable,
  error: nullable,
};
/** What came of a test. */
export const tested = v.strictObject(attempt);

const delivery = {
  id: v.string(),
  endpoint: v.string(),
  event: v.string(),
  event_name: v.string(),
  org: nullable,
  /** Null to who doesn't see the numbers of events. */
  sequence: v.nullable(v.number()),
  status: v.picklist(deliveryStatuses),
  attempt_count: v.number(),
  next_attempt_at: v.nullable(stamp),
  created_at: stamp,
  updated_at: stamp,
};
export const deliveryList = listOf(v.strictObject(delivery));
/** With its newest twenty attempts, oldest first. */
export const wholeDelivery = v.strictObject({ ...delivery, attempts: v.array(v.strictObject(attempt)) });

/** How many events are on their way, and from where on a replay of the rest begins; null where nothing is left. */
export const replayed = v.strictObject({
  count: v.number(),
  next_from_sequence: v.nullable(v.number()),
  next_from: v.nullable(stamp),
});

export const toEndpoint = (row: EndpointRow, secret: string | null = null): v.InferOutput<typeof endpoint> => ({
  id: row.id,
  org: real(row.org_id),
  sandbox: real(row.sandbox_id),
  url: row.url,
  event_names: row.event_names,
  ordering: row.ordering,
  status: row.status,
  disabled_reason: row.disabled_reason,
  disabled_at: row.disabled_at,
  failing_since: row.failing_since,
  secret,
  overlap_expires_at: row.overlap_expires_at,
  created_at: row.created_at,
  updated_at: row.updated_at,
});

export const toDelivery = (row: ShownDelivery) => ({
  id: row.id,
  endpoint: row.endpoint_id,
  event: row.event_id,
  event_name: row.event_name,
  org: row.event_org_id === NONE ? null : row.event_org_id,
  sequence: row.sequence,
  status: row.status,
  attempt_count: row.attempt_count,
  next_attempt_at: row.next_attempt_at,
  created_at: row.created_at,
  updated_at: row.updated_at,
});
export const toWholeDelivery = (row: WholeDelivery): v.InferOutput<typeof wholeDelivery> => ({
  ...toDelivery(row),
  attempts: row.attempts,
});
