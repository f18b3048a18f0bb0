import { randomBytes } from "node:crypto";
import { exportJWK, generateKeyPair } from "jose";
import { createApp } from "../../lib/local/apps.ts";
import { keepDoorKeys } from "../../lib/local/door-keys.ts";
import { serveNeon } from "../../lib/local/neon.ts";
import { openPglite } from "../../lib/local/pglite.ts";
import { type Runtime, type RuntimeOptions, startRuntime } from "../../lib/local/runtime.ts";
import { migrate } from "../../lib/local/schema.ts";

/** A signing key of this run. */
export async function newSigningKey(kid: string) {
  const { privateKey } = await generateKeyPair("ES256", { extractable: true });
  return { ...(await exportJWK(privateKey)), kid };
}

export const newRoot = () => randomBytes(32).toString("base64url");

/**
 * A database of the test's own, whose round trips it can count, and any number of systems over it, each with secrets
 * of its choice.
 */
export async function ownSystem() {
  const database = await openPglite();
  await migrate(database);
  const endpoint = await serveNeon(database, { password: randomBytes(8).toString("hex"), roles: ["agentry_api"] });
  let trips = 0;
  endpoint.server.on("request", () => trips++);
  const runtimes: Runtime[] = [];
  const known = new Set<string>();
  const start = async (
    keys: Awaited<ReturnType<typeof newSigningKey>>[],
    roots: string[],
    options: Partial<RuntimeOptions> = {},
  ): Promise<string> => {
    for (const root of roots) known.add(root);
    await keepDoorKeys(database, [...known].join(","));
    const open = keys.map(({ d: _, ...key }) => key);
    const runtime = await startRuntime({
      port: 0,
      ...options,
      secrets: {
        ISSUERS: "http://agentry.test",
        DATABASE_URL: endpoint.url("agentry_api"),
        JWKS: JSON.stringify({ keys }),
        PUBLIC_JWKS: JSON.stringify({ keys: open }),
        ROOT_SECRETS: roots.join(","),
      },
    });
    runtimes.push(runtime);
    return runtime.url.origin;
  };
  return {
    start,
    database,
    url: endpoint.url("agentry_api"),
    fireCrons: async () => {
      for (const runtime of runtimes) await runtime.fireCrons();
    },
    trips: () => trips,
    newApp: () => createApp(database, "Own"),
    close: async () => {
      await Promise.all(runtimes.map((runtime) => runtime.close()));
      await endpoint.close();
      await database.close();
    },
  };
}
