import { decodeJwt, decodeProtectedHeader, exportJWK, generateKeyPair, importJWK, type JWK, SignJWT } from "jose";
import { afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { isCanonical, keysOf, signToken, verifyToken } from "../../../lib/auth/tokens.ts";
import { newId } from "../../../lib/ids.ts";

const newKey = async (kid: string, algorithm = "ES256"): Promise<JWK> => {
  const { privateKey } = await generateKeyPair(algorithm, { extractable: true });
  return { ...(await exportJWK(privateKey)), kid };
};
const open = ({ d: _, ...key }: JWK): JWK => key;
const set = (...keys: JWK[]) => JSON.stringify({ keys });

const token = {
  app: newId("app"),
  sandbox: newId("sandbox"),
  org: newId("org"),
  user: newId("user"),
  token: newId("token"),
  scopes: ["agents:read", "threads:write"],
};
const NOON = 2_000_000_000;
const life = { iat: NOON, exp: NOON + 60 };
const ISSUERS = "https://new.example, https://old.example";
let one: JWK;
let two: JWK;
beforeAll(async () => {
  [one, two] = [await newKey("one"), await newKey("two")];
});
/** The clock in seconds since 1970. */
const at = (seconds: number) => vi.useFakeTimers({ now: seconds * 1000, toFake: ["Date"] });
afterEach(() => vi.useRealTimers());

describe("an access token", () => {
  it("is read back as it was signed, in a sandbox and in production", async () => {
    at(NOON);
    for (const sandbox of [token.sandbox, "-"] as const) {
      const text = await signToken({ JWKS: set(one), ISSUERS }, { ...token, sandbox }, life);
      expect(await verifyToken({ PUBLIC_JWKS: set(open(one)), ISSUERS }, text)).toEqual({ ...token, sandbox });
      expect(decodeJwt(text).sandbox).toBe(sandbox === "-" ? undefined : sandbox);
    }
  });

  it("is of the first key and the first issuer, and good for all of them", async () => {
    at(NOON);
    const text = await signToken({ JWKS: set(two, one), ISSUERS }, token, life);
    expect(decodeProtectedHeader(text).kid).toBe("two");
    expect(decodeJwt(text).iss).toBe("https://new.example");
    const verify = (PUBLIC_JWKS: string, ISSUERS: string) => verifyToken({ PUBLIC_JWKS, ISSUERS }, text);
    expect(await verify(set(open(one), open(two)), "https://newest.example,https://new.example")).toEqual(token);
    expect(await verify(set(open(one)), ISSUERS)).toBeNull();
  });

  it("is refused from an issuer that isn't named any more", async () => {
    at(NOON);
    const text = await signToken({ JWKS: set(one), ISSUERS: "https://gone.example" }, token, life);
    expect(await verifyToken({ PUBLIC_JWKS: set(open(one)), ISSUERS }, text)).toBeNull();
  });

  it("ends with its exp, also where it was found good before", async () => {
    const keys = { PUBLIC_JWKS: set(open(one)), ISSUERS };
    const text = await signToken({ JWKS: set(one), ISSUERS }, token, life);
    at(NOON + 59);
    expect(await verifyToken(keys, text)).toEqual(token);
    at(NOON + 60);
    expect(await verifyToken(keys, text)).toBeNull();
    at(NOON + 61);
    expect(await verifyToken(keys, text)).toBeNull();
  });

  it("is found good under the keys that it was found good under, and no other", async () => {
    at(NOON);
    const text = await signToken({ JWKS: set(one), ISSUERS }, token, life);
    expect(await verifyToken({ PUBLIC_JWKS: set(open(one)), ISSUERS }, text)).toEqual(token);
    expect(await verifyToken({ PUBLIC_JWKS: set(open({ ...two, kid: "one" })), ISSUERS }, text)).toBeNull();
  });

  it("that is good stays good beside a thousand others", async () => {
    at(NOON);
    const keys = { JWKS: set(one), PUBLIC_JWKS: set(open(one)), ISSUERS };
    const texts = [];
    for (let i = 0; i < 1005; i++) texts.push(await signToken(keys, { ...token, token: newId("token") }, life));
    for (const text of [...texts, ...texts.slice(0, 10)]) expect(await verifyToken(keys, text)).not.toBeNull();
    at(NOON + 60);
    for (const text of texts.slice(-3)) expect(await verifyToken(keys, text)).toBeNull();
  });

  it("has no scope where its scope is an empty text", async () => {
    at(NOON);
    const text = await signToken({ JWKS: set(one), ISSUERS }, { ...token, scopes: [] }, life);
    expect((await verifyToken({ PUBLIC_JWKS: set(one), ISSUERS }, text))?.scopes).toEqual([]);
  });

  it("of a key without its kid is refused, though its signature is good", async () => {
    at(NOON);
    const JWKS = set(one);
    const claims = decodeJwt(await signToken({ JWKS, ISSUERS }, token, life));
    const sign = async (header: object) =>
      new SignJWT(claims)
        .setProtectedHeader({ alg: "ES256", typ: "at+jwt", ...header })
        .sign(await importJWK(one, "ES256"));
    expect(await verifyToken({ PUBLIC_JWKS: JWKS, ISSUERS }, await sign({ kid: "one" }))).toEqual(token);
    expect(await verifyToken({ PUBLIC_JWKS: JWKS, ISSUERS }, await sign({}))).toBeNull();
  });
});

describe("a deployment's keys", () => {
  it("are shown without their private half, and with nothing that was written beside them", () => {
    const { public: shown } = keysOf(set({ ...one, note: "mine" } as JWK, open(two)));
    const { kty, crv, x, y } = one;
    expect(shown[0]).toEqual({ kty, crv, x, y, kid: "one", alg: "ES256", use: "sig" });
    expect(shown.map(({ kid }) => kid)).toEqual(["one", "two"]);
  });

  it("sign nothing where the first is a public one", async () => {
    for (const JWKS of [set(open(one)), set(open(one), two)]) {
      await expect(signToken({ JWKS, ISSUERS }, token, life)).rejects.toThrow("no private signing key");
    }
  });

  it("are P-256 keys, each with a kid, and at least one", async () => {
    const rsa = await newKey("rsa", "RS256");
    const p384 = await newKey("p384", "ES384");
    const ed = await newKey("ed", "EdDSA");
    for (const keys of [[], [rsa], [p384], [ed], [one, rsa], [one, { ...two, kid: "" }], [{ ...one, kty: "RSA" }]]) {
      expect(() => keysOf(set(...(keys as JWK[])))).toThrow("P-256 keys");
    }
    const { kid: _, ...anonymous } = one;
    expect(() => keysOf(set(anonymous))).toThrow("P-256 keys");
    expect(() => keysOf("no JSON")).toThrow();
  });
});

describe("base64url", () => {
  it.each(["", "QQ", "QUE", "QUFB", "-_-_", "AA"])("%j has one spelling", (text) => {
    expect(isCanonical(text)).toBe(true);
  });
  // The unused bits set, padded, another alphabet, a blank, a length that there isn't.
  it.each(["QR", "QUF", "QQ==", "+/+/", "QU FB", "A", "QUFB\n", "é"])("%j is none", (text) => {
    expect(isCanonical(text)).toBe(false);
  });
});
