import { decodeJwt, decodeProtectedHeader } from "jose";
import { describe, expect, it } from "vitest";
import { anApp, bearer, caller, must, sql } from "../harness/index.ts";

/** An app, a member of acme, and the address of that member's tokens. */
async function aMember(fields: object = {}) {
  const made = await anApp();
  const user = await made.aUser(made.acme, "member", fields);
  return { ...made, user: user.id as string, tokens: `${made.at}/users/${user.id}/tokens` };
}
const refresh = (refresh_token: string) => caller()("POST", "/api/v1/auth/refresh", { refresh_token });

describe("POST …/users/:user_id/tokens", () => {
  it("answers an access token, a refresh token and how long they live", async () => {
    const { tokens, asDeveloper } = await aMember();
    const made = await must(asDeveloper("POST", tokens, { scopes: ["agents:read"] }), 201);
    expect(made).toEqual({
      id: expect.stringMatching(/^sat_[0-9A-Za-z]{22}$/),
      access_token: expect.stringMatching(/^ey/),
      refresh_token: expect.stringMatching(/^rt_/),
      token_type: "Bearer",
      expires_in: 3600,
      expires_at: expect.stringMatching(/Z$/),
      scope: "agents:read",
      scopes: ["agents:read"],
    });
  });

  it("signs who and what into the token, and nothing personal", async () => {
    const { app, acme, user, tokens, asDeveloper } = await aMember({ name: "Ada Lovelace" });
    const made = await must(asDeveloper("POST", tokens, { scopes: ["agents:*"], expires_in: 120 }), 201);
    expect(decodeProtectedHeader(made.access_token)).toMatchObject({ alg: "ES256", typ: "at+jwt" });
    const { iat, exp, sid, ...claims } = decodeJwt(made.access_token);
    expect(claims).toEqual({
      iss: "http://agentry.test",
      aud: app,
      sub: user,
      org_id: acme,
      jti: made.id,
      scope: "agents:read agents:write",
    });
    expect(exp! - iat!).toBe(120);
    expect(sid).toMatch(/^saf_/);
  });

  it("opens what its scopes name, and nothing else", async () => {
    const { user, aToken } = await aMember();
    const { access_token } = await aToken(user, ["agents:read"]);
    const itself = caller(bearer(access_token));
    await must(itself("GET", "/api/v1/agents"), 200);
    const { status, headers } = await itself("POST", "/api/v1/agents", { name: "Ada" });
    expect([status, headers.get("WWW-Authenticate")]).toEqual([
      403,
      'Bearer realm="agentry", error="insufficient_scope", scope="agents:write"',
    ]);
    expect((await itself("GET", "/api/v1/orgs")).status).toBe(403);
  });

  it("grants full access where no scopes are named", async () => {
    const { tokens, asDeveloper } = await aMember();
    expect((await must(asDeveloper("POST", tokens), 201)).scopes).toEqual(["full_access"]);
  });

  it("grants what is asked for and the role holds, and says so", async () => {
    const { tokens, asDeveloper } = await aMember();
    const asked = { scopes: ["orgs:*", "agents:read", "billing:read", "agents:read"] };
    const { scope, scopes } = await must(asDeveloper("POST", tokens, asked), 201);
    expect(scopes.toSorted()).toEqual(["agents:read", "orgs:read"]);
    expect(scope).toBe(scopes.join(" "));
  });

  it("refuses where the role holds nothing of what is asked for", async () => {
    const { tokens, asDeveloper } = await aMember();
    const { status, body } = await asDeveloper("POST", tokens, { scopes: ["billing:write", "orgs:write"] });
    expect([status, body.error.fields[0].field]).toEqual([422, "scopes"]);
  });

  it.each([
    ["a scope that there isn't", { scopes: ["agents:read", "agents:fly"] }, "scopes.1"],
    ["a bare star", { scopes: ["*"] }, "scopes.0"],
    ["a developer's permission", { scopes: ["developer:write"] }, "scopes.0"],
    ["scopes as one text", { scopes: "agents:read" }, "scopes"],
    ["no scopes at all", { scopes: [] }, "scopes"],
    ["null scopes", { scopes: null }, "scopes"],
    ["59 seconds", { expires_in: 59 }, "expires_in"],
    ["over a year", { expires_in: 31_536_001 }, "expires_in"],
    ["half a second", { expires_in: 60.5 }, "expires_in"],
    ["a text", { expires_in: "3600" }, "expires_in"],
    ["null", { expires_in: null }, "expires_in"],
    ["a user", { user_id: "usr_0000000000000000000000" }, "user_id"],
  ])("refuses %s", async (_, asked, field) => {
    const { tokens, asDeveloper } = await aMember();
    const { status, body } = await asDeveloper("POST", tokens, asked);
    expect([status, body.error.fields.map((fault: any) => fault.field)]).toEqual([422, [field]]);
  });

  it.each([60, 31_536_000])("lives %i seconds when asked to", async (expires_in) => {
    const { tokens, asDeveloper } = await aMember();
    const made = await must(asDeveloper("POST", tokens, { expires_in }), 201);
    const { created_at } = (await must(asDeveloper("GET", tokens), 200)).data[0];
    expect(made.expires_in).toBe(expires_in);
    expect(Date.parse(made.expires_at) - Date.parse(created_at)).toBe(expires_in * 1000);
  });

  it("gives a system user no refresh token", async () => {
    const { tokens, asDeveloper } = await aMember({ is_system_user: true });
    const made = await must(asDeveloper("POST", tokens), 201);
    expect(made.refresh_token).toBeNull();
    await must(caller(bearer(made.access_token))("GET", "/api/v1/agents"), 200);
  });

  it("refuses a user without an org", async () => {
    const { at, aUser, asDeveloper } = await anApp();
    const { id } = await aUser(null);
    const { status, body } = await asDeveloper("POST", `${at}/users/${id}/tokens`);
    expect([status, body.error.fields[0].field]).toEqual([422, "user_id"]);
  });

  it("refuses a suspended org, until it is active again", async () => {
    const { acme, at, tokens, asDeveloper } = await aMember();
    await must(asDeveloper("PATCH", `${at}/orgs/${acme}`, { status: "suspended" }), 200);
    const { status, body } = await asDeveloper("POST", tokens);
    expect([status, body.error.code]).toEqual([409, "org_suspended"]);
    await must(asDeveloper("PATCH", `${at}/orgs/${acme}`, { status: "active" }), 200);
    await must(asDeveloper("POST", tokens), 201);
  });

  it.each(["usr_0000000000000000000000", "usr_short", "me"])("answers 404 for the user %s", async (id) => {
    const { at, asDeveloper } = await anApp();
    const { status, body } = await asDeveloper("POST", `${at}/users/${id}/tokens`);
    expect([status, body.error.message]).toEqual([404, "No such user."]);
  });

  it("ends by itself: past its time the token is refused", async () => {
    const { user, aToken } = await aMember();
    const { id, access_token } = await aToken(user);
    await sql("update data.tokens set expires_at = now() - interval '1 second' where id = $1", [id]);
    const { status, headers } = await caller(bearer(access_token))("GET", "/api/v1/users/me");
    expect([status, headers.get("WWW-Authenticate")]).toEqual([401, 'Bearer realm="agentry", error="invalid_token"']);
  });
});

describe("GET …/users/:user_id/tokens", () => {
  it("lists live tokens only, newest first", async () => {
    const { user, tokens, aToken, asDeveloper } = await aMember();
    const made: string[] = [];
    for (let i = 0; i < 4; i++) made.push((await aToken(user)).id);
    await must(asDeveloper("DELETE", `${tokens}/${made[0]}`), 200);
    await sql("update data.tokens set expires_at = now() where id = $1", [made[1]]);
    const { data } = await must(asDeveloper("GET", tokens), 200);
    expect(data.map(({ id }: any) => id)).toEqual([made[3], made[2]]);
  });

  it("shows scopes and times, and never a secret", async () => {
    const { user, tokens, aToken, asDeveloper } = await aMember();
    const made = await aToken(user, ["agents:read", "orgs:read"]);
    const { text, body } = await asDeveloper("GET", tokens);
    expect(body.data).toEqual([
      {
        id: made.id,
        name: null,
        scopes: "agents:read orgs:read",
        token: null,
        created_at: expect.stringMatching(/Z$/),
        expires_at: made.expires_at,
        last_used_at: null,
        revoked_at: null,
        created_by_agent_user: null,
        created_by_developer: null,
        created_by_org: null,
        created_by_team: null,
        created_by_user: null,
      },
    ]);
    expect(text).not.toMatch(/ey[\w-]+\.|rt_/);
  });

  it("shows when a token was last used, noted at most once a minute", async () => {
    const { user, tokens, aToken, asDeveloper } = await aMember();
    const { id, access_token } = await aToken(user);
    const use = () => must(caller(bearer(access_token))("GET", "/api/v1/users/me"), 200);
    const used = async () => (await must(asDeveloper("GET", tokens), 200)).data[0].last_used_at;
    const age = (by: string) =>
      sql(`update data.tokens set last_used_at = now() - interval '${by}' where id = $1`, [id]);
    await use();
    await expect.poll(used, { timeout: 5000 }).toMatch(/Z$/);
    await age("50 seconds");
    const before = await used();
    await Promise.all([use(), use(), use()]);
    // What goes out after the answers has had its time by then.
    for (let i = 0; i < 5; i++) expect(await used()).toBe(before);
    await age("61 seconds");
    const old = await used();
    await use();
    await expect.poll(used, { timeout: 5000 }).not.toBe(old);
  });

  it("shows one user's and no other's", async () => {
    const { acme, owners, user, tokens, aToken, asDeveloper } = await aMember();
    await aToken(owners[acme]!);
    const { id } = await aToken(user);
    const { data } = await must(asDeveloper("GET", tokens), 200);
    expect(data.map((row: any) => row.id)).toEqual([id]);
  });
});

describe("DELETE …/users/:user_id/tokens/:token_id", () => {
  it("answers the record with revoked_at, and the same when asked twice", async () => {
    const { user, tokens, aToken, asDeveloper } = await aMember();
    const { id } = await aToken(user);
    const revoked = await must(asDeveloper("DELETE", `${tokens}/${id}`), 200);
    expect(revoked).toMatchObject({ id, token: null, revoked_at: expect.stringMatching(/Z$/) });
    expect(await must(asDeveloper("DELETE", `${tokens}/${id}`), 200)).toEqual(revoked);
  });

  it("ends that token and its refresh token on the very next request", async () => {
    const { user, tokens, aToken, asDeveloper } = await aMember();
    const { id, access_token, refresh_token } = await aToken(user);
    await must(caller(bearer(access_token))("GET", "/api/v1/users/me"), 200);
    await must(asDeveloper("DELETE", `${tokens}/${id}`), 200);
    expect((await caller(bearer(access_token))("GET", "/api/v1/users/me")).status).toBe(401);
    expect((await refresh(refresh_token)).status).toBe(401);
  });

  it("is exact: the user's other tokens live on", async () => {
    const { user, tokens, aToken, asDeveloper } = await aMember();
    const [one, two] = [await aToken(user), await aToken(user)];
    await must(asDeveloper("DELETE", `${tokens}/${one.id}`), 200);
    await must(caller(bearer(two.access_token))("GET", "/api/v1/users/me"), 200);
    await must(refresh(two.refresh_token), 200);
  });

  it("ends what was refreshed from the token, too", async () => {
    const { user, tokens, aToken, asDeveloper } = await aMember();
    const minted = await aToken(user);
    const next = await must(refresh(minted.refresh_token), 200);
    await must(asDeveloper("DELETE", `${tokens}/${minted.id}`), 200);
    expect((await caller(bearer(next.token))("GET", "/api/v1/users/me")).status).toBe(401);
    expect((await refresh(next.refresh_token)).status).toBe(401);
    expect((await must(asDeveloper("GET", tokens), 200)).data).toEqual([]);
  });

  it("answers 404 for another user's token, and leaves it alive", async () => {
    const { acme, owners, tokens, aToken, asDeveloper } = await aMember();
    const { id, access_token } = await aToken(owners[acme]!);
    expect((await asDeveloper("DELETE", `${tokens}/${id}`)).status).toBe(404);
    await must(caller(bearer(access_token))("GET", "/api/v1/users/me"), 200);
  });
});
