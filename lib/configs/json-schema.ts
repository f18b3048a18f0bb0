/**
 * JSON Schema (2020-12) for strangers' schemas: @cfworker/json-schema, since ajv makes code from strings, which a Worker
 * refuses. Around it stand the bounds that it lacks: how often a schema is entered, which patterns run, and where.
 */
import { dereference, format, type OutputUnit, type Schema, validate } from "@cfworker/json-schema";
import { isMap, isWithinAsJson } from "../http/valid.ts";
import { Pattern } from "../script/pattern.ts";

export type Fault = {
  /** A JSON pointer (RFC 6901) into the value; "" is the whole. */
  pointer: string;
  /** A sentence for people. Of the value it repeats at most the name of a field. */
  message: string;
};

const MAX_BYTES = 64 * 1024;
const MAX_DEPTH = 32;
const MAX_VISITS = 200_000;
const MAX_PATTERN_STEPS = 1_000_000;
const MAX_FAULTS = 50;
/** Of a name or a choice, as a fault repeats it. */
const MAX_NAME = 100;
/** Longer than anything that has a format: some of the formats' expressions take the square of a text's length. */
const MAX_FORMATTED = 2048;
/** Items are compared each with each. */
const MAX_UNIQUE = 1000;

const TYPES = ["array", "boolean", "integer", "null", "number", "object", "string"];
const LISTS = ["allOf", "anyOf", "oneOf", "prefixItems"];
const MAPS = ["$defs", "definitions", "dependentSchemas", "properties"];
const SINGLE = [
  ...["additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then"],
  ...["unevaluatedItems", "unevaluatedProperties"],
];
const COUNTS = [
  ...["maxContains", "maxItems", "maxLength", "maxProperties", "minContains", "minItems", "minLength", "minProperties"],
];
const NUMBERS = ["exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum"];
/** The other keywords that mean something. Whatever else a schema holds is dropped before it is validated against. */
const PLAIN = [
  "$anchor",
  "$ref",
  "const",
  "dependentRequired",
  "enum",
  "format",
  "multipleOf",
  "required",
  "type",
  "uniqueItems",
];
/** What would leave the schema, run a pattern elsewhere than in the linear engine, or go round in circles. */
const REFUSED: Record<string, string> = {
  $dynamicRef: "is not supported: use $ref",
  $id: "is not supported: a schema stands alone",
  $recursiveAnchor: "is not supported: use $ref",
  $recursiveRef: "is not supported: use $ref",
  additionalItems: "is not supported: use prefixItems and items",
  dependencies: "is not supported: use dependentRequired and dependentSchemas",
  id: "is not supported: a schema stands alone",
  patternProperties: "is not supported: use propertyNames with a pattern",
};

type Budget = { visits: number; steps: number };
let budget: Budget = { visits: 0, steps: 0 };

class TooCostly extends Error {}

const WEIGHT = Symbol("weight");
/** What every schema that is validated against inherits: the validator reads this whenever it enters one. */
const counted = Object.defineProperty({}, "$recursiveAnchor", {
  get(this: { [WEIGHT]: number }) {
    budget.visits -= this[WEIGHT];
    if (budget.visits < 0) throw new TooCostly();
  },
});

const meter = {
  charge(steps: number) {
    budget.steps -= steps;
    if (budget.steps < 0) throw new TooCostly();
  },
  alloc() {},
  // Short enough to give nobody else a turn.
  steps: 0,
  restAt: Number.POSITIVE_INFINITY,
};

// The validator has one place where a stranger's function can stand: its table of formats. A pattern goes there.
const patterns = new Map<string, Pattern>();
const PATTERN = "pattern ";
for (const [name, fits] of Object.entries(format)) {
  format[name] = (text) => text.length <= MAX_FORMATTED && fits(text);
}
Object.setPrototypeOf(
  format,
  new Proxy(Object.create(null) as object, {
    get: (_, name) =>
      typeof name === "string" && name.startsWith(PATTERN)
        ? (text: string) => patternOf(name.slice(PATTERN.length)).exec(text, 0, meter).next().value !== null
        : undefined,
  }),
);

function patternOf(source: string): Pattern {
  const known = patterns.get(source);
  if (known) return known;
  const pattern = new Pattern(source);
  if (patterns.size >= 100) patterns.delete(patterns.keys().next().value!);
  patterns.set(source, pattern);
  return pattern;
}

const step = (key: string | number) => `/${String(key).slice(0, MAX_NAME).replaceAll("~", "~0").replaceAll("/", "~1")}`;

/**
 * What is wrong with a user's schema, each fault as a sentence that begins with its JSON pointer; none where it can be
 * validated against. At most 64 KB as JSON and 32 deep; `$ref` stays inside; patterns are those of the scripts' engine.
 */
export function checkSchema(schema: unknown): string[] {
  if (!isMap(schema)) return ["/ must be an object"];
  // One of a template is asked for as often as a bundle names it.
  const faults = known.get(schema) ?? faultsOf(schema);
  known.set(schema, faults);
  return faults;
}
const known = new WeakMap<object, string[]>();

function faultsOf(schema: Record<string, unknown>): string[] {
  const faults: string[] = [];
  const add = (pointer: string, message: string) => {
    if (faults.length < MAX_FAULTS) faults.push(`${pointer || "/"} ${message}`);
  };
  const depth = depthOf(schema);
  if (depth > MAX_DEPTH) return [`/ must not be nested deeper than ${MAX_DEPTH}`];
  if (!isWithinAsJson(schema, MAX_BYTES)) return ["/ must be at most 64 KB as JSON"];
  look(schema, "", add);
  if (faults.length) return faults;
  const prepared = prepare(schema);
  for (const { pointer, target } of references(prepared, dereference(prepared))) {
    if (!target) add(`${pointer}/$ref`, "leads nowhere");
  }
  return faults;
}

function depthOf(value: unknown, depth = 1): number {
  if (depth > MAX_DEPTH + 1 || typeof value !== "object" || value === null) return depth - 1;
  return Object.values(value).reduce<number>((most, item) => Math.max(most, depthOf(item, depth + 1)), depth);
}

function look(schema: unknown, pointer: string, add: (pointer: string, message: string) => void) {
  if (typeof schema === "boolean") return;
  if (!isMap(schema)) return add(pointer, "must be a schema: an object, true or false");
  for (const [keyword, value] of Object.entries(schema)) {
    const at = pointer + step(keyword);
    const must = (holds: boolean, message: string) => holds || add(at, message);
    if (REFUSED[keyword]) add(at, REFUSED[keyword]);
    else if (SINGLE.includes(keyword)) look(value, at, add);
    else if (LISTS.includes(keyword)) {
      if (!Array.isArray(value) || !value.length) add(at, "must be a list of schemas");
      else for (const [i, item] of value.entries()) look(item, at + step(i), add);
    } else if (MAPS.includes(keyword)) {
      if (!isMap(value)) add(at, "must be an object of schemas");
      else for (const [name, item] of Object.entries(value)) look(item, at + step(name), add);
    } else if (keyword === "type") {
      const types = Array.isArray(value) ? value : [value];
      must(
        types.length > 0 && types.every((type) => TYPES.includes(type as string)),
        `must be one of: ${TYPES.join(", ")}`,
      );
    } else if (keyword === "required") must(isTexts(value), "must be a list of names");
    else if (keyword === "dependentRequired") {
      must(isMap(value) && Object.values(value).every(isTexts), "must be an object of lists of names");
    } else if (keyword === "enum") must(Array.isArray(value), "must be a list");
    else if (COUNTS.includes(keyword))
      must(Number.isInteger(value) && Number(value) >= 0, "must be a whole number from 0 on");
    else if (NUMBERS.includes(keyword)) must(typeof value === "number", "must be a number");
    else if (keyword === "multipleOf") must(typeof value === "number" && value > 0, "must be a number above 0");
    else if (keyword === "uniqueItems") must(typeof value === "boolean", "must be true or false");
    else if (keyword === "$ref")
      must(typeof value === "string" && value.startsWith("#"), "must stay inside the schema: #/…");
    else if (keyword === "$anchor")
      must(typeof value === "string" && /^[A-Za-z_][\w.-]*$/.test(value), "must be a name");
    else if (keyword === "format") must(typeof value === "string" && !value.startsWith(PATTERN), "must be a name");
    else if (keyword === "pattern")
      must(isPattern(value), "must be a regular expression without lookaround and backreferences");
  }
}

const isTexts = (value: unknown) => Array.isArray(value) && value.every((name) => typeof name === "string");

function isPattern(source: unknown): boolean {
  if (typeof source !== "string") return false;
  try {
    patternOf(source);
    return true;
  } catch {
    return false;
  }
}

/** The schema as the validator gets it: each part counted when it is entered, its pattern among the formats. */
function prepare(schema: unknown): Schema {
  if (!isMap(schema)) return schema as Schema;
  const prepared: Record<string, unknown> = Object.create(counted);
  let weight = 1;
  for (const [keyword, value] of Object.entries(schema)) {
    if (SINGLE.includes(keyword)) prepared[keyword] = prepare(value);
    else if (LISTS.includes(keyword)) prepared[keyword] = (value as unknown[]).map(prepare);
    else if (MAPS.includes(keyword)) {
      const parts = Object.entries(value as object);
      weight += parts.length / 8;
      prepared[keyword] = Object.fromEntries(parts.map(([name, part]) => [name, prepare(part)]));
    } else if ([...COUNTS, ...NUMBERS, ...PLAIN].includes(keyword)) {
      weight += (JSON.stringify(value) ?? "").length / 8;
      prepared[keyword] = value;
    }
  }
  if (schema.pattern !== undefined) {
    const run = prepare({ format: PATTERN + schema.pattern });
    prepared.allOf = [...((prepared.allOf as Schema[] | undefined) ?? []), run];
  }
  return Object.defineProperty(prepared, WEIGHT, { value: weight }) as Schema;
}

/** Each `$ref` of a prepared schema, and the part that it leads to, if one. */
function references(
  schema: Schema | boolean,
  lookup: Record<string, unknown>,
  pointer = "",
): { pointer: string; target: unknown }[] {
  if (typeof schema === "boolean") return [];
  const parts = [
    ...SINGLE.filter((keyword) => schema[keyword] !== undefined).map((keyword) => [step(keyword), schema[keyword]]),
    ...[...LISTS, ...MAPS].flatMap((keyword) =>
      Object.entries(schema[keyword] ?? {}).map(([name, part]) => [step(keyword) + step(name), part]),
    ),
  ];
  return [
    ...(schema.$ref === undefined ? [] : [{ pointer, target: lookup[schema.__absolute_ref__ ?? ""] }]),
    ...parts.flatMap(([at, part]) => references(part, lookup, pointer + at)),
  ];
}

const prepared = new WeakMap<
  object,
  { schema: Schema; lookup: Record<string, Schema | boolean>; comparesItems: boolean }
>();

function preparedOf(schema: object) {
  let known = prepared.get(schema);
  if (!known) {
    const own = prepare(schema);
    const comparesItems = JSON.stringify(schema).includes('"uniqueItems":true');
    known = { schema: own, lookup: dereference(own), comparesItems };
    prepared.set(schema, known);
  }
  return known;
}

const longest = (value: unknown): number =>
  typeof value === "object" && value !== null
    ? Object.values(value).reduce<number>(
        (most, item) => Math.max(most, longest(item)),
        Array.isArray(value) ? value.length : 0,
      )
    : 0;

/**
 * What is wrong with a value by a schema that `checkSchema` has nothing against: all faults, at most fifty. It costs a
 * bounded time, whatever both are; where that is not enough, that is the fault.
 */
export function validateAgainst(schema: object | boolean, value: unknown): Fault[] {
  if (typeof schema === "boolean") return schema ? [] : [{ pointer: "", message: "is not allowed" }];
  const { schema: own, lookup, comparesItems } = preparedOf(schema);
  if (comparesItems && longest(value) > MAX_UNIQUE) {
    return [{ pointer: "", message: `must hold no list of more than ${MAX_UNIQUE} items, which must all differ` }];
  }
  budget = { visits: MAX_VISITS, steps: MAX_PATTERN_STEPS };
  try {
    const { valid, errors } = validate(value, own, "2020-12", lookup, false);
    if (valid) return [];
    const leaves = errors.filter(isLeaf);
    const faults = leaves.map((unit) => ({ pointer: unit.instanceLocation.slice(1), message: sentence(unit) }));
    if (!faults.length) return [{ pointer: "", message: "is not as the schema says" }];
    const seen = new Set<string>();
    const isNew = ({ pointer, message }: Fault) => seen.size < seen.add(`${pointer} ${message}`).size;
    return faults.filter(isNew).slice(0, MAX_FAULTS);
  } catch (error) {
    // Deeper than the stack, or than an argument list is long: both only by a schema or a value that was made for it.
    if (!(error instanceof TooCostly || error instanceof RangeError)) throw error;
    return [{ pointer: "", message: "takes too long to check against the schema" }];
  }
}

/**
 * What is wrong with a value, in a sentence for a model that may do better; null where nothing is, and where the schema is
 * a stranger's that says what isn't looked at here. `what` is the value's name.
 */
export function faultOf(schema: object, value: unknown, what: string): string | null {
  if (checkSchema(schema).length) return null;
  const faults = validateAgainst(schema, value).slice(0, 10);
  return faults.map(({ pointer, message }) => `${pointer || what} ${message}`).join("; ") || null;
}

/** Errors that only say that a part has errors say nothing; those of the branches of a choice say what need not be. */
const isLeaf = ({ keyword, keywordLocation }: OutputUnit) =>
  !/\/(anyOf|oneOf|not|if)\/|\/if$/.test(keywordLocation) &&
  !["$ref", "allOf", "additionalProperties", "dependentSchemas", "if", "items", "prefixItems", "properties"].includes(
    keyword,
  ) &&
  !["unevaluatedItems", "unevaluatedProperties"].includes(keyword);

function sentence({ keyword, error }: OutputUnit): string {
  const named = error.match(/"([\s\S]*)"/)?.[1]?.slice(0, MAX_NAME) ?? "";
  const listed =
    error
      .match(/(\[[\s\S]*\])\.$/)?.[1]
      ?.slice(1, -1)
      .slice(0, 200) ?? "";
  switch (keyword) {
    case "type":
      return `must be of type ${error.match(/Expected "(.*)"\.$/)?.[1]?.replaceAll('", "', " or ") ?? "another"}`;
    case "required":
    case "dependentRequired":
      return `must have "${named}"`;
    case "enum":
      return `must be one of: ${listed}`;
    case "const":
      return `must be ${error.match(/match ([\s\S]*)\.$/)?.[1]?.slice(0, MAX_NAME)}`;
    case "false":
      return "is not a known field";
    default:
      return sentences[keyword] ?? `breaks the schema's ${keyword}`;
  }
}

const sentences: Record<string, string> = {
  anyOf: "has none of the forms that are allowed",
  contains: "lacks an item that must be there",
  format: "is not of the right form",
  maxItems: "has too many items",
  maxLength: "is too long",
  maxProperties: "has too many fields",
  minItems: "has too few items",
  minLength: "is too short",
  minProperties: "has too few fields",
  not: "is what it must not be",
  oneOf: "must have exactly one of the forms that are allowed",
  propertyNames: "has a field whose name is not allowed",
  uniqueItems: "has an item twice",
};
