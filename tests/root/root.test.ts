import { createLocalJWKSet, jwtVerify } from "jose";
import { describe, expect, it } from "vitest";
import { anApp, bearer, caller, must, system } from "../harness/index.ts";

const ping = "/api/v1/status/ping";
const anybody = caller();

describe("GET /healthz", () => {
  it("says ok", async () => {
    expect(await must(anybody("GET", "/healthz"), 200)).toEqual({ status: "ok" });
  });
});

describe("GET /readyz", () => {
  it("says ok where row-level security holds the role", async () => {
    expect(await must(anybody("GET", "/readyz"), 200)).toEqual({ status: "ok" });
  });

  it("answers 503 and says why where the role bypasses row-level security", async () => {
    const { status, body } = await caller({}, system.typesOnly)("GET", "/readyz");
    expect([status, body.error.code]).toEqual([503, "not_ready"]);
    expect(body.error.message).toContain("bypasses row-level security");
  });
});

describe("GET /.well-known/jwks.json", () => {
  it("gives the public keys that verify a token, and nothing private", async () => {
    const { app, acme, owners, aToken } = await anApp();
    const jwks = await must(anybody("GET", "/.well-known/jwks.json"), 200);
    expect(jwks.keys).toHaveLength(2);
    for (const key of jwks.keys) expect(Object.keys(key)).not.toContain("d");
    const { access_token } = await aToken(owners[acme]!);
    const { payload } = await jwtVerify(access_token, createLocalJWKSet(jwks), { audience: app, typ: "at+jwt" });
    expect(payload.sub).toBe(owners[acme]);
  });

  it("may be kept by clients for a while", async () => {
    const { headers } = await anybody("GET", "/.well-known/jwks.json");
    expect(headers.get("Cache-Control")).toBe("public, max-age=300");
  });
});

describe("GET /openapi.json", () => {
  it("describes this deployment's addresses", async () => {
    const { openapi, servers, paths } = await must(anybody("GET", "/openapi.json"), 200);
    expect([openapi, servers]).toEqual(["3.1.0", [{ url: "http://agentry.test" }]]);
    expect(Object.keys(paths)).toContain("/api/v1/agents/{agent}");
  });
});

describe("GET /api/v1/status/ping", () => {
  const tokenOf = async (headers: Record<string, string>) => (await must(caller(headers)("GET", ping), 200)).token;

  it("answers without a credential", async () => {
    expect(await must(anybody("GET", ping), 200)).toEqual({
      success: true,
      deployment: null,
      token: { status: "missing", active: false },
      user: null,
    });
  });

  it("shows a live token's user", async () => {
    const { acme, owners, as } = await anApp();
    const { token, user } = await must(as(acme)("GET", ping), 200);
    expect(token).toEqual({ status: "active", active: true });
    expect(user).toMatchObject({ id: owners[acme], org: acme });
  });

  it("calls a live secret key active, of nobody", async () => {
    const { asDeveloper } = await anApp();
    const { token, user } = await must(asDeveloper("GET", ping), 200);
    expect([token, user]).toEqual([{ status: "active", active: true }, null]);
  });

  it("calls a token of a suspended org just that", async () => {
    const { acme, at, owners, aToken, asDeveloper } = await anApp();
    const { access_token } = await aToken(owners[acme]!);
    await must(asDeveloper("PATCH", `${at}/orgs/${acme}`, { status: "suspended" }), 200);
    expect(await tokenOf(bearer(access_token))).toEqual({ status: "org_suspended", active: false });
  });

  it("calls a revoked token, a revoked key and nonsense invalid", async () => {
    const { acme, at, owners, aToken, asDeveloper } = await anApp();
    const { id, access_token } = await aToken(owners[acme]!);
    await must(asDeveloper("DELETE", `${at}/users/${owners[acme]}/tokens/${id}`), 200);
    const key = await must(asDeveloper("POST", `${at}/keys`, { type: "secret" }), 201);
    await must(asDeveloper("DELETE", `${at}/keys/${key.id}`), 200);
    for (const credential of [access_token, key.full_key, "nonsense"]) {
      expect(await tokenOf(bearer(credential))).toEqual({ status: "invalid", active: false });
    }
  });
});

describe("any other address", () => {
  it.each([
    "/",
    "/api/v1",
    "/api/v1/nothing",
    "/protected/api/v2/developer",
    "/api/v2/agents",
    "/%00",
    "/%ED%A0%80",
    "/%",
  ])("answers 404 for %s", async (path) => {
    const { status, body, headers } = await anybody("GET", path);
    expect([status, body.error.message]).toEqual([404, "There is nothing at this address."]);
    expect(headers.get("Content-Type")).toBe("application/problem+json");
  });
});
