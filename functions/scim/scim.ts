import { givesNothing } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";
import { readGroup, readGroupPatch, readUser, readUserPatch } from "../../lib/scim/changes.ts";
import { readFilter } from "../../lib/scim/filter.ts";
import { allowScim, givesScim, scimBody } from "../../lib/scim/http.ts";
import {
  createGroup,
  createUser,
  deleteGroup,
  deleteUser,
  getGroup,
  getUser,
  listGroups,
  listUsers,
  updateGroup,
  updateUser,
} from "../../lib/scim/queries.ts";
import {
  discovered,
  listOf,
  listQuery,
  oneQuery,
  only,
  resourceTypes,
  schemas,
  scimGroup,
  scimUser,
  serviceProviderConfig,
  toList,
  toScimGroup,
  toScimUser,
  wantsMembers,
} from "../../lib/scim/schema.ts";

const scim = router();

/** What a provider may expect here (RFC 7644 §4). */
scim.get(
  "/scim/v2/ServiceProviderConfig",
  named("Tell what SCIM is supported"),
  allowScim(),
  givesScim(200, discovered),
  async (c) => {
    await c.var.db.enter();
    return c.var.answer(serviceProviderConfig);
  },
);
scim.get(
  "/scim/v2/ResourceTypes",
  named("List SCIM's resource types"),
  allowScim(),
  givesScim(200, listOf(discovered)),
  async (c) => {
    await c.var.db.enter();
    return c.var.answer(toList(1, resourceTypes.length, resourceTypes));
  },
);
scim.get(
  "/scim/v2/Schemas",
  named("List SCIM's schemas"),
  allowScim(),
  givesScim(200, listOf(discovered)),
  async (c) => {
    await c.var.db.enter();
    return c.var.answer(toList(1, schemas.length, schemas));
  },
);

scim.get(
  "/scim/v2/Users",
  named("List users by SCIM"),
  allowScim(),
  valid("query", listQuery),
  givesScim(200, listOf(scimUser)),
  async (c) => {
    const query = c.req.valid("query");
    const { rows, total } = await listUsers(c.var.db, readFilter(query.filter), query);
    const users = rows.map((row) => only(toScimUser(c.var.base, row), query));
    return c.var.answer(toList(query.startIndex, total, users));
  },
);

/** Sent again, it is a 409: the provider has a name of its own for each. */
scim.post(
  "/scim/v2/Users",
  named("Create a user by SCIM"),
  allowScim(),
  scimBody(readUser),
  givesScim(201, scimUser),
  async (c) => {
    const row = await createUser(c.var.db, c.env.ROOT_SECRETS, c.var.body);
    return c.var.answer(toScimUser(c.var.base, row));
  },
);

scim.get(
  "/scim/v2/Users/:user",
  named("Get a user by SCIM"),
  allowScim(),
  valid("query", oneQuery),
  givesScim(200, scimUser),
  async (c) => {
    const row = await getUser(c.var.db, parseId("user", c.req.param("user")));
    return c.var.answer(only(toScimUser(c.var.base, row), c.req.valid("query")));
  },
);

scim.put(
  "/scim/v2/Users/:user",
  named("Set a user by SCIM"),
  allowScim(),
  scimBody(readUser),
  givesScim(200, scimUser),
  async (c) => {
    const row = await updateUser(c.var.db, parseId("user", c.req.param("user")), c.var.body);
    return c.var.answer(toScimUser(c.var.base, row));
  },
);

scim.patch(
  "/scim/v2/Users/:user",
  named("Update a user by SCIM"),
  allowScim(),
  scimBody(readUserPatch),
  givesScim(200, scimUser),
  async (c) => {
    const row = await updateUser(c.var.db, parseId("user", c.req.param("user")), c.var.body);
    return c.var.answer(toScimUser(c.var.base, row));
  },
);

scim.delete("/scim/v2/Users/:user", named("Delete a user by SCIM"), allowScim(), givesNothing(), async (c) => {
  await deleteUser(c.var.db, parseId("user", c.req.param("user")));
  return c.var.answer();
});

scim.get(
  "/scim/v2/Groups",
  named("List groups by SCIM"),
  allowScim(),
  valid("query", listQuery),
  givesScim(200, listOf(scimGroup)),
  async (c) => {
    const query = c.req.valid("query");
    const { rows, total } = await listGroups(c.var.db, readFilter(query.filter), query, wantsMembers(query));
    const groups = rows.map((row) => only(toScimGroup(c.var.base, row), query));
    return c.var.answer(toList(query.startIndex, total, groups));
  },
);

scim.post(
  "/scim/v2/Groups",
  named("Create a group by SCIM"),
  allowScim(),
  scimBody(readGroup),
  givesScim(201, scimGroup),
  async (c) => {
    const row = await createGroup(c.var.db, c.var.body);
    return c.var.answer(toScimGroup(c.var.base, row));
  },
);

scim.get(
  "/scim/v2/Groups/:group",
  named("Get a group by SCIM"),
  allowScim(),
  valid("query", oneQuery),
  givesScim(200, scimGroup),
  async (c) => {
    const query = c.req.valid("query");
    const row = await getGroup(c.var.db, parseId("scim_group", c.req.param("group")), wantsMembers(query));
    return c.var.answer(only(toScimGroup(c.var.base, row), query));
  },
);

scim.put(
  "/scim/v2/Groups/:group",
  named("Set a group by SCIM"),
  allowScim(),
  scimBody(readGroup),
  givesScim(200, scimGroup),
  async (c) => {
    const row = await updateGroup(c.var.db, parseId("scim_group", c.req.param("group")), c.var.body);
    return c.var.answer(toScimGroup(c.var.base, row));
  },
);

/** Without the members, who may be thousands and come one by one: 204, as both providers understand. */
scim.patch(
  "/scim/v2/Groups/:group",
  named("Update a group by SCIM"),
  allowScim(),
  scimBody(readGroupPatch),
  givesNothing(),
  async (c) => {
    await updateGroup(c.var.db, parseId("scim_group", c.req.param("group")), c.var.body);
    return c.var.answer();
  },
);

scim.delete("/scim/v2/Groups/:group", named("Delete a group by SCIM"), allowScim(), givesNothing(), async (c) => {
  await deleteGroup(c.var.db, parseId("scim_group", c.req.param("group")));
  return c.var.answer();
});

export default scim;
