/** What setting SSO up fetches, and whom it mails. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readEml } from "../../lib/local/mailbox.ts";
import { type App, anApp, must, unique } from "../harness/index.ts";
import { newRoot, newSigningKey, type Own, ownSystem } from "../harness/own.ts";
import { aKey, type ProviderKey } from "./provider.ts";

const METADATA = "https://idp.example/metadata";
const DAY = 86_400_000;

let own: Own;
let app: App;
let key: ProviderKey;
let mailDir: string;
/** What stands at the address of the metadata; and what was asked. */
let answer: () => Response | Promise<Response>;
let asked: Request[] = [];

const metadata = (inside = "", { certificate } = key) =>
  `<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" entityID="https://idp.example"><md:IDPSSODescriptor><md:KeyDescriptor><ds:KeyInfo xmlns:ds="http://www.w3.org/2000/09/xmldsig#"><ds:X509Data><ds:X509Certificate>${certificate}</ds:X509Certificate></ds:X509Data></ds:KeyInfo></md:KeyDescriptor>${inside}<md:SingleLogoutService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" Location="https://idp.example/slo"/><md:SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" Location="https://idp.example/sso"/></md:IDPSSODescriptor></md:EntityDescriptor>`;

beforeAll(async () => {
  mailDir = mkdtempSync(join(tmpdir(), "agentry-sso-mail-"));
  key = await aKey();
  own = await ownSystem();
  const outbound = async (request: Request) => {
    asked.push(request);
    return answer();
  };
  const base = await own.start([await newSigningKey("one")], [newRoot()], { outbound: outbound as never, mailDir });
  app = await anApp({ base, newApp: own.newApp });
}, 120_000);
afterAll(async () => {
  await own.close();
  rmSync(mailDir, { recursive: true });
});

const saml = (fields: object = {}) => ({
  ...{ provider: "saml", entity_id: "https://idp.example", sso_url: "https://idp.example/sso" },
  ...{ certificate: key.certificate, ...fields },
});
const put = (org: string, fields: object) => app.asDeveloper("PUT", `${app.at}/orgs/${org}/sso`, fields);
const mailsTo = (address: string) =>
  readdirSync(mailDir)
    .map((name) => readEml(readFileSync(join(mailDir, name), "utf8")))
    .filter(({ to }) => to === address);
const anOwner = async (org: string) => {
  const email = `${unique("owner")}@example.com`;
  await app.aUser(org, "owner", { email });
  return email;
};

describe("idp_metadata_url", () => {
  const set = async () => put((await app.anOrg()).id, { provider: "saml", idp_metadata_url: METADATA });

  it("is fetched, read, and stands for what is not named beside it", async () => {
    answer = () => new Response(`\ufeff${metadata()}`);
    asked = [];
    expect(await must(set(), 200)).toMatchObject({
      ...{ idp_metadata_url: METADATA, entity_id: "https://idp.example", sso_url: "https://idp.example/sso" },
      ...{ slo_url: "https://idp.example/slo", status: "untested", missing: [] },
    });
    expect(asked.map(({ url, method }) => [url, method])).toEqual([[METADATA, "GET"]]);
    const other = { provider: "saml", idp_metadata_url: METADATA, entity_id: "https://other.example" };
    expect((await must(put((await app.anOrg()).id, other), 200)).entity_id).toBe("https://other.example");
  });

  it.each([
    ["answers an error", () => new Response("no", { status: 404 }), "answers 404"],
    [
      "leads elsewhere",
      () => new Response(null, { status: 302, headers: { Location: "https://other.example" } }),
      "leads elsewhere",
    ],
    ["answers more than 512 KiB", () => new Response("x".repeat(600_000)), "more than 512 KiB"],
    ["answers something else", () => new Response("<html></html>"), "must be an EntityDescriptor"],
    ["answers what two could read differently", () => new Response(`<!DOCTYPE x>${metadata()}`), ""],
    ["does not answer within five seconds", () => new Promise<never>(() => {}), "Nobody answered there"],
  ])("is a fault that says what to do, where it %s", async (_, one: typeof answer, sentence) => {
    answer = one;
    const { status, body } = await set();
    expect([status, body.error.fields[0].field]).toEqual([422, "idp_metadata_url"]);
    expect(body.error.fields[0].message).toContain(sentence);
  });

  it.each(["https://127.0.0.1/metadata", "http://localhost:1/", "https://10.0.0.1/", "https://metadata.internal/"])(
    "is not fetched inside: %s",
    async (idp_metadata_url) => {
      asked = [];
      const { status, body } = await put((await app.anOrg()).id, { provider: "saml", idp_metadata_url });
      expect([status, body.error.fields[0].field, asked.length]).toEqual([422, "idp_metadata_url", 0]);
    },
  );

  it("is not fetched for an org that isn't there, nor beside metadata_xml", async () => {
    asked = [];
    const body = { provider: "saml", idp_metadata_url: METADATA };
    expect((await put("org_0000000000000000000000", body)).status).toBe(404);
    expect((await put((await app.anOrg()).id, { ...body, metadata_xml: metadata() })).status).toBe(422);
    expect(asked).toEqual([]);
  });
});

describe("the owners are mailed", () => {
  it("when another provider is set, and not when the same one is", async () => {
    const { id } = await app.anOrg({ name: "Acme <b>" });
    const [ann, ben] = [await anOwner(id), await anOwner(id)];
    const admin = `${unique("admin")}@example.com`;
    await app.aUser(id, "admin", { email: admin });
    await must(put(id, saml()), 200);
    await expect.poll(() => [mailsTo(ann).length, mailsTo(ben).length]).toEqual([1, 1]);
    expect(mailsTo(ann)[0]!.subject).toBe("The SSO of Acme <b> was changed");
    await must(put(id, saml({ default_role: "viewer" })), 200);
    await must(put(id, saml({ entity_id: null })), 200);
    await must(put(id, saml({ entity_id: "https://other.example" })), 200);
    await expect.poll(() => mailsTo(ann).length).toBe(2);
    expect(mailsTo(ann)[1]!.text).toContain("other.example");
    expect(mailsTo(admin)).toEqual([]);
  });

  it("30, 7 and 1 days before a certificate ends, once each", async () => {
    const { id } = await app.anOrg();
    const ann = await anOwner(id);
    const ending = await aKey({ to: 40 * DAY });
    await must(put(id, saml({ certificates: [ending.certificate, key.certificate], certificate: null })), 200);
    await expect.poll(() => mailsTo(ann).length).toBe(1);
    const about = () => mailsTo(ann).filter(({ subject }) => subject.includes("ends soon"));
    const days = (n: number) => `interval '${n} days'`;
    /** So many days go by, for this connection. */
    const pass = (n: number) =>
      own.database.query(`update data.sso_connections set warn_at = warn_at - ${days(n)},
        certificate_ends = array(select e - ${days(n)} from unnest(certificate_ends) e) where org_id = '${id}'`);
    const seen: number[] = [];
    for (const n of [9, 2, 0, 22, 2, 3, 1.5, 1]) {
      await pass(n);
      await Promise.all([own.fireCrons(), own.fireCrons()]);
      await new Promise((resolve) => setTimeout(resolve, 300));
      seen.push(about().length);
    }
    // 31 days are left, 29, 29, 7, 5, 2, half of one, none.
    expect(seen).toEqual([0, 1, 1, 2, 2, 2, 3, 3]);
    expect(about()[0]!.text).toMatch(/ends on \d{4}-\d\d-\d\d/);
  });
});
