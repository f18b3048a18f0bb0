import { base64url } from "jose";
import * as v from "valibot";
import { FULL_ACCESS, isScope, resources, spell } from "../auth/permissions.ts";
import { stamp, text } from "../http/valid.ts";
import type { issue } from "../tokens/issue.ts";
import { type NamedUserRow, toUser, user } from "../users/schema.ts";
import { refusal } from "./wire.ts";

export const DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code";
/** How long a code of each kind works, and how long a device waits before it asks again. In seconds. */
export const CODE_S = 60;
export const DEVICE_S = 900;
export const INTERVAL_S = 5;

const word = text(600);
/** Both names of it are understood. */
const client = { client: v.optional(text(100)), client_id: v.optional(text(100)) };
export const clientNamed = (body: {
  client?: string | undefined;
  client_id?: string | undefined;
}): string | undefined => body.client_id ?? body.client;

/** What `/oauth/authorize` is asked besides who asks and where the answer goes. PKCE's S256 alone (RFC 9700 §2.1.1). */
export const authorizeQuery = v.object({
  response_type: v.literal("code"),
  code_challenge: v.pipe(v.string(), v.regex(/^[\w-]{43}$/)),
  code_challenge_method: v.literal("S256"),
  scope: v.optional(text(2000)),
  state: v.optional(text(1000)),
});
export type Authorize = v.InferOutput<typeof authorizeQuery>;

export const tokenBody = v.object({
  grant_type: v.string(),
  ...client,
  code: v.optional(word),
  code_verifier: v.optional(text(128)),
  device_code: v.optional(word),
  redirect_uri: v.optional(text(500)),
  refresh_token: v.optional(word),
});
export type TokenBody = v.InferOutput<typeof tokenBody>;

export const revokeBody = v.object({ token: v.string(), token_type_hint: v.optional(v.string()), ...client });

export const deviceBody = v.object({ ...client, scope: v.optional(text(2000)) });
const user_code = text(40);
const thread = v.optional(v.null());
export const approveBody = v.object({ user_code, thread });
export const denyBody = v.object({ user_code });
export const deviceQuery = v.object({ code: v.optional(user_code) });

export const oauthTokens = v.strictObject({
  access_token: v.string(),
  expires_in: v.number(),
  refresh_token: v.string(),
  scope: v.string(),
  token_type: v.literal("Bearer"),
  user,
});
export const toOauthTokens = (
  { row, access_token, refresh_token, expires_in }: Awaited<ReturnType<typeof issue>>,
  person: NamedUserRow,
): v.InferOutput<typeof oauthTokens> => ({
  access_token,
  expires_in,
  refresh_token: refresh_token!,
  scope: row.scopes.join(" "),
  token_type: "Bearer",
  user: toUser(person),
});

export const deviceAuthorization = v.strictObject({
  device_code: v.string(),
  user_code: v.string(),
  verification_uri: v.string(),
  verification_uri_complete: v.string(),
  expires_in: v.number(),
  interval: v.number(),
});
export const deviceDetails = v.strictObject({
  client_name: v.string(),
  scopes: v.array(v.string()),
  expires_at: stamp,
});
export const deviceStatus = v.strictObject({ status: v.picklist(["approved", "denied"]) });
export const nothing = v.strictObject({});
export const scopeTexts = v.strictObject({ scopes: v.record(v.string(), v.string()) });

/** Each scope that a client may have, and what a person is told of it. */
export const describedScopes: Readonly<Record<string, string>> = Object.fromEntries(
  resources.flatMap((resource) => {
    const name = resource.replaceAll("_", " ");
    return [
      [`${resource}:read`, `See your ${name}`],
      [`${resource}:write`, `Make and change your ${name}`],
    ];
  }),
);

/** The scopes that a request names; null: none, which asks for all that the client may have. `invalid_scope` otherwise. */
export function readScopes(scope: string | undefined): string[] | null {
  const named = scope?.split(" ").filter(Boolean) ?? [];
  if (!named.every((one) => isScope(one) && one !== FULL_ACCESS)) throw invalidScope();
  return named.length ? spell(named) : null;
}
export const invalidScope = () => refusal("invalid_scope", "A scope is unknown, or none of this client's.");

/** What a verifier's challenge is (RFC 7636 §4.2). */
export const challengeOf = async (verifier: string) =>
  base64url.encode(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier))));
