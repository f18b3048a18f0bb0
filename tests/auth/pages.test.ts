/** The pages that people sign in and out by, as a browser without scripts uses them. */
import { describe, expect, it } from "vitest";
import { anApp, must, sql, system, unique } from "../harness/index.ts";
import { codeIn, linkIn, mailTo, nextMail } from "./mailbox.ts";
import { aBrowser } from "./pages.ts";

async function start() {
  const made = await anApp();
  const user = await made.aUser(made.acme, "member", { name: "Ada <b>" });
  const [{ slug }] = await sql("select slug from data.orgs where id = $1", [made.acme]);
  return { ...made, user, slug, home: `/login/${made.app}/${slug}` };
}

describe("a person of an org", () => {
  it("opens the app's page, takes the code from the mailbox, is in, signs out, and stands on the org's page", async () => {
    const { app, user, home } = await start();
    const { comeIn, submit, open, cookie } = aBrowser();
    const inside = await comeIn(`/login/${app}`, user.email);
    expect([inside.status, inside.path]).toEqual([200, home]);
    expect(inside.text).toContain("You are signed in to Acme");
    expect(inside.text).toContain("Ada &lt;b&gt;");
    const session = cookie();
    const outside = await submit(inside);
    expect([outside.path, cookie()]).toEqual([home, null]);
    expect(outside.text).toContain("Sign in to Acme");
    const again = await open(home, { Cookie: `__Host-agentry=${session}` });
    expect(again.text).toContain("Sign in to Acme");
  });

  it("who types a wrong code is told so on the page, and may try again", async () => {
    const { home, user } = await start();
    const { open, submit } = aBrowser();
    const asked = await submit(await open(home), { email: user.email });
    const code = codeIn(await nextMail(user.email));
    const wrong = await submit(asked, { code: code === "000000" ? "111111" : "000000" });
    expect(wrong.status).toBe(401);
    expect(wrong.text).toMatch(/role="alert"[^>]*>This code is wrong/);
    expect((await submit(wrong, { code })).text).toContain("You are signed in");
  });

  it("is led then where it wanted to go, and never to another host", async () => {
    const { home, user } = await start();
    const asked = `${home}?${new URLSearchParams({ return_to: "/device?app=x" })}`;
    expect((await aBrowser().comeIn(asked, user.email)).path).toBe("/device?app=x");
    for (const away of ["https://evil.example/", "//evil.example/", "/\\evil.example/", "device", "/a\nb"]) {
      const { comeIn, submit, open } = aBrowser();
      const there = `${home}?${new URLSearchParams({ return_to: away })}`;
      expect((await comeIn(there, user.email)).path).toBe(home);
      expect((await submit(await open(there), { email: user.email, return_to: away })).status).toBe(422);
    }
  });

  it("of a domain whose org has SSO goes to its provider, unless it asks for a code; the address doesn't matter", async () => {
    const { home, user, acme, app, aUser } = await start();
    const domain = user.email.split("@")[1];
    const elsewhere = (await aUser(acme, "member")).email.replace("@", "@elsewhere.");
    await sql("update data.org_domains set domain = $2 where org_id = $1", [acme, domain]);
    const asking = async (email: string, path = home) => {
      const { submit, open } = aBrowser();
      return (await submit(await open(path), { email })).text;
    };
    const state = (status: string) =>
      sql(
        `insert into data.sso_connections (app_id, sandbox_id, org_id, id, provider, status, auto_provision, jit_provisioning, default_role,
            session_max_s, allow_idp_initiated)
          select app_id, sandbox_id, id, 'sso_' || right(id, 22), 'saml', $2, false, false, 'member', 300, false from data.orgs where id = $1
          on conflict (app_id, sandbox_id, org_id) do update set status = $2`,
        [acme, status],
      );
    await state("untested");
    expect(await asking(user.email)).toContain("Check your mail");
    await state("active");
    const before = mailTo(user.email).length;
    for (const email of [user.email, `nobody-${user.email}`]) {
      expect(await asking(email, `${home}?return_to=/device`)).toContain(
        `/sso/${app}/-/${acme}/start?return_to=%2Fdevice`,
      );
    }
    expect(mailTo(user.email).length).toBe(before);
    expect(await asking(elsewhere)).toContain("Check your mail");
    expect(await asking(user.email, `${home}?by=code`)).toContain("Check your mail");
  });

  it("sees where it is signed in, and ends another sign-in from there", async () => {
    const { home, user } = await start();
    const one = aBrowser();
    const two = aBrowser();
    await one.comeIn(home, user.email);
    const inside = await two.comeIn(home, user.email);
    expect([...inside.text.matchAll(/by email_code/g)]).toHaveLength(2);
    expect((await two.submit(inside, {}, 1)).text).toContain("You are signed in");
    expect((await one.open(home)).text).toContain("Sign in to Acme");
    expect((await two.open(home)).text).toContain("You are signed in");
  });

  it("deactivated, is out with the next page", async () => {
    const { home, user } = await start();
    const { comeIn, open } = aBrowser();
    await comeIn(home, user.email);
    await sql("update data.users set deactivated_at = now() where id = $1", [user.id]);
    const { status, text } = await open(home);
    expect([status, text.includes("Sign in to Acme")]).toEqual([200, true]);
  });

  it("gets a session that scripts of our host use, and no other host's", async () => {
    const { home, user } = await start();
    const { comeIn, open } = aBrowser();
    await comeIn(home, user.email);
    const me = (site: string) => open("/api/v1/users/me", { "Sec-Fetch-Site": site });
    expect(JSON.parse((await me("same-origin")).text).id).toBe(user.id);
    expect((await me("same-site")).status).toBe(403);
    expect((await me("cross-site")).status).toBe(403);
  });
});

describe("a mailed link", () => {
  it("is used up by the button of its page, and by no look at it", async () => {
    const { asDeveloper, at, publishable_key, user } = await start();
    await must(asDeveloper("GET", at), 200);
    const asked = await fetch(`${system.base}/api/v1/auth/login/link`, {
      method: "POST",
      headers: { "x-archastro-api-key": publishable_key, "Content-Type": "application/json" },
      body: JSON.stringify({ email: user.email }),
    });
    expect(asked.status).toBe(204);
    const link = linkIn(await nextMail(user.email));
    const { open, submit } = aBrowser();
    await open(link.pathname + link.search);
    const shown = await open(link.pathname + link.search);
    expect((await submit(shown)).text).toContain("You are signed in to Acme");
    const late = await aBrowser().submit(shown);
    expect([late.status, late.text.includes("was used or has expired")]).toEqual([401, true]);
  });
});

describe("pages", () => {
  it("have no script, nothing of others, nobody's frame, no CORS, and aren't kept", async () => {
    const { home } = await start();
    for (const path of [
      ...[home, "/login/link?token=x", "/invitation?key=x", "/logout", "/login/dap_0000000000000000000000"],
    ]) {
      const { headers, text } = await aBrowser().open(path);
      expect(headers.get("Content-Security-Policy")).toBe(
        "default-src 'none'; style-src 'self'; img-src 'self' https:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
      );
      expect(headers.get("Access-Control-Allow-Origin")).toBeNull();
      expect(headers.get("Cache-Control")).toBe("no-store");
      expect(headers.get("Content-Type")).toBe("text/html; charset=utf-8");
      expect(text).not.toMatch(/<script|\son\w+=|\sstyle=/i);
    }
    const { headers, text } = await aBrowser().open("/login.css");
    expect([headers.get("Content-Type"), text.includes("color-scheme")]).toEqual(["text/css; charset=utf-8", true]);
  });

  it("of an app, an org or a sandbox that isn't there are one 404, as a page", async () => {
    const { app, slug } = await start();
    const other = await start();
    const answers: unknown[][] = [];
    for (const path of [
      ...[
        "/login/x",
        "/login/dap_0000000000000000000000",
        `/login/${app}/${unique("no")}`,
        `/login/${app}/${other.slug}`,
      ],
      ...[`/login/${app}/dsb_0000000000000000000000/${slug}`, `/login/${app}/x/${slug}`],
    ]) {
      const { status, text, headers } = await aBrowser().open(path);
      answers.push([status, text, headers.get("Content-Type")]);
    }
    expect(answers).toEqual(answers.map(() => answers[0]));
    expect(answers[0]![0]).toBe(404);
  });

  it("put what was typed into HTML as text", async () => {
    const { home } = await start();
    const { open, submit } = aBrowser();
    const email = `"'onx='"@example.com`;
    const { text } = await submit(await open(home), { email });
    expect(text).not.toContain(email);
  });

  it.each([
    ["another site", { "Sec-Fetch-Site": "cross-site" }],
    ["a sibling host", { "Sec-Fetch-Site": "same-site" }],
    ["a foreign origin, by a browser that says no more", { "Sec-Fetch-Site": "", Origin: "https://evil.example" }],
  ])("take no form of %s", async (_, headers) => {
    const { home, user } = await start();
    const { open, submit, comeIn } = aBrowser();
    const first = await submit(await open(home), { email: user.email }, 0, headers);
    expect(first.status).toBe(403);
    expect(mailTo(user.email)).toEqual([]);
    const inside = await comeIn(home, user.email);
    expect((await submit(inside, {}, 0, headers)).status).toBe(403);
    expect((await open(home)).text).toContain("You are signed in");
  });

  it("take no form that isn't theirs: forged, of another page, or of another sign-in", async () => {
    const { app, home, user } = await start();
    const { open, send, formOf, comeIn } = aBrowser();
    const { form } = formOf(await open(`/login/${app}`)).fields;
    for (const one of ["", "x", form!, `${"A".repeat(43)}=`]) {
      expect((await send(home, { form: one, email: user.email })).status).toBe(403);
    }
    const theirs = aBrowser();
    const inside = await theirs.comeIn(home, user.email);
    await comeIn(home, user.email);
    expect((await send("/logout", theirs.formOf(inside).fields as never)).status).toBe(403);
    expect((await send(home, { email: user.email })).status).toBe(422);
  });

  it("say as pages what they refuse", async () => {
    const { home } = await start();
    const { open, submit, send } = aBrowser();
    const bad = await submit(await open(home), { email: "nobody" });
    expect([bad.status, bad.headers.get("Content-Type")]).toEqual([422, "text/html; charset=utf-8"]);
    expect(bad.text).toContain("must be an e-mail address");
    const json = await send(home, {}, { "Content-Type": "application/json" });
    expect([json.status, json.headers.get("Content-Type")]).toEqual([415, "text/html; charset=utf-8"]);
  });
});
