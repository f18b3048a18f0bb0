/**
 * What a session did, as OpenTelemetry's conventions for generative AI name it: `invoke_agent` for as long as it runs at
 * a stretch, and in it each model call and each tool call. Nothing of what was said, asked or answered stands in a span.
 */
import { uuidOf } from "../ids.ts";
import type { Span } from "../telemetry/otlp.ts";
import type { SessionFrame } from "./frames.ts";

export type About = { session: string; agent: string; app: string; org: string };

/**
 * A span for whatever ended in these frames. They begin where the session began to run, or a parent is missing; a call
 * that went on since before then is there with its whole length.
 */
export function spansOf(frames: Iterable<SessionFrame>, about: About): Span[] {
  const id = uuidOf(about.session);
  const common = {
    "gen_ai.conversation.id": about.session,
    "gen_ai.agent.id": about.agent,
    "agentry.app.id": about.app,
    "agentry.org.id": about.org,
  };
  const spans: Span[] = [];
  let run: { id: string; start: number } | null = null;
  let model: { name: string; start: number } | null = null;
  const called = new Map<string, number>();

  const add = (
    of: Pick<Span, "name" | "kind" | "start" | "end" | "error"> & { span_id: string },
    operation: string,
  ) => {
    const attributes: Span["attributes"] = { ...common, "gen_ai.operation.name": operation };
    if (of.error) attributes["error.type"] = of.error;
    const parent_id = run && run.id !== of.span_id ? run.id : null;
    spans.push({ trace_id: hex(id), parent_id, attributes, ...of });
    return attributes;
  };
  const addChat = (frame: SessionFrame, of: { name: string; start: number }, error: string | null) => {
    const [, provider = of.name, asked = of.name] = /^([^/]*)\/(.*)$/s.exec(of.name) ?? [];
    const span_id = spanId(id, frame.sequence);
    const chat = { span_id, name: `chat ${asked}`, kind: "client" as const, start: of.start, end: ms(frame), error };
    return Object.assign(add(chat, "chat"), { "gen_ai.provider.name": provider, "gen_ai.request.model": asked });
  };

  for (const frame of frames) {
    switch (frame.type) {
      case "session.status": {
        const { status, error } = frame;
        if (status === "running") {
          run = { id: spanId(id, frame.sequence), start: ms(frame) };
          break;
        }
        const failure = status === "failed" ? typeOf(error) : null;
        if (model) addChat(frame, model, failure ?? status);
        model = null;
        if (run) {
          const invoked = { span_id: run.id, name: "invoke_agent", kind: "internal" as const, start: run.start };
          add({ ...invoked, end: ms(frame), error: failure }, "invoke_agent");
        }
        run = null;
        break;
      }
      case "model.started":
        model = { name: frame.model, start: ms(frame) };
        break;
      case "model.completed": {
        const { usage } = frame;
        const attributes = addChat(frame, model ?? { name: frame.model, start: ms(frame) }, null);
        attributes["gen_ai.response.finish_reasons"] = [frame.finish_reason];
        const used = { input_tokens: usage?.input_tokens, output_tokens: usage?.output_tokens };
        for (const [name, tokens] of Object.entries(used)) {
          if (typeof tokens === "number") attributes[`gen_ai.usage.${name}`] = tokens;
        }
        model = null;
        break;
      }
      case "tool.called":
        called.set(frame.call, ms(frame));
        break;
      case "tool.completed":
      case "tool.failed":
      case "tool.unknown": {
        const end = ms(frame);
        const start = "duration_ms" in frame ? end - frame.duration_ms : (called.get(frame.call) ?? end);
        const error = { "tool.completed": null, "tool.failed": "tool_failed", "tool.unknown": "outcome_unknown" }[
          frame.type
        ];
        const span_id = spanId(id, frame.sequence);
        const tool = { span_id, name: `execute_tool ${frame.name}`, kind: "internal" as const, start, end, error };
        Object.assign(add(tool, "execute_tool"), { "gen_ai.tool.name": frame.name, "gen_ai.tool.call.id": frame.call });
        break;
      }
    }
  }
  return spans;
}

const ms = ({ at }: SessionFrame) => Date.parse(at);

/** What an error begins with, a limit's name or a code; of the rest there would be as many kinds as errors. */
const typeOf = (error: string | null) => /^[a-z][a-z_]*(?=:|$)/.exec(error ?? "")?.[0] ?? "_OTHER";

const hex = (id: bigint) => id.toString(16).padStart(32, "0");
/** Of the UUID's random half, so that no two sessions share one. */
const spanId = (id: bigint, sequence: number) =>
  (BigInt.asUintN(64, id) ^ BigInt(sequence)).toString(16).padStart(16, "0");
