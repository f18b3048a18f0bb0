/**
 * The operator's command that brings a deployed database to this code's schema: `npm run migrate`. With ROOT_SECRETS,
 * it gives the database its copies of the keys that come from them.
 */
import { MIGRATIONS } from "../db/version.ts";
import { command, openNamed, Refusal } from "./command.ts";
import { keepDoorKeys } from "./door-keys.ts";
import { migrate } from "./schema.ts";

await command(async () => {
  const url = process.env.OWNER_DATABASE_URL;
  if (!url)
    throw new Refusal("OWNER_DATABASE_URL is not set: the connection string of the database's owner, unpooled.");
  const database = await openNamed("OWNER_DATABASE_URL", url);
  const added = await migrate(database);
  const what = added.length === MIGRATIONS.length ? "schema.sql" : added.join(", ");
  console.log(`${what ? `Applied ${what}` : "Nothing to do"}: the schema is version ${MIGRATIONS.length}.`);
  const roots = process.env.ROOT_SECRETS;
  if (roots) await keepDoorKeys(database, roots);
  const [keys] = await database.query<{ n: number }>("select count(*)::int as n from app.door_keys");
  const { n } = keys!;
  if (n === 0) console.log("It has no keys for its doors yet: run this again with the Workers' ROOT_SECRETS set.");
  else console.log(`It knows ${n} root secret${n === 1 ? "" : "s"}.`);
});
