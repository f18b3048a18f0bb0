import { allow } from "../../lib/auth/allow.ts";
import { namingUses } from "../../lib/configs/uses.ts";
import { gives, givesNothing } from "../../lib/http/gives.ts";
import { once } from "../../lib/http/once.ts";
import { router } from "../../lib/http/router.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";
import { paginate } from "../../lib/paging.ts";
import { createUser, deleteUser, getUser, listUsers, updateUser } from "../../lib/users/queries.ts";
import { createUserBody, listUsersQuery, toUser, updateUserBody, user, userPage } from "../../lib/users/schema.ts";

const users = router();

users.get(
  "/protected/api/v2/developer/apps/:app_id/users",
  allow("developer:read"),
  valid("query", listUsersQuery),
  gives(200, userPage),
  async (c) => {
    const query = c.req.valid("query");
    return c.var.answer(paginate(query, await listUsers(c.var.db, query), toUser));
  },
);

users.post(
  "/protected/api/v2/developer/apps/:app_id/users",
  allow("developer:write"),
  valid("json", createUserBody),
  once("user"),
  gives(201, user, 409),
  async (c) => {
    const body = c.req.valid("json");
    const row = await c.var.once((db, id) => createUser(db, id, body), getUser);
    return c.var.answer(toUser(row));
  },
);

users.get(
  "/protected/api/v2/developer/apps/:app_id/users/:user",
  allow("developer:read"),
  gives(200, user),
  async (c) => {
    return c.var.answer(toUser(await getUser(c.var.db, parseId("user", c.req.param("user")))));
  },
);

users.patch(
  "/protected/api/v2/developer/apps/:app_id/users/:user",
  allow("developer:write"),
  valid("json", updateUserBody),
  gives(200, user, 409),
  async (c) => {
    const row = await updateUser(c.var.db, parseId("user", c.req.param("user")), c.req.valid("json"));
    return c.var.answer(toUser(row));
  },
);

users.delete(
  "/protected/api/v2/developer/apps/:app_id/users/:user",
  allow("developer:write"),
  givesNothing(409),
  async (c) => {
    const { db } = c.var;
    const id = parseId("user", c.req.param("user"));
    await namingUses(db, db.selectFrom("agents").where("agents.user_id", "=", id), id, () => deleteUser(db, id));
    return c.var.answer();
  },
);

export default users;
