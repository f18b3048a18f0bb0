/** Every request makes one round trip to the database, whatever it asks; one that asks a model, two. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { inflateRawSync } from "node:zlib";
import { afterAll, beforeAll, expect, it } from "vitest";
import { readEml } from "../lib/local/mailbox.ts";
import { aBrowser, aDeveloper } from "./harness/browser.ts";
import { bearer, type Call, caller, developer } from "./harness/index.ts";
import { newRoot, newSigningKey, ownSystem } from "./harness/own.ts";
import { aKey, anAssertion, aResponse, sign } from "./sso/provider.ts";
import { aBrowser as aStranger, form, me } from "./sso/stage.ts";

let own: Awaited<ReturnType<typeof ownSystem>>;
const made: Record<string, string> = {};
let asDeveloper: Call;
let asUser: Call;
let mailDir: string;
let asProvider: Call;
let fromBrowser: Call;
let inBrowser: (path: string) => Promise<{ status: number }>;
let base: string;
let app: { app_id: string; publishable_key: string };

beforeAll(async () => {
  own = await ownSystem();
  const alias = { "sweep.ts": resolve(import.meta.dirname, "harness/no-sweep.ts") };
  const root = newRoot();
  mailDir = mkdtempSync(join(tmpdir(), "agentry-trips-mail-"));
  base = await own.start([await newSigningKey("one")], [root], { alias, mailDir });
  const { app_id, secret_key, publishable_key } = await own.newApp();
  app = { app_id, publishable_key };
  asDeveloper = caller(bearer(secret_key), base);
  const at = developer(app_id);
  const org = (await asDeveloper("POST", `${at}/orgs`, { name: "Acme", slug: "acme", domain: "acme.example" })).body.id;
  const user = (await asDeveloper("POST", `${at}/users`, { email: "a@acme.example", org, role: "owner" })).body.id;
  const minted = (await asDeveloper("POST", `${at}/users/${user}/tokens`, {})).body;
  asUser = caller(bearer(minted.access_token), base);
  const agent = (await asUser("POST", "/api/v1/agents", { name: "Ada" })).body.id;
  const env_var = (await asUser("POST", `/api/v1/agents/${agent}/agent_env_vars`, { key: "A", value: "x" })).body.id;
  const kind = "archastro/knowledge";
  const installation = (await asUser("POST", `/api/v1/agents/${agent}/agent_installations`, { kind })).body.id;
  const config = (await asUser("POST", "/api/v1/config", { ...script, lookup_key: "two" })).body.id;
  const routines = `/api/v1/agents/${agent}/agent_routines`;
  const task = { name: "Sweep", handler_type: "preset", preset_name: "do_task", event_type: "agentroutine.invoked" };
  const routine = (await asUser("POST", routines, { ...task, status: "active" })).body.id;
  const schedules = `/api/v1/agents/${agent}/schedules`;
  const daily = { schedule_type: "recurring", cron_expression: "0 9 * * *", instructions: "Say good morning." };
  const schedule = (await asUser("POST", schedules, daily)).body.id;
  const installed = (await asUser("POST", "/api/v1/agents", { template_bundle: bundle })).body.id;
  const actions = await asUser("GET", `/api/v1/agents/${installed}/agent_health_actions`);
  const action = actions.body.data[0].id;
  const sandbox = (await asDeveloper("GET", "/api/v1/sandboxes")).body.data[0].id;
  Object.assign(made, { at, org, user, agent, env_var, installation, config, routine, schedule, action, sandbox });
  made.refresh = minted.refresh_token;
  const hook = (await asUser("POST", "/api/v1/inbound_webhooks", { name: "H", provider: "url" })).body;
  Object.assign(made, { hook: hook.id, door: new URL(hook.url).pathname });
  const scim = (await asDeveloper("POST", `${at}/orgs/${org}/scim_tokens`, {})).body;
  asProvider = caller(bearer(scim.token), base);
  const person = (await asProvider("POST", "/scim/v2/Users", { userName: "bob@acme.example" })).body.id;
  const group = (await asProvider("POST", "/scim/v2/Groups", { displayName: "G" })).body.id;
  Object.assign(made, { person, group });
  fromBrowser = caller((await aDeveloper(own.database.query, root, app_id)).headers, base);
  await fromBrowser("GET", at);
  const { headers } = await aBrowser(own.database.query, root, user);
  inBrowser = (path) => fetch(base + path, { headers });
  made.page = `/login/${app_id}/acme`;
  // A credential's use is noted once a minute, after the answer: that is done when these have run.
  await asUser("GET", "/api/v1/users/me");
  await inBrowser(made.page);
  await new Promise((resolve) => setTimeout(resolve, 300));
});
afterAll(async () => {
  await own.close();
  rmSync(mailDir, { recursive: true });
});

const script = { kind: "Script", mime_type: "text/plain", raw_content: "1 + 1" };
const bundle = {
  template: {
    name: "Ada",
    tools: [{ tool_type: "builtin", builtin_tool_key: "memory" }],
    routines: [{ name: "R", preset_name: "do_task", schedule: "0 9 * * *" }],
    computers: Array.from({ length: 5 }, (_, i) => ({ name: `c${i}` })),
    setup_actions: [{ kind: "env_var", title: "A", params: { key: "A" } }],
  },
};
const patch = (op: string, path: string, value: unknown) => ({ Operations: [{ op, path, value }] });
const n = () => Math.random().toString(36).slice(2);
const operations: [name: string, ask: () => Promise<{ status: number }>][] = [
  ["mint a token", () => asDeveloper("POST", `${made.at}/users/${made.user}/tokens`, { scopes: ["agents:read"] })],
  ["list tokens", () => asDeveloper("GET", `${made.at}/users/${made.user}/tokens`)],
  ["refresh", () => asUser("POST", "/api/v1/auth/refresh", { refresh_token: made.refresh })],
  [
    "create an org",
    () => asDeveloper("POST", `${made.at}/orgs`, { name: "B", slug: `b${n()}`, domain: `${n()}.example` }),
  ],
  ["list orgs", () => asDeveloper("GET", `${made.at}/orgs?search=a&status=active`)],
  ["update an org", () => asDeveloper("PATCH", `${made.at}/orgs/${made.org}`, { name: "Acme Ltd" })],
  [
    "create a user in an org",
    () => asDeveloper("POST", `${made.at}/users`, { email: `${n()}@acme.example`, org: made.org }),
  ],
  [
    "update a user's role",
    () => asDeveloper("PATCH", `${made.at}/users/${made.user}`, { role: "owner", org: made.org }),
  ],
  ["make a key", () => asDeveloper("POST", `${made.at}/keys`, { type: "secret" })],
  ["make a sandbox", () => asDeveloper("POST", "/api/v1/sandboxes", { name: "S", slug: `s${n()}`, org: made.org })],
  ["list what a sandbox has mailed", () => asDeveloper("GET", `${made.at}/sandboxes/${made.sandbox}/mails`)],
  ["get an app, from a developer's browser", () => fromBrowser("GET", made.at!)],
  ["make a sandbox's key", () => asDeveloper("POST", `/api/v1/sandboxes/${made.sandbox}/keys`, {})],
  ["get oneself", () => asUser("GET", "/api/v1/users/me")],
  ["make a personal token", () => asUser("POST", "/api/v1/users/me/tokens", { name: "ci" })],
  ["create an agent", () => asUser("POST", "/api/v1/agents", { name: "Bob" })],
  ["create an agent once", () => asUser("POST", "/api/v1/agents", { name: "Bob" }, { "Idempotency-Key": n() })],
  [
    "install a bundle",
    () =>
      asUser("POST", "/api/v1/agents", {
        template_bundle: { ...bundle, configs: [{ ...script, lookup_key: n() }], lookup_key_suffix: n() },
      }),
  ],
  ["refuse a bundle", () => asUser("POST", "/api/v1/agents", { template_bundle: { template: {} } })],
  ["export an agent", () => asUser("GET", `/api/v1/agents/${made.agent}/export`)],
  ["verify a health action", () => asUser("POST", `/api/v1/agent_health_actions/${made.action}/verify`)],
  ["create an agent of a user", () => asUser("POST", "/api/v1/agents", { name: "Bob", user: made.user })],
  ["get an agent", () => asUser("GET", `/api/v1/agents/${made.agent}`)],
  ["list and count agents", () => asUser("GET", "/api/v1/agents?search=a")],
  ["update an agent", () => asUser("PATCH", `/api/v1/agents/${made.agent}`, { name: "Ada L.", user: made.user })],
  ["list env vars", () => asUser("GET", `/api/v1/agents/${made.agent}/agent_env_vars`)],
  [
    "keep an env var, of an agent whose org the key doesn't say",
    () => asDeveloper("POST", `/api/v1/agents/${made.agent}/agent_env_vars`, { key: `K${n()}`, value: "x" }),
  ],
  ["change an env var", () => asDeveloper("PATCH", `/api/v1/agent_env_vars/${made.env_var}`, { value: n() })],
  ["save a config", () => asUser("POST", "/api/v1/config", { ...script, lookup_key: n() })],
  ["save a config of an agent", () => asUser("POST", "/api/v1/config", { ...script, agent: made.agent })],
  [
    "take a config over",
    () => asUser("POST", "/api/v1/config", { ...script, lookup_key: "two", take_ownership: true }),
  ],
  ["refuse a config", () => asUser("POST", "/api/v1/config", { ...script, raw_content: "1 +" })],
  ["validate a config", () => asUser("POST", "/api/v1/config/validate", script)],
  ["list configs", () => asUser("GET", "/api/v1/config?kind=Script&path_prefix=a")],
  ["count configs", () => asUser("GET", "/api/v1/config/facets")],
  ["get a config by its key", () => asUser("GET", `/api/v1/config/two?user=${made.user}`)],
  ["refuse a key without an owner", () => asUser("GET", "/api/v1/config/two")],
  ["read a config", () => asUser("GET", `/api/v1/config/${made.config}/content`)],
  ["list a config's versions", () => asUser("GET", `/api/v1/config/${made.config}/versions`)],
  [
    "save a version",
    () => asUser("PATCH", `/api/v1/config/${made.config}`, { mime_type: "text/plain", raw_content: n() }),
  ],
  ["meet another version", () => asUser("PATCH", `/api/v1/config/${made.config}`, { expected_version: 99 })],
  ["archive a config", () => asUser("POST", `/api/v1/config/${made.config}/archive`)],
  ["give a config away", () => asUser("POST", `/api/v1/config/${made.config}/change_owner`, { agent: made.agent })],
  ["encrypt a secret", () => asUser("POST", "/api/v1/config/encrypt_secret", { plaintext: "s" })],
  ["delete a config", () => asUser("DELETE", `/api/v1/config/${made.config}`)],
  ["activate an installation", () => asUser("POST", `/api/v1/agent_installations/${made.installation}/activate`)],
  [
    "install with an integration",
    () =>
      asDeveloper("POST", `/api/v1/agents/${made.agent}/agent_installations`, {
        ...{ kind: "integration/github", integration: { access_token: "x" } },
      }),
  ],
  ["list installations", () => asUser("GET", `/api/v1/agent_installations?agent[]=${made.agent}`)],
  [
    "add a source",
    () =>
      asUser("POST", `/api/v1/agent_installations/${made.installation}/installation_sources`, {
        ...{ type: "web/link", payload: { url: "https://a.example" } },
      }),
  ],
  ["list sources", () => asUser("GET", `/api/v1/agent_installations/${made.installation}/installation_sources`)],
  ["page working memory", () => asUser("GET", `/api/v1/agents/${made.agent}/agent_working_memory?search=a`)],
  [
    "create a routine with all that is looked up",
    () =>
      asUser("POST", `/api/v1/agents/${made.agent}/agent_routines`, {
        ...{ name: "A", handler_type: "preset", preset_name: "do_task", schedule: "0 9 * * *", user: made.user },
      }),
  ],
  ["list the routines of an agent", () => asUser("GET", `/api/v1/agent_routines?agent[]=${made.agent}`)],
  ["update a routine", () => asUser("PATCH", `/api/v1/agent_routines/${made.routine}`, { description: n() })],
  ["activate a routine", () => asUser("POST", `/api/v1/agent_routines/${made.routine}/activate`)],
  [
    "invoke a routine under a key",
    () => asUser("POST", `/api/v1/agent_routines/${made.routine}/invoke`, { message: "Go.", idempotency_key: "a" }),
  ],
  [
    "invoke it again under that key",
    () => asUser("POST", `/api/v1/agent_routines/${made.routine}/invoke`, { message: "Go.", idempotency_key: "a" }),
  ],
  ["list the runs of a routine", () => asUser("GET", `/api/v1/agent_routines/${made.routine}/runs`)],
  ["list sessions", () => asUser("GET", `/api/v1/agent_sessions?agent[]=${made.agent}`)],
  ["list tool calls", () => asUser("GET", "/api/v1/tool_calls?outcome[]=unknown")],
  ["list the runs of an agent", () => asUser("GET", `/api/v1/agent_routine_runs?agent[]=${made.agent}`)],
  [
    "create a schedule",
    () =>
      asUser("POST", `/api/v1/agents/${made.agent}/schedules`, {
        ...{ schedule_type: "recurring", cron_expression: "0 9 * * *", instructions: "Go." },
      }),
  ],
  ["pause a schedule", () => asUser("POST", `/api/v1/agents/${made.agent}/schedules/${made.schedule}/pause`)],
  ["read the feed", () => asUser("GET", "/api/v1/activity_feed?limit=5")],
  ["tell of an event", () => asUser("POST", "/api/v1/events", { name: "custom.a", payload: {}, dedupe_key: n() })],
  ["read an event type", () => asUser("GET", "/api/v1/event_types/agent.created")],
  ["list subscriptions", () => asUser("GET", "/api/v1/event_subscriptions")],
  ["list webhook endpoints", () => asUser("GET", "/api/v1/webhook_endpoints")],
  [
    "make a webhook endpoint",
    () =>
      asUser("POST", "/api/v1/webhook_endpoints", { url: "https://webhooks.invalid/", event_names: ["custom.none"] }),
  ],
  ["find a user by SCIM", () => asProvider("GET", "/scim/v2/Users?filter=userName%20eq%20%22x%22")],
  ["make a user by SCIM", () => asProvider("POST", "/scim/v2/Users", { userName: `${n()}@acme.example` })],
  ["end a user by SCIM", () => asProvider("PATCH", `/scim/v2/Users/${made.person}`, patch("replace", "active", false))],
  [
    "put a user into a group by SCIM",
    () => asProvider("PATCH", `/scim/v2/Groups/${made.group}`, patch("add", "members", [{ value: made.person }])),
  ],
  ["open the page of who is signed in", () => inBrowser(made.page!)],
  ["open the page of an invitation", () => inBrowser("/invitation?key=x")],
  ["make a webhook", () => asUser("POST", "/api/v1/inbound_webhooks", { name: "H", provider: "github" })],
  ["list a webhook's receipts", () => asUser("GET", `/api/v1/inbound_webhooks/${made.hook}/receipts`)],
  ["meet a webhook that isn't there", () => asUser("POST", `${made.door}0`, {})],
  ["meet an address that can be none", () => asUser("POST", "/hooks/nobody", {})],
  ["meet an absent row", () => asUser("DELETE", "/api/v1/agents/nobody")],
  ["list models", () => asUser("GET", "/api/v1/ai/chat/models")],
  ["ask for a model that isn't set up", () => asUser("POST", "/api/v1/ai/image/generations", { prompt: "A fox" })],
  ["ping", () => asUser("GET", "/api/v1/status/ping")],
];

it.each(operations)("%s: one round trip", async (_, ask) => {
  const before = own.requestTrips();
  const { status } = await ask();
  expect([200, 201, 204, 404, 409, 422]).toContain(status);
  expect(own.requestTrips() - before).toBe(1);
});

it("pulling events that have their numbers: one", async () => {
  const pull = () => asUser("GET", "/api/v1/events?limit=5");
  // What happened a moment ago is numbered first, and asked for again.
  const numbered = async () => {
    await pull();
    return own.database.query("select from data.events where sequence is null and org_id = $1", [made.org!]);
  };
  await expect.poll(numbered).toEqual([]);
  const before = own.requestTrips();
  expect((await pull()).status).toBe(200);
  expect(own.requestTrips() - before).toBe(1);
});

it("asking a model: one before it, by which the credential is let in and the call is owed, and one after, with its figures", async () => {
  const before = own.requestTrips();
  const body = { messages: [{ role: "user", content: "Hi" }], opts: {} };
  expect((await asUser("POST", "/api/v1/ai/chat/completions", body)).status).toBe(200);
  // The second may be on its way behind the answer.
  await expect.poll(() => own.requestTrips() - before).toBe(2);
});

it("taking the first delivery: one that lets it in and counts it, and one that writes what came of it; later ones: one", async () => {
  for (const trips of [2, 1, 1]) {
    const before = own.requestTrips();
    expect((await asUser("POST", made.door!, {})).status).toBe(202);
    expect(own.requestTrips() - before).toBe(trips);
  }
});

/** How many round trips a request makes. */
async function tripsOf(ask: () => Promise<{ status: number }>) {
  const before = own.requestTrips();
  const { status } = await ask();
  return [status, own.requestTrips() - before];
}

it("signing in by a code: one to ask for it, one to come in by it", async () => {
  const visitor = caller({ "x-archastro-api-key": app.publishable_key }, base);
  const email = "a@acme.example";
  expect(await tripsOf(() => visitor("POST", "/api/v1/auth/login/code", { email }))).toEqual([204, 1]);
  const mailed = () => readdirSync(mailDir).map((name) => readEml(readFileSync(join(mailDir, name), "utf8")));
  await expect.poll(() => mailed().length).toBe(1);
  const code = /^\d{6}$/m.exec(mailed()[0]!.text)![0];
  expect(await tripsOf(() => visitor("POST", "/api/v1/auth/code/verify", { email, code }))).toEqual([200, 1]);
});

it("a login by SAML: one to begin, two to take the response, two to finish; and the session's cookie then: one", async () => {
  const key = await aKey();
  const issuer = "https://idp.example";
  const body = {
    provider: "saml",
    entity_id: issuer,
    sso_url: issuer,
    certificate: key.certificate,
    auto_provision: true,
  };
  const config = (await asDeveloper("PUT", `${made.at}/orgs/${made.org}/sso`, body)).body;
  const browser = aStranger(base);
  let location = "";
  const begin = async () => {
    const response = await browser.ask(config.start_url);
    location = response.headers.get("Location")!;
    return response;
  };
  expect(await tripsOf(begin)).toEqual([303, 1]);
  const request = inflateRawSync(Buffer.from(new URL(location).searchParams.get("SAMLRequest")!, "base64")).toString();
  const in_response_to = /ID="([^"]+)"/.exec(request)![1]!;
  const said = { now: Date.now(), issuer, in_response_to, ...config };
  const response = sign(aResponse(said, anAssertion(said)), "_response", key);
  const SAMLResponse = Buffer.from(response).toString("base64");
  expect(await tripsOf(() => browser.ask(config.acs_url, form({ SAMLResponse })))).toEqual([303, 2]);
  expect(await tripsOf(() => browser.ask(config.acs_url.replace(/acs$/, "finish")))).toEqual([303, 2]);
  // Its first use is noted, after the answer.
  await me(browser);
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(await tripsOf(() => me(browser))).toEqual([200, 1]);
});

it("a refused signature or scope: none", async () => {
  const before = own.requestTrips();
  expect((await caller(bearer("x.y.z"), undefined)("GET", "/healthz")).status).toBe(200);
  expect((await asUser("GET", made.at!)).status).toBe(403);
  expect(own.requestTrips() - before).toBe(0);
});
