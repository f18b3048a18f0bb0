import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { jitterOf, localAt, nextOccurrence, parseCron, shortestInterval } from "../../../lib/schedules/clock.ts";
import { isTimeZone } from "../../../lib/schedules/time-zone.ts";

const MINUTE = 60_000;
const DAY = 86_400_000;
const next = (pattern: string, zone: string, after: string) => {
  const at = nextOccurrence(parseCron(pattern)!, zone, Date.parse(after));
  return at === null ? null : new Date(at).toISOString().replace(":00.000Z", "Z");
};
/** The first `n` after an instant. */
function following(n: number, pattern: string, zone: string, after: string) {
  const found = [after];
  while (found.length <= n) found.push(next(pattern, zone, found.at(-1)!)!);
  return found.slice(1);
}

describe("a pattern", () => {
  it.each([
    "* * * * *",
    "*/15 9-17 * * mon-FRI",
    "0,30 1-23/2 1,15 jan,JUL *",
    "0 0 29 2 *",
    "0 0 * * 7",
    "0 0 30 2 1",
  ])("is five fields: %s", (text) => expect(parseCron(text)).not.toBeNull());

  it.each([
    ...["", "* * * *", "* * * * * *", " * * * * *", "* * * * * ", "*\t* * * *", "@daily", "@reboot", "0 0 L * *"],
    ...[
      "0 0 ? * *",
      "0 0 15W * *",
      "0 0 * * 5#2",
      "0 0 * * 5L",
      "0 0 LW * *",
      "+0 0 * * *",
      "60 * * * *",
      "0 24 * * *",
    ],
    ...[
      "0 0 0 * *",
      "0 0 32 * *",
      "0 0 * 13 *",
      "0 0 * 0 *",
      "0 0 * * 8",
      "5-1 * * * *",
      "*/0 * * * *",
      "5/15 * * * *",
    ],
    ...[
      "1,, * * * *",
      "jan * * * *",
      "0 0 * mon *",
      "0 0 * * jan",
      "0 0 * * mond",
      "-1 * * * *",
      "* * * * *\n",
      "١ * * * *",
    ],
    `${"0,".repeat(200)}0 * * * *`,
  ])("is nothing else: %j", (text) => expect(parseCron(text)).toBeNull());

  it.each(["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 31 feb *", "0 0 30-31 2 *"])("comes: %s never does", (text) => {
    expect(parseCron(text)).toBeNull();
  });

  it("with both days restricted comes on either", () => {
    expect(following(3, "0 9 1 * mon", "UTC", "2026-05-28T00:00Z")).toEqual([
      ...["2026-06-01T09:00Z", "2026-06-08T09:00Z", "2026-06-15T09:00Z"],
    ]);
  });

  it("of a 29 February is found over the turn of a century without one", () => {
    expect(next("0 0 29 2 *", "Europe/Berlin", "2096-03-01T00:00Z")).toBe("2104-02-28T23:00Z");
  });
});

describe("a wall time", () => {
  it("that the clock skips comes once, when it is put forward", () => {
    const after = "2026-03-28T12:00Z";
    expect(following(2, "30 2 * * *", "Europe/Berlin", after)).toEqual(["2026-03-29T01:00Z", "2026-03-30T00:30Z"]);
    expect(following(3, "*/20 2 * * *", "Europe/Berlin", after)).toEqual([
      ...["2026-03-29T01:00Z", "2026-03-30T00:00Z", "2026-03-30T00:20Z"],
    ]);
  });

  it("that the clock repeats comes once, the first time", () => {
    const after = "2026-10-31T12:00Z";
    expect(following(2, "30 1 * * *", "America/New_York", after)).toEqual(["2026-11-01T05:30Z", "2026-11-02T06:30Z"]);
    expect(next("30 1 * * *", "America/New_York", "2026-11-01T06:10Z")).toBe("2026-11-02T06:30Z");
  });

  it("of any hour is a beat: it goes on while the clock repeats, and what is skipped doesn't come", () => {
    expect(following(4, "30 * * * *", "Europe/Berlin", "2026-10-25T00:00Z")).toEqual([
      ...["2026-10-25T00:30Z", "2026-10-25T01:30Z", "2026-10-25T02:30Z", "2026-10-25T03:30Z"],
    ]);
    expect(following(2, "15 * * * *", "Australia/Lord_Howe", "2026-10-03T14:00Z")).toEqual([
      ...["2026-10-03T14:45Z", "2026-10-03T16:15Z"],
    ]);
  });
});

const zones = [
  ...["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kathmandu", "UTC"],
  ...["America/Santiago", "Pacific/Chatham", "Africa/Cairo", "Asia/Beirut", "America/Havana", "Atlantic/Azores"],
];
/** Days from which each zone is looked at: those of the clock's changes in 2026 among them. */
const starts = [
  "2026-02-14",
  "2026-03-07",
  "2026-03-21",
  "2026-03-28",
  "2026-04-04",
  "2026-10-03",
  "2026-10-24",
  "2026-10-31",
  "2026-09-05",
  "2026-09-26",
  "2026-04-23",
  "2026-10-28",
];
const DAYS = 4;

const walls = new Map<string, number[]>();
/** What the clock shows in each minute, as Intl says, which the code under test doesn't ask about time. */
function wallsOf(zone: string, start: string): number[] {
  const key = `${zone} ${start}`;
  if (!walls.has(key)) {
    const clock = new Intl.DateTimeFormat("en-US", {
      ...{ timeZone: zone, hourCycle: "h23", year: "numeric", month: "numeric", day: "numeric" },
      ...{ hour: "numeric", minute: "numeric" },
    });
    const shown = (at: number) => {
      const of = Object.fromEntries(clock.formatToParts(at).map(({ type, value }) => [type, Number(value)]));
      return Date.UTC(of.year!, of.month! - 1, of.day, of.hour, of.minute);
    };
    const from = Date.parse(start);
    walls.set(
      key,
      Array.from({ length: (DAYS * DAY) / MINUTE }, (_, i) => shown(from + i * MINUTE)),
    );
  }
  return walls.get(key)!;
}

type Field = { text: string; has: (n: number) => boolean };
const fieldOf = (low: number, high: number): fc.Arbitrary<Field> => {
  const one = fc.integer({ min: low, max: high });
  const range = fc.tuple(one, one).map(([a, b]): [number, number] => [Math.min(a, b), Math.max(a, b)]);
  const step = fc.integer({ min: 1, max: high - low });
  const any: Field = { text: "*", has: () => true };
  return fc.oneof(
    fc.constant(any),
    step.map((by) => ({ text: `*/${by}`, has: (n: number) => (n - low) % by === 0 })),
    fc
      .uniqueArray(one, { minLength: 1, maxLength: 4 })
      .map((all) => ({ text: all.join(), has: (n: number) => all.includes(n) })),
    range.map(([a, b]) => ({ text: `${a}-${b}`, has: (n: number) => a <= n && n <= b })),
    fc
      .tuple(range, step)
      .filter(([[a, b], by]) => by <= b - a + 1)
      .map(([[a, b], by]) => ({ text: `${a}-${b}/${by}`, has: (n: number) => a <= n && n <= b && (n - a) % by === 0 })),
  );
};
const patterns = fc
  .tuple(fieldOf(0, 59), fieldOf(0, 23), fieldOf(1, 31), fc.constant("*"), fieldOf(0, 6))
  .map(([minute, hour, date, month, weekday]) => {
    const isOn = (wall: Date) => {
      if (date.text === "*" || weekday.text === "*")
        return date.has(wall.getUTCDate()) && weekday.has(wall.getUTCDay());
      return date.has(wall.getUTCDate()) || weekday.has(wall.getUTCDay());
    };
    const matches = (wall: number) => {
      const at = new Date(wall);
      return minute.has(at.getUTCMinutes()) && hour.has(at.getUTCHours()) && isOn(at);
    };
    return {
      text: [minute, hour, date, { text: month }, weekday].map(({ text }) => text).join(" "),
      matches,
      everyHour: hour.text === "*",
    };
  });

describe("the next occurrence", () => {
  it("is the one that a walk over every minute finds, wherever and whenever the clock is changed", () => {
    fc.assert(
      fc.property(
        ...[patterns, fc.constantFrom(...zones), fc.constantFrom(...starts)],
        fc.integer({ min: 0, max: DAYS * 1440 - 1 }),
        fc.integer({ min: 0, max: MINUTE - 1 }),
        ({ text, matches, everyHour }, zone, start, minute, ms) => {
          const shown = wallsOf(zone, start);
          const after = Date.parse(start) + minute * MINUTE + ms;
          // By minutes: what the clock shows, and, the first time that it gets there, what it skipped on the way.
          let reached = shown[0]!;
          const comes = shown.map((wall) => {
            if (everyHour) return matches(wall);
            let is = false;
            for (; reached < wall; reached += MINUTE) is ||= matches(reached + MINUTE);
            return is;
          });
          const at = comes.findIndex((is, i) => is && Date.parse(start) + i * MINUTE > after);
          const found = nextOccurrence(parseCron(text)!, zone, after);
          if (at === -1) expect(found === null || found >= Date.parse(start) + DAYS * DAY).toBe(true);
          else expect(found).toBe(Date.parse(start) + at * MINUTE);
        },
      ),
      { numRuns: 1000 },
    );
  });

  it("costs little, however rare it is", () => {
    const cron = parseCron("59 23 29 2 *")!;
    const begun = performance.now();
    for (let i = 0; i < 50; i++) {
      for (const zone of zones) nextOccurrence(cron, zone, Date.parse("2096-03-01T00:00Z") + i * DAY);
    }
    expect((performance.now() - begun) / (50 * zones.length)).toBeLessThan(20);
  });
});

describe("every hour by its number", () => {
  it("is wall times, and no beat: what is skipped comes when the clock is put forward, what is repeated once", () => {
    for (const hours of ["0-23", "*/1"]) {
      expect(following(3, `30 ${hours} * * *`, "Europe/Berlin", "2026-03-29T00:00Z")).toEqual([
        ...["2026-03-29T00:30Z", "2026-03-29T01:00Z", "2026-03-29T01:30Z"],
      ]);
      expect(following(2, `30 ${hours} * * *`, "Europe/Berlin", "2026-10-25T00:00Z")).toEqual([
        ...["2026-10-25T00:30Z", "2026-10-25T02:30Z"],
      ]);
    }
  });
});

describe("what a clock shows", () => {
  it.each([
    ["2026-01-31T08:00Z", "Europe/Berlin", "2026-01-31T09:00:00+01:00"],
    ["2026-10-03T15:30Z", "Australia/Lord_Howe", "2026-10-04T02:30:00+11:00"],
    ["2026-01-31T08:00Z", "UTC", "2026-01-31T08:00:00+00:00"],
  ])("at %s in %s is %s", (at, zone, shown) => expect(localAt(Date.parse(at), zone)).toBe(shown));
});

describe("jitter", () => {
  it("is whole seconds within its bound, the same for the same, and spreads both ids and instants", () => {
    const ids = Array.from({ length: 1000 }, (_, i) => `asc_${String(i).padStart(22, "0")}`);
    for (const seen of [ids.map((id) => jitterOf(id, DAY, 59)), ids.map((_, i) => jitterOf(ids[0]!, i * MINUTE, 59))]) {
      expect(seen.every((ms) => ms % 1000 === 0 && ms >= 0 && ms <= 59_000)).toBe(true);
      // Of a thousand, some 17 fall on each of 60 seconds.
      const counts = Array.from({ length: 60 }, (_, s) => seen.filter((ms) => ms === s * 1000).length);
      expect(Math.min(...counts)).toBeGreaterThan(0);
      expect(Math.max(...counts)).toBeLessThan(60);
    }
    expect(jitterOf(ids[0]!, DAY, 0)).toBe(0);
  });
});

describe("the shortest interval", () => {
  it.each([
    ...[["* * * * *", 60] as const, ["*/15 * * * *", 900] as const, ["*/50 * * * *", 600] as const],
    ...[["0 * * * *", 3600] as const, ["0 0,23 * * *", 3600] as const, ["0 0,23 * * mon", 82_800] as const],
    ...[["0 0,23 * * mon,tue", 3600] as const, ["0 0,23 * * sat,sun", 3600] as const, ["0 12 * * *", 86_400] as const],
    ...[["0 12 1 * *", 172_800] as const, ["0 12 28 2 *", 172_800] as const, ["0 0,23 31 12 *", 82_800] as const],
    ...[["0 0,23 1,31 1,12 *", 3600] as const, ["0 0,23 29 2 mon", 3600] as const],
  ])("of %s is %i s", (pattern, seconds) => expect(shortestInterval(parseCron(pattern)!)).toBe(seconds));

  it("is the least that a walk over the years finds", () => {
    fc.assert(
      fc.property(patterns, ({ text, matches }) => {
        const cron = parseCron(text)!;
        let [last, least] = [Number.NEGATIVE_INFINITY, 172_800];
        // A walk of two months bounds it from above; no gap in it may be shorter.
        for (let wall = Date.parse("2026-01-01"); wall < Date.parse("2026-03-01"); wall += MINUTE) {
          if (!matches(wall)) continue;
          least = Math.min(least, (wall - last) / 1000);
          last = wall;
        }
        expect(shortestInterval(cron)).toBeLessThanOrEqual(least);
        expect(cron.times.length < 2 || shortestInterval(cron) >= 60).toBe(true);
      }),
      { numRuns: 30 },
    );
  });
});

describe("a time zone", () => {
  it.each(["Etc/UTC", "UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Asia/Calcutta"])(
    "is of IANA: %s",
    (name) => expect(isTimeZone(name)).toBe(true),
  );
  it.each(["", "+02:00", "Mars/Olympus", "Europe/Berlin ", "x".repeat(100)])("is no %j", (name) =>
    expect(isTimeZone(name)).toBe(false),
  );
});
