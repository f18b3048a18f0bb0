import { createMiddleware } from "hono/factory";
import type * as v from "valibot";
import { ApiError } from "../errors.ts";
import { problemResponse, withSpec } from "./spec.ts";

const POLL_MS = 4000;
const KEEP_ALIVE_MS = 15_000;
const MOST_MS = 15 * 60_000;
/** workerd sees that a client is gone when it writes to it. */
const SILENCE_MS = 500;

type Follow<View> = { now: View; read: () => Promise<View>; isOver: (view: View) => boolean };

/**
 * What the route answers is a stream of one kind of event (CONTRACT.md §2.11): the record as it is, then as it is after
 * each change, until it is over. A refusal on the way (the credential has died, the record is gone) and the end of 15
 * minutes are an `error` event with its code. Each look is a round trip of its own, through the door, every 4 seconds.
 */
export const givesEvents = <V extends v.GenericSchema>(event: string, _view: V) =>
  withSpec(
    createMiddleware<{ Variables: { follow: (record: Follow<v.InferOutput<V>>) => Response } }>(async (c, next) => {
      c.set("follow", (record) => {
        const headers = { "Content-Type": "text/event-stream", "Cache-Control": "no-store" };
        return c.body(stream(event, record), 200, headers);
      });
      await next();
    }),
    {
      responses: {
        200: {
          description: `Server-sent events, each \`${event}\` or \`error\``,
          content: { "text/event-stream": { schema: { type: "string" } } },
        },
      },
    },
  );

function stream<View>(event: string, { now, read, isOver }: Follow<View>): ReadableStream<Uint8Array> {
  const utf8 = new TextEncoder();
  const begun = Date.now();
  let isGone = false;
  return new ReadableStream({
    async start(controller) {
      const say = (text: string) => !isGone && controller.enqueue(utf8.encode(text));
      const tell = (name: string, data: unknown) => say(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
      const follow = async () => {
        let told = JSON.stringify(now);
        tell(event, now);
        for (let view = now, said = begun; !isOver(view) && !isGone; ) {
          if (Date.now() - begun > MOST_MS) return tell("error", { code: "stream_timeout" });
          await new Promise((resolve) => setTimeout(resolve, POLL_MS));
          if (isGone) return;
          view = await read();
          const is = JSON.stringify(view);
          if (is !== told) tell(event, view);
          else if (Date.now() - said >= KEEP_ALIVE_MS) say(": alive\n\n");
          else continue;
          said = Date.now();
          told = is;
        }
      };
      follow()
        .catch((error) => {
          if (!(error instanceof ApiError)) console.error(JSON.stringify({ error: String(error), stack: error.stack }));
          tell("error", { code: error instanceof ApiError ? error.code : "internal_error" });
        })
        .finally(() => isGone || controller.close());
    },
    cancel() {
      isGone = true;
    },
  });
}

type Views = Record<string, v.GenericSchema>;
/** An event by its name, with what it says. */
export type Told<V extends Views> = { [N in keyof V & string]: readonly [N, v.InferOutput<V[N]>] }[keyof V & string];
type Emit<V extends Views> = (events: AsyncGenerator<Told<V>, void>, gone: () => void) => Response;

/**
 * What the route answers is a stream of events of several kinds, until they end: `c.var.emit`. Each is asked for when the
 * client has taken the one before it. While there is none a comment goes out every 500 ms, so that a client that hung up
 * is noticed within a second: then `gone` is called, and no more events are asked for.
 */
export const givesEventsOf = <V extends Views>(views: V) =>
  withSpec(
    createMiddleware<{ Variables: { emit: Emit<V> } }>(async (c, next) => {
      c.set("emit", (events, gone) => {
        const headers = { "Content-Type": "text/event-stream", "Cache-Control": "no-store" };
        return c.body(emitted(events, gone), 200, headers);
      });
      await next();
    }),
    {
      responses: {
        200: {
          description: `Server-sent events: ${Object.keys(views)
            .map((name) => `\`${name}\``)
            .join(", ")}`,
          content: { "text/event-stream": { schema: { type: "string" } } },
        },
        429: problemResponse("There are too many at once"),
      },
    },
  );

function emitted(events: AsyncGenerator<readonly [string, unknown], void>, gone: () => void) {
  const utf8 = new TextEncoder();
  let next = events.next();
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        let timer: ReturnType<typeof setTimeout> | undefined;
        const silence = new Promise<null>((resolve) => {
          timer = setTimeout(resolve, SILENCE_MS, null);
        });
        const event = await Promise.race([next, silence]).finally(() => clearTimeout(timer));
        if (event?.done) return controller.close();
        if (event) next = events.next();
        const text = event ? `event: ${event.value[0]}\ndata: ${JSON.stringify(event.value[1])}\n\n` : ": waiting\n\n";
        controller.enqueue(utf8.encode(text));
      },
      async cancel() {
        gone();
        await events.return();
      },
    },
    { highWaterMark: 0 },
  );
}
