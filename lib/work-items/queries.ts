import { type RawBuilder, sql } from "kysely";
import { listChildrenOf, reachChild, telling } from "../agents/children.ts";
import { reachAgent } from "../agents/queries.ts";
import { sha256 } from "../auth/keys.ts";
import { mustHold, type Rows } from "../db/statements.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { refused } from "../errors.ts";
import type { Id } from "../ids.ts";
import type { CursorPage } from "../paging.ts";
import type { Claim, ListWorkItems, WorkItemRow } from "./schema.ts";

const ofRun = (items: Rows<"work_items">, { execution }: ListWorkItems) =>
  execution === undefined ? items : items.where("run_id", "=", execution);

/** Those of all agents that the viewer may read: see `listChildrenOf`. */
export const listWorkItems = (db: TenantDb, query: ListWorkItems, page: CursorPage): Promise<WorkItemRow[]> =>
  listChildrenOf(db, "work_item", undefined, page, { narrow: (items) => ofRun(items, query) });

/** Those of the agent that an address names. */
export function listWorkItemsOf(
  db: TenantDb,
  agent: string,
  query: ListWorkItems,
  page: CursorPage,
): Promise<WorkItemRow[]> {
  const above = reachAgent(db, agent, "read");
  const items = above.db.selectFrom("work_items").where("agent_id", "in", above.rows.select("id"));
  return above.db.pageByCursor(ofRun(items, query), page);
}

/** As it is kept: whoever reads the table can't act for who has the item. */
const hashOf = (lease_owner: string) => sha256(lease_owner);
const until = (seconds: number) => sql<string>`now() + make_interval(secs => ${seconds})`;
const isFree = sql<boolean>`(status = 'queued' or (status in ('claimed', 'running') and lease_expires_at <= now()))`;

/**
 * Takes the agent's oldest item that is queued, or whose lease has run out, for so many seconds; null where there is none.
 * One that is named by its id is taken alone: its own lease is gone on with, and counts no attempt. Of many who ask at
 * once, each gets another one.
 */
export async function claimWorkItem(
  db: TenantDb,
  agent: string,
  { execution, work_item, lease_owner, lease_seconds }: Claim,
): Promise<WorkItemRow | null> {
  const above = reachAgent(db, agent, "write");
  const hash = await hashOf(lease_owner);
  const own = above.db.selectFrom("work_items").where("agent_id", "in", above.rows.select("id"));
  let items = own.where(isFree);
  let isOwn = sql<boolean>`false`;
  let { db: from } = above;
  if (execution) items = items.where("run_id", "=", execution);
  if (work_item) {
    const named = own.where("id", "=", work_item);
    const isThere = sql`exists (${named.select(sql`1`.as("one"))})`;
    from = from.behind(mustHold(isThere, "work_item", "there is no such work item"));
    isOwn = sql`(status in ('claimed', 'running') and lease_hash = ${hash})`;
    items = named.where(sql<boolean>`(${isFree} or ${isOwn})`);
  }
  const next = items.select("id").orderBy("id").limit(1).forUpdate().skipLocked();
  const claim = from
    .patch("work_items", {
      status: sql`case when ${isOwn} then status else 'claimed' end`,
      attempt_count: sql`attempt_count + case when ${isOwn} then 0 else 1 end`,
      lease_hash: hash,
      lease_expires_at: until(lease_seconds),
    })
    // Not "in": that looks for the next one again for each row, and takes several.
    .where(sql<boolean>`id = (${next})`);
  const [item] = await from.telling(claim, telling(db, "work_item", "updated")).execute();
  return item ?? null;
}

const lost = () =>
  refused(
    "lease_lost",
    "The lease has run out, or is another's. Claim the item again: it may have been given to others.",
  );

/** Changes an item that its lease's owner still has. 404 where it isn't there, 409 where it isn't the owner's any more. */
async function changeOwn(
  db: TenantDb,
  id: Id<"work_item">,
  lease_owner: string,
  values: object,
  {
    also = sql<boolean>`false`,
    where = sql<boolean>`true`,
  }: { also?: RawBuilder<boolean>; where?: RawBuilder<boolean> } = {},
): Promise<WorkItemRow> {
  const item = reachChild(db, "work_item", id, "write");
  const isHeld = sql<boolean>`(status in ('claimed', 'running') and lease_expires_at > now())`;
  const owned = sql<boolean>`(lease_hash = ${await hashOf(lease_owner)} and ((${isHeld} and ${where}) or ${also}))`;
  const change = item.db
    .patch("work_items", values as never)
    .where(sql<boolean>`id in (${item.rows.select("id")})`)
    .where(owned);
  const [changed] = await item.db.telling(change, telling(db, "work_item", "updated")).execute();
  if (!changed) throw lost();
  return changed;
}

/** Its owner has begun. Again, nothing changes. */
export const startWorkItem = (db: TenantDb, id: Id<"work_item">, lease_owner: string) =>
  changeOwn(db, id, lease_owner, { status: "running" });

/** It is its owner's for so many seconds from now on. */
export async function keepWorkItem(db: TenantDb, id: Id<"work_item">, lease_owner: string, seconds: number) {
  // Not told: it comes every few minutes, and changes nothing but an end.
  const item = reachChild(db, "work_item", id, "write");
  const change = item.db
    .patch("work_items", { lease_expires_at: until(seconds) })
    .where(sql<boolean>`id in (${item.rows.select("id")})`)
    .where(sql<boolean>`lease_hash = ${await hashOf(lease_owner)}`)
    .where(sql<boolean>`status in ('claimed', 'running') and lease_expires_at > now()`);
  await change.executeTakeFirstOrThrow(lost);
}

/** What came of it, for good. The same again changes nothing; another outcome is a 409. */
export function endWorkItem(
  db: TenantDb,
  id: Id<"work_item">,
  lease_owner: string,
  outcome: { result: object } | { error: object },
): Promise<WorkItemRow> {
  const [status, column, said] =
    "result" in outcome
      ? (["succeeded", "result", outcome.result] as const)
      : (["failed", "error", outcome.error] as const);
  const json = sql`${JSON.stringify(said)}::jsonb`;
  const same = sql<boolean>`(status = ${status} and ${sql.ref(column)} = ${json})`;
  return changeOwn(db, id, lease_owner, { status, [column]: json, lease_expires_at: null }, { also: same });
}
