import { sql } from "kysely";
import { createChild, reachChild, telling, updateChild } from "../agents/children.ts";
import type { ComputerStatus } from "../db/schema.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { ApiError, notFound } from "../errors.ts";
import type { Id } from "../ids.ts";
import type { columnsOf } from "./providers.ts";
import type { ComputerRow } from "./schema.ts";
import { LINES } from "./screen.ts";

/** Records a computer of an agent, which its provider is about to be asked for. 422 `limit_reached` beyond the org's tenth. */
export function createComputer(
  db: TenantDb,
  agent: string,
  id: Id<"agent_computer">,
  { config, metadata, ...columns }: ReturnType<typeof columnsOf>,
): Promise<ComputerRow> {
  return createChild(db, "agent_computer", agent, id, {
    ...columns,
    config: JSON.stringify(config),
    metadata: JSON.stringify(metadata),
    ...(columns.status === "provisioning" && { asked_at: sql`now()` }),
  });
}

/** One that the viewer may change. */
export async function findComputer(db: TenantDb, id: Id<"agent_computer">): Promise<ComputerRow> {
  const child = reachChild(db, "agent_computer", id, "write");
  const [row] = (await child.db.batch({ row: child.rows.selectAll() })).row as ComputerRow[];
  if (!row) throw notFound("agent_computer");
  return row;
}

/** How it stands, as whoever may change it has learned from its provider. */
export const setStatus = (
  db: TenantDb,
  id: Id<"agent_computer">,
  status: ComputerStatus,
  error_message: string | null,
): Promise<ComputerRow> => updateChild(db, "agent_computer", id, { status, error_message });

/** What became of one that was to be made. False: its row is gone, and whatever was made is to go, too. */
export async function settle(
  place: TenantDb,
  id: Id<"agent_computer">,
  status: "ready" | "error",
  error_message: string | null,
): Promise<boolean> {
  const change = place.patch("agent_computers", { status, error_message }).where("id", "=", id);
  const told = { ...telling(place, "agent_computer", "updated"), metadata: { fields: ["status"] } };
  return (await place.telling(change, told).executeTakeFirst()) !== undefined;
}

/** That something was run there just now, and what its terminal shows since: these lines, behind those before. */
export async function noteUse(place: TenantDb, id: Id<"agent_computer">, lines: string): Promise<void> {
  const screen = sql<string>`(select string_agg(line, E'\\n' order by n) from (
    select line, n from unnest(string_to_array(concat_ws(E'\\n', screen, ${lines}::text), E'\\n')) with ordinality as shown (line, n)
     order by n desc limit ${LINES}) last)`;
  await place.updateTable("agent_computers").set({ screen, last_active_at: sql`now()` }).where("id", "=", id).execute();
}

/** What a link leads to: the terminal of one whose org isn't suspended. Undefined: to nothing, as where its place is gone. */
export const readScreen = (place: TenantDb, id: string): Promise<{ name: string; screen: string | null } | undefined> =>
  place
    .selectFrom("agent_computers")
    .select(["name", "screen"])
    .where("id", "=", id as Id<"agent_computer">)
    .where(sql<boolean>`not exists (${place.selectFrom("orgs").select("id").where("status", "=", "suspended")})`)
    .executeTakeFirst()
    .catch((error) => {
      if (error instanceof ApiError && error.status === 401) return undefined;
      throw error;
    });
