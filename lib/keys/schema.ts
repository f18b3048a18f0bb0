import * as v from "valibot";
import type { Row } from "../db/schema.ts";
import { nullable, stamp } from "../http/valid.ts";

export const createKeyBody = v.strictObject({ type: v.optional(v.picklist(["publishable", "secret"]), "publishable") });

export type KeyRow = Row<"keys">;

/** A key as a record. `full_key` is in the answer that made it and never again; a publishable one stays readable. */
export const key = v.strictObject({
  id: v.string(),
  type: v.picklist(["publishable", "secret"]),
  status: v.picklist(["active", "revoked"]),
  key_hint: v.string(),
  key_value: nullable,
  full_key: nullable,
  created_at: stamp,
  expires_at: v.nullable(stamp),
  last_used_at: v.nullable(stamp),
});
export const keyList = v.strictObject({ data: v.array(key) });

export const toKey = (row: KeyRow, full_key: string | null = null): v.InferOutput<typeof key> => ({
  id: row.id,
  type: row.type,
  status: row.revoked_at === null ? "active" : "revoked",
  key_hint: row.hint,
  key_value: row.value,
  full_key,
  created_at: row.created_at,
  expires_at: row.expires_at,
  last_used_at: row.last_used_at,
});
