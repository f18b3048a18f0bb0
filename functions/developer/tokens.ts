import { allow } from "../../lib/auth/allow.ts";
import { gives } from "../../lib/http/gives.ts";
import { once } from "../../lib/http/once.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";
import { issue } from "../../lib/tokens/issue.ts";
import { createLoginToken } from "../../lib/tokens/login.ts";
import { getMintedToken, listTokens, mintToken, revokeToken } from "../../lib/tokens/queries.ts";
import {
  loginToken,
  loginTokenBody,
  mintedToken,
  mintTokenBody,
  systemAccessToken,
  tokenList,
  toSystemAccessToken,
} from "../../lib/tokens/schema.ts";

const tokens = router();

/** An org user's live tokens; never a secret. */
tokens.get(
  "/protected/api/v2/developer/apps/:app_id/users/:user_id/tokens",
  allow("developer:read"),
  gives(200, tokenList),
  async (c) => {
    const rows = await listTokens(c.var.db, parseId("user", c.req.param("user_id")), "live");
    return c.var.answer({ data: rows.map((row) => toSystemAccessToken(row)) });
  },
);

tokens.post(
  "/protected/api/v2/developer/apps/:app_id/users/:user_id/tokens",
  allow("developer:write"),
  valid("json", mintTokenBody),
  once("token"),
  gives(201, mintedToken, 409),
  async (c) => {
    const user = parseId("user", c.req.param("user_id"));
    const body = c.req.valid("json");
    const minted = await c.var.once(
      (db, id) => mintToken(db, user, id, body),
      (db, id) => getMintedToken(db, user, id),
    );
    const { row, access_token, refresh_token, expires_in } = await issue(c.env, minted.token, minted.generation);
    return c.var.answer({
      id: row.id,
      access_token,
      refresh_token,
      token_type: "Bearer",
      expires_in,
      expires_at: row.expires_at,
      scope: row.scopes.join(" "),
      scopes: row.scopes,
    });
  },
);

tokens.delete(
  "/protected/api/v2/developer/apps/:app_id/users/:user_id/tokens/:token_id",
  allow("developer:write"),
  gives(200, systemAccessToken),
  async (c) => {
    const user = parseId("user", c.req.param("user_id"));
    const row = await revokeToken(c.var.db, user, parseId("token", c.req.param("token_id")));
    return c.var.answer(toSystemAccessToken(row));
  },
);

/** For who was let in elsewhere, or, with a reason, to act as the user: the org reads it. A minute, and once. */
tokens.post(
  "/protected/api/v2/developer/apps/:app_id/users/:user_id/login_tokens",
  named("Make a login token for an org user"),
  allow("developer:write"),
  valid("json", loginTokenBody),
  gives(201, loginToken, 409),
  async (c) => {
    const user = parseId("user", c.req.param("user_id"));
    return c.var.answer(await createLoginToken(c.var.db, user, c.req.valid("json")));
  },
);

export default tokens;
