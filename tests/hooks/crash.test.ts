/**
 * The runtime is killed with -9 around the commit of deliveries: what was answered 202 is there, and what its sender sends
 * again, since nobody answered, is there once.
 */
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Answer, caller, must, together, unique } from "../harness/index.ts";
import { aStage, SOAK, type Stage, until, wait } from "../sessions/stage.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await aStage();
}, 60_000);
afterAll(() => stage.close());

async function aHook() {
  const { ask } = stage;
  const { id } = await must(ask("POST", "/api/v1/agents", { name: "Ada" }), 200);
  const routine = { name: "R", handler_type: "script", script: "1", schedule: "0 9 1 1 *", status: "active" };
  const made = await must(ask("POST", `/api/v1/agents/${id}/agent_routines`, routine), 200);
  return must(ask("POST", "/api/v1/inbound_webhooks", { name: "H", provider: "url", routine: made.id }), 201);
}

const rounds = Array.from({ length: SOAK ? 20 : 1 }, (_, i) => i);
const moments: [string, () => Promise<unknown>][] = [
  ["before the commit", () => until("one is to be written", () => (stage.database.waiting() > 0 ? true : null))],
  ["at any moment", () => wait(Math.random() * 150)],
];
const all = rounds.flatMap((round) => moments.map(([name, moment]) => [name, round, moment] as const));

it.each(all)("killed %s (%i)", { timeout: 120_000 }, async (name, _, moment) => {
  const hook = await aHook();
  const ids = Array.from({ length: 10 }, () => unique("delivery"));
  const send = (id: string): Promise<Answer> =>
    caller({}, stage.base)("POST", new URL(hook.url).pathname, { id }, { "Idempotency-Key": id });
  if (name === "before the commit") stage.database.hold(/webhook_receipts/);
  const accepted = new Map<string, string>();
  const sending = together(ids.length, async (i) => {
    const { status, body } = await send(ids[i]!);
    if (status === 202) accepted.set(ids[i]!, body.receipt);
  }).catch(() => {});
  await moment();
  stage.kill();
  stage.database.letGo();
  await sending;
  await stage.isUp();
  for (const id of ids) {
    const { receipt } = await until("it is taken", async () => {
      const answer = await send(id).catch(() => null);
      return answer?.status === 202 ? answer.body : null;
    });
    expect(receipt).toBe(accepted.get(id) ?? receipt);
  }
  const rows = await stage.own.database.query<any>(
    `select r.delivery_id, count(distinct r.id)::int as receipts, count(distinct e.id)::int as events, count(distinct u.id)::int as runs
       from data.webhook_receipts r left join data.events e on e.payload ->> 'receipt' = r.id
       left join data.agent_routine_runs u on u.id = r.run_id and u.event_id = e.id
      where r.webhook_id = $1 group by 1 order by 1`,
    [hook.id],
  );
  expect(rows).toEqual(ids.toSorted().map((delivery_id) => ({ delivery_id, receipts: 1, events: 1, runs: 1 })));
  const completed = async () =>
    (
      await stage.own.database.query<any>(
        "select count(*)::int as n from data.agent_routine_runs where routine_id = $1 and status = 'completed'",
        [hook.routine],
      )
    )[0].n;
  await stage.own.database.exec("update data.agent_routine_runs set look_at = now() where status = 'pending'");
  await stage.own.fireCrons();
  await expect.poll(completed, { timeout: 60_000 }).toBe(ids.length);
});
