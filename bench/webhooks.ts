/**
 * What a webhook endpoint takes: how long after an event committed its receiver has it, quiet and while another org of the
 * app has ten thousand events for an endpoint that is dead.
 */
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Cleanup, Product } from "./system.ts";
import { quantile } from "./turns.ts";

const EVENTS = 300;
const WARM = 20;
const DEAD = 10_000;
const AIMS_MS = { p50: 50, p99: 250, grown: 1_000 };

type Report = { judge(aim: string, found: string, isMet: boolean): void };
const ms = (value: number) => `${value.toFixed(0)} ms`;

export async function measureWebhooks(cleanup: Cleanup, product: Product, { judge }: Report): Promise<void> {
  const dataDir = mkdtempSync(join(tmpdir(), "agentry-bench-objects-"));
  cleanup.add(async () => rmSync(dataDir, { recursive: true, force: true }));
  const groups = ["events", "webhooks", "objects", "compute"];
  const { entry } = await product.start("agentry_api", { groups, dataDir, allowLoopback: "127.0.0.1" });
  const [b, a] = product.people as [Product["people"][number], Product["people"][number]];
  const ask = async (token: string, path: string, body: object) => {
    const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
    const response = await fetch(entry + path, { method: "POST", headers, body: JSON.stringify(body) });
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
  const endpoint = (org: string, port: number) =>
    ask(product.secret_key, "/api/v1/webhook_endpoints", {
      ...{ url: `http://127.0.0.1:${port}/`, event_names: ["custom.bench"], org },
    });
  await endpoint(b.org, port);
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
  // Nobody listens at port 1.
  await endpoint(a.org, 1);
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
}
