import { allow } from "../../lib/auth/allow.ts";
import { gives, givesNothing } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";
import { openListCursor, paginateList } from "../../lib/paging.ts";
import { endSignIn, endSignIns, listSignIns } from "../../lib/sign-ins/queries.ts";
import { endSignInsQuery, listSignInsQuery, signInList, toSignIn } from "../../lib/sign-ins/schema.ts";

const signIns = router();

/** Where an org's user is signed in. */
signIns.get(
  "/protected/api/v2/developer/apps/:app_id/users/:user_id/sessions",
  named("List a user's sign-ins"),
  allow("developer:read"),
  valid("query", listSignInsQuery),
  gives(200, signInList),
  async (c) => {
    const { db, credential } = c.var;
    const user = parseId("user", c.req.param("user_id"));
    const page = await openListCursor(c.env.ROOT_SECRETS, `sessions ${user}`, db.tenant, c.req.valid("query"));
    return c.var.answer(await paginateList(page, await listSignIns(db, credential, user, page), toSignIn));
  },
);

signIns.delete(
  "/protected/api/v2/developer/apps/:app_id/users/:user_id/sessions",
  named("End a user's sign-ins"),
  allow("developer:write"),
  valid("query", endSignInsQuery),
  givesNothing(),
  async (c) => {
    const { db, credential } = c.var;
    await endSignIns(db, credential, parseId("user", c.req.param("user_id")), c.req.valid("query").keep);
    return c.var.answer();
  },
);

signIns.delete(
  "/protected/api/v2/developer/apps/:app_id/users/:user_id/sessions/:session_id",
  named("End a sign-in"),
  allow("developer:write"),
  givesNothing(),
  async (c) => {
    const { db } = c.var;
    await endSignIn(db, parseId("user", c.req.param("user_id")), parseId("sign_in", c.req.param("session_id")));
    return c.var.answer();
  },
);

export default signIns;
