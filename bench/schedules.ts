/**
 * What schedules take: how long after their instant a thousand of one org, all of the same instant, have committed, and the
 * session of each has its first journal entry; and, without an aim, how long until each asks its model. The first round warms
 * up what the others run on, and the planner is told what autovacuum would tell it by then.
 */
import { type Cleanup, newObjectsDir, type Product } from "./system.ts";
import { quantile } from "./turns.ts";

const SCHEDULES = 1_000;
const TIMES = 3;
const READERS = 8;
const SETTLES_MS = 12_000;
const AIMS = { p50: 250, p99: 2_000, begun: 2_000 };
const LEAD_MS = 10_000;

type Report = { judge(aim: string, found: string, isMet: boolean): void };
const ms = (value: number) => `${value.toFixed(0)} ms`;
const pause = (time: number) => new Promise((done) => setTimeout(done, time));

export async function measureSchedules(cleanup: Cleanup, product: Product, { judge }: Report): Promise<void> {
  const dataDir = newObjectsDir(cleanup);
  const { entry } = await product.start("agentry_api", { groups: ["agents", "sessions", "objects"], dataDir });
  const { database } = product;
  const [{ org, access_token }] = product.people as [Product["people"][number]];
  const post = async (path: string, body: object) => {
    const headers = { Authorization: `Bearer ${access_token}`, "Content-Type": "application/json" };
    const response = await fetch(entry + path, { method: "POST", headers, body: JSON.stringify(body) });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return response.json() as Promise<{ id: string }>;
  };
  const get = async (path: string) => {
    const response = await fetch(entry + path, { headers: { Authorization: `Bearer ${access_token}` } });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return response.json() as Promise<{ frames: { type: string; at: string }[] }>;
  };
  const agents: string[] = [];
  for (let i = 0; i < SCHEDULES / 100; i++) {
    agents.push((await post("/api/v1/agents", { name: "Bench", model: "scripted/echo" })).id);
  }
  const list = `{${agents}}`;
  const late: number[] = [];
  const begun: number[] = [];
  const asking: number[] = [];
  for (let round = 0; round <= TIMES; round++) {
    const at = new Date(Date.now() + LEAD_MS);
    await database.query(
      `insert into data.agent_schedules (id, app_id, sandbox_id, org_id, agent_id, schedule_type, scheduled_at, timezone,
         instructions, next_run_at)
       select 'asc_' || lpad($3::text || '0' || n, 22, '0'), app_id, sandbox_id, org_id, id, 'once', $2, 'Etc/UTC', 'Say yes.', $2
       from data.agents, generate_series(($3::int * 100), $3::int * 100 + 98) n_ cross join lateral (select n_ || right(id, 8) as n) x
       where id = any ($1::text[])`,
      [list, at.toISOString(), round],
    );
    // What is made by the front door tells the Scheduler.
    for (const agent of agents) {
      const body = { schedule_type: "once", scheduled_at: at.toISOString(), instructions: "Say yes." };
      await post(`/api/v1/agents/${agent}/schedules`, body);
    }
    const ends = Date.now() + 60_000;
    for (let seen = 0; seen < SCHEDULES; ) {
      const [row] = await database.query<{ n: number }>(
        "select count(*)::int as n from data.occurrences where org_id = $1 and planned_at = $2 and outcome = 'fired'",
        [org, at.toISOString()],
      );
      const now = Date.now();
      if (round) late.push(...Array(row!.n - seen).fill(now - at.getTime()));
      seen = row!.n;
      if (now > ends) throw new Error(`${seen} of ${SCHEDULES} schedules fired`);
      await pause(5);
    }
    const sessions = await database.query<{ id: string }>(
      "select session_id as id from data.occurrences where org_id = $1 and planned_at = $2",
      [org, at.toISOString()],
    );
    const left = sessions.values();
    const read = async () => {
      for (const { id } of left) {
        for (;;) {
          const { frames } = await get(`/api/v1/agent_sessions/${id}/export`).catch(() => ({ frames: [] }));
          const [first] = frames;
          const asked = frames.find(({ type }) => type === "model.started");
          if (first && asked && round) begun.push(Date.parse(first.at) - at.getTime());
          if (first && asked && round) asking.push(Date.parse(asked.at) - at.getTime());
          if (first && asked) break;
          if (Date.now() > ends) throw new Error(`${id} didn't begin`);
          await pause(500);
        }
      }
    };
    // They are looked at when they have been left alone for as long as most of them take.
    await pause(SETTLES_MS);
    await Promise.all(Array.from({ length: READERS }, read));
    await database.query("delete from data.agent_schedules where agent_id = any ($1::text[])", [list]);
    if (!round) await database.exec("analyze");
  }
  const what = `${SCHEDULES} schedules of one instant`;
  const [p50, p99] = [quantile(late, 0.5), quantile(late, 0.99)];
  judge(`${what}: committed p50 at most ${ms(AIMS.p50)} later`, ms(p50), p50 <= AIMS.p50);
  judge(`${what}: committed p99 at most ${ms(AIMS.p99)} later`, ms(p99), p99 <= AIMS.p99);
  const first = quantile(begun, 0.99);
  const found = `${ms(first)} (p50 ${ms(quantile(begun, 0.5))}; the model asked p50 ${ms(quantile(asking, 0.5))}, p99 ${ms(quantile(asking, 0.99))})`;
  judge(`${what}: first journal entry p99 at most ${ms(AIMS.begun)} later`, found, first <= AIMS.begun);
}
