/** Every request makes one round trip to the database, whatever it asks. */
import { resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { bearer, type Call, caller, developer } from "./harness/index.ts";
import { newRoot, newSigningKey, ownSystem } from "./harness/own.ts";

let own: Awaited<ReturnType<typeof ownSystem>>;
const made: Record<string, string> = {};
let asDeveloper: Call;
let asUser: Call;

beforeAll(async () => {
  own = await ownSystem();
  const alias = { "sweep.ts": resolve(import.meta.dirname, "harness/no-sweep.ts") };
  const base = await own.start([await newSigningKey("one")], [newRoot()], { alias });
  const { app_id, secret_key } = await own.newApp();
  asDeveloper = caller(bearer(secret_key), base);
  const at = developer(app_id);
  const org = (await asDeveloper("POST", `${at}/orgs`, { name: "Acme", slug: "acme", domain: "acme.example" })).body.id;
  const user = (await asDeveloper("POST", `${at}/users`, { email: "a@acme.example", org, role: "owner" })).body.id;
  const minted = (await asDeveloper("POST", `${at}/users/${user}/tokens`, {})).body;
  asUser = caller(bearer(minted.access_token), base);
  const agent = (await asUser("POST", "/api/v1/agents", { name: "Ada" })).body.id;
  const sandbox = (await asDeveloper("GET", "/api/v1/sandboxes")).body.data[0].id;
  Object.assign(made, { at, org, user, agent, sandbox, refresh: minted.refresh_token });
  // A credential's use is noted once a minute, after the answer: that is done when these have run.
  await asUser("GET", "/api/v1/users/me");
  await new Promise((resolve) => setTimeout(resolve, 300));
});
afterAll(() => own.close());

const n = () => Math.random().toString(36).slice(2);
const operations: [name: string, ask: () => Promise<{ status: number }>][] = [
  ["mint a token", () => asDeveloper("POST", `${made.at}/users/${made.user}/tokens`, { scopes: ["agents:read"] })],
  ["list tokens", () => asDeveloper("GET", `${made.at}/users/${made.user}/tokens`)],
  ["refresh", () => asUser("POST", "/api/v1/auth/refresh", { refresh_token: made.refresh })],
  [
    "create an org",
    () => asDeveloper("POST", `${made.at}/orgs`, { name: "B", slug: `b${n()}`, domain: `${n()}.example` }),
  ],
  ["list orgs", () => asDeveloper("GET", `${made.at}/orgs?search=a&status=active`)],
  ["update an org", () => asDeveloper("PATCH", `${made.at}/orgs/${made.org}`, { name: "Acme Ltd" })],
  [
    "create a user in an org",
    () => asDeveloper("POST", `${made.at}/users`, { email: `${n()}@acme.example`, org: made.org }),
  ],
  [
    "update a user's role",
    () => asDeveloper("PATCH", `${made.at}/users/${made.user}`, { role: "owner", org: made.org }),
  ],
  ["make a key", () => asDeveloper("POST", `${made.at}/keys`, { type: "secret" })],
  ["make a sandbox", () => asDeveloper("POST", "/api/v1/sandboxes", { name: "S", slug: `s${n()}`, org: made.org })],
  ["make a sandbox's key", () => asDeveloper("POST", `/api/v1/sandboxes/${made.sandbox}/keys`, {})],
  ["get oneself", () => asUser("GET", "/api/v1/users/me")],
  ["make a personal token", () => asUser("POST", "/api/v1/users/me/tokens", { name: "ci" })],
  ["create an agent", () => asUser("POST", "/api/v1/agents", { name: "Bob" })],
  ["create an agent once", () => asUser("POST", "/api/v1/agents", { name: "Bob" }, { "Idempotency-Key": n() })],
  ["create an agent of a user", () => asUser("POST", "/api/v1/agents", { name: "Bob", user: made.user })],
  ["get an agent", () => asUser("GET", `/api/v1/agents/${made.agent}`)],
  ["list and count agents", () => asUser("GET", "/api/v1/agents?search=a")],
  ["update an agent", () => asUser("PATCH", `/api/v1/agents/${made.agent}`, { name: "Ada L.", user: made.user })],
  ["read the feed", () => asUser("GET", "/api/v1/activity_feed?limit=5")],
  ["meet an absent row", () => asUser("DELETE", "/api/v1/agents/nobody")],
  ["ping", () => asUser("GET", "/api/v1/status/ping")],
];

it.each(operations)("%s: one round trip", async (_, ask) => {
  const before = own.trips();
  const { status } = await ask();
  expect(status).toBeLessThan(405);
  expect(own.trips() - before).toBe(1);
});

it("a refused signature or scope: none", async () => {
  const before = own.trips();
  expect((await caller(bearer("x.y.z"), undefined)("GET", "/healthz")).status).toBe(200);
  expect((await asUser("GET", made.at!)).status).toBe(403);
  expect(own.trips() - before).toBe(0);
});
