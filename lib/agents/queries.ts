import { type RawBuilder, type SqlBool, sql } from "kysely";
import { firstAcl, nextAcl, type Person, passes } from "../auth/acl.ts";
import type { Viewer } from "../auth/allow.ts";
import { asConflict } from "../db/errors.ts";
import { NONE } from "../db/schema.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { forbidden, invalid, notFound } from "../errors.ts";
import { type Id, isId } from "../ids.ts";
import { containing, windowOf } from "../paging.ts";
import { type AgentRow, type CreateAgent, type ListAgents, lookupKeyShape, type UpdateAgent } from "./schema.ts";

/** An agent's id or its lookup_key, as an address names it. */
function isNamed(name: string): RawBuilder<SqlBool> {
  if (isId("agent", name)) return sql`agents.id = ${name}`;
  return lookupKeyShape.test(name) ? sql`agents.lookup_key = ${name}` : sql`false`;
}

/** What the feed says of an agent: who could read the agent can read the entry. */
const about = {
  agent_id: sql<string>`id`,
  readers: sql<string[] | null>`case when user_id is null then readers else readers || ('user:' || user_id) end`,
};

const noSuch = (field: "org" | "user") => invalid({ field, message: `there is no such ${field}` });

/** The columns that a body sets; absent leaves alone, null and (for the model) an empty string clear. */
function columns({ model, default_model, metadata, org: _o, user: _u, acl: _a, ...body }: UpdateAgent) {
  const { name, description, identity, originator, lookup_key } = body;
  const chosen = default_model === undefined ? model : default_model;
  return {
    ...(name !== undefined && { name }),
    ...(description !== undefined && { description }),
    ...(identity !== undefined && { identity }),
    ...(originator !== undefined && { originator }),
    ...(lookup_key !== undefined && { lookup_key }),
    ...(chosen !== undefined && { default_model: chosen || null }),
    ...(metadata !== undefined && { metadata: JSON.stringify(metadata) }),
  };
}

/** One page of the agents that the viewer may read, newest first, and how many those are. */
export async function listAgents(db: TenantDb, viewer: Person, query: ListAgents) {
  const { search, user, org_id, template_config, solution_config, ...page } = query;
  let agents = db.selectFrom("agents").where(passes(viewer, "readers"));
  // What is malformed names nothing, and no agent has come from a template yet.
  const none = sql<boolean>`false`;
  if (user !== undefined) agents = agents.where(isId("user", user) ? sql<boolean>`user_id = ${user}` : none);
  if (org_id !== undefined) agents = agents.where(isId("org", org_id) ? sql<boolean>`org_id = ${org_id}` : none);
  if (template_config !== undefined || solution_config !== undefined) agents = agents.where(none);
  if (search) {
    const found = containing(search);
    const owner = (table: "orgs" | "users", column: "org_id" | "user_id") => sql`exists (
      select from (${db.selectFrom(table).select(["id", "name"] as never)}) owner
       where owner.id = agents.${sql.ref(column)} and owner.name ilike ${found})`;
    agents = agents.where(
      sql<boolean>`(agents.name ilike ${found} or ${owner("orgs", "org_id")} or ${owner("users", "user_id")})`,
    );
  }
  const { limit, offset } = windowOf(page);
  const [rows, [count]] = await db.batch(
    agents.selectAll().orderBy("id", "desc").limit(limit).offset(offset),
    agents.select(sql<number>`count(*)`.as("total")),
  );
  return { rows, total: count!.total };
}

/**
 * Makes an agent: of a user (in that user's org), of an org, or of the viewer's own place. 409 on a lookup_key that
 * the app already has; 422 on an owner that isn't there; 403 for another person's agent, unless by an admin.
 */
export async function createAgent(db: TenantDb, viewer: Viewer, id: Id<"agent">, body: CreateAgent): Promise<AgentRow> {
  const { org, user, acl } = body;
  const row = { id, ...columns(body), name: body.name, acl: acl ? firstAcl(acl) : null };
  if (viewer.kind === "token" && org && org !== viewer.org) throw noSuch("org");
  const place = viewer.kind === "key" && org ? db.within(org) : db;
  const agent = user
    ? place.insertUnder({ table: "users", id: user, where: mayOwnFor(viewer, user) }, "agents", {
        ...row,
        user_id: user,
      })
    : place.insertInto("agents", row);
  const told = place.telling(agent, {
    kind: "agent.created",
    title: sql`'Agent created: ' || coalesce(name, id)`,
    ...about,
  });
  if (!user) return (await told.executeTakeFirst().catch(asConflict))!;
  const [[made], [owner]] = await place
    .batch(told, db.selectFrom("users").select("id").where("id", "=", user))
    .catch(asConflict);
  if (made) return made;
  throw owner ? notTheirs() : noSuch("user");
}

/** A person makes agents of its own; an admin also for others, a developer for anybody. */
const mayOwnFor = (viewer: Viewer, user: string): RawBuilder<SqlBool> =>
  viewer.kind === "key" || viewer.user === user
    ? sql`true`
    : sql`(select current_setting('app.org_role', true)) = 'admin'`;

const notTheirs = () => forbidden("forbidden", "Only an admin of the org may make an agent another person's own.");

export async function getAgent(db: TenantDb, viewer: Person, name: string): Promise<AgentRow> {
  const row = await db
    .selectFrom("agents")
    .selectAll()
    .where(isNamed(name))
    .where(passes(viewer, "readers"))
    .executeTakeFirst();
  if (!row) throw notFound("agent");
  return row;
}

/** What a write that changed nothing met: an agent that is hidden or absent (404), or one that may only be read (403). */
const readable = (db: TenantDb, viewer: Viewer, name: string) =>
  db.selectFrom("agents").select(["id", "org_id"]).where(isNamed(name)).where(passes(viewer, "readers"));
const readOnly = () =>
  forbidden("forbidden", "You may read this agent, but its access list does not let you change it.");

/** Changes an agent. 403 where the viewer may read it but not write. An agent stays in its org. */
export async function updateAgent(db: TenantDb, viewer: Viewer, name: string, body: UpdateAgent): Promise<AgentRow> {
  const { org, user, acl } = body;
  let change = db
    .updateTable("agents")
    .set({
      ...columns(body),
      ...(user !== undefined && { user_id: user }),
      ...(acl !== undefined && { acl: nextAcl(acl) }),
      updated_at: sql`now()`,
    })
    .where(isNamed(name))
    .where(passes(viewer, "writers"));
  const owner = db
    .selectFrom("users")
    .select(["id", "org_id"])
    .where("id", "=", user ?? ("" as Id<"user">));
  if (org !== undefined) change = change.where("org_id", "=", org ?? NONE);
  if (user) {
    change = change
      .where(mayOwnFor(viewer, user))
      .where(sql`exists (select from (${owner}) o where o.org_id = agents.org_id)`);
  }
  const [[row], [found], [writable], [owned]] = await db
    .batch(
      db.telling(change, {
        kind: "agent.updated",
        title: sql`'Agent updated: ' || coalesce(name, id)`,
        metadata: { fields: Object.keys(body) },
        ...about,
      }),
      readable(db, viewer, name),
      readable(db, viewer, name).where(passes(viewer, "writers")),
      owner,
    )
    .catch(asConflict);
  if (row) return row;
  if (!found) throw notFound("agent");
  if (!writable) throw readOnly();
  if (org !== undefined && (org ?? NONE) !== found.org_id) {
    throw invalid({ field: "org", message: "can't be changed: an agent stays in its org" });
  }
  if (user && owned?.org_id !== found.org_id) throw noSuch("user");
  throw notTheirs();
}

/** Deletes an agent and everything below it. */
export async function deleteAgent(db: TenantDb, viewer: Viewer, name: string): Promise<void> {
  const change = db.deleteFrom("agents").where(isNamed(name)).where(passes(viewer, "writers"));
  const [[row], [found]] = await db.batch(
    db.telling(change, { kind: "agent.deleted", title: sql`'Agent deleted: ' || coalesce(name, id)`, ...about }),
    readable(db, viewer, name),
  );
  if (row) return;
  throw found ? readOnly() : notFound("agent");
}
