/** The operator's command that brings a deployed database to this code's schema: `npm run migrate`. */
import { SCHEMA_VERSION } from "../db/version.ts";
import { openPostgres } from "./postgres.ts";
import { migrate } from "./schema.ts";

const url = process.env.OWNER_DATABASE_URL;
if (!url) {
  console.error("OWNER_DATABASE_URL is not set: the connection string of the database's owner, unpooled.");
  process.exit(1);
}
const database = await openPostgres(url);
try {
  const applied = await migrate(database);
  console.log(
    applied.length
      ? `Applied version ${applied.join(", ")}.`
      : `Nothing to do: the schema is version ${SCHEMA_VERSION}.`,
  );
} finally {
  await database.close();
}
