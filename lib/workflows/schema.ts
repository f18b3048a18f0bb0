import * as v from "valibot";
import { map, maxValues, nullable, rule, text } from "../http/valid.ts";

const MAX_VALUES = 100_000;
const given = v.pipe(v.optional(map, {}), maxValues(MAX_VALUES));
const expression = v.optional(v.string(), "");

export const validateExpressionBody = v.strictObject({ expression });
export const runExpressionBody = v.strictObject({ expression, scope: given });
export const validateGraphBody = v.strictObject({ graph: v.pipe(map, maxValues(MAX_VALUES)) });
export const runWorkflowBody = v.pipe(
  v.strictObject({
    graph: v.pipe(v.optional(map), maxValues(MAX_VALUES)),
    node: v.optional(map),
    payload: given,
    context: v.optional(map, {}),
    env: v.optional(v.pipe(map, v.maxEntries(200), v.record(v.string(), text(10_000))), {}),
    run_as_user: v.optional(v.nullable(text(100))),
    run_as_agent: v.optional(v.nullable(text(255))),
  }),
  rule("graph", ({ graph, node }) => (graph === undefined) !== (node === undefined), "or node: exactly one of the two"),
  rule("run_as_agent", ({ run_as_user, run_as_agent }) => !(run_as_user && run_as_agent), "excludes run_as_user"),
);

const fields = v.array(
  v.strictObject({
    ...{ key: v.string(), label: v.string(), type: v.string(), description: v.string() },
    ...{ required: v.boolean(), allowExpression: v.boolean(), defaultValue: v.unknown() },
    options: v.nullable(v.array(v.strictObject({ value: v.string(), label: v.string() }))),
  }),
);
export const nodeType = v.strictObject({
  ...{ id: v.string(), label: v.string(), description: v.string(), docs: v.string(), category: v.string() },
  ...{ badge: nullable, color: nullable, fields },
});
export const nodeTypes = v.array(nodeType);

const jsonSchema = v.nullable(v.looseObject({}));
export const commands = v.array(
  v.strictObject({
    ...{ id: v.string(), name: v.string(), description: v.string() },
    ...{ expectedInput: jsonSchema, successOutput: jsonSchema, errorOutput: jsonSchema },
  }),
);

export const eventSample = v.strictObject({ sample: v.looseObject({}) });

export const graphValidation = v.strictObject({
  ...{ ok: v.boolean(), valid: v.boolean(), error: nullable },
  findings: v.array(
    v.strictObject({
      severity: v.picklist(["error", "warning"]),
      ...{ code: v.string(), message: v.string(), node: nullable, pointer: v.string() },
    }),
  ),
});

/** What a node did, in the order in which it did it. */
export const records = v.array(v.looseObject({ type: v.string(), node_id: v.string(), key: v.string() }));
export const workflowResult = v.strictObject({
  ...{ status: v.picklist(["completed", "waiting"]), output: v.unknown(), payload: v.unknown(), records },
  ...{ startNodeId: v.string(), nextNodeId: nullable, wait: v.nullable(v.looseObject({})), error: v.null() },
  ...{ log: v.array(v.string()), context: v.looseObject({}), env: v.null(), files: v.null() },
});
