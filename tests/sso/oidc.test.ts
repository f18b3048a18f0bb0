/** OpenID Connect through the front door: a real provider, and one whose every answer can be forged. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from "jose";
// @ts-expect-error It brings no types.
import Provider from "oidc-provider";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type App, anApp, must, unique } from "../harness/index.ts";
import { newRoot, newSigningKey, type Own, ownSystem } from "../harness/own.ts";

const FORGED = "https://forged.example";
const REAL = "https://real.example";
const CLIENT = { client_id: "agentry", client_secret: "a-secret-of-the-client" };

let own: Own;
let base: string;
let app: App;
let keys: Awaited<ReturnType<typeof generateKeyPair>>;
let real: string;
const servers: { close(): unknown }[] = [];

/** What the forged provider says next. */
type Forgery = {
  claims?: (good: JWTPayload) => JWTPayload;
  sign?: (claims: JWTPayload) => Promise<string>;
  token?: (body: Record<string, unknown>) => Response;
  discovery?: (body: Record<string, unknown>) => Response;
};
let forgery: Forgery = {};
let nonce = "";
let asked: URLSearchParams;

const goodClaims = () => {
  const now = Math.floor(Date.now() / 1000);
  return {
    iss: FORGED,
    sub: "ada",
    aud: CLIENT.client_id,
    iat: now,
    exp: now + 300,
    nonce,
    email: "ada@domain",
    name: "Ada",
  };
};
const signed = (claims: JWTPayload) =>
  new SignJWT(claims).setProtectedHeader({ alg: "RS256", kid: "one" }).sign(keys.privateKey);

async function forgedProvider(request: Request): Promise<Response> {
  const { pathname } = new URL(request.url);
  if (pathname === "/.well-known/openid-configuration") {
    const body = {
      ...{
        issuer: FORGED,
        authorization_endpoint: `${FORGED}/auth`,
        token_endpoint: `${FORGED}/token`,
        jwks_uri: `${FORGED}/jwks`,
      },
      authorization_response_iss_parameter_supported: true,
    };
    return forgery.discovery?.(body) ?? Response.json(body);
  }
  if (pathname === "/jwks")
    return Response.json({ keys: [{ ...(await exportJWK(keys.publicKey)), kid: "one", alg: "RS256" }] });
  asked = new URLSearchParams(await request.text());
  const claims = forgery.claims?.(goodClaims()) ?? goodClaims();
  const id_token = await (forgery.sign ?? signed)(claims);
  const body = { access_token: "x", token_type: "Bearer", expires_in: 60, id_token };
  return forgery.token?.(body) ?? Response.json(body);
}

/** A real provider on this machine, which everybody knows by a public name; who asks to sign in is Ada. */
async function realProvider(redirect: () => string, email: () => string): Promise<string> {
  const server = createServer((request, response) => void handle(request, response));
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  servers.push(server);
  const at = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  let provider: any = null;
  const handle = async (request: any, response: any) => {
    provider ??= new Provider(REAL, {
      clients: [
        { ...CLIENT, redirect_uris: [redirect()], grant_types: ["authorization_code"], response_types: ["code"] },
      ],
      pkce: { required: () => true },
      conformIdTokenClaims: false,
      claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"] },
      features: { devInteractions: { enabled: false } },
      interactions: { url: () => "/interaction" },
      findAccount: (_: unknown, accountId: string) => ({
        accountId,
        claims: () => ({ sub: accountId, email: email(), email_verified: true, name: "Ada" }),
      }),
      loadExistingGrant: async (context: any) => {
        const grant = new context.oidc.provider.Grant({
          clientId: CLIENT.client_id,
          accountId: context.oidc.session.accountId,
        });
        grant.addOIDCScope("openid email profile");
        await grant.save();
        return grant;
      },
    } as never);
    provider.proxy = true;
    request.headers["x-forwarded-proto"] = "https";
    request.headers["x-forwarded-host"] = "real.example";
    if (request.url.startsWith("/interaction")) {
      return provider.interactionFinished(request, response, { login: { accountId: "ada" } });
    }
    return provider.callback()(request, response);
  };
  return at;
}

let org: { id: string; domain: string; config: any };
beforeAll(async () => {
  keys = await generateKeyPair("RS256");
  own = await ownSystem();
  const outbound = async (request: Request) => {
    const { origin, pathname, search } = new URL(request.url);
    if (origin === FORGED) return forgedProvider(request);
    if (origin !== REAL) return new Response(null, { status: 502 });
    const body = request.method === "GET" ? {} : { body: await request.text() };
    const headers = Object.fromEntries(request.headers as never);
    return fetch(real + pathname + search, { method: request.method, headers, ...body } as RequestInit);
  };
  base = await own.start([await newSigningKey("one")], [newRoot()], { outbound: outbound as never });
  app = await anApp({ base, newApp: own.newApp });
  org = await anOrg(FORGED);
  real = await realProvider(
    () => org.config.redirect_uri,
    () => `ada@${org.domain}`,
  );
}, 180_000);
afterAll(async () => {
  for (const server of servers) server.close();
  await own.close();
});

async function anOrg(issuer_url: string) {
  const { id, domain } = await app.anOrg();
  const config = { provider: "oidc", issuer_url, ...CLIENT, auto_provision: true };
  return { id, domain, config: await must(app.asDeveloper("PUT", `${app.at}/orgs/${id}/sso`, config), 200) };
}

const cookiesOf = (response: Response) =>
  response.headers
    .getSetCookie()
    .map((line) => line.split(";")[0]!)
    .filter((line) => !line.endsWith("="));
const ask = (url: string, cookies: string[] = []) =>
  fetch(url.replace("http://agentry.test", base), { redirect: "manual", headers: { Cookie: cookies.join("; ") } });
const messageOf = async () =>
  (await must(app.asDeveloper("GET", `${app.at}/orgs/${org.id}/sso/attempts`), 200)).data[0].message as string;

/** A login at the forged provider; `back` changes the address that it sends the browser back to. */
async function login(next: Forgery = {}, back = (url: URL) => url, claims: JWTPayload = {}) {
  forgery = {
    ...next,
    claims: (good) =>
      (next.claims ?? ((same) => same))({
        ...good,
        sub: unique("ada"),
        email: `${unique("ada")}@${org.domain}`,
        ...claims,
      }),
  };
  const started = await ask(org.config.start_url);
  const location = new URL(started.headers.get("Location") ?? "http://none");
  nonce = location.searchParams.get("nonce") ?? "";
  const url = new URL(org.config.redirect_uri);
  for (const [name, value] of [
    ["code", "c"],
    ["state", location.searchParams.get("state") ?? ""],
    ["iss", FORGED],
  ])
    url.searchParams.set(name!, value!);
  const taken = await ask(back(url).href, cookiesOf(started));
  if (taken.status !== 303) return { status: taken.status, started };
  const finished = await ask(org.config.redirect_uri.replace(/callback$/, "finish"), cookiesOf(started));
  return { status: finished.status, started, cookies: cookiesOf(finished) };
}

const set = (name: string, value: string) => (url: URL) => {
  url.searchParams.set(name, value);
  return url;
};
const add = (name: string, value: string) => (url: URL) => {
  url.searchParams.append(name, value);
  return url;
};
const drop = (name: string) => (url: URL) => {
  url.searchParams.delete(name);
  return url;
};
const base64url = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");

describe("a login by OpenID Connect", () => {
  it("asks with PKCE, state and nonce, and proves the client by its secret", async () => {
    const { status, started, cookies } = await login();
    expect(status).toBe(303);
    const query = new URL(started.headers.get("Location")!).searchParams;
    expect(Object.fromEntries(query)).toMatchObject({
      client_id: "agentry",
      response_type: "code",
      code_challenge_method: "S256",
    });
    expect(asked.get("code_verifier")).toMatch(/^[\w-]{43,}$/);
    const me = await fetch(`${base}/api/v1/users/me`, {
      headers: { Cookie: cookies!.join("; "), "Sec-Fetch-Site": "same-origin" },
    });
    expect(me.status).toBe(200);
  });

  it.each([
    ["for another client", { claims: (good) => ({ ...good, aud: "other" }) }, "does not hold"],
    ["of another issuer", { claims: (good) => ({ ...good, iss: "https://other.example" }) }, "does not hold"],
    ["with another nonce", { claims: (good) => ({ ...good, nonce: "other" }) }, "does not hold"],
    ["without a nonce", { claims: ({ nonce: _, ...good }) => good }, "does not hold"],
    ["that has expired", { claims: (good) => ({ ...good, exp: 1 }) }, "does not hold"],
    ["authorized for another client", { claims: (good) => ({ ...good, azp: "other" }) }, "another client's"],
    [
      "that nobody signed",
      { sign: async (claims) => `${base64url({ alg: "none" })}.${base64url(claims)}.` },
      "does not hold",
    ],
    [
      "by another key",
      {
        sign: async (claims) =>
          new SignJWT(claims)
            .setProtectedHeader({ alg: "RS256", kid: "one" })
            .sign((await generateKeyPair("RS256")).privateKey),
      },
      "does not hold",
    ],
    [
      "signed by the client's secret",
      {
        sign: (claims) =>
          new SignJWT(claims).setProtectedHeader({ alg: "HS256" }).sign(new TextEncoder().encode(CLIENT.client_secret)),
      },
      "does not hold",
    ],
  ] satisfies [string, Forgery, string][])("refuses an ID token %s", async (_, next: Forgery, sentence) => {
    expect((await login(next)).status).toBe(400);
    expect(await messageOf()).toContain(sentence);
  });

  it.each([
    ["no ID token", { token: ({ id_token: _, ...body }) => Response.json(body) }, "does not hold"],
    ["an error", { token: () => Response.json({ error: "invalid_grant" }, { status: 400 }) }, "answered invalid_grant"],
    [
      "a redirect",
      { token: () => new Response(null, { status: 302, headers: { Location: "https://other.example" } }) },
      "does not hold",
    ],
    [
      "more than 512 KiB",
      { token: (body) => Response.json({ ...body, more: "x".repeat(600_000) }) },
      "more than 512 KiB",
    ],
    [
      "a discovery document of another issuer",
      { discovery: (body) => Response.json({ ...body, issuer: "https://other.example" }) },
      "",
    ],
  ] satisfies [string, Forgery, string][])(
    "is refused where the provider answers %s",
    async (_, next: Forgery, sentence) => {
      const { status } = await login(next);
      expect(status).toBe(400);
      if (sentence) expect(await messageOf()).toContain(sentence);
    },
  );

  it.each([
    ["another's issuer, by mix-up (RFC 9207)", set("iss", "https://other.example")],
    ["no issuer, though the provider says that it names it", drop("iss")],
    ["another state", set("state", "_other")],
    ["a parameter twice", add("code", "d")],
    ["an error", (url: URL) => set("error", "access_denied")(drop("code")(url))],
  ])("is refused where the browser comes back with %s", async (_, back) => {
    expect((await login({}, back)).status).toBe(400);
  });

  it("never links by an address that the provider has not verified", async () => {
    expect((await login({}, undefined, { email_verified: false })).status).toBe(400);
    expect(await messageOf()).toContain("not verified");
  });

  it("of one org is none at another", async () => {
    const other = await anOrg(FORGED);
    const back = (url: URL) => new URL(url.href.replace(org.id, other.id));
    expect((await login({}, back)).status).toBe(400);
  });

  it("is refused by its guard, where the provider stands inside", async () => {
    const { config } = await anOrg("https://127.0.0.1/op");
    expect((await ask(config.start_url)).status).toBe(400);
  });

  it("works with oidc-provider", async () => {
    await must(
      app.asDeveloper("PUT", `${app.at}/orgs/${org.id}/sso`, {
        provider: "oidc",
        issuer_url: REAL,
        ...CLIENT,
        auto_provision: true,
        jit_provisioning: true,
      }),
      200,
    );
    const started = await ask(org.config.start_url);
    let location = started.headers.get("Location")!;
    let cookies: string[] = [];
    for (let steps = 0; location && !location.startsWith(org.config.redirect_uri) && steps < 5; steps++) {
      const url = new URL(location, REAL);
      const response = await fetch(real + url.pathname + url.search, {
        redirect: "manual",
        headers: { Cookie: cookies.join("; ") },
      });
      cookies = [...cookies, ...cookiesOf(response)];
      location = response.headers.get("Location") ?? "";
    }
    const taken = await ask(location, cookiesOf(started));
    expect([taken.status, await messageOf()]).toEqual([303, "Signed in."]);
    const finished = await ask(org.config.redirect_uri.replace(/callback$/, "finish"), cookiesOf(started));
    expect(finished.status).toBe(303);
  });
});
