/** A SAML provider whose every part can be made wrong: what it says is a text, and xml-crypto signs it. */
import {
  type CipherGCM,
  constants,
  createCipheriv,
  createHash,
  createSign,
  createVerify,
  type KeyObject,
  publicEncrypt,
  randomBytes,
} from "node:crypto";
import { SignedXml } from "xml-crypto";
import { selfSigned } from "../../lib/local/sp-key.ts";

export const DS = "http://www.w3.org/2000/09/xmldsig#";
export const MORE = "http://www.w3.org/2001/04/xmldsig-more#";
export const ENC = "http://www.w3.org/2001/04/xmlenc#";
export const EXC = "http://www.w3.org/2001/10/xml-exc-c14n#";
export const RSA_SHA256 = `${MORE}rsa-sha256`;
export const SHA256 = `${ENC}sha256`;

export type ProviderKey = { pem: string; publicPem: string; certificate: string };

const DAY = 86_400_000;
const pem = (bytes: ArrayBuffer, name: string) =>
  `-----BEGIN ${name}-----\n${Buffer.from(bytes).toString("base64").replace(/.{64}/g, "$&\n")}\n-----END ${name}-----\n`;

/** A new key with its certificate. `bits` of RSA; 0 is P-256, whose certificate somebody else's key has signed. */
export async function aKey({ bits = 2048, from = -DAY, to = 365 * DAY, now = Date.now() } = {}): Promise<ProviderKey> {
  const rsa = (modulusLength: number) =>
    crypto.subtle.generateKey(
      { name: "RSASSA-PKCS1-v1_5", modulusLength, publicExponent: new Uint8Array([1, 0, 1]), hash: "SHA-256" },
      true,
      ["sign", "verify"],
    ) as Promise<CryptoKeyPair>;
  const signer = await rsa(bits || 2048);
  const pair = bits
    ? signer
    : ((await crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, [
        "sign",
        "verify",
      ])) as CryptoKeyPair);
  const spki = (await crypto.subtle.exportKey("spki", pair.publicKey)) as ArrayBuffer;
  const dates = { from: new Date(now + from), to: new Date(now + to) };
  return {
    pem: pem((await crypto.subtle.exportKey("pkcs8", pair.privateKey)) as ArrayBuffer, "PRIVATE KEY"),
    publicPem: pem(spki, "PUBLIC KEY"),
    certificate: await selfSigned({ key: signer.privateKey, spki: new Uint8Array(spki), ...dates }),
  };
}

/** What xml-crypto doesn't know by itself. */
function learn(xml: SignedXml) {
  for (const bits of ["384"]) {
    xml.HashAlgorithms[`${MORE}sha${bits}`] = class {
      getAlgorithmName = () => `${MORE}sha${bits}`;
      getHash = (text: string) => createHash(`sha${bits}`).update(text, "utf8").digest("base64");
    } as never;
  }
  for (const [name, hash] of [
    ["rsa-sha384", "sha384"],
    ["rsa-sha512", "sha512"],
    ["ecdsa-sha256", "sha256"],
  ] as const) {
    const dsaEncoding = "ieee-p1363" as const;
    xml.SignatureAlgorithms[`${MORE}${name}`] = class {
      getAlgorithmName = () => `${MORE}${name}`;
      getSignature = (text: string, key: string) => createSign(hash).update(text).sign({ key, dsaEncoding }, "base64");
      verifySignature = (text: string, key: string | KeyObject, value: string) =>
        createVerify(hash)
          .update(text)
          .verify({ key: key as string, dsaEncoding }, value, "base64");
    } as never;
  }
  return xml;
}

export type Signing = {
  method?: string;
  digest?: string;
  c14n?: string;
  transforms?: string[];
  prefixes?: string[];
  uri?: string;
  keyInfo?: string;
};

/** Signs the element with this ID, by a signature that follows the Issuer in it. */
export function sign(xml: string, id: string, key: ProviderKey, signing: Signing = {}): string {
  const { method = RSA_SHA256, digest = SHA256, c14n = EXC, prefixes = [] } = signing;
  const by = learn(
    new SignedXml({
      privateKey: key.pem,
      signatureAlgorithm: method as never,
      canonicalizationAlgorithm: c14n as never,
      inclusiveNamespacesPrefixList: prefixes,
      idAttribute: "ID",
      getKeyInfoContent: () =>
        signing.keyInfo ?? `<ds:X509Data><ds:X509Certificate>${key.certificate}</ds:X509Certificate></ds:X509Data>`,
    }),
  );
  if (method.includes("hmac")) by.enableHMAC();
  by.addReference({
    xpath: `//*[@ID='${id}']`,
    transforms: signing.transforms ?? [`${DS}enveloped-signature`, EXC],
    digestAlgorithm: digest,
    inclusiveNamespacesPrefixList: prefixes,
  });
  by.computeSignature(xml, {
    prefix: "ds",
    location: { reference: `//*[@ID='${id}']/*[local-name(.)='Issuer']`, action: "after" },
  });
  return by.getSignedXml();
}

/** Whether xml-crypto takes a signature of the document, and the canonical text of what it signs. */
export function judge(xml: string, signature: string, key: ProviderKey): string[] | null {
  const by = learn(new SignedXml({ publicCert: key.publicPem, getCertFromKeyInfo: () => null }));
  by.loadSignature(signature);
  return by.checkSignature(xml) ? by.getSignedReferences() : null;
}

export type Said = {
  now: number;
  issuer: string;
  acs_url: string;
  sp_entity_id: string;
  in_response_to: string;
};

const at = (now: number, seconds: number) => new Date(now + seconds * 1000).toISOString();

/** An unsigned assertion of a person; each part can be another text. */
export function anAssertion(
  said: Said,
  parts: Partial<Record<"nameId" | "subject" | "conditions" | "statements" | "issuer" | "id" | "more", string>> = {},
) {
  const { now, issuer, acs_url, sp_entity_id, in_response_to } = said;
  const nameId =
    parts.nameId ?? '<saml:NameID Format="urn:oasis:names:tc:SAML:2.0:nameid-format:persistent">person-1</saml:NameID>';
  const subject =
    parts.subject ??
    `<saml:Subject>${nameId}<saml:SubjectConfirmation Method="urn:oasis:names:tc:SAML:2.0:cm:bearer"><saml:SubjectConfirmationData NotOnOrAfter="${at(now, 300)}" Recipient="${acs_url}" InResponseTo="${in_response_to}"/></saml:SubjectConfirmation></saml:Subject>`;
  const conditions =
    parts.conditions ??
    `<saml:Conditions NotBefore="${at(now, -60)}" NotOnOrAfter="${at(now, 300)}"><saml:AudienceRestriction><saml:Audience>${sp_entity_id}</saml:Audience></saml:AudienceRestriction></saml:Conditions>`;
  const statements =
    parts.statements ??
    `<saml:AuthnStatement AuthnInstant="${at(now, 0)}" SessionIndex="session-1"><saml:AuthnContext><saml:AuthnContextClassRef>urn:oasis:names:tc:SAML:2.0:ac:classes:Password</saml:AuthnContextClassRef></saml:AuthnContext></saml:AuthnStatement><saml:AttributeStatement><saml:Attribute Name="email"><saml:AttributeValue>ada@acme.example</saml:AttributeValue></saml:Attribute><saml:Attribute Name="groups"><saml:AttributeValue>staff</saml:AttributeValue><saml:AttributeValue>admins</saml:AttributeValue></saml:Attribute></saml:AttributeStatement>`;
  return `<saml:Assertion xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ID="${parts.id ?? "_assertion"}" Version="2.0" IssueInstant="${at(now, 0)}">${parts.issuer ?? `<saml:Issuer>${issuer}</saml:Issuer>`}${subject}${conditions}${statements}${parts.more ?? ""}</saml:Assertion>`;
}

/** An unsigned Response around an assertion, or whatever else. */
export function aResponse(
  said: Said,
  inside: string,
  parts: Partial<Record<"status" | "attributes" | "before", string>> = {},
) {
  const { now, issuer, acs_url, in_response_to } = said;
  const attributes = parts.attributes ?? `Destination="${acs_url}" InResponseTo="${in_response_to}"`;
  const status =
    parts.status ??
    '<samlp:Status><samlp:StatusCode Value="urn:oasis:names:tc:SAML:2.0:status:Success"/></samlp:Status>';
  return `<samlp:Response xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" ID="_response" Version="2.0" IssueInstant="${at(now, 0)}" ${attributes}><saml:Issuer xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion">${issuer}</saml:Issuer>${parts.before ?? ""}${status}${inside}</samlp:Response>`;
}

const OAEP = `<xenc:EncryptionMethod Algorithm="${ENC}rsa-oaep-mgf1p"><ds:DigestMethod xmlns:ds="${DS}" Algorithm="${DS}sha1"/></xenc:EncryptionMethod>`;

/** Encrypts an assertion to an SP's key: AES-256, by GCM or CBC, under RSA-OAEP. */
export function encrypt(assertion: string, publicKey: KeyObject, cipher: "gcm" | "cbc"): string {
  const secret = randomBytes(32);
  const iv = randomBytes(cipher === "gcm" ? 12 : 16);
  const by = createCipheriv(`aes-256-${cipher}`, secret, iv) as CipherGCM;
  let bytes = Buffer.from(assertion);
  if (cipher === "cbc") {
    by.setAutoPadding(false);
    // As XML Encryption pads: any bytes, and then how many there are.
    const pad = 16 - (bytes.length % 16);
    bytes = Buffer.concat([bytes, Buffer.alloc(pad - 1, 0xab), Buffer.from([pad])]);
  }
  const sealed = Buffer.concat([iv, by.update(bytes), by.final(), ...(cipher === "gcm" ? [by.getAuthTag()] : [])]);
  const wrapped = publicEncrypt({ key: publicKey, padding: constants.RSA_PKCS1_OAEP_PADDING }, secret);
  const method = cipher === "gcm" ? "http://www.w3.org/2009/xmlenc11#aes256-gcm" : `${ENC}aes256-cbc`;
  const value = (of: Buffer) =>
    `<xenc:CipherData><xenc:CipherValue>${of.toString("base64")}</xenc:CipherValue></xenc:CipherData>`;
  return `<saml:EncryptedAssertion xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion"><xenc:EncryptedData xmlns:xenc="${ENC}" Type="${ENC}Element"><xenc:EncryptionMethod Algorithm="${method}"/><ds:KeyInfo xmlns:ds="${DS}"><xenc:EncryptedKey>${OAEP}${value(wrapped)}</xenc:EncryptedKey></ds:KeyInfo>${value(sealed)}</xenc:EncryptedData></saml:EncryptedAssertion>`;
}
