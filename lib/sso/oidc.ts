/** OpenID Connect with an org's provider: the code flow with PKCE, by oauth4webapi; what it fetches goes through the guard. */
import * as oauth from "oauth4webapi";
import type { Egress } from "../http/egress.ts";
import { judgeUrl } from "../http/guard.ts";
import { Refused } from "./saml/refused.ts";

const MAX_BYTES = 512 * 1024;
const TIMEOUT_MS = 5000;
/** Entra's subjects differ by client: a person is known there by tenant and object. */
const ENTRA = "login.microsoftonline.com";

export type Client = { issuer_url: string; client_id: string; client_secret: string; redirect_uri: string };
/** What is remembered of a request to the provider, until it answers. */
export type Asked = { state: string; nonce: string; verifier: string };
export type OidcLogin = {
  subject: string;
  email_verified: boolean | null;
  sid: string | null;
  attributes: Map<string, string[]>;
};

/** A fetch behind the guard: no redirects, 512 KiB, five seconds. */
function guarded({ fetch, loopback = false }: Egress) {
  return async (url: string, init: RequestInit): Promise<Response> => {
    const verdict = judgeUrl(url, { loopback });
    if ("refused" in verdict)
      throw new Refused(`The provider's address ${new URL(url).host} is refused: ${verdict.refused}.`);
    const response = await fetch(url, { ...init, redirect: "manual", signal: AbortSignal.timeout(TIMEOUT_MS) });
    const body = await bounded(response);
    return new Response(body.length ? body : null, { status: response.status, headers: response.headers });
  };
}

async function bounded({ body }: Response): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array[] = [];
  let left = MAX_BYTES;
  const reader = body?.getReader();
  for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
    left -= part.value.length;
    if (left < 0) {
      await reader?.cancel();
      throw new Refused(`The provider answered more than ${MAX_BYTES / 1024} KiB.`);
    }
    chunks.push(part.value);
  }
  return new Uint8Array(await new Blob(chunks as Uint8Array<ArrayBuffer>[]).arrayBuffer());
}

const optionsOf = (egress: Egress) => ({
  [oauth.customFetch]: guarded(egress) as never,
  [oauth.allowInsecureRequests]: egress.loopback ?? false,
});

async function discover({ issuer_url }: Client, egress: Egress): Promise<oauth.AuthorizationServer> {
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
    if (error instanceof DOMException || (error instanceof TypeError && /fetch|network/i.test(error.message))) {
      throw new Refused("The identity provider did not answer.");
    }
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
