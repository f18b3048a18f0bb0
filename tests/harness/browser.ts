import { base64url } from "jose";
import { type DeveloperSession, makeDeveloperSession, makeSession, type Session } from "../../lib/auth/sessions.ts";
import { newId } from "../../lib/ids.ts";

type Sql = (statement: string, params: string[]) => Promise<unknown[]>;

/**
 * A user's browser, signed in without any page: the headers that it sends to its own host, and its sign-in. `sql` is the
 * database's owner's, `roots` are the system's.
 */
export async function aBrowser(sql: Sql, roots: string, user: string) {
  const [session] = (await sql(
    `insert into data.token_families (app_id, sandbox_id, org_id, id, user_id, scopes, access_lifetime_s, method, carrier,
        auth_time, idle_s, expires_at, ends_at)
      select app_id, sandbox_id, org_id, $2, id, '{full_access}', 3600, 'email_code', 'browser', now() - interval '1 hour', 604800,
        now() + interval '7 days', now() + interval '30 days' from data.users where id = $1
      returning app_id as app, sandbox_id as sandbox, org_id as org, user_id as user, id as sign_in`,
    [user, newId("sign_in")],
  )) as Session[];
  const cookie = await makeSession(roots, session!);
  return { ...session!, cookie, headers: { Cookie: `__Host-agentry=${cookie}`, "Sec-Fetch-Site": "same-origin" } };
}

/** The same of a new developer of an app. */
export async function aDeveloper(sql: Sql, roots: string, app: string) {
  const [session] = (await sql(
    `with made as (insert into data.developers (app_id, id, email) values ($1, $2, $2) returning *)
      insert into data.developer_sessions (app_id, id, developer_id, idle_s, expires_at, ends_at)
      select app_id, $3, id, 604800, now() + interval '7 days', now() + interval '30 days' from made
      returning app_id as app, developer_id as developer, id as session`,
    [app, newId("developer"), newId("developer_session")],
  )) as DeveloperSession[];
  const cookie = await makeDeveloperSession(roots, session!);
  return { ...session!, cookie, headers: { Cookie: `__Host-agentry-dev=${cookie}`, "Sec-Fetch-Site": "same-origin" } };
}

/** The cookie's value with this in the place of one of its parts, under the MAC that it had. */
export function forged(cookie: string, change: (parts: string[]) => void): string {
  const [body, tag] = cookie.slice("ses_".length).split(".") as [string, string];
  const parts = new TextDecoder().decode(base64url.decode(body)).split(".");
  change(parts);
  return `ses_${base64url.encode(parts.join("."))}.${tag}`;
}
