/** The OpenAPI 3.1 document, from the routes themselves: `allow`, `valid` and `gives` each carry their part. */

import { toJsonSchema } from "@valibot/to-json-schema";
import type { Hono } from "hono";
import { findTargetHandler } from "hono/utils/handler";
import { generateSpecs, uniqueSymbol } from "hono-openapi";
import type { OpenAPIV3_1 } from "openapi-types";
import type * as v from "valibot";
import { kinds } from "../kinds.ts";
import { MAX_BODY_BYTES, MAX_CREDENTIAL_BYTES } from "./body.ts";
import { KEY } from "./once.ts";
import { problem } from "./problem.ts";
import type { Env } from "./router.ts";
import { part, problemResponse } from "./spec.ts";
import { map } from "./valid.ts";

const VERSION = "0.1.0";
const verbs: Record<string, string> = { get: "Get", post: "Create", put: "Set", patch: "Update", delete: "Delete" };

const securitySchemes: OpenAPIV3_1.ComponentsObject["securitySchemes"] = {
  access_token: { type: "http", scheme: "bearer", bearerFormat: "JWT", description: "An org user's access token" },
  secret_key: { type: "http", scheme: "bearer", description: "A secret key of the app or of one of its sandboxes" },
  scim_token: { type: "http", scheme: "bearer", description: "A SCIM token of an org" },
  api_key: {
    type: "apiKey",
    in: "header",
    name: "x-archastro-api-key",
    description: "A secret key; or, beside a token, any key",
  },
  publishable_key: {
    ...{ type: "apiKey", in: "header", name: "x-archastro-api-key" },
    description: "A publishable key: it says of which app",
  },
  session: { type: "apiKey", in: "cookie", name: "__Host-agentry", description: "A browser's sign-in, same-origin" },
  developer_session: {
    ...{ type: "apiKey", in: "cookie", name: "__Host-agentry-dev" },
    description: "A developer's sign-in, same-origin",
  },
};

/**
 * The document of an app with every router in it. What holds for all routes is added here: the 404 of a path
 * parameter, the faults of an input, an operation's id and, unless the route has `named` it, its summary. Not its
 * `servers`: they are the deployment's.
 */
export async function describe(app: Hono<Env>): Promise<OpenAPIV3_1.Document> {
  readSchemas(app);
  const document = (await generateSpecs(
    app as never,
    {
      excludeStaticFile: false,
      defaultValidationErrorResponse: false,
      documentation: {
        info: {
          title: "agentry",
          version: VERSION,
          description:
            "A multi-tenant backend for AI agents. An app's customers are orgs; nothing crosses between them.",
          license: { name: "MIT", identifier: "MIT" },
        },
        components: { securitySchemes },
      },
    } as never,
  )) as OpenAPIV3_1.Document;
  document.components = {
    ...document.components,
    schemas: { ...document.components?.schemas, Problem: toSchema(problem) },
  };
  const tags = new Set<string>();
  for (const [path, item] of Object.entries(document.paths ?? {})) {
    for (const [method, operation] of Object.entries(item ?? {}) as [string, OpenAPIV3_1.OperationObject][]) {
      complete(path, method, operation);
      for (const tag of operation.tags ?? []) tags.add(tag);
    }
  }
  document.tags = [...tags].sort().map((name) => ({ name, description: `Operations on ${name.replaceAll("_", " ")}` }));
  return document;
}

/** A check that JSON Schema can't say is left out of the document; the answer to a breach says it. */
function toSchema(schema: v.GenericSchema): OpenAPIV3_1.SchemaObject {
  const { $schema: _, ...json } = toJsonSchema(schema, {
    errorMode: "ignore",
    typeMode: "input",
    overrideSchema: ({ valibotSchema }) => (valibotSchema === map ? { type: "object" } : null),
  });
  return json as OpenAPIV3_1.SchemaObject;
}

/** `x-events`: of a stream, what each event says, by its name. */
type Media = { schema: object; "x-events"?: Record<string, object> };
type Part = {
  schema?: v.GenericSchema;
  toOpenAPISchema?: () => object;
  spec?: { responses?: Record<string, { content?: Record<string, Media> }> };
};

/**
 * Turns the valibot schemas that `valid` and `gives` hung on their routes into JSON Schema. Here and not there: no
 * Worker carries what it takes.
 */
function readSchemas(app: Hono<Env>) {
  for (const { handler } of app.routes) {
    const middleware = findTargetHandler(handler) as { [part]?: Part; [uniqueSymbol]?: Part };
    const carried = middleware[part];
    if (!carried) continue;
    if (carried.schema) {
      const schema = toSchema(carried.schema);
      carried.toOpenAPISchema = () => ({ schema, components: {} });
    }
    for (const { content } of Object.values(carried.spec?.responses ?? {})) {
      for (const media of Object.values(content ?? {})) {
        if ("~standard" in media.schema) media.schema = toSchema(media.schema as v.GenericSchema);
        for (const [name, schema] of Object.entries(media["x-events"] ?? {})) {
          if ("~standard" in schema) media["x-events"]![name] = toSchema(schema as v.GenericSchema);
        }
      }
    }
    middleware[uniqueSymbol] = carried;
  }
}

/** `Create a token of a user`: the verb of the method, the kind that the address names, and the one that it hangs on. */
function summaryOf(method: string, nouns: string[], { responses = {} }: OpenAPIV3_1.OperationObject): string {
  const [noun, above] = nouns.toReversed() as [string, string?];
  const of = above && above !== kinds.app.table ? ` of ${oneOf(above)}` : "";
  const success = (responses[200] ?? responses[201]) as OpenAPIV3_1.ResponseObject | undefined;
  const answer = success?.content?.["application/json"]?.schema as OpenAPIV3_1.SchemaObject | undefined;
  if (answer?.properties?.data) return `List ${noun}${of}`;
  // What is deleted and answered all the same is kept, and works no more.
  return `${method === "delete" && answer ? "Revoke" : verbs[method]} ${oneOf(noun)}${of}`;
}

/** `an agent` for `agents`. */
function oneOf(noun: string): string {
  const name = Object.values(kinds).find(({ table }) => table === noun)?.name ?? noun;
  return `${/^[aeio]/.test(name) ? "an" : "a"} ${name}`;
}

function complete(path: string, method: string, operation: OpenAPIV3_1.OperationObject) {
  const words = path.split("/").filter((word) => word && !/^(api|protected|v\d|developer)$/.test(word));
  const nouns = words.filter((word) => !word.startsWith("{"));
  operation.operationId = [method, ...words.map((word) => word.replace(/\W/g, "_"))].join("_");
  operation.summary ??= summaryOf(method, nouns, operation);
  operation.tags ??= [(nouns[0] === "apps" ? nouns[1] : nouns[0]) ?? "apps"].map((tag) =>
    tag.replace(/\W/g, "_").replace(/^_/, ""),
  );
  operation.security ??= [];
  const parameters = (operation.parameters ?? []) as OpenAPIV3_1.ParameterObject[];
  for (const parameter of parameters) {
    // The SDK spells a list `agent[]=a&agent[]=b`.
    if (parameter.in === "query" && (parameter.schema as OpenAPIV3_1.SchemaObject)?.type === "array")
      parameter.name += "[]";
  }
  if (parameters.length) operation.parameters = parameters;
  operation.responses ??= {};
  const { responses } = operation;
  if (path.includes("{")) responses[404] ??= problemResponse("Absent, or not for the caller: the two are one answer");
  if (parameters.some(({ name }) => name === KEY))
    responses[404] ??= problemResponse("What this Idempotency-Key once made is no longer there");
  if (parameters.some(({ name }) => name === "search"))
    responses[429] ??= problemResponse("Too many searches at once; `Retry-After` says when to try again");
  if (operation.requestBody || parameters.some((parameter) => parameter.in !== "path")) {
    responses[400] ??= problemResponse("Not readable: malformed JSON, or a cursor that does not open");
    responses[422] ??= problemResponse("Faults of the input, each with its field");
  }
  // A body may be the credential.
  if (operation.security.length || operation.requestBody)
    responses[503] ??= problemResponse("The database is out of reach for a moment");
  const seen = "x-permission" in operation;
  const most = operation.requestBody && !seen ? MAX_CREDENTIAL_BYTES : MAX_BODY_BYTES;
  responses[413] ??= problemResponse(`The body is over ${most.toLocaleString("en")} bytes`);
  if (operation.requestBody) responses[415] ??= problemResponse("The body is not JSON");
}
