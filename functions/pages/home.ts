/** Where somebody stands who has signed in, or out: the login page of the org, which is the address of both. */
import type { Context } from "hono";
import { giveSession } from "../../lib/auth/sessions.ts";
import { loginPath } from "../../lib/auth/visitors.ts";
import type { None } from "../../lib/db/schema.ts";
import type { Env } from "../../lib/http/router.ts";
import type { Id } from "../../lib/ids.ts";
import type { SignedIn } from "../../lib/sign-ins/queries.ts";

export type Page = Context<Env>;
export type Here = { app: Id<"app">; sandbox: Id<"sandbox"> | None; slug: string };

export const pathOf = (here: Here) => loginPath(here, here.slug);

export const homeOf = (user: Pick<SignedIn["user"], "app_id" | "sandbox_id" | "org_slug">) =>
  pathOf({ app: user.app_id, sandbox: user.sandbox_id, slug: user.org_slug ?? "" });

/** Gives the browser the sign-in, and leads on. */
export async function letIn(c: Page, { sign_in, user }: SignedIn, return_to?: string): Promise<Response> {
  const { app_id: app, sandbox_id: sandbox } = sign_in;
  const session = { app, sandbox, org: sign_in.org_id as Id<"org">, user: user.id, sign_in: sign_in.id };
  await giveSession(c, c.env.ROOT_SECRETS, session, sign_in.ends_at);
  return c.redirect(return_to ?? homeOf(user), 303);
}
