import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { NeonDbError, neon, neonConfig } from "@neondatabase/serverless";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Database, DatabaseError, type NeonServer, serveNeon } from "../../../lib/local/neon.ts";
import { openPglite } from "../../../lib/local/pglite.ts";
import { openPostgres } from "../../../lib/local/postgres.ts";

neonConfig.fetchEndpoint = (host, port) => `http://${host}:${port}/sql`;

const password = "s3cret/@:%";
const app = "agentry_test_app";
const other = "agentry_test_other";

const schema = `
  drop schema if exists agentry_test cascade;
  drop role if exists ${app};
  drop role if exists ${other};
  create role ${app} nologin nobypassrls;
  create role ${other} nologin nobypassrls;
  grant ${app}, ${other} to current_user;
  create schema agentry_test;
  create table agentry_test.agents (
    id int primary key,
    org text not null,
    name text,
    constraint agents_name_key unique (name)
  );
  create table agentry_test.counters (id int primary key, n int not null);
  create table agentry_test.parts (
    id int primary key,
    whole int,
    constraint parts_whole_fkey foreign key (whole) references agentry_test.parts deferrable initially deferred
  );
  insert into agentry_test.agents values (1, 'acme', 'ada'), (2, 'globex', 'bob');
  insert into agentry_test.counters values (1, 0);
  alter table agentry_test.agents enable row level security;
  create policy org on agentry_test.agents
    using (org = (select current_setting('app.org', true)))
    with check (org = (select current_setting('app.org', true)));
  grant usage, create on schema agentry_test to ${app};
  grant usage on schema agentry_test to ${other};
  grant all on all tables in schema agentry_test to ${app};
`;
const cleanup = `drop schema agentry_test cascade; drop role ${app}; drop role ${other};`;

const databaseUrl = process.env.DATABASE_URL;
const engines: [string, () => Promise<Database>][] = [["PGlite", () => openPglite()]];
if (databaseUrl) engines.push(["PostgreSQL", () => openPostgres(databaseUrl)]);

/** What the driver threw. */
const refusal = async (promise: Promise<unknown>): Promise<NeonDbError> => {
  const error = await promise.then(
    () => null,
    (reason: unknown) => reason,
  );
  if (!(error instanceof NeonDbError)) throw new Error(`expected a NeonDbError, got ${error}`);
  return error;
};

describe.each(engines)("the endpoint on %s", (engine, open) => {
  let database: Database;
  let endpoint: NeonServer;
  let sql: ReturnType<typeof neon<false, true>>;
  let asOther: typeof sql;

  beforeAll(async () => {
    database = await open();
    await database.exec(schema);
    endpoint = await serveNeon(database, { password, roles: [app, other, "agentry_test_absent"] });
    sql = neon(endpoint.url(app), { fullResults: true });
    asOther = neon(endpoint.url(other), { fullResults: true });
  }, 60_000);

  afterAll(async () => {
    await endpoint.close();
    await database.exec(cleanup);
    await database.close();
  });

  /** A raw request, well formed but for what the case changes. */
  const send = ({
    method = "POST",
    path = "/sql",
    headers = {},
    body = JSON.stringify({ query: "select 1", params: [] }),
  }: {
    method?: string;
    path?: string;
    headers?: Record<string, string | undefined>;
    body?: string;
  }) =>
    new Promise<{ status: number | undefined; body: { message?: string; code?: string } }>((resolve, reject) => {
      const all: Record<string, string | undefined> = {
        "Neon-Connection-String": endpoint.url(app),
        "Neon-Raw-Text-Output": "true",
        "Neon-Array-Mode": "true",
        ...headers,
      };
      const given = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
      const outgoing = httpRequest(
        { host: "127.0.0.1", port: endpoint.port, method, path, headers: given },
        (incoming) => {
          const chunks: Buffer[] = [];
          incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
          incoming.on("end", () =>
            resolve({ status: incoming.statusCode, body: JSON.parse(Buffer.concat(chunks).toString()) }),
          );
        },
      );
      outgoing.on("error", reject);
      outgoing.end(method === "POST" ? body : undefined);
    });

  it("brings every type there and back", async () => {
    const at = new Date("2024-02-29T12:34:56.789Z");
    const json = { a: [1, null, "ü"], "b\\": { c: '"' } };
    const list = ["plain", "with, comma", 'with "quotes"', "back\\slash", "", "NULL", null, "{}"];
    const bytes = Buffer.from([0, 1, 254, 255, 92]);
    const { rows, fields, command, rowCount } = await sql`select
      ${at}::timestamptz as at, ${json}::jsonb as json, ${list}::text[] as list, ${bytes}::bytea as bytes,
      ${"9007199254740993"}::int8 as big, ${"12345678901234567890.123456789"}::numeric as exact, ${null}::text as nothing,
      ${true}::bool as yes, ${false}::bool as no, ${"0191c7a4-5b6d-7000-8000-0123456789ab"}::uuid as uuid,
      ${"smile 😀 ünï \n\t' $1 \\"}::text as text, ${[1, 2, 3]}::int[] as numbers, ${0.1}::float8 as float,
      ${""}::text as empty, now() as now`;
    expect(rows[0]).toMatchObject({
      at,
      json,
      list,
      bytes,
      big: "9007199254740993",
      exact: "12345678901234567890.123456789",
      nothing: null,
      yes: true,
      no: false,
      uuid: "0191c7a4-5b6d-7000-8000-0123456789ab",
      text: "smile 😀 ünï \n\t' $1 \\",
      numbers: [1, 2, 3],
      float: 0.1,
      empty: "",
    });
    expect(Math.abs(Date.now() - rows[0]?.now.getTime())).toBeLessThan(60_000);
    expect([command, rowCount, fields.length]).toEqual(["SELECT", 1, 15]);
  });

  it("answers in Postgres's text format, with times in UTC, and says where columns come from", async () => {
    const { status, body } = await send({
      body: JSON.stringify({
        query: "select timestamptz '2024-01-01 12:00+02' as at, '\\x0102'::bytea, 1.5::float8, null",
      }),
    });
    expect(status).toBe(200);
    expect(body).toMatchObject({
      command: "SELECT",
      rowCount: 1,
      rows: [["2024-01-01 10:00:00+00", "\\x0102", "1.5", null]],
    });
    const { fields } = await sql`select id from agentry_test.counters`;
    expect(fields).toEqual([
      {
        name: "id",
        dataTypeID: 23,
        tableID: expect.any(Number),
        columnID: 1,
        dataTypeSize: 4,
        dataTypeModifier: -1,
        format: "text",
      },
    ]);
    expect(fields[0]?.tableID).toBeGreaterThan(16_000);
  });

  it("tells the command and the count of every kind of statement", async () => {
    const results = await sql.transaction([
      sql`create table agentry_test.kinds (id int)`,
      sql`insert into agentry_test.kinds select generate_series(1, 5)`,
      sql`update agentry_test.kinds set id = id + 1 where id > 2`,
      sql`delete from agentry_test.kinds where id = 1`,
      sql`select id from agentry_test.kinds`,
      sql`drop table agentry_test.kinds`,
    ]);
    expect(results.map(({ command, rowCount }) => [command, rowCount])).toEqual([
      ["CREATE", null],
      ["INSERT", 5],
      ["UPDATE", 3],
      ["DELETE", 1],
      ["SELECT", 4],
      ["DROP", null],
    ]);
  });

  it("takes a parameter of 5 MB and gives it back", async () => {
    const large = "ä".repeat(2.5 * 1024 * 1024);
    const { rows } = await sql`select ${large}::text as large, length(${large}) as length`;
    expect(rows[0]?.length).toBe(large.length);
    expect(rows[0]?.large === large).toBe(true);
  });

  it("answers a batch of nothing with nothing, and an empty query with no rows", async () => {
    expect(await sql.transaction([])).toEqual([]);
    expect(await sql.query("")).toMatchObject({ command: "", rowCount: null, rows: [], fields: [] });
  });

  it("refuses two statements in one query", async () => {
    expect((await refusal(sql.query("select 1; select 2"))).code).toBe("42601");
  });

  it("gives errors all their fields", async () => {
    const conflict = await refusal(asOwnerOf("acme")(sql`insert into agentry_test.agents values (9, 'acme', 'ada')`));
    expect(conflict).toMatchObject({
      code: "23505",
      severity: "ERROR",
      constraint: "agents_name_key",
      schema: "agentry_test",
      table: "agents",
      routine: expect.any(String),
      file: expect.any(String),
      line: expect.any(String),
    });
    expect(conflict.message).toBe('duplicate key value violates unique constraint "agents_name_key"');
    expect(conflict.position).toBeUndefined();
    const syntax = await refusal(sql.query("select nothing from"));
    expect([syntax.code, syntax.position]).toEqual(["42601", "20"]);
    const column = await refusal(sql`insert into agentry_test.counters (id) values (7)`);
    expect(column).toMatchObject({ code: "23502", column: "n", detail: expect.stringContaining("7") });
    const hinted = await refusal(sql`select agentry_test.nothing()`);
    expect(hinted).toMatchObject({ code: "42883", hint: expect.any(String) });
    const where = await refusal(sql.query("do $$ begin perform 1 / 0; end $$"));
    expect(where).toMatchObject({ code: "22012", where: expect.stringContaining("PL/pgSQL") });
  });

  const asOwnerOf = (org: string) => (query: ReturnType<typeof sql>) =>
    sql.transaction([sql`select set_config('app.org', ${org}, true)`, query]).then(([, result]) => result);

  it("undoes a batch of which one query fails, and goes on with the next request", async () => {
    const error = await refusal(
      sql.transaction([
        sql`insert into agentry_test.counters values (50, 1)`,
        sql`select 1 / 0`,
        sql`insert into agentry_test.counters values (51, 1)`,
      ]),
    );
    expect(error.code).toBe("22012");
    expect((await sql`select id from agentry_test.counters where id >= 50`).rows).toEqual([]);
  });

  it("reports what only shows at the end, in a batch and alone", async () => {
    const insert = () => sql`insert into agentry_test.parts values (1, 2)`;
    for (const attempt of [sql.transaction([insert()]), insert()])
      expect(await refusal(attempt)).toMatchObject({ code: "23503", constraint: "parts_whole_fkey" });
    await sql.transaction([insert(), sql`insert into agentry_test.parts values (2, 1)`]);
    expect((await sql`delete from agentry_test.parts`).rowCount).toBe(2);
  });

  it.each([
    ["ReadUncommitted", "read uncommitted"],
    ["ReadCommitted", "read committed"],
    ["RepeatableRead", "repeatable read"],
    ["Serializable", "serializable"],
  ] as const)("runs a batch as %s", async (isolationLevel, shown) => {
    const show = [sql`select current_setting('transaction_isolation') as level`];
    expect((await sql.transaction(show, { isolationLevel }))[0]?.rows).toEqual([{ level: shown }]);
  });

  it("runs a batch read-only and deferrable", async () => {
    const show = () =>
      sql`select current_setting('transaction_read_only') || current_setting('transaction_deferrable') as s`;
    const options = { isolationLevel: "Serializable", readOnly: true, deferrable: true } as const;
    expect((await sql.transaction([show()], options))[0]?.rows).toEqual([{ s: "onon" }]);
    expect((await sql.transaction([show()], { readOnly: false, deferrable: false }))[0]?.rows).toEqual([
      { s: "offoff" },
    ]);
    const write = () => sql`update agentry_test.counters set n = n`;
    expect((await refusal(sql.transaction([write()], { readOnly: true }))).code).toBe("25006");
    expect((await write()).rowCount).toBe(1);
  });

  it("shows each org its own rows and nobody any", async () => {
    const names = () => sql`select name from agentry_test.agents`;
    expect((await asOwnerOf("acme")(names()))?.rows).toEqual([{ name: "ada" }]);
    expect((await asOwnerOf("globex")(names()))?.rows).toEqual([{ name: "bob" }]);
    expect((await names()).rows).toEqual([]);
    const foreign = sql`insert into agentry_test.agents values (3, 'globex', 'eve')`;
    expect((await refusal(asOwnerOf("acme")(foreign))).code).toBe("42501");
  });

  it("runs each request as its role", async () => {
    const who = (as: typeof sql) => as`select current_user::text as who`;
    const found = await Promise.all(Array.from({ length: 20 }, (_, i) => who(i % 2 ? sql : asOther)));
    expect(found.map(({ rows }) => rows[0]?.who)).toEqual(found.map((_, i) => (i % 2 ? app : other)));
    expect((await refusal(asOther`select * from agentry_test.counters`)).code).toBe("42501");
    await database.query("select 1");
    const [, , after] = await sql.transaction([sql`select 1`, sql`rollback`, who(sql)]);
    expect(after?.rows).toEqual([{ who: app }]);
    expect(await database.query("select current_user = session_user as same")).toEqual([{ same: true }]);
  });

  it("leaves nothing of a request to the next one", async () => {
    const traces = () => sql`select current_setting('app.org', true) as org, current_setting('work_mem') as work_mem,
      current_setting('default_transaction_read_only') as read_only, current_setting('TimeZone') as zone,
      to_regclass('scratch')::text as scratch, current_user::text as who,
      (select count(*)::int from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()) as locks,
      (select count(*)::int from pg_prepared_statements where from_sql) as prepared,
      (select count(*)::int from pg_cursors where name <> '') as cursors,
      (select count(*)::int from pg_listening_channels()) as channels`;
    const clean = (await traces()).rows;
    const zoneless = clean.map(({ org, ...rest }) => ({ ...rest, org: org || null }));
    for (const leave of [
      "set work_mem = '1MB'",
      "set default_transaction_read_only = on",
      "set timezone = 'Asia/Tokyo'",
      "select set_config('app.org', 'acme', false)",
      "select set_config('work_mem', '1MB', false)",
      "create temp table scratch (id int)",
      "select 1 as id into temp scratch",
      "SELECT 1 AS id INTO TEMPORARY scratch",
      "select pg_advisory_lock(42)",
      "SELECT PG_ADVISORY_LOCK_SHARED(42)",
      "select pg_try_advisory_lock(42)",
      "listen agentry_test",
      "prepare p as select 1",
      "begin",
      "begin read only",
      "declare held cursor with hold for select 1",
      "reset role",
      "set session characteristics as transaction read only",
    ]) {
      for (const attempt of [
        () => sql.query(leave).catch((error: NeonDbError) => expect(error.code, leave).toBe("25P01")),
        () => sql.transaction([sql`select 1`, sql.query(leave)]).catch(() => {}),
        () => refusal(sql.transaction([sql.query(leave), sql.query("commit"), sql`select 1 / 0`])),
      ]) {
        await attempt();
        // After each, since what the next one does to its session could hide it; and with more requests than a pool
        // has sessions, so that each of them is looked at. The embedded one is a single session.
        for (const { rows } of await Promise.all(Array.from({ length: engine === "PGlite" ? 1 : 12 }, traces)))
          expect(
            rows.map(({ org, ...rest }) => ({ ...rest, org: org || null })),
            leave,
          ).toEqual(zoneless);
      }
    }
    expect((await sql`update agentry_test.counters set n = n`).rowCount).toBe(1);
  });

  it("gives a role back that a request put down", async () => {
    await sql.query("set role none").catch(() => {});
    await sql.query("select set_config('role', 'none', false)").catch(() => {});
    await sql.query("select set_config('session_authorization', session_user::text, false)").catch(() => {});
    await sql.query("set session authorization default").catch(() => {});
    const who = await Promise.all(Array.from({ length: 12 }, () => sql`select current_user::text as who`));
    expect(who.map(({ rows }) => rows[0]?.who)).toEqual(who.map(() => app));
  });

  it("answers sixty requests at once, of which some fail, each with its own", async () => {
    await sql`update agentry_test.counters set n = 0 where id = 1`;
    const outcomes = await Promise.all(
      Array.from({ length: 60 }, async (_, i) => {
        const increment = sql`update agentry_test.counters set n = n + 1 where id = 1`;
        if (i % 3 === 0) return (await refusal(sql.transaction([increment, sql`select ${i}::int / 0`]))).code;
        const [, result] = await sql.transaction([increment, sql`select ${i}::int as i`]);
        return result?.rows[0]?.i;
      }),
    );
    expect(outcomes).toEqual(outcomes.map((_, i) => (i % 3 === 0 ? "22012" : i)));
    expect((await sql`select n from agentry_test.counters where id = 1`).rows).toEqual([{ n: 40 }]);
  });

  it("names a wrong password and an unknown role alike", async () => {
    const wrong = endpoint.url(app).replace("s3cret", "secret");
    for (const [url, role] of [
      [wrong, app],
      [endpoint.url("postgres"), "postgres"],
    ] as const) {
      const { status, body } = await send({ headers: { "Neon-Connection-String": url } });
      expect([status, body]).toEqual([
        401,
        { message: `password authentication failed for user "${role}"`, code: "28P01" },
      ]);
      expect((await refusal(neon(url)`select 1`)).message).toContain("401");
    }
  });

  const body = (value: unknown) => ({ body: JSON.stringify(value) });
  const header = (name: string, value: string | undefined) => ({ headers: { [name]: value } });
  const batch = (name: string, value: string) => ({ ...header(name, value), ...body({ queries: [] }) });
  it.each<[string, Parameters<typeof send>[0], number, string]>([
    ["another method", { method: "GET" }, 405, "POST"],
    ["another path", { path: "/sql/" }, 404, "POST /sql"],
    ["a web page", header("Origin", "http://localhost:3000"), 403, "Origin"],
    ["a preflight", { method: "OPTIONS", ...header("Origin", "null") }, 403, "Origin"],
    ["a rebound host", header("Host", "evil.example:80"), 403, "Host"],
    ["a host that begins like ours", header("Host", "127.0.0.1.evil.example"), 403, "Host"],
    ["no connection string", header("Neon-Connection-String", undefined), 400, "Neon-Connection-String"],
    ["a broken connection string", header("Neon-Connection-String", "postgres"), 400, "connection string"],
    [
      "a badly escaped one",
      header("Neon-Connection-String", "postgresql://%E0:x@127.0.0.1/agentry"),
      400,
      "connection",
    ],
    ["another scheme", header("Neon-Connection-String", "http://a:b@127.0.0.1/agentry"), 400, "connection string"],
    ["parsed output", header("Neon-Raw-Text-Output", undefined), 400, "Neon-Raw-Text-Output"],
    ["rows as objects", header("Neon-Array-Mode", "false"), 400, "Neon-Array-Mode"],
    ["an unknown isolation level", batch("Neon-Batch-Isolation-Level", "serializable; drop"), 400, "Serializable"],
    ["one that objects inherit", batch("Neon-Batch-Isolation-Level", "constructor"), 400, "Serializable"],
    ["a flag that is none", batch("Neon-Batch-Read-Only", "yes"), 400, "Neon-Batch-Read-Only"],
    ["another such flag", batch("Neon-Batch-Deferrable", "1"), 400, "Neon-Batch-Deferrable"],
    ["no JSON", { body: "{" }, 400, "JSON"],
    ["no object", body([]), 400, "object"],
    ["no query", body({}), 400, "query"],
    ["both kinds", body({ query: "select 1", queries: [] }), 400, "either"],
    ["queries that are no list", body({ queries: {} }), 400, "list"],
    ["a query of another type", body({ queries: ["select 1"] }), 400, "query"],
    ["params that are no list", body({ query: "select 1", params: "1" }), 400, "params"],
    ["a param that is no text", body({ query: "select $1", params: [1] }), 400, "params"],
    ["more params than can be counted", body({ query: "select 1", params: Array(65_536).fill("") }), 400, "65535"],
    ["a NUL in a query", body({ query: "select 1\0 garbage" }), 400, "NUL"],
    ["lines to copy", body({ query: "/* /* */ */ copy agentry_test.counters from stdin" }), 400, "COPY"],
    ["more than 16 MB", { body: " ".repeat(16 * 1024 * 1024 + 1) }, 413, "16 MB"],
  ])("refuses %s", async (_, attempt, status, message) => {
    const answer = await send(attempt);
    expect([answer.status, answer.body.message]).toEqual([status, expect.stringContaining(message)]);
  });

  it("still answers after all that", async () => {
    expect((await send({})).status).toBe(200);
    expect((await send(header("Host", `localhost:${endpoint.port}`))).status).toBe(200);
    const nul = await refusal(sql`select ${"\0"}::text`);
    expect(nul.code).toBe("22021");
    const most = Array.from({ length: 65_535 }, () => "1");
    expect((await refusal(sql.query("select 1", most))).code).toBe("08P01");
  });

  it("answers what has been asked before it closes", async () => {
    const second = await serveNeon(database, { password, roles: [app] });
    // The driver sends nothing before somebody waits for it.
    const answer = neon(second.url(app))`select pg_sleep(0.1), 1 as one`.then((rows) => rows);
    await once(second.server, "request");
    await second.close();
    expect(await answer).toMatchObject([{ one: 1 }]);
    await refusal(neon(second.url(app))`select 1`);
  });

  it("listens on the loopback address alone", () => {
    expect(endpoint.server.address()).toMatchObject({ address: "127.0.0.1", port: endpoint.port });
  });

  it("lets the owner run scripts and queries", async () => {
    await database.exec(
      "create table agentry_test.made (id int8, at timestamptz); insert into agentry_test.made values (1, 'epoch');",
    );
    expect(await database.query("select * from agentry_test.made where id = $1", [1])).toEqual([
      { id: "1", at: new Date(0) },
    ]);
    const failed = database.exec("begin; drop table agentry_test.made; select 1 / 0; commit;");
    await expect(failed).rejects.toMatchObject({ name: "DatabaseError", code: "22012" });
    expect(await database.query("select id from agentry_test.made")).toEqual([{ id: "1" }]);
    await expect(database.query("selec")).rejects.toBeInstanceOf(DatabaseError);
    await database.exec("set work_mem = '1MB'; drop table agentry_test.made;");
    expect(await database.query("select current_setting('work_mem') as work_mem")).toEqual([{ work_mem: "4MB" }]);
  });

  describe.runIf(engine === "PostgreSQL")("keeps statements parsed", () => {
    /** What one of the pool's sessions keeps; asked again in the same order, since it takes what was last used. */
    const kept = async (like: string) => {
      const rows =
        await sql`select statement from pg_prepared_statements where statement like ${like} and not from_sql`;
      return rows.rows.map(({ statement }) => statement);
    };

    it("that were met twice, and none that ran once", async () => {
      for (const text of ["select 'once'", "select 'twice'", "select 'twice'"]) await sql.query(text);
      expect(await kept("select '%'")).toEqual(["select 'twice'"]);
    });

    it("and gives each request its own parameters and rows", async () => {
      for (let i = 0; i < 8; i++) {
        const [one, two] = await sql.transaction([sql`select ${i}::int as i`, sql`select ${-i - 1}::int as i`]);
        expect([one?.rows, two?.rows, one?.fields.map(({ name }) => name)]).toEqual([[{ i }], [{ i: -i - 1 }], ["i"]]);
      }
    });

    it("in bounds, those that were met last", async () => {
      for (let i = 0; i < 250; i++)
        await sql.transaction([sql.query(`select ${i} as n`), sql.query(`select ${i} as n`)]);
      const still = await kept("select % as n");
      expect(still.length).toBeGreaterThan(100);
      expect(still.length).toBeLessThanOrEqual(200);
      expect(still).toContain("select 249 as n");
      expect((await sql.query("select 0 as n")).rows).toEqual([{ n: 0 }]);
    });

    it("and parses them anew where a table has got another column", async () => {
      const rows = () => sql`select * from agentry_test.counters where id = 1`;
      for (let i = 0; i < 7; i++) await rows();
      await database.exec("alter table agentry_test.counters add note text default 'new'");
      expect((await rows()).rows).toEqual([{ id: 1, n: expect.anything(), note: "new" }]);
      await database.exec("alter table agentry_test.counters drop note");
      const [written, read] = await sql.transaction([sql`update agentry_test.counters set n = 7 where id = 1`, rows()]);
      expect([written?.rowCount, read?.rows]).toEqual([1, [{ id: 1, n: 7 }]]);
    });

    it("and parses them anew where the server has lost them", async () => {
      await database.exec(`create function agentry_test.lose() returns int language plpgsql as
        $$ begin execute 'deallocate all'; return 1; end $$`);
      const lose = () => sql`select agentry_test.lose() as n`;
      for (let i = 0; i < 4; i++) expect((await lose()).rows).toEqual([{ n: 1 }]);
    });

    it("and parses one anew that stood behind one that failed", async () => {
      const late = () => sql`select 'late' as text`;
      for (let i = 0; i < 3; i++)
        expect((await refusal(sql.transaction([sql`select 1 / 0`, late()]))).code).toBe("22012");
      expect((await late()).rows).toEqual([{ text: "late" }]);
    });

    it("and never runs one in the place of another", async () => {
      const one = (i: number) => sql.query(`select ${i} as n`);
      // As many as are kept, then as many that take their places, behind one that fails.
      for (let i = 1000; i < 1250; i++) await sql.transaction([one(i), one(i)]);
      for (let i = 2000; i < 2250; i++) {
        await refusal(sql.transaction([sql`select 1 / 0`, one(i), one(i)]));
        if (i % 10 === 0) expect((await one(i)).rows).toEqual([{ n: i }]);
      }
      for (let i = 2240; i < 2250; i++) expect((await one(i)).rows).toEqual([{ n: i }]);
    });
  });

  it.runIf(engine === "PostgreSQL")("says that it lost Postgres, and connects again", async () => {
    const lost = refusal(sql`select pg_sleep(20)`);
    const end = `select pg_terminate_backend(pid) from pg_stat_activity
      where query like 'select pg_sleep%' and datname = current_database()`;
    await expect.poll(() => database.query(end)).toHaveLength(1);
    expect((await lost).message).toMatch(/^Server error \(HTTP status 503\)/);
    expect((await sql`select 1 as one`).rows).toEqual([{ one: 1 }]);
    const sessions = await Promise.all(Array.from({ length: 12 }, () => sql`select pg_backend_pid() as pid`));
    const pids = `{${sessions.map(({ rows }) => rows[0]?.pid)}}`;
    await database.query("select pg_terminate_backend(pid) from unnest($1::int[]) as pid", [pids]);
    const answers = await Promise.allSettled(Array.from({ length: 12 }, () => sql`select 1 as one`));
    expect(answers.filter(({ status }) => status === "rejected").length).toBeLessThanOrEqual(10);
    expect((await sql`select 1 as one`).rows).toEqual([{ one: 1 }]);
  });

  it.runIf(engine === "PostgreSQL")("says that a role cannot be had", async () => {
    const { status, body } = await send({
      headers: { "Neon-Connection-String": endpoint.url("agentry_test_absent") },
    });
    expect([status, body.message]).toEqual([503, expect.stringContaining("agentry_test_absent")]);
  });
});
