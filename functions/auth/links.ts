import { askForLink, enterByLink, visitorOfLink } from "../../lib/accounts/queries.ts";
import { loginLinkBody, registerLinkBody, requestLinkBody, verifyLinkBody } from "../../lib/accounts/schema.ts";
import { byEmail, limited } from "../../lib/auth/limits.ts";
import { visits } from "../../lib/auth/visitors.ts";
import { gives, givesNothing } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { issue } from "../../lib/tokens/issue.ts";
import { authTokens, toAuthTokens } from "../../lib/tokens/schema.ts";

const links = router();

/** To a page of ours, or to `redirect_uri`, on a host that the app names, with `?token=`. */
links.post(
  "/api/v1/auth/login/link",
  named("Mail a link to sign in"),
  visits,
  valid("json", loginLinkBody),
  limited("mail", { most: 10 }, { most: 3, by: byEmail }),
  givesNothing(400, 422, 429, 503),
  async (c) => {
    const { email, redirect_uri } = c.req.valid("json");
    await askForLink(c, c.var.visitor, email, redirect_uri, null);
    return c.var.answer();
  },
);

links.post(
  "/api/v1/auth/register/link",
  named("Mail a link to register"),
  visits,
  valid("json", registerLinkBody),
  limited("mail", { most: 10 }, { most: 3, by: byEmail }),
  givesNothing(400, 422, 429, 503),
  async (c) => {
    const { email, redirect_uri, full_name, alias } = c.req.valid("json");
    const profile = { name: full_name, alias };
    await askForLink(c, c.var.visitor, email, redirect_uri, { register: "must", profile });
    return c.var.answer();
  },
);

/** For who has an account, and, where the app lets people register, for who has none. */
links.post(
  "/api/v1/auth/request/link",
  named("Mail a link to sign in or register"),
  visits,
  valid("json", requestLinkBody),
  limited("mail", { most: 10 }, { most: 3, by: byEmail }),
  givesNothing(400, 422, 429, 503),
  async (c) => {
    const { email, redirect_uri, full_name } = c.req.valid("json");
    const profile = { name: full_name, alias: null };
    await askForLink(c, c.var.visitor, email, redirect_uri, { register: "may", profile });
    return c.var.answer();
  },
);

/** A link is of one app: another one's key opens nothing with it. */
links.post(
  "/api/v1/auth/verify/link",
  named("Sign in by a link"),
  visits,
  valid("json", verifyLinkBody),
  limited("link", { most: 10 }),
  gives(200, authTokens, 409),
  async (c) => {
    const { token } = c.req.valid("json");
    const visitor = c.var.visitor;
    const { app, sandbox } = await visitorOfLink(token);
    const there = app === visitor.app && sandbox === visitor.sandbox ? token : "";
    const entered = await enterByLink(c, visitor, there, "api");
    return c.var.answer({
      ...toAuthTokens(await issue(c.env, entered.token!, 0), entered.user),
      account_created: entered.created,
    });
  },
);

export default links;
