import { allow } from "../../lib/auth/allow.ts";
import { gives } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { valid } from "../../lib/http/valid.ts";
import { listOrgs } from "../../lib/orgs/queries.ts";
import { orgSummaryPage, searchOrgsQuery, toOrgSummary } from "../../lib/orgs/schema.ts";
import { paginate } from "../../lib/paging.ts";

const orgs = router();

/** A developer's orgs; of an org's user, its own org. */
orgs.get("/api/v1/orgs", allow("orgs:read"), valid("query", searchOrgsQuery), gives(200, orgSummaryPage), async (c) => {
  const query = c.req.valid("query");
  return c.var.answer(paginate(query, await listOrgs(c.var.db, query), toOrgSummary));
});

export default orgs;
