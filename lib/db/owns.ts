/**
 * Wall one, whole: which rows of a table a tenant owns. Alone in its module, so that the tests can bundle the
 * system without it and see that wall two holds by itself.
 */
import { type RawBuilder, type SqlBool, sql } from "kysely";
import { NONE, type Tenant, type TenantTable } from "./schema.ts";

export function owns(tenant: Tenant, table: TenantTable): RawBuilder<SqlBool> {
  const column = (name: string) => sql.ref(`${table}.${name}`);
  if (table === "apps") return sql`${column("id")} = ${tenant.app}`;
  const app = sql`${column("app_id")} = ${tenant.app}`;
  // A production developer keeps the records of all sandboxes; what lives in them stays behind their own walls.
  if (table === "sandboxes" && tenant.kind === "app" && tenant.sandbox === NONE) return sql`(${app})`;
  const partition = sql`${app} and ${column("sandbox_id")} = ${tenant.sandbox}`;
  if (table === "sandboxes" || tenant.kind === "app") return sql`(${partition})`;
  return sql`(${partition} and ${column("org_id")} = ${tenant.org})`;
}
