import { allow, type Viewer } from "../../lib/auth/allow.ts";
import { forbidden, notFound } from "../../lib/errors.ts";
import { gives } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { valid } from "../../lib/http/valid.ts";
import { type Id, parseId } from "../../lib/ids.ts";
import { listOrgsOf } from "../../lib/orgs/queries.ts";
import { orgList, toOrg } from "../../lib/orgs/schema.ts";
import { getCurrentUser, getUser, updateProfile } from "../../lib/users/queries.ts";
import { currentUser, profileBody, toCurrentUser, toUser, user } from "../../lib/users/schema.ts";

const users = router();

users.get("/api/v1/users/me", allow("self"), gives(200, currentUser), async (c) => {
  return c.var.answer(toCurrentUser(await getCurrentUser(c.var.db, personOf(c.var.viewer))));
});

users.get("/api/v1/users/:user", allow("users:read"), gives(200, user), async (c) => {
  return c.var.answer(toUser(await getUser(c.var.db, parseId("user", c.req.param("user")))));
});

users.get("/api/v1/users/:user/orgs", allow("orgs:read"), gives(200, orgList), async (c) => {
  const rows = await listOrgsOf(c.var.db, namedUser(c.var.viewer, c.req.param("user")));
  return c.var.answer({ data: rows.map(toOrg) });
});

users.put("/api/v1/users/:user/profile", allow("session"), valid("json", profileBody), gives(200, user), async (c) => {
  const row = await updateProfile(c.var.db, ownUser(c.var.viewer, c.req.param("user")), c.req.valid("json"));
  return c.var.answer(toUser(row));
});

/** The person who asks. A key is a developer's and acts for nobody. */
function personOf(viewer: Viewer): Id<"user"> {
  if (viewer.kind === "token") return viewer.user;
  throw forbidden(
    "no_user",
    "A secret key acts for no user. Ask with a user's access token, or name a user in the address.",
  );
}

/** The user that an address names: an id, or `me` for the person who asks. */
export const namedUser = (viewer: Viewer, name: string): Id<"user"> =>
  name === "me" ? personOf(viewer) : parseId("user", name);

/** As `namedUser`, where a person may only name itself: anybody else is absent. A developer names any user. */
export function ownUser(viewer: Viewer, name: string): Id<"user"> {
  const user = namedUser(viewer, name);
  if (viewer.kind === "token" && user !== viewer.user) throw notFound("user");
  return user;
}

export default users;
