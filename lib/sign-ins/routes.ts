/** The addresses of a user's sign-ins: a developer's and those of the user are the same. */
import { allow } from "../auth/allow.ts";
import type { Permission } from "../auth/permissions.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { gives, givesNothing } from "../http/gives.ts";
import { router } from "../http/router.ts";
import { named } from "../http/spec.ts";
import { valid } from "../http/valid.ts";
import { type Id, parseId } from "../ids.ts";
import { openListCursor, paginateList } from "../paging.ts";
import { endSignIn, endSignIns, listSignIns } from "./queries.ts";
import { endSignInsQuery, listSignInsQuery, signInList, toSignIn } from "./schema.ts";

/**
 * Those below `at`, the address of a user's sign-ins, whose one is the parameter `one`. `userOf` says who the address names
 * for who asks.
 */
export function signInRoutes<P extends string, One extends string>(
  at: P,
  one: One,
  [read, write]: readonly [Permission, Permission],
  userOf: (db: TenantDb, params: Record<string, string>) => Id<"user"> | Promise<Id<"user">>,
) {
  const signIns = router();
  const paramsOf = (c: { req: { param: () => Record<string, string> } }) => c.req.param();

  /** Where somebody is signed in: programs and browsers, `current` the one that asks. */
  signIns.get(
    at,
    named("List a user's sign-ins"),
    allow(read),
    valid("query", listSignInsQuery),
    gives(200, signInList),
    async (c) => {
      const { db, credential } = c.var;
      const user = await userOf(db, paramsOf(c));
      const page = await openListCursor(c.env.ROOT_SECRETS, `sessions ${user}`, db.tenant, c.req.valid("query"));
      return c.var.answer(await paginateList(page, await listSignIns(db, credential, user, page), toSignIn));
    },
  );

  signIns.delete(
    at,
    named("End a user's sign-ins"),
    allow(write),
    valid("query", endSignInsQuery),
    givesNothing(),
    async (c) => {
      const { db, credential } = c.var;
      await endSignIns(db, credential, await userOf(db, paramsOf(c)), c.req.valid("query").keep);
      return c.var.answer();
    },
  );

  signIns.delete(`${at}/:${one}`, named("End a sign-in"), allow(write), givesNothing(), async (c) => {
    const { db } = c.var;
    const params = paramsOf(c);
    await endSignIn(db, await userOf(db, params), parseId("sign_in", params[one]!));
    return c.var.answer();
  });

  return signIns;
}
