import type { Context } from "hono";
import { createMiddleware } from "hono/factory";
import type * as v from "valibot";
import { problemResponse, withSpec } from "./spec.ts";
import { STATUS_CODES } from "./status.ts";

type Status = 200 | 201;
type View = v.GenericSchema;
type Answer<V extends View> = { Variables: { answer: (body: v.InferOutput<V>) => Response } };

/**
 * What the route answers when all is well: `c.var.answer(view)` does not compile with a field missing or too many,
 * and the document shows the same view. `conflict` says that a 409 is possible too.
 */
export const gives = <V extends View>(status: Status, view: V, conflict?: 409) =>
  withSpec(
    createMiddleware<Answer<V>>(async (c, next) => {
      c.set("answer", (body) => (c as Context).json(body, status));
      await next();
    }),
    {
      responses: {
        [status]: {
          description: STATUS_CODES[status]!,
          content: { "application/json": { schema: view as never } },
        },
        ...(conflict ? { 409: problemResponse("A value is taken, or the state forbids it") } : {}),
      },
    },
  );

/** What the route answers when there is nothing to say: 204, no body. */
export const givesNothing = (conflict?: 409) =>
  withSpec(
    createMiddleware<{ Variables: { answer: () => Response } }>(async (c, next) => {
      c.set("answer", () => c.body(null, 204));
      await next();
    }),
    {
      responses: {
        204: { description: STATUS_CODES[204]! },
        ...(conflict ? { 409: problemResponse("The state forbids it") } : {}),
      },
    },
  );
