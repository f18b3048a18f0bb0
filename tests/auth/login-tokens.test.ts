import { decodeJwt } from "jose";
import { describe, expect, it } from "vitest";
import { anApp, bearer, caller, must, sql, system, together } from "../harness/index.ts";

async function start() {
  const made = await anApp();
  const user = await made.aUser(made.acme, "member");
  const visitor = caller({ "x-archastro-api-key": made.publishable_key });
  const exchange = (token: string, fields = {}) => visitor("POST", "/api/v1/auth/token", { token, ...fields });
  const make = (fields = {}, of = user.id) => made.asDeveloper("POST", `${made.at}/users/${of}/login_tokens`, fields);
  const aLogin = async (fields = {}): Promise<string> => (await must(make(fields), 201)).token;
  return { ...made, user, exchange, make, aLogin };
}

describe("a login token", () => {
  it("signs its user in, and proves nobody: the sign-in says by what it came", async () => {
    const { user, aLogin, exchange } = await start();
    const body = await must(exchange(await aLogin(), { timezone: "Europe/Vienna" }), 200);
    expect(body).toMatchObject({
      token_type: "Bearer",
      account_created: false,
      user: { id: user.id, org_name: "Acme" },
    });
    expect(decodeJwt(body.token)).not.toHaveProperty("auth_time");
    expect(decodeJwt(body.token)).not.toHaveProperty("act");
    const { data } = (await caller(bearer(body.token))("GET", "/api/v1/users/me/sessions")).body;
    expect(data).toMatchObject([
      { method: "login_token", carrier: "api", actor: null, auth_time: null, current: true },
    ]);
  });

  it("works once, for a minute, with its app's key alone", async () => {
    const { app, aLogin, exchange } = await start();
    const other = await start();
    const login = await aLogin();
    expect((await other.exchange(login)).status).toBe(401);
    await must(exchange(login), 200);
    const { status, body } = await exchange(login);
    expect([status, body.error.code]).toEqual([401, "invalid_token"]);
    const late = await aLogin();
    await sql("update data.one_time_secrets set expires_at = expires_at - interval '60 seconds' where app_id = $1", [
      app,
    ]);
    expect((await exchange(late)).status).toBe(401);
  });

  it("is refused for what isn't one, all alike: nonsense, another org's place, an access token", async () => {
    const { acme, globex, owners, aToken, aLogin, exchange } = await start();
    const { access_token } = await aToken(owners[acme]!);
    const moved = (await aLogin()).replace(acme.slice(4), globex.slice(4));
    const answers = [];
    for (const wrong of ["x", moved, access_token.slice(0, 190)]) answers.push((await exchange(wrong)).body.error);
    expect(answers).toEqual(answers.map(() => expect.objectContaining({ code: "invalid_token" })));
    expect(new Set(answers.map(({ message }) => message)).size).toBe(1);
  });

  it.runIf(system.concurrent)("lets one of fifty in that come at once", { timeout: 60_000 }, async () => {
    const { aLogin, exchange } = await start();
    const login = await aLogin();
    const statuses = (await together(50, () => exchange(login))).map(({ status }) => status);
    expect(statuses.filter((status) => status !== 401)).toEqual([200]);
  });

  it("opens nothing for who is deactivated, or whose org is suspended, since", async () => {
    const { at, acme, user, aLogin, exchange, asDeveloper } = await start();
    const shut = await aLogin();
    await must(asDeveloper("PATCH", `${at}/orgs/${acme}`, { status: "suspended" }), 200);
    expect((await exchange(shut)).status).toBe(403);
    await must(asDeveloper("PATCH", `${at}/orgs/${acme}`, { status: "active" }), 200);
    const login = await aLogin();
    await sql("update data.users set deactivated_at = now() where id = $1", [user.id]);
    expect((await exchange(login)).status).toBe(401);
  });

  it("is made for nobody who can't sign in: absent 404, deactivated and suspended 409, of no org and a system user 422", async () => {
    const { make, aUser, acme, globex, at, asDeveloper } = await start();
    const other = await start();
    const dead = await aUser(acme);
    await sql("update data.users set deactivated_at = now() where id = $1", [dead.id]);
    const shut = await aUser(globex);
    await must(asDeveloper("PATCH", `${at}/orgs/${globex}`, { status: "suspended" }), 200);
    const loose = await aUser(null);
    const machine = await aUser(acme, "member", { is_system_user: true });
    const statuses = [];
    for (const { id } of [other.user, dead, shut, loose, machine]) statuses.push((await make({}, id)).status);
    expect(statuses).toEqual([404, 409, 409, 422, 422]);
  });

  it("is kept as nothing that shows it", async () => {
    const { app, aLogin } = await start();
    const secret = (await aLogin()).split("_").at(-1)!;
    const [{ row }] = await sql("select s::text as row from data.one_time_secrets s where app_id = $1", [app]);
    expect(row).not.toContain(secret);
  });
});

describe("who acts as a user", () => {
  const REASON = "She can't see her agents: ticket 12.";

  it("says so in the tokens, also refreshed ones, for an hour at most", async () => {
    const { app, aLogin, exchange, publishable_key } = await start();
    const { token, refresh_token } = await must(exchange(await aLogin({ impersonate: true, reason: REASON })), 200);
    expect(decodeJwt(token)).toMatchObject({ act: { sub: app } });
    const beside = caller({ "x-archastro-api-key": publishable_key });
    const again = await must(beside("POST", "/api/v1/auth/refresh", { refresh_token }), 200);
    expect(decodeJwt(again.token)).toMatchObject({ act: { sub: app } });
    const { data } = (await caller(bearer(token))("GET", "/api/v1/users/me/sessions")).body;
    expect(data).toMatchObject([{ method: "login_token", actor: app }]);
    expect(Date.parse(data[0].ends_at) - Date.parse(data[0].created_at)).toBe(3_600_000);
  });

  it("gives a reason, which the org's admins and the person read, and nobody else of it; and an event tells", async () => {
    const { app, acme, user, as, aToken, aLogin } = await start();
    await aLogin({ impersonate: true, reason: REASON });
    const told = async (call: any) =>
      (await call("GET", "/api/v1/activity_feed?kind[]=user.impersonated")).body.data.map(
        ({ metadata }: any) => metadata,
      );
    const said = [{ actor: app, reason: REASON }];
    const asUser = caller(bearer((await aToken(user.id)).access_token));
    expect([await told(as(acme)), await told(asUser)]).toEqual([said, said]);
    expect(await told(as(acme, { role: "member" }))).toEqual([]);
    const { data } = (await as(acme)("GET", "/api/v1/events?event_names[]=user.impersonated")).body;
    expect(data.map(({ payload }: any) => payload)).toEqual([{ user: user.id, actor: app, reason: REASON }]);
  });

  it("is refused without a reason, and a reason without that", async () => {
    const { make } = await start();
    const statuses = [];
    for (const fields of [{ impersonate: true }, { impersonate: true, reason: " " }, { reason: REASON }]) {
      statuses.push((await make(fields)).status);
    }
    expect(statuses).toEqual([422, 422, 422]);
  });

  it("sets no password of the user's", async () => {
    const { aLogin, exchange } = await start();
    const { token } = await must(exchange(await aLogin({ impersonate: true, reason: REASON })), 200);
    const { status, body } = await caller(bearer(token))("PUT", "/api/v1/users/me/password", {
      password: "correct horse battery",
    });
    expect([status, body.error.code]).toEqual([403, "proof_needed"]);
  });
});
