/**
 * The runtime is killed with -9 over the instant of schedules: before it, while it claims, and between the claim and what
 * that starts. Each occurrence comes by itself, once, with its row.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { must } from "../harness/index.ts";
import { aStage, instructionsOf, SOAK, type Stage, until, wait } from "../sessions/stage.ts";

const ROUNDS = Array.from({ length: SOAK ? 20 : 1 }, (_, i) => i);
const EACH = 3;
const CLAIM = /\bupdate\b.*\bagent_schedules\b.*\binto\b.*\boccurrences\b/is;

let stage: Stage;
let agent: { id: string };

beforeAll(async () => {
  stage = await aStage();
});
// One has a hundred at most.
beforeEach(async () => {
  agent = await stage.anActor([], "once");
});
afterEach(() => stage.database.letGo());
afterAll(() => stage.close());

const make = (ms: number) =>
  Promise.all(
    Array.from({ length: EACH }, async (): Promise<string> => {
      const scheduled_at = new Date(Date.now() + ms).toISOString();
      const body = { schedule_type: "once", scheduled_at, instructions: instructionsOf({ text: "Done." }) };
      return (await must(stage.ask("POST", `/api/v1/agents/${agent.id}/schedules`, body), 200)).id;
    }),
  );

/** Kills it, and then: each schedule has fired once, and its session has done what it says. */
async function killed(ids: string[]) {
  stage.kill();
  stage.database.letGo();
  await stage.isUp();
  for (const id of ids) {
    const sessions = () =>
      stage.own.database.query<any>("select id, status, result from data.agent_sessions where schedule_id = $1", [id]);
    await until(`${id} is done`, async () => (await sessions()).some(({ status }) => status === "completed") || null);
    const all = await sessions();
    expect(all.map(({ status, result }) => [status, result])).toEqual([["completed", { output: "Done." }]]);
    const { data } = await must(stage.ask("GET", `/api/v1/agents/${agent.id}/schedules/${id}/occurrences`), 200);
    expect(data.map(({ outcome, session }: any) => [outcome, session])).toEqual([["fired", all[0].id]]);
    const schedule = await must(stage.ask("GET", `/api/v1/agents/${agent.id}/schedules/${id}`), 200);
    expect(schedule).toMatchObject({ status: "completed", run_count: 1 });
  }
}

describe("killed with -9 over its instant, a schedule is done once", { timeout: 200_000 }, () => {
  it.each(ROUNDS)("before it (%i)", async () => {
    await killed(await make(600));
  });

  it.each(ROUNDS)("while it is claimed (%i)", async (round) => {
    stage.database.hold(CLAIM);
    const ids = await make(600);
    await until("it claims", () => (stage.database.waiting() ? true : null));
    await wait(round * 10);
    await killed(ids);
  });

  it.each(ROUNDS)("between the claim and what that starts (%i)", async (round) => {
    const ids = await make(600);
    await until("it has claimed", async () => {
      const rows = await stage.own.database.query("select from data.occurrences where schedule_id = any ($1::text[])", [
        `{${ids}}`,
      ]);
      return rows.length === EACH || null;
    });
    await wait(round * 5);
    await killed(ids);
  });
});

it.each([
  ["resume", undefined],
  ["backfill", { from: new Date(Date.now() - 86_400_000).toISOString(), to: new Date().toISOString() }],
])("%s is refused where the pattern was changed since it was read: 409", async (verb, body) => {
  const at = `/api/v1/agents/${agent.id}/schedules`;
  const daily = { schedule_type: "recurring", cron_expression: "0 9 * * *", instructions: "x" };
  const { id } = await must(stage.ask("POST", at, daily), 200);
  await must(stage.ask("POST", `${at}/${id}/pause`), 200);
  stage.database.hold(/\b(update|insert into) "?data"?\."?(agent_schedules|occurrences)\b/);
  const asked = stage.ask("POST", `${at}/${id}/${verb}`, body);
  await until("it has read", () => (stage.database.waiting() ? true : null));
  const change = "update data.agent_schedules set cron_expression = '0 10 * * *', updated_at = now() where id = $1";
  await stage.own.database.query(change, [id]);
  stage.database.letGo();
  const { status, body: refusal } = await asked;
  expect([status, refusal.error.code]).toEqual([409, "schedule_changed"]);
  const left = "select from data.occurrences where schedule_id = $1";
  expect(await stage.own.database.query(left, [id])).toEqual([]);
});

it("the sweep finds what is due where nobody woke the Scheduler", {
  timeout: 60_000,
}, async () => {
  const [id] = (await make(3_600_000)) as [string];
  await stage.own.database.query("update data.agent_schedules set next_run_at = now() where id = $1", [id]);
  const occurrences = async () =>
    (await must(stage.ask("GET", `/api/v1/agents/${agent.id}/schedules/${id}/occurrences`), 200)).data;
  await wait(500);
  expect(await occurrences()).toEqual([]);
  await stage.own.fireCrons();
  const [fired] = await until("it has fired", async () => {
    const all = await occurrences();
    return all.length ? all : null;
  });
  expect(fired.outcome).toBe("fired");
  expect((await stage.is(fired.session, "completed")).result).toEqual({ output: "Done." });
});

it("an agent that plans something for itself finds it done at its instant", { timeout: 60_000 }, async () => {
  const body = { kind: "builtin", builtin_tool_key: "scheduling", status: "active" };
  await must(stage.ask("POST", `/api/v1/agents/${agent.id}/agent_tools`, body), 200);
  const at = new Date(Date.now() + 3_000).toISOString();
  const args = { instructions: instructionsOf({ text: "As planned." }), at };
  const { id } = await stage.aSession(
    agent,
    [{ role: "tool", text: "Planned." }, { tool_calls: [{ name: "create_schedule", arguments: args }] }],
    { on_idle: "complete" },
  );
  await stage.is(id, "completed");
  const find =
    "select id, result from data.agent_sessions where agent_id = $1 and schedule_id is not null and result ->> 'output' = 'As planned.'";
  await until("it is done", async () => (await stage.own.database.query(find, [agent.id]))[0] ?? null, 20_000);
});
