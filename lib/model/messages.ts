/** What goes to a model and what comes of it, in the shapes of the wire (AIMessage and its parts). No provider's types. */

export type ContentPart =
  | { type: "text"; text: string }
  /** An address of the public internet, which the provider fetches, or a `data:` address. */
  | { type: "image_url"; image_url: string }
  /** Base64, and its media type: `image/png`. */
  | { type: "image_data"; image_data: string; image_type: string };

export type ToolCall = {
  id: string;
  name: string;
  arguments: Record<string, unknown>;
  /** The provider's, sent back as it came. */
  thought_signature: string | null;
};

/** What a call gave: a text, or any JSON in `resolution`. `id` and `name` are the call's. */
export type ToolResult = { id: string; name: string; content: string | null; resolution: unknown };

export type Message = {
  role: "system" | "user" | "assistant" | "tool";
  content: string | null;
  content_parts: ContentPart[] | null;
  tool_calls: ToolCall[] | null;
  tool_results: ToolResult[] | null;
  /** What the provider wants to see again beside the message: its reasoning and signatures. Opaque to all but prompt.ts. */
  resume_token: string | null;
  structured_output: unknown;
};

export type Tool = {
  name: string;
  description?: string;
  /** The JSON Schema of its arguments, an object. */
  parameters: Record<string, unknown>;
};

/** One call of a model. `messages` is the whole history, in order. */
export type StepRequest = {
  messages: Message[];
  tools?: Tool[];
  /** `auto` (without it, too), `none`, `required`, or the name of a tool. */
  tool_choice?: string;
  max_tokens?: number;
  temperature?: number;
  /** A JSON Schema: the text of the answer is asked to be JSON of it. Not checked here. */
  structured_output?: Record<string, unknown>;
};

/** As the provider counts; null where it tells nothing. `cached_tokens` are of the input, `reasoning_tokens` of the output. */
export type Usage = {
  input_tokens: number | null;
  output_tokens: number | null;
  cached_tokens: number | null;
  reasoning_tokens: number | null;
};

/** An open set on the wire. `other` is whatever a provider calls by no name that is known. */
export type FinishReason = "stop" | "length" | "tool_calls" | "content_filter" | "other";

/** `part` numbers the parts of the answer in the order in which they begin. A delta may be empty: the call has begun. */
export type StepEvent =
  | { type: "text" | "reasoning"; part: number; delta: string }
  | { type: "arguments"; part: number; id: string; name: string; delta: string }
  | Completed;

export type Completed = {
  type: "completed";
  message: Message;
  usage: Usage;
  finish_reason: FinishReason;
  /** By call: why its arguments, empty in the message, can't be read. The model is told, as of a call that failed. */
  unreadable_arguments: Record<string, string>;
};

/** A message with what isn't given as null. */
export const message = (fields: Pick<Message, "role"> & Partial<Message>): Message => ({
  content: null,
  content_parts: null,
  tool_calls: null,
  tool_results: null,
  resume_token: null,
  structured_output: null,
  ...fields,
});

/** What of a message is text. */
export function textOf({ content, content_parts, tool_results }: Message): string {
  if (tool_results) return tool_results.map(resultText).join("\n");
  return content ?? (content_parts ?? []).map((part) => (part.type === "text" ? part.text : "")).join("");
}

export const resultText = ({ content, resolution }: ToolResult) => content ?? JSON.stringify(resolution ?? null);
