/** How people sign in and register by what is mailed to them, and by passwords. One trip each; a password takes two. */
import type { Asked, Credential } from "../auth/allow.ts";
import { sha256 } from "../auth/keys.ts";
import { hashesOf, newWorking, type Working } from "../auth/passwords.ts";
import { newPlaceToken, readPlaceToken } from "../auth/place-tokens.ts";
import { hex, mac, rootsOf } from "../auth/secrets.ts";
import { countedBy, ipOf, loginPath, openVisitor, type Visitor } from "../auth/visitors.ts";
import { NONE } from "../db/schema.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { domainOf, isPublicMail } from "../domains/public-mail.ts";
import { listOf } from "../env.ts";
import { ApiError, badRequest, forbidden, notFound, tooMany, unprocessable } from "../errors.ts";
import { wakeDispatcher } from "../events/remote.ts";
import { type Id, newId } from "../ids.ts";
import { mustSendMail, sendMail } from "../mail/send.ts";
import { type SignedIn, signIn } from "../sign-ins/queries.ts";
import type { SignInRow } from "../sign-ins/schema.ts";
import { type Proof, type Reached, signInMail } from "./mails.ts";
import type { Profile } from "./schema.ts";

const CODE_S = 600;
const LINK_S = 900;
const LINK = "lnk";

/** Whether who asks means to register: only then, also then, or never. */
export type Registering = { register: "must" | "may"; profile: Profile } | null;

const REFUSALS: Record<string, () => ApiError> = {
  redirect_uri: () => badRequest("redirect_uri", "The host of redirect_uri is not among the app's redirect_hosts."),
  sign_up_closed: () => badRequest("sign_up_closed", "This app lets nobody register."),
  no_org: () =>
    unprocessable(
      "no_org",
      "This address is of a public provider, whose domain is no organization's. Use one of your own.",
    ),
};

type Asking = Omit<Reached, "login"> & { org_slug: string | null; wait?: number; refused?: string };

/** Asks for a mail, and sends it when the answer has gone out: what is so, it alone says. */
async function ask(
  c: Asked,
  visitor: Visitor,
  email: string,
  kept: {
    method: "email_code" | "magic_link";
    hash: Uint8Array;
    payload: object;
    seconds: number;
    host: string | null;
  },
  registering: Registering,
  proof: Omit<Proof, "registers"> & ({ code: string } | { link: string }),
): Promise<void> {
  mustSendMail(c.env, visitor.sandbox);
  const { method, hash, payload, seconds, host } = kept;
  const said = registering && {
    register: registering.register,
    profile: { ...registering.profile, public_provider: isPublicMail(domainOf(email)) },
  };
  const roots = c.env.ROOT_SECRETS;
  const counted = await Promise.all([
    countedBy(roots, visitor, `mail.${email.toLowerCase()}`),
    countedBy(roots, visitor, `mails.${ipOf(c)}`),
  ]);
  const { db, answer } = await openVisitor<Asking>(c, visitor, "ask_by_mail", { method, message: email }, [
    ...[method, email, hash, JSON.stringify({ ...payload, ...said }), seconds, host, counted.map(bytea)],
  ]);
  await db.enter();
  const asked = answer()!;
  if (asked.refused !== undefined) throw REFUSALS[asked.refused]!();
  if (asked.wait)
    throw tooMany(asked.wait, "Too many mails were asked for, to this address or from here. Try again later.");
  const login = asked.org_slug && `${listOf(c.env.ISSUERS)[0]}${loginPath(visitor, asked.org_slug)}`;
  const mail = signInMail(email, { ...asked, login }, { ...proof, registers: registering !== null });
  c.executionCtx.waitUntil(sendMail(c.env, visitor, mail));
}

/** Six digits, each as likely as any other. */
function newCode(): string {
  const [n] = crypto.getRandomValues(new Uint32Array(1));
  return n! < 4_294_000_000 ? String(n! % 1_000_000).padStart(6, "0") : newCode();
}

/** An address has one live code: it is kept by the address. */
const codeOf = (email: string) => sha256(`code ${email.toLowerCase()}`);
/** What a code is kept as, by each root secret, the newest first: it is short enough to be guessed from a bare hash. */
const codesOf = (roots: string, { app, sandbox }: Visitor, email: string, code: string) =>
  Promise.all(
    rootsOf(roots).map(async (root) =>
      hex(await mac(root, ["code", app, sandbox, email.toLowerCase(), code].join("."), "once")),
    ),
  );

/**
 * Mails a code to an address: six digits, ten minutes, five tries. Known or not, it answers the same. 400 `sign_up_closed`;
 * 403 `method_disabled`, `user_not_allowed`; 422 `no_org`; 429 beyond ten mails an hour; 503 `mail_not_configured`.
 */
export async function askForCode(c: Asked, visitor: Visitor, email: string, registering: Registering): Promise<void> {
  const code = newCode();
  const [kept] = await codesOf(c.env.ROOT_SECRETS, visitor, email, code);
  const row = {
    method: "email_code",
    hash: await codeOf(email),
    payload: { code: kept },
    seconds: CODE_S,
    host: null,
  } as const;
  await ask(c, visitor, email, row, registering, { code });
}

/** Mails a link, to a page of ours or to `redirect_uri` with `?token=`: fifteen minutes, once. Refuses as `askForCode`, and 400 of a host that isn't the app's. */
export async function askForLink(
  c: Asked,
  visitor: Visitor,
  email: string,
  redirect_uri: string | null,
  registering: Registering,
): Promise<void> {
  const { token, hash } = await newPlaceToken(LINK, { ...visitor, org: NONE });
  const url = new URL(redirect_uri ?? `${listOf(c.env.ISSUERS)[0]}/login/link`);
  const host = redirect_uri === null ? null : url.host;
  url.searchParams.set("token", token);
  await ask(c, visitor, email, { method: "magic_link", hash, payload: {}, seconds: LINK_S, host }, registering, {
    link: url.href,
  });
}

/** Who came in, and whether the account is new. */
export type Entered = SignedIn & { created: boolean };

/** Signs in whom a door of visitors lets in, in the trip that opens it, and tells what the door said. */
export async function enter<Said extends { created?: boolean }>(
  c: Asked,
  { db, answer }: Awaited<ReturnType<typeof openVisitor<Said>>>,
  method: string,
  carrier: SignInRow["carrier"],
) {
  const user_agent = c.req.header("User-Agent");
  const { statements, read } = signIn(db, null, { method, carrier, user_agent });
  const signedIn = read(await db.batch(statements));
  const said = answer();
  const created = said?.created ?? false;
  if (signedIn && created) c.executionCtx.waitUntil(wakeDispatcher(c.env, signedIn.user));
  return { said, entered: signedIn && { ...signedIn, created } };
}

/** Of whom a door may make, and of what it tells of that. */
export const idsToBe = () =>
  JSON.stringify({
    ...{ user: newId("user"), org: newId("org") },
    ...{ user_entry: newId("activity_feed_entry"), org_entry: newId("activity_feed_entry") },
    ...{ user_event: newId("event"), org_event: newId("event") },
  });

/** Signs in by a code, or registers. 401 for every flaw alike. */
export async function enterByCode(
  c: Asked,
  visitor: Visitor,
  { email, code }: { email: string; code: string },
  carrier: SignInRow["carrier"],
): Promise<Entered> {
  const codes = await codesOf(c.env.ROOT_SECRETS, visitor, email, code.replace(/[\s-]/g, ""));
  const hash = await codeOf(email);
  const door = await openVisitor<{ created: boolean }>(
    ...[c, visitor, "enter_by_mail" as const],
    { method: "email_code", message: hex(hash) },
    ["email_code", hex(hash), hash, codes, idsToBe()],
  );
  const { entered } = await enter(c, door, "email_code", carrier);
  if (!entered)
    throw new ApiError(401, "invalid_code", "This code is wrong, was used or has expired. Ask for another one.");
  return entered;
}

/** The place that a link names: of a page, which has no key. Whatever it is, it is looked for. */
export async function visitorOfLink(token: string): Promise<Visitor> {
  const { app, sandbox } = await readPlaceToken(LINK, token);
  return { app, sandbox, beside: null };
}

/** Signs in by a link's token, or registers. 401 for every flaw alike, and for another app's. */
export async function enterByLink(
  c: Asked,
  visitor: Visitor,
  token: string,
  carrier: SignInRow["carrier"],
): Promise<Entered> {
  const wrong = () => new ApiError(401, "authentication_error", "invalid_or_expired_token");
  const { hash } = await readPlaceToken(LINK, token);
  if (visitor.app === (NONE as string)) throw wrong();
  const door = await openVisitor<{ created: boolean }>(
    ...[c, visitor, "enter_by_mail" as const],
    { method: "magic_link", message: hex(hash) },
    ["magic_link", hex(hash), hash, null, idsToBe()],
  );
  const { entered } = await enter(c, door, "magic_link", carrier);
  if (!entered) throw wrong();
  return entered;
}

/** Bytes in a list, as Postgres reads them. */
const bytea = (bytes: Uint8Array) => `\\x${hex(bytes)}`;

/** Tries at a password are counted by its address. */
const triesOf = (roots: string, visitor: Visitor, email: string) =>
  countedBy(roots, visitor, `password.${email.toLowerCase()}`);
const TOO_MANY_TRIES = "Too many wrong passwords were tried. Sign in by a code instead, or try again later.";

type Stored = { salt: string; rounds: number } | null;
const workingOf = (stored: Stored): Working =>
  stored
    ? { salt: Uint8Array.from(stored.salt.match(/../g)!, (byte) => Number.parseInt(byte, 16)), rounds: stored.rounds }
    : newWorking();

/**
 * Signs in by a password. 401 for a wrong one and an unknown address alike, which costs as much; 429 after ten wrong ones in
 * 15 minutes, for an hour: codes still work.
 */
export async function enterByPassword(
  c: Asked,
  visitor: Visitor,
  { email, password }: { email: string; password: string },
): Promise<Entered> {
  const roots = c.env.ROOT_SECRETS;
  const by = { method: "password", message: email } as const;
  const stored = await openVisitor<Stored>(c, visitor, "password_of", by, [email]);
  await stored.db.enter();
  const hashes = await hashesOf(roots, password, workingOf(stored.answer()));
  const door = await openVisitor<{ created?: never; wait?: number }>(c, visitor, "enter_by_password", by, [
    ...[email, hashes.map(bytea), await triesOf(roots, visitor, email)],
  ]);
  const { said, entered } = await enter(c, door, "password", "api");
  if (said?.wait) throw tooMany(said.wait, TOO_MANY_TRIES);
  if (!entered) throw new ApiError(401, "invalid_credentials", "The address or the password is wrong.");
  return entered;
}

/**
 * Sets a person's password, and ends the sign-ins beside the one that asks. 403 `proof_needed` without the old one, unless who
 * asks signed in within ten minutes; 429 as at the door; 404 where the user isn't there.
 */
export async function setPassword(
  db: TenantDb,
  roots: string,
  credential: Credential,
  user: Id<"user">,
  { current_password, password }: { current_password?: string | null | undefined; password: string },
): Promise<void> {
  const found = await db.batch({
    user: db.selectFrom("users").select("email").where("id", "=", user),
    stored: db.selectFrom("passwords").select(["salt", "rounds"]).where("user_id", "=", user),
  });
  const [person] = found.user;
  if (!person) throw notFound("user");
  const [stored] = found.stored;
  const current = current_password && stored ? await hashesOf(roots, current_password, stored as Working) : null;
  const working = newWorking();
  const [hash] = await hashesOf(roots, password, working);
  const tries = await triesOf(roots, { ...credential, beside: null }, person.email ?? user);
  const keep = credential.kind === "key" ? null : "token" in credential ? credential.token : credential.sign_in;
  const { set } = await db.batch({
    set: db.call<{ set_password: number | null }>("set_password", [
      ...[
        user,
        working.salt,
        working.rounds,
        hash,
        current?.map(bytea) ?? null,
        tries,
        keep,
        newId("activity_feed_entry"),
      ],
    ]),
  });
  const wait = set[0]!.set_password;
  if (wait === null) {
    throw forbidden("proof_needed", "This needs current_password, or a sign-in of the last ten minutes.");
  }
  if (wait > 0) throw tooMany(wait, TOO_MANY_TRIES);
}
