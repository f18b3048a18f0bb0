/** SAML metadata: what an SP publishes of itself, and what it takes from an identity provider's. */
import { readCertificate } from "./certificate.ts";
import type { SpKey } from "./decrypt.ts";
import { Refused } from "./refused.ts";
import { SAMLP } from "./response.ts";
import { attribute, childrenOf, escapeXml, parseXml, textOf } from "./xml.ts";

const MD = "urn:oasis:names:tc:SAML:2.0:metadata";
const DS = "http://www.w3.org/2000/09/xmldsig#";
const REDIRECT = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect";
const POST = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST";
export const MAX_CERTIFICATES = 4;

/** The metadata of an org's SP. All keys are published, so that a provider knows the next one before it is used. */
export function spMetadata(
  sp: { sp_entity_id: string; acs_url: string; slo_service_url: string },
  keys: readonly SpKey[],
): string {
  const described = (use: string) =>
    keys
      .flatMap(({ x5c }) => x5c?.[0] ?? [])
      .map(
        (der) =>
          `<md:KeyDescriptor use="${use}"><ds:KeyInfo xmlns:ds="${DS}"><ds:X509Data><ds:X509Certificate>${der}</ds:X509Certificate></ds:X509Data></ds:KeyInfo></md:KeyDescriptor>`,
      )
      .join("");
  const at = (name: string, binding: string, location: string, more = "") =>
    `<md:${name} Binding="${binding}" Location="${escapeXml(location)}"${more}/>`;
  return `<?xml version="1.0" encoding="UTF-8"?>
<md:EntityDescriptor xmlns:md="${MD}" entityID="${escapeXml(sp.sp_entity_id)}"><md:SPSSODescriptor AuthnRequestsSigned="true" WantAssertionsSigned="true" protocolSupportEnumeration="${SAMLP}">${described("signing")}${described("encryption")}${at("SingleLogoutService", REDIRECT, sp.slo_service_url)}${at("SingleLogoutService", POST, sp.slo_service_url)}${at("AssertionConsumerService", POST, sp.acs_url, ' index="0" isDefault="true"')}</md:SPSSODescriptor></md:EntityDescriptor>`;
}

export type IdpMetadata = { entity_id: string; sso_url: string; slo_url: string | null; certificates: string[] };

/** Reads an identity provider's metadata. Its own signature is not looked at: who sets it is believed. */
export async function readIdpMetadata(xml: string, now: Date): Promise<IdpMetadata> {
  const entity = parseXml(new TextEncoder().encode(xml.trim()));
  const entity_id = attribute(entity, "entityID");
  if (entity.ns !== MD || entity.local !== "EntityDescriptor" || !entity_id) {
    throw new Refused("It is not the metadata of one entity: its root must be an EntityDescriptor.");
  }
  const [idp, ...others] = childrenOf(entity, MD, "IDPSSODescriptor");
  if (!idp || others.length) throw new Refused("It does not describe one identity provider.");
  const until = attribute(entity, "validUntil") ?? attribute(idp, "validUntil");
  if (until !== null && !(new Date(until) > now)) throw new Refused("Its validUntil has passed. Fetch it anew.");
  const located = (name: string) => {
    const service = childrenOf(idp, MD, name).find((one) => attribute(one, "Binding") === REDIRECT);
    return service ? attribute(service, "Location") : null;
  };
  const sso_url = located("SingleSignOnService");
  if (!sso_url) throw new Refused("It has no SingleSignOnService with the HTTP-Redirect binding.");
  const certificates = childrenOf(idp, MD, "KeyDescriptor")
    .filter((one) => attribute(one, "use") !== "encryption")
    .flatMap((one) => childrenOf(one, DS, "KeyInfo"))
    .flatMap((one) => childrenOf(one, DS, "X509Data"))
    .flatMap((one) => childrenOf(one, DS, "X509Certificate"))
    .flatMap((one) => textOf(one)?.replace(/\s/g, "") ?? []);
  const unique = [...new Set(certificates)];
  if (!unique.length || unique.length > MAX_CERTIFICATES) {
    throw new Refused(`It must have 1 to ${MAX_CERTIFICATES} certificates for signing.`);
  }
  await Promise.all(unique.map(readCertificate));
  return { entity_id, sso_url, slo_url: located("SingleLogoutService"), certificates: unique };
}
