/** How developers sign in, by a code that is mailed to them, and out. One trip each. */
import { CompiledQuery, sql } from "kysely";
import type { Asked, DeveloperCredential } from "../auth/allow.ts";
import { sha256 } from "../auth/keys.ts";
import { hex, mac, rootsOf } from "../auth/secrets.ts";
import { countedBy, ipOf } from "../auth/visitors.ts";
import { connect } from "../db/neon.ts";
import { NONE } from "../db/schema.ts";
import { type Door, TenantDb } from "../db/tenant-db.ts";
import { ApiError, notFound, tooMany } from "../errors.ts";
import { type Id, newId } from "../ids.ts";
import { mustSendMail, sendMail } from "../mail/send.ts";
import { newUserCode, readUserCode, showUserCode } from "../oauth/device.ts";
import { developerMail } from "./mails.ts";

/** A door that answers, and opens nothing. `vouched` is what the Worker says of it, under its MAC. */
async function ask<Answer>(
  c: Asked,
  app: Id<"app">,
  door: "ask_developer" | "sign_in_developer",
  vouched: string[],
  args: unknown[],
): Promise<Answer | null> {
  const tag = await mac(c.env.ROOT_SECRETS, [door, app, ...vouched].join("."), "door");
  const all = [app, ...args, tag];
  let answer: Answer | null = null;
  const at: Door = {
    enter: CompiledQuery.raw(`select app.${door}(${all.map((_, i) => `$${i + 1}`)}) as answer`, all),
    ...{ permission: "self", viewer: { kind: "object" }, onTold: () => {} },
    onEntered: (row) => {
      answer = row.answer as Answer | null;
    },
  };
  const connection = connect(c.env.DATABASE_URL, c.env.DATABASE);
  await new TenantDb(connection, at, { kind: "app", app, sandbox: NONE }, "write").enter();
  return answer;
}

/** An address has one live code of an app: it is kept by the address. */
const codeOf = (email: string) => sha256(`developer ${email.toLowerCase()}`);
/** What a code is kept as, by each root secret, the newest first. */
const codesOf = (roots: string, app: Id<"app">, email: string, code: string) =>
  Promise.all(
    rootsOf(roots).map(async (root) =>
      hex(await mac(root, ["developer", app, email.toLowerCase(), code].join("."), "once")),
    ),
  );

/**
 * Mails a code to an address: ten minutes, five tries. It opens a whole app, so it is of letters, as a device's: no year of tries
 * guesses one. Known or not, it answers the same. 404 for an app that isn't there; 429 beyond ten mails an hour; 503
 * `mail_not_configured`.
 */
export async function askForCode(c: Asked, app: Id<"app">, email: string): Promise<void> {
  mustSendMail(c.env, NONE);
  const roots = c.env.ROOT_SECRETS;
  const place = { app, sandbox: NONE, beside: null } as const;
  const code = newUserCode();
  const [kept] = await codesOf(roots, app, email, code);
  const counting = [`mail.${email.toLowerCase()}`, `mails.${ipOf(c)}`].map((what) => countedBy(roots, place, what));
  const counted = (await Promise.all(counting)).map((bytes) => `\\x${hex(bytes)}`);
  const asked = await ask<{ wait: number } | { app_name: string; known: boolean }>(
    ...[c, app, "ask_developer" as const],
    [email],
    [email, await codeOf(email), kept, counted],
  );
  if ("wait" in asked!) {
    const many = "Too many mails were asked for, to this address or from here. Try again later.";
    throw tooMany(asked.wait, many);
  }
  const { app_name, known } = asked!;
  c.executionCtx.waitUntil(sendMail(c.env, place, developerMail(email, app_name, known ? showUserCode(code) : null)));
}

/** Signs a developer in by a code. 401 `invalid_code` for every flaw alike. */
export async function enterByCode(c: Asked, app: Id<"app">, email: string, typed: string) {
  const session = newId("developer_session");
  // Whatever was typed is a try.
  const codes = await codesOf(c.env.ROOT_SECRETS, app, email, readUserCode(typed) ?? "");
  const hash = await codeOf(email);
  const entered = await ask<{ developer: Id<"developer">; ends_at: string }>(
    ...[c, app, "sign_in_developer" as const],
    [hex(hash), session],
    [hash, codes, session],
  );
  if (!entered) {
    throw new ApiError(401, "invalid_code", "This code is wrong, was used or has expired. Ask for another one.");
  }
  return { app, session, ...entered };
}

/** Who a developer is, and of which app. */
export async function getDeveloper(db: TenantDb, { app, developer }: DeveloperCredential) {
  const rows = db.selectFrom("developers").where("id", "=", developer);
  const name = sql<string>`(${db.selectFrom("apps").select("name").where("id", "=", app)})`;
  const [row] = await db.batch({ found: rows.select(["email", name.as("app_name")]) }).then(({ found }) => found);
  if (!row) throw notFound("developer");
  return row;
}

/** Ends a developer's sign-in: the next request with it is refused. */
export const endSession = (db: TenantDb, { session }: DeveloperCredential) =>
  db.deleteFrom("developer_sessions").where("id", "=", session).execute();
