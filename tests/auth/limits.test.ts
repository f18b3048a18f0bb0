/** How often one place may ask a minute, on a system that counts as Cloudflare does: no other one of the tests. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Answer, caller, must, together, unique } from "../harness/index.ts";
import { newRoot, newSigningKey, type Own, ownSystem } from "../harness/own.ts";

let own: Own;
let base: string;
beforeAll(async () => {
  own = await ownSystem();
  base = await own.start([await newSigningKey("one")], [newRoot()], { limited: true });
});
afterAll(() => own.close());

/** A visitor of an app of its own: each app is counted by itself. */
const aVisitor = async () => caller({ "x-archastro-api-key": (await own.newApp()).publishable_key }, base);
const email = (i = 0) => `${i}.${unique("n")}@example.com`;
const same = email();
const password = "correct horse battery";

/** So many as two minutes would let in, and one more, since the count may begin anew in between. */
async function letIn(most: number, ask: (i: number) => Promise<Answer>): Promise<[passed: boolean, waits: unknown]> {
  const answers = await together(2 * most + 1, ask);
  const refused = answers.filter(({ status, body }) => status === 429 && !/mails|accounts/.test(JSON.stringify(body)));
  const passed = answers.length - refused.length;
  return [passed >= most && passed <= 2 * most, refused[0]?.headers.get("Retry-After")];
}

describe("one place, of one app, is let in a minute", () => {
  const bodies: [most: number, path: string, body: (i: number) => object][] = [
    [10, "/api/v1/auth/login", (i) => ({ email: email(i), password })],
    [5, "/api/v1/auth/login", () => ({ email: same, password })],
    [10, "/api/v1/auth/login/code", (i) => ({ email: email(i) })],
    [3, "/api/v1/auth/login/code", () => ({ email: same })],
    [3, "/api/v1/auth/register/code", () => ({ email: same })],
    [3, "/api/v1/auth/login/link", () => ({ email: same })],
    [3, "/api/v1/auth/register/link", () => ({ email: same.toUpperCase() })],
    [3, "/api/v1/auth/request/link", () => ({ email: same })],
    [10, "/api/v1/auth/code/verify", (i) => ({ email: email(i), code: "000000" })],
    [10, "/api/v1/auth/verify/link", () => ({ token: "x" })],
    [10, "/api/v1/auth/token", () => ({ token: "x" })],
    [10, "/api/v1/auth/register", (i) => ({ email: email(i), password })],
    [30, "/api/v1/auth/refresh", (i) => ({ refresh_token: `x${i}` })],
    [20, "/oauth/token", () => ({ grant_type: "refresh_token", refresh_token: "x" })],
    [10, "/oauth/device/authorize", () => ({ client_id: "x" })],
  ];
  it.each(bodies)("%i times to %s", { timeout: 60_000 }, async (most, path, body) => {
    const visitor = await aVisitor();
    expect(await letIn(most, (i) => visitor("POST", path, body(i)))).toEqual([true, "60"]);
  });

  it("and another app's people are none of it", async () => {
    const [one, other] = [await aVisitor(), await aVisitor()];
    await together(21, () => one("POST", "/api/v1/auth/token", { token: "x" }));
    expect((await other("POST", "/api/v1/auth/token", { token: "x" })).status).toBe(401);
  });

  it("nor is anything that isn't counted: the ways to sign in are listed as often as anybody likes", async () => {
    const visitor = await aVisitor();
    await together(40, () => must(visitor("GET", "/api/v1/auth/allowed_auth_methods"), 200));
  });
});
