export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/**
 * All that a script can reach outside of itself. Whoever runs scripts provides it; the language has no other door.
 */
export interface World {
  /**
   * Does the outbound call number `n` (from 0) of this run. `"pause"` stops the run, which can be resumed later
   * with the answer in its journal. What it throws is a bug of ours and flies on; a failed call is `{error}`. A world
   * that writes its answers down says `at` when, ISO 8601, so that the script's clock is the same when it is resumed.
   */
  call(n: number, call: OutboundCall & { hash: string }): Promise<(Answer & { at?: string }) | "pause">;
  /** Gives others their turn: comes back when what else waits in the isolate, such as other requests, has run. */
  rest(): Promise<void>;
  /** Milliseconds since 1970. Read at the start and after each call; between calls a script's clock stands still. */
  now(): number;
  /** From 0 to below 1, read once a run: it seeds the generator behind `math.random`. */
  random(): number;
}

/**
 * `requests.request` with an `HttpRequest`, or a function of agents, threads, users, storage, email or slack by its
 * full name (`threads.send_message`) with the arguments as the script gave them.
 */
export interface OutboundCall {
  name: string;
  args: Json;
}

export interface HttpRequest {
  method: string;
  url: string;
  headers: Record<string, string>;
  body: string | null;
  timeout_ms: number;
}

/** What `requests` answers for every status, also 404 and 500; `body` is parsed when it is JSON. */
export interface HttpResponse {
  status: number;
  headers: Record<string, string>;
  body: Json;
}

export type Answer = { ok: Json } | { error: string };

/** Everything a run learned from outside. With the same source, input and journal, the result is the same. */
export interface Journal {
  /** ISO 8601. */
  started_at: string;
  seed: number;
  /** `calls[n]` is the answer to call `n`. Where there is none, the call is made. */
  calls: readonly JournalCall[];
}

export interface JournalCall {
  name: string;
  /** Of the arguments; a journal that belongs to another script or input is refused by it. */
  hash: string;
  answer: Answer;
  /** When the answer came, ISO 8601: the script's clock from here on. */
  at: string;
}

/** The call a paused run waits for. Push `{name, hash, answer, at}` to the journal's calls to go on. */
export interface PendingCall extends OutboundCall {
  n: number;
  hash: string;
}

export interface Limits {
  time_ms: number;
  /**
   * Evaluated operations and calls; bulk work of our own functions counts in proportion. A Worker's clock stands still
   * while code computes, so time is counted in these: some 20,000 a millisecond, by what they are.
   */
  steps: number;
  /** After so many, others have their turn as soon as the run calls a function or is between two expressions. */
  steps_at_once: number;
  /** What may come on top of them where a run cannot wait: in one comparison, or one of our own functions. */
  steps_unbroken: number;
  /**
   * Of what is built in total, by estimate: values, input and answers; what was dropped again still counts. With what a
   * run needs whatever it does, such as the engine's space for young values, it stays below 64 MB.
   */
  memory_bytes: number;
  call_depth: number;
  source_bytes: number;
  /** Words, values and signs. */
  source_tokens: number;
  output_bytes: number;
  result_bytes: number;
  calls: number;
  call_ms: number;
  call_bytes: number;
  /** Scripts one run may import, in total. */
  imports: number;
}

export const LIMITS: Limits = {
  time_ms: 30_000,
  steps: 100_000_000,
  steps_at_once: 80_000,
  steps_unbroken: 2_000_000,
  memory_bytes: 40 * 1024 * 1024,
  call_depth: 200,
  source_bytes: 256 * 1024,
  source_tokens: 50_000,
  output_bytes: 1_000_000,
  result_bytes: 8_000_000,
  calls: 50,
  call_ms: 10_000,
  call_bytes: 1_000_000,
  imports: 20,
};

/** The answer for what is not set up here. */
export const notAvailable = (call: OutboundCall): Answer => ({ error: `${call.name} is not available here` });

/** An answer that is no larger than scripts take. JSON of a body may be longer than the body: this bounds what has none. */
export function withinLimit<A extends Answer>(
  name: string,
  answer: A,
  { call_bytes }: Pick<Limits, "call_bytes"> = LIMITS,
) {
  const tooLarge = "ok" in answer && JSON.stringify(answer.ok).length > call_bytes * 2;
  return tooLarge ? { error: `${name} answered more than ${call_bytes / 1_000_000} MB` } : answer;
}
