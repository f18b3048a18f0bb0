/** Sign-ins: how one is made, by whatever method, and how it is ended. */
import { sql } from "kysely";
import type { Credential } from "../auth/allow.ts";
import { FULL_ACCESS, grants, resources } from "../auth/permissions.ts";
import type { Metadata, Row } from "../db/schema.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { notFound } from "../errors.ts";
import { type Id, newId } from "../ids.ts";
import type { CursorPage } from "../paging.ts";
import type { NamedUserRow } from "../users/schema.ts";
import type { ListedSignIn, SignInRow } from "./schema.ts";

export type SignIn = {
  /** How somebody came in, as the feed and the list of sign-ins call it; `token` is minted and proves nobody. */
  method: string;
  carrier: SignInRow["carrier"];
  /** Of a program: what it asks for (all, unless it says), and how many seconds an access token of it lives. */
  scopes?: readonly string[];
  expires_in?: number;
  /** It gets what the door found that the person has granted to a client, instead; which proves nobody anew. */
  granted?: true;
  /** How it came about, and whether that proves who it is, is what was kept of it and the door found, instead. */
  kept?: true;
  user_agent?: string | undefined;
  /** Who signs in as this user, where it is somebody else. */
  actor?: string;
  /** When it must end at the latest, in seconds, where a provider says so. */
  max_s?: number;
  /** What the method has to remember of it. Shown to nobody. */
  details?: Metadata;
};
type Ids = { user: Id<"user"> | null; token: Id<"token">; sign_in: Id<"sign_in"> };

const ACCESS_LIFETIME_S = 3600;
const GRANTABLE = resources.map((resource) => `${resource}:*`);

/** The statement that signs somebody in, and answers the access token; `user` null: whom the door found. */
export const signingIn = (
  db: TenantDb,
  { user, token, sign_in }: Ids,
  { scopes = [FULL_ACCESS], expires_in, granted, kept, ...said }: SignIn,
) =>
  db.call<Row<"tokens">>(
    granted ? "sign_in_granted" : kept ? "sign_in_as_kept" : "sign_in",
    [
      ...[user, token, sign_in, newId("activity_feed_entry"), JSON.stringify(grants(granted ? GRANTABLE : scopes))],
      JSON.stringify({
        ...said,
        access_lifetime_s: expires_in ?? ACCESS_LIFETIME_S,
        auth_time: said.method !== "token" && !granted,
      }),
    ],
    "(made).*",
  );

/** What a sign-in leads to: its row, the access token of a program's, and whose it is. */
export type SignedIn = { sign_in: SignInRow; token: Row<"tokens"> | null; user: NamedUserRow };

/**
 * The statements that sign somebody in, for a batch behind the door that knows who it is, and `read`, which makes of that
 * batch's answers what came of it: null where nobody was signed in, be it that the door opened nothing.
 */
export function signIn(db: TenantDb, user: Id<"user"> | null, said: SignIn) {
  const ids = { user, token: newId("token"), sign_in: newId("sign_in") };
  return {
    statements: {
      token: signingIn(db, ids, said),
      sign_in: db.selectFrom("token_families").selectAll().where("id", "=", ids.sign_in),
      user: db.call<NamedUserRow>("family_user", [ids.sign_in], "(person).*, org_name, org_slug"),
    },
    read: (answers: { token: Row<"tokens">[]; sign_in: SignInRow[]; user: NamedUserRow[] }): SignedIn | null => {
      const [sign_in] = answers.sign_in;
      const [person] = answers.user;
      if (!sign_in || !person) return null;
      return { sign_in, token: sign_in.carrier === "api" ? answers.token[0]! : null, user: person };
    },
  };
}

const live = (db: TenantDb, user: Id<"user">) =>
  db
    .selectFrom("token_families")
    .where("user_id", "=", user)
    .where("revoked_at", "is", null)
    .where("expires_at", ">", sql<string>`now()`);

/** What tells the sign-in that a credential is of: the sign-in of a cookie, a token, or nothing of a key. */
const markOf = (credential: Credential) =>
  credential.kind === "key" ? null : "token" in credential ? credential.token : credential.sign_in;

/** The statement that reads a user's sign-ins that live, newest first, and which of them asks. */
export function listingSignIns(
  db: TenantDb,
  credential: Credential,
  user: Id<"user">,
  { from, limit }: Pick<CursorPage, "from" | "limit">,
) {
  const mark = markOf(credential);
  const family = db.selectFrom("tokens").select("family_id").where(sql<boolean>`id = ${mark}`);
  let rows = live(db, user);
  if (from !== null) rows = rows.where(sql<boolean>`id < ${from}`);
  return rows
    .selectAll()
    .select(sql<boolean>`coalesce(id = coalesce((${family}), ${mark}), false)`.as("current"))
    .orderBy("id", "desc")
    .limit(limit);
}

/** A user's sign-ins that live, newest first. 404 where the user isn't there. */
export async function listSignIns(db: TenantDb, credential: Credential, user: Id<"user">, page: CursorPage) {
  const { found, there } = await db.batch({
    found: listingSignIns(db, credential, user, { ...page, limit: page.limit + 1 }),
    there: db.selectFrom("users").select("id").where("id", "=", user),
  });
  if (!there.length) throw notFound("user");
  return found as ListedSignIn[];
}

/** The statement that reads a user's sign-in that lives. */
export const readingSignIn = (db: TenantDb, user: Id<"user">, id: Id<"sign_in">) =>
  live(db, user).where("id", "=", id).selectAll();

/**
 * The statement that ends a user's sign-ins, `one` or all, and answers their ids: the next request with any is refused.
 * `keep`: a sign-in, or a token of it, that stays.
 */
export const endingSignIns = (db: TenantDb, user: Id<"user">, which: { one?: Id<"sign_in">; keep?: string | null }) =>
  db.call<{ end_sign_ins: Id<"sign_in"> }>("end_sign_ins", [
    ...[user, which.one ?? null, which.keep ?? null, newId("activity_feed_entry")],
    db.viewer.kind === "user" ? db.viewer.user : null,
  ]);

/** Ends one sign-in. 404 where it isn't the user's, or is over. */
export async function endSignIn(db: TenantDb, user: Id<"user">, one: Id<"sign_in">): Promise<void> {
  const { ended, there } = await db.batch({
    ended: endingSignIns(db, user, { one }),
    there: db.selectFrom("users").select("id").where("id", "=", user),
  });
  if (!ended.length) throw notFound(there.length ? "sign_in" : "user");
}

/** Ends a user's sign-ins, all or all but the one that asks. Twice is once. */
export async function endSignIns(db: TenantDb, credential: Credential, user: Id<"user">, keep?: "current") {
  const { there } = await db.batch({
    ended: endingSignIns(db, user, { keep: keep ? markOf(credential) : null }),
    there: db.selectFrom("users").select("id").where("id", "=", user),
  });
  if (!there.length) throw notFound("user");
}
