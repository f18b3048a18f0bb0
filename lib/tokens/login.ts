/**
 * Login tokens: who holds one is signed in as its user, once, within a minute. A developer makes them, and a login that was
 * proven elsewhere ends in one. `lgt_…` names its place, as all do that stand in an address.
 */
import { sql } from "kysely";
import { type Asked, newOneTime } from "../auth/allow.ts";
import { sha256 } from "../auth/keys.ts";
import { readPlaceToken } from "../auth/place-tokens.ts";
import { openLogin, type Visitor } from "../auth/visitors.ts";
import { type Metadata, NONE } from "../db/schema.ts";
import type { Statement } from "../db/statements.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { ApiError } from "../errors.ts";
import { emitting } from "../events/emit.ts";
import { type Id, newId } from "../ids.ts";
import { type SignedIn, signIn } from "../sign-ins/queries.ts";
import { refusalToMint } from "./queries.ts";
import type { LoginTokenBody } from "./schema.ts";

const LOGIN = { kind: "login_token", prefix: "lgt" } as const;
const LIFETIME_S = 60;
/** How long somebody else is signed in as a user at most. */
const IMPERSONATION_S = 3600;

/** What the sign-in will be: by which method, and whether that proved who it is. */
export type LoginSaid = { method: string; auth_time: boolean; details?: Metadata; max_s?: number; actor?: string };
type Kept = { org_id: string; expires_at: string };
export type LoginToken = { token: string; expires_at: string };

/** The user, if it may be signed in. */
const signable = (db: TenantDb, user: Id<"user">) =>
  db
    .selectFrom("users")
    .where("users.id", "=", user)
    .where("users.org_id", "!=", NONE)
    .where("users.deactivated_at", "is", null)
    .where("users.is_system_user", "=", false)
    .where(sql<boolean>`${db.valueOf("orgs", "status", sql.ref("users.org_id"))} <> 'suspended'`);

/** A token says its org, which whoever makes it needn't know before; what is kept of it is a hash of the rest. */
const namingOrg = (token: string, org: string) => token.split("_").with(3, org).join("_");

/**
 * A new token of a user: the statement that keeps it, and `read`, which makes it of that one's answer. Null where there is
 * nobody to sign in.
 */
export async function loginToken(db: TenantDb, user: Id<"user">, said: LoginSaid) {
  const { app, sandbox } = db.tenant;
  const { token, row } = await newOneTime({ app, sandbox, org: NONE }, LOGIN, {
    ...{ user, payload: said, seconds: LIFETIME_S },
  });
  return {
    kept: db.insertUnder(signable(db, user), "one_time_secrets", row as never).returningAll() as Statement<Kept>,
    read: ([kept]: Kept[]): LoginToken | null =>
      kept ? { token: namingOrg(token, kept.org_id.slice(4)), expires_at: kept.expires_at } : null,
  };
}

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
