import { type Context, Hono } from "hono";
import { cors } from "hono/cors";
import { ApiError, notFound } from "../errors.ts";
import { announced } from "./body.ts";
import { toProblem } from "./problem.ts";
import type { Env } from "./router.ts";
import { toScimError } from "./scim-error.ts";

const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"];
const EXPOSED = ["ETag", "Idempotent-Replayed", "Retry-After", "WWW-Authenticate", "X-Request-Id"];

/** A refusal as whoever asks there expects it: a provider that speaks SCIM, in its own form. */
const toAnswer = (error: ApiError, c: Context<Env>) =>
  c.req.path.startsWith("/scim/") ? toScimError(error) : toProblem(error, c.var.requestId);

/**
 * A Worker: the outer app around a group's routers, the same for all. It gives every answer a request id, speaks
 * CORS as the SDK needs it in a browser, bounds bodies, and turns refusals into problems. Anything thrown that is no
 * refusal is a bug: an empty 500, its text in the log only.
 */
export function worker(...routers: Hono<Env>[]): Hono<Env> {
  const app = new Hono<Env>();

  app.use(async (c, next) => {
    const asked = c.req.header("X-Request-Id");
    const requestId = asked && /^[\w-]{8,64}$/.test(asked) ? asked : crypto.randomUUID();
    c.set("requestId", requestId);
    await next();
    // Once there is an answer: headers set before it make Hono build every answer twice.
    const { headers } = c.res;
    headers.set("X-Request-Id", requestId);
    if (!headers.has("Cache-Control")) headers.set("Cache-Control", "no-store");
    headers.set("X-Content-Type-Options", "nosniff");
    // A page is for people: no other site's script reads one.
    if (headers.has("Content-Security-Policy")) return;
    headers.set("Access-Control-Allow-Origin", "*");
    headers.set("Access-Control-Expose-Headers", EXPOSED.join(","));
  });
  app.options(
    "*",
    cors({
      origin: "*",
      allowMethods: METHODS,
      allowHeaders: [
        "Authorization",
        "Content-Type",
        "Idempotency-Key",
        "If-Match",
        "X-Request-Id",
        "x-archastro-api-key",
        "x-api-key",
      ],
      maxAge: 86_400,
    }),
  );
  app.use(announced);
  for (const router of routers) app.route("/", router);

  app.notFound((c) => {
    const allowed = METHODS.filter((method) => serves(app, method, c.req.path));
    const error = allowed.length
      ? new ApiError(405, "method_not_allowed", `This address takes ${allowed.join(", ")}.`, [], {
          Allow: allowed.join(", "),
        })
      : notFound("address");
    return toAnswer(error, c);
  });
  app.onError((error, c) => {
    if (error instanceof ApiError) return toAnswer(error, c);
    console.error(JSON.stringify({ request_id: c.var.requestId, error: String(error), stack: error.stack }));
    return c.body(null, 500);
  });
  return app;
}

/** Whether a handler of its own stands at the address, beside the middleware that stands everywhere. */
function serves(app: Hono<Env>, method: string, path: string): boolean {
  const handlers = (of: string) => app.router.match(of, path)[0].length;
  return handlers(method) > handlers("TRACE");
}
