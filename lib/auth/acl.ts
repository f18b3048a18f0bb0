/** Access lists (CONTRACT.md §2.8): what comes in, and who passes, as SQL that a list can filter and count by. */
import { type RawBuilder, sql } from "kysely";
import * as v from "valibot";
import { text } from "../http/valid.ts";
import { type Id, isId } from "../ids.ts";
import type { Kind } from "../kinds.ts";

const principalKinds: Record<string, Kind> = { user: "user", team: "team", org: "org", agent: "agent" };
const orgRoles = ["admin", "member", "viewer"];

const target = {
  principal_type: v.picklist(["everyone", "org_role", "user", "team", "org", "agent"]),
  principal: v.nullish(text(100), null),
};
const isPrincipal = ({ principal_type, principal }: { principal_type: string; principal: string | null }) => {
  if (principal_type === "everyone") return principal === null;
  if (principal === null) return false;
  return principal_type === "org_role"
    ? orgRoles.includes(principal)
    : isId(principalKinds[principal_type]!, principal);
};
const named = "must name its principal: none for everyone; admin, member or viewer for org_role; else a record's id";

const grant = v.pipe(
  v.strictObject({
    ...target,
    actions: v.pipe(v.array(v.pipe(text(64), v.nonEmpty())), v.nonEmpty(), v.maxLength(20)),
  }),
  v.check((input) => isPrincipal(input), named),
);
const grants = v.pipe(v.array(grant), v.maxLength(200));
const removals = v.pipe(
  v.array(
    v.pipe(
      v.strictObject(target),
      v.check((input) => isPrincipal(input), named),
    ),
  ),
  v.maxLength(200),
);

/** `grants` replaces the list; `add` and `remove` change it. Not both. */
export const aclBody = v.pipe(
  v.strictObject({
    grants: v.nullish(grants),
    add: v.nullish(grants),
    remove: v.nullish(removals),
  }),
  v.check(
    ({ grants, add, remove }) => (grants ? !add && !remove : Boolean(add || remove)),
    "takes either grants, or add and remove",
  ),
);
export type AclBody = v.InferOutput<typeof aclBody>;

/** An access list as the API shows it. Null: nothing restricts the record within its org. */
export const acl = v.strictObject({
  grants: v.array(
    v.strictObject({
      principal_type: v.picklist(["everyone", "org_role", "user", "team", "org", "agent"]),
      principal: v.nullable(v.string()),
      actions: v.array(v.string()),
    }),
  ),
});

/**
 * The column's next value, over its present one. Null clears; so does an empty `grants`. `add` and `remove` go
 * through app.acl_patch, in the statement that writes, so that two patches at once both count.
 */
export function nextAcl(body: AclBody | null): RawBuilder<string | null> {
  const list = (entries: unknown[] | null | undefined) => sql`${JSON.stringify(entries ?? [])}::jsonb`;
  if (!body || (!body.add && !body.remove && !body.grants?.length)) return sql`null`;
  const from = body.grants ? sql`null` : sql`acl`;
  return sql`app.acl_patch(${from}, ${list(body.grants ?? body.add)}, ${list(body.remove)})`;
}

/** A new row's list: there is no present one to change. */
export const firstAcl = (body: AclBody | null): RawBuilder<string | null> =>
  nextAcl(body && { grants: body.grants ?? body.add ?? null });

/** Who an access list is asked about: a person of an org, or a developer. */
export type Person = { kind: "token"; user: Id<"user">; org: Id<"org"> } | { kind: "key" };

/**
 * Whether the viewer passes a row's list: nothing restricts it, it is the viewer's own, or a principal of the viewer
 * is in `column`. A developer passes, and so do the org's owners and admins, by the role they have now (app.org_role,
 * set by app.enter_token). "Everyone" is everyone in the org: the tenant's walls stand outside this.
 */
export function passes(viewer: Person, column: "readers" | "writers"): RawBuilder<boolean> {
  if (viewer.kind === "key") return sql`true`;
  const role = sql`(select current_setting('app.org_role', true))`;
  const principals = sql`array['everyone', ${`user:${viewer.user}`}, ${`org:${viewer.org}`}, 'org_role:' || ${role}]`;
  return sql`(${role} = 'admin' or ${sql.ref(column)} is null or user_id = ${viewer.user} or ${sql.ref(column)} && ${principals})`;
}
