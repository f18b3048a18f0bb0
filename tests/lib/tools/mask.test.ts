import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { masker } from "../../../lib/tools/mask.ts";

const secret = fc.string({ minLength: 8, maxLength: 200, unit: "grapheme" }).filter((text) => text.isWellFormed());
const basic = (text: string) => Buffer.from(text).toString("base64");

/** The spellings in which a value is likely to stand in an answer. */
const spelled: [string, (value: string) => string][] = [
  ["as it is", (value) => value],
  ["percent-encoded", encodeURIComponent],
  ["as a form has it", (value) => new URLSearchParams({ v: value }).toString().slice(2)],
  ["escaped for JSON", (value) => JSON.stringify(value).slice(1, -1)],
  ["as base64", basic],
  ["as base64 of a URL", (value) => Buffer.from(value).toString("base64url")],
  ["as a password in base64", (value) => basic(`user:${value}`)],
  ["after three letters in base64", (value) => basic(`abc${value}xyz`)],
  ["after one letter in base64", (value) => basic(`a${value}`)],
];

describe("a mask", () => {
  for (const [how, spell] of spelled) {
    it(`hides a value ${how}, wherever it stands`, () => {
      const holds = fc.property(secret, fc.string(), fc.string(), (value, before, after) => {
        const text = `${before} ${spell(value)} ${after}`;
        const masked = masker([value])({ list: [text], [`${text} `]: 1 });
        const [, name] = Object.keys(masked) as [string, string];
        for (const seen of [masked.list[0]!, name]) {
          expect(seen).toContain("****");
          expect(seen.length).toBeLessThan(text.length);
          // At its ends base64 has letters of what stands beside it.
          const middle = spell(value).slice(9, -9);
          if (middle.length >= 8) expect(seen).not.toContain(middle);
        }
      });
      fc.assert(holds, { numRuns: 200 });
    });
  }

  it("leaves all else as it was", () => {
    const value = { a: [1, null, true, "nothing to hide", { b: "" }], "": "x" };
    expect(masker(["a secret value"])(value)).toEqual(value);
    expect(masker([])("anything")).toBe("anything");
    expect(masker(["short"])("short, and shown")).toBe("short, and shown");
    expect(masker(["exactly8"])("not exactly, but exactly8.")).toBe("not exactly, but ****.");
  });

  it("takes the longest of two that begin alike, and each of two that follow each other", () => {
    const mask = masker(["password", "password-of-the-shop", "of-the-shop-keeper"]);
    expect(mask("password-of-the-shop")).toBe("****");
    expect(mask("password-of-the-")).toBe("****-of-the-");
    expect(mask("passwordpassword")).toBe("********");
  });

  it("hides what is left of a long value that was cut, and what goes on differently only as far as it goes", () => {
    const value = Array.from({ length: 3000 }, (_, i) => `${i}-key`).join("/");
    const mask = masker([value]);
    expect(mask(`<${value}>`)).toBe("<****>");
    expect(mask(`<${value.slice(0, 1000)}`)).toBe("<****");
    expect(mask(`<${value.slice(0, 1000)}#${value.slice(0, 40)}`)).toBe(`<****#${value.slice(0, 40)}`);
    expect(mask(encodeURIComponent(value))).toBe("****");
    expect(mask(basic(`a:${value}`))).not.toContain(basic(value).slice(100, 120));
  });

  it("doesn't look at a text again and again, whatever the values", () => {
    const values = Array.from({ length: 20 }, (_, i) => `${"a".repeat(60_000 + i)}b`);
    const mask = masker([...values, ...Array.from({ length: 100 }, (_, i) => `${"a".repeat(8 + (i % 50))}c${i}`)]);
    const took = (text: string) => {
      const before = performance.now();
      mask(text);
      return performance.now() - before;
    };
    took("a".repeat(10_000));
    const hostile = [`${"a".repeat(59_999)}d`.repeat(3), `${"a".repeat(63)}d`.repeat(3_000), "a".repeat(180_000)];
    for (const text of hostile) expect(took(text)).toBeLessThan(3000);
  });
});
