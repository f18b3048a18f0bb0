/** What lives where: to see that a request changed nothing that is not its own. */
import { sql } from "../harness/index.ts";
import type { Place } from "./places.ts";

const tables = (
  await sql<{ table_name: string }>("select table_name from information_schema.tables where table_schema = 'data'")
)
  .map(({ table_name }) => table_name)
  .filter((table) => table !== "apps")
  .sort();

/**
 * Every row of the places, of what is their partition's own, and of their apps; but for when a credential was last
 * used. `except`: an app whose own record may change.
 */
export async function snapshot(places: Place[], except: string | null = null): Promise<string[]> {
  const tenants = places.flatMap(({ app, sandbox, org }) => [
    { app_id: app, sandbox_id: sandbox ?? "-", org_id: org },
    { app_id: app, sandbox_id: sandbox ?? "-", org_id: "-" },
  ]);
  const among = "(select * from jsonb_to_recordset($1::jsonb) t (app_id text, sandbox_id text, org_id text))";
  const rows = await sql<{ row: string }>(
    [
      `select 'apps ' || to_jsonb(r)::text as row from data.apps r
        where id in (select app_id from ${among} t) and id is distinct from $2`,
      ...tables.map(
        (table) => `select '${table} ' || (to_jsonb(r) - 'last_used_at')::text from data.${table} r
          where (app_id, sandbox_id, org_id) in ${among}`,
      ),
    ].join(" union all "),
    [JSON.stringify(tenants), except],
  );
  return rows.map(({ row }) => row).sort();
}
