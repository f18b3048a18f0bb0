/**
 * What a Worker is given, in the types that wrangler makes of wrangler.toml (`npm run types`), where each meaning
 * stands. The single Worker has what every other one has.
 */
export type Bindings = Cloudflare.AllEnv;

/** A comma-separated list of a binding, newest first. */
export const listOf = (text: string): string[] => text.split(",").map((item) => item.trim());
