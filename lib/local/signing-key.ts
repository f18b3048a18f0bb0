import { calculateJwkThumbprint, exportJWK, generateKeyPair, type JWK } from "jose";

/** A new P-256 key for signing, private, named by its thumbprint (RFC 7638). */
export async function newSigningKey(): Promise<JWK> {
  const { privateKey } = await generateKeyPair("ES256", { extractable: true });
  const jwk = await exportJWK(privateKey);
  return { ...jwk, kid: await calculateJwkThumbprint(jwk), alg: "ES256", use: "sig" };
}
