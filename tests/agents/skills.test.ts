import { describe, expect, it } from "vitest";
import { anAgent, anApp, must, unique } from "../harness/index.ts";

async function start() {
  const app = await anApp();
  const owner = app.as(app.acme);
  const agent = await anAgent(owner, { lookup_key: unique("agent") });
  const aSkillConfig = (kind = "Skill") =>
    must(
      owner("POST", "/api/v1/config", {
        ...{ kind, mime_type: "text/markdown", lookup_key: unique("skill") },
        raw_content: "---\nname: review\ndescription: Reviews code\n---\nLook closely.\n",
      }),
      201,
    );
  const config = await aSkillConfig();
  return { ...app, owner, agent, config, aSkillConfig };
}

describe("POST /api/v1/agent_skills", () => {
  it("answers 201 with the whole skill, inactive, by the agent's and the config's id or key", async () => {
    const { app, owner, agent, config } = await start();
    const body = { agent: agent.lookup_key, config: config.lookup_key };
    const skill = await must(owner("POST", "/api/v1/agent_skills", body), 201);
    expect(skill).toEqual({
      ...{ id: skill.id, app, agent: agent.id, config: config.id, instruction: null, status: "inactive", metadata: {} },
      ...{ last_applied_template_config: null, created_at: skill.created_at, updated_at: skill.created_at },
    });
  });

  it.each([
    ["agent", { agent: "nobody" }],
    ["config", { config: "nothing" }],
    ["config", { config: "" }],
  ])("is a 422 on the %s that isn't there", async (field, wrong) => {
    const { owner, agent, config } = await start();
    const answer = await owner("POST", "/api/v1/agent_skills", { agent: agent.id, config: config.id, ...wrong });
    expect([answer.status, answer.body.error.fields[0].field]).toEqual([422, field]);
  });

  it("is a 422 on a config that is no skill", async () => {
    const { owner, agent } = await start();
    const script = { kind: "Script", mime_type: "text/plain", raw_content: "1" };
    const { id } = await must(owner("POST", "/api/v1/config", { ...script, lookup_key: unique("script") }), 201);
    const answer = await owner("POST", "/api/v1/agent_skills", { agent: agent.id, config: id });
    expect([answer.status, answer.body.error.fields[0].field]).toEqual([422, "config"]);
  });
});

describe("a skill", () => {
  it("is activated and deactivated, again without a change, and pointed to another config as active as it is", async () => {
    const { owner, agent, config, aSkillConfig } = await start();
    const skill = await must(owner("POST", "/api/v1/agent_skills", { agent: agent.id, config: config.id }), 201);
    const path = `/api/v1/agent_skills/${skill.id}`;
    const active = await must(owner("POST", `${path}/activate`), 200);
    expect(active.status).toBe("active");
    expect(await must(owner("POST", `${path}/activate`), 200)).toEqual(active);
    const other = await aSkillConfig();
    const moved = await must(owner("PATCH", path, { template: other.lookup_key, instruction: "Be kind" }), 200);
    expect([moved.config, moved.last_applied_template_config, moved.status, moved.instruction]).toEqual([
      ...[other.id, other.id, "active", "Be kind"],
    ]);
    expect((await must(owner("POST", `${path}/deactivate`), 200)).status).toBe("inactive");
    await must(owner("DELETE", path), 204);
    expect((await owner("GET", path)).status).toBe(404);
  });

  it("holds its config: deleting that is a 409 that names the skill", async () => {
    const { owner, agent, config } = await start();
    const skill = await must(owner("POST", "/api/v1/agent_skills", { agent: agent.id, config: config.id }), 201);
    const refused = await owner("DELETE", `/api/v1/config/${config.id}`);
    expect(refused.status).toBe(409);
    expect(refused.text).toContain(skill.id);
    await must(owner("DELETE", `/api/v1/agent_skills/${skill.id}`), 204);
    await must(owner("DELETE", `/api/v1/config/${config.id}`), 204);
  });

  it("keeps its config in the org, 409; one that isn't there is a 422 first, used or not", async () => {
    const { owner, agent, config, globex, asDeveloper } = await start();
    await must(owner("POST", "/api/v1/agent_skills", { agent: agent.id, config: config.id }), 201);
    const give = (org: string) =>
      asDeveloper("POST", `/api/v1/config/${config.id}/change_owner`, { system: true, org });
    const absent = await give("org_0000000000000000000001");
    expect([absent.status, absent.body.error.fields]).toEqual([
      422,
      [{ field: "org", message: "there is no such org" }],
    ]);
    const used = await give(globex);
    expect([used.status, used.body.error.code]).toEqual([409, "in_use"]);
  });
});
