/** Who somebody is by what a provider says of them: SAML's attributes or OIDC's claims, alike. Pure. */
import type { SsoRow } from "./schema.ts";

export type Person = {
  subject: string;
  /** As users are found by it: lower-case, and nothing in it that can't be seen. Null where there is none such. */
  email: string | null;
  name: string | null;
  /** What the groups map to; null: nothing. */
  role: string | null;
};

const SOAP = "http://schemas.xmlsoap.org/ws/2005/05/identity/claims";
const MICROSOFT = "http://schemas.microsoft.com";
/** The names that are tried where attribute_mapping names none. */
const USUAL = {
  email: ["email", "mail", `${SOAP}/emailaddress`, "urn:oid:0.9.2342.19200300.100.1.3"],
  name: ["displayName", "name", `${MICROSOFT}/identity/claims/displayname`, "urn:oid:2.16.840.1.113730.3.1.241"],
  given: ["givenName", "given_name", `${SOAP}/givenname`, "urn:oid:2.5.4.42"],
  family: ["sn", "family_name", `${SOAP}/surname`, "urn:oid:2.5.4.4"],
  groups: ["groups", `${MICROSOFT}/ws/2008/06/identity/claims/groups`],
};

/** `subject` is whom the provider names, unless an attribute is mapped to it; null where that isn't one value. */
export function personOf(
  attributes: ReadonlyMap<string, readonly string[]>,
  { attribute_mapping: mapping, role_mapping }: Pick<SsoRow, "attribute_mapping" | "role_mapping">,
  subject: string,
  fallbackEmail: string | null,
): Person | null {
  const valuesOf = (names: readonly string[]) =>
    names.map((name) => attributes.get(name)).find((values) => values?.length) ?? [];
  /** One value, or none: of several nobody can say which is meant. */
  const one = (names: readonly string[]) => {
    const values = valuesOf(names);
    return values.length === 1 ? values[0]! : null;
  };
  const named = mapping.subject ? one([mapping.subject]) : subject;
  if (!named || named.length > 1000 || /\p{C}/u.test(named)) return null;
  const parts = [one(USUAL.given), one(USUAL.family)].filter(Boolean).join(" ");
  const name = (mapping.name ? one([mapping.name]) : one(USUAL.name)) ?? parts;
  const groups = valuesOf(mapping.groups ? [mapping.groups] : USUAL.groups);
  const email = mapping.email ? one([mapping.email]) : (one(USUAL.email) ?? fallbackEmail);
  return {
    subject: named,
    email: emailKey(email),
    name:
      name
        .replace(/[\p{C}\s]+/gu, " ")
        .trim()
        .slice(0, 200) || null,
    role: role_mapping.find(({ group }) => groups.includes(group))?.role ?? null,
  };
}

/** An address as the key of one, null where it isn't one in plain letters: two that look alike must not be two people's. */
export function emailKey(text: string | null): string | null {
  const address = text?.normalize("NFC").toLowerCase() ?? "";
  return /^[\x21-\x3f\x41-\x7e]{1,64}@[a-z0-9-]+(\.[a-z0-9-]+)+$/.test(address) && address.length <= 254
    ? address
    : null;
}
