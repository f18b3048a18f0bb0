import * as v from "valibot";
import type { Row } from "../db/schema.ts";
import { stamp } from "../http/valid.ts";
import { idAs } from "../ids.ts";
import { domain as hostName } from "../orgs/schema.ts";
import { pageOf, pageQuery } from "../paging.ts";
import { isPublicMail } from "./public-mail.ts";

const domain = v.pipe(
  hostName,
  v.regex(/\.[a-z]/, "must be a host name such as example.com"),
  v.check((name) => !isPublicMail(name), "must not be a public mail provider's"),
);
export const createDomainBody = v.strictObject({ domain });
/** A developer may say that it is verified, and by that answers for it. */
export const createOwnDomainBody = v.strictObject({ domain, verified: v.optional(v.boolean(), false) });
export type CreateDomain = v.InferOutput<typeof createOwnDomainBody>;
export const listDomainsQuery = v.object(pageQuery);

export type DomainRow = Row<"org_domains">;

/** `record`: what the domain's DNS must say, to be verified; null of the one that the org's own record names. */
export const domainView = v.strictObject({
  id: v.string(),
  org: v.string(),
  domain: v.string(),
  status: v.picklist(["pending", "verified"]),
  primary: v.boolean(),
  record: v.nullable(v.strictObject({ type: v.literal("TXT"), name: v.string(), value: v.string() })),
  verified_by: v.nullable(v.picklist(["developer", "dns"])),
  verified_at: v.nullable(stamp),
  created_at: stamp,
  updated_at: stamp,
});
export const domainPage = pageOf(domainView);

/** Where a domain's TXT record stands, and what it says. */
export const recordOf = ({ domain, challenge }: Pick<DomainRow, "domain" | "challenge">) =>
  challenge === null
    ? null
    : { type: "TXT" as const, name: `_agentry.${domain}`, value: `agentry-domain-verification=${challenge}` };

export const toDomain = (row: DomainRow): v.InferOutput<typeof domainView> => ({
  id: row.id,
  org: row.org_id,
  domain: row.domain,
  status: row.verified_at === null ? "pending" : "verified",
  // The domain that the org's own record names (app.keep_domain).
  primary: row.id === idAs("org_domain", row.org_id),
  record: recordOf(row),
  verified_by: row.verified_by,
  verified_at: row.verified_at,
  created_at: row.created_at,
  updated_at: row.updated_at,
});
