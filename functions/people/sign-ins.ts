import { allow } from "../../lib/auth/allow.ts";
import { gives, givesNothing } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";
import { openListCursor, paginateList } from "../../lib/paging.ts";
import { endSignIn, endSignIns, listSignIns } from "../../lib/sign-ins/queries.ts";
import { endSignInsQuery, listSignInsQuery, signInList, toSignIn } from "../../lib/sign-ins/schema.ts";
import { ownUser } from "./users.ts";

const signIns = router();

/** Where a person is signed in: programs and browsers, `current` the one that asks. */
signIns.get(
  "/api/v1/users/:user/sessions",
  named("List a user's sign-ins"),
  allow("session"),
  valid("query", listSignInsQuery),
  gives(200, signInList),
  async (c) => {
    const { db, credential } = c.var;
    const user = await ownUser(db, c.req.param("user"));
    const page = await openListCursor(c.env.ROOT_SECRETS, `sessions ${user}`, db.tenant, c.req.valid("query"));
    return c.var.answer(await paginateList(page, await listSignIns(db, credential, user, page), toSignIn));
  },
);

signIns.delete(
  "/api/v1/users/:user/sessions",
  named("End a user's sign-ins"),
  allow("session"),
  valid("query", endSignInsQuery),
  givesNothing(),
  async (c) => {
    const { db, credential } = c.var;
    await endSignIns(db, credential, await ownUser(db, c.req.param("user")), c.req.valid("query").keep);
    return c.var.answer();
  },
);

signIns.delete(
  "/api/v1/users/:user/sessions/:session",
  named("End a sign-in"),
  allow("session"),
  givesNothing(),
  async (c) => {
    const { db } = c.var;
    await endSignIn(db, await ownUser(db, c.req.param("user")), parseId("sign_in", c.req.param("session")));
    return c.var.answer();
  },
);

export default signIns;
