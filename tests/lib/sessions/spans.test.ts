/** A session's frames as spans: their names, their attributes, and nothing of what was said. */
import { describe, expect, it } from "vitest";
import { newId } from "../../../lib/ids.ts";
import type { SessionEvent, SessionFrame } from "../../../lib/sessions/frames.ts";
import { spansOf } from "../../../lib/sessions/spans.ts";

const about = { session: newId("agent_session"), agent: newId("agent"), app: newId("app"), org: newId("org") };
const SAID = "what nobody else may read";

/** A frame a second, from 12:00:00 on. */
const framesOf = (...events: Record<string, unknown>[]): SessionFrame[] =>
  events.map((event, i) => ({
    ...{ sequence: i + 1, at: new Date(Date.UTC(2026, 10, 22, 12, 0, i)).toISOString(), turn: 1 },
    ...(event as SessionEvent & { turn: 1 }),
  }));
const at = (second: number) => Date.UTC(2026, 10, 22, 12, 0, second);
const status = (status: string, error: string | null = null) => ({ type: "session.status", status, error }) as const;
const started = {
  ...{ type: "model.started", model: "openai/gpt-5", prompt: { messages: 1, characters: 9 }, inbox: 0 },
  ...{ attempt: 1, request_hash: "00" },
} as const;
const message = {
  role: "assistant",
  content: SAID,
  content_parts: null,
  tool_calls: null,
  tool_results: null,
} as const;
const completed = {
  ...{ type: "model.completed", model: "openai/gpt-5", finish_reason: "tool_calls", provider_ids: {}, deltas: null },
  message: { ...message, resume_token: null, structured_output: null },
  usage: { input_tokens: 7, output_tokens: 3, cached_tokens: null, reasoning_tokens: null },
  unreadable_arguments: { c: SAID },
} as const;
const called = (call: string) =>
  ({
    ...{ type: "tool.called", call, name: "look_up", arguments: { order: SAID }, arguments_hash: "00" },
    ...{ effect: "once", idempotency_key: "k", attempt: 1, async: false, waits: null },
  }) as const;
const answered = (call: string) =>
  ({
    ...{ type: "tool.completed", call, name: "look_up", message: null, duration_ms: 400 },
    result: { content: SAID, resolution: { order: SAID } },
  }) as const;
const failed = (call: string) =>
  ({ type: "tool.failed", call, name: "look_up", error: SAID, duration_ms: 100 }) as const;
const unknown = (call: string) => ({ type: "tool.unknown", call, name: "look_up" }) as const;

const turn = framesOf(status("running"), started, completed, called("c"), answered("c"), status("waiting"));

describe("a session's spans", () => {
  it("are an invocation of the agent, and in it the model's call and the tool's", () => {
    const spans = spansOf(turn, about);
    const [chat, tool, invoked] = spans;
    expect(spans.map(({ name, kind, start, end, error }) => [name, kind, start, end, error])).toEqual([
      ["chat gpt-5", "client", at(1), at(2), null],
      ["execute_tool look_up", "internal", at(4) - 400, at(4), null],
      ["invoke_agent", "internal", at(0), at(5), null],
    ]);
    expect(new Set(spans.map(({ trace_id }) => trace_id)).size).toBe(1);
    expect([chat!.parent_id, tool!.parent_id, invoked!.parent_id]).toEqual([invoked!.span_id, invoked!.span_id, null]);
    const common = {
      ...{ "gen_ai.conversation.id": about.session, "gen_ai.agent.id": about.agent },
      ...{ "agentry.app.id": about.app, "agentry.org.id": about.org },
    };
    expect(chat!.attributes).toEqual({
      ...common,
      ...{ "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-5" },
      ...{ "gen_ai.response.finish_reasons": ["tool_calls"] },
      ...{ "gen_ai.usage.input_tokens": 7, "gen_ai.usage.output_tokens": 3 },
    });
    expect(tool!.attributes).toEqual({
      ...common,
      ...{ "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look_up", "gen_ai.tool.call.id": "c" },
    });
    expect(invoked!.attributes).toEqual({ ...common, "gen_ai.operation.name": "invoke_agent" });
  });

  it("have the same ids when they are made again, and others in another session", () => {
    const ids = (session: string) =>
      spansOf(turn, { ...about, session }).map(({ trace_id, span_id }) => trace_id + span_id);
    expect(ids(about.session)).toEqual(ids(about.session));
    const all = [...ids(about.session), ...ids(newId("agent_session"))];
    for (const id of all) expect(id).toMatch(/^[0-9a-f]{48}$/);
    expect(new Set(all.map((id) => id.slice(32))).size).toBe(6);
  });

  it("tell failures by their kind", () => {
    const frames = framesOf(
      ...[status("running"), called("a"), failed("a"), called("b"), unknown("b"), started],
      status("failed", `model_rate_limited: ${SAID}`),
    );
    const found = spansOf(frames, about).map(({ name, start, end, error, attributes }) => [
      ...[name, start, end, error, attributes["error.type"]],
    ]);
    expect(found).toEqual([
      ["execute_tool look_up", at(2) - 100, at(2), "tool_failed", "tool_failed"],
      ["execute_tool look_up", at(3), at(4), "outcome_unknown", "outcome_unknown"],
      ["chat gpt-5", at(5), at(6), "model_rate_limited", "model_rate_limited"],
      ["invoke_agent", at(0), at(6), "model_rate_limited", "model_rate_limited"],
    ]);
    const odd = framesOf(status("running"), status("failed", "Some words of a provider's"));
    expect(spansOf(odd, about)[0]!.error).toBe("_OTHER");
  });

  it("leave out what hasn't ended, and say nothing of what was said", () => {
    expect(spansOf(turn.slice(0, 2), about)).toEqual([]);
    expect(spansOf(turn.slice(0, 4), about).map(({ name }) => name)).toEqual(["chat gpt-5"]);
    const all = framesOf(status("running"), started, completed, called("a"), failed("a"), called("b"), answered("b"));
    const text = JSON.stringify(spansOf([...all, ...turn.slice(5)], about));
    expect(text).toContain("look_up");
    expect(text).not.toContain(SAID);
  });
});
