import { sql } from "kysely";
import { type KeyType, newKey } from "../auth/keys.ts";
import type { Insert } from "../db/statements.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { notFound } from "../errors.ts";
import type { Id } from "../ids.ts";
import type { KeyRow } from "./schema.ts";

/** Keys with their secret, which only the answer that makes one has. */
export type MadeKey = { row: KeyRow; full_key: string | null };

/** A new key of the partition that `db` is in, and the statement that keeps its hash. */
export async function prepareKey(
  db: TenantDb,
  id: Id<"key">,
  type: KeyType,
  expires_at: string | null = null,
): Promise<{ full_key: string; insert: Insert<"keys", object> }> {
  const { full_key, hash, hint } = await newKey(type, db.tenant.app, db.tenant.sandbox);
  const value = type === "publishable" ? full_key : null;
  return { full_key, insert: db.insertInto("keys", { id, type, hash, hint, value, expires_at }) };
}

/** Makes a key of the credential's own partition. */
export async function createKey(db: TenantDb, id: Id<"key">, type: KeyType): Promise<MadeKey> {
  const { full_key, insert } = await prepareKey(db, id, type);
  const [row] = await db
    .telling(insert, { kind: "key.created", title: sql`'Key made: …' || hint`, metadata: { key: id, type } })
    .execute();
  return { row: row!, full_key };
}

/** The keys of the partition, newest first, revoked ones too. */
export const listKeys = (db: TenantDb): Promise<KeyRow[]> =>
  db.selectFrom("keys").selectAll().orderBy("id", "desc").limit(1000).execute();

/** A key that was made before: its secret isn't shown twice. */
export async function getKey(db: TenantDb, id: Id<"key">): Promise<MadeKey> {
  const row = await keyOf(db, id).executeTakeFirstOrThrow(() => notFound("key"));
  return { row, full_key: null };
}

const keyOf = (db: TenantDb, id: Id<"key">) => db.selectFrom("keys").selectAll().where("id", "=", id);

/** Revokes a key: the very next request with it is refused. Twice is once. */
export async function revokeKey(db: TenantDb, id: Id<"key">): Promise<KeyRow> {
  const change = db
    .updateTable("keys")
    .set({ revoked_at: sql`now()` })
    .where("id", "=", id)
    .where("revoked_at", "is", null);
  const { key } = await db.batch({
    revoked: db.telling(change, { kind: "key.revoked", title: sql`'Key revoked: …' || hint`, metadata: { key: id } }),
    key: keyOf(db, id),
  });
  if (!key[0]) throw notFound("key");
  return key[0];
}
