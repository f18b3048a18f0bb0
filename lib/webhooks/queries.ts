import { type RawBuilder, sql } from "kysely";
import { openFor, sealedTables, sealFor, tagged } from "../auth/vault.ts";
import { type DisabledReason, NONE } from "../db/schema.ts";
import type { Rows } from "../db/statements.ts";
import type { Telling, TenantDb } from "../db/tenant-db.ts";
import { ApiError, invalid, noSuch, notFound, refused, unprocessable } from "../errors.ts";
import { numbers, placeOf, placeRow, readable, seesNumbers } from "../events/log.ts";
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
  ShownDelivery,
  UpdateEndpoint,
  WholeDelivery,
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

/** An hour before an instant, or after it, as an id of an event: the clocks of databases and Workers differ by less. */
const idAnHour = (hour: "before" | "after", at: string) =>
  derivedId("event", Math.max(0, Date.parse(at) + (hour === "before" ? -HOUR_MS : HOUR_MS)), new Uint8Array(16));
const HOUR_MS = 3_600_000;

/** Where the events happen that an endpoint hears of: a key sees every org's, and an org's endpoint is told of its own. */
const placeOfEndpoint = (db: TenantDb, { org_id }: Pick<EndpointRow, "org_id">) =>
  db.viewer.kind === "key" && org_id !== NONE ? db.inOrg(org_id) : db;

/**
 * Enables one, and says what it has missed: all that was numbered between, whoever numbers meanwhile. 404 where it is gone.
 */
export async function enableEndpoint(
  db: TenantDb,
  { id, org_id, disabled_at }: EndpointRow,
): Promise<{ row: EndpointRow; missed: Missed }> {
  const isApps = org_id === NONE;
  const place = placeOfEndpoint(db, { org_id });
  const head = place.selectFrom("event_heads").where(sql<boolean>`event_heads.org_id = webhook_endpoints.org_id`);
  // Of two who enable it at once the second changes nothing, lest what the first has numbered since be passed over.
  const heard_after = isApps
    ? undefined
    : sql`case when webhook_endpoints.status = 'disabled' then coalesce((${head.select("sequence")}), 0)
        else webhook_endpoints.heard_after end`;
  const enabled = { status: "enabled", heard_after, failing_since: null, failing_told: 0 };
  const cleared = { disabled_reason: null, disabled_at: null, disabled_after: null };
  const change = place.patch(table, { ...enabled, ...cleared } as never).where("id", "=", id);
  // Of one that isn't disabled nothing, and so no event.
  const was = (column: "event_names" | "disabled_at" | "disabled_after") =>
    sql`(${place.selectFrom(table).where("id", "=", id).where("status", "=", "disabled").select(column)})`;
  const since = isApps
    ? sql<boolean>`events.id >= ${idAnHour("before", disabled_at ?? new Date().toISOString())} and events.created_at >= ${was("disabled_at")}`
    : sql<boolean>`events.sequence > ${was("disabled_after")}`;
  const events = place
    .selectFrom("events")
    .where(since)
    .where(isNamed(was("event_names")));
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

/** So many events are replayed in a step, and by one request. */
export const REPLAY_PAGE = 100;
export const MOST_REPLAYED = 5_000;

const events_expired = () =>
  new ApiError(410, "events_expired", "Events of this range are kept no longer: they can't be replayed.");
export const mustBeEnabled = ({ status }: EndpointRow): void => {
  if (status === "disabled") throw refused("endpoint_disabled", "The endpoint is disabled. Enable it first.");
};

/** 422: what is to be replayed has no room beside what waits there. */
export const tooManyWait = () =>
  unprocessable(
    "limit_reached",
    "As many deliveries wait at this endpoint as may. Replay these when its receiver answers.",
  );

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

/** An event of a range, by what the rest of it is named. */
type Named = Pick<EventRow, "id" | "sequence" | "created_at">;

/**
 * What a range names, oldest first: as much as is replayed at once, and the first of the rest. 410 where some of it is kept
 * no longer; 422 on sequences of an endpoint that hears of more than one place.
 */
export async function namedEvents(db: TenantDb, row: EndpointRow, asked: Replay): Promise<Named[]> {
  const place = placeOfEndpoint(db, row);
  const { from_sequence, to_sequence, statuses } = asked;
  if (row.org_id === NONE && from_sequence !== undefined) {
    throw invalid({ field: "from_sequence", message: "means nothing to an endpoint of many orgs: give from and to" });
  }
  let events: Rows<"events"> = place
    .selectFrom("events")
    .where("sequence", "is not", null)
    .where(isNamed(sql`${row.event_names}::text[]`));
  if (asked.event_names) events = events.where(isNamed(sql`${asked.event_names}::text[]`));
  if (from_sequence !== undefined) {
    events = events.where("sequence", ">=", from_sequence).where("sequence", "<=", to_sequence!).orderBy("sequence");
  } else {
    events = events
      .where(sql<boolean>`events.id between ${idAnHour("before", asked.from!)} and ${idAnHour("after", asked.to!)}`)
      .where("created_at", ">=", asked.from!)
      .where("created_at", "<=", asked.to!)
      .orderBy("created_at")
      .orderBy("id");
  }
  if (statuses) {
    events = events.where(sql<boolean>`${newestOf(place, row.id)} ->> 'status' = any (${statuses}::text[])`);
  }
  const { named, expired } = await place.batch({
    named: events.select(["id", "sequence", "created_at"]).limit(MOST_REPLAYED + 1),
    expired: place.selectFrom("event_heads").where("org_id", "=", row.org_id).select("expired"),
  });
  if (from_sequence !== undefined && from_sequence <= (expired[0]?.expired ?? 0)) throw events_expired();
  return named;
}

/** Some of these, whole, each with its newest delivery. */
export async function eventsToReplay(db: TenantDb, row: EndpointRow, named: Named[]): Promise<Again[]> {
  const place = placeOfEndpoint(db, row);
  const ids = named.map(({ id }) => id);
  const events = place.selectFrom("events").where(sql<boolean>`events.id = any (${ids}::text[])`);
  const rows = await events.selectAll().select(newestOf(place, row.id).as("delivery")).execute();
  return rows.map(({ delivery, ...event }) => ({ event: event as EventRow, delivery }));
}

/** What of a delivery is shown. Its number to those alone who see the numbers of events. */
const shown = (db: TenantDb) =>
  [
    ...(["id", "endpoint_id", "event_id", "event_org_id", "event_name", "status", "attempt_count"] as const),
    ...(["next_attempt_at", "created_at", "updated_at"] as const),
    sql<number | null>`case when ${seesNumbers(db.viewer)} then sequence end`.as("sequence"),
  ] as const;

/** An endpoint is told of everything; who isn't an admin sees of its deliveries those of events that they may read. */
function deliveries(db: TenantDb) {
  const told = db
    .selectFrom("events")
    .where(sql<boolean>`events.id = webhook_deliveries.event_id`)
    .where(readable(db.viewer));
  const isShown = sql<boolean>`(${seesNumbers(db.viewer)} or exists (${told.select(sql`1`.as("one"))}))`;
  return db.selectFrom("webhook_deliveries").where(isShown);
}

/** A page of what was, or is to be, delivered to an endpoint, newest first. 404 where that isn't the viewer's. */
export async function listDeliveries(
  db: TenantDb,
  id: EndpointId,
  { status }: ListDeliveries,
  page: CursorPage,
): Promise<ShownDelivery[]> {
  let rows = deliveries(db).where("endpoint_id", "=", id);
  if (status) rows = rows.where("status", "in", status);
  if (page.from) rows = rows.where(sql<boolean>`webhook_deliveries.id < ${page.from}`);
  const { found, listed } = await db.batch({
    found: db.selectFrom(table).where("id", "=", id).select("id"),
    listed: rows
      .select(shown(db))
      .orderBy(sql`webhook_deliveries.id desc`)
      .limit(page.limit + 1),
  });
  if (!found.length) throw absent();
  return listed;
}

const reachable = (db: TenantDb, id: Id<"webhook_delivery">) =>
  deliveries(db).where("webhook_deliveries.id", "=", id).where("endpoint_id", "in", db.selectFrom(table).select("id"));

export const getDelivery = (db: TenantDb, id: Id<"webhook_delivery">): Promise<WholeDelivery> =>
  reachable(db, id)
    .select([...shown(db), "attempts"])
    .executeTakeFirstOrThrow(() => notFound("webhook_delivery"));

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
