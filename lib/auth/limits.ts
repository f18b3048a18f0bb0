/**
 * How often somebody may ask a minute. Cloudflare counts, at each of its locations for itself, and lets a few more through: a
 * brake on who tries names and passwords in bulk. What guards a secret is counted exactly, by the statement that looks.
 */
import type { Context } from "hono";
import { createMiddleware } from "hono/factory";
import { tooMany } from "../errors.ts";
import type { Env } from "../http/router.ts";
import { problemResponse, withSpec } from "../http/spec.ts";
import { parseRefreshToken } from "./refresh.ts";
import { ipOf, type Visitor } from "./visitors.ts";

type Asking = Context<{ Bindings: Env["Bindings"]; Variables: Env["Variables"] & { visitor?: Visitor } }>;
/** `most`: for each there is a binding in wrangler.toml; a Worker without it counts nothing. */
type Limit = { most: 3 | 5 | 10 | 20 | 30; by?: (c: Asking) => Promise<string> };

const bodyOf = (c: Asking) => c.req.valid("json" as never) as { email?: string; refresh_token?: string };
/** The address that the body names, known or not. */
export const byEmail = async (c: Asking) => bodyOf(c).email?.toLowerCase() ?? "";
/** The sign-in whose refresh token it is; for all that are none, the place alone. */
export const bySignIn = async (c: Asking) =>
  (await parseRefreshToken(c.env.ROOT_SECRETS, bodyOf(c).refresh_token ?? ""))?.family ?? "";

/** Lets one place ask so often a minute of an app, and so often of each that a limit goes by: 429 beyond that. */
export const limited = (what: string, ...limits: Limit[]) =>
  withSpec(
    createMiddleware(async (c: Asking, next) => {
      const place = [what, c.get("visitor")?.app ?? "", ipOf(c)];
      const within = limits.map(async ({ most, by }) => {
        const key = [...place, by ? await by(c) : ""].join(" ");
        return (await c.env[`PER_MINUTE_${most}`]?.limit({ key }))?.success ?? true;
      });
      if ((await Promise.all(within)).includes(false)) {
        throw tooMany(60, "This was asked too often from here. Try again in a minute.");
      }
      await next();
    }),
    { responses: { 429: problemResponse("Asked too often from one place: `Retry-After` says when again") } },
  );
