/** What a session's object tells as it happens, and what it has told: for those who watch, and for those who read. */
import type { Bindings } from "../env.ts";
import type { SessionFrame } from "./frames.ts";
import { isTerminal } from "./loop.ts";
import { reached } from "./reach.ts";
import { type SessionRow, type SessionView, sessionOf } from "./remote.ts";

/** How long the object waits for a frame before it answers that there is none. */
const WAIT_MS = 20_000;
/** An object that starts anew, as by a deployment, is out of reach for a moment: it is asked so often, a second apart. */
const ATTEMPTS = 5;
/** Who wants to know of its status alone, doesn't ask after each word of a model. */
const STATUS_MS = 200;
const NEWEST = Number.MAX_SAFE_INTEGER;

type Page = Awaited<ReturnType<typeof page>>;

/** The next page of frames; `wait_ms` at most, where there is none yet. */
async function page(env: Bindings, row: SessionRow, after: number, wait_ms: number) {
  for (let attempt = 1; ; attempt++) {
    const answer = sessionOf(env, row).frames(row, after, wait_ms);
    if (attempt === ATTEMPTS) return reached(answer);
    const asked = Date.now();
    const found = await answer.catch(() => null);
    // Of an object that is gone, nothing is to be waited for.
    if (found && (found.frames.length || !wait_ms || isTerminal(found.status) || Date.now() - asked > 1000))
      return found;
    await scheduler.wait(1000);
  }
}

/** Every frame after a sequence, as it comes, until the session has ended and all are told. */
export async function* framesAfter(env: Bindings, row: SessionRow, after: number): AsyncGenerator<SessionFrame, void> {
  for (;;) {
    const { frames, last, status } = await page(env, row, after, WAIT_MS);
    for (const frame of frames) {
      yield frame;
      after = frame.sequence;
    }
    if (isTerminal(status) && after >= last) return;
  }
}

/** The session as it is, and as it is after each change of its status, until it has ended. */
export async function* viewsOf(env: Bindings, row: SessionRow): AsyncGenerator<SessionView, void> {
  const look = () => reached(sessionOf(env, row).view(row));
  let { last } = await page(env, row, NEWEST, 0);
  let view = await look();
  yield view;
  for (let { status } = view; !isTerminal(status); ) {
    const { frames } = await page(env, row, last, WAIT_MS);
    last = frames.at(-1)?.sequence ?? last;
    const changes = frames.flatMap((frame) => (frame.type === "session.status" ? frame.status : []));
    if (!changes.length && frames.length) await scheduler.wait(STATUS_MS);
    if (changes.some((next) => next !== status)) view = await look();
    for (const next of changes) {
      if (next === status) continue;
      status = next;
      yield { ...view, status, ...(!isTerminal(status) && { completed_at: null, error: null, result: null }) };
    }
  }
}

/** All frames there are by now, a page at a time, with the status that the session had at the first. */
export async function* framesUntilNow(env: Bindings, row: SessionRow): AsyncGenerator<Pick<Page, "frames" | "status">> {
  const { last: newest, status } = await page(env, row, NEWEST, 0);
  for (let after = 0; ; ) {
    const { frames } = await page(env, row, after, 0);
    yield { frames, status };
    after = frames.at(-1)?.sequence ?? newest;
    if (after >= newest) return;
  }
}
