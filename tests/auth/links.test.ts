import { describe, expect, it } from "vitest";
import { anApp, caller, must, sql, system, together, unique } from "../harness/index.ts";
import { linkIn, mailTo, nextMail } from "./mailbox.ts";

async function start(auth: object = {}) {
  const made = await anApp();
  await must(made.asDeveloper("PATCH", made.at, { settings: { auth } }), 200);
  const user = await made.aUser(made.acme, "member");
  const visitor = caller({ "x-archastro-api-key": made.publishable_key });
  const ask = (email: string, kind = "login", fields = {}) =>
    visitor("POST", `/api/v1/auth/${kind}/link`, { email, ...fields });
  const verify = (token: string | null) => visitor("POST", "/api/v1/auth/verify/link", { token });
  const linkFor = async (email: string, kind = "login", fields = {}) => {
    const before = mailTo(email).length;
    await must(ask(email, kind, fields), 204);
    return linkIn(await nextMail(email, before + 1));
  };
  const tokenFor = async (...asked: Parameters<typeof linkFor>) => (await linkFor(...asked)).searchParams.get("token");
  return { ...made, user, ask, verify, linkFor, tokenFor };
}

describe("a link that is mailed", () => {
  it("leads to a page of ours, and its token signs in, once", async () => {
    const { user, linkFor, verify } = await start();
    const link = await linkFor(user.email);
    expect(link.origin + link.pathname).toBe(`${system.secrets.ISSUERS}/login/link`);
    const token = link.searchParams.get("token");
    expect((await must(verify(token), 200)).user.id).toBe(user.id);
    const { status, body } = await verify(token);
    expect([status, body.error.code, body.error.message]).toEqual([
      401,
      "authentication_error",
      "invalid_or_expired_token",
    ]);
  });

  it("leads, with its token, to a host that the app names, port and all, and to no other: 400", async () => {
    const { user, ask, linkFor } = await start({ redirect_hosts: ["app.example", "localhost:3000"] });
    const link = await linkFor(user.email, "login", { redirect_uri: "https://app.example/in?next=%2Fa" });
    expect([link.origin, link.pathname, link.searchParams.get("next")]).toEqual(["https://app.example", "/in", "/a"]);
    expect(link.searchParams.get("token")).toMatch(/^lnk_/);
    await must(ask(user.email, "login", { redirect_uri: "http://localhost:3000/" }), 204);
    for (const redirect_uri of [
      ...[
        "https://evil.example/",
        "https://app.example.evil.example/",
        "https://sub.app.example/",
        "http://localhost:3001/",
      ],
      ...["https://app.example@evil.example/", "https://app.example:444/"],
    ]) {
      const { status, body } = await ask(user.email, "login", { redirect_uri });
      expect([redirect_uri, status, body.error.code]).toEqual([redirect_uri, 400, "redirect_uri"]);
    }
    for (const redirect_uri of ["javascript:alert(1)", "app.example"]) {
      expect((await ask(user.email, "login", { redirect_uri })).status).toBe(422);
    }
  });

  it("works for fifteen minutes", async () => {
    const { app, user, tokenFor, verify } = await start();
    const age = (by: string) =>
      sql(`update data.one_time_secrets set expires_at = expires_at - interval '${by}' where app_id = $1`, [app]);
    const late = await tokenFor(user.email);
    await age("901 seconds");
    expect((await verify(late)).status).toBe(401);
    const early = await tokenFor(user.email);
    await age("870 seconds");
    await must(verify(early), 200);
  });

  it("leaves those before it alive: each works once", async () => {
    const { user, tokenFor, verify } = await start();
    const [one, two] = [await tokenFor(user.email), await tokenFor(user.email)];
    await must(verify(two), 200);
    await must(verify(one), 200);
  });

  it("is of one app: another one's key opens nothing with it, and uses up nothing", async () => {
    const { user, tokenFor, verify } = await start();
    const other = await start();
    const token = await tokenFor(user.email);
    expect((await other.verify(token)).status).toBe(401);
    await must(verify(token), 200);
  });

  it.each(["", "lnk_x", "x".repeat(200)])("is refused when malformed: %j", async (token) => {
    const { verify } = await start();
    expect((await verify(token)).status).toBe(401);
  });

  it("to nobody says so, and has no token", async () => {
    const { ask } = await start();
    const email = `${unique("nobody")}@example.com`;
    await must(ask(email), 204);
    const { text } = await nextMail(email);
    expect(text).toContain("no account");
    expect(text).not.toContain("http");
  });

  it("registers who asks to, where the app lets people; asked for either way, it signs in or registers", async () => {
    const closed = await start();
    const email = `${unique("new")}@example.com`;
    const { status, body } = await closed.ask(email, "register", { full_name: "New" });
    expect([status, body.error.code]).toEqual([400, "sign_up_closed"]);
    await must(closed.ask(email, "request"), 204);
    expect((await nextMail(email)).text).toContain("no account");

    const { tokenFor, verify } = await start({ sign_up: "personal" });
    const made = await must(verify(await tokenFor(email, "request", { full_name: "New" })), 200);
    expect(made).toMatchObject({ account_created: true, user: { email, name: "New" } });
    const again = await must(verify(await tokenFor(email, "request")), 200);
    expect([again.account_created, again.user.id]).toEqual([false, made.user.id]);
  });

  it("is one of the app's methods, or 403", async () => {
    const { user, ask } = await start({ methods: ["email_code"] });
    expect((await ask(user.email)).body.error.code).toBe("method_disabled");
  });

  it.runIf(system.concurrent)("lets one in of 50 at once", async () => {
    const { user, tokenFor, verify } = await start();
    const token = await tokenFor(user.email);
    const statuses = (await together(50, () => verify(token))).map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toEqual([200]);
  });
});
