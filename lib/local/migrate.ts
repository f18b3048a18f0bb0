/** The operator's command that brings a deployed database to this code's schema: `npm run migrate`. */
import { MIGRATIONS } from "../db/version.ts";
import { openPostgres } from "./postgres.ts";
import { migrate } from "./schema.ts";

const url = process.env.OWNER_DATABASE_URL;
if (!url) {
  console.error("OWNER_DATABASE_URL is not set: the connection string of the database's owner, unpooled.");
  process.exit(1);
}
const database = await openPostgres(url);
try {
  const added = await migrate(database);
  const what = added.length === MIGRATIONS.length ? "schema.sql" : added.join(", ");
  console.log(`${what ? `Applied ${what}` : "Nothing to do"}: the schema is version ${MIGRATIONS.length}.`);
} finally {
  await database.close();
}
