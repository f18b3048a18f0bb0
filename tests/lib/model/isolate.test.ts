/** Models in workerd itself, from a bundle as it's deployed: one file, no eval, no Node. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { build } from "esbuild";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { anIsolate } from "../script/isolate.ts";
import { type Answer, aProvider, chunk, ENV, hello, json, KEY, say, sse, sseText, WEATHER } from "./fixtures.ts";
import type { Asked } from "./isolate-worker.ts";

const CONFIG = `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = (
      modules = [(name = "worker", esModule = embed "worker.js")],
      compatibilityDate = "2026-10-01",
      compatibilityFlags = ["global_fetch_strictly_public", "enable_request_signal"],
    )),
    (name = "internet", network = (allow = ["private"])),
  ],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")],
);`;

let folder: string;
let isolate: Awaited<ReturnType<typeof anIsolate>>;
let provider: Awaited<ReturnType<typeof aProvider>>;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "agentry-model-"));
  await build({
    entryPoints: [resolve(import.meta.dirname, "isolate-worker.ts")],
    outfile: join(folder, "worker.js"),
    ...{ bundle: true, format: "esm", target: "es2024", conditions: ["workerd", "worker", "browser"] },
  });
  await writeFile(join(folder, "config.capnp"), CONFIG);
  isolate = await anIsolate(folder);
});
afterAll(async () => {
  await isolate.close();
  await rm(folder, { recursive: true });
});
afterEach(() => provider?.close());

const ask = async (name: string, answer: Answer, more: Partial<Asked> = {}) => {
  provider = await aProvider(answer);
  const asked: Asked = { name, env: ENV, request: { ...say(), tools: [WEATHER] }, base: provider.base, ...more };
  return isolate.ask(asked as never);
};
const answers: Record<string, Answer> = {
  "compatible/m": hello,
  "openai/gpt-5": sse(
    { type: "response.created", response: { id: "r", created_at: 1, model: "m" } },
    { type: "response.output_item.added", output_index: 0, item: { type: "message", id: "msg" } },
    { type: "response.output_text.delta", item_id: "msg", output_index: 0, content_index: 0, delta: "Hello" },
    {
      type: "response.output_item.done",
      output_index: 0,
      item: { type: "message", id: "msg", role: "assistant", content: [] },
    },
    { type: "response.completed", response: { usage: { input_tokens: 9, output_tokens: 2 } } },
  ),
  "anthropic/claude-sonnet-4-5": sse(
    {
      type: "message_start",
      message: {
        id: "m",
        type: "message",
        role: "assistant",
        model: "m",
        content: [],
        usage: { input_tokens: 9, output_tokens: 1 },
      },
    },
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hello" } },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 2 } },
    { type: "message_stop" },
  ),
  "google/gemini-2.5-flash": sse({
    candidates: [{ content: { role: "model", parts: [{ text: "Hello" }] }, finishReason: "STOP" }],
    usageMetadata: { promptTokenCount: 9, candidatesTokenCount: 2, totalTokenCount: 11 },
  }),
  "scripted/echo": hello,
};

it.each(Object.entries(answers))("%s answers", async (name, answer) => {
  const { events, error } = await ask(name, answer);
  expect(error).toBeUndefined();
  expect(events.at(-1)).toMatchObject({
    type: "completed",
    message: { content: expect.stringMatching(name === "scripted/echo" ? /Hi$/ : /^Hello$/) },
    finish_reason: "stop",
  });
});

const begun: Answer = (response) =>
  response.writeHead(200, { "content-type": "text/event-stream" }).write(sseText(chunk({ content: "Hel" })));

it("an abort closes the provider's connection within a second, silent or in the midst of its answer", async () => {
  for (const answer of [() => {}, begun]) {
    const asked = ask("compatible/m", answer, { abort_after_ms: 300 });
    const { error } = await asked;
    const at = Date.now();
    expect(error).toEqual({ message: "gone" });
    expect((await provider.seen[0]!.closed) - at).toBeLessThan(1000);
    provider.close();
  }
});

it("a provider that is silent, cut, out of reach or refuses is an error of ours, without key or address", async () => {
  const cases: [Answer, string][] = [
    [begun, "model_unavailable"],
    [(response) => response.write("") && response.destroy(), "model_unavailable"],
    [(response) => begun(response, null as never, 1) && setTimeout(() => response.destroy(), 50), "model_unavailable"],
    [json(401, { error: { message: `bad ${KEY}` } }), "model_refused"],
    [(response) => response.writeHead(302, { location: "http://127.0.0.1:1/" }).end(), "model_refused"],
  ];
  for (const [answer, code] of cases) {
    const { error } = await ask("compatible/m", answer, { idle_ms: 300 });
    expect(error.code).toBe(code);
    expect(error.message).not.toMatch(/127\.0\.0\.1|test-key/);
    provider.close();
  }
  const { error } = await ask("compatible/m", hello, { base: "http://127.0.0.1:1" });
  expect(error).toEqual({ code: "model_unavailable", message: "The provider can't be reached." });
});

it("a hostile stream is cut off before it fills the isolate", async () => {
  const big = "x".repeat(60_000);
  const endless: Answer = async (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (let n = 0; !response.destroyed && n < 5_000; n++) {
      if (!response.write(n % 2 ? `data: ${big}\n` : big))
        await new Promise((resolve) => response.setMaxListeners(0).once("drain", resolve).once("close", resolve));
    }
  };
  const { error } = await ask("compatible/m", endless);
  expect(error.code).toBe("model_answer_invalid");
  if (process.platform === "linux") expect(await isolate.bytes("VmHWM")).toBeLessThan(400 * 1024 * 1024);
});
