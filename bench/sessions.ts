/**
 * What sessions take. Posting into inboxes is held against the same door and the same statement, followed by an object
 * that writes and does nothing else (bench/inbox.ts); what a session does by itself, against a bound in milliseconds.
 */
import type { ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { SessionFrame } from "../lib/sessions/frames.ts";
import type { Cleanup, Person, Product } from "./system.ts";
import { compare, type Figures, inTurns, quantile, type Target, type Way } from "./turns.ts";

const INBOXES = 300;
const SENDERS = 16;
const TIMES = 200;
const RUNS = 15;
const TURNS = 50;
const AIMS = { of_floor: 0.7, post_p99: 40, start: 5, start_p99: 40, turn: 12, step: 3, script: 2, first_byte: 10 };

type Report = {
  show(name: string, way: Way, figures: Figures, share: number | null): void;
  judge(aim: string, found: string, isMet: boolean): void;
};
const ms = (value: number) => `${value.toFixed(2)} ms`;
const percent = (share: number) => `${Math.round(share * 100)} %`;

/** An OpenAI-compatible model that answers one word; it says when it was asked. */
async function serveModel(cleanup: Cleanup) {
  let asked = () => {};
  const chunk = (delta: object, finish_reason: string | null) =>
    `data: ${JSON.stringify({ id: "1", object: "chat.completion.chunk", created: 1, model: "bench", choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
  const server = createServer((request, response) => {
    asked();
    request.resume();
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.end(`${chunk({ role: "assistant", content: "Yes." }, null)}${chunk({}, "stop")}data: [DONE]\n\n`);
  });
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  cleanup.add(async () => {
    server.closeAllConnections();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    /** When it is asked next. */
    next: () =>
      new Promise<number>((at) => {
        asked = () => at(performance.now());
      }),
  };
}

function newDir(cleanup: Cleanup): string {
  const dir = mkdtempSync(join(tmpdir(), "agentry-bench-objects-"));
  cleanup.add(async () => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** Asks as a person, of the Worker that has the address. */
const asker =
  (entry: string, { access_token }: Person) =>
  async (method: string, path: string, body?: object): Promise<any> => {
    const headers = { Authorization: `Bearer ${access_token}`, "Content-Type": "application/json" };
    const response = await fetch(entry + path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text.slice(0, 1000)}`);
    return JSON.parse(text);
  };
type Ask = ReturnType<typeof asker>;

/** A session's frames as they come, until one is the last that is wanted. */
async function* framesOf(
  entry: string,
  { access_token }: Person,
  id: string,
  heard = () => {},
): AsyncGenerator<SessionFrame, void> {
  const headers = { Authorization: `Bearer ${access_token}` };
  const response = await fetch(`${entry}/api/v1/agent_sessions/${id}/events`, { headers });
  let text = "";
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream() as never) as AsyncIterable<string>) {
    heard();
    text += chunk;
    const events = text.split("\n\n");
    text = events.pop()!;
    for (const event of events) {
      const data = event.match(/^data: (.*)$/m)?.[1];
      if (data) yield JSON.parse(data);
    }
  }
}

export async function measureSessions(
  child: ChildProcess,
  cleanup: Cleanup,
  product: Product,
  { show, judge }: Report,
): Promise<void> {
  const model = await serveModel(cleanup);
  const workers = await product.start("agentry_api", {
    groups: ["agents", "configs", "sessions", "objects"],
    dataDir: newDir(cleanup),
    models: { MODEL_BASE_URL: model.url, MODEL_API_KEY: "bench" },
  });
  const floor = await product.start("agentry_api", {
    groups: ["sessions", "objects"],
    dataDir: newDir(cleanup),
    alias: {
      "sessions/index.ts": resolve(import.meta.dirname, "floor.ts"),
      "sessions/object.ts": resolve(import.meta.dirname, "inbox.ts"),
    },
  });
  const { entry } = workers;
  const origin = await workers.direct("sessions");

  const agentOf = async (ask: Ask, name: string, tool: object = {}) => {
    const agent = await ask("POST", "/api/v1/agents", { name: "Bench", model: name });
    const lookup_key = `bench-${agent.id}`;
    const raw_content = `let a = 1\nlet b = a + 1\nlet c = b * 2\nlet d = c - a\nlet e = [a, b, c, d]
let f = array.map(e, fn(x) { x * x })\nlet g = array.length(f)\nlet h = string.uppercase("done")\nlet i = { g: g, h: h }\ni.g`;
    await ask("POST", "/api/v1/config", { kind: "Script", mime_type: "text/plain", raw_content, lookup_key });
    await ask("POST", `/api/v1/agents/${agent.id}/agent_tools`, {
      ...{ kind: "custom", status: "active", name: "reckon", description: "Reckons", handler_type: "script" },
      ...{ config: lookup_key, parameters: { type: "object" }, ...tool },
    });
    return agent.id as string;
  };
  const sessionOf = (ask: Ask, agent: string, fields: object = {}) =>
    ask("POST", "/api/v1/agent_sessions", { agent, instructions: "Say yes.", max_tokens: 10_000_000, ...fields });
  const is = async (ask: Ask, id: string, status: string) => {
    for (let i = 0; (await ask("GET", `/api/v1/agent_sessions/${id}`)).status !== status; i++) {
      if (i > 1_000) throw new Error(`${id} doesn't come to be ${status}`);
      await pause(20);
    }
  };

  await postIntoInboxes();
  await startModels();
  await wholeTurns();
  await steps();

  /** They wait for a person, so that nothing happens but that they are sent messages. */
  async function postIntoInboxes() {
    const targets: Target["requests"][] = [[], []];
    const people = product.people.slice(0, INBOXES / 3);
    for (const person of people) {
      const { org, user, token, access_token } = person;
      const ask = asker(entry, person);
      const agent = await agentOf(ask, "scripted/tools", { approval: "required" });
      for (let i = 0; i < INBOXES / people.length; i++) {
        const { id } = await sessionOf(ask, agent, { instructions: "reckon", max_turns: 1_000 });
        await is(ask, id, "waiting");
        const body = '{"content":"Message {n}, which says what a message says."}';
        const headers = { Authorization: `Bearer ${access_token}` };
        targets[0]!.push({ method: "POST", path: `/api/v1/agent_sessions/${id}/message`, headers, body });
        const query = new URLSearchParams({ app: product.app, org, user, token });
        targets[1]!.push({ method: "POST", path: `/agent_sessions/${id}/message?${query}`, body });
      }
    }
    const name = `post into ${INBOXES} inboxes`;
    const at = { name, connections: SENDERS };
    const direct: Target = { ...at, way: "direct", origin, pid: workers.pid, requests: targets[0]! };
    const bare: Target = {
      ...{ ...at, way: "walls", origin: await floor.direct("sessions"), pid: floor.pid },
      requests: targets[1]!,
    };
    const found = await inTurns(child, [direct, bare]);
    const [posted, floored] = [found.get(direct)!, found.get(bare)!];
    const share = compare(posted, floored, (a, b) => a.rate / b.rate);
    show(name, "direct", posted, share);
    show(name, "walls", floored, null);
    judge(`${name}: at least ${percent(AIMS.of_floor)} of its floor's rate`, percent(share), share >= AIMS.of_floor);
    judge(`${name}: p99 at most ${ms(AIMS.post_p99)}`, ms(posted.p99), posted.p99 <= AIMS.post_p99);
  }

  async function startModels() {
    const [person] = product.people as [Person];
    const ask = asker(entry, person);
    const agent = await agentOf(ask, "compatible/bench");
    const post = asker(origin, person);
    const found: number[] = [];
    for (let s = 0; s < TIMES / 10; s++) {
      const { id } = await sessionOf(ask, agent, { start_idle: true });
      for (let i = 0; i < 11; i++) {
        const asked = model.next();
        const begun = performance.now();
        const posted = post("POST", `/api/v1/agent_sessions/${id}/message`, { content: "Are you there?" });
        const taken = (await asked) - begun;
        await posted;
        await is(ask, id, "waiting");
        // The first one reads the agent.
        if (i > 0) found.push(taken);
      }
    }
    const [p50, p99] = [quantile(found, 0.5), quantile(found, 0.99)];
    judge(`message to model: p50 at most ${ms(AIMS.start)}`, ms(p50), p50 <= AIMS.start);
    judge(`message to model: p99 at most ${ms(AIMS.start_p99)}`, ms(p99), p99 <= AIMS.start_p99);
  }

  async function wholeTurns() {
    const person = product.people[1]!;
    const ask = asker(entry, person);
    const { id } = await sessionOf(ask, await agentOf(ask, "scripted/echo"), { start_idle: true });
    const post = asker(origin, person);
    let idle = () => {};
    let first = 0;
    const bytes: number[] = [];
    const watching = (async () => {
      for await (const frame of framesOf(origin, person, id)) {
        if (frame.type === "session.status" && frame.status === "waiting") idle();
      }
    })();
    await pause(200);
    const turns: number[] = [];
    for (let i = 0; i < 90; i++) {
      const ended = new Promise<number>((at) => {
        idle = () => at(performance.now());
      });
      const begun = performance.now();
      const posted = post("POST", `/api/v1/agent_sessions/${id}/message`, { content: "Are you there?" });
      const taken = (await ended) - begun;
      await posted;
      if (i >= 10) turns.push(taken);
    }
    const turn = quantile(turns, 0.5);
    judge(`a whole scripted turn: p50 at most ${ms(AIMS.turn)}`, ms(turn), turn <= AIMS.turn);
    for (let i = 0; i < TIMES; i++) {
      const begun = performance.now();
      first = 0;
      const heard = () => {
        first ||= performance.now() - begun;
      };
      for await (const _ of framesOf(origin, person, id, heard)) break;
      bytes.push(first);
    }
    const byte = quantile(bytes, 0.5);
    judge(`first byte of a stream: p50 at most ${ms(AIMS.first_byte)}`, ms(byte), byte <= AIMS.first_byte);
    await ask("POST", `/api/v1/agent_sessions/${id}/cancel`, {});
    await watching;
  }

  /** A turn asks the model and makes a call. Of a tool that isn't there the call is written down, and nothing is made. */
  async function steps() {
    const person = product.people[2]!;
    const ask = asker(entry, person);
    const agent = await agentOf(ask, "scripted/script");
    const turn = async (tool: string) => {
      const rules = JSON.stringify([{ tool_calls: [{ name: tool, arguments: {} }] }]);
      const instructions = `\`\`\`script\n${rules}\n\`\`\``;
      const { id } = await sessionOf(ask, agent, { instructions, max_turns: TURNS });
      await is(ask, id, "failed");
      const at: number[] = [];
      for await (const frame of framesOf(entry, person, id)) {
        if (frame.type === "model.started" || frame.type === "limit.reached") at.push(Date.parse(frame.at));
      }
      return (at.at(-1)! - at[0]!) / TURNS;
    };
    const [none, script]: number[][] = [[], []];
    for (let i = 0; i < RUNS; i++) {
      none!.push(await turn("nothing"));
      script!.push(await turn("reckon"));
    }
    const step = quantile(none!, 0.5) / 2;
    const call = quantile(script!, 0.5) - quantile(none!, 0.5);
    judge(`a journaled step: p50 at most ${ms(AIMS.step)}`, ms(step), step <= AIMS.step);
    judge(`a script tool of ten expressions: p50 at most ${ms(AIMS.script)}`, ms(call), call <= AIMS.script);
  }
}

const pause = (time: number) => new Promise((done) => setTimeout(done, time));
