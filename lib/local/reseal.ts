/**
 * The operator's command after a new root secret: `npm run reseal` seals every secret anew under it, then opens each
 * one as the proof. It ends with 1 where one does not open, or is of an older root secret still.
 */
import { openPostgres } from "./postgres.ts";
import { proveSealed, reseal } from "./sealed-rows.ts";

function stop(message: string): never {
  console.error(message);
  process.exit(1);
}

const url = process.env.OWNER_DATABASE_URL;
const roots = process.env.ROOT_SECRETS;
if (!url) stop("OWNER_DATABASE_URL is not set: the connection string of the database's owner, unpooled.");
if (!roots) stop("ROOT_SECRETS is not set: the new one in front, then those that secrets may be sealed under.");
const database = await openPostgres(url);
try {
  const count = await reseal(database, roots);
  const { newest, versions, closed } = await proveSealed(database, roots);
  console.log(`Sealed anew: ${count}.`);
  for (const [version, n] of versions) {
    console.log(`Open under ${version === newest ? "the newest" : "an older"} root secret, ${version}: ${n}.`);
  }
  for (const row of closed) console.error(`Does not open: ${row}`);
  const older = [...versions.keys()].some((version) => version !== newest);
  if (older)
    console.error("Some were written meanwhile by a Worker that doesn't have the newest root secret. Run this again.");
  if (older || closed.length) process.exitCode = 1;
  else console.log("Every secret opens with the newest root secret alone.");
} finally {
  await database.close();
}
