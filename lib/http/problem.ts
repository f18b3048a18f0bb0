/** Errors on the wire: RFC 9457, with the member `error` that the SDK reads (CONTRACT.md §2.7). */

import * as v from "valibot";
import type { ApiError } from "../errors.ts";
import { STATUS_CODES } from "./status.ts";

export const problem = v.strictObject({
  type: v.string(),
  title: v.string(),
  status: v.number(),
  detail: v.string(),
  instance: v.string(),
  request_id: v.string(),
  error: v.strictObject({
    code: v.string(),
    type: v.string(),
    message: v.string(),
    fields: v.array(v.strictObject({ field: v.string(), message: v.string() })),
  }),
  /** Of a workflow that failed: what its nodes did until then. */
  records: v.optional(v.array(v.unknown())),
});

const types: Record<number, string> = {
  400: "bad_request",
  401: "unauthenticated",
  403: "forbidden",
  404: "not_found",
  409: "conflict",
  422: "validation_failed",
  503: "unavailable",
};

/** The answer to a refusal. `instance` names the request, not the address, so that foreign and absent stay equal. */
export function toProblem({ status, code, message, fields, headers, members }: ApiError, requestId: string): Response {
  const body: v.InferOutput<typeof problem> = {
    type: `urn:agentry:error:${code}`,
    title: STATUS_CODES[status] ?? "Error",
    status,
    detail: message,
    instance: `urn:agentry:request:${requestId}`,
    request_id: requestId,
    error: { code, type: types[status] ?? code, message, fields },
    ...members,
  };
  return new Response(JSON.stringify(body), {
    status,
    headers: { ...headers, "Content-Type": "application/problem+json" },
  });
}
