/**
 * The Worker that the bench holds the product against: bare Hono, the same statements through the same driver, and no
 * token to verify. As agentry_api it goes through the doors and under row security: what the walls cost, alone. As any
 * other role, which bypasses row security, it says `select 1` where a door would stand: the floor. Who asks is said in
 * the query string.
 */
import { type Context, Hono } from "hono";
import { base64url } from "jose";
import { CompiledQuery } from "kysely";
import type { Bundle } from "../lib/agents/bundle.ts";
import { createAgent, getAgent, listAgents } from "../lib/agents/queries.ts";
import { type CreateAgent, toAgent } from "../lib/agents/schema.ts";
import { type Credential, openDb } from "../lib/auth/allow.ts";
import type { Permission } from "../lib/auth/permissions.ts";
import { type AccessToken, signToken } from "../lib/auth/tokens.ts";
import { type Plan, planOf } from "../lib/bundles/plan.ts";
import { installAgent } from "../lib/bundles/queries.ts";
import { createConfig } from "../lib/configs/queries.ts";
import { type CreateConfig, toConfig } from "../lib/configs/schema.ts";
import { type Connection, connect } from "../lib/db/neon.ts";
import { NONE } from "../lib/db/schema.ts";
import { TenantDb } from "../lib/db/tenant-db.ts";
import { createEnvVar } from "../lib/env-vars/queries.ts";
import { type CreateEnvVar, toEnvVar } from "../lib/env-vars/schema.ts";
import type { Env } from "../lib/http/router.ts";
import { type Id, newId } from "../lib/ids.ts";
import { objectOf } from "../lib/objects/stub.ts";
import { createOrg } from "../lib/orgs/queries.ts";
import { type CreateOrg, toOrg } from "../lib/orgs/schema.ts";
import { paginate } from "../lib/paging.ts";
import { writableSession } from "../lib/sessions/queries.ts";
import type { SessionRow } from "../lib/sessions/remote.ts";
import { issue } from "../lib/tokens/issue.ts";
import { mintToken } from "../lib/tokens/queries.ts";
import type { MintToken } from "../lib/tokens/schema.ts";
import { listToolsOf } from "../lib/tools/queries.ts";
import { toTool } from "../lib/tools/schema.ts";

const app = new Hono<Env>();

function credentialOf(c: Context<Env>): Credential {
  const asked = c.req.query() as { app: Id<"app">; org: Id<"org">; user: Id<"user">; token: Id<"token">; key?: string };
  const inApp: Pick<Credential, "app" | "sandbox" | "beside"> = { app: asked.app, sandbox: NONE, beside: null };
  if (asked.key !== undefined) {
    return { kind: "key", ...inApp, hash: base64url.decode(asked.key) as Uint8Array<ArrayBuffer> };
  }
  return { kind: "user", ...inApp, org: asked.org, user: asked.user, token: asked.token, scopes: [] };
}

/** `select 1`, and no statement is compiled, as behind the doors: else the floor would lie higher than the house. */
const nothing = CompiledQuery.raw("select set_config('jit', 'off', true)");

/** The floor's database: no door, neither the credential's nor `app.within`. */
function floorOf(c: Context<Env>, credential: Credential): TenantDb {
  const { app, sandbox } = credential;
  const connection: Connection = (queries, mode) =>
    connect(c.env.DATABASE_URL, c.env.DATABASE)(
      queries.map((query) => (query.sql.startsWith("select app.") ? nothing : query)),
      mode,
    );
  return new TenantDb(
    connection,
    { enter: nothing, permission: "", viewer: credential, onTold: () => {} },
    credential.kind === "key" ? { kind: "app", app, sandbox } : { kind: "org", app, sandbox, org: credential.org },
    c.req.method === "GET" ? "read" : "write",
  );
}

function open(c: Context<Env>, permission: Permission) {
  const credential = credentialOf(c);
  const hasWalls = new URL(c.env.DATABASE_URL).username === "agentry_api";
  return hasWalls ? openDb(c, credential, permission) : floorOf(c, credential);
}

app.get("/", (c) => c.json({ status: "ok" }));

/** A fetch as the driver makes it, of so many characters that come to so many, and an answer of so many. */
app.get("/fetch", async (c) => {
  const { asked, answered, shown } = c.req.query();
  const body = "x".repeat(Number(asked));
  const response = await c.env.DATABASE!.fetch(`http://database/${answered}`, { method: "POST", body });
  return c.body((await response.text()).slice(0, Number(shown)).padEnd(Number(shown)));
});

app.get("/sign", async (c) => {
  const iat = Math.floor(Date.now() / 1000);
  const { app, org, user, token } = credentialOf(c) as Credential & AccessToken;
  const whose: AccessToken = { app, sandbox: NONE, org, user, token, scopes: ["full_access"] };
  return c.json({ access_token: await signToken(c.env, whose, { iat, exp: iat + 3600 }) });
});

app.get("/agents", async (c) => {
  const page = { page: 1, page_size: Number(c.req.query("page_size")) };
  return c.json(paginate(page, await listAgents(open(c, "agents:read"), page), toAgent));
});

app.get("/agents/:agent", async (c) => {
  return c.json(toAgent(await getAgent(open(c, "agents:read"), c.req.param("agent"))));
});

app.get("/agents/:agent/agent_tools", async (c) => {
  const tools = await listToolsOf(open(c, "tools:read"), c.req.param("agent"), undefined);
  return c.json({ data: tools.map(toTool) });
});

app.post("/agents", async (c) => {
  const db = open(c, "agents:write");
  const body = await c.req.json<CreateAgent>();
  const { template_bundle } = body;
  if (!template_bundle) return c.json(toAgent(await createAgent(db, newId("agent"), body)));
  const { agent, configs } = await installAgent(db, newId("agent"), body, await planLike(template_bundle), "");
  return c.json({ ...toAgent(agent), installed_configs: configs });
});

let planned: { text: string; suffix: string } | undefined;

/** The plan of a bundle that differs in its suffix alone from the one that was planned: with new ids, and no work. */
async function planLike(bundle: Bundle): Promise<Plan> {
  const suffix = bundle.lookup_key_suffix!;
  planned ??= { text: JSON.stringify(await planOf(bundle)), suffix };
  const ids = new Map<string, string>();
  const fresh = (id: string, prefix: string) => {
    if (!ids.has(id)) ids.set(id, prefix + newId("agent").slice(3));
    return ids.get(id)!;
  };
  return JSON.parse(planned.text.replace(/\b([a-z]{3})_[0-9A-Za-z]{22}\b/g, fresh).replaceAll(planned.suffix, suffix));
}

type Inbox = Rpc.DurableObjectBranded & { message(row: SessionRow, message: object): Promise<{ id: number }> };

/** The same row by the same door, and an object that writes: bench/inbox.ts. */
app.post("/agent_sessions/:session/message", async (c) => {
  const db = open(c, "sessions:write");
  const body = await c.req.json<{ content: string }>();
  const row = await writableSession(db, c.req.param("session") as Id<"agent_session">);
  const inboxes = c.env.SESSIONS as unknown as DurableObjectNamespace<Inbox>;
  return c.json(await objectOf(inboxes, row).message(row, body));
});

app.post("/agents/:agent/agent_env_vars", async (c) => {
  const db = open(c, "env_vars:write");
  const body = await c.req.json<CreateEnvVar>();
  const { agent } = c.req.param();
  return c.json(toEnvVar(await createEnvVar(db, c.env.ROOT_SECRETS, agent, newId("agent_env_var"), body)));
});

app.post("/config", async (c) => {
  const db = open(c, "configs:write");
  return c.json(toConfig(await createConfig(db, newId("config"), await c.req.json<CreateConfig>())), 201);
});

app.post("/orgs", async (c) => {
  const db = open(c, "developer:write");
  return c.json(toOrg(await createOrg(db, newId("org"), await c.req.json<CreateOrg>())), 201);
});

app.post("/users/:user/tokens", async (c) => {
  const db = open(c, "developer:write");
  const user = c.req.param("user") as Id<"user">;
  const minted = await mintToken(db, user, newId("token"), await c.req.json<MintToken>());
  const { row, access_token, refresh_token, expires_in } = await issue(c.env, minted.token, minted.generation);
  const { id, expires_at, scopes } = row;
  const scope = scopes.join(" ");
  return c.json({ id, access_token, refresh_token, token_type: "Bearer", expires_in, expires_at, scope, scopes }, 201);
});

export default app;
