/** The wire, the same for all routes: what comes in, what goes out, and what is said of a fault. */
import { type IncomingMessage, request } from "node:http";
import { decodeJwt } from "jose";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { anAgent, anApp, bearer, type Call, caller, developer, must, sql, system, unique } from "./harness/index.ts";
import { newSigningKey, ownSystem } from "./harness/own.ts";

const agents = "/api/v1/agents";
const fieldsOf = ({ body }: { body: any }) => body.error.fields.map(({ field }: any) => field);
const nested = (depth: number) => `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`;

/** Acme's owner as a caller, and as headers for a bare fetch. */
async function anOwner() {
  const made = await anApp();
  const { access_token } = await made.aToken(made.owners[made.acme]!);
  const headers = { ...bearer(access_token), "Content-Type": "application/json" };
  return { ...made, owner: caller(bearer(access_token)) as Call, headers };
}

describe("a problem", () => {
  it("is RFC 9457, readable by the SDK, and names its request", async () => {
    const { owner } = await anOwner();
    const { status, headers, body } = await owner("GET", `${agents}/nobody`, undefined, {
      "X-Request-Id": "my-request",
    });
    expect([status, headers.get("Content-Type")]).toEqual([404, "application/problem+json"]);
    expect(body).toEqual({
      type: "urn:agentry:error:not_found",
      title: "Not Found",
      status: 404,
      detail: "No such agent.",
      instance: "urn:agentry:request:my-request",
      request_id: "my-request",
      error: { code: "not_found", type: "not_found", message: "No such agent.", fields: [] },
    });
  });

  it("tells all faults at once, each with its field", async () => {
    const { at, asDeveloper } = await anApp();
    const answer = await asDeveloper("POST", `${at}/orgs`, {
      slug: "-",
      domain: 7,
      status: "closed",
      website: {},
      what: 1,
    });
    expect([answer.status, answer.body.error.code]).toEqual([422, "validation_failed"]);
    expect(fieldsOf(answer).toSorted()).toEqual(["domain", "name", "slug", "status", "website", "what"]);
  });

  it("never repeats a value that was sent", async () => {
    const { at, acme, owners, asDeveloper } = await anApp();
    const value = unique("Secret Value");
    const answer = await asDeveloper("POST", `${at}/orgs`, {
      name: [value],
      slug: value,
      domain: value,
      status: value,
    });
    expect([answer.status, fieldsOf(answer)]).toEqual([422, ["name", "slug", "domain", "status"]]);
    expect(answer.text).not.toContain(value);
    const query = await asDeveloper(
      "GET",
      `${at}/orgs?status=${encodeURIComponent(value)}&page=${encodeURIComponent(value)}`,
    );
    expect([query.status, query.text.includes(value)]).toEqual([422, false]);
    const number = await asDeveloper("POST", `${at}/users/${owners[acme]}/tokens`, { expires_in: 3456.789 });
    expect([number.status, number.text.includes("3456.789")]).toEqual([422, false]);
  });

  it("never repeats the database's text", async () => {
    const { at, anOrg, asDeveloper } = await anApp();
    const { slug } = await anOrg();
    const { status, text } = await asDeveloper("POST", `${at}/orgs`, { name: "Twin", slug, domain: "twin.example" });
    expect(status).toBe(409);
    expect(text).not.toMatch(/duplicate|constraint|orgs_|data\./);
    expect(text).not.toContain(slug);
  });

  it("challenges whoever has no credential, and says no more", async () => {
    const { status, headers } = await caller()("GET", agents);
    expect([status, headers.get("WWW-Authenticate")]).toEqual([401, 'Bearer realm="agentry"']);
  });
});

describe("in a system of its own", () => {
  let own: Awaited<ReturnType<typeof ownSystem>>;
  let base: string;
  let secret_key: string;
  let tokens: string;

  // A deployment gone wrong: nobody can sign, the root secret is too short to be one, and a table will be missing.
  beforeAll(async () => {
    own = await ownSystem();
    const { d: _, ...open } = await newSigningKey("one");
    base = await own.start([open as never], ["a root secret"], { groups: ["all"] });
    const app = await own.newApp();
    secret_key = app.secret_key;
    const asDeveloper = caller(bearer(secret_key), base);
    const at = developer(app.app_id);
    const org = (await must(asDeveloper("POST", `${at}/orgs`, { name: "A", slug: "aa", domain: "a.example" }), 201)).id;
    tokens = `${at}/users/${(await must(asDeveloper("POST", `${at}/users`, { org }), 201)).id}/tokens`;
  });
  afterAll(() => own.close());

  it("a GET and a HEAD are read-only, of one moment; a write sees what it waited for", async () => {
    const asDeveloper = caller(bearer(secret_key), base);
    const { id } = await anAgent(asDeveloper);
    const only = (policy: string) =>
      own.database.exec(
        `drop policy if exists probe on data.agents; create policy probe on data.agents as restrictive ${policy}`,
      );
    const setting = (name: string) => `current_setting('transaction_${name}')`;
    await only(`for select using (${setting("read_only")} = 'on' and ${setting("isolation")} = 'repeatable read')`);
    expect((await must(asDeveloper("GET", agents), 200)).total_entries).toBe(1);
    expect((await fetch(`${base}${agents}/${id}`, { method: "HEAD", headers: bearer(secret_key) })).status).toBe(200);
    await only(
      `for insert with check (${setting("read_only")} = 'off' and ${setting("isolation")} = 'read committed')`,
    );
    await anAgent(asDeveloper);
  });

  const wellFormed = `rt_${Buffer.from("a text").toString("base64url")}.${"A".repeat(43)}`;
  it.each<[string, () => [method: string, path: string, body?: object], string]>([
    ["a secret that is none", () => ["POST", "/api/v1/auth/refresh", { refresh_token: wellFormed }], "ROOT_SECRETS"],
    ["a key that can't sign", () => ["POST", tokens, {}], "no private signing key"],
    ["a table that isn't there", () => ["GET", agents], "does not exist"],
  ])("%s: a bug is an empty 500 that names its request, its cause in the log alone", async (_, ask, cause) => {
    await own.database.exec("alter table if exists data.agents rename to no_agents");
    const log: string[] = [];
    const logged = vi.spyOn(console, "error").mockImplementation((...words) => void log.push(words.join(" ")));
    const [method, path, body] = ask();
    const response = await fetch(base + path, {
      method,
      headers: { ...bearer(secret_key), "Content-Type": "application/json", "X-Request-Id": "a-bug-of-ours" },
      ...(body && { body: JSON.stringify(body) }),
    });
    expect([response.status, await response.text()]).toEqual([500, ""]);
    const {
      "content-encoding": _encoding,
      "transfer-encoding": _transfer,
      ...headers
    } = Object.fromEntries(response.headers);
    expect(headers).toEqual({
      "access-control-allow-origin": "*",
      "access-control-expose-headers": expect.stringContaining("X-Request-Id"),
      "cache-control": "no-store",
      "x-content-type-options": "nosniff",
      "x-request-id": "a-bug-of-ours",
    });
    await vi.waitFor(() => expect(log.join()).toContain(cause), 5000);
    logged.mockRestore();
    expect(log.join()).toMatch(/"request_id":"a-bug-of-ours".*"stack":".*\bat /s);
  });
});

// On a real PostgreSQL alone: the embedded one has no second connection that could break the first.
describe.runIf(system.concurrent)("a write that the database gave up", () => {
  it.each(["pg_cancel_backend", "pg_terminate_backend"])(
    "by %s is a 503 that asks to come again, and wrote nothing",
    async (end) => {
      const { owner } = await anOwner();
      const { id } = await anAgent(owner);
      const ours = "from pg_stat_activity where datname = current_database() and wait_event";
      const holding = sql(
        "with held as (select from data.agents where id = $1 for update) select pg_sleep(20) from held",
        [id],
      ).catch(String);
      await expect.poll(() => sql(`select ${ours} = 'PgSleep'`)).toHaveLength(1);
      const answer = owner("PATCH", `${agents}/${id}`, { name: "Eve" });
      await expect.poll(() => sql(`select ${end}(pid) ${ours}_type = 'Lock'`)).toHaveLength(1);
      const { status, headers, body, text } = await answer;
      expect([status, headers.get("Retry-After"), body.error.code]).toEqual([503, "1", "unavailable"]);
      expect(text).not.toMatch(/cancel|terminat|postgres|connection/i);
      await sql(`select pg_cancel_backend(pid) ${ours} = 'PgSleep'`);
      await holding;
      expect((await must(owner("GET", `${agents}/${id}`), 200)).name).toBe("Ada");
      await must(owner("PATCH", `${agents}/${id}`, { name: "Eve" }), 200);
    },
  );
});

describe("X-Request-Id", () => {
  it.each(["12345678", "a_b-C".repeat(12)])("is echoed when well-formed: %s", async (id) => {
    const { headers } = await caller()("GET", "/healthz", undefined, { "X-Request-Id": id });
    expect(headers.get("X-Request-Id")).toBe(id);
  });

  it.each(["short", "x".repeat(65), "has space", "<script>alert(1)</script>", "12345678\u00e9"])(
    "is replaced otherwise: %s",
    async (id) => {
      const { headers } = await caller()("GET", "/healthz", undefined, { "X-Request-Id": id });
      expect(headers.get("X-Request-Id")).toMatch(/^[0-9a-f-]{36}$/);
    },
  );

  it("is new for each request, and the same in header and body", async () => {
    const [one, two] = [await caller()("GET", agents), await caller()("GET", agents)];
    expect(one.body.request_id).toBe(one.headers.get("X-Request-Id"));
    expect(one.body.request_id).not.toBe(two.body.request_id);
  });
});

describe("every answer", () => {
  it("may be kept by nobody and is not to be sniffed", async () => {
    const { owner, acme } = await anOwner();
    for (const answer of [
      await owner("GET", agents),
      await owner("GET", `${agents}/nobody`),
      await caller()("GET", agents),
      await owner("GET", `/api/v1/orgs?search=${acme}`),
    ]) {
      expect(answer.headers.get("Cache-Control")).toBe("no-store");
      expect(answer.headers.get("X-Content-Type-Options")).toBe("nosniff");
    }
  });
});

describe("CORS", () => {
  it("lets a browser of any origin read answers, refusals too", async () => {
    const { owner } = await anOwner();
    const origin = { Origin: "https://app.example" };
    for (const answer of [
      await owner("GET", agents, undefined, origin),
      await caller()("GET", agents, undefined, origin),
      await caller()("GET", "/nothing", undefined, origin),
    ]) {
      expect(answer.headers.get("Access-Control-Allow-Origin")).toBe("*");
      expect(answer.headers.get("Access-Control-Expose-Headers")!.split(",").toSorted()).toEqual([
        "ETag",
        "Idempotent-Replayed",
        "Retry-After",
        "WWW-Authenticate",
        "X-Request-Id",
      ]);
      expect(answer.headers.get("Access-Control-Allow-Credentials")).toBeNull();
    }
  });

  it.each(["GET", "POST", "PUT", "PATCH", "DELETE"])(
    "answers a preflight for %s with what the SDK sends",
    async (method) => {
      const response = await fetch(`${system.base}${agents}`, {
        method: "OPTIONS",
        headers: {
          Origin: "https://app.example",
          "Access-Control-Request-Method": method,
          "Access-Control-Request-Headers": "authorization,content-type,x-archastro-api-key,idempotency-key",
        },
      });
      expect([response.status, await response.text()]).toEqual([204, ""]);
      expect(response.headers.get("Access-Control-Allow-Origin")).toBe("*");
      expect(response.headers.get("Access-Control-Allow-Methods")!.split(",")).toContain(method);
      const allowed = response.headers.get("Access-Control-Allow-Headers")!.toLowerCase();
      expect(allowed.split(/, ?/).toSorted()).toEqual([
        "authorization",
        "content-type",
        "idempotency-key",
        "if-match",
        "x-api-key",
        "x-archastro-api-key",
        "x-request-id",
      ]);
      expect(response.headers.get("Access-Control-Max-Age")).toBe("86400");
    },
  );
});

describe("methods", () => {
  it.each([agents, "/healthz", "/api/v1/users/me"])("HEAD %s answers as GET does, without the body", async (path) => {
    const { headers } = await anOwner();
    const [head, get] = await Promise.all(
      ["HEAD", "GET"].map((method) => fetch(system.base + path, { method, headers })),
    );
    expect([head!.status, await head!.text()]).toEqual([200, ""]);
    expect(head!.headers.get("Content-Type")).toBe(get!.headers.get("Content-Type"));
  });

  it("HEAD is refused as GET is", async () => {
    const { headers } = await anOwner();
    const status = async (path: string, sent = {}) =>
      (await fetch(system.base + path, { method: "HEAD", headers: sent })).status;
    expect(await status(agents)).toBe(401);
    expect(await status(`${agents}/nobody`, headers)).toBe(404);
  });

  it.each([
    ["PUT", agents, "GET, POST"],
    ["DELETE", agents, "GET, POST"],
    ["POST", `${agents}/nobody`, "GET, PATCH, DELETE"],
    ["GET", "/api/v1/auth/refresh", "POST"],
    ["POST", "/api/v1/users/me", "GET"],
    ["PATCH", "/healthz", "GET"],
  ])("%s %s is a 405 that says what is allowed", async (method, path, allowed) => {
    const { status, headers, body } = await caller()(method, path, method === "GET" ? undefined : {});
    expect([status, headers.get("Allow"), body.error.code]).toEqual([405, allowed, "method_not_allowed"]);
  });
});

describe("a body", () => {
  it.each(["{", '{"name":"Ada"', "{'name':'Ada'}", "nope", '{"name":NaN}', '{"a":1,}', "\u0000", "\ufeff{}x"])(
    "that is no JSON is a 400: %j",
    async (text) => {
      const { owner } = await anOwner();
      const { status, body } = await owner("POST", agents, text);
      expect([status, body.error.code]).toEqual([400, "malformed_json"]);
    },
  );

  it.each(["[]", "null", "7", '"Ada"', "true", '[{"name":"Ada"}]'])("that is no object is a 422: %s", async (text) => {
    const { at, owner, asDeveloper } = await anOwner();
    for (const answer of [
      await owner("POST", agents, text),
      await asDeveloper("POST", `${at}/keys`, text),
      await asDeveloper("PATCH", at, text),
    ]) {
      expect([answer.status, answer.body.error.fields]).toEqual([422, [{ field: "", message: "must be an object" }]]);
    }
  });

  it("may be empty, with a JSON content type and without, where nothing is required", async () => {
    const { at, secret_key } = await anApp();
    for (const type of [{ "Content-Type": "application/json" }, {}] as Record<string, string>[]) {
      const response = await fetch(`${system.base}${at}/keys`, {
        method: "POST",
        headers: { ...bearer(secret_key), ...type },
      });
      expect(response.status).toBe(201);
    }
  });

  it("that is empty where a field is required is a 422 that names it", async () => {
    const { owner } = await anOwner();
    const answer = await owner("POST", agents);
    expect([answer.status, answer.body.error.fields]).toEqual([422, [{ field: "name", message: "is required" }]]);
  });

  it.each([
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/jsonp",
    "application/xml",
  ])("of the type %s is a 415", async (type) => {
    const { owner } = await anOwner();
    const { status, body } = await owner("POST", agents, '{"name":"Ada"}', { "Content-Type": type });
    expect([status, body.error.code]).toEqual([415, "unsupported_media_type"]);
  });

  it.each(["application/json; charset=utf-8", "APPLICATION/JSON", "application/merge-patch+json"])(
    "of the type %s is read",
    async (type) => {
      const { owner } = await anOwner();
      await must(owner("POST", agents, '{"name":"Ada"}', { "Content-Type": type }), 200);
    },
  );

  it("with unknown fields is a 422 that names all of them, __proto__ and constructor too", async () => {
    const { owner } = await anOwner();
    const answer = await owner(
      "POST",
      agents,
      '{"name":"Ada","__proto__":{"a":1},"constructor":1,"toString":1,"one":1,"two":2}',
    );
    expect([answer.status, fieldsOf(answer)]).toEqual([422, ["__proto__", "constructor", "toString", "one", "two"]]);
  });

  it("with a field that is nearly right says which one was meant, at any depth, and guesses nothing far", async () => {
    const { owner } = await anOwner();
    const grant = { principal_typ: "everyone", principal_type: "everyone", actions: ["read"] };
    const answer = await owner("POST", agents, {
      ...{ name: "Ada", identiy: "", Lookup_Key: "", xy: 1, something_else: 1 },
      acl: { grants: [grant], gants: [] },
    });
    expect(answer.body.error.fields).toEqual([
      { field: "identiy", message: "is not a known field; did you mean identity?" },
      { field: "Lookup_Key", message: "is not a known field; did you mean lookup_key?" },
      { field: "xy", message: "is not a known field" },
      { field: "something_else", message: "is not a known field" },
      { field: "acl.grants.0.principal_typ", message: "is not a known field; did you mean principal_type?" },
      { field: "acl.gants", message: "is not a known field; did you mean grants?" },
    ]);
  });

  it("of exactly 8,000,000 bytes is read", async () => {
    const { owner } = await anOwner();
    const answer = await owner("POST", agents, `{"name":"${"x".repeat(7_999_989)}"}`);
    expect([answer.status, fieldsOf(answer)]).toEqual([422, ["name"]]);
  });

  it("that is one byte more is a 413 that reaches a client which sends all of it first", async () => {
    const { as, acme } = await anApp();
    const { status, body } = await as(acme)("POST", agents, "x".repeat(8_000_001));
    expect([status, body.error.code]).toEqual([413, "payload_too_large"]);
  });
  it("that announces one byte more is a 413, before it is sent", async () => {
    const { headers } = await anOwner();
    const answered = await new Promise<IncomingMessage>((resolve, reject) => {
      const asked = request(system.base + agents, {
        method: "POST",
        headers: { ...headers, "Content-Length": "8000001" },
      });
      asked.on("response", resolve).on("error", reject).flushHeaders();
    });
    const { error } = (await new Response(answered as never).json()) as any;
    expect([answered.statusCode, error.code]).toEqual([413, "payload_too_large"]);
    answered.destroy();
  });

  it("that announces nothing is counted as it comes", async () => {
    const { headers } = await anOwner();
    const send = async (bytes: number) => {
      const body = new ReadableStream({
        start(controller) {
          for (let i = 0; i < 8; i++) controller.enqueue(new TextEncoder().encode(" ".repeat(999_999)));
          controller.enqueue(new TextEncoder().encode(" ".repeat(bytes - 8 * 999_999)));
          controller.close();
        },
      });
      const sent = { method: "POST", headers, body, duplex: "half" } as RequestInit;
      return (await fetch(system.base + agents, sent)).status;
    };
    expect([await send(8_000_000), await send(8_000_001)]).toEqual([400, 413]);
  });

  it("carries 16 KB of metadata and no more, counted in bytes", async () => {
    const { owner } = await anOwner();
    const sized = (bytes: number, letter: string) => ({
      text: letter.repeat((bytes - 11) / Buffer.byteLength(letter)),
    });
    for (const letter of ["x", "é"]) {
      const text = sized(16_383, letter);
      expect((await anAgent(owner, { metadata: text })).metadata).toEqual(text);
      const answer = await owner("POST", agents, { name: "Ada", metadata: { ...sized(16_383, letter), a: 1 } });
      expect([answer.status, fieldsOf(answer)]).toEqual([422, ["metadata"]]);
    }
  });

  it("nests 32 deep and no deeper; a hundred thousand is no crash", async () => {
    const { owner } = await anOwner();
    await must(owner("POST", agents, `{"name":"Ada","metadata":${nested(31)}}`), 200);
    for (const metadata of [nested(32), nested(100_000), `${"[".repeat(100_000)}${"]".repeat(100_000)}`]) {
      const { status, text } = await owner("POST", agents, `{"name":"Ada","metadata":${metadata}}`);
      expect([status, text.length < 5000]).toEqual([422, true]);
    }
  });

  it.each([
    ["1e400", '{"name":"Ada","metadata":{"n":1e400}}', "metadata.n"],
    ["-1e400", '{"name":"Ada","metadata":{"a":[0,-1e400]}}', "metadata.a.1"],
    ["a NUL", '{"name":"A\\u0000da"}', "name"],
    ["a NUL in metadata", '{"name":"Ada","metadata":{"a":{"b":"\\u0000"}}}', "metadata.a.b"],
    ["a NUL in a name of metadata", '{"name":"Ada","metadata":{"\\u0000":1}}', "metadata"],
    ["half a surrogate pair", '{"name":"\\ud800"}', "name"],
    ["the other half", '{"name":"Ada","identity":"x\\udc00"}', "identity"],
    ["half a pair in a name", '{"name":"Ada","metadata":{"\\udfff":1}}', "metadata"],
    ["a number for a name", '{"name":1e400}', "name"],
    [
      "a NUL in an access list",
      `{"name":"Ada","acl":{"grants":[{"principal_type":"everyone","actions":["\\u0000"]}]}}`,
      "acl.grants.0.actions.0",
    ],
  ])("with %s is a 422 that names the field", async (_, text, field) => {
    const { owner } = await anOwner();
    const answer = await owner("POST", agents, text);
    expect([answer.status, fieldsOf(answer)[0]]).toEqual([422, field]);
  });

  it("keeps every other character", async () => {
    const { owner } = await anOwner();
    const name = `"'\\\u0001\u001f\u007f\u2028\ufffd😀{}%_$1;--`;
    const made = await anAgent(owner, { name, metadata: { [name]: [1e308, -0.1, null, true, ""] } });
    expect([made.name, made.metadata]).toEqual([name, { [name]: [1e308, -0.1, null, true, ""] }]);
  });
});

describe("odd text in addresses", () => {
  const odd = [
    "%00",
    "a%00b",
    "%ED%A0%80",
    "%FF",
    "%",
    "%2F",
    "..%2F..",
    "%F0%9F%98%80",
    "'%20or%201=1--",
    "x".repeat(3000),
  ];

  it("is never a 500 in a path", async () => {
    const { at, owner, asDeveloper } = await anOwner();
    for (const text of odd) {
      for (const path of [`${agents}/${text}`, `/api/v1/users/${text}`, `/api/v1/users/${text}/tokens`]) {
        expect([path, (await owner("GET", path)).status]).toEqual([path, 404]);
      }
      for (const path of [
        `${at}/orgs/${text}`,
        `${at}/users/${text}`,
        `/api/v1/sandboxes/${text}`,
        `/protected/api/v2/developer/apps/${text}`,
      ]) {
        expect([path, (await asDeveloper("GET", path)).status]).toEqual([path, 404]);
      }
    }
  });

  it("is never a 500 in a query", async () => {
    const { at, owner, asDeveloper } = await anOwner();
    for (const text of odd) {
      for (const [call, path] of [
        [owner, `${agents}?search=${text}`],
        [owner, `${agents}?user=${text}`],
        [owner, `${agents}?org_id=${text}`],
        [owner, `${agents}?solution_config[]=${text}`],
        [asDeveloper, `${at}/users?search=${text}&org=${text}`],
        [asDeveloper, `${at}/orgs?search=${text}`],
        [owner, `/api/v1/activity_feed?correlation_id=${text}`],
        [owner, `/api/v1/activity_feed?agent[]=${text}&org[]=${text}`],
        [owner, `/api/v1/activity_feed?before_cursor=${text}`],
      ] as const) {
        expect([200, 400, 422], path).toContain((await call("GET", path)).status);
      }
    }
  });

  it("with a NUL in a query is a 422 that names the parameter", async () => {
    const { owner } = await anOwner();
    const answer = await owner("GET", `${agents}?search=%00`);
    expect([answer.status, fieldsOf(answer)]).toEqual([422, ["search"]]);
  });
});

describe("pages", () => {
  const page = async (call: Call, query: string) => must(call("GET", `${agents}?${query}`), 200);

  it("hold 25 unless told otherwise", async () => {
    const { owner } = await anOwner();
    expect(await page(owner, "")).toMatchObject({
      data: [],
      page: 1,
      page_size: 25,
      total_entries: 0,
      total_pages: 0,
      has_next: false,
      has_prev: false,
    });
  });

  it("hold at most 100: more is clamped, and the answer says so", async () => {
    const { app, acme, owner } = await anOwner();
    await sql(
      `insert into data.agents (id, app_id, sandbox_id, org_id, name)
      select 'agi_' || lpad(n::text, 22, '0'), $1, '-', $2, 'Ada' from generate_series(1, 101) n`,
      [app, acme],
    );
    for (const size of [101, 5000, 999_999_999]) {
      const found = await page(owner, `page_size=${size}`);
      expect([found.data.length, found.page_size, found.total_entries, found.total_pages]).toEqual([100, 100, 101, 2]);
    }
    expect((await page(owner, "page_size=100&page=2")).data).toHaveLength(1);
  });

  it("beyond the end are empty, and lead back", async () => {
    const { owner } = await anOwner();
    await anAgent(owner);
    const found = await page(owner, "page=9&page_size=10");
    expect(found).toMatchObject({
      data: [],
      page: 9,
      total_entries: 1,
      total_pages: 1,
      has_next: false,
      has_prev: true,
    });
    expect((await page(owner, "page=1000000&page_size=100")).data).toEqual([]);
  });

  it("of an empty list lead nowhere", async () => {
    const { owner } = await anOwner();
    for (const query of ["page=1", "page=2", "page=9"]) {
      const { data, has_next, has_prev } = await page(owner, query);
      expect([data, has_next, has_prev]).toEqual([[], false, false]);
    }
  });

  it("together hold everything once, newest first", async () => {
    const { owner } = await anOwner();
    const made: string[] = [];
    for (let i = 0; i < 7; i++) made.unshift((await anAgent(owner)).id);
    const found: string[] = [];
    for (const n of [1, 2, 3])
      found.push(...(await page(owner, `page_size=3&page=${n}`)).data.map(({ id }: any) => id));
    expect(found).toEqual(made);
  });

  it.each([
    "page=0",
    "page=-1",
    "page=1.5",
    "page=x",
    "page=",
    "page=1e400",
    "page=1e2",
    "page=0x10",
    "page=1000001",
    "page=99999999999999999999",
    "page_size=0",
    "page_size=-5",
    "page_size=",
    "page_size=x",
    "page_size=1e2",
  ])("refuse %s", async (query) => {
    const { owner } = await anOwner();
    const answer = await owner("GET", `${agents}?${query}`);
    expect([answer.status, fieldsOf(answer)]).toEqual([422, [query.split("=")[0]]]);
  });

  it("overlook a parameter that they don't know", async () => {
    const { owner } = await anOwner();
    await page(owner, "_=123&utm_source=x");
  });
});

describe("Idempotency-Key", () => {
  const key = (text = unique("key")) => ({ "Idempotency-Key": text });

  /** Each POST that makes a row: who sends it where, with what, and how many such rows there are. */
  const posts: Record<string, (made: Awaited<ReturnType<typeof anOwner>>) => Promise<[Call, string, object]>> = {
    org: async ({ at, asDeveloper }) => [asDeveloper, `${at}/orgs`, { name: "A", slug: "a-1", domain: "a.example" }],
    user: async ({ at, acme, asDeveloper }) => [asDeveloper, `${at}/users`, { email: "a@b.example", org: acme }],
    token: async ({ at, acme, owners, asDeveloper }) => [asDeveloper, `${at}/users/${owners[acme]}/tokens`, {}],
    key: async ({ at, asDeveloper }) => [asDeveloper, `${at}/keys`, { type: "secret" }],
    sandbox: async ({ asDeveloper }) => [asDeveloper, "/api/v1/sandboxes", { name: "A", slug: "a-1" }],
    "sandbox key": async ({ asDeveloper }) => {
      const { data } = await must(asDeveloper("GET", "/api/v1/sandboxes"), 200);
      return [asDeveloper, `/api/v1/sandboxes/${data[0].id}/keys`, { type: "secret" }];
    },
    agent: async ({ owner }) => [owner, agents, { name: "Ada", lookup_key: "ada" }],
    "agent of an org": async ({ asDeveloper, acme }) => [asDeveloper, agents, { name: "Ada", org: acme }],
    "agent of a user": async ({ owner, acme, owners }) => [owner, agents, { name: "Ada", user: owners[acme] }],
    "personal token": async ({ owner }) => [owner, "/api/v1/users/me/tokens", { name: "CI" }],
  };

  it.each(Object.keys(posts))(
    "makes one %s, however often it is sent, and says which answer is a replay",
    async (kind) => {
      const [call, path, body] = await posts[kind]!(await anOwner());
      const headers = key();
      const first = await call("POST", path, body, headers);
      expect(first.headers.get("Idempotent-Replayed")).toBeNull();
      const again = await call("POST", path, body, headers);
      expect([again.status, again.body.id]).toEqual([first.status, first.body.id]);
      expect(again.headers.get("Idempotent-Replayed")).toBe("true");
      const other = await call(
        "POST",
        path,
        {
          ...body,
          ...(path.endsWith("/keys") ? { type: "publishable" } : { name: "B" }),
          ...(kind === "token" && { name: undefined, expires_in: 60 }),
        },
        headers,
      );
      expect([other.status, fieldsOf(other)]).toEqual([422, ["Idempotency-Key"]]);
    },
  );

  it("answers the row as it is now", async () => {
    const { owner } = await anOwner();
    const headers = key();
    const { id } = await must(owner("POST", agents, { name: "Ada" }, headers), 200);
    await must(owner("PATCH", `${agents}/${id}`, { name: "Eve" }), 200);
    expect(await must(owner("POST", agents, { name: "Ada" }, headers), 200)).toMatchObject({ id, name: "Eve" });
  });

  it("makes nothing again once its row is gone, and says that it is", async () => {
    const { owner } = await anOwner();
    const headers = key();
    const { id } = await must(owner("POST", agents, { name: "Ada" }, headers), 200);
    await must(owner("DELETE", `${agents}/${id}`), 204);
    const { status, body } = await owner("POST", agents, { name: "Ada" }, headers);
    expect([status, body.error.message]).toEqual([404, "No such agent."]);
    expect((await must(owner("GET", agents), 200)).data).toEqual([]);
  });

  it("doesn't show a key's secret twice", async () => {
    const { at, asDeveloper } = await anApp();
    const headers = key();
    const first = await must(asDeveloper("POST", `${at}/keys`, { type: "secret" }, headers), 201);
    const again = await must(asDeveloper("POST", `${at}/keys`, { type: "secret" }, headers), 201);
    expect([again.id, again.full_key, again.key_value]).toEqual([first.id, null, null]);
  });

  it("signs a token again from its row: the same claims and the same refresh token", async () => {
    const { at, acme, owners, asDeveloper } = await anApp();
    const headers = key();
    const mint = () => must(asDeveloper("POST", `${at}/users/${owners[acme]}/tokens`, {}, headers), 201);
    const [first, again] = [await mint(), await mint()];
    expect(decodeJwt(again.access_token)).toEqual(decodeJwt(first.access_token));
    expect(again.refresh_token).toBe(first.refresh_token);
    await must(caller(bearer(again.access_token))("GET", "/api/v1/users/me"), 200);
  });

  it("is one person's: a colleague's, another org's and another app's same key is another", async () => {
    const { acme, globex, owner, as, asDeveloper } = await anOwner();
    const other = await anApp();
    const headers = key();
    const made = new Set<string>();
    for (const call of [owner, as(acme, { role: "member" }), as(globex), asDeveloper, other.asDeveloper]) {
      made.add((await must(call("POST", agents, { name: "Ada" }, headers), 200)).id);
    }
    expect(made.size).toBe(5);
  });

  it("is one developer's, whichever of the app's secret keys is used", async () => {
    const { at, asDeveloper } = await anApp();
    const { full_key } = await must(asDeveloper("POST", `${at}/keys`, { type: "secret" }), 201);
    const headers = key();
    const { id } = await must(asDeveloper("POST", agents, { name: "Ada" }, headers), 200);
    expect((await must(caller(bearer(full_key))("POST", agents, { name: "Ada" }, headers), 200)).id).toBe(id);
  });

  it("holds one request: the same key at another address is a 422", async () => {
    const { at, asDeveloper } = await anApp();
    const headers = key();
    await must(asDeveloper("POST", `${at}/keys`, {}, headers), 201);
    for (const path of [`${at}/users`, `${at}/keys?again=1`]) {
      const answer = await asDeveloper("POST", path, {}, headers);
      expect([path, answer.status, fieldsOf(answer)]).toEqual([path, 422, ["Idempotency-Key"]]);
    }
  });

  it.each(["", " ", "two words", "x".repeat(256), "schlüssel"])("refuses %j as a key", async (text) => {
    const { owner } = await anOwner();
    const answer = await owner("POST", agents, { name: "Ada" }, key(text));
    expect([answer.status, fieldsOf(answer)]).toEqual([422, ["Idempotency-Key"]]);
  });

  describe("is left free by a request that failed", () => {
    it("of a fault in the body", async () => {
      const { owner } = await anOwner();
      const headers = key();
      expect((await owner("POST", agents, { name: 7 }, headers)).status).toBe(422);
      await must(owner("POST", agents, { name: "Ada" }, headers), 200);
    });

    it("of a value that was taken", async () => {
      const { owner } = await anOwner();
      const { id } = await anAgent(owner, { lookup_key: "ada" });
      const headers = key();
      const body = { name: "Eve", lookup_key: "ada" };
      expect((await owner("POST", agents, body, headers)).status).toBe(409);
      await must(owner("DELETE", `${agents}/${id}`), 204);
      const made = await owner("POST", agents, body, headers);
      expect([made.status, made.headers.get("Idempotent-Replayed")]).toEqual([200, null]);
    });

    it("of a token that could not be minted", async () => {
      const { at, acme, owners, asDeveloper } = await anOwner();
      const headers = key();
      const mint = () => asDeveloper("POST", `${at}/users/${owners[acme]}/tokens`, {}, headers);
      await must(asDeveloper("PATCH", `${at}/orgs/${acme}`, { status: "suspended" }), 200);
      for (const _ of [1, 2]) expect((await mint()).status).toBe(409);
      await must(asDeveloper("PATCH", `${at}/orgs/${acme}`, { status: "active" }), 200);
      await must(mint(), 201);
    });

    it("of an owner that isn't there, or may not be", async () => {
      const { acme, owners, as, owner } = await anOwner();
      const headers = key();
      const member = as(acme, { role: "member" });
      for (const _ of [1, 2])
        expect((await member("POST", agents, { name: "Ada", user: owners[acme] }, headers)).status).toBe(403);
      await must(member("POST", agents, { name: "Ada" }, headers), 200);
      const absent = { name: "Ada", user: "usr_0000000000000000000000" };
      for (const _ of [1, 2]) expect(fieldsOf(await owner("POST", agents, absent, headers))).toEqual(["user"]);
      await must(owner("POST", agents, { name: "Ada" }, headers), 200);
    });

    it("of a sandbox that isn't there", async () => {
      const { asDeveloper } = await anApp();
      const headers = key();
      expect((await asDeveloper("POST", "/api/v1/sandboxes/dsb_0000000000000000000000/keys", {}, headers)).status).toBe(
        404,
      );
      await must(asDeveloper("POST", agents, { name: "Ada" }, headers), 200);
    });

    it("of a fifty-first personal token", async () => {
      const { app, acme, owners, owner } = await anOwner();
      await sql(
        `insert into data.tokens (id, app_id, sandbox_id, org_id, user_id, scopes, expires_at)
        select 'sat_' || lpad(n::text, 22, '0'), $1, '-', $2, $3, '{full_access}', now() + interval '1 day'
          from generate_series(1, 50) n`,
        [app, acme, owners[acme]],
      );
      const headers = key();
      for (const _ of [1, 2]) expect((await owner("POST", "/api/v1/users/me/tokens", {}, headers)).status).toBe(429);
      await sql("delete from data.tokens where app_id = $1 and id like 'sat_000000000%'", [app]);
      await must(owner("POST", "/api/v1/users/me/tokens", {}, headers), 201);
    });
  });
});
