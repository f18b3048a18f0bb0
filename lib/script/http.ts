import { type Egress, type FetchOptions, fetchGuarded } from "../http/egress.ts";
import type { Json } from "./values.ts";
import { type Answer, type HttpRequest, LIMITS, notAvailable, type OutboundCall, type World } from "./world.ts";

/** A script's request, as it is answered to the script. `lost` hears that it may have arrived, and no answer came. */
export async function request(
  args: Json,
  { lost, ...egress }: Egress & Pick<FetchOptions, "signal"> & { lost?: () => void },
): Promise<Answer> {
  const { url, timeout_ms, ...init } = args as unknown as HttpRequest;
  const fetched = await fetchGuarded(url, init, { ...egress, timeout_ms, max_bytes: LIMITS.call_bytes });
  if ("error" in fetched && fetched.lost) lost?.();
  if ("error" in fetched) return { error: fetched.error };
  const { status, headers, body } = fetched.ok;
  return { ok: { status, headers, body: body as Json } };
}

/**
 * How long a run waits between two turns of its computing, in milliseconds: as long as a turn. A request takes several
 * looks at the event loop, of which it would get one between two turns.
 */
const REST_MS = 10;

/**
 * A world over a `fetch`: requests go through the guard, all else to `platform`, which answers null for what it does
 * not have. Without one, platform functions answer an error result.
 */
export function edgeWorld({
  platform,
  ...egress
}: Egress & {
  platform?: (call: OutboundCall) => Promise<Answer | null>;
}): World {
  return {
    async call(_, call) {
      if (call.name === "requests.request") return request(call.args, egress);
      return (await platform?.(call)) ?? notAvailable(call);
    },
    // As long as a turn computes: a request takes several looks at the event loop, and would get one between two turns.
    rest: () => new Promise((resolve) => setTimeout(resolve, REST_MS)),
    now: () => Date.now(),
    random: () => crypto.getRandomValues(new Uint32Array(1))[0]! / 4294967296,
  };
}
