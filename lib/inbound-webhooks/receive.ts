/** What comes to a webhook's address: whether it counts, what is written of it, and what it starts. */
import { sql } from "kysely";
import { wholeAcl } from "../auth/acl.ts";
import { sha256 } from "../auth/keys.ts";
import { hex } from "../auth/secrets.ts";
import { isLive } from "../configs/access.ts";
import type { Rows } from "../db/statements.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { ApiError, invalidSignature, notFound } from "../errors.ts";
import { type EventName, MAX_PAYLOAD, type PayloadOf, typeOf } from "../events/catalogue.ts";
import { emitting } from "../events/emit.ts";
import { isKey } from "../http/once.ts";
import { isWithinAsJson } from "../http/valid.ts";
import { type Id, newId } from "../ids.ts";
import { tellingRun } from "../routine-runs/queries.ts";
import { bodyOf } from "./body.ts";
import { answerOf, deliveryIdOf, GITHUB_EVENT, headersOf, isSigned, keysOf } from "./providers.ts";
import { liveOf, secretsOf } from "./queries.ts";
import { listed, type ReceiptRow, type WebhookRow } from "./schema.ts";

/** What comes to one webhook, in a minute that begins with the first. */
const MOST_A_MINUTE = 600;
const MINUTE_MS = 60_000;

/** So many webhooks an isolate knows, by the hashes of their tokens, as it has last seen them, with the keys of their secrets. */
const MOST_KNOWN = 1000;
type Known = { hook: WebhookRow; keys: CryptoKey[] };
const known = new Map<string, Known>();

/** Counts what came in a minute; beyond what may come it stands still. */
const goesOn = sql`counted_since > now() - interval '1 minute'`;
const counting = {
  counted: sql<number>`case when ${goesOn} then least(counted, ${MOST_A_MINUTE}) + 1 else 1 end`,
  counted_since: sql<string>`case when ${goesOn} then counted_since else now() end`,
};

/** The webhook of an address, by its door. Whatever comes counts, good or not; 429 beyond what may come in a minute. */
async function enterHook(db: TenantDb, hash: Uint8Array): Promise<WebhookRow> {
  const counted = db
    .updateTable("inbound_webhooks")
    .set(counting)
    .where(sql<boolean>`(token_hash = ${hash} or (previous_token_hash = ${hash} and overlap_expires_at > now()))`)
    .returningAll();
  const hook = await counted.executeTakeFirstOrThrow(() => notFound("inbound_webhook"));
  if (hook.counted <= MOST_A_MINUTE) return hook;
  const seconds = Math.ceil((Date.parse(hook.counted_since) + MINUTE_MS - Date.now()) / 1000);
  throw new ApiError(
    429,
    "too_many_deliveries",
    `A webhook takes ${MOST_A_MINUTE} deliveries a minute. Send this again later.`,
    [],
    { "Retry-After": String(Math.min(60, Math.max(1, seconds))) },
  );
}

/** What came, as it is told. What is too long for that has no `body`, and its bytes as they are. */
type Came = {
  headers: Record<string, string>;
  body?: unknown;
  bytes: Uint8Array | null;
  delivery_id: string | null;
  /** Only to see whether somebody is there: it is told to nobody, and starts nothing. */
  isPing: boolean;
  replay_of?: Id<"webhook_receipt">;
};
type Recorded = Pick<ReceiptRow, (typeof listed)[number]>;

/** `challenge`: what is to be said instead of the receipt. */
type Received = { hook: WebhookRow; receipt: Recorded; challenge: string | null };
/** What is sent; a short one may be read before the door has let it in. */
type Delivery = { headers: Headers; isShort: boolean; read(): Promise<Uint8Array<ArrayBuffer>> };

/**
 * Takes a delivery: 401 unless it is signed by a live secret, near now. What is answered has been committed, and what has
 * come before, within seven days, is answered with its first receipt. One round trip, if the webhook is as it was when it
 * was last seen here; what is said by a row that has changed counts for nothing, and is asked anew.
 */
export async function receive(
  db: TenantDb,
  roots: string,
  hash: Uint8Array,
  { headers, isShort, read }: Delivery,
): Promise<Received> {
  const key = hex(hash);
  const before = isShort ? known.get(key) : undefined;
  const early = before && (await read());
  if (before && early && (await isBelieved(before, headers, early))) {
    const received = await write(db, before.hook, headers, early, true);
    if (received) return received;
  }
  const hook = await enterHook(db, hash);
  const now = { hook, keys: await keysOf(hook, await secretsOf(roots, hook)) };
  const bytes = early ?? (await read());
  if (!(await isBelieved(now, headers, bytes))) throw invalidSignature();
  if (known.size >= MOST_KNOWN) known.clear();
  known.set(key, now);
  const received = await write(db, hook, headers, bytes, false);
  // Deleted since its door let this in.
  if (!received) throw notFound("inbound_webhook");
  return received;
}

const isBelieved = ({ hook, keys }: Known, headers: Headers, bytes: Uint8Array<ArrayBuffer>) =>
  isSigned(hook, liveOf(hook, keys), headers, bytes, Date.now());

async function write(
  db: TenantDb,
  hook: WebhookRow,
  headers: Headers,
  bytes: Uint8Array,
  isKnown: boolean,
): Promise<Received | null> {
  const body = bodyOf(hook.provider, bytes, headers.get("content-type") ?? "");
  const answer = answerOf(hook, headers, body);
  const id = deliveryIdOf(hook, headers, body);
  const came = {
    ...{ headers: headersOf(hook, headers), body, bytes, isPing: answer !== null },
    // One that can't be kept as it is, is known by its hash.
    delivery_id: id === null || isKey(id) ? id : hex(await sha256(id)),
  };
  const receipt = await record(db, hook, newId("webhook_receipt"), came, isKnown);
  return receipt ? { hook, receipt, challenge: answer?.challenge ?? null } : null;
}

/** What came with a receipt again, as if it came now: with a receipt, an event and a run of its own. */
export async function replay(
  db: TenantDb,
  hook: WebhookRow,
  id: Id<"webhook_receipt">,
  { id: replay_of, payload, body: bytes, status }: ReceiptRow,
): Promise<Recorded> {
  const came = {
    ...{ headers: payload.headers as Came["headers"], bytes, delivery_id: null },
    ...("body" in payload && { body: payload.body }),
    ...{ isPing: status === "answered", replay_of },
  };
  const receipt = await record(db, hook, id, came);
  if (!receipt) throw notFound("inbound_webhook");
  return receipt;
}

/** The body of a receipt, as its event says it, or would if it were shorter. */
export function receivedBody({ payload, body }: ReceiptRow): unknown {
  if (!body) return payload.body;
  const { "content-type": type = "" } = payload.headers as Record<string, string>;
  return bodyOf(payload.provider as WebhookRow["provider"], body, type);
}

/** What a webhook starts, if that is there and active, and what a run has of it. Null: it starts nothing. */
function targetOf(db: TenantDb, { routine_id, automation_id }: WebhookRow) {
  if (routine_id) {
    const rows = db
      .selectFrom("agent_routines")
      .where("agent_routines.id", "=", routine_id)
      .where("status", "=", "active");
    const columns = { agent_id: sql`agent_routines.agent_id`, routine_id: sql`agent_routines.id`, acl: wholeAcl };
    return { kind: "agent_routine_run", rows: rows as unknown as Rows<"automations">, columns } as const;
  }
  if (!automation_id) return null;
  const rows = db.selectFrom("automations").where("automations.id", "=", automation_id).where(isLive(db));
  const columns = {
    ...{ agent_id: sql`automations.agent_id`, user_id: sql`automations.user_id` },
    automation_id: sql`automations.id`,
  };
  return { kind: "automation_run", rows, columns } as const;
}

/** Of whose events there are two: the last says what GitHub tells of, and is what a run is of. */
function eventsOf({ provider }: WebhookRow, headers: Came["headers"]) {
  const github = `webhook.github_app.${headers[GITHUB_EVENT]}` as EventName;
  const names: EventName[] = ["webhook.inbound", ...(provider === "github" && typeOf(github) ? [github] : [])];
  // What both say is the same.
  return names.map((name) => ({ id: newId("event"), name: name as "webhook.inbound" }));
}

/**
 * Writes a receipt, the events and the run that it starts, together; or nothing, where the delivery came before. The webhook's
 * row is held first: of two equal ones at once, the second sees the first. Answers the receipt that there is; none, where
 * the webhook is gone; or, of a row that was known before this request, which is counted here, where it isn't that any
 * more, or takes nothing more in this minute.
 */
async function record(
  db: TenantDb,
  hook: WebhookRow,
  id: Id<"webhook_receipt">,
  { headers, body, bytes, delivery_id, isPing, replay_of }: Came,
  isKnown = false,
): Promise<Recorded | undefined> {
  const one = sql`1`.as("one");
  const without: PayloadOf<"webhook.inbound"> = {
    ...{ webhook: hook.id, receipt: id, name: hook.name, provider: hook.provider, headers },
    ...(delivery_id !== null && { delivery_id }),
  };
  const whole = { ...without, body };
  const fits = body !== undefined && isWithinAsJson(whole, MAX_PAYLOAD);
  const payload = fits ? whole : without;
  const events = isPing ? [] : eventsOf(hook, headers);
  const target = isPing ? null : targetOf(db, hook);
  const run = target && newId(target.kind);

  const receipts = db.selectFrom("webhook_receipts");
  const made = receipts.where("webhook_receipts.id", "=", id);
  const before = receipts
    .where("webhook_id", "=", hook.id)
    .where(sql<boolean>`delivery_id = ${delivery_id}`)
    .where(sql<boolean>`webhook_receipts.created_at > now() - interval '7 days'`);
  const isStill = isKnown
    ? sql<boolean>`updated_at = ${hook.updated_at}::timestamptz and counted <= ${MOST_A_MINUTE}
        and overlap_expires_at is not distinct from ${hook.overlap_expires_at}::timestamptz`
    : sql<boolean>`true`;
  const itself = db.selectFrom("inbound_webhooks").where("inbound_webhooks.id", "=", hook.id).where(isStill);
  const above = itself.where(sql<boolean>`not exists (${before.select(one)})`);
  const isThere = target ? sql`exists (${target.rows.select(one)})` : sql`false`;
  const otherwise = isPing ? "answered" : target ? "inactive" : "received";
  const started = sql<boolean>`exists (${made.where("status", "=", "started").select(one)})`;
  const found = await db.batch({
    held: db
      .updateTable("inbound_webhooks")
      .set({ last_received_at: sql<string>`now()`, ...(isKnown && counting) })
      .where("id", "=", hook.id)
      .where(isStill),
    // As it is found here it stays until all of this is written.
    ...(target && { target: target.rows.select("id").forShare() }),
    made: db.insertUnder(above, "webhook_receipts", {
      ...{ id, webhook_id: hook.id, delivery_id, replay_of: replay_of ?? null, event_id: events[0]?.id ?? null },
      status: sql`case when ${isThere} then 'started' else ${otherwise} end`,
      run_id: sql`case when ${isThere} then ${run}::text end`,
      ...{ payload: JSON.stringify(payload), body: fits ? null : bytes },
    } as never),
    ...Object.fromEntries(events.map((event) => [event.name, emitting(db, made, { ...event, payload })])),
    ...(target && {
      run: db.telling(
        db.insertUnder(target.rows.where(started), "agent_routine_runs", {
          ...{
            id: run,
            event_id: events.at(-1)!.id,
            event_name: events.at(-1)!.name,
            payload: JSON.stringify(payload),
          },
          ...target.columns,
        } as never),
        tellingRun(db, target.kind, "created"),
      ),
    }),
    known: receipts
      .where(sql<boolean>`(webhook_receipts.id = ${id} or webhook_receipts.id in (${before.select("id")}))`)
      .where(sql<boolean>`exists (${itself.select(one)})`)
      .select([...listed])
      .orderBy("id")
      .limit(1),
  });
  return (found as unknown as { known: Recorded[] }).known[0];
}
