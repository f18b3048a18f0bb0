import { allow } from "../../lib/auth/allow.ts";
import { gives } from "../../lib/http/gives.ts";
import { once } from "../../lib/http/once.ts";
import { router } from "../../lib/http/router.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";
import { issue } from "../../lib/tokens/issue.ts";
import { createPersonalToken, getToken, listTokens, revokeToken } from "../../lib/tokens/queries.ts";
import { personalTokenBody, systemAccessToken, tokenList, toSystemAccessToken } from "../../lib/tokens/schema.ts";
import { ownUser } from "./users.ts";

const tokens = router();

/** All of a person's tokens, revoked and expired ones too; never a secret. */
tokens.get("/api/v1/users/:user/tokens", allow("session"), gives(200, tokenList), async (c) => {
  const rows = await listTokens(c.var.db, await ownUser(c.var.db, c.req.param("user")), "all");
  return c.var.answer({ data: rows.map((row) => toSystemAccessToken(row)) });
});

tokens.post(
  "/api/v1/users/:user/tokens",
  allow("session"),
  valid("json", personalTokenBody),
  once("token"),
  gives(201, systemAccessToken, 429),
  async (c) => {
    const user = await ownUser(c.var.db, c.req.param("user"));
    const body = c.req.valid("json");
    const row = await c.var.once(
      (db, id) => createPersonalToken(db, user, id, body),
      (db, id) => getToken(db, user, id),
    );
    const { access_token } = await issue(c.env, row, null);
    return c.var.answer(toSystemAccessToken(row, access_token));
  },
);

tokens.delete("/api/v1/users/:user/tokens/:token", allow("session"), gives(200, systemAccessToken), async (c) => {
  const user = await ownUser(c.var.db, c.req.param("user"));
  return c.var.answer(toSystemAccessToken(await revokeToken(c.var.db, user, parseId("token", c.req.param("token")))));
});

export default tokens;
