/** Images, similarity and evaluations through the SDK, by a provider on this machine that speaks the compatible wire. */
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { cosineOf } from "../../lib/ai/similarity.ts";
import { bearer, caller, must } from "../harness/index.ts";
import { type Answer, chunk, json, sse, usageChunk } from "../lib/model/fixtures.ts";
import { aStage, KEY, type Stage } from "./stage.ts";

const models = {
  DEFAULT_MODEL: "scripted/echo",
  MODELS: "compatible/judge",
  IMAGE_MODELS: "compatible/painter, openai/gpt-image-1",
  DEFAULT_EMBEDDING_MODEL: "compatible/vectors",
};
let stage: Stage;
beforeAll(async () => {
  stage = await aStage(models);
});
afterAll(() => stage.close());

const PNG = "iVBORw0KGgo=";
const JPEG = "/9j/4AAQSkZJRg==";
const painted = (...images: string[]): Answer =>
  json(200, { data: images.map((b64_json) => ({ b64_json })), usage: { input_tokens: 7, output_tokens: 20 } });

describe.each(["asUser", "asBackend"] as const)("images, %s", (who) => {
  it("are generated: the first as base64, with what was asked and what it took", async () => {
    stage.answers(painted(JPEG, PNG));
    const body = { prompt: "A fox", n: 2, width: 512, height: 256, size: "1x1", output_format: "image/png" };
    const made = await stage[who].image.generations({ ...body, session_id: "fox" });
    expect(made).toMatchObject({
      ...{
        image_data: JPEG,
        image_type: "image/jpeg",
        image_url: null,
        model: "compatible/painter",
        session_id: "fox",
      },
      ...{
        width: 512,
        height: 256,
        size: "1x1",
        images: [{ image_data: JPEG }, { image_data: PNG, image_type: "image/png" }],
      },
      usage: { "compatible/painter": { input_tokens: 7, output_tokens: 20 } },
    });
    expect(stage.seen[0]).toMatchObject({
      path: "/v1/images/generations",
      headers: { authorization: `Bearer ${KEY}` },
      body: { model: "painter", prompt: "A fox", n: 2, size: "512x256", output_format: "png" },
    });
    const [row] = (await stage.rows("session_id = 'fox'")).slice(-1);
    expect(row).toMatchObject({ operation: "image", status: "completed", input_tokens: 7, output_tokens: 20 });
  });

  it("are edited", async () => {
    stage.answers(painted(PNG));
    const images = [{ image_data: PNG, image_type: "image/png" }];
    const made = await stage[who].image.edits({ prompt: "Bluer", images });
    expect(made).toMatchObject({
      image_data: PNG,
      image_type: "image/png",
      images: null,
      session_id: expect.any(String),
    });
    expect(stage.seen[0]!.path).toBe("/v1/images/edits");
    expect(stage.seen[0]!.body).toContain("Bluer");
  });

  it("have models, the default first", async () => {
    const { data } = await stage[who].image.models();
    expect(data.map(({ id, default: isDefault, capabilities }) => [id, isDefault, capabilities])).toEqual([
      ["compatible/painter", true, ["image"]],
      ["openai/gpt-image-1", false, ["image"]],
    ]);
  });
});

it("an image that the provider refuses is a 422 with its reason; faults of the input reach no provider", async () => {
  const ask = (body: object) => stage.ask("POST", "/api/v1/ai/image/generations", body);
  stage.answers(json(400, { error: { message: "transparent needs png" } }));
  const refused = await must(ask({ prompt: "A fox", background: "transparent" }), 422);
  expect(refused.error).toMatchObject({ code: "model_refused", message: "transparent needs png" });
  stage.answers(painted(PNG));
  for (const [fault, field] of [
    [{ n: 5 }, "n"],
    [{ width: 100 }, "width"],
    [{ prompt: "" }, "prompt"],
    [{ images: [] }, "images"],
  ] as const) {
    expect((await must(ask({ prompt: "A fox", ...fault }), 422)).error.fields).toMatchObject([{ field }]);
  }
  expect((await must(ask({ prompt: "A fox", aspect_ratio: "16:9" }), 422)).error.message).toContain("aspect_ratio");
  expect((await must(ask({ prompt: "A fox", model: "scripted/echo" }), 422)).error.code).toBe("model_refused");
  expect(stage.seen).toEqual([]);
});

const vectors = (...embeddings: number[][]): Answer =>
  json(200, { data: embeddings.map((embedding, index) => ({ embedding, index })), usage: { prompt_tokens: 4 } });

it.each(["asUser", "asBackend"] as const)("two texts are compared by their embeddings, %s", async (who) => {
  const compare = () => stage[who].embedding.similarityComparison({ text_a: "a", text_b: "b" });
  stage.answers(vectors([1, 0], [3, 4]));
  const { model, similarity_score } = await compare();
  expect(model).toBe("compatible/vectors");
  expect(similarity_score).toBeCloseTo(0.6);
  expect(stage.seen[0]!.body).toMatchObject({ model: "vectors", input: ["a", "b"] });
  expect((await stage.rows("operation = 'embedding'")).at(-1)).toMatchObject({ status: "completed", input_tokens: 4 });
  stage.answers(vectors([0, 0], [3, 4]));
  await expect(compare()).rejects.toMatchObject({ status: 503, errorCode: "model_answer_invalid" });
});

it("the cosine of vectors keeps to its bounds, whatever their length", () => {
  const values = fc.double({ noNaN: true, noDefaultInfinity: true }).filter((value) => value !== 0);
  const pairs = fc.array(fc.tuple(values, values), { minLength: 1, maxLength: 20 });
  fc.assert(
    fc.property(pairs, (pairs) => {
      const [a, b] = [pairs.map(([one]) => one), pairs.map(([, other]) => other)];
      expect(Math.abs(cosineOf(a, b))).toBeLessThanOrEqual(1);
      expect(cosineOf(a, b)).toBeCloseTo(cosineOf(b, a));
      expect(cosineOf(a, a)).toBeCloseTo(1);
    }),
  );
});

const judged = (output: object): Answer =>
  sse(chunk({ content: JSON.stringify(output) }), chunk({}, "stop"), usageChunk(30, 9), "[DONE]");
const questions = [
  {
    type: "boolean" as const,
    id: "polite",
    instructions: "Is it polite?",
    criteria: { true_description: "says please" },
  },
  {
    type: "choice" as const,
    id: "topic",
    instructions: "What is it about?",
    criteria: { billing: "Money", other: "The rest" },
  },
  { type: "score" as const, id: "urgency", instructions: "How urgent is it?", criteria: ["Can wait", "Soon", "Now"] },
];
const output = { q1: 0.9, q2: { billing: 0.6, other: 0.2 }, q3: { 1: 0, 2: 0.5, 3: 0.5 } };

describe("an evaluation", () => {
  it.each(["asUser", "asBackend"] as const)("answers each question in its kind, %s", async (who) => {
    stage.answers(judged(output));
    const made = await stage[who].evaluation.evaluations({
      state: { text: "Refund me, please" },
      questions,
      session_id: "e",
    });
    expect(made).toEqual({
      ...{ model: "compatible/judge", session_id: "e", usage: { input_tokens: 30, output_tokens: 9 } },
      answers: [
        { id: "polite", type: "boolean", probability: 0.9 },
        {
          ...{ id: "topic", type: "choice", choice: "billing", confidence: expect.closeTo(0.75) },
          probabilities: { billing: expect.closeTo(0.75), other: expect.closeTo(0.25) },
        },
        {
          ...{ id: "urgency", type: "score", score: 2.5, confidence: 0.5, probabilities: { 1: 0, 2: 0.5, 3: 0.5 } },
          legend: { 1: "Can wait", 2: "Soon", 3: "Now" },
        },
      ],
    });
    const [{ body }] = stage.seen as [any];
    expect(body.messages[1].content).toMatch(/"Refund me, please".*q1: Is it polite\?.*says please.*- 3: Now/s);
    expect(body.response_format.json_schema.schema.properties.q2.required).toEqual(["billing", "other"]);
    expect((await stage.rows("session_id = 'e'")).at(-1)).toMatchObject({
      operation: "evaluation",
      status: "completed",
    });
    const { data } = await stage[who].evaluation.models();
    expect(data.map(({ id, default: isDefault }) => [id, isDefault])).toEqual([["compatible/judge", true]]);
  });

  it("that the model does not give in form, twice, is a refusal", async () => {
    stage.answers(judged({ ...output, q1: 2 }));
    const answer = await must(stage.ask("POST", "/api/v1/ai/evaluation/evaluations", { state: "x", questions }), 422);
    expect(answer.error.code).toBe("structured_output_invalid");
    expect(stage.seen).toHaveLength(2);
  });

  it("refuses questions that can't be answered, and a state that is none", async () => {
    const fields = async (body: object) => {
      const { error } = await must(
        stage.ask("POST", "/api/v1/ai/evaluation/evaluations", { state: "x", questions, ...body }),
        422,
      );
      return error.fields.map(({ field }: any) => field);
    };
    stage.answers(judged(output));
    const [boolean, choice, score] = questions;
    expect(await fields({ questions: [] })).toEqual(["questions"]);
    expect(await fields({ questions: [boolean, boolean] })).toEqual(["questions"]);
    expect(await fields({ questions: [{ ...choice, criteria: { one: "" } }] })).toEqual(["questions.0.criteria"]);
    expect(await fields({ questions: [{ ...score, criteria: ["one"] }] })).toEqual(["questions.0.criteria"]);
    expect(await fields({ questions: [{ ...boolean, type: "essay" }] })).toEqual(["questions.0.type"]);
    expect(await fields({ state: 1 })).toEqual(["state"]);
    expect(stage.seen).toEqual([]);
  });
});

it("without a model set, says what to set; a script judges by what it says", async () => {
  const call = caller(bearer(stage.token), await stage.start({}));
  const boolean = [questions[0]];
  for (const [path, body] of [
    ["image/generations", { prompt: "A fox" }],
    ["image/edits", { prompt: "A fox", images: [{ image_data: PNG, image_type: "image/png" }] }],
    ["embedding/similarity_comparison", { text_a: "a", text_b: "b" }],
    ["evaluation/evaluations", { state: "x", questions: boolean }],
    ["evaluation/evaluations", { state: "x", questions: boolean, model: "scripted/echo" }],
  ] as const) {
    const { error } = await must(call("POST", `/api/v1/ai/${path}`, body), 422);
    expect([error.code, error.message.match(/MODEL|real model/) !== null]).toEqual(["model_not_configured", true]);
  }
  expect((await must(call("GET", "/api/v1/ai/image/models"), 200)).data).toEqual([]);
  expect((await must(call("GET", "/api/v1/ai/evaluation/models"), 200)).data).toEqual([]);
  const state = '```script\n[{"text": "{\\"q1\\": 0.25}"}]\n```';
  const judged = await must(
    call("POST", "/api/v1/ai/evaluation/evaluations", { state, questions: boolean, model: "scripted/script" }),
    200,
  );
  expect(judged.answers).toEqual([{ id: "polite", type: "boolean", probability: 0.25 }]);
});
