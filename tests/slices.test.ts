/** What is deleted is dead at once, however much hangs on it; its rows go in slices. */
import { resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sweep } from "../lib/db/sweep.ts";
import { base62 } from "../lib/ids.ts";
import { openDatabase } from "./harness/database.ts";
import { type App, anAgent, anApp, bearer, type Call, caller, must, unique } from "./harness/index.ts";
import { newRoot, newSigningKey, type Own, ownSystem } from "./harness/own.ts";

let own: Own;
let base: string;
beforeAll(async () => {
  own = await ownSystem(openDatabase());
  const alias = { "sweep.ts": resolve(import.meta.dirname, "harness/no-sweep.ts") };
  base = await own.start([await newSigningKey("one")], [newRoot()], { alias });
});
afterAll(() => own.close());

const here = () => anApp({ base, newApp: own.newApp });
const MANY = 12_000;

/** Agents of an org, and of a user if one is named, each with a lookup_key. */
const fill = (app: string, sandbox: string, org: string, user: string | null, n = MANY) =>
  own.database.query(
    `insert into data.agents (id, app_id, sandbox_id, org_id, user_id, lookup_key)
      select 'agi_' || right($3, 10) || lpad(i::text, 12, '0'), $1, $2, $3, $4, right($3, 10) || i from generate_series(1, $5::int) i`,
    [app, sandbox, org, user, String(n)],
  );
const lookupKey = (org: string, i: number) => org.slice(-10) + i;

/** How many rows are left in all tables under a condition, the feed's entries of the app itself aside. */
async function left(condition: string): Promise<number> {
  const tables = await own.database.query<{ name: string }>(
    "select relname as name from pg_class where relnamespace = 'data'::regnamespace and relkind = 'r' and relname <> 'apps'",
  );
  const counts = tables.map(({ name }) => `(select count(*) from data.${name} where ${condition})`);
  const [row] = await own.database.query<{ n: string }>(`select ${counts.join(" + ")} as n`);
  return Number(row!.n);
}
const endings = async () => (await own.database.query("select id from app.endings")).length;
const total = async (call: Call, path: string) => (await must(call("GET", path), 200)).total_entries as number;
const status = async (answer: ReturnType<Call>) => (await answer).status;

describe("an org of 12,000 rows", () => {
  let made: App;
  let org: any;
  let owner: any;
  let session: any;
  beforeAll(async () => {
    made = await here();
    org = await made.anOrg();
    owner = await made.aUser(org.id, "owner");
    session = await made.aToken(owner.id);
    await fill(made.app, "-", org.id, null);
    expect(await status(made.asDeveloper("DELETE", `${made.at}/orgs/${org.id}`))).toBe(204);
  });

  it("leaves most of its rows to the sweep", async () => {
    const rows = await left(`org_id = '${org.id}'`);
    expect(rows).toBeGreaterThan(MANY - 5_100);
    expect(rows).toBeLessThan(MANY);
  });

  it("is gone for whoever asks: its record, its tokens, its rows one by one, and every list", async () => {
    const { at, app, asDeveloper, acme, as } = made;
    expect(await status(asDeveloper("GET", `${at}/orgs/${org.id}`))).toBe(404);
    expect(await status(asDeveloper("DELETE", `${at}/orgs/${org.id}`))).toBe(404);
    expect(await status(caller(bearer(session.access_token), base)("GET", "/api/v1/agents"))).toBe(401);
    const { refresh_token } = session;
    expect(await status(caller({}, base)("POST", "/api/v1/auth/refresh", { refresh_token }))).toBe(401);
    const [agent] = await own.database.query<{ id: string }>(
      "select id from data.agents where app_id = $1 and org_id = $2 limit 1",
      [app, org.id],
    );
    expect(await status(asDeveloper("GET", `/api/v1/agents/${agent!.id}`))).toBe(404);
    expect(await status(asDeveloper("DELETE", `/api/v1/agents/${agent!.id}`))).toBe(404);
    expect(await total(asDeveloper, "/api/v1/agents")).toBe(0);
    expect(await total(asDeveloper, `/api/v1/agents?org_id=${org.id}`)).toBe(0);
    expect(await total(asDeveloper, `${at}/users?org=${org.id}`)).toBe(0);
    expect(await status(asDeveloper("GET", `${at}/users/${owner.id}`))).toBe(404);
    expect(await status(asDeveloper("POST", `${at}/users/${owner.id}/tokens`))).toBe(404);
    expect(await total(as(acme), "/api/v1/agents")).toBe(0);
    const { data } = await must(asDeveloper("GET", "/api/v1/activity_feed?limit=100"), 200);
    expect(data.filter((entry: any) => entry.org === org.id)).toEqual([]);
  });

  it("takes nothing in: no user, no agent", async () => {
    const { at, asDeveloper } = made;
    for (const [path, body] of [
      [`${at}/users`, { org: org.id }],
      ["/api/v1/agents", { name: "Ada", org: org.id }],
    ] as const) {
      const { status, body: said } = await asDeveloper("POST", path, body);
      expect([status, said.error.fields[0].field]).toEqual([422, "org"]);
    }
  });

  it("leaves its slug, its domain, its people's addresses and its lookup_keys to others", async () => {
    const { at, app, asDeveloper, acme } = made;
    const { slug, domain } = org;
    await must(asDeveloper("POST", `${at}/orgs`, { name: "Again", slug, domain }), 201);
    // Rows that the first slice took would prove nothing: these are still there.
    const held = `app_id = '${app}' and org_id = '${org.id}'`;
    expect(await own.database.query(`select email from data.users where ${held}`)).toEqual([{ email: owner.email }]);
    await must(asDeveloper("POST", `${at}/users`, { email: owner.email.toUpperCase(), org: acme }), 201);
    const [agent] = await own.database.query<{ lookup_key: string }>(
      `select lookup_key from data.agents where ${held} and lookup_key is not null limit 1`,
    );
    await anAgent(asDeveloper, { org: acme, lookup_key: agent!.lookup_key });
    const other = await anAgent(asDeveloper, { org: acme });
    const [another] = await own.database.query<{ lookup_key: string }>(
      `select lookup_key from data.agents where ${held} and lookup_key is not null limit 1`,
    );
    await must(asDeveloper("PATCH", `/api/v1/agents/${other.id}`, { lookup_key: another!.lookup_key }), 200);
  });

  it("has no rows left after the sweep's turn, and others all of theirs", async () => {
    const { acme } = made;
    const kept = await left(`org_id = '${acme}'`);
    await sweep(own.url);
    expect([await left(`org_id = '${org.id}'`), await left(`org_id = '${acme}'`), await endings()]).toEqual([
      0,
      kept,
      0,
    ]);
  });
});

it("an org of few rows has none left after the request", async () => {
  const { acme, at, asDeveloper, owners, aToken } = await here();
  await aToken(owners[acme]!);
  await anAgent(asDeveloper, { org: acme });
  expect(await status(asDeveloper("DELETE", `${at}/orgs/${acme}`))).toBe(204);
  expect([await left(`org_id = '${acme}'`), await endings()]).toEqual([0, 0]);
});

describe("a user of 12,000 rows", () => {
  let made: App;
  let user: any;
  let session: any;
  beforeAll(async () => {
    made = await here();
    user = await made.aUser(made.acme);
    session = await made.aToken(user.id);
    await fill(made.app, "-", made.acme, user.id);
    expect(await status(made.asDeveloper("DELETE", `${made.at}/users/${user.id}`))).toBe(204);
    expect(await left(`org_id = '${made.acme}'`)).toBeGreaterThan(MANY - 5_100);
  });

  it("is gone for whoever asks, with its tokens and its agents", async () => {
    const { at, asDeveloper, acme, as } = made;
    expect(await status(caller(bearer(session.access_token), base)("GET", "/api/v1/users/me"))).toBe(401);
    const { refresh_token } = session;
    expect(await status(caller({}, base)("POST", "/api/v1/auth/refresh", { refresh_token }))).toBe(401);
    for (const call of [asDeveloper, as(acme)]) {
      expect(await status(call("GET", `/api/v1/users/${user.id}`))).toBe(404);
      expect(await total(call, "/api/v1/agents")).toBe(0);
      expect(await status(call("GET", `/api/v1/agents/${lookupKey(acme, MANY)}`))).toBe(404);
    }
    expect(await status(asDeveloper("DELETE", `${at}/users/${user.id}`))).toBe(404);
    expect(await status(asDeveloper("PATCH", `${at}/users/${user.id}`, { name: "Back" }))).toBe(404);
    expect(await status(asDeveloper("POST", `${at}/users/${user.id}/tokens`))).toBe(404);
    expect(await status(asDeveloper("DELETE", `${at}/users/${user.id}/tokens/${session.id}`))).toBe(404);
    expect(await status(asDeveloper("POST", "/api/v1/agents", { name: "Ada", user: user.id }))).toBe(422);
    expect(await total(asDeveloper, `${at}/users?search=${user.email}`)).toBe(0);
  });

  it("leaves its address and its lookup_keys to others", async () => {
    const { acme, at, asDeveloper } = made;
    await must(asDeveloper("POST", `${at}/users`, { email: user.email, org: acme }), 201);
    const [agent] = await own.database.query<{ lookup_key: string }>(
      "select lookup_key from data.agents where user_id = $1 limit 1",
      [user.id],
    );
    await anAgent(asDeveloper, { org: acme, lookup_key: agent!.lookup_key });
  });

  it("has no rows left after the sweep's turn", async () => {
    await sweep(own.url);
    const [{ n }] = (await own.database.query<{ n: string }>(
      `select (select count(*) from data.users where id = $1) + (select count(*) from data.tokens where user_id = $1)
        + (select count(*) from data.token_families where user_id = $1) + (select count(*) from data.agents where user_id = $1) as n`,
      [user.id],
    )) as [{ n: string }];
    expect([Number(n), await endings()]).toEqual([0, 0]);
  });
});

describe("a user whom 12,000 runs were for", () => {
  let made: App;
  let user: any;
  let agent: any;
  const named = async (table: string) => {
    const [row] = await own.database.query<{ n: string }>(
      `select count(*) as n from data.${table} where agent_id = $1 and user_id = $2`,
      [agent.id, user.id],
    );
    return Number(row!.n);
  };
  beforeAll(async () => {
    made = await here();
    user = await made.aUser(made.acme);
    agent = await anAgent(made.asDeveloper, { org: made.acme });
    await must(
      made.asDeveloper("POST", `/api/v1/agents/${agent.id}/agent_routines`, {
        ...{ name: "r", handler_type: "script", script: "1", user: user.id },
      }),
      200,
    );
    await own.database.query(
      `insert into data.agent_routine_runs (id, app_id, sandbox_id, org_id, agent_id, user_id, status)
        select 'arr_' || right(id, 10) || lpad(i::text, 12, '0'), app_id, sandbox_id, org_id, id, $2, 'completed'
        from data.agents, generate_series(1, ${MANY}) i where id = $1`,
      [agent.id, user.id],
    );
  });

  it("is gone at once, and the runs stay; they let go of it a slice at a time, and are its end's last", async () => {
    expect(await status(made.asDeveloper("DELETE", `${made.at}/users/${user.id}`))).toBe(204);
    expect(await status(made.asDeveloper("GET", `/api/v1/users/${user.id}`))).toBe(404);
    const naming = [MANY, await named("agent_routine_runs")];
    for (const _ of ["first", "second"]) {
      await sweep(own.url, 0);
      naming.push(await named("agent_routine_runs"));
    }
    for (const [i, n] of naming.slice(1).entries()) expect(naming[i]! - n).toBeLessThanOrEqual(5_000);
    expect(naming[1]).toBeGreaterThan(MANY - 5_100);
    await sweep(own.url);
    expect([await named("agent_routine_runs"), await named("agent_routines"), await endings()]).toEqual([0, 0, 0]);
    const [runs] = await own.database.query<{ n: string }>(
      "select count(*) as n from data.agent_routine_runs where agent_id = $1",
      [agent.id],
    );
    expect(Number(runs!.n)).toBe(MANY);
  });

  it("nor does a delete of their routine touch them: they say which it was", async () => {
    const [{ id }] = (await own.database.query<{ id: string }>(
      "select id from data.agent_routines where agent_id = $1",
      [agent.id],
    )) as [{ id: string }];
    await own.database.query("update data.agent_routine_runs set routine_id = $1 where agent_id = $2", [id, agent.id]);
    await must(made.asDeveloper("DELETE", `/api/v1/agent_routines/${id}`), 204);
    const { data } = await must(made.asDeveloper("GET", `/api/v1/agent_routine_runs?agent=${agent.id}&limit=2`), 200);
    expect(data.map(({ routine }: any) => routine)).toEqual([id, id]);
  });
});

it("an org's label goes from its sandboxes in slices, too", async () => {
  const { app, at, acme, asDeveloper } = await here();
  await own.database.query(
    `with places as (insert into data.tenants (app_id, sandbox_id)
        select $1, 'dsb_' || right($1, 10) || lpad(i::text, 12, '0') from generate_series(1, ${MANY}) i returning *)
      insert into data.sandboxes (app_id, sandbox_id, name, slug, for_org_id)
        select app_id, sandbox_id, 'S', lower(sandbox_id), $2 from places`,
    [app, acme],
  );
  const count = async () =>
    Number(
      (
        await own.database.query<{ n: string }>("select count(*) as n from data.sandboxes where for_org_id = $1", [
          acme,
        ])
      )[0]!.n,
    );
  expect(await status(asDeveloper("DELETE", `${at}/orgs/${acme}`))).toBe(204);
  expect(await count()).toBe(MANY - 5_000);
  await sweep(own.url);
  expect([await count(), await endings()]).toEqual([0, 0]);
  await own.database.query("delete from data.tenants where app_id = $1 and sandbox_id <> '-'", [app]);
  await sweep(own.url);
});

describe("an agent of 13,000 rows", () => {
  let made: App;
  let agent: any;
  let config: any;
  let computer: any;
  const keys = { lookup_key: unique("agent") };
  const child = (kind: string, prefix: string, columns: string, values: string, n: number) =>
    own.database.query(
      `insert into data.${kind} (id, app_id, sandbox_id, org_id, agent_id, ${columns})
        select '${prefix}_' || right(id, 10) || lpad(i::text, 12, '0'), app_id, sandbox_id, org_id, id, ${values}
        from data.agents, generate_series(1, ${n}) i where id = $1`,
      [agent.id],
    );
  const script = { kind: "Script", mime_type: "text/plain", raw_content: "1" };
  const run = () => `/api/v1/agent_routines/runs/arr_${agent.id.slice(-10)}${String(MANY).padStart(12, "0")}`;
  beforeAll(async () => {
    made = await here();
    const { acme, asDeveloper } = made;
    agent = await anAgent(asDeveloper, { org: acme, ...keys });
    config = await must(asDeveloper("POST", "/api/v1/config", { ...script, org: acme, agent: agent.id }), 201);
    const body = { name: "One", lookup_key: keys.lookup_key };
    computer = await must(asDeveloper("POST", `/api/v1/agents/${agent.id}/agent_computers`, body), 200);
    await child("agent_routine_runs", "arr", "status", "'completed'", MANY);
    await child("agent_working_memory", "amm", "key, value", "'key' || i, 'a value'", 1_000);
  });

  it("stays whole while another agent uses a config of its own: a 409 that names what does", async () => {
    const { acme, asDeveloper } = made;
    const other = await anAgent(asDeveloper, { org: acme });
    const tool = await must(
      asDeveloper("POST", `/api/v1/agents/${other.id}/agent_tools`, {
        ...{ kind: "custom", name: "look", description: "Looks", handler_type: "script", config: config.id },
        parameters: { type: "object" },
      }),
      200,
    );
    const { status: refused, body } = await asDeveloper("DELETE", `/api/v1/agents/${agent.id}`);
    expect([refused, body.error.code, body.detail]).toEqual([409, "in_use", expect.stringContaining(tool.id)]);
    expect(await status(asDeveloper("GET", run()))).toBe(200);
    await must(asDeveloper("DELETE", `/api/v1/agent_tools/${tool.id}`), 204);
  });

  it("keeps a person, too, whose config another's agent uses, and says which", async () => {
    const { acme, asDeveloper } = made;
    const user = await made.aUser(acme);
    const theirs = await must(asDeveloper("POST", "/api/v1/config", { ...script, org: acme, user: user.id }), 201);
    const other = await anAgent(asDeveloper, { org: acme });
    const tool = await must(
      asDeveloper("POST", `/api/v1/agents/${other.id}/agent_tools`, {
        ...{ kind: "custom", name: "look", description: "Looks", handler_type: "script", config: theirs.id },
        parameters: { type: "object" },
      }),
      200,
    );
    const { status: refused, body } = await asDeveloper("DELETE", `${made.at}/users/${user.id}`);
    expect([refused, body.error.code, body.detail]).toEqual([409, "in_use", expect.stringContaining(tool.id)]);
    await must(asDeveloper("DELETE", `/api/v1/agents/${other.id}`), 204);
    await must(asDeveloper("DELETE", `${made.at}/users/${user.id}`), 204);
  });

  it("is gone for whoever asks as soon as it is deleted, with all it carries", async () => {
    const { acme, asDeveloper, as } = made;
    expect(await status(asDeveloper("DELETE", `/api/v1/agents/${agent.id}`))).toBe(204);
    const [{ n }] = (await own.database.query("select count(*) as n from data.agent_routine_runs where agent_id = $1", [
      agent.id,
    ])) as [{ n: string }];
    expect(Number(n)).toBeGreaterThan(MANY - 5_100);
    for (const call of [asDeveloper, as(acme)]) {
      for (const path of [
        ...[`agents/${agent.id}`, `agents/${keys.lookup_key}`, `agents/${agent.id}/agent_working_memory`],
        ...[`agent_computers/${computer.id}`, `config/${config.id}`, `config/${config.id}/content`],
      ]) {
        expect([path, await status(call("GET", `/api/v1/${path}`))]).toEqual([path, 404]);
      }
      expect(await status(call("GET", run()))).toBe(404);
      expect(await status(call("DELETE", `/api/v1/agents/${agent.id}`))).toBe(404);
    }
  });

  it("leaves its lookup_keys to others", async () => {
    const { acme, asDeveloper } = made;
    const other = await anAgent(asDeveloper, { org: acme, ...keys });
    await must(asDeveloper("POST", `/api/v1/agents/${other.id}/agent_computers`, { name: "Two", ...keys }), 200);
  });

  it("has no rows left after the sweep's turn", async () => {
    await sweep(own.url);
    const [{ n }] = (await own.database.query<{ n: string }>(
      `select (select count(*) from data.agents where id = $1) + (select count(*) from data.agent_routine_runs where agent_id = $1)
        + (select count(*) from data.configs where agent_id = $1) as n`,
      [agent.id],
    )) as [{ n: string }];
    expect([Number(n), await endings()]).toEqual([0, 0]);
  });
});

it("what came to be used while it ended waits, and holds up no other's end", async () => {
  const { acme, asDeveloper, at } = await here();
  const [doomed, user] = [await anAgent(asDeveloper, { org: acme }), await anAgent(asDeveloper, { org: acme })];
  const config = await must(
    asDeveloper("POST", "/api/v1/config", {
      ...{ kind: "Script", mime_type: "text/plain", raw_content: "1", org: acme, agent: doomed.id },
    }),
    201,
  );
  const { id } = await must(
    asDeveloper("POST", `/api/v1/agents/${user.id}/agent_tools`, {
      ...{ kind: "custom", name: "look", description: "Looks", handler_type: "script", config: config.id },
      parameters: { type: "object" },
    }),
    200,
  );
  // As one that was made in the moment between.
  await own.database.query(
    "insert into app.endings (app_id, sandbox_id, id, kind, ended_at) select app_id, sandbox_id, id, 'agent', now() - interval '1 hour' from data.agents where id = $1",
    [doomed.id],
  );
  const org = await must(asDeveloper("POST", `${at}/orgs`, { name: "O", slug: unique("o"), domain: "o.example" }), 201);
  await own.database.query(
    "insert into app.endings (app_id, sandbox_id, id, kind) select app_id, sandbox_id, id, 'org' from data.orgs where id = $1",
    [org.id],
  );
  await sweep(own.url);
  expect(await left(`org_id = '${org.id}'`)).toBe(0);
  expect(await status(asDeveloper("GET", `/api/v1/agents/${doomed.id}`))).toBe(404);
  await must(asDeveloper("DELETE", `/api/v1/agent_tools/${id}`), 204);
  await sweep(own.url);
  expect(await endings()).toBe(0);
});

describe("a sandbox of 12,000 rows", () => {
  const sandboxes = "/api/v1/sandboxes";
  /** A sandbox with a full org and a small one in it, a secret key, and a person's token. */
  async function aFullSandbox() {
    const made = await here();
    const { app, at, asDeveloper } = made;
    const slug = unique("sb");
    const later = new Date(Date.now() + 3_600_000).toISOString();
    const sandbox = await must(
      asDeveloper("POST", sandboxes, { name: "S", slug, purpose: "eval", expires_at: later }),
      201,
    );
    const key = await must(asDeveloper("POST", `${sandboxes}/${sandbox.id}/keys`, { type: "secret" }), 200);
    const inside = caller(bearer(key.full_key), base);
    const inner: string[] = [];
    for (const slug of ["full", "small"]) {
      inner.push((await must(inside("POST", `${at}/orgs`, { name: "I", slug, domain: `${slug}.example` }), 201)).id);
    }
    const user = await must(inside("POST", `${at}/users`, { org: inner[0], role: "owner" }), 201);
    const { access_token } = await must(inside("POST", `${at}/users/${user.id}/tokens`), 201);
    await fill(app, sandbox.id, inner[0]!, null);
    return { ...made, sandbox, inside, itself: caller(bearer(access_token), base) };
  }

  it("is over at once when it is deleted, and has no rows left after the sweep's turn", async () => {
    const { at, asDeveloper, sandbox, inside, itself } = await aFullSandbox();
    expect(await status(asDeveloper("DELETE", `${sandboxes}/${sandbox.id}`))).toBe(204);
    expect(await left(`sandbox_id = '${sandbox.id}'`)).toBeGreaterThan(MANY - 5_100);
    expect(await status(inside("GET", at))).toBe(401);
    expect(await status(itself("GET", "/api/v1/agents"))).toBe(401);
    for (const method of ["GET", "DELETE"]) {
      expect(await status(asDeveloper(method, `${sandboxes}/${sandbox.id}`))).toBe(404);
    }
    expect(await status(asDeveloper("POST", `${sandboxes}/${sandbox.id}/keys`, {}))).toBe(404);
    expect((await must(asDeveloper("GET", sandboxes), 200)).data.map(({ id }: any) => id)).not.toContain(sandbox.id);
    await must(asDeveloper("POST", sandboxes, { name: "Again", slug: sandbox.slug }), 201);
    await sweep(own.url);
    expect([await left(`sandbox_id = '${sandbox.id}'`), await endings()]).toEqual([0, 0]);
  });

  it("goes in slices when it expires, too", async () => {
    const { sandbox, at, inside } = await aFullSandbox();
    await own.database.query("update data.sandboxes set expires_at = now() - interval '1 second' where id = $1", [
      sandbox.id,
    ]);
    await sweep(own.url, 0);
    expect(await left(`sandbox_id = '${sandbox.id}'`)).toBeGreaterThan(MANY - 5_100);
    expect(await status(inside("GET", at))).toBe(401);
    await sweep(own.url);
    expect([await left(`sandbox_id = '${sandbox.id}'`), await endings()]).toEqual([0, 0]);
  });
});

describe("the sweep", () => {
  const slice = ([before, after]: number[]) => before! - after!;
  it("deletes a slice at a time, and stops where its turn ends: the next one goes on", async () => {
    const { app, at, acme, asDeveloper } = await here();
    await fill(app, "-", acme, null, 2_000);
    expect(await status(asDeveloper("DELETE", `${at}/orgs/${acme}`))).toBe(204);
    const rows = [await left(`org_id = '${acme}'`)];
    for (const _ of ["first", "second"]) {
      await sweep(own.url, 0);
      rows.push(await left(`org_id = '${acme}'`));
    }
    // An agent counts for as many rows as there are tables to look in for what hangs on it.
    expect(rows).toEqual([expect.any(Number), rows[0]! - slice(rows), rows[0]! - 2 * slice(rows)]);
    expect(slice(rows)).toBeGreaterThan(100);
    await sweep(own.url);
    expect(await left(`org_id = '${acme}'`)).toBe(0);
  });

  it.each([
    ["entries of the feed", "activity_feed_entries", "kind, title", "'org.deleted'"],
    ["calls of models", "model_calls", "operation, model", "'chat'"],
  ])("keeps %s as long as their app says, 400 days unless it does", async (_, table, columns, first) => {
    const [, title] = columns.split(", ");
    const apps = [await here(), await here()];
    await must(apps[1]!.asDeveloper("PATCH", apps[1]!.at, { settings: { activity_retention_days: 7 } }), 200);
    const now = Date.now();
    const seen: string[][] = [];
    for (const { app } of apps) {
      await own.database.query(`delete from data.${table} where app_id = $1`, [app]);
      for (const days of [6.9, 7.1, 399.9, 400.1]) {
        const id = `${table === "model_calls" ? "mcl" : "afe"}_${agedId(now - days * 86_400_000)}`;
        const row = `insert into data.${table} (id, app_id, sandbox_id, org_id, ${columns}) values ($1, $2, '-', '-', ${first}, $3)`;
        await own.database.query(row, [id, app, String(days)]);
      }
    }
    await sweep(own.url);
    for (const { app } of apps) {
      const find = `select ${title} as title from data.${table} where app_id = $1 order by id desc`;
      seen.push((await own.database.query<{ title: string }>(find, [app])).map(({ title }) => title));
    }
    expect(seen).toEqual([["6.9", "7.1", "399.9"], ["6.9"]]);
  });

  it.each([0, 3651, 1.5, "400"])("an app can't keep them for %j days", async (activity_retention_days) => {
    const { app, at, asDeveloper } = await here();
    const { status, body } = await asDeveloper("PATCH", at, { settings: { activity_retention_days } });
    expect([status, body.error.fields[0].field]).toEqual([422, "settings.activity_retention_days"]);
    const set = own.database.query("update data.apps set settings = $2 where id = $1", [
      app,
      JSON.stringify({ activity_retention_days }),
    ]);
    await expect(set).rejects.toThrow("apps_settings_check");
  });
});

/** An id that was made at a time, without its prefix: a UUIDv7 begins with its milliseconds. */
function agedId(ms: number): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  new DataView(bytes.buffer).setBigUint64(0, (BigInt(Math.floor(ms)) << 16n) | 0x7000n);
  return base62(bytes, 22);
}
