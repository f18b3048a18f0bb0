/**
 * A session's tape: its frames and what it was held to. The loop runs it again without any way out: models, tools, people,
 * ids and the clock are all the tape's. What asks for anything else than the tape holds fails there.
 */
import type { Id } from "../ids.ts";
import type { Journal } from "../journal/journal.ts";
import { ModelError, type ModelErrorCode, resolveModel, type StepEvent, step, type TapeStep } from "../model/index.ts";
import type { Outbound, ToolAnswer } from "../tools/calls.ts";
import type { SessionEvent, SessionFrame } from "./frames.ts";
import type { SessionRow } from "./remote.ts";
import { type Hands, type Pinned, Session } from "./session.ts";

/** As `GET /api/v1/agent_sessions/{agent_session}/export` answers it. The instructions that count are masked. */
export type Tape = {
  version: 1;
  session: Omit<SessionRow, "instructions">;
  pinned: Pinned & { instructions: string };
  frames: SessionFrame[];
};

type Of<T extends SessionFrame["type"]> = Extract<SessionFrame, { type: T }>;

/** What somebody outside has said: it comes again where it came then. */
const isOutside = ({ type }: SessionFrame): boolean =>
  type === "message.received" || type === "approval.decided" || type === "tool.resolved";

/**
 * The frames that a session writes whose process never ends, and which nobody interrupts: what was begun anew later is
 * gone. Deltas may have been folded; what they say is whole in the frame that stands for them.
 */
function undisturbed(frames: readonly SessionFrame[]): SessionFrame[] {
  const open = new Map<string, number>();
  const gone = new Set<number>();
  for (const { sequence, ...frame } of frames) {
    if (frame.type === "model.delta") gone.add(sequence);
    const key = frame.type.startsWith("model.") ? "model" : "call" in frame ? frame.call : null;
    if (frame.type === "model.started" || frame.type === "tool.called") {
      if (open.has(key!)) gone.add(open.get(key!)!);
      open.set(key!, sequence);
    } else if (key && frame.type !== "model.delta" && frame.type !== "tool.outbound") open.delete(key);
  }
  const kept = frames.filter(({ sequence }) => !gone.has(sequence));
  // Of an outbound call that was begun twice, the last beginning counts.
  return kept.filter(
    (frame, i) =>
      frame.type !== "tool.outbound" ||
      frame.answer !== null ||
      !kept
        .slice(i + 1)
        .some((one) => one.type === "tool.outbound" && one.call === frame.call && one.n === frame.n && !one.answer),
  );
}

/** Runs a tape's session again, into an empty journal. Throws `tape_diverged` where it isn't what was recorded. */
export async function replay(tape: Tape, journal: Journal<SessionEvent>): Promise<Session> {
  const { pinned, frames } = tape;
  const row = { ...tape.session, instructions: pinned.instructions } as SessionRow;
  const recorded = undisturbed(frames);
  let at = 0;
  const diverged = (why: string) =>
    new ModelError("tape_diverged", `At frame ${recorded[at]?.sequence ?? "the end"}: ${why}.`);
  const calls = recorded.flatMap((frame) =>
    frame.type === "model.completed" ? (frame.message.tool_calls ?? []).map(({ id }) => id) : [],
  );
  const jobs = new Set<string>();
  const put = (frame: SessionFrame) => {
    session.take(journal.append([frame as SessionEvent], Date.parse(frame.at))[0] as SessionFrame);
    at++;
  };
  /** What came from outside before the session's own next step: what people said, and what async calls gave. */
  const outside = async () => {
    for (let frame = recorded[at]; frame; frame = recorded[at]) {
      if (isOutside(frame)) {
        put(frame);
        // What a resolution says of its call stands right behind it.
        if (frame.type === "tool.resolved" && frame.outcome !== "retry") put(recorded[at]!);
      } else if ("call" in frame && jobs.delete(frame.call)) await session.runCall(frame.call);
      else return;
    }
  };
  const coming = <T extends SessionFrame["type"]>(...types: T[]): Of<T> => {
    const frame = recorded.slice(at).find(({ type }) => (types as string[]).includes(type));
    if (!frame) throw diverged(`the tape has no ${types.join(" or ")}`);
    return frame as Of<T>;
  };
  const hands: Hands = {
    now: () => {
      const frame = recorded[Math.min(at, recorded.length - 1)]!;
      // The clock was read a little before it was written down: a wait that had ended has ended.
      return Date.parse(frame.at) + (frame.type === "tool.completed" ? 1_000 : 0);
    },
    newCall: () => (calls.shift() ?? "") as Id<"tool_call">,
    pin: async () => pinned.agent,
    mayGoOn: async () => true,
    offered: async () => {
      await outside();
      const { turn } = coming("model.started");
      return pinned.offers.findLast((offer) => offer.turn <= turn)?.tools ?? [];
    },
    model: () => coming("model.started").model,
    async *step(_, request, signal) {
      const { request_hash } = recorded[at - 1] as Of<"model.started">;
      await outside();
      const ended = coming("model.completed", "session.status");
      const [code = "", ...reason] = ended.type === "session.status" ? (ended.error ?? "").split(": ") : [];
      const error = code ? { code: code as ModelErrorCode, message: reason.join(": "), retryable: false } : null;
      const tape: TapeStep = {
        request_hash,
        events: ended.type === "model.completed" ? [completed(ended)] : [],
        error,
      };
      yield* step(resolveModel("scripted/tape", {}), request, { ways: { fetch, guarded: fetch }, signal, tape });
    },
    call: async (_, { name }, { call, note }): Promise<ToolAnswer> => {
      for (;;) {
        await outside();
        const frame = coming("tool.outbound", "tool.completed", "tool.failed", "tool.unknown");
        if (frame.call !== call) throw diverged(`the tape has no answer of ${name}`);
        if (frame.type === "tool.unknown") return { unknown: true };
        if (frame.type === "tool.failed") return { error: frame.error };
        if (frame.type === "tool.completed") return { ok: { ...frame.result, resolution: frame.result.resolution } };
        note(frame as Outbound);
      }
    },
    mask: (value) => value,
    told: (made) => {
      for (const { type } of made) {
        if (type === "model.delta") continue;
        if (recorded[at]?.type !== type)
          throw diverged(`it has ${recorded[at]?.type ?? "nothing"} there, and not ${type}`);
        at++;
      }
    },
    runAt: () => {},
    runCall: (call) => void jobs.add(call),
  };
  const session = new Session(row, journal, hands);
  session.begin();
  for (let before = -1; at < recorded.length && before !== at; ) {
    before = at;
    await outside();
    const ends = recorded.slice(at).find(({ type }) => type !== "tool.failed" && type !== "tool.unknown");
    if (ends?.type === "session.status" && ends.status === "cancelled") session.cancel();
    else await session.run();
  }
  if (at < recorded.length) throw diverged(`the tape goes on with ${recorded[at]!.type}`);
  return session;
}

const completed = ({ message, usage, finish_reason, provider_ids, unreadable_arguments }: Of<"model.completed">) => {
  const theirs = (id: string) => provider_ids[id] ?? id;
  return {
    type: "completed",
    message: { ...message, tool_calls: message.tool_calls?.map((call) => ({ ...call, id: theirs(call.id) })) ?? null },
    ...{ usage, finish_reason },
    unreadable_arguments: Object.fromEntries(
      Object.entries(unreadable_arguments).map(([id, why]) => [theirs(id), why]),
    ),
  } as Extract<StepEvent, { type: "completed" }>;
};
