import { type RawBuilder, sql } from "kysely";
import { openFor, sealedTables, sealFor, tagged } from "../auth/vault.ts";
import { type DisabledReason, NONE } from "../db/schema.ts";
import type { Rows } from "../db/statements.ts";
import type { Telling, TenantDb } from "../db/tenant-db.ts";
import { ApiError, invalid, noSuch, notFound, refused } from "../errors.ts";
import { numbers, placeOf, placeRow } from "../events/log.ts";
import type { EventRow } from "../events/schema.ts";
import { judgeUrl } from "../http/guard.ts";
import { derivedId, type Id } from "../ids.ts";
import type { CursorPage } from "../paging.ts";
import type { Again } from "./remote.ts";
import type {
  CreateEndpoint,
  DeliveryRow,
  EndpointRow,
  ListDeliveries,
  Missed,
  Replay,
  UpdateEndpoint,
} from "./schema.ts";
import { newSecret } from "./secrets.ts";

type EndpointId = Id<"webhook_endpoint">;
const table = "webhook_endpoints";

/** 422 on an address that the guard of all egress lets nobody reach. */
export function mustBeReachable(url: string | undefined, loopback: boolean): void {
  const verdict = url === undefined ? {} : judgeUrl(url, { loopback });
  if ("refused" in verdict) throw invalid({ field: "url", message: `can't be reached: ${verdict.refused}` });
}

const telling = (event: "created" | "updated" | "deleted", metadata: object = {}): Telling => ({
  kind: `webhook_endpoint.${event}`,
  title: sql`${`Webhook endpoint ${event}: `} || id`,
  metadata: { ...metadata },
});
const absent = () => notFound("webhook_endpoint");

/** The secrets of an endpoint, newest first; of two, the second only while it signs. */
export async function secretsOf(roots: string, row: EndpointRow, now = Date.now()): Promise<string[]> {
  const slot = { table, app: row.app_id, sandbox: row.sandbox_id, id: row.id } as const;
  const place = sealedTables[table].map((column) => row[column]);
  const sealed = row.sealed as Uint8Array<ArrayBuffer>;
  const [newest, before] = (await openFor(roots, { slot, place, sealed, tag: row.tag })).split(" ");
  return before && isOverlapping(row, now) ? [newest!, before] : [newest!];
}
const isOverlapping = ({ overlap_expires_at }: EndpointRow, now: number) =>
  overlap_expires_at !== null && Date.parse(overlap_expires_at) > now;

const seal = ({ tenant: { app, sandbox } }: TenantDb, roots: string, id: EndpointId, secrets: string[]) =>
  sealFor(roots, { table, app, sandbox, id }, secrets.join(" "));

export const listEndpoints = (db: TenantDb, page: CursorPage) => db.pageByCursor(db.selectFrom(table), page);

export const getEndpoint = (db: TenantDb, id: EndpointId): Promise<EndpointRow> =>
  db.selectFrom(table).where("id", "=", id).selectAll().executeTakeFirstOrThrow(absent);

type Secret = { row: EndpointRow; secret: string | null };

/** Makes an org's, or the app's, with its secret. 422 on an org that isn't there, and `limit_reached` beyond the org's twentieth. */
export async function createEndpoint(
  db: TenantDb,
  roots: string,
  id: EndpointId,
  { org, ...values }: CreateEndpoint,
): Promise<Secret> {
  const place = placeOf(db, org);
  const secret = newSecret();
  const sealed = await seal(db, roots, id, [secret]);
  const insert = place.insertUnder(placeRow(place), table, {
    ...{ id, ...values, event_names: sql<string[]>`${values.event_names}::text[]`, sealed: sealed.sealed },
    tag: tagged(sealed, [sql`app_id`, sql`sandbox_id`, sql`org_id`, sql`${id}::text`]),
  } as never);
  const row = await place.telling(insert, telling("created")).executeTakeFirstOrThrow(() => noSuch("org"));
  return { row, secret };
}

/** What a row is set to that is disabled from now on; one that is already stays as it is. */
function disabling(db: TenantDb, reason: DisabledReason) {
  const head = db.selectFrom("event_heads").where(sql<boolean>`event_heads.org_id = webhook_endpoints.org_id`);
  const once = (value: RawBuilder<unknown>, column: string) =>
    sql`case when webhook_endpoints.status = 'enabled' then ${value} else webhook_endpoints.${sql.ref(column)} end`;
  return {
    status: "disabled",
    disabled_reason: once(sql`${reason}::text`, "disabled_reason"),
    disabled_at: once(sql`now()`, "disabled_at"),
    disabled_after: once(sql`coalesce((${head.select("delivered")}), 0)`, "disabled_after"),
  };
}

export function updateEndpoint(
  db: TenantDb,
  id: EndpointId,
  { status, ...values }: UpdateEndpoint,
  reason: DisabledReason = "asked",
): Promise<EndpointRow> {
  const fields = Object.keys({ ...values, ...(status && { status }) });
  const change = db.patch(table, { ...values, ...(status && disabling(db, reason)) } as never).where("id", "=", id);
  const told = telling("updated", { fields, ...(status && { reason }) });
  return db.telling(change, told).executeTakeFirstOrThrow(absent);
}

/** Deletes one. Its object is left to the sweep, and finds before it sends again that it is gone. */
export async function deleteEndpoint(db: TenantDb, id: EndpointId): Promise<void> {
  const change = db.deleteFrom(table).where("id", "=", id);
  await db.telling(change, telling("deleted")).executeTakeFirstOrThrow(absent);
}

/**
 * Gives an endpoint a new secret; the one before signs, too, for so many seconds. 409 while two do: a third would leave
 * whoever knows the first alone with nothing that verifies.
 */
export async function rotateSecret(
  db: TenantDb,
  roots: string,
  id: EndpointId,
  overlap_seconds: number,
): Promise<Secret> {
  const before = await getEndpoint(db, id);
  const secret = newSecret();
  const inUse = () => refused("rotation_under_way", "Two secrets sign until `overlap_expires_at`: rotate after that.");
  if (isOverlapping(before, Date.now())) throw inUse();
  const [current] = await secretsOf(roots, before);
  const sealed = await seal(db, roots, id, [secret, current!]);
  const tag = tagged(
    sealed,
    sealedTables[table].map((column) => sql.ref(column)),
  );
  const change = db
    .patch(table, {
      ...{ sealed: sealed.sealed, tag },
      overlap_expires_at: sql`now() + make_interval(secs => ${overlap_seconds})`,
    } as never)
    .where("id", "=", id)
    // Of two at once the second finds another secret than it has read.
    .where("tag", "=", before.tag);
  const row = await db.telling(change, telling("updated", { fields: ["secret"] })).executeTakeFirstOrThrow(inUse);
  return { row, secret };
}

/** Whether an event's name is one of these: `isNamed` in rules.ts, for the database. */
const isNamed = (names: RawBuilder<unknown>) => sql<boolean>`exists (select from unnest(${names}) n
  where case when right(n, 1) = '*' then starts_with(events.name, left(n, -1)) else n = events.name end)`;

/** An hour before an instant, as an id of an event: the clocks of databases and Workers differ by less. */
const idBefore = (at: string) => derivedId("event", Math.max(0, Date.parse(at) - 3_600_000), new Uint8Array(16));

/**
 * Enables one, and says what it has missed: all that was numbered between, whoever numbers meanwhile. 404 where it is gone.
 */
export async function enableEndpoint(
  db: TenantDb,
  { id, org_id, disabled_at }: EndpointRow,
): Promise<{ row: EndpointRow; missed: Missed }> {
  const isApps = org_id === NONE;
  const place = db.viewer.kind === "key" && !isApps ? db.inOrg(org_id) : db;
  const head = place.selectFrom("event_heads").where(sql<boolean>`event_heads.org_id = webhook_endpoints.org_id`);
  // Of two who enable it at once the second changes nothing, lest what the first has numbered since be passed over.
  const heard_after = isApps
    ? undefined
    : sql`case when webhook_endpoints.status = 'disabled' then coalesce((${head.select("sequence")}), 0)
        else webhook_endpoints.heard_after end`;
  const enabled = { status: "enabled", heard_after, failing_since: null, failing_told: 0 };
  const cleared = { disabled_reason: null, disabled_at: null, disabled_after: null };
  const change = place.patch(table, { ...enabled, ...cleared } as never).where("id", "=", id);
  const one = place.selectFrom(table).where("id", "=", id).where("status", "=", "disabled").selectAll();
  const since = isApps
    ? sql<boolean>`events.id >= ${idBefore(disabled_at ?? new Date().toISOString())} and events.created_at >= w.disabled_at`
    : sql<boolean>`events.org_id = w.org_id and events.sequence > w.disabled_after`;
  const events = place
    .selectFrom("events")
    .where(sql<boolean>`exists (select from (${one}) w where ${since} and ${isNamed(sql`w.event_names`)})`);
  const sequence = (of: RawBuilder<unknown>) => (isApps ? sql`null` : of);
  const { missed, rows } = await place.batch({
    // Nobody else numbers until this is done; who does then, sees the endpoint enabled.
    ...(!isApps && { numbered: numbers(place) }),
    missed: events.select([
      sql<number | null>`${sequence(sql`min(sequence)`)}`.as("from_sequence"),
      sql<number | null>`${sequence(sql`max(sequence)`)}`.as("to_sequence"),
      sql<number>`count(*)`.as("count"),
    ]),
    rows: place.telling(change, telling("updated", { fields: ["status"] })),
  });
  const [row] = rows;
  if (!row) throw absent();
  return { row, missed: missed[0]! };
}

/** So many deliveries are replayed in a step, and by one request. */
export const REPLAY_PAGE = 100;
export const MOST_REPLAYED = 5_000;

const events_expired = () =>
  new ApiError(410, "events_expired", "Events of this range are kept no longer: they can't be replayed.");
export const mustBeEnabled = ({ status }: EndpointRow): void => {
  if (status === "disabled") throw refused("endpoint_disabled", "The endpoint is disabled. Enable it first.");
};

/** The newest delivery of an event to an endpoint, as a column `delivery`. */
const newestOf = (db: TenantDb, endpoint: EndpointId) => {
  const deliveries = db
    .selectFrom("webhook_deliveries")
    .where("endpoint_id", "=", endpoint)
    .where(sql<boolean>`event_id = events.id`)
    .orderBy(sql`id desc`)
    .limit(1);
  return sql<(Again["delivery"] & Pick<DeliveryRow, "status">) | null>`(select to_jsonb(d) from (${deliveries.select([
    ...(["id", "attempts", "attempt_count", "revision", "status"] as const),
  ])}) d)`;
};

/** Where a range goes on: behind the last of what was replayed. */
export type From = { sequence: number; created_at: string; id: string } | null;

/**
 * Some of what a range names, oldest first. 410 where some of it is kept no longer; 422 on sequences of an endpoint that
 * hears of more than one place.
 */
export async function eventsToReplay(db: TenantDb, row: EndpointRow, asked: Replay, from: From): Promise<Again[]> {
  const isApps = row.org_id === NONE;
  const place = db.viewer.kind === "key" && !isApps ? db.inOrg(row.org_id) : db;
  const { from_sequence, to_sequence, statuses } = asked;
  if (isApps && from_sequence !== undefined) {
    throw invalid({ field: "from_sequence", message: "means nothing to an endpoint of many orgs: give from and to" });
  }
  let events: Rows<"events"> = place
    .selectFrom("events")
    .where("sequence", "is not", null)
    .where(isNamed(sql`${row.event_names}::text[]`));
  if (asked.event_names) events = events.where(isNamed(sql`${asked.event_names}::text[]`));
  if (from_sequence !== undefined) {
    events = events
      .where("sequence", ">=", from_sequence)
      .where("sequence", "<=", to_sequence!)
      .where("sequence", ">", from?.sequence ?? 0)
      .orderBy("sequence");
  } else {
    events = events
      .where(sql<boolean>`events.id >= ${idBefore(asked.from!)}`)
      .where("created_at", ">=", asked.from!)
      .where("created_at", "<=", asked.to!)
      .orderBy("created_at")
      .orderBy("id");
    if (from) events = events.where(sql<boolean>`(created_at, id) > (${from.created_at}::timestamptz, ${from.id})`);
  }
  const delivery = newestOf(place, row.id);
  if (statuses) events = events.where(sql<boolean>`${delivery} ->> 'status' = any (${statuses}::text[])`);
  const { rows, expired } = await place.batch({
    rows: events.selectAll().select(delivery.as("delivery")).limit(REPLAY_PAGE),
    expired: place.selectFrom("event_heads").where("org_id", "=", row.org_id).select("expired"),
  });
  if (from_sequence !== undefined && from_sequence <= (expired[0]?.expired ?? 0)) throw events_expired();
  return rows.map(({ delivery, ...event }) => ({ event: event as EventRow, delivery }));
}

/** A page of what was, or is to be, delivered to an endpoint, newest first. 404 where that isn't the viewer's. */
export async function listDeliveries(db: TenantDb, id: EndpointId, { status }: ListDeliveries, page: CursorPage) {
  let rows = db.selectFrom("webhook_deliveries").where("endpoint_id", "=", id);
  if (status) rows = rows.where("status", "in", status);
  if (page.from) rows = rows.where(sql<boolean>`id < ${page.from}`);
  const { found, deliveries } = await db.batch({
    found: db.selectFrom(table).where("id", "=", id).select("id"),
    deliveries: rows
      .select(["id", "endpoint_id", "event_id", "event_org_id", "event_name", "sequence", "status", "attempt_count"])
      .select(["next_attempt_at", "created_at", "updated_at"])
      .orderBy(sql`id desc`)
      .limit(page.limit + 1),
  });
  if (!found.length) throw absent();
  return deliveries as Omit<DeliveryRow, "attempts">[];
}

const reachable = (db: TenantDb, id: Id<"webhook_delivery">) =>
  db
    .selectFrom("webhook_deliveries")
    .where("id", "=", id)
    .where("endpoint_id", "in", db.selectFrom(table).select("id"));

export const getDelivery = (db: TenantDb, id: Id<"webhook_delivery">): Promise<DeliveryRow> =>
  reachable(db, id)
    .selectAll()
    .executeTakeFirstOrThrow(() => notFound("webhook_delivery")) as Promise<DeliveryRow>;

/** A delivery with its endpoint and its event, to be sent again. 410 where the event is kept no longer. */
export async function deliveryToReplay(db: TenantDb, id: Id<"webhook_delivery">) {
  const one = reachable(db, id);
  const { deliveries, endpoints, events } = await db.batch({
    deliveries: one.selectAll(),
    endpoints: db.selectFrom(table).where("id", "in", one.select("endpoint_id")).selectAll(),
    events: db.selectFrom("events").where("id", "in", one.select("event_id")).selectAll(),
  });
  const [delivery, endpoint, event] = [deliveries[0], endpoints[0], events[0]];
  if (!delivery || !endpoint) throw notFound("webhook_delivery");
  mustBeEnabled(endpoint);
  if (!event) throw events_expired();
  return { delivery: delivery as DeliveryRow, endpoint, event: event as EventRow };
}

/** What of an endpoint its Dispatchers know. */
export type Listening = Pick<EndpointRow, "id" | "org_id" | "event_names" | "heard_since" | "heard_after">;
