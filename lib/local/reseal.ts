/**
 * The operator's command after a new root secret: `npm run reseal` seals every secret anew under it, then opens each
 * one as the proof. It ends with 1 where one does not open, or is of an older root secret still.
 */
import { command, openNamed, Refusal } from "./command.ts";
import { proveSealed, reseal } from "./sealed-rows.ts";

await command(async () => {
  const url = process.env.OWNER_DATABASE_URL;
  const roots = process.env.ROOT_SECRETS;
  if (!url)
    throw new Refusal("OWNER_DATABASE_URL is not set: the connection string of the database's owner, unpooled.");
  if (!roots)
    throw new Refusal("ROOT_SECRETS is not set: the new one in front, then those that secrets may be sealed under.");
  const database = await openNamed("OWNER_DATABASE_URL", url);
  const count = await reseal(database, roots);
  const { newest, versions, closed } = await proveSealed(database, roots);
  console.log(`Sealed anew: ${count}.`);
  for (const [version, n] of versions) {
    console.log(`Open under ${version === newest ? "the newest" : "an older"} root secret, ${version}: ${n}.`);
  }
  for (const row of closed) console.error(`Does not open: ${row}`);
  if ([...versions.keys()].some((version) => version !== newest)) {
    throw new Refusal(
      "Some were written meanwhile by a Worker that doesn't have the newest root secret. Run this again.",
    );
  }
  if (closed.length) throw new Refusal(`Of the secrets ${closed.length} do not open with any of ROOT_SECRETS.`);
  console.log("Every secret opens with the newest root secret alone.");
});
