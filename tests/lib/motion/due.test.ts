/** Until when what a session, or a run, is at may take: what is told to whoever asks whether it goes on. */
import { describe, expect, it } from "vitest";
import { PACE } from "../../../lib/motion/pace.ts";
import { reportOf as reportOfRun } from "../../../lib/runs/project.ts";
import { reportOf } from "../../../lib/sessions/project.ts";
import { anAsk, aStage as aRun, asking, ran as ranRun } from "../runs/stage.ts";
import { aStage, aTool, own, ran } from "../sessions/stage.ts";

const call = (name: string, given: object = {}) => ({ name, arguments: given });
const newest = (frames: readonly { at: string }[]) => Date.parse(frames.at(-1)!.at);

describe("a session", () => {
  it("that is to take a step has as long as an alarm may take; one that is over has nothing to do", async () => {
    const stage = aStage({ row: { on_idle: "complete" }, rules: [{ text: "Done." }] });
    const { session } = stage.process();
    session.begin();
    expect(session.due).toBe(newest(stage.frames()) + PACE.late);
    await session.run();
    expect([session.status, session.due]).toEqual(["completed", null]);
  });

  it("that calls a tool has as long as the longest call may take", async () => {
    const seen: (number | null)[] = [];
    let due = () => null as number | null;
    const stage = aStage({
      tools: [aTool("look")],
      rules: [{ role: "user", tool_calls: [call("look")] }, { text: "Done." }],
      call: async () => {
        seen.push(due());
        return { ok: { content: "seen", resolution: null } };
      },
    });
    const { session } = stage.process();
    due = () => session.due;
    session.begin();
    await session.run();
    const called = stage.frames().find(({ type }) => type === "tool.called")!;
    expect(seen).toEqual([Date.parse(called.at) + PACE.step]);
  });

  it("that waits for somebody is due at no time; one that waits for an instant, a little after that", async () => {
    const waits = await ran(aStage({ rules: [{ text: "Hm?" }] }));
    expect([waits.session.status, waits.session.due]).toEqual(["waiting", null]);
    const stage = aStage({
      tools: [own("wait")],
      rules: [{ role: "user", tool_calls: [call("wait", { seconds: 60 })] }],
    });
    const { session } = await ran(stage);
    const until = stage.frames().flatMap((frame) => (frame.type === "tool.called" ? [frame.waits!.until!] : []))[0]!;
    expect([session.status, session.due]).toEqual(["waiting", Date.parse(until) + PACE.late]);
  });
});

describe("a run", () => {
  it("that is to go on has as long as an alarm may take, in the middle of a command as long as that may", async () => {
    const seen: (number | null)[] = [];
    let due = () => null as number | null;
    const stage = aRun({
      program: asking([anAsk("a")]),
      send: () => {
        seen.push(due());
        return { ok: null };
      },
    });
    const { run, go } = stage.process();
    due = () => run.due;
    run.begin();
    expect(run.due).toBe(newest(stage.frames()) + PACE.late);
    await go();
    const called = stage.frames().find(({ type }) => type === "command.called")!;
    expect(seen).toEqual([Date.parse(called.at) + PACE.step]);
    expect([run.status, run.due]).toEqual(["completed", null]);
  });

  it("that waits for somebody is due at no time; one that tries again, a little after it is to", async () => {
    const { run } = await ranRun(aRun({ program: asking([anAsk("a", { kind: "approval" })]) }));
    expect([run.status, run.due]).toEqual(["waiting", null]);
    const stage = aRun({ program: asking([anAsk("a", { attempts: 3 })]), send: () => ({ passing: "503" }) });
    const retries = (await ranRun(stage)).run;
    const until = stage.frames().flatMap((frame) => (frame.type === "command.retrying" ? [frame.until] : []))[0]!;
    expect(retries.due).toBe(Date.parse(until) + PACE.late);
  });
});

describe("what is reported", () => {
  const session = (status: string, look_at: string | null = null) => ({ kind: "session", status, look_at }) as never;
  const owed = (name: string, sequence: number, data: unknown) => ({ name, sequence, data: data as never });
  const row = (routine_run_id: string | null = null) => ({ id: "ase_1", routine_run_id }) as never;

  it("of a session is its status and the calls that have ended; nothing, where neither is told", () => {
    const calls = ["running", "succeeded", "failed", "denied", "unknown"].map((outcome, i) =>
      owed(`call ${i}`, i + 1, { kind: "call", outcome }),
    );
    expect(reportOf(row(), [calls[0]!])).toBeNull();
    expect(reportOf(row(), calls)).toEqual({
      id: "ase_1",
      upto: "000000000005 call 4",
      tools: { total: 2, failed: 1 },
    });
    const at = "2026-01-02T03:04:05.000Z";
    expect(reportOf(row(), [owed("session", 7, session("running", at))])).toEqual({
      ...{ id: "ase_1", upto: "000000000007 session", tools: { total: 0, failed: 0 }, due: Date.parse(at) },
    });
  });

  it.each([
    ["completed", null, { failed: false }],
    ["failed", null, { failed: true }],
    ["cancelled", null, undefined],
    ["failed", "arr_1", undefined],
    ["waiting", null, undefined],
  ])("of a session that is %s, working for %s, counts as a run: %o", (status, run, ended) => {
    expect(reportOf(row(run), [owed("session", 7, session(status))])).toMatchObject({ due: null });
    expect(reportOf(row(run), [owed("session", 7, session(status))])?.ended).toEqual(ended);
  });

  it.each([
    ["completed", { failed: false }],
    ["failed", { failed: true }],
    ["cancelled", undefined],
    ["skipped", undefined],
    ["running", undefined],
  ])("of a run that is %s counts: %o", (status, ended) => {
    const run = { of: "run", status, look_at: null };
    expect(reportOfRun({ id: "arr_1" } as never, [owed("run", 1, run)])?.ended).toEqual(ended);
    expect(reportOfRun({ id: "arr_1" } as never, [owed("command x", 1, { of: "command" })])).toBeNull();
  });
});
