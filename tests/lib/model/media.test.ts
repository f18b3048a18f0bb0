/** Images and embeddings, over HTTP. */
import { afterEach, describe, expect, it } from "vitest";
import { embed, generateImages, resolveModel } from "../../../lib/model/index.ts";
import { type Answer, aProvider, ENV, json, KEY } from "./fixtures.ts";

const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const JPEG = "/9j/4AAQSkZJRgABAQEAYABgAAD/2wBDAA==";
let provider: Awaited<ReturnType<typeof aProvider>>;
const answering = async (...answers: Answer[]) => {
  provider = await aProvider(...answers);
  return { ways: provider.ways };
};
afterEach(() => provider?.close());
const model = (name: string) => resolveModel(name, ENV);
const data = (...images: string[]) =>
  json(200, {
    created: 1,
    data: images.map((b64_json) => ({ b64_json })),
    usage: { input_tokens: 5, output_tokens: 7, total_tokens: 12 },
  });
const gemini = (...images: string[]) =>
  json(200, {
    candidates: [
      {
        content: {
          role: "model",
          parts: images.map((image) => ({ inlineData: { mimeType: "image/png", data: image } })),
        },
        finishReason: "STOP",
      },
    ],
    usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 7, totalTokenCount: 12 },
  });

describe("images", () => {
  it.each([
    [
      "compatible/flux",
      "/v1/images/generations",
      data(PNG, JPEG),
      { model: "flux", prompt: "a cat", n: 2, size: "512x512", quality: "high", output_format: "png" },
    ],
    [
      "openai/gpt-image-1",
      "/v1/images/generations",
      data(PNG, JPEG),
      { model: "gpt-image-1", prompt: "a cat", n: 2, size: "512x512", quality: "high", output_format: "png" },
    ],
  ] as const)("are made by %s", async (name, path, answer, sent) => {
    const request = { prompt: "a cat", n: 2, size: "512x512", quality: "high", output_format: "png" };
    expect(await generateImages(model(name), request, await answering(answer))).toEqual({
      images: [
        { image_data: PNG, image_type: "image/png" },
        { image_data: JPEG, image_type: "image/jpeg" },
      ],
      revised_prompt: null,
      usage: { input_tokens: 5, output_tokens: 7 },
    });
    expect(provider.seen).toMatchObject([{ path, body: sent, headers: { authorization: `Bearer ${KEY}` } }]);
  });

  it("are made by google/…", async () => {
    const made = await generateImages(
      model("google/gemini-2.5-flash-image"),
      { prompt: "a cat", n: 1, aspect_ratio: "16:9" },
      await answering(gemini(PNG)),
    );
    expect(made).toEqual({
      images: [{ image_data: PNG, image_type: "image/png" }],
      revised_prompt: null,
      usage: { input_tokens: 5, output_tokens: 7 },
    });
    expect(provider.seen[0]!.body.generationConfig).toMatchObject({ imageConfig: { aspectRatio: "16:9" } });
  });

  it("are edited", async () => {
    const request = { prompt: "a dog", images: [{ image_data: PNG, image_type: "image/png" }] };
    for (const name of ["compatible/flux", "openai/gpt-image-1"]) {
      const options = await answering(data(JPEG));
      expect((await generateImages(model(name), request, options)).images).toEqual([
        { image_data: JPEG, image_type: "image/jpeg" },
      ]);
      expect(provider.seen[0]).toMatchObject({
        path: "/v1/images/edits",
        headers: { "content-type": expect.stringMatching(/^multipart\/form-data/) },
      });
      expect(provider.seen[0]!.body).toContain("a dog");
      provider.close();
    }
    await generateImages(model("google/gemini-2.5-flash-image"), request, await answering(gemini(JPEG)));
    expect(JSON.stringify(provider.seen[0]!.body.contents)).toContain(PNG);
  });

  it("that an answer names elsewhere are fetched past the guard, without the key", async () => {
    const bytes: Answer = (response) =>
      response.writeHead(200, { "content-type": "image/png" }).end(Buffer.from(PNG, "base64"));
    const named = (url: string) => json(200, { data: [{ url }] });
    const options = await answering(named("https://cdn.example.com/a.png"), bytes);
    const forbidden: typeof options.ways.fetch = (url, init) =>
      url.includes("cdn") ? Promise.reject(new Error("the operator's way")) : options.ways.fetch(url, init);
    const { images } = await generateImages(
      model("compatible/flux"),
      { prompt: "a" },
      { ways: { ...options.ways, fetch: forbidden } },
    );
    expect(images).toEqual([{ image_data: PNG, image_type: "image/png" }]);
    expect(JSON.stringify(provider.seen[1])).not.toContain(KEY);
    provider.close();
    for (const inside of ["http://169.254.169.254/a.png", "http://10.0.0.1/", "http://localhost/"]) {
      const options = await answering(named(inside), bytes);
      await expect(
        generateImages(model("compatible/flux"), { prompt: "a" }, { ...options, limits: { tries: 1 } }),
      ).rejects.toMatchObject({ name: "ModelError" });
      expect(provider.seen).toHaveLength(1);
      provider.close();
    }
  });

  it("are refused where a provider has none, or doesn't take what is asked, before it is asked", async () => {
    const options = await answering(data(PNG));
    const refusals: [string, object, string][] = [
      ["anthropic/claude", {}, "prompt"],
      ["google/gemini-2.5-flash-image", { size: "1x1", quality: "high" }, "size, quality"],
      ["google/gemini-2.5-flash-image", { n: 2 }, "n"],
      ["openai/gpt-image-1", { aspect_ratio: "1:1" }, "aspect_ratio"],
    ];
    for (const [name, more, named] of refusals) {
      await expect(generateImages(model(name), { prompt: "a", ...more }, options)).rejects.toMatchObject({
        code: "model_refused",
        message: expect.stringContaining(named),
      });
    }
    expect(provider.seen).toHaveLength(0);
  });

  it("that are none, or larger than is taken, are an error; a refusal is the provider's", async () => {
    const large: Answer = (response) =>
      response
        .writeHead(200, { "content-type": "application/json" })
        .end(`{"data":[{"b64_json":"${"A".repeat(17_000_000)}"}]}`);
    for (const answer of [data(), large]) {
      await expect(
        generateImages(model("compatible/flux"), { prompt: "a" }, await answering(answer)),
      ).rejects.toMatchObject({ code: "model_answer_invalid" });
      provider.close();
    }
    await expect(
      generateImages(
        model("openai/gpt-image-1"),
        { prompt: "a" },
        await answering(json(400, { error: { message: "not this" } })),
      ),
    ).rejects.toMatchObject({ code: "model_refused", status: 400, message: "not this" });
  });
});

describe("embeddings", () => {
  it.each([
    [
      "compatible/e",
      "/v1/embeddings",
      { model: "e", input: ["a", "b"] },
      { data: [{ embedding: [1, 0] }, { embedding: [0, 1] }], usage: { prompt_tokens: 4 } },
      4,
    ],
    [
      "openai/text-embedding-3-small",
      "/v1/embeddings",
      { model: "text-embedding-3-small", input: ["a", "b"] },
      {
        data: [
          { embedding: [1, 0], index: 0 },
          { embedding: [0, 1], index: 1 },
        ],
        usage: { prompt_tokens: 4 },
      },
      4,
    ],
    [
      "google/gemini-embedding-001",
      "/v1beta/models/gemini-embedding-001:batchEmbedContents",
      {},
      { embeddings: [{ values: [1, 0] }, { values: [0, 1] }] },
      null,
    ],
  ])("are made by %s, one a text", async (name, path, sent, answer, input_tokens) => {
    expect(await embed(model(name), ["a", "b"], await answering(json(200, answer)))).toEqual({
      vectors: [
        [1, 0],
        [0, 1],
      ],
      input_tokens,
    });
    expect(provider.seen).toMatchObject([{ path, body: sent }]);
  });

  it("are asked for again after an overload, and refused where there are none", async () => {
    const options = await answering(
      json(503, { error: { message: "busy" } }, { "retry-after-ms": "1" }),
      json(200, { data: [{ embedding: [1] }] }),
    );
    expect((await embed(model("compatible/e"), ["a"], options)).vectors).toEqual([[1]]);
    for (const name of ["anthropic/claude", "scripted/echo"])
      await expect(embed(model(name), ["a"], options)).rejects.toMatchObject({ name: "ModelError", retryable: false });
  });

  it("that don't fit the texts are an error", async () => {
    for (const embeddings of [[], [[1]], [[], []], [[1], [1, 2]]]) {
      const options = await answering(json(200, { data: embeddings.map((embedding) => ({ embedding })) }));
      await expect(embed(model("compatible/e"), ["a", "b"], options)).rejects.toMatchObject({
        code: "model_answer_invalid",
      });
      provider.close();
    }
  });
});
