/** What an agent has under way, in a system of its own whose pace is seconds. */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { json } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { anAgent, anApp, bearer, type Call, caller, must, together, unique } from "../harness/index.ts";
import { newRoot, newSigningKey, ownSystem } from "../harness/own.ts";
import { everything } from "../lib/tools/everything.ts";

const alias = { "pace.ts": resolve(import.meta.dirname, "../harness/fast-pace.ts") };
const poll = { timeout: 20_000, interval: 100 };
const dataDir = mkdtempSync(join(tmpdir(), "agentry-health-"));
let own: Awaited<ReturnType<typeof ownSystem>>;
let base: string;

beforeAll(async () => {
  own = await ownSystem();
  base = await own.start([await newSigningKey("one")], [newRoot()], { alias, dataDir, allowLoopback: "127.0.0.1" });
});
afterAll(async () => {
  await own.close();
  rmSync(dataDir, { recursive: true, force: true });
});

async function start() {
  const app = await anApp({ base, newApp: own.newApp });
  const owner = app.as(app.acme);
  const agent = await anAgent(owner, { model: "scripted/echo" });
  const at = `/api/v1/agents/${agent.id}`;
  const health = () => must(app.asDeveloper("GET", `${at}/health`), 200);
  const rows = async <Row = any>(text: string, params: string[]) =>
    (await own.database.query<Row>(text, params)) as Row[];
  /** What is told of the agent's health, in order. */
  const told = async () => {
    const events = "select payload from data.events where name = 'agent.health_changed' and agent_id = $1 order by id";
    return (await rows(events, [agent.id])).map(({ payload }) => payload);
  };
  const feed = () =>
    rows("select level, correlation_id from data.activity_feed_entries where kind = 'generic' and agent_id = $1", [
      agent.id,
    ]);
  /** Whatever needs the agent's secrets can't go on from now on; answers what mends that. */
  const breaks = async () => {
    const { id } = await must(owner("POST", `${at}/agent_env_vars`, { key: "KEY", value: "x" }), 200);
    await rows("update data.agent_env_vars set tag = decode('00', 'hex') where id = $1", [id]);
    return () => rows("delete from data.agent_env_vars where id = $1", [id]);
  };
  const aSession = (): Promise<any> =>
    must(owner("POST", "/api/v1/agent_sessions", { agent: agent.id, instructions: "Go.", on_idle: "complete" }), 201);
  return { ...app, owner, agent, at, health, told, feed, breaks, aSession };
}

describe("what is under way", () => {
  it("and doesn't go on is stuck: it counts, an event and an entry of the feed say so once, and it is asked until it goes on", async () => {
    const { agent, health, told, feed, breaks, aSession, owner } = await start();
    expect((await health()).score).toBe(90);
    const mend = await breaks();
    const { id } = await aSession();
    await expect.poll(async () => (await health()).activity.stuck.map((one: any) => one.id), poll).toEqual([id]);
    const { score, status, checks, health_actions } = await health();
    expect([score, status, checks.find(({ key }: any) => key === "stuck").status]).toEqual([
      60,
      "critical",
      "critical",
    ]);
    expect(health_actions).toMatchObject([{ title: "See to what doesn't go on", status: "pending", source: "health" }]);
    const change = { status: "critical", score: 60, previous_status: "warning", previous_score: 90, stuck: true };
    await expect.poll(told, poll).toEqual([{ agent: agent.id, ...change }]);
    // It is asked some more times, and nothing more is said.
    await new Promise((done) => setTimeout(done, 1_000));
    expect(await told()).toHaveLength(1);
    expect(await feed()).toEqual([{ level: "error", correlation_id: id }]);
    await mend();
    await expect
      .poll(async () => (await must(owner("GET", `/api/v1/agent_sessions/${id}`), 200)).status, poll)
      .toBe("completed");
    const back = { status: "warning", score: 90, previous_status: "critical", previous_score: 60, stuck: false };
    await expect.poll(told, poll).toEqual([
      { agent: agent.id, ...change },
      { agent: agent.id, ...back },
    ]);
    const after = await health();
    expect([after.activity, after.health_actions[0].status, after.recent.runs]).toEqual([
      ...[{ in_motion: 0, stuck: [] }, "completed", { total: 1, failed: 0 }],
    ]);
  });

  it("and goes on again, or is deleted, is told of likewise, though it has no end and nobody asks", async () => {
    const { owner, agent, told, breaks } = await start();
    const aWaiting = async () =>
      (await must(owner("POST", "/api/v1/agent_sessions", { agent: agent.id, instructions: "Go." }), 201)).id;
    const statuses = async () => (await told()).map(({ status, stuck }) => [status, stuck]);
    const mend = await breaks();
    await aWaiting();
    await expect.poll(statuses, poll).toEqual([["critical", true]]);
    await mend();
    const back = [
      ["critical", true],
      ["warning", false],
    ];
    await expect.poll(statuses, poll).toEqual(back);
    await breaks();
    const id = await aWaiting();
    await expect.poll(statuses, poll).toEqual([...back, ["critical", true]]);
    await own.database.query("delete from data.agent_sessions where id = $1", [id]);
    await expect.poll(statuses, poll).toEqual([...back, ["critical", true], ["warning", false]]);
  });

  it("is a routine's run, too: stuck it turns the score, and is named in the feed alone", async () => {
    const { owner, as, acme, agent, at, health, feed, breaks } = await start();
    const acl = { grants: [{ principal_type: "org_role", principal: "admin", actions: ["read", "write"] }] };
    const event_config = { "agentroutine.invoked": {}, "agent.health_changed": { filters: { stuck: true } } };
    const routine = { name: "r", handler_type: "script", script: "1", event_config, acl };
    const { id } = await must(owner("POST", `${at}/agent_routines`, { ...routine, status: "active" }), 200);
    const mend = await breaks();
    const run = await must(owner("POST", `/api/v1/agent_routines/${id}/invoke`, { message: "Go." }), 200);
    await expect.poll(feed, poll).toEqual([{ level: "error", correlation_id: run.id }]);
    const entries = async (call: Call) =>
      (await must(call("GET", "/api/v1/activity_feed"), 200)).data.filter((one: any) => one.correlation_id === run.id);
    expect((await entries(owner)).map(({ kind }: any) => kind)).toContain("generic");
    expect(await entries(as(acme, { role: "member" }))).toEqual([]);
    // What is to be done stands there, though nobody has asked how it is.
    const { data } = await must(owner("GET", `${at}/agent_health_actions`), 200);
    expect(data).toMatchObject([{ title: "See to what doesn't go on", status: "pending" }]);
    expect((await health()).activity.stuck).toEqual([{ id: null, since: expect.any(String) }]);
    expect(await health()).toMatchObject({ score: 60, status: "critical" });
    // It listens to that, and would be stuck again: what it has led to doesn't start it.
    const handedOn =
      "select 1 from data.event_heads h join data.events e using (app_id, sandbox_id, org_id) where e.name = 'agent.health_changed' and e.agent_id = $1 and h.delivered >= e.sequence";
    await expect.poll(() => own.database.query(handedOn, [agent.id]), poll).toHaveLength(1);
    const started = "select id from data.agent_routine_runs where agent_id = $1";
    expect(await own.database.query(started, [agent.id])).toEqual([{ id: run.id }]);
    await mend();
    await expect.poll(async () => (await health()).score, poll).toBe(90);
    expect((await health()).recent.runs).toEqual({ total: 1, failed: 0 });
  });

  it("may be paused with its org, and is then not stuck", async () => {
    const { health, breaks, aSession, asDeveloper, acme, app } = await start();
    const mend = await breaks();
    const { id } = await aSession();
    const org = (status: string) =>
      must(asDeveloper("PATCH", `/protected/api/v2/developer/apps/${app}/orgs/${acme}`, { status }), 200);
    await org("suspended");
    await new Promise((done) => setTimeout(done, 2_500));
    expect((await health()).activity).toEqual({ in_motion: 1, stuck: [] });
    await org("active");
    await expect.poll(async () => (await health()).activity.stuck.map((one: any) => one.id), poll).toEqual([id]);
    await mend();
  });

  it("is asked after by nobody once it waits for somebody, or is gone: its agent's health sleeps", async () => {
    const set = (): string[] => {
      const kept = new DatabaseSync(join(dataDir, "do", "agentry-objects-AgentHealth", "metadata.sqlite"));
      const rows = kept.prepare("select actor_id from _cf_ALARM").all();
      kept.close();
      return rows.map(({ actor_id }) => String(actor_id));
    };
    const others = new Set(set());
    const alarms = () => set().filter((id) => !others.has(id)).length;
    const { owner, agent, health, breaks, aSession } = await start();
    const waiting = await must(owner("POST", "/api/v1/agent_sessions", { agent: agent.id, instructions: "Go." }), 201);
    await expect
      .poll(async () => (await must(owner("GET", `/api/v1/agent_sessions/${waiting.id}`), 200)).status, poll)
      .toBe("waiting");
    await expect.poll(async () => (await health()).activity, poll).toEqual({ in_motion: 0, stuck: [] });
    await must(owner("POST", `/api/v1/agent_sessions/${waiting.id}/cancel`), 200);
    await expect.poll(async () => (await health()).recent.runs, poll).toEqual({ total: 0, failed: 0 });
    await aSession();
    await expect.poll(async () => (await health()).recent.runs, poll).toEqual({ total: 1, failed: 0 });
    await expect.poll(alarms, poll).toBe(0);
    // The control: while something is under way it is awake.
    const mend = await breaks();
    await aSession();
    await expect.poll(alarms, poll).toBe(1);
    await mend();
  });
});

describe("an action whose verify_config is outside of the database", () => {
  async function withAction(action: object, configs: object[] = []) {
    const { asDeveloper: _, ...app } = await anApp({ base, newApp: own.newApp });
    const owner = caller(bearer((await app.aToken(app.owners[app.acme]!)).access_token), base);
    const setup_actions = [{ kind: "custom", title: "It", ...action }];
    const agent = await must(
      owner("POST", "/api/v1/agents", { template_bundle: { template: { name: "Ada" }, configs, setup_actions } }),
      200,
    );
    const at = `/api/v1/agents/${agent.id}`;
    const [{ id }] = (await must(owner("GET", `${at}/agent_health_actions`), 200)).data;
    const verify = async () => {
      const { status, body } = await owner("POST", `/api/v1/agent_health_actions/${id}/verify`);
      return [status, body.error?.code ?? body.status];
    };
    return { owner, at, verify };
  }
  const aScript = (content: string) => {
    const name = unique("look");
    const configs = [{ relative_path: `${name}.aascript`, content }];
    return [{ params: { a: 1 }, verify_config: { type: "script_ref", script_ref: name } }, configs] as const;
  };

  it.each([
    ["truthy", "{ a: $.a }", [200, "completed"]],
    ["falsy", "$.a > 1", [200, "pending"]],
    ["a crash", "unknown_name", [422, "verifier_crashed"]],
  ])("is judged by its script, run with its params: %s", async (_, script, outcome) => {
    const { verify } = await withAction(...aScript(script));
    expect(await verify()).toEqual(outcome);
  });

  it("of a script that it doesn't name can't tell, whatever else it names", async () => {
    const action = { params: { provider: "github" }, verify_config: { type: "script_ref" } };
    const { owner, at, verify } = await withAction(action);
    const integration = { access_token: unique("at") };
    await must(owner("POST", `${at}/agent_installations`, { kind: "integration/github", integration }), 200);
    expect(await verify()).toEqual([422, "verifier_crashed"]);
  });

  it("of an integration passes while a server of the agent's tools answers", async () => {
    const server = await everything();
    try {
      const ref = unique("mcp");
      const { owner, at, verify } = await withAction({ kind: "integration", params: { mcp_server_ref: ref } });
      expect(await verify()).toEqual([200, "pending"]);
      const raw_content = JSON.stringify({ url: server.url, transport: "streamable_http" });
      const config = { kind: "McpServer", mime_type: "application/json", raw_content, lookup_key: ref };
      await must(owner("POST", "/api/v1/config", config), 201);
      const tool = { kind: "mcp", name: "everything", config: ref, status: "active" };
      await must(owner("POST", `${at}/agent_tools`, tool), 200);
      expect(await verify()).toEqual([200, "completed"]);
    } finally {
      await server.close();
    }
  });

  /** An action of a server that refuses everybody, in these words, after so long. */
  async function refusedBy(message: string, after_ms: number) {
    const seen = { now: 0, most: 0 };
    const server = createServer(async (request, response) => {
      seen.most = Math.max(seen.most, ++seen.now);
      const { id } = (await json(request)) as { id: number };
      await new Promise((wait) => setTimeout(wait, after_ms));
      seen.now--;
      const answer = JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32000, message } });
      response.writeHead(200, { "Content-Type": "application/json" }).end(answer);
    });
    await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
    const ref = unique("mcp");
    const { owner, at, verify } = await withAction({ kind: "integration", params: { mcp_server_ref: ref } });
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const raw_content = JSON.stringify({ url, transport: "streamable_http" });
    const config = { kind: "McpServer", mime_type: "application/json", raw_content, lookup_key: ref };
    await must(owner("POST", "/api/v1/config", config), 201);
    const tool = { kind: "mcp", name: "refuses", config: ref, status: "active" };
    await must(owner("POST", `${at}/agent_tools`, tool), 200);
    return { seen, owner, at, verify, close: () => server.close() };
  }

  it("is looked after by four at once, however many ask: the others wait their turn", async () => {
    const { seen, verify, close } = await refusedBy("not today", 300);
    expect(await together(7, verify)).toEqual(Array(7).fill([200, "pending"]));
    close();
    expect(seen.most).toBe(4);
  });

  it("says what a server says that refuses, whatever that is made of", async () => {
    const { owner, at, verify, close } = await refusedBy("a\0b\ud800", 0);
    expect(await verify()).toEqual([200, "pending"]);
    close();
    const [{ last_verifier_message }] = (await must(owner("GET", `${at}/agent_health_actions`), 200)).data;
    expect(last_verifier_message).toMatch(/^The server did not answer: .*a\uFFFDb\uFFFD$/);
  });

  it("of an integration that names a provider passes while one is connected", async () => {
    const { owner, at, verify } = await withAction({ kind: "integration", params: { provider: "github" } });
    expect(await verify()).toEqual([200, "pending"]);
    const connect = (kind: string) =>
      must(owner("POST", `${at}/agent_installations`, { kind, integration: { access_token: unique("at") } }), 200);
    await connect("integration/slack");
    expect(await verify()).toEqual([200, "pending"]);
    const { id } = await connect("integration/github");
    expect(await verify()).toEqual([200, "completed"]);
    await must(owner("POST", `/api/v1/agent_installations/${id}/pause`), 200);
    expect(await verify()).toEqual([200, "degraded"]);
  });
});
