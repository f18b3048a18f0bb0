import { describe, expect, it, vi } from "vitest";
import { LIMITS, runScript, validateScript } from "../../../lib/script/index.ts";
import { aWorld, failureOf, resultOf, run } from "./support.ts";

/** All of these end by themselves; the time only tells a hang from a limit. */
const SOON_MS = 12_000;

async function endsWith(code: string, source: string, options = {}) {
  const begun = performance.now();
  const failure = await failureOf(source, options);
  expect(failure.code).toBe(code);
  expect(performance.now() - begun).toBeLessThan(SOON_MS);
  return failure;
}

/** A fifth of the real limit, so that these tests take a fifth of the time. */
const FEWER = { limits: { steps: 2_000_000 } };

const twice = (times: number, start: string, step: string) =>
  `array.reduce(array.range(${times}), ${start}, fn(x, i) { ${step} })`;

describe("the limits", () => {
  it("are those that the reference tells", () => {
    expect(LIMITS).toEqual({
      ...{ time_ms: 30_000, steps: 100_000_000, steps_at_once: 80_000, steps_unbroken: 2_000_000 },
      ...{ memory_bytes: 41_943_040 },
      ...{
        call_depth: 200,
        source_bytes: 262_144,
        source_tokens: 50_000,
        output_bytes: 1_000_000,
        result_bytes: 8_000_000,
      },
      ...{ calls: 50, call_ms: 10_000, call_bytes: 1_000_000, imports: 20 },
    });
  });
  it("count nothing twice, however many calls interrupt an expression", async () => {
    const calls = 'array.forEach(array.range(10), fn(i) { requests.get("https://a.example.com") })';
    const source = `[array.length(array.range(30000)), println(string.repeat("a", 5000)), ${calls}]`;
    const limits = { memory_bytes: 600_000, output_bytes: 15_000, steps: 50_000 };
    expect(await run(source, { limits })).toMatchObject({ status: "done", error: null });
  });
  it("of depth do not shrink by the calls that interrupted deep functions", async () => {
    const brackets = (inner: string) => `${"[".repeat(60)}${inner}${"]".repeat(60)}`;
    const inner = `let f = fn() { ${brackets('requests.get("https://a.example.com")')} }\nlet g = fn() { ${brackets("f()")} }\n`;
    expect(await resultOf(`${inner}array.length(array.map(array.range(50), g))`)).toBe(50);
    const deep = 'let f = fn(n) { if (n == 0) { requests.get("https://a.example.com") } else { f(n - 1) } }\n';
    expect(await resultOf(`${deep}array.length(array.map(array.range(50), fn(i) { f(10) }))`)).toBe(50);
  });
});

describe("a thousand steps", () => {
  const each: [what: string, source: string][] = [
    ["values in a block", "1;"],
    ["names", "a;"],
    ["calls of functions of ours", "[math.abs(a)];"],
    ["calls of functions of the script", "[f(a)];"],
    ["calls of functions by a value", "[abs(a)];"],
    ["members", "[o.a];"],
    ["members of the input", "[$.a];"],
    ["items", "[l[0]];"],
    ["sums", "[a + 1];"],
    ["longer sums", "[a + 1 - a * a];"],
    ["comparisons", "[a < 1];"],
    ["comparisons by content", "[a == 1];"],
    ["conditions", "[a ? a : a];"],
    ["signs", "[!a];"],
    ["minuses", "[-a];"],
    ["questions", "[a?];"],
    ["names given", "let b = a;"],
    ["both of two", "[a && a];"],
    ["one of two", "[a || a];"],
    ["several conditions", "if (!a) { 1 } else if (a) { 2 };"],
  ];
  const before = "let a = 1; let l = [1]; let o = { a: 1 }; let abs = math.abs; let f = fn(x) { x }\n";
  for (const [what, source] of each) {
    it(`are taken by as many ${what}`, async () => {
      // One by one, so that a block's own steps do not count: all but the first two cost more than a block does.
      const often = (n: number) => `${before}let g = fn() { ${source.repeat(n)} a }\ng()`;
      expect((await run(often(100), { limits: { steps: 1000 } })).code).toBeNull();
      const most = source.length > 2 ? 1990 : 990;
      expect((await run(often(1000), { limits: { steps: most } })).code).toBe("limit_steps");
    });
  }
});

describe("steps", () => {
  const endless: [what: string, source: string][] = [
    ["a loop in a loop", twice(1_000_000, "0", `${twice(1_000_000, "0", "x + 1")}`)],
    ["recursion that branches", "let f = fn(n) { if (n == 0) { 1 } else { f(n - 1) + f(n - 1) } }\nf(60)"],
    [
      "comparing large values again and again",
      "let a = array.range(1000000)\nlet b = array.range(1000000)\narray.map(a, fn(x) { a == b })",
    ],
    [
      "searching a long text again and again",
      "let s = string.repeat('a', 1000000)\narray.map(array.range(1000000), fn(x) { string.indexOf(s, 'b') })",
    ],
    ["sorting with a function", "let l = array.range(1000000)\narray.sort(l, fn(a, b) { b - a })"],
    ["distinct objects", "array.unique(array.map(array.range(100000), fn(i) { { i: i } }))"],
    ["a body full of what costs nothing", `let f = fn() { ${"1;".repeat(24_000)} }\narray.map(array.range(100000), f)`],
    ["a chain of what is true", `let f = fn() { ${"1&&".repeat(24_000)}1 }\narray.map(array.range(100000), f)`],
    ["paths from the input", `let f = fn() { ${"$.a;".repeat(12_000)} }\narray.map(array.range(100000), f)`],
    [
      "searching a part that almost fits",
      "let s = string.repeat('a', 500000)\nlet p = 'b' + string.repeat('a', 250000)\narray.map(array.range(1000), fn(x) { string.indexOf(s, p) })",
    ],
    [
      "comparing long texts that are equal",
      "let a = array.map([1, 2], fn(x) { string.repeat('a', 4000000) })\narray.map(array.range(1000000), fn(x) { a[0] == a[1] })",
    ],
    ["reading ever new patterns", "array.map(array.range(1000000), fn(i) { string.test('', '(a{1000}){3}' + i) })"],
    ["asking the clocks of a zone", "array.map(array.range(1000000), fn(i) { datetime.hour(i, 'Europe/Berlin') })"],
    ["a long pattern over a long text", "string.test(string.repeat('a', 1000000), '(a|a|a|a|a|a|a|a|a|a|a|a){100}b')"],
  ];
  for (const [what, source] of endless)
    it(`end ${what}`, async () => void (await endsWith("limit_steps", source, FEWER)));

  it("are as many as the limit says", async () => {
    const count = (n: number) => `array.reduce(array.range(${n}), 0, fn(x, i) { x + i - i + i - i + i - i + i })`;
    expect((await run(count(120_000), FEWER)).code).toBe(null);
    await endsWith("limit_steps", `${count(120_000)}\n${count(120_000)}`, FEWER);
  });
  it("are the same however often a run is taken up again", async () => {
    const work = "array.sum(array.map(array.range(100000), fn(i) { i + 1 }))";
    const calls = Array.from({ length: 40 }, (_, i) => `let r${i} = requests.get("https://a.example.com/${i}")`).join(
      "\n",
    );
    expect(await resultOf(`let w = ${work}\n${calls}\nw`)).toBe(5000050000);
  });
});

describe("others have their turn", () => {
  const objects = "array.map(array.range(3000), fn(i) { { i: i } })";
  const long: [what: string, source: string][] = [
    ["recursion", "let f = fn(n) { if (n < 2) { n } else { f(n - 1) + f(n - 2) } }\nf(60)"],
    ["a loop", twice(1_000_000, "0", "x + i + i + i")],
    ["a loop in a loop", `array.map(array.range(1000), fn(j) { ${twice(1_000, "0", "x + 1")} })`],
    ["sorting by a function", "array.sort(array.range(100000), fn(a, b) { b - a })"],
    ["sorting", "array.sort(array.range(200000))"],
    ["distinct objects", `array.unique(${objects})`],
    ["differences", `let l = ${objects}\narray.difference(l, array.reverse(l))`],
    ["finding", `let l = array.repeat([1, 2, 3], 300000)\narray.indexOf(l, [1, 2, 4])`],
    ["finding by a function", "array.find(array.range(1000000), fn(x) { x + x + x + x < 0 })"],
    ["groups", "array.groupBy(array.range(300000), fn(x) { x + x + x + x + x + x + x + x; 1 })"],
    ["objects' fields", `map.mapValues({ a: 1 }, fn(v) { ${twice(1_000_000, "0", "x + 1")} })`],
    ["results", `result.map(result.ok(1), fn(v) { ${twice(1_000_000, "0", "x + 1")} })`],
    ["a pattern over a long text", "string.test(string.repeat('a', 1000000), 'b')"],
    ["many matches", "string.splitPattern(string.repeat('a', 200000), 'a')"],
    ["replacements by a function", "string.replacePattern(string.repeat('a', 100000), 'a', fn(m) { m.match + 'b' })"],
    ["an imported script", 'import("script:a")'],
    ["a long text for an address", "string.slug(string.repeat('\ufdfa', 100000))"],
    ["reading JSON", "string.parseJson('[' + string.repeat('[{}],', 100000) + '1]')"],
    ["many expressions", `let l = array.range(100000)\n${"array.sum(l);".repeat(200)}`],
  ];
  for (const [what, source] of long) {
    it(`every 80,000 steps, in ${what}`, async () => {
      let turns = 0;
      const rest = async () => void turns++;
      const scripts = async () => twice(1_000_000, "0", "x + 1");
      const { code, error } = await run(source, {
        world: { ...aWorld(), rest },
        scripts,
        limits: { steps: 3_000_000 },
      });
      expect([null, "limit_steps", "limit_memory"]).toContain(code);
      expect(error ?? "").not.toContain("one operation");
      expect(turns).toBeGreaterThanOrEqual(2);
      expect(turns).toBeLessThanOrEqual(38);
    });
  }
  it("and what cannot wait is bounded by itself", async () => {
    const error = "one operation took more than 2,000,000 steps; do it in parts";
    const doubled = twice(40, "[1]", "[x, x]");
    expect(await failureOf(`let a = ${doubled}\nlet b = ${doubled}\na == b`)).toMatchObject({
      code: "limit_steps",
      error,
    });
  });
});

describe("time", () => {
  it("is looked at while a script computes", async () => {
    let now = 0;
    const clock = () => {
      now += 1000;
      return now;
    };
    const world = { ...aWorld(), now: clock };
    await endsWith("limit_time", twice(1_000_000, "0", "x + 1"), { world });
  });
  it("passes while calls are answered", async () => {
    let now = 0;
    const call = async () => {
      now += 31_000;
      return { ok: 1 };
    };
    const world = { ...aWorld(), now: () => now, call };
    await endsWith("limit_time", 'requests.get("https://a.example.com")', { world });
  });
  it("is left to a call as long as there is some", async () => {
    const answer = (ms: number) => ({
      ...aWorld(),
      now: () => Date.now(),
      call: () => new Promise<{ ok: number }>((resolve) => setTimeout(() => resolve({ ok: 1 }), ms)),
    });
    expect(await resultOf('requests.get("https://a.example.com")', { world: answer(150) })).toBe(1);
    const begun = performance.now();
    const limits = { time_ms: 100, call_ms: 10_000 };
    const { code } = await failureOf('requests.get("https://a.example.com")', { world: answer(5_000), limits });
    expect([code, performance.now() - begun < 3_000]).toEqual(["limit_time", true]);
  });
  it("of a call that was answered leaves no timer behind", async () => {
    vi.useFakeTimers();
    try {
      await run('requests.get("https://a.example.com")');
      expect(vi.getTimerCount()).toBe(0);
    } finally {
      vi.useRealTimers();
    }
  });
  it("ends a call that is never answered", async () => {
    const world = { ...aWorld(), call: () => new Promise<never>(() => {}) };
    const { error } = await failureOf('unwrap(requests.get("https://a.example.com"))', {
      world,
      limits: { call_ms: 50 },
    });
    expect(error).toContain("took longer than");
  });
});

describe("memory", () => {
  const growing: [what: string, source: string][] = [
    ["a text that doubles", twice(100, "'x'", "x + x")],
    ["a list that doubles", twice(100, "[1]", "array.concat(x, x)")],
    ["a repeated text", "string.repeat('abc', 1000000000)"],
    ["a padded text", "string.padStart('a', 1000000000, 'b')"],
    ["a replacement", "string.replace(string.repeat('a', 100000), 'a', string.repeat('b', 100000))"],
    ["a replacement by groups", "string.replacePattern(string.repeat('a', 10000), '(a*)', string.repeat('$1', 10000))"],
    ["an empty replacement", "string.replace(string.repeat('a', 100000), '', string.repeat('b', 100000))"],
    ["a repeated item", "array.repeat(1, 1000000000)"],
    ["a joined list", "array.join(array.repeat(string.repeat('a', 1000000), 1000), '')"],
    ["a flattened list", "let l = array.repeat(1, 1000000)\narray.flat(array.repeat(l, 1000))"],
    ["objects", twice(1_000_000, "{}", "map.set(x, 'k' + i, i)")],
    ["JSON of a value that holds itself many times", `string.toJson(${twice(60, "[1]", "[x, x]")})`],
    ["the text of such a value", `'' + ${twice(60, "[1]", "[x, x]")}`],
    ["the result of such a script", twice(60, "[1]", "[x, x]")],
    ["a template", "string.template(string.repeat('{{a}}', 100000), { a: string.repeat('b', 100000) })"],
    [
      "functions that keep many names alive",
      `let f = fn() { if (false) { ${"let a = 1;".repeat(900)} }\nlet z = 1\nfn() { z } }\n${twice(1_000_000, "[]", "array.push(x, f())")}`,
    ],
    ["empty arrays", "array.map(array.range(1000000), fn(i) { [[]] })"],
    ["results", "array.map(array.range(1000000), fn(i) { [result.ok(i), result.ok(i)] })"],
    ["closures", twice(1_000_000, "fn() { 1 }", "fn() { x }")],
  ];
  for (const [what, source] of growing) {
    it(`ends ${what}`, async () => {
      const { code } = await failureOf(source);
      expect(["limit_memory", "limit_steps", "limit_output"]).toContain(code);
    });
  }
  it("bounds a range", async () => {
    expect((await failureOf("array.range(1000000000)")).error).toContain("at most 1,000,000 numbers");
  });
  it("is enough for what tools do: a text of 1000 lines joined by hand", async () => {
    const source = twice(1000, "''", "x + 'line ' + i + '\\n'");
    expect((await resultOf(source)) as string).toHaveLength(9890 - 1000 + 0 + 0 + 0);
  });
});

describe("what a run starts with", () => {
  const limits = { memory_bytes: 100_000 };
  const many = Array.from({ length: 1000 }, () => ({}));
  it("is paid for: its input, its variables, whom it runs as, its source and imported ones", async () => {
    expect((await run("1", { limits })).code).toBeNull();
    await endsWith("limit_memory", "1", { limits, input: many });
    await endsWith("limit_memory", "1", { limits, env: { KEY: "a".repeat(60_000) } });
    await endsWith("limit_memory", "1", { limits, viewer: { name: "a".repeat(60_000) } });
    await endsWith("limit_memory", "1;".repeat(100), { limits });
    await endsWith("limit_memory", 'import("script:a")', { limits, scripts: async () => "1;".repeat(100) });
  });
  it("and every answer is, as the journal keeps it beside its value", async () => {
    const source = "array.forEach(array.range(3), fn(i) { storage.get('a') })";
    const options = (memory_bytes: number) => ({ world: aWorld(() => ({ ok: many })), limits: { memory_bytes } });
    expect((await run(source, options(900_000))).code).toBeNull();
    await endsWith("limit_memory", source, options(600_000));
    const { journal } = await run(source, options(900_000));
    await endsWith("limit_memory", source, { ...options(600_000), journal });
  });
});

describe("depth", () => {
  const deep: [what: string, source: string][] = [
    ["recursion without an end", "let f = fn(n) { f(n + 1) }\nf(0)"],
    ["mutual recursion", "let f = fn(n) { g(n) }\nlet g = fn(n) { f(n) }\nf(0)"],
    ["recursion through our own functions", "let f = fn(n) { array.map([n], f) }\nf(0)"],
    ["recursion of large bodies", `let f = fn(n) { ${"[".repeat(150)}f(n)${"]".repeat(150)} }\nf(0)`],
    ["recursion in a comparison", "let f = fn(a, b) { array.sort([1, 2], f) }\nf(1, 2)"],
    ["comparing deep values", `${twice(100000, "[]", "[x]")} == ${twice(100000, "[]", "[x]")}`],
    ["printing deep values", `println(${twice(100000, "[]", "[x]")})`],
    ["a deep result", twice(100000, "[]", "{ a: x }")],
    ["a result of results", twice(100000, "1", "result.ok(x)")],
    ["a field of results of results", `${twice(100000, "{ a: 1 }", "result.ok(x)")}.a`],
    ["comparing deep objects", `${twice(1000, "1", "{ a: x }")} == ${twice(1000, "1", "{ a: x }")}`],
    ["comparing deep results", `${twice(1000, "1", "result.ok(x)")} == ${twice(1000, "1", "result.ok(x)")}`],
    ["reading deep JSON", "string.parseJson(string.repeat('[', 1000) + string.repeat(']', 1000)); 1"],
    ["reading deep objects", `string.parseJson(string.repeat('{"a":', 1000) + '1' + string.repeat('}', 1000)); 1`],
  ];
  for (const [what, source] of deep) it(`ends ${what}`, async () => void (await endsWith("limit_depth", source)));

  it("lets values nest 201 deep where they are compared, printed and read", async () => {
    const nested = (n: number) => twice(n, "1", "[x]");
    for (const source of [
      (n: number) => `${nested(n)} == ${nested(n)}`,
      (n: number) => `println(${nested(n)})`,
      (n: number) => nested(n),
      (n: number) => `string.parseJson(string.repeat('[', ${n}) + string.repeat(']', ${n})); 1`,
    ]) {
      expect((await run(source(201))).code).toBeNull();
      expect((await run(source(202))).code).toBe("limit_depth");
    }
  });
  it("counts how deep the expressions of functions nest", async () => {
    const source = (n: number) =>
      `let f = fn(n) { ${"[".repeat(60)}if (n > 1) { f(n - 1) }${"]".repeat(60)} }\nf(${n})`;
    expect((await failureOf(`${source(100)}`)).error).toContain("with large expressions");
    expect((await run(`${source(25)}; 1`)).code).toBeNull();
  });
  it("lets 200 calls nest", async () => {
    const source = (n: number) => `let f = fn(n) { if (n <= 1) { 1 } else { 1 + f(n - 1) } }\nf(${n})`;
    expect(await resultOf(source(200))).toBe(200);
    const error = "functions call each other more than 200 deep";
    expect(await failureOf(source(201))).toMatchObject({ code: "limit_depth", error });
  });

  const nested: [what: string, source: string][] = [
    ["brackets", "(".repeat(49_000)],
    ["closed brackets", `${"(".repeat(24_000)}1${")".repeat(24_000)}`],
    ["arrays", "[".repeat(49_000)],
    ["objects", "{a:".repeat(16_000)],
    ["blocks", "if(1){".repeat(9_000)],
    ["functions", "fn(){".repeat(12_000)],
    ["signs", "!".repeat(49_000)],
    ["minuses", "-".repeat(49_000)],
    ["questions", "a?".repeat(20_000)],
    ["nested questions", "a?(".repeat(16_000)],
    ["conditions", `${"1?".repeat(12_000)}1${":1".repeat(12_000)}`],
    ["members", `$${".a".repeat(24_000)}`],
    ["calls", `f${"()".repeat(24_000)}`],
    ["indexes", "$[".repeat(24_000)],
    ["types", `let x: ${"a<".repeat(24_000)}`],
    ["comparisons", `1${"<1".repeat(24_000)}`],
    ["comments", "/*".repeat(100_000)],
  ];
  for (const [what, source] of nested) {
    it(`of ${what} in a source is a finding`, () => {
      const begun = performance.now();
      const { error } = validateScript(source);
      expect(error).not.toBeNull();
      expect(error).not.toContain("50,000");
      expect(performance.now() - begun).toBeLessThan(SOON_MS);
    });
  }
  it("does not count what only goes on: long sums, chains of else and `&&`", async () => {
    expect(await resultOf(`1${" + 1".repeat(20_000)}`)).toBe(20_001);
    expect(await resultOf(`if (false) { 1 }${" else if (false) { 2 }".repeat(2000)} else { 3 }`)).toBe(3);
    expect(await resultOf(`true${" && true".repeat(20_000)}`)).toBe(true);
  });
});

describe("a call", () => {
  it("has at most 255 arguments, and a function as many parameters", () => {
    expect(validateScript(`math.max(${"1,".repeat(256)})`).error).toContain("at most 255 arguments");
    expect(validateScript(`fn(${"a,".repeat(256)}) { 1 }`).error).toContain("at most 255 parameters");
    expect(validateScript(`math.max(${"1,".repeat(255)})`).error).toBeNull();
  });
});

describe("a source", () => {
  it("of more than 256 KB is refused", async () => {
    expect(validateScript(" ".repeat(LIMITS.source_bytes)).ok).toBe(true);
    expect(await failureOf(" ".repeat(LIMITS.source_bytes + 1))).toMatchObject({ code: "limit_source" });
    expect(await failureOf(`"${"é".repeat(LIMITS.source_bytes / 2)}"`)).toMatchObject({ code: "limit_source" });
  });
  it("of more than 50,000 words, values and signs is refused, to be run as to be checked", async () => {
    const error = "the script has more than 50,000 words, values and signs";
    expect(validateScript("1;".repeat(25_000)).error).toBeNull();
    expect(validateScript(`1${";1".repeat(25_000)}`).error).toBe(error);
    expect(await failureOf(`1${";1".repeat(25_000)}`)).toMatchObject({ code: "limit_source", error });
    // Unclosed, and so refused before it is known that nothing closes it.
    expect(validateScript("[".repeat(200_000)).error).toBe(error);
  });
  it("that is imported is paid for before it is made", async () => {
    const { code, error } = await failureOf('import("script:a")', {
      limits: { memory_bytes: 1024 * 1024 },
      scripts: async () => `${"1;".repeat(20_000)}]`,
    });
    expect([code, error]).toEqual(["limit_memory", "the script built more than 1 MB of values"]);
  });
  const slow: [what: string, source: string][] = [
    ["names given again", "let a=1;".repeat(9_000)],
    ["unknown names", Array.from({ length: 30_000 }, (_, i) => `x${i}`).join("\n")],
    ["names used by functions", "let a=1;fn(){a};".repeat(4_000)],
    ["questions side by side", "a?;".repeat(16_000)],
    ["questions that are tried in vain", `${"[a?[".repeat(40)}${"b,".repeat(24_000)}`],
  ];
  for (const [what, source] of slow) {
    it(`full of ${what} is read in time`, () => {
      const begun = performance.now();
      expect(validateScript(source).error ?? "").not.toContain("50,000");
      expect(performance.now() - begun).toBeLessThan(SOON_MS);
    });
  }
});

describe("a result", () => {
  it("of more than 8 MB ends the script, whatever it is made of", async () => {
    await endsWith("limit_output", "array.repeat(string.repeat('a', 1000000), 10)");
    await endsWith("limit_output", "array.repeat(array.repeat(null, 100000), 11)");
    await endsWith("limit_output", "array.repeat({ a: 1, b: 2 }, 100000)");
  });
  it("counts into the memory", async () => {
    const source = "let l = array.repeat(null, 100000)\n[l, l, l]";
    await endsWith("limit_memory", source, { limits: { memory_bytes: 2_000_000 } });
  });
});

describe("output", () => {
  it("of exactly the limit is written", async () => {
    // 50 for the entry, 2 for the blank and the bracket around, 7 for the text, 9 for it as JSON between brackets.
    const source = 'println("abcdef")';
    expect((await run(source, { limits: { output_bytes: 67 } })).code).toBeNull();
    expect((await run(source, { limits: { output_bytes: 66 } })).code).toBe("limit_output");
  });
  it("of more than 1 MB ends the script, and what was printed before stays", async () => {
    const { code, output } = await run(twice(100_000, "0", "println(string.repeat('x', 1000))"));
    expect(code).toBe("limit_output");
    expect(output.length).toBeGreaterThan(100);
  });
});

describe("outbound calls", () => {
  it("are 50 at most", async () => {
    const source = (n: number) =>
      `array.length(array.map(array.range(${n}), fn(i) { requests.get("https://a.example.com") }))`;
    expect(await resultOf(source(50))).toBe(50);
    await endsWith("limit_calls", source(51));
  });
  it("that answer more than allowed are errors", async () => {
    const world = aWorld(() => ({ ok: { body: "x".repeat(3_000_000) } }));
    const { error } = await failureOf('unwrap(requests.get("https://a.example.com"))', { world });
    expect(error).toContain("more than 1 MB");
    const ofSize = (characters: number) => ({ world: aWorld(() => ({ ok: "x".repeat(characters - 2) })) });
    expect(await resultOf('result.isOk(requests.get("https://a.example.com"))', ofSize(2_000_000))).toBe(true);
    expect(await resultOf('result.isOk(requests.get("https://a.example.com"))', ofSize(2_000_001))).toBe(false);
  });
});

describe("a hostile comparison", () => {
  it("that contradicts itself still ends, with all items", async () => {
    const source = "array.length(array.sort(array.range(1000), fn(a, b) { math.random() - 0.5 }))";
    expect(await resultOf(source)).toBe(1000);
  });
  it("that gives no number is an error", async () => {
    expect((await failureOf("array.sort([1, 2], fn(a, b) { 'x' })")).error).toContain("a number below, at or above 0");
  });
});

describe("speed", () => {
  const lines = (n: number) =>
    Array.from(
      { length: n / 5 },
      (_, i) =>
        `let r${i} = if ($.a != null) { $.a } else { ${i} }\nlet l${i} = array.map([1, 2, 3], fn(x) {\n  { value: x * ${i} + 2, name: "n" + x }\n})\nprintln("row", l${i}[0].value)`,
    );

  it("reads and checks 500 lines in some milliseconds", () => {
    const times = Array.from({ length: 40 }, (_, i) => {
      const source = `// ${i}\n${lines(500).join("\n")}`;
      const begun = performance.now();
      expect(validateScript(source).ok).toBe(true);
      return performance.now() - begun;
    }).sort((a, b) => a - b);
    console.log(`500 lines: median ${times[20]!.toFixed(2)} ms, best ${times[0]!.toFixed(2)} ms (target 5)`);
    // The best of forty: what else the machine does at the time is no matter of ours.
    expect(times[0]!).toBeLessThan(15);
  });
  it("takes a million steps in a fraction of a second", async () => {
    const source = twice(200_000, "0", "if (i % 2 == 0) { x + i * 3 } else { x - 1 }");
    const times: number[] = [];
    for (let i = 0; i < 5; i++) {
      const begun = process.cpuUsage();
      await runScript(source, { world: aWorld() });
      const { user, system } = process.cpuUsage(begun);
      times.push((user + system) / 1000);
    }
    times.sort((a, b) => a - b);
    console.log(`1,000,000 steps: median ${times[2]!.toFixed(1)} ms of the processor (target 250)`);
    expect(times[0]!).toBeLessThan(750);
  });
  it("is much the same for a step, whatever it is a step of", async () => {
    const each = [
      twice(200_000, "0", "if (i % 2 == 0) { x + i * 3 } else { x - 1 }"),
      "let f = fn(n) { if (n < 2) { n } else { f(n - 1) + f(n - 2) } }\nf(40)",
      "array.sort(array.map(array.range(40000), fn(i) { math.random() }))",
      "string.test(string.repeat('a', 100000), '(a|a|a|a){20}b')",
    ];
    const best = each.map(() => Number.POSITIVE_INFINITY);
    for (let i = 0; i < 4; i++) {
      for (const [n, source] of each.entries()) {
        const begun = process.cpuUsage();
        await run(source, { limits: { steps: 500_000 } });
        const { user, system } = process.cpuUsage(begun);
        best[n] = Math.min(best[n]!, user + system);
      }
    }
    // All end by the limit of steps; what else the machine does takes no time of the process.
    for (const [n, us] of best.entries()) expect([n, us / best[0]! < 6]).toEqual([n, true]);
  });
});
