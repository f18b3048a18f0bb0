import fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import { base62, isId, newId, parseId } from "../../lib/ids.ts";

const increases = (ids: string[]) => ids.every((id, i) => i === 0 || ids[i - 1]! < id);

describe("newId", () => {
  it("sorts by time of making, also within a millisecond", () => {
    const made = Array.from({ length: 20_000 }, () => newId("agent"));
    expect(increases(made)).toBe(true);
  });
  it("is the kind's prefix and 22 base62 characters", () => {
    expect(newId("org")).toMatch(/^org_[0-9A-Za-z]{22}$/);
  });
});

describe("the UUIDv7 of an id", () => {
  afterEach(() => vi.restoreAllMocks());

  const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  /** Its fields (RFC 9562 §5.7), read by the test's own hand. */
  function fieldsOf(id: string) {
    const value = [...id.slice(4)].reduce((sum, letter) => sum * 62n + BigInt(ALPHABET.indexOf(letter)), 0n);
    const bits = (from: bigint, width: bigint) => Number((value >> from) & ((1n << width) - 1n));
    return { ms: bits(80n, 48n), version: bits(76n, 4n), counter: bits(64n, 12n), variant: bits(62n, 2n) };
  }
  /** The module as a new isolate has it, and a clock that the test winds. */
  async function isolate(start: number) {
    vi.resetModules();
    const clock = vi.spyOn(Date, "now").mockReturnValue(start);
    const fresh = await import("../../lib/ids.ts");
    return {
      make: (count: number) => Array.from({ length: count }, () => fresh.newId("agent")),
      wind: (to: number) => clock.mockReturnValue(to),
    };
  }
  // Bits in each of its six bytes.
  const NOON = 0x01a2_b3c4_d5e6;

  it("says in which millisecond it was made, and its version and variant", async () => {
    const { make, wind } = await isolate(NOON);
    for (const ms of [NOON, NOON + 1, NOON + 0x1_0000, NOON + 0x1_0000_0000]) {
      wind(ms);
      expect(fieldsOf(make(1)[0]!)).toMatchObject({ ms, version: 7, variant: 0b10 });
    }
  });

  it("grows through thousands made while the clock stands still, past the counter's end", async () => {
    const { make } = await isolate(NOON);
    const made = make(20_000);
    expect(increases(made)).toBe(true);
    const milliseconds = new Set(made.map((id) => fieldsOf(id).ms - NOON));
    // 4,096 to a millisecond, the first one begun somewhere in its lower half: it borrows no more than it needs.
    expect(Math.max(...made.map((id) => fieldsOf(id).counter))).toBe(0xfff);
    expect([...milliseconds]).toEqual([0, 1, 2, 3, 4, ...(milliseconds.size > 5 ? [5] : [])]);
  });

  it("grows when the clock goes back, and when it has caught up again", async () => {
    const { make, wind } = await isolate(NOON);
    const made = make(10);
    for (const ms of [NOON - 1, NOON - 60_000, 0, NOON, NOON + 1, NOON - 1, NOON + 2]) {
      wind(ms);
      made.push(...make(10));
    }
    expect(increases(made)).toBe(true);
    expect(fieldsOf(made.at(-1)!).ms).toBe(NOON + 2);
  });

  it("grows from the borrowed milliseconds on to the clock's own", async () => {
    const { make, wind } = await isolate(NOON);
    const made = make(10_000);
    for (let ms = NOON + 1; ms < NOON + 6; ms++) {
      wind(ms);
      made.push(...make(3));
    }
    expect(increases(made)).toBe(true);
  });

  it("begins each millisecond's counter anywhere in the lower half: two isolates seldom meet, and 2,048 have room", async () => {
    const { make, wind } = await isolate(NOON);
    const first: number[] = [];
    for (let ms = NOON; ms < NOON + 300; ms++) {
      wind(ms);
      first.push(fieldsOf(make(1)[0]!).counter);
    }
    expect(Math.max(...first)).toBeLessThan(0x800);
    expect(Math.max(...first)).toBeGreaterThan(0x700);
    expect(new Set(first).size).toBeGreaterThan(200);
  });

  it("is random in its last 62 bits", async () => {
    const { make } = await isolate(NOON);
    expect(new Set(make(1000).map((id) => id.slice(-9))).size).toBe(1000);
  });
});

describe("base62", () => {
  it("keeps the order of the bytes", () => {
    const bytes = fc.uint8Array({ minLength: 16, maxLength: 16 });
    fc.assert(
      fc.property(bytes, bytes, (a, b) => {
        const order = Math.sign(Buffer.compare(a, b));
        const [x, y] = [base62(a, 22), base62(b, 22)];
        expect(x < y ? -1 : x > y ? 1 : 0).toBe(order);
      }),
    );
  });
});

describe("parseId", () => {
  it.each([
    "",
    "agi_",
    "agi",
    "agi-0123456789012345678901",
    "org_0123456789012345678901",
    "agi_012345678901234567890",
    "agi_01234567890123456789012",
    "agi_012345678901234567890-",
    "AGI_0123456789012345678901",
    " agi_0123456789012345678901",
    "agi_0123456789012345678901\n",
  ])("refuses %j as an absent row", (text) => {
    expect(isId("agent", text)).toBe(false);
    expect(() => parseId("agent", text)).toThrow("No such agent.");
  });
  it("takes in what newId makes", () => {
    const id = newId("agent");
    expect(parseId("agent", id)).toBe(id);
  });
});
