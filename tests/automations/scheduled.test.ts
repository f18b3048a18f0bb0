/** Automations that come at their times: each occurrence has its row, and its run. */
import { describe, expect, it } from "vitest";
import { must, sql } from "../harness/index.ts";
import { stage as stageOf } from "./stage.ts";

const HOURLY = { schedule: "0 * * * *" };

/** `plan` sets the instant that comes next, as if it had been planned so; saving it again wakes the Scheduler. */
async function stage() {
  const made = await stageOf();
  const { call, content, graph, becomes } = made;
  const planned = async (of: { id: string }): Promise<string | null> =>
    (await sql("select next_run_at::text as at from data.automations where id = $1", [of.id]))[0]?.at ?? null;
  const plan = async (of: { id: string }, next: string, said: object = HOURLY) => {
    await expect.poll(() => planned(of), { timeout: 15_000 }).not.toBeNull();
    await sql(`update data.automations set next_run_at = ${next} where id = $1`, [of.id]);
    const whole = { name: "An automation", config_ref: graph.id, ...said };
    await must(call("PATCH", `/api/v1/config/${of.id}`, content(whole)), 200);
  };
  const occurrences = (of: { id: string }): Promise<any[]> =>
    sql("select outcome, run_id, planned_at::text from data.occurrences where automation_id = $1 order by planned_at", [
      of.id,
    ]);
  const outcomes = async (of: { id: string }) => (await occurrences(of)).map(({ outcome }) => outcome);
  const become = async (of: { id: string }, ...all: string[]) => {
    await expect.poll(() => outcomes(of), { timeout: 15_000 }).toEqual(all);
    return occurrences(of);
  };
  const told = async (name: string) =>
    (await must(call("GET", `/api/v1/events?limit=500&event_names[]=${name}`), 200)).data.map(
      ({ payload }: any) => payload,
    );
  return { ...made, planned, plan, occurrences, become, told, becomes };
}

describe("a scheduled automation", () => {
  it("comes at its instant, once: with its row, its run, and an event that starts no other", async () => {
    const { automation, plan, planned, become, becomes, told } = await stage();
    const zoned = { ...HOURLY, event_config: { "schedule.cron": { timezone: "Europe/Vienna" } } };
    const of = await automation(zoned);
    const listens = await automation({ event_type: "workflow.scheduled" });
    await plan(of, "date_trunc('hour', now())", {
      ...zoned,
      event_config: { "schedule.cron": { timezone: "Europe/Vienna", catchup: "all" } },
    });
    const [fired] = await become(of, "fired");
    const run = await becomes(fired.run_id, "completed");
    const instant = new Date(fired.planned_at).toISOString();
    expect(run).toMatchObject({ automation: of.id, event_id: null, user: null });
    expect(new Date(run.payload.planned_at).toISOString()).toBe(instant);
    expect(run.result.got).toEqual(run.payload);
    expect(await told("workflow.scheduled")).toEqual([
      { automation: of.id, planned_at: instant, timezone: "Europe/Vienna" },
    ]);
    const created = await told("automation_run.created");
    expect(created).toMatchObject([{ id: run.id, automation: of.id, status: "pending" }]);
    expect(created.some(({ automation }: any) => automation === listens.id)).toBe(false);
    expect(new Date((await planned(of))!).getTime()).toBeGreaterThan(Date.now());
  });

  it.each([
    ["one", ["missed", "fired"]],
    ["all", ["fired", "skipped_overlap"]],
    ["none", ["missed", "missed"]],
  ])("catches up what nobody was there for: %s", async (catchup, expected) => {
    const { automation, plan, become } = await stage();
    const said = { ...HOURLY, event_config: { "schedule.cron": { catchup, catchup_window_seconds: 30_000 } } };
    const of = await automation(said);
    // Long after the hour, none of the two is in time.
    await plan(of, "date_trunc('hour', now() - interval '61 seconds') - interval '1 hour'", said);
    await become(of, ...expected);
  });

  it("acts as whom it says; where that one is gone, its run is skipped", async () => {
    const { automation, plan, become, becomes, acme, owners, aUser, call } = await stage();
    const user = (await aUser(acme)).id;
    const said = { ...HOURLY, run_as_user: user, event_config: { "schedule.cron": { overlap: "allow_all" } } };
    const of = await automation(said);
    await plan(of, "now() - interval '1 second'", said);
    const [first] = await become(of, "fired");
    expect(await becomes(first.run_id, "completed")).toMatchObject({ user });
    await sql(
      "update data.automations set user_id = 'usr_0000000000000000000000', next_run_at = now() - interval '1 second' where id = $1",
      [of.id],
    );
    const other = await automation(HOURLY);
    const [, second] = await become(of, "fired", "fired");
    expect(await becomes(second.run_id, "cancelled")).toMatchObject({ user: null, result: { reason: "run_as_gone" } });
    await must(call("DELETE", `/api/v1/config/${other.id}`), 204);
    expect(owners[acme]).not.toBe(user);
  });

  it("is due no more once it is paused, put away or deleted, and from then on when it is back", async () => {
    const { automation, planned, call, content, graph } = await stage();
    const of = await automation(HOURLY);
    const isDue = async () => {
      const [row] = await sql("select due_at is not null as due from data.automations where id = $1", [of.id]);
      return row?.due ?? null;
    };
    await expect.poll(() => planned(of), { timeout: 15_000 }).not.toBeNull();
    const paused = content({ name: "A", config_ref: graph.id, ...HOURLY, status: "paused" });
    await must(call("PATCH", `/api/v1/config/${of.id}`, paused), 200);
    expect(await isDue()).toBe(false);
    await must(call("PATCH", `/api/v1/config/${of.id}`, content({ name: "A", config_ref: graph.id, ...HOURLY })), 200);
    expect(await isDue()).toBe(true);
    await must(call("POST", `/api/v1/config/${of.id}/archive`), 200);
    expect(await isDue()).toBe(false);
    await must(call("POST", `/api/v1/config/${of.id}/unarchive`), 200);
    expect(await isDue()).toBe(true);
    await expect.poll(() => planned(of), { timeout: 15_000 }).not.toBeNull();
    await must(call("DELETE", `/api/v1/config/${of.id}`), 204);
    expect(await isDue()).toBe(null);
  });
});
