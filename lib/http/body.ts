/** How much of a body is read, and when. */
import type { Context, MiddlewareHandler } from "hono";
import { bodyLimit } from "hono/body-limit";
import type { TenantDb } from "../db/tenant-db.ts";
import { ApiError } from "../errors.ts";

export const MAX_BODY_BYTES = 8_000_000;
/** Read for anybody; more than that, for whom the database has let in. */
export const MAX_UNSEEN_BYTES = 64 * 1024;
/** Of a body that is the credential. The longest refresh token has a quarter of it. */
export const MAX_CREDENTIAL_BYTES = 2048;
/** Of what is sent to a webhook. */
export const MAX_HOOK_BYTES = 1_000_000;
const MAX_DRAIN_MS = 1000;
const READ_BYTES = 256 * 1024;

const atMost = (maxSize: number) =>
  bodyLimit({
    maxSize,
    onError: async (c) => {
      await drain(c.req.raw.body);
      throw new ApiError(413, "payload_too_large", `A body may have at most ${maxSize} bytes here.`);
    },
  });
const whole = atMost(MAX_BODY_BYTES);
const credential = atMost(MAX_CREDENTIAL_BYTES);
const delivery = atMost(MAX_HOOK_BYTES);

/** What a body says of its length; infinite where it says nothing. */
function lengthOf({ req }: Context): number {
  if (!req.raw.body) return 0;
  return req.header("Transfer-Encoding") === undefined ? Number(req.header("Content-Length") ?? Infinity) : Infinity;
}

/** Whether a body may be read for anybody. */
export const isShort = (c: Context): boolean => lengthOf(c) <= MAX_UNSEEN_BYTES;

/** Refuses a body that announces too much, before anything else is asked. */
export const announced: MiddlewareHandler = (c, next) => (Number.isFinite(lengthOf(c)) ? whole(c, next) : next());

/**
 * The body, as it came. One above 64 KB, or of unknown length, is not read before the database has seen the credential;
 * where the credential is in the body, it can't be above 2 KB.
 */
export async function readBody(c: Context<{ Variables: { db?: TenantDb } }>): Promise<Uint8Array> {
  const { db } = c.var;
  if (db && !isShort(c)) await db.enter();
  await (db ? whole : credential)(c, async () => {});
  return c.req.bytes();
}

/** What was sent to a webhook, byte for byte, by whom its door has let in. 413 above 1 MB. */
export async function readDelivery(c: Context): Promise<Uint8Array<ArrayBuffer>> {
  await delivery(c, async () => {});
  return (await c.req.bytes()) as Uint8Array<ArrayBuffer>;
}

/** Reads on for a while: a client that is still sending would see a broken connection instead of the answer. */
export async function drain(body: ReadableStream<Uint8Array> | null) {
  if (!body || body.locked) return;
  await Promise.race([discard(body), scheduler.wait(MAX_DRAIN_MS)]);
}

/** By large reads: a small one costs the isolate as much, and by itself a body comes in pieces of four kilobytes. */
async function discard(body: ReadableStream<Uint8Array>) {
  const reader = body.getReader({ mode: "byob" });
  let room = new Uint8Array(READ_BYTES);
  for (let size = 0; size < 4 * MAX_BODY_BYTES; ) {
    const { done, value } = await reader.readAtLeast(READ_BYTES, room);
    if (done) return;
    size += value.length;
    room = new Uint8Array(value.buffer);
  }
}
