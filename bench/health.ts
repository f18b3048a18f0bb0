/** How long an agent's health takes to read, beside the agent itself: one trip to the database, and one to the object. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Cleanup, Product } from "./system.ts";
import { quantile } from "./turns.ts";

const TIMES = 300;
const WARM = 50;
const AIM_MS = 15;

type Report = { judge(aim: string, found: string, isMet: boolean): void };
const ms = (value: number) => `${value.toFixed(1)} ms`;

export async function measureHealth(cleanup: Cleanup, product: Product, { judge }: Report): Promise<void> {
  const dataDir = mkdtempSync(join(tmpdir(), "agentry-bench-health-"));
  cleanup.add(async () => rmSync(dataDir, { recursive: true, force: true }));
  const { entry } = await product.start("agentry_api", { groups: ["agents", "objects"], dataDir });
  const [{ access_token }] = product.people as [Product["people"][number]];
  const headers = { Authorization: `Bearer ${access_token}`, "Content-Type": "application/json" };
  const ask = async (method: string, path: string, body?: object) => {
    const response = await fetch(entry + path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return response.json() as Promise<{ id: string }>;
  };
  const setup_actions = Array.from({ length: 20 }, (_, i) => ({ kind: "custom", title: `Action ${i}` }));
  const template_bundle = { template: { name: "Bench", model: "scripted/echo" }, setup_actions };
  const { id } = await ask("POST", "/api/v1/agents", { template_bundle });
  const took: Record<"agent" | "health", number[]> = { agent: [], health: [] };
  // By turns, so that what else the machine does meets both.
  for (let i = 0; i < WARM + TIMES; i++) {
    for (const [what, path] of [
      ["agent", ""],
      ["health", "/health"],
    ] as const) {
      const began = performance.now();
      await ask("GET", `/api/v1/agents/${id}${path}`);
      if (i >= WARM) took[what].push(performance.now() - began);
    }
  }
  const [agent, health] = [quantile(took.agent, 0.5), quantile(took.health, 0.5)];
  const found = `${ms(health)}; the agent alone ${ms(agent)}; p99 ${ms(quantile(took.health, 0.99))}`;
  judge(`an agent's health: p50 at most ${AIM_MS} ms`, found, health <= AIM_MS);
}
