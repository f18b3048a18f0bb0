import { distance } from "fastest-levenshtein";
import type { Context, MiddlewareHandler } from "hono";
import * as v from "valibot";
import type { Allowed } from "../auth/allow.ts";
import { ApiError, badRequest, type FieldError, invalid } from "../errors.ts";
import { type Id, isId } from "../ids.ts";
import type { Kind } from "../kinds.ts";
import { MAX_BODY_BYTES, MAX_UNSEEN_BYTES, readBody } from "./body.ts";
import { inTurn, searches } from "./gate.ts";
import { part } from "./spec.ts";

const MAX_DEPTH = 32;
export const MAX_VALUES = 10_000;
const MAX_FAULTS = 50;
/** Of a field's name, in a fault: a client may have chosen it. */
const MAX_NAME = 100;
const QUOTE = 0x22;
const COMMA = 0x2c;
const BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const BRACKET_END = 0x5d;
const BRACE = 0x7b;
const BRACE_END = 0x7d;
const MAX_METADATA_BYTES = 16 * 1024;
const MAX_VALUES_OF = "x-max-values";
const MAX_BYTES_OF = "x-max-bytes";
/** Of a body none of whose fields holds much: more than the longest text of a record takes, each of its characters escaped. */
export const MAX_PLAIN_BYTES = 512 * 1024;

type Entries = v.ObjectEntries;
type Input<T extends "json" | "query", S extends v.GenericSchema> = {
  in: { [K in T]: v.InferInput<S> };
  out: { [K in T]: v.InferOutput<S> };
};
/** Takes a fault in, and asks what it says only if it will be told. */
type Add = (fault: () => FieldError) => void;

/**
 * Checks a body or a query string before the handler sees it. All faults are answered at once, the first 50 each with
 * its field and never with the value that was sent, the others by their number. It costs linear time, whatever is sent.
 */
export function valid<T extends "json" | "query", S extends v.GenericSchema & { entries: Entries }>(
  target: T,
  schema: S,
): MiddlewareHandler<object, string, Input<T, S>> {
  const allowances = allowancesOf(schema.entries);
  const bounds = {
    values: [...allowances.values()].reduce((sum, allowance) => sum + allowance, MAX_VALUES),
    bytes: holdsMuch(schema.entries) ? MAX_BODY_BYTES : MAX_PLAIN_BYTES,
  };
  const middleware: MiddlewareHandler = async (c, next) => {
    const input = target === "json" ? await readJson(c, bounds) : readQuery(c, schema.entries);
    if (!isMap(input)) throw invalid({ field: "", message: "must be an object" });
    const fields: FieldError[] = [];
    let count = 0;
    const add: Add = (fault) => {
      if (count++ < MAX_FAULTS) fields.push(fault());
    };
    survey(input, allowances, add);
    if (target === "json") findUnknown(input, schema.entries, add);
    // A list that is full needs no more to be looked for.
    if (count > MAX_FAULTS) throw invalid([...fields, more(count)]);
    // One fault a value: what is no date at all is not also one of the past.
    const result = v.safeParse(schema, input, { abortPipeEarly: true });
    for (const issue of result.issues ?? []) if (!isOfUnknown(issue)) add(() => toFieldError(issue, schema));
    if (count > MAX_FAULTS) fields.push(more(count));
    if (count) throw invalid(fields);
    c.req.addValidatedData(target, result.output as object);
    // A search looks at every row that its tenant has.
    const isSearch = target === "query" && Boolean((result.output as { search?: string }).search);
    await (isSearch ? inTurn(searches, c as Context<Allowed>, next) : next());
  };
  return Object.assign(middleware, { [part]: { target, schema } }) as never;
}

/**
 * Checks a form of one of our pages: each of its fields a text, said once. It stands in no document: it is for people. 415 for
 * anything but a form.
 */
export function validForm<S extends v.GenericSchema & { entries: Entries }>(
  schema: S,
): MiddlewareHandler<object, string, { in: { form: v.InferInput<S> }; out: { form: v.InferOutput<S> } }> {
  return async (c, next) => {
    if (!/^application\/x-www-form-urlencoded\s*(;|$)/i.test(c.req.header("Content-Type") ?? "")) {
      throw new ApiError(415, "unsupported_media_type", "Send a form, as the page does.");
    }
    const fields = [...new URLSearchParams(new TextDecoder().decode(await readBody(c as Context)))];
    const input = Object.fromEntries(fields);
    mustBeStorable(input);
    const { success, output, issues } = v.safeParse(schema, input, { abortPipeEarly: true });
    if (!success || fields.length > Object.keys(input).length) {
      throw invalid((issues ?? []).slice(0, MAX_FAULTS).map((issue) => toFieldError(issue, schema)));
    }
    c.req.addValidatedData("form", output as object);
    await next();
  };
}

/** The body as JSON. None at all is `{}`: the SDK sends a JSON content type with calls that have no body. */
export async function readJson(c: Context, most: { values: number; bytes: number }): Promise<unknown> {
  const type = c.req.header("Content-Type");
  const body = await readBody(c);
  if (body.length === 0) return {};
  if (type && !/^application\/([\w.+-]+\+)?json\s*(;|$)/i.test(type)) {
    throw new ApiError(415, "unsupported_media_type", "Send the body as `Content-Type: application/json`.");
  }
  // Long texts are garbage of this isolate's that all others wait for: what can't be right isn't made into one.
  if (body.length > most.bytes) throw invalid({ field: "", message: `must take at most ${most.bytes} bytes here` });
  if (body.length > MAX_UNSEEN_BYTES) skim(body, most.values);
  try {
    // A Worker's own `text()` takes three times as long to decode what isn't ASCII.
    return JSON.parse(new TextDecoder().decode(body));
  } catch {
    throw badRequest("malformed_json", "The body is not valid JSON.");
  }
}

/**
 * Refuses a large body that holds too many or too deep values by its commas and brackets, before it is parsed: a megabyte
 * of those takes twenty times as long to parse as a megabyte of text. What it lets through `survey` counts exactly.
 */
function skim(body: Uint8Array, most: number) {
  let commas = 0;
  let depth = 0;
  for (let at = 0; at < body.length; at++) {
    const byte = body[at]!;
    if (byte === QUOTE) {
      const end = body.indexOf(QUOTE, at + 1);
      if (end < 0) return;
      if (body[end - 1] !== BACKSLASH) at = end;
      else for (at++; body[at] !== QUOTE && at < body.length; at++) if (body[at] === BACKSLASH) at++;
    } else if (byte === COMMA) {
      if (++commas > most) throw tooMany("", most);
    } else if (byte >= BRACKET) {
      // Digits are below all of these. The whole is at no depth yet.
      if (byte === BRACE_END || byte === BRACKET_END) depth--;
      else if ((byte === BRACE || byte === BRACKET) && ++depth > MAX_DEPTH + 1) throw tooDeep("");
    }
  }
}

const more = (count: number): FieldError => ({ field: "", message: `has ${count - MAX_FAULTS} more faults` });
const tooMany = (field: string, most: number) =>
  invalid({ field, message: `must hold at most ${most} values, counted at every depth` });
const tooDeep = (field: string) => invalid({ field, message: `must not be nested deeper than ${MAX_DEPTH}` });

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
function findUnknown(input: object, entries: Entries, add: Add) {
  for (const key of Object.keys(input)) {
    if (!Object.hasOwn(entries, key)) add(() => ({ field: nameOf([key]), message: unknown(key, entries) }));
  }
}

/** Of a name that isn't known: which one was meant, if one is near. Both are cut, so that it costs nothing to ask. */
function unknown(key: string, entries: Entries): string {
  const name = key.slice(0, MAX_NAME).toLowerCase();
  const [near] = Object.keys(entries)
    .map((known) => ({ known, most: Math.min(3, known.length / 3) }))
    // As far as it is longer or shorter it is away at least.
    .filter(({ known, most }) => Math.abs(known.length - name.length) <= most)
    .map(({ known, most }) => ({ known, most, away: distance(name, known) }))
    .filter(({ most, away }) => away <= most)
    .sort((a, b) => a.away - b.away);
  return `is not a known field${near ? `; did you mean ${near.known}?` : ""}`;
}

/** The fields of the object that holds what a path names; none, where its schema has no names. */
function entriesAt(schema: v.GenericSchema | undefined, path: readonly unknown[]): Entries {
  const inner = schema as { wrapped?: v.GenericSchema; entries?: Entries; item?: v.GenericSchema } | undefined;
  if (inner?.wrapped) return entriesAt(inner.wrapped, path);
  if (path.length === 1) return inner?.entries ?? {};
  return inner ? entriesAt((inner.item ?? inner.entries?.[String(path[0])]) as v.GenericSchema, path.slice(1)) : {};
}

const isOfUnknown = ({ type, path, expected }: v.BaseIssue<unknown>) =>
  type === "strict_object" && path?.length === 1 && expected === "never";

/** The fields that may hold more values than a whole body, and how many: see `maxValues`. */
const allowancesOf = (entries: Entries): Map<string, number> =>
  new Map(
    Object.entries(entries).flatMap(([name, schema]) => {
      const most = v.getMetadata(schema as v.GenericSchema)[MAX_VALUES_OF];
      return typeof most === "number" ? [[name, most]] : [];
    }),
  );

/** Whether a field says that it takes more bytes, or more values, than a whole body: see `maxBytes`, `maxValues`. */
const holdsMuch = (entries: Entries) =>
  Object.values(entries).some((schema) => {
    const said = v.getMetadata(("wrapped" in schema ? schema.wrapped : schema) as v.GenericSchema);
    return MAX_BYTES_OF in said || allowancesOf({ schema }).size > 0;
  });

/**
 * Looks at each value once, before the schema does. Refuses too many and too deep ones where it meets them: what a
 * schema costs is bounded by the values that it sees. Tells of what JSON can say and Postgres can't keep: NUL, half a
 * surrogate pair, a number beyond a double.
 */
function survey(input: Record<string, unknown>, allowances: Map<string, number>, add: Add) {
  const path: (string | number)[] = [];
  const tell = (message: string) => add(() => ({ field: nameOf(path), message }));
  const whole = { field: "", most: MAX_VALUES, left: MAX_VALUES };
  let bound = whole;
  const look = (key: string | number, value: unknown) => {
    if (--bound.left < 0) throw tooMany(bound.field, bound.most);
    path.push(key);
    if (path.length > MAX_DEPTH) throw tooDeep(nameOf(path));
    if (typeof value === "string") {
      if (!isText(value)) tell("must be well-formed text without NUL");
    } else if (typeof value === "number") {
      if (!Number.isFinite(value)) tell("must be a finite number");
    } else if (Array.isArray(value)) {
      for (let i = 0; i < value.length; i++) look(i, value[i]);
    } else if (isMap(value)) {
      lookInto(value);
    }
    path.pop();
  };
  const lookInto = (map: Record<string, unknown>) => {
    for (const key of Object.keys(map)) {
      if (!isText(key)) tell("must have well-formed names without NUL");
      if (path.length === 0) {
        const most = allowances.get(key);
        bound = most === undefined ? whole : { field: key, most, left: most };
      }
      look(key, map[key]);
    }
  };
  lookInto(input);
}

/** Refuses what Postgres can't keep of values that came by another way than a request: 422, as of a body. */
export function mustBeStorable(input: Record<string, unknown>) {
  const faults: FieldError[] = [];
  survey(input, new Map(), (fault) => void (faults.length < MAX_FAULTS && faults.push(fault())));
  if (faults.length) throw invalid(faults);
}

/** A JSON object. */
export const isMap = (input: unknown): input is Record<string, unknown> =>
  typeof input === "object" && input !== null && !Array.isArray(input);
const isText = (text: string) => text.isWellFormed() && !text.includes("\0");

/** A field as a fault names it: `acl.grants.0.actions`. Names are cut first: one may be as long as the body. */
const nameOf = (path: readonly unknown[]) =>
  path
    .map((key) => String(key).slice(0, MAX_NAME))
    .join(".")
    .slice(0, MAX_NAME);

/** A sentence for people from valibot's finding; its own would repeat the value. */
function toFieldError(issue: v.BaseIssue<unknown>, schema: v.GenericSchema): FieldError {
  const path = (issue.path ?? []).map(({ key }) => key);
  const isUnknown = issue.type === "strict_object" && issue.expected === "never";
  const message = isUnknown ? unknown(String(path.at(-1)), entriesAt(schema, path)) : sentence(issue);
  return { field: nameOf(path), message };
}

const words: Record<string, string> = {
  string: "a string",
  number: "a number",
  boolean: "true or false",
  Object: "an object",
  Array: "a list",
};

function sentence({
  kind,
  type,
  input,
  expected,
  received,
  requirement,
  message,
}: v.BaseIssue<unknown> & { requirement?: unknown }) {
  const things = Array.isArray(input) ? "items" : "characters";
  if (kind === "schema") {
    if (received === "undefined") return "is required";
    if (!message.startsWith("Invalid ")) return message;
    const choices = type === "picklist" && expected?.replaceAll(/[()"]/g, "").replaceAll(" | ", ", ");
    return choices ? `must be one of: ${choices}` : `must be ${words[expected ?? ""] ?? "of another type"}`;
  }
  if (type === "max_length") return `must have at most ${requirement} ${things}`;
  if (type === "non_empty" || (type === "min_length" && requirement === 1)) return "must not be empty";
  if (type === "min_value") return `must be at least ${requirement}`;
  if (type === "max_value") return `must be at most ${requirement}`;
  if (type === "max_entries") return `must have at most ${requirement} names`;
  if (type === "integer") return "must be a whole number";
  return message.startsWith("Invalid ") ? "is not of the right form" : message;
}

/** A JSON object, kept as it came: `v.record` would take a list, and drop a name like `constructor`. */
export const map = v.custom<Record<string, unknown>>(isMap, "must be an object");

/** Whether a text takes at most so many bytes. One of more characters than that isn't encoded to be counted. */
export const isWithin = (text: string, bytes: number) =>
  text.length <= bytes && new TextEncoder().encode(text).length <= bytes;

/**
 * Whether a value takes at most so many bytes as JSON, its numbers written out as Postgres keeps them: there `1e300` has 301
 * digits. One whose texts alone take more isn't written down.
 */
export function isWithinAsJson(value: unknown, bytes: number): boolean {
  if (charactersIn(value) > bytes) return false;
  const json = JSON.stringify(value);
  return isWithin(json, bytes - (/\de[+-]/.test(json) ? zerosIn(value) : 0));
}

/** How many digits Postgres writes for the exponents of its numbers. */
function zerosIn(value: unknown): number {
  if (typeof value === "number") return Math.abs(Number(String(value).split("e")[1] ?? 0));
  if (typeof value !== "object" || value === null) return 0;
  return Object.values(value).reduce<number>((sum, inner) => sum + zerosIn(inner), 0);
}

/** How many characters its texts have, names among them. */
function charactersIn(value: unknown): number {
  if (typeof value === "string") return value.length;
  if (typeof value !== "object" || value === null) return 0;
  let sum = 0;
  for (const [name, inner] of Object.entries(value)) {
    sum += charactersIn(inner) + (Array.isArray(value) ? 0 : name.length);
  }
  return sum;
}

/** A free map of a record: at most 16 KB as JSON. */
export const metadata = v.pipe(
  map,
  v.check((map) => isWithinAsJson(map, MAX_METADATA_BYTES), "must be at most 16 KB as JSON"),
);

/** A text of a record, at most `max` characters. */
export const text = (max: number) => v.pipe(v.string(), v.maxLength(max));

/** A list of at most `max` items, which is measured before any of them is looked at. */
export const list = <S extends v.GenericSchema>(item: S, max: number, min = 0) =>
  v.pipe(
    // An array by its type, for the document and for queries, whose items the last step checks.
    { ...v.custom<v.InferInput<S>[]>(Array.isArray, "must be a list"), type: "array" as const, item },
    v.minLength(min),
    v.maxLength(max),
    v.array(item),
  );

/** True or false in a query string. */
export const flag = v.pipe(
  v.picklist(["true", "false"]),
  v.transform((text) => text === "true"),
);

/** Hung on a field that may hold more values than a whole body: how many. The document says it, too. */
export const maxValues = <T>(most: number) => v.metadata<T, Record<string, number>>({ [MAX_VALUES_OF]: most });

/** Hung on a field that may take more bytes than a whole body: how many, before JSON escapes any. */
export const maxBytes = <T>(most: number) => v.metadata<T, Record<string, number>>({ [MAX_BYTES_OF]: most });

/** Rules between fields: `faultsOf` gives each breach with its field. `v.forward` would walk all faults for each fault. */
export const rules = <Body extends object>(faultsOf: (body: Body) => FieldError[]) =>
  v.rawCheck<Body>(({ dataset, addIssue }) => {
    if (!dataset.typed) return;
    const { value } = dataset;
    for (const { field: key, message } of faultsOf(value)) {
      const at = { type: "unknown", origin: "value", input: value, key, value: value[key as keyof Body] } as const;
      addIssue({ message, path: [at] });
    }
  });

/** A rule between fields, whose breach is told of one of them. */
export const rule = <Body extends object>(
  field: string & keyof Body,
  holds: (body: Body) => boolean,
  message: string,
) => rules<Body>((body) => (holds(body) ? [] : [{ field, message }]));
/** A moment of the calendar, in UTC: the pattern alone lets a 31st of February and an offset of 23 hours through. */
export const moment = v.pipe(
  v.string(),
  v.isoTimestamp("must be an ISO 8601 time such as 2026-12-31T12:00:00Z"),
  v.check(isMoment, "must be a time that the calendar has"),
  v.transform((text) => new Date(text).toISOString()),
);
const MIN_MS = Date.parse("0001-01-02T00:00:00Z");
const MAX_MS = Date.parse("9999-12-31T00:00:00Z");
function isMoment(text: string): boolean {
  const day = text.slice(0, 10);
  const ms = Date.parse(text);
  return ms > MIN_MS && ms < MAX_MS && new Date(`${day}T00:00:00Z`).toISOString().startsWith(day);
}

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
