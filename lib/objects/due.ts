/**
 * What an object has to do, and when: the rules of its due-list, with the time as an argument. An object has one alarm;
 * it is armed to the earliest of its reasons.
 */

/** `attempts`: how often it was begun since it was set; 0 also says that it was set anew while it ran. */
export type Due = { name: string; at: number; attempts: number };

/** So many are in flight at once; the others wait for one to end. */
export const AT_ONCE = 16;
/** While something is in flight the alarm comes this often: it keeps the object in memory, and finds what a crash left. */
export const LOOK_AGAIN_MS = 5_000;

/** 1 s after the first failure, then twice as long each time, up to a minute; a fifth more or less, lest a crowd come back as one. */
export const retryDelay = (attempts: number, random: number): number =>
  Math.round(Math.min(60_000, 1_000 * 2 ** (attempts - 1)) * (0.8 + 0.4 * random));

const waiting = (head: readonly Due[], running: ReadonlySet<string>) => head.filter(({ name }) => !running.has(name));

/** What is to begin now. `head` is the list's first AT_ONCE by (at, name): no more can matter. */
export const toBegin = (head: readonly Due[], running: ReadonlySet<string>, now: number): Due[] =>
  waiting(head, running)
    .filter(({ at }) => at <= now)
    .slice(0, AT_ONCE - running.size);

/** When the alarm is to come; at no time, if there is nothing to come for. */
export function nextAlarm(head: readonly Due[], running: ReadonlySet<string>, now: number): number {
  const [next] = running.size < AT_ONCE ? waiting(head, running) : [];
  const again = running.size ? now + LOOK_AGAIN_MS : Number.POSITIVE_INFINITY;
  return Math.min(next?.at ?? Number.POSITIVE_INFINITY, again);
}
