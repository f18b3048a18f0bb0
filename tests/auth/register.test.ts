import { decodeJwt } from "jose";
import { describe, expect, it } from "vitest";
import { anApp, bearer, caller, must, sql, system, together, unique } from "../harness/index.ts";
import { codeIn, mailTo, nextMail } from "./mailbox.ts";

const PASSWORD = "correct horse battery";
const anAddress = () => `${unique("new")}@example.com`;

async function start(auth: object = { sign_up: "personal" }) {
  const made = await anApp();
  await must(made.asDeveloper("PATCH", made.at, { settings: { auth } }), 200);
  const visitor = caller({ "x-archastro-api-key": made.publishable_key });
  const register = (email: string, fields = {}) =>
    visitor("POST", "/api/v1/auth/register", { email, password: PASSWORD, ...fields });
  const login = (email: string) => visitor("POST", "/api/v1/auth/login", { email, password: PASSWORD });
  /** What the newest code that was mailed to an address gives. */
  const verify = async (email: string, count = 1) =>
    visitor("POST", "/api/v1/auth/code/verify", { email, code: codeIn(await nextMail(email, count)) });
  const byCode = async (email: string) => {
    const before = mailTo(email).length;
    await must(visitor("POST", "/api/v1/auth/login/code", { email }), 204);
    return must(verify(email, before + 1), 200);
  };
  const people = (email: string) =>
    sql("select id from data.users where app_id = $1 and email = $2", [made.app, email]);
  return { ...made, visitor, register, login, verify, byCode, people };
}
type Registers = Awaited<ReturnType<typeof start>>["register"];
const refusal = async (answer: ReturnType<Registers>) => {
  const { status, body } = await answer;
  return [status, body.error.code];
};

describe("registering with a password", () => {
  it("makes a user in an org of its own, who is signed in, and signs in again by it", async () => {
    const { register, login } = await start();
    const email = anAddress();
    const body = await must(register(email, { full_name: "New One", alias: "new", timezone: "Europe/Vienna" }), 201);
    expect(body).toMatchObject({
      account_created: true,
      user: { email, name: "New One", alias: "new", org_role: "admin" },
    });
    const asUser = caller(bearer(body.token));
    expect(await must(asUser("GET", "/api/v1/users/me"), 200)).toMatchObject({ email, org_kind: "personal" });
    expect((await must(login(email), 200)).user.id).toBe(body.user.id);
  });

  it("shows the org as a person's own, and whose", async () => {
    const { register, at, asDeveloper } = await start();
    const { token, user } = await must(register(anAddress()), 201);
    const own = { id: user.org, kind: "personal" };
    const asUser = caller(bearer(token));
    expect((await must(asUser("GET", "/api/v1/users/me/orgs"), 200)).data).toMatchObject([
      { ...own, owner_user: user.id },
    ]);
    expect((await must(asUser("GET", "/api/v1/orgs"), 200)).data).toMatchObject([own]);
    expect(await must(asDeveloper("GET", `${at}/orgs/${user.org}`), 200)).toMatchObject({
      ...own,
      owner_user: user.id,
    });
  });

  it("tells of the org and of the user, as events and in the feed", async () => {
    const { register, asDeveloper } = await start();
    const { token, user } = await must(register(anAddress()), 201);
    const asUser = caller(bearer(token));
    const names = async (path: string, of: string) =>
      (await must(asUser("GET", path), 200)).data
        .map((one: any) => one[of])
        .filter((name: string) => /created/.test(name));
    expect((await names("/api/v1/activity_feed", "kind")).sort()).toEqual(["org.created", "user.created"]);
    const { data } = await must(asDeveloper("GET", `/api/v1/events?org=${user.org}`), 200);
    expect(data.map(({ event_name, payload }: any) => [event_name, payload]).sort()).toEqual([
      ["org.created", { id: user.org, status: "active" }],
      ["user.created", { id: user.id }],
    ]);
  });

  it("is refused where the app lets nobody register, or not so, whoever has the address: 403", async () => {
    const closed = await start({});
    const { email } = await closed.aUser(closed.acme);
    for (const one of [email, anAddress()]) {
      expect(await refusal(closed.register(one))).toEqual([403, "sign_up_closed"]);
    }
    const others = await start({ sign_up: "personal", methods: ["email_code"] });
    expect(await refusal(others.register(anAddress()))).toEqual([403, "method_disabled"]);
    const few = await start({ sign_up: "personal", allowed_emails: ["@one.example"] });
    expect(await refusal(few.register(anAddress()))).toEqual([403, "user_not_allowed"]);
  });

  it("tells that an address is taken: 409, and its password stays", async () => {
    const { register, people } = await start();
    const email = anAddress();
    await must(register(email), 201);
    expect(await refusal(register(email.toUpperCase(), { password: "another horse battery" }))).toEqual([409, "taken"]);
    expect(await people(email)).toHaveLength(1);
  });

  it.runIf(system.concurrent)("makes one of ten that come at once", { timeout: 60_000 }, async () => {
    const { register, people } = await start();
    const email = anAddress();
    const answers = await together(10, () => register(email));
    expect(answers.map(({ body }) => body.error?.code).sort()).toEqual([...Array(9).fill("taken"), undefined]);
    expect(await people(email)).toHaveLength(1);
  });

  it("takes a password of 10 to 256 characters, a time zone that there is, and no team's invite", async () => {
    const { register, visitor } = await start();
    const email = anAddress();
    const without = visitor("POST", "/api/v1/auth/register", { email });
    expect(await refusal(without)).toEqual([400, "password_required"]);
    const statuses = [];
    for (const fields of [{ password: "a".repeat(9) }, { timezone: "Mars/Olympus" }, { team_invite: "x" }]) {
      statuses.push((await register(email, fields)).status);
    }
    expect(statuses).toEqual([422, 422, 404]);
  });

  it("is refused beyond ten an hour from one place, and says until when", async () => {
    const { register, people } = await start();
    for (let i = 0; i < 10; i++) await must(register(anAddress()), 201);
    const email = anAddress();
    const { status, headers } = await register(email);
    expect([status, await people(email)]).toEqual([429, []]);
    expect(Number(headers.get("Retry-After"))).toBeGreaterThan(3500);
  });
});

describe("an address that must be proven", () => {
  it("of an org's domain is mailed a code, which joins the org and doesn't keep the password", async () => {
    const { acme, register, verify, login, people } = await start({ sign_up: "company" });
    const [{ domain }] = await sql("select domain from data.orgs where id = $1", [acme]);
    const email = `${unique("new")}@${domain}`;
    expect(await refusal(register(email, { full_name: "New One" }))).toEqual([403, "verification_required"]);
    expect(await people(email)).toEqual([]);
    const body = await must(verify(email), 200);
    expect(body).toMatchObject({ account_created: true, user: { org: acme, org_role: "member", name: "New One" } });
    expect((await login(email)).status).toBe(401);
    const set = caller(bearer(body.token))("PUT", "/api/v1/users/me/password", { password: PASSWORD });
    await must(set, 204);
    await must(login(email), 200);
  });

  it("is so where a company would be made of its domain, and where people have orgs of their own", async () => {
    const company = await start({ sign_up: "company" });
    const email = `${unique("ceo")}@${unique("free")}.example`;
    expect(await refusal(company.register(email))).toEqual([403, "verification_required"]);
    expect((await must(company.verify(email), 200)).user.org_role).toBe("admin");
    const personal = await start();
    const [{ domain }] = await sql("select domain from data.orgs where id = $1", [personal.acme]);
    expect(await refusal(personal.register(`x@${domain}`))).toEqual([403, "verification_required"]);
  });

  it("and is a public provider's, makes no company: 422", async () => {
    const { register } = await start({ sign_up: "company" });
    expect(await refusal(register(`${unique("x")}@gmail.com`))).toEqual([422, "no_org"]);
  });

  it("registered by somebody else, is its owner's at the first code: that password and all it let in is over", async () => {
    const { register, login, byCode, publishable_key } = await start();
    const email = anAddress();
    const stranger = await must(register(email), 201);
    const asStranger = caller(bearer(stranger.token));
    const made = { name: "kept", expires_in_days: 365 };
    const { token: personal } = await must(asStranger("POST", "/api/v1/users/me/tokens", made), 201);
    // A password that is set by the unproven one is no better.
    await must(asStranger("PUT", "/api/v1/users/me/password", { password: PASSWORD }), 204);
    const owner = await byCode(email);
    expect(owner.user.id).toBe(stranger.user.id);
    expect((await login(email)).status).toBe(401);
    const beside = caller({ "x-archastro-api-key": publishable_key });
    const refreshed = await beside("POST", "/api/v1/auth/refresh", { refresh_token: stranger.refresh_token });
    const dead = [
      refreshed,
      await asStranger("GET", "/api/v1/users/me"),
      await caller(bearer(personal))("GET", "/api/v1/users/me"),
    ];
    expect(dead.map(({ status }) => status)).toEqual([401, 401, 401]);
    await must(caller(bearer(owner.token))("GET", "/api/v1/users/me"), 200);
    // From then on a password is the owner's.
    await must(caller(bearer(owner.token))("PUT", "/api/v1/users/me/password", { password: PASSWORD }), 204);
    await byCode(email);
    await must(login(email), 200);
  });
});

describe("registering by an invitation into an org", () => {
  async function invited() {
    const made = await start({});
    const email = anAddress();
    await must(made.asDeveloper("POST", `${made.at}/orgs/${made.acme}/invitations`, { email, role: "admin" }), 201);
    const invite_code = (await nextMail(email)).text.match(/^inv_\S+$/m)![0];
    return { ...made, email, invite_code };
  }

  it("joins it with the role, though nobody may register: the key proves the address, and is used up", async () => {
    const { acme, email, invite_code, register, login, byCode } = await invited();
    const body = await must(register(email, { invite_code, full_name: "New One" }), 201);
    expect(body).toMatchObject({ account_created: true, user: { org: acme, org_role: "admin", name: "New One" } });
    expect(decodeJwt(body.token).org_id).toBe(acme);
    await byCode(email);
    await must(login(email), 200);
    expect((await register(anAddress(), { invite_code })).status).toBe(404);
  });

  it("is of its address and its app alone, and stays for them: 404 for others", async () => {
    const { email, invite_code, register } = await invited();
    const other = await start({});
    expect((await register(anAddress(), { invite_code })).status).toBe(404);
    expect((await other.register(email, { invite_code })).status).toBe(404);
    expect((await register(email, { invite_code: "inv_x" })).status).toBe(404);
    await must(register(email, { invite_code }), 201);
  });

  it("is refused for an address that somebody has: 409, and the key stays", async () => {
    const { email, invite_code, register, globex, aUser, at, asDeveloper } = await invited();
    const { id } = await aUser(globex, "member", { email });
    expect(await refusal(register(email, { invite_code }))).toEqual([409, "taken"]);
    await must(asDeveloper("DELETE", `${at}/users/${id}`), 204);
    await must(register(email, { invite_code }), 201);
  });
});
