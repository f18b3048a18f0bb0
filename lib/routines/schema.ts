import * as v from "valibot";
import { lookupKey } from "../agents/schema.ts";
import { acl, aclBody } from "../auth/acl.ts";
import { handlerTypes, type Row, routineStatuses, triggerContexts } from "../db/schema.ts";
import { eventConfig, eventName } from "../events/trigger.ts";
import { idOf, isMap, list, map, metadata, nullable, rule, stamp, text } from "../http/valid.ts";
import { positive } from "../paging.ts";
import { cronText } from "../schedules/schema.ts";
import { presetNamed, presetNames } from "./presets.ts";

const sessionModes = ["stateless", "session"] as const;
const sessionScopes = ["per_user", "per_key", "per_org", "global"] as const;

const presetName = v.picklist(presetNames);
const presetConfig = v.strictObject({
  instructions: v.optional(v.nullable(text(10_000))),
  llm: v.optional(v.nullable(v.strictObject({ model: v.optional(v.nullable(text(200))) }))),
  session_mode: v.optional(v.nullable(v.picklist(sessionModes))),
  session_scope: v.optional(v.nullable(v.picklist(sessionScopes))),
  /** Of AgentMessageSchema configs, by id or lookup_key. */
  structured_message_template_ids: v.optional(v.nullable(list(v.pipe(text(255), v.nonEmpty()), 50))),
});
type PresetConfig = v.InferOutput<typeof presetConfig>;

const messagePolicy = v.pipe(
  v.strictObject({
    visibility: v.optional(v.nullable(v.picklist(["default", "private"]))),
    recipients: v.optional(v.nullable(list(v.pipe(text(100), v.nonEmpty()), 100))),
  }),
  v.check(
    ({ visibility, recipients }) => visibility !== "private" || Boolean(recipients?.length),
    "that is private must name its recipients",
  ),
);

const word = v.pipe(text(100), v.nonEmpty());
const step = v.strictObject({
  name: v.optional(v.nullable(word)),
  handler_type: v.picklist(["preset", "script", "workflow_graph"]),
  preset_name: v.optional(v.nullable(presetName)),
  preset_config: v.optional(v.nullable(presetConfig)),
  script: v.optional(v.nullable(text(16_384))),
  config: v.optional(v.nullable(text(255))),
  /** Names of the step's own, each from `trigger` or from what an earlier step put out. */
  inputs: v.optional(v.nullable(map)),
  output_key: v.optional(v.nullable(word)),
  on_error: v.optional(v.nullable(v.picklist(["halt", "continue", "retry"]))),
});
type Step = v.InferOutput<typeof step>;
/** The kind of the config that a handler runs; of one that runs none, null. */
export const configKindOf = (handler_type: unknown) =>
  handler_type === "script" ? "Script" : handler_type === "workflow_graph" ? "WorkflowGraph" : null;
const TRIGGER = "trigger";
const putsOut = ({ output_key, name }: Step) => output_key ?? name;

/** A step has one thing to do, of its handler's type; a script may stand in it or in a config. */
function doesOneThing({ handler_type, preset_name, script, config }: Step): boolean {
  const has = [preset_name && "preset", script && "script", config && "config"].filter(Boolean);
  const of = { preset: ["preset"], script: ["script", "config"], workflow_graph: ["config"] }[handler_type];
  return has.length === 1 && of.includes(has[0] as string);
}
function putOutOwnNames(steps: Step[]): boolean {
  const names = steps.map(putsOut).filter((name) => name != null);
  return new Set(names).size === names.length && !names.includes(TRIGGER);
}
const takeWhatIsThere = (steps: Step[]) =>
  steps.every(({ inputs }, i) => {
    const there = [TRIGGER, ...steps.slice(0, i).map(putsOut)];
    return Object.values(inputs ?? {}).every((from) => typeof from === "string" && there.includes(from));
  });
const steps = v.pipe(
  list(step, 20),
  v.check(
    (all) => all.every(doesOneThing),
    "must each have one of preset_name, script and config, as its handler_type says",
  ),
  v.check(putOutOwnNames, "must each have an output_key (else a name) of its own, and not trigger"),
  v.check(
    takeWhatIsThere,
    "have inputs that are neither trigger nor the output_key (else the name) of an earlier step",
  ),
  v.check(
    (all) => all.every(({ preset_name }) => presetNamed(preset_name)?.chainable ?? true),
    "have a preset that can't be chained",
  ),
);

const fields = {
  description: v.optional(v.nullable(text(10_000))),
  lookup_key: v.optional(v.nullable(lookupKey("agent_routine"))),
  trigger_context: v.optional(v.nullable(v.picklist(triggerContexts))),
  event_type: v.optional(v.nullable(eventName)),
  event_config: v.optional(v.nullable(eventConfig)),
  /** Five cron fields, on the clock of event_config["schedule.cron"].timezone. */
  schedule: v.optional(v.nullable(cronText)),
  /** A config's id or lookup_key. */
  config: v.optional(v.nullable(text(255))),
  script: v.optional(v.nullable(v.pipe(text(16_384), v.nonEmpty()))),
  preset_name: v.optional(v.nullable(presetName)),
  preset_config: v.optional(v.nullable(presetConfig)),
  steps: v.optional(v.nullable(steps)),
  message_policy: v.optional(v.nullable(messagePolicy)),
  metadata: v.optional(v.nullable(metadata)),
  acl: v.optional(v.nullable(aclBody)),
  /** Null and an empty text clear it. */
  user: v.optional(v.nullable(v.union([v.literal(""), idOf("user")], "there is no such user"))),
};

const sessionFits = ({
  preset_name,
  preset_config,
}: {
  preset_name?: string | null;
  preset_config?: PresetConfig | null;
}) => preset_config?.session_mode !== "session" || (presetNamed(preset_name)?.sessionable ?? true);
const NO_SESSION = "has a session_mode that the preset doesn't have";

export const createRoutineBody = v.pipe(
  v.strictObject({
    ...fields,
    name: v.pipe(text(200), v.nonEmpty()),
    handler_type: v.picklist(handlerTypes),
    status: v.optional(v.nullable(v.picklist(["draft", "active"]))),
  }),
  rule(
    "config",
    ({ handler_type, config }) => handler_type !== "workflow_graph" || Boolean(config),
    "is what a workflow_graph needs",
  ),
  rule(
    "config",
    ({ handler_type, config }) => !config || configKindOf(handler_type) !== null,
    "is for handler_type script or workflow_graph alone",
  ),
  rule(
    "script",
    ({ handler_type, script, config }) => handler_type !== "script" || Boolean(script || config),
    "is what handler_type script needs, or a config",
  ),
  rule(
    "preset_name",
    ({ handler_type, preset_name }) => handler_type !== "preset" || Boolean(preset_name),
    "is what handler_type preset needs",
  ),
  rule(
    "steps",
    ({ handler_type, steps }) => (handler_type === "chain") === Boolean(steps?.length),
    "are what a chain needs, and nothing else has",
  ),
  rule("preset_config", (body) => sessionFits(body), NO_SESSION),
);
export type CreateRoutine = v.InferOutput<typeof createRoutineBody>;

export const updateRoutineBody = v.pipe(
  v.strictObject({
    ...fields,
    name: v.optional(v.pipe(text(200), v.nonEmpty())),
    handler_type: v.optional(v.picklist(handlerTypes)),
    /** An AgentRoutineTemplate config: the routine becomes as it says, but for what is sent beside it. */
    template: v.optional(v.nullable(v.pipe(text(255), v.nonEmpty()))),
  }),
  rule("preset_config", (body) => sessionFits(body), NO_SESSION),
);
export type UpdateRoutine = v.InferOutput<typeof updateRoutineBody>;

/** A config that a routine's JSON names, by the JSON pointer of where it does, and the kind that it must be of. */
export type Named = { name: string; kind: string; pointer: string };
type Naming = Pick<UpdateRoutine, "steps" | "preset_config">;

/** The body with each config that its steps and the forms of its messages name as `refer` calls it. */
export function referring<B extends Naming>(body: B, refer: (named: Named) => string): B {
  const inForms = ({ structured_message_template_ids: forms, ...config }: PresetConfig, pointer: string) => ({
    ...config,
    ...(forms && {
      structured_message_template_ids: forms.map((name, i) =>
        refer({ name, kind: "AgentMessageSchema", pointer: `${pointer}/structured_message_template_ids/${i}` }),
      ),
    }),
  });
  const inStep = (step: Step, pointer: string): Step => ({
    ...step,
    ...(step.config && {
      config: refer({ name: step.config, kind: configKindOf(step.handler_type)!, pointer: `${pointer}/config` }),
    }),
    ...(step.preset_config && { preset_config: inForms(step.preset_config, `${pointer}/preset_config`) }),
  });
  return {
    ...body,
    ...(body.preset_config && { preset_config: inForms(body.preset_config, "/preset_config") }),
    ...(body.steps && { steps: body.steps.map((step, i) => inStep(step, `/steps/${i}`)) }),
  };
}

const present = (said: Record<string, unknown>, ...names: string[]) =>
  Object.fromEntries(names.flatMap((name) => (said[name] == null ? [] : [[name, said[name]]])));

/** What a body would say of the routine that a template describes: the public formats have words of their own. */
export function bodyOfTemplate(said: Record<string, unknown>): Record<string, unknown> {
  const handler_type = said.handler_type ?? (said.preset_name ? "preset" : undefined);
  const { structured_message_template_refs: refs, preset_instructions: instructions, steps } = said;
  const preset_config = {
    ...(isMap(said.preset_config) && said.preset_config),
    ...(instructions ? { instructions } : {}),
    ...(Array.isArray(refs) && refs.length ? { structured_message_template_ids: refs } : {}),
  };
  return {
    ...present(said, "name", "description", "script", "preset_name", "event_type", "event_config", "schedule"),
    ...present(said, "trigger_context", "message_policy", "metadata"),
    handler_type,
    // What runs no config may say one all the same.
    ...(said.config_ref && configKindOf(handler_type) ? { config: said.config_ref } : {}),
    ...(Object.keys(preset_config).length && { preset_config }),
    ...(Array.isArray(steps) && steps.length
      ? {
          steps: steps
            .filter(isMap)
            .map(({ config_ref, ...step }) => ({ ...step, ...(config_ref ? { config: config_ref } : {}) })),
        }
      : {}),
  };
}

/** An unpaged list of the contract, bounded: the newest, and from a cursor on the next. */
export const listRoutinesQuery = v.object({
  agent: v.optional(list(text(255), 100)),
  event_type: v.optional(text(100)),
  limit: v.optional(
    v.pipe(
      positive,
      v.transform((limit) => Math.min(limit, 1000)),
    ),
    "1000",
  ),
  after_cursor: v.optional(text(500)),
});
export type ListRoutines = v.InferOutput<typeof listRoutinesQuery>;

export type RoutineRow = Row<"agent_routines">;

export const routine = v.strictObject({
  id: v.string(),
  app: v.string(),
  agent: v.string(),
  user: nullable,
  name: v.string(),
  description: nullable,
  lookup_key: nullable,
  status: v.picklist(routineStatuses),
  trigger_context: v.picklist(triggerContexts),
  event_type: nullable,
  event_config: v.nullable(v.record(v.string(), v.unknown())),
  schedule: nullable,
  handler_type: v.picklist(handlerTypes),
  config: nullable,
  script: nullable,
  preset_name: nullable,
  preset_config: v.nullable(
    v.strictObject({
      instructions: nullable,
      llm: v.nullable(v.strictObject({ model: nullable })),
      session_mode: v.picklist(sessionModes),
      session_scope: v.picklist(sessionScopes),
      structured_message_template_ids: v.nullable(v.array(v.string())),
    }),
  ),
  steps: v.array(v.record(v.string(), v.unknown())),
  message_policy: v.nullable(
    v.strictObject({ visibility: v.picklist(["default", "private"]), recipients: v.array(v.string()) }),
  ),
  metadata: v.record(v.string(), v.unknown()),
  acl: v.nullable(acl),
  last_applied_template_config: nullable,
  created_at: stamp,
  updated_at: stamp,
});
export const routineList = v.strictObject({
  data: v.array(routine),
  after_cursor: nullable,
  has_more: v.boolean(),
});

function toPresetConfig(config: PresetConfig) {
  return {
    instructions: config.instructions ?? null,
    llm: config.llm ? { model: config.llm.model ?? null } : null,
    session_mode: config.session_mode ?? "stateless",
    session_scope: config.session_scope ?? "per_user",
    structured_message_template_ids: config.structured_message_template_ids ?? null,
  };
}
const toMessagePolicy = ({ visibility, recipients }: v.InferOutput<typeof messagePolicy>) => ({
  visibility: visibility ?? "default",
  recipients: recipients ?? [],
});

export const toRoutine = (row: RoutineRow): v.InferOutput<typeof routine> => ({
  id: row.id,
  app: row.app_id,
  agent: row.agent_id,
  user: row.user_id,
  name: row.name,
  description: row.description,
  lookup_key: row.lookup_key,
  status: row.status,
  trigger_context: row.trigger_context,
  event_type: row.event_type,
  event_config: row.event_config,
  schedule: row.schedule,
  handler_type: row.handler_type,
  config: row.config_id,
  script: row.script,
  preset_name: row.preset_name,
  preset_config: row.preset_config && toPresetConfig(row.preset_config),
  steps: row.steps,
  message_policy: row.message_policy && toMessagePolicy(row.message_policy),
  metadata: row.metadata,
  acl: row.acl,
  last_applied_template_config: row.template_config_id,
  created_at: row.created_at,
  updated_at: row.updated_at,
});
