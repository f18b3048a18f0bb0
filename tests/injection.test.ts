/**
 * What injected SQL reaches: a login as agentry_api itself, which holds credentials of its own, knows every id of a
 * foreign tenant, and may send whatever it likes. Needs a real PostgreSQL, since the embedded one has no logins.
 */
import { createHash, randomBytes } from "node:crypto";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { mac } from "../lib/auth/secrets.ts";
import { newId } from "../lib/ids.ts";
import { kinds, type StoredKind } from "../lib/kinds.ts";
import { createApp } from "../lib/local/apps.ts";
import { keepDoorKeys } from "../lib/local/door-keys.ts";
import type { Database } from "../lib/local/neon.ts";
import { openPostgres } from "../lib/local/postgres.ts";
import { migrate } from "../lib/local/schema.ts";

const url = process.env.DATABASE_URL;
const name = `agentry_test_${randomBytes(6).toString("hex")}`;
const addressOf = (login: object = {}) =>
  Object.assign(new URL(url ?? "postgres://none"), { pathname: name, ...login }).href;
/** Stands in every row of the victim, and in nothing that the attacker knows. */
const SECRET = "the victim's own";
const root = randomBytes(32).toString("base64url");
const hex = (bytes: Uint8Array) => `\\x${Buffer.from(bytes).toString("hex")}`;

let server: Database;
let database: Database;
const clients: Client[] = [];
let attacker: Client;

/** Two orgs of one app, the attacker's rows the first, and an app that is the attacker's own. */
const app = { id: "", victim: newId("org"), mine: newId("org"), other: "" };
const people = { victim: newId("user"), mine: newId("user") };
const tokens = { revoked: newId("token"), expired: newId("token"), mine: newId("token") };
const families = { revoked: newId("sign_in"), live: newId("sign_in"), browser: newId("sign_in") };
const developers = { victim: newId("developer"), mine: newId("developer") };
const signIns = { victim: newId("developer_session"), mine: newId("developer_session") };
const onceHash = hex(randomBytes(32));
const agents = { victim: newId("agent"), mine: newId("agent") };
/** Of the other app's secret key, which is the attacker's own. */
let ownKeyHash = "";
let deadKeyHash = "";

const ROLES = "{owner,admin,member,billing,viewer}";
const quote = (value: string | null) => (value === null ? "null" : `'${value.replaceAll("'", "''")}'`);
const call = (door: string, ...args: (string | null)[]) => `select app.${door}(${args.map(quote).join(", ")})`;
/** A door of visitors, asked for the victim's person. */
const aVisitor = (door: string, tag: string) => {
  const args: Record<string, (string | null)[]> = {
    ask_by_mail: ["email_code", "x@example.com", "\\x01", "{}", "60", null, "{}"],
    enter_by_mail: ["email_code", "01", "\\x01", "{}", "{}"],
    password_of: ["x@example.com"],
    enter_by_password: ["x@example.com", "{}", "\\x01"],
  };
  return call(door, app.id, "-", null, ...args[door]!, tag);
};
const ownToken = () => call("enter_token", app.id, "-", app.mine, people.mine, tokens.mine, ROLES);
const ownApp = () => call("enter_key", app.other, "-", ownKeyHash);
const set = (tenant: { app?: string; sandbox?: string; org?: string; proof?: string }, local = true) =>
  `select ${Object.entries(tenant)
    .map(([key, value]) => `set_config('app.${key === "proof" ? key : `${key}_id`}', ${quote(value)}, ${local})`)
    .join(", ")}`;

/** Logs in as the runtime does. Another run on this server may give the role another password in the same moment. */
async function logIn(): Promise<Client> {
  for (let tries = 0; ; tries++) {
    const password = randomBytes(12).toString("hex");
    const client = new Client({ connectionString: addressOf({ username: "agentry_api", password }) });
    client.on("error", () => {});
    try {
      await server.exec(`alter role agentry_api password '${password}'`);
      await client.connect();
      clients.push(client);
      return client;
    } catch (error) {
      if (tries === 5) throw error;
    }
  }
}

/** Whatever the statements answer, each tried by itself within one transaction: rows, or the error. */
async function tryAll(client: Client, statements: string[]): Promise<unknown[]> {
  const answers: unknown[] = [];
  await client.query("begin");
  for (const statement of statements) {
    try {
      const results = await client.query(`savepoint here; ${statement}`);
      answers.push(
        [results]
          .flat()
          .slice(1)
          .map(({ rows }) => rows),
      );
    } catch (error) {
      const { code, message, detail } = error as { code: string; message: string; detail: string };
      answers.push({ code, message, detail });
      await client.query("rollback to here");
    }
  }
  await client.query("commit");
  return answers;
}

let tables: string[];
/** What an attacker would do with an open tenant: read all there is, and write into every row that is known by its id. */
const loot = () => [
  `select ${tables.map((table) => `(select json_agg(t) from data.${table} t)`)}`,
  `select name from data.agents where id = ${quote(agents.victim)}`,
  "select * from pg_stats where schemaname = 'data'",
  "select query from pg_stat_activity",
  `update data.agents set name = 'taken' where id = ${quote(agents.victim)} returning *`,
  `update data.agents set name = 'taken' where org_id <> ${quote(app.mine)} returning *`,
  `update data.users set role = 'viewer' where org_id <> ${quote(app.mine)} returning *`,
  `update data.agents set org_id = ${quote(app.victim)}`,
  `update data.keys set revoked_at = now() where app_id = ${quote(app.id)} returning *`,
  `delete from data.tokens where org_id = ${quote(app.victim)} returning *`,
  `delete from data.tenants where org_id = ${quote(app.victim)} returning *`,
  `delete from data.agents where org_id <> ${quote(app.mine)} returning *`,
  `insert into data.agents (app_id, sandbox_id, org_id, id) values (${[app.id, "-", app.victim, newId("agent")].map(quote)})`,
  `insert into data.agents (app_id, sandbox_id, org_id, id) values (${[app.id, "-", app.victim, agents.victim].map(quote)})
    on conflict (app_id, sandbox_id, id) do update set name = 'taken' returning *`,
  `merge into data.agents a using (values (1)) v on a.id = ${quote(agents.victim)} when matched then update set name = 'taken'`,
];

/** The victim's rows, each as it stands. */
const victims = async () => {
  const rowsOf = (table: string) => `select ${quote(table)} || t::text as row from data.${table} t where
    ${table === "apps" ? "id = $1" : `app_id = $1 and org_id in ('-', '${app.victim}')`}`;
  return database.query(`${tables.map(rowsOf).join(" union all ")} order by 1`, [app.id]);
};

/** Runs an attack, and loots behind it: nothing of the victim comes back, and nothing of it is changed. */
async function holds(client: Client, attack: string[]): Promise<unknown[]> {
  const before = await victims();
  const answers = await tryAll(client, [...attack, ...loot()]);
  expect(JSON.stringify(answers)).not.toContain(SECRET);
  expect(await victims()).toEqual(before);
  return answers;
}

async function seed() {
  app.id = (await createApp(database, "The app")).app_id;
  app.other = (await createApp(database, "The attacker's")).app_id;
  const org = (id: string, text: string, user: string, agent: string) => `
    insert into data.tenants values ('${app.id}', '-', '${id}');
    insert into data.orgs (app_id, sandbox_id, id, name, slug, domain) values ('${app.id}', '-', '${id}', ${quote(text)}, '${id}', '${id}');
    insert into data.users (app_id, sandbox_id, org_id, id, name, role) values ('${app.id}', '-', '${id}', '${user}', ${quote(text)}, 'owner');
    insert into data.agents (app_id, sandbox_id, org_id, id, name) values ('${app.id}', '-', '${id}', '${agent}', ${quote(text)});
    insert into data.activity_feed_entries (app_id, sandbox_id, org_id, id, kind, title) values ('${app.id}', '-', '${id}', '${newId("activity_feed_entry")}', 'x', ${quote(text)});
    insert into data.idempotency_keys values ('${app.id}', '-', '${id}', 's', ${quote(text)}, '\\x', 'r');`;
  // What an agent carries: of most tables only the columns that must be there, each text of them the secret.
  const carried = (org: string, text: string, agent: string) => {
    const config = newId("config");
    const installation = newId("agent_installation");
    const session = newId("agent_session");
    const connection = newId("sso");
    const run = newId("agent_routine_run");
    const group = newId("scim_group");
    const on = (kind: StoredKind, { id = newId(kind), ...columns }: Record<string, string>) => `
      insert into data.${kinds[kind].table} (${["app_id", "sandbox_id", "org_id", "id", "agent_id", ...Object.keys(columns)]})
        values (${[app.id, "-", org, id, agent, ...Object.values(columns)].map(quote)});`;
    return `
      insert into data.configs (app_id, sandbox_id, org_id, id, kind, mime_type, content_hash)
        values ('${app.id}', '-', '${org}', '${config}', 'Skill', ${quote(text)}, 'x');
      insert into data.config_versions (app_id, sandbox_id, org_id, id, config_id, version_number, content_hash, mime_type, content)
        values ('${app.id}', '-', '${org}', '${newId("config_version")}', '${config}', 1, 'x', 'x', ${quote(text)});
      insert into data.agent_installations (app_id, sandbox_id, org_id, id, agent_id, kind)
        values ('${app.id}', '-', '${org}', '${installation}', '${agent}', ${quote(text)});
      ${on("agent_computer", { name: text, provider: "x", region: "x" })}
      ${on("agent_env_var", { key: text, sealed: "\\x", tag: "\\x" })}
      ${on("agent_health_action", { source: "setup", kind: "custom", title: text })}
      ${on("agent_routine", { name: text, handler_type: "preset", preset_name: text })}
      ${on("agent_routine_run", { id: run, payload: JSON.stringify({ message: text }) })}
      ${on("agent_schedule", { instructions: text, schedule_type: "recurring", cron_expression: "x", timezone: "x", status: "cancelled" })}
      ${on("occurrence", { routine_id: text, planned_at: "now", outcome: "missed", overlap: "skip" })}
      ${on("agent_session", { id: session, trajectory_id: newId("trajectory"), instructions: text, max_turns: "1", max_tokens: "1", max_runs_per_turn: "1", start_idle: "false", on_idle: "wait" })}
      ${on("tool_call", { session_id: session, name: text, turn: "1", arguments: "{}", arguments_hash: "x", outcome: "unknown", attempts: "1", sequence: "1", requested_at: "now" })}
      ${on("agent_skill", { config_id: config, instruction: text })}
      ${on("agent_tool", { kind: "builtin", name: text })}
      ${on("installation_source", { installation_id: installation, type: text })}
      ${on("work_item", { run_id: run, command_id: text, node_id: text })}
      ${on("working_memory_entry", { key: text, value: text })}
      insert into data.agent_routine_configs select app_id, sandbox_id, org_id, agent_id, id, '${config}', 'Skill'
        from data.agent_routines where org_id = '${org}';
      insert into data.automations (app_id, sandbox_id, org_id, id, said)
        values ('${app.id}', '-', '${org}', '${config}', ${quote(JSON.stringify({ name: text }))});
      insert into data.model_calls (app_id, sandbox_id, org_id, id, operation, model)
        values ('${app.id}', '-', '${org}', '${newId("model_call")}', 'chat', ${quote(text)});
      insert into data.events (app_id, sandbox_id, org_id, id, name, payload)
        values ('${app.id}', '-', '${org}', '${newId("event")}', ${quote(text)}, '{}');
      insert into data.event_waits (app_id, sandbox_id, org_id, id, run_id, name, filters, since)
        values ('${app.id}', '-', '${org}', '${newId("event_wait")}', '${run}', ${quote(text)}, '{}', 0);
      insert into data.event_heads (app_id, sandbox_id, org_id) values ('${app.id}', '-', '${org}');
      insert into data.event_subscriptions (app_id, sandbox_id, org_id, id, name, event_names, max_pending_events,
          retention_seconds, visibility_timeout_seconds)
        values ('${app.id}', '-', '${org}', '${newId("event_subscription")}', ${quote(text)}, '{}', 1, 7200, 15);
      insert into data.inbound_webhooks (app_id, sandbox_id, org_id, id, name, provider, token_hash)
        values ('${app.id}', '-', '${org}', '${newId("inbound_webhook")}', ${quote(text)}, 'url', sha256('${org}'));
      insert into data.oauth_clients (app_id, sandbox_id, org_id, id, name, redirect_uris, scopes)
        values ('${app.id}', '-', '-', '${newId("oauth_client")}', ${quote(text)}, '{}', '{agents:read}');
      insert into data.sso_connections (app_id, sandbox_id, org_id, id, provider, status, client_id, auto_provision,
          jit_provisioning, default_role, session_max_s, allow_idp_initiated)
        values ('${app.id}', '-', '${org}', '${connection}', 'oidc', 'untested', ${quote(text)}, false, false, 'member', 300, false);
      insert into data.sso_identities (app_id, sandbox_id, org_id, id, connection_id, subject, user_id)
        values ('${app.id}', '-', '${org}', '${newId("sso_identity")}', '${connection}', ${quote(text)}, '${org === app.victim ? people.victim : people.mine}');
      insert into data.sso_attempts (app_id, sandbox_id, org_id, id, connection_id, subject)
        values ('${app.id}', '-', '${org}', '${newId("sso_attempt")}', '${connection}', ${quote(text)});
      insert into data.developers (app_id, id, email)
        values ('${app.id}', '${org === app.victim ? developers.victim : developers.mine}', ${quote(text)});
      insert into data.developer_sessions (app_id, id, developer_id, idle_s, expires_at, ends_at)
        values ('${app.id}', '${org === app.victim ? signIns.victim : signIns.mine}',
          '${org === app.victim ? developers.victim : developers.mine}', 60, now() + interval '1 day', now() + interval '1 day');
      insert into data.sandbox_mails (app_id, sandbox_id, org_id, id, "to", subject, text)
        select app_id, sandbox_id, '-', '${newId("sandbox_mail")}', 'x', 'x', ${quote(text)} from data.sandboxes where app_id = '${app.id}';
      insert into data.webhook_receipts (app_id, sandbox_id, org_id, id, webhook_id, delivery_id, status, event_id, payload)
        values ('${app.id}', '-', '${org}', '${newId("webhook_receipt")}', 'x', ${quote(text)}, 'received', 'x', '{}');
      insert into data.webhook_endpoints (app_id, sandbox_id, org_id, id, url, event_names, sealed, tag)
        values ('${app.id}', '-', '${org}', '${newId("webhook_endpoint")}', ${quote(text)}, '{}', '\\x01', '\\x02');
      insert into data.webhook_deliveries (app_id, sandbox_id, org_id, id, endpoint_id, event_id, event_org_id, event_name,
          sequence, status, attempts, attempt_count, revision)
        values ('${app.id}', '-', '${org}', '${newId("webhook_delivery")}', 'x', 'x', '${org}', ${quote(text)}, 1, 'dead', '[]', 0, 1);
      insert into data.org_domains (app_id, sandbox_id, org_id, id, domain, challenge)
        values ('${app.id}', '-', '${org}', '${newId("org_domain")}', ${quote(`${text} too`)}, 'x');
      insert into data.org_invitations (app_id, sandbox_id, org_id, id, email, role, expires_at)
        values ('${app.id}', '-', '${org}', '${newId("invitation")}', ${quote(text)}, 'member', now());
      insert into data.user_invites (app_id, sandbox_id, org_id, id, user_id, hash, metadata, expires_at)
        select app_id, sandbox_id, org_id, '${newId("user_invite")}', id, 'x', jsonb_build_object('of', ${quote(text)}), now()
          from data.users where org_id = '${org}';
      insert into data.scim_tokens (app_id, sandbox_id, org_id, id, hash, hint)
        values ('${app.id}', '-', '${org}', '${newId("scim_token")}', sha256('${org}'), ${quote(text)});
      insert into data.scim_groups (app_id, sandbox_id, org_id, id, display_name)
        values ('${app.id}', '-', '${org}', '${group}', ${quote(text)});
      insert into data.scim_members (app_id, sandbox_id, org_id, group_id, user_id)
        select app_id, sandbox_id, org_id, '${group}', id from data.users where org_id = '${org}';
      insert into data.passwords (app_id, sandbox_id, org_id, user_id, salt, rounds, hash)
        select app_id, sandbox_id, org_id, id, '\\x01', 1, '\\x02' from data.users where org_id = '${org}';
      insert into data.secret_keys (app_id, sandbox_id, org_id, sealed, tag)
        values ('${app.id}', '-', '${org}', '\\x01', '\\x02');`;
  };
  const token = (id: string, owner: string, user: string, times: string) => `
    insert into data.tokens (app_id, sandbox_id, org_id, id, user_id, scopes, name, expires_at, revoked_at)
      values ('${app.id}', '-', '${owner}', '${id}', '${user}', '{}', ${quote(owner === app.victim ? SECRET : "mine")}, ${times});`;
  const family = (id: string, times: string) => `
    insert into data.token_families (app_id, sandbox_id, org_id, id, user_id, scopes, access_lifetime_s, token_id, method, carrier, idle_s, ends_at, expires_at, revoked_at)
      values ('${app.id}', '-', '${app.victim}', '${id}', '${people.victim}', ${quote(`{${SECRET}}`)}, 1, 'x', 'token', 'api', 1, now(), ${times});`;
  deadKeyHash = hex(randomBytes(32));
  // The attacker's rows come first: a scan meets them before the victim's.
  await database.exec(`${org(app.mine, "mine", people.mine, agents.mine)} ${org(app.victim, SECRET, people.victim, agents.victim)}
    ${carried(app.mine, "mine", agents.mine)} ${carried(app.victim, SECRET, agents.victim)}
    ${token(tokens.mine, app.mine, people.mine, "now() + interval '1 day', null")}
    ${token(tokens.revoked, app.victim, people.victim, "now() + interval '1 day', now()")}
    ${token(tokens.expired, app.victim, people.victim, "now(), null")}
    ${family(families.revoked, "now() + interval '1 day', now()")}
    ${family(families.live, "now() + interval '1 day', null")}
    ${family(families.browser, "now() + interval '1 day', null").replace("'x', 'token', 'api'", "null, 'link', 'browser'")}
    insert into data.one_time_secrets (app_id, sandbox_id, org_id, kind, hash, user_id, payload, used_at, expires_at)
      select '${app.id}', '-', '${app.victim}', kind, '${onceHash}', '${people.victim}', jsonb_build_object('of', ${quote(SECRET)}), used_at, expires_at
        from (values ('used', now(), now() + interval '1 day'), ('expired', null, now()), ('a_kind', null, now() + interval '1 day'))
          v (kind, used_at, expires_at);
    insert into data.keys (app_id, sandbox_id, id, type, hash, hint, revoked_at)
      values ('${app.id}', '-', '${newId("key")}', 'secret', '${deadKeyHash}', 'hint', now());
    analyze;`);
  const [key] = await database.query<{ hash: string }>(
    "select hash::text from data.keys where app_id = $1 and type = 'secret'",
    [app.other],
  );
  ownKeyHash = key!.hash;
}

describe.runIf(url)("SQL injected as agentry_api", { timeout: 120_000 }, () => {
  beforeAll(async () => {
    server = await openPostgres(url!);
    await server.exec(`create database ${name}`);
    database = await openPostgres(addressOf());
    await migrate(database);
    await keepDoorKeys(database, root);
    tables = (
      await database.query<{ name: string }>(
        "select tablename as name from pg_tables where schemaname = 'data' order by 1",
      )
    ).map((table) => table.name);
    await seed();
    attacker = await logIn();
  }, 60_000);
  afterAll(async () => {
    for (const client of clients) await client.end();
    await database?.close();
    await server?.exec(`drop database if exists ${name} with (force)`);
    await server?.close();
  });

  const key = (hash: string) => call("enter_key", app.id, "-", hash);

  const WITHOUT_TEXT = [
    "event_heads",
    "agent_routine_configs",
    "apps",
    "developer_sessions",
    "keys",
    "passwords",
    "sandboxes",
    "scim_members",
    "secret_keys",
    "tenants",
  ];

  it("would find the victim's rows in every table, were it let in: what follows tries something", async () => {
    const live = hex(randomBytes(32));
    await database.exec(`insert into data.keys (app_id, sandbox_id, id, type, hash, hint)
      values ('${app.id}', '-', '${newId("key")}', 'secret', '${live}', 'hint')`);
    const [, ...found] = await tryAll(attacker, [key(live), ...tables.map((table) => `select * from data.${table}`)]);
    // In no sandbox is this key; what lives in one alone, it finds there.
    const inApp = "select sandbox_id from data.sandboxes where app_id = $1";
    const [sandbox] = await database.query<{ sandbox_id: string }>(inApp, [app.id]);
    const { sandbox_id } = sandbox!;
    const [, , mails] = await tryAll(attacker, [
      key(live),
      call("within", sandbox_id, "*"),
      "select * from data.sandbox_mails",
    ]);
    for (const [i, table] of tables.entries()) {
      const shown = JSON.stringify(table === "sandbox_mails" ? mails : found[i]);
      expect(shown, table).toContain(app.id);
      if (!WITHOUT_TEXT.includes(table)) expect(shown, table).toContain(SECRET);
    }
    await database.exec(`update data.keys set revoked_at = now() where hash = '${live}'`);
  });

  it.each([
    ["no door", [], false],
    ["its own door", [ownToken], true],
    ["another app's", [ownApp], false],
    ["the name of a tenant that is not proven", [() => set({ app: app.id, sandbox: "-", org: app.victim })], false],
    [
      "its own door, and another's name behind it",
      [ownToken, () => set({ app: app.id, sandbox: "-", org: app.victim })],
      false,
    ],
  ])("hears by %s of no place but its own whether anybody listens there", async (_, before, isOpen) => {
    const heard = (org: string) => `${call("is_heard", app.id, "-", org)} as heard`;
    const places = [app.victim, app.mine].map(heard);
    const answers = await tryAll(attacker, [...before.map((one) => one()), ...places]);
    expect(answers.slice(before.length)).toEqual([[[{ heard: false }]], [[{ heard: isOpen }]]]);
  });

  it("reads its own tenant through its own door, and no other", async () => {
    const [, rows] = await tryAll(attacker, [ownToken(), "select id from data.agents"]);
    expect(rows).toEqual([[{ id: agents.mine }]]);
  });

  it("opens nothing by settings made by hand, before a door or behind its own", async () => {
    for (const door of [[], [ownToken()], [ownApp()]]) {
      for (const org of [app.victim, "*", "-"]) {
        for (const local of [true, false])
          await holds(attacker, [...door, set({ app: app.id, sandbox: "-", org }, local)]);
        await holds(attacker, [...door, set({ org })]);
      }
    }
    await attacker.query("reset all");
  });

  it("opens nothing by a proof that it copies: another tenant's, another session's, or one of its own from before", async () => {
    const proof = async (client: Client) =>
      (await client.query("select current_setting('app.proof') as proof")).rows[0].proof as string;
    await attacker.query(`begin; ${ownApp()}`);
    const own = await proof(attacker);
    await attacker.query("commit");
    const other = await logIn();
    const live = hex(randomBytes(32));
    await database.exec(`insert into data.keys (app_id, sandbox_id, id, type, hash, hint)
      values ('${app.id}', '-', '${newId("key")}', 'secret', '${live}', 'hint')`);
    await other.query(`begin; ${key(live)}`);
    const theirs = await proof(other);
    expect([own, theirs]).toEqual([expect.stringMatching(/^[0-9a-f]{64}$/), expect.stringMatching(/^[0-9a-f]{64}$/)]);
    // The other's transaction is open still, as the transaction is that a request runs in.
    await holds(attacker, [set({ app: app.id, sandbox: "-", org: "*", proof: theirs })]);
    await holds(attacker, [ownApp(), set({ app: app.id, sandbox: "-", org: "*" })]);
    await holds(attacker, [set({ app: app.id, sandbox: "-", org: app.victim, proof: own })]);
    await other.query("commit");
    await holds(other, [set({ app: app.id, sandbox: "-", org: "*", proof: theirs })]);
    await database.exec(`update data.keys set revoked_at = now() where hash = '${live}'`);
    const [, again] = await tryAll(attacker, [
      set({ app: app.other, sandbox: "-", org: "*", proof: own }),
      "select id from data.apps",
    ]);
    expect(again).toEqual([[]]);
  });

  it("opens nothing at a door with a credential that is dead, made up, or somebody else's", async () => {
    const tag = async (...parts: string[]) => hex(await mac(root, parts.join("."), "door"));
    const forged = hex(await mac(randomBytes(32).toString("base64url"), `object.${app.id}.-.${app.victim}`, "door"));
    const ofMine = await tag("object", app.id, "-", app.mine);
    const tokenHash = hex(createHash("sha256").update(app.victim).digest());
    const noHash = hex(randomBytes(32));
    for (const door of [
      ...[tokens.revoked, tokens.expired, tokens.mine].flatMap((token) => [
        call("enter_token", app.id, "-", app.victim, people.victim, token, ROLES),
        call("enter_token", app.id, "-", app.victim, people.mine, token, ROLES),
      ]),
      ...[deadKeyHash, ownKeyHash, hex(randomBytes(32)), "\\x"].map(key),
      call("enter_refresh", app.id, "-", app.victim, families.revoked),
      call("enter_object", app.id, "-", app.victim, forged),
      call("enter_object", app.id, "-", app.victim, ofMine),
      // Whoever has read a hash has no MAC over it, and a MAC over another one opens nothing.
      call("enter_hook", app.id, "-", app.victim, tokenHash, forged),
      call(
        "enter_hook",
        app.id,
        "-",
        app.victim,
        tokenHash,
        await tag("hook", app.id, "-", app.mine, tokenHash.slice(2)),
      ),
      call("enter_hook", app.id, "-", app.victim, noHash, await tag("hook", app.id, "-", app.victim, noHash.slice(2))),
      // What visitors are let in by is a MAC over what they ask.
      ...["ask_by_mail", "enter_by_mail", "password_of", "enter_by_password"].map((door) => aVisitor(door, ofMine)),
      call("show_login", app.id, "-", "", ofMine),
      call("show_invitation", app.id, "-", app.victim, noHash, ofMine),
      // A password is set in the tenant that is open: there is none.
      call(
        "set_password",
        app.id,
        "-",
        app.victim,
        people.victim,
        "\\x01",
        "1",
        "\\x02",
        null,
        noHash,
        tokens.revoked,
        "afe",
      ),
      // Nor has who has read a sign-in a cookie of it, and a browser's own opens no other.
      call("enter_session", app.id, "-", app.victim, people.victim, families.browser, ROLES, forged),
      call(
        ...(["enter_session", app.id, "-", app.victim, people.victim, families.browser, ROLES] as const),
        await tag("session", app.id, "-", app.mine, people.mine, families.browser),
      ),
      ...(await Promise.all(
        [families.live, families.revoked, newId("sign_in")].map(async (family) =>
          call(
            ...(["enter_session", app.id, "-", app.victim, people.victim, family, ROLES] as const),
            await tag("session", app.id, "-", app.victim, people.victim, family),
          ),
        ),
      )),
      // Nor a developer's, whose sign-in it has read, nor a code of one.
      call("enter_developer", app.id, developers.victim, signIns.victim, forged),
      call(
        ...(["enter_developer", app.id, developers.victim, signIns.victim] as const),
        await tag("developer", app.id, developers.mine, signIns.mine),
      ),
      call(
        ...(["enter_developer", app.id, developers.victim, signIns.mine] as const),
        await tag("developer", app.id, developers.victim, signIns.mine),
      ),
      call("ask_developer", app.id, "x@example.com", "\\x01", "code", "{}", ofMine),
      call("sign_in_developer", app.id, "\\x01", "{code}", newId("developer_session"), ofMine),
      call("enter_once", app.id, "-", app.victim, "a_kind", onceHash, forged),
      call("enter_scim", app.id, "-", app.victim, tokenHash, forged),
      call(
        "enter_scim",
        app.id,
        "-",
        app.victim,
        tokenHash,
        await tag("scim", app.id, "-", app.mine, tokenHash.slice(2)),
      ),
      call("enter_scim", app.id, "-", app.victim, noHash, await tag("scim", app.id, "-", app.victim, noHash.slice(2))),
      call("bring_in", app.id, "-", app.mine, "scim", "nobody@nowhere.example", ofMine),
      call("bring_in", app.id, "-", app.mine, "sso", "nobody@nowhere.example", ofMine),
      // Nor a client's, a code's or a device's door; nor does it decide for the victim what a device waits for.
      call("enter_client", app.id, "-", newId("oauth_client"), noHash, forged),
      call("enter_code", app.id, "-", app.victim, onceHash, newId("activity_feed_entry"), forged),
      call("enter_device", app.id, "-", newId("oauth_client"), noHash, "nonce", forged),
      call("decide_device", app.id, "-", app.victim, people.victim, noHash, "approved", forged),
      call(
        ...(["decide_device", app.id, "-", app.victim, people.victim, noHash, "approved"] as const),
        await tag("decide", app.id, "-", app.mine, people.mine, noHash.slice(2), "approved"),
      ),
      call("claim_behind", ofMine, "100"),
      call("claim_behind_endpoints", ofMine, "100"),
      call("claim_behind_runs", ofMine, "100"),
      call("claim_erasures", ofMine, "100"),
      call("claim_sso_warnings", ofMine, "100"),
      call("claim_unnumbered", ofMine, "100"),
      call("erased", ofMine, "{1}"),
    ]) {
      for (const before of [[], [ownToken()], [ownApp()]]) {
        const answers = await holds(attacker, [...before, door]);
        expect(answers[before.length], door).toMatchObject({ code: expect.stringMatching(/^AE/) });
        // Caught inside the statement, its refusal leaves nothing open either.
        await holds(attacker, [
          ...before,
          `do $do$ begin ${door.replace("select", "perform")}; exception when others then null; end $do$`,
        ]);
      }
    }
  });

  it("opens nothing by a secret that was used, has expired, is of another kind or of nobody", async () => {
    const tag = async (kind: string, hash: string) =>
      hex(await mac(root, ["once", app.id, "-", app.victim, kind, hash.slice(2)].join("."), "door"));
    for (const [kind, hash] of [
      ["used", onceHash],
      ["expired", onceHash],
      ["another", onceHash],
      ["a_kind", hex(randomBytes(32))],
    ] as const) {
      const door = call("enter_once", app.id, "-", app.victim, kind, hash, await tag(kind, hash));
      for (const before of [[], [ownToken()], [ownApp()]]) {
        const answers = await holds(attacker, [...before, door]);
        expect(answers[before.length]).toEqual([[{ enter_once: null }]]);
      }
    }
  });

  it("opens nothing by asking whether somebody may still watch", async () => {
    const asked = { app: app.id, sandbox: "-", roles: ["owner", "admin"] };
    for (const watcher of [
      { ...asked, org: app.victim, usr: people.victim, jti: tokens.revoked },
      { ...asked, org: app.victim, usr: people.mine, jti: tokens.mine },
      { ...asked, org: app.mine, usr: people.mine, jti: tokens.mine },
    ]) {
      const watch = call("watch", JSON.stringify([watcher]));
      for (const before of [[], [ownToken()], [ownApp()]]) {
        await holds(attacker, [...before, watch]);
        await holds(attacker, [...before, watch, set({ app: app.id, sandbox: "-", org: app.victim })]);
      }
    }
  });

  it("leads nowhere by narrowing: not from its org, not into a sandbox or org that it isn't the developer of", async () => {
    for (const within of [call("within", "-", app.victim), call("within", "-", "*"), call("within", "", "*")]) {
      await holds(attacker, [within]);
      await holds(attacker, [ownToken(), within]);
      await holds(attacker, [ownToken(), set({ org: "*" }), within]);
      await holds(attacker, [ownApp(), set({ app: app.id }), within]);
      await holds(attacker, [ownApp(), within, set({ app: app.id })]);
    }
  });

  it("can't slip in while a statement runs, by changing the settings or going through a door of its own halfway", async () => {
    const changes = [
      set({ org: "*" }),
      set({ org: app.victim }),
      set({ app: app.id, sandbox: "-", org: "*" }),
      ownApp(),
      ownToken(),
      call("within", "-", "*"),
    ].map((change) => change.replace("select ", "").replace(/\), set/g, ") || set"));
    for (const plan of ["off", "on"]) {
      const plans = ["indexscan", "indexonlyscan", "bitmapscan"].map((kind) => `set local enable_${kind} = ${plan}`);
      for (const door of [ownToken(), ownApp()]) {
        for (const change of changes) {
          const halfway = `(${change})::text is not null`;
          await holds(attacker, [
            ...[...plans, door],
            ...["agents", "users", "orgs", "tokens"].flatMap((table) => [
              `select * from data.${table} where ${halfway}`,
              `select * from data.${table} a, lateral (select ${change}) b, data.${table} c`,
              `select (select json_agg(b) from data.${table} b where a.app_id <> '') from data.${table} a where ${halfway}`,
            ]),
            `with changed as materialized (select ${change}) select * from data.agents, changed`,
            `update data.agents set name = 'mine' where ${halfway} returning *`,
            `declare halfway cursor for select * from data.agents`,
            "fetch 1 from halfway",
            `select ${change}`,
            "fetch all from halfway",
          ]);
        }
      }
    }
  });

  it("may be nobody else", async () => {
    for (const become of [
      "set role agentry_owner",
      "set local role agentry_owner",
      "set session authorization agentry_owner",
      "set session authorization postgres",
      "select set_config('role', 'agentry_owner', false)",
      "reset role",
      "grant agentry_owner to agentry_api",
      "alter role agentry_api bypassrls",
      "set row_security = off",
      "set session_replication_role = replica",
      "alter table data.agents disable row level security",
      "drop policy tenant on data.agents",
      "create policy p on data.agents using (true)",
      "alter function app.tenant security invoker",
      "create or replace function app.proof(secret bytea, app text, sandbox text, org text) returns text language sql as 'select 1'",
    ]) {
      await holds(attacker, [become]);
      await holds(attacker, [ownToken(), become]);
      await attacker.query("reset all; reset role");
    }
  });

  it("reads none of the secrets, and calls nothing that makes a proof or checks one", async () => {
    const answers = await tryAll(attacker, [
      ownApp(),
      "select * from app.proof_secret",
      "select * from app.door_keys",
      "insert into app.door_keys values ('')",
      "delete from app.proof_secret",
      `select app.proof('', '${app.id}', '-', '*')`,
      `select app.prove('${app.id}', '-', '*')`,
      "select app.check_mac('', '')",
      `select app.check_beside('${app.id}', '-', '${deadKeyHash}')`,
      `select app.check_sandbox('${app.id}', '-')`,
      "select app.guard('data.agents', 'all')",
      "select app.wall('data.agents', 'all')",
    ]);
    for (const answer of answers.slice(1)) expect(answer).toMatchObject({ code: "42501" });
  });

  it("gets nothing out of any function of schema app, whatever it is given", async () => {
    const functions = await database.query<{ name: string; types: string }>(`select p.proname as name,
        array_to_string(array(select replace(t::regtype::text, ' with time zone', '') from unnest(p.proargtypes) t), ' ') as types
      from pg_proc p where p.pronamespace = 'app'::regnamespace and has_function_privilege('agentry_api', p.oid, 'execute')`);
    expect(functions.length).toBeGreaterThan(8);
    const texts = [
      ...[app.id, app.other, app.victim, app.mine, "*", "-", "", null, "' or true --", "%", "{}"],
      ...Object.values({ ...people, ...agents }),
      ...[tokens.revoked, tokens.expired, tokens.mine, families.revoked],
    ];
    const hostile: Record<string, (string | null)[]> = {
      text: texts,
      "text[]": [ROLES, "{}", null, `{${app.victim},*}`],
      bytea: [ownKeyHash, deadKeyHash, "\\x", null],
      "bytea[]": ["{}", '{"\\\\x01"}', null],
      jsonb: ["[]", "{}", '{"grants": [{"principal_type": "everyone", "actions": ["read"]}]}', null],
      boolean: ["t", "f", null],
      integer: ["0", "1", "-1", "2147483647", null],
      "bigint[]": ["{}", "{1,2,3}", null],
      timestamp: ["2026-01-01", "infinity", "-infinity", null],
      "timestamp[]": ["{}", "{2026-01-01,infinity}", "{-infinity}", null],
    };
    let n = 1;
    // The same numbers on every run: a multiplicative generator (Lehmer).
    const pick = <T>(list: T[]) => {
      n = (n * 48_271) % 2_147_483_647;
      return list[n % list.length]!;
    };
    for (const { name, types } of functions) {
      for (const kind of types.split(" ").filter(Boolean)) expect(hostile, `${name}: ${kind}`).toHaveProperty([kind]);
      for (let i = 0; i < (types ? 16 : 1); i++) {
        const args = types
          .split(" ")
          .filter(Boolean)
          .map((kind) => pick(hostile[kind]!));
        // Every other time what it asks for lies in the victim's org.
        if (i % 2 && types.startsWith("text text text")) args.splice(0, 3, app.id, "-", app.victim);
        await holds(attacker, [
          ...pick([[], [ownToken()], [ownApp()]]),
          call(name, ...args),
          set({ app: app.id, sandbox: "-", org: "*" }),
        ]);
      }
    }
  });

  it("mints no token for the victim and moves no sign-in of it, from whatever tenant is open", async () => {
    const granted = `{"owner": ["${SECRET}"]}`;
    const made = [newId("token"), newId("sign_in"), newId("activity_feed_entry")];
    for (const door of [[], [ownToken()], [ownApp()]]) {
      for (const org of [app.victim, "*", app.mine]) {
        const place = [app.id, "-", org];
        const answers = await holds(attacker, [
          ...door,
          call(
            "sign_in",
            ...place,
            people.victim,
            ...made,
            granted,
            '{"method": "token", "carrier": "api", "access_lifetime_s": 60}',
          ),
          call("rotate_token", ...place, families.live, "0", newId("token"), newId("activity_feed_entry"), "60"),
          call("family_user", ...place, families.live),
          call("end_sign_ins", ...place, people.victim, families.live, "", newId("activity_feed_entry"), ""),
        ]);
        expect(answers.slice(door.length, door.length + 4)).toEqual([[[]], [[]], [[]], [[]]]);
      }
    }
  });

  const shadows = () => [
    "create temp table looted (what pg_catalog.text); grant all on looted to public",
    `create function pg_temp.steal(value pg_catalog.text) returns pg_catalog.bool language plpgsql as $steal$ begin
       insert into pg_temp.looted select name from data.agents; return true;
       exception when others then return true; end $steal$`,
    ...["text", "text[]", "bool", "boolean", "record", "bytea", "int4"]
      .filter((type) => !type.endsWith("[]"))
      .map((type) => `create domain pg_temp."${type}" as pg_catalog.text check (pg_temp.steal(value))`),
    "create function pg_temp.current_setting(pg_catalog.text, pg_catalog.bool) returns pg_catalog.text language sql as $$ select '*'::pg_catalog.text $$",
    "create function pg_temp.sha256(pg_catalog.bytea) returns pg_catalog.bytea language sql as $$ select '\\x00'::pg_catalog.bytea $$",
    "create function pg_temp.now() returns pg_catalog.timestamptz language sql as $$ select '-infinity'::pg_catalog.timestamptz $$",
    ...["tokens", "users", "orgs", "keys", "tenants", "proof_secret", "door_keys"].map(
      (table) => `create temp table ${table} as select ${quote(app.id)}::pg_catalog.text as app_id`,
    ),
    "create function pg_temp.leak(pg_catalog.text) returns pg_catalog.bool cost 0.0000001 language plpgsql as $leak$ begin raise notice '%', $1; insert into pg_temp.looted values ($1); return true; end $leak$",
  ];

  it("makes no temporary table, type or function, and no large object", async () => {
    const client = await logIn();
    for (const statement of [
      ...shadows(),
      "create schema mine",
      "create table public.mine (a int)",
      "select lo_create(0)",
      "select lo_from_bytea(0, 'kept')",
    ]) {
      await expect(client.query(statement), statement).rejects.toMatchObject({ code: "42501" });
    }
  });

  it("shadows no name, even where the database lets it make temporary ones", async () => {
    await database.exec(`grant temporary on database ${name} to public`);
    try {
      const client = await logIn();
      const made = await tryAll(client, shadows());
      for (const answer of made) expect(answer).not.toHaveProperty("code");
      for (const path of ["pg_temp, pg_catalog", "pg_temp, data, app", "pg_catalog"]) {
        for (const door of [[], [ownToken()], [ownApp()], [key(deadKeyHash)]]) {
          await holds(client, [
            ...[`set local search_path = ${path}`, ...door],
            ...[set({ app: app.id, sandbox: "-", org: "*" }), call("within", "-", "*"), "select app.sweep()"],
            call("enter_token", app.id, "-", app.victim, people.victim, tokens.revoked, ROLES),
            ...[
              "select * from data.agents where pg_temp.leak(name)",
              "select * from data.users where pg_temp.leak(name)",
            ],
          ]);
          const { rows } = await client.query("select * from pg_temp.looted where what is distinct from 'mine'");
          expect(rows).toEqual([]);
        }
      }
    } finally {
      await database.exec(`revoke temporary on database ${name} from public`);
    }
  });
});
