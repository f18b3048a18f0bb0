/** What people and models are told of workflow graphs, from the table that checks and runs them. */
import { MAX_ITEMS, MAX_OUTPUT, MAX_STEPS } from "./graph.ts";
import { fieldsOf, nodeKinds, toNodeType } from "./nodes.ts";
import { MAX_DEPTH, MAX_NODES } from "./read.ts";

/** A graph that runs as it stands. */
export const SAMPLE = `kind: WorkflowGraph
version: 1
name: Late orders
start_node: start
nodes:
  - kind: WorkflowTrigger
    id: start
    on_success: transform
  - kind: WorkflowScript
    id: transform
    script: sum-up
    on_success: tell
  - kind: WorkflowEmitEvent
    id: tell
    name: custom.orders.summed
    payload:
      count: "{{ $.count }}"
      text: "{{ $.count }} late orders"
data:
  - kind: Script
    id: sum-up
    script: |
      { count: array.length($.orders || []) }
`;

/** What leads a run, and asks nothing of the world. */
const FLOW = ["trigger", "condition", "for_each"];
const failed = {
  type: "object",
  properties: { error: { type: "string" }, node: { type: "string" }, input: {} },
  required: ["error", "node", "input"],
};

/** What nodes can have done, each with what it takes and gives. */
export const commandList = () =>
  nodeKinds
    .filter(({ id }) => !FLOW.includes(id))
    .map((kind) => {
      const fields = toNodeType(kind).fields.filter(({ key }) => Object.hasOwn(kind.fields, key));
      const properties = Object.fromEntries(fields.map(({ key, description }) => [key, { description }]));
      const required = fields.filter((field) => field.required).map(({ key }) => key);
      return {
        ...{ id: kind.id, name: kind.label, description: kind.description },
        ...{ expectedInput: { type: "object", properties, required } },
        ...{ successOutput: kind.gives ?? null, errorOutput: failed },
      };
    });

/** Enough to write graphs without ever having seen one. The language of expressions has a text of its own. */
export function workflowLlmText(): string {
  const nodes = nodeKinds.map((kind) => {
    const fields = toNodeType(kind).fields.filter(({ key }) => Object.hasOwn(kind.fields, key));
    const lines = fields.map(({ key, type, required, description, defaultValue, options }) => {
      const choices = options ? `: ${options.map(({ value }) => value).join(", ")}` : "";
      const fallback = required
        ? ", required"
        : defaultValue === null
          ? ""
          : `, \`${JSON.stringify(defaultValue)}\` unless said`;
      return `- \`${key}\` (${type}${choices}${fallback}): ${description}`;
    });
    return [`### ${kind.kind}`, "", `${kind.description} ${kind.docs}`, "", ...lines].join("\n").trimEnd();
  });
  const common = Object.entries(fieldsOf(nodeKinds[0]!)).map(
    ([key, { description }]) => `- \`${key}\`: ${description}`,
  );
  return [
    GUIDE,
    "## What every node has",
    common.join("\n"),
    "## Nodes",
    ...nodes,
    "## Example",
    `\`\`\`yaml\n${SAMPLE}\`\`\``,
  ].join("\n\n");
}

const GUIDE = `# Workflow graphs

A graph is YAML or JSON: \`kind: WorkflowGraph\`, \`version: 1\`, \`name\`, \`start_node\`, \`nodes\`, and \`data\` with the scripts
that its nodes name (\`{kind: Script, id, script}\`). Each node has a \`kind\` and an \`id\` of its own.

A run begins at \`start_node\` with its payload, and goes from node to node by \`on_success\`. What a node gives is \`$\` of the
next one; a node that names earlier ones in \`inputs\` has an object of what they gave instead. Where a node leads nowhere
the path ends, and what it gave is the result. A condition leads on by \`on_true\` and \`on_false\`.

In texts of a node \`{{ }}\` holds an expression of the script language, with \`$\`; a text that is one expression keeps its
value's type. A secret belongs into \`auth\`, or a script, not into an expression: what is evaluated is written down, and in
a run its \`env\` is empty.

Bounds: ${MAX_NODES} nodes, ${MAX_STEPS.toLocaleString("en")} steps, ${MAX_ITEMS} items of a WorkflowForEach, ${MAX_DEPTH} of these within each other, ${MAX_OUTPUT / 1024} KB of
what a node gives; in a run 64 KB of what is sent, and of what comes back: an answer, a script's result. A ring of nodes is allowed where there is a way out of it.`;
