import { describe, expect, it } from "vitest";
import { anAgent, anApp, type Call, must, sql, together, unique } from "../harness/index.ts";

const PRIVATE = { grants: [{ principal_type: "org_role", principal: "admin", actions: ["read", "write"] }] };

async function start(fields: object = {}) {
  const app = await anApp();
  const owner = app.as(app.acme);
  const agent = await anAgent(owner, { model: "scripted/echo", ...fields });
  const at = `/api/v1/agents/${agent.id}`;
  const health = () => must(owner("GET", `${at}/health`), 200);
  const check = async (key: string) => (await health()).checks.find((one: any) => one.key === key);
  return { ...app, owner, agent, at, health, check };
}

describe("GET /api/v1/agents/{agent}/health", () => {
  it("shows the agent, its score, every check, what there is of it, and what there is to do", async () => {
    const { health, agent } = await start();
    const { checks, checked_at, ...rest } = await health();
    expect(rest).toEqual({
      ...{ agent, score: 90, status: "warning" },
      counts: { tools: 0, skills: 0, routines: 0, schedules: 0, computers: 0, env_vars: 0, installations: 0 },
      recent: { runs: { total: 0, failed: 0 }, tool_calls: { total: 0, failed: 0 }, schedules_missed: 0 },
      activity: { in_motion: 0, stuck: [] },
      health_actions: [],
    });
    expect(Math.abs(Date.parse(checked_at) - Date.now())).toBeLessThan(60_000);
    expect(checks.map(({ key, status }: any) => [key, status])).toEqual(
      expect.arrayContaining([
        ["actions", "ok"],
        ["model", "warning"],
        ["stuck", "ok"],
      ]),
    );
  });

  it("says what to set where the model has no credential, and the score rises once it is set", async () => {
    const { owner, at, health, check } = await start({ model: "openai/gpt-5" });
    const broken = await health();
    expect([broken.score, broken.status]).toEqual([60, "critical"]);
    expect((await check("model")).summary).toContain("set OPENAI_API_KEY");
    const [action] = broken.health_actions;
    expect(action).toMatchObject({
      ...{ source: "health", kind: "env_var", status: "pending", title: "Set OPENAI_API_KEY", required: true },
      params: { key: "OPENAI_API_KEY", scope: "agent" },
    });
    expect((await must(owner("POST", `/api/v1/agent_health_actions/${action.id}/verify`), 200)).status).toBe("pending");
    const variable = await must(owner("POST", `${at}/agent_env_vars`, { key: "OPENAI_API_KEY", value: "sk-1" }), 200);
    const verified = await must(owner("POST", `/api/v1/agent_health_actions/${action.id}/verify`), 200);
    expect(verified.status).toBe("completed");
    const whole = await health();
    expect([whole.score, whole.status, whole.health_actions.map((one: any) => one.status)]).toEqual([
      ...[100, "ok", ["completed"]],
    ]);
    await must(owner("DELETE", `/api/v1/agent_env_vars/${variable.id}`), 204);
    const again = await health();
    expect([again.score, again.health_actions]).toMatchObject([60, [{ id: action.id, status: "degraded" }]]);
  });

  it("has the action of a check once, however many ask at once, and shows it to each of them", async () => {
    const { health } = await start({ model: "openai/gpt-5" });
    const found = await together(4, health);
    const ids = found.map(({ health_actions }) => health_actions.map(({ id }: any) => id));
    expect([ids[0].length, new Set(ids.flat()).size, ids.length]).toEqual([1, 1, 4]);
    for (const one of ids) expect(one).toEqual(ids[0]);
  });

  it("completes what is done also where no more actions can be", async () => {
    const { as, acme } = await anApp();
    const owner = as(acme);
    const setup_actions = Array.from({ length: 99 }, (_, i) => ({ kind: "custom", title: `${i}`, required: false }));
    const template_bundle = { template: { name: "Ada", model: "openai/gpt-5" }, setup_actions };
    const { id } = await must(owner("POST", "/api/v1/agents", { template_bundle }), 200);
    const at = `/api/v1/agents/${id}`;
    const ofChecks = async () =>
      (await must(owner("GET", `${at}/health`), 200)).health_actions.flatMap(({ source, title, status }: any) =>
        source === "health" ? [[title, status]] : [],
      );
    expect(await ofChecks()).toEqual([["Set OPENAI_API_KEY", "pending"]]);
    await must(owner("PATCH", at, { model: "compatible/one" }), 200);
    expect(await ofChecks()).toEqual([["Set OPENAI_API_KEY", "completed"]]);
  });

  it("takes no action of a setup for a check's: 422 on a dedupe_key that begins so", async () => {
    const { as, acme } = await anApp();
    const setup_actions = [{ kind: "custom", title: "A", dedupe_key: "health:computers" }];
    const template_bundle = { template: { name: "Ada" }, setup_actions };
    const { status, body } = await as(acme)("POST", "/api/v1/agents", { template_bundle });
    expect([status, JSON.stringify(body)]).toEqual([422, expect.stringContaining("must not begin with health:")]);
  });

  it("tells what an agent is found to be the first time if it is critical, and of no other", async () => {
    const { owner, agent, health } = await start({ model: "openai/gpt-5" });
    const told = async () => (await must(owner("GET", "/api/v1/events?event_names[]=agent.health_changed"), 200)).data;
    const scripted = await anAgent(owner, { model: "scripted/echo" });
    expect((await must(owner("GET", `/api/v1/agents/${scripted.id}/health`), 200)).status).toBe("warning");
    for (const _ of ["once", "again"]) await health();
    const payload = { status: "critical", score: 60, previous_status: "ok", previous_score: 100, stuck: false };
    await expect.poll(told).toMatchObject([{ payload: { agent: agent.id, ...payload } }]);
    expect(await told()).toHaveLength(1);
  });

  it("counts of its routines those that the viewer may read", async () => {
    const { owner, as, acme, at, health } = await start();
    const routine = { handler_type: "script", script: "1", event_type: "custom.x" };
    await must(owner("POST", `${at}/agent_routines`, { ...routine, name: "open" }), 200);
    await must(owner("POST", `${at}/agent_routines`, { ...routine, name: "private", acl: PRIVATE }), 200);
    const seen = await must(as(acme, { role: "member" })("GET", `${at}/health`), 200);
    expect([(await health()).counts.routines, seen.counts.routines]).toEqual([2, 1]);
  });

  it("completes the action of a check by itself when the check passes, and leaves one that was skipped", async () => {
    const { owner, at, health } = await start();
    const { id } = await must(owner("POST", `${at}/agent_computers`, { name: "c" }), 200);
    const is = (status: string) => sql("update data.agent_computers set status = $2 where id = $1", [id, status]);
    await is("error");
    const {
      health_actions: [action],
      score,
    } = await health();
    expect([score, action.title, action.status]).toEqual([80, "See to the computers that are in error", "pending"]);
    await is("ready");
    expect((await health()).health_actions[0].status).toBe("completed");
    await must(owner("POST", `/api/v1/agent_health_actions/${action.id}/skip`), 200);
    await is("error");
    const skipped = await health();
    expect([skipped.score, skipped.health_actions[0].status]).toEqual([80, "skipped"]);
  });

  it("counts required, other and degraded actions of the setup, and nothing that was done or skipped", async () => {
    const { as, acme } = await anApp();
    const owner = as(acme);
    const setup_actions = ["A", "B", "C"].map((title, i) => ({ kind: "custom", title, required: i === 0 }));
    const template_bundle = { template: { name: "Ada", model: "scripted/echo" }, setup_actions };
    const { id } = await must(owner("POST", "/api/v1/agents", { template_bundle }), 200);
    const health = () => must(owner("GET", `/api/v1/agents/${id}/health`), 200);
    const { score, status, health_actions } = await health();
    expect([score, status]).toEqual([40, "critical"]);
    const [a, b, c] = ["A", "B", "C"].map((title) => health_actions.find((one: any) => one.title === title).id);
    const act = (one: string, verb: string) => must(owner("POST", `/api/v1/agent_health_actions/${one}/${verb}`), 200);
    await act(a, "verify");
    expect((await health()).score).toBe(80);
    await act(b, "skip");
    expect((await health()).score).toBe(85);
    await act(c, "verify");
    expect((await health()).score).toBe(90);
    await sql("update data.agent_health_actions set status = 'degraded' where id = $1", [a]);
    expect((await health()).score).toBe(85);
  });

  it("counts a schedule that was missed in 24 hours, and a suspended installation", async () => {
    const { owner, at, agent, health, check } = await start();
    const { id } = await must(owner("POST", `${at}/agent_installations`, { kind: "web/site" }), 200);
    await must(owner("POST", `/api/v1/agent_installations/${id}/suspend`, {}), 200);
    expect((await check("installations")).status).toBe("warning");
    const missed = (hours: number) =>
      sql(
        `insert into data.occurrences (app_id, sandbox_id, org_id, agent_id, id, schedule_id, planned_at, outcome, overlap)
         select app_id, sandbox_id, org_id, id, 'occ_' || substr(md5(random()::text), 1, 22), 'asc_gone', now() - $2 * interval '1 hour',
           'missed', 'skip' from data.agents where id = $1`,
        [agent.id, hours],
      );
    await missed(25);
    expect((await check("schedules")).status).toBe("ok");
    await missed(23);
    expect((await health()).recent.schedules_missed).toBe(1);
    expect((await check("schedules")).status).toBe("warning");
  });

  it("counts the webhook endpoints of its org that are disabled, or have failed for over an hour, and no other org's", async () => {
    const { owner, as, globex, health, check } = await start();
    const anEndpoint = (call: Call) =>
      must(
        call("POST", "/api/v1/webhook_endpoints", { url: "https://hooks.example.com/", event_names: ["custom.*"] }),
        201,
      );
    const { id } = await anEndpoint(owner);
    const foreign = await anEndpoint(as(globex));
    await sql("update data.webhook_endpoints set status = 'disabled' where id = $1", [foreign.id]);
    const fails = (minutes: number) =>
      sql("update data.webhook_endpoints set failing_since = now() - $2 * interval '1 minute' where id = $1", [
        id,
        minutes,
      ]);
    await fails(59);
    expect([(await health()).score, (await check("webhook_endpoints")).status]).toEqual([90, "ok"]);
    await fails(61);
    expect([(await health()).score, (await check("webhook_endpoints")).status]).toEqual([80, "warning"]);
    await sql("update data.webhook_endpoints set status = 'disabled' where id = $1", [id]);
    const broken = await health();
    expect([broken.score, broken.status]).toEqual([70, "critical"]);
    const todo = broken.health_actions.map(({ title, status, required }: any) => [title, status, required]);
    expect(todo).toEqual([
      ["Mend the receivers of the org's webhook endpoints", "completed", false],
      ["Enable the webhook endpoints of the org", "pending", true],
    ]);
  });

  it("is for who may read the agent, with the scope for its actions: else 404, and 403", async () => {
    const { as, acme, globex, at } = await start();
    expect((await as(globex)("GET", `${at}/health`)).status).toBe(404);
    expect((await as(acme, { scopes: ["agents:read"] })("GET", `${at}/health`)).status).toBe(403);
    expect((await as(acme, { scopes: ["agents:read", "health_actions:read"] })("GET", `${at}/health`)).status).toBe(
      200,
    );
  });

  it("counts runs of 24 hours that completed or failed, and tells of the change once, to who may read the agent", async () => {
    const { owner, as, acme, agent, at, health, check } = await start({ acl: PRIVATE });
    expect((await health()).status).toBe("warning");
    const routine = (script: string) =>
      must(
        owner("POST", `${at}/agent_routines`, {
          ...{ name: "r", status: "active", event_type: "agentroutine.invoked", handler_type: "script", script },
        }),
        200,
      );
    const [good, bad] = [await routine("1"), await routine("unknown_name")];
    const invoke = async ({ id }: { id: string }) =>
      void (await must(owner("POST", `/api/v1/agent_routines/${id}/invoke`, { message: "Go." }), 200));
    const counted = (total: number, failed: number) =>
      expect.poll(async () => (await health()).recent.runs).toEqual({ total, failed });
    for (const one of [good, bad, good, bad]) await invoke(one);
    await counted(4, 2);
    expect((await check("runs")).status).toBe("warning");
    await invoke(bad);
    await counted(5, 3);
    const broken = await health();
    expect([broken.score, broken.status, (await check("runs")).status]).toEqual([60, "critical", "critical"]);
    const told = async (call: Call) =>
      (await must(call("GET", "/api/v1/events?event_names[]=agent.health_changed"), 200)).data.map(
        (one: any) => one.payload,
      );
    const change = { status: "critical", score: 60, previous_status: "warning", previous_score: 80, stuck: false };
    await expect.poll(() => told(owner)).toEqual([{ agent: agent.id, ...change }]);
    expect(await told(as(acme, { role: "member" }))).toEqual([]);
  });

  it("counts tool calls of an hour that succeeded or failed, and a session's end as a run", async () => {
    const { owner, agent, at, health } = await start({ model: "scripted/script" });
    const tool = async (name: string, raw_content: string) => {
      const config = { kind: "Script", mime_type: "text/plain", raw_content, lookup_key: unique(name) };
      const { id } = await must(owner("POST", "/api/v1/config", config), 201);
      const parameters = { type: "object", properties: {} };
      const body = {
        kind: "custom",
        status: "active",
        name,
        description: "d",
        handler_type: "script",
        config: id,
        parameters,
      };
      await must(owner("POST", `${at}/agent_tools`, { ...body, effect: "read" }), 200);
    };
    await tool("works", "1");
    await tool("breaks", "unknown_name");
    const calls = [...["works", "breaks", "breaks"].map((name) => ({ name, arguments: {} }))];
    const rules = [{ role: "user", tool_calls: calls }, { text: "Done." }];
    const instructions = `Do it.\n\n\`\`\`script\n${JSON.stringify(rules)}\n\`\`\``;
    await must(owner("POST", "/api/v1/agent_sessions", { agent: agent.id, instructions, on_idle: "complete" }), 201);
    await expect
      .poll(async () => (await health()).recent)
      .toEqual({ runs: { total: 1, failed: 0 }, tool_calls: { total: 3, failed: 2 }, schedules_missed: 0 });
  });

  it("counts a session that works for a run as a part of that", async () => {
    const { owner, at, health } = await start();
    const body = { name: "r", status: "active", event_type: "agentroutine.invoked", handler_type: "preset" };
    const preset = { preset_name: "do_task", preset_config: { instructions: "Say it." } };
    const { id } = await must(owner("POST", `${at}/agent_routines`, { ...body, ...preset }), 200);
    await must(owner("POST", `/api/v1/agent_routines/${id}/invoke`, { message: "Go." }), 200);
    await expect.poll(async () => (await health()).recent.runs).toEqual({ total: 1, failed: 0 });
    await expect.poll(async () => (await health()).activity.in_motion).toBe(0);
    expect((await health()).recent.runs).toEqual({ total: 1, failed: 0 });
  });
});
