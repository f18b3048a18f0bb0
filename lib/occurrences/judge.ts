/** What the Scheduler does with what it has found: pure, with the time as an argument. */
import type { Found, Waiting, Work } from "./claim.ts";
import { type Met, plan, settle } from "./plan.ts";
import { instants, ruleOf, type Scheduled } from "./rule.ts";

/** So many come in a turn, and no row more is begun: a statement has to end in its time. The others stay due. */
export const MOST_COMES = 1000;

/** What is to be done with what was found. `ends`: schedules whose sessions are to be cancelled before. */
export function judge(found: Found, now: number, suspended: boolean): Record<Scheduled, Work> & { ends: string[] } {
  const work = { agent_schedule: none(), agent_routine: none(), automation: none(), ends: [] as string[] };
  const met = new Map<string, Met>();
  for (const [id, waiting] of Map.groupBy(found.waiting, idOf)) {
    const [{ busy, waiting: all, gone, schedule_id, routine_id }] = waiting as [Waiting];
    const others = all - waiting.length;
    const meets: Met = { busy, waiting: busy ? others : 0 };
    const outcomes = gone ? waiting.map((one) => [one, "cancelled"] as const) : suspended ? [] : settle(waiting, meets);
    const { settled } = work[schedule_id ? "agent_schedule" : routine_id ? "agent_routine" : "automation"];
    for (const [one, outcome] of outcomes) {
      settled.push({ id: one.id, outcome });
      if (outcome === "fired" && one.overlap === "cancel_other" && busy && schedule_id) work.ends.push(schedule_id);
    }
    met.set(id, { busy: meets.busy, waiting: others + waiting.length - outcomes.length });
  }
  for (const kind of ["agent_schedule", "agent_routine", "automation"] as const) {
    for (const row of found[kind]) {
      if (work[kind].comes.length >= MOST_COMES) break;
      const { id, next_run_at: was, updated_at: seen, busy, waiting } = row;
      const rule = ruleOf(row);
      const at = (instant: number | null) => (instant === null ? null : new Date(instant).toISOString());
      if (was === null && kind === "agent_schedule") {
        // It was to come once, and is paused over its instant.
        work[kind].moves.push({ id, was, seen, next_run_at: null, status: "expired", ran: 0 });
        continue;
      }
      if (was === null) {
        // A routine that was changed at that instant, and comes from there on.
        const { value: next = null } = instants(rule, Date.parse(row.due_at!)).next();
        work[kind].moves.push({ id, was, seen, next_run_at: at(next ?? null), status: null, ran: 0 });
        continue;
      }
      const left = "max_runs" in row && row.max_runs !== null ? row.max_runs - row.run_count : null;
      const meets = { ...(met.get(id) ?? { busy, waiting }), suspended };
      const { occurrences, next, status, ran } = plan({ ...rule, left, next: Date.parse(was) }, now, meets);
      work[kind].moves.push({ id, was, seen, next_run_at: at(next), status, ran });
      for (const { planned_at, outcome } of occurrences) {
        work[kind].comes.push({ of: id, planned_at: at(planned_at)!, outcome, overlap: rule.overlap });
        if (outcome === "fired" && rule.overlap === "cancel_other" && busy && kind === "agent_schedule")
          work.ends.push(id);
      }
    }
  }
  return work;
}
/** What an occurrence is of. */
const idOf = ({ schedule_id, routine_id, automation_id }: Waiting): string =>
  (schedule_id ?? routine_id ?? automation_id)!;
const none = (): Work => ({ moves: [], comes: [], settled: [] });
