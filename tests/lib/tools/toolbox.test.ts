import { CompiledQuery } from "kysely";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createAgent } from "../../../lib/agents/queries.ts";
import { mac } from "../../../lib/auth/secrets.ts";
import { faultOf } from "../../../lib/configs/json-schema.ts";
import { createConfig } from "../../../lib/configs/queries.ts";
import { connect } from "../../../lib/db/neon.ts";
import { NONE } from "../../../lib/db/schema.ts";
import { TenantDb } from "../../../lib/db/tenant-db.ts";
import { createEnvVar, readSecrets } from "../../../lib/env-vars/queries.ts";
import { type Id, newId } from "../../../lib/ids.ts";
import { createSkill, setSkillStatus } from "../../../lib/skills/queries.ts";
import { sessionFunctions } from "../../../lib/tools/builtins.ts";
import type { OfferedTool, ToolAnswer } from "../../../lib/tools/calls.ts";
import { catalog } from "../../../lib/tools/catalog.ts";
import { createTool } from "../../../lib/tools/queries.ts";
import type { CreateTool } from "../../../lib/tools/schema.ts";
import { MAX_RESULT, pinAgent, Toolbox } from "../../../lib/tools/toolbox.ts";
import { ownSystem } from "../../harness/own.ts";
import { anAsk, aServer, computer } from "./support.ts";

const SECRET = "a-secret/of the agent";

let own: Awaited<ReturnType<typeof ownSystem>>;
let server: Awaited<ReturnType<typeof aServer>>;
let app: Id<"app">;
/** As an object of the app has it. */
let db: TenantDb;
const mode: "write" | "read" = "write";
let agent: Id<"agent">;

beforeAll(async () => {
  server = await aServer(({ url, headers }, response) => {
    if (url === "/long") return void response.end("é".repeat(100_000));
    response.setHeader("Content-Type", "application/json");
    response.end(JSON.stringify({ url, key: headers.authorization ?? null }));
  });
  own = await ownSystem();
  app = (await own.newApp()).app_id;
  const tag = await mac(own.root, ["object", app, NONE, NONE].join("."), "door");
  const enter = CompiledQuery.raw("select app.enter_object($1, $2, $3, $4)", [app, NONE, NONE, tag]);
  const door = { enter, permission: "self", viewer: { kind: "object" }, onTold: () => {} } as const;
  db = new TenantDb(
    (queries) => connect(own.url)(queries, mode),
    door,
    { kind: "org", app, sandbox: NONE, org: NONE },
    "write",
  );
  agent = await anAgent();
  await createEnvVar(db, own.root, agent, newId("agent_env_var"), { key: "KEY", value: SECRET });
}, 120_000);
afterAll(async () => {
  await server.close();
  await own.close();
});

async function anAgent(more: object = {}) {
  const id = newId("agent");
  await createAgent(db, id, { name: "Ada", identity: "You are Ada.", model: "scripted/echo", ...more } as never);
  return id;
}
async function aConfig(kind: string, text: string, more: object = {}) {
  const id = newId("config");
  const mime_type = kind === "Script" || kind === "Skill" || kind === "File" ? "text/plain" : "application/yaml";
  await createConfig(db, id, { kind, raw_content: text, mime_type, ...more } as never);
  return id;
}
async function aTool(of: Id<"agent">, body: Partial<CreateTool>) {
  const id = newId("agent_tool");
  await createTool(db, of, id, { status: "active", ...body } as CreateTool);
  return id;
}
const parameters = { type: "object", properties: { id: { type: "string" } }, additionalProperties: false };
const custom = { kind: "custom", name: "t", description: "Does it.", parameters } as const;

async function toolboxOf(of: Id<"agent">, more: object = {}) {
  const { agent: pinned, secrets } = (await pinAgent(db, own.root, of))!;
  const toolbox = new Toolbox(pinned, {
    ...{ db, env: { ALLOW_LOOPBACK: "127.0.0.1", COMPUTE: computer() } as never, user: null, secrets: () => secrets },
    place: { app, org: null },
    ...more,
  });
  const call = (name: string, args: Record<string, unknown> = {}, asking: object = {}): Promise<ToolAnswer> => {
    const tool = pinned.tools.find((one) => one.name === name);
    if (!tool) throw new Error(`there is no ${name}`);
    return toolbox.call(tool, anAsk(args, asking).ask);
  };
  return { pinned, toolbox, call };
}

describe("an agent is pinned", () => {
  it("in one round trip, with its active tools, servers and skills at their versions, and its secrets beside them", async () => {
    const id = await anAgent();
    await createEnvVar(db, own.root, id, newId("agent_env_var"), { key: "KEY", value: SECRET });
    const get = await aConfig(
      "HttpTool",
      `method: GET\nurl: ${server.base}/{{ id }}\nauth: { env_var: KEY, as: bearer }`,
    );
    const put = await aConfig("HttpTool", `method: PUT\nurl: ${server.base}/{{ id }}`);
    const post = await aConfig("HttpTool", `method: POST\nurl: ${server.base}/`);
    const script = await aConfig("Script", "$.id");
    const said = await aConfig("Config", JSON.stringify(parameters), { mime_type: "application/json" });
    const bad = await aConfig("Config", "- no schema");
    const mcp = await aConfig("McpServer", `url: ${server.base}/mcp`);
    const http = { ...custom, handler_type: "http" } as const;
    await aTool(id, { ...http, name: "get", name_prefix: "shop", config: get, instruction: "Only for orders." });
    await aTool(id, { ...http, name: "put", config: put });
    await aTool(id, { ...http, name: "post", config: post, approval: "required" });
    await aTool(id, { ...http, name: "safe", config: post, effect: "read" });
    await aTool(id, { ...http, name: "off", config: post, status: "disabled" });
    await aTool(id, { ...custom, name: "script", handler_type: "script", config: script, async: true });
    await aTool(id, { ...http, name: "told", config: get, parameters: null, parameters_config: said });
    await aTool(id, { ...http, name: "mistold", config: get, parameters: null, parameters_config: bad });
    await aTool(id, { kind: "mcp", name: "m", config: mcp, name_prefix: "m", instruction: "Ask it." });
    await aTool(id, { kind: "builtin", builtin_tool_key: "memory", instruction: "Keep little." });
    await aTool(id, { kind: "builtin", builtin_tool_key: "search" });
    const matter = (name: string) =>
      `---\nname: ${name}\ndescription: All about ${name}.\n---\n# ${name}\n${"x".repeat(100_000)}`;
    const skills: Id<"agent_skill">[] = [];
    for (const [name, instruction] of [
      ["one", null],
      ["two", "Always."],
      ["three", null],
    ] as const) {
      const skill = newId("agent_skill");
      const config = await aConfig("Skill", matter(name));
      await createSkill(db, skill, { agent: id, config, instruction });
      skills.push(skill);
    }
    for (const skill of skills.slice(0, 2)) await setSkillStatus(db, skill, "active");

    const before = own.trips();
    const { agent: pinned, secrets } = (await pinAgent(db, own.root, id))!;
    expect(own.trips() - before).toBe(1);
    expect(secrets).toEqual({ KEY: SECRET });
    expect(pinned).toMatchObject({ id, name: "Ada", identity: "You are Ada.", model: "scripted/echo" });
    expect(
      pinned.tools.map(({ name, effect, approval, async, handler }) => [name, effect, approval, async, handler.type]),
    ).toEqual([
      ["shop_get", "read", "none", false, "http"],
      ["put", "idempotent", "none", false, "http"],
      ["post", "once", "required", false, "http"],
      ["safe", "read", "none", false, "http"],
      ["script", "once", "none", true, "script"],
      ["told", "read", "none", false, "http"],
      ["memory_store", "idempotent", "none", false, "builtin"],
      ["memory_recall", "read", "none", false, "builtin"],
    ]);
    expect(pinned.tools[0]).toMatchObject({
      description: "Does it.\n\nOnly for orders.",
      handler: { config: { id: get, version: 1 } },
    });
    expect(pinned.tools.find(({ name }) => name === "told")!.parameters).toEqual(parameters);
    expect(pinned.tools.at(-1)!.description).toMatch(/\n\nKeep little\.$/);
    expect(pinned.servers).toEqual([
      expect.objectContaining({ prefix: "m", instruction: "Ask it.", effect: null, config: { id: mcp, version: 1 } }),
    ]);
    expect(pinned.skills.map(({ name, description }) => [name, description])).toEqual([
      ["one", "All about one."],
      ["two", "Always."],
    ]);
    expect(JSON.stringify(pinned)).not.toContain("secret");
    expect(JSON.parse(JSON.stringify(pinned))).toEqual(pinned);
  });

  it("not at all, where there is none", async () => {
    expect(await pinAgent(db, own.root, newId("agent"))).toBeNull();
  });
});

describe("the agent's env vars", () => {
  it("are read in one round trip, of that agent alone", async () => {
    const before = own.trips();
    expect(await readSecrets(db, own.root, agent)).toEqual({ KEY: SECRET });
    expect(own.trips() - before).toBe(1);
    expect(await readSecrets(db, own.root, await anAgent())).toEqual({});
  });
});

describe("a call", () => {
  it("goes to where the tool's config said when the session began, and shows no secret, though the server does", async () => {
    const id = await anAgent();
    await createEnvVar(db, own.root, id, newId("agent_env_var"), { key: "KEY", value: SECRET });
    const config = await aConfig(
      "HttpTool",
      `method: GET\nurl: ${server.base}/a/{{ id }}\nauth: { env_var: KEY, as: bearer }`,
    );
    await aTool(id, { ...custom, handler_type: "http", config });
    const { call } = await toolboxOf(id);
    for (const _ of [1, 2]) {
      const before = own.trips();
      expect(await call("t", { id: SECRET })).toEqual({
        ok: {
          content: null,
          resolution: { status: 200, content_type: "application/json", body: { url: "/a/****", key: "Bearer ****" } },
        },
      });
      expect(own.trips() - before).toBe(_ === 1 ? 1 : 0);
    }
    expect(server.asked.at(-1)!.headers.authorization).toBe(`Bearer ${SECRET}`);
  });

  it("with arguments that don't fit the schema is an error, and does nothing", async () => {
    const config = await aConfig("HttpTool", `method: POST\nurl: ${server.base}/`);
    await aTool(agent, { ...custom, name: "strict", handler_type: "http", config });
    const { call } = await toolboxOf(agent);
    const before = server.asked.length;
    expect(await call("strict", { id: 1, more: 2 })).toEqual({
      error: expect.stringMatching(/\/id must be of type string.*\/more/),
    });
    expect(server.asked.length).toBe(before);
  });

  it("gives no more than so much, and says how long it was", async () => {
    const id = await anAgent();
    const long = await aConfig("HttpTool", `method: GET\nurl: ${server.base}/long`);
    await aTool(id, { ...custom, name: "text", handler_type: "http", config: long });
    const lists = await aConfig("Script", 'array.map(array.range(20000), fn(i) { "item" })');
    await aTool(id, { ...custom, name: "json", handler_type: "script", config: lists });
    const fails = await aConfig("Script", 'unwrap(result.err(string.repeat("x", 100000)))');
    await aTool(id, { ...custom, name: "fails", handler_type: "script", config: fails });
    const { call } = await toolboxOf(id);
    for (const [name, length] of [
      ["text", 100_000],
      ["json", 140_001],
    ] as const) {
      const answer = await call(name);
      const { content, resolution } = "ok" in answer ? answer.ok : expect.unreachable();
      expect(content!.length + (resolution ? JSON.stringify(resolution).length : 0)).toBeLessThanOrEqual(MAX_RESULT);
      expect(content).toMatch(new RegExp(`\\n\\[cut: this is the beginning of ${length} characters\\]$`));
    }
    const answer = await call("fails");
    expect("error" in answer && answer.error.length).toBe(4000);
  });

  it("of a config that is gone is an error; a database that fails is thrown", async () => {
    const { toolbox, pinned } = await toolboxOf(agent);
    const handler = { type: "http", config: { id: newId("config"), version: 1 } } as const;
    const tool: OfferedTool = { ...pinned.tools[0]!, parameters: { type: "object" }, handler };
    expect(await toolbox.call(tool, anAsk().ask)).toEqual({ error: expect.stringContaining("isn't there any more") });
    const gone = () => {
      throw new Error("the database is gone");
    };
    const world = { env: { COMPUTE: computer() } as never, user: null, secrets: () => ({}), place: { app, org: null } };
    const broken = new Toolbox(pinned, { ...world, db: new Proxy(db, { get: gone }) });
    await expect(broken.call(tool, anAsk().ask)).rejects.toThrow("the database is gone");
  });

  it("ends with the session, which learns why, and begins nothing after it", async () => {
    const id = await anAgent();
    const config = await aConfig("Script", "let f = fn(n) { if (n < 2) { n } else { f(n - 1) + f(n - 2) } }\nf(40)");
    await aTool(id, { ...custom, handler_type: "script", config });
    const { call } = await toolboxOf(id);
    const stop = new AbortController();
    const calling = call("t", {}, { signal: stop.signal });
    setTimeout(() => stop.abort(new Error("cancelled")), 100);
    await expect(calling).rejects.toThrow("cancelled");
    await expect(call("t", {}, { signal: stop.signal })).rejects.toThrow("cancelled");
  });
});

describe("a script of a tool", () => {
  it("sees agents as the session's agent does: by its lists, and by the user's that it works for", async () => {
    const id = await anAgent();
    const config = await aConfig(
      "Script",
      "array.sort(array.map(unwrap(agents.list({ page_size: 100 })).data, fn(a) { a.name }))",
    );
    await aTool(id, { ...custom, handler_type: "script", config });
    const user = newId("user");
    await db.insertInto("users", { id: user, name: "U", email: null } as never).execute();
    const read = (grant: object) => ({ acl: { grants: [{ principal: null, actions: ["read"], ...grant }] } });
    await anAgent({ name: "for it", ...read({ principal_type: "agent", principal: id }) });
    await anAgent({ name: "for everyone", ...read({ principal_type: "everyone" }) });
    await anAgent({ name: "for the user", ...read({ principal_type: "user", principal: user }) });
    await anAgent({ name: "for admins", ...read({ principal_type: "org_role", principal: "admin" }) });
    await anAgent({ name: "for another", ...read({ principal_type: "agent", principal: agent }) });
    const names = async (more: object) => {
      const { call } = await toolboxOf(id, more);
      const answer = await call("t");
      const all = ("ok" in answer ? answer.ok.resolution : [JSON.stringify(answer)]) as string[];
      return all.filter((name) => name.startsWith("for "));
    };
    expect(await names({})).toEqual(["for everyone", "for it"]);
    expect(await names({ user })).toEqual(["for everyone", "for it", "for the user"]);
  });

  it("imports scripts of its place, as they were when the call began, and none that is somebody's own", async () => {
    const id = await anAgent();
    await aConfig("Script", '"shared"', { lookup_key: "shared-script" });
    await aConfig("Script", '"own"', { lookup_key: "own-script", agent: id });
    const other = await anAgent({
      acl: { grants: [{ principal_type: "agent", principal: agent, actions: ["read"] }] },
    });
    await aConfig("Script", '"other"', { lookup_key: "other-script", agent: other });
    const importing = (key: string) => aConfig("Script", `import("script:${key}")`);
    for (const name of ["shared", "own", "other"]) {
      await aTool(id, { ...custom, name, handler_type: "script", config: await importing(`${name}-script`) });
    }
    const { call } = await toolboxOf(id);
    for (const name of ["shared", "own"]) expect(await call(name)).toEqual({ ok: { content: null, resolution: name } });
    expect(await call("other")).toEqual({ error: expect.stringContaining("there is no script `other-script`") });
  });
});

describe("the builtins", () => {
  let call: Awaited<ReturnType<typeof toolboxOf>>["call"];
  let id: Id<"agent">;
  beforeAll(async () => {
    id = await anAgent();
    for (const { key, available } of catalog) {
      if (available) await aTool(id, { kind: "builtin", builtin_tool_key: key });
    }
    const config = await aConfig("Skill", "---\nname: refunds\ndescription: Money back.\n---\n# Refunds\nAlways.");
    await aConfig("File", "thirty days", { parent: config, relative_path: "rules/days.txt" });
    await aConfig("File", "/w==", { parent: config, relative_path: "logo.png", data_encoding: "base64" });
    const skill = newId("agent_skill");
    await createSkill(db, skill, { agent: id, config });
    await setSkillStatus(db, skill, "active");
    call = (await toolboxOf(id)).call;
  });
  const gives = async (name: string, args: Record<string, unknown> = {}, asking: object = {}) => {
    const answer = await call(name, args, asking);
    return "ok" in answer ? (answer.ok.resolution as any) : answer;
  };

  it("are all that the catalog says there are", async () => {
    const { pinned } = await toolboxOf(id);
    const told = catalog.filter(({ available }) => available).flatMap(({ tools }) => tools.map(({ name }) => name));
    expect(pinned.tools.map(({ name }) => name).sort()).toEqual(told.sort());
  });

  it("keep and recall what the agent writes down: once a key, for a while, by its parts", async () => {
    await gives("memory_store", { key: "color_of_sky", value: "blue" });
    await gives("memory_store", { key: "color_of_sky", value: "grey" });
    await gives("memory_store", { key: "gone", value: "x", expires_in_s: 1 });
    await gives(
      "memory_store",
      { key: "later", value: "y", expires_in_s: 86_400 },
      { begun_at: new Date().toISOString() },
    );
    const keys = async (args: object) =>
      (await gives("memory_recall", { ...args })).entries.map((one: any) => [one.key, one.value]);
    expect(await keys({ key: "color_of_sky" })).toEqual([["color_of_sky", "grey"]]);
    expect(await keys({ search: "_of_" })).toEqual([["color_of_sky", "grey"]]);
    expect(await keys({ search: "%" })).toEqual([]);
    expect(await keys({})).toEqual([
      ["later", "y"],
      ["color_of_sky", "grey"],
    ]);
    expect(await gives("memory_store", { key: "nul", value: "a\0b" })).toEqual({
      error: expect.stringContaining("without NUL"),
    });
    const feed = await own.database.query(
      "select kind from data.activity_feed_entries where agent_id = $1 and kind like 'working%' order by id",
      [id],
    );
    expect(feed.map(({ kind }) => kind)).toEqual(
      ["created", "updated", "created", "created"].map((e) => `working_memory_entry.${e}`),
    );
  });

  it("make a schedule once for a call, however often it is made", async () => {
    const args = { instructions: "Look again.", cron: "0 9 * * 1-5", timezone: "Europe/Berlin" };
    const made = await gives("create_schedule", args);
    expect(made).toMatchObject({ status: "active", cron: "0 9 * * 1-5", timezone: "Europe/Berlin" });
    expect(await gives("create_schedule", args, { attempt: 2 })).toEqual(made);
    const other = await gives(
      "create_schedule",
      { instructions: "x", at: "2099-01-01T00:00:00Z" },
      { idempotency_key: "key-2" },
    );
    expect(other.id).not.toBe(made.id);
    expect((await gives("list_schedules")).schedules.map((one: any) => one.id).sort()).toEqual(
      [made.id, other.id].sort(),
    );
    expect(await gives("cancel_schedule", { id: made.id })).toMatchObject({ status: "cancelled" });
    expect(await gives("cancel_schedule", { id: made.id })).toMatchObject({ status: "cancelled" });
    for (const args of [
      { instructions: "x" },
      { instructions: "x", at: "2020-01-01T00:00:00Z" },
      { instructions: "x", cron: "nonsense" },
    ]) {
      expect(await gives("create_schedule", args, { idempotency_key: "key-3" })).toEqual({
        error: expect.stringMatching(/^(at|cron): /),
      });
    }
    for (const wrong of ["nothing", newId("agent_schedule")]) {
      expect(await gives("cancel_schedule", { id: wrong })).toEqual({
        error: expect.stringMatching(/no such schedule/i),
      });
    }
  });

  it("read a skill as it was, and its files", async () => {
    const answer = await call("skills_read", { skill: "refunds" });
    expect(answer).toEqual({
      ok: {
        content: expect.stringMatching(/^---\nname: refunds[\s\S]*\n\nFiles: logo\.png, rules\/days\.txt$/),
        resolution: null,
      },
    });
    expect(await call("skills_read", { skill: "refunds", path: "rules/days.txt" })).toEqual({
      ok: { content: "thirty days", resolution: null },
    });
    for (const [skill, path, says] of [
      ["nothing", undefined, /There are: refunds/],
      ["refunds", "../x", /no such file.*rules\/days\.txt/],
      ["refunds", "logo.png", /no text/],
    ] as const) {
      expect(await call("skills_read", { skill, ...(path && { path }) })).toEqual({
        error: expect.stringMatching(says),
      });
    }
  });

  it("fetch a public address", async () => {
    expect(await call("http_fetch", { url: `${server.base}/x` })).toMatchObject({
      ok: { content: expect.stringContaining('"/x"') },
    });
    for (const url of ["http://10.0.0.1/", "data:text/plain,hi", "file:///etc/passwd"]) {
      expect(await call("http_fetch", { url })).toEqual({ error: expect.stringContaining("refused") });
    }
  });
});

describe("every session", () => {
  it("can ask, and finish with a result of its schema, wherever that refers to itself", () => {
    const schema = {
      type: "object",
      properties: { a: { $ref: "#/$defs/n" } },
      required: ["a"],
      $defs: { n: { type: "number" } },
    };
    const [ask, finish] = sessionFunctions(schema) as [OfferedTool, OfferedTool];
    expect([ask.name, finish.name]).toEqual(["ask_user", "finish"]);
    const fault = ({ parameters }: OfferedTool, given: object) => faultOf(parameters, given, "the arguments");
    expect(fault(finish, { result: { a: 1 } })).toBeNull();
    expect(fault(finish, { result: { a: "x" } })).toContain("/result/a must be of type number");
    expect(fault(sessionFunctions(null)[1]!, { result: { any: "thing" } })).toBeNull();
    expect(fault(ask, {})).toContain('must have "question"');
  });
});
