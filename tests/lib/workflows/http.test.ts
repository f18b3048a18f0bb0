import { describe, expect, it } from "vitest";
import type { Json } from "../../../lib/script/index.ts";
import { type Sending, sendRequest } from "../../../lib/workflows/http.ts";

const ANSWER = { status: 200, body: '{"n": 1}', headers: { "content-type": "application/json" } };
const REQUEST = { method: "GET", url: "https://api.example/items", timeout_seconds: 5 };

/** Sends one to whoever answers so, and says what came of it, and what was asked. */
async function send(args: Record<string, Json>, way: Partial<Sending> = {}, answer: typeof ANSWER | null = ANSWER) {
  const asked: { url: URL; method: string; headers: Headers; body: unknown }[] = [];
  const fetch = async (url: string, init: RequestInit) => {
    asked.push({ url: new URL(url), method: init.method!, headers: new Headers(init.headers), body: init.body });
    if (!answer) throw new TypeError("connection lost");
    return new Response(answer.body, answer);
  };
  const sending: Sending = { effect: "read", idempotency_key: "k", env: { KEY: "s3cret" }, ...way };
  const came = await sendRequest({ ...REQUEST, ...args }, sending, { fetch: fetch as never, loopback: false });
  return { came, asked: asked[0]! };
}

describe("a request of a graph", () => {
  it("gives the answer's status, type and body", async () => {
    expect((await send({})).came).toEqual({ ok: { status: 200, content_type: "application/json", body: { n: 1 } } });
  });

  it("appends its query, a list one by one, without what is null", async () => {
    const { asked } = await send({
      url: "https://api.example/?z=0",
      query: { a: ["x y", 2], b: null, c: { d: true } },
    });
    expect([...asked.url.searchParams]).toEqual([
      ["z", "0"],
      ["a", "x y"],
      ["a", "2"],
      ["c", '{"d":true}'],
    ]);
  });

  it.each([
    ["bearer", { env_var: "KEY", as: "bearer" }, "Bearer s3cret", null, null],
    ["header", { env_var: "KEY", as: "header", name: "X-Key" }, null, "s3cret", null],
    ["query", { env_var: "KEY", as: "query", name: "key" }, null, null, "s3cret"],
  ])("hands its secret on as %s", async (_, auth, authorization, header, query) => {
    const { asked } = await send({ auth });
    expect([asked.headers.get("authorization"), asked.headers.get("x-key"), asked.url.searchParams.get("key")]).toEqual(
      [...[authorization, header, query]],
    );
  });

  it("is not sent without its secret, nor to what is no address, and says so", async () => {
    for (const [args, said] of [
      [{ auth: { env_var: "NONE", as: "bearer" } }, /not sent: there is no env var NONE/],
      [{ auth: { env_var: "toString", as: "bearer" } }, /not sent: there is no env var toString/],
      [{ url: "nowhere" }, /not sent: its url is none/],
      [{ url: "http://127.0.0.1/" }, /./],
    ] as [Record<string, Json>, RegExp][]) {
      const { came, asked } = await send(args);
      expect([came, asked]).toEqual([{ error: expect.stringMatching(said) }, undefined]);
    }
  });

  it.each([
    ["a map", { a: 1 }, {}, '{"a":1}', "application/json"],
    ["a map of another type", { a: 1 }, { "Content-Type": "application/ld+json" }, '{"a":1}', "application/ld+json"],
    ["a text", "a=1", { "Content-Type": "text/plain" }, "a=1", "text/plain"],
  ])("sends %s as its body", async (_, body, headers, text, type) => {
    const { asked } = await send({ method: "POST", body, headers }, { effect: "once" });
    expect([asked.method, asked.body, asked.headers.get("content-type")]).toEqual(["POST", text, type]);
  });

  it("says no type of what it doesn't send", async () => {
    const { asked } = await send({});
    expect([asked.body ?? null, asked.headers.get("content-type")]).toEqual([null, null]);
  });

  it("follows no redirect to another origin: its secret would go there", async () => {
    const answer = { ...ANSWER, status: 302, body: "", headers: { ...ANSWER.headers, location: "https://b.example/" } };
    expect((await send({}, {}, answer)).came).toEqual({ error: expect.stringMatching(/another origin/) });
  });

  it("has a key where it does something", async () => {
    const keys = (["read", "idempotent", "once"] as const).map(async (effect) => {
      return (await send({}, { effect })).asked.headers.get("idempotency-key");
    });
    expect(await Promise.all(keys)).toEqual([null, "k", "k"]);
  });

  it.each([
    [399, "ok"],
    [400, "error"],
    [404, "error"],
    [428, "error"],
    [429, "passing"],
    [430, "error"],
    [499, "error"],
    [500, "passing"],
    [503, "passing"],
  ])("answered %i is %s", async (status, what) => {
    const { came } = await send({}, {}, { ...ANSWER, status });
    expect(Object.keys(came)).toEqual([what]);
    if (what !== "ok") expect(Object.values(came)[0]).toBe(`HTTP ${status}: {"n":1}`);
  });

  it.each(["read", "once"] as const)(
    "of effect %s whose answer is too long has that answer's fault, for good",
    async (effect) => {
      const long = { ...ANSWER, body: JSON.stringify("a".repeat(200_000)) };
      expect((await send({}, { effect }, long)).came).toEqual({ error: "the answer is longer than 200 KB" });
      expect(Object.keys((await send({}, { effect }, { ...long, status: 503 })).came)).toEqual(["passing"]);
      expect(
        Object.keys((await send({}, { effect }, { ...ANSWER, body: JSON.stringify("a".repeat(199_998)) })).came),
      ).toEqual(["ok"]);
    },
  );

  it.each([
    ["read", "passing"],
    ["idempotent", "passing"],
    ["once", "unknown"],
  ] as const)("of effect %s whose answer was lost is %s", async (effect, what) => {
    expect(Object.keys((await send({}, { effect }, null)).came)).toEqual([what]);
  });
});
