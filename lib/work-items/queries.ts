import { type RawBuilder, sql } from "kysely";
import { listChildrenOf, reachChild, telling } from "../agents/children.ts";
import { reachAgent } from "../agents/queries.ts";
import { sha256 } from "../auth/keys.ts";
import type { Row } from "../db/schema.ts";
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
const isHeld = sql<boolean>`(status in ('claimed', 'running') and lease_expires_at > now())`;
/** Of one that was claimed this often, the end of its lease is its own. */
export const MAX_CLAIMS = 10;
const isFree = sql<boolean>`(status = 'queued'
  or (status in ('claimed', 'running') and lease_expires_at <= now() and attempt_count < ${sql.lit(MAX_CLAIMS)}))`;
/** Of the item of the statement, or of these: the run that waits for it. */
const runOf = (db: TenantDb, run_id: RawBuilder<unknown>) =>
  db
    .selectFrom("agent_routine_runs")
    .where(sql<boolean>`agent_routine_runs.id = ${run_id}`)
    .where("status", "in", ["pending", "running"]);

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
  const last = own.where("lease_hash", "=", hash).where("attempt_count", "=", MAX_CLAIMS).where(isHeld);
  const { claimed } = await from.batch({
    claimed: from.telling(claim, telling(db, "work_item", "updated")),
    // Whoever looks after runs sees to it that the end of its last lease is heard.
    looked: from
      .updateTable("agent_routine_runs")
      .set({ look_at: sql`now() + make_interval(secs => ${lease_seconds})` })
      .where("status", "in", ["pending", "running"])
      .where(sql<boolean>`id in (${last.select("run_id")})`),
  });
  return claimed[0] ?? null;
}

const lost = () =>
  refused(
    "lease_lost",
    "The lease has run out, or is another's. Claim the item again: it may have been given to others.",
  );

/** What changes an item that its lease's owner still has, and the database for it: a 404 where the item isn't there. */
async function changeOwn(
  db: TenantDb,
  id: Id<"work_item">,
  lease_owner: string,
  values: object,
  {
    also = sql<boolean>`false`,
    where = sql<boolean>`true`,
  }: { also?: RawBuilder<boolean>; where?: RawBuilder<boolean> } = {},
) {
  const item = reachChild(db, "work_item", id, "write");
  const owned = sql<boolean>`(lease_hash = ${await hashOf(lease_owner)} and ((${isHeld} and ${where}) or ${also}))`;
  const change = item.db
    .patch("work_items", values as never)
    .where(sql<boolean>`id in (${item.rows.select("id")})`)
    .where(owned);
  return { ...item, changed: item.db.telling(change, telling(db, "work_item", "updated")) };
}

/** Its owner has begun. Again, nothing changes. 409 where it isn't the owner's any more. */
export async function startWorkItem(db: TenantDb, id: Id<"work_item">, lease_owner: string): Promise<void> {
  const { changed } = await changeOwn(db, id, lease_owner, { status: "running" });
  await changed.executeTakeFirstOrThrow(lost);
}

/** It is its owner's for so many seconds from now on. */
export async function keepWorkItem(db: TenantDb, id: Id<"work_item">, lease_owner: string, seconds: number) {
  // Not told: it comes every few minutes, and changes nothing but an end.
  const item = reachChild(db, "work_item", id, "write");
  const change = item.db
    .patch("work_items", { lease_expires_at: until(seconds) })
    .where(sql<boolean>`id in (${item.rows.select("id")})`)
    .where(sql<boolean>`lease_hash = ${await hashOf(lease_owner)}`)
    .where(isHeld);
  await change.executeTakeFirstOrThrow(lost);
}

/** What came of it, for good, and the run that waits for it. The same again changes nothing; another outcome is a 409. */
export async function endWorkItem(
  db: TenantDb,
  id: Id<"work_item">,
  lease_owner: string,
  outcome: { result: object } | { error: object },
): Promise<Row<"agent_routine_runs"> | null> {
  const [status, column, said] =
    "result" in outcome
      ? (["succeeded", "result", outcome.result] as const)
      : (["failed", "error", outcome.error] as const);
  const json = sql`${JSON.stringify(said)}::jsonb`;
  const same = sql<boolean>`(status = ${status} and ${sql.ref(column)} = ${json})`;
  const values = { status, [column]: json, lease_expires_at: null };
  const { db: behind, rows, changed } = await changeOwn(db, id, lease_owner, values, { also: same });
  const run = runOf(behind, sql`(${rows.select("run_id")})`).selectAll();
  const ended = await behind.batch({ changed, run });
  if (!ended.changed[0]) throw lost();
  return ended.run[0] ?? null;
}

// ---------------------------------------------------------------------------------------------------------
// For the run that it is of

/** Makes one on the agent of these, where it isn't there already; null where there is none to make it on. */
export async function makeWorkItem(
  db: TenantDb,
  agents: Rows<"agents">,
  item: Pick<WorkItemRow, "id" | "run_id" | "command_id" | "node_id" | "payload">,
): Promise<WorkItemRow | null> {
  const there = db.selectFrom("work_items").where("work_items.id", "=", item.id);
  const { found } = await db.batch({
    made: db.telling(
      db.insertUnder(agents.where(sql<boolean>`not exists (${there.select(sql`1`.as("one"))})`), "work_items", {
        ...{ ...item, agent_id: sql`agents.id`, payload: JSON.stringify(item.payload) },
      } as never),
      telling(db, "work_item", "created"),
    ),
    found: there.selectAll(),
  });
  return found[0] ?? null;
}

/** Fails one that hasn't ended, if this is so: nobody who has its lease can submit it any more. */
export const failWorkItem = (db: TenantDb, id: Id<"work_item">, message: string, where = sql<boolean>`true`) =>
  db.telling(
    db
      .patch("work_items", { status: "failed", error: JSON.stringify({ message }), lease_expires_at: null })
      .where("id", "=", id)
      .where("status", "in", ["queued", "claimed", "running"])
      .where(where),
    telling(db, "work_item", "updated"),
  );

/** One as it is now. Fails it where its last lease has run out; null where it is gone with its agent. */
export async function lookAtWorkItem(db: TenantDb, id: Id<"work_item">): Promise<WorkItemRow | null> {
  const isLost = sql<boolean>`(lease_expires_at <= now() and attempt_count >= ${sql.lit(MAX_CLAIMS)})`;
  const { found } = await db.batch({
    lost: failWorkItem(db, id, `its lease has run out ${MAX_CLAIMS} times`, isLost),
    found: db.selectFrom("work_items").where("id", "=", id).selectAll(),
  });
  return found[0] ?? null;
}
