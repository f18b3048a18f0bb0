/** The addresses of an org's domains: a developer's and those of the org's own admins are the same. */
import { allow } from "../auth/allow.ts";
import type { Permission } from "../auth/permissions.ts";
import { egressOf } from "../http/egress.ts";
import { gives, givesNothing } from "../http/gives.ts";
import { once } from "../http/once.ts";
import { router } from "../http/router.ts";
import { named } from "../http/spec.ts";
import { valid } from "../http/valid.ts";
import { parseId } from "../ids.ts";
import { behindOrg } from "../orgs/queries.ts";
import { paginate } from "../paging.ts";
import { createDomain, deleteDomain, getDomain, listDomains, verifyDomain } from "./queries.ts";
import { createDomainBody, createOwnDomainBody, domainPage, domainView, listDomainsQuery, toDomain } from "./schema.ts";

/** Those below `at`, the address of an org. A developer may say that a domain is verified; an org has to prove it. */
export function domainRoutes<P extends string>(at: P, [read, write]: readonly [Permission, Permission]) {
  const domains = router();
  const orgOf = (c: { req: { param: () => Record<string, string> } }) => parseId("org", c.req.param().org!);
  const idOf = (c: { req: { param: () => Record<string, string> } }) => parseId("org_domain", c.req.param().domain!);
  const body = write.startsWith("developer:") ? createOwnDomainBody : createDomainBody;

  domains.get(
    `${at}/domains`,
    named("List the domains of an org"),
    allow(read),
    valid("query", listDomainsQuery),
    gives(200, domainPage),
    async (c) => {
      const page = c.req.valid("query");
      return c.var.answer(paginate(page, await listDomains(c.var.db, orgOf(c), page), toDomain));
    },
  );

  domains.post(
    `${at}/domains`,
    named("Add a domain to an org"),
    allow(write),
    valid("json", body),
    once("org_domain"),
    gives(201, domainView, 409),
    async (c) => {
      const row = await c.var.once(
        (db, id) => createDomain(db, orgOf(c), id, { verified: false, ...c.req.valid("json") }),
        (db, id) => getDomain(db, orgOf(c), id),
      );
      return c.var.answer(toDomain(row));
    },
  );

  domains.get(
    `${at}/domains/:domain`,
    named("Get a domain of an org"),
    allow(read),
    gives(200, domainView),
    async (c) => {
      return c.var.answer(toDomain(await getDomain(behindOrg(c.var.db, orgOf(c)), orgOf(c), idOf(c))));
    },
  );

  domains.delete(
    `${at}/domains/:domain`,
    named("Let go of a domain of an org"),
    allow(write),
    givesNothing(409),
    async (c) => {
      await deleteDomain(behindOrg(c.var.db, orgOf(c)), orgOf(c), idOf(c));
      return c.var.answer();
    },
  );

  domains.post(
    `${at}/domains/:domain/verify`,
    named("Verify a domain"),
    allow(write),
    gives(200, domainView, 409, 422, 503),
    async (c) => {
      return c.var.answer(
        toDomain(await verifyDomain(behindOrg(c.var.db, orgOf(c)), orgOf(c), idOf(c), egressOf(c.env))),
      );
    },
  );

  return domains;
}
