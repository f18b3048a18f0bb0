import { Ajv2020 } from "ajv/dist/2020.js";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { checkSchema, validateAgainst } from "../../../lib/configs/json-schema.ts";

const said = (schema: object, value: unknown) =>
  validateAgainst(schema, value).map(({ pointer, message }) => `${pointer} ${message}`.trim());

/** How long it takes, in milliseconds. */
function timed<T>(run: () => T): { result: T; ms: number } {
  const start = performance.now();
  const result = run();
  return { result, ms: performance.now() - start };
}

describe("checkSchema", () => {
  it.each<[string, unknown]>([
    ["nothing", {}],
    ["a tool's parameters", { type: "object", properties: { n: { type: "integer" } }, required: ["n"] }],
    ["a reference inside", { $defs: { n: { type: "number" } }, properties: { a: { $ref: "#/$defs/n" } } }],
    ["a reference to itself", { properties: { next: { $ref: "#" } } }],
    ["an anchor", { $defs: { n: { $anchor: "n" } }, items: { $ref: "#n" } }],
    ["a field that bears a keyword's name", { properties: { $ref: { type: "string" }, pattern: { type: "string" } } }],
    ["words that mean nothing here", { title: "t", examples: [{ $ref: "http://x" }], "x-y": { type: 3 } }],
  ])("takes %s", (_, schema) => {
    expect(checkSchema(schema)).toEqual([]);
  });

  it.each<[string, unknown, string[]]>([
    ["what is no object", [], ["/ must be an object"]],
    ["a reference that leaves", { $ref: "https://x.example/s" }, ["/$ref must stay inside the schema: #/…"]],
    ["a reference that leads nowhere", { items: { $ref: "#/$defs/x" } }, ["/items/$ref leads nowhere"]],
    ["a reference to a word that means nothing", { $ref: "#/x-y", "x-y": {} }, ["/$ref leads nowhere"]],
    [
      "a type that is none",
      { type: "text" },
      ["/type must be one of: array, boolean, integer, null, number, object, string"],
    ],
    ["a list in place of a schema", { items: [] }, ["/items must be a schema: an object, true or false"]],
    ["a name of its own", { $id: "https://x" }, ["/$id is not supported: a schema stands alone"]],
    [
      "lookaround",
      { pattern: "(?=a)" },
      ["/pattern must be a regular expression without lookaround and backreferences"],
    ],
    [
      "a backreference",
      { properties: { "a/b": { pattern: "(a)\\1" } } },
      [expect.stringMatching(/^\/properties\/a~1b\/pattern /)],
    ],
    ["patterns of names", { patternProperties: {} }, [expect.stringContaining("use propertyNames")]],
    ["a pattern among the formats", { format: "pattern x" }, ["/format must be a name"]],
    [
      "counts that are none",
      { minLength: -1, maxItems: 1.5 },
      [expect.stringMatching(/^\/minLength/), expect.stringMatching(/^\/maxItems/)],
    ],
  ])("refuses %s", (_, schema, faults) => {
    expect(checkSchema(schema)).toEqual(faults);
  });

  it("refuses what is too large or too deep", () => {
    expect(checkSchema({ description: "x".repeat(70_000) })).toEqual(["/ must be at most 64 KB as JSON"]);
    const deep = Array.from({ length: 40 }).reduce<object>((items) => ({ items }), {});
    expect(checkSchema(deep)).toEqual(["/ must not be nested deeper than 32"]);
  });
});

describe("validateAgainst", () => {
  it("tells all faults at once, each with its pointer and never with the value", () => {
    const schema = {
      type: "object",
      properties: {
        n: { type: "integer", minimum: 3 },
        kind: { enum: ["a", "b"] },
        list: { type: "array", items: { type: "string", pattern: "^[a-z]+$" } },
        "a/b": { const: 1 },
        one: { anyOf: [{ type: "string" }, { type: "null" }] },
      },
      required: ["must"],
      additionalProperties: false,
    };
    const value = { n: "secret", kind: "secret", list: ["ok", "SECRET", 3], "a/b": 2, one: 3, extra: "secret" };
    const faults = said(schema, value);
    expect(faults.sort()).toEqual([
      "/a~1b must be 1",
      "/extra is not a known field",
      '/kind must be one of: "a","b"',
      "/list/1 is not of the right form",
      "/list/2 must be of type string",
      "/n must be of type integer",
      "/one has none of the forms that are allowed",
      'must have "must"',
    ]);
  });

  it("judges as another validator does", () => {
    const name = fc.constantFrom("a", "b", "anyOf", "x/y", "toString");
    const { schema } = fc.letrec<{ schema: object; part: object }>((tie) => ({
      part: fc.oneof({ maxDepth: 3 }, tie("schema"), fc.boolean()) as fc.Arbitrary<object>,
      schema: fc.oneof(
        { maxDepth: 3, depthSize: "small" },
        fc.constantFrom(
          {},
          { type: "string" },
          { type: ["integer", "null"] },
          { enum: ["a", 1, null, [1]] },
          { const: { a: 1 } },
        ),
        fc.record({ minimum: fc.integer({ max: 3, min: -3 }), exclusiveMaximum: fc.integer({ max: 3, min: -3 }) }),
        fc.record({ minLength: fc.nat(2), maxLength: fc.nat(3) }),
        fc.record({ pattern: fc.constantFrom("^a", "b$", "^[a-c]*$", "a|b") }),
        fc.record({ items: tie("part"), minItems: fc.nat(2), uniqueItems: fc.boolean() }),
        fc.record({ prefixItems: fc.array(tie("part"), { minLength: 1, maxLength: 2 }), items: tie("part") }),
        fc.record(
          {
            properties: fc.dictionary(name, tie("part"), { maxKeys: 3 }),
            required: fc.uniqueArray(name, { maxLength: 2 }),
            additionalProperties: tie("part"),
            propertyNames: tie("part"),
          },
          { requiredKeys: [] },
        ),
        fc.record({ anyOf: fc.array(tie("part"), { minLength: 1, maxLength: 2 }) }),
        fc.record({ oneOf: fc.array(tie("part"), { minLength: 1, maxLength: 2 }), not: tie("part") }),
        fc.record({ allOf: fc.array(tie("part"), { minLength: 1, maxLength: 2 }), pattern: fc.constant("a") }),
        // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
        fc.record({ if: tie("part"), then: tie("part"), else: tie("part") }),
      ) as fc.Arbitrary<object>,
    }));
    const value = fc.jsonValue({ maxDepth: 2 }).map((value) => value as unknown);
    const near = fc.oneof(
      value,
      fc.constantFrom<unknown>(
        "a",
        "b",
        "abc",
        "",
        0,
        1,
        null,
        [],
        [1],
        [1, 1],
        {},
        { a: 1 },
        { a: "a", b: 1 },
        { anyOf: 1 },
      ),
    );
    const ajv = new Ajv2020({ strict: false, ownProperties: true });
    // Of some schemas with a `not` that is a boolean it makes code that names what isn't there, and where it compares objects it
    // calls what they have as `valueOf` or `toString`: it says nothing of these.
    const judgedBy = (other: Ajv2020, schema: object, value: unknown) => {
      try {
        return other.validate(schema, value);
      } catch (error) {
        fc.pre(!(error instanceof ReferenceError || /\b(valueOf|toString) is not a function$/.test(String(error))));
        throw error;
      }
    };
    let valid = 0;
    fc.assert(
      fc.property(schema, near, (schema, value) => {
        expect(checkSchema(schema)).toEqual([]);
        const faults = validateAgainst(schema, value);
        expect(faults.length === 0, JSON.stringify([schema, value, faults])).toBe(judgedBy(ajv, schema, value));
        if (!faults.length) valid++;
      }),
      { numRuns: 600 },
    );
    expect(valid).toBeGreaterThan(80);
  });

  it.each<[string, object, unknown]>([
    [
      "a schema that doubles at each step",
      {
        $defs: Object.fromEntries(
          Array.from({ length: 40 }, (_, i) => [
            `d${i}`,
            { allOf: [{ $ref: `#/$defs/d${(i + 1) % 40}` }, { $ref: `#/$defs/d${(i + 1) % 40}` }] },
          ]),
        ),
        $ref: "#/$defs/d0",
      },
      1,
    ],
    ["a schema that is itself", { $ref: "#" }, 1],
    [
      "a long list of names, for each of many items",
      { items: { required: Array.from({ length: 6000 }, (_, i) => `n${i}`) } },
      Array.from({ length: 90_000 }, () => ({})),
    ],
    ["a pattern that others take for ever for", { pattern: "^(a+)+$" }, `${"a".repeat(300_000)}!`],
    ["items that must all differ", { uniqueItems: true }, Array.from({ length: 50_000 }, (_, i) => [i])],
    ["a text that is a URL for very long", { format: "url" }, `http://${"a:".repeat(200_000)}`],
  ])("takes a bounded time for %s", (_, schema, value) => {
    expect(checkSchema(schema)).toEqual([]);
    const { result, ms } = timed(() => validateAgainst(schema, value));
    expect(result.length).toBeGreaterThan(0);
    // A shared machine: what isn't bounded takes minutes.
    expect(ms).toBeLessThan(10_000);
  });

  it("keeps patterns to the linear engine: no expression of the host's is made of one", () => {
    const host = globalThis.RegExp;
    const made: string[] = [];
    globalThis.RegExp = class extends host {
      constructor(...args: [string, string?]) {
        made.push(String(args[0]));
        super(...args);
      }
    } as never;
    try {
      expect(said({ allOf: [{ pattern: "^x" }], pattern: "y$" }, "xy")).toEqual([]);
      expect(said({ pattern: "^x" }, "y")).toEqual(["is not of the right form"]);
    } finally {
      globalThis.RegExp = host;
    }
    expect(made).toEqual([]);
  });
});
