/** A server of the Model Context Protocol, over streamable HTTP: its tools as a session offers them, and calls of them. */
import type { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { checkSchema, validateAgainst } from "../configs/json-schema.ts";
import type { Effect } from "../db/schema.ts";
import type { Egress } from "../http/egress.ts";
import { judgeUrl } from "../http/guard.ts";
import { Unusable } from "../script/template.ts";
import type { OfferedTool, PinnedServer, ToolAnswer, ToolAsk } from "./calls.ts";
import { type Auth, bearing } from "./http.ts";
import { envVar, type Values } from "./template.ts";

export const MCP_LIMITS = {
  call_ms: 60_000,
  /** To connect and to list: the model waits for it. */
  list_ms: 15_000,
  /** For so long a list is what it was, and a server that didn't answer isn't asked again. */
  listed_ms: 600_000,
  failed_ms: 30_000,
  /** Of one server. */
  tools: 128,
  schema_chars: 65_536,
  description_chars: 16_384,
  /** Of all definitions of one server. */
  chars: 524_288,
  answer_bytes: 4_000_000,
};

/** Content of an McpServer config, as its kind has checked it. */
export type McpConfig = { url: string; transport?: string; auth?: Auth; tools?: string[] };
export type McpWorld = Egress & { env: () => Values["env"] };

/** A tool as its server tells of it, within our bounds. */
type Told = { name: string; description: string; parameters: Record<string, unknown>; effect: Effect };

export class McpServer {
  readonly #config: () => Promise<McpConfig | null>;
  readonly #world: McpWorld;
  #client: Promise<Client> | undefined;
  #told: { until: number; tools: Told[] } = { until: 0, tools: [] };

  constructor(config: () => Promise<McpConfig | null>, world: McpWorld) {
    this.#config = config;
    this.#world = world;
  }

  /** Its tools, of now or of a while ago; none where it can't be reached. */
  async tools(signal: AbortSignal): Promise<Told[]> {
    if (Date.now() < this.#told.until) return this.#told.tools;
    const config = await this.#config();
    if (!config) return [];
    const bounded = AbortSignal.any([signal, AbortSignal.timeout(MCP_LIMITS.list_ms)]);
    try {
      const client = await this.#connected(config, bounded);
      const { tools } = await client.listTools(undefined, { signal: bounded, timeout: MCP_LIMITS.list_ms });
      this.#told = { until: Date.now() + MCP_LIMITS.listed_ms, tools: within(tools, config.tools) };
    } catch {
      signal.throwIfAborted();
      this.#drop();
      this.#told = { until: Date.now() + MCP_LIMITS.failed_ms, tools: [] };
    }
    return this.#told.tools;
  }

  /** Calls a tool. Whatever the server does is an answer. */
  async call(
    tool: string,
    effect: Effect,
    ask: Pick<ToolAsk, "arguments" | "idempotency_key" | "signal">,
  ): Promise<ToolAnswer> {
    const { signal } = ask;
    const config = await this.#config();
    if (!config) return { error: "The config of the tool's server isn't there any more." };
    const isStale = this.#client !== undefined;
    let sent = false;
    try {
      if (config.tools && !config.tools.includes(tool))
        return { error: `The server's tool ${tool} isn't allowed here.` };
      const connecting = AbortSignal.any([signal, AbortSignal.timeout(MCP_LIMITS.list_ms)]);
      const client = await this.#connected(config, connecting);
      sent = true;
      const headers: Record<string, string> = effect === "read" ? {} : { "idempotency-key": ask.idempotency_key };
      const timeout = { timeout: MCP_LIMITS.call_ms, maxTotalTimeout: MCP_LIMITS.call_ms };
      return answerOf(await client.callTool({ name: tool, arguments: ask.arguments }, { signal, headers, ...timeout }));
    } catch (error) {
      signal.throwIfAborted();
      const { ProtocolError, SdkHttpError } = await import("@modelcontextprotocol/client");
      if (ProtocolError.isInstance(error) && error.code !== LOST)
        return { error: `The server refused the call: ${brief(error)}` };
      this.#drop();
      const status = SdkHttpError.isInstance(error) ? error.status : null;
      // Its session with us is over: a fresh one is all that it takes.
      if (isStale && (status === 400 || status === 404)) return this.call(tool, effect, ask);
      if (status !== null && status >= 400) return { error: `The server answered HTTP ${status}.` };
      if (sent && effect === "once") return { unknown: true };
      return { error: `The server did not answer: ${brief(error)}` };
    }
  }

  /** Why it can't be reached now, as a sentence; null where it answers. */
  async fault(signal: AbortSignal): Promise<string | null> {
    const config = await this.#config();
    if (!config) return "The server's config isn't there any more.";
    try {
      await this.#connected(config, AbortSignal.any([signal, AbortSignal.timeout(MCP_LIMITS.list_ms)]));
      return null;
    } catch (error) {
      signal.throwIfAborted();
      return `The server did not answer: ${brief(error)}`;
    } finally {
      this.#drop();
    }
  }

  #drop() {
    const client = this.#client;
    this.#client = undefined;
    void client?.then((one) => one.close()).catch(() => {});
  }

  /** One connection for all calls; no stream stays open between them. */
  #connected(config: McpConfig, signal: AbortSignal): Promise<Client> {
    this.#client ??= this.#connect(config, signal).catch((error) => {
      this.#client = undefined;
      throw error;
    });
    return this.#client;
  }

  async #connect({ url, transport = "streamable_http", auth }: McpConfig, signal: AbortSignal): Promise<Client> {
    if (transport !== "streamable_http") throw new Unusable(`the transport ${transport} is not supported`);
    const verdict = judgeUrl(url, this.#world);
    if ("refused" in verdict) throw new Unusable(`its address is refused: ${verdict.refused}`);
    // Evaluated when a session first has a server: it is large.
    const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
    const client = new Client(
      { name: "agentry", version: "1" },
      { jsonSchemaValidator: validator, versionNegotiation: { mode: "auto" } },
    );
    client.setNotificationHandler("notifications/tools/list_changed", () => {
      this.#told = { until: 0, tools: this.#told.tools };
    });
    const way = new StreamableHTTPClientTransport(verdict.url, {
      fetch: fetchOf(verdict.url.origin, auth, this.#world),
      reconnectionOptions: {
        ...{ maxRetries: 2, initialReconnectionDelay: 1000, maxReconnectionDelay: 5000 },
        reconnectionDelayGrowFactor: 2,
      },
    });
    endLost(way);
    await client.connect(way, { signal, timeout: MCP_LIMITS.list_ms });
    return client;
  }
}

/** The code of an error that no server has sent. */
const LOST = -32_099;

/** Ends requests whose stream has ended without their answer: the client itself would wait for its time to be over. */
function endLost(way: StreamableHTTPClientTransport) {
  const send = way.send.bind(way);
  way.send = (message, options) => {
    const error = { code: LOST, message: "the connection was lost" };
    const onRequestStreamEnd = () => {
      for (const one of [message].flat()) {
        // One that was answered is not waited for any more, and so isn't ended.
        if ("id" in one && one.id !== undefined) way.onmessage?.({ jsonrpc: "2.0", id: one.id, error });
      }
    };
    return send(message, { ...options, onRequestStreamEnd });
  };
}

/** What the client sends by: the guard, one origin, the secret, and a bound on what comes back. */
function fetchOf(origin: string, auth: Auth | undefined, { env, ...egress }: McpWorld): typeof fetch {
  return async (input, init = {}) => {
    const url = new URL(input instanceof Request ? input.url : String(input));
    const verdict = judgeUrl(url.href, egress);
    if ("refused" in verdict) throw new Unusable(`its address is refused: ${verdict.refused}`);
    if (url.origin !== origin) throw new Unusable("it leads to another origin");
    const headers = new Headers(init.headers);
    // A stream for what the server has to say by itself would keep the session's object awake.
    if ((init.method ?? "GET") === "GET" && !headers.has("last-event-id")) return new Response(null, { status: 405 });
    if (auth) {
      const secret = envVar({ env: env() }, auth.env_var);
      if (auth.as === "query") url.searchParams.set(auth.name!, secret);
      else headers.set(auth.as === "header" ? auth.name! : "authorization", bearing(auth, secret));
    }
    const sent = { ...init, headers: Object.fromEntries(headers), redirect: "manual" } as const;
    const response = await egress.fetch(url.href, sent).catch(() => {
      // What a platform says of it names inner addresses at times.
      throw new Error("it can't be reached");
    });
    return bounded(response);
  };
}

function bounded(response: Response): Response {
  if (!response.body) return response;
  const { status, statusText } = response;
  const headers = new Headers(response.headers);
  // What fetch gives is decoded.
  for (const name of ["content-encoding", "content-length"]) headers.delete(name);
  let left = MCP_LIMITS.answer_bytes;
  const count = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      left -= chunk.byteLength;
      if (left < 0) throw new Error("it answers more than is taken");
      controller.enqueue(chunk);
    },
  });
  return new Response(response.body.pipeThrough(count), { status, statusText, headers });
}

/** A server's schemas are a stranger's: they are held to the bounds of all schemas here, and what isn't within them isn't asked. */
const validator = {
  getValidator:
    <T>(schema: object) =>
    (input: unknown) => {
      const [fault] = checkSchema(schema).length ? [] : validateAgainst(schema, input);
      return fault
        ? { valid: false as const, data: undefined, errorMessage: `${fault.pointer} ${fault.message}` }
        : { valid: true as const, data: input as T, errorMessage: undefined };
    },
};

type Listed = Awaited<ReturnType<Client["listTools"]>>["tools"];

/** The tools that the config allows, as far as the bounds reach: in the server's order, so that it is the same each time. */
function within(listed: Listed, allowed: string[] | undefined): Told[] {
  const tools: Told[] = [];
  let left = MCP_LIMITS.chars;
  for (const { name, title, description, inputSchema, annotations = {} } of listed) {
    if (tools.length >= MCP_LIMITS.tools) break;
    if (allowed && !allowed.includes(name)) continue;
    const schema = JSON.stringify(inputSchema);
    const says = (description ?? title ?? name).slice(0, MCP_LIMITS.description_chars).toWellFormed();
    if (schema.length > MCP_LIMITS.schema_chars || name.length > 1000) continue;
    left -= schema.length + says.length;
    if (left < 0) break;
    const effect = annotations.readOnlyHint ? "read" : annotations.idempotentHint ? "idempotent" : "once";
    tools.push({ name, description: says, parameters: inputSchema as Told["parameters"], effect });
  }
  return tools;
}

/** As the model calls them. Of two that would have one name, the first has it; none has one of ours. */
export function offeredOf(
  server: PinnedServer,
  tools: readonly Told[],
  taken: Set<string>,
  reserved: ReadonlySet<string>,
): OfferedTool[] {
  const { prefix, instruction, approval, config } = server;
  return tools.flatMap(({ name: tool, description, parameters, effect }) => {
    const name = `${prefix ? `${prefix}_` : ""}${tool}`.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, 64);
    if (!name || taken.has(name) || reserved.has(name)) return [];
    taken.add(name);
    const says = instruction ? `${description}\n\n${instruction}` : description;
    const handler = { type: "mcp", config, tool } as const;
    return [{ name, description: says, parameters, approval, effect: server.effect ?? effect, async: false, handler }];
  });
}

type Result = Awaited<ReturnType<Client["callTool"]>>;

function answerOf({ content, structuredContent, isError }: Result): ToolAnswer {
  const text = content
    .map((part) => {
      if (part.type === "text") return part.text;
      if (part.type === "resource") return "text" in part.resource ? part.resource.text : `[${part.resource.uri}]`;
      return part.type === "resource_link" ? `[${part.uri}]` : `[${part.type}: ${part.mimeType}]`;
    })
    .join("\n");
  if (isError) return { error: text || "The server says that the call failed." };
  const resolution = structuredContent ?? null;
  return { ok: { content: text === "" && resolution !== null ? null : text, resolution } };
}

const brief = (error: unknown) => `${error instanceof Error ? error.message : "no reason is known"}`.slice(0, 500);
