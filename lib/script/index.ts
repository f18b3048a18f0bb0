/** The script language: all that others use of it. */
export type { Known } from "./checker.ts";
export type { ErrorCode, Finding } from "./errors.ts";
export { type RunOptions, runScript, type ScriptRun, type ScriptTestRun, testScript } from "./execute.ts";
export { edgeWorld, request } from "./http.ts";
export { scriptLanguage, scriptLlmText } from "./language.ts";
export type { Assertion, OutputEntry, TestCase } from "./report.ts";
export { type Parsed, parseScript, type Validation, validateScript } from "./source.ts";
export type { Json } from "./values.ts";
export * from "./world.ts";
