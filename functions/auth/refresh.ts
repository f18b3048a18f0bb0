import { openRefresh } from "../../lib/auth/allow.ts";
import { bySignIn, limited } from "../../lib/auth/limits.ts";
import { unauthenticated } from "../../lib/errors.ts";
import { gives } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { issue } from "../../lib/tokens/issue.ts";
import { rotate } from "../../lib/tokens/queries.ts";
import { authTokens, refreshBody, toAuthTokens } from "../../lib/tokens/schema.ts";

const refresh = router();

/** The refresh token is the credential. A publishable key beside it, as the SDK sends one, must be of the same app. */
refresh.post(
  "/api/v1/auth/refresh",
  named("Refresh a sign-in"),
  valid("json", refreshBody),
  limited("refresh", { most: 30, by: bySignIn }),
  gives(200, authTokens, 401, 403),
  async (c) => {
    const { db, family, generation } = await openRefresh(c, c.req.valid("json").refresh_token);
    const rotated = await rotate(db, family, generation);
    if (!rotated) throw unauthenticated();
    const issued = await issue(c.env, rotated.token, rotated.generation);
    return c.var.answer(toAuthTokens(issued, rotated.user));
  },
);

export default refresh;
