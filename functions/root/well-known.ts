import * as v from "valibot";
import { keysOf } from "../../lib/auth/tokens.ts";
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

export default wellKnown;
