/** The schema on a server like Neon: its owner may make roles, but is no superuser. */
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MIGRATIONS } from "../../lib/db/version.ts";
import { createApp, listApps, rotateKey } from "../../lib/local/apps.ts";
import type { Database } from "../../lib/local/neon.ts";
import { openPostgres } from "../../lib/local/postgres.ts";
import { migrate } from "../../lib/local/schema.ts";

const url = process.env.DATABASE_URL;
const name = `agentry_owner_test_${randomBytes(5).toString("hex")}`;

describe.runIf(url)("an owner with CREATEROLE and no more", () => {
  let server: Database;
  let owned: Database;
  /** A connection as that owner. */
  let open: (database: string) => Promise<Database>;

  beforeAll(async () => {
    server = await openPostgres(url!);
    const password = randomBytes(12).toString("hex");
    await server.exec(`create role ${name} login createrole nosuperuser password '${password}'`);
    // Where an earlier database of the server has made them, they are there already, and somebody must hand them on.
    await server.exec(`do $$ begin
      if exists (select from pg_roles where rolname = 'agentry_owner') then
        grant agentry_owner, agentry_api to ${name} with admin option;
      end if; end $$`);
    await server.exec(`create database ${name} owner ${name}`);
    open = (database) => {
      const own = new URL(url!);
      Object.assign(own, { username: name, password, pathname: database });
      return openPostgres(own.href);
    };
    owned = await open(name);
  });
  afterAll(async () => {
    await owned?.close();
    for (const database of [name, `${name}_old`]) await server.exec(`drop database if exists ${database} with (force)`);
    await server.exec(`drop role if exists ${name}`);
    await server.close();
  });

  it("applies the schema once, however often and concurrently it is asked", async () => {
    const all = await Promise.all([migrate(owned), migrate(owned), migrate(owned)]);
    expect(all.flat()).toEqual(MIGRATIONS);
    expect(await migrate(owned)).toEqual([]);
  });

  it("brings a database of version 1 to this code's, without being a superuser either", async () => {
    await server.exec(`create database ${name}_old owner ${name}`);
    const old = await open(`${name}_old`);
    await old.exec(readFileSync(resolve(import.meta.dirname, "../fixtures/schema-1.sql"), "utf8"));
    expect(await migrate(old)).toEqual(MIGRATIONS.slice(1));
    await old.close();
  });

  it("makes apps, and rotates the keys of the one that is named alone", async () => {
    const { app_id } = await createApp(owned, "One");
    await createApp(owned, "Two");
    expect((await listApps(owned)).map((app) => app.name)).toEqual(["Two", "One"]);
    expect(await rotateKey(owned, app_id, false)).toMatch(/^sk_live_/);
    const query = "select app_id, count(*)::int from data.keys where revoked_at is not null group by 1";
    const [revoked] = await owned.run("agentry_owner", [{ query, params: [] }], { batch: false });
    expect(revoked!.rows).toEqual([[app_id, "1"]]);
  });

  it("serves as agentry_api, which sees nothing before it has entered", async () => {
    const [result] = await owned.run(
      "agentry_api",
      [{ query: "select current_user, (select count(*) from data.keys)", params: [] }],
      { batch: false },
    );
    expect(result!.rows).toEqual([["agentry_api", "0"]]);
  });
});
