/** `npm run keys`: new keys: to sign tokens, as the two values of JWKS that a deployment wants, and for SAML. */
import { newSigningKey } from "./signing-key.ts";
import { newSpKey } from "./sp-key.ts";

const key = await newSigningKey();
const { d: _, ...open } = key;
console.log(
  JSON.stringify({ private: { keys: [key] }, public: { keys: [open] }, saml: { keys: [await newSpKey()] } }, null, 2),
);
