import * as v from "valibot";
import { FULL_ACCESS, isScope } from "../auth/permissions.ts";
import type { Row } from "../db/schema.ts";
import { list, nullable, rule, stamp, text } from "../http/valid.ts";
import { timeZone } from "../schedules/time-zone.ts";
import { type NamedUserRow, toUser, user } from "../users/schema.ts";

export const DEFAULT_LIFETIME_S = 3600;
const MIN_LIFETIME_S = 60;
const MAX_LIFETIME_S = 31_536_000;
export const DAY_S = 86_400;

/** Scopes that a token asks for; none named asks for all that the role holds. */
const scopes = v.optional(
  list(
    v.pipe(
      v.string(),
      v.check(isScope, "is not a scope: use resource:read, resource:write, resource:* or full_access"),
    ),
    200,
    1,
  ),
  [FULL_ACCESS],
);

export const mintTokenBody = v.strictObject({
  scopes,
  expires_in: v.optional(
    v.pipe(v.number(), v.integer(), v.minValue(MIN_LIFETIME_S), v.maxValue(MAX_LIFETIME_S)),
    DEFAULT_LIFETIME_S,
  ),
});
export type MintToken = v.InferOutput<typeof mintTokenBody>;

export const personalTokenBody = v.strictObject({
  name: v.nullish(text(200), null),
  scopes,
  expires_in_days: v.optional(v.picklist([7, 30, 60, 90, 365]), 30),
});
export type PersonalToken = v.InferOutput<typeof personalTokenBody>;

export const loginTokenBody = v.pipe(
  v.strictObject({
    /** To act as the user, and not to let it in: the org reads the reason. */
    impersonate: v.optional(v.boolean(), false),
    reason: v.optional(v.pipe(text(500), v.regex(/\S/, "must say something"))),
  }),
  rule(
    "reason",
    ({ impersonate, reason }) => impersonate === (reason !== undefined),
    "goes with impersonate, which needs one",
  ),
);
export type LoginTokenBody = v.InferOutput<typeof loginTokenBody>;
export const loginToken = v.strictObject({ token: v.string(), expires_at: stamp });
/** Checked, and not kept: nothing shows times of a person's own yet. */
export const exchangeBody = v.strictObject({ token: text(200), timezone: v.nullish(timeZone) });

export const refreshBody = v.strictObject({ refresh_token: v.string() });

export type TokenRow = Row<"tokens">;

/** What minting for an org user answers: RFC 6749 §5.1, with the id that revokes it. */
export const mintedToken = v.strictObject({
  id: v.string(),
  access_token: v.string(),
  refresh_token: nullable,
  token_type: v.literal("Bearer"),
  expires_in: v.number(),
  expires_at: stamp,
  scope: v.string(),
  scopes: v.array(v.string()),
});

/** A token as a record. `token` is the JWT, once, in the answer that made it. */
export const systemAccessToken = v.strictObject({
  id: v.string(),
  name: nullable,
  scopes: nullable,
  token: nullable,
  created_at: stamp,
  expires_at: v.nullable(stamp),
  last_used_at: v.nullable(stamp),
  revoked_at: v.nullable(stamp),
  created_by_agent_user: nullable,
  created_by_developer: nullable,
  created_by_org: nullable,
  created_by_team: nullable,
  created_by_user: nullable,
});
export const tokenList = v.strictObject({ data: v.array(systemAccessToken) });

export const toSystemAccessToken = (
  row: TokenRow,
  token: string | null = null,
): v.InferOutput<typeof systemAccessToken> => ({
  id: row.id,
  name: row.name,
  scopes: row.scopes.join(" "),
  token,
  created_at: row.created_at,
  expires_at: row.expires_at,
  last_used_at: row.last_used_at,
  revoked_at: row.revoked_at,
  created_by_agent_user: null,
  created_by_developer: null,
  created_by_org: null,
  created_by_team: null,
  created_by_user: row.created_by_user,
});

const seconds = (stamp: string) => Math.floor(Date.parse(stamp) / 1000);
/** A token's life as its row says: seconds since 1970, and how many of them. */
export function lifetime({ created_at, expires_at }: TokenRow) {
  const iat = seconds(created_at);
  const expires_in = Math.round((Date.parse(expires_at) - Date.parse(created_at)) / 1000);
  return { iat, exp: iat + expires_in, expires_in };
}

/** What the token's claims say of its sign-in. */
export const signedIn = ({ family_id, auth_time, actor }: TokenRow) => ({
  ...{ sid: family_id, auth_time: auth_time === null ? null : seconds(auth_time), act: actor },
});

/** What every sign-in and refresh answers. */
export const authTokens = v.strictObject({
  token: v.string(),
  refresh_token: v.string(),
  expires_in: v.number(),
  token_type: v.literal("Bearer"),
  account_created: v.boolean(),
  metadata: v.record(v.string(), v.unknown()),
  user,
});

export const toAuthTokens = (
  {
    access_token,
    refresh_token,
    expires_in,
  }: { access_token: string; refresh_token: string | null; expires_in: number },
  row: NamedUserRow,
): v.InferOutput<typeof authTokens> => ({
  token: access_token,
  refresh_token: refresh_token!,
  expires_in,
  token_type: "Bearer",
  account_created: false,
  metadata: {},
  user: toUser(row),
});
