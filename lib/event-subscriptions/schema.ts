import * as v from "valibot";
import { real, subscriptionStatuses } from "../db/schema.ts";
import { domainEvent, eventName, type Numbering, toDomainEvent } from "../events/schema.ts";
import { idOf, list, nullable, stamp, text } from "../http/valid.ts";
import { base62, parseId, uuidOf } from "../ids.ts";
import { MAX_PAGE_SIZE, PAGE_SIZE, pageQuery, positive } from "../paging.ts";
import type { Entry, Leased, QueueState, SubscriptionRow } from "./remote.ts";

const whole = (min: number, max: number) => v.pipe(v.number(), v.integer(), v.minValue(min), v.maxValue(max));
const name = v.pipe(text(200), v.nonEmpty());
const event_names = list(eventName, 100, 1);
const max_pending_events = whole(1, 1000);
const retention_seconds = whole(7200, 2_592_000);
const visibility_timeout_seconds = whole(15, 3600);

export const createSubscriptionBody = v.strictObject({
  name,
  /** Exact names, as /api/v1/event_types has them. */
  event_names,
  max_pending_events: v.optional(max_pending_events, 100),
  retention_seconds: v.optional(retention_seconds, 86_400),
  visibility_timeout_seconds: v.optional(visibility_timeout_seconds, 300),
  status: v.optional(v.picklist(subscriptionStatuses), "active"),
  /** Of which org's events: for keys, which without it hear of the app's own. */
  org: v.optional(v.nullable(idOf("org"))),
});
export type CreateSubscription = v.InferOutput<typeof createSubscriptionBody>;

export const updateSubscriptionBody = v.strictObject({
  name: v.optional(name),
  event_names: v.optional(event_names),
  max_pending_events: v.optional(max_pending_events),
  /** Counts for what comes from now on. */
  retention_seconds: v.optional(retention_seconds),
  visibility_timeout_seconds: v.optional(visibility_timeout_seconds),
  status: v.optional(v.picklist(subscriptionStatuses)),
});
export type UpdateSubscription = v.InferOutput<typeof updateSubscriptionBody>;

export const listSubscriptionsQuery = v.object({ page: pageQuery.page, per_page: pageQuery.page_size });

const token = v.optional(v.pipe(text(128), v.nonEmpty()));
export const claimBody = v.strictObject({
  consumer_id: token,
  /** Sent again while what it leased is leased, it gets the same under new handles. */
  request_id: token,
  /** Without it the head alone, and nothing while that is leased. */
  max_events: v.optional(whole(1, 20)),
  visibility_timeout_seconds: v.optional(visibility_timeout_seconds),
  /** So long it waits where there is nothing. */
  wait_seconds: v.optional(whole(0, 20), 0),
});
export const acknowledgeBody = v.strictObject({ receipt_handle: v.pipe(text(128), v.nonEmpty()) });

const cursor = v.optional(text(500));
export const queueQuery = v.object({
  limit: v.optional(
    v.pipe(
      positive,
      v.transform((limit) => Math.min(limit, MAX_PAGE_SIZE)),
    ),
    String(PAGE_SIZE),
  ),
  before_cursor: cursor,
  after_cursor: cursor,
});

const dropped = {
  queue_epoch: v.number(),
  dropped_events_total: v.number(),
  dropped_through_position: v.number(),
};
export const subscription = v.strictObject({
  id: v.string(),
  org: nullable,
  sandbox: nullable,
  team: v.null(),
  user: nullable,
  agent: v.null(),
  name: v.string(),
  event_names: v.array(v.string()),
  status: v.picklist(subscriptionStatuses),
  max_pending_events: v.number(),
  retention_seconds: v.number(),
  visibility_timeout_seconds: v.number(),
  available_count: v.number(),
  leased_count: v.number(),
  ...dropped,
  last_overflow_at: v.nullable(stamp),
  created_at: stamp,
  updated_at: stamp,
});
export const subscriptionPage = v.strictObject({
  data: v.array(subscription),
  page: v.number(),
  per_page: v.number(),
  total_count: v.number(),
  total_pages: v.number(),
});
const delivery = { delivery_id: v.string(), event: domainEvent, receive_count: v.number(), sequence: v.number() };
const queueEntry = v.strictObject({
  ...delivery,
  state: v.picklist(["available", "leased"]),
  lease_expires_at: v.nullable(stamp),
});
export const claim = v.strictObject({
  data: v.array(v.strictObject({ ...delivery, lease_expires_at: stamp, receipt_handle: v.string() })),
  has_more: v.boolean(),
  ...dropped,
});
export const head = v.strictObject({ data: v.nullable(queueEntry) });
export const queue = v.strictObject({
  data: v.array(queueEntry),
  has_more: v.boolean(),
  before_cursor: nullable,
  after_cursor: nullable,
  ...dropped,
});

export const toSubscription = (row: SubscriptionRow, state: QueueState): v.InferOutput<typeof subscription> => ({
  id: row.id,
  org: real(row.org_id),
  sandbox: real(row.sandbox_id),
  team: null,
  user: row.user_id,
  agent: null,
  name: row.name,
  event_names: row.event_names,
  status: row.status,
  max_pending_events: row.max_pending_events,
  retention_seconds: row.retention_seconds,
  visibility_timeout_seconds: row.visibility_timeout_seconds,
  available_count: state.available_count,
  leased_count: state.leased_count,
  ...toDropped(state),
  last_overflow_at: state.last_overflow_at,
  created_at: row.created_at,
  updated_at: row.updated_at,
});
export const toDropped = (state: QueueState) => ({
  queue_epoch: state.queue_epoch,
  dropped_events_total: state.dropped_events_total,
  dropped_through_position: state.dropped_through_position,
});

const TAG = 10;
/** A delivery's id is its place in the queue, and the end of its subscription's id: nothing else is kept of it. */
const deliveryId = ({ tag }: SubscriptionRow, sequence: number) => {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(sequence));
  return `esd_${base62(bytes, 12)}${tag}`;
};
/** What an address says of a delivery. 404 where it is malformed. */
export function readDelivery(text: string): { sequence: number; tag: string } {
  const id = parseId("event_subscription_delivery", text);
  return { sequence: Number(uuidOf(id) / 62n ** BigInt(TAG)), tag: id.slice(-TAG) };
}

export const toQueueEntry = async (row: SubscriptionRow, entry: Entry, numbered: Numbering) => ({
  ...(await toDelivery(row, entry, numbered)),
  state: entry.isLeased ? ("leased" as const) : ("available" as const),
  lease_expires_at: entry.isLeased ? entry.lease_expires_at : null,
});
export const toLeased = async (row: SubscriptionRow, entry: Leased, numbered: Numbering) => ({
  ...(await toDelivery(row, entry, numbered)),
  lease_expires_at: entry.lease_expires_at,
  receipt_handle: entry.receipt_handle,
});
const toDelivery = async (row: SubscriptionRow, { sequence, event, receive_count }: Entry, numbered: Numbering) => ({
  delivery_id: deliveryId(row, sequence),
  event: await toDomainEvent(event, numbered),
  receive_count,
  sequence,
});
