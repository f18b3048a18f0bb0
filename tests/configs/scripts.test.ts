import { describe, expect, it } from "vitest";
import { anAgent, anApp, bearer, type Call, caller, must, type Role, sql, together, unique } from "../harness/index.ts";

const run = async (script: string, body: object = {}) => {
  const { acme, as } = await anApp();
  return (await as(acme)("POST", "/api/v1/scripts/run", { script, ...body })).body;
};

describe("POST /api/v1/scripts/run", () => {
  it("answers the last value, and what was printed with its line", async () => {
    const { result, output, error, findings } = await run(
      'let name = $.who\nprintln("hello", name)\n{ greeting: "hi " + name, count: array.length([1, 2, 3]) }',
      { scope: { who: "Ann" } },
    );
    expect(result).toEqual({ greeting: "hi Ann", count: 3 });
    expect(output).toMatchObject([{ line: 2, text: "hello Ann", values: ["hello", "Ann"] }]);
    expect([error, findings]).toEqual([null, []]);
  });

  it("answers 200 with the error and where it is, for a script that fails", async () => {
    expect(await run("let a = null\na.b.c")).toMatchObject({
      result: null,
      findings: [{ severity: "error", line: 2 }],
    });
    expect(await run("let (")).toMatchObject({ result: null, findings: [{ severity: "error", line: 1 }] });
    expect((await run("let f = fn(x) { f(x) }\n1 / 0")).error).toEqual(expect.any(String));
  });

  it("ends what would never end, and what would grow without end, with an error", async () => {
    expect((await run("let f = fn(x) { f(x) }\nf(1)")).error).toMatch(/deep/);
    const endless = "let xs = array.range(0, 100000)\narray.map(xs, fn(x) { array.map(xs, fn(y) { x + y }) })";
    expect((await run(endless)).error).toMatch(/steps|MB|memory/i);
  });

  it("verifies a token for the issuer and the audience that it names, and for no other", async () => {
    const verifies = `
      let key = "a key of the script's own, of 32 characters and more"
      let verifies = fn(claims, options) { result.isOk(jwt.verify(unwrap(jwt.sign(claims, key)), key, "HS256", options)) }
      array.map($.cases, fn(each) { verifies(each.claims, each.options) })`;
    const claims = { iss: "https://id.example", aud: "them" };
    const cases: [claims: object, options: object, verified: boolean][] = [
      [claims, {}, true],
      [claims, { audience: "them" }, true],
      [claims, { audience: "us" }, false],
      [claims, { audience: "the" }, false],
      [{ ...claims, aud: ["us", "them"] }, { audience: "them" }, true],
      [{ ...claims, aud: ["us"] }, { audience: "them" }, false],
      [{ iss: claims.iss }, { audience: "them" }, false],
      [claims, { issuer: "https://id.example" }, true],
      [claims, { issuer: "https://id.example.org" }, false],
      [{ aud: "them" }, { issuer: "https://id.example" }, false],
      [claims, { issuer: "https://id.example", audience: "them" }, true],
      [claims, { issuer: "https://id.example", audience: "us" }, false],
    ];
    const { result, error } = await run(verifies, {
      scope: { cases: cases.map(([claims, options]) => ({ claims, options })) },
    });
    expect([error, result]).toEqual([null, cases.map(([, , verified]) => verified)]);
  });

  it("verifies no token before its time, nor after it", async () => {
    const script = `
      let key = "a key of the script's own, of 32 characters and more"
      let now = datetime.unix()
      let verifies = fn(claims) { result.isOk(jwt.verify(unwrap(jwt.sign(claims, key)), key)) }
      array.map([{ exp: now + 60 }, { exp: now - 60 }, { nbf: now - 60 }, { nbf: now + 60 }], verifies)`;
    expect((await run(script)).result).toEqual([true, false, true, false]);
  });

  it("refuses private addresses, also in odd spellings", async () => {
    for (const host of [
      "127.0.0.1",
      "localhost",
      "2130706433",
      "0x7f.1",
      "[::1]",
      "169.254.169.254",
      "[::ffff:10.0.0.1]",
      "metadata.google.internal",
    ]) {
      const { result } = await run(`let r = requests.get("http://${host}/")\nresult.isOk(r)`);
      expect([host, result]).toEqual([host, false]);
    }
  });

  it("sees the sender's agents and users and nobody else's, and not what its scopes don't open", async () => {
    const { acme, globex, as } = await anApp();
    const ada = await anAgent(as(acme), { name: "Ada", lookup_key: "ada" });
    const script = 'unwrap(agents.get({ agent: "ada" }), null)';
    const get = async (call: ReturnType<typeof as>) =>
      (await call("POST", "/api/v1/scripts/run", { script })).body.result;
    expect(await get(as(acme))).toMatchObject({ id: ada.id, name: "Ada", org: acme });
    expect(await get(as(globex))).toBeNull();
    expect(await get(as(acme, { scopes: ["scripts:write"] }))).toBeNull();
    const list = "unwrap(agents.list({ page_size: 1 })).total_entries";
    expect((await as(acme)("POST", "/api/v1/scripts/run", { script: list })).body.result).toBe(1);
    expect((await as(globex)("POST", "/api/v1/scripts/run", { script: list })).body.result).toBe(0);
  });

  it("runs as a user for a developer, seeing then what that user sees", async () => {
    const { acme, globex, owners, as, asDeveloper } = await anApp();
    await anAgent(as(acme));
    const script = "[viewer.user, unwrap(agents.list()).total_entries]";
    const seen = async (org: string) =>
      (await asDeveloper("POST", "/api/v1/scripts/run", { script, run_as_user: owners[org] })).body.result;
    expect(await seen(acme)).toEqual([owners[acme], 1]);
    expect(await seen(globex)).toEqual([owners[globex], 0]);
  });

  it("runs as a user with that user's role: what it may not, the script may not, and what it sees, the script sees", async () => {
    const { acme, globex, owners, aUser, as, asDeveloper, at } = await anApp();
    const hidden = await anAgent(as(acme), {
      name: "Hidden",
      acl: { grants: [{ principal_type: "user", principal: owners[acme], actions: ["read"] }] },
    });
    await anAgent(as(acme), { name: "Open" });
    await anAgent(as(globex), { name: "Foreign" });
    const script =
      "let found = agents.list()\nlet one = agents.get({ agent: $.hidden })\n[result.isOk(found), unwrap(found, { total_entries: 0 }).total_entries, result.isOk(one), result.message(found)]";
    const seen = async (run_as_user: string) =>
      (
        await must(
          asDeveloper("POST", "/api/v1/scripts/run", { script, run_as_user, scope: { hidden: hidden.id } }),
          200,
        )
      ).result;
    const roles = {
      admin: [true, 2, true],
      member: [true, 1, false],
      viewer: [true, 1, false],
      billing: [false, 0, false],
    };
    for (const [role, expected] of Object.entries(roles)) {
      const { id } = await aUser(acme, role as Role);
      expect([role, ...(await seen(id)).slice(0, 3)]).toEqual([role, ...expected]);
    }
    const nobody = await aUser(null);
    expect((await seen(nobody.id)).slice(0, 3)).toEqual([false, 0, false]);
    expect((await seen(nobody.id))[3]).toContain("agents:read");
    await must(asDeveloper("PATCH", `${at}/orgs/${acme}`, { status: "suspended" }), 200);
    const refused = await must(
      asDeveloper("POST", "/api/v1/scripts/run", { script: "1", run_as_user: owners[acme] }),
      403,
    );
    expect(refused.error.code).toBe("org_suspended");
    expect(await seen(owners[globex]!)).toEqual([true, 1, false, null]);
  });

  it("answers an argument that nothing can keep with an error, as a body would be", async () => {
    const { acme, as } = await anApp();
    const calls = [
      "agents.list({ search: $.text })",
      "users.list({ search: $.text })",
      "agents.get({ agent: $.text })",
      "users.get({ user: $.text })",
    ];
    for (const call of calls) {
      const source = call.replace("$.text", "unwrap(string.parseJson($.json))");
      const { result, error } = await must(
        as(acme)("POST", "/api/v1/scripts/run", { script: `result.message(${source})`, scope: { json: '"a\\u0000"' } }),
        200,
      );
      expect([call, error, result]).toEqual([
        call,
        null,
        expect.stringContaining("must be well-formed text without NUL"),
      ]);
    }
  });

  it("takes one identity, and only one that is there for the sender", async () => {
    const { acme, globex, owners, as } = await anApp();
    const ask = async (body: object) => {
      const { status, body: answer } = await as(acme)("POST", "/api/v1/scripts/run", { script: "1", ...body });
      return [status, answer.error?.fields?.[0].field];
    };
    const agent = (await anAgent(as(globex))).id;
    expect(await ask({ run_as_user: owners[acme], run_as_agent: agent })).toEqual([422, "run_as_agent"]);
    expect(await ask({ run_as_user: owners[globex] })).toEqual([422, "run_as_user"]);
    expect(await ask({ run_as_agent: agent })).toEqual([422, "run_as_agent"]);
    expect(await ask({ run_as_user: owners[acme] })).toEqual([200, undefined]);
  });
});

describe("an Idempotency-Key of a run", () => {
  const body = { script: "1 + 1" };
  const key = () => ({ "Idempotency-Key": unique("run") });
  const run = (call: Call, headers: Record<string, string>, asked: object = body) =>
    call("POST", "/api/v1/scripts/run", asked, headers);

  it("runs once: a replay is a 409 already_run, with no answer, also after a failure", async () => {
    const { acme, as } = await anApp();
    for (const script of ["1 + 1", "1 / 0"]) {
      const headers = key();
      await must(run(as(acme), headers, { script }), 200);
      const { error } = await must(run(as(acme), headers, { script }), 409);
      expect(error).toMatchObject({ code: "already_run", fields: [] });
    }
  });

  it("runs once of many at once", async () => {
    const { acme, as } = await anApp();
    const headers = key();
    const statuses = (await together(10, () => run(as(acme), headers))).map(({ status }) => status);
    expect(statuses.sort()).toEqual([200, ...Array(9).fill(409)]);
  });

  it("holds one request of one person: another body is a 422, a colleague's key another", async () => {
    const { acme, as, asDeveloper } = await anApp();
    const headers = key();
    await must(run(as(acme), headers), 200);
    const other = await must(run(as(acme), headers, { script: "2" }), 422);
    expect(other.error.fields).toMatchObject([{ field: "Idempotency-Key" }]);
    await must(run(as(acme, { role: "member" }), headers), 200);
    await must(run(asDeveloper, headers), 200);
  });

  it("is committed before the run, and left free by a run that never began", async () => {
    const { acme, globex, owners, as, asDeveloper } = await anApp();
    const headers = key();
    const rows = () => sql("select from data.idempotency_keys where key = $1", [headers["Idempotency-Key"]]);
    await must(run(as(acme), headers, { script: "1", run_as_user: owners[globex] }), 422);
    expect(await rows()).toHaveLength(0);
    await must(run(asDeveloper, headers), 200);
    expect(await rows()).toHaveLength(1);
  });

  it.each(["", "two words", "x".repeat(256)])("is refused where it is %j", async (text) => {
    const { acme, as } = await anApp();
    const { error } = await must(run(as(acme), { "Idempotency-Key": text }), 422);
    expect(error.fields).toMatchObject([{ field: "Idempotency-Key" }]);
  });
});

describe("POST /api/v1/scripts/validate", () => {
  it("answers 200 with findings that say where, and what was meant", async () => {
    const { acme, as } = await anApp();
    const { body } = await as(acme)("POST", "/api/v1/scripts/validate", { script: "let total = 1\ntotl + 1" });
    expect(body).toMatchObject({
      ok: false,
      valid: false,
      findings: [{ severity: "error", line: 2, column: 1, end_line: 2, end_column: 5 }],
    });
    expect(body.findings[0].message).toMatch(/`totl` is not defined; did you mean `total`\?/);
    expect((await as(acme)("POST", "/api/v1/scripts/validate", { script: "1 + 1" })).body).toMatchObject({
      ok: true,
      findings: [],
    });
  });
});

describe("POST /api/v1/scripts/test", () => {
  const script = `let lib = import("script:lib")
test.describe("double", fn() {
  test.it("doubles", fn() { test.expect(lib.double(2)).toEqual(4) })
  test.it("is wrong here", fn() { test.expect(lib.double(2)).toEqual(5) })
})`;
  it("reports suites and cases, and finds imports in what was sent along", async () => {
    const { acme, as } = await anApp();
    const scripts = { lib: "{ double: fn(x) { x * 2 } }" };
    const { body } = await as(acme)("POST", "/api/v1/scripts/test", { script, scripts });
    expect(body).toMatchObject({ passed: false, assertion_count: 2 });
    expect(body.suites).toMatchObject([
      {
        name: "double",
        tests: [
          { name: "doubles", pass: true },
          { name: "is wrong here", pass: false },
        ],
      },
    ]);
  });
  it("answers 422 with the place for a source that doesn't parse", async () => {
    const { acme, as } = await anApp();
    const { status, body } = await as(acme)("POST", "/api/v1/scripts/test", { script: "let x = \n(" });
    expect([status, body.error.fields[0].field]).toEqual([422, "script"]);
    expect(body.error.fields[0].message).toMatch(/^line \d+, column \d+: /);
  });
});

describe("the language", () => {
  it("is told to editors and to models, from one table", async () => {
    const { acme, as } = await anApp();
    const { body } = await as(acme)("GET", "/api/v1/scripts/language");
    const names = body.namespaces.map(({ name }: any) => name);
    expect(names).toEqual(
      expect.arrayContaining([
        "requests",
        "array",
        "string",
        "map",
        "datetime",
        "math",
        "result",
        "email",
        "jwt",
        "slack",
        "log",
        "test",
        "agents",
        "threads",
        "users",
      ]),
    );
    const { text, headers } = await as(acme)("GET", "/api/v1/scripts/llm.txt");
    expect(headers.get("Content-Type")).toMatch(/^text\/plain/);
    for (const { name, functions } of body.namespaces)
      for (const f of functions) expect(text, name).toContain(f.signature);
  });
  it("has no runtime variables yet", async () => {
    const { acme, as } = await anApp();
    expect((await as(acme)("GET", "/api/v1/scripts/runtime_env_vars")).body).toEqual({ data: [] });
  });
});

describe("through the SDK", () => {
  it("runs, validates, tests and reads the language", async () => {
    const { PlatformClient } = await import("@archastro/sdk");
    const { owners, acme, aToken, publishable_key } = await anApp();
    const { system } = await import("../harness/index.ts");
    const client = PlatformClient.withToken(publishable_key, (await aToken(owners[acme]!)).access_token, system.base);
    expect(await client.scripts.run({ script: "$.a + 1", scope: { a: 1 } })).toMatchObject({ result: 2 });
    expect(await client.scripts.validate({ script: "1" })).toMatchObject({ ok: true });
    expect(await client.scripts.test({ script: 'test.it("a", fn() { test.expect(1).toBe(1) })' })).toMatchObject({
      passed: true,
    });
    expect((await client.scripts.language()).languageId).toEqual(expect.any(String));
    expect(new TextDecoder().decode((await client.scripts.llmTxt()).content)).toContain("requests.get");
    expect(await client.scripts.runtimeEnvVars()).toEqual({ data: [] });
  });
});

it("is closed to a token without the scope", async () => {
  const { acme, owners, aToken } = await anApp();
  const { access_token } = await aToken(owners[acme]!, ["scripts:read"]);
  expect((await caller(bearer(access_token))("POST", "/api/v1/scripts/run", { script: "1" })).status).toBe(403);
});
