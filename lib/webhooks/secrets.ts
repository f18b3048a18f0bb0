/** Secrets and signatures, as Standard Webhooks 1.0 has them. */
import * as v from "valibot";
import { toBase64 } from "../auth/secrets.ts";

const PREFIX = "whsec_";

/** A secret of 32 bytes. */
export const newSecret = (): string => PREFIX + toBase64(crypto.getRandomValues(new Uint8Array(32)));

/** So long the secret before one that is rotated goes on, in seconds: a day, seven at most; 0 ends it at once. */
export const overlap_seconds = v.optional(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(604_800)), 86_400);

/** The bytes of a secret, as base64. */
export const bytesOf = (secret: string): string => secret.slice(PREFIX.length);

/** The keys of secrets, in their order, to sign many messages by. */
export const keysOf = (secrets: readonly string[]): Promise<CryptoKey[]> =>
  Promise.all(
    secrets.map((secret) => {
      const bytes = Uint8Array.from(atob(bytesOf(secret)), (letter) => letter.charCodeAt(0));
      return crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
    }),
  );

/** The signatures of a message by each key, in their order. `timestamp` is in seconds. */
export async function signatures(
  keys: readonly CryptoKey[],
  { id, timestamp, body }: { id: string; timestamp: number; body: string },
): Promise<string> {
  const message = new TextEncoder().encode(`${id}.${timestamp}.${body}`);
  const signed = keys.map(
    async (key) => `v1,${toBase64(new Uint8Array(await crypto.subtle.sign("HMAC", key, message)))}`,
  );
  return (await Promise.all(signed)).join(" ");
}
