import type { Context } from "hono";
import { type Allowed, allow } from "../../lib/auth/allow.ts";
import { NONE } from "../../lib/db/schema.ts";
import { ApiError, refused } from "../../lib/errors.ts";
import {
  createSubscription,
  deleteSubscription,
  getSubscription,
  listSubscriptions,
  subscriptionOf,
  updateSubscription,
} from "../../lib/event-subscriptions/queries.ts";
import { queueOf, type SubscriptionRow } from "../../lib/event-subscriptions/remote.ts";
import {
  acknowledgeBody,
  claim,
  claimBody,
  createSubscriptionBody,
  head,
  listSubscriptionsQuery,
  queue,
  queueQuery,
  readDelivery,
  subscription,
  subscriptionPage,
  toDropped,
  toLeased,
  toQueueEntry,
  toSubscription,
  updateSubscriptionBody,
} from "../../lib/event-subscriptions/schema.ts";
import { numbering, placeOf } from "../../lib/events/log.ts";
import { gives, givesNothing } from "../../lib/http/gives.ts";
import { once } from "../../lib/http/once.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { wait } from "../../lib/http/watch.ts";
import { parseId } from "../../lib/ids.ts";
import { openCursor } from "../../lib/paging.ts";
import { reached } from "../../lib/sessions/reach.ts";

const subscriptions = router();
const idOf = (text: string) => parseId("event_subscription", text);

type Asking = Pick<Context<Allowed>, "env" | "var">;
/** The subscription with how its queue stands. */
const shown = async ({ env }: Asking, row: SubscriptionRow) =>
  toSubscription(row, await reached(queueOf(env, row).look(row, { limit: 0 })));
/** How its events' numbers are shown to the viewer, who is its user, or the app. */
const numberingOf = ({ env, var: { db } }: Asking, { org_id, role }: SubscriptionRow) =>
  numbering(
    env.ROOT_SECRETS,
    placeOf(db, org_id === NONE ? null : org_id),
    db.viewer.kind === "key" || role === "owner" || role === "admin",
  );

subscriptions.get(
  "/api/v1/event_subscriptions",
  allow("event_subscriptions:read"),
  valid("query", listSubscriptionsQuery),
  gives(200, subscriptionPage, 503),
  async (c) => {
    const { page, per_page } = c.req.valid("query");
    const { rows, total } = await listSubscriptions(c.var.db, page, per_page);
    const data = await Promise.all(rows.map((row) => shown(c, row as SubscriptionRow)));
    return c.var.answer({ data, page, per_page, total_count: total, total_pages: Math.ceil(total / per_page) });
  },
);

subscriptions.post(
  "/api/v1/event_subscriptions",
  allow("event_subscriptions:write"),
  valid("json", createSubscriptionBody),
  once("event_subscription"),
  gives(201, subscription, 503),
  async (c) => {
    const row = await c.var.once((db, id) => createSubscription(db, id, c.req.valid("json")), getSubscription);
    return c.var.answer(await shown(c, row));
  },
);

subscriptions.get(
  "/api/v1/event_subscriptions/:subscription",
  allow("event_subscriptions:read"),
  gives(200, subscription, 503),
  async (c) => {
    return c.var.answer(await shown(c, await getSubscription(c.var.db, idOf(c.req.param("subscription")))));
  },
);

subscriptions.patch(
  "/api/v1/event_subscriptions/:subscription",
  allow("event_subscriptions:write"),
  valid("json", updateSubscriptionBody),
  gives(200, subscription, 503),
  async (c) => {
    const id = idOf(c.req.param("subscription"));
    return c.var.answer(await shown(c, await updateSubscription(c.var.db, id, c.req.valid("json"))));
  },
);

subscriptions.delete(
  "/api/v1/event_subscriptions/:subscription",
  allow("event_subscriptions:write"),
  givesNothing(),
  async (c) => {
    await deleteSubscription(c.var.db, idOf(c.req.param("subscription")));
    return c.var.answer();
  },
);

/** Who waits is asked for its credential again each time before it is given anything, and counts as who follows a stream. */
subscriptions.post(
  "/api/v1/event_subscriptions/:subscription/claim",
  named("Claim events of a subscription"),
  allow("event_subscriptions:write"),
  valid("json", claimBody),
  gives(200, claim, 429, 503),
  async (c) => {
    const { wait_seconds, ...asked } = c.req.valid("json");
    const ends = Date.now() + wait_seconds * 1000;
    for (;;) {
      const row = await getSubscription(c.var.db, idOf(c.req.param("subscription")));
      const queue = queueOf(c.env, row);
      const { leased, has_more, ...state } = await reached(queue.claim(row, asked));
      if (leased.length || Date.now() >= ends) {
        const data = await Promise.all(leased.map((one) => toLeased(row, one, numberingOf(c, row))));
        return c.var.answer({ data, has_more, ...toDropped(state) });
      }
      const left = ends - Date.now();
      const end = wait(c, left);
      await reached(queue.ready(left)).finally(end);
    }
  },
);

subscriptions.get(
  "/api/v1/event_subscriptions/:subscription/head",
  named("Look at the head of a subscription's queue"),
  allow("event_subscriptions:read"),
  gives(200, head, 503),
  async (c) => {
    const row = await getSubscription(c.var.db, idOf(c.req.param("subscription")));
    const { entries } = await reached(queueOf(c.env, row).look(row, { limit: 1 }));
    return c.var.answer({ data: entries[0] ? await toQueueEntry(row, entries[0], numberingOf(c, row)) : null });
  },
);

/** Oldest first: `after_cursor` leads on to newer ones. */
subscriptions.get(
  "/api/v1/event_subscriptions/:subscription/queue",
  named("Look at a subscription's queue"),
  allow("event_subscriptions:read"),
  valid("query", queueQuery),
  gives(200, queue, 400, 503),
  async (c) => {
    const id = idOf(c.req.param("subscription"));
    const { limit, direction, from, seal } = await openCursor(
      ...([c.env.ROOT_SECRETS, `queue of ${id}`, c.var.db.tenant, c.req.valid("query")] as const),
    );
    const row = await getSubscription(c.var.db, id);
    const isBack = from !== null && direction === "older";
    const at = from === null ? {} : { [isBack ? "before" : "after"]: Number(from) };
    const { entries, has_more, ...state } = await reached(queueOf(c.env, row).look(row, { limit, ...at }));
    const [first, last] = [entries[0]?.sequence, entries.at(-1)?.sequence];
    const cursor = (is: boolean, sequence = Number(from)) => (is ? seal(String(sequence)) : null);
    return c.var.answer({
      data: await Promise.all(entries.map((entry) => toQueueEntry(row, entry, numberingOf(c, row)))),
      has_more,
      before_cursor: await cursor(isBack ? has_more : from !== null, first),
      after_cursor: await cursor(isBack || has_more, last),
      ...toDropped(state),
    });
  },
);

subscriptions.post(
  "/api/v1/event_subscription_deliveries/:delivery/acknowledge",
  named("Acknowledge a delivery"),
  allow("event_subscriptions:write"),
  valid("json", acknowledgeBody),
  givesNothing(409),
  async (c) => {
    const { sequence, tag } = readDelivery(c.req.param("delivery"));
    const row = await subscriptionOf(c.var.db, tag);
    const { receipt_handle } = c.req.valid("json");
    const outcome = await reached(queueOf(c.env, row).acknowledge(row, sequence, receipt_handle));
    if (outcome === "gone") throw new ApiError(404, "delivery_not_found", "The queue holds this delivery no longer.");
    if (outcome === "stale")
      throw refused("stale_receipt", "Another lease has taken the place of this receipt_handle.");
    return c.var.answer();
  },
);

export default subscriptions;
