import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { build } from "esbuild";

const CONFIG = `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = (
      modules = [(name = "worker", esModule = embed "worker.js")],
      compatibilityDate = "2026-10-01",
      globalOutbound = "here",
    )),
    (name = "here", network = (allow = ["local"])),
  ],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")],
);`;

/** The Worker of mcp-isolate-worker.ts, which may reach this machine, in a folder that `close` removes. */
export async function bundled() {
  const folder = await mkdtemp(join(tmpdir(), "agentry-mcp-"));
  await build({
    entryPoints: [resolve(import.meta.dirname, "mcp-isolate-worker.ts")],
    outfile: join(folder, "worker.js"),
    ...{ bundle: true, format: "esm", target: "es2024", conditions: ["workerd", "worker", "browser"] },
  });
  await writeFile(join(folder, "config.capnp"), CONFIG);
  return { folder, close: () => rm(folder, { recursive: true }) };
}
