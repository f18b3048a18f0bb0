/**
 * One system for the whole run: a database (embedded, or a throw-away one on the server of DATABASE_URL) and the
 * Workers over it three times: as deployed, without wall one (the types), without wall two (row security). A small
 * control server lets the tests do what only an operator can: make apps, and look at rows.
 */
import { randomBytes } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { resolve } from "node:path";
import { exportJWK, generateKeyPair } from "jose";
import type { TestProject } from "vitest/node";
import { createApp } from "../../lib/local/apps.ts";
import { keepDoorKeys } from "../../lib/local/door-keys.ts";
import { type Database, serveNeon } from "../../lib/local/neon.ts";
import { openPglite } from "../../lib/local/pglite.ts";
import { openPostgres } from "../../lib/local/postgres.ts";
import { type Secrets, startRuntime } from "../../lib/local/runtime.ts";
import { migrate } from "../../lib/local/schema.ts";

/** What the test files are given. */
export type System = {
  /** Base URLs: as deployed; row security alone; TenantDb's filters alone. */
  base: string;
  rowsOnly: string;
  typesOnly: string;
  control: string;
  /** Whether a real PostgreSQL stands behind it, so that races are races. */
  concurrent: boolean;
  secrets: Pick<Secrets, "ISSUERS" | "JWKS" | "ROOT_SECRETS">;
};
declare module "vitest" {
  export interface ProvidedContext {
    system: System;
  }
}

const ISSUER = "http://agentry.test";
const BYPASSING = "agentry_test_bypass";

/** A database that nobody else uses, and what removes it again. */
async function openDatabase(): Promise<{ database: Database; remove: () => Promise<void> }> {
  const url = process.env.DATABASE_URL;
  if (!url) return { database: await openPglite(), remove: async () => {} };
  const name = `agentry_test_${randomBytes(6).toString("hex")}`;
  const server = await openPostgres(url);
  await server.exec(`create database ${name}`);
  const own = new URL(url);
  own.pathname = name;
  const remove = async () => {
    await server.exec(`drop database ${name} with (force)`);
    await server.close();
  };
  return { database: await openPostgres(own.href), remove };
}

/** Keys and secrets of this run alone. */
async function newSecrets() {
  const keys = await Promise.all(
    ["one", "two"].map(async (kid) => {
      const { privateKey, publicKey } = await generateKeyPair("ES256", { extractable: true });
      return { private: { ...(await exportJWK(privateKey)), kid }, public: { ...(await exportJWK(publicKey)), kid } };
    }),
  );
  return {
    ISSUERS: ISSUER,
    JWKS: JSON.stringify({ keys: keys.map((key) => key.private) }),
    PUBLIC_JWKS: JSON.stringify({ keys: keys.map((key) => key.public) }),
    ROOT_SECRETS: randomBytes(32).toString("base64url"),
  };
}

/** POST /apps makes an app; POST /sql runs one statement as the database's owner. On loopback, while the run lasts. */
async function serveControl(database: Database) {
  const secret = randomBytes(12).toString("hex");
  const server = createServer(async (request, response) => {
    const body = await new Response(request as never).text();
    const answer = async () => {
      if (request.url === `/${secret}/apps`) return createApp(database, "Test");
      if (request.url !== `/${secret}/sql`) throw new Error("no such address");
      const { sql, params } = JSON.parse(body);
      return database.query(sql, params);
    };
    const [status, json] = await answer().then(
      (found) => [200, found] as const,
      (error) => [500, { error: String(error) }] as const,
    );
    response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(json));
  });
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/${secret}`, server };
}

export default async function setup(project: TestProject) {
  const { database, remove } = await openDatabase();
  await migrate(database);
  // Wall two is taken away by a role that bypasses it, never by a switch in the product.
  await database.exec(`do $$ begin
      if not exists (select from pg_roles where rolname = '${BYPASSING}') then create role ${BYPASSING} login bypassrls; end if;
    end $$; grant agentry_api to ${BYPASSING}; alter role ${BYPASSING} inherit;`);
  const endpoint = await serveNeon(database, {
    password: randomBytes(8).toString("hex"),
    roles: ["agentry_api", BYPASSING],
  });
  const secrets = await newSecrets();
  await keepDoorKeys(database, secrets.ROOT_SECRETS);
  const as = (role: string): Secrets => ({ ...secrets, DATABASE_URL: endpoint.url(role) });
  const everythingOwned = resolve(import.meta.dirname, "owns-everything.ts");
  const runtimes = await Promise.all([
    startRuntime({ port: 0, secrets: as("agentry_api") }),
    startRuntime({ port: 0, secrets: as("agentry_api"), alias: { "owns.ts": everythingOwned } }),
    startRuntime({ port: 0, secrets: as(BYPASSING) }),
  ]);
  const control = await serveControl(database);
  const [base, rowsOnly, typesOnly] = runtimes.map(({ url }) => url.origin) as [string, string, string];
  const concurrent = process.env.DATABASE_URL !== undefined;
  project.provide("system", { base, rowsOnly, typesOnly, control: control.url, concurrent, secrets });
  return async () => {
    await Promise.all(runtimes.map((runtime) => runtime.close()));
    control.server.close();
    await endpoint.close();
    await database.close();
    await remove();
  };
}
