/** OAuth's own form of a request and of a refusal (RFC 6749 §3.2, §5.2), which the SDK reads as well. */
import type { ErrorHandler, MiddlewareHandler } from "hono";
import * as v from "valibot";
import { ApiError } from "../errors.ts";
import { readBody } from "../http/body.ts";
import type { Env } from "../http/router.ts";
import { part, problemResponse, withSpec } from "../http/spec.ts";
import { isMap, mustBeStorable } from "../http/valid.ts";

/** 400 with one of OAuth's words. */
export const refusal = (error: string, description: string, status: 400 | 403 = 400) =>
  new ApiError(status, error, description);
export const invalidRequest = (description: string) => refusal("invalid_request", description);
/** One answer to every flaw of a code, a device code or a refresh token. */
export const invalidGrant = () =>
  refusal("invalid_grant", "What was sent is wrong, expired, used or revoked, or of another client.");

const flat = v.strictObject({ error: v.string(), error_description: v.string(), message: v.string() });

/** Says that the route refuses by these statuses in OAuth's form. */
export const refuses = (...statuses: (400 | 401 | 403 | 429)[]) => {
  const middleware: MiddlewareHandler<object> = (_, next) => next();
  // The outer app's own refusals are problems here, too.
  const response = (description: string) => ({
    description,
    content: { ...problemResponse("").content, "application/json": { schema: flat as never } },
  });
  const more = { 413: "The body is too large", 503: "The database is out of reach for a moment" };
  const all = { ...Object.fromEntries(statuses.map((status) => [status, "OAuth's `error` says why"])), ...more };
  return withSpec(middleware, {
    responses: Object.fromEntries(Object.entries(all).map(([status, reason]) => [status, response(reason)])),
  });
};

/** A refusal in that form. Faults of an input are one `invalid_request`. */
export const asOAuth: ErrorHandler<Env> = (error, c) => {
  if (!(error instanceof ApiError)) throw error;
  const { status, fields, headers } = error;
  const faulty = status === 422 || error.code === "malformed_json";
  const faults = fields.map(({ field, message }) => `${field} ${message}`).join("; ");
  const body: v.InferOutput<typeof flat> = {
    error: faulty ? "invalid_request" : error.code,
    error_description: faults || error.message,
    message: faults || error.message,
  };
  return c.json(body, faulty ? 400 : status, headers);
};

/**
 * Reads a body of a form's or of JSON's type, and checks it; what it doesn't know it passes over (RFC 6749 §3.2). A
 * parameter that is sent twice is refused: of two readers each could take another.
 */
export function takes<S extends v.GenericSchema>(
  schema: S,
): MiddlewareHandler<object, string, { in: { json: v.InferInput<S> }; out: { json: v.InferOutput<S> } }> {
  const middleware: MiddlewareHandler = async (c, next) => {
    const text = new TextDecoder().decode(await readBody(c));
    const isForm = /^application\/x-www-form-urlencoded\s*(;|$)/i.test(c.req.header("Content-Type") ?? "");
    const input = isForm ? readParameters(new URLSearchParams(text)) : readJson(text);
    c.req.addValidatedData("json", read(schema, input) as object);
    await next();
  };
  return Object.assign(middleware, { [part]: { target: "json", schema } }) as never;
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text || "{}");
  } catch {
    throw invalidRequest("The body is neither a form nor JSON.");
  }
}

/** Parameters by their names. An empty one is none (RFC 6749 §3.1). */
export function readParameters(parameters: URLSearchParams): Record<string, string> {
  const names = [...parameters.keys()];
  if (new Set(names).size < names.length) throw invalidRequest("A parameter is sent more than once.");
  return Object.fromEntries([...parameters].filter(([, value]) => value !== ""));
}

/** What a schema makes of parameters; `invalid_request` names those that are wrong, never what was sent. */
export function read<S extends v.GenericSchema>(schema: S, input: unknown): v.InferOutput<S> {
  if (!isMap(input)) throw invalidRequest("The body must be an object.");
  mustBeStorable(input);
  const { success, output, issues } = v.safeParse(schema, input, { abortPipeEarly: true });
  if (success) return output;
  const names = new Set(issues.map(({ path }) => String(path?.[0]?.key ?? "").slice(0, 100)));
  throw invalidRequest(`Missing or not of the right form: ${[...names].join(", ")}.`);
}
