/** Our pages in a browser, as people have one: Chromium, where it is installed (`.ci/run` sees to that). */
import { existsSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { inflateRawSync } from "node:zlib";
import axe from "axe-core";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { codeIn, linkIn, nextMail } from "../auth/mailbox.ts";
import { anApp, bearer, caller, must, system, unique } from "../harness/index.ts";
import { aKey, anAssertion, aResponse, sign } from "../sso/provider.ts";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";

describe.runIf(existsSync(CHROMIUM))("in Chromium", () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  });
  afterAll(() => browser.close());

  async function aPerson() {
    const made = await anApp();
    const { slug, id } = await made.anOrg({ name: "Initech" });
    const email = `${unique("ann")}@initech.example`;
    await made.aUser(id, "member", { email, name: "Ann" });
    const invite = async () => {
      const invited = `${unique("bob")}@initech.example`;
      await must(made.asDeveloper("POST", `${made.at}/orgs/${id}/invitations`, { email: invited }), 201);
      const { pathname, search } = linkIn(await nextMail(invited));
      return system.base + pathname + search;
    };
    return { ...made, email, invite, login: `${system.base}/login/${made.app}/${slug}` };
  }

  /** A page of a browser that knows nothing yet, and what that browser refused to do. */
  async function open(url: string, options: BrowserContextOptions = {}) {
    const context = await browser.newContext({ javaScriptEnabled: false, ...options });
    const page = await context.newPage();
    const refused: string[] = [];
    // A picture for its tab it asks for by itself.
    const isOwn = (url: string) => url.endsWith("/favicon.ico");
    page.on("console", (message) => {
      if (message.type() === "error" && !isOwn(message.location().url)) refused.push(message.text());
    });
    await page.goto(url);
    return { page, context, refused };
  }

  const title = (page: Page) => page.locator("h1").innerText();
  /** By keyboard alone, to the page where somebody is signed in. */
  async function signIn(page: Page, email: string, mails = 1) {
    await page.keyboard.press("Tab");
    await page.keyboard.type(email);
    await page.keyboard.press("Enter");
    await page.waitForSelector("#code");
    await page.keyboard.press("Tab");
    await page.keyboard.type(codeIn(await nextMail(email, mails)));
    await page.keyboard.press("Enter");
    await page.waitForSelector("h2");
  }

  it("somebody signs in by keyboard and without a script, signs out, and stands on the org's page", async () => {
    const { login, email } = await aPerson();
    const { page, context, refused } = await open(login);
    expect(await title(page)).toBe("Sign in to Initech");
    await signIn(page, email);
    expect([await title(page), page.url()]).toEqual(["You are signed in to Initech", login]);
    const [cookie] = await context.cookies();
    expect(cookie).toMatchObject({ name: "__Host-agentry", httpOnly: true, secure: true, sameSite: "Lax", path: "/" });
    await page.getByRole("button", { name: "Sign out" }).first().click();
    await page.waitForSelector("#email");
    expect([await title(page), page.url(), await context.cookies()]).toEqual(["Sign in to Initech", login, []]);
    expect(refused).toEqual([]);
    await context.close();
  });

  it("somebody who is invited follows the link, accepts by keyboard, and stands on the org's page", async () => {
    const { login, invite } = await aPerson();
    const { page, context, refused } = await open(await invite());
    expect(await title(page)).toBe("Join Initech");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.waitForSelector("h2");
    expect([await title(page), page.url(), refused]).toEqual(["You are signed in to Initech", login, []]);
    await context.close();
  });

  it("fits a screen of 320 pixels, dark or light, and axe finds nothing", async () => {
    const { login, email, invite } = await aPerson();
    const invitation = await invite();
    for (const [n, colorScheme] of (["light", "dark"] as const).entries()) {
      // What looks at a page is a script of ours: the page's own policy would let none in.
      const options = { viewport: { width: 320, height: 640 }, colorScheme, javaScriptEnabled: true, bypassCSP: true };
      const { page, context } = await open(login, options);
      const look = async () => {
        expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(320);
        await page.addScriptTag({ content: axe.source });
        const { violations } = await page.evaluate<axe.AxeResults>("axe.run()");
        expect(violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)])).toEqual([]);
      };
      await look();
      for (const one of [`${system.base}/invitation`, invitation]) {
        await page.goto(one);
        await look();
      }
      await page.goto(login);
      await page.fill("#email", email);
      await page.click("button");
      await page.waitForSelector("#code");
      await look();
      await page.fill("#code", "000000");
      await page.click("button");
      await page.waitForSelector("[role=alert]");
      await look();
      await page.fill("#code", codeIn(await nextMail(email, n + 1)));
      await page.click("button");
      await page.waitForSelector("h2");
      await look();
      for (const one of [`${system.base}/device`, invitation]) {
        await page.goto(one);
        await look();
      }
      await context.close();
    }
  });

  it("a terminal signs in by a code that somebody decides on who signs in for it", async () => {
    const { login, email, at, asDeveloper } = await aPerson();
    await must(asDeveloper("PATCH", at, { settings: { auth: { third_party_oauth: true } } }), 200);
    const scopes = ["agents:read"];
    const { client_id } = await must(asDeveloper("POST", `${at}/oauth_clients`, { name: "A terminal", scopes }), 201);
    const device = await must(caller()("POST", "/oauth/device/authorize", { client: client_id }), 200);
    const asked = new URL(device.verification_uri_complete);
    const { page, context, refused } = await open(system.base + asked.pathname + asked.search);
    await page.locator("#email").fill(email);
    await page.getByRole("button", { name: "Continue" }).click();
    await page.locator("#code").fill(codeIn(await nextMail(email)));
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.waitForLoadState();
    expect(await page.locator("main").innerText()).toContain("A terminal");
    await page.getByRole("button", { name: "Allow", exact: true }).click();
    await page.waitForLoadState();
    const grant = { grant_type: "urn:ietf:params:oauth:grant-type:device_code", device_code: device.device_code };
    const { access_token, scope } = await must(caller()("POST", "/oauth/token", grant), 200);
    expect(scope).toBe("agents:read");
    await must(caller(bearer(access_token))("GET", "/api/v1/agents"), 200);
    expect([refused, login.startsWith(system.base)]).toEqual([[], true]);
    await context.close();
  });

  it("a provider of another site posts its response, and the browser that asked is signed in", async () => {
    const { asDeveloper, at, app, anOrg } = await anApp();
    const { id, slug, domain } = await anOrg({ name: "Initech" });
    const key = await aKey();
    const local = (url: string) => url.replace("http://agentry.test", system.base);
    // A site of its own, whatever the port: names count, not machines.
    let config: any;
    const provider = createServer((request, response) => {
      const packed = new URL(request.url!, issuer).searchParams.get("SAMLRequest");
      if (!packed) return response.writeHead(404).end();
      const asked = inflateRawSync(Buffer.from(packed, "base64")).toString();
      const said = { now: Date.now(), issuer, in_response_to: /ID="([^"]+)"/.exec(asked)![1]!, ...config };
      const assertion = anAssertion(said).replace("ada@acme.example", `ann@${domain}`);
      const signed = Buffer.from(sign(aResponse(said, assertion), "_response", key)).toString("base64");
      response.setHeader("Content-Type", "text/html");
      response.end(
        `<form method="post" action="${local(config.acs_url)}"><input type="hidden" name="SAMLResponse" value="${signed}"><button>Go</button></form>`,
      );
    });
    await new Promise<void>((ready) => provider.listen(0, "127.0.0.1", ready));
    const issuer = `http://localhost:${(provider.address() as AddressInfo).port}/sso`;
    const settings = { provider: "saml", entity_id: issuer, sso_url: issuer, auto_provision: true };
    const body = { ...settings, certificate: key.certificate };
    config = await must(asDeveloper("PUT", `${at}/orgs/${id}/sso`, body), 200);
    const { page, context, refused } = await open(local(config.start_url));
    expect(new URL(page.url()).hostname).toBe("localhost");
    await page.click("button");
    await page.waitForSelector("h2");
    expect([await title(page), page.url()]).toEqual([
      "You are signed in to Initech",
      `${system.base}/login/${app}/${slug}`,
    ]);
    expect((await context.cookies()).map(({ name }) => name)).toEqual(["__Host-agentry"]);
    expect(refused).toEqual([]);
    provider.close();
    await context.close();
  });

  it("another site's form signs nobody in or out, and its frame shows nothing", async () => {
    const { login, email } = await aPerson();
    const { page, context } = await open(login);
    await signIn(page, email);
    await page.setContent(`<form method="post" action="${system.base}/logout"><button>Win</button></form>`);
    await page.click("button");
    await page.waitForLoadState();
    await page.goto(login);
    expect(await title(page)).toBe("You are signed in to Initech");
    await page.setContent(`<iframe src="${login}"></iframe>`);
    await page.waitForTimeout(500);
    expect(await page.frames()[1]?.locator("h1").count()).toBe(0);
    await context.close();
  });
});
