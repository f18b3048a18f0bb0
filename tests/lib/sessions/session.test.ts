/** A session at work, in this process: what it does step by step, and that no crash between two steps shows. */
import { describe, expect, it, vi } from "vitest";
import type { SessionFrame } from "../../../lib/sessions/frames.ts";
import { aStage, aTool, Crash, finish, own, ran, says } from "./stage.ts";

const call = (name: string, given: object = {}) => ({ name, arguments: given });
const types = (frames: readonly SessionFrame[]) =>
  frames.map(({ type }) => type).filter((type) => type !== "model.delta");
const of = <T extends SessionFrame["type"]>(frames: readonly SessionFrame[], type: T) =>
  frames.filter((frame): frame is Extract<SessionFrame, { type: T }> => frame.type === type);

describe("a session", () => {
  it("calls the tools that its model asks for, one after another, and finishes with the result", async () => {
    const stage = aStage({
      tools: [aTool("look"), aTool("book"), finish()],
      rules: [
        { match: "book done", tool_calls: [call("finish", { result: { booked: true } })] },
        { role: "user", reasoning: "hm", text: "I look.", tool_calls: [call("look", { at: 1 }), call("book")] },
      ],
    });
    const { session } = await ran(stage);
    expect(session.view()).toMatchObject({ status: "completed", result: { booked: true }, error: null, inbox: [] });
    expect(types(stage.frames())).toEqual([
      ...["session.status", "session.status", "model.started", "model.completed"],
      ...["tool.called", "tool.completed", "tool.called", "tool.completed"],
      ...["model.started", "model.completed", "tool.completed", "session.result", "session.status"],
    ]);
    expect(stage.made.map(({ name }) => name)).toEqual(["look", "book"]);
    expect(stage.made[0]!.arguments).toEqual({ at: 1 });
    const [first] = of(stage.frames(), "model.completed");
    const deltas = of(stage.told, "model.delta").filter(({ turn }) => turn === 1);
    expect(
      deltas
        .filter(({ kind }) => kind === "text")
        .map(({ delta }) => delta)
        .join(""),
    ).toBe(first!.message.content ?? "");
  });

  it("waits for a message when its model is done, and takes it up", async () => {
    const stage = aStage({ rules: [{ match: "and now", text: "Now this." }, { text: "Done." }] });
    const { session } = await ran(stage);
    expect(session.status).toBe("waiting");
    expect(session.message(says("and now?"), stage.keys)).toMatchObject({
      status: "waiting",
      inbox: [{ content: "and now?" }],
    });
    expect(stage.wakes()).not.toBeNull();
    await session.run();
    expect(session.view()).toMatchObject({ status: "waiting", inbox: [] });
    expect(session.conversation.messages.map(({ content }) => content).slice(1)).toEqual([
      "Done.",
      "and now?",
      "Now this.",
    ]);
  });

  it("completes with what it said when it is asked to complete where it is idle", async () => {
    const stage = aStage({ row: { on_idle: "complete" }, rules: [{ text: "All done." }] });
    const { session } = await ran(stage);
    expect(session.view()).toMatchObject({ status: "completed", result: { output: "All done." } });
  });

  it("says nothing before its first message where it starts idle", async () => {
    const stage = aStage({ row: { start_idle: true }, rules: [{ match: "hello", text: "Hello." }] });
    const { session } = await ran(stage);
    expect([session.status, of(stage.frames(), "model.started")]).toEqual(["waiting", []]);
    session.message(says("hello"), stage.keys);
    await session.run();
    expect(of(stage.frames(), "model.completed")[0]!.message.content).toBe("Hello.");
  });

  it("takes a message under one key once, and refuses another under it", async () => {
    const stage = aStage({ row: { start_idle: true }, rules: [{ text: "Ok." }] });
    const { session } = await ran(stage);
    const key = { subject: "usr", key: "k", fingerprints: ["f"] };
    const first = session.message(says("a", { key }), stage.keys) as never as { inbox: { id: string }[] };
    await session.run();
    const again = session.message(says("a", { key }), stage.keys) as never as { inbox: { id: string }[] };
    expect(again.inbox).toEqual(first.inbox);
    // A new root secret stands before the one that it was kept under.
    expect(session.message(says("a", { key: { ...key, fingerprints: ["h", "f"] } }), stage.keys)).toMatchObject(first);
    expect(of(stage.frames(), "message.received")).toHaveLength(1);
    expect(session.message(says("b", { key: { ...key, fingerprints: ["g"] } }), stage.keys)).toMatchObject({
      refused: { status: 422 },
    });
  });

  it("takes a thousand messages, and no more than a prompt could hold, before it has taken some", async () => {
    const stage = aStage({ row: { start_idle: true }, rules: [{ text: "Ok." }] });
    const { session } = await ran(stage);
    for (let i = 0; i < 1000; i++) expect(session.message(says(`${i}`), stage.keys)).not.toHaveProperty("refused");
    expect(session.message(says("more"), stage.keys)).toMatchObject({ refused: { status: 429, code: "inbox_full" } });
    await session.run();
    expect(session.message(says("more"), stage.keys)).toMatchObject({ inbox: [{ content: "more" }] });

    const long = aStage({ row: { start_idle: true }, rules: [{ text: "Ok." }] });
    const other = (await ran(long)).session;
    for (let i = 0; i < 61; i++) other.message(says("a".repeat(65_536)), long.keys);
    expect(other.message(says("a".repeat(65_536)), long.keys)).toMatchObject({ refused: { code: "inbox_full" } });
    expect(other.message(says("short"), long.keys)).not.toHaveProperty("refused");
  });

  it("makes no model call beyond max_turns", async () => {
    const stage = aStage({ row: { max_turns: 3 }, tools: [aTool("look")], rules: [{ tool_calls: [call("look")] }] });
    const { session } = await ran(stage);
    expect(session.view()).toMatchObject({ status: "failed", error: expect.stringMatching(/^max_turns/) });
    expect(of(stage.frames(), "model.started")).toHaveLength(3);
    expect(of(stage.frames(), "limit.reached")).toMatchObject([{ limit: "max_turns" }]);
  });

  it("makes no model call once the tokens are used, and lends each the rest", async () => {
    const asked: number[] = [];
    const stage = aStage({ row: { max_tokens: 300 }, tools: [aTool("look")], rules: [{ tool_calls: [call("look")] }] });
    const one = stage.process();
    const { step } = one.hands;
    one.hands.step = (agent, request, signal) => {
      asked.push(request.max_tokens!);
      return step(agent, request, signal);
    };
    one.session.begin();
    await one.session.run();
    expect(one.session.view()).toMatchObject({ status: "failed", error: expect.stringMatching(/^max_tokens/) });
    const used = of(stage.frames(), "model.completed").map(({ usage }) => usage!.input_tokens! + usage!.output_tokens!);
    const sums = used.map((_, i) => used.slice(0, i).reduce((sum, n) => sum + n, 0));
    expect(sums.every((sum) => sum < 300)).toBe(true);
    expect(used.reduce((sum, n) => sum + n, 0)).toBeGreaterThanOrEqual(300);
    expect(asked).toEqual(sums.map((sum) => 300 - sum));
  });

  it("runs as many calls of a turn as it may, and tells the model of the others", async () => {
    const stage = aStage({
      row: { max_runs_per_turn: 2 },
      tools: [aTool("look")],
      rules: [
        { match: "at most 2", text: "Ok." },
        { role: "user", tool_calls: [call("look"), call("look"), call("look")] },
      ],
    });
    await ran(stage);
    expect(stage.made).toHaveLength(2);
    expect(of(stage.frames(), "tool.failed")[0]!.error).toContain("at most 2 tool calls");
  });

  it("answers a wrong call to its model: unknown tools, and arguments that aren't of the schema", async () => {
    const parameters = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] };
    const stage = aStage({
      tools: [aTool("look", { parameters })],
      rules: [
        { match: "no tool other", text: "Ok." },
        { role: "tool", tool_calls: [call("other")] },
        { tool_calls: [call("look", { n: "one" })] },
      ],
    });
    await ran(stage);
    expect(stage.made).toEqual([]);
    expect(of(stage.frames(), "tool.failed").map(({ error }) => error)).toEqual([
      expect.stringContaining("n"),
      expect.stringContaining("no tool other"),
    ]);
  });

  it("makes a call whose schema says what isn't looked at here: a server of tools may say anything", async () => {
    const parameters = { type: "object", properties: { n: { $ref: "https://elsewhere.example/schema" } } };
    const stage = aStage({
      tools: [aTool("look", { parameters })],
      rules: [{ match: "look done", text: "Ok." }, { tool_calls: [call("look", { n: 1 })] }],
    });
    await ran(stage);
    expect(stage.made).toHaveLength(1);
  });

  it("asks before a call that wants approval, once, and makes it when it is given", async () => {
    const stage = aStage({
      tools: [aTool("pay", { approval: "required" })],
      rules: [{ match: "pay done", text: "Paid." }, { tool_calls: [call("pay", { sum: 5 })] }],
    });
    const { session } = await ran(stage);
    const [asked] = of(stage.frames(), "approval.requested");
    expect([session.status, stage.made]).toEqual(["waiting", []]);
    const by = { type: "user", id: "usr" } as const;
    const decision = { approved: true, arguments_hash: asked!.arguments_hash, note: null, by };
    expect(session.decide(asked!.call, { ...decision, arguments_hash: "other" })).toMatchObject({
      refused: { status: 409 },
    });
    session.decide(asked!.call, decision);
    expect(session.decide(asked!.call, decision)).toMatchObject({ refused: { status: 409 } });
    await session.run();
    expect(stage.made).toHaveLength(1);
    expect(of(stage.frames(), "approval.requested")).toHaveLength(1);
    expect(of(stage.frames(), "model.completed").at(-1)!.message.content).toBe("Paid.");
  });

  it("tells its model of a call that was denied, and why", async () => {
    const stage = aStage({
      tools: [aTool("pay", { approval: "required" })],
      rules: [{ match: "too dear", text: "I see." }, { tool_calls: [call("pay")] }],
    });
    const { session } = await ran(stage);
    const [asked] = of(stage.frames(), "approval.requested");
    const { call: id, arguments_hash } = asked!;
    session.decide(id, { approved: false, arguments_hash, note: "too dear", by: { type: "user", id: "usr" } });
    await session.run();
    expect(stage.made).toEqual([]);
    expect(session.view()).toMatchObject({ status: "waiting" });
    expect(of(stage.frames(), "model.completed").at(-1)!.message.content).toBe("I see.");
  });

  it.each([
    ["happened", { outcome: "happened", result: "it went well" }, 1, "it went well"],
    ["retry", { outcome: "retry" }, 2, "pay done"],
    ["give up", { outcome: "give_up" }, 1, "nobody knows"],
  ] as const)("waits for word of a call of unknown outcome: %s", async (_, resolution, made, match) => {
    let lost = true;
    const stage = aStage({
      tools: [aTool("pay")],
      rules: [
        { match, text: "I see." },
        { role: "user", tool_calls: [call("pay")] },
      ],
      call: async () => {
        if (!lost) return { ok: { content: "pay done", resolution: null } };
        lost = false;
        return { unknown: true };
      },
    });
    const { session } = await ran(stage);
    const [unknown] = of(stage.frames(), "tool.unknown");
    expect(session.status).toBe("waiting");
    session.resolve(unknown!.call, { ...resolution, by: { type: "app", id: null } });
    expect(session.resolve(unknown!.call, { outcome: "retry", by: { type: "app", id: null } })).toMatchObject({
      refused: { status: 409 },
    });
    await session.run();
    expect(stage.made).toHaveLength(made);
    expect(new Set(stage.made.map(({ key }) => key)).size).toBe(1);
    expect(of(stage.frames(), "model.completed").at(-1)!.message.content).toBe("I see.");
  });

  it("asks a person, and takes the next message as the answer and not as a message besides", async () => {
    const stage = aStage({
      tools: [own("ask_user")],
      rules: [{ match: "blue", text: "Blue it is." }, { tool_calls: [call("ask_user", { question: "Which?" })] }],
    });
    const { session } = await ran(stage);
    expect(session.status).toBe("waiting");
    session.message(says("blue"), stage.keys);
    await session.run();
    const { messages } = session.conversation;
    expect(messages.filter(({ content }) => content === "blue")).toEqual([]);
    expect(messages.flatMap(({ tool_results }) => tool_results ?? [])).toMatchObject([
      { name: "ask_user", content: "blue" },
    ]);
  });

  it("waits as long as it says, and is woken then", async () => {
    const stage = aStage({
      tools: [own("wait")],
      rules: [{ match: "time is over", text: "Good morning." }, { tool_calls: [call("wait", { seconds: 3600 })] }],
    });
    const { session } = await ran(stage);
    expect(session.status).toBe("waiting");
    const wakes = stage.wakes()!;
    expect(wakes).toBeGreaterThan(Date.parse("2026-01-02T04:04:04Z"));
    stage.pass(3_500_000);
    await session.run();
    expect(session.status).toBe("waiting");
    stage.pass(200_000);
    await session.run();
    expect(of(stage.frames(), "model.completed").at(-1)!.message.content).toBe("Good morning.");
  });

  it("repairs a result that isn't of its schema twice, and then fails", async () => {
    const schema = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] };
    const stage = aStage({
      row: { result_schema: schema },
      tools: [finish()],
      rules: [{ tool_calls: [call("finish", { result: {} })] }],
    });
    const { session } = await ran(stage);
    expect(session.view()).toMatchObject({ status: "failed", error: expect.stringMatching(/^result_schema/) });
    expect(of(stage.frames(), "model.started")).toHaveLength(3);
  });

  it("tells its model of an async call that it was accepted, and of its result when it is there", async () => {
    const done = Promise.withResolvers<void>();
    const stage = aStage({
      tools: [aTool("dig", { async: true, effect: "read" })],
      rules: [{ match: "gold", text: "Gold!" }, { match: "accepted", text: "It digs." }, { tool_calls: [call("dig")] }],
      call: async () => {
        await done.promise;
        return { ok: { content: "gold", resolution: null } };
      },
    });
    const { session, jobs } = await ran(stage);
    expect(of(stage.frames(), "model.completed").at(-1)!.message.content).toBe("It digs.");
    const job = session.runCall(jobs[0]!);
    done.resolve();
    await job;
    await session.run();
    expect(of(stage.frames(), "model.completed").at(-1)!.message.content).toBe("Gold!");
    expect(session.status).toBe("waiting");
  });

  it("fails with the reason of a model that can't be asked", async () => {
    const { session } = await ran(aStage({ rules: [] }));
    expect(session.view()).toMatchObject({ status: "failed", error: expect.stringMatching(/^model_refused: /) });
    const unknown = await ran(aStage({ model: "openai/gpt-5" }));
    expect(unknown.session.view()).toMatchObject({ status: "failed", error: expect.stringMatching(/OPENAI_API_KEY/) });
  });

  it("begins a model call anew whose answer broke off, three times at most", async () => {
    const stage = aStage({ rules: [{ text: "a".repeat(100), break_after: 2 }] });
    const { session } = await ran(stage);
    expect(session.view()).toMatchObject({ status: "failed", error: expect.stringMatching(/^model_unavailable/) });
    expect(of(stage.frames(), "model.started").map(({ turn, attempt }) => [turn, attempt])).toEqual([
      ...[
        [1, 1],
        [1, 2],
        [1, 3],
      ],
    ]);
  });

  it("ends the model's answer for a message that interrupts, and begins the turn anew with it", async () => {
    const stage = aStage({
      rules: [
        { match: "stop", text: "Stopped." },
        { text: "so long ".repeat(40), pace_ms: 20 },
      ],
    });
    const one = stage.process();
    one.session.begin();
    const running = one.session.run();
    await vi.waitFor(() => expect(of(stage.told, "model.delta").length).toBeGreaterThan(2));
    one.session.message(says("stop", { on_busy: "interrupt" }), stage.keys);
    await running;
    expect(of(stage.frames(), "model.started").map(({ turn, attempt }) => [turn, attempt])).toEqual([
      [1, 1],
      [1, 2],
    ]);
    expect(of(stage.frames(), "model.completed").map(({ message }) => message.content)).toEqual(["Stopped."]);
  });

  it("refuses a message that won't wait while it runs", async () => {
    const stage = aStage({ rules: [{ text: "so long ".repeat(10), pace_ms: 20 }] });
    const one = stage.process();
    one.session.begin();
    const running = one.session.run();
    await vi.waitFor(() => expect(of(stage.told, "model.delta").length).toBeGreaterThan(0));
    expect(one.session.message(says("now", { on_busy: "reject" }), stage.keys)).toMatchObject({
      refused: { status: 409 },
    });
    one.session.cancel();
    await running;
  });

  it("lets go of its model and its tools when it is cancelled, and takes no more", async () => {
    const stage = aStage({
      tools: [aTool("hang"), aTool("idle", { effect: "read" })],
      rules: [{ tool_calls: [call("hang"), call("idle")] }],
      call: (_, { signal }) =>
        new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
    });
    const one = stage.process();
    one.session.begin();
    const running = one.session.run();
    await vi.waitFor(() => expect(stage.made).toHaveLength(1));
    expect(one.session.cancel()).toMatchObject({ status: "cancelled", completed_at: expect.any(String) });
    await running;
    expect(types(stage.frames()).slice(-3)).toEqual(["tool.unknown", "tool.failed", "session.status"]);
    const last = stage.frames().length;
    expect(one.session.cancel().status).toBe("cancelled");
    expect(one.session.message(says("hello"), stage.keys)).toMatchObject({ refused: { status: 422 } });
    expect(stage.frames()).toHaveLength(last);
  });

  it("writes no secret down, wherever it comes from", async () => {
    const secret = "s3cret-value";
    const stage = aStage({
      secrets: [secret],
      tools: [aTool("leak"), finish()],
      rules: [
        { role: "tool", text: secret, tool_calls: [call("finish", { result: { it: secret } })] },
        { tool_calls: [call("leak", { with: secret })] },
      ],
      call: async () => ({ ok: { content: `it is ${secret}`, resolution: { it: [secret] } } }),
    });
    const one = stage.process();
    one.session.begin();
    one.session.message(says(`mine is ${secret}`), stage.keys);
    await one.session.run();
    expect(one.session.status).toBe("completed");
    expect(JSON.stringify(stage.frames())).not.toContain(secret);
    expect(JSON.stringify(stage.frames())).toContain("****");
  });

  it("folds the deltas of finished turns away, and renumbers nothing", async () => {
    const stage = aStage({
      tools: [aTool("look")],
      row: { max_turns: 3 },
      rules: [{ text: "I look.", tool_calls: [call("look")] }],
    });
    await ran(stage);
    const frames = stage.frames();
    const [first, second, third] = of(frames, "model.completed");
    const within = ({ from, to }: { from: number; to: number }) =>
      frames.filter(({ sequence, type }) => type === "model.delta" && sequence >= from && sequence <= to).length;
    expect([first, second, third].map((one) => within(one!.deltas!))).toEqual([0, 0, expect.any(Number)]);
    expect(within(third!.deltas!)).toBeGreaterThan(0);
    expect(
      stage.told
        .filter(({ sequence }) => frames.every((frame) => frame.sequence !== sequence))
        .every(({ type }) => type === "model.delta"),
    ).toBe(true);
  });
});

describe("a session whose process ends", () => {
  const tools = [
    aTool("look", { effect: "read" }),
    aTool("put", { effect: "idempotent" }),
    aTool("pay", { effect: "once" }),
    finish(),
  ];
  const rules = [
    { match: "nobody knows", tool_calls: [call("finish", { result: { how: "unknown" } })] },
    { match: "pay done", tool_calls: [call("finish", { result: { how: "paid" } })] },
    { match: "put done", text: "I pay.", tool_calls: [call("pay")] },
    { match: "look done", text: "I put.", tool_calls: [call("put", { a: 1 })] },
    { text: "I look around, for a while.", tool_calls: [call("look")] },
  ];

  it("at any instant ends as it should: reads again, puts under one key, pays once at most", async () => {
    const whole = aStage({ tools, rules });
    const { fate } = await ran(whole);
    const instants = fate.at;
    expect(instants).toBeGreaterThan(30);
    let unknown = 0;
    for (let end = 1; end <= instants; end++) {
      const stage = aStage({ tools, rules });
      const first = stage.process(end);
      await expect(async () => {
        first.session.begin();
        await first.session.run();
      }).rejects.toThrow(Crash);
      const { session } = stage.process();
      session.begin();
      await session.run();
      const lost = of(stage.frames(), "tool.unknown");
      if (session.status === "waiting") {
        unknown++;
        expect(lost, `at ${end}`).toHaveLength(1);
        session.resolve(lost[0]!.call, { outcome: "give_up", by: { type: "app", id: null } });
        await session.run();
      }
      expect(session.status, `at ${end}`).toBe("completed");
      const made = (name: string) => stage.made.filter((one) => one.name === name);
      expect(made("pay").length, `at ${end}`).toBeLessThanOrEqual(1);
      expect(made("pay").length + lost.length, `at ${end}`).toBeGreaterThanOrEqual(1);
      expect(new Set(made("put").map(({ key }) => key)).size, `at ${end}`).toBe(1);
      expect(made("look").length, `at ${end}`).toBeGreaterThanOrEqual(1);
      // Nothing is told twice of what ended, and nothing is renumbered.
      const sequences = stage.frames().map(({ sequence }) => sequence);
      expect(sequences).toEqual([...sequences].sort((a, b) => a - b));
      const ends = stage
        .frames()
        .flatMap((frame) => (frame.type === "tool.completed" || frame.type === "tool.failed" ? [frame.call] : []));
      expect(new Set(ends).size, `at ${end}`).toBe(ends.length);
    }
    expect(unknown).toBeGreaterThan(1);
  });

  it("goes on with a script after the call that was answered last, and loses one whose call is open", async () => {
    for (const dies of ["between", "within"] as const) {
      let lives = 1;
      const sent: number[] = [];
      const stage = aStage({
        tools: [aTool("shop", { handler: { type: "script", config: { id: "cfg", version: 1 } } })],
        rules: [
          { match: "shop done", text: "Done." },
          { role: "user", tool_calls: [call("shop")] },
        ],
        call: async (_, { outbound, note }) => {
          for (const n of [0, 1, 2]) {
            const known = outbound.find((one) => one.n === n);
            if (known?.answer) continue;
            if (known) return { unknown: true };
            note({ n, name: "requests.request", hash: `h${n}`, answer: null });
            sent.push(n);
            if (n === 1 && dies === "within" && lives-- > 0) throw new Crash();
            note({ n, name: "requests.request", hash: `h${n}`, answer: { ok: n } });
            if (n === 1 && dies === "between" && lives-- > 0) throw new Crash();
          }
          return { ok: { content: "shop done", resolution: null } };
        },
      });
      const first = stage.process();
      first.session.begin();
      await expect(first.session.run()).rejects.toThrow(Crash);
      const { session } = stage.process();
      await session.run();
      expect(session.status).toBe("waiting");
      expect(sent).toEqual(dies === "between" ? [0, 1, 2] : [0, 1]);
      const [lost] = of(stage.frames(), "tool.unknown");
      expect(lost === undefined).toBe(dies === "between");
      if (!lost) continue;
      session.resolve(lost.call, { outcome: "retry", by: { type: "app", id: null } });
      await session.run();
      expect(sent).toEqual([0, 1, 1, 2]);
      expect(of(stage.frames(), "model.completed").at(-1)!.message.content).toBe("Done.");
    }
  });
});
