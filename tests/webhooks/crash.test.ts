/** Killed with -9 anywhere between an event and the record of its delivery: nothing is lost, and nothing unlisted. */
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { childrenOf } from "../../bench/processes.ts";
import { tell } from "../events/stage.ts";
import { openDatabase } from "../harness/database.ts";
import { type App, anApp, type Call, must, together } from "../harness/index.ts";
import { newRoot, newSigningKey, type Own, ownSystem } from "../harness/own.ts";
import { SOAK, until, wait } from "../sessions/stage.ts";
import { anEndpoint, aReceiver, deliveriesOf, type Receiver, says } from "./stage.ts";

let own: Own;
let base: string;
let data: string;
let app: App;
let owner: Call;
let receiver: Receiver;
const others = childrenOf(process.pid, "workerd");
const runtimes = () => childrenOf(process.pid, "workerd").filter((pid) => !others.includes(pid));
const kill = () => {
  for (const pid of runtimes()) process.kill(pid, "SIGKILL");
};
/** Where the objects of endpoints lie, and what alarms they have. */
const folderOf = (data: string) => join(data, "do", "agentry-objects-WebhookEndpoint");
const isUp = () => until("the runtime is up", () => fetch(`${base}/healthz`).catch(() => null));

beforeAll(async () => {
  own = await ownSystem(openDatabase());
  data = await mkdtemp(join(tmpdir(), "agentry-webhooks-"));
  const probe = createServer();
  await new Promise<void>((ready) => probe.listen(0, "127.0.0.1", ready));
  const { port } = probe.address() as { port: number };
  await new Promise((closed) => probe.close(closed));
  const options = { port, dataDir: data, allowLoopback: "127.0.0.1" };
  base = await own.start([await newSigningKey("one")], [newRoot()], options);
  app = await anApp({ base, newApp: own.newApp });
  owner = app.as(app.acme);
  receiver = await aReceiver();
});
afterAll(async () => {
  receiver.close();
  await own.close();
  await rm(data, { recursive: true, force: true });
});

describe("killed with -9", { timeout: 300_000 }, () => {
  const rounds = Array.from({ length: SOAK ? 20 : 1 }, (_, i) => i);

  /** Kills the runtime while orders are told and sent; what was accepted is delivered, and listed once as that. */
  async function killed(when: () => Promise<unknown>) {
    const endpoint = await anEndpoint(owner, receiver);
    const before = receiver.received.length;
    const accepted: string[] = [];
    const telling = together(10, async (n) => accepted.push((await tell(owner, n)).id)).catch(() => {});
    await when();
    kill();
    await telling;
    receiver.answer(says(200));
    await isUp();
    await own.database.exec(
      "update data.events set created_at = created_at - interval '11 seconds' where sequence is null and name = 'custom.order'",
    );
    await own.fireCrons();
    const came = () => receiver.received.slice(before);
    await until(
      "all that was accepted is delivered",
      () => (accepted.every((id) => came().some((one) => one.id === id)) ? true : null),
      60_000,
    );
    const listed = await until(
      "all is listed",
      async () => {
        const list = await deliveriesOf(owner, endpoint);
        const delivered = list.filter(({ status }) => status === "delivered").map(({ event }) => event);
        return accepted.every((id) => delivered.includes(id)) ? list : null;
      },
      60_000,
    );
    expect(new Set(listed.map(({ event }) => event)).size).toBe(listed.length);
    await must(owner("DELETE", `/api/v1/webhook_endpoints/${endpoint.id}`), 204);
  }

  it.each(rounds)("while receivers have been asked and have not answered (%i)", () =>
    killed(async () => {
      const { length } = receiver.received;
      receiver.answer(() => {});
      await until("some are asked", () => (receiver.received.length > length ? true : null));
    }),
  );

  it.each(rounds)("at any moment (%i)", () => killed(() => wait(Math.random() * 400)));
});

it("a delivery is dead after its tenth attempt, listed, and delivered when it is replayed", {
  timeout: 120_000,
}, async () => {
  receiver.answer(says(500));
  const endpoint = await anEndpoint(owner, receiver);
  const { id } = await tell(owner, 1);
  await expect.poll(async () => (await deliveriesOf(owner, endpoint))[0]?.attempt_count).toBe(1);
  // As if eight more had failed in four days.
  kill();
  const folder = folderOf(data);
  for (const name of (await readdir(folder)).filter((name) => name.endsWith(".sqlite"))) {
    const object = new DatabaseSync(join(folder, name));
    const kept = object.prepare("select name from sqlite_schema where name = 'deliveries'").all();
    if (kept.length) {
      object.exec(`update deliveries set tries = 9, at = 0 where event = '${id}'`);
      object.exec("update due set at = 0 where name = 'send'");
    }
    object.close();
  }
  await isUp();
  await own.database.exec("update data.event_heads set delivered = 0");
  await tell(owner, 2);
  const dead = () => deliveriesOf(owner, endpoint, "?status[]=dead");
  await expect.poll(dead, { timeout: 60_000 }).toMatchObject([{ event: id, attempt_count: 2, next_attempt_at: null }]);
  receiver.answer(says(200));
  const [delivery] = await dead();
  await must(owner("POST", `/api/v1/webhook_deliveries/${delivery.id}/replay`), 200);
  await expect
    .poll(() => deliveriesOf(owner, endpoint, "?status[]=delivered"), { timeout: 60_000 })
    .toContainEqual(expect.objectContaining({ id: delivery.id, event: id, attempt_count: 3 }));
});

it.each([
  [
    "that it has told of",
    "update data.webhook_deliveries set next_attempt_at = now() - interval '31 seconds' where event_id = $1",
  ],
  ["that it never told of", "delete from data.webhook_deliveries where event_id = $1"],
])(
  "an endpoint whose alarm is lost is woken by the sweep, for a delivery %s",
  { timeout: 120_000 },
  async (_, late) => {
    const receiver = await aReceiver(says(500));
    const endpoint = await anEndpoint(owner, receiver);
    const { id } = await tell(owner, 1);
    await expect.poll(async () => (await deliveriesOf(owner, endpoint))[0]?.attempt_count).toBe(1);
    // Else its Dispatcher would hand the event on again.
    const handedOn = `select h.id from data.event_heads h join data.events e using (app_id, sandbox_id, org_id)
    where e.id = $1 and h.delivered >= e.sequence`;
    await expect.poll(() => own.database.query(handedOn, [id])).toHaveLength(1);
    kill();
    const alarms = new DatabaseSync(join(folderOf(data), "metadata.sqlite"));
    alarms.exec("delete from _cf_ALARM");
    alarms.close();
    receiver.answer(says(200));
    await isUp();
    const came = () => receiver.received.filter((one) => one.id === id).length;
    // Its second attempt is due after six seconds at most.
    await wait(7_000);
    expect(came()).toBe(1);
    await own.database.query(late, [id]);
    await own.database.query("update data.events set created_at = now() - interval '11 seconds' where id = $1", [id]);
    // A sweep may have looked at it just before, and comes to it again in a minute.
    await own.database.query("update data.webhook_endpoints set looked_at = null where id = $1", [endpoint.id]);
    await own.fireCrons();
    await expect.poll(came).toBe(2);
    await expect
      .poll(async () => (await deliveriesOf(owner, endpoint))[0])
      .toMatchObject({ event: id, status: "delivered" });
    receiver.close();
  },
);
