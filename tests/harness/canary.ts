/** Secrets of the tests: each bears a mark that no answer, row or log may show in any spelling. */
import { randomBytes } from "node:crypto";
import type { Database } from "../../lib/local/neon.ts";

/** In no other word of the tests. */
export const MARK = "never-to-be-seen-5b1f";

/** A secret that nothing else in the run is. */
export const aSecret = (): string => `${MARK}-${randomBytes(8).toString("hex")}`;

/** The mark as it stands, as hex, and as base64 wherever in a text it begins. */
export const spellings: readonly string[] = [
  MARK,
  Buffer.from(MARK).toString("hex"),
  ...[0, 1, 2].map((before) => {
    const text = Buffer.from(`${".".repeat(before)}${MARK}`).toString("base64");
    // The characters at the ends are of its neighbours, too.
    return text.slice(before ? 4 : 0, -4);
  }),
];

/** Whether a text shows a secret of the tests. */
export const shows = (text: string): boolean => spellings.some((spelling) => text.includes(spelling));

/** The rows of a database, of whatever table, that show one; each cut to its beginning. */
export async function findShown(database: Pick<Database, "query">): Promise<string[]> {
  const tables = await database.query<{ name: string }>(`select format('%I.%I', table_schema, table_name) as name
    from information_schema.tables where table_schema not in ('pg_catalog', 'information_schema')`);
  const any = spellings.map((spelling) => `t::text like '%${spelling}%'`).join(" or ");
  const found: string[] = [];
  for (const { name } of tables) {
    const rows = await database.query<{ row: string }>(`select left(t::text, 200) as row from ${name} t where ${any}`);
    found.push(...rows.map(({ row }) => `${name}: ${row}`));
  }
  return found;
}
