/**
 * One system for the whole run: a database (embedded, or a throw-away one on the server of DATABASE_URL) and the
 * Workers over it as deployed. The isolation walks start systems of their own (tests/harness/own.ts). A small control
 * server lets the tests do what only an operator can: make apps, and look at rows.
 */
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import type { Secrets } from "../../lib/local/runtime.ts";
import { findShown } from "./canary.ts";
import { createTemplate, openDatabase } from "./database.ts";
import { ISSUER, newRoot, newSigningKey, type Own, ownSystem, walls } from "./own.ts";

/** What the test files are given. */
export type System = {
  base: string;
  /** The root Worker over a role that bypasses row-level security: it must say that it isn't ready. */
  typesOnly: string;
  control: string;
  /** Whether a real PostgreSQL stands behind it, so that races are races. */
  concurrent: boolean;
  /** Where its mail is kept. */
  mailDir: string;
  secrets: Pick<Secrets, "ISSUERS" | "JWKS" | "ROOT_SECRETS">;
};
declare module "vitest" {
  export interface ProvidedContext {
    system: System;
  }
}

/** POST /apps makes an app; POST /sql runs one statement as the database's owner. On loopback, while the run lasts. */
async function serveControl({ database, newApp }: Own) {
  const secret = randomBytes(12).toString("hex");
  const server = createServer(async (request, response) => {
    const body = await new Response(request as never).text();
    const answer = async () => {
      if (request.url === `/${secret}/apps`) return newApp();
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
  const { DATABASE_URL } = process.env;
  const template = DATABASE_URL ? await createTemplate(DATABASE_URL) : null;
  // For the files' own: they inherit what stands here.
  if (template) process.env.TEMPLATE = template.name;
  const own = await ownSystem(openDatabase());
  const keys = [await newSigningKey("one"), await newSigningKey("two")];
  const root = newRoot();
  const mailDir = mkdtempSync(join(tmpdir(), "agentry-mail-"));
  const [base, typesOnly] = await Promise.all([
    own.start(keys, [root], { mailDir }),
    own.start(keys, [root], { ...walls["TenantDb's filters alone"], groups: ["root"] }),
  ]);
  const control = await serveControl(own);
  const concurrent = DATABASE_URL !== undefined;
  const secrets = { ISSUERS: ISSUER, JWKS: JSON.stringify({ keys }), ROOT_SECRETS: root };
  project.provide("system", { base, typesOnly, control: control.url, concurrent, mailDir, secrets });
  return async () => {
    control.server.close();
    const shown = await findShown(own.database);
    await own.close();
    await template?.drop();
    rmSync(mailDir, { recursive: true });
    if (shown.length) throw new Error(`secrets of the tests stand in the database:\n${shown.join("\n")}`);
  };
}
