import * as v from "valibot";
import { lookupKey } from "../agents/schema.ts";
import { checkSchema, validateAgainst } from "../configs/json-schema.ts";
import {
  approvals,
  effects,
  type Row,
  type ToolKind,
  type ToolStatus,
  toolHandlers,
  toolKinds,
  toolStatuses,
} from "../db/schema.ts";
import type { FieldError } from "../errors.ts";
import { list, map, metadata, nullable, rules, stamp, text } from "../http/valid.ts";
import { listOf, listQuery } from "../paging.ts";
import { type Builtin, builtins, catalog, reservedNames } from "./catalog.ts";

const MAX_FUNCTION_NAME = 64;
const name = v.pipe(text(MAX_FUNCTION_NAME), v.regex(/^[a-zA-Z0-9_-]+$/, "must be made of letters, digits, _ and -"));
const name_prefix = v.pipe(
  text(24),
  v.regex(/^[a-z][a-z0-9_]*$/, "must begin with a small letter, and be made of those, digits and _"),
);
const config = v.pipe(text(255), v.nonEmpty());

/** Checked when it is saved: a session would find out too late. Its faults are told at once, each by its place. */
const parameters = v.pipe(
  map,
  v.rawCheck<Record<string, unknown>>(({ dataset, addIssue }) => {
    if (!dataset.typed) return;
    if (dataset.value.type !== "object") addIssue({ message: 'must be a JSON Schema whose type is "object"' });
    else for (const message of checkSchema(dataset.value)) addIssue({ message });
  }),
);

const fields = {
  name: v.optional(v.nullable(name)),
  name_prefix: v.optional(v.nullable(name_prefix)),
  description: v.optional(v.nullable(text(10_000))),
  instruction: v.optional(v.nullable(text(10_000))),
  handler_type: v.optional(v.nullable(v.picklist(toolHandlers))),
  /** A config by its id or lookup_key: HttpTool, Script, WorkflowGraph or McpServer, as the tool is. */
  config: v.optional(v.nullable(config)),
  /** JSON Schema of the arguments. */
  parameters: v.optional(v.nullable(parameters)),
  parameters_config: v.optional(v.nullable(config)),
  builtin_tool_config: v.optional(v.nullable(map)),
  /** What a call does to the world; null: what its method or kind says. */
  effect: v.optional(v.nullable(v.picklist(effects))),
  approval: v.optional(v.nullable(v.picklist(approvals))),
  async: v.optional(v.nullable(v.boolean())),
  lookup_key: v.optional(v.nullable(lookupKey("agent_tool"))),
  metadata: v.optional(v.nullable(metadata)),
};
type Fields = { [K in keyof typeof fields]?: v.InferOutput<(typeof fields)[K]> };

type OfKind = keyof Fields | "builtin_tool_key";
/** What not every kind of tool takes, and the kinds that do. */
const only: Partial<Record<OfKind, readonly ToolKind[]>> = {
  name_prefix: ["custom", "mcp"],
  handler_type: ["custom"],
  config: ["custom", "mcp"],
  parameters: ["custom"],
  parameters_config: ["custom"],
  effect: ["custom", "mcp"],
  builtin_tool_key: ["builtin"],
  builtin_tool_config: ["builtin"],
};
/** What a tool of the kind can't be without. */
const required: Record<ToolKind, readonly OfKind[]> = {
  builtin: ["builtin_tool_key"],
  custom: ["name", "description", "handler_type", "config"],
  mcp: ["name", "config"],
};

/** Why a tool of the kind can't have these values; `undefined` is a field that isn't sent. */
export function faultsFor(kind: ToolKind, body: Partial<Record<OfKind, unknown>>): FieldError[] {
  const fields = Object.keys(body) as OfKind[];
  return fields.flatMap((field) => {
    const kinds = only[field];
    if (body[field] === null && required[kind].includes(field)) {
      return [{ field, message: `is required for a tool of the kind ${kind}` }];
    }
    return body[field] == null || !kinds || kinds.includes(kind)
      ? []
      : [{ field, message: `is for tools of the kind ${kinds.join(" or ")} alone` }];
  });
}

export const RESERVED = "is the name of a function that agentry brings";
/** What a model would call a custom tool by: the prefix, `_` and the name. */
function faultsOfName(name: string, name_prefix: string | null | undefined): FieldError[] {
  const called = name_prefix ? `${name_prefix}_${name}` : name;
  if (called.length > MAX_FUNCTION_NAME) {
    return [{ field: "name", message: `must have at most ${MAX_FUNCTION_NAME} characters with its prefix` }];
  }
  return reservedNames.has(called) ? [{ field: "name", message: RESERVED }] : [];
}

const sent = (body: object) => Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined));

const faultsOfNew = (body: Fields): FieldError[] => [
  ...(body.name ? faultsOfName(body.name, body.name_prefix) : []),
  ...(body.handler_type === "builtin"
    ? [{ field: "handler_type", message: "must be one of: http, script, workflow_graph" }]
    : []),
  ...(body.parameters || body.parameters_config
    ? []
    : [{ field: "parameters", message: "is required, unless parameters_config names them" }]),
];

const faultsOfConfig = (key: string, config: object): FieldError[] =>
  validateAgainst(builtins.get(key)?.config_schema ?? {}, config).map(({ pointer, message }) => ({
    field: "builtin_tool_config",
    message: pointer ? `${pointer} ${message}` : message,
  }));

type Status = "draft" | ToolStatus | null | undefined;

export const createToolBody = v.pipe(
  v.strictObject({
    ...fields,
    kind: v.picklist(toolKinds),
    builtin_tool_key: v.optional(v.nullable(v.picklist(catalog.map(({ key }) => key)))),
    /** `draft` is `disabled` by another name. */
    status: v.optional(v.nullable(v.picklist(["draft", ...toolStatuses]))),
  }),
  rules<Fields & { kind: ToolKind; builtin_tool_key?: string | null | undefined; status?: Status }>((body) => [
    // What isn't sent is cleared, of a new row.
    ...faultsFor(body.kind, {
      ...Object.fromEntries(required[body.kind].map((field) => [field, null])),
      ...sent(body),
    }),
    ...(body.kind === "custom" ? faultsOfNew(body) : []),
    ...(body.builtin_tool_key ? faultsOfConfig(body.builtin_tool_key, body.builtin_tool_config ?? {}) : []),
  ]),
);
export type CreateTool = v.InferOutput<typeof createToolBody>;

export const updateToolBody = v.pipe(
  v.strictObject({
    ...fields,
    /** An AgentToolTemplate config by its id or lookup_key: the tool becomes as it says, but for what is sent beside it. */
    template: v.optional(v.nullable(v.pipe(text(255), v.nonEmpty()))),
  }),
  rules<Fields & { template?: string | null | undefined }>((body) => [
    ...(body.handler_type === "builtin"
      ? [{ field: "handler_type", message: "must be one of: http, script, workflow_graph" }]
      : []),
    ...(body.handler_type && body.config === undefined
      ? [{ field: "config", message: "is required with handler_type: each has a kind of config of its own" }]
      : []),
  ]),
);
export type UpdateTool = v.InferOutput<typeof updateToolBody>;

export const listToolsQuery = v.object({
  ...listQuery,
  agent: v.optional(list(text(255), 100)),
  kind: v.optional(v.picklist(toolKinds)),
});
export type ListTools = v.InferOutput<typeof listToolsQuery>;
export const listToolsOfQuery = v.object({ kind: v.optional(v.picklist(toolKinds)) });

export type ToolRow = Row<"agent_tools">;

const free = v.nullable(v.record(v.string(), v.unknown()));
export const tool = v.strictObject({
  id: v.string(),
  app: v.string(),
  agent: v.string(),
  kind: v.picklist(toolKinds),
  status: v.picklist(toolStatuses),
  name: nullable,
  name_prefix: nullable,
  description: nullable,
  instruction: nullable,
  handler_type: v.nullable(v.picklist(toolHandlers)),
  config: nullable,
  parameters: free,
  parameters_config: nullable,
  builtin_tool_key: nullable,
  builtin_tool_config: free,
  effect: v.nullable(v.picklist(effects)),
  approval: v.picklist(approvals),
  async: v.boolean(),
  lookup_key: nullable,
  metadata: v.record(v.string(), v.unknown()),
  setup: v.nullable(
    v.strictObject({ next_action: v.string(), protocol_status: v.literal("not_checked"), reason: v.string() }),
  ),
  last_applied_template_config: nullable,
  created_at: stamp,
  updated_at: stamp,
});
export const toolPage = listOf(tool);
export const toolList = v.strictObject({ data: v.array(tool) });

/** What there is to do before a server of tools has been asked for them: nobody asks it when the record is made. */
const setupOf = ({ kind, status }: ToolRow) =>
  kind === "mcp"
    ? {
        next_action: status === "active" ? "none" : "activate",
        protocol_status: "not_checked" as const,
        reason: "The server is asked for its tools when a session first needs them.",
      }
    : null;

export const toTool = (row: ToolRow): v.InferOutput<typeof tool> => ({
  id: row.id,
  app: row.app_id,
  agent: row.agent_id,
  kind: row.kind,
  status: row.status,
  name: row.name,
  name_prefix: row.name_prefix,
  description: row.description,
  instruction: row.instruction,
  handler_type: row.handler_type,
  config: row.config_id,
  parameters: row.parameters,
  parameters_config: row.parameters_config_id,
  builtin_tool_key: row.builtin_tool_key,
  builtin_tool_config: row.builtin_tool_config,
  effect: row.effect,
  approval: row.approval,
  async: row.async,
  lookup_key: row.lookup_key,
  metadata: row.metadata,
  setup: setupOf(row),
  last_applied_template_config: row.template_config_id,
  created_at: row.created_at,
  updated_at: row.updated_at,
});

const catalogEntry = v.strictObject({
  key: v.string(),
  label: v.string(),
  description: v.string(),
  instruction: nullable,
  multi_instance_mode: v.literal("single"),
  providers: v.array(v.string()),
  requires_integration: v.boolean(),
  server_tool_type: v.null(),
  config_schema: v.record(v.string(), v.unknown()),
  tools: v.array(v.strictObject({ name: v.string(), description: v.string() })),
});
export const toolCatalog = v.array(catalogEntry);

export const toCatalogEntry = (builtin: Builtin): v.InferOutput<typeof catalogEntry> => ({
  key: builtin.key,
  label: builtin.label,
  description: builtin.description,
  instruction: builtin.instruction,
  multi_instance_mode: "single",
  providers: [],
  requires_integration: builtin.requires_integration,
  server_tool_type: null,
  config_schema: builtin.config_schema,
  tools: builtin.tools,
});
