import { decodeJwt } from "jose";
import { describe, expect, it } from "vitest";
import { hex } from "../../lib/auth/secrets.ts";
import { countedBy } from "../../lib/auth/visitors.ts";
import { NONE } from "../../lib/db/schema.ts";
import { anApp, bearer, caller, must, sql, system, together, unique } from "../harness/index.ts";
import { codeIn, linkIn, mailTo, nextMail } from "./mailbox.ts";

/** An app, a member of acme, and a visitor with the app's publishable key. */
async function start(auth?: object) {
  const made = await anApp();
  if (auth) await must(made.asDeveloper("PATCH", made.at, { settings: { auth } }), 200);
  const user = await made.aUser(made.acme, "member");
  const visitor = caller({ "x-archastro-api-key": made.publishable_key });
  const ask = (email: string, kind = "login", fields = {}) =>
    visitor("POST", `/api/v1/auth/${kind}/code`, { email, ...fields });
  const verify = (email: string, code: string) => visitor("POST", "/api/v1/auth/code/verify", { email, code });
  /** Asks, and reads what is mailed. */
  const codeFor = async (email: string, kind = "login", fields = {}) => {
    const before = mailTo(email).length;
    await must(ask(email, kind, fields), 204);
    return codeIn(await nextMail(email, before + 1));
  };
  return { ...made, user, visitor, ask, verify, codeFor };
}
const another = (code: string) => String((Number(code) + 1) % 1_000_000).padStart(6, "0");

describe("a code that is mailed", () => {
  it("signs in, and says when and how: a sign-in with an access token and a refresh token", async () => {
    const { user, verify, codeFor, publishable_key } = await start();
    const body = await must(verify(user.email, await codeFor(user.email)), 200);
    expect(body).toMatchObject({
      token_type: "Bearer",
      account_created: false,
      user: { id: user.id, org_name: "Acme" },
    });
    const { sid, auth_time, iat } = decodeJwt(body.token);
    expect(auth_time).toBe(iat);
    const asUser = caller(bearer(body.token));
    expect((await asUser("GET", "/api/v1/users/me/sessions")).body.data).toMatchObject([
      { id: sid, method: "email_code", carrier: "api", current: true },
    ]);
    const beside = caller({ "x-archastro-api-key": publishable_key });
    await must(beside("POST", "/api/v1/auth/refresh", { refresh_token: body.refresh_token }), 200);
  });

  it("knows an address however it is written, and a code with a blank in it", async () => {
    const { user, verify, codeFor } = await start();
    const code = await codeFor(user.email);
    await must(verify(user.email.toUpperCase(), `${code.slice(0, 3)} ${code.slice(3)}`), 200);
  });

  it("works once", async () => {
    const { user, verify, codeFor } = await start();
    const code = await codeFor(user.email);
    await must(verify(user.email, code), 200);
    const { status, body } = await verify(user.email, code);
    expect([status, body.error.code]).toEqual([401, "invalid_code"]);
  });

  it("works for ten minutes", async () => {
    const { app, user, verify, codeFor } = await start();
    const age = (by: string) =>
      sql(`update data.one_time_secrets set expires_at = expires_at - interval '${by}' where app_id = $1`, [app]);
    const late = await codeFor(user.email);
    await age("601 seconds");
    expect((await verify(user.email, late)).status).toBe(401);
    const early = await codeFor(user.email);
    await age("570 seconds");
    await must(verify(user.email, early), 200);
  });

  it("takes five tries: the fifth may be right, the sixth may not", async () => {
    const { user, verify, codeFor } = await start();
    const first = await codeFor(user.email);
    for (let i = 0; i < 4; i++) expect((await verify(user.email, another(first))).status).toBe(401);
    await must(verify(user.email, first), 200);
    const second = await codeFor(user.email);
    for (let i = 0; i < 5; i++) expect((await verify(user.email, another(second))).status).toBe(401);
    expect((await verify(user.email, second)).status).toBe(401);
  });

  it("gives way to a newer one, with five tries of its own", async () => {
    const { user, verify, codeFor } = await start();
    const old = await codeFor(user.email);
    for (let i = 0; i < 5; i++) await verify(user.email, another(old));
    const code = await codeFor(user.email);
    if (code !== old) expect((await verify(user.email, old)).status).toBe(401);
    await must(verify(user.email, code), 200);
  });

  it("is of one app: it opens no other's, where the same address is", async () => {
    const one = await start();
    const two = await start();
    const email = `${unique("both")}@example.com`;
    await one.aUser(one.acme, "member", { email });
    await two.aUser(two.acme, "member", { email });
    const code = await one.codeFor(email);
    expect((await two.verify(email, code)).status).toBe(401);
    await must(one.verify(email, code), 200);
  });

  it("is kept as nothing that shows it", async () => {
    const { app, user, codeFor } = await start();
    const code = await codeFor(user.email);
    const rows = await sql("select payload::text || hash::text as row from data.one_time_secrets where app_id = $1", [
      app,
    ]);
    expect(rows.map(({ row }) => row.includes(code))).toEqual([false]);
  });

  it.runIf(system.concurrent)(
    "stops 40 guesses at once at five, and lets one of 40 right ones in",
    { timeout: 120_000 },
    async () => {
      const { app, user, verify, codeFor } = await start();
      const code = await codeFor(user.email);
      await together(40, () => verify(user.email, another(code)));
      const [{ attempts }] = await sql("select attempts from data.one_time_secrets where app_id = $1", [app]);
      expect(attempts).toBe(5);
      const right = await codeFor(user.email);
      const statuses = (await together(40, () => verify(user.email, right))).map(({ status }) => status);
      expect(statuses.filter((status) => status === 200)).toEqual([200]);
    },
  );
});

describe("nobody learns from the answers whose an address is", () => {
  const seen = ({ status, headers, text }: Awaited<ReturnType<ReturnType<typeof caller>>>) => ({
    status,
    text,
    headers: [...headers].filter(([name]) => !["x-request-id", "date"].includes(name)),
  });

  it("known, unknown, deactivated, suspended and without an org ask alike; the mail says what is so", async () => {
    const { user, ask, aUser, acme, globex, at, asDeveloper } = await start();
    const dead = await aUser(acme);
    await sql("update data.users set deactivated_at = now() where id = $1", [dead.id]);
    const shut = await aUser(globex);
    await must(asDeveloper("PATCH", `${at}/orgs/${globex}`, { status: "suspended" }), 200);
    const loose = await aUser(null);
    const nobody = `${unique("nobody")}@example.com`;
    const said: [email: string, mail: RegExp][] = [
      [user.email, /^\d{6}$/m],
      [nobody, /no account/],
      [dead.email, /deactivated/],
      [shut.email, /suspended/],
      [loose.email, /no organization/],
    ];
    const answers: unknown[] = [];
    for (const [email] of said) answers.push(seen(await ask(email)));
    expect(answers).toEqual(answers.map(() => answers[0]));
    for (const [email, mail] of said) {
      const { text } = await nextMail(email);
      expect(text).toMatch(mail);
      if (email !== user.email) expect(text).not.toMatch(/\d{6}/);
    }
  });

  it("who must come by the org's own sign-in asks alike, too: the mail says so, and where; who may come otherwise has a code", async () => {
    const { at, acme, user, ask, verify, codeFor, aUser, asDeveloper } = await start();
    const spare = await aUser(acme, "owner");
    const unknown = seen(await ask(`${unique("nobody")}@example.com`));
    const before = await codeFor(user.email);
    await must(asDeveloper("PUT", `${at}/orgs/${acme}/sso`, { provider: "saml" }), 200);
    await sql("update data.sso_connections set status = 'enforced', break_glass = array[$2] where org_id = $1", [
      acme,
      spare.id,
    ]);
    expect((await verify(user.email, before)).status).toBe(401);
    expect(seen(await ask(user.email))).toEqual(unknown);
    const { text } = await nextMail(user.email, 2);
    const { slug } = await must(asDeveloper("GET", `${at}/orgs/${acme}`), 200);
    expect(text).toMatch(/its own sign-in alone/);
    expect(linkIn({ text } as never).pathname).toMatch(new RegExp(`^/login/dap_\\w+/${slug}$`));
    expect(text).not.toMatch(/^\d{6}$/m);
    await must(verify(spare.email, await codeFor(spare.email)), 200);
  });

  it("a wrong code is refused alike for each of them, with no code asked for and with one", async () => {
    const { user, verify, ask, aUser, acme } = await start();
    const dead = await aUser(acme);
    await sql("update data.users set deactivated_at = now() where id = $1", [dead.id]);
    const nobody = `${unique("nobody")}@example.com`;
    const answers: unknown[] = [];
    for (const email of [user.email, dead.email, nobody]) {
      answers.push((await verify(email, "000000")).body.error);
      await must(ask(email), 204);
      answers.push((await verify(email, "000000x")).body.error);
    }
    expect(answers).toEqual(answers.map(() => answers[0]));
  });

  it("deactivated after the code was mailed, nobody gets in", async () => {
    const { user, verify, codeFor } = await start();
    const code = await codeFor(user.email);
    await sql("update data.users set deactivated_at = now() where id = $1", [user.id]);
    expect((await verify(user.email, code)).status).toBe(401);
  });
});

describe("an app says who may sign in, and how", () => {
  it("by which methods: 403 for another, known address or not", async () => {
    const { user, ask } = await start({ methods: ["password"] });
    for (const email of [user.email, `${unique("no")}@example.com`]) {
      const { status, body } = await ask(email);
      expect([status, body.error.code]).toEqual([403, "method_disabled"]);
    }
  });

  it("and which addresses: listed ones, and those of a listed domain", async () => {
    const { ask } = await start({ allowed_emails: ["Ann@one.example", "@two.example"] });
    const statuses = [];
    for (const email of [
      "ann@one.example",
      "bob@one.example",
      "x@two.example",
      "x@sub.two.example",
      "two.example@x.example",
    ]) {
      statuses.push((await ask(email)).status);
    }
    expect(statuses).toEqual([204, 403, 204, 403, 403]);
  });

  it("checks what is set", async () => {
    const { at, asDeveloper } = await start();
    const set = async (auth: object) => (await asDeveloper("PATCH", at, { settings: { auth } })).status;
    expect(await set({ methods: ["telepathy"] })).toBe(422);
    expect(await set({ sign_up: "anybody" })).toBe(422);
    expect(await set({ allowed_emails: ["no address"] })).toBe(422);
    expect(await set({ redirect_hosts: ["https://one.example/"] })).toBe(422);
    expect(await set({ session: { api_idle_seconds: 1 } })).toBe(422);
    expect(await set({ session: { browser_absolute_seconds: 2_592_001 } })).toBe(422);
    expect(await set({ telephone: true })).toBe(422);
    expect(await set({ methods: ["email_code"], session: { browser_idle_seconds: 600 } })).toBe(200);
  });

  it("shortens how long a sign-in lives", async () => {
    const { user, verify, codeFor } = await start({
      session: { api_idle_seconds: 7200, api_absolute_seconds: 86_400 },
    });
    const { token } = await must(verify(user.email, await codeFor(user.email)), 200);
    const { sid } = decodeJwt(token);
    const [row] = await sql(
      "select extract(epoch from expires_at - created_at)::int as idle, extract(epoch from ends_at - created_at)::int as most from data.token_families where id = $1",
      [sid],
    );
    expect(row).toEqual({ idle: 7200, most: 86_400 });
  });
});

describe("registering by a code", () => {
  it("is refused unless the app says otherwise, for whatever address", async () => {
    const { user, ask } = await start();
    for (const email of [user.email, `${unique("new")}@example.com`]) {
      const { status, body } = await ask(email, "register");
      expect([status, body.error.code]).toEqual([400, "sign_up_closed"]);
    }
  });

  it("of a person makes an org of its own, at the click and not before", async () => {
    const { app, verify, codeFor } = await start({ sign_up: "personal" });
    const email = `${unique("new")}@example.com`;
    const code = await codeFor(email, "register", { full_name: "New One", alias: "new" });
    const people = () => sql("select id from data.users where app_id = $1 and email = $2", [app, email]);
    expect(await people()).toEqual([]);
    const body = await must(verify(email, code), 200);
    expect(body).toMatchObject({
      account_created: true,
      user: { email, name: "New One", alias: "new", org_role: "admin" },
    });
    expect(await people()).toHaveLength(1);
    const [org] = await sql("select domain, slug from data.orgs where id = $1", [body.user.org]);
    expect(org.domain).toBe(`${org.slug}.personal.invalid`);
    await must(caller(bearer(body.token))("GET", "/api/v1/users/me"), 200);
  });

  it("of a company joins the org that has the address's domain, as a member", async () => {
    const { acme, verify, codeFor } = await start({ sign_up: "company" });
    const [{ domain }] = await sql("select domain from data.orgs where id = $1", [acme]);
    const email = `${unique("new")}@${domain}`;
    const { user } = await must(verify(email, await codeFor(email, "register")), 200);
    expect([user.org, user.org_role]).toEqual([acme, "member"]);
  });

  it("of a company makes one for a domain that is free, and its owner; the next joins it", async () => {
    const { verify, codeFor } = await start({ sign_up: "company" });
    const domain = `${unique("free")}.example`;
    const first = await must(verify(`a@${domain}`, await codeFor(`a@${domain}`, "register")), 200);
    const second = await must(verify(`b@${domain}`, await codeFor(`b@${domain}`, "register")), 200);
    expect([first.user.org_role, second.user.org_role]).toEqual(["admin", "member"]);
    expect([second.user.org, second.account_created]).toEqual([first.user.org, true]);
  });

  it("tells of whom and what it makes, in the org, as a developer's making them does", async () => {
    const { verify, codeFor, asDeveloper } = await start({ sign_up: "company" });
    const domain = `${unique("free")}.example`;
    const told = async (email: string) => {
      const { user } = await must(verify(email, await codeFor(email, "register")), 200);
      const { data } = await must(asDeveloper("GET", `/api/v1/events?org=${user.org}`), 200);
      return [user, data.map(({ event_name, payload }: any) => `${event_name} ${payload.id}`)];
    };
    const [first, both] = await told(`a@${domain}`);
    expect(both.sort()).toEqual([`org.created ${first.org}`, `user.created ${first.id}`]);
    const [second, more] = await told(`b@${domain}`);
    expect(more).toHaveLength(3);
    expect(more).toContain(`user.created ${second.id}`);
  });

  it("of a company takes no address of a public provider: its domain is nobody's", async () => {
    const { ask } = await start({ sign_up: "company" });
    const { status, body } = await ask(`${unique("x")}@Gmail.com`, "register");
    expect([status, body.error.code]).toEqual([422, "no_org"]);
  });

  it("signs in who has an account", async () => {
    const { user, verify, codeFor } = await start({ sign_up: "personal" });
    const body = await must(verify(user.email, await codeFor(user.email, "register")), 200);
    expect([body.account_created, body.user.id]).toEqual([false, user.id]);
  });

  it("closed meanwhile, makes nobody", async () => {
    const { at, verify, codeFor, asDeveloper } = await start({ sign_up: "personal" });
    const email = `${unique("new")}@example.com`;
    const code = await codeFor(email, "register");
    await must(asDeveloper("PATCH", at, { settings: { auth: { sign_up: "closed" } } }), 200);
    expect((await verify(email, code)).status).toBe(401);
  });
});

describe("asking for mail", () => {
  it("is refused beyond ten an hour to one address, and says until when; known or not", async () => {
    const { app, user, ask } = await start();
    const here = await countedBy(
      system.secrets.ROOT_SECRETS,
      { app, sandbox: NONE, beside: null } as never,
      "mails.127.0.0.1",
    );
    const forget = () => sql("delete from app.attempts where key = decode($1, 'hex')", [hex(here)]);
    for (const email of [user.email, `${unique("nobody")}@example.com`]) {
      await forget();
      for (let i = 0; i < 10; i++) await must(ask(email), 204);
      // It is counted by place, too: that count is taken back.
      await forget();
      const { status, headers } = await ask(email);
      expect(status).toBe(429);
      expect(Number(headers.get("Retry-After"))).toBeGreaterThan(3500);
    }
  });

  it("is refused beyond ten an hour from one place, whatever it says of itself", async () => {
    const { publishable_key } = await start();
    const ask = (i: number) =>
      caller({ "x-archastro-api-key": publishable_key, "CF-Connecting-IP": `192.0.2.${i}` })(
        "POST",
        "/api/v1/auth/login/code",
        {
          email: `${unique("n")}@example.com`,
        },
      );
    for (let i = 0; i < 10; i++) await must(ask(i), 204);
    expect((await ask(11)).status).toBe(429);
  });

  it("needs a key that lives: none, nonsense, and a revoked one are 401", async () => {
    const { user, at, asDeveloper, publishable_key } = await start();
    const ask = async (headers: Record<string, string>) =>
      (await caller(headers)("POST", "/api/v1/auth/login/code", { email: user.email })).status;
    expect([await ask({}), await ask({ "x-archastro-api-key": "pk_live_x" })]).toEqual([401, 401]);
    const { data } = (await asDeveloper("GET", `${at}/keys`)).body;
    const key = data.find(({ type }: any) => type === "publishable");
    await must(asDeveloper("DELETE", `${at}/keys/${key.id}`), 200);
    expect(await ask({ "x-archastro-api-key": publishable_key })).toBe(401);
    expect(mailTo(user.email)).toEqual([]);
  });
});
