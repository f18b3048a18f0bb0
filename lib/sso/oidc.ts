/** OpenID Connect with an org's provider: the code flow with PKCE, by oauth4webapi; what it fetches goes through the guard. */
import { compactVerify, type JSONWebKeySet, type JWK } from "jose";
import * as oauth from "oauth4webapi";
import type { Egress } from "../http/egress.ts";
import { guarded, isSilence } from "./fetch.ts";
import { Refused } from "./saml/refused.ts";

/** Entra's subjects differ by client: a person is known there by tenant and object. */
const ENTRA = "login.microsoftonline.com";

export type Client = { issuer_url: string; client_id: string; client_secret: string; redirect_uri: string };
/** What is remembered of a request to the provider, until it answers. */
export type Asked = { state: string; nonce: string; verifier: string };
export type OidcLogin = {
  subject: string;
  /** As the provider says it: a logout names it so. */
  sub: string;
  email_verified: boolean | null;
  sid: string | null;
  attributes: Map<string, string[]>;
};

const optionsOf = (egress: Egress) => ({
  [oauth.customFetch]: guarded(egress) as never,
  [oauth.allowInsecureRequests]: egress.loopback ?? false,
});

async function discover(
  { issuer_url }: Pick<Client, "issuer_url">,
  egress: Egress,
): Promise<oauth.AuthorizationServer> {
  const issuer = new URL(issuer_url);
  const response = await oauth.discoveryRequest(issuer, optionsOf(egress));
  return oauth.processDiscoveryResponse(issuer, response);
}

/** Anything that the provider or what it says was wrong about, as a sentence; a bug stays one. */
export async function asRefusal<T>(run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    if (error instanceof Refused) throw error;
    if (error instanceof oauth.AuthorizationResponseError || error instanceof oauth.ResponseBodyError) {
      throw new Refused(`The identity provider answered ${error.error.slice(0, 100)}. Look into its own log.`);
    }
    if (error instanceof oauth.WWWAuthenticateChallengeError) {
      throw new Refused("The identity provider refused the client. Set client_id and client_secret anew.");
    }
    if (error instanceof oauth.OperationProcessingError || error instanceof oauth.UnsupportedOperationError) {
      throw new Refused(
        `What the identity provider said does not hold: ${error.message}. See issuer_url and client_id.`,
      );
    }
    if (isSilence(error)) throw new Refused("The identity provider did not answer.");
    throw error;
  }
}

/** Where the browser is sent. */
export async function authorizationUrl(
  client: Client,
  { state, nonce, verifier }: Asked,
  egress: Egress,
): Promise<string> {
  const { authorization_endpoint } = await discover(client, egress);
  if (!authorization_endpoint) throw new Refused("The provider's discovery document has no authorization_endpoint.");
  const url = new URL(authorization_endpoint);
  const { client_id, redirect_uri } = client;
  const code_challenge = await oauth.calculatePKCECodeChallenge(verifier);
  const query = {
    client_id,
    redirect_uri,
    response_type: "code",
    scope: "openid email profile",
    state,
    nonce,
    code_challenge,
    code_challenge_method: "S256",
  };
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  return url.href;
}

/** Turns what the browser came back with into who it is. `url` is the whole address. */
export async function readCallback(client: Client, url: URL, asked: Asked, egress: Egress): Promise<OidcLogin> {
  const names = [...url.searchParams.keys()];
  if (new Set(names).size < names.length) throw new Refused("The provider's answer has a parameter twice.");
  const server = await discover(client, egress);
  const self: oauth.Client = { client_id: client.client_id };
  const parameters = oauth.validateAuthResponse(server, self, url, asked.state);
  const methods = server.token_endpoint_auth_methods_supported ?? ["client_secret_basic"];
  const auth = methods.includes("client_secret_basic") ? oauth.ClientSecretBasic : oauth.ClientSecretPost;
  const options = optionsOf(egress);
  const response = await oauth.authorizationCodeGrantRequest(
    ...([server, self, auth(client.client_secret), parameters, client.redirect_uri, asked.verifier, options] as const),
  );
  const tokens = await oauth.processAuthorizationCodeResponse(server, self, response, {
    expectedNonce: asked.nonce,
    requireIdToken: true,
  });
  // Without this an ID token signed by anybody passes: TLS alone would vouch for it.
  await oauth.validateApplicationLevelSignature(server, response, options);
  const claims = oauth.getValidatedIdTokenClaims(tokens)!;
  if (claims.azp !== undefined && claims.azp !== client.client_id)
    throw new Refused("The ID token is another client's.");
  const isEntra =
    new URL(client.issuer_url).host === ENTRA && typeof claims.tid === "string" && typeof claims.oid === "string";
  return {
    sub: claims.sub,
    subject: isEntra ? `${claims.tid}.${claims.oid}` : claims.sub,
    email_verified:
      typeof claims.email_verified === "boolean"
        ? claims.email_verified
        : claims.email_verified === "false"
          ? false
          : null,
    sid: typeof claims.sid === "string" ? claims.sid : null,
    attributes: new Map(
      Object.entries(claims).map(([name, value]) => [name, [value].flat().filter((one) => typeof one === "string")]),
    ),
  };
}

/** Where the browser is led to sign out there, too, and comes back from; null where the provider knows no such thing. */
export async function endSessionUrl(
  client: Pick<Client, "issuer_url" | "client_id">,
  post_logout_redirect_uri: string,
  egress: Egress,
): Promise<string | null> {
  const { end_session_endpoint } = await discover(client, egress);
  if (!end_session_endpoint) return null;
  const url = new URL(end_session_endpoint);
  url.searchParams.set("client_id", client.client_id);
  url.searchParams.set("post_logout_redirect_uri", post_logout_redirect_uri);
  return url.href;
}

const LOGOUT = "http://schemas.openid.net/event/backchannel-logout";
/** What a provider's public keys can verify: never its client's secret. */
const ALGORITHMS = [
  "RS256",
  "RS384",
  "RS512",
  "PS256",
  "PS384",
  "PS512",
  "ES256",
  "ES384",
  "ES512",
  "EdDSA",
  "Ed25519",
];
const MAX_AGE_S = 300;
const SKEW_S = 60;
const MAX_KEYS = 20;

/** Who has signed out there: a person, a session, or both; and until when the message would be taken. */
export type OidcLogout = { id: string; sub: string | null; sid: string | null; not_on_or_after: Date };

/** Reads a logout token (OpenID Connect Back-Channel Logout 1.0): the provider's, for this client, of late. */
export async function readLogoutToken(
  client: Pick<Client, "issuer_url" | "client_id">,
  token: string,
  egress: Egress,
): Promise<OidcLogout> {
  const { issuer, jwks_uri } = await discover(client, egress);
  if (!jwks_uri) throw new Refused("The provider's discovery document has no jwks_uri.");
  const response = await guarded(egress)(jwks_uri, { headers: { Accept: "application/json" } });
  const set = (await response.json().catch(() => null)) as JSONWebKeySet | null;
  if (!response.ok || !Array.isArray(set?.keys))
    throw new Refused("The provider's keys could not be read at its jwks_uri.");
  const { iss, aud, iat, exp, jti, sub, sid, events, nonce } = await signedBy(set.keys, token);
  if (iss !== issuer || ![aud].flat().includes(client.client_id)) {
    throw new Refused("The logout token is of another issuer, or for another client. See issuer_url and client_id.");
  }
  const now = Date.now() / 1000;
  const isLate = typeof iat !== "number" || now > iat + MAX_AGE_S + SKEW_S;
  if (isLate || iat > now + SKEW_S || (exp !== undefined && !((exp as number) > now - SKEW_S))) {
    throw new Refused("The logout token is not of this time. Look at the provider's clock.");
  }
  if (nonce !== undefined || typeof jti !== "string" || !isObject(events) || !isObject(events[LOGOUT])) {
    throw new Refused("The logout token is no logout token.");
  }
  const named = [sub, sid].filter((one) => one !== undefined);
  if (!named.length || named.some((one) => typeof one !== "string" || !one)) {
    throw new Refused("The logout token names neither a person nor a session.");
  }
  return {
    id: jti,
    sub: (sub as string | undefined) ?? null,
    sid: (sid as string | undefined) ?? null,
    not_on_or_after: new Date((iat + MAX_AGE_S + SKEW_S) * 1000),
  };
}

/** What a token says that one of these keys has signed. */
async function signedBy(keys: readonly JWK[], token: string): Promise<Record<string, unknown>> {
  for (const key of keys.slice(0, MAX_KEYS)) {
    // Whatever a key is unfit for, another one may be meant.
    const claims: unknown = await compactVerify(token, key, { algorithms: ALGORITHMS })
      .then(({ payload }) => JSON.parse(new TextDecoder().decode(payload)))
      .catch(() => null);
    if (isObject(claims)) return claims;
  }
  throw new Refused("The logout token is signed by none of the provider's keys.");
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;
