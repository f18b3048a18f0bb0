import { uniqueSymbol } from "hono-openapi";
import type { OpenAPIV3_1 } from "openapi-types";

/** Hangs a middleware's part of the OpenAPI document on it; hono-openapi merges the parts of a route. */
export const withSpec = <M extends object>(middleware: M, spec: Partial<OpenAPIV3_1.OperationObject>): M =>
  Object.assign(middleware, { [uniqueSymbol]: { spec } });

/** A response that is a problem (lib/http/problem.ts). */
export const problemResponse = (description: string): OpenAPIV3_1.ResponseObject => ({
  description,
  content: { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } },
});
