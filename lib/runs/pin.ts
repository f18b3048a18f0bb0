/** What a run goes by: its routine, or automation, as it is when the run begins, with the versions of all that it names. */
import { sql } from "kysely";
import { isLive } from "../configs/access.ts";
import { MAX_VALUES, MAX_WORDS, parseTogether } from "../configs/content.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { isMap } from "../http/valid.ts";
import type { Id } from "../ids.ts";
import type { Json } from "../script/index.ts";
import type { PinnedConfig } from "../tools/calls.ts";
import { contentOf } from "../tools/toolbox.ts";
import type { Program } from "../workflows/program.ts";
import { type Graph, readGraph } from "../workflows/read.ts";
import { saidOf } from "./forms.ts";
import { type ChainStep, chainProgram, stepOf, type Task, taskProgram } from "./programs.ts";
import type { RunRow } from "./remote.ts";
import type { Pinned } from "./run.ts";

/** A routine, or an automation, as its run keeps it. */
export type PinnedRoutine = Pinned & {
  routine: Id<"agent_routine"> | Id<"config">;
  name: string;
  /** Its runs of a scope share a session. */
  shared: boolean;
  /** The agent's model. */
  model: string | null;
  task: { handler_type: string } & Record<string, unknown>;
  steps: ({ handler_type: string } & Record<string, unknown>)[];
  /** When it was pinned, by the database's clock: scripts that others name by their lookup_key are as they were then. */
  at?: string;
  /** Of the configs that it names, by their ids. */
  versions: Record<string, number>;
  /** Of the workflow graphs that it goes the way of, what their configs say, by their ids. */
  graphs: Record<string, unknown>;
};

/** In one round trip. Why it isn't to run, where its routine has other plans by now; null where the agent is gone. */
export async function pinRun(db: TenantDb, row: RunRow): Promise<PinnedRoutine | { skipped: string } | null> {
  if (row.automation_id) return pinAutomation(db, row, row.automation_id);
  const routines = db.selectFrom("agent_routines").where("id", "=", row.routine_id as Id<"agent_routine">);
  const named = db
    .selectFrom("agent_routine_configs")
    .select("config_id")
    .where("routine_id", "=", row.routine_id as Id<"agent_routine">);
  const { agent, routine, configs } = await db.batch({
    agent: agentOf(db, row),
    routine: routines.selectAll().select(now),
    configs: db
      .selectFrom("configs")
      .select(["id", "version_number"])
      .where(sql<boolean>`id in (${routines.select("config_id")} union all ${named})`),
  });
  if (!agent[0]) return null;
  const [found] = routine;
  if (!found) return { skipped: "routine_deleted" };
  if (found.status !== "active") return { skipped: "not_active" };
  const { handler_type, config_id: config, script, preset_name, preset_config } = found;
  const task = { handler_type, config, script, preset_name, preset_config };
  const steps = found.steps as PinnedRoutine["steps"];
  const versions = Object.fromEntries(configs.map(({ id, version_number }) => [id, version_number]));
  return {
    ...{ handler: handler_type, routine: found.id, name: found.name, model: agent[0].default_model },
    shared: found.trigger_context === "chat_session",
    ...{ task, steps, versions, at: found.now },
    graphs: await graphsSaid(db, [task, ...steps], versions),
  };
}

/** Of all together no more is read than of one. */
async function graphsSaid(db: TenantDb, tasks: PinnedRoutine["steps"], versions: Record<string, number>) {
  const graphs = tasks.filter(({ handler_type }) => handler_type === "workflow_graph");
  const ids = [...new Set(graphs.map(({ config }) => String(config)))].filter((id) => id in versions);
  const contents = await Promise.all(ids.map((id) => contentOf(db, id as Id<"config">, versions[id]!)));
  const read = parseTogether(MAX_WORDS, MAX_VALUES);
  return Object.fromEntries(ids.map((id, i) => [id, contents[i] ? saidOf(contents[i], read) : null]));
}

const now = sql<string>`now()`.as("now");
const agentOf = (db: TenantDb, { agent_id }: RunRow) =>
  db.selectFrom("agents").select(["id", "default_model"]).where("id", "=", agent_id!);

async function pinAutomation(db: TenantDb, row: RunRow, id: Id<"config">): ReturnType<typeof pinRun> {
  const automations = db.selectFrom("automations").where("id", "=", id);
  const { agent, automation, configs } = await db.batch({
    agent: agentOf(db, row),
    automation: automations.selectAll().select([now, isLive(db).as("live")]),
    configs: db
      .selectFrom("configs")
      .select(["id", "version_number", "kind"])
      .where("id", "in", automations.select("config_id")),
  });
  if (row.agent_id && !agent[0]) return null;
  const [found] = automation;
  if (!found) return { skipped: "automation_deleted" };
  if (found.status !== "active") return { skipped: "not_active" };
  if (!found.live) return { skipped: "run_as_gone" };
  const [config] = configs;
  if (!config) return { skipped: "config_deleted" };
  const handler = config.kind === "Script" ? "script" : "workflow_graph";
  const task = { handler_type: handler, config: found.config_id };
  const versions = { [config.id]: config.version_number };
  return {
    ...{ handler, routine: found.id, name: String(found.said.name), model: agent[0]?.default_model ?? null },
    ...{ shared: false, task, steps: [], versions, at: found.now },
    graphs: await graphsSaid(db, [task], versions),
  };
}

/** What a config says is read once: each of a graph's scripts asks for it. */
const graphsRead = new WeakMap<object, Graph | null>();
function readAs({ graphs }: PinnedRoutine, { config }: PinnedRoutine["task"]): Graph | null {
  const said = graphs[String(config)];
  if (!isMap(said)) return null;
  const known = graphsRead.get(said);
  if (known !== undefined) return known;
  const { graph } = readGraph(said);
  graphsRead.set(said, graph);
  return graph;
}
/** The graph that a command's node is of; null where that is of none. */
export function graphOf(pinned: PinnedRoutine, node: string): Graph | null {
  const step = stepOf(node);
  return readAs(pinned, step === null ? pinned.task : pinned.steps[step]!);
}

/** What a pinned routine does. Throws a sentence for people where it does what can't be done yet. */
export function programOf(routine: PinnedRoutine): Program<unknown> {
  const { handler, task, steps } = routine;
  if (handler !== "chain") return taskProgram(taskOf(routine, task));
  return chainProgram(steps.map((step) => ({ ...taskOf(routine, step), ...chained(step) }))) as Program<unknown>;
}

const chained = (step: Record<string, unknown>): Pick<ChainStep, "name" | "output_key" | "inputs" | "on_error"> => ({
  name: (step.name as string | undefined) ?? null,
  output_key: (step.output_key as string | undefined) ?? null,
  inputs: (step.inputs as Record<string, string> | undefined) ?? {},
  on_error: (step.on_error as ChainStep["on_error"] | undefined) ?? "halt",
});

function taskOf(routine: PinnedRoutine, task: PinnedRoutine["task"]): Task {
  const { versions, shared } = routine;
  const { script, config, preset_name } = task;
  const handler_type = task.handler_type as Task["handler_type"];
  if (handler_type === "script") {
    return { handler_type, script: (script as string) ?? null, config: pinned(config, versions) };
  }
  if (handler_type === "workflow_graph") {
    const graph = readAs(routine, task);
    if (!graph) throw new Error("its workflow graph can't be read");
    return { handler_type, graph };
  }
  if (preset_name !== "do_task") throw new Error(`not_available: ${preset_name} needs threads, and there are none yet`);
  const said = isMap(task.preset_config) ? task.preset_config : {};
  const forms = ((said.structured_message_template_ids as string[] | null) ?? []).map((id) => pinned(id, versions));
  const session_mode = shared ? "session" : (said.session_mode ?? "stateless");
  if (session_mode === "session" && forms.length) {
    throw new Error("not_available: a session that runs share gives no structured answer");
  }
  return {
    handler_type,
    preset_name,
    preset_config: { ...said, session_mode, forms } as unknown as Record<string, Json>,
  };
}

const pinned = (id: unknown, versions: Record<string, number>): PinnedConfig | null =>
  typeof id === "string" && id in versions ? { id, version: versions[id]! } : null;
