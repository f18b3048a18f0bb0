import * as v from "valibot";
import { type Row, skillStatuses } from "../db/schema.ts";
import { list, metadata, nullable, stamp, text } from "../http/valid.ts";
import { listOf, listQuery } from "../paging.ts";

/** A config by its id or lookup_key. */
const config = v.pipe(text(255), v.nonEmpty());
const fields = {
  /** Stands in the place of the skill's own description when the agent is told of it. */
  instruction: v.optional(v.nullable(text(10_000))),
  metadata: v.optional(v.nullable(metadata)),
};

export const createSkillBody = v.strictObject({
  ...fields,
  /** An agent by its id or lookup_key. */
  agent: v.pipe(text(255), v.nonEmpty()),
  config,
});
export type CreateSkill = v.InferOutput<typeof createSkillBody>;

export const updateSkillBody = v.strictObject({
  ...fields,
  /** Another Skill config, to which the skill is pointed; it stays as active as it is. */
  template: v.optional(v.nullable(config)),
});
export type UpdateSkill = v.InferOutput<typeof updateSkillBody>;

export const listSkillsQuery = v.object({ ...listQuery, agent: v.optional(list(text(255), 100)) });

export type SkillRow = Row<"agent_skills">;

export const skill = v.strictObject({
  id: v.string(),
  app: v.string(),
  agent: v.string(),
  config: v.string(),
  instruction: nullable,
  status: v.picklist(skillStatuses),
  metadata: v.record(v.string(), v.unknown()),
  last_applied_template_config: nullable,
  created_at: stamp,
  updated_at: stamp,
});
export const skillPage = listOf(skill);

export const toSkill = (row: SkillRow): v.InferOutput<typeof skill> => ({
  id: row.id,
  app: row.app_id,
  agent: row.agent_id,
  config: row.config_id,
  instruction: row.instruction,
  status: row.status,
  metadata: row.metadata,
  last_applied_template_config: row.template_config_id,
  created_at: row.created_at,
  updated_at: row.updated_at,
});
