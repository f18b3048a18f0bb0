import type { Context } from "hono";
import { createMiddleware } from "hono/factory";
import { mac, verifyMac } from "../auth/secrets.ts";
import { refusal } from "../db/errors.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { invalid } from "../errors.ts";
import { type Id, newId } from "../ids.ts";
import { kinds, type StoredKind } from "../kinds.ts";
import type { Env } from "./router.ts";
import { withSpec } from "./spec.ts";

export const KEY = "Idempotency-Key";

type Viewed = { Bindings: Env["Bindings"]; Variables: Env["Variables"] & { db: TenantDb } };
type Write<K extends StoredKind, Row> = (db: TenantDb, id: Id<K>) => Promise<Row>;
type Once<K extends StoredKind> = <Row>(write: Write<K, Row>, read: Write<K, Row>) => Promise<Row>;

/** The header, for the document. */
export const keyHeader = (description: string) => ({
  parameters: [
    { in: "header", name: KEY, description, schema: { type: "string", minLength: 1, maxLength: 255 } as const },
  ],
});

/** Whether a text can be a key: 1 to 255 visible ASCII characters. */
export const isKey = (text: string) => /^[\x21-\x7e]{1,255}$/.test(text);
export const NO_KEY = "must have 1 to 255 visible ASCII characters";

/** Promises that the route keeps the `Idempotency-Key`, and supplies what does: `c.var.once`. It stands after `allow`. */
export const once = <K extends StoredKind>(kind: K) =>
  withSpec(
    createMiddleware<{ Variables: { once: Once<K> } }>(async (c, next) => {
      c.set("once", (write, read) => makeOnce(c as Context as Context<Viewed>, kind, write, read));
      await next();
    }),
    keyHeader("The same key makes one row, however often and concurrently it is sent, for 24 hours."),
  );

/**
 * Makes a row, once for each `Idempotency-Key`, however often and however concurrently it is sent. The key commits
 * with the row and names it; a replay reads that row and answers it again. A request that made no row leaves the key
 * free; another request under the same key is a 422. `write` must make its row in one round trip, under the id it is given.
 */
async function makeOnce<K extends StoredKind, Row>(
  c: Context<Viewed>,
  kind: K,
  write: Write<K, Row>,
  read: Write<K, Row>,
): Promise<Row> {
  const { db } = c.var;
  const key = c.req.header(KEY);
  if (key === undefined) return write(db, newId(kind));
  if (!isKey(key)) throw invalid({ field: KEY, message: NO_KEY });
  // A colleague must not replay past what she may see; all secret keys of an app are one developer.
  const subject = db.viewer.kind === "token" ? db.viewer.user : "app";
  const { pathname, search } = new URL(c.req.url);
  const asked = `${c.req.method} ${pathname}${search}\n${await c.req.text()}`;
  const { ROOT_SECRETS } = c.env;
  const fingerprint = await mac(ROOT_SECRETS, asked, "once");
  for (let attempt = 1; ; attempt++) {
    const id = newId(kind);
    try {
      return await write(db.keyed(kinds[kind].table, { subject, key, fingerprint, row_id: id }), id);
    } catch (error) {
      if (refusal(error)?.constraint !== "idempotency_keys_pkey") throw error;
      const held = await db
        .selectFrom("idempotency_keys")
        .select(["fingerprint", "row_id"])
        .where("subject", "=", subject)
        .where("key", "=", key)
        .executeTakeFirst();
      // Swept between the two trips: the key is free again.
      if (!held && attempt < 3) continue;
      if (!held) throw error;
      if (!(await verifyMac(ROOT_SECRETS, asked, held.fingerprint as Uint8Array<ArrayBuffer>, "once"))) {
        throw invalid({ field: KEY, message: "was already used for another request" });
      }
      c.header("Idempotent-Replayed", "true");
      return read(db, held.row_id as Id<K>);
    }
  }
}
