/** The official client, unchanged, with nothing but `baseUrl` set, through all that a new user can do. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { PlatformClient } from "@archastro/sdk";
import { createRemoteJWKSet, jwtVerify } from "jose";
import jsonwebtoken from "jsonwebtoken";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { newId } from "../lib/ids.ts";
import { aSecret } from "./harness/canary.ts";
import { checkAnswer } from "./harness/contract.ts";
import { anApp, developer, sql, system, together, unique } from "./harness/index.ts";

const run = promisify(execFile);
const PYTHON = "/usr/bin/python3";
const hasPyJwt = await run(PYTHON, ["-c", "import jwt, cryptography"]).then(
  () => true,
  () => false,
);

// What the SDK fetches is held to the document and the contract too.
const plainFetch = globalThis.fetch;
beforeAll(() => {
  globalThis.fetch = async (input, init) => {
    const response = await plainFetch(input, init);
    const url = new URL(String(input));
    if (url.origin !== system.base) return response;
    const text = await response.clone().text();
    const body = /json/.test(response.headers.get("Content-Type") ?? "") ? JSON.parse(text) : null;
    await checkAnswer(system.base, init?.method ?? "GET", url.pathname + url.search, {
      status: response.status,
      headers: response.headers,
      body,
      text,
    });
    return response;
  };
});
afterAll(() => {
  globalThis.fetch = plainFetch;
});

/** The client of the app's backend, and of one of its users. */
async function start() {
  const app = await anApp();
  const backend = PlatformClient.withSecretKey(app.secret_key, system.base);
  const at = developer(app.app);
  const ask = <T = any>(method: string, path: string, body?: unknown): Promise<T> =>
    (backend as any).http.request(`${at}${path}`, { method, body });
  const mint = async (user: string, scopes?: string[]) =>
    ask("POST", `/users/${user}/tokens`, { ...(scopes && { scopes }) });
  const asUser = (token: string) => PlatformClient.withToken(app.publishable_key, token, system.base);
  return { ...app, backend, ask, mint, asUser };
}

describe("with the secret key", () => {
  it("creates, lists, gets, updates and deletes orgs and users", async () => {
    const { ask } = await start();
    const slug = unique("acme");
    const org = await ask("POST", "/orgs", { name: "Acme", slug, domain: `${slug}.example` });
    const user = await ask("POST", "/users", { email: `${slug}@example.com`, name: "Ann", org: org.id, role: "owner" });
    expect((await ask("GET", "/orgs?page_size=1")).data[0].id).toBe(org.id);
    expect((await ask("PATCH", `/orgs/${org.id}`, { name: "Acme Ltd" })).name).toBe("Acme Ltd");
    expect((await ask("GET", `/users/${user.id}`)).org_role).toBe("admin");
    await ask("DELETE", `/orgs/${org.id}`);
    await expect(ask("GET", `/users/${user.id}`)).rejects.toMatchObject({ status: 404, errorCode: "not_found" });
  });
});

describe("a minted token", () => {
  it("is verified by jose from the JWKS address alone", async () => {
    const { owners, acme, mint, app } = await start();
    const { access_token } = await mint(owners[acme]!, ["agents:*"]);
    const keys = createRemoteJWKSet(new URL(`${system.base}/.well-known/jwks.json`));
    const { payload, protectedHeader } = await jwtVerify(access_token, keys, {
      audience: app,
      typ: "at+jwt",
      issuer: system.secrets.ISSUERS,
    });
    expect(protectedHeader.alg).toBe("ES256");
    expect(payload).toMatchObject({ sub: owners[acme], org_id: acme, scope: "agents:read agents:write" });
  });

  it("is verified by jsonwebtoken", async () => {
    const { owners, acme, mint, app } = await start();
    const { access_token } = await mint(owners[acme]!);
    const { keys } = (await (await plainFetch(`${system.base}/.well-known/jwks.json`)).json()) as any;
    const { header } = jsonwebtoken.decode(access_token, { complete: true })!;
    const { createPublicKey } = await import("node:crypto");
    const key = createPublicKey({ key: keys.find(({ kid }: any) => kid === header.kid), format: "jwk" });
    expect(jsonwebtoken.verify(access_token, key, { algorithms: ["ES256"], audience: app })).toMatchObject({
      org_id: acme,
    });
  });

  it.runIf(hasPyJwt)("is verified by Python's jwt", async () => {
    const { owners, acme, mint, app } = await start();
    const { access_token } = await mint(owners[acme]!);
    const script = `import jwt, json, sys
client = jwt.PyJWKClient(sys.argv[1])
key = client.get_signing_key_from_jwt(sys.argv[2]).key
print(json.dumps(jwt.decode(sys.argv[2], key, algorithms=["ES256"], audience=sys.argv[3])))`;
    const { stdout } = await run(PYTHON, ["-c", script, `${system.base}/.well-known/jwks.json`, access_token, app]);
    expect(JSON.parse(stdout)).toMatchObject({ org_id: acme, sub: owners[acme] });
  });
});

describe("with the token", () => {
  it("knows itself, and creates, pages, gets, updates and deletes agents", async () => {
    const { owners, acme, mint, asUser } = await start();
    const client = asUser((await mint(owners[acme]!)).access_token);
    expect(await client.users.me()).toMatchObject({ id: owners[acme], org: acme, org_role: "admin" });
    const made = await together(3, (i) =>
      client.agents.create({ name: `Ada ${i}`, model: "m", lookup_key: unique("k") }),
    );
    const page = await client.agents.list({ page: 2, pageSize: 2 });
    expect(page).toMatchObject({ page: 2, page_size: 2, total_entries: 3, total_pages: 2, has_next: false });
    const [ada] = made;
    expect(await client.agents.get(ada!.lookup_key!)).toMatchObject({ id: ada!.id, default_model: "m" });
    expect(await client.agents.update(ada!.id, { name: "Ada Lovelace", model: "" })).toMatchObject({
      name: "Ada Lovelace",
      default_model: null,
    });
    await client.agents.delete(ada!.id);
    await expect(client.agents.get(ada!.id)).rejects.toMatchObject({ status: 404 });
  });

  it("sees nothing of the other org, and reads an error that says which field is at fault", async () => {
    const { owners, acme, globex, mint, asUser } = await start();
    const ann = asUser((await mint(owners[acme]!)).access_token);
    const bob = asUser((await mint(owners[globex]!)).access_token);
    const agent = await ann.agents.create({ name: "Ada" });
    await expect(bob.agents.get(agent.id)).rejects.toMatchObject({ status: 404, errorCode: "not_found" });
    expect(await bob.agents.list()).toMatchObject({ data: [], total_entries: 0 });
    await expect(bob.agents.create({ name: "x".repeat(300) })).rejects.toMatchObject({
      status: 422,
      errorCode: "validation_failed",
      message: expect.stringContaining("name: "),
    });
  });

  it("keeps its own tokens, profile and org", async () => {
    const { owners, acme, mint, asUser } = await start();
    const client = asUser((await mint(owners[acme]!)).access_token);
    const token: any = await client.users.tokens.create("me", {
      name: "ci",
      expires_in_days: 7,
      scopes: ["agents:read"],
    });
    expect(await asUser(token.token).agents.list()).toMatchObject({ total_entries: 0 });
    await client.users.tokens.delete("me", token.id);
    await expect(asUser(token.token).agents.list()).rejects.toMatchObject({ status: 401 });
    expect(await client.users.profile(owners[acme]!, { full_name: "Ann", metadata: { a: 1 } })).toMatchObject({
      name: "Ann",
    });
    expect((await client.users.orgs(owners[acme]!)).data).toMatchObject([{ id: acme }]);
    expect((await client.orgs.list()).data).toMatchObject([{ id: acme }]);
    expect(await client.status.ping()).toMatchObject({ success: true, token: { active: true } });
  });
});

describe("what hangs on an agent", () => {
  it.each(["token", "secret key"])("is kept with the %s: env vars, installations and their sources", async (kind) => {
    const { owners, acme, mint, asUser, backend } = await start();
    const client = kind === "token" ? asUser((await mint(owners[acme]!)).access_token) : backend;
    const { id: agent } = await client.agents.create({ name: "Ada" });

    const variables = client.agents.agent_env_vars;
    const made = await variables.create(agent, { key: "TOKEN", value: `${aSecret()}-end`, description: "d" });
    expect(made).toMatchObject({ agent, key: "TOKEN", masked_value: "****-end", description: "d" });
    expect(await variables.list(agent)).toEqual({ data: [made] });
    expect(await client.agent_env_vars.get(made.id)).toEqual(made);
    expect((await client.agent_env_vars.update(made.id, { value: "abc" })).masked_value).toBe("****");
    await client.agent_env_vars.delete(made.id);
    await expect(client.agent_env_vars.get(made.id)).rejects.toMatchObject({ status: 404 });

    const here = client.agents.agent_installations;
    const installations = client.agent_installations;
    expect((await here.kinds(agent)).data.length).toBe(11);
    const integration = { access_token: aSecret(), metadata: { a: 1 } };
    const bound = await here.create(agent, { kind: "integration/gmail", lookup_key: unique("mail"), integration });
    expect(bound.state).toBe("active");
    expect((await installations.pause(bound.id)).state).toBe("paused");
    expect((await installations.suspend(bound.id, { reason: "r" })).status_payload).toEqual({ reason: "r" });
    const site = await here.create(agent, { kind: "web/site", config: { url: "https://a.example" } });
    expect((await installations.activate(site.id)).state).toBe("active");
    expect((await here.list(agent)).data.map(({ id }) => id)).toEqual([site.id, bound.id]);
    expect((await installations.list({ agent: [agent] })).data.length).toBe(2);
    expect((await installations.get(site.id)).id).toBe(site.id);
    const { installation_sources } = installations;
    const link = { type: "web/link", payload: { url: "https://a.example/b" } };
    const source = await installation_sources.create(site.id, link);
    expect((await installation_sources.list(site.id)).data).toEqual([source]);
    await client.installation_sources.delete(source.id);
    await installations.delete(site.id);
    await expect(installations.get(site.id)).rejects.toMatchObject({ status: 404 });
  });

  it.each(["token", "secret key"])("is made of a bundle, exported, and verified with the %s", async (kind) => {
    const { owners, acme, mint, asUser, backend } = await start();
    const client = kind === "token" ? asUser((await mint(owners[acme]!)).access_token) : backend;
    const relative_path = `${unique("sum")}.aascript`;
    const made = await client.agents.create({
      template_bundle: {
        template: { content: "kind: AgentTemplate\nname: Ada\n", relative_path: "agent.yaml" },
        configs: [{ content: "1 + 1", relative_path }],
        setup_actions: [{ kind: "env_var", title: "A key", params: { key: "A_KEY" } }],
      },
    });
    expect(made.installed_configs).toMatchObject([{ kind: "Script", key: relative_path.split(".")[0] }]);
    const { template, configs } = await client.agents.export(made.id, { removeIdentity: true });
    expect(template).toMatchObject({ name: "Ada", setup_actions: [{ title: "A key" }] });
    expect(configs).toEqual([]);
    const copy = await client.agents.create({ template_bundle: { template, configs } as never });
    expect(copy).not.toHaveProperty("installed_configs");
    const { data } = await client.agents.agentHealthActions(copy.id, { kind: ["env_var"] });
    expect(data).toMatchObject([{ title: "A key", status: "pending" }]);
    expect(await client.agent_health_actions.get(data[0]!.id)).toEqual(data[0]);
    const verified = await client.agent_health_actions.verify(data[0]!.id);
    expect(verified.status).toBe("pending");
    const health = await client.agents.health(copy.id);
    expect(health).toMatchObject({ agent: { id: copy.id }, score: 50, status: "critical" });
    expect(health.health_actions).toEqual([verified]);
    expect(health.checks).toContainEqual(expect.objectContaining({ key: "actions", status: "critical" }));
  });

  it.each(["token", "secret key"])("is remembered with the %s: working memory", async (kind) => {
    const { owners, acme, mint, asUser, backend } = await start();
    const client = kind === "token" ? asUser((await mint(owners[acme]!)).access_token) : backend;
    const { id: agent } = await client.agents.create({ name: "Ada" });
    const entry = newId("working_memory_entry");
    await sql(
      `insert into data.agent_working_memory (app_id, sandbox_id, org_id, agent_id, id, key, value)
        select app_id, sandbox_id, org_id, id, $2, 'city', 'Graz' from data.agents where id = $1`,
      [agent, entry],
    );
    const memory = client.agents.agent_working_memory;
    expect(await memory.list(agent, { search: "CIT" })).toMatchObject({ data: [{ id: entry }], total_entries: 1 });
    expect(await memory.update(agent, entry, { value: "Linz", expires_at: "2999-01-01T00:00:00Z" })).toMatchObject({
      value: "Linz",
    });
    await memory.delete(agent, entry);
    expect(await memory.list(agent)).toMatchObject({ data: [], total_entries: 0 });
  });
});

describe("an ended credential", () => {
  it("is refused on the very next request: revoked token, suspended org, deleted user", async () => {
    const { owners, acme, globex, ask, mint, asUser, aUser } = await start();
    const revoked = await mint(owners[acme]!);
    await ask("DELETE", `/users/${owners[acme]}/tokens/${revoked.id}`);
    await expect(asUser(revoked.access_token).users.me()).rejects.toMatchObject({ status: 401 });

    const { access_token } = await mint(owners[globex]!);
    await ask("PATCH", `/orgs/${globex}`, { status: "suspended" });
    await expect(asUser(access_token).users.me()).rejects.toMatchObject({ status: 403, errorCode: "org_suspended" });
    await ask("PATCH", `/orgs/${globex}`, { status: "active" });
    expect(await asUser(access_token).users.me()).toMatchObject({ org: globex });

    const member = await aUser(acme);
    const theirs = await mint(member.id);
    await ask("DELETE", `/users/${member.id}`);
    await expect(asUser(theirs.access_token).users.me()).rejects.toMatchObject({ status: 401 });
  });

  it("is renewed by the SDK itself: an expired token is refreshed once, and the request repeated", async () => {
    const { owners, acme, publishable_key, mint } = await start();
    const minted = await mint(owners[acme]!);
    let saved: any = { accessToken: "expired", refreshToken: minted.refresh_token, user: null };
    const storage = {
      load: async () => saved,
      save: async (next: unknown) => {
        saved = next;
      },
      clear: async () => {},
    };
    const client = PlatformClient.forApp({
      publishableKey: publishable_key,
      baseUrl: system.base,
      storage: storage as never,
    });
    await client.restore();
    expect(await client.users.me()).toMatchObject({ id: owners[acme] });
    expect(saved.refreshToken).not.toBe(minted.refresh_token);
  });
});

describe("the activity feed", () => {
  it("tells what happened, newest first", async () => {
    const { owners, acme, mint, asUser } = await start();
    const client = asUser((await mint(owners[acme]!)).access_token);
    const agent = await client.agents.create({ name: "Ada" });
    await client.agents.delete(agent.id);
    const feed: any = await client.activity_feed.list({ agent: [agent.id] });
    expect(feed.data.map(({ kind }: any) => kind)).toEqual(["agent.deleted", "agent.created"]);
    expect(feed.entries).toEqual(feed.data);
  });
});
