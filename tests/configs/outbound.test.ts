/** A script's requests as they leave the Worker, the internet being a function of this test. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { bearer, type Call, caller } from "../harness/index.ts";
import { newRoot, newSigningKey, ownSystem } from "../harness/own.ts";

let own: Awaited<ReturnType<typeof ownSystem>>;
let ask: Call;
const left: { method: string; url: string; headers: Record<string, string>; body: string }[] = [];

async function internet(request: Request): Promise<Response> {
  const { method, url } = request;
  left.push({ method, url, headers: Object.fromEntries(request.headers), body: await request.text() });
  const { pathname } = new URL(url);
  if (pathname === "/inward")
    return new Response(null, { status: 302, headers: { Location: "http://127.0.0.1:1/secret" } });
  if (pathname === "/away")
    return new Response(null, { status: 307, headers: { Location: "https://other.example/there" } });
  if (pathname === "/see-other") return new Response(null, { status: 303, headers: { Location: "/seen" } });
  if (pathname === "/large") return new Response("x".repeat(1_500_000));
  if (pathname === "/error") return Response.json({ fault: true }, { status: 500 });
  return Response.json({ method, pathname, n: 1.5 });
}

beforeAll(async () => {
  own = await ownSystem();
  const base = await own.start([await newSigningKey("one")], [newRoot()], { outbound: internet });
  const { secret_key } = await own.newApp();
  ask = caller(bearer(secret_key), base);
});
afterAll(() => own.close());

const run = async (script: string) => {
  left.length = 0;
  return (await ask("POST", "/api/v1/scripts/run", { script })).body;
};

it("reaches a public address, and reads JSON", async () => {
  const { result, error } = await run(
    'let r = requests.post("https://api.example.com/v1/x", { body: { a: 1 }, query: { q: "ä b" }, headers: { "X-K": "v" } })\n[r.status, r.body.pathname, r.body.n]',
  );
  expect(error).toBeNull();
  expect(result).toEqual([200, "/v1/x", 1.5]);
  expect(left).toMatchObject([{ method: "POST", body: '{"a":1}' }]);
  const sent = new URL(left[0]!.url);
  expect([sent.origin, sent.pathname, sent.searchParams.get("q")]).toEqual(["https://api.example.com", "/v1/x", "ä b"]);
  expect(left[0]!.headers["x-k"]).toBe("v");
});

it("sends none of the service's own credentials along", async () => {
  await run('requests.get("https://api.example.com/")');
  expect(JSON.stringify(left)).not.toMatch(/sk_live|authorization|neon/i);
});

it("answers a failing status as a result that says so", async () => {
  expect((await run('requests.get("https://api.example.com/error").status')).result).toBe(500);
});

it("follows a redirect to a public address without the credentials, and never one inward", async () => {
  const away = 'requests.get("https://api.example.com/away", { headers: { Authorization: "Bearer s" } }).status';
  expect((await run(away)).result).toBe(200);
  expect(left.map(({ url }) => url)).toEqual(["https://api.example.com/away", "https://other.example/there"]);
  expect([left[0]!.headers.authorization, left[1]!.headers.authorization]).toEqual(["Bearer s", undefined]);
  expect((await run('result.isOk(requests.get("https://api.example.com/inward"))')).result).toBe(false);
  expect(left).toHaveLength(1);
});

it("goes on from a 303 with a GET that says nothing of the body it had", async () => {
  const options = '{ body: { a: 1 }, headers: { "Content-Language": "de", "X-K": "v" } }';
  expect((await run(`requests.post("https://api.example.com/see-other", ${options}).status`)).result).toBe(200);
  expect(left.map(({ method, url, body }) => [method, new URL(url).pathname, body])).toEqual([
    ["POST", "/see-other", '{"a":1}'],
    ["GET", "/seen", ""],
  ]);
  const [posted, got] = left.map(({ headers }) => headers);
  expect([posted?.["content-type"], posted?.["content-language"], posted?.["x-k"]]).toEqual([
    "application/json",
    "de",
    "v",
  ]);
  expect([got?.["content-type"], got?.["content-language"], got?.["x-k"]]).toEqual([undefined, undefined, "v"]);
});

it("lets no request say where it comes from", async () => {
  for (const header of ["Forwarded", "X-Forwarded-For", "Via", "CF-Connecting-IP", "Host"]) {
    const { result } = await run(
      `result.message(requests.get("https://api.example.com/", { headers: { "${header}": "1.2.3.4" } }))`,
    );
    expect([result, left]).toEqual([`the header ${header.toLowerCase()} cannot be set`, []]);
  }
});

it("reads no more than a megabyte, and makes no more than fifty calls", async () => {
  expect((await run('result.isOk(requests.get("https://api.example.com/large"))')).result).toBe(false);
  const { error } = await run(
    'array.map(array.range(0, 60), fn(i) { requests.get("https://api.example.com/" + i).status })',
  );
  expect(error).toMatch(/50/);
  expect(left.length).toBeLessThanOrEqual(50);
});

it("makes the request of a workflow's node: with its secret, which the answer doesn't hold, and no more than once", async () => {
  const node = (more: object) => ({ type: "http_request", method: "POST", ...more });
  const tryOut = async (body: object) => {
    left.length = 0;
    return ask("POST", "/api/v1/workflows/run", body);
  };
  const auth = { env_var: "KEY", as: "bearer" };
  const made = node({
    url: "https://api.example.com/{{ $.id }}",
    auth,
    body: { id: "{{ $.id }}" },
    query: { q: ["a", "b"] },
  });
  const { body } = await tryOut({ node: made, payload: { id: "x/y" }, env: { KEY: "s3cret" } });
  expect(body.output).toMatchObject({ status: 200, content_type: "application/json", body: { pathname: "/x%2Fy" } });
  expect(left).toMatchObject([{ url: "https://api.example.com/x%2Fy?q=a&q=b", body: '{"id":"x/y"}' }]);
  expect(left[0]!.headers).toMatchObject({ authorization: "Bearer s3cret", "content-type": "application/json" });
  expect(left[0]!.headers["idempotency-key"]).toMatch(/-node$/);
  expect(JSON.stringify(body)).not.toContain("s3cret");
  const failing = await tryOut({ node: node({ url: "https://api.example.com/error" }) });
  expect([failing.status, failing.body.detail, left.length]).toEqual([422, 'node: HTTP 500: {"fault":true}', 1]);
  const without = await tryOut({ node: node({ url: "https://api.example.com/", auth }) });
  expect([without.body.detail, left.length]).toEqual(["node: the request was not sent: there is no env var KEY", 0]);
});
