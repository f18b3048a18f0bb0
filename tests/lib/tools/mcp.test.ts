import type { ServerResponse } from "node:http";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import type { OfferedTool, PinnedServer } from "../../../lib/tools/calls.ts";
import { reservedNames } from "../../../lib/tools/catalog.ts";
import { MCP_LIMITS, type McpConfig, McpServer, offeredOf } from "../../../lib/tools/mcp.ts";
import { anIsolate } from "../script/isolate.ts";
import { everything } from "./everything.ts";
import { bundled } from "./mcp-isolate.ts";
import { type Asked, anAsk, aServer, open } from "./support.ts";

const SECRET = "a-secret-of-the-agent";
const signal = new AbortController().signal;
const serverOf = (config: McpConfig, way = open) =>
  new McpServer(async () => config, { ...way, env: () => ({ KEY: SECRET }) });

describe("the protocol's reference server", () => {
  let real: Awaited<ReturnType<typeof everything>>;
  let code: Awaited<ReturnType<typeof bundled>>;
  let isolate: Awaited<ReturnType<typeof anIsolate>>;
  beforeAll(async () => {
    real = await everything();
    code = await bundled();
    isolate = await anIsolate(code.folder);
  }, 60_000);
  afterAll(async () => {
    await isolate.close();
    await code.close();
    await real.close();
  });

  const calls: [tool: string, args: Record<string, unknown>, gives: object][] = [
    ["echo", { message: "hi" }, { ok: { content: "Echo: hi", resolution: null } }],
    ["get-sum", { a: 1, b: 2 }, { ok: { content: "The sum of 1 and 2 is 3.", resolution: null } }],
    [
      "get-structured-content",
      { location: "New York" },
      { ok: { content: expect.any(String), resolution: { conditions: "Cloudy", humidity: 82, temperature: 33 } } },
    ],
    ["get-tiny-image", {}, { ok: { content: expect.stringContaining("[image: image/png]"), resolution: null } }],
    ["echo", {}, { error: expect.stringContaining("Invalid arguments for tool echo") }],
    ["nothing", {}, { error: expect.stringContaining("not found") }],
  ];
  it("tells of its tools and is called, from Node", async () => {
    const server = serverOf({ url: real.url });
    const tools = await server.tools(signal);
    expect(tools.map(({ name, effect }) => [name, effect])).toEqual(
      expect.arrayContaining([
        ["echo", "read"],
        ["gzip-file-as-resource", "idempotent"],
        ["toggle-simulated-logging", "once"],
      ]),
    );
    for (const [tool, args, gives] of calls) expect(await server.call(tool, "once", anAsk(args).ask)).toEqual(gives);
  });
  it("does so from workerd", async () => {
    const ask = calls.map(([tool, args]) => ({ tool, args }));
    const { tools, answers } = await isolate.ask({ url: real.url, calls: ask } as never);
    expect(tools).toContain("echo");
    expect(answers).toEqual(calls.map(([, , gives]) => gives));
  });
});

type Message = { id?: number; method: string; params?: { name?: string; arguments?: Record<string, unknown> } };
let fakes: Awaited<ReturnType<typeof aServer>>[] = [];
afterEach(async () => {
  vi.useRealTimers();
  await Promise.all(fakes.map((fake) => fake.close()));
  fakes = [];
});

/** A server of the protocol that does as it is told; `seen` are the messages that it got. */
async function aFake({
  tools = [aTool("t")],
  onCall,
}: {
  tools?: object[];
  onCall?: (response: ServerResponse, message: Message, asked: Asked) => boolean;
} = {}) {
  const seen: Message[] = [];
  const state = { tools };
  const fake = await aServer((asked, response) => {
    if (asked.method !== "POST") return void response.writeHead(405).end();
    const message = JSON.parse(asked.body) as Message;
    seen.push(message);
    const answer = (body: object) => {
      response.setHeader("Content-Type", "application/json");
      response.end(JSON.stringify({ jsonrpc: "2.0", id: message.id, ...body }));
    };
    if (message.id === undefined) return void response.writeHead(202).end();
    if (message.method === "initialize") {
      return answer({
        result: {
          protocolVersion: "2025-06-18",
          capabilities: { tools: { listChanged: true } },
          serverInfo: { name: "fake", version: "1" },
        },
      });
    }
    if (message.method === "tools/list") return answer({ result: { tools: state.tools } });
    if (message.method === "tools/call") {
      if (onCall?.(response, message, asked)) return;
      return answer({ result: { content: [{ type: "text", text: "done" }] } });
    }
    answer({ error: { code: -32601, message: "Method not found" } });
  });
  fakes.push(fake);
  const count = (method: string) => seen.filter((one) => one.method === method).length;
  return { ...fake, url: `${fake.base}/mcp`, seen, state, count };
}
const aTool = (name: string, more: object = {}) => ({ name, inputSchema: { type: "object" }, ...more });

describe("a server", () => {
  it("is asked for its tools once, again after a while, and when it says that they have changed", async () => {
    const fake = await aFake({
      onCall: (response, { id }) => {
        const note = { jsonrpc: "2.0", method: "notifications/tools/list_changed" };
        const result = { jsonrpc: "2.0", id, result: { content: [] } };
        response.setHeader("Content-Type", "text/event-stream");
        for (const one of [note, result]) response.write(`event: message\ndata: ${JSON.stringify(one)}\n\n`);
        response.end();
        return true;
      },
    });
    const server = serverOf({ url: fake.url });
    for (const _ of [1, 2]) expect(await server.tools(signal)).toMatchObject([{ name: "t" }]);
    expect(fake.count("tools/list")).toBe(1);
    fake.state.tools = [aTool("u")];
    expect(await server.call("t", "once", anAsk().ask)).toEqual({ ok: { content: "", resolution: null } });
    await vi.waitFor(async () => expect(await server.tools(signal)).toMatchObject([{ name: "u" }]));
    expect(fake.count("tools/list")).toBe(2);
    vi.useFakeTimers({ now: Date.now() + MCP_LIMITS.listed_ms + 1, toFake: ["Date"] });
    await server.tools(signal);
    expect([fake.count("tools/list"), fake.count("initialize")]).toEqual([3, 1]);
  });

  it("that can't be reached offers nothing for a while, and is asked again then", async () => {
    const fake = await aFake();
    const { url } = fake;
    let isUp = false;
    const way = {
      ...open,
      fetch: (to: string, init: RequestInit) => (isUp ? fetch(to, init) : Promise.reject(Error("10.0.0.1"))),
    };
    const server = serverOf({ url }, way);
    expect(await server.tools(signal)).toEqual([]);
    expect(await server.call("t", "once", anAsk().ask)).toEqual({ error: expect.not.stringContaining("10.0.0.1") });
    isUp = true;
    expect(await server.tools(signal)).toEqual([]);
    vi.useFakeTimers({ now: Date.now() + MCP_LIMITS.failed_ms + 1, toFake: ["Date"] });
    expect(await server.tools(signal)).toMatchObject([{ name: "t" }]);
  });

  it("is reached through the guard, gets the secret, and no other origin does", async () => {
    for (const url of ["http://127.0.0.1:1/mcp", "http://169.254.169.254/", "http://10.0.0.1/", "http://metadata/"]) {
      const server = serverOf(
        { url, auth: { env_var: "KEY", as: "bearer" } },
        { ...open, loopback: false, fetch: () => expect.unreachable() },
      );
      expect(await server.tools(signal)).toEqual([]);
      expect(await server.call("t", "once", anAsk().ask)).toEqual({ error: expect.stringContaining("refused") });
    }
    const fake = await aFake();
    for (const auth of [
      { env_var: "KEY", as: "bearer" },
      { env_var: "KEY", as: "header", name: "X-Key" },
      { env_var: "KEY", as: "query", name: "key" },
    ] as const) {
      fake.asked.length = 0;
      expect(await serverOf({ url: fake.url, auth }).call("t", "once", anAsk().ask)).toHaveProperty("ok");
      for (const { url, headers } of fake.asked) {
        const sent = {
          bearer: headers.authorization,
          header: headers["x-key"],
          query: new URL(url, "http://a").searchParams.get("key"),
        };
        expect(sent[auth.as]).toBe(auth.as === "bearer" ? `Bearer ${SECRET}` : SECRET);
      }
    }
    const away = await aServer();
    const redirecting = await aServer((_, response) => void response.writeHead(307, { Location: away.base }).end());
    fakes.push(away, redirecting);
    const server = serverOf({ url: redirecting.base, auth: { env_var: "KEY", as: "bearer" } });
    expect(await server.tools(signal)).toEqual([]);
    expect(await server.call("t", "read", anAsk().ask)).toHaveProperty("error");
    expect([redirecting.asked.length > 0, away.asked]).toEqual([true, []]);
  });

  it("opens no stream of its own, and gets the session's key with what changes something", async () => {
    const fake = await aFake();
    const server = serverOf({ url: fake.url });
    for (const effect of ["once", "idempotent", "read"] as const) await server.call("t", effect, anAsk().ask);
    expect(fake.asked.filter(({ method }) => method !== "POST")).toEqual([]);
    const calls = fake.asked.filter(({ body }) => body.includes("tools/call"));
    expect(calls.map(({ headers }) => headers["idempotency-key"])).toEqual(["key-1", "key-1", undefined]);
  });

  it("is called for no tool that its config doesn't name", async () => {
    const fake = await aFake({ tools: [aTool("a"), aTool("b")] });
    const server = serverOf({ url: fake.url, tools: ["b"] });
    expect(await server.tools(signal)).toMatchObject([{ name: "b" }]);
    expect(await server.call("a", "once", anAsk().ask)).toEqual({ error: expect.stringContaining("isn't allowed") });
    expect(fake.count("tools/call")).toBe(0);
  });

  it("that loses a call leaves unknown what was to happen once, and is an error of all else", async () => {
    const lose: ((response: ServerResponse) => void)[] = [
      (response) => response.socket!.destroy(),
      (response) =>
        void response
          .writeHead(200, { "Content-Type": "text/event-stream" })
          .write(": nothing\n\n", () => response.socket!.destroy()),
      (response) => response.end("not JSON"),
    ];
    for (const how of lose) {
      const fake = await aFake({
        onCall: (response) => {
          how(response);
          return true;
        },
      });
      for (const effect of ["once", "read"] as const) {
        const answer = await serverOf({ url: fake.url }).call("t", effect, anAsk().ask);
        expect(answer).toEqual(effect === "once" ? { unknown: true } : { error: expect.any(String) });
        expect(fake.count("tools/call")).toBe(effect === "once" ? 1 : 2);
      }
    }
  });

  it("that has forgotten the session is greeted anew, and called once", async () => {
    let forgets = false;
    const fake = await aFake({
      onCall: (response) => {
        if (!forgets) return false;
        forgets = false;
        response.writeHead(404).end();
        return true;
      },
    });
    const server = serverOf({ url: fake.url });
    await server.tools(signal);
    forgets = true;
    expect(await server.call("t", "once", anAsk().ask)).toEqual({ ok: { content: "done", resolution: null } });
    expect([fake.count("initialize"), fake.count("tools/call")]).toEqual([2, 2]);
  });

  it("says what went wrong, as an error to the model", async () => {
    const fake = await aFake({
      onCall: (response, { id, params }) => {
        if (params!.name === "status") {
          response.writeHead(403).end("no");
          return true;
        }
        response.setHeader("Content-Type", "application/json");
        const body =
          params!.name === "isError"
            ? { result: { isError: true, content: [{ type: "text", text: "it is closed" }] } }
            : { error: { code: -32000, message: "not today" } };
        response.end(JSON.stringify({ jsonrpc: "2.0", id, ...body }));
        return true;
      },
    });
    const server = serverOf({ url: fake.url });
    const call = (tool: string) => server.call(tool, "once", anAsk().ask);
    expect(await call("isError")).toEqual({ error: "it is closed" });
    expect(await call("refuses")).toEqual({ error: expect.stringContaining("not today") });
    expect(await call("status")).toEqual({ error: "The server answered HTTP 403." });
    expect(await serverOf({ url: fake.url, transport: "sse" }).call("t", "once", anAsk().ask)).toEqual({
      error: expect.stringContaining("the transport sse is not supported"),
    });
  });

  it("stops with the session, which learns why", async () => {
    const fake = await aFake({ onCall: () => true });
    const stop = new AbortController();
    const calling = serverOf({ url: fake.url }).call("t", "once", anAsk({}, { signal: stop.signal }).ask);
    await vi.waitFor(() => expect(fake.count("tools/call")).toBe(1));
    stop.abort(new Error("cancelled"));
    await expect(calling).rejects.toThrow("cancelled");
  });

  it("answers no more than is taken", async () => {
    const fake = await aFake({
      onCall: (response, { id }) => {
        const text = "x".repeat(MCP_LIMITS.answer_bytes);
        response.setHeader("Content-Type", "application/json");
        response.end(JSON.stringify({ jsonrpc: "2.0", id, result: { content: [{ type: "text", text }] } }));
        return true;
      },
    });
    expect(await serverOf({ url: fake.url }).call("t", "read", anAsk().ask)).toHaveProperty("error");
  });
});

describe("a server's tools", () => {
  const pinned = (more: Partial<PinnedServer> = {}): PinnedServer => ({
    ...{ tool_id: "atl_1", prefix: null, instruction: null, effect: null, approval: "none" },
    config: { id: "cfg_1", version: 1 },
    ...more,
  });
  const offered = async (
    tools: object[],
    more: Partial<PinnedServer> = {},
    taken: string[] = [],
  ): Promise<OfferedTool[]> => {
    const fake = await aFake({ tools });
    return offeredOf(pinned(more), await serverOf({ url: fake.url }).tools(signal), new Set(taken), reservedNames);
  };

  it("have names that a model can call, each once, none of ours, and the server's own to call by", async () => {
    const long = "x".repeat(80);
    const names = ["a.b/c", "a-b-c", "a_b_c", "finish", "memory_store", "mine", long, "ü"];
    const tools = await offered(
      names.map((name) => aTool(name)),
      {},
      ["mine"],
    );
    expect(tools.map(({ name, handler }) => [name, handler.type === "mcp" && handler.tool])).toEqual([
      ["a_b_c", "a.b/c"],
      ["a-b-c", "a-b-c"],
      [long.slice(0, 64), long],
      ["_", "ü"],
    ]);
    const prefixed = await offered([aTool("finish")], { prefix: "shop", instruction: "Ask before." });
    expect(prefixed).toMatchObject([{ name: "shop_finish", description: "finish\n\nAsk before." }]);
  });

  it("have the effect of the record, or what the server says where that says none", async () => {
    const tools = [
      aTool("r", { annotations: { readOnlyHint: true } }),
      aTool("i", { annotations: { idempotentHint: true } }),
      aTool("o"),
    ];
    expect((await offered(tools)).map(({ effect }) => effect)).toEqual(["read", "idempotent", "once"]);
    expect((await offered(tools, { effect: "once" })).map(({ effect }) => effect)).toEqual(["once", "once", "once"]);
  });

  it("are bounded in number and size", async () => {
    const huge = { type: "object", description: "x".repeat(MCP_LIMITS.schema_chars) };
    const many = Array.from({ length: 300 }, (_, i) => aTool(`t${i}`));
    expect(await offered(many)).toHaveLength(MCP_LIMITS.tools);
    const [only] = await offered([
      aTool("huge", { inputSchema: huge }),
      aTool("talks", { description: "y".repeat(100_000) }),
    ]);
    expect([only!.name, only!.description.length]).toEqual(["talks", MCP_LIMITS.description_chars]);
    const talking = await offered(many.map((tool) => ({ ...tool, description: "y".repeat(16_000) })));
    expect(talking.length).toBeLessThan(35);
  });
});
