import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Json } from "../../../lib/script/index.ts";
import { evaluate } from "../../../lib/workflows/evaluate.ts";
import {
  type GraphState,
  graphProgram,
  MAX_HELD,
  MAX_ITEMS,
  MAX_OUTPUT,
  MAX_STEPS,
} from "../../../lib/workflows/graph.ts";
import type { Ask, Outcome, Program, Step } from "../../../lib/workflows/program.ts";
import { readGraph } from "../../../lib/workflows/read.ts";

type NodeJson = { kind: string; id: string } & Record<string, unknown>;
const script = (id: string, on_success?: string, more: object = {}): NodeJson => ({
  ...{ kind: "WorkflowScript", id, script: id },
  ...(on_success && { on_success }),
  ...more,
});
const each = (id: string, body: string, more: object = {}): NodeJson => ({
  ...{ kind: "WorkflowForEach", id, items: "$.items", body },
  ...more,
});

function programOf(nodes: NodeJson[]): Program<GraphState> {
  const { graph, findings } = readGraph({ kind: "WorkflowGraph", version: 1, start_node: nodes[0]!.id, nodes });
  expect(findings.filter(({ severity }) => severity === "error")).toEqual([]);
  return graphProgram(graph!);
}

/** What the world says of an ask. Expressions are evaluated. */
type World = (ask: Ask) => Outcome | Promise<Outcome>;
const evaluated: World = async ({ template, scope }) => ({ ok: await evaluate(template, scope) });
const echo: World = (ask) => (ask.kind === "evaluate" ? evaluated(ask) : { ok: { from: ask.key, given: ask.scope } });

/** Runs to the end, one ask at a time, the first or the last of those that may be under way. */
async function run(nodes: NodeJson[], input: Json, world: World = echo, last = false) {
  const program = programOf(nodes);
  const asked: Ask[] = [];
  const widths: number[] = [];
  let state = program.begin(input);
  for (let step = program.next(state); ; step = program.next(state)) {
    if (step.do !== "ask") return { step, asked, keys: asked.map(({ key }) => key), widths };
    widths.push(step.asks.length);
    const ask = step.asks.at(last ? -1 : 0)!;
    asked.push(ask);
    state = program.take(state, ask.key, await world(ask));
  }
}
const end = async (...args: Parameters<typeof run>): Promise<Step> => (await run(...args)).step;

describe("a path", () => {
  it("gives each node what the one before gave, from the trigger's payload on, and ends with the last one's", async () => {
    const { step, asked } = await run(
      [{ kind: "WorkflowTrigger", id: "start", on_success: "a" }, script("a", "b"), script("b")],
      { order: 1 },
    );
    expect(asked.map(({ key, node, kind, scope }) => [key, node, kind, scope])).toEqual([
      ["a", "a", "script", { order: 1 }],
      ["b", "b", "script", { from: "a", given: { order: 1 } }],
    ]);
    expect(step).toMatchObject({ do: "complete", result: { from: "b" } });
  });

  it("begins with an event's payload, and with any other input as it came", async () => {
    const first = async (input: Json) => (await run([script("a")], input)).asked[0]!.scope;
    expect(await first({ id: "evt_1", name: "custom.a", payload: { order: 1 } })).toEqual({ order: 1 });
    for (const input of [{ id: "1", payload: {} }, { id: "evt_1", payload: 1 }, [1], null] as Json[]) {
      expect(await first(input)).toEqual(input);
    }
  });

  it("gives a node that names others what each of them gave last, and null of what hasn't run", async () => {
    const nodes = [
      script("a", "b"),
      script("b", "c"),
      script("c", undefined, { inputs: ["a", "never", "b"] }),
      script("never"),
    ];
    const { asked } = await run(nodes, 1, ({ key }) => ({ ok: `of ${key}` }));
    expect(asked.at(-1)!.scope).toEqual({ a: "of a", never: null, b: "of b" });
  });

  it.each<[Json, string]>([
    [true, "yes"],
    [1, "yes"],
    ["x", "yes"],
    [{}, "yes"],
    [[0], "yes"],
    [false, "no"],
    [null, "no"],
    [0, "no"],
    ["", "no"],
    [[], "no"],
  ])("takes %j for what the script language takes it for: %s", async (value, way) => {
    const condition = { kind: "WorkflowCondition", id: "if", condition: "$.is", on_true: "yes", on_false: "no" };
    const { keys, asked } = await run([condition, script("yes"), script("no")], { is: value });
    expect(keys).toEqual(["if", way]);
    expect(asked[1]!.scope).toEqual({ is: value });
  });

  it("ends where a condition leads nowhere, with what it was given", async () => {
    const condition = { kind: "WorkflowCondition", id: "if", condition: "{{ $.a }}", on_true: "a" };
    expect(await end([condition, script("a")], { a: 0 })).toEqual({ do: "complete", result: { a: 0 } });
  });

  it("names an ask that comes again by its number, and ends after ten thousand steps", async () => {
    const nodes = [
      { kind: "WorkflowWait", id: "wait", seconds: 1, on_success: "look" },
      script("look", "wait", { on_error: "end" }),
      { kind: "WorkflowTrigger", id: "end" },
    ];
    const { step, keys } = await run(nodes, {}, () => ({ ok: null }));
    expect(keys.slice(0, 5)).toEqual(["wait", "look", "wait#2", "look#2", "wait#3"]);
    expect(keys).toHaveLength(MAX_STEPS);
    expect(step).toMatchObject({ do: "fail", error: expect.stringMatching(/^steps: /) });
  });

  it("ends though nothing is asked on its way round", async () => {
    const nodes = [
      { kind: "WorkflowTrigger", id: "a", on_success: "b" },
      { kind: "WorkflowTrigger", id: "b", on_success: "a", on_error: "c" },
      script("c"),
    ];
    expect(await end(nodes, {})).toMatchObject({ do: "fail", error: expect.stringMatching(/^steps: /) });
  });

  it("goes on by on_error where a node fails, and fails by its name where there is none", async () => {
    const failing: World = ({ key }) => (key === "a" ? { error: "HTTP 500" } : { ok: "mended" });
    const { asked, step } = await run(
      [script("a", "b", { on_error: "mend" }), script("b"), script("mend")],
      7,
      failing,
    );
    expect(asked.at(-1)).toMatchObject({ key: "mend", scope: { error: "HTTP 500", node: "a", input: 7 } });
    expect(step).toEqual({ do: "complete", result: "mended" });
    expect(await end([script("a", "b"), script("b")], 7, failing)).toEqual({ do: "fail", error: "a: HTTP 500" });
  });

  it("fails the node whose output is too long, not the one that fits", async () => {
    const giving = (length: number) => end([script("a")], null, () => ({ ok: "x".repeat(length - 2) }));
    expect(await giving(MAX_OUTPUT)).toMatchObject({ do: "complete" });
    expect(await giving(MAX_OUTPUT + 1)).toMatchObject({ do: "fail", error: expect.stringMatching(/^a: its output/) });
  });

  it("holds no more than a megabyte, named outputs and all", async () => {
    const names = ["a", "b", "c", "d"];
    const nodes = [
      ...names.map((id, i) => script(id, names[i + 1] ?? "end")),
      script("end", undefined, { inputs: names }),
    ];
    const giving =
      (length: number): World =>
      ({ key }) => ({ ok: key === "end" ? 1 : "x".repeat(length) });
    expect(await end(nodes, null, giving(MAX_HELD / 4 / 2 - 100))).toMatchObject({ do: "complete" });
    expect(await end(nodes, null, giving(MAX_OUTPUT - 2))).toMatchObject({ error: expect.stringMatching(/^memory: /) });
  });

  it("hears nothing of what it doesn't wait for", () => {
    const program = programOf([script("a", "b"), script("b")]);
    const state = program.begin(1);
    expect(program.take(state, "b", { ok: 1 })).toBe(state);
    const done = program.take(program.take(state, "a", { ok: 2 }), "b", { ok: 3 });
    expect(program.next(program.take(done, "b", { error: "late" }))).toEqual({ do: "complete", result: 3 });
  });
});

describe("a ForEach", () => {
  const items = { items: ["x", "y", "z"] };

  it("goes its body's path for each item, and gives what they came to, in the order of the items", async () => {
    for (const last of [false, true]) {
      const nodes = [
        each("each", "a", { on_success: "end", concurrency: 2 }),
        script("a", "b"),
        script("b"),
        script("end"),
      ];
      const world: World = (ask) => (ask.kind === "evaluate" ? evaluated(ask) : { ok: `${ask.key}(${ask.scope})` });
      const { asked, widths } = await run(nodes, items, world, last);
      expect(asked.at(-1)!.scope).toEqual(["x", "y", "z"].map((item, i) => `each[${i}].b(each[${i}].a(${item}))`));
      expect(Math.max(...widths)).toBe(2);
    }
  });

  it("gives an empty list for one, and fails for what is none or too long a one", async () => {
    const nodes = [each("each", "a"), script("a")];
    expect(await end(nodes, { items: [] })).toEqual({ do: "complete", result: [] });
    expect(await end(nodes, { items: "x" })).toMatchObject({ error: "each: its items are no list" });
    const many = (length: number) =>
      end(nodes, { items: Array(length).fill(0) }, (ask) => (ask.kind === "evaluate" ? evaluated(ask) : { ok: 0 }));
    expect(await many(MAX_ITEMS)).toMatchObject({ do: "complete" });
    expect(await many(MAX_ITEMS + 1)).toMatchObject({ do: "fail" });
  });

  it("fails with its first item that fails, lets go of the others, and goes on by on_error", async () => {
    const nodes = [each("each", "a", { concurrency: 3, on_error: "mend" }), script("a"), script("mend")];
    const failing: World = (ask) => (ask.key === "each[1].a" ? { error: "no" } : echo(ask));
    const { asked, keys } = await run(nodes, items, failing);
    expect(keys).toEqual(["each", "each[0].a", "each[1].a", "mend"]);
    expect(asked.at(-1)!.scope).toEqual({ error: "item 1: a: no", node: "each", input: items });
  });

  it("stands in another, and its nodes know what those around it gave", async () => {
    const nodes = [
      script("first", "outer"),
      each("outer", "inner", { items: "[[1, 2], [3]]" }),
      each("inner", "leaf", { items: "$" }),
      script("leaf", undefined, { inputs: ["first"] }),
    ];
    const { keys, asked } = await run(nodes, 0, (ask) => (ask.kind === "evaluate" ? evaluated(ask) : { ok: ask.key }));
    expect(keys).toEqual([
      ...["first", "outer", "outer[0].inner", "outer[0].inner[0].leaf", "outer[0].inner[1].leaf"],
      ...["outer[1].inner", "outer[1].inner[0].leaf"],
    ]);
    expect(asked.at(-1)!.scope).toEqual({ first: "first" });
  });

  it("has twenty asks under way at most", async () => {
    const nodes = [
      each("outer", "inner", { concurrency: 10 }),
      each("inner", "leaf", { items: "[1, 2, 3, 4, 5]", concurrency: 5 }),
      script("leaf"),
    ];
    const program = programOf(nodes);
    let state = program.begin({ items: Array(10).fill(0) });
    for (let left = 11; left > 0; left--) {
      const step = program.next(state);
      const ask = step.do === "ask" && step.asks.find(({ kind }) => kind === "evaluate");
      if (!ask) break;
      state = program.take(state, ask.key, await evaluated(ask));
    }
    expect(program.next(state)).toMatchObject({ asks: { length: 20 } });
  });
});

describe("what a node asks", () => {
  it.each<[object, object]>([
    [
      { kind: "http_request", url: "https://a.example/" },
      { kind: "http", effect: "read" },
    ],
    [{ kind: "http_request", url: "https://a.example/", method: "HEAD" }, { effect: "read" }],
    [{ kind: "http_request", url: "https://a.example/", method: "PUT" }, { effect: "idempotent" }],
    [{ kind: "http_request", url: "https://a.example/", method: "DELETE" }, { effect: "idempotent" }],
    [{ kind: "http_request", url: "https://a.example/", method: "POST" }, { effect: "once" }],
    [{ kind: "http_request", url: "https://a.example/", method: "PATCH" }, { effect: "once" }],
    [{ kind: "http_request", url: "https://a.example/", method: "POST", effect: "read" }, { effect: "read" }],
    [
      { kind: "script", script: "a" },
      { kind: "script", template: { script: "a", input: "{{ $ }}" }, effect: "once" },
    ],
    [
      { kind: "script", script: "a", effect: "idempotent" },
      { template: { effect: "idempotent" }, effect: "idempotent" },
    ],
    [
      { kind: "emit_event", name: "custom.a" },
      { kind: "emit", template: { name: "custom.a", payload: "{{ $ }}" } },
    ],
    [
      { kind: "wait", seconds: 5 },
      { kind: "wait", template: { seconds: 5 } },
    ],
    [
      { kind: "wait", until: "{{ $.at }}" },
      { kind: "wait", template: { until: "{{ $.at }}" } },
    ],
    [
      { kind: "wait", event: "custom.paid", filters: { id: "{{ $.id }}" } },
      { template: { event: "custom.paid", filters: { id: "{{ $.id }}" }, timeout_seconds: null } },
    ],
    [
      { kind: "approval", message: "Pay?" },
      { kind: "approval", template: { message: "Pay?", input: "{{ $ }}" } },
    ],
    [
      { kind: "llm_call", prompt: "Hi" },
      { kind: "llm", template: { model: null, system: null, prompt: "Hi", max_tokens: 4096 } },
    ],
    [
      { kind: "embed_agent", participant: "clerk", instructions: "Do" },
      { kind: "work", template: { worker: "session", participant: "clerk" } },
    ],
  ])("%j", async (node, asked) => {
    const [ask] = (await run([{ id: "n", ...node } as NodeJson], {})).asked;
    expect(ask).toMatchObject({ key: "n", node: "n", attempts: 3, ...asked });
  });

  it("is no template where a schema stands", async () => {
    const result_schema = { pattern: "{{ $ }}" };
    const node = { kind: "embed_agent", id: "n", participant: "a", instructions: "Do {{ $.what }}", result_schema };
    const [{ template, scope }] = (await run([node], { what: "it" })).asked as [Ask];
    expect(await evaluate(template, scope)).toEqual({
      ...{ participant: "a", instructions: "Do it", input: { what: "it" }, worker: "session", result_schema },
    });
  });

  it("leads to the host that an address says, whatever is in it", async () => {
    const node = { kind: "http_request", id: "n", url: "https://a.example/{{ $.id }}" };
    const [{ template }] = (await run([node], {})).asked as [Ask];
    expect(await evaluate(template, { id: "x/y" })).toMatchObject({ url: "https://a.example/x%2Fy" });
    await expect(evaluate(template, { id: ".." })).rejects.toThrow(/another path/);
  });

  it.each<[string, object, object, Outcome, Json]>([
    [
      "an approval hands on what it was given",
      { kind: "approval", message: "?" },
      { a: 1 },
      { ok: { approved: true } },
      { a: 1 },
    ],
    ["a time does", { kind: "wait", seconds: 1 }, { a: 1 }, { ok: null }, { a: 1 }],
    [
      "an event that came is what the wait gives",
      { kind: "wait", event: "custom.a" },
      { a: 1 },
      { ok: { b: 2 } },
      { b: 2 },
    ],
    ["and null, if none came", { kind: "wait", event: "custom.a" }, { a: 1 }, { ok: null }, null],
    ["what emits hands on", { kind: "emit_event", name: "custom.a" }, { a: 1 }, { ok: null }, { a: 1 }],
  ])("%s", async (_, node, input, outcome, result) => {
    expect(await end([{ id: "n", ...node } as NodeJson], input as Json, () => outcome)).toEqual({
      do: "complete",
      result,
    });
  });

  it("fails the node of an approval that is denied, with the note", async () => {
    const node = { kind: "approval", id: "n", message: "?" };
    const denied = (note: string | null) => end([node], {}, () => ({ ok: { approved: false, by: null, note } }));
    expect(await denied("too dear")).toEqual({ do: "fail", error: "n: denied: too dear" });
    expect(await denied(null)).toEqual({ do: "fail", error: "n: denied" });
  });
});

/** Graphs of all sorts, rings and bodies within bodies among them. */
const graphs = fc
  .integer({ min: 1, max: 8 })
  .chain((count) => {
    const id = fc.integer({ min: 0, max: count - 1 }).map((i) => `n${i}`);
    const to = fc.option(id, { nil: null, freq: 4 });
    const node = fc.oneof(
      fc.record({ kind: fc.constant("trigger"), on_success: to }),
      fc.record({
        kind: fc.constant("script"),
        script: fc.constant("s"),
        on_success: to,
        on_error: to,
        inputs: fc.option(fc.array(id, { minLength: 1, maxLength: 3 }), { nil: null }),
      }),
      fc.record({
        kind: fc.constant("condition"),
        condition: fc.constant("$"),
        on_true: to,
        on_false: to,
        on_error: to,
      }),
      fc.record({
        kind: fc.constant("for_each"),
        items: fc.constant("$"),
        body: id,
        concurrency: fc.integer({ min: 1, max: 3 }),
        on_success: to,
        on_error: to,
      }),
    );
    return fc.array(node, { minLength: count, maxLength: count });
  })
  .map((nodes) => ({ start_node: "n0", nodes: nodes.map((node, i) => ({ id: `n${i}`, ...node })) }));
const outcomes = fc.array(
  fc.record({
    pick: fc.nat(),
    outcome: fc.oneof(
      fc.record({ error: fc.constant("no") }),
      fc.record({ ok: fc.constantFrom<Json>(null, true, [1, 2], [[1], [2]], "x") }),
    ),
  }),
  { minLength: 1, maxLength: 30 },
);

it("ends, whatever the graph and the outcomes, asks under no key twice, and the same again for the same", () => {
  const shown = (step: Step) => (step.do === "ask" ? step.asks.map(({ key }) => key).join(" ") : JSON.stringify(step));
  const go = (graph: Parameters<typeof graphProgram>[0], said: { pick: number; outcome: Outcome }[]) => {
    const program = graphProgram(graph);
    const steps: string[] = [];
    const answered = new Set<string>();
    let state = program.begin([1]);
    for (let i = 0; ; i++) {
      const step = program.next(state);
      steps.push(shown(step));
      // Rings that ask are cut short here: that they end is tried above.
      if (step.do !== "ask" || i > 100) return steps;
      expect(step.asks.length).toBeGreaterThan(0);
      expect(step.asks.filter(({ key }) => answered.has(key))).toEqual([]);
      const { pick, outcome } = said[i % said.length]!;
      const { key } = step.asks[pick % step.asks.length]!;
      answered.add(key);
      const after = program.take(state, key, outcome);
      // What was is as it was.
      expect(shown(program.next(state))).toBe(steps.at(-1));
      state = after;
    }
  };
  let ran = 0;
  fc.assert(
    fc.property(graphs, outcomes, (value, said) => {
      const { graph, findings } = readGraph(value);
      expect(graph === null).toBe(findings.some(({ severity }) => severity === "error"));
      if (!graph) return;
      ran++;
      expect(go(graph, said)).toEqual(go(graph, said));
    }),
    { numRuns: 600 },
  );
  expect(ran).toBeGreaterThan(40);
});
