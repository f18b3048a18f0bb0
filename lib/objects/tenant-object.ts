/**
 * What every Durable Object is made from: it knows its tenant by its name, reaches the database as that tenant and no
 * other, and keeps a due-list for its one alarm.
 */
import { DurableObject } from "cloudflare:workers";
import { CompiledQuery } from "kysely";
import { mac } from "../auth/secrets.ts";
import { refusal } from "../db/errors.ts";
import { type Connection, connect } from "../db/neon.ts";
import { NONE, type OrgStatus } from "../db/schema.ts";
import { type Door, TenantDb } from "../db/tenant-db.ts";
import type { Bindings } from "../env.ts";
import { wakeDispatcher } from "../events/remote.ts";
import { tellFull } from "../quotas.ts";
import { AT_ONCE, type Due, nextAlarm, retryDelay, toBegin } from "./due.ts";
import { type Place, readName } from "./stub.ts";

/** So long after its instant an alarm that hasn't come is set again. */
const LOST_MS = 10_000;

export abstract class TenantObject extends DurableObject<Bindings> {
  protected readonly place: Place;
  /** Its row's id; `NONE` for a tenant's own object. */
  protected readonly id: string;
  /** Its tenant's database, suspended or not; where the tenant is gone, the first use ends the object. */
  protected readonly db: TenantDb;
  /** As the newest round trip to the database said. Null: there was none yet. */
  protected orgStatus: OrgStatus | null = null;
  readonly #running = new Set<string>();
  /** The alarm that is known to be set. */
  #armed = Number.POSITIVE_INFINITY;
  #soon: Promise<void> | undefined;
  #erased = false;

  constructor(ctx: DurableObjectState, env: Bindings) {
    super(ctx, env);
    const { place, id } = readName(ctx.id.name);
    this.place = place;
    this.id = id;
    this.db = this.#open(place);
    ctx.storage.sql.exec(`
      create table if not exists due (name text primary key, at integer not null, attempts integer not null) strict;
      create index if not exists due_at on due (at, name)`);
  }

  /**
   * Does what was set under the name. At least once: after a throw, and where the process ends under it, it comes
   * again; never twice at a time. It bounds its own waiting.
   */
  protected abstract whenDue(name: string): Promise<void>;

  /**
   * Sets or moves what is to be done. What is written to storage beside it, without an await between, commits with it.
   * A run that is to come again sets its next as the last thing it does: from there on that instant is what counts.
   */
  protected due(name: string, at: number): void {
    const set = "insert into due values (?, ?, 0) on conflict (name) do update set at = excluded.at, attempts = 0";
    this.#change(set, name, Math.ceil(at));
    this.#look();
  }

  /** Takes it off the list; if it is in flight, it goes on to its end. */
  protected notDue(name: string): void {
    this.#change("delete from due where name = ?", name);
    this.#look();
  }

  override alarm(): void {
    this.#armed = Number.POSITIVE_INFINITY;
    this.#look();
  }

  /** Ends the object: no alarm and no storage is left of it, and what is still in flight sets nothing more. */
  async erase(): Promise<void> {
    this.#erased = true;
    await this.ctx.storage.deleteAll();
  }

  /** Begins what is due, and waits for none of it, so that a slow one holds up no other; arms the alarm for the rest. */
  #look(): void {
    if (this.#erased) return;
    const { sql } = this.ctx.storage;
    const now = Date.now();
    const head = sql.exec<Due>("select name, at, attempts from due order by at, name limit ?", AT_ONCE).toArray();
    for (const { name, attempts } of toBegin(head, this.#running, now)) {
      const begun = attempts + 1;
      // Should the process end under it, it comes again then.
      const again = now + retryDelay(begun, Math.random());
      sql.exec("update due set at = ?, attempts = ? where name = ?", again, begun, name);
      this.#running.add(name);
      void this.#run(name, begun);
    }
    const next = nextAlarm(head, this.#running, now);
    // An alarm that comes too early does no harm, and a write less does good. One that should long have come is lost.
    if (next >= this.#armed && this.#armed > now - LOST_MS) return;
    this.#armed = next;
    void this.ctx.storage.setAlarm(next);
  }

  async #run(name: string, begun: number): Promise<void> {
    try {
      await null; // Whoever set it finishes first.
      await this.whenDue(name);
      // Set anew while it ran, it has no attempts, and stays.
      this.#change("delete from due where name = ? and attempts = ?", name, begun);
    } catch (error) {
      const again = Date.now() + retryDelay(begun, Math.random());
      this.#change("update due set at = min(at, ?), attempts = ? where name = ?", again, begun, name);
      console.error(JSON.stringify({ object: this.ctx.id.name, due: name, attempts: begun, error: String(error) }));
    }
    this.#running.delete(name);
    // In a turn of its own, which those that end together share: a long list keeps nobody waiting who asks meanwhile.
    this.#soon ??= scheduler.wait(0).then(() => {
      this.#soon = undefined;
      this.#look();
    });
  }

  /** Nothing is written once the object has ended. */
  #change(statement: string, ...values: (string | number)[]): void {
    if (!this.#erased) this.ctx.storage.sql.exec(statement, ...values);
  }

  #open({ app_id: app, sandbox_id: sandbox, org_id: org }: Place): TenantDb {
    /** The database believes the MAC: an object has no credential that it could look up. */
    const enter = async (sandbox: string, org: string) => {
      const tag = await mac(this.env.ROOT_SECRETS, ["object", app, sandbox, org].join("."), "door");
      return CompiledQuery.raw("select app.enter_object($1, $2, $3, $4) as org_status", [app, sandbox, org, tag]);
    };
    const toBeSigned = CompiledQuery.raw("");
    const connection: Connection = async (queries, mode) => {
      const ask = connect(this.env.DATABASE_URL);
      const entered = await enter(sandbox, org);
      try {
        const results = await ask(
          queries.map((query) => (query === toBeSigned ? entered : query)),
          mode,
        );
        this.orgStatus = (results[0]!.rows[0] as { org_status: OrgStatus }).org_status;
        return results;
      } catch (error) {
        const raised = refusal(error);
        if (raised?.code !== "AE401") throw error;
        // A database that doesn't know the app either is another one, by mistake: a failure, and no end.
        await ask([await enter(NONE, NONE)], "read").catch(() => {
          throw new Error("the database doesn't know this app");
        });
        await this.erase();
        throw new Error(raised.reason);
      }
    };
    const door: Door = {
      enter: toBeSigned,
      permission: "self",
      viewer: { kind: "object" },
      onTold: (place) => this.ctx.waitUntil(wakeDispatcher(this.env, place)),
      onFull: (full) => this.ctx.waitUntil(tellFull(this.db, full)),
    };
    return new TenantDb(connection, door, { kind: "org", app, sandbox, org }, "write");
  }
}
