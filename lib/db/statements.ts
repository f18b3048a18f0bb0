/** What TenantDb's verbs give: Kysely's builders under types that can't leave the tenant. */
import {
  type ComparisonOperatorExpression,
  type CompiledQuery,
  type ExpressionOrFactory,
  type OperandValueExpressionOrList,
  type RawBuilder,
  type ReferenceExpression,
  type SelectQueryBuilder,
  type SqlBool,
  sql,
  type UpdateObject,
} from "kysely";
import type { Database, Row, TenantTable } from "./schema.ts";

/** What a batch takes: anything that compiles to one statement with rows of type O; behind one that holds what it looks at. */
export type Statement<O> = { compile(): CompiledQuery<O>; hold?(): CompiledQuery };

/** Rows of the tenant, to select from, to join, or to insert under: nothing but `selectFrom` makes them. */
export type Rows<T extends TenantTable, O = Record<never, never>> = SelectQueryBuilder<Pick<Database, T>, T, O>;

/** A gate for `db.behind`: a 422 on the field, unless it holds. */
export const mustHold = (holds: RawBuilder<unknown>, field: string, fault: string) =>
  sql`select app.must_hold(${holds}, ${field}, ${fault})`;

export interface Runs<O> extends Statement<O> {
  execute(): Promise<O[]>;
  executeTakeFirst(): Promise<O | undefined>;
  executeTakeFirstOrThrow(otherwise: () => Error): Promise<O>;
}

/** An insert that can't become an upsert: `on conflict do update` would write over a row that nobody filtered. */
export interface Insert<T extends TenantTable, O> extends Runs<O> {
  returningAll(): Insert<T, Row<T>>;
}

/** An update or delete whose owner filter can't be cleared again. */
export interface Change<T extends TenantTable, O> extends Runs<O> {
  where<RE extends ReferenceExpression<Pick<Database, T>, T>>(
    column: RE,
    operator: ComparisonOperatorExpression,
    value: OperandValueExpressionOrList<Pick<Database, T>, T, RE>,
  ): Change<T, O>;
  where(expression: ExpressionOrFactory<Pick<Database, T>, T, SqlBool>): Change<T, O>;
  returningAll(): Change<T, Row<T>>;
}
export interface Update<T extends TenantTable, O> extends Change<T, O> {
  set(values: UpdateObject<Database, T, T>): Update<T, O>;
}

/** An update of one row that may turn out to change nothing: then `updated_at` stays, and nothing is told. */
export class Patch<T extends TenantTable> implements Runs<Row<T>> {
  readonly #rows: Rows<T>;
  readonly #update: Update<T, object>;
  readonly #values: UpdateObject<Database, T, T>;
  readonly #run: (statement: RawBuilder<Row<T>>, hold: Statement<unknown>) => Runs<Row<T>>;

  /** `rows` and `update` are the tenant's, both of the same table; `run` is how its database runs a statement behind another. */
  constructor(
    rows: Rows<T>,
    update: Update<T, object>,
    values: UpdateObject<Database, T, T>,
    run: (statement: RawBuilder<Row<T>>, hold: Statement<unknown>) => Runs<Row<T>>,
  ) {
    this.#rows = rows;
    this.#update = update;
    this.#values = values;
    this.#run = run;
  }

  where<RE extends ReferenceExpression<Pick<Database, T>, T>>(
    column: RE,
    operator: ComparisonOperatorExpression,
    value: OperandValueExpressionOrList<Pick<Database, T>, T, RE>,
  ): Patch<T>;
  where(expression: ExpressionOrFactory<Pick<Database, T>, T, SqlBool>): Patch<T>;
  where(...condition: unknown[]): Patch<T> {
    const rows = this.#rows.where(...(condition as [never]));
    return new Patch(rows, this.#update, this.#values, this.#run);
  }

  /** Whether it sets the column. */
  sets(column: string): boolean {
    return (this.#values as Record<string, unknown>)[column] !== undefined;
  }

  /**
   * The row is held before it is looked at, so that of two equal patches at once the second answers what the first made. By
   * a statement before this one, too, which sees it as it is then: one that had to wait for it goes back to where the row was
   * when it began, to change it, and there stand others who wait for who holds it now.
   * `entry` inserts from `changed`; `more` is what is selected beside `subject`.
   */
  telling(entry: RawBuilder<unknown> | null, more: RawBuilder<unknown> = sql``): Runs<Row<T>> {
    const set = Object.entries(this.#values).filter(([, value]) => value !== undefined);
    const differs = set.map(([column, value]) => sql`${sql.ref(column)} is distinct from ${value}`);
    const changed = this.#update
      .set({ ...Object.fromEntries(set), updated_at: sql`now()` } as never)
      .where(sql<boolean>`id in (select id from held)`)
      .where(sql<boolean>`(${differs.length ? sql.join(differs, sql` or `) : sql`false`})`)
      .returningAll();
    const told = entry ? sql`, told as (${entry})` : sql``;
    const held = sql`with held as (${this.#rows.selectAll().forNoKeyUpdate()}),
      changed as (${changed as unknown as RawBuilder<unknown>})${told}
      select subject.*${more} from (select * from changed union all select * from held where id not in (select id from changed)) as subject`;
    return this.#run(held as RawBuilder<Row<T>>, { compile: this.hold });
  }

  hold = () => this.#rows.select(sql`1`.as("held")).forNoKeyUpdate().compile();
  compile = () => this.telling(null).compile();
  execute = () => this.telling(null).execute();
  executeTakeFirst = () => this.telling(null).executeTakeFirst();
  executeTakeFirstOrThrow = (otherwise: () => Error) => this.telling(null).executeTakeFirstOrThrow(otherwise);
}
