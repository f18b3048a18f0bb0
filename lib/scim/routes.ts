/** The addresses of what an org's admins set of SCIM: a developer's and those of the org's own admins are the same. */
import { allow } from "../auth/allow.ts";
import type { Permission } from "../auth/permissions.ts";
import { gives, givesNothing } from "../http/gives.ts";
import { once } from "../http/once.ts";
import { router } from "../http/router.ts";
import { valid } from "../http/valid.ts";
import { parseId } from "../ids.ts";
import { behindOrg } from "../orgs/queries.ts";
import { paginate } from "../paging.ts";
import {
  createToken,
  deleteToken,
  getToken,
  group,
  groupPage,
  listGroups,
  listQuery,
  listTokens,
  scimToken,
  scimTokenList,
  toGroup,
  toScimToken,
  updateGroup,
  updateGroupBody,
} from "./settings.ts";

type Named = { req: { param: () => Record<string, string> } };

/** Those below `at`, the address of an org. */
export function scimSettingsRoutes<P extends string>(at: P, [read, write]: readonly [Permission, Permission]) {
  const settings = router();
  const orgOf = (c: Named) => parseId("org", c.req.param().org!);

  settings.get(`${at}/scim_tokens`, allow(read), gives(200, scimTokenList), async (c) => {
    const rows = await listTokens(c.var.db, orgOf(c));
    return c.var.answer({ data: rows.map((row) => toScimToken(row)) });
  });

  settings.post(`${at}/scim_tokens`, allow(write), once("scim_token"), gives(201, scimToken, 422), async (c) => {
    const { row, token } = await c.var.once(
      (db, id) => createToken(db, orgOf(c), id),
      (db, id) => getToken(db, orgOf(c), id),
    );
    return c.var.answer(toScimToken(row, token));
  });

  settings.delete(`${at}/scim_tokens/:scim_token`, allow(write), givesNothing(), async (c) => {
    await deleteToken(
      behindOrg(c.var.db, orgOf(c)),
      orgOf(c),
      parseId("scim_token", (c as Named).req.param().scim_token!),
    );
    return c.var.answer();
  });

  settings.get(`${at}/scim_groups`, allow(read), valid("query", listQuery), gives(200, groupPage), async (c) => {
    const page = c.req.valid("query");
    return c.var.answer(paginate(page, await listGroups(c.var.db, orgOf(c), page), toGroup));
  });

  settings.patch(
    `${at}/scim_groups/:scim_group`,
    allow(write),
    valid("json", updateGroupBody),
    gives(200, group),
    async (c) => {
      const [org, id] = [orgOf(c), parseId("scim_group", (c as Named).req.param().scim_group!)];
      return c.var.answer(toGroup(await updateGroup(behindOrg(c.var.db, org), org, id, c.req.valid("json"))));
    },
  );

  return settings;
}
