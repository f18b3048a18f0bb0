/** The door of a route: which credential, which permission, and the only database that the handler can have. */

import type { Context } from "hono";
import { createMiddleware } from "hono/factory";
import { CompiledQuery, sql } from "kysely";
import { type Connection, connect } from "../db/neon.ts";
import { type Metadata, NONE, type None } from "../db/schema.ts";
import { type Door, TenantDb } from "../db/tenant-db.ts";
import { ApiError, insufficientScope, notFound, unauthenticated } from "../errors.ts";
import { wakeDispatcher } from "../events/remote.ts";
import type { Env } from "../http/router.ts";
import { problemResponse, withSpec } from "../http/spec.ts";
import type { Id } from "../ids.ts";
import type { Place } from "../objects/stub.ts";
import { tellFull } from "../quotas.ts";
import { type ApiKey, looksLikeKey, parseKey } from "./keys.ts";
import { covers, FULL_ACCESS, isDevelopers, type Permission, type Resource, rolesWith } from "./permissions.ts";
import { newPlaceToken, readPlaceToken } from "./place-tokens.ts";
import { parseRefreshToken } from "./refresh.ts";
import { hex, mac } from "./secrets.ts";
import {
  type DeveloperSession,
  developerCookie,
  mustBeSameOrigin,
  parseDeveloperSession,
  parseSession,
  type Session,
  sessionCookie,
} from "./sessions.ts";
import { type AccessToken, verifyToken } from "./tokens.ts";

type Bytes = Uint8Array<ArrayBuffer>;
type InApp = { app: Id<"app">; sandbox: Id<"sandbox"> | None; beside: Bytes | null };
type Browsers = Session & { mac: Bytes; scopes: string[] };
type Developers = DeveloperSession & { mac: Bytes };
/**
 * A credential that could be one. A user: a person of an org, by an access token or by a browser's session. A key: the
 * developer, in production or in one sandbox, by a secret key; or in production, by a browser's session.
 */
export type Credential = InApp &
  (({ kind: "key" } & ({ hash: Bytes } | Developers)) | ({ kind: "user" } & (AccessToken | Browsers)));
/** A browser's session. */
export type BrowserCredential = Extract<Credential, Browsers>;
/** A developer's session. */
export type DeveloperCredential = Extract<Credential, Developers>;

/** The part of a request that a credential is read from. */
export type Asked = Pick<Context<Env>, "req" | "env" | "executionCtx">;

export type Allowed = {
  Bindings: Env["Bindings"];
  Variables: Env["Variables"] & { credential: Credential; db: TenantDb };
};

const readApiKey = (c: Asked) => c.req.header("x-archastro-api-key") ?? c.req.header("x-api-key");

/** A key sent beside a credential: it must be of the same app and sandbox; that it lives, the database checks. */
function besideOf(key: ApiKey | null, { app, sandbox }: { app: string; sandbox: string }): Bytes {
  if (!key || key.app !== app || key.sandbox !== sandbox) throw unauthenticated();
  return key.hash;
}

/**
 * Reads the credential, without any look-up: `Authorization: Bearer` with a token or a secret key, or a key as
 * `x-archastro-api-key` (or `x-api-key`). With both, the Authorization header decides. A cookie counts where neither was
 * sent, and only for what our own pages ask: a developer's where the permission is one. Null where nothing was sent.
 */
export async function readCredential(c: Asked, permission: Permission = "self"): Promise<Credential | null> {
  const authorization = c.req.header("Authorization");
  const apiKey = readApiKey(c);
  const key = apiKey === undefined ? undefined : await parseKey(apiKey);
  if (authorization === undefined) {
    if (key === undefined) return readCookie(c, permission);
    if (key?.type !== "secret") throw unauthenticated();
    return { kind: "key", ...key, beside: null };
  }
  const bearer = authorization.match(/^Bearer +(\S+)$/i)?.[1] ?? "";
  if (looksLikeKey(bearer)) {
    const secret = await parseKey(bearer);
    if (secret?.type !== "secret") throw unauthenticated();
    return { kind: "key", ...secret, beside: key === undefined ? null : besideOf(key, secret) };
  }
  const token = await verifyToken(c.env, bearer);
  if (!token) throw unauthenticated();
  return { kind: "user", ...token, beside: key === undefined ? null : besideOf(key, token) };
}

/** The session of a browser, whoever made it send the cookie: for a page that only shows. */
export async function readPageSession(c: Asked): Promise<BrowserCredential | null> {
  const session = await parseSession(c.env.ROOT_SECRETS, sessionCookie(c) ?? "");
  return session && { kind: "user", ...session, scopes: [FULL_ACCESS], beside: null };
}

/** The same of a developer's. */
export async function readDeveloperSession(c: Asked): Promise<DeveloperCredential | null> {
  const session = await parseDeveloperSession(c.env.ROOT_SECRETS, developerCookie(c) ?? "");
  return session && { kind: "key", ...session, sandbox: NONE, beside: null };
}

async function readCookie(c: Asked, permission: Permission): Promise<Credential | null> {
  const develops = isDevelopers(permission) && developerCookie(c) !== undefined;
  if (!develops && sessionCookie(c) === undefined) return null;
  mustBeSameOrigin(c);
  const session = await (develops ? readDeveloperSession(c) : readPageSession(c));
  if (!session) throw unauthenticated();
  return session;
}

/** The door of a credential, by a permission. */
function enterBy(credential: Credential, permission: Permission): CompiledQuery {
  const { app, sandbox, beside } = credential;
  if (credential.kind === "key") {
    return "hash" in credential
      ? CompiledQuery.raw("select app.enter_key($1, $2, $3, $4) as stale", [app, sandbox, credential.hash, beside])
      : CompiledQuery.raw("select app.enter_developer($1, $2, $3, $4) as stale", [
          ...[app, credential.developer, credential.session, credential.mac],
        ]);
  }
  const { org, user } = credential;
  const roles = rolesWith(permission);
  return "token" in credential
    ? CompiledQuery.raw("select app.enter_token($1, $2, $3, $4, $5, $6, $7) as stale", [
        ...[app, sandbox, org, user, credential.token, roles, beside],
      ])
    : CompiledQuery.raw("select app.enter_session($1, $2, $3, $4, $5, $6, $7) as stale", [
        ...[app, sandbox, org, user, credential.sign_in, roles, credential.mac],
      ]);
}

/** The database of a credential: its tenant, and the door that each round trip goes through. */
export function openDb(
  c: Asked,
  credential: Credential,
  permission: Permission,
  connection: Connection = connect(c.env.DATABASE_URL, c.env.DATABASE),
): TenantDb {
  const { app, sandbox } = credential;
  const door: Door = {
    ...{ enter: enterBy(credential, permission), permission, viewer: credential },
    onEntered: ({ stale }) => stale && c.executionCtx.waitUntil(noteUse()),
    onTold: (place) => c.executionCtx.waitUntil(wakeDispatcher(c.env, place)),
    onFull: (full) => c.executionCtx.waitUntil(tellFull(open("write", door), full)),
  };
  const open = (mode: "read" | "write", at: Door) =>
    new TenantDb(
      connection,
      at,
      credential.kind === "key" ? { kind: "app", app, sandbox } : { kind: "org", app, sandbox, org: credential.org },
      mode,
    );
  /** `last_used_at`, after the answer has gone out; of a crowd of requests, one writes. */
  const noteUse = async () => {
    const { onEntered, ...again } = door;
    const db = open("write", again);
    const stale = sql<boolean>`(last_used_at is null or last_used_at < now() - interval '1 minute')`;
    const last_used_at = sql<string>`now()`;
    // A browser's use is what keeps its session alive; what has ended meanwhile stays so.
    const longer = { last_used_at, expires_at: sql<string>`least(ends_at, now() + make_interval(secs => idle_s))` };
    const lives = sql<boolean>`expires_at > now()`;
    const use =
      "hash" in credential
        ? db.updateTable("keys").set({ last_used_at }).where("hash", "=", credential.hash).where(stale)
        : "token" in credential
          ? db.updateTable("tokens").set({ last_used_at }).where("id", "=", credential.token).where(stale)
          : credential.kind === "key"
            ? db
                .updateTable("developer_sessions")
                .set(longer)
                .where("id", "=", credential.session)
                .where(lives)
                .where(stale)
            : db
                .updateTable("token_families")
                .set(longer)
                .where("id", "=", credential.sign_in)
                .where(lives)
                .where(stale);
    // Revoked in between: there is nothing left to note.
    await use.execute().catch((error) => {
      if (!(error instanceof ApiError)) throw error;
    });
  };
  return open(c.req.method === "GET" || c.req.method === "HEAD" ? "read" : "write", door);
}

/** What the door of `openDb` asks for, as app.watch takes it: equal for all that one credential asks for by one permission. */
export function toWatch(credential: Credential, permission: Permission): string {
  const { app, sandbox, beside } = credential;
  const place = { app, sandbox, beside: beside && hex(beside) };
  if ("hash" in credential) return JSON.stringify({ ...place, key_hash: hex(credential.hash) });
  // No developer's address is a stream; app.watch knows no such sign-in.
  if (credential.kind === "key") throw new Error("a developer's sign-in can't be watched");
  const { org, user } = credential;
  const person = { ...place, org, usr: user, roles: rolesWith(permission) };
  return "token" in credential
    ? JSON.stringify({ ...person, jti: credential.token })
    : JSON.stringify({ ...person, family: credential.sign_in, mac: hex(credential.mac) });
}

/** Refuses a token that may not do this to each of these resources, too: for a request that does what several routes do. */
export function mustCover(credential: Credential, resources: readonly Resource[], action: "read" | "write"): void {
  if (credential.kind !== "user") return;
  for (const resource of resources) {
    if (!covers(credential.scopes, `${resource}:${action}`)) throw insufficientScope(`${resource}:${action}`);
  }
}

/**
 * Names what a route demands, on the route's line. Verifies the credential, checks the permission, and supplies
 * `c.var.db`, which knows who asks; without it there is no database, and the handler does not compile. Refuses in
 * this order: 401 (signature, expiry), 403 (scope), and, in the database, 401 (dead), 403 (role, suspended), before a
 * large body is read (lib/http/body.ts) and before anything is said to be absent. An `:app_id` in the address must be
 * the credential's own: any other app is absent.
 */
export const allow = (permission: Permission) =>
  withSpec(
    createMiddleware<Allowed>(async (c, next) => {
      const credential = await readCredential(c, permission);
      if (!credential) throw unauthenticated(false);
      if (credential.kind === "user" && !covers(credential.scopes, permission)) throw insufficientScope(permission);
      const connection = connect(c.env.DATABASE_URL, c.env.DATABASE);
      let trips = 0;
      const db = openDb(c, credential, permission, (...batch) => {
        trips++;
        return connection(...batch);
      });
      const app = c.req.param("app_id");
      if (app !== undefined && app !== credential.app) {
        await db.enter();
        throw notFound("app");
      }
      c.set("credential", credential);
      c.set("db", db);
      await next();
      if (trips === 0) await enterUnasked(db, c.error);
    }),
    {
      security: isDevelopers(permission)
        ? [{ secret_key: [] }, { api_key: [] }, { developer_session: [] }]
        : [{ access_token: [] }, { secret_key: [] }, { api_key: [] }, { session: [] }],
      ...({ "x-permission": permission } as object),
      responses: {
        401: problemResponse("No credential, or one that is wrong, expired or revoked"),
        403: problemResponse("The credential lacks the permission, or its org is suspended"),
      },
    },
  );

/** A malformed id and a cursor that does not open are seen without the database: the dead don't learn of them. */
async function enterUnasked(db: TenantDb, error: Error | undefined): Promise<void> {
  if (error instanceof ApiError && (error.status === 404 || error.code === "invalid_cursor")) await db.enter();
}

/**
 * The database of a credential's place for the end of what it has begun, where the database has let it in before. So it
 * is written down though the credential dies meanwhile.
 */
export const openAfterwards = ({ env }: Asked, credential: Credential): Promise<TenantDb> =>
  openPlace(env, {
    ...{ app_id: credential.app, sandbox_id: credential.sandbox },
    org_id: credential.kind === "user" ? credential.org : NONE,
  });

/**
 * The database of a row's place, for what goes on behind that row, which came through a door: by a MAC over the place, as
 * an object's. It is refused once the place has ended. `hold` takes what is to be waited for after something was told.
 */
export async function openPlace(
  env: Env["Bindings"],
  place: Place,
  hold: (waking: Promise<void>) => void = () => {},
): Promise<TenantDb> {
  const { app_id: app, sandbox_id: sandbox, org_id: org } = place;
  const tag = await mac(env.ROOT_SECRETS, ["object", app, sandbox, org].join("."), "door");
  const enter = CompiledQuery.raw("select app.enter_object($1, $2, $3, $4)", [app, sandbox, org, tag]);
  const onTold = (at: Place) => hold(wakeDispatcher(env, at));
  const door: Door = { enter, permission: "self", viewer: { kind: "object" }, onTold };
  return new TenantDb(connect(env.DATABASE_URL, env.DATABASE), door, { kind: "org", app, sandbox, org }, "write");
}

/**
 * The door of a refresh token, which is a credential of its own: its MAC is checked here, that its sign-in, user and
 * org are alive, in the database.
 */
export async function openRefresh(c: Asked, text: string) {
  const refresh = await parseRefreshToken(c.env.ROOT_SECRETS, text);
  if (!refresh) throw unauthenticated();
  const { app, sandbox, org, family, generation } = refresh;
  const apiKey = readApiKey(c);
  const beside = apiKey === undefined ? null : besideOf(await parseKey(apiKey), refresh);
  const enter = CompiledQuery.raw("select app.enter_refresh($1, $2, $3, $4, $5)", [app, sandbox, org, family, beside]);
  const door: Door = { enter, permission: "self", viewer: { kind: "object" }, onTold: () => {} };
  const db = new TenantDb(
    connect(c.env.DATABASE_URL, c.env.DATABASE),
    door,
    { kind: "org", app, sandbox, org },
    "write",
  );
  return { db, family, generation };
}

/**
 * The door of an inbound webhook, whose credential is the token in its address. `hash` is what is known of that. 404 for an
 * unknown, a deleted and a malformed one, each of which is looked for.
 */
export async function openHook(c: Asked, token: string) {
  const { app, sandbox, org, hash } = await readPlaceToken("whk", token);
  const tag = await mac(c.env.ROOT_SECRETS, ["hook", app, sandbox, org, hex(hash)].join("."), "door");
  const enter = CompiledQuery.raw("select app.enter_hook($1, $2, $3, $4, $5)", [app, sandbox, org, hash, tag]);
  const onTold: Door["onTold"] = (place) => c.executionCtx.waitUntil(wakeDispatcher(c.env, place));
  const door: Door = { enter, permission: "self", viewer: { kind: "object" }, onTold };
  const connection = connect(c.env.DATABASE_URL, c.env.DATABASE);
  return { db: new TenantDb(connection, door, { kind: "org", app, sandbox, org }, "write"), hash };
}

/**
 * The door of an org's identity provider, whose credential is a SCIM token as `Authorization: Bearer`. `use` is given the
 * database, and says what it ended with. 401 for one that is malformed, unknown or deleted, each of which is looked for.
 */
export async function openScim(c: Asked, use: (db: TenantDb) => Promise<Error | undefined>): Promise<void> {
  const authorization = c.req.header("Authorization");
  if (authorization === undefined) throw unauthenticated(false);
  const { app, sandbox, org, hash } = await readPlaceToken("scim", authorization.match(/^Bearer +(\S+)$/i)?.[1] ?? "");
  const tag = await mac(c.env.ROOT_SECRETS, ["scim", app, sandbox, org, hex(hash)].join("."), "door");
  const enter = CompiledQuery.raw("select app.enter_scim($1, $2, $3, $4, $5) as stale", [app, sandbox, org, hash, tag]);
  const connection = connect(c.env.DATABASE_URL, c.env.DATABASE);
  let trips = 0;
  const counted: Connection = (...batch) => {
    trips++;
    return connection(...batch);
  };
  const open = (mode: "read" | "write", at: Door) =>
    new TenantDb(counted, at, { kind: "org", app, sandbox, org }, mode);
  const again: Door = {
    ...{ enter, permission: "self", viewer: { kind: "object" } },
    onTold: (place) => c.executionCtx.waitUntil(wakeDispatcher(c.env, place)),
  };
  const used = () =>
    open("write", again)
      .updateTable("scim_tokens")
      .set({ last_used_at: sql<string>`now()` })
      .where("hash", "=", hash)
      .execute()
      .catch((error) => {
        if (!(error instanceof ApiError)) throw error;
      });
  const onEntered: Door["onEntered"] = ({ stale }) => stale && c.executionCtx.waitUntil(used());
  const db = open(c.req.method === "GET" ? "read" : "write", { ...again, onEntered });
  const error = await use(db);
  if (trips === 0) await enterUnasked(db, error);
}

/**
 * The door of a secret that works once (data.one_time_secrets): the first round trip through it uses the secret up, and every
 * other finds nothing. `payload` is, after that trip, what it stands for; null where it was used, expired or never there.
 */
export async function openOnce(c: Asked, { kind, prefix }: OneTime, text: string) {
  const { app, sandbox, org, hash } = await readPlaceToken(prefix, text);
  const tag = await mac(c.env.ROOT_SECRETS, ["once", app, sandbox, org, kind, hex(hash)].join("."), "door");
  const enter = CompiledQuery.raw("select app.enter_once($1, $2, $3, $4, $5, $6) as payload", [
    ...[app, sandbox, org, kind, hash, tag],
  ]);
  let payload: Metadata | null = null;
  const door: Door = {
    ...{ enter, permission: "self", viewer: { kind: "object" } },
    onEntered: (row) => {
      payload = row.payload as Metadata | null;
    },
    onTold: (place) => c.executionCtx.waitUntil(wakeDispatcher(c.env, place)),
  };
  const connection = connect(c.env.DATABASE_URL, c.env.DATABASE);
  return { db: new TenantDb(connection, door, { kind: "org", app, sandbox, org }, "write"), payload: () => payload };
}

/**
 * The door of an org's SSO, for whoever knows its address: a browser on its way to the provider or back, or the provider.
 * What it tells is believed by its signature, or by what was asked of the browser before. 404 where the org has none.
 */
export async function openSso(c: Asked, { app, sandbox, org }: SsoPlace): Promise<TenantDb> {
  const tag = await mac(c.env.ROOT_SECRETS, ["sso", app, sandbox, org].join("."), "door");
  const enter = CompiledQuery.raw("select app.enter_sso($1, $2, $3, $4)", [app, sandbox, org, tag]);
  const onTold: Door["onTold"] = (place) => c.executionCtx.waitUntil(wakeDispatcher(c.env, place));
  const door: Door = { enter, permission: "self", viewer: { kind: "object" }, onTold };
  const connection = connect(c.env.DATABASE_URL, c.env.DATABASE);
  return new TenantDb(connection, door, { kind: "org", app, sandbox, org }, "write");
}
export type SsoPlace = { app: Id<"app">; sandbox: Id<"sandbox"> | None; org: Id<"org"> };

/** What a secret that works once is for, and the prefix of its text. */
export type OneTime = { kind: string; prefix: string };

/** A new such secret of a place, to be given out once, and the row that its insert wants; it works for so many seconds. */
export async function newOneTime(
  { app, sandbox, org }: { app: Id<"app">; sandbox: Id<"sandbox"> | None; org: Id<"org"> | None },
  { kind, prefix }: OneTime,
  { user, payload, seconds }: { user: Id<"user"> | null; payload: Metadata; seconds: number },
) {
  const { token, hash } = await newPlaceToken(prefix, { app, sandbox, org });
  const expires_at = sql<string>`now() + make_interval(secs => ${seconds})`;
  return { token, row: { kind, hash, user_id: user, payload: JSON.stringify(payload), expires_at } };
}
