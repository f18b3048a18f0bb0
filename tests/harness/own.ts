import { randomBytes } from "node:crypto";
import { resolve } from "node:path";
import { exportJWK, generateKeyPair } from "jose";
import { createApp } from "../../lib/local/apps.ts";
import { keepDoorKeys } from "../../lib/local/door-keys.ts";
import { type Database, serveNeon } from "../../lib/local/neon.ts";
import { type Runtime, type RuntimeOptions, startRuntime } from "../../lib/local/runtime.ts";
import { newSpKey } from "../../lib/local/sp-key.ts";
import { openDatabase } from "./database.ts";

/** A signing key of this run. */
export async function newSigningKey(kid: string) {
  const { privateKey } = await generateKeyPair("ES256", { extractable: true });
  return { ...(await exportJWK(privateKey)), kid };
}

/** The key of the SAML SPs of all systems of this process: an RSA key takes long to be made. */
const samlKeys = newSpKey().then((key) => JSON.stringify({ keys: [key] }));

export const newRoot = () => randomBytes(32).toString("base64url");

export const ISSUER = "http://agentry.test";

/** Bypasses row-level security: so wall two is taken away, never by a switch in the product. */
const BYPASSING = "agentry_test_bypass";

/** How a system is started with both walls, and with each of the two taken away. */
export const walls = {
  "as deployed": {},
  "row-level security alone": { alias: { "owns.ts": resolve(import.meta.dirname, "owns-everything.ts") } },
  "TenantDb's filters alone": { role: BYPASSING },
} satisfies Record<string, StartOptions>;
export type Walls = keyof typeof walls;

export type StartOptions = Partial<RuntimeOptions> & { role?: string };
export type SigningKey = Awaited<ReturnType<typeof newSigningKey>>;
export type Own = Awaited<ReturnType<typeof ownSystem>>;

const databases = new Map<string, Database>();
/** What stands behind a system that this file's process has started. */
export const databaseOf = (base: string): Database | undefined => databases.get(base);

/**
 * A database of the test's own, whose round trips it can count, and any number of systems over it, each with secrets of
 * its choice.
 */
export async function ownSystem(opening: Promise<Database> = openDatabase()) {
  const database = await opening;
  await database.exec(`do $$ begin
      if not exists (select from pg_roles where rolname = '${BYPASSING}') then
        create role ${BYPASSING} login inherit bypassrls;
        grant agentry_api to ${BYPASSING};
      end if;
    end $$`);
  let requestTrips = 0;
  const counted: Database = {
    ...database,
    run: (role, queries, options) => {
      // What objects do, they do in their own time.
      if (!queries.some(({ query }) => /app\.enter_object.* as org_status/.test(query))) requestTrips++;
      return database.run(role, queries, options);
    },
  };
  const endpoint = await serveNeon(counted, {
    password: randomBytes(8).toString("hex"),
    roles: ["agentry_api", BYPASSING],
  });
  let trips = 0;
  endpoint.server.on("request", () => trips++);
  const runtimes: Runtime[] = [];
  // The database knows every root secret that one of the systems over it has; `root` is for what runs beside them.
  const root = newRoot();
  const known = new Set([root]);
  const keepKeys = () => keepDoorKeys(database, [...known].join(","));
  await keepKeys();
  const start = async (
    keys: SigningKey[],
    roots: string[],
    { role = "agentry_api", ...options }: StartOptions = {},
  ): Promise<string> => {
    // One that is too short to be a secret has no key to copy: a deployment gone wrong.
    for (const one of roots) if (one.length >= 32) known.add(one);
    await keepKeys();
    const open = keys.map(({ d: _, ...key }) => key);
    const runtime = await startRuntime({
      port: 0,
      sso: { SAML_KEYS: await samlKeys },
      ...options,
      secrets: {
        ISSUERS: ISSUER,
        DATABASE_URL: endpoint.url(role),
        JWKS: JSON.stringify({ keys }),
        PUBLIC_JWKS: JSON.stringify({ keys: open }),
        ROOT_SECRETS: roots.join(","),
      },
    });
    runtimes.push(runtime);
    databases.set(runtime.url.origin, database);
    return runtime.url.origin;
  };
  return {
    start,
    database,
    root,
    url: endpoint.url("agentry_api"),
    fireCrons: async () => {
      for (const runtime of runtimes) await runtime.fireCrons();
    },
    trips: () => trips,
    requestTrips: () => requestTrips,
    newApp: () => createApp(database, "Test"),
    close: async () => {
      await Promise.all(runtimes.map((runtime) => runtime.close()));
      await endpoint.close();
      await database.close();
    },
  };
}
