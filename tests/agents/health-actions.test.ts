import { describe, expect, it } from "vitest";
import { anApp, must, sql } from "../harness/index.ts";

/** An agent with what there is to do on it before it is whole. */
async function start(setup_actions: object[]) {
  const app = await anApp();
  const owner = app.as(app.acme);
  const template_bundle = { template: { name: "Ada" }, setup_actions };
  const agent = await must(owner("POST", "/api/v1/agents", { template_bundle }), 200);
  const at = `/api/v1/agents/${agent.id}`;
  const list = async (query = ""): Promise<any[]> =>
    (await must(owner("GET", `${at}/agent_health_actions${query}`), 200)).data;
  const named = async (title: string) => (await list()).find((action) => action.title === title);
  const one = async (title: string) => `/api/v1/agent_health_actions/${(await named(title)).id}`;
  const verify = async (title: string) => owner("POST", `${await one(title)}/verify`);
  const verified = async (title: string) => (await must(verify(title), 200)).status;
  const refusal = async (title: string) => {
    const { status, body } = await verify(title);
    return [status, body.error?.code];
  };
  return { ...app, owner, agent, at, list, named, one, verified, refusal };
}

/** What verify does, by what an action is and whether its check passes. */
const MOVES: [status: string, passes: boolean, after: string][] = [
  ["pending", true, "completed"],
  ["pending", false, "pending"],
  ["completed", true, "completed"],
  ["completed", false, "degraded"],
  ["degraded", true, "completed"],
  ["degraded", false, "degraded"],
  ["skipped", true, "skipped"],
  ["skipped", false, "skipped"],
];

describe("POST /api/v1/agent_health_actions/{health_action}/verify", () => {
  it("of an env var: pending while it is absent, completed once it is set, degraded when it is gone, and back", async () => {
    const { owner, at, named, verified } = await start([{ kind: "env_var", title: "Key", params: { key: "KEY" } }]);
    const set = () => must(owner("POST", `${at}/agent_env_vars`, { key: "KEY", value: "x" }), 200);
    expect((await named("Key")).last_verified_at).toBeNull();
    expect(await verified("Key")).toBe("pending");
    const { last_verified_at, last_verifier_message } = await named("Key");
    expect([typeof last_verified_at, last_verifier_message]).toEqual(["string", "It is not there yet."]);
    const { id } = await set();
    expect(await verified("Key")).toBe("completed");
    await must(owner("DELETE", `/api/v1/agent_env_vars/${id}`), 204);
    expect(await verified("Key")).toBe("degraded");
    expect(await verified("Key")).toBe("degraded");
    await set();
    expect(await verified("Key")).toBe("completed");
  });

  it("of an installation: completed while one of its kind is active", async () => {
    const params = { installation_kind: "web/site" };
    const { owner, at, verified } = await start([{ kind: "install", title: "Site", params }]);
    const { id } = await must(owner("POST", `${at}/agent_installations`, { kind: "web/site" }), 200);
    expect(await verified("Site")).toBe("pending");
    await must(owner("POST", `/api/v1/agent_installations/${id}/activate`), 200);
    expect(await verified("Site")).toBe("completed");
    await must(owner("POST", `/api/v1/agent_installations/${id}/pause`), 200);
    expect(await verified("Site")).toBe("degraded");
  });

  it("can't start before what it depends on was done: degraded counts, skipped doesn't. 422 dependencies_unfinished", async () => {
    const { owner, at, named, verified, refusal } = await start([
      { kind: "env_var", title: "B", params: { key: "B" }, depends_on: ["a"] },
      { kind: "env_var", title: "A", dedupe_key: "a", params: { key: "A" } },
    ]);
    for (const key of ["A", "B"]) await must(owner("POST", `${at}/agent_env_vars`, { key, value: "x" }), 200);
    expect(await refusal("B")).toEqual([422, "dependencies_unfinished"]);
    const { id } = await named("A");
    const is = (status: string) => sql("update data.agent_health_actions set status = $2 where id = $1", [id, status]);
    for (const [status, answer] of [
      ["skipped", [422, "dependencies_unfinished"]],
      ["pending", [422, "dependencies_unfinished"]],
      ["completed", [200, undefined]],
      ["degraded", [200, undefined]],
    ] as const) {
      await is(status);
      expect([status, await refusal("B")]).toEqual([status, answer]);
    }
    await is("skipped");
    expect(await verified("A")).toBe("skipped");
  });

  it("takes a person's word where there is no verify_config, and none where its type is unknown: 422 no_verifier", async () => {
    const { named, verified, refusal } = await start([
      { kind: "custom", title: "Look" },
      { kind: "custom", title: "Odd", verify_config: { type: "phase_of_the_moon" } },
    ]);
    expect(await verified("Look")).toBe("completed");
    expect((await named("Look")).last_verifier_message).toBe("A person has said so.");
    expect(await refusal("Odd")).toEqual([422, "no_verifier"]);
    expect((await named("Odd")).last_verified_at).toBeNull();
  });

  it("looks for what its verify_config names, whatever its kind", async () => {
    const { owner, at, verified } = await start([
      { kind: "custom", title: "Key", verify_config: { type: "secret_present", key: "KEY" } },
      { kind: "custom", title: "Site", verify_config: { type: "installation_active", installation_kind: "web/site" } },
    ]);
    expect([await verified("Key"), await verified("Site")]).toEqual(["pending", "pending"]);
    await must(owner("POST", `${at}/agent_env_vars`, { key: "KEY", value: "x" }), 200);
    const { id } = await must(owner("POST", `${at}/agent_installations`, { kind: "web/site" }), 200);
    await must(owner("POST", `/api/v1/agent_installations/${id}/activate`), 200);
    expect([await verified("Key"), await verified("Site")]).toEqual(["completed", "completed"]);
  });

  it("moves an action as its table says", async () => {
    const { owner, at, named, one } = await start([{ kind: "env_var", title: "K", params: { key: "K" } }]);
    const [{ id }, path] = [await named("K"), await one("K")];
    for (const passes of [false, true]) {
      if (passes) await must(owner("POST", `${at}/agent_env_vars`, { key: "K", value: "x" }), 200);
      for (const [status, , after] of MOVES.filter(([, passing]) => passing === passes)) {
        const never = "update data.agent_health_actions set status = $2, last_verified_at = null where id = $1";
        await sql(never, [id, status]);
        const verified = await must(owner("POST", `${path}/verify`), 200);
        const isLooked = verified.last_verified_at !== null;
        expect([status, passes, verified.status, isLooked]).toEqual([status, passes, after, status !== "skipped"]);
      }
    }
  });

  it("needs write on the agent; reading it, read", async () => {
    const { owner, as, acme, globex, agent, one, at } = await start([
      { kind: "env_var", title: "K", params: { key: "K" } },
    ]);
    const path = await one("K");
    const readers = { grants: [{ principal_type: "org_role", principal: "member", actions: ["read"] }] };
    await must(owner("PATCH", at, { acl: readers }), 200);
    const member = as(acme, { role: "member" });
    expect((await must(member("GET", path), 200)).agent).toBe(agent.id);
    expect((await member("POST", `${path}/verify`)).status).toBe(403);
    for (const [method, address] of [
      ["GET", path],
      ["POST", `${path}/verify`],
      ["GET", `${at}/agent_health_actions`],
    ] as const) {
      expect((await as(globex)(method, address)).status).toBe(404);
    }
  });
});

describe("GET /api/v1/agents/{agent}/agent_health_actions", () => {
  it("sorts by source and sort_order, and of each filter takes any that it lists", async () => {
    const { owner, at, list } = await start([
      { kind: "custom", title: "third", sort_order: 3 },
      { kind: "env_var", title: "first", sort_order: 1, params: { key: "K" } },
      { kind: "install", title: "second", sort_order: 2, params: { installation_kind: "web/site" } },
    ]);
    await must(owner("POST", `${at}/agent_tools`, { kind: "builtin", builtin_tool_key: "images" }), 200);
    const titles = async (query: string) => (await list(query)).map(({ title }) => title);
    const waits = "Images is not available yet";
    expect(await titles("")).toEqual([waits, "first", "second", "third"]);
    expect(await titles("?kind[]=env_var&kind[]=install")).toEqual(["first", "second"]);
    expect(await titles("?source[]=health")).toEqual([waits]);
    expect(await titles("?source[]=setup&status[]=completed&status[]=degraded")).toEqual([]);
    expect((await owner("GET", `${at}/agent_health_actions?kind[]=magic`)).status).toBe(422);
  });
});

describe("POST /api/v1/agent_health_actions/{health_action}/skip and /reopen", () => {
  it("leaves what isn't required undone, which verify doesn't change, until it is reopened", async () => {
    const { owner, one, verified } = await start([{ kind: "custom", title: "Nice", required: false }]);
    const path = await one("Nice");
    for (const _ of ["once", "again"]) {
      expect((await must(owner("POST", `${path}/skip`), 200)).status).toBe("skipped");
      expect(await verified("Nice")).toBe("skipped");
    }
    expect((await must(owner("POST", `${path}/reopen`), 200)).status).toBe("pending");
    expect(await verified("Nice")).toBe("completed");
    expect((await must(owner("POST", `${path}/reopen`), 200)).status).toBe("pending");
  });

  it("refuses to skip a required one: 422 action_required", async () => {
    const { owner, one, named } = await start([{ kind: "custom", title: "Must" }]);
    const { status, body } = await owner("POST", `${await one("Must")}/skip`);
    expect([status, body.error.code, (await named("Must")).status]).toEqual([422, "action_required", "pending"]);
  });
});
