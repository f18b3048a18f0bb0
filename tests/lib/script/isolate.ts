import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { build } from "esbuild";
import type { Asked } from "./isolate-worker.ts";

/** The binary that Miniflare starts. */
const { default: workerd } = createRequire(import.meta.url)("workerd") as { default: string };

const CONFIG = `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = (
    modules = [(name = "worker", esModule = embed "worker.js")],
    compatibilityDate = "2026-10-01",
  ))],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")],
);`;

/** The Worker of isolate-worker.ts, written to a folder that `close` removes. */
export async function bundled() {
  const folder = await mkdtemp(join(tmpdir(), "agentry-isolate-"));
  await build({
    entryPoints: [resolve(import.meta.dirname, "isolate-worker.ts")],
    outfile: join(folder, "worker.js"),
    ...{ bundle: true, format: "esm", target: "es2024", conditions: ["workerd", "worker", "browser"] },
  });
  await writeFile(join(folder, "config.capnp"), CONFIG);
  return { folder, close: () => rm(folder, { recursive: true }) };
}

/** A workerd of its own. Linux tells what it holds. */
export async function anIsolate(folder: string) {
  const child = spawn(workerd, ["serve", "config.capnp", "--control-fd=3"], {
    cwd: folder,
    stdio: ["ignore", "ignore", "inherit", "pipe"],
  });
  const lines = createInterface({ input: child.stdio[3] as Readable });
  const [line] = await once(lines, "line");
  const { port } = JSON.parse(line as string) as { port: number };
  const base = `http://127.0.0.1:${port}`;

  const bytes = async (field: "VmHWM" | "VmRSS") => {
    const status = await readFile(`/proc/${child.pid}/status`, "utf8");
    return Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(status)![1]) * 1024;
  };
  const ask = async (asked: Asked): Promise<any> => {
    const response = await fetch(base, { method: "POST", body: JSON.stringify(asked) });
    return response.json();
  };
  return {
    base,
    ask,
    bytes,
    /** Begins a new peak, at what the process holds now. */
    forget: () => writeFile(`/proc/${child.pid}/clear_refs`, "5"),
    close: async () => {
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
    },
  };
}
