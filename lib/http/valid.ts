import type { Context, MiddlewareHandler } from "hono";
import * as v from "valibot";
import { ApiError, badRequest, type FieldError, invalid } from "../errors.ts";
import { type Id, isId } from "../ids.ts";
import type { Kind } from "../kinds.ts";
import { part } from "./spec.ts";

const MAX_DEPTH = 32;
const MAX_METADATA_BYTES = 16 * 1024;

type Entries = v.ObjectEntries;
type Input<T extends "json" | "query", S extends v.GenericSchema> = {
  in: { [K in T]: v.InferInput<S> };
  out: { [K in T]: v.InferOutput<S> };
};

/**
 * Checks a body or a query string before the handler sees it. All faults are answered at once, each with its
 * field and never with the value that was sent.
 */
export function valid<T extends "json" | "query", S extends v.GenericSchema & { entries: Entries }>(
  target: T,
  schema: S,
): MiddlewareHandler<object, string, Input<T, S>> {
  const read = target === "json" ? readJson : readQuery;
  const middleware: MiddlewareHandler = async (c, next) => {
    const input = await read(c, schema.entries);
    if (!isMap(input)) throw invalid({ field: "", message: "must be an object" });
    const faults = [...unstorable(input), ...(target === "json" ? unknownFields(input, schema.entries) : [])];
    const result = v.safeParse(schema, input);
    const issues = result.success
      ? []
      : result.issues.filter(
          (issue) => issue.type !== "strict_object" || issue.path?.length !== 1 || issue.expected !== "never",
        );
    const all = [...faults, ...issues.map(toFieldError)];
    if (all.length) throw invalid(...all);
    c.req.addValidatedData(target, result.output as object);
    await next();
  };
  return Object.assign(middleware, { [part]: { target, schema } }) as never;
}

/** The body as JSON. None at all is `{}`: the SDK sends a JSON content type with calls that have no body. */
async function readJson(c: Context): Promise<unknown> {
  const type = c.req.header("Content-Type");
  const text = await c.req.text();
  if (text === "") return {};
  if (type && !/^application\/([\w.+-]+\+)?json\s*(;|$)/i.test(type)) {
    throw new ApiError(415, "unsupported_media_type", "Send the body as `Content-Type: application/json`.");
  }
  try {
    return JSON.parse(text);
  } catch {
    throw badRequest("malformed_json", "The body is not valid JSON.");
  }
}

/** The query string by name: `agent[]=a&agent[]=b`, `agent=a&agent=b` and `agent=a,b` are one list. */
function readQuery(c: Context, entries: Entries): Record<string, string | string[]> {
  const sent = c.req.queries();
  return Object.fromEntries(
    Object.keys(entries).flatMap((name): [string, string | string[]][] => {
      const values = [...(sent[name] ?? []), ...(sent[`${name}[]`] ?? [])];
      if (!values.length) return [];
      return [[name, isList(entries[name]!) ? values.flatMap((value) => value.split(",")) : values[0]!]];
    }),
  );
}

const isList = (schema: v.GenericSchema | v.GenericSchemaAsync): boolean =>
  schema.type === "array" || ("wrapped" in schema && isList(schema.wrapped as v.GenericSchema));

/** Valibot names one unknown key; a client wants all of them, and `constructor` is unknown too. */
function unknownFields(input: unknown, entries: Entries): FieldError[] {
  return Object.keys(input as object)
    .filter((key) => !Object.hasOwn(entries, key))
    .map((key) => ({ field: key.slice(0, 100), message: "is not a known field" }));
}

/** What JSON can say and Postgres can't keep: NUL, half a surrogate pair, a number beyond a double; and depth. */
function unstorable(input: unknown, path = "", depth = 0): FieldError[] {
  if (depth > MAX_DEPTH) return [{ field: path, message: `must not be nested deeper than ${MAX_DEPTH}` }];
  if (typeof input === "number" && !Number.isFinite(input))
    return [{ field: path, message: "must be a finite number" }];
  if (typeof input === "string" && !isText(input))
    return [{ field: path, message: "must be well-formed text without NUL" }];
  if (typeof input !== "object" || input === null) return [];
  for (const [key, value] of Object.entries(input)) {
    const at = path && path.length < 100 ? `${path}.${key}` : path || key.slice(0, 100);
    if (!isText(key)) return [{ field: path, message: "must have well-formed names without NUL" }];
    const faults = unstorable(value, at, depth + 1);
    if (faults.length) return faults;
  }
  return [];
}

const isMap = (input: unknown): input is Record<string, unknown> =>
  typeof input === "object" && input !== null && !Array.isArray(input);
const isText = (text: string) => text.isWellFormed() && !text.includes("\0");

/** A sentence for people from valibot's finding; its own would repeat the value. */
function toFieldError(issue: v.BaseIssue<unknown>): FieldError {
  const field = (issue.path ?? [])
    .map(({ key }) => String(key))
    .join(".")
    .slice(0, 200);
  return { field, message: sentence(issue) };
}

function sentence({
  kind,
  type,
  expected,
  received,
  requirement,
  message,
}: v.BaseIssue<unknown> & { requirement?: unknown }) {
  if (kind === "schema") {
    if (received === "undefined") return "is required";
    if (expected === "never") return "is not a known field";
    return message.startsWith("Invalid ") ? `must be ${expected?.replaceAll('"', "") || "of another type"}` : message;
  }
  if (type === "max_length") return `must have at most ${requirement} characters or items`;
  if (type === "min_length" || type === "non_empty")
    return `must have at least ${requirement ?? 1} characters or items`;
  if (type === "min_value") return `must be at least ${requirement}`;
  if (type === "max_value") return `must be at most ${requirement}`;
  return message.startsWith("Invalid ") ? "is not of the right form" : message;
}

/** A JSON object, kept as it came: `v.record` would take a list, and drop a name like `constructor`. */
export const map = v.custom<Record<string, unknown>>(isMap, "must be an object");

/** A free map of a record: at most 16 KB as JSON. */
export const metadata = v.pipe(
  map,
  v.check(
    (map) => new TextEncoder().encode(JSON.stringify(map)).length <= MAX_METADATA_BYTES,
    "must be at most 16 KB as JSON",
  ),
);

/** A text of a record, at most `max` characters. */
export const text = (max: number) => v.pipe(v.string(), v.maxLength(max));

/** A row that a body names by its id. One that is malformed is not there, like any other. */
export const idOf = <K extends Kind>(kind: K) =>
  v.pipe(
    v.string(),
    v.check((id) => isId(kind, id), `there is no such ${kind}`),
    v.transform((id) => id as Id<K>),
  );

/** A field of the contract that nothing stands behind yet: saying so beats dropping it silently. */
export const notYet = (why: string) => v.optional(v.null(why));

/** In views: text or null, and a moment as the database gives it. */
export const nullable = v.nullable(v.string());
export const stamp = v.pipe(v.string(), v.isoTimestamp());
