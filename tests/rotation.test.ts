/** Keys and secrets change under way, and no live credential is dropped. */
import { decodeProtectedHeader } from "jose";
import { afterAll, beforeAll, expect, it } from "vitest";
import { bearer, caller, developer } from "./harness/index.ts";
import { newRoot, newSigningKey, ownSystem } from "./harness/own.ts";

let own: Awaited<ReturnType<typeof ownSystem>>;
let before: string;
let after: string;
let retired: string;
let minted: { access_token: string; refresh_token: string };
let app: Awaited<ReturnType<typeof own.newApp>>;
let user: string;

beforeAll(async () => {
  own = await ownSystem();
  const [one, two] = [await newSigningKey("one"), await newSigningKey("two")];
  const [old, fresh] = [newRoot(), newRoot()];
  before = await own.start([one, two], [old]);
  after = await own.start([two, one], [fresh, old]);
  retired = await own.start([two], [fresh]);
  app = await own.newApp();
  const ask = caller(bearer(app.secret_key), before);
  const at = developer(app.app_id);
  const org = (await ask("POST", `${at}/orgs`, { name: "Acme", slug: "acme", domain: "acme.example" })).body.id;
  user = (await ask("POST", `${at}/users`, { email: "a@acme.example", org, role: "owner" })).body.id;
  minted = (await ask("POST", `${at}/users/${user}/tokens`, {})).body;
});
afterAll(() => own.close());

const me = (base: string, token: string) => caller(bearer(token), base)("GET", "/api/v1/users/me");

it("a token signed before the rotation is good after it, and one signed after it where the new key was announced", async () => {
  expect((await me(after, minted.access_token)).status).toBe(200);
  const ask = caller(bearer(app.secret_key), after);
  const fresh = (await ask("POST", `${developer(app.app_id)}/users/${user}/tokens`, {})).body.access_token;
  expect(decodeProtectedHeader(fresh).kid).toBe("two");
  expect((await me(before, fresh)).status).toBe(200);
});

it("both keys are published while both are live, the signing one first", async () => {
  const { body } = await caller({}, after)("GET", "/.well-known/jwks.json");
  expect(body.keys.map(({ kid }: any) => kid)).toEqual(["two", "one"]);
  expect(JSON.stringify(body)).not.toContain('"d"');
});

it("a refresh token of the old root secret is still redeemed, and its successor is of the new one", async () => {
  const { body } = await caller({}, after)("POST", "/api/v1/auth/refresh", { refresh_token: minted.refresh_token });
  expect((await me(after, body.token)).status).toBe(200);
  expect(
    (await caller({}, retired)("POST", "/api/v1/auth/refresh", { refresh_token: body.refresh_token })).status,
  ).toBe(200);
});

it("a retired key's tokens and a retired root's refresh tokens are refused", async () => {
  expect((await me(retired, minted.access_token)).status).toBe(401);
  expect(
    (await caller({}, retired)("POST", "/api/v1/auth/refresh", { refresh_token: minted.refresh_token })).status,
  ).toBe(401);
});
