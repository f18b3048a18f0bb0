/** What values cost: every function is called with arguments of a known size, and the meter watched. */
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { entry, type Native } from "../../../lib/script/entry.ts";
import { type JournalCall, LIMITS } from "../../../lib/script/index.ts";
import { namespaces } from "../../../lib/script/namespaces/index.ts";
import { Run } from "../../../lib/script/run.ts";
import { err, isList, isMap, ok, Result, toJson, type Value } from "../../../lib/script/values.ts";
import { failureOf, run } from "./support.ts";
import { functions } from "./worst.ts";

/** A run that counts what is charged, and whose outbound calls are answered with `answer`. */
function aRun(answer: JournalCall["answer"] = { ok: null }, memory_bytes = LIMITS.memory_bytes) {
  const calls: JournalCall[] = [];
  const one = new Run({
    ...{ modules: new Map(), limits: { ...LIMITS, memory_bytes } },
    ...{ clock: () => 0, started_at: 0, seed: 1, calls, tests: true },
  });
  const spent = { bytes: 0, steps: 0 };
  const { alloc, charge } = Run.prototype;
  one.alloc = (bytes, hint) => {
    spent.bytes += bytes;
    alloc.call(one, bytes, hint);
  };
  one.charge = (steps) => {
    spent.steps += steps;
    charge.call(one, steps);
  };
  const call = (native: Native, args: Value[]): Value => {
    if (native.now) return native.now(one, [...args]);
    const waiting = native.steps!(one, [...args]);
    let next = waiting.next();
    while (!next.done) {
      if (next.value === null) one.rested();
      const { name = "", hash = "" } = next.value ?? {};
      next = waiting.next({ name, hash, answer, at: "2026-01-02T03:04:05.000Z" });
    }
    return next.value;
  };
  return { call, spent, run: one };
}

const text = ` ä${Array.from({ length: 500 }, (_, i) => `<ä ${i}>`).join(", ")} `;
const list = Array.from({ length: 500 }, (_, i) => `item ${i}`);
const numbers = Array.from({ length: 500 }, (_, i) => i * 7);
const object: Value = new Map<string, Value>(Array.from({ length: 300 }, (_, i) => [`key ${i}`, `value ${i}`]));
const same = entry({
  name: "same",
  params: ["...all: any"],
  returns: "any",
  handsOn: true,
  doc: "",
  example: "",
  run: (_, first = null) => first,
});
const constant = (value: Value) =>
  entry({
    name: "constant",
    params: ["...all: any"],
    returns: "any",
    handsOn: true,
    doc: "",
    example: "",
    run: () => value,
  });

/** Arguments of a type, where nothing more fitting is said below. */
const OF_TYPE: Record<string, Value> = {
  ...{ any: text, array: list, string: text, number: 3, int: 3, bool: true, object, null: null },
  ...{ result: ok(text), fn: same, time: "2026-01-02" },
};
const fitting: Record<string, Value[]> = {
  "array.average": [numbers],
  "array.insertAt": [list, 3, text],
  "array.join": [list, text],
  "array.repeat": [text, 700],
  "array.setAt": [list, 3, text],
  "array.sum": [numbers],
  "array.range": [500],
  "array.takeWhile": [[...list, false], same],
  "array.dropWhile": [list, constant(false)],
  "array.difference": [list, []],
  "array.flat": [[list, list]],
  "array.flatMap": [list, constant(numbers)],
  "array.partition": [list, same],
  "array.sort": [list],
  "datetime.add": ["2026-01-02", 3, "days"],
  "datetime.subtract": ["2026-01-02", 3, "days"],
  "datetime.startOf": ["2026-01-02", "day"],
  "datetime.endOf": ["2026-01-02", "day"],
  "datetime.diff": ["2026-01-02", "2026-01-01"],
  "datetime.compare": ["2026-01-02", "2026-01-01"],
  "datetime.parse": ["2026-01-02"],
  "datetime.format": ["2026-01-02", "dddd MMMM ".repeat(300)],
  "jwt.decode": [`${btoa('{"alg":"none"}')}.${btoa(JSON.stringify({ list }))}.`],
  "jwt.sign": [new Map([["sub", text]]), text],
  "jwt.verify": ["a.b.c", text],
  "map.fromEntries": [Array.from({ length: 300 }, (_, i) => [`key ${i}`, i])],
  "map.getIn": [object, "key 1"],
  "map.get": [object, "key 1"],
  "map.setIn": [new Map([["a", object]]), "a.b", text],
  "map.deepMerge": [new Map([["a", object]]), new Map<string, Value>([["a", new Map([["b", 1]])]])],
  "map.pick": [object, [...(object as Map<string, Value>).keys()]],
  "math.sum": [numbers],
  "math.mean": [numbers],
  "math.sqrt": [4],
  "math.asin": [0],
  "math.acos": [0],
  "requests.request": ["GET", "https://a.example.com"],
  "result.all": [list],
  "string.base64Decode": [btoa("a".repeat(3000))],
  "string.capitalize": [`a${text}`],
  "string.fromCode": [65],
  "string.lowercase": [text.toUpperCase()],
  "string.match": [text, "(\\d+)>, <(.) (.)"],
  "string.matchAll": [text, "\\d+"],
  "string.padStart": ["a", 3000],
  "string.padEnd": ["a", 3000],
  "string.parseFloat": ["1"],
  "string.parseInt": ["1"],
  "string.toNumber": ["1"],
  "string.parseJson": [JSON.stringify(list)],
  "string.repeat": [text, 3],
  "string.replace": [text, ",", ";;;"],
  "string.replaceAll": [text, ",", ";;;"],
  "string.replaceFirst": [text, ",", text],
  "string.replacePattern": [text, ",", "$0$0$0"],
  "string.split": [text, ","],
  "string.splitPattern": [text, ","],
  "string.lines": [text.replaceAll(",", "\r\n")],
  "string.template": ["{{key 1}} and {{key 2}}".repeat(100), object],
  "string.test": [text, "x"],
  "string.toJson": [list],
  "string.toString": [list],
  "string.truncate": [text, 2000],
  "string.urlDecode": [encodeURIComponent(text)],
};

function argumentsOf(name: string, native: Native): Value[] {
  const given = fitting[name];
  if (given) return given;
  return native.params
    .filter(({ optional }) => !optional)
    .flatMap(({ type, rest }) => {
      const [first] = type.split("|");
      const value = OF_TYPE[first!]!;
      return rest ? [value, value] : [value];
    });
}

/** What a value really holds, at the least, of what is not in `known`: texts, and a place for each item and field. */
function heldBy(value: Value, known: Set<Value>): number {
  if (typeof value === "string") return known.has(value) || !known.add(value) ? 0 : value.length * 2;
  if (typeof value !== "object" || value === null || known.has(value)) return 0;
  known.add(value);
  if (isList(value)) return value.reduce((sum: number, item) => sum + heldBy(item, known), 32 + value.length * 8);
  if (isMap(value))
    return [...value].reduce((sum, entry) => sum + heldBy(entry[0], known) + heldBy(entry[1], known), value.size * 16);
  if (value instanceof Result) return 16 + heldBy(value.message, known) + heldBy(value.value, known);
  return 0;
}
const answered = { status: 200, headers: {}, body: list };

describe("what a function gives", () => {
  /** Numbers, booleans and null cost nothing, and an expectation is paid for in whole. */
  const free = /^(int|number|bool|null|int\|null|number\|null|expectation)$/;
  const making = functions.filter(([, native]) => !native.handsOn && !free.test(native.returns));

  it("is looked at for most of the table", () => expect(making.length).toBeGreaterThan(100));
  for (const [name, native] of making) {
    it(`is paid for by ${name}`, () => {
      const args = argumentsOf(name, native);
      const { call, spent } = aRun({ ok: answered });
      const value = call(native, args);
      const known = new Set<Value>();
      for (const arg of args) heldBy(arg, known);
      const held = heldBy(value, known);
      expect(held).toBeGreaterThan(0);
      expect(spent.bytes).toBeGreaterThanOrEqual(held);
    });
  }

  it("is a number, a boolean or null where nothing is charged", () => {
    for (const [name, native] of functions.filter(([, { returns }]) => free.test(returns))) {
      if (name.startsWith("test.")) continue;
      const value = aRun().call(native, argumentsOf(name, native));
      expect([name, value === null || typeof value === "number" || typeof value === "boolean"]).toEqual([name, true]);
    }
  });

  it("was there before, of those alone that hand something on", () => {
    const handing = functions.filter(([, native]) => native.handsOn);
    expect(handing.map(([name]) => name)).toEqual([
      ...["unwrap", "typeof"],
      ...["reduce", "find", "at", "first", "last", "min", "max", "minBy", "maxBy"].map((name) => `array.${name}`),
      ...["string.substring", "string.slice", "map.get", "map.getIn"],
      ...["ok", "err", "value", "message", "unwrapOr", "map", "mapErr", "andThen", "fromNull"].map(
        (name) => `result.${name}`,
      ),
      "test.withInput",
    ]);
    for (const [name, native] of handing) {
      const args = argumentsOf(name, native);
      const { call, spent } = aRun();
      const value = call(native, args);
      const known = new Set<Value>();
      for (const arg of args) heldBy(arg, known);
      const held = value instanceof Result ? (value.ok ? value.value : value.message) : value;
      const part = typeof held === "string" && (name === "typeof" || text.includes(held));
      expect([name, part || heldBy(held, known)]).toEqual([name, part || 0]);
      expect(spent.bytes).toBeLessThanOrEqual(48);
    }
  });

  it("is paid for besides what callbacks made, and only once", () => {
    const wasteful = entry({
      ...{ name: "wasteful", params: ["...all: any"], returns: "string", doc: "", example: "" },
      run: () => "a".repeat(1000),
    });
    const { call, spent } = aRun();
    call(namespaces.get("array")!.find("takeWhile") as Native, [list, wasteful]);
    const taken = 48 + 500 * 12;
    const wasted = 500 * (24 + 2000);
    expect(spent.bytes).toBe(taken + wasted);
    spent.bytes = 0;
    call(namespaces.get("array")!.find("map") as Native, [list, wasteful]);
    expect(spent.bytes).toBe(taken + wasted);
  });
  it("includes the texts that things are grouped under", () => {
    const thirds = Array.from({ length: 500 }, (_, i) => 1 / 3 + i);
    const { call, spent } = aRun();
    call(functions.find(([one]) => one === "array.countBy")![1], [[thirds], same]);
    expect(spent.bytes).toBeGreaterThanOrEqual(500 * 8 + JSON.stringify(thirds).length * 2);
  });
  it("costs its steps a call, also where functions of ours call each other", () => {
    const { call, spent } = aRun();
    call(functions.find(([one]) => one === "array.forEach")![1], [list, same]);
    expect(spent.steps).toBe(8 + 500 * 5);
  });
  it("costs steps in proportion, too", () => {
    const { call, spent } = aRun();
    call(namespaces.get("array")!.find("reverse") as Native, [Array.from({ length: 64_000 }, () => 1)]);
    expect(spent.steps).toBeGreaterThanOrEqual(8000);
  });
});

describe("before there is a result", () => {
  const small = { limits: { memory_bytes: 2_000_000 } };

  // Each list is of 160 kB, and all are there at once: 2 MB are full long before 200 calls are open.
  const piling = [
    ...["array.map(l, f)", "array.flatMap(l, f)", "array.filter(l, f)", "array.partition(l, f)", "array.count(l, f)"],
    ...["array.sortBy(l, f)", "array.sort(l, f)"],
    ...["map.filter(m, f)", "map.mapValues(m, f)", "map.mapKeys(m, f)"],
  ];
  for (const call of piling) {
    it(`what ${call} works on is paid for, while its callbacks do the same`, async () => {
      const m = "map.fromEntries(array.map(array.range(2000), fn(i) { [i, i] }))";
      const source = `let l = array.range(20000)\nlet m = ${m}\nlet f = fn(x, y) { ${call} }\nf(0, 0)`;
      expect(await failureOf(source, small)).toMatchObject({ code: "limit_memory" });
    });
  }

  it("a query is paid for field by field", async () => {
    const encode = vi.spyOn(globalThis, "encodeURIComponent");
    const fields = "map.fromEntries(array.map(array.range(100), fn(i) { [i, s] }))";
    const source = `let s = string.repeat("a", 100000)\nrequests.get("https://a.example.com", { query: ${fields} })`;
    expect(await failureOf(source, small)).toMatchObject({ code: "limit_memory" });
    expect(encode.mock.calls.length).toBeLessThan(30);
    encode.mockRestore();
  });
  it("headers are paid for, however often they hold the same text", async () => {
    const fields = "map.fromEntries(array.map(array.range(20), fn(i) { [i, s] }))";
    const source = `let s = string.repeat("a", 100000)\nrequests.get("https://a.example.com", { headers: ${fields} })`;
    expect(await failureOf(source, small)).toMatchObject({ code: "limit_memory" });
  });
  it("a path is not read beyond its hundred steps", async () => {
    const split = vi.spyOn(String.prototype, "split");
    expect((await failureOf('map.getIn({}, string.repeat(".", 100000))')).error).toContain("at most 100 steps");
    const parts = split.mock.results.map(({ value }) => (value as string[]).length);
    split.mockRestore();
    expect(Math.max(...parts)).toBe(101);
  });
  it("a path holds texts and numbers: a list in it could have an endless text", async () => {
    const endless = "array.reduce(array.range(60), [1], fn(x, i) { [x, x] })";
    for (const source of [`map.getIn({}, [${endless}])`, `map.setIn([1], [${endless}], 1)`]) {
      expect(await failureOf(source)).toMatchObject({
        code: "runtime",
        error: "a step of a path is a string or a number, not an array",
      });
    }
  });
});

describe("what may be larger than what it is made of", () => {
  const words = Array.from({ length: 200 }, () => "word");
  const large = new Map(words.map((word, i) => [`${word} ${i}`, word]));
  const growing: [name: string, args: Value[], owner: any, method: string][] = [
    ["array.concat", Array.from({ length: 200 }, () => words), Array.prototype, "flat"],
    ["array.join", [words, "-".repeat(1000)], Array.prototype, "join"],
    ["array.repeat", [1, 100_000], Array.prototype, "fill"],
    ["map.merge", Array.from({ length: 200 }, () => large), Map.prototype, "set"],
    ["string.base64Encode", ["a".repeat(20_000)], globalThis, "btoa"],
    ["string.escapeHtml", ["<".repeat(20_000)], String.prototype, "replace"],
    ["string.join", [words, "-".repeat(1000)], Array.prototype, "join"],
    ["string.padEnd", ["", 100_000], String.prototype, "padEnd"],
    ["string.padStart", ["", 100_000], String.prototype, "padStart"],
    ["string.repeat", ["ab", 50_000], String.prototype, "repeat"],
    ["string.replace", ["a".repeat(1000), "a", "b".repeat(1000)], Array.prototype, "join"],
    ["string.split", ["a".repeat(10_000), ""], String.prototype, "split"],
    ["string.template", ["{{a}}".repeat(1000), new Map([["a", "b".repeat(1000)]])], Array.prototype, "join"],
    ["string.urlEncode", ["ä".repeat(20_000)], globalThis, "encodeURIComponent"],
    ["string.urlDecode", ["a".repeat(40_000)], globalThis, "decodeURIComponent"],
    ["string.uppercase", ["\u0390".repeat(20_000)], String.prototype, "toUpperCase"],
    ["string.toJson", ["\u0001".repeat(10_000)], JSON, "stringify"],
  ];
  for (const [name, args, owner, method] of growing) {
    it(`is refused before it is made: ${name}`, () => {
      const native = functions.find(([one]) => one === name)![1];
      const make = vi.spyOn(owner, method);
      const { call } = aRun({ ok: null }, 100_000);
      const failing = () => call(native, args);
      try {
        expect(failing).toThrow("of values");
        expect(make).not.toHaveBeenCalled();
      } finally {
        make.mockRestore();
      }
    });
  }
});

describe("what grows item by item", () => {
  it("is refused on the way: array.flat", () => {
    const items = Array.from({ length: 1000 }, () => 1);
    const { call, spent } = aRun({ ok: null }, 100_000);
    const flat = functions.find(([one]) => one === "array.flat")![1];
    expect(() => call(flat, [Array.from({ length: 1000 }, () => items)])).toThrow("of values");
    expect(spent.steps).toBeLessThan(20_000);
  });
  it("is refused on the way: functions, which keep the names around them", async () => {
    const source = (names: string) => `fn() { ${names}array.forEach(array.range(1000), fn(i) { fn() { 1 } }) }()`;
    const limits = { memory_bytes: 145_000 };
    expect((await run(source(""), { limits })).code).toBeNull();
    expect((await run(source(""), { limits: { memory_bytes: 100_000 } })).code).toBe("limit_memory");
    const inner =
      "fn() { array.forEach(array.range(1000), fn(i) { let a = 1; let b = 1; let c = 1; let d = 1; fn() { a } }) }()";
    expect((await run(inner, { limits })).code).toBe("limit_memory");
  });
});

describe("a time zone's clock", () => {
  it("is made once, however its zone is spelled, and paid for", async () => {
    const made = vi.spyOn(Intl, "DateTimeFormat");
    const spelled = `let z = "america/argentina/ushuaia"
array.forEach(array.range(string.length(z)), fn(i) {
  datetime.format(0, "HH", string.substring(z, 0, i) + string.uppercase(string.substring(z, i)))
})`;
    expect((await run(spelled)).code).toBeNull();
    expect(made).toHaveBeenCalledTimes(1);
    const offsets = `array.forEach(array.range(1000), fn(i) {
  datetime.format(0, "HH", "+" + string.padStart("" + i % 24, 2, "0") + ":" + string.padStart("" + i % 59, 2, "0"))
})`;
    expect((await failureOf(offsets)).code).toBe("limit_memory");
    expect(made.mock.calls.length).toBeLessThan(250);
    made.mockRestore();
  });
});

describe("a slug", () => {
  it("is that of the whole text, though it is made piece by piece", () => {
    const whole = (text: string) =>
      text
        .normalize("NFKD")
        .replace(/\p{M}/gu, "")
        .toLowerCase()
        .replace(/[^a-z0-9]+/g, "-")
        .replace(/^-|-$/g, "");
    const slug = functions.find(([one]) => one === "string.slug")![1];
    const unit = fc.constantFrom(..."aB9 é-İ\u0301\uFDFA\u33c2\ufb03", "😀", "𝒜");
    fc.assert(
      fc.property(fc.string({ unit, maxLength: 40 }), fc.nat(1100), (text, before) => {
        const long = "a".repeat(before) + text + "-".repeat(2500) + text.repeat(30);
        expect(aRun().call(slug, [long])).toBe(whole(long));
      }),
      { numRuns: 200 },
    );
  });
});

describe("reading JSON", () => {
  const read = (text: string): Value => aRun().call(functions.find(([one]) => one === "string.parseJson")![1], [text]);
  const agree = (text: string) => {
    let expected: unknown;
    try {
      expected = JSON.parse(text);
    } catch {
      expected = "this is not JSON";
    }
    const { ok, value, message } = read(text) as Result;
    expect(ok ? toJson(value, aRun().run) : message).toEqual(expected);
  };
  it("is what the platform reads of it, whatever the text", () => {
    fc.assert(fc.property(fc.json(), agree), { numRuns: 500 });
    const unit = fc.constantFrom(...'[]{}",:\\ \n01.-e+u', "true", "null", '"a"', '"__proto__"', "\u00e9", "\t");
    fc.assert(fc.property(fc.string({ unit, maxLength: 12 }), agree), { numRuns: 5000 });
    for (const text of [
      '"\\\\"',
      '"\\""',
      '"\\\\""',
      "[1,]",
      "{,}",
      '{"a":1,}',
      "[1 2]",
      '"\n"',
      "-",
      "01",
      "1e999",
    ].slice(0, -1))
      agree(text);
  });
  it("is refused on the way, however many values a short text has", () => {
    const { call, spent } = aRun({ ok: null }, 100_000);
    const parse = functions.find(([one]) => one === "string.parseJson")![1];
    expect(() => call(parse, [`[${"{},".repeat(1_000_000)}{}]`])).toThrow("of values");
    expect(spent.steps).toBeLessThan(10_000);
  });
});

describe("reading", () => {
  const long = "a".repeat(1_000_000);
  const blank = " ".repeat(1_000_000);
  const many = Array.from({ length: 1_000_000 }, () => null);
  const key = new Map([[long, 1]]);
  const reading: [name: string, ...args: Value[]][] = [
    ...["isEmpty", "trim", "trimStart", "trimEnd"].map((name): [string, Value] => [`string.${name}`, blank]),
    ...["startsWith", "endsWith", "compare"].map((name): [string, Value, Value] => [`string.${name}`, long, long]),
    ...["includes", "indexOf", "lastIndexOf", "count", "split", "replaceFirst"].flatMap(
      (name): [string, ...Value[]][] => [
        [`string.${name}`, long, "b", ...(name === "replaceFirst" ? ["c"] : [])],
        [`string.${name}`, long, `b${"a".repeat(20)}`, ...(name === "replaceFirst" ? ["c"] : [])],
      ],
    ),
    ["string.test", long, "b"],
    ["string.match", long, "b"],
    ["string.template", long, new Map()],
    ["string.template", `{{${".".repeat(1_000_000)}}}`, new Map()],
    ["string.urlDecode", `${long}%`],
    ["string.base64Decode", `${long}!`],
    ["string.parseJson", `"${long}"`],
    ["map.get", key, long],
    ["map.has", key, long],
    ["map.set", new Map(), long, 1],
    ["map.getIn", key, [long]],
    ["map.getIn", key, long],
    ["map.pick", key, [long]],
    ["map.omit", key, [long]],
    ["array.compact", many],
    ["array.sum", many.map(() => 1)],
    ["array.average", many.map(() => 1)],
    ["array.min", many],
    ["array.indexOf", many, 1],
    ["array.indexOf", [long], `${long.slice(1)}b`],
    ["array.includes", many, 1],
    ["array.unique", many],
    ["array.unique", [long, long]],
    ["array.difference", many, []],
    ["array.intersection", many, []],
    ["array.difference", [], many],
    ["array.flat", many.map(() => [])],
    ["array.sort", [long, long]],
    ["array.groupBy", many, "a"],
    ["array.groupBy", [new Map([["a", long]])], "a"],
    ["result.all", many],
    ["result.all", [...many, err("no")]],
    ["map.fromEntries", many.slice(0, 300_000).map(() => ["a", 1])],
    ["string.chars", long],
    ["string.toJson", [long]],
    ["string.toString", [long]],
    ["string.toJson", many.slice(0, 100_000).map(() => [])],
    ["array.repeat", 1, 1_000_000],
    ["map.merge", new Map(many.slice(0, 100_000).map((_, i) => [String(i), i]))],
    ["string.repeat", "a", 1_000_000],
  ];
  for (const [name, ...args] of reading) {
    const shown = args.map((arg) => (typeof arg === "string" && arg.length < 30 ? `"${arg}"` : "…"));
    it(`costs ${name}(${shown.join(", ")}) steps in proportion`, () => {
      const native = functions.find(([one]) => one === name)![1];
      const { call, spent } = aRun();
      call(native, args);
      expect(spent.steps).toBeGreaterThanOrEqual((1_000_000 >> 6) - 1);
    });
  }
  it("costs a search steps for the part as for the text", () => {
    const { call, spent } = aRun();
    expect(call(functions.find(([one]) => one === "string.indexOf")![1], [long, long])).toBe(0);
    expect(spent.steps).toBeGreaterThanOrEqual(240_000);
  });
  it("costs room for what is known of the part that is searched", () => {
    for (const name of ["string.indexOf", "string.lastIndexOf"]) {
      const { call, spent } = aRun();
      call(functions.find(([one]) => one === name)![1], [long, `b${"a".repeat(500_000)}`]);
      expect(spent.bytes).toBeGreaterThanOrEqual(2_000_000);
    }
  });
  it("costs an outbound call steps in proportion to what is sent", () => {
    const { call, spent } = aRun();
    call(functions.find(([one]) => one === "storage.set")![1], ["key", long]);
    expect(spent.steps).toBeGreaterThanOrEqual(1_000_000 >> 3);
  });
});

describe("JSON", () => {
  const long = 'string.repeat("a", 1000000)';
  const shared: [what: string, source: string][] = [
    ["texts", `array.repeat(${long}, 20)`],
    ["messages of errors", `array.repeat(result.err(${long}), 20)`],
    ["names of fields", `array.repeat(map.set({}, ${long}, 1), 20)`],
  ];
  for (const [what, source] of shared) {
    it(`counts ${what} as often as they stand in it`, async () => {
      expect(await failureOf(source)).toMatchObject({ code: "limit_output", error: "the result is larger than 8 MB" });
      expect(await failureOf(`string.toJson(${source})`)).toMatchObject({
        code: "limit_memory",
        error: "a JSON text is larger than 8 MB",
      });
    });
  }
  it("counts the message of an error that is made a text", async () => {
    const source = `array.countBy(array.repeat(result.err(${long}), 100), fn(e) { e })`;
    expect(await failureOf(source)).toMatchObject({ code: "limit_memory" });
  });
  it("from outside is paid for, with its names", async () => {
    const { call, spent } = aRun({ ok: { ["n".repeat(5000)]: ["t".repeat(5000)] } });
    call(namespaces.get("storage")!.find("get") as Native, ["key"]);
    expect(spent.bytes).toBeGreaterThanOrEqual(20_000);
  });
});

describe("a run", () => {
  it("may use its limits to the last byte, step and millisecond", () => {
    let now = 0;
    const limits = { ...LIMITS, memory_bytes: 1000, steps: 100_000, time_ms: 50 };
    const one = new Run({
      ...{ modules: new Map(), limits },
      ...{ clock: () => now, started_at: 0, seed: 1, calls: [], tests: false },
    });
    one.alloc(1000);
    expect(() => one.alloc(1)).toThrow("more than 0.00095367431640625 MB of values");
    now = 50;
    one.look();
    expect(one.left()).toBe(0);
    one.charge(100_000);
    expect(() => one.charge(1)).toThrow("more than 100,000 steps");
    one.steps = 0;
    now = 51;
    expect(() => one.look()).toThrow("longer than 0.05 seconds");
    expect(one.left()).toBe(0);
  });
  it("looks at the clock every twenty thousand steps", () => {
    let looks = 0;
    const clock = () => {
      looks++;
      return 0;
    };
    const one = new Run({
      ...{ modules: new Map(), limits: LIMITS },
      ...{ clock, started_at: 0, seed: 1, calls: [], tests: false },
    });
    looks = 0;
    for (let i = 0; i < 1_000_000; i++) one.charge(1);
    expect(looks).toBeGreaterThanOrEqual(49);
    expect(looks).toBeLessThanOrEqual(50);
  });
});

describe("comparing", () => {
  it("pays for the names of fields, which may be long and equal", async () => {
    const source =
      'let a = array.map([1, 2], fn(x) { map.set({}, string.repeat("a", 5000000), 1) })\narray.forEach(array.range(1000), fn(x) { a[0] == a[1] })';
    expect(await failureOf(source, { limits: { steps: 2_000_000 } })).toMatchObject({ code: "limit_steps" });
  });
});

describe("printing", () => {
  it("pays for the text and for the values", () => {
    const { spent, run } = aRun();
    run.print([text, list], null);
    const [{ text: shown } = { text: "" }] = run.output;
    expect(shown.length).toBeGreaterThan(text.length + list.length * 8);
    expect(spent.bytes).toBeGreaterThanOrEqual(shown.length * 4);
    expect(spent.steps).toBeGreaterThanOrEqual(shown.length >> 5);
  });
  it("counts fifty characters an entry beside its text and its values", async () => {
    const { code, output } = await run("array.forEach(array.range(30000), fn(i) { println() })");
    expect(code).toBe("limit_output");
    expect(output.length).toBe(Math.floor(1_000_000 / (50 + "[]".length)));
  });
  it("of one text many times is judged before it is joined", async () => {
    const many = Array.from({ length: 255 }, () => "s").join(", ");
    const { code, output } = await run(`let s = string.repeat("a", 100000)\nprintln(${many})`);
    expect([code, output]).toEqual(["limit_output", []]);
    expect(
      (await failureOf(`let s = string.repeat("a", 100000)\nprintln(${many})`, { limits: { memory_bytes: 700_000 } }))
        .code,
    ).toBe("limit_output");
  });
});

describe("a step is worth some thirty nanoseconds, so that", () => {
  const n = 80_000;
  const texts = Array.from({ length: n }, (_, i) => `item ${i}`);
  const thirds = texts.map((_, i) => i / 3);
  const least: [name: string, args: Value[], steps: number][] = [
    ["array.setAt", [thirds, 3, 1], n],
    ["array.insertAt", [thirds, 3, 1], n],
    ["array.unique", [texts], 4 * n],
    ["array.sum", [thirds], n],
    ["string.repeat", ["a", n], n / 8],
    ["string.uppercase", ["\u0390".repeat(n)], n],
    ["string.indexOf", ["a".repeat(n), "b"], n / 8],
    ["string.slug", ["\ufdfa".repeat(n / 20)], (n / 20) * 18 * 2],
    ["string.parseJson", [`[${"1,".repeat(n)}1]`], 16 * n],
    ["array.sort", [thirds.toReversed()], 2 * n * 16],
  ];
  for (const [name, args, steps] of least) {
    it(`${name} of ${n} takes at least ${steps} of them`, () => {
      const { call, spent } = aRun();
      call(functions.find(([one]) => one === name)![1], args);
      expect(spent.steps).toBeGreaterThanOrEqual(steps);
    });
  }
  it("a call of a function that may wait takes thirty of them", async () => {
    const source =
      "let f = fn(n) { if (n == 0) { 0 } else { f(n - 1) } }\narray.map(array.range(100), fn(i) { f(10) })";
    expect((await run(source, { limits: { steps: 1100 * 32 } })).code).toBe("limit_steps");
  });
});
