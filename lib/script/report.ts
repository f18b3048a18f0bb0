/** What a run leaves for its reader: what it printed, and the cases of a test. */

import type { Callable, Json } from "./values.ts";

export interface OutputEntry {
  line: number | null;
  text: string;
  values: Json[];
  /** `debug`, `info`, `warn` or `error` of a log entry; null for `println`. */
  level: string | null;
  /** Of a log entry, ISO 8601. */
  timestamp: string | null;
}

export interface Assertion {
  pass: boolean;
  kind: "expect";
  matcher: string;
  actual: Json;
  expected: Json;
  line: number | null;
  describe: string[];
  it: string | null;
}

export interface TestCase {
  name: string;
  describe: string[];
  pass: boolean;
  error: string | null;
  assertions: Assertion[];
}

/** What `test` collects, when the script runs as a test. */
export interface Tests {
  cases: TestCase[];
  describe: string[];
  current: TestCase | null;
  /** Fakes for outbound calls by full name, in force for the rest of a case. */
  mocks: Map<string, Callable>;
  before: Callable[];
}
