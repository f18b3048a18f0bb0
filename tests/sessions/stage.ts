/**
 * A system of its own whose runtime is killed and comes back, over a database that stays up; an endpoint on this machine
 * that agents' tools call, and that keeps count; and sessions of a scripted model that call it.
 */
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type ServerResponse } from "node:http";
import { type AddressInfo, createServer as createProbe } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { childrenOf } from "../../bench/processes.ts";
import type { Effect } from "../../lib/db/schema.ts";
import type { Models, Telemetry } from "../../lib/env.ts";
import type { Database } from "../../lib/local/neon.ts";
import type { SessionFrame } from "../../lib/sessions/frames.ts";
import { openDatabase } from "../harness/database.ts";
import { anAgent, anApp, bearer, caller, must, unique } from "../harness/index.ts";
import { newRoot, newSigningKey, ownSystem } from "../harness/own.ts";

/** How often the long tests do what they do: all of it under `npm run test:soak`, little of it else. */
export const SOAK = process.env.SOAK === "1";

export const wait = (ms: number) => new Promise<void>((done) => setTimeout(done, ms));

/** Asks again and again until there is an answer that isn't null; throws after `ms`. */
export async function until<T>(what: string, ask: () => Promise<T | null> | T | null, ms = 60_000): Promise<T> {
  const deadline = Date.now() + ms;
  for (;;) {
    const found = await ask();
    if (found !== null) return found;
    if (Date.now() > deadline) throw new Error(`not within ${ms / 1000} s: ${what}`);
    await wait(50);
  }
}

/** What a scripted model does: see lib/model/scripted.ts. */
export type Rule = {
  match?: string;
  exact?: string;
  role?: "user" | "tool";
  delay_ms?: number;
  pace_ms?: number;
  text?: string;
  tool_calls?: { name: string; arguments: object }[];
};
export const instructionsOf = (...rules: Rule[]) =>
  `You do what is written here.\n\n\`\`\`script\n${JSON.stringify(rules)}\n\`\`\``;

/** A request that a tool made. `id` is the last part of its path, by which each call of a test is known. */
export type Asked = { kind: string; id: string; key: string | null; at: number };

/**
 * What tools call: `POST /<kind>/<id>` answers `{"id", "n"}`, n being how often that id was asked for; of the kind
 * `hold` only when it is let go. It stays up whatever happens to the runtime.
 */
export async function anEndpoint() {
  const asked: Asked[] = [];
  const held = new Set<() => void>();
  const server = createServer((request, response: ServerResponse) => {
    const [, kind = "", id = ""] = request.url!.split("/");
    asked.push({ kind, id, key: (request.headers["idempotency-key"] as string) ?? null, at: Date.now() });
    const n = asked.filter((one) => one.kind === kind && one.id === id).length;
    request.resume();
    const answer = () => {
      held.delete(answer);
      response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify({ id, n }));
    };
    if (kind !== "hold") return answer();
    held.add(answer);
    response.once("close", () => held.delete(answer));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    /** Requests that wait to be let go. */
    held: () => held.size,
    /** Answers those that wait: the bytes have left this process when it returns. */
    letGo: () => {
      for (const answer of [...held]) answer();
    },
    /** Those that wait are never answered: their connections break. */
    drop: () => server.closeAllConnections(),
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

async function freePort(): Promise<number> {
  const probe = createProbe();
  await new Promise<void>((ready) => probe.listen(0, "127.0.0.1", ready));
  const { port } = probe.address() as AddressInfo;
  await new Promise((closed) => probe.close(closed));
  return port;
}

/** A database in which statements can be held up: a runtime that dies meanwhile never hears of them. */
function holdable(database: Database) {
  let holding: RegExp | null = null;
  let free = () => {};
  let freed = Promise.resolve();
  let waiting = 0;
  let counting: RegExp | null = null;
  let counted = 0;
  const run: Database["run"] = async (role, queries, options) => {
    if (queries.some(({ query }) => counting?.test(query))) counted++;
    if (queries.some(({ query }) => holding?.test(query))) {
      waiting++;
      await freed;
    }
    return database.run(role, queries, options);
  };
  return {
    database: { ...database, run },
    /** From now on every request with such a statement waits. */
    hold: (statement: RegExp) => {
      waiting = 0;
      holding = statement;
      freed = new Promise((done) => {
        free = done;
      });
    },
    waiting: () => waiting,
    /** From now on requests with such a statement are counted; answers how many there were. */
    count: (statement: RegExp) => {
      counting = statement;
      counted = 0;
      return () => counted;
    },
    letGo: () => {
      holding = null;
      free();
    },
  };
}

type Options = { models?: Models; telemetry?: Telemetry };
export type Stage = Awaited<ReturnType<typeof aStage>>;

export async function aStage({ models = {}, telemetry = {} }: Options = {}) {
  const database = holdable(await openDatabase());
  const own = await ownSystem(Promise.resolve(database.database));
  const data = await mkdtemp(join(tmpdir(), "agentry-sessions-"));
  const endpoint = await anEndpoint();
  const others = childrenOf(process.pid, "workerd");
  const options = { port: await freePort(), dataDir: data, allowLoopback: "127.0.0.1", telemetry };
  const base = await own.start([await newSigningKey("one")], [newRoot()], {
    ...options,
    models: { DEFAULT_MODEL: "scripted/script", ...models },
  });
  const app = await anApp({ base, newApp: own.newApp });
  const token = (await app.aToken(app.owners[app.acme]!)).access_token as string;
  const ask = caller(bearer(token), base);
  const runtimes = () => childrenOf(process.pid, "workerd").filter((pid) => !others.includes(pid));

  /** A tool that asks the endpoint for `/<kind>/<id>`. */
  async function aTool(agent: { id: string }, kind: string, fields: object = {}) {
    const raw_content = JSON.stringify({ method: "POST", url: `${endpoint.url}/${kind}/{{ $.id }}`, timeout_s: 60 });
    const config = { kind: "HttpTool", mime_type: "application/json", raw_content, lookup_key: unique("tool") };
    const { id } = await must(ask("POST", "/api/v1/config", config), 201);
    return must(
      ask("POST", `/api/v1/agents/${agent.id}/agent_tools`, {
        ...{ kind: "custom", status: "active", name: kind, description: "Does it", handler_type: "http", config: id },
        parameters: { type: "object", properties: { id: { type: "string" } }, required: ["id"] },
        ...fields,
      }),
      200,
    );
  }

  /** An agent whose model is scripted, with a tool of each kind that is named. */
  async function anActor(kinds: string[], effect: Effect, fields: object = {}) {
    const agent = await anAgent(ask, { model: "scripted/script" });
    for (const kind of kinds) await aTool(agent, kind, { effect, ...fields });
    return agent;
  }

  const aSession = (agent: { id: string }, rules: Rule[], fields: object = {}): Promise<any> =>
    must(
      ask("POST", "/api/v1/agent_sessions", { agent: agent.id, instructions: instructionsOf(...rules), ...fields }),
      201,
    );
  const get = (id: string) => must(ask("GET", `/api/v1/agent_sessions/${id}`), 200);

  return {
    own,
    base,
    app,
    token,
    ask,
    endpoint,
    database,
    aTool,
    anActor,
    aSession,
    get,
    /** Waits until a session has one of these statuses. */
    is: (id: string, ...statuses: string[]) =>
      until(`${id} is ${statuses}`, async () => {
        const session = await get(id).catch(() => null);
        return session && statuses.includes(session.status) ? session : null;
      }),
    events: (id: string, after?: number, signal?: AbortSignal) => events(base, token, id, after, signal),
    /** Every frame so far, of a session that has ended. */
    frames: async (id: string) => {
      const found: SessionFrame[] = [];
      for await (const { frame } of events(base, token, id)) found.push(frame);
      return found;
    },
    /** Kills the runtime as it stands; it is started again at once, on the same data. */
    kill: () => {
      for (const pid of runtimes()) process.kill(pid, "SIGKILL");
    },
    /** Resolves when it answers again. */
    isUp: () => until("the runtime is up", () => fetch(`${base}/healthz`).catch(() => null)),
    close: async () => {
      database.letGo();
      endpoint.close();
      await own.close();
      await rm(data, { recursive: true, force: true });
    },
  };
}

export type Told = { id: number; event: string; frame: SessionFrame; raw: string };

/** A session's frames as their watcher is sent them, from after a sequence on, until the stream ends. */
export async function* events(
  base: string,
  token: string,
  id: string,
  after?: number,
  signal?: AbortSignal,
): AsyncGenerator<Told> {
  const headers = { ...bearer(token), ...(after !== undefined && { "Last-Event-ID": String(after) }) };
  const response = await fetch(`${base}/api/v1/agent_sessions/${id}/events`, { headers, ...(signal && { signal }) });
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  let text = "";
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream() as never) as AsyncIterable<string>) {
    text += chunk;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const raw = text.slice(0, end + 2);
      text = text.slice(end + 2);
      if (raw.startsWith(":")) continue;
      const fields = Object.fromEntries(raw.split("\n").map((line) => line.split(/: (.*)/s)));
      if (fields.event === "error") throw new Error(`the stream ended with ${fields.data}`);
      yield { id: Number(fields.id), event: fields.event, frame: JSON.parse(fields.data), raw };
    }
  }
}
