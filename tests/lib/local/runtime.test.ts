import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { exportJWK, generateKeyPair } from "jose";
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  COMPUTER_VARIABLES,
  computersOf,
  MODEL_VARIABLES,
  modelsOf,
  SSO_VARIABLES,
  ssoOf,
  TELEMETRY_VARIABLES,
  telemetryOf,
} from "../../../lib/env.ts";
import { readGroups } from "../../../lib/local/groups.ts";
import { bundling, makeDocument, type Runtime, startRuntime } from "../../../lib/local/runtime.ts";

/**
 * KiB that a Worker may take, as it is sent. What every one needs, the doors of each credential among it, takes some 96; root carries the document of all, and
 * those that are named besides it the zones of schedules, YAML and JSON Schema, or the script language. `ai`, `all`
 * and `objects` carry the providers' packages, too, most of them evaluated on first use.
 */
const MOST: Record<string, number> = {
  ...{
    root: 176,
    all: 912,
    agents: 236,
    // SAML and OpenID Connect; what sets them up fetches metadata, reads certificates, and mails the owners.
    ...{ sso: 128, developer: 138, people: 134 },
    routines: 216,
    configs: 242,
    ai: 430,
    sessions: 130,
    events: 120,
    // It remembers the webhooks that it has seen, for a round trip less.
    hooks: 122,
    objects: 690,
  },
};
const MOST_OF_OTHERS = 121;

const groups = await readGroups();

it("keeps each Worker small", { timeout: 180_000 }, async () => {
  await makeDocument();
  // As wrangler makes them: lines that break are for who looks at a stack here.
  const { outputFiles } = await build({ ...bundling(groups), minify: true, lineLimit: 0 });
  const sizes = outputFiles.map(({ path, contents }) => ({
    group: basename(path, ".js"),
    size: gzipSync(contents).length / 1024,
  }));
  expect(sizes.length).toBe(groups.length);
  expect(sizes.filter(({ group, size }) => size > (MOST[group] ?? MOST_OF_OTHERS))).toEqual([]);
});

/** What Workers are given: all of them, and nobody asks. */
const { privateKey } = await generateKeyPair("ES256", { extractable: true });
const { d, ...open } = { ...(await exportJWK(privateKey)), kid: "one" };
const models = Object.fromEntries(MODEL_VARIABLES.map((name) => [name, `a value of ${name}`]));
const telemetry = Object.fromEntries(TELEMETRY_VARIABLES.map((name) => [name, `a value of ${name}`]));
const computers = Object.fromEntries(COMPUTER_VARIABLES.map((name) => [name, `a value of ${name}`]));
const sso = Object.fromEntries(SSO_VARIABLES.map((name) => [name, `a value of ${name}`]));
let runtime: Runtime;
beforeAll(async () => {
  runtime = await startRuntime({
    ...{ port: 0, models, telemetry, computers, sso, computersDir: join(tmpdir(), "agentry-no-computers") },
    groups: groups.map(([group]) => group),
    secrets: {
      ISSUERS: "http://agentry.test",
      DATABASE_URL: "postgresql://agentry_api:none@127.0.0.1:1/none",
      JWKS: JSON.stringify({ keys: [{ ...open, d }] }),
      PUBLIC_JWKS: JSON.stringify({ keys: [open] }),
      ROOT_SECRETS: "a-root-secret-of-a-test-that-asks-nothing",
    },
  });
}, 180_000);
afterAll(() => runtime?.close());

it("gives the keys of models, of telemetry, of computers and of SAML to those Workers that use them, and to no other", async () => {
  for (const [group] of groups) {
    const bindings = (await runtime.bindings(group)) as object;
    expect([group, modelsOf(bindings)]).toEqual([group, ["ai", "objects", "all"].includes(group) ? models : {}]);
    const asking = ["agents", "root", "all"].includes(group);
    expect([group, computersOf(bindings), "COMPUTERS" in bindings]).toEqual([group, asking ? computers : {}, asking]);
    expect([group, ssoOf(bindings)]).toEqual([group, ["sso", "all"].includes(group) ? sso : {}]);
    expect([group, telemetryOf(bindings)]).toEqual([group, ["objects", "all"].includes(group) ? telemetry : {}]);
  }
});

it("gives the private signing keys to those Workers that sign, and to no other", { timeout: 180_000 }, async () => {
  const has = await Promise.all(
    groups.map(async ([group, worker]) => {
      const bindings = await runtime.bindings(group);
      const verifies = worker.secrets.required.includes("PUBLIC_JWKS");
      expect(JSON.parse((bindings.PUBLIC_JWKS as string) ?? "{}").keys?.[0].kid, group).toBe(
        verifies ? "one" : undefined,
      );
      const texts = Object.values(bindings).filter((binding) => typeof binding === "string");
      return [group, texts.some((text) => text.includes(d!))];
    }),
  );
  const { outputFiles } = await build(bundling(groups));
  const code = new Map(outputFiles.map(({ path, text }) => [basename(path, ".js"), text]));
  const signs = (group: string) => /\bfunction signToken\d*\(/.test(code.get(group)!);
  expect(has).toEqual(groups.map(([group]) => [group, signs(group)]));
});
