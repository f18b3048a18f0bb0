/** The doors of schema.sql that no route opens yet, asked as the runtime asks: a batch as agentry_api. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { mac } from "../../../lib/auth/secrets.ts";
import { newId } from "../../../lib/ids.ts";
import { createApp } from "../../../lib/local/apps.ts";
import { keepDoorKeys } from "../../../lib/local/door-keys.ts";
import type { Database } from "../../../lib/local/neon.ts";
import { migrate } from "../../../lib/local/schema.ts";
import { anEmptyDatabase } from "./database.ts";

const [newest, oldest] = ["n".repeat(32), "o".repeat(32)];

let database: Database;
beforeAll(async () => {
  database = await anEmptyDatabase();
  await migrate(database);
  await keepDoorKeys(database, `${newest},${oldest}`);
}, 60_000);
afterAll(() => database.close());

type Statement = [query: string, ...params: (string | null)[]];
/** One transaction as the runtime's role: the rows of its last statement. */
async function run(...statements: Statement[]): Promise<(string | null)[][]> {
  const queries = statements.map(([query, ...params]) => ({ query, params }));
  const results = await database.run("agentry_api", queries, { batch: true });
  return results.at(-1)!.rows;
}
/** What the database says no with. */
const refused = (code: string, message: string) => expect.objectContaining({ code, message });

describe("app.must_reach", () => {
  it("lets the batch go on where the row above may be written", async () => {
    expect(await run(["select app.must_reach('agent', true)"], ["select 1"])).toEqual([["1"]]);
  });

  it("says absent, and of what kind, where the viewer has no such row", async () => {
    await expect(run(["select app.must_reach('agent', null)"])).rejects.toEqual(refused("AE404", "agent"));
  });

  it("says forbidden where the row above may only be read", async () => {
    await expect(run(["select app.must_reach('agent', false)"])).rejects.toEqual(refused("AE403", "read_only agent"));
  });
});

describe("app.enter_object", () => {
  /** An app with two orgs in production, and one in a sandbox. */
  async function anApp() {
    const { app_id: app } = await createApp(database, "Objects");
    const [sandbox, acme, globex, inner] = [newId("sandbox"), newId("org"), newId("org"), newId("org")];
    await database.exec(`
      insert into data.tenants values ('${app}', '${sandbox}', '-'), ('${app}', '-', '${acme}'),
        ('${app}', '-', '${globex}'), ('${app}', '${sandbox}', '${inner}');
      insert into data.sandboxes (app_id, sandbox_id, name, slug, expires_at)
        values ('${app}', '${sandbox}', 'Sandbox', 'sandbox', now() + interval '1 hour');
      insert into data.orgs (app_id, sandbox_id, id, name, slug, domain)
        select app_id, sandbox_id, org_id, 'Org', org_id, org_id from data.tenants where app_id = '${app}' and org_id <> '-';
      insert into data.agents (app_id, sandbox_id, org_id, id)
        select app_id, sandbox_id, org_id, 'agi_of_' || org_id from data.tenants where app_id = '${app}' and org_id <> '-';`);
    return { app, sandbox, acme, globex, inner };
  }
  /** What a Worker makes of a tenant under a root secret. */
  const macOf = async (tenant: (string | null)[], root = newest) =>
    `\\x${Buffer.from(await mac(root, ["object", ...tenant].join("."), "door")).toString("hex")}`;
  const enterBy = (mac: string | null, ...tenant: (string | null)[]): Statement => [
    "select app.enter_object($1, $2, $3, $4)",
    ...tenant,
    mac,
  ];
  const enter = async (...tenant: (string | null)[]) => enterBy(await macOf(tenant), ...tenant);
  const rename: Statement = ["update data.agents set name = 'Ada' returning org_id"];

  it("lets an object read and write the rows of its tenant, and no others", async () => {
    const { app, sandbox, acme, globex, inner } = await anApp();
    expect(await run(await enter(app, "-", acme), rename)).toEqual([[acme]]);
    expect(await run(await enter(app, sandbox, inner), rename)).toEqual([[inner]]);
    const intoGlobex: Statement = [
      "insert into data.agents (app_id, sandbox_id, org_id, id) values ($1, '-', $2, 'agi_more')",
      ...[app, globex],
    ];
    await expect(run(await enter(app, "-", acme), intoGlobex)).rejects.toEqual(
      expect.objectContaining({ code: "42501" }),
    );
  });

  it("refuses an object whose tenant is gone, or never was", async () => {
    const { app, acme, sandbox, inner } = await anApp();
    const { app: other } = await anApp();
    await database.exec(`delete from data.tenants where org_id = '${acme}'`);
    for (const tenant of [
      [app, "-", acme],
      [app, "-", inner],
      [other, sandbox, inner],
      [app, "-", "*"],
      [app, "-", ""],
    ]) {
      await expect(run(await enter(...tenant)), String(tenant)).rejects.toEqual(refused("AE401", "object_gone"));
    }
  });

  it("refuses an object of a sandbox that is past its end", async () => {
    const { app, sandbox, inner } = await anApp();
    await database.exec(`update data.sandboxes set expires_at = now() where sandbox_id = '${sandbox}'`);
    await expect(run(await enter(app, sandbox, inner))).rejects.toEqual(refused("AE401", "sandbox_expired"));
  });

  it("lets the object of a suspended org write down what is in motion", async () => {
    const { app, acme } = await anApp();
    await database.exec(`update data.orgs set status = 'suspended' where id = '${acme}'`);
    expect(await run(await enter(app, "-", acme), rename)).toEqual([[acme]]);
  });

  it("refuses a MAC that is another tenant's, another door's, another root secret's, or none", async () => {
    const { app, sandbox, acme, globex, inner } = await anApp();
    const unknown = refused("AE503", "no root secret that this database knows of made this");
    const tenant = [app, "-", acme];
    for (const [made, ...asked] of [
      [await macOf([app, "-", globex]), ...tenant],
      [await macOf([app, sandbox, inner]), ...tenant],
      [await macOf(tenant, "another".repeat(5)), ...tenant],
      [`\\x${Buffer.from(await mac(newest, tenant.join("."), "door")).toString("hex")}`, ...tenant],
      [`\\x${Buffer.from(await mac(newest, ["object", ...tenant].join("."))).toString("hex")}`, ...tenant],
      [null, ...tenant],
      ["\\x", ...tenant],
      [await macOf([app, acme]), app, null, acme],
      [await macOf([app, "-"]), app, "-", null],
    ]) {
      const attempt = run(enterBy(made!, ...asked), rename);
      await expect(attempt, String(asked)).rejects.toEqual(asked.includes(null) ? expect.anything() : unknown);
    }
  });

  it("lets in by any root secret that the database was given, and by none that was taken back", async () => {
    const { app, acme } = await anApp();
    const old = enterBy(await macOf([app, "-", acme], oldest), app, "-", acme);
    expect(await run(old, rename)).toEqual([[acme]]);
    await keepDoorKeys(database, newest);
    await expect(run(old)).rejects.toEqual(expect.objectContaining({ code: "AE503" }));
    expect(await run(await enter(app, "-", acme), rename)).toEqual([[acme]]);
    await keepDoorKeys(database, `${newest},${oldest}`);
  });

  it("ends with its transaction: the next one of the session is nobody's", async () => {
    const { app, acme } = await anApp();
    await database.exec(`begin; set local role agentry_api; select app.enter_object('${app}', '-', '${acme}', '${await macOf([app, "-", acme])}'); commit;
      do $$ begin
        if concat(current_setting('app.app_id'), current_setting('app.org_id'), current_setting('app.proof')) <> '' then
          raise 'still inside';
        end if;
      end $$;`);
  });
});

// The embedded database runs each statement to its end: it has neither of these clocks.
describe.runIf(process.env.DATABASE_URL)("what follows a door", () => {
  /** A door, by a key that is made for it. */
  async function aDoor(): Promise<Statement> {
    const { app_id: app } = await createApp(database, "Bounds");
    const hash = "\\x00";
    await database.query(
      "insert into data.keys (app_id, sandbox_id, id, type, hash, hint) values ($1, '-', $2, 'secret', $3, 'hint')",
      [app, newId("key"), hash],
    );
    return ["select app.enter_key($1, '-', $2)", app, hash];
  }

  it("runs for five seconds at the most", async () => {
    const door = await aDoor();
    const begun = performance.now();
    await expect(run(door, ["select pg_sleep(4)"], ["select pg_sleep(20)"])).rejects.toEqual(
      expect.objectContaining({ code: "57014" }),
    );
    // Each statement has its own time: the four seconds before count for nothing.
    expect(performance.now() - begun).toBeGreaterThan(8_500);
    expect(performance.now() - begun).toBeLessThan(15_000);
  });

  it("waits two seconds at the most for a lock", async () => {
    const door = await aDoor();
    const write: Statement = ["update data.apps set name = 'Taken'"];
    const holder = run(door, write, ["select pg_sleep(4)"]);
    await new Promise((wait) => setTimeout(wait, 500));
    await expect(run(door, write)).rejects.toEqual(expect.objectContaining({ code: "55P03" }));
    await holder;
  });

  it("is not compiled, which takes longer than any statement of ours runs", async () => {
    expect(await run(await aDoor(), ["select current_setting('jit')"])).toEqual([["off"]]);
  });

  it("has bounds that a login has from its start, too: the door itself is held to them", async () => {
    const [settings] = await database.query<{
      of: string;
    }>(`select array_to_string(setconfig, ' ') as of from pg_db_role_setting
      where setrole = 'agentry_api'::regrole and setdatabase = (select oid from pg_database where datname = current_database())`);
    expect(settings!.of.split(" ").sort()).toEqual(["lock_timeout=2s", "statement_timeout=5s"]);
  });
});
