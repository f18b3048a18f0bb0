import type { Program } from "./ast.ts";
import { check, type Known } from "./checker.ts";
import { compile } from "./compile.ts";
import { type ErrorCode, type Finding, fail, ScriptError } from "./errors.ts";
import { parse } from "./parser.ts";
import type { Piece } from "./run.ts";
import type { Json } from "./values.ts";
import { LIMITS } from "./world.ts";

export interface Parsed {
  /** Null when a finding is an error. */
  program: Program | null;
  findings: Finding[];
}

/** A script that can be run, if nothing refuses it. */
export interface Compiled extends Parsed {
  code: Piece[];
  /** As `import("script:…")` runs it; made when first imported. */
  module: Piece | null;
  /** What kind of error keeps it from running. */
  refused: ErrorCode | null;
}

const MAX_CACHED = 200;
/** A compiled script takes some fifty times the room of its source, and an isolate has 128 MB. */
const MAX_CACHED_CHARACTERS = 500_000;
/** By content, the longest unused one first. Keyed by the source itself, so that no two scripts can share an entry. */
const cache = new Map<string, Compiled>();
let cachedCharacters = 0;

/**
 * Reads and checks a source. The same source is read once, as long as it stays in the cache.
 * Findings have severity `error` or `warning` and the place in lines and columns from 1.
 */
export function parseScript(source: string): Parsed {
  return compiled(source);
}

export function compiled(source: string): Compiled {
  const known = cache.get(source);
  if (known) {
    cache.delete(source);
    cache.set(source, known);
    return known;
  }
  const made = read(source, {});
  cache.set(source, made);
  cachedCharacters += source.length;
  for (const oldest of cache.keys()) {
    if (cache.size <= MAX_CACHED && cachedCharacters <= MAX_CACHED_CHARACTERS) break;
    cache.delete(oldest);
    cachedCharacters -= oldest.length;
  }
  return made;
}

function read(source: string, known: Known): Compiled {
  const nothing = { program: null, code: [], module: null, refused: "syntax" as const };
  // A character has at most three bytes, so most sources need not be measured.
  const tooLong =
    source.length * 3 > LIMITS.source_bytes && new TextEncoder().encode(source).length > LIMITS.source_bytes;
  if (tooLong) {
    const message = `the script is longer than ${LIMITS.source_bytes / 1024} KB`;
    return { ...nothing, findings: [findingOf(fail("limit_source", message))], refused: "limit_source" };
  }
  try {
    const { program, findings } = check(parse(source), known);
    if (findings.some(({ severity }) => severity === "error")) return { ...nothing, findings };
    return { program, findings, code: compile(program), module: null, refused: null };
  } catch (error) {
    if (!(error instanceof ScriptError)) throw error;
    return { ...nothing, findings: [findingOf(error)] };
  }
}

export function findingOf({ message, at }: ScriptError): Finding {
  const { line, column, end_line, end_column } = at ?? { line: 1, column: 1, end_line: 1, end_column: 1 };
  return { severity: "error", message, line, column, end_line, end_column };
}

export interface Validation {
  ok: boolean;
  valid: boolean;
  /** The first error's message. */
  error: string | null;
  findings: Finding[];
  /** `{name, kind, line, column}` of every name the script gives. */
  symbols: Record<string, Json>[];
  warnings: string[];
}

/** Whether a script could run, and what to say about it; `known` is what exists where it would. */
export function validateScript(source: string, known: Known = {}): Validation {
  const { program, findings } = read(source, known);
  const errors = findings.filter(({ severity }) => severity === "error");
  const warnings = findings.filter(({ severity }) => severity === "warning").map(({ message }) => message);
  const ok = errors.length === 0;
  return { ok, valid: ok, error: errors[0]?.message ?? null, findings, symbols: program?.symbols ?? [], warnings };
}
