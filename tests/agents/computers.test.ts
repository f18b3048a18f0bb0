import { describe, expect, it } from "vitest";
import { anAgent, anApp, must, together } from "../harness/index.ts";

const at = (agent: { id: string }) => `/api/v1/agents/${agent.id}/agent_computers`;

describe("POST /api/v1/agents/{agent}/agent_computers", () => {
  it("answers the whole computer, in the agent's place, and says what is missing where nobody makes it", async () => {
    const { app, acme, as } = await anApp();
    const agent = await anAgent(as(acme));
    const made = await must(as(acme)("POST", at(agent), { name: "desk" }), 200);
    expect(made).toEqual({
      ...{ id: made.id, app, agent: agent.id, name: "desk", lookup_key: null, provider: "sprites", region: "iad" },
      ...{ config: { provider: "sprites" }, status: "error", sprite_url: null },
      error_message: "Nobody makes sprites here: SPRITES_TOKEN is not set.",
      ...{ last_active_at: null, metadata: {}, created_at: made.created_at, updated_at: made.created_at },
    });
    expect(made.id).toMatch(/^cmp_[0-9A-Za-z]{22}$/);
    expect(await must(as(acme)("GET", `/api/v1/agent_computers/${made.id}`), 200)).toEqual(made);
    expect((await must(as(acme)("GET", at(agent)), 200)).data).toEqual([made]);
  });

  it("copies the provider into the config, and the one on top wins", async () => {
    const { acme, as } = await anApp();
    const agent = await anAgent(as(acme));
    const config = { provider: "local", size: 2 };
    const inner = await must(as(acme)("POST", at(agent), { name: "a", config }), 200);
    expect([inner.provider, inner.config]).toEqual(["local", config]);
    const top = await must(as(acme)("POST", at(agent), { name: "a", config, provider: "sprites" }), 200);
    expect([top.provider, top.config]).toEqual(["sprites", { provider: "sprites", size: 2 }]);
    for (const provider of ["mine", "vercel"]) {
      const other = await as(acme)("POST", at(agent), { name: "a", config: { provider } });
      expect([other.status, other.body.error.fields[0].field]).toEqual([422, "config"]);
      const beside = await as(acme)("POST", at(agent), { name: "a", provider });
      expect([beside.status, beside.body.error.fields[0].field]).toEqual([422, "provider"]);
    }
  });

  it("keeps a lookup_key once an app: 409", async () => {
    const { acme, globex, as } = await anApp();
    const [one, other] = [await anAgent(as(acme)), await anAgent(as(globex))];
    await must(as(acme)("POST", at(one), { name: "a", lookup_key: "desk" }), 200);
    const again = await as(globex)("POST", at(other), { name: "a", lookup_key: "desk" });
    expect([again.status, again.body.error.fields[0].field]).toEqual([409, "lookup_key"]);
  });

  it("makes ten in an org and no more, however many come at once, or as many as its app says: 422 limit_reached", async () => {
    const { acme, globex, as, asDeveloper, at: place } = await anApp();
    const agents = [await anAgent(as(acme)), await anAgent(as(acme))];
    for (const i of Array(7).keys()) await must(as(acme)("POST", at(agents[i % 2]), { name: "desk" }), 200);
    const answers = await together(6, (i) => as(acme)("POST", at(agents[i % 2]), { name: "one more" }));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 200, 422, 422, 422]);
    const refused = answers.find(({ status }) => status === 422)!;
    expect(refused.body.error).toMatchObject({ code: "limit_reached", message: expect.stringContaining("at most 10") });
    await must(as(globex)("POST", at(await anAgent(as(globex))), { name: "another org's" }), 200);
    await must(asDeveloper("PATCH", place, { settings: { quotas: { computers: 11 } } }), 200);
    await must(as(acme)("POST", at(agents[0]), { name: "the eleventh" }), 200);
    expect((await as(acme)("POST", at(agents[1]), { name: "the twelfth" })).status).toBe(422);
  });
});

describe("a computer", () => {
  it("does nothing where there is no provider: refresh is 422 no_provider, exec not_ready", async () => {
    const { acme, as } = await anApp();
    const made = await must(as(acme)("POST", at(await anAgent(as(acme))), { name: "desk" }), 200);
    const path = `/api/v1/agent_computers/${made.id}`;
    const refreshed = await as(acme)("POST", `${path}/refresh`);
    expect([refreshed.status, refreshed.body.error.code]).toEqual([422, "no_provider"]);
    const ran = await as(acme)("POST", `${path}/exec`, { command: "ls" });
    expect([ran.status, ran.body.error.code]).toEqual([422, "not_ready"]);
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
