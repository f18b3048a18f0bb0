/**
 * When a pattern comes next on the clock of a place: five cron fields (minute, hour, day of month, month, weekday), as
 * crontab(5) reads them, on the local clock of an IANA time zone. Where both days are restricted, either will do.
 *
 * An occurrence is the first instant at which the local clock shows its wall time or later: what a clock put forward
 * skips comes once, when it is put forward; what one put back repeats comes once, the first time. Where the hour is `*`,
 * no wall time is meant but a beat: it comes whenever the clock shows a minute of the pattern, and what is skipped
 * doesn't come.
 */
import { CronPattern } from "croner";
import { Temporal } from "temporal-polyfill";

const MINUTE = 60_000;
const DAY = 86_400_000;
const MAX_LENGTH = 200;

/** A pattern that comes, as it was read. */
export type Cron = {
  /** Of a day, in minutes after midnight, ascending. */
  times: number[];
  everyHour: boolean;
  /** Whether it comes on the day, given as its midnight on the clock. */
  isOn: (day: Date) => boolean;
};

// Croner reads more than five fields of numbers and names: nicknames, `?`, `L`, `W` and `#`.
const value = (names: string) => `(?:\\d{1,2}|${names})`;
const field = (names: string) => {
  const item = `(?:\\*|${value(names)}(?:-${value(names)})?)(?:/\\d{1,2})?`;
  return `${item}(?:,${item})*`;
};
const months = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec";
const weekdays = "sun|mon|tue|wed|thu|fri|sat";
const grammar = new RegExp(`^${["", "", "", months, weekdays].map((names) => field(names || "\\d")).join(" +")}$`, "i");

const LONGEST_MONTHS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
/** The places in a list that are on. */
const on = (list: number[]) => list.flatMap((is, i) => (is ? [i] : []));

/** Reads a pattern. Null: it is none of five fields, or names no day that any calendar has, as 30 February. */
export function parseCron(text: string): Cron | null {
  if (text.length > MAX_LENGTH || !grammar.test(text)) return null;
  let pattern: CronPattern;
  try {
    pattern = new CronPattern(text, undefined, { mode: "5-part" });
  } catch {
    return null;
  }
  const { minute, hour, day, month, dayOfWeek, starDOM, starDOW } = pattern;
  const exists = LONGEST_MONTHS.some((days, m) => month[m] && on(day)[0]! < days);
  if (starDOW && !exists) return null;
  const byDate = (at: Date) => Boolean(day[at.getUTCDate() - 1]);
  const byWeekday = (at: Date) => Boolean(dayOfWeek[at.getUTCDay()]);
  const either = (at: Date) => (!starDOM && byDate(at)) || (!starDOW && byWeekday(at));
  const isDay = starDOM && starDOW ? () => true : either;
  return {
    times: on(hour).flatMap((h) => on(minute).map((m) => h * 60 + m)),
    everyHour: text.split(/ +/)[1] === "*",
    isOn: (at) => Boolean(month[at.getUTCMonth()]) && isDay(at),
  };
}

/** Eight years without a 29 February lie about 2100, and no longer ones. */
const MOST_DAYS = 8 * 366 + 1;
/** In that time no clock is changed as often. */
const MOST_CHANGES = 100;

/** The first wall time of the pattern after this one. Wall times are milliseconds, as if the clock were UTC's. */
function nextWall({ times, isOn }: Cron, after: number): number | null {
  const first = Math.floor(after / DAY) * DAY;
  for (let day = first; day <= first + MOST_DAYS * DAY; day += DAY) {
    if (!isOn(new Date(day))) continue;
    const time = times.find((minutes) => day + minutes * MINUTE > after);
    if (time !== undefined) return day + time * MINUTE;
  }
  return null;
}

type Clock = Temporal.ZonedDateTime;
const clockAt = (ms: number, zone: string): Clock =>
  Temporal.Instant.fromEpochMilliseconds(ms).toZonedDateTimeISO(zone);
/** What the clock shows. */
const wallOf = (clock: Clock) => clock.epochMilliseconds + clock.offsetNanoseconds / 1e6;

/** The first instant at which the clock shows this wall time or later. */
function firstShown(wall: number, zone: string): number {
  const at = clockAt(wall, "UTC").toPlainDateTime().toZonedDateTime(zone, { disambiguation: "earlier" });
  return (wallOf(at) === wall ? at : at.getTimeZoneTransition("next")!).epochMilliseconds;
}

/**
 * The first occurrence after an instant, both in milliseconds of Unix time; null beyond what calendars reach. It looks at
 * no more than the days of eight years and the changes of the clock in them.
 */
export function nextOccurrence(cron: Cron, zone: string, after: number): number | null {
  let clock = clockAt(after, zone);
  let shown = wallOf(clock);
  for (let changes = 0; changes < MOST_CHANGES; changes++) {
    const wall = nextWall(cron, shown);
    if (wall === null) return null;
    if (cron.everyHour) {
      const at = clock.epochMilliseconds + (wall - wallOf(clock));
      const change = clock.getTimeZoneTransition("next");
      if (!change || at < change.epochMilliseconds) return at;
      // Until then the clock shows none of it, and from then on what it was set to.
      clock = change;
      shown = wallOf(clock) - 1;
    } else {
      const at = firstShown(wall, zone);
      if (at > after) return at;
      // It was shown before the clock was put back, and is shown again: on to what it had not reached.
      shown = wallOf(clock.getTimeZoneTransition("previous")!.subtract({ milliseconds: 1 }));
    }
  }
  return null;
}

/** So many days have every neighbour that two days can be: all years' beginnings, leap and not. */
const CYCLE = 28 * 365.25;

/**
 * The shortest time between two of its wall times, in seconds; two days stand for all that is longer. A clock put
 * forward or back may bring two occurrences nearer.
 */
export function shortestInterval({ times, isOn }: Cron): number {
  const within = times.slice(1).map((time, i) => time - times[i]!);
  const overnight = 1440 - times.at(-1)! + times[0]!;
  const shortest = Math.min(2880, ...within);
  if (overnight >= shortest) return shortest * 60;
  let wasOn = false;
  for (let day = 0; day <= CYCLE; day++) {
    const is = isOn(new Date(day * DAY));
    if (wasOn && is) return overnight * 60;
    wasOn = is;
  }
  return shortest * 60;
}

/** What the clock of a place shows at an instant, with its distance to UTC: `2030-01-31T09:00:00+01:00`. */
export const localAt = (instant: number, zone: string): string =>
  clockAt(instant, zone).toString({ timeZoneName: "never", smallestUnit: "second" });

/**
 * So much later than an instant that it was planned for, in milliseconds, something is due: up to so many seconds, the
 * same ones for the same id and instant whenever it is asked. The database's app.due_at says the same.
 */
export function jitterOf(id: string, planned: number, jitter_seconds: number): number {
  if (!jitter_seconds) return 0;
  // Of 32 bits, so that each product is a number that is exact.
  let x = Math.floor(planned / MINUTE) % 2 ** 32;
  for (let i = 0; i < id.length; i++) x = (x * 31 + id.charCodeAt(i)) % 2 ** 32;
  x = (x * 1_664_525 + 1_013_904_223) % 2 ** 32;
  return Math.floor((x * (jitter_seconds + 1)) / 2 ** 32) * 1000;
}
