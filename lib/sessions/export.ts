/** A session's frames as JSON that is longer than what is in memory: written page by page, as the client takes it. */
import type { Bindings } from "../env.ts";
import { refused } from "../errors.ts";
import { framesUntilNow } from "./follow.ts";
import type { SessionFrame } from "./frames.ts";
import { reached } from "./reach.ts";
import { type SessionRow, sessionOf } from "./remote.ts";
import { toSession } from "./schema.ts";

/** A JSON object of these fields and, as its last one, a list whose items come in pages. */
export async function* withList(fields: object, name: string, pages: AsyncIterable<unknown[]>): AsyncGenerator<string> {
  let before = `${JSON.stringify(fields).slice(0, -1)},${JSON.stringify(name)}:[`;
  for await (const items of pages) {
    if (!items.length) continue;
    yield before + items.map((item) => JSON.stringify(item)).join(",");
    before = ",";
  }
  yield before === "," ? "]}" : `${before}]}`;
}

async function* pagesOf(env: Bindings, row: SessionRow): AsyncGenerator<SessionFrame[]> {
  for await (const { frames } of framesUntilNow(env, row)) yield frames;
}

/** All that a loop needs to run again without any way out, and no secret. 409 while the session is pending. */
export async function tapeOf(env: Bindings, row: SessionRow): Promise<AsyncGenerator<string>> {
  const object = sessionOf(env, row);
  const [view, pinned] = await reached(Promise.all([object.view(row), object.pinned(row)]));
  if (!pinned) throw refused("session_pending", "A session has a tape as soon as it has begun. Try again.");
  const { instructions } = pinned;
  return withList(
    { version: 1, session: { ...toSession(row, view), instructions }, pinned },
    "frames",
    pagesOf(env, row),
  );
}
