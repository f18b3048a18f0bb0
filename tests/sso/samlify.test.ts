/** SAML with a provider of other people's making: samlify signs what we take, and takes what we sign. */
import { X509Certificate } from "node:crypto";
import { createRequire } from "node:module";
import { beforeAll, expect, it } from "vitest";
import { type App, anApp, must, unique } from "../harness/index.ts";
import { aKey, type ProviderKey } from "./provider.ts";
import { aBrowser, form, me, signOut } from "./stage.ts";

/** Without its types, which bring a browser's for the whole project. */
const samlify = createRequire(import.meta.url)("samlify");

const ISSUER = "https://samlify.example/metadata";
const SSO = "https://samlify.example/sso";
const SLO = "https://samlify.example/slo";
const { binding, format } = samlify.Constants.namespace;

/** What it does not check by itself is not what is tried here. */
samlify.setSchemaValidator({ validate: async () => "ok" });

let key: ProviderKey;
beforeAll(async () => {
  key = await aKey();
});

const template = samlify.SamlLib.defaultLoginResponseTemplate;
const newProvider = () =>
  samlify.IdentityProvider({
    ...{
      entityID: ISSUER,
      privateKey: key.pem,
      signingCert: new X509Certificate(Buffer.from(key.certificate, "base64")).toString(),
    },
    ...{
      isAssertionEncrypted: false,
      wantAuthnRequestsSigned: true,
      wantLogoutRequestSigned: true,
      nameIDFormat: [format.persistent],
    },
    singleSignOnService: [{ Binding: binding.redirect, Location: SSO }],
    singleLogoutService: [{ Binding: binding.redirect, Location: SLO }],
    loginResponseTemplate: {
      ...template,
      attributes: [
        {
          name: "email",
          valueTag: "email",
          nameFormat: "urn:oasis:names:tc:SAML:2.0:attrname-format:basic",
          valueXsiType: "xs:string",
        },
      ],
    },
  } as never);

/** An org that the provider's own metadata sets up, and the provider, which has read ours. */
async function met(app: App) {
  const { id, domain } = await app.anOrg();
  const provider = newProvider();
  const at = `${app.at}/orgs/${id}/sso`;
  const body = { provider: "saml", metadata_xml: provider.getMetadata(), auto_provision: true };
  const config = await must(app.asDeveloper("PUT", at, body), 200);
  expect(config).toMatchObject({ status: "untested", entity_id: ISSUER, sso_url: SSO, slo_url: SLO, missing: [] });
  const metadata = await (await aBrowser().ask(config.metadata_url)).text();
  const us = samlify.ServiceProvider({ metadata, wantLogoutRequestSigned: true });
  return { app, config, domain, provider, us };
}
type Met = Awaited<ReturnType<typeof met>>;

/** A message that came by redirect, as samlify wants it. */
function byRedirect(location: string) {
  const { search, searchParams } = new URL(location);
  const octetString = search.slice(1).replace(/&Signature=.*$/, "");
  return { query: Object.fromEntries(searchParams), octetString };
}

/** Signs somebody in: the request is verified by the provider, its answer by us. */
async function login({ app, config, domain, provider, us }: Met) {
  const lastMessage = async () =>
    (await must(app.asDeveloper("GET", `${app.at}/orgs/${config.org}/sso/attempts`), 200)).data[0].message;
  const browser = aBrowser();
  const started = await browser.ask(config.start_url);
  const { extract } = await provider.parseLoginRequest(us, "redirect", byRedirect(started.headers.get("Location")!));
  expect(extract).toMatchObject({
    issuer: config.sp_entity_id,
    request: { assertionConsumerServiceUrl: config.acs_url },
  });
  const email = `${unique("ada")}@${domain}`;
  const now = Date.now();
  const at = (seconds: number) => new Date(now + seconds * 1000).toISOString();
  const statement = `<saml:AuthnStatement AuthnInstant="${at(0)}" SessionIndex="${unique("session")}"><saml:AuthnContext><saml:AuthnContextClassRef>urn:oasis:names:tc:SAML:2.0:ac:classes:Password</saml:AuthnContextClassRef></saml:AuthnContext></saml:AuthnStatement>`;
  const answer = await provider.createLoginResponse(
    us,
    { extract } as never,
    "post",
    { email } as never,
    ((text: string) => {
      const id = `_${unique("r")}`;
      const tags = {
        ...{ ID: id, AssertionID: `_${unique("a")}`, Destination: config.acs_url, Audience: config.sp_entity_id },
        ...{
          SubjectRecipient: config.acs_url,
          AssertionConsumerServiceURL: config.acs_url,
          Issuer: ISSUER,
          IssueInstant: at(0),
        },
        ...{
          StatusCode: "urn:oasis:names:tc:SAML:2.0:status:Success",
          ConditionsNotBefore: at(-60),
          ConditionsNotOnOrAfter: at(300),
        },
        ...{
          SubjectConfirmationDataNotOnOrAfter: at(300),
          NameIDFormat: format.persistent,
          NameID: email,
          attrEmail: email,
        },
        ...{ InResponseTo: extract.request.id, EntityID: config.sp_entity_id },
      };
      return { id, context: samlify.SamlLib.replaceTagsByValue(text.replace("{AuthnStatement}", statement), tags) };
    }) as never,
  );
  const taken = await browser.ask(config.acs_url, form({ SAMLResponse: answer.context }));
  expect([taken.status, await lastMessage()]).toEqual([303, "Signed in."]);
  const finished = await browser.ask(config.acs_url.replace(/acs$/, "finish"));
  const { status, body } = await me(browser);
  expect([finished.status, status, body.email]).toEqual([303, 200, email]);
  return { browser, email, home: finished.headers.get("Location")! };
}

it("somebody signs in by it, and out here: it verifies our request to sign out there, too", async () => {
  const one = await met(await anApp());
  const { browser, email, home } = await login(one);
  const page = await (await signOut(browser, home)).text();
  const location = /<a href="([^"]*)"/.exec(page)![1]!.replaceAll("&amp;", "&");
  const { extract } = await one.provider.parseLogoutRequest(one.us, "redirect", byRedirect(location));
  expect([new URL(location).origin + new URL(location).pathname, extract.nameID]).toEqual([SLO, email]);
  expect((await me(browser)).status).toBe(401);
});

it("somebody who signs out there is out here, and it verifies our answer", async () => {
  const one = await met(await anApp());
  const { browser, email } = await login(one);
  const { browser: other } = await login(one);
  const { context } = one.provider.createLogoutRequest(one.us, "redirect", { logoutNameID: email } as never) as {
    context: string;
  };
  const told = await aBrowser().ask(context);
  const location = told.headers.get("Location")!;
  const { extract } = await one.provider.parseLogoutResponse(one.us, "redirect", byRedirect(location));
  expect([told.status, extract.issuer]).toEqual([303, one.config.sp_entity_id]);
  expect([(await me(browser)).status, (await me(other)).status]).toEqual([401, 200]);
});
