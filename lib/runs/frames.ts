/**
 * What happens in a run, frame by frame: what its journal holds and shows. A frame's type decides its fields; no value of
 * a secret env var stands in one.
 */
import * as v from "valibot";
import { effects, runStatuses } from "../db/schema.ts";
import { nullable, stamp } from "../http/valid.ts";
import { senderTypes } from "../sessions/frames.ts";
import type { AskKind } from "../workflows/program.ts";

export const askKinds = [
  ...["evaluate", "script", "preset", "http", "emit", "work", "wait", "approval", "llm"],
] as AskKind[];
/** What a run's journal says it is in: `waiting` is a part of the run's `running`. */
export const journalStatuses = [...runStatuses, "waiting"] as const;

const count = v.pipe(v.number(), v.integer(), v.minValue(0));
const by = v.strictObject({ type: v.picklist(senderTypes), id: nullable });
/** Whose frame it is: the command's id and its node's. */
const of = { command: v.string(), node: v.string() };

/** Every frame's own fields by its type; `sequence`, `at` and `type` are in each. */
export const frameFields = {
  /** `reason` says why: what failed or was skipped, and of what waits, for what. */
  "run.status": v.strictObject({ status: v.picklist(journalStatuses), reason: nullable }),
  /** What is to be asked of the world. `key` is the same whenever the run is told anew. */
  "command.requested": v.strictObject({
    ...of,
    key: v.string(),
    kind: v.picklist(askKinds),
    arguments: v.unknown(),
    arguments_hash: v.string(),
    effect: v.picklist(effects),
  }),
  /** Written before it is sent. `handed_to`: the session, work item or wait that has it until it is over, by its id. */
  "command.called": v.strictObject({ ...of, attempt: count, idempotency_key: v.string(), handed_to: nullable }),
  /** A call that a script makes on its way: once as it begins, with no answer, and once with its answer. */
  "command.outbound": v.strictObject({
    ...of,
    n: count,
    name: v.string(),
    hash: v.string(),
    answer: v.nullable(v.union([v.strictObject({ ok: v.unknown() }), v.strictObject({ error: v.string() })])),
  }),
  /** It was taken, and what comes of it comes later: at `until` at the latest, where that is said. */
  "command.waiting": v.strictObject({ ...of, until: v.nullable(stamp) }),
  /** A fault that may pass: it is tried again at `until`. */
  "command.retrying": v.strictObject({ ...of, error: v.string(), until: stamp }),
  "command.completed": v.strictObject({ ...of, result: v.unknown() }),
  "command.failed": v.strictObject({ ...of, error: v.string() }),
  /** Sent, and nobody knows whether it happened: somebody has to say. */
  "command.unknown": v.strictObject({ ...of }),
  "command.resolved": v.strictObject({ ...of, outcome: v.picklist(["happened", "retry", "give_up"]), by }),
  "approval.requested": v.strictObject({ ...of }),
  "approval.decided": v.strictObject({ ...of, approved: v.boolean(), note: nullable, by }),
  "run.result": v.strictObject({
    result: v.record(v.string(), v.unknown()),
    structured_response: v.nullable(v.record(v.string(), v.unknown())),
  }),
} as const;
export type FrameType = keyof typeof frameFields;

/** What happened, before it is written down. */
export type RunEvent = {
  [T in FrameType]: { type: T } & v.InferOutput<(typeof frameFields)[T]>;
}[FrameType];
/** The same as it stands in the journal: `sequence` counts from 1, `at` is ISO 8601. */
export type RunFrame = { sequence: number; at: string } & RunEvent;
