import * as v from "valibot";
import { agent, toAgent } from "../agents/schema.ts";
import { nullable, stamp } from "../http/valid.ts";
import type { Known } from "./queries.ts";
import type { Judged } from "./remote.ts";
import { healthAction, toHealthAction } from "./schema.ts";

const status = v.picklist(["ok", "warning", "critical"]);
const count = v.pipe(v.number(), v.integer());
const share = v.strictObject({ total: count, failed: count });
export const agentHealth = v.strictObject({
  agent,
  score: v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(100)),
  status,
  checks: v.array(v.strictObject({ key: v.string(), label: v.string(), status, summary: v.string() })),
  counts: v.strictObject({
    ...{ tools: count, skills: count, routines: count, schedules: count, computers: count },
    ...{ env_vars: count, installations: count },
  }),
  /** Of runs and sessions within 24 hours, of tool calls within one. */
  recent: v.strictObject({ runs: share, tool_calls: share, schedules_missed: count }),
  /** How many runs and sessions are under way, and those that don't go on, the first of them first: a run's id is null. */
  activity: v.strictObject({ in_motion: count, stuck: v.array(v.strictObject({ id: nullable, since: stamp })) }),
  health_actions: v.array(healthAction),
  checked_at: stamp,
});

export const toAgentHealth = (known: Known, judged: Judged): v.InferOutput<typeof agentHealth> => ({
  agent: toAgent(known.agent),
  score: judged.score,
  status: judged.status,
  checks: judged.checks,
  counts: known.counts,
  recent: { runs: judged.runs, tool_calls: judged.tools, schedules_missed: known.schedules_missed },
  activity: { in_motion: judged.in_motion, stuck: judged.stuck },
  health_actions: judged.actions.map(toHealthAction),
  checked_at: new Date().toISOString(),
});
