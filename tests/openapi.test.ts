import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { groups } from "../functions/groups.ts";
import { describe } from "../lib/http/openapi.ts";
import { worker } from "../lib/http/worker.ts";
import { readDocument } from "./harness/contract.ts";
import { system } from "./harness/index.ts";
import { ISSUER } from "./harness/own.ts";

const root = resolve(import.meta.dirname, "..");

it("is that of the routes as they are, at the host that was asked", async () => {
  const { document } = await readDocument(system.base);
  const made = JSON.parse(JSON.stringify(await describe(worker(...Object.values(groups).flat()))));
  expect(document).toEqual({ ...made, servers: [{ url: ISSUER }] });
});

it("is linted by Redocly without a warning", async () => {
  const { document } = await readDocument(system.base);
  const dir = await mkdtemp(join(tmpdir(), "agentry-openapi-"));
  try {
    const file = join(dir, "openapi.json");
    await writeFile(file, JSON.stringify(document));
    // `…/agent_routines/runs/{run}` beside `…/agent_routines/{routine}/runs` is the contract's: no id is "runs".
    const { stdout } = await promisify(execFile)(
      process.execPath,
      [
        join(root, "node_modules/@redocly/cli/bin/cli.js"),
        "lint",
        file,
        "--format=json",
        "--skip-rule=no-ambiguous-paths",
        // What leads a browser on answers 303.
        "--skip-rule=operation-2xx-response",
      ],
      {
        cwd: dir,
        env: { ...process.env, REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true" },
        maxBuffer: 1e8,
      },
    ).catch((failed: { stdout: string }) => failed);
    const { totals, problems } = JSON.parse(stdout);
    // /healthz takes nothing that could be at fault; everything else does.
    expect(problems.map(({ message, location }: any) => `${message} ${location?.[0]?.pointer}`)).toEqual([]);
    expect(totals).toMatchObject({ errors: 0, warnings: 0 });
  } finally {
    await rm(dir, { recursive: true });
  }
});

it("says of every operation who may, what comes in and what goes out", async () => {
  const { document } = await readDocument(system.base);
  const operations = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ path, method, ...(operation as any) })),
  );
  const open = operations.filter(({ security }) => security.length === 0).map(({ path }) => path);
  expect(open.sort()).toEqual([
    "/.well-known/jwks.json",
    "/.well-known/oauth-authorization-server",
    "/api/v1/agent_computers/{computer}/screen",
    "/api/v1/auth/allowed_auth_methods",
    "/api/v1/auth/refresh",
    "/api/v1/invitations/accept",
    "/api/v1/status/ping",
    "/healthz",
    "/hooks/{token}",
    ...["/oauth/device/authorize", "/oauth/revoke", "/oauth/scopes", "/oauth/token"],
    "/openapi.json",
    "/readyz",
    ...["acs", "backchannel", "callback", "finish", "logout", "logout", "metadata", "slo", "slo", "start"].map(
      (path) => `/sso/{app}/{sandbox}/{org}/${path}`,
    ),
  ]);
  for (const { path, method, responses, requestBody, ...operation } of operations) {
    const what = `${method} ${path}`;
    const permission = operation["x-permission"];
    // A visitor has a key that says of which app, and may nothing yet; a SCIM token has one door, and no scopes.
    const visits = operation.security.some((one: object) => "publishable_key" in one);
    expect(Boolean(permission), what).toBe(!open.includes(path) && !visits && !path.startsWith("/scim/"));
    expect(
      Object.keys(responses).some((status) => /^[23]/.test(status)),
      what,
    ).toBe(true);
    if (permission) expect(Object.keys(responses), what).toEqual(expect.arrayContaining(["401", "403"]));
    if (["put", "patch"].includes(method)) expect(requestBody, what).toBeTruthy();
  }
  const ids = operations.map(({ operationId }) => operationId);
  expect(new Set(ids).size).toBe(ids.length);
});
