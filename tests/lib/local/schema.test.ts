import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { SCHEMA_VERSION } from "../../../lib/db/version.ts";
import type { Database } from "../../../lib/local/neon.ts";
import { openPglite } from "../../../lib/local/pglite.ts";
import { migrate, readScripts } from "../../../lib/local/schema.ts";

let database: Database;
let dir: string;
beforeAll(async () => {
  database = await openPglite();
  dir = mkdtempSync(join(tmpdir(), "agentry-migrations-"));
}, 60_000);
afterAll(async () => {
  await database.close();
  rmSync(dir, { recursive: true });
});

const tables = async () =>
  (
    await database.query<{ t: string }>("select tablename as t from pg_tables where tablename like 'later%' order by 1")
  ).map(({ t }) => t);

it("has as many scripts as the code wants versions, in order and without a gap", () => {
  expect(readScripts().map(({ version }) => version)).toEqual(Array.from({ length: SCHEMA_VERSION }, (_, i) => i + 1));
});

it("applies the schema whole, and again changes nothing", async () => {
  expect(await migrate(database)).toEqual([1]);
  expect(await migrate(database)).toEqual([]);
});

it("applies a later version once, as the owner of the tables", async () => {
  writeFileSync(join(dir, "2-later.sql"), "create table data.later (id text); create table data.later_too (id text);");
  expect(await migrate(database, readScripts(dir))).toEqual([2]);
  expect(await migrate(database, readScripts(dir))).toEqual([]);
  const [row] = await database.query("select tableowner from pg_tables where tablename = 'later'");
  expect(row).toEqual({ tableowner: "agentry_owner" });
});

it("leaves nothing of a version that fails halfway, and applies it once it is mended", async () => {
  writeFileSync(join(dir, "3-broken.sql"), "create table data.later_three (id text); select 1 / 0;");
  await expect(migrate(database, readScripts(dir))).rejects.toThrow("division by zero");
  expect(await tables()).toEqual(["later", "later_too"]);
  writeFileSync(join(dir, "3-broken.sql"), "create table data.later_three (id text);");
  expect(await migrate(database, readScripts(dir))).toEqual([3]);
  expect(await tables()).toEqual(["later", "later_three", "later_too"]);
});

it("refuses a database that is newer than the code", async () => {
  await expect(migrate(database)).rejects.toThrow(
    "The database has schema version 3, newer than this code's 1. Update the code.",
  );
});
