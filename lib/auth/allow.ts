/** The door of a route: which credential, which permission, and the only database that the handler can have. */

import type { Context } from "hono";
import { createMiddleware } from "hono/factory";
import { CompiledQuery, sql } from "kysely";
import { type Connection, connect } from "../db/neon.ts";
import { NONE, type None } from "../db/schema.ts";
import { type Door, TenantDb } from "../db/tenant-db.ts";
import { ApiError, insufficientScope, notFound, unauthenticated } from "../errors.ts";
import { wakeDispatcher } from "../events/remote.ts";
import type { Env } from "../http/router.ts";
import { problemResponse, withSpec } from "../http/spec.ts";
import type { Id } from "../ids.ts";
import type { Place } from "../objects/stub.ts";
import { tellFull } from "../quotas.ts";
import { readHookToken } from "./hooks.ts";
import { type ApiKey, looksLikeKey, parseKey } from "./keys.ts";
import { covers, type Permission, type Resource, rolesWith } from "./permissions.ts";
import { parseRefreshToken } from "./refresh.ts";
import { hex, mac } from "./secrets.ts";
import { type AccessToken, verifyToken } from "./tokens.ts";

type Bytes = Uint8Array<ArrayBuffer>;
type InApp = { app: Id<"app">; sandbox: Id<"sandbox"> | None; beside: Bytes | null };
/** A credential that could be one. A token: a person of an org. A key: the developer, in production or in one sandbox. */
export type Credential = (InApp & { kind: "key"; hash: Bytes }) | (InApp & { kind: "token" } & AccessToken);

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
 * `x-archastro-api-key` (or `x-api-key`). With both, the Authorization header decides. Null where none was sent.
 */
export async function readCredential(c: Asked): Promise<Credential | null> {
  const authorization = c.req.header("Authorization");
  const apiKey = readApiKey(c);
  const key = apiKey === undefined ? undefined : await parseKey(apiKey);
  if (authorization === undefined) {
    if (key === undefined) return null;
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
  return { kind: "token", ...token, beside: key === undefined ? null : besideOf(key, token) };
}

/** The database of a credential: its tenant, and the door that each round trip goes through. */
export function openDb(
  c: Asked,
  credential: Credential,
  permission: Permission,
  connection: Connection = connect(c.env.DATABASE_URL, c.env.DATABASE),
): TenantDb {
  const { app, sandbox, beside } = credential;
  const enter =
    credential.kind === "key"
      ? CompiledQuery.raw("select app.enter_key($1, $2, $3, $4) as stale", [app, sandbox, credential.hash, beside])
      : CompiledQuery.raw("select app.enter_token($1, $2, $3, $4, $5, $6, $7) as stale", [
          app,
          sandbox,
          credential.org,
          credential.user,
          credential.token,
          rolesWith(permission),
          beside,
        ]);
  const door: Door = {
    ...{ enter, permission, viewer: credential },
    onStale: () => c.executionCtx.waitUntil(noteUse()),
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
    const db = open("write", { ...door, onStale: () => {} });
    const stale = sql<boolean>`(last_used_at is null or last_used_at < now() - interval '1 minute')`;
    const use =
      credential.kind === "key"
        ? db.updateTable("keys").set({ last_used_at: sql`now()` }).where("hash", "=", credential.hash).where(stale)
        : db.updateTable("tokens").set({ last_used_at: sql`now()` }).where("id", "=", credential.token).where(stale);
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
  if (credential.kind === "key") return JSON.stringify({ ...place, key_hash: hex(credential.hash) });
  const { org, user, token } = credential;
  return JSON.stringify({ ...place, org, usr: user, jti: token, roles: rolesWith(permission) });
}

/** Refuses a token that may not do this to each of these resources, too: for a request that does what several routes do. */
export function mustCover(credential: Credential, resources: readonly Resource[], action: "read" | "write"): void {
  if (credential.kind !== "token") return;
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
      const credential = await readCredential(c);
      if (!credential) throw unauthenticated(false);
      if (credential.kind === "token" && !covers(credential.scopes, permission)) throw insufficientScope(permission);
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
      // A malformed id and a cursor that does not open are seen without the database: the dead don't learn of them.
      const { error } = c;
      const unasked = trips === 0 && error instanceof ApiError;
      if (unasked && (error.status === 404 || error.code === "invalid_cursor")) await db.enter();
    }),
    {
      security: permission.startsWith("developer:")
        ? [{ secret_key: [] }, { api_key: [] }]
        : [{ access_token: [] }, { secret_key: [] }, { api_key: [] }],
      ...({ "x-permission": permission } as object),
      responses: {
        401: problemResponse("No credential, or one that is wrong, expired or revoked"),
        403: problemResponse("The credential lacks the permission, or its org is suspended"),
      },
    },
  );

/**
 * The database of a credential's place for the end of what it has begun, where the database has let it in before. So it
 * is written down though the credential dies meanwhile.
 */
export const openAfterwards = ({ env }: Asked, credential: Credential): Promise<TenantDb> =>
  openPlace(env, {
    ...{ app_id: credential.app, sandbox_id: credential.sandbox },
    org_id: credential.kind === "token" ? credential.org : NONE,
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
  const door: Door = { enter, permission: "self", viewer: { kind: "object" }, onStale: () => {}, onTold };
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
  const door: Door = { enter, permission: "self", viewer: { kind: "object" }, onStale: () => {}, onTold: () => {} };
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
  const { app, sandbox, org, hash } = await readHookToken(token);
  const tag = await mac(c.env.ROOT_SECRETS, ["hook", app, sandbox, org, hex(hash)].join("."), "door");
  const enter = CompiledQuery.raw("select app.enter_hook($1, $2, $3, $4, $5)", [app, sandbox, org, hash, tag]);
  const onTold: Door["onTold"] = (place) => c.executionCtx.waitUntil(wakeDispatcher(c.env, place));
  const door: Door = { enter, permission: "self", viewer: { kind: "object" }, onStale: () => {}, onTold };
  const connection = connect(c.env.DATABASE_URL, c.env.DATABASE);
  return { db: new TenantDb(connection, door, { kind: "org", app, sandbox, org }, "write"), hash };
}
