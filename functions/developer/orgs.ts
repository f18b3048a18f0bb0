import { allow } from "../../lib/auth/allow.ts";
import { gives, givesNothing } from "../../lib/http/gives.ts";
import { once } from "../../lib/http/once.ts";
import { router } from "../../lib/http/router.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";
import { createOrg, deleteOrg, getOrg, listOrgs, updateOrg } from "../../lib/orgs/queries.ts";
import { createOrgBody, listOrgsQuery, org, orgPage, toOrg, updateOrgBody } from "../../lib/orgs/schema.ts";
import { paginate } from "../../lib/paging.ts";

const orgs = router();

orgs.get(
  "/protected/api/v2/developer/apps/:app_id/orgs",
  allow("developer:read"),
  valid("query", listOrgsQuery),
  gives(200, orgPage),
  async (c) => {
    const query = c.req.valid("query");
    return c.var.answer(paginate(query, await listOrgs(c.var.db, query), toOrg));
  },
);

orgs.post(
  "/protected/api/v2/developer/apps/:app_id/orgs",
  allow("developer:write"),
  valid("json", createOrgBody),
  once("org"),
  gives(201, org, 409),
  async (c) => {
    const body = c.req.valid("json");
    const row = await c.var.once((db, id) => createOrg(db, id, body), getOrg);
    return c.var.answer(toOrg(row));
  },
);

orgs.get("/protected/api/v2/developer/apps/:app_id/orgs/:org", allow("developer:read"), gives(200, org), async (c) => {
  return c.var.answer(toOrg(await getOrg(c.var.db, parseId("org", c.req.param("org")))));
});

orgs.patch(
  "/protected/api/v2/developer/apps/:app_id/orgs/:org",
  allow("developer:write"),
  valid("json", updateOrgBody),
  gives(200, org, 409),
  async (c) => {
    const row = await updateOrg(c.var.db, parseId("org", c.req.param("org")), c.req.valid("json"));
    return c.var.answer(toOrg(row));
  },
);

orgs.delete(
  "/protected/api/v2/developer/apps/:app_id/orgs/:org",
  allow("developer:write"),
  givesNothing(),
  async (c) => {
    await deleteOrg(c.var.db, parseId("org", c.req.param("org")));
    return c.var.answer();
  },
);

export default orgs;
