import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MIGRATIONS } from "../../../lib/db/version.ts";
import { newId } from "../../../lib/ids.ts";
import { listApps } from "../../../lib/local/apps.ts";
import type { Database } from "../../../lib/local/neon.ts";
import { openPglite } from "../../../lib/local/pglite.ts";
import { type Migration, migrate, readMigrations } from "../../../lib/local/schema.ts";
import { readCatalog } from "./catalog.ts";
import { anEmptyDatabase } from "./database.ts";

const [, ...later] = MIGRATIONS;
const versionOne = readFileSync(resolve(import.meta.dirname, "../../fixtures/schema-1.sql"), "utf8");
const namesOf = async (database: Database) =>
  (await database.query<{ name: string }>("select name from app.migrations order by name")).map(({ name }) => name);

let whole: Database;
beforeAll(async () => {
  whole = await anEmptyDatabase();
  await migrate(whole);
}, 60_000);
afterAll(() => whole.close());

describe("the names of the migrations", () => {
  it("are the same in the code, in the directory and in schema.sql", async () => {
    expect(readMigrations().map(({ name }) => name)).toEqual(later);
    expect(await namesOf(whole)).toEqual(MIGRATIONS);
  });

  it("are dates and words that sort in the order they apply", () => {
    expect([...MIGRATIONS].sort()).toEqual(MIGRATIONS);
    for (const name of MIGRATIONS) expect(name).toMatch(/^\d{4}-\d\d-\d\d-[a-z0-9]+(-[a-z0-9]+)*$/);
  });
});

describe("the two ways to the schema", () => {
  let grown: Database;
  let app: string;
  let began: unknown;
  beforeAll(async () => {
    grown = await anEmptyDatabase();
    await grown.exec(versionOne);
    app = newId("app");
    await grown.exec(`insert into data.apps (id, name) values ('${app}', 'Old');`);
    [began] = await grown.query("select applied_at::text from app.schema_versions");
  }, 60_000);
  afterAll(() => grown.close());

  it("lead to the same catalog: version 1 with every migration, and schema.sql alone", async () => {
    expect(await migrate(grown)).toEqual(later);
    expect(await readCatalog(grown)).toEqual(await readCatalog(whole));
  });

  it("keep the rows that were there, and when version 1 was applied", async () => {
    expect((await listApps(grown)).map(({ id }) => id)).toEqual([app]);
    const [recorded] = await grown.query("select applied_at::text from app.migrations order by name limit 1");
    expect(recorded).toEqual(began);
  });

  it("are done once: again changes nothing", async () => {
    const before = await readCatalog(whole);
    expect([await migrate(whole), await migrate(grown)]).toEqual([[], []]);
    expect([await readCatalog(whole), await readCatalog(grown)]).toEqual([before, before]);
  });

  it.each([
    ["a grant", "grant truncate on data.keys to agentry_api", "revoke truncate on data.keys from agentry_api"],
    ["a column's grant", "grant update (hint) on data.keys to public", "revoke update (hint) on data.keys from public"],
    [
      "a table's wall",
      "alter table data.keys no force row level security",
      "alter table data.keys force row level security",
    ],
    ["a table", "create table app.another (id text)", "drop table app.another"],
    [
      "a column's default",
      "alter table data.keys alter hint set default ''",
      "alter table data.keys alter hint drop default",
    ],
    [
      "a column's null",
      "alter table data.keys alter hint drop not null",
      "alter table data.keys alter hint set not null",
    ],
    [
      "a constraint",
      "alter table data.keys add constraint c check (hint <> '')",
      "alter table data.keys drop constraint c",
    ],
    ["an index", "create index i on data.keys (hint)", "drop index data.i"],
    ["a policy", "create policy p on data.keys using (true)", "drop policy p on data.keys"],
    [
      "who a function runs as",
      "alter function app.within security invoker",
      "alter function app.within security definer",
    ],
    ["a function's volatility", "alter function app.within stable", "alter function app.within volatile"],
    [
      "who may call a function",
      "grant execute on function app.wall to agentry_api",
      "revoke execute on function app.wall from agentry_api",
    ],
    [
      "what later functions are given",
      "alter default privileges for role agentry_owner grant execute on functions to public",
      "alter default privileges for role agentry_owner revoke execute on functions from public",
    ],
  ])("would differ by %s", async (_, change, undo) => {
    const before = await readCatalog(whole);
    await whole.exec(change);
    expect(await readCatalog(whole)).not.toEqual(before);
    await whole.exec(undo);
    expect(await readCatalog(whole)).toEqual(before);
  });
});

describe("migrate", () => {
  const ours = readMigrations();
  const mine: Migration = {
    name: "2099-01-01-mine",
    sql: "create table data.mine (id text); create table data.mine_too (id text);",
  };
  const yours: Migration = { name: "2099-01-02-yours", sql: "create table data.yours (id text);" };
  let database: Database;
  beforeAll(async () => {
    database = await anEmptyDatabase();
  }, 60_000);
  afterAll(() => database.close());
  const tables = async () =>
    (
      await database.query<{ name: string }>(
        "select tablename as name from pg_tables where tablename ~ '^(mine|yours|broken)' order by 1",
      )
    ).map(({ name }) => name);

  it("applies schema.sql to an empty database, then what it lacks, as the owner of the tables", async () => {
    expect(await migrate(database, [...ours, yours])).toEqual([...MIGRATIONS, yours.name]);
    const [row] = await database.query("select tableowner from pg_tables where tablename = 'yours'");
    expect(row).toEqual({ tableowner: "agentry_owner" });
  });

  it("leaves a database alone that knows a name which this code doesn't", async () => {
    await expect(migrate(database, [...ours, mine])).rejects.toThrow(
      "The database is newer than this code: it has 2099-01-02-yours. Update the code.",
    );
    expect(await tables()).toEqual(["yours"]);
  });

  it("applies an older name where a later one is there already: two branches merge in either order", async () => {
    expect(await migrate(database, [...ours, mine, yours])).toEqual([mine.name]);
    expect(await migrate(database, [...ours, mine, yours])).toEqual([]);
    expect(await namesOf(database)).toEqual([...MIGRATIONS, mine.name, yours.name]);
    expect(await tables()).toEqual(["mine", "mine_too", "yours"]);
  });

  it("leaves nothing of a migration that fails halfway, and applies it once it is mended", async () => {
    const broken: Migration = { name: "2099-01-03-broken", sql: "create table data.broken (id text); select 1 / 0;" };
    const known = [...ours, mine, yours];
    await expect(migrate(database, [...known, broken])).rejects.toThrow("division by zero");
    expect(await tables()).not.toContain("broken");
    const mended = { ...broken, sql: "create table data.broken (id text);" };
    expect(await migrate(database, [...known, mended])).toEqual([broken.name]);
    expect(await tables()).toContain("broken");
  });

  it("lets an owner apply schema.sql who may make roles and no more, also from PostgreSQL 16 on", async () => {
    const embedded = await openPglite();
    await embedded.exec(`create role keeper login createrole;
      grant create on database postgres to keeper with grant option;`);
    const asKeeper = (sql: string) => embedded.exec(`set session authorization keeper;\n${sql}`);
    expect(await migrate({ ...embedded, exec: asKeeper })).toEqual(MIGRATIONS);
    await embedded.close();
  }, 60_000);

  // The embedded database has one session: two at once are one after the other there.
  it.runIf(process.env.DATABASE_URL)("applies each migration once, by whichever of two that run at once", async () => {
    const empty = await anEmptyDatabase();
    const slow: Migration = { name: "2099-01-01-slow", sql: "select pg_sleep(0.3); create table data.slow (id text);" };
    try {
      await migrate(empty);
      const added = await Promise.all([1, 2, 3].map(() => migrate(empty, [...ours, slow])));
      expect(added.flat()).toEqual([slow.name]);
    } finally {
      await empty.close();
    }
  });
});
