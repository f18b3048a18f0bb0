/** Invitations into an org: each is for who proves its address, by the key that was mailed there. */
import { CompiledQuery, sql } from "kysely";
import { type Asked, newOneTime, type OneTime, openOnce } from "../auth/allow.ts";
import type { Working } from "../auth/passwords.ts";
import { readPlaceToken } from "../auth/place-tokens.ts";
import { hex, mac } from "../auth/secrets.ts";
import type { None, Role } from "../db/schema.ts";
import { mustHold, type Statement } from "../db/statements.ts";
import type { Telling, TenantDb } from "../db/tenant-db.ts";
import { forbidden, notFound, refused, tooMany } from "../errors.ts";
import { type Id, newId } from "../ids.ts";
import type { Mail } from "../mail/send.ts";
import { behindOrg } from "../orgs/queries.ts";
import type { Page } from "../paging.ts";
import { type SignIn, signIn } from "../sign-ins/queries.ts";
import { invitationMail } from "./mail.ts";
import type { CreateInvitation, InvitationRow } from "./schema.ts";

type InvitationId = Id<"invitation">;
const KEY: OneTime = { kind: "invitation", prefix: "inv" };
const LIFETIME_S = 7 * 24 * 3600;
const expires_at = sql<string>`now() + make_interval(secs => ${LIFETIME_S})`;

const telling = (event: "created" | "resent" | "revoked" | "accepted"): Telling => ({
  kind: `invitation.${event}`,
  title: sql`${`Invitation ${event}: `} || email`,
  readers: sql`'{}'`,
});

/** An invitation, and what goes to its address, if anything does: a mail with a link to our page, below `base`. */
export type Sent = { row: InvitationRow; mail: ((base: string) => Mail) | null };

/** One page of an org's open invitations, newest first, and how many there are. */
export const listInvitations = (db: TenantDb, org: Id<"org">, page: Page) => {
  const behind = behindOrg(db, org);
  return behind.page(behind.selectFrom("org_invitations").selectAll().where("org_id", "=", org), page);
};

const named = (db: TenantDb, org: Id<"org">, id: InvitationId) =>
  db.selectFrom("org_invitations").where("org_invitations.id", "=", id).where("org_invitations.org_id", "=", org);

/** One that was made before: its key isn't mailed again by that. */
export const getInvitation = async (db: TenantDb, org: Id<"org">, id: InvitationId): Promise<Sent> => ({
  row: await named(db, org, id)
    .selectAll()
    .executeTakeFirstOrThrow(() => notFound("invitation")),
  mail: null,
});

/** A key of an invitation: the row that keeps it, and the mail that carries it, with the names that are `shown` beside. */
async function newKey(db: TenantDb, org: Id<"org">, id: InvitationId) {
  const { app, sandbox } = db.tenant;
  const said = { user: null, payload: { invitation: id }, seconds: LIFETIME_S };
  const { token, row } = await newOneTime({ app, sandbox, org }, KEY, said);
  const shown = {
    org_name: db.valueOf("orgs", "name", sql.ref("subject.org_id")),
    app_name: db.valueOf("apps", "name", sql.ref("subject.app_id")),
  };
  const mailOf =
    ({ email, org_name, app_name }: { email: string; org_name: string | null; app_name: string | null }) =>
    (base: string) =>
      invitationMail(email, {
        ...{ org: org_name ?? "", app: app_name ?? "", key: token },
        link: `${base}/invitation?${new URLSearchParams({ key: token })}`,
      });
  return { secret: row, shown, mailOf };
}

/** Nobody gives more than they have: an owner is made by an owner. A developer may. */
const behindRole = (db: TenantDb, role: Role) =>
  role !== "owner" || db.viewer.kind !== "user"
    ? db
    : db.behind(
        mustHold(
          sql`(${db.selectFrom("users").where("id", "=", db.viewer.user).select("role")}) = 'owner'`,
          "role",
          "must not be above your own",
        ),
      );

/** Invites an address. 409 where it is invited or one of the org's users already; 422 on a role above the inviter's. */
export async function createInvitation(
  db: TenantDb,
  org: Id<"org">,
  id: InvitationId,
  { email, role }: CreateInvitation,
): Promise<Sent> {
  const { secret, shown, mailOf } = await newKey(db, org, id);
  const above = db.selectFrom("orgs").where("orgs.id", "=", org);
  const member = db.selectFrom("users").where("org_id", "=", org).where("email_key", "=", email.toLowerCase());
  const free = above.where(sql<boolean>`not exists (${member.select(sql`1`.as("one"))})`);
  const invited_by = db.viewer.kind === "user" ? db.viewer.user : null;
  const { made, there } = await behindRole(db, role).batch({
    made: db.telling(
      db.insertUnder(free, "org_invitations", { id, email, role, invited_by, expires_at } as never),
      telling("created"),
      shown,
    ),
    key: db.insertUnder(named(db, org, id), "one_time_secrets", secret as never),
    there: above.select("orgs.id"),
  });
  if (made[0]) return { row: made[0], mail: mailOf(made[0]) };
  if (!there.length) throw notFound("org");
  throw refused("already_member", "This address is one of the org's users already.");
}

/** Mails another key, and begins its seven days anew. 429 within a minute of the last. */
export async function resendInvitation(db: TenantDb, org: Id<"org">, id: InvitationId): Promise<Sent> {
  const { secret, shown, mailOf } = await newKey(db, org, id);
  const change = db
    .updateTable("org_invitations")
    .set({ expires_at, sent_at: sql<string>`now()`, updated_at: sql<string>`now()` })
    .where("id", "=", id)
    .where("org_id", "=", org)
    .where("sent_at", "<", sql<string>`now() - interval '1 minute'`);
  const sentNow = named(db, org, id).where("org_invitations.sent_at", "=", sql<string>`now()`);
  const { sent, there } = await db.batch({
    sent: db.telling(change, telling("resent"), shown),
    key: db.insertUnder(sentNow, "one_time_secrets", secret as never),
    there: named(db, org, id).select("org_invitations.id"),
  });
  if (sent[0]) return { row: sent[0], mail: mailOf(sent[0]) };
  if (!there.length) throw notFound("invitation");
  throw tooMany(60, "An invitation is mailed once a minute.", "too_many_mails");
}

/** Takes an invitation back: none of its keys works any more. */
export async function revokeInvitation(db: TenantDb, org: Id<"org">, id: InvitationId): Promise<void> {
  const change = db.deleteFrom("org_invitations").where("id", "=", id).where("org_id", "=", org);
  await db.telling(change, telling("revoked")).executeTakeFirstOrThrow(() => notFound("invitation"));
}

/** What an invitation's page says of it. */
export type ShownInvitation = {
  email: string;
  role: Role;
  org: Id<"org">;
  org_name: string;
  app_name: string;
  inviter: string | null;
};

/** The place of a key, and the statement that reads what it is for, which uses up nothing: null for one that is over. */
export async function showingInvitation(c: Asked, key: string) {
  const { app, sandbox, org, hash } = await readPlaceToken(KEY.prefix, key);
  const tag = await mac(c.env.ROOT_SECRETS, ["invitation", app, sandbox, org, hex(hash)].join("."), "door");
  const query = CompiledQuery.raw("select app.show_invitation($1, $2, $3, $4, $5) as shown", [
    ...[app, sandbox, org, hash, tag],
  ]) as CompiledQuery<{ shown: ShownInvitation | null }>;
  const showing: Statement<{ shown: ShownInvitation | null }> = { compile: () => query };
  return { app, sandbox, org, showing };
}

/** Who registers by an invitation, with a password. */
type Invited = {
  app: Id<"app">;
  sandbox: Id<"sandbox"> | None;
  email: string;
  name: string | null;
  alias: string | null;
  password: Working & { hash: Uint8Array };
};

/** What somebody is told whose invitation has made a user, and let nobody in. */
export const mustUseProvider = () =>
  forbidden("sso_required", "The invitation is accepted. Sign in by the organization's provider.");

/**
 * Makes a user of whoever has the key, in its org and with its role, and signs in: the key proves the address. Used up by
 * that, and by nothing less. 404 for a key that was used, has expired, was taken back or never there, or isn't of the address
 * of who is said to come, with what that one says of himself; 409 where the address is somebody's already. Null where the
 * org lets its people in by its provider alone: the user is made, and signs in there.
 */
export async function acceptInvitation(c: Asked, key: string, said: Omit<SignIn, "method">, who?: Invited) {
  const { hash, ...place } = await readPlaceToken(KEY.prefix, key);
  if (who && (place.app !== who.app || place.sandbox !== who.sandbox)) throw notFound("invitation");
  const { db } = await openOnce(c, KEY, key);
  const secret = db.selectFrom("one_time_secrets").where("kind", "=", KEY.kind).where("hash", "=", hash);
  const meant = sql<boolean>`id = (${secret.select(sql`payload ->> 'invitation'`.as("invitation"))}) and expires_at > now()
    and email_key = coalesce(${who ? who.email.toLowerCase() : null}::text, email_key)`;
  const invitation = db.selectFrom("org_invitations").where(meant);
  const user = newId("user");
  const { statements, read } = signIn(db, user, { ...said, method: "invitation" });
  // Refused, the key is not used up.
  const gate = sql`select app.must_reach('invitation', (${invitation.select(sql`true`.as("may"))}))`;
  const answers = await db.behind(gate).batch({
    made: db.telling(
      db.insertUnder(invitation, "users", {
        ...{ id: user, email: sql`email`, role: sql`role`, name: who?.name, alias: who?.alias },
      } as never),
      {
        kind: "user.created",
        title: sql`'User created by an invitation: ' || email`,
        user_id: sql`id`,
        readers: sql`array['user:' || id]`,
      },
    ),
    ...(who && {
      password: db.insertUnder(db.selectFrom("users").where("users.id", "=", user), "passwords", {
        ...{ user_id: user, ...who.password },
      } as never),
    }),
    accepted: db.telling(db.deleteFrom("org_invitations").where(meant), {
      ...telling("accepted"),
      user_id: sql`${user}::text`,
    }),
    ...statements,
  });
  if (!answers.made.length) throw notFound("invitation");
  return read(answers);
}
