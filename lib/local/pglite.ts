import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { Worker } from "node:worker_threads";
import { zstdDecompressSync } from "node:zlib";
import { type messages, PGlite, protocol } from "@electric-sql/pglite";
import { cached } from "./cache.ts";
import {
  Answers,
  asObjects,
  asText,
  type Database,
  DatabaseError,
  frame,
  leavesTraces,
  type Param,
  type Query,
  type RunOptions,
} from "./neon.ts";
import { isOutdated, Prepared } from "./prepared.ts";
import { Turns, tenantOf } from "./turns.ts";

const { parse, bind, close, describe, execute, query: script, sync } = protocol.serialize;

const describeAndExecute = Buffer.concat([describe({ type: "P" }), execute({})]);

/** A query as it is sent, parsed before if that was done already and is to be kept. */
function statement({ query: text, params }: Query, prepared: Prepared): Uint8Array[] {
  const { kept, isMet } = prepared.meet(text);
  const values = [...params];
  if (performance.now() < kept.until) return [bind({ statement: kept.name ?? "", values }), describeAndExecute];
  const name = isMet ? prepared.name(kept) : "";
  return [parse({ name, text }), bind({ statement: name, values }), describeAndExecute];
}

const known = new Map<string, Buffer>();

/** The few commands that stand around the queries are written once: writing takes longer than running them. */
function command(text: string): Buffer {
  const written = known.get(text) ?? Buffer.concat([parse({ text }), bind({}), execute({})]);
  known.set(text, written);
  return written;
}

const quoted = (identifier: string) => `"${identifier.replaceAll('"', '""')}"`;

/** The superuser as whom the embedded Postgres starts. By name, since `default` leads nowhere there. */
const owner = "postgres";

/**
 * Enters the role, in a transaction of its own: a rollback among the queries must not step out of it. If it fails,
 * Postgres skips all that follows up to the sync, so nothing runs as the role of before.
 */
const enter = (role: string) => ["begin", `set session authorization ${quoted(role)}`, "commit"];

const resetAll = [command("reset all"), sync()];
const rollBack = [command("rollback"), sync(), ...resetAll];
const discardAll = [command("rollback"), sync(), command("discard all"), sync()];

/** Reads on to where Postgres is ready again: what follows belongs to another step. */
function read(messages: readonly messages.BackendMessage[]): { answers: Answers; error: DatabaseError | null } {
  const answers = new Answers();
  let error: DatabaseError | null = null;
  for (const message of messages) {
    if (message.name === "readyForQuery") break;
    if (message.name === "rowDescription") answers.describe((message as messages.RowDescriptionMessage).fields);
    else if (message.name === "dataRow") answers.row((message as messages.DataRowMessage).fields);
    else if (message.name === "commandComplete") answers.complete((message as messages.CommandCompleteMessage).text);
    else if (message.name === "emptyQuery") answers.complete("");
    else if (message.name === "error") error ??= new DatabaseError(message as messages.DatabaseError);
  }
  return { answers, error };
}

/** A cluster of its own that a script has run in, to start from: to make one takes ten times as long as to copy it. */
async function newCluster(script: string): Promise<Blob> {
  const root = resolve(import.meta.dirname, "../..");
  const version = readFileSync(join(root, "node_modules/@electric-sql/pglite/package.json"), "utf8");
  const made = () =>
    new Promise<Uint8Array>((done, fail) => {
      const maker = new Worker(join(import.meta.dirname, "initdb.ts"), { workerData: script });
      maker.once("message", done).once("error", fail);
    });
  const kept = await cached(script ? "pglite" : "pglite.empty", [version, script], made);
  return new Blob([zstdDecompressSync(kept) as Uint8Array<ArrayBuffer>]);
}

/**
 * Opens the embedded Postgres on a data directory, or in memory. `first` is the script that a new one begins with. It is
 * one session in this process: requests run one after the other, and a slow one holds up all of every tenant. Nothing
 * keeps a second process from the directory; `lockDataDir` does.
 */
export async function openPglite(dataDir?: string, first = ""): Promise<Database> {
  const isNew = dataDir === undefined || !existsSync(join(dataDir, "PG_VERSION"));
  const postgres = await PGlite.create({
    ...(dataDir !== undefined && { dataDir }),
    ...(isNew && { loadDataDir: await newCluster(first) }),
  });
  // Nobody does so while it is open. Without it each table is planned for as if it were small, and what was deleted stays.
  if (!isNew) await postgres.exec("vacuum analyze");
  let closing: Promise<void> | undefined;

  /** One step into WASM and back; what it sends up to the first sync is what `read` reads. */
  const step = (...parts: Uint8Array[]) =>
    postgres.execProtocolStream(Buffer.concat(parts), { syncToFs: false, throwOnError: false });

  const prepared = new Prepared();
  const startAfresh = async () => {
    prepared.forget();
    await step(...discardAll);
  };

  const turns = new Turns(1);
  /** Tenants take turns: one that asks for hundreds at once goes on when each other has had an answer. */
  const run = (role: string, queries: readonly Query[], options: RunOptions) =>
    turns.take(tenantOf(queries), () => runNow(role, queries, options));

  const runNow = (role: string, queries: readonly Query[], options: RunOptions) =>
    postgres.runExclusive(async () => {
      const { before, after } = frame(options);
      const entry = [...enter(role), ...before];
      const send = async () => {
        const left = prepared.takeLeft().map((name) => close({ type: "S", name }));
        const asked = queries.flatMap((query) => statement(query, prepared));
        const sent = await step(...left, ...entry.map(command), ...asked, ...after.map(command), sync(), ...resetAll);
        const { answers, error } = read(sent);
        const results = answers.results.slice(entry.length, entry.length + queries.length);
        if (error) for (const { query } of queries.slice(results.length + 1)) prepared.drop(query);
        if (leavesTraces(queries, results)) await startAfresh();
        else if (error || postgres.isInTransaction()) await step(...rollBack);
        return { results, error };
      };
      let { results, error } = await send();
      if (isOutdated(error?.code)) {
        prepared.forget();
        ({ results, error } = await send());
      }
      if (error) throw error;
      return results;
    });

  return {
    run,
    exec: (sql) =>
      postgres.runExclusive(async () => {
        await step(...enter(owner).map(command), sync());
        const { error } = read(await step(script(sql)));
        await startAfresh();
        if (error) throw error;
      }),
    query: async <Row>(sql: string, params: readonly Param[] = []) => {
      const [result] = await run(owner, [{ query: sql, params: asText(params) }], { batch: false });
      return result ? asObjects<Row>(result) : [];
    },
    close: () => {
      closing ??= postgres.close();
      return closing;
    },
  };
}
