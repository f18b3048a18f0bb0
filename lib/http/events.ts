import { createMiddleware } from "hono/factory";
import type * as v from "valibot";
import { ApiError } from "../errors.ts";
import { problemResponse, withSpec } from "./spec.ts";
import type { Watch } from "./watch.ts";

const MOST_MS = 15 * 60_000;
/** workerd sees that a client is gone when it writes to it. */
const SILENCE_MS = 500;
const TIMEOUT = new ApiError(503, "stream_timeout", "A stream ends after 15 minutes.");

const headers = { "Content-Type": "text/event-stream", "Cache-Control": "no-store" };
const utf8 = new TextEncoder();
const textOf = ([name, data, id]: readonly [string, unknown, number?]) =>
  utf8.encode(`${id === undefined ? "" : `id: ${id}\n`}event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
const comment = (text: string) => utf8.encode(`: ${text}\n\n`);

type Views = Record<string, v.GenericSchema>;
/** An event by its name, with what it says and, where a client may come back for what follows it, its id. */
export type Told<V extends Views> = {
  [N in keyof V & string]: readonly [N, v.InferOutput<V[N]>, id?: number];
}[keyof V & string];
type Events<V extends Views> = AsyncGenerator<Told<V>, void>;
type Emit<V extends Views> = (events: Events<V>, gone: () => void) => Response;

const eventsOf = (views: Views) => ({
  200: {
    description: `Server-sent events: ${Object.keys(views)
      .map((name) => `\`${name}\``)
      .join(", ")}`,
    content: { "text/event-stream": { schema: { type: "string" as const }, "x-events": { ...views } } },
  },
  429: problemResponse("There are too many at once"),
});

/**
 * What the route answers is a stream of events of several kinds, until they end: `c.var.emit`. Each is asked for when the
 * client has taken the one before it. While there is none a comment goes out every 500 ms, so that a client that hung up
 * is noticed within a second: then `gone` is called, and no more events are asked for.
 */
export const givesEventsOf = <V extends Views>(views: V) =>
  withSpec(
    createMiddleware<{ Variables: { emit: Emit<V> } }>(async (c, next) => {
      c.set("emit", (events, gone) => c.body(emitted(events, gone), 200, headers));
      await next();
    }),
    { responses: eventsOf(views) },
  );

/**
 * The same of what goes on by itself: `c.var.tell`. Before each event and each comment `watch` is asked. What it throws,
 * what the events throw, and the end of 15 minutes are an `error` event with the code, after which the client may come
 * back.
 */
export const givesEventsWhile = <V extends Views>(views: V) =>
  withSpec(
    createMiddleware<{ Variables: { tell: (events: Events<V>, watch: Watch) => Response } }>(async (c, next) => {
      c.set("tell", (events, watch) => c.body(emitted(events, watch.leave, watch), 200, headers));
      await next();
    }),
    { responses: eventsOf(views) },
  );

function emitted(events: AsyncGenerator<readonly [string, unknown, number?], void>, gone: () => void, watch?: Watch) {
  const begun = Date.now();
  let isGone = false;
  let next = events.next();
  const event = async () => {
    if (watch && Date.now() - begun > MOST_MS) throw TIMEOUT;
    await watch?.ask();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const silence = new Promise<null>((resolve) => {
      timer = setTimeout(resolve, SILENCE_MS, null);
    });
    return Promise.race([next, silence]).finally(() => clearTimeout(timer));
  };
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const told = await event();
          if (isGone) return;
          if (!told) return controller.enqueue(comment("waiting"));
          if (!told.done) {
            next = events.next();
            return controller.enqueue(textOf(told.value));
          }
        } catch (error) {
          if (!watch) throw error;
          if (isGone) return;
          controller.enqueue(textOf(["error", { code: codeOf(error) }]));
        }
        if (watch) gone();
        controller.close();
      },
      async cancel() {
        isGone = true;
        gone();
        await events.return();
      },
    },
    { highWaterMark: 0 },
  );
}

/** What an `error` event says of what was thrown; of a bug, the log says more. */
function codeOf(error: unknown): string {
  if (error instanceof ApiError) return error.code;
  console.error(JSON.stringify({ error: String(error), stack: (error as Error)?.stack }));
  return "internal_error";
}
