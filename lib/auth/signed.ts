/**
 * Credentials that nobody keeps: a prefix, what they say in clear (base64url), and a MAC over that. So they are told from
 * forged ones without a look-up; that what they name is alive, only the database knows.
 */
import { base64url } from "jose";
import { mac, verifyMac } from "./secrets.ts";
import { isCanonical } from "./tokens.ts";

type Bytes = Uint8Array<ArrayBuffer>;
/** `label` is put before the text in what the MAC is made over, so that no credential passes for one of another kind. */
type Kind = { prefix: string; purpose: "refresh" | "door"; label: string };

const MAX_LENGTH = 512;

export async function makeSigned(roots: string, { prefix, purpose, label }: Kind, text: string): Promise<string> {
  return `${prefix}_${base64url.encode(text)}.${base64url.encode(await mac(roots, label + text, purpose))}`;
}

/** What it says, in the parts between its points, and its MAC. Null for every flaw alike. */
export async function readSigned(roots: string, { prefix, purpose, label }: Kind, signed: string) {
  const known = signed.length <= MAX_LENGTH && signed.startsWith(`${prefix}_`);
  const [, body, tag] = (known && signed.slice(prefix.length + 1).match(/^([\w-]+)\.([\w-]{43})$/)) || [];
  if (!body || !tag || !isCanonical(body) || !isCanonical(tag)) return null;
  const text = new TextDecoder().decode(base64url.decode(body));
  const bytes = base64url.decode(tag) as Bytes;
  return (await verifyMac(roots, label + text, bytes, purpose)) ? { parts: text.split("."), mac: bytes } : null;
}
