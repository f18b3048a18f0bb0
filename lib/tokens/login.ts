/** How a developer makes a login token, and how somebody signs in by one. */
import { sql } from "kysely";
import type { Asked } from "../auth/allow.ts";
import { sha256 } from "../auth/keys.ts";
import { readPlaceToken } from "../auth/place-tokens.ts";
import { openLogin, type Visitor } from "../auth/visitors.ts";
import { NONE } from "../db/schema.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { ApiError } from "../errors.ts";
import { emitting } from "../events/emit.ts";
import { type Id, newId } from "../ids.ts";
import { type SignedIn, signIn } from "../sign-ins/queries.ts";
import { LOGIN, type LoginToken, loginToken, namingOrg, signable } from "./login-token.ts";
import { refusalToMint } from "./queries.ts";
import type { LoginTokenBody } from "./schema.ts";

/** How long somebody else is signed in as a user at most. */
const IMPERSONATION_S = 3600;

/**
 * A token that an app's developer makes. To act as the user takes a reason, which the org's admins and the user read. Refuses
 * as minting does.
 */
export async function createLoginToken(
  db: TenantDb,
  user: Id<"user">,
  { impersonate, reason }: LoginTokenBody,
): Promise<LoginToken> {
  const actor = db.tenant.app;
  const said = { method: LOGIN.kind, auth_time: false };
  const { kept, read } = await loginToken(db, user, impersonate ? { ...said, actor, max_s: IMPERSONATION_S } : said);
  const readers = sql<string[]>`array['user:' || users.id]`;
  const answers = await db.batch({
    kept,
    ...(impersonate && {
      told: db.insertUnder(signable(db, user), "activity_feed_entries", {
        ...{ id: newId("activity_feed_entry"), kind: "user.impersonated", user_id: user, readers },
        title: `The app's developer acts as this user: ${reason}`,
        metadata: JSON.stringify({ actor, reason }),
      } as never),
      event: emitting(db, signable(db, user), {
        ...{ name: "user.impersonated", user_id: user, readers },
        payload: { user, actor, reason: reason! },
      }),
    }),
  });
  const made = read(answers.kept);
  if (!made) throw await refusalToMint(db, user);
  return made;
}

/** Signs in by a token of the visitor's own app. 401 for every flaw alike. */
export async function enterByLogin(c: Asked, visitor: Visitor, token: string): Promise<SignedIn> {
  const { app, sandbox, org } = await readPlaceToken(LOGIN.prefix, token);
  const here = app === visitor.app && sandbox === visitor.sandbox;
  const hash = await sha256(here ? namingOrg(token, "") : "");
  const db = await openLogin(c, visitor, LOGIN.kind, { org: here ? org : NONE, hash });
  const user_agent = c.req.header("User-Agent");
  const { statements, read } = signIn(db, null, { method: LOGIN.kind, carrier: "api", kept: true, user_agent });
  const signedIn = read(await db.batch(statements));
  if (!signedIn) throw new ApiError(401, "invalid_token", "This login token is wrong, was used or has expired.");
  return signedIn;
}
