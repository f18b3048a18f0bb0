import type { Database } from "../../../lib/local/neon.ts";
import { openPglite } from "../../../lib/local/pglite.ts";
import { openOn } from "../../harness/database.ts";

/** An empty database of the test's own: embedded, or on the server of DATABASE_URL. Closing it removes it. */
export const anEmptyDatabase = (): Promise<Database> => {
  const url = process.env.DATABASE_URL;
  return url ? openOn(url) : openPglite();
};
