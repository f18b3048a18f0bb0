/** Messages as the providers' packages take them, and the resume token, which holds what the wire's shape has no place for. */
import type {
  LanguageModelV4FilePart,
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  SharedV4ProviderMetadata,
} from "@ai-sdk/provider";
import { base64url } from "jose";
import * as v from "valibot";
import { judgeUrl } from "../http/guard.ts";
import { ModelError } from "./errors.ts";
import { type ContentPart, type Message, resultText, type ToolCall, textOf } from "./messages.ts";
import type { Model } from "./resolve.ts";

type AssistantContent = Extract<LanguageModelV4Message, { role: "assistant" }>["content"];

const metadata = v.optional(v.record(v.string(), v.record(v.string(), v.any())));

/**
 * The order of an assistant's parts, with the provider's metadata of each: a text by how many characters of `content`
 * it has, a call by its place in `tool_calls`. So the message stays the truth, and a token that doesn't fit is dropped.
 */
const layout = v.strictObject({
  provider: v.string(),
  parts: v.array(
    v.variant("type", [
      v.strictObject({
        type: v.literal("reasoning"),
        text: v.string(),
        metadata,
      }),
      v.strictObject({
        type: v.literal("text"),
        length: v.pipe(v.number(), v.integer(), v.minValue(0)),
        metadata,
      }),
      v.strictObject({ type: v.literal("call"), metadata }),
    ]),
  ),
});
export type Layout = v.InferOutput<typeof layout>;

export const toResumeToken = (parts: Layout): string => base64url.encode(JSON.stringify(parts));

/** What a token says, where it was this provider's. It comes from outside: whatever else it is counts as none. */
function readResumeToken(token: string | null, { provider }: Model): Layout | null {
  try {
    const parsed = v.safeParse(layout, JSON.parse(new TextDecoder().decode(base64url.decode(token ?? ""))));
    return parsed.success && parsed.output.provider === provider ? parsed.output : null;
  } catch {
    return null;
  }
}

/** The conversation for a provider. Throws `model_refused` for an image address that isn't public. */
export function toPrompt(messages: Message[], model: Model): LanguageModelV4Prompt {
  const prompt = messages.map((message) => toPromptMessage(message, model));
  if (model.provider !== "anthropic" && model.provider !== "google") return prompt;
  // These know instructions at the beginning alone.
  const isSystem = ({ role }: LanguageModelV4Message) => role === "system";
  return [...prompt.filter(isSystem), ...prompt.filter((message) => !isSystem(message))];
}

function toPromptMessage(message: Message, model: Model): LanguageModelV4Message {
  switch (message.role) {
    case "system":
      return { role: "system", content: textOf(message) };
    case "user":
      return { role: "user", content: partsOf(message).map(toPart) };
    case "assistant":
      return { role: "assistant", content: toAssistant(message, model) };
    case "tool":
      return {
        role: "tool",
        content: (message.tool_results ?? []).map((result) => ({
          type: "tool-result",
          toolCallId: idFor(model, result.id),
          toolName: result.name,
          output: { type: "text", value: resultText(result) },
        })),
      };
  }
}

const partsOf = ({ content, content_parts }: Message): ContentPart[] =>
  content_parts ?? [{ type: "text", text: content ?? "" }];

function toPart(part: ContentPart) {
  if (part.type === "text") return part;
  if (part.type === "image_data") return image(part.image_type, { type: "data", data: part.image_data });
  const [, type, data] = /^data:(image\/[\w.+-]+);base64,(.*)$/s.exec(part.image_url) ?? [];
  if (type && data !== undefined) return image(type, { type: "data", data });
  // The provider fetches it: an operator's own may stand in a private network.
  const verdict = judgeUrl(part.image_url);
  if ("refused" in verdict) throw new ModelError("model_refused", `An image_url is refused: ${verdict.refused}.`);
  const ending = /\.(png|jpe?g|gif|webp)$/i.exec(verdict.url.pathname)?.[1]?.toLowerCase().replace("jpg", "jpeg");
  return image(ending ? `image/${ending}` : "image", { type: "url", url: verdict.url });
}

const image = (mediaType: string, data: LanguageModelV4FilePart["data"]) => ({
  type: "file" as const,
  mediaType,
  data,
});

/** Anthropic takes fewer letters than others make ids of, as when a session changes its model. */
const idFor = ({ provider }: Model, id: string) => (provider === "anthropic" ? id.replace(/[^\w-]/g, "_") : id);

function toAssistant(message: Message, model: Model): AssistantContent {
  const calls = (message.tool_calls ?? []).map((call) => toCall(call, model));
  const token = readResumeToken(message.resume_token, model);
  const text = message.content ?? "";
  const lengths = (token?.parts ?? []).map((part) => (part.type === "text" ? part.length : 0));
  const fits =
    token &&
    !message.content_parts &&
    lengths.reduce((sum, length) => sum + length, 0) === text.length &&
    token.parts.filter(({ type }) => type === "call").length === calls.length;
  if (!fits) {
    const said = partsOf(message).filter((part) => part.type !== "text" || part.text !== "");
    return [...said.map(toPart), ...calls];
  }
  let at = 0;
  let call = 0;
  return token.parts.map((part) => {
    const providerOptions = part.metadata as SharedV4ProviderMetadata | undefined;
    if (part.type === "call") {
      const { providerOptions: signature, ...made } = calls[call++]!;
      return { ...made, ...options(merged(providerOptions, signature)) };
    }
    if (part.type === "reasoning") return { type: "reasoning", text: part.text, ...options(providerOptions) };
    at += part.length;
    return { type: "text", text: text.slice(at - part.length, at), ...options(providerOptions) };
  });
}

function toCall({ id, name, arguments: input, thought_signature }: ToolCall, model: Model) {
  const signature = thought_signature ? { [model.provider]: { thoughtSignature: thought_signature } } : undefined;
  return { type: "tool-call" as const, toolCallId: idFor(model, id), toolName: name, input, ...options(signature) };
}

const options = (providerOptions: SharedV4ProviderMetadata | undefined) => (providerOptions ? { providerOptions } : {});

const merged = (a: SharedV4ProviderMetadata | undefined, b: SharedV4ProviderMetadata | undefined) =>
  a && b
    ? Object.fromEntries([...Object.keys(a), ...Object.keys(b)].map((key) => [key, { ...a[key], ...b[key] }]))
    : (a ?? b);
