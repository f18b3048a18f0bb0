/** What a request may cost the others: bodies that are made to hurt, and credentials that are dead. */
import { type IncomingMessage, request } from "node:http";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { newKey } from "../lib/auth/keys.ts";
import type { Id } from "../lib/ids.ts";
import { anApp, bearer, type Call, caller, developer, must, system, together } from "./harness/index.ts";
import { newRoot, newSigningKey, ownSystem } from "./harness/own.ts";

const agents = "/api/v1/agents";
const refresh = "/api/v1/auth/refresh";
const list = (bytes: number, item: string) => `[${Array(Math.ceil(bytes / (item.length + 1))).fill(item)}]`;
const unknown = (bytes: number) => `{${Array.from({ length: Math.ceil(bytes / 14) }, (_, i) => `"n${1e6 + i}":0`)}}`;

/** A key that is well-formed, of an app that is there, and that nobody was ever given. */
const aForgedKey = async (app: string) => (await newKey("secret", app as Id<"app">, "-")).full_key;

/** Credentials that have died, and one that never lived, each by what it is. */
async function dead() {
  const made = await anApp();
  const { at, acme, owners, asDeveloper } = made;
  const token = await made.aToken(owners[acme]!);
  await must(asDeveloper("DELETE", `${at}/users/${owners[acme]}/tokens/${token.id}`), 200);
  const key = await must(asDeveloper("POST", `${at}/keys`, { type: "secret" }), 201);
  await must(asDeveloper("DELETE", `${at}/keys/${key.id}`), 200);
  const credentials = { "revoked token": token.access_token, "revoked key": key.full_key };
  return {
    ...made,
    credentials: { ...credentials, "forged key": await aForgedKey(made.app) } as Record<string, string>,
  };
}

/** The status of a request whose headers are sent and whose body never is. */
async function statusBeforeBody(path: string, headers: Record<string, string>): Promise<number> {
  const asked = request(system.base + path, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers },
  });
  try {
    const answered = await new Promise<IncomingMessage>((resolve, reject) => {
      asked.on("response", resolve).on("error", reject).flushHeaders();
    });
    return answered.statusCode!;
  } finally {
    asked.on("error", () => {}).destroy();
  }
}

describe("a body that is made to hurt", () => {
  type Attack = (
    made: Awaited<ReturnType<typeof anApp>>,
  ) => Promise<[Call, path: string, body: string, status: number]>;
  const attacks: Record<string, Attack> = {
    "1.5 MB of empty grants, under a forged key": async ({ app }) => [
      caller(bearer(await aForgedKey(app))),
      agents,
      `{"acl":{"grants":${list(1_500_000, "{}")}}}`,
      401,
    ],
    "1.5 MB of empty grants, by somebody who may": async ({ acme, as }) => [
      as(acme),
      agents,
      `{"acl":{"grants":${list(1_500_000, "{}")}}}`,
      422,
    ],
    "60 KB of empty grants, under a forged key": async ({ app }) => [
      caller(bearer(await aForgedKey(app))),
      agents,
      `{"acl":{"grants":${list(60_000, "{}")}}}`,
      422,
    ],
    "5.3 MB of unknown names, without a credential": async () => [caller(), refresh, unknown(5_300_000), 413],
    "60 KB of unknown names, without a credential": async () => [caller(), refresh, unknown(60_000), 413],
    "2 KB of unknown names, without a credential": async () => [caller(), refresh, unknown(2_000), 422],
    "300 KB of empty scopes": async ({ at, acme, owners, asDeveloper }) => [
      asDeveloper,
      `${at}/users/${owners[acme]}/tokens`,
      `{"scopes":${list(300_000, '""')}}`,
      422,
    ],
  };

  it.each(Object.keys(attacks))("%s: is refused at once and in few words, while others are answered", async (name) => {
    const [call, path, body, expected] = await attacks[name]!(await anApp());
    const attacked = together(10, async () => {
      const { status, text } = await call("POST", path, body);
      expect([status, text.length < 65_536]).toEqual([expected, true]);
    });
    const others = together(10, async () => {
      const begun = performance.now();
      expect((await caller()("GET", "/healthz")).status).toBe(200);
      return performance.now() - begun;
    });
    await attacked;
    expect(Math.max(...(await others))).toBeLessThan(5000);
  });
});

describe("a dead credential", () => {
  it("is refused before a body above 64 KB, or of unknown length, is even sent", async () => {
    const { credentials } = await dead();
    for (const [what, credential] of Object.entries(credentials)) {
      const statuses = [
        await statusBeforeBody(agents, { ...bearer(credential), "Content-Length": "65537" }),
        await statusBeforeBody(agents, { ...bearer(credential), "Transfer-Encoding": "chunked" }),
      ];
      expect([what, ...statuses]).toEqual([what, 401, 401]);
    }
  });

  it("hears so also after it has sent all of a large body", async () => {
    const { credentials } = await dead();
    for (const credential of Object.values(credentials)) {
      const send = () => caller(bearer(credential))("POST", agents, `{"name":"${"x".repeat(5_000_000)}"}`);
      // Who still sends when the answer has gone out may find the connection closed before it has read that: it asks again.
      const again = (error: Error) => (error.message === "fetch failed" ? send() : Promise.reject(error));
      expect((await send().catch(again).catch(again).catch(again)).status).toBe(401);
    }
  });

  it("hears of the faults of a small body first, and of 8,000,000 bytes before anything", async () => {
    const { credentials } = await dead();
    for (const credential of Object.values(credentials)) {
      const call = caller(bearer(credential));
      expect((await call("POST", agents, `{"name":"${"x".repeat(60_000)}"}`)).status).toBe(422);
      expect((await call("POST", agents, "{")).status).toBe(400);
      const announcing = { ...bearer(credential), "Content-Length": "8000001" };
      expect(await statusBeforeBody(agents, announcing)).toBe(413);
    }
  });

  it("hears nothing of an id or a cursor, malformed or not; a live one does", async () => {
    const { at, acme, as, asDeveloper, credentials } = await dead();
    const ofToken = ["/api/v1/users/nobody", "/api/v1/users/nobody/tokens", "/api/v1/activity_feed?before_cursor=x"];
    const ofKey = [`${at}/orgs/nobody`, `${at}/users/nobody/tokens`, "/api/v1/sandboxes/nobody", developer("nobody")];
    for (const path of ofToken) {
      expect([path, (await caller(bearer(credentials["revoked token"]!))("GET", path)).status]).toEqual([path, 401]);
      expect([path, (await as(acme)("GET", path)).status]).toEqual([path, path.includes("cursor") ? 400 : 404]);
    }
    for (const path of [...ofToken, ...ofKey]) {
      for (const what of ["revoked key", "forged key"]) {
        expect([path, (await caller(bearer(credentials[what]!))("GET", path)).status]).toEqual([path, 401]);
      }
    }
    for (const path of ofKey) expect([path, (await asDeveloper("GET", path)).status]).toEqual([path, 404]);
  });
});

describe("a body that is the credential", () => {
  const sized = (bytes: number) => `{"refresh_token":"${"x".repeat(bytes - 20)}"}`;

  it("may have 2 KB and no more", async () => {
    expect((await caller()("POST", refresh, sized(2048))).status).toBe(401);
    const { status, body } = await caller()("POST", refresh, sized(2049));
    expect([status, body.error.code]).toEqual([413, "payload_too_large"]);
    expect(await statusBeforeBody(refresh, { "Content-Length": "2049" })).toBe(413);
  });

  it("is counted as it comes where it announces nothing", async () => {
    const send = async (bytes: number) => {
      const body = new Blob([sized(bytes)]).stream();
      const headers = { "Content-Type": "application/json" };
      const sent = { method: "POST", headers, body, duplex: "half" } as RequestInit;
      return (await fetch(system.base + refresh, sent)).status;
    };
    expect([await send(2048), await send(2049)]).toEqual([401, 413]);
  });
});

describe("a live credential makes", () => {
  let own: Awaited<ReturnType<typeof ownSystem>>;
  let call: Call;
  let at: string;

  beforeAll(async () => {
    own = await ownSystem();
    const base = await own.start([await newSigningKey("one")], [newRoot()]);
    const { app_id, secret_key } = await own.newApp();
    at = developer(app_id);
    call = caller(bearer(secret_key), base);
    // Its use is noted once a minute, after the answer: a trip of its own.
    await call("GET", at);
    const noted = "select from data.keys where last_used_at is not null";
    await vi.waitFor(async () => expect(await own.database.query(noted)).toHaveLength(1), 20_000);
  });
  afterAll(() => own.close());

  const tripsOf = async (...asked: Parameters<Call>) => {
    const before = own.trips();
    const { status } = await call(...asked);
    return [status, own.trips() - before];
  };
  const sized = (bytes: number) => `{"name":"A"${" ".repeat(bytes - 12)}}`;

  it("one trip for a body up to 64 KB, and a second one for the largest", async () => {
    expect(await tripsOf("POST", agents, sized(65_536))).toEqual([200, 1]);
    expect(await tripsOf("POST", agents, sized(65_537))).toEqual([200, 2]);
  });

  it("no trip for the faults of a small body", async () => {
    expect(await tripsOf("POST", agents, {})).toEqual([422, 0]);
  });

  it("one trip for an id or a cursor that is malformed, and none more for one that another trip has refused", async () => {
    expect(await tripsOf("GET", `${at}/orgs/nobody`)).toEqual([404, 1]);
    expect(await tripsOf("GET", developer("nobody"))).toEqual([404, 1]);
    expect(await tripsOf("GET", "/api/v1/activity_feed?after_cursor=x")).toEqual([400, 1]);
    expect(await tripsOf("GET", `${at}/orgs/org_0000000000000000000000`)).toEqual([404, 1]);
    expect(await tripsOf("POST", `${at}/users/nobody/tokens`, `{${" ".repeat(70_000)}}`)).toEqual([404, 1]);
  });
});
