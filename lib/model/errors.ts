/** Why a model gave no answer, in words that may be shown: no key, no inner address, nothing without end. */
import {
  AISDKError,
  APICallError,
  InvalidResponseDataError,
  JSONParseError,
  TypeValidationError,
} from "@ai-sdk/provider";

const MAX_REASON = 500;

export type ModelErrorCode =
  /** The name leads to no model, or there are no credentials for it. The message says what to set. */
  | "model_not_configured"
  /** The provider won't do this, or can't: its own reason. */
  | "model_refused"
  | "model_rate_limited"
  /** It is out of reach, overloaded, silent, or its answer broke off. */
  | "model_unavailable"
  /** It answered what can't be read, or more than is taken. */
  | "model_answer_invalid"
  /** A replay asks for something else than the recording. */
  | "tape_diverged";

export class ModelError extends Error {
  readonly code: ModelErrorCode;
  /** The provider's HTTP status, where there is one. */
  readonly status: number | null;
  /** Whether the same request may do later. */
  readonly retryable: boolean;
  /** How long the provider asks to wait. */
  readonly retry_after_ms: number | null;
  /** Whether parts of the answer were given out before. */
  streamed = false;

  constructor(
    code: ModelErrorCode,
    text: string,
    { status = null as number | null, retryable = false, retry_after_ms = null as number | null } = {},
  ) {
    super(text);
    this.name = "ModelError";
    this.code = code;
    this.status = status;
    this.retryable = retryable;
    this.retry_after_ms = retry_after_ms;
  }
}

export const notConfigured = (text: string) => new ModelError("model_not_configured", text);
export const invalidAnswer = (text: string) => new ModelError("model_answer_invalid", text);
export const unavailable = (text: string) => new ModelError("model_unavailable", text, { retryable: true });

/** The error of a provider's status, with the reason that it gave. */
export function errorOfStatus(status: number, reason: string, retry_after_ms: number | null = null): ModelError {
  if (status === 429) return new ModelError("model_rate_limited", reason, { status, retryable: true, retry_after_ms });
  const retryable = status === 408 || status === 409 || status >= 500;
  const code = retryable ? "model_unavailable" : "model_refused";
  return new ModelError(code, reason, { status, retryable, retry_after_ms });
}

/** Any failure of a provider's package as one of ours. `secrets` are what was sent to the provider. */
export function toModelError(cause: unknown, secrets: string[], now = Date.now()): ModelError {
  // What our own fetch threw comes wrapped by the packages.
  for (let inner: unknown = cause, depth = 0; inner instanceof Error && depth < 10; inner = inner.cause, depth++) {
    if (inner instanceof ModelError) return inner;
  }
  const reason = (given: unknown, otherwise: string) => clean(reasonOf(given), secrets) || otherwise;
  if (
    InvalidResponseDataError.isInstance(cause) ||
    JSONParseError.isInstance(cause) ||
    TypeValidationError.isInstance(cause)
  ) {
    // A package that misses something says so with no data at hand.
    return (cause as { data?: unknown }).data === undefined && InvalidResponseDataError.isInstance(cause)
      ? unavailable("The provider's answer broke off.")
      : UNREADABLE();
  }
  if (APICallError.isInstance(cause)) {
    const { statusCode: status, responseHeaders = {} } = cause;
    // Without a status nothing came back. What the platform says of it names inner addresses at times.
    if (status === undefined) return unavailable("The provider can't be reached.");
    if (status < 300) return isPlain(cause.cause) ? unavailable("The provider's answer broke off.") : UNREADABLE();
    return errorOfStatus(status, reason(cause, `The provider answered ${status}.`), retryAfter(responseHeaders, now));
  }
  // A package's own: it knows that its provider can't do this.
  if (cause instanceof Error) return new ModelError("model_refused", reason(cause, "The provider can't do this."));
  // What a stream brings as its error isn't an Error: the provider's own object, with a status where it has one.
  const status = Number((cause as { statusCode?: unknown } | null)?.statusCode);
  return errorOfStatus(status >= 400 && status < 600 ? status : 500, reason(cause, "The provider failed."));
}

const UNREADABLE = () => invalidAnswer("The provider's answer can't be read.");
const isPlain = (cause: unknown) => cause instanceof Error && !AISDKError.isInstance(cause);

/** The words of an error that a provider sent. */
function reasonOf(error: unknown, depth = 0): string {
  if (typeof error === "string") return error;
  if (typeof error !== "object" || error === null || depth > 2) return "";
  const { message, error: inner } = error as { message?: unknown; error?: unknown };
  return typeof message === "string" ? message : reasonOf(inner, depth + 1);
}

/** A foreign text without secrets, in one line, cut. Cut last: half a key is a secret, too. */
export function clean(text: string, secrets: string[]): string {
  let safe = text.slice(0, 100_000);
  for (const secret of secrets.flatMap((secret) => [secret, encodeURIComponent(secret)])) {
    if (secret) safe = safe.replaceAll(secret, "****");
  }
  safe = safe
    .replace(/\b(bearer|basic)\s+[^\s"',;]+/gi, "$1 ****")
    .replace(/\b(sk|pk|AIza|gsk|xai|r8|hf)([-_]?)[\w*.-]{16,}/g, "$1$2****")
    .replace(/([?&](?:api[-_]?key|key|access[-_]?token|token|signature|sig)=)[^&\s"']+/gi, "$1****")
    .replace(/[\p{Cc}\p{Cf}\s]+/gu, " ")
    .trim();
  return safe.length > MAX_REASON ? `${safe.slice(0, MAX_REASON - 1)}…` : safe;
}

/** `Retry-After` as milliseconds or as RFC 9110 has it: seconds or a date. */
function retryAfter(headers: Record<string, string>, now: number): number | null {
  const ms = Number(headers["retry-after-ms"] || Number.NaN);
  const after = headers["retry-after"] || "";
  const wait = Number.isFinite(ms) ? ms : /^\d+(\.\d+)?$/.test(after) ? Number(after) * 1000 : Date.parse(after) - now;
  return Number.isFinite(wait) && wait >= 0 ? wait : null;
}
