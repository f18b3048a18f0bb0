/** Scripts in workerd itself, each in a process of its own: what they take of its memory, and of its time. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { LIMITS } from "../../../lib/script/index.ts";
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

/** What shows that a process has little left of what it was asked before. */
const LITTLE_MB = 20;

/**
 * By how many MB a process grows at most over what it started with while it is asked one thing after another. One that
 * has grown by more than a little makes room for a fresh one, and what was asked then is asked again there.
 */
async function growths(all: Asked[]): Promise<number[]> {
  const grown: number[] = [];
  let isolate = await anIsolate(code.folder);
  let fresh = true;
  let before = await started(isolate);
  try {
    for (let i = 0; i < all.length; ) {
      await isolate.forget();
      await isolate.ask(all[i]!);
      const mb = ((await isolate.bytes("VmHWM")) - before) / 1024 / 1024;
      if (fresh || mb < LITTLE_MB) grown[i++] = mb;
      fresh = false;
      if (mb < LITTLE_MB) continue;
      await isolate.close();
      isolate = await anIsolate(code.folder);
      fresh = true;
      before = await started(isolate);
    }
    return grown;
  } finally {
    await isolate.close();
  }
}

async function started(isolate: Awaited<ReturnType<typeof anIsolate>>): Promise<number> {
  for (const n of [1, 2]) await isolate.ask({ source: `${WARM} + ${n}` });
  return isolate.bytes("VmRSS");
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
        const grown = await growths(mine.map(piling));
        expect(mine.map(({ call }, i) => [call, grown[i]!] as const).filter(([, mb]) => mb >= 64)).toEqual([]);
      });
    }
    it.concurrent("of all functions of numbers and times together", async ({ expect }) => {
      const call = `[${small.map((one) => one.call).join(", ")}]`;
      const [mb] = await growths([piling({ prelude: "", call, test: false })]);
      expect(mb).toBeLessThan(64);
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
      ["a large source", { source: "[[[[[1]]]]];".repeat(LIMITS.source_tokens / 12) }],
    ];
    for (const [what, asked] of others) {
      it.concurrent(`with ${what}`, async ({ expect }) => expect((await growths([asked]))[0]).toBeLessThan(64));
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
