import { decodeJwt } from "jose";
import { describe, expect, it } from "vitest";
import { newId } from "../../lib/ids.ts";
import { aBrowser, forged } from "../harness/browser.ts";
import { anApp, bearer, caller, must, sql, system, together } from "../harness/index.ts";

const ROOTS = system.secrets.ROOT_SECRETS;
const ME = "/api/v1/users/me";

/** A member of acme, and a browser that is signed in as that one. */
async function aMember() {
  const made = await anApp();
  const user = await made.aUser(made.acme, "member");
  const browser = await aBrowser(sql, ROOTS, user.id);
  const { Cookie } = browser.headers;
  return {
    ...made,
    user,
    browser,
    asBrowser: caller(browser.headers),
    sending: (more: object) => caller({ Cookie, ...more }),
  };
}

describe("a browser's session", () => {
  it("is its user: it reads and writes what a full-access token of that role does", async () => {
    const { asBrowser, user, acme } = await aMember();
    expect(await must(asBrowser("GET", ME), 200)).toMatchObject({ id: user.id, org: acme, org_role: "member" });
    const { id } = await must(asBrowser("POST", "/api/v1/agents", { name: "Ada" }), 200);
    expect((await must(asBrowser("GET", `/api/v1/agents/${id}`), 200)).id).toBe(id);
    await must(asBrowser("PUT", "/api/v1/users/me/profile", { alias: "ada" }), 200);
  });

  it.each([
    ["another site", { "Sec-Fetch-Site": "cross-site" }],
    ["a sibling host", { "Sec-Fetch-Site": "same-site" }],
    ["the address bar", { "Sec-Fetch-Site": "none" }],
    ["another site's form in an old browser", { Origin: "https://evil.example" }],
    ["a page that hides its origin", { Origin: "null" }],
    ["nobody knows whom", {}],
    [
      "another site that names our origin, too",
      { "Sec-Fetch-Site": "cross-site", Origin: new URL(system.base).origin },
    ],
  ])("counts for nothing where %s has sent it: 403, and nothing happens", async (_, headers) => {
    const { sending, user } = await aMember();
    for (const [method, path, body] of [
      ["GET", ME],
      ["PUT", "/api/v1/users/me/profile", { alias: "x" }],
    ] as const) {
      const { status, body: answer } = await sending(headers)(method, path, body);
      expect([status, answer.error.code]).toEqual([403, "cross_origin"]);
    }
    expect(await sql("select alias from data.users where id = $1", [user.id])).toEqual([{ alias: null }]);
  });

  it("counts in a browser that says no more than an Origin, if that is ours", async () => {
    const { sending } = await aMember();
    await must(sending({ Origin: new URL(system.base).origin })("GET", ME), 200);
  });

  it("does not lend itself to a request that brings a credential of its own", async () => {
    const { browser, acme, globex, as, aUser, aToken } = await aMember();
    const other = await aUser(globex, "member");
    const { access_token } = await aToken(other.id);
    const both = caller({ ...browser.headers, ...bearer(access_token) });
    expect((await must(both("GET", ME), 200)).id).toBe(other.id);
    const { status } = await caller({ ...browser.headers, ...bearer("nonsense") })("GET", ME);
    expect([status, (await as(acme)("GET", ME)).status]).toEqual([401, 200]);
  });

  it.each([
    ["another user", 3, "usr"],
    ["another org", 2, "org"],
    ["another sign-in", 4, "saf"],
    ["a sandbox", 1, "dsb"],
  ])("can't be made to mean %s", async (_, part, kind) => {
    const { browser, owners, acme, globex } = await aMember();
    const meant = { usr: owners[acme]!, org: globex, saf: newId("sign_in"), dsb: newId("sandbox") }[kind]!;
    const text = forged(browser.cookie, (parts) => parts.splice(part, 1, meant));
    const { status } = await caller({ ...browser.headers, Cookie: `__Host-agentry=${text}` })("GET", ME);
    expect(status).toBe(401);
  });

  it("is no refresh token, and a program's sign-in is no browser's", async () => {
    const { browser, user, aToken } = await aMember();
    expect((await caller()("POST", "/api/v1/auth/refresh", { refresh_token: browser.cookie })).status).toBe(401);
    await aToken(user.id);
    await sql("update data.token_families set carrier = 'api', token_id = $2 where id = $1", [
      browser.sign_in,
      newId("token"),
    ]);
    expect((await caller(browser.headers)("GET", ME)).status).toBe(401);
  });

  it.each([
    ["idle end", "update data.token_families set expires_at = now() where id = $1", 401],
    ["revocation", "update data.token_families set revoked_at = now() where id = $1", 401],
    ["user's end", "update data.users set ended_at = now() where id = $2 and $1 <> ''", 401],
    ["user's deactivation", "update data.users set deactivated_at = now() where id = $2 and $1 <> ''", 401],
    ["org's suspension", "update data.orgs set status = 'suspended' where id = $3 and $1 || $2 <> ''", 403],
  ])("ends with its %s, on the next request", async (_, change, status) => {
    const { browser, asBrowser, user, acme } = await aMember();
    await must(asBrowser("GET", ME), 200);
    const params = [browser.sign_in, user.id, acme].slice(
      0,
      Math.max(...[...change.matchAll(/\$(\d)/g)].map(([, n]) => Number(n))),
    );
    await sql(change, params);
    expect((await asBrowser("GET", ME)).status).toBe(status);
  });

  it("has the role of its user as it is at each request", async () => {
    const { asBrowser, asDeveloper, at, user } = await aMember();
    await must(asBrowser("POST", "/api/v1/agents", { name: "Ada" }), 200);
    await must(asDeveloper("PATCH", `${at}/users/${user.id}`, { role: "viewer" }), 200);
    expect((await asBrowser("POST", "/api/v1/agents", { name: "Ada" })).status).toBe(403);
  });

  it("is kept alive by its use, at most to its own end", async () => {
    const { browser, asBrowser } = await aMember();
    const left = async () => {
      const [row] = await sql(
        "select extract(epoch from expires_at - now())::int as s from data.token_families where id = $1",
        [browser.sign_in],
      );
      return row.s as number;
    };
    await sql("update data.token_families set expires_at = now() + interval '1 hour' where id = $1", [browser.sign_in]);
    await must(asBrowser("GET", ME), 200);
    await expect.poll(left).toBeGreaterThan(604_000);
    const soon =
      "update data.token_families set ends_at = now() + interval '2 hours', last_used_at = null where id = $1";
    await sql(soon, [browser.sign_in]);
    await must(asBrowser("GET", ME), 200);
    await expect.poll(left).toBeLessThan(7_201);
  });
});

describe("sign-ins", () => {
  it("are listed newest first, the one that asks as current, and none that is over", async () => {
    const { asBrowser, browser, user, aToken } = await aMember();
    const { access_token, id } = await aToken(user.id);
    const over = await aBrowser(sql, ROOTS, user.id);
    await sql("update data.token_families set revoked_at = now() where id = $1", [over.sign_in]);
    const { data } = await must(asBrowser("GET", "/api/v1/users/me/sessions"), 200);
    expect(data.map((one: any) => [one.method, one.carrier, one.current])).toEqual([
      ["token", "api", false],
      ["email_code", "browser", true],
    ]);
    expect([data[1].id, data[0].auth_time, data[1].auth_time === null]).toEqual([browser.sign_in, null, false]);
    const seen = await must(caller(bearer(access_token))("GET", "/api/v1/users/me/sessions"), 200);
    expect(seen.data.map((one: any) => one.current)).toEqual([true, false]);
    expect([decodeJwt(access_token).sid, id.slice(0, 4)]).toEqual([seen.data[0].id, "sat_"]);
  });

  it("are listed by pages", async () => {
    const { asBrowser, user, aToken } = await aMember();
    await aToken(user.id);
    const first = await must(asBrowser("GET", "/api/v1/users/me/sessions?limit=1"), 200);
    expect([first.data.length, first.has_more]).toEqual([1, true]);
    const rest = await must(
      asBrowser("GET", `/api/v1/users/me/sessions?limit=1&after_cursor=${first.after_cursor}`),
      200,
    );
    expect([rest.data[0].current, rest.has_more]).toEqual([true, false]);
  });

  it("end one by one: the next request with it is refused, the others go on", async () => {
    const { asBrowser, browser, user, aToken } = await aMember();
    const { access_token } = await aToken(user.id);
    await must(asBrowser("DELETE", `/api/v1/users/me/sessions/${decodeJwt(access_token).sid}`), 204);
    expect((await caller(bearer(access_token))("GET", ME)).status).toBe(401);
    await must(asBrowser("GET", ME), 200);
    expect((await asBrowser("DELETE", `/api/v1/users/me/sessions/${decodeJwt(access_token).sid}`)).status).toBe(404);
    await must(asBrowser("DELETE", `/api/v1/users/me/sessions/${browser.sign_in}`), 204);
    expect((await asBrowser("GET", ME)).status).toBe(401);
  });

  it("end all but the one that asks, and all; the feed says so once", async () => {
    const { asBrowser, user, aToken, as, acme } = await aMember();
    const tokens = await together(3, async () => (await aToken(user.id)).access_token as string);
    await must(asBrowser("DELETE", "/api/v1/users/me/sessions?keep=current"), 204);
    for (const token of tokens) expect((await caller(bearer(token))("GET", ME)).status).toBe(401);
    await must(asBrowser("GET", ME), 200);
    const { data } = await must(as(acme)("GET", "/api/v1/activity_feed"), 200);
    const ended = data.filter((one: any) => one.kind === "sign_in.ended");
    expect(ended.map((one: any) => [one.metadata.sign_ins.length, one.metadata.actor])).toEqual([[3, user.id]]);
    await must(asBrowser("DELETE", "/api/v1/users/me/sessions"), 204);
    expect((await asBrowser("GET", ME)).status).toBe(401);
  });

  it("of a token keep that token's own", async () => {
    const { user, aToken, asBrowser } = await aMember();
    const asToken = caller(bearer((await aToken(user.id)).access_token));
    await must(asToken("DELETE", "/api/v1/users/me/sessions?keep=current"), 204);
    expect([(await asToken("GET", ME)).status, (await asBrowser("GET", ME)).status]).toEqual([200, 401]);
  });

  it("are the developer's to list and to end, of any user of the app", async () => {
    const { asDeveloper, asBrowser, at, user, browser } = await aMember();
    const { data } = await must(asDeveloper("GET", `${at}/users/${user.id}/sessions`), 200);
    expect(data.map((one: any) => [one.id, one.current])).toEqual([[browser.sign_in, false]]);
    await must(asDeveloper("DELETE", `${at}/users/${user.id}/sessions/${browser.sign_in}`), 204);
    expect((await asBrowser("GET", ME)).status).toBe(401);
    const again = await aBrowser(sql, ROOTS, user.id);
    await must(asDeveloper("DELETE", `${at}/users/${user.id}/sessions`), 204);
    expect((await caller(again.headers)("GET", ME)).status).toBe(401);
  });

  it("of a program end a year after they began, however often they are refreshed", async () => {
    const { user, aToken } = await aMember();
    const { refresh_token } = await aToken(user.id);
    const left = async () =>
      (
        await sql(
          "select extract(epoch from expires_at - now())::int as s from data.token_families where user_id = $1 and carrier = 'api'",
          [user.id],
        )
      )[0].s;
    const soon =
      "update data.token_families set ends_at = now() + interval '1 day' where user_id = $1 and carrier = 'api'";
    await sql(soon, [user.id]);
    await sql(
      "update data.token_families set expires_at = now() + interval '1 hour' where user_id = $1 and carrier = 'api'",
      [user.id],
    );
    await must(caller()("POST", "/api/v1/auth/refresh", { refresh_token }), 200);
    expect(await left()).toBeLessThan(86_401);
    expect(await left()).toBeGreaterThan(86_000);
  });
});

it("deactivates everything that a user has: token, refresh token, minting", async () => {
  const { user, aToken, asDeveloper, at } = await aMember();
  const { access_token, refresh_token } = await aToken(user.id);
  await sql("update data.users set deactivated_at = now() where id = $1", [user.id]);
  expect((await caller(bearer(access_token))("GET", ME)).status).toBe(401);
  expect((await caller()("POST", "/api/v1/auth/refresh", { refresh_token })).status).toBe(401);
  const { status, body } = await asDeveloper("POST", `${at}/users/${user.id}/tokens`, {});
  expect([status, body.error.code]).toEqual([409, "user_deactivated"]);
});

it("tells the feed that an old refresh token came again", async () => {
  const { user, aToken, as, acme } = await aMember();
  const { refresh_token } = await aToken(user.id);
  const refresh = (text: string) => caller()("POST", "/api/v1/auth/refresh", { refresh_token: text });
  const second = await must(refresh(refresh_token), 200);
  await must(refresh(second.refresh_token), 200);
  expect((await refresh(refresh_token)).status).toBe(401);
  const { data } = await must(as(acme)("GET", "/api/v1/activity_feed"), 200);
  expect(data.filter((one: any) => one.kind === "token.reuse_detected")).toHaveLength(1);
});
