/** X.509 as SAML uses it: a wrapping for a public key, with days. Nobody signs it, and nothing else in it is read. */
import { hex } from "../../auth/secrets.ts";
import { Refused } from "./refused.ts";

type Bytes = Uint8Array<ArrayBuffer>;
export type Certificate = {
  /** The key's SubjectPublicKeyInfo. */
  spki: Bytes;
  type: "RSA" | "EC";
  not_before: Date;
  not_after: Date;
  /** SHA-256 of the whole, in hex. */
  fingerprint: string;
};

const RSA = "2a864886f70d010101";
const EC = "2a8648ce3d0201";
const P256 = "2a8648ce3d030107";
const MIN_RSA_BITS = 2048;
const MAX_DER = 8192;

type Tlv = { tag: number; start: number; end: number; from: number };

/** Reads what lies at a place of DER: its tag, and where its content begins and ends. Throws beyond the end. */
function tlv(der: Uint8Array, from: number, within = der.length): Tlv {
  let length = der[from + 1]!;
  let start = from + 2;
  if (length > 0x80) {
    const count = length & 0x7f;
    if (count > 2) throw new RangeError();
    length = 0;
    for (let i = 0; i < count; i++) length = length * 256 + der[start++]!;
  } else if (length === 0x80) throw new RangeError();
  const end = start + length;
  if (!(end <= within)) throw new RangeError();
  return { tag: der[from]!, start, end, from };
}

/** The parts of a constructed value. */
function parts(der: Uint8Array, { start, end }: Tlv): Tlv[] {
  const found: Tlv[] = [];
  for (let at = start; at < end; at = found.at(-1)!.end) found.push(tlv(der, at, end));
  return found;
}

function timeOf(der: Uint8Array, { tag, start, end }: Tlv): Date {
  const text = new TextDecoder().decode(der.subarray(start, end));
  const [, years, rest] = (tag === 0x17 ? /^(\d\d)(\d{10})Z$/ : /^(\d{4})(\d{10})Z$/).exec(text) ?? [];
  const year = years?.length === 2 ? (Number(years) < 50 ? `20${years}` : `19${years}`) : years;
  const date = new Date(`${year}-${rest?.replace(/^(..)(..)(..)(..)(..)$/, "$1-$2T$3:$4:$5Z")}`);
  if (Number.isNaN(date.getTime())) throw new RangeError();
  return date;
}

/** So many an isolate remembers: to read one takes half as long as to read a response that it signs. */
const MOST_KNOWN = 200;
const known = new Map<string, Certificate>();

/** Reads a certificate, as PEM or bare base64. Throws `Refused` where it isn't one, or its key is not taken here. */
export async function readCertificate(text: string): Promise<Certificate> {
  const before = known.get(text);
  if (before) return before;
  const base64 = text.replace(/-----(BEGIN|END) CERTIFICATE-----/g, "").replace(/\s/g, "");
  const der = fromBase64(base64);
  if (!der || der.length > MAX_DER) throw new Refused("It is not a certificate in PEM or base64.");
  const certificate = read(der);
  if (!certificate) throw new Refused("It is not an X.509 certificate with an RSA or a P-256 key.");
  const fingerprint = hex(new Uint8Array(await crypto.subtle.digest("SHA-256", der)));
  const found = { ...certificate, fingerprint };
  await importKey(found, "SHA-256");
  if (known.size >= MOST_KNOWN) known.clear();
  known.set(text, found);
  return found;
}

function read(der: Bytes): Omit<Certificate, "fingerprint"> | null {
  try {
    const whole = tlv(der, 0);
    const [tbs] = parts(der, whole);
    const fields = parts(der, tbs!);
    // The version is there from v2 on, and the one field that is tagged so.
    if (fields[0]!.tag === 0xa0) fields.shift();
    const [, , , validity, , info] = fields;
    const [before, after] = parts(der, validity!);
    const [algorithm] = parts(der, info!);
    const [oid, parameters] = parts(der, algorithm!).map((part) => hex(der.subarray(part.start, part.end)));
    const type = oid === RSA ? "RSA" : oid === EC && parameters === P256 ? "EC" : null;
    if (whole.tag !== 0x30 || whole.end !== der.length || !type) return null;
    const spki = der.slice(info!.from, info!.end);
    return { spki, type, not_before: timeOf(der, before!), not_after: timeOf(der, after!) };
  } catch {
    return null;
  }
}

/** Keys are imported once for a certificate that is remembered. */
const imported = new WeakMap<object, Map<string, CryptoKey>>();

/** The key of a certificate, to verify with. */
export async function importKey(certificate: Pick<Certificate, "spki" | "type">, hash: string): Promise<CryptoKey> {
  const keys = imported.get(certificate) ?? new Map<string, CryptoKey>();
  imported.set(certificate, keys);
  const before = keys.get(hash);
  if (before) return before;
  const { spki, type } = certificate;
  const algorithm = type === "RSA" ? { name: "RSASSA-PKCS1-v1_5", hash } : { name: "ECDSA", namedCurve: "P-256" };
  const key = await crypto.subtle.importKey("spki", spki, algorithm, false, ["verify"]).catch(() => {
    throw new Refused("The certificate's key can't be read.");
  });
  if (type === "RSA" && (key.algorithm as { modulusLength: number }).modulusLength < MIN_RSA_BITS) {
    throw new Refused(`The certificate's RSA key is shorter than ${MIN_RSA_BITS} bits.`);
  }
  keys.set(hash, key);
  return key;
}

/** Bytes of strict base64, in which blanks are allowed; null where it is something else. */
export function fromBase64(text: string): Bytes | null {
  const dense = text.replace(/[ \t\r\n]/g, "");
  if (dense === "" || dense.length % 4 || !/^[A-Za-z0-9+/]*={0,2}$/.test(dense)) return null;
  try {
    const signs = atob(dense);
    const bytes = new Uint8Array(signs.length);
    // Five times as fast as `Uint8Array.from`.
    for (let i = 0; i < bytes.length; i++) bytes[i] = signs.charCodeAt(i);
    return bytes;
  } catch {
    return null;
  }
}
