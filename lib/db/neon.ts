/** Postgres over Neon's HTTP driver: one call is one request, one transaction and one round trip. */
import { type NeonQueryFunction, neon, neonConfig, types } from "@neondatabase/serverless";
import type { CompiledQuery, QueryResult } from "kysely";

// The local endpoint (lib/local/neon.ts) is plain HTTP on loopback; real hosts keep the driver's own address.
const neonHost = neonConfig.fetchEndpoint;
neonConfig.fetchEndpoint = (host, port, options) =>
  host === "127.0.0.1"
    ? `http://${host}:${port}/sql`
    : typeof neonHost === "function"
      ? neonHost(host, port, options)
      : neonHost;

const INT8 = 20;
const TIMESTAMPTZ = 1184;

/** Postgres's text of a timestamptz as ISO 8601 in UTC, to the microsecond where there is one. */
export const toIso = (text: string): string =>
  text.endsWith("+00") ? `${text.slice(0, 10)}T${text.slice(11, -3)}Z` : new Date(text).toISOString();

const parsers: Record<number, (text: string) => unknown> = { [INT8]: Number, [TIMESTAMPTZ]: toIso };
const getTypeParser = (oid: number) => parsers[oid] ?? types.getTypeParser(oid as never);

export type Connection = (queries: readonly CompiledQuery[], mode: "read" | "write") => Promise<QueryResult<unknown>[]>;

/** The database bounds its statements; a connection that brings no answer would hold whoever waits for ever. */
const MOST_MS = 30_000;

const clients = new Map<string, NeonQueryFunction<false, true>>();

/**
 * A connection to the database. `read` is RepeatableRead and read-only, so that a list and its count agree;
 * `write` is ReadCommitted, so that what waited for a lock sees what the holder did. Throws NeonDbError, also where there
 * is no answer within 30 s: what was asked may have happened. `way`, where there is one, is how the host is reached, from
 * here on by all of the isolate.
 */
export function connect(url: string, way?: Fetcher): Connection {
  let sql = clients.get(url);
  if (!sql) {
    if (way) neonConfig.fetchFunction = (host: string, init: RequestInit) => way.fetch(host, init);
    sql = neon(url, { fullResults: true });
    clients.set(url, sql);
  }
  const client = sql;
  return async (queries, mode) => {
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), MOST_MS);
    const fetchOptions = { signal: late.signal };
    try {
      const results = await client.transaction(
        queries.map((query) =>
          client.query(query.sql, query.parameters as unknown[], { types: { getTypeParser } as never }),
        ),
        mode === "read"
          ? { isolationLevel: "RepeatableRead", readOnly: true, fetchOptions }
          : { isolationLevel: "ReadCommitted", fetchOptions },
      );
      return results.map(({ rows, rowCount }) => ({ rows, numAffectedRows: BigInt(rowCount ?? 0) }));
    } finally {
      clearTimeout(timer);
    }
  };
}
