/**
 * What hangs on an agent, whatever its kind: reached through the agent and under its access list, made where the agent
 * is, listed with it, and told of to whoever may read it.
 */
import { type InsertObject, type RawBuilder, type SqlBool, sql, type UpdateObject } from "kysely";
import { passes, type Reached, reach } from "../auth/acl.ts";
import type { Database, OnAgent, Row } from "../db/schema.ts";
import type { Rows, Runs } from "../db/statements.ts";
import type { Telling, TenantDb } from "../db/tenant-db.ts";
import { notFound } from "../errors.ts";
import type { Id } from "../ids.ts";
import { kinds, type StoredKind, type TableOf, type Told } from "../kinds.ts";
import type { CursorPage } from "../paging.ts";
import { agentNamed, feedReaders, reachAgent } from "./queries.ts";

/** A kind whose rows hang on an agent. Of runs those of routines: an automation's are reached by its config. */
export type ChildKind =
  | { [K in StoredKind]: Database[TableOf<K>] extends OnAgent ? K : never }[StoredKind]
  | "agent_routine_run";
type Child<K extends ChildKind> = Row<TableOf<K>>;
type New<K extends ChildKind> = Omit<InsertObject<Database, TableOf<K>>, "id" | "agent_id">;
/** The columns that a list reads, where a row holds more than it shows; without them, all. */
type Columns<K extends ChildKind> = readonly (keyof Child<K> & string)[];
/** Which rows of a list, and which of their columns: without these, all. */
type Which<K extends ChildKind> = { narrow?: (rows: Rows<TableOf<K>>) => Rows<TableOf<K>>; columns?: Columns<K> };
/** The statements below are the same for every such table, which Kysely's types can't say. */
type AnyRows = Rows<"agent_computers">;

const rowsOf = (db: TenantDb, kind: ChildKind) => db.selectFrom(kinds[kind].table) as AnyRows;

/** The row of an address: by its id and, where the address names its agent, of that one alone. */
function named(db: TenantDb, kind: ChildKind, id: string, agent?: string): AnyRows {
  const rows = rowsOf(db, kind).where("id", "=", id as Id<"agent_computer">);
  return agent === undefined ? rows : rows.where("agent_id", "in", agentNamed(db, agent).select("agents.id"));
}

/** Whether its rows have access lists of their own: who reads or writes one passes both. */
const hasAcl = (kind: ChildKind) => "acl" in kinds[kind];
const own = (db: TenantDb, kind: ChildKind, column: "readers" | "writers"): RawBuilder<boolean> =>
  hasAcl(kind) ? passesOwn(db, column) : sql`true`;
/** Whether the viewer passes a row's own list. Without one it is its agent's list that counts, whosever the row is. */
export const passesOwn = (db: TenantDb, column: "readers" | "writers"): RawBuilder<boolean> =>
  passes(db.viewer, column, { user: "user_id" }, "everyone");

/** Who passes two lists, as far as one list can say: those that both name, never more. */
const both = (
  row: string,
) => sql`(select case when a is null then o when o is null then a when 'everyone' = any (a) then o
    when 'everyone' = any (o) then a else array(select unnest(a) intersect select unnest(o)) end
  from (select case when ${sql.ref(`${row}.readers`)} is not null
    then ${sql.ref(`${row}.readers`)} || array_remove(array['user:' || ${sql.ref(`${row}.user_id`)}], null) end as o) own,`;

/** Who may read what is told of a row: who may read its agent, and it. */
export function readersOf(db: TenantDb, kind: ChildKind, row = "changed"): RawBuilder<string[] | null> {
  const agent = db.selectFrom("agents").where("agents.id", "=", sql.ref<Id<"agent">>(`${row}.agent_id`));
  return hasAcl(kind)
    ? sql`${both(row)} (${agent.select(feedReaders.as("a"))}) above)`
    : sql`(${agent.select(feedReaders.as("readers"))})`;
}

/** What the feed tells of one: who may read the agent, and it, may read the entry. */
export function telling<K extends ChildKind>(db: TenantDb, kind: K, event: "created" | "updated" | "deleted"): Telling {
  const facts: { name: string; title?: string } = kinds[kind];
  const title = facts.title ? sql`coalesce(${sql.ref(facts.title)}, id)` : sql`id`;
  return {
    kind: `${kind}.${event}` as Told,
    title: sql`${`${facts.name[0]!.toUpperCase()}${facts.name.slice(1)} ${event}: `} || ${title}`,
    agent_id: sql`agent_id`,
    readers: readersOf(db, kind),
  };
}

/** A row by its id, and the database behind its agent's access list: see `reach`. */
export function reachChild<K extends ChildKind>(
  db: TenantDb,
  kind: K,
  id: Id<K>,
  action: "read" | "write",
  agent?: string,
): Reached<TableOf<K>> {
  const rows = named(db, kind, id, agent).where(own(db, kind, "readers"));
  const above = reach(db, kind, db.selectFrom("agents").where("id", "in", rows.select("agent_id")), action);
  const under = rows.where("agent_id", "in", above.rows.select("id"));
  // What is somebody's and has no list everybody reads who reads the agent; only that one changes it.
  const reached = hasAcl(kind)
    ? reach(above.db, kind, under, action, undefined, "everyone")
    : { db: above.db, rows: under };
  return reached as unknown as Reached<TableOf<K>>;
}

/** 404 unless the viewer may read its agent. */
export const getChild = <K extends ChildKind>(db: TenantDb, kind: K, id: Id<K>, agent?: string): Promise<Child<K>> =>
  readable(db, kind, named(db, kind, id, agent))
    .selectAll()
    .executeTakeFirstOrThrow(() => notFound(kind)) as Promise<unknown> as Promise<Child<K>>;

/** Those of a kind's rows that the viewer may read. */
export const readable = (db: TenantDb, kind: ChildKind, rows = rowsOf(db, kind)): AnyRows =>
  rows
    .where(own(db, kind, "readers"))
    .where("agent_id", "in", db.selectFrom("agents").select("agents.id").where(passes(db.viewer, "readers")));

/** All of an agent, newest first. There are at most a hundred. */
export function listChildren<K extends ChildKind>(
  db: TenantDb,
  kind: K,
  agent: string,
  { narrow = (rows) => rows, columns }: Which<K> = {},
): Promise<Child<K>[]> {
  const above = reachAgent(db, agent, "read");
  const rows = narrow(rowsOf(above.db, kind) as unknown as Rows<TableOf<K>>) as unknown as AnyRows;
  return (columns ? rows.select(columns as never) : rows.selectAll())
    .where("agent_id", "in", above.rows.select("id"))
    .where(own(db, kind, "readers"))
    .orderBy(sql`id desc`)
    .execute() as Promise<unknown> as Promise<Child<K>[]>;
}

/**
 * Those of these agents (by id or lookup_key; without any, of all agents) that the viewer may read, from a cursor on,
 * newest first; one more than asked for, if there is one. 404 where one of the agents isn't there.
 */
export function listChildrenOf<K extends ChildKind>(
  db: TenantDb,
  kind: K,
  agents: readonly string[] | undefined,
  page: CursorPage,
  { narrow = (rows) => rows, columns }: Which<K> = {},
): Promise<Child<K>[]> {
  const seen = db.selectFrom("agents").select("agents.id").where(passes(db.viewer, "readers"));
  const list = (from: TenantDb, of: typeof seen) => {
    const rows = narrow(rowsOf(from, kind).where(own(db, kind, "readers")) as unknown as Rows<TableOf<K>>);
    const listed = (rows as unknown as AnyRows).where("agent_id", "in", of);
    return from.pageByCursor(listed, page, columns as never) as Promise<unknown> as Promise<Child<K>[]>;
  };
  if (!agents) return list(db, seen);
  const there = seen.where(sql<boolean>`(id = asked or lookup_key = asked)`);
  const gate = sql`select app.must_reach('agent', (select true where not exists
    (select from unnest(${agents}::text[]) as names (asked) where not exists ${there})))`;
  const named = seen.where(sql<boolean>`(id = any (${agents}::text[]) or lookup_key = any (${agents}::text[]))`);
  return list(db.behind(gate), named);
}

/** What makes one on the agent that an address names, and the database to run it on: see `createChild`. */
export function insertChild<K extends ChildKind>(db: TenantDb, kind: K, agent: string, id: Id<K>, values: New<K>) {
  const above = reachAgent(db, agent, "write");
  const row = { id, agent_id: sql`agents.id`, ...values } as never;
  const insert = above.db.telling(
    above.db.insertUnder(above.rows, kinds[kind].table, row),
    telling(db, kind, "created"),
  );
  return { ...above, insert: insert as unknown as Runs<Child<K>> };
}

/** Makes one on the agent that an address names; it is where the agent is. 422 `limit_reached` beyond the hundredth. */
export const createChild = <K extends ChildKind>(
  db: TenantDb,
  kind: K,
  agent: string,
  id: Id<K>,
  values: New<K>,
): Promise<Child<K>> =>
  insertChild(db, kind, agent, id, values).insert.executeTakeFirstOrThrow(() => notFound("agent"));

/** A condition of a change that a row which is there may fail, and the refusal then. */
export type Guard = { where: RawBuilder<SqlBool>; otherwise: () => Error };
/** `fields` are what the feed tells was changed, without it the columns; `agent`, the one that the address names, too. */
type How = Partial<Guard> & { fields?: string[]; agent?: string | undefined };
const setBy = (values: object) =>
  Object.entries(values).flatMap(([name, value]) => (value === undefined ? [] : [name]));

/** Changes one to these values; what is undefined stays. */
export function updateChild<K extends ChildKind>(
  db: TenantDb,
  kind: K,
  id: Id<K>,
  values: UpdateObject<Database, TableOf<K>, TableOf<K>>,
  { where, otherwise, fields = setBy(values), agent }: How = {},
): Promise<Child<K>> {
  const child = reachChild(db, kind, id, "write", agent);
  const named = child.db
    .patch(kinds[kind].table, values)
    .where(sql<boolean>`id in (${child.rows.select("id" as never)})`)
    .where(own(db, kind, "writers"));
  const change = where ? named.where(where as never) : named;
  return child.db
    .telling(change, { ...telling(db, kind, "updated"), metadata: { fields } })
    .executeTakeFirstOrThrow(otherwise ?? (() => notFound(kind))) as Promise<unknown> as Promise<Child<K>>;
}

/** Deletes one, and answers what it was. */
export async function deleteChild<K extends ChildKind>(
  db: TenantDb,
  kind: K,
  id: Id<K>,
  agent?: string,
): Promise<Child<K>> {
  const child = reachChild(db, kind, id, "write", agent);
  const change = child.db
    .deleteFrom(kinds[kind].table)
    .where(sql<boolean>`id in (${child.rows.select("id" as never)})`)
    .where(own(db, kind, "writers"));
  const deleted = child.db.telling(change, telling(db, kind, "deleted"));
  return (await deleted.executeTakeFirstOrThrow(() => notFound(kind))) as unknown as Child<K>;
}
