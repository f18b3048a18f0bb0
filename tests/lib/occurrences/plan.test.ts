import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { catchups, overlaps } from "../../../lib/db/schema.ts";
import {
  admit,
  type Met,
  MOST_INSTANTS,
  MOST_WAITING,
  type Planned,
  plan,
  settle,
} from "../../../lib/occurrences/plan.ts";
import { instants } from "../../../lib/occurrences/rule.ts";
import { jitterOf, parseCron } from "../../../lib/schedules/clock.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const START = Date.parse("2026-06-01T00:00:00Z");
const hourly: Planned = {
  ...{ id: "asc_0000000000000000000001", cron: parseCron("0 * * * *"), timezone: "UTC", overlap: "allow_all" },
  ...{ catchup: "all", catchup_window_seconds: 366 * 86_400, jitter_seconds: 0, left: null, next: START },
};
const free: Met = { busy: false, waiting: 0 };
const outcomes = (of: Partial<Planned>, now: number, met: Met & { suspended?: boolean } = free) =>
  plan({ ...hourly, ...of }, now, { ...met }).occurrences.map(({ outcome }) => outcome);

describe("one that meets another", () => {
  it.each([
    ["skip", "fired", "skipped_overlap", "fired"],
    ["buffer_one", "fired", "buffered", "skipped_overlap"],
    ["buffer_all", "fired", "buffered", "buffered"],
    ["cancel_other", "fired", "fired", "fired"],
    ["allow_all", "fired", "fired", "fired"],
  ] as const)("by %s is %s where it is free, %s where it is busy, and %s where one waits", (overlap, ...expected) => {
    const found = [free, { busy: true, waiting: 0 }, { busy: false, waiting: 1 }].map((met) =>
      admit(overlap, { ...met }),
    );
    expect(found).toEqual(expected);
  });

  it("waits with a thousand others at most", () => {
    expect(admit("buffer_all", { busy: true, waiting: MOST_WAITING - 1 })).toBe("buffered");
    expect(admit("buffer_all", { busy: true, waiting: MOST_WAITING })).toBe("skipped_overlap");
  });
});

describe("those that wait", () => {
  const told = (all: (typeof overlaps)[number][], met: Met) =>
    settle(
      all.map((overlap, i) => ({ overlap, i })),
      { ...met },
    ).map(([{ i }, outcome]) => [i, outcome]);
  it("begin one at a time, the first first", () => {
    expect(told(["buffer_all", "buffer_all"], free)).toEqual([[0, "fired"]]);
    expect(told(["buffer_all", "buffer_all"], { busy: true, waiting: 0 })).toEqual([]);
    expect(told(["buffer_one", "buffer_one", "buffer_one"], free)).toEqual([
      [0, "fired"],
      [2, "skipped_overlap"],
    ]);
  });
  it("are skipped, or begin beside it, as each says", () => {
    expect(told(["skip", "allow_all", "skip"], { busy: true, waiting: 0 })).toEqual([
      ...[
        [0, "skipped_overlap"],
        [1, "fired"],
        [2, "skipped_overlap"],
      ],
    ]);
    expect(told(["cancel_other", "cancel_other"], { busy: true, waiting: 0 })).toEqual([
      [0, "cancelled"],
      [1, "fired"],
    ]);
  });
});

describe("what is due", () => {
  it.each<[string, Partial<Planned>, number, string[]]>([
    ["nothing before its instant", {}, START - 1, []],
    ["at its instant", {}, START, ["fired"]],
    ["all that nobody was there for", {}, START + 2 * HOUR, ["fired", "fired", "fired"]],
    ["the latest of them alone", { catchup: "one" }, START + 2 * HOUR + MINUTE, ["missed", "missed", "fired"]],
    ["none of them", { catchup: "none" }, START + 2 * HOUR + MINUTE, ["missed", "missed", "missed"]],
    ["none, but what is less than a minute late", { catchup: "none" }, START + HOUR + MINUTE - 1, ["missed", "fired"]],
    ["those within the window", { catchup_window_seconds: 3600 }, START + 2 * HOUR, ["missed", "fired", "fired"]],
    ["not one beyond it", { catchup: "one", catchup_window_seconds: 59 }, START + MINUTE, ["missed"]],
    [
      "each in time, though the next is, too",
      { cron: parseCron("* * * * *"), catchup: "one", jitter_seconds: 0 },
      START + 59_999,
      ["fired"],
    ],
    [
      "the first, where others are skipped",
      { overlap: "skip" },
      START + 2 * HOUR,
      ["fired", "skipped_overlap", "skipped_overlap"],
    ],
    [
      "the last, where each ends the one before",
      { overlap: "cancel_other" },
      START + 2 * HOUR,
      ["cancelled", "cancelled", "fired"],
    ],
    ["as many as are left", { left: 2 }, START + 5 * HOUR, ["fired", "fired"]],
    [
      "as many as are left, of which one waits",
      { left: 2, overlap: "buffer_one" },
      START + 5 * HOUR,
      ["fired", "buffered"],
    ],
  ])("is %s", (_, of, now, expected) => expect(outcomes(of, now)).toEqual(expected));

  it("starts nothing in a suspended org, and counts nothing", () => {
    const found = plan(hourly, START + HOUR, { ...free, suspended: true });
    expect(found).toMatchObject({ ran: 0, next: START + 2 * HOUR, status: "active" });
    expect(found.occurrences.map(({ outcome }) => outcome)).toEqual(["suspended", "suspended"]);
  });

  it.each<[string, Partial<Planned>, number, string, number]>([
    ["once, it is completed", {}, START, "completed", 1],
    ["once and beyond its window, it is expired", { catchup_window_seconds: 10 }, START + 10_001, "expired", 0],
    ["once, a minute late and none is caught up, it is expired", { catchup: "none" }, START + MINUTE, "expired", 0],
  ])("%s", (_, of, now, status, ran) => {
    expect(plan({ ...hourly, cron: null, left: null, ...of }, now, free)).toMatchObject({ status, ran, next: null });
  });

  it("is nothing where as many have come as may: it is completed", () => {
    expect(plan({ ...hourly, left: 0 }, START + HOUR, { ...free })).toEqual({
      ...{ occurrences: [], next: null, status: "completed", ran: 0 },
    });
  });

  it("is told of a turn's worth, and goes on from there", () => {
    const all: number[] = [];
    let next = START;
    const now = START + 250 * HOUR;
    while (next <= now) {
      const found = plan({ ...hourly, catchup: "one", next }, now, free);
      expect(found.occurrences.length).toBeLessThanOrEqual(MOST_INSTANTS);
      all.push(...found.occurrences.map(({ planned_at }) => planned_at));
      // Only the last of all comes.
      const isLast = found.next! > now;
      expect(found.ran).toBe(isLast ? 1 : 0);
      next = found.next!;
    }
    expect(all).toEqual(Array.from({ length: 251 }, (_, i) => START + i * HOUR));
  });

  it("is each instant of its pattern once, in order, whenever it is looked at and by whatever policies", () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 2 * HOUR }), { minLength: 1, maxLength: 8 }),
        fc.constantFrom(...overlaps),
        fc.constantFrom(...catchups),
        fc.constantFrom(0, 1, 900, 3600),
        fc.constantFrom("0 * * * *", "*/7 * * * *", "* * * * *"),
        fc.boolean(),
        (waits, overlap, catchup, jitter_seconds, pattern, busy) => {
          const cron = parseCron(pattern)!;
          const rule = { ...hourly, cron, overlap, catchup, jitter_seconds };
          let [now, next] = [START, START];
          const seen: number[] = [];
          for (const wait of waits) {
            now += wait;
            const found = plan({ ...rule, next }, now, { busy, waiting: 0 });
            seen.push(...found.occurrences.map(({ planned_at }) => planned_at));
            next = found.next!;
            expect(found.ran).toBe(
              found.occurrences.filter(({ outcome }) => ["fired", "buffered"].includes(outcome)).length,
            );
            // None comes before it is due.
            for (const { planned_at } of found.occurrences) {
              expect(planned_at + jitterOf(rule.id, planned_at, jitter_seconds)).toBeLessThanOrEqual(now);
            }
          }
          const all = [START];
          for (const at of instants({ ...rule, at: null }, START)) {
            if (all.length > seen.length) break;
            all.push(at);
          }
          expect(seen).toEqual(all.slice(0, seen.length));
          expect(next).toBe(all[seen.length]);
        },
      ),
      { numRuns: 60 },
    );
  });
});
