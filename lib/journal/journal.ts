/**
 * What happened, in order, and what Postgres has yet to hear of it: the memory of whoever runs in steps and must go on
 * after a crash. It is one writer's, who hands it its store; what the frames mean is its owner's to say.
 */

/** SQLite as a Durable Object has it. What is written without an await between commits together. */
export interface Sql {
  exec<Row extends Record<string, number | string | null>>(
    query: string,
    ...values: (number | string | null)[]
  ): { toArray(): Row[] };
}

/** What happened. `sequence` counts from 1, without a gap at the time of writing; `at` is ISO 8601. */
export type Frame<Event extends { type: string }> = { sequence: number; at: string } & Event;

/** So many characters of a value are in one row: of three bytes each, below the megabyte that a row may have. */
const PART = 300_000;
/** A page of frames ends after so many characters, lest a reader holds all that a long life has written. */
const PAGE = 1_000_000;

export class Journal<Event extends { type: string }> {
  readonly #sql: Sql;
  readonly #of: string;
  #last: number;

  /** The journal of one of those that share a store; of the one that has a store to itself, `of` is ''. */
  constructor(sql: Sql, of = "") {
    this.#sql = sql;
    this.#of = of;
    makeTables(sql);
    const [row] = sql
      .exec<{ last: number | null }>("select max(sequence) as last from frames where of = ?", of)
      .toArray();
    this.#last = row?.last ?? 0;
  }

  /** The newest frame's sequence; 0 where there is none. */
  get last(): number {
    return this.#last;
  }

  /** Writes down what happened, all of it or nothing. Returns it with its sequences. */
  append(events: readonly Event[], now: number): Frame<Event>[] {
    const at = new Date(now).toISOString();
    // What can't be written as JSON is known before anything is written.
    const written = events.map(({ type, ...data }) => ({ type, parts: partsOf(JSON.stringify(data)) }));
    let sequence = this.#last;
    for (const { type, parts } of written) {
      const [first, ...more] = parts;
      this.#sql.exec(
        "insert into frames values (?, ?, ?, ?, ?, ?)",
        this.#of,
        ++sequence,
        at,
        type,
        first!,
        more.length,
      );
      for (const [i, part] of more.entries())
        this.#sql.exec("insert into parts values (?, ?, ?, ?)", this.#of, sequence, i, part);
    }
    this.#last = sequence;
    return events.map((event, i) => ({ sequence: sequence - events.length + 1 + i, at, ...event }));
  }

  /** The frames that follow a sequence, oldest first: at least one if there is any, and about a megabyte at most. */
  after(sequence: number, most = 1000): Frame<Event>[] {
    const frames: Frame<Event>[] = [];
    let size = 0;
    let after = sequence;
    while (frames.length < most && size < PAGE) {
      // Row by row would be as right; a row may be long, so few are read at once.
      const rows = this.#sql
        .exec<{ sequence: number; at: string; type: string; data: string; parts: number }>(
          "select sequence, at, type, data, parts from frames where of = ? and sequence > ? order by sequence limit ?",
          ...[this.#of, after, Math.min(32, most - frames.length)],
        )
        .toArray();
      if (!rows.length) break;
      for (const { data, parts, ...row } of rows) {
        if (size >= PAGE) break;
        const whole = parts ? data + this.#restOf(row.sequence) : data;
        size += whole.length;
        after = row.sequence;
        frames.push({ ...row, ...JSON.parse(whole) } as Frame<Event>);
      }
    }
    return frames;
  }

  #restOf(sequence: number): string {
    const parts = this.#sql.exec<{ data: string }>(
      "select data from parts where of = ? and sequence = ? order by part",
      ...[this.#of, sequence],
    );
    return parts
      .toArray()
      .map(({ data }) => data)
      .join("");
  }

  /** Takes away frames of one type between two sequences, both included: what a later frame tells as a whole. */
  fold(type: Event["type"], from: number, to: number): void {
    if (to >= this.last) throw new Error("the newest frame stays: it says how far the journal has come");
    this.#sql.exec(
      `delete from parts where of = ?1
        and sequence in (select sequence from frames where of = ?1 and type = ?2 and sequence between ?3 and ?4)`,
      ...[this.#of, type, from, to],
    );
    this.#sql.exec(
      "delete from frames where of = ? and type = ? and sequence between ? and ?",
      ...[this.#of, type, from, to],
    );
  }

  /** Keeps a value under a name, beside the frames and whatever its size: the newest alone. */
  keep(name: string, value: unknown): void {
    this.#sql.exec("delete from kept where of = ? and name = ?", this.#of, name);
    for (const [i, part] of partsOf(JSON.stringify(value)).entries()) {
      this.#sql.exec("insert into kept values (?, ?, ?, ?)", this.#of, name, i, part);
    }
  }

  /** What is kept under the name; null where nothing is. */
  kept<T>(name: string): T | null {
    const parts = this.#sql
      .exec<{ data: string }>("select data from kept where of = ? and name = ? order by part", this.#of, name)
      .toArray();
    return parts.length ? (JSON.parse(parts.map(({ data }) => data).join("")) as T) : null;
  }

  /** What Postgres is to hear under a name: the newest alone counts, and it is owed until it was `paid`. */
  owe(name: string, data: unknown): void {
    const text = JSON.stringify(data);
    if (text.length > PART) throw new Error(`what is owed under ${name} is too long for a row`);
    this.#sql.exec(
      `insert into owed values (?, ?, ?, ?)
       on conflict (of, name) do update set sequence = excluded.sequence, data = excluded.data`,
      ...[this.#of, name, this.last, text],
    );
  }

  /** What is owed, with the sequence that it was owed at: an older one must never win over a newer. */
  owed(most = 100): { name: string; sequence: number; data: unknown }[] {
    return this.#sql
      .exec<{ name: string; sequence: number; data: string }>(
        "select name, sequence, data from owed where of = ? order by sequence, name limit ?",
        ...[this.#of, most],
      )
      .toArray()
      .map(({ data, ...row }) => ({ ...row, data: JSON.parse(data) as unknown }));
  }

  /** Postgres has it. What was owed anew meanwhile stays. */
  paid({ name, sequence, data }: { name: string; sequence: number; data: unknown }): void {
    const text = JSON.stringify(data);
    this.#sql.exec(
      "delete from owed where of = ? and name = ? and sequence = ? and data = ?",
      ...[this.#of, name, sequence, text],
    );
  }

  /** Nothing is left of it. */
  forget(): void {
    for (const table of TABLES) this.#sql.exec(`delete from ${table} where of = ?`, this.#of);
    this.#last = 0;
  }
}

const TABLES = ["frames", "parts", "kept", "owed"];

/** The tables, with the journals of whoever had a store to itself before there was an `of`. */
function makeTables(sql: Sql): void {
  const columns = sql.exec<{ name: string }>("select name from pragma_table_info('frames')").toArray();
  const isOld = columns.length > 0 && columns[0]!.name !== "of";
  if (isOld) for (const table of TABLES) sql.exec(`alter table ${table} rename to old_${table}`);
  sql.exec(`
    create table if not exists frames (
      of text not null, sequence integer not null, at text not null, type text not null, data text not null,
      parts integer not null, primary key (of, sequence)) strict;
    create table if not exists parts (
      of text not null, sequence integer not null, part integer not null, data text not null,
      primary key (of, sequence, part)) strict;
    create table if not exists kept (
      of text not null, name text not null, part integer not null, data text not null,
      primary key (of, name, part)) strict, without rowid;
    create table if not exists owed (
      of text not null, name text not null, sequence integer not null, data text not null,
      primary key (of, name)) strict, without rowid`);
  if (!isOld) return;
  for (const table of TABLES) {
    sql.exec(`insert into ${table} select '', old_${table}.* from old_${table} where true`);
    sql.exec(`drop table old_${table}`);
  }
}

/** No letter of two halves is taken apart: SQLite keeps no half. */
function partsOf(text: string): string[] {
  const parts: string[] = [];
  for (let from = 0, to = 0; from < text.length; from = to) {
    to = Math.min(from + PART, text.length);
    if ((text.codePointAt(to - 1) ?? 0) > 0xffff) to--;
    parts.push(text.slice(from, to));
  }
  return parts;
}
