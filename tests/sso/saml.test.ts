/** SAML through the front door: an org's connection, its states, logins, and who somebody is. */
import { inflateRawSync } from "node:zlib";
import { beforeAll, describe, expect, it } from "vitest";
import { logoutRequest } from "../../lib/sso/saml/message.ts";
import { type App, anApp, bearer, type Call, caller, must, sql, system, together, unique } from "../harness/index.ts";
import { aKey, anAssertion, aResponse, type ProviderKey, sign } from "./provider.ts";
import { aBrowser, type Browser, form, me, signOut } from "./stage.ts";

const ISSUER = "https://idp.example/metadata";
const SSO_URL = "https://idp.example/sso";
let key: ProviderKey;
let other: ProviderKey;
beforeAll(async () => {
  [key, other] = await Promise.all([aKey(), aKey()]);
});

const local = (url: string) => url.replace("http://agentry.test", system.base);

type Org = { id: string; domain: string; at: string; config: any };
type Said = { email?: string; subject?: string; name?: string; groups?: string[]; session?: string };

/** An org with a connection: what is set, and where its SP is. */
async function anOrg(app: App, fields: object = {}): Promise<Org> {
  const { id, domain } = await app.anOrg();
  const at = `${app.at}/orgs/${id}/sso`;
  const config = await must(app.asDeveloper("PUT", at, setting(fields)), 200);
  return { id, domain, at, config };
}
const setting = (fields: object = {}) => ({
  ...{ provider: "saml", entity_id: ISSUER, sso_url: SSO_URL, certificate: key.certificate, auto_provision: true },
  ...fields,
});

/** Begins a login: what the provider is asked. */
async function begun(org: Org, browser: Browser, query = "") {
  const response = await browser.ask(local(org.config.start_url) + query);
  const location = response.headers.get("Location") ?? "";
  const [, packed = ""] = /SAMLRequest=([^&]*)/.exec(location) ?? [];
  const request = packed && inflateRawSync(Buffer.from(decodeURIComponent(packed), "base64")).toString();
  return { response, location, request, id: /ID="([^"]+)"/.exec(request)?.[1] ?? "" };
}

/** What the provider answers, signed. */
function answer(org: Org, request: string, { email, subject, name, groups = [], session = "s1" }: Said = {}, by = key) {
  const said = {
    now: Date.now(),
    issuer: ISSUER,
    in_response_to: request,
    acs_url: org.config.acs_url,
    sp_entity_id: org.config.sp_entity_id,
  };
  const attribute = (of: string, values: string[]) =>
    values.length
      ? `<saml:Attribute Name="${of}">${values.map((value) => `<saml:AttributeValue>${value}</saml:AttributeValue>`).join("")}</saml:Attribute>`
      : "";
  const person = email ?? `ada@${org.domain}`;
  const assertion = anAssertion(said, {
    id: `_${unique("a")}`,
    nameId: `<saml:NameID>${subject ?? `subject of ${person}`}</saml:NameID>`,
    statements: `<saml:AuthnStatement AuthnInstant="${new Date().toISOString()}" SessionIndex="${session}"/><saml:AttributeStatement>${attribute("email", [person])}${attribute("displayName", name ? [name] : [])}${attribute("groups", groups)}</saml:AttributeStatement>`,
  });
  return Buffer.from(sign(aResponse(said, assertion), "_response", by)).toString("base64");
}

const posted = (org: Org, browser: Browser, SAMLResponse: string) =>
  browser.ask(local(org.config.acs_url), { ...form({ SAMLResponse }), headers: { Cookie: "" } });
const finished = (org: Org, browser: Browser) => browser.ask(local(org.config.acs_url).replace(/acs$/, "finish"));

/** A whole login. The status is that of the page where it ended: 303, into the app. */
async function login(org: Org, said: Said = {}, browser = aBrowser(), by = key) {
  const { id } = await begun(org, browser);
  const taken = await posted(org, browser, answer(org, id, said, by));
  if (taken.status !== 303) return { status: taken.status, text: await taken.text(), browser };
  const response = await finished(org, browser);
  return { status: response.status, text: await response.text(), browser, location: response.headers.get("Location") };
}
const lastAttempt = async (app: App, org: Org) =>
  (await must(app.asDeveloper("GET", `${org.at}/attempts`), 200)).data[0];

describe("a connection", () => {
  it("is set, read and taken away by a developer, and by the org's owner alone", async () => {
    const app = await anApp();
    const at = `/api/v1/orgs/${app.acme}/sso`;
    const owner = app.as(app.acme);
    expect((await owner("GET", at)).status).toBe(404);
    const made = await must(owner("PUT", at, setting()), 200);
    expect(made).toMatchObject({ status: "untested", missing: [], entity_id: ISSUER, certificate: key.certificate });
    expect(made.sp_entity_id).toBe(`http://agentry.test/sso/${app.app}/-/${app.acme}/metadata`);
    expect(made.fingerprints[0].sha256).toMatch(/^[0-9a-f]{64}$/);
    expect(await must(owner("GET", at), 200)).toEqual(made);
    expect(await must(app.asDeveloper("GET", `${app.at}/orgs/${app.acme}/sso`), 200)).toEqual(made);
    expect((await app.as(app.acme, { role: "admin" })("GET", at)).status).toBe(403);
    expect((await app.as(app.globex)("GET", at)).status).toBe(404);
    expect((await app.as(app.globex)("PUT", at, setting())).status).toBe(404);
    await must(owner("DELETE", at), 204);
    expect((await owner("GET", at)).status).toBe(404);
  });

  it("that lacks something is kept, says what, and lets nobody in", async () => {
    const app = await anApp();
    const org = await anOrg(app, { certificate: null, sso_url: null });
    expect(org.config).toMatchObject({ status: "incomplete", missing: ["sso_url", "certificates"] });
    const { response } = await begun(org, aBrowser());
    expect(response.status).toBe(400);
    const oidc = await must(
      app.asDeveloper("PUT", org.at, { provider: "oidc", issuer_url: "https://idp.example" }),
      200,
    );
    expect(oidc).toMatchObject({ status: "incomplete", missing: ["client_id", "client_secret"] });
  });

  it("is set by the provider's metadata", async () => {
    const app = await anApp();
    const metadata_xml = `<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" entityID="https://other.example"><md:IDPSSODescriptor><md:KeyDescriptor><ds:KeyInfo xmlns:ds="http://www.w3.org/2000/09/xmldsig#"><ds:X509Data><ds:X509Certificate>${key.certificate}</ds:X509Certificate></ds:X509Data></ds:KeyInfo></md:KeyDescriptor><md:SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" Location="https://other.example/sso"/></md:IDPSSODescriptor></md:EntityDescriptor>`;
    const { config } = await anOrg(app, { entity_id: null, sso_url: null, certificate: null, metadata_xml });
    expect(config).toMatchObject({
      entity_id: "https://other.example",
      sso_url: "https://other.example/sso",
      missing: [],
    });
  });

  it.each([
    ["certificates", { certificate: "no certificate" }],
    ["metadata_xml", { metadata_xml: "<x/>" }],
    ["sso_url", { sso_url: "javascript:alert(1)" }],
    ["role_mapping.0.role", { role_mapping: [{ group: "all", role: "owner" }] }],
    ["default_role", { default_role: "owner" }],
  ])("tells a fault of %s", async (field, fields) => {
    const app = await anApp();
    const { status, body } = await app.asDeveloper("PUT", `${app.at}/orgs/${app.acme}/sso`, setting(fields));
    expect([status, body.error.fields[0].field]).toEqual([422, field]);
  });

  it("keeps its client secret sealed, where a PUT does not name it, and lets it go by null", async () => {
    const app = await anApp();
    const at = `${app.at}/orgs/${app.acme}/sso`;
    const oidc = { provider: "oidc", issuer_url: "https://idp.example", client_id: "c" };
    const put = (fields: object) => must(app.asDeveloper("PUT", at, { ...oidc, ...fields }), 200);
    const secret = unique("secret");
    expect(JSON.stringify(await put({ client_secret: secret }))).not.toContain(secret);
    expect((await put({})).missing).toEqual([]);
    const [row] = await sql("select encode(sealed, 'escape') as sealed from data.sso_connections where org_id = $1", [
      app.acme,
    ]);
    expect(row.sealed).not.toContain(secret);
    expect((await put({ client_secret: null })).missing).toEqual(["client_secret"]);
  });
});

describe("a login", () => {
  it("is asked for by a signed request, and signs the browser in that asked", async () => {
    const app = await anApp();
    const org = await anOrg(app);
    const browser = aBrowser();
    const { location, request, id } = await begun(org, browser, "?return_to=/app?x=1");
    expect(location).toMatch(/^https:\/\/idp\.example\/sso\?SAMLRequest=.*&SigAlg=.*&Signature=/);
    expect(request).toContain(`AssertionConsumerServiceURL="${org.config.acs_url}"`);
    const taken = await posted(org, browser, answer(org, id));
    expect([taken.status, taken.headers.get("Location")]).toEqual([303, "finish"]);
    const done = await finished(org, browser);
    expect([done.status, done.headers.get("Location")]).toEqual([303, "/app?x=1"]);
    const { status, body } = await me(browser);
    expect([status, body.email, body.org]).toEqual([200, `ada@${org.domain}`, org.id]);
    expect(await lastAttempt(app, org)).toMatchObject({ succeeded: true, subject: `subject of ada@${org.domain}` });
  });

  it("makes an untested connection active", async () => {
    const app = await anApp();
    const org = await anOrg(app);
    await login(org);
    expect((await must(app.asDeveloper("GET", org.at), 200)).status).toBe("active");
  });

  it.each(["//evil.example", "https://evil.example", "/\\evil.example", "/a\\b"])("never leads to %s", async (path) => {
    const org = await anOrg(await anApp());
    const { response } = await begun(org, aBrowser(), `?return_to=${encodeURIComponent(path)}`);
    expect(response.status).toBe(400);
  });

  it("leads to an address of the app's, where it is registered, with a login token that signs in once", async () => {
    const app = await anApp();
    const org = await anOrg(app, { session_max_s: 600 });
    const to = (uri: string) => `?redirect_uri=${encodeURIComponent(uri)}`;
    const uri = "https://app.example:8443/done?state=x";
    expect((await begun(org, aBrowser(), to(uri))).response.status).toBe(400);
    const settings = { auth: { redirect_hosts: ["app.example:8443"] } };
    await must(app.asDeveloper("PATCH", app.at, { settings }), 200);
    for (const bad of ["https://app.example/done", "https://evil.example", "javascript:alert(1)", "/done", "x"]) {
      expect((await begun(org, aBrowser(), to(bad))).response.status).toBe(400);
    }
    const browser = aBrowser();
    const { id } = await begun(org, browser, to(uri));
    await posted(org, browser, answer(org, id));
    const done = await finished(org, browser);
    const location = new URL(done.headers.get("Location")!);
    const token = location.searchParams.get("token")!;
    expect([location.origin, location.searchParams.get("state"), browser.cookies.size]).toEqual([
      ...["https://app.example:8443", "x", 0],
    ]);
    const visitor = caller({ "x-archastro-api-key": app.publishable_key });
    const enter = () => visitor("POST", "/api/v1/auth/token", { token });
    const access = (await must(enter(), 200)).token;
    expect((await must(caller(bearer(access))("GET", "/api/v1/users/me"), 200)).email).toBe(`ada@${org.domain}`);
    expect((await enter()).status).toBe(401);
    const [made] = await sql(
      "select method, extract(epoch from ends_at - created_at)::int <= 600 as bounded, details ->> 'session_index' as session from data.token_families where org_id = $1 and carrier = 'api'",
      [org.id],
    );
    expect(made).toEqual({ method: "saml", bounded: true, session: "s1" });
  });

  it("is finished by no other browser, and by the one that asked once", async () => {
    const org = await anOrg(await anApp());
    const [browser, thief] = [aBrowser(), aBrowser()];
    const { id } = await begun(org, browser);
    await begun(org, thief);
    expect((await posted(org, thief, answer(org, id))).status).toBe(303);
    expect((await finished(org, thief)).status).toBe(400);
    const cookie = new Map(browser.cookies);
    expect((await finished(org, browser)).status).toBe(303);
    for (const [name, value] of cookie) browser.cookies.set(name, value);
    expect((await finished(org, browser)).status).toBe(400);
  });

  it("is taken once, of 20 equal responses at once", async () => {
    const app = await anApp();
    const org = await anOrg(app);
    const browser = aBrowser();
    const { id } = await begun(org, browser);
    const response = answer(org, id);
    const taken = await together(20, () => posted(org, browser, response));
    expect(taken.filter(({ status }) => status === 303).length).toBe(1);
    expect((await sql("select 1 from data.users where org_id = $1", [org.id])).length).toBe(1);
    expect((await posted(org, browser, response)).status).toBe(400);
  });

  it.runIf(system.concurrent)(
    "is taken once of fifty equal responses at once, and finished once of fifty",
    async () => {
      const org = await anOrg(await anApp());
      const browser = aBrowser();
      const { id } = await begun(org, browser);
      const response = answer(org, id);
      const led = async (way: () => Promise<Response>) => (await together(50, async () => (await way()).status)).sort();
      const once = [303, ...Array(49).fill(400)];
      expect(await led(() => posted(org, browser, response))).toEqual(once);
      const { cookies } = browser;
      expect(
        await led(() => {
          const one = aBrowser();
          for (const [name, value] of cookies) one.cookies.set(name, value);
          return finished(org, one);
        }),
      ).toEqual(once);
      expect(await sql("select 1 from data.token_families where org_id = $1", [org.id])).toHaveLength(1);
    },
  );

  it("that is refused shows a visitor a reference, and an admin the sentence", async () => {
    const app = await anApp();
    const org = await anOrg(app);
    const wrong = { ...org, config: { ...org.config, sp_entity_id: "https://other.example" } };
    const browser = aBrowser();
    const { id } = await begun(org, browser);
    const response = await posted(org, browser, answer(wrong, id));
    const text = await response.text();
    const { id: reference, message } = await lastAttempt(app, org);
    expect([response.status, text.includes(reference), text.includes("other.example")]).toEqual([400, true, false]);
    expect(message).toBe(`The audience is https://other.example. Set the SP entity ID to ${org.config.sp_entity_id}.`);
    expect(response.headers.get("Content-Security-Policy")).toContain("default-src 'none'");
  });

  it("of one org is none at another, though both trust the same key and the response names the other", async () => {
    const app = await anApp();
    const [a, b] = [await anOrg(app), await anOrg(app)];
    const browser = aBrowser();
    const { id } = await begun(b, browser);
    expect((await posted(b, browser, answer(a, id))).status).toBe(400);
    const asked = await begun(a, browser);
    expect((await posted(b, browser, answer(b, asked.id))).status).toBe(400);
  });

  it("by another key is refused, and the last fifty tries are kept", async () => {
    const app = await anApp();
    const org = await anOrg(app);
    expect((await login(org, {}, aBrowser(), other)).status).toBe(400);
    expect((await lastAttempt(app, org)).message).toContain("signed by a key that is not set");
    await together(52, () => posted(org, aBrowser(), "AAAA"));
    expect((await must(app.asDeveloper("GET", `${org.at}/attempts`), 200)).data.length).toBe(50);
  });

  it("that nobody here asked for only starts one, where that is allowed", async () => {
    const app = await anApp();
    const org = await anOrg(app, { allow_idp_initiated: true });
    const unasked = Buffer.from(
      Buffer.from(answer(org, "x"), "base64")
        .toString()
        .replaceAll(/ InResponseTo="x"/g, ""),
    ).toString("base64");
    const response = await posted(org, aBrowser(), unasked);
    expect([response.status, response.headers.get("Location")]).toEqual([303, org.config.start_url]);
    await must(app.asDeveloper("PUT", org.at, setting()), 200);
    expect((await posted(org, aBrowser(), unasked)).status).toBe(400);
  });

  it("ends when the org says", async () => {
    const app = await anApp();
    const org = await anOrg(app, { session_max_s: 600 });
    await login(org);
    const [row] = await sql(
      "select extract(epoch from ends_at - created_at)::int as s, details from data.token_families where org_id = $1",
      [org.id],
    );
    expect(row).toMatchObject({
      s: 600,
      details: { session_index: "s1", name_id: { value: `subject of ada@${org.domain}` } },
    });
  });
});

describe("who it is", () => {
  it("is the same person by the subject, whatever the address becomes", async () => {
    const app = await anApp();
    const org = await anOrg(app, { jit_provisioning: true });
    await login(org, { subject: "one", name: "Ada" });
    const { browser } = await login(org, { subject: "one", email: "someone@elsewhere.example", name: "Ada L." });
    expect((await me(browser)).body).toMatchObject({ email: `ada@${org.domain}`, name: "Ada L." });
  });

  it("is left alone after the first login, by auto_provision", async () => {
    const org = await anOrg(await anApp());
    await login(org, { subject: "one", name: "Ada" });
    const { browser } = await login(org, { subject: "one", name: "Eve" });
    expect((await me(browser)).body.name).toBe("Ada");
  });

  it.each([
    ["nobody who isn't here, without provisioning", { auto_provision: false }, {}, "Nobody here has"],
    [
      "nobody of a domain that the org doesn't vouch for",
      {},
      { email: "ada@elsewhere.example" },
      "in no verified domain",
    ],
    ["nobody without an address", {}, { email: "no-address" }, "gave no e-mail address"],
    ["nobody by an address of other letters", {}, { email: "аda@domain" }, "gave no e-mail address"],
  ])("is %s", async (_, fields, said: Said, sentence) => {
    const app = await anApp();
    const org = await anOrg(app, fields);
    expect((await login(org, said)).status).toBe(400);
    expect((await lastAttempt(app, org)).message).toContain(sentence);
  });

  it("is a user of the org who is there already, once; another subject with the address is refused", async () => {
    const app = await anApp();
    const org = await anOrg(app, { auto_provision: false });
    const user = await app.aUser(org.id, "admin", { email: `Ada@${org.domain}` });
    const { browser } = await login(org, { subject: "one" });
    expect((await me(browser)).body).toMatchObject({ id: user.id, org_role: "admin" });
    expect((await login(org, { subject: "two" })).status).toBe(400);
    expect((await lastAttempt(app, org)).message).toContain("another person of the provider's");
  });

  it("is never an account of another org or of none, whatever address the provider says", async () => {
    const app = await anApp();
    const org = await anOrg(app);
    await app.aUser(app.globex, "member", { email: `ada@${org.domain}` });
    expect((await login(org)).status).toBe(400);
    expect((await lastAttempt(app, org)).message).toContain("outside of this org");
  });

  it("is brought into the org, where it is in none and people are provisioned, with the role that its groups map to", async () => {
    const app = await anApp();
    const role_mapping = [{ group: "admins", role: "admin" }];
    const org = await anOrg(app, { auto_provision: false, role_mapping });
    const user = await app.aUser(null, "member", { email: `ada@${org.domain}`, name: null });
    expect((await login(org)).status).toBe(400);
    expect((await lastAttempt(app, org)).message).toContain("Nobody here has");
    await must(app.asDeveloper("PUT", org.at, setting({ role_mapping })), 200);
    // Not before all else has held: the domain isn't the org's.
    const elsewhere = await app.aUser(null, "member", { email: "ada@elsewhere.example" });
    expect((await login(org, { email: "ada@elsewhere.example" })).status).toBe(400);
    expect((await must(app.asDeveloper("GET", `${app.at}/users/${elsewhere.id}`), 200)).org).toBeNull();
    const { browser } = await login(org, { groups: ["admins"], name: "Ada" });
    expect((await me(browser)).body).toMatchObject({ id: user.id, org: org.id, org_role: "admin", name: "Ada" });
  });

  it("comes in where it was invited, with the role of its invitation, which is over then; never as an owner", async () => {
    const app = await anApp();
    const org = await anOrg(app, { auto_provision: false });
    const invitations = org.at.replace(/sso$/, "invitations");
    const email = `ada@${org.domain}`;
    const invite = (role: string) => app.asDeveloper("POST", invitations, { email, role });
    const { id } = await must(invite("owner"), 201);
    expect((await login(org)).status).toBe(400);
    await must(app.asDeveloper("DELETE", `${invitations}/${id}`), 204);
    await must(invite("admin"), 201);
    const { browser } = await login(org);
    const { body } = await me(browser);
    expect(body).toMatchObject({ email, org_role: "admin" });
    const left = async () => (await must(app.asDeveloper("GET", invitations), 200)).data;
    await expect.poll(left).toEqual([]);
    const told = async () =>
      (await must(app.asDeveloper("GET", `/api/v1/events?org=${body.org}`), 200)).data.map(
        ({ event_name }: any) => event_name,
      );
    await expect.poll(told).toEqual(expect.arrayContaining(["user.created", "invitation.accepted"]));
  });

  it("uses up no owner's invitation by coming in as a member", async () => {
    const app = await anApp();
    const org = await anOrg(app);
    const invitations = org.at.replace(/sso$/, "invitations");
    const email = `ada@${org.domain}`;
    const { id } = await must(app.asDeveloper("POST", invitations, { email, role: "owner" }), 201);
    expect((await me((await login(org)).browser)).body).toMatchObject({ email, org_role: "member" });
    expect(await must(app.asDeveloper("GET", invitations), 200)).toMatchObject({ data: [{ id }] });
  });

  it("is nobody without an org who was deactivated", async () => {
    const app = await anApp();
    const org = await anOrg(app);
    const user = await app.aUser(null, "member", { email: `ada@${org.domain}` });
    await sql("update data.users set deactivated_at = now() where id = $1", [user.id]);
    expect((await login(org)).status).toBe(400);
    expect((await must(app.asDeveloper("GET", `${app.at}/users/${user.id}`), 200)).org).toBeNull();
  });

  it("is an owner only where the owner is signed in here", async () => {
    const app = await anApp();
    const org = await anOrg(app, { auto_provision: false });
    const owner = await app.aUser(org.id, "owner", { email: `ada@${org.domain}` });
    expect((await login(org)).status).toBe(400);
    expect((await lastAttempt(app, org)).message).toContain("an owner's");
    // A session of the owner's own, made by the provider before: the identity is let go of, the session stays.
    await sql("update data.users set role = 'member' where id = $1", [owner.id]);
    const { browser } = await login(org, { subject: "first" });
    await sql("delete from data.sso_identities where org_id = $1", [org.id]);
    await sql("update data.users set role = 'owner' where id = $1", [owner.id]);
    expect((await login(org, { subject: "second" }, browser)).status).toBe(303);
  });

  it("has the role that the groups map to, while nobody here gives another, and never owner", async () => {
    const app = await anApp();
    const role_mapping = [
      { group: "admins", role: "admin" },
      { group: "readers", role: "viewer" },
    ];
    const org = await anOrg(app, { jit_provisioning: true, role_mapping });
    const roleAt = async (groups: string[]) => {
      await login(org, { subject: "one", groups });
      const [row] = await sql("select role from data.users where org_id = $1", [org.id]);
      return row.role;
    };
    expect(await roleAt(["x", "readers", "admins"])).toBe("admin");
    expect(await roleAt(["readers"])).toBe("viewer");
    expect(await roleAt([])).toBe("member");
    const [user] = await sql("select id from data.users where org_id = $1", [org.id]);
    await must(app.asDeveloper("PATCH", `${app.at}/users/${user.id}`, { role: "billing" }), 200);
    expect(await roleAt(["admins"])).toBe("billing");
  });

  it("is nobody who was deactivated", async () => {
    const app = await anApp();
    const org = await anOrg(app);
    const { browser } = await login(org);
    await sql("update data.users set deactivated_at = now() where org_id = $1", [org.id]);
    expect((await me(browser)).status).toBe(401);
    expect((await login(org)).status).toBe(400);
    expect((await lastAttempt(app, org)).message).toBe("The user is deactivated.");
  });
});

describe("the feed", () => {
  const told = async (call: Call) =>
    (await must(call("GET", "/api/v1/activity_feed?kind[]=sign_in.refused"), 200)).data as {
      metadata: Record<string, unknown>;
      user: string | null;
    }[];

  it("tells of refusals once a minute a subject, with how many they were: the admins, and the person", async () => {
    const app = await anApp();
    const org = await anOrg(app);
    const { browser } = await login(org, { subject: "one" });
    const ada = (await me(browser)).body.id;
    const admin = app.as(org.id, { role: "admin" });
    await sql("update data.users set deactivated_at = now() where id = $1", [ada]);
    await together(5, () => login(org, { subject: "one" }));
    await together(5, () => posted(org, aBrowser(), "AAAA"));
    const entries = await told(admin);
    expect(entries.map(({ metadata }) => [metadata.subject, metadata.refusals]).sort()).toEqual([
      [null, 1],
      ["one", 1],
    ]);
    // A minute later.
    await sql("update data.sso_attempts set told_at = told_at - interval '61 seconds' where org_id = $1", [org.id]);
    await login(org, { subject: "one" });
    expect((await told(admin)).map(({ metadata }) => [metadata.subject, metadata.refusals])[0]).toEqual(["one", 5]);
    await sql("update data.users set deactivated_at = null where id = $1", [ada]);
    const own = await told(caller(bearer((await app.aToken(ada)).access_token)));
    expect(own.map(({ user, metadata }) => [user, metadata.refusals])).toEqual([
      [ada, 5],
      [ada, 1],
    ]);
    expect(await told(app.as(org.id, { role: "member" }))).toEqual([]);
  });
});

describe("enforcement", () => {
  /** An org whose connection is tried, with an owner who may break the glass, and what sets it. */
  async function tried() {
    const app = await anApp();
    const org = await anOrg(app);
    const owner = (await app.aUser(org.id, "owner")).id as string;
    const put = (fields: object) => app.asDeveloper("PUT", org.at, setting({ break_glass: [owner], ...fields }));
    return { app, org, owner, put };
  }
  const code = ({ status, body }: Awaited<ReturnType<Call>>) => [status, body?.error?.code];

  it("waits for a login, and for an owner who can break the glass", async () => {
    const { app, org, put } = await tried();
    expect(code(await put({ enforced: true }))).toEqual([409, "sso_untested"]);
    await login(org);
    const member = (await app.aUser(org.id, "member")).id;
    for (const break_glass of [[], [member]]) {
      const { status, body } = await put({ enforced: true, break_glass });
      expect([status, body.error.fields[0].field]).toEqual([422, "break_glass"]);
    }
    expect((await must(put({ enforced: true }), 200)).status).toBe("enforced");
  });

  it("never falls open by accident", async () => {
    const { app, org, put } = await tried();
    await login(org);
    await must(put({ enforced: true }), 200);
    expect((await must(put({}), 200)).status).toBe("enforced");
    expect(code(await put({ certificate: null }))).toEqual([409, "sso_enforced"]);
    expect(code(await put({ certificate: other.certificate }))).toEqual([409, "sso_enforced"]);
    expect(code(await put({ entity_id: "https://other.example" }))).toEqual([409, "sso_enforced"]);
    expect(code(await app.asDeveloper("DELETE", org.at))).toEqual([409, "sso_enforced"]);
    // A key beside the one that stands is a rotation.
    const both = { certificate: null, certificates: [other.certificate, key.certificate] };
    expect((await must(put(both), 200)).status).toBe("enforced");
    expect((await must(put({ enforced: false }), 200)).status).toBe("active");
    expect((await must(put({ certificate: other.certificate }), 200)).status).toBe("untested");
  });

  it("ends the sign-ins of other methods at once, break-glass and minted tokens aside", async () => {
    const { app, org, owner, put } = await tried();
    const { browser } = await login(org);
    const member = (await app.aUser(org.id, "member")).id;
    for (const user of [owner, member]) await app.aToken(user);
    await sql(
      "update data.token_families set method = 'password' where id in (select min(id) from data.token_families where user_id = any ($1) group by user_id)",
      [`{${owner},${member}}`],
    );
    const minted = (await app.aToken(member)).access_token;
    await must(put({ enforced: true }), 200);
    const rows = await sql(
      "select user_id, method, revoked_at is null as live from data.token_families where org_id = $1",
      [org.id],
    );
    const live = (user: string, method: string) =>
      rows.filter((row) => row.user_id === user && row.method === method).map((row) => row.live);
    expect([live(owner, "password"), live(member, "password")]).toEqual([[true], [false]]);
    expect((await me(browser)).status).toBe(200);
    const response = await fetch(`${system.base}/api/v1/users/me`, { headers: { Authorization: `Bearer ${minted}` } });
    expect(response.status).toBe(200);
  });

  it("lets nobody in by another method, break-glass aside", async () => {
    const { app, org, owner, put } = await tried();
    await login(org);
    await must(put({ enforced: true }), 200);
    const member = (await app.aUser(org.id, "member")).id;
    const lets = async (user: string, method: string) =>
      (await sql("select app.lets_in($1, '-', $2, $3, $4) as it", [app.app, org.id, user, method]))[0].it;
    expect([await lets(member, "password"), await lets(member, "email_code"), await lets(member, "saml")]).toEqual([
      false,
      false,
      true,
    ]);
    expect(await lets(owner, "password")).toBe(true);
  });

  it("taken back and away, the connection takes its sign-ins and identities along", async () => {
    const { app, org, put } = await tried();
    const { browser } = await login(org);
    await must(put({ enforced: true }), 200);
    await must(put({ enforced: false }), 200);
    await must(app.asDeveloper("DELETE", org.at), 204);
    expect((await me(browser)).status).toBe(401);
    expect(await sql("select 1 from data.sso_identities where org_id = $1", [org.id])).toEqual([]);
  });
});

describe("out", () => {
  const SLO = "https://idp.example/slo";
  const slo = (org: Org) => local(org.config.slo_service_url);
  /** What the provider says when somebody signs out there. */
  const logout = (
    org: Org,
    { subject = `subject of ada@${org.domain}`, session = "s1", by = key, signs = true } = {},
  ) => {
    const message = logoutRequest({
      ...{ id: `_${unique("l")}`, destination: org.config.slo_service_url, sp_entity_id: ISSUER, now: new Date() },
      ...{ name_id: { value: subject, format: null }, session_index: session },
    });
    const id = /ID="([^"]+)"/.exec(message)![1]!;
    return form({
      SAMLRequest: Buffer.from(signs ? sign(message, id, by) : message).toString("base64"),
      RelayState: "state",
    });
  };

  it("by the provider: ends the session that it names, on the next request, and is answered", async () => {
    const org = await anOrg(await anApp(), { slo_url: SLO });
    const { browser } = await login(org);
    const { browser: elsewhere } = await login(org, { session: "s2" });
    const response = await fetch(slo(org), { ...logout(org), redirect: "manual" });
    expect(response.status).toBe(303);
    expect(response.headers.get("Location")).toMatch(
      /^https:\/\/idp\.example\/slo\?SAMLResponse=.*&RelayState=state&SigAlg=/,
    );
    expect([(await me(browser)).status, (await me(elsewhere)).status]).toEqual([401, 200]);
  });

  it("is refused unsigned, by another key, of somebody else, and a second time", async () => {
    const org = await anOrg(await anApp(), { slo_url: SLO });
    const { browser } = await login(org);
    const tell = async (init: RequestInit) => (await fetch(slo(org), { ...init, redirect: "manual" })).status;
    expect(await tell(logout(org, { signs: false }))).toBe(400);
    expect(await tell(logout(org, { by: other }))).toBe(400);
    expect(await tell(logout(org, { subject: "somebody else" }))).toBe(303);
    expect((await me(browser)).status).toBe(200);
    const once = logout(org);
    expect(await tell(once)).toBe(303);
    const again = await login(org);
    expect(await tell(once)).toBe(400);
    expect((await me(again.browser)).status).toBe(200);
  });

  it("by the browser: ends its sign-in first, and then leads to the provider", async () => {
    const org = await anOrg(await anApp(), { slo_url: SLO });
    const { browser, location } = await login(org);
    const kept = new Map(browser.cookies);
    for (const refused of [
      signOut(browser, location!, undefined, "cross-site"),
      signOut(browser, location!, {}),
      signOut(browser, location!, { form: `${"A".repeat(43)}=` }),
    ]) {
      expect((await refused).status).toBe(403);
    }
    expect((await me(browser)).status).toBe(200);
    const left = await signOut(browser, location!);
    const text = await left.text();
    expect([left.status, /url=https:\/\/idp\.example\/slo\?SAMLRequest=/.test(text), browser.cookies.size]).toEqual([
      200,
      true,
      0,
    ]);
    for (const [name, value] of kept) browser.cookies.set(name, value);
    expect((await me(browser)).status).toBe(401);
  });

  it("leads back to the org's own page", async () => {
    const org = await anOrg(await anApp(), { slo_url: SLO });
    const { browser, location } = await login(org);
    await signOut(browser, location!);
    const back = await browser.ask(org.config.post_logout_redirect_uri);
    expect([back.status, back.headers.get("Location")]).toEqual([303, location]);
    expect(await (await browser.ask(location!)).text()).toContain('name="email"');
  });
});

describe("an org's addresses", () => {
  it("are absent without a connection, of another app, and malformed", async () => {
    const app = await anApp();
    const org = await anOrg(app);
    const at = (path: string) => fetch(`${system.base}/sso/${path}/metadata`).then(({ status }) => status);
    expect(await at(`${app.app}/-/${org.id}`)).toBe(200);
    expect(await at(`${app.app}/-/${app.acme}`)).toBe(404);
    expect(await at(`${(await anApp()).app}/-/${org.id}`)).toBe(404);
    expect(await at(`x/-/${org.id}`)).toBe(404);
    expect(await at(`${app.app}/x/${org.id}`)).toBe(404);
  });

  it("are closed while the org is suspended", async () => {
    const app = await anApp();
    const org = await anOrg(app);
    await must(app.asDeveloper("PATCH", `${app.at}/orgs/${org.id}`, { status: "suspended" }), 200);
    expect((await begun(org, aBrowser())).response.status).toBe(403);
  });
});
