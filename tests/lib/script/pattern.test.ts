import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Pattern } from "../../../lib/script/pattern.ts";
import { ended } from "./support.ts";

const free = { charge() {}, alloc() {}, steps: 0, restAt: 0 };
const matches = (pattern: string, text: string, flags = "") => {
  const match = ended(new Pattern(pattern, flags).exec(text, 0, free));
  return match && [match.index, match.text, ...match.groups];
};
/** What JavaScript finds, in the same form. */
const expected = (pattern: string, text: string, flags = "") => {
  const match = new RegExp(pattern, flags).exec(text);
  return match && [match.index, ...[...match].map((part) => part ?? null)];
};

describe("a pattern", () => {
  const cases: [pattern: string, text: string, flags?: string][] = [
    ["abc", "xxabcxx"],
    ["a|ab", "ab"],
    ["(a|ab)(c|bcd)", "abcd"],
    ["^a.c$", "abc"],
    ["^b", "a\nb", "m"],
    ["a$", "a\nb", "m"],
    ["^b", "a\nb"],
    [".", "\n"],
    [".", "\n", "s"],
    ["[a-c]+", "xxabcd"],
    ["[^a-c]+", "abcdef"],
    ["[\\d-]+", "a1-2b"],
    ["[]a]", "a]"],
    ["[a-]+", "b-a"],
    ["\\d{3}-\\d{4}", "call 555-1234 now"],
    ["\\w+@\\w+\\.com", "to ada@example.com"],
    ["\\bcat\\b", "concat cat"],
    ["\\Bcat", "concat cat"],
    ["\\s+", "a \t\n b"],
    ["[\\s\\S]*?</b>", "<b>\n</b></b>"],
    ["<.+?>", "<a><b>"],
    ["<.+>", "<a><b>"],
    ["a{2}", "aaaa"],
    ["a{2,}", "aaaa"],
    ["a{1,2}?", "aaaa"],
    ["a{,2}", "a{,2}"],
    ["x{", "x{"],
    ["(\\d+)-(\\d+)?", "10-"],
    ["(?:a(b)?)+", "abaa"],
    ["((a)|(b))+", "ab"],
    ["(?<year>\\d{4})-(?<month>\\d\\d)", "on 2026-03-01"],
    ["HELLO", "say hello", "i"],
    ["[A-Z]+", "abc", "i"],
    ["straße", "STRAßE", "i"],
    ["\\u0041\\x42", "AB"],
    ["\\.\\*\\[\\]\\(\\)\\/", ".*[]()/"],
    ["", "abc"],
    ["a*", "bbb"],
    ["(a*)*", "aab"],
    ["(a+)+b", "aaab"],
    ["\\[([\\w.]+)\\]\\s+\\((\\d+)\\)", "see [a.b] (12)"],
    ['"([^"]+)":\\s*\\{\\s*(\\w+),[^,]+,\\s*"([^"]+)"', '  "pen": {ink, 3, "blue"'],
  ];
  for (const [pattern, text, flags = ""] of cases) {
    it(`/${pattern}/${flags} finds in ${JSON.stringify(text)} what JavaScript finds`, () => {
      // In JavaScript `[]` is an empty class; here as elsewhere it is not closed yet.
      if (pattern === "[]a]") expect(matches("[\\]a]", text)).toEqual([0, "a"]);
      else expect(matches(pattern, text, flags)).toEqual(expected(pattern, text, flags));
    });
  }
  it("takes its flags from its beginning too", () => {
    expect(matches("(?i)ABC", "xabc")).toEqual([1, "abc"]);
  });

  const refused: [pattern: string, message: string][] = [
    ["(a)\\1", "a backreference"],
    ["(?<n>a)\\k<n>", "a backreference"],
    ["(?=a)", "lookaround"],
    ["(?!a)", "lookaround"],
    ["(?<=a)b", "lookaround"],
    ["(?<!a)b", "lookaround"],
    ["(a", "a group that is not closed"],
    ["a)", "a `)` too many"],
    ["[a", "a class that is not closed"],
    ["[z-a]", "a range that goes backwards"],
    ["*a", "nothing before it to repeat"],
    ["a**", "repeats a repetition"],
    ["a{2,1}", "at least more often than at most"],
    ["a{5000}", "repeats more than 1000 times"],
    ["(a{1000}){1000}", "is too long"],
    ["((a{100}){100}){100}", "is too long"],
    ["(".repeat(200), "nested too deep"],
    ["\\p{L}", "is not supported"],
    ["\\", "ends with a backslash"],
    ["(?>a)", "a kind that is not supported"],
    ["a".repeat(3000), "longer than 2000"],
  ];
  for (const [pattern, message] of refused) {
    it(`/${pattern.slice(0, 30)}/ is refused: ${message}`, () => {
      expect(() => new Pattern(pattern)).toThrow(message);
    });
  }
  it("with a flag we do not know is refused", () => {
    expect(() => new Pattern("a", "y")).toThrow("has the flag `y`");
  });

  it("agrees with JavaScript on small patterns, groups included", () => {
    const { pattern } = fc.letrec<{ pattern: string; solid: string; atom: string }>((tie) => ({
      atom: fc.constantFrom("a", "b", "c", ".", "[ab]", "[^a]", "\\w"),
      // What is repeated takes room: see the one corner that the module names.
      solid: fc.oneof(
        { depthSize: "small" },
        tie("atom"),
        fc.tuple(tie("solid"), tie("solid")).map(([a, b]) => a + b),
        fc.tuple(tie("solid"), tie("solid")).map(([a, b]) => `(${a}|${b})`),
        fc.tuple(tie("solid"), fc.constantFrom("+", "+?", "{2}", "{1,2}")).map(([a, times]) => `(?:${a})${times}`),
      ),
      pattern: fc.oneof(
        { depthSize: "small" },
        tie("solid"),
        fc.constantFrom("^", "$", "\\b"),
        fc.tuple(tie("pattern"), tie("pattern")).map(([a, b]) => a + b),
        fc.tuple(tie("pattern"), tie("pattern")).map(([a, b]) => `(${a}|${b})`),
        fc.tuple(tie("solid"), fc.constantFrom("*", "*?", "?", "??", "{0,2}")).map(([a, times]) => `(${a})${times}`),
      ),
    }));
    const text = fc.string({ unit: fc.constantFrom("a", "b", "c", " "), maxLength: 8 });
    fc.assert(
      fc.property(pattern, text, (source, target) => {
        expect(matches(source, target)).toEqual(expected(source, target));
      }),
      { numRuns: 3000 },
    );
  });
  it("never throws anything but its own errors, whatever the text of it", () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(..."ab(|)[]{}*+?^$.\\d-1,:<>"), maxLength: 20 }), (source) => {
        try {
          ended(new Pattern(source).exec("ab12", 0, free));
        } catch (error) {
          expect((error as Error).message).toContain("the pattern");
        }
      }),
      { numRuns: 3000 },
    );
  });

  const catastrophic: [pattern: string, text: string][] = [
    ["(a+)+$", `${"a".repeat(50_000)}!`],
    ["(a|aa)+$", `${"a".repeat(50_000)}!`],
    ["(.*)*x", "a".repeat(20_000)],
    ["^(([a-z])+.)+[A-Z]([a-z])+$", "a".repeat(20_000)],
    ["(x+x+)+y", "x".repeat(50_000)],
  ];
  for (const [pattern, text] of catastrophic) {
    it(`/${pattern}/ takes time in proportion to the text`, () => {
      let steps = 0;
      const charge = (n: number) => {
        steps += n;
      };
      expect(ended(new Pattern(pattern).exec(text, 0, { ...free, charge }))).toBeNull();
      expect(steps).toBeGreaterThan(text.length);
      expect(steps).toBeLessThan(text.length * 40);
    });
  }
});
