import { sql } from "kysely";
import { NONE } from "../db/schema.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { forbidden, notFound } from "../errors.ts";
import type { AppRow, UpdateApp } from "./schema.ts";

/** The credential's own app: there is no other. */
export async function getApp(db: TenantDb): Promise<AppRow> {
  const row = await db.selectFrom("apps").selectAll().executeTakeFirst();
  if (!row) throw notFound("app");
  return row;
}

/** Changes the app's name and settings; `settings` replaces the whole map. Not from a sandbox: they are not its own. */
export async function updateApp(db: TenantDb, { name, settings }: UpdateApp): Promise<AppRow> {
  const [row] = await db
    .updateTable("apps")
    .set({ ...(name && { name }), ...(settings && { settings: JSON.stringify(settings) }), updated_at: sql`now()` })
    .where(sql<boolean>`${db.tenant.sandbox} = ${NONE}`)
    .returningAll()
    .execute();
  if (!row) throw forbidden("sandbox_key", "A sandbox's key can't change the app. Use a key of production.");
  return row;
}
