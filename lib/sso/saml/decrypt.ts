/** An EncryptedAssertion, opened by the SP's key: RSA-OAEP, then AES-GCM or CBC. */
import { fromBase64 } from "./certificate.ts";
import { Refused } from "./refused.ts";
import { attribute, childrenOf, type Element, parseXml, textOf, walk } from "./xml.ts";

const XENC = "http://www.w3.org/2001/04/xmlenc#";
const XENC11 = "http://www.w3.org/2009/xmlenc11#";
const DS = "http://www.w3.org/2000/09/xmldsig#";
const BLOCK = 16;
const CIPHERS = new Map([
  [`${XENC}aes128-cbc`, { name: "AES-CBC", bytes: 16, iv: BLOCK }],
  [`${XENC}aes256-cbc`, { name: "AES-CBC", bytes: 32, iv: BLOCK }],
  [`${XENC11}aes128-gcm`, { name: "AES-GCM", bytes: 16, iv: 12 }],
  [`${XENC11}aes256-gcm`, { name: "AES-GCM", bytes: 32, iv: 12 }],
]);

/** A key of the SP, as a private RSA JWK. */
export type SpKey = JsonWebKey & { x5c?: string[] };

/**
 * The element inside. Only ever called for what stands in a signed Response, and with one error for all that can be
 * wrong: whoever sends changed ciphers learns nothing of what they hold.
 */
export async function decrypt(encrypted: Element, keys: readonly SpKey[]): Promise<Element> {
  for (const key of keys) {
    try {
      return parseXml(await open(encrypted, key));
    } catch {
      // Of two keys the other may be meant.
    }
  }
  throw new Refused(
    "The encrypted assertion can't be opened. Let the identity provider read this org's SP metadata again, and use RSA-OAEP and AES.",
  );
}

async function open(encrypted: Element, jwk: SpKey): Promise<Uint8Array> {
  const data = sole(childrenOf(encrypted, XENC, "EncryptedData"));
  // Beside the data or in its KeyInfo: both are in use.
  const key = sole([...walk(encrypted)].filter(({ ns, local }) => ns === XENC && local === "EncryptedKey"));
  const { name, bytes, iv } = CIPHERS.get(methodOf(data))!;
  const oaep = { name: "RSA-OAEP", hash: oaepHash(key) };
  const { kty, n, e, d, p, q, dp, dq, qi } = jwk;
  const opener = await crypto.subtle.importKey("jwk", { kty, n, e, d, p, q, dp, dq, qi }, oaep, false, ["decrypt"]);
  const secret = await crypto.subtle.decrypt(oaep, opener, cipherOf(key));
  if (secret.byteLength !== bytes) throw new RangeError();
  const cipher = cipherOf(data);
  const algorithm = { name, iv: cipher.slice(0, iv) };
  const text = cipher.slice(iv);
  if (name === "AES-GCM") return new Uint8Array(await crypto.subtle.decrypt(algorithm, await aes(name, secret), text));
  return cbc(await aes(name, secret), algorithm.iv, text);
}

const aes = (name: string, secret: ArrayBuffer) =>
  crypto.subtle.importKey("raw", secret, name, false, ["encrypt", "decrypt"]);

/**
 * XML pads with any bytes and their number, WebCrypto asks for PKCS #7: a block is put behind that opens to a whole
 * such padding, and the one before it is taken off by hand.
 */
async function cbc(key: CryptoKey, iv: Uint8Array<ArrayBuffer>, text: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const last = text.length > BLOCK ? text.slice(-BLOCK) : text;
  const padding = await crypto.subtle.encrypt({ name: "AES-CBC", iv: last }, key, new Uint8Array());
  const whole = new Uint8Array([...text, ...new Uint8Array(padding)]);
  const plain = new Uint8Array(await crypto.subtle.decrypt({ name: "AES-CBC", iv }, key, whole));
  const pad = plain.at(-1) ?? 0;
  if (pad < 1 || pad > BLOCK) throw new RangeError();
  return plain.subarray(0, -pad);
}

/** WebCrypto has one hash for both parts of OAEP: what asks for two is not opened. */
function oaepHash(key: Element): string {
  const method = sole(childrenOf(key, XENC, "EncryptionMethod"));
  const digest = attributeOf(method, DS, "DigestMethod")?.replace(/^.*#/, "") ?? "sha1";
  const mgf = attributeOf(method, XENC11, "MGF")?.replace(/^.*#mgf1/, "") ?? "sha1";
  const hash = new Map([
    ["sha1", "SHA-1"],
    ["sha256", "SHA-256"],
    ["sha512", "SHA-512"],
  ]).get(digest);
  const known = [`${XENC}rsa-oaep-mgf1p`, `${XENC11}rsa-oaep`].includes(attribute(method, "Algorithm") ?? "");
  if (!known || !hash || mgf !== digest) throw new RangeError();
  return hash;
}

const attributeOf = (element: Element, ns: string, local: string) => {
  const [child] = childrenOf(element, ns, local);
  return child ? attribute(child, "Algorithm") : null;
};
const methodOf = (element: Element) =>
  attribute(sole(childrenOf(element, XENC, "EncryptionMethod")), "Algorithm") ?? "";
const cipherOf = (element: Element) =>
  fromBase64(textOf(sole(childrenOf(sole(childrenOf(element, XENC, "CipherData")), XENC, "CipherValue"))) ?? "")!;

function sole(elements: Element[]): Element {
  if (elements.length !== 1) throw new RangeError();
  return elements[0]!;
}
