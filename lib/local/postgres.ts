import { type Connection, Pool, type PoolClient, DatabaseError as ProtocolError, type Submittable } from "pg";
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
  Unavailable,
} from "./neon.ts";
import { type Fields, isOutdated, type Kept, Prepared } from "./prepared.ts";
import { Turns, tenantOf } from "./turns.ts";

const poolSize = 10;
/** Of those, how many no single tenant gets. */
const reserved = 2;
const poolWaitMs = 10_000;

/** What takes back a request's settings; `reset all` leaves the role alone. */
const reset = ["reset role", "reset all"];

/** Statements that go out in one write and come back in one. At the first error Postgres skips the rest. */
class Pipeline implements Submittable {
  readonly answers = new Answers();
  error: DatabaseError | null = null;
  /** Comes true when Postgres is ready for the next one, be it with an error. */
  readonly done: Promise<void>;
  readonly #statements: readonly (Query | string)[];
  readonly #prepared: Prepared;
  readonly #kept: Kept[] = [];
  #fields: Fields = [];
  #resolve: () => void = () => {};
  #reject: (reason: Unavailable) => void = () => {};

  constructor(statements: readonly (Query | string)[], prepared: Prepared) {
    this.#statements = statements;
    this.#prepared = prepared;
    this.done = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  submit(connection: Connection) {
    connection.stream.cork();
    for (const name of this.#prepared.takeLeft()) connection.close({ type: "S", name }, true);
    for (const statement of this.#statements) {
      const { query, params } = typeof statement === "string" ? { query: statement, params: [] } : statement;
      this.#send(connection, query, params);
    }
    connection.sync();
    connection.stream.uncork();
  }

  #send(connection: Connection, text: string, params: Query["params"]) {
    const { kept, isMet } = this.#prepared.meet(text);
    let name = kept.name ?? "";
    if (performance.now() >= kept.until) {
      kept.fields = null;
      if (isMet) name = this.#prepared.name(kept);
      connection.parse({ name, text, types: [] }, true);
    }
    connection.bind({ statement: name, values: [...params] }, true);
    if (!kept.fields) connection.describe({ type: "P" }, true);
    connection.execute(null, true);
    this.#kept.push(kept);
  }

  /** Whether it failed over a kept statement. Sent again, all of it is parsed anew. */
  get isOutdated(): boolean {
    return isOutdated(this.error?.code);
  }

  handleRowDescription({ fields }: { fields: Fields }) {
    this.#fields = fields;
  }

  handleDataRow({ fields }: { fields: (string | null)[] }) {
    this.answers.row(fields);
  }

  handleCommandComplete({ text }: { text: string }) {
    const kept = this.#kept[this.answers.results.length]!;
    kept.fields ??= this.#fields;
    this.#fields = [];
    this.answers.describe(kept.fields);
    this.answers.complete(text);
  }

  handleEmptyQuery() {
    this.handleCommandComplete({ text: "" });
  }

  handleReadyForQuery() {
    this.#resolve();
  }

  /** After an error the client forgets the pipeline, though Postgres is not ready yet, and may even be going down. */
  handleError(error: Error, connection: Connection) {
    if (!(error instanceof ProtocolError)) return this.#reject(lost(error));
    this.error = new DatabaseError(error);
    if (this.isOutdated) this.#prepared.forget();
    for (const statement of this.#statements.slice(this.answers.results.length + 1)) {
      this.#prepared.drop(typeof statement === "string" ? statement : statement.query);
    }
    const settle = (settled: () => void) => {
      connection.off("readyForQuery", ready).off("end", gone);
      settled();
    };
    const ready = () => settle(this.#resolve);
    const gone = () => settle(() => this.#reject(lost(error)));
    connection.once("readyForQuery", ready).once("end", gone);
  }

  // Postgres answers the next message of the pipeline with an error, since it is not a line to copy.
  handleCopyInResponse() {}
  handleCopyData() {}
  handlePortalSuspended() {}
}

const lost = (cause: Error) => new Unavailable(`Server error: Postgres was lost: ${cause.message}`, { cause });

const prepared = new WeakMap<PoolClient, Prepared>();

async function pipeline(client: PoolClient, statements: readonly (Query | string)[]): Promise<Pipeline> {
  const known = prepared.get(client) ?? new Prepared();
  prepared.set(client, known);
  const sent = client.query(new Pipeline(statements, known));
  await sent.done;
  return sent;
}

/** The settings of a session from its first moment on, to which `reset` returns it. */
function withSettings(databaseUrl: string, settings: Record<string, string>): string {
  const url = new URL(databaseUrl);
  const options = Object.entries(settings).map(([name, value]) => `-c ${name}=${value.replace(/[\\\s]/g, "\\$&")}`);
  const given = url.searchParams.get("options");
  url.searchParams.set("options", [...(given ? [given] : []), ...options].join(" "));
  return url.href;
}

const sessionSettings = {
  client_encoding: "UTF8",
  TimeZone: "UTC",
  DateStyle: "ISO,MDY",
  IntervalStyle: "postgres",
  bytea_output: "hex",
  extra_float_digits: "1",
};

/**
 * Opens a real Postgres, 15 or later, by its owner's connection string. Roles need no password of their own: the owner
 * connects and takes the role on, so it must be a member of the role or a superuser. That is a wall against mistakes,
 * not against foreign SQL, which could step back out of the role.
 */
export async function openPostgres(databaseUrl: string): Promise<Database> {
  const pools = new Map<string | null, Pool>();
  let closing: Promise<void> | undefined;

  function poolOf(role: string | null): Pool {
    if (closing) throw new Unavailable("Server error: the database is closed.");
    const known = pools.get(role);
    if (known) return known;
    const settings = { ...sessionSettings, ...(role !== null && { role }) };
    const pool = new Pool({
      connectionString: withSettings(databaseUrl, settings),
      max: poolSize,
      connectionTimeoutMillis: poolWaitMs,
      idleTimeoutMillis: 60_000,
    });
    // The pool replaces what it lost; whoever was waiting for an answer hears of it from the pipeline.
    pool.on("error", () => {});
    pool.on("connect", (client) => client.on("error", () => {}));
    pools.set(role, pool);
    return pool;
  }

  const unconnected = (reason: string, cause?: Error) =>
    new Unavailable(`Server error: no connection to Postgres: ${reason}`, { cause });

  const connect = async (role: string | null): Promise<PoolClient> =>
    poolOf(role)
      .connect()
      .catch((cause: Error) => {
        throw unconnected(cause.message || String(cause), cause);
      });

  const turns = new Turns(poolSize, reserved);
  const busy = () => unconnected(`all ${poolSize} stayed busy for ${poolWaitMs / 1000} s`);

  /** Tenants take turns: with one that asks for hundreds at once, the others wait for a statement of it, not for all. */
  const run = (role: string | null, queries: readonly Query[], options: RunOptions) =>
    turns.take(tenantOf(queries), () => runNow(role, queries, options), poolWaitMs, busy);

  async function runNow(role: string | null, queries: readonly Query[], options: RunOptions) {
    const client = await connect(role);
    let reusable = false;
    try {
      const { before, after } = frame(options);
      const send = async () => {
        const sent = await pipeline(client, [...before, ...queries, ...after, ...reset]);
        const rollback = client.getTransactionStatus() === "I" ? [] : ["rollback"];
        const tidied = sent.error || rollback.length > 0 ? await pipeline(client, [...rollback, ...reset]) : null;
        return { sent, isTidy: !tidied?.error };
      };
      let { sent, isTidy } = await send();
      if (sent.isOutdated) ({ sent, isTidy } = await send());
      const results = sent.answers.results.slice(before.length, before.length + queries.length);
      reusable = isTidy && !leavesTraces(queries, results);
      if (sent.error) throw sent.error;
      return results;
    } finally {
      client.release(!reusable);
    }
  }

  const database: Database = {
    run,
    exec: async (sql) => {
      const client = await connect(null);
      try {
        await client.query(sql);
      } catch (error) {
        throw error instanceof ProtocolError ? new DatabaseError(error) : error;
      } finally {
        client.release(true);
      }
    },
    query: async <Row>(sql: string, params: readonly Param[] = []) => {
      const [result] = await run(null, [{ query: sql, params: asText(params) }], { batch: false });
      return result ? asObjects<Row>(result) : [];
    },
    close: async () => {
      closing ??= Promise.all([...pools.values()].map((pool) => pool.end())).then(() => {});
      await closing;
    },
  };
  const [server] = await database.query<{ version: number }>(
    "select current_setting('server_version_num')::int4 as version",
  );
  if (!server || server.version < 150_000) {
    await database.close();
    throw new Error("DATABASE_URL must name a PostgreSQL of version 15 or later.");
  }
  return database;
}
