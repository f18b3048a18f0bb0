import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { base62, isId, newId, parseId } from "../../lib/ids.ts";

describe("newId", () => {
  it("sorts by time of making, also within a millisecond", () => {
    const made = Array.from({ length: 20_000 }, () => newId("agent"));
    expect(made).toEqual([...made].sort());
    expect(new Set(made).size).toBe(made.length);
  });
  it("is the kind's prefix and 22 base62 characters", () => {
    expect(newId("org")).toMatch(/^org_[0-9A-Za-z]{22}$/);
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
