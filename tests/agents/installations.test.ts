import { describe, expect, it } from "vitest";
import { openFor, sealedTables } from "../../lib/auth/vault.ts";
import { installationKinds } from "../../lib/installations/kinds.ts";
import { aSecret } from "../harness/canary.ts";
import { anAgent, anApp, bearer, caller, must, sql, system, together } from "../harness/index.ts";

const at = (agent: { id: string }) => `/api/v1/agents/${agent.id}/agent_installations`;
const one = (row: { id: string }) => `/api/v1/agent_installations/${row.id}`;
const sources = (row: { id: string }) => `${one(row)}/installation_sources`;
const TOKENS = { access_token: aSecret(), refresh_token: aSecret() };

async function start() {
  const app = await anApp();
  const owner = app.as(app.acme);
  const agent = await anAgent(owner);
  const install = (kind: string, fields: object = {}) => must(owner("POST", at(agent), { kind, ...fields }), 200);
  return { ...app, owner, agent, install };
}

describe("GET /api/v1/agents/{agent}/agent_installations/kinds", () => {
  it("lists the kinds of the contract, each with what it takes", async () => {
    const { owner, agent } = await start();
    const { data } = await must(owner("GET", `${at(agent)}/kinds`), 200);
    expect(data.map(({ kind }: any) => kind)).toEqual([
      ...["archastro/files", "archastro/knowledge", "archastro/thread", "enablement/github_app"],
      ...["enablement/slack_bot", "integration/github", "integration/gmail", "integration/outlook"],
      ...["integration/slack", "memory/long-term", "web/site"],
    ]);
    expect(data.at(-1)).toEqual({
      ...{ kind: "web/site", label: "Website", category: "web", provider: null, requires_integration: false },
      ...{ accepts_sources: true, description: "Gives the agent a website to read." },
      config_schema: {
        type: "object",
        properties: { url: { type: "string", minLength: 1, maxLength: 2048, pattern: "^https?://[^\\s]+$" } },
      },
    });
  });
});

describe("POST /api/v1/agents/{agent}/agent_installations", () => {
  it("installs something, pending, and answers all of it", async () => {
    const { owner, agent, install } = await start();
    const config = { url: "https://a.example/", depth: 2 };
    const made = await install("web/site", { lookup_key: "docs_1", config });
    expect(made).toEqual({
      ...{ id: made.id, agent: agent.id, kind: "web/site", lookup_key: "docs_1", state: "pending", config },
      ...{ shared_integration: null, status_payload: null, created_at: made.created_at, updated_at: made.created_at },
    });
    expect(made.id).toMatch(/^cin_[0-9A-Za-z]{22}$/);
    expect(await must(owner("GET", one(made)), 200)).toEqual(made);
    expect((await must(owner("GET", at(agent)), 200)).data).toEqual([made]);
  });

  it("with an integration is active at once; its tokens are sealed, open in this row alone, and are never shown", async () => {
    const { install } = await start();
    const integration = { ...TOKENS, metadata: { team: aSecret() }, workspace_key: "w" };
    const made = await install("integration/slack", { integration, config: { channels: ["general"] } });
    expect(made.state).toBe("active");
    const open = async () => {
      const [row] = await sql(
        `select *, encode(sealed, 'hex') as s, encode(tag, 'hex') as t from data.agent_installations where id = $1`,
        [made.id],
      );
      const slot = { table: "agent_installations", app: row.app_id, sandbox: row.sandbox_id, id: made.id } as const;
      const [sealed, tag] = [row.s, row.t].map((hex) => new Uint8Array(Buffer.from(hex, "hex")));
      const place = sealedTables.agent_installations.map((column) => row[column]);
      return JSON.parse(await openFor(system.secrets.ROOT_SECRETS, { slot, place, sealed: sealed!, tag: tag! }));
    };
    expect(await open()).toEqual(integration);
    await sql("update data.agent_installations set kind = 'integration/github' where id = $1", [made.id]);
    await expect(open()).rejects.toThrow("does not open");
  });

  it.each([
    ["an unknown kind", { kind: "integration/fax" }, "kind"],
    ["an inherited name", { kind: "constructor" }, "kind"],
    [
      "both integrations",
      { kind: "integration/github", integration: TOKENS, shared_integration: "int_1" },
      "shared_integration",
    ],
    [
      "a shared integration, since there is none",
      { kind: "integration/github", shared_integration: "int_1" },
      "shared_integration",
    ],
    ["an empty integration", { kind: "integration/github", integration: {} }, "integration"],
    ["an integration for what takes none", { kind: "memory/long-term", integration: TOKENS }, "integration"],
    ["a config of another type", { kind: "web/site", config: { url: 1 } }, "config.url"],
    ["a config out of form", { kind: "web/site", config: { url: "ftp://a.example" } }, "config.url"],
    ["a list that is none", { kind: "integration/slack", config: { channels: "general" } }, "config.channels"],
    ["a list too long", { kind: "integration/slack", config: { channels: Array(21).fill("c") } }, "config.channels"],
    [
      "an item out of form",
      { kind: "integration/github", config: { repositories: ["a/b", "c"] } },
      "config.repositories",
    ],
    ["a config too large", { kind: "web/site", config: { notes: "x".repeat(13_000) } }, "config"],
    ["a lookup_key with capitals", { kind: "web/site", lookup_key: "Docs" }, "lookup_key"],
    ["a lookup_key too long", { kind: "web/site", lookup_key: "d".repeat(101) }, "lookup_key"],
  ])("refuses %s: 422", async (_, body, field) => {
    const { owner, agent } = await start();
    const answer = await owner("POST", at(agent), body);
    expect([answer.status, answer.body.error.fields?.[0]?.field]).toEqual([422, field]);
  });

  it("keeps a lookup_key once an org: 409, and another org may have it", async () => {
    const { owner, agent, install, as, globex } = await start();
    await install("web/site", { lookup_key: "docs" });
    const again = await owner("POST", at(agent), { kind: "web/site", lookup_key: "docs" });
    expect([again.status, again.body.error.fields[0].field]).toEqual([409, "lookup_key"]);
    const other = as(globex);
    await must(other("POST", at(await anAgent(other)), { kind: "web/site", lookup_key: "docs" }), 200);
  });
});

describe("the states of an installation", () => {
  const ask = (call: any, row: any, verb: string, body?: object) => call("POST", `${one(row)}/${verb}`, body);

  it("go from pending to active and paused and back; again is nothing new", async () => {
    const { owner, install, agent } = await start();
    const made = await install("memory/long-term");
    const active = await must(ask(owner, made, "activate"), 200);
    expect(active).toEqual({ ...made, state: "active", updated_at: active.updated_at });
    expect(await must(ask(owner, made, "activate"), 200)).toEqual(active);
    expect((await must(ask(owner, made, "pause"), 200)).state).toBe("paused");
    expect((await must(ask(owner, made, "activate"), 200)).state).toBe("active");
    const { data } = await must(owner("GET", `/api/v1/activity_feed?agent[]=${agent.id}`), 200);
    expect(data.slice(0, 4).map(({ kind, title }: any) => [kind, title])).toEqual([
      ...[1, 2, 3].map(() => ["agent_installation.updated", "Installation updated: memory/long-term"]),
      ["agent_installation.created", "Installation created: memory/long-term"],
    ]);
  });

  it("refuse what they don't allow: 422 invalid_state", async () => {
    const { owner, install } = await start();
    const pending = await install("memory/long-term");
    const suspended = await must(ask(owner, await install("web/site"), "suspend", { reason: "A complaint" }), 200);
    expect([suspended.state, suspended.status_payload]).toEqual(["suspended", { reason: "A complaint" }]);
    for (const [row, verb] of [
      [pending, "pause"],
      [suspended, "pause"],
      [suspended, "suspend"],
      [suspended, "activate"],
    ] as const) {
      const answer = await ask(owner, row, verb);
      expect([verb, answer.status, answer.body.error.code]).toEqual([verb, 422, "invalid_state"]);
    }
    expect(await must(owner("GET", one(suspended)), 200)).toEqual(suspended);
    expect((await must(ask(owner, pending, "suspend"), 200)).status_payload).toBe(null);
  });

  it("don't come to active without the integration that the kind requires: 422", async () => {
    const { owner, install } = await start();
    for (const kind of Object.keys(installationKinds)) {
      const made = await install(kind);
      const wanted = /^(integration|enablement)\//.test(kind) ? 422 : 200;
      expect([kind, (await ask(owner, made, "activate")).status]).toEqual([kind, wanted]);
    }
    const bound = await install("integration/github", { integration: { installation_id: "42" } });
    await must(ask(owner, bound, "pause"), 200);
    expect((await must(ask(owner, bound, "activate"), 200)).state).toBe("active");
  });

  it.runIf(system.concurrent)("are changed once by two at once", async () => {
    const { owner, install } = await start();
    const made = await install("memory/long-term");
    const answers = await together(4, () => ask(owner, made, "suspend"));
    expect(answers.map(({ status }: any) => status).sort()).toEqual([200, 422, 422, 422]);
  });
});

describe("GET /api/v1/agent_installations", () => {
  it("lists those of the agents that are asked for, and that the viewer may read, by cursor", async () => {
    const { owner, agent, install, acme, aUser, aToken } = await start();
    const other = await anAgent(owner, {
      acl: { grants: [{ principal_type: "user", principal: (await aUser(acme)).id, actions: ["read"] }] },
    });
    const made = [await install("web/site"), await install("memory/long-term")].reverse();
    const hidden = await must(owner("POST", at(other), { kind: "web/site" }), 200);
    const list = async (query: string, call = owner) => must(call("GET", `/api/v1/agent_installations${query}`), 200);
    expect((await list("")).data).toEqual([hidden, ...made]);
    expect((await list(`?agent[]=${agent.id}`)).data).toEqual(made);
    expect((await list(`?agent[]=${agent.id}&agent[]=${other.id}`)).data.length).toBe(3);
    const first = await list("?limit=2");
    expect([first.data, first.has_more]).toEqual([[hidden, made[0]], true]);
    expect(await list(`?limit=2&after_cursor=${first.after_cursor}`)).toEqual({
      ...{ data: [made[1]], has_more: false, after_cursor: null },
    });
    const member = caller(bearer((await aToken((await aUser(acme)).id)).access_token));
    expect((await list("", member)).data).toEqual(made);
    expect((await member("GET", `/api/v1/agent_installations?agent[]=${other.id}`)).status).toBe(404);
  });
});

describe("the sources of an installation", () => {
  it("are answered whole, pending, and go with it", async () => {
    const { owner, agent, install } = await start();
    const site = await install("web/site");
    const payload = { url: "https://a.example/", depth: 1 };
    const made = await must(owner("POST", sources(site), { type: "scrape/site", payload }), 200);
    expect(made).toEqual({
      ...{ id: made.id, agent: agent.id, context_installation: site.id, type: "scrape/site", payload, metadata: {} },
      ...{ state: "pending", parent_source: null, team: null, thread: null, user: null },
      ...{ created_at: made.created_at, updated_at: made.created_at },
    });
    expect(made.id).toMatch(/^cso_[0-9A-Za-z]{22}$/);
    const other = await must(owner("POST", sources(site), { type: "web/link", payload }), 200);
    expect((await must(owner("GET", sources(site)), 200)).data).toEqual([other, made]);
    await must(owner("DELETE", `/api/v1/installation_sources/${made.id}`), 204);
    expect((await must(owner("GET", sources(site)), 200)).data).toEqual([other]);
    await must(owner("DELETE", one(site)), 204);
    expect((await owner("DELETE", `/api/v1/installation_sources/${other.id}`)).status).toBe(404);
    expect(await sql("select id from data.installation_sources where agent_id = $1", [agent.id])).toEqual([]);
  });

  it.each([
    ["web/site", "web/page", { url: "https://a.example" }, "type"],
    ["web/site", "knowledge/documents", {}, "type"],
    ["memory/long-term", "web/link", { url: "https://a.example" }, "type"],
    ["web/site", "web/link", {}, "payload.url"],
    ["web/site", "web/link", { url: "no url" }, "payload.url"],
    ["web/site", "web/link", { url: "https://a.example", text: "x".repeat(13_000) }, "payload"],
    ["archastro/files", "file/document", { file: "fil_1" }, "payload.file"],
  ])("of %s: %s (%#) is a 422", async (kind, type, payload, field) => {
    const { owner, install } = await start();
    const answer = await owner("POST", sources(await install(kind)), { type, payload });
    expect([answer.status, answer.body.error.fields[0].field]).toEqual([422, field]);
  });
});
