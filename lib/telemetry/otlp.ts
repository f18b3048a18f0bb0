/** Spans on their way to whoever collects them: OTLP over HTTP, as JSON. */
import type { Telemetry } from "../env.ts";

type Attribute = string | number | readonly string[];
export type Span = {
  /** Hexadecimal, of 16 and 8 bytes. Made of the session's id and of sequences: what is sent twice is one span. */
  trace_id: string;
  span_id: string;
  parent_id: string | null;
  name: string;
  kind: "internal" | "client";
  /** Milliseconds. */
  start: number;
  end: number;
  attributes: Record<string, Attribute>;
  /** The kind of failure; null where there was none. */
  error: string | null;
};

const TIMEOUT_MS = 10_000;
/** So many go in one request: some 400 KB. */
const BATCH = 500;

/**
 * Sends them where the installation says; nowhere, if it doesn't. Never throws, and doesn't try again: what a collector
 * missed stands in the journal.
 */
export async function exportSpans(env: Telemetry, spans: readonly Span[]): Promise<void> {
  const endpoint = env.OTEL_EXPORTER_OTLP_ENDPOINT?.trim();
  if (!endpoint) return;
  for (let i = 0; i < spans.length; i += BATCH) {
    try {
      const response = await fetch(`${endpoint.replace(/\/+$/, "")}/v1/traces`, {
        method: "POST",
        headers: { ...headersOf(env.OTEL_EXPORTER_OTLP_HEADERS), "Content-Type": "application/json" },
        body: JSON.stringify(requestOf(spans.slice(i, i + BATCH))),
        // The headers hold a key: it goes nowhere else.
        redirect: "manual",
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      await response.body?.cancel();
      if (!response.ok) throw new Error(`the collector answered ${response.status}`);
    } catch (error) {
      // A platform's own words may quote an address or a header.
      const { name, message } = error as Error;
      const why = message.startsWith("the collector answered") ? message : name;
      console.error(JSON.stringify({ telemetry: "spans were not taken", spans: spans.length - i, why }));
      return;
    }
  }
}

/** `name=value,name=value`, the values percent-encoded, as OpenTelemetry has them. */
const headersOf = (text = "") =>
  Object.fromEntries(
    text
      .split(",")
      .map((pair) => pair.split(/=(.*)/s).map((part) => part.trim()))
      .filter(([name]) => name)
      .map(([name, value = ""]) => [name, decodeURIComponent(value)]),
  );

const KINDS = { internal: 1, client: 3 };
const FAILED = 2;

const requestOf = (spans: readonly Span[]) => ({
  resourceSpans: [
    {
      resource: { attributes: attributesOf({ "service.name": "agentry" }) },
      scopeSpans: [
        {
          scope: { name: "agentry" },
          spans: spans.map(({ trace_id, span_id, parent_id, name, kind, start, end, attributes, error }) => ({
            traceId: trace_id,
            spanId: span_id,
            ...(parent_id && { parentSpanId: parent_id }),
            name,
            kind: KINDS[kind],
            startTimeUnixNano: `${start}000000`,
            endTimeUnixNano: `${end}000000`,
            attributes: attributesOf(attributes),
            ...(error && { status: { code: FAILED } }),
          })),
        },
      ],
    },
  ],
});

const attributesOf = (attributes: Span["attributes"]) =>
  Object.entries(attributes).map(([key, value]) => ({ key, value: valueAs(value) }));

function valueAs(value: Span["attributes"][string]): object {
  if (typeof value === "string") return { stringValue: value };
  if (typeof value === "number") return { intValue: String(value) };
  return { arrayValue: { values: value.map(valueAs) } };
}
