import { authMethods } from "../../lib/accounts/schema.ts";
import { gives } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";

const methods = router();

const data = [
  { slug: "password", name: "Password", description: "An e-mail address and a password" },
  { slug: "magic_link", name: "Magic link", description: "A link that is mailed, and works once" },
  { slug: "email_code", name: "E-mail code", description: "Six digits that are mailed, and work once" },
  { slug: "sso_saml", name: "SSO (SAML)", description: "The identity provider of one's organization, by SAML 2.0" },
  {
    slug: "sso_oidc",
    name: "SSO (OIDC)",
    description: "The identity provider of one's organization, by OpenID Connect",
  },
];

/** What there is on this platform, not what an app allows. */
methods.get("/api/v1/auth/allowed_auth_methods", named("List ways to sign in"), gives(200, authMethods), (c) =>
  c.var.answer({ data }),
);

export default methods;
