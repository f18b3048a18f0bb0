/** The database's copies of the keys that its doors check a MAC by, where they have no credential to look up. */
import { hkdfSync } from "node:crypto";
import { rootsOf } from "../auth/secrets.ts";
import type { Database, Query } from "./neon.ts";

/** An HMAC key as Postgres, which has SHA-256 and no HMAC, reckons with it: its inner and its outer block (RFC 2104). */
function blocksOf(root: string): Buffer {
  const key = Buffer.alloc(64);
  key.set(new Uint8Array(hkdfSync("sha256", root, "", "agentry door", 32)));
  return Buffer.concat([key.map((byte) => byte ^ 0x36), key.map((byte) => byte ^ 0x5c)]);
}

/** Makes the deployment's root secrets those, and no others, by which the database knows a MAC. */
export async function keepDoorKeys(database: Database, roots: string): Promise<void> {
  const insert = (root: string): Query => ({
    query: "insert into app.door_keys (blocks) values ($1)",
    params: [`\\x${blocksOf(root).toString("hex")}`],
  });
  const replaced = [{ query: "delete from app.door_keys", params: [] }, ...rootsOf(roots).map(insert)];
  await database.run("agentry_owner", replaced, { batch: true, isolation: "ReadCommitted" });
}
