/** A graph that is tried out: run at once and by itself, as far as it comes, with nothing kept. */
import type { Json } from "../script/index.ts";
import { evaluate } from "./evaluate.ts";
import { graphProgram } from "./graph.ts";
import type { Ask, AskKind, Outcome } from "./program.ts";
import { type Graph, type GraphFinding, readGraph } from "./read.ts";
import { waitUntil } from "./wait.ts";

/** Of all records together, in characters of JSON: what comes then is told without its output. */
const MAX_RECORDED = 1_000_000;
const MAX_RECORDS = 1_000;

export type TriedRecord = {
  type: "node_started" | "node_completed" | "node_failed" | "event_emitted";
  node_id: string;
  key: string;
} & Record<string, unknown>;
export type Tried = {
  status: "completed" | "failed" | "waiting";
  output: Json;
  error: string | null;
  /** Where it waits, or, of a single node, where it would go on. */
  next: string | null;
  wait: Record<string, Json> | null;
  records: TriedRecord[];
};
/** What makes an ask's command, by what kind it is. What has none is waited for. */
export type Hands = Partial<Record<AskKind, (args: Json, ask: Ask) => Promise<Outcome>>>;

/** Runs a graph until it ends, waits, or `ended` is aborted. Of those that may be under way, one at a time. */
export async function tryGraph(
  graph: Graph,
  input: Json,
  {
    hands,
    env,
    ended,
    only,
  }: { hands: Hands; env: Readonly<Record<string, string>>; ended: AbortSignal; only?: string },
): Promise<Tried> {
  const program = graphProgram(graph);
  const records: TriedRecord[] = [];
  let recorded = 0;
  const record = (type: TriedRecord["type"], { node, key }: Ask, more: Record<string, Json>) => {
    if (records.length >= MAX_RECORDS) return;
    recorded += JSON.stringify(more).length;
    records.push({ type, node_id: node, key, at: new Date().toISOString(), ...(recorded <= MAX_RECORDED ? more : {}) });
  };
  const tried = (status: Tried["status"], more: Partial<Tried>): Tried => ({
    ...{ status, output: null, error: null, next: null, wait: null, records },
    ...more,
  });
  const can: Hands = { evaluate: async (args) => ({ ok: args }), ...hands };
  let state = program.begin(input);
  for (;;) {
    const step = program.next(state);
    if (step.do === "complete") return tried("completed", { output: step.result });
    if (step.do === "fail") return tried("failed", { error: step.error });
    const ask = step.asks.find(({ kind }) => can[kind]) ?? step.asks[0]!;
    if (only && ask.node !== only) return tried("completed", { output: ask.scope, next: ask.node });
    record("node_started", ask, { input: ask.scope });
    const outcome = await whileGoing(ended, async () => {
      const args = await evaluate(ask.template, ask.scope, { env });
      const hand = can[ask.kind];
      if (hand) return hand(args, ask);
      const until = ask.kind === "wait" ? new Date(waitUntil(args, Date.now())).toISOString() : null;
      return { waits: { arguments: args, until } };
    }).catch((error): Outcome => ({ error: String(error instanceof Error ? error.message : error) }));
    if ("waits" in outcome) {
      const { node: node_id, key, kind } = ask;
      return tried("waiting", { next: node_id, wait: { kind, node_id, key, ...outcome.waits } });
    }
    if ("error" in outcome) record("node_failed", ask, { error: outcome.error });
    else {
      if (ask.kind === "emit") record("event_emitted", ask, outcome.ok as Record<string, Json>);
      record("node_completed", ask, { output: outcome.ok });
    }
    if (ended.aborted) return tried("failed", { error: String(ended.reason.message) });
    state = program.take(state, ask.key, outcome);
  }
}

async function whileGoing<T>(ended: AbortSignal, run: () => Promise<T>): Promise<T> {
  let gone = () => {};
  const over = new Promise<never>((_, reject) => {
    gone = () => reject(ended.reason);
    ended.addEventListener("abort", gone);
    if (ended.aborted) gone();
  });
  return Promise.race([run(), over]).finally(() => ended.removeEventListener("abort", gone));
}

/** The id of a node that has none. */
const NODE = "node";

/** A graph of one node alone: where it leads is asked for, and not gone. */
export function graphOfNode(
  value: Record<string, unknown>,
  faultOf?: (source: string) => string | null,
): { graph: Graph | null; findings: GraphFinding[]; only: string } {
  const only = typeof value.id === "string" ? value.id : NODE;
  const { on_success, on_error, on_true, on_false, body, inputs } = value;
  const named = [on_success, on_error, on_true, on_false, body, inputs].flat();
  const others = [...new Set(named)].filter((id) => typeof id === "string" && id !== only);
  const nodes = [{ ...value, id: only }, ...others.map((id) => ({ kind: "WorkflowApproval", id, message: "?" }))];
  return { ...readGraph({ start_node: only, nodes }, faultOf), only };
}
