/** Scripts in workerd itself, each in a process of its own: what they take of its memory, and of its time. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { anIsolate, bundled } from "./isolate.ts";
import { functions, type Worst, worstOf } from "./worst.ts";

let code: Awaited<ReturnType<typeof bundled>>;
beforeAll(async () => {
  code = await bundled();
});
afterAll(() => code.close());

/** Something of most kinds, so that what is made once an isolate is there. */
const WARM = `let l = array.map(array.range(1000), fn(i) { { a: i, b: string.uppercase("a" + i) } })
string.length(string.toJson(l))`;

type Asked = Parameters<Awaited<ReturnType<typeof anIsolate>>["ask"]>[0];

/** By how many MB a fresh process grows at most while it is asked. */
async function growth(asked: Asked): Promise<number> {
  const isolate = await anIsolate(code.folder);
  try {
    for (const n of [1, 2]) await isolate.ask({ source: `${WARM} + ${n}` });
    await isolate.forget();
    const before = await isolate.bytes("VmHWM");
    await isolate.ask(asked);
    return ((await isolate.bytes("VmHWM")) - before) / 1024 / 1024;
  } finally {
    await isolate.close();
  }
}

/** Calls a function again and again and keeps what it gives, until a limit ends it. */
const piling = ({ prelude, call, test }: Worst): Asked => ({
  source: `${prelude}\nlet kept = array.map(array.range(100000), fn(i) { ${call} })\narray.length(kept)`,
  ...{ test, answer: { status: 200, l: ["a", 1.5, {}] }, limits: { steps: 1_000_000 } },
});

// What a process holds is read from /proc.
describe.runIf(process.platform === "linux")(
  "a run keeps below 64 MB over what it started with",
  { timeout: 300_000 },
  () => {
    const calls = functions.flatMap(([name, native]) => worstOf(name, native));
    /** Of numbers and times: nothing of theirs can be large, so one process does for all. */
    const small = calls.filter(({ prelude, call }) => prelude === "" && /^(math|datetime\.(?!format))/.test(call));
    const large = calls.filter((one) => !small.includes(one));

    for (let part = 0; part < 4; part++) {
      const mine = large.filter((_, i) => i % 4 === part);
      it.concurrent(`whatever function it calls: ${mine.length} of ${large.length} at their worst, ${part + 1} of 4`, async ({
        expect,
      }) => {
        const over: [call: string, mb: number][] = [];
        for (const one of mine) {
          const mb = await growth(piling(one));
          if (mb >= 64) over.push([one.call, mb]);
        }
        expect(over).toEqual([]);
      });
    }
    it.concurrent("of all functions of numbers and times together", async ({ expect }) => {
      const call = `[${small.map((one) => one.call).join(", ")}]`;
      expect(await growth(piling({ prelude: "", call, test: false }))).toBeLessThan(64);
    });

    const others: [what: string, asked: Asked][] = [
      ["its input's many values", { source: "1", scope: { l: Array.from({ length: 99_000 }, () => ({})) } }],
      ["its input's text", { source: "1", scope: { t: "a".repeat(7_900_000) } }],
      [
        "the answers that its journal keeps",
        {
          source: 'array.map(array.range(50), fn(i) { storage.get("a"); 1 })',
          answer: Array.from({ length: 300_000 }, () => []),
        },
      ],
      ["a result that is written six times as long", { source: 'string.repeat("\\u{1}", 3900000)' }],
      ["a result of letters of three bytes", { source: 'string.repeat("\u20ac", 1500000)' }],
      ["a large source", { source: "[a];".repeat(60_000).replace("[a];", "let a = 1;") }],
    ];
    for (const [what, asked] of others) {
      it.concurrent(`with ${what}`, async ({ expect }) => expect(await growth(asked)).toBeLessThan(64));
    }
  },
);

describe("while a run computes in one expression", () => {
  it("other requests of its isolate are answered", async () => {
    const isolate = await anIsolate(code.folder);
    try {
      const source = "let f = fn(n) { if (n < 2) { n } else { f(n - 1) + f(n - 2) } }\nf(40)";
      let ended = false;
      const run = isolate.ask({ source, limits: { steps: 20_000_000 } }).finally(() => {
        ended = true;
      });
      let answered = 0;
      while (!ended) {
        await isolate.ask({ source: "1" });
        if (!ended) answered++;
      }
      expect(await run).toMatchObject({ code: "limit_steps" });
      // 80 turns are given; a request takes some of them to be read, run and answered.
      expect(answered).toBeGreaterThan(8);
    } finally {
      await isolate.close();
    }
  });
});
