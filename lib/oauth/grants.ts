/** What `/oauth/token` gives, by each kind of grant, and what `/oauth/revoke` takes back. */
import { decodeJwt } from "jose";
import { sql } from "kysely";
import { type Asked, openDb, openRefresh } from "../auth/allow.ts";
import { hex } from "../auth/secrets.ts";
import { verifyToken } from "../auth/tokens.ts";
import { mustHold } from "../db/statements.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { ApiError } from "../errors.ts";
import type { Id } from "../ids.ts";
import { parseClientId } from "../oauth-clients/schema.ts";
import { signIn } from "../sign-ins/queries.ts";
import { issue } from "../tokens/issue.ts";
import { rotate } from "../tokens/queries.ts";
import { openCode, openDevice } from "./doors.ts";
import { challengeOf, clientNamed, DEVICE_CODE, type TokenBody, toOauthTokens } from "./schema.ts";
import { invalidGrant, invalidRequest, refusal } from "./wire.ts";

type Body = TokenBody;

/** The tokens of a grant. 400, with OAuth's word, where there are none to give. */
export async function grant(c: Asked, body: Body) {
  const by = GRANTS.get(body.grant_type);
  if (!by) throw refusal("unsupported_grant_type", "This gives tokens for a code, a refresh token or a device's code.");
  // A credential that is dead is a grant that is invalid (RFC 6749 §5.2).
  const given = await by(c, body).catch((error) => {
    throw error instanceof ApiError && [401, 403, 422].includes(error.status) ? invalidGrant() : error;
  });
  if (!given) throw invalidGrant();
  const { token, generation, user } = given;
  return toOauthTokens(await issue(c.env, token, generation), user);
}

const GRANTS = new Map([
  ["authorization_code", byCode],
  ["refresh_token", byRefresh],
  [DEVICE_CODE, byDevice],
]);

/** Each of these, or `invalid_request` that names what is missing. */
function need<K extends keyof Body>(body: Body, ...names: K[]): { [N in K]: string } {
  const missing = names.filter((name) => body[name] === undefined);
  if (missing.length) throw invalidRequest(`Missing: ${missing.join(", ")}.`);
  return body as { [N in K]: string };
}

const VERIFIER = /^[\w.~-]{43,128}$/;

async function byCode(c: Asked, body: Body) {
  const { code, code_verifier, redirect_uri } = need(body, "code", "code_verifier", "redirect_uri");
  const client_id = clientNamed(body);
  if (client_id === undefined) throw invalidRequest("Missing: client_id.");
  const client = parseClientId(client_id)?.client;
  if (!client || !VERIFIER.test(code_verifier)) return null;
  const bound = { client_id, redirect_uri, code_challenge: await challengeOf(code_verifier) };
  const { db, hash } = await openCode(c, code, bound);
  return signedIn(c, db, { client, code: hex(hash) });
}

async function byDevice(c: Asked, body: Body) {
  const { device_code } = need(body, "device_code");
  const door = await openDevice(c, device_code);
  if (!door || !isOf(body, door.client)) return null;
  const given = await signedIn(c, door.db, { client: door.client });
  const why = door.why();
  if (why) throw refusal(why, WHY[why] ?? invalidGrant().message);
  return given;
}
const WHY: Record<string, string> = {
  authorization_pending: "Nobody has decided yet.",
  slow_down: "Asked too early: wait five seconds longer from now on.",
  access_denied: "The person said no.",
};

/** Whether a request names no other client than this one. */
function isOf(body: Body, client: Id<"oauth_client">): boolean {
  const named = clientNamed(body);
  return named === undefined || parseClientId(named)?.client === client;
}

/** Signs in whom the door found; `details` say for which client. */
async function signedIn(c: Asked, db: TenantDb, details: { client: Id<"oauth_client">; code?: string }) {
  const user_agent = c.req.header("User-Agent");
  const { statements, read } = signIn(db, null, {
    ...{ method: "oauth", carrier: "api", granted: true, user_agent, details },
  });
  const found = read(await db.batch(statements));
  return found && { token: found.token!, generation: 0, user: found.user };
}

/** The sign-ins of OAuth clients, or of this one alone. */
const ofClient = (db: TenantDb, named: string | undefined) => {
  const families = db.selectFrom("token_families").where(sql<boolean>`details ->> 'client' is not null`);
  return named === undefined
    ? families
    : families.where(sql<boolean>`details ->> 'client' = ${parseClientId(named)?.client ?? ""}`);
};

async function byRefresh(c: Asked, body: Body) {
  const { refresh_token } = need(body, "refresh_token");
  const { db, family, generation } = await openRefresh(c, refresh_token);
  const own = ofClient(db, clientNamed(body)).where("id", "=", family).select("id");
  return rotate(db.behind(mustHold(sql`exists (${own})`, "client", "is another")), family, generation);
}

/**
 * Ends the sign-in that a token of a client is of, and with it all its tokens (RFC 7009 §2.1). What is no such token, or
 * is over, is not said: there is nothing left to end.
 */
export async function revoke(c: Asked, token: string, client: string | undefined): Promise<void> {
  try {
    const found = await tokenOf(c, token);
    if (!found) return;
    const { db, family } = found;
    const change = db
      .updateTable("token_families")
      .set({ revoked_at: sql`now()` })
      .where("id", "in", ofClient(db, client).where("id", "=", family).select("id"))
      .where("revoked_at", "is", null);
    await db
      .telling(change, {
        ...{ kind: "sign_in.ended", title: sql`'Signed out'`, metadata: { sign_ins: [family] } },
        ...{ user_id: sql`user_id`, readers: sql`array['user:' || user_id]` },
      })
      .execute();
  } catch (error) {
    if (!(error instanceof ApiError) || ![401, 403].includes(error.status)) throw error;
  }
}

/** The sign-in that a refresh or an access token is of, behind the token's own door. */
async function tokenOf(c: Asked, text: string) {
  if (text.startsWith("rt_")) return openRefresh(c, text);
  const token = await verifyToken(c.env, text);
  if (!token) return null;
  const family = decodeJwt(text).sid as Id<"sign_in"> | undefined;
  return family ? { db: openDb(c, { kind: "user", ...token, beside: null }, "self"), family } : null;
}
