/**
 * Sandboxes: a separate partition of the same app. Its record is the production developer's; what lives in it is
 * reached through `db.inSandbox(id)`, which both walls follow.
 */
import { sql } from "kysely";
import { type KeyType, newKey } from "../auth/keys.ts";
import { NONE } from "../db/schema.ts";
import { mustHold } from "../db/statements.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { forbidden, notFound } from "../errors.ts";
import { type Id, newId } from "../ids.ts";
import { type MadeKey, prepareKey } from "../keys/queries.ts";
import type { Page } from "../paging.ts";
import type { CreateSandbox, SandboxWithKeys } from "./schema.ts";

const namedSandboxes = (db: TenantDb) =>
  db
    .selectFrom("sandboxes")
    .selectAll()
    .select(db.valueOf("orgs", "name", sql.ref("sandboxes.for_org_id")).as("org_name"));

export const listSandboxes = (db: TenantDb, page: Page) => db.page(namedSandboxes(db), page);

/** An id that no org has. */
const NOBODY = "" as Id<"org">;

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
  const inside = db.inSandbox(id);
  const { insert } = await prepareKey(inside, newId("key"), "publishable", values.expires_at);
  const orgs = db.selectFrom("orgs").where("id", "=", org ?? NOBODY);
  // Held until the sandbox is there: an org that ends meanwhile finds it, and takes its label away.
  const there = mustHold(sql`exists (${orgs.select("id").forKeyShare()})`, "org", "there is no such org");
  const { above, made, keys } = await (org ? db.behind(there) : db).batch({
    above: orgs.select("name"),
    narrowing: inside.narrowing,
    place: inside.insertInto("tenants", {}),
    made: inside.insertInto("sandboxes", { ...values, for_org_id: org }).returningAll(),
    keys: insert.returningAll(),
  });
  return { sandbox: { ...made[0]!, org_name: above[0]?.name ?? null }, keys };
}

/** A sandbox with its live keys. */
export async function getSandbox(db: TenantDb, id: Id<"sandbox">): Promise<SandboxWithKeys> {
  const inside = db.inSandbox(id);
  const { found, keys } = await db.batch({
    found: namedSandboxes(db).where("id", "=", id),
    narrowing: inside.narrowing,
    keys: inside.selectFrom("keys").selectAll().where("revoked_at", "is", null).orderBy("id", "desc").limit(1000),
  });
  if (!found[0]) throw notFound("sandbox");
  return { sandbox: found[0], keys };
}

/**
 * Ends a sandbox and all that lives in it (the database's app.end_row): of many rows the sweep deletes the rest. Its own
 * key sees it, and may not: its record is kept by production.
 */
export async function deleteSandbox(db: TenantDb, id: Id<"sandbox">): Promise<void> {
  if (db.tenant.sandbox === id) {
    await db.enter();
    throw forbidden("sandbox_key", "A sandbox's key can't delete the sandbox. Use a key of production.");
  }
  await db
    .deleteFrom("sandboxes")
    .where("id", "=", id)
    .returningAll()
    .executeTakeFirstOrThrow(() => notFound("sandbox"));
}

/** Makes a key of a sandbox, which lives no longer than the sandbox. */
export async function createSandboxKey(
  db: TenantDb,
  sandbox: Id<"sandbox">,
  id: Id<"key">,
  type: KeyType,
): Promise<MadeKey> {
  const inside = db.inSandbox(sandbox);
  const { full_key, hash, hint } = await newKey(type, db.tenant.app, sandbox);
  const value = type === "publishable" ? full_key : null;
  const above = inside.selectFrom("sandboxes").where("id", "=", sandbox);
  const row = await inside
    .insertUnder(above, "keys", { id, type, hash, hint, value, expires_at: sql`expires_at` })
    .returningAll()
    .executeTakeFirstOrThrow(() => notFound("sandbox"));
  return { row, full_key };
}
