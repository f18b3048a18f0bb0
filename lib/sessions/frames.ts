/**
 * What happens in a session, frame by frame: what its journal holds, what its watchers see, and what the document says of
 * it. A frame's type decides its fields; no value of a secret env var stands in one.
 */
import * as v from "valibot";
import { effects, sessionStatuses } from "../db/schema.ts";
import { nullable, stamp } from "../http/valid.ts";

export const senderTypes = ["user", "agent", "app"] as const;

const map = v.record(v.string(), v.unknown());
const count = v.pipe(v.number(), v.integer(), v.minValue(0));

/** A message as it lies in the inbox. `sender_id` is null where a secret key sent it. */
export const inboxMessage = v.strictObject({
  id: v.string(),
  role: v.picklist(["user", "system"]),
  content: v.string(),
  sender_id: nullable,
  sender_type: v.picklist(senderTypes),
  sent_at: stamp,
  metadata: map,
});
export type InboxMessage = v.InferOutput<typeof inboxMessage>;

const usage = v.strictObject({
  input_tokens: v.nullable(count),
  output_tokens: v.nullable(count),
  cached_tokens: v.nullable(count),
  reasoning_tokens: v.nullable(count),
});
const toolCall = v.strictObject({
  id: v.string(),
  name: v.string(),
  arguments: map,
  thought_signature: nullable,
});
/** AIMessage of the wire. */
const message = v.strictObject({
  role: v.picklist(["system", "user", "assistant", "tool"]),
  content: nullable,
  content_parts: v.nullable(v.array(map)),
  tool_calls: v.nullable(v.array(toolCall)),
  tool_results: v.nullable(
    v.array(v.strictObject({ id: v.string(), name: v.string(), content: nullable, resolution: v.unknown() })),
  ),
  resume_token: nullable,
  structured_output: v.unknown(),
});
const waits = v.nullable(v.strictObject({ message: v.boolean(), until: v.nullable(stamp) }));
const by = v.strictObject({ type: v.picklist(senderTypes), id: nullable });

/** Every frame's own fields by its type; `sequence`, `at`, `turn` and `type` are in each. */
export const frameFields = {
  /** `error` says why, of `failed` alone. */
  "session.status": v.strictObject({ status: v.picklist(sessionStatuses), error: nullable }),
  "message.received": v.strictObject({
    message: inboxMessage,
    on_busy: v.picklist(["enqueue", "interrupt", "reject"]),
  }),
  /** `inbox` is the sequence of the newest message in the prompt; `attempt` counts from 1, above where it began anew. */
  "model.started": v.strictObject({
    model: v.string(),
    prompt: v.strictObject({ messages: count, characters: count }),
    inbox: count,
    attempt: count,
    request_hash: v.string(),
  }),
  /** By the number of the part in the answer. `name` is the tool's, of arguments. */
  "model.delta": v.strictObject({
    part: count,
    kind: v.picklist(["text", "reasoning", "arguments"]),
    name: nullable,
    delta: v.string(),
  }),
  /** The ids of its calls are the session's own. `deltas`: the sequences that this stands for, once they were folded. */
  "model.completed": v.strictObject({
    model: v.string(),
    message,
    usage: v.nullable(usage),
    finish_reason: v.string(),
    /** What the provider calls each call. */
    provider_ids: v.record(v.string(), v.string()),
    unreadable_arguments: v.record(v.string(), v.string()),
    deltas: v.nullable(v.strictObject({ from: count, to: count })),
  }),
  "tool.called": v.strictObject({
    call: v.string(),
    name: v.string(),
    arguments: map,
    arguments_hash: v.string(),
    effect: v.picklist(effects),
    idempotency_key: v.string(),
    attempt: count,
    async: v.boolean(),
    waits,
  }),
  /** A call that a tool's script makes on its way: once as it begins, with no answer, and once with its answer. */
  "tool.outbound": v.strictObject({
    call: v.string(),
    n: count,
    name: v.string(),
    hash: v.string(),
    answer: v.nullable(v.union([v.strictObject({ ok: v.unknown() }), v.strictObject({ error: v.string() })])),
  }),
  /** `message`: the sequence of the message that is the result. */
  "tool.completed": v.strictObject({
    call: v.string(),
    name: v.string(),
    result: v.strictObject({ content: nullable, resolution: v.unknown() }),
    message: v.nullable(count),
    duration_ms: count,
  }),
  "tool.failed": v.strictObject({ call: v.string(), name: v.string(), error: v.string(), duration_ms: count }),
  "tool.unknown": v.strictObject({ call: v.string(), name: v.string() }),
  "tool.resolved": v.strictObject({
    call: v.string(),
    name: v.string(),
    outcome: v.picklist(["happened", "retry", "give_up"]),
    by,
  }),
  "approval.requested": v.strictObject({
    call: v.string(),
    name: v.string(),
    arguments: map,
    arguments_hash: v.string(),
  }),
  "approval.decided": v.strictObject({ call: v.string(), name: v.string(), approved: v.boolean(), note: nullable, by }),
  "limit.reached": v.strictObject({
    limit: v.picklist(["max_turns", "max_tokens", "max_runs_per_turn", "result_schema", "prompt"]),
    error: v.string(),
  }),
  "session.result": v.strictObject({ result: map }),
} as const;
export type FrameType = keyof typeof frameFields;
export const frameTypes = Object.keys(frameFields) as FrameType[];

/** What happened, before it is written down. */
export type SessionEvent = {
  [T in FrameType]: { type: T; turn: number } & v.InferOutput<(typeof frameFields)[T]>;
}[FrameType];
/** The same as it stands in the journal: `sequence` counts from 1, `at` is ISO 8601. */
export type SessionFrame = { sequence: number; at: string } & SessionEvent;

/** The schema of each frame, by its type: for `…/events` and the document. */
export const frameSchemas = Object.fromEntries(
  frameTypes.map((type) => [
    type,
    v.strictObject({ sequence: count, at: stamp, turn: count, type: v.literal(type), ...frameFields[type].entries }),
  ]),
) as unknown as { [T in FrameType]: v.GenericSchema<Extract<SessionFrame, { type: T }>> };
