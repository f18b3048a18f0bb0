/** The models that are scripts. */
import { describe, expect, it } from "vitest";
import {
  type Completed,
  type Message,
  message,
  requestHash,
  resolveModel,
  type StepEvent,
  type StepOptions,
  type StepRequest,
  step,
  type Tool,
} from "../../../lib/model/index.ts";
import { failure, results, run, say, user } from "./fixtures.ts";

const nowhere = () => Promise.reject(new Error("a scripted model has no way out"));
const options: StepOptions = { ways: { fetch: nowhere, guarded: nowhere } };
const system = (content: string) => message({ role: "system", content });
const script = (...rules: object[]) => system(`Be brief.\n\`\`\`script\n${JSON.stringify(rules)}\n\`\`\``);
const weather: Tool = {
  name: "get_weather",
  parameters: { type: "object", properties: { city: { type: "string", examples: ["Oslo"] } }, required: ["city"] },
};
const convert: Tool = {
  name: "convert",
  parameters: {
    type: "object",
    properties: {
      to: { type: "string", enum: ["F", "C"] },
      degrees: { type: "number" },
      note: { type: "string" },
      digits: { type: "integer", default: 2 },
    },
    required: ["to", "degrees"],
  },
};

/** Steps and tool results until the model calls no more. */
async function conversation(name: string, request: StepRequest) {
  const messages = [...request.messages];
  const called: [string, unknown][] = [];
  for (let turn = 0; turn < 10; turn++) {
    const { completed } = await run(name, { ...request, messages }, options);
    messages.push(completed.message);
    const calls = completed.message.tool_calls ?? [];
    if (calls.length === 0) return { called, text: completed.message.content!, messages };
    called.push(...calls.map(({ name, arguments: given }) => [name, given] as [string, unknown]));
    messages.push(results(...calls.map((call) => [call, `${call.name} is done`] as [typeof call, string])));
  }
  throw new Error("it never ends");
}

describe("scripted/echo", () => {
  it("says what it is in its first line, and then what the last message said, the same every time", async () => {
    const [first, second] = [
      await run("scripted/echo", say("Ho\n€ 😀"), options),
      await run("scripted/echo", say("Ho\n€ 😀"), options),
    ];
    const [line, ...rest] = first.completed.message.content!.split("\n");
    expect(line).toBe("This is scripted/echo, a scripted model for first runs and tests: no intelligence.");
    expect(rest.join("\n")).toBe("\nHo\n€ 😀");
    expect(first.deltas.length).toBeGreaterThan(1);
    expect(first.deltas.map(({ delta }) => delta).join("")).toBe(first.completed.message.content);
    expect(second).toEqual(first);
    expect(first.completed.usage).toMatchObject({
      input_tokens: 2,
      output_tokens: Math.ceil(first.completed.message.content!.length / 4),
    });
  });
});

describe("scripted/tools", () => {
  it("calls the tools that the message names, in its order, with what their schemas say, and tells their answers", async () => {
    const { called, text } = await conversation("scripted/tools", {
      ...say("First get_weather, then convert (not get_weathers)."),
      tools: [convert, weather, { name: "finish", parameters: {} }],
    });
    expect(called).toEqual([
      ["get_weather", { city: "Oslo" }],
      ["convert", { to: "F", degrees: 1, digits: 2 }],
    ]);
    expect(text.split("\n")[0]).toMatch(/^This is scripted\/tools, a scripted model/);
    expect(text).toContain("get_weather: get_weather is done\nconvert: convert is done");
  });

  it("begins anew with each message, and says which tools there are when none is named", async () => {
    const tools = [weather, convert];
    const { messages, called } = await conversation("scripted/tools", { ...say("get_weather"), tools });
    const again = await conversation("scripted/tools", { messages: [...messages, user("and convert")], tools });
    expect([called.length, again.called.map(([name]) => name)]).toEqual([1, ["convert"]]);
    expect((await conversation("scripted/tools", { ...say("Hello"), tools })).text).toContain("get_weather, convert");
  });
});

describe("scripted/script", () => {
  const asked = (rules: object[], ...messages: Message[]) => ({ messages: [script(...rules), ...messages] });

  it("does the first rule that matches the last message: text, reasoning, calls", async () => {
    const rules = [
      { exact: "Hi", text: "Hello." },
      {
        match: "weather",
        role: "user",
        reasoning: "A city.",
        text: "I look.",
        tool_calls: [
          { name: "get_weather", arguments: { city: "Rome" } },
          { name: "convert", arguments: {} },
        ],
      },
      { role: "tool", match: "sun", text: "It's fine." },
    ];
    expect((await run("scripted/script", asked(rules, user("Hi")), options)).completed.message.content).toBe("Hello.");
    const { completed, deltas } = await run("scripted/script", asked(rules, user("The weather?")), options);
    expect(completed).toMatchObject({
      finish_reason: "tool_calls",
      message: {
        content: "I look.",
        tool_calls: [
          { name: "get_weather", arguments: { city: "Rome" } },
          { name: "convert", arguments: {} },
        ],
      },
    });
    expect(deltas.map(({ type, part }) => [type, part])).toEqual([
      ["reasoning", 0],
      ["text", 1],
      ["arguments", 2],
      ["arguments", 2],
      ["arguments", 3],
      ["arguments", 3],
    ]);
    const after = asked(
      rules,
      user("The weather?"),
      completed.message,
      results([completed.message.tool_calls![0]!, "sun"]),
    );
    expect((await run("scripted/script", after, options)).completed.message.content).toBe("It's fine.");
    expect((await failure("scripted/script", asked(rules, user("Hi!")), options)).error).toMatchObject({
      code: "model_refused",
      message: "The script has no rule for the last message.",
    });
  });

  it("takes the last script of the conversation, also of a user's message, which it isn't matched with", async () => {
    const mine = user(`Say A\n\`\`\`script\n[{"exact": "Say A", "text": "mine"}]\n\`\`\``);
    expect((await run("scripted/script", asked([{ text: "theirs" }], mine), options)).completed.message.content).toBe(
      "mine",
    );
  });

  it("fails as it is told, as often as it is told, and breaks off where it is told", async () => {
    const error = { status: 429, message: "slow down", retry_after_s: 0, times: 2 };
    expect(
      (await run("scripted/script", asked([{ error, text: "Now." }], user("a")), options)).completed.message.content,
    ).toBe("Now.");
    expect(
      (await failure("scripted/script", asked([{ error: { ...error, times: 3 } }], user("a")), options)).error,
    ).toMatchObject({ code: "model_rate_limited", status: 429, retryable: true });
    expect(
      (await failure("scripted/script", asked([{ error: { status: 400 } }], user("a")), options)).error,
    ).toMatchObject({ code: "model_refused", status: 400 });
    const broken = await failure(
      "scripted/script",
      asked([{ text: "a".repeat(100), break_after: 2 }], user("a")),
      options,
    );
    expect([broken.events.length, broken.error]).toMatchObject([
      2,
      { code: "model_unavailable", retryable: true, streamed: true },
    ]);
  });

  it("waits as it is told, and no longer than its caller", async () => {
    const start = performance.now();
    await run("scripted/script", asked([{ delay_ms: 50, pace_ms: 20, text: "a".repeat(72) }], user("a")), options);
    expect(performance.now() - start).toBeGreaterThan(85);
    const signal = AbortSignal.timeout(50);
    const ended = await failure("scripted/script", asked([{ delay_ms: 60_000 }], user("a")), { ...options, signal });
    expect([ended.error.name, performance.now() - start < 2000]).toEqual(["TimeoutError", true]);
  });

  it("says what is wrong with a script", async () => {
    for (const content of ["none", "```script\n{}\n```", '```script\n[{"txt": 1}]\n```']) {
      const { error } = await failure("scripted/script", { messages: [system(content), user("a")] }, options);
      expect(error).toMatchObject({ code: "model_not_configured" });
    }
    expect((await failure("scripted/genius", say(), options)).error).toMatchObject({ code: "model_not_configured" });
  });
});

describe("scripted/tape", () => {
  const request = { ...say("Hi"), tools: [weather], max_tokens: 10 };
  const play = async (asked: StepRequest, tape: StepOptions["tape"]) => {
    const events: StepEvent[] = [];
    for await (const event of step(resolveModel("scripted/tape", {}), asked, { ...options, tape: tape! }))
      events.push(event);
    return events;
  };

  it("repeats what was recorded of the same request, whoever's keys stood in another order", async () => {
    const { deltas, completed } = await run("scripted/echo", request, options);
    const events: StepEvent[] = [...deltas, completed];
    const tape = JSON.parse(JSON.stringify({ request_hash: await requestHash(request), events }));
    expect(await play(request, tape)).toEqual(events);
    const { max_tokens, messages, tools } = request;
    expect(await play({ tools, messages, max_tokens }, tape)).toEqual(events);
  });

  it("fails at any other request, and past the end", async () => {
    const tape = { request_hash: await requestHash(request), events: [] as Completed[] };
    const others: StepRequest[] = [
      say("Hi!"),
      { ...request, max_tokens: 11 },
      { ...request, tools: [] },
      { ...request, messages: [...request.messages, user("x")] },
    ];
    for (const other of others)
      await expect(play(other, tape)).rejects.toMatchObject({ code: "tape_diverged", retryable: false });
    await expect(play(request, undefined)).rejects.toMatchObject({ code: "tape_diverged" });
  });

  it("fails as the recorded step did, at once", async () => {
    const error = { code: "model_unavailable" as const, message: "cut", retryable: true };
    const tape = {
      request_hash: await requestHash(request),
      events: [{ type: "text" as const, part: 0, delta: "a" }],
      error,
    };
    await expect(play(request, tape)).rejects.toMatchObject({ ...error, streamed: true });
  });
});
