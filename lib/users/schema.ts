import * as v from "valibot";
import { type Role, type Row, real, roles } from "../db/schema.ts";
import { idOf, metadata, notYet, nullable, text } from "../http/valid.ts";
import { type OrgRow, kind as orgKind } from "../orgs/schema.ts";
import { pageOf, pageQuery } from "../paging.ts";

export const email = v.pipe(text(254), v.rfcEmail("must be an e-mail address"));
const name = text(200);
const role = v.picklist(roles);
export const createUserBody = v.strictObject({
  email: v.nullish(email, null),
  name: v.nullish(name, null),
  alias: v.nullish(text(100), null),
  org: v.nullish(idOf("org"), null),
  role: v.optional(role),
  is_system_user: v.optional(v.boolean(), false),
  metadata: v.optional(metadata, {}),
});
export type CreateUser = v.InferOutput<typeof createUserBody>;

export const updateUserBody = v.strictObject({
  email: v.optional(v.nullable(email)),
  name: v.optional(v.nullable(name)),
  alias: v.optional(v.nullable(text(100))),
  org: v.optional(v.nullable(idOf("org"))),
  role: v.optional(role),
  is_system_user: v.optional(v.boolean()),
  metadata: v.optional(metadata),
});
export type UpdateUser = v.InferOutput<typeof updateUserBody>;

export const profileBody = v.strictObject({
  full_name: v.optional(v.nullable(name)),
  clear_full_name: v.optional(v.boolean(), false),
  alias: v.optional(v.nullable(text(100))),
  metadata: v.optional(v.nullable(metadata)),
  profile_picture: notYet("is not supported yet: there is no file store"),
  // There is none to clear.
  clear_profile_picture: v.optional(v.boolean(), false),
});
export type Profile = v.InferOutput<typeof profileBody>;

export const listUsersQuery = v.object({
  ...pageQuery,
  search: v.optional(text(200)),
  org: v.optional(text(100)),
  role: v.optional(role),
});
export type ListUsers = v.InferOutput<typeof listUsersQuery>;

export type UserRow = Row<"users">;

const person = {
  id: v.string(),
  app: v.string(),
  app_name: nullable,
  sandbox: nullable,
  sandbox_name: nullable,
  org: nullable,
  org_name: nullable,
  org_slug: nullable,
  org_role: v.nullable(v.picklist(["admin", "member", "viewer"])),
  email: nullable,
  name: nullable,
  alias: nullable,
  is_system_user: v.boolean(),
  metadata: v.record(v.string(), v.unknown()),
};

export const user = v.strictObject({
  ...person,
  created_by_agent_user: v.null(),
  created_by_developer: v.null(),
  created_by_org: v.null(),
  created_by_team: v.null(),
  created_by_user: v.null(),
});
export const userPage = pageOf(user);

/** A user, with the names of what is around it where they were loaded. */
export type NamedUserRow = UserRow & {
  app_name?: string | null;
  sandbox_name?: string | null;
  org_name?: string | null;
  org_slug?: string | null;
  org_kind?: OrgRow["kind"] | null;
};

/** The role as the wire shows it. */
export function toOrgRole(role: Role | null): "admin" | "member" | "viewer" | null {
  if (role === "owner" || role === "admin") return "admin";
  return role === "billing" ? "viewer" : role;
}

const toPerson = (row: NamedUserRow) => ({
  id: row.id,
  app: row.app_id,
  app_name: row.app_name ?? null,
  sandbox: real(row.sandbox_id),
  sandbox_name: row.sandbox_name ?? null,
  org: real(row.org_id),
  org_name: row.org_name ?? null,
  org_slug: row.org_slug ?? null,
  org_role: toOrgRole(row.role),
  email: row.email,
  name: row.name,
  alias: row.alias,
  is_system_user: row.is_system_user,
  metadata: row.metadata,
});

/** The user as the API shows it. */
export const toUser = (row: NamedUserRow): v.InferOutput<typeof user> => ({
  ...toPerson(row),
  created_by_agent_user: null,
  created_by_developer: null,
  created_by_org: null,
  created_by_team: null,
  created_by_user: null,
});

export const currentUser = v.strictObject({
  ...person,
  org_kind: v.nullable(orgKind),
  notification_settings: v.record(v.string(), v.unknown()),
  profile_picture: v.null(),
  timezone: v.null(),
  effective_access: v.null(),
});

/** The user as it sees itself. */
export const toCurrentUser = (row: NamedUserRow): v.InferOutput<typeof currentUser> => ({
  ...toPerson(row),
  org_kind: row.org_kind ?? null,
  notification_settings: {},
  profile_picture: null,
  timezone: null,
  effective_access: null,
});
