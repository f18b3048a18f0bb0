import * as v from "valibot";
import { acl, aclBody } from "../auth/acl.ts";
import { type Row, real } from "../db/schema.ts";
import { idOf, list, metadata, notYet, nullable, rule, stamp, text } from "../http/valid.ts";
import { isId } from "../ids.ts";
import type { Kind } from "../kinds.ts";
import { pageOf, pageQuery } from "../paging.ts";
import { bundleField } from "./bundle.ts";

/** What a lookup_key may be made of: it stands in addresses, where `.` and `..` are steps and what can't be seen deceives. */
export const lookupKeyShape = /^(?!\.{1,2}$)[^\s/?#%\\\p{Cc}\p{Cf}]{1,255}$/u;
export const lookupKey = (kind: Kind) =>
  v.pipe(
    v.string(),
    v.regex(lookupKeyShape, "must be 1 to 255 characters that can stand in an address"),
    v.check((key) => !isId(kind, key), "must not look like an id"),
  );
const model = text(200);

const fields = {
  name: v.optional(v.nullable(text(200))),
  description: v.optional(v.nullable(text(10_000))),
  /** With description, access list and metadata at most 64 KB: the database measures them together. */
  identity: v.optional(v.nullable(text(65_536))),
  /** `model` and `default_model` are one field: the SDK writes the one and reads the other. */
  model: v.optional(v.nullable(model)),
  default_model: v.optional(v.nullable(model)),
  originator: v.optional(v.nullable(text(200))),
  lookup_key: v.optional(v.nullable(lookupKey("agent"))),
  metadata: v.optional(metadata),
  acl: v.optional(v.nullable(aclBody)),
  org: v.optional(v.nullable(idOf("org"))),
  user: v.optional(v.nullable(idOf("user"))),
  team: v.optional(v.null("there is no such team")),
  email: notYet("is not supported yet: no e-mail provider is configured"),
  phone_number: notYet("is not supported yet: no telephone provider is configured"),
  profile_picture: notYet("is not supported yet: there is no file store"),
};

type Models = { model?: string | null; default_model?: string | null };
const agree = ({ model, default_model }: Models) =>
  model === undefined || default_model === undefined || model === default_model;
const MODELS = "is default_model by another name: the two must be equal";

export const createAgentBody = v.pipe(
  v.strictObject({
    ...fields,
    name: v.optional(v.pipe(text(200), v.nonEmpty())),
    /** An AgentTemplate config by its id or lookup_key, of which the agent is made. */
    template: v.optional(v.nullable(v.pipe(text(255), v.nonEmpty()))),
    template_bundle: bundleField,
  }),
  rule("name", ({ name, template, template_bundle }) => Boolean(name || template || template_bundle), "is required"),
  rule(
    "template_bundle",
    ({ template, template_bundle }) => !(template && template_bundle),
    "excludes template: an agent is made of one",
  ),
  rule("model", (body) => agree(body), MODELS),
  rule("org", ({ org, user }) => !(org && user), "excludes user: an agent has one owner"),
);
export type CreateAgent = v.InferOutput<typeof createAgentBody>;

export const updateAgentBody = v.pipe(
  v.strictObject(fields),
  rule("model", (body) => agree(body), MODELS),
);
export type UpdateAgent = v.InferOutput<typeof updateAgentBody>;

export const listAgentsQuery = v.object({
  ...pageQuery,
  search: v.optional(text(200)),
  user: v.optional(text(100)),
  org_id: v.optional(text(100)),
  template_config: v.optional(text(200)),
  solution_config: v.optional(list(text(200), 100)),
});
export type ListAgents = v.InferOutput<typeof listAgentsQuery>;

/** An agent, with the name of its org. */
export type AgentRow = Row<"agents"> & { org_name: string | null };

export const agent = v.strictObject({
  id: v.string(),
  app: v.string(),
  sandbox: nullable,
  org: nullable,
  org_name: nullable,
  team: v.null(),
  user: nullable,
  name: nullable,
  description: nullable,
  identity: nullable,
  default_model: nullable,
  originator: nullable,
  lookup_key: nullable,
  email: v.null(),
  phone_number: v.null(),
  metadata: v.record(v.string(), v.unknown()),
  acl: v.nullable(acl),
  last_applied_template_config: nullable,
  template_upgrade_available: v.null(),
  source_solution: v.null(),
  created_at: stamp,
  updated_at: stamp,
});
export const agentPage = pageOf(agent);

/** The agent as the API shows it. What has no provider or no template behind it is null. */
export const toAgent = (row: AgentRow): v.InferOutput<typeof agent> => ({
  id: row.id,
  app: row.app_id,
  sandbox: real(row.sandbox_id),
  org: real(row.org_id),
  org_name: row.org_name,
  team: null,
  user: row.user_id,
  name: row.name,
  description: row.description,
  identity: row.identity,
  default_model: row.default_model,
  originator: row.originator,
  lookup_key: row.lookup_key,
  email: null,
  phone_number: null,
  metadata: row.metadata,
  acl: row.acl,
  last_applied_template_config: row.template_config_id,
  template_upgrade_available: null,
  source_solution: null,
  created_at: row.created_at,
  updated_at: row.updated_at,
});
