/** What an endpoint hears, when it is tried again, and when it has failed for too long: with the time as an argument. Pure. */

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** How long after the attempt before it each attempt comes; after the last of them the delivery is dead. */
const AFTER = [0, 5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, DAY];
/** A receiver puts us off so long at most. */
const MOST_PUT_OFF = DAY;

/**
 * How long after so many failed attempts the next one comes, in ms, a fifth more or less, lest a crowd come back as one; not
 * before the receiver wants it. Null: that was the last. `random` is of [0, 1).
 */
export function nextAttempt(failed: number, random: number, putOff = 0): number | null {
  const after = AFTER[failed];
  if (after === undefined) return null;
  return Math.round(Math.max(after * (0.8 + 0.4 * random), Math.min(putOff, MOST_PUT_OFF)));
}

/** What a `Retry-After` asks for, in ms from now: seconds or a date (RFC 9110 §10.2.3). 0 where it says neither. */
export function putOffOf(header: string | null, now: number): number {
  if (header === null) return 0;
  if (/^\d{1,9}$/.test(header)) return Number(header) * SECOND;
  const at = /^[A-Z][a-z]{2}, /.test(header) ? Date.parse(header) : Number.NaN;
  return Number.isNaN(at) ? 0 : Math.max(0, at - now);
}

/** Whether one of the names, or beginnings that end in `*`, is the event's. */
export const isNamed = (event_names: readonly string[], name: string): boolean =>
  event_names.some((one) => (one.endsWith("*") ? name.startsWith(one.slice(0, -1)) : one === name));

/** Finds what is to be tried next, in the store of an endpoint: of a strict one, of each place the first that isn't over. */
export const NEXT = {
  none: "select * from deliveries where status = 'pending' order by at, sequence limit 1",
  strict: `select d.* from places p join deliveries d on d.id = (select h.id from deliveries h
    where h.org = p.org and h.status = 'pending' order by h.sequence limit 1) order by d.at, d.sequence limit 1`,
};

/** Attempts at once of an endpoint: Workers have six connections. Of an org's it is its share of what the org may have. */
export const MOST_AT_ONCE = 6;
export const lanesOf = (endpoints: number, at_once: number): number =>
  Math.min(MOST_AT_ONCE, Math.max(1, Math.floor(at_once / Math.max(1, endpoints))));

/** After so long without a success it is told; after the last of these, the endpoint is disabled. */
const STAGES = [HOUR, DAY, 4 * DAY, 5 * DAY];
export const LAST_STAGE = STAGES.length;

/** How many stages have passed since it began to fail, and when the next one will have; null after the last. */
export function failingStage(since: number, now: number): { stage: number; next: number | null } {
  const stage = STAGES.filter((after) => now >= since + after).length;
  return { stage, next: stage < LAST_STAGE ? since + STAGES[stage]! : null };
}
