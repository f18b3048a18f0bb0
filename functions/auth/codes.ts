import { askForCode, enterByCode } from "../../lib/accounts/queries.ts";
import { loginCodeBody, registerCodeBody, verifyCodeBody } from "../../lib/accounts/schema.ts";
import { byEmail, limited } from "../../lib/auth/limits.ts";
import { visits } from "../../lib/auth/visitors.ts";
import { gives, givesNothing } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { issue } from "../../lib/tokens/issue.ts";
import { authTokens, toAuthTokens } from "../../lib/tokens/schema.ts";

const codes = router();

/** Whether the address is known, only the mail says: it goes out after the answer. */
codes.post(
  "/api/v1/auth/login/code",
  named("Mail a code to sign in"),
  visits,
  valid("json", loginCodeBody),
  limited("mail", { most: 10 }, { most: 3, by: byEmail }),
  givesNothing(400, 422, 429, 503),
  async (c) => {
    await askForCode(c, c.var.visitor, c.req.valid("json").email, null);
    return c.var.answer();
  },
);

/** An address that has an account gets a code to sign in. */
codes.post(
  "/api/v1/auth/register/code",
  named("Mail a code to register"),
  visits,
  valid("json", registerCodeBody),
  limited("mail", { most: 10 }, { most: 3, by: byEmail }),
  givesNothing(400, 422, 429, 503),
  async (c) => {
    const { email, full_name, alias } = c.req.valid("json");
    const profile = { name: full_name, alias };
    await askForCode(c, c.var.visitor, email, { register: "must", profile });
    return c.var.answer();
  },
);

codes.post(
  "/api/v1/auth/code/verify",
  named("Sign in by a code"),
  visits,
  valid("json", verifyCodeBody),
  limited("code", { most: 10 }),
  gives(200, authTokens, 409),
  async (c) => {
    const { token, user, created } = await enterByCode(c, c.var.visitor, c.req.valid("json"), "api");
    return c.var.answer({ ...toAuthTokens(await issue(c.env, token!, 0), user), account_created: created });
  },
);

export default codes;
