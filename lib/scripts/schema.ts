import * as v from "valibot";
import { map, maxValues, nullable, rule, text } from "../http/valid.ts";

const script = v.optional(v.string(), "");
const scope = v.pipe(v.optional(v.nullable(map)), maxValues(100_000));
/** No config store stands behind it yet, so no name resolves. */
const context = v.optional(v.null("there is no such config"));

export const validateScriptBody = v.strictObject({ script });
export const runScriptBody = v.pipe(
  v.strictObject({
    script,
    scope,
    resolution_context_config: context,
    run_as_user: v.optional(v.nullable(text(100))),
    run_as_agent: v.optional(v.nullable(text(255))),
  }),
  rule("run_as_agent", ({ run_as_user, run_as_agent }) => !(run_as_user && run_as_agent), "excludes run_as_user"),
);
export const testScriptBody = v.strictObject({
  script: v.string(),
  scope,
  resolution_context_config: context,
  /** Sources by lookup_key, which `import("script:…")` finds first. */
  scripts: v.optional(v.pipe(map, v.maxEntries(100), v.record(v.string(), v.string("must be a script's source")))),
});

const words = v.array(v.string());
const finding = v.strictObject({
  severity: v.picklist(["error", "warning"]),
  message: v.string(),
  line: v.number(),
  column: v.number(),
  end_line: v.number(),
  end_column: v.number(),
});
const findings = v.array(finding);

export const output = v.array(
  v.strictObject({
    line: v.nullable(v.number()),
    text: v.string(),
    values: v.array(v.unknown()),
    level: nullable,
    timestamp: nullable,
  }),
);

export const validation = v.strictObject({
  ok: v.boolean(),
  valid: v.boolean(),
  error: nullable,
  findings,
  symbols: v.array(v.looseObject({})),
  warnings: v.array(v.string()),
});

export const scriptResult = v.strictObject({
  result: v.unknown(),
  output,
  error: nullable,
  findings,
});

const assertion = v.strictObject({
  pass: v.boolean(),
  kind: v.literal("expect"),
  matcher: v.string(),
  actual: v.unknown(),
  expected: v.unknown(),
  line: v.nullable(v.number()),
  describe: words,
  it: nullable,
});
const testCase = v.strictObject({
  name: v.string(),
  describe: v.array(v.string()),
  pass: v.boolean(),
  error: nullable,
  assertions: v.array(assertion),
});
export const scriptReport = v.strictObject({
  passed: v.boolean(),
  assertion_count: v.number(),
  error: nullable,
  findings,
  output,
  suites: v.array(v.strictObject({ name: v.string(), describe: v.array(v.string()), tests: v.array(testCase) })),
  tests: v.array(testCase),
});

const entries = v.array(v.looseObject({}));
export const languageSpec = v.looseObject({
  languageId: v.string(),
  version: v.number(),
  keywords: words,
  operators: words,
  reservedNames: words,
  builtins: entries,
  namespaces: entries,
});

export const runtimeEnvVars = v.strictObject({
  data: v.array(v.strictObject({ key: v.string(), source: v.picklist(["app", "org"]), description: nullable })),
});
