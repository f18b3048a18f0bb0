import { randomBytes } from "node:crypto";
import type { Database } from "../../lib/local/neon.ts";
import { openPglite } from "../../lib/local/pglite.ts";
import { openPostgres } from "../../lib/local/postgres.ts";

/** A database that nobody else uses: embedded, or one on the server of DATABASE_URL, which goes when it is closed. */
export async function openDatabase(): Promise<Database> {
  const url = process.env.DATABASE_URL;
  if (!url) return openPglite();
  const name = `agentry_test_${randomBytes(6).toString("hex")}`;
  const server = await openPostgres(url);
  await server.exec(`create database ${name}`);
  const own = new URL(url);
  own.pathname = name;
  const database = await openPostgres(own.href);
  return {
    ...database,
    close: async () => {
      await database.close();
      await server.exec(`drop database ${name} with (force)`);
      await server.close();
    },
  };
}
