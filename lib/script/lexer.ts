import { fail, type Span } from "./errors.ts";
import { LIMITS } from "./world.ts";

export type TokenKind = "number" | "string" | "word" | "sign" | "end";

export interface Token extends Span {
  kind: TokenKind;
  /** The word or sign; of a string its contents, of a number its digits. */
  text: string;
  number: number;
  /** A line ended between the token before and this one. */
  newline: boolean;
}

const SIGNS = new Set(["==", "!=", "<=", ">=", "&&", "||"]);
const MAY_BE_TWO = new Set([..."=!<>&|"].map((sign) => sign.charCodeAt(0)));
const SINGLE = new Set("+-*/%<>!?:=.,;()[]{}$|");
const ESCAPES: Record<string, string> = {
  n: "\n",
  t: "\t",
  r: "\r",
  b: "\b",
  f: "\f",
  v: "\v",
  "0": "\0",
  "\\": "\\",
  "/": "/",
  '"': '"',
  "'": "'",
  "`": "`",
};

const isDigit = (code: number) => code >= 48 && code <= 57;
const isWordStart = (code: number) =>
  (code >= 97 && code <= 122) || (code >= 65 && code <= 90) || code === 95 || (code > 127 && isLetter(code));
const isLetter = (code: number) => /\p{L}/u.test(String.fromCharCode(code));

/**
 * Splits a source into tokens, the last of kind `end`. Throws a `syntax` error with its place, or `limit_source`: all
 * that is made of a source grows with its tokens, and `[[[` has as many as characters.
 */
export function lex(source: string): Token[] {
  const tokens: Token[] = [];
  let at = source.charCodeAt(0) === 0xfeff ? 1 : 0;
  let line = 1;
  let lineStart = at;
  let newline = false;

  const span = (startLine: number, startColumn: number): Span => ({
    line: startLine,
    column: startColumn,
    end_line: line,
    end_column: at - lineStart + 1,
  });
  const add = (kind: TokenKind, text: string, number: number, startLine: number, startColumn: number) => {
    const end_column = at - lineStart + 1;
    if (tokens.length > LIMITS.source_tokens) {
      const most = LIMITS.source_tokens.toLocaleString("en");
      throw fail("limit_source", `the script has more than ${most} words, values and signs`, span(line, startColumn));
    }
    tokens.push({ kind, text, number, newline, line: startLine, column: startColumn, end_line: line, end_column });
    newline = false;
  };
  const nextLine = () => {
    line++;
    lineStart = at;
    newline = true;
  };

  while (at < source.length) {
    const code = source.charCodeAt(at);
    const startLine = line;
    const startColumn = at - lineStart + 1;
    if (code === 10) {
      at++;
      nextLine();
    } else if (code <= 32 || code === 0xa0 || code === 0xfeff) {
      at++;
    } else if (code === 47 && source.charCodeAt(at + 1) === 47) {
      const end = source.indexOf("\n", at);
      at = end < 0 ? source.length : end;
    } else if (code === 47 && source.charCodeAt(at + 1) === 42) {
      skipComment(startLine, startColumn);
    } else if (isDigit(code)) {
      readNumber(startLine, startColumn);
    } else if (isWordStart(code)) {
      const start = at++;
      while (at < source.length && (isWordStart(source.charCodeAt(at)) || isDigit(source.charCodeAt(at)))) at++;
      add("word", source.slice(start, at), 0, startLine, startColumn);
    } else if (code === 34 || code === 39) {
      readString(code, startLine, startColumn);
    } else {
      const two = MAY_BE_TWO.has(code) ? source.slice(at, at + 2) : "";
      const sign = SIGNS.has(two) ? two : source[at]!;
      at += sign.length;
      if (sign.length === 1 && !SINGLE.has(sign)) {
        throw fail("syntax", unknownSign(sign), span(startLine, startColumn));
      }
      add("sign", sign, 0, startLine, startColumn);
    }
  }
  add("end", "", 0, line, at - lineStart + 1);
  return tokens;

  /** Comments nest, so that a commented part can be commented out again. */
  function skipComment(startLine: number, startColumn: number) {
    let depth = 0;
    do {
      if (at >= source.length) {
        throw fail("syntax", "this comment is not closed; end it with `*/`", {
          line: startLine,
          column: startColumn,
          end_line: startLine,
          end_column: startColumn + 2,
        });
      }
      const two = source.slice(at, at + 2);
      if (two === "/*" || two === "*/") {
        depth += two === "/*" ? 1 : -1;
        at += 2;
      } else if (source.charCodeAt(at++) === 10) nextLine();
    } while (depth > 0);
  }

  function readNumber(startLine: number, startColumn: number) {
    const start = at;
    const digits = () => {
      while (isDigit(source.charCodeAt(at))) at++;
    };
    digits();
    if (source[at] === "." && isDigit(source.charCodeAt(at + 1))) {
      at++;
      digits();
    }
    const exponent = /^[eE][+-]?\d/.exec(source.slice(at, at + 3));
    if (exponent) {
      at += exponent[0].length;
      digits();
    }
    const text = source.slice(start, at);
    if (isWordStart(source.charCodeAt(at))) {
      throw fail("syntax", `\`${text}${source[at]}\` is not a number`, span(startLine, startColumn));
    }
    const number = Number(text);
    if (!Number.isFinite(number)) {
      throw fail("syntax", `\`${text}\` is too large a number`, span(startLine, startColumn));
    }
    add("number", text, number, startLine, startColumn);
  }

  /** A line may end inside a string. An escape we do not know stays as written, so "\d" can be used in a pattern. */
  function readString(quote: number, startLine: number, startColumn: number) {
    at++;
    let text = "";
    let start = at;
    for (;;) {
      if (at >= source.length) {
        throw fail("syntax", `this string is not closed; end it with ${String.fromCharCode(quote)}`, {
          line: startLine,
          column: startColumn,
          end_line: startLine,
          end_column: startColumn + 1,
        });
      }
      const code = source.charCodeAt(at);
      if (code === quote) break;
      if (code === 92) {
        text += source.slice(start, at) + readEscape();
        start = at;
      } else {
        at++;
        if (code === 10) nextLineInString();
      }
    }
    text += source.slice(start, at);
    at++;
    add("string", text, 0, startLine, startColumn);
  }

  function nextLineInString() {
    line++;
    lineStart = at;
  }

  function readEscape(): string {
    const letter = source[at + 1] ?? "";
    if (letter === "u") {
      const hex = /^u(?:([0-9a-fA-F]{4})|\{([0-9a-fA-F]{1,6})\})/.exec(source.slice(at + 1, at + 11));
      const code = hex ? Number.parseInt((hex[1] ?? hex[2])!, 16) : -1;
      if (!hex || code > 0x10ffff) {
        const startColumn = at - lineStart + 1;
        throw fail("syntax", "`\\u` wants four hexadecimal digits, or some in braces: `\\u00e9`, `\\u{1f600}`", {
          line,
          column: startColumn,
          end_line: line,
          end_column: startColumn + 2,
        });
      }
      at += 1 + hex[0].length;
      return hex[1] === undefined ? String.fromCodePoint(code) : String.fromCharCode(code);
    }
    at += 1 + letter.length;
    const known = Object.hasOwn(ESCAPES, letter) ? ESCAPES[letter] : undefined;
    if (letter === "\n") nextLineInString();
    return known ?? `\\${letter}`;
  }
}

function unknownSign(sign: string): string {
  if (sign === "&") return "`&` is not an operator; did you mean `&&`?";
  if (sign === "`") return "strings are written in \"double\" or 'single' quotes";
  return `\`${sign}\` has no meaning here`;
}
