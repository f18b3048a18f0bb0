/** Access tokens: RFC 9068 JWTs (`typ: at+jwt`), ES256, verified against keys in memory, without any look-up. */
import {
  base64url,
  createLocalJWKSet,
  errors,
  importJWK,
  type JWK,
  type JWTVerifyGetKey,
  jwtVerify,
  SignJWT,
} from "jose";
import * as v from "valibot";
import { NONE, type None } from "../db/schema.ts";
import { type Bindings, listOf } from "../env.ts";
import { type Id, isId } from "../ids.ts";

const ALGORITHM = "ES256";
const TYPE = "at+jwt";
/** Longer is no token of ours, and not worth a signature check. */
const MAX_LENGTH = 8192;

export type AccessToken = {
  app: Id<"app">;
  sandbox: Id<"sandbox"> | None;
  org: Id<"org">;
  user: Id<"user">;
  token: Id<"token">;
  scopes: string[];
};

/** What a token says of the sign-in that it came of: its id, when somebody proved who he was, and who, if it was another. */
export type SignedIn = { sid: string | null; auth_time: number | null; act: string | null };

type Keys = {
  verify: JWTVerifyGetKey;
  public: JWK[];
  signing: Promise<{ key: CryptoKey; kid: string }> | null;
  /** Tokens whose signature and claims were found good: both stay so until `exp`. That they live, the database says. */
  verified: Map<string, { token: AccessToken; exp: number }>;
};
const MAX_VERIFIED = 1000;
const parsed = new Map<string, Keys>();

/** The keys of a deployment. Throws where `jwks` is no JWKS of ES256 keys with a `kid`. */
export function keysOf(jwks: string): Keys {
  let keys = parsed.get(jwks);
  if (!keys) {
    const all = (JSON.parse(jwks) as { keys: JWK[] }).keys;
    if (!all.length || all.some(({ kty, crv, kid }) => kty !== "EC" || crv !== "P-256" || !kid)) {
      throw new Error("JWKS must hold P-256 keys, each with a kid");
    }
    const open = all.map(({ kty, crv, x, y, kid }) => ({ kty, crv, x, y, kid, alg: ALGORITHM, use: "sig" }) as JWK);
    const first = all[0]!;
    keys = {
      verify: createLocalJWKSet({ keys: open }),
      public: open,
      verified: new Map(),
      signing: first.d ? importJWK(first, ALGORITHM).then((key) => ({ key: key as CryptoKey, kid: first.kid! })) : null,
    };
    parsed.set(jwks, keys);
  }
  return keys;
}

/** Signs a token for its row. `iat`, `exp` and `auth_time` are seconds since 1970, taken from the row; `act`: RFC 8693 §4.1. */
export async function signToken(
  env: Pick<Bindings, "JWKS" | "ISSUERS">,
  { app, sandbox, org, user, token, scopes }: AccessToken,
  { iat, exp, sid = null, auth_time = null, act = null }: { iat: number; exp: number } & Partial<SignedIn>,
): Promise<string> {
  const signing = await keysOf(env.JWKS).signing;
  if (!signing) throw new Error("this Worker has no private signing key");
  const said = {
    ...(sandbox !== NONE && { sandbox }),
    ...(sid !== null && { sid }),
    ...(auth_time !== null && { auth_time }),
    ...(act !== null && { act: { sub: act } }),
  };
  return new SignJWT({ org_id: org, scope: scopes.join(" "), ...said })
    .setProtectedHeader({ alg: ALGORITHM, typ: TYPE, kid: signing.kid })
    .setIssuer(listOf(env.ISSUERS)[0]!)
    .setAudience(app)
    .setSubject(user)
    .setJti(token)
    .setIssuedAt(iat)
    .setExpirationTime(exp)
    .sign(signing.key);
}

/** Whether base64url has no second spelling here: unused bits at the end would let one token be written in many ways. */
export function isCanonical(text: string): boolean {
  try {
    return base64url.encode(base64url.decode(text)) === text;
  } catch {
    return false;
  }
}

const id = <K extends Parameters<typeof isId>[0]>(kind: K) =>
  v.custom<Id<K>>((value) => typeof value === "string" && isId(kind, value));
const claims = v.object({
  aud: id("app"),
  sub: id("user"),
  org_id: id("org"),
  jti: id("token"),
  scope: v.string(),
  iat: v.number(),
  exp: v.pipe(v.number(), v.finite()),
  sandbox: v.optional(id("sandbox")),
});

/**
 * Checks a token: signature (algorithm pinned, key by `kid` from our own set, never from the token), then `typ`,
 * `iss`, expiry and the claims' form. The audience is the app that the token names; the database holds it to that.
 * Null for every flaw alike. Only jose's own errors are swallowed.
 */
export async function verifyToken(
  env: Pick<Bindings, "PUBLIC_JWKS" | "ISSUERS">,
  text: string,
): Promise<AccessToken | null> {
  const { verify, verified } = keysOf(env.PUBLIC_JWKS);
  const known = verified.get(text);
  if (known && known.exp > Date.now() / 1000) return known.token;
  if (text.length > MAX_LENGTH || !text.split(".").every(isCanonical)) return null;
  try {
    const { payload, protectedHeader } = await jwtVerify(text, verify, {
      algorithms: [ALGORITHM],
      typ: TYPE,
      issuer: listOf(env.ISSUERS),
      requiredClaims: ["exp", "iat", "jti", "sub", "aud"],
    });
    const { success, output } = v.safeParse(claims, payload);
    if (!success || protectedHeader.kid === undefined) return null;
    const { aud, sandbox = NONE, org_id, sub, jti, scope, exp } = output;
    const token: AccessToken = {
      app: aud,
      sandbox,
      org: org_id,
      user: sub,
      token: jti,
      scopes: scope.split(" ").filter(Boolean),
    };
    if (verified.size >= MAX_VERIFIED) verified.clear();
    verified.set(text, { token, exp });
    return token;
  } catch (error) {
    if (error instanceof errors.JOSEError) return null;
    throw error;
  }
}
