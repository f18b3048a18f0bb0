/** What a subscription's queue does for the Workers and the Dispatcher: they hand it the row, which says how it is to be kept. */
import type { Role, Row } from "../db/schema.ts";
import type { Bindings } from "../env.ts";
import type { EventRow } from "../events/schema.ts";
import type { Id } from "../ids.ts";
import { objectOf, type Place } from "../objects/stub.ts";

/** With the role that its user has now: what the user may not read, or may not any more, is not in the queue. */
export type SubscriptionRow = Row<"event_subscriptions"> & { role: Role | null };

/** How a queue stands. `position`s are its own sequence. */
export type QueueState = {
  available_count: number;
  leased_count: number;
  dropped_events_total: number;
  dropped_through_position: number;
  last_overflow_at: string | null;
  /** Of a queue that had to be made anew it is higher. */
  queue_epoch: number;
};

/** What is in the queue. `lease_expires_at` is null, or past, where nobody holds it. */
export type Entry = {
  sequence: number;
  event: EventRow;
  receive_count: number;
  lease_expires_at: string | null;
  isLeased: boolean;
};
export type Leased = Entry & { lease_expires_at: string; receipt_handle: string };

export type Ask = {
  consumer_id?: string | undefined;
  request_id?: string | undefined;
  max_events?: number | undefined;
  visibility_timeout_seconds?: number | undefined;
};

export interface QueueRemote extends Rpc.DurableObjectBranded {
  /** Takes events in, each once, in the order of their sequences. The oldest are dropped for what doesn't fit. */
  deliver(row: SubscriptionRow, events: EventRow[]): Promise<void>;
  /**
   * Leases the oldest, unless that is leased; or, with `max_events`, so many of the oldest that are not. Asked again by the
   * same consumer with the same `request_id` it leases what that holds still, under new handles.
   */
  claim(row: SubscriptionRow, ask: Ask): Promise<QueueState & { leased: Leased[]; has_more: boolean }>;
  /** Waits until there may be something to claim, so long at most. */
  ready(ms: number): Promise<void>;
  /** Takes what was done out, by the handle of its last lease. The same handle again is as good. */
  acknowledge(row: SubscriptionRow, sequence: number, handle: string): Promise<"done" | "stale" | "gone">;
  /** Some of what is in it, oldest first: behind a position, or the last before one. */
  look(
    row: SubscriptionRow,
    page: { limit: number; after?: number; before?: number },
  ): Promise<QueueState & { entries: Entry[]; has_more: boolean }>;
  /** Ends the object: nothing is left of it. */
  erase(): Promise<void>;
}

/** As it is asked: all that passes is JSON, of which the types of RPC would make something else. */
type QueueAsked = Omit<QueueRemote, keyof Rpc.DurableObjectBranded>;

/** The object of a subscription. Its class is of another Worker, so that the binding has no type of its own. */
export const queueOf = ({ QUEUES }: Bindings, row: Place & { id: Id<"event_subscription"> }): QueueAsked =>
  objectOf(QUEUES, row) as unknown as QueueAsked;
