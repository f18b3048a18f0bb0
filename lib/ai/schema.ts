import * as v from "valibot";
import { checkSchema } from "../configs/json-schema.ts";
import type { FieldError } from "../errors.ts";
import { list, map, maxBytes, maxValues, nullable, rule, rules, text } from "../http/valid.ts";
import type { Image, ImageAnswer, ImageRequest, StepRequest } from "../model/index.ts";

/** Absent is null. */
const maybe = <S extends v.GenericSchema>(schema: S) => v.optional(v.nullable(schema), null);
/** A list, of which none at all is null, too. */
const some = <S extends v.GenericSchema>(item: S, max: number) =>
  v.pipe(
    maybe(list(item, max)),
    v.transform((items) => (items?.length ? items : null)),
  );
const whole = (min: number, max: number) => v.pipe(v.number(), v.integer(), v.minValue(min), v.maxValue(max));
const name = v.pipe(text(200), v.nonEmpty());
const session_id = maybe(text(100));
const model = maybe(text(300));
const imageType = v.pipe(v.string(), v.regex(/^image\/[\w.+-]{1,50}$/, "must be an image's media type: image/png"));
const base64 = v.pipe(
  v.string(),
  v.nonEmpty(),
  v.check((data) => data.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(data), "must be base64"),
);

const part = v.variant("type", [
  v.strictObject({ type: v.literal("text"), text: v.string() }),
  v.strictObject({ type: v.literal("image_url"), image_url: v.pipe(v.string(), v.nonEmpty()) }),
  v.strictObject({ type: v.literal("image_data"), image_data: base64, image_type: imageType }),
]);
const toolCall = v.strictObject({ id: name, name, arguments: map, thought_signature: maybe(v.string()) });
const toolResult = v.strictObject({
  id: name,
  name,
  content: maybe(v.string()),
  resolution: v.optional(v.unknown(), null),
});
const message = v.strictObject({
  role: v.picklist(["system", "user", "assistant", "tool"]),
  content: maybe(v.string()),
  content_parts: some(part, 100),
  tool_calls: some(toolCall, 128),
  tool_results: some(toolResult, 128),
  resume_token: maybe(v.string()),
  structured_output: v.optional(v.unknown(), null),
});
type Message = v.InferOutput<typeof message>;

const tool = v.strictObject({
  type: v.literal("function"),
  function: v.strictObject({
    name: v.pipe(v.string(), v.regex(/^[\w-]{1,64}$/, "must be 1 to 64 letters, digits, _ and -")),
    description: maybe(text(10_000)),
    parameters: map,
  }),
});
const opts = {
  model,
  temperature: maybe(v.pipe(v.number(), v.minValue(0), v.maxValue(2))),
  max_tokens: maybe(whole(1, 200_000)),
  tools: some(tool, 128),
  tool_choice: maybe(text(64)),
  server_tools: maybe(v.pipe(v.array(v.unknown()), v.maxLength(0, "names a tool that is not known: none runs here"))),
};
const MOST_VALUES = 100_000;
const chat = {
  /** What `{{name}}` stands for in the texts of system and user messages. */
  context: maybe(map),
  messages: v.pipe(list(message, 1_000, 1), maxValues(MOST_VALUES)),
  session_id,
};
type Chat = { messages: Message[]; opts: v.InferOutput<v.StrictObjectSchema<typeof opts, undefined>> };

export const completionBody = v.pipe(
  v.strictObject({ ...chat, opts: v.strictObject({ ...opts, structured_output: maybe(map) }) }),
  rules((body) => [
    ...faultsOf(body),
    ...(body.opts.structured_output ? checkSchema(body.opts.structured_output) : []).map((message) => ({
      field: "opts.structured_output",
      message,
    })),
  ]),
);
export const streamBody = v.pipe(
  v.strictObject({ ...chat, opts: v.strictObject(opts) }),
  rules((body) => faultsOf(body)),
);

/** The rules of a conversation, which hold between its messages. */
function faultsOf({ messages, opts: { tools, tool_choice } }: Chat): FieldError[] {
  const faults: FieldError[] = [];
  const called = new Map<string, string>();
  const answered = new Set<string>();
  for (const [i, { role, content, content_parts, tool_calls, tool_results }] of messages.entries()) {
    const add = (field: string, message: string) => faults.push({ field: `messages.${i}.${field}`, message });
    if (tool_calls && role !== "assistant") add("tool_calls", "are an assistant's alone");
    if (tool_results && role !== "tool") add("tool_results", "are a tool's alone");
    if (role === "tool" && !tool_results) add("tool_results", "is required of a tool");
    if (role === "tool" && (content !== null || content_parts)) add("content", "must be null: tool_results have it");
    if (content !== null && content_parts) add("content", "must be null beside content_parts");
    if (role === "system" && content_parts?.some(({ type }) => type !== "text"))
      add("content_parts", "take text alone of the system");
    if (content === null && !content_parts && !tool_calls && role !== "tool") add("content", "is required");
    for (const [n, call] of (tool_calls ?? []).entries()) {
      if (called.has(call.id)) add(`tool_calls.${n}.id`, "is another call's already");
      called.set(call.id, call.name);
    }
    for (const [n, result] of (tool_results ?? []).entries()) {
      const made = called.get(result.id);
      if (made === undefined) add(`tool_results.${n}.id`, "is of no call before it");
      else if (made !== result.name) add(`tool_results.${n}.name`, "must be the name of its call");
      if (answered.has(result.id)) add(`tool_results.${n}.id`, "was given a result already");
      answered.add(result.id);
    }
  }
  const names = (tools ?? []).map((tool) => tool.function.name);
  if (new Set(names).size < names.length) faults.push({ field: "opts.tools", message: "must have different names" });
  if (tool_choice && !["auto", "none", "required", ...names].includes(tool_choice))
    faults.push({ field: "opts.tool_choice", message: "must be auto, none, required, or the name of a tool" });
  return faults;
}

/** What the model is sent, but for the context. */
export const toRequest = ({ messages, opts }: Chat): StepRequest => ({
  messages,
  tools: (opts.tools ?? []).map(({ function: { name, description, parameters } }) => ({
    ...{ name, parameters },
    ...(description && { description }),
  })),
  ...(opts.tool_choice && { tool_choice: opts.tool_choice }),
  ...(opts.max_tokens !== null && { max_tokens: opts.max_tokens }),
  ...(opts.temperature !== null && { temperature: opts.temperature }),
});

const count = v.nullable(v.number());
const usage = v.record(
  v.string(),
  v.strictObject({ input_tokens: count, output_tokens: count, cached_tokens: count, reasoning_tokens: count }),
);
const messageView = v.strictObject({
  role: v.picklist(["system", "user", "assistant", "tool"]),
  content: nullable,
  content_parts: v.nullable(v.array(v.looseObject({ type: v.string() }))),
  tool_calls: v.nullable(
    v.array(
      v.strictObject({
        ...{ id: v.string(), name: v.string(), thought_signature: nullable },
        arguments: v.record(v.string(), v.unknown()),
      }),
    ),
  ),
  tool_results: v.nullable(
    v.array(v.strictObject({ id: v.string(), name: v.string(), content: nullable, resolution: v.unknown() })),
  ),
  resume_token: nullable,
  structured_output: v.unknown(),
});

export const completion = v.strictObject({
  message: messageView,
  /** The whole history, in order. */
  messages: v.array(messageView),
  finish_reason: v.string(),
  token_usage: usage,
});

const delta = v.strictObject({ delta: v.string() });
export const chatEvents = {
  thinking_delta: delta,
  message_delta: delta,
  tool_call_delta: v.strictObject({ id: v.string(), name: v.string(), delta: v.string() }),
  message_complete: v.strictObject({ message: messageView, finish_reason: v.string(), usage }),
  tool_result: v.strictObject({ id: v.string(), name: v.string(), content: nullable, resolution: nullable }),
  done: v.strictObject({ finish_reason: v.string(), run_count: v.number(), usage, total_usage: usage }),
  error: v.strictObject({ message: v.string(), code: v.string() }),
};

const formats = v.array(v.string());
export const modelList = v.strictObject({
  data: v.array(
    v.strictObject({
      id: v.string(),
      name: v.string(),
      default: v.boolean(),
      capabilities: v.array(v.picklist(["image", "search", "thinking"])),
      context_window: v.nullable(v.number()),
      input_media_formats: formats,
      output_media_formats: formats,
    }),
  ),
});

/** Names alone are known of models: what a provider doesn't tell of them isn't made up. The first is the default. */
export const toModels = (names: string[], capabilities: "image"[] = []): v.InferOutput<typeof modelList> => ({
  data: names.map((id, i) => ({
    ...{ id, name: id, default: i === 0, capabilities, context_window: null },
    input_media_formats: [],
    output_media_formats: [],
  })),
});

/** Image options go to the provider as they are; it says which of them it takes. */
const image = {
  prompt: v.pipe(text(32_000), v.nonEmpty()),
  model,
  session_id,
  size: maybe(text(20)),
  /** Both of them, in pixels: they win over `size`. */
  width: maybe(whole(1, 8_192)),
  height: maybe(whole(1, 8_192)),
  aspect_ratio: maybe(text(20)),
  image_size: maybe(text(20)),
  quality: maybe(text(50)),
  style: maybe(text(200)),
  background: maybe(text(50)),
  /** `png`, or `image/png`. */
  output_format: maybe(text(50)),
};
const sized = <B extends { width: number | null; height: number | null }>() =>
  rule<B>(
    "width",
    ({ width, height }) => (width === null) === (height === null),
    "takes a height, and a height a width",
  );
export const generateBody = v.pipe(v.strictObject({ ...image, n: maybe(whole(1, 4)) }), sized());
export const editBody = v.pipe(
  v.strictObject({
    ...image,
    images: v.pipe(list(v.strictObject({ image_data: base64, image_type: imageType }), 16, 1), maxBytes(8_000_000)),
  }),
  sized(),
);
type ImageFields = v.InferOutput<v.StrictObjectSchema<typeof image, undefined>>;
export type ImageBody = ImageFields & { n?: number | null; images?: Image[] };

export function toImageRequest(body: ImageBody): ImageRequest {
  const { prompt, images, n, size, width, height, output_format } = body;
  const { aspect_ratio, image_size, quality, style, background } = body;
  const given = {
    ...{ n, aspect_ratio, image_size, quality, style, background },
    size: width && height ? `${width}x${height}` : size,
    output_format: output_format?.replace(/^image\//, ""),
  };
  return { prompt, images, ...Object.fromEntries(Object.entries(given).filter(([, value]) => value != null)) };
}

const wholeOrNull = v.nullable(v.number());
const oneImage = v.strictObject({ image_data: v.string(), image_type: v.string() });
export const imageResult = v.strictObject({
  ...{ image_data: v.string(), image_type: v.string(), image_url: v.null() },
  /** All of them, where several were asked for: the first is the one above. */
  images: v.nullable(v.array(oneImage)),
  ...{ model: v.string(), revised_prompt: nullable, session_id: v.string() },
  ...{ size: nullable, width: wholeOrNull, height: wholeOrNull, aspect_ratio: nullable, image_size: nullable },
  usage,
  usage_attempt_count: wholeOrNull,
});

export function toImageResult(
  { session_id, size, width, height, aspect_ratio, image_size }: ImageFields & { session_id: string },
  { images, revised_prompt }: ImageAnswer,
  model: string,
  usage: v.InferOutput<typeof imageResult>["usage"],
): v.InferOutput<typeof imageResult> {
  return {
    ...images[0]!,
    ...{ image_url: null, images: images.length > 1 ? images : null },
    ...{ model, revised_prompt, session_id, size, width, height, aspect_ratio, image_size, usage },
    usage_attempt_count: null,
  };
}

export const similarityBody = v.strictObject({
  text_a: v.pipe(text(100_000), v.nonEmpty(), maxBytes(300_000)),
  text_b: v.pipe(text(100_000), v.nonEmpty(), maxBytes(300_000)),
});
export const similarity = v.strictObject({ model: v.string(), similarity_score: v.number() });

const question = { id: v.pipe(text(100), v.nonEmpty()), instructions: v.pipe(text(10_000), v.nonEmpty()) };
const described = maybe(text(2_000));
const MOST_CHOICES = 20;
const anyQuestion = v.variant("type", [
  v.strictObject({
    ...{ ...question, type: v.literal("boolean") },
    criteria: maybe(v.strictObject({ true_description: described, false_description: described })),
  }),
  v.strictObject({
    ...{ ...question, type: v.literal("choice") },
    /** Each choice with what it means. */
    criteria: v.pipe(
      map,
      v.maxEntries(MOST_CHOICES),
      v.check((map) => Object.keys(map).length > 1, "must have at least two choices"),
    ),
  }),
  v.strictObject({
    ...{ ...question, type: v.literal("score") },
    /** What each score means, from 1 on. */
    criteria: list(v.pipe(text(2_000), v.nonEmpty()), MOST_CHOICES, 2),
  }),
]);
export type Question = v.InferOutput<typeof anyQuestion>;

export const evaluationBody = v.pipe(
  v.strictObject({
    model,
    questions: list(anyQuestion, 20, 1),
    session_id,
    state: v.pipe(
      v.unknown(),
      v.check(
        (state) => typeof state === "string" || (typeof state === "object" && state !== null),
        "must be a text, an object or a list",
      ),
      maxValues(MOST_VALUES),
    ),
  }),
  rule(
    "questions",
    ({ questions }) => new Set(questions.map(({ id }) => id)).size === questions.length,
    "must have different ids",
  ),
);

const answer = { id: v.string() };
const odds = v.record(v.string(), v.number());
const anyAnswer = v.variant("type", [
  v.strictObject({ ...answer, type: v.literal("boolean"), probability: v.number() }),
  v.strictObject({
    ...answer,
    type: v.literal("choice"),
    choice: v.string(),
    confidence: v.number(),
    probabilities: odds,
  }),
  v.strictObject({
    ...{ ...answer, type: v.literal("score"), score: v.number(), confidence: v.number(), probabilities: odds },
    legend: v.record(v.string(), v.string()),
  }),
]);
export type EvaluationAnswer = v.InferOutput<typeof anyAnswer>;
export const evaluation = v.strictObject({
  model: v.string(),
  session_id: v.string(),
  answers: v.array(anyAnswer),
  usage: v.strictObject({ input_tokens: count, output_tokens: count }),
});
