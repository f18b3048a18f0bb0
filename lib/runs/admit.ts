/** Which runs may begin, as a pure function of what waits and what runs. */

import type { Overlap } from "../db/schema.ts";
import type { Quotas } from "../quotas.ts";

/** A run that waits for room. An automation counts as an agent of its own, and as the routine that it runs. */
export type Waiting = {
  id: string;
  agent_id: string;
  /** Null where it was deleted meanwhile. */
  routine_id: string | null;
  overlap: Overlap;
  max_concurrent: number | null;
};
/** A run that was admitted, and is not over. */
export type Running = { id: string; agent_id: string; routine_id: string | null };

/** What becomes of those that wait; of those that run, which make room. What is in none of the lists goes on waiting. */
export type Admission = { admitted: string[]; skipped: string[]; cancelled: string[] };
/** A quota for whose sake something waits; of an agent's own, the first such agent. */
export type Reached = { quota: keyof Quotas; agent: string | null };

/**
 * `waiting`, oldest first, and agents in turn: one with less under way comes first. `rate`: how many may begin now. What
 * overlaps is decided whatever room there is; only what may begin waits for that, and what it waits for was `reached`.
 */
export function admit(
  waiting: readonly Waiting[],
  running: readonly Running[],
  quotas: Quotas,
  rate: number,
): { admission: Admission; reached: Reached | null } {
  const admission: Admission = { admitted: [], skipped: [], cancelled: [] };
  const ofAgent = new Map<string, number>();
  const ofRoutine = new Map<string, string[]>();
  for (const { id, agent_id, routine_id } of running) {
    ofAgent.set(agent_id, (ofAgent.get(agent_id) ?? 0) + 1);
    if (routine_id) ofRoutine.set(routine_id, [...(ofRoutine.get(routine_id) ?? []), id]);
  }
  const newest = new Map(waiting.map((run) => [run.routine_id ?? run.id, run.id]));
  const buffered = new Set<string>();
  const ready: Waiting[] = [];
  const taken = new Map<string, number>();
  for (const run of waiting) {
    const { overlap, max_concurrent } = run;
    const routine_id = run.routine_id ?? run.id;
    const most = max_concurrent ?? (overlap === "allow_all" ? Number.POSITIVE_INFINITY : 1);
    const others = ofRoutine.get(routine_id) ?? [];
    const open = others.length + (taken.get(routine_id) ?? 0);
    if (overlap === "cancel_other" && newest.get(routine_id) !== run.id) {
      admission.cancelled.push(run.id);
      continue;
    }
    if (overlap === "cancel_other" && open >= most) {
      const leaving = others.slice(0, open - most + 1);
      admission.cancelled.push(...leaving);
      ofAgent.set(run.agent_id, Math.max(0, (ofAgent.get(run.agent_id) ?? 0) - leaving.length));
    } else if (open >= most) {
      if (overlap === "skip" || (overlap === "buffer_one" && buffered.has(routine_id))) admission.skipped.push(run.id);
      buffered.add(routine_id);
      continue;
    }
    taken.set(routine_id, (taken.get(routine_id) ?? 0) + 1);
    ready.push(run);
  }
  const leaving = new Set(admission.cancelled);
  const places = quotas.runs_at_once - running.filter(({ id }) => !leaving.has(id)).length;
  let room = Math.min(rate, places);
  // Whoever has least under way is next: so agents take turns.
  while (room > 0) {
    let next: Waiting | null = null;
    for (const run of ready) {
      const has = ofAgent.get(run.agent_id) ?? 0;
      if (has >= quotas.runs_at_once_of_an_agent) continue;
      if (!next || has < (ofAgent.get(next.agent_id) ?? 0)) next = run;
    }
    if (!next) break;
    ready.splice(ready.indexOf(next), 1);
    ofAgent.set(next.agent_id, (ofAgent.get(next.agent_id) ?? 0) + 1);
    admission.admitted.push(next.id);
    room--;
  }
  const [held] = ready;
  if (!held) return { admission, reached: null };
  if (room > 0) return { admission, reached: { quota: "runs_at_once_of_an_agent", agent: held.agent_id } };
  return { admission, reached: { quota: rate < places ? "runs_started_per_minute" : "runs_at_once", agent: null } };
}
