import { sql } from "kysely";
import type { TenantDb } from "../db/tenant-db.ts";
import { notFound } from "../errors.ts";
import type { Id } from "../ids.ts";
import { containing } from "../paging.ts";
import type { CreateOrg, ListOrgs, OrgRow, UpdateOrg } from "./schema.ts";

/** One page of orgs, newest first, and how many there are. */
export function listOrgs(db: TenantDb, { search, status, ...page }: ListOrgs) {
  let orgs = db.selectFrom("orgs").selectAll();
  if (status) orgs = orgs.where("status", "=", status);
  if (search) {
    const found = containing(search);
    orgs = orgs.where((eb) =>
      eb.or([eb("name", "ilike", found), eb("slug", "ilike", found), eb("domain", "ilike", found)]),
    );
  }
  return db.page(orgs, page);
}

/** Makes an org and the place where its rows will live. 409 on a slug or domain that is taken. */
export async function createOrg(db: TenantDb, id: Id<"org">, values: CreateOrg): Promise<OrgRow> {
  const inOrg = db.inOrg(id);
  const org = inOrg.insertInto("orgs", { id, ...values });
  const { made } = await inOrg.batch({
    place: inOrg.insertInto("tenants", {}),
    made: inOrg.telling(org, { kind: "org.created", title: sql`'Org created: ' || name`, readers: sql`'{}'` }),
  });
  return made[0]!;
}

export const getOrg = (db: TenantDb, id: Id<"org">): Promise<OrgRow> =>
  db
    .selectFrom("orgs")
    .selectAll()
    .where("id", "=", id)
    .executeTakeFirstOrThrow(() => notFound("org"));

/** This database behind a look whether the org is there: 404 where it isn't, or is nobody's that the viewer may know of. */
export const behindOrg = (db: TenantDb, id: Id<"org">): TenantDb =>
  db.behind(
    sql`select app.must_reach('org', (${db.selectFrom("orgs").where("orgs.id", "=", id).select(sql`true`.as("may"))}))`,
  );

/** The org that a user is in: none or one. 404 where the user isn't there. */
export async function listOrgsOf(db: TenantDb, user: Id<"user">): Promise<OrgRow[]> {
  const users = db.selectFrom("users").select("org_id").where("id", "=", user);
  const { orgs, found } = await db.batch({
    orgs: db.selectFrom("orgs").selectAll().where("org_id", "in", users),
    found: users,
  });
  if (!found.length) throw notFound("user");
  return orgs;
}

export const updateOrg = (db: TenantDb, id: Id<"org">, values: UpdateOrg): Promise<OrgRow> =>
  db
    .telling(db.patch("orgs", values).where("id", "=", id), {
      kind: "org.updated",
      title: sql`'Org updated: ' || name`,
      readers: sql`'{}'`,
      metadata: { fields: Object.keys(values), ...(values.status && { status: values.status }) },
    })
    .executeTakeFirstOrThrow(() => notFound("org"));

/** Ends the org and all that lives in it (the database's app.end_row): of many rows the sweep deletes the rest. */
export async function deleteOrg(db: TenantDb, id: Id<"org">): Promise<void> {
  await db
    .telling(db.deleteFrom("orgs").where("id", "=", id), {
      kind: "org.deleted",
      title: sql`'Org deleted'`,
      metadata: { org: id },
      toApp: true,
    })
    .executeTakeFirstOrThrow(() => notFound("org"));
}
