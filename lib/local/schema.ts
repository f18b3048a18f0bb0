/** Brings a database to the schema of this code: schema.sql is version 1, lib/db/migrations/<n>-….sql are the others. */
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { type Database, DatabaseError } from "./neon.ts";

const root = resolve(import.meta.dirname, "../..");
const LOCK = 4_711_042;
const ALREADY_THERE = "AE001";

/** The script of each version, in order: schema.sql, and the numbered files of a directory. */
export function readScripts(dir = join(root, "lib/db/migrations")): { version: number; sql: string }[] {
  const files = readdirSync(dir).filter((name) => /^\d+-.*\.sql$/.test(name));
  const later = files.map((name) => ({
    version: Number.parseInt(name, 10),
    sql: `set local role agentry_owner;\n${readFileSync(join(dir, name), "utf8")}
      insert into app.schema_versions values (${Number.parseInt(name, 10)});`,
  }));
  return [{ version: 1, sql: readFileSync(join(root, "schema.sql"), "utf8") }, ...later].sort(
    (a, b) => a.version - b.version,
  );
}

/**
 * Applies what is missing, each version in one transaction, under an advisory lock: two at once apply it once, and
 * doing it again changes nothing. Answers the versions that were applied. Throws where the schema is newer than
 * this code.
 */
export async function migrate(database: Database, scripts = readScripts()): Promise<number[]> {
  const applied: number[] = [];
  for (const { version, sql } of scripts) {
    // One script is one transaction: the check, under the lock, decides whether the rest of it runs.
    const isThere =
      version === 1
        ? "to_regclass('app.schema_versions') is not null"
        : `exists (select from app.schema_versions where version = ${version})`;
    const guard = `select pg_advisory_xact_lock(${LOCK});
      do $guard$ begin if ${isThere} then raise 'already there' using errcode = '${ALREADY_THERE}'; end if; end $guard$;\n`;
    try {
      await database.exec(guard + sql);
      applied.push(version);
    } catch (error) {
      if (!(error instanceof DatabaseError && error.fields.code === ALREADY_THERE)) throw error;
    }
  }
  const [found] = await database.query<{ version: number }>("select max(version) as version from app.schema_versions");
  const newest = scripts.at(-1)!.version;
  if (found && found.version > newest) {
    throw new Error(
      `The database has schema version ${found.version}, newer than this code's ${newest}. Update the code.`,
    );
  }
  return applied;
}
