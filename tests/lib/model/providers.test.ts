/** Each provider's wire format, over HTTP: what it streams, and what it is sent back. */
import { afterEach, describe, expect, it } from "vitest";
import { message } from "../../../lib/model/index.ts";
import {
  type Answer,
  aProvider,
  chunk,
  json,
  KEY,
  results,
  run,
  say,
  sse,
  usageChunk,
  user,
  WEATHER,
} from "./fixtures.ts";

let provider: Awaited<ReturnType<typeof aProvider>>;
const answering = async (...answers: Answer[]) => {
  provider = await aProvider(...answers);
  return { ways: provider.ways };
};
afterEach(() => provider?.close());

/** The deltas of each part put together. */
const joined = (deltas: { type: string; part: number; delta: string }[]) => {
  const parts: [string, string][] = [];
  for (const { type, part, delta } of deltas) parts[part] = [type, (parts[part]?.[1] ?? "") + delta];
  return parts;
};
const weatherIn = (...cities: string[]) => ({
  messages: [message({ role: "system", content: "Be brief." }), user(`Weather in ${cities}?`)],
  tools: [WEATHER],
});

/** An answer with reasoning, a text and two calls of WEATHER in parallel, with what each provider wants to see again. */
const providers: Record<string, { answer: Answer; done: Answer; path: string; sent: object; back: object }> = {
  "compatible/some/model:free": {
    answer: sse(
      chunk({ role: "assistant", content: "" }),
      chunk({ reasoning_content: "Two " }),
      chunk({ reasoning_content: "cities." }),
      chunk({ content: "I look." }),
      chunk({
        tool_calls: [
          {
            index: 0,
            id: "call_a",
            type: "function",
            function: { name: "get_weather", arguments: "" },
            extra_content: { google: { thought_signature: "sig-a" } },
          },
        ],
      }),
      chunk({
        tool_calls: [
          { index: 1, id: "call_b", type: "function", function: { name: "get_weather", arguments: '{"ci' } },
        ],
      }),
      chunk({ tool_calls: [{ index: 0, function: { arguments: '{"city":"Oslo"}' } }] }),
      chunk({ tool_calls: [{ index: 1, function: { arguments: 'ty":"Rome"}' } }] }),
      chunk({}, "tool_calls"),
      usageChunk(30, 12),
      "[DONE]",
    ),
    done: sse(chunk({ content: "Fine." }), chunk({}, "stop"), usageChunk(50, 2), "[DONE]"),
    path: "/v1/chat/completions",
    sent: {
      model: "some/model:free",
      messages: [
        { role: "system", content: "Be brief." },
        { role: "user", content: "Weather in Oslo,Rome?" },
      ],
      ...{
        max_tokens: 500,
        temperature: 0.5,
        stream: true,
        stream_options: { include_usage: true },
        tool_choice: "auto",
      },
      tools: [{ type: "function", function: WEATHER }],
    },
    back: {
      messages: [
        { role: "system" },
        { role: "user" },
        {
          ...{ role: "assistant", content: "I look.", reasoning_content: "Two cities." },
          tool_calls: [
            {
              ...{ id: "call_a", type: "function", extra_content: { google: { thought_signature: "sig-a" } } },
              function: { name: "get_weather", arguments: '{"city":"Oslo"}' },
            },
            { id: "call_b", type: "function", function: { name: "get_weather", arguments: '{"city":"Rome"}' } },
          ],
        },
        { role: "tool", tool_call_id: "call_a", content: "rain" },
        { role: "tool", tool_call_id: "call_b", content: "sun" },
      ],
    },
  },
  "anthropic/claude-sonnet-4-5": {
    answer: sse(
      ...[
        {
          type: "message_start",
          message: {
            id: "msg_1",
            type: "message",
            role: "assistant",
            model: "m",
            content: [],
            stop_reason: null,
            stop_sequence: null,
            usage: { input_tokens: 20, cache_read_input_tokens: 10, cache_creation_input_tokens: 0, output_tokens: 1 },
          },
        },
        { type: "content_block_start", index: 0, content_block: { type: "thinking", thinking: "", signature: "" } },
        { type: "ping" },
        { type: "content_block_delta", index: 0, delta: { type: "thinking_delta", thinking: "Two " } },
        { type: "content_block_delta", index: 0, delta: { type: "thinking_delta", thinking: "cities." } },
        { type: "content_block_delta", index: 0, delta: { type: "signature_delta", signature: "c2lnbmF0dXJl" } },
        { type: "content_block_stop", index: 0 },
        { type: "content_block_start", index: 1, content_block: { type: "redacted_thinking", data: "cmVkYWN0ZWQ=" } },
        { type: "content_block_stop", index: 1 },
        { type: "content_block_start", index: 2, content_block: { type: "text", text: "" } },
        { type: "content_block_delta", index: 2, delta: { type: "text_delta", text: "I look." } },
        { type: "content_block_stop", index: 2 },
        {
          type: "content_block_start",
          index: 3,
          content_block: { type: "tool_use", id: "toolu_a", name: "get_weather", input: {} },
        },
        { type: "content_block_delta", index: 3, delta: { type: "input_json_delta", partial_json: "" } },
        { type: "content_block_delta", index: 3, delta: { type: "input_json_delta", partial_json: '{"city":' } },
        { type: "content_block_delta", index: 3, delta: { type: "input_json_delta", partial_json: '"Oslo"}' } },
        { type: "content_block_stop", index: 3 },
        {
          type: "content_block_start",
          index: 4,
          content_block: { type: "tool_use", id: "toolu_b", name: "get_weather", input: {} },
        },
        { type: "content_block_delta", index: 4, delta: { type: "input_json_delta", partial_json: '{"city":"Rome"}' } },
        { type: "content_block_stop", index: 4 },
        {
          type: "message_delta",
          delta: { stop_reason: "tool_use", stop_sequence: null },
          usage: { output_tokens: 12 },
        },
        { type: "message_stop" },
      ].map((event) => [event.type, event]),
    ),
    done: sse(
      ...[
        {
          type: "message_start",
          message: {
            id: "msg_2",
            type: "message",
            role: "assistant",
            model: "m",
            content: [],
            stop_reason: null,
            usage: { input_tokens: 50, output_tokens: 1 },
          },
        },
        { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
        { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Fine." } },
        { type: "content_block_stop", index: 0 },
        { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 2 } },
        { type: "message_stop" },
      ].map((event) => [event.type, event]),
    ),
    path: "/v1/messages",
    sent: {
      ...{
        model: "claude-sonnet-4-5",
        max_tokens: 500,
        temperature: 0.5,
        stream: true,
        cache_control: { type: "ephemeral" },
      },
      system: [{ type: "text", text: "Be brief." }],
      messages: [{ role: "user", content: [{ type: "text", text: "Weather in Oslo,Rome?" }] }],
      tools: [{ name: "get_weather", description: WEATHER.description, input_schema: WEATHER.parameters }],
      tool_choice: { type: "auto" },
    },
    back: {
      messages: [
        { role: "user" },
        {
          role: "assistant",
          content: [
            { type: "thinking", thinking: "Two cities.", signature: "c2lnbmF0dXJl" },
            { type: "redacted_thinking", data: "cmVkYWN0ZWQ=" },
            { type: "text", text: "I look." },
            { type: "tool_use", id: "toolu_a", name: "get_weather", input: { city: "Oslo" } },
            { type: "tool_use", id: "toolu_b", name: "get_weather", input: { city: "Rome" } },
          ],
        },
        {
          role: "user",
          content: [
            { type: "tool_result", tool_use_id: "toolu_a", content: "rain" },
            { type: "tool_result", tool_use_id: "toolu_b", content: "sun" },
          ],
        },
      ],
    },
  },
  "openai/gpt-5": {
    answer: sse(
      { type: "response.created", response: { id: "resp_1", created_at: 1, model: "gpt-5" } },
      {
        type: "response.output_item.added",
        output_index: 0,
        item: { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "half" },
      },
      { type: "response.reasoning_summary_part.added", item_id: "rs_1", summary_index: 0 },
      { type: "response.reasoning_summary_text.delta", item_id: "rs_1", summary_index: 0, delta: "Two " },
      { type: "response.reasoning_summary_text.delta", item_id: "rs_1", summary_index: 0, delta: "cities." },
      { type: "response.reasoning_summary_part.done", item_id: "rs_1", summary_index: 0 },
      {
        type: "response.output_item.done",
        output_index: 0,
        item: {
          type: "reasoning",
          id: "rs_1",
          summary: [{ type: "summary_text", text: "Two cities." }],
          encrypted_content: "ZW5jcnlwdGVk",
        },
      },
      { type: "response.output_item.added", output_index: 1, item: { type: "message", id: "msg_1" } },
      { type: "response.output_text.delta", item_id: "msg_1", output_index: 1, content_index: 0, delta: "I " },
      { type: "response.output_text.delta", item_id: "msg_1", output_index: 1, content_index: 0, delta: "look." },
      {
        type: "response.output_item.done",
        output_index: 1,
        item: { type: "message", id: "msg_1", role: "assistant", content: [] },
      },
      {
        type: "response.output_item.added",
        output_index: 2,
        item: { type: "function_call", id: "fc_a", call_id: "call_a", name: "get_weather", arguments: "" },
      },
      { type: "response.function_call_arguments.delta", item_id: "fc_a", output_index: 2, delta: '{"city":' },
      { type: "response.function_call_arguments.delta", item_id: "fc_a", output_index: 2, delta: '"Oslo"}' },
      {
        type: "response.output_item.done",
        output_index: 2,
        item: {
          type: "function_call",
          id: "fc_a",
          call_id: "call_a",
          name: "get_weather",
          arguments: '{"city":"Oslo"}',
          status: "completed",
        },
      },
      {
        type: "response.output_item.added",
        output_index: 3,
        item: { type: "function_call", id: "fc_b", call_id: "call_b", name: "get_weather", arguments: "" },
      },
      { type: "response.function_call_arguments.delta", item_id: "fc_b", output_index: 3, delta: '{"city":"Rome"}' },
      {
        type: "response.output_item.done",
        output_index: 3,
        item: {
          type: "function_call",
          id: "fc_b",
          call_id: "call_b",
          name: "get_weather",
          arguments: '{"city":"Rome"}',
          status: "completed",
        },
      },
      {
        type: "response.completed",
        response: {
          incomplete_details: null,
          usage: {
            input_tokens: 30,
            input_tokens_details: { cached_tokens: 10 },
            output_tokens: 12,
            output_tokens_details: { reasoning_tokens: 4 },
          },
        },
      },
    ),
    done: sse(
      { type: "response.created", response: { id: "resp_2", created_at: 2, model: "gpt-5" } },
      { type: "response.output_item.added", output_index: 0, item: { type: "message", id: "msg_2" } },
      { type: "response.output_text.delta", item_id: "msg_2", output_index: 0, content_index: 0, delta: "Fine." },
      {
        type: "response.output_item.done",
        output_index: 0,
        item: { type: "message", id: "msg_2", role: "assistant", content: [] },
      },
      {
        type: "response.completed",
        response: { incomplete_details: null, usage: { input_tokens: 50, output_tokens: 2 } },
      },
    ),
    path: "/v1/responses",
    sent: {
      // Nothing stays at the provider, where all orgs have one key.
      ...{
        model: "gpt-5",
        store: false,
        include: ["reasoning.encrypted_content"],
        stream: true,
        max_output_tokens: 500,
      },
      input: [
        { role: "developer", content: "Be brief." },
        { role: "user", content: [{ type: "input_text", text: "Weather in Oslo,Rome?" }] },
      ],
      tools: [{ type: "function", ...WEATHER }],
      tool_choice: "auto",
    },
    back: {
      input: [
        { role: "developer" },
        { role: "user" },
        {
          type: "reasoning",
          id: "rs_1",
          summary: [{ type: "summary_text", text: "Two cities." }],
          encrypted_content: "ZW5jcnlwdGVk",
        },
        { role: "assistant", content: "I look." },
        { type: "function_call", call_id: "call_a", name: "get_weather", arguments: '{"city":"Oslo"}' },
        { type: "function_call", call_id: "call_b", name: "get_weather", arguments: '{"city":"Rome"}' },
        { type: "function_call_output", call_id: "call_a", output: "rain" },
        { type: "function_call_output", call_id: "call_b", output: "sun" },
      ],
    },
  },
  "google/gemini-3-pro-preview": {
    answer: sse(
      { candidates: [{ content: { role: "model", parts: [{ text: "Two cities.", thought: true }] }, index: 0 }] },
      { candidates: [{ content: { role: "model", parts: [{ text: "I look." }] }, index: 0 }] },
      {
        candidates: [
          {
            content: {
              role: "model",
              parts: [{ functionCall: { name: "get_weather", args: { city: "Oslo" } }, thoughtSignature: "c2ln" }],
            },
          },
        ],
      },
      {
        candidates: [
          {
            content: { role: "model", parts: [{ functionCall: { name: "get_weather", args: { city: "Rome" } } }] },
            finishReason: "STOP",
          },
        ],
        usageMetadata: {
          promptTokenCount: 30,
          cachedContentTokenCount: 10,
          candidatesTokenCount: 8,
          thoughtsTokenCount: 4,
          totalTokenCount: 42,
        },
      },
    ),
    done: sse({
      candidates: [{ content: { role: "model", parts: [{ text: "Fine." }] }, finishReason: "STOP" }],
      usageMetadata: { promptTokenCount: 50, candidatesTokenCount: 2, totalTokenCount: 52 },
    }),
    path: "/v1beta/models/gemini-3-pro-preview:streamGenerateContent?alt=sse",
    sent: {
      generationConfig: { maxOutputTokens: 500, temperature: 0.5 },
      systemInstruction: { parts: [{ text: "Be brief." }] },
      contents: [{ role: "user", parts: [{ text: "Weather in Oslo,Rome?" }] }],
      tools: [{ functionDeclarations: [{ name: "get_weather", description: WEATHER.description }] }],
    },
    back: {
      contents: [
        { role: "user" },
        {
          role: "model",
          parts: [
            { text: "Two cities.", thought: true },
            { text: "I look." },
            { functionCall: { name: "get_weather", args: { city: "Oslo" } }, thoughtSignature: "c2ln" },
            { functionCall: { name: "get_weather", args: { city: "Rome" } } },
          ],
        },
        {
          role: "user",
          parts: [
            { functionResponse: { name: "get_weather", response: { content: "rain" } } },
            { functionResponse: { name: "get_weather", response: { content: "sun" } } },
          ],
        },
      ],
    },
  },
};

describe.each(Object.entries(providers))("%s", (name, { answer, done, path, sent, back }) => {
  it("streams reasoning, text and parallel calls by part, and completes with the message, usage and reason", async () => {
    const { deltas, completed } = await run(name, weatherIn("Oslo", "Rome"), await answering(answer));
    const parts = joined(deltas).filter(([, text]) => text !== "");
    expect(parts).toEqual([
      ["reasoning", "Two cities."],
      ["text", "I look."],
      ["arguments", '{"city":"Oslo"}'],
      ["arguments", '{"city":"Rome"}'],
    ]);
    const [oslo, rome] = completed.message.tool_calls!;
    expect([oslo, rome]).toMatchObject([
      { name: "get_weather", arguments: { city: "Oslo" } },
      { name: "get_weather", arguments: { city: "Rome" } },
    ]);
    expect(deltas.filter(({ type }) => type === "arguments").map((delta) => "id" in delta && delta.id)).toEqual(
      expect.arrayContaining([oslo!.id, rome!.id]),
    );
    expect(completed).toMatchObject({
      message: { role: "assistant", content: "I look.", content_parts: null },
      usage: { input_tokens: 30, output_tokens: 12 },
      finish_reason: "tool_calls",
      unreadable_arguments: {},
    });
  });

  it("is asked with the key, and for what was asked", async () => {
    const request = { ...weatherIn("Oslo", "Rome"), max_tokens: 500, temperature: 0.5 };
    await run(name, request, await answering(answer));
    const [{ headers, ...asked }] = provider.seen as [(typeof provider.seen)[0]];
    expect(asked.path).toBe(path);
    expect(Object.values(headers).filter((value) => String(value).includes(KEY))).toHaveLength(1);
    expect(asked.body).toMatchObject(sent);
  });

  it("gets back verbatim, in order, what it said, thought and signed, from JSON that was stored", async () => {
    const options = await answering(answer, done);
    const asked = weatherIn("Oslo", "Rome");
    const { completed } = await run(name, asked, options);
    const [oslo, rome] = completed.message.tool_calls!;
    const stored = JSON.parse(JSON.stringify(completed.message));
    const messages = [...asked.messages, stored, results([oslo!, "rain"], [rome!, "sun"])];
    const next = await run(name, { ...asked, messages }, options);
    expect(next.completed).toMatchObject({
      message: { content: "Fine." },
      finish_reason: "stop",
      usage: { input_tokens: 50, output_tokens: 2 },
    });
    expect(provider.seen[1]!.body).toMatchObject(back);
  });

  it("is sent a conversation that another provider has begun", async () => {
    const others = Object.entries(providers).filter(([other]) => other !== name);
    for (const [other, { answer: begun }] of others) {
      const options = await answering(begun, done);
      const asked = weatherIn("Oslo", "Rome");
      const { completed } = await run(other, asked, options);
      const [oslo, rome] = completed.message.tool_calls!;
      const messages = [
        ...asked.messages,
        completed.message,
        results([oslo!, "rain"], [rome!, "sun"]),
        message({ role: "system", content: "In French." }),
      ];
      const next = await run(name, { ...asked, messages }, options);
      expect([other, next.completed.message.content]).toEqual([other, "Fine."]);
      const text = JSON.stringify(provider.seen[1]!.body);
      expect([other, text.includes("I look."), text.includes("In French.")]).toEqual([other, true, true]);
      // Anthropic's signatures and OpenAI's reasoning mean nothing elsewhere.
      expect(text).not.toMatch(/c2lnbmF0dXJl|cmVkYWN0ZWQ=|ZW5jcnlwdGVk|Two cities/);
      provider.close();
    }
  });

  it("is sent images, by their bytes and by public addresses alone", async () => {
    const options = await answering(done);
    const parts = [
      { type: "text" as const, text: "What's this?" },
      { type: "image_data" as const, image_data: "iVBORw0KGgo=", image_type: "image/png" },
      { type: "image_url" as const, image_url: "data:image/gif;base64,R0lGODdh" },
      { type: "image_url" as const, image_url: "https://images.example.com/a.jpg" },
    ];
    await run(name, { messages: [message({ role: "user", content_parts: parts })] }, options);
    const text = JSON.stringify(provider.seen[0]!.body);
    for (const part of ["What's this?", "iVBORw0KGgo=", "R0lGODdh", "https://images.example.com/a.jpg"])
      expect(text).toContain(part);
    const inside = [{ type: "image_url" as const, image_url: "http://169.254.169.254/latest" }];
    await expect(
      run(name, { messages: [message({ role: "user", content_parts: inside })] }, options),
    ).rejects.toMatchObject({ code: "model_refused", message: expect.stringContaining("image_url") });
    expect(provider.seen).toHaveLength(1);
  });

  it("is sent the tool to choose, and the schema of a structured answer", async () => {
    const options = await answering(done);
    const schema = { type: "object", properties: { answer: { type: "string", description: "the-schema" } } };
    await run(name, { ...say(), structured_output: schema }, options);
    expect(JSON.stringify(provider.seen[0]!.body)).toContain("the-schema");
    for (const tool_choice of ["auto", "required", "get_weather"])
      await run(name, { ...say(), tools: [WEATHER], tool_choice }, options);
    const chosen = provider.seen
      .slice(1)
      .map(({ body }) => JSON.stringify(body.tool_choice ?? body.toolConfig ?? null));
    expect(new Set(chosen).size).toBe(3);
    expect(chosen[2]).toContain("get_weather");
  });

  it("fails with the provider's reason, whatever the status", async () => {
    const reasons = { 400: "model_refused", 401: "model_refused", 403: "model_refused", 404: "model_refused" };
    for (const [status, code] of Object.entries(reasons)) {
      // Google's and OpenAI's shape, and Anthropic's by `type`.
      const body = {
        type: "error",
        error: { type: "some_error", code: Number(status), message: `No, ${KEY} is wrong`, status: "X" },
      };
      const options = await answering(json(Number(status), body));
      await expect(run(name, say(), options)).rejects.toMatchObject({
        code,
        status: Number(status),
        retryable: false,
        message: "No, **** is wrong",
      });
      expect(provider.seen).toHaveLength(1);
      provider.close();
    }
  });
});
