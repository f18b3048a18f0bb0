/**
 * An agent as a template that others can install: what it carries, by names that mean the same elsewhere, in an order
 * that depends on nothing but what it says. No id, no moment of this place, no secret: of env vars, the names.
 */
import { sql } from "kysely";
import { MAX_CONFIGS } from "../agents/bundle.ts";
import { passesOwn } from "../agents/children.ts";
import { reachAgent } from "../agents/queries.ts";
import { mayConfig } from "../configs/access.ts";
import { canonical } from "../configs/content.ts";
import { shown } from "../configs/queries.ts";
import type { Shown } from "../configs/schema.ts";
import type { Row } from "../db/schema.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { unprocessable } from "../errors.ts";
import { type AgentExport, type Content, MAX_BYTES, toExportedConfig } from "./schema.ts";

type ConfigRow = Shown & Content;
type Carried = Awaited<ReturnType<typeof readAgent>>;
type Names = (name: string | null) => string | null;

/** All that the agent carries and the viewer may read, in one round trip. */
async function readAgent(db: TenantDb, name: string) {
  const above = reachAgent(db, name, "read");
  const here = sql<boolean>`agent_id in (${above.rows.select("agents.id")})`;
  const from = above.db;
  const tools = from.selectFrom("agent_tools").selectAll().where(here);
  const skills = from.selectFrom("agent_skills").selectAll().where(here);
  const routines = from.selectFrom("agent_routines").selectAll().where(here).where(passesOwn(db, "readers"));
  const actions = from.selectFrom("agent_health_actions").selectAll().where(here).where("source", "=", "setup");
  // A column names a config by its id; what a JSON says of one may be its id or its key.
  const said = sql`select config_id from (${tools}) as tool union select parameters_config_id from (${tools}) as tool
    union select config_id from (${skills}) as skill union select config_id from (${routines}) as routine
    union select step ->> 'config' collate "C" from (${routines}) as routine, jsonb_array_elements(routine.steps) as step
    union select schema collate "C" from (${routines}) as routine, jsonb_array_elements_text(case
      when jsonb_typeof(preset_config -> 'structured_message_template_ids') = 'array'
      then preset_config -> 'structured_message_template_ids' else '[]' end) as schema
    union select verify_config ->> 'script_ref' collate "C" from (${actions}) as action`;
  const inOrg = sql<boolean>`configs.org_id in (${above.rows.select("agents.org_id")})`;
  const named = sql<boolean>`(configs.id in (${said}) or configs.lookup_key collate "C" in (${said}))`;
  const meant = from.selectFrom("configs").select("configs.id").where(inOrg).where(named).where(mayConfig(db, "read"));
  const configs = from
    .selectFrom("configs")
    .where(inOrg)
    .where(sql<boolean>`(configs.id in (${meant}) or configs.parent_id in (${meant}))`)
    .where(mayConfig(db, "read"));
  const size = sql<number>`sum(octet_length(version.content)) over ()`;
  return from.batch({
    agent: above.rows.selectAll(),
    tools,
    skills,
    routines,
    actions,
    schedules: from.selectFrom("agent_schedules").selectAll().where(here).where("status", "in", ["active", "paused"]),
    installations: from.selectFrom("agent_installations").select(["kind", "lookup_key", "config"]).where(here),
    computers: from.selectFrom("agent_computers").selectAll().where(here),
    variables: from.selectFrom("agent_env_vars").select(["key", "description"]).where(here),
    configs: shown(from, configs, ["encoding", "content"])
      .select([
        sql`version.encoding`.as("encoding"),
        sql<string | null>`case when ${size} <= ${MAX_BYTES} then version.content end`.as("content"),
      ] as never)
      .orderBy(sql`configs.id`)
      .limit(MAX_CONFIGS + 1),
  });
}

/** 422 `export_too_large` where the configs are more than an import would take. */
export async function exportAgent(db: TenantDb, name: string): Promise<AgentExport> {
  const carried = await readAgent(db, name);
  const rows = carried.configs as unknown as (Shown & { encoding: Content["encoding"]; content: string | null })[];
  if (rows.length > MAX_CONFIGS || rows.some(({ content }) => content === null)) {
    const most = `An export has at most ${MAX_CONFIGS} configs, and ${MAX_BYTES / 1e6} MB of content.`;
    throw unprocessable("export_too_large", most);
  }
  const configs = withKeys(rows as ConfigRow[]);
  const byName = new Map(
    configs.flatMap((row, i) => [rows[i]!.lookup_key, row.id].map((own) => [own, row.lookup_key] as const)),
  );
  const refs: Names = (name) => (name === null ? null : (byName.get(name) ?? null));
  return {
    template: toTemplate(carried, refs),
    configs: inOrder(
      configs.map((row) => toExportedConfig(row)),
      ({ lookup_key, parent, relative_path }) => [refs(parent) ?? lookup_key, parent && relative_path],
    ),
  };
}

/** Gives each config that stands alone a key, if it has none: one that its content makes. */
function withKeys(rows: ConfigRow[]): ConfigRow[] {
  const taken = new Set(rows.map(({ lookup_key }) => lookup_key));
  const keyOf = (row: ConfigRow) => {
    const key = `${row.kind.toLowerCase()}-${row.content_hash.replace("sha256:", "").slice(0, 12)}`;
    for (let n = 1; ; n++) {
      const free = n === 1 ? key : `${key}-${n}`;
      if (taken.has(free)) continue;
      taken.add(free);
      return free;
    }
  };
  return rows.map((row) => ({ ...row, lookup_key: row.lookup_key ?? (row.parent_id ? null : keyOf(row)) }));
}

/** Sorted by these words and, of equal ones, by all that is said: nothing else has a say in it. */
function inOrder<T>(items: T[], words: (item: T) => (string | null | undefined)[] = () => []): T[] {
  const keyed = items.map((item) => ({ item, key: [...words(item).map((word) => word ?? ""), canonical(item)] }));
  const compare = (a: string[], b: string[]) => {
    const at = a.findIndex((word, i) => word !== b[i]);
    return at < 0 ? 0 : a[at]! < b[at]! ? -1 : 1;
  };
  return keyed.sort((a, b) => compare(a.key, b.key)).map(({ item }) => item);
}

/** What isn't said isn't there: null, no list, no map. */
const sayings = <T extends object>(entry: T) =>
  Object.fromEntries(
    Object.entries(entry).filter(
      ([, value]) => value != null && !(typeof value === "object" && Object.keys(value).length === 0),
    ),
  );

function toTemplate(carried: Carried, ref: Names) {
  const agent = carried.agent[0]!;
  const byName = ({ name, lookup_key }: { name?: unknown; lookup_key?: unknown }) => [name, lookup_key] as string[];
  return sayings({
    kind: "AgentTemplate",
    name: agent.name,
    agent_key: agent.lookup_key,
    description: agent.description,
    identity: agent.identity,
    model: agent.default_model,
    originator: agent.originator,
    metadata: agent.metadata,
    tools: inOrder(
      (carried.tools as Row<"agent_tools">[]).map((row) => toTool(row, ref)),
      byName,
    ),
    skills: inOrder(
      (carried.skills as Row<"agent_skills">[]).map((row) => toSkill(row, ref)),
      (skill) => [skill.config_ref as string],
    ),
    routines: inOrder(
      (carried.routines as Row<"agent_routines">[]).map((row) => toRoutine(row, ref)),
      byName,
    ),
    schedules: inOrder((carried.schedules as Row<"agent_schedules">[]).map(toSchedule)),
    installations: inOrder(
      carried.installations.map(({ kind, lookup_key, config }) => sayings({ install_type: kind, lookup_key, config })),
      (one) => [one.install_type as string],
    ),
    computers: inOrder((carried.computers as Row<"agent_computers">[]).map(toComputer), byName),
    setup_actions: toSetupActions(carried, ref),
  });
}

const toTool = (row: Row<"agent_tools">, ref: Names) =>
  sayings({
    tool_type: row.kind,
    builtin_tool_key: row.builtin_tool_key,
    builtin_tool_config: row.builtin_tool_config,
    name: row.name,
    name_prefix: row.name_prefix,
    lookup_key: row.lookup_key,
    description: row.description,
    instruction: row.instruction,
    handler_type: row.kind === "custom" ? row.handler_type : null,
    config_ref: ref(row.config_id),
    parameters: row.parameters,
    parameters_config_ref: ref(row.parameters_config_id),
    effect: row.effect,
    approval: row.approval,
    async: row.async,
    status: row.status,
    metadata: row.metadata,
  });

const toSkill = (row: Row<"agent_skills">, ref: Names) =>
  sayings({ config_ref: ref(row.config_id), status: row.status, instruction: row.instruction, metadata: row.metadata });

/** Its access list stays behind: it names people of this place. */
function toRoutine(row: Row<"agent_routines">, ref: Names) {
  const { structured_message_template_ids: schemas, ...preset_config } = row.preset_config ?? {};
  return sayings({
    name: row.name,
    lookup_key: row.lookup_key,
    description: row.description,
    handler_type: row.handler_type,
    config_ref: ref(row.config_id),
    script: row.script,
    steps: row.steps.map(({ config, ...step }) =>
      sayings({ ...step, config_ref: typeof config === "string" ? ref(config) : null }),
    ),
    preset_name: row.preset_name,
    preset_config,
    structured_message_template_refs: ((schemas as string[] | null | undefined) ?? []).flatMap(
      (name) => ref(name) ?? [],
    ),
    event_type: row.event_type,
    event_config: row.event_config,
    schedule: row.schedule,
    trigger_context: row.trigger_context,
    message_policy: row.message_policy,
    status: row.status,
    metadata: row.metadata,
  });
}

const toSchedule = (row: Row<"agent_schedules">) =>
  sayings({
    schedule_type: row.schedule_type,
    cron_expression: row.cron_expression,
    scheduled_at: row.scheduled_at && new Date(row.scheduled_at).toISOString(),
    timezone: row.timezone,
    instructions: row.instructions,
    max_runs: row.max_runs,
    overlap: row.overlap,
    catchup: row.catchup,
    catchup_window_seconds: row.catchup_window_seconds,
    jitter_seconds: row.jitter_seconds,
    status: row.status,
    metadata: row.metadata,
  });

const toComputer = (row: Row<"agent_computers">) =>
  sayings({
    name: row.name,
    lookup_key: row.lookup_key,
    provider: row.provider,
    region: row.region,
    config: row.config,
    metadata: row.metadata,
  });

/** The actions to be done again elsewhere, and one for each variable that none of them asks for. */
function toSetupActions({ actions, variables }: Carried, ref: Names) {
  const rows = actions as Row<"agent_health_actions">[];
  const keys = new Map(rows.map(({ id, dedupe_key }) => [id as string, dedupe_key]));
  const asked = new Set(rows.filter(({ kind }) => kind === "env_var").map(({ params }) => params.key));
  const known = rows.map((row) => ({
    action_type: row.kind,
    title: row.title,
    description: row.description,
    params: row.params,
    verify_config: row.verify_config && withScript(row.verify_config, ref),
    dedupe_key: row.dedupe_key,
    required: row.required,
    sort_order: row.sort_order,
    depends_on: row.depends_on.flatMap((id) => keys.get(id) ?? []).sort(),
  }));
  const missing = variables
    .filter(({ key }) => !asked.has(key))
    .map(({ key, description }) => ({
      ...{ action_type: "env_var", title: key, description, params: { key }, verify_config: null },
      ...{ dedupe_key: `env_var:${key}`, required: true, sort_order: 0, depends_on: [] },
    }));
  const order = (action: { sort_order: number; dedupe_key: string | null; title: string }) => [
    String(action.sort_order + 2 ** 31).padStart(10, "0"),
    action.dedupe_key,
    action.title,
  ];
  return inOrder([...known, ...missing], order).map(sayings);
}

function withScript(verify: Record<string, unknown>, ref: Names) {
  const { script_ref, ...rest } = verify;
  return { ...rest, ...(typeof script_ref === "string" && { script_ref: ref(script_ref) }) };
}
