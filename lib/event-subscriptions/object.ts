/** The queue of an event subscription, with what is in it. */
import { base64url } from "jose";
import type { Bindings } from "../env.ts";
import type { EventRow } from "../events/schema.ts";
import { TenantObject } from "../objects/tenant-object.ts";
import type { Ask, Entry, Leased, QueueRemote, QueueState, SubscriptionRow } from "./remote.ts";

type Facts = {
  epoch: number;
  last: number;
  taken: number;
  dropped_total: number;
  dropped_through: number;
  last_overflow_at: number | null;
  reader: string;
};
type Kept = {
  sequence: number;
  event: string;
  receive_count: number;
  lease_expires_at: number | null;
  handle: string | null;
};
const COLUMNS = "sequence, event, receive_count, lease_expires_at, handle";
/** So many of those that were acknowledged are remembered, for who does it again. */
const REMEMBERED = 1000;
const iso = (at: number) => new Date(at).toISOString();

export class EventQueue extends TenantObject implements Omit<QueueRemote, keyof Rpc.DurableObjectBranded> {
  readonly #waiting = new Set<() => void>();

  constructor(ctx: DurableObjectState, env: Bindings) {
    super(ctx, env);
    ctx.storage.sql.exec(`
      create table if not exists facts (
        epoch integer not null, last integer not null default 0, taken integer not null default 0,
        dropped_total integer not null default 0, dropped_through integer not null default 0, last_overflow_at integer,
        reader text not null default '') strict;
      create table if not exists entries (
        sequence integer primary key, event text not null, expires_at integer not null, receive_count integer not null default 0,
        lease_expires_at integer, handle text, request text) strict;
      create index if not exists entries_expires_at on entries (expires_at);
      create table if not exists acknowledged (sequence integer primary key, handle text not null) strict`);
    this.#exec(
      "insert into facts (epoch) select ? where not exists (select 1 from facts)",
      Math.floor(Date.now() / 1000),
    );
  }

  async deliver(row: SubscriptionRow, events: EventRow[]): Promise<void> {
    this.#keep(row);
    let { last, taken } = this.#facts;
    for (const event of events) {
      // Handed on again after a crash.
      if (event.sequence! <= taken) continue;
      taken = event.sequence!;
      if (!mayRead(row, event)) continue;
      const expires_at = Date.now() + row.retention_seconds * 1000;
      const text = JSON.stringify(event);
      this.#exec("insert into entries (sequence, event, expires_at) values (?, ?, ?)", ++last, text, expires_at);
    }
    this.#exec("update facts set last = ?, taken = ?", last, taken);
    this.#keep(row);
    this.#wake();
  }

  async claim(row: SubscriptionRow, ask: Ask): Promise<QueueState & { leased: Leased[]; has_more: boolean }> {
    this.#keep(row);
    const { consumer_id = null, request_id, max_events, visibility_timeout_seconds } = ask;
    const now = Date.now();
    const request = request_id === undefined ? null : JSON.stringify([consumer_id, request_id]);
    const held = "select * from entries where request = ? and lease_expires_at > ? order by sequence limit 20";
    const again = this.#rows<Kept>(held, request, now);
    const chosen = again.length ? again : this.#free(now, max_events);
    const expires = now + (visibility_timeout_seconds ?? row.visibility_timeout_seconds) * 1000;
    const lease = `update entries set lease_expires_at = ?, handle = ?, request = ?, receive_count = receive_count + ?
      where sequence = ? returning ${COLUMNS}`;
    const leased = chosen.flatMap(({ sequence }) => {
      const handle = base64url.encode(crypto.getRandomValues(new Uint8Array(18)));
      const rows = this.#rows<Kept>(lease, expires, handle, request, again.length ? 0 : 1, sequence);
      return rows.map(
        (kept): Leased => ({
          ...toEntry(kept, now),
          ...{ lease_expires_at: iso(expires), receipt_handle: handle },
        }),
      );
    });
    return { ...this.#state(now), leased, has_more: this.#free(now, 1).length > 0 };
  }

  async ready(ms: number): Promise<void> {
    const now = Date.now();
    const soonest = "select min(lease_expires_at) as at from entries where lease_expires_at > ?";
    const [row] = this.#rows<{ at: number | null }>(soonest, now);
    await new Promise<void>((resolve) => {
      const done = () => {
        clearTimeout(timer);
        this.#waiting.delete(done);
        resolve();
      };
      const timer = setTimeout(done, Math.min(ms, (row?.at ?? Number.POSITIVE_INFINITY) - now + 1));
      this.#waiting.add(done);
    });
  }

  async acknowledge(row: SubscriptionRow, sequence: number, handle: string): Promise<"done" | "stale" | "gone"> {
    this.#keep(row);
    const [before] = this.#rows<{ handle: string }>("select handle from acknowledged where sequence = ?", sequence);
    if (before) return before.handle === handle ? "done" : "stale";
    const [kept] = this.#rows<Kept>(`select ${COLUMNS} from entries where sequence = ?`, sequence);
    if (!kept) return "gone";
    if (kept.handle !== handle) return "stale";
    this.#exec("delete from entries where sequence = ?", sequence);
    this.#exec("insert into acknowledged values (?, ?)", sequence, handle);
    this.#exec(
      "delete from acknowledged where sequence in (select sequence from acknowledged order by rowid desc limit -1 offset ?)",
      REMEMBERED,
    );
    this.#wake();
    return "done";
  }

  async look(
    row: SubscriptionRow,
    { limit, after = 0, before }: { limit: number; after?: number; before?: number },
  ): Promise<QueueState & { entries: Entry[]; has_more: boolean }> {
    this.#keep(row);
    const now = Date.now();
    const found =
      before === undefined
        ? this.#rows<Kept>(
            `select ${COLUMNS} from entries where sequence > ? order by sequence limit ?`,
            after,
            limit + 1,
          )
        : this.#rows<Kept>(
            `select ${COLUMNS} from entries where sequence < ? order by sequence desc limit ?`,
            ...[before, limit + 1],
          );
    const entries = found.slice(0, limit).map((kept) => toEntry(kept, now));
    if (before !== undefined) entries.reverse();
    return { ...this.#state(now), entries, has_more: found.length > limit };
  }

  protected override async whenDue(): Promise<void> {
    this.#expire();
  }

  /** Keeps the queue as its row says: not longer, not more, and nothing that its user may no longer read. */
  #keep(row: SubscriptionRow): void {
    const reader = `${row.user_id} ${row.role}`;
    if (this.#facts.reader !== reader) {
      for (const { sequence, event } of this.#rows<Kept>(`select ${COLUMNS} from entries`)) {
        if (!mayRead(row, JSON.parse(event))) this.#exec("delete from entries where sequence = ?", sequence);
      }
      this.#exec("update facts set reader = ?", reader);
    }
    this.#expire();
    const drop =
      "delete from entries where sequence in (select sequence from entries order by sequence desc limit -1 offset ?) returning sequence";
    const dropped = this.#rows<{ sequence: number }>(drop, row.max_pending_events);
    if (!dropped.length) return;
    const through = Math.max(...dropped.map(({ sequence }) => sequence));
    this.#exec(
      "update facts set dropped_total = dropped_total + ?, dropped_through = ?, last_overflow_at = ?",
      ...[dropped.length, through, Date.now()],
    );
  }

  /** Deletes what was kept long enough, and comes again for what is next: a queue that is empty has no alarm. */
  #expire(): void {
    this.#exec("delete from entries where expires_at <= ?", Date.now());
    const [next] = this.#rows<{ at: number | null }>("select min(expires_at) as at from entries");
    if (next?.at) this.due("expire", next.at);
    else this.notDue("expire");
  }

  /** What nobody holds: of all the first so many or, one by one, the head alone, if that is it. */
  #free(now: number, most?: number): Kept[] {
    const free = "(lease_expires_at is null or lease_expires_at <= ?)";
    if (most !== undefined)
      return this.#rows(`select ${COLUMNS} from entries where ${free} order by sequence limit ?`, now, most);
    const head = "sequence = (select min(sequence) from entries)";
    return this.#rows(`select ${COLUMNS} from entries where ${head} and ${free}`, now);
  }

  #state(now: number): QueueState {
    const count = "select count(*) as total, count(iif(lease_expires_at > ?, 1, null)) as leased from entries";
    const [{ total, leased } = { total: 0, leased: 0 }] = this.#rows<{ total: number; leased: number }>(count, now);
    const { epoch, dropped_total, dropped_through, last_overflow_at } = this.#facts;
    return {
      available_count: total - leased,
      leased_count: leased,
      dropped_events_total: dropped_total,
      dropped_through_position: dropped_through,
      last_overflow_at: last_overflow_at === null ? null : iso(last_overflow_at),
      queue_epoch: epoch,
    };
  }

  get #facts(): Facts {
    return this.#rows<Facts>("select * from facts")[0]!;
  }

  #rows<R extends Record<string, SqlStorageValue>>(query: string, ...values: (string | number | null)[]): R[] {
    return this.ctx.storage.sql.exec<R>(query, ...values).toArray();
  }

  #exec(query: string, ...values: (string | number | null)[]): void {
    this.ctx.storage.sql.exec(query, ...values);
  }

  #wake(): void {
    for (const done of [...this.#waiting]) done();
  }
}

const toEntry = ({ sequence, event, receive_count, lease_expires_at }: Kept, now: number): Entry => ({
  sequence,
  event: JSON.parse(event),
  receive_count,
  lease_expires_at: lease_expires_at === null ? null : iso(lease_expires_at),
  isLeased: lease_expires_at !== null && lease_expires_at > now,
});

/** Whether the subscription's user may read an event, by the role that it has now: the rule of `passes` in lib/auth/acl.ts. */
function mayRead({ user_id, org_id, role }: SubscriptionRow, event: EventRow): boolean {
  if (user_id === null || role === "owner" || role === "admin") return true;
  if (event.readers === null || event.user_id === user_id) return true;
  const org_role = role === "member" ? "member" : "viewer";
  const principals = ["everyone", `user:${user_id}`, `org:${org_id}`, `org_role:${org_role}`];
  return event.readers.some((reader) => principals.includes(reader));
}
