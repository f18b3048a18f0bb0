import { allow } from "../../lib/auth/allow.ts";
import type { TenantDb } from "../../lib/db/tenant-db.ts";
import { forbidden, notFound } from "../../lib/errors.ts";
import { gives } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { type Id, parseId } from "../../lib/ids.ts";
import { listOrgsOf } from "../../lib/orgs/queries.ts";
import { orgList, toOrg } from "../../lib/orgs/schema.ts";
import { getUser, updateProfile } from "../../lib/users/queries.ts";
import { currentUser, profileBody, toCurrentUser, toUser, user } from "../../lib/users/schema.ts";

const users = router();

users.get("/api/v1/users/me", named("Get the current user"), allow("self"), gives(200, currentUser), async (c) => {
  return c.var.answer(toCurrentUser(await getUser(c.var.db, await personOf(c.var.db))));
});

users.get("/api/v1/users/:user", allow("users:read"), gives(200, user), async (c) => {
  return c.var.answer(toUser(await getUser(c.var.db, parseId("user", c.req.param("user")))));
});

users.get("/api/v1/users/:user/orgs", allow("orgs:read"), gives(200, orgList), async (c) => {
  const rows = await listOrgsOf(c.var.db, await namedUser(c.var.db, c.req.param("user")));
  return c.var.answer({ data: rows.map(toOrg) });
});

users.put(
  "/api/v1/users/:user/profile",
  named("Update a user's profile"),
  allow("session"),
  valid("json", profileBody),
  gives(200, user),
  async (c) => {
    const row = await updateProfile(c.var.db, await ownUser(c.var.db, c.req.param("user")), c.req.valid("json"));
    return c.var.answer(toUser(row));
  },
);

/** The person who asks. A key is a developer's and acts for nobody. */
export async function personOf(db: TenantDb): Promise<Id<"user">> {
  if (db.viewer.kind === "user") return db.viewer.user;
  await db.enter();
  throw forbidden(
    "no_user",
    "A secret key acts for no user. Ask with a user's access token, or name a user in the address.",
  );
}

/** The user that an address names: an id, or `me` for the person who asks. */
export const namedUser = async (db: TenantDb, name: string): Promise<Id<"user">> =>
  name === "me" ? personOf(db) : parseId("user", name);

/** As `namedUser`, where a person may only name itself: anybody else is absent. A developer names any user. */
export async function ownUser(db: TenantDb, name: string): Promise<Id<"user">> {
  const user = await namedUser(db, name);
  if (db.viewer.kind === "key" || (db.viewer.kind === "user" && user === db.viewer.user)) return user;
  throw notFound("user");
}

export default users;
