/** XML signatures, of the one shape that SAML has: enveloped in what they sign, by its ID, over exclusive C14N. */
import { canonical } from "./c14n.ts";
import { type Certificate, fromBase64, importKey } from "./certificate.ts";
import { Refused } from "./refused.ts";
import { attribute, type Element, elementsOf, textOf, walk } from "./xml.ts";

const DS = "http://www.w3.org/2000/09/xmldsig#";
const EXC_C14N = "http://www.w3.org/2001/10/xml-exc-c14n#";
const ENVELOPED = `${DS}enveloped-signature`;
const MORE = "http://www.w3.org/2001/04/xmldsig-more#";

/** SHA-1 is none, HMAC is none, and what isn't here is none. */
const METHODS = new Map<string, { type: Certificate["type"]; hash: string }>(
  ["256", "384", "512"].flatMap((bits) => [
    [`${MORE}rsa-sha${bits}`, { type: "RSA" as const, hash: `SHA-${bits}` }],
    [`${MORE}ecdsa-sha${bits}`, { type: "EC" as const, hash: `SHA-${bits}` }],
  ]),
);
const DIGESTS = new Map([
  ["http://www.w3.org/2001/04/xmlenc#sha256", "SHA-256"],
  [`${MORE}sha384`, "SHA-384"],
  ["http://www.w3.org/2001/04/xmlenc#sha512", "SHA-512"],
]);
const SHAPE = "The signature does not have the shape that SAML asks for";
const ID_NAMES = new Set(["id", "ID", "Id", "iD"]);
const utf8 = (text: string) => new TextEncoder().encode(text) as Uint8Array<ArrayBuffer>;

/** A key that a provider signs with, and until when. */
export type Signer = Pick<Certificate, "spki" | "type" | "not_after">;

/** Throws where two elements bear one ID, under whichever of its names, or where an ID has a namespace. */
export function assertUniqueIds(...roots: Element[]) {
  const ids = new Set<string>();
  for (const root of roots) {
    for (const { attributes } of walk(root)) {
      for (const { ns, local, value } of attributes) {
        if (!ID_NAMES.has(local)) continue;
        if (ns || ids.has(value)) throw new Refused("An ID stands in it twice, or in a namespace.");
        ids.add(value);
      }
    }
  }
}

/** All signatures below an element, wherever they stand. */
export const signaturesIn = (root: Element): Element[] =>
  [...walk(root)].filter(({ ns, local }) => ns === DS && local === "Signature");

/**
 * Verifies that a signature, a child of what it signs, is by one of the keys. Throws `Refused`, with what is to be set.
 * Only what is enveloped is signed: a Reference elsewhere, a second one, any other transform or an Object is refused.
 */
export async function verifySignature(signature: Element, signers: readonly Signer[], now: Date): Promise<void> {
  const signed = signature.parent!;
  const [info, value, ...rest] = elementsOf(signature);
  // KeyInfo says who claims to have signed; only the keys that are set count.
  if (rest.length > 1 || rest.some((one) => !isDs(one, "KeyInfo"))) throw new Refused(`${SHAPE}.`);
  const [method, algorithm, reference, ...others] = elementsOf(only(info, "SignedInfo"));
  if (others.length) throw new Refused(`${SHAPE}: it has more than one Reference.`);
  const [transforms, digestMethod, digest, ...further] = elementsOf(only(reference, "Reference"));
  const [enveloped, exclusive, ...more] = elementsOf(only(transforms, "Transforms"));
  if (further.length || more.length) throw new Refused(`${SHAPE}: it has other transforms.`);
  if (attribute(reference!, "URI") !== `#${attribute(signed, "ID")}` || !attribute(signed, "ID")) {
    throw new Refused(`${SHAPE}: it signs something else than what it stands in.`);
  }
  if (algorithmOf(enveloped, "Transform") !== ENVELOPED) {
    throw new Refused(`${SHAPE}: its first transform is not enveloped-signature.`);
  }
  const inclusive = prefixList(exclusive, "Transform");
  const ofInfo = prefixList(method, "CanonicalizationMethod");

  const hash = DIGESTS.get(algorithmOf(digestMethod, "DigestMethod"));
  const by = METHODS.get(algorithmOf(algorithm, "SignatureMethod"));
  if (!hash || !by || elementsOf(algorithm!).length || elementsOf(digestMethod!).length) {
    throw new Refused(
      "The signature's algorithm is not taken. Set the identity provider to RSA-SHA256 or ECDSA-SHA256.",
    );
  }
  const expected = bytesOf(only(digest, "DigestValue"));
  const proof = bytesOf(only(value, "SignatureValue"));
  const found = await crypto.subtle.digest(hash, utf8(canonical(signed, { without: signature, inclusive })));
  if (!equal(new Uint8Array(found), expected)) {
    throw new Refused("What was signed has been changed on its way: its digest is another.");
  }
  await verifyBytes(by, proof, utf8(canonical(info!, { inclusive: ofInfo })), signers, now);
}

/** Verifies the signature of the redirect binding, which is over the query string. */
export function verifyQuery(
  signed: string,
  method: string,
  proof: Uint8Array<ArrayBuffer>,
  signers: readonly Signer[],
  now: Date,
) {
  const by = METHODS.get(method);
  if (!by) throw new Refused("The signature's algorithm is not taken. Set the identity provider to RSA-SHA256.");
  return verifyBytes(by, proof, utf8(signed), signers, now);
}

async function verifyBytes(
  { type, hash }: { type: Certificate["type"]; hash: string },
  proof: Uint8Array<ArrayBuffer>,
  bytes: Uint8Array<ArrayBuffer>,
  signers: readonly Signer[],
  now: Date,
) {
  const algorithm = type === "RSA" ? "RSASSA-PKCS1-v1_5" : { name: "ECDSA", hash };
  for (const signer of signers) {
    if (signer.type !== type) continue;
    if (!(await crypto.subtle.verify(algorithm, await importKey(signer, hash), proof, bytes))) continue;
    if (signer.not_after > now) return;
    throw new Refused(
      `The certificate that it is signed by expired on ${signer.not_after.toISOString().slice(0, 10)}. Set the new one.`,
    );
  }
  throw new Refused("It is signed by a key that is not set. Set the certificate by which the identity provider signs.");
}

const isDs = (element: Element, local: string) => element.ns === DS && element.local === local;

/** The element, where it is the one that is to stand here, with no text around its children. */
function only(element: Element | undefined, local: string): Element {
  if (!element || !isDs(element, local)) throw new Refused(`${SHAPE}: there is no ${local}, or not in its place.`);
  return element;
}

const algorithmOf = (element: Element | undefined, local: string) => attribute(only(element, local), "Algorithm") ?? "";

/** The PrefixList of exclusive C14N. Throws where the algorithm is another, such as the one with comments. */
function prefixList(element: Element | undefined, local: string): string[] {
  if (algorithmOf(element, local) !== EXC_C14N) throw new Refused(`${SHAPE}: it is not over exclusive C14N.`);
  const [list, ...others] = elementsOf(element!);
  if (!list) return [];
  if (others.length || list.ns !== EXC_C14N || list.local !== "InclusiveNamespaces" || elementsOf(list).length) {
    throw new Refused(`${SHAPE}: exclusive C14N has parameters that it doesn't know.`);
  }
  const prefixes = (attribute(list, "PrefixList") ?? "").split(/[ \t\n]+/).filter(Boolean);
  if (prefixes.length > 16) throw new Refused(`${SHAPE}: its PrefixList is too long.`);
  return prefixes.map((prefix) => (prefix === "#default" ? "" : prefix));
}

function bytesOf(element: Element): Uint8Array<ArrayBuffer> {
  const bytes = fromBase64(textOf(element) ?? "");
  if (!bytes) throw new Refused(`${SHAPE}: its ${element.local} is not base64.`);
  return bytes;
}

const equal = (one: Uint8Array, other: Uint8Array) =>
  one.length === other.length && one.every((byte, at) => byte === other[at]);
