import * as v from "valibot";
import { agent } from "../agents/schema.ts";
import { config, type Shown, toConfig } from "../configs/schema.ts";
import { flag, nullable } from "../http/valid.ts";

/** How much content an export holds. */
export const MAX_BYTES = 8_000_000;

export const exportQuery = v.object({ remove_identity: v.optional(flag) });

const exportedConfig = v.strictObject({
  ...config.entries,
  raw_content: v.string(),
  /** With base64, where the content is bytes. */
  data_encoding: v.picklist(["raw", "base64"]),
});
export const agentExport = v.strictObject({
  template: v.record(v.string(), v.unknown()),
  configs: v.array(exportedConfig),
});
export type AgentExport = v.InferOutput<typeof agentExport>;

/** A config with its content, under the names by which the export speaks of it. */
export type Content = { encoding: "raw" | "base64"; content: string };
export const toExportedConfig = (row: Shown & Content): v.InferOutput<typeof exportedConfig> => ({
  ...toConfig(row),
  raw_content: row.content,
  data_encoding: row.encoding,
});

const installedConfig = v.strictObject({ id: v.string(), key: v.string(), kind: v.string(), lookup_key: nullable });
export type InstalledConfig = v.InferOutput<typeof installedConfig>;
/** An agent as it is answered when it is made: with the configs that came with it, if any bundle did. */
export const createdAgent = v.strictObject({
  ...agent.entries,
  installed_configs: v.optional(v.array(installedConfig)),
});
