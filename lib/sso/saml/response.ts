/** A SAML Response, from its bytes to who has signed in. Pure: all that it knows of here is told. */
import { fromBase64 } from "./certificate.ts";
import { decrypt, type SpKey } from "./decrypt.ts";
import { Refused } from "./refused.ts";
import { assertUniqueIds, type Signer, signaturesIn, verifySignature } from "./signature.ts";
import { attribute, childrenOf, type Element, elementsOf, parseXml, textOf, walk } from "./xml.ts";

export const SAML = "urn:oasis:names:tc:SAML:2.0:assertion";
export const SAMLP = "urn:oasis:names:tc:SAML:2.0:protocol";
const SUCCESS = "urn:oasis:names:tc:SAML:2.0:status:Success";
const BEARER = "urn:oasis:names:tc:SAML:2.0:cm:bearer";
const TRANSIENT = "urn:oasis:names:tc:SAML:2.0:nameid-format:transient";
/** What two clocks may be apart. */
export const SKEW_MS = 120_000;
const MAX_VALUE = 1000;

export type Expected = {
  /** The provider's entity id. */
  issuer: string;
  sp_entity_id: string;
  acs_url: string;
  /** The ID of the request that it is to answer. */
  in_response_to: string;
  signers: readonly Signer[];
  /** The SP's private keys, for assertions that are encrypted to them. */
  keys: readonly SpKey[];
};

export type NameId = { value: string; format: string | null };
export type Login = {
  /** The assertion's ID: it is taken once. */
  id: string;
  /** Until when it could be sent again. */
  not_on_or_after: Date;
  name_id: NameId;
  session_index: string | null;
  /** When the provider wants the session to end. */
  session_not_on_or_after: Date | null;
  /** Each attribute's values, by its name. */
  attributes: Map<string, string[]>;
};

/** Reads the form field `SAMLResponse`. Throws `Refused`, whose message tells an admin what is to be set. */
export async function readResponse(field: string, expected: Expected, now: Date): Promise<Login> {
  const bytes = fromBase64(field);
  if (!bytes) throw new Refused("The response is not base64.");
  const response = parseXml(bytes);
  if (response.ns !== SAMLP || response.local !== "Response") throw new Refused("It is not a SAML Response.");
  const held = assertionsIn(response);
  if (held.length > 1) throw new Refused("The response has more than one assertion.");
  const [found] = held;
  if (found && found.parent !== response) throw new Refused("The assertion does not stand in the response itself.");
  assertUniqueIds(response);

  // A failure is told first: it has no assertion, and often no signature.
  assertSuccess(response);
  if (!found) throw new Refused("The response has no assertion.");
  const signed = await verifyAll(response, [response, found], expected.signers, now);
  let assertion = found;
  if (found.local === "EncryptedAssertion") {
    // Else anybody could have ciphers of theirs opened.
    if (!signed.has(response)) {
      throw new Refused(
        "An encrypted assertion is taken in a signed response only. Let the provider sign the response.",
      );
    }
    assertion = await decrypt(found, expected.keys);
    if (assertion.local !== "Assertion" || assertion.ns !== SAML || assertionsIn(assertion).length !== 1) {
      throw new Refused("The encrypted assertion holds something else.");
    }
    assertUniqueIds(response, assertion);
    await verifyAll(assertion, [assertion], expected.signers, now);
  } else if (!signed.size) {
    throw new Refused("Neither response nor assertion is signed. Let the identity provider sign one of them.");
  }

  const issuer = childrenOf(response, SAML, "Issuer");
  if (issuer.length) assertIssuer(response, expected.issuer);
  assertIs(attribute(response, "Version"), "2.0", "The version");
  assertIs(attribute(response, "Destination"), expected.acs_url, "The Destination", "ACS URL");
  assertAnswers(attribute(response, "InResponseTo"), expected.in_response_to);
  return readAssertion(assertion, expected, now);
}

/** Every assertion in it, open or not, wherever it hides. */
const assertionsIn = (root: Element) =>
  [...walk(root)].filter(({ ns, local }) => ns === SAML && (local === "Assertion" || local === "EncryptedAssertion"));

/** Verifies every signature that there is; one elsewhere than in these elements is refused. Answers what is signed. */
export async function verifyAll(
  root: Element,
  places: readonly Element[],
  signers: readonly Signer[],
  now: Date,
): Promise<Set<Element>> {
  const signed = new Set<Element>();
  for (const signature of signaturesIn(root)) {
    const place = signature.parent;
    if (!place || !places.includes(place)) throw new Refused("A signature stands where none is looked for.");
    if (signed.has(place)) throw new Refused("It is signed twice.");
    await verifySignature(signature, signers, now);
    signed.add(place);
  }
  return signed;
}

export function assertSuccess(message: Element) {
  const code = sole(sole(message, SAMLP, "Status"), SAMLP, "StatusCode");
  const status = attribute(code, "Value");
  if (status === SUCCESS) return;
  const inner = childrenOf(code, SAMLP, "StatusCode")[0];
  const words = [status, inner && attribute(inner, "Value")]
    .map((one) => shown(one?.replace(/^.*:/, "") ?? ""))
    .filter(Boolean);
  throw new Refused(`The identity provider answered ${words.join(", ") || "no status"}. Look into its own log.`);
}

function readAssertion(assertion: Element, expected: Expected, now: Date): Login {
  const id = attribute(assertion, "ID");
  if (!id || id.length > MAX_VALUE) throw new Refused("The assertion has no ID.");
  assertIs(attribute(assertion, "Version"), "2.0", "The assertion's version");
  assertIssuer(assertion, expected.issuer);
  assertPast(attribute(assertion, "IssueInstant"), "The assertion's IssueInstant", now);

  const subject = sole(assertion, SAML, "Subject");
  const name_id = nameIdOf(sole(subject, SAML, "NameID"));
  const confirmation = sole(subject, SAML, "SubjectConfirmation");
  assertIs(attribute(confirmation, "Method"), BEARER, "The confirmation's method");
  const data = sole(confirmation, SAML, "SubjectConfirmationData");
  assertIs(attribute(data, "Recipient"), expected.acs_url, "The Recipient", "ACS URL");
  assertAnswers(attribute(data, "InResponseTo"), expected.in_response_to);
  if (attribute(data, "NotBefore") !== null) assertPast(attribute(data, "NotBefore"), "The confirmation", now);
  const not_on_or_after = assertFuture(attribute(data, "NotOnOrAfter"), "The confirmation", now);

  const conditions = sole(assertion, SAML, "Conditions");
  if (attribute(conditions, "NotBefore") !== null) {
    assertPast(attribute(conditions, "NotBefore"), "The assertion", now);
  }
  if (attribute(conditions, "NotOnOrAfter") !== null) {
    assertFuture(attribute(conditions, "NotOnOrAfter"), "The assertion", now);
  }
  assertAudience(conditions, expected.sp_entity_id);

  const [statement, ...others] = childrenOf(assertion, SAML, "AuthnStatement");
  if (!statement || others.length) throw new Refused("The assertion does not say once that somebody has signed in.");
  const end = attribute(statement, "SessionNotOnOrAfter");
  const index = attribute(statement, "SessionIndex");
  if (index !== null && index.length > MAX_VALUE) throw new Refused("The SessionIndex is too long.");
  return {
    id,
    not_on_or_after: new Date(not_on_or_after.getTime() + SKEW_MS),
    name_id,
    session_index: index,
    session_not_on_or_after: end === null ? null : assertFuture(end, "The session", now),
    attributes: attributesOf(assertion),
  };
}

/** The name of a person. Throws where it is transient, or could be read as another's. */
export function nameIdOf(element: Element): NameId {
  const value = textOf(element);
  const format = attribute(element, "Format");
  if (!value || value.length > MAX_VALUE) throw new Refused("The NameID is not one text.");
  if (/\p{C}/u.test(value) || value.trim() !== value) {
    throw new Refused("The NameID has characters that can't be seen.");
  }
  if (format === TRANSIENT) {
    throw new Refused("The NameID is transient: it names nobody twice. Set its format to persistent or emailAddress.");
  }
  return { value, format };
}

function assertAudience(conditions: Element, audience: string) {
  const restrictions = childrenOf(conditions, SAML, "AudienceRestriction");
  const known = new Set(["AudienceRestriction", "OneTimeUse", "ProxyRestriction"]);
  if (elementsOf(conditions).some(({ ns, local }) => ns !== SAML || !known.has(local))) {
    throw new Refused("The assertion has a condition that isn't known here.");
  }
  if (!restrictions.length) throw new Refused(`There is no audience. Set the SP entity ID to ${audience}.`);
  for (const restriction of restrictions) {
    const audiences = childrenOf(restriction, SAML, "Audience").map((one) => textOf(one) ?? "");
    if (!audiences.includes(audience)) {
      throw new Refused(`The audience is ${shown(audiences[0] ?? "")}. Set the SP entity ID to ${audience}.`);
    }
  }
}

/** Attributes by name. A value that is no single text (an element inside, or nothing) is none. */
function attributesOf(assertion: Element): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const statement of childrenOf(assertion, SAML, "AttributeStatement")) {
    for (const one of childrenOf(statement, SAML, "Attribute")) {
      const values = childrenOf(one, SAML, "AttributeValue").map(textOf);
      const name = attribute(one, "Name") ?? "";
      found.set(name, [...(found.get(name) ?? []), ...values.filter((value) => value !== null)]);
    }
  }
  return found;
}

export function assertIssuer(element: Element, issuer: string) {
  const found = textOf(sole(element, SAML, "Issuer"));
  if (found !== issuer) {
    throw new Refused(
      `The issuer is ${shown(found ?? "")}, not ${shown(issuer)}. Set entity_id to what the provider is called.`,
    );
  }
}

function assertIs(found: string | null, expected: string, what: string, setting?: string) {
  if (found === expected) return;
  const set = setting ? ` Set the ${setting} to ${expected}.` : ` It must be ${expected}.`;
  throw new Refused(`${what} is ${found === null ? "not there" : shown(found)}.${set}`);
}

function assertAnswers(found: string | null, request: string) {
  if (found === null)
    throw new Refused("The response answers no request of ours. Start the login here, not at the provider.");
  if (found !== request) throw new Refused("The response answers another request. Start the login again.");
}

/** A time as SAML writes it, always in UTC. */
function timeOf(text: string | null, what: string): Date {
  const date = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$/.test(text ?? "") ? new Date(text!) : null;
  if (!date || Number.isNaN(date.getTime())) throw new Refused(`${what} has no time in UTC.`);
  return date;
}

export function assertPast(text: string | null, what: string, now: Date): Date {
  const date = timeOf(text, what);
  if (date.getTime() <= now.getTime() + SKEW_MS) return date;
  throw new Refused(`${what} is of ${date.toISOString()}, which is in the future. Set the identity provider's clock.`);
}

export function assertFuture(text: string | null, what: string, now: Date): Date {
  const date = timeOf(text, what);
  if (date.getTime() > now.getTime() - SKEW_MS) return date;
  throw new Refused(`${what} ended at ${date.toISOString()}. Log in again, or set the identity provider's clock.`);
}

/** The one child of that name. */
export function sole(element: Element, ns: string, local: string): Element {
  const found = childrenOf(element, ns, local);
  if (found.length !== 1)
    throw new Refused(`There ${found.length ? "is more than one" : "is no"} ${local} in the ${element.local}.`);
  return found[0]!;
}

/** What somebody else has written, for a sentence: short, and nothing that can't be seen. */
export const shown = (text: string) =>
  text
    .replace(/[\p{C}\s]+/gu, " ")
    .trim()
    .slice(0, 200) || "not there";
