/** What wrangler.toml says of each group's Worker. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { cached } from "./cache.ts";

export const ROOT = resolve(import.meta.dirname, "../..");
export const CONFIG = resolve(ROOT, "wrangler.toml");
/** What lib/local/document.ts makes. */
export const DOCUMENT = resolve(ROOT, "dist/openapi.json");

export type Group = {
  name: string;
  main: string;
  routes?: { pattern: string; zone_name: string }[];
  triggers?: { crons: string[] };
  vars: Record<string, string>;
  secrets: { required: string[] };
  /** What Miniflare is told of the Worker, but for what stands above. */
  options: Record<string, unknown>;
};

/** The groups in their order, `all` among them: the single Worker that has the routers of every other one. */
export async function readGroups(): Promise<[group: string, Group][]> {
  const inputs = [readFileSync(CONFIG, "utf8"), readFileSync(resolve(ROOT, "package.json"), "utf8"), CONFIG];
  return JSON.parse(Buffer.from(await cached("wrangler", inputs, askWrangler)).toString());
}

/** As wrangler reads it, which takes a second to be loaded. */
async function askWrangler(): Promise<Uint8Array> {
  const wrangler = await import("wrangler");
  const { rawConfig } = wrangler.experimental_readRawConfig({ config: CONFIG });
  const groups = Object.entries(rawConfig.env as Record<string, object>).map(([group, found]) => {
    // The secrets that are required come from the caller: wrangler would ask the environment for them.
    const config = { ...wrangler.unstable_readConfig({ config: CONFIG, env: group }), secrets: undefined };
    const {
      bindings: _,
      modulesRules: __,
      ...options
    } = wrangler.unstable_getMiniflareWorkerOptions(config, group).workerOptions as Record<string, unknown>;
    return [group, { ...found, options }];
  });
  return Buffer.from(JSON.stringify(groups));
}
