/** The way to a provider: one origin for the key, a guard for the rest, and bounds on what comes back. */
import { judgeUrl } from "../http/guard.ts";
import { invalidAnswer, ModelError, unavailable } from "./errors.ts";
import type { Model } from "./resolve.ts";

export const LIMITS = {
  /** How often a request is sent at most, with its repetitions. */
  tries: 3,
  /** Between two tries at most: a provider that asks for more gets its error to the caller. */
  wait_ms: 30_000,
  /** Without a byte from the provider. Some are silent while they think. */
  idle_ms: 120_000,
  /** The same where an answer comes in one piece: an image takes its time. */
  body_idle_ms: 300_000,
  /** One try, whatever drips. */
  step_ms: 900_000,
  /** An answer as it comes over the wire: of a stream some 300 bytes a token. */
  stream_bytes: 32_000_000,
  body_bytes: 16_000_000,
  error_bytes: 64_000,
  /** One event of a stream. */
  event_bytes: 4_000_000,
  /** In one event or body, what JSON's `{ [ , :` can begin at most: values are far larger than their text. */
  json_values: 100_000,
  /** Texts, reasoning, arguments and signatures of an answer, in characters. */
  answer_chars: 2_000_000,
  arguments_chars: 256_000,
  tool_calls: 128,
  parts: 1_000,
};
export type Limits = typeof LIMITS;

type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** The two ways out. */
export type Ways = {
  /** For what the operator has set: it may lead to a private network. */
  fetch: Fetch;
  /** For an agent's own addresses and those that answers name. It must connect to nothing but public addresses. */
  guarded: Fetch;
  /** Whether `guarded` may reach this machine, by http. */
  loopback?: boolean;
};

/** One try of a request: ends it when the caller does, when the provider is silent for too long, and when it's over. */
export class Watch {
  readonly #abort = new AbortController();
  readonly #limits: Limits;
  readonly #caller: AbortSignal | undefined;
  readonly #deadline: ReturnType<typeof setTimeout>;
  #idle: ReturnType<typeof setTimeout> | undefined;
  readonly #ended: Promise<never>;

  constructor(caller: AbortSignal | undefined, limits: Limits) {
    this.#limits = limits;
    this.#caller = caller;
    this.#ended = new Promise((_, reject) => {
      this.signal.addEventListener("abort", () => reject(this.signal.reason), { once: true });
    });
    this.#ended.catch(() => {});
    const late = () => this.#abort.abort(unavailable(`The provider took more than ${limits.step_ms / 1000} seconds.`));
    this.#deadline = setTimeout(late, limits.step_ms);
    if (caller?.aborted) this.#gone();
    caller?.addEventListener("abort", this.#gone);
  }

  readonly #gone = () => this.#abort.abort(this.#caller?.reason);

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** Waits for what the provider owes, no longer than it may be silent. Only then: a slow caller is no silent provider. */
  async for<T>(owed: PromiseLike<T>): Promise<T> {
    this.#await();
    try {
      return await Promise.race([owed, this.#ended]);
    } finally {
      clearTimeout(this.#idle);
      this.#idle = undefined;
    }
  }

  /** Bytes came. */
  heard() {
    if (this.#idle !== undefined) this.#await();
  }

  #await() {
    clearTimeout(this.#idle);
    if (this.signal.aborted) return;
    const { idle_ms } = this.#limits;
    const silent = () => this.#abort.abort(unavailable(`The provider was silent for ${idle_ms / 1000} seconds.`));
    this.#idle = setTimeout(silent, idle_ms);
  }

  /** Closes the connection, if it's still open, and leaves no timer behind. */
  end() {
    this.#abort.abort(new Error("over"));
    clearTimeout(this.#idle);
    clearTimeout(this.#deadline);
    this.#caller?.removeEventListener("abort", this.#gone);
  }
}

/** Throws the signal's reason when it ends the wait. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted();
  // No timer is as short as nothing.
  if (ms <= 0) return;
  return new Promise((resolve, reject) => {
    const gone = () => {
      clearTimeout(timer);
      reject(signal!.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", gone);
      resolve();
    }, ms);
    signal?.addEventListener("abort", gone, { once: true });
  });
}

/** What a provider's package is given as its `fetch`. */
export function fetchFor(model: Model, ways: Ways, watch: Watch, limits: Limits): typeof globalThis.fetch {
  const { origin } = new URL(model.base_url);
  return async (input, init = {}) => {
    const url = input instanceof Request ? input.url : String(input);
    // An answer may name an image elsewhere. No other origin sees the credentials, and what it names is foreign.
    const own = new URL(url).origin === origin;
    const guarded = model.guarded || !own;
    const verdict = guarded ? judgeUrl(url, ways) : { url };
    if ("refused" in verdict) throw new ModelError("model_refused", `The address is refused: ${verdict.refused}.`);
    const send = guarded ? ways.guarded : ways.fetch;
    const response = await send(url, {
      ...init,
      ...(own ? {} : { headers: { accept: "image/*" } }),
      // A redirect would take the key along, past the guard: none is followed.
      redirect: "manual",
      signal: watch.signal,
      // What a platform says of it names inner addresses at times.
    }).catch(() => {
      throw unavailable("The provider can't be reached.");
    });
    watch.heard();
    return bounded(response, watch, limits);
  };
}

/** The same answer, that fails as soon as it's more than is taken. */
function bounded(response: Response, watch: Watch, limits: Limits): Response {
  const { status, statusText, body } = response;
  if (!body) return response;
  const headers = new Headers(response.headers);
  // What fetch gives is decoded.
  for (const name of ["content-encoding", "content-length"]) headers.delete(name);
  const isStream = /^text\/event-stream\b/i.test(headers.get("content-type") ?? "");
  const bytes = isStream ? limits.stream_bytes : response.ok ? limits.body_bytes : limits.error_bytes;
  const event_bytes = isStream ? limits.event_bytes : bytes;
  let total = 0;
  let event = 0;
  let values = 0;
  let lineIsEmpty = true;
  const count = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      watch.heard();
      total += chunk.byteLength;
      for (const byte of chunk) {
        event++;
        if (byte === LF) {
          // An empty line ends an event.
          if (isStream && lineIsEmpty) event = values = 0;
          lineIsEmpty = true;
        } else if (byte !== CR) {
          lineIsEmpty = false;
          if (byte === COMMA || byte === COLON || byte === BRACKET || byte === BRACE) values++;
        }
        if (event > event_bytes || values > limits.json_values) break;
      }
      const tooMuch = total > bytes || event > event_bytes || values > limits.json_values;
      if (tooMuch) throw invalidAnswer("The provider's answer is larger than is taken.");
      controller.enqueue(chunk);
    },
  });
  return new Response(body.pipeThrough(count), { status, statusText, headers });
}

const [LF, CR, COMMA, COLON, BRACKET, BRACE] = [10, 13, 44, 58, 91, 123];
