import { fail } from "./errors.ts";

const MAX_REPEAT = 1000;
const MAX_GROUPS_DEEP = 100;
const MAX_GROUPS = 100;

/** Characters by their codes; of several ranges, in order. */
export type Ranges = [from: number, to: number][];
/** A pattern as a tree. */
export type Part =
  | { kind: "set"; ranges: Ranges; negated: boolean }
  | { kind: "edge"; edge: "^" | "$" | "b" | "B" }
  | { kind: "group"; index: number | null; part: Part }
  | { kind: "sequence"; parts: Part[] }
  | { kind: "choice"; options: Part[] }
  | { kind: "repeat"; part: Part; least: number; most: number; lazy: boolean };

const DIGIT: Ranges = [[48, 57]];
export const WORD: Ranges = [
  [48, 57],
  [65, 90],
  [95, 95],
  [97, 122],
];
const SPACE: Ranges = [
  [9, 13],
  [32, 32],
  [160, 160],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
];
export const LINE_ENDS: Ranges = [
  [10, 10],
  [13, 13],
  [0x2028, 0x2029],
];

export const within = (ranges: Ranges, code: number) => ranges.some(([from, to]) => code >= from && code <= to);

function without(ranges: Ranges): Ranges {
  const rest: Ranges = [];
  let from = 0;
  for (const [start, end] of ranges) {
    if (start > from) rest.push([from, start - 1]);
    from = end + 1;
  }
  if (from <= 0xffff) rest.push([from, 0xffff]);
  return rest;
}

/** An error about a pattern, which it names. */
export const wrong = (pattern: string, why: string) =>
  fail("runtime", `the pattern \`${pattern.length > 80 ? `${pattern.slice(0, 80)}…` : pattern}\` ${why}`);

/** Reads a pattern; throws a script error for what is none, or not supported. */
export class Reader {
  readonly names = new Map<string, number>();
  groups = 0;
  private at = 0;
  private depth = 0;
  private readonly text: string;
  private readonly source: string;
  private readonly dotAll: boolean;

  constructor(source: string, text: string, dotAll: boolean) {
    this.source = source;
    this.text = text;
    this.dotAll = dotAll;
  }

  read(): Part {
    const part = this.choice();
    if (this.at < this.text.length) throw this.wrong("has a `)` too many");
    return part;
  }

  private wrong(why: string) {
    return wrong(this.source, why);
  }

  private take(text: string): boolean {
    const is = this.text.startsWith(text, this.at);
    if (is) this.at += text.length;
    return is;
  }

  private choice(): Part {
    const options = [this.sequence()];
    while (this.take("|")) options.push(this.sequence());
    return options.length === 1 ? options[0]! : { kind: "choice", options };
  }

  private sequence(): Part {
    const parts: Part[] = [];
    while (this.at < this.text.length && this.text[this.at] !== "|" && this.text[this.at] !== ")") {
      parts.push(this.repeated(this.atom()));
    }
    return { kind: "sequence", parts };
  }

  private repeated(part: Part): Part {
    const counts = /^(?:([*+?])|\{(\d+)(?:(,)(\d*))?\})(\??)/.exec(this.text.slice(this.at, this.at + 32));
    if (!counts) return part;
    const [all, sign, from, comma, to, lazy] = counts;
    this.at += all.length;
    if (part.kind === "edge") throw this.wrong("repeats something that takes no room");
    const least = sign ? (sign === "+" ? 1 : 0) : Number(from);
    const most = sign
      ? sign === "?"
        ? 1
        : Number.POSITIVE_INFINITY
      : !comma
        ? least
        : to
          ? Number(to)
          : Number.POSITIVE_INFINITY;
    if (least > MAX_REPEAT || (most > MAX_REPEAT && most !== Number.POSITIVE_INFINITY)) {
      throw this.wrong(`repeats more than ${MAX_REPEAT} times`);
    }
    if (most < least) throw this.wrong("repeats at least more often than at most");
    if (/^(?:[*+?]|\{\d+(?:,\d*)?\})/.test(this.text.slice(this.at, this.at + 16)))
      throw this.wrong("repeats a repetition");
    return { kind: "repeat", part, least, most, lazy: lazy === "?" };
  }

  private atom(): Part {
    const char = this.text[this.at++]!;
    switch (char) {
      case ".":
        return { kind: "set", ranges: this.dotAll ? [] : LINE_ENDS, negated: true };
      case "^":
      case "$":
        return { kind: "edge", edge: char };
      case "(":
        return this.group();
      case "[":
        return this.class();
      case "\\":
        return this.escape();
      case "*":
      case "+":
      case "?":
        throw this.wrong(`has a \`${char}\` with nothing before it to repeat`);
      default:
        return literal(char.charCodeAt(0));
    }
  }

  private group(): Part {
    if (++this.depth > MAX_GROUPS_DEEP) throw this.wrong("has groups nested too deep");
    let index: number | null = null;
    if (this.take("?:")) index = null;
    else if (/^\?<?[=!]/.test(this.text.slice(this.at, this.at + 3)))
      throw this.wrong("uses lookaround, which is not supported");
    else {
      index = ++this.groups;
      if (index > MAX_GROUPS) throw this.wrong(`has more than ${MAX_GROUPS} groups`);
      if (this.take("?")) {
        const name = /^<([A-Za-z_]\w*)>/.exec(this.text.slice(this.at, this.at + 80));
        if (!name) throw this.wrong("has a group of a kind that is not supported");
        if (this.names.has(name[1]!)) throw this.wrong(`has two groups \`${name[1]}\``);
        this.at += name[0].length;
        this.names.set(name[1]!, index);
      }
    }
    const part = this.choice();
    if (!this.take(")")) throw this.wrong("has a group that is not closed");
    this.depth--;
    return { kind: "group", index, part };
  }

  private escape(): Part {
    const letter = this.text[this.at++];
    if (letter === undefined) throw this.wrong("ends with a backslash");
    if (letter === "b" || letter === "B") return { kind: "edge", edge: letter };
    if (/[1-9]/.test(letter) || letter === "k") throw this.wrong("uses a backreference, which is not supported");
    const set = shorthand(letter);
    return set ? { kind: "set", ranges: set, negated: false } : literal(this.character(letter));
  }

  /** The character that an escape stands for, after its letter was read. */
  private character(letter: string): number {
    const simple = "nrtfv0".indexOf(letter);
    if (simple >= 0) return [10, 13, 9, 12, 11, 0][simple]!;
    const digits = letter === "x" ? 2 : letter === "u" ? 4 : 0;
    if (digits > 0) {
      const hex = this.text.slice(this.at, this.at + digits);
      if (hex.length !== digits || /[^0-9a-fA-F]/.test(hex))
        throw this.wrong(`has a \`\\${letter}\` without ${digits} digits`);
      this.at += digits;
      return Number.parseInt(hex, 16);
    }
    if (/[A-Za-z]/.test(letter)) throw this.wrong(`has \`\\${letter}\`, which is not supported`);
    return letter.charCodeAt(0);
  }

  private class(): Part {
    const negated = this.take("^");
    const ranges: Ranges = [];
    for (;;) {
      if (this.at >= this.text.length) throw this.wrong("has a class that is not closed");
      if (this.take("]")) return { kind: "set", ranges, negated };
      const from = this.classItem();
      if (typeof from !== "number") ranges.push(...from);
      else if (this.text[this.at] === "-" && this.text[this.at + 1] !== "]" && this.at + 1 < this.text.length) {
        this.at++;
        const to = this.classItem();
        if (typeof to !== "number") ranges.push([from, from], [45, 45], ...to);
        else if (to < from) throw this.wrong("has a class with a range that goes backwards");
        else ranges.push([from, to]);
      } else ranges.push([from, from]);
      if (ranges.length > 500) throw this.wrong("has a class with too many parts");
    }
  }

  private classItem(): number | Ranges {
    const char = this.text[this.at++]!;
    if (char !== "\\") return char.charCodeAt(0);
    const letter = this.text[this.at++];
    if (letter === undefined) throw this.wrong("ends with a backslash");
    if (letter === "b") return 8;
    return shorthand(letter) ?? this.character(letter);
  }
}

function shorthand(letter: string): Ranges | null {
  const set = letter === "d" || letter === "D" ? DIGIT : letter === "w" || letter === "W" ? WORD : null;
  const ranges = set ?? (letter === "s" || letter === "S" ? SPACE : null);
  if (!ranges) return null;
  return letter === letter.toLowerCase() ? ranges : without(ranges);
}

const literal = (code: number): Part => ({ kind: "set", ranges: [[code, code]], negated: false });
