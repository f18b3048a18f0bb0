/** A run at work, in this process: what it does step by step, and that no crash between two steps shows. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { RunFrame } from "../../../lib/runs/frames.ts";
import { isTerminal } from "../../../lib/runs/loop.ts";
import { chainProgram, taskProgram } from "../../../lib/runs/programs.ts";
import type { Came } from "../../../lib/runs/run.ts";
import type { Step } from "../../../lib/workflows/program.ts";
import { anAsk, aStage, asking, Crash, ran } from "./stage.ts";

const by = { type: "user", id: "usr" } as const;
const of = <T extends RunFrame["type"]>(frames: RunFrame[], type: T) =>
  frames.filter((frame): frame is Extract<RunFrame, { type: T }> => frame.type === type);
const firstOf = (step: Step) => (step.do === "ask" ? step.asks[0]! : expect.fail(`it is to ${step.do}`));

describe("a run", () => {
  it("sends what its program asks for, written down before, and completes with what that comes to", async () => {
    const stage = aStage({ program: asking([anAsk("a")], [anAsk("b")]) });
    const { run } = await ran(stage);
    expect(run.view()).toMatchObject({
      ...{ status: "completed", worker_status: "completed", attempt: 1, result: { a: "a done", b: "b done" } },
    });
    expect(stage.frames().map(({ type }) => type)).toEqual([
      ...["run.status", "run.status"],
      ...["command.requested", "command.called", "command.completed"],
      ...["command.requested", "command.called", "command.completed"],
      ...["run.result", "run.status"],
    ]);
    expect(stage.sent.map(({ node }) => node)).toEqual(["a", "b"]);
  });

  it("has under way at once what its program asks for at once, ten at most", async () => {
    let now = 0;
    let most = 0;
    const send = async () => {
      most = Math.max(most, ++now);
      await new Promise((done) => setTimeout(done, 5));
      now--;
      return { ok: null };
    };
    const asks = Array.from({ length: 25 }, (_, i) => anAsk(`a${i}`));
    const { run } = await ran(aStage({ program: asking(asks), send }));
    expect([run.view().status, most]).toEqual(["completed", 10]);
  });

  it("tries a fault that may pass three times, after 10 s and 60 s, under one key", async () => {
    const program = asking([anAsk("a", { attempts: 3 })]);
    const stage = aStage({ program, send: (_, nth) => (nth < 3 ? { passing: "503" } : { ok: "done" }) });
    const { run, go } = await ran(stage);
    expect(run.view()).toMatchObject({ status: "running", worker_status: "retrying", attempt: 1 });
    stage.pass(9_000);
    await go();
    expect(stage.sent).toHaveLength(1);
    stage.pass(1_000);
    await go();
    expect([stage.sent.length, run.view().worker_status]).toEqual([2, "retrying"]);
    stage.pass(59_000);
    await go();
    expect(stage.sent).toHaveLength(2);
    stage.pass(1_000);
    await go();
    expect(run.view()).toMatchObject({ status: "completed", attempt: 3, result: { a: "done" } });
    expect(new Set(stage.sent.map(({ id }) => id)).size).toBe(1);
  });

  it("fails with the fault of the last attempt, and at once with one that doesn't pass", async () => {
    const passing = aStage({ program: asking([anAsk("a", { attempts: 3 })]), send: () => ({ passing: "503" }) });
    const { run, go } = await ran(passing);
    for (const ms of [10_000, 60_000]) {
      passing.pass(ms);
      await go();
    }
    expect(run.view()).toMatchObject({ status: "failed", worker_status: "discarded", result: { error: "503" } });
    expect(passing.sent).toHaveLength(3);
    const stage = aStage({ program: asking([anAsk("a", { attempts: 3 })]), send: () => ({ error: "404" }) });
    expect((await ran(stage)).run.view().status).toBe("failed");
    expect(stage.sent).toHaveLength(1);
  });

  it("waits for a person where nobody knows whether a command happened, and does what that says", async () => {
    for (const [outcome, result, status] of [
      ["happened", { a: "it did" }, "completed"],
      ["retry", { a: "a done" }, "completed"],
      ["give_up", { error: "nobody knows whether the command took effect" }, "failed"],
    ] as const) {
      const program = asking([anAsk("a")]);
      const stage = aStage({ program, send: (_, nth) => (nth === 1 ? { unknown: true } : { ok: "a done" }) });
      const { run, go } = await ran(stage);
      expect([run.status, run.view().status]).toEqual(["waiting", "running"]);
      const { command } = of(stage.frames(), "command.unknown")[0]!;
      expect(run.resolve("tcl_other", { outcome: "retry", by })).toMatchObject({ refused: { status: 404 } });
      run.resolve(command, outcome === "happened" ? { outcome, result: "it did", by } : { outcome, by });
      expect(run.resolve(command, { outcome: "retry", by })).toMatchObject({ refused: { status: 409 } });
      await go();
      expect(run.view()).toMatchObject({ status, result });
    }
  });

  it("asks for an approval by the hash of what is looked at, once, and tells its program who decided what", async () => {
    const stage = aStage({ program: asking([anAsk("a", { kind: "approval", template: { message: "Pay?" } })]) });
    const { run, go } = await ran(stage);
    const { command, arguments_hash } = of(stage.frames(), "command.requested")[0]!;
    expect([run.status, stage.sent]).toEqual(["waiting", []]);
    const decision = { approved: true, arguments_hash, note: "fine", by };
    expect(run.decide(command, { ...decision, arguments_hash: "other" })).toMatchObject({ refused: { status: 409 } });
    run.decide(command, decision);
    expect(run.decide(command, decision)).toMatchObject({ refused: { status: 409 } });
    await go();
    expect(run.view()).toMatchObject({ status: "completed", result: { a: { approved: true, note: "fine", by } } });
  });

  describe.each([
    ["a session", { kind: "preset" }, "ase_", "running"],
    ["a session", { kind: "work", template: { worker: "session" } }, "ase_", "running"],
    ["whoever claims it", { kind: "work", template: { worker: "external" } }, "wdi_", "waiting"],
    ["a wait for an event", { kind: "wait", template: { event: "a.b" } }, "ewt_", "waiting"],
  ] as const)("that hands a command to %s (%o)", (_, ask, prefix, status) => {
    const until = "2026-01-02T04:00:00.000Z";
    const asked = anAsk("a", { ...ask, effect: "idempotent" });
    const handedTo = (stage: ReturnType<typeof aStage>) => {
      const { command, handed_to } = of(stage.frames(), "command.called")[0]!;
      expect(handed_to).toBe(`${prefix}${command.slice(4)}`);
      return handed_to;
    };

    it("asks who has it when that says so, and not before; a wait goes with it", async () => {
      let came: { ok: string } | null = null;
      const heard = () => came;
      const stage = aStage({ program: asking([asked]), send: () => ({ later: true, until: null }), heard });
      const { run, go } = await ran(stage);
      expect(run.status).toBe(status);
      run.hear();
      await go();
      expect([run.view().status, stage.left]).toEqual(["running", []]);
      came = { ok: "done" };
      run.hear();
      await go();
      expect(run.view()).toMatchObject({ status: "completed", result: { a: "done" } });
      expect(stage.left).toEqual(prefix === "ewt_" ? [handedTo(stage)] : []);
      expect(stage.sent).toHaveLength(1);
    });

    it.each([
      [null, null],
      [{ ok: "in time" }, "in time"],
    ])("asks a last time when its time is over: %o", async (came, result) => {
      let isOver = false;
      const heard = () => (isOver ? came : null);
      const stage = aStage({ program: asking([asked]), send: () => ({ later: true, until }), heard });
      const { run, go } = await ran(stage);
      stage.pass(Date.parse(until) - Date.parse("2026-01-02T03:04:05Z"));
      isOver = true;
      await go();
      expect(run.view()).toMatchObject({ status: "completed", result: { a: result } });
    });

    it("lets go of it where it ends before, also where that is still being sent", async () => {
      const stage = aStage({ program: asking([asked]), send: () => ({ later: true, until: null }) });
      const { run } = await ran(stage);
      run.cancel();
      expect(stage.left).toEqual([handedTo(stage)]);
      let cancel = () => {};
      const send = () => {
        cancel();
        return { later: true, until: null } as const;
      };
      const late = aStage({ program: asking([asked]), send });
      const one = late.process();
      cancel = () => void one.run.cancel();
      one.run.begin();
      await one.go();
      expect(late.left).toEqual([handedTo(late), handedTo(late)]);
    });
  });

  it("listens for an event before that is written down; where it can't, the command fails", async () => {
    const asked = anAsk("a", { kind: "wait", template: { event: "a.b" } });
    const stage = aStage({ program: asking([asked]) });
    const { run } = stage.process();
    let known: number | null = null;
    const listen = async () => {
      known = stage.frames().length;
      return "no";
    };
    const one = stage.process(undefined, { listen });
    one.run.begin();
    await one.go();
    expect([known, one.run.view()]).toMatchObject([2, { status: "failed", result: { error: "no" } }]);
    expect([run.status, stage.sent]).toEqual(["pending", []]);
  });

  it("waits until a time, and no longer", async () => {
    const until = new Date(Date.parse("2026-01-02T04:00:00Z")).toISOString();
    const program = asking([anAsk("a", { kind: "wait" })]);
    const stage = aStage({ program, send: () => ({ later: true, until }) });
    const { run, go } = await ran(stage);
    expect(run.status).toBe("waiting");
    stage.pass(Date.parse(until) - Date.parse("2026-01-02T03:04:05Z") - 60_000);
    expect([await go(), run.status]).toEqual([Date.parse(until), "waiting"]);
    stage.pass(60_000);
    await go();
    expect(run.view()).toMatchObject({ status: "completed", result: { a: null } });
  });

  it("hears what came of a session, however early that has ended", async () => {
    const program = asking([anAsk("a", { kind: "preset", effect: "idempotent" })]);
    for (const early of [false, true]) {
      let came: { ok: string } | null = null;
      const stage = aStage({
        program,
        heard: () => came,
        send: () => {
          if (early) came = { ok: "said" };
          if (early) one.run.hear();
          return { later: true, until: null };
        },
      });
      const one = stage.process();
      one.run.begin();
      await one.go();
      if (!early) {
        // At work still: nobody is waited for.
        expect(one.run.status).toBe("running");
        came = { ok: "said" };
        one.run.hear();
        await one.go();
      }
      expect(one.run.view()).toMatchObject({ status: "completed", result: { a: "said" } });
    }
  });

  it("cancelled, lets go of its sessions, says what may have happened, and never moves again", async () => {
    const asks = [anAsk("a", { kind: "preset", effect: "idempotent" }), anAsk("b", { kind: "wait" })];
    const stage = aStage({ program: asking(asks), send: () => ({ later: true, until: null }) });
    const { run, go } = await ran(stage);
    run.cancel();
    const { command } = of(stage.frames(), "command.called")[0]!;
    expect(run.resolve(command, { outcome: "retry", by })).toMatchObject({ refused: { status: 409 } });
    expect(run.resolve("tcl_other", { outcome: "retry", by })).toMatchObject({ refused: { status: 404 } });
    expect(run.view()).toMatchObject({ status: "cancelled", worker_status: "cancelled", result: null });
    expect(stage.left).toHaveLength(1);
    const frames = stage.frames();
    run.cancel();
    run.hear();
    await go();
    expect(stage.frames()).toEqual(frames);
    expect(of(frames, "command.failed")).toHaveLength(2);
  });

  it("looks again when a command is sent that was heard of before", async () => {
    let looks = 0;
    const stage = aStage({
      program: asking([anAsk("a", { kind: "preset", effect: "idempotent" })]),
      heard: () => ({ ok: "said" }),
      send: async () => {
        one.run.hear();
        await one.run.look();
        return { later: true, until: null };
      },
    });
    const one = stage.process(undefined, { runLook: () => void looks++ });
    one.run.begin();
    await one.go();
    expect([looks, one.run.view().status]).toEqual([2, "running"]);
    await one.run.look();
    await one.go();
    expect(one.run.view()).toMatchObject({ status: "completed", result: { a: "said" } });
  });

  it("leaves unknown what is, when it is cancelled", async () => {
    const stage = aStage({ program: asking([anAsk("a")]), send: () => ({ unknown: true }) });
    const { run } = await ran(stage);
    const { command } = of(stage.frames(), "command.unknown")[0]!;
    run.cancel();
    expect([of(stage.frames(), "command.failed"), run.factsOf(command)?.outcome]).toEqual([[], "unknown"]);
  });

  describe("of a script that made calls", () => {
    const known: (number | null)[][] = [];
    /** Makes a call that is answered, and one more, of which this comes. */
    const scripted = (answer: { ok: number } | null, came: Came) =>
      aStage({
        program: asking([anAsk("a", { kind: "script", attempts: 3 })]),
        send: ({ outbound, note }, nth) => {
          known.push(outbound.map(({ n, answer }) => (answer ? n : null)));
          if (nth > 1) return { ok: "done" };
          for (const [n, given] of [{ ok: 200 }, answer].entries()) {
            note({ n, name: "requests.request", hash: "h", answer: null });
            if (given) note({ n, name: "requests.request", hash: "h", answer: given });
          }
          return came;
        },
      });

    it("makes the one anew that met a fault that passes, and it alone", async () => {
      known.length = 0;
      const stage = scripted({ ok: 503 }, { passing: "503" });
      const { run, go } = await ran(stage);
      stage.pass(10_000);
      await go();
      expect([run.view().status, known]).toEqual(["completed", [[], [0]]]);
    });

    it("makes the one anew of which somebody says so", async () => {
      known.length = 0;
      const stage = scripted(null, { unknown: true });
      const { run, go } = await ran(stage);
      run.resolve(of(stage.frames(), "command.unknown")[0]!.command, { outcome: "retry", by });
      await go();
      expect([run.view().status, known]).toEqual(["completed", [[], [0]]]);
    });
  });

  it("counts no end of a process among the faults of a command", async () => {
    const program = asking([anAsk("a", { effect: "idempotent", attempts: 3 })]);
    const came = (nth: number) => (nth < 3 ? Promise.reject(new Crash()) : nth < 5 ? { passing: "503" } : { ok: 1 });
    const stage = aStage({ program, send: (_, nth) => came(nth) });
    for (let end = 0; end < 2; end++) {
      const { run, go } = stage.process();
      run.begin();
      await expect(go()).rejects.toThrow(Crash);
    }
    const { run, go } = stage.process();
    for (const ms of [0, 10_000, 60_000]) {
      stage.pass(ms);
      await go();
    }
    expect(run.view()).toMatchObject({ status: "completed", attempt: 3 });
    expect(stage.sent.at(-1)!.attempt).toBe(5);
  });

  it("begins no command for the hundred-and-first time, whatever ends the process each time", async () => {
    const stage = aStage({
      program: asking([anAsk("a", { effect: "idempotent" })]),
      send: () => Promise.reject(new Crash()),
    });
    for (let end = 0; end < 100; end++) {
      const { run, go } = stage.process();
      run.begin();
      await expect(go()).rejects.toThrow(Crash);
    }
    const { run, go } = stage.process();
    await go();
    expect([stage.sent.length, run.view()]).toMatchObject([
      100,
      { status: "failed", result: { error: expect.stringMatching(/100 times/) } },
    ]);
  });

  it.each([
    ["script", { structured: { a: 1 }, b: 2 }, null],
    ["preset", { b: 2 }, { a: 1 }],
  ])("has a structured response of a preset alone: %s", async (handler, result, structured_response) => {
    const program = asking([anAsk("structured"), anAsk("b")]);
    const send = ({ node }: { node: string }) => ({ ok: node === "b" ? 2 : { a: 1 } });
    const { run } = await ran(aStage({ program, send, hands: { pin: async () => ({ handler }) } }));
    expect(run.view()).toMatchObject({ status: "completed", result, structured_response });
  });

  it("of `once`, cancelled while it is sent, is unknown", async () => {
    let cancel = () => {};
    const send = async () => {
      cancel();
      return { ok: 1 };
    };
    const stage = aStage({ program: asking([anAsk("a")]), send });
    const one = stage.process();
    cancel = () => void one.run.cancel();
    one.run.begin();
    await one.go();
    expect([one.run.view().status, of(stage.frames(), "command.unknown").length]).toEqual(["cancelled", 1]);
  });

  it("takes no step while its org is suspended, and goes on when that is lifted", async () => {
    let isLive = false;
    const hands = { mayGoOn: async () => isLive };
    const stage = aStage({ program: asking([anAsk("a")]), hands });
    const { run, go } = await ran(stage);
    expect([run.view().status, stage.sent, stage.paused]).toEqual(["pending", [], ["pending"]]);
    isLive = true;
    await go();
    expect(run.view().status).toBe("completed");
  });

  it("of a routine with other plans is skipped, of an agent that is gone fails", async () => {
    const skipped = aStage({ program: asking(), hands: { pin: async () => ({ skipped: "not_active" }) } });
    expect((await ran(skipped)).run.view()).toMatchObject({ status: "skipped", result: { reason: "not_active" } });
    const gone = aStage({ program: asking(), hands: { pin: async () => null } });
    expect((await ran(gone)).run.view()).toMatchObject({ status: "failed" });
  });

  it("writes down no secret", async () => {
    const stage = aStage({
      program: asking([anAsk("a")]),
      send: () => ({ ok: "s3cret-value" }),
      secrets: ["s3cret-value"],
    });
    const { run } = await ran(stage);
    expect(JSON.stringify([stage.frames(), run.view(), stage.told])).not.toContain("s3cret-value");
  });

  it.each<[string, Parameters<typeof aStage>[0]]>([
    ["an error", { program: asking([anAsk("a")]), send: () => ({ error: "s3cret-value" }) }],
    [
      "a fault that passes",
      { program: asking([anAsk("a", { attempts: 3 })]), send: () => ({ passing: "s3cret-value" }) },
    ],
    ["arguments", { program: asking([anAsk("a", { template: "s3cret-value" })]) }],
    ["why it fails", { program: { ...asking(), next: () => ({ do: "fail", error: "s3cret-value" }) } }],
    ["what it completes with", { program: { ...asking(), next: () => ({ do: "complete", result: "s3cret-value" }) } }],
  ])("writes down none in %s", async (_, options) => {
    const stage = aStage({ ...options, secrets: ["s3cret-value"] });
    const { run } = await ran(stage);
    const written = JSON.stringify([stage.frames(), run.view(), stage.told]);
    expect([written.includes("****"), written.includes("s3cret-value")]).toEqual([true, false]);
  });

  it("writes down none in the note of who decides", async () => {
    const program = asking([anAsk("a", { kind: "approval" })]);
    const stage = aStage({ program, secrets: ["s3cret-value"] });
    const { run } = await ran(stage);
    const { command, arguments_hash } = of(stage.frames(), "command.requested")[0]!;
    run.decide(command, { approved: true, arguments_hash, note: "s3cret-value", by });
    expect(of(stage.frames(), "approval.decided")).toMatchObject([{ note: "****" }]);
  });

  it("fails where what it gives is too long, and what it would send is not sent", async () => {
    const long = "a".repeat(70_000);
    const unsent = aStage({ program: asking([anAsk("a", { template: long })]) });
    expect((await ran(unsent)).run.view().result).toEqual({ error: "its arguments have more than 65536 bytes" });
    expect(unsent.sent).toEqual([]);
    expect((await ran(aStage({ program: asking([anAsk("a")]), send: () => ({ ok: long }) }))).run.view().status).toBe(
      "failed",
    );
    const parts = asking([anAsk("a"), anAsk("b")]);
    const send = () => ({ ok: long.slice(0, 20_000) });
    expect((await ran(aStage({ program: parts, send }))).run.view()).toMatchObject({
      ...{ status: "failed", result: { error: expect.stringMatching(/more than/) } },
    });
  });
});

describe("whenever its process ends", () => {
  it.each(["read", "idempotent", "once"] as const)("a run goes on where it was: %s", async (effect) => {
    for (let end = 1; ; end++) {
      const stage = aStage({
        program: asking([anAsk("a", { effect })], [anAsk("b", { effect }), anAsk("c", { effect })]),
      });
      const first = stage.process(end);
      let crashed = false;
      try {
        first.run.begin();
        await first.go();
      } catch (error) {
        if (!(error instanceof Crash)) throw error;
        crashed = true;
      }
      const next = stage.process();
      next.run.begin();
      await next.go();
      for (const { command } of of(stage.frames(), "command.unknown")) {
        expect(effect).toBe("once");
        next.run.resolve(command, { outcome: "happened", result: "told", by });
      }
      await next.go();
      expect([end, next.run.view().status]).toEqual([end, "completed"]);
      for (const node of ["a", "b", "c"]) {
        const sent = stage.sent.filter((one) => one.node === node);
        expect(new Set(sent.map(({ id }) => id)).size).toBeLessThanOrEqual(1);
        if (effect === "once") expect(sent.length).toBeLessThanOrEqual(1);
      }
      expect(of(stage.frames(), "run.result")).toHaveLength(1);
      if (!crashed) return;
    }
  });
});

it("goes on where its command's turn comes in another process than the one that sent it", async () => {
  const stage = aStage({
    program: asking([anAsk("a", { effect: "idempotent" })]),
    send: () => Promise.reject(new Crash()),
  });
  const one = stage.process();
  one.run.begin();
  await expect(one.go()).rejects.toThrow(Crash);
  const { command } = of(stage.frames(), "command.called")[0]!;
  const wakes: number[] = [];
  const next = stage.process(undefined, { runAt: (instant) => void wakes.push(instant) });
  await next.run.runCommand(command);
  expect(wakes).toHaveLength(1);
});

describe("what fails beside a command, as a database that is out", () => {
  const out = () => Promise.reject(new Error("out"));
  const begun = async (stage: ReturnType<typeof aStage>) => {
    const one = stage.process();
    one.run.begin();
    await expect(one.go()).rejects.toThrow("out");
    return { ...one, command: of(stage.frames(), "command.called")[0]!.command };
  };

  it.each(["idempotent", "once"] as const)("is waited for: %s is begun once, and known", async (effect) => {
    const program = asking([anAsk("a", { effect })]);
    const stage = aStage({ program, send: (_, nth) => (nth < 4 ? out() : { ok: "done" }) });
    const { run, go, command } = await begun(stage);
    for (let n = 2; n < 4; n++) {
      await go();
      await expect(run.runCommand(command)).rejects.toThrow("out");
    }
    await run.runCommand(command);
    await go();
    expect(run.view()).toMatchObject({ status: "completed", attempt: 1, result: { a: "done" } });
    expect([of(stage.frames(), "command.called").length, stage.sent.length]).toEqual([1, 4]);
  });

  it("is waited for a hundred times", async () => {
    const stage = aStage({ program: asking([anAsk("a")]), send: out });
    const { run, go, command } = await begun(stage);
    for (let n = 2; n < 100; n++) await expect(run.runCommand(command)).rejects.toThrow("out");
    await run.runCommand(command);
    await go();
    expect(run.view()).toMatchObject({ status: "failed", result: { error: expect.stringMatching(/100 times/) } });
  });

  it("ends with its run: nothing is sent any more", async () => {
    const stage = aStage({ program: asking([anAsk("a")]), send: out });
    const { run, command } = await begun(stage);
    run.cancel();
    await run.runCommand(command);
    expect([run.view().status, stage.sent.length]).toEqual(["cancelled", 1]);
  });
});

it("takes up again what was stopped in the middle for its org's sake, when that is lifted", async () => {
  let isLive = true;
  const stage = aStage({
    program: asking([anAsk("a", { kind: "script" })]),
    hands: { mayGoOn: async () => isLive },
    send: async (command, nth) => {
      if (nth === 1) isLive = false;
      return (await command.mayGoOn()) ? { ok: "done" } : null;
    },
  });
  const { run, go } = await ran(stage);
  expect([run.status, run.view().status, stage.sent.length]).toEqual(["waiting", "running", 1]);
  await go();
  expect([stage.sent.length, stage.paused]).toEqual([1, ["waiting", "waiting"]]);
  isLive = true;
  await go();
  expect(run.view()).toMatchObject({ status: "completed", result: { a: "done" } });
  expect(stage.sent.map(({ attempt }) => attempt)).toEqual([1, 2]);
});

describe("the states of a run", () => {
  const step = fc.constantFrom("cancel", "suspend", "lift", "pass", "resolve", "crash", "hear");
  const came = fc.constantFrom(
    { ok: 1 },
    { error: "no" },
    { passing: "later" },
    { unknown: true },
    { later: true, until: null },
  );
  it("lead from pending to running to an end, of which nothing leads away", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 12 }),
        fc.array(came, { minLength: 1, maxLength: 6 }),
        async (steps, outcomes) => {
          let isLive = true;
          const stage = aStage({
            program: asking([anAsk("a", { attempts: 3 }), anAsk("b", { kind: "preset", effect: "idempotent" })]),
            send: (command, nth) => outcomes[(nth + command.node.length) % outcomes.length] as never,
            heard: () => ({ ok: "said" }),
            hands: { mayGoOn: async () => isLive },
          });
          let one = stage.process();
          one.run.begin();
          await one.go();
          for (const what of steps) {
            if (what === "cancel") one.run.cancel();
            if (what === "suspend" || what === "lift") isLive = what === "lift";
            if (what === "pass") stage.pass(60_000);
            if (what === "hear") one.run.hear();
            if (what === "crash") one = stage.process();
            if (what === "resolve") {
              for (const { command } of of(stage.frames(), "command.unknown")) {
                one.run.resolve(command, { outcome: "retry", by });
              }
            }
            await one.go();
          }
          const statuses = of(stage.frames(), "run.status").map(({ status }) => status);
          expect(statuses[0]).toBe("pending");
          expect(statuses.filter(isTerminal).length).toBeLessThanOrEqual(1);
          if (statuses.some(isTerminal)) expect(stage.frames().at(-1)).toMatchObject({ status: statuses.at(-1) });
          // What the journal says is what a new process knows.
          expect(stage.process().run.view()).toEqual(one.run.view());
        },
      ),
      { numRuns: 60 },
    );
  });
});

describe("programs", () => {
  const script = { handler_type: "script", script: "1", config: null } as const;
  const preset = { handler_type: "preset", preset_name: "do_task", preset_config: {} } as const;
  const step = { name: null, output_key: null, inputs: {}, on_error: "halt" } as const;

  it("have a structured answer repaired twice, told of what is wrong", async () => {
    const program = taskProgram(preset);
    const wrong = { error: "structured_response: no title" };
    const stage = aStage({ program, send: () => wrong });
    const { run } = await ran(stage);
    expect(run.view()).toMatchObject({ status: "failed", result: wrong });
    expect(of(stage.frames(), "command.requested").map((frame) => frame.arguments)).toMatchObject([
      ...[null, "no title", "no title"].map((repair) => ({ repair })),
    ]);
    const mended = aStage({ program, send: (_, nth) => (nth < 3 ? wrong : { ok: { output: "x" } }) });
    expect((await ran(mended)).run.view().status).toBe("completed");
  });

  it("of a chain ask with what was put out before, and try again where the step says so alone", async () => {
    const chain = chainProgram([
      { ...script, ...step, name: "a" },
      { ...script, ...step, output_key: "b", inputs: { mine: "a", whole: "trigger" }, on_error: "retry" },
    ]);
    let state = chain.begin({ n: 1 });
    const first = firstOf(chain.next(state));
    expect([first.attempts, first.scope]).toEqual([1, { trigger: { n: 1 }, inputs: {} }]);
    state = chain.take(state, first.key, { ok: "one" });
    const second = firstOf(chain.next(state));
    expect([second.attempts, second.scope]).toEqual([
      ...[3, { trigger: { n: 1 }, inputs: { a: "one", mine: "one", whole: { n: 1 } } }],
    ]);
    expect(chain.next(chain.take(state, second.key, { ok: 2 }))).toEqual({ do: "complete", result: 2 });
    expect(chain.next(chain.take(state, second.key, { error: "no" }))).toMatchObject({ do: "fail" });
  });

  it("of a chain go on past a step that may fail, and have nothing of one without a name", async () => {
    const chain = chainProgram([
      { ...script, ...step },
      { ...script, ...step, name: "b", on_error: "continue" },
      { ...script, ...step },
    ]);
    let state = chain.begin(1);
    for (const outcome of [{ ok: "one" }, { error: "no" }])
      state = chain.take(state, firstOf(chain.next(state)).key, outcome);
    const last = firstOf(chain.next(state));
    expect([last.key, last.scope]).toEqual(["steps[2]", { trigger: 1, inputs: { b: null } }]);
  });
});
