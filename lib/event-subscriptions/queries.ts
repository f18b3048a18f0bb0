import { sql } from "kysely";
import { isHeld } from "../auth/acl.ts";
import type { Rows } from "../db/statements.ts";
import type { Telling, TenantDb } from "../db/tenant-db.ts";
import { noSuch, notFound } from "../errors.ts";
import { placeOf, placeRow } from "../events/log.ts";
import type { Id } from "../ids.ts";
import type { SubscriptionRow } from "./remote.ts";
import type { CreateSubscription, UpdateSubscription } from "./schema.ts";

/** Those of the viewer: of a person its own, of the app all. What another hears is not for an admin to take out. */
function own(db: TenantDb) {
  const rows = db.selectFrom("event_subscriptions");
  return isHeld(db.viewer) ? rows.where("user_id", "=", db.viewer.user) : rows;
}
const role = (db: TenantDb) => db.valueOf("users", "role", sql.ref("event_subscriptions.user_id")).as("role");

/** One page of the viewer's, newest first, and how many those are. */
export const listSubscriptions = (db: TenantDb, page: number, page_size: number) =>
  db.page(own(db).selectAll().select(role(db)), { page, page_size });

export const getSubscription = (db: TenantDb, id: Id<"event_subscription">): Promise<SubscriptionRow> =>
  first(db, own(db).where("event_subscriptions.id", "=", id), "event_subscription");

/** The subscription that a delivery's id says it is of. */
export const subscriptionOf = (db: TenantDb, tag: string): Promise<SubscriptionRow> =>
  first(db, own(db).where("tag", "=", tag), "event_subscription_delivery");

const first = (
  db: TenantDb,
  rows: Rows<"event_subscriptions">,
  kind: "event_subscription" | "event_subscription_delivery",
): Promise<SubscriptionRow> =>
  rows
    .selectAll()
    .select(role(db))
    .executeTakeFirstOrThrow(() => notFound(kind));

/** What the feed tells of one: to whose it is, and to the org's admins. */
const telling = (event: "created" | "updated" | "deleted"): Telling => ({
  kind: `event_subscription.${event}`,
  title: sql`${`Event subscription ${event}: `} || name`,
  readers: sql`array_remove(array['user:' || user_id], null)`,
});

/** Makes a person's own, or the app's. 422 on an org that isn't there, and `limit_reached` beyond the org's fiftieth. */
export async function createSubscription(
  db: TenantDb,
  id: Id<"event_subscription">,
  { org, ...values }: CreateSubscription,
): Promise<SubscriptionRow> {
  const place = placeOf(db, org);
  const user_id = db.viewer.kind === "user" ? db.viewer.user : null;
  const insert = place.insertUnder(placeRow(place), "event_subscriptions", {
    ...{ id, user_id, ...values },
    event_names: sql<string[]>`${values.event_names}::text[]`,
  } as never);
  const row = place.valueOf("users", "role", sql.ref("subject.user_id"));
  return place
    .telling(insert, telling("created"), { role: row })
    .executeTakeFirstOrThrow(() => noSuch("org")) as Promise<SubscriptionRow>;
}

export const updateSubscription = (
  db: TenantDb,
  id: Id<"event_subscription">,
  values: UpdateSubscription,
): Promise<SubscriptionRow> =>
  db
    .telling(
      db
        .patch("event_subscriptions", values)
        .where("id", "=", id)
        .where(sql<boolean>`id in (${own(db).select("id")})`),
      { ...telling("updated"), metadata: { fields: Object.keys(values) } },
      { role: db.valueOf("users", "role", sql.ref("subject.user_id")) },
    )
    .executeTakeFirstOrThrow(() => notFound("event_subscription")) as Promise<SubscriptionRow>;

/** Deletes one. Its queue is left to the sweep. */
export async function deleteSubscription(db: TenantDb, id: Id<"event_subscription">): Promise<void> {
  const change = db
    .deleteFrom("event_subscriptions")
    .where("id", "=", id)
    .where(sql<boolean>`id in (${own(db).select("id")})`);
  await db.telling(change, telling("deleted")).executeTakeFirstOrThrow(() => notFound("event_subscription"));
}

/** Who hears of these events, each with the sequences of those: what is active, of what came behind it. */
export function listening(db: TenantDb, events: Rows<"events">) {
  const page = sql`(${events.select(["name", "sequence", "position"])}) as e`;
  return db
    .selectFrom("event_subscriptions")
    .where("status", "=", "active")
    .selectAll()
    .select(role(db))
    .select(
      sql<number[]>`to_jsonb(array(select e.sequence from ${page}
        where e.position > (event_subscriptions.heard_since ->> e.name)::bigint))`.as("hears"),
    );
}
