import { Native } from "../../../lib/script/entry.ts";
import { builtins, namespaces } from "../../../lib/script/namespaces/index.ts";

/** Every function of the language by its full name. */
export const functions: [name: string, native: Native][] = [
  ...[...builtins.values()].map((native): [string, Native] => [native.name, native]),
  ...[...namespaces.values()].flatMap(({ name, members }) =>
    [...members.values()]
      .filter((one) => one instanceof Native)
      .map((native): [string, Native] => [`${name}.${native.name}`, native]),
  ),
];

/** A call of a function at its worst, over names that `prelude` gives. */
export interface Worst {
  call: string;
  /** Lines before it. */
  prelude: string;
  test: boolean;
}

/** What stands for a type: as long, as large and as many as fit beside what is made of them. */
const OF_TYPE: Record<string, string> = {
  ...{ any: "l", array: "l", string: "t", number: "3", int: "3", object: "o", null: "null" },
  ...{ result: "result.ok(l)", fn: "fn(x, y) { x }", time: '"2026-01-02"' },
};

/** `n` letters, each of two bytes, that are three in capitals. */
const letters = (n: number) => `let t = string.repeat("\u0390", ${n})`;
const list = (n: number) => `let l = array.map(array.range(${n}), fn(i) { i / 3 })`;
const texts = (n: number) => `let l = array.map(array.range(${n}), fn(i) { "item " + i })`;
const object = (n: number) => `let o = map.fromEntries(array.map(array.range(${n}), fn(i) { ["key " + i, i / 3] }))`;

/** Where one of a type isn't the worst: the call, or several. */
const CALLS: Record<string, string | string[]> = {
  "array.average": "array.average(l)",
  "array.chunk": "array.chunk(l, 1)",
  "array.concat": "array.concat(l, l)",
  "array.countBy": "array.countBy(l, fn(x) { x })",
  "array.difference": "array.difference(l, [])",
  "array.flat": "array.flat([l, l])",
  "array.flatMap": "array.flatMap(l, fn(x) { [x, x] })",
  "array.groupBy": "array.groupBy(l, fn(x) { x })",
  "array.join": ['array.join(l, "")', "array.join([1, 2, 3], t)"],
  "array.keyBy": "array.keyBy(l, fn(x) { x })",
  "array.map": ["array.map(l, fn(x) { x / 7 })", "array.map(l, fn(x) { [x] })", "array.map(l, fn(x) { {} })"],
  "array.range": ["array.range(0, 300000, 0.3)", "array.range(300000)"],
  "array.repeat": "array.repeat(0.5, 300000)",
  "array.sort": ["array.sort(l)", "array.sort(l, fn(a, b) { b - a })"],
  "array.unique": ["array.unique(l)", "array.unique(array.map(array.range(1000), fn(i) { [i] }))"],
  "datetime.add": 'datetime.add("2026-01-02", 1, "months")',
  "datetime.subtract": 'datetime.subtract("2026-01-02", 1, "months")',
  "datetime.diff": 'datetime.diff("2026-01-02", "2020-01-02", "months")',
  "datetime.endOf": 'datetime.endOf("2026-01-02", "month")',
  "datetime.startOf": 'datetime.startOf("2026-01-02", "week")',
  "datetime.format": [
    'datetime.format(i, string.repeat("dddd", 100000))',
    // More zones than are kept, in ever new spellings.
    'let z = ["Europe/Berlin", "Asia/Tokyo", "Asia/Aden", "Asia/Dhaka"]; let n = "etc/gmt-" + i % 14; datetime.format(i, "HH", (i % 2 == 0 ? string.uppercase(n) : z[i % 4]) )',
    'datetime.format(i, "HH", "+" + string.padStart("" + i % 24, 2, "0") + ":" + string.padStart("" + i % 59, 2, "0"))',
  ],
  "jwt.decode": `jwt.decode("eyJhbGciOiJub25lIn0." + j + ".")`,
  "map.deepMerge": "map.deepMerge({ a: o }, { a: o })",
  "map.entries": "map.entries(o)",
  "map.fromEntries": 'map.fromEntries(array.map(array.range(100000), fn(i) { ["k" + i, i] }))',
  "map.get": 'map.get(o, "key 7")',
  "map.getIn": 'map.getIn(o, string.repeat(".", 99))',
  "map.omit": "map.omit(o, l)",
  "map.pick": "map.pick(o, map.keys(o))",
  "map.setIn": ['map.setIn(o, "a.b.c", 1)', 'map.setIn({}, string.repeat("a.", 90), 1)'],
  "math.acos": "math.acos(0)",
  "math.asin": "math.asin(0)",
  "requests.request": 'requests.request("GET", "https://a.example.com", { body: o })',
  "result.all": "result.all(l)",
  "storage.set": 'storage.set("key", o)',
  "string.base64Decode": "string.base64Decode(string.repeat('77-9', 200000))",
  "string.capitalize": "string.capitalize(t)",
  "string.chars": "string.chars(t)",
  "string.compare": "string.compare(t, t + i)",
  "string.fromCode": "string.fromCode(128512)",
  "string.indexOf": ["string.indexOf(t, 'b')", "string.indexOf(t, 'b' + string.substring(t, 0, 1000))"],
  "string.join": "string.join([1, 2, 3], t)",
  "string.lastIndexOf": "string.lastIndexOf(t, 'b' + string.substring(t, 0, 1000))",
  "string.lines": "string.lines(string.repeat('\u0390\\n', 100000))",
  "string.match": ["string.match(t, '(.)(.)(.)(.*)')", "string.match(t, '(.|.|.|.){20}b')"],
  "string.matchAll": ["string.matchAll(t, '.')", "string.matchAll(t, '(.)(.)(.)')"],
  "string.padEnd": "string.padEnd(t, 1000000, '\u0390')",
  "string.padStart": "string.padStart(t, 1000000, '\u0390')",
  "string.parseFloat": "string.parseFloat(string.repeat('1', 390))",
  "string.parseInt": "string.parseInt(string.repeat('1', 300))",
  "string.toNumber": "string.toNumber(string.repeat('1', 300))",
  "string.parseJson": [
    "string.parseJson('[' + string.repeat('{},', 2000000) + '{}]')",
    "string.parseJson('[' + string.repeat('[],', 2000000) + '[]]')",
    "string.parseJson('[' + string.repeat('1.5,', 2000000) + '1]')",
    "string.parseJson('[' + string.repeat('\"ab\",', 1000000) + '1]')",
    "string.parseJson('[' + array.join(array.map(array.range(60000), fn(i) { '{\"k' + i + '\":1}' })) + ']')",
    "string.parseJson('[' + string.repeat('{},', 1000) + '{}]')",
  ],
  "string.repeat": "string.repeat('\u0390', 1000000)",
  "string.replace": "string.replace(t, '\u0390', 'bc')",
  "string.replaceAll": ["string.replaceAll(t, '\u0390', 'bc')", "string.replaceAll(t, '', 'b')"],
  "string.replaceFirst": "string.replaceFirst(t, '\u0390', t)",
  "string.replacePattern": [
    "string.replacePattern(t, '.', '$0$0')",
    "string.replacePattern(t, '(.)', fn(m) { m.groups[0] })",
    "string.replacePattern(t, '.*', '$0$0')",
  ],
  "string.reverse": "string.reverse(t)",
  "string.slug": [
    "string.slug(t)",
    "string.slug(string.repeat('\uFDFA', 100000))",
    "string.slug(string.repeat('\u33c2', 100000))",
  ],
  "string.split": ["string.split(t, '')", "string.split(string.repeat('\u0390,', 100000), ',')"],
  "string.splitPattern": ["string.splitPattern(t, '.')", "string.splitPattern(string.repeat('ab,', 100000), ',')"],
  "string.template": "string.template(string.repeat('{{a}}', 1000), { a: string.repeat('b', 1000) })",
  "string.test": ["string.test(t, 'b')", "string.test(t, '(.|.|.|.){20}b')"],
  "string.toJson": ["string.toJson(l, 8)", "string.toJson(o)", "string.toJson(string.repeat('\\u{1}', 900000))"],
  "string.toString": ["string.toString(l)", "string.toString(o)"],
  "string.truncate": "string.truncate(t, 900000)",
  "string.urlDecode": "string.urlDecode(string.repeat('%CE%90', 200000))",
  "string.urlEncode": "string.urlEncode(t)",
  "test.describe": 'test.describe("a", fn() { 1 })',
  "test.it": 'test.it("a", fn() { test.expect(l).toEqual(l) })',
  "test.expect": "test.expect(1)",
  "test.mock": 'test.mock("a" + i, fn() { 1 })',
  "test.withInput": "test.withInput(o, fn() { $ })",
  println: ['println("")', "println(i, i / 3, [i], {})", "println(string.repeat('\u0390', 3000))"],
  unwrap: "unwrap(l)",
};

function callsOf(name: string, native: Native): string[] {
  const given = CALLS[name];
  if (given) return [given].flat();
  const args = native.params
    .filter(({ optional }) => !optional)
    .flatMap(({ type, rest }) => {
      const value = OF_TYPE[type.split("|")[0]!]!;
      return rest ? [value, value] : [value];
    });
  return [`${name}(${args.join(", ")})`];
}

/** Each function at its worst, over what is as large as it may be beside what is made of it. */
export function worstOf(name: string, native: Native): Worst[] {
  const many = /sort|unique|difference|intersection|By$|join|toString|toJson/i.test(name);
  return callsOf(name, native).map((call) => {
    const uses = (letter: string) => new RegExp(`\\b${letter}\\b`).test(call);
    const prelude = [
      ...(uses("t") ? [letters(1_500_000)] : []),
      ...(uses("l") ? [many ? texts(30_000) : list(300_000)] : []),
      ...(uses("o") ? [object(40_000)] : []),
      ...(uses("j") ? ['let j = string.base64Encode("[" + string.repeat("[],", 3900) + "1]")'] : []),
    ];
    return { call, prelude: prelude.join("\n"), test: name.startsWith("test.") };
  });
}
