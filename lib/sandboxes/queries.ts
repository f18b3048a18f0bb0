/**
 * Sandboxes: a separate partition of the same app. Its record is the production developer's; what lives in it is
 * reached through `db.inside(id)`, which both walls follow.
 */
import { sql } from "kysely";
import { type KeyType, newKey } from "../auth/keys.ts";
import { asConflict } from "../db/errors.ts";
import { NONE } from "../db/schema.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { forbidden, notFound } from "../errors.ts";
import { type Id, newId } from "../ids.ts";
import { type MadeKey, prepareKey } from "../keys/queries.ts";
import { type Page, windowOf } from "../paging.ts";
import type { CreateSandbox, SandboxRow, SandboxWithKeys } from "./schema.ts";

export async function listSandboxes(db: TenantDb, page: Page): Promise<{ rows: SandboxRow[]; total: number }> {
  const { limit, offset } = windowOf(page);
  const [rows, [count]] = await db.batch(
    db.selectFrom("sandboxes").selectAll().orderBy("sandboxes.id", "desc").limit(limit).offset(offset),
    db.selectFrom("sandboxes").select(sql<number>`count(*)`.as("total")),
  );
  return { rows, total: count!.total };
}

/** Makes a sandbox with one publishable key. 409 on a slug that the app already has; 422 on an org that isn't there. */
export async function createSandbox(
  db: TenantDb,
  id: Id<"sandbox">,
  { org, ...values }: CreateSandbox,
): Promise<SandboxWithKeys> {
  if (db.tenant.sandbox !== NONE) {
    await db.enter();
    throw forbidden("sandbox_key", "A sandbox's key can't make sandboxes. Use a key of production.");
  }
  const inside = db.inside(id);
  const { insert } = await prepareKey(inside, newId("key"), "publishable", values.expires_at);
  const [, [sandbox], [key]] = await inside
    .batch(
      inside.insertInto("tenants", {}),
      inside.insertInto("sandboxes", { ...values, for_org_id: org }).returningAll(),
      insert.returningAll(),
    )
    .catch(asConflict);
  return { sandbox: sandbox!, keys: [key!] };
}

/** A sandbox with its live keys. */
export async function getSandbox(db: TenantDb, id: Id<"sandbox">): Promise<SandboxWithKeys> {
  const inside = db.inside(id);
  const [[row], keys] = await inside.batch(
    inside.selectFrom("sandboxes").selectAll(),
    inside.selectFrom("keys").selectAll().where("revoked_at", "is", null).orderBy("id", "desc").limit(1000),
  );
  if (!row) throw notFound("sandbox");
  return { sandbox: row, keys };
}

/** Ends a sandbox and all that lives in it. */
export async function deleteSandbox(db: TenantDb, id: Id<"sandbox">): Promise<void> {
  const inside = db.inside(id);
  const deleted = await inside.deleteFrom("tenants").returningAll().execute();
  if (!deleted.length) throw notFound("sandbox");
}

/** Makes a key of a sandbox, which lives no longer than the sandbox. */
export async function createSandboxKey(
  db: TenantDb,
  sandbox: Id<"sandbox">,
  id: Id<"key">,
  type: KeyType,
): Promise<MadeKey> {
  const inside = db.inside(sandbox);
  const { full_key, hash, hint } = await newKey(type, db.tenant.app, sandbox);
  const value = type === "publishable" ? full_key : null;
  const row = await inside
    .insertUnder({ table: "sandboxes", id: sandbox }, "keys", {
      id,
      type,
      hash,
      hint,
      value,
      expires_at: sql`expires_at`,
    })
    .returningAll()
    .executeTakeFirst();
  if (!row) throw notFound("sandbox");
  return { row, full_key };
}
