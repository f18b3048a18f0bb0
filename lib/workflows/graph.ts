/**
 * What a workflow graph does, as a pure machine (lib/workflows/program.ts): which nodes ask now, and which come next. A
 * run goes along one path; each item of a ForEach has a path of its own.
 */
import { isMap } from "../http/valid.ts";
import type { Json } from "../script/index.ts";
import type { Ask, Outcome, Program, Step } from "./program.ts";
import type { Graph, GraphNode } from "./read.ts";

/** Nodes that a run may enter. */
export const MAX_STEPS = 10_000;
/** Of a ForEach. */
export const MAX_ITEMS = 1_000;
/** Of what a node gives, in characters of JSON. */
export const MAX_OUTPUT = 262_144;
/** Of all that a run holds at a time. */
export const MAX_HELD = 1_048_576;
const MAX_ERROR = 4_000;
/** Asks under way at once. */
const MAX_AT_ONCE = 20;
/** How often what may pass is tried. */
const ATTEMPTS = 3;

/** A value, and how long it is. */
type Sized = { value: Json; size: number };
type Outputs = ReadonlyMap<string, Sized>;

/** One way through the graph, at a node whose answer it waits for. */
type Path = {
  /** What its keys begin with: the ForEach and the item that it is of. */
  prefix: string;
  at: string;
  key: string;
  /** What `$` is. */
  scope: Sized;
  visits: ReadonlyMap<string, number>;
  /** What those nodes gave that others name, here and around it. */
  outputs: Outputs;
  outer: Outputs;
  /** Of a ForEach whose items are under way. */
  each: Each | null;
};
type Each = {
  items: readonly Json[];
  size: number;
  begun: number;
  paths: ReadonlyMap<number, Path>;
  results: ReadonlyMap<number, Sized>;
};
/** Where a path has come to. `over` is the end of the whole run, which no node can take up. */
type Came = { path: Path } | { done: Sized } | { failed: string } | { over: string };

export type GraphState = { steps: number; path: Path | null; end: Exclude<Step, { do: "ask" }> | null };

const sized = (value: Json): Sized => ({ value, size: JSON.stringify(value).length });
const NONE: Outputs = new Map();

/** An event as a run is given it, without what is around its payload. */
const unwrapped = (input: Json): Json =>
  isMap(input) && typeof input.id === "string" && input.id.startsWith("evt_") && isMap(input.payload)
    ? (input.payload as Json)
    : input;

/** The program that a graph is. */
export function graphProgram(graph: Graph): Program<GraphState> {
  const nodeAt = (id: string) => graph.nodes.get(id)!;
  const named = new Set([...graph.nodes.values()].flatMap(({ inputs }) => inputs ?? []));

  /** Goes on to a node, and past those that ask nothing. */
  function enter(run: { steps: number }, from: Path, to: string, given: Sized): Came {
    let path = from;
    for (let id: string | null = to, value = given; ; ) {
      if (++run.steps > MAX_STEPS) return { over: `steps: it took more than ${MAX_STEPS} steps` };
      const node = nodeAt(id);
      const count = (path.visits.get(id) ?? 0) + 1;
      const visits = new Map(path.visits).set(id, count);
      const scope = node.inputs ? chosen(path, node.inputs) : value;
      const key = `${path.prefix}${id}${count > 1 ? `#${count}` : ""}`;
      path = { ...path, at: id, key, scope, visits, each: null };
      if (node.kind.ask(node.said as never)) return { path };
      path = kept(path, node, scope);
      if (node.on_success === null) return { done: scope };
      id = node.on_success;
      value = scope;
    }
  }

  /** What a node is given that names others: what each of them gave last. */
  function chosen({ outputs, outer }: Path, inputs: readonly string[]): Sized {
    const found = inputs.map((id) => [id, outputs.get(id) ?? outer.get(id) ?? { value: null, size: 4 }] as const);
    const size = found.reduce((sum, [id, one]) => sum + id.length + one.size, 0);
    return { value: Object.fromEntries(found.map(([id, { value }]) => [id, value])), size };
  }

  const kept = (path: Path, { id }: GraphNode, output: Sized): Path =>
    named.has(id) ? { ...path, outputs: new Map(path.outputs).set(id, output) } : path;

  function leave(run: { steps: number }, path: Path, output: Sized, to: string | null): Came {
    if (output.size > MAX_OUTPUT) return fail(run, path, `its output is longer than ${MAX_OUTPUT} characters`);
    const on = kept({ ...path, each: null }, nodeAt(path.at), output);
    return to === null ? { done: output } : enter(run, on, to, output);
  }

  function fail(run: { steps: number }, path: Path, error: string): Came {
    const { id, on_error } = nodeAt(path.at);
    const message = error.slice(0, MAX_ERROR);
    if (on_error === null) return { failed: `${id}: ${message}`.slice(0, MAX_ERROR) };
    const told = { error: message, node: id, input: path.scope.value };
    return enter(run, { ...path, each: null }, on_error, { value: told, size: path.scope.size + message.length });
  }

  function answered(run: { steps: number }, path: Path, outcome: Outcome): Came {
    if ("error" in outcome) return fail(run, path, outcome.error);
    const node = nodeAt(path.at);
    if (node.kind.id === "for_each") return beginEach(run, path, outcome.ok);
    const gone = node.kind.go?.(node.said as never, path.scope.value, outcome.ok) ?? { value: outcome.ok };
    if ("error" in gone) return fail(run, path, gone.error);
    const output = gone.value === path.scope.value ? path.scope : sized(gone.value);
    return leave(run, path, output, gone.to === undefined ? node.on_success : gone.to);
  }

  function beginEach(run: { steps: number }, path: Path, items: Json): Came {
    if (!Array.isArray(items)) return fail(run, path, "its items are no list");
    if (items.length > MAX_ITEMS) return fail(run, path, `it has more than ${MAX_ITEMS} items`);
    const { size } = sized(items);
    return goOn(run, path, { items, size, begun: 0, paths: new Map(), results: new Map() });
  }

  /** Begins as many items as may be under way; when all are done, so is their ForEach. */
  function goOn(run: { steps: number }, path: Path, each: Each): Came {
    const { said, on_success } = nodeAt(path.at);
    const outer = new Map([...path.outer, ...path.outputs]);
    const paths = new Map(each.paths);
    const results = new Map(each.results);
    let { begun } = each;
    for (; begun < each.items.length && paths.size < (said.concurrency as number); begun++) {
      const prefix = `${path.key}[${begun}].`;
      const fresh: Path = { ...path, prefix, visits: new Map(), outputs: NONE, outer, each: null };
      const came = enter(run, fresh, said.body as string, sized(each.items[begun]!));
      if ("path" in came) paths.set(begun, came.path);
      else if ("done" in came) results.set(begun, came.done);
      else return came;
    }
    if (paths.size) return { path: { ...path, each: { ...each, begun, paths, results } } };
    const size = [...results.values()].reduce((sum, one) => sum + one.size + 1, 2);
    const value = each.items.map((_, i) => results.get(i)!.value);
    return leave(run, path, { value, size }, on_success);
  }

  /** Hands an outcome to the path that waits for it; null where none does. */
  function hand(run: { steps: number }, path: Path, key: string, outcome: Outcome): Came | null {
    if (!path.each) return path.key === key ? answered(run, path, outcome) : null;
    for (const [i, one] of path.each.paths) {
      if (!key.startsWith(one.prefix)) continue;
      const came = hand(run, one, key, outcome);
      if (!came || "over" in came) return came;
      if ("failed" in came) return fail(run, path, `item ${i}: ${came.failed}`);
      const paths = new Map(path.each.paths);
      if ("path" in came) return { path: { ...path, each: { ...path.each, paths: paths.set(i, came.path) } } };
      paths.delete(i);
      const results = new Map(path.each.results).set(i, came.done);
      return goOn(run, path, { ...path.each, paths, results });
    }
    return null;
  }

  function askOf({ at, key, scope }: Path): Ask {
    const { kind, said } = nodeAt(at);
    return { key, node: at, ...kind.ask(said as never)!, scope: scope.value, attempts: ATTEMPTS };
  }
  const asksOf = (path: Path): Ask[] => (path.each ? [...path.each.paths.values()].flatMap(asksOf) : [askOf(path)]);

  function stateOf({ steps }: { steps: number }, came: Came): GraphState {
    if ("path" in came) {
      if (held(came.path) <= MAX_HELD) return { steps, path: came.path, end: null };
      return { steps, path: null, end: { do: "fail", error: `memory: it holds more than ${MAX_HELD} characters` } };
    }
    const end = "done" in came ? ({ do: "complete", result: came.done.value } as const) : null;
    return {
      steps,
      path: null,
      end: end ?? { do: "fail", error: "over" in came ? came.over : (came as { failed: string }).failed },
    };
  }

  return {
    begin: (input) => {
      const run = { steps: 0 };
      const path: Path = {
        ...{ prefix: "", at: graph.start, key: "", scope: sized(null), visits: new Map() },
        ...{ outputs: NONE, outer: NONE, each: null },
      };
      return stateOf(run, enter(run, path, graph.start, sized(unwrapped(input))));
    },
    next: ({ path, end }) => end ?? { do: "ask", asks: asksOf(path!).slice(0, MAX_AT_ONCE) },
    take: (state, key, outcome) => {
      if (!state.path) return state;
      const run = { steps: state.steps };
      const came = hand(run, state.path, key, outcome);
      return came ? stateOf(run, came) : state;
    },
  };
}

/** How much a path holds, and those within it. */
function held({ scope, outputs, each }: Path): number {
  const sum = (sizes: Iterable<number>) => [...sizes].reduce((all, one) => all + one, 0);
  const own = scope.size + sum([...outputs.values()].map(({ size }) => size));
  if (!each) return own;
  return (
    own + each.size + sum([...each.results.values()].map(({ size }) => size)) + sum([...each.paths.values()].map(held))
  );
}
