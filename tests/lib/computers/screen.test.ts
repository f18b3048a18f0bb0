import * as fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import { linesOf, readLink, spriteUrl, toSvg } from "../../../lib/computers/screen.ts";
import { newId } from "../../../lib/ids.ts";

describe("a terminal", () => {
  it.each([
    ["$ ls\na\nb", "ls", "a\nb\n"],
    ["$ true", "true", ""],
    ["$ x\nred plain", "x", "\u001b[1;31mred\u001b[0m plain\u0007\r\n"],
    ["$ x\ntitle", "x", "\u001b]0;a title\u0007title"],
    ["$ x\nab", "x", "a\u202eb\u200b\u0000"],
    ["$ two\nlines\nout", "two\nlines", "out"],
  ])("shows %j", (shown, command, output) => {
    expect(linesOf(command, output)).toBe(shown);
  });

  it("has at most 24 lines of 120 characters, none of which is a sign of control, whatever is said", () => {
    const said = fc.string({ unit: "binary", maxLength: 3000 });
    fc.assert(
      fc.property(said, said, (command, output) => {
        const lines = linesOf(command, output).split("\n");
        expect(lines.length).toBeLessThanOrEqual(24);
        expect(Math.max(...lines.map((line) => Array.from(line).length))).toBeLessThanOrEqual(120);
        expect(lines.join("")).not.toMatch(/[\p{Cc}\p{Cf}\p{Cs}]/u);
      }),
      { numRuns: 30 },
    );
  });

  it("takes a bounded time for 1 MB of whatever takes longest", () => {
    for (const piece of ["\u001b", "\u001b]", "\u001b[0;", "\n", "x"]) {
      const since = performance.now();
      linesOf("x", piece.repeat(1_000_000 / piece.length));
      expect(performance.now() - since).toBeLessThan(2_000);
    }
  });
});

it("draws text alone, whatever it is made of", () => {
  const svg = new TextDecoder().decode(toSvg(`<a>"'&`, `</text><script>&amp;"'`));
  expect(svg).toContain("<title>&lt;a&gt;&quot;&#39;&amp;</title>");
  expect(svg).toContain(">&lt;/text&gt;&lt;script&gt;&amp;amp;&quot;&#39;</text>");
  expect(svg).not.toContain("<script");
});

describe("a link", () => {
  const env = { ROOT_SECRETS: "r".repeat(40), ISSUERS: "https://one.example, https://two.example" } as never;
  const place = { app_id: newId("app"), sandbox_id: "-", org_id: newId("org") } as const;
  const row = { ...place, id: newId("agent_computer"), status: "ready" } as never as Parameters<typeof spriteUrl>[1];
  const linkOf = async () => new URL((await spriteUrl(env, row))!).searchParams.get("link")!;
  afterEach(() => void vi.useRealTimers());

  it("leads to its computer's place for an hour, and nowhere then", async () => {
    vi.useFakeTimers({ now: 0 });
    const link = await linkOf();
    vi.setSystemTime(3_599_999);
    expect(await readLink(env, row.id, link)).toEqual(place);
    vi.setSystemTime(3_600_000);
    expect(await readLink(env, row.id, link)).toBe(null);
  });

  it("is of one computer, and of one deployment", async () => {
    const link = await linkOf();
    expect(await readLink(env, newId("agent_computer"), link)).toBe(null);
    expect(await readLink({ ROOT_SECRETS: "s".repeat(40) } as never, row.id, link)).toBe(null);
    for (const flawed of ["", "x", `${link}A`, link.slice(1)]) expect(await readLink(env, row.id, flawed)).toBe(null);
  });

  it("is of none that isn't ready", async () => {
    expect(await spriteUrl(env, { ...row, status: "terminated" })).toBe(null);
  });
});
