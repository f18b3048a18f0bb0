/** What a bundle may be made of, when it comes in. */
import * as v from "valibot";
import { list, map, maxValues, text } from "../http/valid.ts";

/** How many configs an import installs, and an export holds. */
export const MAX_CONFIGS = 500;
const MAX_BUNDLE_VALUES = 50_000;

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
export const bundleField = v.pipe(templateBundle, maxValues(MAX_BUNDLE_VALUES));
export type Bundle = NonNullable<v.InferOutput<typeof templateBundle>>;
