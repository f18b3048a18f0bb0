import * as v from "valibot";
import { checkSchema } from "../configs/json-schema.ts";
import { callOutcomes, effects, type Row, type RunId, sessionStatuses } from "../db/schema.ts";
import {
  flag,
  idOf,
  isWithin,
  isWithinAsJson,
  list,
  map,
  metadata,
  notYet,
  nullable,
  rule,
  stamp,
  text,
} from "../http/valid.ts";
import { isId } from "../ids.ts";
import { MAX_PAGE_SIZE, PAGE_SIZE, positive } from "../paging.ts";
import { frameSchemas, inboxMessage } from "./frames.ts";
import type { SessionRow, SessionView } from "./remote.ts";

/** Of instructions and of a message, in bytes. */
export const MAX_TEXT = 65_536;
const MAX_SCHEMA = 16 * 1024;
const said = v.pipe(
  text(MAX_TEXT),
  v.nonEmpty(),
  v.check((text) => isWithin(text, MAX_TEXT), `must be at most ${MAX_TEXT} bytes`),
);
const upTo = (most: number, usual: number) =>
  v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(most)), usual);

export const result_schema = v.pipe(
  map,
  v.check((schema) => isWithinAsJson(schema, MAX_SCHEMA), "must be at most 16 KB as JSON"),
  v.check((schema) => schema.type === "object", 'must be a JSON Schema whose type is "object"'),
  v.rawCheck<Record<string, unknown>>(({ dataset, addIssue }) => {
    if (dataset.typed) for (const message of checkSchema(dataset.value)) addIssue({ message });
  }),
);

export const createSessionBody = v.strictObject({
  /** By its id or lookup_key. */
  agent: v.pipe(text(255), v.nonEmpty()),
  instructions: said,
  name: v.optional(v.nullable(text(200))),
  max_turns: upTo(1000, 100),
  max_tokens: upTo(10_000_000, 20_000),
  max_runs_per_turn: upTo(100, 25),
  start_idle: v.optional(v.boolean(), false),
  /** What becomes of it when its model has answered and calls no tool: it waits for a message, or that is its result. */
  on_idle: v.optional(v.picklist(["wait", "complete"]), "wait"),
  /** JSON Schema of what it finishes with. */
  result_schema: v.optional(v.nullable(result_schema)),
  metadata: v.optional(v.nullable(metadata)),
  /** For whom it works: of a signed-in person, that person alone. */
  user: v.optional(v.nullable(idOf("user"))),
  team: notYet("is not supported yet: there are no teams"),
  thread: notYet("is not supported yet: there are no threads"),
});
export type CreateSession = v.InferOutput<typeof createSessionBody>;

export const updateSessionBody = v.strictObject({ metadata: v.optional(metadata) });

const limit = v.optional(
  v.pipe(
    positive,
    v.transform((asked) => Math.min(asked, MAX_PAGE_SIZE)),
  ),
  String(PAGE_SIZE),
);
const cursor = v.optional(text(500));
const page = { limit, before_cursor: cursor, after_cursor: cursor };

export const listSessionsQuery = v.object({
  agent: v.optional(list(text(255), 100)),
  status: v.optional(list(v.picklist(sessionStatuses), 100)),
  routine_run: v.optional(list(text(255), 100)),
  exclude_system: v.optional(flag, "false"),
  ...page,
});
export type ListSessions = v.InferOutput<typeof listSessionsQuery>;

export const messageBody = v.strictObject({
  content: said,
  role: v.optional(v.picklist(["user", "system"]), "user"),
  metadata: v.optional(v.nullable(metadata)),
  /** While it works: joins at the next turn, ends the model call in flight, or is refused. */
  on_busy: v.optional(v.picklist(["enqueue", "interrupt", "reject"]), "enqueue"),
});

/** A frame's sequence, from which on they are told. */
export const sequence = v.pipe(v.string(), v.regex(/^\d{1,15}$/, "must be a frame's sequence"), v.transform(Number));
export const eventsQuery = v.object({ after: v.optional(sequence) });

export const listCallsQuery = v.object({ outcome: v.optional(list(v.picklist(callOutcomes), 100)), ...page });
export type ListCalls = v.InferOutput<typeof listCallsQuery>;

export const decideBody = v.strictObject({
  /** As the frame and the list show it: who decides has seen these arguments. */
  arguments_hash: v.pipe(text(200), v.nonEmpty()),
  note: v.optional(v.nullable(text(2000)), null),
});
export const resolveBody = v.pipe(
  v.strictObject({
    outcome: v.picklist(["happened", "retry", "give_up"]),
    /** What the call gave, where somebody knows. */
    result: v.optional(
      v.pipe(
        v.unknown(),
        v.check((result) => isWithinAsJson(result, MAX_TEXT), "must be at most 64 KB as JSON"),
      ),
    ),
  }),
  rule("result", ({ outcome, result }) => outcome === "happened" || result === undefined, "is of what happened"),
);

const object = v.record(v.string(), v.unknown());

export const session = v.strictObject({
  id: v.string(),
  agent: v.string(),
  user: nullable,
  name: nullable,
  instructions: v.string(),
  max_turns: v.number(),
  max_tokens: v.number(),
  max_runs_per_turn: v.number(),
  start_idle: v.boolean(),
  on_idle: v.picklist(["wait", "complete"]),
  result_schema: v.nullable(object),
  is_system_session: v.boolean(),
  metadata: object,
  status: v.picklist(sessionStatuses),
  error: nullable,
  result: v.nullable(object),
  trajectory: nullable,
  /** What waits for its next turn, oldest first, the first hundred. Null in lists, which don't ask for it. */
  inbox: v.nullable(v.array(inboxMessage)),
  started_at: v.nullable(stamp),
  completed_at: v.nullable(stamp),
  created_at: stamp,
});
export type Session = v.InferOutput<typeof session>;

const pageOf = <V extends v.GenericSchema>(view: V) =>
  v.strictObject({ data: v.array(view), has_more: v.boolean(), before_cursor: nullable, after_cursor: nullable });
export const sessionPage = pageOf(session);

/** As the API shows it: the row, and over it what its object says now, where that was asked. */
export function toSession(row: SessionRow, live: SessionView | null): Session {
  const { status, error, result, started_at, completed_at } = live ?? row;
  return {
    id: row.id,
    agent: row.agent_id,
    user: row.user_id,
    name: row.name,
    instructions: row.instructions,
    max_turns: row.max_turns,
    max_tokens: row.max_tokens,
    max_runs_per_turn: row.max_runs_per_turn,
    start_idle: row.start_idle,
    on_idle: row.on_idle,
    result_schema: row.result_schema,
    is_system_session: row.is_system_session,
    metadata: row.metadata,
    ...{ status, error, result },
    trajectory: status === "pending" ? null : row.trajectory_id,
    inbox: live?.inbox ?? null,
    ...{ started_at, completed_at },
    created_at: row.created_at,
  };
}

export type CallRow = Row<"tool_calls">;

export const call = v.strictObject({
  id: v.string(),
  /** Of the three the one whose call it is. */
  session: nullable,
  routine_run: nullable,
  automation_run: nullable,
  /** Null: of an automation's run that acts as no agent. */
  agent: nullable,
  /** The tool's; of a run, the node's or step's. */
  name: v.string(),
  /** 0 of a run. */
  turn: v.number(),
  arguments: object,
  arguments_hash: v.string(),
  /** Null: it wasn't begun. */
  effect: v.nullable(v.picklist(effects)),
  outcome: v.picklist(callOutcomes),
  error: nullable,
  attempts: v.number(),
  requested_at: stamp,
  started_at: v.nullable(stamp),
  completed_at: v.nullable(stamp),
});
export const callPage = pageOf(call);

/** Whose run it is, its id says. */
const runShown = (id: RunId | null) => ({
  routine_run: id && isId("agent_routine_run", id) ? id : null,
  automation_run: id && isId("automation_run", id) ? id : null,
});

export const toCall = (row: CallRow): v.InferOutput<typeof call> => ({
  id: row.id,
  session: row.session_id,
  ...runShown(row.routine_run_id),
  agent: row.agent_id,
  name: row.name,
  turn: row.turn,
  arguments: row.arguments,
  arguments_hash: row.arguments_hash,
  effect: row.effect,
  outcome: row.outcome,
  error: row.error,
  attempts: row.attempts,
  requested_at: row.requested_at,
  started_at: row.started_at,
  completed_at: row.completed_at,
});

/** All that happened in a session, and what it was held to: enough to run its loop again without any way out. */
export const tape = v.strictObject({
  version: v.literal(1),
  session,
  /** Its agent and the tools that it was offered, as they were then. */
  pinned: object,
  frames: v.array(v.variant("type", Object.values(frameSchemas) as never)),
});
