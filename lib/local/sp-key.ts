/** The key of the SAML SPs of a deployment: an RSA key as a JWK, and a certificate that it signs itself, as providers want it. */
import { calculateJwkThumbprint, exportJWK, generateKeyPair, type JWK } from "jose";

const YEARS = 10;

/** A new private RSA key that signs requests and opens assertions; its certificate, base64 of DER, is `x5c[0]`. */
export async function newSpKey(): Promise<JWK> {
  const { privateKey, publicKey } = await generateKeyPair("RS256", { extractable: true });
  const spki = new Uint8Array((await crypto.subtle.exportKey("spki", publicKey)) as ArrayBuffer);
  const now = new Date();
  const certificate = await selfSigned({
    key: privateKey,
    spki,
    from: now,
    to: new Date(+now + YEARS * 365 * 86_400_000),
  });
  const jwk = await exportJWK(privateKey);
  return { ...jwk, kid: await calculateJwkThumbprint(jwk), x5c: [certificate] };
}

type ToSign = { key: CryptoKey; spki: Uint8Array; from: Date; to: Date };

const der = (tag: number, ...parts: (Uint8Array | number[])[]): Uint8Array => {
  const content = parts.flatMap((part) => [...part]);
  const { length } = content;
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return new Uint8Array([tag, ...size, ...content]);
};
const sequence = (...parts: (Uint8Array | number[])[]) => der(0x30, ...parts);
const time = (date: Date) => der(0x18, new TextEncoder().encode(date.toISOString().replace(/[-:T]|\.\d+/g, "")));
const SHA256_RSA = sequence(der(0x06, [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b]), der(0x05));
const NAME = sequence(
  der(0x31, sequence(der(0x06, [0x55, 0x04, 0x03]), der(0x0c, new TextEncoder().encode("agentry")))),
);

/** An X.509 v3 certificate of a public key, signed by an RSA key (RSASSA-PKCS1-v1_5, SHA-256), as base64 of DER. */
export async function selfSigned({ key, spki, from, to }: ToSign): Promise<string> {
  const serial = crypto.getRandomValues(new Uint8Array(16));
  // Positive, and without a zero before it.
  serial[0] = 0x40 | (serial[0]! & 0x3f);
  const version = der(0xa0, der(0x02, [2]));
  const tbs = sequence(version, der(0x02, serial), SHA256_RSA, NAME, sequence(time(from), time(to)), NAME, spki);
  const proof = new Uint8Array(await crypto.subtle.sign("RSASSA-PKCS1-v1_5", key, new Uint8Array(tbs)));
  return Buffer.from(sequence(tbs, SHA256_RSA, der(0x03, [0], proof))).toString("base64");
}
