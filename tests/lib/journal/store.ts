import { DatabaseSync } from "node:sqlite";
import type { Sql } from "../../../lib/journal/journal.ts";

/** SQLite as an object has it; `longest` is the longest value that was written, in bytes. */
export function aStore() {
  const database = new DatabaseSync(":memory:");
  const store = { longest: 0, sql: {} as Sql };
  store.sql.exec = (query, ...values) => {
    for (const value of values) {
      if (typeof value === "string") store.longest = Math.max(store.longest, Buffer.byteLength(value));
    }
    if (!values.length && /^\s*create/.test(query)) {
      database.exec(query);
      return { toArray: () => [] };
    }
    const rows = database.prepare(query).all(...values);
    return { toArray: () => rows as never };
  };
  return store;
}
