import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Effect } from "../../../lib/db/schema.ts";
import { callHttp, type HttpTool } from "../../../lib/tools/http.ts";
import { anAsk, aServer, open } from "./support.ts";

const SECRET = "s3cret/of the+shop";
const env = { KEY: SECRET, EMPTY: "", LINES: "a\r\nX-Injected: 1" };

let server: Awaited<ReturnType<typeof aServer>>;
let elsewhere: Awaited<ReturnType<typeof aServer>>;
beforeAll(async () => {
  elsewhere = await aServer();
  server = await aServer(({ url }, response) => {
    const [, what = "", rest = ""] = /^\/(\w*)\/?(.*)$/.exec(url.split("?")[0]!) ?? [];
    if (what === "json") return void response.setHeader("Content-Type", "application/json").end('{"a":[1]}');
    if (what === "status") return void response.writeHead(Number(rest)).end("x".repeat(5000));
    if (what === "long") return void response.end("y".repeat(2_000_000));
    if (what === "hang") return;
    if (what === "drop") return void response.socket!.destroy();
    if (what === "half") {
      response.writeHead(200, { "Content-Length": 100 }).write("begun");
      return void setTimeout(() => response.socket!.destroy(), 20);
    }
    if (what === "away") return void response.writeHead(Number(rest), { Location: `${elsewhere.base}/taken` }).end();
    if (what === "on") return void response.writeHead(307, { Location: `/${rest}` }).end();
    response.end("hello");
  });
});
afterAll(() => Promise.all([server.close(), elsewhere.close()]));
beforeEach(() => {
  server.asked.length = 0;
  elsewhere.asked.length = 0;
});

const tool = (more: Partial<HttpTool> = {}): HttpTool => ({ method: "GET", url: `${server.base}/`, ...more });
const call = (
  config: HttpTool,
  args: Record<string, unknown> = {},
  { effect = "read", signal }: { effect?: Effect; signal?: AbortSignal } = {},
) => callHttp(config, effect, anAsk(args, signal && { signal }).ask, { ...open, env });
/** What the server was asked, as the one request that it must be. */
async function sent(config: Partial<HttpTool>, args: Record<string, unknown> = {}) {
  const answer = await call(tool(config), args);
  expect(answer).toMatchObject({ ok: {} });
  expect(server.asked).toHaveLength(1);
  return server.asked[0]!;
}

describe("a request", () => {
  it("has the arguments where its templates say, each spelled as its place asks", async () => {
    const args = { id: "a/b c?d#e&f=ü", n: 2, list: ["x", "y&z"], none: null, deep: { er: "in" } };
    const asked = await sent(
      {
        method: "POST",
        url: `${server.base}/orders/{{ id }}/v{{ n }}?from={{ id }}&sum={{ $.n + 1 }}`,
        headers: { "X-Deep": "{{ deep.er }}-{{ string.uppercase($.deep.er) }}", "X-None": "<{{ missing }}>" },
        query: { q: "{{ id }}", list: "{{ list }}", none: "{{ none }}", both: "{{ n }}{{ n }}" },
        body: { n: "{{ n }}", text: "n = {{ n }}", all: ["{{ list }}", "{{ none }}", true, { deep: "{{ deep }}" }] },
      },
      args,
    );
    const id = "a%2Fb%20c%3Fd%23e%26f%3D%C3%BC";
    expect(asked.url).toBe(`/orders/${id}/v2?from=${id}&sum=3&q=${id}&list=x&list=y%26z&both=22`);
    expect(asked.headers).toMatchObject({
      "x-deep": "in-IN",
      "x-none": "<>",
      "content-type": "application/json",
    });
    expect(JSON.parse(asked.body)).toEqual({
      n: 2,
      text: "n = 2",
      all: [["x", "y&z"], null, true, { deep: { er: "in" } }],
    });
  });

  it("has values as values of JSON and of forms, where its body is such a text", async () => {
    const args = { name: 'a", "admin": true, "b": "', n: 1 };
    const json = await sent(
      { method: "POST", headers: { "Content-Type": "application/json" }, body: '{"name":"{{ name }}","n":{{ n }}}' },
      args,
    );
    expect(JSON.parse(json.body)).toEqual(args);
    server.asked.length = 0;
    const type = "application/x-www-form-urlencoded";
    const form = await sent(
      { method: "POST", headers: { "Content-Type": type }, body: "name={{ name }}&n={{ n }}" },
      { name: "a&admin=1", n: 1 },
    );
    expect(form.body).toBe("name=a%26admin%3D1&n=1");
  });

  it("has the secret as its auth says, and no template is read in an argument", async () => {
    const bearer = await sent({ auth: { env_var: "KEY", as: "bearer" } });
    expect(bearer.headers.authorization).toBe(`Bearer ${SECRET}`);
    server.asked.length = 0;
    const header = await sent({ auth: { env_var: "KEY", as: "header", name: "X-Key" } });
    expect(header.headers["x-key"]).toBe(SECRET);
    server.asked.length = 0;
    const query = await sent({ auth: { env_var: "KEY", as: "query", name: "key" } });
    expect(query.url).toBe(`/?key=${encodeURIComponent(SECRET)}`);
    server.asked.length = 0;
    const asked = await sent(
      {
        url: `${server.base}/{{ a }}`,
        headers: { "X-A": "{{ a }}" },
        query: { k: "{{ env.KEY }}" },
        method: "POST",
        body: "{{ a }}",
      },
      { a: "{{ env.KEY }}", env: { KEY: "an argument" } },
    );
    expect(asked.url).toBe(`/%7B%7B%20env.KEY%20%7D%7D?k=${encodeURIComponent(SECRET)}`);
    expect([asked.headers["x-a"], asked.body]).toEqual(["{{ env.KEY }}", "{{ env.KEY }}"]);
  });

  it("has the session's key, if it does something; none, if it only reads", async () => {
    for (const effect of ["once", "idempotent", "read"] as const) await call(tool({ method: "POST" }), {}, { effect });
    expect(server.asked.map(({ headers }) => headers["idempotency-key"])).toEqual(["key-1", "key-1", undefined]);
  });

  const hostile: [what: string, config: () => Partial<HttpTool>, args: Record<string, unknown>][] = [
    ...["../admin", "..", ".", "%2e%2e", "%2E%2e%2fadmin", "a/../../b", "..\\b", "%252e%252e", "x%2f..%2fy"].map(
      (id): [string, () => Partial<HttpTool>, Record<string, unknown>] => [
        `leads to another path by ${id}`,
        () => ({ url: `${server.base}/orders/{{ id }}` }),
        { id },
      ],
    ),
    ["puts two dots together", () => ({ url: `${server.base}/a/{{ a }}{{ b }}/c` }), { a: ".", b: "x" }],
    ["puts two dots beside each other", () => ({ url: `${server.base}/a/.{{ a }}/c` }), { a: "." }],
    ["is empty in a path", () => ({ url: `${server.base}/orders/{{ id }}` }), { id: "" }],
    ["is missing in a path", () => ({ url: `${server.base}/orders/{{ id }}` }), {}],
    ["begins another header", () => ({ headers: { "X-A": "{{ a }}" } }), { a: "b\r\nX-Injected: 1" }],
    ["begins another header by a line feed", () => ({ headers: { "X-A": "{{ a }}" } }), { a: "b\nX-Injected: 1" }],
    ["holds what no header can", () => ({ headers: { "X-A": "{{ a }}" } }), { a: "€" }],
    ["names an expression that fails", () => ({ query: { a: "{{ $.a.b.c() }}" } }), { a: 1 }],
    ["names one that would call out", () => ({ query: { a: '{{ requests.get("https://a.example") }}' } }), {}],
  ];
  for (const [what, config, args] of hostile) {
    it(`isn't sent where an argument ${what}`, async () => {
      const answer = await call(tool({ method: "POST", ...config() }), args, { effect: "once" });
      expect(answer).toEqual({ error: expect.stringMatching(/^The request was not sent: /) });
      expect(server.asked).toEqual([]);
    });
  }

  it("goes to the hosts that the config names, whatever an argument says", async () => {
    const named = (host: string) => ({ url: "http://{{ host }}/x", hosts: [host] });
    const hosts = ["127.0.0.1", "localhost"];
    const url = (host: string) => `http://{{ host }}:${server.port}/${host}`;
    for (const host of hosts)
      expect(await call(tool({ ...named(host), url: url("x") }), { host })).toHaveProperty("ok");
    for (const host of [
      ...["127.0.0.1:1", "127.0.0.1@evil.example", "evil.example#", "evil.example/", "evil.example?", "a b", "[::1]"],
      ...["", "127.0.0.1\\", "evil.example", "localhost.", "%31%32%37.0.0.1"],
    ]) {
      const answer = await call(tool({ url: url("x"), hosts: ["127.0.0.1", "localhost"] }), { host });
      expect([host, answer]).toEqual([host, { error: expect.stringMatching(/not sent|[Rr]efused/) }]);
    }
    expect(server.asked).toHaveLength(2);
  });

  it("tells of an env var that isn't there, or can't be sent, by its name alone", async () => {
    for (const env_var of ["MISSING", "LINES"]) {
      const answer = await call(tool({ auth: { env_var, as: "bearer" } }));
      expect(answer).toEqual({ error: expect.stringContaining(env_var) });
      expect(JSON.stringify(answer)).not.toContain("Injected");
    }
    expect(server.asked).toEqual([]);
  });
});

describe("an answer", () => {
  it("is told with its status and type: JSON as JSON, text as text", async () => {
    expect(await call(tool({ url: `${server.base}/json` }))).toEqual({
      ok: { content: null, resolution: { status: 200, content_type: "application/json", body: { a: [1] } } },
    });
    expect(await call(tool())).toEqual({
      ok: { content: "hello", resolution: { status: 200, content_type: null } },
    });
  });

  it("from 400 on is an error, with the beginning of what it says", async () => {
    for (const effect of ["read", "once"] as const) {
      const answer = await call(tool({ url: `${server.base}/status/404` }), {}, { effect });
      expect(answer).toEqual({ error: `HTTP 404: ${"x".repeat(2000)}` });
    }
  });

  it("that is longer than is read is cut, and says so", async () => {
    const answer = await call(tool({ url: `${server.base}/long`, max_bytes: 1000 }), {}, { effect: "once" });
    const content = `${"y".repeat(1000)}\n[cut: the answer is longer than is read]`;
    expect(answer).toEqual({ ok: { content, resolution: { status: 200, content_type: null } } });
  });

  const lost: [what: string, config: Partial<HttpTool>][] = [
    ["doesn't come in time", { url: "/hang", timeout_s: 0.2 }],
    ["is a closed connection", { url: "/drop" }],
    ["breaks off", { url: "/half" }],
    ["is a redirect to one that breaks off", { url: "/on/half" }],
  ];
  for (const [what, config] of lost) {
    it(`that ${what} leaves unknown what was to happen once, and is an error of all else`, async () => {
      const whole = tool({ ...config, method: "POST", url: server.base + config.url });
      expect(await call(whole, {}, { effect: "once" })).toEqual({ unknown: true });
      for (const effect of ["idempotent", "read"] as const) {
        expect(await call(whole, {}, { effect })).toEqual({ error: expect.any(String) });
      }
    });
  }

  it("that is a redirect is followed on its origin, and is an error elsewhere: nothing goes there", async () => {
    const auth = { env_var: "KEY", as: "bearer" } as const;
    expect(await call(tool({ url: `${server.base}/on/json`, auth }))).toHaveProperty("ok");
    expect(server.asked.map(({ headers }) => headers.authorization)).toEqual([`Bearer ${SECRET}`, `Bearer ${SECRET}`]);
    for (const status of [301, 302, 303, 307, 308]) {
      const answer = await call(
        tool({ method: "POST", url: `${server.base}/away/${status}`, auth }),
        {},
        { effect: "once" },
      );
      expect(answer).toEqual({ error: "The answer is a redirect to another origin, which is not followed." });
    }
    expect(elsewhere.asked).toEqual([]);
  });
});

describe("what the guard refuses", () => {
  // Each but the last few is this machine, spelled in a way that some resolver or parser takes for it.
  const spellings = `
http://127.1 http://127.0.1 http://2130706433 http://0x7f000001 http://0x7f.1 http://0177.0.0.1 http://017700000001
http://127.0.0.1. http://localhost. http://%31%32%37.0.0.1 http://127%2e0.0.1 http://１２７.0.0.1 http://①②⑦.⓪.⓪.①
http://127。0。0。1 http://[::ffff:127.0.0.1] http://[::ffff:7f00:1] http://[0:0:0:0:0:ffff:127.0.0.1] http://[::]
http://0.0.0.0 http://0 http://user@127.0.0.1 http://user:pass@localhost http://127.0.0.1.nip.io http://localtest.me
https://127.0.0.1 http://169.254.169.254 http://10.0.0.1 http://192.168.0.1 http://172.16.0.1 http://metadata
http://metadata.google.internal http://[fe80::1] http://[fc00::1] http://[64:ff9b::7f00:1] http://100.64.0.1`
    .trim()
    .split(/\s+/);
  const closed = { fetch: open.fetch, loopback: false };

  it("is not sent: thirty spellings and more, of which the plain one would have been answered", async () => {
    expect(spellings.length).toBeGreaterThanOrEqual(30);
    const asks = (spelling: string, way: typeof open) =>
      callHttp({ method: "GET", url: `${spelling}:${server.port}/` }, "once", anAsk().ask, { ...way, env });
    for (const spelling of spellings) {
      // What every reader of URLs takes for this machine is this machine, where that is open to tools.
      const isHere = /^http:[^@%]*$/.test(spelling) && /^(127\.0\.0\.1|localhost)$/.test(new URL(spelling).hostname);
      for (const way of isHere ? [closed] : [closed, open]) {
        const answer = await asks(spelling, way);
        expect([spelling, answer]).toEqual([spelling, { error: expect.stringMatching(/^Refused: |not sent/) }]);
      }
    }
    expect(server.asked).toEqual([]);
    expect(await asks("http://127.0.0.1", open)).toHaveProperty("ok");
    expect(await asks("http://127.0.0.1", closed)).toHaveProperty("error");
    expect(server.asked).toHaveLength(1);
  });

  it("is not reached by a redirect either", async () => {
    const away = await aServer(
      (_, response) => void response.writeHead(302, { Location: "http://169.254.169.254/" }).end(),
    );
    const answer = await callHttp({ method: "GET", url: away.base }, "read", anAsk().ask, { ...open, env });
    expect(answer).toHaveProperty("error");
    await away.close();
  });

  it("is any address that isn't http", async () => {
    for (const url of ["data:text/plain,hi", "file:///etc/passwd", "ftp://a.example/", "javascript:1"]) {
      const answer = await callHttp({ method: "GET", url, hosts: ["a.example"] }, "read", anAsk().ask, {
        ...open,
        env,
      });
      expect([url, answer]).toEqual([url, { error: expect.stringMatching(/not sent|[Rr]efused/) }]);
    }
  });
});
