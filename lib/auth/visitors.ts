/**
 * Visitors: who isn't signed in, and asks to be. What opens their doors is the Worker's MAC over what is asked; a key beside
 * it, which names the app, must live.
 */
import { createMiddleware } from "hono/factory";
import { CompiledQuery } from "kysely";
import { connect } from "../db/neon.ts";
import { NONE, type None } from "../db/schema.ts";
import { type Door, TenantDb } from "../db/tenant-db.ts";
import { unauthenticated } from "../errors.ts";
import type { Env } from "../http/router.ts";
import { problemResponse, withSpec } from "../http/spec.ts";
import type { Id } from "../ids.ts";
import type { Asked } from "./allow.ts";
import { looksLikeKey, parseKey } from "./keys.ts";
import { hex, mac } from "./secrets.ts";

type Bytes = Uint8Array<ArrayBuffer>;
/** Where somebody asks to be let in: `beside` is the hash of the key that says so; null where one of our own pages does. */
export type Visitor = { app: Id<"app">; sandbox: Id<"sandbox"> | None; beside: Bytes | null };

/** What the doors of visitors are asked for: the method of a sign-in. */
export type Method = "email_code" | "magic_link" | "password";

/** A visitor of the API, by the key that it sends. That the key lives, the door asks. */
async function readVisitor(c: Asked): Promise<Visitor> {
  const bearer = c.req.header("Authorization")?.match(/^Bearer +(\S+)$/i)?.[1];
  const sent = c.req.header("x-archastro-api-key") ?? c.req.header("x-api-key");
  const text = sent ?? (bearer && looksLikeKey(bearer) ? bearer : undefined);
  if (text === undefined) throw unauthenticated(false);
  const key = await parseKey(text);
  if (!key) throw unauthenticated();
  return { app: key.app, sandbox: key.sandbox, beside: key.hash };
}

/** The door of a route for visitors: a publishable key, or a secret one, says of which app they are. 401 without. */
export const visits = withSpec(
  createMiddleware<{ Bindings: Env["Bindings"]; Variables: Env["Variables"] & { visitor: Visitor } }>(
    async (c, next) => {
      c.set("visitor", await readVisitor(c));
      await next();
    },
  ),
  {
    security: [{ publishable_key: [] }],
    responses: {
      401: problemResponse("No key, or one that is wrong or revoked; or what is to prove who it is doesn't"),
      403: problemResponse("The app doesn't let people sign in that way, or not this address"),
    },
  },
);

/**
 * A door of visitors, and what it answers after the first round trip through it. `message` is what the Worker vouches for; all
 * other arguments of the door are `args`. Refusing, it opens nothing: the statements behind it find no row.
 */
export async function openVisitor<Answer>(
  c: Asked,
  { app, sandbox, beside }: Visitor,
  door: "ask_by_mail" | "enter_by_mail" | "password_of" | "enter_by_password" | "register_by_password",
  { method, message }: { method: Method; message: string },
  args: unknown[],
) {
  const tag = await mac(c.env.ROOT_SECRETS, ["visitor", app, sandbox, method, message].join("."), "door");
  const all = [app, sandbox, beside, ...args, tag];
  let answer: Answer | null = null;
  const at: Door = {
    enter: CompiledQuery.raw(`select app.${door}(${all.map((_, i) => `$${i + 1}`)}) as answer`, all),
    ...{ permission: "self", viewer: { kind: "object" } },
    onEntered: (row) => {
      answer = row.answer as Answer | null;
    },
    onTold: () => {},
  };
  const connection = connect(c.env.DATABASE_URL, c.env.DATABASE);
  return { db: new TenantDb(connection, at, { kind: "app", app, sandbox }, "write"), answer: () => answer };
}

/** The door of a login token, which opens its user's org: the first trip uses it up. The key beside it must live, too. */
export async function openLogin(
  c: Asked,
  { app, sandbox, beside }: Visitor,
  kind: string,
  { org, hash }: { org: Id<"org"> | None; hash: Bytes },
): Promise<TenantDb> {
  const tag = await mac(c.env.ROOT_SECRETS, ["once", app, sandbox, org, kind, hex(hash)].join("."), "door");
  const all = [app, sandbox, org, beside, hash, tag];
  const enter = CompiledQuery.raw("select app.enter_login($1, $2, $3, $4, $5, $6)", all);
  const at: Door = { enter, permission: "self", viewer: { kind: "object" }, onTold: () => {} };
  return new TenantDb(connect(c.env.DATABASE_URL, c.env.DATABASE), at, { kind: "org", app, sandbox, org }, "write");
}

/** What a login page says of its place: the names of the app and, where one was named, of the org. Null: there is none. */
export async function showLogin(c: Asked, { app, sandbox }: Omit<Visitor, "beside">, slug: string) {
  const tag = await mac(c.env.ROOT_SECRETS, ["login", app, sandbox, slug].join("."), "door");
  const query = CompiledQuery.raw("select app.show_login($1, $2, $3, $4) as place", [app, sandbox, slug, tag]);
  const [result] = await connect(c.env.DATABASE_URL, c.env.DATABASE)([query], "read");
  return (result!.rows[0] as { place: { app: string; org: string | null } | null }).place;
}

/** The address of an org's login page, below the base URL; without a slug, of its app's. */
export const loginPath = ({ app, sandbox }: Omit<Visitor, "beside">, slug: string) =>
  ["/login", app, ...(sandbox === NONE ? [] : [sandbox]), ...(slug ? [slug] : [])].join("/");

/** The org whose provider signs in the people of an address's domain. Null: none does. */
export async function ssoOf(c: Asked, { app, sandbox }: Omit<Visitor, "beside">, domain: string) {
  const tag = await mac(c.env.ROOT_SECRETS, ["sso_of", app, sandbox, domain].join("."), "door");
  const query = CompiledQuery.raw("select app.sso_of($1, $2, $3, $4) as org", [app, sandbox, domain, tag]);
  const [result] = await connect(c.env.DATABASE_URL, c.env.DATABASE)([query], "read");
  return (result!.rows[0] as { org: Id<"org"> | null }).org;
}

/** What tries are counted by: it tells nobody the address, be it of mail or of a machine. */
export const countedBy = (roots: string, { app, sandbox }: Visitor, what: string) =>
  mac(roots, ["counted", app, sandbox, what].join("."), "door");

/** Where a request comes from: what Cloudflare says, which nobody else can; locally this machine. */
export const ipOf = (c: Asked): string => c.env.CLIENT_IP ?? c.req.header("CF-Connecting-IP") ?? "";
