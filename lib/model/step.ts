/** One call of a model, whoever provides it. */
import type { LanguageModelV4CallOptions, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { answer } from "./answer.ts";
import { fetchFor, LIMITS, type Limits, pause, Watch, type Ways } from "./egress.ts";
import { type ModelError, toModelError } from "./errors.ts";
import type { StepEvent, StepRequest } from "./messages.ts";
import { toPrompt } from "./prompt.ts";
import { CHAT_OPTIONS, providerOf } from "./providers.ts";
import { type Model, secretsOf } from "./resolve.ts";
import { replay, scripted, type TapeStep } from "./scripted.ts";

export type StepOptions = {
  ways: Ways;
  /** Ends the provider's request at once; the iteration throws its reason. */
  signal?: AbortSignal;
  limits?: Partial<Limits>;
  /** For `scripted/tape`: what was recorded of this step. */
  tape?: TapeStep;
};

/**
 * Asks a model, and gives its answer as it comes: deltas, then one `completed`. Throws a ModelError, or the signal's
 * reason. A request is sent again, at most `tries` times, while nothing of an answer was given out; what fails later
 * is `streamed`, and `retryable` says whether to begin again. Whoever stops iterating ends the request.
 */
export async function* step(model: Model, request: StepRequest, options: StepOptions): AsyncGenerator<StepEvent, void> {
  if (model.name === "scripted/tape") return yield* replay(options.tape, request);
  const limits = { ...LIMITS, ...options.limits };
  for (let attempt = 1; ; attempt++) {
    let streamed = false;
    const watch = new Watch(options.signal, limits);
    try {
      const stream =
        model.provider === "scripted"
          ? scripted(model, request, watch.signal, attempt)
          : ask(model, request, options.ways, watch, limits);
      for await (const event of answer(stream, request, model, limits)) {
        streamed = true;
        yield event;
      }
      return;
    } catch (cause) {
      const error = failureOf(cause, model, watch, options.signal);
      error.streamed = streamed;
      await beforeNext(error, attempt, limits, options.signal);
    } finally {
      watch.end();
    }
  }
}

async function* ask(
  model: Model,
  request: StepRequest,
  ways: Ways,
  watch: Watch,
  limits: Limits,
): AsyncGenerator<LanguageModelV4StreamPart> {
  const provider = await providerOf(model, fetchFor(model, ways, watch, limits));
  const call = { ...toCallOptions(request, model), abortSignal: watch.signal };
  const { stream } = await watch.for(provider.languageModel(model.id).doStream(call));
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await watch.for(reader.read());
    if (done) return;
    yield value;
  }
}

function toCallOptions(request: StepRequest, model: Model): LanguageModelV4CallOptions {
  const { messages, tools = [], tool_choice = "auto", max_tokens, temperature, structured_output } = request;
  return {
    prompt: toPrompt(messages, model),
    providerOptions: CHAT_OPTIONS[model.provider],
    ...(max_tokens !== undefined && { maxOutputTokens: max_tokens }),
    ...(temperature !== undefined && { temperature }),
    ...(structured_output && { responseFormat: { type: "json", schema: structured_output } }),
    ...(tools.length > 0 && {
      tools: tools.map(({ name, description, parameters }) => ({
        ...{ type: "function", name, inputSchema: parameters },
        ...(description && { description }),
      })),
      toolChoice: /^(auto|none|required)$/.test(tool_choice)
        ? { type: tool_choice as "auto" | "none" | "required" }
        : { type: "tool", toolName: tool_choice },
    }),
  };
}

/** Sends one request that is answered in one piece, by the rules of `step`. */
export async function retrying<T>(
  model: Model,
  { ways, signal, limits: given }: StepOptions,
  send: (fetch: typeof globalThis.fetch, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const limits = { ...LIMITS, idle_ms: LIMITS.body_idle_ms, ...given };
  for (let attempt = 1; ; attempt++) {
    const watch = new Watch(signal, limits);
    try {
      return await watch.for(send(fetchFor(model, ways, watch, limits), watch.signal));
    } catch (cause) {
      await beforeNext(failureOf(cause, model, watch, signal), attempt, limits, signal);
    } finally {
      watch.end();
    }
  }
}

function failureOf(cause: unknown, model: Model, watch: Watch, signal?: AbortSignal): ModelError {
  signal?.throwIfAborted();
  // What ended the request says more than how the package took it.
  return toModelError(watch.signal.aborted ? watch.signal.reason : cause, secretsOf(model));
}

/** Comes back when a request may be sent again; throws its error when it may not. */
async function beforeNext(error: ModelError, attempt: number, limits: Limits, signal?: AbortSignal): Promise<void> {
  // Doubled from try to try, and spread, so that those who failed together don't come back together.
  const wait = error.retry_after_ms ?? 500 * 2 ** (attempt - 1) * (0.5 + Math.random());
  if (!error.retryable || error.streamed || attempt >= limits.tries || wait > limits.wait_ms) throw error;
  await pause(wait, signal);
}
