/**
 * The object that the bench holds a webhook endpoint's against: it writes down what it is given, that it sends it, and what
 * came of it, six at a time; and that is all. No signature, no guard, and nobody is told. Where it sends, the event says.
 */
import { DurableObject } from "cloudflare:workers";
import type { EventRow } from "../lib/events/schema.ts";

const AT_ONCE = 6;

export class WebhookEndpoint extends DurableObject {
  #flying = 0;

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx, env);
    ctx.storage.sql.exec(`
      create table if not exists deliveries (id text primary key, url text not null, body text not null,
        status text not null default 'pending', at integer not null) strict;
      create index if not exists deliveries_at on deliveries (at) where status = 'pending'`);
  }

  deliver(events: EventRow[]): void {
    for (const { id, payload } of events) {
      const insert = "insert or ignore into deliveries (id, url, body, at) values (?, ?, ?, ?)";
      this.ctx.storage.sql.exec(insert, id, String(payload.url), JSON.stringify({ data: payload }), Date.now());
    }
    while (this.#flying < AT_ONCE && this.#send());
  }

  #send(): boolean {
    const { sql } = this.ctx.storage;
    const next = "select * from deliveries where status = 'pending' and at <= ? order by at limit 1";
    const [row] = sql.exec<{ id: string; url: string; body: string }>(next, Date.now()).toArray();
    if (!row) return false;
    sql.exec("update deliveries set at = ? where id = ?", Date.now() + 20_000, row.id);
    this.#flying++;
    const sent = fetch(row.url, { method: "POST", body: row.body }).then(({ status, body }) => {
      void body?.cancel();
      sql.exec("update deliveries set status = ?, at = ? where id = ?", String(status), Date.now(), row.id);
      this.#flying--;
      this.#send();
    });
    this.ctx.waitUntil(sent);
    return true;
  }
}
