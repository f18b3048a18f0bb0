/** What schedules take: how long after their instant a thousand of one org, all of the same instant, have committed. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Cleanup, Product } from "./system.ts";
import { quantile } from "./turns.ts";

const SCHEDULES = 1_000;
const TIMES = 3;
const AIMS = { p50: 250, p99: 2_000, begun: 2_000 };
const LEAD_MS = 10_000;

type Report = { judge(aim: string, found: string, isMet: boolean): void };
const ms = (value: number) => `${value.toFixed(0)} ms`;
const pause = (time: number) => new Promise((done) => setTimeout(done, time));

export async function measureSchedules(cleanup: Cleanup, product: Product, { judge }: Report): Promise<void> {
  const dataDir = mkdtempSync(join(tmpdir(), "agentry-bench-objects-"));
  cleanup.add(async () => rmSync(dataDir, { recursive: true, force: true }));
  const { entry } = await product.start("agentry_api", { groups: ["agents", "sessions", "objects"], dataDir });
  const { database } = product;
  const [{ org, access_token }] = product.people as [Product["people"][number]];
  const post = async (path: string, body: object) => {
    const headers = { Authorization: `Bearer ${access_token}`, "Content-Type": "application/json" };
    const response = await fetch(entry + path, { method: "POST", headers, body: JSON.stringify(body) });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return response.json() as Promise<{ id: string }>;
  };
  const agents: string[] = [];
  for (let i = 0; i < SCHEDULES / 100; i++) {
    agents.push((await post("/api/v1/agents", { name: "Bench", model: "scripted/echo" })).id);
  }
  const list = `{${agents}}`;
  const late: number[] = [];
  const begun: number[] = [];
  for (let round = 0; round < TIMES; round++) {
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
      late.push(...Array(row!.n - seen).fill(now - at.getTime()));
      seen = row!.n;
      if (now > ends) throw new Error(`${seen} of ${SCHEDULES} schedules fired`);
      await pause(5);
    }
    for (;;) {
      const rows = await database.query<{ late: number }>(
        `select (extract(epoch from s.started_at - o.planned_at) * 1000)::float as late from data.agent_sessions s
         join data.occurrences o on o.session_id = s.id where o.org_id = $1 and o.planned_at = $2 and s.started_at is not null`,
        [org, at.toISOString()],
      );
      if (rows.length === SCHEDULES) {
        begun.push(...rows.map((row) => row.late));
        break;
      }
      if (Date.now() > ends) throw new Error(`${rows.length} of ${SCHEDULES} sessions began`);
      await pause(200);
    }
    await database.query("delete from data.agent_schedules where agent_id = any ($1::text[])", [list]);
  }
  const what = `${SCHEDULES} schedules of one instant`;
  const [p50, p99] = [quantile(late, 0.5), quantile(late, 0.99)];
  judge(`${what}: committed p50 at most ${ms(AIMS.p50)} later`, ms(p50), p50 <= AIMS.p50);
  judge(`${what}: committed p99 at most ${ms(AIMS.p99)} later`, ms(p99), p99 <= AIMS.p99);
  const first = quantile(begun, 0.99);
  judge(`${what}: begun p99 at most ${ms(AIMS.begun)} later`, ms(first), first <= AIMS.begun);
}
