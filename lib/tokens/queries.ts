import { type NotNull, sql } from "kysely";
import { grants } from "../auth/permissions.ts";
import type { Role } from "../db/schema.ts";
import { NONE } from "../db/schema.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { ApiError, invalid, notFound, refused } from "../errors.ts";
import { type Id, newId } from "../ids.ts";
import { signingIn } from "../sign-ins/queries.ts";
import type { NamedUserRow } from "../users/schema.ts";
import { DAY_S, type MintToken, type PersonalToken, type TokenRow } from "./schema.ts";

/** How long after a rotation the previous refresh token is answered with the same successor. */
const GRACE_S = 30;
const MAX_PERSONAL_TOKENS = 50;

const inSeconds = (s: number) => sql<string>`now() + make_interval(secs => ${s})`;
const isLive = sql<boolean>`revoked_at is null and expires_at > now()`;

/** The scopes that a row of `users` is granted of those asked for, by the role it has at this moment. */
const grantedOf = (scopes: string[]) =>
  sql<string[]>`array(select jsonb_array_elements_text(${JSON.stringify(grants(scopes))}::jsonb -> users.role))`;

/** What the feed says of a token: read by the org's admins and by its user. Never the token. */
const about = {
  user_id: sql<string>`user_id`,
  readers: sql<string[]>`array['user:' || user_id]`,
};

/** A token's family, where it has one: the newest generation is what a replayed mint is answered with. */
export type MintedToken = { token: TokenRow; generation: number | null };

/**
 * Mints an access token for a user of an org, with a refresh token's family unless it is a system user. Granted are
 * the scopes asked for that the user's role holds. 404 no such user; 422 no org, or nothing left to grant; 409 the
 * org is suspended.
 */
export async function mintToken(
  db: TenantDb,
  user: Id<"user">,
  id: Id<"token">,
  { scopes, expires_in }: MintToken,
): Promise<MintedToken> {
  const { made } = await db.batch({
    made: signingIn(
      db,
      { user, token: id, sign_in: newId("sign_in") },
      { method: "token", carrier: "api", scopes, expires_in },
    ),
  });
  const [row] = made;
  if (row) return { token: row, generation: row.family_id === null ? null : 0 };
  throw await refusalToMint(db, user);
}

/** Why nothing was made for a user. Making is what must be fast: only a refusal pays for its reason, with a second trip. */
export async function refusalToMint(db: TenantDb, user: Id<"user">): Promise<ApiError> {
  const found = await db
    .selectFrom("users")
    .leftJoin(db.selectFrom("orgs").selectAll().as("org"), "org.id", "users.org_id")
    .select(["users.role", "users.deactivated_at", "users.is_system_user", "org.status"])
    .where("users.id", "=", user)
    .executeTakeFirst();
  return notMinted(found);
}

type Refused = { role: Role | null; status: string | null; deactivated_at?: string | null; is_system_user?: boolean };
function notMinted(user: Refused | undefined): ApiError {
  if (!user) return notFound("user");
  if (user.deactivated_at) return refused("user_deactivated", "The user is deactivated. Make it active first.");
  if (!user.role) return invalid({ field: "user_id", message: "has no org: a token is minted for an org's user" });
  if (user.status === "suspended")
    return refused("org_suspended", "The user's org is suspended. Make it active first.");
  if (user.is_system_user) return invalid({ field: "user_id", message: "is a system user, which nobody signs in as" });
  return invalid({ field: "scopes", message: `grant nothing: none of them is held by the role ${user.role}` });
}

/** A token that was minted, to be signed again from its row. */
export async function getMintedToken(db: TenantDb, user: Id<"user">, id: Id<"token">): Promise<MintedToken> {
  const row = await db
    .selectFrom("tokens")
    .leftJoin(db.selectFrom("token_families").selectAll().as("family"), "family.id", "tokens.family_id")
    .selectAll("tokens")
    .select("family.generation")
    .where("tokens.id", "=", id)
    .where("tokens.user_id", "=", user)
    .executeTakeFirst();
  if (!row) throw notFound("token");
  const { generation, ...token } = row;
  return { token, generation };
}

/** A user's tokens, newest first: those that are alive, or all that there were. 404 where the user isn't there. */
export async function listTokens(db: TenantDb, user: Id<"user">, which: "live" | "all"): Promise<TokenRow[]> {
  let tokens = db.selectFrom("tokens").selectAll().where("user_id", "=", user).orderBy("id", "desc").limit(1000);
  if (which === "live") {
    const families = db.selectFrom("token_families").selectAll();
    tokens = tokens.where(isLive).where(sql<boolean>`not exists (select from (${families}) family
      where family.id = tokens.family_id and family.revoked_at is not null)`);
  }
  const { rows, found } = await db.batch({
    rows: tokens,
    found: db.selectFrom("users").select("id").where("id", "=", user),
  });
  if (!found.length) throw notFound("user");
  return rows;
}

/** Revokes a token and ends its refresh family: the very next request with either is refused. Twice is once. */
export async function revokeToken(db: TenantDb, user: Id<"user">, id: Id<"token">): Promise<TokenRow> {
  const token = db.selectFrom("tokens").where("id", "=", id).where("user_id", "=", user);
  const change = db
    .updateTable("tokens")
    .set({ revoked_at: sql`now()` })
    .where("id", "=", id)
    .where("user_id", "=", user)
    .where("revoked_at", "is", null);
  const { row, found } = await db.batch({
    revoked: db.telling(change, {
      kind: "token.revoked",
      title: sql`'Access token revoked'`,
      metadata: { token: id },
      ...about,
    }),
    ended: db
      .updateTable("token_families")
      .set({ revoked_at: sql`now()` })
      .where("id", "in", token.select("family_id").$narrowType<{ family_id: NotNull }>())
      .where("revoked_at", "is", null),
    row: token.selectAll(),
    found: db.selectFrom("users").select("id").where("id", "=", user),
  });
  if (!row[0]) throw notFound(found.length ? "token" : "user");
  return row[0];
}

/** A person's own token, made from a full-access session: no family, at most 50 alive. */
export async function createPersonalToken(
  db: TenantDb,
  user: Id<"user">,
  id: Id<"token">,
  { name, scopes, expires_in_days }: PersonalToken,
): Promise<TokenRow> {
  const granted = grantedOf(scopes);
  const live = db
    .selectFrom("tokens")
    .select("id")
    .where("user_id", "=", user)
    .where("family_id", "is", null)
    .where(isLive);
  const hasRoom = sql<boolean>`(select count(*) from (${live}) t) < ${MAX_PERSONAL_TOKENS}`;
  const person = db.selectFrom("users").where("id", "=", user);
  const mintable = person.where("org_id", "!=", NONE).where(sql<boolean>`cardinality(${granted}) > 0`).where(hasRoom);
  const token = db.insertUnder(mintable, "tokens", {
    id,
    user_id: user,
    family_id: null,
    name,
    scopes: granted,
    created_by_user: db.viewer.kind === "user" ? db.viewer.user : null,
    expires_at: inSeconds(expires_in_days * DAY_S),
  });
  const { held, made, room } = await db.batch({
    // Held, so that two at once can't both be the fiftieth.
    held: person.select("role").forUpdate(),
    made: db.telling(token, {
      kind: "token.created",
      title: sql`'Access token made'`,
      metadata: { token: id },
      ...about,
    }),
    room: person.select(hasRoom.as("left")),
  });
  if (made[0]) return made[0];
  const [found] = held;
  if (found?.role && !room[0]?.left) {
    throw new ApiError(
      429,
      "too_many_tokens",
      `A user has at most ${MAX_PERSONAL_TOKENS} live tokens. Revoke one first.`,
      [],
      {
        "Retry-After": String(DAY_S),
      },
    );
  }
  throw notMinted(found && { role: found.role, status: null });
}

/** A personal token by its id, to be signed again from its row. */
export async function getToken(db: TenantDb, user: Id<"user">, id: Id<"token">): Promise<TokenRow> {
  return (await getMintedToken(db, user, id)).token;
}

/** What a refresh leads to: the newest access token, the generation of its refresh token, and whose they are. */
export type Rotated = MintedToken & { user: NamedUserRow };

/**
 * Rotates a refresh token: the newest one makes a new pair, and once more within 30 s the same. Null for any older one,
 * which ends the sign-in.
 */
export async function rotate(db: TenantDb, family: Id<"sign_in">, generation: number): Promise<Rotated | null> {
  const { token, user } = await db.batch({
    token: db.call<TokenRow>("rotate_token", [
      family,
      generation,
      newId("token"),
      newId("activity_feed_entry"),
      GRACE_S,
    ]),
    user: db.call<NamedUserRow>("family_user", [family], "(person).*, org_name, org_slug"),
  });
  if (!token[0] || !user[0]) return null;
  return { token: token[0], generation: generation + 1, user: user[0] };
}
