import * as v from "valibot";
import { keysOf } from "../../lib/auth/tokens.ts";
import { faultsOfDatabase } from "../../lib/db/ready.ts";
import type { Bindings } from "../../lib/env.ts";
import { ApiError } from "../../lib/errors.ts";
import { gives } from "../../lib/http/gives.ts";
import { isLoopback } from "../../lib/http/guard.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";

const health = router();
const ok = v.strictObject({ status: v.literal("ok") });

/** The process answers; nothing else is checked. */
health.get("/healthz", named("Tell whether the process answers"), gives(200, ok), (c) =>
  c.var.answer({ status: "ok" }),
);

/**
 * It may serve: the role is one that row-level security holds, the schema is of this version, the database knows the
 * newest root secret, there is a signing key.
 */
health.get("/readyz", named("Tell whether requests can be served"), gives(200, ok, 503), async (c) => {
  const faults = [
    ...faultsOfKeys(c.env.PUBLIC_JWKS),
    ...faultsOfEgress(c.env),
    ...(await faultsOfDatabase(c.env.DATABASE_URL, c.env.ROOT_SECRETS).catch(unreachable)),
  ];
  if (faults.length) throw new ApiError(503, "not_ready", faults.join(" "));
  return c.var.answer({ status: "ok" });
});

function faultsOfKeys(jwks: string): string[] {
  try {
    keysOf(jwks);
    return [];
  } catch {
    return ["PUBLIC_JWKS is no set of P-256 keys, each with a kid."];
  }
}

/** What is for development must not come along to where others' data is. */
function faultsOfEgress({ ALLOW_LOOPBACK, DATABASE_URL }: Bindings): string[] {
  if (ALLOW_LOOPBACK === undefined) return [];
  const hosts = [ALLOW_LOOPBACK, URL.parse(DATABASE_URL)?.hostname ?? ""];
  return hosts.every(isLoopback) ? [] : ["Scripts may reach this machine, which is for a database on this machine."];
}

/** The driver's own words could name hosts and users: they go to the log. */
function unreachable(error: unknown): string[] {
  console.error(JSON.stringify({ readyz: String(error) }));
  return ["The database can't be reached, or has no schema."];
}

export default health;
