import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseScript, validateScript } from "../../../lib/script/index.ts";
import { run } from "./support.ts";

const first = (source: string) => {
  const [finding] = validateScript(source).findings;
  return finding && [finding.message, finding.line, finding.column, finding.end_line, finding.end_column];
};

describe("a finding", () => {
  const cases: [source: string, message: string, place: [number, number, number, number]][] = [
    // What cannot be read
    ["let = broken", "expected a name after `let`, found `=`", [1, 5, 1, 6]],
    ["let x 5", "expected `=` and a value after `let x`, found `5`", [1, 7, 1, 8]],
    ["1 +", "the script ends where an expression was expected", [1, 4, 1, 4]],
    ["(1", "expected `)` to close the bracket, found the end of the script", [1, 3, 1, 3]],
    ["[1, 2", "expected `]` or `,` in an array", [1, 6, 1, 6]],
    ["{ a 1 }", "expected `:` and a value after `a`, found `1`", [1, 3, 1, 4]],
    ['"abc', 'this string is not closed; end it with "', [1, 1, 1, 2]],
    ["/* a", "this comment is not closed", [1, 1, 1, 3]],
    ['"\\u12"', "`\\u` wants four hexadecimal digits", [1, 2, 1, 4]],
    ["12ab", "`12a` is not a number", [1, 1, 1, 3]],
    ["1e999", "is too large a number", [1, 1, 1, 6]],
    ["a # b", "`#` has no meaning here", [1, 3, 1, 4]],
    ["1 & 2", "did you mean `&&`?", [1, 3, 1, 4]],
    ["return 5", "there is no `return`", [1, 8, 1, 9]],
    ["for x", "there is no `for`", [1, 5, 1, 6]],
    ["let x = 1\nx = 2", "a value is named once, with `let`", [2, 3, 2, 4]],
    ["if (true) { a: 1 }", "needs braces of its own", [1, 14, 1, 15]],
    ["fn add(a) { a }", "write `let add = fn(…) { … }`", [1, 4, 1, 7]],
    ["let env = 1", "`env` is reserved", [1, 5, 1, 8]],
    ["let unwrap = 1", "`unwrap` is reserved", [1, 5, 1, 11]],
    ["fn(viewer) { 1 }", "`viewer` is reserved", [1, 4, 1, 10]],
    ["import(x)", "import wants a name in quotes", [1, 8, 1, 9]],
    ["if true { 1 }", "expected `(` and a condition after `if`", [1, 4, 1, 8]],
    ["else", "`else` without an `if`", [1, 1, 1, 5]],
    ["1 2", "expected a new line or `;` before `2`", [1, 3, 1, 4]],
    // What cannot work
    ["fo_each([])", "`fo_each` is not defined; did you mean `array.forEach`?", [1, 1, 1, 8]],
    ["let total = 1\ntotl", "`totl` is not defined; did you mean `total`?", [2, 1, 2, 5]],
    ["printn(1)", "did you mean `println`?", [1, 1, 1, 7]],
    ["input.x", "the input document is `$`", [1, 1, 1, 6]],
    ["array.mpa([1])", "`array` has no `mpa`; did you mean `array.map`?", [1, 7, 1, 10]],
    ['let a = import("array")\na.indexof([1], 1)', "did you mean `a.indexOf`?", [2, 3, 2, 10]],
    ["string.toUpperCase('a')", "`string` has no `toUpperCase`", [1, 8, 1, 19]],
    ['import("arry")', "there is no namespace `arry`; did you mean `array`?", [1, 8, 1, 14]],
    ["array.map([1])", "`map` wants 2 arguments, not 1: `map(list: array, each: fn) → array`", [1, 1, 1, 15]],
    ["array.slice([1])", "wants 2 to 3 arguments, not 1", [1, 1, 1, 17]],
    ["math.max()", "wants at least 1 argument, not 0", [1, 1, 1, 11]],
    ["typeof()", "`typeof` wants 1 argument, not 0", [1, 1, 1, 9]],
    ["let f = fn() { if (true) { let a = 1 }\na }\nf()", "`a` is not defined", [2, 1, 2, 2]],
    ["a\nlet a = 1", "`a` is not defined", [1, 1, 1, 2]],
  ];
  for (const [source, message, place] of cases)
    it(`of ${JSON.stringify(source)} says ${JSON.stringify(message)}, and where`, () => {
      const [text, ...at] = first(source) ?? [];
      expect(text).toContain(message);
      expect(at).toEqual(place);
    });

  it("comes for every unknown name, in the order of the source", () => {
    const { findings, ok, error } = validateScript("aa\nbb + aa\nfn() { cc }");
    expect(findings.map(({ line, column }) => [line, column])).toEqual([
      [1, 1],
      [2, 1],
      [2, 6],
      [3, 8],
    ]);
    expect([ok, error]).toEqual([false, "`aa` is not defined"]);
  });
});

describe("a warning", () => {
  const cases: [source: string, message: string][] = [
    ['let x: number = "a"', "this is string, but declared as number"],
    ["let x: array<string> = {}", "this is object, but declared as array<string>"],
    ["let x: int = 1.5", "this is number, but declared as int"],
    ["let x: string? = 5", "this is int, but declared as string | null"],
    ["array.index_of([1], 1)", "`array.index_of` is spelled `array.indexOf`"],
    ["let x: strin = 5", "`strin` is not a type; did you mean `string`?"],
    ["let f = fn(a) { a }\nf(1, 2)", "`f` has 1 argument, and is called with 2"],
  ];
  for (const [source, message] of cases) {
    it(`${JSON.stringify(message)} leaves ${JSON.stringify(source)} valid`, () => {
      const { ok, warnings } = validateScript(source);
      expect([ok, warnings]).toEqual([true, [message]]);
    });
  }
  it("is not given where a type fits", () => {
    const source =
      "let a: number | string = 1\nlet b: any = []\nlet c: float = 1\nlet d: fn = fn() { 1 }\nlet e: map? = null";
    expect(validateScript(source).warnings).toEqual([]);
  });
});

describe("validating", () => {
  it("lists the names a script gives, with their kinds and places", () => {
    const { symbols } = validateScript('let http = import("requests")\ninput id\nlet f = fn(x) { x }\nlet y = 1');
    expect(symbols).toEqual([
      { name: "http", kind: "namespace", line: 1, column: 5 },
      { name: "id", kind: "input", line: 2, column: 7 },
      { name: "f", kind: "function", line: 3, column: 5 },
      { name: "y", kind: "let", line: 4, column: 5 },
      { name: "x", kind: "parameter", line: 3, column: 12 },
    ]);
  });
  it("knows which scripts exist, when told", () => {
    const { error } = validateScript('import("script:lbi")', { scripts: ["lib"] });
    expect(error).toBe("there is no script `lbi`; did you mean `lib`?");
  });
  it("warns of runtime variables that do not exist, when told", () => {
    const { warnings } = validateScript("env.API_TOKN", { env: ["API_TOKEN"] });
    expect(warnings).toEqual(["there is no runtime variable `API_TOKN`; did you mean `API_TOKEN`?"]);
  });
});

describe("parsing", () => {
  it("reads the same source once", () => {
    expect(parseScript("1 + 41")).toBe(parseScript("1 + 41"));
  });
  it("forgets what was read long ago", () => {
    const first = parseScript("1 + 42");
    for (let i = 0; i < 250; i++) parseScript(`${i}`);
    expect(parseScript("1 + 42")).not.toBe(first);
  });
  it("never throws, whatever the text", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 200 }), (source) => {
        validateScript(source);
      }),
      { numRuns: 500 },
    );
  });
  it("never throws, nor does running, whatever the order of its own words", async () => {
    const words = fc.constantFrom(
      ..."let fn if else ( ) { } [ ] ? : . , ; - + ! == && a b $ env input import 1 'x' \n =".split(" "),
      "\n",
    );
    await fc.assert(
      fc.asyncProperty(fc.array(words, { maxLength: 60 }), async (tokens) => {
        const source = tokens.join(" ");
        const { status } = await run(source);
        expect(status === "done" || status === "failed").toBe(true);
        if (!validateScript(source).ok) expect(status).toBe("failed");
      }),
      { numRuns: 2000 },
    );
  });
});
