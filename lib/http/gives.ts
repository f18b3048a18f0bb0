import type { Context } from "hono";
import { createMiddleware } from "hono/factory";
import type * as v from "valibot";
import { problemResponse, withSpec } from "./spec.ts";
import { STATUS_CODES } from "./status.ts";

type Status = 200 | 201 | 202;
type View = v.GenericSchema;
type Refusal = keyof typeof reasons;
type Answer<V extends View> = { Variables: { answer: (body: v.InferOutput<V>) => Response } };

const reasons = {
  400: "It can't be given in this form",
  401: "The credential is wrong, expired or revoked",
  403: "The org is suspended",
  404: "Something that it names is absent, or not for the caller",
  409: "A value is taken, or the state forbids it",
  410: "What follows is kept no longer",
  412: "It has changed since it was looked at",
  413: "The body is over 1,000,000 bytes",
  422: "The state forbids it",
  429: "There are too many already, or too many at once",
  503: "Nobody can tell for the moment, or there is something to mend first: what, it says",
};

/**
 * What the route answers when all is well: `c.var.answer(view)` does not compile with a field missing or too many,
 * and the document shows the same view. `refusals` are those possible besides what `allow` and `valid` bring.
 */
export const gives = <V extends View>(status: Status, view: V, ...refusals: Refusal[]) =>
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
        ...Object.fromEntries(refusals.map((refusal) => [refusal, problemResponse(reasons[refusal])])),
      },
    },
  );

/** What the route answers when there is nothing to say: 204, no body. */
export const givesNothing = (...refusals: Refusal[]) =>
  withSpec(
    createMiddleware<{ Variables: { answer: () => Response } }>(async (c, next) => {
      c.set("answer", () => c.body(null, 204));
      await next();
    }),
    {
      responses: {
        204: { description: STATUS_CODES[204]! },
        ...Object.fromEntries(refusals.map((refusal) => [refusal, problemResponse(reasons[refusal])])),
      },
    },
  );

/** Text instead of JSON. */
export const givesText = () =>
  withSpec(
    createMiddleware<{ Variables: { answer: (text: string) => Response } }>(async (c, next) => {
      c.set("answer", (text) => c.text(text, 200));
      await next();
    }),
    {
      responses: {
        200: { description: STATUS_CODES[200]!, content: { "text/plain": { schema: { type: "string" } } } },
      },
    },
  );

/** Bytes, under the MIME type that they were stored with. */
export const givesBytes = () =>
  withSpec(
    createMiddleware<{ Variables: { answer: (bytes: Uint8Array<ArrayBuffer>, type: string) => Response } }>(
      async (c, next) => {
        c.set("answer", (bytes, type) => c.body(bytes, 200, { "Content-Type": type }));
        await next();
      },
    ),
    {
      responses: {
        200: { description: STATUS_CODES[200]!, content: { "*/*": { schema: {} } } },
        400: problemResponse(reasons[400]),
        422: problemResponse(reasons[422]),
      },
    },
  );

/** JSON that is written piece by piece, as the client takes it: what is told of is longer than what is in memory. */
export const givesPieces = <V extends View>(view: V, refusal?: Refusal) =>
  withSpec(
    createMiddleware<{ Variables: { write: (pieces: AsyncGenerator<string, void>) => Response } }>(async (c, next) => {
      c.set("write", (pieces) => c.body(written(pieces), 200, { "Content-Type": "application/json" }));
      await next();
    }),
    {
      responses: {
        200: { description: STATUS_CODES[200]!, content: { "application/json": { schema: view as never } } },
        ...(refusal ? { [refusal]: problemResponse(reasons[refusal]) } : {}),
      },
    },
  );

function written(pieces: AsyncGenerator<string, void>): ReadableStream<Uint8Array> {
  const utf8 = new TextEncoder();
  return new ReadableStream(
    {
      async pull(controller) {
        const { done, value } = await pieces.next();
        if (done) controller.close();
        else controller.enqueue(utf8.encode(value));
      },
      cancel: async () => {
        await pieces.return();
      },
    },
    { highWaterMark: 0 },
  );
}
