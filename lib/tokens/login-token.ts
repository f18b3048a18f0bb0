/**
 * Login tokens: who holds one is signed in as its user, once, within a minute. A developer makes them, and a login that was
 * proven elsewhere ends in one. `lgt_…` names its place, as all do that stand in an address.
 */
import { sql } from "kysely";
import { newOneTime } from "../auth/allow.ts";
import { type Metadata, NONE } from "../db/schema.ts";
import type { Statement } from "../db/statements.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import type { Id } from "../ids.ts";

export const LOGIN = { kind: "login_token", prefix: "lgt" } as const;
const LIFETIME_S = 60;

/** What the sign-in will be: by which method, and whether that proved who it is. */
export type LoginSaid = { method: string; auth_time: boolean; details?: Metadata; max_s?: number; actor?: string };
type Kept = { org_id: string; expires_at: string };
export type LoginToken = { token: string; expires_at: string };

/** The user, if it may be signed in. */
export const signable = (db: TenantDb, user: Id<"user">) =>
  db
    .selectFrom("users")
    .where("users.id", "=", user)
    .where("users.org_id", "!=", NONE)
    .where("users.deactivated_at", "is", null)
    .where("users.is_system_user", "=", false)
    .where(sql<boolean>`${db.valueOf("orgs", "status", sql.ref("users.org_id"))} <> 'suspended'`);

/** A token says its org, which whoever makes it needn't know before; what is kept of it is a hash of the rest. */
export const namingOrg = (token: string, org: string) => token.split("_").with(3, org).join("_");

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
