import { describe, expect, it } from "vitest";
import { catalog, reservedNames } from "../../lib/tools/catalog.ts";
import { anAgent, anApp, type Call, must, together, unique } from "../harness/index.ts";

const at = (agent: { id: string }) => `/api/v1/agents/${agent.id}/agent_tools`;
const faultsOf = ({ status, body }: { status: number; body: any }) => [
  status,
  ...(body.error?.fields ?? []).map(({ field }: any) => field),
];

const sources = {
  HttpTool: ["application/json", JSON.stringify({ method: "GET", url: "https://api.example.com/things" })],
  Script: ["text/plain", "1 + 1"],
  WorkflowGraph: ["application/json", JSON.stringify({ nodes: [{ kind: "WorkflowTrigger", id: "start" }] })],
  McpServer: ["application/json", JSON.stringify({ url: "https://mcp.example.com", transport: "streamable_http" })],
} as const;
const aConfig = (call: Call, kind: keyof typeof sources, fields: object = {}): Promise<any> => {
  const [mime_type, raw_content] = sources[kind];
  return must(
    call("POST", "/api/v1/config", { kind, mime_type, raw_content, lookup_key: unique(kind), ...fields }),
    201,
  );
};
const custom = (config: { id: string }, fields: object = {}) => ({
  ...{ kind: "custom", name: "look_up", description: "Looks things up", handler_type: "http", config: config.id },
  parameters: { type: "object", properties: { q: { type: "string" } } },
  ...fields,
});

async function start() {
  const app = await anApp();
  const owner = app.as(app.acme);
  const agent = await anAgent(owner);
  const http = await aConfig(owner, "HttpTool");
  const make = (body: object) => owner("POST", at(agent), body);
  return { ...app, owner, agent, http, make, made: (body: object) => must(make(body), 200) };
}

describe("POST /api/v1/agents/{agent}/agent_tools", () => {
  it("answers the whole tool, disabled unless it is made active", async () => {
    const { app, agent, http, made } = await start();
    const tool = await made(custom(http));
    expect(tool).toEqual({
      ...{ id: tool.id, app, agent: agent.id, kind: "custom", status: "disabled", name: "look_up", name_prefix: null },
      ...{ description: "Looks things up", instruction: null, handler_type: "http", config: http.id },
      ...{ parameters: custom(http).parameters, parameters_config: null, builtin_tool_key: null },
      ...{ builtin_tool_config: null, effect: null, approval: "none", async: false, lookup_key: null, metadata: {} },
      ...{ setup: null, last_applied_template_config: null, created_at: tool.created_at, updated_at: tool.created_at },
    });
    expect((await made(custom(http, { status: "draft" }))).status).toBe("disabled");
    expect((await made(custom(http, { status: "active" }))).status).toBe("active");
  });

  it.each([
    [
      "a custom one without its parts",
      { kind: "custom" },
      ["name", "description", "handler_type", "config", "parameters"],
    ],
    ["a builtin without its key", { kind: "builtin" }, ["builtin_tool_key"]],
    ["a builtin of another catalog", { kind: "builtin", builtin_tool_key: "telepathy" }, ["builtin_tool_key"]],
    ["a builtin with a config", { kind: "builtin", builtin_tool_key: "memory", config: "x" }, ["config"]],
    ["a server of tools without a config", { kind: "mcp", name: "github" }, ["config"]],
    ["a custom one with a builtin's key", { builtin_tool_key: "memory" }, ["builtin_tool_key"]],
    ["a name that no model could call", { name: "look up" }, ["name"]],
    ["a name too long with its prefix", { name: "x".repeat(60), name_prefix: "prefix" }, ["name"]],
    ["a handler that is agentry's own", { handler_type: "builtin" }, ["handler_type"]],
    [
      "parameters that are no schema",
      { parameters: { type: "object", properties: { a: { type: "colour" } } } },
      ["parameters"],
    ],
    ["parameters that are no object's", { parameters: { type: "string" } }, ["parameters"]],
    [
      "parameters with a pattern that no engine runs in linear time",
      { parameters: { type: "object", properties: { a: { pattern: "(?=a)b" } } } },
      ["parameters"],
    ],
    [
      "a builtin's config that it doesn't take",
      { kind: "builtin", builtin_tool_key: "memory", builtin_tool_config: { a: 1 } },
      ["builtin_tool_config"],
    ],
    ["an effect that is none", { effect: "twice" }, ["effect"]],
    ["a config that isn't there", { config: "cfg_0000000000000000000001" }, ["config"]],
  ])("refuses %s: 422", async (_, body, fields) => {
    const { http, make } = await start();
    expect(faultsOf(await make("kind" in body ? body : custom(http, body)))).toEqual([422, ...fields]);
  });

  it("refuses a config of another kind than the handler runs, and another org's", async () => {
    const { owner, make, http, as, globex } = await start();
    const script = await aConfig(owner, "Script");
    const foreign = await aConfig(as(globex), "HttpTool");
    expect(faultsOf(await make(custom(script)))).toEqual([422, "config"]);
    expect(faultsOf(await make(custom(http, { handler_type: "script" })))).toEqual([422, "config"]);
    expect(faultsOf(await make(custom(foreign)))).toEqual([422, "config"]);
    expect(faultsOf(await make({ kind: "mcp", name: "m", config: http.id }))).toEqual([422, "config"]);
  });

  it("takes a config by its lookup_key, of each kind that runs", async () => {
    const { owner, made } = await start();
    for (const [handler_type, kind] of [
      ["http", "HttpTool"],
      ["script", "Script"],
      ["workflow_graph", "WorkflowGraph"],
    ] as const) {
      const config = await aConfig(owner, kind);
      const tool = await made(custom(config, { handler_type, config: config.lookup_key }));
      expect(tool.config).toBe(config.id);
    }
    const server = await aConfig(owner, "McpServer");
    const tool = await made({ kind: "mcp", name: "github", config: server.lookup_key });
    expect([tool.config, tool.setup.protocol_status]).toEqual([server.id, "not_checked"]);
  });

  it("keeps the names of builtin functions, finish and ask_user for itself, also behind a prefix", async () => {
    const { http, make, made, owner } = await start();
    expect([...reservedNames]).toEqual(expect.arrayContaining(["finish", "ask_user", "memory_store", "wait"]));
    for (const name of ["finish", "ask_user", "memory_store"]) {
      expect(faultsOf(await make(custom(http, { name })))).toEqual([422, "name"]);
    }
    expect(faultsOf(await make(custom(http, { name_prefix: "memory", name: "store" })))).toEqual([422, "name"]);
    const tool = await made(custom(http, { name_prefix: "memory", name: "keep" }));
    for (const body of [{ name: "store" }, { name: "finish", name_prefix: null }]) {
      expect(faultsOf(await owner("PATCH", `/api/v1/agent_tools/${tool.id}`, body))).toEqual([422, "name"]);
    }
  });

  it("gives two active tools no one name: 409, however many come at once; disabled ones may share it", async () => {
    const { http, owner, agent, made } = await start();
    const [one, other] = [await made(custom(http)), await made(custom(http))];
    const activate = (tool: any) => owner("POST", `/api/v1/agent_tools/${tool.id}/activate`);
    const answers = await together(2, (i) => activate([one, other][i]));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409]);
    expect(faultsOf(answers.find(({ status }) => status === 409)!)).toEqual([409, "name"]);
    const split = custom(http, { name: "up", name_prefix: "look", status: "active" });
    expect(faultsOf(await owner("POST", at(agent), split))).toEqual([409, "name"]);
  });

  it("keeps a lookup_key once an agent: 409", async () => {
    const { http, make, made, owner } = await start();
    await made(custom(http, { lookup_key: "search" }));
    expect(faultsOf(await make(custom(http, { lookup_key: "search" })))).toEqual([409, "lookup_key"]);
    const other = await anAgent(owner);
    await must(owner("POST", at(other), custom(http, { lookup_key: "search" })), 200);
  });
});

describe("a builtin", () => {
  it.each(catalog.map(({ key, available }) => [key, available] as const))(
    "%s is installed, and activated if something stands behind it (%s); else an action says that nothing does",
    async (key, available) => {
      const { owner, agent, made, make } = await start();
      const tool = await made({ kind: "builtin", builtin_tool_key: key, status: "active" });
      expect([tool.status, tool.handler_type]).toEqual([available ? "active" : "disabled", "builtin"]);
      const actions = async () =>
        (await must(owner("GET", `/api/v1/agents/${agent.id}/agent_health_actions`), 200)).data;
      const path = `/api/v1/agent_tools/${tool.id}`;
      const activated = await owner("POST", `${path}/activate`);
      if (available) {
        expect([activated.status, await actions()]).toEqual([200, []]);
      } else {
        expect([activated.status, activated.body.error.code]).toEqual([422, "not_available"]);
        const [action, ...others] = await actions();
        expect([action.params.tool, action.source, action.required, others]).toEqual([tool.id, "health", false, []]);
      }
      expect(faultsOf(await make({ kind: "builtin", builtin_tool_key: key }))).toEqual([409, "builtin_tool_key"]);
      await must(owner("DELETE", path), 204);
      expect(await actions()).toEqual([]);
    },
  );

  it("is in the catalog with its functions, one name each", async () => {
    const { owner } = await start();
    const entries = await must(owner("GET", "/api/v1/agent_tools/catalog"), 200);
    const known =
      "search knowledge_search integrations long_term_memory memory artifacts task_list skills sub_agents wait scheduling computer images";
    expect(entries.map(({ key }: any) => key)).toEqual(expect.arrayContaining(known.split(" ")));
    const names = entries.flatMap(({ tools }: any) => tools.map(({ name }: any) => name));
    expect(new Set(names).size).toBe(names.length);
    for (const name of names) expect(reservedNames).toContain(name);
  });
});

describe("PATCH /api/v1/agent_tools/{tool}", () => {
  it("changes what it is sent, null clears, and a tool keeps its kind", async () => {
    const { owner, http, made } = await start();
    const tool = await made(custom(http, { effect: "read", approval: "required", async: true, metadata: { a: 1 } }));
    const patch = (body: object) => owner("PATCH", `/api/v1/agent_tools/${tool.id}`, body);
    const cleared = { effect: null, approval: null, async: null, metadata: null, instruction: "Ask first" };
    expect(await must(patch(cleared), 200)).toMatchObject({
      ...{ effect: null, approval: "none", async: false, metadata: {}, instruction: "Ask first", name: "look_up" },
    });
    expect(faultsOf(await patch({ kind: "mcp" }))).toEqual([422, "kind"]);
  });

  it("refuses what a tool of its kind can't have or can't be without: 422 with the fields", async () => {
    const { owner, http, made } = await start();
    const tool = await made(custom(http));
    const memory = await made({ kind: "builtin", builtin_tool_key: "memory" });
    const patch = (id: string, body: object) => owner("PATCH", `/api/v1/agent_tools/${id}`, body);
    expect(faultsOf(await patch(memory.id, { config: http.id, effect: "read" }))).toEqual([422, "config", "effect"]);
    expect(faultsOf(await patch(tool.id, { builtin_tool_config: {} }))).toEqual([422, "builtin_tool_config"]);
    expect(faultsOf(await patch(tool.id, { config: null }))).toEqual([422, "config"]);
    expect(faultsOf(await patch(tool.id, { name: null }))).toEqual([422, "name"]);
    expect(faultsOf(await patch(tool.id, { handler_type: "script" }))).toEqual([422, "config"]);
  });

  it("moves a tool to another handler together with a config of its kind", async () => {
    const { owner, http, made } = await start();
    const tool = await made(custom(http));
    const script = await aConfig(owner, "Script");
    const body = { handler_type: "script", config: script.lookup_key };
    expect(await must(owner("PATCH", `/api/v1/agent_tools/${tool.id}`, body), 200)).toMatchObject({
      ...{ handler_type: "script", config: script.id },
    });
  });
});

describe("GET /api/v1/agent_tools", () => {
  it("lists the tools of all agents or of those named, by kind, newest first and page by page", async () => {
    const { owner, http, agent, made } = await start();
    const other = await anAgent(owner, { lookup_key: unique("other") });
    const one = await made(custom(http));
    const two = await made({ kind: "builtin", builtin_tool_key: "memory" });
    const three = await must(owner("POST", at(other), custom(http)), 200);
    const list = async (query: string) => must(owner("GET", `/api/v1/agent_tools${query}`), 200);
    const ids = async (query: string) => (await list(query)).data.map(({ id }: any) => id);
    expect(await ids("")).toEqual([three.id, two.id, one.id]);
    expect(await ids(`?agent[]=${agent.id}`)).toEqual([two.id, one.id]);
    expect(await ids(`?agent[]=${other.lookup_key}&agent[]=${agent.id}&kind=custom`)).toEqual([three.id, one.id]);
    const first = await list("?limit=2");
    expect([first.data.length, first.has_more]).toEqual([2, true]);
    const last = await list(`?limit=2&after_cursor=${first.after_cursor}`);
    expect([last.data.map(({ id }: any) => id), last.has_more, last.after_cursor]).toEqual([[one.id], false, null]);
    expect((await owner("GET", "/api/v1/agent_tools?agent[]=nobody")).status).toBe(404);
    expect((await owner("GET", `/api/v1/agent_tools?agent[]=${agent.id}&agent[]=nobody`)).status).toBe(404);
  });
});

describe("a tool's template", () => {
  it("makes the tool what it says, but for what is sent beside it; status, key and kind stay", async () => {
    const { owner, http, made } = await start();
    const script = await aConfig(owner, "Script");
    const tool = await made(custom(http, { status: "active", lookup_key: "mine" }));
    const path = `/api/v1/agent_tools/${tool.id}`;
    const said = {
      ...{ kind: "AgentToolTemplate", name: "sum", display_name: "Sum", description: "Adds.", status: "draft" },
      ...{ handler_type: "script", config_ref: script.lookup_key, parameters: { type: "object", required: ["a"] } },
    };
    const template = await must(
      owner("POST", "/api/v1/config", {
        ...{ kind: "AgentToolTemplate", lookup_key: unique("sum"), mime_type: "application/json" },
        raw_content: JSON.stringify(said),
      }),
      201,
    );
    const changed = await must(owner("PATCH", path, { template: template.lookup_key, description: "Mine." }), 200);
    expect(changed).toEqual({
      ...{ ...tool, name: "sum", description: "Mine.", handler_type: "script", config: script.id },
      ...{ parameters: said.parameters, last_applied_template_config: template.id, updated_at: changed.updated_at },
    });
    expect(faultsOf(await owner("PATCH", path, { template: "nothing" }))).toEqual([422, "template"]);
  });
});
