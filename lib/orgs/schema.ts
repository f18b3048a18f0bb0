import * as v from "valibot";
import { type OrgStatus, orgStatuses, type Row, real } from "../db/schema.ts";
import { nullable, stamp, text } from "../http/valid.ts";
import { pageOf, pageQuery } from "../paging.ts";

/** Lower-case letters, digits and inner hyphens, 2 to 100. Sandboxes have the same. */
export const slug = v.pipe(
  v.string(),
  v.regex(
    /^[a-z0-9][a-z0-9-]{0,98}[a-z0-9]$/,
    "must be 2 to 100 lower-case letters, digits and hyphens, with no hyphen at either end",
  ),
);

/** A host name (RFC 1123), kept in lower case. */
export const domain = v.pipe(
  v.string(),
  v.maxLength(253),
  v.regex(
    /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$/i,
    "must be a host name such as example.com",
  ),
  v.toLowerCase(),
);

/** An address that a browser may be sent to: no other scheme, `javascript:` least of all. */
const website = v.pipe(
  text(2000),
  v.check((url) => /^https?:\/\//i.test(url) && URL.canParse(url), "must be an http or https address"),
);

const name = v.pipe(text(200), v.nonEmpty());
const status = v.picklist(orgStatuses);

export const createOrgBody = v.strictObject({
  name,
  slug,
  domain,
  website: v.nullish(website, null),
  industry: v.nullish(text(200), null),
  description: v.nullish(text(10_000), null),
  status: v.optional(status, "active"),
});
export type CreateOrg = v.InferOutput<typeof createOrgBody>;

export const updateOrgBody = v.strictObject({
  name: v.optional(name),
  slug: v.optional(slug),
  domain: v.optional(domain),
  website: v.optional(v.nullable(website)),
  industry: v.optional(v.nullable(text(200))),
  description: v.optional(v.nullable(text(10_000))),
  status: v.optional(status),
});
export type UpdateOrg = v.InferOutput<typeof updateOrgBody>;

export const listOrgsQuery = v.object({
  ...pageQuery,
  search: v.optional(text(200)),
  status: v.optional(status),
});
export const searchOrgsQuery = v.object({ ...pageQuery, search: v.optional(text(200)) });
export type ListOrgs = v.InferOutput<typeof searchOrgsQuery> & { status?: OrgStatus | undefined };

export type OrgRow = Row<"orgs">;

/** A company, or one person's own. */
export const kind = v.picklist(["company", "personal"]);

export const org = v.strictObject({
  id: v.string(),
  app: v.string(),
  sandbox: nullable,
  name: v.string(),
  slug: v.string(),
  domain: v.string(),
  website: nullable,
  industry: nullable,
  description: nullable,
  status,
  kind,
  owner_user: nullable,
  owned_products: v.array(v.string()),
  onboarding_track: nullable,
  onboarding_solution_lookup_key: nullable,
  created_at: stamp,
  updated_at: stamp,
});
export const orgPage = pageOf(org);
export const orgList = v.strictObject({ data: v.array(org) });

/** The org as the API shows it. Who owns it as a person is of a personal one alone. */
export const toOrg = (row: OrgRow): v.InferOutput<typeof org> => ({
  id: row.id,
  app: row.app_id,
  sandbox: real(row.sandbox_id),
  name: row.name,
  slug: row.slug,
  domain: row.domain,
  website: row.website,
  industry: row.industry,
  description: row.description,
  status: row.status,
  kind: row.kind,
  owner_user: row.owner_user_id,
  owned_products: [],
  onboarding_track: null,
  onboarding_solution_lookup_key: null,
  created_at: row.created_at,
  updated_at: row.updated_at,
});

/** What the users of an app may know of an org. */
export const orgSummary = v.strictObject({
  id: v.string(),
  name: v.string(),
  domain: v.string(),
  kind,
});
export const orgSummaryPage = pageOf(orgSummary);
export const toOrgSummary = ({ id, name, domain, kind }: OrgRow): v.InferOutput<typeof orgSummary> => ({
  id,
  name,
  domain,
  kind,
});
