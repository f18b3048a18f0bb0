/**
 * Credentials that nobody was given: every trick with a token's claims, header and signature, with keys and with
 * refresh tokens. Each is a 401, all alike to the byte, and never a 500.
 */
import {
  createHash,
  createHmac,
  createPublicKey,
  generateKeyPairSync,
  hkdfSync,
  type KeyObject,
  randomBytes,
  sign as signBytes,
  verify as verifyBytes,
} from "node:crypto";
import { request } from "node:http";
import { CompactEncrypt, importJWK, SignJWT } from "jose";
import { beforeAll, describe, expect, it } from "vitest";
import { type App, anApp, bearer, caller, must, sql, system, unique } from "./harness/index.ts";
import { aSandbox } from "./isolation/places.ts";

type Json = Record<string, unknown>;
type Victim = {
  app: App;
  other: App;
  box: { id: string; key: string };
  box2: { id: string; key: string };
  /** A member's live token, and the parts of it. */
  token: string;
  header: Json;
  claims: Json & { exp: number; iat: number; jti: string; scope: string };
  signature: string;
  refresh: string;
  user: string;
  otherToken: { id: string; access_token: string; refresh_token: string };
  globexToken: { id: string; access_token: string };
  boxedToken: { id: string; access_token: string; refresh_token: string };
  revoked: { id: string; access_token: string; refresh_token: string };
  publicJwk: Json & { x: string; y: string; kid: string };
  privateJwk: Json & { kid: string };
};

const REQUEST_ID = "forgery-test";
const encode = (value: unknown) =>
  Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url");
const partsOf = (token: string) => token.split(".") as [string, string, string];
const decode = (part: string) => JSON.parse(Buffer.from(part, "base64url").toString());
const hourAgo = () => Math.floor(Date.now() / 1000) - 3600;

let v: Victim;

beforeAll(async () => {
  const app = await anApp();
  const other = await anApp();
  const user = (await app.aUser(app.acme)).id;
  const mint = await app.aToken(user);
  const box = await aSandbox(app.asDeveloper);
  const box2 = await aSandbox(app.asDeveloper);
  const inBox = caller(bearer(box.key));
  const slug = unique("box");
  const { id: org } = await must(inBox("POST", `${app.at}/orgs`, { name: "A", slug, domain: `${slug}.example` }), 201);
  const { id: boxed } = await must(inBox("POST", `${app.at}/users`, { org }), 201);
  const boxedToken = await must(inBox("POST", `${app.at}/users/${boxed}/tokens`, {}), 201);
  const revoked = await app.aToken(user);
  await must(app.asDeveloper("DELETE", `${app.at}/users/${user}/tokens/${revoked.id}`), 200);
  const [header, claims, signature] = partsOf(mint.access_token);
  const { keys } = (await (await fetch(`${system.base}/.well-known/jwks.json`)).json()) as {
    keys: Victim["publicJwk"][];
  };
  v = {
    ...{ app, other, box, box2, user, boxedToken, revoked, signature },
    token: mint.access_token,
    header: decode(header),
    claims: decode(claims),
    refresh: mint.refresh_token,
    otherToken: await other.aToken(other.owners[other.acme]!),
    globexToken: await app.aToken(app.owners[app.globex]!),
    publicJwk: keys.find(({ kid }) => kid === decode(header).kid)!,
    privateJwk: JSON.parse(system.secrets.JWKS).keys.find(({ kid }: { kid: string }) => kid === decode(header).kid),
  };
});

/** A token with these parts under the system's own signing key: what an insider's slip could sign. */
async function genuine(claims: Json | string, header: Json = v.header): Promise<string> {
  const input = `${encode(header)}.${encode(claims)}`;
  return `${input}.${await es256(input, v.privateJwk)}`;
}
/** The victim's claims with some changed; undefined takes one away. */
const claimed = (changes: Json) => genuine({ ...v.claims, ...changes });
const headed = (changes: Json) => genuine(v.claims, { ...v.header, ...changes });

async function es256(input: string, jwk: Json): Promise<string> {
  const key = (await importJWK(jwk, "ES256")) as CryptoKey;
  const bytes = await crypto.subtle.sign({ name: "ECDSA", hash: "SHA-256" }, key, Buffer.from(input));
  return Buffer.from(bytes).toString("base64url");
}

const own = {
  ec: generateKeyPairSync("ec", { namedCurve: "P-256" }),
  p384: generateKeyPairSync("ec", { namedCurve: "P-384" }),
  rsa: generateKeyPairSync("rsa", { modulusLength: 2048 }),
  ed: generateKeyPairSync("ed25519"),
};
const jwkOf = (key: KeyObject) => key.export({ format: "jwk" }) as Json;
/** The victim's claims under a key of the forger's. */
function under(key: KeyObject, header: Json, hash: string | null = "sha256"): string {
  const input = `${encode(header)}.${encode(v.claims)}`;
  const bytes = signBytes(hash, Buffer.from(input), { key, dsaEncoding: "ieee-p1363" });
  return `${input}.${bytes.toString("base64url")}`;
}
const hmac = (secret: string | Buffer, header: Json, hash = "sha256") => {
  const input = `${encode(header)}.${encode(v.claims)}`;
  return `${input}.${createHmac(hash, secret).update(input).digest("base64url")}`;
};
const spki = (type: "pem" | "der") => {
  const key = createPublicKey({ key: v.publicJwk as never, format: "jwk" });
  return key.export({ format: type, type: "spki" } as never) as unknown as string | Buffer;
};
/** The victim's token with its signature's bytes changed. */
const signedWith = (change: (bytes: Buffer) => Buffer) => {
  const [header, claims, signature] = partsOf(v.token);
  return `${header}.${claims}.${change(Buffer.from(signature, "base64url")).toString("base64url")}`;
};
const flip = (text: string, at: number) => {
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const index = at < 0 ? text.length + at : at;
  return text.slice(0, index) + alphabet[(alphabet.indexOf(text[index]!) + 17) % 64] + text.slice(index + 1);
};
/** The same bytes, spelt otherwise: the unused low bits of the last character set. */
const respelt = (part: string) => {
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  return part.slice(0, -1) + alphabet[alphabet.indexOf(part.at(-1)!) + 1];
};
const der = (raw: Buffer) => {
  const integer = (bytes: Buffer) => {
    const body = bytes[0]! & 0x80 ? Buffer.concat([Buffer.from([0]), bytes]) : bytes;
    return Buffer.concat([Buffer.from([2, body.length]), body]);
  };
  const both = Buffer.concat([integer(raw.subarray(0, 32)), integer(raw.subarray(32))]);
  return Buffer.concat([Buffer.from([0x30, both.length]), both]);
};
const ORDER = BigInt("0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551");
const bytes32 = (value: bigint) => Buffer.from(value.toString(16).padStart(64, "0"), "hex");
const absent = (id: string) => `${id.slice(0, 4)}${"0".repeat(21)}1`;
const sha = (text: string) => createHash("sha256").update(text).digest("base64url");

type Forger = () => string | Promise<string>;
const forgeries: Record<string, Record<string, Forger>> = {
  "an algorithm": Object.fromEntries([
    ...["none", "None", "NONE", "nOnE", "", "HS256", "es256", "ES256K", "RS256", "PS256", "EdDSA", "dir"].map(
      (alg): [string, Forger] => [
        `named ${JSON.stringify(alg)} over the genuine signature`,
        () => `${encode({ ...v.header, alg })}.${encode(v.claims)}.${v.signature}`,
      ],
    ),
    ...["none", "None", "NONE", "nOnE", "none "].map((alg): [string, Forger] => [
      `named ${JSON.stringify(alg)} without a signature`,
      () => `${encode({ alg, typ: "at+jwt" })}.${encode(v.claims)}.`,
    ]),
    ...[null, 0, true, ["ES256"], { alg: "ES256" }].map((alg): [string, Forger] => [
      `that is ${JSON.stringify(alg)}, genuinely signed`,
      () => headed({ alg }),
    ]),
    ["none with the kid kept", () => `${encode({ ...v.header, alg: "none" })}.${encode(v.claims)}.`],
    ["none with two segments only", () => `${encode({ ...v.header, alg: "none" })}.${encode(v.claims)}`],
    ["not named at all", () => headed({ alg: undefined })],
    ["HS256 under the public key's PEM", () => hmac(spki("pem"), { ...v.header, alg: "HS256" })],
    [
      "HS256 under the public key's PEM, trimmed",
      () => hmac(String(spki("pem")).trim(), { ...v.header, alg: "HS256" }),
    ],
    ["HS256 under the public key's DER", () => hmac(spki("der"), { ...v.header, alg: "HS256" })],
    ["HS256 under the public JWK", () => hmac(JSON.stringify(v.publicJwk), { ...v.header, alg: "HS256" })],
    ["HS256 under the public key's x", () => hmac(v.publicJwk.x, { ...v.header, alg: "HS256" })],
    [
      "HS256 under the public key's x, decoded",
      () => hmac(Buffer.from(v.publicJwk.x, "base64url"), { ...v.header, alg: "HS256" }),
    ],
    [
      "HS256 under the public point",
      () =>
        hmac(
          Buffer.concat([
            Buffer.from([4]),
            Buffer.from(v.publicJwk.x, "base64url"),
            Buffer.from(v.publicJwk.y, "base64url"),
          ]),
          { ...v.header, alg: "HS256" },
        ),
    ],
    ["HS256 under the kid", () => hmac(v.publicJwk.kid, { ...v.header, alg: "HS256" })],
    ["HS256 under nothing", () => hmac("", { ...v.header, alg: "HS256" })],
    ['HS256 under "secret"', () => hmac("secret", { ...v.header, alg: "HS256" })],
    ["HS512 under the public key's PEM", () => hmac(spki("pem"), { ...v.header, alg: "HS512" }, "sha512")],
    ["an HMAC that calls itself ES256", () => hmac(spki("pem"), v.header)],
    ["RS256 by a key of one's own", () => under(own.rsa.privateKey, { ...v.header, alg: "RS256" })],
    ["ES384 by a key of one's own", () => under(own.p384.privateKey, { ...v.header, alg: "ES384" }, "sha384")],
    ["EdDSA by a key of one's own", () => under(own.ed.privateKey, { ...v.header, alg: "EdDSA" }, null)],
    ["Ed25519 by a key of one's own", () => under(own.ed.privateKey, { ...v.header, alg: "Ed25519" }, null)],
  ]),
  "a key": {
    "of one's own under the right kid": () => under(own.ec.privateKey, v.header),
    "of one's own without a kid": () => under(own.ec.privateKey, { alg: "ES256", typ: "at+jwt" }),
    "of one's own, embedded as jwk": () => under(own.ec.privateKey, { ...v.header, jwk: jwkOf(own.ec.publicKey) }),
    "of one's own, embedded as jwk, without a kid": () =>
      under(own.ec.privateKey, { alg: "ES256", typ: "at+jwt", jwk: jwkOf(own.ec.publicKey) }),
    "of one's own, its thumbprint as kid": () =>
      under(own.ec.privateKey, {
        ...v.header,
        kid: sha(JSON.stringify(jwkOf(own.ec.publicKey))),
        jwk: jwkOf(own.ec.publicKey),
      }),
    "fetched by jku": () => under(own.ec.privateKey, { ...v.header, kid: "mine", jku: "http://127.0.0.1:9/jwks.json" }),
    "fetched by x5u": () => under(own.ec.privateKey, { ...v.header, kid: "mine", x5u: "http://127.0.0.1:9/cert.pem" }),
    "in an x5c chain": () =>
      under(own.ec.privateKey, {
        ...v.header,
        x5c: [own.ec.publicKey.export({ format: "der", type: "spki" }).toString("base64")],
      }),
    "whose genuine signature names the other live kid": () => {
      const kid = JSON.parse(system.secrets.JWKS).keys.find((key: Json) => key.kid !== v.privateJwk.kid).kid;
      return headed({ kid });
    },
    ...Object.fromEntries(
      [
        ...[
          "",
          "no-such-key",
          "../../../../dev/null",
          "/dev/null",
          "' or '1'='1",
          "one'; select 1--",
          "https://evil.example/k.json",
        ],
        ...["__proto__", "constructor", "one\u0000", " one", "ONE", "*", "one,two", "0", "a".repeat(3000)],
        ...[0, 1, null, true, ["one"], ["one", "two"], { kid: "one" }, undefined],
      ].map((kid): [string, Forger] => [
        `under the kid ${kid === undefined ? "that is missing" : JSON.stringify(kid).slice(0, 40)}`,
        () => headed({ kid }),
      ]),
    ),
  },
  "a header": {
    ...Object.fromEntries(
      [
        "JWT",
        "jwt",
        "at",
        "at+JWT+x",
        "application/jwt",
        "id+jwt",
        "dpop+jwt",
        "logout+jwt",
        "application/application/at+jwt",
        "",
        " at+jwt",
        1,
        null,
        ["at+jwt"],
        undefined,
      ].map((typ): [string, Forger] => [
        `with typ ${typ === undefined ? "missing" : JSON.stringify(typ)}`,
        () => headed({ typ }),
      ]),
    ),
    "with an unknown crit": () => headed({ crit: ["exp2"], exp2: 1 }),
    "with an empty crit": () => headed({ crit: [] }),
    "with a crit that is no list": () => headed({ crit: "exp" }),
    "with a crit that names what isn't there": () => headed({ crit: ["b64"] }),
    "with b64 false": () => headed({ b64: false, crit: ["b64"] }),
    "with b64 false, and the claims in clear": async () => {
      const header = encode({ ...v.header, b64: false, crit: ["b64"] });
      const text = JSON.stringify(v.claims).replaceAll(".", "");
      return `${header}.${text}.${await es256(`${header}.${text}`, v.privateJwk)}`;
    },
    "with cty JWT and a token inside": () => genuine(encode(v.token), { ...v.header, cty: "JWT" }),
    "that is a list": () => genuine(v.claims, [v.header] as never),
    "that is a text": async () => {
      const input = `${encode('"ES256"')}.${encode(v.claims)}`;
      return `${input}.${await es256(input, v.privateJwk)}`;
    },
    "that is null": () => `${encode("null")}.${encode(v.claims)}.${v.signature}`,
    "that is no JSON": () => `${encode("{alg:ES256}")}.${encode(v.claims)}.${v.signature}`,
    "that names alg twice, none last": async () => {
      const input = `${encode(`{"alg":"ES256","typ":"at+jwt","kid":"${v.header.kid}","alg":"none"}`)}.${encode(v.claims)}`;
      return `${input}.${await es256(input, v.privateJwk)}`;
    },
    "of another genuine token": () =>
      `${partsOf(v.otherToken.access_token)[0]}.${encode(v.claims)}.${partsOf(v.otherToken.access_token)[2]}`,
  },
  "a claim, genuinely signed,": {
    ...Object.fromEntries(
      (
        [
          [
            "iss",
            [
              "https://evil.example",
              "http://agentry.test/",
              "HTTP://AGENTRY.TEST",
              "",
              null,
              1,
              ["http://agentry.test"],
              undefined,
            ],
          ],
          ["aud", ["", "*", "-", "agentry", null, 1, [], {}, undefined]],
          ["exp", ["later", "9999999999", "NaN", null, true, [9_999_999_999], {}, undefined, 0, -1]],
          ["iat", ["now", null, undefined]],
          ["nbf", [9_999_999_999, "now", {}]],
          ["sub", ["", "*", "-", null, 1, ["usr"], "usr_", "' or 1=1--", undefined]],
          ["org_id", ["", "*", "-", null, 1, [], "org_", undefined]],
          ["jti", ["", "*", "-", null, 1, [], "sat_", undefined]],
          ["sandbox", ["", "*", "-", null, 1, [], "dsb_"]],
          ["scope", [null, 1, true, ["full_access"], { full_access: true }, undefined]],
        ] as [string, unknown[]][]
      ).flatMap(([name, values]) =>
        values.map((value): [string, Forger] => [
          `${name} ${value === undefined ? "missing" : JSON.stringify(value)}`,
          () => claimed({ [name]: value }),
        ]),
      ),
    ),
    "aud of another app": () => claimed({ aud: v.other.app }),
    "aud of an app that isn't there": () => claimed({ aud: absent(v.app.app) }),
    "aud a list of the right app": () => claimed({ aud: [v.app.app] }),
    "aud a list of two apps": () => claimed({ aud: [v.app.app, v.other.app] }),
    "exp past": () => claimed({ iat: hourAgo() - 60, exp: hourAgo() }),
    "exp past by a second": () => claimed({ exp: Math.floor(Date.now() / 1000) - 1 }),
    "exp beyond every number": async () => genuine(JSON.stringify(v.claims).replace(/"exp":\d+/, '"exp":1e999')),
    "exp that is no JSON number": async () => genuine(JSON.stringify(v.claims).replace(/"exp":\d+/, '"exp":NaN')),
    "exp later than its row's, which has passed": async () => {
      const { id, access_token } = await v.app.aToken(v.user);
      await sql("update data.tokens set expires_at = now() - interval '1 second' where id = $1", [id]);
      return genuine({ ...decode(partsOf(access_token)[1]), exp: 9_999_999_999 });
    },
    "jti of a token whose sign-in was ended": async () => {
      const { id, access_token } = await v.app.aToken(v.user);
      await sql("update data.token_families set revoked_at = now() where token_id = $1", [id]);
      return access_token;
    },
    "sub of a colleague": () => claimed({ sub: v.app.owners[v.app.acme] }),
    "sub of another org's user": () => claimed({ sub: v.app.owners[v.app.globex] }),
    "sub of a user who isn't there": () => claimed({ sub: absent(v.user) }),
    "org_id of another org": () => claimed({ org_id: v.app.globex }),
    "org_id of another app's org": () => claimed({ org_id: v.other.acme }),
    "org_id of an org that isn't there": () => claimed({ org_id: absent(v.app.acme) }),
    "sub and org_id of another org's owner": () => claimed({ org_id: v.app.globex, sub: v.app.owners[v.app.globex] }),
    "aud, org_id and sub of another app's owner": () =>
      claimed({ aud: v.other.app, org_id: v.other.acme, sub: v.other.owners[v.other.acme] }),
    "jti of another user's token": () => claimed({ jti: v.globexToken.id }),
    "jti of another app's token": () => claimed({ jti: v.otherToken.id }),
    "jti of a token that isn't there": () => claimed({ jti: absent(v.claims.jti) }),
    "jti of a revoked token": () => claimed({ jti: v.revoked.id }),
    "jti of another kind": () => claimed({ jti: v.user }),
    "another user's token moved to this org": () => claimed({ jti: v.globexToken.id, sub: v.app.owners[v.app.globex] }),
    "sandbox where there is none": () => claimed({ sandbox: v.box.id }),
    "sandbox of another app": () => claimed({ sandbox: absent(v.box.id) }),
    "a sandbox's token without its sandbox": () => {
      const { sandbox: _, ...claims } = decode(partsOf(v.boxedToken.access_token)[1]);
      return genuine(claims);
    },
    "a sandbox's token in another sandbox": () =>
      genuine({ ...decode(partsOf(v.boxedToken.access_token)[1]), sandbox: v.box2.id }),
    "a text in the place of all": () => genuine("full_access"),
    "a list in the place of all": () => genuine(JSON.stringify([v.claims])),
    "null in the place of all": () => genuine("null"),
    "none at all": () => genuine(""),
    "named twice, the last another's": () =>
      genuine(
        JSON.stringify(v.claims).replace(/}$/, `,"org_id":"${v.app.globex}","sub":"${v.app.owners[v.app.globex]}"}`),
      ),
    "hidden in __proto__": async () => {
      const { sub: _, ...claims } = v.claims;
      return genuine(JSON.stringify(claims).replace(/}$/, `,"__proto__":{"sub":"${v.user}"}}`));
    },
  },
  "a signature": {
    "that is missing": () => `${encode(v.header)}.${encode(v.claims)}.`,
    "that is missing with its dot": () => `${encode(v.header)}.${encode(v.claims)}`,
    "that is another token's": () => `${encode(v.header)}.${encode(v.claims)}.${partsOf(v.otherToken.access_token)[2]}`,
    "in DER form": () => signedWith(der),
    "of zeros": () => signedWith((bytes) => Buffer.alloc(bytes.length)),
    "whose r is zero": () => signedWith((bytes) => Buffer.concat([Buffer.alloc(32), bytes.subarray(32)])),
    "whose s is zero": () => signedWith((bytes) => Buffer.concat([bytes.subarray(0, 32), Buffer.alloc(32)])),
    "whose r and s are the order": () => signedWith(() => Buffer.concat([bytes32(ORDER), bytes32(ORDER)])),
    "whose r and s are one": () => signedWith(() => Buffer.concat([bytes32(1n), bytes32(1n)])),
    "whose r and s changed places": () =>
      signedWith((bytes) => Buffer.concat([bytes.subarray(32), bytes.subarray(0, 32)])),
    "of 63 bytes": () => signedWith((bytes) => bytes.subarray(0, 63)),
    "of 65 bytes": () => signedWith((bytes) => Buffer.concat([bytes, Buffer.from([0])])),
    "of 65 bytes, zero first": () => signedWith((bytes) => Buffer.concat([Buffer.from([0]), bytes])),
    "with its first bit flipped": () =>
      signedWith((bytes) => Buffer.concat([Buffer.from([bytes[0]! ^ 0x80]), bytes.subarray(1)])),
    "with its last bit flipped": () =>
      signedWith((bytes) => Buffer.concat([bytes.subarray(0, 63), Buffer.from([bytes[63]! ^ 1])])),
    "over other claims": async () =>
      `${encode(v.header)}.${encode({ ...v.claims, scope: "full_access agents:*" })}.${v.signature}`,
    "over another header": () => `${encode({ ...v.header, x: 1 })}.${encode(v.claims)}.${v.signature}`,
  },
  "a spelling": {
    "with the signature in another base64url": () => {
      const [header, claims, signature] = partsOf(v.token);
      return `${header}.${claims}.${respelt(signature)}`;
    },
    "with padding": () =>
      v.token
        .split(".")
        .map((part) => part.padEnd(Math.ceil(part.length / 4) * 4, "="))
        .join("."),
    "with the signature padded": () => `${v.token}==`,
    "with the alphabet of base64": async () => {
      for (let i = 0; ; i++) {
        const token = await claimed({ i });
        const [header, claims, signature] = partsOf(token);
        if (/[-_]/.test(signature)) return `${header}.${claims}.${signature.replaceAll("-", "+").replaceAll("_", "/")}`;
      }
    },
    "in hexadecimal": () =>
      v.token
        .split(".")
        .map((part) => Buffer.from(part, "base64url").toString("hex"))
        .join("."),
    "percent-encoded": () => v.token.replaceAll(".", "%2E"),
    "with a tab inside": () => v.token.replace(".", ".\t"),
    "with a blank inside": () => v.token.replace(".", ". "),
    "in quotes": () => `"${v.token}"`,
    "in angle brackets": () => `<${v.token}>`,
    "with a comma behind": () => `${v.token},`,
    "with a semicolon behind": () => `${v.token};`,
    "with a dot behind": () => `${v.token}.`,
    "with a dot in front": () => `.${v.token}`,
    "upper-case": () => v.token.toUpperCase(),
    "cut by one character": () => v.token.slice(0, -1),
    "cut by half": () => v.token.slice(0, v.token.length / 2),
    "without its first character": () => v.token.slice(1),
    "with the header's last character changed": () => {
      const [header, claims, signature] = partsOf(v.token);
      return `${flip(header, -1)}.${claims}.${signature}`;
    },
    "with the claims' middle changed": () => {
      const [header, claims, signature] = partsOf(v.token);
      return `${header}.${flip(claims, claims.length >> 1)}.${signature}`;
    },
    "with the signature's first character changed": () => {
      const [header, claims, signature] = partsOf(v.token);
      return `${header}.${claims}.${flip(signature, 0)}`;
    },
    "with its parts in another order": () => partsOf(v.token).reverse().join("."),
    "twice, a comma between": () => `${v.token},${v.token}`,
    "twice, a comma and a blank between": () => `${v.token}, ${v.token}`,
    "twice, a blank between": () => `${v.token} ${v.token}`,
    "behind a good one of another app": () => `${v.otherToken.access_token}, Bearer ${v.token}`,
    "over 8 KB, genuinely signed": () => claimed({ padding: "x".repeat(8192) }),
    "as a JWE of five parts": async () =>
      new CompactEncrypt(Buffer.from(v.token))
        .setProtectedHeader({ alg: "ECDH-ES", enc: "A256GCM", typ: "at+jwt", kid: v.publicJwk.kid })
        .encrypt(await importJWK({ ...v.publicJwk, alg: undefined, use: undefined } as never, "ECDH-ES")),
    "as a JWE under a shared secret": () =>
      new CompactEncrypt(Buffer.from(JSON.stringify(v.claims)))
        .setProtectedHeader({ alg: "dir", enc: "A256GCM" })
        .encrypt(new Uint8Array(32)),
    "as JSON": () => {
      const [protectedHeader, payload, signature] = partsOf(v.token);
      return JSON.stringify({ protected: protectedHeader, payload, signature });
    },
    "nested in another token": () => genuine({ ...v.claims, jwt: v.token, sub: undefined }),
    "as nothing": () => "",
    "as one dot": () => ".",
    "as two dots": () => "..",
    "as a thousand dots": () => ".".repeat(1000),
    "as its own jti": () => v.claims.jti,
    "as a refresh token": () => v.refresh,
    "as a null": () => "null",
    "as the word undefined": () => "undefined",
  },
};

/** The answer to a raw request: header lines as they are, also twice. */
const raw = (path: string, lines: string[]) =>
  new Promise<{ status: number; text: string; challenge: string | undefined }>((resolve, reject) => {
    const { hostname, port } = new URL(system.base);
    const asked = request(
      { hostname, port, path, headers: ["Host", `${hostname}:${port}`, ...lines] as never },
      (answer) => {
        let text = "";
        answer.on("data", (chunk) => {
          text += chunk;
        });
        answer.on("end", () =>
          resolve({ status: answer.statusCode!, text, challenge: answer.headers["www-authenticate"] }),
        );
      },
    );
    asked.on("error", reject).end();
  });

const idLine = ["X-Request-Id", REQUEST_ID];
const get = (headers: Record<string, string>, path = "/api/v1/agents") =>
  caller(headers)("GET", path, undefined, { "X-Request-Id": REQUEST_ID });
/** What every forgery is answered: the same as a word that never was a credential. */
const refused = async () => {
  const { status, text, headers } = await get(bearer("nonsense"));
  return [status, headers.get("WWW-Authenticate"), text];
};
const expectRefused = async (headers: Record<string, string>) => {
  const { status, text, headers: answered } = await get(headers);
  expect([status, answered.get("WWW-Authenticate"), text]).toEqual(await refused());
  expect(status).toBe(401);
};

describe("the unforged originals", () => {
  const accepted: Record<string, () => Promise<Record<string, string>> | Record<string, string>> = {
    "a token": () => bearer(v.token),
    "a token, signed again by hand": async () => bearer(await genuine(v.claims)),
    "a token under the second live key": async () => {
      const second = JSON.parse(system.secrets.JWKS).keys[1];
      const token = new SignJWT(v.claims).setProtectedHeader({ alg: "ES256", typ: "at+jwt", kid: second.kid });
      return bearer(await token.sign(await importJWK(second, "ES256")));
    },
    // RFC 7515 §4.1.9: the same media type, written out.
    "a token of typ application/at+jwt": async () => bearer(await headed({ typ: "application/at+jwt" })),
    "a token with a header that it need not know": async () => bearer(await headed({ x: 1 })),
    "a token with a claim that it need not know": async () => bearer(await claimed({ x: 1 })),
    // RFC 9110 §11.1: the scheme's case does not matter.
    "a lower-case scheme": () => ({ Authorization: `bearer ${v.token}` }),
    "an upper-case scheme": () => ({ Authorization: `BEARER ${v.token}` }),
    "a scheme with two blanks": () => ({ Authorization: `Bearer  ${v.token}` }),
    "a secret key": () => bearer(v.app.secret_key),
    "a secret key as x-archastro-api-key": () => ({ "x-archastro-api-key": v.app.secret_key }),
    "a sandbox's secret key": () => bearer(v.box.key),
    "a token with its app's publishable key beside it": () => ({
      ...bearer(v.token),
      "x-archastro-api-key": v.app.publishable_key,
    }),
    "a token with its app's secret key beside it": () => ({
      ...bearer(v.token),
      "x-archastro-api-key": v.app.secret_key,
    }),
    "a sandbox's token": () => bearer(v.boxedToken.access_token),
  };
  it.each(Object.keys(accepted))("%s is accepted", async (name) => {
    expect((await get(await accepted[name]!())).status).toBe(200);
  });

  it("are signed with a key that the published set verifies", () => {
    const [header, claims, signature] = partsOf(v.token);
    const key = createPublicKey({ key: v.publicJwk as never, format: "jwk" });
    const input = Buffer.from(`${header}.${claims}`);
    expect(verifyBytes("sha256", input, { key, dsaEncoding: "ieee-p1363" }, Buffer.from(signature, "base64url"))).toBe(
      true,
    );
  });
});

for (const [what, table] of Object.entries(forgeries)) {
  describe(`a token with ${what}`, () => {
    it.each(Object.keys(table))("%s", async (name) => {
      const token = await table[name]!();
      await expectRefused({ Authorization: `Bearer ${token}` });
    });
  });
}

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const checksum = (text: string) => {
  let value = createHash("sha256").update(text).digest().readUInt32BE(0);
  let check = "";
  for (let i = 0; i < 6; i++) {
    check = BASE62[value % 62] + check;
    value = Math.floor(value / 62);
  }
  return check;
};
/** The key with the checksum that it ought to have. */
const checked = (key: string) => key.slice(0, -6) + checksum(key.slice(0, -6));
/** Another character of the same alphabet in this place. */
const shift = (key: string, at: number) =>
  key.slice(0, at) + BASE62[(BASE62.indexOf(key[at]!) + 1) % 62] + key.slice(at + 1);
const invent = () => Array.from(randomBytes(43), (byte) => BASE62[byte % 62]).join("");
const aKey = (call = v.app.asDeveloper, type = "secret", at = v.app.at) =>
  must(call("POST", `${at}/keys`, { type }), 201);
const aRevokedKey = async (type: string): Promise<string> => {
  const { id, full_key } = await aKey(v.app.asDeveloper, type);
  await must(v.app.asDeveloper("DELETE", `${v.app.at}/keys/${id}`), 200);
  return full_key;
};
const boxKeyParts = () => v.box.key.split("_") as [string, string, string, string, string];

describe("a key", () => {
  const keys: Record<string, Forger> = {
    "with its checksum changed": () => shift(v.app.secret_key, v.app.secret_key.length - 1),
    "with its secret changed": () => shift(v.app.secret_key, v.app.secret_key.length - 20),
    "with its secret changed and the right checksum": () =>
      checked(shift(v.app.secret_key, v.app.secret_key.length - 20)),
    "with a secret that nobody was given, and the right checksum": () =>
      checked(`sk_live_${v.app.app.slice(4)}_${invent()}000000`),
    "that claims another app": () => checked(v.app.secret_key.replace(v.app.app.slice(4), v.other.app.slice(4))),
    "that claims an app that isn't there": () =>
      checked(v.app.secret_key.replace(v.app.app.slice(4), absent(v.app.app).slice(4))),
    "of production that claims a sandbox": () =>
      checked(
        v.app.secret_key
          .replace("_live_", "_dsb_")
          .replace(v.app.app.slice(4), `${v.app.app.slice(4)}_${v.box.id.slice(4)}`),
      ),
    "of a sandbox that claims another sandbox": () => checked(v.box.key.replace(v.box.id.slice(4), v.box2.id.slice(4))),
    "of a sandbox that claims one that isn't there": () =>
      checked(v.box.key.replace(v.box.id.slice(4), absent(v.box.id).slice(4))),
    "of a sandbox that claims production": () => {
      const [kind, , app, , secret] = boxKeyParts();
      return checked(`${kind}_live_${app}_${secret}`);
    },
    "of a sandbox that claims another app": () => checked(v.box.key.replace(v.app.app.slice(4), v.other.app.slice(4))),
    "that is publishable": () => v.app.publishable_key,
    "that is publishable and calls itself secret": () => checked(v.app.publishable_key.replace("pk_", "sk_")),
    "that is secret and calls itself publishable": () => checked(v.app.secret_key.replace("sk_", "pk_")),
    "that was revoked": () => aRevokedKey("secret"),
    "that has expired": async () => {
      const { id, full_key } = await aKey();
      await sql("update data.keys set expires_at = now() - interval '1 second' where id = $1", [id]);
      return full_key;
    },
    "of a sandbox that was deleted": async () => {
      const { id, key } = await aSandbox(v.app.asDeveloper);
      await must(v.app.asDeveloper("DELETE", `/api/v1/sandboxes/${id}`), 204);
      return key;
    },
    "in upper case": () => v.app.secret_key.toUpperCase(),
    "in lower case": () => v.app.secret_key.toLowerCase(),
    "whose prefix is upper-case": () => v.app.secret_key.replace("sk_live", "SK_LIVE"),
    "that says test": () => checked(v.app.secret_key.replace("_live_", "_test_")),
    "cut by one character": () => v.app.secret_key.slice(0, -1),
    "with one character more": () => `${v.app.secret_key}0`,
    "without its checksum": () => v.app.secret_key.slice(0, -6),
    "without its secret": () => v.app.secret_key.slice(0, -49),
    "that is only its prefix": () => "sk_live_",
    "that is its own hash": () =>
      checked(
        `sk_live_${v.app.app.slice(4)}_${createHash("sha256").update(v.app.secret_key).digest("hex").slice(0, 43)}000000`,
      ),
    "that is its id": async () => (await aKey()).id,
    "with a comma and another behind": () => `${v.app.secret_key},${v.other.secret_key}`,
    "percent-encoded": () => v.app.secret_key.replaceAll("_", "%5F"),
    "in base64": () => Buffer.from(v.app.secret_key).toString("base64"),
    "over 8 KB": () => v.app.secret_key + "0".repeat(8192),
    "with a like-pattern": () => `${v.app.secret_key.slice(0, -49)}${"%".repeat(49)}`,
  };

  it("of the test's own making has the checksum of the system", () => {
    for (const key of [v.app.secret_key, v.app.publishable_key, v.box.key]) expect(checked(key)).toBe(key);
  });

  it.each(Object.keys(keys))("%s: as Bearer, as x-archastro-api-key and as x-api-key", async (name) => {
    const key = await keys[name]!();
    await expectRefused(bearer(key));
    await expectRefused({ "x-archastro-api-key": key });
    await expectRefused({ "x-api-key": key });
  });

  it.each(Object.keys(keys).filter((name) => !/publishable/.test(name)))("%s: beside a good token", async (name) => {
    await expectRefused({ ...bearer(v.token), "x-archastro-api-key": await keys[name]!() });
  });
});

describe("two credentials", () => {
  const pairs: Record<string, () => Record<string, string> | Promise<Record<string, string>>> = {
    "a good token beside another app's publishable key": () => ({
      ...bearer(v.token),
      "x-archastro-api-key": v.other.publishable_key,
    }),
    "a good token beside another app's secret key": () => ({
      ...bearer(v.token),
      "x-archastro-api-key": v.other.secret_key,
    }),
    "a good token beside a sandbox's key": () => ({ ...bearer(v.token), "x-archastro-api-key": v.box.key }),
    "a sandbox's token beside its app's production key": () => ({
      ...bearer(v.boxedToken.access_token),
      "x-archastro-api-key": v.app.publishable_key,
    }),
    "a sandbox's token beside another sandbox's key": () => ({
      ...bearer(v.boxedToken.access_token),
      "x-archastro-api-key": v.box2.key,
    }),
    "a good token beside a revoked publishable key": async () => ({
      ...bearer(v.token),
      "x-archastro-api-key": await aRevokedKey("publishable"),
    }),
    "a good token beside a publishable key that calls itself secret": () => ({
      ...bearer(v.token),
      "x-archastro-api-key": checked(v.app.publishable_key.replace("pk_", "sk_")),
    }),
    "a good token beside an empty key": () => ({ ...bearer(v.token), "x-archastro-api-key": "" }),
    "a good token beside itself": () => ({ ...bearer(v.token), "x-archastro-api-key": v.token }),
    "a good key beside another app's": () => ({
      ...bearer(v.app.secret_key),
      "x-archastro-api-key": v.other.publishable_key,
    }),
    "a good key beside a sandbox's": () => ({ ...bearer(v.app.secret_key), "x-archastro-api-key": v.box.key }),
    "a forged token beside a good key": () => ({
      ...bearer(flip(v.token, -10)),
      "x-archastro-api-key": v.app.secret_key,
    }),
    "a revoked token beside a good key": () => ({
      ...bearer(v.revoked.access_token),
      "x-archastro-api-key": v.app.secret_key,
    }),
    "another app's token beside a good key": () => ({
      ...bearer(v.otherToken.access_token),
      "x-archastro-api-key": v.app.secret_key,
    }),
    "an unknown scheme beside a good key": () => ({
      Authorization: "Basic abc",
      "x-archastro-api-key": v.app.secret_key,
    }),
    "a bare scheme beside a good key": () => ({ Authorization: "Bearer", "x-archastro-api-key": v.app.secret_key }),
    "a forged x-archastro-api-key beside a good x-api-key": () => ({
      "x-archastro-api-key": shift(v.app.secret_key, 60),
      "x-api-key": v.app.secret_key,
    }),
    "a publishable key beside its secret one": () => ({
      ...bearer(v.app.publishable_key),
      "x-archastro-api-key": v.app.secret_key,
    }),
  };
  it.each(Object.keys(pairs))("%s", async (name) => expectRefused(await pairs[name]!()));

  const lines: Record<string, () => string[]> = {
    "two Authorization headers, the same": () => [
      "Authorization",
      `Bearer ${v.token}`,
      "Authorization",
      `Bearer ${v.token}`,
    ],
    "two Authorization headers, a forged one first": () => [
      "Authorization",
      `Bearer ${flip(v.token, -10)}`,
      "Authorization",
      `Bearer ${v.token}`,
    ],
    "two Authorization headers, a forged one last": () => [
      "Authorization",
      `Bearer ${v.token}`,
      "authorization",
      `Bearer ${flip(v.token, -10)}`,
    ],
    "two keys": () => ["x-archastro-api-key", v.app.secret_key, "X-Archastro-Api-Key", v.app.secret_key],
  };
  it.each(Object.keys(lines))("%s", async (name) => {
    const { status, text, challenge } = await raw("/api/v1/agents", [...idLine, ...lines[name]!()]);
    expect([status, challenge, text]).toEqual(await refused());
  });
});

describe("a good token in the wrong place", () => {
  const places: Record<string, () => [Record<string, string>, string?]> = {
    "after Basic": () => [{ Authorization: `Basic ${v.token}` }],
    "as Basic's password": () => [{ Authorization: `Basic ${Buffer.from(`x:${v.token}`).toString("base64")}` }],
    "after Token": () => [{ Authorization: `Token ${v.token}` }],
    "after DPoP": () => [{ Authorization: `DPoP ${v.token}` }],
    "after no scheme": () => [{ Authorization: v.token }],
    "after Bearer twice": () => [{ Authorization: `Bearer Bearer ${v.token}` }],
    "after Bearer and a colon": () => [{ Authorization: `Bearer: ${v.token}` }],
    "after Bearer without a blank": () => [{ Authorization: `Bearer${v.token}` }],
    "after Bearer and a tab": () => [{ Authorization: `Bearer\t${v.token}` }],
    "as x-archastro-api-key": () => [{ "x-archastro-api-key": v.token }],
    "as x-api-key": () => [{ "x-api-key": v.token }],
  };
  it.each(Object.keys(places))("%s", async (name) => expectRefused(places[name]!()[0]));

  const unseen: Record<string, () => [Record<string, string>, string?]> = {
    "as a cookie": () => [{ Cookie: `access_token=${v.token}; token=${v.token}` }],
    "in the query": () => [{}, `/api/v1/agents?access_token=${v.token}&token=${v.token}&api_key=${v.app.secret_key}`],
    "as Proxy-Authorization": () => [{ "Proxy-Authorization": `Bearer ${v.token}` }],
    "as X-Authorization": () => [{ "X-Authorization": `Bearer ${v.token}` }],
    "as X-Forwarded-Authorization": () => [{ "X-Forwarded-Authorization": `Bearer ${v.token}` }],
  };
  it.each(Object.keys(unseen))("%s: nothing was sent", async (name) => {
    const { status, headers, text } = await get(...unseen[name]!());
    const [, , body] = await refused();
    expect([status, headers.get("WWW-Authenticate"), text]).toEqual([401, 'Bearer realm="agentry"', body]);
  });
});

describe("a refresh token", () => {
  const root = system.secrets.ROOT_SECRETS;
  /** A refresh token of this text under a root secret: what `lib/auth/refresh.ts` makes, made again by hand. */
  const macked = (text: string, secret = root, purpose = "refresh") => {
    const key = Buffer.from(hkdfSync("sha256", secret, "", `agentry ${purpose}`, 32));
    return `rt_${encode(text)}.${createHmac("sha256", key).update(text).digest("base64url")}`;
  };
  const mint = async (): Promise<string> => (await v.app.aToken(v.user)).refresh_token;
  const partsOfRefresh = (token: string) => {
    const [body, tag] = token.slice(3).split(".") as [string, string];
    return { body, tag, text: Buffer.from(body, "base64url").toString() };
  };
  /** The text of a fresh refresh token, with its parts changed, under the system's own root secret. */
  const named = async (change: (parts: string[]) => string[]) => {
    const { text } = partsOfRefresh(await mint());
    return macked(change(text.split(".")).join("."));
  };
  const part = (at: number, value: string) => named((parts) => parts.with(at, value));
  const post = (body: unknown, headers: Record<string, string> = {}) =>
    caller(headers)("POST", "/api/v1/auth/refresh", body, { "X-Request-Id": REQUEST_ID });

  it("that was given is taken, and is what the test's own hand would make", async () => {
    const token = await mint();
    expect(macked(partsOfRefresh(token).text)).toBe(token);
    expect((await post({ refresh_token: token })).status).toBe(200);
  });

  const tokens: Record<string, Forger> = {
    "that is a word": () => "nonsense",
    "that is empty": () => "",
    "that is an access token": () => v.token,
    "that is a key": () => v.app.secret_key,
    "with a bit of its text flipped": async () => flip(await mint(), 12),
    "with a bit of its MAC flipped": async () => flip(await mint(), -10),
    "with its MAC respelt": async () => {
      const { body, tag } = partsOfRefresh(await mint());
      return `rt_${body}.${respelt(tag)}`;
    },
    "with its text padded": async () => {
      const { body, tag } = partsOfRefresh(await mint());
      return `rt_${body}=.${tag}`;
    },
    "cut by one character": async () => (await mint()).slice(0, -1),
    "with one character more": async () => `${await mint()}A`,
    "without its MAC": async () => (await mint()).split(".")[0]!,
    "with an empty MAC": async () => `${(await mint()).split(".")[0]}.`,
    "with a MAC of zeros": async () => `${(await mint()).split(".")[0]}.${"A".repeat(43)}`,
    "without its prefix": async () => (await mint()).slice(3),
    "with its prefix in upper case": async () => (await mint()).replace("rt_", "RT_"),
    "with a blank in front": async () => ` ${await mint()}`,
    "with a line's end behind": async () => `${await mint()}\n`,
    twice: async () => {
      const token = await mint();
      return `${token},${token}`;
    },
    "with the next generation under its own MAC": async () => {
      const { text, tag } = partsOfRefresh(await mint());
      return `rt_${encode(text.replace(/0$/, "1"))}.${tag}`;
    },
    "with another app's text under its own MAC": async () =>
      `rt_${partsOfRefresh(v.otherToken.refresh_token).body}.${partsOfRefresh(await mint()).tag}`,
    "under another root secret": async () =>
      macked(partsOfRefresh(await mint()).text, "another root secret of at least 32 bytes"),
    "under the root secret for cursors": async () => macked(partsOfRefresh(await mint()).text, root, "cursor"),
    "under the bare root secret": async () => {
      const { text } = partsOfRefresh(await mint());
      return `rt_${encode(text)}.${createHmac("sha256", root).update(text).digest("base64url")}`;
    },
    "over 512 characters": async () => `${await mint()}${"A".repeat(600)}`,
    "of a sign-in that was ended": () => v.revoked.refresh_token,
    "genuinely made, of a generation to come": () => part(4, "1"),
    "genuinely made, of a generation far to come": () => part(4, "2147483647"),
    "genuinely made, of a generation beyond the column": () => part(4, "99999999999"),
    "genuinely made, of a generation before the first": () => part(4, "-1"),
    "genuinely made, of half a generation": () => part(4, "0.5"),
    "genuinely made, of a generation that is no number": () => part(4, "first"),
    "genuinely made, for another app": () => part(0, v.other.app),
    "genuinely made, for no app": () => part(0, "-"),
    "genuinely made, for a sandbox": () => part(1, v.box.id),
    "genuinely made, for a sandbox that is no id": () => part(1, "*"),
    "genuinely made, for another org": () => part(2, v.app.globex),
    "genuinely made, for all orgs": () => part(2, "*"),
    "genuinely made, for a sign-in that isn't there": () => part(3, `saf_${"0".repeat(21)}1`),
    "genuinely made, for an access token's id": () => part(3, v.claims.jti),
    "genuinely made, with a part too few": () => named((parts) => parts.slice(0, 4)),
    "genuinely made, of nothing": () => macked(""),
    "of a sandbox, genuinely made for production": () => {
      const [app, , ...rest] = partsOfRefresh(v.boxedToken.refresh_token).text.split(".");
      return macked([app, "-", ...rest].join("."));
    },
    "of a sandbox, genuinely made for another": () => {
      const [app, , ...rest] = partsOfRefresh(v.boxedToken.refresh_token).text.split(".");
      return macked([app, v.box2.id, ...rest].join("."));
    },
  };
  const refusedRefresh = async (body: unknown, headers: Record<string, string> = {}) => {
    const { status, headers: answered, text } = await post(body, headers);
    expect([status, answered.get("WWW-Authenticate"), text]).toEqual(await refused());
  };
  it.each(Object.keys(tokens))("%s", async (name) => refusedRefresh({ refresh_token: await tokens[name]!() }));

  it("beside a key of another app, of a sandbox, or a revoked one", async () => {
    const refresh_token = await mint();
    const keys = [v.other.publishable_key, v.box.key, await aRevokedKey("publishable"), "nonsense"];
    for (const key of keys) await refusedRefresh({ refresh_token }, { "x-archastro-api-key": key });
    expect((await post({ refresh_token }, { "x-archastro-api-key": v.app.publishable_key })).status).toBe(200);
  });

  it("opens no other route", async () => {
    await expectRefused(bearer(await mint()));
    await expectRefused({ "x-archastro-api-key": await mint() });
  });
});
