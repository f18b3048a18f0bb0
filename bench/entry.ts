/**
 * What sign-ins are held against: the batch of `code/verify` by itself, with whatever the Worker works out for it worked out before;
 * and so many readings of a SAML response, or bare verifications of an RSA signature.
 */
import { Hono } from "hono";
import { CompiledQuery } from "kysely";
import { connect } from "../lib/db/neon.ts";
import { NONE } from "../lib/db/schema.ts";
import { TenantDb } from "../lib/db/tenant-db.ts";
import type { Env } from "../lib/http/router.ts";
import { type Id, newId } from "../lib/ids.ts";
import { signIn } from "../lib/sign-ins/queries.ts";
import { readCertificate } from "../lib/sso/saml/certificate.ts";
import { type Expected, readResponse } from "../lib/sso/saml/response.ts";

const app = new Hono<Env>();

/** What the door of a code takes besides the place and the ids of what is made. */
export type Code = { app: Id<"app">; beside: string; hash: string; kept: string; tag: string };

app.post("/verify", async (c) => {
  const { app, beside, hash, kept, tag } = await c.req.json<Code>();
  const ids = { user: newId("user"), org: newId("org") };
  const args = [app, NONE, beside, "email_code", hash.slice(2), hash, [kept], JSON.stringify(ids), tag];
  const enter = CompiledQuery.raw(`select app.enter_by_mail(${args.map((_, i) => `$${i + 1}`)}) as answer`, args);
  const door = { enter, permission: "self", viewer: { kind: "object" as const }, onTold: () => {} };
  const connection = connect(c.env.DATABASE_URL, c.env.DATABASE);
  const db = new TenantDb(connection, door, { kind: "app", app, sandbox: NONE }, "write");
  const { statements, read } = signIn(db, null, { method: "email_code", carrier: "api" });
  const signedIn = read(await db.batch(statements));
  return signedIn ? c.json(signedIn) : c.json({}, 401);
});

type Said = Omit<Expected, "signers" | "keys"> & { certificate: string; response: string; now: number };
app.post("/saml/:times", async (c) => {
  const { certificate, response, now, ...expected } = await c.req.json<Said>();
  for (let i = 0; i < Number(c.req.param("times")); i++) {
    const signers = [await readCertificate(certificate)];
    await readResponse(response, { ...expected, signers, keys: [] }, new Date(now));
  }
  return c.json({});
});

const bytesOf = (text: string) => Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
app.post("/rsa/:times", async (c) => {
  const { spki, signature, text } = await c.req.json<{ spki: string; signature: string; text: string }>();
  const [key, tag, bytes] = [bytesOf(spki), bytesOf(signature), new TextEncoder().encode(text)];
  const by = { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" };
  for (let i = 0; i < Number(c.req.param("times")); i++) {
    const imported = await crypto.subtle.importKey("spki", key, by, false, ["verify"]);
    if (!(await crypto.subtle.verify(by, imported, tag, bytes))) throw new Error("the signature is none");
  }
  return c.json({});
});

export default app;
