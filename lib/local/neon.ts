/**
 * Neon's SQL-over-HTTP endpoint, spoken at home: what `@neondatabase/serverless` sends is answered from an embedded
 * or a real Postgres, so that the code that runs at the edge runs here unchanged.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { types } from "@neondatabase/serverless";

/** A statement and its parameters, these in Postgres's text format. */
export interface Query {
  query: string;
  params: readonly (string | null)[];
}

export interface Field {
  name: string;
  dataTypeID: number;
  tableID: number;
  columnID: number;
  dataTypeSize: number;
  dataTypeModifier: number;
  format: "text";
}

/** What a statement answered; its rows in Postgres's text format. */
export interface Result {
  command: string;
  rowCount: number | null;
  fields: Field[];
  rows: (string | null)[][];
}

export interface RunOptions {
  /** All queries in one transaction; otherwise there is just one query. */
  batch: boolean;
  isolation?: Isolation;
  readOnly?: boolean;
  deferrable?: boolean;
}

/** What the owner may hand over as a parameter. Arrays and objects are written as text first. */
export type Param = string | number | bigint | boolean | Date | null;

/** A Postgres, embedded or real. Nothing a request sets in its session is there for the next one. */
export interface Database {
  /** Runs one request as a role, in one round trip. */
  run(role: string, queries: readonly Query[], options: RunOptions): Promise<Result[]>;
  /** Runs a script of many statements as the owner. */
  exec(sql: string): Promise<void>;
  /** Runs one statement as the owner; values are what the driver would make of them. */
  query<Row = Record<string, unknown>>(sql: string, params?: readonly Param[]): Promise<Row[]>;
  close(): Promise<void>;
}

const errorFields = [
  "severity",
  "code",
  "detail",
  "hint",
  "position",
  "internalPosition",
  "internalQuery",
  "where",
  "schema",
  "table",
  "column",
  "dataType",
  "constraint",
  "file",
  "line",
  "routine",
] as const;
type ErrorField = (typeof errorFields)[number];
type ErrorFields = { [field in ErrorField]?: string | undefined };

/** Postgres refused a statement; its fields are those of the wire protocol. */
export class DatabaseError extends Error {
  override readonly name = "DatabaseError";
  readonly fields: Record<ErrorField, string | null>;

  constructor(error: { message: string } & ErrorFields) {
    super(error.message);
    this.fields = Object.fromEntries(errorFields.map((field) => [field, error[field] ?? null])) as typeof this.fields;
  }

  get code() {
    return this.fields.code;
  }

  get constraint() {
    return this.fields.constraint;
  }
}

/** Postgres could not be reached, or was lost before it had answered. */
export class Unavailable extends Error {
  override readonly name = "Unavailable";
}

const isolationLevels = {
  ReadUncommitted: "read uncommitted",
  ReadCommitted: "read committed",
  RepeatableRead: "repeatable read",
  Serializable: "serializable",
} as const;
export type Isolation = keyof typeof isolationLevels;

/** What stands before and after the queries of a request, to make a batch one transaction. */
export function frame({ batch, isolation, readOnly, deferrable }: RunOptions): { before: string[]; after: string[] } {
  if (!batch) return { before: [], after: [] };
  const begin = ["begin"];
  if (isolation) begin.push("isolation level", isolationLevels[isolation]);
  if (readOnly) begin.push("read only");
  if (deferrable) begin.push("deferrable");
  return { before: [begin.join(" ")], after: ["commit"] };
}

/** Gathers the answers of a pipeline, in the order Postgres gives them. */
export class Answers {
  readonly results: Result[] = [];
  #fields: Field[] = [];
  #rows: (string | null)[][] = [];

  describe(fields: readonly Omit<Field, "format">[]) {
    this.#fields = fields.map(({ name, dataTypeID, tableID, columnID, dataTypeSize, dataTypeModifier }) => ({
      ...{ name, dataTypeID, tableID, columnID, dataTypeSize, dataTypeModifier },
      format: "text",
    }));
  }

  row(row: (string | null)[]) {
    this.#rows.push(row);
  }

  /** The tag is `SELECT 3`, `INSERT 0 1`, `CREATE TABLE`; of an empty query it is empty. */
  complete(tag: string) {
    const [command = "", ...rest] = tag.split(" ");
    const count = Number.parseInt(rest.at(-1) ?? "", 10);
    this.results.push({
      command,
      rowCount: Number.isNaN(count) ? null : count,
      fields: this.#fields,
      rows: this.#rows,
    });
    this.#fields = [];
    this.#rows = [];
  }
}

const passing = new Set(["", "SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "LOCK", "EXPLAIN", "SHOW"]);
const lasting = /\bpg_(try_)?advisory_lock|\binto\s+temp/i;

/**
 * Whether a request may have left in its session what `reset all` does not take back: a role, a temporary table,
 * a lock, a listener. Such a session is not used as it is for another request.
 */
export const leavesTraces = (queries: readonly Query[], results: readonly Result[]): boolean =>
  results.some(({ command }) => !passing.has(command)) || queries.some(({ query }) => lasting.test(query));

/** The owner's parameters in Postgres's text format. */
export const asText = (params: readonly Param[]): (string | null)[] =>
  params.map((param) => (param === null ? null : param instanceof Date ? param.toISOString() : String(param)));

/** Rows as the driver shows them. */
export function asObjects<Row>({ fields, rows }: Result): Row[] {
  const parsers = fields.map(({ dataTypeID }) => types.getTypeParser(dataTypeID, "text"));
  return rows.map(
    (row) =>
      Object.fromEntries(
        fields.map(({ name }, i) => {
          const value = row[i] ?? null;
          return [name, value === null ? null : parsers[i]?.(value)];
        }),
      ) as Row,
  );
}

class Refusal extends Error {
  readonly status: number;
  readonly code: string | undefined;

  constructor(status: number, message: string, code?: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

const maxBody = 16 * 1024 * 1024;
/** The protocol counts parameters in two bytes; one more would garble the message. */
const maxParams = 65_535;
const databaseName = "agentry";

/**
 * Postgres is guarded by a password that stands in a file, so a web page must never get this far: no page omits its
 * Origin, and a name that was rebound to the loopback address is still in the Host header.
 */
function checkSender({ method, url, headers }: IncomingMessage) {
  if (!/^(127\.0\.0\.1|localhost|\[::1\])(:\d+)?$/i.test(headers.host ?? ""))
    throw new Refusal(403, "Only the loopback address is served: the Host header names another host.");
  if (headers.origin !== undefined) throw new Refusal(403, "Web pages are not served: the request has an Origin.");
  if (url !== "/sql") throw new Refusal(404, "There is only POST /sql here.");
  if (method !== "POST") throw new Refusal(405, "Only POST is answered here.");
  for (const header of ["Neon-Raw-Text-Output", "Neon-Array-Mode"])
    if (headers[header.toLowerCase()] !== "true") throw new Refusal(400, `The header ${header} must be "true".`);
}

const digest = (text: string) => createHash("sha256").update(text).digest();

/** The role that the connection string names, if its password is right. */
function authenticate(headers: IncomingHttpHeaders, roles: readonly string[], password: Buffer): string {
  const connectionString = headers["neon-connection-string"];
  if (typeof connectionString !== "string") throw new Refusal(400, "The header Neon-Connection-String is missing.");
  const refused = new Refusal(400, "The header Neon-Connection-String is not a connection string of Postgres.");
  if (!/^postgres(ql)?:\/\//.test(connectionString) || !URL.canParse(connectionString)) throw refused;
  const url = new URL(connectionString);
  let [role, given, name] = [url.username, url.password, url.pathname.slice(1)];
  try {
    [role, given, name] = [decodeURIComponent(role), decodeURIComponent(given), decodeURIComponent(name)];
  } catch {
    throw refused;
  }
  const isPassword = timingSafeEqual(digest(given), password);
  if (!isPassword || !roles.includes(role))
    throw new Refusal(401, `password authentication failed for user "${role}"`, "28P01");
  if (name !== databaseName) throw new Refusal(400, `database "${name}" does not exist`, "3D000");
  return role;
}

function readFlag(headers: IncomingHttpHeaders, header: string): boolean {
  const value = headers[header.toLowerCase()] ?? "false";
  if (value !== "true" && value !== "false") throw new Refusal(400, `The header ${header} must be "true" or "false".`);
  return value === "true";
}

function readOptions(headers: IncomingHttpHeaders): RunOptions {
  const options: RunOptions = {
    batch: true,
    readOnly: readFlag(headers, "Neon-Batch-Read-Only"),
    deferrable: readFlag(headers, "Neon-Batch-Deferrable"),
  };
  const isolation = headers["neon-batch-isolation-level"];
  if (isolation === undefined) return options;
  if (typeof isolation !== "string" || !Object.hasOwn(isolationLevels, isolation))
    throw new Refusal(
      400,
      `The header Neon-Batch-Isolation-Level must be one of ${Object.keys(isolationLevels).join(", ")}.`,
    );
  return { ...options, isolation: isolation as Isolation };
}

const readBody = (request: IncomingMessage) =>
  new Promise<string>((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    request.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size <= maxBody) chunks.push(chunk);
      else reject(new Refusal(413, "The request is larger than 16 MB."));
    });
    request.on("end", () => resolve(Buffer.concat(chunks).toString()));
    request.on("error", () => reject(new Refusal(400, "The request was cut short.")));
  });

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function readQuery(value: unknown): Query {
  if (!isObject(value) || typeof value.query !== "string")
    throw new Refusal(400, "A query must be an object with the SQL as text in its field query.");
  const { query, params = [] } = value;
  if (!Array.isArray(params) || !params.every((param) => param === null || typeof param === "string"))
    throw new Refusal(400, "The params of a query must be a list of text and null.");
  if (params.length > maxParams) throw new Refusal(400, "A query may have at most 65535 parameters.", "08P01");
  // The protocol ends the statement at a NUL, and would read on in the middle of it.
  if (query.includes("\0")) throw new Refusal(400, "A query cannot contain the character NUL.", "22021");
  // It would wait for lines that HTTP cannot bring, and the embedded Postgres does not survive that.
  if (/\bcopy\b.*\bstd(in|out)\b/is.test(query))
    throw new Refusal(400, "COPY from the client or to it cannot be done over HTTP.", "0A000");
  return { query, params };
}

function readRequest(body: string): { batch: boolean; queries: Query[] } {
  let json: unknown;
  try {
    json = JSON.parse(body);
  } catch {
    throw new Refusal(400, "The body is not JSON.");
  }
  if (!isObject(json)) throw new Refusal(400, "The body must be an object with query or queries.");
  if (json.queries === undefined) return { batch: false, queries: [readQuery(json)] };
  if (!Array.isArray(json.queries) || json.query !== undefined)
    throw new Refusal(400, "The body must have either query, or queries as a list.");
  return { batch: true, queries: json.queries.map(readQuery) };
}

function asRefusal(error: unknown): { status: number; body: object } {
  if (error instanceof DatabaseError) return { status: 400, body: { message: error.message, ...error.fields } };
  if (error instanceof Refusal) return { status: error.status, body: { message: error.message, code: error.code } };
  if (error instanceof Unavailable) return { status: 503, body: { message: error.message } };
  console.error(error);
  return { status: 500, body: { message: "Server error" } };
}

export interface NeonServer {
  /** The connection string for a role, as `neon()` takes it. */
  url(role: string): string;
  port: number;
  server: Server;
  /** Answers what has been asked, and no more. The database stays open: it belongs to the caller. */
  close(): Promise<void>;
}

/** Serves the database on the loopback address, at `POST /sql`, to those roles, which share one password. */
export async function serveNeon(
  database: Database,
  { password, roles, port = 0 }: { password: string; roles: readonly string[]; port?: number },
): Promise<NeonServer> {
  const expected = digest(password);

  async function answer(request: IncomingMessage): Promise<{ status: number; body: object }> {
    checkSender(request);
    const role = authenticate(request.headers, roles, expected);
    const options = readOptions(request.headers);
    const { batch, queries } = readRequest(await readBody(request));
    const results = await database.run(role, queries, batch ? options : { batch });
    return { status: 200, body: batch ? { results } : (results[0] ?? {}) };
  }

  const server = createServer(async (request, response) => {
    const { status, body } = await answer(request).catch(asRefusal);
    if (response.destroyed) return;
    response.writeHead(status, {
      "content-type": "application/json",
      ...(status === 405 && { allow: "POST" }),
      ...(!server.listening && { connection: "close" }),
    });
    response.end(JSON.stringify(body));
  });
  // A connection is kept for as long as the client likes: closed under its hands, its next request would be lost.
  server.keepAliveTimeout = 0;
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", resolve);
  });
  const bound = (server.address() as AddressInfo).port;
  return {
    url: (role) =>
      `postgresql://${encodeURIComponent(role)}:${encodeURIComponent(password)}@127.0.0.1:${bound}/${databaseName}`,
    port: bound,
    server,
    close: () => new Promise((resolve, reject) => server.close((error) => (error ? reject(error) : resolve()))),
  };
}
