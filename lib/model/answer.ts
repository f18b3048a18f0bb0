/** From the parts that a provider's package streams to our events, and to the message that they come to. */
import type { LanguageModelV4StreamPart, LanguageModelV4Usage, SharedV4ProviderMetadata } from "@ai-sdk/provider";
import type { Limits } from "./egress.ts";
import { invalidAnswer, toModelError, unavailable } from "./errors.ts";
import {
  type Completed,
  type ContentPart,
  type FinishReason,
  message,
  type StepEvent,
  type StepRequest,
  type ToolCall,
} from "./messages.ts";
import { type Layout, toResumeToken } from "./prompt.ts";
import { type Model, secretsOf } from "./resolve.ts";

type Part = { index: number; text: string; metadata?: SharedV4ProviderMetadata | undefined } & (
  | { type: "text" | "reasoning" }
  | { type: "call"; id: string; name: string; done: boolean }
  | { type: "image"; media_type: string }
);
type Finish = Extract<LanguageModelV4StreamPart, { type: "finish" }>;

const FINISH_REASONS: Record<string, FinishReason> = {
  stop: "stop",
  length: "length",
  "tool-calls": "tool_calls",
  "content-filter": "content_filter",
};

/** Ends in `completed`, or throws: what a provider streams is taken for no more than it proves to be. */
export async function* answer(
  stream: AsyncIterable<LanguageModelV4StreamPart>,
  request: StepRequest,
  model: Model,
  limits: Limits,
): AsyncGenerator<StepEvent> {
  const parts: Part[] = [];
  /** The part that a provider's id means now: some use one again. */
  const open = new Map<string, Part>();
  const ids = new Set(request.messages.flatMap(({ tool_calls }) => (tool_calls ?? []).map(({ id }) => id)));
  let chars = 0;
  let finish: Finish | undefined;

  const take = (size: number) => {
    chars += size;
    if (chars > limits.answer_chars) throw invalidAnswer("The provider's answer is larger than is taken.");
  };
  const begin = <P extends Part>(key: string, part: P): P => {
    if (parts.length >= limits.parts) throw invalidAnswer(`The provider's answer has more than ${limits.parts} parts.`);
    parts.push(part);
    open.set(key, part);
    return part;
  };
  /** The latest of a part's metadata counts. */
  const keep = (part: Part, metadata: SharedV4ProviderMetadata | undefined) => {
    if (!metadata) return;
    take(JSON.stringify(metadata).length);
    part.metadata = metadata;
  };
  const prose = (type: "text" | "reasoning", id: string, isStart = false) => {
    const known = isStart ? undefined : open.get(`${type} ${id}`);
    return known ?? begin(`${type} ${id}`, { type, index: parts.length, text: "" });
  };
  const call = (given: string, name: string) => {
    if (parts.filter(({ type }) => type === "call").length >= limits.tool_calls) {
      throw invalidAnswer(`The model made more than ${limits.tool_calls} tool calls at once.`);
    }
    if (name.length > 200) throw invalidAnswer("The model called a tool of an endless name.");
    // Calls are told apart by their ids, in the whole conversation. Not every provider sees to that.
    let id = given;
    for (let n = ids.size; !/^[a-z0-9][\w.:-]{0,63}$/i.test(id) || ids.has(id); n++) id = `call_${n}`;
    ids.add(id);
    return begin(`call ${given}`, { type: "call" as const, index: parts.length, id, name, text: "", done: false });
  };
  const grow = (part: Part, delta: string) => {
    take(delta.length);
    part.text += delta;
    if (part.type === "call" && part.text.length > limits.arguments_chars) {
      throw invalidAnswer("The arguments of a tool call are larger than is taken.");
    }
  };

  for await (const part of stream) {
    switch (part.type) {
      case "text-start":
      case "reasoning-start":
        keep(prose(part.type === "text-start" ? "text" : "reasoning", part.id, true), part.providerMetadata);
        break;
      case "text-delta":
      case "reasoning-delta": {
        const type = part.type === "text-delta" ? "text" : "reasoning";
        const known = prose(type, part.id);
        keep(known, part.providerMetadata);
        if (part.delta === "") break;
        grow(known, part.delta);
        yield { type, part: known.index, delta: part.delta };
        break;
      }
      case "text-end":
      case "reasoning-end":
        keep(prose(part.type === "text-end" ? "text" : "reasoning", part.id), part.providerMetadata);
        break;
      case "tool-input-start": {
        const { id, name, index } = call(part.id, part.toolName);
        yield { type: "arguments", part: index, id, name, delta: "" };
        break;
      }
      case "tool-input-delta": {
        const known = open.get(`call ${part.id}`);
        if (known?.type !== "call") throw invalidAnswer("The provider sent arguments of no call.");
        if (part.delta === "") break;
        grow(known, part.delta);
        yield { type: "arguments", part: known.index, id: known.id, name: known.name, delta: part.delta };
        break;
      }
      case "tool-call": {
        const known = open.get(`call ${part.toolCallId}`);
        const made = known?.type === "call" && !known.done ? known : call(part.toolCallId, part.toolName);
        if (made.text === "" && part.input !== "") {
          grow(made, part.input);
          yield { type: "arguments", part: made.index, id: made.id, name: made.name, delta: part.input };
        }
        made.done = true;
        keep(made, part.providerMetadata);
        break;
      }
      case "file": {
        const data = part.data.type === "data" ? part.data.data : null;
        if (typeof data !== "string" || !part.mediaType.startsWith("image/")) break;
        take(data.length);
        begin("image", { type: "image", index: parts.length, text: data, media_type: part.mediaType });
        break;
      }
      case "finish":
        finish = part;
        break;
      case "error":
        throw toModelError(part.error, secretsOf(model));
    }
  }
  if (!finish || finish.finishReason.unified === "interrupted") throw unavailable("The provider's answer broke off.");
  if (finish.finishReason.unified === "error") throw unavailable("The provider failed.");
  yield completed(parts, finish, model);
}

function completed(parts: Part[], finish: Finish, model: Model): Completed {
  const unreadable_arguments: Record<string, string> = {};
  const calls: ToolCall[] = [];
  const rest: Layout = { provider: model.provider, parts: [] };
  const content_parts: ContentPart[] = [];
  for (const part of parts) {
    if (part.type === "image") {
      content_parts.push({ type: "image_data", image_data: part.text, image_type: part.media_type });
    } else if (part.type === "call") {
      const { id, name } = part;
      const given = readArguments(part.text);
      if (typeof given === "string") unreadable_arguments[id] = given;
      const { signature, metadata } = splitSignature(part.metadata);
      calls.push({ id, name, arguments: typeof given === "string" ? {} : given, thought_signature: signature });
      rest.parts.push({ type: "call", ...(metadata && { metadata }) });
    } else {
      const { type, text, metadata } = part;
      if (text === "" && !metadata) continue;
      if (type === "text" && text !== "") content_parts.push({ type, text });
      rest.parts.push({
        ...(type === "text" ? { type, length: text.length } : { type, text }),
        ...(metadata && { metadata }),
      });
    }
  }
  const hasImages = content_parts.some(({ type }) => type === "image_data");
  const text = content_parts.map((part) => (part.type === "text" ? part.text : "")).join("");
  const worthKeeping = rest.parts.some(({ type, metadata }) => type === "reasoning" || metadata);
  return {
    type: "completed",
    message: message({
      role: "assistant",
      content: hasImages ? null : text || (calls.length > 0 ? null : ""),
      content_parts: hasImages ? content_parts : null,
      tool_calls: calls.length > 0 ? calls : null,
      resume_token: worthKeeping ? toResumeToken(rest) : null,
    }),
    usage: toUsage(finish.usage),
    finish_reason: FINISH_REASONS[finish.finishReason.unified] ?? "other",
    unreadable_arguments,
  };
}

/** The arguments of a call, or what is wrong with them. None at all are none. */
function readArguments(text: string): Record<string, unknown> | string {
  if (text.trim() === "") return {};
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null || Array.isArray(value))
      return "The arguments are not a JSON object.";
    return isDeep(value, MAX_DEPTH) ? "The arguments are nested too deep." : (value as Record<string, unknown>);
  } catch {
    return "The arguments are not valid JSON.";
  }
}

/** What is deeper could be read, but not written again. */
const MAX_DEPTH = 64;
const isDeep = (value: unknown, left: number): boolean =>
  typeof value === "object" &&
  value !== null &&
  (left === 0 || Object.values(value).some((inner) => isDeep(inner, left - 1)));

/** A signature stands where the wire has a place for it, and all else of a call's metadata in the token. */
function splitSignature(given: SharedV4ProviderMetadata | undefined) {
  let signature: string | null = null;
  const rest: SharedV4ProviderMetadata = {};
  for (const [provider, { thoughtSignature, ...others }] of Object.entries(given ?? {})) {
    if (typeof thoughtSignature === "string") signature = thoughtSignature;
    if (Object.keys(others).length > 0) rest[provider] = others;
  }
  return { signature, metadata: Object.keys(rest).length > 0 ? rest : undefined };
}

const toUsage = ({ inputTokens, outputTokens }: LanguageModelV4Usage) => ({
  input_tokens: toCount(inputTokens?.total),
  output_tokens: toCount(outputTokens?.total),
  cached_tokens: toCount(inputTokens?.cacheRead),
  reasoning_tokens: toCount(outputTokens?.reasoning),
});

const toCount = (count: unknown) => (Number.isSafeInteger(count) && (count as number) >= 0 ? (count as number) : null);
