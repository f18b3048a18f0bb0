/** `npm run keys`: a new signing key, as the two values of JWKS that a deployment wants. */
import { newSigningKey } from "./signing-key.ts";

const key = await newSigningKey();
const { d: _, ...open } = key;
console.log(JSON.stringify({ private: { keys: [key] }, public: { keys: [open] } }, null, 2));
