/** The webhooks that others send to, and the receipts of what came. Who may send is in lib/inbound-webhooks/receive.ts. */
import { sql } from "kysely";
import { newPlaceToken } from "../auth/place-tokens.ts";
import { openFor, sealedTables, sealFor, tagged } from "../auth/vault.ts";
import { NONE } from "../db/schema.ts";
import { mustHold } from "../db/statements.ts";
import type { Telling, TenantDb } from "../db/tenant-db.ts";
import { type Bindings, listOf } from "../env.ts";
import { invalid, noSuch, notFound, refused } from "../errors.ts";
import { placeOf, placeRow } from "../events/log.ts";
import type { Id } from "../ids.ts";
import type { CursorPage } from "../paging.ts";
import { MAKES_SECRETS, newSecret } from "./providers.ts";
import {
  type CreateWebhook,
  fits,
  type ListReceipts,
  listed,
  NO_FIT,
  type ReceiptRow,
  type RotateSecret,
  type Shown,
  type UpdateWebhook,
  type WebhookRow,
} from "./schema.ts";

type Secrets = Pick<Bindings, "ROOT_SECRETS" | "ISSUERS">;
type WebhookId = Id<"inbound_webhook">;
/** A webhook with what is shown of it once. */
export type MadeWebhook = { row: WebhookRow; shown?: Shown };

const telling = (event: "created" | "updated" | "deleted"): Telling => ({
  kind: `inbound_webhook.${event}`,
  title: sql`${`Inbound webhook ${event}: `} || name`,
});

const named = (db: TenantDb, id: WebhookId) => db.selectFrom("inbound_webhooks").where("inbound_webhooks.id", "=", id);

/** A page of them, newest first. */
export const listWebhooks = (db: TenantDb, page: CursorPage) =>
  db.pageByCursor(db.selectFrom("inbound_webhooks"), page);

export const getWebhook = (db: TenantDb, id: WebhookId): Promise<WebhookRow> =>
  named(db, id)
    .selectAll()
    .executeTakeFirstOrThrow(() => notFound("inbound_webhook"));

/** What it is to start, behind a look whether that is there, in an org: elsewhere is absent. */
function withTarget(db: TenantDb, { routine, automation }: UpdateWebhook, org: unknown): TenantDb {
  const one = sql`1`.as("one");
  const inOrg = sql<boolean>`org_id = ${org}`;
  const found = (field: "routine" | "automation") =>
    field === "routine"
      ? db.selectFrom("agent_routines").where("agent_routines.id", "=", routine!).where(inOrg).select(one)
      : db.selectFrom("automations").where("automations.id", "=", automation!).where(inOrg).select(one);
  const field = routine ? "routine" : automation ? "automation" : null;
  return field ? db.behind(mustHold(sql`exists (${found(field)})`, field, `there is no such ${field}`)) : db;
}

/** Its secrets, newest first, sealed for its row. */
async function seal(db: TenantDb, roots: string, id: WebhookId, secrets: readonly string[]) {
  const { app, sandbox } = db.tenant;
  return sealFor(roots, { table: "inbound_webhooks", app, sandbox, id }, JSON.stringify(secrets));
}

/** The secrets of a webhook, newest first, of which `liveOf` says which count. */
export async function secretsOf(roots: string, row: WebhookRow): Promise<string[]> {
  if (!row.sealed || !row.tag) return [];
  const slot = { table: "inbound_webhooks", app: row.app_id, sandbox: row.sandbox_id, id: row.id } as const;
  const place = sealedTables.inbound_webhooks.map((column) => row[column]);
  const sealed = row.sealed as Uint8Array<ArrayBuffer>;
  return JSON.parse(await openFor(roots, { slot, place, sealed, tag: row.tag })) as string[];
}

const isRotating = ({ overlap_expires_at }: WebhookRow) =>
  overlap_expires_at !== null && Date.parse(overlap_expires_at) > Date.now();

/** Those of a webhook's secrets, or of their keys, that count now: more than one only while the last but one goes on. */
export const liveOf = <T>(row: WebhookRow, secrets: readonly T[]): readonly T[] =>
  isRotating(row) ? secrets : secrets.slice(0, 1);

const urlOf = ({ ISSUERS }: Secrets, token: string) => `${listOf(ISSUERS)[0]}/hooks/${token}`;

/** Makes one. 422 on an org or a target that isn't there, and `limit_reached` beyond the org's fiftieth. */
export async function createWebhook(
  db: TenantDb,
  env: Secrets,
  id: WebhookId,
  { name, provider, routine, automation, hmac, org, ...body }: CreateWebhook,
): Promise<MadeWebhook> {
  const place = placeOf(db, org);
  const { app, sandbox, ...tenant } = place.tenant;
  const { token, hash } = await newPlaceToken("whk", { app, sandbox, org: tenant.kind === "org" ? tenant.org : NONE });
  const made = body.secret || provider === "url" || MAKES_SECRETS.includes(provider) ? null : newSecret(provider);
  const secret = body.secret || made;
  const sealed = secret ? await seal(db, env.ROOT_SECRETS, id, [secret]) : null;
  const above = placeRow(place);
  const insert = place.insertUnder(above, "inbound_webhooks", {
    ...{ id, name, provider, token_hash: hash, hmac: hmac ? JSON.stringify(hmac) : null },
    ...{ routine_id: routine ?? null, automation_id: automation ?? null },
    ...(sealed && {
      sealed: sealed.sealed,
      tag: tagged(sealed, [sql`app_id`, sql`sandbox_id`, sql`org_id`, sql`${id}::text`]),
    }),
  } as never);
  const row = await withTarget(place, { routine, automation }, sql`(${above.select("org_id")})`)
    .telling(insert, telling("created"))
    .executeTakeFirstOrThrow(() => noSuch("org"));
  return { row, shown: { url: urlOf(env, token), secret: made } };
}

/** Changes one. To name what it starts ends what it started before, of whichever kind. */
export async function updateWebhook(
  db: TenantDb,
  id: WebhookId,
  { name, routine, automation, hmac }: UpdateWebhook,
): Promise<WebhookRow> {
  const values = {
    ...{ name, hmac: hmac && JSON.stringify(hmac) },
    routine_id: automation ? null : routine,
    automation_id: routine ? null : automation,
  };
  const org = sql`(${named(db, id).select("org_id")})`;
  // Of one that isn't there nothing is said but that.
  const gate = sql`select app.must_reach('inbound_webhook', (${named(db, id).select(sql`true`.as("may"))}))`;
  const fields = Object.entries({ name, routine, automation, hmac }).flatMap(([field, value]) =>
    value === undefined ? [] : [field],
  );
  const behind = withTarget(db.behind(gate), { routine, automation }, org);
  return behind
    .telling(behind.patch("inbound_webhooks", values).where("id", "=", id), {
      ...telling("updated"),
      metadata: { fields },
    })
    .executeTakeFirstOrThrow(() => notFound("inbound_webhook"));
}

/** Deletes one: from here on nobody is at its address. Its receipts stay as long as any. */
export async function deleteWebhook(db: TenantDb, id: WebhookId): Promise<void> {
  const change = db.deleteFrom("inbound_webhooks").where("id", "=", id);
  await db.telling(change, telling("deleted")).executeTakeFirstOrThrow(() => notFound("inbound_webhook"));
}

/**
 * Gives it another address and another secret; those before go on for a while. One that had no secret, which its provider
 * makes, is only given that. Two round trips: the secret before is sealed with the new one. 409 while a rotation is under
 * way: a third secret would end one that somebody may still sign by.
 */
export async function rotateSecret(
  db: TenantDb,
  env: Secrets,
  id: WebhookId,
  { overlap_seconds, ...body }: RotateSecret,
): Promise<MadeWebhook> {
  const before = await getWebhook(db, id);
  const { app_id: app, sandbox_id: sandbox, org_id: org, provider } = before;
  const underWay = refused(
    "rotation_under_way",
    "The secret before the last goes on until `overlap_expires_at`. Rotate again after that.",
  );
  if (isRotating(before)) throw underWay;
  if (body.secret && !fits(provider, body.secret)) throw invalid({ field: "secret", message: NO_FIT });
  if (!body.secret && MAKES_SECRETS.includes(provider)) {
    throw invalid({ field: "secret", message: "is required: the provider makes it" });
  }
  const made = body.secret || provider === "url" ? null : newSecret(provider);
  const secret = body.secret || made;
  const [old] = await secretsOf(env.ROOT_SECRETS, before);
  const moves = old !== undefined || provider === "url";
  const goesOn = overlap_seconds > 0;
  const { token, hash } = await newPlaceToken("whk", { app, sandbox, org });
  const sealed = secret ? await seal(db, env.ROOT_SECRETS, id, old && goesOn ? [secret, old] : [secret]) : null;
  const change = db
    .patch("inbound_webhooks", {
      ...(moves && {
        ...{ token_hash: hash, previous_token_hash: goesOn ? before.token_hash : null },
        overlap_expires_at: goesOn ? sql<string>`now() + make_interval(secs => ${overlap_seconds})` : null,
      }),
      ...(sealed && {
        sealed: sealed.sealed,
        tag: tagged(
          sealed,
          sealedTables.inbound_webhooks.map((column) => sql.ref(column)),
        ),
      }),
    })
    .where("id", "=", id)
    // Of two at once the second finds another token there, or another secret.
    .where("token_hash", "=", before.token_hash)
    .where(sql<boolean>`tag is not distinct from ${before.tag}::bytea`);
  const row = await db
    .telling(change, { ...telling("updated"), metadata: { fields: ["secret"] } })
    .executeTakeFirstOrThrow(() => underWay);
  return { row, shown: { url: moves ? urlOf(env, token) : null, secret: made } };
}

/** The receipts of one, newest first, from a cursor on. */
export async function listReceipts(
  db: TenantDb,
  id: WebhookId,
  { status }: Pick<ListReceipts, "status">,
  page: CursorPage,
): Promise<ReceiptRow[]> {
  const gate = sql`select app.must_reach('inbound_webhook', (${named(db, id).select(sql`true`.as("may"))}))`;
  const behind = db.behind(gate);
  const receipts = behind.selectFrom("webhook_receipts").where("webhook_id", "=", id);
  return behind.pageByCursor(status ? receipts.where("status", "=", status) : receipts, page, listed);
}

/** A receipt, and its webhook as it is now. 404 where either is gone. */
export async function receiptToReplay(db: TenantDb, id: Id<"webhook_receipt">) {
  const receipts = db.selectFrom("webhook_receipts").where("webhook_receipts.id", "=", id);
  const { receipt, hook } = await db.batch({
    receipt: receipts.selectAll(),
    hook: db.selectFrom("inbound_webhooks").where("id", "in", receipts.select("webhook_id")).selectAll(),
  });
  if (!receipt[0]) throw notFound("webhook_receipt");
  if (!hook[0]) throw notFound("inbound_webhook");
  return { receipt: receipt[0] as ReceiptRow, hook: hook[0] as WebhookRow };
}

export const getReceipt = (db: TenantDb, id: Id<"webhook_receipt">): Promise<ReceiptRow> =>
  db
    .selectFrom("webhook_receipts")
    .where("webhook_receipts.id", "=", id)
    .selectAll()
    .executeTakeFirstOrThrow(() => notFound("webhook_receipt"));
