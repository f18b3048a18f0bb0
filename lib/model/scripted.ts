/**
 * Models that are no intelligence and don't pretend to be: for first runs without a key, and for tests. The same
 * request has the same answer. A token is four characters.
 *
 * - `scripted/echo` says what it is, and then what the last message said.
 * - `scripted/tools` calls the tools whose names stand in the last user message, one after another as they stand there,
 *   with the examples and defaults of their JSON Schemas, and then says what they answered.
 * - `scripted/script` does what is written in the last block of the conversation's system and user messages that begins
 *   with ```script: JSON, a list of rules, of which the first that matches the last message is done.
 * - `scripted/tape` repeats a recording, and nothing but it.
 */
import type { LanguageModelV4StreamPart } from "@ai-sdk/provider";
import * as v from "valibot";
import { pause } from "./egress.ts";
import { errorOfStatus, ModelError, type ModelErrorCode, notConfigured, unavailable } from "./errors.ts";
import { type Message, type StepEvent, type StepRequest, type Tool, textOf } from "./messages.ts";
import type { Model } from "./resolve.ts";

const ms = v.pipe(v.number(), v.minValue(0), v.maxValue(600_000));
const rule = v.strictObject({
  /** Of the last message, a user's or a tool's: it contains this, or is exactly this. Without either any does. */
  match: v.optional(v.string()),
  exact: v.optional(v.string()),
  role: v.optional(v.picklist(["user", "tool"])),
  /** Before anything else, and between two pieces of the answer. */
  delay_ms: v.optional(ms, 0),
  pace_ms: v.optional(ms, 0),
  /** In the place of an answer; with `times` only so many tries fail. */
  error: v.optional(
    v.strictObject({
      status: v.pipe(v.number(), v.integer(), v.minValue(400), v.maxValue(599)),
      message: v.optional(v.string(), "scripted"),
      retry_after_s: v.optional(v.number()),
      times: v.optional(v.number(), Number.POSITIVE_INFINITY),
    }),
  ),
  reasoning: v.optional(v.string()),
  text: v.optional(v.string()),
  tool_calls: v.optional(
    v.array(v.strictObject({ name: v.string(), arguments: v.record(v.string(), v.unknown()) })),
    [],
  ),
  /** After so many pieces the stream breaks off. */
  break_after: v.optional(v.number()),
});
type Rule = v.InferInput<typeof rule>;
const script = v.pipe(v.array(rule), v.maxLength(1_000));

/** What the wire calls a step, recorded: its request by `requestHash`, and what came of it. */
export type TapeStep = {
  request_hash: string;
  events: StepEvent[];
  error?: { code: ModelErrorCode; message: string; retryable: boolean } | null;
};

/** The stream of a scripted model, as a provider's package would give it. `attempt` counts from 1. */
export async function* scripted(
  model: Model,
  request: StepRequest,
  signal: AbortSignal,
  attempt: number,
): AsyncGenerator<LanguageModelV4StreamPart> {
  const rule = ruleOf(model, request);
  const { delay_ms = 0, pace_ms = 0, error, reasoning = "", text = "", tool_calls = [], break_after } = rule;
  await pause(delay_ms, signal);
  if (error && attempt <= (error.times ?? Number.POSITIVE_INFINITY)) {
    const { status, message = "scripted", retry_after_s } = error;
    throw errorOfStatus(status, message, retry_after_s === undefined ? null : retry_after_s * 1000);
  }
  const calls = tool_calls.map(({ name, arguments: input }, i) => ({
    ...{ toolCallId: `call_${request.messages.length}_${i}`, toolName: name, input: JSON.stringify(input) },
  }));
  const pieces: LanguageModelV4StreamPart[] = [
    ...split(reasoning).map((delta) => ({ type: "reasoning-delta" as const, id: "0", delta })),
    ...split(text).map((delta) => ({ type: "text-delta" as const, id: "0", delta })),
    ...calls.flatMap(({ toolCallId: id, ...call }) => [
      { type: "tool-input-start" as const, id, toolName: call.toolName },
      ...split(call.input).map((delta) => ({ type: "tool-input-delta" as const, id, delta })),
      { type: "tool-call" as const, toolCallId: id, ...call },
    ]),
  ];
  for (const [i, piece] of pieces.entries()) {
    if (i === break_after) throw unavailable("The script breaks off here.");
    if (i > 0) await pause(pace_ms, signal);
    yield piece;
  }
  const output = reasoning + text + calls.map(({ input }) => input).join("");
  yield {
    type: "finish",
    finishReason: { unified: calls.length > 0 ? "tool-calls" : "stop", raw: undefined },
    usage: {
      inputTokens: {
        total: tokens(request.messages.map(textOf).join("")),
        noCache: undefined,
        cacheRead: 0,
        cacheWrite: 0,
      },
      outputTokens: { total: tokens(output), text: undefined, reasoning: tokens(reasoning) },
    },
  };
}

const tokens = (text: string) => Math.ceil(text.length / 4);
const split = (text: string) => text.match(/.{1,24}/gsu) ?? [];

function ruleOf({ name, id }: Model, { messages, tools = [] }: StepRequest): Rule {
  const since = messages.findLastIndex(({ role }) => role === "user");
  const said = since < 0 ? "" : textOf(messages[since]!);
  const says = `This is ${name}, a scripted model for first runs and tests: no intelligence.`;
  if (id === "echo") return { text: `${says}\n\n${said}` };
  if (id === "tools") return nextCall(said, messages.slice(since + 1), tools, says);
  if (id === "script") return matching(messages);
  throw notConfigured(`There is no ${name.slice(0, 100)}: use scripted/echo, scripted/tools or scripted/script.`);
}

function nextCall(said: string, after: Message[], tools: Tool[], says: string): Rule {
  const words = [...new Set(said.match(/[\w-]+/g) ?? [])];
  const named = words.flatMap((word) => tools.filter(({ name }) => name === word));
  const next = named[after.filter(({ role }) => role === "assistant").length];
  if (next)
    return { tool_calls: [{ name: next.name, arguments: sampleOf(next.parameters) as Record<string, unknown> }] };
  const results = after.flatMap(({ tool_results }) => tool_results ?? []);
  const answers = results.map((result) => `${result.name}: ${textOf({ tool_results: [result] } as Message)}`);
  const offered = tools.map(({ name }) => name).join(", ") || "none";
  return {
    text: [says, "", ...(named.length > 0 ? answers : [`Name the tools to call. There are: ${offered}.`])].join("\n"),
  };
}

type Schema = {
  type?: string | string[];
  properties?: Record<string, object>;
  required?: string[];
  minimum?: number;
  const?: unknown;
  example?: unknown;
  examples?: unknown[];
  default?: unknown;
  enum?: unknown[];
};

/** A value that a JSON Schema itself gives, or the plainest of its type; of an object what it requires or has a value for. */
function sampleOf(schema: unknown, depth = 0): unknown {
  if (typeof schema !== "object" || schema === null || depth > 8) return {};
  const { type, properties, required, minimum, ...given } = schema as Schema;
  for (const value of [given.const, given.example, given.examples?.[0], given.default, given.enum?.[0]]) {
    if (value !== undefined) return value;
  }
  switch (Array.isArray(type) ? type[0] : type) {
    case "string":
      return "text";
    case "number":
    case "integer":
      return minimum ?? 1;
    case "boolean":
      return true;
    case "array":
      return [];
    case "null":
      return null;
  }
  const wanted = Object.entries(properties ?? {}).filter(
    ([name, value]) =>
      required?.includes(name) || ["const", "example", "examples", "default"].some((key) => key in value),
  );
  return Object.fromEntries(wanted.map(([name, value]) => [name, sampleOf(value, depth + 1)]));
}

const BLOCK = /```script\n(.*?)\n```/gs;

function matching(messages: Message[]): Rule {
  const scripts = messages
    .filter(({ role }) => role === "system" || role === "user")
    .flatMap((message) => [...textOf(message).matchAll(BLOCK)].map(([, text]) => text!));
  const last = messages.findLast(({ role }) => role === "user" || role === "tool");
  const said = last ? textOf(last).replaceAll(BLOCK, "").trim() : "";
  let rules: Rule[];
  try {
    rules = v.parse(script, JSON.parse(scripts.at(-1) ?? ""));
  } catch {
    throw notConfigured("scripted/script finds no list of rules in a block that begins with ```script.");
  }
  const found = rules.find(
    ({ match = "", exact = said, role = last?.role }) => said.includes(match) && said === exact && role === last?.role,
  );
  if (!found) throw new ModelError("model_refused", "The script has no rule for the last message.");
  return found;
}

/** What two requests share that are the same step: all but the model. */
export const requestHash = (request: StepRequest): Promise<string> => jsonHash(request);

/** Hexadecimal SHA-256 of a value as JSON, whatever the order of its keys. */
export async function jsonHash(json: unknown): Promise<string> {
  const sorted = (_: string, value: unknown) =>
    typeof value === "object" && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value;
  const bytes = new TextEncoder().encode(JSON.stringify(json, sorted));
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** What was recorded of this very request. Throws `tape_diverged` for any other, and past the end of the recording. */
export async function* replay(recorded: TapeStep | undefined, request: StepRequest): AsyncGenerator<StepEvent> {
  const at = `message ${request.messages.length}`;
  if (!recorded) throw new ModelError("tape_diverged", `The tape ends before ${at}.`);
  const hash = await requestHash(request);
  if (hash !== recorded.request_hash) {
    throw new ModelError(
      "tape_diverged",
      `The tape was recorded of another request, at ${at}: ${recorded.request_hash}, not ${hash}.`,
    );
  }
  yield* recorded.events;
  if (recorded.error) {
    const { code, message, retryable } = recorded.error;
    throw Object.assign(new ModelError(code, message, { retryable }), { streamed: recorded.events.length > 0 });
  }
}
