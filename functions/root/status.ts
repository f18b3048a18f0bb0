import * as v from "valibot";
import { getApp } from "../../lib/apps/queries.ts";
import { openDb, readCredential } from "../../lib/auth/allow.ts";
import { ApiError } from "../../lib/errors.ts";
import { gives } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { getUser } from "../../lib/users/queries.ts";
import { toUser, user } from "../../lib/users/schema.ts";

const status = router();
const ping = v.strictObject({
  success: v.literal(true),
  deployment: v.null(),
  token: v.strictObject({ status: v.string(), active: v.boolean() }),
  user: v.nullable(user),
});

/**
 * Whether the service is there and what it thinks of the credential, if one was sent: 200 either way. 503 where it
 * can't know: a credential isn't dead because the database is out of reach.
 */
status.get("/api/v1/status/ping", named("Check the service and a credential"), gives(200, ping, 503), async (c) => {
  try {
    const credential = await readCredential(c);
    const token = { status: credential ? "active" : "missing", active: credential !== null };
    const db = credential && openDb(c, credential, "self");
    const row = db && (credential.kind === "user" ? await getUser(db, credential.user) : null);
    if (db && credential.kind === "key") await getApp(db);
    return c.var.answer({ success: true, deployment: null, token, user: row && toUser(row) });
  } catch (error) {
    if (!(error instanceof ApiError) || error.status === 503) throw error;
    const token = { status: error.code === "org_suspended" ? "org_suspended" : "invalid", active: false };
    return c.var.answer({ success: true, deployment: null, token, user: null });
  }
});

export default status;
