/** What an org's admins set of SCIM: the tokens that its provider asks with, and what each of its groups may. */
import { sql } from "kysely";
import * as v from "valibot";
import { newPlaceToken } from "../auth/place-tokens.ts";
import { groupRoles, type Row } from "../db/schema.ts";
import type { Telling, TenantDb } from "../db/tenant-db.ts";
import { notFound } from "../errors.ts";
import { nullable, stamp } from "../http/valid.ts";
import type { Id } from "../ids.ts";
import { behindOrg } from "../orgs/queries.ts";
import { type Page, pageOf, pageQuery } from "../paging.ts";

export type ScimTokenRow = Row<"scim_tokens">;
export type GroupRow = Row<"scim_groups">;

export const listQuery = v.object(pageQuery);

/** `token` is in the answer that makes one, and never again. */
export const scimToken = v.strictObject({
  id: v.string(),
  org: v.string(),
  hint: v.string(),
  token: nullable,
  created_at: stamp,
  last_used_at: v.nullable(stamp),
});
export const scimTokenList = v.strictObject({ data: v.array(scimToken) });
export const toScimToken = (row: ScimTokenRow, token: string | null = null): v.InferOutput<typeof scimToken> => ({
  id: row.id,
  org: row.org_id,
  hint: row.hint,
  token,
  created_at: row.created_at,
  last_used_at: row.last_used_at,
});

export const updateGroupBody = v.strictObject({ role: v.optional(v.nullable(v.picklist(groupRoles))) });
export const group = v.strictObject({
  id: v.string(),
  org: v.string(),
  name: v.string(),
  external_id: nullable,
  role: v.nullable(v.picklist(groupRoles)),
  created_at: stamp,
  updated_at: stamp,
});
export const groupPage = pageOf(group);
export const toGroup = (row: GroupRow): v.InferOutput<typeof group> => ({
  id: row.id,
  org: row.org_id,
  name: row.display_name,
  external_id: row.external_id,
  role: row.role,
  created_at: row.created_at,
  updated_at: row.updated_at,
});

const telling = (event: "created" | "deleted"): Telling => ({
  kind: `scim_token.${event}`,
  title: sql`${`SCIM token ${event}: …`} || hint`,
  readers: sql`'{}'`,
});

const named = (db: TenantDb, org: Id<"org">, id: Id<"scim_token">) =>
  db.selectFrom("scim_tokens").selectAll().where("id", "=", id).where("org_id", "=", org);

/** The tokens of an org, newest first: two at most. */
export const listTokens = (db: TenantDb, org: Id<"org">): Promise<ScimTokenRow[]> => {
  const behind = behindOrg(db, org);
  return behind.selectFrom("scim_tokens").selectAll().where("org_id", "=", org).orderBy("id", "desc").execute();
};

/** Makes a token of the org. 422 `limit_reached` beyond the second. */
export async function createToken(db: TenantDb, org: Id<"org">, id: Id<"scim_token">) {
  const { app, sandbox } = db.tenant;
  const { token, hash } = await newPlaceToken("scim", { app, sandbox, org });
  const above = db.selectFrom("orgs").where("orgs.id", "=", org);
  const insert = db.insertUnder(above, "scim_tokens", { id, hash, hint: token.slice(-4) } as never);
  const row = await db.telling(insert, telling("created")).executeTakeFirstOrThrow(() => notFound("org"));
  return { row, token: token as string | null };
}

/** One that was made before: its text isn't shown twice. */
export const getToken = async (db: TenantDb, org: Id<"org">, id: Id<"scim_token">) => ({
  row: await named(db, org, id).executeTakeFirstOrThrow(() => notFound("scim_token")),
  token: null,
});

/** Ends a token: the very next request with it is refused. */
export async function deleteToken(db: TenantDb, org: Id<"org">, id: Id<"scim_token">): Promise<void> {
  const change = db.deleteFrom("scim_tokens").where("id", "=", id).where("org_id", "=", org);
  await db.telling(change, telling("deleted")).executeTakeFirstOrThrow(() => notFound("scim_token"));
}

/** One page of the groups that the org's provider keeps, newest first, and how many there are. */
export const listGroups = (db: TenantDb, org: Id<"org">, page: Page) => {
  const behind = behindOrg(db, org);
  return behind.page(behind.selectFrom("scim_groups").selectAll().where("org_id", "=", org), page);
};

/** Says what a group's members may, of those whose role is SCIM's word: at once, for all who are in it (app.map_roles). */
export const updateGroup = (
  db: TenantDb,
  org: Id<"org">,
  id: Id<"scim_group">,
  { role }: v.InferOutput<typeof updateGroupBody>,
): Promise<GroupRow> =>
  db
    .telling(db.patch("scim_groups", { role }).where("id", "=", id).where("org_id", "=", org), {
      kind: "scim_group.updated",
      title: sql`'Role of a group set: ' || display_name`,
      readers: sql`'{}'`,
      metadata: { fields: ["role"] },
    })
    .executeTakeFirstOrThrow(() => notFound("scim_group"));
