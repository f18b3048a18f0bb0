/** What an SP says itself, and what it hears about logouts: by redirect, signed over the query, or by form. */
import { toBase64 } from "../../auth/secrets.ts";
import { fromBase64 } from "./certificate.ts";
import type { SpKey } from "./decrypt.ts";
import { Refused } from "./refused.ts";
import {
  assertFuture,
  assertIssuer,
  assertPast,
  assertSuccess,
  type NameId,
  nameIdOf,
  SAML,
  SAMLP,
  SKEW_MS,
  sole,
  verifyAll,
} from "./response.ts";
import { assertUniqueIds, type Signer, verifyQuery } from "./signature.ts";
import { attribute, childrenOf, type Element, escapeXml, MAX_BYTES, parseXml, textOf } from "./xml.ts";

type Bytes = Uint8Array<ArrayBuffer>;
const RSA_SHA256 = "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256";
const POST = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST";
/** How old a LogoutRequest may be: its ID is kept as long. */
const MAX_AGE_MS = 5 * 60_000;
const utf8 = new TextEncoder();

/** An ID that SAML takes: it must not begin with a digit. */
export const newMessageId = () => `_${crypto.randomUUID().replaceAll("-", "")}`;

type Head = { id: string; destination: string; sp_entity_id: string; now: Date };
const head = (name: string, { id, destination, sp_entity_id, now }: Head, more: string, inside: string) =>
  `<samlp:${name} xmlns:samlp="${SAMLP}" xmlns:saml="${SAML}" ID="${id}" Version="2.0" IssueInstant="${now.toISOString()}" Destination="${escapeXml(destination)}"${more}><saml:Issuer>${escapeXml(sp_entity_id)}</saml:Issuer>${inside}</samlp:${name}>`;

/** Asks the provider who somebody is. `force`: that they sign in anew. */
export const authnRequest = ({ acs_url, force, ...message }: Head & { acs_url: string; force: boolean }) =>
  head(
    "AuthnRequest",
    message,
    ` ProtocolBinding="${POST}" AssertionConsumerServiceURL="${escapeXml(acs_url)}"${force ? ' ForceAuthn="true"' : ""}`,
    '<samlp:NameIDPolicy AllowCreate="true"/>',
  );

/** Tells the provider that somebody has gone. */
export const logoutRequest = ({
  name_id,
  session_index,
  ...message
}: Head & { name_id: NameId; session_index: string | null }) =>
  head(
    "LogoutRequest",
    message,
    ` NotOnOrAfter="${new Date(message.now.getTime() + MAX_AGE_MS).toISOString()}"`,
    `<saml:NameID${name_id.format ? ` Format="${escapeXml(name_id.format)}"` : ""}>${escapeXml(name_id.value)}</saml:NameID>${
      session_index === null ? "" : `<samlp:SessionIndex>${escapeXml(session_index)}</samlp:SessionIndex>`
    }`,
  );

/** Tells the provider that a LogoutRequest was followed. */
export const logoutResponse = ({ in_response_to, ...message }: Head & { in_response_to: string }) =>
  head(
    "LogoutResponse",
    message,
    ` InResponseTo="${escapeXml(in_response_to)}"`,
    '<samlp:Status><samlp:StatusCode Value="urn:oasis:names:tc:SAML:2.0:status:Success"/></samlp:Status>',
  );

/** The address that carries a message to the provider, signed by the SP's key. */
export async function redirectTo(
  destination: string,
  type: "SAMLRequest" | "SAMLResponse",
  xml: string,
  relay_state: string | null,
  key: SpKey,
): Promise<string> {
  const deflated = await through(utf8.encode(xml) as Bytes, new CompressionStream("deflate-raw"));
  const query = [
    `${type}=${encodeURIComponent(toBase64(deflated))}`,
    ...(relay_state === null ? [] : [`RelayState=${encodeURIComponent(relay_state)}`]),
    `SigAlg=${encodeURIComponent(RSA_SHA256)}`,
  ].join("&");
  const proof = await crypto.subtle.sign("RSASSA-PKCS1-v1_5", await signingKey(key), utf8.encode(query));
  const signed = `${query}&Signature=${encodeURIComponent(toBase64(new Uint8Array(proof)))}`;
  return `${destination}${destination.includes("?") ? "&" : "?"}${signed}`;
}

const signingKey = ({ kty, n, e, d, p, q, dp, dq, qi }: SpKey) =>
  crypto.subtle.importKey(
    "jwk",
    { kty, n, e, d, p, q, dp, dq, qi },
    { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" },
    false,
    ["sign"],
  );

export type LogoutMessage =
  | {
      type: "request";
      id: string;
      name_id: NameId;
      session_indexes: string[];
      not_on_or_after: Date;
      relay_state: string | null;
    }
  | { type: "response"; in_response_to: string | null };

type ExpectedLogout = { issuer: string; slo_service_url: string; signers: readonly Signer[] };

/** Reads a logout message that came by form: it is signed as an assertion is. Throws `Refused`. */
export async function readLogoutForm(
  form: URLSearchParams,
  expected: ExpectedLogout,
  now: Date,
): Promise<LogoutMessage> {
  const bytes = fromBase64(form.get("SAMLRequest") ?? form.get("SAMLResponse") ?? "");
  if (!bytes) throw new Refused("The logout message is not base64.");
  const message = parseXml(bytes);
  const signed = await verifyAll(message, [message], expected.signers, now);
  if (!signed.has(message)) throw new Refused("The logout message is not signed. Let the identity provider sign it.");
  return read(message, form.get("RelayState"), expected, now);
}

/**
 * Reads a logout message that came by redirect. The signature is over the query as it was sent: its parts are taken
 * from there, in the order that the binding says, and each may stand there once.
 */
export async function readLogoutQuery(query: string, expected: ExpectedLogout, now: Date): Promise<LogoutMessage> {
  const parts = new Map<string, string>();
  for (const part of query.split("&")) {
    const name = part.slice(0, part.indexOf("="));
    if (parts.has(name)) throw new Refused("The logout message has a parameter twice.");
    parts.set(name, part);
  }
  const type = parts.has("SAMLRequest") ? "SAMLRequest" : "SAMLResponse";
  if (parts.has("SAMLRequest") && parts.has("SAMLResponse")) throw new Refused("It is two messages at once.");
  const signed = [type, "RelayState", "SigAlg"].flatMap((name) => parts.get(name) ?? []).join("&");
  const values = new URLSearchParams(query);
  const proof = fromBase64(values.get("Signature") ?? "");
  const deflated = fromBase64(values.get(type) ?? "");
  if (!proof) throw new Refused("The logout message is not signed. Let the identity provider sign it.");
  if (!deflated) throw new Refused("The logout message is not base64.");
  await verifyQuery(signed, values.get("SigAlg") ?? "", proof, expected.signers, now);
  return read(parseXml(await inflate(deflated)), values.get("RelayState"), expected, now);
}

function read(message: Element, relay_state: string | null, expected: ExpectedLogout, now: Date): LogoutMessage {
  assertUniqueIds(message);
  const isRequest = message.local === "LogoutRequest";
  if (message.ns !== SAMLP || (!isRequest && message.local !== "LogoutResponse")) {
    throw new Refused("It is not a SAML logout message.");
  }
  assertIssuer(message, expected.issuer);
  if (attribute(message, "Destination") !== expected.slo_service_url) {
    throw new Refused(`The Destination is another. Set the logout URL to ${expected.slo_service_url}.`);
  }
  const issued = assertPast(attribute(message, "IssueInstant"), "The logout message", now);
  const not_on_or_after = new Date(issued.getTime() + MAX_AGE_MS + SKEW_MS);
  if (not_on_or_after <= now) throw new Refused("The logout message is older than five minutes.");
  if (!isRequest) {
    assertSuccess(message);
    return { type: "response", in_response_to: attribute(message, "InResponseTo") };
  }
  const end = attribute(message, "NotOnOrAfter");
  if (end !== null) assertFuture(end, "The logout message", now);
  const id = attribute(message, "ID");
  if (!id || id.length > 1000) throw new Refused("The logout message has no ID.");
  return {
    type: "request",
    id,
    name_id: nameIdOf(sole(message, SAML, "NameID")),
    session_indexes: childrenOf(message, SAMLP, "SessionIndex").flatMap((one) => textOf(one) ?? []),
    not_on_or_after,
    relay_state,
  };
}

/** Inflates, and stops where it would become larger than a message may be (CVE-2025-25293). */
async function inflate(bytes: Bytes): Promise<Uint8Array> {
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  const chunks: Uint8Array[] = [];
  let length = 0;
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      length += next.value.length;
      if (length > MAX_BYTES) break;
      chunks.push(next.value);
    }
  } catch {
    throw new Refused("The message is not deflated.");
  }
  if (length > MAX_BYTES) {
    await reader.cancel();
    throw new Refused(`The message is larger than ${MAX_BYTES / 1024} KiB.`);
  }
  return joined(chunks);
}

async function through(bytes: Bytes, transform: CompressionStream): Promise<Uint8Array> {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(transform)).arrayBuffer());
}

function joined(chunks: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(chunks.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.length;
  }
  return whole;
}
