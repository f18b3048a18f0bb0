import * as v from "valibot";
import { type Asked, allow, type Credential, openDb } from "../../lib/auth/allow.ts";
import { bytesOf, utf8 } from "../../lib/configs/content.ts";
import { scriptNamed } from "../../lib/configs/queries.ts";
import { ApiError, invalid, notFound } from "../../lib/errors.ts";
import { typeOf } from "../../lib/events/catalogue.ts";
import { egressOf } from "../../lib/http/egress.ts";
import { inTurn, runs } from "../../lib/http/gate.ts";
import { gives, givesBytes, givesText } from "../../lib/http/gives.ts";
import { onceBegun } from "../../lib/http/once.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { edgeWorld, type Json, runScript, validateScript } from "../../lib/script/index.ts";
import { output, validation } from "../../lib/scripts/schema.ts";
import { eyesOf, identify, type Opens, worldOf } from "../../lib/scripts/world.ts";
import { sendRequest } from "../../lib/workflows/http.ts";
import { nodeKindOf, nodeKinds, toNodeType } from "../../lib/workflows/nodes.ts";
import { commandList, SAMPLE, workflowLlmText } from "../../lib/workflows/prompt.ts";
import { type Graph, type GraphFinding, readGraph } from "../../lib/workflows/read.ts";
import {
  commands,
  eventSample,
  graphValidation,
  nodeType,
  nodeTypes,
  runExpressionBody,
  runWorkflowBody,
  validateExpressionBody,
  validateGraphBody,
  workflowResult,
} from "../../lib/workflows/schema.ts";
import { graphOfNode, type Hands, tryGraph } from "../../lib/workflows/try.ts";

const RUN_MS = 30_000;

const workflows = router();

workflows.get(
  "/api/v1/workflows/commands",
  named("List the commands of workflows"),
  allow("workflows:read"),
  gives(200, commands),
  async (c) => {
    await c.var.db.enter();
    return c.var.answer(commandList());
  },
);

workflows.get(
  "/api/v1/workflows/events/:name/sample",
  named("Show a sample of an event"),
  allow("workflows:read"),
  gives(200, eventSample, 404),
  async (c) => {
    await c.var.db.enter();
    const type = typeOf(c.req.param("name"));
    if (!type) throw notFound("event");
    return c.var.answer({ sample: type.sample as Record<string, unknown> });
  },
);

/** 422 for an expression that fails. It reaches nothing but its scope. */
workflows.post(
  "/api/v1/workflows/expressions/run",
  named("Run an expression"),
  allow("workflows:write"),
  valid("json", runExpressionBody),
  gives(200, v.strictObject({ result: v.unknown(), output }), 429),
  async (c) => {
    const { expression, scope } = c.req.valid("json");
    await c.var.db.enter();
    const world = edgeWorld({ fetch: async () => Response.error() });
    const run = await inTurn(runs, c, () =>
      runScript(expression, { input: scope as Json, world, limits: { calls: 0 } }),
    );
    if (run.status !== "done") throw invalid({ field: "expression", message: run.error! });
    return c.var.answer({ result: run.result, output: run.output });
  },
);

workflows.post(
  "/api/v1/workflows/expressions/validate",
  named("Validate an expression"),
  allow("workflows:read"),
  valid("json", validateExpressionBody),
  gives(200, validation),
  async (c) => {
    await c.var.db.enter();
    return c.var.answer(validateScript(c.req.valid("json").expression));
  },
);

workflows.post(
  "/api/v1/workflows/graph/validate",
  named("Validate a workflow graph"),
  allow("workflows:read"),
  valid("json", validateGraphBody),
  gives(200, graphValidation),
  async (c) => {
    await c.var.db.enter();
    const { graph, findings } = readGraph(c.req.valid("json").graph, faultOf);
    const fault = findings.find(({ severity }) => severity === "error");
    return c.var.answer({ ok: graph !== null, valid: graph !== null, error: fault ? spoken(fault) : null, findings });
  },
);

/** Graphs for models: a prompt. */
workflows.get(
  "/api/v1/workflows/llm.txt",
  named("Describe workflow graphs to a model"),
  allow("workflows:read"),
  givesText(),
  async (c) => {
    await c.var.db.enter();
    return c.var.answer(workflowLlmText());
  },
);

workflows.get(
  "/api/v1/workflows/node_types",
  named("List the node types of workflows"),
  allow("workflows:read"),
  gives(200, nodeTypes),
  async (c) => {
    await c.var.db.enter();
    return c.var.answer(nodeKinds.map(toNodeType));
  },
);

workflows.get(
  "/api/v1/workflows/node_types/:node_type",
  named("Get a node type of workflows"),
  allow("workflows:read"),
  gives(200, nodeType, 404),
  async (c) => {
    await c.var.db.enter();
    const kind = nodeKindOf(c.req.param("node_type"));
    if (!kind) throw notFound("address");
    return c.var.answer(toNodeType(kind));
  },
);

/**
 * Tries a graph out: nothing is stored, and nothing published; what it would have published is among the records. It ends
 * where it would have to wait. 422 for one that can't run or fails, with the records so far.
 */
workflows.post(
  "/api/v1/workflows/run",
  named("Run a workflow graph, or a node of one"),
  allow("workflows:write"),
  valid("json", runWorkflowBody),
  onceBegun(),
  gives(200, workflowResult, 409, 429),
  async (c) => {
    const { graph: value, node, payload, context, env, ...as } = c.req.valid("json");
    await c.var.db.enter();
    const read = node ? graphOfNode(node, faultOf) : { ...readGraph(value, faultOf), only: undefined };
    if (!read.graph) throw invalid(faultsOf(read.findings, node ? "node" : "graph"));
    const graph = read.graph;
    const log: string[] = [];
    const { tried, viewer } = await inTurn(runs, c, async () => {
      const identity = await identify(c.var.credential, opens(c), as);
      await c.var.begin();
      const ended = AbortSignal.timeout(RUN_MS);
      const viewer = { ...context, ...identity.viewer } as Record<string, Json>;
      const eyes = eyesOf(c.var.credential, opens(c), identity);
      const hands = handsOf(c, graph, { eyes, viewer, env, log, ended });
      const only = read.only === undefined ? {} : { only: read.only };
      return { viewer, tried: await tryGraph(graph, payload as Json, { hands, env, ended, ...only }) };
    });
    const { status, output, error, next, wait, records } = tried;
    if (status === "failed") throw new ApiError(422, "workflow_failed", error!, [], {}, { records });
    return c.var.answer({
      ...{ status, output, payload, records, startNodeId: graph.start, nextNodeId: next, wait },
      ...{ error: null, log, context: viewer, env: null, files: null },
    });
  },
);

/** A graph to begin with. */
workflows.get(
  "/api/v1/workflows/sample",
  named("Get a sample of a workflow graph"),
  allow("workflows:read"),
  givesBytes(),
  async (c) => {
    await c.var.db.enter();
    return c.var.answer(utf8(SAMPLE), "application/x-yaml");
  },
);

const faultOf = (source: string) => {
  const [fault] = validateScript(source).findings.filter(({ severity }) => severity === "error");
  return fault ? `line ${fault.line}, column ${fault.column}: ${fault.message}` : null;
};
const spoken = ({ node, pointer, message }: GraphFinding) => `${node ? `${node}: ` : ""}${pointer} ${message}`;
const faultsOf = (findings: GraphFinding[], field: string) =>
  findings
    .filter(({ severity }) => severity === "error")
    .slice(0, 50)
    .map(({ pointer, message }) => ({ field: `${field}${pointer.replaceAll("/", ".")}`.slice(0, 100), message }));

/** The sender's database for each permission that its graph turns out to need. */
const opens =
  (c: Asked & { var: { credential: Credential } }): Opens =>
  (permission) =>
    openDb(c, c.var.credential, permission);

type Trying = {
  eyes: Opens;
  viewer: Record<string, Json>;
  env: Record<string, string>;
  log: string[];
  ended: AbortSignal;
};

/** What a graph that is tried out has done. What isn't here would be waited for. */
function handsOf(
  c: Asked & { var: { credential: Credential } },
  graph: Graph,
  { eyes, viewer, env, log, ended }: Trying,
): Hands {
  const world = worldOf(c.env, c.var.credential, eyes);
  const begun_at = new Date().toISOString();
  const sourceOf = async (key: string) => {
    const source = graph.scripts.get(key);
    if (source !== undefined) return source;
    try {
      const content = await scriptNamed(eyes("configs:read"), key, begun_at);
      return content && new TextDecoder().decode(bytesOf({ encoding: content.encoding, text: content.content })!);
    } catch (error) {
      // To whom it may not read it, it isn't there.
      if (error instanceof ApiError && error.status === 403) return null;
      throw error;
    }
  };
  return {
    script: async (args) => {
      const { script, input } = args as { script: string; input: Json };
      const source = await sourceOf(script);
      if (source === null) return { error: `there is no script ${script}` };
      const run = await runScript(source, { input, env, viewer, world, scripts: sourceOf });
      log.push(...run.output.map(({ text }) => text));
      return run.status === "done" ? { ok: run.result } : { error: `the script failed: ${run.error}` };
    },
    http: async (args, { key, effect }) => {
      const sending = { effect, idempotency_key: `${crypto.randomUUID()}-${key}`, env, signal: ended };
      const sent = await sendRequest(args, sending, egressOf(c.env));
      if ("unknown" in sent) return { error: "nobody knows whether the request arrived" };
      return "passing" in sent ? { error: sent.passing } : sent;
    },
    emit: async (args) => ({ ok: args }),
  };
}

export default workflows;
