import { type RawBuilder, type SqlBool, sql } from "kysely";
import { firstAcl, isAdmin, isHeld, nextAcl, passes, reach } from "../auth/acl.ts";
import { NONE, type Viewer } from "../db/schema.ts";
import type { Rows, Statement } from "../db/statements.ts";
import type { Telling, TenantDb } from "../db/tenant-db.ts";
import { forbidden, invalid, noSuch, notFound } from "../errors.ts";
import { type Id, isId } from "../ids.ts";
import { containing } from "../paging.ts";
import { type AgentRow, type CreateAgent, type ListAgents, lookupKeyShape, type UpdateAgent } from "./schema.ts";

/** The agent that an address names, by its id or its lookup_key. */
export function agentNamed(db: TenantDb, name: string) {
  const agents = db.selectFrom("agents");
  if (isId("agent", name)) return agents.where("agents.id", "=", name);
  return lookupKeyShape.test(name) ? agents.where("agents.lookup_key", "=", name) : agents.where(sql.lit(false));
}

/** The agent that an address names, for what hangs on it: see `reach`. */
export const reachAgent = (db: TenantDb, name: string, action: "read" | "write") =>
  reach(db, "agent", agentNamed(db, name), action);

/** Who may read what the feed tells of an agent and of what hangs on it: who could read the agent then. */
export const feedReaders = sql<
  string[] | null
>`case when user_id is null then readers else readers || ('user:' || user_id) end`;
const about = { agent_id: sql<string>`id`, readers: feedReaders };

/** The name of an agent's org, in the same statement. */
export const orgName = (db: TenantDb, of: "agents" | "subject") => db.valueOf("orgs", "name", sql.ref(`${of}.org_id`));

/** The columns that a body sets; absent leaves alone, null and (for the model) an empty string clear. */
function columns({ name, description, identity, originator, lookup_key, metadata, ...body }: UpdateAgent) {
  const model = body.default_model === undefined ? body.model : body.default_model;
  return {
    ...{ name, description, identity, originator, lookup_key },
    default_model: model === undefined ? undefined : model || null,
    metadata: metadata && JSON.stringify(metadata),
  };
}

/** One page of the agents that the viewer may read, newest first, and how many those are. */
export function listAgents(db: TenantDb, query: ListAgents) {
  const { search, user, org_id, template_config, solution_config, ...page } = query;
  let agents = db
    .selectFrom("agents")
    .selectAll()
    .select(orgName(db, "agents").as("org_name"))
    .where(passes(db.viewer, "readers"));
  // What is malformed names nothing, and no agent has come from a solution yet.
  const none = sql.lit(false);
  if (user !== undefined) agents = isId("user", user) ? agents.where("user_id", "=", user) : agents.where(none);
  if (org_id !== undefined) agents = isId("org", org_id) ? agents.where("org_id", "=", org_id) : agents.where(none);
  if (template_config !== undefined) {
    agents = isId("config", template_config)
      ? agents.where("template_config_id", "=", template_config)
      : agents.where(none);
  }
  if (solution_config !== undefined) agents = agents.where(none);
  if (search) {
    const found = containing(search);
    const orgs = db.selectFrom("orgs").select("orgs.org_id").where("orgs.name", "ilike", found);
    const users = db.selectFrom("users").select("users.id").where("users.name", "ilike", found);
    agents = agents.where((eb) =>
      eb.or([eb("name", "ilike", found), eb("org_id", "in", orgs), eb("user_id", "in", users)]),
    );
  }
  return db.page(agents, page);
}

/** What comes with a new agent: what keeps it from being made, if that is there, and what is made below it. */
export type Carried = {
  /** The template that it is made of, if that is a config. */
  template_config_id: Id<"config"> | null;
  refusals: (place: TenantDb, org: RawBuilder<unknown>) => Record<string, RawBuilder<unknown>>;
  below: (place: TenantDb, agent: Rows<"agents">) => Record<string, Statement<unknown>>;
  /** Throws what the rows of the refusals say, if they say anything. */
  judge: (found: Record<string, unknown[]>) => void;
};

/**
 * Makes an agent: of a user (in that user's org), of an org, or of the viewer's own place; with what it carries, or not
 * at all. 409 on a lookup_key that the app already has; 422 on an owner that isn't there; 403 for another person's
 * agent, unless by an admin.
 */
export async function createAgent(
  db: TenantDb,
  id: Id<"agent">,
  body: CreateAgent,
  carried?: Carried,
): Promise<AgentRow> {
  const { viewer } = db;
  const { user, acl } = body;
  const place = placeOf(db, body);
  const row = { id, ...columns(body), acl: acl && firstAcl(acl) };
  const shown = { org_name: orgName(place, "subject") };
  const told: Telling = { kind: "agent.created", title: sql`'Agent created: ' || coalesce(name, id)`, ...about };
  if (!user && !carried) {
    const [made] = await place.telling(place.insertInto("agents", row), told, shown).execute();
    return made!;
  }
  const owner = ownerOf(place, user) as Rows<"users">;
  const refusals = carried?.refusals(place, sql`(${owner.select("org_id")})`) ?? {};
  const free = Object.values(refusals).map((rows) => sql<boolean>`not exists (${rows})`);
  const may = user ? [mayOwnFor(viewer, user), ...free] : free;
  const above = may.reduce((rows, condition) => rows.where(condition), owner);
  const template_config_id = carried?.template_config_id;
  const agent = place.insertUnder(above, "agents", { ...row, template_config_id, user_id: user ?? undefined });
  const { made, found, ...rest } = await place.batch({
    ...Object.fromEntries(Object.entries(refusals).map(([name, rows]) => [name, place.running(rows)])),
    made: place.telling(agent, told, shown),
    found: owner.select("org_id"),
    ...carried?.below(place, place.selectFrom("agents").where("agents.id", "=", id)),
  });
  if (made[0]) return made[0];
  if (!found.length) throw noSuch(user ? "user" : "org");
  carried?.judge(rest as Record<string, unknown[]>);
  throw notTheirs();
}

/** The database of where an agent is to be: of the org that a key names, else the viewer's own. */
export function placeOf(db: TenantDb, { org }: CreateAgent): TenantDb {
  if (db.viewer.kind === "user" && org && org !== db.viewer.org) throw noSuch("org");
  return db.viewer.kind === "key" && org ? db.inOrg(org) : db;
}

/** The row whose org an agent is to be in. */
export const ownerOf = (place: TenantDb, user: Id<"user"> | null | undefined) =>
  user
    ? place.selectFrom("users").where("id", "=", user)
    : place.selectFrom("tenants").where("org_id", "=", place.tenant.kind === "org" ? place.tenant.org : NONE);

/** An id that no user has. */
const NOBODY = "" as Id<"user">;

/** A person makes agents of its own; an admin also for others, a developer for anybody. */
export const mayOwnFor = (viewer: Viewer, user: string): RawBuilder<SqlBool> =>
  !isHeld(viewer) || viewer.user === user ? sql`true` : isAdmin(viewer);

const notTheirs = () => forbidden("forbidden", "Only an admin of the org may make an agent another person's own.");

export const getAgent = (db: TenantDb, name: string): Promise<AgentRow> =>
  agentNamed(db, name)
    .selectAll()
    .select(orgName(db, "agents").as("org_name"))
    .where(passes(db.viewer, "readers"))
    .executeTakeFirstOrThrow(() => notFound("agent"));

/** Changes an agent. 403 where the viewer may read it but not write. An agent stays in its org. */
export async function updateAgent(db: TenantDb, name: string, body: UpdateAgent): Promise<AgentRow> {
  const { org, user, acl } = body;
  const agent = reachAgent(db, name, "write");
  const owner = db
    .selectFrom("users")
    .select("org_id")
    .where("id", "=", user ?? NOBODY);
  let change = db
    .patch("agents", { ...columns(body), user_id: user, acl: acl === undefined ? undefined : nextAcl(acl) })
    .where("id", "in", agent.rows.select("id"))
    .where(passes(db.viewer, "writers"));
  if (org !== undefined) change = change.where("org_id", "=", org ?? NONE);
  if (user) change = change.where(mayOwnFor(db.viewer, user)).where("org_id", "in", owner);
  const { row, found, owned } = await agent.db.batch({
    row: db.telling(
      change,
      {
        kind: "agent.updated",
        title: sql`'Agent updated: ' || coalesce(name, id)`,
        metadata: { fields: Object.keys(body) },
        ...about,
      },
      { org_name: orgName(db, "subject") },
    ),
    found: agent.rows.select("org_id"),
    owned: owner,
  });
  if (row[0]) return row[0];
  if (!found[0]) throw notFound("agent");
  const { org_id } = found[0];
  if (org !== undefined && (org ?? NONE) !== org_id) {
    throw invalid({ field: "org", message: "can't be changed: an agent stays in its org" });
  }
  throw user && owned[0]?.org_id !== org_id ? noSuch("user") : notTheirs();
}

/**
 * Ends an agent and everything below it (the database's app.end_row): of many rows the sweep deletes the rest, and the
 * agent last. 409 while another agent uses a config of its own.
 */
export async function deleteAgent(db: TenantDb, name: string): Promise<void> {
  const agent = reachAgent(db, name, "write");
  const change = agent.db
    .updateTable("agents")
    .set({ ended_at: sql`now()` })
    .where("id", "in", agent.rows.select("id"))
    .where("ended_at", "is", null)
    .where(passes(db.viewer, "writers"));
  const { deleted } = await agent.db.batch({
    // Its org first, as whoever ends that does: the two ends would wait for each other's rows.
    held: agent.db.selectFrom("orgs").select("id").where("org_id", "in", agent.rows.select("org_id")).forKeyShare(),
    deleted: agent.db.telling(change, {
      kind: "agent.deleted",
      title: sql`'Agent deleted: ' || coalesce(name, id)`,
      ...about,
    }),
  });
  if (!deleted.length) throw notFound("agent");
}
