/** Computers of this machine, through the front door, and what a command tries to get out of one: each with a control. */
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { type AddressInfo, createServer as createSocketServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PlatformClient } from "@archastro/sdk";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type Answer, type App, anAgent, anApp, must, together } from "../harness/index.ts";
import { newRoot, newSigningKey, type Own, ownSystem } from "../harness/own.ts";

const dir = mkdtempSync(join(tmpdir(), "agentry-computers-"));
const SECRET = "a-secret-of-the-server's-environment";
/** Some machines let nobody make a sandbox: `.ci/run` sees to it that its own does. */
const hasBubblewrap = spawnSync("bwrap", ["--unshare-all", "--ro-bind", "/", "/", "true"]).status === 0;

let own: Own;
let base: string;
let app: App;
let agent: any;
beforeAll(async () => {
  process.env.A_SECRET = SECRET;
  own = await ownSystem();
  base = await own.start([await newSigningKey("one")], [newRoot()], { computersDir: dir });
  app = await anApp({ base, newApp: own.newApp });
  agent = await anAgent(app.as(app.acme));
});
afterAll(async () => {
  await own?.close();
  rmSync(dir, { recursive: true, force: true });
});

const at = (id: string, rest = "") => `/api/v1/agent_computers/${id}${rest}`;
const ask: (...call: Parameters<ReturnType<App["as"]>>) => Promise<Answer> = (...call) => app.as(app.acme)(...call);
/** Ten of an org are enough, if each goes with its test. */
const made: [typeof ask, string][] = [];
afterEach(async () => {
  await Promise.all(made.splice(0).map(([by, id]) => by("DELETE", at(id))));
});
async function aComputer(by = ask, of = agent): Promise<string> {
  const { id, status } = await must(by("POST", `/api/v1/agents/${of.id}/agent_computers`, { name: "desk" }), 200);
  made.push([by, id]);
  expect(status).toBe("provisioning");
  await expect.poll(async () => (await must(by("GET", at(id)), 200)).status).toBe("ready");
  return id;
}
const run = (id: string, command: string, more: object = {}) =>
  must(ask("POST", at(id, "/exec"), { command, ...more }), 200) as Promise<{
    exit_code: number | null;
    output: string;
  }>;
/** What a command says that ends well. */
const said = async (id: string, command: string) => {
  const { exit_code, output } = await run(id, command);
  if (exit_code !== 0) throw new Error(`${exit_code}: ${output}`);
  return output.trim();
};

const delay = (ms: number) => new Promise((wait) => setTimeout(wait, ms));
/** The processes of this machine whose command line has the word. */
const processesWith = (word: string): number[] =>
  readdirSync("/proc")
    .map(Number)
    .filter((pid) => pid && pid !== process.pid)
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").includes(word);
      } catch {
        return false;
      }
    });
/** A number of seconds that nothing else on this machine sleeps. */
const aWhile = () => `${100_000 + Math.floor(Math.random() * 800_000)}`;
const erase = async () => {
  await own.database.query("update app.erasures set deleted_at = now() - interval '3 minutes', tried_at = null");
  await own.fireCrons();
};

describe.runIf(hasBubblewrap)("a computer of this machine", { timeout: 120_000 }, () => {
  it("is made after the answer, by what the deployment has, and tells when it is ready", async () => {
    const id = await aComputer();
    const made = await must(ask("GET", at(id)), 200);
    expect(made).toMatchObject({ provider: "local", config: { provider: "local" }, error_message: null });
    const told = await own.database.query(
      "select name from data.events where payload ->> 'id' = $1 order by position",
      [id],
    );
    expect(told.map(({ name }: any) => name)).toEqual([
      ...["agent_computer.created", "agent_computer.updated", "agent_computer.ready"],
    ]);
  });

  it("is what the SDK makes, lists, asks after, runs commands on and deletes", async () => {
    const { access_token } = await app.aToken(app.owners[app.acme]!);
    const { v1 } = new PlatformClient({ baseUrl: base, accessToken: access_token });
    const { id } = await v1.agents.agent_computers.create(agent.id, { name: "sdk's", lookup_key: "sdk" });
    await expect.poll(async () => (await v1.agent_computers.get(id!)).status).toBe("ready");
    expect((await v1.agents.agent_computers.list(agent.id)).data.map((one) => one.id)).toContain(id);
    expect(await v1.agent_computers.exec(id!, { command: "echo hello" })).toEqual({ exit_code: 0, output: "hello\n" });
    expect((await v1.agent_computers.refresh(id!)).status).toBe("ready");
    await v1.agent_computers.delete(id!);
    await expect(v1.agent_computers.get(id!)).rejects.toMatchObject({ status: 404 });
  });

  it("runs a command in its home, and answers both streams together and any exit code with 200", async () => {
    const id = await aComputer();
    expect(await run(id, "echo out; echo err >&2; pwd; exit 3")).toEqual({ exit_code: 3, output: "out\nerr\n/home\n" });
    await said(id, "mkdir -p a/b; echo kept > a/b/c");
    expect(await run(id, "pwd; cat c", { dir: "a/b" })).toEqual({ exit_code: 0, output: "/home/a/b\nkept\n" });
    expect((await run(id, "true", { dir: "/nowhere" })).exit_code).not.toBe(0);
    expect(await run(id, "printf 'a\\377b'")).toEqual({ exit_code: 0, output: "a\uFFFDb" });
    expect((await must(ask("GET", at(id)), 200)).last_active_at).toBeTruthy();
    const other = await aComputer();
    await must(app.asDeveloper("POST", at(other, "/exec"), { command: "true" }), 200);
    expect((await must(ask("GET", at(other)), 200)).last_active_at).toBeTruthy();
    for (const timeout_seconds of [0, 601, 1.5]) {
      expect((await ask("POST", at(id, "/exec"), { command: "true", timeout_seconds })).status).toBe(422);
    }
  });

  it("runs a command once under a key, however often and concurrently it is sent: 409 already_run", async () => {
    const id = await aComputer();
    const key = { "Idempotency-Key": "once" };
    const once = () => ask("POST", at(id, "/exec"), { command: "echo ran >> log" }, key);
    const answers = await together(4, once);
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409]);
    expect((await once()).body.error.code).toBe("already_run");
    expect(await said(id, "cat log")).toBe("ran");
    const other = await ask("POST", at(id, "/exec"), { command: "echo other >> log" }, key);
    expect([other.status, other.body.error.fields[0].field]).toEqual([422, "Idempotency-Key"]);
  });

  it("is terminated once its provider knows it no more, and runs nothing then: 422 not_ready", async () => {
    const id = await aComputer();
    rmSync(join(dir, id), { recursive: true });
    const lost = await ask("POST", at(id, "/exec"), { command: "true" });
    expect([lost.status, lost.body.error.code]).toEqual([422, "not_ready"]);
    expect((await must(ask("POST", at(id, "/refresh")), 200)).status).toBe("terminated");
    expect((await ask("POST", at(id, "/exec"), { command: "true" })).body.error.code).toBe("not_ready");
  });

  it("is made by the sweep where nobody else has: of a bundle, or after a crash; another provider's is in error", async () => {
    const template = { name: "Ada", computers: [{ name: "a" }, { name: "b" }] };
    const { id: ada } = await must(ask("POST", "/api/v1/agents", { template_bundle: { template } }), 200);
    const list = async (): Promise<any[]> =>
      (await must(ask("GET", `/api/v1/agents/${ada}/agent_computers`), 200)).data;
    const [b, a] = await list();
    expect([a.status, a.provider]).toEqual(["provisioning", "local"]);
    expect((await ask("POST", at(a.id, "/refresh"))).body.error.code).toBe("not_provisioned");
    const change = "update data.agent_computers set asked_at = now() - interval '2 minutes'";
    await own.database.query(`${change}, provider = 'vercel' where id = $1`, [b.id]);
    await own.fireCrons();
    expect((await list()).map(({ status }) => status)).toEqual(["error", "ready"]);
    expect((await list())[0].error_message).toContain("no such provider");
    // One that nobody was asked for is nowhere, and leaves nothing to be ended.
    const { id: eve } = await must(ask("POST", "/api/v1/agents", { template_bundle: { template } }), 200);
    const left = async () =>
      (await own.database.query("select * from app.erasures where kind = 'agent_computer'", [])).length;
    const before = await left();
    await must(ask("DELETE", `/api/v1/agents/${eve}`), 204);
    expect(await left()).toBe(before);
    // A suspended org's is made when that is lifted.
    const inGlobex = app.as(app.globex);
    const { id: bob } = await must(inGlobex("POST", "/api/v1/agents", { template_bundle: { template } }), 200);
    const theirs = async () =>
      (await own.database.query("select status from data.agent_computers where agent_id = $1", [bob])).map(
        (row: any) => row.status,
      );
    await must(app.asDeveloper("PATCH", `${app.at}/orgs/${app.globex}`, { status: "suspended" }), 200);
    await own.fireCrons();
    expect(await theirs()).toEqual(["provisioning", "provisioning"]);
    await must(app.asDeveloper("PATCH", `${app.at}/orgs/${app.globex}`, { status: "active" }), 200);
    await own.fireCrons();
    expect(await theirs()).toEqual(["ready", "ready"]);
    // Within a minute it is nobody else's to make.
    await own.database.query(
      "update data.agent_computers set status = 'provisioning', asked_at = now() where id = $1",
      [a.id],
    );
    await own.fireCrons();
    expect((await list())[1].status).toBe("provisioning");
  });

  it("is tried for ten minutes where its provider fails, and in error then", async () => {
    const template = { name: "Ada", computers: [{ name: "a" }] };
    const { id: ada } = await must(ask("POST", "/api/v1/agents", { template_bundle: { template } }), 200);
    const listed = async (): Promise<any> =>
      (await must(ask("GET", `/api/v1/agents/${ada}/agent_computers`), 200)).data[0];
    const { id } = await listed();
    // No home is made where a file is.
    writeFileSync(join(dir, id), "");
    const after = async (minutes: number) => {
      const change = "update data.agent_computers set asked_at = null, created_at = now() - $2 * interval '1 minute'";
      await own.database.query(`${change} where id = $1`, [id, minutes]);
      await own.fireCrons();
      return listed();
    };
    expect((await after(9)).status).toBe("provisioning");
    expect(await after(11)).toMatchObject({ status: "error", error_message: expect.stringContaining("ten minutes") });
    rmSync(join(dir, id));
    await must(ask("DELETE", `/api/v1/agents/${ada}`), 204);
  });

  it("is ended with its row, also where what it hangs on goes, and what runs there at once", async () => {
    const ada = await anAgent(ask);
    const [one, other] = [await aComputer(ask, ada), await aComputer(ask, ada)];
    const seconds = aWhile();
    const running = ask("POST", at(one, "/exec"), { command: `sleep ${seconds}` });
    await expect.poll(() => processesWith(seconds).length).toBeGreaterThan(0);
    await must(ask("DELETE", at(one)), 204);
    expect((await running).body.output).toContain("[ended: the computer was deleted]");
    expect(processesWith(seconds)).toEqual([]);
    await expect.poll(() => readdirSync(dir).filter((name) => name.startsWith(one))).toEqual([]);

    await must(ask("DELETE", `/api/v1/agents/${ada.id}`), 204);
    await own.fireCrons();
    expect(existsSync(join(dir, other))).toBe(true);
    await erase();
    expect(readdirSync(dir).filter((name) => name.startsWith(other))).toEqual([]);
    expect(await own.database.query("select * from app.erasures where kind = 'agent_computer'", [])).toEqual([]);
  });

  it("leaves nothing behind when it is deleted while it is made", async () => {
    for (let i = 0; i < 3; i++) {
      const { id } = await must(ask("POST", `/api/v1/agents/${agent.id}/agent_computers`, { name: "desk" }), 200);
      await delay(i * 20);
      await must(ask("DELETE", at(id)), 204);
      await delay(500);
      await expect.poll(() => readdirSync(dir).filter((name) => name.startsWith(id))).toEqual([]);
    }
  });

  it("stops within five seconds when its org is suspended, and goes on when that is lifted", async () => {
    const id = await aComputer();
    const seconds = aWhile();
    const running = ask("POST", at(id, "/exec"), { command: `sleep ${seconds}` });
    await expect.poll(() => processesWith(seconds).length).toBeGreaterThan(0);
    const link = new URL((await must(ask("GET", at(id)), 200)).sprite_url);
    const picture = () => fetch(base + link.pathname + link.search);
    expect((await picture()).status).toBe(200);
    await must(app.asDeveloper("PATCH", `${app.at}/orgs/${app.acme}`, { status: "suspended" }), 200);
    const since = Date.now();
    const answer = await running;
    expect([answer.status, answer.body.error.code]).toEqual([403, "org_suspended"]);
    expect(Date.now() - since).toBeLessThan(15_000);
    expect(processesWith(seconds)).toEqual([]);
    expect((await picture()).status).toBe(404);
    await must(app.asDeveloper("PATCH", `${app.at}/orgs/${app.acme}`, { status: "active" }), 200);
    expect(await said(id, "echo on")).toBe("on");
  });

  it("shows its last 24 lines by a link of an hour, as text in an image that loads nothing; any other link is one 404", async () => {
    const [id, other] = [await aComputer(), await aComputer()];
    await said(id, "seq 100; printf '\\033[31m<script>&\\033[0m\\007\\n'");
    const { sprite_url } = await must(ask("GET", at(id)), 200);
    const { pathname, search, origin } = new URL(sprite_url);
    expect([origin, pathname]).toEqual(["http://agentry.test", at(id, "/screen")]);
    const shown = await fetch(base + pathname + search);
    expect([shown.status, shown.headers.get("Content-Type")]).toEqual([200, "image/svg+xml"]);
    expect(shown.headers.get("Content-Security-Policy")).toBe("default-src 'none'");
    expect(shown.headers.get("X-Content-Type-Options")).toBe("nosniff");
    const svg = await shown.text();
    const lines = [...svg.matchAll(/<text [^>]*>(.*)<\/text>/g)].map(([, line]) => line);
    expect(lines).toEqual([...Array.from({ length: 23 }, (_, i) => `${78 + i}`), "&lt;script&gt;&amp;"]);
    const flawed = [
      `${at(other, "/screen")}${search}`,
      `${pathname}${search.slice(0, -2)}`,
      pathname,
      at("cmp_x", `/screen${search}`),
    ];
    const answers = await Promise.all(flawed.map(async (path) => fetch(base + path)));
    const bodies = await Promise.all(
      answers.map(async (one) => ({ ...((await one.json()) as object), ...{ instance: "", request_id: "" } })),
    );
    expect(answers.map(({ status }) => status)).toEqual([404, 404, 404, 404]);
    for (const body of bodies) expect(body).toEqual(bodies[0]);
    await must(ask("DELETE", at(id)), 204);
    expect((await fetch(base + pathname + search)).status).toBe(404);
  });

  it("shows all lines of commands that ran at once, and nothing by a link into an org that is gone", async () => {
    const another = await anApp({ base, newApp: own.newApp });
    const by = another.as(another.acme);
    const id = await aComputer(by, await anAgent(by));
    const exec = (command: string) => must(by("POST", at(id, "/exec"), { command }), 200);
    await Promise.all([exec("until [ -e done ]; do sleep 0.1; done; seq 3"), exec("echo b"), exec("touch done")]);
    const { sprite_url } = await must(by("GET", at(id)), 200);
    const link = new URL(sprite_url);
    const picture = () => fetch(base + link.pathname + link.search);
    const lines = [...(await (await picture()).text()).matchAll(/<text [^>]*>(.*)<\/text>/g)].map(([, line]) => line);
    expect(lines.filter((line) => ["1", "2", "3", "b"].includes(line!)).sort()).toEqual(["1", "2", "3", "b"]);
    await must(another.asDeveloper("DELETE", `${another.at}/orgs/${another.acme}`), 204);
    expect((await picture()).status).toBe(404);
  });

  it("lets an org run two commands at once: the third waits its turn, and another org's doesn't", async () => {
    const [id, theirs] = [await aComputer(), await aComputer(app.as(app.globex), await anAgent(app.as(app.globex)))];
    const seconds = aWhile();
    // Whoever asks: here the app's backend, for both orgs.
    const exec = (of: string, body: object) => must(app.asDeveloper("POST", at(of, "/exec"), body), 200);
    const sleeping = [1, 2].map(() => exec(id, { command: `sleep ${seconds}`, timeout_seconds: 8 }));
    await expect.poll(() => new Set(processesWith(seconds)).size).toBeGreaterThan(1);
    let third: unknown;
    const waiting = run(id, "echo third").then((ran) => {
      third = ran;
    });
    const { output } = await exec(theirs, { command: "echo theirs" });
    expect([output, third]).toEqual(["theirs\n", undefined]);
    await Promise.all([...sleeping, waiting]);
    expect(third).toEqual({ exit_code: 0, output: "third\n" });
  });

  it("lets eight commands run at once, of whatever orgs: the ninth waits its turn", async () => {
    const apps = [app, await anApp({ base, newApp: own.newApp }), await anApp({ base, newApp: own.newApp })];
    const orgs = apps.flatMap((one) => [one.as(one.acme), one.as(one.globex)]).slice(0, 5);
    const [ninth, ...others] = await Promise.all(
      orgs.map(async (by) => [by, await aComputer(by, await anAgent(by))] as const),
    );
    const seconds = aWhile();
    const exec = ([by, id]: (typeof others)[number], command: string) =>
      must(by("POST", at(id, "/exec"), { command, timeout_seconds: 8 }), 200);
    const sleeping = [...others, ...others].map((one) => exec(one, `sleep ${seconds}`));
    const runs = () => processesWith(seconds).filter((pid) => readFileSync(`/proc/${pid}/comm`, "utf8") === "sleep\n");
    await expect.poll(() => runs().length).toBe(8);
    let said: unknown;
    const waiting = exec(ninth!, "echo ninth").then(({ output }) => {
      said = output;
    });
    await delay(1_500);
    expect([runs().length, said]).toEqual([8, undefined]);
    await Promise.all([...sleeping, waiting]);
    expect(said).toBe("ninth\n");
  });
});

describe.runIf(hasBubblewrap)("what runs on a computer of this machine", { timeout: 180_000 }, () => {
  it("finds no other's home, nor anything of the server's", async () => {
    const [one, other] = [await aComputer(), await aComputer()];
    await said(one, "echo treasure > it");
    // The control: it is there, for its own and for the server.
    expect(await said(one, "cat it")).toBe("treasure");
    expect(readFileSync(join(dir, one, "it"), "utf8")).toBe("treasure\n");
    for (const path of [
      join(dir, one, "it"),
      `../${one}/it`,
      `/proc/1/root${join(dir, one, "it")}`,
      import.meta.filename,
    ]) {
      expect((await run(other, `cat ${path}`)).exit_code).not.toBe(0);
      expect((await run(other, `ln -sf ${path} link; cat link`)).exit_code).not.toBe(0);
    }
    expect(await said(other, "ls /")).toBe("bin\ndev\netc\nhome\nlib\nlib64\nproc\nsbin\ntmp\nusr");
    expect(await said(other, "ls -R /etc /tmp | grep -c passwd || true")).toBe("0");
  });

  it("sees no process but its own, can't end others, and no environment has the server's secrets", async () => {
    const id = await aComputer();
    const child = spawn("sleep", ["600"]);
    try {
      // The control: whoever is on the machine reads it.
      expect(readFileSync(`/proc/${process.pid}/environ`, "utf8").length).toBeGreaterThan(10);
      expect(process.env.A_SECRET).toBe(SECRET);
      const seen = (await said(id, "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | sort -u")).split("\n");
      expect(seen.filter((line) => !/^(HOME|LANG|PATH|PWD|OLDPWD)=/.test(line))).toEqual([]);
      expect((await said(id, "cat /proc/[0-9]*/cmdline")).includes("vitest")).toBe(false);
      expect(Number(await said(id, "ls -d /proc/[0-9]* | wc -l"))).toBeLessThan(10);
      for (const pid of [process.pid, child.pid]) expect((await run(id, `kill -9 ${pid}`)).exit_code).not.toBe(0);
      await run(id, "kill -9 -1");
      expect(child.exitCode).toBe(null);
    } finally {
      child.kill();
    }
  });

  it("is another user than the server and than other computers, also on the machine, and becomes nobody else", async () => {
    const [one, other] = [await aComputer(), await aComputer()];
    expect(await said(one, "id -u")).toBe("1000");
    const uidsOf = async (id: string) => {
      const seconds = aWhile();
      const running = run(id, `sleep ${seconds}`, { timeout_seconds: 3 });
      await expect.poll(() => processesWith(seconds).length).toBeGreaterThan(0);
      const uids = processesWith(seconds).flatMap((pid) => {
        const [cmd] = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
        return cmd === "sleep" ? readFileSync(`/proc/${pid}/status`, "utf8").match(/^Uid:\s+(\d+)/m)![1]! : [];
      });
      await running;
      return uids;
    };
    const uids = [...(await uidsOf(one)), ...(await uidsOf(other))];
    expect(uids.length).toBe(2);
    // Who isn't root has no other ids to give away.
    if (process.getuid!() === 0) expect(new Set(["0", ...uids]).size).toBe(3);
    expect(await said(one, "cp /usr/bin/id . && chmod 6755 id && ./id -u && ./id -g")).toBe("1000\n1000");
    expect(await said(one, "grep -h '^Cap[PEB]' /proc/self/status | cut -f2 | sort -u")).toBe("0000000000000000");
    for (const tried of [
      "unshare -Ur true",
      "unshare -m true",
      "mount -t tmpfs x /tmp",
      "chroot / true",
      "mknod x b 7 0",
      "su -c true",
    ]) {
      expect((await run(one, tried)).exit_code, tried).not.toBe(0);
    }
  });

  it("reaches no network: not this machine, not the internet, no socket of the machine", async () => {
    const id = await aComputer();
    const server = createServer((_, answer) => answer.end("reached"));
    await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
    const { port } = server.address() as AddressInfo;
    const abstract = `agentry-${aWhile()}`;
    const sockets = createSocketServer((socket) => socket.destroy());
    await new Promise<void>((ready) => sockets.listen(`\0${abstract}`, ready));
    const tcp = (host: string, at: number) => ["bash", "-c", `exec 3<>/dev/tcp/${host}/${at}`];
    const unix = `use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, pack("S a*", AF_UNIX, "\\0${abstract}")) or exit 9`;
    try {
      // The controls: from outside both are reached.
      expect(spawnSync("timeout", ["5", ...tcp("127.0.0.1", port)]).status).toBe(0);
      expect(spawnSync("timeout", ["5", "perl", "-e", unix]).status).toBe(0);
      for (const [host, to] of [
        ["127.0.0.1", port],
        ["1.1.1.1", 53],
        ["169.254.169.254", 80],
      ] as const) {
        expect(
          (await run(id, `timeout 5 ${tcp(host, to).slice(0, 2).join(" ")} '${tcp(host, to)[2]}'`)).exit_code,
        ).not.toBe(0);
      }
      expect((await run(id, `timeout 5 perl -e '${unix}'`)).exit_code).toBe(9);
      expect(await said(id, "tail -n +3 /proc/net/dev | cut -d: -f1")).toBe("lo");
    } finally {
      server.close();
      sockets.close();
    }
  });

  it("forks no more than 64 processes, and another computer answers meanwhile", async () => {
    const [bomb, other] = [await aComputer(), await aComputer()];
    // The control: some are nothing special.
    expect(await said(bomb, "for i in $(seq 20); do sleep 1 & done; wait; echo all")).toBe("all");
    const before = readdirSync("/proc").filter(Number).length;
    const exploding = run(bomb, "f() { f | f & }; f; exec sleep 60", { timeout_seconds: 6 });
    await delay(1_500);
    expect(readdirSync("/proc").filter(Number).length - before).toBeLessThan(150);
    expect(await said(other, "echo calm")).toBe("calm");
    expect((await exploding).exit_code).toBe(null);
    expect(await said(bomb, "echo calm")).toBe("calm");
  });

  it("writes no file of 10 GB and no 10 GB of files, nowhere, and can make room again", async () => {
    const id = await aComputer();
    const write = (path: string, megabytes: number) =>
      `dd if=/dev/zero of=${path} bs=1M count=${megabytes} 2>/dev/null`;
    // The control: what fits is written.
    expect(await said(id, `${write("fits", 200)} && stat -c %s fits && rm fits`)).toBe("209715200");
    for (const ask of ["truncate -s 10G", "fallocate -l 10G", "fallocate -l 10M"]) {
      expect((await run(id, `${ask} big`)).exit_code, ask).not.toBe(0);
    }
    for (const where of ["/tmp", "/dev/shm", "/", "/dev", "/usr", "/home/.."]) {
      const written = await run(id, `${write(`${where}/big`, 10_240)}; stat -c %s ${where}/big || echo 0`);
      expect(Number(written.output.trim().split("\n").at(-1)), where).toBeLessThanOrEqual(64 * 1024 * 1024);
    }
    expect((await run(id, `${write("big", 10_240)}`)).exit_code).not.toBe(0);
    expect(await said(id, "stat -c %s big; rm -f big")).toBe(`${256 * 1024 * 1024}`);
    // Hidden, too.
    const many = await run(id, `mkdir d; for i in 1 2 3 4 5; do ${write("d/$i", 250)}; done; chmod 0 d; sleep 60`);
    expect(many).toMatchObject({ exit_code: null, output: expect.stringContaining("holds more than 1 GB") });
    expect((await run(id, "echo more > more; cat more")).output).not.toContain("more\n");
    expect((await run(id, "chmod 700 d; rm -r d more")).exit_code).toBe(0);
    expect(await said(id, "echo more > more; cat more")).toBe("more");
  });

  it("changes nothing in a home that holds over twice as much, and reads there", async () => {
    const id = await aComputer();
    expect(await said(id, "echo kept > it; cat it")).toBe("kept");
    const big = join(dir, id, "big");
    // No command comes so far: it is ended before.
    expect(spawnSync("fallocate", ["-l", "2100M", big]).status).toBe(0);
    for (const change of ["rm -f big", "rm -f it", ": > it", "mv it other", "chmod 0 it", "touch more"]) {
      expect((await run(id, change)).exit_code, change).not.toBe(0);
    }
    expect(await said(id, "cat it")).toBe("kept");
    rmSync(big);
    expect(await said(id, "echo more > it; cat it")).toBe("more");
  });

  it("has no more than 1 GB in memory, of all its processes together", async () => {
    const id = await aComputer();
    const perl = (megabytes: number) => `perl -e '$x = "x" x (${megabytes} * 1000000); print length $x; sleep 20'`;
    expect(await run(id, `${perl(100).replace("sleep 20", "1")}`)).toEqual({ exit_code: 0, output: "100000000" });
    const much = await run(id, `for i in 1 2 3; do ${perl(300)} & done; wait`);
    expect(much).toMatchObject({ exit_code: null, output: expect.stringContaining("more than 1 GB in memory") });
  });

  it("hides no memory from that, in what is shared without a file's name", async () => {
    const id = await aComputer();
    const [mmap, memfd, secret] = process.arch === "arm64" ? [222, 279, 447] : [9, 319, 447];
    const tries = {
      shared: `syscall(${mmap}, 0, 4096, 3, 0x21, -1, 0)`,
      zero: `open(F, "+<", "/dev/zero") && syscall(${mmap}, 0, 4096, 3, 1, fileno(F), 0)`,
      memfd: `syscall(${memfd}, $name, 0)`,
      secret: `syscall(${secret}, 0)`,
      sysv: "(defined shmget(0, 4096, 0600) ? 1 : -1)",
      // The control: a process's own, and a file's, it has.
      own: `syscall(${mmap}, 0, 4096, 3, 0x22, -1, 0)`,
      file: `open(G, "+>", "f") && truncate(G, 4096) && syscall(${mmap}, 0, 4096, 3, 1, fileno(G), 0)`,
    };
    const perl = Object.entries(tries).map(([name, code]) => `print "${name}\\n" if (${code}) > 0;`);
    const script = `$name = "x"; ${perl.join(" ")}`;
    expect(await said(id, `perl -e '${script}'`)).toBe("own\nfile");
    const outside = spawnSync("perl", ["-e", script], { cwd: mkdtempSync(join(dir, "outside-")), encoding: "utf8" });
    expect(outside.stdout.split("\n")).toEqual(expect.arrayContaining(["shared", "zero", "memfd", "own", "file"]));
    expect(await said(id, "head -c 3 /dev/zero | od -An -tx1")).toBe("00 00 00");
  });

  it("asks for no keys, which would be the server's, nor for the ring by which calls pass unseen", async () => {
    const id = await aComputer();
    const [add, request, keys] = process.arch === "arm64" ? [217, 218, 219] : [248, 249, 250];
    const all = [`${add}, $a, $a, $a, 1, -3`, `${request}, $a, $a, 0, -3`, `${keys}, 0, -3, 1`, "425, 1, 0"];
    const script = `$a = "x"; ${all.map((call) => `$! = 0; syscall(${call}); print $! + 0, " ";`).join(" ")}`;
    expect(await said(id, `perl -e '${script}'`)).toBe("38 38 38 38");
    // The control: whoever has a session on the machine has its keys.
    expect(spawnSync("perl", ["-e", script], { encoding: "utf8" }).stdout.split(" ")[2]).not.toBe("38");
  });

  it("has the limits that its page names, which it can't raise", async () => {
    const id = await aComputer();
    const limits = "ulimit -n -v -c -u -f | tr -s ' ' | sed 's/.* //'";
    const shown = async () => said(id, `bash -c "${limits}"; nice; cat /proc/self/oom_score_adj`);
    expect((await shown()).split("\n")).toEqual(["256", "4194304", "0", "64", "262144", "19", "1000"]);
    for (const raise of ["ulimit -n 512", "ulimit -u 65", "ulimit -v unlimited", "echo 0 > /proc/self/oom_score_adj"]) {
      expect((await run(id, `bash -c "${raise}"`)).exit_code, raise).not.toBe(0);
    }
    expect(await said(id, "nice -n -5 nice 2> /dev/null")).toBe("19");
  });

  it("is ended at its time and beyond 1 MB, with all that it has begun, however that hides", async () => {
    const id = await aComputer();
    const seconds = aWhile();
    const hidden = `(setsid nohup sleep ${seconds} > /dev/null 2>&1 &); sleep 0.2`;
    const late = run(id, `${hidden}; sleep ${seconds}`, { timeout_seconds: 3 });
    // The control: it is there while the command is.
    await expect.poll(() => processesWith(seconds).length).toBeGreaterThan(0);
    expect(await late).toEqual({ exit_code: null, output: "\n[ended: it took more than 3 seconds]\n" });
    await expect.poll(() => processesWith(seconds)).toEqual([]);
    expect(await run(id, `${hidden}; echo done`)).toEqual({ exit_code: 0, output: "done\n" });
    await expect.poll(() => processesWith(seconds)).toEqual([]);
    const { exit_code, output } = await run(id, "yes");
    expect([exit_code, output.length]).toEqual([null, 1_000_000 + "\n[ended: it said more than 1 MB]\n".length]);
    expect((await run(id, "head -c 1000000 /dev/zero | tr '\\0' x")).output.length).toBe(1_000_000);
  });

  it("leads the server nowhere by its links, when its home is measured or deleted", async () => {
    const id = await aComputer();
    const outside = mkdtempSync(join(tmpdir(), "agentry-outside-"));
    writeFileSync(join(outside, "file"), "kept");
    await said(
      id,
      `ln -s ${outside} there; ln -s / root; mkdir -p deep/er; ln -s ${outside}/file deep/er/file; chmod 0 deep/er; chmod 0 deep`,
    );
    // The control: on this side the link leads out of the home.
    expect(readFileSync(join(dir, id, "there", "file"), "utf8")).toBe("kept");
    await must(ask("DELETE", at(id)), 204);
    await expect.poll(() => readdirSync(dir).filter((name) => name.startsWith(id))).toEqual([]);
    expect(readFileSync(join(outside, "file"), "utf8")).toBe("kept");
    rmSync(outside, { recursive: true });
  });
});
