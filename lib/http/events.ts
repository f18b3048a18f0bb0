import { createMiddleware } from "hono/factory";
import type * as v from "valibot";
import { ApiError } from "../errors.ts";
import { withSpec } from "./spec.ts";

const POLL_MS = 4000;
const KEEP_ALIVE_MS = 15_000;
const MOST_MS = 15 * 60_000;

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
