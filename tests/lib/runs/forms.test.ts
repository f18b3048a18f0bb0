import { describe, expect, it } from "vitest";
import { type Form, misfit, saidOf, schemaOfForms } from "../../../lib/runs/forms.ts";

const form = (fields: object = {}): Form => ({
  schema: { type: "object", properties: { title: { type: "string" }, ...fields }, required: ["title"] },
  field_guards: [],
});
const guard = (kind: Form["field_guards"][number]["kind"], fields: string[], more: object = {}) => ({
  ...form(),
  field_guards: [{ kind, fields, ...more }],
});
const nobody = async () => {
  throw new Error("nobody is to be asked");
};

describe("what a config says", () => {
  const text = (content: string, more: object = {}) => ({
    mime_type: "application/json",
    encoding: "raw",
    content,
    ...more,
  });
  it.each([
    ["a map", text('{"a": 1}'), { a: 1 }],
    ["a map in base64", text(btoa('{"a": 1}'), { encoding: "base64" }), { a: 1 }],
    ["what is no base64", text("?", { encoding: "base64" }), null],
    ["a list", text("[1]"), null],
    ["null", text("null"), null],
    ["half a map", text('{"a": '), null],
    ["YAML", text("a: 1", { mime_type: "application/yaml" }), { a: 1 }],
  ] as const)("%s", (_, content, said) => {
    expect(saidOf(content as never)).toEqual(said);
  });
});

describe("an answer of a form", () => {
  it.each([
    ["that its schema takes", [form()], { title: "A" }, null],
    ["that it doesn't take", [form()], { title: 1 }, /title/],
    ["that the second takes", [form({ n: { const: 1 } }), form()], { title: "A", n: 2 }, null],
    [
      "that none takes is told of the first",
      [form({ n: { const: 1 } }), form({ m: { const: 1 } })],
      { title: "A", n: 2, m: 2 },
      /^\/?n\b/,
    ],
  ] as const)("%s", async (_, forms, answer, fault) => {
    const found = await misfit(forms, answer, nobody);
    if (fault === null) expect(found).toBeNull();
    else expect(found).toMatch(fault);
  });

  it.each([
    [
      "ContainsAny, where one of them is there",
      guard("ContainsAny", ["title"], { values: ["x", "SECRET"] }),
      "a secret",
      true,
    ],
    ["ContainsAny, where none is", guard("ContainsAny", ["title"], { values: ["x", "y"] }), "a secret", false],
    ["ContainsAny, of nothing", guard("ContainsAny", ["title"], { values: [""] }), "a secret", false],
    ["ContainsString, by its pattern", guard("ContainsString", ["title"], { pattern: "cre" }), "a secret", true],
    [
      "case_sensitive, in another case",
      guard("ContainsAny", ["title"], { values: ["SECRET"], case_sensitive: true }),
      "a secret",
      false,
    ],
    ["RegexMatch that matches", guard("RegexMatch", ["title"], { pattern: "^a s" }), "a secret", true],
    ["RegexMatch that doesn't", guard("RegexMatch", ["title"], { pattern: "^s" }), "a secret", false],
    ["of another field", guard("ContainsAny", ["name"], { values: ["secret"] }), "a secret", false],
    ["of all fields", guard("ContainsAny", ["*"], { values: ["secret"] }), "a secret", true],
  ] as const)("its guard refuses: %s", async (_, form, title, refused) => {
    expect((await misfit([form], { title }, nobody)) !== null).toBe(refused);
  });

  it("is looked at by paths, and what isn't a text as JSON", async () => {
    const deep = guard("ContainsAny", ["a.b"], { values: ['[1,"x"]'], message: "Not this" });
    expect(await misfit([deep], { title: "", a: { b: [1, "x"] } }, nobody)).toBe("Not this");
    expect(await misfit([deep], { title: "", a: { c: [1, "x"] } }, nobody)).toBeNull();
  });

  it("is judged by the guard's model, or by the run's own", async () => {
    const asked: unknown[] = [];
    const judgedBy = (probability: unknown) => async (model: string | null, request: object) => {
      asked.push([model, JSON.stringify(request).includes("Is it rude?")]);
      return { q1: probability };
    };
    const of = (model?: string) => guard("LLMJudge", ["title"], { model, prompt: "Is it rude?" });
    const answers = await Promise.all([
      misfit([of("a/b")], { title: "A" }, judgedBy(0.5)),
      misfit([of()], { title: "A" }, judgedBy(0.49)),
    ]);
    expect(answers).toEqual([expect.stringContaining("LLMJudge"), null]);
    expect(asked).toEqual([
      ["a/b", true],
      [null, true],
    ]);
    await expect(misfit([of()], { title: "A" }, judgedBy("much"))).rejects.toThrow(/couldn't be asked/);
  });
});

describe("what a session is asked to finish with", () => {
  it("is the form, or one of them; always an object", () => {
    expect(schemaOfForms([{ schema: { required: ["a"] }, field_guards: [] }])).toEqual({
      required: ["a"],
      type: "object",
    });
    const [one, other] = [form(), form({ n: {} })];
    expect(schemaOfForms([one, other])).toEqual({ type: "object", anyOf: [one.schema, other.schema] });
  });
});
