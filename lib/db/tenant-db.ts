/**
 * The only database a route knows: Kysely's verbs, already held to the viewer's tenant (wall one), each round trip
 * opened by the credential's door, which sets row-level security (wall two) and refuses a credential that is no
 * longer alive. Tables stand in schema `data`, which is in no search_path, so there is no way around the verbs.
 */
import {
  CompiledQuery,
  DefaultQueryExecutor,
  type InsertObject,
  type InsertQueryBuilder,
  PostgresAdapter,
  PostgresQueryCompiler,
  QueryCreator,
  type QueryExecutorProvider,
  type RawBuilder,
  type SelectQueryBuilder,
  sql,
  type UpdateObject,
} from "kysely";
import { type Id, newId } from "../ids.ts";
import { type Kind, kinds, type Published, published, type Told } from "../kinds.ts";
import type { CursorPage, Page } from "../paging.ts";
import { asRefusal, type Full, fullOf, lostRace } from "./errors.ts";
import type { Connection } from "./neon.ts";
import { owns } from "./owns.ts";
import {
  type Database,
  type Metadata,
  NONE,
  type None,
  type Row,
  type Tenant,
  type TenantTable,
  type Viewer,
} from "./schema.ts";
import { type Change, type Insert, Patch, type Rows, type Runs, type Statement, type Update } from "./statements.ts";

// The class `Kysely` would bring its schema builders, its introspector and its driver into every Worker.
const compiler = new PostgresQueryCompiler();
const adapter = new PostgresAdapter();

/** A sandbox and an org that no row is in: an unset setting reads as this too. */
const NOWHERE = "" as None;

/**
 * The credential's `app.enter_…`, what to call the permission in a refusal, and who asks.
 */
export type Door = {
  enter: CompiledQuery;
  permission: string;
  viewer: Viewer;
  /** Told what the door answered, before anything else of the round trip is looked at. */
  onEntered?: (row: Record<string, unknown>) => void;
  /** Something was told in this place, and somebody listens there. After the commit. */
  onTold: (place: Row<"tenants">) => void;
  /** Something was refused because an org has as many as it may. */
  onFull?: (full: Full) => void;
};

type Answers<Q extends Record<string, Statement<unknown>>> = {
  -readonly [K in keyof Q]: Q[K] extends Statement<infer O> ? O[] : never;
};

type Expression<T> = RawBuilder<T>;
const isExpression = (value: unknown): value is Expression<unknown> =>
  value instanceof Object && "toOperationNode" in value;

/** What an activity entry says of a changed row; expressions are over its columns. */
export type Telling = {
  kind: Told;
  title: Expression<string>;
  /** The agent that the entry is about. */
  agent_id?: Expression<string>;
  /** The user it is about; without one, who did it. */
  user_id?: Expression<string>;
  /** Who besides the org's admins may read the entry; without it, everybody in the org. */
  readers?: Expression<string[] | null>;
  metadata?: Metadata;
  /** The entry belongs to the app, not to the row's org: that org is gone with the row. */
  toApp?: true;
};

/** What an answer shows of what is around a row, by its name: each is one value, over the columns of `subject`. */
export type Shown = Record<string, Expression<unknown>>;

/** Tables whose rows aren't an org's: their `org_id` is made by the table itself. */
const WITHOUT_ORG: readonly TenantTable[] = [kinds.key.table, kinds.org.table, kinds.sandbox.table];

/** An idempotency key on its way: it commits with the first write of the request, or not at all. */
export type IdempotencyKey = { subject: string; key: string; fingerprint: Uint8Array; row_id: string };
/** What a keyed write ends with: whether it made its row is noted, and if not, the key is taken back. */
type Settle = { table: TenantTable; row_id: string; release: CompiledQuery };

export class TenantDb {
  readonly tenant: Tenant;
  /** Who asks, as access lists know them. */
  readonly viewer: Viewer;
  readonly #connection: Connection;
  readonly #door: Door;
  readonly #mode: "read" | "write";
  readonly #before: CompiledQuery[];
  readonly #settle: Settle | null;
  /** The routines whose runs led to what is written through it, oldest first. */
  readonly #causes: readonly string[];
  readonly #kysely: QueryCreator<Database>;
  readonly #runs: QueryExecutorProvider;

  constructor(
    connection: Connection,
    door: Door,
    tenant: Tenant,
    mode: "read" | "write",
    before: CompiledQuery[] = [],
    settle: Settle | null = null,
    viewer = door.viewer,
    causes: readonly string[] = [],
  ) {
    this.tenant = tenant;
    this.viewer = viewer;
    this.#connection = connection;
    this.#door = door;
    this.#mode = mode;
    this.#before = before;
    this.#settle = settle;
    this.#causes = causes;
    const executor = new DefaultQueryExecutor(compiler, adapter, {
      provideConnection: async (use) =>
        use({
          executeQuery: async (query) => (await this.#run([query]))[0] as never,
          streamQuery: () => {
            throw new Error("nothing streams over HTTP");
          },
        }),
    });
    this.#kysely = new QueryCreator<Database>({ executor });
    this.#runs = { getExecutor: () => executor };
  }

  /** One round trip: the door, what narrows it, then the statements, and what settles them. A lost race: another. */
  async #run(queries: readonly CompiledQuery[]) {
    const all = [this.#door.enter, ...this.#before, ...queries, ...this.#settling()];
    try {
      const [entered, ...results] = await this.#connection(all, this.#mode).catch((error) => {
        if (!lostRace(error)) throw error;
        return this.#connection(all, this.#mode);
      });
      this.#door.onEntered?.((entered?.rows[0] ?? {}) as Record<string, unknown>);
      const asked = results.slice(this.#before.length, this.#before.length + queries.length);
      for (const { rows } of asked) this.#heard(rows[0] as { heard_in?: Id<"org"> | None } | undefined);
      return asked;
    } catch (error) {
      const full = fullOf(error);
      if (full) this.#door.onFull?.(full);
      throw asRefusal(error, this.#door.permission);
    }
  }

  /** What a statement that tells says besides its row: where somebody listens to what it told. */
  #heard(row: { heard_in?: Id<"org"> | None | null } | undefined): void {
    if (!row || !("heard_in" in row)) return;
    const { heard_in: org_id } = row;
    delete row.heard_in;
    const { app: app_id, sandbox: sandbox_id } = this.tenant;
    if (org_id) this.#door.onTold({ app_id, sandbox_id, org_id });
  }

  /** The row is looked for where the write went; the key lies where the door leads, so it is gone through again. */
  #settling(): CompiledQuery[] {
    if (!this.#settle) return [];
    const { table, row_id, release } = this.#settle;
    const row = this.selectFrom(table).where(sql<boolean>`id = ${row_id}`).select(sql`id`.as("id"));
    const note = sql`select set_config('app.made', exists ${row}::text, true)`;
    return [note.compile(this.#runs), this.#door.enter, release];
  }

  #with(change: {
    tenant?: Tenant;
    before?: CompiledQuery[];
    settle?: Settle;
    viewer?: Viewer;
    causes?: readonly string[];
  }): TenantDb {
    return new TenantDb(
      this.#connection,
      this.#door,
      change.tenant ?? this.tenant,
      this.#mode,
      [...this.#before, ...(change.before ?? [])],
      change.settle ?? this.#settle,
      change.viewer ?? this.viewer,
      change.causes ?? this.#causes,
    );
  }

  /** The tenant's rows of a table, to select from or, with `.selectAll().as(…)`, to join. */
  selectFrom<T extends TenantTable>(table: T): Rows<T> {
    const owned = this.#kysely
      .selectFrom(`data.${table} as ${table}` as never)
      .selectAll()
      .where(owns(this.tenant, table))
      .as(table);
    return this.#kysely.selectFrom(owned) as never;
  }

  /** A column of the tenant's row with this id, as an expression: null where there is none. */
  valueOf<T extends TenantTable, C extends keyof Row<T> & string>(
    table: T,
    column: C,
    id: Expression<unknown>,
  ): Expression<Row<T>[C] | null> {
    const row = this.selectFrom(table).where(sql<boolean>`${sql.ref(`${table}.id`)} = ${id}`);
    return sql`(${row.select(sql.ref(`${table}.${column}`).as(column))})`;
  }

  #ownerOf(table: TenantTable) {
    const { app, sandbox } = this.tenant;
    const owner = { app_id: app, sandbox_id: sandbox };
    if (WITHOUT_ORG.includes(table)) return owner;
    return { ...owner, org_id: this.tenant.kind === "org" ? this.tenant.org : NONE };
  }

  /** Inserts a row that belongs to the viewer's tenant. */
  insertInto<T extends TenantTable>(table: T, row: InsertObject<Database, T>): Insert<T, object> {
    const insert = this.#kysely.insertInto(`data.${table}` as never);
    return insert.values({ ...row, ...this.#ownerOf(table) } as never) as unknown as Insert<T, object>;
  }

  /**
   * Inserts a row for each of the rows above, which belongs to the tenant of that row: none, where there is none above.
   * Values may be expressions over the columns of the row above.
   */
  insertUnder<P extends TenantTable, T extends TenantTable>(
    above: Rows<P>,
    table: T,
    row: InsertObject<Database, T>,
  ): Insert<T, object> {
    const values = Object.entries(row).filter(([, value]) => value !== undefined);
    const owner = ["app_id", "sandbox_id", "org_id"];
    return this.#kysely
      .insertInto(`data.${table}` as never)
      .columns([...owner, ...values.map(([column]) => column)] as never)
      .expression(
        above.select([...owner, ...values.map(([column, value]) => sql`${value}`.as(column))] as never),
      ) as unknown as Insert<T, object>;
  }

  /**
   * Inserts those of these rows, which have the same columns, under the one row above, as one statement. `from` are columns
   * that are more than a value: expressions over `item`, the row as it was given, and `above`; so is `where`.
   */
  insertAll<P extends TenantTable, T extends TenantTable>(
    above: Rows<P>,
    table: T,
    rows: readonly object[],
    from: Record<string, RawBuilder<unknown>>,
    where = sql`true`,
  ): Statement<unknown> {
    const given = Object.keys(rows[0] ?? {}).filter((column) => !Object.hasOwn(from, column));
    const items = sql`jsonb_populate_recordset(null::${sql.table(`data.${table}`)}, ${JSON.stringify(rows)}::jsonb) as item`;
    return this.running(
      this.insertFrom("above", sql`(${above.selectAll()}) as above, ${items} where ${where}`, table, {
        ...Object.fromEntries(given.map((column) => [column, sql.ref(`item.${column}`)])),
        ...from,
      }),
    );
  }

  /**
   * The part of a statement that inserts a row for each of these, which belongs to the tenant of what is called `above`
   * there: rows that a verb has found or changed. `columns` are expressions over them.
   */
  insertFrom<T extends TenantTable>(
    above: string,
    rows: RawBuilder<unknown>,
    table: T,
    columns: Record<string, RawBuilder<unknown>>,
  ): RawBuilder<unknown> {
    const owner = ["app_id", "sandbox_id", "org_id"].map((column) => [column, sql.ref(`${above}.${column}`)] as const);
    const values = [...owner, ...Object.entries(columns)];
    return sql`insert into ${sql.table(`data.${table}`)} (${sql.join(values.map(([column]) => sql.ref(column)))})
      select ${sql.join(values.map(([, value]) => value))} from ${rows}`;
  }

  /**
   * The part of a statement that changes each row whose id an `item` has, and answers it: `set` are expressions over both.
   */
  updateEach<T extends TenantTable>(
    table: T,
    items: RawBuilder<unknown>,
    set: Record<string, RawBuilder<unknown>>,
    where: RawBuilder<unknown>,
  ): RawBuilder<unknown> {
    const to = Object.entries(set).map(([column, value]) => sql`${sql.ref(column)} = ${value}`);
    return sql`update ${sql.table(`data.${table}`)} as ${sql.ref(table)} set ${sql.join(to)} from ${items}
      where ${owns(this.tenant, table)} and ${sql.ref(`${table}.id`)} = item.id and ${where} returning ${sql.ref(table)}.*`;
  }

  updateTable<T extends TenantTable>(table: T): Update<T, object> {
    const update = this.#kysely.updateTable(`data.${table} as ${table}` as never);
    return update.where(owns(this.tenant, table)) as unknown as Update<T, object>;
  }

  /**
   * An update to these values, of the one row that its conditions name, which moves `updated_at`; a row that has them
   * already is left as it is. Answers the row as it is afterwards either way; none, where there is no such row.
   */
  patch<T extends TenantTable>(table: T, values: UpdateObject<Database, T, T>): Patch<T> {
    return new Patch(this.selectFrom(table), this.updateTable(table), values, (...statements) =>
      this.running(...statements),
    );
  }

  deleteFrom<T extends TenantTable>(table: T): Change<T, object> {
    const del = this.#kysely.deleteFrom(`data.${table} as ${table}` as never);
    return del.where(owns(this.tenant, table)) as unknown as Change<T, object>;
  }

  /** A call of a function of the database, which is told the tenant first; `columns` of what it answers. */
  call<O>(
    name:
      | "bring_in"
      | "decide_device"
      | "end_sign_ins"
      | "end_sso"
      | "family_user"
      | "note_sso_attempt"
      | "number_events"
      | "rotate_token"
      | "set_password"
      | "sign_in"
      | "sign_in_as_kept"
      | "sign_in_granted"
      | "take_sso"
      | "webhooks_of",
    args: unknown[],
    columns = "*",
  ): Statement<O> {
    const { app, sandbox } = this.tenant;
    const all = [app, sandbox, this.tenant.kind === "org" ? this.tenant.org : "*", ...args];
    const text = `select ${columns} from app.${name}(${all.map((_, i) => `$${i + 1}`)})`;
    return { compile: () => CompiledQuery.raw(text, all) as CompiledQuery<O> };
  }

  /** Through the door and no further: a dead credential is refused as such before it learns of any other refusal. */
  async enter(): Promise<void> {
    await this.#run([]);
  }

  /** Statements that commit together, in one round trip, in the order that they are named in; the rows of each by its name. */
  async batch<const Q extends Record<string, Statement<unknown>>>(statements: Q): Promise<Answers<Q>> {
    const queries = Object.entries(statements).flatMap(([name, statement]) => [
      ...(statement.hold ? [{ name: null, query: statement.hold() }] : []),
      { name, query: statement.compile() },
    ]);
    const results = await this.#run(queries.map(({ query }) => query));
    return Object.fromEntries(
      queries.flatMap(({ name }, i) => (name === null ? [] : [[name, results[i]!.rows]])),
    ) as Answers<Q>;
  }

  /** A numbered page of rows, newest first, and how many there are on all pages, in one round trip. */
  async page<DB, TB extends keyof DB, O>(rows: SelectQueryBuilder<DB, TB, O>, { page, page_size }: Page) {
    const { found, count } = await this.batch({
      found: rows
        .orderBy(sql`id desc`)
        .limit(page_size)
        .offset((page - 1) * page_size),
      count: rows.clearSelect().select(sql<number>`count(*)`.as("total")),
    });
    return { rows: found, total: (count[0] as { total: number }).total };
  }

  /** Rows of a table (or these columns of them) from a cursor on, in the order in which it goes; one more than asked for, if there is one. */
  async pageByCursor<T extends TenantTable>(
    rows: Rows<T>,
    { limit, direction, from }: CursorPage,
    columns?: readonly (keyof Row<T> & string)[],
  ): Promise<Row<T>[]> {
    const newer = direction === "newer";
    const after = from === null ? rows : rows.where(sql<boolean>`id ${newer ? sql`>` : sql`<`} ${from}`);
    const wanted = columns ? (after.select(columns as never) as Rows<T>) : after.selectAll();
    return (wanted as Rows<T>)
      .orderBy(newer ? sql`id` : sql`id desc`)
      .limit(limit + 1)
      .execute() as Promise<Row<T>[]>;
  }

  /** This database narrowed to one org of the app (or its own rows, `NONE`); both walls follow. */
  inOrg(org: Id<"org"> | None): TenantDb {
    const { app, sandbox } = this.tenant;
    return this.#narrowed({ kind: "org", app, sandbox, org });
  }

  /** A production developer's database, narrowed to one of the app's sandboxes. */
  inSandbox(sandbox: Id<"sandbox">): TenantDb {
    return this.#narrowed({ kind: "app", app: this.tenant.app, sandbox });
  }

  /** For a batch of the database that this one was narrowed from: from this statement on it is this one. */
  get narrowing(): Statement<unknown> {
    return { compile: () => this.#before.at(-1)! };
  }

  /** This database as somebody else sees it: their access lists hold, the tenant stays. */
  as(viewer: Viewer): TenantDb {
    return this.#with({ viewer });
  }

  /** This database, all that is told through which is the doing of these routines, oldest first. */
  causedBy(causes: readonly string[]): TenantDb {
    return this.#with({ causes });
  }

  /** This database behind a statement that refuses (raises) before anything else of the round trip runs. */
  behind(gate: RawBuilder<unknown>): TenantDb {
    return this.#with({ before: [gate.compile(this.#runs)] });
  }

  /** Never widens, as app.within: from an org, or into a sandbox from another one, it leads to nothing. */
  #narrowed(tenant: Tenant): TenantDb {
    const { kind, app, sandbox } = this.tenant;
    const narrows = kind === "app" && (sandbox === NONE || sandbox === tenant.sandbox);
    const org = tenant.kind === "org" ? tenant.org : "*";
    return this.#with({
      tenant: narrows ? tenant : { kind: "org", app, sandbox: NOWHERE, org: NOWHERE },
      before: [CompiledQuery.raw("select app.within($1, $2)", [tenant.sandbox, org])],
    });
  }

  /** This database, whose next write commits together with an idempotency key, if it makes its row of the table. */
  keyed(table: TenantTable, key: IdempotencyKey): TenantDb {
    const release = this.deleteFrom("idempotency_keys")
      .where("subject", "=", key.subject)
      .where("key", "=", key.key)
      .where(sql<boolean>`current_setting('app.made') = 'false'`);
    return this.#with({
      before: [this.insertInto("idempotency_keys", key).compile() as CompiledQuery],
      settle: { table, row_id: key.row_id, release: release.compile() },
    });
  }

  /**
   * A change, the entry that tells of it, and the event, as one statement: what changed nothing tells nothing. Answers the
   * row with what is `shown` beside it.
   */
  telling<T extends TenantTable, S extends Shown = Record<never, never>>(
    change: Insert<T, object> | Change<T, object> | Patch<T>,
    { kind, title, agent_id, user_id, readers, metadata, toApp }: Telling,
    shown?: S,
  ): Runs<Row<T> & { [K in keyof S]: S[K] extends Expression<infer V> ? V : never }> {
    const { viewer } = this.#door;
    const actor = viewer.kind === "user" ? viewer.user : null;
    const place = sql`app_id, sandbox_id, ${toApp ? sql.lit(NONE) : sql`org_id`}`;
    const about = sql`${agent_id ?? null}, ${user_id ?? actor}, ${readers ?? null}`;
    const { state } = kinds[kind.split(".")[0] as Kind] as { state?: "status" | "state" };
    const payload = sql`jsonb_strip_nulls(jsonb_build_object('id', id, 'agent', ${agent_id ?? null}::text,
      ${state ?? "status"}::text, ${state ? sql.ref(state) : null}::text)) || ${JSON.stringify(metadata ?? {})}::jsonb`;
    const entry = sql`insert into data.activity_feed_entries
        (id, app_id, sandbox_id, org_id, kind, title, agent_id, user_id, readers, metadata)
      select ${newId("activity_feed_entry")}, ${place}, ${kind}, ${title}, ${about}, ${JSON.stringify({ actor, ...metadata })}
        from changed), event as (
      insert into data.events (id, app_id, sandbox_id, org_id, name, payload, agent_id, user_id, readers, causes)
      select names.told_id, ${place}, names.told_name, ${payload}, ${about}, ${[...this.#causes]}::text[]
        from changed cross join lateral (${this.#namesOf(kind, change)}) names (told_id, told_name)
      returning org_id`;
    const more = sql.join([
      sql``,
      ...Object.entries(shown ?? {}).map(([name, value]) => sql`${value} as ${sql.ref(name)}`),
      this.#heardIn,
    ]);
    if (change instanceof Patch) return change.telling(entry, more) as never;
    const changed = change.returningAll() as unknown as InsertQueryBuilder<Database, T, object>;
    return this.running(
      sql`with changed as (${changed}), told as (${entry}) select subject.*${more} from changed as subject`,
    ) as never;
  }

  /** The events that a change of a row is, each with a new id: itself and, behind it, the state that the row has come to. */
  #namesOf(kind: Told, change: unknown) {
    if (!published.includes(kind as Published)) return sql`select null, null where false`;
    const itself = sql`select ${newId("event")}, ${kind}`;
    const [subject] = kind.split(".") as [Kind];
    const { state } = kinds[subject] as { state?: "status" | "state" };
    if (!state || !(change instanceof Patch) || !change.sets(state)) return itself;
    const was = sql`(select ${sql.ref(`was.${state}`)} from held was where was.id = changed.id)`;
    const now = sql.ref(`changed.${state}`);
    return sql`${itself} union all select ${newId("event")}, ${`${subject}.`} || ${now} where ${now} is distinct from ${was}`;
  }

  /**
   * Writes an event where the one row above is, over whose columns its values may be expressions: nothing, where there is
   * none, or the event is there. lib/events/emit.ts knows what events say.
   */
  event<P extends TenantTable>(
    above: Rows<P>,
    { payload, ...event }: Omit<InsertObject<Database, "events">, "payload" | "causes"> & { payload: object },
  ): Runs<Row<"events">> {
    const { viewer } = this.#door;
    const fields = Object.entries(payload);
    const values = Object.fromEntries(fields.filter(([, value]) => !isExpression(value)));
    const expressions = fields.flatMap(([field, value]) =>
      isExpression(value) ? [sql`${field}::text`, value as Expression<unknown>] : [],
    );
    const there = this.selectFrom("events").where(sql<boolean>`events.id = ${event.id}`);
    const free = above.where(sql<boolean>`not exists (${there.select(sql`1`.as("one"))})`);
    const insert = this.insertUnder(free, "events", {
      ...{ user_id: viewer.kind === "user" ? viewer.user : null, causes: sql`${[...this.#causes]}::text[]` },
      ...event,
      payload: sql`${JSON.stringify(values)}::jsonb || jsonb_strip_nulls(jsonb_build_object(${sql.join(expressions)}))`,
    } as never);
    const written = insert.returningAll() as unknown as Expression<unknown>;
    return this.running(sql`with event as (${written}) select event.*, ${this.#heardIn} from event`);
  }

  /** Of a statement that has written into `event`: where somebody listens to it. Taken off the row by `#heard`. */
  get #heardIn(): Expression<unknown> {
    const { app, sandbox } = this.tenant;
    return sql`(select e.org_id from event e where app.is_heard(${app}, ${sandbox}, e.org_id) limit 1) as heard_in`;
  }

  /** A statement that the verbs have no word for, of parts that they made; behind one that holds what it looks at. */
  running<O>(statement: RawBuilder<O>, hold?: Statement<unknown>): Runs<O> {
    const itself = { compile: () => statement.compile(this.#runs), ...(hold && { hold: () => hold.compile() }) };
    const execute = async () => (await this.batch({ rows: itself })).rows;
    return {
      ...itself,
      execute,
      executeTakeFirst: async () => (await execute())[0],
      executeTakeFirstOrThrow: async (otherwise) => {
        const [row] = await execute();
        if (row === undefined) throw otherwise();
        return row;
      },
    };
  }
}
