import { sql } from "kysely";
import { createChild, updateChild } from "../agents/children.ts";
import { configNamed } from "../configs/queries.ts";
import type { SkillStatus } from "../db/schema.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { ApiError, noSuch } from "../errors.ts";
import type { Id } from "../ids.ts";
import type { CreateSkill, SkillRow, UpdateSkill } from "./schema.ts";

/** Gives an agent a skill, inactive. 422 on an agent or a Skill config that isn't there. */
export function createSkill(db: TenantDb, id: Id<"agent_skill">, body: CreateSkill): Promise<SkillRow> {
  return createChild(db, "agent_skill", body.agent, id, {
    config_id: configNamed(db, body.config),
    instruction: body.instruction ?? null,
    metadata: JSON.stringify(body.metadata ?? {}),
  }).catch((error) => {
    // The agent is named by the body here, not by the address.
    if (!(error instanceof ApiError) || error.status !== 404) throw error;
    throw noSuch("agent");
  });
}

export function updateSkill(db: TenantDb, id: Id<"agent_skill">, body: UpdateSkill): Promise<SkillRow> {
  const config =
    body.template == null ? undefined : configNamed(db, body.template, undefined, sql`agent_skills.org_id`);
  return updateChild(db, "agent_skill", id, {
    ...{ instruction: body.instruction, config_id: config, template_config_id: config },
    metadata: body.metadata === undefined ? undefined : JSON.stringify(body.metadata ?? {}),
  });
}

/** An active skill's name and description stand in the agent's prompt from the next run on. */
export const setSkillStatus = (db: TenantDb, id: Id<"agent_skill">, status: SkillStatus): Promise<SkillRow> =>
  updateChild(db, "agent_skill", id, { status });
