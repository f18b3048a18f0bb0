/** What a schedule, a routine and an automation have in common: when it comes, and by which policies. */
import * as v from "valibot";
import type { Row } from "../db/schema.ts";
import { CRON_EVENT } from "../events/trigger.ts";
import { nextOccurrence, parseCron } from "../schedules/clock.ts";
import { UTC } from "../schedules/queries.ts";
import { policies, usualPolicies } from "../schedules/schema.ts";
import { timeZone } from "../schedules/time-zone.ts";
import type { Planned } from "./plan.ts";

export type Scheduled = "agent_schedule" | "agent_routine" | "automation";
/** Its table, and the column of an occurrence that names it. */
export const scheduled = {
  agent_schedule: { table: "agent_schedules", column: "schedule_id" },
  agent_routine: { table: "agent_routines", column: "routine_id" },
  automation: { table: "automations", column: "automation_id" },
} as const satisfies Record<Scheduled, object>;
type Ruled =
  | Row<"agent_schedules">
  | Pick<Row<"agent_routines"> | Row<"automations">, "id" | "schedule" | "event_config">;
export type Rule = Omit<Planned, "next" | "left"> & { at: string | null };

const saidOfCron = v.object({ timezone: v.optional(timeZone), ...policies });

/** The rule of a row. Those of a routine and of an automation stand in its event_config; one from before they were checked has the usual. */
export function ruleOf(row: Ruled): Rule {
  if ("schedule_type" in row) {
    const { id, scheduled_at: at, timezone, overlap, catchup, catchup_window_seconds, jitter_seconds } = row;
    const cron = row.cron_expression === null ? null : parseCron(row.cron_expression);
    return { id, cron, at, timezone, overlap, catchup, catchup_window_seconds, jitter_seconds };
  }
  const said = v.safeParse(saidOfCron, row.event_config?.[CRON_EVENT]);
  const cron = row.schedule === null ? null : parseCron(row.schedule);
  return { id: row.id, cron, at: null, timezone: UTC, ...usualPolicies, ...(said.success ? said.output : {}) };
}

/** The instants of a rule after one, in order. */
export function* instants({ cron, at, timezone }: Rule, after: number): Generator<number, void> {
  if (!cron) {
    const once = at === null ? Number.NEGATIVE_INFINITY : Date.parse(at);
    if (once > after) yield once;
    return;
  }
  for (let next = nextOccurrence(cron, timezone, after); next !== null; ) {
    yield next;
    next = nextOccurrence(cron, timezone, next);
  }
}
