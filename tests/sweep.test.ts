/** What is past its time goes, in every tenant, and nothing else does. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { mac } from "../lib/auth/secrets.ts";
import { sweep } from "../lib/db/sweep.ts";
import { derivedId, newId } from "../lib/ids.ts";
import { bearer, type Call, caller, developer, must } from "./harness/index.ts";
import { newRoot, newSigningKey, ownSystem } from "./harness/own.ts";

let own: Awaited<ReturnType<typeof ownSystem>>;
let base: string;
let ask: Call;
let at: string;

beforeAll(async () => {
  own = await ownSystem();
  base = await own.start([await newSigningKey("one")], [newRoot()], { groups: ["root", "developer"] });
  const { app_id, secret_key } = await own.newApp();
  ask = caller(bearer(secret_key), base);
  at = developer(app_id);
});
afterAll(() => own.close());
const LATER = new Date(Date.now() + 3_600_000).toISOString();

const count = async (table: string) =>
  Number((await own.database.query<{ n: string }>(`select count(*) as n from data.${table}`))[0]!.n);

it("an idempotency key is free again after a day", async () => {
  const make = (key: string) =>
    ask("POST", `${at}/users`, { name: "A" }, { "Idempotency-Key": key }).then(({ body }) => body.id as string);
  const [old, yesterday] = [await make("old"), await make("yesterday")];
  const age = (key: string, by: string) =>
    own.database.query(`update data.idempotency_keys set created_at = now() - interval '${by}' where key = $1`, [key]);
  await age("old", "25 hours");
  await age("yesterday", "23 hours");
  await sweep(own.url);
  expect(await make("yesterday")).toBe(yesterday);
  expect(await make("old")).not.toBe(old);
});

it("a sandbox ends with all that lives in it when it expires; others stay", async () => {
  const ended = await must(
    ask("POST", "/api/v1/sandboxes", { name: "E", slug: "ended", purpose: "eval", expires_at: LATER }),
    201,
  );
  const kept = await must(
    ask("POST", "/api/v1/sandboxes", { name: "K", slug: "kept", purpose: "eval", expires_at: LATER }),
    201,
  );
  const keys = await count("keys");
  await own.database.exec("update data.sandboxes set expires_at = now() - interval '1 second' where slug = 'ended'");
  await sweep(own.url);
  expect((await ask("GET", `/api/v1/sandboxes/${ended.id}`)).status).toBe(404);
  expect((await ask("GET", `/api/v1/sandboxes/${kept.id}`)).status).toBe(200);
  expect(await count("keys")).toBe(keys - 1);
});

/** Two apps, each with rows of every age that the sweep looks at, and a look at what is left of them. */
async function aged() {
  const apps = [await own.newApp(), await own.newApp()];
  const slugs = { past: "-1 second", nearly: "1 minute" };
  for (const { app_id, secret_key } of apps) {
    const call = caller(bearer(secret_key), base);
    const slug = `o-${app_id.slice(-8).toLowerCase()}`;
    const org = (
      await must(call("POST", `${developer(app_id)}/orgs`, { name: "O", slug, domain: `${slug}.example` }), 201)
    ).id;
    const user = (await must(call("POST", `${developer(app_id)}/users`, { org }), 201)).id;
    for (const [slug, age] of Object.entries(slugs)) {
      await must(call("POST", "/api/v1/sandboxes", { name: slug, slug, purpose: "eval", expires_at: LATER }), 201);
      await own.database.query(
        `update data.sandboxes set expires_at = now() + interval '${age}' where app_id = $1 and slug = $2`,
        [app_id, slug],
      );
    }
    const at = `'${app_id}', '-', '${org}'`;
    await own.database.exec(`
      insert into data.idempotency_keys (app_id, sandbox_id, org_id, subject, key, fingerprint, row_id, created_at)
        select ${at}, 'app', name, '', '-', now() - age
          from (values ('past', interval '24 hours 1 minute'), ('nearly', '23 hours 59 minutes'), ('new', '0')) v (name, age);
      insert into data.token_families (app_id, sandbox_id, org_id, user_id, id, scopes, access_lifetime_s, token_id, method, carrier, idle_s, ends_at, expires_at)
        select ${at}, '${user}', name, '{}', 60, '-', 'token', 'api', 60, now(), now() - age
          from (values ('past', interval '30 days 1 minute'), ('nearly', '29 days 23 hours 59 minutes'), ('live', '-1 hour')) v (name, age);
      insert into data.one_time_secrets (app_id, sandbox_id, org_id, kind, hash, expires_at)
        select ${at}, name, '', now() - age
          from (values ('past', interval '1 day 1 minute'), ('nearly', '23 hours 59 minutes'), ('live', '-1 hour')) v (name, age);
      insert into data.developers (app_id, id, email) values ('${app_id}', 'dva_x', 'x');
      insert into data.developer_sessions (app_id, id, developer_id, idle_s, ends_at, expires_at)
        select '${app_id}', name, 'dva_x', 60, now(), now() - age
          from (values ('past', interval '1 second'), ('live', '-1 minute')) v (name, age);
      insert into data.sandbox_mails (app_id, sandbox_id, org_id, id, "to", subject, text, created_at)
        select app_id, sandbox_id, '-', v.name, 'x', 'x', 'x', now() - age
          from data.sandboxes, (values ('past', interval '7 days 1 minute'), ('nearly', '6 days 23 hours 59 minutes')) v (name, age)
         where app_id = '${app_id}' and slug = 'test';
      insert into data.tokens (app_id, sandbox_id, org_id, user_id, id, scopes, expires_at)
        select app_id, sandbox_id, org_id, user_id, id, scopes, expires_at from data.token_families
         where app_id = '${app_id}'`);
  }
  return async () => {
    const left: string[][] = [];
    for (const { app_id } of apps) {
      for (const [table, name] of [
        ["idempotency_keys", "key"],
        ["token_families", "id"],
        ["tokens", "id"],
        ["one_time_secrets", "kind"],
        ["developer_sessions", "id"],
        ["sandbox_mails", "id"],
        ["sandboxes", "slug"],
      ]) {
        const found = `select ${name} as name from data.${table} where app_id = $1 order by 1`;
        left.push((await own.database.query<{ name: string }>(found, [app_id])).map((row) => row.name));
      }
    }
    return left;
  };
}
const kept = [
  ["nearly", "new"],
  ["live", "nearly"],
  ["live", "nearly"],
  ["live", "nearly"],
  ["live"],
  ["nearly"],
  ["nearly", "test"],
];

it("what is past its time goes in every tenant, and what is nearly so stays", async () => {
  const left = await aged();
  await sweep(own.url);
  expect(await left()).toEqual([...kept, ...kept]);
});

it("says how many rows it took away: none, when it has just been", async () => {
  await aged();
  const swept = async () => {
    const [result] = await own.database.run("agentry_api", [{ query: "select app.sweep()", params: [] }], {
      batch: true,
    });
    return Number(result!.rows[0]![0]);
  };
  // Of each of two apps a key, a token and its family, what works once, a developer's sign-in, a mail, and a sandbox: its
  // record, its key, its place, and that it ended.
  expect([await swept(), await swept()]).toEqual([20, 0]);
});

it("occurrences go after 30 days, or as many as their app says", async () => {
  const { app_id } = await own.newApp();
  const days = (n: number) => derivedId("occurrence", Date.now() - n * 86_400_000 - 60_000, new Uint8Array(16));
  const ids = [1, 29, 30].map(days);
  await own.database.exec(`
    insert into data.agents (app_id, sandbox_id, org_id, id, name) values ('${app_id}', '-', '-', 'agi_x', 'Ada');
    insert into data.occurrences (app_id, sandbox_id, org_id, agent_id, id, schedule_id, planned_at, outcome, overlap)
      select '${app_id}', '-', '-', 'agi_x', id, 'asc_x', now() - n * interval '1 day', 'missed', 'skip'
        from unnest('{${ids}}'::text[]) with ordinality as o (id, n)`);
  const left = async () => {
    await sweep(own.url);
    const found = "select id from data.occurrences where app_id = $1 order by id desc";
    return (await own.database.query<{ id: string }>(found, [app_id])).map(({ id }) => id);
  };
  expect(await left()).toEqual([ids[0], ids[1]]);
  await own.database.query(`update data.apps set settings = '{"retention_days": {"occurrences": 1}}' where id = $1`, [
    app_id,
  ]);
  expect(await left()).toEqual([]);
});

it("an occurrence that still waits stays, however old: it is to come", async () => {
  const { app_id } = await own.newApp();
  const of = (i: number) => derivedId("occurrence", Date.now() - 400 * 86_400_000, new Uint8Array(16).fill(i));
  const outcomes = ["buffered", "backfilled", "cancelled", "missed"];
  await own.database.exec(`
    insert into data.agents (app_id, sandbox_id, org_id, id, name) values ('${app_id}', '-', '-', 'agi_x', 'Ada');
    insert into data.occurrences (app_id, sandbox_id, org_id, agent_id, id, schedule_id, planned_at, outcome, overlap)
      select '${app_id}', '-', '-', 'agi_x', id, 'asc_x', now() - n * interval '1 day', outcome, 'buffer_all'
        from unnest('{${outcomes.map((_, i) => of(i))}}'::text[], '{${outcomes}}'::text[]) with ordinality as o (id, outcome, n)`);
  await sweep(own.url);
  const left = await own.database.query("select outcome from data.occurrences where app_id = $1 order by id", [app_id]);
  expect(left).toEqual([{ outcome: "buffered" }, { outcome: "backfilled" }]);
});

it("an event goes when it is old itself, whatever its id says: what is numbered before it isn't lost with it", async () => {
  const { app_id } = await own.newApp();
  const id = (i: number) => derivedId("event", Date.now() - 40 * 86_400_000, new Uint8Array(16).fill(i));
  await own.database.exec(`
    insert into data.event_heads (app_id, sandbox_id, org_id) values ('${app_id}', '-', '-') on conflict do nothing;
    insert into data.events (app_id, sandbox_id, org_id, id, sequence, name, payload, created_at)
      values ('${app_id}', '-', '-', '${id(1)}', 1, 'custom.a', '{}', now() - interval '40 days'),
             ('${app_id}', '-', '-', '${id(2)}', 2, 'custom.b', '{}', now())`);
  await sweep(own.url);
  const left = await own.database.query("select name from data.events where app_id = $1", [app_id]);
  expect(left).toEqual([{ name: "custom.b" }]);
  const heads = await own.database.query("select expired from data.event_heads where app_id = $1", [app_id]);
  expect(heads).toEqual([{ expired: "1" }]);
});

it("runs that are over go after 90 days, a routine's and an automation's alike", async () => {
  const { app_id } = await own.newApp();
  const at = (kind: "agent_routine_run" | "automation_run", days: number) =>
    derivedId(kind, Date.now() - days * 86_400_000 - 60_000, new Uint8Array(16));
  const kept = [at("agent_routine_run", 89), at("automation_run", 89), at("automation_run", 91)];
  const gone = [at("agent_routine_run", 90), at("automation_run", 90)];
  const [agent, automation] = [newId("agent"), newId("config")];
  const of = (id: string) => (id.startsWith("arr_") ? `'${agent}', null` : `null, '${automation}'`);
  const run = (id: string, status = "completed") => `('${app_id}', '-', '-', '${id}', ${of(id)}, '${status}')`;
  await own.database.exec(`
    insert into data.agents (app_id, sandbox_id, org_id, id, name) values ('${app_id}', '-', '-', '${agent}', 'Ada');
    insert into data.agent_routine_runs (app_id, sandbox_id, org_id, id, agent_id, automation_id, status)
      values ${[...kept.slice(0, 2), ...gone].map((id) => run(id))}, ${run(kept[2]!, "running")}`);
  await sweep(own.url);
  const left = await own.database.query<{ id: string }>("select id from data.agent_routine_runs where app_id = $1", [
    app_id,
  ]);
  expect(left.map(({ id }) => id).sort()).toEqual(kept.toSorted());
});

it("an org of which thousands are behind holds up no other", async () => {
  const [flooded, other] = [await own.newApp(), await own.newApp()];
  await own.database.exec(`
    insert into data.agents (app_id, sandbox_id, org_id, id, name)
      values ('${flooded.app_id}', '-', '-', 'agi_x', 'Ada'), ('${other.app_id}', '-', '-', 'agi_x', 'Eve');
    insert into data.agent_routine_runs (app_id, sandbox_id, org_id, id, agent_id, look_at)
      select '${flooded.app_id}', '-', '-', 'arr_' || n, 'agi_x', now() - interval '1 hour' from generate_series(1, 2000) n
      union all select '${other.app_id}', '-', '-', 'arr_1', 'agi_x', now() - interval '1 second';
    insert into data.agent_sessions (app_id, sandbox_id, org_id, id, agent_id, trajectory_id, instructions, max_turns, max_tokens,
        max_runs_per_turn, start_idle, on_idle, look_at)
      select app_id, sandbox_id, org_id, 'ags_' || id, agent_id, 'trj_' || id, '', 1, 1, 1, false, 'wait', look_at
        from data.agent_routine_runs where look_at < now()`);
  const tag = Buffer.from(await mac(own.root, "objects.sweep", "door")).toString("hex");
  for (const name of ["claim_behind", "claim_behind_runs"]) {
    const claim = async () =>
      Object.groupBy(
        await own.database.query<{ app_id: string }>(`select app_id from app.${name}('\\x${tag}', 100)`),
        ({ app_id }) => (app_id === other.app_id ? "other" : "flooded"),
      );
    const first = await claim();
    expect([name, first.other?.length, first.flooded?.length]).toEqual([name, 1, 99]);
    // Each is claimed for a minute.
    const second = await claim();
    expect([name, second.other?.length, second.flooded?.length]).toEqual([name, undefined, 100]);
  }
  // They are no rows of an object's, whom the sweep would look for.
  await own.database.exec(
    "update data.agent_sessions set look_at = null; update data.agent_routine_runs set look_at = null",
  );
});

it("receipts of webhooks go after 30 days, or as many as their app says, a week at least", async () => {
  const { app_id } = await own.newApp();
  const days = (n: number) => derivedId("webhook_receipt", Date.now() - n * 86_400_000 - 60_000, new Uint8Array(16));
  const ids = [6, 29, 30].map(days);
  await own.database.exec(`
    insert into data.webhook_receipts (app_id, sandbox_id, org_id, id, webhook_id, status, event_id, payload)
      select '${app_id}', '-', '-', id, 'whi_x', 'received', 'evt_x', '{}' from unnest('{${ids}}'::text[]) id`);
  const left = async () => {
    await sweep(own.url);
    const found = "select id from data.webhook_receipts where app_id = $1 order by id desc";
    return (await own.database.query<{ id: string }>(found, [app_id])).map(({ id }) => id);
  };
  const keep = (n: number) =>
    own.database.query(
      `update data.apps set settings = '{"retention_days": {"webhook_receipts": ${n}}}' where id = $1`,
      [app_id],
    );
  expect(await left()).toEqual([ids[0], ids[1]]);
  await expect(keep(6)).rejects.toThrow("apps_retention_of_receipts_check");
  await keep(7);
  expect(await left()).toEqual([ids[0]]);
});

it("but for its function, the runtime role could delete none of it", async () => {
  await aged();
  const before = await count("tokens");
  expect(before).toBeGreaterThan(0);
  const statement = { query: "delete from data.tokens", params: [] };
  await own.database.run("agentry_api", [statement], { batch: true });
  expect(await count("tokens")).toBe(before);
});

it("fires by cron, like any other Worker's", async () => {
  await own.database.exec("update data.idempotency_keys set created_at = now() - interval '25 hours'");
  await own.fireCrons();
  expect(await count("idempotency_keys")).toBe(0);
});
