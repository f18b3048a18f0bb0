import { decodeJwt } from "jose";
import { describe, expect, it } from "vitest";
import { anApp, bearer, caller, must, sql } from "../harness/index.ts";

const refresh = (refresh_token: unknown, headers = {}) =>
  caller(headers)("POST", "/api/v1/auth/refresh", { refresh_token });
const works = async (token: string) => (await caller(bearer(token))("GET", "/api/v1/users/me")).status;
const age = (user: string, by: string) =>
  sql(`update data.token_families set rotated_at = rotated_at - interval '${by}' where user_id = $1`, [user]);

/** Lets days go by for the user's sign-ins and their tokens. */
async function pass(user: string, days: number) {
  for (const table of ["tokens", "token_families"]) {
    await sql(`update data.${table} set expires_at = expires_at - interval '${days} days' where user_id = $1`, [user]);
  }
}

/** An app, and a member of acme who has just signed in. */
async function aSession(scopes?: string[], fields: object = {}) {
  const made = await anApp();
  const user = await made.aUser(made.acme, "member");
  return { ...made, user, session: await made.aToken(user.id, scopes, fields) };
}

describe("POST /api/v1/auth/refresh", () => {
  it("answers a new pair of tokens, and whose they are", async () => {
    const { user, session } = await aSession();
    const body = await must(refresh(session.refresh_token), 200);
    expect(body).toMatchObject({ expires_in: 3600, token_type: "Bearer", account_created: false, metadata: {} });
    expect(body.user).toMatchObject({ id: user.id, email: user.email, org_name: "Acme" });
    expect(body.refresh_token).not.toBe(session.refresh_token);
    expect(decodeJwt(body.token).jti).not.toBe(session.id);
    expect(await works(body.token)).toBe(200);
  });

  it("keeps the scopes and the life of the token that was minted", async () => {
    const { session } = await aSession(["agents:read"], { expires_in: 120 });
    const body = await must(refresh(session.refresh_token), 200);
    const { scope, iat, exp } = decodeJwt(body.token);
    expect([scope, exp! - iat!, body.expires_in]).toEqual(["agents:read", 120, 120]);
  });

  it("leaves the access token before it alive until its own end", async () => {
    const { session } = await aSession();
    await must(refresh(session.refresh_token), 200);
    expect(await works(session.access_token)).toBe(200);
  });

  it("refreshes after the access token has expired", async () => {
    const { user, session } = await aSession();
    await sql("update data.tokens set expires_at = now() - interval '1 day' where user_id = $1", [user.id]);
    expect(await works(session.access_token)).toBe(401);
    expect(await works((await must(refresh(session.refresh_token), 200)).token)).toBe(200);
  });

  it("gives an honest retry the same successor, for 30 seconds", async () => {
    const { user, session } = await aSession();
    const first = await must(refresh(session.refresh_token), 200);
    await age(user.id, "25 seconds");
    const again = await must(refresh(session.refresh_token), 200);
    expect(again.refresh_token).toBe(first.refresh_token);
    expect(decodeJwt(again.token)).toEqual(decodeJwt(first.token));
  });

  it("gives no second 30 seconds for having retried in the first", async () => {
    const { user, session } = await aSession();
    const first = await must(refresh(session.refresh_token), 200);
    await age(user.id, "20 seconds");
    await must(refresh(session.refresh_token), 200);
    await age(user.id, "11 seconds");
    expect((await refresh(session.refresh_token)).status).toBe(401);
    expect(await works(first.token)).toBe(401);
  });

  it("counts the 30 seconds anew from the next rotation", async () => {
    const { user, session } = await aSession();
    const second = await must(refresh(session.refresh_token), 200);
    await age(user.id, "1 hour");
    const third = await must(refresh(second.refresh_token), 200);
    expect((await must(refresh(second.refresh_token), 200)).refresh_token).toBe(third.refresh_token);
  });

  it("ends the sign-in and every token of it when a used token comes again later", async () => {
    const { user, session } = await aSession();
    const next = await must(refresh(session.refresh_token), 200);
    await age(user.id, "31 seconds");
    const { status, headers } = await refresh(session.refresh_token);
    expect([status, headers.get("WWW-Authenticate")]).toEqual([401, 'Bearer realm="agentry", error="invalid_token"']);
    expect(await works(session.access_token)).toBe(401);
    expect(await works(next.token)).toBe(401);
    expect((await refresh(next.refresh_token)).status).toBe(401);
  });

  it("ends the sign-in for a token two generations old, even within the 30 seconds", async () => {
    const { session } = await aSession();
    const second = await must(refresh(session.refresh_token), 200);
    const third = await must(refresh(second.refresh_token), 200);
    expect((await refresh(session.refresh_token)).status).toBe(401);
    for (const token of [session.access_token, second.token, third.token]) expect(await works(token)).toBe(401);
  });

  it("leaves the user's other sign-ins alone when it ends one", async () => {
    const { user, session, aToken } = await aSession();
    const other = await aToken(user.id);
    const second = await must(refresh(session.refresh_token), 200);
    await must(refresh(second.refresh_token), 200);
    expect((await refresh(session.refresh_token)).status).toBe(401);
    expect(await works(other.access_token)).toBe(200);
    await must(refresh(other.refresh_token), 200);
  });

  it("goes on for 30 days from the last refresh, and no longer", async () => {
    const { user, session } = await aSession();
    const left = async () => {
      const [row] = await sql(
        "select extract(epoch from expires_at - now())::int as s from data.token_families where user_id = $1",
        [user.id],
      );
      return row.s / 86_400;
    };
    await sql("update data.token_families set expires_at = now() + interval '1 minute' where user_id = $1", [user.id]);
    const next = await must(refresh(session.refresh_token), 200);
    expect(await left()).toBeCloseTo(30, 1);
    await sql("update data.token_families set expires_at = now() where user_id = $1", [user.id]);
    expect((await refresh(next.refresh_token)).status).toBe(401);
  });

  it("goes on for 30 days from the mint, though the access token lives an hour", async () => {
    const { user, session } = await aSession();
    await pass(user.id, 29);
    const { refresh_token } = await must(refresh(session.refresh_token), 200);
    await pass(user.id, 30);
    expect((await refresh(refresh_token)).status).toBe(401);
  });

  describe("of a token that lives a year", () => {
    const year = { expires_in: 31_536_000 };

    it("goes on for as long as that token, not for 30 days", async () => {
      const { user, session } = await aSession(undefined, year);
      await pass(user.id, 364);
      expect(await works(session.access_token)).toBe(200);
      await must(refresh(session.refresh_token), 200);
    });

    it("takes no time away that the sign-in had left", async () => {
      const { user, session } = await aSession(undefined, year);
      const next = await must(refresh(session.refresh_token), 200);
      await pass(user.id, 31);
      const third = await must(refresh(next.refresh_token), 200);
      await pass(user.id, 31);
      await must(refresh(third.refresh_token), 200);
    });
  });

  it("refuses a suspended org, and works again as soon as it is active", async () => {
    const { acme, at, session, asDeveloper } = await aSession();
    await must(asDeveloper("PATCH", `${at}/orgs/${acme}`, { status: "suspended" }), 200);
    const { status, body } = await refresh(session.refresh_token);
    expect([status, body.error.code]).toEqual([403, "org_suspended"]);
    await must(asDeveloper("PATCH", `${at}/orgs/${acme}`, { status: "active" }), 200);
    await must(refresh(session.refresh_token), 200);
  });

  it("holds a demoted user to the role it has now", async () => {
    const { at, user, session, asDeveloper } = await aSession();
    await must(asDeveloper("PATCH", `${at}/users/${user.id}`, { role: "viewer" }), 200);
    const { token } = await must(refresh(session.refresh_token), 200);
    expect((await caller(bearer(token))("POST", "/api/v1/agents", { name: "Ada" })).status).toBe(403);
  });

  it("takes a publishable key of the same app beside it, and no other's", async () => {
    const { session, publishable_key } = await aSession();
    const other = await anApp();
    const beside = (key: string) => refresh(session.refresh_token, { "x-archastro-api-key": key });
    expect((await beside(other.publishable_key)).status).toBe(401);
    expect((await beside("pk_live_nonsense")).status).toBe(401);
    await must(beside(publishable_key), 200);
  });

  it("refuses a changed token, an access token and nonsense alike", async () => {
    const { session } = await aSession();
    const [body, tag] = session.refresh_token.slice(3).split(".");
    const text = Buffer.from(body, "base64url").toString().replace(/\.0$/, ".1");
    const forged = `rt_${Buffer.from(text).toString("base64url")}.${tag}`;
    const answers = [];
    for (const token of [
      forged,
      `rt_${body}.${"A".repeat(43)}`,
      `${session.refresh_token}A`,
      session.access_token,
      "rt_",
      "",
      "x".repeat(1_900),
    ]) {
      const { status, body: answer } = await refresh(token);
      answers.push([status, answer.error.code]);
    }
    expect(answers).toEqual(answers.map(() => [401, "unauthenticated"]));
    await must(refresh(session.refresh_token), 200);
  });

  it.each([
    ["no token", {}],
    ["a number", { refresh_token: 7 }],
    ["null", { refresh_token: null }],
  ])("answers 422 for %s", async (_, body) => {
    const { status, body: answer } = await caller()("POST", "/api/v1/auth/refresh", body);
    expect([status, answer.error.fields[0].field]).toEqual([422, "refresh_token"]);
  });
});
