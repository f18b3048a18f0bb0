import { allow } from "../../lib/auth/allow.ts";
import { gives, givesNothing } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";
import { deleteSso, getSso, listAttempts, putSso } from "../../lib/sso/queries.ts";
import { addressesOf, attemptList, putSsoBody, sso, ssoTest, toAttempt, toSso } from "../../lib/sso/schema.ts";

const connections = router();

/** Where a login can be tried, in whatever state the connection is. */
connections.post(
  "/protected/api/v2/developer/apps/:app_id/orgs/:id/sso/test",
  named("Try an org's SSO"),
  allow("developer:write"),
  gives(200, ssoTest),
  async (c) => {
    const row = await getSso(c.var.db, parseId("org", c.req.param("id")));
    return c.var.answer({ url: addressesOf(c.env, row).start_url });
  },
);

connections.get(
  "/protected/api/v2/developer/apps/:app_id/orgs/:id/sso/attempts",
  named("List the last tries to sign in by an org's SSO"),
  allow("developer:read"),
  gives(200, attemptList),
  async (c) => {
    const attempts = await listAttempts(c.var.db, parseId("org", c.req.param("id")));
    return c.var.answer({ data: attempts.map(toAttempt) });
  },
);

connections.get(
  "/protected/api/v2/developer/apps/:app_id/orgs/:id/sso",
  named("Get an org's SSO"),
  allow("developer:read"),
  gives(200, sso),
  async (c) => c.var.answer(await toSso(c.env, await getSso(c.var.db, parseId("org", c.req.param("id"))))),
);

connections.put(
  "/protected/api/v2/developer/apps/:app_id/orgs/:id/sso",
  named("Set an org's SSO"),
  allow("developer:write"),
  valid("json", putSsoBody),
  gives(200, sso, 409),
  async (c) => {
    const org = parseId("org", c.req.param("id"));
    return c.var.answer(await toSso(c.env, await putSso(c.var.db, c.env.ROOT_SECRETS, org, c.req.valid("json"))));
  },
);

connections.delete(
  "/protected/api/v2/developer/apps/:app_id/orgs/:id/sso",
  named("Take an org's SSO away"),
  allow("developer:write"),
  givesNothing(409),
  async (c) => {
    await deleteSso(c.var.db, parseId("org", c.req.param("id")));
    return c.var.answer();
  },
);

export default connections;
