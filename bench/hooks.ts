/** What a webhook takes: how long until a signed delivery is answered, and until the first step of what it starts has begun. */
import { createHmac } from "node:crypto";
import { type Cleanup, newObjectsDir, type Product } from "./system.ts";
import { quantile } from "./turns.ts";

const AGENTS = 10;
const DELIVERIES = 300;
const WARM = 20;
const AIMS_MS = { answer: 10, step: 30 };

type Report = { judge(aim: string, found: string, isMet: boolean): void };
const ms = (value: number) => `${value.toFixed(1)} ms`;
const now = () => performance.timeOrigin + performance.now();

export async function measureHooks(cleanup: Cleanup, product: Product, { judge }: Report): Promise<void> {
  const dataDir = newObjectsDir(cleanup);
  const groups = ["agents", "routines", "hooks", "compute", "objects"] as const;
  const { entry } = await product.start("agentry_api", { groups: [...groups], dataDir });
  const [{ access_token, org }] = product.people as [Product["people"][number]];
  const ask = async (method: string, path: string, body?: object | string, headers: object = {}) => {
    const authorized = { Authorization: `Bearer ${access_token}`, "Content-Type": "application/json", ...headers };
    const sent = typeof body === "string" ? body : JSON.stringify(body);
    const response = await fetch(entry + path, { method, headers: authorized, ...(body && { body: sent }) });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return response.json() as Promise<any>;
  };
  const routine = { name: "Bench", handler_type: "script", script: "1", event_type: "webhook.github_app.push" };
  const hooks: { path: string; secret: string }[] = [];
  for (let i = 0; i < AGENTS; i++) {
    const { id } = await ask("POST", "/api/v1/agents", { name: "Bench" });
    const made = await ask("POST", `/api/v1/agents/${id}/agent_routines`, { ...routine, status: "draft" });
    await ask("POST", `/api/v1/agent_routines/${made.id}/activate`);
    const hook = { name: "Bench", provider: "standard", routine: made.id, org };
    const asApp = { Authorization: `Bearer ${product.secret_key}` };
    const { url, secret } = await ask("POST", "/api/v1/inbound_webhooks", hook, asApp);
    hooks.push({ path: new URL(url).pathname, secret });
  }
  const answers: number[] = [];
  const steps: number[] = [];
  for (let i = 0; i < DELIVERIES; i++) {
    const { path, secret } = hooks[i % AGENTS]!;
    const [id, at, body] = [`d${i}`, String(Math.floor(Date.now() / 1000)), JSON.stringify({ n: i })];
    const key = Buffer.from(secret.slice("whsec_".length), "base64");
    const signature = `v1,${createHmac("sha256", key).update(`${id}.${at}.${body}`).digest("base64")}`;
    const headers = { "webhook-id": id, "webhook-timestamp": at, "webhook-signature": signature };
    const sent = now();
    const { receipt } = await ask("POST", path, body, headers);
    const answered = now();
    const { run } = await ask("GET", `/api/v1/webhook_receipts/${receipt}`);
    for (;;) {
      const { data } = await ask("GET", `/api/v1/agent_routines/runs/${run}/journal`);
      const first = data.find(({ type }: { type: string }) => type === "command.called");
      if (first && i >= WARM) {
        answers.push(answered - sent);
        steps.push(Date.parse(first.created_at) - sent);
      }
      if (first) break;
    }
  }
  const found = (all: number[]) => `${ms(quantile(all, 0.5))} (p99 ${ms(quantile(all, 0.99))})`;
  const { answer, step } = AIMS_MS;
  const [p50, first] = [quantile(answers, 0.5), quantile(steps, 0.5)];
  judge(`a signed delivery: answered 202 p50 at most ${ms(answer)} later`, found(answers), p50 <= answer);
  judge(`a signed delivery: its run's first step p50 at most ${ms(step)} later`, found(steps), first <= step);
}
