import * as v from "valibot";
import { type HmacScheme, type Row, real, receiptStatuses, webhookProviders } from "../db/schema.ts";
import { idOf, nullable, rules, stamp, text } from "../http/valid.ts";
import { MAX_PAGE_SIZE, positive } from "../paging.ts";
import { overlap_seconds } from "../webhooks/secrets.ts";
import { fromBase64 } from "./providers.ts";

const name = v.pipe(text(200), v.nonEmpty());
const headerName = v.pipe(text(100), v.regex(/^[a-z0-9][a-z0-9-]*$/i, "must be the name of a header"));
/** Of a secret that is brought, in characters. */
const secret = v.pipe(text(255), v.minLength(16, "must have at least 16 characters"), v.regex(/^[\x21-\x7e]+$/));
const target = {
  routine: v.optional(v.nullable(idOf("agent_routine"))),
  automation: v.optional(v.nullable(idOf("config"))),
};
const oneTarget = ({ routine, automation }: { routine?: string | null; automation?: string | null }) =>
  routine && automation ? [{ field: "automation", message: "excludes routine" }] : [];

/** How a delivery of an `hmac` webhook is signed. */
const hmac = v.pipe(
  v.strictObject({
    /** The header with the signature; what stands before it there is `prefix`. */
    header: headerName,
    algorithm: v.optional(v.picklist(["sha256", "sha512", "sha1"]), "sha256"),
    encoding: v.optional(v.picklist(["hex", "base64"]), "hex"),
    prefix: v.optional(text(50), ""),
    /** Seconds since 1970. Where it is signed, it must be within five minutes. */
    timestamp_header: v.optional(v.nullable(headerName), null),
    signed: v.optional(v.picklist(["body", "timestamp.body", "v0:timestamp:body"]), "body"),
    /** What a delivery is known by that comes again. */
    id_header: v.optional(headerName, "Idempotency-Key"),
  }),
  rules<HmacScheme>(({ signed, timestamp_header }) =>
    (signed === "body") === (timestamp_header === null)
      ? []
      : [{ field: "timestamp_header", message: "is what signed needs that has a timestamp, and body has not" }],
  ),
);

/** Whether a provider can have the secret: a Standard Webhooks secret is base64, of 24 to 64 bytes. */
export const fits = (provider: string, brought: string) => {
  if (provider === "url") return false;
  const bytes = provider === "standard" ? fromBase64(brought.replace(/^whsec_/, "")) : null;
  return provider !== "standard" || (bytes !== null && bytes.length >= 24 && bytes.length <= 64);
};
export const NO_FIT =
  "must be what the provider signs by: of standard whsec_ and base64 of 24 to 64 bytes; url has none";

export const createWebhookBody = v.pipe(
  v.strictObject({
    name,
    provider: v.picklist(webhookProviders),
    ...target,
    /** One that is brought. Stripe and Slack make theirs; of others one is made, and shown once, where none is brought. */
    secret: v.optional(v.nullable(secret)),
    hmac: v.optional(v.nullable(hmac)),
    /** Of which org: for keys, which without it make the app's own. */
    org: v.optional(v.nullable(idOf("org"))),
  }),
  rules((body) => [
    ...oneTarget(body as never),
    ...((body.provider === "hmac") === Boolean(body.hmac)
      ? []
      : [{ field: "hmac", message: "is what provider hmac needs, and no other has" }]),
    ...(body.secret && !fits(body.provider, body.secret) ? [{ field: "secret", message: NO_FIT }] : []),
  ]),
);
export type CreateWebhook = v.InferOutput<typeof createWebhookBody>;

export const updateWebhookBody = v.pipe(
  v.strictObject({ name: v.optional(name), ...target, hmac: v.optional(hmac) }),
  rules(oneTarget as never),
);
export type UpdateWebhook = v.InferOutput<typeof updateWebhookBody>;

export const rotateSecretBody = v.strictObject({
  secret: v.optional(v.nullable(secret)),
  /** Of the address before, too. */
  overlap_seconds,
});
export type RotateSecret = v.InferOutput<typeof rotateSecretBody>;

const cursor = v.optional(text(500));
export const listReceiptsQuery = v.object({
  status: v.optional(v.picklist(receiptStatuses)),
  limit: v.optional(
    v.pipe(
      positive,
      v.transform((limit) => Math.min(limit, MAX_PAGE_SIZE)),
    ),
    "50",
  ),
  before_cursor: cursor,
  after_cursor: cursor,
});
export type ListReceipts = v.InferOutput<typeof listReceiptsQuery>;

export type WebhookRow = Row<"inbound_webhooks">;

export const inboundWebhook = v.strictObject({
  id: v.string(),
  org: nullable,
  sandbox: nullable,
  name: v.string(),
  provider: v.picklist(webhookProviders),
  routine: nullable,
  automation: nullable,
  hmac: v.nullable(v.record(v.string(), v.unknown())),
  /** Where deliveries go: in the answer that makes the webhook, or rotates its secret, and never again. */
  url: nullable,
  /** By which they are signed: the same, if it was made here. */
  secret: nullable,
  /** Until when the address and the secret before the last go on; null where there are none. */
  overlap_expires_at: v.nullable(stamp),
  last_received_at: v.nullable(stamp),
  created_at: stamp,
  updated_at: stamp,
});

/** What an answer shows once. */
export type Shown = { url: string | null; secret: string | null };
export const toInboundWebhook = (
  row: WebhookRow,
  { url, secret }: Shown = { url: null, secret: null },
): v.InferOutput<typeof inboundWebhook> => ({
  id: row.id,
  org: real(row.org_id),
  sandbox: real(row.sandbox_id),
  name: row.name,
  provider: row.provider,
  routine: row.routine_id,
  automation: row.automation_id,
  hmac: row.hmac,
  ...{ url, secret },
  overlap_expires_at: row.overlap_expires_at,
  last_received_at: row.last_received_at,
  created_at: row.created_at,
  updated_at: row.updated_at,
});

const receipt = {
  id: v.string(),
  webhook: v.string(),
  /** What the provider calls the delivery. */
  delivery_id: nullable,
  /** `started`: a run was; `received`: nothing was to be; `inactive`: what was to be couldn't; `answered`: a ping. */
  status: v.picklist(receiptStatuses),
  event: nullable,
  run: nullable,
  replay_of: nullable,
  created_at: stamp,
};
export const listedReceipt = v.strictObject(receipt);
export const webhookReceiptPage = v.strictObject({
  data: v.array(listedReceipt),
  before_cursor: nullable,
  after_cursor: nullable,
});
export const webhookReceipt = v.strictObject({
  ...receipt,
  headers: v.record(v.string(), v.unknown()),
  body: v.unknown(),
});

/** The columns of a list: no bodies. */
export const listed = [
  ...(["id", "webhook_id", "delivery_id", "status", "event_id", "run_id", "replay_of", "created_at"] as const),
] as const;
export type ReceiptRow = Row<"webhook_receipts">;

export const toListedReceipt = (row: Pick<ReceiptRow, (typeof listed)[number]>) => ({
  id: row.id,
  webhook: row.webhook_id,
  delivery_id: row.delivery_id,
  status: row.status,
  event: row.event_id,
  run: row.run_id,
  replay_of: row.replay_of,
  created_at: row.created_at,
});

/** A receipt with what came, as its event says it, or would. */
export const toWebhookReceipt = (row: ReceiptRow, body: unknown): v.InferOutput<typeof webhookReceipt> => ({
  ...toListedReceipt(row),
  headers: row.payload.headers as Record<string, unknown>,
  body,
});

/** What a provider is told: the receipt of what it has sent, or of what it has sent before. */
export const accepted = v.strictObject({ receipt: v.string() });
/** What Slack wants back when it is told of the address. */
export const challenge = v.strictObject({ challenge: v.string() });
