import { type RawBuilder, sql } from "kysely";
import { NONE } from "../db/schema.ts";
import type { Telling, TenantDb } from "../db/tenant-db.ts";
import { invalid, notFound, refused } from "../errors.ts";
import { type Id, isId } from "../ids.ts";
import { containing } from "../paging.ts";
import type { CreateUser, ListUsers, NamedUserRow, Profile, UpdateUser } from "./schema.ts";

/** What the feed says of a user: read by the org's admins and by that user. */
const about = {
  user_id: sql<string>`id`,
  readers: sql<string[]>`array['user:' || id]`,
};

/** The names of what is around a user, in the same statement. */
const around = (db: TenantDb, of: "users" | "subject") => ({
  app_name: db.valueOf("apps", "name", sql.ref(`${of}.app_id`)),
  sandbox_name: db.valueOf("sandboxes", "name", sql.ref(`${of}.sandbox_id`)),
  org_name: db.valueOf("orgs", "name", sql.ref(`${of}.org_id`)),
  org_slug: db.valueOf("orgs", "slug", sql.ref(`${of}.org_id`)),
  org_kind: db.valueOf("orgs", "kind", sql.ref(`${of}.org_id`)),
});

const namedUsers = (db: TenantDb) => {
  const { app_name, sandbox_name, org_name, org_slug, org_kind } = around(db, "users");
  return db
    .selectFrom("users")
    .selectAll()
    .select([
      app_name.as("app_name"),
      sandbox_name.as("sandbox_name"),
      org_name.as("org_name"),
      org_slug.as("org_slug"),
      org_kind.as("org_kind"),
    ]);
};

/** One page of users, newest first, and how many there are. */
export function listUsers(db: TenantDb, { search, org, role, ...page }: ListUsers) {
  let users = namedUsers(db);
  // A malformed org is one that nobody is in.
  if (org !== undefined) users = isId("org", org) ? users.where("org_id", "=", org) : users.where(sql.lit(false));
  if (role) users = users.where("role", "=", role);
  if (search) {
    const found = containing(search);
    users = users.where((eb) =>
      eb.or([eb("name", "ilike", found), eb("alias", "ilike", found), eb("email", "ilike", found)]),
    );
  }
  return db.page(users, page);
}

/** Makes a user, in an org or in none. 409 on an e-mail address that is taken; 422 on an org that isn't there. */
export async function createUser(
  db: TenantDb,
  id: Id<"user">,
  { org, role, metadata, ...values }: CreateUser,
): Promise<NamedUserRow> {
  if (role && !org) throw invalid({ field: "role", message: "needs an org: a role is held in one" });
  const place = org ? db.inOrg(org) : db;
  const user = place.insertInto("users", {
    id,
    ...values,
    role: org ? (role ?? "member") : null,
    metadata: JSON.stringify(metadata),
  });
  const told: Telling = { kind: "user.created", title: sql`'User created: ' || coalesce(name, id)`, ...about };
  const [row] = await place.telling(user, told, around(place, "subject")).execute();
  return row!;
}

/** The statement that reads a user, with the names around. */
export const readingUser = (db: TenantDb, id: Id<"user">) => namedUsers(db).where("id", "=", id);

export const getUser = (db: TenantDb, id: Id<"user">): Promise<NamedUserRow> =>
  readingUser(db, id).executeTakeFirstOrThrow(() => notFound("user"));

/** Holds the user's org still, so that of two who would remove its last two owners the second sees what the first did. */
const lockOrg = (db: TenantDb, id: Id<"user">) =>
  db
    .selectFrom("orgs")
    .select("id")
    .where("org_id", "in", db.selectFrom("users").select("org_id").where("id", "=", id))
    .forNoKeyUpdate();

/** Whether the org would keep an owner without the row that is being changed. */
const keepsOwner = (db: TenantDb): RawBuilder<boolean> =>
  sql`(role is distinct from 'owner' or exists (select from (${db.selectFrom("users").selectAll()}) other
        where other.org_id = users.org_id and other.role = 'owner' and other.deactivated_at is null and other.id <> users.id))`;

const lastOwner = () =>
  refused("last_owner", "This is the org's last owner. Make another user an owner first, then do this again.");

/** Changes a user. 422 on another org: users don't move. 409 where an org would lose its last owner. */
export async function updateUser(
  db: TenantDb,
  id: Id<"user">,
  { org, metadata, ...values }: UpdateUser,
): Promise<NamedUserRow> {
  // A role that a person is given here is no provider's word any more.
  const said = { ...values, ...(values.role && { role_source: "manual" as const }) };
  let change = db.patch("users", { ...said, metadata: metadata && JSON.stringify(metadata) }).where("id", "=", id);
  if (org !== undefined) change = change.where("org_id", "=", org ?? NONE);
  if (values.role) change = change.where("org_id", "!=", NONE);
  if (values.role && values.role !== "owner") change = change.where(keepsOwner(db));
  const { row, found } = await db.batch({
    lock: lockOrg(db, id),
    row: db.telling(
      change,
      {
        kind: "user.updated",
        title: sql`'User updated: ' || coalesce(name, id)`,
        metadata: { fields: Object.keys({ ...values, ...(metadata && { metadata }) }) },
        ...about,
      },
      around(db, "subject"),
    ),
    found: db.selectFrom("users").select("org_id").where("id", "=", id),
  });
  if (row[0]) return row[0];
  if (!found[0]) throw notFound("user");
  if (org !== undefined && found[0].org_id !== (org ?? NONE)) {
    throw invalid({ field: "org", message: "can't be changed: users do not move between orgs yet" });
  }
  if (found[0].org_id === NONE) throw invalid({ field: "role", message: "needs an org: a role is held in one" });
  throw lastOwner();
}

/**
 * Ends a user, with its tokens and the agents that are its own (the database's app.end_row): of many rows the sweep
 * deletes the rest, and the user last. 409 for an org's last owner.
 */
export async function deleteUser(db: TenantDb, id: Id<"user">): Promise<void> {
  const change = db
    .updateTable("users")
    .set({ ended_at: sql`now()` })
    .where("id", "=", id)
    .where("ended_at", "is", null)
    .where(keepsOwner(db));
  const { deleted, found } = await db.batch({
    lock: lockOrg(db, id),
    deleted: db.telling(change, { kind: "user.deleted", title: sql`'User deleted: ' || coalesce(name, id)`, ...about }),
    found: db.selectFrom("users").select("id").where("id", "=", id),
  });
  if (!deleted.length) throw found.length ? lastOwner() : notFound("user");
}

/** Changes a person's own profile. `metadata` merges, and null removes a name from it. */
export async function updateProfile(db: TenantDb, id: Id<"user">, profile: Profile): Promise<NamedUserRow> {
  const { full_name, clear_full_name, alias, metadata } = profile;
  if (clear_full_name && full_name !== undefined) {
    throw invalid({ field: "clear_full_name", message: "excludes full_name" });
  }
  const kept = Object.fromEntries(Object.entries(metadata ?? {}).filter(([, value]) => value !== null));
  const removed = Object.keys(metadata ?? {}).filter((key) => metadata?.[key] === null);
  const change = db
    .patch("users", {
      name: clear_full_name ? null : full_name,
      alias,
      metadata: metadata ? sql`(metadata - ${removed}::text[]) || ${JSON.stringify(kept)}::jsonb` : undefined,
    })
    .where("id", "=", id);
  const told: Telling = { kind: "user.updated", title: sql`'User updated: ' || coalesce(name, id)`, ...about };
  return db.telling(change, told, around(db, "subject")).executeTakeFirstOrThrow(() => notFound("user"));
}
