/** A tape runs again without any way out, and says where it isn't what was recorded. */
import { describe, expect, it } from "vitest";
import { Journal } from "../../../lib/journal/journal.ts";
import type { SessionEvent, SessionFrame } from "../../../lib/sessions/frames.ts";
import { replay, type Tape } from "../../../lib/sessions/tape.ts";
import { aStore } from "../journal/store.ts";
import { aStage, aTool, Crash, finish, own, ran, type Stage, says } from "./stage.ts";

const call = (name: string, given: object = {}) => ({ name, arguments: given });
const by = { type: "user", id: "usr" } as const;

/** As it is exported: JSON. */
const tapeOf = (stage: Stage, session: { pinned: unknown }): Tape =>
  JSON.parse(
    JSON.stringify({
      ...{ version: 1, session: stage.row, frames: stage.frames() },
      pinned: { ...(session.pinned as object), instructions: stage.row.instructions },
    }),
  );
/** What was said and done, without what counts places and times. */
const told = (frames: readonly SessionFrame[]) =>
  frames
    .filter(({ type }) => type !== "model.delta" && type !== "session.status")
    .map(({ sequence: _, at: __, ...frame }) =>
      JSON.parse(
        JSON.stringify({
          ...frame,
          deltas: 0,
          waits: 0,
          duration_ms: 0,
          inbox: 0,
          attempt: 0,
          message: "role" in (frame as object) ? 0 : (frame as { message?: unknown }).message,
        }),
      ),
    );
async function again(tape: Tape) {
  const journal = new Journal<SessionEvent>(aStore().sql);
  const session = await replay(tape, journal);
  return { session, frames: journal.after(0) as SessionFrame[] };
}

const tools = [aTool("look"), aTool("pay", { approval: "required" }), own("ask_user"), own("wait"), finish()];
const rules = [
  { match: "blue", tool_calls: [call("wait", { seconds: 60 })] },
  { match: "time is over", tool_calls: [call("finish", { result: { done: true } })] },
  { match: "pay done", tool_calls: [call("ask_user", { question: "Which?" })] },
  { match: "look done", text: "I pay.", tool_calls: [call("pay"), call("look")] },
  { text: "I look around.", tool_calls: [call("look")] },
];

/** A whole life: tools, an approval, a message on the way, a question, a wait and an end. */
async function aLife(dies = Number.POSITIVE_INFINITY) {
  const stage = aStage({ tools, rules });
  let { session } = stage.process(dies);
  const run = async () => {
    try {
      await session.run();
    } catch (error) {
      if (!(error instanceof Crash)) throw error;
      session = stage.process().session;
      session.begin();
      await session.run();
    }
  };
  try {
    session.begin();
  } catch {
    session = stage.process().session;
    session.begin();
  }
  await run();
  for (const frame of stage.frames()) {
    if (frame.type === "tool.unknown") session.resolve(frame.call, { outcome: "happened", result: "look done", by });
  }
  await run();
  const asked = stage.frames().find((frame) => frame.type === "approval.requested")!;
  session.decide(asked.call, { approved: true, arguments_hash: asked.arguments_hash, note: null, by });
  await run();
  session.message(says("blue"), stage.keys);
  await run();
  stage.pass(100_000);
  await run();
  expect(session.status).toBe("completed");
  return tapeOf(stage, session);
}

describe("a tape", () => {
  it("is run again to the same end, frame by frame", async () => {
    const tape = await aLife();
    const { session, frames } = await again(tape);
    expect(session.view()).toMatchObject({ status: "completed", result: { done: true } });
    expect(told(frames)).toEqual(told(tape.frames));
    expect(frames.length).toBeGreaterThan(25);
  });

  it("of a session whose process ended on the way is run again to the same end, too", async () => {
    for (let end = 2; end < 24; end++) {
      const tape = await aLife(end);
      const { session } = await again(tape);
      expect(session.view(), `at ${end}`).toMatchObject({ status: "completed", result: { done: true } });
    }
  });

  it("of a session that was cancelled, or failed, ends as that did", async () => {
    const failing = aStage({ rules: [] });
    const failed = await ran(failing);
    const { session } = await again(tapeOf(failing, failed.session));
    expect(session.view()).toMatchObject({ status: "failed", error: failed.session.view().error });

    const stage = aStage({ tools, rules });
    const cancelled = await ran(stage);
    cancelled.session.cancel();
    expect((await again(tapeOf(stage, cancelled.session))).session.status).toBe("cancelled");
  });

  it("fails loudly where the session asks for anything else than what was recorded", async () => {
    const tape = await aLife();
    const other = (change: (tape: Tape) => void) => {
      const copy = structuredClone(tape);
      change(copy);
      return again(copy);
    };
    const first = (type: string) => (copy: Tape) => copy.frames.find((frame) => frame.type === type) as any;
    await expect(other((copy) => (copy.pinned.agent.identity = "You are Eve."))).rejects.toThrow(
      /another request|frame/,
    );
    await expect(other((copy) => (first("tool.completed")(copy).result.content = "look at this"))).rejects.toThrow(/./);
    await expect(other((copy) => copy.frames.splice(12, 1))).rejects.toThrow(/./);
    await expect(other((copy) => copy.frames.splice(20))).resolves.toBeTruthy();
  });
});
