/** OpenID Connect through the front door: a real provider, and one whose every answer can be forged. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from "jose";
// @ts-expect-error It brings no types.
import Provider from "oidc-provider";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type App, anApp, must, unique } from "../harness/index.ts";
import { newRoot, newSigningKey, type Own, ownSystem } from "../harness/own.ts";
import { aBrowser, form, me, signOut } from "./stage.ts";

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
async function realProvider(config: () => any, email: () => string): Promise<string> {
  const server = createServer((request, response) => void handle(request, response));
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  servers.push(server);
  const at = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  let provider: any = null;
  const handle = async (request: any, response: any) => {
    provider ??= new Provider(REAL, {
      clients: [
        {
          ...{ ...CLIENT, grant_types: ["authorization_code"], response_types: ["code"] },
          redirect_uris: [config().redirect_uri],
          post_logout_redirect_uris: [config().post_logout_redirect_uri],
          backchannel_logout_uri: config().backchannel_logout_url,
          backchannel_logout_session_required: true,
        },
      ],
      // It reaches us by the name that we have, past its own guard.
      fetch: (url: string, { method, headers, body }: RequestInit) =>
        fetch(url.replace("http://agentry.test", base), { method, headers, body } as RequestInit),
      pkce: { required: () => true },
      conformIdTokenClaims: false,
      claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"] },
      features: { devInteractions: { enabled: false }, backchannelLogout: { enabled: true } },
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
    () => org.config,
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
});

/** A browser that has signed in at the real provider, the cookies that it has there, and where it stands here. */
async function atRealProvider() {
  const config = { provider: "oidc", issuer_url: REAL, ...CLIENT, auto_provision: true, jit_provisioning: true };
  await must(app.asDeveloper("PUT", `${app.at}/orgs/${org.id}/sso`, config), 200);
  const browser = aBrowser(base);
  const there = aBrowser(real);
  const started = await browser.ask(org.config.start_url);
  let location = started.headers.get("Location")!;
  for (let steps = 0; location && !location.startsWith(org.config.redirect_uri) && steps < 5; steps++) {
    location = (await there.ask(location.replace(REAL, real))).headers.get("Location") ?? "";
  }
  const taken = await browser.ask(location);
  expect([taken.status, await messageOf()]).toEqual([303, "Signed in."]);
  const finished = await browser.ask(org.config.redirect_uri.replace(/callback$/, "finish"));
  return { browser, there, home: finished.headers.get("Location")! };
}
type There = Awaited<ReturnType<typeof atRealProvider>>["there"];

/** Says yes on the provider's own page that asks whether to sign out. */
async function confirmLogout({ ask }: There, url: string) {
  const page = await (await ask(url.replace(REAL, real))).text();
  const [, action = ""] = /action="([^"]*)"/.exec(page) ?? [];
  const [, xsrf = ""] = /name="xsrf" value="([^"]*)"/.exec(page) ?? [];
  return ask(action.replace(REAL, real), form({ xsrf, logout: "yes" }));
}

describe("with oidc-provider", () => {
  it("somebody signs in, and out: ended here first, then there, and back to the org's own page", async () => {
    const { browser, there, home } = await atRealProvider();
    expect((await me(browser)).status).toBe(200);
    const kept = new Map(browser.cookies);
    const left = await (await signOut(browser, home)).text();
    for (const [name, value] of kept) browser.cookies.set(name, value);
    expect((await me(browser)).status).toBe(401);
    const [, leadsTo = ""] = /<a href="([^"]*)"/.exec(left) ?? [];
    const confirmed = await confirmLogout(there, leadsTo.replaceAll("&amp;", "&"));
    expect(confirmed.headers.get("Location")).toBe(org.config.post_logout_redirect_uri);
    const back = await browser.ask(org.config.post_logout_redirect_uri);
    expect([back.status, back.headers.get("Location")]).toEqual([303, home]);
  });

  it("somebody who signs out there is out here on the next request, and nobody else is", async () => {
    const [ada, again] = [await atRealProvider(), await atRealProvider()];
    expect((await me(ada.browser)).status).toBe(200);
    await confirmLogout(ada.there, `${real}/session/end`);
    expect([(await me(ada.browser)).status, (await me(again.browser)).status]).toEqual([401, 200]);
  });
});

describe("a logout token", () => {
  const LOGOUT = { "http://schemas.openid.net/event/backchannel-logout": {} };
  const told = (claims: JWTPayload = {}) => ({
    ...{ iss: FORGED, aud: CLIENT.client_id, iat: Math.floor(Date.now() / 1000), jti: unique("jti"), events: LOGOUT },
    ...claims,
  });
  const tell = async (logout_token: string, url = org.config.backchannel_logout_url) => {
    const response = await aBrowser(base).ask(url, form({ logout_token }));
    return { status: response.status, cached: response.headers.get("Cache-Control"), text: await response.text() };
  };
  /** Somebody who has signed in at the forged provider. */
  const signedIn = async (claims: JWTPayload) => {
    const browser = aBrowser(base);
    const { cookies } = await login({}, undefined, claims);
    for (const cookie of cookies!) browser.cookies.set(...(cookie.split(/=(.*)/s).slice(0, 2) as [string, string]));
    expect((await me(browser)).status).toBe(200);
    return browser;
  };
  beforeAll(async () => {
    forgery = {};
    const config = { provider: "oidc", issuer_url: FORGED, ...CLIENT, auto_provision: true };
    await must(app.asDeveloper("PUT", `${app.at}/orgs/${org.id}/sso`, config), 200);
  });

  it("that names a session ends it alone; one that names a person, all of theirs; of others none", async () => {
    const sub = unique("ada");
    const email = `${sub}@${org.domain}`;
    const one = await signedIn({ sub, email, sid: "one" });
    const two = await signedIn({ sub, email, sid: "two" });
    const other = await signedIn({ sid: "three" });
    const statuses = async () => Promise.all([one, two, other].map(async (browser) => (await me(browser)).status));
    expect(await tell(await signed(told({ sid: "one" })))).toEqual({ status: 200, cached: "no-store", text: "" });
    expect(await statuses()).toEqual([401, 200, 200]);
    expect((await tell(await signed(told({ sub, sid: "none of theirs" })))).status).toBe(200);
    expect(await statuses()).toEqual([401, 200, 200]);
    expect((await tell(await signed(told({ sub })))).status).toBe(200);
    expect(await statuses()).toEqual([401, 401, 200]);
  });

  it("is taken once", async () => {
    const sub = unique("ada");
    const token = await signed(told({ sub }));
    expect((await tell(token)).status).toBe(200);
    const browser = await signedIn({ sub, email: `${sub}@${org.domain}` });
    expect((await tell(token)).status).toBe(400);
    expect((await me(browser)).status).toBe(200);
  });

  it("of one org ends nothing at another", async () => {
    const sub = unique("ada");
    const browser = await signedIn({ sub, email: `${sub}@${org.domain}` });
    const other = await anOrg(FORGED);
    expect((await tell(await signed(told({ sub })), other.config.backchannel_logout_url)).status).toBe(200);
    expect((await me(browser)).status).toBe(200);
  });

  const by = async (claims: JWTPayload, key: CryptoKey | Uint8Array, alg: string) =>
    new SignJWT(claims).setProtectedHeader({ alg, kid: "one" }).sign(key);
  const secret = new TextEncoder().encode(CLIENT.client_secret);
  it.each([
    ["by another key", async (claims) => by(claims, (await generateKeyPair("RS256")).privateKey, "RS256")],
    ["by the client's secret", (claims) => by(claims, secret, "HS256")],
    ["that nobody signed", async (claims) => `${base64url({ alg: "none" })}.${base64url(claims)}.`],
    ["that is none", async () => "x"],
    ["of another issuer", (claims) => signed({ ...claims, iss: "https://other.example" })],
    ["for another client", (claims) => signed({ ...claims, aud: "other" })],
    ["of long ago", (claims) => signed({ ...claims, iat: claims.iat! - 400 })],
    ["of some day", (claims) => signed({ ...claims, iat: claims.iat! + 400 })],
    ["without a time", ({ iat: _, ...claims }) => signed(claims)],
    ["that has expired", (claims) => signed({ ...claims, exp: claims.iat! - 100 })],
    ["without an id", ({ jti: _, ...claims }) => signed(claims)],
    ["that tells of nothing", ({ events: _, ...claims }) => signed(claims)],
    ["that tells of something else", (claims) => signed({ ...claims, events: { other: {} } })],
    ["with a nonce, as an ID token has", (claims) => signed({ ...claims, nonce: "n" })],
    ["that names nobody", ({ sub: _, ...claims }) => signed(claims)],
  ] satisfies [string, (claims: JWTPayload) => Promise<string>][])("is refused %s", async (_, make) => {
    const sub = unique("ada");
    const browser = await signedIn({ sub, email: `${sub}@${org.domain}` });
    const { status, text } = await tell(await make(told({ sub })));
    const { id, message } = (await must(app.asDeveloper("GET", `${app.at}/orgs/${org.id}/sso/attempts`), 200)).data[0];
    expect([status, JSON.parse(text).error, text.includes(id)]).toEqual([400, "invalid_request", true]);
    expect(message).toMatch(/logout token/);
    expect((await me(browser)).status).toBe(200);
  });

  it("is no way out where the provider knows none: the browser's own sign-in ends, and leads to the org's page", async () => {
    const browser = await signedIn({});
    const home = `/login/${app.app}/${(await own.database.query<{ slug: string }>(`select slug from data.orgs where id = '${org.id}'`))[0]!.slug}`;
    for (const discovery of [undefined, () => new Response(null, { status: 500 })]) {
      const one = discovery ? await signedIn({}) : browser;
      forgery = discovery ? { discovery } : {};
      const left = await signOut(one, home);
      expect([left.status, left.headers.get("Location")]).toEqual([303, home]);
      expect((await me(one)).status).toBe(401);
    }
  });
});
