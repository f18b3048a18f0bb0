import { entry, namespace } from "../entry.ts";
import { fail } from "../errors.ts";
import { joined } from "../lists.ts";
import { type Match, patternOf } from "../pattern.ts";
import type { Run } from "../run.ts";
import { find, findLast, pieces, SHORT } from "../search.ts";
import {
  type Callable,
  err,
  ok,
  parseJson,
  type Result,
  toJsonText,
  toText,
  type Value,
  type Waiting,
} from "../values.ts";

function toMap(run: Run, match: Match): Value {
  run.fields(4);
  return new Map<string, Value>([
    ["match", match.text],
    ["index", match.index],
    ["groups", match.groups],
    ["named", match.named],
  ]);
}

/** What a part of a text takes beside it, in a list that grows: it refers to the text, or is a short one of its own. */
const PIECE_BYTES = 64;

/** A text that may be longer than what it is made from: paid for before it is made. */
function made(run: Run, length: number, make: () => string): string {
  run.text(length);
  return make();
}

/** Of other letters, one may become three: U+0390 does. */
function cased(run: Run, text: string, make: () => string): string {
  if (!/[^\0-\x7f]/.test(text)) return made(run, text.length, make);
  run.charge(text.length);
  return made(run, text.length * 3, make);
}

/**
 * Piece by piece, since what a letter is made of may be eighteen times as long (U+FDFA) and little of it stays. Marks
 * go with their letters, so a piece may end anywhere but within a pair.
 */
function* slug(run: Run, text: string): Waiting<string> {
  const parts: string[] = [];
  for (const piece of inPieces(text)) {
    if (run.steps > run.restAt) yield null;
    const plain = piece.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
    const kept = plain.replace(/[^a-z0-9]+/g, "-");
    run.text(kept.length * 2);
    run.charge(plain.length * 2);
    // Where two pieces meet there is one hyphen, as anywhere.
    const next = kept.startsWith("-") && (parts.at(-1) ?? "-").endsWith("-") ? kept.slice(1) : kept;
    if (next !== "") parts.push(next);
  }
  const whole = parts.join("");
  return whole.endsWith("-") ? whole.slice(0, -1) : whole;
}

const reverse = (run: Run, text: string) =>
  made(run, text.length * 2, () => {
    const parts: string[] = [];
    for (const piece of inPieces(text)) {
      run.charge(piece.length);
      parts.push([...piece].reverse().join(""));
    }
    return parts.reverse().join("");
  });

/** A thousand characters at a time, and no pair of halves taken apart. */
function* inPieces(text: string): Generator<string> {
  for (let from = 0, to = 0; from < text.length; from = to) {
    to = Math.min(from + 1000, text.length);
    if ((text.codePointAt(to - 1) ?? 0) > 0xffff) to++;
    yield text.slice(from, to);
  }
}

/** How often a part stands in a text, without overlapping. */
function occurrences(run: Run, text: string, part: string): number {
  if (part === "") return text.length + 1;
  let count = 0;
  for (let at = find(run, text, part); at >= 0; at = find(run, text, part, at + part.length)) count++;
  return count;
}

function replace(run: Run, text: string, part: string, by: string): string {
  const count = occurrences(run, text, part);
  run.alloc(count * PIECE_BYTES);
  run.charge(count * 2);
  return made(run, text.length + count * Math.max(0, by.length - part.length), () => {
    if (part !== "") return pieces(run, text, part).join(by);
    return text === "" ? by : by + text.split("").join(by) + by;
  });
}

function* replacePattern(
  run: Run,
  text: string,
  source: string,
  by: string | Callable,
  flags: string,
): Waiting<string> {
  const parts: string[] = [];
  let at = 0;
  yield* patternOf(run, source, flags).all(text, run, function* (match) {
    const piece =
      typeof by === "string" ? filled(run, by, match) : toText(yield* run.calling(by, [toMap(run, match)]), run);
    run.text(piece.length + 20);
    parts.push(text.slice(at, match.index), piece);
    at = match.index + match.text.length;
  });
  parts.push(text.slice(at));
  return made(
    run,
    parts.reduce((sum, part) => sum + part.length, 0),
    () => parts.join(""),
  );
}

/** `$1` and `${name}` in a replacement are what the groups hold, `$0` is the whole match, `$$` a `$`. */
function filled(run: Run, by: string, match: Match): string {
  let text = "";
  let at = 0;
  for (let next = by.indexOf("$"); next >= 0; next = by.indexOf("$", at)) {
    text += by.slice(at, next);
    const digit = by.charCodeAt(next + 1) - 48;
    const close = by[next + 1] === "{" ? by.indexOf("}", next) : -1;
    at = next + 2;
    if (by[next + 1] === "$") text += "$";
    else if (digit === 0) text += match.text;
    else if (digit > 0 && digit < 10) text += match.groups[digit - 1] ?? "";
    else if (close > 0) {
      text += match.named.get(by.slice(next + 2, close)) ?? "";
      at = close + 1;
    } else {
      text += "$";
      at = next + 1;
    }
    run.text(text.length);
  }
  return text + by.slice(at);
}

function split(run: Run, text: string, separator: string, most: number): Value {
  const count = Math.min(occurrences(run, text, separator) + 1, most);
  run.alloc(48 + count * 36);
  run.charge(count * 2);
  const parts = separator.length > SHORT ? pieces(run, text, separator) : text.split(separator);
  if (parts.length <= most) return parts;
  return [...parts.slice(0, most - 1), parts.slice(most - 1).join(separator)];
}

function pad(run: Run, text: string, length: number, fill: string, start: boolean): string {
  return made(run, Math.max(text.length, length), () =>
    start ? text.padStart(length, fill) : text.padEnd(length, fill),
  );
}

function number(text: string, pattern: RegExp): Result {
  const trimmed = text.length < 400 ? text.trim() : "";
  const value = Number(trimmed);
  return pattern.test(trimmed) && Number.isFinite(value) ? ok(value) : err(`"${text.slice(0, 40)}" is not a number`);
}

function template(run: Run, text: string, values: ReadonlyMap<string, Value>): string {
  const parts: string[] = [];
  let at = 0;
  for (let open = text.indexOf("{{"); open >= 0; open = text.indexOf("{{", at)) {
    const close = text.indexOf("}}", open);
    if (close < 0) break;
    const path = text
      .slice(open + 2, close)
      .trim()
      .split(".");
    const value = path.reduce<Value>((inner, key) => (inner instanceof Map ? (inner.get(key) ?? null) : null), values);
    parts.push(text.slice(at, open), value === null ? "" : toText(value, run));
    run.charge(path.length);
    at = close + 2;
  }
  parts.push(text.slice(at));
  return made(
    run,
    parts.reduce((sum, part) => sum + part.length, 0),
    () => parts.join(""),
  );
}

function base64(bytes: Uint8Array): string {
  let binary = "";
  for (let i = 0; i < bytes.length; i += 8192) binary += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return btoa(binary);
}

function decoded(run: Run, text: string): Result {
  run.text(text.length * 4);
  try {
    const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/").replaceAll("\n", ""));
    const bytes = new Uint8Array(binary.length);
    for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
    return ok(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch {
    return err("this is not the base64 of a text");
  }
}

function* parsed(run: Run, text: string): Waiting<Result> {
  try {
    return ok(yield* parseJson(text, run));
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return err("this is not JSON");
  }
}

const HTML: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

export const string = namespace(
  "string",
  "Texts. Places count from 0; patterns are regular expressions without lookaround and backreferences.",
  [
    entry({
      name: "toString",
      params: ["value: any"],
      returns: "string",
      doc: "The text of a value; arrays and objects as JSON.",
      example: "[string.toString(3), string.toString([1, null])]",
      gives: ["3", "[1,null]"],
      run: (run, value) => toText(value, run),
    }),
    entry({
      name: "length",
      params: ["text: string"],
      returns: "int",
      doc: "How many characters there are.",
      example: 'string.length("abc")',
      gives: 3,
      run: (_, text) => text.length,
    }),
    entry({
      name: "isEmpty",
      params: ["text: string|null"],
      returns: "bool",
      doc: "Whether there is nothing but blanks, or null.",
      example: 'string.isEmpty(" ")',
      gives: true,
      run: (run, text) => {
        run.charge((text?.length ?? 0) >> 5);
        return (text ?? "").trim() === "";
      },
    }),
    entry({
      name: "lowercase",
      params: ["text: string"],
      returns: "string",
      doc: "In small letters.",
      example: 'string.lowercase("ÄB")',
      gives: "äb",
      run: (run, text) => cased(run, text, () => text.toLowerCase()),
    }),
    entry({
      name: "uppercase",
      params: ["text: string"],
      returns: "string",
      doc: "In capital letters.",
      example: 'string.uppercase("ab")',
      gives: "AB",
      run: (run, text) => cased(run, text, () => text.toUpperCase()),
    }),
    entry({
      name: "capitalize",
      params: ["text: string"],
      returns: "string",
      doc: "With a capital first letter.",
      example: 'string.capitalize("ab c")',
      gives: "Ab c",
      run: (_, text) => text.slice(0, 1).toUpperCase() + text.slice(1),
    }),
    entry({
      name: "trim",
      params: ["text: string"],
      returns: "string",
      doc: "Without blanks and line ends around it.",
      example: 'string.trim(" a ")',
      gives: "a",
      run: (run, text) => {
        run.charge(text.length >> 5);
        return text.trim();
      },
    }),
    entry({
      name: "trimStart",
      params: ["text: string"],
      returns: "string",
      doc: "Without blanks before it.",
      example: 'string.trimStart(" a ")',
      gives: "a ",
      run: (run, text) => {
        run.charge(text.length >> 5);
        return text.trimStart();
      },
    }),
    entry({
      name: "trimEnd",
      params: ["text: string"],
      returns: "string",
      doc: "Without blanks after it.",
      example: 'string.trimEnd(" a ")',
      gives: " a",
      run: (run, text) => {
        run.charge(text.length >> 5);
        return text.trimEnd();
      },
    }),
    entry({
      name: "startsWith",
      params: ["text: string", "part: string"],
      returns: "bool",
      doc: "Whether it begins with a part.",
      example: 'string.startsWith("abc", "ab")',
      gives: true,
      run: (run, text, part) => {
        run.charge(part.length >> 6);
        return text.startsWith(part);
      },
    }),
    entry({
      name: "endsWith",
      params: ["text: string", "part: string"],
      returns: "bool",
      doc: "Whether it ends with a part.",
      example: 'string.endsWith("abc", "bc")',
      gives: true,
      run: (run, text, part) => {
        run.charge(part.length >> 6);
        return text.endsWith(part);
      },
    }),
    entry({
      name: "includes",
      params: ["text: string", "part: string"],
      returns: "bool",
      doc: "Whether a part stands in it.",
      example: 'string.includes("abc", "b")',
      gives: true,
      run: (run, text, part) => find(run, text, part) >= 0,
    }),
    entry({
      name: "indexOf",
      params: ["text: string", "part: string", "from?: int"],
      returns: "int",
      doc: "The first place of a part, at or after `from`; -1 when there is none.",
      example: '[string.indexOf("abcb", "b"), string.indexOf("a", "x")]',
      gives: [1, -1],
      run: (run, text, part, from = 0) => find(run, text, part, from),
    }),
    entry({
      name: "lastIndexOf",
      params: ["text: string", "part: string"],
      returns: "int",
      doc: "The last place of a part, -1 when there is none.",
      example: 'string.lastIndexOf("abcb", "b")',
      gives: 3,
      run: findLast,
    }),
    entry({
      name: "count",
      params: ["text: string", "part: string"],
      returns: "int",
      doc: "How often a part stands in it.",
      example: 'string.count("banana", "an")',
      gives: 2,
      run: occurrences,
    }),
    entry({
      name: "substring",
      params: ["text: string", "start: int", "end?: int"],
      returns: "string",
      handsOn: true,
      doc: "From a place to before another, or to the end; places beyond the text are its ends.",
      example: '[string.substring("2026-01-02", 0, 4), string.substring("abc", 1)]',
      gives: ["2026", "bc"],
      run: (run, text, start, end) => {
        run.alloc(32);
        return end !== undefined && end < start ? "" : text.substring(start, end);
      },
    }),
    entry({
      name: "slice",
      params: ["text: string", "start: int", "end?: int"],
      returns: "string",
      handsOn: true,
      doc: "Like `substring`, with negative places from the end.",
      example: 'string.slice("abc", -2)',
      gives: "bc",
      run: (run, text, start, end) => {
        run.alloc(32);
        return text.slice(start, end);
      },
    }),
    entry({
      name: "charAt",
      params: ["text: string", "index: int"],
      returns: "string|null",
      doc: "The character at a place, or null.",
      example: 'string.charAt("abc", 1)',
      gives: "b",
      run: (_, text, index) => text[index] ?? null,
    }),
    entry({
      name: "chars",
      params: ["text: string"],
      returns: "array",
      doc: "The characters, an emoji being one.",
      example: 'string.chars("a😀")',
      gives: ["a", "😀"],
      run: (run, text) => {
        run.alloc(text.length * 36);
        run.charge(text.length);
        return [...text];
      },
    }),
    entry({
      name: "replace",
      params: ["text: string", "part: string", "by: string"],
      returns: "string",
      doc: "With every occurrence of a part replaced.",
      example: 'string.replace("a-b-c", "-", "+")',
      gives: "a+b+c",
      run: replace,
    }),
    entry({
      name: "replaceAll",
      params: ["text: string", "part: string", "by: string"],
      returns: "string",
      doc: "The same as `replace`.",
      example: 'string.replaceAll("a-b-c", "-", "")',
      gives: "abc",
      run: replace,
    }),
    entry({
      name: "replaceFirst",
      params: ["text: string", "part: string", "by: string"],
      returns: "string",
      doc: "With the first occurrence of a part replaced.",
      example: 'string.replaceFirst("a-b-c", "-", "+")',
      gives: "a+b-c",
      run: (run, text, part, by) => {
        const at = find(run, text, part);
        if (at < 0) return text;
        return text.slice(0, at) + by + text.slice(at + part.length);
      },
    }),
    entry({
      name: "replacePattern",
      params: ["text: string", "pattern: string", "by: string|fn", "flags?: string"],
      returns: "string",
      doc: "With every match of a pattern replaced: by a text, in which `$1` is the first group and `$0` the match, or by what a function of the match gives.",
      example: 'string.replacePattern("a1b22", "(\\\\d+)", "<$1>")',
      gives: "a<1>b<22>",
      steps: (run, text, pattern, by, flags = "") => replacePattern(run, text, pattern, by, flags),
    }),
    entry({
      name: "split",
      params: ["text: string", "separator: string", "most?: int"],
      returns: "array",
      doc: 'The parts between separators, at most so many; "" splits into characters.',
      example: '[string.split("a,b", ","), string.split("a=b=c", "=", 2)]',
      gives: [
        ["a", "b"],
        ["a", "b=c"],
      ],
      run: (run, text, separator, most) => split(run, text, separator, Math.max(1, most ?? Number.MAX_SAFE_INTEGER)),
    }),
    entry({
      name: "splitPattern",
      params: ["text: string", "pattern: string", "flags?: string"],
      returns: "array",
      doc: "The parts between the matches of a pattern.",
      example: 'string.splitPattern("a, b;c", "[,;]\\\\s*")',
      gives: ["a", "b", "c"],
      *steps(run, text, pattern, flags = "") {
        const parts: string[] = [];
        let at = 0;
        yield* patternOf(run, pattern, flags).all(text, run, (match) => {
          if (match.text === "") return;
          run.alloc(48);
          parts.push(text.slice(at, match.index));
          at = match.index + match.text.length;
        });
        parts.push(text.slice(at));
        return parts;
      },
    }),
    entry({
      name: "lines",
      params: ["text: string"],
      returns: "array",
      doc: "The lines, without their ends.",
      example: 'string.lines("a\\r\\nb")',
      gives: ["a", "b"],
      run: (run, text) => {
        const lines = split(run, text, "\n", Number.MAX_SAFE_INTEGER) as string[];
        return lines.map((line) => (line.endsWith("\r") ? line.slice(0, -1) : line));
      },
    }),
    entry({
      name: "join",
      params: ["parts: array", "separator?: string"],
      returns: "string",
      doc: 'The texts of the items with a separator between them, "" unless said otherwise.',
      example: 'string.join(["a", 1], "-")',
      gives: "a-1",
      run: (run, parts, separator = "") => joined(run, parts, separator),
    }),
    entry({
      name: "repeat",
      params: ["text: string", "count: int"],
      returns: "string",
      doc: "The text so many times.",
      example: 'string.repeat("ab", 2)',
      gives: "abab",
      run: (run, text, count) => made(run, text.length * Math.max(0, count), () => text.repeat(Math.max(0, count))),
    }),
    entry({
      name: "padStart",
      params: ["text: string", "length: int", "fill?: string"],
      returns: "string",
      doc: "Filled up before it to a length, with blanks unless said otherwise.",
      example: 'string.padStart("7", 3, "0")',
      gives: "007",
      run: (run, text, length, fill = " ") => pad(run, text, length, fill, true),
    }),
    entry({
      name: "padEnd",
      params: ["text: string", "length: int", "fill?: string"],
      returns: "string",
      doc: "Filled up after it to a length.",
      example: 'string.padEnd("7", 3, ".")',
      gives: "7..",
      run: (run, text, length, fill = " ") => pad(run, text, length, fill, false),
    }),
    entry({
      name: "reverse",
      params: ["text: string"],
      returns: "string",
      doc: "From the last character to the first.",
      example: 'string.reverse("abc")',
      gives: "cba",
      run: reverse,
    }),
    entry({
      name: "truncate",
      params: ["text: string", "length: int", "ending?: string"],
      returns: "string",
      doc: 'At most so long; what was cut ends with "…" unless said otherwise.',
      example: '[string.truncate("abcdef", 4), string.truncate("ab", 4)]',
      gives: ["abc…", "ab"],
      run: (_, text, length, ending = "…") =>
        text.length <= length ? text : text.slice(0, Math.max(0, length - ending.length)) + ending,
    }),
    entry({
      name: "slug",
      params: ["text: string"],
      returns: "string",
      doc: "Small letters and digits with hyphens between, for addresses.",
      example: 'string.slug("Héllo, World!")',
      gives: "hello-world",
      steps: slug,
    }),
    entry({
      name: "template",
      params: ["text: string", "values: object"],
      returns: "string",
      doc: "With each `{{name}}` replaced by a value; a path like `{{user.name}}` works, and what is missing is empty.",
      example: 'string.template("Hi {{user.name}}!", { user: { name: "Ada" } })',
      gives: "Hi Ada!",
      run: template,
    }),
    entry({
      name: "match",
      params: ["text: string", "pattern: string", "flags?: string"],
      returns: "object|null",
      doc: "The first match of a pattern as `{match, index, groups, named}`, or null; `groups[0]` is the first group. Flags: i, m, s.",
      example: 'string.match("v1.20", "(\\\\d+)\\\\.(\\\\d+)").groups',
      gives: ["1", "20"],
      *steps(run, text, pattern, flags = "") {
        const match = yield* patternOf(run, pattern, flags).exec(text, 0, run);
        return match && toMap(run, match);
      },
    }),
    entry({
      name: "matchAll",
      params: ["text: string", "pattern: string", "flags?: string"],
      returns: "array",
      doc: "All matches of a pattern, as `match` gives them.",
      example: 'array.map(string.matchAll("a1b2", "\\\\d"), fn(m) { m.match })',
      gives: ["1", "2"],
      *steps(run, text, pattern, flags = "") {
        const matches: Value[] = [];
        yield* patternOf(run, pattern, flags).all(text, run, (match) => {
          matches.push(toMap(run, match));
        });
        return matches;
      },
    }),
    entry({
      name: "test",
      params: ["text: string", "pattern: string", "flags?: string"],
      returns: "bool",
      doc: "Whether a pattern matches anywhere in it.",
      example: 'string.test("Ada", "^a", "i")',
      gives: true,
      *steps(run, text, pattern, flags = "") {
        return (yield* patternOf(run, pattern, flags).exec(text, 0, run)) !== null;
      },
    }),
    entry({
      name: "compare",
      params: ["first: string", "second: string"],
      returns: "int",
      doc: "-1, 0 or 1, for `array.sort`.",
      example: 'string.compare("a", "b")',
      gives: -1,
      run: (run, first, second) => {
        run.charge(Math.min(first.length, second.length) >> 6);
        return first === second ? 0 : first < second ? -1 : 1;
      },
    }),
    entry({
      name: "toNumber",
      params: ["text: string"],
      returns: "result<number>",
      doc: "The number a text is, whole or not.",
      example: '[unwrap(string.toNumber(" 1.5e2 ")), unwrap(string.toNumber("x"), 0)]',
      gives: [150, 0],
      run: (_, text) => number(text, /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i),
    }),
    entry({
      name: "parseInt",
      params: ["text: string"],
      returns: "result<int>",
      doc: "The whole number a text is.",
      example: '[unwrap(string.parseInt("42")), result.isErr(string.parseInt("4.2"))]',
      gives: [42, true],
      run: (_, text) => number(text, /^[+-]?\d+$/),
    }),
    entry({
      name: "parseFloat",
      params: ["text: string"],
      returns: "result<number>",
      doc: "The same as `toNumber`.",
      example: 'unwrap(string.parseFloat("4.2"))',
      gives: 4.2,
      run: (_, text) => number(text, /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i),
    }),
    entry({
      name: "parseJson",
      params: ["text: string"],
      returns: "result<any>",
      doc: "The value that a JSON text holds.",
      example: 'unwrap(string.parseJson("[1,2]"))',
      gives: [1, 2],
      steps: parsed,
    }),
    entry({
      name: "toJson",
      params: ["value: any", "indent?: int"],
      returns: "string",
      doc: "A value as JSON text, indented by so many blanks if asked for.",
      example: "string.toJson({ a: [1] })",
      gives: '{"a":[1]}',
      run: (run, value, indent = 0) => toJsonText(value, run, Math.min(8, Math.max(0, indent))),
    }),
    entry({
      name: "base64Encode",
      params: ["text: string"],
      returns: "string",
      doc: "The base64 of a text's UTF-8.",
      example: 'string.base64Encode("é")',
      gives: "w6k=",
      run: (run, text) => made(run, text.length * 8, () => base64(new TextEncoder().encode(text))),
    }),
    entry({
      name: "base64Decode",
      params: ["text: string"],
      returns: "result<string>",
      doc: "The text whose base64 this is, also in the form for addresses.",
      example: 'unwrap(string.base64Decode("w6k="))',
      gives: "é",
      run: decoded,
    }),
    entry({
      name: "urlEncode",
      params: ["text: string"],
      returns: "string",
      doc: "For use as one part of an address.",
      example: 'string.urlEncode("a b&c")',
      gives: "a%20b%26c",
      run: (run, text) => made(run, text.length * 9, () => encodeURIComponent(text.toWellFormed())),
    }),
    entry({
      name: "urlDecode",
      params: ["text: string"],
      returns: "result<string>",
      doc: "The opposite of `urlEncode`.",
      example: 'unwrap(string.urlDecode("a%20b"))',
      gives: "a b",
      run: (run, text) => {
        run.text(text.length * 2);
        try {
          return ok(decodeURIComponent(text));
        } catch {
          return err("this is not the encoding of a text");
        }
      },
    }),
    entry({
      name: "escapeHtml",
      params: ["text: string"],
      returns: "string",
      doc: "For use in HTML.",
      example: 'string.escapeHtml("<b>")',
      gives: "&lt;b&gt;",
      run: (run, text) => made(run, text.length * 6, () => text.replace(/[&<>"']/g, (sign) => HTML[sign]!)),
    }),
    entry({
      name: "codeAt",
      params: ["text: string", "index: int"],
      returns: "int|null",
      doc: "The number of the character at a place, or null.",
      example: 'string.codeAt("A", 0)',
      gives: 65,
      run: (_, text, index) => text.codePointAt(index) ?? null,
    }),
    entry({
      name: "fromCode",
      params: ["code: int"],
      returns: "string",
      doc: "The character with a number.",
      example: "string.fromCode(65)",
      gives: "A",
      run: (_, code) => {
        if (code < 0 || code > 0x10ffff) throw fail("runtime", `there is no character ${code}`);
        return String.fromCodePoint(code);
      },
    }),
  ],
);
