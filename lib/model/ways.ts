import { egressOf } from "../http/egress.ts";
import type { Ways } from "./egress.ts";

/** A Worker's two ways out: its own, and the one that leads to public addresses alone (see lib/env.ts). */
export function waysOf(env: Parameters<typeof egressOf>[0]): Ways {
  const { fetch: guarded, ...rest } = egressOf(env);
  return { fetch: (url, init) => fetch(url, init), guarded, ...rest };
}
