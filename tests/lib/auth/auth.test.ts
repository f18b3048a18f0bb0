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
import { open, seal } from "../../../lib/auth/secrets.ts";
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
    family: newId("token_family"),
    generation: 3,
  } as const;
  it("are the same for the same generation, and read back", async () => {
    const root = secret();
    const text = await makeRefreshToken(root, token);
    expect(await makeRefreshToken(root, token)).toBe(text);
    expect(await parseRefreshToken(root, text)).toEqual(token);
  });
  it("outlive a rotation of the root secret, and no other root opens them", async () => {
    const [old, fresh] = [secret(), secret()];
    const text = await makeRefreshToken(old, token);
    expect(await parseRefreshToken(`${fresh},${old}`, text)).toEqual(token);
    expect(await parseRefreshToken(fresh, text)).toBeNull();
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
      owner: "84 scopes",
      admin: "82 scopes",
      member: "78 scopes",
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
