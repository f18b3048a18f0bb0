import { randomBytes } from "node:crypto";
import type { Database } from "../../lib/local/neon.ts";
import { openPglite } from "../../lib/local/pglite.ts";
import { openPostgres } from "../../lib/local/postgres.ts";
import { migrate, readSchema } from "../../lib/local/schema.ts";

/** A new database on a server: its name, its address, and what takes it away. */
async function createOn(url: string, template = "template1") {
  const name = `agentry_test_${randomBytes(6).toString("hex")}`;
  const server = await openPostgres(url);
  await server.exec(`create database ${name} template ${template}`);
  const own = new URL(url);
  own.pathname = name;
  const drop = async () => {
    await server.exec(`drop database ${name} with (force)`);
    await server.close();
  };
  return { name, url: own.href, drop };
}

/** The database that all of a run's on a server are copies of, since the schema takes ten times as long as a copy. */
export async function createTemplate(server: string) {
  const { name, url, drop } = await createOn(server);
  const database = await openPostgres(url);
  await migrate(database);
  await database.close();
  return { name, drop };
}

/** An embedded database, with the schema. */
export const openEmbedded = () => openPglite(undefined, readSchema());

/** A database that nobody else uses, with the schema: embedded, or on the server of DATABASE_URL. */
export const openDatabase = (): Promise<Database> => {
  const { DATABASE_URL, TEMPLATE } = process.env;
  return DATABASE_URL ? openOn(DATABASE_URL, TEMPLATE) : openEmbedded();
};

/** What the schema says of the database itself, and of roles in it: a copy of another one has none of that. */
const ofDatabase = () => {
  const [before, schema] = readSchema().split("set local role agentry_owner;") as [string, string];
  return before + schema.slice(schema.indexOf("reset role;") + "reset role;".length);
};

/** A new database on a server, empty or a copy of another one. Closing it removes it. */
export async function openOn(server: string, template?: string): Promise<Database> {
  const { url, drop } = await createOn(server, template);
  const database = await openPostgres(url);
  if (template) await database.exec(ofDatabase());
  const close = async () => {
    await database.close();
    await drop();
  };
  return { ...database, close };
}
