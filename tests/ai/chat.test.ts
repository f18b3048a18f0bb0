/** Chats through the SDK and over HTTP, by a provider on this machine that speaks the compatible wire. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { shows } from "../harness/canary.ts";
import { bearer, type Call, caller, must, together } from "../harness/index.ts";
import { type Answer, chunk, hello, json, sse, sseText, usageChunk, WEATHER } from "../lib/model/fixtures.ts";
import { aStage, KEY, type Stage } from "./stage.ts";

let stage: Stage;
const log: string[] = [];
beforeAll(async () => {
  for (const name of ["error", "log", "warn"] as const)
    vi.spyOn(console, name).mockImplementation((...words) => void log.push(words.join(" ")));
  stage = await aStage({ DEFAULT_MODEL: "compatible/small", MODELS: "compatible/large, openai/gpt-5" });
});
afterAll(async () => {
  expect(shows(log.join())).toBe(false);
  await stage.close();
});
beforeEach(() => stage.answers(hello));

const PATH = "/api/v1/ai/chat/completions";
const model = "compatible/small";
const user = (content: string) => ({ role: "user", content });
const ask = (body: object, call: Call = stage.ask) => call("POST", PATH, body);
const faultsOf = async (body: object) => (await must(ask(body), 422)).error.fields.map(({ field }: any) => field);
const saying = (text: string) => sse(chunk({ content: text }), chunk({}, "stop"), usageChunk(9, 2), "[DONE]");
const calling = (args: string) =>
  sse(
    chunk({
      tool_calls: [{ index: 0, id: "call_a", type: "function", function: { name: "get_weather", arguments: "" } }],
    }),
    chunk({ tool_calls: [{ index: 0, function: { arguments: args } }] }),
    chunk({}, "tool_calls"),
    usageChunk(20, 5),
    "[DONE]",
  );
const tools = [{ type: "function", function: WEATHER }];

describe.each(["asUser", "asBackend"] as const)("%s", (who) => {
  it("completes a chat: the message, the whole history, why it stopped, and what it took", async () => {
    const given = [{ role: "system", content: "Be brief." }, user("Hi")];
    const answer = await stage[who].chat.completions.create({
      messages: given,
      opts: { model, temperature: 0, max_tokens: 9 },
    });
    const nothing = {
      content_parts: null,
      tool_calls: null,
      tool_results: null,
      resume_token: null,
      structured_output: null,
    };
    const message = { ...nothing, role: "assistant", content: "Hello" };
    expect(answer).toEqual({
      message,
      messages: [...given.map((one) => ({ ...nothing, ...one })), message],
      finish_reason: "stop",
      token_usage: { [model]: { input_tokens: 9, output_tokens: 2, cached_tokens: 0, reasoning_tokens: 0 } },
    });
    expect(stage.seen[0]).toMatchObject({
      headers: { authorization: `Bearer ${KEY}` },
      body: { model: "small", messages: given, temperature: 0, max_tokens: 9 },
    });
  });

  it("streams a chat: reasoning, text, calls, a call that can't be read, and the end", async () => {
    const text = sse(
      chunk({ reasoning_content: "Hm" }),
      chunk({ content: "Hel" }),
      chunk({ content: "lo" }),
      chunk({}, "stop"),
      usageChunk(9, 2),
      "[DONE]",
    );
    const collect = async (answer: Answer) => {
      stage.answers(answer);
      const events: any[] = [];
      for await (const event of stage[who].chat.completions.stream.create({
        messages: [user("Hi")],
        opts: { model, tools },
        session_id: "streamed",
      })) {
        events.push(event);
        if (event.event === "done")
          expect((await stage.rows("session_id = 'streamed'")).at(-1).status).toBe("completed");
      }
      return events;
    };
    const usage = { [model]: { input_tokens: 9, output_tokens: 2, cached_tokens: 0, reasoning_tokens: 0 } };
    expect(await collect(text)).toMatchObject([
      { event: "thinking_delta", data: { delta: "Hm" } },
      { event: "message_delta", data: { delta: "Hel" } },
      { event: "message_delta", data: { delta: "lo" } },
      {
        event: "message_complete",
        data: { message: { role: "assistant", content: "Hello" }, finish_reason: "stop", usage },
      },
      { event: "done", data: { finish_reason: "stop", run_count: 1, usage, total_usage: usage } },
    ]);
    const called = await collect(calling('{"city": Graz'));
    expect(called.map(({ event }) => event)).toEqual([
      "tool_call_delta",
      "tool_call_delta",
      "message_complete",
      "tool_result",
      "done",
    ]);
    expect(called[1].data).toEqual({ id: "call_a", name: "get_weather", delta: '{"city": Graz' });
    expect(called[3].data).toMatchObject({
      id: "call_a",
      name: "get_weather",
      content: expect.stringContaining("JSON"),
    });
    expect(await collect(json(400, { error: { message: `no: ${KEY}` } }))).toEqual([
      { event: "error", data: { code: "model_refused", message: "no: ****" } },
    ]);
  });

  it("lists the models, the default first", async () => {
    const { data } = await stage[who].chat.models();
    expect(data.map(({ id, default: isDefault }) => [id, isDefault])).toEqual([
      ["compatible/small", true],
      ["compatible/large", false],
      ["openai/gpt-5", false],
    ]);
  });
});

it("needs nothing set up: scripted/echo answers", async () => {
  const base = await stage.start({});
  const call = caller(bearer(stage.token), base);
  const { message } = await must(ask({ messages: [user("Hi")], opts: {} }, call), 200);
  expect(message.content).toMatch(/scripted model.*Hi$/s);
  expect((await must(call("GET", "/api/v1/ai/chat/models"), 200)).data).toMatchObject([
    { id: "scripted/echo", default: true },
  ]);
  const refused = await must(ask({ messages: [user("Hi")], opts: { model } }, call), 422);
  expect(refused.error).toMatchObject({
    code: "model_not_configured",
    message: expect.stringContaining("MODEL_BASE_URL"),
  });
});

it("carries a tool's call and result on, with images and an opaque token", async () => {
  stage.answers(calling('{"city":"Graz"}'));
  const png = "iVBORw0KGgo=";
  const content_parts = [
    { type: "text", text: "Where?" },
    { type: "image_data", image_data: png, image_type: "image/png" },
  ];
  const opts = { model, tools, tool_choice: "get_weather" };
  const first = await must(ask({ messages: [{ role: "user", content_parts }], opts }), 200);
  expect(first).toMatchObject({
    message: { content: null, tool_calls: [{ id: "call_a", name: "get_weather", arguments: { city: "Graz" } }] },
    finish_reason: "tool_calls",
  });
  expect(stage.seen[0]!.body).toMatchObject({
    messages: [
      { content: [{ type: "text" }, { type: "image_url", image_url: { url: `data:image/png;base64,${png}` } }] },
    ],
    tools: [{ function: { name: "get_weather" } }],
    tool_choice: { function: { name: "get_weather" } },
  });
  const result = { role: "tool", tool_results: [{ id: "call_a", name: "get_weather", resolution: { sky: "blue" } }] };
  stage.answers(hello);
  const second = await must(ask({ messages: [...first.messages, result], opts: { model, tools } }), 200);
  expect(second.messages.map(({ role }: any) => role)).toEqual(["user", "assistant", "tool", "assistant"]);
  expect(stage.seen[0]!.body.messages[2]).toEqual({ role: "tool", tool_call_id: "call_a", content: '{"sky":"blue"}' });
  const resumed = [{ role: "assistant", content: "Hi", resume_token: "foreign" }, user("Go on")];
  expect((await must(ask({ messages: resumed, opts: { model } }), 200)).messages[0].resume_token).toBe("foreign");
});

it("answers a call whose arguments can't be read with its result already", async () => {
  stage.answers(calling("{"));
  const { messages } = await must(ask({ messages: [user("Hi")], opts: { model, tools } }), 200);
  expect(messages[1].tool_calls[0].arguments).toEqual({});
  expect(messages[2]).toMatchObject({ role: "tool", tool_results: [{ id: "call_a", name: "get_weather" }] });
});

const call = { role: "assistant", tool_calls: [{ id: "a", name: "t", arguments: {} }] };
const result = { id: "a", name: "t", content: "x" };
it.each<[string, object[], string]>([
  ["calls of a user", [{ ...call, role: "user" }], "messages.0.tool_calls"],
  ["results of a user", [call, { role: "user", content: "x", tool_results: [result] }], "messages.1.tool_results"],
  ["a tool without results", [call, { role: "tool" }], "messages.1.tool_results"],
  ["results of no call", [{ role: "tool", tool_results: [result] }], "messages.0.tool_results.0.id"],
  [
    "a result by another name",
    [call, { role: "tool", tool_results: [{ ...result, name: "u" }] }],
    "messages.1.tool_results.0.name",
  ],
  ["a result given twice", [call, { role: "tool", tool_results: [result, result] }], "messages.1.tool_results.1.id"],
  ["two calls of one id", [call, call], "messages.1.tool_calls.0.id"],
  ["content beside parts", [{ ...user("x"), content_parts: [{ type: "text", text: "x" }] }], "messages.0.content"],
  ["nothing said", [{ role: "user" }], "messages.0.content"],
  ["an unknown part", [{ role: "user", content_parts: [{ type: "video" }] }], "messages.0.content_parts.0.type"],
  [
    "an image that is no base64",
    [{ role: "user", content_parts: [{ type: "image_data", image_data: "%", image_type: "image/png" }] }],
    "messages.0.content_parts.0.image_data",
  ],
  ["an unknown role", [{ role: "robot", content: "x" }], "messages.0.role"],
])("refuses %s, naming the field", async (_, messages, field) => {
  expect(await faultsOf({ messages, opts: { model } })).toEqual([field]);
  expect(stage.seen).toEqual([]);
});

it("refuses options that mean nothing: a server's tool, another tool's name, a schema that is none", async () => {
  const messages = [user("Hi")];
  expect(await faultsOf({ messages, opts: { model, server_tools: [{ type: "search" }] } })).toEqual([
    "opts.server_tools",
  ]);
  expect(await faultsOf({ messages, opts: { model, tool_choice: "t" } })).toEqual(["opts.tool_choice"]);
  expect(await faultsOf({ messages, opts: { model, tools: [...tools, ...tools] } })).toEqual(["opts.tools"]);
  expect(await faultsOf({ messages, opts: { model, max_tokens: 0 } })).toEqual(["opts.max_tokens"]);
  expect(await faultsOf({ messages, opts: { model, structured_output: { type: "colour" } } })).toEqual([
    "opts.structured_output",
  ]);
  expect(await faultsOf({ messages: [], opts: { model } })).toEqual(["messages"]);
  const streamed = await must(
    stage.ask("POST", `${PATH}/stream`, { messages, opts: { model, structured_output: {} } }),
    422,
  );
  expect(streamed.error.fields).toMatchObject([{ field: "opts.structured_output" }]);
});

describe("structured output", () => {
  const schema = { type: "object", properties: { sky: { type: "string" } }, required: ["sky"] };
  const body = { messages: [user("Hi")], opts: { model, structured_output: schema } };

  it("is asked for and parsed", async () => {
    stage.answers(saying('{"sky":"blue"}'));
    expect((await must(ask(body), 200)).message).toMatchObject({
      structured_output: { sky: "blue" },
      content: '{"sky":"blue"}',
    });
    expect(stage.seen[0]!.body.response_format.json_schema.schema).toEqual(schema);
  });

  it("that is not as the schema says is asked for once more; what both took is counted", async () => {
    stage.answers((response, request, n) =>
      saying(n === 1 ? '{"sky":1}' : '```json\n{"sky":"grey"}\n```')(response, request, n),
    );
    const answer = await must(ask(body), 200);
    expect(answer.message.structured_output).toEqual({ sky: "grey" });
    expect(answer.messages).toHaveLength(2);
    expect(answer.token_usage[model]).toMatchObject({ input_tokens: 18, output_tokens: 4 });
    expect(stage.seen[1]!.body.messages.at(-1).content).toContain("/sky must be of type string");
  });

  it("that is wrong twice is a refusal", async () => {
    stage.answers(saying("blue"));
    expect((await must(ask(body), 422)).error.code).toBe("structured_output_invalid");
    expect(stage.seen).toHaveLength(2);
  });
});

it("resolves the context's variables in what system and user say, and answers the messages as they came", async () => {
  const messages = [
    { role: "system", content: "You serve {{ org.name }}{{ nobody }}." },
    { role: "assistant", content: "{{ org.name }}" },
    { role: "user", content_parts: [{ type: "text", text: "I am {{me}}" }] },
  ];
  const context = { org: { name: "Acme" }, me: "{{ org.name }}" };
  const answer = await must(ask({ messages, context, opts: { model } }), 200);
  expect(stage.seen[0]!.body.messages).toMatchObject([
    { content: "You serve Acme." },
    { content: "{{ org.name }}" },
    { content: "I am {{ org.name }}" },
  ]);
  expect(answer.messages[0].content).toBe(messages[0]!.content);
  await must(ask({ messages, opts: { model } }), 200);
  expect(stage.seen[1]!.body.messages[0].content).toBe(messages[0]!.content);
});

it.each<[string, Answer, number, string]>([
  ["refuses", json(400, { error: { message: `no such model, says ${KEY}` } }), 422, "model_refused"],
  ["refuses the key", json(401, { error: { message: `bad key ${KEY}` } }), 422, "model_refused"],
  [
    "is asked too often",
    json(429, { error: { message: "slow down" } }, { "retry-after": "40" }),
    429,
    "model_rate_limited",
  ],
  ["is out of order", json(503, { error: { message: "busy" } }, { "retry-after": "40" }), 503, "model_unavailable"],
  ["answers nonsense", sse("{"), 503, "model_answer_invalid"],
])("says what is wrong where the provider %s, and never the key", async (_, answer, status, code) => {
  stage.answers(answer);
  const refused = await ask({ messages: [user("Hi")], opts: { model } });
  expect([refused.status, refused.body.error.code]).toEqual([status, code]);
  if (status !== 422) expect(Number(refused.headers.get("Retry-After"))).toBe(code === "model_answer_invalid" ? 5 : 40);
  expect(refused.text).not.toMatch(/127\.0\.0\.1/);
});

describe("a client that hangs up", () => {
  const begun: Answer = (response) =>
    response.writeHead(200, { "content-type": "text/event-stream" }).write(sseText(chunk({ content: "Hel" })));

  it.each<[string, Answer]>([
    ["silent", () => {}],
    ["in the midst of its answer", begun],
  ])("on a stream ends the provider's request within a second: %s", async (_, answer) => {
    stage.answers(answer);
    const abort = new AbortController();
    const response = await fetch(`${stage.base}${PATH}/stream`, {
      method: "POST",
      headers: { ...bearer(stage.token), "Content-Type": "application/json" },
      body: JSON.stringify({ messages: [user("Hi")], opts: { model }, session_id: "hung-up" }),
      signal: abort.signal,
    });
    await response.body!.getReader().read();
    await vi.waitFor(() => expect(stage.seen).toHaveLength(1));
    const at = Date.now();
    abort.abort();
    expect((await stage.seen[0]!.closed) - at).toBeLessThan(1000);
    await vi.waitFor(async () => {
      const [row] = (await stage.rows("session_id = 'hung-up'")).slice(-1);
      expect(row.status).toBe("cancelled");
    });
  });

  it("on a plain completion does not: it goes on to its end, and is written down", async () => {
    const ready = Promise.withResolvers<void>();
    stage.answers(async (...asked) => {
      await ready.promise;
      hello(...asked);
    });
    const abort = new AbortController();
    const asked = fetch(stage.base + PATH, {
      method: "POST",
      headers: { ...bearer(stage.token), "Content-Type": "application/json" },
      body: JSON.stringify({ messages: [user("Hi")], opts: { model }, session_id: "left" }),
      signal: abort.signal,
    });
    await vi.waitFor(() => expect(stage.seen).toHaveLength(1));
    abort.abort();
    await expect(asked).rejects.toThrow();
    await new Promise((resolve) => setTimeout(resolve, 1000));
    ready.resolve();
    await vi.waitFor(async () =>
      expect(await stage.rows("session_id = 'left'")).toMatchObject([{ status: "completed", output_tokens: 2 }]),
    );
  });
});

describe("what it took", () => {
  const asking = (session_id: string, call: Call = stage.ask) =>
    ask({ messages: [user("Hi")], opts: { model }, session_id }, call);

  it("is written down by app, org, user and model: owed before the provider is asked, given after", async () => {
    const { app } = stage;
    let owed: any[] = [];
    stage.answers(async (...asked) => {
      owed = await stage.rows("session_id = 'one'");
      hello(...asked);
    });
    await must(asking("one"), 200);
    const row = { org_id: app.acme, user_id: app.owners[app.acme], operation: "chat", model };
    expect(owed).toMatchObject([{ ...row, status: "unknown", completed_at: null, input_tokens: null }]);
    expect(await stage.rows("session_id = 'one'")).toMatchObject([
      { ...row, status: "completed", input_tokens: 9, output_tokens: 2 },
    ]);
    await must(asking("two", app.asDeveloper), 200);
    expect(await stage.rows("session_id = 'two'")).toMatchObject([{ org_id: "-", user_id: null, status: "completed" }]);
    stage.answers(json(400, {}));
    await must(asking("three"), 422);
    expect(await stage.rows("session_id = 'three'")).toMatchObject([{ status: "failed", output_tokens: null }]);
  });

  it("is written down though the token was revoked meanwhile; a dead one asks no provider", async () => {
    const { app } = stage;
    const minted = await app.aToken(app.owners[app.acme]!);
    const call = caller(bearer(minted.access_token), stage.base);
    stage.answers(async (...asked) => {
      await app.asDeveloper("DELETE", `${app.at}/users/${app.owners[app.acme]}/tokens/${minted.id}`);
      hello(...asked);
    });
    await must(asking("revoked", call), 200);
    expect(await stage.rows("session_id = 'revoked'")).toMatchObject([{ status: "completed", output_tokens: 2 }]);
    stage.answers(hello);
    expect((await asking("dead", call)).status).toBe(401);
    expect((await ask({ messages: [user("Hi")], opts: { model: "openai/gpt-5" } }, call)).status).toBe(401);
    expect([stage.seen, await stage.rows("session_id = 'dead'")]).toEqual([[], []]);
  });

  it("goes with the user, and with the org", async () => {
    const { app } = stage;
    const leaver = await app.aUser(app.globex);
    await must(asking("gone", caller(bearer((await app.aToken(leaver.id)).access_token), stage.base)), 200);
    await must(asking("org", app.as(app.globex)), 200);
    await must(app.asDeveloper("DELETE", `${app.at}/users/${leaver.id}`), 204);
    expect((await stage.rows(`org_id = '${app.globex}'`)).map(({ session_id }) => session_id)).toEqual(["org"]);
    await must(app.asDeveloper("DELETE", `${app.at}/orgs/${app.globex}`), 204);
    expect(await stage.rows(`org_id = '${app.globex}'`)).toEqual([]);
  });
});

it("may a viewer list and not ask, and a token without the scope neither", async () => {
  const viewer = stage.app.as(stage.app.acme, { role: "viewer" });
  await must(viewer("GET", "/api/v1/ai/chat/models"), 200);
  expect((await ask({ messages: [user("Hi")], opts: { model } }, viewer)).status).toBe(403);
  const other = stage.app.as(stage.app.acme, { scopes: ["agents:*"] });
  expect((await other("GET", "/api/v1/ai/chat/models")).status).toBe(403);
  expect(stage.seen).toEqual([]);
});

it("eight at once for an org in an isolate; the ninth waits, and others don't", async () => {
  const ready = Promise.withResolvers<void>();
  stage.answers(async (...asked) => {
    await ready.promise;
    hello(...asked);
  });
  const body = { messages: [user("Hi")], opts: { model } };
  const all = together(9, () => ask(body));
  await vi.waitFor(() => expect(stage.seen).toHaveLength(8));
  const other = ask(body, stage.app.asDeveloper);
  await vi.waitFor(() => expect(stage.seen).toHaveLength(9));
  ready.resolve();
  expect((await Promise.all([...(await all), await other])).map(({ status }) => status)).toEqual(Array(10).fill(200));
  expect(stage.seen).toHaveLength(10);
});
