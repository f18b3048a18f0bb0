/**
 * Ids of the wire: a kind's prefix, `_`, and 22 base62 characters of a UUIDv7 (RFC 9562 §5.7). They sort by
 * time of making under collation "C", so a list orders by id and an id is its cursor.
 */
import { notFound } from "./errors.ts";
import { type Kind, kinds } from "./kinds.ts";

declare const kind: unique symbol;
/** A string that is known to be an id of one kind: `Id<"agent">` is `agi_…`; mixing kinds does not compile. */
export type Id<K extends Kind> = string & { readonly [kind]: K };

const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const LENGTH = 22;
const shape = new RegExp(`^[0-9A-Za-z]{${LENGTH}}$`);

/** Big-endian bytes as `length` base62 characters, zero-padded; keeps the order of the bytes. */
export function base62(bytes: Uint8Array, length: number): string {
  let value = bytes.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
  let text = "";
  for (let i = 0; i < length; i++) {
    text = ALPHABET[Number(value % 62n)] + text;
    value /= 62n;
  }
  return text;
}

/** The 128 bits that an id is made of. */
export const uuidOf = (id: string): bigint =>
  [...id.slice(-LENGTH)].reduce((value, letter) => value * 62n + BigInt(ALPHABET.indexOf(letter)), 0n);

// A Worker's clock stands still between two I/Os: without the counter, rows made together would lie in any order.
let lastMs = 0;
let counter = 0;

/** The 16 bytes of a UUIDv7 whose rand_a is a counter within the millisecond (RFC 9562 §6.2, method 1). */
function uuidv7(): Uint8Array {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const now = Date.now();
  if (now > lastMs) {
    lastMs = now;
    counter = ((bytes[6]! & 0x07) << 8) | bytes[7]!;
  } else if (++counter > 0xfff) {
    lastMs++;
    counter = 0;
  }
  new DataView(bytes.buffer).setUint32(0, Math.floor(lastMs / 0x10000));
  new DataView(bytes.buffer).setUint16(4, lastMs % 0x10000);
  bytes[6] = 0x70 | (counter >> 8);
  bytes[7] = counter & 0xff;
  bytes[8] = 0x80 | (bytes[8]! & 0x3f);
  return bytes;
}

/** A new id of the kind, greater than every one made before in this isolate. */
export const newId = <K extends Kind>(kind: K): Id<K> => `${kinds[kind].prefix}_${base62(uuidv7(), LENGTH)}` as Id<K>;

/**
 * The id that 74 bits or more of a hash stand for, as if it were made at that instant: the same for the same two, so that
 * whoever makes a row of it twice makes one.
 */
export function derivedId<K extends Kind>(kind: K, at: number, hash: Uint8Array): Id<K> {
  const bytes = hash.slice(0, 16);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, Math.floor(at / 0x10000));
  view.setUint16(4, at % 0x10000);
  bytes[6] = 0x70 | (bytes[6]! & 0x0f);
  bytes[8] = 0x80 | (bytes[8]! & 0x3f);
  return `${kinds[kind].prefix}_${base62(bytes, LENGTH)}` as Id<K>;
}

/** The id that stands for the same as an id of another kind: whoever makes a row of it twice makes one. */
export const idAs = <K extends Kind>(kind: K, id: string): Id<K> =>
  `${kinds[kind].prefix}_${id.slice(-LENGTH)}` as Id<K>;

/** Whether the text could be an id of the kind. */
export function isId<K extends Kind>(kind: K, text: string): text is Id<K> {
  const { prefix } = kinds[kind];
  return text.startsWith(`${prefix}_`) && shape.test(text.slice(prefix.length + 1));
}

/** Takes an id in from a path. A malformed one cannot exist: it is the same 404 as an absent row. */
export function parseId<K extends Kind>(kind: K, text: string): Id<K> {
  if (!isId(kind, text)) throw notFound(kind);
  return text;
}
