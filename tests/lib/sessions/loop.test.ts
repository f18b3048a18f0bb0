import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Effect, SessionStatus as Status } from "../../../lib/db/schema.ts";
import {
  begun,
  fold,
  isTerminal,
  type LoopEvent,
  MAX_MISFITS,
  next,
  type SessionLimits,
  type Step,
  statusAt,
} from "../../../lib/sessions/loop.ts";

const NONE: ReadonlySet<string> = new Set();
const limits: SessionLimits = { max_turns: 100, max_tokens: 20_000, on_idle: "wait", start_idle: false };
const stateOf = (...events: LoopEvent[]) => events.reduce((state, event, i) => fold(state, event, i + 1), begun());
const nextOf = (events: LoopEvent[], more: Partial<SessionLimits> = {}, inFlight = NONE, now = 0) =>
  next(stateOf(...events), { ...limits, ...more }, inFlight, now);

const running: LoopEvent = { type: "session.status", status: "running" };
const started = (turn: number, inbox = 0): LoopEvent => ({ type: "model.started", turn, inbox });
const says = (content: string, ...calls: string[]): LoopEvent => ({
  type: "model.completed",
  message: { content, tool_calls: calls.map((id) => ({ id, name: id.replace(/\d+$/, "") })) },
  usage: { input_tokens: 10, output_tokens: 5 },
});
const called = (call: string, effect: Effect = "read", more = {}): LoopEvent => ({
  type: "tool.called",
  call,
  effect,
  ...more,
});
const done = (call: string): LoopEvent => ({ type: "tool.completed", call });
const failed = (call: string): LoopEvent => ({ type: "tool.failed", call });
const message: LoopEvent = { type: "message.received" };
const turn = (n: number, ...calls: string[]) => [started(n), says("Text", ...calls)];

describe("what comes next", () => {
  const table: [what: string, events: LoopEvent[], step: Partial<Step>, more?: Partial<SessionLimits>][] = [
    ["at the beginning: the model", [running], { do: "call_model", turn: 1 }],
    ["where it starts idle: a message", [running], { do: "wait", until: null }, { start_idle: true }],
    ["where it starts idle and has one: the model", [running, message], { do: "call_model" }, { start_idle: true }],
    ["after a crash in the model's answer: the same turn", [running, started(3)], { do: "call_model", turn: 3 }],
    ["after words alone: the next message", turn(1), { do: "wait" }],
    [
      "after words alone, where that is enough: the end",
      turn(1),
      { do: "complete", output: "Text" },
      { on_idle: "complete" },
    ],
    [
      "after words, with a message that came meanwhile",
      [started(1), message, says("Text")],
      { do: "call_model", turn: 2 },
    ],
    ["after words, with one that they answer", [message, started(1, 1), says("Text")], { do: "wait" }],
    ["after a call was asked for: it", turn(1, "a1"), { do: "call_tool" }],
    ["after it was answered: the model", [...turn(1, "a1"), called("a1"), done("a1")], { do: "call_model", turn: 2 }],
    ["after it failed: the model", [...turn(1, "a1"), called("a1"), failed("a1")], { do: "call_model", turn: 2 }],
    ["after it was refused: the model", [...turn(1, "a1"), failed("a1")], { do: "call_model", turn: 2 }],
    ["after a crash in a call that reads: it again", [...turn(1, "a1"), called("a1")], { do: "call_tool" }],
    [
      "after a crash in a call that may be repeated with its key: it again",
      [...turn(1, "a1"), called("a1", "idempotent")],
      { do: "call_tool" },
    ],
    ["after a crash in a call for once: never it", [...turn(1, "a1"), called("a1", "once")], { do: "lose" }],
    [
      "where nobody knows what became of a call: a person",
      [...turn(1, "a1"), called("a1", "once"), { type: "tool.unknown", call: "a1" }],
      { do: "wait", until: null },
    ],
    [
      "where a person says that it happened: the model",
      [...turn(1, "a1"), called("a1", "once"), { type: "tool.unknown", call: "a1" }, done("a1")],
      { do: "call_model", turn: 2 },
    ],
    [
      "where a person says that it is to be made again: it",
      [
        ...[...turn(1, "a1"), called("a1", "once"), { type: "tool.unknown", call: "a1" } as const],
        { type: "approval.decided", call: "a1", approved: true },
      ],
      { do: "call_tool" },
    ],
    [
      "where a call waits for approval: a person",
      [...turn(1, "a1"), { type: "approval.requested", call: "a1" }],
      { do: "wait" },
    ],
    [
      "where one waits for approval, and another doesn't: the other",
      [...turn(1, "a1", "b2"), { type: "approval.requested", call: "a1" }],
      { do: "call_tool" },
    ],
    [
      "where it was approved: it",
      [
        ...[...turn(1, "a1"), { type: "approval.requested", call: "a1" } as const],
        { type: "approval.decided", call: "a1", approved: true },
      ],
      { do: "call_tool" },
    ],
    [
      "where it was denied: the model",
      [
        ...[...turn(1, "a1"), { type: "approval.requested", call: "a1" } as const],
        { type: "approval.decided", call: "a1", approved: false },
      ],
      { do: "call_model", turn: 2 },
    ],
    [
      "where a message came while one waits for approval: still a person",
      [...turn(1, "a1"), { type: "approval.requested", call: "a1" }, message],
      { do: "wait" },
    ],
    [
      "where a call waits for a message: that",
      [...turn(1, "ask_user1"), called("ask_user1", "read", { waits: { message: true, until: null } })],
      { do: "wait", until: null },
    ],
    [
      "where it has come: the call's answer",
      [...turn(1, "ask_user1"), called("ask_user1", "read", { waits: { message: true, until: null } }), message],
      { do: "answer_wait", message: 4 },
    ],
    [
      "where a call sleeps: the end of it",
      [...turn(1, "wait1"), called("wait1", "read", { waits: { message: false, until: "2026-01-02T00:00:00Z" } })],
      { do: "wait", until: "2026-01-02T00:00:00Z" },
    ],
    [
      "where an async tool was accepted, and nothing else was asked for: its result",
      [...turn(1, "a1"), called("a1", "read", { async: true })],
      // Nobody works on it here: it went down with another process.
      { do: "call_tool" },
    ],
    [
      "at the last turn that may be: it",
      turn(1, "a1").concat(done("a1")),
      { do: "call_model", turn: 2 },
      { max_turns: 2 },
    ],
    ["after it: the end", turn(1, "a1").concat(done("a1")), { do: "fail", limit: "max_turns" }, { max_turns: 1 }],
    ["after the last turn, which asks for nothing: a message", turn(1), { do: "wait" }, { max_turns: 1 }],
    ["with tokens left: the model", turn(1, "a1").concat(done("a1")), { do: "call_model" }, { max_tokens: 16 }],
    [
      "with none left: the end",
      turn(1, "a1").concat(done("a1")),
      { do: "fail", limit: "max_tokens" },
      { max_tokens: 15 },
    ],
    [
      "after a result that fits no schema: the model again",
      Array.from({ length: MAX_MISFITS }, (_, i) => [...turn(i + 1, "finish"), failed("finish")]).flat(),
      { do: "call_model" },
    ],
    [
      "after one too many: the end",
      Array.from({ length: MAX_MISFITS + 1 }, (_, i) => [...turn(i + 1, "finish"), failed("finish")]).flat(),
      { do: "fail", limit: "result_schema" },
    ],
  ];
  for (const [what, events, step, more] of table) {
    it(`is, ${what}`, () => void expect(nextOf(events, more)).toMatchObject(step));
  }
  for (const status of ["completed", "failed", "cancelled"] as const) {
    it(`is nothing where it is ${status}, whatever was open`, () => {
      const end: LoopEvent = { type: "session.status", status };
      for (const events of [[], [started(1)], turn(1, "a1"), [message]]) {
        expect(nextOf([...events, end])).toEqual({ do: "nothing" });
      }
    });
  }
  it("is nothing beside what is in flight", () => {
    expect(nextOf([started(1)], {}, new Set(["model"]))).toMatchObject({ do: "wait" });
    const calls = [...turn(1, "a1", "b2"), called("a1")];
    expect(nextOf(calls, {}, new Set(["a1"]))).toMatchObject({ do: "wait" });
    // What an async tool does is nobody's wait.
    const accepted = [...turn(1, "a1", "b2"), called("a1", "once", { async: true })];
    expect(nextOf(accepted, {}, new Set(["a1"]))).toMatchObject({ do: "call_tool", call: { id: "b2" } });
  });
  it("is the turn in which the result of an async tool joins", () => {
    const accepted = [...turn(1, "a1"), called("a1", "read", { async: true })];
    const flight = new Set(["a1"]);
    // The model is told at once that it was accepted; what it gives is the next turn's.
    expect(nextOf(accepted, {}, flight)).toMatchObject({ do: "call_model", turn: 2 });
    const idle = [...accepted, started(2, 0), says("Text")];
    expect(nextOf(idle, { on_idle: "complete" }, flight)).toMatchObject({ do: "wait" });
    expect(nextOf([...idle, done("a1")])).toMatchObject({ do: "call_model", turn: 3 });
    const meanwhile = [...accepted, message, started(2, 4), done("a1"), says("Text")];
    expect(nextOf(meanwhile)).toMatchObject({ do: "call_model", turn: 3 });
    expect(nextOf([...meanwhile, started(3, 4), says("Text")])).toMatchObject({ do: "wait" });
  });
  it("is, at the end of a wait, its answer", () => {
    const until = "2026-01-02T00:00:00.000Z";
    const waits = [...turn(1, "wait1"), called("wait1", "read", { waits: { message: true, until } })];
    const ends = Date.parse(until);
    expect(nextOf(waits, {}, NONE, ends - 1)).toMatchObject({ do: "wait", until });
    expect(nextOf(waits, {}, NONE, ends)).toMatchObject({ do: "answer_wait", message: null });
  });
  it("keeps an async call through the turns until its result is there", () => {
    const accepted = [...turn(1, "a1"), called("a1", "read", { async: true }), message, started(2, 4), says("Text")];
    expect(stateOf(...accepted).calls).toMatchObject([{ id: "a1", outcome: "accepted" }]);
    expect(nextOf([...accepted, done("a1")])).toMatchObject({ do: "call_model", turn: 3 });
  });
  it("leaves a message for the next prompt that came after this one was made", () => {
    const state = stateOf(message, message, started(1, 1));
    expect(state).toMatchObject({ inbox: [2], taken: 1 });
  });
  it("counts how often a call was begun", () => {
    const again = [...turn(1, "a1"), called("a1"), called("a1")];
    expect(nextOf(again)).toMatchObject({ do: "call_tool", call: { attempts: 2 } });
  });
  it("is told as waiting where nothing is under way, and as running otherwise", () => {
    const waits: Step = { do: "wait", until: null };
    expect([statusAt(waits, NONE), statusAt(waits, new Set(["a1"]))]).toEqual(["waiting", "running"]);
    expect(statusAt({ do: "call_model", turn: 1 }, NONE)).toBe("running");
    expect([statusAt({ do: "nothing" }, NONE), statusAt({ do: "complete", output: "" }, NONE)]).toEqual([null, null]);
  });
  it("takes a message that was a call's answer into no prompt of its own", () => {
    const asked = [
      ...turn(1, "ask_user1"),
      called("ask_user1", "read", { waits: { message: true, until: null } }),
      message,
    ];
    const state = stateOf(...asked, { type: "tool.completed", call: "ask_user1", message: 4 });
    expect(state.inbox).toEqual([]);
  });
});

/** A driver that does what `next` says, with a model and tools that chance plays, and crashes wherever chance likes. */
function drive(seed: { numbers: () => number; crashes: () => boolean; limits: SessionLimits; messages: number }) {
  const { numbers, crashes, limits } = seed;
  const journal: LoopEvent[] = [];
  const begins = new Map<string, number>();
  const effects = new Map<string, Effect>();
  let state = begun();
  let prompts = 0;
  let left = seed.messages;
  let people = 0;
  const write = (event: LoopEvent) => {
    journal.push(event);
    state = fold(state, event, journal.length);
  };
  const crash = () => {
    state = stateOf(...journal);
  };
  for (let steps = 0; steps < 3_000; steps++) {
    if (left && numbers() < 0.2) {
      left--;
      write({ type: "message.received" });
    }
    const step = next(state, limits, NONE, 1e15);
    const status = statusAt(step, NONE);
    if (status && status !== state.status) write({ type: "session.status", status });
    if (crashes()) crash();
    if (step.do === "nothing") break;
    else if (step.do === "complete") write({ type: "session.status", status: "completed" });
    else if (step.do === "fail") write({ type: "session.status", status: "failed" });
    else if (step.do === "lose") write({ type: "tool.unknown", call: step.call.id });
    else if (step.do === "answer_wait") {
      write({ type: "tool.completed", call: step.call.id, message: step.message ?? undefined });
    } else if (step.do === "call_model") {
      prompts++;
      write(started(step.turn, Math.max(state.taken, ...state.inbox)));
      if (crashes()) {
        crash();
        continue;
      }
      const count = Math.floor(numbers() * 4);
      write(says("Text", ...Array.from({ length: count }, (_, i) => `t${journal.length}x${i}`)));
      for (const { id } of state.calls) {
        const fate = numbers();
        if (fate < 0.1) write({ type: "approval.requested", call: id });
        else if (fate < 0.2) write({ type: "tool.failed", call: id });
      }
    } else if (step.do === "call_tool") {
      const { id } = step.call;
      const effect = effects.get(id) ?? (["read", "idempotent", "once"] as const)[Math.floor(numbers() * 3)]!;
      effects.set(id, effect);
      const waits =
        numbers() < 0.1 ? { message: true, until: numbers() < 0.5 ? "2026-01-02T00:00:00Z" : null } : undefined;
      write({ type: "tool.called", call: id, effect, waits });
      if (waits) continue;
      if (crashes()) {
        crash();
        continue;
      }
      begins.set(id, (begins.get(id) ?? 0) + 1);
      if (crashes()) crash();
      else write(numbers() < 0.5 ? { type: "tool.completed", call: id } : { type: "tool.failed", call: id });
    } else {
      // A person comes by.
      const parked = state.calls.find(({ outcome }) => outcome === "awaiting_approval" || outcome === "unknown");
      if (parked?.outcome === "unknown") write({ type: "tool.failed", call: parked.id });
      else if (parked) write({ type: "approval.decided", call: parked.id, approved: numbers() < 0.5 });
      else if (left) {
        left--;
        write({ type: "message.received" });
      } else if (state.calls.some(({ waits }) => waits) && people++ < 100) write({ type: "message.received" });
      else break;
    }
  }
  return { journal, state, begins, effects, prompts };
}

describe("whatever model, tools, people and crashes do", () => {
  const runs = fc.record({
    seed: fc.integer(),
    crash: fc.constantFrom(0, 0.02, 0.2),
    messages: fc.nat(6),
    limits: fc.record({
      max_turns: fc.integer({ min: 1, max: 12 }),
      max_tokens: fc.integer({ min: 1, max: 300 }),
      on_idle: fc.constantFrom("wait" as const, "complete" as const),
      start_idle: fc.boolean(),
    }),
  });
  const runOf = ({ seed, crash, ...rest }: typeof runs extends fc.Arbitrary<infer T> ? T : never) => {
    let a = seed | 0;
    const numbers = () => {
      a = (a + 0x6d2b79f5) | 0;
      let t = Math.imul(a ^ (a >>> 15), 1 | a);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
    return drive({ numbers, crashes: () => numbers() < crash, ...rest });
  };
  const holds = (promise: (run: ReturnType<typeof drive>, limits: SessionLimits) => void) =>
    fc.assert(
      fc.property(runs, (one) => promise(runOf(one), one.limits)),
      { numRuns: 500 },
    );

  it("no more turns are taken than may be, and none without tokens left", () => {
    holds(({ journal }, { max_turns, max_tokens }) => {
      let tokens = 0;
      const turns = new Set<number>();
      for (const event of journal) {
        if (event.type === "model.completed") tokens += 15;
        if (event.type !== "model.started" || turns.has(event.turn)) continue;
        expect(tokens).toBeLessThan(max_tokens);
        turns.add(event.turn);
      }
      expect(turns.size).toBeLessThanOrEqual(max_turns);
      expect([...turns]).toEqual(Array.from({ length: turns.size }, (_, i) => i + 1));
    });
  });
  it("what is for once is begun once, unless a person says so", () => {
    holds(({ begins, effects, journal }) => {
      for (const [id, times] of begins) if (effects.get(id) === "once") expect(times).toBe(1);
      const calls = journal.flatMap((event) =>
        event.type === "tool.called" && event.effect === "once" ? event.call : [],
      );
      expect(new Set(calls).size).toBe(calls.length);
    });
  });
  it("every message is in exactly one prompt, or the answer of one call, or still waits", () => {
    holds(({ journal, state }) => {
      const received = journal.flatMap(({ type }, i) => (type === "message.received" ? i + 1 : []));
      const answers = journal.flatMap((event) => (event.type === "tool.completed" ? (event.message ?? []) : []));
      let from = 0;
      const prompted: number[] = [];
      for (const event of journal) {
        if (event.type !== "model.started" || event.inbox <= from) continue;
        prompted.push(...received.filter((one) => one > from && one <= event.inbox && !answers.includes(one)));
        from = event.inbox;
      }
      const waiting = isTerminal(state.status)
        ? received.filter((one) => one > from && !answers.includes(one))
        : state.inbox;
      expect([...prompted, ...answers, ...waiting].sort((a, b) => a - b)).toEqual(received);
    });
  });
  it("it ends or waits for somebody: it never turns round for ever", () => {
    holds(({ state, journal }) => {
      expect(journal.length).toBeLessThan(3_000);
      expect(
        isTerminal(state.status) || next(state, { ...limits, on_idle: "wait" }, NONE, 1e15).do !== "call_tool",
      ).toBe(true);
      expect(state.status === "waiting" || isTerminal(state.status)).toBe(true);
    });
  });
  it("goes from status to status as it may, and ends once", () => {
    const may: Record<Status, Status[]> = {
      pending: ["running", "waiting"],
      running: ["waiting", "completed", "failed", "cancelled"],
      waiting: ["running", "completed", "failed", "cancelled"],
      ...{ completed: [], failed: [], cancelled: [] },
    };
    holds(({ journal }) => {
      let status: Status = "pending";
      for (const event of journal) {
        if (event.type !== "session.status") continue;
        expect(may[status]).toContain(event.status);
        status = event.status;
      }
    });
  });
  it("is the same state, read from the journal", () => {
    holds(({ journal, state }) => void expect(stateOf(...journal)).toEqual(state));
  });
});
