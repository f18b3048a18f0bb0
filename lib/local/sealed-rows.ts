/** What an operator does with sealed secrets, as `agentry_owner`: seals each anew, and proves that each still opens. */
import {
  openFor,
  type SealedRow,
  type SealedTable,
  sealedTables,
  sealFor,
  tagAt,
  versionOf,
  versionsOf,
} from "../auth/vault.ts";
import { asObjects, type Database, type Query } from "./neon.ts";

const OWNER = "agentry_owner";
const batch = { batch: true, isolation: "ReadCommitted" } as const;
/** A row may hold 64 KB. */
const ROWS = 50;

type Found = SealedRow & { version: string };

/** Every row of a table that holds a secret, some at a time, in the order of the primary key. */
async function* readSealed(database: Database, table: SealedTable): AsyncGenerator<Found[]> {
  let after: string[] = ["", "", ""];
  for (;;) {
    const query = `select * from data.${table}
      where sealed is not null and (app_id, sandbox_id, id) > ($1, $2, $3) order by app_id, sandbox_id, id limit ${ROWS}`;
    const [result] = await database.run(OWNER, [{ query, params: after }], batch);
    const rows = asObjects<Record<string, string> & Pick<SealedRow, "sealed" | "tag">>(result!);
    const last = rows.at(-1);
    if (!last) return;
    after = [last.app_id!, last.sandbox_id!, last.id!];
    yield rows.map((row) => ({
      slot: { table, app: row.app_id!, sandbox: row.sandbox_id!, id: row.id! },
      place: sealedTables[table].map((column) => row[column]!),
      ...{ sealed: row.sealed, tag: row.tag, version: versionOf(row.sealed) },
    }));
  }
}

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");
/** Ids and hex: nothing in them needs a quote. */
const array = (values: string[]) => `{${values.join(",")}}`;

/** Writes rows as they were sealed anew; one that was changed or deleted since it was read stays as it is. */
function writing(table: SealedTable, rows: { was: Found; sealed: Uint8Array; tag: Uint8Array }[]): Query {
  const column = (of: (row: (typeof rows)[number]) => string) => array(rows.map(of));
  return {
    query: `update data.${table} t set sealed = decode(n.sealed, 'hex'), tag = decode(n.tag, 'hex')
      from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[]) n (app, sandbox, id, was, sealed, tag)
      where (t.app_id, t.sandbox_id, t.id) = (n.app, n.sandbox, n.id) and t.sealed = decode(n.was, 'hex')`,
    params: [
      ...[column(({ was }) => was.slot.app), column(({ was }) => was.slot.sandbox), column(({ was }) => was.slot.id)],
      ...[column(({ was }) => hex(was.sealed)), column(({ sealed }) => hex(sealed)), column(({ tag }) => hex(tag))],
    ],
  };
}

/** The secrets that open, counted by the version of their root secret, and the rows of those that don't: `<table> <id>`. */
export type Proof = { newest: string; versions: Map<string, number>; closed: string[] };

/** Opens every secret there is. */
export async function proveSealed(database: Database, roots: string): Promise<Proof> {
  const versions = new Map<string, number>();
  const closed: string[] = [];
  for (const table of Object.keys(sealedTables) as SealedTable[]) {
    for await (const rows of readSealed(database, table)) {
      for (const row of rows) {
        const isOpen = await openFor(roots, row).then(
          () => true,
          () => false,
        );
        if (isOpen) versions.set(row.version, (versions.get(row.version) ?? 0) + 1);
        else closed.push(`${table} ${row.slot.id}`);
      }
    }
  }
  return { newest: (await versionsOf(roots))[0]!, versions, closed };
}

/**
 * Seals anew, under the newest root secret, what is sealed under another, and answers how many rows that were. What
 * doesn't open stays as it is. It may be ended at any moment and run again, beside the Workers: a row is replaced only
 * while it holds what was read.
 */
export async function reseal(database: Database, roots: string): Promise<number> {
  const [newest] = await versionsOf(roots);
  let count = 0;
  for (const table of Object.keys(sealedTables) as SealedTable[]) {
    for await (const rows of readSealed(database, table)) {
      const anew: Parameters<typeof writing>[1] = [];
      for (const was of rows.filter(({ version }) => version !== newest)) {
        const text = await openFor(roots, was).catch(() => null);
        if (text === null) continue;
        const secret = await sealFor(roots, was.slot, text);
        anew.push({ was, sealed: secret.sealed, tag: await tagAt(secret, was.place) });
      }
      if (!anew.length) continue;
      const [result] = await database.run(OWNER, [writing(table, anew)], batch);
      count += result!.rowCount ?? 0;
    }
  }
  return count;
}
