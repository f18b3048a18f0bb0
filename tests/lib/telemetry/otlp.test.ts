/** Spans as a collector on this machine receives them. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it, vi } from "vitest";
import { exportSpans, type Span } from "../../../lib/telemetry/otlp.ts";

const span = (n: number): Span => ({
  ...{ trace_id: "0".repeat(31) + 1, span_id: n.toString(16).padStart(16, "0"), parent_id: null, name: "chat a" },
  ...{ kind: "client", start: 1_700_000_000_001, end: 1_700_000_000_002, error: null },
  attributes: { "gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 7, reasons: ["stop"] },
});
const spans = (count: number) => Array.from({ length: count }, (_, i) => span(i + 1));
const SECRET = "a-secret-that-no-log-has";

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
  vi.restoreAllMocks();
});

async function aCollector(answer: (response: ServerResponse) => unknown = (response) => response.end("{}")) {
  const seen: { path: string; headers: IncomingMessage["headers"]; body: any }[] = [];
  const server = createServer(async (request, response) => {
    const body = JSON.parse(await new Response(request as never).text());
    seen.push({ path: `${request.method} ${request.url}`, headers: request.headers, body });
    answer(response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closing.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return { seen, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

describe("exporting spans", () => {
  it("is a POST of OTLP's JSON below the endpoint, with the headers that were set", async () => {
    const { seen, url } = await aCollector();
    const failed = { ...span(2), parent_id: span(1).span_id, error: "tool_failed" };
    const OTEL_EXPORTER_OTLP_HEADERS = "x-api-key=one%3Dtwo, x-tenant = blue";
    await exportSpans({ OTEL_EXPORTER_OTLP_ENDPOINT: `${url}/otlp/`, OTEL_EXPORTER_OTLP_HEADERS }, [span(1), failed]);
    expect(seen.map(({ path }) => path)).toEqual(["POST /otlp/v1/traces"]);
    const [{ headers, body }] = seen as [(typeof seen)[number]];
    expect(headers).toMatchObject({ "content-type": "application/json", "x-api-key": "one=two", "x-tenant": "blue" });
    const [{ resource, scopeSpans }] = body.resourceSpans;
    expect(resource.attributes).toEqual([{ key: "service.name", value: { stringValue: "agentry" } }]);
    expect(scopeSpans[0].spans[0]).toEqual({
      ...{ traceId: "0".repeat(31) + 1, spanId: "0".repeat(15) + 1, name: "chat a", kind: 3 },
      ...{ startTimeUnixNano: "1700000000001000000", endTimeUnixNano: "1700000000002000000" },
      attributes: [
        { key: "gen_ai.operation.name", value: { stringValue: "chat" } },
        { key: "gen_ai.usage.input_tokens", value: { intValue: "7" } },
        { key: "reasons", value: { arrayValue: { values: [{ stringValue: "stop" }] } } },
      ],
    });
    expect(scopeSpans[0].spans[1]).toMatchObject({ parentSpanId: span(1).span_id, status: { code: 2 } });
  });

  it("takes many in several requests, each once", async () => {
    const { seen, url } = await aCollector();
    await exportSpans({ OTEL_EXPORTER_OTLP_ENDPOINT: url }, spans(1_200));
    const sent = seen.map(({ body }) => body.resourceSpans[0].scopeSpans[0].spans.map((one: any) => one.spanId));
    expect(sent.map(({ length }) => length)).toEqual([500, 500, 200]);
    expect(sent.flat()).toEqual(spans(1_200).map(({ span_id }) => span_id));
  });

  it("goes nowhere without an endpoint", async () => {
    const fetched = vi.spyOn(globalThis, "fetch");
    await exportSpans({}, spans(1));
    expect(fetched).not.toHaveBeenCalled();
  });

  it.each([
    ["refuses", (response: ServerResponse) => response.writeHead(500).end(SECRET), "the collector answered 500"],
    [
      "sends elsewhere",
      (response: ServerResponse) => response.writeHead(307, { Location: "/v1/elsewhere" }).end(),
      "the collector answered 307",
    ],
    ["hangs up", (response: ServerResponse) => response.destroy(), "TypeError"],
  ])("says so in the log where the collector %s, and nothing of a header or an answer", async (_, answer, why) => {
    const logged = vi.spyOn(console, "error").mockImplementation(() => {});
    const { seen, url } = await aCollector(answer);
    const OTEL_EXPORTER_OTLP_ENDPOINT = url.replace("//", `//user:${SECRET}@`);
    const headers = { OTEL_EXPORTER_OTLP_HEADERS: `authorization=Bearer ${SECRET}` };
    await exportSpans({ OTEL_EXPORTER_OTLP_ENDPOINT: url, ...headers }, spans(3));
    expect(seen).toHaveLength(1);
    await exportSpans({ OTEL_EXPORTER_OTLP_ENDPOINT, ...headers }, spans(3));
    await exportSpans({ OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_EXPORTER_OTLP_HEADERS: `a=%${SECRET}` }, spans(3));
    expect(logged.mock.calls.map(([text]) => JSON.parse(text))).toEqual([
      { telemetry: "spans were not taken", spans: 3, why },
      { telemetry: "spans were not taken", spans: 3, why: "TypeError" },
      { telemetry: "spans were not taken", spans: 3, why: "URIError" },
    ]);
  });
});
