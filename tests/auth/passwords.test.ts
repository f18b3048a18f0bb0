import { describe, expect, it } from "vitest";
import { anApp, bearer, caller, must, sql, system, together, unique } from "../harness/index.ts";
import { codeIn, mailTo, nextMail } from "./mailbox.ts";

const PASSWORD = "correct horse battery";

async function start() {
  const made = await anApp();
  const user = await made.aUser(made.acme, "member");
  const visitor = caller({ "x-archastro-api-key": made.publishable_key });
  const login = (email: string, password: string) => visitor("POST", "/api/v1/auth/login", { email, password });
  /** Signs in by a code, which is how one gets a first password. */
  const byCode = async (): Promise<any> => {
    const before = mailTo(user.email).length;
    await must(visitor("POST", "/api/v1/auth/login/code", { email: user.email }), 204);
    return must(
      visitor("POST", "/api/v1/auth/code/verify", {
        email: user.email,
        code: codeIn(await nextMail(user.email, before + 1)),
      }),
      200,
    );
  };
  const set = (token: string, body: object) => caller(bearer(token))("PUT", "/api/v1/users/me/password", body);
  return { ...made, user, login, byCode, set, visitor };
}
/** With a password, and the token of the sign-in that set it. */
async function startWithOne() {
  const made = await start();
  const { token } = await made.byCode();
  await must(made.set(token, { password: PASSWORD }), 204);
  return { ...made, token };
}

describe("a password", () => {
  it("is set by who has just signed in, and signs in from then on", async () => {
    const { user, login } = await startWithOne();
    const body = await must(login(user.email.toUpperCase(), PASSWORD), 200);
    expect([body.user.id, body.account_created]).toEqual([user.id, false]);
    const { data } = (await caller(bearer(body.token))("GET", "/api/v1/users/me/sessions")).body;
    expect(data.find(({ current }: any) => current).method).toBe("password");
  });

  it("wrong, of nobody, and of who has none are one answer", async () => {
    const { user, login, aUser, acme } = await startWithOne();
    const without = await aUser(acme);
    const answers: unknown[][] = [];
    for (const [email, password] of [
      [user.email, "wrong horse battery"],
      [`${unique("nobody")}@example.com`, PASSWORD],
      [without.email, PASSWORD],
    ]) {
      const { status, body } = await login(email!, password!);
      answers.push([status, body.error]);
    }
    expect(answers).toEqual(answers.map(() => answers[0]));
    expect(answers[0]![0]).toBe(401);
  });

  it("of who is deactivated opens nothing", async () => {
    const { user, login } = await startWithOne();
    await sql("update data.users set deactivated_at = now() where id = $1", [user.id]);
    expect((await login(user.email, PASSWORD)).status).toBe(401);
  });

  it("has 10 to 256 characters", async () => {
    const { byCode, set } = await start();
    const { token } = await byCode();
    for (const [password, status] of [
      ["a".repeat(9), 422],
      ["a".repeat(257), 422],
      ["a".repeat(256), 204],
      ["a".repeat(10), 204],
    ] as const) {
      expect((await set(token, { password })).status).toBe(status);
    }
  });

  it("ends the sign-ins beside the one that sets it", async () => {
    const { user, byCode, set, login } = await startWithOne();
    const other = await must(login(user.email, PASSWORD), 200);
    const { token } = await byCode();
    await must(set(token, { password: `${PASSWORD} new` }), 204);
    const alive = async (one: string) => (await caller(bearer(one))("GET", "/api/v1/users/me")).status;
    expect([await alive(token), await alive(other.token)]).toEqual([200, 401]);
    expect((await login(user.email, PASSWORD)).status).toBe(401);
    await must(login(user.email, `${PASSWORD} new`), 200);
  });

  it("takes the old one, or a sign-in of the last ten minutes; a minted token is none", async () => {
    const { user, token, set, login, aToken } = await startWithOne();
    const minted = (await aToken(user.id)).access_token;
    const refused = await set(minted, { password: `${PASSWORD} 2` });
    expect([refused.status, refused.body.error.code]).toEqual([403, "proof_needed"]);
    expect((await set(minted, { password: `${PASSWORD} 2`, current_password: "wrong horse" })).status).toBe(403);
    await sql("update data.tokens set auth_time = auth_time - interval '11 minutes' where user_id = $1", [user.id]);
    expect((await set(token, { password: `${PASSWORD} 2` })).status).toBe(403);
    await must(login(user.email, PASSWORD), 200);
    await must(set(token, { password: `${PASSWORD} 2`, current_password: PASSWORD }), 204);
    await must(login(user.email, `${PASSWORD} 2`), 200);
  });

  it("is set of nobody else: that is 404", async () => {
    const { byCode, aUser, acme } = await start();
    const { token } = await byCode();
    const colleague = await aUser(acme);
    const { status } = await caller(bearer(token))("PUT", `/api/v1/users/${colleague.id}/password`, {
      password: PASSWORD,
    });
    expect(status).toBe(404);
  });

  it("after ten wrong ones in 15 minutes is refused for an hour, the right one too; codes still work", async () => {
    const { user, login, byCode } = await startWithOne();
    for (let i = 0; i < 10; i++) expect((await login(user.email, "wrong horse battery")).status).toBe(401);
    const { status, headers } = await login(user.email, PASSWORD);
    expect(status).toBe(429);
    expect(Number(headers.get("Retry-After"))).toBeGreaterThan(3500);
    await byCode();
  });

  it("is slowed down for nobody's address alike", async () => {
    const { login } = await start();
    const email = `${unique("nobody")}@example.com`;
    for (let i = 0; i < 10; i++) expect((await login(email, PASSWORD)).status).toBe(401);
    expect((await login(email, PASSWORD)).status).toBe(429);
  });

  it("right in between begins the count anew", async () => {
    const { user, login } = await startWithOne();
    for (let i = 0; i < 9; i++) await login(user.email, "wrong horse battery");
    await must(login(user.email, PASSWORD), 200);
    for (let i = 0; i < 9; i++) await login(user.email, "wrong horse battery");
    await must(login(user.email, PASSWORD), 200);
  });

  it.runIf(system.concurrent)("of 20 wrong ones at once compares ten", { timeout: 120_000 }, async () => {
    const { user, login } = await startWithOne();
    const statuses = (await together(20, () => login(user.email, "wrong horse battery"))).map(({ status }) => status);
    expect(statuses.filter((status) => status === 401)).toHaveLength(10);
  });
});

it("lists the platform's ways to sign in", async () => {
  const { visitor } = await start();
  const { data } = await must(visitor("GET", "/api/v1/auth/allowed_auth_methods"), 200);
  expect(data.map(({ slug }: any) => slug)).toEqual(["password", "magic_link", "email_code", "sso_saml", "sso_oidc"]);
});
