import * as v from "valibot";
import { occurrenceOutcomes, overlaps, type Row } from "../db/schema.ts";
import { moment, nullable, rule, stamp, text } from "../http/valid.ts";
import { MAX_PAGE_SIZE, PAGE_SIZE, positive } from "../paging.ts";

/** So many are filled in at once. */
export const MOST_BACKFILLED = 1000;

const limit = v.optional(
  v.pipe(
    positive,
    v.transform((asked) => Math.min(asked, MAX_PAGE_SIZE)),
  ),
  String(PAGE_SIZE),
);
const cursor = v.optional(text(500));
export const listOccurrencesQuery = v.object({ limit, before_cursor: cursor, after_cursor: cursor });

export const upcomingQuery = v.object({ count: v.optional(v.pipe(positive, v.maxValue(100)), "10") });

/** Without an `overlap` it is the schedule's own that counts. */
export const runBody = v.strictObject({ overlap: v.optional(v.nullable(v.picklist(overlaps))) });

const YEAR_MS = 366 * 86_400_000;
export const backfillBody = v.pipe(
  v.strictObject({
    ...runBody.entries,
    /** The first instant, and the last; neither is in the future. */
    from: moment,
    to: moment,
  }),
  rule("to", ({ from, to }) => from <= to && Date.parse(to) <= Date.now(), "must be after from, and no later than now"),
  rule("from", ({ from }) => Date.parse(from) > Date.now() - YEAR_MS, "must lie within the last year"),
);
export type Backfill = v.InferOutput<typeof backfillBody>;

export type OccurrenceRow = Row<"occurrences">;

export const occurrence = v.strictObject({
  id: v.string(),
  app: v.string(),
  agent: v.string(),
  schedule: nullable,
  routine: nullable,
  planned_at: stamp,
  fired_at: v.nullable(stamp),
  outcome: v.picklist(occurrenceOutcomes),
  session: nullable,
  run: nullable,
  created_at: stamp,
});
export const occurrencePage = v.strictObject({
  data: v.array(occurrence),
  has_more: v.boolean(),
  before_cursor: nullable,
  after_cursor: nullable,
});
export const backfilled = v.strictObject({ data: v.array(occurrence) });
export const upcoming = v.strictObject({
  data: v.array(v.strictObject({ planned_at: stamp, local: v.string() })),
});

/** Of a schedule or a routine: it has an agent. */
export const toOccurrence = (row: OccurrenceRow): v.InferOutput<typeof occurrence> => ({
  id: row.id,
  app: row.app_id,
  agent: row.agent_id!,
  schedule: row.schedule_id,
  routine: row.routine_id,
  planned_at: row.planned_at,
  fired_at: row.fired_at,
  outcome: row.outcome,
  session: row.session_id,
  run: row.run_id,
  created_at: row.created_at,
});
