/** What wrangler.toml says of each group's Worker. */
import { resolve } from "node:path";
import { experimental_readRawConfig } from "wrangler";

export const ROOT = resolve(import.meta.dirname, "../..");
export const CONFIG = resolve(ROOT, "wrangler.toml");

export type Group = {
  name: string;
  main: string;
  routes?: { pattern: string; zone_name: string }[];
  triggers?: { crons: string[] };
  vars: Record<string, string>;
  secrets: { required: string[] };
};

/** The groups in their order, `all` among them: the single Worker that has the routers of every other one. */
export function readGroups(): [group: string, Group][] {
  const { rawConfig } = experimental_readRawConfig({ config: CONFIG }) as unknown as {
    rawConfig: { env: Record<string, Group> };
  };
  return Object.entries(rawConfig.env);
}
