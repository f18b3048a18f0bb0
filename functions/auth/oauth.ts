import { type Asked, allow } from "../../lib/auth/allow.ts";
import { looksLikeKey, parseKey } from "../../lib/auth/keys.ts";
import { limited } from "../../lib/auth/limits.ts";
import { unauthenticated } from "../../lib/errors.ts";
import { gives } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { mustReadDevice, startDevice } from "../../lib/oauth/device.ts";
import { grant, revoke } from "../../lib/oauth/grants.ts";
import {
  approveBody,
  clientNamed,
  denyBody,
  describedScopes,
  deviceAuthorization,
  deviceBody,
  deviceDetails,
  deviceQuery,
  deviceStatus,
  nothing,
  oauthTokens,
  readScopes,
  revokeBody,
  scopeTexts,
  tokenBody,
} from "../../lib/oauth/schema.ts";
import { asOAuth, refusal, refuses, takes } from "../../lib/oauth/wire.ts";
import { type ClientName, parseClientId } from "../../lib/oauth-clients/schema.ts";

/** What programs ask of OAuth. Its refusals are in OAuth's own form. */
const oauth = router();
oauth.onError(asOAuth);

/** By a form or by JSON. What is sent is the credential: a code with its verifier, a refresh token, a device's code. */
oauth.post(
  "/oauth/token",
  named("Get tokens by a grant"),
  limited("oauth token", { most: 20 }),
  takes(tokenBody),
  gives(200, oauthTokens),
  refuses(400, 429),
  async (c) => {
    return c.var.answer(await grant(c, c.req.valid("json")));
  },
);

/** RFC 7009: whatever is sent, the answer is the same. */
oauth.post(
  "/oauth/revoke",
  named("Revoke a client's token"),
  takes(revokeBody),
  gives(200, nothing),
  refuses(400),
  async (c) => {
    const { token, ...client } = c.req.valid("json");
    await revoke(c, token, clientNamed(client));
    return c.var.answer({});
  },
);

oauth.get("/oauth/scopes", named("List the scopes that a client may have"), gives(200, scopeTexts), (c) =>
  c.var.answer({ scopes: describedScopes }),
);

/** Starts a sign-in on a device. A publishable key beside it, as the SDK sends one, must be of the same app. */
oauth.post(
  "/oauth/device/authorize",
  named("Start a device's sign-in"),
  limited("oauth device", { most: 10 }),
  takes(deviceBody),
  gives(200, deviceAuthorization),
  refuses(400, 401, 403, 429),
  async (c) => {
    const body = c.req.valid("json");
    const client = parseClientId(clientNamed(body) ?? "");
    if (!client) throw refusal("invalid_client", "There is no such client.");
    return c.var.answer(await startDevice(c, client, readScopes(body.scope), await keyBeside(c, client)));
  },
);

async function keyBeside(c: Asked, { app, sandbox }: ClientName) {
  const authorization = c.req.header("Authorization")?.match(/^Bearer +(\S+)$/i)?.[1] ?? "";
  const text = looksLikeKey(authorization)
    ? authorization
    : (c.req.header("x-archastro-api-key") ?? c.req.header("x-api-key"));
  if (text === undefined) return null;
  const key = await parseKey(text);
  if (key?.type === "secret") {
    throw refusal("forbidden", "A device has no secret key. Send a publishable key, or none.", 403);
  }
  if (!key || key.app !== app || key.sandbox !== sandbox) throw unauthenticated();
  return key;
}

oauth.get(
  "/oauth/device/authorization",
  named("Get what a device waits for"),
  allow("session"),
  valid("query", deviceQuery),
  gives(200, deviceDetails),
  refuses(400, 401, 403),
  async (c) => {
    const { code = "" } = c.req.valid("query");
    const { client_name, scopes, expires_at } = await mustReadDevice(c, c.var.db, c.var.credential, code);
    return c.var.answer({ client_name, scopes, expires_at: new Date(expires_at).toISOString() });
  },
);

/** Once: approved or denied before, it is a 400. */
oauth.post(
  "/oauth/device/approve",
  named("Approve a device's sign-in"),
  allow("session"),
  takes(approveBody),
  gives(200, deviceStatus),
  refuses(400, 401, 403),
  async (c) => {
    await mustReadDevice(c, c.var.db, c.var.credential, c.req.valid("json").user_code, "approved");
    return c.var.answer({ status: "approved" });
  },
);

oauth.post(
  "/oauth/device/deny",
  named("Deny a device's sign-in"),
  allow("session"),
  takes(denyBody),
  gives(200, deviceStatus),
  refuses(400, 401, 403),
  async (c) => {
    await mustReadDevice(c, c.var.db, c.var.credential, c.req.valid("json").user_code, "denied");
    return c.var.answer({ status: "denied" });
  },
);

export default oauth;
