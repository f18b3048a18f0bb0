/** Invitations into an org, for who proves the address; and those of a user to the others of its org. */
import { describe, expect, it } from "vitest";
import { linkIn, mailTo, nextMail } from "../auth/mailbox.ts";
import { aBrowser } from "../auth/pages.ts";
import { anApp, bearer, caller, must, sql, system, together, unique } from "../harness/index.ts";

const anAddress = () => `${unique("ada")}@example.com`;
const ACCEPT = "/api/v1/invitations/accept";
const keyOf = async (email: string, count = 1): Promise<string> =>
  (await nextMail(email, count)).text.match(/^inv_\S+$/m)![0];

describe("an invitation", () => {
  it("is mailed to its address, and its key makes a user of the org who is signed in, with the role", async () => {
    const { acme, as, asNobody, asDeveloper, at, owners } = await anApp();
    const [path, email] = [`/api/v1/orgs/${acme}/invitations`, anAddress()];
    const made = await must(as(acme)("POST", path, { email, role: "admin" }), 201);
    expect(made).toMatchObject({ org: acme, email, role: "admin", status: "pending", invited_by: owners[acme] });
    const days = (Date.parse(made.expires_at) - Date.parse(made.created_at)) / 86_400_000;
    expect(days).toBeCloseTo(7, 3);
    expect((await nextMail(email)).subject).toBe("You are invited to Acme at Test");
    const key = await keyOf(email);
    const entered = await must(asNobody("POST", ACCEPT, { key }), 200);
    expect(entered).toMatchObject({ account_created: true, user: { email } });
    const me = await must(caller(bearer(entered.token))("GET", "/api/v1/users/me"), 200);
    expect(me).toMatchObject({ email, org: acme, org_role: "admin" });
    expect((await asNobody("POST", "/api/v1/auth/refresh", { refresh_token: entered.refresh_token })).status).toBe(200);
    expect((await must(as(acme)("GET", path), 200)).data).toEqual([]);
    const { data } = await must(asDeveloper("GET", `${at}/users/${me.id}/sessions`), 200);
    expect(data).toMatchObject([{ method: "invitation" }]);
  });

  it("is accepted once: again, unknown, taken back and past its time are one 404", async () => {
    const { acme, as, asNobody } = await anApp();
    const path = `/api/v1/orgs/${acme}/invitations`;
    const keys: string[] = [];
    const open = async () => {
      const email = anAddress();
      const { id } = await must(as(acme)("POST", path, { email }), 201);
      keys.push(await keyOf(email));
      return id;
    };
    await open();
    await must(asNobody("POST", ACCEPT, { key: keys[0] }), 200);
    expect((await as(acme)("DELETE", `${path}/${await open()}`)).status).toBe(204);
    const old = await open();
    await sql("update data.org_invitations set expires_at = now() where id = $1", [old]);
    expect((await must(as(acme)("GET", path), 200)).data).toMatchObject([{ id: old, status: "expired" }]);
    keys.push(`${keys[0]!.slice(0, -1)}${keys[0]!.endsWith("A") ? "B" : "A"}`, "x", keys[0]!.replace("inv_", "whk_"));
    const same = { "X-Request-Id": "the-same-one" };
    const answers = await Promise.all(keys.map((key) => asNobody("POST", ACCEPT, { key }, same)));
    expect(answers.map(({ status }) => status)).toEqual(keys.map(() => 404));
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
  });

  it("is mailed again, once a minute, and lasts from then on; each of its keys works until one did", async () => {
    const { acme, as, asNobody } = await anApp();
    const [path, email] = [`/api/v1/orgs/${acme}/invitations`, anAddress()];
    const { id } = await must(as(acme)("POST", path, { email }), 201);
    const first = await keyOf(email);
    const early = await as(acme)("POST", `${path}/${id}/resend`);
    expect([early.status, early.headers.get("Retry-After")]).toEqual([429, "60"]);
    const before = "sent_at = now() - interval '61 seconds', expires_at = now() + interval '1 hour'";
    await sql(`update data.org_invitations set ${before} where id = $1`, [id]);
    const again = await must(as(acme)("POST", `${path}/${id}/resend`), 200);
    expect(Date.parse(again.expires_at) - Date.now()).toBeGreaterThan(6.9 * 86_400_000);
    const second = await keyOf(email, 2);
    expect(second).not.toBe(first);
    await must(asNobody("POST", ACCEPT, { key: first }), 200);
    expect((await asNobody("POST", ACCEPT, { key: second })).status).toBe(404);
    expect((await as(acme)("POST", `${path}/${id}/resend`)).status).toBe(404);
  });

  it("shows its key to nobody, not even who makes it, and one Idempotency-Key mails once", async () => {
    const { acme, as, asDeveloper, at } = await anApp();
    const email = anAddress();
    const key = { "Idempotency-Key": "one" };
    const path = `${at}/orgs/${acme}/invitations`;
    const made = await asDeveloper("POST", path, { email }, key);
    expect(await must(asDeveloper("POST", path, { email }, key), 201)).toEqual(made.body);
    const text = await keyOf(email);
    for (const said of [
      made.text,
      (await asDeveloper("GET", path)).text,
      JSON.stringify((await as(acme)("GET", "/api/v1/activity_feed")).body),
    ]) {
      expect(said).not.toContain(text.slice(-43));
    }
    expect(JSON.stringify(await sql("select * from data.one_time_secrets where org_id = $1", [acme]))).not.toContain(
      text.slice(-43),
    );
    await expect.poll(() => mailTo(email).length).toBe(1);
  });

  it("is for who isn't in the org yet, once: 409", async () => {
    const { acme, globex, as, aUser, asNobody } = await anApp();
    const [path, email, theirs] = [`/api/v1/orgs/${acme}/invitations`, anAddress(), anAddress()];
    const { email: member } = await aUser(acme);
    const refused = await as(acme)("POST", path, { email: member.toUpperCase() });
    expect([refused.status, refused.body.error.code]).toEqual([409, "already_member"]);
    await must(as(acme)("POST", path, { email }), 201);
    expect((await as(acme)("POST", path, { email: email.toUpperCase() })).status).toBe(409);
    // Whether it is somebody's of another org, only who proves it learns.
    await aUser(globex, "member", { email: theirs });
    await must(as(acme)("POST", path, { email: theirs }), 201);
    const key = await keyOf(theirs);
    expect((await asNobody("POST", ACCEPT, { key })).status).toBe(409);
  });

  it("gives no more than the inviter has: an admin makes no owner, and a member invites nobody", async () => {
    const { acme, globex, as } = await anApp();
    const path = `/api/v1/orgs/${acme}/invitations`;
    const invite = (role: "owner" | "admin" | "member", to: string) =>
      as(acme, { role })("POST", path, { email: anAddress(), role: to });
    const above = await invite("admin", "owner");
    expect([above.status, above.body.error.fields[0].field]).toEqual([422, "role"]);
    expect((await invite("admin", "admin")).status).toBe(201);
    expect((await invite("owner", "owner")).status).toBe(201);
    expect((await invite("member", "viewer")).status).toBe(403);
    const email = anAddress();
    expect((await as(globex)("POST", path, { email })).status).toBe(404);
    expect(mailTo(email)).toEqual([]);
  });

  it("into a suspended org is refused: 403", async () => {
    const { acme, asDeveloper, asNobody, at } = await anApp();
    const email = anAddress();
    await must(asDeveloper("POST", `${at}/orgs/${acme}/invitations`, { email }), 201);
    const key = await keyOf(email);
    await must(asDeveloper("PATCH", `${at}/orgs/${acme}`, { status: "suspended" }), 200);
    expect((await asNobody("POST", ACCEPT, { key })).status).toBe(403);
  });

  it.runIf(system.concurrent)("accepted fifty times at once makes one user", async () => {
    const { acme, as, asNobody } = await anApp();
    const email = anAddress();
    await must(as(acme)("POST", `/api/v1/orgs/${acme}/invitations`, { email }), 201);
    const key = await keyOf(email);
    const answers: any[] = await together(50, () => asNobody("POST", ACCEPT, { key }));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(49).fill(404)]);
  });
});

describe("the page of an invitation", () => {
  /** An org that has invited an address, and the page that is mailed there. */
  async function invited({ role = "member", email = anAddress() } = {}) {
    const made = await anApp();
    const [{ slug }] = await sql("select slug from data.orgs where id = $1", [made.acme]);
    const at = `/api/v1/orgs/${made.acme}/invitations`;
    const { id } = await must(made.as(made.acme)("POST", at, { email, role }), 201);
    const link = linkIn(await nextMail(email));
    expect(link.origin).toBe(system.secrets.ISSUERS);
    const home = `/login/${made.app}/${slug}`;
    return { ...made, email, id, path: link.pathname + link.search, home, invitations: at };
  }
  const over = "was accepted, was taken back, or has expired";

  it("says who invites whom into what, and its button, which works once, lets in on the org's page", async () => {
    const { path, email, home, acme, asDeveloper, at } = await invited({ role: "admin" });
    const browser = aBrowser();
    await browser.open(path);
    const shown = await browser.open(path);
    expect(shown.status).toBe(200);
    for (const said of ["Join Acme", "Acme&#39;s owner invites you to Acme at Test, as admin", email]) {
      expect(shown.text).toContain(said);
    }
    const inside = await browser.submit(shown);
    expect([inside.status, inside.path, inside.text.includes("You are signed in to Acme")]).toEqual([200, home, true]);
    const { data } = await must(asDeveloper("GET", `${at}/users?org=${acme}&role=admin`), 200);
    expect(data).toMatchObject([{ email }]);
    const again = await aBrowser().submit(shown);
    expect([again.status, again.text.includes(over)]).toEqual([404, true]);
    expect((await aBrowser().open(path)).text).toContain(over);
    expect((await browser.open(path)).text).toContain(over);
  });

  it("says one and the same of a key that was taken back, is past its time, another one's, and of none", async () => {
    const { as, acme, id, path, invitations } = await invited();
    const old = await invited();
    await sql("update data.org_invitations set expires_at = now() where id = $1", [old.id]);
    await must(as(acme)("DELETE", `${invitations}/${id}`), 204);
    const wrong = `${path.slice(0, -1)}${path.endsWith("A") ? "B" : "A"}`;
    const pages = await Promise.all(
      [path, old.path, wrong, "/invitation?key=x", "/invitation"].map((one) => aBrowser().open(one)),
    );
    expect(pages.map(({ status }) => status)).toEqual(pages.map(() => 404));
    expect(new Set(pages.map(({ text }) => text)).size).toBe(1);
    expect(pages[0]!.text).toContain(over);
  });

  it("lets nobody accept in another's name: it offers to sign out, and then leads back", async () => {
    const { path, email, aUser, acme, home } = await invited();
    const browser = aBrowser();
    const { email: theirs } = await aUser(acme, "member");
    await browser.comeIn(home, theirs);
    const shown = await browser.open(path);
    expect(shown.text).toContain(`You are signed in as ${theirs}`);
    expect(shown.text).not.toContain("Accept");
    const back = await browser.submit(shown);
    expect([back.path, browser.cookie()]).toEqual([path, null]);
    expect((await browser.submit(back)).text).toContain(email);
  });

  it("tells who has the address, and is in the org or in another one, that it is", async () => {
    const { path, email, aUser, acme, globex, home, app, as, invitations } = await invited();
    await aUser(acme, "member", { email });
    const browser = aBrowser();
    await browser.comeIn(home, email);
    expect((await browser.open(path)).text).toContain(`<a href="${home}">You are in Acme already</a>`);
    const taken = aBrowser();
    const refused = await taken.submit(await taken.open(path));
    expect([refused.status, refused.text.includes(`<a href="/login/${app}">Sign in</a>`)]).toEqual([409, true]);
    const { email: theirs } = await aUser(globex, "member");
    await must(as(acme)("POST", invitations, { email: theirs }), 201);
    const link = linkIn(await nextMail(theirs));
    const other = aBrowser();
    await other.comeIn(`/login/${app}`, theirs);
    expect((await other.open(link.pathname + link.search)).text).toContain("This address is of Globex already");
  });

  it("leads to the provider of an org that lets nobody in otherwise, who is a user of it then; the API says so", async () => {
    const { path, email, acme, app, as, invitations, asNobody, asDeveloper, at } = await invited();
    await sql(
      `insert into data.sso_connections (app_id, sandbox_id, org_id, id, provider, status, auto_provision, jit_provisioning, default_role,
          session_max_s, allow_idp_initiated)
        select app_id, sandbox_id, id, 'sso_' || right(id, 22), 'saml', 'active', false, false, 'member', 300, false from data.orgs where id = $1`,
      [acme],
    );
    const other = anAddress();
    await must(as(acme)("POST", invitations, { email: other }), 201);
    const key = await keyOf(other);
    await sql("update data.sso_connections set status = 'enforced' where org_id = $1", [acme]);
    const browser = aBrowser();
    const led = await browser.submit(await browser.open(path));
    expect([led.status, led.text.includes(`url=/sso/${app}/-/${acme}/start`), browser.cookie()]).toEqual([
      ...[200, true, null],
    ]);
    const refused = await asNobody("POST", ACCEPT, { key });
    expect([refused.status, refused.body.error.code]).toEqual([403, "sso_required"]);
    const { data } = await must(asDeveloper("GET", `${at}/users?org=${acme}&search=@example.com`), 200);
    expect(data.map((one: any) => one.email)).toEqual(expect.arrayContaining([email, other]));
  });

  it.runIf(system.concurrent)("lets one browser in, of fifty whose button is pressed at once", async () => {
    const { path, acme } = await invited();
    const browsers = await together(50, async () => {
      const browser = aBrowser();
      return { ...browser, shown: await browser.open(path) };
    });
    const pressed = await Promise.all(browsers.map(({ submit, shown }) => submit(shown)));
    expect(pressed.map(({ status }) => status).sort()).toEqual([200, ...Array(49).fill(404)]);
    expect(browsers.filter(({ cookie }) => cookie() !== null)).toHaveLength(1);
    const made = await sql("select 1 from data.token_families where org_id = $1 and carrier = 'browser'", [acme]);
    expect(made).toHaveLength(1);
  });

  it("takes no form of another site, none that isn't ours, and no suspended org's", async () => {
    const { path, acme, asDeveloper, at } = await invited();
    const { open, submit, send, formOf } = aBrowser();
    const shown = await open(path);
    const { fields } = formOf(shown);
    expect((await submit(shown, {}, 0, { "Sec-Fetch-Site": "cross-site" })).status).toBe(403);
    expect((await send("/invitation", { ...fields, form: `${"A".repeat(43)}=` })).status).toBe(403);
    await must(asDeveloper("PATCH", `${at}/orgs/${acme}`, { status: "suspended" }), 200);
    expect((await submit(shown)).status).toBe(403);
    await must(asDeveloper("PATCH", `${at}/orgs/${acme}`, { status: "active" }), 200);
    expect((await submit(shown)).text).toContain("You are signed in to Acme");
  });
});

describe("an invite of a user", () => {
  it("has a key of 192 bits, shown once, and lasts fourteen days", async () => {
    const { acme, as, owners } = await anApp();
    const path = `/api/v1/users/${owners[acme]}/invites`;
    const key = { "Idempotency-Key": "one" };
    const invite = { metadata: { about: "a project" } };
    const made = await must(as(acme)("POST", path, { invite }, key), 201);
    expect(made).toMatchObject({
      thread: null,
      metadata: invite.metadata,
      user: { id: owners[acme], name: "Acme's owner" },
    });
    expect(Buffer.from(made.key, "base64url")).toHaveLength(24);
    expect(await must(as(acme)("POST", path, { invite }, key), 201)).toEqual({ ...made, key: null });
    const [row] = await sql(
      "select expires_at - created_at = interval '14 days' as lasts from data.user_invites where id = $1",
      [made.id],
    );
    expect(row.lasts).toBe(true);
    expect((await as(acme)("POST", path, { invite: { thread_id: "thr_1" } })).status).toBe(404);
  });

  it("is accepted within its org, once, and not by whose it is; elsewhere it is absent", async () => {
    const { acme, globex, as, owners } = await anApp();
    const { key, id } = await must(as(acme)("POST", "/api/v1/users/me/invites", { invite: {} }), 201);
    const accept = (call: any, text = key) =>
      call("POST", "/api/v1/invites/accept", { key: text }, { "X-Request-Id": "the-same-one" });
    const absent = await accept(as(globex), "nobody's");
    expect(absent.status).toBe(404);
    expect((await accept(as(globex))).text).toBe(absent.text);
    expect((await accept(as(acme))).status).toBe(409);
    const colleague = as(acme, { role: "viewer" });
    expect(await must(accept(colleague), 200)).toMatchObject({ id, key: null, user: { id: owners[acme] } });
    expect((await accept(colleague)).status).toBe(409);
    await sql("update data.user_invites set expires_at = now() where id = $1", [id]);
    expect((await accept(colleague)).status).toBe(404);
    // What has ended goes with the next.
    await must(as(acme)("POST", "/api/v1/users/me/invites", { invite: {} }), 201);
    expect(await sql("select id from data.user_invites where id = $1", [id])).toEqual([]);
  });

  it.runIf(system.concurrent)("is accepted by one, of fifty who do so at once", async () => {
    const { acme, as, aUser, aToken } = await anApp();
    const { key } = await must(as(acme)("POST", "/api/v1/users/me/invites", { invite: {} }), 201);
    const colleagues = await together(5, async () => {
      const { id } = await aUser(acme, "member");
      return caller(bearer((await aToken(id)).access_token));
    });
    const answers = await together(50, (i) => colleagues[i % 5]!("POST", "/api/v1/invites/accept", { key }));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(49).fill(409)]);
    const told = await sql(
      "select 1 from data.activity_feed_entries where org_id = $1 and kind = 'user_invite.accepted'",
      [acme],
    );
    expect(told).toHaveLength(1);
  });

  it("is one's own to make", async () => {
    const { acme, as, aUser, asDeveloper } = await anApp();
    const { id } = await aUser(acme);
    expect((await as(acme)("POST", `/api/v1/users/${id}/invites`, { invite: {} })).status).toBe(404);
    expect((await asDeveloper("POST", "/api/v1/invites/accept", { key: "x" })).status).toBe(403);
  });
});
