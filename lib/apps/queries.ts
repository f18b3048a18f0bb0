import { sql } from "kysely";
import { NONE } from "../db/schema.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { forbidden, notFound } from "../errors.ts";
import type { AppRow, UpdateApp } from "./schema.ts";

/** The credential's own app: there is no other. */
export const getApp = (db: TenantDb): Promise<AppRow> =>
  db
    .selectFrom("apps")
    .selectAll()
    .executeTakeFirstOrThrow(() => notFound("app"));

/** Changes the app's name and settings; `settings` are merged, and null takes one out. Not from a sandbox: they are not its own. */
export const updateApp = (db: TenantDb, { name, settings }: UpdateApp): Promise<AppRow> =>
  db
    .patch("apps", { name, settings: settings && merged(settings) })
    .where(sql<boolean>`${db.tenant.sandbox} = ${NONE}`)
    .executeTakeFirstOrThrow(() =>
      forbidden("sandbox_key", "A sandbox's key can't change the app. Use a key of production."),
    );

function merged(settings: Record<string, unknown>) {
  const gone = Object.keys(settings).filter((name) => settings[name] === null);
  return sql<string>`(apps.settings || ${JSON.stringify(settings)}::jsonb) - ${gone}::text[]`;
}
