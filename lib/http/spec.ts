import type { MiddlewareHandler } from "hono";
import type { OpenAPIV3_1 } from "openapi-types";

/**
 * Where a middleware carries its part of the OpenAPI document. Not hono-openapi's own symbol: importing that would
 * bring the whole generator into every Worker, and the document is made before there is one (lib/local/document.ts).
 */
export const part: unique symbol = Symbol("openapi part");

/** Hangs a middleware's part of the OpenAPI document on it. */
export const withSpec = <M extends object>(middleware: M, spec: Partial<OpenAPIV3_1.OperationObject>): M =>
  Object.assign(middleware, { [part]: { spec } });

/** Names an operation, where the verb and the noun of its address don't. It stands first on the route's line. */
export const named = (summary: string) => {
  const middleware: MiddlewareHandler<object> = (_, next) => next();
  return withSpec(middleware, { summary });
};

/** A response that is a problem (lib/http/problem.ts). */
export const problemResponse = (description: string): OpenAPIV3_1.ResponseObject => ({
  description,
  content: { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } },
});
