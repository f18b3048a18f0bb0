/**
 * Secret and publishable keys: `sk_live_<app>_<secret>`, `pk_dsb_<app>_<sandbox>_<secret>`. A key names its app and
 * sandbox in clear, so that the database can be entered without a look-up; its 256 bits of secret end in a
 * checksum, so that a scanner can tell a leaked key from noise. Only the SHA-256 of a key is kept.
 */
import { NONE, type None } from "../db/schema.ts";
import { base62, type Id } from "../ids.ts";

export type KeyType = "publishable" | "secret";
export type ApiKey = { type: KeyType; app: Id<"app">; sandbox: Id<"sandbox"> | None; hash: Uint8Array<ArrayBuffer> };

const SECRET_LENGTH = 43;
const CHECK_LENGTH = 6;
const shape = new RegExp(
  `^(sk|pk)_(?:live_([0-9A-Za-z]{22})|dsb_([0-9A-Za-z]{22})_([0-9A-Za-z]{22}))_([0-9A-Za-z]{${SECRET_LENGTH}})([0-9A-Za-z]{${CHECK_LENGTH}})$`,
);

/** SHA-256 of a text's UTF-8. */
export const sha256 = async (text: string) => new Uint8Array(await crypto.subtle.digest("SHA-256", utf8.encode(text)));
const utf8 = new TextEncoder();

/** The checksum: the first 32 bits of SHA-256 of all that stands before it. */
const checksum = async (text: string) => base62((await sha256(text)).slice(0, 4), CHECK_LENGTH);

/** A new key. `full_key` is shown once; `hint` is its last four characters. */
export async function newKey(type: KeyType, app: Id<"app">, sandbox: Id<"sandbox"> | None) {
  const secret = base62(crypto.getRandomValues(new Uint8Array(32)), SECRET_LENGTH);
  const place = sandbox === NONE ? `live_${app.slice(4)}` : `dsb_${app.slice(4)}_${sandbox.slice(4)}`;
  const head = `${type === "secret" ? "sk" : "pk"}_${place}_${secret}`;
  const full_key = head + (await checksum(head));
  return { type, full_key, hash: await sha256(full_key), hint: full_key.slice(-4) };
}

/** Keys that were well formed: a secret key comes with every call of a backend, and reading it takes two hashes. */
const read = new Map<string, ApiKey>();
const MAX_READ = 1000;

/** Reads a key, or null where it can't be one. That it exists and lives, only the database says. */
export async function parseKey(text: string): Promise<ApiKey | null> {
  const known = read.get(text);
  if (known) return known;
  const [, kind, liveApp, dsbApp, dsb, , check] = text.match(shape) ?? [];
  if (!kind || check !== (await checksum(text.slice(0, -CHECK_LENGTH)))) return null;
  const key: ApiKey = {
    type: kind === "sk" ? "secret" : "publishable",
    app: `dap_${liveApp ?? dsbApp}` as Id<"app">,
    sandbox: dsb ? (`dsb_${dsb}` as Id<"sandbox">) : NONE,
    hash: await sha256(text),
  };
  // Whoever sends forged ones by the thousand makes it what it was without this: two hashes each.
  if (read.size >= MAX_READ) read.clear();
  read.set(text, key);
  return key;
}

/** Whether the text claims to be a key rather than a token. */
export const looksLikeKey = (text: string) => /^(sk|pk)_/.test(text);
