import * as v from "valibot";
import { acl } from "../auth/acl.ts";
import { type Row, runStatuses, workerStatuses } from "../db/schema.ts";
import { isKey, NO_KEY } from "../http/once.ts";
import { idOf, list, map, metadata, notYet, nullable, stamp, text } from "../http/valid.ts";
import { isId } from "../ids.ts";
import { MAX_PAGE_SIZE, positive } from "../paging.ts";
import type { RunPage } from "../runs/remote.ts";

const MAX_PARTICIPANTS = 50;
const noThreads = notYet("is not supported yet: there are no threads");

export const invokeBody = v.strictObject({
  message: v.pipe(text(32_768), v.nonEmpty()),
  /** For whom it runs. A signed-in person is always itself. */
  user: v.optional(v.nullable(idOf("user"))),
  session_key: v.optional(v.nullable(v.pipe(text(255), v.nonEmpty()))),
  thread_id: noThreads,
  delivery: v.optional(
    v.nullable(
      v.strictObject({
        type: v.picklist(["none"], "must be none: there are no threads yet"),
        thread: noThreads,
        message: noThreads,
      }),
    ),
  ),
  /** Agents by what the routine calls them. */
  participants: v.optional(
    v.nullable(
      v.pipe(
        map,
        v.check((all) => Object.keys(all).length <= MAX_PARTICIPANTS, `must name at most ${MAX_PARTICIPANTS}`),
        v.check(
          (all) => Object.values(all).every((id) => typeof id === "string" && isId("agent", id)),
          "names no agent",
        ),
      ),
    ),
  ),
  metadata: v.optional(v.nullable(metadata)),
  /** The same as the header Idempotency-Key. */
  idempotency_key: v.optional(v.nullable(v.pipe(v.string(), v.check(isKey, NO_KEY)))),
});
export type Invoke = v.InferOutput<typeof invokeBody>;

const limit = v.optional(
  v.pipe(
    positive,
    v.transform((asked) => Math.min(asked, MAX_PAGE_SIZE)),
  ),
  "50",
);
const cursor = v.optional(text(500));
export const listRunsQuery = v.object({
  status: v.optional(v.picklist(runStatuses)),
  limit,
  before_cursor: cursor,
  after_cursor: cursor,
});
export const listAllRunsQuery = v.object({
  agent: v.optional(list(text(255), 100)),
  ...listRunsQuery.entries,
});
export const journalQuery = v.object({ limit, after_cursor: cursor });
export type ListRuns = v.InferOutput<typeof listRunsQuery>;

export type RunRow = Row<"agent_routine_runs">;

const mapOrNull = v.nullable(v.record(v.string(), v.unknown()));
export const run = v.strictObject({
  id: v.string(),
  app: v.string(),
  agent: v.string(),
  routine: nullable,
  event_id: nullable,
  status: v.picklist(runStatuses),
  payload: v.record(v.string(), v.unknown()),
  participants: mapOrNull,
  delivery: v.strictObject({
    type: v.picklist(["none", "thread", "reply"]),
    status: v.picklist(["not_requested", "pending", "delivered", "failed"]),
    thread: nullable,
    message: nullable,
    delivered_at: v.nullable(stamp),
    delivered_message: nullable,
    last_error: nullable,
  }),
  worker: v.strictObject({
    status: v.picklist(workerStatuses),
    attempt: v.number(),
    max_attempts: v.number(),
  }),
  duration_ms: v.nullable(v.number()),
  result: mapOrNull,
  structured_response: mapOrNull,
  metadata: v.record(v.string(), v.unknown()),
  acl: v.nullable(acl),
  created_at: stamp,
  updated_at: stamp,
});
export const runPage = v.strictObject({ data: v.array(run), before_cursor: nullable, after_cursor: nullable });

const entry = v.strictObject({
  id: v.string(),
  sequence: v.number(),
  /** What happened, such as `command.called`; its own fields are `record`. */
  type: v.string(),
  node_id: nullable,
  command_id: nullable,
  timer_id: nullable,
  record: v.record(v.string(), v.unknown()),
  created_at: stamp,
});
/** Oldest first. `after_cursor` goes on, also where there is no more yet. Of a run that never began `journal` is null. */
export const journalPage = v.strictObject({
  data: v.array(entry),
  journal: v.nullable(
    v.strictObject({
      id: v.string(),
      status: v.picklist(["pending", "running", "waiting", "completed", "failed", "cancelled"]),
      current_sequence: v.number(),
      created_at: stamp,
      started_at: v.nullable(stamp),
      completed_at: v.nullable(stamp),
      updated_at: stamp,
    }),
  ),
  has_more: v.boolean(),
  before_cursor: v.null(),
  after_cursor: nullable,
});

/** A run's journal from after a sequence on, as it is shown. */
export function toJournal(row: RunRow, { frames, last, status, view }: RunPage) {
  if (!status || !view) return { data: [], journal: null, has_more: false };
  const data = frames.map(({ sequence, at, type, ...rest }) => {
    const { command, node, ...record } = rest as { command?: string; node?: string };
    const timer_id = type === "command.waiting" && "until" in rest && rest.until ? command! : null;
    const of = { node_id: node ?? null, command_id: command ?? null, timer_id };
    return { id: `${row.id}:${sequence}`, sequence, type, ...of, record, created_at: at };
  });
  const { started_at, completed_at } = view;
  return {
    data,
    journal: {
      ...{ id: row.id, status: status === "skipped" ? ("cancelled" as const) : status, current_sequence: last },
      ...{ created_at: row.created_at, started_at, completed_at, updated_at: completed_at ?? row.updated_at },
    },
    has_more: (frames.at(-1)?.sequence ?? last) < last,
  };
}

const noDelivery = { thread: null, message: null, delivered_at: null, delivered_message: null, last_error: null };

/** Of a routine: it has an agent. */
export const toRun = (row: RunRow): v.InferOutput<typeof run> => ({
  id: row.id,
  app: row.app_id,
  agent: row.agent_id!,
  routine: row.routine_id,
  event_id: row.event_id,
  status: row.status,
  payload: row.payload,
  participants: row.participants,
  delivery: { ...noDelivery, ...(row.delivery as Pick<v.InferOutput<typeof run>["delivery"], "type" | "status">) },
  worker: { status: row.worker_status, attempt: row.attempt, max_attempts: row.max_attempts },
  duration_ms: row.duration_ms,
  result: row.result,
  structured_response: row.structured_response,
  metadata: row.metadata,
  acl: row.acl,
  created_at: row.created_at,
  updated_at: row.updated_at,
});
