/**
 * What a Worker is given, in the types that wrangler makes of wrangler.toml (`npm run types`), where each meaning
 * stands. The single Worker has what every other one has.
 */
export type Bindings = Cloudflare.AllEnv & Locally;

/** What only workerd on a machine of one's own gives: see lib/local/runtime.ts. */
type Locally = {
  /** The way out for scripts: refuses what resolves to anything but a public address. On Cloudflare every fetch does. */
  EGRESS?: Fetcher;
  /** The way to the endpoint at DATABASE_URL, past a Worker through which Miniflare sends every other fetch. */
  DATABASE?: Fetcher;
  /** Opens this machine to scripts, for development and tests: the host of the database behind DATABASE_URL. */
  ALLOW_LOOPBACK?: string;
};

/** A comma-separated list of a binding, newest first. */
export const listOf = (text: string): string[] => text.split(",").map((item) => item.trim());
