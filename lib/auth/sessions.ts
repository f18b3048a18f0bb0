/**
 * Browser sessions: the cookie `__Host-agentry` (RFC 6265bis: this host's alone, over TLS, no script reads it), whose value
 * is `ses_`, and under a MAC the tenant, the person and the sign-in. The MAC is the one that app.enter_session takes. A
 * developer's is `__Host-agentry-dev`, likewise: `dev_`, the app, the developer and the sign-in, for app.enter_developer.
 */
import type { Context } from "hono";
import { getCookie, setCookie } from "hono/cookie";
import { NONE, type None } from "../db/schema.ts";
import { forbidden } from "../errors.ts";
import { type Id, isId } from "../ids.ts";
import { makeSigned, readSigned } from "./signed.ts";

export type Session = {
  app: Id<"app">;
  sandbox: Id<"sandbox"> | None;
  org: Id<"org">;
  user: Id<"user">;
  sign_in: Id<"sign_in">;
};

export type DeveloperSession = { app: Id<"app">; developer: Id<"developer">; session: Id<"developer_session"> };

const KIND = { prefix: "ses", purpose: "door", label: "session." } as const;
const NAME = "agentry";
const DEVELOPER_KIND = { prefix: "dev", purpose: "door", label: "developer." } as const;
const DEVELOPER_NAME = "agentry-dev";
const COOKIE = { prefix: "host", secure: true, path: "/", httpOnly: true, sameSite: "Lax" } as const;

/** The value of the cookie of a sign-in. */
export const makeSession = (roots: string, { app, sandbox, org, user, sign_in }: Session): Promise<string> =>
  makeSigned(roots, KIND, [app, sandbox, org, user, sign_in].join("."));

type Parsed = Session & { mac: Uint8Array<ArrayBuffer> };
/** Cookies whose MAC was found good: under these root secrets it stays so. That the sign-in lives, the database says. */
const verified = new Map<string, Parsed>();
const MAX_VERIFIED = 1000;

/** Reads a cookie's value and checks its MAC, without a look-up. Null for every flaw alike. */
export async function parseSession(roots: string, text: string): Promise<Parsed | null> {
  const name = `${text} ${roots}`;
  const known = verified.get(name);
  if (known) return known;
  const read = await readSigned(roots, KIND, text);
  if (read?.parts.length !== 5) return null;
  const [app, sandbox, org, user, sign_in] = read.parts as [string, string, string, string, string];
  if (!isId("app", app) || !isId("org", org) || !isId("user", user) || !isId("sign_in", sign_in)) return null;
  if (sandbox !== NONE && !isId("sandbox", sandbox)) return null;
  const session: Parsed = { app, sandbox: sandbox as Session["sandbox"], org, user, sign_in, mac: read.mac };
  if (verified.size >= MAX_VERIFIED) verified.clear();
  verified.set(name, session);
  return session;
}

/** The cookie that a request brings, or undefined. */
export const sessionCookie = (c: Pick<Context, "req">): string | undefined => getCookie(c as Context, NAME, "host");

/** Gives the browser a sign-in, until `ends_at` at the latest: that it is over before, the database says. */
export async function giveSession(c: Context, roots: string, session: Session, ends_at: string): Promise<void> {
  setCookie(c, NAME, await makeSession(roots, session), { ...COOKIE, expires: new Date(ends_at) });
}

export const takeSession = (c: Context): void => setCookie(c, NAME, "", { ...COOKIE, maxAge: 0 });

export const makeDeveloperSession = (roots: string, { app, developer, session }: DeveloperSession): Promise<string> =>
  makeSigned(roots, DEVELOPER_KIND, [app, developer, session].join("."));

export async function parseDeveloperSession(roots: string, text: string) {
  const read = await readSigned(roots, DEVELOPER_KIND, text);
  if (read?.parts.length !== 3) return null;
  const [app, developer, session] = read.parts as [string, string, string];
  if (!isId("app", app) || !isId("developer", developer) || !isId("developer_session", session)) return null;
  return { app, developer, session, mac: read.mac };
}

export const developerCookie = (c: Pick<Context, "req">): string | undefined =>
  getCookie(c as Context, DEVELOPER_NAME, "host");

export async function giveDeveloperSession(c: Context, roots: string, session: DeveloperSession, ends_at: string) {
  const value = await makeDeveloperSession(roots, session);
  setCookie(c, DEVELOPER_NAME, value, { ...COOKIE, expires: new Date(ends_at) });
}

export const takeDeveloperSession = (c: Context): void => setCookie(c, DEVELOPER_NAME, "", { ...COOKIE, maxAge: 0 });

/**
 * Refuses a request that another site made this browser send (403): what it says of itself must be `same-origin`, or,
 * where it says nothing, its Origin ours. SameSite=Lax alone would let a sibling host's forms in.
 */
export function mustBeSameOrigin(c: Pick<Context, "req">): void {
  const site = c.req.header("Sec-Fetch-Site");
  const same = site === undefined ? c.req.header("Origin") === new URL(c.req.url).origin : site === "same-origin";
  if (!same) {
    throw forbidden("cross_origin", "A session's cookie counts only for requests that pages of this host make.");
  }
}
