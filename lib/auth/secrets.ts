/** Keys derived from the root secrets (HKDF, RFC 5869), one purpose each, newest root first; made once an isolate. */
import { base64url } from "jose";
import { listOf } from "../env.ts";

const utf8 = new TextEncoder();
/** By pieces: a call takes no more arguments than the stack holds. */
export function toBase64(bytes: Uint8Array): string {
  let letters = "";
  for (let at = 0; at < bytes.length; at += 8192) letters += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(letters);
}

export const hex = (bytes: Uint8Array) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const derived = new Map<string, Promise<CryptoKey[]>>();

/**
 * `door`: what a door of the database takes where it has no credential to look up; it keeps copies of these keys.
 * `password`: what a stored password is made with beside what the database has, so that who reads rows can guess at none.
 * `once`: what is remembered of a request, whose body may hold a secret short enough to be guessed from a bare hash.
 */
type Purpose = "refresh" | "door" | "once" | "password" | "cursor";
const algorithms = {
  refresh: [{ name: "HMAC", hash: "SHA-256", length: 256 }, ["sign", "verify"]],
  door: [{ name: "HMAC", hash: "SHA-256", length: 256 }, ["sign", "verify"]],
  once: [{ name: "HMAC", hash: "SHA-256", length: 256 }, ["sign", "verify"]],
  password: [{ name: "HMAC", hash: "SHA-256", length: 256 }, ["sign", "verify"]],
  cursor: [{ name: "AES-GCM", length: 256 }, ["encrypt", "decrypt"]],
} as const;

function keysFor(roots: string, purpose: Purpose): Promise<CryptoKey[]> {
  const name = `${purpose} ${roots}`;
  let keys = derived.get(name);
  if (!keys) {
    const [algorithm, usages] = algorithms[purpose];
    keys = Promise.all(
      rootsOf(roots).map(async (root) => {
        const material = await crypto.subtle.importKey("raw", utf8.encode(root), "HKDF", false, ["deriveKey"]);
        const info = { name: "HKDF", hash: "SHA-256", salt: new Uint8Array(), info: utf8.encode(`agentry ${purpose}`) };
        return crypto.subtle.deriveKey(info, material, algorithm, false, [...usages]);
      }),
    );
    derived.set(name, keys);
  }
  return keys;
}

/** The root secrets of a deployment, newest first. Throws where one is too short to be a secret. */
export function rootsOf(roots: string): string[] {
  const list = listOf(roots);
  if (list.some((root) => root.length < 32)) throw new Error("each of ROOT_SECRETS must have at least 32 characters");
  return list;
}

/** HMAC-SHA-256 under the newest root. */
export async function mac(
  roots: string,
  text: string,
  purpose: Exclude<Purpose, "cursor"> = "refresh",
): Promise<Uint8Array> {
  const [newest] = await keysFor(roots, purpose);
  return new Uint8Array(await crypto.subtle.sign("HMAC", newest!, utf8.encode(text)));
}

/** Whether `tag` is the MAC of the text under any root. In constant time. */
export async function verifyMac(
  roots: string,
  text: string,
  tag: Uint8Array<ArrayBuffer>,
  purpose: Exclude<Purpose, "cursor"> = "refresh",
): Promise<boolean> {
  for (const key of await keysFor(roots, purpose)) {
    if (await crypto.subtle.verify("HMAC", key, tag, utf8.encode(text))) return true;
  }
  return false;
}

const IV = 12;

/** Seals a text (AES-256-GCM): unreadable, and bound to `place`, so that it opens in no other list or tenant. */
export async function seal(roots: string, text: string, place: string): Promise<string> {
  const [newest] = await keysFor(roots, "cursor");
  const iv = crypto.getRandomValues(new Uint8Array(IV));
  const box = { name: "AES-GCM", iv, additionalData: utf8.encode(place) };
  const sealed = new Uint8Array(await crypto.subtle.encrypt(box, newest!, utf8.encode(text)));
  const both = new Uint8Array(IV + sealed.length);
  both.set(iv);
  both.set(sealed, IV);
  return base64url.encode(both);
}

/** What was sealed at `place` under any root, or null. */
export async function open(roots: string, sealed: string, place: string): Promise<string | null> {
  let bytes: Uint8Array;
  try {
    bytes = base64url.decode(sealed);
  } catch {
    return null;
  }
  for (const key of await keysFor(roots, "cursor")) {
    try {
      const box = { name: "AES-GCM", iv: bytes.slice(0, IV), additionalData: utf8.encode(place) };
      return new TextDecoder().decode(await crypto.subtle.decrypt(box, key, bytes.slice(IV)));
    } catch {
      // Another root's, or nobody's.
    }
  }
  return null;
}
