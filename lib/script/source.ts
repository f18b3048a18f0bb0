import type { Program } from "./ast.ts";
import { check, type Known } from "./checker.ts";
import { compile } from "./compile.ts";
import { type ErrorCode, type Finding, fail, ScriptError } from "./errors.ts";
import { lex } from "./lexer.ts";
import { parse } from "./parser.ts";
import type { Piece } from "./run.ts";
import { type Json, textBytes } from "./values.ts";
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
  /** What it takes, by estimate. */
  bytes: number;
  /** What kind of error keeps it from running. */
  refused: ErrorCode | null;
}

const MAX_CACHED = 200;
/** An isolate has 128 MB. */
const MAX_CACHED_BYTES = 25_000_000;
/** What is made of a token on the way from source to closures, at most. */
const TOKEN_BYTES = 500;
/** By content, the longest unused one first. Keyed by the source itself, so that no two scripts can share an entry. */
const cache = new Map<string, Compiled>();
let cachedBytes = 0;

/**
 * Reads and checks a source. The same source is read once, as long as it stays in the cache.
 * Findings have severity `error` or `warning` and the place in lines and columns from 1.
 */
export function parseScript(source: string): Parsed {
  return compiled(source);
}

/** The same, compiled. `pay` is told how many bytes it takes before it is made, and may throw. */
export function compiled(source: string, pay: (bytes: number) => void = () => {}): Compiled {
  const known = cache.get(source);
  if (known) {
    cache.delete(source);
    cache.set(source, known);
    pay(known.bytes);
    return known;
  }
  const made = read(source, {}, pay);
  cache.set(source, made);
  cachedBytes += made.bytes;
  for (const [oldest, { bytes }] of cache) {
    if (cache.size <= MAX_CACHED && cachedBytes <= MAX_CACHED_BYTES) break;
    cache.delete(oldest);
    cachedBytes -= bytes;
  }
  return made;
}

function read(source: string, known: Known, pay: (bytes: number) => void = () => {}): Compiled {
  const text = textBytes(source.length);
  const refused = (code: ErrorCode, findings: Finding[]) => ({
    program: null,
    code: [],
    module: null,
    bytes: text,
    refused: code,
    findings,
  });
  // A character has at most three bytes, so most sources need not be measured.
  const tooLong =
    source.length * 3 > LIMITS.source_bytes && new TextEncoder().encode(source).length > LIMITS.source_bytes;
  if (tooLong) {
    const message = `the script is longer than ${LIMITS.source_bytes / 1024} KB`;
    return refused("limit_source", [findingOf(fail("limit_source", message))]);
  }
  try {
    const tokens = lex(source);
    const bytes = text + tokens.length * TOKEN_BYTES;
    pay(bytes);
    const { program, findings } = check(parse(tokens), known);
    if (findings.some(({ severity }) => severity === "error")) return refused("syntax", findings);
    return { program, findings, code: compile(program), module: null, bytes, refused: null };
  } catch (error) {
    // Who cannot pay says nothing of the script.
    if (!(error instanceof ScriptError) || error.code === "limit_memory") throw error;
    return refused(error.code, [findingOf(error)]);
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
