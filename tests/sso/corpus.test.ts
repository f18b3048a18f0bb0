/** What a SAML response can be, good and hostile, each signed afresh; xml-crypto judges what is taken. */
import { execFileSync } from "node:child_process";
import { createPublicKey } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { deflateRawSync } from "node:zlib";
import { beforeAll, describe, expect, it } from "vitest";
import { newSpKey } from "../../lib/local/sp-key.ts";
import { canonical } from "../../lib/sso/saml/c14n.ts";
import { readCertificate } from "../../lib/sso/saml/certificate.ts";
import type { SpKey } from "../../lib/sso/saml/decrypt.ts";
import { logoutRequest, readLogoutForm, readLogoutQuery, redirectTo } from "../../lib/sso/saml/message.ts";
import { readIdpMetadata, spMetadata } from "../../lib/sso/saml/metadata.ts";
import { Refused } from "../../lib/sso/saml/refused.ts";
import { type Expected, type Login, readResponse } from "../../lib/sso/saml/response.ts";
import { signaturesIn } from "../../lib/sso/saml/signature.ts";
import { parseXml } from "../../lib/sso/saml/xml.ts";
import {
  aKey,
  anAssertion,
  aResponse,
  DS,
  ENC,
  EXC,
  encrypt,
  judge,
  MORE,
  type ProviderKey,
  type Signing,
  sign,
} from "./provider.ts";

const now = new Date("2026-12-01T12:00:00Z");
const said = {
  now: now.getTime(),
  issuer: "https://idp.example/metadata",
  acs_url: "https://agentry.example/sso/a/-/o/acs",
  sp_entity_id: "https://agentry.example/sso/a/-/o/metadata",
  in_response_to: "_request",
};
const base64 = (text: string | Buffer) => Buffer.from(text).toString("base64");

let key: ProviderKey;
let foreign: ProviderKey;
let short: ProviderKey;
let expired: ProviderKey;
let elliptic: ProviderKey;
let sp: SpKey;
let expected: Expected;
const signersOf = (...keys: ProviderKey[]) => Promise.all(keys.map(({ certificate }) => readCertificate(certificate)));

beforeAll(async () => {
  const times = { now: now.getTime() };
  [key, foreign, short, expired, elliptic] = await Promise.all([
    aKey(times),
    aKey(times),
    aKey({ ...times, bits: 1024 }),
    aKey({ ...times, to: -1000 }),
    aKey({ ...times, bits: 0 }),
  ]);
  sp = (await newSpKey()) as SpKey;
  expected = { ...said, signers: await signersOf(key, elliptic, expired), keys: [sp] };
}, 60_000);

const read = (xml: string, changed: Partial<Expected> = {}) =>
  readResponse(base64(xml), { ...expected, ...changed }, now);
/** What was refused, as the admin reads it; what was taken, as who it is. */
const outcome = (reading: Promise<Login>) =>
  reading.then(
    ({ name_id }) => `taken: ${name_id.value}`,
    (error) => {
      if (error instanceof Refused) return error.message;
      throw error;
    },
  );

type Signed = "response" | "assertion" | "both";
/** A response signed as said. */
function signed(what: Signed, signing: Signing = {}, by = key, parts: Parameters<typeof anAssertion>[1] = {}): string {
  let xml = aResponse(said, anAssertion(said, parts));
  if (what !== "response") xml = sign(xml, "_assertion", by, signing);
  if (what !== "assertion") xml = sign(xml, "_response", by, signing);
  return xml;
}

const cut = (xml: string, from: string, to: string) => {
  const start = xml.indexOf(from);
  return xml.slice(start, xml.indexOf(to, start) + to.length);
};
const assertionOf = (xml: string) => cut(xml, "<saml:Assertion", "</saml:Assertion>");
const signatureOf = (xml: string) => cut(xml, "<ds:Signature ", "</ds:Signature>");
const without = (xml: string, part: string) => xml.replace(part, () => "");
const replaced = (xml: string, part: string, by: string) => {
  expect(xml).toContain(part);
  return xml.replace(part, () => by);
};
/** The same with another person in it, under another ID. */
const evil = (part: string) =>
  part
    .replace("person-1", "somebody-else")
    .replace('ID="_assertion"', 'ID="_evil"')
    .replace('ID="_response"', 'ID="_evil"');
const opened = (encrypted: string, what: "signed" | "unsigned" = "signed") => {
  const xml = aResponse(said, encrypted);
  return what === "signed" ? sign(xml, "_response", key) : xml;
};
const spPublic = () => createPublicKey({ key: sp as never, format: "jwk" });

const good: [string, () => string][] = [
  ["a signed assertion", () => signed("assertion")],
  ["a signed response", () => signed("response")],
  ["both signed", () => signed("both")],
  ["RSA-SHA384", () => signed("assertion", { method: `${MORE}rsa-sha384`, digest: `${MORE}sha384` })],
  ["RSA-SHA512", () => signed("assertion", { method: `${MORE}rsa-sha512`, digest: `${ENC}sha512` })],
  ["ECDSA on P-256", () => signed("both", { method: `${MORE}ecdsa-sha256` }, elliptic)],
  ["a PrefixList", () => signed("assertion", { prefixes: ["saml", "xs"] })],
  ["no KeyInfo that could be read", () => signed("assertion", { keyInfo: "<ds:KeyName>any</ds:KeyName>" })],
  [
    "entities and characters by number",
    () =>
      signed("assertion", {}, key, {
        statements: `<saml:AuthnStatement AuthnInstant="${now.toISOString()}"/><saml:AttributeStatement><saml:Attribute Name="a&amp;&#x62;"><saml:AttributeValue>&lt;&#13;&gt; &quot;x&apos; ü</saml:AttributeValue></saml:Attribute></saml:AttributeStatement>`,
      }),
  ],
  [
    "line ends of Windows",
    () =>
      signed("assertion")
        .replace("<samlp:Status>", "\r\n<samlp:Status>")
        .replace(/(<ds:SignatureValue>.{64})/, "$1\r\n"),
  ],
  ["an XML declaration", () => `<?xml version="1.0" encoding="UTF-8"?>\n${signed("response")}`],
];

const xsw: [string, () => string][] = [
  [
    "XSW1: the signed response in the signature of another",
    () => {
      const xml = signed("response");
      const signature = signatureOf(xml);
      const original = without(xml, signature);
      return replaced(
        evil(original),
        "</saml:Issuer>",
        `</saml:Issuer>${replaced(signature, "</ds:Signature>", `<ds:Object>${original}</ds:Object></ds:Signature>`)}`,
      );
    },
  ],
  [
    "XSW2: the signed response beside its signature, in another",
    () => {
      const xml = signed("response");
      const signature = signatureOf(xml);
      const original = without(xml, signature);
      return replaced(evil(original), "</saml:Issuer>", `</saml:Issuer>${original}${signature}`);
    },
  ],
  [
    "XSW3: another assertion before",
    () => replaced(signed("assertion"), "<saml:Assertion", `${evil(anAssertion(said))}<saml:Assertion`),
  ],
  [
    "XSW3: another assertion after",
    () => replaced(signed("assertion"), "</samlp:Response>", `${evil(anAssertion(said))}</samlp:Response>`),
  ],
  [
    "XSW4: the signed assertion within another",
    () => {
      const xml = signed("assertion");
      const original = assertionOf(xml);
      return replaced(
        xml,
        original,
        replaced(evil(anAssertion(said)), "</saml:Assertion>", `${original}</saml:Assertion>`),
      );
    },
  ],
  [
    "XSW5: the signature moved into another, the original after it",
    () => {
      const xml = signed("assertion");
      const original = assertionOf(xml);
      const signature = signatureOf(xml);
      return replaced(
        xml,
        original,
        `${replaced(evil(anAssertion(said)), "</saml:Issuer>", `</saml:Issuer>${signature}`)}${without(original, signature)}`,
      );
    },
  ],
  [
    "XSW6: the same, the original within the signature",
    () => {
      const xml = signed("assertion");
      const original = assertionOf(xml);
      const signature = signatureOf(xml);
      const around = replaced(signature, "</ds:Signature>", `${without(original, signature)}</ds:Signature>`);
      return replaced(xml, original, replaced(evil(anAssertion(said)), "</saml:Issuer>", `</saml:Issuer>${around}`));
    },
  ],
  [
    "XSW7: another in Extensions",
    () =>
      replaced(
        signed("assertion"),
        "<samlp:Status>",
        `<samlp:Extensions>${evil(anAssertion(said))}</samlp:Extensions><samlp:Status>`,
      ),
  ],
  [
    "XSW8: the original in an Object",
    () => {
      const xml = signed("assertion");
      const original = assertionOf(xml);
      const signature = signatureOf(xml);
      const around = replaced(
        signature,
        "</ds:Signature>",
        `<ds:Object>${without(original, signature)}</ds:Object></ds:Signature>`,
      );
      return replaced(xml, original, replaced(evil(anAssertion(said)), "</saml:Issuer>", `</saml:Issuer>${around}`));
    },
  ],
  [
    "two assertions, each signed",
    () => {
      const one = anAssertion(said);
      const other = anAssertion(said, { id: "_other", nameId: "<saml:NameID>somebody-else</saml:NameID>" });
      return sign(sign(aResponse(said, one + other), "_assertion", key), "_other", key);
    },
  ],
];

const at = (seconds: number) => new Date(now.getTime() + seconds * 1000).toISOString();
const conditions = (
  attributes: string,
  inside = `<saml:AudienceRestriction><saml:Audience>${said.sp_entity_id}</saml:Audience></saml:AudienceRestriction>`,
) => signed("assertion", {}, key, { conditions: `<saml:Conditions ${attributes}>${inside}</saml:Conditions>` });
const subject = (attributes: string, method = "bearer") =>
  signed("assertion", {}, key, {
    subject: `<saml:Subject><saml:NameID>person-1</saml:NameID><saml:SubjectConfirmation Method="urn:oasis:names:tc:SAML:2.0:cm:${method}"><saml:SubjectConfirmationData ${attributes}/></saml:SubjectConfirmation></saml:Subject>`,
  });
const confirmed = (changes: { ends?: string; recipient?: string; answers?: string }) =>
  subject(
    `NotOnOrAfter="${changes.ends ?? at(300)}" ${changes.recipient ?? `Recipient="${said.acs_url}"`} ${changes.answers ?? `InResponseTo="${said.in_response_to}"`}`,
  );
const named = (inside: string) => signed("assertion", {}, key, { nameId: `<saml:NameID>${inside}</saml:NameID>` });
const responded = (parts: Parameters<typeof aResponse>[2], inside = anAssertion(said)) =>
  sign(aResponse(said, inside, parts), "_response", key);

/** Each with a part of the sentence that refuses it: what is refused for another reason proves nothing. */
const bad: [string, () => string, string][] = [
  ...xsw.map(([name, make]): [string, () => string, string] => [name, make, ""]),
  [
    "an ID twice",
    () => replaced(signed("assertion"), "<samlp:Status>", '<samlp:Status ID="_assertion">'),
    "An ID stands in it twice",
  ],
  [
    "an ID twice, by another name of the attribute",
    () => replaced(signed("assertion"), "<samlp:Status>", '<samlp:Status Id="_assertion">'),
    "An ID stands in it twice",
  ],
  [
    "a comment in the NameID (CVE-2017-11427)",
    () => replaced(signed("assertion"), "person-1", "person<!---->-1"),
    "not XML",
  ],
  ["CDATA in the NameID", () => replaced(signed("assertion"), "person-1", "person<![CDATA[-1]]>"), "not XML"],
  ["an instruction in the NameID", () => replaced(signed("assertion"), "person-1", "person<?x?>-1"), "not XML"],
  [
    "an instruction that the provider has signed",
    () => replaced(named("not-admin"), "not-admin", "not-<?x?>admin"),
    "not XML",
  ],
  ["an element in the NameID", () => named("not-<b/>admin"), "The NameID is not one text"],
  ["C14N with comments", () => signed("assertion", { c14n: `${EXC}WithComments` }), "not over exclusive C14N"],
  [
    "a transform with comments",
    () => signed("assertion", { transforms: [`${DS}enveloped-signature`, `${EXC}WithComments`] }),
    "not over exclusive C14N",
  ],
  ["DOCTYPE", () => `<!DOCTYPE r>${signed("assertion")}`, "not XML"],
  [
    "XXE",
    () => `<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]>${replaced(signed("assertion"), "person-1", "&x;")}`,
    "not XML",
  ],
  ["a billion laughs", () => `<!DOCTYPE r [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>${signed("assertion")}`, "not XML"],
  ["an entity of nobody's", () => replaced(signed("assertion"), "person-1", "&person;"), "entity"],
  ["nothing signed", () => aResponse(said, anAssertion(said)), "Neither response nor assertion is signed"],
  ["the signature stripped", () => without(signed("assertion"), signatureOf(signed("assertion"))), "is signed"],
  [
    "an empty signature",
    () =>
      replaced(aResponse(said, anAssertion(said)), "<saml:Subject>", `<ds:Signature xmlns:ds="${DS}"/><saml:Subject>`),
    "there is no SignedInfo",
  ],
  [
    "an empty SignatureValue",
    () => signed("assertion").replace(/(<ds:SignatureValue>)[^<]*/, "$1"),
    "SignatureValue is not base64",
  ],
  ["another person", () => replaced(signed("assertion"), "person-1", "person-2"), "digest is another"],
  [
    "another digest",
    () =>
      signed("assertion")
        .replace(/(<ds:DigestValue>)./, "$1A")
        .replace(/(<ds:DigestValue>).{4}/, "$1AAAA"),
    "digest is another",
  ],
  [
    "an unsigned assertion beside a signed one (CVE-2026-47201)",
    () => replaced(signed("assertion"), "</samlp:Response>", `${anAssertion(said, { id: "_2" })}</samlp:Response>`),
    "more than one assertion",
  ],
  [
    "another key, with its certificate in KeyInfo",
    () => signed("both", {}, foreign),
    "signed by a key that is not set",
  ],
  [
    "a response by another key around a signed assertion",
    () => sign(signed("assertion"), "_response", foreign),
    "signed by a key that is not set",
  ],
  ["an RSA key of 1024 bits", () => signed("assertion", {}, short), "signed by a key that is not set"],
  ["a certificate that has expired", () => signed("assertion", {}, expired), "expired on 2026-12-01"],
  [
    "HMAC by the certificate",
    () => signed("assertion", { method: `${DS}hmac-sha1` }, { ...key, pem: key.publicPem }),
    "algorithm is not taken",
  ],
  ["RSA-SHA1", () => signed("assertion", { method: `${DS}rsa-sha1` }), "algorithm is not taken"],
  ["a digest of SHA-1", () => signed("assertion", { digest: `${DS}sha1` }), "algorithm is not taken"],
  [
    "two SignedInfo (CVE-2025-29774)",
    () => {
      const xml = signed("assertion");
      const info = cut(xml, "<ds:SignedInfo", "</ds:SignedInfo>");
      return replaced(xml, info, info + info);
    },
    "",
  ],
  [
    "a comment in the digest (CVE-2025-29775)",
    () => signed("assertion").replace(/(<ds:DigestValue>)/, "$1<!--AAAA-->"),
    "not XML",
  ],
  [
    "an element in the digest",
    () => signed("assertion").replace(/(<ds:DigestValue>)/, "$1<ds:X/>"),
    "DigestValue is not base64",
  ],
  [
    "two References",
    () => {
      const xml = signed("assertion");
      const reference = cut(xml, "<ds:Reference", "</ds:Reference>");
      return replaced(xml, reference, reference + reference);
    },
    "more than one Reference",
  ],
  [
    "a Reference to the whole document",
    () => replaced(signed("response"), 'URI="#_response"', 'URI=""'),
    "signs something else",
  ],
  [
    "a Reference to a child",
    () => sign(signed("response"), "_assertion", key).replace(/URI="#_assertion"/, 'URI="#_response"'),
    "",
  ],
  [
    "XPath",
    () =>
      replaced(
        signed("assertion"),
        `<ds:Transform Algorithm="${EXC}"`,
        '<ds:Transform Algorithm="http://www.w3.org/TR/1999/REC-xpath-19991116"',
      ),
    "not over exclusive C14N",
  ],
  [
    "XSLT before",
    () =>
      replaced(
        signed("assertion"),
        "<ds:Transforms>",
        '<ds:Transforms><ds:Transform Algorithm="http://www.w3.org/TR/1999/REC-xslt-19991116"/>',
      ),
    "other transforms",
  ],
  ["no enveloped transform", () => signed("assertion", { transforms: [EXC] }), ""],
  [
    "the transforms the other way round",
    () => signed("assertion", { transforms: [EXC, `${DS}enveloped-signature`] }),
    "enveloped",
  ],
  [
    "a second digest in the document (CVE-2024-45409)",
    () =>
      replaced(
        signed("assertion"),
        "<samlp:Status>",
        `<samlp:StatusDetail><ds:Signature xmlns:ds="${DS}"><ds:SignedInfo><ds:Reference URI="#_assertion"><ds:DigestValue>AAAA</ds:DigestValue></ds:Reference></ds:SignedInfo></ds:Signature></samlp:StatusDetail><samlp:Status>`,
      ),
    "signature stands where none is looked for",
  ],
  [
    "a namespace that no C14N is defined for (CVE-2025-66568)",
    () => signed("assertion", {}, key, { more: '<x:y xmlns:x="1"/>' }),
    "absolute URI",
  ],
  [
    "the assertion's namespace redeclared",
    () => replaced(signed("assertion"), "<saml:Subject>", '<saml:Subject xmlns:saml="urn:x">'),
    "digest is another",
  ],
  [
    "another root",
    () => signed("response").replaceAll("samlp:Response", "samlp:ArtifactResponse"),
    "not a SAML Response",
  ],
  ["an assertion alone", () => sign(anAssertion(said), "_assertion", key), "not a SAML Response"],
  [
    "the assertion deeper than in the response",
    () =>
      replaced(signed("assertion"), "<saml:Assertion", "<samlp:X><saml:Assertion").replace(
        "</saml:Assertion>",
        "</saml:Assertion></samlp:X>",
      ),
    "does not stand in the response",
  ],
  ["expired", () => conditions(`NotBefore="${at(-900)}" NotOnOrAfter="${at(-121)}"`), "ended at"],
  ["early", () => conditions(`NotBefore="${at(121)}" NotOnOrAfter="${at(900)}"`), "in the future"],
  ["a confirmation that has ended", () => confirmed({ ends: at(-121) }), "The confirmation ended"],
  [
    "a confirmation without an end",
    () => subject(`Recipient="${said.acs_url}" InResponseTo="${said.in_response_to}"`),
    "no time in UTC",
  ],
  ["a time of no zone", () => confirmed({ ends: "2026-12-01T12:05:00" }), "no time in UTC"],
  [
    "a session that has ended",
    () =>
      signed("assertion", {}, key, {
        statements: `<saml:AuthnStatement AuthnInstant="${at(0)}" SessionNotOnOrAfter="${at(-121)}"/>`,
      }),
    "The session ended",
  ],
  [
    "no statement that somebody signed in",
    () => signed("assertion", {}, key, { statements: "" }),
    "somebody has signed in",
  ],
  [
    "another audience",
    () =>
      conditions(
        "",
        "<saml:AudienceRestriction><saml:Audience>https://other.example</saml:Audience></saml:AudienceRestriction>",
      ),
    `The audience is https://other.example. Set the SP entity ID to ${said.sp_entity_id}.`,
  ],
  [
    "a second restriction to another audience",
    () =>
      conditions(
        "",
        `<saml:AudienceRestriction><saml:Audience>${said.sp_entity_id}</saml:Audience></saml:AudienceRestriction><saml:AudienceRestriction><saml:Audience>https://other.example</saml:Audience></saml:AudienceRestriction>`,
      ),
    "The audience is",
  ],
  ["no audience", () => conditions("", ""), "There is no audience"],
  ["no Conditions", () => signed("assertion", {}, key, { conditions: "" }), "no Conditions"],
  ["a condition that isn't known", () => conditions("", "<saml:Condition/>"), "condition that isn't known"],
  [
    "another Recipient",
    () => confirmed({ recipient: 'Recipient="https://agentry.example/sso/a/-/p/acs"' }),
    "The Recipient is https://agentry.example/sso/a/-/p/acs. Set the ACS URL to",
  ],
  ["no Recipient", () => confirmed({ recipient: "" }), "The Recipient is not there"],
  [
    "another Destination",
    () => responded({ attributes: 'Destination="https://other.example" InResponseTo="_request"' }),
    "The Destination is https://other.example",
  ],
  ["no Destination", () => responded({ attributes: 'InResponseTo="_request"' }), "The Destination is not there"],
  [
    "another Issuer of the assertion",
    () => signed("assertion", {}, key, { issuer: "<saml:Issuer>https://other.example</saml:Issuer>" }),
    "The issuer is https://other.example, not https://idp.example/metadata. Set entity_id",
  ],
  ["no Issuer of the assertion", () => responded({}, anAssertion(said, { issuer: "" })), "no Issuer"],
  [
    "another Issuer of the response",
    () => sign(aResponse({ ...said, issuer: "https://other.example" }, anAssertion(said)), "_response", key),
    "The issuer is https://other.example",
  ],
  [
    "holder-of-key",
    () => subject(`NotOnOrAfter="${at(300)}" Recipient="${said.acs_url}" InResponseTo="_request"`, "holder-of-key"),
    "The confirmation's method",
  ],
  [
    "a Status that is no success",
    () =>
      responded({
        status:
          '<samlp:Status><samlp:StatusCode Value="urn:oasis:names:tc:SAML:2.0:status:Responder"><samlp:StatusCode Value="urn:oasis:names:tc:SAML:2.0:status:AuthnFailed"/></samlp:StatusCode></samlp:Status>',
      }),
    "answered Responder, AuthnFailed",
  ],
  ["no Status", () => responded({ status: "" }), "no Status"],
  ["the answer to another request", () => confirmed({ answers: 'InResponseTo="_other"' }), "answers another request"],
  ["the answer to no request", () => confirmed({ answers: "" }), "answers no request"],
  [
    "a response to another request around it",
    () => responded({ attributes: `Destination="${said.acs_url}" InResponseTo="_other"` }),
    "answers another request",
  ],
  [
    "a response to no request around it",
    () => responded({ attributes: `Destination="${said.acs_url}"` }),
    "answers no request",
  ],
  [
    "a transient NameID",
    () =>
      signed("assertion", {}, key, {
        nameId: '<saml:NameID Format="urn:oasis:names:tc:SAML:2.0:nameid-format:transient">x</saml:NameID>',
      }),
    "transient",
  ],
  [
    "two NameIDs",
    () => signed("assertion", {}, key, { nameId: "<saml:NameID>a</saml:NameID><saml:NameID>b</saml:NameID>" }),
    "more than one NameID",
  ],
  ["a zero-width character in the NameID", () => named("person\u200b-1"), "can't be seen"],
  ["a blank after the NameID", () => named("person-1 "), "can't be seen"],
  ["an empty NameID", () => named(""), "not one text"],
  [
    "an encrypted assertion in an unsigned response",
    () => opened(encrypt(sign(anAssertion(said), "_assertion", key), spPublic(), "gcm"), "unsigned"),
    "in a signed response only",
  ],
  [
    "a changed cipher",
    () =>
      opened(
        encrypt(anAssertion(said), spPublic(), "gcm").replace(
          /(CipherValue>)[A-Za-z0-9+/]{8}(?![\s\S]*CipherValue>[A-Za-z0-9+/]{8})/,
          "$1AAAAAAAA",
        ),
      ),
    "can't be opened",
  ],
  [
    "an assertion encrypted to somebody else",
    () => opened(encrypt(anAssertion(said), createPublicKey(foreign.publicPem), "cbc")),
    "can't be opened",
  ],
  [
    "something else than an assertion, encrypted",
    () => opened(encrypt("<a/>", spPublic(), "gcm")),
    "holds something else",
  ],
  [
    "an encrypted assertion by a foreign key",
    () => opened(encrypt(sign(anAssertion(said), "_assertion", foreign), spPublic(), "gcm")),
    "signed by a key that is not set",
  ],
  [
    "an encrypted assertion and an open one",
    () => sign(aResponse(said, encrypt(anAssertion(said), spPublic(), "gcm") + anAssertion(said)), "_response", key),
    "more than one assertion",
  ],
  ["100 KiB of <", () => "<".repeat(100 * 1024), "not XML"],
  ["20,000 siblings", () => `<a>${"<b/>".repeat(20_000)}</a>`, "more than 4000 elements"],
  ["41 deep", () => "<a>".repeat(41), "deeper than 40"],
  ["unclosed", () => signed("assertion").slice(0, -3), "not XML"],
  [
    "65 attributes",
    () => `<a ${Array.from({ length: 65 }, (_, at) => `a${at}=""`).join(" ")}/>`,
    "more than 64 attributes",
  ],
  ["an attribute twice", () => '<a xmlns:b="u:" xmlns:c="u:" b:x="" c:x=""/>', "attribute twice"],
  ["more than 256 KiB", () => `<a>${"x".repeat(256 * 1024)}</a>`, "larger than 256 KiB"],
];

/** Every signature of a document, as texts in the order they stand. */
const signatures = (xml: string) => [...xml.matchAll(/<ds:Signature .*?<\/ds:Signature>/gs)].map(([text]) => text);

describe("a response", () => {
  it.each(good)("is taken: %s", async (_, make) => {
    const login = await read(make());
    expect(login).toMatchObject({ id: "_assertion", name_id: { value: "person-1" } });
  });

  it("says the session and each attribute's values, by their names", async () => {
    const login = await read(signed("assertion"));
    expect(login.session_index).toBe("session-1");
    expect([...login.attributes]).toEqual([
      ["email", ["ada@acme.example"]],
      ["groups", ["staff", "admins"]],
    ]);
    const named = await read(good.find(([name]) => name.startsWith("entities"))![1]());
    expect([...named.attributes]).toEqual([["a&b", ["<\r> \"x' ü"]]]);
  });

  it("keeps an attribute called __proto__ among the others", async () => {
    const xml = signed("assertion", {}, key, {
      statements: `<saml:AuthnStatement AuthnInstant="${at(0)}"/><saml:AttributeStatement><saml:Attribute Name="__proto__"><saml:AttributeValue>x</saml:AttributeValue></saml:Attribute></saml:AttributeStatement>`,
    });
    const login = await read(xml);
    expect(login.attributes.get("__proto__")).toEqual(["x"]);
    expect(({} as Record<string, unknown>)[0]).toBeUndefined();
  });

  it.each(["gcm", "cbc"] as const)("is opened: AES-%s under RSA-OAEP, by either of two keys", async (cipher) => {
    const xml = opened(encrypt(anAssertion(said), spPublic(), cipher));
    const other = (await newSpKey()) as SpKey;
    expect((await read(xml, { keys: [other, sp] })).name_id.value).toBe("person-1");
  });

  it.each(bad)("is refused: %s", async (_, make, sentence) => {
    const answer = await outcome(read(make()));
    expect(answer).not.toMatch(/^taken/);
    expect(answer).toContain(sentence);
  });

  it("is refused after the certificate was swapped for another", async () => {
    expect(await outcome(read(signed("both"), { signers: await signersOf(foreign) }))).toContain("key that is not set");
  });

  it("of org A is refused at B, though both have the same key", async () => {
    const b = { acs_url: said.acs_url.replace("/o/", "/p/"), sp_entity_id: said.sp_entity_id.replace("/o/", "/p/") };
    for (const what of ["response", "assertion"] as const)
      expect(await outcome(read(signed(what), b))).not.toMatch(/^taken/);
  });
});

it("what ours takes, xml-crypto takes, and it reads the same bytes", () => {
  for (const [name, make] of good) {
    const xml = make();
    const root = parseXml(Buffer.from(xml));
    const ours = signaturesIn(root).map((signature) => {
      const list = [...xml.matchAll(/PrefixList="([^"]*)"/g)][0]?.[1]?.split(" ") ?? [];
      return canonical(signature.parent!, { without: signature, inclusive: list });
    });
    const by = name.startsWith("ECDSA") ? elliptic : key;
    const theirs = signatures(xml).flatMap((signature) => judge(xml, signature, by) ?? "refused");
    expect(theirs, name).toEqual(ours);
  }
});

it("of 3,000 seeded mutants none is taken for somebody else", async () => {
  let seed = 20_261_201;
  const random = (below: number) => {
    // xorshift32: the same mutants each time.
    seed ^= seed << 13;
    seed ^= seed >>> 17;
    seed ^= seed << 5;
    return (seed >>> 0) % below;
  };
  const parents = (["response", "assertion", "both"] as const).map((what) => signed(what));
  const pieces = [
    "<!-- -->",
    "<?x?>",
    "<![CDATA[x]]>",
    "&#10;",
    "&amp;",
    " ",
    "somebody-else",
    ' ID="_evil"',
    'xmlns:saml="urn:x" ',
    "\u200b",
  ];
  const tags = (xml: string) => [...xml.matchAll(/<[^>]*>/g)].map(({ index }) => index);
  const mutate = (xml: string): string => {
    const at = random(xml.length);
    const [from, to] = [at, Math.min(xml.length, at + 1 + random(60))];
    const places = tags(xml);
    const place = places[random(places.length)]!;
    switch (random(7)) {
      case 0:
        return xml.slice(0, at) + pieces[random(pieces.length)] + xml.slice(at);
      case 1:
        return xml.slice(0, from) + xml.slice(to);
      case 2:
        return xml.slice(0, at) + String.fromCharCode(32 + random(95)) + xml.slice(at + 1);
      case 3:
        return xml.slice(0, place) + xml.slice(from, to) + xml.slice(place);
      case 4: {
        // An element, moved or copied to another tag's place.
        const other = places[random(places.length)]!;
        const [name] = /^<[\w:]+/.exec(xml.slice(other)) ?? [];
        const end = name ? xml.indexOf(`</${name.slice(1)}>`, other) + name.length + 2 : -1;
        if (end < other) return xml;
        const piece = evil(xml.slice(other, end));
        return xml.slice(0, place) + piece + xml.slice(place);
      }
      case 5:
        return xml.replaceAll("person-1", "somebody-else");
      default:
        return evil(assertionOf(xml)) ? xml.slice(0, place) + evil(assertionOf(xml)) + xml.slice(place) : xml;
    }
  };
  const whole = JSON.stringify(await read(parents[0]!), replaceMaps);
  let taken = 0;
  for (let mutant = 0; mutant < 3000; mutant++) {
    let xml = parents[mutant % 3]!;
    for (let times = 1 + random(2); times > 0; times--) xml = mutate(xml);
    try {
      const login = await read(xml);
      taken++;
      expect(JSON.stringify(login, replaceMaps), xml).toBe(whole);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
    }
  }
  // Else the mutants were no responses at all, and the run shows nothing: a blank between two tags changes nobody.
  expect(taken).toBeGreaterThan(30);
}, 120_000);
const replaceMaps = (_: string, value: unknown) => (value instanceof Map ? [...value] : value);

/** The time alone, of many: linear, whatever is sent. */
it.each([
  ["100 KiB of <", "<".repeat(100 * 1024)],
  ["attributes without an end", `<a ${'b="" '.repeat(20_000)}`],
  ["ampersands", `<a>${"&".repeat(100 * 1024)}</a>`],
  [
    "namespaces, each in the other",
    Array.from({ length: 39 }, (_, at) => `<a${' xmlns:b="u:"'.repeat(1)} x${at}="">`).join(""),
  ],
])("costs little: %s", async (_, text) => {
  const start = performance.now();
  expect(() => parseXml(Buffer.from(text))).toThrow(Refused);
  expect(performance.now() - start).toBeLessThan(500);
});

describe("a logout message", () => {
  const slo_service_url = "https://agentry.example/sso/a/-/o/slo";
  const request = (changed: Partial<Parameters<typeof logoutRequest>[0]> = {}) =>
    logoutRequest({
      ...{ id: "_logout", destination: slo_service_url, sp_entity_id: said.issuer, now },
      ...{ name_id: { value: "person-1", format: null }, session_index: "session-1" },
      ...changed,
    });
  const where = () => ({ issuer: said.issuer, slo_service_url, signers: expected.signers });
  const form = (xml: string) => new URLSearchParams({ SAMLRequest: base64(xml), RelayState: "state" });
  const queryOf = async (xml: string, by: SpKey) =>
    (await redirectTo("https://x.example", "SAMLRequest", xml, "a state", by)).replace(/^.*\?/, "");
  const answer = (reading: Promise<unknown>) =>
    reading.then(
      () => "taken",
      (error: Error) => error.message,
    );

  it("is read by form and by redirect, where it is signed", async () => {
    const message = { type: "request", id: "_logout", name_id: { value: "person-1" }, session_indexes: ["session-1"] };
    const signedForm = form(sign(request(), "_logout", key));
    expect(await readLogoutForm(signedForm, where(), now)).toMatchObject({ ...message, relay_state: "state" });
    const signers = [await readCertificate(sp.x5c![0]!)];
    const query = await queryOf(request(), sp);
    const read = await readLogoutQuery(query, { ...where(), signers }, now);
    expect(read).toMatchObject({ ...message, relay_state: "a state" });
  });

  it.each([
    ["unsigned", () => readLogoutForm(form(request()), where(), now), "is not signed"],
    [
      "by another key",
      () => readLogoutForm(form(sign(request(), "_logout", foreign)), where(), now),
      "key that is not set",
    ],
    [
      "another's",
      () =>
        readLogoutForm(form(sign(request({ sp_entity_id: "https://other.example" }), "_logout", key)), where(), now),
      "The issuer is",
    ],
    [
      "to somewhere else",
      () => readLogoutForm(form(sign(request({ destination: "https://other.example" }), "_logout", key)), where(), now),
      "Set the logout URL",
    ],
    [
      "older than five minutes",
      () =>
        readLogoutForm(form(sign(request({ now: new Date(now.getTime() - 421_000) }), "_logout", key)), where(), now),
      "older than five minutes",
    ],
    [
      "unsigned in a query",
      async () => readLogoutQuery((await queryOf(request(), sp)).replace(/&Signature=.*/, ""), where(), now),
      "is not signed",
    ],
    [
      "changed in a query",
      async () =>
        readLogoutQuery(
          (await queryOf(request(), sp)).replace("a%20state", "b"),
          { ...where(), signers: [await readCertificate(sp.x5c![0]!)] },
          now,
        ),
      "key that is not set",
    ],
    [
      "with a parameter twice",
      async () => readLogoutQuery(`${await queryOf(request(), sp)}&RelayState=x`, where(), now),
      "a parameter twice",
    ],
  ])("is refused: %s", async (_, reading, sentence) => {
    expect(await answer(reading())).toContain(sentence);
  });

  it("is inflated to 256 KiB and no further (CVE-2025-25293)", async () => {
    const bomb = new URLSearchParams({ SAMLRequest: base64(deflateRawSync(Buffer.alloc(50_000_000, 0x20))) });
    const signers = [await readCertificate(sp.x5c![0]!)];
    const query = await signedQuery(bomb.toString());
    expect(await answer(readLogoutQuery(query, { ...where(), signers }, now))).toContain("larger than 256 KiB");
  });

  async function signedQuery(query: string) {
    const whole = `${query}&SigAlg=${encodeURIComponent(`${MORE}rsa-sha256`)}`;
    const { createSign } = await import("node:crypto");
    const proof = createSign("sha256")
      .update(whole)
      .sign({ key: sp as never, format: "jwk" } as never, "base64");
    return `${whole}&Signature=${encodeURIComponent(proof)}`;
  }
});

describe("metadata", () => {
  const urls = {
    sp_entity_id: said.sp_entity_id,
    acs_url: said.acs_url,
    slo_service_url: "https://agentry.example/slo?a&b",
  };

  it("of an SP names its addresses and the certificates of both keys", async () => {
    const other = (await newSpKey()) as SpKey;
    const root = parseXml(Buffer.from(spMetadata(urls, [sp, other])));
    const text = canonical(root);
    for (const part of [said.acs_url, "slo?a&amp;b", sp.x5c![0]!, other.x5c![0]!]) expect(text).toContain(part);
    expect((await readCertificate(sp.x5c![0]!)).type).toBe("RSA");
  });

  const metadata = (inside: string, attributes = "") =>
    `<?xml version="1.0"?><md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" xmlns:ds="${DS}" entityID="https://idp.example"${attributes}>${inside}</md:EntityDescriptor>`;
  const descriptor = (keys: string) =>
    `<md:IDPSSODescriptor>${keys}<md:SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST" Location="https://idp.example/post"/><md:SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" Location="https://idp.example/sso"/></md:IDPSSODescriptor>`;
  const described = (certificate: string, use = "signing") =>
    `<md:KeyDescriptor use="${use}"><ds:KeyInfo><ds:X509Data><ds:X509Certificate>\n${certificate}\n</ds:X509Certificate></ds:X509Data></ds:KeyInfo></md:KeyDescriptor>`;

  it("of a provider gives its entity id, address and keys for signing", async () => {
    const xml = metadata(descriptor(described(key.certificate) + described(foreign.certificate, "encryption")));
    expect(await readIdpMetadata(xml, now)).toEqual({
      ...{ entity_id: "https://idp.example", sso_url: "https://idp.example/sso", slo_url: null },
      certificates: [key.certificate],
    });
  });

  it.each([
    [
      "with a validUntil that has passed",
      () => metadata(descriptor(described(key.certificate)), ' validUntil="2026-11-30T00:00:00Z"'),
      "validUntil has passed",
    ],
    ["without a key", () => metadata(descriptor("")), "1 to 4 certificates"],
    ["with a short key", () => metadata(descriptor(described(short.certificate))), "shorter than 2048"],
    ["of no provider", () => metadata(""), "one identity provider"],
    [
      "of many entities",
      () => '<md:EntitiesDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata"/>',
      "must be an EntityDescriptor",
    ],
  ])("is refused: %s", async (_, make, sentence) => {
    await expect(readIdpMetadata(make(), now)).rejects.toThrow(sentence);
  });
});

/** Debian's xmlsec1, where it is installed: `.ci/run` has it. */
const xmlsec = (() => {
  try {
    execFileSync("xmlsec1", ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
})();
it.runIf(xmlsec)("what xmlsec1 signs, ours takes", async () => {
  const dir = mkdtempSync(join(tmpdir(), "xmlsec-"));
  try {
    const signature = signatureOf(signed("assertion")).replace(/(<ds:(DigestValue|SignatureValue)>)[^<]*/g, "$1");
    const template = replaced(aResponse(said, anAssertion(said)), "<saml:Subject>", `${signature}<saml:Subject>`);
    writeFileSync(join(dir, "in.xml"), template);
    writeFileSync(join(dir, "key.pem"), key.pem);
    const options = [
      "--sign",
      "--privkey-pem",
      "key.pem",
      "--id-attr:ID",
      "urn:oasis:names:tc:SAML:2.0:assertion:Assertion",
    ];
    execFileSync("xmlsec1", [...options, "--output", "out.xml", "in.xml"], { cwd: dir });
    expect((await read(readFileSync(join(dir, "out.xml"), "utf8"))).name_id.value).toBe("person-1");
  } finally {
    rmSync(dir, { recursive: true });
  }
});
