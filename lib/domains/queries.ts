/** An org's domains: whose addresses are its people. */
import { type RawBuilder, sql } from "kysely";
import type { Telling, TenantDb } from "../db/tenant-db.ts";
import { notFound, refused, unavailable, unprocessable } from "../errors.ts";
import type { Egress } from "../http/egress.ts";
import { base62, type Id, idAs } from "../ids.ts";
import { behindOrg } from "../orgs/queries.ts";
import type { Page } from "../paging.ts";
import { readTxt } from "./dns.ts";
import { domainOf, isPublicMail } from "./public-mail.ts";
import { type CreateDomain, type DomainRow, recordOf } from "./schema.ts";

type DomainId = Id<"org_domain">;
/** 160 bits. */
const CHALLENGE_LENGTH = 27;

const telling = (event: "created" | "verified" | "deleted"): Telling => ({
  kind: `org_domain.${event}`,
  title: sql`${`Domain ${event}: `} || domain`,
  readers: sql`'{}'`,
});

/** Whether an address is of a domain that is verified for the org that `db` is in: an expression. */
export const isVerified = (db: TenantDb, email: string): RawBuilder<boolean> => {
  const domain = domainOf(email);
  if (isPublicMail(domain)) return sql.lit(false);
  const verified = db.selectFrom("org_domains").where("domain", "=", domain).where("verified_at", "is not", null);
  return sql`exists (${verified.select(sql`1`.as("one"))})`;
};

/** One page of an org's domains, newest first, and how many there are. 404 where the org isn't there. */
export const listDomains = (db: TenantDb, org: Id<"org">, page: Page) => {
  const behind = behindOrg(db, org);
  return behind.page(behind.selectFrom("org_domains").selectAll().where("org_id", "=", org), page);
};

const named = (db: TenantDb, org: Id<"org">, id: DomainId) =>
  db.selectFrom("org_domains").where("id", "=", id).where("org_id", "=", org);

export const getDomain = (db: TenantDb, org: Id<"org">, id: DomainId): Promise<DomainRow> =>
  named(db, org, id)
    .selectAll()
    .executeTakeFirstOrThrow(() => notFound("org_domain"));

/** Makes one: pending, unless a developer has said that it is verified. 422 on one that the org has, 409 on another's. */
export function createDomain(
  db: TenantDb,
  org: Id<"org">,
  id: DomainId,
  { domain, verified }: CreateDomain,
): Promise<DomainRow> {
  const insert = db.insertUnder(db.selectFrom("orgs").where("orgs.id", "=", org), "org_domains", {
    ...{ id, domain, challenge: base62(crypto.getRandomValues(new Uint8Array(20)), CHALLENGE_LENGTH) },
    ...(verified && { verified_by: "developer", verified_at: sql<string>`now()` }),
  } as never);
  return db.telling(insert, telling("created")).executeTakeFirstOrThrow(() => notFound("org"));
}

/**
 * Looks for the domain's TXT record, and verifies it by that: a look at the row, a question to the DNS, and a change. 422
 * `not_found_in_dns` where the record isn't there, 503 where nobody can tell, 409 where another org has the domain.
 */
export async function verifyDomain(db: TenantDb, org: Id<"org">, id: DomainId, egress: Egress): Promise<DomainRow> {
  const row = await getDomain(db, org, id);
  const record = recordOf(row);
  if (record === null || row.verified_at !== null) return row;
  const texts = await readTxt(record.name, egress);
  if (texts === null) throw unavailable(`DNS does not answer for ${record.name}`);
  if (!texts.includes(record.value)) {
    throw unprocessable(
      "not_found_in_dns",
      `There is no TXT record ${record.name} with the value that was given, or it isn't known everywhere yet.`,
    );
  }
  const change = db
    .patch("org_domains", {
      verified_by: sql`coalesce(verified_by, 'dns')`,
      verified_at: sql<string>`coalesce(verified_at, now())`,
    })
    .where("id", "=", id);
  return db.telling(change, telling("verified")).executeTakeFirstOrThrow(() => notFound("org_domain"));
}

/** Lets go of one. 409 for the one that the org's own record names: that is changed there. */
export async function deleteDomain(db: TenantDb, org: Id<"org">, id: DomainId): Promise<void> {
  const primary = idAs("org_domain", org);
  const { deleted, found } = await db.batch({
    deleted: db.telling(
      db.deleteFrom("org_domains").where("id", "=", id).where("org_id", "=", org).where("id", "!=", primary),
      telling("deleted"),
    ),
    found: named(db, org, id).select("id"),
  });
  if (deleted.length) return;
  if (!found.length) throw notFound("org_domain");
  throw refused("primary_domain", "This is the domain of the org's own record. Change it there.");
}
