import { sql } from "kysely";
import { asConflict } from "../db/errors.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { notFound } from "../errors.ts";
import type { Id } from "../ids.ts";
import { containing, windowOf } from "../paging.ts";
import type { CreateOrg, ListOrgs, OrgRow, UpdateOrg } from "./schema.ts";

/** One page of orgs, newest first, and how many there are. */
export async function listOrgs(db: TenantDb, { search, status, ...page }: ListOrgs) {
  let orgs = db.selectFrom("orgs");
  if (status) orgs = orgs.where("status", "=", status);
  if (search) {
    const found = containing(search);
    orgs = orgs.where((eb) =>
      eb.or([eb("name", "ilike", found), eb("slug", "ilike", found), eb("domain", "ilike", found)]),
    );
  }
  const { limit, offset } = windowOf(page);
  const [rows, [count]] = await db.batch(
    orgs.selectAll().orderBy("id", "desc").limit(limit).offset(offset),
    orgs.select(sql<number>`count(*)`.as("total")),
  );
  return { rows, total: count!.total };
}

/** Makes an org and the place where its rows will live. 409 on a slug or domain that is taken. */
export async function createOrg(db: TenantDb, id: Id<"org">, values: CreateOrg): Promise<OrgRow> {
  const inOrg = db.within(id);
  const org = inOrg.insertInto("orgs", { id, ...values });
  const [, [row]] = await inOrg
    .batch(
      inOrg.insertInto("tenants", {}),
      inOrg.telling(org, { kind: "org.created", title: sql`'Org created: ' || name`, readers: sql`'{}'` }),
    )
    .catch(asConflict);
  return row!;
}

export async function getOrg(db: TenantDb, id: Id<"org">): Promise<OrgRow> {
  const row = await db.selectFrom("orgs").selectAll().where("id", "=", id).executeTakeFirst();
  if (!row) throw notFound("org");
  return row;
}

/** The org that a user is in: none or one. 404 where the user isn't there. */
export async function listOrgsOf(db: TenantDb, user: Id<"user">): Promise<OrgRow[]> {
  const orgs = db.selectFrom("users").select("org_id").where("id", "=", user);
  const [rows, [found]] = await db.batch(
    db
      .selectFrom("orgs")
      .selectAll()
      .where("id", "in", orgs as never),
    orgs,
  );
  if (!found) throw notFound("user");
  return rows;
}

export async function updateOrg(db: TenantDb, id: Id<"org">, values: UpdateOrg): Promise<OrgRow> {
  const change = db
    .updateTable("orgs")
    .set({ ...values, updated_at: sql`now()` })
    .where("id", "=", id);
  const row = await db
    .telling(change, {
      kind: "org.updated",
      title: sql`'Org updated: ' || name`,
      readers: sql`'{}'`,
      metadata: { fields: Object.keys(values), ...(values.status && { status: values.status }) },
    })
    .executeTakeFirst()
    .catch(asConflict);
  if (!row) throw notFound("org");
  return row;
}

/** Ends the org and all that lives in it: its place goes, and everything there with it. */
export async function deleteOrg(db: TenantDb, id: Id<"org">): Promise<void> {
  const row = await db
    .telling(db.deleteFrom("tenants").where("org_id", "=", id), {
      kind: "org.deleted",
      title: sql`'Org deleted'`,
      metadata: { org: id },
      toApp: true,
    })
    .executeTakeFirst();
  if (!row) throw notFound("org");
}
