/**
 * Secrets that are kept to be used: sealed, and held to the row that they were written for.
 *
 * A text is sealed (AES-256-GCM) under a key of its row's own, which HKDF derives from a root secret and from what is
 * known of the row before it is written: its table, app, sandbox and id. What only the database knows by then, since a
 * request may name an agent by its lookup_key, it binds in the statement that writes: a tag, HMAC-SHA-256 over where the
 * row lies. The tag's key comes of the row's key and of the text; whoever can write rows but has no root secret can make
 * neither. So a sealed text that was copied, or a row that was moved, does not open.
 *
 * A secret that is handed out sealed, to stand in a text of somebody's own, lies in no row, and nobody knows how often it
 * was copied. It is sealed under a key that its org keeps in a row as above: whatever root secret that row is sealed anew
 * under, the text stays open.
 */

import { base64url } from "jose";
import { type RawBuilder, sql } from "kysely";
import { hex, rootsOf } from "./secrets.ts";

type Bytes = Uint8Array<ArrayBuffer>;

/** The tables with secrets (columns `sealed` and `tag`), each with those columns that say where a row lies. */
export const sealedTables = {
  agent_env_vars: ["app_id", "sandbox_id", "org_id", "agent_id", "id", "key"],
  agent_installations: ["app_id", "sandbox_id", "org_id", "agent_id", "id", "kind"],
  inbound_webhooks: ["app_id", "sandbox_id", "org_id", "id"],
  secret_keys: ["app_id", "sandbox_id", "org_id", "id"],
  sso_connections: ["app_id", "sandbox_id", "org_id", "id"],
  webhook_endpoints: ["app_id", "sandbox_id", "org_id", "id"],
} as const;
export type SealedTable = keyof typeof sealedTables;

/** A row, as it is known before it is written. */
export type Slot = { table: SealedTable; app: string; sandbox: string; id: string };

const utf8 = new TextEncoder();
const VERSION = 8;
const IV = 12;
const BLOCK = 64;

type Root = { version: Bytes; material: CryptoKey };
const known = new Map<string, Promise<Root>>();

const hkdf = (info: string) => ({
  name: "HKDF",
  hash: "SHA-256",
  salt: new Uint8Array(),
  info: utf8.encode(`agentry ${info}`),
});

/** A root secret and its version: a fingerprint of its own, so that it stays the same wherever in the list it stands. */
function rootOf(secret: string): Promise<Root> {
  let root = known.get(secret);
  if (!root) {
    root = (async () => {
      const usages = ["deriveKey", "deriveBits"] as const;
      const material = await crypto.subtle.importKey("raw", utf8.encode(secret), "HKDF", false, [...usages]);
      const version = await crypto.subtle.deriveBits(hkdf("seal version"), material, 8 * VERSION);
      return { version: new Uint8Array(version), material };
    })();
    known.set(secret, root);
  }
  return root;
}

const nameOf = ({ table, app, sandbox, id }: Slot) => `${table} ${app} ${sandbox} ${id}`;

/** The two keys of a row: what seals, and what makes the keys of tags. */
async function keysOf({ material }: Root, slot: Slot) {
  const name = nameOf(slot);
  const hmac = { name: "HMAC", hash: "SHA-256", length: 256 };
  return {
    seals: await crypto.subtle.deriveKey(hkdf(`seal ${name}`), material, { name: "AES-GCM", length: 256 }, false, [
      "encrypt",
      "decrypt",
    ]),
    binds: await crypto.subtle.deriveKey(hkdf(`bind ${name}`), material, hmac, false, ["sign"]),
  };
}

const sign = async (key: CryptoKey, text: string): Promise<Bytes> =>
  new Uint8Array(await crypto.subtle.sign("HMAC", key, utf8.encode(text)));

/** The versions of the deployment's root secrets, newest first. */
export const versionsOf = async (roots: string): Promise<string[]> =>
  (await Promise.all(rootsOf(roots).map(rootOf))).map(({ version }) => hex(version));

/** The version of the root secret that a text is sealed under. */
export const versionOf = (sealed: Uint8Array): string => hex(sealed.subarray(0, VERSION));

/** A sealed text, and the key of its tag, for `tagged` or `tagAt`. The same text in the same row has the same key. */
export type Sealed = { sealed: Bytes; tagKey: Bytes };

/** Seals a text for a row, under the newest root secret. */
export async function sealFor(roots: string, slot: Slot, text: string): Promise<Sealed> {
  const root = await rootOf(rootsOf(roots)[0]!);
  const { seals, binds } = await keysOf(root, slot);
  const iv = crypto.getRandomValues(new Uint8Array(IV));
  const box = { name: "AES-GCM", iv, additionalData: utf8.encode(nameOf(slot)) };
  const closed = new Uint8Array(await crypto.subtle.encrypt(box, seals, utf8.encode(text)));
  const sealed = new Uint8Array(VERSION + IV + closed.length);
  sealed.set(root.version);
  sealed.set(iv, VERSION);
  sealed.set(closed, VERSION + IV);
  return { sealed, tagKey: await sign(binds, text) };
}

/**
 * The tag, as the database reckons it: HMAC (RFC 2104) over the columns of `sealedTables`, which are given in their order,
 * as texts. Of equal texts in one row it is equal, which tells a patch that it changes nothing.
 */
export function tagged({ tagKey }: Sealed, place: RawBuilder<unknown>[]): RawBuilder<Uint8Array> {
  const block = new Uint8Array(BLOCK);
  block.set(tagKey);
  const [inner, outer] = [block.map((byte) => byte ^ 0x36), block.map((byte) => byte ^ 0x5c)];
  const text = sql`convert_to(concat_ws(' ', ${sql.join(place)}), 'UTF8')`;
  return sql`sha256(${outer}::bytea || sha256(${inner}::bytea || ${text}))`;
}

/** The same tag, of a row whose place is known. */
export async function tagAt({ tagKey }: Pick<Sealed, "tagKey">, place: readonly string[]): Promise<Bytes> {
  const key = await crypto.subtle.importKey("raw", tagKey, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return sign(key, place.join(" "));
}

/** A row with a secret: where it lies, by the columns of `sealedTables` in their order, and what it holds. */
export type SealedRow = { slot: Slot; place: readonly string[]; sealed: Bytes; tag: Uint8Array };

/** What was sealed in the row, under any root secret. Throws where it was sealed for another place, or changed since. */
export async function openFor(roots: string, { slot, place, sealed, tag }: SealedRow): Promise<string> {
  const list = await Promise.all(rootsOf(roots).map(rootOf));
  const root = list.find(({ version }) => hex(version) === versionOf(sealed));
  if (!root) throw new Error(`${slot.id} is sealed under a root secret that is not in ROOT_SECRETS`);
  const { seals, binds } = await keysOf(root, slot);
  const iv = sealed.slice(VERSION, VERSION + IV);
  const box = { name: "AES-GCM", iv, additionalData: utf8.encode(nameOf(slot)) };
  const foreign = () => new Error(`${slot.id} does not open: it was sealed for another row, or changed`);
  const opened = await crypto.subtle.decrypt(box, seals, sealed.slice(VERSION + IV)).catch(() => {
    throw foreign();
  });
  const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(opened);
  if (hex(await tagAt({ tagKey: await sign(binds, text) }, place)) !== hex(tag)) throw foreign();
  return text;
}

const handedOut = (iv: Bytes) => ({ name: "AES-GCM", iv, additionalData: utf8.encode("agentry handed out") });
const textKey = (key: string, usage: "encrypt" | "decrypt") =>
  crypto.subtle.importKey("raw", base64url.decode(key) as Bytes, "AES-GCM", false, [usage]);

/** A key for `sealText`, as a text: to be kept sealed in a row. */
export const newTextKey = (): string => base64url.encode(crypto.getRandomValues(new Uint8Array(32)));

/** Seals a text (AES-256-GCM) under a key of `newTextKey`, to be handed out. */
export async function sealText(key: string, text: string): Promise<string> {
  const iv = crypto.getRandomValues(new Uint8Array(IV));
  const closed = await crypto.subtle.encrypt(handedOut(iv), await textKey(key, "encrypt"), utf8.encode(text));
  return base64url.encode(new Uint8Array([...iv, ...new Uint8Array(closed)]));
}

/** What was sealed under the key; null where it was sealed under another, or changed since. */
export async function openText(key: string, sealed: string): Promise<string | null> {
  try {
    const bytes = base64url.decode(sealed) as Bytes;
    const box = handedOut(bytes.slice(0, IV));
    const opened = await crypto.subtle.decrypt(box, await textKey(key, "decrypt"), bytes.slice(IV));
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(opened);
  } catch {
    return null;
  }
}
