/** Users and groups as an org's identity provider keeps them. Each is one round trip, behind the door of a SCIM token. */
import { type RawBuilder, type SelectQueryBuilder, sql } from "kysely";
import { mac } from "../auth/secrets.ts";
import type { Database } from "../db/schema.ts";
import { mustHold, type Rows } from "../db/statements.ts";
import type { Shown, Telling, TenantDb } from "../db/tenant-db.ts";
import { isVerified } from "../domains/queries.ts";
import { conflict, notFound } from "../errors.ts";
import { emitting } from "../events/emit.ts";
import { type Id, newId } from "../ids.ts";
import { endingSignIns } from "../sign-ins/queries.ts";
import type { GroupChange, UserChange, WholeGroup, WholeUser } from "./changes.ts";
import type { Condition } from "./filter.ts";
import type { ListQuery, Named, ScimGroupRow, ScimUserRow } from "./schema.ts";

// ---------------------------------------------------------------------------------------------------------
// Users

const tellingUser = (happened: "created" | "updated" | "deactivated" | "deleted", metadata: object = {}): Telling => ({
  kind: `scim.${happened}`,
  title: sql`${`User ${happened} by SCIM: `} || coalesce(name, id)`,
  user_id: sql<string>`id`,
  readers: sql<string[]>`array['user:' || id]`,
  metadata: metadata as Record<string, unknown>,
});

/** The groups of a user, in the same statement. */
const groupsOf = (db: TenantDb, of: "users" | "subject"): RawBuilder<Named[]> =>
  sql`(select coalesce(jsonb_agg(jsonb_build_object('id', g.id, 'name', g.display_name) order by g.id), '[]')
    from (${db.selectFrom("scim_members").selectAll()}) m join (${db.selectFrom("scim_groups").selectAll()}) g on g.id = m.group_id
   where m.user_id = ${sql.ref(`${of}.id`)})`;
const shownOf = (db: TenantDb) => ({ groups: groupsOf(db, "subject") }) satisfies Shown;

/** The users whom the provider keeps: of the others it doesn't know. */
const kept = (db: TenantDb) => db.selectFrom("users").where("scim", "is not", null);

const ofUsers: Record<Condition["attribute"], string> = {
  ...{ id: "id", userName: "scim_user_name", externalId: "scim_external_id", "emails.value": "email_key" },
  displayName: "lower(name)",
};
/** Of userName, an address and a name the case doesn't count. */
function where<T extends "users" | "scim_groups">(
  rows: Rows<T>,
  columns: Partial<Record<Condition["attribute"], string>>,
  conditions: Condition[],
): Rows<T> {
  return conditions.reduce((found, { attribute, value }) => {
    const column = columns[attribute];
    const given = attribute === "id" || attribute === "externalId" ? sql`${value}` : sql`lower(${value})`;
    return found.where(column ? sql<boolean>`${sql.raw(column)} = ${given}` : sql<boolean>`false`);
  }, rows);
}

/** A page of a list, in the order of making, and how many there are. `rows` with what is shown of each. */
async function pageOf<O>(
  db: TenantDb,
  rows: Pick<Rows<"users">, "select">,
  shown: SelectQueryBuilder<Database, never, O>,
  { startIndex, count }: Pick<ListQuery, "startIndex" | "count">,
) {
  const { found, counted } = await db.batch({
    found: shown
      .orderBy(sql`id`)
      .limit(count)
      .offset(startIndex - 1),
    counted: rows.select(sql<number>`count(*)`.as("total")),
  });
  return { rows: found, total: (counted[0] as { total: number }).total };
}

export function listUsers(db: TenantDb, conditions: Condition[], page: ListQuery) {
  const rows = where(kept(db), ofUsers, conditions);
  return pageOf(db, rows, rows.selectAll().select(groupsOf(db, "users").as("groups")) as never, page) as Promise<{
    rows: ScimUserRow[];
    total: number;
  }>;
}

export const getUser = (db: TenantDb, id: Id<"user">): Promise<ScimUserRow> =>
  kept(db)
    .selectAll()
    .select(groupsOf(db, "users").as("groups"))
    .where("id", "=", id)
    .executeTakeFirstOrThrow(() => notFound("user")) as Promise<ScimUserRow>;

/** Refuses an address that is none of the org's people: 422, unless the user has it already. */
const behindDomain = (db: TenantDb, email: string | undefined, id?: Id<"user">) =>
  email === undefined
    ? db
    : db.behind(
        mustHold(
          sql`(${isVerified(db, email)} or exists (${db
            .selectFrom("users")
            .where("id", "=", id ?? ("" as never))
            .where("email_key", "=", email.toLowerCase())
            .select(sql`1`.as("one"))}))`,
          "emails",
          "must be of a domain that is verified for this org",
        ),
      );

/** The name that people see, of what a provider says: the one to be shown, else the whole, else its parts. */
const nameOf = (scim: RawBuilder<unknown>) =>
  sql<string | null>`coalesce(${scim} ->> 'displayName', ${scim} ->> 'formatted',
    nullif(concat_ws(' ', ${scim} ->> 'givenName', ${scim} ->> 'familyName'), ''))`;

/**
 * Makes a user, or takes on one of the org or of none that has the address: who was let go of revives by that. 409 where the
 * provider keeps one already, or the address is somebody's elsewhere; 422 on an address of a domain that isn't verified.
 */
export async function createUser(db: TenantDb, roots: string, { set, email, active }: WholeUser): Promise<ScimUserRow> {
  const { app, sandbox, ...tenant } = db.tenant as Extract<TenantDb["tenant"], { kind: "org" }>;
  const email_key = email.toLowerCase();
  const tag = await mac(roots, ["bring", app, sandbox, tenant.org, "scim", email_key].join("."), "door");
  const said = JSON.stringify(set);
  const values = {
    scim: sql<string>`${said}::jsonb`,
    name: nameOf(sql`${said}::jsonb`),
    deactivated_at: active ? null : sql<string>`now()`,
  };
  const there = db.selectFrom("users").where("email_key", "=", email_key).select(sql`1`.as("one"));
  const free = db.selectFrom("tenants").where(sql<boolean>`not exists (${there})`);
  const told = tellingUser("created");
  const { taken, made } = await behindDomain(db, email).batch({
    brought: db.call("bring_in", ["scim", email, tag]),
    taken: db.telling(
      db
        .updateTable("users")
        .set({ ...values, updated_at: sql<string>`now()` })
        .where("email_key", "=", email_key)
        .where("scim", "is", null),
      told,
      shownOf(db),
    ),
    made: db.telling(
      db.insertUnder(free, "users", {
        id: newId("user"),
        email,
        role: "member",
        role_source: "scim",
        ...values,
      } as never),
      told,
      shownOf(db),
    ),
  });
  const [row] = [...taken, ...made];
  if (!row) throw conflict("userName");
  return row as ScimUserRow;
}

/** Changes a user. 422 on another address of a domain that isn't verified, 409 on a userName or an address that is taken. */
export async function updateUser(db: TenantDb, id: Id<"user">, change: UserChange): Promise<ScimUserRow> {
  const { set, unset, email, active } = change;
  const scim = sql<string>`(scim || ${JSON.stringify(set)}::jsonb) - ${unset}::text[]`;
  const names = ["displayName", "formatted", "givenName", "familyName"] as const;
  const renamed = names.some((name) => set[name] !== undefined || unset.includes(name));
  const patch = db.patch("users", {
    scim: Object.keys(set).length || unset.length ? scim : undefined,
    name: renamed ? nameOf(sql`(${scim})`) : undefined,
    email,
    deactivated_at: active === undefined ? undefined : active ? null : sql<string>`coalesce(deactivated_at, now())`,
  });
  const fields = [
    ...Object.keys(set),
    ...unset,
    ...(email ? ["email"] : []),
    ...(active === undefined ? [] : ["active"]),
  ];
  const { row } = await behindDomain(db, email, id).batch({
    row: db.telling(
      patch.where("id", "=", id).where("scim", "is not", null),
      tellingUser(active === false ? "deactivated" : "updated", { fields }),
      shownOf(db),
    ),
    ...(active === false && dying(db, id)),
  });
  if (!row[0]) throw notFound("user");
  return row[0] as ScimUserRow;
}

/**
 * What follows where a user was deactivated by the statement before: its sign-ins and tokens end for good, so that none of
 * them revives with it; and the app is warned of an org that nobody owns any more.
 */
function dying(db: TenantDb, id: Id<"user">) {
  const gone = db.selectFrom("users").where("users.id", "=", id).where("users.deactivated_at", "=", sql<string>`now()`);
  const others = db.selectFrom("users").where("role", "=", "owner").where("deactivated_at", "is", null);
  const last = gone
    .where("users.role", "=", "owner")
    .where(sql<boolean>`not exists (${others.select(sql`1`.as("one"))})`);
  const user_id = sql<Id<"user">>`id`;
  const readers = sql<string[]>`array[]::text[]`;
  return {
    signedOut: endingSignIns(db, id, {}),
    revoked: db
      .updateTable("tokens")
      .set({ revoked_at: sql<string>`now()` })
      .where("user_id", "in", gone.select("users.id"))
      .where("revoked_at", "is", null),
    warned: db.insertUnder(last, "activity_feed_entries", {
      ...{ id: newId("activity_feed_entry"), kind: "scim.last_owner_deactivated", level: "warning", user_id, readers },
      title: "The org's last owner was deactivated by SCIM",
    } as never),
    warning: emitting(db, last, { name: "scim.last_owner_deactivated", payload: { user: user_id }, user_id, readers }),
  };
}

/** Lets go of a user, who is deactivated and out of all groups: what the user made stays, and so does the user. */
export async function deleteUser(db: TenantDb, id: Id<"user">): Promise<void> {
  const { row } = await db.batch({
    left: db.deleteFrom("scim_members").where("user_id", "=", id),
    row: db.telling(
      db
        .updateTable("users")
        .set({ scim: null, deactivated_at: sql<string>`now()`, updated_at: sql<string>`now()` })
        .where("id", "=", id)
        .where("scim", "is not", null),
      tellingUser("deleted"),
    ),
    ...dying(db, id),
  });
  if (!row.length) throw notFound("user");
}

// ---------------------------------------------------------------------------------------------------------
// Groups

const tellingGroup = (happened: "created" | "updated" | "deleted"): Telling => ({
  kind: `scim_group.${happened}`,
  title: sql`${`Group ${happened} by SCIM: `} || display_name`,
  readers: sql`'{}'`,
});

/** The members of a group, in the same statement. */
const membersOf = (db: TenantDb): RawBuilder<Named[]> =>
  sql`(select coalesce(jsonb_agg(jsonb_build_object('id', u.id, 'name', u.name) order by u.id), '[]')
    from (${db.selectFrom("scim_members").selectAll()}) m join (${db.selectFrom("users").selectAll()}) u on u.id = m.user_id
   where m.group_id = scim_groups.id)`;

const ofGroups = { id: "id", externalId: "external_id", displayName: "name_key" };

/** `members`: whether they are asked for. */
export function listGroups(db: TenantDb, conditions: Condition[], page: ListQuery, members: boolean) {
  const rows = where(db.selectFrom("scim_groups"), ofGroups, conditions);
  return pageOf(db, rows as never, shownGroups(db, rows, members) as never, page) as Promise<{
    rows: ScimGroupRow[];
    total: number;
  }>;
}

const shownGroups = (db: TenantDb, rows: Rows<"scim_groups">, members: boolean) =>
  members ? rows.selectAll().select(membersOf(db).as("members")) : rows.selectAll();
const groupOf = (db: TenantDb, id: Id<"scim_group">, members = true) =>
  shownGroups(db, db.selectFrom("scim_groups").where("scim_groups.id", "=", id), members);

export const getGroup = (db: TenantDb, id: Id<"scim_group">, members: boolean): Promise<ScimGroupRow> =>
  groupOf(db, id, members).executeTakeFirstOrThrow(() => notFound("scim_group"));

/** Refuses members who aren't users of the org: 422. */
const behindMembers = (db: TenantDb, added: Id<"user">[]) =>
  added.length
    ? db.behind(
        mustHold(
          sql`(${db.selectFrom("users").where("id", "in", added).select(sql`count(*)`.as("count"))}) = ${added.length}`,
          "members",
          "must be users of this org",
        ),
      )
    : db;

/** The statements by which a group comes to its members. The group's own, before them, holds it still. */
function membership(db: TenantDb, id: Id<"scim_group">, { cleared, added, removed }: GroupChange) {
  const members = db.deleteFrom("scim_members").where("group_id", "=", id);
  const inside = db.selectFrom("scim_members").where("group_id", "=", id).select("user_id");
  const group = db.selectFrom("scim_groups").where("scim_groups.id", "=", id).select(sql`1`.as("one"));
  const joining = db
    .selectFrom("users")
    .where("id", "in", added)
    .where("id", "not in", inside)
    .where(sql<boolean>`exists (${group})`);
  return {
    ...(cleared
      ? { left: members.where(sql<boolean>`user_id <> all (${added}::text[])`) }
      : removed.length && { left: members.where("user_id", "in", removed) }),
    ...(added.length && {
      joined: db.insertUnder(joining, "scim_members", { group_id: id, user_id: sql<Id<"user">>`id` }),
    }),
  };
}

/** Makes a group with its members. 409 on a name that is taken, 422 on a member who isn't a user of the org. */
export async function createGroup(db: TenantDb, whole: WholeGroup): Promise<ScimGroupRow> {
  const id = newId("scim_group");
  const { displayName: display_name, externalId: external_id } = whole;
  const { group } = await behindMembers(db, whole.added).batch({
    made: db.telling(db.insertInto("scim_groups", { id, display_name, external_id }), tellingGroup("created")),
    ...membership(db, id, whole),
    group: groupOf(db, id),
  });
  return group[0] as ScimGroupRow;
}

/** Changes a group, and who is in it. 409 on a name that is taken, 422 on a member who isn't a user of the org. */
export async function updateGroup(db: TenantDb, id: Id<"scim_group">, change: GroupChange): Promise<ScimGroupRow> {
  const moved = change.cleared || change.added.length > 0 || change.removed.length > 0;
  const patch = db.patch("scim_groups", {
    display_name: change.displayName,
    external_id: change.externalId,
    updated_at: moved ? sql<string>`now()` : undefined,
  });
  const { group } = await behindMembers(db, change.added).batch({
    changed: db.telling(patch.where("id", "=", id), tellingGroup("updated")),
    ...membership(db, id, change),
    group: groupOf(db, id),
  });
  if (!group[0]) throw notFound("scim_group");
  return group[0] as ScimGroupRow;
}

export async function deleteGroup(db: TenantDb, id: Id<"scim_group">): Promise<void> {
  await db
    .telling(db.deleteFrom("scim_groups").where("id", "=", id), tellingGroup("deleted"))
    .executeTakeFirstOrThrow(() => notFound("scim_group"));
}
