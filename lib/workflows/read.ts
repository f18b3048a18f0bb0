/** A workflow graph, as it is read from JSON or YAML, and all that is to be said of it. */
import * as v from "valibot";
import { isMap } from "../http/valid.ts";
import { nearest, ScriptError } from "../script/errors.ts";
import type { Json } from "../script/index.ts";
import { lex } from "../script/lexer.ts";
import { parse } from "../script/parser.ts";
import { partsOf } from "../script/template.ts";
import { fieldsOf, type NodeKind, name, nodeId, nodeKindOf, nodeKinds } from "./nodes.ts";
import { LITERAL, MAX_EXPRESSIONS } from "./program.ts";

export const MAX_NODES = 1000;
/** How deep a ForEach may stand within others. */
export const MAX_DEPTH = 3;
const MAX_FINDINGS = 100;

export type GraphNode = {
  id: string;
  kind: NodeKind;
  /** The node's own fields, each with its default. */
  said: Record<string, unknown>;
  on_success: string | null;
  on_error: string | null;
  /** Those whose outputs are its `$`. */
  inputs: readonly string[] | null;
};
export type Graph = {
  start: string;
  nodes: ReadonlyMap<string, GraphNode>;
  /** Sources, by their ids. */
  scripts: ReadonlyMap<string, string>;
};

/** What is to be said: an error keeps the graph from running. `pointer` is where it stands, `node` in which node. */
export type GraphFinding = {
  severity: "error" | "warning";
  code: "malformed" | "bad_reference" | "unreachable" | "dead_end" | "cycle" | "bad_expression" | "unknown_field";
  message: string;
  node: string | null;
  pointer: string;
};
type Told = Omit<GraphFinding, "severity">;

/** What keeps a script from being read; null: nothing. */
function faultOfScript(source: string): string | null {
  try {
    parse(lex(source));
    return null;
  } catch (error) {
    if (!(error instanceof ScriptError)) throw error;
    const { line = 1, column = 1 } = error.at ?? {};
    return `line ${line}, column ${column}: ${error.message}`;
  }
}

/**
 * Reads a graph. `graph` is null where a finding is an error. Takes time in proportion to the graph, but for its ForEach
 * nodes, each of which may look at all. `faultOf` judges scripts and expressions: by their form alone, unless more is asked.
 */
export function readGraph(
  value: unknown,
  faultOf: (source: string) => string | null = faultOfScript,
): { graph: Graph | null; findings: GraphFinding[] } {
  const findings: GraphFinding[] = [];
  const tell = (severity: GraphFinding["severity"], told: Told) => {
    if (findings.length < MAX_FINDINGS) findings.push({ severity, ...told });
  };
  const error = (told: Told) => {
    hasErrors = true;
    tell("error", told);
  };
  let hasErrors = false;
  const malformed = (pointer: string, message: string) => error({ code: "malformed", message, node: null, pointer });
  const isOver = () => ({ graph: null, findings });

  if (!isMap(value)) {
    malformed("", "must be an object");
    return isOver();
  }
  const { kind = "WorkflowGraph", version, start_node, nodes: listed, data = [] } = value;
  if (kind !== "WorkflowGraph") malformed("/kind", "must be WorkflowGraph");
  if (version !== undefined && version !== null && String(version) !== "1") malformed("/version", "must be 1");
  if (!Array.isArray(listed) || !listed.length) malformed("/nodes", "must be a list of nodes, and not empty");
  else if (listed.length > MAX_NODES) malformed("/nodes", `must have at most ${MAX_NODES} nodes`);
  if (data !== null && (!Array.isArray(data) || data.length > MAX_NODES)) {
    malformed("/data", `must be a list of at most ${MAX_NODES}`);
  }
  if (hasErrors) return isOver();

  const scripts = new Map<string, string>();
  for (const [i, entry] of ((data ?? []) as unknown[]).entries()) {
    const pointer = `/data/${i}`;
    if (!isMap(entry) || !v.is(name, entry.id)) malformed(`${pointer}/id`, "must be a name, without braces");
    else if (entry.kind !== "Script") malformed(`${pointer}/kind`, "must be Script");
    else if (typeof entry.script !== "string") malformed(`${pointer}/script`, "must be a text");
    else if (scripts.has(entry.id as string)) malformed(`${pointer}/id`, "is there twice");
    else {
      scripts.set(entry.id as string, entry.script);
      const fault = faultOf(entry.script);
      if (fault) error({ code: "bad_expression", message: fault, node: null, pointer: `${pointer}/script` });
    }
  }

  const nodes = new Map<string, GraphNode>();
  const places = new Map<string, string>();
  for (const [i, one] of (listed as unknown[]).entries()) {
    const pointer = `/nodes/${i}`;
    const read = readNode(one, pointer, { error, warn: (told) => tell("warning", told), faultOf });
    if (!read) continue;
    if (nodes.has(read.id)) malformed(`${pointer}/id`, "is there twice");
    nodes.set(read.id, read);
    places.set(read.id, pointer);
  }

  const triggers = [...nodes.values()].filter(({ kind }) => kind.id === "trigger");
  const start = typeof start_node === "string" ? start_node : triggers.length === 1 ? triggers[0]!.id : null;
  if (start === null) malformed("/start_node", "must name the node where a run begins");
  else if (!nodes.has(start)) error(unknownNode(start, "/start_node", null, nodes));
  for (const node of nodes.values()) {
    const all = [...edgesOf(node), ...(node.inputs ?? []).map((to): Edge => ["inputs", to])];
    for (const [by, to] of all) {
      if (!nodes.has(to)) error(unknownNode(to, `${places.get(node.id)}/${by}`, node.id, nodes));
    }
  }
  if (hasErrors) return isOver();

  const graph: Graph = { start: start!, nodes, scripts };
  const of = (node: string, code: Told["code"], message: string): Told => ({
    ...{ code, message, node, pointer: places.get(node)! },
  });
  for (const told of tooDeep(graph)) error(of(told.node, "cycle", told.message));
  for (const ring of rings(graph)) {
    const path = [...ring.slice(0, 10), ring.length > 10 ? "…" : ring[0]].join(" → ");
    if (hasExit(graph, ring)) tell("warning", of(ring[0]!, "cycle", `goes round: ${path}`));
    else error(of(ring[0]!, "cycle", `never ends: ${path}`));
  }
  const reached = reach(graph, start!);
  for (const node of nodes.values()) {
    if (!reached.has(node.id)) tell("warning", of(node.id, "unreachable", "is never reached"));
    const leadsOn = node.kind.id === "trigger" || node.kind.id === "condition";
    if (leadsOn && !edgesOf(node).length) tell("warning", of(node.id, "dead_end", "leads nowhere"));
  }
  return { graph: hasErrors ? null : graph, findings };
}

type Tell = { error: (told: Told) => void; warn: (told: Told) => void; faultOf: (source: string) => string | null };

function readNode(one: unknown, pointer: string, { error, warn, faultOf }: Tell): GraphNode | null {
  const malformed = (at: string, message: string, node: string | null = null) =>
    error({ code: "malformed", message, node, pointer: `${pointer}${at}` });
  if (!isMap(one)) {
    malformed("", "must be an object");
    return null;
  }
  const { id, kind: named = one.type } = one;
  if (!v.is(nodeId, id)) {
    malformed("/id", "must be a name of at most 100 characters, without {}[]#");
    return null;
  }
  const kind = typeof named === "string" ? nodeKindOf(named) : null;
  if (!kind) {
    const kinds = nodeKinds.map((known) => known.kind);
    const meant = typeof named === "string" ? nearest(named.slice(0, 100), kinds) : null;
    malformed(
      "/kind",
      meant ? `is no kind of node; did you mean ${meant}?` : `must be one of: ${kinds.join(", ")}`,
      id,
    );
    return null;
  }
  const fields = fieldsOf(kind);
  const said: Record<string, unknown> = {};
  let isWell = true;
  for (const [key, { schema, type, allowExpression }] of Object.entries(fields)) {
    const given = Object.hasOwn(one, key) ? one[key] : undefined;
    const { output, issues } = v.safeParse(schema, given, { abortEarly: true });
    said[key] = output;
    if (issues) {
      isWell = false;
      const [{ message }] = issues;
      malformed(
        `/${key}`,
        given === undefined ? "is required" : message.startsWith("Invalid ") ? "is not of the right form" : message,
        id,
      );
      continue;
    }
    if (!allowExpression) continue;
    const isBare = type === "expression" && !String(given).includes("{{");
    const expressions = isBare ? [String(given)] : expressionsIn(given as Json);
    const fault = expressions
      .slice(0, MAX_EXPRESSIONS)
      .map(faultOf)
      .find((found) => found !== null);
    if (fault) error({ code: "bad_expression", message: fault, node: id, pointer: `${pointer}/${key}` });
  }
  if (!isWell) return null;
  // Those of all its fields are evaluated together.
  const isLong = expressionsIn(kind.ask(said as never)?.template).length > MAX_EXPRESSIONS;
  const fault = isLong ? `has more than ${MAX_EXPRESSIONS} expressions` : kind.fault?.(said as never);
  if (fault) {
    malformed("", fault, id);
    return null;
  }
  const known = [...Object.keys(fields), "id", "kind", "type", "name", "description"];
  for (const key of Object.keys(one)) {
    if (known.includes(key)) continue;
    const meant = nearest(key.slice(0, 100), known);
    const message = `is not a known field${meant ? `; did you mean "${meant}"?` : ""}`;
    warn({ code: "unknown_field", message, node: id, pointer: `${pointer}/${key.slice(0, 100)}` });
  }
  const { on_success = null, on_error, inputs, ...own } = said as Record<string, unknown> & GraphNode;
  return { id, kind, said: own, on_success, on_error, inputs };
}

function expressionsIn(value: Json | undefined): string[] {
  if (typeof value === "string") return partsOf(value).flatMap((part) => ("inner" in part ? [part.inner] : []));
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => (key === LITERAL ? [] : expressionsIn(inner)));
}

function unknownNode(to: string, pointer: string, node: string | null, nodes: ReadonlyMap<string, GraphNode>): Told {
  const meant = nearest(to, nodes.keys());
  const message = `there is no node ${to}${meant ? `; did you mean ${meant}?` : ""}`;
  return { code: "bad_reference", message, node, pointer };
}

type Edge = [by: string, to: string];
/** Where a node leads, and by which of its fields. */
function edgesOf({ kind, said, on_success, on_error }: GraphNode): Edge[] {
  const own = Object.keys(kind.fields).filter((key) => kind.fields[key]!.type === "node");
  const edges = own.map((key) => [key, said[key]] as [string, string | null]);
  return [["on_success", on_success] as const, ["on_error", on_error] as const, ...edges].flatMap(([by, to]) =>
    to === null ? [] : [[by, to] as Edge],
  );
}
/** The same, but for the way into a ForEach's body, which comes back by itself. */
const flowOf = (node: GraphNode) => edgesOf(node).filter(([by]) => by !== "body");

function reach({ nodes }: Graph, from: string): Set<string> {
  const reached = new Set([from]);
  for (const id of reached) for (const [, to] of edgesOf(nodes.get(id)!)) reached.add(to);
  return reached;
}

/** ForEach nodes whose path leads back to them, or that stand within too many others. */
function tooDeep(graph: Graph): { node: string; message: string }[] {
  const bodies = new Map<string, string[]>();
  const each = [...graph.nodes.values()].filter(({ kind }) => kind.id === "for_each");
  for (const { id, said } of each) {
    const reached = reach(graph, said.body as string);
    if (reached.has(id)) return [{ node: id, message: "its body leads back to it" }];
    bodies.set(
      id,
      each.filter((one) => reached.has(one.id)).map((one) => one.id),
    );
  }
  const depths = new Map<string, number>();
  const depthOf = (id: string): number => {
    const known = depths.get(id);
    if (known !== undefined) return known;
    const depth = 1 + Math.max(0, ...bodies.get(id)!.map(depthOf));
    depths.set(id, depth);
    return depth;
  };
  const deep = each.filter(({ id }) => depthOf(id) > MAX_DEPTH);
  return deep.map(({ id }) => ({ node: id, message: `has more than ${MAX_DEPTH} ForEach nodes within each other` }));
}

/** Nodes that lead to each other in a ring: Tarjan's strongly connected parts, without recursion. */
function rings({ nodes }: Graph): string[][] {
  const found: string[][] = [];
  const index = new Map<string, number>();
  const low = new Map<string, number>();
  const open: string[] = [];
  const isOpen = new Set<string>();
  for (const root of nodes.keys()) {
    if (index.has(root)) continue;
    const work: { id: string; edges: Edge[]; at: number }[] = [];
    const enter = (id: string) => {
      index.set(id, index.size);
      low.set(id, index.get(id)!);
      open.push(id);
      isOpen.add(id);
      work.push({ id, edges: flowOf(nodes.get(id)!), at: 0 });
    };
    enter(root);
    for (let top = work.at(-1); top; top = work.at(-1)) {
      const { id, edges } = top;
      const edge = edges[top.at++];
      if (edge) {
        const [, to] = edge;
        if (!index.has(to)) enter(to);
        else if (isOpen.has(to)) low.set(id, Math.min(low.get(id)!, index.get(to)!));
        continue;
      }
      work.pop();
      const above = work.at(-1);
      if (above) low.set(above.id, Math.min(low.get(above.id)!, low.get(id)!));
      if (low.get(id) !== index.get(id)) continue;
      const ring = open.splice(open.indexOf(id));
      for (const one of ring) isOpen.delete(one);
      if (ring.length > 1 || edges.some(([, to]) => to === id)) found.push(ring);
    }
  }
  return found;
}

/** Whether a run can leave a ring, or end within it, without failing. */
function hasExit({ nodes }: Graph, ring: readonly string[]): boolean {
  const within = new Set(ring);
  return ring.some((id) => {
    const node = nodes.get(id)!;
    if (flowOf(node).some(([, to]) => !within.has(to))) return true;
    if (node.kind.id === "condition") return node.said.on_true === null || node.said.on_false === null;
    return node.on_success === null;
  });
}
