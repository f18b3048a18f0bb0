import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Answer, type Journal, type RunOptions, runScript, type ScriptRun } from "../../../lib/script/index.ts";
import { aWorld, failureOf, resultOf, run } from "./support.ts";

const answerTo = (n: number): Answer =>
  n % 5 === 4 ? { error: `call ${n} failed` } : { ok: { status: 200, headers: {}, body: n * n } };

/** When call `n` was answered. */
const after = (n: number) => Date.UTC(2026, 0, 1, 0, 0, 0, (n + 1) * 10);

/** Runs by pausing at every call, in a new world each time, with nothing but the journal between. */
async function byPausing(source: string, options: Partial<RunOptions> = {}) {
  const runs: ScriptRun[] = [];
  let journal: Journal | undefined;
  for (;;) {
    const world = { ...aWorld(() => "pause"), now: () => Date.UTC(2026, 0, 1) + runs.length, random: () => 0.5 };
    const run = await runScript(source, { world, ...options, ...(journal ? { journal } : {}) });
    runs.push(run);
    if (run.status !== "paused") return runs;
    const { name, hash, n } = run.pending!;
    const at = new Date(after(n)).toISOString();
    journal = JSON.parse(
      JSON.stringify({ ...run.journal, calls: [...run.journal.calls, { name, hash, answer: answerTo(n), at }] }),
    );
  }
}

/** Runs in one go, with the same answers at the same times. */
const atOnce = (source: string, options: Partial<RunOptions> = {}) => {
  let now = Date.UTC(2026, 0, 1);
  const world = {
    call: async (n: number) => {
      now = after(n);
      return answerTo(n);
    },
    rest: async () => {},
    now: () => now,
    random: () => 0.5,
  };
  return runScript(source, { world, ...options });
};

const get = (path: string) => `requests.get("https://a.example.com/${path}")`;

const scripts: [what: string, source: string, calls: number][] = [
  ["one after another", `let a = unwrap(${get("a")}).body\nlet b = unwrap(${get("b")}).body\n[a, b]`, 2],
  ["inside of our own functions", `array.map(array.range(4), fn(i) { unwrap(${get('" + i + "')}).body + i })`, 4],
  [
    "in nested closures",
    `let f = fn(x) { array.reduce([1, 2], x, fn(sum, y) { sum + unwrap(${get("n")}, { body: 100 }).body }) }\narray.map([1, 2, 3], f)`,
    6,
  ],
  ["in a comparison", `array.length(array.sort([3, 1, 2], fn(a, b) { unwrap(${get("s")}); a - b }))`, 3],
  ["in arguments of each other", `string.toString(${get("a")}.body) + string.toString(${get("b")}.body)`, 2],
  [
    "beside output, time and chance",
    `println("one", datetime.now(), math.random())\nlet f = fn() { println("two", math.random())\n let r = ${get("x")}\n println("three", datetime.now(), math.random())\n r.body }\n[f(), f(), datetime.unix()]`,
    2,
  ],
  ["that fail", `let r = array.map(array.range(6), fn(i) { unwrap(${get("x")}, "none") })\narray.last(r)`, 6],
  [
    "left by `?`",
    `let f = fn() { let r = ${get("x")}?\n r.body }\narray.map(array.range(6), fn(i) { result.isErr(f()) || f() })`,
    10,
  ],
];

describe("a run that pauses at every call", () => {
  for (const [what, source, calls] of scripts) {
    it(`ends as one that does not, with calls ${what}`, async () => {
      const runs = await byPausing(source);
      const whole = await atOnce(source);
      expect(whole.error).toBeNull();
      expect(runs.length).toBe(calls + 1);
      const last = runs.at(-1)!;
      expect([last.status, last.result, last.output]).toEqual([whole.status, whole.result, whole.output]);
      expect(last.journal.calls).toEqual(whole.journal.calls);
    });
  }

  it("asks for one call after another, with its number and arguments", async () => {
    const [first, second] = await byPausing(scripts[0]![1]);
    expect([first?.status, first?.pending?.n, first?.pending?.name]).toEqual(["paused", 0, "requests.request"]);
    expect(first?.pending?.args).toMatchObject({ method: "GET", url: "https://a.example.com/a" });
    expect([second?.pending?.n, second?.journal.calls.length]).toEqual([1, 1]);
  });

  it("goes through imported scripts", async () => {
    const scripts = async (key: string) =>
      key === "lib"
        ? `println("loaded")\nlet first = unwrap(${get("lib")}).body\n{ get: fn() { first + unwrap(${get("f")}).body } }`
        : null;
    const source = 'let lib = import("script:lib")\n[lib.get(), import("script:lib").get()]';
    const runs = await byPausing(source, { scripts });
    const last = runs.at(-1)!;
    expect([runs.length, last.result, last.output.map(({ text }) => text)]).toEqual([4, [1, 4], ["loaded"]]);
  });

  it("has the same result for any mixture of calls, with the same journal", async () => {
    const piece = fc.constantFrom(
      get("x"),
      "math.random()",
      "datetime.now()",
      `array.map([1, 2], fn(x) { ${get("y")} })`,
      'println("p", math.randomInt(1, 100))',
      `unwrap(${get("z")}, 0)`,
    );
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { minLength: 1, maxLength: 8 }), async (pieces) => {
        const source = `[${pieces.map((one) => `result.isOk(${one}) ? 1 : ${one}`).join(", ")}]`;
        const whole = await atOnce(source);
        const last = (await byPausing(source)).at(-1)!;
        const again = await runScript(source, { world: aWorld(() => "pause"), journal: last.journal });
        expect([last.result, last.output, last.error]).toEqual([whole.result, whole.output, whole.error]);
        expect([again.result, again.output, again.error]).toEqual([whole.result, whole.output, whole.error]);
      }),
      { numRuns: 50 },
    );
  });
});

describe("the clock of a script", () => {
  /** Every look at the world's clock finds it a second later; calls are answered at once. */
  const ticking = () => {
    let now = Date.UTC(2026, 0, 1);
    return {
      call: async () => ({ ok: { status: 200, headers: {}, body: null } }),
      rest: async () => {},
      now: () => {
        now += 1000;
        return now;
      },
      random: () => 0.5,
    };
  };
  const now = "datetime.now()";

  it("stands still between calls, and after one shows when its answer came", async () => {
    const source = `[${now}, ${now}, ${get("a")}.status, ${now}, ${now}, ${get("b")}.status, ${now}]\n`;
    const { result, journal } = await runScript(source, { world: ticking() });
    const [a, b] = journal.calls.map(({ at }) => at);
    expect(result).toEqual([journal.started_at, journal.started_at, 200, a, a, 200, b]);
    expect(journal.started_at < a! && a! < b!).toBe(true);
  });
  it("goes on with what the call left in the next expression, and in other functions of time", async () => {
    const source = `${get("a")}\n[${now}, datetime.unix() * 1000, datetime.today()]\n`;
    const { result, journal } = await runScript(source, { world: ticking() });
    const { at } = journal.calls[0]!;
    expect(result).toEqual([at, Date.parse(at), at.slice(0, 10)]);
  });
  it("shows a log entry's time, before a call and after it", async () => {
    const { output, journal } = await runScript(`log.info("a")\n${get("a")}\nlog.info("b")`, { world: ticking() });
    expect(output.map(({ timestamp }) => timestamp)).toEqual([journal.started_at, journal.calls[0]!.at]);
  });
  it("shows the journal's times when a run is taken up again, whatever the time is then", async () => {
    const source = `[${now}, ${get("a")}.status, ${now}]`;
    const { journal, result } = await runScript(source, { world: ticking() });
    const later = { ...ticking(), now: () => Date.UTC(2030, 0, 1) };
    expect(await resultOf(source, { world: later, journal })).toEqual(result);
  });
});

describe("a journal", () => {
  it("of another call is refused", async () => {
    const { journal } = await atOnce(get("a"));
    expect(await failureOf(get("b"), { journal })).toMatchObject({ code: "journal_mismatch" });
    expect(await failureOf("threads.current()", { journal })).toMatchObject({ code: "journal_mismatch" });
  });
  it("knows a call by its arguments, in the same way from one version to the next", async () => {
    const { journal } = await atOnce('storage.set("key", { a: [1, null, "é"] })');
    expect(journal.calls.map(({ name, hash }) => [name, hash])).toEqual([["storage.set", "74186087ba4a791e"]]);
  });
  it("that is longer than the script needs does no harm", async () => {
    const { journal } = await atOnce(scripts[0]![1]);
    expect(await resultOf(`${get("a")}.body`, { journal })).toBe(0);
  });
  it("is not changed by the run that it is given to", async () => {
    const { journal } = await atOnce(get("a"));
    const before = structuredClone(journal);
    await atOnce(`${get("a")}\n${get("b")}`, { journal });
    expect(journal).toEqual(before);
  });
});

describe("a bug of ours outside of a script", () => {
  it("flies on: it is no error of the script", async () => {
    const world = { ...aWorld(), call: () => Promise.reject(new Error("ours")) };
    await expect(run(get("a"), { world })).rejects.toThrow("ours");
    const scripts = () => Promise.reject(new Error("ours, too"));
    await expect(run('import("script:a")', { scripts })).rejects.toThrow("ours, too");
  });
});

describe("importing a script", () => {
  const library = (sources: Record<string, string>) => ({ scripts: async (key: string) => sources[key] ?? null });

  it("gives its last value, evaluated once", async () => {
    const options = library({ lib: 'println("once")\n{ double: fn(x) { x * 2 }, who: $.who }' });
    const source = 'let a = import("script:lib")\nlet b = import("script:lib")\n[a.double(4), b.who, a == b]';
    expect(await resultOf(source, { ...options, input: { who: "ada" } })).toEqual([8, "ada", true]);
  });
  it("that is missing is an error at its place", async () => {
    expect(await failureOf('1\nimport("script:nope")', library({}))).toMatchObject({
      code: "import_missing",
      at: [2, 8],
    });
  });
  it("is read once, however many import it", async () => {
    const sources: Record<string, string> = {
      a: 'import("script:c") + 1',
      b: 'import("script:c") + 2',
      c: 'println("c")\n1',
    };
    const asked: string[] = [];
    const scripts = async (key: string) => {
      asked.push(key);
      return sources[key] ?? null;
    };
    const { result, output } = await run('[import("script:a"), import("script:b"), import("script:c")]', { scripts });
    expect([result, output.length, asked]).toEqual([[2, 3, 1], 1, ["a", "c", "b"]]);
  });
  it("is done again with the expression that a call interrupts", async () => {
    const options = library({ lib: 'println("loaded")\n1' });
    const { result, output } = await run(`[import("script:lib"), ${get("a")}, import("script:lib")]`, options);
    expect([result, output.map(({ text }) => text)]).toEqual([[1, null, 1], ["loaded"]]);
  });
  it("may be done twenty times, and no more", async () => {
    const all = (n: number) => Array.from({ length: n }, (_, i) => `import("script:${i}")`).join("\n");
    const scripts = async (key: string) => key;
    expect(await resultOf(all(20), { scripts })).toBe(19);
    expect(await failureOf(all(21), { scripts })).toMatchObject({ code: "import_missing", at: [21, 8] });
  });
  it("takes of the depth of calls while it runs, and gives it back", async () => {
    const deep = "let d = fn(n) { if (n <= 1) { 1 } else { 1 + d(n - 1) } }\n";
    const options = library({
      deep: `${deep}d(199)`,
      deeper: `${deep}d(200)`,
      heavy: `${"[".repeat(190)}1${"]".repeat(190)}`,
    });
    expect(await resultOf(`${deep}import("script:deep") + d(200)`, options)).toBe(399);
    expect((await failureOf('import("script:deeper")', options)).code).toBe("limit_depth");
    const around = `let f = fn(n) { ${"[".repeat(35)}if (n > 1) { f(n - 1) } else { import("script:heavy") }${"]".repeat(35)} }\n`;
    expect((await failureOf(`${around}f(52)`, options)).error).toContain("with large expressions");
    expect((await run(`${around}array.length(f(42))`, options)).status).toBe("done");
  });
  it("in a circle is an error that shows it", async () => {
    const options = library({ a: 'import("script:b")', b: 'fn() { import("script:a") }' });
    expect(await failureOf('import("script:a")', options)).toMatchObject({
      code: "import_cycle",
      error: "scripts import each other: a → b → a",
    });
  });
  it("that cannot be read says which and where", async () => {
    expect((await failureOf('import("script:a")', library({ a: "1\nlet" }))).error).toContain("script `a`, line 2");
  });
  it("without an end is bounded", async () => {
    const scripts = async (key: string) => `import("script:${Number(key) + 1}")`;
    expect(await failureOf('import("script:1")', { scripts })).toMatchObject({ code: "import_missing" });
  });
  it("counts into the same limits", async () => {
    const options = library({ a: `array.reduce(array.range(90000), 0, fn(a, x) { ${"x + ".repeat(7)}x })` });
    expect(
      await failureOf('import("script:a")\narray.reduce(array.range(90000), 0, fn(a, x) { x + x + x + x })', {
        ...options,
        limits: { steps: 1_000_000 },
      }),
    ).toMatchObject({ code: "limit_steps" });
  });
});
