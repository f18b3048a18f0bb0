/** What a step promises when a provider fails, is silent, or means harm. */
import type { ServerResponse } from "node:http";
import fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import { answer } from "../../../lib/model/answer.ts";
import { fetchFor, Watch } from "../../../lib/model/egress.ts";
import { type Completed, LIMITS, ModelError, resolveModel, type StepEvent, step } from "../../../lib/model/index.ts";
import {
  type Answer,
  aProvider,
  chunk,
  ENV,
  failure,
  hello,
  json,
  KEY,
  results,
  run,
  say,
  sse,
  sseText,
  usageChunk,
  user,
} from "./fixtures.ts";

const MODEL = "compatible/m";
let provider: Awaited<ReturnType<typeof aProvider>>;
const answering = async (...answers: Answer[]) => {
  provider = await aProvider(...answers);
  return { ways: provider.ways };
};
afterEach(() => provider?.close());

const head = (response: ServerResponse) => response.writeHead(200, { "content-type": "text/event-stream" });
const cut: Answer = (response) => response.destroy();
const hang: Answer = () => {};
/** Some events, and then nothing, or the end of the connection. */
const begun =
  (events: unknown[], then: "hang" | "cut" | "end"): Answer =>
  (response) => {
    head(response).write(`: begun\n\n${events.map(sseText).join("")}`, () => {
      if (then === "cut") setTimeout(() => response.destroy(), 20);
      if (then === "end") response.end();
    });
  };
const retryNow = { "retry-after-ms": "1" };

/** A first piece of text, in the format of each provider. */
const firstWords: Record<string, unknown[]> = {
  [MODEL]: [chunk({ role: "assistant", content: "Hel" })],
  "anthropic/claude-sonnet-4-5": [
    [
      "message_start",
      {
        type: "message_start",
        message: {
          id: "m",
          type: "message",
          role: "assistant",
          model: "m",
          content: [],
          usage: { input_tokens: 1, output_tokens: 1 },
        },
      },
    ],
    ["content_block_start", { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }],
    ["content_block_delta", { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hel" } }],
  ],
  "openai/gpt-5": [
    { type: "response.created", response: { id: "r", created_at: 1, model: "m" } },
    { type: "response.output_item.added", output_index: 0, item: { type: "message", id: "msg" } },
    { type: "response.output_text.delta", item_id: "msg", output_index: 0, content_index: 0, delta: "Hel" },
  ],
  "google/gemini-2.5-flash": [{ candidates: [{ content: { role: "model", parts: [{ text: "Hel" }] } }] }],
};

describe("a request is sent again", () => {
  for (const [what, answer] of Object.entries({
    "after a 429": json(429, { error: { message: "slow down" } }, retryNow),
    "after a 500": json(500, { error: { message: "oops" } }, retryNow),
    "after a 529": json(529, { error: { message: "overloaded" } }, retryNow),
    "when the connection is cut": cut,
    "when the provider is silent": hang,
    "when the stream breaks off before it said anything": begun([], "cut"),
    "when a stream begins with an error": sse({ error: { message: "overloaded", code: 503 } }),
  })) {
    it(`${what}`, async () => {
      const options = await answering(answer, hello);
      const { completed } = await run(MODEL, say(), { ...options, limits: { idle_ms: 300 } });
      expect([completed.message.content, provider.seen.length]).toEqual(["Hello", 2]);
      expect(provider.seen[1]!.body).toEqual(provider.seen[0]!.body);
    });
  }

  it("three times at most", async () => {
    const options = await answering(json(500, { error: { message: "oops" } }, retryNow));
    const { error } = await failure(MODEL, say(), options);
    expect(error).toMatchObject({
      code: "model_unavailable",
      status: 500,
      retryable: true,
      message: "oops",
      streamed: false,
    });
    expect(provider.seen).toHaveLength(3);
  });

  it("no sooner than the provider says, and not at all when that is too long", async () => {
    const options = await answering(json(429, { error: { message: "slow down" } }, { "retry-after": "1" }), hello);
    const start = performance.now();
    await run(MODEL, say(), options);
    expect(performance.now() - start).toBeGreaterThan(990);
    provider.close();

    const inAnHour = new Date(Date.now() + 3_600_000).toUTCString();
    for (const after of ["3600", inAnHour]) {
      const { error } = await failure(
        MODEL,
        say(),
        await answering(json(429, { error: { message: "slow down" } }, { "retry-after": after })),
      );
      expect(error).toMatchObject({ code: "model_rate_limited", status: 429, retryable: true });
      expect(error.retry_after_ms! / 60_000).toBeCloseTo(60, 0);
      expect(provider.seen).toHaveLength(1);
      provider.close();
    }
  });

  it("not after something was given out, nor for what won't change", async () => {
    const { error, events } = await failure(
      MODEL,
      say(),
      await answering(begun([chunk({ content: "Hel" })], "cut"), hello),
    );
    expect(events).toEqual([{ type: "text", part: 0, delta: "Hel" }]);
    expect(error).toMatchObject({ code: "model_unavailable", retryable: true, streamed: true });
    expect(provider.seen).toHaveLength(1);
    provider.close();
    for (const status of [400, 401, 403, 404, 422, 302]) {
      const { error } = await failure(
        MODEL,
        say(),
        await answering(json(status, { error: { message: "no" } }, { location: "/elsewhere" }), hello),
      );
      expect(error).toMatchObject({ code: "model_refused", status, retryable: false });
      expect(provider.seen).toHaveLength(1);
      provider.close();
    }
  });

  it("not when the caller has gone in the meantime", async () => {
    const options = await answering(json(429, { error: { message: "slow down" } }, { "retry-after": "20" }), hello);
    const abort = new AbortController();
    setTimeout(() => abort.abort(new Error("gone")), 200);
    await expect(run(MODEL, say(), { ...options, signal: abort.signal })).rejects.toThrow("gone");
    expect(provider.seen).toHaveLength(1);
  });
});

describe.each(Object.entries(firstWords))("%s", (name, words) => {
  it("sees its connection closed within a second of the caller's abort, silent or in the midst of its answer", async () => {
    for (const answer of [hang, begun(words, "hang")]) {
      const options = await answering(answer);
      const abort = new AbortController();
      const ended = failure(name, say(), { ...options, signal: abort.signal });
      await expect.poll(() => provider.seen.length).toBe(1);
      await new Promise((resolve) => setTimeout(resolve, 100));
      const at = Date.now();
      abort.abort(new Error("gone"));
      const { error, events } = await ended;
      expect(error.message).toBe("gone");
      expect(events).toEqual(answer === hang ? [] : [{ type: "text", part: 0, delta: "Hel" }]);
      expect((await provider.seen[0]!.closed) - at).toBeLessThan(1000);
      provider.close();
    }
  });

  it("sees its connection closed within a second when nobody reads on", async () => {
    const options = await answering(begun(words, "hang"));
    let at = 0;
    for await (const event of step(resolveModel(name, ENV), say(), options)) {
      expect(event).toMatchObject({ type: "text", delta: "Hel" });
      at = Date.now();
      break;
    }
    expect((await provider.seen[0]!.closed) - at).toBeLessThan(1000);
  });

  it("fails as retryable when its answer breaks off, is cut, or falls silent", async () => {
    for (const then of ["end", "cut", "hang"] as const) {
      const options = await answering(begun(words, then));
      const { error, events } = await failure(name, say(), { ...options, limits: { idle_ms: 300 } });
      expect([then, events]).toEqual([then, [{ type: "text", part: 0, delta: "Hel" }]]);
      expect([then, error]).toMatchObject([then, { code: "model_unavailable", retryable: true, streamed: true }]);
      if (then === "hang") expect(error.message).toBe("The provider was silent for 0.3 seconds.");
      provider.close();
    }
  });

  it("fails as typed when its answer is no stream of its kind", async () => {
    const answers: Record<string, Answer> = {
      html: (response) => response.writeHead(200, { "content-type": "text/html" }).end("<html>Hello</html>"),
      empty: (response) => response.writeHead(200, { "content-type": "text/event-stream" }).end(),
      "no body": (response) => response.writeHead(204).end(),
      json: json(200, { id: "x", choices: [] }),
      "broken json": sse("{"),
      null: sse("null"),
      "another shape": sse({ a: 1 }, { choices: 1, candidates: 1, type: "x" }),
      deep: sse(`${'{"a":'.repeat(50_000)}1${"}".repeat(50_000)}`),
      polluting: sse('{"__proto__":{"x":1},"constructor":{"prototype":{"x":1}}}'),
    };
    for (const [what, answer] of Object.entries(answers)) {
      const options = await answering(answer);
      const { error } = await failure(name, say(), { ...options, limits: { tries: 1 } });
      expect([what, error]).toEqual([what, expect.any(ModelError)]);
      expect([what, error.code]).toEqual([what, expect.stringMatching(/^model_(answer_invalid|unavailable|refused)$/)]);
      provider.close();
    }
  });
});

describe("what an error says", () => {
  it("is the provider's reason without keys, in one line, cut", async () => {
    const message = `Key ${KEY} / ${encodeURIComponent(KEY)} is bad.\r\nAuthorization: Bearer abc.def-ghi see https://x.example/?key=hidden&a=1 or sk-proj-0123456789abcdefghij ${"x".repeat(2000)}${KEY}`;
    const { error } = await failure(MODEL, say(), await answering(json(400, { error: { message } })));
    expect(error.message).toMatch(
      /^Key \*\*\*\* \/ \*\*\*\* is bad\. Authorization: Bearer \*\*\*\* see https:\/\/x\.example\/\?key=\*\*\*\*&a=1 or sk-\*\*\*\* x+…$/,
    );
    expect(error.message.length).toBe(500);
  });

  it("holds the key in no property, whatever failed", async () => {
    const failing: Answer[] = [
      json(401, { error: { message: `bad ${KEY}` } }),
      json(500, { error: { message: `bad ${KEY}` } }),
      json(400, { [KEY]: KEY }),
      (response) => response.writeHead(400).end(KEY),
      sse({ error: { message: `bad ${KEY}` } }),
      sse(KEY),
      cut,
    ];
    for (const name of Object.keys(firstWords)) {
      for (const answer of failing) {
        const { error } = await failure(name, say(), { ...(await answering(answer)), limits: { tries: 1 } });
        expect(error).toBeInstanceOf(ModelError);
        const { stack, cause } = error;
        expect(JSON.stringify({ ...error, message: error.message, stack, cause })).not.toContain(KEY);
        provider.close();
      }
    }
  });

  it("names no inner address, also where the provider does", async () => {
    const { hostname, host } = new URL(ENV.MODEL_BASE_URL);
    const message = `no route from ${ENV.MODEL_BASE_URL} (${host}, ${hostname})`;
    const { error } = await failure(MODEL, say(), await answering(json(400, { error: { message } })));
    expect(error.message).toBe("no route from **** (****, ****)");
  });

  it("names no inner address when nothing can be reached", async () => {
    await answering(hello);
    provider.close();
    const { error } = await failure(MODEL, say(), { ways: provider.ways, limits: { tries: 1 } });
    expect(error).toMatchObject({
      code: "model_unavailable",
      message: "The provider can't be reached.",
      retryable: true,
    });
  });
});

describe("an agent's own address", () => {
  const env = { MODEL_BASE_URL: "http://models.internal:8000/v1", MODEL_API_KEY: KEY };
  const own = (MODEL_BASE_URL: string) => resolveModel(MODEL, env, { agent: { MODEL_BASE_URL } });
  const all = async (events: AsyncIterable<StepEvent>) => {
    for await (const _ of events);
  };

  it("passes the guard, by the guarded way, without the installation's key", async () => {
    const { ways } = await answering(hello);
    const forbidden = () => Promise.reject(new Error("the operator's way"));
    await all(step(own("https://models.example.com/v1"), say(), { ways: { ...ways, fetch: forbidden } }));
    expect(provider.seen[0]!.headers.authorization).toBeUndefined();
    for (const inside of [
      "http://127.0.0.1/v1",
      "http://169.254.169.254",
      "http://[::ffff:10.0.0.1]/",
      "http://0x7f.1/v1",
      "http://a.internal/",
    ]) {
      await expect(all(step(own(inside), say(), { ways }))).rejects.toMatchObject({
        code: "model_refused",
        message: expect.stringContaining("refused"),
      });
    }
    expect(provider.seen).toHaveLength(1);
    await all(step(own("http://127.0.0.1/v1"), say(), { ways: { ...ways, loopback: true } }));
    expect(provider.seen).toHaveLength(2);
  });

  it("is not followed elsewhere", async () => {
    const { ways } = await answering((response) =>
      response.writeHead(307, { location: "http://169.254.169.254/" }).end(),
    );
    await expect(all(step(own("https://models.example.com/v1"), say(), { ways }))).rejects.toMatchObject({
      code: "model_refused",
    });
    expect(provider.seen).toHaveLength(1);
  });
});

describe("a hostile provider", () => {
  const endless =
    (piece: (n: number) => string): Answer =>
    async (response) => {
      head(response);
      for (let n = 0; !response.destroyed && n < 2_000_000; n++) {
        if (!response.write(piece(n)))
          await new Promise((resolve) => response.once("drain", resolve).setMaxListeners(0).once("close", resolve));
      }
      response.end();
    };
  const big = "x".repeat(60_000);
  const calls = (n: number, name: string | undefined, args: string) =>
    chunk({ tool_calls: [{ index: n, id: `c${n}`, function: { name, arguments: args } }] });

  for (const [what, piece] of Object.entries<(n: number) => string>({
    "text without end": () => sseText(chunk({ content: big })),
    "reasoning without end": () => sseText(chunk({ reasoning_content: big })),
    "arguments without end": () =>
      sseText(chunk({ tool_calls: [{ index: 0, id: "a", function: { name: "f", arguments: big } }] })),
    "arguments of a call that has no name": () =>
      sseText(chunk({ tool_calls: [{ index: 0, id: "a", function: { arguments: big } }] })),
    "calls without end": (n) => sseText(calls(n, "f", "{}")),
    "a line without end": () => big,
    "an event without end": () => `data: ${big}\n`,
    "comments without end": () => `: ${big}\n\n`,
    "empty choices without end": () => sseText(chunk({})),
    "an event of countless values": () => `data: {"choices":[${"{},".repeat(200_000)}{}]}\n\n`,
    "parts without end": (n) => sseText(chunk(n % 2 ? { content: "a" } : { reasoning_content: "b" })),
  })) {
    it(`is cut off: ${what}`, { timeout: 60_000 }, async () => {
      const options = await answering(endless(piece));
      const limits = { tries: 1, stream_bytes: 5_000_000 };
      const { error, events } = await failure(MODEL, say(), { ...options, limits });
      const named = /^(calls|parts)/.exec(what)?.[0] ?? "larger";
      expect(error).toMatchObject({
        code: "model_answer_invalid",
        retryable: false,
        message: expect.stringContaining(named),
      });
      expect(events.reduce((sum, event) => sum + (event as { delta: string }).delta.length, 0)).toBeLessThanOrEqual(
        LIMITS.answer_chars,
      );
      await provider.seen[0]!.closed;
    });
  }

  it("is cut off: an error without end", async () => {
    const answer: Answer = (response) => {
      response.writeHead(400, { "content-type": "application/json" });
      response.end(`{"error":{"message":"${"x".repeat(200_000)}"}}`);
    };
    const { error } = await failure(MODEL, say(), await answering(answer));
    expect(error).toBeInstanceOf(ModelError);
    expect(error.message.length).toBeLessThan(600);
  });

  it("is cut off: one that drips", async () => {
    const answer: Answer = (response) => {
      head(response);
      const timer = setInterval(() => response.write(": wait\n\n"), 20);
      response.on("close", () => clearInterval(timer));
    };
    const options = await answering(answer);
    const { error } = await failure(MODEL, say(), { ...options, limits: { tries: 1, idle_ms: 200, step_ms: 500 } });
    expect(error).toMatchObject({ code: "model_unavailable", message: expect.stringContaining("0.5 seconds") });
  });

  it("is cut off at one event larger than is taken, and not at many that are small", async () => {
    const limits = { tries: 1, event_bytes: 5_000, json_values: 500 };
    const lines = (end: string) => `data: ${JSON.stringify(chunk({ content: "a" }))}${end}`.repeat(100);
    const sending = (text: string) =>
      answering((response) => void head(response).end(`${text}\n${sseText(chunk({}, "stop"))}`));
    expect((await run(MODEL, say(), { ...(await sending(lines("\n\n"))), limits })).completed.message.content).toBe(
      "a".repeat(100),
    );
    provider.close();
    for (const one of [lines("\n"), `data: [${"0,".repeat(600)}0]\n`, `: ${"x".repeat(6_000)}\n`]) {
      const { error } = await failure(MODEL, say(), { ...(await sending(one)), limits });
      expect(error).toMatchObject({ code: "model_answer_invalid", message: expect.stringContaining("larger") });
      provider.close();
    }
  });

  it("gives the arguments of one call no more room than is theirs", async () => {
    const args = JSON.stringify({ a: "x".repeat(LIMITS.arguments_chars) });
    const { error } = await failure(MODEL, say(), await answering(sse(calls(0, "f", args), chunk({}, "tool_calls"))));
    expect(error).toMatchObject({ code: "model_answer_invalid", message: expect.stringContaining("arguments") });
  });

  it("doesn't end a step whose caller is slow", async () => {
    const answer: Answer = (response) => {
      head(response).write(sseText(chunk({ content: "Hel" })));
      setTimeout(() => response.write(sseText(chunk({ content: "lo" }))), 50);
      setTimeout(() => response.end(sseText(chunk({}, "stop"))), 400);
    };
    const options = await answering(answer);
    const events: StepEvent[] = [];
    for await (const event of step(resolveModel(MODEL, ENV), say(), { ...options, limits: { idle_ms: 200 } })) {
      if (events.push(event) === 1) await new Promise((resolve) => setTimeout(resolve, 500));
    }
    expect(events.at(-1)).toMatchObject({ type: "completed" });
  });
});

describe("a step", () => {
  const model = resolveModel(MODEL, ENV);
  const answerOf = async (url: string, fetch: (url: string, init: RequestInit) => Promise<Response>) => {
    const watch = new Watch(undefined, LIMITS);
    const response = await fetchFor(
      model,
      { fetch, guarded: fetch },
      watch,
      LIMITS,
    )(url, { headers: { authorization: `Bearer ${KEY}` } });
    return { watch, response };
  };

  it("leaves nothing under way behind: no timer, and a request that has ended", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      const signals: AbortSignal[] = [];
      const fetch = async (_: string, { signal }: RequestInit) => {
        signals.push(signal!);
        return new Response([chunk({ content: "a" }), chunk({}, "stop")].map(sseText).join(""), {
          headers: { "content-type": "text/event-stream" },
        });
      };
      const caller = new AbortController();
      const removed = vi.spyOn(caller.signal, "removeEventListener");
      await run(MODEL, say(), { ways: { fetch, guarded: fetch }, signal: caller.signal });
      expect([vi.getTimerCount(), signals.map(({ aborted }) => aborted), removed.mock.calls.length]).toEqual([
        0,
        [true],
        1,
      ]);
    } finally {
      vi.useRealTimers();
    }
  });

  it("shows its key to the model's origin alone, and ends its requests wherever they go", async () => {
    for (const [url, shown] of [
      [ENV.MODEL_BASE_URL, true],
      ["https://elsewhere.example.com/a.png", false],
    ] as const) {
      const sent: RequestInit[] = [];
      const { watch } = await answerOf(url, async (_, init) => {
        sent.push(init);
        return new Response("");
      });
      expect([JSON.stringify(sent[0]!.headers).includes(KEY), sent[0]!.redirect]).toEqual([shown, "manual"]);
      watch.end();
      expect(sent[0]!.signal!.aborted).toBe(true);
    }
  });

  it("takes a second call of the same id as a second call", async () => {
    async function* stream(): AsyncGenerator<any> {
      for (const city of ["Oslo", "Rome"])
        yield { type: "tool-call", toolCallId: "a", toolName: "f", input: JSON.stringify({ city }) };
      yield { type: "finish", finishReason: { unified: "tool-calls" }, usage: { inputTokens: {}, outputTokens: {} } };
    }
    const events: StepEvent[] = [];
    for await (const event of answer(stream(), say(), model, LIMITS)) events.push(event);
    const calls = (events.at(-1) as Completed).message.tool_calls!;
    expect(calls.map((call) => call.arguments)).toEqual([{ city: "Oslo" }, { city: "Rome" }]);
    expect(calls[0]!.id).not.toBe(calls[1]!.id);
  });
});

describe("a careless provider is understood", () => {
  const calling = (id: string, args = "{}") => ({ id, type: "function", function: { name: "f", arguments: args } });
  const complete = async (...events: unknown[]) => (await run(MODEL, say(), await answering(sse(...events)))).completed;

  it("without usage, or with one that is nonsense: null", async () => {
    const none = { input_tokens: null, output_tokens: null };
    expect((await complete(chunk({ content: "a" }), chunk({}, "stop"))).usage).toMatchObject(none);
    provider.close();
    expect((await complete(chunk({ content: "a" }), chunk({}, "stop"), usageChunk(-5, 1.5))).usage).toMatchObject(none);
  });

  it("with a reason to finish that nobody knows: other", async () => {
    expect((await complete(chunk({ content: "a" }), chunk({}, "enough"))).finish_reason).toBe("other");
  });

  it("with ids that were there before, or are none: each call has its own, and its result goes back under it", async () => {
    const asked = {
      messages: [
        user("a"),
        (await complete(chunk({ tool_calls: [{ index: 0, ...calling("x") }] }), chunk({}, "tool_calls"))).message,
        results([{ id: "x", name: "f" }, "1"]),
      ],
    };
    provider.close();
    const events = [
      chunk({ tool_calls: [{ index: 0, ...calling("x") }] }),
      chunk({ tool_calls: [{ index: 1, ...calling("x", '{"a":1}') }] }),
      chunk({ tool_calls: [{ index: 2, ...calling("") }] }),
      chunk({ tool_calls: [{ index: 3, ...calling("an id with blanks") }] }),
      chunk({ tool_calls: [{ index: 4, ...calling("__proto__", "{") }] }),
      chunk({}, "tool_calls"),
    ];
    const { completed, deltas } = await run(MODEL, asked, await answering(sse(...events)));
    const ids = completed.message.tool_calls!.map(({ id }) => id);
    expect(new Set([...ids, "x"]).size).toBe(6);
    expect(Object.keys(completed.unreadable_arguments)).toEqual([ids[4]]);
    expect(ids.every((id) => /^[\w.:-]{1,64}$/.test(id))).toBe(true);
    expect(new Set(deltas.map((delta) => (delta as { id: string }).id))).toEqual(new Set(ids));
  });

  it("with arguments that can't be read: the call is there, and what is wrong with it", async () => {
    const faults: [string, string | undefined][] = [
      ['{"a":', "The arguments are not valid JSON."],
      ["[1]", "The arguments are not a JSON object."],
      ['"a"', "The arguments are not a JSON object."],
      ["null", "The arguments are not a JSON object."],
      [`{"a":${"[".repeat(65)}${"]".repeat(65)}}`, "The arguments are nested too deep."],
      ["", undefined],
      ["{}", undefined],
    ];
    for (const [args, fault] of faults) {
      const { message, unreadable_arguments } = await complete(
        chunk({ tool_calls: [{ index: 0, ...calling("a", args) }] }),
        chunk({}, "tool_calls"),
      );
      expect([args, message.tool_calls, unreadable_arguments.a]).toEqual([
        args,
        [{ id: "a", name: "f", arguments: {}, thought_signature: null }],
        fault,
      ]);
      provider.close();
    }
  });

  it("that says nothing at all: an empty text", async () => {
    expect((await complete(chunk({ role: "assistant" }), chunk({}, "stop"))).message).toMatchObject({
      content: "",
      tool_calls: null,
    });
  });
});

describe("whatever bytes a provider sends", () => {
  const samples: Record<string, string> = Object.fromEntries(
    Object.entries(firstWords).map(([name, words]) => [name, words.map(sseText).join("")]),
  );
  const ends: Record<string, unknown[]> = {
    [MODEL]: [
      chunk({ tool_calls: [{ index: 0, id: "a", function: { name: "f", arguments: '{"a":1}' } }] }),
      chunk({}, "tool_calls"),
      usageChunk(1, 2),
      "[DONE]",
    ],
    "anthropic/claude-sonnet-4-5": [
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 2 } },
      { type: "message_stop" },
    ],
    "openai/gpt-5": [
      {
        type: "response.output_item.done",
        output_index: 0,
        item: { type: "message", id: "msg", role: "assistant", content: [] },
      },
      { type: "response.completed", response: { usage: { input_tokens: 1, output_tokens: 2 } } },
    ],
    "google/gemini-2.5-flash": [
      {
        candidates: [{ content: { parts: [{ functionCall: { name: "f", args: { a: 1 } } }] }, finishReason: "STOP" }],
        usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 2 },
      },
    ],
  };
  const limits = { tries: 1, idle_ms: 2_000 };

  it("a step ends in an answer of its shape or in a ModelError, and gives the same text as it completes", {
    timeout: 120_000,
  }, async () => {
    const edit = fc.record({
      at: fc.nat(),
      drop: fc.nat(12),
      put: fc.oneof(
        fc.string(),
        fc.constantFrom("null", "[]", "{}", '"', "\n\n", "data: ", "-1", "1e999", "\\u0000", '"__proto__":'),
      ),
    });
    const cases = fc.record({
      name: fc.constantFrom(...Object.keys(samples)),
      edits: fc.array(edit, { maxLength: 4 }),
      chunks: fc.integer({ min: 1, max: 400 }),
      status: fc.constantFrom(200, 200, 200, 200, 400, 500),
    });
    const run = async ({
      name,
      edits,
      chunks,
      status,
    }: {
      name: string;
      edits: { at: number; drop: number; put: string }[];
      chunks: number;
      status: number;
    }) => {
      let text = samples[name]! + ends[name]!.map(sseText).join("");
      for (const { at, drop, put } of edits)
        text = text.slice(0, at % text.length) + put + text.slice((at % text.length) + drop);
      const bytes = new TextEncoder().encode(text);
      const fetch = async () => {
        const body = new ReadableStream({
          start(controller) {
            for (let at = 0; at < bytes.length; at += chunks) controller.enqueue(bytes.slice(at, at + chunks));
            controller.close();
          },
        });
        return new Response(body, { status, headers: { "content-type": "text/event-stream" } });
      };
      const events: StepEvent[] = [];
      try {
        for await (const event of step(resolveModel(name, ENV), say(), { ways: { fetch, guarded: fetch }, limits }))
          events.push(event);
      } catch (error) {
        expect(error).toBeInstanceOf(ModelError);
        expect((error as Error).message).not.toContain(KEY);
        return;
      }
      const { message, usage, finish_reason } = events.at(-1) as Completed;
      const deltas = events.slice(0, -1) as Exclude<StepEvent, Completed>[];
      const texts = deltas.map((delta) => (delta.type === "text" ? delta.delta : "")).join("");
      expect(message.content ?? "").toBe(texts);
      expect(Object.values(usage).every((count) => count === null || (Number.isInteger(count) && count >= 0))).toBe(
        true,
      );
      expect(finish_reason).toMatch(/^(stop|length|tool_calls|content_filter|other)$/);
      for (const call of message.tool_calls ?? []) expect(typeof call.arguments).toBe("object");
      expect(JSON.parse(JSON.stringify(message))).toEqual(message);
    };
    // Untouched, each is an answer.
    for (const name of Object.keys(samples)) await run({ name, edits: [], chunks: 7, status: 200 });
    await fc.assert(fc.asyncProperty(cases, run), { numRuns: 400 });
  });
});
