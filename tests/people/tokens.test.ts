import { decodeJwt } from "jose";
import { describe, expect, it } from "vitest";
import { anApp, bearer, caller, must, sql } from "../harness/index.ts";

const mine = "/api/v1/users/me/tokens";

/** An app, and a member of acme with a token. */
async function aMember(scopes?: string[]) {
  const made = await anApp();
  const user = await made.aUser(made.acme, "member");
  return {
    ...made,
    user: user.id as string,
    itself: caller(bearer((await made.aToken(user.id, scopes)).access_token)),
  };
}

describe("GET /api/v1/users/:user/tokens", () => {
  it("shows the newest 1000", async () => {
    const { app, acme, owners, as } = await anApp();
    const me = owners[acme]!;
    await sql(
      `insert into data.tokens (id, app_id, sandbox_id, org_id, user_id, scopes, expires_at)
        select 'sat_' || lpad(i::text, 22, '0'), $1, '-', $2, $3, '{}', now() from generate_series(1, 1000) i`,
      [app, acme, me],
    );
    const { data } = await must(as(acme)("GET", "/api/v1/users/me/tokens"), 200);
    // The one that asks is newer than any of these.
    expect([data.length, data.at(-1).id]).toEqual([1000, `sat_${"2".padStart(22, "0")}`]);
  });
});

describe("POST /api/v1/users/:user/tokens", () => {
  it("makes a token that lives 30 days and may do all its user may, unless told otherwise", async () => {
    const { user, itself } = await aMember();
    const made = await must(itself("POST", mine), 201);
    expect(made).toMatchObject({ name: null, scopes: "full_access", created_by_user: user, revoked_at: null });
    expect(Date.parse(made.expires_at) - Date.parse(made.created_at)).toBe(30 * 86_400_000);
    expect(decodeJwt(made.token)).toMatchObject({ sub: user, jti: made.id, scope: "full_access" });
    await must(caller(bearer(made.token))("POST", "/api/v1/agents", { name: "Ada" }), 200);
  });

  it.each([7, 30, 60, 90, 365])("lives %i days when asked to", async (expires_in_days) => {
    const { itself } = await aMember();
    const made = await must(itself("POST", mine, { name: "CI", expires_in_days }), 201);
    expect(made.name).toBe("CI");
    expect(Date.parse(made.expires_at) - Date.parse(made.created_at)).toBe(expires_in_days * 86_400_000);
    const { iat, exp } = decodeJwt(made.token);
    expect(exp! - iat!).toBe(expires_in_days * 86_400);
  });

  it("grants what is asked for and the role holds", async () => {
    const { itself } = await aMember();
    const made = await must(itself("POST", mine, { scopes: ["agents:read", "billing:write"] }), 201);
    expect(made.scopes).toBe("agents:read");
    expect((await caller(bearer(made.token))("POST", "/api/v1/agents", { name: "Ada" })).status).toBe(403);
    const { status, body } = await itself("POST", mine, { scopes: ["billing:write"] });
    expect([status, body.error.fields[0].field]).toEqual([422, "scopes"]);
  });

  it("can't be made from a restricted token", async () => {
    const { itself } = await aMember(["tokens:write", "tokens:read", "users:write"]);
    const { status, body } = await itself("POST", mine);
    expect([status, body.error.code]).toEqual([403, "insufficient_scope"]);
  });

  it.each([
    ["expires_in_days", 1],
    ["expires_in_days", "30"],
    ["expires_in_days", null],
    ["expires_in", 3600],
    ["name", "x".repeat(201)],
    ["scopes", ["root"]],
  ])("refuses %s: %j", async (field, value) => {
    const { itself } = await aMember();
    const { status, body } = await itself("POST", mine, { [field]: value });
    expect([status, body.error.fields[0].field.split(".")[0]]).toEqual([422, field]);
  });

  it("is for oneself: a colleague is absent, even for the owner", async () => {
    const { acme, user, as } = await aMember();
    expect((await as(acme)("POST", `/api/v1/users/${user}/tokens`)).status).toBe(404);
    expect((await as(acme)("GET", `/api/v1/users/${user}/tokens`)).status).toBe(404);
  });

  it("lets a developer make one for any user", async () => {
    const { user, asDeveloper } = await aMember();
    const made = await must(asDeveloper("POST", `/api/v1/users/${user}/tokens`), 201);
    expect(made.created_by_user).toBeNull();
    await must(caller(bearer(made.token))("GET", "/api/v1/users/me"), 200);
    expect((await asDeveloper("POST", mine)).status).toBe(403);
  });

  it("makes at most 50 live ones; a revoked or expired one leaves room", async () => {
    const { acme, app, user, itself } = await aMember();
    await sql(
      `insert into data.tokens (id, app_id, sandbox_id, org_id, user_id, scopes, expires_at)
       select 'sat_' || lpad(n::text, 22, '0'), $1, '-', $2, $3, '{full_access}', now() + interval '1 day'
         from generate_series(1, 49) n`,
      [app, acme, user],
    );
    const fiftieth = await must(itself("POST", mine), 201);
    const { status, body, headers } = await itself("POST", mine);
    expect([status, body.error.code]).toEqual([429, "too_many_tokens"]);
    expect(headers.get("Retry-After")).toMatch(/^\d+$/);
    await must(itself("DELETE", `${mine}/${fiftieth.id}`), 200);
    await must(itself("POST", mine), 201);
    await sql("update data.tokens set expires_at = now() where id = $1 and app_id = $2", [
      `sat_${"1".padStart(22, "0")}`,
      app,
    ]);
    await must(itself("POST", mine), 201);
  });

  it("doesn't count what was minted for the user", async () => {
    const { acme, app, user, itself, aToken } = await aMember();
    await sql(
      `insert into data.tokens (id, app_id, sandbox_id, org_id, user_id, scopes, expires_at)
       select 'sat_' || lpad(n::text, 22, '0'), $1, '-', $2, $3, '{full_access}', now() + interval '1 day'
         from generate_series(1, 49) n`,
      [app, acme, user],
    );
    await aToken(user);
    await must(itself("POST", mine), 201);
  });
});

describe("GET /api/v1/users/:user/tokens", () => {
  it("lists one's own, newest first, revoked and expired ones too, never a secret", async () => {
    const { user, itself } = await aMember();
    const made: any[] = [];
    for (const name of ["one", "two", "three"]) made.push(await must(itself("POST", mine, { name }), 201));
    await must(itself("DELETE", `${mine}/${made[0].id}`), 200);
    await sql("update data.tokens set expires_at = now() where id = $1", [made[1].id]);
    const { text, body } = await itself("GET", `/api/v1/users/${user}/tokens`);
    const shown = body.data.map(({ name, token, revoked_at }: any) => [name, token, revoked_at !== null]);
    expect(shown.slice(0, 3)).toEqual([
      ["three", null, false],
      ["two", null, false],
      ["one", null, true],
    ]);
    expect(text).not.toMatch(/ey[\w-]+\.[\w-]+\./);
  });
});

describe("DELETE /api/v1/users/:user/tokens/:token", () => {
  it("ends that token on the very next request, and answers its record", async () => {
    const { itself } = await aMember();
    const made = await must(itself("POST", mine), 201);
    const revoked = await must(itself("DELETE", `${mine}/${made.id}`), 200);
    expect(revoked).toEqual({ ...made, token: null, revoked_at: expect.stringMatching(/Z$/) });
    expect((await caller(bearer(made.token))("GET", "/api/v1/users/me")).status).toBe(401);
    await must(itself("GET", "/api/v1/users/me"), 200);
  });

  it("answers 404 for a colleague's token, and leaves it alive", async () => {
    const { acme, owners, itself, aToken } = await aMember();
    const { id, access_token } = await aToken(owners[acme]!);
    expect((await itself("DELETE", `${mine}/${id}`)).status).toBe(404);
    expect((await itself("DELETE", `${mine}/sat_0000000000000000000000`)).status).toBe(404);
    await must(caller(bearer(access_token))("GET", "/api/v1/users/me"), 200);
  });
});
