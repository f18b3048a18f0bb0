import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Effect } from "../../../lib/db/schema.ts";
import { computeScript } from "../../../lib/scripts/compute.ts";
import type { Outbound, ToolAsk } from "../../../lib/tools/calls.ts";
import { callScript, type ScriptWorld } from "../../../lib/tools/script.ts";
import { anAsk, aServer, computer, open } from "./support.ts";

const SECRET = "a-secret-of-the-agent";

let server: Awaited<ReturnType<typeof aServer>>;
/** After so many answers the server's next is never given. */
let silentAfter = Number.POSITIVE_INFINITY;
beforeAll(async () => {
  server = await aServer(({ url, headers }, response) => {
    if (server.asked.length > silentAfter) return;
    response.setHeader("Content-Type", "application/json");
    response.end(JSON.stringify({ n: server.asked.length, url, echoed: headers["x-key"] ?? null }));
  });
});
afterAll(() => server.close());
beforeEach(() => {
  server.asked.length = 0;
  silentAfter = Number.POSITIVE_INFINITY;
});

const platform: ScriptWorld["platform"] = async ({ name }) => (name === "agents.get" ? { ok: { name: "Ada" } } : null);
const call = (
  source: string,
  ask: ToolAsk,
  effect: Effect = "once",
  scripts: Record<string, string> = {},
  COMPUTE: unknown = computer(),
) =>
  callScript(source, effect, ask, {
    ...open,
    run: (source, options) => computeScript({ COMPUTE }, "a place", source, options),
    env: { KEY: SECRET },
    viewer: { agent: "agi_1" },
    platform,
    scripts: async (key) => scripts[key] ?? null,
  });

/** Two posts, the time after each, a random number and a look at the platform. */
const twoPosts = () => `
let first = unwrap(requests.post("${server.base}/one", { body: { at: datetime.now(), r: math.random() } })).body.n
let name = unwrap(agents.get({ agent: "ada" })).name
let second = unwrap(requests.post("${server.base}/two", { body: { at: datetime.now(), first: first, r: math.random() } })).body.n
[first, name, second]`;

describe("a script of a tool", () => {
  it("has the arguments, the agent's env vars, who it is, and the scripts around it", async () => {
    const source = 'let other = import("script:other")\n[$.a, string.length(env.KEY), viewer.agent, other]';
    expect(await call(source, anAsk({ a: 1 }).ask, "read", { other: "6 * 7" })).toEqual({
      ok: { content: null, resolution: [1, SECRET.length, "agi_1", 42] },
    });
  });

  it("that fails is an error with its reason", async () => {
    for (const [source, says] of [
      ["$.a()", /^The script failed: /],
      ["let = 1", /^The script failed: /],
      ['unwrap(requests.get("http://10.0.0.1/"))', /refused/],
      ['unwrap(email.send({ to: "a@b.example" }))', /not available here/],
    ] as const) {
      expect([source, await call(source, anAsk({ a: 1 }).ask)]).toEqual([
        source,
        { error: expect.stringMatching(says) },
      ]);
    }
  });

  it("writes each call down before it leaves, and learns what was written of its answer: masked", async () => {
    const source = `unwrap(requests.get("${server.base}/", { headers: { "X-Key": env.KEY } })).body.echoed`;
    const { ask, ledger } = anAsk({}, {}, [SECRET]);
    expect(await call(source, ask)).toEqual({ ok: { content: null, resolution: "****" } });
    expect(server.asked[0]!.headers["x-key"]).toBe(SECRET);
    expect(ledger.map(({ n, name, answer }) => [n, name, answer && "ok" in answer])).toEqual([
      [0, "requests.request", null],
      [0, "requests.request", true],
    ]);
    expect(JSON.stringify(ledger)).not.toContain(SECRET);
  });

  it("sends a key of its own with each request, unless it has one", async () => {
    const own = `requests.put("${server.base}/", { headers: { "Idempotency-Key": "mine" } })`;
    await call(`requests.post("${server.base}/")\n${own}\nrequests.get("${server.base}/")`, anAsk().ask);
    expect(server.asked.map(({ headers }) => headers["idempotency-key"])).toEqual(["key-1-0", "mine", "key-1-2"]);
  });

  it("is taken up again after any number of its calls: none is made twice, and nothing is another", async () => {
    const { ask, ledger } = anAsk();
    const whole = await call(twoPosts(), ask);
    const bodies = server.asked.map(({ body }) => body);
    expect(whole).toEqual({ ok: { content: null, resolution: [1, "Ada", 2] } });
    const answered = ledger.filter(({ answer }) => answer);
    expect(answered).toHaveLength(3);
    for (let known = 0; known <= answered.length; known++) {
      server.asked.length = Math.min(known, 1);
      const again = anAsk({}, { attempt: 2, outbound: answered.slice(0, known) });
      // As the ledger's clock went on in the first attempt.
      again.ledger.push(...ledger.slice(0, known * 2));
      expect(await call(twoPosts(), again.ask)).toEqual(whole);
      const before = [0, 1, 1, 2][known]!;
      expect(server.asked.slice(Math.min(known, 1)).map(({ body }) => body)).toEqual(bodies.slice(before));
    }
  });

  it("goes on from its ledger when the Worker that it computes in ends in the middle", async () => {
    const whole = await call(twoPosts(), anAsk().ask);
    server.asked.length = 0;
    const { ask, ledger } = anAsk();
    const dying = {
      run: async (...[place, source, given, outside]: Parameters<ReturnType<typeof computer>["run"]>) => {
        const dead = new Promise<never>((_, reject) => {
          const { run } = computer(async (n, one) => {
            if (n < 2) return outside.call(n, one);
            reject(new Error("the Worker is gone"));
            return new Promise<never>(() => {});
          });
          void run(place, source, given, outside);
        });
        return dead;
      },
    };
    await expect(call(twoPosts(), ask, "once", {}, dying)).rejects.toThrow("the Worker is gone");
    const again = anAsk({}, { attempt: 2, outbound: ledger.filter(({ answer }) => answer) });
    again.ledger.push(...ledger);
    expect(await call(twoPosts(), again.ask)).toEqual(whole);
    expect(server.asked).toHaveLength(2);
  });

  const begun = (ledger: Outbound[], n: number) => [
    ...ledger.filter((one) => one.n < n && one.answer),
    ledger.find((one) => one.n === n && !one.answer)!,
  ];
  it("of which an earlier call may have happened is unknown, if that changes something once", async () => {
    const { ask, ledger } = anAsk();
    await call(twoPosts(), ask);
    server.asked.length = 0;
    for (const n of [0, 2]) {
      const outbound = begun(ledger, n);
      expect(await call(twoPosts(), anAsk({}, { attempt: 2, outbound }).ask)).toEqual({ unknown: true });
    }
    expect(server.asked).toEqual([]);
  });
  it("makes it again, with the same key, if it only reads or may be made twice", async () => {
    const { ask, ledger } = anAsk();
    const whole = await call(twoPosts(), ask);
    // The look at the platform.
    server.asked.length = 1;
    expect(await call(twoPosts(), anAsk({}, { attempt: 2, outbound: begun(ledger, 1) }).ask)).toEqual(whole);
    for (const effect of ["idempotent", "read"] as const) {
      server.asked.length = 0;
      expect(await call(twoPosts(), anAsk({}, { attempt: 2, outbound: begun(ledger, 0) }).ask, effect)).toEqual(whole);
      expect(server.asked[0]!.headers["idempotency-key"]).toBe("key-1-0");
    }
    const get = `unwrap(requests.get("${server.base}/x")).body.url`;
    const one = anAsk();
    await call(get, one.ask);
    const again = anAsk({}, { attempt: 2, outbound: begun(one.ledger, 0) });
    expect(await call(get, again.ask)).toEqual({ ok: { content: null, resolution: "/x" } });
  });

  it("that goes another way than before is unknown, if it changes something once; else an error", async () => {
    const { ask, ledger } = anAsk();
    await call(twoPosts(), ask);
    const other = `requests.post("${server.base}/three")`;
    const outbound = ledger.filter(({ answer }) => answer);
    expect(await call(other, anAsk({}, { outbound }).ask)).toEqual({ unknown: true });
    expect(await call(other, anAsk({}, { outbound }).ask, "idempotent")).toEqual({
      error: expect.stringContaining("another one was recorded"),
    });
  });

  it("signs between its calls, and is taken up again all the same", async () => {
    const source = `
let token = unwrap(jwt.sign({ iat: 1 }, env.KEY))
let a = unwrap(requests.post("${server.base}/", { body: { token: token, at: datetime.now() } })).body.n
let b = unwrap(requests.post("${server.base}/", { body: { again: jwt.sign({ iat: 2 }, env.KEY), at: datetime.now() } })).body.n
[a, b]`;
    const { ask, ledger } = anAsk();
    expect(await call(source, ask)).toEqual({ ok: { content: null, resolution: [1, 2] } });
    const outbound = ledger.filter(({ answer }) => answer);
    expect(outbound.map(({ n }) => n)).toEqual([1, 3]);
    server.asked.length = 1;
    expect(await call(source, anAsk({}, { outbound: outbound.slice(0, 1) }).ask)).toEqual({
      ok: { content: null, resolution: [1, 2] },
    });
    expect(JSON.stringify(ledger)).not.toMatch(/eyJ/);
  });
});
