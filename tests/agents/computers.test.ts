import { describe, expect, it } from "vitest";
import { anAgent, anApp, must, sql, together } from "../harness/index.ts";

const at = (agent: { id: string }) => `/api/v1/agents/${agent.id}/agent_computers`;

describe("POST /api/v1/agents/{agent}/agent_computers", () => {
  it("answers the whole computer, in the agent's place and provisioning", async () => {
    const { app, acme, as } = await anApp();
    const agent = await anAgent(as(acme));
    const made = await must(as(acme)("POST", at(agent), { name: "desk" }), 200);
    expect(made).toEqual({
      ...{ id: made.id, app, agent: agent.id, name: "desk", lookup_key: null, provider: "sprites", region: "iad" },
      ...{ config: { provider: "sprites" }, status: "provisioning", error_message: null, sprite_url: null },
      ...{ last_active_at: null, metadata: {}, created_at: made.created_at, updated_at: made.created_at },
    });
    expect(made.id).toMatch(/^cmp_[0-9A-Za-z]{22}$/);
    expect(await must(as(acme)("GET", `/api/v1/agent_computers/${made.id}`), 200)).toEqual(made);
    expect((await must(as(acme)("GET", at(agent)), 200)).data).toEqual([made]);
  });

  it("copies the provider into the config, and the one on top wins", async () => {
    const { acme, as } = await anApp();
    const agent = await anAgent(as(acme));
    const config = { provider: "vercel", size: 2 };
    const inner = await must(as(acme)("POST", at(agent), { name: "a", config }), 200);
    expect([inner.provider, inner.config]).toEqual(["vercel", config]);
    const top = await must(as(acme)("POST", at(agent), { name: "a", config, provider: "sprites" }), 200);
    expect([top.provider, top.config]).toEqual(["sprites", { provider: "sprites", size: 2 }]);
    const other = await as(acme)("POST", at(agent), { name: "a", config: { provider: "mine" } });
    expect([other.status, other.body.error.fields[0].field]).toEqual([422, "config"]);
  });

  it("keeps a lookup_key once an app: 409", async () => {
    const { acme, globex, as } = await anApp();
    const [one, other] = [await anAgent(as(acme)), await anAgent(as(globex))];
    await must(as(acme)("POST", at(one), { name: "a", lookup_key: "desk" }), 200);
    const again = await as(globex)("POST", at(other), { name: "a", lookup_key: "desk" });
    expect([again.status, again.body.error.fields[0].field]).toEqual([409, "lookup_key"]);
  });

  it("makes a hundred on an agent and no more, however many come at once: 422 limit_reached", async () => {
    const { acme, as } = await anApp();
    const agent = await anAgent(as(acme));
    await sql(
      `insert into data.agent_computers (id, app_id, sandbox_id, org_id, agent_id, name, provider, region)
       select 'cmp_' || lpad(n::text, 22, '0'), app_id, sandbox_id, org_id, id, 'desk', 'sprites', 'iad'
         from data.agents, generate_series(1, 97) n where id = $1`,
      [agent.id],
    );
    const answers = await together(6, () => as(acme)("POST", at(agent), { name: "one more" }));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 200, 422, 422, 422]);
    const refused = answers.find(({ status }) => status === 422)!;
    expect(refused.body.error.code).toBe("limit_reached");
    expect((await must(as(acme)("GET", at(agent)), 200)).data.length).toBe(100);
  });
});

describe("a computer", () => {
  it("does nothing before there is a provider: refresh and exec are 422 no_provider", async () => {
    const { acme, as } = await anApp();
    const made = await must(as(acme)("POST", at(await anAgent(as(acme))), { name: "desk" }), 200);
    const path = `/api/v1/agent_computers/${made.id}`;
    for (const answer of [
      await as(acme)("POST", `${path}/refresh`),
      await as(acme)("POST", `${path}/exec`, { command: "ls" }),
    ]) {
      expect([answer.status, answer.body.error.code]).toEqual([422, "no_provider"]);
    }
    expect(await must(as(acme)("GET", path), 200)).toEqual(made);
  });

  it("is gone once deleted, alone or with its agent", async () => {
    const { acme, as } = await anApp();
    const agent = await anAgent(as(acme));
    const [one, other] = [
      await must(as(acme)("POST", at(agent), { name: "a" }), 200),
      await must(as(acme)("POST", at(agent), { name: "b" }), 200),
    ];
    await must(as(acme)("DELETE", `/api/v1/agent_computers/${one.id}`), 204);
    expect((await must(as(acme)("GET", at(agent)), 200)).data).toEqual([other]);
    await must(as(acme)("DELETE", `/api/v1/agents/${agent.id}`), 204);
    for (const { id } of [one, other]) {
      expect((await as(acme)("GET", `/api/v1/agent_computers/${id}`)).status).toBe(404);
    }
  });
});
