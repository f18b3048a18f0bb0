/** What a run takes: how long after somebody invoked a routine its first step has begun, and how long the answer took. */
import { type Cleanup, newObjectsDir, type Product } from "./system.ts";
import { quantile } from "./turns.ts";

const AGENTS = 10;
const RUNS = 300;
const WARM = 20;
const AIM_MS = 30;

type Report = { judge(aim: string, found: string, isMet: boolean): void };
const ms = (value: number) => `${value.toFixed(0)} ms`;

export async function measureRuns(cleanup: Cleanup, product: Product, { judge }: Report): Promise<void> {
  const dataDir = newObjectsDir(cleanup);
  const groups = ["agents", "routines", "compute", "objects"] as const;
  const { entry } = await product.start("agentry_api", { groups: [...groups], dataDir });
  const [{ access_token }] = product.people as [Product["people"][number]];
  const ask = async (method: string, path: string, body?: object) => {
    const headers = { Authorization: `Bearer ${access_token}`, "Content-Type": "application/json" };
    const response = await fetch(entry + path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return response.json() as Promise<any>;
  };
  const routine = { name: "Bench", handler_type: "script", script: "1", event_type: "agentroutine.invoked" };
  const routines: string[] = [];
  for (let i = 0; i < AGENTS; i++) {
    const { id } = await ask("POST", "/api/v1/agents", { name: "Bench" });
    const made = await ask("POST", `/api/v1/agents/${id}/agent_routines`, { ...routine, status: "active" });
    routines.push(made.id);
  }
  const answers: number[] = [];
  const steps: number[] = [];
  for (let i = 0; i < RUNS; i++) {
    const asked = performance.timeOrigin + performance.now();
    const { id } = await ask("POST", `/api/v1/agent_routines/${routines[i % AGENTS]}/invoke`, { message: "Go." });
    const answered = performance.timeOrigin + performance.now();
    for (;;) {
      const { data } = await ask("GET", `/api/v1/agent_routines/runs/${id}/journal`);
      const first = data.find(({ type }: { type: string }) => type === "command.called");
      if (first && i >= WARM) {
        answers.push(answered - asked);
        steps.push(Date.parse(first.created_at) - asked);
      }
      if (first) break;
    }
  }
  const [p50, p99] = [quantile(steps, 0.5), quantile(steps, 0.99)];
  const found = `${ms(p50)} (p99 ${ms(p99)}; the answer itself ${ms(quantile(answers, 0.5))})`;
  judge(`a routine that is invoked: its first step p50 at most ${ms(AIM_MS)} later`, found, p50 <= AIM_MS);
}
