/**
 * The only database a route knows: Kysely's verbs, already held to the viewer's tenant (wall one), each round trip
 * opened by the credential's door, which sets row-level security (wall two) and refuses a credential that is no
 * longer alive. Tables stand in schema `data`, which is in no search_path, so there is no way around the verbs.
 */
import {
  type ComparisonOperatorExpression,
  CompiledQuery,
  type ExpressionOrFactory,
  type InsertObject,
  type InsertQueryBuilder,
  Kysely,
  type OperandValueExpressionOrList,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type RawBuilder,
  type ReferenceExpression,
  type Selectable,
  type SelectQueryBuilder,
  type SqlBool,
  sql,
  type UpdateObject,
} from "kysely";
import { type Id, newId } from "../ids.ts";
import { asLiveness, lostRace } from "./errors.ts";
import type { Connection } from "./neon.ts";
import { owns } from "./owns.ts";
import { type Database, type Metadata, NONE, type None, type TenantTable } from "./schema.ts";

/** A sandbox and an org that no row is in: an unset setting reads as this too. */
const NOWHERE = "" as None;

/** What bounds a database: a developer's app (in one partition), or one org of it. Never a nullable org. */
export type Tenant =
  | { kind: "app"; app: Id<"app">; sandbox: Id<"sandbox"> | None }
  | { kind: "org"; app: Id<"app">; sandbox: Id<"sandbox"> | None; org: Id<"org"> | None };

/**
 * The credential's `app.enter_…`, what to call the permission in a refusal, who acts (null: the developer), and what
 * to do when the use has not been noted for a while.
 */
export type Door = { enter: CompiledQuery; permission: string; actor: Id<"user"> | null; onStale: () => void };

/** What a batch takes: anything that compiles to one statement with rows of type O. */
export type Statement<O> = { compile(): CompiledQuery<O> };
type Rows<Q extends readonly Statement<unknown>[]> = {
  -readonly [K in keyof Q]: Q[K] extends Statement<infer O> ? O[] : never;
};

export interface Runs<O> extends Statement<O> {
  execute(): Promise<O[]>;
  executeTakeFirst(): Promise<O | undefined>;
}

/** An insert that can't become an upsert: `on conflict do update` would write over a row that nobody filtered. */
export interface Insert<T extends TenantTable, O> extends Runs<O> {
  returningAll(): Insert<T, Selectable<Database[T]>>;
}

/** An update or delete whose owner filter can't be cleared again. */
export interface Change<T extends TenantTable, O> extends Runs<O> {
  where<RE extends ReferenceExpression<Database, T>>(
    column: RE,
    operator: ComparisonOperatorExpression,
    value: OperandValueExpressionOrList<Database, T, RE>,
  ): Change<T, O>;
  where(expression: ExpressionOrFactory<Pick<Database, T>, T, SqlBool>): Change<T, O>;
  returningAll(): Change<T, Selectable<Database[T]>>;
}
export interface Update<T extends TenantTable, O> extends Change<T, O> {
  set(values: UpdateObject<Database, T, T>): Update<T, O>;
}

type Expression<T> = RawBuilder<T>;

/** What an activity entry says of a changed row; expressions are over its columns. */
export type Telling = {
  kind: string;
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

/** An idempotency key on its way: it commits with the first write of the request, or not at all. */
export type IdempotencyKey = { subject: string; key: string; fingerprint: Uint8Array; row_id: string };
/** What a keyed write ends with: whether it made its row is noted, and if not, the key is taken back. */
type Settle = { table: TenantTable; row_id: string; release: CompiledQuery };

export class TenantDb {
  readonly tenant: Tenant;
  readonly #connection: Connection;
  readonly #door: Door;
  readonly #mode: "read" | "write";
  readonly #before: CompiledQuery[];
  readonly #settle: Settle | null;
  readonly #kysely: Kysely<Database>;

  constructor(
    connection: Connection,
    door: Door,
    tenant: Tenant,
    mode: "read" | "write",
    before: CompiledQuery[] = [],
    settle: Settle | null = null,
  ) {
    this.tenant = tenant;
    this.#connection = connection;
    this.#door = door;
    this.#mode = mode;
    this.#before = before;
    this.#settle = settle;
    this.#kysely = new Kysely<Database>({
      dialect: {
        createAdapter: () => new PostgresAdapter(),
        createQueryCompiler: () => new PostgresQueryCompiler(),
        createIntrospector: (db) => new PostgresIntrospector(db),
        createDriver: () => ({
          init: async () => {},
          acquireConnection: async () => ({
            executeQuery: async (query) => (await this.#run([query]))[0] as never,
            streamQuery: () => {
              throw new Error("nothing streams over HTTP");
            },
          }),
          beginTransaction: async () => {
            throw new Error("there is no transaction to hold open over HTTP: use one statement or db.batch");
          },
          commitTransaction: async () => {},
          rollbackTransaction: async () => {},
          releaseConnection: async () => {},
          destroy: async () => {},
        }),
      },
    });
  }

  /** One round trip: the door, what narrows it, then the statements, and what settles them. A lost race: another. */
  async #run(queries: readonly CompiledQuery[]) {
    const all = [this.#door.enter, ...this.#before, ...queries, ...this.#settling()];
    try {
      const [entered, ...results] = await this.#connection(all, this.#mode).catch((error) => {
        if (!lostRace(error)) throw error;
        return this.#connection(all, this.#mode);
      });
      if ((entered?.rows[0] as { stale?: boolean } | undefined)?.stale) this.#door.onStale();
      return results.slice(this.#before.length, this.#before.length + queries.length);
    } catch (error) {
      throw asLiveness(error, this.#door.permission);
    }
  }

  /** The row is looked for where the write went; the key lies where the door leads, so it is gone through again. */
  #settling(): CompiledQuery[] {
    if (!this.#settle) return [];
    const { table, row_id, release } = this.#settle;
    const row = this.selectFrom(table).where("id" as never, "=", row_id as never);
    const note = sql`select set_config('app.made', exists ${row.select("id" as never)}::text, true)`;
    return [note.compile(this.#kysely), this.#door.enter, release];
  }

  #with(change: { tenant?: Tenant; before: CompiledQuery[]; settle?: Settle }): TenantDb {
    return new TenantDb(
      this.#connection,
      this.#door,
      change.tenant ?? this.tenant,
      this.#mode,
      [...this.#before, ...change.before],
      change.settle ?? this.#settle,
    );
  }

  /** The tenant's rows of a table, to select from or, with `.selectAll().as(…)`, to join. */
  selectFrom<T extends TenantTable>(table: T): SelectQueryBuilder<Pick<Database, T>, T, object> {
    const owned = this.#kysely
      .selectFrom(`data.${table} as ${table}` as never)
      .selectAll()
      .where(owns(this.tenant, table))
      .as(table);
    return this.#kysely.selectFrom(owned) as never;
  }

  #ownerOf(table: TenantTable) {
    const { app, sandbox } = this.tenant;
    const owner = { app_id: app, sandbox_id: sandbox };
    // orgs.org_id and a key's are made by the table itself.
    if (table === "orgs" || table === "keys" || table === "sandboxes") return owner;
    return { ...owner, org_id: this.tenant.kind === "org" ? this.tenant.org : NONE };
  }

  /** Inserts a row that belongs to the viewer's tenant. */
  insertInto<T extends TenantTable>(table: T, row: InsertObject<Database, T>): Insert<T, object> {
    const insert = this.#kysely.insertInto(`data.${table}` as never);
    return insert.values({ ...row, ...this.#ownerOf(table) } as never) as unknown as Insert<T, object>;
  }

  /**
   * Inserts a row that belongs to the tenant of the row above it; nothing, if that one isn't the viewer's or does
   * not meet `where`. Values may be expressions over the columns of the row above.
   */
  insertUnder<P extends TenantTable, T extends TenantTable>(
    parent: { table: P; id: string; where?: RawBuilder<SqlBool> },
    table: T,
    row: InsertObject<Database, T>,
  ): Insert<T, object> {
    const columns = Object.keys(row);
    const values = Object.values(row).map((value) => sql`${value}`);
    const from = this.selectFrom(parent.table) as unknown as SelectQueryBuilder<Database, TenantTable, object>;
    return this.#kysely
      .insertInto(`data.${table}` as never)
      .columns(["app_id", "sandbox_id", "org_id", ...columns] as never)
      .expression(
        from
          .where("id" as never, "=", parent.id as never)
          .where(parent.where ?? sql.lit(true))
          .select([
            "app_id" as never,
            "sandbox_id" as never,
            "org_id" as never,
            ...values.map((value, i) => value.as(`v${i}`)),
          ]),
      ) as unknown as Insert<T, object>;
  }

  updateTable<T extends TenantTable>(table: T): Update<T, object> {
    const update = this.#kysely.updateTable(`data.${table} as ${table}` as never);
    return update.where(owns(this.tenant, table)) as unknown as Update<T, object>;
  }

  deleteFrom<T extends TenantTable>(table: T): Change<T, object> {
    const del = this.#kysely.deleteFrom(`data.${table} as ${table}` as never);
    return del.where(owns(this.tenant, table)) as unknown as Change<T, object>;
  }

  /** Through the door and no further: a dead credential is refused as such before it learns of any other refusal. */
  async enter(): Promise<void> {
    await this.#run([]);
  }

  /** Statements that commit together, in one round trip; their rows, in order. */
  async batch<const Q extends readonly Statement<unknown>[]>(...statements: Q): Promise<Rows<Q>> {
    const results = await this.#run(statements.map((statement) => statement.compile()));
    return results.map(({ rows }) => rows) as Rows<Q>;
  }

  /** This database narrowed to one org of the app (or its own rows, `NONE`); both walls follow. */
  within(org: Id<"org"> | None): TenantDb {
    const { app, sandbox } = this.tenant;
    return this.#narrowed({ kind: "org", app, sandbox, org });
  }

  /** A production developer's database, inside one of the app's sandboxes. */
  inside(sandbox: Id<"sandbox">): TenantDb {
    return this.#narrowed({ kind: "app", app: this.tenant.app, sandbox });
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

  /** A change and the entry that tells of it, as one statement: what changed nothing tells nothing. */
  telling<T extends TenantTable>(
    change: Insert<T, object> | Change<T, object>,
    { kind, title, agent_id, user_id, readers, metadata, toApp }: Telling,
  ): Runs<Selectable<Database[T]>> {
    const changed = change.returningAll() as unknown as InsertQueryBuilder<Database, T, object>;
    const { actor } = this.#door;
    const entry = sql`insert into data.activity_feed_entries
        (id, app_id, sandbox_id, org_id, kind, title, agent_id, user_id, readers, metadata)
      select ${newId("activity_feed_entry")}, app_id, sandbox_id, ${toApp ? sql.lit(NONE) : sql`org_id`}, ${kind}, ${title},
        ${agent_id ?? null}, ${user_id ?? actor}, ${readers ?? null}, ${JSON.stringify({ actor, ...metadata })} from changed`;
    const told = sql<Selectable<Database[T]>>`with changed as (${changed}), told as (${entry}) select * from changed`;
    const execute = async () => (await told.execute(this.#kysely)).rows;
    return {
      compile: () => told.compile(this.#kysely),
      execute,
      executeTakeFirst: async () => (await execute())[0],
    };
  }
}
