import fc from "fast-check";
import { exportJWK, exportPKCS8, exportSPKI, generateKeyPair, jwtVerify } from "jose";
import { describe, expect, it } from "vitest";
import { Native } from "../../../lib/script/entry.ts";
import {
  type RunOptions,
  scriptLanguage,
  scriptLlmText,
  testScript,
  validateScript,
} from "../../../lib/script/index.ts";
import { examples } from "../../../lib/script/language.ts";
import { builtins, namespaces } from "../../../lib/script/namespaces/index.ts";
import { aWorld, failureOf, resultOf, run } from "./support.ts";

const functions = [
  ...[...builtins.values()].map((native) => ({ name: native.name, native })),
  ...[...namespaces.values()].flatMap(({ name, members }) =>
    [...members.values()]
      .filter((one) => one instanceof Native)
      .map((native) => ({ name: `${name}.${native.name}`, native })),
  ),
];

const outside = aWorld(() => ({
  ok: {
    status: 200,
    headers: {},
    body: { items: [{ name: "one" }, { name: "two" }] },
    id: "x",
    name: "x",
    email: "x",
    key: "x",
    data: [],
  },
}));

describe("the reference", () => {
  for (const { name, native } of functions) {
    if (native.gives !== undefined) {
      it(`tells the truth of ${name}`, async () => {
        expect(await resultOf(native.example)).toEqual(native.gives);
      });
    } else if (name.startsWith("test.")) {
      it(`shows ${name} as it can be used`, async () => {
        const source = native.example.includes("test.it")
          ? native.example
          : `test.it("case", fn() { ${native.example} test.expect(1).toBe(1) })`.replaceAll(") test.", ")\ntest.");
        expect(await testScript(source, { world: outside })).toMatchObject({ error: null, passed: true });
      });
    } else {
      it(`shows ${name} as it can be used`, async () => {
        const { status, error } = await run(native.example, {
          world: outside,
          env: { JWT_SECRET: "s".repeat(32) },
          input: { token: "x" },
        });
        const allowed = name === "jwt.verify" ? "failed" : "done";
        expect([status, error]).toEqual([allowed, allowed === "done" ? null : "jwt: Invalid Compact JWS"]);
      });
    }
  }

  for (const { title, source, input, env, gives } of examples) {
    it(`has an example that works: ${title}`, async () => {
      expect(validateScript(source).findings).toEqual([]);
      expect(
        await resultOf(source, { world: outside, ...(input === undefined ? {} : { input }), env: env ?? {} }),
      ).toEqual(gives);
    });
  }

  it("names every function in the prompt and in the language for editors", () => {
    const text = scriptLlmText();
    const spec = scriptLanguage();
    const listed = spec.namespaces.flatMap((space) =>
      space.functions.map((one) => `${space.name}.${(one as { name: string }).name}`),
    );
    for (const { name, native } of functions) {
      expect(text).toContain(`- \`${native.name}(`);
      expect(native.doc.length).toBeGreaterThan(0);
      expect(text).toContain(`: ${native.doc}`);
      expect([...listed, ...builtins.keys()]).toContain(name);
    }
  });
  it("tells what every namespace is for", () => {
    for (const { doc, name } of namespaces.values()) {
      expect(doc.length).toBeGreaterThan(0);
      expect(scriptLlmText()).toContain(`### ${name}\n\n${doc}`);
    }
  });
  it("is of the contract's shape", () => {
    const spec = scriptLanguage();
    expect(JSON.parse(JSON.stringify(spec))).toEqual(spec);
    expect(spec).toMatchObject({ languageId: expect.any(String), version: expect.any(Number) });
    expect(spec.keywords).toContain("let");
    expect(spec.operators).toContain("&&");
    expect(spec.reservedNames).toEqual(["env", "import", "viewer", "unwrap"]);
  });
});

describe("functions", () => {
  const cases: [source: string, value: unknown][] = [
    ["array.sort(['b', null, 'a'])", [null, "a", "b"]],
    [
      "array.sortBy([{ n: 1, i: 1 }, { n: 0, i: 2 }, { n: 1, i: 3 }], 'n')",
      [
        { n: 0, i: 2 },
        { n: 1, i: 1 },
        { n: 1, i: 3 },
      ],
    ],
    ["array.sort(array.reverse(array.range(100))) == array.range(100)", true],
    ["array.unique([{ a: 1 }, { a: 1 }, 1, '1'])", [{ a: 1 }, 1, "1"]],
    ["array.slice([1, 2, 3], -2, null)", [2, 3]],
    ["array.range(0, 1, 0.25)", [0, 0.25, 0.5, 0.75]],
    ["array.groupBy([1, 2, 3], fn(x) { x % 2 })", { 1: [1, 3], 0: [2] }],
    ['map.keys(string.parseJson(\'{"b":1,"a":2}\'))', "fails"],
    ['map.keys(unwrap(string.parseJson(\'{"b":1,"a":2}\')))', ["b", "a"]],
    ["map.setIn({ a: [1, 2] }, ['a', 1], 5)", { a: [1, 5] }],
    ["map.get({ a: null }, 'a', 5)", 5],
    [
      "[map.get(null, 'a', 5), map.set(null, 'a', 1), merge(null, { a: 1 }), map.merge(null, null)]",
      [5, { a: 1 }, { a: 1 }, {}],
    ],
    ["string.replacePattern('k=v', '(?<key>\\w)=(?<value>\\w)', '$' + '{value}=$' + '{key}$' + '{none}')", "v=k"],
    ["string.replace('a.b.c', '.', '$&')", "a$&b$&c"],
    ["string.replace('a\\\\nb', '\\\\n', '\\n')", "a\nb"],
    ["[string.count('abc', ''), string.count('aaa', 'aa'), string.count('', 'a')]", [4, 1, 0]],
    ["[string.includes('abc', 'a'), string.includes('abc', 'd'), string.includes('', '')]", [true, false, true]],
    ["string.toJson({ a: [1] }, 2)", '{\n  "a": [\n    1\n  ]\n}'],
    ["string.toJson({ a: 1 }, 50)", `{\n${" ".repeat(8)}"a": 1\n}`],
    ["string.toJson([1], -1)", "[1]"],
    ["[string.fromCode(0), string.fromCode(1114111)] == ['\\u0000', '\\u{10ffff}']", true],
    [
      "array.map([null, true, 1, 'a', [], {}, result.ok(1), array.map, fn() { 1 }, array], typeof)",
      ["null", "boolean", "number", "string", "array", "object", "result", "function", "function", "namespace"],
    ],
    [
      "[array.setAt([1], 0, 5), array.insertAt([1], 1, 5), array.insertAt([], 0, 5), array.removeAt([1], 0)]",
      [[5], [1, 5], [5], []],
    ],
    ["map.setIn([1], [1], 5)", [1, 5]],
    [
      "[map.deepMerge({ a: 1 }, { a: { b: 1 } }), map.deepMerge({ a: { b: 1 } }, { a: 1 })]",
      [{ a: { b: 1 } }, { a: 1 }],
    ],
    ["map.setIn([1], [0], 5)", [5]],
    ["array.sort([true, false])", [false, true]],
    ["string.template('a {{b}} {{b', { b: 1 })", "a 1 {{b"],
    ["array.takeWhile([1, 2], fn(x) { x > 1 })", []],
    ["array.takeWhile([1, 2], fn(x) { true })", [1, 2]],
    ["array.dropWhile([1, 2], fn(x) { x > 1 })", [1, 2]],
    ["array.dropWhile([1, 2], fn(x) { true })", []],
    ["string.replacePattern('ab', '(a)(b)', '$2$1$0$$$:$3${')", "baab$$:${"],
    ["string.split('', ',')", [""]],
    ["string.split('abc', '')", ["a", "b", "c"]],
    ["string.substring('abc', 2, 1)", ""],
    ["string.substring('abc', -5, 99)", "abc"],
    ["string.match('abc', 'x')", null],
    ["string.match('abc', '(x)?b').groups", [null]],
    ["string.match('k=v', '(?<key>\\\\w)=(?<value>\\\\w)').named", { key: "k", value: "v" }],
    ["string.replacePattern('2026-01-02', '(\\\\d+)-(\\\\d+)-(\\\\d+)', '$3.$2.$1')", "02.01.2026"],
    ["string.replacePattern('abc', '[a-c]', fn(m) { string.uppercase(m.match) + m.index })", "A0B1C2"],
    ["string.splitPattern('a1b22c', '\\\\d+')", ["a", "b", "c"]],
    ["result.isErr(string.parseJson('{'))", true],
    ["string.base64Decode('////').x", "fails"],
    ["unwrap(string.base64Decode(string.base64Encode('😀ü')))", "😀ü"],
    ["math.round(-2.5)", -3],
    ["math.round(1e21, 2)", 1e21],
    ["math.max(1, 3, 2)", 3],
    ["datetime.now()", "2026-01-02T03:04:05.000Z"],
    ["datetime.unix()", 1767323045],
    ["string.substring(unwrap(datetime.add(datetime.now(), -7, 'days')), 0, 10)", "2025-12-26"],
    ["unwrap(datetime.add('2024-02-29', 1, 'year'))", "2025-02-28T00:00:00.000Z"],
    ["unwrap(datetime.add('2024-01-31', -2, 'months'))", "2023-11-30T00:00:00.000Z"],
    [
      "result.message(datetime.add('2024-01-01', 1, 'fortnight'))",
      '"fortnight" is not a unit of time; there are milliseconds, seconds, minutes, hours, days, weeks, months, quarters, years',
    ],
    ["result.isErr(datetime.add('9999-01-01', 1, 'years'))", true],
    ["unwrap(datetime.diff('2026-03-31', '2026-01-31', 'months'))", 2],
    ["unwrap(datetime.diff('2026-01-31', '2026-03-30', 'months'))", -1],
    ["unwrap(datetime.diff('2026-01-01T00:00:10Z', '2026-01-01'))", 10],
    ["result.isErr(datetime.diff('2026-01-02', '2026-01-01', 'constructor'))", true],
    ["result.isErr(datetime.add('2026-01-02', 1, '__proto__'))", true],
    ["datetime.startOf('2026-01-02', 'constructor')", "fails"],
    ["result.isErr(datetime.parse('2026-02-30'))", true],
    ["result.isErr(datetime.parse('2026-13-01'))", true],
    ["unwrap(datetime.parse('2026-01-01T23:00:00-0200'))", "2026-01-02T01:00:00.000Z"],
    ["datetime.format('2026-07-01T22:30:00Z', 'YYYY-MM-DD HH:mm', 'Asia/Tokyo')", "2026-07-02 07:30"],
    ["datetime.format('2026-01-02', '[Week of] MMM D')", "Week of Jan 2"],
    ["datetime.day('2026-01-01T23:30:00Z', 'Europe/Berlin')", 2],
    ["datetime.startOf('2026-05-20T10:00:00Z', 'quarter')", "2026-04-01T00:00:00.000Z"],
    ["datetime.endOf('2024-02-10', 'month')", "2024-02-29T23:59:59.999Z"],
    ["datetime.isBefore('2026-01-01T00:00:00+01:00', '2026-01-01')", true],
    ["unwrap(result.all([result.ok(1), result.err('no')]), 'fell')", "fell"],
    ["unwrap(result.map(result.err('no'), fn(x) { 1 / 0 }), 'fell')", "fell"],
  ];
  for (const [source, value] of cases) {
    if (value === "fails") it(`${source} fails`, async () => void (await failureOf(source)));
    else it(`${source} is ${JSON.stringify(value)}`, async () => void expect(await resultOf(source)).toEqual(value));
  }

  const wrong: [source: string, message: string][] = [
    ["string.fromCode(-1)", "there is no character -1"],
    ["string.fromCode(1114112)", "there is no character 1114112"],
    ...["array.setAt([1], 1, 5)", "array.setAt([1], -1, 5)"].map((source): [string, string] => [
      source,
      "`setAt`: there is no place",
    ]),
    ["array.removeAt([1], 1)", "`removeAt`: there is no place 1 in an array of 1"],
    ["array.insertAt([1], 2, 5)", "`insertAt`: there is no place 2 in an array of 1"],
    ["map.setIn([1], [2], 5)", "`setIn`: there is no place `2` in an array of 1"],
    ["map.setIn([1], [-1], 5)", "`setIn`: there is no place `-1` in an array of 1"],
    ["map.setIn([1], [0.5], 5)", "`setIn`: there is no place `0.5` in an array of 1"],
    ["map.setIn([1], 'a', 5)", "`setIn`: there is no place `a` in an array of 1"],
    ["array.sum([1, 'a'])", "`sum` wants numbers, not a string"],
    ["array.range(0, 1, 0)", "`range` wants a step other than 0"],
    ["array.sort([{}, {}])", "an object and an object have no order"],
    ["array.sort([array, string])", "a namespace and a namespace have no order"],
    ['requests.get("https://a.example.com", { headers: 5 })', "`headers` of a request is an object, not a number"],
    ['requests.get("https://a.example.com", { timeout: "1" })', "`timeout` is a number of seconds, not a string"],
    ['jwt.verify("a", "b", "HS256", { issuer: {} })', "`issuer` is a string"],
  ];
  for (const [source, message] of wrong) {
    it(`${source} fails with ${JSON.stringify(message)}`, async () => {
      const { code, error } = await failureOf(source);
      expect([code, error]).toEqual(["runtime", expect.stringContaining(message)]);
    });
  }

  it("take paths of a hundred steps", async () => {
    const path = (n: number) => Array.from({ length: n }, () => "a").join(".");
    expect(await resultOf(`[map.getIn({}, "${path(100)}"), typeof(map.setIn({}, "${path(100)}", 1))]`)).toEqual([
      null,
      "object",
    ]);
    for (const call of [`map.getIn({}, "${path(101)}")`, `map.getIn({}, array.repeat("a", 101))`]) {
      expect((await failureOf(call)).error).toBe("a path has at most 100 steps");
    }
  });
  it("find long parts where JavaScript finds them", async () => {
    const letters = (least: number, most: number) =>
      fc.string({ unit: fc.constantFrom("a", "b"), minLength: least, maxLength: most });
    const source =
      "[string.indexOf($.t, $.p), string.lastIndexOf($.t, $.p), string.indexOf($.t, $.p, $.n), string.count($.t, $.p), string.split($.t, $.p), string.replace($.t, $.p, '-')]";
    // Parts around the length up to which the platform searches, cut from the text so that they are there.
    const cases = fc.tuple(
      letters(40, 80),
      fc.nat(30),
      fc.integer({ min: 14, max: 20 }),
      letters(14, 20),
      fc.boolean(),
    );
    await fc.assert(
      fc.asyncProperty(cases, async ([text, at, length, other, found]) => {
        const p = found ? text.slice(at, at + length) : other;
        const t = text + text;
        expect(await resultOf(source, { input: { t, p, n: at } })).toEqual([
          ...[t.indexOf(p), t.lastIndexOf(p), t.indexOf(p, at), t.split(p).length - 1, t.split(p)],
          t.replaceAll(p, "-"),
        ]);
      }),
      { numRuns: 300 },
    );
  });

  it("draw random numbers that are spread, and the same for the same seed", async () => {
    const source = "array.map(array.range(1000), fn(i) { math.randomInt(1, 6) })";
    const rolls = (await resultOf(source)) as number[];
    expect(new Set(rolls)).toEqual(new Set([1, 2, 3, 4, 5, 6]));
    expect(await resultOf(source)).toEqual(rolls);
    expect(await resultOf(source, { world: { ...aWorld(), random: () => 0.7 } })).not.toEqual(rolls);
  });
});

describe("any function", () => {
  const pool = fc.constantFrom(
    ...["null", "true", "0", "-1", "1.5", "1e15", "-1e300", '""', '"a"', '"2026-01-01"', '"days"', '"(a"', '"\\ud800"'],
    ...[
      '"$1{{"',
      "[]",
      "[1, 2]",
      '["b", null]',
      '[[1], ["a", 1]]',
      "{}",
      "{ a: 1 }",
      "{ headers: { a: [1] }, body: {} }",
    ],
    ...["result.ok(1)", 'result.err("e")', "fn(x) { x }", "fn() { 1 / 0 }", "array.length", "array", '"Europe/Berlin"'],
  );
  it("ends in a value or in an error of the script, whatever it is given", async () => {
    const call = fc.tuple(fc.constantFrom(...functions.map(({ name }) => name)), fc.array(pool, { maxLength: 4 }));
    await fc.assert(
      fc.asyncProperty(call, async ([name, args]) => {
        const { status, code, result } = await run(`let f = ${name}\nf(${args.join(", ")})`, { world: outside });
        expect(status === "done" || ["runtime", "error_result", "limit_memory", "limit_steps"].includes(code!)).toBe(
          true,
        );
        const odd = (value: unknown) => value === undefined || (typeof value === "number" && !Number.isFinite(value));
        expect(JSON.stringify(result, (_, value) => (odd(value) ? "odd" : value))).not.toContain('"odd"');
      }),
      { numRuns: 3000 },
    );
  });
});

describe("requests", () => {
  async function sent(source: string) {
    const calls: unknown[] = [];
    await run(source, {
      world: aWorld(({ name, args }) => {
        calls.push({ name, args });
        return { ok: { status: 200, headers: {}, body: null } };
      }),
    });
    return calls;
  }
  it("hand a whole request to the world", async () => {
    const source =
      'requests.post("https://a.example.com/x?y=1", { headers: { "X-Key": 5, none: null }, query: { q: "a b", list: [1, 2], none: null }, body: { a: [1] }, timeout: 3 })';
    expect(await sent(source)).toEqual([
      {
        name: "requests.request",
        args: {
          method: "POST",
          url: "https://a.example.com/x?y=1&q=a%20b&list=1&list=2",
          headers: { "x-key": "5", "content-type": "application/json" },
          body: '{"a":[1]}',
          timeout_ms: 3000,
        },
      },
    ]);
  });
  it("send texts as they are, and forms encoded", async () => {
    const [text, form] = (await sent(
      'requests.put("https://a.example.com", { body: "raw" })\nrequests.post("https://a.example.com", { form: { a: "1&2" } })',
    )) as { args: { body: string; headers: object } }[];
    expect(text?.args).toMatchObject({ body: "raw", headers: {} });
    expect(form?.args).toMatchObject({
      body: "a=1%262",
      headers: { "content-type": "application/x-www-form-urlencoded" },
    });
  });
  it("have a body of a megabyte at most", async () => {
    const post = (n: number) => `requests.post("https://a.example.com", { body: string.repeat("a", ${n}) })`;
    expect(await sent(post(1_000_000))).toHaveLength(1);
    expect(await sent(post(1_000_001))).toHaveLength(0);
    expect(await resultOf(`result.message(${post(1_000_001)})`)).toBe("the body is larger than 1 MB");
  });
  it("wait ten seconds at most", async () => {
    const [call] = (await sent('requests.get("https://a.example.com", { timeout: 500 })')) as { args: object }[];
    expect(call?.args).toMatchObject({ timeout_ms: 10_000 });
  });
  it("let the status be read without unwrapping", async () => {
    const world = aWorld(() => ({ ok: { status: 404, headers: {}, body: { message: "none" } } }));
    expect(
      await resultOf('let r = requests.get("https://a.example.com")\n[r.status, r.body.message]', { world }),
    ).toEqual([404, "none"]);
  });
  it("are error results when no answer came", async () => {
    const world = aWorld(() => ({ error: "refused: the host is a private or reserved address" }));
    expect(
      await resultOf('let r = requests.get("http://10.0.0.1")\n[result.isErr(r), unwrap(r, null)]', { world }),
    ).toEqual([true, null]);
    expect((await failureOf('requests.get("http://10.0.0.1").status', { world })).error).toContain("refused");
  });
});

describe("what has no provider", () => {
  it("answers an error result that says so", async () => {
    const world = aWorld((call) => ({ error: `${call.name} is not available here` }));
    expect(await resultOf('result.message(slack.send({ channel: "#a", text: "b" }))', { world })).toBe(
      "slack.send is not available here",
    );
  });
});

describe("jwt", () => {
  const env = { SECRET: "0123456789abcdef0123456789abcdef" };
  it("signs and verifies with a shared secret", async () => {
    const source =
      'let t = unwrap(jwt.sign({ sub: "1", exp: datetime.unix() + 60 }, env.SECRET))\nunwrap(jwt.verify(t, env.SECRET)).sub';
    expect(await resultOf(source, { env })).toBe("1");
  });
  for (const algorithm of ["RS256", "ES256"]) {
    it(`signs ${algorithm} with a PEM key so that others can verify it`, async () => {
      const { privateKey, publicKey } = await generateKeyPair(algorithm, { extractable: true });
      const keys = { KEY: await exportPKCS8(privateKey) };
      const token = (await resultOf(
        `unwrap(jwt.sign({ iss: "me" }, env.KEY, "${algorithm}", { header: { kid: "k1" } }))`,
        { env: keys },
      )) as string;
      const { payload, protectedHeader } = await jwtVerify(token, publicKey);
      expect([payload, protectedHeader]).toEqual([{ iss: "me" }, { alg: algorithm, kid: "k1", typ: "JWT" }]);
    });
    it(`verifies ${algorithm} with a PEM or a JWK, and reads what it says`, async () => {
      const { privateKey, publicKey } = await generateKeyPair(algorithm, { extractable: true });
      const input = { pem: await exportSPKI(publicKey), jwk: (await exportJWK(publicKey)) as never };
      const source = `let t = unwrap(jwt.sign({ a: 1 }, env.KEY, "${algorithm}"))\n[unwrap(jwt.verify(t, $.pem, "${algorithm}")).a, unwrap(jwt.verify(t, $.jwk, "${algorithm}")).a, unwrap(jwt.decode(t)).header.alg]`;
      expect(await resultOf(source, { env: { KEY: await exportPKCS8(privateKey) }, input })).toEqual([1, 1, algorithm]);
    });
  }
  const refused: [what: string, source: string, message: string][] = [
    [
      "an expired token",
      "jwt.verify(unwrap(jwt.sign({ exp: datetime.unix() - 1 }, env.SECRET)), env.SECRET)",
      '"exp" claim timestamp check failed',
    ],
    [
      "another issuer",
      'jwt.verify(unwrap(jwt.sign({ iss: "a" }, env.SECRET)), env.SECRET, "HS256", { issuer: "b" })',
      'unexpected "iss" claim value',
    ],
    [
      "another audience",
      'jwt.verify(unwrap(jwt.sign({ aud: "a" }, env.SECRET)), env.SECRET, "HS256", { audience: "b" })',
      'unexpected "aud" claim value',
    ],
    [
      "no audience where one is asked for",
      'jwt.verify(unwrap(jwt.sign({}, env.SECRET)), env.SECRET, "HS256", { audience: "b" })',
      'missing required "aud" claim',
    ],
    [
      "no issuer where one is asked for",
      'jwt.verify(unwrap(jwt.sign({}, env.SECRET)), env.SECRET, "HS256", { issuer: "b" })',
      'missing required "iss" claim',
    ],
    [
      "a token before its time",
      "jwt.verify(unwrap(jwt.sign({ nbf: datetime.unix() + 1 }, env.SECRET)), env.SECRET)",
      '"nbf" claim timestamp check failed',
    ],
    [
      "another secret",
      'jwt.verify(unwrap(jwt.sign({}, env.SECRET)), env.SECRET + "x")',
      "signature verification failed",
    ],
    [
      "a token of another algorithm than asked for",
      'jwt.verify(unwrap(jwt.sign({}, env.SECRET)), env.SECRET, "ES256")',
      "the key does not fit",
    ],
    ["no algorithm", 'jwt.sign({}, env.SECRET, "none")', "the algorithm is one of HS256, RS256, ES256"],
    ["a key of another kind", 'jwt.sign({}, "not a pem", "RS256")', "the key does not fit the algorithm"],
    ["an empty secret", 'jwt.sign({}, "")', "jwt:"],
  ];
  for (const [what, source, message] of refused) {
    it(`answers an error result for ${what}`, async () => {
      expect(await resultOf(`result.message(${source})`, { env })).toContain(message);
    });
  }
  it("verifies the issuer, the audience and the time that are asked for", async () => {
    const claims = '{ iss: "a", aud: ["b", "c"], nbf: datetime.unix(), exp: datetime.unix() + 1 }';
    const source = `unwrap(jwt.verify(unwrap(jwt.sign(${claims}, env.SECRET)), env.SECRET, "HS256", { issuer: "a", audience: "c" })).iss`;
    expect(await resultOf(source, { env })).toBe("a");
  });
  it("leaves the key out of the journal, and does not sign anew when resumed", async () => {
    const source = "jwt.sign({ a: 1 }, env.SECRET)";
    const first = await run(source, { env });
    expect(JSON.stringify(first.journal)).not.toContain(env.SECRET);
    const other = {
      ...first.journal,
      calls: first.journal.calls.map((call) => ({ ...call, answer: { ok: "recorded" } })),
    };
    expect(await resultOf(source, { env, journal: other })).toBe("recorded");
  });
});

describe("a test run", () => {
  const test = (source: string, options: Partial<RunOptions> = {}) =>
    testScript(source, { world: outside, ...options });

  it("reports suites by their path, cases and assertions", async () => {
    const report = await test(`test.describe("sums", fn() {
  test.describe("of two", fn() {
    test.it("adds", fn() { test.expect(1 + 1).toBe(2) })
    test.it("fails", fn() {
      test.expect(1).toEqual(2)
      test.expect("a").toBe("a")
    })
  })
})
test.it("alone", fn() { test.expect(null).toBeNull() })`);
    expect(report).toMatchObject({ passed: false, assertion_count: 4, error: null, findings: [] });
    expect(
      report.suites.map(({ name, describe, tests }) => [name, describe, tests.map((one) => [one.name, one.pass])]),
    ).toEqual([
      [
        "sums > of two",
        ["sums", "of two"],
        [
          ["adds", true],
          ["fails", false],
        ],
      ],
      ["", [], [["alone", true]]],
    ]);
    expect(report.tests[1]?.assertions[0]).toEqual({
      pass: false,
      kind: "expect",
      matcher: "toEqual",
      actual: 1,
      expected: 2,
      line: 5,
      describe: ["sums", "of two"],
      it: "fails",
    });
  });
  it("goes on after a case that fails in the middle, and says why", async () => {
    const { tests } = await test(
      'test.it("a", fn() { null.x })\ntest.it("b", fn() { result.err("no")? })\ntest.it("c", fn() { test.expect(1).toBe(1) })',
    );
    expect(tests.map(({ pass, error }) => [pass, error])).toEqual([
      [false, "line 1: this value is null, so it has no `x`"],
      [false, "no"],
      [true, null],
    ]);
  });
  it("names the line of an error in a function of ours", async () => {
    const { tests } = await test('test.it("a", fn() {\n array.sort([1, "a"])\n})');
    expect(tests[0]?.error).toBe("line 2: a number and a string have no order; sort by a function");
  });
  it("closes what a failed case had open: as many calls may nest in the next, and the input is the script's", async () => {
    const fails = (n: number) => `test.it("f${n}", fn() { test.withInput({ x: 1 }, fn() { d(100) }) })`;
    const report = await test(`let d = fn(n) { if (n <= 1) { null.x } else { 1 + d(n - 1) } }
let ok = fn(n) { if (n <= 1) { 1 } else { 1 + ok(n - 1) } }
${Array.from({ length: 50 }, (_, i) => fails(i)).join("\n")}
test.it("last", fn() { test.expect(ok(199)).toBe(199)
  test.expect($.x).toBeNull() })`);
    expect(report.tests.at(-1)).toMatchObject({ name: "last", error: null, pass: true });
  });
  it("takes expectations in a case alone", async () => {
    expect((await test("test.expect(1).toBe(1)")).error).toBe("`expect` stands in an `it`");
    const inner = await test('test.it("a", fn() { test.it("b", fn() { 1 }) })');
    expect(inner.tests[0]?.error).toBe("line 1: an `it` stands in a `describe`, not in another `it`");
  });
  it("fails a case that expects nothing, and a script without cases", async () => {
    expect((await test('test.it("a", fn() { 1 })')).tests[0]).toMatchObject({
      pass: false,
      error: "the case expects nothing",
    });
    expect(await test("1")).toMatchObject({ passed: false, error: "the script has no `test.it`" });
  });
  it("does not pass when a limit ends it", async () => {
    const report = await test(
      'test.it("a", fn() { test.expect(1).toBe(1)\n array.map(array.range(1000000), fn(x) { math.max(1, 2) }) })',
      { limits: { steps: 100_000 } },
    );
    expect(report).toMatchObject({ passed: false, error: expect.stringContaining("steps") });
  });
  it("answers calls by fakes, for the case alone", async () => {
    const report = await test(`test.it("faked", fn() {
  test.mock("requests.get", fn(url, options) { result.ok({ status: 201, body: url }) })
  test.mock("storage.get", fn(key) { result.ok(key + "!") })
  test.expect(requests.get("https://a.example.com").status).toBe(201)
  test.expect(unwrap(storage.get("k"))).toBe("k!")
})
test.it("real", fn() { test.expect(requests.get("https://a.example.com").status).toBe(200) })`);
    expect(report).toMatchObject({ passed: true });
  });
  it("does what is asked before each case, and can stand in for the input", async () => {
    const report = await test(`test.describe("a", fn() {
  test.beforeEach(fn() { test.mock("storage.get", fn(key) { result.ok(7) }) })
  test.it("b", fn() { test.expect(unwrap(storage.get("k"))).toBe(7) })
})
test.it("c", fn() { test.withInput({ x: 1 }, fn() { test.expect($.x).toBe(1) })
  test.expect($.x).toBeNull() })`);
    expect(report).toMatchObject({ passed: true });
  });
  it("calls what comes before each case once a case, however often its calls interrupt it", async () => {
    const get = (n: number) => `requests.get("https://a.example.com/${n}")`;
    const report = await test(`test.beforeEach(fn() { println("before") })
test.it("a", fn() { test.expect([${get(1)}.status, ${get(2)}.status]).toEqual([200, 200]) })
test.describe("inner", fn() {
  test.beforeEach(fn() { println("inner") })
  test.it("b", fn() { test.expect(${get(3)}.status).toBe(200) })
})
test.it("c", fn() { test.expect(1).toBe(1) })`);
    expect([report.passed, report.output.map(({ text }) => text)]).toEqual([
      true,
      ["before", "before", "inner", "before"],
    ]);
  });
  it("has the script's input again when a call interrupts what stands in for it", async () => {
    const report = await test(`test.it("a", fn() {
  test.expect($.x).toBeNull()
  test.withInput({ x: 1 }, fn() { test.expect([requests.get("https://a.example.com").status, $.x]).toEqual([200, 1]) })
})`);
    expect(report).toMatchObject({ passed: true, assertion_count: 2 });
  });
  it("counts a case once, however often its calls interrupt it", async () => {
    const report = await test(`test.describe("a", fn() {
  test.it("b", fn() { println("once")
    test.expect(requests.get("https://a.example.com/1").status).toBe(200)
    test.expect(requests.get("https://a.example.com/2").status).toBe(200) })
  test.it("c", fn() { test.expect(requests.get("https://a.example.com/3").status).toBe(200) })
})`);
    expect([report.tests.map(({ name }) => name), report.assertion_count, report.output.length]).toEqual([
      ["b", "c"],
      3,
      1,
    ]);
  });

  const matchers: [expectation: string, pass: boolean][] = [
    ["expect({ a: [1] }).toEqual({ a: [1] })", true],
    ["expect(1).toEqual('1')", false],
    ["expect(result.ok(1)).toBeOk()", true],
    ["expect(1).toBeOk()", false],
    ["expect(result.err('too long')).toBeError()", true],
    ["expect(result.err('too long')).toBeError('long')", true],
    ["expect(result.err('too long')).toBeError('short')", false],
    ["expect('abc').toContain('b')", true],
    ["expect([{ a: 1 }]).toContain({ a: 1 })", true],
    ["expect({ a: 1 }).toContain('a')", true],
    ["expect(5).toContain(5)", false],
    ["expect('abc').toMatch('^a.c$')", true],
    ["expect(5).toMatch('5')", false],
    ["expect('abc').toHaveLength(3)", true],
    ["expect([1]).toHaveLength(2)", false],
    ["expect(5).toHaveLength(1)", false],
    ["expect([]).toBeFalsy()", true],
    ["expect({}).toBeTruthy()", true],
    ["expect(2).toBeGreaterThan(1)", true],
    ["expect(1).toBeGreaterThan(1)", false],
    ["expect(0).toBeLessThan(1)", true],
    ["expect([]).toBeTruthy()", false],
    ["expect({}).toBeFalsy()", false],
    ["expect(1).toBeCloseTo(1.001)", false],
    ["expect(0).toBeNull()", false],
    ["expect(result.ok(1)).toBeError()", false],
    ["expect(result.err('x')).toBeOk()", false],
    ["expect([1]).toContain(2)", false],
    ["expect({ a: 1 }).toContain('b')", false],
    ["expect('abc').toMatch('^b')", false],
    ["expect({ a: 1 }).toHaveLength(1)", true],
    ["expect('b').toBeGreaterThan(1)", false],
    ["expect(1).toBeLessThan(1)", false],
    ["expect(0.1 + 0.2).toBeCloseTo(0.3)", true],
    ["expect(1).not.toBe(2)", true],
    ["expect(1).not.toBe(1)", false],
  ];
  for (const [expectation, pass] of matchers) {
    it(`${pass ? "passes" : "fails"} test.${expectation}`, async () => {
      const { tests } = await test(`test.it("a", fn() { test.${expectation} })`);
      expect(tests[0]).toMatchObject({ pass, error: null });
    });
  }
  it("suggests the matcher that was meant", async () => {
    const { tests } = await test('test.it("a", fn() { test.expect(1).toEqul(1) })');
    expect(tests[0]?.error).toContain("did you mean `toEqual`?");
  });
});
