/**
 * A webhook endpoint: what is on its way to it, and when each is tried next. What came of an attempt is kept here before
 * anybody is told: a process that ends in the middle of one makes it again, under the same `webhook-id`.
 */
import { sql } from "kysely";
import { real, type WebhookAttempt } from "../db/schema.ts";
import type { Bindings } from "../env.ts";
import { emitting } from "../events/emit.ts";
import type { EventRow } from "../events/schema.ts";
import { egressOf } from "../http/egress.ts";
import { type Id, newId } from "../ids.ts";
import { TenantObject } from "../objects/tenant-object.ts";
import { quotas, quotasOf, tellFull } from "../quotas.ts";
import { secretsOf, updateEndpoint } from "./queries.ts";
import type { Again, WebhookRemote } from "./remote.ts";
import { failingStage, LAST_STAGE, lanesOf, MOST_AT_ONCE, NEXT, nextAttempt } from "./rules.ts";
import type { DeliveryRow, EndpointRow } from "./schema.ts";
import { type Address, addressOf, LEASE_MS, send } from "./send.ts";

/** A delivery as it is kept until it is over, and Postgres knows. */
type Kept = {
  id: Id<"webhook_delivery">;
  event: Id<"event">;
  org: string;
  name: string;
  sequence: number;
  body: string;
  status: DeliveryRow["status"];
  /** When it is tried next. */
  at: number;
  /** Attempts since it was taken in, or replayed. */
  tries: number;
  /** All that there were, and the newest of them as JSON. */
  attempt_count: number;
  attempts: string;
  /** Counts its changes; `told`: the one that Postgres knows. */
  revision: number;
};
/** What an attempt is made by. */
type Way = Address & { lanes: number; most: number; isEnabled: boolean; read: number };

/** What the row says counts for so long: a suspended org's requests stop within it, and so do those of a secret that is gone. */
const FRESH_MS = 2_000;
/** A suspended org's is looked at again so often. */
const SUSPENDED_MS = 5_000;
/** What came of attempts is told together. */
const TELL_MS = 100;
const TOLD_AT_ONCE = 100;
const KEPT_ATTEMPTS = 20;

export class WebhookEndpoint extends TenantObject implements Omit<WebhookRemote, keyof Rpc.DurableObjectBranded> {
  readonly #flying = new Set<string>();
  /** Attempts under way: they go on where the turn that began them has failed, and count for the next one. */
  readonly #flights = new Set<Promise<void>>();
  #testing = 0;
  #way: Way | null = null;
  #news = () => {};
  #owing = false;
  #gone = false;

  constructor(ctx: DurableObjectState, env: Bindings) {
    super(ctx, env);
    ctx.storage.sql.exec(`
      create table if not exists facts (failing_since integer, strict integer not null default 0) strict;
      create table if not exists places (org text primary key, taken integer not null default 0) strict;
      create table if not exists deliveries (
        id text primary key, event text not null unique, org text not null, name text not null, sequence integer not null,
        body text not null, status text not null default 'pending', at integer not null, tries integer not null default 0,
        attempt_count integer not null default 0, attempts text not null default '[]', revision integer not null default 1,
        told integer not null default 0) strict;
      create index if not exists deliveries_at on deliveries (at, sequence) where status = 'pending';
      create index if not exists deliveries_order on deliveries (org, sequence) where status = 'pending';
      create index if not exists deliveries_owed on deliveries (id) where told < revision`);
    this.#exec("insert into facts (failing_since) select null where not exists (select 1 from facts)");
  }

  async deliver(events: EventRow[]): Promise<void> {
    const { most, waiting } = await this.#waiting();
    if (this.#gone) return;
    let room = most - waiting;
    let isFull = false;
    for (const event of events) {
      this.#exec("insert or ignore into places (org) values (?)", event.org_id);
      const [{ taken }] = this.#rows<{ taken: number }>("select taken from places where org = ?", event.org_id) as [
        never,
      ];
      // Handed on again after a crash.
      if (event.sequence! <= taken) continue;
      this.#exec("update places set taken = ? where org = ?", event.sequence, event.org_id);
      // What can't wait is listed, and can be replayed.
      isFull ||= room-- <= 0;
      this.#keep(event, null, isFull ? "dead" : "pending");
    }
    const full = { org: this.place.org_id, quota: "webhook_deliveries_waiting", limit: most };
    if (isFull) this.ctx.waitUntil(tellFull(this.db, full));
    this.#soon();
  }

  async replay(events: Again[]): Promise<boolean> {
    const { most, waiting } = await this.#waiting();
    if (this.#gone || waiting + events.length > most) return false;
    for (const { event, delivery } of events) {
      this.#exec("insert or ignore into places (org) values (?)", event.org_id);
      const again = "update deliveries set status = 'pending', at = ?, tries = 0, revision = revision + 1 where id = ?";
      const [kept] = this.#rows<Kept>("select * from deliveries where event = ?", event.id);
      // What is being sent is left to come to its end.
      if (kept && !this.#flying.has(kept.id)) this.#exec(again, Date.now(), kept.id);
      if (!kept) this.#keep(event, delivery, "pending");
      this.#owe();
    }
    this.#soon();
    return true;
  }

  async wake(): Promise<void> {
    this.#way = null;
    this.#soon();
  }

  async test(): Promise<WebhookAttempt | "suspended" | "busy"> {
    if (this.#testing + this.#flying.size >= MOST_AT_ONCE) return "busy";
    this.#testing++;
    try {
      const way = await this.#look();
      if (!way) return "suspended";
      const id = newId("event");
      const told = {
        type: "webhook_endpoint.test",
        timestamp: new Date().toISOString(),
        org: this.#org,
        sequence: null,
      };
      const body = JSON.stringify({ id, ...told, data: { endpoint: this.id } });
      return (await send(egressOf(this.env), way, { id, body })).attempt;
    } finally {
      this.#testing--;
    }
  }

  override async erase(): Promise<void> {
    this.#gone = true;
    await super.erase();
  }

  get #org() {
    return real(this.place.org_id);
  }

  protected override whenDue(name: string): Promise<void> {
    return name === "send" ? this.#sendAll() : this.#tell();
  }

  /** How many wait here, and may. */
  async #waiting(): Promise<{ most: number; waiting: number }> {
    const { most } = this.#way ?? (await this.#look()) ?? { most: quotas.webhook_deliveries_waiting };
    if (this.#gone) return { most, waiting: 0 };
    const [{ n }] = this.#rows<{ n: number }>("select count(*) as n from deliveries where status = 'pending'") as [
      never,
    ];
    return { most, waiting: n };
  }

  /** Takes an event in that is to be sent, or was to be; one that is here already is. */
  #keep(event: EventRow, before: Again["delivery"], status: "pending" | "dead"): void {
    const body = JSON.stringify({
      ...{ id: event.id, type: event.name, timestamp: event.created_at, org: real(event.org_id) },
      ...{ sequence: event.sequence, data: event.payload },
    });
    this.#exec(
      `insert or ignore into deliveries (id, event, org, name, sequence, body, status, at, attempt_count, attempts, revision, told)
        values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      ...[
        before?.id ?? newId("webhook_delivery"),
        event.id,
        event.org_id,
        event.name,
        event.sequence,
        body,
        status,
        Date.now(),
      ],
      ...[before?.attempt_count ?? 0, JSON.stringify(before?.attempts ?? [])],
      ...[(before?.revision ?? 0) + 1, before?.revision ?? 0],
    );
    this.#owe();
  }

  #soon(): void {
    this.due("send", Date.now());
    this.#news();
  }

  /** Sends all that is due, so many at once as it may; comes again for the rest. */
  async #sendAll(): Promise<void> {
    const flights = this.#flights;
    // Erased under its hands, it has no storage that it could look into.
    while (!this.#gone) {
      const first = this.#first();
      const isDue = first !== undefined && first.at <= Date.now();
      // What has been disabled or enabled it hears of by being woken, also while nothing is due.
      if (!this.#way || (isDue && !(this.#way.isEnabled && this.#way.read > Date.now() - FRESH_MS))) {
        const way = await this.#look();
        if (way?.isEnabled) continue;
        await Promise.all(flights);
        // Enabled, it is woken.
        if (!way && first && this.orgStatus === "suspended") this.due("send", Date.now() + SUSPENDED_MS);
        return;
      }
      if (isDue && flights.size + this.#testing < this.#way!.lanes) {
        const flight = this.#attempt(first, this.#way!)
          .catch((error) => console.error(JSON.stringify({ object: this.ctx.id.name, error: String(error) })))
          .finally(() => flights.delete(flight));
        flights.add(flight);
        continue;
      }
      if (!flights.size) {
        if (first) this.due("send", Math.max(first.at, Date.now() + (isDue ? TELL_MS : 0)));
        return;
      }
      const news = new Promise<void>((resolve) => {
        this.#news = resolve;
      });
      const timer = new AbortController();
      const isLater = first && !isDue ? scheduler.wait(first.at - Date.now(), { signal: timer.signal }) : news;
      await Promise.race([...flights, news, isLater.catch(() => {})]);
      timer.abort();
    }
  }

  /** What is to be tried next, and when. */
  #first(): Kept | undefined {
    return this.#rows<Kept>(NEXT[this.#facts.strict ? "strict" : "none"])[0];
  }

  /** The row as it is now. Null: it is gone, and so is this object, or the org is suspended. */
  async #look(): Promise<Way | null> {
    const { rows, live, allowed } = await this.db.batch({
      rows: this.#row.selectAll(),
      live: this.db
        .selectFrom("webhook_endpoints")
        .where("status", "=", "enabled")
        .select(sql<number>`count(*)`.as("n")),
      allowed: quotasOf(this.db),
    });
    const [row] = rows;
    const most = allowed[0]!.quotas;
    if (!row) await this.erase();
    const isSuspended = this.orgStatus === "suspended";
    // Enabled, or active again, it begins to fail anew: meanwhile nothing was tried.
    if (row && (isSuspended || row.status === "disabled")) this.#exec("update facts set failing_since = null");
    if (!row || isSuspended) return null;
    this.#exec("update facts set strict = ?", row.ordering === "strict" ? 1 : 0);
    this.#way = {
      ...(await addressOf(row.url, await secretsOf(this.env.ROOT_SECRETS, row))),
      isEnabled: row.status === "enabled",
      ...{ lanes: lanesOf(live[0]!.n, most.webhook_attempts_at_once), most: most.webhook_deliveries_waiting },
      read: Date.now(),
    };
    return this.#way;
  }

  /** One attempt. Until it has come to its end nobody begins another; should the process end under it, it comes again. */
  async #attempt({ id, event, body, tries }: Kept, way: Way): Promise<void> {
    this.#exec("update deliveries set at = ? where id = ?", Date.now() + LEASE_MS, id);
    this.#flying.add(id);
    const { attempt, put_off } = await send(egressOf(this.env), way, { id: event, body });
    this.#flying.delete(id);
    if (this.#gone) return;
    const { status } = attempt;
    const isDelivered = status !== null && status >= 200 && status < 300;
    const after = isDelivered ? null : nextAttempt(tries + 1, Math.random(), put_off);
    this.#exec(
      `update deliveries set status = ?, at = ?, tries = tries + 1, attempt_count = attempt_count + 1, revision = revision + 1,
        attempts = ? where id = ?`,
      ...[isDelivered ? "delivered" : after === null ? "dead" : "pending", Date.now() + (after ?? 0)],
      ...[this.#withAttempt(id, attempt), id],
    );
    this.#exec(
      "update facts set failing_since = iif(?, null, coalesce(failing_since, ?))",
      ...[isDelivered ? 1 : 0, Date.now()],
    );
    this.#owe();
    // Of an address that it has no more, or where another has just said so, it says nothing.
    if (status === 410 && this.#way?.url === way.url) await this.#disable("gone");
  }

  #withAttempt(id: string, attempt: WebhookAttempt): string {
    const [kept] = this.#rows<{ attempts: string }>("select attempts from deliveries where id = ?", id);
    return JSON.stringify([...JSON.parse(kept?.attempts ?? "[]"), attempt].slice(-KEPT_ATTEMPTS));
  }

  async #disable(reason: "failing" | "gone"): Promise<void> {
    this.#way = null;
    await updateEndpoint(this.db, this.id as Id<"webhook_endpoint">, { status: "disabled" }, reason);
    this.#exec("update facts set failing_since = null");
  }

  get #row() {
    return this.db
      .selectFrom("webhook_endpoints")
      .where("webhook_endpoints.id", "=", this.id as Id<"webhook_endpoint">);
  }

  #owe(): void {
    if (this.#owing) return;
    this.#owing = true;
    this.due("tell", Date.now() + TELL_MS);
  }

  /** Tells Postgres what came of it, and the world that it has failed for long. */
  async #tell(): Promise<void> {
    this.#owing = false;
    let { owed, row } = await this.#tellSome();
    while (owed === TOLD_AT_ONCE) ({ owed, row } = await this.#tellSome());
    if (!row?.failing_since || row.status === "disabled") return;
    // As in #look, for when nothing is due.
    if (this.orgStatus === "suspended") {
      this.#exec("update facts set failing_since = null");
      return this.#owe();
    }
    const since = Date.parse(row.failing_since);
    const { stage, next } = failingStage(since, Date.now());
    if (stage === LAST_STAGE) return this.#disable("failing");
    if (stage > row.failing_told) {
      const untold = this.#row.where("failing_told", "<", stage);
      await this.db.batch({
        told: emitting(this.db, untold, {
          name: "webhook_endpoint.failing",
          payload: { id: row.id, failing_since: new Date(since).toISOString() },
        }),
        kept: this.db
          .updateTable("webhook_endpoints")
          .set({ failing_told: stage })
          .where("id", "=", row.id)
          .where("failing_told", "<", stage),
      });
    }
    if (next !== null && !this.#owing) this.due("tell", next);
  }

  /** Tells of some deliveries: statements that an older telling never undoes, and that may run twice. */
  async #tellSome(): Promise<{ owed: number; row: EndpointRow | undefined }> {
    const owed = this.#rows<Kept>("select * from deliveries where told < revision order by id limit ?", TOLD_AT_ONCE);
    const { failing_since } = this.#facts;
    const items = owed.map(({ event, org, name, at, body: _, attempts, ...kept }) => ({
      ...{ id: kept.id, endpoint_id: this.id, event_id: event, event_org_id: org, event_name: name },
      ...{ sequence: kept.sequence, status: kept.status, attempts: JSON.parse(attempts) },
      ...{ attempt_count: kept.attempt_count, revision: kept.revision },
      next_attempt_at: kept.status === "pending" ? new Date(at).toISOString() : null,
    }));
    const deliveries = this.db.selectFrom("webhook_deliveries");
    const there = deliveries.where(sql<boolean>`webhook_deliveries.id = item.id`).select(sql`1`.as("one"));
    const item = sql`jsonb_to_recordset(${JSON.stringify(items)}::jsonb) as item
      (id text, status text, attempts jsonb, attempt_count integer, next_attempt_at timestamptz, revision integer)`;
    const columns = ["status", "attempts", "attempt_count", "next_attempt_at", "revision"];
    const set = Object.fromEntries(columns.map((column) => [column, sql.ref(`item.${column}`)]));
    const since = failing_since === null ? null : new Date(failing_since).toISOString();
    const { rows } = await this.db.batch({
      ...(items.length && {
        made: this.db.insertAll(this.#row, "webhook_deliveries", items, {}, sql`not exists (${there})`),
        changed: this.db.running(
          this.db.updateEach(
            "webhook_deliveries",
            item,
            { ...set, updated_at: sql`now()` },
            sql`webhook_deliveries.revision < item.revision`,
          ),
        ),
      }),
      failing: this.db
        .updateTable("webhook_endpoints")
        .set({
          failing_since: sql`case when ${since}::timestamptz is null then null else coalesce(failing_since, ${since}::timestamptz) end`,
          failing_told: sql`case when ${since}::timestamptz is null then 0 else failing_told end`,
        } as never)
        .where("id", "=", this.id as Id<"webhook_endpoint">)
        .where(sql<boolean>`(failing_since is null) <> (${since}::timestamptz is null)`),
      rows: this.#row.selectAll(),
    });
    for (const { id, revision } of owed) {
      this.#exec("update deliveries set told = max(told, ?) where id = ?", revision, id);
      this.#exec("delete from deliveries where id = ? and told = revision and status <> 'pending'", id);
    }
    return { owed: owed.length, row: rows[0] };
  }

  get #facts() {
    return this.#rows<{ failing_since: number | null; strict: number }>("select * from facts")[0]!;
  }

  #rows<R extends object>(query: string, ...values: (string | number | null)[]): R[] {
    return this.ctx.storage.sql.exec(query, ...values).toArray() as unknown as R[];
  }

  #exec(query: string, ...values: (string | number | null)[]): void {
    this.ctx.storage.sql.exec(query, ...values);
  }
}
