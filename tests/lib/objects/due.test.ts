import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { AT_ONCE, type Due, LOOK_AGAIN_MS, nextAlarm, retryDelay, toBegin } from "../../../lib/objects/due.ts";

const NOW = 1_000_000;
const item = (name: string, at: number): Due => ({ name, at, attempts: 0 });
const names = (list: Due[]) => list.map(({ name }) => name);
const byTime = (a: Due, b: Due) => a.at - b.at || (a.name < b.name ? -1 : 1);

describe("what begins", () => {
  it.each<[what: string, list: Due[], running: string[], begins: string[]]>([
    ["nothing of nothing", [], [], []],
    ["what is due, the earliest first", [item("b", NOW - 2), item("a", NOW - 1)], [], ["b", "a"]],
    ["what is due at this very instant", [item("a", NOW)], [], ["a"]],
    ["not what is to come", [item("a", NOW), item("b", NOW + 1)], [], ["a"]],
    ["not what is in flight", [item("a", NOW), item("b", NOW)], ["a"], ["b"]],
  ])("%s", (_, list, running, begins) => {
    expect(names(toBegin(list, new Set(running), NOW))).toEqual(begins);
  });

  it("is never more than may be in flight at once", () => {
    const list = Array.from({ length: AT_ONCE + 1 }, (_, i) => item(`d${i}`, NOW));
    expect(toBegin(list, new Set(), NOW)).toHaveLength(AT_ONCE);
    expect(toBegin(list, new Set(["x", "y"]), NOW)).toHaveLength(AT_ONCE - 2);
  });
});

describe("the alarm", () => {
  const full = new Set(Array.from({ length: AT_ONCE }, (_, i) => `r${i}`));
  it.each<[what: string, list: Due[], running: Set<string>, at: number]>([
    ["isn't set for nothing", [], new Set(), Number.POSITIVE_INFINITY],
    ["is the earliest of what is to come", [item("a", NOW + 9), item("b", NOW + 10)], new Set(), NOW + 9],
    ["looks again while something is in flight", [item("a", NOW - 9)], new Set(["a"]), NOW + LOOK_AGAIN_MS],
    ["comes sooner for what is sooner", [item("a", NOW - 9), item("b", NOW + 9)], new Set(["a"]), NOW + 9],
    ["doesn't come for what has no room yet", [item("a", NOW - 9)], full, NOW + LOOK_AGAIN_MS],
  ])("%s", (_, list, running, at) => {
    expect(nextAlarm(list, running, NOW)).toBe(at);
  });
});

it("retries after 1 s, 2 s, 4 s and so on up to a minute, a fifth more or less", () => {
  const delays = (random: number) => [1, 2, 3, 6, 7, 50].map((attempts) => retryDelay(attempts, random));
  expect(delays(0.5)).toEqual([1_000, 2_000, 4_000, 32_000, 60_000, 60_000]);
  expect(delays(0)).toEqual([800, 1_600, 3_200, 25_600, 48_000, 48_000]);
  expect(delays(1)).toEqual([1_200, 2_400, 4_800, 38_400, 72_000, 72_000]);
});

const lists = fc
  .uniqueArray(fc.record({ name: fc.string({ maxLength: 3 }), at: fc.integer({ min: NOW - 30, max: NOW + 30 }) }), {
    selector: ({ name }) => name,
    maxLength: 60,
  })
  .map((items) => items.map(({ name, at }) => item(name, at)).sort(byTime));
const stages = lists.chain((list) =>
  fc.record({
    list: fc.constant(list),
    running: fc.subarray(names(list), { maxLength: Math.min(AT_ONCE, list.length) }).map((some) => new Set(some)),
  }),
);

it("decides the same from the list's head as from the whole list", () => {
  fc.assert(
    fc.property(stages, ({ list, running }) => {
      const head = list.slice(0, AT_ONCE);
      const begun = toBegin(head, running, NOW);
      expect(begun).toEqual(toBegin(list, running, NOW));
      const now = new Set([...running, ...names(begun)]);
      expect(nextAlarm(head, now, NOW)).toBe(nextAlarm(list, now, NOW));
    }),
  );
});

it("leaves nothing without an alarm, and sets none for an instant that is past", () => {
  fc.assert(
    fc.property(stages, ({ list, running }) => {
      const begun = new Set([...running, ...names(toBegin(list, running, NOW))]);
      const alarm = nextAlarm(list, begun, NOW);
      expect(begun.size).toBeLessThanOrEqual(AT_ONCE);
      expect(alarm).toBeGreaterThan(NOW);
      // Whoever waits is begun at its instant, or when there is room for it.
      for (const { name, at } of list) {
        if (!begun.has(name)) expect(alarm <= at || begun.size === AT_ONCE).toBe(true);
      }
      if (begun.size) expect(alarm).toBeLessThanOrEqual(NOW + LOOK_AGAIN_MS);
    }),
  );
});
