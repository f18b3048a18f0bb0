/** The addresses of an org's SSO: a developer's and those of the org's own owners are the same. */
import { allow } from "../auth/allow.ts";
import type { Permission } from "../auth/permissions.ts";
import { gives, givesNothing } from "../http/gives.ts";
import { router } from "../http/router.ts";
import { named } from "../http/spec.ts";
import { valid } from "../http/valid.ts";
import { parseId } from "../ids.ts";
import { mailOwners } from "./mails.ts";
import { deleteSso, getSso, listAttempts, putSso } from "./queries.ts";
import { addressesOf, attemptList, putSsoBody, sso, ssoTest, toAttempt, toSso } from "./schema.ts";

/** Those below `at`, the address of an org, which ends with the parameter that names it. */
export function ssoRoutes<P extends string>(at: P, [read, write]: readonly [Permission, Permission]) {
  const connections = router();
  const name = at.slice(at.lastIndexOf(":") + 1);
  const orgOf = (c: { req: { param: () => Record<string, string> } }) => parseId("org", c.req.param()[name]!);

  /** Where a login can be tried, in whatever state the connection is. */
  connections.post(`${at}/sso/test`, named("Try an org's SSO"), allow(write), gives(200, ssoTest), async (c) =>
    c.var.answer({ url: addressesOf(c.env, await getSso(c.var.db, orgOf(c))).start_url }),
  );

  connections.get(
    `${at}/sso/attempts`,
    named("List the last tries to sign in by an org's SSO"),
    allow(read),
    gives(200, attemptList),
    async (c) => c.var.answer({ data: (await listAttempts(c.var.db, orgOf(c))).map(toAttempt) }),
  );

  connections.get(`${at}/sso`, named("Get an org's SSO"), allow(read), gives(200, sso), async (c) =>
    c.var.answer(await toSso(c.env, await getSso(c.var.db, orgOf(c)))),
  );

  connections.put(
    `${at}/sso`,
    named("Set an org's SSO"),
    allow(write),
    valid("json", putSsoBody),
    gives(200, sso, 409),
    async (c) => {
      const { row, mails } = await putSso(c.var.db, c.env, orgOf(c), c.req.valid("json"));
      if (mails.length) c.executionCtx.waitUntil(mailOwners(c.env, c.var.db.tenant, mails));
      return c.var.answer(await toSso(c.env, row));
    },
  );

  connections.delete(`${at}/sso`, named("Take an org's SSO away"), allow(write), givesNothing(409), async (c) => {
    await deleteSso(c.var.db, orgOf(c));
    return c.var.answer();
  });

  return connections;
}
