/** What /readyz refuses to serve over. It has a database of its own: the other tests' one must stay ready. */
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MIGRATIONS } from "../../lib/db/version.ts";
import { createApp } from "../../lib/local/apps.ts";
import { keepDoorKeys } from "../../lib/local/door-keys.ts";
import type { Database, NeonServer } from "../../lib/local/neon.ts";
import { DatabaseError, serveNeon } from "../../lib/local/neon.ts";
import { type Runtime, type Secrets, startRuntime } from "../../lib/local/runtime.ts";
import { openEmbedded } from "../harness/database.ts";
import { bearer, caller } from "../harness/index.ts";
import { newRoot, newSigningKey } from "../harness/own.ts";

const newest = MIGRATIONS.at(-1)!;

let database: Database;
let endpoint: NeonServer;
let runtime: Runtime;
let secrets: Secrets;
const root = newRoot();
/** As whom the Worker is served, whatever its connection string says. */
let role = "agentry_api";

/** What the database says to whatever it is asked. */
let failing: DatabaseError | null = null;

beforeAll(async () => {
  database = await openEmbedded();
  // `heir` owns nothing itself: it is a member of the role that does.
  await database.exec(`create role bypassing login bypassrls in role agentry_api;
    create role superuser login superuser nobypassrls;
    create role heir login in role agentry_owner;`);
  const asRole: Database = {
    ...database,
    run: async (_, queries, options) => {
      if (failing) throw failing;
      return database.run(role, queries, options);
    },
  };
  endpoint = await serveNeon(asRole, { password: randomBytes(8).toString("hex"), roles: [role] });
  const DATABASE_URL = endpoint.url(role);
  const JWKS = JSON.stringify({ keys: [await newSigningKey("one")] });
  secrets = { DATABASE_URL, ISSUERS: "http://agentry.test", JWKS, PUBLIC_JWKS: JWKS, ROOT_SECRETS: root };
  await keepDoorKeys(database, root);
  runtime = await startRuntime({ port: 0, groups: ["root"], secrets });
}, 60_000);
afterAll(async () => {
  await runtime.close();
  await endpoint.close();
  await database.close();
});

/** What /readyz says of a Worker that connects as this role. */
async function readyz(as = "agentry_api"): Promise<[number, string]> {
  role = as;
  const { status, body } = await caller({}, runtime.url.origin)("GET", "/readyz");
  return [status, status === 200 ? body.status : body.error.message];
}

describe("GET /readyz", () => {
  it("says ok over the schema of this code, as agentry_api", async () => {
    expect(await readyz()).toEqual([200, "ok"]);
  });

  it.each([
    ["agentry_owner", "owns the tables"],
    ["heir", "owns the tables"],
    ["bypassing", "bypasses row-level security"],
    ["superuser", "bypasses row-level security"],
  ])("answers 503 as the role %s, which %s", async (as, does) => {
    expect(await readyz(as)).toEqual([503, `The role ${as} ${does}. Connect as agentry_api.`]);
  });

  it.each([
    ["a database here", "127.0.0.1", null, 200],
    ["a database elsewhere, behind the local endpoint", "db.example", null, 503],
    [
      "a deployed database, whatever the switch says",
      "127.0.0.1",
      "postgresql://agentry_api:none@db.example/agentry",
      503,
    ],
  ])("where scripts may reach this machine, answers for %s", async (_, allowLoopback, elsewhere, expected) => {
    role = "agentry_api";
    const DATABASE_URL = elsewhere ?? secrets.DATABASE_URL;
    const opened = await startRuntime({
      port: 0,
      groups: ["root"],
      secrets: { ...secrets, DATABASE_URL },
      allowLoopback,
    });
    try {
      const { status, body } = await caller({}, opened.url.origin)("GET", "/readyz");
      expect(status).toBe(expected);
      if (status === 503) expect(body.error.message).toContain("Scripts may reach this machine");
    } finally {
      await opened.close();
    }
  });

  it("answers 503 over a database that doesn't know the newest root secret, and says what to do", async () => {
    await keepDoorKeys(database, newRoot());
    const fault = "The database doesn't know the newest of ROOT_SECRETS. Run npm run migrate with ROOT_SECRETS set.";
    expect(await readyz()).toEqual([503, fault]);
    await keepDoorKeys(database, `${newRoot()},${root}`);
    expect(await readyz()).toEqual([200, "ok"]);
  });

  it("answers 503 over an older schema, and says which migration is missing and what to do", async () => {
    await database.exec(`delete from app.migrations where name = '${newest}'`);
    expect(await readyz()).toEqual([503, `The database has no record of ${newest}. Run npm run migrate.`]);
    await database.exec(`insert into app.migrations (name) values ('${newest}')`);
  });

  it("answers 503 over a newer schema, and says which name this code doesn't know", async () => {
    await database.exec("insert into app.migrations (name) values ('2099-01-01-later')");
    expect(await readyz()).toEqual([
      503,
      "The database is newer than this code: it has 2099-01-01-later. Deploy the code that made it so.",
    ]);
    await database.exec("delete from app.migrations where name = '2099-01-01-later'");
  });

  it("answers 503 over a database that keeps no names: version 1, or one that was never migrated", async () => {
    await database.exec("alter table app.migrations rename to others");
    expect(await readyz()).toEqual([
      503,
      `The database has no record of ${MIGRATIONS.join(", ")}. Run npm run migrate.`,
    ]);
    await database.exec("alter table app.others rename to migrations");
  });
});

describe("a database that can't be reached", () => {
  it.each([
    ["08006", "terminating connection"],
    ["28P01", 'password authentication failed for user "agentry_api"'],
    ["28000", 'role "agentry_api" is not permitted to log in'],
  ])("is a 503 with Retry-After to a ping with a key, and none of the database's words: %s", async (code, message) => {
    role = "agentry_api";
    const { secret_key } = await createApp(database, "Pinged");
    const ping = () => caller(bearer(secret_key), runtime.url.origin)("GET", "/api/v1/status/ping");
    expect((await ping()).body.token).toEqual({ status: "active", active: true });
    failing = new DatabaseError({ code, message, severity: "FATAL" });
    const { status, headers, body, text } = await ping();
    const anonymous = await caller({}, runtime.url.origin)("GET", "/api/v1/status/ping");
    const ready = await readyz();
    failing = null;
    expect([status, headers.get("Retry-After"), body.error.code]).toEqual([503, "1", "unavailable"]);
    expect(text).not.toMatch(/password|agentry_api|terminat|28P01/);
    // Who sent nothing learns that the service is there.
    expect([anonymous.status, anonymous.body.token.status]).toEqual([200, "missing"]);
    expect(ready).toEqual([503, "The database can't be reached, or has no schema."]);
  });
});
