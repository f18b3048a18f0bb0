/**
 * What becomes of the occurrences of a schedule, or of a routine's: pure, with the time as an argument. All instants are
 * milliseconds of Unix time.
 */
import type { Catchup, OccurrenceOutcome, Overlap, ScheduleStatus } from "../db/schema.ts";
import { type Cron, jitterOf, nextOccurrence } from "../schedules/clock.ts";

/** What is planned: the rule, and how far it has come. */
export type Planned = {
  id: string;
  /** Null: it comes once. */
  cron: Cron | null;
  timezone: string;
  overlap: Overlap;
  catchup: Catchup;
  catchup_window_seconds: number;
  jitter_seconds: number;
  /** How often it may come yet; null: without end. */
  left: number | null;
  /** The instant that comes next. */
  next: number;
};
/** What meets an occurrence: whether another one is under way, and how many wait. */
export type Met = { busy: boolean; waiting: number };
export type Outcome = { planned_at: number; outcome: OccurrenceOutcome };
export type Plan = { occurrences: Outcome[]; next: number | null; status: ScheduleStatus; ran: number };

/** So many wait at most; what comes then is skipped. */
export const MOST_WAITING = 1000;
/** So many of one are looked at in a turn; the rest in the next. */
export const MOST_INSTANTS = 100;
/** Where nothing is caught up, what is as late as that is missed. */
const LATE_MS = 60_000;

/** What one does that meets `met`, and what the next one meets then. */
export function admit(overlap: Overlap, met: Met): OccurrenceOutcome {
  const isFree = !met.busy && !met.waiting;
  const most = { buffer_one: 1, buffer_all: MOST_WAITING, skip: 0, cancel_other: 0, allow_all: 0 }[overlap];
  if (overlap === "allow_all" || overlap === "cancel_other" || (overlap === "skip" ? !met.busy : isFree)) {
    met.busy = true;
    return "fired";
  }
  if (met.waiting >= most) return "skipped_overlap";
  met.waiting++;
  return "buffered";
}

/** Those of them that `cancel_other` leaves no time to: each but the last is cancelled by the next one. */
const isOverrun = (overlaps: Overlap[], i: number) =>
  overlaps[i] === "cancel_other" && overlaps.lastIndexOf("cancel_other") > i;

/**
 * What becomes of those that wait, in their order; one that goes on waiting isn't told. `met.waiting` are those ahead of
 * them, and then all that wait on.
 */
export function settle<W extends { overlap: Overlap }>(waiting: readonly W[], met: Met): [W, OccurrenceOutcome][] {
  const overlaps = waiting.map(({ overlap }) => overlap);
  return waiting.flatMap((one, i): [W, OccurrenceOutcome][] => {
    const outcome = isOverrun(overlaps, i) ? "cancelled" : admit(one.overlap, met);
    return outcome === "buffered" ? [] : [[one, outcome]];
  });
}

/** What becomes of all that is due now, from the next on. In a suspended org nothing starts, and nothing is caught up. */
export function plan(one: Planned, now: number, { suspended = false, ...met }: Met & { suspended?: boolean }): Plan {
  const { cron, timezone, overlap, catchup } = one;
  if (one.left === 0) return { occurrences: [], next: null, status: "completed", ran: 0 };
  const after = (at: number) => cron && nextOccurrence(cron, timezone, at);
  const latest = catchup === "none" ? LATE_MS - 1 : one.catchup_window_seconds * 1000;
  const due: { at: number; late: number }[] = [];
  // One that is due waits for those before it, whose jitter may be greater.
  const dueAt = (at: number) => at + jitterOf(one.id, at, one.jitter_seconds);
  let next: number | null = one.next;
  let from = Number.NEGATIVE_INFINITY;
  const isDue = (at: number | null): at is number => at !== null && Math.max(from, dueAt(at)) <= now;
  while (isDue(next) && due.length < MOST_INSTANTS) {
    from = Math.max(from, dueAt(next));
    due.push({ at: next, late: now - from });
    next = after(next);
  }
  const isLast = (i: number) => i === due.length - 1 && !isDue(next);
  const comes = due.map(
    ({ late }, i) => !suspended && late <= latest && (catchup !== "one" || late < LATE_MS || isLast(i)),
  );
  // Where each cancels the one before, only the last of them comes at all.
  const last = comes.lastIndexOf(true);

  const occurrences: Outcome[] = [];
  let ran = 0;
  for (const [i, { at }] of due.entries()) {
    const unstarted = suspended ? "suspended" : !comes[i] ? "missed" : null;
    const overrun = overlap === "cancel_other" && i < last ? "cancelled" : null;
    const outcome = unstarted ?? overrun ?? admit(overlap, met);
    occurrences.push({ planned_at: at, outcome });
    if (outcome === "fired" || outcome === "buffered") ran++;
    if (ran === one.left) return { occurrences, next: null, status: "completed", ran };
  }
  if (next !== null) return { occurrences, next, status: "active", ran };
  return { occurrences, next, status: cron || ran ? "completed" : "expired", ran };
}
