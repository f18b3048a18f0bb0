/** A provider on this machine, that answers what a test has it answer, in the bytes of each provider's wire format. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import {
  type Completed,
  type Environment,
  type Message,
  type ModelError,
  message,
  resolveModel,
  type StepEvent,
  type StepOptions,
  type StepRequest,
  step,
  type Ways,
} from "../../../lib/model/index.ts";

export const KEY = "test-key+0123456789/abcdef==";
export const ENV = {
  OPENAI_API_KEY: KEY,
  ANTHROPIC_API_KEY: KEY,
  GOOGLE_GENERATIVE_AI_API_KEY: KEY,
  MODEL_API_KEY: KEY,
  // The server below stands for every host.
  MODEL_BASE_URL: "http://models.internal:8000/v1",
} satisfies Environment;

export type Answer = (response: ServerResponse, request: IncomingMessage, n: number) => unknown;
export type Seen = { path: string; headers: IncomingMessage["headers"]; body: any; closed: Promise<number> };

/** Answers the nth request with the nth of `answers`, and all that follow with the last. */
export async function aProvider(...answers: Answer[]) {
  const seen: Seen[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    const closed = once(response, "close").then(() => Date.now());
    for await (const chunk of request) chunks.push(chunk);
    const text = Buffer.concat(chunks).toString();
    const isJson = request.headers["content-type"] === "application/json";
    const n = seen.push({
      path: request.url!,
      headers: request.headers,
      body: isJson ? JSON.parse(text) : text,
      closed,
    });
    await answers[Math.min(n, answers.length) - 1]!(response, request, n);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const here: Ways["fetch"] = (url, init) => {
    const { pathname, search } = new URL(url);
    return fetch(base + pathname + search, init);
  };
  const ways: Ways = { fetch: here, guarded: here };
  return {
    seen,
    base,
    ways,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** Server-sent events: of `[name, data]` with a name, of data without. */
export const sse =
  (...events: unknown[]): Answer =>
  (response) => {
    response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
    response.end(events.map(sseText).join(""));
  };

export function sseText(event: unknown): string {
  const [name, data] = Array.isArray(event) ? event : [null, event];
  return `${name ? `event: ${name}\n` : ""}data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;
}

export const json =
  (status: number, body: unknown, headers: Record<string, string> = {}): Answer =>
  (response) => {
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(JSON.stringify(body));
  };

/** Chunks of the chat completions API. */
export const chunk = (delta: object, finish_reason: string | null = null, more: object = {}) => ({
  ...{ id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: "m" },
  choices: [{ index: 0, delta, finish_reason }],
  ...more,
});
export const usageChunk = (prompt_tokens: number, completion_tokens: number) => ({
  ...{ id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: "m", choices: [] },
  usage: { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens },
});
export const hello = sse(
  chunk({ role: "assistant", content: "Hel" }),
  chunk({ content: "lo" }),
  chunk({}, "stop"),
  usageChunk(9, 2),
  "[DONE]",
);

export const user = (content: string) => message({ role: "user", content });
export const say = (content = "Hi"): StepRequest => ({ messages: [user(content)] });
export const results = (...pairs: [{ id: string; name: string }, string][]): Message =>
  message({
    role: "tool",
    tool_results: pairs.map(([{ id, name }, content]) => ({ id, name, content, resolution: null })),
  });

export const WEATHER = {
  name: "get_weather",
  description: "The weather of a city",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};

/** All events of a step, its last apart. */
export async function run(name: string, request: StepRequest, options: StepOptions, env: Environment = ENV) {
  const events: StepEvent[] = [];
  for await (const event of step(resolveModel(name, env), request, options)) events.push(event);
  const completed = events.pop() as Completed;
  return { deltas: events as Exclude<StepEvent, Completed>[], completed };
}

/** The error that a step must end with, and what it gave before. */
export async function failure(name: string, request: StepRequest, options: StepOptions, env: Environment = ENV) {
  const events: StepEvent[] = [];
  try {
    for await (const event of step(resolveModel(name, env), request, options)) events.push(event);
  } catch (error) {
    return { events, error: error as ModelError };
  }
  throw new Error(`it answered: ${JSON.stringify(events)}`);
}
