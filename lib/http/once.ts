import type { Context } from "hono";
import { createMiddleware } from "hono/factory";
import { base64url } from "jose";
import { mac, rootsOf, verifyMac } from "../auth/secrets.ts";
import { refusal } from "../db/errors.ts";
import { NONE } from "../db/schema.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { invalid, refused } from "../errors.ts";
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
 * Promises the same of a route that makes no row and keeps no answer. `c.var.begin` is called when nothing but the work
 * itself is left: it commits the key, and refuses one that has begun before: 409 `already_run`.
 */
export const onceBegun = () =>
  withSpec(
    createMiddleware<{ Variables: { begin: () => Promise<void> } }>(async (c, next) => {
      c.set("begin", () => begin(c as Context as Context<Viewed>));
      await next();
    }),
    keyHeader(
      "The same key runs once in 24 hours, even if it failed: a replay is a 409 `already_run`, as no answer is kept.",
    ),
  );

/**
 * A key as it is kept elsewhere: what it made is known there. A MAC of the request under each root secret, the newest
 * first: to be kept by that one, and known by any, so that a rotation makes no other request of it.
 */
export type KeptKey = { subject: string; key: string; fingerprints: string[] };

/** Promises the same of a route whose key is kept by whoever keeps what it makes. `c.var.readKey`: null, if none was sent. */
export const onceKept = (description: string) =>
  withSpec(
    createMiddleware<{ Variables: { readKey: () => Promise<KeptKey | null> } }>(async (c, next) => {
      c.set("readKey", async () => {
        const key = await readKey(c as Context as Context<Viewed>);
        if (!key) return null;
        const { asked, roots, ...held } = key;
        const macs = await Promise.all(rootsOf(roots).map((root) => mac(root, asked, "once")));
        return { ...held, fingerprints: macs.map((tag) => base64url.encode(tag)) };
      });
      await next();
    }),
    keyHeader(description),
  );

/** What a request's key is kept as. Null: none was sent. */
async function readKey(c: Context<Viewed>) {
  const key = c.req.header(KEY);
  if (key === undefined) return null;
  if (!isKey(key)) throw invalid({ field: KEY, message: NO_KEY });
  // A colleague must not replay past what she may see; all secret keys of an app are one developer.
  const { viewer } = c.var.db;
  const { pathname, search } = new URL(c.req.url);
  const asked = `${c.req.method} ${pathname}${search}\n${await c.req.text()}`;
  return { subject: viewer.kind === "user" ? viewer.user : "app", key, asked, roots: c.env.ROOT_SECRETS };
}
type Key = NonNullable<Awaited<ReturnType<typeof readKey>>>;
type Holding<Row> = { written: Row; held?: never } | { held: string };

/** The key as it is kept. Of the request a MAC: a body may hold a secret that its hash would give away. */
const kept = async ({ subject, key, asked, roots }: Key) => ({
  subject,
  key,
  fingerprint: await mac(roots, asked, "once"),
});

/**
 * Writes what holds the key, and answers it; or the row that the key holds already. 422 where that was another request.
 */
async function holding<Row>(
  db: TenantDb,
  { subject, key, asked, roots }: Key,
  write: () => Promise<Row>,
): Promise<Holding<Row>> {
  for (let attempt = 1; ; attempt++) {
    try {
      return { written: await write() };
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
      if (!(await verifyMac(roots, asked, held.fingerprint as Uint8Array<ArrayBuffer>, "once"))) {
        throw invalid({ field: KEY, message: "was already used for another request" });
      }
      return { held: held.row_id };
    }
  }
}

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
  const key = await readKey(c);
  if (!key) return write(db, newId(kind));
  const held = await kept(key);
  const made = await holding(db, key, () => {
    const id = newId(kind);
    return write(db.keyed(kinds[kind].table, { ...held, row_id: id }), id);
  });
  if (made.held === undefined) return made.written;
  c.header("Idempotent-Replayed", "true");
  return read(db, made.held as Id<K>);
}

/** No row is made, so the key names none. */
async function begin(c: Context<Viewed>): Promise<void> {
  const { db } = c.var;
  const key = await readKey(c);
  if (!key) return;
  const held = await kept(key);
  const begun = await holding(db, key, () => db.insertInto("idempotency_keys", { ...held, row_id: NONE }).execute());
  if (begun.held !== undefined) {
    throw refused("already_run", "This was run before under the same Idempotency-Key. Its answer was not kept.");
  }
}
