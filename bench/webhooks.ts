/**
 * What a webhook endpoint takes: how long after an event committed its receiver has it, quiet and while another org of the
 * app has ten thousand events for an endpoint that is dead; and how many a second it is sent beside a bare object.
 */
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Cleanup, Product } from "./system.ts";
import { quantile } from "./turns.ts";

const EVENTS = 300;
const WARM = 20;
const DEAD = 10_000;
const MANY = 1_000;
const ROUNDS = 3;
const AIMS_MS = { p50: 50, p99: 250, grown: 1_000 };
const AIM_OF_FLOOR = 0.6;

type Report = { judge(aim: string, found: string, isMet: boolean): void };
const ms = (value: number) => `${value.toFixed(0)} ms`;
const percent = (value: number) => `${Math.round(value * 100)} %`;

function newDir(cleanup: Cleanup): string {
  const dir = mkdtempSync(join(tmpdir(), "agentry-bench-objects-"));
  cleanup.add(async () => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

export async function measureWebhooks(cleanup: Cleanup, product: Product, { judge }: Report): Promise<void> {
  const options = { groups: ["events", "webhooks", "objects", "compute"], allowLoopback: "127.0.0.1" };
  const { entry } = await product.start("agentry_api", { ...options, dataDir: newDir(cleanup) });
  const floor = await product.start("agentry_api", {
    ...{ ...options, dataDir: newDir(cleanup) },
    alias: { "webhooks/object.ts": resolve(import.meta.dirname, "outbox.ts") },
  });
  type Person = Product["people"][number];
  const [b, a, ours, bare] = product.people as [Person, Person, Person, Person];
  const ask = async (token: string, path: string, body: object, at = entry) => {
    const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
    const response = await fetch(at + path, { method: "POST", headers, body: JSON.stringify(body) });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return response.json() as Promise<any>;
  };
  const waiting = new Map<string, (at: number) => void>();
  const receiver = createServer(async (request, response) => {
    const at = Date.now();
    const { data } = JSON.parse(await new Response(request as never).text());
    response.writeHead(204).end();
    waiting.get(data.n)?.(at);
  }).listen(0, "127.0.0.1");
  await once(receiver, "listening");
  cleanup.add(async () => {
    receiver.closeAllConnections();
    receiver.close();
  });
  const { port } = receiver.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}/`;
  const endpoint = (org: string, to: string, at = entry) =>
    ask(product.secret_key, "/api/v1/webhook_endpoints", { url: to, event_names: ["custom.bench"], org }, at);
  await endpoint(b.org, url);
  let n = 0;
  /** From the event's row to the first byte of its request, in ms. */
  const lag = async () => {
    const key = `${n++}`;
    const received = new Promise<number>((resolve) => waiting.set(key, resolve));
    const { created_at } = await ask(b.access_token, "/api/v1/events", { name: "custom.bench", payload: { n: key } });
    return (await received) - Date.parse(created_at);
  };
  const lags = async () => {
    const all: number[] = [];
    for (let i = 0; i < EVENTS; i++) all.push(await lag());
    return all.slice(WARM);
  };
  const quiet = await lags();
  await endpoint(ours.org, url);
  await endpoint(bare.org, url, floor.entry);
  /** Deliveries a second, of many that are there at once, from the first that came to the last. */
  const rate = async ({ org, access_token }: Person, at: string) => {
    const all = Promise.all(
      Array.from({ length: MANY }, () => new Promise<number>((resolve) => waiting.set(`${n++}`, resolve))),
    );
    await product.database.query(
      `insert into data.events (app_id, sandbox_id, org_id, id, name, payload)
       select app_id, sandbox_id, id, 'evt_' || substr(md5(n::text || id), 1, 22), 'custom.bench',
           jsonb_build_object('n', n::text, 'url', $4::text)
         from data.orgs, generate_series($2::int, $3::int) n where id = $1`,
      [org, n - MANY, n - 1, url],
    );
    await ask(access_token, "/api/v1/events", { name: "custom.bench", payload: { n: "wakes", url } }, at);
    const came = await all;
    return (MANY * 1000) / (Math.max(...came) - Math.min(...came));
  };
  const rates: [number, number][] = [];
  // By turns, so that what else happens on the machine happens to both.
  for (let i = 0; i < ROUNDS; i++) rates.push([await rate(ours, entry), await rate(bare, floor.entry)]);
  const [delivered, floored] = [0, 1].map((i) =>
    quantile(
      rates.map((both) => both[i]!),
      0.5,
    ),
  ) as [number, number];
  const share = delivered / floored;
  // Nobody listens at port 1.
  await endpoint(a.org, "http://127.0.0.1:1/");
  await product.database.query(
    `insert into data.events (app_id, sandbox_id, org_id, id, name, payload)
     select app_id, sandbox_id, id, 'evt_' || substr(md5(n::text || id), 1, 22), 'custom.bench', '{}'
       from data.orgs, generate_series(1, $2::int) n where id = $1`,
    [a.org, DEAD],
  );
  await ask(a.access_token, "/api/v1/events", { name: "custom.bench", payload: { n: "first" } });
  const beside = await lags();
  const [p50, p99, grown] = [quantile(quiet, 0.5), quantile(quiet, 0.99), quantile(beside, 0.99)];
  judge(
    `an event: at its receiver p50 at most ${ms(AIMS_MS.p50)} after its row, p99 ${ms(AIMS_MS.p99)}`,
    `${ms(p50)}, p99 ${ms(p99)}`,
    p50 <= AIMS_MS.p50 && p99 <= AIMS_MS.p99,
  );
  judge(
    `beside ${DEAD} events of another org for a dead endpoint: p99 less than ${ms(AIMS_MS.grown)} more`,
    `${ms(grown)} (p50 ${ms(quantile(beside, 0.5))})`,
    grown - p99 < AIMS_MS.grown,
  );
  judge(
    `${MANY} events at once: at least ${percent(AIM_OF_FLOOR)} of what a bare object with the same writes delivers`,
    `${percent(share)} (${delivered.toFixed(0)} of ${floored.toFixed(0)} a second)`,
    share >= AIM_OF_FLOOR,
  );
}
