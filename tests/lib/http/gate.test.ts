import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { groups } from "../../../functions/groups.ts";
import { newKey } from "../../../lib/auth/keys.ts";
import type { ApiError } from "../../../lib/errors.ts";
import { Gate } from "../../../lib/http/gate.ts";
import { describe as describeApp } from "../../../lib/http/openapi.ts";
import { worker } from "../../../lib/http/worker.ts";
import { newId } from "../../../lib/ids.ts";

const turn = () => new Promise((resolve) => setTimeout(resolve));

/** What runs until it is told to end, and in which order it began. */
function work() {
  const begun: string[] = [];
  const ends = new Map<string, (fails?: Error) => void>();
  const run = (name: string) => () => {
    begun.push(name);
    return new Promise<string>((resolve, reject) => ends.set(name, (fails) => (fails ? reject(fails) : resolve(name))));
  };
  const end = async (name: string, fails?: Error) => {
    ends.get(name)!(fails);
    await turn();
  };
  return { begun, run, end };
}
const refusal = (passing: Promise<unknown>) =>
  passing.then(
    () => null,
    (error: ApiError) => [error.status, error.headers],
  );
const REFUSED = [429, { "Retry-After": "1" }];

describe("a gate", () => {
  it("lets so many through at once for a key, and the others in the order in which they came", async () => {
    const gate = new Gate({ most: 2 });
    const { begun, run, end } = work();
    const all = ["a", "b", "c", "d"].map((name) => gate.pass("org", run(name)));
    const other = gate.pass("another org", run("e"));
    await turn();
    expect(begun).toEqual(["a", "b", "e"]);
    await end("b");
    expect(begun).toEqual(["a", "b", "e", "c"]);
    await end("c");
    await end("a");
    await end("d");
    await end("e");
    expect(await Promise.all([...all, other])).toEqual(["a", "b", "c", "d", "e"]);
  });

  it("forgets a key that nobody holds or waits for", async () => {
    const gate = new Gate({ most: 1, wait_ms: 20 });
    const { run, end } = work();
    const held = gate.pass("org", run("a"));
    expect(await refusal(gate.pass("org", run("b")))).toEqual(REFUSED);
    expect(gate.size).toBe(1);
    await end("a");
    await held;
    expect(gate.size).toBe(0);
  });

  it("refuses who has waited long enough, with 429 and when to try again, and lets the next one in instead", async () => {
    const gate = new Gate({ most: 1, wait_ms: 30 });
    const { begun, run, end } = work();
    const held = gate.pass("org", run("a"));
    const late = refusal(gate.pass("org", run("b")));
    expect(await late).toEqual(REFUSED);
    const next = gate.pass("org", run("c"));
    await end("a");
    await end("c");
    expect([await held, await next, begun]).toEqual(["a", "c", ["a", "c"]]);
  });

  it("gives back the place of what failed", async () => {
    const gate = new Gate({ most: 1 });
    const { run, end } = work();
    const failing = gate.pass("org", run("a"));
    const next = gate.pass("org", run("b"));
    const failed = expect(failing).rejects.toThrow("no");
    await turn();
    await end("a", new Error("no"));
    await failed;
    await end("b");
    expect([await next, gate.size]).toEqual(["b", 0]);
    const thrown = gate.pass("org", () => {
      throw new Error("at once");
    });
    await expect(thrown).rejects.toThrow("at once");
    expect(gate.size).toBe(0);
  });

  it("takes who hangs up out of the line, and out of memory", async () => {
    const gate = new Gate({ most: 1 });
    const { begun, run, end } = work();
    const held = gate.pass("org", run("a"));
    const hangup = new AbortController();
    const gone = refusal(gate.pass("org", run("b"), hangup.signal));
    const next = gate.pass("org", run("c"));
    hangup.abort();
    await gone;
    await end("a");
    expect(begun).toEqual(["a", "c"]);
    await end("c");
    expect([await held, await next, gate.size]).toEqual(["a", "c", 0]);
    await gate.pass("org", async () =>
      expect(refusal(gate.pass("org", run("d"), hangup.signal))).resolves.toEqual(REFUSED),
    );
  });

  it("keeps its line short: who comes to a full one is refused without waiting", async () => {
    const gate = new Gate({ most: 1, waiters: 2 });
    const { begun, run, end } = work();
    const passing = ["a", "b", "c"].map((name) => gate.pass("org", run(name)));
    expect(await refusal(gate.pass("org", run("d")))).toEqual(REFUSED);
    for (const name of ["a", "b", "c"]) await end(name);
    expect([await Promise.all(passing), begun, gate.size]).toEqual([["a", "b", "c"], ["a", "b", "c"], 0]);
  });

  it("gives the place of a request that was cut off to the next, and nothing to one that was cut off waiting", async () => {
    const gate = new Gate({ most: 1, lease_ms: 20 });
    const { begun, run, end } = work();
    const cut = gate.pass("org", run("a"));
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(gate.isFull("org")).toBe(false);
    const next = gate.pass("org", run("b"));
    expect(gate.isFull("org")).toBe(true);
    // Should it end after all, it takes nobody's place away.
    await end("a");
    expect(gate.isFull("org")).toBe(true);
    await end("b");
    expect([await cut, await next, begun, gate.size]).toEqual(["a", "b", ["a", "b"], 0]);
  });
});

const app = worker(...Object.values(groups).flat());
const document: any = await describeApp(app);
const searching = Object.entries<any>(document.paths).flatMap(([path, item]) =>
  Object.entries<any>(item).flatMap(([method, { parameters = [] }]) =>
    parameters.some((parameter: any) => parameter.in === "query" && parameter.name === "search")
      ? [[method.toUpperCase(), path] as const]
      : [],
  ),
);

/** A database that answers when the test says so: a trip's statements, and what answers it. */
type Trip = { statements: number; answer: (status: number, body: object) => void };
let trips: Trip[] = [];
const server = createServer(async (request, response: ServerResponse) => {
  const { queries } = JSON.parse(await new Response(request as never).text());
  const answer = (status: number, body: object) => {
    if (!response.headersSent)
      response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));
  };
  trips.push({ statements: queries.length, answer });
});
beforeAll(() => new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready)));
afterAll(() => void server.close());

/** Waits until there are so many trips, and looks on for a moment whether there are more. */
async function settled(count: number): Promise<number> {
  for (let i = 0; i < 200 && trips.length < count; i++) await new Promise((resolve) => setTimeout(resolve, 5));
  await new Promise((resolve) => setTimeout(resolve, 50));
  return trips.length;
}

describe("a search", () => {
  it("is offered by the lists that are walked here", () => {
    expect(searching.map(([, path]) => path)).toEqual(
      expect.arrayContaining(["/api/v1/agents", "/api/v1/orgs", "/protected/api/v2/developer/apps/{app_id}/orgs"]),
    );
  });

  it.each(searching)("is one of eight at once for an org: %s %s", async (method, path) => {
    const id = newId("app");
    const { full_key } = await newKey("secret", id, "-");
    const DATABASE_URL = `postgresql://agentry_api:none@127.0.0.1:${(server.address() as AddressInfo).port}/agentry`;
    const ctx = { waitUntil: () => {}, passThroughOnException: () => {} };
    const ask = (query: string) => {
      const address = path.replace("{app_id}", id).replace(/\{\w+\}/g, newId("user"));
      const init = { method, headers: { Authorization: `Bearer ${full_key}` } };
      return app.request(address + query, init, { DATABASE_URL } as never, ctx as never);
    };
    trips = [];
    const asked = Array.from({ length: 9 }, () => ask("?search=a"));
    expect(await settled(9)).toBe(9);
    // The ninth is looked up before it may wait.
    const [door] = trips.filter(({ statements }) => statements === 1);
    expect(trips.filter(({ statements }) => statements > 1)).toHaveLength(8);
    door!.answer(200, { results: [{ command: "SELECT", rowCount: 0, fields: [], rows: [] }] });
    expect(await settled(9)).toBe(9);
    const dead = [400, { message: "key_unknown", code: "AE401" }] as const;
    // What is no search doesn't wait.
    asked.push(ask(""));
    expect(await settled(10)).toBe(10);
    trips.at(-1)!.answer(...dead);
    trips.find(({ statements }) => statements > 1)!.answer(...dead);
    expect(await settled(11)).toBe(11);
    for (const trip of trips.filter((trip) => trip !== door)) trip.answer(...dead);
    expect(new Set((await Promise.all(asked)).map(({ status }) => status))).toEqual(new Set([401]));
  });

  it("may be refused for being too many: the document says so", () => {
    for (const [method, path] of searching)
      expect(Object.keys(document.paths[path][method.toLowerCase()].responses), path).toContain("429");
  });
});
