import { describe, expect, it } from "vitest";
import { failureOf, resultOf, run } from "./support.ts";

const values: [source: string, value: unknown][] = [
  // Literals
  ["42", 42],
  ["1.5e2", 150],
  ["2E-1", 0.2],
  ["true", true],
  ["null", null],
  ['"a\\n\\t\\"\\\\\\u00e9\\u{1f600}"', 'a\n\t"\\é😀'],
  ["'a\"b'", 'a"b'],
  ['"\\d+"', "\\d+"],
  ['"two\nlines"', "two\nlines"],
  ["[1, 2, 3,]", [1, 2, 3]],
  ['{ a: 1, "b c": 2, if: 3, }', { a: 1, "b c": 2, if: 3 }],
  ["let a = 1\n{ a }", { a: 1 }],
  ["{}", {}],
  // Comments
  ["1 // one\n", 1],
  ["/* a /* b */ c */ 2", 2],
  // Precedence
  ["1 + 2 * 3", 7],
  ["(1 + 2) * 3", 9],
  ["10 - 2 - 3", 5],
  ["2 * 3 % 4", 2],
  ["-2 + 3", 1],
  ["--2", 2],
  ["!true == false", true],
  ["1 + 1 == 2 && 2 < 3 || false", true],
  ["1 < 2 == true", true],
  ["false && 1 / 0 || 5", 5],
  ["true ? false ? 1 : 2 : 3", 2],
  ["false ? 1 : true ? 2 : 3", 2],
  ["1 == 1 ? 1 + 1 : 0", 2],
  ["-$.a * 2", -6],
  ["!$.list[0]", false],
  ["7 / 2", 3.5],
  ["-7 % 3", -1],
  // Text
  ['"a" + 1 + null + true', "a1nulltrue"],
  ['1 + 2 + "a"', "3a"],
  ['"" + [1, { a: null }]', '[1,{"a":null}]'],
  ['"" + 3.0', "3"],
  ['"" + array + array.map + fn() { 1 }', "<namespace array><fn><fn>"],
  ["string.toString(result.ok([1])) + string.toString(result.err('a\"'))", 'ok([1])error("a\\"")'],
  // Equality
  ["[1, { a: [2] }] == [1, { a: [2] }]", true],
  ["{ a: 1, b: 2 } == { b: 2, a: 1 }", true],
  ["{ a: 1 } == { a: 1, b: null }", false],
  ['1 == "1"', false],
  ["null == null", true],
  ["[null == {}, {} == null, 1 == {}, [] == {}, {} == [], [] == null, 'a' == ['a']]", Array(7).fill(false)],
  ["[[1, 2] == [1, 3], [1, 2] == [2, 2], [1] == [1, 2], [1, 2] == [1], [] == []]", [false, false, false, false, true]],
  ["[{ a: 1 } == { a: 2 }, { a: 1 } == { b: 1 }, {} == { a: null }, { a: null } == {}]", Array(4).fill(false)],
  ["[result.ok(1) == result.ok(1), result.err('a') == result.err('a')]", [true, true]],
  [
    "[result.ok(1) == result.ok(2), result.err('a') == result.err('b'), result.ok(null) == result.err('')]",
    Array(3).fill(false),
  ],
  ["[result.ok(1) == 1, 1 == result.ok(1), result.ok({}) == {}]", Array(3).fill(false)],
  ["let f = fn() { 1 }\n[f == f, f == fn() { 1 }, array == array, array == string]", [true, false, true, false]],
  ['"a" < "b"', true],
  [
    "[1 < 1, 1 <= 1, 1 > 1, 1 >= 1, 1 < 2, 2 <= 1, 2 > 1, 1 >= 2]",
    [false, true, false, true, true, false, true, false],
  ],
  ["['a' < 'a', 'a' <= 'a', 'a' > 'a', 'a' >= 'a', 'b' > 'a']", [false, true, false, true, true]],
  // Truth
  ["array.map([null, 0, 0.0, false, '', []], fn(x) { x ? 1 : 0 })", [0, 0, 0, 0, 0, 0]],
  ["array.map([{}, 'a', [0], -1, result.err('x')], fn(x) { x ? 1 : 0 })", [1, 1, 1, 1, 1]],
  ["null || 'b'", "b"],
  ["1 && 2", 2],
  ["0 && 2", 0],
  // Names
  ["let x = 1\nlet x = x + 1\nx", 2],
  ["let x = 1\nif (true) { let x = 2\nx }\nx", 1],
  ["let x: number = 1\nlet y: array<string | number>? = []\nx", 1],
  ["let f = fn(x) { let y = x\ny }\nlet y = 5\nf(1) + y", 6],
  ["let x = 1; let y = 2; x + y", 3],
  ["let x = 1 let y = 2\nx + y", 3],
  ["let x = 5", 5],
  ["", null],
  // Conditions
  ["if (1 > 2) { 1 }", null],
  ["if (false) { 1 } else if (true) { 2 } else { 3 }", 2],
  ["if (true) { 1 }\nelse { 2 }", 1],
  ["if (true) { }", null],
  ["if (true) { { ok: true } }", { ok: true }],
  ["let a = if (false) { 1 } else { 2 }\na * 2", 4],
  // Functions
  ["fn(a, b) { a + b }(1, 2)", 3],
  ["let f = fn(a, b) { b }\nf(1)", null],
  ["let f = fn(a) { a }\nf(1, 2)", 1],
  ["let add = fn(a) { fn(b) { a + b } }\nadd(1)(2)", 3],
  ["let fact = fn(n) { if (n < 2) { 1 } else { n * fact(n - 1) } }\nfact(10)", 3628800],
  ["let even = fn(n) { n == 0 ? true : odd(n - 1) }\nlet odd = fn(n) { n == 0 ? false : even(n - 1) }\neven(10)", true],
  ["let x = 1\nlet f = fn() { x }\nlet x = 2\nf()", 1],
  ["let f = fn(x) { x }\nlet f = fn(x) { x == 0 ? 'new' : f(x - 1) }\nf(1)", "new"],
  ["let o = { f: fn(x) { x * 2 } }\no.f(4)", 8],
  ["fn() { }()", null],
  ["let f = array.length\nf([1])", 1],
  ["array.map([' a '], string.trim)", ["a"]],
  // Members
  ["{ a: { b: 1 } }.a.b", 1],
  ["{ a: 1 }.b", null],
  ["[1, 2][1]", 2],
  ["[1][5]", null],
  ["[1][-1]", null],
  ['"abc"[1]', "b"],
  ['{ a: 1 }["a"]', 1],
  ['{ "1": 5 }[1]', 5],
  ["$.list['x']", null],
  ["$[0]", null],
  ["{ a: 1 }\n.a", 1],
  ["$.a", 3],
  ["$.no.such[0].thing", null],
  ["$.list[1].name", "two"],
  ["env.NAME + env.MISSING", "valuenull"],
  ["viewer.id", "usr_1"],
  // Results
  ["result.ok({ a: 1 }).a", 1],
  ["result.ok([5])[0]", 5],
  ["unwrap(result.ok(1)) + unwrap(result.err('x'), 2) + unwrap(3)", 6],
  ["unwrap(result.err('x'), null)", null],
  ["result.ok(1)? + 1", 2],
  ["let f = fn() { result.err('x')?\n1 }\nresult.message(f())", "x"],
  ["let f = fn(r) { r? + 1 }\n[f(result.ok(1)), result.isErr(f(result.err('x')))]", [2, true]],
  ["array.map([result.err('x')], fn(r) { unwrap(r, 0) })", [0]],
  ["result.ok(1)", 1],
  ["[result.err('x')]", [{ error: "x" }]],
  ["null?.b", null],
  // Modules of our own
  ['let a = import("array")\na.length([1])', 1],
  ['import("string").uppercase("a")', "A"],
  ["math.pi > 3", true],
];

describe("an expression", () => {
  const options = { input: { a: 3, list: [1, { name: "two" }] }, env: { NAME: "value" }, viewer: { id: "usr_1" } };
  for (const [source, value] of values) {
    it(`${JSON.stringify(source)} is ${JSON.stringify(value)}`, async () => {
      expect(await resultOf(source, options)).toEqual(value);
    });
  }
});

describe("the postfix `?` and the question", () => {
  const cases: [source: string, value: unknown][] = [
    ["a?", 1],
    ["a? + 1", 2],
    ["t ? 2 : 3", 2],
    ["t ? a? : 3", 1],
    ["t? ? 2 : 3", 2],
    ["u ? 2 : a?", 1],
    ["{ k: a? }", { k: 1 }],
    ["[a?, a?]", [1, 1]],
    ["f(a?)", 1],
    ["f(o)?.x", 4],
    ["t ? -1 : 1", -1],
    ["t ? (2) : (3)", 2],
    ["t ? [2] : [3]", [2]],
    ["t ? { k: a? } : 3", { k: 1 }],
    ["t ? u ? 1 : 2 : 3", 2],
    ["u ? 1 : u ? 2 : 3", 3],
    ["(t ? a : b)?", 1],
    ["let x = f(a)?\nf(x)", 1],
    ["let x = f(a)?\n{ ok: x }", { ok: 1 }],
    ["let x = f(a)?\n[x]", [1]],
    ["let x = f(a)?\n-x", -1],
    ["t\n? 2\n: 3", 2],
    ["t ?\n2 :\n3", 2],
    ["if (a?) { 2 } else { 3 }", 2],
    ["a? == 1 && t", true],
    ["!a?", false],
    ["fn(x) { x? }(a)", 1],
  ];
  for (const [source, value] of cases) {
    it(`are told apart in ${JSON.stringify(source)}`, async () => {
      const before =
        "let a = result.ok(1); let t = true; let u = false; let b = 2; let f = fn(x) { x }; let o = result.ok({ x: 4 })\n";
      expect(await resultOf(before + source)).toEqual(value);
    });
  }
});

describe("a line's end", () => {
  const cases: [source: string, value: unknown][] = [
    ["let a = 1\n(2 + 3)", 5],
    ["let a = [1]\n[0]", [0]],
    ["let a = 5\n-a", -5],
    ["let a = 5\n{ a: a }", { a: 5 }],
    ["1\n+ 2\n* 3", 7],
    ["1 +\n2", 3],
    ["true\n&& false\n|| 5", 5],
    ["{ a: 1 }\n  .a", 1],
    ["(5\n-3)", 2],
    ["math.max(5\n-3)", 2],
    ["array\n.length([1])", 1],
    ["1 == 1\n== true", true],
  ];
  for (const [source, value] of cases) {
    it(`in ${JSON.stringify(source)} gives ${JSON.stringify(value)}`, async () => {
      expect(await resultOf(source)).toEqual(value);
    });
  }
});

describe("a script that cannot go on", () => {
  const cases: [source: string, message: string, at: [line: number, column: number]][] = [
    ["1 / 0", "division by zero", [1, 3]],
    ["5 % 0", "division by zero", [1, 3]],
    ["1e308 * 10", "too large a number", [1, 7]],
    ["let a = null\na.b", "`a` is null, so it has no `b`", [2, 3]],
    ["let a = {}\na.b.c", "`a.b` is null, so it has no `c`", [2, 5]],
    ["null + 1", "adds numbers or joins strings, not null and a number", [1, 6]],
    ["[1] + [2]", "see `array.concat`", [1, 5]],
    ["'a' * 2", "`*` wants two numbers, not a string and a number", [1, 5]],
    ["1 < 'a'", "compares two numbers or two strings, not a number and a string", [1, 1]],
    ["-'a'", "wants a number, not a string", [1, 1]],
    ["let a = 1\na()", "`a` is a number, not a function", [2, 1]],
    ["let o = {}\no.go(1)", "`o.go` is null, not a function", [2, 1]],
    ["let a = [1]\na.map(fn(x) { x })", "use `array.map(…)`", [2, 3]],
    ["let s = 'a'\ns.length", "use `string.length(…)`", [2, 3]],
    ["result.err('gone').x", "gone", [1, 1]],
    ["result.err('gone')[0]", "gone", [1, 1]],
    ["let a = [1]\na[0].b", "`a[…]` is a number, and has no `b`", [2, 6]],
    ["let f = fn() { null }\nf().b", "`f(…)` is null, so it has no `b`", [2, 5]],
    ["{}[true]", "the key of a field is a string, not a boolean", [1, 1]],
    ["let a = 5\na[0]", "`a` is a number, which has no items", [2, 1]],
    ["unwrap(result.err('gone'))", "gone", [1, 1]],
    ["result.err('gone')?\n1", "gone", [1, 1]],
    ["let r = result.err('gone')\nlet x = [string.trim('a'), r?]", "gone", [2, 28]],
    ["result.err('gone')", "gone", [1, 1]],
    ["result.ok(1) + 1", "take its value with `unwrap(…)` or `?`", [1, 14]],
    ["string.length(result.ok('a'))", "take its value with `unwrap(…)` or `?`", [1, 1]],
    ["array.map(null, fn(x) { x })", "`map` wants an array as `list`, not null", [1, 1]],
    ["array.take([1], 1.5)", "wants a whole number as `count`, not a number", [1, 1]],
    ["let f = math.random\nf(1)", "`random` wants 0 arguments, not 1", [2, 1]],
    ["let f = array.map\nf([1])", "`map` wants 2 arguments, not 1", [2, 1]],
    ["array.reduce([1], 0, string.padStart)", "`padStart` wants a string as `text`, not a number", [1, 1]],
    ["[1]['a']", "an index into an array is a number", [1, 1]],
    ["let f = fn() { later }\nf()\nlet later = 1", "used before its `let` was reached", [1, 16]],
    ["let h = fn(g) { g() }\nlet f = fn(a) { h(fn() { b })\nlet b = 1 }\nf()", "`b` is used before its `let`", [2, 26]],
    ["map.get(5, 'a')", "`get` wants an object or null as `object`, not a number", [1, 1]],
    ["math.sqrt(0 - 1)", "`sqrt` has no result", [1, 1]],
    ["test.it('a', fn() { 1 })", "in tests only", [1, 1]],
  ];
  for (const [source, message, at] of cases) {
    it(`says ${JSON.stringify(message)} of ${JSON.stringify(source)}, and where`, async () => {
      const failure = await failureOf(source);
      expect(failure.error).toContain(message);
      expect(failure.at).toEqual(at);
    });
  }
});

describe("after a callback", () => {
  // Each calls a function that stands on line 2, where functions of ours are called, and then goes on by itself.
  const cases: [source: string, message: string][] = [
    ["array.sort([1, 2],\n fn(a, b) { string.trim('x') })", "the function of `sort` gives a number"],
    ["array.sortBy([1, 2],\n fn(x) { string.trim('x') == 'x' && x > 1 ? 1 : 'a' })", "have no order"],
    ["array.minBy([1, 2],\n fn(x) { string.trim('x') == 'x' && x > 1 ? 1 : 'a' })", "have no order"],
    ["array.map([1, 2],\n string.trim)", "wants a string as `text`"],
    ["array.sort([1, 2],\n fn(a, b) { let f = fn() { string.trim('x') }\n f() })", "the function of `sort`"],
  ];
  for (const [source, message] of cases) {
    it(`an error names the line of the function that called it: ${JSON.stringify(source)}`, async () => {
      const failure = await failureOf(source);
      expect(failure.error).toContain(message);
      expect(failure.at).toEqual([1, 1]);
    });
  }
  it("output names the line it was printed on", async () => {
    const { output } = await run("array.map([1],\n fn(x) {\n println('in')\n })\nprintln('after')");
    expect(output.map(({ line, text }) => [line, text])).toEqual([
      [3, "in"],
      [5, "after"],
    ]);
  });
  it("output through a callback of ours names the line that calls it", async () => {
    const { output } = await run(
      "let say = fn(x) {\n string.trim(x) }\narray.forEach(array.map(['a'], say),\n println)",
    );
    expect(output.map(({ line }) => line)).toEqual([3]);
  });
});

describe("a function that is left by `?`", () => {
  const left = "let f = fn(r) { [[[[r?]]]] }\nlet e = result.err('x')\n";
  const deep = "let d = fn(n) { if (n <= 1) { 1 } else { 1 + d(n - 1) } }\n";
  it("is closed: however many were left, as many can be open", async () => {
    const often = "array.forEach(array.range(10000), fn(i) { array.map([e], f) })\n";
    expect(await resultOf(`${left}${deep}${often}d(200)`)).toBe(200);
    expect((await failureOf(`${left}${deep}${often}d(201)`)).code).toBe("limit_depth");
  });
  it("leaves those around it open, also when they are called by ours", async () => {
    const around = "let g = fn(n) { f(e)\n if (n <= 1) { 1 } else { array.first(array.map([n - 1], g)) } }\n";
    expect(await resultOf(`${left}${around}g(199)`)).toBe(1);
    expect((await failureOf(`${left}${around}g(200)`)).code).toBe("limit_depth");
  });
});

describe("input", () => {
  it("names a field of the document", async () => {
    expect(await resultOf("input a\na + 1", { input: { a: 1 } })).toBe(2);
  });
  it("that is missing ends the script with its name", async () => {
    expect(await failureOf("input a\na", { input: {} })).toMatchObject({
      code: "missing_input",
      error: "the input `a` is missing",
      at: [1, 1],
    });
  });
  it("of another type than declared ends the script", async () => {
    expect(await failureOf("input a: number\na", { input: { a: "1" } })).toMatchObject({ code: "missing_input" });
    expect(await failureOf("input a: int\na", { input: { a: 1.5 } })).toMatchObject({ code: "missing_input" });
    expect(
      await resultOf("input a: int\ninput b: number\ninput c: number\n[a, b, c]", { input: { a: 1, b: 1, c: 1.5 } }),
    ).toEqual([1, 1, 1.5]);
  });
  it("takes the fallback, or null when optional", async () => {
    expect(await resultOf("input a: number = 5\ninput b?: string\n[a, b]", { input: {} })).toEqual([5, null]);
  });
});

describe("println", () => {
  it("writes its line, its text and its values", async () => {
    const { output } = await run('1\nprintln("a", [1], null)');
    expect(output).toEqual([{ line: 2, text: "a [1] null", values: ["a", [1], null], level: null, timestamp: null }]);
  });
  it("of log carries the level and the script's time", async () => {
    const { output } = await run('log.warn("look", { a: 1 })');
    expect(output).toEqual([
      {
        line: 1,
        text: 'look {"a":1}',
        values: ["look", { a: 1 }],
        level: "warn",
        timestamp: "2026-01-02T03:04:05.000Z",
      },
    ]);
  });
});

describe("keys that are special in JavaScript", () => {
  it("are ordinary keys", async () => {
    const source =
      'let m = { "__proto__": 1, constructor: 2 }\n[m.__proto__, m.constructor, m.toString, map.keys(m), map.has({}, "hasOwnProperty")]';
    expect(await resultOf(source)).toEqual([1, 2, null, ["__proto__", "constructor"], false]);
  });
  it("reach no prototype from the input", async () => {
    const input = JSON.parse('{"__proto__": {"evil": 1}}');
    expect(await resultOf("[$.__proto__.evil, $.constructor, $.toString.call]", { input })).toEqual([1, null, null]);
  });
  it("come out as own keys, and leave the prototype alone", async () => {
    const result = (await resultOf('string.parseJson("{\\"__proto__\\": {\\"evil\\": 1}}")')) as object;
    expect(Object.keys(result)).toEqual(["__proto__"]);
    expect((result as { evil?: unknown }).evil).toBeUndefined();
    expect(Object.getPrototypeOf(result)).toBe(Object.prototype);
  });
  it("are no names, members of namespaces or environment either", async () => {
    expect((await failureOf("constructor")).error).toContain("not defined");
    expect((await failureOf("array.constructor")).error).toContain("has no `constructor`");
    expect(await resultOf("[env.__proto__, env.constructor]")).toEqual([null, null]);
  });
});
