/**
 * What is kept of a password: PBKDF2-SHA-256 over a salt of its own, 600,000 rounds as six chained calls, since a deployed
 * Worker refuses a call of more than 100,000; and an HMAC over that by a key of the root secrets, so that the rows alone
 * let nobody guess.
 */
import { hex, mac, rootsOf } from "./secrets.ts";

type Bytes = Uint8Array<ArrayBuffer>;
/** How a password is worked out: kept beside it, since they may be more for later ones. */
export type Working = { salt: Bytes; rounds: number };

/** Of each of the chained calls: more a deployed Worker refuses. */
export const ITERATIONS = 100_000;
const ROUNDS = 6;

export const newWorking = (): Working => ({ salt: crypto.getRandomValues(new Uint8Array(16)), rounds: ROUNDS });

/** What a password may be kept as, by each root secret, the newest first. It costs a tenth of a second. */
export async function hashesOf(roots: string, password: string, { salt, rounds }: Working): Promise<Uint8Array[]> {
  let bytes = new TextEncoder().encode(password.normalize("NFC")) as Bytes;
  for (let round = 0; round < rounds; round++) {
    const key = await crypto.subtle.importKey("raw", bytes, "PBKDF2", false, ["deriveBits"]);
    const how = { name: "PBKDF2", hash: "SHA-256", salt, iterations: ITERATIONS };
    bytes = new Uint8Array(await crypto.subtle.deriveBits(how, key, 256));
  }
  const text = hex(bytes);
  return Promise.all(rootsOf(roots).map((root) => mac(root, text, "password")));
}
