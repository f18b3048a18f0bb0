/** One attempt: a signed request (Standard Webhooks 1.0) to somebody's address, of whose answer only the status counts. */
import type { WebhookAttempt } from "../db/schema.ts";
import { type Egress, postGuarded } from "../http/egress.ts";
import { storable } from "../sessions/project.ts";
import { masker } from "../tools/mask.ts";
import { putOffOf } from "./rules.ts";
import { bytesOf, keysOf, signatures } from "./secrets.ts";

const TIMEOUT_MS = 15_000;
/** An attempt has come to its end by then, whatever the receiver does. */
export const LEASE_MS = TIMEOUT_MS + 5_000;
const MAX_ANSWERED = 1024;

/** Where it is sent, by which keys it is signed, and what takes their secrets out of what is answered. */
export type Address = { url: string; keys: readonly CryptoKey[]; mask: (text: string) => string };

/** The address of these secrets. */
export const addressOf = async (url: string, secrets: readonly string[]): Promise<Address> => ({
  ...{ url, keys: await keysOf(secrets) },
  mask: masker(secrets.flatMap((secret) => [secret, bytesOf(secret)])),
});

/** What came of it. `put_off`: so many ms the receiver wants to be left alone. */
export type Outcome = { attempt: WebhookAttempt; put_off: number };

/**
 * Sends a message. Never throws: what doesn't answer is an attempt with an `error`. Of what is answered the first KB is
 * kept, without the secrets.
 */
export async function send(
  egress: Egress,
  { url, keys, mask }: Address,
  { id, body }: { id: string; body: string },
): Promise<Outcome> {
  const begun = Date.now();
  const timestamp = Math.floor(begun / 1000);
  const headers = {
    "content-type": "application/json",
    "user-agent": "agentry-webhooks",
    "webhook-id": id,
    "webhook-timestamp": String(timestamp),
    "webhook-signature": await signatures(keys, { id, timestamp, body }),
  };
  const found = await postGuarded(
    url,
    { headers, body },
    { ...egress, timeout_ms: TIMEOUT_MS, max_bytes: MAX_ANSWERED },
  );
  const sent_at = new Date(begun).toISOString();
  if ("error" in found) {
    return {
      attempt: { sent_at, status: null, latency_ms: Date.now() - begun, answered: null, error: found.error },
      put_off: 0,
    };
  }
  const { status, retry_after, text, answered_at } = found;
  return {
    attempt: { sent_at, status, latency_ms: answered_at - begun, answered: storable(mask(text)), error: null },
    put_off: putOffOf(retry_after, Date.now()),
  };
}
