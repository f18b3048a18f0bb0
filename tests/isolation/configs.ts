/** The configs that bodies name: each of the kind that its name takes, so that a refusal is for whose it is alone. */
import { must, unique } from "../harness/index.ts";
import { bodyOf, type Operation } from "./operations.ts";
import type { Place } from "./places.ts";

const structured = (said: object) => ({ mime_type: "application/json", raw_content: JSON.stringify(said) });
const skill = "---\nname: a\ndescription: b\n---\n";
const contents: Record<string, object> = {
  AgentTemplate: structured({ name: "A" }),
  AgentToolTemplate: structured({ name: "a", display_name: "A", description: "Does." }),
  AgentRoutineTemplate: structured({ name: "a", display_name: "A", preset_name: "do_task" }),
  Script: { mime_type: "text/plain", raw_content: "1" },
  Skill: { mime_type: "text/markdown", raw_content: skill },
  Solution: structured({ name: "A" }),
};

/** By the operation and the field: the kind of the config, and what must be said beside it to be asked for it at all. */
const meant: Record<string, { kind: keyof typeof contents; beside?: object }> = {
  "POST /api/v1/agents template": { kind: "AgentTemplate" },
  "PATCH /api/v1/agent_tools/{tool} template": { kind: "AgentToolTemplate" },
  "PATCH /api/v1/agent_routines/{routine} template": { kind: "AgentRoutineTemplate" },
  "PATCH /api/v1/agent_skills/{agent_skill} template": { kind: "Skill" },
  "POST /api/v1/agent_skills config": { kind: "Skill" },
  "POST /api/v1/agents/{agent}/agent_tools config": { kind: "Script" },
  "POST /api/v1/agents/{agent}/agent_tools parameters_config": { kind: "Script" },
  "PATCH /api/v1/agent_tools/{tool} config": { kind: "Script" },
  "PATCH /api/v1/agent_tools/{tool} parameters_config": { kind: "Script" },
  "POST /api/v1/agents/{agent}/agent_routines config": {
    kind: "Script",
    beside: { handler_type: "script", steps: null },
  },
  "PATCH /api/v1/agent_routines/{routine} config": { kind: "Script", beside: { handler_type: "script", steps: null } },
  "POST /api/v1/config parent_solution": { kind: "Solution" },
  "PATCH /api/v1/config/{config} parent_solution": { kind: "Solution" },
  "PUT /api/v1/config/{config} parent_solution": { kind: "Solution" },
};
/** A child is of its parent's owner: it is named by the id alone. */
const byIdAlone = { "POST /api/v1/config parent": { kind: "Skill", beside: { relative_path: "a" } } } as typeof meant;

/** What a place's configs are called by, by their kinds; made when they are first asked for. */
const made = new Map<Place, Promise<Record<string, [id: string, lookup_key: string]>>>();
export function configsOf(place: Place) {
  const make = async (kind: string) => {
    const body = { ...contents[kind], kind, lookup_key: unique(place.word), org: place.org, system: true };
    const { id, lookup_key } = await must(place.asDeveloper("POST", "/api/v1/config", body), 201);
    return [kind, [id, lookup_key]] as const;
  };
  if (!made.has(place)) made.set(place, Promise.all(Object.keys(contents).map(make)).then(Object.fromEntries));
  return made.get(place)!;
}

/** The ways in which a body may name a config of the place in this field; null for a field that means no config. */
export async function waysToName({ name }: Operation, field: string, place: Place): Promise<string[] | null> {
  const one = `${name} ${field}`;
  const { kind } = meant[one] ?? byIdAlone[one] ?? {};
  if (!kind) return null;
  const ways = (await configsOf(place))[kind]!;
  return byIdAlone[one] ? ways.slice(0, 1) : ways;
}

/** The body that names `value` in the field, and is well but for that. */
export const bodyNaming = (operation: Operation, place: Place, field: string, value: string): object => {
  const one = `${operation.name} ${field}`;
  return { ...bodyOf(operation, { home: place }), ...(meant[one] ?? byIdAlone[one])?.beside, [field]: value };
};

export const namingConfigs = [...Object.keys(meant), ...Object.keys(byIdAlone)];
