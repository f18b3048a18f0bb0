/** What a script that somebody sends over HTTP can reach: the web through the guard, and what its sender may see. */

import { sql } from "kysely";
import * as v from "valibot";
import { getAgent, listAgents } from "../agents/queries.ts";
import { listAgentsQuery, toAgent } from "../agents/schema.ts";
import type { Credential } from "../auth/allow.ts";
import { covers, type Permission, rolesWith } from "../auth/permissions.ts";
import { NONE } from "../db/schema.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import type { Bindings } from "../env.ts";
import { ApiError, insufficientScope, invalid } from "../errors.ts";
import { egressOf } from "../http/egress.ts";
import { placeOf, searches } from "../http/gate.ts";
import { mustBeStorable } from "../http/valid.ts";
import { type Id, isId } from "../ids.ts";
import { paginate } from "../paging.ts";
import { type Answer, edgeWorld, type Json, type OutboundCall, type World } from "../script/index.ts";
import { getUser, listUsers } from "../users/queries.ts";
import { listUsersQuery, toUser } from "../users/schema.ts";

/** Opens the sender's database for a permission of its own: a script may not do what its sender's token may not. */
export type Opens = (permission: Permission) => TenantDb;

/** Who a script runs as: what `viewer` says, and what its platform calls see. */
export type Identity = {
  viewer: { app: string; org: string | null; user: string | null; agent: string | null };
  /** The sender's database as the identity sees it, which must itself hold the permission when it is asked. */
  seen: (db: TenantDb, permission: Permission) => TenantDb;
};

type RunAs = { run_as_user?: string | null | undefined; run_as_agent?: string | null | undefined };

/**
 * The identity that a run asks for. A person runs as itself, a developer as any user, who then asks for itself: each
 * call looks up, in its own round trip, what the user's role holds at that moment. Either runs as an agent that it may
 * read. 422 on one that isn't there, 403 on a user of a suspended org. A user without an org has no role, and so no calls.
 */
export async function identify(
  viewer: Credential,
  open: Opens,
  { run_as_user, run_as_agent }: RunAs,
): Promise<Identity> {
  const { app } = viewer;
  const own = viewer.kind === "user" ? { org: viewer.org, user: viewer.user } : { org: null, user: null };
  const itself: Identity = { viewer: { app, ...own, agent: null }, seen: (db) => db };
  try {
    if (run_as_agent) {
      const agent = await getAgent(permitted(viewer, open, "agents:read"), run_as_agent);
      return { ...itself, viewer: { ...itself.viewer, agent: agent.id } };
    }
    if (!run_as_user || run_as_user === own.user || (run_as_user === "me" && own.user)) return itself;
    if (viewer.kind === "user" || !isId("user", run_as_user)) throw noSuch("run_as_user");
    const user = await getUser(open("users:read"), run_as_user);
    const org = user.org_id;
    const seen: Identity["seen"] = (db, permission) =>
      db
        .inOrg(org)
        .behind(sql`select app.act_as(${user.id}, ${rolesWith(permission)})`)
        .as({ kind: "user", user: user.id, org: org as Id<"org"> });
    if (org !== NONE) await seen(open("self"), "self").enter();
    return { viewer: { app, org: org === NONE ? null : org, user: user.id, agent: null }, seen };
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) throw noSuch(run_as_agent ? "run_as_agent" : "run_as_user");
    throw error;
  }
}

const noSuch = (field: string) => invalid({ field, message: "there is no such identity that you may run a script as" });

function permitted(viewer: Credential, open: Opens, permission: Permission): TenantDb {
  if (viewer.kind === "user" && !covers(viewer.scopes, permission)) throw insufficientScope(permission);
  return open(permission);
}

/** The databases of an identity: each refuses what its sender's token or the identity itself may not. */
export const eyesOf =
  (viewer: Credential, open: Opens, { seen }: Identity): Opens =>
  (permission) =>
    seen(permitted(viewer, open, permission), permission);

/** The world of a script: `fetch` behind the guard, and agents and users as the identity sees them. */
export const worldOf = (env: Bindings, viewer: Credential, eyes: Opens): World =>
  edgeWorld({ ...egressOf(env), platform: platformOf(eyes, placeOf(viewer)) });

/** What the platform's functions answer, over databases as somebody sees them; null: there is no such function. */
export function platformOf(db: Opens, place: string): (call: OutboundCall) => Promise<Answer | null> {
  const listing = <Rows>({ search }: { search?: string | undefined }, list: () => Promise<Rows>) =>
    search ? searches.pass(place, list) : list();
  const answers: Record<string, (options: Record<string, Json>) => Promise<Json>> = {
    "agents.get": async ({ agent }) => toAgent(await getAgent(db("agents:read"), String(agent))) as Json,
    "agents.list": async (options) => {
      const query = v.parse(listAgentsQuery, asQuery(options));
      const rows = await listing(query, () => listAgents(db("agents:read"), query));
      return paginate(query, rows, toAgent) as Json;
    },
    "users.get": async ({ user }) => {
      const id = String(user);
      if (!isId("user", id)) throw invalid({ field: "user", message: "must be a user's id" });
      return toUser(await getUser(db("users:read"), id)) as Json;
    },
    "users.list": async (options) => {
      const query = v.parse(listUsersQuery, asQuery(options));
      const rows = await listing(query, () => listUsers(db("users:read"), query));
      return paginate(query, rows, toUser) as Json;
    },
  };
  return async ({ name, args }) => {
    const answer = Object.hasOwn(answers, name) ? answers[name] : undefined;
    if (!answer) return null;
    const [given] = args as Json[];
    const options = isMap(given) ? given : {};
    try {
      mustBeStorable(options);
      return { ok: await answer(options) };
    } catch (error) {
      if (error instanceof ApiError)
        return { error: [error.message, ...error.fields.map((f) => `${f.field} ${f.message}`)].join(" ") };
      if (v.isValiError(error)) return { error: `${name} was given an argument that it does not take` };
      throw error;
    }
  };
}

const isMap = (value: Json | undefined): value is Record<string, Json> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** A script's options as the query string that they stand for. */
const asQuery = (options: Record<string, Json>) =>
  Object.fromEntries(
    Object.entries(options)
      .filter(([, value]) => value !== null)
      .map(([name, value]) => [name, String(value)]),
  );
