/** `npm start` as a new user meets it: real processes, a data directory of their own, signals. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, chown, mkdir, mkdtemp, readFile, rm, stat, utimes, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { decodeJwt } from "jose";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { openPostgres } from "../../lib/local/postgres.ts";
import { anAgent, bearer, type Call, caller, developer, must } from "../harness/index.ts";
import { aProvider, sse } from "../lib/model/fixtures.ts";
import { anEndpoint, instructionsOf, type Rule, until } from "../sessions/stage.ts";

const root = resolve(import.meta.dirname, "../..");
const run = promisify(execFile);
let data: string;
let port: number;

async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((ready) => probe.listen(0, "127.0.0.1", ready));
  const { port } = probe.address() as AddressInfo;
  await new Promise((closed) => probe.close(closed));
  return port;
}

type Started = { child: ChildProcess; output: () => string; ended: Promise<number | null> };
const running = new Set<ChildProcess>();

const environment = (env: Record<string, string>) => ({
  ...process.env,
  DATABASE_URL: "",
  OWNER_DATABASE_URL: "",
  AGENTRY_DATA: data,
  PORT: String(port),
  ...env,
});

/** Starts the local runner; ready when it has shown its first request, or when it has ended. */
async function start(
  env: Record<string, string> = {},
  command = [process.execPath, "lib/local/start.ts"],
): Promise<Started> {
  const child = spawn(command[0]!, command.slice(1), { cwd: root, env: environment(env) });
  running.add(child);
  let output = "";
  const ended = new Promise<number | null>((done) => child.once("exit", done));
  void ended.then(() => running.delete(child));
  const ready = new Promise<void>((shown) => {
    const note = (chunk: Buffer) => {
      output += chunk;
      if (output.includes("A first request")) setTimeout(shown, 50);
    };
    child.stdout!.on("data", note);
    child.stderr!.on("data", note);
  });
  await Promise.race([ready, ended]);
  return { child, output: () => output, ended };
}

async function stop({ child, ended }: Started, signal: NodeJS.Signals = "SIGTERM") {
  child.kill(signal);
  return ended;
}

/** Runs one of the operator's commands to its end: how it ended, and what it said. */
const operate = (script: string, args: string[] = [], env: Record<string, string> = {}) =>
  new Promise<{ code: number; said: string; shown: string }>((done) => {
    const command = [join("lib/local", script), ...args];
    execFile(process.execPath, command, { cwd: root, env: environment(env) }, (error, stdout, stderr) =>
      done({ code: error ? Number(error.code) : 0, said: stdout + stderr, shown: stdout }),
    );
  });

/** A sentence, no stack, nothing of the password, and nothing left behind. */
function isRefusal({ code, said }: { code: number | null; said: string }, sentence: RegExp) {
  expect([code, said]).toEqual([1, expect.stringMatching(sentence)]);
  expect(said).not.toMatch(/^ {4}at |s3cret/m);
  expect(existsSync(join(data, "lock"))).toBe(false);
}

const credentials = async () => JSON.parse(await readFile(join(data, "credentials.json"), "utf8"));
const orgs = async () => {
  const { base_url, app_id, secret_key } = await credentials();
  return async (body?: object) => {
    const response = await fetch(`${base_url}${developer(app_id)}/orgs?page_size=100`, {
      method: body ? "POST" : "GET",
      headers: { ...bearer(secret_key), "Content-Type": "application/json" },
      ...(body && { body: JSON.stringify(body) }),
    });
    return { status: response.status, body: (await response.json()) as any };
  };
};

/** A session that has ended; null before. */
async function endOf(ask: Call, id: string): Promise<any> {
  const session = await must(ask("GET", `/api/v1/agent_sessions/${id}`), 200);
  return session.completed_at ? session : null;
}

beforeAll(async () => {
  data = await mkdtemp(join(tmpdir(), "agentry-start-"));
  port = await freePort();
});
// A test that fails leaves nothing running to the next one.
afterEach(async () => {
  await Promise.all(
    [...running].map((child) => {
      child.kill("SIGKILL");
      return new Promise((ended) => child.once("exit", ended));
    }),
  );
  await rm(join(data, "lock"), { force: true });
});
afterAll(async () => {
  await rm(data, { recursive: true, force: true });
});

describe.runIf(process.env.DATABASE_URL)("npm start with a DATABASE_URL", { timeout: 120_000 }, () => {
  it("puts a real PostgreSQL in the place of the embedded one", async () => {
    const name = `agentry_start_${Math.random().toString(36).slice(2)}`;
    const server = await openPostgres(process.env.DATABASE_URL!);
    await server.exec(`create database ${name}`);
    const url = new URL(process.env.DATABASE_URL!);
    url.pathname = name;
    try {
      const started = await start({ DATABASE_URL: url.href });
      const { base_url } = await credentials();
      expect(await (await fetch(`${base_url}/readyz`)).json()).toEqual({ status: "ok" });
      expect((await (await orgs())({ name: "Acme", slug: "acme", domain: "acme.example" })).status).toBe(201);
      expect(await stop(started)).toBe(0);
    } finally {
      await server.exec(`drop database ${name} with (force)`);
      await server.close();
    }
  });
});

// Over the embedded database, whatever the others run over: with another one it would be the same again.
describe.skipIf(Boolean(process.env.DATABASE_URL))("npm start", { timeout: 120_000 }, () => {
  it("prints credentials, keeps them to itself, and shows a first request that works when pasted", async () => {
    const started = await start();
    const shown = started.output();
    const kept = await credentials();
    expect(Object.keys(kept)).toEqual(["base_url", "app_id", "secret_key", "publishable_key"]);
    expect(JSON.parse(shown.slice(shown.indexOf("{"), shown.indexOf("}") + 1))).toEqual(kept);
    expect((await stat(join(data, "credentials.json"))).mode & 0o777).toBe(0o600);
    expect((await stat(join(data, "secrets.json"))).mode & 0o777).toBe(0o600);
    const command = shown.slice(shown.indexOf("  curl"), shown.lastIndexOf("'") + 1);
    const { stdout } = await run("bash", ["-c", command]);
    expect(JSON.parse(stdout)).toMatchObject({ name: "Acme", slug: "acme", status: "active" });

    const second = await start({ PORT: String(await freePort()) });
    expect(await second.ended).toBe(1);
    expect(second.output()).toMatch(/The data directory .* is in use by the process \d+\. Stop that one first/);
    const meanwhile = await operate("app.ts", ["list"]);
    expect([meanwhile.code, meanwhile.said]).toEqual([
      1,
      expect.stringMatching(/is in use by the process \d+\. Stop that one first.* Or set OWNER_DATABASE_URL/),
    ]);

    expect(await stop(started)).toBe(0);
    await expect(fetch(`${kept.base_url}/healthz`)).rejects.toThrow();
  });

  it("lets scripts reach this machine where AGENTRY_ALLOW_LOOPBACK=1 says so, and nowhere else", async () => {
    const reaches = async (env: Record<string, string>) => {
      const started = await start(env);
      const { base_url, secret_key } = await credentials();
      const ask = caller(bearer(secret_key), base_url);
      const script = `result.isOk(requests.get("${base_url}/healthz"))`;
      const { result } = await must(ask("POST", "/api/v1/scripts/run", { script }), 200);
      const { status } = await ask("GET", "/readyz");
      await stop(started);
      return [result, status];
    };
    expect(await reaches({ AGENTRY_ALLOW_LOOPBACK: "1" })).toEqual([true, 200]);
    expect(await reaches({})).toEqual([false, 200]);
  });

  it("gives the environment's models to those who ask", async () => {
    const started = await start({
      DEFAULT_MODEL: "compatible/small",
      MODELS: "scripted/echo",
      MODEL_BASE_URL: "http://[::1",
    });
    const { base_url, secret_key } = await credentials();
    const ask = caller(bearer(secret_key), base_url);
    const { data } = await must(ask("GET", "/api/v1/ai/chat/models"), 200);
    expect(data.map(({ id }: { id: string }) => id)).toEqual(["compatible/small", "scripted/echo"]);
    const body = { messages: [{ role: "user", content: "Hi" }], opts: {} };
    const { error } = await must(ask("POST", "/api/v1/ai/chat/completions", body), 422);
    expect(error.message).toContain("MODEL_BASE_URL");
    await stop(started);
  });

  it("answers an agent's sessions by the environment's model, which may be on this machine", async () => {
    const chunk = (fields: object) => ({
      id: "1",
      object: "chat.completion.chunk",
      created: 1,
      model: "small",
      ...fields,
    });
    const provider = await aProvider(
      sse(
        chunk({ choices: [{ index: 0, delta: { role: "assistant", content: "Here I am." }, finish_reason: null }] }),
        chunk({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }),
        "[DONE]",
      ),
    );
    const models = {
      MODEL_BASE_URL: `${provider.base}/v1`,
      MODEL_API_KEY: "a-key-of-mine",
      DEFAULT_MODEL: "compatible/small",
    };
    const started = await start(models);
    const { base_url, secret_key } = await credentials();
    const ask = caller(bearer(secret_key), base_url);
    const agent = await anAgent(ask);
    const body = { agent: agent.id, instructions: "Say that you are there.", on_idle: "complete" };
    const { id } = await must(ask("POST", "/api/v1/agent_sessions", body), 201);
    const ended = await until("it has ended", () => endOf(ask, id));
    expect([ended.status, ended.error, ended.result]).toEqual(["completed", null, { output: "Here I am." }]);
    const [asked, ...more] = provider.seen;
    expect([asked!.path, asked!.headers.authorization, asked!.body.model, more]).toEqual([
      ...["/v1/chat/completions", "Bearer a-key-of-mine", "small", []],
    ]);
    await stop(started);
    provider.close();
  });

  it("ends a session as it should that kill -9 has met in the middle of a tool's call", async () => {
    const endpoint = await anEndpoint();
    const env = { AGENTRY_ALLOW_LOOPBACK: "1" };
    const killed = await start(env);
    const { base_url, secret_key } = await credentials();
    const ask = caller(bearer(secret_key), base_url);
    const sessions = new Map<string, string>();
    for (const effect of ["idempotent", "once"]) {
      const agent = await anAgent(ask, { model: "scripted/script" });
      const raw_content = JSON.stringify({ method: "POST", url: `${endpoint.url}/hold/${effect}` });
      const config = { kind: "HttpTool", mime_type: "application/json", raw_content, lookup_key: `order-${effect}` };
      await must(ask("POST", "/api/v1/config", config), 201);
      const tool = {
        kind: "custom",
        status: "active",
        name: "order",
        description: "Orders it",
        handler_type: "http",
        effect,
      };
      const at = `/api/v1/agents/${agent.id}/agent_tools`;
      await must(ask("POST", at, { ...tool, config: config.lookup_key, parameters: { type: "object" } }), 200);
      const rules: Rule[] = [{ role: "tool", text: "Done." }, { tool_calls: [{ name: "order", arguments: {} }] }];
      const body = { agent: agent.id, instructions: instructionsOf(...rules), on_idle: "complete" };
      sessions.set(effect, (await must(ask("POST", "/api/v1/agent_sessions", body), 201)).id);
    }
    await until("both call", () => (endpoint.held() === 2 ? true : null));
    await stop(killed, "SIGKILL");
    const started = await start(env);
    const letGo = setInterval(() => endpoint.letGo(), 100);

    const again = await until("one ends by itself", () => endOf(ask, sessions.get("idempotent")!));
    expect([again.status, again.result]).toEqual(["completed", { output: "Done." }]);
    const waiting = `/api/v1/tool_calls?outcome[]=unknown`;
    const [unknown] = await until("the other waits", async () => {
      const { data } = await must(ask("GET", waiting), 200);
      return data.length ? data : null;
    });
    expect([unknown.session, unknown.outcome]).toEqual([sessions.get("once"), "unknown"]);
    const at = `/api/v1/agent_sessions/${sessions.get("once")}/tool_calls/${unknown.id}/resolve`;
    await must(ask("POST", at, { outcome: "give_up" }), 200);
    expect((await until("that ends, too", () => endOf(ask, sessions.get("once")!))).status).toBe("completed");
    const keys = (effect: string) => endpoint.asked.filter(({ id }) => id === effect).map(({ key }) => key);
    expect([keys("once").length, keys("idempotent").length, new Set(keys("idempotent")).size]).toEqual([1, 2, 1]);
    clearInterval(letGo);
    await stop(started);
    endpoint.close();
  });

  it("keeps the data, the keys and live tokens over a second start, also on another port", async () => {
    const made = await operate("app.ts", ["create", "--name", "Second"]);
    expect(made.code, made.said).toBe(0);
    await chmod(data, 0o755);
    const first = await start();
    expect((await stat(data)).mode & 0o777).toBe(0o700);
    const before = await credentials();
    const other = JSON.parse(made.shown);
    const asOther = caller(bearer(other.secret_key), before.base_url);
    expect((await must(asOther("GET", `${developer(other.app_id)}/orgs`), 200)).data).toEqual([]);
    const at = developer(before.app_id);
    const asDeveloper = caller(bearer(before.secret_key), before.base_url);
    const [acme] = (await asDeveloper("GET", `${at}/orgs`)).body.data;
    const user = { email: "ann@acme.example", org: acme.id, role: "owner" };
    const { id } = await must(asDeveloper("POST", `${at}/users`, user), 201);
    const { access_token } = await must(asDeveloper("POST", `${at}/users/${id}/tokens`, {}), 201);
    expect(await stop(first)).toBe(0);

    const again = await freePort();
    const base_url = `http://127.0.0.1:${again}`;
    const started = await start({ PORT: String(again) });
    expect(await credentials()).toEqual({ ...before, base_url });
    const ask = await orgs();
    expect((await ask()).body.data).toMatchObject([{ slug: "acme" }]);
    expect(decodeJwt(access_token).iss).toBe(before.base_url);
    const { status, body } = await caller(bearer(access_token), base_url)("GET", "/api/v1/users/me");
    expect([status, body.id]).toEqual([200, id]);
    const asDeveloperThen = caller(bearer(before.secret_key), base_url);
    const fresh = await must(asDeveloperThen("POST", `${at}/users/${id}/tokens`, {}), 201);
    expect(decodeJwt(fresh.access_token).iss).toBe(base_url);
    expect(await stop(started, "SIGINT")).toBe(0);
  });

  it("loses nothing that was answered to kill -9, also after a reload, and starts again", async () => {
    const killed = await start({}, [process.execPath, "lib/local/start.ts", "--watch"]);
    // Again and again, with a time that is long past: one of just now the watcher takes for a change only where the text is
    // another one, and it may look for the first time only after the first of these.
    let at = Date.now() / 1000 - 86_400;
    const isReloaded = async () => {
      await utimes(join(root, "functions/root/health.ts"), ++at, at);
      await vi.waitFor(() => expect(killed.output()).toContain("Reloaded in"), { timeout: 5_000 });
    };
    await vi.waitFor(isReloaded, { timeout: 60_000 });
    const ask = await orgs();
    const answered: string[] = [];
    const writing = (async () => {
      for (let i = 0; i < 500; i++) {
        const made = await ask({ name: "K", slug: `kept-${i}`, domain: `kept-${i}.example` }).catch(() => null);
        if (made?.status === 201) answered.push(made.body.slug);
      }
    })();
    while (answered.length < 40) await new Promise((wait) => setTimeout(wait, 5));
    killed.child.kill("SIGKILL");
    await killed.ended;
    await writing;
    const started = await start();
    const found = new Set<string>();
    const again = await orgs();
    const { body } = await again();
    for (const { slug } of body.data) found.add(slug);
    expect(answered.filter((slug) => !found.has(slug))).toEqual([]);
    expect(await stop(started)).toBe(0);
  });

  it("stops with npm, when npm is told to: a signal reaches the runner, and nothing is left behind", async () => {
    const started = await start({}, ["npm", "start"]);
    const { base_url } = await credentials();
    expect((await fetch(`${base_url}/readyz`)).status).toBe(200);
    expect(await stop(started)).toBe(0);
    await expect(fetch(`${base_url}/healthz`)).rejects.toThrow();
    await expect(stat(join(data, "lock"))).rejects.toThrow();
  });

  it("says in a sentence that the port is taken, and names one that isn't", async () => {
    const squat = async (wanted: number) => {
      const squatter = createServer();
      // Where the next one is taken already, it is taken.
      await new Promise<void>((ready) => squatter.once("error", () => ready()).listen(wanted, "127.0.0.1", ready));
      return squatter;
    };
    const squatter = await squat(0);
    const taken = (squatter.address() as AddressInfo).port;
    const next = await squat(taken + 1);
    const refused = await operate("start.ts", [], { PORT: String(taken) });
    isRefusal(refused, new RegExp(`Port ${taken} is in use\\. .*PORT=\\d+ npm start`));
    expect(Number(refused.said.match(/PORT=(\d+)/)![1])).toBeGreaterThan(taken + 1);
    for (const server of [squatter, next]) server.close();
  });

  it("says in a sentence what the operator has to put right, and undoes what was begun", async () => {
    const malformed = {
      OWNER_DATABASE_URL: "postgres://me:s3cret#@host/db",
      DATABASE_URL: "postgres://me:s3cret@[/db",
    };
    const nowhere = "postgres://me:s3cret@127.0.0.1:1/db";
    const [bogus, nothing, ...unusable] = await Promise.all([
      operate("app.ts", ["--bogus"]),
      operate("app.ts", ["create"]),
      operate("app.ts", ["list"], malformed),
      operate("migrate.ts", [], malformed),
      operate("reseal.ts", [], { ...malformed, ROOT_SECRETS: "new,old" }),
      operate("start.ts", [], malformed),
      operate("app.ts", ["list"], { OWNER_DATABASE_URL: nowhere }),
      operate("migrate.ts", [], { OWNER_DATABASE_URL: nowhere }),
      operate("reseal.ts", [], { OWNER_DATABASE_URL: nowhere, ROOT_SECRETS: "new,old" }),
    ]);
    isRefusal(bogus!, /'--bogus'[\s\S]*Usage:/);
    isRefusal(nothing!, /create needs --name\.[\s\S]*Usage:/);
    for (const refused of unusable.slice(0, 4)) isRefusal(refused, /DATABASE_URL is no connection string/);
    for (const refused of unusable.slice(4)) isRefusal(refused, /OWNER_DATABASE_URL can't be reached: .*ECONNREFUSED/);
    isRefusal(
      await operate("start.ts", [], { DATABASE_URL: nowhere }),
      /DATABASE_URL can't be reached: .*ECONNREFUSED/,
    );
    await expect(fetch(`http://127.0.0.1:${port}/healthz`)).rejects.toThrow();
  });

  it("says in a sentence that a file of the data directory is broken, and stops what it has started", async () => {
    const path = join(data, "credentials.json");
    const kept = await readFile(path);
    await writeFile(path, "{");
    isRefusal(await operate("start.ts"), /credentials\.json can't be read as JSON\. Mend it, or delete it/);
    await writeFile(path, kept);
    await expect(fetch(`http://127.0.0.1:${port}/healthz`)).rejects.toThrow();
  });

  it.runIf(process.getuid?.() === 0)("refuses a data directory that somebody else owns", async () => {
    const foreign = join(data, "foreign");
    await mkdir(foreign);
    await chown(foreign, 65_534, 65_534);
    isRefusal(await operate("start.ts", [], { AGENTRY_DATA: foreign }), /belongs to another user/);
  });
});
