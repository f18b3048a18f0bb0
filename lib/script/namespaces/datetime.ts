import { entry, namespace } from "../entry.ts";
import { fail } from "../errors.ts";
import type { Run } from "../run.ts";
import { err, ok, type Value } from "../values.ts";

const SECOND = 1000;
const UNITS: Record<string, number> = {
  millisecond: 1,
  second: SECOND,
  minute: 60 * SECOND,
  hour: 3600 * SECOND,
  day: 86_400 * SECOND,
  week: 7 * 86_400 * SECOND,
};
const MONTHS: Record<string, number> = { month: 1, quarter: 3, year: 12 };
const MONTH_NAMES = "January February March April May June July August September October November December".split(" ");
const DAY_NAMES = "Sunday Monday Tuesday Wednesday Thursday Friday Saturday".split(" ");
/** Years 1 to 9999: all of them are written with four digits. */
const EARLIEST = -62_135_596_800_000;
const LATEST = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

const ISO =
  /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?\s?(Z|z|[+-]\d\d:?\d\d|UTC|GMT)?)?$/;
const MAIL = /^(?:[A-Za-z]{3}, )?(\d{1,2}) ([A-Za-z]{3}) (\d{4}) (\d\d):(\d\d)(?::(\d\d))? (GMT|UTC|[+-]\d{4})$/;

/** Milliseconds since 1970 of a time in ISO 8601 or as in mail headers; without a zone it is UTC. Null if neither. */
function read(text: string): number | null {
  const iso = text.length < 64 ? ISO.exec(text.trim()) : null;
  if (iso) {
    const [, year, month, day, hour = 0, minute = 0, second = 0, fraction = "", zone] = iso;
    const ms = Math.trunc(Number(`0.${fraction || 0}`) * 1000);
    return instant([year, month, day, hour, minute, second].map(Number), ms, zone);
  }
  const mail = text.length < 64 ? MAIL.exec(text.trim()) : null;
  if (!mail) return null;
  const [, day, name, year, hour, minute, second = 0, zone] = mail;
  const month = MONTH_NAMES.findIndex((one) => one.slice(0, 3).toLowerCase() === name!.toLowerCase()) + 1;
  return instant([year, month, day, hour, minute, second].map(Number), 0, zone);
}

function instant(parts: number[], ms: number, zone: string | undefined): number | null {
  const [year, month, day, hour, minute, second] = parts as [number, number, number, number, number, number];
  if (month < 1 || month > 12 || day < 1 || day > daysIn(year, month) || hour > 23 || minute > 59 || second > 59) {
    return null;
  }
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  date.setUTCHours(hour, minute, second, ms);
  const offset = /^([+-])(\d\d):?(\d\d)$/.exec(zone ?? "");
  const minutes = offset ? (Number(offset[2]) * 60 + Number(offset[3])) * (offset[1] === "-" ? -1 : 1) : 0;
  return date.getTime() - minutes * 60 * SECOND;
}

const daysIn = (year: number, month: number) => new Date(Date.UTC(2000 + (year % 400), month, 0)).getUTCDate();

/** The time of a value that must be one. */
function timeOf(value: string | number): number {
  const ms = typeof value === "number" ? value * SECOND : read(value);
  if (ms === null || !inRange(ms)) throw fail("runtime", `"${String(value).slice(0, 40)}" is not a time`);
  return ms;
}

const inRange = (ms: number) => ms >= EARLIEST && ms <= LATEST;
const iso = (ms: number) => new Date(ms).toISOString();

/** The name of a unit in the singular, or "" when there is none. */
function unitOf(unit: string): string {
  const one = unit.length < 20 ? unit.toLowerCase().replace(/s$/, "") : "";
  return Object.hasOwn(UNITS, one) || Object.hasOwn(MONTHS, one) ? one : "";
}

function unknownUnit(unit: string) {
  const known = [...Object.keys(UNITS), ...Object.keys(MONTHS)].map((one) => `${one}s`).join(", ");
  return `"${unit.slice(0, 40)}" is not a unit of time; there are ${known}`;
}

function addMonths(ms: number, months: number): number {
  const date = new Date(ms);
  const count = date.getUTCFullYear() * 12 + date.getUTCMonth() + months;
  const [year, month] = [Math.floor(count / 12), ((count % 12) + 12) % 12];
  const day = Math.min(date.getUTCDate(), daysIn(year, month + 1));
  date.setUTCFullYear(year, month, day);
  return date.getTime();
}

function add(time: string | number, amount: number, unit: string): Value {
  const ms = typeof time === "number" ? time * SECOND : read(time);
  if (ms === null) return err(`"${String(time).slice(0, 40)}" is not a time`);
  const one = unitOf(unit);
  const fixed = UNITS[one];
  const months = MONTHS[one];
  if (fixed === undefined && months === undefined) return err(unknownUnit(unit));
  if (months !== undefined && !Number.isInteger(amount)) return err("months, quarters and years are added whole");
  if (Math.abs(amount) > 1e15) return err("the time is outside the years 1 to 9999");
  const sum = fixed !== undefined ? ms + Math.round(amount * fixed) : addMonths(ms, amount * months!);
  return inRange(sum) ? ok(iso(sum)) : err("the time is outside the years 1 to 9999");
}

function diff(first: string | number, second: string | number, unit: string): Value {
  const [a, b] = [first, second].map((time) => (typeof time === "number" ? time * SECOND : read(time)));
  if (a === null || b === null) return err("this is not a time");
  const one = unitOf(unit);
  const fixed = UNITS[one];
  if (fixed !== undefined) return ok((a! - b!) / fixed);
  const months = MONTHS[one];
  if (months === undefined) return err(unknownUnit(unit));
  const [early, late] = a! < b! ? [a!, b!] : [b!, a!];
  const [from, to] = [new Date(early), new Date(late)];
  let whole = (to.getUTCFullYear() - from.getUTCFullYear()) * 12 + to.getUTCMonth() - from.getUTCMonth();
  if (addMonths(early, whole) > late) whole--;
  const count = Math.floor(whole / months);
  return ok(count === 0 ? 0 : a! < b! ? -count : count);
}

function startOf(ms: number, unit: string): number {
  const date = new Date(ms);
  const one = unitOf(unit);
  if (one === "year") date.setUTCMonth(0, 1);
  else if (one === "quarter") date.setUTCMonth(date.getUTCMonth() - (date.getUTCMonth() % 3), 1);
  else if (one === "month") date.setUTCDate(1);
  else if (one === "week") date.setUTCDate(date.getUTCDate() - ((date.getUTCDay() + 6) % 7));
  else {
    const fixed = UNITS[one];
    if (fixed === undefined) throw fail("runtime", unknownUnit(unit));
    return Math.floor(ms / fixed) * fixed;
  }
  return Math.floor(date.getTime() / UNITS.day!) * UNITS.day!;
}

function endOf(ms: number, unit: string): number {
  const start = startOf(ms, unit);
  const one = unitOf(unit);
  const months = MONTHS[one];
  return (months === undefined ? start + UNITS[one]! : addMonths(start, months)) - 1;
}

interface Parts {
  year: number;
  month: number;
  day: number;
  hour: number;
  minute: number;
  second: number;
  ms: number;
  weekday: number;
  zone: string;
}

/** What the clocks and calendars of a zone show; UTC without one. */
function partsIn(run: Run, ms: number, zone: string | undefined): Parts {
  let shown = ms;
  let name = "Z";
  if (zone !== undefined && zone !== "UTC") {
    shown = shownIn(run, ms, zone);
    const minutes = Math.round((shown - Math.floor(ms / SECOND) * SECOND) / 60_000);
    const two = (n: number) => String(Math.abs(Math.trunc(n))).padStart(2, "0");
    name = `${minutes < 0 ? "-" : "+"}${two(minutes / 60)}:${two(minutes % 60)}`;
  }
  const date = new Date(shown);
  return {
    year: date.getUTCFullYear(),
    month: date.getUTCMonth() + 1,
    day: date.getUTCDate(),
    hour: date.getUTCHours(),
    minute: date.getUTCMinutes(),
    second: date.getUTCSeconds(),
    ms: new Date(ms).getUTCMilliseconds(),
    weekday: date.getUTCDay(),
    zone: name,
  };
}

/**
 * By the zone's name in small letters, of which there are more spellings than zones. What a formatter holds lies outside
 * of the heap, so that no collection is begun for it: a few are kept, and each new one is paid for.
 */
const formats = new Map<string, Intl.DateTimeFormat>();
const MAX_FORMATS = 20;
const FORMAT_BYTES = 200_000;
const FORMAT_STEPS = 5000;
/** What asking a zone's clock costs, beside any other operation. */
const ZONE_STEPS = 500;

function formatIn(run: Run, zone: string): Intl.DateTimeFormat {
  const name = zone.slice(0, 64).toLowerCase();
  const known = formats.get(name);
  if (known) return known;
  run.alloc(FORMAT_BYTES);
  run.charge(FORMAT_STEPS);
  let format: Intl.DateTimeFormat;
  try {
    format = new Intl.DateTimeFormat("en-US", {
      timeZone: name,
      hourCycle: "h23",
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
      second: "numeric",
    });
  } catch {
    throw fail("runtime", `"${zone.slice(0, 40)}" is not a time zone; they are named like "Europe/Berlin"`);
  }
  if (formats.size >= MAX_FORMATS) formats.delete(formats.keys().next().value!);
  formats.set(name, format);
  return format;
}

function shownIn(run: Run, ms: number, zone: string): number {
  run.charge(ZONE_STEPS);
  const format = formatIn(run, zone);
  const part = Object.fromEntries(format.formatToParts(ms).map(({ type, value }) => [type, Number(value)]));
  return Date.UTC(part.year!, part.month! - 1, part.day!, part.hour!, part.minute!, part.second!);
}

const two = (n: number) => String(n).padStart(2, "0");
const twelve = (hour: number) => hour % 12 || 12;

const TOKENS: Record<string, (p: Parts) => string> = {
  YYYY: (p) => String(p.year).padStart(4, "0"),
  YY: (p) => two(p.year % 100),
  MMMM: (p) => MONTH_NAMES[p.month - 1]!,
  MMM: (p) => MONTH_NAMES[p.month - 1]!.slice(0, 3),
  MM: (p) => two(p.month),
  M: (p) => String(p.month),
  DD: (p) => two(p.day),
  D: (p) => String(p.day),
  dddd: (p) => DAY_NAMES[p.weekday]!,
  ddd: (p) => DAY_NAMES[p.weekday]!.slice(0, 3),
  HH: (p) => two(p.hour),
  H: (p) => String(p.hour),
  hh: (p) => two(twelve(p.hour)),
  h: (p) => String(twelve(p.hour)),
  mm: (p) => two(p.minute),
  m: (p) => String(p.minute),
  ss: (p) => two(p.second),
  s: (p) => String(p.second),
  SSS: (p) => String(p.ms).padStart(3, "0"),
  A: (p) => (p.hour < 12 ? "AM" : "PM"),
  a: (p) => (p.hour < 12 ? "am" : "pm"),
  Z: (p) => p.zone,
};
const PERCENT: Record<string, string> = {
  Y: "YYYY",
  y: "YY",
  m: "MM",
  d: "DD",
  e: "D",
  H: "HH",
  I: "hh",
  M: "mm",
  S: "ss",
  B: "MMMM",
  b: "MMM",
  A: "dddd",
  a: "ddd",
  p: "A",
  z: "Z",
  f: "SSS",
};

function format(run: Run, ms: number, pattern: string, zone: string | undefined): string {
  const parts = partsIn(run, ms, zone);
  if (pattern.includes("%")) {
    return pattern
      .replace(/%F/g, "%Y-%m-%d")
      .replace(/%T/g, "%H:%M:%S")
      .replace(/%([A-Za-z%])/g, (all, letter: string) => {
        const token = Object.hasOwn(PERCENT, letter) ? TOKENS[PERCENT[letter]!] : undefined;
        return letter === "%" ? "%" : token ? token(parts) : all;
      });
  }
  return pattern.replace(
    /\[([^\]]*)\]|YYYY|YY|MMMM|MMM|MM|M|DD|D|dddd|ddd|HH|H|hh|h|mm|m|ss|s|SSS|A|a|Z/g,
    (token, text: string | undefined) => text ?? TOKENS[token]!(parts),
  );
}

const part = (name: string, doc: string, gives: number, get: (parts: Parts) => number) =>
  entry({
    name,
    params: ["time: time|number", "zone?: string"],
    returns: "int",
    doc,
    example: `datetime.${name}("2026-03-01T10:20:30Z")`,
    gives,
    run: (run, time, zone) => get(partsIn(run, timeOf(time), zone)),
  });

const T = '"2026-03-01T10:20:30Z"';

export const datetime = namespace(
  "datetime",
  "Times are ISO 8601 strings in UTC, or numbers of seconds since 1970. Units: milliseconds, seconds, minutes, hours, days, weeks, months, quarters, years. Zones are named like `Europe/Berlin`. The clock stands still between outbound calls.",
  [
    entry({
      name: "now",
      params: [],
      returns: "time",
      doc: "The time.",
      example: "string.length(datetime.now())",
      gives: 24,
      run: (run) => iso(run.now),
    }),
    entry({
      name: "today",
      params: ["zone?: string"],
      returns: "string",
      doc: "The date, as `YYYY-MM-DD`.",
      example: "string.length(datetime.today())",
      gives: 10,
      run: (run, zone) => {
        return format(run, run.now, "YYYY-MM-DD", zone);
      },
    }),
    entry({
      name: "unix",
      params: ["time?: time|number"],
      returns: "int",
      doc: "Whole seconds since 1970, of now or of a time.",
      example: 'datetime.unix("1970-01-02")',
      gives: 86400,
      run: (run, time) => Math.floor((time === undefined ? run.now : timeOf(time)) / SECOND),
    }),
    entry({
      name: "fromUnix",
      params: ["seconds: number"],
      returns: "time",
      doc: "The time so many seconds after 1970.",
      example: "datetime.fromUnix(86400)",
      gives: "1970-01-02T00:00:00.000Z",
      run: (_, seconds) => iso(timeOf(seconds)),
    }),
    entry({
      name: "parse",
      params: ["text: string"],
      returns: "result<time>",
      doc: "The time that a text is, in ISO 8601 or as in mail headers; without a zone it is UTC.",
      example:
        '[unwrap(datetime.parse("2026-03-01T12:00:00+02:00")), unwrap(datetime.parse("Tue, 03 Jun 2008 11:05:30 GMT")), result.isErr(datetime.parse("soon"))]',
      gives: ["2026-03-01T10:00:00.000Z", "2008-06-03T11:05:30.000Z", true],
      run: (_, text) => {
        const ms = read(text);
        return ms === null || !inRange(ms) ? err(`"${text.slice(0, 40)}" is not a time`) : ok(iso(ms));
      },
    }),
    entry({
      name: "format",
      params: ["time: time|number", "pattern: string", "zone?: string"],
      returns: "string",
      doc: "The time in the form of a pattern: YYYY MM DD HH mm ss SSS, MMM MMMM ddd dddd, h A, Z; or with `%`: %Y %m %d %H %M %S %B %A. Text in brackets stays.",
      example: `[datetime.format(${T}, "ddd D MMM YYYY, HH:mm"), datetime.format(${T}, "%Y-%m-%d"), datetime.format(${T}, "HH:mm Z", "Europe/Berlin")]`,
      gives: ["Sun 1 Mar 2026, 10:20", "2026-03-01", "11:20 +01:00"],
      run: (run, time, pattern, zone) => {
        run.text(pattern.length * 8);
        run.charge(pattern.length);
        return format(run, timeOf(time), pattern, zone);
      },
    }),
    entry({
      name: "iso",
      params: ["time: time|number"],
      returns: "time",
      doc: "The time in ISO 8601 and UTC.",
      example: 'datetime.iso("2026-03-01")',
      gives: "2026-03-01T00:00:00.000Z",
      run: (_, time) => iso(timeOf(time)),
    }),
    entry({
      name: "add",
      params: ["time: time|number", "amount: number", "unit: string"],
      returns: "result<time>",
      doc: "The time so much later; a month after the 31st is the last of the next.",
      example: '[unwrap(datetime.add("2026-01-31", 1, "months")), unwrap(datetime.add("2026-01-01", -24, "hours"))]',
      gives: ["2026-02-28T00:00:00.000Z", "2025-12-31T00:00:00.000Z"],
      run: (_, time, amount, unit) => add(time, amount, unit),
    }),
    entry({
      name: "subtract",
      params: ["time: time|number", "amount: number", "unit: string"],
      returns: "result<time>",
      doc: "The time so much earlier.",
      example: 'unwrap(datetime.subtract("2026-01-08", 1, "weeks"))',
      gives: "2026-01-01T00:00:00.000Z",
      run: (_, time, amount, unit) => add(time, -amount, unit),
    }),
    entry({
      name: "diff",
      params: ["first: time|number", "second: time|number", "unit?: string"],
      returns: "result<number>",
      doc: "How much later the first time is, in seconds unless said otherwise; months and years are counted whole.",
      example: 'unwrap(datetime.diff("2026-01-03", "2026-01-01", "days"))',
      gives: 2,
      run: (_, first, second, unit = "seconds") => diff(first, second, unit),
    }),
    entry({
      name: "compare",
      params: ["first: any", "second: any"],
      returns: "result<int>",
      doc: "-1, 0 or 1, or an error when one is not a time.",
      example:
        '[unwrap(datetime.compare("2026-01-02", "2026-01-01")), unwrap(datetime.compare(null, "2026-01-01"), -1)]',
      gives: [1, -1],
      run: (_, first, second) => {
        const [a, b] = [first, second].map((time) =>
          typeof time === "string" ? read(time) : typeof time === "number" ? time * SECOND : null,
        );
        return a === null || b === null ? err("this is not a time") : ok(Math.sign(a! - b!));
      },
    }),
    entry({
      name: "isBefore",
      params: ["first: time|number", "second: time|number"],
      returns: "bool",
      doc: "Whether the first time is earlier.",
      example: 'datetime.isBefore("2026-01-01", "2026-01-02")',
      gives: true,
      run: (_, first, second) => timeOf(first) < timeOf(second),
    }),
    entry({
      name: "isAfter",
      params: ["first: time|number", "second: time|number"],
      returns: "bool",
      doc: "Whether the first time is later.",
      example: 'datetime.isAfter("2026-01-01", "2026-01-02")',
      gives: false,
      run: (_, first, second) => timeOf(first) > timeOf(second),
    }),
    entry({
      name: "startOf",
      params: ["time: time|number", "unit: string"],
      returns: "time",
      doc: "The beginning of its day, month and so on; weeks begin on Mondays.",
      example: `[datetime.startOf(${T}, "day"), datetime.startOf(${T}, "week")]`,
      gives: ["2026-03-01T00:00:00.000Z", "2026-02-23T00:00:00.000Z"],
      run: (_, time, unit) => iso(startOf(timeOf(time), unit)),
    }),
    entry({
      name: "endOf",
      params: ["time: time|number", "unit: string"],
      returns: "time",
      doc: "The last millisecond of its day, month and so on.",
      example: `datetime.endOf(${T}, "month")`,
      gives: "2026-03-31T23:59:59.999Z",
      run: (_, time, unit) => iso(endOf(timeOf(time), unit)),
    }),
    part("year", "The year.", 2026, (p) => p.year),
    part("month", "The month, 1 to 12.", 3, (p) => p.month),
    part("day", "The day of the month.", 1, (p) => p.day),
    part("hour", "The hour, 0 to 23.", 10, (p) => p.hour),
    part("minute", "The minute.", 20, (p) => p.minute),
    part("second", "The second.", 30, (p) => p.second),
    part("weekday", "The day of the week, 1 for Monday to 7 for Sunday.", 7, (p) => p.weekday || 7),
  ],
);
