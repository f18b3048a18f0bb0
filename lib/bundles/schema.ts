import * as v from "valibot";
import { agent } from "../agents/schema.ts";
import { config, type Shown, toConfig } from "../configs/schema.ts";
import { list, map, maxValues, nullable, text } from "../http/valid.ts";

/** How much an export holds, and an import installs. */
export const MAX_CONFIGS = 500;
export const MAX_BYTES = 8_000_000;
const MAX_EXPORT_VALUES = 200_000;

const flag = v.pipe(
  v.picklist(["true", "false"]),
  v.transform((text) => text === "true"),
);
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

/** A file of a bundle as it came, or a config as an export has it; of the latter, more is said than is read. */
const word = v.optional(v.nullable(text(500)));
const file = v.looseObject({
  content: v.optional(v.string()),
  raw_content: v.optional(v.string()),
  content_type: word,
  mime_type: word,
  data_encoding: v.optional(v.nullable(v.picklist(["raw", "base64"]))),
  id: word,
  kind: word,
  lookup_key: word,
  virtual_path: word,
  parent: word,
  relative_path: word,
});
export type File = v.InferOutput<typeof file>;
const skill = v.looseObject({ ...file.entries, files: v.optional(v.nullable(list(file, MAX_CONFIGS))) });
export type SkillFile = v.InferOutput<typeof skill>;

/** An agent with what it is made of: an export as it is, or the contract's files. */
export const templateBundle = v.optional(
  v.nullable(
    v.strictObject({
      /** An AgentTemplate, or a file that holds one. */
      template: map,
      configs: v.optional(v.nullable(list(file, MAX_CONFIGS))),
      skills: v.optional(v.nullable(list(skill, 100))),
      setup_actions: v.optional(v.nullable(list(map, 100))),
      /** Keeps apart what is unique in the app or in the org. */
      lookup_key_suffix: v.optional(
        v.nullable(v.pipe(v.string(), v.regex(/^[a-z0-9_-]{1,50}$/, "must be 1 to 50 of a-z, 0-9, _ and -"))),
      ),
    }),
  ),
  undefined,
);
export const bundleField = v.pipe(templateBundle, maxValues(MAX_EXPORT_VALUES));
export type Bundle = NonNullable<v.InferOutput<typeof templateBundle>>;

const installedConfig = v.strictObject({ id: v.string(), key: v.string(), kind: v.string(), lookup_key: nullable });
export type InstalledConfig = v.InferOutput<typeof installedConfig>;
/** An agent as it is answered when it is made: with the configs that came with it, if any bundle did. */
export const createdAgent = v.strictObject({
  ...agent.entries,
  installed_configs: v.optional(v.array(installedConfig)),
});
