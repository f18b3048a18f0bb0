/** Work items, which a run's graph makes: here they are written as it writes them. */
import { describe, expect, it } from "vitest";
import { newId } from "../../lib/ids.ts";
import { anAgent, anApp, must, sql, system, together } from "../harness/index.ts";

async function start() {
  const app = await anApp();
  const owner = app.as(app.acme);
  const agent = await anAgent(owner);
  const at = `/api/v1/agents/${agent.id}/work_items`;
  /** One that is over, so that nobody looks after it. */
  const aRun = async () => {
    const id = newId("agent_routine_run");
    await sql(
      `insert into data.agent_routine_runs (app_id, sandbox_id, org_id, agent_id, id, status, look_at)
        select app_id, sandbox_id, org_id, id, $2, 'completed', null from data.agents where id = $1`,
      [agent.id, id],
    );
    return id;
  };
  const RUN = await aRun();
  let commands = 0;
  const anItem = async (fields: { run?: string; payload?: object } = {}) => {
    const id = newId("work_item");
    await sql(
      `insert into data.work_items (app_id, sandbox_id, org_id, agent_id, id, run_id, command_id, node_id, payload)
        select app_id, sandbox_id, org_id, id, $2, $3, $4, 'ask', $5 from data.agents where id = $1`,
      [agent.id, id, fields.run ?? RUN, `command ${++commands}`, JSON.stringify(fields.payload ?? { ticket: 7 })],
    );
    return id;
  };
  const claim = async (lease_owner: string, more: object = {}) =>
    (await must(owner("POST", `${at}/claim`, { lease_owner, ...more }), 200)).data;
  const act = (id: string, verb: string, body: object) => owner("POST", `/api/v1/work_items/${id}/${verb}`, body);
  const expire = (id: string) =>
    sql("update data.work_items set lease_expires_at = now() - interval '1 second' where id = $1", [id]);
  const list = async (query = ""): Promise<any[]> => (await must(owner("GET", `${at}${query}`), 200)).data;
  return { ...app, owner, agent, at, RUN, aRun, anItem, claim, act, expire, list };
}

describe("claiming", () => {
  it("takes the oldest that is queued, then the next, then nothing; the answer shows the lease", async () => {
    const { anItem, claim, agent, RUN } = await start();
    const [first, second] = [await anItem(), await anItem()];
    const { lease_owner, work_item } = await claim("me");
    expect([lease_owner, work_item]).toEqual([
      "me",
      {
        ...{ type: "workflow_work_item", id: first, agent: agent.id, execution: RUN, routine_run: RUN },
        ...{ command_id: "command 1", node_id: "ask", status: "claimed", payload: { ticket: 7 }, attempt_count: 1 },
        lease_expires_at: expect.stringMatching(/Z$/),
        created_at: work_item.created_at,
        updated_at: work_item.updated_at,
      },
    ]);
    const left = Date.parse(work_item.lease_expires_at) - Date.parse(work_item.updated_at);
    expect(Math.round(left / 1000)).toBe(300);
    expect((await claim("me")).work_item.id).toBe(second);
    expect(await claim("me")).toBeNull();
  });

  it("takes one whose lease has run out, and counts another attempt", async () => {
    const { anItem, claim, expire } = await start();
    const id = await anItem();
    await claim("one");
    expect(await claim("other")).toBeNull();
    await expire(id);
    const { work_item } = await claim("other", { lease_seconds: 15 });
    expect([work_item.id, work_item.attempt_count, work_item.status]).toEqual([id, 2, "claimed"]);
  });

  it("goes on with one's own, named by its id, without counting; another's stays another's", async () => {
    const { anItem, claim, act, expire } = await start();
    const id = await anItem();
    await claim("me");
    await must(act(id, "start", { lease_owner: "me" }), 204);
    expect(await claim("other", { work_item: id })).toBeNull();
    expect((await claim("me", { work_item: id })).work_item).toMatchObject({ status: "running", attempt_count: 1 });
    await expire(id);
    expect((await claim("me", { work_item: id })).work_item).toMatchObject({ status: "running", attempt_count: 1 });
    await must(act(id, "submit", { lease_owner: "me", result: {} }), 204);
    expect(await claim("me", { work_item: id })).toBeNull();
  });

  it("of one that isn't there, or is another agent's, is a 422", async () => {
    const { owner, at, anItem } = await start();
    const other = await anAgent(owner);
    const refusal = { error: { fields: [{ field: "work_item", message: "there is no such work item" }] } };
    for (const [path, work_item] of [
      [at, newId("work_item")],
      [`/api/v1/agents/${other.id}/work_items`, await anItem()],
    ]) {
      const { status, body } = await owner("POST", `${path}/claim`, { lease_owner: "me", work_item });
      expect([status, body]).toMatchObject([422, refusal]);
    }
  });

  it("takes only those of a run, where one is named", async () => {
    const { anItem, aRun, claim, list } = await start();
    await anItem();
    const other = await aRun();
    const id = await anItem({ run: other });
    const { work_item } = await claim("me", { execution: other });
    expect([work_item.id, work_item.execution, work_item.routine_run]).toEqual([id, other, other]);
    expect(await claim("me", { execution: other })).toBeNull();
    expect((await list(`?execution=${other}`)).map((item) => item.id)).toEqual([id]);
  });

  it("has the run of a tenth lease looked after when that ends, and of no item that is over", async () => {
    const { anItem, aRun, claim, act, expire } = await start();
    const look = async (run: string) =>
      (
        await sql("select extract(epoch from look_at - now())::float as s from data.agent_routine_runs where id = $1", [
          run,
        ])
      )[0].s;
    const runs = await Promise.all([aRun(), aRun()]);
    await sql("update data.agent_routine_runs set status = 'running' where id in ($1, $2)", runs);
    const [ended, open] = [await anItem({ run: runs[0]! }), await anItem({ run: runs[1]! })];
    const tenth = async (id: string, execution: string) => {
      await sql("update data.work_items set attempt_count = 9 where id = $1", [id]);
      return claim("me", { execution, lease_seconds: 600 });
    };
    await tenth(ended, runs[0]!);
    await must(act(ended, "submit", { lease_owner: "me", result: {} }), 204);
    await sql("update data.agent_routine_runs set look_at = now() + interval '20 seconds' where id in ($1, $2)", runs);
    await tenth(open, runs[1]!);
    const [first, second] = [await look(runs[0]!), await look(runs[1]!)];
    expect([Math.round(first) <= 20, Math.abs(second - 600) < 10]).toEqual([true, true]);
    await expire(open);
    await sql("update data.agent_routine_runs set status = 'completed', look_at = null where id in ($1, $2)", runs);
  });

  it("takes one ten times at most: then the end of its lease is its own", async () => {
    const { anItem, claim, expire } = await start();
    const id = await anItem();
    for (let n = 1; n <= 10; n++) {
      expect((await claim(`owner ${n}`)).work_item.attempt_count).toBe(n);
      await expire(id);
    }
    expect(await claim("one more")).toBeNull();
    expect(await claim("one more", { work_item: id })).toBeNull();
  });

  it.runIf(system.concurrent)("of twenty who ask at once gives one item to one of them", async () => {
    const { anItem, claim } = await start();
    const id = await anItem();
    const claims = await together(20, (i: number) => claim(`owner ${i}`));
    expect(claims.filter((one) => one !== null).map((one) => [one.work_item.id, one.work_item.attempt_count])).toEqual([
      [id, 1],
    ]);
  });
});

describe("working on one", () => {
  it("is for whoever has its lease: anybody else is told that it is lost, and changes nothing", async () => {
    const { anItem, claim, act, expire, list } = await start();
    const id = await anItem();
    const bodies = { start: {}, heartbeat: {}, submit: { result: { a: 1 } }, fail: { error: { a: 1 } } };
    const refusals = async (lease_owner: string) => {
      for (const [verb, body] of Object.entries(bodies)) {
        const { status, body: problem } = await act(id, verb, { lease_owner, ...body });
        expect([verb, status, problem.error.code]).toEqual([verb, 409, "lease_lost"]);
      }
    };
    await refusals("me");
    await claim("me");
    await refusals("other");
    await expire(id);
    await refusals("me");
    expect(await list()).toMatchObject([{ status: "claimed", attempt_count: 1 }]);
  });

  it("is kept by a heartbeat, for as long as it says", async () => {
    const { anItem, claim, act, list } = await start();
    const id = await anItem();
    await claim("me", { lease_seconds: 15 });
    await must(act(id, "heartbeat", { lease_owner: "me", lease_seconds: 3600 }), 204);
    const [{ lease_expires_at, updated_at, status }] = await list();
    expect([Math.round((Date.parse(lease_expires_at) - Date.parse(updated_at)) / 1000), status]).toEqual([
      3600,
      "claimed",
    ]);
    for (const lease_seconds of [14, 3601, 20.5]) {
      expect((await act(id, "heartbeat", { lease_owner: "me", lease_seconds })).status).toBe(422);
    }
  });

  it.each([
    ["submit", "result", "succeeded", "fail", "error"],
    ["fail", "error", "failed", "submit", "result"],
  ])("ends by %s: the same again is fine, another outcome is a 409", async (verb, field, status, other, its) => {
    const { anItem, claim, act, list } = await start();
    const id = await anItem();
    await claim("me");
    const said = { lease_owner: "me", [field]: { said: [1, { b: 2, a: 1 }] } };
    await must(act(id, verb, said), 204);
    await must(act(id, verb, { ...said, [field]: { said: [1, { a: 1, b: 2 }] } }), 204);
    expect(await list()).toMatchObject([{ status, lease_expires_at: null }]);
    expect((await act(id, verb, { lease_owner: "me", [field]: { said: 2 } })).status).toBe(409);
    expect((await act(id, other, { lease_owner: "me", [its]: { said: [1, { a: 1, b: 2 }] } })).status).toBe(409);
    expect((await act(id, verb, { ...said, lease_owner: "other" })).status).toBe(409);
    const [row] = await sql("select result, error from data.work_items where id = $1", [id]);
    expect(row).toEqual({ result: null, error: null, [field]: { said: [1, { a: 1, b: 2 }] } });
  });

  it("takes no result above 64 KB", async () => {
    const { anItem, claim, act } = await start();
    const id = await anItem();
    await claim("me");
    expect((await act(id, "submit", { lease_owner: "me", result: { long: "x".repeat(65_536) } })).status).toBe(422);
    await must(act(id, "submit", { lease_owner: "me", result: { long: "x".repeat(65_000) } }), 204);
  });
});

describe("lists", () => {
  it("are of one agent, or of all that one may read, newest first, in pages, and show no lease", async () => {
    const { anItem, claim, owner, at, list } = await start();
    const ids = [await anItem(), await anItem(), await anItem()].reverse();
    await claim("a secret of mine");
    expect((await list()).map((item) => item.id)).toEqual(ids);
    const first = await must(owner("GET", "/api/v1/work_items?limit=2"), 200);
    expect([first.data.map((item: any) => item.id), first.has_more]).toEqual([ids.slice(0, 2), true]);
    const rest = await must(owner("GET", `/api/v1/work_items?limit=2&after_cursor=${first.after_cursor}`), 200);
    expect([rest.data.map((item: any) => item.id), rest.has_more]).toEqual([ids.slice(2), false]);
    const { text } = await owner("GET", at);
    expect(text).not.toContain("a secret of mine");
    const kept = JSON.stringify(
      await sql("select to_jsonb(w) from data.work_items w where id = any (string_to_array($1, ','))", [ids.join()]),
    );
    expect(kept).not.toContain("a secret of mine");
  });

  it("and claims are for who may: a viewer reads, and can't claim", async () => {
    const { as, acme, at } = await start();
    const viewer = as(acme, { role: "viewer" });
    await must(viewer("GET", at), 200);
    expect((await viewer("POST", `${at}/claim`, { lease_owner: "me" })).status).toBe(403);
  });
});
