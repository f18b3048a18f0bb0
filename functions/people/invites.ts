import { allow } from "../../lib/auth/allow.ts";
import { gives } from "../../lib/http/gives.ts";
import { once } from "../../lib/http/once.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { acceptInvitation, mustUseProvider } from "../../lib/invitations/queries.ts";
import { acceptBody } from "../../lib/invitations/schema.ts";
import { issue } from "../../lib/tokens/issue.ts";
import { authTokens, toAuthTokens } from "../../lib/tokens/schema.ts";
import { acceptInvite, createInvite, getInvite } from "../../lib/user-invites/queries.ts";
import { acceptInviteBody, createInviteBody, toUserInvite, userInvite } from "../../lib/user-invites/schema.ts";
import { ownUser, personOf } from "./users.ts";

const invites = router();

invites.post(
  "/api/v1/users/:user/invites",
  named("Invite others of the org"),
  allow("session"),
  valid("json", createInviteBody),
  once("user_invite"),
  gives(201, userInvite),
  async (c) => {
    const user = await ownUser(c.var.db, c.req.param("user"));
    const { row, key } = await c.var.once(
      (db, id) => createInvite(db, user, id, c.req.valid("json").invite),
      getInvite,
    );
    return c.var.answer(toUserInvite(row, key));
  },
);

/** Once: again, it is a 409. */
invites.post(
  "/api/v1/invites/accept",
  named("Accept the invite of a user"),
  allow("session"),
  valid("json", acceptInviteBody),
  gives(200, userInvite, 404, 409),
  async (c) => {
    const person = await personOf(c.var.db);
    return c.var.answer(toUserInvite(await acceptInvite(c.var.db, person, c.req.valid("json").key)));
  },
);

/** The key that was mailed is the credential, and used up by this: it makes a user of the org, and signs in. */
invites.post(
  "/api/v1/invitations/accept",
  named("Accept an invitation into an org"),
  valid("json", acceptBody),
  gives(200, authTokens, 403, 404, 409),
  async (c) => {
    const user_agent = c.req.header("User-Agent")?.slice(0, 500);
    const entered = await acceptInvitation(c, c.req.valid("json").key, { carrier: "api", user_agent });
    if (!entered) throw mustUseProvider();
    const { token, user } = entered;
    return c.var.answer({ ...toAuthTokens(await issue(c.env, token!, 0), user), account_created: true });
  },
);

export default invites;
