/**
 * Turns what a bundle or a template says into the rows that it stands for, and tells all that is wrong with it at once.
 * Pure: what only the database can know (a config of the org, a key that is taken) is left to lib/bundles/queries.ts.
 */
import * as v from "valibot";
import { type Bundle, type File, MAX_CONFIGS } from "../agents/bundle.ts";
import { lookupKey } from "../agents/schema.ts";
import { columnsOf, type Providing } from "../computers/providers.ts";
import { createComputerBody } from "../computers/schema.ts";
import { judge, type Parsed, parseTogether, type Read, spoken } from "../configs/content.ts";
import { validateAgainst } from "../configs/json-schema.ts";
import { configKinds } from "../configs/kinds.ts";
import type { Template } from "../configs/queries.ts";
import { pathShape } from "../configs/schema.ts";
import { healthKinds } from "../db/schema.ts";
import type { FieldError } from "../errors.ts";
import { isMap, list, map, text } from "../http/valid.ts";
import { type Id, newId } from "../ids.ts";
import { faultsOf, installationKinds } from "../installations/kinds.ts";
import { createInstallationBody } from "../installations/schema.ts";
import { bodyOfTemplate, configKindOf, createRoutineBody, referring } from "../routines/schema.ts";
import { nextOccurrence, parseCron, shortestInterval } from "../schedules/clock.ts";
import { createScheduleBody, usualPolicies } from "../schedules/schema.ts";
import { createSkillBody } from "../skills/schema.ts";
import { builtins } from "../tools/catalog.ts";
import { createToolBody } from "../tools/schema.ts";

type Said = Record<string, unknown>;
type Row = Record<string, unknown>;
/** A config that a name stands for, of one of these kinds, which the bundle doesn't bring. */
export type Reference = { at: string; name: string; kinds: string[] | null };
export type PlannedConfig = {
  id: Id<"config">;
  /** What the bundle calls it. */
  key: string;
  kind: string;
  lookup_key: string | null;
  row: Row;
  version: Row;
};
export type Plan = {
  /** The config that the template stands in; one that came as a part of a body stands in none. */
  template: Id<"config"> | null;
  /** What the template says of the agent itself: a body may say otherwise. */
  agent: { name?: string; description?: string; identity?: string; model?: string; originator?: string };
  agentKey: string | undefined;
  metadata: Said | undefined;
  configs: PlannedConfig[];
  /** Rows by their tables; a column that names a config holds the name until the database has looked. */
  rows: Record<(typeof tables)[number], Row[]>;
  references: Reference[];
  /** What the JSON of its routines names, by the names that the rows have. */
  named: { name: string; kind: string }[];
  /** What is to be done about each routine with a schedule, if that comes too often: the app's settings say whether it does. */
  often: Row[];
  /** The shortest time between two starts of one of its schedules. */
  interval: number | null;
  faults: FieldError[];
};
export const tables = [
  ...(["agent_tools", "agent_skills", "agent_routines", "agent_schedules"] as const),
  ...(["agent_installations", "agent_computers", "agent_health_actions"] as const),
];
const MAX_EACH = 100;
/**
 * What a bundle's texts come to together. To read and to judge them takes the time that the Worker has for everybody:
 * of all that may come in 8 MB, no more than a quarter of a second.
 */
export const MAX_WORDS = 50_000;
export const MAX_VALUES = 100_000;
export const MAX_SCRIPTS = 512 * 1024;
/** As many faults are told; nobody looks for more. */
export const MAX_FAULTS = 50;
/** Templates name actions over and over; one that is one more of the same is left out in the end. */
const MAX_ACTIONS = 1000;

const cut = (name: string) => name.slice(0, 100);
const maps = (value: unknown): Said[] => (Array.isArray(value) ? value.filter(isMap) : []);
const words = (value: unknown): string | undefined => (typeof value === "string" && value ? value : undefined);
const pick = (said: Said, ...names: string[]) =>
  Object.fromEntries(names.flatMap((name) => (said[name] == null ? [] : [[name, said[name]]])));

const setupAction = v.object({
  kind: v.picklist(healthKinds),
  title: v.pipe(text(200), v.nonEmpty()),
  description: v.optional(v.nullable(text(10_000)), null),
  params: v.optional(v.nullable(map)),
  verify_config: v.optional(v.nullable(map), null),
  // What begins so is an action of a check: lib/health/object.ts.
  dedupe_key: v.optional(
    v.nullable(v.pipe(text(255), v.nonEmpty(), v.regex(/^(?!health:)/, "must not begin with health:"))),
    null,
  ),
  required: v.optional(v.nullable(v.boolean())),
  sort_order: v.optional(v.nullable(v.pipe(v.number(), v.integer(), v.minValue(-1e9), v.maxValue(1e9)))),
  depends_on: v.optional(v.nullable(list(text(255), MAX_EACH))),
});
type Action = v.InferOutput<typeof setupAction>;

/** What a path ends with, without its folders and, of a file's name, without its extension. */
const stemOf = (path: string) => (path.split("/").at(-1) ?? "").replace(/\.[^.]*$/, "");
const folderOf = (path: string) => path.split("/").slice(0, -1).join("/");
const mimeTypes: [RegExp, string][] = [
  [/\.ya?ml$/i, "application/yaml"],
  [/\.json$/i, "application/json"],
  [/\.(md|markdown)$/i, "text/markdown"],
];
const mimeOf = ({ mime_type, content_type, relative_path }: File) =>
  mime_type ?? content_type ?? mimeTypes.find(([end]) => end.test(relative_path ?? ""))?.[1] ?? "text/plain";
const mimeShape = /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+(\s*;\s*[\w-]+=[\w.-]+)*$/;
const textOf = (file: File) => file.raw_content ?? file.content;

/** What the content of a file is read as, where it is YAML or JSON. */
function parse(file: File, read: Read): Parsed | null {
  const mime = mimeOf(file);
  return file.data_encoding === "base64" || !/yaml|json/i.test(mime) ? null : read(mime, textOf(file) ?? "");
}

function kindOf(file: File, said: Said | null): string {
  if (file.kind) return file.kind;
  if (typeof said?.kind === "string" && configKinds[said.kind]) return said.kind;
  if (/\.(aascript|agentscript)$/i.test(file.relative_path ?? "")) return "Script";
  return /^image\//.test(mimeOf(file)) ? "Image" : file.relative_path && !said ? "File" : "Config";
}

/** A file of the bundle before it is a config: `under` is the index of the one that it is a child of. */
type Brought = {
  file: File;
  at: string;
  parsed: Parsed | null;
  /** What it says, where that is a map. */
  said: Said | null;
  kind: string;
  key: string;
  under: number | null;
};

/** All that a bundle brings, parents before their children. */
function filesOf({ configs, skills }: Bundle, read: Read): Brought[] {
  const brought: Brought[] = [];
  const add = (file: File, at: string, kind: string | null, key: string | null, under: number | null) => {
    const parsed = kind ? null : parse(file, read);
    const said = parsed && "value" in parsed && isMap(parsed.value) ? parsed.value : null;
    const own = words(file.lookup_key) ?? words(said?.lookup_key) ?? words(said?.id);
    const path = words(file.relative_path);
    const made = { kind: kind ?? kindOf(file, said), key: key ?? own ?? (path ? stemOf(path) : "") };
    return brought.push({ file, at, parsed, said, under, ...made }) - 1;
  };
  const rows = (configs ?? []).map((file, i) => ({ file, at: `configs.${i}` }));
  const indexes = new Map<string, number>();
  for (const { file, at } of rows.filter(({ file }) => !file.parent)) {
    const index = add(file, at, null, null, null);
    if (file.id) indexes.set(file.id, index);
  }
  for (const { file, at } of rows.filter(({ file }) => file.parent)) {
    const parent = indexes.get(file.parent!) ?? -1;
    add(file, at, file.kind ?? null, `${brought[parent]?.key ?? ""}:${file.relative_path ?? ""}`, parent);
  }
  for (const [i, skill] of (skills ?? []).entries()) {
    const path = words(skill.relative_path) ?? "";
    const folder = folderOf(path);
    const key = words(skill.lookup_key) ?? (folder ? folder.split("/").at(-1)! : stemOf(path));
    const { files, ...file } = skill;
    const index = add(file, `skills.${i}`, "Skill", key, null);
    for (const [n, one] of (files ?? []).entries()) {
      const inside = folder && one.relative_path?.startsWith(`${folder}/`);
      const relative_path = inside ? one.relative_path!.slice(folder.length + 1) : one.relative_path;
      const child = { ...one, relative_path };
      add(child, `skills.${i}.files.${n}`, kindOf(child, null), `${key}:${relative_path ?? ""}`, index);
    }
  }
  return brought;
}

const keyShape = lookupKey("config");

type Fault = (at: string, message: string) => void;

async function planConfigs(bundle: Bundle, suffix: string, read: Read, faults: FieldError[], fault: Fault) {
  const brought = filesOf(bundle, read);
  if (brought.length > MAX_CONFIGS) {
    fault("configs", `must be at most ${MAX_CONFIGS}, with skills and their files`);
    return { configs: [], brought: [] };
  }
  const seen = new Set<string>();
  const configs: PlannedConfig[] = [];
  let scripts = 0;
  for (const { file, at, kind, key, under, parsed } of brought) {
    if (faults.length >= MAX_FAULTS) return { configs: [], brought: [] };
    const content = textOf(file);
    if (kind === "Script") scripts += content?.length ?? 0;
    if (scripts > MAX_SCRIPTS) {
      fault(at, `and the scripts before it hold more than ${MAX_SCRIPTS / 1024} KB together`);
      return { configs: [], brought: [] };
    }
    const id = newId("config");
    const given = under === null ? key : (words(file.lookup_key) ?? null);
    const lookup_key = given === null ? null : `${given}${suffix}`;
    if (content === undefined) fault(at, "has no content");
    if (!mimeShape.test(mimeOf(file))) fault(at, "has a content_type that is no MIME type");
    if (lookup_key !== null && !v.is(keyShape, lookup_key)) fault(at, "has no key that can stand in an address");
    for (const path of [file.virtual_path, file.relative_path]) {
      if (path != null && !pathShape.test(path)) fault(at, "has a path that can't be seen, or is longer than 500");
    }
    if (seen.has(key)) fault(at, `has a key that another one has, too: ${cut(key)}`);
    seen.add(key);
    if (under !== null && (!configs[under] || !file.relative_path)) {
      fault(at, "must have a parent in the bundle, and a relative_path");
    }
    const mime_type = mimeOf(file);
    const encoding = file.data_encoding ?? "raw";
    const readOnce = parsed && !configKinds[kind]?.document ? () => parsed : read;
    const verdict = (await judge([kind], { mime_type, encoding, text: content ?? "" }, readOnce)).get(kind)!;
    for (const one of verdict.errors) if (content !== undefined) fault(at, spoken(one));
    const same = { content_hash: verdict.hash ?? "", mime_type };
    const row = {
      ...{ id, kind, lookup_key, ...same, relative_path: file.relative_path ?? null },
      virtual_path: file.virtual_path ? `${file.virtual_path}${suffix}` : null,
      parent_id: under === null ? null : (configs[under]?.id ?? null),
    };
    const version = {
      ...{ id: newId("config_version"), config_id: id, version_number: 1, ...same, encoding, content: content ?? "" },
    };
    configs.push({ id, key, kind, lookup_key, row, version });
  }
  return { configs, brought };
}

/** The plan of a bundle. `env` says which computers there are. */
export async function planOf(bundle: Bundle, env: Providing = {}): Promise<Plan> {
  const suffix = bundle.lookup_key_suffix ?? "";
  const faults: FieldError[] = [];
  const fault = (at: string, message: string) => void faults.push({ field: `template_bundle.${at}`, message });
  const read = parseTogether(MAX_WORDS, MAX_VALUES);
  const { configs, brought } = await planConfigs(bundle, suffix, read, faults, fault);
  if (faults.length && !configs.length) return { ...emptyPlan(), faults };
  const file = bundle.template as File;
  const isFile = textOf(file) !== undefined;
  const parsed = isFile
    ? read(mimeOf({ ...file, relative_path: words(file.relative_path) }), textOf(file)!)
    : { value: file };
  if ("fault" in parsed) fault("template", parsed.fault);
  const said = "value" in parsed && isMap(parsed.value) ? parsed.value : {};
  const paths = new Map(
    brought.flatMap(({ file, said, key, under }, i) => {
      const config = configs[i];
      if (under !== null || !said || !config) return [];
      return [file.relative_path, key].map((path) => [path, { id: config.id, said }] as const);
    }),
  );
  const folder = folderOf(words(file.relative_path) ?? "");
  const templates = (path: string) => paths.get(path) ?? paths.get(folder ? `${folder}/${path}` : path);
  const plan = planTemplate(said, {
    ...{ suffix, configs, templates, at: "template_bundle.template", actions: bundle.setup_actions ?? [], env },
  });
  return { ...plan, faults: [...faults, ...plan.faults] };
}

const emptyPlan = (): Plan => ({
  template: null,
  ...{
    agent: {},
    agentKey: undefined,
    metadata: undefined,
    configs: [],
    references: [],
    named: [],
    often: [],
    interval: null,
    faults: [],
  },
  rows: Object.fromEntries(tables.map((table) => [table, []])) as unknown as Plan["rows"],
});

type Around = {
  suffix: string;
  configs: PlannedConfig[];
  /** The template that a path names. */
  templates: (path: string) => Template | undefined;
  /** The field that faults are told of. */
  at: string;
  /** Beside those of the template. */
  actions: Said[];
  env: Providing;
};

/** The plan of what an AgentTemplate says. */
export function planTemplate(template: Said, { suffix, configs, templates, at, actions, env }: Around): Plan {
  const plan = { ...emptyPlan(), configs };
  const { rows, references } = plan;
  const tell = (pointer: string, message: string) => {
    if (plan.faults.length > MAX_FAULTS) return;
    plan.faults.push({ field: at, message: pointer ? `${pointer}: ${message}` : message });
  };
  const { kind: _, ...kindless } = template;
  for (const one of validateAgainst(configKinds.AgentTemplate!.schema!, { ...kindless, kind: "AgentTemplate" })) {
    tell(one.pointer, one.message);
  }
  if (plan.faults.length) return plan;

  const ours = new Map(configs.flatMap((config) => [[config.key, config] as const]));
  /** The name by which the database finds the config that a template names. */
  const refer = (name: unknown, pointer: string, kinds: string[] | null): string | null => {
    const ref = words(name);
    if (ref === undefined) return null;
    const own = ours.get(ref);
    if (!own) references.push({ at: pointer, name: ref, kinds });
    else if (kinds && !kinds.includes(own.kind)) tell(pointer, `names a config of another kind: ${cut(ref)}`);
    return own?.id ?? ref;
  };
  const keyed = (key: unknown) => (typeof key === "string" && key ? { lookup_key: `${key}${suffix}` } : {});
  /** What a body of the API would say, by the rules for it; what is wrong with it is told where the template says it. */
  const read = <S extends v.GenericSchema>(schema: S, body: Said, pointer: string): v.InferOutput<S> | null => {
    const result = v.safeParse(schema, body, { abortPipeEarly: true });
    for (const issue of result.issues ?? []) {
      const path = (issue.path ?? []).map(({ key }) => `/${String(key)}`).join("");
      const wanted = issue.received === "undefined" ? "is required" : issue.message;
      tell(`${pointer}${path}`.slice(0, 100), wanted.startsWith("Invalid ") ? "is not of the right form" : wanted);
    }
    return result.success ? result.output : null;
  };
  const more: Said[] = [...actions];
  /** An entry with what stands in the template that it names, and which that is. */
  const whole = (entry: Said, pointer: string) => {
    const path = words(entry.template_path);
    if (path === undefined) return { said: entry, template_config_id: null };
    const named = templates(path);
    if (!named) tell(pointer, `names a template that isn't there: ${cut(path)}`);
    const { lookup_key: _, setup_actions, ...said } = named?.said ?? {};
    more.push(...maps(setup_actions));
    return { said: { ...said, ...entry } as Said, template_config_id: named?.id ?? null };
  };

  for (const [i, entry] of maps(template.tools).entries()) {
    const pointer = `/tools/${i}`;
    const { said: tool, template_config_id } = whole(entry, pointer);
    const kind = tool.tool_type ?? (tool.kind === "AgentToolTemplate" ? undefined : tool.kind);
    const body = read(
      createToolBody,
      {
        ...pick(tool, "builtin_tool_key", "builtin_tool_config", "name", "name_prefix", "description", "instruction"),
        ...pick(tool, "parameters", "effect", "approval", "async", "lookup_key", "metadata", "status"),
        ...(tool.handler_type === "builtin" ? {} : pick(tool, "handler_type")),
        kind: kind ?? (tool.builtin_tool_key ? "builtin" : "custom"),
        ...(words(tool.config_ref) && { config: tool.config_ref }),
        ...(words(tool.parameters_config_ref) && { parameters_config: tool.parameters_config_ref }),
      },
      pointer,
    );
    if (!body) continue;
    const id = newId("agent_tool");
    const builtin = builtins.get(body.builtin_tool_key ?? "");
    const waits = builtin && !builtin.available;
    const isActive = (body.status ?? "active") === "active" && !waits;
    const configKind = { http: "HttpTool", script: "Script", workflow_graph: "WorkflowGraph", builtin: "" };
    const of = body.kind === "mcp" ? "McpServer" : configKind[body.handler_type ?? "builtin"];
    rows.agent_tools.push({
      ...{ id, kind: body.kind, status: isActive ? "active" : "disabled", name: body.name ?? builtin?.key ?? null },
      ...{ name_prefix: body.name_prefix ?? null, description: body.description ?? null },
      ...{ instruction: body.instruction ?? null, handler_type: builtin ? "builtin" : (body.handler_type ?? null) },
      ...{ builtin_tool_key: body.builtin_tool_key ?? null, builtin_tool_config: body.builtin_tool_config ?? null },
      parameters: body.parameters ?? null,
      parameters_config_id: refer(body.parameters_config, `${pointer}/parameters_config_ref`, null),
      config_id: refer(body.config, `${pointer}/config_ref`, [of]),
      ...{ effect: body.effect ?? null, approval: body.approval ?? "none", async: body.async ?? false },
      ...{ lookup_key: body.lookup_key ?? null, template_config_id, metadata: body.metadata ?? {} },
    });
    if (waits) rows.agent_health_actions.push(waiting(builtin, id));
  }

  for (const [i, skill] of maps(template.skills).entries()) {
    const pointer = `/skills/${i}`;
    const said = { agent: "-", config: skill.config_ref, ...pick(skill, "instruction", "metadata") };
    const body = read(createSkillBody, said, pointer);
    if (!body) continue;
    rows.agent_skills.push({
      id: newId("agent_skill"),
      config_id: refer(body.config, `${pointer}/config_ref`, ["Skill"]),
      instruction: body.instruction ?? null,
      status: skill.status ?? "active",
      metadata: body.metadata ?? {},
    });
  }

  for (const [i, entry] of maps(template.routines).entries()) {
    const pointer = `/routines/${i}`;
    const { said: routine, template_config_id } = whole(entry, pointer);
    const { status } = routine;
    const said = read(createRoutineBody, { ...bodyOfTemplate(routine), ...pick(routine, "lookup_key") }, pointer);
    if (!said) continue;
    const body = referring(said, ({ name, kind, pointer: at }) => {
      const known = refer(name, `${pointer}${at}`, [kind]) ?? name;
      plan.named.push({ name: known, kind });
      return known;
    });
    const configKind = configKindOf(body.handler_type);
    const interval_s = body.schedule ? shortestInterval(parseCron(body.schedule)!) : null;
    const id = newId("agent_routine");
    if (interval_s !== null) plan.often.push(tooOften(id, body.name, interval_s));
    rows.agent_routines.push({
      ...{ id, name: body.name, description: body.description ?? null, interval_s },
      ...{ lookup_key: body.lookup_key ?? null, status: status ?? "draft", handler_type: body.handler_type },
      ...{ trigger_context: body.trigger_context ?? "event", event_type: body.event_type ?? null },
      ...{ event_config: body.event_config ?? null, schedule: body.schedule ?? null, script: body.script ?? null },
      config_id: refer(body.config, `${pointer}/config_ref`, configKind && [configKind]),
      ...{ preset_name: body.preset_name ?? null, preset_config: body.preset_config ?? null, steps: body.steps ?? [] },
      ...{ message_policy: body.message_policy ?? null, template_config_id, metadata: body.metadata ?? {} },
    });
  }

  for (const [i, schedule] of maps(template.schedules).entries()) {
    const pointer = `/schedules/${i}`;
    const { status, ...said } = schedule;
    const body = read(createScheduleBody, said, pointer);
    if (status != null && status !== "active" && status !== "paused") tell(pointer, "is neither active nor paused");
    if (!body) continue;
    const timezone = body.timezone ?? "Etc/UTC";
    // What was to come once, and has gone by since it was exported, has expired.
    const isPast = body.scheduled_at != null && Date.parse(body.scheduled_at) <= Date.now();
    const next = body.cron_expression
      ? nextOccurrence(parseCron(body.cron_expression)!, timezone, Date.now())
      : Date.parse(body.scheduled_at!);
    const isActive = status !== "paused" && !isPast;
    if (body.cron_expression) {
      const interval_s = shortestInterval(parseCron(body.cron_expression)!);
      plan.interval = Math.min(plan.interval ?? interval_s, interval_s);
    }
    if (next === null) tell(pointer, "does not come any more");
    rows.agent_schedules.push({
      ...{ id: newId("agent_schedule"), schedule_type: body.schedule_type, timezone, instructions: body.instructions },
      cron_expression: body.cron_expression ?? null,
      scheduled_at: body.scheduled_at ?? null,
      ...{ max_runs: body.max_runs ?? null, metadata: body.metadata ?? {} },
      ...{ ...usualPolicies, ...pick(body, ...Object.keys(usualPolicies)) },
      status: isActive ? "active" : isPast ? "expired" : "paused",
      next_run_at: isActive && next !== null ? new Date(next).toISOString() : null,
    });
  }

  for (const [i, installation] of maps(template.installations).entries()) {
    const pointer = `/installations/${i}`;
    const { install_type, kind, config, lookup_key } = installation;
    const said = { kind: install_type ?? kind, ...(config != null && { config }), ...keyed(lookup_key) };
    const body = read(createInstallationBody, said, pointer);
    if (!body) continue;
    for (const { field, message } of faultsOf(installationKinds[body.kind]!.config, body.config ?? {}, "")) {
      tell(`${pointer}/config${field.replaceAll(".", "/")}`, message);
    }
    rows.agent_installations.push({
      ...{ id: newId("agent_installation"), kind: body.kind, lookup_key: body.lookup_key ?? null },
      config: body.config ?? {},
    });
  }

  for (const [i, computer] of maps(template.computers).entries()) {
    const said = {
      ...pick(computer, "name", "provider", "region", "config", "metadata"),
      ...keyed(computer.lookup_key),
    };
    const body = read(createComputerBody, said, `/computers/${i}`);
    if (!body) continue;
    rows.agent_computers.push({ id: newId("agent_computer"), ...columnsOf(env, body) });
  }

  const said = [...maps(template.setup_actions), ...more];
  if (said.length > MAX_ACTIONS) tell("/setup_actions", `and those of the templates are more than ${MAX_ACTIONS}`);
  const actionsRead = said.slice(0, MAX_ACTIONS).flatMap((action, i) => {
    const { action_type, kind, ...rest } = action;
    const own = read(setupAction, { ...rest, kind: action_type ?? kind }, `/setup_actions/${i}`);
    return own ? [{ action: own, pointer: `/setup_actions/${i}` }] : [];
  });
  const scripted = actionsRead.map(({ action, pointer }) => {
    const script = refer(action.verify_config?.script_ref, `${pointer}/verify_config/script_ref`, ["Script"]);
    return {
      action: script ? { ...action, verify_config: { ...action.verify_config, script_ref: script } } : action,
      pointer,
    };
  });
  rows.agent_health_actions.push(...inTurn(scripted, tell));

  for (const table of tables) {
    if (rows[table].length > MAX_EACH) tell("", `makes more than ${MAX_EACH} of these: ${table.replace("agent_", "")}`);
  }
  const model = words(template.model);
  const key = words(template.agent_key);
  return {
    ...plan,
    agent: { ...pick(template, "name", "description", "identity", "originator"), ...(model && { model }) },
    agentKey: key && `${key}${suffix}`,
    metadata: isMap(template.metadata) ? template.metadata : undefined,
  };
}

/** What says that a builtin waits for what it needs. */
const waiting = (builtin: { key: string; label: string }, tool: Id<"agent_tool">): Row => ({
  ...{ id: newId("agent_health_action"), source: "health", kind: "custom", required: false, sort_order: 0 },
  title: `${builtin.label} is not available yet`,
  description: "Nothing stands behind this builtin here yet. Its tool stays disabled until there is.",
  params: { id: "not_available", builtin_tool_key: builtin.key, tool },
  ...{ verify_config: null, depends_on: [], dedupe_key: `agent_tool:${tool}` },
});

/** What says that a routine is a draft because of its schedule. */
const tooOften = (routine: Id<"agent_routine">, name: string, interval_seconds: number): Row => ({
  ...{ id: newId("agent_health_action"), source: "health", kind: "custom", required: false, sort_order: 0 },
  title: `${cut(name)} comes too often`,
  description:
    "Its schedule comes more often than the app lets it: see min_routine_interval_seconds. Give it another, and activate it.",
  params: { id: "too_often", routine, interval_seconds },
  ...{ verify_config: null, depends_on: [], dedupe_key: `agent_routine:${routine}` },
});

/** Rows for the actions, each after those that it depends on; one dedupe_key is one action. */
function inTurn(said: { action: Action; pointer: string }[], tell: (pointer: string, message: string) => void): Row[] {
  const ids = new Map<string, string>();
  const known = new Set(said.flatMap(({ action }) => action.dedupe_key ?? []));
  const first = new Map<string, Action>();
  let waits = said.filter(({ action }) => {
    const { dedupe_key } = action;
    if (dedupe_key == null) return true;
    if (first.has(dedupe_key)) return false;
    first.set(dedupe_key, action);
    return true;
  });
  for (const { action, pointer } of waits) {
    for (const key of action.depends_on ?? []) {
      if (!known.has(key)) tell(pointer, `depends on an action that isn't there: ${cut(key)}`);
    }
  }
  const rows: Row[] = [];
  while (waits.length) {
    const can = ({ action }: { action: Action }) =>
      (action.depends_on ?? []).every((key) => ids.has(key) || !known.has(key));
    const ready = waits.filter(can);
    if (!ready.length) {
      for (const { pointer } of waits) tell(pointer, "depends on itself, by way of others");
      break;
    }
    for (const { action } of ready) {
      const id = newId("agent_health_action");
      if (action.dedupe_key != null) ids.set(action.dedupe_key, id);
      rows.push({
        ...{ id, source: "setup", kind: action.kind, title: action.title, description: action.description },
        ...{ params: action.params ?? {}, required: action.required ?? true, sort_order: action.sort_order ?? 0 },
        depends_on: [...new Set(action.depends_on ?? [])].flatMap((key) => ids.get(key) ?? []),
        ...{ verify_config: action.verify_config, dedupe_key: action.dedupe_key },
      });
    }
    const done = new Set(ready);
    waits = waits.filter((one) => !done.has(one));
  }
  return rows;
}
