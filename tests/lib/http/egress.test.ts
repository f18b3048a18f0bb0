import { describe, expect, it, vi } from "vitest";
import { fetchGuarded, postGuarded } from "../../../lib/http/egress.ts";
import { edgeWorld } from "../../../lib/script/http.ts";
import { resultOf } from "../script/support.ts";

type Handler = (url: string, init: RequestInit) => Response | Promise<Response>;

/** The requests that went out, and the answer that came of them. */
async function send(
  handler: Handler,
  init: {
    url?: string;
    method?: string;
    headers?: object;
    body?: string;
    max_bytes?: number;
    timeout_ms?: number;
    cut?: boolean;
    same_origin?: boolean;
    signal?: AbortSignal;
  } = {},
) {
  const { url = "https://a.example.com/", method = "GET", headers = {}, body = null, ...options } = init;
  const sent: { url: string; method: string; headers: Record<string, string>; body: unknown }[] = [];
  const fetch = async (to: string, init: RequestInit) => {
    sent.push({ url: to, method: init.method!, headers: init.headers as Record<string, string>, body: init.body });
    expect(init.redirect).toBe("manual");
    return handler(to, init);
  };
  const outcome = await fetchGuarded(
    url,
    { method, headers: headers as Record<string, string>, body },
    { fetch, max_bytes: 1_000_000, timeout_ms: 10_000, ...options },
  );
  if ("error" in outcome) return { sent, answer: { error: outcome.error }, outcome };
  const { cut: _, ...answer } = outcome.ok;
  return { sent, answer: { ok: answer }, outcome };
}

const to = (location: string, status = 302) => new Response(null, { status, headers: { location } });

describe("a guarded fetch", () => {
  it("answers status, headers and a parsed JSON body", async () => {
    const { answer } = await send(() => Response.json({ a: [1] }, { status: 404, headers: { "X-Some": "Thing" } }));
    expect(answer).toEqual({
      ok: { status: 404, headers: { "content-type": "application/json", "x-some": "Thing" }, body: { a: [1] } },
    });
  });
  it("leaves text as it is, also text that only claims to be JSON", async () => {
    const { answer } = await send(() => new Response("{oops", { headers: { "content-type": "application/json" } }));
    expect(answer).toMatchObject({ ok: { body: "{oops" } });
    expect((await send(() => new Response("[1]", { headers: { "content-type": "text/plain" } }))).answer).toMatchObject(
      { ok: { body: "[1]" } },
    );
  });
  it("parses JSON that is nested a hundred deep, and leaves what is deeper as text", async () => {
    const json = (text: string) => () => new Response(text, { headers: { "content-type": "application/json" } });
    const nested = (depth: number) => `[1, {"a": 2}, ${"[".repeat(depth - 1)}${"]".repeat(depth - 1)}, 3]`;
    const body = async (text: string) => (await send(json(text))).answer as { ok: { body: unknown } };
    expect(await body(nested(100))).toMatchObject({ ok: { body: JSON.parse(nested(100)) } });
    expect(await body(nested(101))).toMatchObject({ ok: { body: nested(101) } });
  });
  it("reads an answer without a body, and one whose letters arrive in pieces", async () => {
    const { answer } = await send(() => new Response(null, { status: 204 }));
    expect(answer).toEqual({ ok: { status: 204, headers: {}, body: "" } });
    const bytes = new TextEncoder().encode("a€😀b");
    const byByte = new ReadableStream({
      start(controller) {
        for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
        controller.close();
      },
    });
    expect((await send(() => new Response(byByte))).answer).toMatchObject({ ok: { body: "a€😀b" } });
    expect((await send(() => new Response(bytes.slice(0, 3)))).answer).toMatchObject({ ok: { body: "a\ufffd" } });
  });
  it("sends each of the usual methods, and a body with none that has no use for it", async () => {
    for (const method of ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]) {
      const { sent } = await send(() => new Response(null), { method, body: "data" });
      expect([method, sent.map((one) => [one.method, one.body])]).toEqual([
        method,
        [[method, method === "GET" || method === "HEAD" ? null : "data"]],
      ]);
    }
  });
  it("leaves nothing under way behind: no timer, and a signal that has ended", async () => {
    vi.useFakeTimers();
    try {
      const signals: AbortSignal[] = [];
      const { answer } = await send((_, { signal }) => {
        signals.push(signal!);
        return new Response("");
      });
      expect([answer, vi.getTimerCount(), signals.map(({ aborted }) => aborted)]).toMatchObject([
        { ok: {} },
        0,
        [true],
      ]);
    } finally {
      vi.useRealTimers();
    }
  });
  it("leaves JSON that is nested without end as text", async () => {
    const deep = "[".repeat(50_000) + "]".repeat(50_000);
    const { answer } = await send(() => new Response(deep, { headers: { "content-type": "application/json" } }));
    expect(answer).toMatchObject({ ok: { body: deep } });
  });
  it("sends nothing to an address that is refused", async () => {
    const { sent, answer } = await send(() => new Response("secret"), { url: "http://127.0.0.1:8787/" });
    expect([sent, answer]).toEqual([[], { error: "refused: the host is a private or reserved address" }]);
  });

  it("follows redirects, relative ones too", async () => {
    const { sent, answer } = await send((url) => (url.endsWith("/") ? to("/next?x=1") : new Response("there")));
    expect([sent.map(({ url }) => url), answer]).toEqual([
      ["https://a.example.com/", "https://a.example.com/next?x=1"],
      { ok: { status: 200, headers: { "content-type": "text/plain;charset=UTF-8" }, body: "there" } },
    ]);
  });
  for (const location of [
    "http://169.254.169.254/latest",
    "http://localhost/",
    "//10.0.0.1/",
    "http://0x7f.1/",
    "file:///etc/passwd",
    "http://[::1]/",
    "https://u:p@b.example.com/",
  ]) {
    it(`does not follow a redirect to ${location}`, async () => {
      const { sent, answer } = await send(() => to(location));
      expect([sent.length, answer]).toEqual([1, { error: expect.stringContaining("refused") }]);
    });
  }
  it("follows what is a redirect, and only with an address", async () => {
    expect((await send(() => to("/b", 201))).answer).toMatchObject({
      ok: { status: 201, headers: { location: "/b" } },
    });
    expect((await send(() => new Response(null, { status: 302 }))).answer).toMatchObject({ ok: { status: 302 } });
    for (const [url, location] of [
      ["https://a.example.com/", "http://["],
      ["http://a.example.com/", "http:"],
      ["https://a.example.com/", "//["],
    ]) {
      const { sent, answer } = await send(() => to(location!), { url: url! });
      expect([sent.length, answer]).toEqual([1, { error: "a redirect leads to no address" }]);
    }
  });
  it("follows five redirects and no more", async () => {
    let n = 0;
    const { sent, answer } = await send(() => to(`/${++n}`));
    expect([sent.length, answer]).toEqual([6, { error: "more than 5 redirects" }]);
  });
  it("takes no credentials along to another origin, whatever the header is called", async () => {
    const plain = { accept: "text/html", "accept-language": "de", "content-type": "text/x", "user-agent": "me" };
    const headers = { Authorization: "Bearer x", Cookie: "a=b", "X-Api-Key": "y", ...plain };
    const { sent } = await send((url) => (url.includes("//a.") ? to("https://b.example.com/") : new Response("")), {
      headers,
    });
    expect(sent.map((one) => one.headers)).toEqual([
      { authorization: "Bearer x", cookie: "a=b", "x-api-key": "y", ...plain },
      plain,
    ]);
  });
  it("does not give them back when it returns to the first", async () => {
    const headers = { authorization: "x" };
    const hops = [to("https://b.example.com/"), to("https://a.example.com/back"), new Response("")];
    const { sent } = await send(() => hops.shift()!, { headers });
    expect(sent.map((one) => one.headers)).toEqual([{ authorization: "x" }, {}, {}]);
  });
  it("keeps the method and body of a 307, and turns a POST into a GET at a 303", async () => {
    const post = { method: "POST", body: "data", headers: { "content-type": "text/plain" } };
    for (const [status, then] of [
      [307, ["POST", "data"]],
      [308, ["POST", "data"]],
      [303, ["GET", null]],
      [302, ["GET", null]],
    ] as const) {
      const { sent } = await send((url) => (url.endsWith("/") ? to("/b", status) : new Response("")), post);
      expect([status, sent[1]?.method, sent[1]?.body]).toEqual([status, ...then]);
    }
  });

  it("drops what speaks of a body with the body, and nothing else", async () => {
    const ofBody = { "Content-Type": "text/plain", "Content-Encoding": "gzip", "Content-Language": "de" };
    const headers = { ...ofBody, "Content-Location": "/x", Authorization: "Bearer x", "X-Content": "y" };
    const post = { method: "POST", body: "data", headers };
    for (const status of [301, 302, 303]) {
      const { sent } = await send((url) => (url.endsWith("/") ? to("/b", status) : new Response("")), post);
      expect([status, sent[1]]).toEqual([
        status,
        {
          ...{ url: "https://a.example.com/b", method: "GET", body: null },
          headers: { authorization: "Bearer x", "x-content": "y" },
        },
      ]);
    }
    const put = { ...post, method: "PUT" };
    const { sent } = await send((url) => (url.endsWith("/") ? to("/b", 302) : new Response("")), put);
    expect([sent[1]?.method, sent[1]?.body, sent[1]?.headers]).toEqual(["PUT", "data", sent[0]?.headers]);
  });
  it("drops it at a 303 of any method, and asks for no body where none was asked for", async () => {
    for (const [method, then] of [
      ["PUT", "GET"],
      ["DELETE", "GET"],
      ["GET", "GET"],
      ["HEAD", "HEAD"],
    ] as const) {
      const init = { method, body: "data", headers: { "content-type": "text/plain" } };
      const { sent } = await send((url) => (url.endsWith("/") ? to("/b", 303) : new Response("")), init);
      expect([sent[1]?.method, sent[1]?.body, sent[1]?.headers]).toEqual([then, null, {}]);
    }
  });

  it("gives up on a body that is too large, told or not", async () => {
    let pulled = 0;
    const endless = new ReadableStream({
      pull: (c) => {
        pulled++;
        c.enqueue(new Uint8Array(10_000));
      },
    });
    expect((await send(() => new Response(endless))).answer).toEqual({ error: "the answer is larger than 1 MB" });
    expect(pulled).toBeLessThan(110);
    const told = () => new Response("x", { headers: { "content-length": "2000000" } });
    expect((await send(told)).answer).toEqual({ error: "the answer is larger than 1 MB" });
  });
  it("takes a body of exactly the limit", async () => {
    const { answer } = await send(() => new Response("x".repeat(1000)), { max_bytes: 1000 });
    expect(answer).toMatchObject({ ok: { status: 200 } });
    const told = (n: number) => () => new Response("x".repeat(n), { headers: { "content-length": String(n) } });
    expect((await send(told(1000), { max_bytes: 1000 })).answer).toMatchObject({ ok: { status: 200 } });
    expect((await send(told(1001), { max_bytes: 1000 })).answer).toMatchObject({ error: expect.any(String) });
    expect((await send(() => new Response("x".repeat(1001)), { max_bytes: 1000 })).answer).toMatchObject({
      error: expect.any(String),
    });
  });
  it("gives up on an answer that does not come, and tells the fetch", async () => {
    let aborted = false;
    const { answer } = await send(
      (_, { signal }) =>
        new Promise((_, reject) =>
          signal!.addEventListener("abort", () => {
            aborted = true;
            reject(signal!.reason);
          }),
        ),
      { timeout_ms: 30 },
    );
    expect([answer, aborted]).toEqual([{ error: "no answer within 0.03 seconds" }, true]);
  });
  it("gives up on a body that stalls, and on a fetch that does not listen", async () => {
    const stalled = new ReadableStream({ pull: () => new Promise(() => {}) });
    expect((await send(() => new Response(stalled), { timeout_ms: 30 })).answer).toEqual({
      error: "no answer within 0.03 seconds",
    });
    expect((await send(() => new Promise(() => {}), { timeout_ms: 30 })).answer).toEqual({
      error: "no answer within 0.03 seconds",
    });
  });
  it("says nothing of what the platform threw", async () => {
    const { answer } = await send(() => Promise.reject(new Error("connect ECONNREFUSED 10.0.0.7:5432")));
    expect(answer).toEqual({ error: "the request failed: no answer came" });
  });
  for (const [what, init, message] of [
    ["headers that are ours", { headers: { Host: "b.example.com" } }, "the header host cannot be set"],
    [
      "headers of the edge",
      { headers: { "CF-Connecting-IP": "1.2.3.4" } },
      "the header cf-connecting-ip cannot be set",
    ],
    [
      "line ends in headers",
      { headers: { "X-A": "1\r\nHost: b" } },
      "a header has a name or value that cannot be sent",
    ],
    ["odd names of headers", { headers: { "X A": "1" } }, "a header has a name or value that cannot be sent"],
    ["methods beyond the usual", { method: "CONNECT" }, "the method CONNECT is not allowed"],
  ] as const) {
    it(`refuses ${what}`, async () => {
      const { sent, answer } = await send(() => new Response(""), init);
      expect([sent, answer]).toEqual([[], { error: message }]);
    });
  }
});

describe("a header that a script may not send", () => {
  const forbidden = [
    ...[
      "host",
      "connection",
      "content-length",
      "transfer-encoding",
      "upgrade",
      "te",
      "trailer",
      "keep-alive",
      "expect",
    ],
    ...["forwarded", "via", "true-client-ip", "x-real-ip", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"],
    ...["cf-connecting-ip", "cf-ray", "cf-worker", "proxy-authorization", "proxy-connection"],
  ];
  for (const name of forbidden) {
    it(`is ${name}, in whatever letters`, async () => {
      for (const written of [name, name.toUpperCase()]) {
        const { sent, answer } = await send(() => new Response(""), { headers: { accept: "*/*", [written]: "x" } });
        expect([sent, answer]).toEqual([[], { error: `the header ${name} cannot be set` }]);
      }
    });
  }
  it("is none that only resembles those", async () => {
    const headers = {
      "x-host": "a",
      "x-te": "b",
      forwarding: "c",
      "x-via": "d",
      cfx: "e",
      "upgrade-insecure-requests": "1",
    };
    expect((await send(() => new Response(""), { headers })).sent[0]?.headers).toEqual(headers);
  });
  it("reaches no world from a script either", async () => {
    const sent: RequestInit[] = [];
    const world = edgeWorld({
      fetch: async (_, init) => {
        sent.push(init);
        return new Response("");
      },
    });
    const source = 'result.message(requests.get("https://a.example.com", { headers: { Forwarded: "for=1.2.3.4" } }))';
    expect([await resultOf(source, { world }), sent]).toEqual(["the header forwarded cannot be set", []]);
  });
  it("is the hundred and first", async () => {
    const headers = (n: number) => Object.fromEntries(Array.from({ length: n }, (_, i) => [`x-${i}`, "1"]));
    expect((await send(() => new Response(""), { headers: headers(100) })).sent).toHaveLength(1);
    const { sent, answer } = await send(() => new Response(""), { headers: headers(101) });
    expect([sent, answer]).toEqual([[], { error: "a request has at most 100 headers" }]);
  });
});

describe("the world of the edge", () => {
  it("guards what a script requests", async () => {
    const world = edgeWorld({ fetch: async (url) => Response.json({ url }) });
    const source =
      '[requests.get("https://a.example.com/x", { query: { y: 1 } }).body.url, result.message(requests.get("http://10.0.0.1"))]';
    expect(await resultOf(source, { world })).toEqual([
      "https://a.example.com/x?y=1",
      "refused: the host is a private or reserved address",
    ]);
  });
  it("asks the platform for all else, and says when that does not have it", async () => {
    const world = edgeWorld({
      fetch: async () => new Response(""),
      platform: async ({ name, args }) => (name === "users.get" ? { ok: { name: "Ada", asked: args } } : null),
    });
    const source = '[unwrap(users.get({ user: "usr_1" })), result.message(slack.send({ channel: "#a", text: "b" }))]';
    expect(await resultOf(source, { world })).toEqual([
      { name: "Ada", asked: [{ user: "usr_1" }] },
      "slack.send is not available here",
    ]);
  });
});

describe("what a stranger is told", () => {
  const post = (fetch: (url: string, init: RequestInit) => Promise<Response>, url = "https://a.example.com/hook") =>
    postGuarded(url, { headers: { a: "b" }, body: "{}" }, { fetch, max_bytes: 10, timeout_ms: 50 });
  const endless = () => new ReadableStream({ pull: (to) => void to.enqueue(new TextEncoder().encode("abcdefgh")) });

  it("is one POST, whose answer is its status, a redirect's, too", async () => {
    const asked = vi.fn(async (_: string, init: RequestInit) => {
      expect(init).toMatchObject({ method: "POST", headers: { a: "b" }, body: "{}", redirect: "manual" });
      return new Response("no", { status: 302, headers: { location: "https://b.example.com/", "retry-after": "7" } });
    });
    expect(await post(asked)).toMatchObject({ status: 302, retry_after: "7", text: "no" });
    expect(asked.mock.calls.map(([url]) => url)).toEqual(["https://a.example.com/hook"]);
  });

  it.each(["http://10.0.0.1/", "http://127.0.0.1/", "https://a.example.com@10.0.0.1/", "ftp://a.example.com/"])(
    "is nothing at %s: nobody is asked",
    async (url) => {
      const asked = vi.fn(async () => new Response());
      expect(await post(asked, url)).toEqual({ error: expect.stringMatching(/^refused: /) });
      expect(asked).not.toHaveBeenCalled();
    },
  );

  it("has of the answer as much as is wanted, however much there is, and what is there within a second", async () => {
    expect(await post(async () => new Response(endless()))).toMatchObject({ status: 200, text: "abcdefghab" });
    const silent = new ReadableStream({ start: (to) => to.enqueue(new TextEncoder().encode("abc")) });
    const begun = Date.now();
    expect(await post(async () => new Response(silent))).toMatchObject({ status: 200, text: "abc" });
    expect(Date.now() - begun).toBeLessThan(3_000);
    const broken = new ReadableStream({ pull: (to) => to.error(new Error("cut")) });
    expect(await post(async () => new Response(broken, { status: 201 }))).toMatchObject({ status: 201, text: "" });
  });

  it("ends at its time, also by a fetch that hears no signal; and says nothing of why a fetch has failed", async () => {
    expect(await post(() => new Promise(() => {}))).toEqual({ error: "no answer within 0.05 seconds" });
    const failing = () => Promise.reject(new Error("connect ECONNREFUSED 10.1.2.3:5432"));
    expect(await post(failing)).toEqual({ error: "the request failed: no answer came" });
  });
});
