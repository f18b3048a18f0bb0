import { PlatformClient } from "@archastro/sdk";
import { describe, expect, it } from "vitest";
import { anAgent, anApp, type Call, must, system } from "../harness/index.ts";

const trigger = { kind: "WorkflowTrigger", id: "start", on_success: "a" };
const script = (id: string, source: string, on_success?: string) => ({
  node: { kind: "WorkflowScript", id, script: id, on_success },
  data: { kind: "Script", id, script: source },
});
const graph = (...nodes: (object | ReturnType<typeof script>)[]) => ({
  ...{ kind: "WorkflowGraph", version: 1, start_node: "start" },
  nodes: [trigger, ...nodes.map((one) => ("node" in one ? one.node : one))],
  data: nodes.flatMap((one) => ("data" in one ? [one.data] : [])),
});
const RUN = "/api/v1/workflows/run";

describe("the SDK", () => {
  it("reads the sample, validates it and runs it, and sees what it would have published", async () => {
    const { acme, owners, publishable_key, aToken, as } = await anApp();
    const { access_token } = await aToken(owners[acme]!);
    const client = PlatformClient.withToken(publishable_key, access_token, system.base);
    const { content, mimeType } = await client.workflows.sample.list();
    expect(mimeType).toMatch(/^application\/x-yaml/);
    const raw_content = new TextDecoder().decode(content);
    const config = { kind: "WorkflowGraph", lookup_key: "late", mime_type: "application/yaml", raw_content };
    const { id } = await client.config.create(config);
    const read = await must(as(acme)("GET", `/api/v1/config/${id}/content?format=json`), 200);
    expect(await client.workflows.graph.validate({ graph: read })).toEqual({
      ok: true,
      valid: true,
      error: null,
      findings: [],
    });
    const { status, output, records } = await client.workflows.run({ graph: read, payload: { orders: [1, 2] } });
    expect([status, output]).toEqual(["completed", { count: 2 }]);
    expect(records).toContainEqual(
      expect.objectContaining({
        type: "event_emitted",
        name: "custom.orders.summed",
        payload: { count: 2, text: "2 late orders" },
      }),
    );
  });

  it("lists node types and commands, gets one by either name, and a sample of an event", async () => {
    const { acme, as } = await anApp();
    const types = await must(as(acme)("GET", "/api/v1/workflows/node_types"), 200);
    expect(types.map(({ id }: any) => id)).toEqual(
      expect.arrayContaining(["trigger", "script", "for_each", "approval"]),
    );
    const one = types.find(({ id }: any) => id === "http_request");
    for (const name of ["http_request", "WorkflowHttpRequest"]) {
      expect(await must(as(acme)("GET", `/api/v1/workflows/node_types/${name}`), 200)).toEqual(one);
    }
    const commands = await must(as(acme)("GET", "/api/v1/workflows/commands"), 200);
    expect(commands.find(({ id }: any) => id === "http_request")).toMatchObject({
      expectedInput: { required: ["url"] },
      successOutput: { required: ["status", "content_type", "body"] },
    });
    expect(commands.map(({ id }: any) => id)).not.toContain("condition");
    const { sample } = await must(as(acme)("GET", "/api/v1/workflows/events/schedule.cron/sample"), 200);
    expect(sample).toHaveProperty("planned_at");
    const type = await must(as(acme)("GET", "/api/v1/event_types/agent_session.completed"), 200);
    const same = await must(as(acme)("GET", "/api/v1/workflows/events/agent_session.completed/sample"), 200);
    expect(same).toEqual({ sample: type.sample });
    for (const absent of [
      "events/nothing.happened/sample",
      "events/constructor/sample",
      "node_types/constructor",
      "node_types/nothing",
    ]) {
      expect((await as(acme)("GET", `/api/v1/workflows/${absent}`)).status).toBe(404);
    }
  });

  it("tells a model of every node", async () => {
    const { acme, as } = await anApp();
    const { text } = await as(acme)("GET", "/api/v1/workflows/llm.txt");
    for (const part of [
      "### WorkflowForEach",
      "- `concurrency` (number, `1` unless said)",
      "kind: WorkflowGraph",
      "1000 nodes",
    ]) {
      expect(text).toContain(part);
    }
  });
});

describe("an expression", () => {
  it("is run over its scope: 422 with the reason for one that fails, or would reach out", async () => {
    const { acme, as } = await anApp();
    const run = (expression: string, scope?: object) =>
      as(acme)("POST", "/api/v1/workflows/expressions/run", { expression, scope });
    expect((await run('println("hi")\n$.a + 1', { a: 1 })).body).toMatchObject({ result: 2, output: [{ text: "hi" }] });
    for (const [bad, why] of [
      ["1 / 0", /zero/],
      ["1 +", /./],
      ['unwrap(requests.get("https://a.example/"))', /outbound/],
    ] as const) {
      const { status, body } = await run(bad);
      expect([status, body.error.fields[0].field]).toEqual([422, "expression"]);
      expect(body.error.fields[0].message).toMatch(why);
    }
  });

  it("is validated, and that is a 200 whatever it is", async () => {
    const { acme, as } = await anApp();
    const validate = async (expression: string) =>
      must(as(acme)("POST", "/api/v1/workflows/expressions/validate", { expression }), 200);
    expect(await validate("$.a + 1")).toMatchObject({ ok: true, valid: true, error: null });
    expect(await validate("name + 1")).toMatchObject({ ok: false, valid: false, error: expect.stringMatching(/name/) });
  });
});

describe("POST /api/v1/workflows/graph/validate", () => {
  it("says what is wrong, in which node and where, names in expressions among it", async () => {
    const { acme, as } = await anApp();
    const validate = (value: object) =>
      must(as(acme)("POST", "/api/v1/workflows/graph/validate", { graph: value }), 200);
    expect(await validate(graph({ kind: "WorkflowApproval", id: "a", message: "{{ total }}" }))).toMatchObject({
      ...{ ok: false, valid: false, error: expect.stringMatching(/^a: \/nodes\/1\/message /) },
      findings: [{ severity: "error", code: "bad_expression", node: "a", pointer: "/nodes/1/message" }],
    });
    expect(
      await validate(graph({ kind: "WorkflowApproval", id: "a", message: "?", on_success: "start" })),
    ).toMatchObject({
      findings: [{ severity: "error", code: "cycle" }],
    });
    expect(await validate({})).toMatchObject({ ok: false, findings: [{ code: "malformed", pointer: "/nodes" }] });
  });

  it("holds a config of the kind to the same", async () => {
    const { acme, as } = await anApp();
    const save = (value: object) =>
      as(acme)("POST", "/api/v1/config", {
        kind: "WorkflowGraph",
        mime_type: "application/json",
        raw_content: JSON.stringify(value),
      });
    expect((await save(graph({ kind: "WorkflowApproval", id: "a", message: "?" }))).status).toBe(201);
    const { status, body } = await save(graph({ kind: "WorkflowApproval", id: "b", message: "?" }));
    expect([status, body.error.fields[0].message]).toEqual([
      422,
      expect.stringMatching(/on_success.*there is no node a/),
    ]);
  });
});

describe("POST /api/v1/workflows/run", () => {
  const run = async (call: Call, body: object) => call("POST", RUN, body);

  it("runs a graph, and answers what each node was given and gave", async () => {
    const { acme, as } = await anApp();
    const steps = graph(
      script("a", 'println("at a")\n{ n: $.n + 1, key: env.KEY, who: viewer.org, of: viewer.of }', "b"),
      script("b", "$"),
    );
    const { body, status } = await run(as(acme), {
      graph: steps,
      payload: { n: 1 },
      env: { KEY: "k" },
      context: { of: "me", org: "x" },
    });
    const output = { n: 2, key: "k", who: acme, of: "me" };
    expect([status, body.status, body.output]).toEqual([200, "completed", output]);
    expect(body).toMatchObject({
      payload: { n: 1 },
      startNodeId: "start",
      nextNodeId: null,
      wait: null,
      error: null,
      log: ["at a"],
    });
    expect(body.records.map(({ type, node_id, input, output }: any) => [type, node_id, input ?? output])).toEqual([
      ["node_started", "a", { n: 1 }],
      ["node_completed", "a", output],
      ["node_started", "b", output],
      ["node_completed", "b", output],
    ]);
  });

  it("is a 422 with the message and the records so far for one that fails", async () => {
    const { acme, as } = await anApp();
    const { status, body } = await run(as(acme), { graph: graph(script("a", "1", "b"), script("b", "1 / 0")) });
    expect([status, body.error.code, body.detail]).toEqual([
      422,
      "workflow_failed",
      expect.stringMatching(/^b: .*zero/),
    ]);
    expect(body.records.map(({ type, node_id }: any) => `${type} ${node_id}`)).toEqual([
      ...["node_started a", "node_completed a", "node_started b", "node_failed b"],
    ]);
  });

  it.each([
    ["approval", { kind: "WorkflowApproval", message: "Pay {{ $.n }}?" }, { message: "Pay 1?", input: { n: 1 } }],
    ["wait", { kind: "WorkflowWait", seconds: "{{ $.n * 60 }}" }, { seconds: 60 }],
    ["llm", { kind: "WorkflowLlmCall", prompt: "Say {{ $.n }}" }, { prompt: "Say 1", max_tokens: 4096 }],
    [
      "work",
      { kind: "WorkflowEmbedAgent", participant: "clerk", instructions: "Do {{ $.n }}" },
      { participant: "clerk", instructions: "Do 1" },
    ],
  ])("waits at a node of kind %s, and says for what", async (kind, node, asked) => {
    const { acme, as } = await anApp();
    const { body } = await run(as(acme), { graph: graph({ id: "a", ...node }), payload: { n: 1 } });
    expect(body).toMatchObject({
      status: "waiting",
      nextNodeId: "a",
      wait: { kind, node_id: "a", key: "a", arguments: asked },
    });
  });

  it("says until when it would wait, and fails for a time that is none", async () => {
    const { acme, as } = await anApp();
    const wait = async (seconds: number) =>
      run(as(acme), { node: { type: "wait", seconds: "{{ $.seconds }}" }, payload: { seconds } });
    const begun = Date.now();
    const { until } = (await wait(60)).body.wait;
    expect(Math.abs(Date.parse(until) - begun - 60_000)).toBeLessThan(30_000);
    expect((await wait(-1)).body.detail).toBe("node: seconds must be a number from 0 to 31536000");
  });

  it("runs a node alone, and says where it would go on", async () => {
    const { acme, as } = await anApp();
    const alone = async (node: object, payload: object) => (await run(as(acme), { node, payload })).body;
    const condition = { type: "condition", condition: "$.n > 1", on_true: "yes", on_false: "no" };
    expect(await alone(condition, { n: 2 })).toMatchObject({
      status: "completed",
      output: { n: 2 },
      nextNodeId: "yes",
    });
    expect(await alone(condition, { n: 1 })).toMatchObject({ nextNodeId: "no" });
    const emit = { type: "emit_event", name: "custom.a", payload: { n: "{{ $.n }}" } };
    expect((await alone(emit, { n: 3 })).records).toContainEqual(
      expect.objectContaining({ type: "event_emitted", payload: { n: 3 } }),
    );
  });

  it("reads a script of the place by its key, for whom its scopes open configs, and nobody else's", async () => {
    const { acme, globex, as } = await anApp();
    const config = { kind: "Script", lookup_key: "double", mime_type: "text/plain", raw_content: "$.n * 2" };
    await must(as(acme)("POST", "/api/v1/config", config), 201);
    const node = { type: "script", script: "double" };
    const result = async (call: Call) => (await run(call, { node, payload: { n: 4 } })).body;
    expect(await result(as(acme))).toMatchObject({ output: 8 });
    for (const call of [as(globex), as(acme, { scopes: ["workflows:*"] })]) {
      expect((await result(call)).detail).toBe("node: there is no script double");
    }
  });

  it("sees what its sender may see, with the sender's scopes", async () => {
    const { acme, globex, as } = await anApp();
    await anAgent(as(acme));
    const seen = async (call: Call) =>
      (await run(call, { graph: graph(script("a", "unwrap(agents.list(), null)")) })).body.output?.total_entries ??
      null;
    expect(await seen(as(acme))).toBe(1);
    expect(await seen(as(globex))).toBe(0);
    expect(await seen(as(acme, { scopes: ["workflows:*"] }))).toBeNull();
  });

  it("wants exactly one of graph and node, and one that can run", async () => {
    const { acme, as } = await anApp();
    const faults = async (body: object) => {
      const { status, body: answer } = await run(as(acme), body);
      return [status, answer.error?.fields[0].field];
    };
    expect(await faults({})).toEqual([422, "graph"]);
    expect(await faults({ graph: graph(), node: { type: "trigger" } })).toEqual([422, "graph"]);
    expect(await faults({ graph: graph() })).toEqual([422, "graph.nodes.0.on_success"]);
    expect(await faults({ node: { type: "nothing" } })).toEqual([422, "node.nodes.0.kind"]);
    expect(await faults({ node: { type: "trigger" }, run_as_user: "a", run_as_agent: "b" })).toEqual([
      422,
      "run_as_agent",
    ]);
  });

  it("runs once under a key", async () => {
    const { acme, as } = await anApp();
    const again = () => as(acme)("POST", RUN, { node: { type: "trigger" } }, { "Idempotency-Key": "one" });
    expect([(await again()).status, (await again()).status]).toEqual([200, 409]);
  });
});
