/**
 * How each provider signs what it sends, what it calls a delivery, and what of it wants an answer. Pure but for the
 * cryptography: the clock is given.
 */
import type { HmacScheme, WebhookProvider } from "../db/schema.ts";
import { isMap } from "../http/valid.ts";
import { bytesOf, newSecret as newStandardSecret } from "../webhooks/secrets.ts";

type Bytes = Uint8Array<ArrayBuffer>;
type Hook = { provider: WebhookProvider; hmac: HmacScheme | null };

/** How far a time that is signed may be from now, in seconds. */
const TOLERANCE = 300;
const utf8 = { encode: (text: string) => new TextEncoder().encode(text) as Bytes };

/** What a request says of its signature: any of these, over `before` and the body. */
type Claim = {
  before: string;
  signatures: (Bytes | null)[];
  /** Seconds since 1970, as it was sent; null where no time is signed. */
  at: string | null;
};
const algorithms = { sha256: "SHA-256", sha512: "SHA-512", sha1: "SHA-1" } as const;

/** Providers that make their secrets: such a webhook has none until it is brought. */
export const MAKES_SECRETS: readonly WebhookProvider[] = ["stripe", "slack"];

/** What each provider sends. Null: something that it can't do without is missing. */
const claims: { [P in Exclude<WebhookProvider, "url">]: (headers: Headers, hmac: HmacScheme) => Claim | null } = {
  /** Standard Webhooks, under the older names of its headers, too. */
  standard: (headers) => {
    const get = (name: string) => headers.get(`webhook-${name}`) ?? headers.get(`svix-${name}`);
    const [id, at, list] = [get("id"), get("timestamp"), get("signature")];
    if (!id || !at || !list) return null;
    const signatures = list.split(" ").map((one) => (one.startsWith("v1,") ? fromBase64(one.slice(3)) : null));
    return { before: `${id}.${at}.`, signatures, at };
  },
  github: (headers) => signedSo(headers, "x-hub-signature-256", "sha256="),
  stripe: (headers) => {
    const parts = (headers.get("stripe-signature") ?? "").split(",").map((part) => part.trim().split("="));
    const all = (name: string) => parts.filter(([one]) => one === name).map(([, value]) => value ?? "");
    const [at] = all("t");
    return at ? { before: `${at}.`, signatures: all("v1").map(fromHex), at } : null;
  },
  slack: (headers) => {
    const at = headers.get("x-slack-request-timestamp");
    const claim = signedSo(headers, "x-slack-signature", "v0=");
    return at && claim ? { ...claim, before: `v0:${at}:`, at } : null;
  },
  hmac: (headers, { header, encoding, prefix, timestamp_header, signed }) => {
    const at = timestamp_header && headers.get(timestamp_header);
    const claim = signedSo(headers, header, prefix, encoding === "hex" ? fromHex : fromBase64);
    if (!claim || (timestamp_header && !at)) return null;
    const before = { body: "", "timestamp.body": `${at}.`, "v0:timestamp:body": `v0:${at}:` }[signed];
    return { ...claim, before, at };
  },
};

/** One signature over the body alone, behind a prefix. */
function signedSo(headers: Headers, header: string, prefix: string, decode = fromHex): Claim | null {
  const value = headers.get(header);
  if (!value?.startsWith(prefix)) return null;
  return { before: "", signatures: [decode(value.slice(prefix.length))], at: null };
}

/** The keys of a hook's secrets, in their order. */
export function keysOf({ provider, hmac }: Hook, secrets: readonly string[]): Promise<CryptoKey[]> {
  const algorithm = { name: "HMAC", hash: hmac ? algorithms[hmac.algorithm] : "SHA-256" };
  const bytesOf = (secret: string) => keyBytes(provider, secret);
  return Promise.all(
    secrets.map((secret) => crypto.subtle.importKey("raw", bytesOf(secret), algorithm, false, ["sign"])),
  );
}

/**
 * Whether one of the keys has signed the body, as it came, at a time that is near `now` (milliseconds), where a time
 * is signed. Without a key nothing holds; of `url` everything does, whose address is the secret. However many
 * signatures were sent, a key is reckoned with once; they are compared in constant time.
 */
export async function isSigned(
  { provider, hmac }: Hook,
  keys: readonly CryptoKey[],
  headers: Headers,
  body: Bytes,
  now: number,
): Promise<boolean> {
  if (provider === "url") return true;
  const claim = claims[provider](headers, hmac!);
  if (!claim || (claim.at !== null && !isNear(claim.at, now))) return false;
  const before = utf8.encode(claim.before);
  const signed = new Uint8Array(before.length + body.length);
  signed.set(before);
  signed.set(body, before.length);
  let holds = false;
  for (const key of keys) {
    const expected = new Uint8Array(await crypto.subtle.sign("HMAC", key, signed));
    for (const signature of claim.signatures) if (signature && isEqual(signature, expected)) holds = true;
  }
  return holds;
}

const isNear = (at: string, now: number) => /^\d{1,12}$/.test(at) && Math.abs(now / 1000 - Number(at)) <= TOLERANCE;

/** In a time that says nothing of where two of one length differ. */
function isEqual(one: Bytes, other: Bytes): boolean {
  let differing = one.length ^ other.length;
  for (let i = 0; i < other.length; i++) differing |= (one[i] ?? 0) ^ other[i]!;
  return differing === 0;
}

/** A secret of Standard Webhooks is the base64 of its key. */
const keyBytes = (provider: WebhookProvider, secret: string): Bytes =>
  provider === "standard" ? fromBase64(secret.replace(/^whsec_/, ""))! : utf8.encode(secret);

function fromHex(text: string): Bytes | null {
  if (!/^([0-9a-f]{2})+$/i.test(text)) return null;
  return Uint8Array.from({ length: text.length / 2 }, (_, i) => Number.parseInt(text.slice(2 * i, 2 * i + 2), 16));
}

/** Null where it is no base64. */
export function fromBase64(text: string): Bytes | null {
  try {
    return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  } catch {
    return null;
  }
}

/** A secret of the form that the provider's own have. */
export function newSecret(provider: WebhookProvider): string {
  const secret = newStandardSecret();
  return provider === "standard" ? secret : bytesOf(secret);
}

/**
 * What the provider calls a delivery: the same when it sends it again. Null where it calls it nothing: then each is one of
 * its own.
 */
export function deliveryIdOf({ provider, hmac }: Hook, headers: Headers, body: unknown): string | null {
  const said = (field: string) => (isMap(body) && typeof body[field] === "string" ? body[field] : null);
  const id = {
    standard: () => headers.get("webhook-id") ?? headers.get("svix-id"),
    github: () => headers.get("x-github-delivery"),
    stripe: () => said("id"),
    slack: () => said("event_id"),
    hmac: () => headers.get(hmac!.id_header),
    url: () => headers.get("idempotency-key"),
  }[provider]();
  return id || null;
}

/** Where GitHub says what it tells of. */
export const GITHUB_EVENT = "x-github-event";

/** What a provider sends to see whether somebody is there, and tells of nothing by. `challenge`: what Slack wants back. */
export function answerOf(hook: Hook, headers: Headers, body: unknown): { challenge: string | null } | null {
  if (hook.provider === "github" && headers.get(GITHUB_EVENT) === "ping") return { challenge: null };
  const asks = hook.provider === "slack" && isMap(body) && body.type === "url_verification";
  return asks && typeof body.challenge === "string" ? { challenge: body.challenge } : null;
}

const shown =
  /^(content-type|user-agent|(webhook|svix)-(id|timestamp)|x-([a-z0-9-]+-)?(event|topic|delivery|timestamp|event-key|event-type))$/;
const MOST_HEADERS = 20;
const MAX_HEADER = 200;

/**
 * The headers that say what was sent, by name, of each at most 200 characters. Never all but some: in the others a sender
 * may have a credential. Nor the one that bears the signature, whatever it is called.
 */
export const headersOf = ({ hmac }: Hook, headers: Headers): Record<string, string> =>
  Object.fromEntries(
    [...headers]
      .filter(([name]) => shown.test(name) && name !== hmac?.header.toLowerCase())
      .slice(0, MOST_HEADERS)
      .map(([name, value]) => [name, value.slice(0, MAX_HEADER)]),
  );
