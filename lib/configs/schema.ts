import * as v from "valibot";
import { lookupKey } from "../agents/schema.ts";
import { type Row, real } from "../db/schema.ts";
import { flag, isWithin, isWithinAsJson, list, map, maxBytes, nullable, rule, stamp, text } from "../http/valid.ts";
import { isId } from "../ids.ts";
import { positive } from "../paging.ts";
import { configKindNames, configKinds } from "./kinds.ts";

const MAX_DATA_BYTES = 8 * 1024;
/** What a path may be made of: it is printed, and one that looked like an id would be taken for one. */
export const pathShape = /^[^\p{Cc}\p{Cf}]{1,500}$/u;
const path = v.pipe(
  v.string(),
  v.regex(pathShape, "must be 1 to 500 characters that can be seen"),
  v.check((path) => !isId("config", path), "must not look like an id"),
);
const mimeType = v.pipe(
  text(200),
  v.regex(/^[\w!#$&^.+-]+\/[\w!#$&^.+-]+(\s*;\s*[\w-]+=[\w.-]+)*$/, "must be a MIME type such as application/yaml"),
);
const id = text(100);

/** Whose a config is, or of whom one is looked for: one of the four, and, for a key, in which org. */
const owner = {
  team: v.optional(v.nullable(id)),
  user: v.optional(v.nullable(id)),
  agent: v.optional(v.nullable(text(255))),
  system: v.optional(v.nullable(v.boolean())),
  org: v.optional(v.nullable(id)),
};
export type Owner = v.InferOutput<v.StrictObjectSchema<typeof owner, undefined>>;
/** The same in a query string. */
const asked = { team: v.optional(id), user: v.optional(id), agent: v.optional(id), org: v.optional(id) };
export const ownerQuery = v.object({ ...asked, system: v.optional(flag) });
export const ownerBody = v.strictObject(owner);

const content = {
  mime_type: mimeType,
  /** Text, or base64 where data_encoding says so; at most 1 MB. */
  raw_content: v.pipe(v.string(), maxBytes(1024 * 1024)),
  data_encoding: v.optional(v.nullable(v.picklist(["raw", "base64"]))),
};
const note = {
  /** What the writer wants to keep beside the version. */
  data: v.optional(
    v.nullable(
      v.pipe(
        map,
        v.check((data) => isWithinAsJson(data, MAX_DATA_BYTES), "must be at most 8 KB as JSON"),
      ),
    ),
  ),
  change_description: v.optional(v.nullable(text(500))),
};
const clearable = <S extends v.GenericSchema>(schema: S) => v.optional(v.nullable(v.union([v.literal(""), schema])));

export const createConfigBody = v.pipe(
  v.strictObject({
    ...content,
    ...note,
    ...owner,
    kind: v.picklist(configKindNames),
    lookup_key: v.optional(v.nullable(lookupKey("config"))),
    virtual_path: v.optional(v.nullable(path)),
    parent: v.optional(v.nullable(id)),
    relative_path: v.optional(v.nullable(path)),
    parent_solution: v.optional(v.nullable(id)),
    take_ownership: v.optional(v.nullable(v.boolean())),
  }),
  rule("relative_path", ({ parent, relative_path }) => !parent || Boolean(relative_path), "is required with parent"),
);
export type CreateConfig = v.InferOutput<typeof createConfigBody>;

export const updateConfigBody = v.pipe(
  v.strictObject({
    ...v.partial(v.strictObject(content)).entries,
    ...note,
    ...owner,
    lookup_key: clearable(lookupKey("config")),
    virtual_path: clearable(path),
    relative_path: v.optional(path),
    parent_solution: v.optional(v.nullable(id)),
    /** The version that the change was made from: 409 where another one has come. */
    expected_version: v.optional(v.nullable(v.pipe(v.number(), v.integer(), v.minValue(1)))),
  }),
  rule(
    "mime_type",
    (body) => (body.raw_content === undefined) === (body.mime_type === undefined),
    "goes with raw_content",
  ),
  rule("data_encoding", (body) => body.raw_content !== undefined || !body.data_encoding, "goes with raw_content"),
  rule("data", (body) => body.raw_content !== undefined || !body.data, "goes with raw_content"),
  rule(
    "change_description",
    (body) => body.raw_content !== undefined || !body.change_description,
    "goes with raw_content",
  ),
);
export type UpdateConfig = v.InferOutput<typeof updateConfigBody>;

export const validateConfigBody = v.strictObject({
  ...content,
  ...owner,
  kind: text(100),
  data: note.data,
});

export const encryptSecretBody = v.strictObject({
  org: v.optional(v.nullable(id)),
  /** At most 64 KB. */
  plaintext: v.pipe(
    v.string(),
    v.check((plain) => isWithin(plain, 65_536), "must be at most 64 KB"),
  ),
});
export const encryptedSecret = v.strictObject({ encrypted_value: v.string() });

const MOST = 1000;
const pageQuery = {
  limit: v.optional(
    v.pipe(
      positive,
      v.transform((limit) => Math.min(limit, MOST)),
    ),
    String(MOST),
  ),
  after_cursor: v.optional(text(1000)),
};
export const listConfigsQuery = v.object({
  ...ownerQuery.entries,
  ...pageQuery,
  kind: v.optional(text(100)),
  lookup_key: v.optional(text(255)),
  path_prefix: v.optional(text(500)),
  parents: v.optional(list(id, 100)),
  parent_solutions: v.optional(list(id, 100)),
});
export type ListConfigs = v.InferOutput<typeof listConfigsQuery>;
export const listVersionsQuery = v.object({ ...ownerQuery.entries, ...pageQuery });
export const facetsQuery = v.object({ app: v.optional(id), team: asked.team, user: asked.user, org: asked.org });
export const contentQuery = v.object({
  ...ownerQuery.entries,
  format: v.optional(text(20)),
  /** Taken, and without effect: content is given as it was stored, there is nothing of ours in it. */
  inject_protected_fields: v.optional(flag),
});
export const kindsQuery = v.object({ kind: v.optional(list(text(100), 100)) });

export type ConfigRow = Row<"configs">;
type VersionRow = Row<"config_versions">;
/** A version without its content. */
export type Version = Omit<VersionRow, "content" | "encoding" | "mime_type" | "config_id">;
/** A config, and of its newest version what isn't its content. */
export type Shown = ConfigRow & {
  version_id: Version["id"];
  version_data: Version["data"];
  version_change_description: Version["change_description"];
  version_created_at: Version["created_at"];
};

export const configVersion = v.strictObject({
  id: v.string(),
  org: nullable,
  sandbox: nullable,
  version_number: v.number(),
  content_hash: v.string(),
  change_description: nullable,
  data: v.nullable(v.record(v.string(), v.unknown())),
  source_solution_config_version: v.null(),
  created_at: stamp,
});
export const config = v.strictObject({
  id: v.string(),
  kind: v.string(),
  org: nullable,
  sandbox: nullable,
  team: v.null(),
  user: nullable,
  agent: nullable,
  lookup_key: nullable,
  virtual_path: nullable,
  parent: nullable,
  relative_path: nullable,
  parent_solution: nullable,
  mime_type: v.string(),
  /** Null: the content is at /content. */
  raw_content: v.null(),
  is_archived: v.boolean(),
  current_version: configVersion,
  created_at: stamp,
  updated_at: stamp,
});
const cursor = { after_cursor: nullable, has_more: v.boolean() };
export const configList = v.strictObject({ data: v.array(config), ...cursor });
export const versionList = v.strictObject({ versions: v.array(configVersion), ...cursor });
export const validation = v.strictObject({
  valid: v.boolean(),
  errors: v.array(v.string()),
  warnings: v.array(v.string()),
});
export const facets = v.strictObject({
  kinds: v.array(v.strictObject({ kind: v.string(), count: v.number() })),
  path_prefixes: v.array(v.strictObject({ prefix: v.string(), count: v.number() })),
});
export const kindList = v.strictObject({
  data: v.array(
    v.strictObject({
      kind: v.string(),
      classification: v.string(),
      description: v.string(),
      sample_available: v.boolean(),
      schema_available: v.boolean(),
    }),
  ),
});
export const kindSchema = v.strictObject({
  kind: v.string(),
  json_schema: v.nullable(v.record(v.string(), v.unknown())),
  sample_yaml: nullable,
});

export const toVersion = (row: Version): v.InferOutput<typeof configVersion> => ({
  id: row.id,
  org: real(row.org_id),
  sandbox: real(row.sandbox_id),
  version_number: row.version_number,
  content_hash: row.content_hash,
  change_description: row.change_description,
  data: row.data,
  source_solution_config_version: null,
  created_at: row.created_at,
});

export const toConfig = (row: Shown): v.InferOutput<typeof config> => ({
  id: row.id,
  kind: row.kind,
  org: real(row.org_id),
  sandbox: real(row.sandbox_id),
  team: null,
  user: row.user_id,
  agent: row.agent_id,
  lookup_key: row.lookup_key,
  virtual_path: row.virtual_path,
  parent: row.parent_id,
  relative_path: row.relative_path,
  parent_solution: row.solution_id,
  mime_type: row.mime_type,
  raw_content: null,
  is_archived: row.archived_at !== null,
  current_version: toVersion({
    ...row,
    id: row.version_id,
    data: row.version_data,
    change_description: row.version_change_description,
    created_at: row.version_created_at,
  }),
  created_at: row.created_at,
  updated_at: row.updated_at,
});

export const toKind = (kind: string) => ({
  kind,
  classification: configKinds[kind]!.classification,
  description: configKinds[kind]!.description,
  sample_available: configKinds[kind]!.sample !== undefined,
  schema_available: configKinds[kind]!.schema !== undefined,
});
