import { PlatformClient } from "@archastro/sdk";
import { describe, expect, it } from "vitest";
import { type App, anAgent, anApp, type Call, must, sql, system } from "../harness/index.ts";

const DAY = 86_400_000;
const soon = () => new Date(Date.now() + DAY).toISOString();
const daily = { schedule_type: "recurring", cron_expression: "0 9 * * *", instructions: "Say good morning." };
const unique = () => ({ schedule_type: "once", scheduled_at: soon(), instructions: "Say it." });

/** An agent of a fresh app, and its schedules' address. */
async function start() {
  const made: App = await anApp();
  const agent = await anAgent(made.as(made.acme));
  const call: Call = made.as(made.acme);
  const at = `/api/v1/agents/${agent.id}/schedules`;
  const make = (body: object = daily) => must(call("POST", at, body), 200);
  const get = (id: string) => must(call("GET", `${at}/${id}`), 200);
  const to = (id: string, verb: string) => call("POST", `${at}/${id}/${verb}`);
  return { ...made, agent, call, at, make, get, to };
}
const faults = ({ status, body }: { status: number; body: any }) => [
  status,
  ...(body.error?.fields ?? []).map(({ field }: { field: string }) => field),
];

describe("POST /api/v1/agents/{agent}/schedules", () => {
  it("answers the whole schedule, active, with its next run", async () => {
    const { app, agent, at, make, get, call } = await start();
    const made = await make({ ...daily, timezone: "Europe/Berlin", max_runs: 3, metadata: { a: 1 } });
    expect(made).toEqual({
      ...{ id: made.id, app, agent: agent.id, thread: null, schedule_type: "recurring", cron_expression: "0 9 * * *" },
      ...{ scheduled_at: null, timezone: "Europe/Berlin", instructions: daily.instructions, max_runs: 3, run_count: 0 },
      ...{ status: "active", next_run_at: made.next_run_at, last_run_at: null, metadata: { a: 1 } },
      ...{ overlap: "skip", catchup: "one", catchup_window_seconds: 3600, jitter_seconds: 0 },
      ...{ created_at: made.created_at, updated_at: made.created_at },
    });
    expect(made.id).toMatch(/^asc_[0-9A-Za-z]{22}$/);
    const wait = Date.parse(made.next_run_at) - Date.now();
    expect(wait > 0 && wait <= DAY + 3_600_000).toBe(true);
    const berlin = new Intl.DateTimeFormat("de", { timeZone: "Europe/Berlin", timeStyle: "short" });
    expect(berlin.format(Date.parse(made.next_run_at))).toBe("09:00");
    expect(await get(made.id)).toEqual(made);
    expect((await must(call("GET", at), 200)).data).toEqual([made]);
  });

  it("of one that comes once is next when it is scheduled, in UTC without a time zone", async () => {
    const { make } = await start();
    const body = unique();
    const { scheduled_at, next_run_at, timezone, cron_expression } = await make(body);
    expect([scheduled_at, next_run_at].map((at) => new Date(at).toISOString())).toEqual(
      Array(2).fill(body.scheduled_at),
    );
    expect([timezone, cron_expression]).toEqual(["Etc/UTC", null]);
  });

  const at = soon();
  it.each<[string, object, string]>([
    ["a pattern of one that comes once", { ...unique(), cron_expression: "0 9 * * *" }, "cron_expression"],
    ["a moment of one that recurs", { ...daily, scheduled_at: at }, "scheduled_at"],
    ["no pattern of one that recurs", { ...daily, cron_expression: null }, "cron_expression"],
    ["no moment of one that comes once", { ...unique(), scheduled_at: undefined }, "scheduled_at"],
    ["a moment that is past", { ...unique(), scheduled_at: "2020-01-01T00:00:00Z" }, "scheduled_at"],
    ["a day that no calendar has", { ...unique(), scheduled_at: "2090-02-31T00:00:00Z" }, "scheduled_at"],
    ["a moment without its offset", { ...unique(), scheduled_at: "2090-01-01T00:00:00" }, "scheduled_at"],
    ["a nickname", { ...daily, cron_expression: "@daily" }, "cron_expression"],
    ["a pattern that never comes", { ...daily, cron_expression: "0 0 30 2 *" }, "cron_expression"],
    ["no time zone", { ...daily, timezone: "Mars/Olympus" }, "timezone"],
    ["an offset for a time zone", { ...daily, timezone: "+02:00" }, "timezone"],
    ["a thread", { ...daily, thread: "thr_0000000000000000000000" }, "thread"],
    ["no run at all", { ...daily, max_runs: 0 }, "max_runs"],
    ["nothing to do", { ...daily, instructions: "" }, "instructions"],
    ["too much to do", { ...daily, instructions: "x".repeat(10_001) }, "instructions"],
    ["a million runs and one", { ...daily, max_runs: 1_000_001 }, "max_runs"],
    ["an overlap that is none", { ...daily, overlap: "sometimes" }, "overlap"],
    ["a catchup that is none", { ...daily, catchup: "two" }, "catchup"],
    ["a window of less than ten seconds", { ...daily, catchup_window_seconds: 9 }, "catchup_window_seconds"],
    ["a window of more than a year", { ...daily, catchup_window_seconds: 31_622_401 }, "catchup_window_seconds"],
    ["a jitter of more than an hour", { ...daily, jitter_seconds: 3601 }, "jitter_seconds"],
  ])("refuses %s: 422 on the field", async (_, body, field) => {
    const { call, at } = await start();
    expect(faults(await call("POST", at, body))).toEqual([422, field]);
  });

  it("makes one for an Idempotency-Key, however often it is sent", async () => {
    const { call, at } = await start();
    const send = () => must(call("POST", at, daily, { "Idempotency-Key": "one" }), 200);
    expect(await send()).toEqual(await send());
    expect((await must(call("GET", at), 200)).data.length).toBe(1);
  });

  it("makes one for a key, also if it is sent again when its moment is past", async () => {
    const { call, at } = await start();
    const body = { ...unique(), scheduled_at: new Date(Date.now() + 1_000).toISOString() };
    const send = (key: string) => call("POST", at, body, { "Idempotency-Key": key });
    const { id } = await must(send("one"), 200);
    await new Promise((done) => setTimeout(done, 1_100));
    expect((await must(send("one"), 200)).id).toBe(id);
    expect(faults(await send("two"))).toEqual([422, "scheduled_at"]);
  });
});

describe("PATCH /api/v1/agents/{agent}/schedules/{schedule}", () => {
  it("says anew when it comes next", async () => {
    const { call, at, make } = await start();
    const { id } = await make();
    const body = { cron_expression: "30 6 1 1 *", timezone: "Asia/Kathmandu" };
    const patched = await must(call("PATCH", `${at}/${id}`, body), 200);
    expect(patched).toMatchObject({ ...body, next_run_at: expect.stringMatching(/-01-01T00:45:00/) });
  });

  it("of a paused one leaves it without a next run", async () => {
    const { call, at, make, to } = await start();
    const { id } = await make();
    await must(to(id, "pause"), 200);
    const body = { cron_expression: "30 6 1 1 *", timezone: "UTC" };
    expect(await must(call("PATCH", `${at}/${id}`, body), 200)).toMatchObject({ ...body, next_run_at: null });
  });

  it("keeps what fits: 422 for a pattern of one that comes once, a time without its zone, fewer runs than were", async () => {
    const { call, at, make } = await start();
    const [one, other] = [await make(), await make(unique())];
    const patch = (id: string, body: object) => call("PATCH", `${at}/${id}`, body);
    const pattern = { cron_expression: "0 9 * * *", timezone: "UTC" };
    expect(faults(await patch(other.id, pattern))).toEqual([422, "cron_expression"]);
    expect(faults(await patch(one.id, { scheduled_at: soon() }))).toEqual([422, "scheduled_at"]);
    expect(faults(await patch(one.id, { timezone: "UTC" }))).toEqual([422, "timezone"]);
    await sql("update data.agent_schedules set run_count = 5 where id = $1", [one.id]);
    expect(faults(await patch(one.id, { max_runs: 4 }))).toEqual([422, "max_runs"]);
  });

  it.each(["active", "paused"])("completes one that is %s and has run as often as it may from now on", async (was) => {
    const { call, at, make, to } = await start();
    const { id, next_run_at } = await make();
    if (was === "paused") await must(to(id, "pause"), 200);
    await sql("update data.agent_schedules set run_count = 5 where id = $1", [id]);
    const next = was === "active" ? next_run_at : null;
    expect(await must(call("PATCH", `${at}/${id}`, { max_runs: 6 }), 200)).toMatchObject({
      status: was,
      next_run_at: next,
    });
    const done = { status: "completed", max_runs: 5, run_count: 5, next_run_at: null };
    expect(await must(call("PATCH", `${at}/${id}`, { max_runs: 5 }), 200)).toMatchObject(done);
    const told = "select payload from data.events where payload ->> 'id' = $1 and name = 'agent_schedule.completed'";
    expect((await sql(told, [id])).map(({ payload }) => payload)).toMatchObject([{ fields: ["max_runs"] }]);
  });
});

describe("a schedule", () => {
  it("is listed by its status", async () => {
    const { call, at, make, to } = await start();
    const [one, other] = [await make(), await make()];
    await must(to(one.id, "pause"), 200);
    const ids = async (status: string) =>
      (await must(call("GET", `${at}?status=${status}`), 200)).data.map(({ id }: { id: string }) => id);
    expect([await ids("active"), await ids("paused"), await ids("expired")]).toEqual([[other.id], [one.id], []]);
    expect((await call("GET", `${at}?status=late`)).status).toBe(422);
  });

  it("paused has no next run, and resumed goes on from now", async () => {
    const { make, to, get } = await start();
    const { id, next_run_at } = await make();
    expect(await must(to(id, "pause"), 200)).toMatchObject({ status: "paused", next_run_at: null });
    expect(await must(to(id, "pause"), 200)).toEqual(await get(id));
    expect(await must(to(id, "resume"), 200)).toMatchObject({ status: "active", next_run_at });
    expect(await must(to(id, "resume"), 200)).toEqual(await get(id));
  });

  it("that was to come once while it was paused is expired when it is resumed", async () => {
    const { make, to } = await start();
    const { id } = await make(unique());
    await must(to(id, "pause"), 200);
    await sql("update data.agent_schedules set scheduled_at = now() - interval '1 minute' where id = $1", [id]);
    expect(await must(to(id, "resume"), 200)).toMatchObject({ status: "expired", next_run_at: null });
    for (const verb of ["pause", "resume", "cancel"]) {
      const { status, body } = await to(id, verb);
      expect([verb, status, body.error.code]).toEqual([verb, 422, "schedule_ended"]);
    }
  });

  it("that is cancelled stays so: 422, but for another cancel", async () => {
    const { call, at, make, to } = await start();
    const { id } = await make();
    const cancelled = await must(to(id, "cancel"), 200);
    expect(cancelled).toMatchObject({ status: "cancelled", next_run_at: null });
    expect(await must(to(id, "cancel"), 200)).toEqual(cancelled);
    for (const verb of ["pause", "resume"]) expect((await to(id, verb)).status).toBe(422);
    expect((await call("PATCH", `${at}/${id}`, { instructions: "More." })).status).toBe(422);
    await must(call("DELETE", `${at}/${id}`), 204);
    expect((await call("GET", `${at}/${id}`)).status).toBe(404);
  });

  it("stands under its own agent and no other", async () => {
    const { call, make, as, acme } = await start();
    const { id } = await make();
    const other = `/api/v1/agents/${(await anAgent(as(acme))).id}/schedules/${id}`;
    for (const [method, path, body] of [
      ...[["GET", other] as const, ["PATCH", other] as const, ["DELETE", other] as const],
      ...[
        ["POST", `${other}/pause`] as const,
        ["POST", `${other}/resume`] as const,
        ["POST", `${other}/cancel`] as const,
      ],
      ...[["GET", `${other}/occurrences`] as const, ["GET", `${other}/upcoming`] as const],
      ["POST", `${other}/run`, {}] as const,
      [
        "POST",
        `${other}/backfill`,
        { from: new Date(Date.now() - DAY).toISOString(), to: new Date().toISOString() },
      ] as const,
    ]) {
      expect([method, path, (await call(method, path, body)).status]).toEqual([method, path, 404]);
    }
  });

  it("is the SDK's to list and get, for a secret key and for a user", async () => {
    const { make, agent, secret_key, publishable_key, aToken, owners, acme } = await start();
    const made = await make();
    const { access_token } = await aToken(owners[acme]!);
    for (const client of [
      PlatformClient.withSecretKey(secret_key, system.base),
      PlatformClient.withToken(publishable_key, access_token, system.base),
    ]) {
      expect((await client.agents.schedules.list(agent.id, { status: "active" })).data).toEqual([made]);
      expect(await client.agents.schedules.get(agent.id, made.id)).toEqual(made);
    }
  });
});
