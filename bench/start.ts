/**
 * How long `npm start` takes to its first line and its first answer, and to each of its parts (the marks that
 * lib/local/start.ts sets), in milliseconds since the process was begun, and the CPU that it and its children had until
 * then, which says more on a busy machine: `node bench/start.ts`.
 */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { childrenOf, cpuOf } from "./processes.ts";

const ROOT = resolve(import.meta.dirname, "..");
const TELL = `import { performance, PerformanceObserver } from "node:perf_hooks";
  new PerformanceObserver((list) => {
    for (const { name, startTime } of list.getEntries()) console.error(performance.timeOrigin + startTime, name);
  }).observe({ entryTypes: ["mark"] });`;

async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((ready) => probe.listen(0, "127.0.0.1", ready));
  const { port } = probe.address() as AddressInfo;
  await new Promise((closed) => probe.close(closed));
  return port;
}

/** What a process and its children have had, in milliseconds; null where there is no /proc. */
function cpuWithChildren(pid: number): number | null {
  const own = cpuOf(pid);
  return own && childrenOf(pid).reduce((sum, child) => sum + (cpuOf(child) ?? 0), own);
}

/** Starts, waits for the first answer that the database has a part in, and stops. */
async function startOnce(data: string): Promise<{ parts: Map<string, number>; cpu_ms: number | null }> {
  const port = await freePort();
  const begun = Date.now();
  const parts = new Map<string, number>();
  const args = ["--import", `data:text/javascript,${encodeURIComponent(TELL)}`, "lib/local/start.ts"];
  const child = spawn(process.execPath, args, {
    cwd: ROOT,
    env: { ...process.env, DATABASE_URL: "", AGENTRY_DATA: data, PORT: String(port) },
  });
  const ended = new Promise((done) => child.once("exit", done));
  child.stdout.once("data", () => parts.set("first line", Date.now() - begun));
  child.stderr.on("data", (chunk) => {
    for (const [, at, name] of String(chunk).matchAll(/^([\d.]+) (.+)$/gm)) parts.set(name!, Number(at) - begun);
  });
  const answers = async () => (await fetch(`http://127.0.0.1:${port}/readyz`)).ok;
  while (child.exitCode === null && !(await answers().catch(() => false)))
    await new Promise((wait) => setTimeout(wait, 5));
  parts.set("first answer", Date.now() - begun);
  const cpu_ms = cpuWithChildren(child.pid!);
  child.kill("SIGTERM");
  await ended;
  return { parts, cpu_ms };
}

/** Prints the first start of a checkout, the first of a data directory, and one with data. */
export async function printStarts(): Promise<void> {
  const data = mkdtempSync(join(tmpdir(), "agentry-bench-"));
  const made = ["node_modules/.cache/agentry", "dist/openapi.json"].map((path) => join(ROOT, path));
  const situations: [string, string[]][] = [
    ["a fresh checkout", [data, ...made]],
    ["fresh data", [data]],
    ["existing data", []],
  ];
  try {
    for (const [situation, gone] of situations) {
      for (const path of gone) rmSync(path, { recursive: true, force: true });
      const { parts, cpu_ms } = await startOnce(data);
      const said = [...parts, ...(cpu_ms === null ? [] : [["CPU", cpu_ms] as const])].map(
        ([name, ms]) => `${name} ${Math.round(ms)} ms`,
      );
      console.log(`npm start, ${situation}: ${said.join(", ")}`);
    }
  } finally {
    rmSync(data, { recursive: true, force: true });
  }
}

if (process.argv[1] === import.meta.filename) await printStarts();
