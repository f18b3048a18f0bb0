import { expect, it } from "vitest";
import { nodeKinds, toNodeType } from "../../../lib/workflows/nodes.ts";
import { MAX_NODES, readGraph } from "../../../lib/workflows/read.ts";

const trigger = (id: string, on_success?: string, more: object = {}) => ({
  kind: "WorkflowTrigger",
  id,
  on_success,
  ...more,
});
const condition = (id: string, on_true: string | null, on_false: string | null) => ({
  ...{ kind: "WorkflowCondition", id, condition: "$.a", on_true, on_false },
});
const each = (id: string, body: string, on_success: string | null = null) => ({
  ...{ kind: "WorkflowForEach", id, items: "$", body, on_success },
});
const aRequest = (count: number) => ({
  ...{ kind: "http_request", id: "a", method: "POST", url: `https://a.example/${"{{ 1 }}".repeat(count)}` },
});
const graph = (...nodes: Record<string, unknown>[]) => ({
  kind: "WorkflowGraph",
  version: 1,
  start_node: nodes[0]?.id,
  nodes,
});
const said = (value: unknown) =>
  readGraph(value).findings.map(({ severity, code, node, pointer }) => [severity, code, node, pointer].join(" "));

it.each<[string, unknown, string[]]>([
  [
    "nothing of a path",
    graph(trigger("a", "b"), trigger("b", "c"), condition("c", "d", null), each("d", "e"), condition("e", null, "f"), {
      kind: "approval",
      id: "f",
      message: "?",
    }),
    [],
  ],
  [
    "nothing of short names",
    { nodes: [{ type: "script", id: "a", script: "s", description: "does", name: "A" }], start_node: "a" },
    [],
  ],
  ["what is no object", [], ["error malformed  "]],
  [
    "another kind",
    { ...graph(trigger("a", "b"), condition("b", null, "a")), kind: "Script" },
    ["error malformed  /kind"],
  ],
  ["another version", { ...graph(trigger("a")), version: 2 }, ["error malformed  /version"]],
  ["no nodes", graph(), ["error malformed  /nodes"]],
  [
    "a node of no kind",
    graph(trigger("a", "b"), { kind: "Nothing", id: "b" }),
    ["error malformed b /nodes/1/kind", "error bad_reference a /nodes/0/on_success"],
  ],
  [
    "an id that would be two keys",
    graph({ kind: "WorkflowTrigger", id: "a#2" }),
    ["error malformed  /nodes/0/id", "error bad_reference  /start_node"],
  ],
  [
    "an id that is there twice",
    graph(trigger("a", "b"), trigger("b", "a"), condition("b", "a", null)),
    ["error malformed  /nodes/2/id"],
  ],
  [
    "a field that is missing",
    graph({ kind: "WorkflowScript", id: "a" }),
    ["error malformed a /nodes/0/script", "error bad_reference  /start_node"],
  ],
  [
    "a field of another form",
    graph({ ...each("a", "b"), concurrency: 11 }, trigger("b")),
    ["error malformed a /nodes/0/concurrency", "error bad_reference  /start_node"],
  ],
  [
    "fields that exclude each other",
    graph({ kind: "wait", id: "a", seconds: 1, event: "custom.a" }),
    ["error malformed a /nodes/0", "error bad_reference  /start_node"],
  ],
  [
    "a field that nobody knows",
    graph({ kind: "approval", id: "a", message: "?", onsuccess: "b" }),
    ["warning unknown_field a /nodes/0/onsuccess"],
  ],
  ["a start that isn't there", { ...graph(trigger("a")), start_node: "b" }, ["error bad_reference  /start_node"]],
  ["a start that nothing says", { nodes: [trigger("a"), trigger("b")] }, ["error malformed  /start_node"]],
  [
    "where nodes lead that aren't there",
    graph({ ...trigger("a", "x"), on_error: "y", inputs: ["z"] }),
    ["on_success", "on_error", "inputs"].map((by) => `error bad_reference a /nodes/0/${by}`),
  ],
  [
    "ways that lead nowhere",
    graph(condition("a", "x", "y")),
    ["on_true", "on_false"].map((by) => `error bad_reference a /nodes/0/${by}`),
  ],
  ["a body that isn't there", graph(each("a", "x")), ["error bad_reference a /nodes/0/body"]],
  [
    "what is never reached",
    graph({ kind: "approval", id: "a", message: "?" }, trigger("b", "a")),
    ["warning unreachable b /nodes/1"],
  ],
  [
    "what begins or decides, and leads nowhere",
    graph(trigger("a", "b"), condition("b", null, null)),
    ["warning dead_end b /nodes/1"],
  ],
  ["a ring that may end", graph(trigger("a", "b"), condition("b", "a", null)), ["warning cycle a /nodes/0"]],
  [
    "a ring that may be left",
    graph(trigger("a", "b"), { ...trigger("b", "a"), on_error: "c" }, { kind: "approval", id: "c", message: "?" }),
    ["warning cycle a /nodes/0"],
  ],
  ["a ring without an end", graph(trigger("a", "b"), trigger("b", "c"), trigger("c", "b")), ["error cycle b /nodes/1"]],
  ["a node that leads to itself", graph(trigger("a", "a")), ["error cycle a /nodes/0"]],
  ["a body that leads back", graph(each("a", "b"), trigger("b", "a")), ["error cycle a /nodes/0"]],
  [
    "four within each other",
    graph(each("a", "b"), each("b", "c"), each("c", "d"), each("d", "e"), { kind: "approval", id: "e", message: "?" }),
    ["error cycle a /nodes/0"],
  ],
  [
    "nothing of three",
    graph(each("b", "c"), each("c", "d"), each("d", "e"), { kind: "approval", id: "e", message: "?" }),
    [],
  ],
  [
    "more expressions than are evaluated together",
    graph({ ...aRequest(50), body: "{{ 1 }}".repeat(51) }),
    ["error malformed a /nodes/0", "error bad_reference  /start_node"],
  ],
  ["as many as are", graph({ ...aRequest(50), body: "{{ 1 }}".repeat(50) }), []],
  [
    "as many beside what it is given",
    graph({ kind: "approval", id: "a", message: "{{ 1 }}".repeat(100) }),
    ["error malformed a /nodes/0", "error bad_reference  /start_node"],
  ],
  [
    "an expression that is none",
    graph({ kind: "approval", id: "a", message: "{{ 1 + }}" }),
    ["error bad_expression a /nodes/0/message"],
  ],
  [
    "one without braces",
    graph({ ...each("a", "b"), items: "1 +" }, { kind: "approval", id: "b", message: "?" }),
    ["error bad_expression a /nodes/0/items"],
  ],
  [
    "one within a body",
    graph({ kind: "http_request", id: "a", url: "https://a.example", method: "POST", body: { b: ["{{ ) }}"] } }),
    ["error bad_expression a /nodes/0/body"],
  ],
  [
    "a script that is none",
    { ...graph({ kind: "script", id: "a", script: "s" }), data: [{ kind: "Script", id: "s", script: "1 +" }] },
    ["error bad_expression  /data/0/script"],
  ],
  [
    "scripts of one name",
    {
      ...graph({ kind: "script", id: "a", script: "s" }),
      data: [0, 1].map(() => ({ kind: "Script", id: "s", script: "1" })),
    },
    ["error malformed  /data/1/id"],
  ],
  [
    "what else is among the data",
    { ...graph({ kind: "script", id: "a", script: "s" }), data: [{ kind: "Table", id: "s" }] },
    ["error malformed  /data/0/kind"],
  ],
])("says of a graph: %s", (_, value, findings) => {
  expect(said(value)).toEqual(findings);
});

const request = (more: object) => graph({ kind: "http_request", id: "a", ...more });
const bearer = { env_var: "KEY", as: "bearer" };
it.each<[boolean, object]>([
  [true, { url: "https://a.example/{{ $.id }}", auth: bearer }],
  [true, { url: "https://a.example", auth: { env_var: "KEY", as: "header", name: "X-Key" } }],
  [true, { url: "{{ $.url }}" }],
  [false, { url: "{{ $.url }}", auth: bearer }],
  [false, { url: "https://{{ $.host }}/", auth: bearer }],
  [false, { url: "https://a.example{{ $.rest }}", auth: bearer }],
  [false, { url: "https://a.example@{{ $.host }}/", auth: bearer }],
  [false, { url: "https://a.example\\@b/{{ $.host }}/", auth: bearer }],
  [false, { url: "https://a.example/", auth: { ...bearer, name: "X-Key" } }],
  [false, { url: "https://a.example/", auth: { env_var: "KEY", as: "header" } }],
])("lets a secret go only to a host that is spelt out: %s %j", (isWell, more) => {
  expect(readGraph(request(more)).graph !== null).toBe(isWell);
});

it.each([
  ["wait", { seconds: -1 }, false],
  ["wait", { seconds: 31_536_000 }, true],
  ["wait", { seconds: 31_536_001 }, false],
  ["wait", { seconds: "{{ $.delay }}" }, true],
  ["wait", {}, false],
  ["wait", { until: "{{ $.at }}", timeout_seconds: 1 }, false],
  ["wait", { event: "custom.a", timeout_seconds: 1 }, true],
  ["emit_event", { name: "custom.a" }, true],
  ["emit_event", { name: "agent.created" }, false],
  ["emit_event", { name: "custom." }, false],
  ["llm_call", { prompt: "" }, false],
  ["http_request", { url: "https://a.example/", timeout_seconds: 121 }, false],
  ["http_request", { url: "https://a.example/", method: "TRACE" }, false],
  ["embed_agent", { participant: "a", instructions: "b", worker: "elsewhere" }, false],
])("%s %j", (kind, more, isWell) => {
  expect(readGraph(graph({ kind, id: "a", ...more })).graph !== null).toBe(isWell);
});

it("takes a thousand nodes, in a moment, and not one more", () => {
  const chain = (count: number) =>
    graph(
      ...Array.from({ length: count }, (_, i) =>
        each(`n${i}`, `n${count - 1}`, i < count - 2 ? `n${i + 1}` : null),
      ).slice(0, -1),
      {
        ...{ kind: "approval", id: `n${count - 1}`, message: "?" },
      },
    );
  const begun = performance.now();
  expect(said(chain(MAX_NODES))).toEqual([]);
  expect(performance.now() - begun).toBeLessThan(1000);
  expect(said(chain(MAX_NODES + 1))).toEqual(["error malformed  /nodes"]);
});

it("says a hundred things at most", () => {
  expect(readGraph(graph(...Array(500).fill(0))).findings).toHaveLength(100);
});

it("names what was probably meant", () => {
  const { findings } = readGraph(graph(trigger("start", "stop"), { kind: "WorkflowAproval", id: "stap" }));
  expect(findings.map(({ message }) => message)).toEqual([
    "is no kind of node; did you mean WorkflowApproval?",
    "there is no node stop",
  ]);
});

it("describes every kind of node, and of each field what editors need", () => {
  expect(nodeKinds.map(({ id }) => id)).toEqual([
    ...["trigger", "script", "condition", "http_request", "emit_event", "embed_agent", "wait", "llm_call"],
    ...["for_each", "approval"],
  ]);
  const { fields } = toNodeType(nodeKinds.find(({ id }) => id === "http_request")!);
  const of = (key: string) => fields.find((field) => field.key === key);
  expect(of("url")).toMatchObject({ required: true, allowExpression: true, type: "string", defaultValue: null });
  expect(of("method")).toMatchObject({ required: false, defaultValue: "GET", type: "select" });
  expect(of("method")!.options![2]).toEqual({ value: "POST", label: "POST" });
  expect(of("timeout_seconds")).toMatchObject({ defaultValue: 30, options: null });
  expect(fields.map(({ key }) => key)).toEqual(expect.arrayContaining(["on_success", "on_error", "inputs"]));
});
