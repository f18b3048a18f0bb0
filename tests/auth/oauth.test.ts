/** A client asks in a browser: the page, the code, the tokens, and how each of them ends. */
import { createHash } from "node:crypto";
import { decodeJwt } from "jose";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { aBrowser } from "../harness/browser.ts";
import { type Answer, anApp, bearer, type Call, caller, must, together } from "../harness/index.ts";
import { ISSUER, newRoot, newSigningKey, type Own, ownSystem } from "../harness/own.ts";

const VERIFIER = "a".repeat(43);
const CHALLENGE = createHash("sha256").update(VERIFIER).digest("base64url");
const REDIRECT = "http://127.0.0.1/callback";

let own: Own;
let base: string;
let nobody: Call;
const root = newRoot();
beforeAll(async () => {
  own = await ownSystem();
  base = await own.start([await newSigningKey("one")], [root]);
  nobody = caller({}, base);
});
afterAll(() => own.close());

/** A browser's request: what it is given by its session's cookie, and where it would be led. */
type Page = { status: number; text: string; location: string | null; headers: Headers };
type Browser = (path: string, form?: Record<string, string>, headers?: Record<string, string>) => Promise<Page>;

const browser =
  (cookie?: string): Browser =>
  async (path, form, headers = { "Sec-Fetch-Site": "same-origin" }) => {
    const response = await fetch(base + path, {
      redirect: "manual",
      headers: { ...(cookie && { Cookie: `__Host-agentry=${cookie}` }), ...headers },
      ...(form && { method: "POST", body: new URLSearchParams(form) }),
    });
    const { status, headers: answered } = response;
    return { status, text: await response.text(), location: answered.get("Location"), headers: answered };
  };

/** A client of a fresh app that lets clients ask, and a browser in which acme's owner is signed in. */
async function aStage(fields: object = {}) {
  const made = await anApp({ base, newApp: own.newApp });
  const { at, asDeveloper, acme, owners } = made;
  await must(asDeveloper("PATCH", at, { settings: { auth: { third_party_oauth: true } } }), 200);
  const body = { name: "<b>Planner</b>", redirect_uris: [REDIRECT], scopes: ["agents:*", "users:read"], ...fields };
  const client = await must(asDeveloper("POST", `${at}/oauth_clients`, body), 201);
  const signIn = async (user: string) => browser((await aBrowser(own.database.query, root, user)).cookie);
  const owner = owners[acme]!;
  const path = (more: Record<string, string | undefined> = {}) => {
    const all = {
      ...{ response_type: "code", client_id: client.client_id, redirect_uri: "http://127.0.0.1:4711/callback" },
      ...{ code_challenge: CHALLENGE, code_challenge_method: "S256", scope: "agents:read", state: "s t&te", ...more },
    };
    const said = Object.entries(all).filter((one): one is [string, string] => one[1] !== undefined);
    return `/oauth/authorize?${new URLSearchParams(said)}`;
  };
  return { ...made, client, owner, signIn, path, me: await signIn(owner) };
}
type Stage = Awaited<ReturnType<typeof aStage>>;

/** The form of a page, as a browser would send it. */
const formOf = ({ text }: Page) => ({
  action: text.match(/<form method="post" action="([^"]+)"/)![1]!.replaceAll("&amp;", "&"),
  fields: Object.fromEntries(
    [...text.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)"/g)].map(([, name, value]) => [name!, value!]),
  ),
});
const decide = async (me: Browser, path: string, decision: "approved" | "denied" = "approved") => {
  const { action, fields } = formOf(await me(path));
  return me(action, { ...fields, decision });
};
/** Where a page leads on by itself. */
const leadsTo = ({ text }: Page) => {
  const target = text.match(/http-equiv="refresh" content="0; url=([^"]+)"/)?.[1]?.replaceAll("&amp;", "&");
  return new URL(target ?? "about:nowhere");
};
const aCode = async (stage: Stage, more: Record<string, string | undefined> = {}) =>
  leadsTo(await decide(stage.me, stage.path(more))).searchParams.get("code")!;

const exchange = ({ client }: Pick<Stage, "client">, code: string, more: object = {}) =>
  nobody("POST", "/oauth/token", {
    ...{ grant_type: "authorization_code", client_id: client.client_id, code, code_verifier: VERIFIER },
    ...{ redirect_uri: "http://127.0.0.1:4711/callback", ...more },
  });
const renew = (refresh_token: string, more: object = {}) =>
  nobody("POST", "/oauth/token", { grant_type: "refresh_token", refresh_token, ...more });
const why = async (answer: Promise<Answer>) => {
  const { status, body } = await answer;
  expect(body.message).toBe(body.error_description);
  return [status, body.error];
};
const works = async (token: string) => (await caller(bearer(token), base)("GET", "/api/v1/agents")).status;

describe("the page that asks", () => {
  it("says who asks whom for what, in texts and no markup of others, without a script", async () => {
    const { me, path } = await aStage();
    const { status, text, headers } = await me(path());
    expect(status).toBe(200);
    expect(text).toContain("&lt;b&gt;Planner&lt;/b&gt;");
    expect(text).not.toContain("<b>");
    expect(text).not.toContain("<script");
    expect(text).toContain("See your agents");
    expect(text).not.toContain("See your users");
    expect(text).toContain("127.0.0.1:4711");
    expect(headers.get("Content-Security-Policy")).toContain("default-src 'none'");
    expect(headers.get("Content-Security-Policy")).toContain("frame-ancestors 'none'");
  });

  it("asks for all that the client may have where nothing is named", async () => {
    const { me, path } = await aStage();
    const { text } = await me(path({ scope: undefined }));
    for (const said of ["See your agents", "Make and change your agents", "See your users"])
      expect(text).toContain(said);
  });

  it("sends who isn't signed in, or no longer, to sign in and come back", async () => {
    const { app, me, path, owner, asDeveloper, at } = await aStage();
    const there = (page: Page) => {
      const url = new URL(page.location!, base);
      return [page.status, url.pathname, url.searchParams.get("return_to")];
    };
    const login = [302, `/login/${app}`, path()];
    expect(there(await browser()(path()))).toEqual(login);
    expect(there(await browser("ses_x.y")(path()))).toEqual(login);
    const elsewhere = await aStage();
    expect(there(await elsewhere.me(path()))).toEqual(login);
    await must(asDeveloper("DELETE", `${at}/users/${owner}/sessions`), 204);
    expect(there(await me(path()))).toEqual(login);
  });

  it("leads nobody anywhere for a client or an address that isn't known", async () => {
    const { me, path, at, asDeveloper, client } = await aStage();
    const [, , box, id] = client.client_id.split("_");
    const foreign = ["cli", (await aStage()).client.client_id.split("_")[1], box, id].join("_");
    const asked: Record<string, string | undefined>[] = [
      ...[undefined, "x", client.id, foreign].map((client_id) => ({ client_id })),
      ...[undefined, "https://evil.example/", "http://127.0.0.1/other", "http://localhost/callback"].map(
        (redirect_uri) => ({ redirect_uri }),
      ),
    ];
    for (const one of asked) {
      for (const visitor of [me, browser()]) {
        const { status, location, text } = await visitor(path(one));
        expect([one, status, location]).toEqual([one, 400, null]);
        expect(text).not.toContain("evil.example");
      }
    }
    await must(asDeveloper("DELETE", `${at}/oauth_clients/${client.id}`), 204);
    expect((await me(path())).status).toBe(400);
  });

  it.each([
    ["no code is asked for", { response_type: "token" }, "unsupported_response_type"],
    ["nothing is asked for", { response_type: undefined }, "invalid_request"],
    ["there is no challenge", { code_challenge: undefined }, "invalid_request"],
    ["the challenge is the verifier", { code_challenge_method: "plain" }, "invalid_request"],
    ["the challenge has no method", { code_challenge_method: undefined }, "invalid_request"],
    ["the challenge is no hash", { code_challenge: "short" }, "invalid_request"],
    ["a scope is unknown", { scope: "nonsense" }, "invalid_scope"],
    ["a scope is all of the person", { scope: "full_access" }, "invalid_scope"],
    ["a scope isn't the client's", { scope: "threads:read" }, "invalid_scope"],
  ])("tells the client, and asks nobody, where %s", async (_, more, error) => {
    const { me, path } = await aStage();
    for (const visitor of [me, browser()]) {
      const { status, location } = await visitor(path(more));
      const url = new URL(location!);
      expect([status, url.origin + url.pathname]).toEqual([302, "http://127.0.0.1:4711/callback"]);
      const { error_description, ...said } = Object.fromEntries(url.searchParams);
      expect(said).toEqual({ error, state: "s t&te", iss: ISSUER });
      expect(error_description).toBeTruthy();
    }
  });

  it("refuses a parameter that is said twice", async () => {
    const { me, path } = await aStage();
    const { status, location } = await me(`${path()}&redirect_uri=https%3A%2F%2Fevil.example`);
    expect([status, location]).toEqual([400, null]);
  });

  it("asks nobody for an app that lets no client ask", async () => {
    const { me, path, asDeveloper, at } = await aStage();
    await must(asDeveloper("PATCH", at, { settings: { auth: null } }), 200);
    expect(new URL((await me(path())).location!).searchParams.get("error")).toBe("unauthorized_client");
  });
});

describe("the decision", () => {
  it("leads back with a code, the state and who gave it, by a page: a form may lead nowhere else", async () => {
    const { me, path } = await aStage();
    const page = await decide(me, path());
    expect([page.status, page.location]).toEqual([200, null]);
    const { code, ...said } = Object.fromEntries(leadsTo(page).searchParams);
    expect(code).toMatch(/^oac_/);
    expect(said).toEqual({ state: "s t&te", iss: ISSUER });
    expect(page.text).toContain(`<a href="${leadsTo(page).href.replaceAll("&", "&amp;")}">`);
  });

  it("leads back without a code where it is no", async () => {
    const { me, path } = await aStage();
    const { error_description: _, ...said } = Object.fromEntries(
      leadsTo(await decide(me, path(), "denied")).searchParams,
    );
    expect(said).toEqual({ error: "access_denied", state: "s t&te", iss: ISSUER });
  });

  it("counts only from our own page, in the same sign-in: from elsewhere it is a 403", async () => {
    const stage = await aStage();
    const { me, path, signIn, owner } = stage;
    const { action, fields } = formOf(await me(path()));
    const sent = { ...fields, decision: "approved" };
    for (const from of ["cross-site", "same-site", "none"]) {
      expect([from, (await me(action, sent, { "Sec-Fetch-Site": from })).status]).toEqual([from, 403]);
    }
    expect((await me(action, sent, { Origin: "https://evil.example" })).status).toBe(403);
    expect((await me(action, sent, {})).status).toBe(403);
    expect((await me(action, { decision: "approved" })).status).toBe(403);
    const again = await signIn(owner);
    expect((await again(action, sent)).status).toBe(403);
    expect((await browser()(action, sent)).location).toMatch(/^\/login\//);
    expect(leadsTo(await me(action, sent)).searchParams.get("code")).toBeTruthy();
  });

  it("is looked at again: neither client nor address nor scope can be changed on the way", async () => {
    const { me, path } = await aStage();
    const { fields } = formOf(await me(path()));
    const sent = { ...fields, decision: "approved" };
    expect((await me(path({ redirect_uri: "https://evil.example/" }), sent)).status).toBe(400);
    expect(leadsTo(await me(path({ scope: "threads:read" }), sent)).searchParams.get("error")).toBe("invalid_scope");
  });
});

describe("a code at POST /oauth/token", () => {
  it("signs the person in, with what was granted and no more", async () => {
    const stage = await aStage();
    const { headers, body } = await exchange(stage, await aCode(stage));
    expect(headers.get("Cache-Control")).toBe("no-store");
    expect(body).toMatchObject({ token_type: "Bearer", expires_in: 3600, scope: "agents:read" });
    expect(body.user.id).toBe(stage.owner);
    expect(decodeJwt(body.access_token)).toMatchObject({ sub: stage.owner, scope: "agents:read", aud: stage.app });
    const as = caller(bearer(body.access_token), base);
    expect((await as("GET", "/api/v1/agents")).status).toBe(200);
    expect((await as("POST", "/api/v1/agents", { name: "A" })).status).toBe(403);
    expect((await as("GET", "/api/v1/users/me/sessions")).status).toBe(403);
  });

  it("takes a form, as the standard has it", async () => {
    const stage = await aStage();
    const body = new URLSearchParams({
      ...{ grant_type: "authorization_code", client_id: stage.client.client_id, code: await aCode(stage) },
      ...{ code_verifier: VERIFIER, redirect_uri: "http://127.0.0.1:4711/callback" },
    }).toString();
    const form = { "Content-Type": "application/x-www-form-urlencoded" };
    await must(nobody("POST", "/oauth/token", body, form), 200);
  });

  it("is worth nothing with anything else than it was made for, and is not used up by it", async () => {
    const stage = await aStage();
    const other = await must(
      stage.asDeveloper("POST", `${stage.at}/oauth_clients`, {
        ...{ name: "Other", redirect_uris: [REDIRECT], scopes: ["agents:*"] },
      }),
      201,
    );
    const code = await aCode(stage);
    const wrong: object[] = [
      { code_verifier: "b".repeat(43) },
      { code_verifier: CHALLENGE },
      { code_verifier: `${VERIFIER} ` },
      { redirect_uri: REDIRECT },
      { redirect_uri: "http://127.0.0.1:4712/callback" },
      { client_id: other.client_id },
      { client_id: "x" },
      { code: `${code.slice(0, -1)}${code.endsWith("A") ? "B" : "A"}` },
      { code: code.replace(/^oac/, "whk") },
    ];
    for (const more of wrong)
      expect([more, ...(await why(exchange(stage, code, more)))]).toEqual([more, 400, "invalid_grant"]);
    for (const name of ["code_verifier", "redirect_uri", "client_id", "code"]) {
      expect(await why(exchange(stage, code, { [name]: undefined }))).toEqual([400, "invalid_request"]);
    }
    await must(exchange(stage, code), 200);
  });

  it("gives tokens once; when it comes again, what it gave ends, and nothing else", async () => {
    const stage = await aStage();
    const code = await aCode(stage);
    const other = await must(exchange(stage, await aCode(stage)), 200);
    const given = await must(exchange(stage, code), 200);
    const stranger = await exchange(stage, code, { code_verifier: "b".repeat(43) });
    expect([stranger.status, await works(given.access_token)]).toEqual([400, 200]);
    expect(await why(exchange(stage, code))).toEqual([400, "invalid_grant"]);
    expect(await works(given.access_token)).toBe(401);
    expect(await why(renew(given.refresh_token))).toEqual([400, "invalid_grant"]);
    expect(await works(other.access_token)).toBe(200);
    const { data } = (await stage.as(stage.acme)("GET", "/api/v1/activity_feed")).body;
    const told = data.filter(({ kind }: any) => kind === "token.reuse_detected");
    expect(told.map(({ title }: any) => title)).toEqual(["An authorization code came again: the sign-in was ended"]);
  });

  it("gives tokens to one of 50 that come at once", async () => {
    const stage = await aStage();
    const code = await aCode(stage);
    const answers = await together(50, () => exchange(stage, code));
    expect(answers.filter(({ status }) => status === 200).length).toBe(1);
  });

  it("works for 60 seconds", async () => {
    const stage = await aStage();
    const code = await aCode(stage);
    await own.database.query(
      "update data.one_time_secrets set expires_at = expires_at - interval '61 seconds' where app_id = $1",
      [stage.app],
    );
    expect(await why(exchange(stage, code))).toEqual([400, "invalid_grant"]);
  });

  it("gives nothing for a person or a client that is gone, or an org that is suspended", async () => {
    const ends: [string, (stage: Stage) => Promise<Answer>][] = [
      ["client", ({ asDeveloper, at, client }) => asDeveloper("DELETE", `${at}/oauth_clients/${client.id}`)],
      ["org", ({ asDeveloper, at, acme }) => asDeveloper("PATCH", `${at}/orgs/${acme}`, { status: "suspended" })],
      ["gone org", ({ asDeveloper, at, acme }) => asDeveloper("DELETE", `${at}/orgs/${acme}`)],
    ];
    for (const [name, end] of ends) {
      const stage = await aStage();
      const code = await aCode(stage);
      expect((await end(stage)).status).toBeLessThan(300);
      expect([name, ...(await why(exchange(stage, code)))]).toEqual([name, 400, "invalid_grant"]);
    }
    const stage = await aStage();
    const code = await aCode(stage);
    await own.database.query("update data.users set deactivated_at = now() where id = $1", [stage.owner]);
    expect(await why(exchange(stage, code))).toEqual([400, "invalid_grant"]);
  });
});

describe("what a client was given", () => {
  const given = async (fields: object = {}) => {
    const stage = await aStage(fields);
    return { stage, tokens: await must(exchange(stage, await aCode(stage)), 200) };
  };

  it("is renewed, for the same client alone", async () => {
    const { stage, tokens } = await given();
    const other = await aStage();
    expect(await why(renew(tokens.refresh_token, { client_id: other.client.client_id }))).toEqual([
      400,
      "invalid_grant",
    ]);
    const next = await must(renew(tokens.refresh_token, { client_id: stage.client.client_id }), 200);
    expect([next.scope, next.refresh_token === tokens.refresh_token]).toEqual(["agents:read", false]);
    expect(await works(next.access_token)).toBe(200);
    await must(renew(next.refresh_token), 200);
    expect(await why(renew(tokens.refresh_token))).toEqual([400, "invalid_grant"]);
    expect(await works(next.access_token)).toBe(401);
  });

  it("is nothing that another sign-in's refresh token gives", async () => {
    const stage = await aStage();
    const { refresh_token } = await stage.aToken(stage.owner);
    expect(await why(renew(refresh_token))).toEqual([400, "invalid_grant"]);
    await must(nobody("POST", "/api/v1/auth/refresh", { refresh_token }), 200);
  });

  it.each(["access_token", "refresh_token"])("ends whole when its %s is revoked, at once", async (name) => {
    const { stage, tokens } = await given();
    const revoke = (token: string, more: object = {}) => nobody("POST", "/oauth/revoke", { token, ...more });
    expect((await revoke(tokens[name], { client_id: (await aStage()).client.client_id })).status).toBe(200);
    expect(await works(tokens.access_token)).toBe(200);
    expect((await revoke(tokens[name], { client_id: stage.client.client_id })).text).toBe("{}");
    expect(await works(tokens.access_token)).toBe(401);
    expect(await why(renew(tokens.refresh_token))).toEqual([400, "invalid_grant"]);
    // Over, malformed, and nobody's are one answer.
    for (const token of [tokens[name], "rt_x", "x.y.z", ""]) {
      expect([token, (await revoke(token)).status]).toEqual([token, 200]);
    }
  });

  it("leaves a sign-in alone that is no client's, whose token is sent to be revoked", async () => {
    const stage = await aStage();
    const { access_token, refresh_token } = await stage.aToken(stage.owner);
    for (const token of [access_token, refresh_token]) {
      expect((await nobody("POST", "/oauth/revoke", { token })).status).toBe(200);
    }
    expect(await works(access_token)).toBe(200);
  });

  it("ends with the client, on the next request", async () => {
    const { stage, tokens } = await given();
    await must(stage.asDeveloper("DELETE", `${stage.at}/oauth_clients/${stage.client.id}`), 204);
    expect(await works(tokens.access_token)).toBe(401);
    expect(await why(renew(tokens.refresh_token))).toEqual([400, "invalid_grant"]);
    expect((await nobody("POST", "/api/v1/auth/refresh", { refresh_token: tokens.refresh_token })).status).toBe(401);
  });

  it("stands among the person's sign-ins, who can end it", async () => {
    const { stage, tokens } = await given();
    const me = stage.as(stage.acme);
    const { data } = await must(me("GET", "/api/v1/users/me/sessions"), 200);
    const found = data.filter(({ method }: any) => method === "oauth");
    expect(found).toMatchObject([{ carrier: "api", current: false, auth_time: null }]);
    await must(me("DELETE", `/api/v1/users/me/sessions/${found[0].id}`), 204);
    expect(await works(tokens.access_token)).toBe(401);
  });
});

describe("the page for a device", () => {
  const start = async ({ client }: Stage) =>
    must(nobody("POST", "/oauth/device/authorize", { client_id: client.client_id }), 200);
  const poll = (device_code: string) =>
    nobody("POST", "/oauth/token", { grant_type: "urn:ietf:params:oauth:grant-type:device_code", device_code });
  const pathOf = (uri: string) => uri.slice(ISSUER.length);

  it("shows the client and what it asks for first, and signs the device in when the person lets it", async () => {
    const stage = await aStage();
    const device = await start(stage);
    const page = await stage.me(pathOf(device.verification_uri_complete));
    expect(page.text).toContain("&lt;b&gt;Planner&lt;/b&gt;");
    expect(page.text).toContain("Make and change your agents");
    expect(page.text).toContain(device.user_code);
    expect((await poll(device.device_code)).body.error).toBe("authorization_pending");
    const { action, fields } = formOf(page);
    expect((await stage.me(action, { ...fields, decision: "approved" })).status).toBe(200);
    expect((await must(poll(device.device_code), 200)).user.id).toBe(stage.owner);
    expect((await stage.me(action, { ...fields, decision: "denied" })).status).toBe(400);
  });

  it("asks for the code where none is named, and says where nothing waits under one", async () => {
    const { me } = await aStage();
    expect((await me("/device")).text).toContain('name="user_code"');
    expect((await me("/device?user_code=BBBB-BBBB")).status).toBe(400);
    expect((await me("/device?user_code=%00")).status).toBe(400);
  });

  it("sends who isn't signed in to the login page of the app, and back", async () => {
    const stage = await aStage();
    const { verification_uri_complete } = await start(stage);
    const { location } = await browser()(pathOf(verification_uri_complete));
    const url = new URL(location!, base);
    expect([url.pathname, url.searchParams.get("return_to")]).toEqual([
      `/login/${stage.app}`,
      pathOf(verification_uri_complete),
    ]);
    expect((await browser()("/device")).text).toContain("Open the whole address");
    const elsewhere = await aStage();
    expect((await elsewhere.me(pathOf(verification_uri_complete))).location).toMatch(`/login/${stage.app}`);
  });

  it("decides by our own form alone, for the code that was seen", async () => {
    const stage = await aStage();
    const [one, other] = [await start(stage), await start(stage)];
    const { action, fields } = formOf(await stage.me(pathOf(one.verification_uri_complete)));
    const sent = { ...fields, decision: "approved" };
    expect((await stage.me(action, { ...sent, user_code: other.user_code })).status).toBe(403);
    expect((await stage.me(action, sent, { "Sec-Fetch-Site": "cross-site" })).status).toBe(403);
    expect((await poll(other.device_code)).body.error).toBe("authorization_pending");
    expect((await poll(one.device_code)).body.error).toBe("authorization_pending");
  });
});

it("GET /.well-known/oauth-authorization-server names every address that there is, and what they take", async () => {
  const said = await must(nobody("GET", "/.well-known/oauth-authorization-server"), 200);
  expect(said).toMatchObject({
    ...{ issuer: ISSUER, response_types_supported: ["code"], code_challenge_methods_supported: ["S256"] },
    ...{ token_endpoint_auth_methods_supported: ["none"], authorization_response_iss_parameter_supported: true },
  });
  const { scopes } = await must(nobody("GET", "/oauth/scopes"), 200);
  expect(Object.keys(scopes).toSorted()).toEqual(said.scopes_supported.toSorted());
  for (const [name, address] of Object.entries<string>(said)) {
    if (!/_endpoint$|_uri$/.test(name)) continue;
    const { status } = await fetch(base + address.slice(ISSUER.length), { redirect: "manual" });
    expect([name, status]).not.toEqual([name, 404]);
  }
});

it.each([
  ["no grant", {}, "invalid_request"],
  ["a grant that isn't given", { grant_type: "client_credentials" }, "unsupported_grant_type"],
  ["a grant by the name of a method", { grant_type: "constructor" }, "unsupported_grant_type"],
  ["no refresh token", { grant_type: "refresh_token" }, "invalid_request"],
  ["a list", "[]", "invalid_request"],
  ["no JSON", "{", "invalid_request"],
  ["a text of another kind", { grant_type: 1 }, "invalid_request"],
])("POST /oauth/token with %s is refused in OAuth's words", async (_, body, error) => {
  expect(await why(nobody("POST", "/oauth/token", body))).toEqual([400, error]);
});
