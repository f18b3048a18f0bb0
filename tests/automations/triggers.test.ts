/** Automations that react to events, through the front door. */
import { describe, expect, it } from "vitest";
import { anAgent, must, sql } from "../harness/index.ts";
import { stage as stageOf } from "./stage.ts";

/** `runs` are an automation's, oldest first, as its org's events tell of them and as they are now. */
async function stage() {
  const made = await stageOf();
  const { call, becomes } = made;
  const tell = (name: string, payload: object, by = call) => must(by("POST", "/api/v1/events", { name, payload }), 201);
  const ids = async (of: { id: string }): Promise<string[]> => {
    const { data } = await must(call("GET", "/api/v1/events?limit=500&event_names[]=automation_run.created"), 200);
    return data.flatMap(({ payload }: any) => (payload.automation === of.id ? [payload.id] : []));
  };
  const runs = async (of: { id: string }, count: number): Promise<any[]> => {
    await expect.poll(async () => (await ids(of)).length, { timeout: 15_000 }).toBe(count);
    return Promise.all((await ids(of)).map((id) => becomes(id, "completed", "failed", "cancelled")));
  };
  return { ...made, tell, ids, runs };
}

describe("a trigger", () => {
  it("reacts to its event once, with the payload as its own, and to no other", async () => {
    const { automation, tell, runs } = await stage();
    const of = await automation({ event_type: "custom.paid" });
    const event = await tell("custom.paid", { order: "A-1" });
    await tell("custom.other", { order: "A-2" });
    const [run] = await runs(of, 1);
    expect(run).toMatchObject({
      ...{ automation: of.id, event_id: event.id, payload: { order: "A-1" }, user: null },
      ...{ status: "completed", result: { got: { order: "A-1" } } },
    });
    await tell("custom.paid", { order: "A-3" });
    expect((await runs(of, 2)).map(({ payload }) => payload.order)).toEqual(["A-1", "A-3"]);
  });

  it("takes what its filters let through, and of a key one within its window: the other reads cancelled", async () => {
    const { automation, tell, runs } = await stage();
    const of = await automation({
      event_config: { "custom.paid": { filters: { "order.kind": "big" }, dedupe_key_path: "order.id" } },
    });
    await tell("custom.paid", { order: { kind: "small", id: 1 } });
    for (const id of [1, 1, 2]) await tell("custom.paid", { order: { kind: "big", id } });
    const all = await runs(of, 3);
    expect(all.map(({ status, result }) => [status, result.reason])).toEqual([
      ["completed", undefined],
      ["cancelled", "duplicate"],
      ["completed", undefined],
    ]);
  });

  it("is skipped while another is open, where its overlap says so, and waits its turn where it says that", async () => {
    const { automation, config, tell, ids, call, becomes } = await stage();
    const waits = await config("WorkflowGraph", {
      ...{ kind: "WorkflowGraph", version: 1, name: "Waits", start_node: "start" },
      nodes: [
        { kind: "WorkflowTrigger", id: "start", on_success: "ask" },
        { kind: "WorkflowApproval", id: "ask", message: "On?" },
      ],
    });
    const of = (overlap: string) =>
      automation({ config_ref: waits.id, event_config: { [`custom.${overlap}`]: { overlap } } });
    for (const [overlap, second] of [
      ["skip", "cancelled"],
      ["buffer_all", "pending"],
      ["cancel_other", "running"],
    ] as const) {
      const one = await of(overlap);
      await tell(`custom.${overlap}`, { n: 1 });
      await expect.poll(async () => (await ids(one)).length, { timeout: 15_000 }).toBe(1);
      const [first] = await ids(one);
      await becomes(first!, "running");
      await tell(`custom.${overlap}`, { n: 2 });
      await expect.poll(async () => (await ids(one)).length, { timeout: 15_000 }).toBe(2);
      const run = await becomes((await ids(one))[1]!, second);
      if (overlap === "skip") expect(run.result).toEqual({ reason: "overlap" });
      if (overlap === "cancel_other") await becomes(first!, "cancelled");
      if (overlap === "buffer_all") {
        await must(call("POST", `/api/v1/automation_runs/${first}/cancel`), 200);
        await becomes(run.id, "running");
      }
    }
  });

  it("reads what whom it acts as may read, and without anybody what everybody may", async () => {
    const { automation, runs, call, acme, owners } = await stage();
    const only = { grants: [{ principal_type: "user", principal: owners[acme], actions: ["read", "write"] }] };
    const of = (said: object) => automation({ event_type: "agent.created", ...said });
    const [own, other] = [await of({ run_as_user: owners[acme] }), await of({})];
    const hidden = await anAgent(call, { name: "Hidden", acl: only });
    const shown = await anAgent(call, { name: "Shown" });
    expect((await runs(own, 2)).map(({ payload, user }) => [payload.id, user])).toEqual([
      [hidden.id, owners[acme]],
      [shown.id, owners[acme]],
    ]);
    expect((await runs(other, 1)).map(({ payload }) => payload.id)).toEqual([shown.id]);
  });

  it.each([
    ["paused", { status: "paused" }, async () => {}],
    ["put away", {}, (call: any, id: string) => must(call("POST", `/api/v1/config/${id}/archive`), 200)],
    ["deleted", {}, (call: any, id: string) => must(call("DELETE", `/api/v1/config/${id}`), 204)],
    [
      "of somebody who is gone",
      {},
      (_: any, id: string) =>
        sql("update data.automations set user_id = 'usr_0000000000000000000000' where id = $1", [id]),
    ],
  ])("doesn't react that is %s", async (_, said, end: any) => {
    const { automation, tell, runs, ids, call } = await stage();
    const of = await automation({ event_type: "custom.paid", ...said });
    const other = await automation({ event_type: "custom.paid" });
    await end(call, of.id);
    await tell("custom.paid", {});
    await runs(other, 1);
    expect(await ids(of)).toEqual([]);
  });

  it("ignores what it led to itself, and of a chain of two the ninth link is skipped", async () => {
    const { automation, config, runs, tell } = await stage();
    const emits = (name: string) =>
      config("WorkflowGraph", {
        ...{ kind: "WorkflowGraph", version: 1, name: "Emits", start_node: "start" },
        nodes: [
          { kind: "WorkflowTrigger", id: "start", on_success: "tell" },
          { kind: "WorkflowEmitEvent", id: "tell", name, payload: {} },
        ],
      });
    const alone = await automation({ config_ref: (await emits("custom.alone")).id, event_type: "custom.alone" });
    await tell("custom.alone", {});
    const [ping, pong] = [await emits("custom.pong"), await emits("custom.ping")];
    const first = await automation({ config_ref: ping.id, event_config: { "custom.ping": { allow_self: true } } });
    const second = await automation({ config_ref: pong.id, event_config: { "custom.pong": { allow_self: true } } });
    await tell("custom.ping", {});
    const all = [...(await runs(first, 5)), ...(await runs(second, 4))];
    expect(all.filter(({ status }) => status === "completed").length).toBe(8);
    expect(all.flatMap(({ result }) => result.reason ?? [])).toEqual(["loop"]);
    expect((await runs(alone, 1)).length).toBe(1);
  });
});
