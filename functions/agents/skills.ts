import { deleteChild, getChild, listChildrenOf } from "../../lib/agents/children.ts";
import { allow } from "../../lib/auth/allow.ts";
import { gives, givesNothing } from "../../lib/http/gives.ts";
import { once } from "../../lib/http/once.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";
import { openListCursor, paginateList } from "../../lib/paging.ts";
import { createSkill, setSkillStatus, updateSkill } from "../../lib/skills/queries.ts";
import {
  createSkillBody,
  listSkillsQuery,
  skill,
  skillPage,
  toSkill,
  updateSkillBody,
} from "../../lib/skills/schema.ts";

const skills = router();
const idOf = (text: string) => parseId("agent_skill", text);

skills.get(
  "/api/v1/agent_skills",
  allow("skills:read"),
  valid("query", listSkillsQuery),
  gives(200, skillPage, 404),
  async (c) => {
    const query = c.req.valid("query");
    const page = await openListCursor(c.env.ROOT_SECRETS, "agent_skills", c.var.db.tenant, query);
    return c.var.answer(
      await paginateList(page, await listChildrenOf(c.var.db, "agent_skill", query.agent, page), toSkill),
    );
  },
);

skills.post(
  "/api/v1/agent_skills",
  named("Give an agent a skill"),
  allow("skills:write"),
  valid("json", createSkillBody),
  once("agent_skill"),
  gives(201, skill),
  async (c) => {
    const row = await c.var.once(
      (db, id) => createSkill(db, id, c.req.valid("json")),
      (db, id) => getChild(db, "agent_skill", id),
    );
    return c.var.answer(toSkill(row));
  },
);

skills.get("/api/v1/agent_skills/:agent_skill", allow("skills:read"), gives(200, skill), async (c) => {
  return c.var.answer(toSkill(await getChild(c.var.db, "agent_skill", idOf(c.req.param("agent_skill")))));
});

skills.patch(
  "/api/v1/agent_skills/:agent_skill",
  allow("skills:write"),
  valid("json", updateSkillBody),
  gives(200, skill),
  async (c) => {
    return c.var.answer(toSkill(await updateSkill(c.var.db, idOf(c.req.param("agent_skill")), c.req.valid("json"))));
  },
);

skills.delete("/api/v1/agent_skills/:agent_skill", allow("skills:write"), givesNothing(), async (c) => {
  await deleteChild(c.var.db, "agent_skill", idOf(c.req.param("agent_skill")));
  return c.var.answer();
});

skills.post(
  "/api/v1/agent_skills/:agent_skill/activate",
  named("Activate a skill"),
  allow("skills:write"),
  gives(200, skill),
  async (c) => c.var.answer(toSkill(await setSkillStatus(c.var.db, idOf(c.req.param("agent_skill")), "active"))),
);

skills.post(
  "/api/v1/agent_skills/:agent_skill/deactivate",
  named("Deactivate a skill"),
  allow("skills:write"),
  gives(200, skill),
  async (c) => c.var.answer(toSkill(await setSkillStatus(c.var.db, idOf(c.req.param("agent_skill")), "inactive"))),
);

export default skills;
