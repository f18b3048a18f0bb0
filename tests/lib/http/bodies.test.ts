/** What a body costs, whatever is in it: over the schemas of all routes, without a running system. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ApiError } from "../../../lib/errors.ts";
import { toProblem } from "../../../lib/http/problem.ts";
import { MAX_PLAIN_BYTES } from "../../../lib/http/valid.ts";
import { type Check, hostile, routes } from "./hostile.ts";

const encode = (text: string) => new TextEncoder().encode(text);
const routeOf = (name: string) => routes.find((route) => route.name === name)!;

/** Sends a body through a route's check: the refusal, or what it was read as. */
async function send(check: Check, body: Uint8Array): Promise<{ refusal: ApiError | null; value: unknown }> {
  let value: unknown;
  const req = {
    raw: { body: null },
    header: () => undefined,
    bytes: async () => body,
    addValidatedData: (_: string, data: unknown) => {
      value = data;
    },
  };
  try {
    await check({ var: {}, req }, async () => {});
    return { refusal: null, value };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { refusal: error, value };
  }
}

const fieldsOf = async (name: string, body: unknown) =>
  (await send(routeOf(name).check, encode(typeof body === "string" ? body : JSON.stringify(body)))).refusal?.fields ??
  [];

/** Milliseconds of this thread's own CPU, on average: others on the machine don't count. Its clock may tick every four. */
async function cpuOf(work: () => unknown, times: number): Promise<number> {
  const begun = process.threadCpuUsage();
  for (let i = 0; i < times; i++) await work();
  const { user, system } = process.threadCpuUsage(begun);
  return (user + system) / 1000 / times;
}

const parse = (text: string) => {
  try {
    JSON.parse(text);
  } catch {}
};

const FLOOR_MS = 10;
const MAX_ANSWER_BYTES = 64 * 1024;

async function mustBeCheap(check: Check, body: string): Promise<void> {
  let refusal: ApiError | null = null;
  const bytes = encode(body);
  const work = async () => {
    refusal = (await send(check, bytes)).refusal;
  };
  // The least of some tries, and no further than to a good one: the first pays for compiling, others for collecting, and
  // all of a while for a machine that is slow just then. Node's decoder isn't counted: a Worker has another, many times as fast.
  let took = Number.POSITIVE_INFINITY;
  let decoding = Number.POSITIVE_INFINITY;
  let limit = FLOOR_MS;
  for (let i = 0; i < 40 && took > limit; i++) {
    if (i > 8) await new Promise((done) => setTimeout(done, 100));
    const times = i === 0 ? 1 : 4;
    decoding = Math.min(decoding, await cpuOf(() => new TextDecoder().decode(bytes), times));
    took = Math.min(took, (await cpuOf(work, times)) - decoding);
    if (took > limit) limit = Math.max(limit, 3 * (await cpuOf(() => parse(body), times)));
  }
  expect(took, `${body.slice(0, 100)} of ${body.length} characters`).toBeLessThanOrEqual(limit);
  if (refusal) {
    const answer = await toProblem(refusal, "a-request").arrayBuffer();
    expect(answer.byteLength).toBeLessThan(MAX_ANSWER_BYTES);
  }
}

describe("a body costs no more than its reading, and its refusal is short", () => {
  it("whatever stands wherever in it, up to 1 MB: a thousand of them, in the bench ten", {
    timeout: 300_000,
  }, async () => {
    expect(routes.length).toBeGreaterThan(10);
    const property = fc.asyncProperty(hostile, ({ route, body }) => mustBeCheap(route.check, body));
    const numRuns = Number(process.env.HOSTILE_BODIES ?? 1000);
    await fc.assert(property, { numRuns, endOnFailure: true, verbose: false });
  });

  const list = (n: number, item: string) => `[${Array(n).fill(item)}]`;
  const actions = `{"actions":${list(20, "0")}}`;
  const worst: [what: string, route: string, body: string][] = [
    ["grants of nothing", "POST /api/v1/agents", `{"acl":{"grants":${list(20_000, "{}")}}}`],
    ["grants of nothing in their hundreds", "POST /api/v1/agents", `{"acl":{"grants":${list(200, "{}")}}}`],
    [
      "as many wrong actions as there may be values",
      "PATCH /api/v1/agents/:agent",
      `{"acl":{"grants":${list(190, actions)},"add":${list(190, actions)},"remove":${list(200, "{}")}}}`,
    ],
    [
      "scopes of nothing",
      "POST /protected/api/v2/developer/apps/:app_id/users/:user_id/tokens",
      `{"scopes":${list(100_000, '""')}}`,
    ],
    ["unknown names", "POST /api/v1/auth/refresh", `{${Array.from({ length: 60_000 }, (_, i) => `"name${i}":0`)}}`],
    [
      "unknown names, as many as there may be values",
      "POST /api/v1/auth/refresh",
      `{${Array.from({ length: 9_999 }, (_, i) => `"name${i}":0`)}}`,
    ],
    [
      "a name as long as a body, over many faults",
      "POST /api/v1/agents",
      `{"metadata":{"${"x".repeat(500_000)}":${list(9_000, '"\\u0000"')}}}`,
    ],
    [
      "halves of surrogate pairs, in a name",
      "POST /api/v1/work_items/:work_item/submit",
      `{"result":{"${"\\ud800".repeat(166_000)}":0}}`,
    ],
    ["brackets, not one of them closed", "POST /api/v1/agents", `{"metadata":${"[".repeat(1_000_000)}`],
    ["backslashes and quotes", "POST /api/v1/agents", `{"${'\\\\\\"'.repeat(250_000)}`],
    ["a scope of nothing", "POST /api/v1/scripts/run", `{"scope":{"a":${list(99_998, '"\\u0000"')}}}`],
    [
      "sources that are none",
      "POST /api/v1/scripts/test",
      `{"script":"","scripts":{${Array.from({ length: 9_000 }, (_, i) => `"${i}":0`)}}}`,
    ],
  ];
  it.each(worst)("%s", async (_, name, body) => {
    expect((await send(routeOf(name).check, encode(body))).refusal).not.toBeNull();
    await mustBeCheap(routeOf(name).check, body);
  });
});

const create = "POST /api/v1/agents";
const mint = "POST /protected/api/v2/developer/apps/:app_id/users/:user_id/tokens";
const newOrg = "POST /protected/api/v2/developer/apps/:app_id/orgs";
const newSandbox = "POST /api/v1/sandboxes";

it("a body takes 512 KB, but where a field says that it holds more", async () => {
  const holdMuch: string[] = [];
  // OAuth overlooks what it doesn't know, and is read as a credential is.
  for (const { name, check } of routes.filter(({ path }) => !path.startsWith("/oauth/"))) {
    const { refusal } = await send(check, encode(`{"${"x".repeat(MAX_PLAIN_BYTES)}":0}`));
    if (refusal!.fields![0]!.message !== "must take at most 524288 bytes here") holdMuch.push(name);
  }
  expect(holdMuch.sort()).toEqual([
    "PATCH /api/v1/config/:config",
    "POST /api/v1/agents",
    "POST /api/v1/ai/chat/completions",
    "POST /api/v1/ai/chat/completions/stream",
    "POST /api/v1/ai/embedding/similarity_comparison",
    "POST /api/v1/ai/evaluation/evaluations",
    "POST /api/v1/ai/image/edits",
    "POST /api/v1/config",
    "POST /api/v1/config/validate",
    "POST /api/v1/scripts/run",
    "POST /api/v1/scripts/test",
    "POST /api/v1/workflows/expressions/run",
    "POST /api/v1/workflows/graph/validate",
    "POST /api/v1/workflows/run",
    "PUT /api/v1/config/:config",
  ]);
  const whole = `{"name":"${"x".repeat(MAX_PLAIN_BYTES - 11)}"}`;
  expect([whole.length, await fieldsOf("PATCH /api/v1/agents/:agent", whole)]).toEqual([
    MAX_PLAIN_BYTES,
    [{ field: "name", message: "must have at most 200 characters" }],
  ]);
});

describe("the values of a body", () => {
  const metadata = (n: number) => ({ name: "A", metadata: { a: Array(n).fill(0) } });

  it("are at most ten thousand, at every depth together, and names are none", async () => {
    // name, metadata and a are three of them.
    expect(await fieldsOf(create, metadata(9_997))).toEqual([{ field: "metadata", message: expect.any(String) }]);
    const message = "must hold at most 10000 values, counted at every depth";
    expect(await fieldsOf(create, { ...metadata(9_997), acl: null })).toEqual([{ field: "", message }]);
  });

  it("are counted before a large body is parsed, and what stands in its texts is none", async () => {
    const text = ',[{"\\'.repeat(20_000);
    const said = (value: unknown) => fieldsOf(create, { name: "A", identity: text, metadata: { a: value } });
    const tooLong = { field: "identity", message: expect.any(String) };
    const many = Array(50).fill([{}]);
    expect(await said([text, `${text}"`, many])).toEqual([tooLong, { field: "metadata", message: expect.any(String) }]);
    const message = "must hold at most 10000 values, counted at every depth";
    expect(await said(Array(10_001).fill(0))).toEqual([{ field: "", message }]);
    const nested = (depth: number) => JSON.parse("[".repeat(depth) + "]".repeat(depth));
    expect(await said(nested(31))).toEqual([tooLong]);
    expect(await said(nested(32))).toEqual([{ field: "", message: "must not be nested deeper than 32" }]);
  });

  it("are a hundred thousand more in the scope of a script, which counts by itself", async () => {
    const scope = (n: number) => ({ script: "1", scope: { a: Array(n).fill(0) } });
    expect(await fieldsOf("POST /api/v1/scripts/run", scope(99_998))).toEqual([]);
    const message = "must hold at most 100000 values, counted at every depth";
    expect(await fieldsOf("POST /api/v1/scripts/run", scope(99_999))).toEqual([{ field: "scope", message }]);
    const scripts = { scripts: Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [i, ""])) };
    const fields = await fieldsOf("POST /api/v1/scripts/test", { ...scope(10), ...scripts });
    expect(fields.map(({ field }) => field)).toEqual([""]);
  });
});

describe("the faults of a body", () => {
  it("are fifty, and then their number", async () => {
    const unknown = (n: number) => Object.fromEntries(Array.from({ length: n }, (_, i) => [`name${i}`, 0]));
    expect(await fieldsOf(create, { name: "A", ...unknown(50) })).toHaveLength(50);
    const fields = await fieldsOf(create, { name: "A", ...unknown(9_000) });
    expect(fields).toHaveLength(51);
    expect(fields.at(-1)).toEqual({ field: "", message: "has 8950 more faults" });
  });

  it("are one for a list that is too long, whatever is in it", async () => {
    const grants = Array(201).fill({});
    const scopes = Array(201).fill("");
    const faults = [...(await fieldsOf(create, { name: "A", acl: { grants } })), ...(await fieldsOf(mint, { scopes }))];
    expect(faults).toEqual([
      { field: "acl.grants", message: "must have at most 200 items" },
      { field: "scopes", message: "must have at most 200 items" },
    ]);
  });

  it("are told of the field, though it lies in a list", async () => {
    const grant = { principal_type: "everyone", actions: ["read", 7] };
    expect(await fieldsOf(create, { name: "A", acl: { grants: [grant] } })).toEqual([
      { field: "acl.grants.0.actions.1", message: "must be a string" },
    ]);
  });

  const said: [route: string, body: unknown, field: string, message: string][] = [
    [create, {}, "name", "is required"],
    [create, { name: 7 }, "name", "must be a string"],
    [create, { name: "" }, "name", "must not be empty"],
    [create, { name: "x".repeat(201) }, "name", "must have at most 200 characters"],
    [create, { name: "A", metadata: [] }, "metadata", "must be an object"],
    [create, { name: "A", acl: 7 }, "acl", "must be an object"],
    [create, { name: "A", acl: { grants: {} } }, "acl.grants", "must be a list"],
    [
      create,
      { name: "A", acl: { grants: [{ principal_type: "everyone", actions: [] }] } },
      "acl.grants.0.actions",
      "must not be empty",
    ],
    [
      create,
      { name: "A", model: "a", default_model: "b" },
      "model",
      "is default_model by another name: the two must be equal",
    ],
    [mint, { scopes: "agents:read" }, "scopes", "must be a list"],
    [mint, { scopes: [] }, "scopes", "must not be empty"],
    [mint, { expires_in: "60" }, "expires_in", "must be a number"],
    [mint, { expires_in: 60.5 }, "expires_in", "must be a whole number"],
    [mint, { expires_in: 1 }, "expires_in", "must be at least 60"],
    [
      newOrg,
      { name: "A", slug: "ab", domain: "a.example", status: "x" },
      "status",
      "must be one of: active, suspended, trialing",
    ],
    [
      "POST /api/v1/users/:user/tokens",
      { expires_in_days: 1 },
      "expires_in_days",
      "must be one of: 7, 30, 60, 90, 365",
    ],
    [
      "POST /api/v1/scripts/test",
      { script: "1", scripts: Object.fromEntries(Array.from({ length: 101 }, (_, i) => [i, "1"])) },
      "scripts",
      "must have at most 100 names",
    ],
    ["PUT /api/v1/users/:user/profile", { clear_full_name: 1 }, "clear_full_name", "must be true or false"],
  ];
  it.each(said)("are said as a person would: %s %#", async (route, body, field, message) => {
    expect(await fieldsOf(route, body)).toEqual([{ field, message }]);
  });

  it.each([
    ["2020-01-01", "must be an ISO 8601 time such as 2026-12-31T12:00:00Z"],
    ["soon", "must be an ISO 8601 time such as 2026-12-31T12:00:00Z"],
    ["2020-01-01T00:00:00Z", "must be in the future"],
    ["1960-01-01T00:00:00Z", "must be in the future"],
    ["2099-02-31T12:00:00Z", "must be a time that the calendar has"],
  ])("are one for a date: %s", async (expires_at, message) => {
    for (const purpose of ["eval", null]) {
      const body = { name: "A", slug: "ab", purpose, expires_at };
      expect(await fieldsOf(newSandbox, body)).toEqual([{ field: "expires_at", message }]);
    }
  });
});

describe("text that deceives or can't be reached", () => {
  it.each([".", "..", "a\u200bb", "\u202egnp", "\u2066a", "\ufeffa", "a\u0007", "a\u00ad"])(
    "is no lookup_key: %j",
    async (lookup_key) => {
      const message = "must be 1 to 255 characters that can stand in an address";
      expect(await fieldsOf(create, { name: "A", lookup_key })).toEqual([{ field: "lookup_key", message }]);
    },
  );

  it.each(["...", ".a", "a.b", "ä-漢_😀", "~"])("and this is one: %j", async (lookup_key) => {
    expect(await fieldsOf(create, { name: "A", lookup_key })).toEqual([]);
  });

  const org = { name: "A", slug: "ab", domain: "a.example" };
  it.each([
    "javascript:alert(1)",
    "JavaScript://a.example/%0aalert(1)",
    "java\nscript:alert(1)",
    " https://a.example",
    "data:text/html,x",
    "ftp://a.example",
    "a.example",
    "https://",
    "",
  ])("is no website: %j", async (website) => {
    const message = "must be an http or https address";
    expect(await fieldsOf(newOrg, { ...org, website })).toEqual([{ field: "website", message }]);
  });

  it.each(["https://a.example", "HTTP://a.example:8080/ä?b#c", null])("and this is one: %j", async (website) => {
    expect(await fieldsOf(newOrg, { ...org, website })).toEqual([]);
  });
});
