import { makeRefreshToken } from "../auth/refresh.ts";
import { signToken } from "../auth/tokens.ts";
import type { Bindings } from "../env.ts";
import type { Id } from "../ids.ts";
import { lifetime, signedIn, type TokenRow } from "./schema.ts";

/**
 * Signs a token for its row, with the refresh token of its family's generation where it has one. The same row gives
 * the same claims and the same refresh token, however often: nothing that is secret has to be stored.
 */
export async function issue(env: Bindings, row: TokenRow, generation: number | null) {
  const { iat, exp, expires_in } = lifetime(row);
  const place = { app: row.app_id, sandbox: row.sandbox_id, org: row.org_id as Id<"org"> };
  const access_token = await signToken(
    env,
    { ...place, user: row.user_id, token: row.id, scopes: row.scopes },
    { iat, exp, ...signedIn(row) },
  );
  const family = row.family_id;
  const refresh_token =
    family === null || generation === null
      ? null
      : await makeRefreshToken(env.ROOT_SECRETS, { ...place, family, generation });
  return { row, access_token, refresh_token, expires_in };
}
