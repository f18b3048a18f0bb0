/** What a Worker is given: `vars` of wrangler.toml and the secrets of a deployment (README, "Configuration"). */
export type Bindings = {
  /** Base URLs of the service, newest first, comma-separated: the first is `iss` of new tokens, all are accepted. */
  ISSUERS: string;
  /** postgresql://agentry_api:…@…: the role that row-level security holds. */
  DATABASE_URL: string;
  /** A JWKS. Where tokens are made: private keys, the first signs, all verify. Elsewhere: the public set. */
  JWKS: string;
  /** Root secrets, newest first, comma-separated, each at least 32 characters. Rotated by adding in front. */
  ROOT_SECRETS: string;
};

/** A comma-separated list of a binding, newest first. */
export const listOf = (text: string): string[] => text.split(",").map((item) => item.trim());
