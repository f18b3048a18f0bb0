import { visits } from "../../lib/auth/visitors.ts";
import { gives } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { issue } from "../../lib/tokens/issue.ts";
import { enterByLogin } from "../../lib/tokens/login.ts";
import { authTokens, exchangeBody, toAuthTokens } from "../../lib/tokens/schema.ts";

const loginTokens = router();

/** Of the developer, or of a login by SSO that led to the app: once, within a minute. */
loginTokens.post(
  "/api/v1/auth/token",
  named("Sign in by a login token"),
  visits,
  valid("json", exchangeBody),
  gives(200, authTokens),
  async (c) => {
    const { token, user } = await enterByLogin(c, c.var.visitor, c.req.valid("json").token);
    return c.var.answer(toAuthTokens(await issue(c.env, token!, 0), user));
  },
);

export default loginTokens;
