import { createDecipheriv, createHash, createHmac, hkdfSync } from "node:crypto";
import fc from "fast-check";
import { base64url } from "jose";
import { describe, expect, it } from "vitest";
import { looksLikeKey, newKey, parseKey } from "../../../lib/auth/keys.ts";
import {
  covers,
  FULL_ACCESS,
  grants,
  isScope,
  type Permission,
  resources,
  roleScopes,
  rolesWith,
} from "../../../lib/auth/permissions.ts";
import { makeRefreshToken, parseRefreshToken } from "../../../lib/auth/refresh.ts";
import { mac, open, rootsOf, seal, verifyMac } from "../../../lib/auth/secrets.ts";
import { roles } from "../../../lib/db/schema.ts";
import { newId } from "../../../lib/ids.ts";

const secret = () => base64url.encode(crypto.getRandomValues(new Uint8Array(32)));

describe("keys", () => {
  it.each([["-"], [newId("sandbox")]] as const)("say their app and sandbox %s in clear", async (sandbox) => {
    const app = newId("app");
    const { full_key, hash } = await newKey("secret", app, sandbox);
    expect(looksLikeKey(full_key)).toBe(true);
    expect(await parseKey(full_key)).toEqual({ type: "secret", app, sandbox, hash });
  });
  it("are kept as their SHA-256 and hinted at by their last four characters", async () => {
    const { full_key, hash, hint, type } = await newKey("publishable", newId("app"), "-");
    expect(Buffer.from(hash)).toEqual(createHash("sha256").update(full_key).digest());
    expect([hint, type]).toEqual([full_key.slice(-4), "publishable"]);
  });
  it("have 256 bits of secret: 43 characters that never come twice", async () => {
    const app = newId("app");
    const secrets = await Promise.all(
      Array.from({ length: 50 }, async () => (await newKey("secret", app, "-")).full_key.slice(31, -6)),
    );
    for (const text of secrets) expect(text).toMatch(/^[0-9A-Za-z]{43}$/);
    // Not a part of it either: all of its first, and all of its last 16 characters differ.
    for (const part of [(text: string) => text.slice(1, 17), (text: string) => text.slice(-16)]) {
      expect(new Set(secrets.map(part)).size).toBe(50);
    }
  });
  it("are told from tokens by how they begin: a token may have sk_ in the middle", () => {
    expect(["sk_live_", "pk_dsb_", "eyJ.sk_live_.pk_", "SK_live_", "rt_", ""].map(looksLikeKey)).toEqual([
      true,
      true,
      false,
      false,
      false,
      false,
    ]);
  });
  it("are refused when any one character is another", async () => {
    const { full_key } = await newKey("publishable", newId("app"), "-");
    await fc.assert(
      fc.asyncProperty(fc.nat(full_key.length - 1), fc.constantFrom(..."aZ0_"), async (at, letter) => {
        const changed = full_key.slice(0, at) + letter + full_key.slice(at + 1);
        expect(await parseKey(changed)).toEqual(changed === full_key ? expect.anything() : null);
      }),
    );
  });
});

describe("refresh tokens", () => {
  const token = {
    app: newId("app"),
    sandbox: "-",
    org: newId("org"),
    family: newId("sign_in"),
    generation: 3,
  } as const;
  it("are the same for the same generation, and read back", async () => {
    const root = secret();
    const text = await makeRefreshToken(root, token);
    expect(await makeRefreshToken(root, token)).toBe(text);
    expect(await parseRefreshToken(root, text)).toEqual(token);
  });
  it("say all that they were made of: another part, another token", async () => {
    const root = secret();
    const others = [
      { app: newId("app") },
      { sandbox: newId("sandbox") },
      { org: newId("org") },
      { family: newId("sign_in") },
      { generation: 4 },
    ];
    const texts = new Set([await makeRefreshToken(root, token)]);
    for (const change of others) {
      const text = await makeRefreshToken(root, { ...token, ...change });
      expect(await parseRefreshToken(root, text)).toEqual({ ...token, ...change });
      texts.add(text);
    }
    expect(texts.size).toBe(6);
  });
  it("outlive a rotation of the root secret, and no other root opens them", async () => {
    const [old, fresh] = [secret(), secret()];
    const text = await makeRefreshToken(old, token);
    expect(await parseRefreshToken(`${fresh},${old}`, text)).toEqual(token);
    expect(await parseRefreshToken(fresh, text)).toBeNull();
  });
});

describe("keys derived from a root secret", () => {
  const [root, place] = [secret(), "feed org_a"];
  /** RFC 5869 by another hand: one key for each purpose. */
  const derive = (purpose: string, from = root) => Buffer.from(hkdfSync("sha256", from, "", `agentry ${purpose}`, 32));
  /** Opens a cursor with a key, as AES-256-GCM has it: 12 bytes of nonce, what is sealed, 16 bytes of tag. */
  function unseal(key: Buffer, sealed: string) {
    const bytes = Buffer.from(sealed, "base64url");
    const box = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, 12)).setAAD(Buffer.from(place));
    box.setAuthTag(bytes.subarray(-16));
    return box.update(bytes.subarray(12, -16)).toString() + box.final().toString();
  }

  it("are one for each purpose: what makes refresh tokens opens no cursor", async () => {
    expect(Buffer.from(await mac(root, "text"))).toEqual(
      createHmac("sha256", derive("refresh")).update("text").digest(),
    );
    const sealed = await seal(root, "afe_x", place);
    expect(unseal(derive("cursor"), sealed)).toBe("afe_x");
    expect(() => unseal(derive("refresh"), sealed)).toThrow();
    expect(() => unseal(Buffer.from(root, "base64url"), sealed)).toThrow();
  });
  it("are of the newest root where something is made, and of any where it is read", async () => {
    const [old, fresh] = [secret(), secret()];
    const tag = (await mac(`${fresh},${old}`, "text")) as Uint8Array<ArrayBuffer>;
    expect(Buffer.from(tag)).toEqual(createHmac("sha256", derive("refresh", fresh)).update("text").digest());
    expect(await verifyMac(`${old},${fresh}`, "text", tag)).toBe(true);
    expect(await verifyMac(old, "text", tag)).toBe(false);
    expect(await verifyMac(`${fresh},${old}`, "text.", tag)).toBe(false);
    const sealed = await seal(`${fresh},${old}`, "afe_x", place);
    expect(unseal(derive("cursor", fresh), sealed)).toBe("afe_x");
    expect(await open(`${old},${fresh}`, sealed, place)).toBe("afe_x");
  });
  it("come of a root of at least 32 characters, blanks around it apart", async () => {
    const enough = "r".repeat(32);
    expect(rootsOf(` ${enough} , ${root}`)).toEqual([enough, root]);
    for (const roots of ["", "r".repeat(31), `${enough},`, `${enough},${"r".repeat(31)}`, `${" ".repeat(40)}short`]) {
      expect(() => rootsOf(roots)).toThrow("at least 32 characters");
      await expect(mac(roots, "text")).rejects.toThrow("at least 32 characters");
      await expect(open(roots, "AAAA", place)).rejects.toThrow("at least 32 characters");
    }
  });
});

describe("cursors", () => {
  it("open where they were sealed and nowhere else", async () => {
    const root = secret();
    const sealed = await seal(root, "afe_x", "feed org_a");
    expect(await open(root, sealed, "feed org_a")).toBe("afe_x");
    expect(await open(root, sealed, "feed org_b")).toBeNull();
    expect(await open(secret(), sealed, "feed org_a")).toBeNull();
    expect(sealed).not.toContain("afe");
  });
  it("never come twice the same, so that they can't be compared", async () => {
    const root = secret();
    const sealed = await Promise.all(Array.from({ length: 50 }, () => seal(root, "afe_x", "p")));
    expect(new Set(sealed.map((text) => text.slice(0, 16))).size).toBe(50);
  });
  it("are refused for whatever else is sent", async () => {
    const root = secret();
    await fc.assert(
      fc.asyncProperty(fc.string(), async (text) => {
        expect(await open(root, text, "p")).toBeNull();
      }),
    );
  });
});

describe("permissions", () => {
  it("print as a table: who holds what", () => {
    const table = Object.fromEntries(roles.map((role) => [role, `${roleScopes[role].length} scopes`]));
    expect(table).toEqual({
      owner: "90 scopes",
      admin: "86 scopes",
      member: "79 scopes",
      billing: "5 scopes",
      viewer: "41 scopes",
    });
    expect(rolesWith("agents:write")).toEqual(["owner", "admin", "member"]);
    expect(rolesWith("billing:write")).toEqual(["owner", "billing"]);
    expect(rolesWith("users:write")).toEqual(["owner", "admin"]);
  });
  it("grant never more than was asked for, and never more than the role holds", () => {
    const scope = fc.constantFrom(
      ...resources.flatMap((name) => [`${name}:read`, `${name}:write`, `${name}:*`]),
      FULL_ACCESS,
    );
    fc.assert(
      fc.property(fc.array(scope), (asked) => {
        for (const [role, granted] of Object.entries(grants(asked))) {
          for (const one of granted) {
            const wildcard = `${one.split(":")[0]}:*`;
            expect(asked.includes(one) || asked.includes(wildcard)).toBe(true);
            if (one !== FULL_ACCESS) expect(roleScopes[role as "owner"]).toContain(one);
          }
        }
      }),
    );
  });
  it("let no scope spell a developer's permission", () => {
    for (const text of [
      "developer:read",
      "developer:write",
      "developer:*",
      "*",
      "agents",
      "agents:admin",
      "agents:READ",
      "",
    ]) {
      expect(isScope(text), text).toBe(false);
    }
    for (const permission of ["developer:read", "developer:write"] satisfies Permission[]) {
      expect(covers([FULL_ACCESS, permission], permission)).toBe(false);
      expect(rolesWith(permission)).toEqual([]);
    }
  });
  it("let a restricted token keep neither profile nor tokens", () => {
    expect(covers(["tokens:write", "users:write"], "session")).toBe(false);
    expect(covers([FULL_ACCESS], "session")).toBe(true);
    expect(covers([], "self")).toBe(true);
  });
});
