import { enterByPassword } from "../../lib/accounts/queries.ts";
import { registerByPassword } from "../../lib/accounts/register.ts";
import { loginBody, registerBody } from "../../lib/accounts/schema.ts";
import { visits } from "../../lib/auth/visitors.ts";
import { gives } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { issue } from "../../lib/tokens/issue.ts";
import { authTokens, toAuthTokens } from "../../lib/tokens/schema.ts";

const passwords = router();

/** An unknown address costs as much as a wrong password, and says the same. */
passwords.post(
  "/api/v1/auth/login",
  named("Sign in by a password"),
  visits,
  valid("json", loginBody),
  gives(200, authTokens, 429),
  async (c) => {
    const { token, user } = await enterByPassword(c, c.var.visitor, c.req.valid("json"));
    return c.var.answer(toAuthTokens(await issue(c.env, token!, 0), user));
  },
);

/** An address that must be proven first is mailed a code, and this is a 403. Whether one is taken, it tells. */
passwords.post(
  "/api/v1/auth/register",
  named("Register with a password"),
  visits,
  valid("json", registerBody),
  gives(201, authTokens, 400, 404, 409, 422, 429, 503),
  async (c) => {
    const { token, user } = await registerByPassword(c, c.var.visitor, c.req.valid("json"));
    return c.var.answer({ ...toAuthTokens(await issue(c.env, token!, 0), user), account_created: true });
  },
);

export default passwords;
