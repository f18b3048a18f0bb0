/** Invites of a user to the others of its org, by a key that it hands on itself. */

import { base64url } from "jose";
import { sql } from "kysely";
import { sha256 } from "../auth/keys.ts";
import type { Telling, TenantDb } from "../db/tenant-db.ts";
import { ApiError, notFound, refused } from "../errors.ts";
import type { Id } from "../ids.ts";
import type { CreateInvite, InviteRow } from "./schema.ts";

const KEY_BYTES = 24;

const telling = (event: "created" | "accepted"): Telling => ({
  kind: `user_invite.${event}`,
  title: sql`${`Invite ${event}`}`,
  user_id: sql<string>`user_id`,
  readers: sql<string[]>`array_remove(array['user:' || user_id, 'user:' || accepted_by], null)`,
});
const shownOf = (db: TenantDb) => ({ user_name: db.valueOf("users", "name", sql.ref("subject.user_id")) });

/** Makes one, for fourteen days; those of before that have ended go. 404 on a thread: there are none yet. */
export async function createInvite(
  db: TenantDb,
  user: Id<"user">,
  id: Id<"user_invite">,
  { metadata, thread_id }: CreateInvite,
): Promise<{ row: InviteRow; key: string | null }> {
  if (thread_id !== null) throw new ApiError(404, "not_found", "No such thread.");
  const key = base64url.encode(crypto.getRandomValues(new Uint8Array(KEY_BYTES)));
  const insert = db.insertUnder(db.selectFrom("users").where("users.id", "=", user), "user_invites", {
    ...{ id, user_id: user, hash: await sha256(key), metadata: JSON.stringify(metadata) },
    expires_at: sql<string>`now() + interval '14 days'`,
  } as never);
  const { made } = await db.batch({
    ended: db.deleteFrom("user_invites").where("user_id", "=", user).where("expires_at", "<", sql<string>`now()`),
    made: db.telling(insert, telling("created"), shownOf(db)),
  });
  if (!made[0]) throw notFound("user");
  return { row: made[0], key };
}

const shown = (db: TenantDb) =>
  db
    .selectFrom("user_invites")
    .selectAll()
    .select(db.valueOf("users", "name", sql.ref("user_invites.user_id")).as("user_name"));

/** One that was made before: its key isn't shown twice. */
export const getInvite = async (db: TenantDb, id: Id<"user_invite">) => ({
  row: (await shown(db)
    .where("id", "=", id)
    .executeTakeFirstOrThrow(() => notFound("user_invite"))) as InviteRow,
  key: null,
});

/** Accepts the one of the key, once: again, and by whose it is, is a 409. 404 for one that isn't in the person's org. */
export async function acceptInvite(db: TenantDb, person: Id<"user">, key: string): Promise<InviteRow> {
  const hash = await sha256(key);
  const change = db
    .updateTable("user_invites")
    .set({ accepted_by: person })
    .where("hash", "=", hash)
    .where("expires_at", ">", sql<string>`now()`)
    .where("accepted_by", "is", null)
    .where("user_id", "!=", person);
  const { accepted, found } = await db.batch({
    accepted: db.telling(change, telling("accepted"), shownOf(db)),
    found: db
      .selectFrom("user_invites")
      .select("id")
      .where("hash", "=", hash)
      .where("expires_at", ">", sql<string>`now()`),
  });
  if (accepted[0]) return accepted[0];
  if (!found.length) throw notFound("user_invite");
  throw refused("already_accepted", "This invite was accepted before, or is your own.");
}
