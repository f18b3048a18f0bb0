/** What is under way, and whether it goes on: pure, with the time as an argument. All instants are in milliseconds. */
import { PACE } from "./pace.ts";

/** `due`: when it is to be asked. `asked_at`: since when it was asked and hasn't gone on. */
export type Watched = { due: number | null; asked_at: number | null; stuck: boolean };

/**
 * What is known of one after it was asked: it said until when its step may take, or null, that it waits for somebody or is
 * over. Of one that couldn't be asked `until` is that it is past.
 */
export function asked({ asked_at }: Pick<Watched, "asked_at">, until: number | null, now: number): Watched {
  if (until === null || until > now) return { due: until, asked_at: null, stuck: false };
  const since = asked_at ?? now;
  const stuck = now - since >= PACE.goes_on;
  return { due: now + (stuck ? PACE.stuck : PACE.again), asked_at: since, stuck };
}

/** What is known of one in a suspended org: it isn't asked, and doesn't have to go on. */
export const paused = (now: number): Watched => ({ due: now + PACE.suspended, asked_at: null, stuck: false });
