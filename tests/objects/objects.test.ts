/** The kit of all Durable Objects, tried by one of its own in a real runtime, whose end is always a kill -9. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { build } from "esbuild";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { NONE } from "../../lib/db/schema.ts";
import { type Id, newId } from "../../lib/ids.ts";
import { AT_ONCE } from "../../lib/objects/due.ts";
import type { Place } from "../../lib/objects/stub.ts";
import { ownSystem } from "../harness/own.ts";
import type { Ask, Method } from "./reminder.ts";

const HOUR = 3_600_000;
let own: Awaited<ReturnType<typeof ownSystem>>;
let code: string;
let data: string;
let runtime: Miniflare;
let base: URL;
let app: Id<"app">;

async function start() {
  const worker = {
    name: "objects",
    modules: [{ type: "ESModule", path: "reminder.mjs", contents: code }],
    compatibilityDate: "2026-10-01",
    bindings: { DATABASE_URL: own.url, ROOT_SECRETS: own.root },
    durableObjects: { REMINDER: { className: "Reminder", useSQLite: true } },
  };
  const v4 = { host: "127.0.0.1", port: 0, cf: false, workers: [worker] };
  const settings = { telemetry: { enabled: false }, enableDevRegistry: false, resourcePersistencePath: data };
  runtime = new Miniflare(Object.assign(convertV4MiniflareOptions(v4 as never), settings));
  base = await runtime.ready;
}

beforeAll(async () => {
  const bundling = build({
    entryPoints: [resolve(import.meta.dirname, "reminder.ts")],
    bundle: true,
    write: false,
    format: "esm",
    target: "es2024",
    keepNames: true,
    conditions: ["workerd", "worker", "browser"],
    external: ["cloudflare:*"],
  });
  own = await ownSystem();
  app = (await own.newApp()).app_id;
  data = await mkdtemp(join(tmpdir(), "agentry-objects-"));
  code = (await bundling).outputFiles[0]!.text;
  await start();
});
afterAll(async () => {
  await runtime.dispose();
  await own.close();
  await rm(data, { recursive: true, force: true });
});

async function ask(body: Pick<Ask, "row" | "named">, method: Method, ...args: unknown[]): Promise<any> {
  const response = await fetch(base, { method: "POST", body: JSON.stringify({ ...body, method, args }) });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer as string);
  return answer;
}

/** An object of a new row of a place; without one, of an app that the database doesn't know. */
function anObject(place: Place = { app_id: newId("app"), sandbox_id: NONE, org_id: NONE }) {
  const row = { ...place, id: newId("agent") };
  const call =
    (method: Method) =>
    (...args: unknown[]) =>
      ask({ row }, method, ...args);
  const state = call("state");
  return {
    set: (...items: [name: string, at: number][]) => call("set")(...items),
    drop: call("drop"),
    lose: call("lose"),
    state,
    remains: call("remains"),
    agents: call("agents"),
    make: call("make"),
    times: async (name: string) => (await state()).done.filter((done: any) => done.name === name).length,
    list: async () => (await state()).due.map((due: any) => due.name),
  };
}

const until = (holds: () => Promise<void>) => vi.waitFor(holds, { timeout: 15_000, interval: 50 });
const wait = (ms: number) => new Promise((done) => setTimeout(done, ms));

describe.concurrent("one alarm with its due-list", () => {
  it("does each thing at its own instant, never before it, and then sets no alarm", async () => {
    const object = anObject();
    const now = Date.now();
    await object.set(["second", now + 1_500], ["first", now + 1_000], ["at once", now - HOUR]);
    await until(async () => expect(await object.list()).toEqual([]));
    const { done } = await object.state();
    expect(done.map(({ name }: any) => name)).toEqual(["at once", "first", "second"]);
    expect(done[1].at).toBeGreaterThanOrEqual(now + 1_000);
    expect(done[2].at).toBeGreaterThanOrEqual(now + 1_500);
    await until(async () => expect((await object.state()).alarm).toBeNull());
  });

  it("is armed to the earliest of all that is to come", async () => {
    const object = anObject();
    const now = Date.now();
    await object.set(["b", now + 2 * HOUR], ["a", now + HOUR], ["c", now + 3 * HOUR]);
    expect((await object.state()).alarm).toBe(now + HOUR);
  });

  it("does a thing that throws again, later each time, and the others at their time", async () => {
    const object = anObject();
    const now = Date.now();
    await object.set(["throw", now], ["other", now], ["later", now + 700]);
    await until(async () => expect(await object.times("throw")).toBe(3));
    const { done } = await object.state();
    const [first, second, third] = done.filter(({ name }: any) => name === "throw").map(({ at }: any) => at);
    expect(second - first).toBeGreaterThanOrEqual(800);
    expect(third - second).toBeGreaterThanOrEqual(1_600);
    expect(await object.times("other")).toBe(1);
    expect(await object.times("later")).toBe(1);
    expect(await object.list()).toEqual(["throw"]);
  });

  it("holds nothing up for one that doesn't end, and comes back to it", async () => {
    const object = anObject();
    const now = Date.now();
    await object.set(["hang", now]);
    await object.set(["other", now + 300]);
    await until(async () => expect(await object.times("other")).toBe(1));
    expect(await object.list()).toEqual(["hang"]);
    expect((await object.state()).alarm).toBeLessThan(Date.now() + 10_000);
  });

  it("is set again where it was lost, by whoever asks the object ten seconds later", { timeout: 60_000 }, async () => {
    const object = anObject();
    const now = Date.now();
    await object.set(["lost", now + 1_000]);
    await object.lose();
    // It stays in memory, where it believes that its alarm is set.
    while (Date.now() < now + 11_500) {
      await wait(500);
      expect(await object.state()).toMatchObject({ alarm: null, done: [] });
    }
    await object.set(["later", now + HOUR]);
    await until(async () => expect(await object.times("lost")).toBe(1));
    await until(async () => expect((await object.state()).alarm).toBe(now + HOUR));
  });

  it("moves what is set again, and forgets what is taken back", async () => {
    const object = anObject();
    const now = Date.now();
    await object.set(["moved away", now + 1_500], ["taken back", now + 1_500], ["moved here", now + HOUR]);
    await object.set(["moved away", now + HOUR], ["moved here", now + 1_500]);
    await object.drop("taken back");
    await until(async () => expect(await object.times("moved here")).toBe(1));
    await wait(200);
    expect((await object.state()).done).toHaveLength(1);
    expect(await object.list()).toEqual(["moved away"]);
  });

  it("keeps what is set anew while it runs, and never runs it twice at a time", async () => {
    const object = anObject();
    await object.set(["slow", Date.now()], ["again", Date.now()]);
    await until(async () => expect(await object.times("slow")).toBe(1));
    await object.set(["slow", Date.now()]);
    await until(async () => expect(await object.times("slow")).toBe(2));
    await until(async () => expect(await object.list()).toEqual(["again"]));
    const { done, due } = await object.state();
    expect(done.filter(({ twice }: any) => twice)).toEqual([]);
    expect(due[0].at).toBeGreaterThan(Date.now() + HOUR / 2);
  });

  it("drops what is taken back while it runs, also when it then throws", async () => {
    const object = anObject();
    await object.set(["slow throw", Date.now()]);
    await until(async () => expect(await object.times("slow throw")).toBe(1));
    await object.drop("slow throw");
    await wait(1_800);
    expect(await object.times("slow throw")).toBe(1);
    expect(await object.list()).toEqual([]);
  });

  it("does a crowd of one instant, so many at a time, and keeps nothing of it", async () => {
    const object = anObject();
    const at = Date.now() + 100;
    await object.set(...Array.from({ length: 300 }, (_, i): [string, number] => [`one ${i}`, at]));
    await until(async () => {
      const { done, due, most } = await object.state();
      expect([done.length, due.length, most]).toEqual([300, 0, AT_ONCE]);
    });
  });

  it("has one place for a thing, however often it is moved", async () => {
    const object = anObject();
    const at = Date.now() + HOUR;
    await object.set(["moved", at]);
    const { size } = await object.state();
    await object.set(...Array.from({ length: 2_000 }, (_, i): [string, number] => ["moved", at + i]));
    const after = await object.state();
    expect(after.due).toEqual([{ name: "moved", at: at + 1_999 }]);
    expect(after.size).toBe(size);
  });
});

describe("a process that is killed", () => {
  it("loses nothing: what was in flight comes again, and what came due meanwhile comes late", async () => {
    const object = anObject();
    const now = Date.now();
    await object.set(["slow", now], ["meanwhile", now + 1_000], ["later", now + HOUR], ["much later", now + HOUR]);
    await until(async () => expect(await object.times("slow")).toBe(1));
    // Miniflare ends its process by SIGKILL.
    await runtime.dispose();
    await wait(1_200);
    await start();
    await wait(1_500);
    // Nobody has asked the object yet: its alarm alone woke it.
    const { done } = await object.state();
    expect(done.map(({ name }: any) => name).sort()).toEqual(["meanwhile", "slow", "slow"]);
    await object.set(["later", Date.now() + 100]);
    await until(async () => expect(await object.times("later")).toBe(1));
    expect(await object.list()).toEqual(["much later"]);
    // Its name, and with it its tenant, is there for an alarm that nobody's call came before.
    expect(new Set(done.map((one: any) => one.object)).size).toBe(1);
  });
});

describe("its tenant", () => {
  /** An org of the app with an agent of that name. */
  async function anOrg(agent: string, sandbox_id: Place["sandbox_id"] = NONE): Promise<Place> {
    const org_id = newId("org");
    const place = [app, sandbox_id, org_id];
    const { query } = own.database;
    await query("insert into data.tenants values ($1, $2, $3)", place);
    await query(
      "insert into data.orgs (app_id, sandbox_id, id, name, slug, domain) values ($1, $2, $3, $3, lower($3), lower($3))",
      place,
    );
    await query("insert into data.agents (app_id, sandbox_id, org_id, id, name) values ($1, $2, $3, $4, $5)", [
      ...place,
      newId("agent"),
      agent,
    ]);
    return { app_id: app, sandbox_id, org_id };
  }
  const isErased = (object: ReturnType<typeof anObject>) =>
    until(async () => expect(await object.remains()).toEqual({ tables: [], alarm: null }));

  it("is all that it reads, and where what it makes belongs", async () => {
    const place = await anOrg("Acme's");
    const acme = anObject(place);
    const globex = anObject(await anOrg("Globex's"));
    expect(await acme.make("Acme's second")).toEqual([place.org_id]);
    expect(await acme.agents()).toEqual(["Acme's", "Acme's second"]);
    expect(await globex.agents()).toEqual(["Globex's"]);
  });

  it("may be the app's own place, which no org's rows are in", async () => {
    const place: Place = { app_id: app, sandbox_id: NONE, org_id: NONE };
    expect(await ask({ row: place }, "agents")).toEqual([]);
  });

  it("has one object of its own, whichever of its rows leads there; a row's object is another", async () => {
    const place = await anOrg("Initech's");
    const set = [["x", Date.now() + HOUR]];
    await ask({ row: place }, "set", ...set);
    expect((await ask({ row: { ...place } }, "state")).due).toHaveLength(1);
    expect((await anObject(place).state()).due).toEqual([]);
  });

  it("still has what is written to it while it is suspended", async () => {
    const place = await anOrg("Hooli's");
    await own.database.query("update data.orgs set status = 'suspended' where id = $1", [place.org_id]);
    expect(await anObject(place).make("Hooli's second")).toEqual([place.org_id]);
  });

  it("takes the object with it when it is deleted: no storage, no alarm", async () => {
    const place = await anOrg("Umbrella's");
    const object = anObject(place);
    await object.set(["hang", Date.now()], ["read", Date.now() + 300], ["later", Date.now() + HOUR]);
    expect(await object.agents()).toEqual(["Umbrella's"]);
    await own.database.query("delete from data.tenants where org_id = $1", [place.org_id]);
    await isErased(object);
    // What was in flight, and what is set by one who was late, changes nothing of that.
    await object.set(["late", Date.now()]);
    await wait(300);
    await isErased(object);
  });

  it("takes the object with it when its sandbox is past its end", async () => {
    const { query } = own.database;
    const [box] = await query<{ sandbox_id: Id<"sandbox"> }>(
      "select sandbox_id from data.sandboxes where app_id = $1",
      [app],
    );
    const object = anObject(await anOrg("Box's", box!.sandbox_id));
    expect(await object.agents()).toEqual(["Box's"]);
    await query("update data.sandboxes set expires_at = now() where sandbox_id = $1", [box!.sandbox_id]);
    await expect(object.agents()).rejects.toThrow();
    await isErased(object);
  });

  it("isn't gone for a database that doesn't even know the app: it is tried again", async () => {
    const object = anObject({ app_id: newId("app"), sandbox_id: NONE, org_id: newId("org") });
    await object.set(["read", Date.now()]);
    await until(async () => expect(await object.times("read")).toBe(2));
    expect(await object.list()).toEqual(["read"]);
  });

  it("is in its name: an object under any other name refuses", async () => {
    const row = { app_id: app, sandbox_id: NONE, org_id: NONE } as const;
    await expect(ask({ row, named: newId("agent") }, "state")).rejects.toThrow("through its row");
  });
});
