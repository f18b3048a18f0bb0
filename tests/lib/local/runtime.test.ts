import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { exportJWK, generateKeyPair } from "jose";
import { expect, it } from "vitest";
import {
  COMPUTER_VARIABLES,
  computersOf,
  MODEL_VARIABLES,
  modelsOf,
  TELEMETRY_VARIABLES,
  telemetryOf,
} from "../../../lib/env.ts";
import { ROOT, readGroups } from "../../../lib/local/groups.ts";
import { bundling, makeDocument, startRuntime } from "../../../lib/local/runtime.ts";

/** Whether a group's code signs tokens. */
async function signs(main: string): Promise<boolean> {
  const { outputFiles } = await build({
    entryPoints: [join(ROOT, main)],
    bundle: true,
    write: false,
    format: "esm",
    external: ["cloudflare:*"],
    logLevel: "error",
  });
  return /\bfunction signToken\d*\(/.test(outputFiles[0]!.text);
}

/**
 * KiB that a Worker may take, as it is sent. What every one needs takes some 95; root carries the document of all, and
 * those that are named besides it the zones of schedules, YAML and JSON Schema, or the script language. `ai`, `all`
 * and `objects` carry the providers' packages, too, most of them evaluated on first use.
 */
const MOST: Record<string, number> = {
  ...{
    root: 160,
    all: 860,
    agents: 234,
    routines: 214,
    configs: 240,
    ai: 430,
    sessions: 130,
    events: 120,
    objects: 690,
  },
};
const MOST_OF_OTHERS = 118;

it("keeps each Worker small", { timeout: 180_000 }, async () => {
  await makeDocument();
  const { outputFiles } = await build({ ...bundling(await readGroups()), minify: true });
  const sizes = outputFiles.map(({ path, contents }) => ({
    group: basename(path, ".js"),
    size: gzipSync(contents).length / 1024,
  }));
  expect(sizes.length).toBe((await readGroups()).length);
  expect(sizes.filter(({ group, size }) => size > (MOST[group] ?? MOST_OF_OTHERS))).toEqual([]);
});

it("gives the keys of models, of telemetry and of computers to those Workers that use them, and to no other", {
  timeout: 60_000,
}, async () => {
  const groups = (await readGroups()).map(([group]) => group);
  const secrets = { ISSUERS: "http://agentry.test", DATABASE_URL: "", JWKS: "", PUBLIC_JWKS: "", ROOT_SECRETS: "" };
  const models = Object.fromEntries(MODEL_VARIABLES.map((name) => [name, `a value of ${name}`]));
  const telemetry = Object.fromEntries(TELEMETRY_VARIABLES.map((name) => [name, `a value of ${name}`]));
  const computers = Object.fromEntries(COMPUTER_VARIABLES.map((name) => [name, `a value of ${name}`]));
  const computersDir = join(tmpdir(), "agentry-no-computers");
  const runtime = await startRuntime({ port: 0, secrets, models, telemetry, computers, computersDir, groups });
  try {
    for (const group of groups) {
      const bindings = (await runtime.bindings(group)) as object;
      expect([group, modelsOf(bindings)]).toEqual([group, ["ai", "objects", "all"].includes(group) ? models : {}]);
      const asking = ["agents", "root", "all"].includes(group);
      expect([group, computersOf(bindings), "COMPUTERS" in bindings]).toEqual([group, asking ? computers : {}, asking]);
      expect([group, telemetryOf(bindings)]).toEqual([group, ["objects", "all"].includes(group) ? telemetry : {}]);
    }
  } finally {
    await runtime.close();
  }
});

it("gives the private signing keys to those Workers that sign, and to no other", { timeout: 180_000 }, async () => {
  const groups = await readGroups();
  const { privateKey } = await generateKeyPair("ES256", { extractable: true });
  const { d, ...open } = { ...(await exportJWK(privateKey)), kid: "one" };
  const secrets = {
    ISSUERS: "http://agentry.test",
    DATABASE_URL: "postgresql://agentry_api:none@127.0.0.1:1/none",
    JWKS: JSON.stringify({ keys: [{ ...open, d }] }),
    PUBLIC_JWKS: JSON.stringify({ keys: [open] }),
    ROOT_SECRETS: "a-root-secret-of-a-test-that-asks-nothing",
  };
  const runtime = await startRuntime({ port: 0, secrets, groups: groups.map(([group]) => group) });
  try {
    const given = await Promise.all(
      groups.map(async ([group, worker]) => {
        const bindings = await runtime.bindings(group);
        const verifies = worker.secrets.required.includes("PUBLIC_JWKS");
        expect(JSON.parse((bindings.PUBLIC_JWKS as string) ?? "{}").keys?.[0].kid, group).toBe(
          verifies ? "one" : undefined,
        );
        const texts = Object.values(bindings).filter((binding) => typeof binding === "string");
        return { group, has: texts.some((text) => text.includes(d!)) };
      }),
    );
    const signing = await Promise.all(groups.map(async ([group, { main }]) => ({ group, has: await signs(main) })));
    expect(given).toEqual(signing);
  } finally {
    await runtime.close();
  }
});
