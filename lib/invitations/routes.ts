/** The addresses of an org's invitations: a developer's and those of the org's own admins are the same. */
import type { Context } from "hono";
import { type Allowed, allow } from "../auth/allow.ts";
import type { Permission } from "../auth/permissions.ts";
import { listOf } from "../env.ts";
import { gives, givesNothing } from "../http/gives.ts";
import { once } from "../http/once.ts";
import { router } from "../http/router.ts";
import { named } from "../http/spec.ts";
import { valid } from "../http/valid.ts";
import { parseId } from "../ids.ts";
import { mustSendMail, sendMail } from "../mail/send.ts";
import { behindOrg } from "../orgs/queries.ts";
import { paginate } from "../paging.ts";
import {
  createInvitation,
  getInvitation,
  listInvitations,
  resendInvitation,
  revokeInvitation,
  type Sent,
} from "./queries.ts";
import { createInvitationBody, invitation, invitationPage, listInvitationsQuery, toInvitation } from "./schema.ts";

type Named = { req: { param: () => Record<string, string> } };

/** Those below `at`, the address of an org. */
export function invitationRoutes<P extends string>(at: P, [read, write]: readonly [Permission, Permission]) {
  const invitations = router();
  const orgOf = (c: Named) => parseId("org", c.req.param().org!);
  const idOf = (c: Named) => parseId("invitation", c.req.param().invitation!);
  /** The mail goes after the answer. */
  const send = (c: Pick<Context<Allowed>, "env" | "executionCtx" | "var">, { mail }: Sent) => {
    if (mail) c.executionCtx.waitUntil(sendMail(c.env, c.var.db.tenant, mail(listOf(c.env.ISSUERS)[0]!)));
  };

  invitations.get(
    `${at}/invitations`,
    named("List the open invitations of an org"),
    allow(read),
    valid("query", listInvitationsQuery),
    gives(200, invitationPage),
    async (c) => {
      const page = c.req.valid("query");
      return c.var.answer(paginate(page, await listInvitations(c.var.db, orgOf(c), page), toInvitation));
    },
  );

  invitations.post(
    `${at}/invitations`,
    named("Invite an address into an org"),
    allow(write),
    valid("json", createInvitationBody),
    once("invitation"),
    gives(201, invitation, 409, 503),
    async (c) => {
      const org = orgOf(c);
      mustSendMail(c.env, c.var.db.tenant.sandbox);
      const sent = await c.var.once(
        (db, id) => createInvitation(db, org, id, c.req.valid("json")),
        (db, id) => getInvitation(db, org, id),
      );
      send(c, sent);
      return c.var.answer(toInvitation(sent.row));
    },
  );

  /** Sent again within a minute, it is a 429. */
  invitations.post(
    `${at}/invitations/:invitation/resend`,
    named("Mail an invitation again"),
    allow(write),
    gives(200, invitation, 429, 503),
    async (c) => {
      const [org, id] = [orgOf(c), idOf(c)];
      mustSendMail(c.env, c.var.db.tenant.sandbox);
      const sent = await resendInvitation(behindOrg(c.var.db, org), org, id);
      send(c, sent);
      return c.var.answer(toInvitation(sent.row));
    },
  );

  invitations.delete(
    `${at}/invitations/:invitation`,
    named("Take an invitation back"),
    allow(write),
    givesNothing(),
    async (c) => {
      await revokeInvitation(behindOrg(c.var.db, orgOf(c)), orgOf(c), idOf(c));
      return c.var.answer();
    },
  );

  return invitations;
}
