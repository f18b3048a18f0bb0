/** A session's history, as the conversation that it tells, and as it was written. */
import type { Bindings } from "../env.ts";
import { notFound } from "../errors.ts";
import { withList } from "../sessions/export.ts";
import { framesUntilNow } from "../sessions/follow.ts";
import type { SessionFrame } from "../sessions/frames.ts";
import { isTerminal } from "../sessions/loop.ts";
import { Conversation } from "../sessions/prompt.ts";
import { reached } from "../sessions/reach.ts";
import { type SessionRow, sessionOf } from "../sessions/remote.ts";
import { toKnown } from "./schema.ts";

/** 404 while the session has no history yet. */
async function begun(env: Bindings, row: SessionRow) {
  const pages = framesUntilNow(env, row);
  const { value: first } = await pages.next();
  if (!first || first.status === "pending") throw notFound("trajectory");
  return { first, rest: pages };
}
type Begun = Awaited<ReturnType<typeof begun>>;

async function* framesOf({ first, rest }: Begun): AsyncGenerator<SessionFrame[]> {
  yield first.frames;
  for await (const { frames } of rest) yield frames;
}

/** What was said, in order, let go of as it is written. Of a session that has ended, its last results, too. */
async function* messagesOf(instructions: string, history: Begun): AsyncGenerator<object[]> {
  const conversation = new Conversation(instructions);
  for await (const frames of framesOf(history)) {
    for (const frame of frames) conversation.take(frame);
    yield conversation.messages.splice(0);
  }
  if (!isTerminal(history.first.status)) return;
  conversation.join(0);
  yield conversation.messages.splice(0);
}

export const contentsOf = async (env: Bindings, row: SessionRow) =>
  withList({ id: row.trajectory_id, session: row.id }, "frames", framesOf(await begun(env, row)));

export async function trajectoryOf(env: Bindings, row: SessionRow) {
  const history = await begun(env, row);
  // As its model reads them: without a secret.
  const pinned = await reached(sessionOf(env, row).pinned(row));
  if (!pinned) throw notFound("trajectory");
  return withList(toKnown(row), "messages", messagesOf(pinned.instructions, history));
}
