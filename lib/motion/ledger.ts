/** What an agent has under way, and how much of it failed lately, in a store of one writer. All instants are in milliseconds. */
import type { Sql } from "../journal/journal.ts";
import type { Report, Share } from "./report.ts";
import type { Watched } from "./watch.ts";

const MINUTE_MS = 60_000;
/** How far back failures count, in minutes. */
const WINDOW = { runs: 24 * 60, tools: 60 };
export type Counted = keyof typeof WINDOW;
/** What has nothing under way any more is remembered so long, lest a report that comes again counts twice. */
const REMEMBERED_MS = 10 * MINUTE_MS;

type Motion = { id: string; upto: string; due: number | null; asked_at: number | null; stuck: number };

export class Ledger {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
    // stuck: 1 where nobody was told yet, then 2. Whoever looks for what is over or stuck says so in the words of its index.
    sql.exec(`
      create table if not exists motion (
        id text primary key, upto text not null, due integer, asked_at integer, stuck integer not null, at integer not null
      ) strict, without rowid;
      create index if not exists motion_due on motion (due) where due is not null;
      create index if not exists motion_over on motion (at) where due is null;
      create index if not exists motion_stuck on motion (stuck) where stuck > 0;
      create table if not exists minutes (
        what text not null, minute integer not null, total integer not null, failed integer not null,
        primary key (what, minute)) strict, without rowid`);
  }

  #rows<Row extends Record<string, string | number | null>>(
    statement: string,
    ...values: (string | number | null)[]
  ): Row[] {
    return this.#sql.exec<Row>(statement, ...values).toArray();
  }

  /** Writes down what one says of itself. What it has said before changes nothing, nor does what is older. */
  take({ id, upto, due, ended, tools }: Report, now: number): void {
    const known = this.of(id);
    if (known && known.upto >= upto) return;
    const next = due === undefined ? (known?.due ?? null) : due;
    this.#rows(
      `insert into motion values (?, ?, ?, null, 0, ?) on conflict (id) do update
       set upto = excluded.upto, due = excluded.due, asked_at = null, stuck = 0, at = excluded.at`,
      ...[id, upto, next, now],
    );
    this.#count("tools", tools, now);
    if (ended) this.#count("runs", { total: 1, failed: ended.failed ? 1 : 0 }, now);
    if (next === null) this.#rows("delete from motion where due is null and at < ?", now - REMEMBERED_MS);
  }

  #count(what: Counted, { total, failed }: Share, now: number): void {
    if (!total) return;
    const minute = Math.floor(now / MINUTE_MS);
    this.#rows(
      `insert into minutes values (?, ?, ?, ?) on conflict (what, minute) do update
       set total = total + excluded.total, failed = failed + excluded.failed`,
      ...[what, minute, total, failed],
    );
    this.#rows("delete from minutes where what = ? and minute <= ?", what, minute - WINDOW[what]);
  }

  /** Of those within their window, to the minute. */
  share(what: Counted, now: number): Share {
    const sum = "select coalesce(sum(total), 0) as total, coalesce(sum(failed), 0) as failed from minutes";
    const from = Math.floor(now / MINUTE_MS) - WINDOW[what];
    return this.#rows<Share>(`${sum} where what = ? and minute > ?`, what, from)[0]!;
  }

  of(id: string): Motion | null {
    return this.#rows<Motion>("select id, upto, due, asked_at, stuck from motion where id = ?", id)[0] ?? null;
  }

  /** Those that are to be asked by now, the longest overdue first. */
  overdue(now: number, most: number): string[] {
    const found = "select id from motion where due <= ? order by due, id limit ?";
    return this.#rows<{ id: string }>(found, now, most).map(({ id }) => id);
  }

  /** When the next is to be asked; null: nothing is under way. */
  get next(): number | null {
    return (
      this.#rows<{ due: number }>("select due from motion where due is not null order by due limit 1")[0]?.due ?? null
    );
  }

  /** Writes down what came of asking. */
  watch(id: string, { due, asked_at, stuck }: Watched, now: number): void {
    const set = "update motion set due = ?, asked_at = ?, stuck = iif(?, max(stuck, 1), 0), at = ? where id = ?";
    this.#rows(set, due, asked_at, stuck ? 1 : 0, now, id);
  }

  forget(id: string): void {
    this.#rows("delete from motion where id = ?", id);
  }

  /** How many are under way. */
  get size(): number {
    return this.#rows<{ n: number }>("select count(*) as n from motion where due is not null")[0]!.n;
  }

  /** Those that don't go on, and since when they were asked, the first first. */
  get stuck(): { id: string; asked_at: number }[] {
    return this.#rows("select id, asked_at from motion where stuck > 0 order by asked_at, id");
  }

  /** Those of them of whom nobody was told: each is answered once. */
  tell(): string[] {
    const found = this.#rows<{ id: string }>("select id from motion where stuck > 0 and stuck = 1 order by id").map(
      ({ id }) => id,
    );
    if (found.length) this.#rows("update motion set stuck = 2 where stuck > 0 and stuck = 1");
    return found;
  }
}
