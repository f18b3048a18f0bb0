/**
 * Every refusal there is. Throw what a maker gives, never a status; anything else that flies is a bug and
 * answers an empty 500.
 */
import { type Kind, kinds } from "./kinds.ts";

export type FieldError = { field: string; message: string };

/** A refusal on its way to the client. `code` is stable and for programs, `message` for people. */
export class ApiError extends Error {
  readonly status: 400 | 401 | 403 | 404 | 405 | 409 | 410 | 412 | 413 | 415 | 422 | 429 | 503;
  readonly code: string;
  readonly fields: FieldError[];
  readonly headers: Record<string, string>;
  /** Members of the problem beside those that all have (RFC 9457 §3.2). */
  readonly members: { records?: unknown[] };

  constructor(
    status: ApiError["status"],
    code: string,
    message: string,
    fields: FieldError[] = [],
    headers: Record<string, string> = {},
    members: ApiError["members"] = {},
  ) {
    super(message);
    this.status = status;
    this.code = code;
    this.fields = fields;
    this.headers = headers;
    this.members = members;
  }
}

/** 400: the request can't be read at all. */
export const badRequest = (code: string, message: string) => new ApiError(400, code, message);

/**
 * 401 (RFC 6750 §3): one answer to every flaw of a credential, so that a forger learns nothing. Where none was
 * sent, the challenge names no error.
 */
export const unauthenticated = (sent = true) =>
  new ApiError(
    401,
    "unauthenticated",
    "A valid credential is needed: an access token or a secret key, as `Authorization: Bearer …`, or a key as `x-archastro-api-key`. What was sent is missing, wrong, expired or revoked.",
    [],
    { "WWW-Authenticate": sent ? 'Bearer realm="agentry", error="invalid_token"' : 'Bearer realm="agentry"' },
  );

/** 401 of a webhook: one answer to every flaw of a signature, as to those of a credential. */
export const invalidSignature = () =>
  new ApiError(
    401,
    "invalid_signature",
    "This needs a signature that holds: by a secret of this webhook, over the body as it is, not older than five minutes.",
    [],
    { "WWW-Authenticate": 'Signature realm="agentry"' },
  );

/** 403: the caller is known and may know of the thing, but not do this to it. */
export const forbidden = (code: string, message: string) => new ApiError(403, code, message);

/** 403 (RFC 6750 §3.1): the token lacks the scope, which the challenge names. */
export const insufficientScope = (permission: string) =>
  new ApiError(
    403,
    "insufficient_scope",
    `This needs the permission ${permission}, which the credential does not have.`,
    [],
    {
      "WWW-Authenticate": `Bearer realm="agentry", error="insufficient_scope", scope="${permission}"`,
    },
  );

/** 404: absent, hidden, another tenant's or malformed: one answer, to the byte. */
export const notFound = (kind: Kind | "address") =>
  new ApiError(
    404,
    "not_found",
    kind === "address" ? "There is nothing at this address." : `No such ${kinds[kind].name}.`,
  );

/** 409 on a field whose value is taken. */
export const conflict = (field: string) =>
  new ApiError(409, "conflict", `This ${field} is already taken.`, [{ field, message: "is already taken" }]);

/** 409 that is not about one field's value. */
export const refused = (code: string, message: string) => new ApiError(409, code, message);

/** 429: it may be asked again in so many seconds (RFC 6585 §4). */
export const tooMany = (wait: number, message: string, code = "too_many_requests") =>
  new ApiError(429, code, message, [], { "Retry-After": String(wait) });

/** 410: what follows is kept no longer, so that to go on would be to leave something out. */
export const eventsExpired = () =>
  new ApiError(
    410,
    "events_expired",
    "Events that follow `after` are kept no longer. Without `after`, the list begins with the oldest that is kept.",
  );

/** 412 (RFC 9110 §13.1.1): the thing has changed since the client looked. */
export const preconditionFailed = () =>
  new ApiError(412, "precondition_failed", "This has changed since the ETag in If-Match was given. Read it again.");

/** 422: the faults of an input, each naming its field; never the value that was sent. */
export const invalid = (faults: FieldError | FieldError[]) =>
  new ApiError(422, "validation_failed", "The request has faults; each is listed with its field.", [faults].flat());

/** 422: what a field names isn't there, or not for the caller: the two are one answer. */
export const noSuch = (field: string) => invalid({ field, message: `there is no such ${field}` });

/** 422 that is not about a field: the state of things forbids it. */
export const unprocessable = (code: string, message: string) => new ApiError(422, code, message);

/** 422: the agent, or the org, has as many of these as it can have. */
export const limitReached = (name: string, most: string, whose = "agent") =>
  unprocessable("limit_reached", `An ${whose} has at most ${most} of these: ${name}. Delete one first.`);

/** 503: the database is out of reach for the moment. The cause is for the log. */
export function unavailable(cause: unknown) {
  console.error(JSON.stringify({ unavailable: String(cause) }));
  return new ApiError(
    503,
    "unavailable",
    "The service is out of reach for a moment. Try again; a request that makes something, with the same Idempotency-Key.",
    [],
    { "Retry-After": "1" },
  );
}
