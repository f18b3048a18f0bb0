import type { Ways } from "./egress.ts";

/** A Worker's two ways out: its own, and the one that leads to public addresses alone (see lib/env.ts). */
export const waysOf = (env: { EGRESS?: Fetcher; ALLOW_LOOPBACK?: string }): Ways => ({
  fetch: (url, init) => fetch(url, init),
  guarded: (url, init) => (env.EGRESS ?? globalThis).fetch(url, init),
  loopback: env.ALLOW_LOOPBACK !== undefined,
});
