import { sql } from "kysely";
import * as v from "valibot";
import { insertChild, listChildren, listChildrenOf, reachChild, telling, updateChild } from "../agents/children.ts";
import { configNamed, templatesNamed } from "../configs/queries.ts";
import { type ToolKind, toolKinds } from "../db/schema.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { invalid, notFound, unprocessable } from "../errors.ts";
import { type Id, newId } from "../ids.ts";
import type { CursorPage } from "../paging.ts";
import { availableKeys, builtins, reservedNames } from "./catalog.ts";
import {
  type CreateTool,
  faultsFor,
  type ListTools,
  RESERVED,
  type ToolRow,
  type UpdateTool,
  updateToolBody,
} from "./schema.ts";

const json = (value: object | null | undefined) => (value == null ? value : JSON.stringify(value));

/** The columns that a body sets; absent leaves alone, null clears. */
function columns(db: TenantDb, above: "agents" | "agent_tools", body: UpdateTool) {
  const org = sql.ref(`${above}.org_id`);
  const named = (config: string | null | undefined) =>
    config == null ? config : configNamed(db, config, undefined, org);
  return {
    name: body.name,
    name_prefix: body.name_prefix,
    description: body.description,
    instruction: body.instruction,
    handler_type: body.handler_type,
    config_id: named(body.config),
    parameters: json(body.parameters),
    parameters_config_id: named(body.parameters_config),
    builtin_tool_config: json(body.builtin_tool_config),
    effect: body.effect,
    approval: body.approval === null ? "none" : body.approval,
    async: body.async === null ? false : body.async,
    lookup_key: body.lookup_key,
    metadata: body.metadata === undefined ? undefined : JSON.stringify(body.metadata ?? {}),
  };
}

/**
 * Gives an agent a tool. A builtin that nothing stands behind yet is installed disabled, and a health action says so.
 * 409 on a lookup_key, a builtin or, of active ones, a function's name that the agent has already; 422 on a config that
 * isn't there or is of another kind.
 */
export async function createTool(
  db: TenantDb,
  agent: string,
  id: Id<"agent_tool">,
  body: CreateTool,
): Promise<ToolRow> {
  const { kind, builtin_tool_key, status } = body;
  const builtin = builtin_tool_key == null ? undefined : builtins.get(builtin_tool_key);
  const waits = builtin !== undefined && !builtin.available;
  const {
    db: reached,
    rows,
    insert,
  } = insertChild(db, "agent_tool", agent, id, {
    ...columns(db, "agents", body),
    ...{ kind, builtin_tool_key, status: status === "active" && !waits ? "active" : "disabled" },
    ...(builtin && { name: body.name ?? builtin.key, handler_type: "builtin" }),
  });
  const action = reached.insertUnder(rows, "agent_health_actions", {
    ...{
      id: newId("agent_health_action"),
      agent_id: sql`agents.id`,
      source: "health",
      kind: "custom",
      required: false,
    },
    title: `${builtin?.label} is not available yet`,
    description: "Nothing stands behind this builtin here yet. Its tool stays disabled until there is.",
    params: JSON.stringify({ id: "not_available", builtin_tool_key, tool: id }),
    dedupe_key: `agent_tool:${id}`,
  });
  const { made } = await reached.batch({ made: insert, ...(waits && { action }) });
  if (!made[0]) throw notFound("agent");
  return made[0];
}

const ofKind = (kind: ToolKind | undefined) => sql<boolean>`(${kind ?? null}::text is null or kind = ${kind ?? null})`;

/** The tools of an agent, newest first. */
export const listToolsOf = (db: TenantDb, agent: string, kind: ToolKind | undefined): Promise<ToolRow[]> =>
  listChildren(db, "agent_tool", agent, { narrow: (rows) => rows.where(ofKind(kind)) });

/** The tools of these agents, or of all that the viewer may read, from a cursor on. */
export const listTools = (db: TenantDb, { agent, kind }: ListTools, page: CursorPage): Promise<ToolRow[]> =>
  listChildrenOf(db, "agent_tool", agent, page, { narrow: (rows) => rows.where(ofKind(kind)) });

/** What a template says of a tool. Its status, lookup_key and kind are the tool's own. */
async function templateOf(db: TenantDb, id: Id<"agent_tool">, name: string) {
  const child = reachChild(db, "agent_tool", id, "write");
  const org = sql`(${child.rows.select("org_id")})`;
  const [template] = await templatesNamed(child.db, org, [name], ["AgentToolTemplate"]);
  if (!template) throw invalid({ field: "template", message: "there is no such template" });
  const { said } = template;
  const own = ["name", "name_prefix", "description", "instruction", "parameters", "async", "builtin_tool_config"];
  const { handler_type, config_ref, parameters_config_ref } = said;
  const given = {
    ...Object.fromEntries(own.map((field) => [field, said[field]])),
    ...{ effect: said.effect, approval: said.approval },
    ...(handler_type !== "builtin" && { handler_type, config: config_ref }),
    parameters_config: parameters_config_ref,
  };
  const result = v.safeParse(
    updateToolBody,
    Object.fromEntries(Object.entries(given).filter(([, value]) => value != null)),
  );
  if (result.success) return { id: template.id, body: result.output };
  throw invalid({ field: "template", message: `says what a tool doesn't take: ${v.getDotPath(result.issues[0])}` });
}

/**
 * Changes a tool. 422 on a field that isn't for a tool of its kind, and on a name that agentry keeps for itself. Two round
 * trips where it becomes as a template says: only the database has that, and only the Worker reads it.
 */
export async function updateTool(db: TenantDb, id: Id<"agent_tool">, sent: UpdateTool): Promise<ToolRow> {
  const named = sent.template ? await templateOf(db, id, sent.template) : null;
  const body: UpdateTool = { ...named?.body, ...sent };
  const faults = toolKinds.map((kind) => ({ kind, faults: faultsFor(kind, body) }));
  const kinds = faults.filter(({ faults }) => !faults.length).map(({ kind }) => kind);
  const next = (field: "name" | "name_prefix") =>
    body[field] === undefined ? sql.ref(field) : sql`${body[field]}::text`;
  const values = { ...columns(db, "agent_tools", body), template_config_id: named?.id };
  return updateChild(db, "agent_tool", id, values, {
    where: sql<boolean>`kind = any (${kinds})
      and (kind <> 'custom' or concat_ws('_', ${next("name_prefix")}, ${next("name")}) <> all (${[...reservedNames]}))`,
    otherwise: () =>
      invalid(faults.find(({ faults }) => faults.length)?.faults ?? { field: "name", message: RESERVED }),
  });
}

/** From the next run on the agent's model sees it. 422 `not_available` for a builtin that nothing stands behind yet. */
export const activateTool = (db: TenantDb, id: Id<"agent_tool">): Promise<ToolRow> =>
  updateChild(
    db,
    "agent_tool",
    id,
    { status: "active" },
    {
      where: sql<boolean>`(builtin_tool_key is null or builtin_tool_key = any (${availableKeys}))`,
      otherwise: () =>
        unprocessable("not_available", "Nothing stands behind this builtin here yet: it can't be activated."),
    },
  );

export const deactivateTool = (db: TenantDb, id: Id<"agent_tool">): Promise<ToolRow> =>
  updateChild(db, "agent_tool", id, { status: "disabled" });

/** Takes a tool from its agent, and with it the action that said it waits. */
export async function deleteTool(db: TenantDb, id: Id<"agent_tool">): Promise<void> {
  const tool = reachChild(db, "agent_tool", id, "write");
  const named = sql<boolean>`id in (${tool.rows.select("id")})`;
  const { gone } = await tool.db.batch({
    action: tool.db
      .deleteFrom("agent_health_actions")
      .where("dedupe_key", "=", `agent_tool:${id}`)
      .where("agent_id", "in", tool.rows.select("agent_id")),
    gone: tool.db.telling(tool.db.deleteFrom("agent_tools").where(named), telling(db, "agent_tool", "deleted")),
  });
  if (!gone[0]) throw notFound("agent_tool");
}
