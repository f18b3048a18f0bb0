import * as v from "valibot";
import { resources } from "../../lib/auth/permissions.ts";
import { keysOf } from "../../lib/auth/tokens.ts";
import { listOf } from "../../lib/env.ts";
import { gives } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";

const wellKnown = router();
const jwk = v.strictObject({
  kty: v.string(),
  crv: v.string(),
  x: v.string(),
  y: v.string(),
  kid: v.string(),
  alg: v.string(),
  use: v.string(),
});
const jwks = v.strictObject({ keys: v.array(jwk) });

/** The public keys (RFC 7517): all that is needed to verify an access token anywhere. */
wellKnown.get("/.well-known/jwks.json", named("Get the public keys of access tokens"), gives(200, jwks), (c) => {
  c.header("Cache-Control", "public, max-age=300");
  return c.var.answer({ keys: keysOf(c.env.PUBLIC_JWKS).public as v.InferOutput<typeof jwk>[] });
});

const https = v.pipe(v.string(), v.url());
const authorizationServer = v.strictObject({
  issuer: https,
  authorization_endpoint: https,
  token_endpoint: https,
  revocation_endpoint: https,
  device_authorization_endpoint: https,
  jwks_uri: https,
  scopes_supported: v.array(v.string()),
  response_types_supported: v.array(v.string()),
  response_modes_supported: v.array(v.string()),
  grant_types_supported: v.array(v.string()),
  code_challenge_methods_supported: v.array(v.string()),
  token_endpoint_auth_methods_supported: v.array(v.string()),
  revocation_endpoint_auth_methods_supported: v.array(v.string()),
  authorization_response_iss_parameter_supported: v.boolean(),
});

/** RFC 8414: all that an OAuth client has to know besides its id. */
wellKnown.get(
  "/.well-known/oauth-authorization-server",
  named("Describe the authorization server"),
  gives(200, authorizationServer),
  (c) => {
    const issuer = listOf(c.env.ISSUERS)[0]!;
    c.header("Cache-Control", "public, max-age=300");
    return c.var.answer({
      issuer,
      authorization_endpoint: `${issuer}/oauth/authorize`,
      token_endpoint: `${issuer}/oauth/token`,
      revocation_endpoint: `${issuer}/oauth/revoke`,
      device_authorization_endpoint: `${issuer}/oauth/device/authorize`,
      jwks_uri: `${issuer}/.well-known/jwks.json`,
      scopes_supported: resources.flatMap((resource) => [`${resource}:read`, `${resource}:write`]),
      response_types_supported: ["code"],
      response_modes_supported: ["query"],
      grant_types_supported: ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
      code_challenge_methods_supported: ["S256"],
      token_endpoint_auth_methods_supported: ["none"],
      revocation_endpoint_auth_methods_supported: ["none"],
      authorization_response_iss_parameter_supported: true,
    });
  },
);

export default wellKnown;
