/** Chats: the context put into a conversation, one answer of a model, and the events of one that is streamed. */
import { validateAgainst } from "../configs/json-schema.ts";
import { ApiError, invalid, unprocessable } from "../errors.ts";
import type { Told } from "../http/events.ts";
import { mustBeStorable } from "../http/valid.ts";
import { type Completed, type Message, message, type StepRequest, step } from "../model/index.ts";
import { edgeWorld, type Json, runScript } from "../script/index.ts";
import { asRefusal, type ModelCall } from "./calls.ts";
import type { chatEvents } from "./schema.ts";

/**
 * The conversation with its template variables resolved: of the texts of system and user messages, as the script
 * language's `string.template` does. What a model or a tool said is no template. 422 where it would come to too much.
 */
export async function resolveContext(messages: Message[], context: Record<string, unknown> | null): Promise<Message[]> {
  if (!context) return messages;
  const isTemplate = ({ role }: Message) => role === "system" || role === "user";
  const texts = messages.filter(isTemplate).flatMap(textsOf);
  const { status, result } = await runScript("array.map($.texts, fn(text) { string.template(text, $.context) })", {
    input: { texts, context: context as Json },
    world: edgeWorld({ fetch: () => Promise.reject(new Error("a template asks nobody")) }),
  });
  if (status !== "done") throw invalid({ field: "context", message: "comes to too much text in the messages" });
  const resolved = (result as string[]).values();
  return messages.map((one) => (isTemplate(one) ? withTexts(one, () => resolved.next().value ?? "") : one));
}

const textsOf = ({ content, content_parts }: Message): string[] => [
  ...(content === null ? [] : [content]),
  ...(content_parts ?? []).flatMap((part) => (part.type === "text" ? [part.text] : [])),
];
const withTexts = (one: Message, next: () => string): Message => ({
  ...one,
  content: one.content === null ? null : next(),
  content_parts: one.content_parts?.map((part) => (part.type === "text" ? { ...part, text: next() } : part)) ?? null,
});

/** The model's whole answer. */
export async function complete(call: ModelCall, request: StepRequest): Promise<Completed> {
  for await (const event of step(call.model, request, call.options)) {
    if (event.type !== "completed") continue;
    call.uses(event.usage);
    return event;
  }
  throw new Error("a step ends with its message");
}

/**
 * The model's answer with its `structured_output`, which is JSON of the schema. One that isn't is sent back once, with
 * what is wrong with it; 422 `structured_output_invalid` where the next isn't either. One that calls tools first is let be.
 */
export async function completeAs(
  call: ModelCall,
  request: StepRequest,
  schema: Record<string, unknown>,
): Promise<Completed> {
  let { messages } = request;
  for (let attempt = 1; ; attempt++) {
    const completed = await complete(call, { ...request, messages, structured_output: schema });
    if (completed.message.tool_calls) return completed;
    const { value, fault } = readOutput(completed.message.content ?? "", schema);
    if (!fault) return { ...completed, message: { ...completed.message, structured_output: value } };
    if (attempt === 2) {
      throw unprocessable("structured_output_invalid", `The model's answer is not as the schema says: ${fault}.`);
    }
    const content = `That is not as the schema says: ${fault}. Answer again, with JSON of the schema and nothing else.`;
    messages = [...messages, completed.message, message({ role: "user", content })];
  }
}

/** Some put a fence around it. */
const FENCED = /^```(?:json)?\n(.*)\n```$/s;

function readOutput(text: string, schema: object): { value: unknown; fault?: string } {
  let value: unknown;
  try {
    value = JSON.parse(text.trim().replace(FENCED, "$1"));
    mustBeStorable({ value });
  } catch (error) {
    return {
      value: null,
      fault: error instanceof ApiError ? "it is nested too deep, or has too much in it" : "it is not JSON",
    };
  }
  const [first] = validateAgainst(schema, value);
  return first ? { value: null, fault: `${first.pointer || "it"} ${first.message}` } : { value };
}

/** What becomes of calls whose arguments can't be read: they have a result already, and are not to be made. */
export function resultsOf({ message: { tool_calls }, unreadable_arguments }: Completed): Message["tool_results"] {
  const results = (tool_calls ?? []).flatMap(({ id, name }) =>
    Object.hasOwn(unreadable_arguments, id) ? [{ id, name, content: unreadable_arguments[id]!, resolution: null }] : [],
  );
  return results.length > 0 ? results : null;
}

export const withResults = (completed: Completed): Message[] => {
  const tool_results = resultsOf(completed);
  return [completed.message, ...(tool_results ? [message({ role: "tool", tool_results })] : [])];
};

export type ChatEvent = Told<typeof chatEvents>;
/** Told how a call ended, by what, or null where all is well; comes back when what it took is written down. */
type Settle = (error: unknown) => Promise<void>;

/**
 * The events of a model's answer; the last is `done`, or `error`, once it is settled. `settle` is told how it ended, also
 * where nobody asks for more.
 */
export async function* streamed(
  call: ModelCall,
  request: StepRequest,
  settle: Settle,
): AsyncGenerator<ChatEvent, void> {
  try {
    for await (const event of step(call.model, request, call.options)) {
      if (event.type === "text") yield ["message_delta", { delta: event.delta }];
      if (event.type === "reasoning") yield ["thinking_delta", { delta: event.delta }];
      if (event.type === "arguments") {
        const { id, name, delta } = event;
        yield ["tool_call_delta", { id, name, delta }];
      }
      if (event.type === "completed") {
        call.uses(event.usage);
        const { finish_reason, message } = event;
        const usage = call.usageByModel;
        yield ["message_complete", { message, finish_reason, usage }];
        for (const { id, name, content } of resultsOf(event) ?? []) {
          yield ["tool_result", { id, name, content, resolution: null }];
        }
        await settle(null);
        yield ["done", { finish_reason, run_count: 1, usage, total_usage: usage }];
      }
    }
  } catch (error) {
    await settle(error);
    const refusal = asRefusal(error);
    const isOurs = refusal instanceof ApiError;
    if (!isOurs && !call.isGone) console.error(JSON.stringify({ error: String(error), stack: (error as Error).stack }));
    yield isOurs
      ? ["error", { message: refusal.message, code: refusal.code }]
      : ["error", { message: "Something went wrong here.", code: "internal_error" }];
  } finally {
    // Nobody asked for more.
    await settle(new Error("the client is gone"));
  }
}
