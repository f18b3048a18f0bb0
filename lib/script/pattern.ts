import { LINE_ENDS, type Part, type Ranges, Reader, WORD, within, wrong } from "./pattern-reader.ts";
import type { Meter, Turns, Waiting } from "./values.ts";

/**
 * Regular expressions for strangers' patterns: all states are followed at once (Thompson, Pike), so the time is the
 * text's length times the pattern's, whatever the pattern. In return there are no backreferences and no lookaround.
 *
 * Understood: literals, `.`, classes `[a-z\d]`, `\d \w \s \D \W \S \b \B`, `^ $`, `(…)`, `(?:…)`, `(?<name>…)`,
 * `|`, `* + ?`, `{n} {n,} {n,m}`, each of them lazy with `?`; flags `i`, `m`, `s`, also as `(?i)` at the beginning.
 * Matches are those that JavaScript finds, but for one corner: where what is repeated can itself be empty, as in
 * `(a??)?`, an empty turn counts here and is discarded there.
 */
export interface Match {
  index: number;
  text: string;
  /** What the groups hold, the first one first; null for a group that took no part. */
  groups: (string | null)[];
  named: Map<string, string | null>;
}

const MAX_PROGRAM = 4000;

type Op =
  | { op: "set"; accepts: (code: number) => boolean }
  | { op: "edge"; edge: "^" | "$" | "b" | "B" }
  | { op: "split"; first: number; second: number }
  | { op: "jump"; to: number }
  | { op: "save"; place: number }
  /** Forgets the groups from one on to another: each turn of a repetition begins without them. */
  | { op: "forget"; from: number; to: number }
  | { op: "match" };

/** How JavaScript takes two letters for the same without regard to case. */
function fold(code: number): number {
  const upper = String.fromCharCode(code).toUpperCase();
  if (upper.length !== 1) return code;
  const folded = upper.charCodeAt(0);
  return code >= 128 && folded < 128 ? code : folded;
}

class Writer {
  readonly ops: Op[] = [];
  private readonly pattern: string;
  private readonly ignoreCase: boolean;

  constructor(pattern: string, ignoreCase: boolean) {
    this.pattern = pattern;
    this.ignoreCase = ignoreCase;
  }

  private add(op: Op): number {
    if (this.ops.length >= MAX_PROGRAM) throw wrong(this.pattern, "is too long, with all its repetitions");
    return this.ops.push(op) - 1;
  }

  write(part: Part): void {
    switch (part.kind) {
      case "set":
        this.add({ op: "set", accepts: this.acceptor(part.ranges, part.negated) });
        return;
      case "edge":
        this.add({ op: "edge", edge: part.edge });
        return;
      case "sequence":
        for (const one of part.parts) this.write(one);
        return;
      case "group":
        if (part.index !== null) this.add({ op: "save", place: part.index * 2 });
        this.write(part.part);
        if (part.index !== null) this.add({ op: "save", place: part.index * 2 + 1 });
        return;
      case "choice": {
        const jumps: number[] = [];
        for (const option of part.options.slice(0, -1)) {
          const split = this.add({ op: "split", first: this.ops.length + 1, second: 0 });
          this.write(option);
          jumps.push(this.add({ op: "jump", to: 0 }));
          this.ops[split] = { op: "split", first: split + 1, second: this.ops.length };
        }
        this.write(part.options.at(-1)!);
        for (const jump of jumps) this.ops[jump] = { op: "jump", to: this.ops.length };
        return;
      }
      case "repeat":
        this.repeat(part);
    }
  }

  private repeat({ part, least, most, lazy }: Extract<Part, { kind: "repeat" }>) {
    const groups = groupsIn(part);
    const turn = () => {
      if (groups) this.add({ op: "forget", from: groups[0] * 2, to: groups[1] * 2 + 1 });
      this.write(part);
    };
    for (let i = 0; i < least; i++) turn();
    const split = (at: number, out: number) => {
      this.ops[at] = lazy ? { op: "split", first: out, second: at + 1 } : { op: "split", first: at + 1, second: out };
    };
    if (most === Number.POSITIVE_INFINITY) {
      const start = this.add({ op: "match" });
      turn();
      this.add({ op: "jump", to: start });
      split(start, this.ops.length);
      return;
    }
    const splits: number[] = [];
    for (let i = least; i < most; i++) {
      splits.push(this.add({ op: "match" }));
      turn();
    }
    for (const at of splits) split(at, this.ops.length);
  }

  private acceptor(ranges: Ranges, negated: boolean): (code: number) => boolean {
    if (this.ignoreCase) {
      const folded = (code: number) => {
        const one = fold(code);
        return (
          within(ranges, code) ||
          within(ranges, one) ||
          within(ranges, String.fromCharCode(one).toLowerCase().charCodeAt(0))
        );
      };
      return negated ? (code) => !folded(code) : folded;
    }
    if (ranges.length === 1 && !negated) {
      const [from, to] = ranges[0]!;
      return from === to ? (code) => code === from : (code) => code >= from && code <= to;
    }
    return negated ? (code) => !within(ranges, code) : (code) => within(ranges, code);
  }
}

function groupsIn(part: Part): [number, number] | null {
  const found: number[] = [];
  const visit = (one: Part): void => {
    if (one.kind === "group" && one.index !== null) found.push(one.index);
    if (one.kind === "group" || one.kind === "repeat") visit(one.part);
    else if (one.kind === "sequence") one.parts.forEach(visit);
    else if (one.kind === "choice") one.options.forEach(visit);
  };
  visit(part);
  return found.length ? [Math.min(...found), Math.max(...found)] : null;
}

export class Pattern {
  private readonly ops: Op[];
  private readonly places: number;
  private readonly names: Map<string, number>;
  private readonly multiline: boolean;
  /** States looked at since they were last paid for. */
  private visited = 0;

  /** Throws a script error for a pattern we cannot read. */
  constructor(pattern: string, flags = "") {
    const inline = /^\(\?([ims]+)\)/.exec(pattern.slice(0, 8));
    const all = flags + (inline?.[1] ?? "");
    const unknown = /[^gims]/.exec(flags);
    if (unknown) throw wrong(pattern, `has the flag \`${unknown[0]}\`; there are \`i\`, \`m\` and \`s\``);
    if (pattern.length > 2000) throw wrong(pattern, "is longer than 2000 characters");
    const reader = new Reader(pattern, inline ? pattern.slice(inline[0].length) : pattern, all.includes("s"));
    const part = reader.read();
    const writer = new Writer(pattern, all.includes("i"));
    writer.write({ kind: "group", index: 0, part });
    this.ops = [...writer.ops, { op: "match" }];
    this.places = (reader.groups + 1) * 2;
    this.names = reader.names;
    this.multiline = all.includes("m");
  }

  /** The first match that begins at `from` or after it. */
  *exec(text: string, from: number, meter: Turns): Waiting<Match | null> {
    const saves = yield* this.run(text, from, meter);
    if (!saves) return null;
    const slice = (group: number) => {
      const start = saves[group * 2]!;
      const end = saves[group * 2 + 1]!;
      return start < 0 || end < 0 ? null : text.slice(start, end);
    };
    const groups = Array.from({ length: this.places / 2 - 1 }, (_, i) => slice(i + 1));
    const named = new Map([...this.names].map(([name, group]) => [name, slice(group)]));
    // The texts refer to the whole one; `named` is an object by itself.
    meter.alloc(300 + groups.length * 56);
    return { index: saves[0]!, text: text.slice(saves[0], saves[1]), groups, named };
  }

  /** Shows all matches one after another to a function that may wait; an empty one moves on by one character. */
  *all(text: string, meter: Turns, see: (match: Match) => Waiting<void> | void): Waiting<void> {
    for (let at = 0; at <= text.length; ) {
      const match = yield* this.exec(text, at, meter);
      if (!match) return;
      const seeing = see(match);
      if (seeing) yield* seeing;
      at = match.index + Math.max(match.text.length, 1);
    }
  }

  /** How much there is to follow, at most, at each place of a text. */
  get size(): number {
    return this.ops.length;
  }

  private *run(text: string, from: number, meter: Turns): Waiting<number[] | null> {
    const { ops } = this;
    meter.charge(16 + (ops.length >> 4));
    const seen = new Int32Array(ops.length).fill(-1);
    let current: { pc: number; saves: number[] }[] = [];
    let next: typeof current = [];
    let found: number[] | null = null;
    const fresh = Array.from({ length: this.places }, () => -1);

    for (let at = from; at <= text.length; at++) {
      if (!found) this.follow(0, fresh, at, text, current, seen);
      if (current.length === 0 && found) break;
      meter.charge(4 + this.visited);
      if (meter.steps > meter.restAt) yield null;
      this.visited = 0;
      const code = at < text.length ? text.charCodeAt(at) : -1;
      for (const { pc, saves } of current) {
        const op = ops[pc]!;
        if (op.op === "match") {
          found = saves;
          break;
        }
        if (op.op === "set" && code >= 0 && op.accepts(code)) {
          this.follow(pc + 1, saves, at + 1, text, next, seen);
        }
      }
      [current, next] = [next, current];
      next.length = 0;
    }
    return found;
  }

  /** Adds a state and all that can be reached from it without reading on, the preferred ones first. */
  private follow(
    start: number,
    startSaves: number[],
    at: number,
    text: string,
    states: { pc: number; saves: number[] }[],
    seen: Int32Array,
  ) {
    const open: { pc: number; saves: number[] }[] = [{ pc: start, saves: startSaves }];
    for (let state = open.pop(); state; state = open.pop()) {
      let { pc, saves } = state;
      for (;;) {
        this.visited++;
        if (seen[pc] === at) break;
        seen[pc] = at;
        const op = this.ops[pc]!;
        if (op.op === "jump") pc = op.to;
        else if (op.op === "split") {
          open.push({ pc: op.second, saves });
          pc = op.first;
        } else if (op.op === "save") {
          saves = saves.slice();
          saves[op.place] = at;
          pc++;
        } else if (op.op === "forget") {
          saves = saves.slice().fill(-1, op.from, op.to + 1);
          pc++;
        } else if (op.op === "edge") {
          if (!this.atEdge(op.edge, text, at)) break;
          pc++;
        } else {
          states.push({ pc, saves });
          break;
        }
      }
    }
  }

  private atEdge(edge: "^" | "$" | "b" | "B", text: string, at: number): boolean {
    const before = at > 0 ? text.charCodeAt(at - 1) : -1;
    const after = at < text.length ? text.charCodeAt(at) : -1;
    if (edge === "^") return before < 0 || (this.multiline && within(LINE_ENDS, before));
    if (edge === "$") return after < 0 || (this.multiline && within(LINE_ENDS, after));
    return (within(WORD, before) !== within(WORD, after)) === (edge === "b");
  }
}

const MAX_CACHED = 20;
const patterns = new Map<string, Pattern>();

/** Reading a pattern costs more than using it on a line, and scripts use few. */
export function patternOf(meter: Meter, source: string, flags: string): Pattern {
  meter.charge(source.length);
  const key = `${flags}/${source}`;
  const known = patterns.get(key);
  if (known) return known;
  const pattern = new Pattern(source, flags);
  meter.charge(pattern.size * 2);
  if (patterns.size >= MAX_CACHED) patterns.delete(patterns.keys().next().value!);
  patterns.set(key, pattern);
  return pattern;
}
