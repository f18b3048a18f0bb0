/** Brings a database to the schema of this code: an empty one by schema.sql, an older one by lib/db/migrations/. */
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { MIGRATIONS } from "../db/version.ts";
import { type Database, DatabaseError } from "./neon.ts";

const root = resolve(import.meta.dirname, "../..");
const LOCK = 4_711_042;
const ALREADY_THERE = "AE001";
const FIRST = MIGRATIONS[0]!;

export type Migration = { name: string; sql: string };

/** What an empty database is given. */
export const readSchema = () => readFileSync(join(root, "schema.sql"), "utf8");

/** The migrations of a directory, in the order of their names. */
export const readMigrations = (dir = join(root, "lib/db/migrations")): Migration[] =>
  readdirSync(dir)
    .filter((file) => file.endsWith(".sql"))
    .sort()
    .map((file) => ({ name: file.slice(0, -".sql".length), sql: readFileSync(join(dir, file), "utf8") }));

/**
 * Applies what is missing, each migration in one transaction with the record of its name, under an advisory lock: two
 * at once apply it once, and doing it again changes nothing. Answers the names that it has added.
 *
 * What is missing is decided name by name: of two branches merged in either order, each database gets the one it
 * lacks, also where a later name is there already. A database that knows a name which this code doesn't is newer, and
 * is left alone.
 */
export async function migrate(database: Database, migrations = readMigrations()): Promise<string[]> {
  const added: string[] = [];
  let applied = await readApplied(database);
  if (applied.length === 0) {
    const isOurs = await applyOnce(database, "true", readSchema());
    applied = await readApplied(database);
    if (isOurs) added.push(...applied);
  }
  const known = [FIRST, ...migrations.map(({ name }) => name)];
  const unknown = applied.filter((name) => !known.includes(name));
  if (unknown.length) {
    throw new Error(`The database is newer than this code: it has ${unknown.join(", ")}. Update the code.`);
  }
  for (const { name, sql } of migrations) {
    if (applied.includes(name)) continue;
    const recorded = `set local role agentry_owner;\n${sql}\ninsert into app.migrations (name) values ('${name}');`;
    if (await applyOnce(database, `name = '${name}'`, recorded)) added.push(name);
  }
  return added;
}

/** The names that a database has. Version 1 kept none. */
async function readApplied(database: Database): Promise<string[]> {
  const [found] = await database.query<{ named: boolean; first: boolean }>(
    "select to_regclass('app.migrations') is not null as named, to_regclass('app.schema_versions') is not null as first",
  );
  if (!found!.named) return found!.first ? [FIRST] : [];
  const rows = await database.query<{ name: string }>("select name from app.migrations order by name");
  return rows.map(({ name }) => name);
}

/** Whether this call applied the script. It is one transaction: the check, under the lock, decides if the rest runs. */
async function applyOnce(database: Database, isThere: string, script: string): Promise<boolean> {
  const guard = `select pg_advisory_xact_lock(${LOCK});
    do $guard$ begin
      if exists (select from app.migrations where ${isThere}) then
        raise 'already there' using errcode = '${ALREADY_THERE}';
      end if;
    exception when undefined_table then null;
    end $guard$;\n`;
  try {
    await database.exec(guard + script);
    return true;
  } catch (error) {
    if (error instanceof DatabaseError && error.fields.code === ALREADY_THERE) return false;
    throw error;
  }
}
