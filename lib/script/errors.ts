/** Where something stands in a source; lines and columns count from 1, `end_column` is the one after. */
export interface Span {
  line: number;
  column: number;
  end_line: number;
  end_column: number;
}

export type Severity = "error" | "warning";

/** What the reader of a script is told, as the contract shapes it. */
export interface Finding extends Span {
  severity: Severity;
  message: string;
}

export type ErrorCode =
  | "syntax"
  | "runtime"
  | "error_result"
  | "missing_input"
  | "import_missing"
  | "import_cycle"
  | "journal_mismatch"
  | "limit_source"
  | "limit_time"
  | "limit_steps"
  | "limit_memory"
  | "limit_depth"
  | "limit_output"
  | "limit_calls";

/** A script that cannot go on. `at` is filled in by whoever knows the place. */
export class ScriptError extends Error {
  readonly code: ErrorCode;
  at: Span | null;
  constructor(code: ErrorCode, message: string, at: Span | null) {
    super(message);
    this.code = code;
    this.at = at;
  }
}

export const fail = (code: ErrorCode, message: string, at: Span | null = null) => new ScriptError(code, message, at);

/**
 * The candidate nearest to `name` in spelling, if any is near: some third of the letters may differ. Of what is
 * near to none, the shortest candidate that begins with it.
 */
export function nearest(name: string, candidates: Iterable<string>): string | null {
  const plain = normal(name);
  let best: string | null = null;
  let bestDistance = plain.length < 3 ? 1 : Math.floor(plain.length / 3) + 2;
  let longer: string | null = null;
  for (const candidate of candidates) {
    const other = normal(candidate);
    if (other.startsWith(plain) && plain.length > 1 && (longer === null || candidate.length < longer.length)) {
      longer = candidate;
    }
    if (Math.abs(other.length - plain.length) >= bestDistance) continue;
    const distance = editDistance(plain, other);
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best ?? longer;
}

/** `for_each` and `forEach` are the same to who misspells them. */
const normal = (name: string) => name.toLowerCase().replaceAll("_", "");

function editDistance(a: string, b: string): number {
  if (a.length > 64 || b.length > 64) return 64;
  let beforeLast: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const change = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      const swapped = a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] ? beforeLast[j - 2]! + 1 : change;
      next.push(Math.min(change, swapped, row[j]! + 1, next[j - 1]! + 1));
    }
    [beforeLast, row] = [row, next];
  }
  return row[b.length]!;
}
