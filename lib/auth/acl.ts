/** Access lists (CONTRACT.md §2.8): what comes in, and who passes, as SQL that a list can filter and count by. */
import { type RawBuilder, sql } from "kysely";
import * as v from "valibot";
import { principalTypes, type TenantTable, type Viewer } from "../db/schema.ts";
import type { Rows } from "../db/statements.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { list, text } from "../http/valid.ts";
import { isId } from "../ids.ts";
import type { Kind } from "../kinds.ts";

const principalKinds: Record<string, Kind> = { user: "user", team: "team", org: "org", agent: "agent" };
const orgRoles = ["admin", "member", "viewer"];
const MAX_GRANTS = 200;

const target = {
  principal_type: v.picklist(principalTypes),
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
    actions: list(v.pipe(text(64), v.nonEmpty()), 20, 1),
  }),
  v.check((input) => isPrincipal(input), named),
);
const grants = list(grant, MAX_GRANTS);
const removals = list(
  v.pipe(
    v.strictObject(target),
    v.check((input) => isPrincipal(input), named),
  ),
  MAX_GRANTS,
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
      principal_type: v.picklist(principalTypes),
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

/** Who passes a row's list, as a list: whom it names, and the user whose the row is. */
export const wholeAcl = sql<string | null>`app.acl_patch(acl, case when acl is null or user_id is null then '[]' else
  jsonb_build_array(jsonb_build_object('principal_type', 'user', 'principal', user_id, 'actions', '["read", "write"]'::jsonb))
  end, '[]')`;

/** Whose a row is: the column that names its owner, by the type of principal. */
type Owners = Partial<Record<"user" | "team" | "agent", string>>;

/** Whom access lists hold: the others pass each. */
type Held = Extract<Viewer, { kind: "user" | "agent" }>;
/** Whether access lists hold the viewer. */
export const isHeld = (viewer: Viewer): viewer is Held => viewer.kind === "user" || viewer.kind === "agent";

/** The principals that a viewer is, as SQL: what an access list, or an owner's column, is compared with. */
function principalsOf(viewer: Held): RawBuilder<string[]> {
  if (viewer.kind === "agent") {
    const agent = viewer.agent ? [`agent:${viewer.agent}`] : [];
    const user = viewer.user ? [`user:${viewer.user}`] : [];
    return sql`${["everyone", ...agent, ...user]}::text[]`;
  }
  return sql`array['everyone', ${`user:${viewer.user}`}, ${`org:${viewer.org}`}, 'org_role:' || ${orgRole}]`;
}
/** Whether the viewer is an admin of the org. No agent is. */
export const isAdmin = (viewer: Held): RawBuilder<boolean> =>
  viewer.kind === "user" ? sql`${orgRole} = 'admin'` : sql.lit(false);
/** The role that the viewer has now, set by app.enter_token. */
export const orgRole = sql`(select current_setting('app.org_role', true))`;

/**
 * Whether the viewer passes a row's list: it is the viewer's own, a principal of the viewer is in `column`, or there is
 * no list. Without one a row is open to the org, if it is nobody's own; where `unlisted` says so, whosever it is. A
 * developer and the org's own work pass, and so do the org's owners and admins; an agent is held to them. "Everyone" is everyone in the org: the
 * tenant's walls stand outside this.
 */
export function passes(
  viewer: Viewer,
  column: "readers" | "writers",
  owners: Owners = { user: "user_id" },
  unlisted: "owner" | "everyone" = "owner",
): RawBuilder<boolean> {
  if (!isHeld(viewer)) return sql`true`;
  const principals = principalsOf(viewer);
  const own = Object.entries(owners).map(
    ([type, id]) => sql`${sql.lit(`${type}:`)} || ${sql.ref(id)} = any (${principals})`,
  );
  const list = sql.ref(column);
  const owned = unlisted === "everyone" ? [] : Object.values(owners);
  const open = sql.join(
    [list, ...owned.map((id) => sql.ref(id))].map((one) => sql`${one} is null`),
    sql` and `,
  );
  return sql`(${isAdmin(viewer)} or ${sql.join([sql`(${open})`, ...own, sql`${list} && ${principals}`], sql` or `)})`;
}

/** A row with an access list, and the database behind it: see `reach`. */
export type Reached<T extends TenantTable> = { db: TenantDb; rows: Rows<T> };

/**
 * The door to a row with an access list, and to what hangs on it. `rows` are what an address names, which is one row or
 * none. Back come those that the viewer may read (or write), for statements to select from and to insert under, and a
 * database whose every round trip refuses first: 404 of the kind where the viewer can't see the row, 403 where it may
 * only read it. A change of the row itself asks `passes` once more: it may have waited for who took the right away.
 */
export function reach<T extends TenantTable>(
  db: TenantDb,
  kind: Kind,
  rows: Rows<T>,
  action: "read" | "write",
  owners?: Owners,
  unlisted?: "owner" | "everyone",
): Reached<T> {
  const readable = rows.where(passes(db.viewer, "readers", owners, unlisted));
  const may = action === "read" ? sql<boolean>`true` : passes(db.viewer, "writers", owners);
  const gate = sql`select app.must_reach(${kind}, (${readable.select(sql`${may} is true`.as("may")).limit(1)}))`;
  return { db: db.behind(gate), rows: action === "read" ? readable : rows.where(may) };
}
